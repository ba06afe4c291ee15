//! Raw shared arrays, as textbooks use them: run phase by phase, each gives the results of a
//! sequential model.

use super::{check, division, line_of, ways};
use quipu_kernel::level::UNOPTIMISED;
use quipu_kernel::{
    Block, BlockAccelerator, BlockKernel, BlockScratch, Blocks, Execution, Grid, KernelError,
    OwnBlock, OwnElements, RawMut, RunOptions, SharedAtomics, SharedRaw, SharedWrite, Threads,
    WorkDivision, kernel,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

macro_rules! assert_in_phases {
    ($kernel:ty, $dimensions:literal) => {
        const { assert!(UNOPTIMISED || <$kernel as BlockKernel<$dimensions>>::IN_PHASES) }
    };
}

/// A generation of life, of a board that is a torus, by tiles with a halo.
#[kernel(crate = quipu_kernel)]
async fn life<const ROWS: usize, const COLUMNS: usize>(
    acc: &impl BlockAccelerator<2>,
    height: usize,
    width: usize,
    board: &[u32],
    next: RawMut<u32>,
    #[shared((ROWS + 2) * (COLUMNS + 2))] tile: SharedWrite<u32>,
) {
    let (i, j) = (acc.index(Block, Threads)[0], acc.index(Block, Threads)[1]);
    let (top, left) = (
        acc.index(Grid, Blocks)[0] * ROWS,
        acc.index(Grid, Blocks)[1] * COLUMNS,
    );
    let tile = tile.into_raw();
    let across = COLUMNS + 2;
    let mut at = i * COLUMNS + j;
    while at < tile.len() {
        let row = (top + at / across + height - 1) % height;
        let column = (left + at % across + width - 1) % width;
        // SAFETY: each element is written by one thread, and read after the barrier.
        unsafe { tile.write(at, board[row * width + column]) };
        at += ROWS * COLUMNS;
    }
    acc.sync_block_threads().await;
    // SAFETY: the tile is written no more.
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
    let place = (top + i) * width + left + j;
    // SAFETY: each thread has an element of its own.
    unsafe { next.write(place, (around == 3 || around == 2 && lives == 1) as u32) };
}

#[test]
fn runs_life() {
    assert_in_phases!(life<4, 16>, 2);
    fn run<const ROWS: usize, const COLUMNS: usize>(blocks: [usize; 2]) {
        let (height, width) = (blocks[0] * ROWS, blocks[1] * COLUMNS);
        let board: Vec<u32> = (0..height * width)
            .map(|i| (i * i % 7 < 3) as u32)
            .collect();
        let mut next = vec![0; board.len()];
        let division = WorkDivision::new(blocks, [ROWS, COLUMNS], [1, 1]).unwrap();
        check!(life::<ROWS, COLUMNS> => (height, width, &board, &mut next), division);
        for (place, next) in next.into_iter().enumerate() {
            let cell = |down: usize, right: usize| {
                let row = (place / width + height + down - 1) % height;
                let column = (place % width + width + right - 1) % width;
                board[row * width + column]
            };
            let all = (0..9).map(|of| cell(of / 3, of % 3)).sum::<u32>();
            let lives = all == 3 || all == 4 && cell(1, 1) == 1;
            assert_eq!(next, u32::from(lives), "{place} of {height} by {width}");
        }
    }
    run::<4, 16>([2, 2]);
    run::<3, 5>([3, 2]);
}

/// The sum of a block's numbers, in place: threads read what others have written, and write it, in
/// one phase.
#[kernel(crate = quipu_kernel)]
async fn reduced_in_place(
    acc: &impl BlockAccelerator<1>,
    x: &[u32],
    result: OwnBlock<u32>,
    #[shared(acc.extent(Block, Threads)[0])] sums: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    let sums = sums.into_raw();
    // SAFETY: each thread writes its own element, and reads such as nobody writes before the next
    // barrier.
    unsafe { sums.write(thread, x[acc.index(Grid, Threads)[0]]) };
    acc.sync_block_threads().await;
    let mut half = acc.extent(Block, Threads)[0] / 2;
    while half > 0 {
        if thread < half {
            // SAFETY: as above.
            unsafe { sums.write(thread, sums.read(thread) + sums.read(thread + half)) };
        }
        acc.sync_block_threads().await;
        half /= 2;
    }
    for result in result {
        // SAFETY: as above.
        *result = unsafe { sums.read(0) };
    }
}

#[test]
fn runs_reduced_in_place() {
    assert_in_phases!(reduced_in_place, 1);
    for threads in [1, 2, 64] {
        let x: Vec<u32> = (0..3 * threads as u32).map(|i| i * 7 % 31).collect();
        let mut sums = vec![0; 3];
        check!(reduced_in_place => (&x, &mut sums), division(3, threads, 1), threads as u64);
        let model: Vec<u32> = x.chunks(threads).map(|part| part.iter().sum()).collect();
        assert_eq!(sums, model);
    }
}

/// Sums of all before, in one array: what a thread has read it keeps over a barrier. Some launches
/// have nothing to do.
#[kernel(crate = quipu_kernel)]
async fn scanned(
    acc: &impl BlockAccelerator<1>,
    rounds: u32,
    x: &[u32],
    mut y: OwnElements<u32>,
    #[shared(acc.extent(Block, Threads)[0])] sums: SharedWrite<u32>,
) {
    if rounds == 0 {
        return;
    }
    let thread = acc.index(Block, Threads)[0];
    let sums = sums.into_raw();
    // SAFETY: each thread writes its own element; a barrier lies before others read it, and one
    // behind that.
    unsafe { sums.write(thread, x[acc.index(Grid, Threads)[0]]) };
    let mut distance = 1;
    for round in 0..rounds {
        acc.sync_block_threads().await;
        let before = if thread >= distance {
            // SAFETY: as above.
            unsafe { sums.read(thread - distance) }
        } else {
            0
        };
        acc.sync_block_threads().await;
        // SAFETY: as above.
        unsafe { sums.write(thread, sums.read(thread) + before) };
        if round == 9 {
            return;
        }
        distance *= 2;
    }
    if rounds == 3 {
        acc.sync_block_threads().await;
        // SAFETY: as above.
        let last = unsafe { sums.read(sums.len() - 1) };
        acc.sync_block_threads().await;
        // SAFETY: as above.
        unsafe { sums.write(thread, sums.read(thread) + 1000 * last) };
    }
    for (_, y) in y.each() {
        // SAFETY: it is the thread's own.
        *y = unsafe { sums.read(thread) };
    }
}

#[test]
fn runs_scanned() {
    assert_in_phases!(scanned, 1);
    let x: Vec<u32> = (0..40).map(|i| i * 5 % 13).collect();
    for rounds in [0, 3, 5, 12] {
        let mut y = vec![7; 40];
        check!(scanned => (rounds, &x, &mut y), division(2, 20, 1), 20);
        for (i, y) in y.into_iter().enumerate() {
            let block = &x[i / 20 * 20..][..20];
            // As far back as the distances reach.
            let sum = |to: usize| {
                let from = (to + 1).saturating_sub(1 << rounds);
                block[from..=to].iter().sum::<u32>()
            };
            let model = match rounds {
                0 | 12 => 7,
                3 => sum(i % 20) + 1000 * sum(19),
                _ => sum(i % 20),
            };
            assert_eq!(y, model, "{rounds}, {i}");
        }
    }
}

/// Bitonic: two elements change places, of which one is another thread's at other times.
#[kernel(crate = quipu_kernel)]
async fn sorted_in_blocks(
    acc: &impl BlockAccelerator<1>,
    x: &[u32],
    mut y: OwnElements<u32>,
    #[shared(acc.extent(Block, Threads)[0])] keys: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    let threads = acc.extent(Block, Threads)[0];
    let keys: SharedRaw<u32> = keys.into_raw();
    // SAFETY: between two barriers an element is reached by one thread.
    unsafe { keys.write(thread, x[acc.index(Grid, Threads)[0]]) };
    acc.sync_block_threads().await;
    let mut size = 2;
    while size <= threads {
        let mut stride = size / 2;
        while stride > 0 {
            let other = thread ^ stride;
            if other > thread {
                // SAFETY: as above.
                let (low, high) = unsafe { (keys.read(thread), keys.read(other)) };
                if (low > high) == (thread & size == 0) {
                    // SAFETY: as above.
                    unsafe {
                        keys.write(thread, high);
                        keys.write(other, low);
                    }
                }
            }
            acc.sync_block_threads().await;
            stride /= 2;
        }
        size *= 2;
    }
    for (_, y) in y.each() {
        // SAFETY: as above.
        *y = unsafe { keys.read(thread) };
    }
}

#[test]
fn runs_sorted_in_blocks() {
    assert_in_phases!(sorted_in_blocks, 1);
    for threads in [1, 8, 64] {
        let x: Vec<u32> = (0..2 * threads as u32).map(|i| i * 37 % 101).collect();
        let mut y = vec![0; x.len()];
        check!(sorted_in_blocks => (&x, &mut y), division(2, threads, 1), threads as u64);
        let mut model = x;
        model.chunks_mut(threads).for_each(<[_]>::sort);
        assert_eq!(y, model);
    }
}

/// Elements of one number in each array, in the order in which a thread reaches them; arrays that
/// change places; counts.
#[kernel(crate = quipu_kernel)]
async fn in_a_threads_order(
    acc: &impl BlockAccelerator<1>,
    rounds: u32,
    x: &[u32],
    mut y: OwnElements<[u32; 2]>,
    #[shared(acc.extent(Block, Threads)[0])] mut first: SharedWrite<u32>,
    #[shared(2 * acc.extent(Block, Threads)[0])] second: SharedWrite<u32>,
    #[shared(2)] count: SharedAtomics<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    // In its write phase at first.
    first.own()[0] = x[acc.index(Grid, Threads)[0]];
    let (first, mut to) = (first.into_raw(), second.into_raw());
    let threads = first.len();
    let mut from = first;
    let mut sum = 0;
    for round in 0..rounds {
        acc.sync_block_threads().await;
        let next = (thread + 1) % threads;
        // SAFETY: between two barriers a thread reads one array, which nobody writes, and its own
        // elements of the other one.
        unsafe {
            to.write(thread, from.read(next));
            sum += to.read(thread);
            to.write(thread, sum + round);
            to.write(thread, to.read(thread) * 3 + from.read(thread));
        }
        if round % 2 == 0 {
            count.add(0, 1);
            acc.sync_block_threads().await;
        }
        std::mem::swap(&mut from, &mut to);
    }
    acc.sync_block_threads().await;
    let last = if rounds % 2 == 0 { first } else { from };
    for (_, y) in y.each() {
        // SAFETY: nothing is written any more.
        *y = [
            unsafe { last.read(thread) } + sum,
            count.load(0) + threads as u32,
        ];
    }
}

#[test]
fn runs_in_a_threads_order() {
    assert_in_phases!(in_a_threads_order, 1);
    for (threads, rounds) in [(3, 0), (16, 3), (37, 4)] {
        let x: Vec<u32> = (0..2 * threads as u32).map(|i| i * 11 % 17).collect();
        let mut y = vec![[0; 2]; x.len()];
        let length = threads as u64;
        check!(in_a_threads_order => (rounds, &x, &mut y), division(2, threads, 1), length, 2 * length);
        let mut model = Vec::new();
        for block in x.chunks(threads) {
            let (mut from, mut sums) = (block.to_vec(), vec![0_u32; threads]);
            for round in 0..rounds {
                let to = (0..threads).map(|thread| {
                    sums[thread] += from[(thread + 1) % threads];
                    (sums[thread] + round) * 3 + from[thread]
                });
                from = to.collect();
            }
            let count = threads as u32 * (rounds.div_ceil(2) + 1);
            model.extend(
                from.iter()
                    .zip(&sums)
                    .map(|(from, sum)| [from + sum, count]),
            );
        }
        assert_eq!(y, model, "{threads}, {rounds}");
    }
}

/// Lengths of arrays whose handles change places, and of which one has the name of another: not run
/// phase by phase.
#[kernel(crate = quipu_kernel)]
async fn renamed(
    acc: &impl BlockAccelerator<1>,
    mut y: OwnElements<u32>,
    #[shared(acc.extent(Block, Threads)[0])] a: SharedWrite<u32>,
    #[shared(2 * acc.extent(Block, Threads)[0])] b: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    let length = a.len();
    let (a, b) = (b.into_raw(), a.into_raw());
    // SAFETY: each thread reaches its own element.
    unsafe { a.write(length + thread, 10 + thread as u32) };
    acc.sync_block_threads().await;
    for (_, y) in y.each() {
        // SAFETY: nothing is written any more.
        *y = unsafe { a.read(a.len() - 1) } + b.len() as u32 + 100 * length as u32;
    }
}

/// Some threads choose one array, some the other one.
#[kernel(crate = quipu_kernel)]
async fn chosen_by_each(
    acc: &impl BlockAccelerator<1>,
    mut y: OwnElements<u32>,
    #[shared(acc.extent(Block, Threads)[0])] a: SharedWrite<u32>,
    #[shared(acc.extent(Block, Threads)[0])] b: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    let (mut from, mut to) = (a.into_raw(), b.into_raw());
    if thread % 2 == 1 {
        (from, to) = (to, from);
    }
    // SAFETY: each thread writes its own elements.
    unsafe {
        from.write(thread, 10 + thread as u32);
        to.write(thread, 20 + thread as u32);
    }
    acc.sync_block_threads().await;
    for (_, y) in y.each() {
        // SAFETY: nothing is written any more.
        *y = unsafe { from.read((thread + 1) % from.len()) };
    }
}

#[test]
fn runs_what_names_alone_do_not_tell() {
    const { assert!(!<renamed as BlockKernel<1>>::IN_PHASES) };
    let mut y = vec![0; 8];
    check!(renamed => (&mut y), division(2, 4, 1), 4, 8);
    assert_eq!(y, [10 + 3 + 4 + 400; 8]);
    const { assert!(!<chosen_by_each as BlockKernel<1>>::IN_PHASES) };
    let mut y = vec![0; 8];
    check!(chosen_by_each => (&mut y), division(2, 4, 1), 4, 4);
    assert_eq!(y, [21, 22, 23, 20, 21, 22, 23, 20]);
}

/// An index of one thread in one round may be outside.
#[kernel(crate = quipu_kernel)]
async fn raw_outside(
    acc: &impl BlockAccelerator<1>,
    read_from: usize,
    write_to: usize,
    rounds: usize,
    mut y: OwnElements<u32>,
    #[shared(2 * acc.extent(Block, Threads)[0])] array: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    let array = array.into_raw();
    for k in 0..rounds {
        // SAFETY: each thread reaches its own elements.
        unsafe { array.write(thread + write_to, thread as u32 + k as u32) };
    }
    acc.sync_block_threads().await;
    let mut sum = 0;
    for k in 0..rounds {
        // SAFETY: nothing is written any more.
        sum += unsafe { array.read(thread + k + read_from) };
    }
    acc.sync_block_threads().await;
    for (_, y) in y.each() {
        *y = sum;
    }
}

#[test]
fn raw_indices_outside_are_found() {
    assert_in_phases!(raw_outside, 1);
    for (read_from, write_to, rounds, is_right) in [
        (0, 0, 33, true),
        (31, 32, 2, true),
        (32, 32, 2, false),
        (0, 33, 1, false),
        (usize::MAX, 0, 2, false),
        (usize::MAX, usize::MAX, 0, true),
    ] {
        for mut scratch in ways() {
            let mut y = vec![0; 32];
            let run = || {
                raw_outside(read_from, write_to, rounds, &mut y)
                    .run_in(division(1, 32, 1), &mut scratch)
            };
            let done = catch_unwind(AssertUnwindSafe(run)).is_ok_and(|run| run.is_ok());
            assert_eq!(
                done, is_right,
                "{read_from} {write_to} {rounds} {scratch:?}"
            );
            if !done {
                continue;
            }
            for (thread, y) in y.into_iter().enumerate() {
                let element = |at: usize| {
                    let writer = at.checked_sub(write_to).filter(|writer| *writer < 32);
                    writer.map_or(0, |writer| writer + rounds - 1)
                };
                let sum: usize = (0..rounds).map(|k| element(thread + k + read_from)).sum();
                assert_eq!(y as usize, sum, "{read_from} {write_to} {rounds} {thread}");
            }
        }
    }
}

/// Each thread has what the next one has written, behind a barrier or not.
#[kernel(crate = quipu_kernel)]
async fn passed_on<const SYNCS: bool>(
    acc: &impl BlockAccelerator<1>,
    mut y: OwnElements<u32>,
    #[shared(acc.extent(Block, Threads)[0])] ring: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    let ring = ring.into_raw();
    // SAFETY: the element is the thread's own; without the barrier, this is only checked.
    unsafe { ring.write(thread, thread as u32) }; // passed on: the write
    if SYNCS {
        acc.sync_block_threads().await;
    }
    // SAFETY: as above.
    let next = unsafe { ring.read((thread + 1) % ring.len()) }; // passed on: the read
    for (_, y) in y.each() {
        *y = next;
    }
}

/// Also in a kernel that is run phase by phase where nothing is checked.
#[test]
fn barriers_that_raw_arrays_lack_are_found() {
    assert_in_phases!(passed_on<true>, 1);
    let mut y = vec![0; 8];
    check!(passed_on::<true> => (&mut y), division(2, 4, 1), 4);
    assert_eq!(y, [1, 2, 3, 0, 1, 2, 3, 0]);
    assert_in_phases!(passed_on<false>, 1);
    for execution in [
        Execution::Native,
        Execution::Lockstep { warp_size: 1 },
        Execution::Lockstep { warp_size: 4 },
    ] {
        let mut options = RunOptions::new();
        (options.check, options.execution) = (true, execution);
        let mut scratch = BlockScratch::with_options(options);
        let call = passed_on::<false>(&mut y);
        let error = call.run_in(division(2, 4, 1), &mut scratch).unwrap_err();
        let KernelError::Race { first, second, .. } = &error else {
            panic!("{execution:?}: {error}");
        };
        assert_eq!((first.group, second.group), (0, 0), "{error}");
        assert_ne!(first.thread, second.thread, "{error}");
        for access in [first, second] {
            let mark = match access.writes {
                true => "// passed on: the write",
                false => "// passed on: the read",
            };
            let line = line_of(include_str!("raw_arrays.rs"), mark);
            assert_eq!(access.place.line(), line, "{error}");
        }
        assert_ne!(first.writes, second.writes, "{error}");
    }
}
