//! Closures that put work of their own into OpenCL's queues, with OpenCL's own functions: commands
//! among others.

use super::{devices, each_queue};
use cl3::types::{cl_event, cl_kernel, cl_mem};
use quipu::driver::{AccessMode, OpenClMemory, OpenClQueue};
use quipu::prelude::*;
use quipu::{ErrorKind, Pending, Result};
use std::ptr::{from_ref, null};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[kernel]
fn fold(_acc: &impl Accelerator<1>, with: u32, mut x: OwnElements<u32>) {
    for (_, x) in x.each() {
        *x = x.wrapping_mul(31).wrapping_add(with);
    }
}

fn folded(x: u32, with: u32) -> u32 {
    x.wrapping_mul(31).wrapping_add(with)
}

/// Runs a test over queues of each OpenCL device, in-order and out-of-order.
fn each(test: &dyn Fn(&Context, &Queue)) {
    each_queue(&|context, queue| {
        test(context, queue);
        let options = QueueOptions {
            in_order: false,
            ..*queue.options()
        };
        test(
            context,
            &context.queue_with(queue.device(), options).unwrap(),
        );
    });
}

/// OpenCL's code in words, and its event given up.
fn ended(call: &str, event: std::result::Result<cl_event, i32>) -> std::result::Result<(), String> {
    let event = event.map_err(|code| format!("{call}: {code}"))?;
    // SAFETY: given up once.
    unsafe { cl3::event::release_event(event) }.map_err(|code| format!("clReleaseEvent: {code}"))
}

/// Copies by hand.
fn copy(
    native: &OpenClQueue,
    from: &OpenClMemory,
    to: &OpenClMemory,
) -> std::result::Result<(), String> {
    // SAFETY: the ranges are those that were declared.
    let event = unsafe {
        cl3::command_queue::enqueue_copy_buffer(
            native.queue(),
            from.memory(),
            to.memory(),
            from.offset(),
            to.offset(),
            from.length(),
            0,
            null(),
        )
    };
    ended("clEnqueueCopyBuffer", event)
}

fn native_copy(queue: &Queue, from: &Buffer<u32>, to: &mut Buffer<u32>) -> Pending<()> {
    // SAFETY: it reads the one and writes all of the other.
    let copied = unsafe {
        queue.async_execute(
            (from, to.overwrite()),
            |native: &OpenClQueue, [from, to]| {
                assert_eq!(
                    (from.mode(), to.mode()),
                    (AccessMode::Read, AccessMode::Overwrite)
                );
                copy(native, &from, &to)
            },
        )
    };
    copied.unwrap()
}

struct Kernel(cl_kernel);
// SAFETY: OpenCL's objects may be used by any thread; it is launched by one at a time.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

/// Compiled by hand: adds, from an element on.
fn adding(queue: &Queue) -> Arc<Kernel> {
    const TEXT: &str = "kernel void adding(global uint *x, ulong first, uint more) { x[first + get_global_id(0)] += more; }";
    let compile = |native: &OpenClQueue| {
        let program = cl3::program::create_program_with_source(native.context(), &[TEXT])?;
        let device = [native.device()];
        cl3::program::build_program(program, &device, c"", None, std::ptr::null_mut())?;
        cl3::kernel::create_kernel(program, c"adding").map(Kernel)
    };
    Arc::new(queue.native_call(compile).unwrap().wait().unwrap().unwrap())
}

fn native_add(queue: &Queue, kernel: &Arc<Kernel>, x: &mut Buffer<u32>, more: u32) -> Pending<()> {
    let kernel = kernel.clone();
    let call = move |native: &OpenClQueue, [x]: [OpenClMemory; 1]| {
        let (first, memory) = ((x.offset() / 4) as u64, x.memory());
        let of = |code: std::result::Result<(), i32>| {
            code.map_err(|code| format!("clSetKernelArg: {code}"))
        };
        // SAFETY: these are its parameters; it touches the declared elements.
        unsafe {
            let kernel = kernel.0;
            of(cl3::kernel::set_kernel_arg(
                kernel,
                0,
                size_of::<cl_mem>(),
                from_ref(&memory).cast(),
            ))?;
            of(cl3::kernel::set_kernel_arg(
                kernel,
                1,
                8,
                from_ref(&first).cast(),
            ))?;
            of(cl3::kernel::set_kernel_arg(
                kernel,
                2,
                4,
                from_ref(&more).cast(),
            ))?;
            let threads = [x.length() / 4];
            let event = cl3::command_queue::enqueue_nd_range_kernel(
                native.queue(),
                kernel,
                1,
                null(),
                threads.as_ptr(),
                null(),
                0,
                null(),
            );
            ended("clEnqueueNDRangeKernel", event)
        }
    };
    // SAFETY: the call adds to the elements of its argument, and to no others.
    unsafe { queue.async_execute((x,), call) }.unwrap()
}

#[test]
fn calls_by_hand_are_commands_between_kernels() {
    each(&|context, queue| {
        let kernel = adding(queue);
        let mut x = context.buffer(&[3u32; 1000]).unwrap();
        let mut y = context.buffer(&[5u32; 1000]).unwrap();
        queue.launch(1000, fold(1, &mut x)).unwrap();
        let copied = native_copy(
            queue,
            &x.slice(100..300).unwrap(),
            &mut y.slice(700..900).unwrap(),
        );
        queue.launch(1000, fold(2, &mut y)).unwrap();
        let added = native_add(queue, &kernel, &mut y.slice(800..).unwrap(), 40);
        queue.launch(1000, fold(3, &mut x)).unwrap();
        queue.launch(1000, fold(4, &mut y)).unwrap();
        let y = queue.read(&y).unwrap().wait().unwrap();
        for (at, y) in y.into_iter().enumerate() {
            let start = if (700..900).contains(&at) {
                folded(3, 1)
            } else {
                5
            };
            let more = if at >= 800 { 40 } else { 0 };
            assert_eq!(y, folded(folded(start, 2) + more, 4), "{at}");
        }
        let x = queue.read(&x).unwrap().wait().unwrap();
        assert_eq!(x, [folded(folded(3, 1), 3); 1000]);
        copied.wait().unwrap();
        added.wait().unwrap();
    });
}

/// A sequence of random numbers: xorshift (Marsaglia 2003).
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 8) as usize
}

/// Kernels, native copies and native kernels on random parts of buffers, on two queues of the
/// device and on the processor's cores.
fn random_program(context: &Context, queue: &Queue, kernel: &Arc<Kernel>, seed: u64) {
    const LENGTH: usize = 512;
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let other = context.queue(queue.device()).unwrap();
    let pool = context.queue(&devices::pool_of(context)).unwrap();
    let mut model: Vec<Vec<u32>> = (0..3).map(|n| vec![n + 1; LENGTH]).collect();
    let buffers: Vec<_> = model
        .iter()
        .map(|cells| context.buffer(cells).unwrap())
        .collect();
    for step in 0..60 {
        let start = next(&mut random) % LENGTH;
        let length = 1 + next(&mut random) % (LENGTH - start);
        let (from, to) = (next(&mut random) % 3, next(&mut random) % 3);
        let mut part = buffers[to].slice(start..start + length).unwrap();
        let cells = start..start + length;
        let here = if next(&mut random).is_multiple_of(2) {
            queue
        } else {
            &other
        };
        match next(&mut random) % 4 {
            0 => {
                here.launch(length, fold(step, &mut part)).unwrap();
                for cell in &mut model[to][cells] {
                    *cell = folded(*cell, step);
                }
            }
            1 => {
                pool.launch(length, fold(step, &mut part)).unwrap();
                for cell in &mut model[to][cells] {
                    *cell = folded(*cell, step);
                }
            }
            2 if from != to => {
                let at = next(&mut random) % (LENGTH - length + 1);
                let source = buffers[from].slice(at..at + length).unwrap();
                drop(native_copy(here, &source, &mut part));
                let bytes = model[from][at..at + length].to_vec();
                model[to][cells].copy_from_slice(&bytes);
            }
            _ => {
                drop(native_add(here, kernel, &mut part, step));
                for cell in &mut model[to][cells] {
                    *cell = cell.wrapping_add(step);
                }
            }
        }
    }
    for (buffer, model) in buffers.iter().zip(&model) {
        assert_eq!(
            queue.read(buffer).unwrap().wait().unwrap(),
            *model,
            "seed {seed}"
        );
    }
}

#[test]
fn random_programs_with_calls_by_hand_leave_what_the_model_does() {
    each(&|context, queue| {
        let kernel = adding(queue);
        (1..12).for_each(|seed| random_program(context, queue, &kernel, seed));
    });
}

#[test]
fn a_refused_call_a_panic_and_what_they_were_to_write() {
    each(&|context, queue| {
        let x = context.buffer(&[1u32; 100]).unwrap();
        for panics in [false, true] {
            let mut y = context.buffer(&[2u32; 100]).unwrap();
            let call = move |native: &OpenClQueue, [from, to]: [OpenClMemory; 2]| {
                assert!(!panics, "by design");
                // SAFETY: OpenCL checks the range, which is too long, and refuses it.
                let event = unsafe {
                    let (from, to) = (from.memory(), to.memory());
                    cl3::command_queue::enqueue_copy_buffer(
                        native.queue(),
                        from,
                        to,
                        0,
                        0,
                        1 << 40,
                        0,
                        null(),
                    )
                };
                ended("clEnqueueCopyBuffer", event)
            };
            // SAFETY: as said.
            let failed = unsafe { queue.async_execute((&x, &mut y), call) }.unwrap();
            let error = failed.wait().unwrap_err();
            let expected = if panics {
                "by design"
            } else {
                "clEnqueueCopyBuffer: -30"
            };
            assert!(error.to_string().contains(expected), "{error}");
            let error = queue.read(&y).unwrap().wait().unwrap_err();
            assert!(
                error.first_cause().to_string().contains(expected),
                "{error}"
            );
            queue.fill(&y, 7).unwrap();
            drop(native_copy(
                queue,
                &x.slice(..50).unwrap(),
                &mut y.slice(..50).unwrap(),
            ));
            let y = queue.read(&y).unwrap().wait().unwrap();
            assert_eq!((y[49], y[50]), (1, 7));
        }
    });
}

#[kernel]
fn beyond(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        *y = x[i + 1000];
    }
}

#[test]
fn one_that_reads_what_a_faulty_kernel_wrote_is_not_called() {
    each(&|context, queue| {
        let x = context.buffer(&[1u32; 100]).unwrap();
        let mut y = context.buffer(&[2u32; 100]).unwrap();
        queue.launch(100, beyond(&x, &mut y)).unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let called = calls.clone();
        let call = move |_: &OpenClQueue, [_]: [OpenClMemory; 1]| {
            called.fetch_add(1, Ordering::SeqCst);
            Ok::<(), String>(())
        };
        // SAFETY: it does nothing.
        let pending = unsafe { queue.async_execute((&y,), call) }.unwrap();
        let error = pending.wait().unwrap_err();
        assert!(
            error.first_cause().to_string().contains("beyond"),
            "{error}"
        );
        assert_eq!(calls.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn one_that_is_cancelled_is_not_called_and_one_way_ones_run() {
    each(&|context, queue| {
        let x = context.buffer(&[1u32; 100]).unwrap();
        let mut y = context.buffer(&[2u32; 100]).unwrap();
        let (gate, calls) = (UserEvent::new(), Arc::new(AtomicUsize::new(0)));
        let called = calls.clone();
        let call = move |_: &OpenClQueue, [_]: [OpenClMemory; 1]| {
            called.fetch_add(1, Ordering::SeqCst);
            Ok::<(), String>(())
        };
        // SAFETY: it does nothing.
        let pending =
            unsafe { queue.after([gate.event()]).async_execute((&mut y,), call) }.unwrap();
        pending.event().cancel();
        gate.complete();
        assert!(pending.wait().unwrap_err().is_cancelled());
        queue.wait().unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), 0);
        assert_eq!(Arc::strong_count(&calls), 1);
        let call = |native: &OpenClQueue, [x, y]: [OpenClMemory; 2]| copy(native, &x, &y);
        // SAFETY: it reads the one and writes all of the other.
        unsafe { queue.post((&x, y.overwrite()), call) }.unwrap();
        assert_eq!(queue.read(&y).unwrap().wait().unwrap(), [1; 100]);
    });
}

#[test]
fn a_closure_may_wait_for_its_queue_and_gives_what_it_returns() {
    each(&|context, queue| {
        let mut x = context.buffer(&[1u32; 100]).unwrap();
        let mut y = context.allocate::<u32>(100).unwrap();
        for n in 0..20 {
            queue.launch(100, fold(n, &mut x)).unwrap();
            let call = |native: &OpenClQueue,
                        [x, y]: [OpenClMemory; 2]|
             -> std::result::Result<_, String> {
                copy(native, &x, &y)?;
                assert!(!native.platform().is_null() && !native.device().is_null());
                cl3::command_queue::finish(native.queue()).map_err(|code| code.to_string())?;
                Ok((x.offset(), x.length()))
            };
            // SAFETY: it reads the one and writes all of the other.
            let pending = unsafe { queue.async_execute((&x, y.overwrite()), call) }.unwrap();
            assert_eq!(pending.wait().unwrap(), (0, 400));
        }
        let expected = (0..20).fold(1, folded);
        assert_eq!(queue.read(&y).unwrap().wait().unwrap(), [expected; 100]);
    });
}

#[test]
fn times_of_calls_by_hand_are_in_order() {
    each(&|context, queue| {
        let options = QueueOptions {
            profiling: true,
            ..*queue.options()
        };
        let queue = &context.queue_with(queue.device(), options).unwrap();
        let (x, mut y) = (
            context.buffer(&[1u32; 100]).unwrap(),
            context.allocate(100).unwrap(),
        );
        let pending = native_copy(queue, &x, &mut y);
        let event = pending.event().clone();
        pending.wait().unwrap();
        let profile = event.profile().unwrap();
        assert!(
            profile.queued_ns <= profile.submitted_ns && profile.submitted_ns <= profile.started_ns
        );
        assert!(profile.started_ns <= profile.ended_ns, "{profile:?}");
    });
}

#[test]
fn drivers_without_native_queues_refuse() {
    let machine = quipu::simulation::Configuration::separate_memory(1, 1 << 20);
    let platform = Platform::builder().simulated(machine).build_available();
    let context = platform.context().unwrap();
    for device in context.devices() {
        if device.driver_name() == "opencl" {
            continue;
        }
        let queue = context.queue(device).unwrap();
        let x = context.buffer(&[1u32; 100]).unwrap();
        let call = |_: &OpenClQueue, [_]: [OpenClMemory; 1]| Ok::<(), String>(());
        // SAFETY: it does nothing.
        let refused: Result<Pending<()>> = unsafe { queue.async_execute((&x,), call) };
        let error = refused.map(drop).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Unsupported { .. }),
            "{error}"
        );
        for part in [device.driver_name(), "OpenClQueue", "host task"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        // SAFETY: as above.
        let refused = unsafe { queue.post((&x,), call) };
        assert!(matches!(
            refused.unwrap_err().kind(),
            ErrorKind::Unsupported { .. }
        ));
    }
}

#[test]
fn what_overlaps_is_refused() {
    each(&|context, queue| {
        let x = context.buffer(&[1u32; 100]).unwrap();
        let (a, mut b) = (x.slice(..60).unwrap(), x.slice(50..).unwrap());
        let call = |_: &OpenClQueue, [_, _]: [OpenClMemory; 2]| Ok::<(), String>(());
        // SAFETY: it does nothing.
        let error = unsafe { queue.async_execute((&a, &mut b), call) }
            .map(drop)
            .unwrap_err();
        assert!(error.to_string().contains("overlap"), "{error}");
    });
}
