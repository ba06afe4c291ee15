//! What the driver costs beside the raw interface, in one process: a fill of 64 bytes, enqueued and waited for, and a
//! thousand of them one after the other. `cargo run --release -p quipu-driver-opencl --example overhead`
//!
//! Medians of so many rounds, in microseconds per command.

use cl3::types::cl_event;
use quipu_core::{Access, AccessMode, Completion, Context, Device, Driver, QueueOptions};
use quipu_driver_opencl::OpenClDriver;
use std::error::Error;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::time::Instant;

const ROUNDS: usize = 200;
const CHAIN: usize = 1000;
const BYTES: usize = 64;

fn median(mut round: impl FnMut(), rounds: usize, commands: usize) -> f64 {
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            round();
            start.elapsed().as_secs_f64() * 1e6 / commands as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[rounds / 2]
}

/// One fill and its wait, and each of a chain of fills, through OpenCL alone.
fn raw() -> Result<[f64; 2], i32> {
    let platform = cl3::platform::get_platform_ids()?[0];
    let device = cl3::device::get_device_ids(platform, cl3::device::CL_DEVICE_TYPE_ALL)?[0];
    let context = cl3::context::create_context(&[device], null(), None, null_mut())?;
    let mode = cl3::command_queue::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
    #[allow(deprecated)]
    // SAFETY: the device is the context's; no host memory is given.
    let (queue, memory) = unsafe {
        (
            cl3::command_queue::create_command_queue(context, device, mode)?,
            cl3::memory::create_buffer(context, cl3::memory::CL_MEM_READ_WRITE, BYTES, null_mut())?,
        )
    };
    let fill = |after: Option<cl_event>| -> cl_event {
        let pattern = 7_u32;
        let waits = after.as_ref().map_or(null(), std::ptr::from_ref);
        // SAFETY: the pattern is copied; the memory has so many bytes; the event is alive.
        unsafe {
            cl3::command_queue::enqueue_fill_buffer(
                queue,
                memory,
                (&raw const pattern).cast(),
                4,
                0,
                BYTES,
                u32::from(after.is_some()),
                waits,
            )
        }
        .expect("a valid fill")
    };
    let wait = |event: cl_event| {
        cl3::event::wait_for_events(&[event]).expect("it ends well");
        // SAFETY: given up once.
        unsafe { cl3::event::release_event(event) }.expect("it is alive");
    };
    let one = median(|| wait(fill(None)), ROUNDS, 1);
    let chain = || {
        let mut last = fill(None);
        for _ in 1..CHAIN {
            let next = fill(Some(last));
            // SAFETY: given up once; OpenCL keeps what it waits for.
            unsafe { cl3::event::release_event(last) }.expect("it is alive");
            last = next;
        }
        wait(last);
    };
    Ok([one, median(chain, ROUNDS / 10, CHAIN)])
}

/// The same through the driver.
fn ours(device: &Device, completion: Completion) -> quipu_core::Result<[f64; 2]> {
    let context = Context::new(std::slice::from_ref(device))?;
    let options = QueueOptions {
        completion,
        ..QueueOptions::default()
    };
    let queue = context.queue(device, options)?;
    let memory = context.memory(BYTES as u64)?;
    let access = || Access {
        memory: &memory,
        offset: 0,
        length: BYTES as u64,
        mode: AccessMode::Overwrite,
    };
    let fill = || queue.fill(access(), &[7; 4], &[]).expect("a valid fill");
    let one = median(|| fill().wait().expect("it ends well"), ROUNDS, 1);
    let chain = || {
        for _ in 1..CHAIN {
            drop(fill());
        }
        fill().wait().expect("it ends well");
    };
    Ok([one, median(chain, ROUNDS / 10, CHAIN)])
}

fn main() -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let driver: Arc<dyn Driver> = OpenClDriver::start()?;
    println!(
        "devices found in {:.1} ms",
        start.elapsed().as_secs_f64() * 1e3
    );
    let devices = Device::all_of(&driver)?;
    let device = &devices[0];
    println!("{}: microseconds per command", device.name());
    println!("{:<22}{:>14}{:>14}", "", "and wait", "in a chain");
    let show = |name: &str, [one, chain]: [f64; 2]| println!("{name:<22}{one:>14.2}{chain:>14.2}");
    show(
        "raw OpenCL",
        raw().map_err(|code| format!("OpenCL says {code}"))?,
    );
    show("with callbacks", ours(device, Completion::Callback)?);
    show("with polling", ours(device, Completion::Polling)?);
    Ok(())
}
