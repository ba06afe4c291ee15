//! The rates at which pageable memory gets to each OpenCL device and back, in GB/s: in the
//! library's own copies, and in pieces that host threads move through pinned memory.
//!
//! ```sh
//! cargo run --release -p quipu-driver-opencl --example staging
//! ```
#![allow(clippy::unwrap_used, reason = "a measurement that cannot be made ends")]

use quipu_device_queue::Vendor;
use quipu_driver_opencl::{OpenCl, OpenClDriver};
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{Access, AccessMode, Context, Device, Driver, QueueOptions};
use std::sync::Arc;
use std::time::Instant;

const MIB: u64 = 1 << 20;
const LENGTH: u64 = 256 * MIB;
/// The number of runs. Their median counts.
const RUNS: usize = 9;

/// The rates to a device and back, in commands of `piece` bytes.
fn rates(device: &Device, piece: u64) -> [f64; 2] {
    let context = Context::new(std::slice::from_ref(device)).unwrap();
    let queue = context.queue(device, QueueOptions::default()).unwrap();
    let memory = context.memory(LENGTH).unwrap();
    let mut bytes = vec![1_u8; LENGTH as usize];
    let mut times = [vec![], vec![]];
    for _ in 0..RUNS {
        for (is_read, times) in [false, true].into_iter().zip(&mut times) {
            let begun = Instant::now();
            for (number, bytes) in (0..).zip(bytes.chunks_mut(piece as usize)) {
                // SAFETY: `bytes` outlives the wait for the queue below, and nobody else uses them
                // until then.
                let host = unsafe { HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None) };
                let access = |mode| Access {
                    memory: &memory,
                    offset: number * piece,
                    length: piece,
                    mode,
                };
                let event = if is_read {
                    queue.read(access(AccessMode::Read), host, piece, &[], &[])
                } else {
                    queue.write(host, access(AccessMode::Overwrite), piece, &[], &[])
                };
                event.unwrap();
            }
            queue.wait().unwrap();
            times.push(begun.elapsed().as_secs_f64());
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        LENGTH as f64 / times[RUNS / 2] / 1e9
    })
}

fn main() {
    println!("GB/s to the device and back, medians of {RUNS}");
    for (label, is_staged, piece) in [
        ("in one, pageable", false, LENGTH),
        ("in one, staged", true, LENGTH),
        ("in pieces of 1 MiB, pageable", false, MIB),
        ("in pieces of 16 MiB, pageable", false, 16 * MIB),
        ("in pieces of 16 MiB, staged", true, 16 * MIB),
        ("in one, pageable", false, LENGTH),
        ("in one, staged", true, LENGTH),
    ] {
        let library = OpenCl::open().unwrap().staged(is_staged);
        let driver: Arc<dyn Driver> = OpenClDriver::over(library).unwrap();
        for device in Device::all_of(&driver).unwrap() {
            let [up, down] = rates(&device, piece);
            println!("{}, {label}: {up:.2} {down:.2}", device.name());
        }
    }
}
