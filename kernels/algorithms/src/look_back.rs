//! Decoupled look-back, by which tiles of a single pass tell each other their totals (Merrill and
//! Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016).
//!
//! A block has a *tile* of the input: its threads' elements, which are neighbours. It needs the
//! total of all tiles before it, and other blocks find that as they go:
//!
//! 1. The block takes the next *ticket*, which is its tile's number; so tiles are begun in order,
//!    in whatever order the device begins blocks.
//! 2. It totals its tile, writes the total, and then the tile's *state*: the total is known.
//! 3. It looks back for the nearest tile whose *prefix* is known: the total of that tile and all
//!    before it. It combines with it the totals of the tiles since, *in their order*.
//! 4. It writes its own prefix, and then the state: the prefix is known. Then it goes on with its
//!    tile.
//!
//! Words of the state are atomics; fences order the writes before them and the reads after them.
//! Totals and prefixes are raw memory, each written once, by its tile.
//!
//! **The same bits every time.** A prefix is the prefix before it combined with one total, for any
//! block that computes it: step 3 starts with a prefix and adds total after total to the right. So
//! floats, too, come to the same, whatever is known when.
//!
//! **No block waits for ever, on any device.** A block is patient with a tile for a bounded number
//! of looks; then it totals that tile itself from the input, which no thread writes, in the same
//! order and so to the same bits, and goes on to the one before. So it ends if it alone runs: a
//! serial device, one with fewer workers than blocks, one that makes no promise of progress between
//! blocks (OpenCL makes none), and a launch of which a block has failed. That is seldom done: by
//! the tickets, the tiles that are looked at have been begun. A worker of the CPU pool ends a block
//! before it begins another, so on the serial device nothing is ever waited for. (Smith, Levien and
//! Owens, "Decoupled Fallback", 2025.)

//!
//! **Without fences.** Where a device has no fence between blocks ([`launches`] says two), no block
//! reads memory that another of the same launch has written. The first launch totals all tiles, and
//! the second combines the totals before its tiles, in their order and so to the same bits. The
//! second writes again everything else that the first one writes.

use crate::function::Operator;
use quipu::Queue;
use quipu::kernels::{
    Accelerator, Atomics, Block, Blocks, Elements, Grid, KernelData, RawMut, Thread, Threads,
    device,
};

/// State: nothing of a tile is known. (A state, and the ticket in front of them, are zero at
/// first.)
const NOTHING: u32 = 0;
/// State: the tile's total is known.
const TOTAL: u32 = 1;
/// State: the prefix is known, too.
const PREFIX: u32 = 2;

/// Looks at a state before a tile is totalled here: some microseconds, in which a core totals a
/// tile.
const PATIENCE: u32 = 1 << 14;

/// States that are looked at together: on a GPU one look takes as long as that many.
const AT_ONCE: usize = 8;

/// The number of times that a kernel with [`look_back`] is launched, with the same arguments: each
/// time all tiles take tickets.
pub(crate) fn launches(queue: &Queue) -> usize {
    if queue.device().has_device_fence() {
        1
    } else {
        2
    }
}

/// The tile of a ticket.
#[device]
pub(crate) fn tile_of(acc: &impl Accelerator<1>, ticket: u32) -> usize {
    ticket as usize % acc.extent(Grid, Blocks)[0]
}

/// The way to total a thread's part of a tile.
#[device]
pub(crate) trait Totals<T, S, O>: Copy {
    /// The total of a part.
    fn total(self, part: &[T]) -> S;

    /// The total that all blocks go by, of a tile for which one of them has found `total`. It is a
    /// choice where totals give places and a second look may find another one.
    fn agreed(self, _states: Atomics<u32>, _tiles: usize, _tile: usize, total: S) -> S {
        total
    }
}

/// The shape of tiles: threads of a block, and elements of a thread.
#[derive(Debug, Clone, Copy, KernelData)]
#[repr(C)]
pub(crate) struct Shape {
    pub(crate) threads: u64,
    pub(crate) elements: u64,
}

/// As the launch cuts them.
#[device]
pub(crate) fn shape(acc: &impl Accelerator<1>) -> Shape {
    Shape {
        threads: acc.extent(Block, Threads)[0] as u64,
        elements: acc.extent(Thread, Elements)[0] as u64,
    }
}

/// The start and the end of a thread's part of a tile, of so many elements.
#[device]
pub(crate) fn part_of_thread(
    shape: Shape,
    tile: usize,
    thread: usize,
    length: usize,
) -> (usize, usize) {
    let elements = shape.elements as usize;
    let start = ((tile * shape.threads as usize + thread) * elements).min(length);
    (start, (start + elements).min(length))
}

/// The total of a tile, as its block makes it.
#[device]
fn total_of_tile<T, S: Copy, O: Operator<S>, F: Totals<T, S, O>>(
    shape: Shape,
    tile: usize,
    f: F,
    x: &[T],
) -> S {
    let (start, end) = part_of_thread(shape, tile, 0, x.len());
    let mut total = f.total(&x[start..end]);
    for thread in 1..shape.threads as usize {
        let (start, end) = part_of_thread(shape, tile, thread, x.len());
        total = O::combine(total, f.total(&x[start..end]));
    }
    total
}

/// As [`look_back`], where blocks of one launch cannot tell each other anything. The second launch
/// finds the states of the first.
#[device]
fn total_before<S: Copy, O: Operator<S>>(
    tile: usize,
    total: S,
    states: Atomics<u32>,
    totals: RawMut<S>,
) -> S {
    let is_first_launch = states.load(tile + 1) == NOTHING;
    let mut before = O::identity();
    if is_first_launch {
        // SAFETY: only this block has this tile, and others read it in the next launch.
        unsafe { totals.write(tile, total) };
        states.store(tile + 1, TOTAL);
    } else {
        for other in 0..tile {
            // SAFETY: the launch before has written it.
            before = O::combine(before, unsafe { totals.read(other) });
        }
    }
    before
}

/// Gives the total of the tiles before `tile`, and tells others of this one, whose agreed total is
/// `total`. One thread of the block calls it, once.
///
/// `states` has the ticket, then a state for each tile, and then the words of [`Totals::agreed`];
/// `totals` and `prefixes` have an element for each tile.
#[device]
pub(crate) fn look_back<T, S: Copy, O: Operator<S>, F: Totals<T, S, O>>(
    acc: &impl Accelerator<1>,
    shape: Shape,
    tile: usize,
    total: S,
    states: Atomics<u32>,
    totals: RawMut<S>,
    prefixes: RawMut<S>,
    f: F,
    x: &[T],
) -> S {
    if !acc.has_device_fence() {
        return total_before::<S, O>(tile, total, states, totals);
    }
    // SAFETY: only this block has this ticket, and others read it once the state says that it is
    // written.
    unsafe { totals.write(tile, total) };
    acc.fence_device();
    states.store(tile + 1, TOTAL);

    // The tiles from `first` on have no known prefix. The state of tile `first - 1` is at `first`.
    let mut first = tile;
    let mut is_found = false;
    let mut all_known = true;
    while first > 0 && !is_found {
        let count = first.min(AT_ONCE);
        let mut seen = [NOTHING; AT_ONCE];
        for back in 0..AT_ONCE {
            if back < count {
                seen[back] = states.load(first - back);
            }
        }
        for back in 0..AT_ONCE {
            if back < count && !is_found {
                let mut state = seen[back];
                let mut looks = 0;
                while state == NOTHING && looks < PATIENCE {
                    state = states.load(first);
                    looks += 1;
                }
                if state == PREFIX {
                    is_found = true;
                } else {
                    all_known &= state == TOTAL;
                    first -= 1;
                }
            }
        }
    }
    acc.fence_device();
    let mut before = O::identity();
    if first > 0 {
        // SAFETY: the state says that it is written, and it is written once.
        before = unsafe { prefixes.read(first - 1) };
    }
    if all_known {
        for other in first..tile {
            // SAFETY: as above.
            before = O::combine(before, unsafe { totals.read(other) });
        }
    } else {
        for other in first..tile {
            let state = states.load(other + 1);
            acc.fence_device();
            if state == NOTHING {
                let found = total_of_tile::<T, S, O, F>(shape, other, f, x);
                let tiles = acc.extent(Grid, Blocks)[0];
                before = O::combine(before, f.agreed(states, tiles, other, found));
            } else {
                // SAFETY: as above.
                before = O::combine(before, unsafe { totals.read(other) });
            }
        }
    }

    // SAFETY: as of the total.
    unsafe { prefixes.write(tile, O::combine(before, total)) };
    acc.fence_device();
    states.store(tile + 1, PREFIX);
    before
}
