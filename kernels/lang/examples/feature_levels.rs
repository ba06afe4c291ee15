//! The gain of each feature level on one core: the same kernels, compiled for each, on data that
//! stays in the cache.
//!
//! `cargo run --release -p quipu-kernel --example feature_levels`
//!
//! Prints nanoseconds per element, the median over several runs; and checks that every level gives
//! the same bits.

use std::time::Instant;

use quipu_kernel::{
    Accelerator, BlockAccelerator, BlockKernel, BlockScratch, ByElement, FeatureLevel, GlobalMut,
    GroupKernel, Kernel, KernelError, OwnElements, RunOptions, WorkDivision, erase, erase_block,
};

const ELEMENTS: usize = 4096;
const REPEATS: usize = 200;
const RUNS: usize = 15;

/// `y = a * x + y`.
struct Saxpy<'a>(&'a [f32]);

impl Kernel<1> for Saxpy<'_> {
    type Output = ByElement<f32>;
    fn run<A: Accelerator<1>>(&self, _acc: &A, mut y: OwnElements<'_, f32>) {
        for (i, y) in y.each() {
            *y += 3.0 * self.0[i];
        }
    }
}

/// A polynomial of 16 terms, each of one fused operation if `FUSED`.
struct Polynomial<'a, const FUSED: bool>(&'a [f32]);

impl<const FUSED: bool> Kernel<1> for Polynomial<'_, FUSED> {
    type Output = ByElement<f32>;
    fn run<A: Accelerator<1>>(&self, _acc: &A, mut y: OwnElements<'_, f32>) {
        for (i, y) in y.each() {
            let x = self.0[i];
            *y = (0..16).fold(0.0, |sum: f32, term| {
                let factor = 1.0 / (1 + term) as f32;
                if FUSED {
                    sum.mul_add(x, factor)
                } else {
                    sum * x + factor
                }
            });
        }
    }
}

/// How many bits are one.
struct Bits<'a>(&'a [f32]);

impl Kernel<1> for Bits<'_> {
    type Output = ByElement<f32>;
    fn run<A: Accelerator<1>>(&self, _acc: &A, mut y: OwnElements<'_, f32>) {
        for (i, y) in y.each() {
            *y = self.0[i].to_bits().count_ones() as f32;
        }
    }
}

/// The polynomial in a block kernel, in the state machine behind a barrier.
struct BlockPolynomial<'a>(&'a [f32]);

impl BlockKernel<1> for BlockPolynomial<'_> {
    type Output = ByElement<f32>;
    type Shared = ();

    fn shared(&self, _division: &WorkDivision<1>) {}

    async fn run<A: BlockAccelerator<1>>(&self, acc: &A, y: OwnElements<'_, f32>, (): ()) {
        acc.sync_block_threads().await;
        Polynomial::<true>(self.0).run(acc, y);
        acc.sync_block_threads().await;
    }
}

/// Nanoseconds per element, and the bits of the first run's output.
fn measure(
    level: FeatureLevel,
    launch: impl for<'a> Fn(GlobalMut<'a, f32>) -> Result<Box<dyn GroupKernel + 'a>, KernelError>,
) -> Result<(f64, Vec<u32>), KernelError> {
    let mut options = RunOptions::new();
    options.level = level;
    let mut scratch = BlockScratch::with_options(options);
    let mut y = vec![1.0; ELEMENTS];
    launch(GlobalMut::from(&mut y))?.run_all(&mut scratch)?;
    let bits = y.iter().map(|y| y.to_bits()).collect();
    let mut launch = launch(GlobalMut::from(&mut y))?;
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        for _ in 0..REPEATS {
            launch.run_all(&mut scratch)?;
        }
        times.push(start.elapsed().as_secs_f64() * 1e9 / (ELEMENTS * REPEATS) as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok((times[RUNS / 2], bits))
}

fn main() -> Result<(), KernelError> {
    let x: Vec<f32> = (0..ELEMENTS).map(|i| i as f32 / ELEMENTS as f32).collect();
    let x: &'static [f32] = x.leak();
    let one = WorkDivision::new(1, 1, ELEMENTS)?;
    let block = WorkDivision::new(1, 8, ELEMENTS / 8)?;

    println!(
        "nanoseconds per element, median of {RUNS} runs; this machine has {}",
        FeatureLevel::detected()
    );
    println!(
        "{:>10} {:>8} {:>12} {:>12} {:>12} {:>8}",
        "level", "saxpy", "polynomial", "fused", "in a block", "bits"
    );
    let mut baseline: Option<Vec<Vec<u32>>> = None;
    for level in FeatureLevel::ALL {
        if level > FeatureLevel::detected() {
            break;
        }
        let columns = [
            measure(level, |y| Ok(Box::new(erase(Saxpy(x), y, one)?)))?,
            measure(level, |y| {
                Ok(Box::new(erase(Polynomial::<false>(x), y, one)?))
            })?,
            measure(level, |y| {
                Ok(Box::new(erase(Polynomial::<true>(x), y, one)?))
            })?,
            measure(level, |y| {
                Ok(Box::new(erase_block(BlockPolynomial(x), y, block)?))
            })?,
            measure(level, |y| Ok(Box::new(erase(Bits(x), y, one)?)))?,
        ];
        let [saxpy, polynomial, fused, in_a_block, bits] =
            columns.each_ref().map(|(time, _)| *time);
        println!(
            "{level:>10} {saxpy:>8.3} {polynomial:>12.3} {fused:>12.3} {in_a_block:>12.3} {bits:>8.3}"
        );
        let results: Vec<_> = columns.into_iter().map(|(_, bits)| bits).collect();
        assert!(
            baseline.get_or_insert_with(|| results.clone()) == &results,
            "{level} gives other bits"
        );
    }
    println!("all levels give the same bits");
    Ok(())
}
