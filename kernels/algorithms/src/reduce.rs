//! Reduction: all elements combined in one.

use crate::division::{BLOCKS_PER_CORE, parts, refuse, threads};
use crate::function::{Item, Operator};
use quipu::kernels::{
    Block, BlockAccelerator, Blocks, Grid, KernelData, OwnBlock, SharedWrite, Threads, device,
    kernel,
};
use quipu::{Buffer, Event, Queue, Result, WorkDivision};

/// Accumulators of a thread that is alone in its block: as many as hide the latency of an addition
/// in vectors.
pub(crate) const LANES: usize = 64;

/// Combines a thread's share of `x`, one element at a time: neighbouring threads read neighbouring
/// elements.
#[device]
fn combine_stride<T: KernelData, O: Operator<T>>(x: &[T], thread: usize, threads: usize) -> T {
    let rounds = x.len() / threads;
    let mut total = O::identity();
    for round in 0..rounds {
        total = O::combine(total, x[round * threads + thread]);
    }
    let last = rounds * threads + thread;
    if last < x.len() {
        total = O::combine(total, x[last]);
    }
    total
}

/// Combines a thread's share of `x`: `LANES` neighbours at a time, each into an accumulator of its
/// own.
#[device]
fn combine_lanes<T: KernelData, O: Operator<T>, const LANES: usize>(
    x: &[T],
    thread: usize,
    threads: usize,
) -> T {
    let mut lanes = [O::identity(); LANES];
    let mut at = thread * LANES;
    while at + LANES <= x.len() {
        let taken = &x[at..at + LANES];
        for k in 0..LANES {
            lanes[k] = O::combine(lanes[k], taken[k]);
        }
        at += threads * LANES;
    }
    // The rest is less than a stride; one thread finds its beginning here.
    let mut k = 0;
    while at < x.len() {
        lanes[k] = O::combine(lanes[k], x[at]);
        at += 1;
        k += 1;
    }
    let mut total = lanes[0];
    for k in 1..LANES {
        total = O::combine(total, lanes[k]);
    }
    total
}

/// Combines the elements of each block's contiguous part of `x`. A thread takes `LANES` neighbours
/// at a time, each into an accumulator of its own, and where that is one each thread takes an
/// element of every stride; blocks have a power of two of threads, and `result` an element for each
/// block.
#[kernel]
pub async fn reduce_blocks<T: KernelData, O: Operator<T>, const LANES: usize>(
    acc: &impl BlockAccelerator<1>,
    x: &[T],
    result: OwnBlock<T>,
    #[shared(acc.extent(Block, Threads)[0])] mut totals: SharedWrite<T>,
) {
    let blocks = acc.extent(Grid, Blocks)[0];
    let threads = acc.extent(Block, Threads)[0];
    let thread = acc.index(Block, Threads)[0];
    let length = x.len().div_ceil(blocks);
    let start = (acc.index(Grid, Blocks)[0] * length).min(x.len());
    let part = &x[start..(start + length).min(x.len())];

    let mut total = if LANES == 1 {
        combine_stride::<T, O>(part, thread, threads)
    } else {
        combine_lanes::<T, O, LANES>(part, thread, threads)
    };

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
/// The operator has to be associative and commutative. The order depends on the length and the
/// device's limits alone, so the same device gives the same bits every time. n - 1 steps; reads the
/// data once. Two launches, of which the second combines one element per block of the first.
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
    let threads = threads(limits);
    let is_wide = threads > 1;
    let blocks = if is_wide {
        match parts(x.len(), limits, BLOCKS_PER_CORE) {
            1 => 1,
            // A block that waits for memory leaves a multiprocessor to others.
            blocks => 2 * blocks,
        }
    } else {
        // A block costs little more than an element of the second launch.
        parts(x.len(), limits, 4 * BLOCKS_PER_CORE)
    };
    let launch = |blocks: usize, x: &Buffer<T>, result: &mut Buffer<T>| {
        let division = WorkDivision::new(blocks, threads, 1);
        if is_wide {
            queue.launch(division, reduce_blocks::<T, O, 1>(x, result.overwrite()))
        } else {
            queue.launch(
                division,
                reduce_blocks::<T, O, LANES>(x, result.overwrite()),
            )
        }
    };
    if blocks == 1 {
        return launch(1, x, result);
    }
    let mut partial = queue.scratch::<T>(blocks)?;
    launch(blocks, x, &mut partial)?;
    launch(1, &partial, result)
}
