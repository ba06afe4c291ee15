//! Scans: all prefixes combined.
//!
//! Reduce, then scan (Blelloch, "Prefix sums and their applications", 1990; Merrill and Grimshaw, 2009):
//!
//! 1. Each part of the input is combined in one total.
//! 2. The totals are scanned, by one thread: they are a few for each core.
//! 3. Each part is scanned, beginning with what all parts before it come to.

use crate::division::{parts, same_length, single};
use crate::function::{Item, Operator};
use quipu::kernels::{Accelerator, Blocks, Grid, KernelData, OwnBlock, kernel};
use quipu::{Buffer, Event, Queue, Result};

/// Combines each block's part of `x`, in order. Blocks have one thread; `totals` has an element for each.
#[kernel]
pub fn total_parts<T, O: Operator<T>>(acc: &impl Accelerator<1>, x: &[T], totals: OwnBlock<T>) {
    let blocks = acc.extent(Grid, Blocks)[0];
    let length = (x.len() + blocks - 1) / blocks;
    let start = (acc.index(Grid, Blocks)[0] * length).min(x.len());
    let mut total = O::identity();
    for x in &x[start..(start + length).min(x.len())] {
        total = O::combine(total, *x);
    }
    for result in totals {
        *result = total;
    }
}

/// Scans each block's part of `x`, beginning with the block's element of `before`. Blocks have one thread.
#[kernel]
pub fn scan_parts<T, O: Operator<T>, const INCLUSIVE: bool>(
    acc: &impl Accelerator<1>,
    x: &[T],
    before: &[T],
    y: OwnBlock<T>,
) {
    let block = acc.index(Grid, Blocks)[0];
    let blocks = acc.extent(Grid, Blocks)[0];
    let length = (x.len() + blocks - 1) / blocks;
    let start = (block * length).min(x.len());
    let part = &x[start..start + y.len()];
    let mut total = before[block];
    for (i, y) in y.iter_mut().enumerate() {
        if INCLUSIVE {
            total = O::combine(total, part[i]);
            *y = total;
        } else {
            *y = total;
            total = O::combine(total, part[i]);
        }
    }
}

/// Sets element `i` of `y` to the combination of elements 0 to `i` of `x`, `i` among them.
///
/// The operator has to be associative; it need not be commutative. The order depends on the length and the device's
/// limits alone, so the same device gives the same bits every time. 2n steps in three launches (one if `x` is short),
/// two reads of the data and one write.
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
    let blocks = parts(x.len(), queue.limits());
    let mut before = queue.allocate::<T>(blocks)?;
    queue.launch(single(1), set_identity::<T, O>(before.overwrite()))?;
    if blocks > 1 {
        let mut totals = queue.allocate::<T>(blocks)?;
        queue.launch(single(blocks), total_parts::<T, O>(x, totals.overwrite()))?;
        let none = before.slice(..1)?;
        let mut scanned = queue.allocate::<T>(blocks)?;
        queue.launch(
            single(1),
            scan_parts::<T, O, false>(&totals, &none, scanned.overwrite()),
        )?;
        before = scanned;
    }
    queue.launch(
        single(blocks),
        scan_parts::<T, O, INCLUSIVE>(x, &before, y.overwrite()),
    )
}

/// Sets all elements to the operator's identity.
#[kernel]
fn set_identity<T, O: Operator<T>>(_acc: &impl Accelerator<1>, y: OwnBlock<T>) {
    for y in y {
        *y = O::identity();
    }
}
