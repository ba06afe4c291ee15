//! Kernels of the guide and of the front end's examples, beside the same by hand.

use crate::by_hand::PART;
use crate::timing::{Table, run};
use crate::wait;
use quipu::kernels::Complex;
use quipu::prelude::*;
use rayon::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};

const LENGTH: usize = 1 << 24;
const SIDE: usize = 4096;
const TILE: usize = 16;

#[kernel]
fn saxpy(_acc: &impl Accelerator<1>, a: f32, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        *y += a * x[i];
    }
}

#[kernel]
fn shift(_acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        *y = if i == 0 { 0.0 } else { x[i - 1] };
    }
}

#[kernel]
fn spread(_acc: &impl Accelerator<2>, before: GlobalRef<f32, 2>, mut after: OwnElements<f32, 2>) {
    let last_row = before.extent()[0] - 1;
    let last_column = before.extent()[1] - 1;
    for (position, part) in after.rows() {
        let i = position[0];
        for (k, after) in part.iter_mut().enumerate() {
            let j = position[1] + k;
            let above = before[[i.saturating_sub(1), j]];
            let below = before[[(i + 1).min(last_row), j]];
            let left = before[[i, j.saturating_sub(1)]];
            let right = before[[i, (j + 1).min(last_column)]];
            *after = (above + below + left + right) / 4.0;
        }
    }
}

fn spread_by_hand(before: &[f32], after: &mut [f32]) {
    let last = before.len() / SIDE - 1;
    after
        .par_chunks_mut(SIDE)
        .enumerate()
        .for_each(|(i, after)| {
            let row = |i: usize| &before[i * SIDE..(i + 1) * SIDE];
            let (above, here, below) = (row(i.saturating_sub(1)), row(i), row((i + 1).min(last)));
            for (j, after) in after.iter_mut().enumerate() {
                let (left, right) = (here[j.saturating_sub(1)], here[(j + 1).min(SIDE - 1)]);
                *after = (above[j] + below[j] + left + right) / 4.0;
            }
        });
}

#[kernel]
fn normalise(_acc: &impl Accelerator<1>, mut shares: OwnRows<f32>) {
    for (_, row) in shares.each() {
        let mut sum = 0.0;
        for share in row.iter() {
            sum += share;
        }
        for share in row {
            *share /= sum;
        }
    }
}

#[derive(Clone, Copy, KernelData)]
#[repr(C)]
struct Line {
    slope: f32,
    offset: f32,
}

#[device]
impl Line {
    fn height(self, x: f32) -> f32 {
        self.slope * x + self.offset
    }
}

#[device]
fn square(x: f32) -> f32 {
    x * x
}

#[kernel]
fn parabola(_acc: &impl Accelerator<1>, line: Line, mut y: OwnElements<f32>) {
    for (_, y) in y.each() {
        *y = square(line.height(*y));
    }
}

#[kernel]
fn mandelbrot(_acc: &impl Accelerator<1>, width: f32, mut steps: OwnElements<u32>) {
    for (i, steps) in steps.each() {
        let c = Complex::new(-2.0 + i as f32 * width, 0.5);
        let mut z = Complex::ZERO;
        *steps = 0;
        while z.norm_sqr() < 4.0 && *steps < 100 {
            z = z * z + c;
            *steps += 1;
        }
    }
}

fn mandelbrot_by_hand(width: f32, steps: &mut [u32]) {
    let parts = steps.par_chunks_mut(PART / 16).enumerate();
    parts.for_each(|(part, steps)| {
        for (i, steps) in steps.iter_mut().enumerate() {
            let (real, imaginary) = (-2.0 + (part * PART / 16 + i) as f32 * width, 0.5);
            let (mut x, mut y) = (0.0_f32, 0.0_f32);
            let mut count = 0;
            while x * x + y * y < 4.0 && count < 100 {
                (x, y) = (x * x - y * y + real, x * y + y * x + imaginary);
                count += 1;
            }
            *steps = count;
        }
    });
}

#[device]
fn first_number(holds: impl Fn(f32) -> bool) -> f32 {
    let mut number = 0.0;
    while number < 1000.0 && !holds(number) {
        number += 1.0;
    }
    number
}

#[kernel]
fn roots(_acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        *y = first_number(|root| root * root >= x[i]).clamp(2.0, 10.0);
    }
}

#[derive(Clone, Copy, KernelData)]
#[repr(C)]
struct Ring {
    centre: [f32; 2],
    outer: f32,
    inner: f32,
}

#[device]
impl Ring {
    fn covers(self, x: f32, y: f32) -> bool {
        let distance = square(x - self.centre[0]) + square(y - self.centre[1]);
        distance < square(self.outer) && distance >= square(self.inner)
    }
}

#[kernel]
fn draw(_acc: &impl Accelerator<2>, shape: Ring, mut picture: OwnElements<u8, 2>) {
    let rows = picture.extent()[0] as f32;
    let columns = picture.extent()[1] as f32;
    for (position, part) in picture.rows() {
        for (k, pixel) in part.iter_mut().enumerate() {
            let x = ((position[1] + k) as f32 + 0.5) / columns;
            let y = (position[0] as f32 + 0.5) / rows;
            *pixel = if shape.covers(x, y) { 1 } else { 0 };
        }
    }
}

fn draw_by_hand(shape: Ring, picture: &mut [u8]) {
    let rows = (picture.len() / SIDE) as f32;
    picture
        .par_chunks_mut(SIDE)
        .enumerate()
        .for_each(|(i, line)| {
            let y = (i as f32 + 0.5) / rows;
            for (j, pixel) in line.iter_mut().enumerate() {
                let x = (j as f32 + 0.5) / SIDE as f32;
                let distance = square(x - shape.centre[0]) + square(y - shape.centre[1]);
                let covers = distance < square(shape.outer) && distance >= square(shape.inner);
                *pixel = u8::from(covers);
            }
        });
}

#[kernel]
fn count_bytes(acc: &impl Accelerator<1>, bytes: &[u8], counts: Atomics<u32>) {
    for i in acc.elements(bytes.len()) {
        counts.add(bytes[i] as usize, 1);
    }
}

#[kernel]
async fn block_sum(
    acc: &impl BlockAccelerator<1>,
    x: &[u64],
    sum: OwnBlock<u64>,
    #[shared(acc.extent(Block, Threads)[0])] mut sums: SharedWrite<u64>,
) {
    let thread = acc.index(Block, Threads)[0];
    let mut own = 0;
    for i in acc.elements(x.len()) {
        own += x[i];
    }
    sums.own()[0] = own;
    let mut half = acc.extent(Block, Threads)[0] / 2;
    while half > 0 {
        let read = acc.sync(sums).await;
        let other = if thread < half {
            read[thread + half]
        } else {
            0
        };
        sums = acc.sync(read).await;
        sums.own()[0] += other;
        half /= 2;
    }
    for sum in sum {
        *sum = sums.own()[0];
    }
}

/// The same threads, which are loops between the barriers.
fn block_sum_by_hand(x: &[u64], sums: &mut [u64], threads: usize, elements: usize) {
    let parts = x.par_chunks(threads * elements);
    sums.par_iter_mut().zip(parts).for_each(|(sum, x)| {
        let mut shared = vec![0_u64; threads];
        for (sum, x) in shared.iter_mut().zip(x.chunks(elements)) {
            *sum = x.iter().sum();
        }
        let mut half = threads / 2;
        while half > 0 {
            let (low, high) = shared.split_at_mut(half);
            for (low, high) in low.iter_mut().zip(high) {
                *low += *high;
            }
            half /= 2;
        }
        *sum = shared[0];
    });
}

#[kernel]
async fn matrix_product(
    acc: &impl BlockAccelerator<2>,
    a: GlobalRef<f32, 2>,
    b: GlobalRef<f32, 2>,
    mut c: OwnElements<f32, 2>,
    #[shared(TILE * TILE)] mut a_tile: SharedWrite<f32>,
    #[shared(TILE * TILE)] mut b_tile: SharedWrite<f32>,
) {
    let (rows, inner, columns) = (a.extent()[0], b.extent()[0], b.extent()[1]);
    let (row, column) = (acc.index(Grid, Threads)[0], acc.index(Grid, Threads)[1]);
    let (i, j) = (acc.index(Block, Threads)[0], acc.index(Block, Threads)[1]);

    let mut sum = 0.0;
    for tile in 0..inner.div_ceil(TILE) {
        let (across, down) = (tile * TILE + j, tile * TILE + i);
        a_tile.own()[0] = if row < rows && across < inner {
            a[[row, across]]
        } else {
            0.0
        };
        b_tile.own()[0] = if down < inner && column < columns {
            b[[down, column]]
        } else {
            0.0
        };

        let (a_read, b_read) = acc.sync((a_tile, b_tile)).await;
        for k in 0..TILE {
            sum += a_read[i * TILE + k] * b_read[k * TILE + j];
        }
        (a_tile, b_tile) = acc.sync((a_read, b_read)).await;
    }
    for (_, c) in c.each() {
        *c = sum;
    }
}

/// The same tiles, element by element. (Of a `side` that is a multiple of `TILE`.)
fn matrix_product_by_hand(side: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    c.par_chunks_mut(TILE * side)
        .enumerate()
        .for_each(|(block, c)| {
            let mut a_tile = [0.0; TILE * TILE];
            let mut b_tile = [0.0; TILE * TILE];
            for left in (0..side).step_by(TILE) {
                let mut sums = [0.0; TILE * TILE];
                for tile in (0..side).step_by(TILE) {
                    for i in 0..TILE {
                        let at = (block * TILE + i) * side + tile;
                        a_tile[i * TILE..][..TILE].copy_from_slice(&a[at..][..TILE]);
                        let at = (tile + i) * side + left;
                        b_tile[i * TILE..][..TILE].copy_from_slice(&b[at..][..TILE]);
                    }
                    for i in 0..TILE {
                        for j in 0..TILE {
                            for k in 0..TILE {
                                sums[i * TILE + j] += a_tile[i * TILE + k] * b_tile[k * TILE + j];
                            }
                        }
                    }
                }
                for i in 0..TILE {
                    c[i * side + left..][..TILE].copy_from_slice(&sums[i * TILE..][..TILE]);
                }
            }
        });
}

/// Rows of the table for kernels of one thread per block.
pub(crate) fn loops(table: &Table, context: &Context, queue: &Queue) -> quipu::Result<()> {
    let x: Vec<f32> = (0..LENGTH).map(|i| (i % 1000) as f32).collect();
    let from = context.buffer(&x)?;
    let mut to = context.buffer(&x)?;
    let mut y = x.clone();
    let bytes = 4 * LENGTH;
    table.row(
        "guide: saxpy",
        3 * bytes,
        run(|| wait(queue.launch(LENGTH, saxpy(1e-3, &from, &mut to)))),
        run(|| {
            let parts = y.par_chunks_mut(PART).zip(x.par_chunks(PART));
            parts.for_each(|(y, x)| {
                for (y, x) in y.iter_mut().zip(x) {
                    *y += 1e-3 * x;
                }
            });
        }),
    );
    table.row(
        "guide: shift",
        2 * bytes,
        run(|| wait(queue.launch(LENGTH, shift(&from, to.overwrite())))),
        run(|| {
            let parts = y.par_chunks_mut(PART).enumerate();
            parts.for_each(|(part, y)| {
                let start = part * PART;
                y[0] = if start == 0 { 0.0 } else { x[start - 1] };
                let length = y.len() - 1;
                y[1..].copy_from_slice(&x[start..start + length]);
            });
        }),
    );
    let before = from.shaped([SIDE, SIDE])?;
    let mut after = to.shaped([SIDE, SIDE])?;
    table.row(
        "guide: spread",
        2 * bytes,
        run(|| wait(queue.launch([SIDE, SIDE], spread(&before, &mut after)))),
        run(|| spread_by_hand(&x, &mut y)),
    );
    table.row(
        "guide: normalise",
        2 * bytes,
        run(|| wait(queue.launch(SIDE, normalise(&mut after)))),
        run(|| {
            y.par_chunks_mut(SIDE).for_each(|row| {
                let sum: f32 = row.iter().sum();
                for share in row {
                    *share /= sum;
                }
            });
        }),
    );
    let line = Line {
        slope: 0.5,
        offset: 0.25,
    };
    table.row(
        "guide: parabola",
        2 * bytes,
        run(|| wait(queue.launch(LENGTH, parabola(line, &mut to)))),
        run(|| {
            y.par_chunks_mut(PART).for_each(|y| {
                for y in y {
                    *y = square(line.slope * *y + line.offset);
                }
            });
        }),
    );
    let few = LENGTH / 64;
    let mut steps = context.allocate::<u32>(few)?;
    let mut steps_by_hand = vec![0; few];
    let width = 3.0 / few as f32;
    table.row(
        "guide: mandelbrot",
        0,
        run(|| wait(queue.launch(few, mandelbrot(width, &mut steps)))),
        run(|| mandelbrot_by_hand(width, &mut steps_by_hand)),
    );
    let few_from = context.buffer(&x[..few])?;
    let mut few_to = context.allocate::<f32>(few)?;
    table.row(
        "guide: roots",
        0,
        run(|| wait(queue.launch(few, roots(&few_from, &mut few_to)))),
        run(|| {
            let parts = y
                .par_chunks_mut(PART / 16)
                .zip(x[..few].par_chunks(PART / 16));
            parts.for_each(|(y, x)| {
                for (y, x) in y.iter_mut().zip(x) {
                    let mut root = 0.0;
                    while root < 1000.0 && root * root < *x {
                        root += 1.0;
                    }
                    *y = root.clamp(2.0, 10.0);
                }
            });
        }),
    );
    let ring = Ring {
        centre: [0.5, 0.5],
        outer: 0.5,
        inner: 0.25,
    };
    let mut picture = context.allocate_nd::<u8, 2>([SIDE, SIDE])?;
    let mut picture_by_hand = vec![0_u8; SIDE * SIDE];
    table.row(
        "guide: draw",
        SIDE * SIDE,
        run(|| wait(queue.launch([SIDE, SIDE], draw(ring, &mut picture)))),
        run(|| draw_by_hand(ring, &mut picture_by_hand)),
    );
    let text: Vec<u8> = (0..LENGTH / 16).map(|i| (i * 167 % 251) as u8).collect();
    let from_text = context.buffer(&text)?;
    let mut counts = context.allocate::<u32>(256)?;
    let counts_by_hand: Vec<AtomicU32> = (0..256).map(|_| AtomicU32::new(0)).collect();
    table.row(
        "guide: histogram of atomics",
        text.len(),
        run(|| wait(queue.launch(text.len(), count_bytes(&from_text, &mut counts)))),
        run(|| {
            text.par_chunks(PART / 16).for_each(|text| {
                for byte in text {
                    counts_by_hand[usize::from(*byte)].fetch_add(1, Ordering::Relaxed);
                }
            });
        }),
    );
    Ok(())
}

/// Rows for kernels with barriers.
pub(crate) fn blocks(table: &Table, context: &Context, queue: &Queue) -> quipu::Result<()> {
    let (blocks, threads, elements) = (256, 128, 123);
    let x: Vec<u64> = (0..(blocks * threads * elements) as u64).collect();
    let from = context.buffer(&x)?;
    let mut sums = context.allocate::<u64>(blocks)?;
    let mut sums_by_hand = vec![0; blocks];
    table.row(
        "guide: block_sum",
        8 * x.len(),
        run(|| {
            let division = WorkDivision::new(blocks, threads, elements);
            wait(queue.launch(division, block_sum(&from, sums.overwrite())));
        }),
        run(|| block_sum_by_hand(&x, &mut sums_by_hand, threads, elements)),
    );
    let side = 512;
    let a: Vec<f32> = (0..side * side).map(|i| (i % 7) as f32).collect();
    let b: Vec<f32> = (0..side * side).map(|i| (i % 5) as f32).collect();
    let mut c_by_hand = vec![0.0; side * side];
    let from_a = context.buffer(&a)?.shaped([side, side])?;
    let from_b = context.buffer(&b)?.shaped([side, side])?;
    let mut c = context.allocate_nd([side, side])?;
    table.row(
        "guide: matrix product of 512",
        0,
        run(|| {
            let division = WorkDivision::new([side / TILE; 2], [TILE; 2], [1, 1]);
            wait(queue.launch(division, matrix_product(&from_a, &from_b, &mut c)));
        }),
        run(|| matrix_product_by_hand(side, &a, &b, &mut c_by_hand)),
    );
    Ok(())
}
