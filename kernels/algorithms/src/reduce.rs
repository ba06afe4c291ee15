//! Reduction: all elements combined in one.

use crate::division::{parts, refuse, threads};
use crate::function::{Item, Operator};
use quipu::kernels::{
    Block, BlockAccelerator, Blocks, Grid, OwnBlock, SharedElement, SharedWrite, Threads, kernel,
};
use quipu::{Buffer, Event, Queue, Result, WorkDivision};

/// Accumulators of a thread: as many as hide the latency of an addition in vectors.
const LANES: usize = 64;

/// Combines the elements of each block's contiguous part of `x`. A thread takes `LANES` neighbours at a time, each
/// into an accumulator of its own; blocks have a power of two of threads, and `result` an element for each block.
#[kernel]
pub async fn reduce_blocks<T: SharedElement, O: Operator<T>, const LANES: usize>(
    acc: &impl BlockAccelerator<1>,
    x: &[T],
    result: OwnBlock<T>,
    #[shared(acc.extent(Block, Threads)[0])] mut totals: SharedWrite<T>,
) {
    let blocks = acc.extent(Grid, Blocks)[0];
    let threads = acc.extent(Block, Threads)[0];
    let thread = acc.index(Block, Threads)[0];
    let length = (x.len() + blocks - 1) / blocks;
    let start = (acc.index(Grid, Blocks)[0] * length).min(x.len());
    let part = &x[start..(start + length).min(x.len())];

    let mut lanes = [O::identity(); LANES];
    let mut at = thread * LANES;
    while at + LANES <= part.len() {
        let taken = &part[at..at + LANES];
        for k in 0..LANES {
            lanes[k] = O::combine(lanes[k], taken[k]);
        }
        at += threads * LANES;
    }
    // What is left is less than a stride; one thread finds its beginning here.
    let mut k = 0;
    while at < part.len() {
        lanes[k] = O::combine(lanes[k], part[at]);
        at += 1;
        k += 1;
    }
    let mut total = lanes[0];
    for k in 1..LANES {
        total = O::combine(total, lanes[k]);
    }

    totals.own()[0] = total;
    let mut half = threads / 2;
    while half > 0 {
        let read = acc.sync(totals).await;
        if thread < half {
            total = O::combine(total, read[thread + half]);
        }
        totals = acc.sync(read).await;
        totals.own()[0] = total;
        half /= 2;
    }
    for result in result {
        *result = total;
    }
}

/// Combines all elements of `x` in the only element of `result`.
///
/// The operator has to be associative and commutative. The order depends on the length and the device's limits
/// alone, so the same device gives the same bits every time. n - 1 steps; reads the data once. Two launches, of which
/// the second combines one element per block of the first.
///
/// # Errors
/// If `result` has not one element; as [`Queue::launch`].
pub fn reduce<O: Operator<T> + quipu::kernels::KernelData, T: Item>(
    queue: &Queue,
    x: &Buffer<T>,
    result: &mut Buffer<T>,
) -> Result<Event> {
    if result.len() != 1 {
        return refuse(
            "reduce",
            format!("the result has {} elements; make it one", result.len()),
        );
    }
    let limits = queue.limits();
    let blocks = parts(x.len(), limits);
    let threads = threads(limits);
    let last = WorkDivision::new(1, threads, 1);
    if blocks == 1 {
        return queue.launch(last, reduce_blocks::<T, O, LANES>(x, result.overwrite()));
    }
    let mut partial = queue.allocate::<T>(blocks)?;
    let division = WorkDivision::new(blocks, threads, 1);
    queue.launch(
        division,
        reduce_blocks::<T, O, LANES>(x, partial.overwrite()),
    )?;
    queue.launch(
        last,
        reduce_blocks::<T, O, LANES>(&partial, result.overwrite()),
    )
}
