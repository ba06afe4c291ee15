//! Times algorithms against the same written by hand with rayon, one after the other, many times:
//! `cargo run --release -p quipu-algorithms --example against_rayon`.
//!
//! A ratio of 1 is equally fast, more is faster than by hand.

use quipu::prelude::*;
use quipu_algorithms::{
    Function2, Sum, fill, inclusive_scan, matrix_product, reduce, transpose, zip,
};
use rayon::prelude::*;
use std::time::Instant;

const LENGTH: usize = 1 << 24;
const ROUNDS: usize = 25;

#[derive(Clone, Copy, KernelData)]
#[repr(C)]
struct Axpy {
    a: f32,
}

#[device]
impl Function2<f32, f32, f32> for Axpy {
    fn apply(self, x: f32, y: f32) -> f32 {
        self.a * x + y
    }
}

fn seconds(run: &mut dyn FnMut()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64()
}

/// Prints the medians, in milliseconds, and that of the ratios.
fn compare(name: &str, mut ours: impl FnMut(), mut theirs: impl FnMut()) -> f64 {
    ours();
    theirs();
    let mut pairs: Vec<_> = (0..ROUNDS)
        .map(|_| (seconds(&mut ours), seconds(&mut theirs)))
        .collect();
    let middle = ROUNDS / 2;
    pairs.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
    let ratio = pairs[middle].1 / pairs[middle].0;
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ours = pairs[middle].0;
    pairs.sort_by(|a, b| a.1.total_cmp(&b.1));
    println!(
        "{name:16} {:8.3} ms, by hand {:8.3} ms, ratio {ratio:.3}",
        ours * 1e3,
        pairs[middle].1 * 1e3
    );
    ours
}

fn main() -> quipu::Result<()> {
    let context = Platform::new()?.context()?;
    let queue = context.queue(&context.fastest())?;
    let a: Vec<f32> = (0..LENGTH).map(|i| (i % 1000) as f32).collect();
    let b = vec![1.0_f32; LENGTH];
    let mut y = vec![0.0_f32; LENGTH];
    let (from_a, from_b) = (context.buffer(&a)?, context.buffer(&b)?);
    let mut to = context.allocate::<f32>(LENGTH)?;
    let mut sum = context.allocate::<f32>(1)?;
    let part = 1 << 16;
    let wait = |done: quipu::Result<Event>| done.and_then(|event| event.wait()).expect("it runs");

    compare(
        "fill",
        || wait(fill(&queue, 3.0, &mut to)),
        || y.par_chunks_mut(part).for_each(|y| y.fill(3.0)),
    );
    compare(
        "zip (a x + y)",
        || wait(zip(&queue, Axpy { a: 2.0 }, &from_a, &from_b, &mut to)),
        || {
            let inputs = a.par_chunks(part).zip(b.par_chunks(part));
            y.par_chunks_mut(part).zip(inputs).for_each(|(y, (a, b))| {
                for ((y, a), b) in y.iter_mut().zip(a).zip(b) {
                    *y = 2.0 * a + b;
                }
            });
        },
    );
    compare(
        "reduce (sum)",
        || wait(reduce::<Sum, _>(&queue, &from_a, &mut sum)),
        || {
            let total: f32 = a
                .par_chunks(part)
                .map(|a| {
                    let mut lanes = [0.0_f32; 64];
                    for a in a.chunks_exact(64) {
                        for (lane, a) in lanes.iter_mut().zip(a) {
                            *lane += a;
                        }
                    }
                    lanes.iter().sum::<f32>()
                })
                .sum();
            std::hint::black_box(total);
        },
    );
    compare(
        "scan (sums)",
        || wait(inclusive_scan::<Sum, _>(&queue, &from_a, &mut to)),
        || {
            let part = LENGTH / 8;
            let mut totals: Vec<f32> = a
                .par_chunks(part)
                .map(|a| a.iter().fold(0.0, |sum, a| sum + a))
                .collect();
            let mut before = 0.0;
            for total in &mut totals {
                before += std::mem::replace(total, before);
            }
            let inputs = a.par_chunks(part).zip(totals);
            y.par_chunks_mut(part)
                .zip(inputs)
                .for_each(|(y, (a, mut sum))| {
                    for (y, a) in y.iter_mut().zip(a) {
                        sum += a;
                        *y = sum;
                    }
                });
        },
    );
    compare(
        "transpose",
        || wait(transpose(&queue, 4096, &from_a, &mut to)),
        || {
            y.par_chunks_mut(32 * 4096).enumerate().for_each(|(i, y)| {
                for j in (0..4096).step_by(32) {
                    for (r, y) in y.chunks_exact_mut(4096).enumerate() {
                        for (k, y) in y[j..j + 32].iter_mut().enumerate() {
                            *y = a[(j + k) * 4096 + i * 32 + r];
                        }
                    }
                }
            });
        },
    );

    let side = 1024;
    let (a, b) = (from_a.slice(..side * side)?, from_b.slice(..side * side)?);
    let mut c = to.slice(..side * side)?;
    let devices = context.devices().to_vec();
    for device in devices {
        let queue = context.queue(&device)?;
        let mut run = || wait(matrix_product(&queue, [side; 3], &a, &b, &mut c));
        run();
        let mut times: Vec<f64> = (0..ROUNDS).map(|_| seconds(&mut run)).collect();
        times.sort_by(f64::total_cmp);
        let rate = |seconds: f64| 2.0 * (side as f64).powi(3) / seconds * 1e-9;
        println!(
            "matrix product of {side} on {}: {:.1} GFLOP/s, at best {:.1}",
            device.name(),
            rate(times[ROUNDS / 2]),
            rate(times[0])
        );
    }
    Ok(())
}
