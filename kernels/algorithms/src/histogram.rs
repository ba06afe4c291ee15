//! Histograms.

use crate::division::{BLOCKS_PER_CORE, parts, threads};
use crate::function::{Function, Item};
use quipu::kernels::{
    Accelerator, Atomics, Block, BlockAccelerator, Blocks, Elements, Grid, KernelData,
    SharedAtomics, SharedWrite, Threads, device, kernel,
};
use quipu::{Buffer, Event, Queue, Result, WorkDivision};

/// Bins of which several tables fit into the nearest cache.
const FEW: usize = 1024;
/// Tables for so few bins, where neighbours are counted apart. More are more to find the place in
/// than they spare.
pub(crate) const TABLES_OF_FEW: usize = 2;
/// Neighbours that are counted in one round.
const ROUND: usize = 4;

/// Counts a thread's own elements.
#[device]
fn count_own<T: Copy, F: Function<T, u32>>(
    acc: &impl Accelerator<1>,
    f: F,
    x: &[T],
    counts: SharedAtomics<u32>,
) {
    for i in acc.elements(x.len()) {
        let bin = f.apply(x[i]) as usize;
        if bin < counts.len() {
            counts.add(bin, 1);
        }
    }
}

/// Adds to each bin how many elements `f` puts into it: blocks count for themselves first.
#[kernel]
pub async fn count_bins<T, F: Function<T, u32>>(
    acc: &impl BlockAccelerator<1>,
    f: F,
    x: &[T],
    bins: Atomics<u32>,
    #[shared(bins.len())] counts: SharedAtomics<u32>,
) {
    // In a function of its own, as variables of an `async fn` are in memory.
    count_own(acc, f, x, counts);
    acc.sync_block_threads().await;
    let threads = acc.extent(Block, Threads)[0];
    let mut bin = acc.index(Block, Threads)[0];
    while bin < counts.len() {
        let count = counts.load(bin);
        if count > 0 {
            bins.add(bin, count);
        }
        bin += threads;
    }
}

/// Counts elements, neighbours in tables of their own.
#[device]
fn count_in_tables<T: Copy, F: Function<T, u32>, const TABLES: usize>(
    f: F,
    x: &[T],
    counts: &mut [[u32; TABLES]],
) {
    let all = x.len() / ROUND * ROUND;
    for at in (0..all).step_by(ROUND) {
        let taken = &x[at..at + ROUND];
        for neighbour in 0..ROUND {
            let bin = f.apply(taken[neighbour]) as usize;
            if bin < counts.len() {
                counts[bin][neighbour % TABLES] += 1;
            }
        }
    }
    for x in &x[all..] {
        let bin = f.apply(*x) as usize;
        if bin < counts.len() {
            counts[bin][0] += 1;
        }
    }
}

/// As [`count_bins`], for blocks of one thread. It counts neighbours in `TABLES` tables, so that a
/// count need not wait for the one before it, which is often the same.
#[kernel]
pub async fn count_bins_in_tables<T, F: Function<T, u32>, const TABLES: usize>(
    acc: &impl BlockAccelerator<1>,
    f: F,
    x: &[T],
    bins: Atomics<u32>,
    #[shared(bins.len())] mut counts: SharedWrite<[u32; TABLES]>,
) {
    let share = acc.extent(Block, Elements)[0];
    let start = (acc.index(Grid, Blocks)[0] * share).min(x.len());
    let end = (start + share).min(x.len());
    let counts = counts.own();
    count_in_tables::<T, F, TABLES>(f, &x[start..end], counts);
    for bin in 0..counts.len() {
        let mut count = 0;
        for table in 0..TABLES {
            count += counts[bin][table];
        }
        if count > 0 {
            bins.add(bin, count);
        }
    }
}

/// Sets each bin to the number of elements of which `f` gives its number. Elements of which it
/// gives another, as many or more than there are bins, are in none.
///
/// The same on every device. n steps, and one for each bin and block; counts wrap at 2^32. A
/// block's bins are in memory that it shares (privatization: Kirk and Hwu, "Programming Massively
/// Parallel Processors").
///
/// # Errors
/// If the bins are more than fit into a block's shared memory; as [`Queue::launch`].
pub fn histogram<T: Item, F: Function<T, u32> + KernelData>(
    queue: &Queue,
    f: F,
    x: &Buffer<T>,
    bins: &mut Buffer<u32>,
) -> Result<Event> {
    queue.fill(bins, 0)?;
    let limits = queue.limits();
    let threads = threads(limits);
    let for_each_core = if threads > 1 {
        BLOCKS_PER_CORE
    } else {
        2 * BLOCKS_PER_CORE
    };
    let blocks = parts(x.len(), limits, for_each_core);
    let share = x.len().div_ceil(blocks * threads).max(1);
    let division = WorkDivision::new(blocks, threads, share);
    if threads > 1 {
        return queue.launch(division, count_bins(f, x, bins));
    }
    if bins.len() <= FEW {
        queue.launch(
            division,
            count_bins_in_tables::<T, F, TABLES_OF_FEW>(f, x, bins),
        )
    } else {
        queue.launch(division, count_bins_in_tables::<T, F, 1>(f, x, bins))
    }
}
