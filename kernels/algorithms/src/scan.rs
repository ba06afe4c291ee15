//! Scans: all prefixes combined, in a single pass over the data ([`look_back`](crate::look_back)).
//!
//! A thread has its elements in chains, one after the other, which it goes through side by side: so that several
//! combinations are under way at a time, where one chain would wait for each.
//!
//! Where blocks have one thread, its tile is in the nearest caches. It is scanned as if nothing came before each chain,
//! and what did is combined with all of it afterwards ([`scan_neighbours`]): no element is combined with the one before
//! it twice, and what is done twice takes vectors. Where blocks have many threads, their tiles are far from them, and are
//! totalled first and then scanned ([`scan_tiles`]).

use crate::division::{Tiles, same_length, threads, tiles};
use crate::function::{Item, Operator};
use crate::look_back::{Totals, look_back, part_of_thread, shape};
use quipu::kernels::{
    Accelerator, Atomics, Block, BlockAccelerator, KernelData, RawMut, SharedAtomics,
    SharedElement, SharedWrite, Threads, device, kernel,
};
use quipu::{AcceleratorLimits, Buffer, Event, Queue, Result, WorkDivision};

/// Chains of a tile that is scanned by one thread.
const CHAINS: usize = 8;
/// Elements of such a chain. Chains of a power of two would be in the same places of the nearest cache.
const LINKS: usize = 1024 + 16;
/// Elements that are scanned side by side.
const STRAND: usize = CHAINS * LINKS;
/// Strands of a tile, at most: with what is written they fit into the second cache.
const MOST_STRANDS: usize = 4;
/// Tiles of each core from which on they have several strands.
const LEAST_TILES: usize = 8;

/// What each of the four chains of a part comes to. The last has what is left of a division by four, too.
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

/// Parts are totalled by their operator.
#[derive(Debug, Clone, Copy, KernelData)]
#[repr(C)]
pub(crate) struct Combined {
    nothing: u32,
}

#[device]
impl<T: KernelData, O: Operator<T> + KernelData> Totals<T, T, O> for Combined {
    fn total(self, part: &[T]) -> T {
        let chains = totals_of_chains::<T, O>(part);
        O::combine(
            O::combine(O::combine(chains[0], chains[1]), chains[2]),
            chains[3],
        )
    }
}

/// Scans a part whose first element is element `start`, and before which all comes to `first`.
#[device]
fn scan_part<T: Copy, O: Operator<T>, const INCLUSIVE: bool>(
    first: T,
    chains: [T; 4],
    part: &[T],
    start: usize,
    y: RawMut<T>,
) {
    let length = part.len() / 4;
    let a = &part[..length];
    let b = &part[length..][..length];
    let c = &part[2 * length..][..length];
    let d = &part[3 * length..];
    let mut first = first;
    let mut second = O::combine(first, chains[0]);
    let mut third = O::combine(second, chains[1]);
    let mut fourth = O::combine(third, chains[2]);
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
}

/// Scans each chain of a strand as if nothing came before it.
#[device]
fn scan_chains<T: Copy, O: Operator<T>, const INCLUSIVE: bool>(strand: &[T], to: &mut [T]) {
    let strand = &strand[..STRAND];
    let to = &mut to[..STRAND];
    let mut totals = [O::identity(); CHAINS];
    for i in 0..LINKS {
        for chain in 0..CHAINS {
            let at = chain * LINKS + i;
            let before = totals[chain];
            totals[chain] = O::combine(before, strand[at]);
            to[at] = if INCLUSIVE { totals[chain] } else { before };
        }
    }
}

/// What a scanned chain, or a few elements, come to in all.
#[device]
fn total_of_scanned<T: Copy, O: Operator<T>, const INCLUSIVE: bool>(chain: &[T], to: &[T]) -> T {
    let last = to.len() - 1;
    if INCLUSIVE {
        to[last]
    } else {
        O::combine(to[last], chain[last])
    }
}

/// Combines what comes before a chain with each of its elements.
#[device]
fn advance<T: Copy, O: Operator<T>>(before: T, to: &mut [T]) {
    for to in to {
        *to = O::combine(before, *to);
    }
}

/// Tiles are totalled in strands, as they are scanned.
#[derive(Debug, Clone, Copy, KernelData)]
#[repr(C)]
pub(crate) struct InStrands {
    nothing: u32,
}

#[device]
impl<T: KernelData, O: Operator<T> + KernelData> Totals<T, T, O> for InStrands {
    fn total(self, part: &[T]) -> T {
        let mut total = O::identity();
        for strand in 0..part.len() / STRAND {
            let strand = &part[strand * STRAND..][..STRAND];
            let mut totals = [O::identity(); CHAINS];
            for i in 0..LINKS {
                for chain in 0..CHAINS {
                    totals[chain] = O::combine(totals[chain], strand[chain * LINKS + i]);
                }
            }
            for chain in 0..CHAINS {
                total = O::combine(total, totals[chain]);
            }
        }
        let mut rest = O::identity();
        for i in part.len() / STRAND * STRAND..part.len() {
            rest = O::combine(rest, part[i]);
        }
        O::combine(total, rest)
    }
}

/// Scans the elements of a tile behind its last strand as if nothing came before them, and gives what they come to.
#[device]
fn scan_rest<T: Copy, O: Operator<T>, const INCLUSIVE: bool>(rest: &[T], to: &mut [T]) -> T {
    let mut total = O::identity();
    for i in 0..rest.len() {
        let before = total;
        total = O::combine(before, rest[i]);
        to[i] = if INCLUSIVE { total } else { before };
    }
    total
}

/// Scans one tile for each block of one thread, in the order of `states[0]`. A tile has as many elements as a thread in
/// the launch. Otherwise as [`scan_tiles`].
#[kernel]
pub fn scan_neighbours<T, O: Operator<T> + KernelData, const INCLUSIVE: bool>(
    acc: &impl Accelerator<1>,
    x: &[T],
    states: Atomics<u32>,
    totals: RawMut<T>,
    prefixes: RawMut<T>,
    y: RawMut<T>,
) {
    let shape = shape(acc);
    let tile = states.add(0, 1) as usize;
    let (start, end) = part_of_thread(shape, tile, 0, x.len());
    let part = &x[start..end];
    // SAFETY: a tile is one thread's.
    let to = unsafe { y.slice_mut(start..end) };

    let strands = part.len() / STRAND;
    let mut total = O::identity();
    for strand in 0..strands {
        let at = strand * STRAND;
        scan_chains::<T, O, INCLUSIVE>(&part[at..at + STRAND], &mut to[at..at + STRAND]);
        for chain in 0..CHAINS {
            let at = at + chain * LINKS;
            let of_chain =
                total_of_scanned::<T, O, INCLUSIVE>(&part[at..at + LINKS], &to[at..at + LINKS]);
            total = O::combine(total, of_chain);
        }
    }
    let at = strands * STRAND;
    let rest = scan_rest::<T, O, INCLUSIVE>(&part[at..], &mut to[at..]);
    total = O::combine(total, rest);

    let f = InStrands { nothing: 0 };
    let mut before =
        look_back::<T, T, O, InStrands>(acc, shape, tile, total, states, totals, prefixes, f, x);
    for chain in 0..strands * CHAINS {
        let at = chain * LINKS;
        let of_chain =
            total_of_scanned::<T, O, INCLUSIVE>(&part[at..at + LINKS], &to[at..at + LINKS]);
        advance::<T, O>(before, &mut to[at..at + LINKS]);
        before = O::combine(before, of_chain);
    }
    advance::<T, O>(before, &mut to[at..]);
}

/// Scans one tile for each block, in the order of `states[0]`: a thread's part has as many elements as it has in the
/// launch, and a block's tile as many parts as it has threads. `states` has one more element than there are tiles, all
/// zero; `totals` and `prefixes` have one for each.
#[kernel]
pub async fn scan_tiles<T: SharedElement, O: Operator<T>, const INCLUSIVE: bool>(
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
    let tile = ticket.load(0) as usize;
    let (start, end) = part_of_thread(shape, tile, thread, x.len());
    let part = &x[start..end];

    let chains = totals_of_chains::<T, O>(part);
    sums.own()[0] = O::combine(
        O::combine(O::combine(chains[0], chains[1]), chains[2]),
        chains[3],
    );
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

    // What is hot is in functions of its own, as variables of an `async fn` are in memory.
    let mut first = starts[0];
    for other in 0..thread {
        first = O::combine(first, sums[other]);
    }
    scan_part::<T, O, INCLUSIVE>(first, chains, part, start, y);
}

/// Sets element `i` of `y` to the combination of elements 0 to `i` of `x`, `i` among them.
///
/// The operator has to be associative; it need not be commutative. The order depends on the length and the device's
/// limits alone, so the same device gives the same bits every time, of floats too, whichever block is the first to know
/// something. One read of the data and one write: a launch after one that fills some words. (Merrill and Garland,
/// "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016.) A block whose predecessor is late computes what
/// it needs of it by itself; so it is right on every device, whether that promises progress between blocks or not.
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

/// Sets element `i` of `y` to the combination of the elements of `x` before `i`; the first to the identity.
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
        strands(x.len(), limits)
    } else {
        tiles(x.len(), limits)
    };
    let mut states = queue.allocate::<u32>(tiles.count + 1)?;
    queue.fill(&states, 0)?;
    let mut totals = queue.allocate::<T>(tiles.count)?;
    let mut prefixes = queue.allocate::<T>(tiles.count)?;
    let (totals, prefixes, y) = (totals.overwrite(), prefixes.overwrite(), y.overwrite());
    if is_alone {
        queue.launch(
            tiles.division,
            scan_neighbours::<T, O, INCLUSIVE>(x, &mut states, totals, prefixes, y),
        )
    } else {
        queue.launch(
            tiles.division,
            scan_tiles::<T, O, INCLUSIVE>(x, &mut states, totals, prefixes, y),
        )
    }
}

/// Tiles for [`scan_neighbours`]: of several strands where each core has some, so that blocks are seldom begun.
fn strands(length: usize, limits: &AcceleratorLimits) -> Tiles {
    let strands = length / (STRAND * LEAST_TILES * limits.multiprocessors.max(1));
    let elements = STRAND * strands.clamp(1, MOST_STRANDS);
    let count = length.div_ceil(elements).max(1);
    Tiles {
        count,
        division: WorkDivision::new(count, 1, elements),
    }
}
