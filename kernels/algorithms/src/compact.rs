//! Compaction: the elements that are to be kept, close together, in a single pass over the data
//! ([`look_back`](crate::look_back)).

use crate::division::{refuse, tiles};
use crate::function::{Function, Item, Sum};
use crate::look_back::{Totals, look_back, part_of_thread, shape};
use quipu::kernels::{
    Atomics, Block, BlockAccelerator, Blocks, Grid, KernelData, RawMut, SharedAtomics, SharedWrite,
    Threads, device, kernel,
};
use quipu::{Buffer, Event, Queue, Result};

/// Parts are totalled by how many of their elements are kept.
#[derive(Debug, Clone, Copy, KernelData)]
#[repr(C)]
pub(crate) struct Kept<F: KernelData> {
    keep: F,
}

#[device]
impl<T: KernelData, F: Function<T, bool> + KernelData> Totals<T, u64, Sum> for Kept<F> {
    fn total(self, part: &[T]) -> u64 {
        let mut count = 0;
        for x in part {
            count += self.keep.apply(*x) as u64;
        }
        count
    }
}

/// Writes the elements of a part that are kept, from place `to` up to `end`, where their places end or `y` does.
#[device]
fn write_kept<T: Copy, F: Function<T, bool>>(
    keep: F,
    part: &[T],
    to: usize,
    end: usize,
    y: RawMut<T>,
) {
    let mut to = to;
    for x in part {
        // What is not kept is written, too, and overwritten by the next that is: faster than not to know.
        if to < end {
            // SAFETY: the places up to `end` are this thread's alone.
            unsafe { y.write(to, *x) };
        }
        to += keep.apply(*x) as usize;
    }
}

/// Writes the elements of one tile for each block that `keep` says `true` of, in the order of `states[0]`, behind those
/// of the tiles before; and how many there are in all. Otherwise as [`scan_tiles`](crate::kernels::scan_tiles).
#[kernel]
pub async fn compact_tiles<T, F: Function<T, bool> + KernelData>(
    acc: &impl BlockAccelerator<1>,
    keep: F,
    x: &[T],
    states: Atomics<u32>,
    totals: RawMut<u64>,
    prefixes: RawMut<u64>,
    y: RawMut<T>,
    count: RawMut<u64>,
    #[shared(1)] ticket: SharedAtomics<u32>,
    #[shared(acc.extent(Block, Threads)[0])] mut sums: SharedWrite<u64>,
    #[shared(acc.extent(Block, Threads)[0])] mut starts: SharedWrite<u64>,
) {
    let shape = shape(acc);
    let thread = acc.index(Block, Threads)[0];
    if thread == 0 {
        ticket.store(0, states.add(0, 1));
    }
    acc.sync_block_threads().await;
    let tile = ticket.load(0) as usize;
    let (start, end) = part_of_thread(shape, tile, thread, x.len());
    let part = &x[start..end];

    let kept = Kept { keep }.total(part);
    sums.own()[0] = kept;
    let sums = acc.sync(sums).await;
    if thread == 0 {
        let mut total = 0;
        for other in 0..shape.threads as usize {
            total += sums[other];
        }
        let f = Kept { keep };
        let before = look_back::<T, u64, Sum, Kept<F>>(
            acc, shape, tile, total, states, totals, prefixes, f, x,
        );
        starts.own()[0] = before;
        if tile + 1 == acc.extent(Grid, Blocks)[0] {
            // SAFETY: one tile is the last.
            unsafe { count.write(0, before + total) };
        }
    }
    let starts = acc.sync(starts).await;

    let mut to = starts[0] as usize;
    for other in 0..thread {
        to += sums[other] as usize;
    }
    let end = (to + kept as usize).min(y.len());
    // What is hot is in functions of its own, as variables of an `async fn` are in memory.
    write_kept(keep, part, to, end, y);
}

/// Writes the elements of `x` of which `keep` gives `true` to the beginning of `y`, in their order, and how many there
/// are to the only element of `count`. Of more than `y` has place for, the first are written, and all are counted.
/// What is behind them in `y` is left as it was.
///
/// The same on every device. 2n calls of `keep`; one read of the data and a write of what is kept: a launch after one
/// that fills some words. As [`inclusive_scan`](crate::inclusive_scan), it is right on every device.
///
/// # Errors
/// If `count` has not one element; as [`Queue::launch`].
pub fn compact<T: Item, F: Function<T, bool> + KernelData>(
    queue: &Queue,
    keep: F,
    x: &Buffer<T>,
    y: &mut Buffer<T>,
    count: &mut Buffer<u64>,
) -> Result<Event> {
    if count.len() != 1 {
        return refuse(
            "compact",
            format!("the count has {} elements; make it one", count.len()),
        );
    }
    let tiles = tiles(x.len(), queue.limits());
    let mut states = queue.allocate::<u32>(tiles.count + 1)?;
    queue.fill(&states, 0)?;
    let mut totals = queue.allocate::<u64>(tiles.count)?;
    let mut prefixes = queue.allocate::<u64>(tiles.count)?;
    queue.launch(
        tiles.division,
        compact_tiles(
            keep,
            x,
            &mut states,
            totals.overwrite(),
            prefixes.overwrite(),
            y,
            count,
        ),
    )
}
