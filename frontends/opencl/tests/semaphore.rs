//! Semaphores: signals and waits in either order, over queues of both kinds.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};
use support::*;

type Create = unsafe extern "C" fn(
    cl_context,
    *const cl_semaphore_properties_khr,
    *mut cl_int,
) -> cl_semaphore_khr;
type Enqueue = unsafe extern "C" fn(
    cl_command_queue,
    cl_uint,
    *const cl_semaphore_khr,
    *const cl_semaphore_payload_khr,
    cl_uint,
    *const cl_event,
    *mut cl_event,
) -> cl_int;
type Info = unsafe extern "C" fn(
    cl_semaphore_khr,
    cl_semaphore_info_khr,
    usize,
    *mut c_void,
    *mut usize,
) -> cl_int;
type Count = unsafe extern "C" fn(cl_semaphore_khr) -> cl_int;

const BINARY: [cl_semaphore_properties_khr; 3] = [
    CL_SEMAPHORE_TYPE_KHR as _,
    CL_SEMAPHORE_TYPE_BINARY_KHR as _,
    0,
];

fn try_create(
    setup: &Setup,
    properties: &[cl_semaphore_properties_khr],
) -> (cl_semaphore_khr, cl_int) {
    let create: Create = extension("clCreateSemaphoreWithPropertiesKHR");
    let mut code = 1;
    // SAFETY: a list that ends with a zero, or as soon as it is wrong.
    let made = unsafe { create(setup.context, properties.as_ptr(), &raw mut code) };
    assert_eq!(made.is_null(), code != CL_SUCCESS);
    (made, code)
}

fn semaphore(setup: &Setup) -> cl_semaphore_khr {
    let (made, code) = try_create(setup, &BINARY);
    ok(code);
    made
}

fn signal(queue: cl_command_queue, of: &[cl_semaphore_khr], after: &[cl_event]) -> cl_event {
    enqueue("clEnqueueSignalSemaphoresKHR", queue, of, after)
}

fn wait(queue: cl_command_queue, of: &[cl_semaphore_khr], after: &[cl_event]) -> cl_event {
    enqueue("clEnqueueWaitSemaphoresKHR", queue, of, after)
}

fn enqueue(
    name: &str,
    queue: cl_command_queue,
    of: &[cl_semaphore_khr],
    after: &[cl_event],
) -> cl_event {
    let mut event = null_mut();
    ok(try_enqueue(name, queue, of, after, &raw mut event));
    event
}

fn try_enqueue(
    name: &str,
    queue: cl_command_queue,
    of: &[cl_semaphore_khr],
    after: &[cl_event],
    event: *mut cl_event,
) -> cl_int {
    let call: Enqueue = extension(name);
    let events = if after.is_empty() {
        null()
    } else {
        after.as_ptr()
    };
    // SAFETY: as many handles as it says.
    unsafe {
        call(
            queue,
            of.len() as u32,
            of.as_ptr(),
            null(),
            after.len() as u32,
            events,
            event,
        )
    }
}

fn ask<T: Copy + Default>(semaphore: cl_semaphore_khr, name: cl_semaphore_info_khr) -> T {
    let info: Info = extension("clGetSemaphoreInfoKHR");
    let (mut value, mut size) = (T::default(), 0);
    // SAFETY: room for one value.
    ok(unsafe {
        info(
            semaphore,
            name,
            size_of::<T>(),
            (&raw mut value).cast(),
            &raw mut size,
        )
    });
    assert_eq!(size, size_of::<T>());
    value
}

fn payload(semaphore: cl_semaphore_khr) -> cl_semaphore_payload_khr {
    ask(semaphore, CL_SEMAPHORE_PAYLOAD_KHR)
}

fn wait_for(event: cl_event) -> cl_int {
    // SAFETY: one event.
    unsafe { clWaitForEvents()(1, &raw const event) }
}

fn user_event(setup: &Setup) -> cl_event {
    // SAFETY: a context.
    made(|code| unsafe { clCreateUserEvent()(setup.context, code) })
}

fn set_status(event: cl_event, status: cl_int) {
    // SAFETY: an event of the program's own.
    ok(unsafe { clSetUserEventStatus()(event, status) });
}

/// Two queues of a context: one as it is asked for, one with the other order.
fn queues(first: cl_command_queue_properties) -> (Setup, cl_command_queue) {
    let setup = Setup::with(first);
    let other = first ^ CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
    // SAFETY: the context's device.
    let queue =
        made(|code| unsafe { clCreateCommandQueue()(setup.context, setup.device, other, code) });
    (setup, queue)
}

/// One test at a time: the next semaphore may have the handle of one that another test has
/// released.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_wait_is_over_after_its_signal_whichever_is_enqueued_first() {
    let _alone = alone();
    for order in [0, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE] {
        let (setup, other) = queues(order);
        let semaphore = semaphore(&setup);
        for _ in 0..20 {
            let gate = user_event(&setup);
            let signalled = signal(setup.queue, &[semaphore], &[gate]);
            assert_eq!(payload(semaphore), 0);
            let waited = wait(other, &[semaphore], &[]);
            assert_ne!(status(waited), CL_COMPLETE);
            set_status(gate, CL_COMPLETE);
            assert_eq!(wait_for(waited), CL_SUCCESS);
            assert_eq!(status(signalled), CL_COMPLETE);
            assert_eq!(payload(semaphore), 0);

            let waited = wait(other, &[semaphore], &[]);
            assert_ne!(status(waited), CL_COMPLETE);
            signal(setup.queue, &[semaphore], &[]);
            assert_eq!(wait_for(waited), CL_SUCCESS);
            assert_eq!(payload(semaphore), 0);
        }
        // A signal stays until it is waited for.
        let signalled = signal(setup.queue, &[semaphore], &[]);
        assert_eq!(wait_for(signalled), CL_SUCCESS);
        assert_eq!(payload(semaphore), 1);
        wait(setup.queue, &[semaphore], &[]);
        setup.finish();
        assert_eq!(payload(semaphore), 0);
    }
}

#[test]
fn queues_in_order_keep_what_is_before_a_signal_before_what_is_after_a_wait() {
    let _alone = alone();
    let setup = Setup::with(0);
    // SAFETY: the context's device.
    let other =
        made(|code| unsafe { clCreateCommandQueue()(setup.context, setup.device, 0, code) });
    let semaphores = [semaphore(&setup), semaphore(&setup)];
    let gate = user_event(&setup);
    let buffer = setup.buffer(&[0_i32; 256]);
    let elsewhere = setup.buffer(&[0_i32; 256]);
    let fill = |queue, buffer, value: i32, after: &[cl_event]| {
        let events = if after.is_empty() {
            null()
        } else {
            after.as_ptr()
        };
        let mut event = null_mut();
        // SAFETY: a pattern of four bytes, and as many events.
        ok(unsafe {
            clEnqueueFillBuffer()(
                queue,
                buffer,
                (&raw const value).cast(),
                4,
                0,
                1024,
                after.len() as u32,
                events,
                &raw mut event,
            )
        });
        event
    };
    fill(setup.queue, buffer, 7, &[gate]);
    let signalled = signal(setup.queue, &semaphores, &[]);
    wait(other, &semaphores, &[]);
    let after = fill(other, elsewhere, 8, &[]);
    for event in [signalled, after] {
        assert_ne!(status(event), CL_COMPLETE);
    }
    set_status(gate, CL_COMPLETE);
    assert_eq!(wait_for(after), CL_SUCCESS);
    assert_eq!(status(signalled), CL_COMPLETE);
    assert_eq!(setup.read::<i32>(buffer, 256), [7; 256]);
}

#[test]
fn a_signal_that_fails_or_never_comes_fails_its_wait() {
    let _alone = alone();
    let release: Count = extension("clReleaseSemaphoreKHR");
    let (setup, other) = queues(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    for is_first in [false, true] {
        let semaphore = semaphore(&setup);
        let gate = user_event(&setup);
        let early = is_first.then(|| wait(other, &[semaphore], &[]));
        signal(setup.queue, &[semaphore], &[gate]);
        let waited = early.unwrap_or_else(|| wait(other, &[semaphore], &[]));
        set_status(gate, -5);
        assert_eq!(
            wait_for(waited),
            CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
        );
        assert!(status(waited) < 0);
    }
    let semaphore = semaphore(&setup);
    let waited = wait(other, &[semaphore], &[]);
    // SAFETY: a semaphore.
    ok(unsafe { release(semaphore) });
    assert_eq!(
        wait_for(waited),
        CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
    );
    // SAFETY: it is none any more.
    assert_eq!(unsafe { release(semaphore) }, CL_INVALID_SEMAPHORE_KHR);
}

#[test]
fn what_is_wrong_with_a_semaphore_has_its_code() {
    let _alone = alone();
    const TYPE: cl_semaphore_properties_khr = CL_SEMAPHORE_TYPE_KHR as _;
    const DEVICES: cl_semaphore_properties_khr = CL_SEMAPHORE_DEVICE_HANDLE_LIST_KHR as _;
    let setup = Setup::with(0);
    let device = setup.device.addr() as cl_semaphore_properties_khr;
    for (properties, wanted) in [
        (&[0][..], CL_INVALID_VALUE),
        (&[TYPE, 7, 0], CL_INVALID_PROPERTY),
        (&[TYPE, 1, TYPE], CL_INVALID_PROPERTY),
        (&[0xffff, 1, 0], CL_INVALID_PROPERTY),
        (
            &[TYPE, 1, CL_SEMAPHORE_EXPORT_HANDLE_TYPES_KHR, 0x2055, 0, 0],
            CL_INVALID_PROPERTY,
        ),
        (&[TYPE, 1, DEVICES, 0, 0], CL_INVALID_DEVICE),
        (&[TYPE, 1, DEVICES, device, device, 0, 0], CL_INVALID_DEVICE),
        (&[TYPE, 1, DEVICES, 8, 0, 0], CL_INVALID_DEVICE),
        (&[DEVICES, device, 0, 0], CL_INVALID_VALUE),
    ] {
        assert_eq!(try_create(&setup, properties).1, wanted, "{properties:x?}");
    }
    let (named, code) = try_create(&setup, &[TYPE, 1, DEVICES, device, 0, 0]);
    ok(code);
    let listed: usize = ask(named, CL_SEMAPHORE_DEVICE_HANDLE_LIST_KHR);
    assert_eq!(listed, setup.device.addr());
    assert_eq!(
        ask::<[u64; 6]>(named, CL_SEMAPHORE_PROPERTIES_KHR),
        [TYPE, 1, DEVICES, device, 0, 0]
    );
    assert_eq!(ask::<u32>(named, CL_SEMAPHORE_REFERENCE_COUNT_KHR), 1);
    assert_eq!(
        ask::<u32>(named, CL_SEMAPHORE_TYPE_KHR),
        CL_SEMAPHORE_TYPE_BINARY_KHR
    );

    let elsewhere = Setup::with(0);
    let failed = user_event(&setup);
    set_status(failed, -1);
    let foreign = user_event(&elsewhere);
    for name in ["clEnqueueSignalSemaphoresKHR", "clEnqueueWaitSemaphoresKHR"] {
        let try_it = |queue, of: &[_], after: &[_]| try_enqueue(name, queue, of, after, null_mut());
        let codes = [
            (try_it(null_mut(), &[named], &[]), CL_INVALID_COMMAND_QUEUE),
            (try_it(setup.queue, &[], &[]), CL_INVALID_VALUE),
            (
                try_it(setup.queue, &[named, null_mut()], &[]),
                CL_INVALID_SEMAPHORE_KHR,
            ),
            (
                try_it(setup.queue, &[setup.context], &[]),
                CL_INVALID_SEMAPHORE_KHR,
            ),
            (try_it(elsewhere.queue, &[named], &[]), CL_INVALID_CONTEXT),
            (
                try_it(setup.queue, &[named], &[null_mut()]),
                CL_INVALID_EVENT_WAIT_LIST,
            ),
            (
                try_it(setup.queue, &[named], &[foreign]),
                CL_INVALID_CONTEXT,
            ),
            (
                try_it(setup.queue, &[named], &[failed]),
                CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
            ),
        ];
        for (number, (code, wanted)) in codes.into_iter().enumerate() {
            assert_eq!(code, wanted, "{name} {number}");
        }
    }
    // What was refused has taken no signal and left none.
    assert_eq!(payload(named), 0);
}
