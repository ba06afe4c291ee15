//! Merge sort: by any order of the user's.
//!
//! 1. Each thread sorts tiles of neighbours: short runs by a network, and these by merging, from
//!    one buffer to the other and back.
//! 2. Pairs of runs are merged, again from one buffer to the other, until there is one. Each thread
//!    has an equal part of the *output*, wherever that begins and ends; a search along the diagonal
//!    finds the elements of both runs that come before it (merge path: Odeh, Green, Mwassi, Shmueli
//!    and Birk, "Merge Path", 2012). So all threads are at work in the last merge, too.
//!
//! Two runs are merged from both ends at once. The next element is known only once the last one is,
//! and a merge waits for that: so there are two such chains, and a processor goes along both.
//!
//! The first runs are left where they were or moved, so that the number of moves is even, and
//! everything ends where it began.

use crate::division::{BLOCKS_PER_CORE, parts, same_length, threads};
use crate::function::Item;
use crate::key::Order;
use quipu::kernels::{Accelerator, Grid, KernelData, RawMut, Threads, device, kernel};
use quipu::{Buffer, Event, Queue, Result, WorkDivision};

/// Elements of a tile, a power of two, where there are enough for all threads: with those of the
/// other buffer they fit into the nearest caches.
const TILE: usize = 4096;
/// Elements of a run that the network sorts, a power of two.
const RUN: usize = 4;

/// Sorts `count` elements from `start` on, at most `RUN`, into the same places of the other
/// buffers, or of the same. Neighbours that are in the wrong order change places, every other pair
/// of them by turns (an odd-even transposition network): so it is stable.
#[device]
fn sort_run<K: Copy, V: Copy, O: Order<K>, const VALUES: bool>(
    order: O,
    start: usize,
    count: usize,
    keys: RawMut<K>,
    to_keys: RawMut<K>,
    values: RawMut<V>,
    to_values: RawMut<V>,
) {
    // SAFETY: the elements are one thread's.
    unsafe {
        let mut run_keys = [keys.read(start); RUN];
        let mut run_values = [values.read(if VALUES { start } else { 0 }); RUN];
        for i in 1..count {
            run_keys[i] = keys.read(start + i);
            if VALUES {
                run_values[i] = values.read(start + i);
            }
        }
        for round in 0..RUN {
            for i in (1 + round % 2..count).step_by(2) {
                let (left, right) = (run_keys[i - 1], run_keys[i]);
                let changes = order.precedes(right, left);
                run_keys[i - 1] = if changes { right } else { left };
                run_keys[i] = if changes { left } else { right };
                if VALUES {
                    let (left, right) = (run_values[i - 1], run_values[i]);
                    run_values[i - 1] = if changes { right } else { left };
                    run_values[i] = if changes { left } else { right };
                }
            }
        }
        for i in 0..count {
            to_keys.write(start + i, run_keys[i]);
            if VALUES {
                to_values.write(start + i, run_values[i]);
            }
        }
    }
}

/// The number of the first `taken` elements of two merged runs that are of the first one.
#[device]
fn of_first<K: Copy, O: Order<K>>(order: O, taken: usize, first: &[K], second: &[K]) -> usize {
    let mut low = taken.max(second.len()) - second.len();
    let mut high = taken.min(first.len());
    while low < high {
        let half = (low + high) / 2;
        if order.precedes(second[taken - 1 - half], first[half]) {
            high = half;
        } else {
            low = half + 1;
        }
    }
    low
}

/// Merges the runs from `left` to `middle` and from there to `end`: writes the elements from
/// `start` to `stop` of the result.
#[device]
fn merge<K: Copy, V: Copy, O: Order<K>, const VALUES: bool>(
    order: O,
    runs: [usize; 3],
    start: usize,
    stop: usize,
    keys: RawMut<K>,
    to_keys: RawMut<K>,
    values: RawMut<V>,
    to_values: RawMut<V>,
) {
    let [left, middle, end] = runs;
    // SAFETY: no thread writes the merged runs.
    let first = unsafe { keys.slice(left..middle) };
    // SAFETY: as above.
    let second = unsafe { keys.slice(middle..end) };
    // The parts of both that come there. (With an order that is none they may end before they
    // begin.)
    let skipped = of_first(order, start - left, first, second);
    let reached = of_first(order, stop - left, first, second);
    let begin = left + skipped;
    let limit = (left + reached).clamp(begin, begin + (stop - start));
    // As many of both are taken as there are places.
    let other = start + middle - begin..stop + middle - limit;
    // SAFETY: as above.
    let first = unsafe { keys.slice(begin..limit) };
    // SAFETY: as above.
    let second = unsafe { keys.slice(other.clone()) };
    // SAFETY: as above, and the written part is one thread's.
    let to = unsafe { to_keys.slice_mut(start..stop) };
    // SAFETY: as above.
    let first_values = unsafe { values.slice(if VALUES { begin..limit } else { 0..0 }) };
    // SAFETY: as above.
    let second_values = unsafe { values.slice(if VALUES { other } else { 0..0 }) };
    // SAFETY: as above.
    let to_values = unsafe { to_values.slice_mut(if VALUES { start..stop } else { 0..0 }) };

    let (mut i, mut j) = (0, 0);
    let (mut i_end, mut j_end) = (first.len(), second.len());
    while i < i_end && j < j_end {
        // So many steps from each end stay inside of both, whatever they take, and do not meet.
        let inside = (first.len() - i)
            .min(second.len() - j)
            .min(i_end)
            .min(j_end);
        let steps = inside.min((i_end - i + j_end - j) / 2);
        for _ in 0..steps {
            let (one, other) = (first[i], second[j]);
            let is_second = order.precedes(other, one);
            to[i + j] = if is_second { other } else { one };
            let (one, other) = (first[i_end - 1], second[j_end - 1]);
            let is_first = order.precedes(other, one);
            to[i_end + j_end - 1] = if is_first { one } else { other };
            if VALUES {
                // Of both, as both keys are: which of them it is cannot be foreseen.
                let (one, other) = (first_values[i], second_values[j]);
                to_values[i + j] = if is_second { other } else { one };
                let (one, other) = (first_values[i_end - 1], second_values[j_end - 1]);
                to_values[i_end + j_end - 1] = if is_first { one } else { other };
            }
            i += !is_second as usize;
            j += is_second as usize;
            i_end -= is_first as usize;
            j_end -= !is_first as usize;
        }
    }
    // Of one of them there is nothing left.
    let is_first = i < i_end;
    for at in i + j..i_end + j_end {
        to[at] = if is_first {
            first[at - j]
        } else {
            second[at - i]
        };
        if VALUES {
            to_values[at] = if is_first {
                first_values[at - j]
            } else {
                second_values[at - i]
            };
        }
    }
}

/// Merges runs of `width` elements in pairs: writes the elements of the output from `start` to
/// `stop`.
#[device]
fn merge_pairs<K: Copy, V: Copy, O: Order<K>, const VALUES: bool>(
    order: O,
    width: usize,
    start: usize,
    stop: usize,
    keys: RawMut<K>,
    to_keys: RawMut<K>,
    values: RawMut<V>,
    to_values: RawMut<V>,
) {
    let length = keys.len();
    let mut at = start;
    while at < stop {
        let left = at / (2 * width) * (2 * width);
        let middle = (left + width).min(length);
        let end = (left + 2 * width).min(length);
        let last = stop.min(end);
        let runs = [left, middle, end];
        merge::<K, V, O, VALUES>(order, runs, at, last, keys, to_keys, values, to_values);
        at = last;
    }
}

/// Sorts each thread's tiles of `tile` elements, a power of two and at least four. The first runs,
/// of four, are left in the other buffers if `moves` says so; from there each doubling to `tile`
/// moves them to the other side.
#[kernel]
pub(crate) fn sort_tiles<K, V, O: Order<K>, const VALUES: bool>(
    acc: &impl Accelerator<1>,
    order: O,
    moves: bool,
    tile: usize,
    keys: RawMut<K>,
    other_keys: RawMut<K>,
    values: RawMut<V>,
    other_values: RawMut<V>,
) {
    let length = keys.len();
    let mut number = acc.index(Grid, Threads)[0];
    while number * tile < length {
        let start = number * tile;
        let end = (start + tile).min(length);
        let (first_keys, first_values) = if moves {
            (other_keys, other_values)
        } else {
            (keys, values)
        };
        let whole = end - (end - start) % RUN;
        for at in (start..whole).step_by(RUN) {
            sort_run::<K, V, O, VALUES>(order, at, RUN, keys, first_keys, values, first_values);
        }
        if whole < end {
            let count = end - whole;
            sort_run::<K, V, O, VALUES>(
                order,
                whole,
                count,
                keys,
                first_keys,
                values,
                first_values,
            );
        }
        let mut width = RUN;
        let mut is_other = moves;
        while width < tile {
            if is_other {
                merge_pairs::<K, V, O, VALUES>(
                    order,
                    width,
                    start,
                    end,
                    other_keys,
                    keys,
                    other_values,
                    values,
                );
            } else {
                merge_pairs::<K, V, O, VALUES>(
                    order,
                    width,
                    start,
                    end,
                    keys,
                    other_keys,
                    values,
                    other_values,
                );
            }
            is_other = !is_other;
            width *= 2;
        }
        number += acc.extent(Grid, Threads)[0];
    }
}

/// Merges sorted runs of `width` elements in pairs; each thread writes an equal part.
#[kernel]
pub(crate) fn merge_runs<K, V, O: Order<K>, const VALUES: bool>(
    acc: &impl Accelerator<1>,
    order: O,
    width: usize,
    keys: RawMut<K>,
    to_keys: RawMut<K>,
    values: RawMut<V>,
    to_values: RawMut<V>,
) {
    let length = keys.len();
    let share = length.div_ceil(acc.extent(Grid, Threads)[0]);
    let start = (acc.index(Grid, Threads)[0] * share).min(length);
    let stop = (start + share).min(length);
    merge_pairs::<K, V, O, VALUES>(order, width, start, stop, keys, to_keys, values, to_values);
}

/// Sorts by an order. Equal elements stay in their order: it is stable.
///
/// With an `order` that is none (see [`Order`]) the elements are in some order, and some may be
/// there several times and others not at all. The same bits on every device. n log n steps, log(n
/// / 4096) passes over the data after the tiles are sorted, or more where each thread has fewer
/// elements. Takes memory for as many elements again. (Merge path: Odeh, Green, Mwassi, Shmueli and
/// Birk, 2012.)
///
/// # Errors
/// As [`Queue::launch`].
///
/// ```
/// use quipu::prelude::*;
/// use quipu_algorithms::{Descending, merge_sort};
///
/// # fn main() -> quipu::Result<()> {
/// let context = Platform::new()?.context()?;
/// let queue = context.queue(&context.fastest())?;
/// let mut x = context.buffer(&[3, -1, 4, 0])?;
/// merge_sort(&queue, Descending::default(), &mut x)?;
/// assert_eq!(queue.read(&x)?.wait()?, [4, 3, 0, -1]);
/// # Ok(()) }
/// ```
pub fn merge_sort<K: Item, O: Order<K> + KernelData>(
    queue: &Queue,
    order: O,
    keys: &mut Buffer<K>,
) -> Result<Event> {
    let (mut none, mut other_none) = (queue.allocate::<u8>(1)?, queue.allocate::<u8>(1)?);
    sort::<K, u8, O, false>(queue, order, keys, &mut none, &mut other_none)
}

/// Sorts keys by an order, as [`merge_sort`] does, and each value along with its key. Values of
/// equal keys stay in their order.
///
/// # Errors
/// If there are not as many values as keys; as [`Queue::launch`].
pub fn merge_sort_by_key<K: Item, V: Item, O: Order<K> + KernelData>(
    queue: &Queue,
    order: O,
    keys: &mut Buffer<K>,
    values: &mut Buffer<V>,
) -> Result<Event> {
    same_length("sort by key", keys.len(), values.len())?;
    let mut other_values = queue.allocate::<V>(values.len())?;
    sort::<K, V, O, true>(queue, order, keys, values, &mut other_values)
}

fn sort<K: Item, V: Item, O: Order<K> + KernelData, const VALUES: bool>(
    queue: &Queue,
    order: O,
    keys: &mut Buffer<K>,
    values: &mut Buffer<V>,
    other_values: &mut Buffer<V>,
) -> Result<Event> {
    let length = keys.len();
    let limits = queue.limits();
    let (blocks, threads) = (parts(length, limits, BLOCKS_PER_CORE), threads(limits));
    let share = length.div_ceil(blocks * threads).max(1);
    let division = || WorkDivision::new(blocks, threads, share);
    let mut other_keys = queue.allocate::<K>(length)?;

    // Each thread is to have one, of a GPU's as well.
    let tile = share.next_power_of_two().clamp(RUN, TILE);
    let doublings = |from: usize| (length.div_ceil(from)).next_power_of_two().ilog2();
    let in_tiles = (tile / RUN).ilog2();
    let moves = (in_tiles + doublings(tile)) % 2 == 1;
    let mut done = queue.launch(
        division(),
        sort_tiles::<K, V, O, VALUES>(
            order,
            moves,
            tile,
            &mut *keys,
            &mut other_keys,
            &mut *values,
            &mut *other_values,
        ),
    )?;
    let mut is_other = (in_tiles + moves as u32) % 2 == 1;
    let mut width = tile;
    while width < length {
        done = if is_other {
            queue.launch(
                division(),
                merge_runs::<K, V, O, VALUES>(
                    order,
                    width,
                    &mut other_keys,
                    &mut *keys,
                    &mut *other_values,
                    &mut *values,
                ),
            )?
        } else {
            queue.launch(
                division(),
                merge_runs::<K, V, O, VALUES>(
                    order,
                    width,
                    &mut *keys,
                    &mut other_keys,
                    &mut *values,
                    &mut *other_values,
                ),
            )?
        };
        is_other = !is_other;
        width *= 2;
    }
    Ok(done)
}
