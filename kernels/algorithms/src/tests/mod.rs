//! Every algorithm on every device, against a sequential model, and its kernels in every mode, bit
//! for bit.

#![allow(
    clippy::unwrap_used,
    clippy::manual_is_multiple_of,
    reason = "tests and their helpers say what they expect by failing, and kernels have no `is_multiple_of`"
)]

mod compact;
mod elementwise;
mod empty;
#[allow(dead_code, reason = "a kernel is run by its type, not by a call")]
mod guide;
mod histogram;
mod matrices;
mod modes;
mod physics;
mod reduce;
mod scan;
mod sort;

use quipu::prelude::*;
use std::sync::LazyLock;

/// Lengths (no buffer is empty) that are one, less and more than a block's part, and divide by
/// nothing.
const LENGTHS: [usize; 7] = [1, 2, 63, 64, 1000, 8193, 100_003];

/// Has Quipu look for devices, before something else calls vendors' libraries: not all of them
/// stand two threads that make the first call (PoCL 5.0 does not).
fn look_for_devices() {
    static LOOKED: LazyLock<()> = LazyLock::new(|| drop(Platform::new()));
    LazyLock::force(&LOOKED);
}

/// Calls `test` with a queue of every kind of device.
fn on_each_device(test: impl Fn(&Context, &Queue)) {
    let platform = Platform::new().unwrap();
    let context = platform.context().unwrap();
    assert!(platform.devices().len() > 1, "the pool and the serial one");
    for device in platform.devices() {
        test(&context, &context.queue(device).unwrap());
    }
}

/// A buffer of zeros.
fn allocate<T: Element>(context: &Context, length: usize) -> Buffer<T> {
    context.allocate(length).unwrap()
}

/// A buffer of these elements.
fn buffer<T: Element>(context: &Context, elements: &[T]) -> Buffer<T> {
    context.buffer(elements).unwrap()
}

/// Numbers without order.
fn numbers(length: usize) -> impl Iterator<Item = u32> {
    (0..length as u32).map(|i| i.wrapping_mul(2_654_435_761) >> 7)
}
