//! Orders that programs rely on beside results: of commands that are not tracked, of the program's
//! functions, and after a failure.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use support::*;

const COUNT: usize = 1024;
const BYTES: usize = COUNT * 4;
/// Longer than any of this takes.
const LONG: Duration = Duration::from_secs(60);

fn user(setup: &Setup) -> cl_event {
    // SAFETY: a handle.
    made(|code| unsafe { clCreateUserEvent()(setup.context, code) })
}

fn complete(event: cl_event) {
    // SAFETY: a handle.
    ok(unsafe { clSetUserEventStatus()(event, CL_COMPLETE) });
}

/// Reads a buffer without waiting, once an event is over.
fn read_after(setup: &Setup, from: cl_mem, to: &mut [i32], after: cl_event) {
    // SAFETY: there is room, and it stays until the queue is finished.
    ok(unsafe {
        clEnqueueReadBuffer()(
            setup.queue,
            from,
            CL_FALSE,
            0,
            size_of_val(to),
            to.as_mut_ptr().cast(),
            1,
            &raw const after,
            null_mut(),
        )
    });
}

/// Writes to a buffer without waiting. Gives the event.
fn write(queue: cl_command_queue, to: cl_mem, from: *const i32, after: &[cl_event]) -> cl_event {
    let mut event = null_mut();
    let list = match after {
        [] => null(),
        _ => after.as_ptr(),
    };
    // SAFETY: the caller keeps so many bytes until the queue is finished.
    ok(unsafe {
        clEnqueueWriteBuffer()(
            queue,
            to,
            CL_FALSE,
            0,
            BYTES,
            from.cast(),
            after.len() as u32,
            list,
            &raw mut event,
        )
    });
    event
}

#[test]
fn commands_of_an_in_order_queue_that_share_the_hosts_memory_run_in_order() {
    let setup = Setup::with(0);
    let (from, to) = (setup.buffer(&[7; COUNT]), setup.buffer(&[0; COUNT]));
    let mut host = vec![1; COUNT];
    let gate = user(&setup);
    read_after(&setup, from, &mut host, gate);
    let written = write(setup.queue, to, host.as_ptr(), &[]);
    assert_ne!(status(written), CL_COMPLETE);
    // A mapping is such a command, too.
    let mut mapped = null_mut();
    // SAFETY: the whole buffer, mapped without waiting.
    unsafe {
        made(|code| {
            clEnqueueMapBuffer()(
                setup.queue,
                from,
                CL_FALSE,
                CL_MAP_READ,
                0,
                BYTES,
                0,
                null(),
                &raw mut mapped,
                code,
            )
        });
    }
    assert_ne!(status(mapped), CL_COMPLETE);
    complete(gate);
    setup.finish();
    assert_eq!(status(mapped), CL_COMPLETE);
    assert_eq!(setup.read::<i32>(to, COUNT), [7; COUNT]);
}

#[test]
fn kernels_that_write_what_is_said_to_be_read_alone_keep_their_place() {
    if !compiles() {
        return;
    }
    let setup = Setup::with(0);
    let kernel = setup.kernel(
        "kernel void k(global int *x) { x[get_global_id(0)] = 7; }",
        "k",
    );
    let flags = CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR;
    let mut before = [1_i32; COUNT];
    // SAFETY: there are as many bytes.
    let buffer = made(|code| unsafe {
        clCreateBuffer()(
            setup.context,
            flags,
            BYTES,
            before.as_mut_ptr().cast(),
            code,
        )
    });
    assert_eq!(set(kernel, 0, &buffer), CL_SUCCESS);
    let gate = user(&setup);
    let size = COUNT;
    // SAFETY: one dimension, and one event.
    ok(unsafe {
        clEnqueueNDRangeKernel()(
            setup.queue,
            kernel,
            1,
            null(),
            &raw const size,
            null(),
            1,
            &raw const gate,
            null_mut(),
        )
    });
    let (mut first, mut second) = ([0_i32; COUNT], [0_i32; COUNT]);
    let open = user(&setup);
    complete(open);
    read_after(&setup, buffer, &mut first, open);
    read_after(&setup, buffer, &mut second, gate);
    setup.do_other_things();
    complete(gate);
    setup.finish();
    assert_eq!([first, second], [[7; COUNT]; 2]);
}

#[test]
fn an_event_of_an_in_order_queue_stands_for_all_before_it() {
    let setup = Setup::with(0);
    let (from, to) = (setup.buffer(&[9; COUNT]), setup.buffer(&[0; COUNT]));
    let other = setup.buffer(&[0; COUNT]);
    let mut host = vec![1; COUNT];
    let gate = user(&setup);
    read_after(&setup, from, &mut host, gate);
    let (mut filled, pattern) = (null_mut(), 0_i32);
    // SAFETY: four bytes of pattern; a queue of this context.
    let second = unsafe {
        ok(clEnqueueFillBuffer()(
            setup.queue,
            other,
            (&raw const pattern).cast(),
            4,
            0,
            BYTES,
            0,
            null(),
            &raw mut filled,
        ));
        let properties = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
        made(|code| clCreateCommandQueue()(setup.context, setup.device, properties, code))
    };
    // Another queue waits for the fill alone, and gets what was read before it.
    let written = write(second, to, host.as_ptr(), &[filled]);
    assert_ne!(status(written), CL_COMPLETE);
    complete(gate);
    // SAFETY: a handle.
    ok(unsafe { clFinish()(second) });
    assert_eq!(setup.read::<i32>(to, COUNT), [9; COUNT]);
}

#[test]
fn queues_order_each_other_by_events_alone() {
    let setup = Setup::with(0);
    // SAFETY: the context's device.
    let other =
        made(|code| unsafe { clCreateCommandQueue()(setup.context, setup.device, 0, code) });
    let (buffer, copied) = (setup.buffer(&[0; COUNT]), setup.buffer(&[0; COUNT]));
    let values = [7; COUNT];
    let gate = user(&setup);
    let fill = |queue, at: usize, value: i32| {
        // SAFETY: four bytes of pattern.
        ok(unsafe {
            clEnqueueFillBuffer()(
                queue,
                buffer,
                (&raw const value).cast(),
                4,
                at * 4,
                4,
                0,
                null(),
                null_mut(),
            )
        });
    };
    let copy = |queue| {
        // SAFETY: both have as many bytes.
        ok(unsafe {
            clEnqueueCopyBuffer()(queue, buffer, copied, 0, 0, BYTES, 0, null(), null_mut())
        });
    };
    let first = write(setup.queue, buffer, values.as_ptr(), &[gate]);
    fill(setup.queue, 0, 8);
    for value in 1..100 {
        fill(other, 1, value);
    }
    copy(other);
    fill(other, 1, 100);
    let (done, is_done) = channel();
    let finishing = std::thread::spawn({
        let other = other.expose_provenance();
        move || {
            // SAFETY: a handle.
            ok(unsafe { clFinish()(std::ptr::with_exposed_provenance_mut(other)) });
            done.send(()).unwrap();
        }
    });
    let finished = is_done.recv_timeout(LONG);
    let before = status(first);
    complete(gate);
    finishing.join().unwrap();
    assert_eq!(finished, Ok(()));
    assert!(before > CL_COMPLETE);
    setup.finish();
    // Each queue keeps its own order.
    assert_eq!(setup.read::<i32>(copied, COUNT)[1], 99);
    assert_eq!(setup.read::<i32>(buffer, COUNT)[..3], [8, 7, 7]);
}

#[test]
fn a_buffer_of_two_queues_keeps_the_order_of_each() {
    let setup = Setup::with(0);
    // SAFETY: the context's device.
    let other =
        made(|code| unsafe { clCreateCommandQueue()(setup.context, setup.device, 0, code) });
    let (buffer, kept) = (setup.buffer(&[0; COUNT]), setup.buffer(&[0; COUNT]));
    let (gate, values) = (user(&setup), [7; COUNT]);
    let copy = |queue, from: cl_mem, to: cl_mem| {
        // SAFETY: both have as many bytes.
        ok(unsafe { clEnqueueCopyBuffer()(queue, from, to, 0, 0, BYTES, 0, null(), null_mut()) });
    };
    // The first queue has both buffers in use, and the second one uses them meanwhile.
    write(setup.queue, buffer, values.as_ptr(), &[gate]);
    copy(setup.queue, buffer, kept);
    let (own, copied) = (setup.buffer(&[5; COUNT]), setup.buffer(&[0; COUNT]));
    let (late, sixes) = (user(&setup), [6; COUNT]);
    write(other, own, sixes.as_ptr(), &[late]);
    copy(other, kept, copied);
    // What comes after that in the second queue is on buffers of its own, and keeps its place all
    // the same.
    copy(other, own, copied);
    setup.do_other_things();
    complete(gate);
    setup.finish();
    assert_eq!(setup.read::<i32>(kept, COUNT), values);
    complete(late);
    // SAFETY: a handle.
    ok(unsafe { clFinish()(other) });
    assert_eq!(setup.read::<i32>(copied, COUNT), [6; COUNT]);
}

#[test]
fn a_queue_that_is_alone_again_keeps_its_order() {
    let mut setup = Setup::with(0);
    let (context, device) = (setup.context, setup.device);
    // SAFETY: the context's device.
    let queue = || made(|code| unsafe { clCreateCommandQueue()(context, device, 0, code) });
    let other = queue();
    for gone in [setup.queue, other] {
        // SAFETY: a handle, which is not used any more.
        unsafe {
            ok(clFinish()(gone));
            ok(clReleaseCommandQueue()(gone));
        }
    }
    setup.queue = queue();
    let (buffer, copied) = (setup.buffer(&[0; COUNT]), setup.buffer(&[0; COUNT]));
    let (gate, values) = (user(&setup), [7; COUNT]);
    write(setup.queue, buffer, values.as_ptr(), &[gate]);
    // SAFETY: both have as many bytes.
    ok(unsafe {
        clEnqueueCopyBuffer()(
            setup.queue,
            buffer,
            copied,
            0,
            0,
            BYTES,
            0,
            null(),
            null_mut(),
        )
    });
    complete(gate);
    setup.finish();
    assert_eq!(setup.read::<i32>(copied, COUNT), values);
}

#[test]
fn a_fill_has_the_times_of_all_its_pieces() {
    let setup = Setup::new();
    const LARGE: usize = 16 << 20;
    let buffer = setup.buffer(&vec![0_u8; LARGE]);
    let pattern = [3_u8; 128];
    let took = |pattern_bytes: usize, bytes: usize| {
        let mut event = null_mut();
        // SAFETY: so many bytes of pattern.
        ok(unsafe {
            clEnqueueFillBuffer()(
                setup.queue,
                buffer,
                pattern.as_ptr().cast(),
                pattern_bytes,
                0,
                bytes,
                0,
                null(),
                &raw mut event,
            )
        });
        setup.finish();
        let [start, end] = [CL_PROFILING_COMMAND_START, CL_PROFILING_COMMAND_END].map(|name| {
            let mut time = 0_u64;
            // SAFETY: room for a time.
            ok(unsafe {
                clGetEventProfilingInfo()(event, name, 8, (&raw mut time).cast(), null_mut())
            });
            time
        });
        end - start
    };
    // A piece of the large one is as much as this many times.
    let least = (0..20).map(|_| took(16, 1 << 12)).min().unwrap();
    for pattern_bytes in [32, 64, 128] {
        let time = took(pattern_bytes, LARGE);
        assert!(time > least, "{pattern_bytes}: {time} and {least}");
    }
}

#[test]
fn a_failure_stays_with_its_event() {
    let setup = Setup::with(0);
    let buffer = setup.buffer(&[5; COUNT]);
    let host = vec![6; COUNT];
    let gate = user(&setup);
    let written = write(setup.queue, buffer, host.as_ptr(), &[gate]);
    // Enqueued before the failure, and behind it by memory alone.
    let mut before = vec![0; COUNT];
    // SAFETY: there is room, and it stays until the queue is finished.
    ok(unsafe {
        clEnqueueReadBuffer()(
            setup.queue,
            buffer,
            CL_FALSE,
            0,
            BYTES,
            before.as_mut_ptr().cast(),
            0,
            null(),
            null_mut(),
        )
    });
    // SAFETY: a handle.
    ok(unsafe { clSetUserEventStatus()(gate, -5) });
    setup.finish();
    assert!(status(written) < 0);
    assert_eq!(before, [5; COUNT]);
    assert_eq!(setup.read::<i32>(buffer, COUNT), [5; COUNT]);
}

/// The sender by which the functions below say that they were called.
static CALLED: Mutex<Option<Sender<usize>>> = Mutex::new(None);
/// Tests that use it, one after the other.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> (MutexGuard<'static, ()>, std::sync::mpsc::Receiver<usize>) {
    let alone = ALONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let (sender, receiver) = channel();
    *CALLED.lock().unwrap() = Some(sender);
    (alone, receiver)
}

fn say(what: usize) {
    CALLED.lock().unwrap().as_ref().unwrap().send(what).unwrap();
}

unsafe extern "C" fn destroyed(_of: *mut c_void, data: *mut c_void) {
    say(data.addr());
}

#[test]
fn destroyed_memory_is_told_of_once_no_command_uses_it() {
    let (_alone, called) = alone();
    let setup = Setup::with(0);
    let mut host = vec![0_i32; COUNT];
    let (gate, source) = (user(&setup), vec![3; COUNT]);
    // SAFETY: the bytes stay until the function is called.
    unsafe {
        let buffer = made(|code| {
            let flags = CL_MEM_USE_HOST_PTR;
            clCreateBuffer()(setup.context, flags, BYTES, host.as_mut_ptr().cast(), code)
        });
        for number in [1_usize, 2] {
            let data = std::ptr::without_provenance_mut(number);
            ok(clSetMemObjectDestructorCallback()(
                buffer,
                Some(destroyed),
                data,
            ));
        }
        write(setup.queue, buffer, source.as_ptr(), &[gate]);
        ok(clReleaseMemObject()(buffer));
        assert!(called.try_recv().is_err());
        // The context's are called when its last queue has nothing in flight.
        let data = std::ptr::without_provenance_mut(3);
        ok(clSetContextDestructorCallback()(
            setup.context,
            Some(destroyed),
            data,
        ));
        ok(clRetainEvent()(gate));
        ok(clReleaseCommandQueue()(setup.queue));
        ok(clReleaseContext()(setup.context));
        assert!(called.try_recv().is_err());
        complete(gate);
    }
    // Functions that were set last are called first.
    assert_eq!(called.recv_timeout(LONG), Ok(2));
    assert_eq!(called.recv_timeout(LONG), Ok(1));
}

/// A lock of the program's.
static LOCK: Mutex<()> = Mutex::new(());

unsafe extern "C" fn ended(event: cl_event, status: cl_int, _data: *mut c_void) {
    assert_eq!(status, CL_COMPLETE);
    let _held = LOCK.lock().unwrap();
    // The program has released it, but not before this.
    let mut references = 0_u32;
    // SAFETY: room for the answer.
    let code = unsafe {
        clGetEventInfo()(
            event,
            CL_EVENT_REFERENCE_COUNT,
            4,
            (&raw mut references).cast(),
            null_mut(),
        )
    };
    say(if code == CL_SUCCESS { 1 } else { 0 });
}

#[test]
fn functions_for_events_are_called_by_another_thread_with_a_handle_that_is_valid() {
    let (_alone, called) = alone();
    let setup = Setup::with(0);
    let buffer = setup.buffer(&[0; COUNT]);
    let (gate, source) = (user(&setup), vec![3; COUNT]);
    let written = write(setup.queue, buffer, source.as_ptr(), &[gate]);
    let mut events = [written, null_mut(), null_mut()];
    // SAFETY: handles, places for handles, and a function of the right type.
    unsafe {
        for event in &mut events[1..] {
            ok(clEnqueueMarkerWithWaitList()(setup.queue, 0, null(), event));
        }
        for event in events {
            ok(clSetEventCallback()(
                event,
                CL_COMPLETE,
                Some(ended),
                null_mut(),
            ));
        }
        ok(clReleaseEvent()(written));
    }
    // The program waits with a lock that its function takes.
    let held = LOCK.lock().unwrap();
    complete(gate);
    setup.finish();
    drop(held);
    for _ in events {
        assert_eq!(called.recv_timeout(LONG), Ok(1));
    }
    // The thread lets an event go a moment after it has called its function.
    let [_, one, other] = events;
    // SAFETY: handles, and room for one number.
    unsafe {
        for event in [one, other] {
            let mut references = 0;
            while references != 1 {
                ok(clGetEventInfo()(
                    event,
                    CL_EVENT_REFERENCE_COUNT,
                    size_of::<cl_uint>(),
                    (&raw mut references).cast(),
                    null_mut(),
                ));
                assert!((1..=2).contains(&references), "{references}");
            }
        }
        ok(clReleaseEvent()(one));
        ok(clReleaseEvent()(other));
    }
}

#[test]
fn mappings_and_migrations_have_times_and_ends() {
    let setup = Setup::new();
    let buffer = setup.buffer(&[1; COUNT]);
    let mut events = [null_mut(); 3];
    // SAFETY: the whole buffer; where the events go.
    unsafe {
        let mapped = made(|code| {
            clEnqueueMapBuffer()(
                setup.queue,
                buffer,
                CL_TRUE,
                CL_MAP_WRITE,
                0,
                BYTES,
                0,
                null(),
                &raw mut events[0],
                code,
            )
        });
        ok(clEnqueueUnmapMemObject()(
            setup.queue,
            buffer,
            mapped,
            0,
            null(),
            &raw mut events[1],
        ));
        let flags = CL_MIGRATE_MEM_OBJECT_HOST | CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;
        ok(clEnqueueMigrateMemObjects()(
            setup.queue,
            1,
            &raw const buffer,
            flags,
            0,
            null(),
            &raw mut events[2],
        ));
        setup.finish();
        for event in events {
            assert_eq!(status(event), CL_COMPLETE);
            let times = [
                CL_PROFILING_COMMAND_QUEUED,
                CL_PROFILING_COMMAND_SUBMIT,
                CL_PROFILING_COMMAND_START,
                CL_PROFILING_COMMAND_END,
            ]
            .map(|name| {
                let mut time = 0_u64;
                let room = (&raw mut time).cast();
                ok(clGetEventProfilingInfo()(event, name, 8, room, null_mut()));
                time
            });
            assert!(times.is_sorted(), "{times:?}");
        }
    }
}

#[test]
fn a_mapping_is_there_unless_its_command_fails() {
    let setup = Setup::with(0);
    let buffer = setup.buffer(&[0; COUNT]);
    let failed = user(&setup);
    // SAFETY: a handle.
    ok(unsafe { clSetUserEventStatus()(failed, -5) });
    let list = |after: Option<&cl_event>| match after {
        Some(after) => (1, std::ptr::from_ref(after)),
        None => (0, null()),
    };
    let map = |after: Option<&cl_event>| {
        let (count, first) = list(after);
        let flags = CL_MAP_READ | CL_MAP_WRITE;
        // SAFETY: the list has so many events.
        made(|code| unsafe {
            let (queue, none) = (setup.queue, null_mut());
            clEnqueueMapBuffer()(
                queue, buffer, CL_FALSE, flags, 0, BYTES, count, first, none, code,
            )
        })
    };
    let unmap = |pointer, after: Option<&cl_event>| {
        let (count, first) = list(after);
        // SAFETY: the list has so many events.
        unsafe { clEnqueueUnmapMemObject()(setup.queue, buffer, pointer, count, first, null_mut()) }
    };
    let count = || {
        let mut count = 7_u32;
        let room = (&raw mut count).cast();
        // SAFETY: room for the answer.
        ok(unsafe { clGetMemObjectInfo()(buffer, CL_MEM_MAP_COUNT, 4, room, null_mut()) });
        count
    };
    let pointer = map(Some(&failed));
    setup.finish();
    assert_eq!((count(), unmap(pointer, None)), (0, CL_INVALID_VALUE));
    // It fails after it was given back, by a command that fails as well.
    let late = user(&setup);
    let pointer = map(Some(&late));
    ok(unmap(pointer, Some(&late)));
    // SAFETY: a handle.
    ok(unsafe { clSetUserEventStatus()(late, -5) });
    setup.finish();
    assert_eq!((count(), unmap(pointer, None)), (0, CL_INVALID_VALUE));
    // A part that is mapped to be written cannot be mapped again, and this one is not.
    let pointer = map(None);
    setup.finish();
    assert_eq!(count(), 1);
    ok(unmap(pointer, Some(&failed)));
    setup.finish();
    assert_eq!(count(), 1);
    ok(unmap(pointer, None));
    setup.finish();
    assert_eq!((count(), unmap(pointer, None)), (0, CL_INVALID_VALUE));
}

#[test]
fn commands_of_a_profiled_in_order_queue_do_not_overlap() {
    let setup = Setup::new();
    const COMMANDS: usize = 16;
    let buffers: Vec<_> = (0..COMMANDS)
        .map(|_| setup.buffer(&vec![0; 1 << 16]))
        .collect();
    let pattern = 3_i32;
    let mut before = 0;
    // SAFETY: four bytes of pattern, and where the events and times go.
    unsafe {
        let events: Vec<cl_event> = buffers
            .iter()
            .map(|buffer| {
                let mut event = null_mut();
                ok(clEnqueueFillBuffer()(
                    setup.queue,
                    *buffer,
                    (&raw const pattern).cast(),
                    4,
                    0,
                    4 << 16,
                    0,
                    null(),
                    &raw mut event,
                ));
                event
            })
            .collect();
        setup.finish();
        for event in events {
            let time = |name| {
                let mut time = 0_u64;
                let room = (&raw mut time).cast();
                ok(clGetEventProfilingInfo()(event, name, 8, room, null_mut()));
                time
            };
            assert!(time(CL_PROFILING_COMMAND_START) >= before);
            before = time(CL_PROFILING_COMMAND_END);
        }
    }
}

#[test]
fn an_offset_may_be_any_that_numbers_of_work_items_have_room_for() {
    if !compiles() {
        return;
    }
    let setup = Setup::new();
    let text = "kernel void k(global ulong *x) { x[get_global_id(0) - get_global_offset(0)] = get_global_id(0); }";
    let kernel = setup.kernel(text, "k");
    let buffer = setup.buffer(&[0_u64; 4]);
    ok(set(kernel, 0, &buffer));
    let launch = |offset: usize| {
        let global = 4;
        // SAFETY: one number each.
        unsafe {
            clEnqueueNDRangeKernel()(
                setup.queue,
                kernel,
                1,
                &raw const offset,
                &raw const global,
                null(),
                0,
                null(),
                null_mut(),
            )
        }
    };
    // Back and forth, for a kernel keeps its last launch.
    for offset in [
        1_u64 << 31,
        0,
        (1 << 32) - 2,
        (1 << 31) - 4,
        1 << 40,
        u64::MAX - 4,
    ] {
        ok(launch(offset as usize));
        let expected: Vec<u64> = (offset..offset + 4).collect();
        assert_eq!(setup.read::<u64>(buffer, 4), expected);
    }
    assert_eq!(launch(usize::MAX - 2), CL_INVALID_GLOBAL_OFFSET);
}

#[test]
fn buffers_are_aligned_as_the_device_says() {
    let setup = Setup::new();
    let mut bits: cl_uint = 0;
    // SAFETY: room for a number.
    ok(unsafe {
        clGetDeviceInfo()(
            setup.device,
            CL_DEVICE_MEM_BASE_ADDR_ALIGN,
            size_of::<cl_uint>(),
            (&raw mut bits).cast(),
            null_mut(),
        )
    });
    // Not one by one, for an allocator puts many at what is more than they need.
    let buffers = (1..40).flat_map(|at| [at, 64 * at, 1000 * at, 20_000 * at]);
    for bytes in buffers {
        // SAFETY: where the codes go; the mapping is only looked at.
        let mapped = unsafe {
            let buffer = made(|code| {
                clCreateBuffer()(setup.context, CL_MEM_READ_WRITE, bytes, null_mut(), code)
            });
            made(|code| {
                clEnqueueMapBuffer()(
                    setup.queue,
                    buffer,
                    CL_TRUE,
                    CL_MAP_READ,
                    0,
                    bytes,
                    0,
                    null(),
                    null_mut(),
                    code,
                )
            })
        };
        assert_eq!(mapped.addr() % (bits as usize / 8), 0, "{bytes} bytes");
    }
}

#[test]
fn nothing_is_as_good_as_anything() {
    let setup = Setup::with(0);
    let buffer = setup.buffer(&[4; COUNT]);
    let mut byte = 0_u8;
    let host: *mut c_void = (&raw mut byte).cast();
    let mut count = 0;
    // SAFETY: no bytes are read or written; where numbers go.
    unsafe {
        let queue = setup.queue;
        let none = null_mut();
        ok(clEnqueueReadBuffer()(
            queue,
            buffer,
            CL_TRUE,
            8,
            0,
            host,
            0,
            null(),
            none,
        ));
        ok(clEnqueueWriteBuffer()(
            queue,
            buffer,
            CL_TRUE,
            BYTES,
            0,
            host,
            0,
            null(),
            none,
        ));
        ok(clEnqueueCopyBuffer()(
            queue,
            buffer,
            buffer,
            0,
            0,
            0,
            0,
            null(),
            none,
        ));
        ok(clEnqueueFillBuffer()(
            queue,
            buffer,
            host,
            1,
            0,
            0,
            0,
            null(),
            none,
        ));
        ok(clGetPlatformIDs()(1, null_mut(), &raw mut count));
        assert_eq!(count, 1);
        ok(clGetDeviceIDs()(
            null_mut(),
            CL_DEVICE_TYPE_ALL,
            4,
            null_mut(),
            &raw mut count,
        ));
        assert!(count >= 1);
        ok(clEnqueueSVMFree()(
            queue,
            0,
            null_mut(),
            None,
            null_mut(),
            0,
            null(),
            none,
        ));
    }
    assert_eq!(setup.read::<i32>(buffer, COUNT), [4; COUNT]);
}

#[test]
fn kernels_say_what_they_are() {
    if !compiles() {
        return;
    }
    let setup = Setup::with(0);
    let kernel = setup.kernel("kernel void k(global int *x) { x[0] = 1; }", "k");
    let buffer = setup.buffer(&[0; COUNT]);
    // SAFETY: no pointers are a list of none; where the event goes.
    unsafe {
        let (none, pointers) = (null(), CL_KERNEL_EXEC_INFO_SVM_PTRS);
        ok(clSetKernelExecInfo()(kernel, pointers, 0, none));
        let task = clEnqueueTask();
        let mut event = null_mut();
        assert_eq!(
            task(setup.queue, kernel, 0, null(), &raw mut event),
            CL_INVALID_KERNEL_ARGS
        );
        ok(set(kernel, 0, &buffer));
        ok(task(setup.queue, kernel, 0, null(), &raw mut event));
        let mut kind: cl_command_type = 0;
        ok(clGetEventInfo()(
            event,
            CL_EVENT_COMMAND_TYPE,
            4,
            (&raw mut kind).cast(),
            null_mut(),
        ));
        assert_eq!(kind, CL_COMMAND_TASK);
    }
    setup.finish();
    assert_eq!(setup.read::<i32>(buffer, 1), [1]);
}
