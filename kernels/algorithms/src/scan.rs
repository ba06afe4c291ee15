//! Scans: all prefixes combined, in a single pass over the data ([`look_back`](crate::look_back)).
//!
//! A thread goes through chains of its elements side by side, so that several combinations are
//! under way at a time where one chain would wait for each.
//!
//! Where blocks have one thread, the chains are short and neighbours ([`scan_piece`]): memory is
//! read and written in one stream, and the combinations are those of vectors. A tile is scanned as
//! if nothing came before it. The total before it is combined with all of it afterwards, when it is
//! in the second cache ([`scan_neighbours`]). Where blocks have many threads, their tiles are far
//! from them, and are totalled first and then scanned, in four long chains for each thread
//! ([`scan_tiles`]).

use crate::division::{Tiles, same_length, threads, tiles};
use crate::function::{Item, Operator};
use crate::look_back::{Totals, launches, look_back, part_of_thread, shape, tile_of};
use quipu::kernels::{
    Accelerator, Atomics, Block, BlockAccelerator, KernelData, RawMut, SharedAtomics, SharedWrite,
    Threads, device, kernel,
};
use quipu::{AcceleratorLimits, Buffer, Event, Queue, Result, WorkDivision};

/// Chains of a piece, and elements of each.
const CHAINS: usize = 8;
const LINKS: usize = 8;
/// Elements of a piece.
const PIECE: usize = CHAINS * LINKS;
/// Bytes of a tile that is scanned by one thread, at most: with its input it fits into the second
/// cache. To begin a tile, and to look back, takes as long as some thousands of elements do.
const MOST_BYTES: usize = 256 << 10;
/// Pieces of a tile at least, but of short inputs: for fewer, blocks would begin and look back for
/// longer than they scan.
const LEAST_PIECES: usize = 64;
/// Tiles of each core that such an input is cut into, if they are long enough.
const TILES_PER_CORE: usize = 8;

/// The totals of the four chains of a part. The last has the rest of a division by four, too.
#[device]
fn totals_of_chains<T: Copy, O: Operator<T>>(part: &[T]) -> [T; 4] {
    let length = part.len() / 4;
    let a = &part[..length];
    let b = &part[length..][..length];
    let c = &part[2 * length..][..length];
    let d = &part[3 * length..];
    let mut totals = [O::identity(); 4];
    for i in 0..length {
        totals[0] = O::combine(totals[0], a[i]);
        totals[1] = O::combine(totals[1], b[i]);
        totals[2] = O::combine(totals[2], c[i]);
        totals[3] = O::combine(totals[3], d[i]);
    }
    for i in length..d.len() {
        totals[3] = O::combine(totals[3], d[i]);
    }
    totals
}

/// Parts are totalled by their operator, in four chains.
#[derive(Debug, Clone, Copy, KernelData)]
#[repr(C)]
pub(crate) struct Combined {
    nothing: u32,
}

#[device]
impl<T: KernelData, O: Operator<T> + KernelData> Totals<T, T, O> for Combined {
    fn total(self, part: &[T]) -> T {
        total_of_chains::<T, O>(totals_of_chains::<T, O>(part))
    }
}

/// Scans the four chains of a part whose first element is element `start`, each after the total
/// before it, and gives their totals with that.
#[device]
fn scan_chains<T: Copy, O: Operator<T>, const INCLUSIVE: bool>(
    before: [T; 4],
    part: &[T],
    start: usize,
    y: RawMut<T>,
) -> [T; 4] {
    let length = part.len() / 4;
    let a = &part[..length];
    let b = &part[length..][..length];
    let c = &part[2 * length..][..length];
    let d = &part[3 * length..];
    let mut first = before[0];
    let mut second = before[1];
    let mut third = before[2];
    let mut fourth = before[3];
    // SAFETY: a tile is one block's, a part one thread's, and the four are apart.
    let to_a = unsafe { y.slice_mut(start..start + length) };
    // SAFETY: as above.
    let to_b = unsafe { y.slice_mut(start + length..start + 2 * length) };
    // SAFETY: as above.
    let to_c = unsafe { y.slice_mut(start + 2 * length..start + 3 * length) };
    // SAFETY: as above.
    let to_d = unsafe { y.slice_mut(start + 3 * length..start + part.len()) };
    for i in 0..length {
        let before = [first, second, third, fourth];
        first = O::combine(first, a[i]);
        second = O::combine(second, b[i]);
        third = O::combine(third, c[i]);
        fourth = O::combine(fourth, d[i]);
        to_a[i] = if INCLUSIVE { first } else { before[0] };
        to_b[i] = if INCLUSIVE { second } else { before[1] };
        to_c[i] = if INCLUSIVE { third } else { before[2] };
        to_d[i] = if INCLUSIVE { fourth } else { before[3] };
    }
    for i in length..d.len() {
        let before = fourth;
        fourth = O::combine(fourth, d[i]);
        to_d[i] = if INCLUSIVE { fourth } else { before };
    }
    [first, second, third, fourth]
}

/// The totals before each of four chains: before the first, `first`.
#[device]
fn before_chains<T: Copy, O: Operator<T>>(first: T, chains: [T; 4]) -> [T; 4] {
    let second = O::combine(first, chains[0]);
    let third = O::combine(second, chains[1]);
    let fourth = O::combine(third, chains[2]);
    [first, second, third, fourth]
}

/// The total of four chains.
#[device]
fn total_of_chains<T: Copy, O: Operator<T>>(chains: [T; 4]) -> T {
    O::combine(
        O::combine(O::combine(chains[0], chains[1]), chains[2]),
        chains[3],
    )
}

/// Scans [`PIECE`] elements after `first`, and gives their total with it.
#[device]
fn scan_piece<T: Copy, O: Operator<T>, const INCLUSIVE: bool>(first: T, x: &[T], y: &mut [T]) -> T {
    let mut totals = [O::identity(); CHAINS];
    let mut scanned = [O::identity(); PIECE];
    for i in 0..LINKS {
        for chain in 0..CHAINS {
            let at = chain * LINKS + i;
            let before = totals[chain];
            totals[chain] = O::combine(before, x[at]);
            scanned[at] = if INCLUSIVE { totals[chain] } else { before };
        }
    }
    let mut before = first;
    for chain in 0..CHAINS {
        for i in 0..LINKS {
            let at = chain * LINKS + i;
            y[at] = O::combine(before, scanned[at]);
        }
        before = O::combine(before, totals[chain]);
    }
    before
}

/// Scans a tile as if nothing came before it, and gives its total.
#[device]
fn scan_tile<T: Copy, O: Operator<T>, const INCLUSIVE: bool>(x: &[T], y: &mut [T]) -> T {
    let mut before = O::identity();
    let mut at = 0;
    while at + PIECE <= x.len() {
        before = scan_piece::<T, O, INCLUSIVE>(before, &x[at..at + PIECE], &mut y[at..at + PIECE]);
        at += PIECE;
    }
    for i in at..x.len() {
        let after = O::combine(before, x[i]);
        y[i] = if INCLUSIVE { after } else { before };
        before = after;
    }
    before
}

/// Parts are totalled as [`scan_tile`] totals them.
#[derive(Debug, Clone, Copy, KernelData)]
#[repr(C)]
pub(crate) struct InPieces {
    nothing: u32,
}

#[device]
impl<T: KernelData, O: Operator<T> + KernelData> Totals<T, T, O> for InPieces {
    fn total(self, part: &[T]) -> T {
        let mut before = O::identity();
        let mut at = 0;
        while at + PIECE <= part.len() {
            let piece = &part[at..at + PIECE];
            for chain in 0..CHAINS {
                let mut total = O::identity();
                for i in 0..LINKS {
                    total = O::combine(total, piece[chain * LINKS + i]);
                }
                before = O::combine(before, total);
            }
            at += PIECE;
        }
        for i in at..part.len() {
            before = O::combine(before, part[i]);
        }
        before
    }
}

/// Scans one tile for each block of one thread, in the order of `states[0]`. A tile has as many
/// elements as a thread in the launch. Otherwise as [`scan_tiles`].
#[kernel]
pub(crate) fn scan_neighbours<T, O: Operator<T> + KernelData, const INCLUSIVE: bool>(
    acc: &impl Accelerator<1>,
    x: &[T],
    states: Atomics<u32>,
    totals: RawMut<T>,
    prefixes: RawMut<T>,
    y: RawMut<T>,
) {
    let shape = shape(acc);
    let tile = tile_of(acc, states.add(0, 1));
    let (start, end) = part_of_thread(shape, tile, 0, x.len());
    // SAFETY: a tile is one thread's.
    let to = unsafe { y.slice_mut(start..end) };

    let total = scan_tile::<T, O, INCLUSIVE>(&x[start..end], to);
    let f = InPieces { nothing: 0 };
    let before =
        look_back::<T, T, O, InPieces>(acc, shape, tile, total, states, totals, prefixes, f, x);
    for to in to {
        *to = O::combine(before, *to);
    }
}

/// Scans one tile for each block, in the order of `states[0]`: a thread's part has as many elements
/// as it has in the launch, and a block's tile as many parts as it has threads. `states` has one
/// more element than there are tiles, all zero; `totals` and `prefixes` have one for each.
#[kernel]
pub(crate) async fn scan_tiles<T: KernelData, O: Operator<T>, const INCLUSIVE: bool>(
    acc: &impl BlockAccelerator<1>,
    x: &[T],
    states: Atomics<u32>,
    totals: RawMut<T>,
    prefixes: RawMut<T>,
    y: RawMut<T>,
    #[shared(1)] ticket: SharedAtomics<u32>,
    #[shared(acc.extent(Block, Threads)[0])] mut sums: SharedWrite<T>,
    #[shared(acc.extent(Block, Threads)[0])] mut starts: SharedWrite<T>,
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

    let chains = totals_of_chains::<T, O>(part);
    sums.own()[0] = total_of_chains::<T, O>(chains);
    let sums = acc.sync(sums).await;
    if thread == 0 {
        let mut total = sums[0];
        for other in 1..shape.threads as usize {
            total = O::combine(total, sums[other]);
        }
        let f = Combined { nothing: 0 };
        starts.own()[0] =
            look_back::<T, T, O, Combined>(acc, shape, tile, total, states, totals, prefixes, f, x);
    }
    let starts = acc.sync(starts).await;

    // Hot code is in functions of its own, as variables of an `async fn` are in memory.
    let mut first = starts[0];
    for other in 0..thread {
        first = O::combine(first, sums[other]);
    }
    let before = before_chains::<T, O>(first, chains);
    scan_chains::<T, O, INCLUSIVE>(before, part, start, y);
}

/// Sets element `i` of `y` to the combination of elements 0 to `i` of `x`, `i` among them.
///
/// The operator has to be associative; it need not be commutative. The order depends on the length
/// and the device's limits alone. So the same device gives the same bits every time, of floats too,
/// in any order of blocks. One read of the data and one write: a launch after one that fills some
/// words. (Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016.)
/// A block whose predecessor is late computes its total by itself; so it is right on every device,
/// whether that promises progress between blocks or not.
///
/// # Errors
/// If the lengths differ; as [`Queue::launch`].
pub fn inclusive_scan<O: Operator<T> + KernelData, T: Item>(
    queue: &Queue,
    x: &Buffer<T>,
    y: &mut Buffer<T>,
) -> Result<Event> {
    scan::<O, T, true>(queue, x, y)
}

/// Sets element `i` of `y` to the combination of the elements of `x` before `i`; the first to the
/// identity.
///
/// Otherwise as [`inclusive_scan`].
///
/// # Errors
/// If the lengths differ; as [`Queue::launch`].
pub fn exclusive_scan<O: Operator<T> + KernelData, T: Item>(
    queue: &Queue,
    x: &Buffer<T>,
    y: &mut Buffer<T>,
) -> Result<Event> {
    scan::<O, T, false>(queue, x, y)
}

fn scan<O: Operator<T> + KernelData, T: Item, const INCLUSIVE: bool>(
    queue: &Queue,
    x: &Buffer<T>,
    y: &mut Buffer<T>,
) -> Result<Event> {
    same_length("scan", x.len(), y.len())?;
    let limits = queue.limits();
    let is_alone = threads(limits) == 1;
    let tiles = if is_alone {
        neighbours::<T>(x.len(), limits)
    } else {
        tiles(x.len(), limits)
    };
    let mut states = queue.scratch::<u32>(tiles.count + 1)?;
    queue.fill(&states, 0)?;
    let mut totals = queue.scratch::<T>(tiles.count)?;
    let mut prefixes = queue.scratch::<T>(tiles.count)?;
    macro_rules! launch {
        ($totals:expr) => {{
            let (totals, prefixes, y) = ($totals, prefixes.overwrite(), y.overwrite());
            let division = tiles.division.clone();
            if is_alone {
                let call = scan_neighbours::<T, O, INCLUSIVE>(x, &mut *states, totals, prefixes, y);
                queue.launch(division, call)
            } else {
                let call = scan_tiles::<T, O, INCLUSIVE>(x, &mut *states, totals, prefixes, y);
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

/// Tiles for [`scan_neighbours`]: long ones where each core has some, so that blocks are seldom
/// begun.
fn neighbours<T>(length: usize, limits: &AcceleratorLimits) -> Tiles {
    let tiles = TILES_PER_CORE * limits.multiprocessors.max(1);
    let most = (MOST_BYTES / (PIECE * size_of::<T>())).max(LEAST_PIECES);
    let pieces = (length / (PIECE * tiles)).clamp(LEAST_PIECES, most);
    let elements = PIECE * pieces;
    let count = length.div_ceil(elements).max(1);
    Tiles {
        count,
        division: WorkDivision::new(count, 1, elements),
    }
}
