//! Kernels of the guide and of the front end's examples, beside the same by hand.

use crate::by_hand::PART;
use crate::timing::{self, Both, Table, run};
use crate::wait;
use quipu::kernels::Complex;
use quipu::prelude::*;
use rayon::prelude::*;
use std::cell::RefCell;
use std::hint::black_box;
use std::ops::{Add, Mul};
use std::sync::atomic::{AtomicU32, Ordering};

const LENGTH: usize = 1 << 24;
const SIDE: usize = 4096;

include!("guide_kernels.rs");

/// Of as many `columns` as it is told, as the kernel is.
fn spread_by_hand(columns: usize, before: &[f32], after: &mut [f32]) {
    let last = before.len() / columns - 1;
    after
        .par_chunks_mut(columns)
        .enumerate()
        .for_each(|(i, after)| {
            let row = |i: usize| &before[i * columns..(i + 1) * columns];
            let (above, here, below) = (row(i.saturating_sub(1)), row(i), row((i + 1).min(last)));
            for (j, after) in after.iter_mut().enumerate() {
                let (left, right) = (here[j.saturating_sub(1)], here[(j + 1).min(columns - 1)]);
                *after = (above[j] + below[j] + left + right) / 4.0;
            }
        });
}

/// Of the points that it is told, as the kernel is.
fn mandelbrot_by_hand(from: Vector, step: Vector, steps: &mut [u32]) {
    let parts = steps.par_chunks_mut(PART / 16).enumerate();
    parts.for_each(|(part, steps)| {
        for (i, steps) in steps.iter_mut().enumerate() {
            let i = (part * PART / 16 + i) as f32;
            let (real, imaginary) = (from.x + i * step.x, from.y + i * step.y);
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

fn draw_by_hand(shape: Ring, picture: &mut [u8]) {
    let rows = (picture.len() / SIDE) as f32;
    picture
        .par_chunks_mut(SIDE)
        .enumerate()
        .for_each(|(i, line)| {
            let y = (i as f32 + 0.5) / rows;
            for (j, pixel) in line.iter_mut().enumerate() {
                let x = (j as f32 + 0.5) / SIDE as f32;
                let inside = |disc: Disc| {
                    let (across, down) = (x - disc.centre[0], y - disc.centre[1]);
                    across * across + down * down < disc.radius * disc.radius
                };
                *pixel = u8::from(inside(shape.outer) && !inside(shape.inner));
            }
        });
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

/// A row of a tile, from a place of a matrix on.
fn fetch(side: usize, from: &[f32], [row, column]: [usize; 2], to: &mut [f32]) {
    let there = if row < side {
        side.saturating_sub(column).min(TILE)
    } else {
        0
    };
    let (to, beyond) = to.split_at_mut(there);
    if there > 0 {
        to.copy_from_slice(&from[row * side + column..][..there]);
    }
    beyond.fill(0.0);
}

/// The same tiles, element by element. Like the kernel it is told the `side` as it runs, which need
/// not be a multiple of `TILE`: what is beyond it is zero.
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
                        let (row, down) = (block * TILE + i, tile + i);
                        fetch(side, a, [row, tile], &mut a_tile[i * TILE..][..TILE]);
                        fetch(side, b, [down, left], &mut b_tile[i * TILE..][..TILE]);
                    }
                    for i in 0..TILE {
                        for j in 0..TILE {
                            for k in 0..TILE {
                                sums[i * TILE + j] += a_tile[i * TILE + k] * b_tile[k * TILE + j];
                            }
                        }
                    }
                }
                let (rows, columns) = (c.len() / side, (side - left).min(TILE));
                for i in 0..rows {
                    c[i * side + left..][..columns].copy_from_slice(&sums[i * TILE..][..columns]);
                }
            }
        });
}

/// Rows of the table for kernels of one thread per block.
pub(crate) fn loops(table: &Table, context: &Context, queue: &Queue) -> quipu::Result<()> {
    let x: Vec<f32> = (0..LENGTH).map(|i| (i % 1000) as f32).collect();
    let from = Both::new(table, context, &x)?;
    let to = Both::new(table, context, &x)?;
    let shaped = |memory: &Both<f32>| memory.buffer().shaped([SIDE, SIDE]).unwrap();
    let bytes = 4 * LENGTH;
    table.row_within(
        &to,
        "guide: saxpy",
        3 * bytes,
        run(|| wait(queue.launch(LENGTH, saxpy(1e-3, &from.buffer(), &mut to.buffer())))),
        run(|| {
            let parts = to.by_hand_mut().par_chunks_mut(PART);
            let parts = parts.zip(from.by_hand().par_chunks(PART));
            parts.for_each(|(y, x)| {
                for (y, x) in y.iter_mut().zip(x) {
                    *y += 1e-3 * x;
                }
            });
        }),
    );
    table.row_into(
        &to,
        "guide: shift",
        2 * bytes,
        run(|| wait(queue.launch(LENGTH, shift(&from.buffer(), to.buffer().overwrite())))),
        run(|| {
            let x = from.by_hand();
            let parts = to.by_hand_mut().par_chunks_mut(PART).enumerate();
            parts.for_each(|(part, y)| {
                let start = part * PART;
                y[0] = if start == 0 { 0.0 } else { x[start - 1] };
                let length = y.len() - 1;
                y[1..].copy_from_slice(&x[start..start + length]);
            });
        }),
    );
    table.row_into(
        &to,
        "guide: spread",
        2 * bytes,
        run(|| {
            let (before, mut after) = (shaped(&from), shaped(&to));
            let call = spread(&before, &mut after);
            wait(queue.launch([SIDE, SIDE], call));
        }),
        run(|| spread_by_hand(black_box(SIDE), from.by_hand(), to.by_hand_mut())),
    );
    table.row_within(
        &to,
        "guide: normalise",
        2 * bytes,
        run(|| wait(queue.launch(SIDE, normalise(&mut shaped(&to))))),
        run(|| {
            to.by_hand_mut().par_chunks_mut(SIDE).for_each(|row| {
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
    table.row_within(
        &to,
        "guide: parabola",
        2 * bytes,
        run(|| wait(queue.launch(LENGTH, parabola(line, &mut to.buffer())))),
        run(|| {
            to.by_hand_mut().par_chunks_mut(PART).for_each(|y| {
                for y in y {
                    *y = square(line.slope * *y + line.offset);
                }
            });
        }),
    );
    let few = LENGTH / 64;
    let steps = RefCell::new(context.allocate::<u32>(few)?);
    let mut steps_by_hand = vec![0; few];
    let width = 3.0 / few as f32;
    let (point, step) = black_box((Vector { x: -2.0, y: 0.5 }, Vector { x: width, y: 0.0 }));
    table.row(
        "guide: mandelbrot",
        0,
        timing::after(
            || wait(queue.fill(&steps.borrow(), 0)),
            || {
                wait(queue.launch(few, mandelbrot(point, step, &mut *steps.borrow_mut())));
            },
        ),
        run(|| mandelbrot_by_hand(point, step, &mut steps_by_hand)),
    );
    let counted = queue.read(&steps.borrow())?.wait()?;
    table.compare("guide: mandelbrot", &counted, &steps_by_hand);
    let mut y = vec![0.0; few];
    let few_from = context.buffer(&x[..few])?;
    let mut few_to = context.allocate::<f32>(few)?;
    table.row(
        "guide: roots",
        0,
        run(|| {
            let clip = Clip {
                low: 2.0,
                high: 10.0,
            };
            wait(queue.launch(few, clip.roots(&few_from, &mut few_to)));
        }),
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
    table.compare("guide: roots", &queue.read(&few_to)?.wait()?, &y);
    let disc = |radius| Disc {
        centre: [0.5, 0.5],
        radius,
    };
    let ring = Ring {
        outer: disc(0.5),
        inner: disc(0.25),
    };
    let mut picture = context.allocate_nd::<u8, 2>([SIDE, SIDE])?;
    let mut picture_by_hand = vec![0_u8; SIDE * SIDE];
    table.row(
        "guide: draw",
        SIDE * SIDE,
        run(|| wait(queue.launch([SIDE, SIDE], draw(ring, &mut picture)))),
        run(|| draw_by_hand(ring, &mut picture_by_hand)),
    );
    let drawn = queue.read_nd(&picture)?.wait()?;
    table.compare("guide: draw", &drawn, &picture_by_hand);
    let text: Vec<u8> = (0..LENGTH / 16).map(|i| (i * 167 % 251) as u8).collect();
    let from_text = context.buffer(&text)?;
    let mut counts = context.buffer(&[0_u32; 256])?;
    let counts_by_hand: Vec<AtomicU32> = (0..256).map(|_| AtomicU32::new(0)).collect();
    table.row(
        "guide: histogram of atomics",
        text.len(),
        run(|| wait(queue.launch(text.len(), histogram(&from_text, &mut counts)))),
        run(|| {
            text.par_chunks(PART / 16).for_each(|text| {
                for byte in text {
                    counts_by_hand[usize::from(*byte)].fetch_add(1, Ordering::Relaxed);
                }
            });
        }),
    );
    let by_hand: Vec<u32> = counts_by_hand
        .into_iter()
        .map(AtomicU32::into_inner)
        .collect();
    let counted = queue.read(&counts)?.wait()?;
    table.compare("guide: histogram of atomics", &counted, &by_hand);
    Ok(())
}

/// Rows for kernels with barriers.
pub(crate) fn blocks(table: &Table, context: &Context, queue: &Queue) -> quipu::Result<()> {
    let (blocks, threads, elements) = (256, 128, 123);
    let x: Vec<u64> = (0..(blocks * threads * elements) as u64).collect();
    let from = Both::new(table, context, &x)?;
    let mut sums = context.allocate::<u64>(blocks)?;
    let mut sums_by_hand = vec![0; blocks];
    table.row(
        "guide: block_sum",
        8 * x.len(),
        run(|| {
            let division = WorkDivision::new(blocks, threads, elements);
            wait(queue.launch(division, block_sum(&from.buffer(), sums.overwrite())));
        }),
        run(|| {
            let (threads, elements) = black_box((threads, elements));
            block_sum_by_hand(from.by_hand(), &mut sums_by_hand, threads, elements);
        }),
    );
    table.compare(
        "guide: block_sum",
        &queue.read(&sums)?.wait()?,
        &sums_by_hand,
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
        run(|| matrix_product_by_hand(black_box(side), &a, &b, &mut c_by_hand)),
    );
    let product = queue.read_nd(&c)?.wait()?;
    table.compare("guide: matrix product of 512", &product, &c_by_hand);
    Ok(())
}
