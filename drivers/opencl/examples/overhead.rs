//! The cost of the driver beside the raw interface, in one process: a fill of 64 bytes, enqueued and waited for; a
//! thousand of them, each after the one before; a thousand that do not wait for each other, in eight buffers.
//! `cargo run --release -p quipu-driver-opencl --example overhead`
//!
//! Medians of so many rounds, in microseconds per command; and beside each the process's time on all cores per command,
//! with that of OpenCL's own threads, which other programs on the machine disturb less.

use cl3::types::cl_event;
use quipu_driver_opencl::OpenClDriver;
use quipu_scheduler::{Access, AccessMode, Completion, Context, Device, Driver, QueueOptions};
use std::error::Error;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::time::Instant;

const ROUNDS: usize = 400;
const CHAIN: usize = 1000;
const BYTES: usize = 64;
const BUFFERS: usize = 8;

/// Nanoseconds that the process has run, on all cores.
fn processor_time() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a place for one time.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Microseconds per command: the median of rounds, and on all cores.
type Cost = [f64; 2];

fn cost(mut round: impl FnMut(), rounds: usize, commands: usize) -> Cost {
    // The first make the objects that the others use.
    (0..rounds / 10 + 1).for_each(|_| round());
    let before = processor_time();
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            round();
            start.elapsed().as_secs_f64() * 1e6 / commands as f64
        })
        .collect();
    let all = (processor_time() - before) / 1e3 / (rounds * commands) as f64;
    times.sort_by(f64::total_cmp);
    [times[rounds / 2], all]
}

/// One fill and its wait, each of a chain of fills, and each of many, through OpenCL alone.
fn raw() -> Result<[Cost; 3], i32> {
    let platform = cl3::platform::get_platform_ids()?[0];
    let device = cl3::device::get_device_ids(platform, cl3::device::CL_DEVICE_TYPE_ALL)?[0];
    let context = cl3::context::create_context(&[device], null(), None, null_mut())?;
    let mode = cl3::command_queue::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
    #[allow(deprecated)]
    // SAFETY: the device is the context's; no host memory is given.
    let queue = unsafe { cl3::command_queue::create_command_queue(context, device, mode)? };
    let memories = (0..BUFFERS).map(|_| {
        let flags = cl3::memory::CL_MEM_READ_WRITE;
        // SAFETY: as above.
        unsafe { cl3::memory::create_buffer(context, flags, BYTES, null_mut()) }
    });
    let memories: Vec<_> = memories.collect::<Result<_, _>>()?;
    let fill = |number: usize, after: Option<cl_event>| -> cl_event {
        let pattern = 7_u32;
        let waits = after.as_ref().map_or(null(), std::ptr::from_ref);
        // SAFETY: the pattern is copied; the memory has so many bytes; the event is alive.
        unsafe {
            cl3::command_queue::enqueue_fill_buffer(
                queue,
                memories[number % BUFFERS],
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
    let one = cost(|| wait(fill(0, None)), ROUNDS, 1);
    let release = |event| {
        // SAFETY: given up once; OpenCL keeps the events that it waits for.
        unsafe { cl3::event::release_event(event) }.expect("it is alive");
    };
    let chain = || {
        let mut last = fill(0, None);
        for _ in 1..CHAIN {
            let next = fill(0, Some(last));
            release(last);
            last = next;
        }
        wait(last);
    };
    let many = || {
        let mut lasts: [Option<cl_event>; BUFFERS] = [None; BUFFERS];
        for number in 0..CHAIN {
            let last = &mut lasts[number % BUFFERS];
            let next = fill(number, *last);
            last.replace(next).into_iter().for_each(release);
        }
        lasts.into_iter().flatten().for_each(wait);
    };
    Ok([
        one,
        cost(chain, ROUNDS / 10, CHAIN),
        cost(many, ROUNDS / 10, CHAIN),
    ])
}

/// The same through the driver.
fn ours(device: &Device, completion: Completion) -> quipu_scheduler::Result<[Cost; 3]> {
    let context = Context::new(std::slice::from_ref(device))?;
    let options = QueueOptions {
        completion,
        ..QueueOptions::default()
    };
    let queue = context.queue(device, options)?;
    let memories = (0..BUFFERS).map(|_| context.memory(BYTES as u64));
    let memories: Vec<_> = memories.collect::<quipu_scheduler::Result<_>>()?;
    let fill = |number: usize| {
        let access = Access {
            memory: &memories[number % BUFFERS],
            offset: 0,
            length: BYTES as u64,
            mode: AccessMode::Overwrite,
        };
        queue.fill(access, &[7; 4], &[]).expect("a valid fill")
    };
    let one = cost(|| fill(0).wait().expect("it ends well"), ROUNDS, 1);
    let chain = || {
        (0..CHAIN).for_each(|_| drop(fill(0)));
        queue.wait().expect("they end well");
    };
    let many = || {
        (0..CHAIN).for_each(|number| drop(fill(number)));
        queue.wait().expect("they end well");
    };
    Ok([
        one,
        cost(chain, ROUNDS / 10, CHAIN),
        cost(many, ROUNDS / 10, CHAIN),
    ])
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
    let title = ["and wait", "in a chain", "in eight chains"];
    println!("{:<18}{:>18}{:>18}{:>18}", "", title[0], title[1], title[2]);
    let show = |name: &str, costs: [Cost; 3]| {
        let columns = costs.map(|[time, all]| format!("{time:9.2} ({all:5.2})"));
        println!(
            "{name:<18}{:>18}{:>18}{:>18}",
            columns[0], columns[1], columns[2]
        );
    };
    let raw = || raw().map_err(|code| format!("OpenCL says {code}"));
    show("raw OpenCL", raw()?);
    show("with callbacks", ours(device, Completion::Callback)?);
    show("with polling", ours(device, Completion::Polling)?);
    show("raw OpenCL again", raw()?);
    Ok(())
}
