//! Functions of the program that the library calls: for events, for builds, and as commands.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::cl_icd::{clCompileProgram_t, clLinkProgram_t};
use opencl_sys::*;
use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::ThreadId;
use std::time::Duration;
use support::*;

/// For what comes soon, or never.
const LONG: Duration = Duration::from_secs(30);

/// A call: what was passed, and the thread.
type Call = (usize, cl_int, ThreadId);

/// A receiver of calls, and the pointer by which they arrive. It is leaked.
fn calls() -> (Receiver<Call>, *mut c_void) {
    let (sender, called) = channel();
    let sender: &Sender<Call> = Box::leak(Box::new(sender));
    (called, std::ptr::from_ref(sender).cast_mut().cast())
}

/// Says that it is called.
fn say(handle: *mut c_void, status: cl_int, data: *mut c_void) {
    // SAFETY: the test passes where calls arrive.
    let sender = unsafe { &*data.cast::<Sender<Call>>() };
    let call = (handle.addr(), status, std::thread::current().id());
    sender.send(call).unwrap();
}

unsafe extern "C" fn reached(event: cl_event, status: cl_int, data: *mut c_void) {
    say(event, status, data);
}

unsafe extern "C" fn built(program: cl_program, data: *mut c_void) {
    say(program, 0, data);
}

/// Fills a buffer when the events are over; the event of that.
fn fill(setup: &Setup, buffer: cl_mem, after: &[cl_event]) -> cl_event {
    let mut event = null_mut();
    // SAFETY: a pattern of one byte; as many events as are said; where the event goes.
    ok(unsafe {
        clEnqueueFillBuffer()(
            setup.queue,
            buffer,
            [3_u8].as_ptr().cast(),
            1,
            0,
            16,
            after.len() as u32,
            after.first().map_or(null(), std::ptr::from_ref),
            &raw mut event,
        )
    });
    event
}

fn ask_for(event: cl_event, status: cl_int, data: *mut c_void) {
    // SAFETY: a function of the right type.
    ok(unsafe { clSetEventCallback()(event, status, Some(reached), data) });
}

#[test]
fn a_program_is_told_that_a_command_is_submitted_while_the_command_waits() {
    let setup = Setup::new();
    let buffer = setup.buffer(&[0_u8; 16]);
    for end in [CL_COMPLETE, -5] {
        // SAFETY: a handle.
        let gate = made(|code| unsafe { clCreateUserEvent()(setup.context, code) });
        let filled = fill(&setup, buffer, &[gate]);
        let (called, data) = calls();
        for event in [filled, gate] {
            ask_for(event, CL_SUBMITTED, data);
            let call = called.recv_timeout(LONG);
            let (of, told, _) = call.expect("the command waits, and is submitted");
            assert_eq!((of, told), (event.addr(), CL_SUBMITTED));
            assert_eq!(status(event), CL_SUBMITTED);
        }
        ask_for(filled, CL_RUNNING, data);
        // SAFETY: handles.
        unsafe {
            ok(clSetUserEventStatus()(gate, end));
            let waited = clWaitForEvents()(1, &raw const filled);
            assert_eq!(waited == CL_SUCCESS, end == CL_COMPLETE);
        }
        let (_, told, _) = called.recv_timeout(LONG).unwrap();
        assert_eq!(told < 0, end < 0);
        assert_eq!(told == CL_RUNNING, end == CL_COMPLETE);
        // What is over has come to all of them, unless it has failed.
        for kind in [CL_SUBMITTED, CL_RUNNING, CL_COMPLETE] {
            ask_for(filled, kind, data);
            let (_, told, _) = called.recv_timeout(LONG).unwrap();
            assert_eq!(told, if end < 0 { status(filled) } else { kind });
        }
        // SAFETY: handles.
        unsafe {
            ok(clReleaseEvent()(filled));
            ok(clReleaseEvent()(gate));
        }
    }
}

fn function<T: Copy>(name: &str) -> T {
    let address = api().address(name).unwrap();
    assert_eq!(size_of::<T>(), size_of_val(&address));
    // SAFETY: the caller names the function's own type, which is an optional pointer.
    unsafe { std::mem::transmute_copy(&address) }
}

fn program(setup: &Setup, text: &str) -> cl_program {
    let text = CString::new(text).unwrap();
    let mut first = text.as_ptr();
    // SAFETY: one text that ends with a zero.
    made(|code| unsafe {
        clCreateProgramWithSource()(setup.context, 1, &raw mut first, null(), code)
    })
}

fn build_status(setup: &Setup, program: cl_program) -> cl_int {
    let mut status = 77;
    // SAFETY: room for one number.
    ok(unsafe {
        clGetProgramBuildInfo()(
            program,
            setup.device,
            CL_PROGRAM_BUILD_STATUS,
            size_of::<cl_int>(),
            (&raw mut status).cast(),
            null_mut(),
        )
    });
    status
}

#[test]
fn a_program_is_told_of_a_build_by_a_thread_that_holds_no_lock_of_the_program() {
    if !compiles() {
        return;
    }
    let setup = Setup::new();
    let (called, data) = calls();
    let is_told = |program: cl_program| {
        let (of, _, thread) = called.recv_timeout(LONG).expect("the build is over");
        assert_eq!(of, program.addr());
        assert_ne!(thread, std::thread::current().id());
    };
    let [compile, link] = ["clCompileProgram", "clLinkProgram"];
    let compile: clCompileProgram_t = function(compile);
    let link: clLinkProgram_t = function(link);
    for (text, is_right) in [
        ("kernel void k(global int *x) { *x = 1; }", true),
        ("none", false),
    ] {
        let status = match is_right {
            true => CL_BUILD_SUCCESS,
            false => CL_BUILD_ERROR,
        };
        // SAFETY: handles; no options; functions of the right type, with where calls arrive.
        unsafe {
            let whole = program(&setup, text);
            let code = clBuildProgram()(whole, 0, null(), null(), Some(built), data);
            assert_eq!((code, build_status(&setup, whole)), (CL_SUCCESS, status));
            // The program needs it no more.
            ok(clReleaseProgram()(whole));
            is_told(whole);
            let part = program(&setup, text);
            let code = compile.unwrap()(
                part,
                0,
                null(),
                null(),
                0,
                null(),
                null_mut(),
                Some(built),
                data,
            );
            assert_eq!((code, build_status(&setup, part)), (CL_SUCCESS, status));
            is_told(part);
            if is_right {
                let linked = made(|code| {
                    link.unwrap()(
                        setup.context,
                        0,
                        null(),
                        null(),
                        1,
                        &raw const part,
                        Some(built),
                        data,
                        code,
                    )
                });
                assert_eq!(build_status(&setup, linked), status);
                is_told(linked);
            }
        }
    }
}

/// The arguments: two places for addresses, and where they are said.
#[repr(C)]
struct Passed {
    places: [*mut u32; 3],
    data: *mut c_void,
}

unsafe extern "C" fn look(passed: *mut c_void) {
    // SAFETY: as it is passed.
    let passed = unsafe { &*passed.cast::<Passed>() };
    // SAFETY: the address of a buffer of one number.
    let value = unsafe { passed.places[1].read() };
    let are_null = passed.places[0].is_null() && passed.places[2].is_null();
    say(
        null_mut(),
        if are_null { value as cl_int } else { -1 },
        passed.data,
    );
}

#[test]
fn a_function_as_a_command_gets_a_null_pointer_in_the_place_of_no_buffer() {
    let setup = Setup::new();
    let buffer = setup.buffer(&[41_u32]);
    let (called, data) = calls();
    let none = null_mut();
    let mut passed = Passed {
        places: [std::ptr::dangling_mut(); 3],
        data,
    };
    let enqueue = |passed: &mut Passed, memories: [cl_mem; 3]| {
        let mut places: [*const c_void; 3] =
            std::array::from_fn(|at| (&raw const passed.places[at]).cast());
        // SAFETY: the function takes what is passed, which is copied, and three addresses in it.
        unsafe {
            clEnqueueNativeKernel()(
                setup.queue,
                Some(look),
                std::ptr::from_mut(passed).cast(),
                size_of::<Passed>(),
                3,
                memories.as_ptr(),
                places.as_mut_ptr(),
                0,
                null(),
                null_mut(),
            )
        }
    };
    ok(enqueue(&mut passed, [none, buffer, none]));
    let (_, value, _) = called.recv_timeout(LONG).unwrap();
    assert_eq!(value, 41);
    let other = std::ptr::dangling_mut();
    assert_eq!(
        enqueue(&mut passed, [none, other, none]),
        CL_INVALID_MEM_OBJECT
    );
}
