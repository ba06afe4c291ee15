//! Histograms.

use crate::division::{parts, threads};
use crate::function::{Function, Item};
use quipu::kernels::{
    Accelerator, Atomics, Block, BlockAccelerator, KernelData, SharedAtomics, Threads, device,
    kernel,
};
use quipu::{Buffer, Event, Queue, Result, WorkDivision};

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

/// Sets each bin to the number of elements of which `f` gives its number. Elements of which it gives another, as many
/// or more than there are bins, are in none.
///
/// The same on every device. n steps, and one for each bin and block; counts wrap at 2^32. A block's bins are in
/// memory that it shares (privatization: Kirk and Hwu, "Programming Massively Parallel Processors").
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
    let (blocks, threads) = (parts(x.len(), queue.limits()), threads(queue.limits()));
    let share = x.len().div_ceil(blocks * threads);
    queue.launch(
        WorkDivision::new(blocks, threads, share),
        count_bins(f, x, bins),
    )
}
