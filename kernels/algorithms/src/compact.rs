//! Compaction: the elements that are to be kept, close together, in a single pass over the data
//! ([`look_back`](crate::look_back)).

use crate::division::{Tiles, refuse, threads, tiles};
use crate::function::{Function, Item, Sum};
use crate::look_back::{Totals, launches, look_back, part_of_thread, shape, tile_of};
use quipu::kernels::{
    Accelerator, Atomics, Block, BlockAccelerator, Blocks, Grid, KernelData, RawMut, SharedAtomics,
    SharedWrite, Threads, device, kernel,
};
use quipu::{AcceleratorLimits, Buffer, Event, Queue, Result, WorkDivision};

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

    /// The first total that a block has found. `keep` may answer otherwise when it is asked again:
    /// the bits of a NaN are not the same in each copy of its code. Behind the states is a word for
    /// each tile: 0, or one more than its total.
    fn agreed(self, states: Atomics<u32>, tiles: usize, tile: usize, total: u64) -> u64 {
        let before = states.compare_exchange(1 + tiles + tile, 0, total as u32 + 1);
        if before == 0 {
            total
        } else {
            (before - 1) as u64
        }
    }
}

/// Writes the elements of a part that are kept, from place `to` up to `end`, where their places end
/// or `y` does.
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
        // Elements that are not kept are written, too, and overwritten by the next kept one: faster
        // than a branch.
        if to < end {
            // SAFETY: the places up to `end` are this thread's alone, as all blocks go by the
            // totals of `Kept::agreed`.
            unsafe { y.write(to, *x) };
        }
        to += keep.apply(*x) as usize;
    }
}

/// Elements of a tile of one thread, at most.
const TILE: usize = 1 << 14;

/// Keeps of each element of a part whether it is kept, 1 or 0, and gives how many are.
#[device]
fn decide<T: Copy, F: Function<T, bool>>(keep: F, part: &[T], kept: &mut [u8]) -> u32 {
    let kept = &mut kept[..part.len()];
    let mut count = 0_u32;
    for i in 0..part.len() {
        let is_kept = keep.apply(part[i]);
        kept[i] = is_kept as u8;
        count += is_kept as u32;
    }
    count
}

/// Writes the elements of a part that are kept to `to`, as far as that has place for them.
#[device]
fn write_decided<T: Copy>(part: &[T], kept: &[u8], to: &mut [T]) {
    let kept = &kept[..part.len()];
    let mut at = 0;
    for i in 0..part.len() {
        // Elements that are not kept are written, too, as in `write_kept`.
        if at < to.len() {
            to[at] = part[i];
        }
        at += kept[i] as usize;
    }
}

/// As [`compact_tiles`], for blocks of one thread, which asks `keep` once for each element. A tile
/// has as many elements as a thread in the launch, 16384 at most.
#[kernel]
pub(crate) fn compact_neighbours<T, F: Function<T, bool> + KernelData>(
    acc: &impl Accelerator<1>,
    keep: F,
    x: &[T],
    states: Atomics<u32>,
    totals: RawMut<u64>,
    prefixes: RawMut<u64>,
    y: RawMut<T>,
    count: RawMut<u64>,
) {
    let shape = shape(acc);
    let tile = tile_of(acc, states.add(0, 1));
    let (start, end) = part_of_thread(shape, tile, 0, x.len());
    let part = &x[start..end];
    let mut kept = [0_u8; TILE];
    let total = decide(keep, part, &mut kept) as u64;

    let f = Kept { keep };
    let total = f.agreed(states, acc.extent(Grid, Blocks)[0], tile, total);
    let before =
        look_back::<T, u64, Sum, Kept<F>>(acc, shape, tile, total, states, totals, prefixes, f, x);
    if tile + 1 == acc.extent(Grid, Blocks)[0] {
        // SAFETY: one tile is the last.
        unsafe { count.write(0, before + total) };
    }
    let first = (before as usize).min(y.len());
    let last = ((before + total) as usize).min(y.len());
    // SAFETY: the places are this tile's alone, as all blocks go by the totals of `Kept::agreed`.
    let to = unsafe { y.slice_mut(first..last) };
    write_decided(part, &kept, to);
}

/// Writes the elements of one tile for each block that `keep` says `true` of, in the order of
/// `states[0]`, behind those of the tiles before; and how many there are in all. `states` has two
/// elements for each tile and one more. Otherwise as [`scan_tiles`](crate::scan::scan_tiles).
#[kernel]
pub(crate) async fn compact_tiles<T, F: Function<T, bool> + KernelData>(
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
    let tile = tile_of(acc, ticket.load(0));
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
        let total = f.agreed(states, acc.extent(Grid, Blocks)[0], tile, total);
        // The tile's number has been read.
        ticket.store(0, total as u32);
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
    let end_of_tile = starts[0] as usize + ticket.load(0) as usize;
    let end = (to + kept as usize).min(end_of_tile).min(y.len());
    // Hot code is in functions of its own, as variables of an `async fn` are in memory.
    write_kept(keep, part, to, end, y);
}

/// Writes the elements of `x` of which `keep` gives `true` to the beginning of `y`, in their order,
/// and their number to the only element of `count`. If they are more than `y` has place for, the
/// first are written, and all are counted. Elements behind them in `y` are left as they were.
///
/// The same on every device, if `keep` always gives the same for the same element. 2n calls of it;
/// one read of the data and a write of the kept elements: a launch after one that fills some words.
/// As [`inclusive_scan`](crate::inclusive_scan), it is right on every device.
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
    let limits = queue.limits();
    let is_alone = threads(limits) == 1;
    let tiles = if is_alone {
        neighbours(x.len(), limits)
    } else {
        tiles(x.len(), limits)
    };
    let mut states = queue.scratch::<u32>(2 * tiles.count + 1)?;
    queue.fill(&states, 0)?;
    let mut totals = queue.scratch::<u64>(tiles.count)?;
    let mut prefixes = queue.scratch::<u64>(tiles.count)?;
    macro_rules! launch {
        ($totals:expr) => {{
            let (states, totals, prefixes) = (&mut *states, $totals, prefixes.overwrite());
            let division = tiles.division.clone();
            if is_alone {
                let call =
                    compact_neighbours(keep, x, states, totals, prefixes, &mut *y, &mut *count);
                queue.launch(division, call)
            } else {
                let call = compact_tiles(keep, x, states, totals, prefixes, &mut *y, &mut *count);
                queue.launch(division, call)
            }
        }};
    }
    let launched = launch!(totals.overwrite());
    if launches(queue) == 1 {
        return launched;
    }
    launched.and_then(|_| launch!(&mut *totals))
}

/// Tiles for [`compact_neighbours`].
fn neighbours(length: usize, limits: &AcceleratorLimits) -> Tiles {
    let elements = (length / (4 * limits.multiprocessors.max(1))).clamp(TILE / 4, TILE);
    let count = length.div_ceil(elements).max(1);
    Tiles {
        count,
        division: WorkDivision::new(count, 1, elements),
    }
}
