//! Compaction: the elements that are to be kept, close together.

use crate::division::{parts, refuse, single};
use crate::function::{Function, Item, Sum};
use crate::scan::scan_parts;
use quipu::kernels::{Accelerator, Blocks, Grid, KernelData, OwnBlock, RawMut, kernel};
use quipu::{Buffer, Event, Queue, Result};

/// Counts the elements of each block's part of `x` that `keep` says `true` of. Blocks have one thread.
#[kernel]
pub fn count_kept<T, F: Function<T, bool>>(
    acc: &impl Accelerator<1>,
    keep: F,
    x: &[T],
    counts: OwnBlock<u64>,
) {
    let blocks = acc.extent(Grid, Blocks)[0];
    let length = (x.len() + blocks - 1) / blocks;
    let start = (acc.index(Grid, Blocks)[0] * length).min(x.len());
    let mut count = 0;
    for x in &x[start..(start + length).min(x.len())] {
        count += keep.apply(*x) as u64;
    }
    for result in counts {
        *result = count;
    }
}

/// Writes the elements of each block's part of `x` that are kept, from the block's element of `before` on, and how
/// many there are in all. Blocks have one thread.
#[kernel]
pub fn write_kept<T, F: Function<T, bool>>(
    acc: &impl Accelerator<1>,
    keep: F,
    x: &[T],
    before: &[u64],
    y: RawMut<T>,
    count: RawMut<u64>,
) {
    let block = acc.index(Grid, Blocks)[0];
    let blocks = acc.extent(Grid, Blocks)[0];
    let length = (x.len() + blocks - 1) / blocks;
    let start = (block * length).min(x.len());
    let mut to = before[block] as usize;
    for x in &x[start..(start + length).min(x.len())] {
        if keep.apply(*x) {
            if to < y.len() {
                // SAFETY: a block has the places from its element of `before` on, up to that of the next.
                unsafe { y.write(to, *x) };
            }
            to += 1;
        }
    }
    if block + 1 == blocks {
        // SAFETY: the last block alone writes it.
        unsafe { count.write(0, to as u64) };
    }
}

/// Writes the elements of `x` of which `keep` gives `true` to the beginning of `y`, in their order, and how many there
/// are to the only element of `count`. Of more than `y` has place for, the first are written, and all are counted.
/// What is behind them in `y` is left as it was.
///
/// The same on every device. 2n calls of `keep`, two reads of the data and a write; three launches after two that
/// prepare them. (Blelloch, "Prefix sums and their applications", 1990.)
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
    let blocks = parts(x.len(), queue.limits());
    let mut counts = queue.allocate::<u64>(blocks)?;
    let zero = queue.allocate::<u64>(1)?;
    queue.fill(&zero, 0)?;
    let mut before = queue.allocate::<u64>(blocks)?;
    queue.launch(single(blocks), count_kept(keep, x, counts.overwrite()))?;
    queue.launch(
        single(1),
        scan_parts::<u64, Sum, false>(&counts, &zero, before.overwrite()),
    )?;
    queue.launch(single(blocks), write_kept(keep, x, &before, y, count))
}
