//! The algorithms as one would write them by hand, with rayon for the outer loop.

use quipu::kernels::philox4x32;
use rayon::prelude::*;
use std::ops::Range;

/// Elements that a task goes through.
pub(crate) const PART: usize = 1 << 16;

/// Elements of the parts of a division into four for each thread.
fn part_of(length: usize) -> usize {
    length.div_ceil(4 * rayon::current_num_threads()).max(1)
}

/// Sets elements, as fast as memory takes them: each thread has one part.
pub(crate) fn write_at_bandwidth(y: &mut [f32]) {
    let part = y.len().div_ceil(rayon::current_num_threads());
    y.par_chunks_mut(part).for_each(|y| y.fill(3.0));
}

/// Copies, likewise.
pub(crate) fn copy_at_bandwidth(x: &[f32], y: &mut [f32]) {
    let part = y.len().div_ceil(rayon::current_num_threads());
    let parts = y.par_chunks_mut(part).zip(x.par_chunks(part));
    parts.for_each(|(y, x)| {
        for (y, x) in y.iter_mut().zip(x) {
            *y = -*x;
        }
    });
}

/// Adds two, likewise.
pub(crate) fn add_at_bandwidth(a: &[f32], b: &[f32], y: &mut [f32]) {
    let part = y.len().div_ceil(rayon::current_num_threads());
    let inputs = a.par_chunks(part).zip(b.par_chunks(part));
    y.par_chunks_mut(part).zip(inputs).for_each(|(y, (a, b))| {
        for ((y, a), b) in y.iter_mut().zip(a).zip(b) {
            *y = a + b;
        }
    });
}

/// Reads, likewise.
pub(crate) fn read_at_bandwidth(x: &[f32]) -> u32 {
    let part = x.len().div_ceil(rayon::current_num_threads());
    let bits = |x: &[f32]| {
        let mut lanes = [0_u32; 32];
        for x in x.chunks_exact(32) {
            for (lane, x) in lanes.iter_mut().zip(x) {
                *lane ^= x.to_bits();
            }
        }
        lanes.iter().fold(0, |all, lane| all ^ lane)
    };
    x.par_chunks(part).map(bits).reduce(|| 0, |a, b| a ^ b)
}

/// A sum in as many accumulators as hide how long an addition takes.
fn total(x: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 32];
    let (whole, rest) = x.as_chunks::<32>();
    for x in whole {
        for (lane, x) in lanes.iter_mut().zip(x) {
            *lane += x;
        }
    }
    lanes.iter().chain(rest).sum()
}

/// Chains that are under way at the same time, and elements of each.
const CHAINS: usize = 8;
const LINKS: usize = 8;

/// Scans so many elements after `first`, and gives what they come to with it.
fn scan_piece<const INCLUSIVE: bool>(
    first: f32,
    x: &[f32; CHAINS * LINKS],
    y: &mut [f32; CHAINS * LINKS],
) -> f32 {
    let mut sums = [0.0; CHAINS];
    let mut scanned = [[0.0; LINKS]; CHAINS];
    for i in 0..LINKS {
        for chain in 0..CHAINS {
            let before = sums[chain];
            sums[chain] += x[chain * LINKS + i];
            scanned[chain][i] = if INCLUSIVE { sums[chain] } else { before };
        }
    }
    let mut before = first;
    for ((y, scanned), sum) in y.chunks_exact_mut(LINKS).zip(scanned).zip(sums) {
        for (y, scanned) in y.iter_mut().zip(scanned) {
            *y = before + scanned;
        }
        before += sum;
    }
    before
}

/// Reduce, then scan.
pub(crate) fn scan<const INCLUSIVE: bool>(x: &[f32], y: &mut [f32]) {
    let part = part_of(x.len());
    let totals: Vec<f32> = x.par_chunks(part).map(total).collect();
    let starts: Vec<f32> = totals
        .iter()
        .scan(0.0, |before, total| {
            let start = *before;
            *before += total;
            Some(start)
        })
        .collect();
    let inputs = x.par_chunks(part).zip(starts);
    y.par_chunks_mut(part)
        .zip(inputs)
        .for_each(|(y, (x, mut sum))| {
            let (pieces, rest) = x.as_chunks();
            let (to, to_rest) = y.as_chunks_mut();
            for (x, y) in pieces.iter().zip(to) {
                sum = scan_piece::<INCLUSIVE>(sum, x, y);
            }
            for (x, y) in rest.iter().zip(to_rest) {
                let before = sum;
                sum += x;
                *y = if INCLUSIVE { sum } else { before };
            }
        });
}

/// A pointer that tasks share.
#[derive(Clone, Copy)]
struct Shared<T>(*mut T);

// SAFETY: tasks write places of their own.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// # Safety
    /// `at` is inside, and nobody else's.
    unsafe fn write(self, at: usize, value: T) {
        // SAFETY: as the caller promises.
        unsafe { self.0.add(at).write(value) }
    }
}

/// The elements that are kept, and how many.
pub(crate) fn compact(x: &[u32], y: &mut [u32], keep: impl Fn(u32) -> bool + Sync) -> usize {
    let part = part_of(x.len());
    let counts: Vec<usize> = x
        .par_chunks(part)
        .map(|x| x.iter().filter(|&&x| keep(x)).count())
        .collect();
    let total = counts.iter().sum();
    let mut rest = y;
    let mut parts = Vec::new();
    for count in counts {
        let (part, behind) = rest.split_at_mut(count);
        parts.push(part);
        rest = behind;
    }
    x.par_chunks(part).zip(parts).for_each(|(x, y)| {
        let mut to = 0;
        for &x in x {
            if to < y.len() {
                y[to] = x;
            }
            to += usize::from(keep(x));
        }
    });
    total
}

/// By the least significant byte first; `values` along with the keys, if there are any.
pub(crate) fn radix_sort(keys: &mut Vec<u32>, values: &mut Vec<u32>) {
    let length = keys.len();
    let part = part_of(length);
    let (mut other_keys, mut other_values) = (vec![0; length], vec![0; values.len()]);
    for pass in 0..4 {
        let digit = |key: u32| (key >> (8 * pass)) as usize % 256;
        let mut places: Vec<[usize; 256]> = keys
            .par_chunks(part)
            .map(|keys| {
                let mut counts = [0; 256];
                for &key in keys {
                    counts[digit(key)] += 1;
                }
                counts
            })
            .collect();
        let mut before = 0;
        for digit in 0..256 {
            for places in &mut places {
                before += std::mem::replace(&mut places[digit], before);
            }
        }
        let (to, to_values) = (
            Shared(other_keys.as_mut_ptr()),
            Shared(other_values.as_mut_ptr()),
        );
        let from_values = &values[..];
        keys.par_chunks(part)
            .zip(places)
            .enumerate()
            .for_each(|(number, (keys, mut places))| {
                for (i, &key) in keys.iter().enumerate() {
                    let place = &mut places[digit(key)];
                    // SAFETY: the scanned counts are places of this part and digit alone.
                    unsafe {
                        to.write(*place, key);
                        if !from_values.is_empty() {
                            to_values.write(*place, from_values[number * part + i]);
                        }
                    }
                    *place += 1;
                }
            });
        std::mem::swap(keys, &mut other_keys);
        std::mem::swap(values, &mut other_values);
    }
}

/// Elements that are sorted by a network, and by one task.
const RUN: usize = 4;
const TILE: usize = 4096;

/// Keys, and values that go with them where there are any.
struct Pairs<'p> {
    keys: &'p mut [u32],
    values: &'p mut [u32],
}

impl<'p> Pairs<'p> {
    fn of(keys: &'p mut [u32], values: &'p mut [u32]) -> Self {
        Self { keys, values }
    }

    fn part(&mut self, range: Range<usize>) -> Pairs<'_> {
        let values = range.start.min(self.values.len())..range.end.min(self.values.len());
        Pairs::of(&mut self.keys[range], &mut self.values[values])
    }

    /// Cuts them, and others likewise.
    fn chunks(self, length: usize) -> impl IndexedParallelIterator<Item = Pairs<'p>> {
        let parts = self.keys.len().div_ceil(length);
        let mut values: Vec<_> = self.values.chunks_mut(length).collect();
        values.resize_with(parts, Default::default);
        self.keys
            .par_chunks_mut(length)
            .zip(values)
            .map(|(keys, values)| Pairs::of(keys, values))
    }
}

/// How many of the first `taken` elements of two merged runs are of the first one.
fn of_first(taken: usize, a: &[u32], b: &[u32]) -> usize {
    let (mut low, mut high) = (taken.saturating_sub(b.len()), taken.min(a.len()));
    while low < high {
        let half = (low + high) / 2;
        if b[taken - 1 - half] < a[half] {
            high = half;
        } else {
            low = half + 1;
        }
    }
    low
}

/// Merges what of two sorted runs, which start and end so, is from `start` to the end of `to`, from
/// both ends.
fn merge<const BY_KEY: bool>(
    (a, b): (Range<usize>, Range<usize>),
    (keys, values): (&[u32], &[u32]),
    start: usize,
    to: Pairs<'_>,
) {
    let stop = start + to.keys.len();
    let (first, second) = (&keys[a.clone()], &keys[b.clone()]);
    let (skipped, reached) = (
        of_first(start, first, second),
        of_first(stop, first, second),
    );
    let a = a.start + skipped..a.start + reached;
    let b = b.start + start - skipped..b.start + stop - reached;
    let (first, second) = (&keys[a.clone()], &keys[b.clone()]);
    let (first_values, second_values, to_values) = if BY_KEY {
        (&values[a], &values[b], to.values)
    } else {
        (&[][..], &[][..], &mut [][..])
    };
    let (mut i, mut j, mut i_end, mut j_end) = (0, 0, first.len(), second.len());
    while i < i_end && j < j_end {
        let inside = (first.len() - i)
            .min(second.len() - j)
            .min(i_end)
            .min(j_end);
        for _ in 0..inside.min((i_end - i + j_end - j) / 2) {
            let (one, other) = (first[i], second[j]);
            let is_second = other < one;
            to.keys[i + j] = if is_second { other } else { one };
            let (one, other) = (first[i_end - 1], second[j_end - 1]);
            let is_first = other < one;
            to.keys[i_end + j_end - 1] = if is_first { one } else { other };
            if BY_KEY {
                let (one, other) = (first_values[i], second_values[j]);
                to_values[i + j] = if is_second { other } else { one };
                let (one, other) = (first_values[i_end - 1], second_values[j_end - 1]);
                to_values[i_end + j_end - 1] = if is_first { one } else { other };
            }
            i += usize::from(!is_second);
            j += usize::from(is_second);
            i_end -= usize::from(is_first);
            j_end -= usize::from(!is_first);
        }
    }
    let (done, count) = (i + j, i_end + j_end - i - j);
    let rest = |first: &[u32], second: &[u32], to: &mut [u32]| {
        let (of, at) = if i < i_end { (first, i) } else { (second, j) };
        to[done..done + count].copy_from_slice(&of[at..at + count]);
    };
    rest(first, second, to.keys);
    if BY_KEY {
        rest(first_values, second_values, to_values);
    }
}

/// Sorts four elements, or as many as there are.
fn sort_run<const BY_KEY: bool>(run: Pairs<'_>) {
    for round in 0..RUN {
        for i in (1 + round % 2..run.keys.len()).step_by(2) {
            let changes = run.keys[i] < run.keys[i - 1];
            let order = |of: &mut [u32]| {
                let (left, right) = (of[i - 1], of[i]);
                of[i - 1] = if changes { right } else { left };
                of[i] = if changes { left } else { right };
            };
            order(run.keys);
            if BY_KEY {
                order(run.values);
            }
        }
    }
}

fn merge_pairs<const BY_KEY: bool>(
    width: usize,
    start: usize,
    from: (&[u32], &[u32]),
    mut to: Pairs<'_>,
) {
    let (length, count) = (from.0.len(), to.keys.len());
    let mut done = 0;
    while done < count {
        let at = start + done;
        let left = at / (2 * width) * (2 * width);
        let middle = (left + width).min(length);
        let end = (left + 2 * width).min(length);
        let last = (start + count).min(end) - start;
        let runs = (left..middle, middle..end);
        merge::<BY_KEY>(runs, from, at - left, to.part(done..last));
        done = last;
    }
}

/// Tiles, then merges of which every task has an equal part of the output.
pub(crate) fn merge_sort<const BY_KEY: bool>(keys: &mut Vec<u32>, values: &mut Vec<u32>) {
    let length = keys.len();
    let (mut other, mut other_values) = (vec![0; length], vec![0; values.len()]);
    Pairs::of(keys, values)
        .chunks(TILE)
        .zip(Pairs::of(&mut other, &mut other_values).chunks(TILE))
        .for_each(|(mut from, mut to)| {
            let count = from.keys.len();
            for start in (0..count).step_by(RUN) {
                sort_run::<BY_KEY>(from.part(start..(start + RUN).min(count)));
            }
            let mut width = RUN;
            while width < TILE {
                let sorted = (&from.keys[..], &from.values[..]);
                merge_pairs::<BY_KEY>(width, 0, sorted, to.part(0..count));
                std::mem::swap(&mut from, &mut to);
                width *= 2;
            }
        });
    let part = part_of(length);
    let mut width = TILE;
    while width < length {
        let from = (&keys[..], &values[..]);
        Pairs::of(&mut other, &mut other_values)
            .chunks(part)
            .enumerate()
            .for_each(|(number, to)| merge_pairs::<BY_KEY>(width, number * part, from, to));
        std::mem::swap(keys, &mut other);
        std::mem::swap(values, &mut other_values);
        width *= 2;
    }
}

/// What `Philox::new(1, 2)` draws, a block of it after the other.
pub(crate) fn draw(y: &mut [f32], draw: impl Fn([u32; 4]) -> [f32; 4] + Sync) {
    y.par_chunks_mut(PART).enumerate().for_each(|(part, y)| {
        for (i, y) in y.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let block = (part * PART / 4 + i) as u64;
            let counter = [block as u32, (block >> 32) as u32, 2, 0];
            *y = draw(philox4x32(counter, [1, 0]));
        }
    });
}

/// A word as a float from 0 to 1, exclusive.
pub(crate) fn unit(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// Two normally distributed floats (Box and Muller).
pub(crate) fn normal_pair([first, second]: [u32; 2]) -> [f32; 2] {
    let radius = (-2.0 * (1.0 - unit(first)).ln()).sqrt();
    let (sin, cos) = (std::f32::consts::TAU * unit(second)).sin_cos();
    [radius * cos, radius * sin]
}

/// Gravity, a body after the other in tiles of 64.
pub(crate) fn attract(softening: f32, bodies: &[[f32; 4]], accelerations: &mut [[f32; 4]]) {
    accelerations
        .par_chunks_mut(64)
        .zip(bodies.par_chunks(64))
        .for_each(|(accelerations, own)| {
            for (acceleration, body) in accelerations.iter_mut().zip(own) {
                let mut sum = [0.0; 4];
                for other in bodies {
                    let x = other[0] - body[0];
                    let y = other[1] - body[1];
                    let z = other[2] - body[2];
                    let square = x * x + y * y + z * z + softening;
                    let weight = other[3] / (square * square.sqrt());
                    sum[0] += x * weight;
                    sum[1] += y * weight;
                    sum[2] += z * weight;
                }
                *acceleration = sum;
            }
        });
}

/// The 3 x 3 neighbours, inside.
pub(crate) fn stencil(weights: [[f32; 3]; 3], columns: usize, x: &[f32], y: &mut [f32]) {
    let rows = x.len() / columns;
    let at = |i: usize, j: usize| {
        let mut sum = 0.0;
        for (a, weights) in weights.iter().enumerate() {
            for (b, weight) in weights.iter().enumerate() {
                let i = (i + a).saturating_sub(1).min(rows - 1);
                let j = (j + b).saturating_sub(1).min(columns - 1);
                sum += weight * x[i * columns + j];
            }
        }
        sum
    };
    y.par_chunks_mut(columns).enumerate().for_each(|(i, y)| {
        if i == 0 || i + 1 == rows {
            for (j, y) in y.iter_mut().enumerate() {
                *y = at(i, j);
            }
            return;
        }
        let above = &x[(i - 1) * columns..i * columns];
        let here = &x[i * columns..(i + 1) * columns];
        let below = &x[(i + 1) * columns..(i + 2) * columns];
        (y[0], y[columns - 1]) = (at(i, 0), at(i, columns - 1));
        let [p, q, r] = weights;
        let inner = above.windows(3).zip(here.windows(3).zip(below.windows(3)));
        for (y, (above, (here, below))) in y[1..].iter_mut().zip(inner) {
            *y = p[0] * above[0]
                + p[1] * above[1]
                + p[2] * above[2]
                + q[0] * here[0]
                + q[1] * here[1]
                + q[2] * here[2]
                + r[0] * below[0]
                + r[1] * below[1]
                + r[2] * below[2];
        }
    });
}

/// Side of a square that is copied before it is written as columns.
const SQUARE: usize = 64;

/// Of a matrix with so many rows; squares of it at a time.
pub(crate) fn transpose(rows: usize, x: &[f32], y: &mut [f32]) {
    let columns = x.len() / rows;
    y.par_chunks_mut(SQUARE * rows)
        .enumerate()
        .for_each(|(strip, y)| {
            let (top, height) = (strip * SQUARE, y.len() / rows);
            let mut square = [[0.0; SQUARE]; SQUARE];
            for left in (0..rows).step_by(SQUARE) {
                let width = (rows - left).min(SQUARE);
                for (k, to) in square[..width].iter_mut().enumerate() {
                    to[..height].copy_from_slice(&x[(left + k) * columns + top..][..height]);
                }
                for (i, y) in y.chunks_exact_mut(rows).enumerate() {
                    let y = &mut y[left..][..width];
                    if let Ok(y) = <&mut [f32; SQUARE]>::try_from(&mut *y) {
                        for k in 0..SQUARE {
                            y[k] = square[k][i];
                        }
                    } else {
                        for (y, from) in y.iter_mut().zip(&square) {
                            *y = from[i];
                        }
                    }
                }
            }
        });
}

/// How many of each highest byte. How many bins there are is only told as it runs, and what has
/// none is left out, as in ours: so that is asked of each element.
pub(crate) fn histogram(count: usize, x: &[u32]) -> Vec<u32> {
    x.par_chunks(part_of(x.len()))
        .map(|x| {
            let mut bins = vec![0; count];
            for x in x {
                if let Some(bin) = bins.get_mut((x >> 24) as usize) {
                    *bin += 1;
                }
            }
            bins
        })
        .reduce(
            || vec![0; count],
            |mut sum, bins| {
                for (sum, bin) in sum.iter_mut().zip(bins) {
                    *sum += bin;
                }
                sum
            },
        )
}
