//! The serial device, which runs commands within the call that makes them ready.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use support::*;

/// Longer than any of this takes.
const LONG: Duration = Duration::from_secs(60);

/// The arguments of a native kernel: the queue that it enqueues on, a buffer, and the bytes that it
/// writes there.
#[derive(Clone, Copy)]
struct Passed {
    queue: cl_command_queue,
    buffer: cl_mem,
    bytes: *const u8,
}

/// A native kernel that writes to a buffer by its own queue.
extern "C" fn write(passed: *mut c_void) {
    // SAFETY: the library passes a copy of what the test passes.
    unsafe {
        let passed = passed.cast::<Passed>().read_unaligned();
        ok(clEnqueueWriteBuffer()(
            passed.queue,
            passed.buffer,
            CL_FALSE,
            0,
            1,
            passed.bytes.cast(),
            0,
            null(),
            null_mut(),
        ));
    }
}

#[test]
fn a_native_kernel_that_runs_within_a_read_may_enqueue_on_its_queue() {
    // SAFETY: the only test of this process, which comes here first.
    unsafe { std::env::set_var("QUIPU_OPENCL_DEVICES", "serial") };
    const BYTES: usize = 128 << 20;
    static WRITTEN: u8 = 7;
    let destination: &'static [AtomicU8] = {
        let bytes: Box<[AtomicU8]> = (0..BYTES).map(|_| AtomicU8::new(0)).collect();
        Box::leak(bytes)
    };
    let (sender, ended) = channel();
    std::thread::spawn(move || {
        let setup = Setup::with(0);
        let buffer = setup.buffer(&vec![1_u8; BYTES]);
        let shared = buffer.expose_provenance();
        std::thread::scope(|threads| {
            threads.spawn(move || {
                // All of it, which may be sent to another thread.
                let setup: Setup = setup;
                // The read is under way on the other thread, which finds this kernel ready after
                // it.
                while destination[0].load(Ordering::Relaxed) == 0 {
                    std::thread::yield_now();
                }
                let mut passed = Passed {
                    queue: setup.queue,
                    buffer: std::ptr::with_exposed_provenance_mut(shared),
                    bytes: &raw const WRITTEN,
                };
                // SAFETY: as many bytes, of which the library makes a copy; no memory objects.
                ok(unsafe {
                    clEnqueueNativeKernel()(
                        setup.queue,
                        Some(write),
                        (&raw mut passed).cast(),
                        size_of::<Passed>(),
                        0,
                        null(),
                        null_mut(),
                        0,
                        null(),
                        null_mut(),
                    )
                });
            });
            // SAFETY: room for as many bytes, which are atomics and so may be looked at meanwhile.
            ok(unsafe {
                clEnqueueReadBuffer()(
                    setup.queue,
                    buffer,
                    CL_FALSE,
                    0,
                    BYTES,
                    destination.as_ptr().cast_mut().cast(),
                    0,
                    null(),
                    null_mut(),
                )
            });
        });
        setup.finish();
        assert_eq!(setup.read::<u8>(buffer, 2), [WRITTEN, 1]);
        sender.send(()).unwrap();
    });
    ended.recv_timeout(LONG).unwrap();
}
