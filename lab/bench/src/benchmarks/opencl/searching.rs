//! Cases of sorts, hashes, chance, graphs and pictures.

use super::case::{Case, Data, Entry, Given, Kind, Size};
use super::case::{below, bytes, float, floats, fractions, int, ints, launch, out, random, signed};
use super::case::{size, small, uint, words};
use Given::{At, Both, In, Local};

const SORTS: &str = include_str!("kernels/sorts.cl");
const CIPHERS: &str = include_str!("kernels/ciphers.cl");
const PHYSICS: &str = include_str!("kernels/physics.cl");
const GRAPHS: &str = include_str!("kernels/graphs.cl");
const PICTURES: &str = include_str!("kernels/pictures.cl");

/// A sum of groups of 256 numbers.
fn group_sums(s: Size, kernel: &'static str) -> Case {
    let n = s.of(1 << 22, 1 << 12);
    let arguments = vec![In(signed(1, n)), out(Kind::Float, n / 256), Local(1024)];
    Case::one(SORTS, kernel, &[n], &[256], arguments).within(1e-3)
}

/// Messages of 16 words, and so many words of each that come out.
fn hash(s: Size, kernel: &'static str, results: usize, local: usize) -> Case {
    let n = s.of(1 << 17, 1 << 10);
    let arguments = vec![In(words(1, n * 16)), out(Kind::Int, n * results)];
    Case::one(CIPHERS, kernel, &[n], &[local], arguments)
}

/// Words in, and words out.
fn of_words(kernel: &'static str, n: usize, each: usize) -> Case {
    let arguments = vec![In(words(1, n * each)), out(Kind::Int, n)];
    Case::one(CIPHERS, kernel, &[n], &[128], arguments)
}

fn sorted(mut numbers: Vec<i32>, each: usize) -> Data {
    numbers.chunks_mut(each).for_each(<[i32]>::sort_unstable);
    ints(numbers)
}

fn gravity(s: Size, kernel: &'static str) -> Case {
    let n = s.of(4096, 128);
    let arguments = vec![size(n), In(fractions(1, n * 4)), out(Kind::Float, n * 4)];
    Case::one(PHYSICS, kernel, &[n], &[64], arguments).within(1e-2)
}

/// A sparse square matrix: where rows start, and columns.
fn sparse(n: usize, most: u32) -> (Vec<i32>, Vec<i32>) {
    let mut numbers = random(9);
    let mut next = |bound: u32| numbers.next().map_or(0, |number| number % bound) as i32;
    let (mut starts, mut columns) = (vec![0], Vec::new());
    for _ in 0..n {
        for _ in 0..next(most) {
            columns.push(next(n as u32));
        }
        starts.push(columns.len() as i32);
    }
    (starts, columns)
}

fn compressed(s: Size, kernel: &'static str, each: usize, most: u32, local: usize) -> Case {
    let n = s.of(1 << 15, 1 << 8);
    let (starts, columns) = sparse(n, most);
    let arguments = vec![
        In(ints(starts)),
        In(ints(columns.iter().copied())),
        In(signed(1, columns.len())),
        In(signed(2, n)),
        out(Kind::Float, n),
    ];
    Case::one(GRAPHS, kernel, &[n * each], &[local], arguments).within(1e-3)
}

/// A picture of one number for each pixel, whose loops end by rounded numbers.
fn picture(s: Size, kernel: &'static str, side: usize, kind: Kind, given: Vec<Given>) -> Case {
    let side = s.of(side, 32);
    let mut arguments = given;
    arguments.push(out(kind, side * side));
    Case::one(PICTURES, kernel, &[side, side], &[16, 16], arguments).but_for(0.01)
}

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "bitonic-local",
        make: |s| {
            let n = s.of(1 << 18, 1 << 10);
            Case::one(
                SORTS,
                "bitonic_local",
                &[n / 2],
                &[256],
                vec![Both(words(1, n))],
            )
        },
    },
    Entry {
        name: "bitonic-global",
        make: |s| {
            let n = s.of(1 << 16, 1 << 9);
            let mut launches = Vec::new();
            for length in (1..=n.ilog2()).map(|power| 1 << power) {
                for step in (0..usize::ilog2(length)).rev().map(|power| 1 << power) {
                    let arguments = vec![size(length), size(step), At(0)];
                    launches.push(launch("bitonic_step", &[n / 2], &[256], arguments));
                }
            }
            Case::many(SORTS, vec![Both(words(1, n))], launches)
        },
    },
    Entry {
        name: "odd-even-local",
        make: |s| {
            let n = s.of(1 << 16, 1 << 9);
            Case::one(
                SORTS,
                "odd_even_local",
                &[n / 2],
                &[64],
                vec![Both(words(1, n))],
            )
        },
    },
    Entry {
        name: "radix-sort",
        make: |s| {
            let n = s.of(1 << 16, 1 << 10);
            let groups = n / 128;
            let mut launches = Vec::new();
            for pass in 0..8 {
                let (from, to) = (At(pass % 2), At(1 - pass % 2));
                let shift = size(4 * pass);
                let count = vec![shift.clone(), from.clone(), At(2)];
                launches.push(launch("radix_count", &[n], &[128], count));
                let starts = vec![size(groups), At(2)];
                launches.push(launch("radix_starts", &[16], &[16], starts));
                let scatter = vec![shift, from, At(2), to];
                launches.push(launch("radix_scatter", &[n], &[128], scatter));
            }
            let memory = vec![
                Both(words(1, n)),
                out(Kind::Int, n),
                out(Kind::Int, 16 * groups),
            ];
            Case::many(SORTS, memory, launches)
        },
    },
    Entry {
        name: "radix-count",
        make: |s| {
            let n = s.of(1 << 20, 1 << 10);
            let arguments = vec![int(4), In(words(1, n)), out(Kind::Int, n / 8)];
            Case::one(SORTS, "radix_count", &[n], &[128], arguments)
        },
    },
    Entry {
        name: "merge-local",
        make: |s| {
            let n = s.of(1 << 20, 1 << 10);
            let numbers = random(1).take(n).map(|number| number as i32).collect();
            let arguments = vec![In(sorted(numbers, 128)), out(Kind::Int, n)];
            Case::one(SORTS, "merge_local", &[n], &[256], arguments)
        },
    },
    Entry {
        name: "rank-sort",
        make: |s| {
            let n = s.of(1 << 13, 1 << 8);
            let arguments = vec![size(n), In(fractions(1, n)), out(Kind::Float, n)];
            Case::one(SORTS, "rank_sort", &[n], &[64], arguments)
        },
    },
    Entry {
        name: "scan-hillis-steele",
        make: |s| {
            let n = s.of(1 << 20, 1 << 10);
            let arguments = vec![
                In(below(100, 1, n)),
                out(Kind::Int, n),
                out(Kind::Int, n / 256),
            ];
            Case::one(SORTS, "scan_hillis_steele", &[n], &[256], arguments)
        },
    },
    Entry {
        name: "scan-blelloch",
        make: |s| {
            let n = s.of(1 << 20, 1 << 10);
            let arguments = vec![In(below(100, 1, n)), out(Kind::Int, n)];
            Case::one(SORTS, "scan_blelloch", &[n / 2], &[256], arguments)
        },
    },
    Entry {
        name: "scan-add",
        make: |s| {
            let n = s.of(1 << 22, 1 << 10);
            let arguments = vec![In(below(100, 1, n / 256)), Both(below(100, 2, n))];
            Case::one(SORTS, "scan_add", &[n], &[256], arguments)
        },
    },
    Entry {
        name: "histogram-local",
        make: |s| {
            let (n, groups) = (s.of(1 << 21, 1 << 12), s.of(64, 4));
            let arguments = vec![
                size(n),
                In(small(256, 1, n)),
                Both(ints(std::iter::repeat_n(0, 256))),
            ];
            Case::one(SORTS, "histogram_local", &[groups * 256], &[256], arguments)
        },
    },
    Entry {
        name: "histogram-global",
        make: |s| {
            let n = s.of(1 << 18, 1 << 12);
            let arguments = vec![
                In(small(256, 1, n)),
                Both(ints(std::iter::repeat_n(0, 256))),
            ];
            Case::one(SORTS, "histogram_global", &[n], &[256], arguments)
        },
    },
    Entry {
        name: "histogram-private",
        make: |s| {
            let (n, each) = (s.of(1 << 14, 1 << 8), 128);
            let arguments = vec![
                size(each),
                In(small(256, 1, n * each)),
                out(Kind::Int, n * 16),
            ];
            Case::one(SORTS, "histogram_private", &[n], &[64], arguments)
        },
    },
    Entry {
        name: "reduce-tree",
        make: |s| group_sums(s, "reduce_tree"),
    },
    Entry {
        name: "reduce-interleaved",
        make: |s| group_sums(s, "reduce_interleaved"),
    },
    Entry {
        name: "reduce-sequential",
        make: |s| {
            let (n, each) = (s.of(1 << 16, 1 << 8), 64);
            let arguments = vec![size(each), In(signed(1, n * each)), out(Kind::Float, n)];
            Case::one(SORTS, "reduce_sequential", &[n], &[64], arguments).within(1e-3)
        },
    },
    Entry {
        name: "reduce-extremes",
        make: |s| {
            let (n, groups) = (s.of(1 << 22, 1 << 12), s.of(128, 4));
            let arguments = vec![
                size(n),
                In(signed(1, n)),
                out(Kind::Float, groups),
                out(Kind::Int, groups),
            ];
            // Of several that are largest, any may be named.
            Case::one(SORTS, "reduce_extremes", &[groups * 128], &[128], arguments).but_for(0.1)
        },
    },
    Entry {
        name: "reduce-segments",
        make: |s| {
            let n = s.of(1 << 16, 1 << 8);
            let (starts, columns) = sparse(n, 64);
            let arguments = vec![
                In(ints(starts)),
                In(signed(1, columns.len())),
                out(Kind::Float, n),
            ];
            Case::one(SORTS, "reduce_segments", &[n], &[64], arguments).within(1e-3)
        },
    },
    Entry {
        name: "compact",
        make: |s| {
            let n = s.of(1 << 20, 1 << 10);
            let arguments = vec![
                float(0.25),
                In(signed(1, n)),
                out(Kind::Float, n),
                out(Kind::Int, n / 256),
            ];
            Case::one(SORTS, "compact_groups", &[n], &[256], arguments)
        },
    },
    Entry {
        name: "fnv",
        make: |s| hash(s, "fnv", 1, 64),
    },
    Entry {
        name: "murmur",
        make: |s| hash(s, "murmur", 1, 64),
    },
    Entry {
        name: "crc32-bits",
        make: |s| hash(s, "crc32_bits", 1, 128),
    },
    Entry {
        name: "crc32-table",
        make: |s| hash(s, "crc32_table", 1, 256),
    },
    Entry {
        name: "md5",
        make: |s| hash(s, "md5", 4, 64),
    },
    Entry {
        name: "sha256",
        make: |s| hash(s, "sha256", 8, 64),
    },
    Entry {
        name: "chacha20",
        make: |s| {
            let n = s.of(1 << 16, 1 << 9);
            let arguments = vec![uint(7), In(words(1, n * 16)), out(Kind::Int, n * 16)];
            Case::one(CIPHERS, "chacha20", &[n], &[64], arguments)
        },
    },
    Entry {
        name: "xtea",
        make: |s| {
            let n = s.of(1 << 18, 1 << 10);
            let key = words(3, 4).bytes;
            let arguments = vec![
                Given::Value(key),
                In(words(1, n * 2)),
                out(Kind::Int, n * 2),
            ];
            Case::one(CIPHERS, "xtea", &[n], &[128], arguments)
        },
    },
    Entry {
        name: "permuted-stream",
        make: |s| {
            let (n, length) = (s.of(1 << 11, 1 << 7), 256);
            let arguments = vec![
                size(length),
                In(small(256, 1, n * 16)),
                out(Kind::Byte, n * length),
            ];
            Case::one(CIPHERS, "permuted_stream", &[n], &[64], arguments)
        },
    },
    Entry {
        name: "table-rounds",
        make: |s| {
            let n = s.of(1 << 17, 1 << 9);
            let arguments = vec![
                In(words(1, 256)),
                In(words(2, 40)),
                In(words(3, n * 4)),
                out(Kind::Int, n * 4),
            ];
            Case::one(CIPHERS, "table_rounds", &[n], &[128], arguments)
        },
    },
    Entry {
        name: "count-bits",
        make: |s| of_words("count_bits", s.of(1 << 22, 1 << 10), 1),
    },
    Entry {
        name: "reverse-bits",
        make: |s| of_words("reverse_bits", s.of(1 << 22, 1 << 10), 1),
    },
    Entry {
        name: "morton",
        make: |s| of_words("morton", s.of(1 << 22, 1 << 10), 1),
    },
    Entry {
        name: "collatz",
        make: |s| {
            let n = s.of(1 << 17, 1 << 9);
            Case::one(CIPHERS, "collatz", &[n], &[64], vec![out(Kind::Int, n)])
        },
    },
    Entry {
        name: "greatest-divisor",
        make: |s| {
            let n = s.of(1 << 17, 1 << 9);
            let arguments = vec![In(words(1, n)), In(words(2, n)), out(Kind::Int, n)];
            Case::one(CIPHERS, "greatest_divisor", &[n], &[64], arguments)
        },
    },
    Entry {
        name: "smallest-factor",
        make: |s| {
            let n = s.of(1 << 14, 1 << 8);
            let arguments = vec![uint(10_000_000), out(Kind::Int, n)];
            Case::one(CIPHERS, "smallest_factor", &[n], &[64], arguments)
        },
    },
    Entry {
        name: "modular-power",
        make: |s| {
            let n = s.of(1 << 15, 1 << 8);
            let arguments = vec![uint(1_000_000_007), In(words(1, n)), out(Kind::Int, n)];
            Case::one(CIPHERS, "modular_power", &[n], &[64], arguments)
        },
    },
    Entry {
        name: "nbody-float4",
        make: |s| gravity(s, "nbody_float4"),
    },
    Entry {
        name: "nbody-scalars",
        make: |s| {
            let n = s.of(4096, 128);
            let mut arguments = vec![size(n)];
            arguments.extend((1..5).map(|seed| In(fractions(seed, n))));
            arguments.extend((0..3).map(|_| out(Kind::Float, n)));
            Case::one(PHYSICS, "nbody_scalars", &[n], &[64], arguments).within(1e-2)
        },
    },
    Entry {
        name: "nbody-tiled",
        make: |s| gravity(s, "nbody_tiled"),
    },
    Entry {
        name: "lennard-jones",
        make: |s| {
            let (n, most) = (s.of(1 << 14, 1 << 8), s.of(64, 8));
            let arguments = vec![
                size(most),
                float(0.2),
                In(fractions(1, n * 4)),
                In(below(n as u32, 2, n * most)),
                out(Kind::Float, n * 4),
            ];
            Case::one(PHYSICS, "lennard_jones", &[n], &[64], arguments).within(1e-2)
        },
    },
    Entry {
        name: "verlet",
        make: |s| {
            let n = s.of(1 << 19, 1 << 10);
            let arguments = vec![
                float(0.01),
                In(signed(1, n * 4)),
                Both(fractions(2, n * 4)),
                Both(signed(3, n * 4)),
            ];
            Case::one(PHYSICS, "verlet", &[n], &[64], arguments).but_for(1e-4)
        },
    },
    Entry {
        name: "xorshift",
        make: |s| {
            let n = s.of(1 << 17, 1 << 10);
            Case::one(
                PHYSICS,
                "xorshift",
                &[n],
                &[128],
                vec![int(200), Both(words(1, n))],
            )
        },
    },
    Entry {
        name: "philox",
        make: |s| {
            let n = s.of(1 << 19, 1 << 10);
            let arguments = vec![uint(99), out(Kind::Int, n * 4)];
            Case::one(PHYSICS, "philox", &[n], &[128], arguments)
        },
    },
    Entry {
        name: "box-muller",
        make: |s| {
            let n = s.of(1 << 19, 1 << 10);
            let arguments = vec![In(fractions(1, n * 2)), out(Kind::Float, n * 2)];
            Case::one(PHYSICS, "box_muller", &[n], &[128], arguments)
        },
    },
    Entry {
        name: "count-in-circle",
        make: |s| {
            let n = s.of(1 << 14, 1 << 8);
            let arguments = vec![int(500), out(Kind::Int, n)];
            Case::one(PHYSICS, "count_in_circle", &[n], &[64], arguments)
        },
    },
    Entry {
        name: "black-scholes",
        make: |s| {
            let n = s.of(1 << 19, 1 << 10);
            let mut arguments = vec![float(0.02), float(0.3)];
            arguments.extend((1..4).map(|seed| In(fractions(seed, n))));
            arguments.extend((0..2).map(|_| out(Kind::Float, n)));
            Case::one(PHYSICS, "black_scholes", &[n], &[128], arguments).within(1e-3)
        },
    },
    Entry {
        name: "asian-option",
        make: |s| {
            let n = s.of(1 << 11, 1 << 7);
            let arguments = vec![
                int(8),
                int(32),
                float(0.001),
                float(0.02),
                out(Kind::Float, n),
            ];
            Case::one(PHYSICS, "asian_option", &[n], &[64], arguments).within(1e-3)
        },
    },
    Entry {
        name: "binomial-option",
        make: |s| {
            let n = s.of(512, 4);
            let arguments = vec![
                float(1.01),
                float(1.0 / 1.01),
                float(0.51),
                float(0.9999),
                In(fractions(1, n)),
                out(Kind::Float, n),
            ];
            Case::one(PHYSICS, "binomial_option", &[n * 256], &[256], arguments).within(1e-2)
        },
    },
    Entry {
        name: "random-walk",
        make: |s| {
            let n = s.of(1 << 14, 1 << 8);
            let side = 256;
            let blocked = random(1)
                .take(side * side)
                .map(|number| (number % 7 == 0) as u8);
            let arguments = vec![
                int(200),
                size(side),
                In(bytes(blocked)),
                out(Kind::Int, n * 2),
            ];
            Case::one(PHYSICS, "random_walk", &[n], &[64], arguments)
        },
    },
    Entry {
        name: "csr-rows",
        make: |s| compressed(s, "csr_rows", 1, 64, 64),
    },
    Entry {
        name: "csr-groups",
        make: |s| compressed(s, "csr_groups", 32, 128, 32),
    },
    Entry {
        name: "ell",
        make: |s| {
            let (n, most) = (s.of(1 << 16, 1 << 8), 32);
            let columns = random(1).take(n * most);
            let columns = columns.map(|number| match number % 8 {
                0 => -1,
                _ => (number as usize / 8 % n) as i32,
            });
            let arguments = vec![
                size(most),
                In(ints(columns)),
                In(signed(1, n * most)),
                In(signed(2, n)),
                out(Kind::Float, n),
            ];
            Case::one(GRAPHS, "ell", &[n], &[64], arguments).within(1e-3)
        },
    },
    Entry {
        name: "page-rank",
        make: |s| {
            let n = s.of(1 << 15, 1 << 8);
            let (starts, sources) = sparse(n, 64);
            let degrees = random(4).take(n).map(|number| 1 + (number % 60) as i32);
            let arguments = vec![
                float(0.85),
                In(ints(starts)),
                In(ints(sources)),
                In(ints(degrees)),
                In(fractions(1, n)),
                out(Kind::Float, n),
            ];
            Case::one(GRAPHS, "page_rank", &[n], &[64], arguments).within(1e-3)
        },
    },
    Entry {
        name: "bfs",
        make: |s| {
            let n = s.of(1 << 16, 1 << 8);
            let (starts, edges) = sparse(n, 16);
            let levels = std::iter::once(0).chain(std::iter::repeat_n(-1, n - 1));
            let memory = vec![In(ints(starts)), In(ints(edges)), Both(ints(levels))];
            let steps = (0..10).map(|level| {
                let arguments = vec![int(level), At(0), At(1), At(2)];
                launch("bfs_step", &[n], &[64], arguments)
            });
            Case::many(GRAPHS, memory, steps.collect())
        },
    },
    Entry {
        name: "floyd-warshall",
        make: |s| {
            let n = s.of(512, 32);
            let steps = (0..s.of(8, 4)).map(|through| {
                let arguments = vec![size(n), size(through), At(0)];
                launch("floyd_warshall", &[n, n], &[32, 4], arguments)
            });
            Case::many(GRAPHS, vec![Both(fractions(1, n * n))], steps.collect())
        },
    },
    Entry {
        name: "smith-waterman",
        make: |s| {
            let (n, diagonals) = (s.of(1 << 15, 1 << 7), s.of(32, 16));
            let launches = (0..diagonals).map(|step| {
                let diagonal = n / 2 + step;
                let row = |back: usize| At(2 + (step + back) % 3);
                let arguments = vec![
                    size(diagonal),
                    size(n),
                    At(0),
                    At(1),
                    row(0),
                    row(1),
                    row(2),
                ];
                launch("smith_waterman", &[n], &[64], arguments)
            });
            let mut memory = vec![In(small(4, 1, n)), In(small(4, 2, n))];
            memory.extend((0..3).map(|_| Both(ints(std::iter::repeat_n(0, n)))));
            Case::many(GRAPHS, memory, launches.collect())
        },
    },
    Entry {
        name: "common-part",
        make: |s| {
            let n = s.of(1 << 13, 1 << 8);
            let arguments = vec![
                In(small(4, 1, n * 32)),
                In(small(4, 2, n * 32)),
                out(Kind::Int, n),
            ];
            Case::one(GRAPHS, "common_part", &[n], &[64], arguments)
        },
    },
    Entry {
        name: "edit-distance",
        make: |s| {
            let n = s.of(1 << 13, 1 << 8);
            let arguments = vec![
                In(small(4, 1, n * 24)),
                In(small(4, 2, n * 24)),
                In(below(25, 3, n)),
                out(Kind::Int, n),
            ];
            Case::one(GRAPHS, "edit_distance", &[n], &[64], arguments)
        },
    },
    Entry {
        name: "knapsack",
        make: |s| {
            let n = s.of(1 << 18, 1 << 9);
            let things = (0..16).map(|thing| {
                let [from, to] = [At(thing % 2), At(1 - thing % 2)];
                let arguments = vec![size(37 * thing + 11), size(53 * thing + 7), from, to];
                launch("knapsack_row", &[n], &[128], arguments)
            });
            let zeros = || Both(ints(std::iter::repeat_n(0, n)));
            Case::many(GRAPHS, vec![zeros(), zeros()], things.collect())
        },
    },
    Entry {
        name: "k-means",
        make: |s| {
            let (n, clusters, axes) = (s.of(1 << 16, 1 << 8), 32, 8);
            let arguments = vec![
                size(clusters),
                size(axes),
                size(n),
                In(fractions(1, n * axes)),
                In(fractions(2, clusters * axes)),
                out(Kind::Int, n),
            ];
            Case::one(GRAPHS, "kmeans_assign", &[n], &[64], arguments).but_for(1e-3)
        },
    },
    Entry {
        name: "nearest-four",
        make: |s| {
            let (n, queries) = (s.of(2048, 64), s.of(2048, 64));
            let arguments = vec![
                size(n),
                In(fractions(1, n * 2)),
                In(fractions(2, queries * 2)),
                out(Kind::Int, queries * 4),
            ];
            Case::one(GRAPHS, "nearest_four", &[queries], &[64], arguments).but_for(1e-3)
        },
    },
    Entry {
        name: "find-text",
        make: |s| {
            let n = s.of(1 << 21, 1 << 10);
            let arguments = vec![
                int(8),
                In(small(4, 1, n + 8)),
                In(small(4, 2, 8)),
                out(Kind::Byte, n),
            ];
            Case::one(GRAPHS, "find_text", &[n], &[128], arguments)
        },
    },
    Entry {
        name: "lower-case",
        make: |s| {
            let n = s.of(1 << 24, 1 << 10);
            let arguments = vec![In(small(128, 1, n)), out(Kind::Byte, n)];
            Case::one(GRAPHS, "lower_case", &[n], &[256], arguments)
        },
    },
    Entry {
        name: "binary-search",
        make: |s| {
            let n = s.of(1 << 18, 1 << 10);
            let numbers = random(1).take(n).map(|number| number as i32).collect();
            let arguments = vec![
                size(n),
                In(sorted(numbers, n)),
                In(words(2, n)),
                out(Kind::Int, n),
            ];
            Case::one(GRAPHS, "binary_search", &[n], &[64], arguments)
        },
    },
    Entry {
        name: "mandelbrot",
        make: |s| picture(s, "mandelbrot", 512, Kind::Int, vec![int(500)]),
    },
    Entry {
        name: "julia",
        make: |s| {
            let side = s.of(768, 64);
            let arguments = vec![
                int(200),
                float(-0.7),
                float(0.27),
                out(Kind::Byte, side * side * 4),
            ];
            Case::one(PICTURES, "julia", &[side, side], &[64, 4], arguments).but_for(0.01)
        },
    },
    Entry {
        name: "newton",
        make: |s| picture(s, "newton", 512, Kind::Int, vec![int(40)]),
    },
    Entry {
        name: "spheres",
        make: |s| {
            let places = [
                0.0, 0.0, 1.0, 0.7, 0.8, 0.2, 1.5, 0.4, -0.8, -0.3, 0.8, 0.4, 0.0, -0.9, 1.2, 0.3,
            ];
            let more = places.iter().flat_map(|place| [place * 0.9, place * 1.1]);
            let all = In(floats(more));
            picture(s, "spheres", 384, Kind::Float, vec![int(8), all])
        },
    },
    Entry {
        name: "march",
        make: |s| picture(s, "march", 256, Kind::Float, vec![int(100)]),
    },
    Entry {
        name: "perlin-noise",
        make: |s| {
            let order = In(small(256, 1, 256));
            picture(s, "perlin_noise", 512, Kind::Float, vec![int(5), order])
        },
    },
    Entry {
        name: "quantise",
        make: |s| {
            let n = s.of(1 << 22, 1 << 10);
            let arguments = vec![float(100.0), In(signed(1, n)), out(Kind::Byte, n)];
            Case::one(PICTURES, "quantise", &[n], &[256], arguments)
        },
    },
    Entry {
        name: "quantised-product",
        make: |s| {
            let n = s.of(256, 32);
            let arguments = vec![
                size(n),
                In(small(256, 1, n * n)),
                In(small(256, 2, n * n)),
                out(Kind::Int, n * n),
            ];
            Case::one(PICTURES, "quantised_product", &[n, n], &[16, 16], arguments)
        },
    },
    Entry {
        name: "softmax",
        make: |s| {
            let (n, rows) = (s.of(1024, 256), s.of(1024, 4));
            let arguments = vec![size(n), In(signed(1, n * rows)), out(Kind::Float, n * rows)];
            Case::one(PICTURES, "softmax", &[rows * 128], &[128], arguments)
        },
    },
    Entry {
        name: "gelu",
        make: |s| {
            let n = s.of(1 << 20, 1 << 10);
            let arguments = vec![In(fractions(1, n)), out(Kind::Float, n)];
            Case::one(PICTURES, "gelu", &[n], &[128], arguments)
        },
    },
    Entry {
        name: "max-pool",
        make: |s| {
            let side = s.of(2048, 64);
            let arguments = vec![
                size(side),
                In(signed(1, side * side)),
                out(Kind::Float, side * side / 4),
            ];
            let half = side / 2;
            Case::one(
                PICTURES,
                "largest_of_four",
                &[half, half],
                &[32, 4],
                arguments,
            )
        },
    },
    Entry {
        name: "layer-norm",
        make: |s| {
            let (n, rows) = (s.of(256, 32), s.of(4096, 64));
            let arguments = vec![size(n), In(signed(1, n * rows)), out(Kind::Float, n * rows)];
            Case::one(PICTURES, "layer_norm", &[rows], &[64], arguments).within(1e-3)
        },
    },
    Entry {
        name: "convolution-layer",
        make: |s| {
            let (side, channels) = (s.of(64, 16), s.of(32, 4));
            let arguments = vec![
                size(side),
                size(channels),
                In(signed(1, channels * (side + 2) * (side + 2))),
                In(signed(2, channels * channels * 9)),
                out(Kind::Float, channels * side * side),
            ];
            let global = [side, side, channels];
            Case::one(
                PICTURES,
                "convolution_layer",
                &global,
                &[16, 8, 1],
                arguments,
            )
            .within(1e-3)
        },
    },
];
