//! What a barrier costs each thread of a block on one core.
//!
//! `cargo run --release -p quipu-kernel --example barrier_cost`
//!
//! Every thread adds a number and waits at a barrier, so many times over; the time of the same additions
//! without the barriers is measured beside it. Prints the median over several runs, and their spread.

use std::hint::black_box;
use std::time::Instant;

use quipu_kernel::{
    BlockAccelerator, BlockKernel, BlockScratch, ByElement, GlobalMut, GroupKernel, KernelError,
    OwnElements, SharedArray, SharedWrite, WorkDivision, erase_block,
};

const RUNS: usize = 15;
const BARRIERS: u32 = 1000;

/// Adds, and waits at a barrier each time if it is told to.
struct Count<const WAITS: bool>;

impl<const WAITS: bool> BlockKernel<1> for Count<WAITS> {
    type Output = ByElement<u32>;
    type Shared = ();

    fn shared(&self, _division: &WorkDivision<1>) {}

    async fn run<A: BlockAccelerator<1>>(&self, acc: &A, mut output: OwnElements<'_, u32>, (): ()) {
        let mut sum = acc.thread_index()[0] as u32;
        for step in 0..BARRIERS {
            if WAITS {
                sum = sum.wrapping_mul(3) ^ step;
                acc.sync_block_threads().await;
            } else {
                sum = sum.wrapping_mul(3) ^ black_box(step);
            }
        }
        output.each().for_each(|(_, value)| *value = sum);
    }
}

/// Hands numbers round a shared array: two barriers for each step, which turn it.
struct Rotate;

impl BlockKernel<1> for Rotate {
    type Output = ByElement<u32>;
    type Shared = SharedArray<u32>;

    fn shared(&self, division: &WorkDivision<1>) -> SharedArray<u32> {
        SharedArray::new(division.threads_per_block())
    }

    async fn run<A: BlockAccelerator<1>>(
        &self,
        acc: &A,
        mut output: OwnElements<'_, u32>,
        mut ring: SharedWrite<'_, u32>,
    ) {
        let thread = acc.thread_index()[0];
        let next = if thread + 1 == ring.len() {
            0
        } else {
            thread + 1
        };
        for step in 0..BARRIERS / 2 {
            ring.own()[0] = step;
            let read = acc.sync(ring).await;
            black_box(read[next]);
            ring = acc.sync(read).await;
        }
        output.each().for_each(|(_, value)| *value = ring.own()[0]);
    }
}

/// Nanoseconds per thread and step: median, smallest and largest.
fn measure<K: BlockKernel<1, Output = ByElement<u32>>>(
    kernel: K,
    threads: usize,
) -> Result<[f64; 3], KernelError> {
    let mut output = vec![0; threads];
    let mut scratch = BlockScratch::new();
    let mut launch = erase_block(
        kernel,
        GlobalMut::from(&mut output),
        WorkDivision::new(1, threads, 1)?,
    )?;
    launch.run_all(&mut scratch)?;
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        launch.run_all(&mut scratch)?;
        times.push(start.elapsed().as_secs_f64() * 1e9 / (threads as f64 * f64::from(BARRIERS)));
    }
    times.sort_by(f64::total_cmp);
    Ok([times[RUNS / 2], times[0], times[RUNS - 1]])
}

fn main() -> Result<(), KernelError> {
    println!("nanoseconds per thread and step, median (smallest to largest) of {RUNS} runs");
    println!(
        "{:>8} {:>24} {:>24} {:>24}",
        "threads", "barrier", "turning a shared array", "no barrier"
    );
    for threads in [16, 64, 256, 1024] {
        let cell = |[median, low, high]: [f64; 3]| format!("{median:.2} ({low:.2} to {high:.2})");
        let barrier = measure(Count::<true>, threads)?;
        let turning = measure(Rotate, threads)?;
        let none = measure(Count::<false>, threads)?;
        println!(
            "{threads:>8} {:>24} {:>24} {:>24}",
            cell(barrier),
            cell(turning),
            cell(none)
        );
    }
    Ok(())
}
