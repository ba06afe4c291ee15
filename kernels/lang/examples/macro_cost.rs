//! The native cost of `#[kernel]`: a kernel that it made beside the same one written by hand, in
//! turns.
//!
//! `cargo run --release -p quipu-kernel --example macro_cost`
//!
//! Prints the median time for an element over several runs of each, and their ratio.

use std::hint::black_box;
use std::time::Instant;

use quipu_kernel::{
    Accelerator, BlockScratch, ByElement, GlobalMut, GlobalRef, GroupKernel, Kernel, KernelError,
    OwnElements, WorkDivision, erase, kernel,
};

const ELEMENTS: usize = 4096; // in the first-level cache, where differences show
const LAUNCHES: usize = 2000;
const RUNS: usize = 31;

#[kernel(crate = quipu_kernel)]
fn saxpy(_acc: &impl Accelerator<1>, a: f32, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        *y += a * x[i];
    }
}

struct ByHand<'a> {
    a: f32,
    x: GlobalRef<'a, f32>,
}

impl Kernel<1> for ByHand<'_> {
    type Output = ByElement<f32>;

    fn run<A: Accelerator<1>>(&self, _acc: &A, mut y: OwnElements<'_, f32>) {
        for (i, y) in y.each() {
            *y += self.a * self.x[i];
        }
    }
}

/// Nanoseconds for an element.
fn time(mut launch: impl FnMut() -> Result<(), KernelError>) -> Result<f64, KernelError> {
    let start = Instant::now();
    for _ in 0..LAUNCHES {
        launch()?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e9 / (ELEMENTS * LAUNCHES) as f64)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> Result<(), KernelError> {
    let division = WorkDivision::new(4, 1, ELEMENTS / 4)?;
    let x = vec![1.0; ELEMENTS];
    let mut y = vec![0.0; ELEMENTS];
    let (mut made, mut by_hand) = (Vec::new(), Vec::new());
    let mut scratch = BlockScratch::new();
    for _ in 0..RUNS {
        made.push(time(|| {
            saxpy(black_box(0.5), &x, black_box(&mut y)).run(division)
        })?);
        by_hand.push(time(|| {
            let kernel = ByHand {
                a: black_box(0.5),
                x: GlobalRef::from(&x),
            };
            erase(kernel, GlobalMut::from(black_box(&mut y)), division)?.run_all(&mut scratch)
        })?);
    }
    let (made, by_hand) = (median(made), median(by_hand));
    println!(
        "made {made:.4} ns, by hand {by_hand:.4} ns, ratio {:.3}",
        made / by_hand
    );
    Ok(())
}
