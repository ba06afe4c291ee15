//! The cost of a barrier for each thread of a block on one core.
//!
//! `cargo run --release -p quipu-kernel --example barrier_cost [-- --gates]`
//!
//! Every thread adds a number and waits at a barrier, so many times over; the time of the same
//! additions without the barriers is measured beside it. These threads are state machines, as those
//! of a kernel are that waits where not all of its threads are seen to come. A kernel with all
//! barriers in plain sight is run phase by phase, with shared arrays that are turned and with raw
//! ones, and compared with the same written by hand. So is a generation of life, by tiles with a
//! halo. Prints the median over several runs, and their spread; with `--gates` it fails if a
//! barrier of such a kernel takes more than a nanosecond, or if raw arrays take much longer than
//! those that are turned.

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
/// How many times longer raw arrays may take.
const RAW_GATE: f64 = 1.3;
/// How many rows and columns a block's tile of life has, without its halo.
const TILE: usize = 16;
/// How many the board has: a torus.
const BOARD: usize = 256;

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
        // SAFETY: each thread writes its own element; a barrier is before the others' reads and
        // after them.
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

/// A generation of life. Each thread sets some of a tile's cells and its halo's, which are the
/// thread's own.
#[kernel(crate = quipu_kernel)]
async fn life(
    acc: &impl BlockAccelerator<2>,
    board: &[u32],
    mut next: OwnElements<u32, 2>,
    #[shared((TILE + 2) * (TILE + 2))] mut tile: SharedWrite<u32>,
) {
    let (i, j) = (acc.index(Block, Threads)[0], acc.index(Block, Threads)[1]);
    let block = acc.block_index();
    let (top, left) = (block[0] * TILE, block[1] * TILE);
    let across = TILE + 2;
    let share = (across * across).div_ceil(TILE * TILE);
    for (k, own) in tile.own().iter_mut().enumerate() {
        let at = (i * TILE + j) * share + k;
        let row = (top + at / across + BOARD - 1) % BOARD;
        let column = (left + at % across + BOARD - 1) % BOARD;
        *own = board[row * BOARD + column];
    }
    let read = acc.sync(tile).await;
    let around = read[i * across + j]
        + read[i * across + j + 1]
        + read[i * across + j + 2]
        + read[(i + 1) * across + j]
        + read[(i + 1) * across + j + 2]
        + read[(i + 2) * across + j]
        + read[(i + 2) * across + j + 1]
        + read[(i + 2) * across + j + 2];
    let lives = read[(i + 1) * across + j + 1];
    for (_, next) in next.each() {
        *next = (around == 3 || around == 2 && lives == 1) as u32;
    }
}

/// The same by a raw array, whose cells threads set side by side.
#[kernel(crate = quipu_kernel)]
async fn life_raw(
    acc: &impl BlockAccelerator<2>,
    board: &[u32],
    mut next: OwnElements<u32, 2>,
    #[shared((TILE + 2) * (TILE + 2))] tile: SharedWrite<u32>,
) {
    let (i, j) = (acc.index(Block, Threads)[0], acc.index(Block, Threads)[1]);
    let block = acc.block_index();
    let (top, left) = (block[0] * TILE, block[1] * TILE);
    let across = TILE + 2;
    let tile = tile.into_raw();
    let mut at = i * TILE + j;
    while at < tile.len() {
        let row = (top + at / across + BOARD - 1) % BOARD;
        let column = (left + at % across + BOARD - 1) % BOARD;
        // SAFETY: each cell is set by one thread, and read after the barrier.
        unsafe { tile.write(at, board[row * BOARD + column]) };
        at += TILE * TILE;
    }
    acc.sync_block_threads().await;
    // SAFETY: behind the barrier no cell is set.
    let around = unsafe {
        tile.read(i * across + j)
            + tile.read(i * across + j + 1)
            + tile.read(i * across + j + 2)
            + tile.read((i + 1) * across + j)
            + tile.read((i + 1) * across + j + 2)
            + tile.read((i + 2) * across + j)
            + tile.read((i + 2) * across + j + 1)
            + tile.read((i + 2) * across + j + 2)
    };
    // SAFETY: as above.
    let lives = unsafe { tile.read((i + 1) * across + j + 1) };
    for (_, next) in next.each() {
        *next = (around == 3 || around == 2 && lives == 1) as u32;
    }
}

/// Cell by cell.
fn life_by_hand(board: &[u32], next: &mut [u32]) {
    let around = |at: usize| [(at + BOARD - 1) % BOARD, at, (at + 1) % BOARD];
    for row in 0..BOARD {
        for column in 0..BOARD {
            let mut all = 0;
            for row in around(row) {
                for column in around(column) {
                    all += board[row * BOARD + column];
                }
            }
            let lives = board[row * BOARD + column] == 1;
            next[row * BOARD + column] = (all == 3 || all == 4 && lives) as u32;
        }
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

/// Median, smallest and largest of times.
type Times = [f64; 3];

/// Times of a thread's step, in nanoseconds, of things that take turns. Each is run that often, by
/// so many steps of all threads.
fn times_in_turn<const N: usize>(
    steps: f64,
    mut runs: [&mut dyn FnMut() -> Result<(), KernelError>; N],
) -> Result<[Times; N], KernelError> {
    for run in &mut runs {
        run()?;
    }
    let mut times = [[0.0; RUNS]; N];
    for number in 0..RUNS {
        for (run, times) in runs.iter_mut().zip(&mut times) {
            let start = Instant::now();
            run()?;
            times[number] = start.elapsed().as_secs_f64() * 1e9 / steps;
        }
    }
    Ok(times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        [times[RUNS / 2], times[0], times[RUNS - 1]]
    }))
}

/// Those of one thing, for each thread and barrier.
fn times(
    threads: usize,
    mut run: impl FnMut() -> Result<(), KernelError>,
) -> Result<Times, KernelError> {
    let [times] = times_in_turn(threads as f64 * f64::from(BARRIERS), [&mut run])?;
    Ok(times)
}

fn cell([median, low, high]: Times) -> String {
    format!("{median:.2} ({low:.2} to {high:.2})")
}

/// Of a kernel whose threads are state machines.
fn measure<K: BlockKernel<1, Output = ByElement<u32>>>(
    kernel: K,
    threads: usize,
) -> Result<Times, KernelError> {
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
    let (barrier, raw) = rings()?;
    let raw = life_of_tiles()?.max(raw);
    let mut missed = false;
    let mut gate = |is_met: bool, what: String| {
        missed |= !is_met;
        println!("{}: {what}", if is_met { "met" } else { "MISSED" });
    };
    gate(
        barrier <= GATE,
        format!("phase by phase, at most {GATE} ns per thread and barrier ({barrier:.2})"),
    );
    gate(
        raw <= RAW_GATE,
        format!("raw arrays, at most {RAW_GATE} times as long as those that are turned ({raw:.2})"),
    );
    Ok(ExitCode::from(u8::from(missed && !arguments.is_empty())))
}

/// What a barrier takes, run phase by phase, and how many times longer raw arrays take: the most of
/// each.
fn rings() -> Result<(f64, f64), KernelError> {
    println!("nanoseconds per thread and step, median (smallest to largest) of {RUNS} runs");
    println!(
        "{:>8} | {:>21} {:>21} {:>21} | {:>21}",
        "", "state machines:", "", "", "phase by phase:"
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
    let (mut longest, mut most) = (0.0_f64, 0.0_f64);
    for threads in [16, 64, 256, 1024] {
        let barrier = measure(Count::<true>, threads)?;
        let turning = measure(Rotate, threads)?;
        let none = measure(Count::<false>, threads)?;
        let division = WorkDivision::new(1, threads, 1)?;
        let (mut turned_output, mut raw_output) = (vec![0; threads], vec![0; threads]);
        let mut by_hand = vec![0; threads];
        let (mut scratch, mut raw_scratch) = (BlockScratch::new(), BlockScratch::new());
        let [turned, raw, hand] = times_in_turn(
            threads as f64 * f64::from(BARRIERS),
            [
                &mut || rotate(&mut turned_output).run_in(division, &mut scratch),
                &mut || rotate_raw(&mut raw_output).run_in(division, &mut raw_scratch),
                &mut || {
                    rotate_by_hand(black_box(&mut by_hand));
                    Ok(())
                },
            ],
        )?;
        assert_eq!(turned_output, by_hand);
        assert_eq!(raw_output, by_hand);
        println!(
            "{threads:>8} | {:>21} {:>21} {:>21} | {:>21} {:>21} {:>21}",
            cell(barrier),
            cell(turning),
            cell(none),
            cell(turned),
            cell(raw),
            cell(hand)
        );
        longest = longest.max(turned[0]);
        most = most.max(raw[0] / turned[0]);
    }
    Ok((longest, most))
}

/// How many times longer life takes by raw tiles.
fn life_of_tiles() -> Result<f64, KernelError> {
    let cells = BOARD * BOARD;
    let board: Vec<u32> = (0..cells).map(|i| (i * i % 7 < 3) as u32).collect();
    let division = WorkDivision::new([BOARD / TILE; 2], [TILE; 2], [1; 2])?;
    let (mut turned_next, mut raw_next) = (vec![0; cells], vec![0; cells]);
    let mut by_hand = vec![0; cells];
    let (mut scratch, mut raw_scratch) = (BlockScratch::new(), BlockScratch::new());
    let [turned, raw, hand] = times_in_turn(
        cells as f64,
        [
            &mut || {
                let next = GlobalMut::from(&mut turned_next).in_extent([BOARD; 2])?;
                life(&board, next).run_in(division, &mut scratch)
            },
            &mut || {
                let next = GlobalMut::from(&mut raw_next).in_extent([BOARD; 2])?;
                life_raw(&board, next).run_in(division, &mut raw_scratch)
            },
            &mut || {
                life_by_hand(black_box(&board), &mut by_hand);
                Ok(())
            },
        ],
    )?;
    assert_eq!(turned_next, by_hand);
    assert_eq!(raw_next, by_hand);
    println!(
        "life, nanoseconds per cell: tiles that are turned {}, raw tiles {}, by hand {}",
        cell(turned),
        cell(raw),
        cell(hand)
    );
    Ok(raw[0] / turned[0])
}
