//! Cases of linear algebra, transforms, stencils and images.

use super::case::{Case, Data, Entry, Given, Kind, Size};
use super::case::{float, fractions, int, launch, out, signed, size, small};
use Given::{Both, In, Local};

const BLAS: &str = include_str!("kernels/blas.cl");
const TRANSFORMS: &str = include_str!("kernels/transforms.cl");
const STENCILS: &str = include_str!("kernels/stencils.cl");
const IMAGES: &str = include_str!("kernels/images.cl");

/// A kernel of one line of numbers, which it has first among its arguments: reductions of level 1.
fn reduction(s: Size, kernel: &'static str, vectors: u64, kind: Kind, locals: usize) -> Case {
    let n = s.of(1 << 22, 1 << 12);
    let groups = s.of(64, 4);
    let mut arguments = vec![size(n)];
    arguments.extend((0..vectors).map(|seed| In(signed(seed, n))));
    arguments.push(out(kind, groups));
    arguments.extend((0..locals).map(|_| Local(256 * 4)));
    Case::one(BLAS, kernel, &[groups * 256], &[256], arguments).within(1e-3)
}

/// A product of square matrices, by `items` work-items for each row and column.
fn product(s: Size, kernel: &'static str, n: usize, each: [usize; 2], local: [usize; 2]) -> Case {
    let n = s.of(n, 64);
    let arguments = vec![
        size(n),
        In(signed(1, n * n)),
        In(signed(2, n * n)),
        out(Kind::Float, n * n),
    ];
    let global = [n / each[0], n / each[1]];
    Case::one(BLAS, kernel, &global, &local, arguments).within(1e-3)
}

fn matrix_vector(s: Size, kernel: &'static str) -> Case {
    let n = s.of(2048, 64);
    let arguments = vec![
        size(n),
        In(signed(1, n * n)),
        In(signed(2, n)),
        out(Kind::Float, n),
    ];
    Case::one(BLAS, kernel, &[n], &[64], arguments).within(1e-3)
}

fn transposition(s: Size, kernel: &'static str) -> Case {
    let n = s.of(2048, 64);
    let arguments = vec![size(n), In(signed(1, n * n)), out(Kind::Float, n * n)];
    Case::one(BLAS, kernel, &[n, n], &[16, 16], arguments)
}

/// A triangle whose diagonal is large, so that no number grows.
fn heavy_diagonal(n: usize) -> Data {
    let mut data = signed(3, n * n);
    for at in 0..n {
        let place = (at * n + at) * 4;
        data.bytes[place..place + 4].copy_from_slice(&(n as f32).to_le_bytes());
    }
    data
}

/// Numbers that become small enough for sums along rows of a triangle.
fn light(seed: u64, count: usize) -> Data {
    let mut data = signed(seed, count);
    let (numbers, _) = data.bytes.as_chunks_mut::<4>();
    for number in numbers {
        *number = (f32::from_le_bytes(*number) / 64.0).to_le_bytes();
    }
    data
}

/// A kernel that changes complex numbers of groups in place.
fn in_groups(s: Size, kernel: &'static str, each: usize, parts: usize) -> Case {
    let groups = s.of(4096 * 512 / each / parts, 4);
    let arguments = vec![Both(signed(1, groups * each * parts))];
    Case::one(TRANSFORMS, kernel, &[groups * 256], &[256], arguments).within(1e-3)
}

/// A kernel of a square of numbers, of which it has the sides first.
fn square(
    s: Size,
    source: &'static str,
    kernel: &'static str,
    side: usize,
    local: [usize; 2],
    kind: Kind,
) -> Case {
    let side = s.of(side, 64);
    let input = match kind {
        Kind::Float => fractions(1, side * side),
        _ => small(256, 1, side * side),
    };
    let arguments = vec![size(side), size(side), In(input), out(kind, side * side)];
    Case::one(source, kernel, &[side, side], &local, arguments)
}

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "axpy",
        make: |s| {
            let n = s.of(1 << 22, 1 << 12);
            let arguments = vec![float(0.5), In(signed(1, n)), Both(signed(2, n))];
            Case::one(BLAS, "axpy", &[n], &[256], arguments)
        },
    },
    Entry {
        name: "scal",
        make: |s| {
            let n = s.of(1 << 22, 1 << 12);
            Case::one(
                BLAS,
                "scal",
                &[n],
                &[128],
                vec![float(0.5), Both(signed(1, n))],
            )
        },
    },
    Entry {
        name: "rotate-planes",
        make: |s| {
            let n = s.of(1 << 21, 1 << 12);
            let arguments = vec![
                float(0.8),
                float(0.6),
                Both(signed(1, n)),
                Both(signed(2, n)),
            ];
            Case::one(BLAS, "rotate_planes", &[n], &[64], arguments)
        },
    },
    Entry {
        name: "dot",
        make: |s| reduction(s, "dot_product", 2, Kind::Float, 1),
    },
    Entry {
        name: "nrm2",
        make: |s| reduction(s, "norm2", 1, Kind::Float, 1),
    },
    Entry {
        name: "asum",
        make: |s| reduction(s, "absolute_sum", 1, Kind::Float, 1),
    },
    Entry {
        name: "iamax",
        make: |s| reduction(s, "index_of_largest", 1, Kind::Int, 2),
    },
    Entry {
        name: "gemv-rows",
        make: |s| matrix_vector(s, "gemv_rows"),
    },
    Entry {
        name: "gemv-columns",
        make: |s| matrix_vector(s, "gemv_columns"),
    },
    Entry {
        name: "gemv-groups",
        make: |s| {
            let n = s.of(2048, 64);
            let arguments = vec![
                size(n),
                In(signed(1, n * n)),
                In(signed(2, n)),
                out(Kind::Float, n),
                Local(64 * 4),
            ];
            Case::one(BLAS, "gemv_groups", &[n * 64], &[64], arguments).within(1e-3)
        },
    },
    Entry {
        name: "ger",
        make: |s| {
            let n = s.of(2048, 64);
            let arguments = vec![
                size(n),
                float(0.5),
                In(signed(1, n)),
                In(signed(2, n)),
                Both(signed(3, n * n)),
            ];
            Case::one(BLAS, "ger", &[n, n], &[64, 4], arguments)
        },
    },
    Entry {
        name: "trsm",
        make: |s| {
            let (n, count) = (s.of(128, 16), s.of(2048, 64));
            let arguments = vec![
                size(n),
                size(count),
                In(light(1, n * n)),
                Both(signed(2, n * count)),
            ];
            Case::one(BLAS, "trsm", &[count], &[64], arguments).within(1e-3)
        },
    },
    Entry {
        name: "syrk",
        make: |s| {
            let (n, depth) = (s.of(512, 32), s.of(128, 16));
            let arguments = vec![
                size(n),
                size(depth),
                In(signed(1, n * depth)),
                Both(signed(2, n * n)),
            ];
            Case::one(BLAS, "syrk", &[n, n], &[16, 16], arguments).within(1e-3)
        },
    },
    Entry {
        name: "gemm-naive",
        make: |s| product(s, "gemm_naive", 384, [1, 1], [16, 16]),
    },
    Entry {
        name: "gemm-transposed",
        make: |s| product(s, "gemm_transposed", 256, [1, 1], [16, 16]),
    },
    Entry {
        name: "gemm-tiled",
        make: |s| product(s, "gemm_tiled", 512, [1, 1], [16, 16]),
    },
    Entry {
        name: "gemm-registers",
        make: |s| product(s, "gemm_registers", 512, [4, 4], [16, 16]),
    },
    Entry {
        name: "gemm-float4",
        make: |s| product(s, "gemm_float4", 384, [4, 1], [8, 8]),
    },
    Entry {
        name: "gemm-batched",
        make: |s| {
            let n = s.of(1 << 16, 256);
            let arguments = vec![
                In(signed(1, n * 16)),
                In(signed(2, n * 16)),
                out(Kind::Float, n * 16),
            ];
            Case::one(BLAS, "gemm_batched", &[n], &[64], arguments)
        },
    },
    Entry {
        name: "transpose-naive",
        make: |s| transposition(s, "transpose_naive"),
    },
    Entry {
        name: "transpose-tiled",
        make: |s| transposition(s, "transpose_tiled"),
    },
    Entry {
        name: "lu",
        make: |s| {
            let (n, pivots) = (s.of(1024, 32), s.of(4, 2));
            let mut launches = Vec::new();
            for pivot in 0..pivots {
                let arguments = || vec![size(n), size(pivot), Given::At(0)];
                launches.push(launch("lu_scale", &[n], &[32], arguments()));
                launches.push(launch("lu_update", &[n, n], &[32, 4], arguments()));
            }
            Case::many(BLAS, vec![Both(heavy_diagonal(n))], launches)
        },
    },
    Entry {
        name: "fft-radix2",
        make: |s| in_groups(s, "fft_radix2", 512, 2),
    },
    Entry {
        name: "fft-radix4",
        make: |s| in_groups(s, "fft_radix4", 1024, 2),
    },
    Entry {
        name: "fft-passes",
        make: |s| {
            let n = s.of(1 << 16, 1 << 8);
            let passes = (0..n.ilog2() as usize).map(|pass| {
                let ends = [Given::At(pass % 2), Given::At(1 - pass % 2)];
                let arguments = [vec![size(1 << pass)], ends.to_vec()].concat();
                launch("fft_pass", &[n / 2], &[64], arguments)
            });
            let memory = vec![Both(signed(1, n * 2)), out(Kind::Float, n * 2)];
            Case::many(TRANSFORMS, memory, passes.collect()).within(1e-2)
        },
    },
    Entry {
        name: "dft-naive",
        make: |s| {
            let n = s.of(2048, 64);
            let arguments = vec![size(n), In(signed(1, n * 2)), out(Kind::Float, n * 2)];
            Case::one(TRANSFORMS, "dft_naive", &[n], &[64], arguments).within(1e-2)
        },
    },
    Entry {
        name: "dct8x8",
        make: |s| {
            let side = s.of(1024, 64);
            let arguments = vec![
                size(side),
                In(signed(1, side * side)),
                out(Kind::Float, side * side),
            ];
            Case::one(TRANSFORMS, "dct8x8", &[side, side], &[8, 8], arguments).within(1e-3)
        },
    },
    Entry {
        name: "walsh-hadamard",
        make: |s| in_groups(s, "walsh_hadamard", 512, 1),
    },
    Entry {
        name: "haar",
        make: |s| {
            let n = s.of(1 << 20, 1 << 10);
            let arguments = vec![In(signed(1, n)), out(Kind::Float, n)];
            Case::one(TRANSFORMS, "haar", &[n], &[256], arguments)
        },
    },
    Entry {
        name: "stencil5",
        make: |s| square(s, STENCILS, "stencil5", 2048, [64, 4], Kind::Float),
    },
    Entry {
        name: "stencil9",
        make: |s| square(s, STENCILS, "stencil9", 2048, [16, 16], Kind::Float),
    },
    Entry {
        name: "stencil7-3d",
        make: |s| {
            let n = s.of(128, 16);
            let arguments = vec![
                size(n),
                size(n),
                size(n),
                In(signed(1, n * n * n)),
                out(Kind::Float, n * n * n),
            ];
            Case::one(STENCILS, "stencil7", &[n, n, n], &[16, 4, 4], arguments)
        },
    },
    Entry {
        name: "life",
        make: |s| {
            let side = s.of(2048, 64);
            let arguments = vec![
                size(side),
                size(side),
                In(small(2, 1, side * side)),
                out(Kind::Byte, side * side),
            ];
            Case::one(STENCILS, "life", &[side, side], &[32, 8], arguments)
        },
    },
    Entry {
        name: "heat-tile",
        make: |s| {
            let side = s.of(1024, 64);
            let arguments = vec![
                size(side),
                size(side),
                float(0.1),
                In(fractions(1, side * side)),
                out(Kind::Float, side * side),
            ];
            Case::one(STENCILS, "heat_tile", &[side, side], &[16, 16], arguments)
        },
    },
    Entry {
        name: "heat-line",
        make: |s| {
            let n = s.of(1 << 16, 1 << 10);
            let arguments = vec![int(100), float(0.1), Both(fractions(1, n))];
            Case::one(STENCILS, "heat_line", &[n], &[256], arguments)
        },
    },
    Entry {
        name: "wave",
        make: |s| {
            let side = s.of(2048, 64);
            let arguments = vec![
                size(side),
                size(side),
                float(0.2),
                In(fractions(1, side * side)),
                Both(fractions(2, side * side)),
            ];
            Case::one(STENCILS, "wave", &[side, side], &[32, 4], arguments)
        },
    },
    Entry {
        name: "lattice-gas",
        make: |s| {
            let side = s.of(512, 64);
            let arguments = vec![
                size(side),
                size(side),
                float(0.6),
                In(fractions(1, 9 * side * side)),
                out(Kind::Float, 9 * side * side),
            ];
            Case::one(STENCILS, "lattice_gas", &[side, side], &[64, 1], arguments).within(1e-3)
        },
    },
    Entry {
        name: "convolve-line",
        make: |s| {
            let n = s.of(1 << 20, 1 << 10);
            let arguments = vec![
                int(8),
                In(signed(1, n + 16)),
                In(signed(2, 17)),
                out(Kind::Float, n),
            ];
            Case::one(IMAGES, "convolve_line", &[n], &[128], arguments)
        },
    },
    Entry {
        name: "convolve-rows",
        make: |s| {
            let side = s.of(1024, 128);
            let arguments = vec![
                size(side),
                In(signed(1, side * side)),
                In(signed(2, 17)),
                out(Kind::Float, side * side),
            ];
            Case::one(IMAGES, "convolve_rows", &[side, side], &[128, 1], arguments)
        },
    },
    Entry {
        name: "convolve-columns",
        make: |s| {
            let side = s.of(1024, 64);
            let arguments = vec![
                size(side),
                size(side),
                In(signed(1, side * side)),
                In(signed(2, 17)),
                out(Kind::Float, side * side),
            ];
            Case::one(
                IMAGES,
                "convolve_columns",
                &[side, side],
                &[64, 1],
                arguments,
            )
        },
    },
    Entry {
        name: "convolve5x5",
        make: |s| square(s, IMAGES, "convolve5x5", 1024, [16, 16], Kind::Float),
    },
    Entry {
        name: "sobel",
        make: |s| square(s, IMAGES, "sobel", 2048, [32, 4], Kind::Float),
    },
    Entry {
        name: "median3x3",
        make: |s| square(s, IMAGES, "median3x3", 1024, [16, 16], Kind::Float),
    },
    Entry {
        name: "median-sorted",
        make: |s| square(s, IMAGES, "median_sorted", 256, [16, 16], Kind::Byte),
    },
    Entry {
        name: "bilateral",
        make: |s| {
            let side = s.of(384, 64);
            let arguments = vec![
                size(side),
                size(side),
                float(0.1),
                float(4.0),
                In(fractions(1, side * side)),
                out(Kind::Float, side * side),
            ];
            Case::one(IMAGES, "bilateral", &[side, side], &[16, 16], arguments)
        },
    },
    Entry {
        name: "box-blur",
        make: |s| {
            let side = s.of(512, 64);
            let arguments = vec![
                size(side),
                size(side),
                int(5),
                In(small(256, 1, side * side * 4)),
                out(Kind::Byte, side * side * 4),
            ];
            Case::one(IMAGES, "box_blur", &[side, side], &[16, 16], arguments)
        },
    },
    Entry {
        name: "grey",
        make: |s| {
            let n = s.of(1 << 22, 1 << 12);
            let arguments = vec![In(small(256, 1, n * 4)), out(Kind::Byte, n)];
            Case::one(IMAGES, "grey", &[n], &[256], arguments)
        },
    },
    Entry {
        name: "gamma",
        make: |s| {
            let n = s.of(1 << 20, 1 << 12);
            let arguments = vec![float(0.4545), In(fractions(1, n)), out(Kind::Float, n)];
            Case::one(IMAGES, "gamma_curve", &[n], &[256], arguments)
        },
    },
    Entry {
        name: "resize",
        make: |s| {
            let (side, wide) = (s.of(512, 32), s.of(1280, 64));
            let arguments = vec![
                size(side),
                size(side),
                size(wide),
                size(wide),
                In(fractions(1, side * side)),
                out(Kind::Float, wide * wide),
            ];
            Case::one(
                IMAGES,
                "resize_bilinear",
                &[wide, wide],
                &[64, 4],
                arguments,
            )
            .within(1e-3)
        },
    },
    Entry {
        name: "dilate",
        make: |s| square(s, IMAGES, "dilate", 1024, [32, 8], Kind::Byte),
    },
    Entry {
        name: "threshold-hsv",
        make: |s| {
            let n = s.of(1 << 21, 1 << 12);
            let arguments = vec![In(small(256, 1, n * 4)), out(Kind::Byte, n)];
            Case::one(IMAGES, "threshold_hsv", &[n], &[256], arguments).but_for(1e-3)
        },
    },
];
