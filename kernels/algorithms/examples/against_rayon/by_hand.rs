//! The algorithms as one would write them by hand, with rayon for the outer loop.

use rayon::prelude::*;

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

/// Four chains of sums, which are under way at the same time.
fn totals(x: &[f32]) -> [f32; 4] {
    let length = x.len() / 4;
    let (a, rest) = x.split_at(length);
    let (b, rest) = rest.split_at(length);
    let (c, d) = rest.split_at(length);
    let mut totals = [0.0_f32; 4];
    for (((a, b), c), d) in a.iter().zip(b).zip(c).zip(d) {
        totals[0] += a;
        totals[1] += b;
        totals[2] += c;
        totals[3] += d;
    }
    for d in &d[length..] {
        totals[3] += d;
    }
    totals
}

/// Reduce, then scan.
pub(crate) fn scan<const INCLUSIVE: bool>(x: &[f32], y: &mut [f32]) {
    let part = part_of(x.len());
    let totals: Vec<[f32; 4]> = x.par_chunks(part).map(totals).collect();
    let mut before = 0.0;
    let starts: Vec<[f32; 4]> = totals
        .iter()
        .map(|totals| {
            totals.map(|total| {
                let start = before;
                before += total;
                start
            })
        })
        .collect();
    let inputs = x.par_chunks(part).zip(starts);
    y.par_chunks_mut(part)
        .zip(inputs)
        .for_each(|(y, (x, mut sums))| {
            let length = x.len() / 4;
            let step = |sum: &mut f32, x: f32, y: &mut f32| {
                if INCLUSIVE {
                    *sum += x;
                    *y = *sum;
                } else {
                    *y = *sum;
                    *sum += x;
                }
            };
            let (a, rest) = x.split_at(length);
            let (b, rest) = rest.split_at(length);
            let (c, d) = rest.split_at(length);
            let (to_a, rest) = y.split_at_mut(length);
            let (to_b, rest) = rest.split_at_mut(length);
            let (to_c, to_d) = rest.split_at_mut(length);
            for i in 0..length {
                step(&mut sums[0], a[i], &mut to_a[i]);
                step(&mut sums[1], b[i], &mut to_b[i]);
                step(&mut sums[2], c[i], &mut to_c[i]);
                step(&mut sums[3], d[i], &mut to_d[i]);
            }
            for i in length..d.len() {
                step(&mut sums[3], d[i], &mut to_d[i]);
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

/// Elements that are sorted by insertion, and by one task.
const RUN: usize = 8;
const TILE: usize = 4096;

/// Merges what of two sorted runs is from `start` to the end of `to`.
fn merge(a: &[u32], b: &[u32], start: usize, to: &mut [u32]) {
    let (mut low, mut high) = (start.saturating_sub(b.len()), start.min(a.len()));
    while low < high {
        let half = (low + high) / 2;
        if b[start - 1 - half] < a[half] {
            high = half;
        } else {
            low = half + 1;
        }
    }
    let (mut i, mut j) = (low, start - low);
    let mut at = 0;
    while at < to.len() && i < a.len() && j < b.len() {
        let (first, second) = (a[i], b[j]);
        let is_second = second < first;
        to[at] = if is_second { second } else { first };
        i += usize::from(!is_second);
        j += usize::from(is_second);
        at += 1;
    }
    let rest = if i < a.len() { &a[i..] } else { &b[j..] };
    let left = to.len() - at;
    to[at..].copy_from_slice(&rest[..left]);
}

fn merge_pairs(width: usize, start: usize, keys: &[u32], to: &mut [u32]) {
    let mut done = 0;
    while done < to.len() {
        let at = start + done;
        let left = at / (2 * width) * (2 * width);
        let middle = (left + width).min(keys.len());
        let end = (left + 2 * width).min(keys.len());
        let last = (start + to.len()).min(end) - start;
        let (a, b) = (&keys[left..middle], &keys[middle..end]);
        merge(a, b, at - left, &mut to[done..last]);
        done = last;
    }
}

/// Tiles, then merges of which every task has an equal part of the output.
pub(crate) fn merge_sort(keys: &mut Vec<u32>) {
    let length = keys.len();
    let mut other = vec![0; length];
    keys.par_chunks_mut(TILE)
        .zip(other.par_chunks_mut(TILE))
        .for_each(|(keys, other)| {
            for run in keys.chunks_mut(2 * RUN) {
                for i in 1..run.len() {
                    let key = run[i];
                    let mut at = i;
                    while at > 0 && key < run[at - 1] {
                        run[at] = run[at - 1];
                        at -= 1;
                    }
                    run[at] = key;
                }
            }
            let mut width = 2 * RUN;
            let (mut from, mut to) = (keys, other);
            while width < TILE {
                merge_pairs(width, 0, from, to);
                std::mem::swap(&mut from, &mut to);
                width *= 2;
            }
        });
    let part = part_of(length);
    let mut width = TILE;
    while width < length {
        let from = &keys[..];
        other
            .par_chunks_mut(part)
            .enumerate()
            .for_each(|(number, to)| merge_pairs(width, number * part, from, to));
        std::mem::swap(keys, &mut other);
        width *= 2;
    }
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

/// How many of each highest byte. How many bins there are is only told as it runs, and what has none is left out, as in ours: so
/// that is asked of each element.
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
