//! The public API, item by item, on every kind of device.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests say what they expect by failing, too"
)]

mod bad_input;
mod content;
mod devices;
#[path = "../devices/empty.rs"]
mod empty;
mod futures;
#[path = "../devices/grid.rs"]
mod grid;
mod in_place;
mod kernels;
#[path = "../devices/mapped.rs"]
mod mapped;
mod mapping;
mod natives;
mod order;
mod printed;
mod printers;
mod recorded;
mod regions;
mod scopes;
mod scratch;
mod tasks;
mod threads;
mod transfers;
mod unused;
mod variables;
mod waiting;

use quipu::prelude::*;
use quipu::simulation::Configuration;

/// The embedded devices and two simulated ones, which share a memory of their
/// own.
fn platform() -> Platform {
    let machine = Configuration::shared_memory(2, 1 << 24);
    // Without CUDA and OpenCL: what there is of them differs from machine to machine.
    let builder = Platform::builder().cuda(false).opencl(false);
    builder.simulated(machine).build().unwrap()
}

/// A context of all of them.
fn context() -> Context {
    platform().context().unwrap()
}

/// An in-order queue of the pool in a context of all devices.
fn pool() -> (Context, Queue) {
    let context = context();
    let queue = context.queue(&context.fastest()).unwrap();
    (context, queue)
}

/// Runs a test once for the pool, the serial device and a simulated one.
fn each_queue(test: impl Fn(&Context, &Queue)) {
    let context = context();
    for driver in ["cpu", "serial", "sim"] {
        let device = context
            .devices()
            .iter()
            .find(|device| device.driver_name() == driver);
        let queue = context.queue(device.unwrap()).unwrap();
        test(&context, &queue);
    }
}

/// Runs tests over queues.
type EachQueue = fn(&dyn Fn(&Context, &Queue));

#[test]
fn blocks_wait_for_each_other() {
    let every: EachQueue = |test| each_queue(test);
    grid::blocks_wait_for_each_other(every);
    grid::blocks_of_a_graph_wait_for_each_other(every);
    grid::too_many_blocks_that_wait_are_refused(every);
}

#[test]
fn devices_use_memory_of_the_host_where_it_is() {
    let every: EachQueue = |test| each_queue(test);
    mapped::kernels_use_memory_of_the_host(every);
    mapped::pinned_memory_becomes_a_buffer(every);
    mapped::pinned_memory_is_taken_back(every);
    mapped::memory_with_other_handles_is_not_taken(every);
    mapped::the_host_sees_a_count_between_kernels(every);
    mapped::a_graph_uses_memory_of_the_host(every);
    mapped::such_a_buffer_may_be_empty_or_dropped_in_use(every);
}

/// Something whose drop can be seen.
struct Dropped(std::sync::Arc<std::sync::atomic::AtomicU32>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}
