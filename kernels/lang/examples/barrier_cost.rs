//! What a barrier costs each thread of a block on one core.
//!
//! `cargo run --release -p quipu-kernel --example barrier_cost [-- --gates]`
//!
//! Every thread adds a number and waits at a barrier, so many times over; the time of the same additions
//! without the barriers is measured beside it. These threads are state machines, as those of a kernel are that waits
//! where not all of its threads are seen to come. A kernel with all barriers in plain sight is run phase by phase, and
//! compared with the same written by hand. Prints the median over several runs, and their spread; with `--gates` it
//! fails if a barrier of such a kernel takes more than a nanosecond.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use quipu_kernel::{
    Block, BlockAccelerator, BlockKernel, BlockScratch, ByElement, GlobalMut, GroupKernel,
    KernelError, OwnElements, SharedArray, SharedWrite, Threads, WorkDivision, erase_block, kernel,
};

const RUNS: usize = 15;
const BARRIERS: u32 = 1000;
/// Nanoseconds for each thread and barrier, where a kernel is run phase by phase.
const GATE: f64 = 1.0;

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

/// The same as a kernel of the language, which is run phase by phase.
#[kernel(crate = quipu_kernel)]
async fn rotate(
    acc: &impl BlockAccelerator<1>,
    mut output: OwnElements<u32>,
    #[shared(acc.extent(Block, Threads)[0])] mut ring: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    let threads = acc.extent(Block, Threads)[0];
    let next = if thread + 1 == threads { 0 } else { thread + 1 };
    let mut sum = 0;
    for step in 0..BARRIERS / 2 {
        ring.own()[0] = step ^ sum;
        let read = acc.sync(ring).await;
        sum += read[next];
        ring = acc.sync(read).await;
    }
    for (_, value) in output.each() {
        *value = sum;
    }
}

/// The same without phases: each thread writes and reads the elements that it names.
#[kernel(crate = quipu_kernel)]
async fn rotate_raw(
    acc: &impl BlockAccelerator<1>,
    mut output: OwnElements<u32>,
    #[shared(acc.extent(Block, Threads)[0])] ring: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    let threads = acc.extent(Block, Threads)[0];
    let next = if thread + 1 == threads { 0 } else { thread + 1 };
    let ring = ring.into_raw();
    let mut sum = 0;
    for step in 0..BARRIERS / 2 {
        // SAFETY: each thread writes its own element; a barrier is before the others' reads and after them.
        unsafe { ring.write(thread, step ^ sum) };
        acc.sync_block_threads().await;
        // SAFETY: as above.
        sum += unsafe { ring.read(next) };
        acc.sync_block_threads().await;
    }
    for (_, value) in output.each() {
        *value = sum;
    }
}

/// As one would write it for a block by hand.
fn rotate_by_hand(output: &mut [u32]) {
    let threads = output.len();
    let mut ring = vec![0; threads];
    output.fill(0);
    for step in 0..BARRIERS / 2 {
        for (own, sum) in ring.iter_mut().zip(&*output) {
            *own = step ^ sum;
        }
        for (thread, sum) in output.iter_mut().enumerate() {
            let next = if thread + 1 == threads { 0 } else { thread + 1 };
            *sum = sum.wrapping_add(ring[next]);
        }
    }
}

/// Median, smallest and largest time of a thread's step, in nanoseconds.
fn times(
    threads: usize,
    mut run: impl FnMut() -> Result<(), KernelError>,
) -> Result<[f64; 3], KernelError> {
    run()?;
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed().as_secs_f64() * 1e9 / (threads as f64 * f64::from(BARRIERS)));
    }
    times.sort_by(f64::total_cmp);
    Ok([times[RUNS / 2], times[0], times[RUNS - 1]])
}

/// Of a kernel whose threads are state machines.
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
    times(threads, || launch.run_all(&mut scratch))
}

fn main() -> Result<ExitCode, KernelError> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let Some(unknown) = arguments.iter().find(|argument| *argument != "--gates") {
        eprintln!(
            "`{unknown}` is no option; there is `--gates`, to fail if a barrier takes too long"
        );
        return Ok(ExitCode::from(2));
    }
    let mut missed = false;
    println!("nanoseconds per thread and step, median (smallest to largest) of {RUNS} runs");
    println!(
        "{:>8} | {:>21} {:>21} {:>21} | {:>21} {:>21}",
        "", "state machines:", "", "", "phase by phase:", ""
    );
    println!(
        "{:>8} | {:>21} {:>21} {:>21} | {:>21} {:>21} {:>21}",
        "threads",
        "barrier",
        "turning an array",
        "no barrier",
        "turning an array",
        "raw array",
        "by hand"
    );
    for threads in [16, 64, 256, 1024] {
        let cell = |[median, low, high]: [f64; 3]| format!("{median:.2} ({low:.2} to {high:.2})");
        let barrier = measure(Count::<true>, threads)?;
        let turning = measure(Rotate, threads)?;
        let none = measure(Count::<false>, threads)?;
        let (mut output, mut scratch) = (vec![0; threads], BlockScratch::new());
        let phases = times(threads, || {
            let division = WorkDivision::new(1, threads, 1)?;
            rotate(&mut output).run_in(division, &mut scratch)
        })?;
        let (mut raw_output, mut scratch) = (vec![0; threads], BlockScratch::new());
        let raw = times(threads, || {
            let division = WorkDivision::new(1, threads, 1)?;
            rotate_raw(&mut raw_output).run_in(division, &mut scratch)
        })?;
        let mut by_hand = vec![0; threads];
        let hand = times(threads, || {
            rotate_by_hand(black_box(&mut by_hand));
            Ok(())
        })?;
        assert_eq!(output, by_hand);
        assert_eq!(raw_output, by_hand);
        println!(
            "{threads:>8} | {:>21} {:>21} {:>21} | {:>21} {:>21} {:>21}",
            cell(barrier),
            cell(turning),
            cell(none),
            cell(phases),
            cell(raw),
            cell(hand)
        );
        missed |= phases[0] > GATE;
    }
    let outcome = if missed { "MISSED" } else { "met" };
    println!("{outcome}: phase by phase, at most {GATE} ns per thread and barrier");
    Ok(ExitCode::from(u8::from(missed && !arguments.is_empty())))
}
