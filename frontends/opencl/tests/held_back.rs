//! Commands of an in-order queue behind one that waits for another queue or for the program.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::*;
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};
use support::*;

const COUNT: usize = 1024;
const BYTES: usize = COUNT * 4;
/// Longer than any of this takes.
const LONG: Duration = Duration::from_secs(60);

fn user(setup: &Setup) -> cl_event {
    // SAFETY: a handle.
    made(|code| unsafe { clCreateUserEvent()(setup.context, code) })
}

fn end(event: cl_event, status: cl_int) {
    // SAFETY: a handle.
    ok(unsafe { clSetUserEventStatus()(event, status) });
}

fn queue(setup: &Setup, properties: cl_command_queue_properties) -> cl_command_queue {
    // SAFETY: the context's device.
    made(|code| unsafe { clCreateCommandQueue()(setup.context, setup.device, properties, code) })
}

/// Fills a buffer once an event is over. Gives the event.
fn fill(queue: cl_command_queue, buffer: cl_mem, value: i32, after: Option<cl_event>) -> cl_event {
    let mut event = null_mut();
    let list = after.as_ref().map_or(null(), std::ptr::from_ref);
    // SAFETY: four bytes of pattern; the list has so many events.
    unsafe {
        let pattern = (&raw const value).cast();
        let count = u32::from(after.is_some());
        let room = &raw mut event;
        ok(clEnqueueFillBuffer()(
            queue, buffer, pattern, 4, 0, BYTES, count, list, room,
        ));
        ok(clFlush()(queue));
    }
    event
}

/// Waits until an event is over, and gives its status.
fn ended(event: cl_event) -> cl_int {
    let start = Instant::now();
    while status(event) > CL_COMPLETE && start.elapsed() < LONG {
        std::thread::yield_now();
    }
    status(event)
}

/// The kinds of commands that have a list of waits and no memory in common with the others of a
/// test.
const KINDS: [&str; 12] = [
    "marker", "barrier", "wait", "fill", "copy", "write", "read", "map", "migrate", "bring",
    "memcpy", "native",
];

unsafe extern "C" fn nothing(_: *mut std::ffi::c_void) {}

/// Enqueues a command of a kind that waits for an event.
fn enqueue(kind: &str, queue: cl_command_queue, own: [cl_mem; 2], host: *mut i32, gate: cl_event) {
    let (gate, mut code, none) = (&raw const gate, CL_SUCCESS, null_mut());
    let [first, second] = own;
    let value = 1_i32;
    let pattern = (&raw const value).cast();
    let host = host.cast();
    // SAFETY: the buffers have as many bytes, and so has the host, where they stay until the queue
    // is finished.
    let result = unsafe {
        match kind {
            "marker" => clEnqueueMarkerWithWaitList()(queue, 1, gate, none),
            "barrier" => clEnqueueBarrierWithWaitList()(queue, 1, gate, none),
            "wait" => {
                let address = api().address("clEnqueueWaitForEvents").unwrap();
                type WaitForEvents =
                    unsafe extern "C" fn(cl_command_queue, cl_uint, *const cl_event) -> cl_int;
                std::mem::transmute::<*mut std::ffi::c_void, WaitForEvents>(address)(queue, 1, gate)
            }
            "fill" => clEnqueueFillBuffer()(queue, first, pattern, 4, 0, BYTES, 1, gate, none),
            "copy" => clEnqueueCopyBuffer()(queue, first, second, 0, 0, BYTES, 1, gate, none),
            "write" => {
                clEnqueueWriteBuffer()(queue, first, CL_FALSE, 0, BYTES, host, 1, gate, none)
            }
            "read" => clEnqueueReadBuffer()(queue, first, CL_FALSE, 0, BYTES, host, 1, gate, none),
            "map" => {
                let (flags, code) = (CL_MAP_READ, &raw mut code);
                clEnqueueMapBuffer()(queue, first, CL_FALSE, flags, 0, BYTES, 1, gate, none, code);
                *code
            }
            "migrate" => clEnqueueMigrateMemObjects()(queue, 1, own.as_ptr(), 0, 1, gate, none),
            "bring" => {
                let flags = CL_MIGRATE_MEM_OBJECT_HOST;
                clEnqueueMigrateMemObjects()(queue, 2, own.as_ptr(), flags, 1, gate, none)
            }
            "memcpy" => {
                let other = host.wrapping_byte_add(BYTES);
                clEnqueueSVMMemcpy()(queue, CL_FALSE, other, host, BYTES, 1, gate, none)
            }
            _ => {
                let (function, no_buffers) = (Some(nothing as _), null());
                let (passed, places) = (null_mut(), null_mut());
                clEnqueueNativeKernel()(
                    queue, function, passed, 0, 0, no_buffers, places, 1, gate, none,
                )
            }
        }
    };
    assert_eq!(result, CL_SUCCESS, "{kind}");
}

#[test]
fn what_the_program_writes_before_a_user_event_is_seen_behind_it() {
    for properties in [0, CL_QUEUE_PROFILING_ENABLE] {
        let setup = Setup::with(properties);
        let own = [setup.buffer(&[0; COUNT]), setup.buffer(&[0; COUNT])];
        let buffer = setup.buffer(&[0; COUNT]);
        let mut other = [0_i32; 2 * COUNT];
        let mut values = [0_i32; COUNT];
        for (number, kind) in KINDS.into_iter().enumerate() {
            let (early, late) = (2 * number as i32 + 1, 2 * number as i32 + 2);
            let values = values.as_mut_ptr();
            let set = |value| {
                for at in 0..COUNT {
                    // SAFETY: there are as many, and the command that reads them is held back.
                    unsafe { values.add(at).write_volatile(value) };
                }
            };
            set(early);
            let gate = user(&setup);
            enqueue(kind, setup.queue, own, other.as_mut_ptr(), gate);
            // SAFETY: there are as many bytes, and they stay until the queue is finished.
            unsafe {
                let (queue, from) = (setup.queue, values.cast());
                let none = null_mut();
                ok(clEnqueueWriteBuffer()(
                    queue,
                    buffer,
                    CL_FALSE,
                    0,
                    BYTES,
                    from,
                    0,
                    null(),
                    none,
                ));
                ok(clFlush()(queue));
            }
            setup.do_other_things();
            set(late);
            end(gate, CL_COMPLETE);
            assert_eq!(setup.read::<i32>(buffer, COUNT), [late; COUNT], "{kind}");
        }
    }
}

#[test]
fn what_another_queue_writes_is_seen_behind_any_wait_for_it() {
    for order in [0, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE] {
        let setup = Setup::with(0);
        let writer = queue(&setup, order);
        let own = [setup.buffer(&[0; COUNT]), setup.buffer(&[0; COUNT])];
        let (shared, copied) = (setup.buffer(&[0; COUNT]), setup.buffer(&[0; COUNT]));
        let mut other = [0_i32; 2 * COUNT];
        for (number, kind) in KINDS.into_iter().enumerate() {
            let value = number as i32 + 1;
            // The buffer is this queue's, as far as memory is known.
            fill(setup.queue, shared, 0, None);
            setup.finish();
            let gate = user(&setup);
            let written = fill(writer, shared, value, Some(gate));
            enqueue(kind, setup.queue, own, other.as_mut_ptr(), written);
            // SAFETY: both have as many bytes.
            unsafe {
                let (queue, none) = (setup.queue, null_mut());
                ok(clEnqueueCopyBuffer()(
                    queue,
                    shared,
                    copied,
                    0,
                    0,
                    BYTES,
                    0,
                    null(),
                    none,
                ));
                ok(clFlush()(queue));
            }
            setup.do_other_things();
            end(gate, CL_COMPLETE);
            let values = setup.read::<i32>(copied, COUNT);
            assert_eq!(values, [value; COUNT], "{kind}, and {order} of the writer");
        }
    }
}

#[test]
fn a_failed_event_fails_the_command_that_lists_it_and_none_behind_it() {
    let setup = Setup::with(0);
    let [first, second] = [0, 1].map(|value| setup.buffer(&[value; COUNT]));
    for failure in [CL_COMPLETE, -1] {
        let gates = [user(&setup), user(&setup)];
        let listed = gates.map(|gate| fill(setup.queue, first, 5, Some(gate)));
        let behind = fill(setup.queue, second, 6, None);
        // However many commands list an event that holds back others already.
        let again = gates.map(|gate| fill(setup.queue, first, 7, Some(gate)));
        setup.do_other_things();
        assert!(status(behind) > CL_COMPLETE);
        end(gates[1], CL_COMPLETE);
        setup.do_other_things();
        assert!(status(behind) > CL_COMPLETE);
        end(gates[0], failure);
        assert_eq!(ended(behind), CL_COMPLETE);
        setup.finish();
        let results = [listed[0], again[0]].map(|event| status(event) < 0);
        assert_eq!(results, [failure < 0; 2]);
        assert_eq!([listed[1], again[1]].map(status), [CL_COMPLETE; 2]);
    }
}

#[test]
fn a_refused_command_holds_back_nothing() {
    let setup = Setup::with(0);
    let buffer = setup.buffer(&[0; COUNT]);
    let gate = user(&setup);
    let (origin, moved, region) = ([0; 3], [4, 0, 0], [16, 4, 1]);
    // SAFETY: three numbers each; the list has one event.
    let refused = unsafe {
        clEnqueueCopyBufferRect()(
            setup.queue,
            buffer,
            buffer,
            origin.as_ptr(),
            moved.as_ptr(),
            region.as_ptr(),
            64,
            0,
            64,
            0,
            1,
            &raw const gate,
            null_mut(),
        )
    };
    assert_eq!(refused, CL_MEM_COPY_OVERLAP);
    let behind = ended(fill(setup.queue, buffer, 1, None));
    end(gate, CL_COMPLETE);
    assert_eq!(behind, CL_COMPLETE);
}

#[test]
fn commands_of_an_in_order_queue_on_different_buffers_overlap() {
    if !compiles() {
        return;
    }
    let setup = Setup::with(0);
    let mut threads = 0_u32;
    // SAFETY: room for a number.
    ok(unsafe {
        clGetDeviceInfo()(
            setup.device,
            CL_DEVICE_MAX_COMPUTE_UNITS,
            4,
            (&raw mut threads).cast(),
            null_mut(),
        )
    });
    if threads < 2 {
        return println!("NOT TESTED: there is only one processor");
    }
    let kernel = setup.kernel(
        "kernel void stay(global volatile int *until) { while (until[0] == 0); }",
        "stay",
    );
    let (other, mut bytes) = (queue(&setup, 0), [vec![0_i32; COUNT], vec![0_i32; COUNT]]);
    let first = bytes.each_mut().map(|bytes| bytes.as_mut_ptr());
    let [until, filled] = first.map(|first| {
        let flags = CL_MEM_USE_HOST_PTR;
        // SAFETY: there are as many bytes, and they stay.
        made(|code| unsafe { clCreateBuffer()(setup.context, flags, BYTES, first.cast(), code) })
    });
    // The buffer was another queue's, whose commands are over, and so is an event of it.
    let before = fill(other, filled, 1, None);
    assert_eq!(ended(before), CL_COMPLETE);
    ok(set(kernel, 0, &until));
    let (items, none) = (1, null_mut());
    // SAFETY: one dimension.
    unsafe {
        ok(clEnqueueNDRangeKernel()(
            setup.queue,
            kernel,
            1,
            null(),
            &raw const items,
            null(),
            0,
            null(),
            none,
        ));
    }
    fill(setup.queue, filled, 3, Some(before));
    let start = Instant::now();
    // SAFETY: the command writes whole words.
    let last = || unsafe { first[1].add(COUNT - 1).read_volatile() };
    while last() != 3 && start.elapsed() < LONG {
        std::thread::yield_now();
    }
    let overlapped = last();
    // SAFETY: the kernel reads whole words.
    unsafe { first[0].write_volatile(1) };
    setup.finish();
    assert_eq!(overlapped, 3);
}
