//! The library as C programs call it.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use support::*;

#[test]
fn each_name_is_the_librarys_own_function() {
    // If calls within the library went to a loader's functions, a loader would call itself.
    for name in [
        "clGetPlatformIDs",
        "clEnqueueNDRangeKernel",
        "clSVMAlloc",
        "clIcdGetPlatformIDsKHR",
        // Loaders export these, too, and programs are linked with what loaders export.
        "clCreateFromGLBuffer",
        "clCreateFromGLTexture2D",
        "clEnqueueAcquireGLObjects",
        "clGetGLContextInfoKHR",
        "clCreateEventFromEGLSyncKHR",
        "clRetainDeviceEXT",
        "clGetKernelSubGroupInfoKHR",
    ] {
        let text = std::ffi::CString::new(name).unwrap();
        // SAFETY: a text that ends with a zero.
        let known =
            unsafe { clGetExtensionFunctionAddressForPlatform()(null_mut(), text.as_ptr()) };
        assert_eq!(api().address(name), Some(known), "{name}");
    }
    let none = c"clNoSuchFunction";
    // SAFETY: as above.
    let known = unsafe { clGetExtensionFunctionAddressForPlatform()(null_mut(), none.as_ptr()) };
    assert!(known.is_null());
}

#[test]
fn kernels_get_values_buffers_local_memory_and_their_position() {
    if !compiles() {
        return;
    }
    let setup = Setup::new();
    let text = "kernel void k(global const int *in, global int *out, int add, local int *part) {
        size_t x = get_global_id(0), y = get_global_id(1), w = get_global_size(0);
        part[get_local_id(0)] = in[(y - 2) * w + x - 8];
        barrier(CLK_LOCAL_MEM_FENCE);
        out[(y - 2) * w + x - 8] = part[get_local_size(0) - 1 - get_local_id(0)] + add
            + 1000 * (int)(get_global_offset(0) + get_global_offset(1)) + 100000 * (int)get_work_dim();
    }";
    let kernel = setup.kernel(text, "k");
    let numbers: Vec<i32> = (0..64).collect();
    let (input, output) = (setup.buffer(&numbers), setup.buffer(&[0_i32; 64]));
    ok(set(kernel, 0, &input));
    ok(set(kernel, 1, &output));
    ok(set(kernel, 2, &7_i32));
    // SAFETY: local memory is passed as a size; two numbers each.
    unsafe {
        ok(clSetKernelArg()(kernel, 3, 4 * size_of::<i32>(), null()));
        let (offset, global, local) = ([8_usize, 2], [16_usize, 4], [4_usize, 1]);
        ok(clEnqueueNDRangeKernel()(
            setup.queue,
            kernel,
            2,
            offset.as_ptr(),
            global.as_ptr(),
            local.as_ptr(),
            0,
            null(),
            null_mut(),
        ));
    }
    let expected: Vec<i32> = (0..64)
        .map(|i| i / 4 * 4 + 3 - i % 4 + 7 + 10_000 + 200_000)
        .collect();
    assert_eq!(setup.read::<i32>(output, 64), expected);
}

#[test]
fn what_is_wrong_with_a_launch_has_its_code() {
    if !compiles() {
        return;
    }
    let setup = Setup::new();
    let kernel = setup.kernel(
        "kernel void k(global int *x, int y) { x[get_global_id(0)] = y; }",
        "k",
    );
    let buffer = setup.buffer(&[0_i32; 64]);
    let launch = |dimensions, global: &[usize], local: Option<&[usize]>| {
        // SAFETY: as many numbers as there are dimensions, if that is possible at all.
        unsafe {
            clEnqueueNDRangeKernel()(
                setup.queue,
                kernel,
                dimensions,
                null(),
                global.as_ptr(),
                local.map_or(null(), <[usize]>::as_ptr),
                0,
                null(),
                null_mut(),
            )
        }
    };
    assert_eq!(launch(1, &[64], None), CL_INVALID_KERNEL_ARGS);
    assert_eq!(set(kernel, 0, &0_i32), CL_INVALID_ARG_SIZE);
    assert_eq!(set(kernel, 0, &kernel), CL_INVALID_MEM_OBJECT);
    assert_eq!(set(kernel, 1, &0_i64), CL_INVALID_ARG_SIZE);
    assert_eq!(set(kernel, 2, &0_i32), CL_INVALID_ARG_INDEX);
    ok(set(kernel, 0, &buffer));
    ok(set(kernel, 1, &5_i32));
    assert_eq!(launch(4, &[1; 4], None), CL_INVALID_WORK_DIMENSION);
    assert_eq!(launch(1, &[64], Some(&[5])), CL_INVALID_WORK_GROUP_SIZE);
    assert_eq!(
        launch(1, &[1 << 20], Some(&[1 << 20])),
        CL_INVALID_WORK_ITEM_SIZE
    );
    ok(launch(1, &[0], None));
    ok(launch(1, &[64], Some(&[16])));
    assert_eq!(setup.read::<i32>(buffer, 64), [5; 64]);
    // A buffer that is gone is found out when it would be used.
    // SAFETY: a handle.
    ok(unsafe { clReleaseMemObject()(buffer) });
    assert_eq!(launch(1, &[64], None), CL_INVALID_KERNEL_ARGS);
}

#[test]
fn a_text_with_a_mistake_has_a_log_that_names_its_line() {
    if !compiles() {
        return;
    }
    let setup = Setup::new();
    let (program, code, log) =
        setup.try_build("kernel void k(global int *x) {\n  x[0] = nothing;\n}", "");
    assert_eq!(code, CL_BUILD_PROGRAM_FAILURE);
    assert!(log.contains(":2:") && log.contains("nothing"), "{log}");
    // SAFETY: a text that ends with a zero.
    let code = refused(|code| unsafe { clCreateKernel()(program, c"k".as_ptr(), code) });
    assert_eq!(code, CL_INVALID_PROGRAM_EXECUTABLE);
    let (_, code, _) = setup.try_build("kernel void k() {}", "-no-such-option");
    assert_eq!(code, CL_INVALID_BUILD_OPTIONS);
}

/// The answer of an information function.
fn answer<T: Copy>(ask: impl FnOnce(usize, *mut c_void, *mut usize) -> cl_int, otherwise: T) -> T {
    let mut value = otherwise;
    ok(ask(size_of::<T>(), (&raw mut value).cast(), null_mut()));
    value
}

#[test]
fn handles_are_what_they_are_until_they_are_released() {
    let setup = Setup::new();
    let buffer = setup.buffer(&[1_u8; 128]);
    // SAFETY: all that is passed is looked at before it is used; that is what is tested.
    unsafe {
        assert_eq!(clRetainContext()(setup.queue), CL_INVALID_CONTEXT);
        assert_eq!(clRetainMemObject()(setup.context), CL_INVALID_MEM_OBJECT);
        assert_eq!(clFinish()(buffer), CL_INVALID_COMMAND_QUEUE);
        assert_eq!(clReleaseMemObject()(null_mut()), CL_INVALID_MEM_OBJECT);
        assert_eq!(
            clReleaseMemObject()(buffer.wrapping_byte_add(8)),
            CL_INVALID_MEM_OBJECT
        );
        assert_eq!(
            clReleaseMemObject()(std::ptr::without_provenance_mut(0xdead_beef)),
            CL_INVALID_MEM_OBJECT
        );
        ok(clRetainMemObject()(buffer));
        let references = |of| {
            answer::<cl_uint>(
                |size, value, ret| {
                    clGetMemObjectInfo()(of, CL_MEM_REFERENCE_COUNT, size, value, ret)
                },
                0,
            )
        };
        assert_eq!(references(buffer), 2);
        ok(clReleaseMemObject()(buffer));
        ok(clReleaseMemObject()(buffer));
        assert_eq!(clReleaseMemObject()(buffer), CL_INVALID_MEM_OBJECT);
        // What needs a context keeps it, though the program's own reference is gone.
        ok(clReleaseContext()(setup.context));
        assert_eq!(clReleaseContext()(setup.context), CL_INVALID_CONTEXT);
        ok(clFinish()(setup.queue));
        // Programs ask for it, and retain it.
        let context = answer::<cl_context>(
            |size, value, ret| {
                clGetCommandQueueInfo()(setup.queue, CL_QUEUE_CONTEXT, size, value, ret)
            },
            null_mut(),
        );
        assert_eq!(context, setup.context);
        ok(clRetainContext()(context));
        ok(clReleaseContext()(context));
        ok(clReleaseCommandQueue()(setup.queue));
        assert_eq!(clFinish()(setup.queue), CL_INVALID_COMMAND_QUEUE);
    }
}

#[test]
fn rectangles_are_copied_as_loops_would() {
    let setup = Setup::new();
    let numbers: Vec<u8> = (0..240).collect();
    let (from, to) = (setup.buffer(&numbers), setup.buffer(&[0_u8; 240]));
    // 8 columns, 5 rows, 6 slices; and 6 columns, 8 rows, 5 slices.
    let (source, destination, region) = ([2_usize, 1, 1], [1_usize, 3, 0], [4_usize, 3, 2]);
    // SAFETY: three numbers each; buffers that hold the rectangles.
    unsafe {
        let copy = |to, row: usize| {
            clEnqueueCopyBufferRect()(
                setup.queue,
                from,
                to,
                source.as_ptr(),
                destination.as_ptr(),
                region.as_ptr(),
                row,
                40,
                6,
                48,
                0,
                null(),
                null_mut(),
            )
        };
        ok(copy(to, 8));
        assert_eq!(copy(to, 3), CL_INVALID_VALUE);
    }
    let mut expected = vec![0; 240];
    for (z, y, x) in (0..2).flat_map(|z| (0..3).flat_map(move |y| (0..4).map(move |x| (z, y, x)))) {
        expected[(z * 8 + y + 3) * 6 + x + 1] = numbers[((z + 1) * 5 + y + 1) * 8 + x + 2];
    }
    assert_eq!(setup.read::<u8>(to, 240), expected);
    let mut host = vec![0_u8; 24];
    // SAFETY: three numbers each; room for the rectangle.
    unsafe {
        ok(clEnqueueReadBufferRect()(
            setup.queue,
            to,
            CL_TRUE,
            destination.as_ptr(),
            [0_usize; 3].as_ptr(),
            region.as_ptr(),
            6,
            48,
            0,
            0,
            host.as_mut_ptr().cast(),
            0,
            null(),
            null_mut(),
        ));
        ok(clEnqueueWriteBufferRect()(
            setup.queue,
            to,
            CL_FALSE,
            [0_usize; 3].as_ptr(),
            [0_usize; 3].as_ptr(),
            [24_usize, 1, 1].as_ptr(),
            0,
            0,
            0,
            0,
            host.as_ptr().cast(),
            0,
            null(),
            null_mut(),
        ));
    }
    assert_eq!(setup.read::<u8>(to, 24), host);
    assert_eq!(host[..4], [50, 51, 52, 53]);
}

#[test]
fn patterns_of_each_size_fill() {
    let setup = Setup::new();
    for size in [1_usize, 2, 4, 8, 16, 32, 64, 128] {
        let buffer = setup.buffer(&[0_u8; 512]);
        let pattern: Vec<u8> = (1..=size as u8).collect();
        // SAFETY: so many bytes of a pattern.
        let fill = |offset, bytes| unsafe {
            clEnqueueFillBuffer()(
                setup.queue,
                buffer,
                pattern.as_ptr().cast(),
                size,
                offset,
                bytes,
                0,
                null(),
                null_mut(),
            )
        };
        ok(fill(128, 256));
        assert_eq!(fill(0, 384 + 256), CL_INVALID_VALUE);
        let expected: Vec<u8> = (0..512)
            .map(|at| {
                if (128..384).contains(&at) {
                    pattern[at % size]
                } else {
                    0
                }
            })
            .collect();
        assert_eq!(setup.read::<u8>(buffer, 512), expected, "{size}");
    }
}

#[test]
fn what_is_written_to_a_mapping_is_in_the_buffer() {
    let setup = Setup::with(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    let buffer = setup.buffer(&[1_u8; 64]);
    let map = |flags, offset, size| {
        made(|code| {
            // SAFETY: the buffer's own memory is asked for.
            unsafe {
                clEnqueueMapBuffer()(
                    setup.queue,
                    buffer,
                    CL_TRUE,
                    flags,
                    offset,
                    size,
                    0,
                    null(),
                    null_mut(),
                    code,
                )
            }
        })
    };
    let count = || {
        // SAFETY: room for the answer.
        let ask = |size, value, ret| unsafe {
            clGetMemObjectInfo()(buffer, CL_MEM_MAP_COUNT, size, value, ret)
        };
        answer::<cl_uint>(ask, 9)
    };
    let (read, write) = (map(CL_MAP_READ, 0, 64), map(CL_MAP_WRITE, 16, 16));
    assert_eq!(count(), 2);
    // SAFETY: so many bytes are mapped.
    unsafe {
        assert_eq!(*read.cast::<u8>().add(63), 1);
        write.cast::<u8>().write_bytes(7, 16);
        let unmap = |pointer| {
            clEnqueueUnmapMemObject()(setup.queue, buffer, pointer, 0, null(), null_mut())
        };
        assert_eq!(unmap(write.wrapping_byte_add(1)), CL_INVALID_VALUE);
        ok(unmap(write));
        ok(unmap(read));
        assert_eq!(unmap(read), CL_INVALID_VALUE);
    }
    assert_eq!(count(), 0);
    setup.finish();
    let held = setup.read::<u8>(buffer, 64);
    assert_eq!((held[15], held[16], held[31], held[32]), (1, 7, 7, 1));
}

#[test]
fn a_part_of_a_buffer_is_that_part() {
    let setup = Setup::new();
    let whole = setup.buffer(&[0_u8; 512]);
    let part = |origin, size| {
        let region = cl_buffer_region { origin, size };
        // SAFETY: a region, as the type says.
        move |code| unsafe {
            clCreateSubBuffer()(
                whole,
                0,
                CL_BUFFER_CREATE_TYPE_REGION,
                (&raw const region).cast(),
                code,
            )
        }
    };
    assert_eq!(refused(part(1, 64)), CL_MISALIGNED_SUB_BUFFER_OFFSET);
    assert_eq!(refused(part(384, 256)), CL_INVALID_VALUE);
    let part = made(part(128, 128));
    // SAFETY: one byte of a pattern.
    ok(unsafe {
        clEnqueueFillBuffer()(
            setup.queue,
            part,
            [9_u8].as_ptr().cast(),
            1,
            0,
            128,
            0,
            null(),
            null_mut(),
        )
    });
    let held = setup.read::<u8>(whole, 512);
    assert!((0..512).all(|at| held[at] == if (128..256).contains(&at) { 9 } else { 0 }));
}

#[test]
fn kernels_of_an_out_of_order_queue_are_ordered_by_events_alone() {
    if !compiles() {
        return;
    }
    let setup = Setup::with(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    let kernel = setup.kernel("kernel void k(global int *x, int at) { x[at] = 1; }", "k");
    let buffer = setup.buffer(&[0_i32; 2]);
    ok(set(kernel, 0, &buffer));
    // SAFETY: handles; one number each; where events go.
    unsafe {
        let user = made(|code| clCreateUserEvent()(setup.context, code));
        let launch = |at: i32, waits: &[cl_event], event| {
            ok(set(kernel, 1, &at));
            let list = if waits.is_empty() {
                null()
            } else {
                waits.as_ptr()
            };
            ok(clEnqueueNDRangeKernel()(
                setup.queue,
                kernel,
                1,
                null(),
                [1_usize].as_ptr(),
                null(),
                waits.len() as cl_uint,
                list,
                event,
            ));
        };
        let mut second = null_mut();
        launch(0, &[user], null_mut());
        launch(1, &[], &raw mut second);
        // It touches the same buffer as the first, which waits for what comes after this.
        ok(clWaitForEvents()(1, &raw const second));
        ok(clSetUserEventStatus()(user, CL_COMPLETE));
    }
    setup.finish();
    assert_eq!(setup.read::<i32>(buffer, 2), [1, 1]);
}

#[test]
fn kernels_and_the_host_share_memory_by_its_addresses() {
    let setup = Setup::new();
    // SAFETY: shared memory of so many bytes; one number each.
    unsafe {
        let allocate =
            |size, alignment| clSVMAlloc()(setup.context, CL_MEM_READ_WRITE, size, alignment);
        assert!(allocate(0, 0).is_null() && allocate(64, 3).is_null());
        for alignment in [1, 128, 256, 4096, 1 << 20] {
            let aligned = allocate(64, alignment);
            assert!(!aligned.is_null() && aligned.addr().is_multiple_of(alignment as usize));
            clSVMFree()(setup.context, aligned);
        }
        let list: *mut *mut i32 = allocate(8 * size_of::<*mut i32>(), 0).cast();
        let numbers: *mut i32 = allocate(64 * size_of::<i32>(), 0).cast();
        assert!(numbers.addr().is_multiple_of(128));
        // A buffer in it has to end where it ends.
        let mut code = CL_SUCCESS;
        let mut buffer = |size| {
            clCreateBuffer()(
                setup.context,
                CL_MEM_USE_HOST_PTR,
                size,
                numbers.add(32).cast(),
                &raw mut code,
            )
        };
        assert!(buffer(32 * 4 + 1).is_null());
        ok(clReleaseMemObject()(buffer(32 * 4)));
        ok(code);
        let pattern = 5_i32;
        ok(clEnqueueSVMMemFill()(
            setup.queue,
            numbers.cast(),
            (&raw const pattern).cast(),
            4,
            64 * 4,
            0,
            null(),
            null_mut(),
        ));
        let map = |blocking| {
            clEnqueueSVMMap()(
                setup.queue,
                blocking,
                CL_MAP_WRITE,
                list.cast(),
                64,
                0,
                null(),
                null_mut(),
            )
        };
        ok(map(CL_TRUE));
        for at in 0..8 {
            // What is reached by way of other memory.
            *list.add(at) = numbers.add(8 * at);
        }
        ok(clEnqueueSVMUnmap()(
            setup.queue,
            list.cast(),
            0,
            null(),
            null_mut(),
        ));
        if compiles() {
            let text = "kernel void k(global ulong *list) {
                ((global int *)list[get_global_id(0)])[get_global_id(1)] += get_global_id(0);
            }";
            let kernel = setup.kernel(text, "k");
            ok(clSetKernelArgSVMPointer()(kernel, 0, list.cast()));
            let reached = [numbers];
            ok(clSetKernelExecInfo()(
                kernel,
                CL_KERNEL_EXEC_INFO_SVM_PTRS,
                size_of_val(&reached),
                reached.as_ptr().cast(),
            ));
            let none =
                |size| clSetKernelExecInfo()(kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS, size, null());
            ok(none(0));
            assert_eq!(none(8), CL_INVALID_VALUE);
            ok(clEnqueueNDRangeKernel()(
                setup.queue,
                kernel,
                2,
                null(),
                [8_usize, 8].as_ptr(),
                null(),
                0,
                null(),
                null_mut(),
            ));
            let mut copy = [0_i32; 64];
            let copied = |to: *mut i32, from: *mut i32, bytes| {
                clEnqueueSVMMemcpy()(
                    setup.queue,
                    CL_TRUE,
                    to.cast(),
                    from.cast(),
                    bytes,
                    0,
                    null(),
                    null_mut(),
                )
            };
            assert_eq!(copied(numbers.add(1), numbers, 64), CL_MEM_COPY_OVERLAP);
            ok(copied(copy.as_mut_ptr(), numbers, 64 * 4));
            let expected: Vec<i32> = (0..64).map(|at| 5 + at / 8).collect();
            assert_eq!(copy[..], expected);
        }
        let mut freed: [*mut c_void; 1] = [numbers.cast()];
        ok(clEnqueueSVMFree()(
            setup.queue,
            1,
            freed.as_mut_ptr(),
            None,
            null_mut(),
            0,
            null(),
            null_mut(),
        ));
        setup.finish();
        clSVMFree()(setup.context, list.cast());
        // Twice is nothing.
        clSVMFree()(setup.context, list.cast());
    }
}

static CALLED: AtomicUsize = AtomicUsize::new(0);
static STATUS: AtomicI32 = AtomicI32::new(1);

unsafe extern "C" fn called(_event: cl_event, status: cl_int, _data: *mut c_void) {
    STATUS.store(status, Ordering::SeqCst);
    CALLED.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn commands_wait_for_events_of_the_program_and_fail_with_them() {
    let setup = Setup::new();
    let buffer = setup.buffer(&[0_u8; 64]);
    let status = |event| {
        // SAFETY: room for the answer.
        let ask = |size, value, ret| unsafe {
            clGetEventInfo()(event, CL_EVENT_COMMAND_EXECUTION_STATUS, size, value, ret)
        };
        answer::<cl_int>(ask, 99)
    };
    // SAFETY: handles; where events go; lists of as many events as is said.
    unsafe {
        for end in [CL_COMPLETE, -77] {
            let user = made(|code| clCreateUserEvent()(setup.context, code));
            assert_eq!(status(user), CL_SUBMITTED);
            let mut filled = null_mut();
            ok(clEnqueueFillBuffer()(
                setup.queue,
                buffer,
                [3_u8].as_ptr().cast(),
                1,
                0,
                64,
                1,
                &raw const user,
                &raw mut filled,
            ));
            ok(clSetEventCallback()(
                filled,
                CL_COMPLETE,
                Some(called),
                null_mut(),
            ));
            assert!(status(filled) > CL_RUNNING);
            let before = CALLED.load(Ordering::SeqCst);
            ok(clSetUserEventStatus()(user, end));
            assert_eq!(clSetUserEventStatus()(user, end), CL_INVALID_OPERATION);
            let waited = clWaitForEvents()(1, &raw const filled);
            while CALLED.load(Ordering::SeqCst) == before {
                std::thread::yield_now();
            }
            assert_eq!(status(user), end);
            match end {
                CL_COMPLETE => {
                    ok(waited);
                    assert_eq!(
                        (status(filled), STATUS.load(Ordering::SeqCst)),
                        (CL_COMPLETE, CL_COMPLETE)
                    );
                }
                _ => {
                    assert_eq!(waited, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
                    assert!(status(filled) < 0 && STATUS.load(Ordering::SeqCst) < 0);
                }
            }
            ok(clReleaseEvent()(filled));
            ok(clReleaseEvent()(user));
        }
        let nothing = [null_mut()];
        let marker =
            |count, list| clEnqueueMarkerWithWaitList()(setup.queue, count, list, null_mut());
        assert_eq!(marker(1, nothing.as_ptr()), CL_INVALID_EVENT_WAIT_LIST);
        assert_eq!(marker(1, null()), CL_INVALID_EVENT_WAIT_LIST);
        assert_eq!(marker(0, nothing.as_ptr()), CL_INVALID_EVENT_WAIT_LIST);
    }
}

#[test]
fn times_of_a_profiled_command_rise() {
    let setup = Setup::new();
    let buffer = setup.buffer(&[0_u8; 1 << 16]);
    let mut event = null_mut();
    // SAFETY: a pattern of one byte; where the event goes; room for the answers.
    unsafe {
        ok(clEnqueueFillBuffer()(
            setup.queue,
            buffer,
            [1_u8].as_ptr().cast(),
            1,
            0,
            1 << 16,
            0,
            null(),
            &raw mut event,
        ));
        ok(clWaitForEvents()(1, &raw const event));
        let times = [
            CL_PROFILING_COMMAND_QUEUED,
            CL_PROFILING_COMMAND_SUBMIT,
            CL_PROFILING_COMMAND_START,
            CL_PROFILING_COMMAND_END,
        ]
        .map(|name| {
            answer::<cl_ulong>(
                |size, value, ret| clGetEventProfilingInfo()(event, name, size, value, ret),
                0,
            )
        });
        assert!(times.is_sorted() && times[0] > 0, "{times:?}");
    }
}

unsafe extern "C" fn add_one(passed: *mut c_void) {
    // SAFETY: what is passed below: an address, and a count.
    unsafe {
        let (first, count) = passed.cast::<(*mut u32, usize)>().read_unaligned();
        for at in 0..count {
            *first.add(at) += 1;
        }
    }
}

#[test]
fn functions_of_the_program_get_addresses_of_buffers() {
    let setup = Setup::new();
    let buffer = setup.buffer(&[41_u32; 16]);
    let mut passed = (null_mut::<u32>(), 16_usize);
    let mut place: *const c_void = (&raw const passed.0).cast();
    // SAFETY: a tuple of two words, of which the first is the place of the address.
    ok(unsafe {
        clEnqueueNativeKernel()(
            setup.queue,
            Some(add_one),
            (&raw mut passed).cast(),
            size_of_val(&passed),
            1,
            &raw const buffer,
            &raw mut place,
            0,
            null(),
            null_mut(),
        )
    });
    assert_eq!(setup.read::<u32>(buffer, 16), [42; 16]);
}

#[test]
fn a_binary_makes_the_program_again() {
    if !compiles() {
        return;
    }
    let setup = Setup::new();
    let (program, code, log) =
        setup.try_build("kernel void k(global int *x) { x[0] = N; }", "-D N=6");
    assert_eq!(code, CL_SUCCESS, "{log}");
    // SAFETY: room for what is asked for; a binary of so many bytes.
    unsafe {
        let size = answer::<usize>(
            |size, value, ret| {
                clGetProgramInfo()(program, CL_PROGRAM_BINARY_SIZES, size, value, ret)
            },
            0,
        );
        let mut bytes = vec![0_u8; size];
        let mut first = bytes.as_mut_ptr();
        ok(clGetProgramInfo()(
            program,
            CL_PROGRAM_BINARIES,
            size_of_val(&first),
            (&raw mut first).cast(),
            null_mut(),
        ));
        let make = |bytes: &[u8], code| {
            let (length, mut first) = (bytes.len(), bytes.as_ptr());
            clCreateProgramWithBinary()(
                setup.context,
                1,
                &raw const setup.device,
                &raw const length,
                &raw mut first,
                null_mut(),
                code,
            )
        };
        assert_eq!(refused(|code| make(&bytes[1..], code)), CL_INVALID_BINARY);
        let twice = refused(|code| {
            clCreateProgramWithBinary()(
                setup.context,
                2,
                [setup.device; 2].as_ptr(),
                [bytes.len(); 2].as_ptr(),
                [bytes.as_ptr(); 2].as_mut_ptr(),
                null_mut(),
                code,
            )
        });
        assert_eq!(twice, CL_INVALID_DEVICE);
        let again = made(|code| make(&bytes, code));
        ok(clBuildProgram()(again, 0, null(), null(), None, null_mut()));
        let kernel = made(|code| clCreateKernel()(again, c"k".as_ptr(), code));
        let buffer = setup.buffer(&[0_i32]);
        ok(set(kernel, 0, &buffer));
        ok(clEnqueueNDRangeKernel()(
            setup.queue,
            kernel,
            1,
            null(),
            [1_usize].as_ptr(),
            null(),
            0,
            null(),
            null_mut(),
        ));
        assert_eq!(setup.read::<i32>(buffer, 1), [6]);
    }
}

#[test]
fn parts_of_a_device_are_devices() {
    let setup = Setup::new();
    let units = answer::<cl_uint>(
        // SAFETY: room for the answer.
        |size, value, ret| unsafe {
            clGetDeviceInfo()(setup.device, CL_DEVICE_MAX_COMPUTE_UNITS, size, value, ret)
        },
        0,
    );
    if units < 2 {
        println!("NOT TESTED: parts of a device, for it has one core");
        return;
    }
    let split = [CL_DEVICE_PARTITION_EQUALLY, 1, 0];
    let mut parts = vec![null_mut(); units as usize];
    // SAFETY: a list that ends with a zero; room for as many parts.
    unsafe {
        ok(clCreateSubDevices()(
            setup.device,
            split.as_ptr(),
            units,
            parts.as_mut_ptr(),
            null_mut(),
        ));
        let context =
            made(|code| clCreateContext()(null(), 1, parts.as_ptr(), None, null_mut(), code));
        made(|code| clCreateCommandQueue()(context, parts[0], 0, code));
        let code = refused(|code| clCreateCommandQueue()(context, setup.device, 0, code));
        assert_eq!(code, CL_INVALID_DEVICE);
        for part in parts {
            ok(clReleaseDevice()(part));
        }
        let counts = [
            CL_DEVICE_PARTITION_BY_COUNTS,
            1,
            CL_DEVICE_PARTITION_BY_COUNTS_LIST_END,
            0,
        ];
        let mut part = null_mut();
        ok(clCreateSubDevices()(
            setup.device,
            counts.as_ptr(),
            1,
            &raw mut part,
            null_mut(),
        ));
        let mut said = [9; 4];
        let mut size = 0;
        ok(clGetDeviceInfo()(
            part,
            CL_DEVICE_PARTITION_TYPE,
            size_of_val(&said),
            said.as_mut_ptr().cast(),
            &raw mut size,
        ));
        assert_eq!(said[..size / size_of_val(&said[0])], counts[..3]);
        ok(clReleaseDevice()(part));
    }
}

#[test]
fn a_device_says_which_versions_it_has() {
    let setup = Setup::new();
    let text = |name| {
        let mut bytes = [0_u8; 64];
        // SAFETY: room for so many bytes.
        ok(unsafe {
            clGetDeviceInfo()(
                setup.device,
                name,
                bytes.len(),
                bytes.as_mut_ptr().cast(),
                null_mut(),
            )
        });
        let end = bytes.iter().position(|byte| *byte == 0).unwrap();
        String::from_utf8(bytes[..end].to_vec()).unwrap()
    };
    // Programs in OpenCL C 2.0 would not build, and so no later version is the newest that older
    // programs are of.
    assert!(text(CL_DEVICE_OPENCL_C_VERSION).starts_with("OpenCL C 1.2 "));
    // A day, if none on which a suite was passed.
    let passed = text(CL_DEVICE_LATEST_CONFORMANCE_VERSION_PASSED);
    let numbers: Vec<u32> = passed[1..]
        .split('-')
        .map(|part| part.parse().unwrap())
        .collect();
    assert!(matches!(numbers[..], [_, 1..=12, 1..=31, _]), "{passed}");
}
