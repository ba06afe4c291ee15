//! Command buffers: recorded once, enqueued many times, and changed between.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use support::*;

/// The functions of the extensions.
struct Extension {
    create: clCreateCommandBufferKHR_t,
    release: clReleaseCommandBufferKHR_t,
    retain: clRetainCommandBufferKHR_t,
    finalize: clFinalizeCommandBufferKHR_t,
    enqueue: clEnqueueCommandBufferKHR_t,
    info: clGetCommandBufferInfoKHR_t,
    barrier: clCommandBarrierWithWaitListKHR_t,
    copy: clCommandCopyBufferKHR_t,
    fill: clCommandFillBufferKHR_t,
    kernel: clCommandNDRangeKernelKHR_t,
    update: clUpdateMutableCommandsKHR_t,
    command_info: clGetMutableCommandInfoKHR_t,
    remap: clRemapCommandBufferKHR_t,
}

impl Extension {
    fn new() -> Self {
        Self {
            create: extension("clCreateCommandBufferKHR"),
            release: extension("clReleaseCommandBufferKHR"),
            retain: extension("clRetainCommandBufferKHR"),
            finalize: extension("clFinalizeCommandBufferKHR"),
            enqueue: extension("clEnqueueCommandBufferKHR"),
            info: extension("clGetCommandBufferInfoKHR"),
            barrier: extension("clCommandBarrierWithWaitListKHR"),
            copy: extension("clCommandCopyBufferKHR"),
            fill: extension("clCommandFillBufferKHR"),
            kernel: extension("clCommandNDRangeKernelKHR"),
            update: extension("clUpdateMutableCommandsKHR"),
            command_info: extension("clGetMutableCommandInfoKHR"),
            remap: extension("clRemapCommandBufferKHR"),
        }
    }

    fn create(
        &self,
        queues: &[cl_command_queue],
        flags: cl_command_buffer_flags_khr,
    ) -> cl_command_buffer_khr {
        let properties = [CL_COMMAND_BUFFER_FLAGS_KHR, flags, 0];
        // SAFETY: as many handles, and a list that ends with a zero.
        made(|code| unsafe {
            self.create.unwrap()(
                queues.len() as u32,
                queues.as_ptr(),
                properties.as_ptr(),
                code,
            )
        })
    }

    fn fill(&self, buffer: cl_command_buffer_khr, of: cl_mem, pattern: &[u8], size: usize) -> u32 {
        let mut point = 0;
        // SAFETY: as many bytes; where the point goes.
        ok(unsafe {
            self.fill.unwrap()(
                buffer,
                null_mut(),
                null(),
                of,
                pattern.as_ptr().cast(),
                pattern.len(),
                0,
                size,
                0,
                null(),
                &raw mut point,
                null_mut(),
            )
        });
        point
    }

    /// Records a kernel over so many items.
    fn kernel(
        &self,
        buffer: cl_command_buffer_khr,
        queue: cl_command_queue,
        kernel: cl_kernel,
        items: usize,
        after: &[u32],
        handle: *mut cl_mutable_command_khr,
    ) -> (u32, cl_int) {
        let mut point = 0;
        let after_first = match after.is_empty() {
            true => null(),
            false => after.as_ptr(),
        };
        // SAFETY: one number for one dimension; as many points; where the results go.
        let code = unsafe {
            self.kernel.unwrap()(
                buffer,
                queue,
                null(),
                kernel,
                1,
                null(),
                &raw const items,
                null(),
                after.len() as u32,
                after_first,
                &raw mut point,
                handle,
            )
        };
        (point, code)
    }

    fn finalize(&self, buffer: cl_command_buffer_khr) -> cl_int {
        // SAFETY: a handle.
        unsafe { self.finalize.unwrap()(buffer) }
    }

    fn enqueue(&self, buffer: cl_command_buffer_khr) -> cl_int {
        // SAFETY: no lists, no event.
        unsafe { self.enqueue.unwrap()(0, null_mut(), buffer, 0, null(), null_mut()) }
    }

    fn state(&self, buffer: cl_command_buffer_khr) -> cl_command_buffer_state_khr {
        let mut state: cl_command_buffer_state_khr = 77;
        // SAFETY: room for the answer.
        ok(unsafe {
            self.info.unwrap()(
                buffer,
                CL_COMMAND_BUFFER_STATE_KHR,
                4,
                (&raw mut state).cast(),
                null_mut(),
            )
        });
        state
    }

    fn release(&self, buffer: cl_command_buffer_khr) {
        // SAFETY: a handle.
        ok(unsafe { self.release.unwrap()(buffer) });
    }
}

const ADD: &str = "kernel void add(global int *to, int n) { to[get_global_id(0)] += n; }";

/// A change of one argument, or of the global size.
fn config(
    command: cl_mutable_command_khr,
    arguments: &[cl_mutable_dispatch_arg_khr],
    global: Option<&usize>,
) -> cl_mutable_dispatch_config_khr {
    cl_mutable_dispatch_config_khr {
        command,
        num_args: arguments.len() as u32,
        num_svm_args: 0,
        num_exec_infos: 0,
        work_dim: 0,
        arg_list: match arguments.is_empty() {
            true => null(),
            false => arguments.as_ptr(),
        },
        arg_svm_list: null(),
        exec_info_list: null(),
        global_work_offset: null(),
        global_work_size: global.map_or(null(), std::ptr::from_ref),
        local_work_size: null(),
    }
}

fn update(
    extension: &Extension,
    buffer: cl_command_buffer_khr,
    configs: &[cl_mutable_dispatch_config_khr],
) -> cl_int {
    let kinds = vec![CL_STRUCTURE_TYPE_MUTABLE_DISPATCH_CONFIG_KHR; configs.len()];
    let mut configs: Vec<*const c_void> = configs
        .iter()
        .map(|config| std::ptr::from_ref(config).cast())
        .collect();
    // SAFETY: as many kinds as structures, which are of that kind.
    unsafe {
        extension.update.unwrap()(
            buffer,
            configs.len() as u32,
            kinds.as_ptr(),
            configs.as_mut_ptr(),
        )
    }
}

#[test]
fn what_was_recorded_runs_each_time_in_its_order() {
    if !compiles() {
        return;
    }
    for properties in [0, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE] {
        let setup = Setup::with(properties);
        let extension = Extension::new();
        let kernel = setup.kernel(ADD, "add");
        const COUNT: usize = 512;
        let (from, to) = (setup.buffer(&[0_i32; COUNT]), setup.buffer(&[0_i32; COUNT]));
        let buffer = extension.create(&[setup.queue], 0);
        ok(set(kernel, 0, &from));
        // Whatever is set later makes no difference.
        let mut point = extension.fill(buffer, from, &3_i32.to_le_bytes(), COUNT * 4);
        for number in [10, 100, 1000] {
            ok(set(kernel, 1, &number));
            let none = null_mut();
            let (next, code) = extension.kernel(buffer, none, kernel, COUNT, &[point], null_mut());
            ok(code);
            point = next;
        }
        // SAFETY: one point; no handle is asked for.
        ok(unsafe {
            extension.copy.unwrap()(
                buffer,
                null_mut(),
                null(),
                from,
                to,
                0,
                0,
                COUNT * 4,
                1,
                &raw const point,
                null_mut(),
                null_mut(),
            )
        });
        assert_eq!(extension.enqueue(buffer), CL_INVALID_OPERATION);
        assert_eq!(
            extension.state(buffer),
            CL_COMMAND_BUFFER_STATE_RECORDING_KHR
        );
        ok(extension.finalize(buffer));
        assert_eq!(extension.finalize(buffer), CL_INVALID_OPERATION);
        assert_eq!(
            extension.state(buffer),
            CL_COMMAND_BUFFER_STATE_EXECUTABLE_KHR
        );
        for _ in 0..3 {
            ok(extension.enqueue(buffer));
            setup.finish();
            assert_eq!(setup.read::<i32>(to, COUNT), [1113; COUNT]);
        }
        // It stays while it runs, and after its kernel and its queue are gone.
        // SAFETY: handles.
        unsafe {
            ok(extension.retain.unwrap()(buffer));
            extension.release(buffer);
            ok(clReleaseKernel()(kernel));
            ok(extension.enqueue(buffer));
            extension.release(buffer);
            assert_eq!(
                extension.release.unwrap()(buffer),
                CL_INVALID_COMMAND_BUFFER_KHR
            );
        }
        setup.finish();
        assert_eq!(setup.read::<i32>(to, COUNT), [1113; COUNT]);
    }
}

#[test]
fn barriers_order_what_is_before_and_behind_them() {
    let setup = Setup::with(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    let extension = Extension::new();
    // Patterns of all sizes, the long ones too.
    for size in [1, 2, 4, 8, 16, 32, 64, 128_usize] {
        let pattern: Vec<u8> = (0..size).map(|at| at as u8 + 1).collect();
        let (from, to) = (setup.buffer(&[0_u8; 1024]), setup.buffer(&[0_u8; 1024]));
        let buffer = extension.create(&[setup.queue], 0);
        extension.fill(buffer, from, &pattern, 1024);
        // SAFETY: no points.
        unsafe {
            let none = null_mut();
            ok(extension.barrier.unwrap()(
                buffer,
                none,
                null(),
                0,
                null(),
                null_mut(),
                null_mut(),
            ));
            ok(extension.copy.unwrap()(
                buffer,
                none,
                null(),
                from,
                to,
                0,
                0,
                1024,
                0,
                null(),
                null_mut(),
                null_mut(),
            ));
        }
        ok(extension.finalize(buffer));
        ok(extension.enqueue(buffer));
        setup.finish();
        let wanted: Vec<u8> = pattern.iter().copied().cycle().take(1024).collect();
        assert_eq!(setup.read::<u8>(to, 1024), wanted, "{size}");
        extension.release(buffer);
    }
    // A buffer without a command does nothing.
    let buffer = extension.create(&[setup.queue], 0);
    ok(extension.finalize(buffer));
    ok(extension.enqueue(buffer));
    setup.finish();
    extension.release(buffer);
}

#[test]
fn kernels_are_changed_between_two_enqueues() {
    if !compiles() {
        return;
    }
    let setup = Setup::with(0);
    let extension = Extension::new();
    let kernel = setup.kernel(ADD, "add");
    const COUNT: usize = 64;
    let (one, other) = (setup.buffer(&[0_i32; COUNT]), setup.buffer(&[0_i32; COUNT]));
    let buffer = extension.create(&[setup.queue], CL_COMMAND_BUFFER_MUTABLE_KHR);
    ok(set(kernel, 0, &one));
    let mut handle = null_mut();
    let none = null_mut();
    // The second argument is set later.
    let (_, code) = extension.kernel(buffer, none, kernel, COUNT, &[], &raw mut handle);
    ok(code);
    ok(extension.finalize(buffer));
    // `CL_COMMAND_BUFFER_STATE_FINALIZED_KHR`.
    assert_eq!(extension.state(buffer), 2);
    assert_eq!(extension.enqueue(buffer), CL_INVALID_OPERATION);
    let argument = |index, value: &dyn Fn() -> (usize, *const c_void)| {
        let (arg_size, arg_value) = value();
        cl_mutable_dispatch_arg_khr {
            arg_index: index,
            arg_size,
            arg_value,
        }
    };
    let number = |number: &i32| {
        let pointer = std::ptr::from_ref(number).cast::<c_void>();
        argument(1, &|| (4, pointer))
    };
    let memory = |memory: &cl_mem| {
        let pointer = std::ptr::from_ref(memory).cast::<c_void>();
        argument(0, &|| (size_of::<cl_mem>(), pointer))
    };
    let five = 5;
    ok(update(
        &extension,
        buffer,
        &[config(handle, &[number(&five)], None)],
    ));
    assert_eq!(
        extension.state(buffer),
        CL_COMMAND_BUFFER_STATE_EXECUTABLE_KHR
    );
    ok(extension.enqueue(buffer));
    // What is in flight stays what it was.
    let (seven, half) = (7, COUNT / 2);
    let arguments = [number(&seven), memory(&other)];
    let change = config(handle, &arguments, Some(&half));
    ok(update(&extension, buffer, &[change]));
    ok(extension.enqueue(buffer));
    ok(extension.enqueue(buffer));
    setup.finish();
    assert_eq!(setup.read::<i32>(one, COUNT), [5; COUNT]);
    let wanted: Vec<i32> = (0..COUNT)
        .map(|at| if at < half { 14 } else { 0 })
        .collect();
    assert_eq!(setup.read::<i32>(other, COUNT), wanted);
    // All changes are made, or none.
    let nine = 9;
    let wrong = cl_mutable_dispatch_arg_khr {
        arg_index: 2,
        ..number(&nine)
    };
    let (right, wrong) = ([number(&nine)], [wrong]);
    let changes = [config(handle, &right, None), config(handle, &wrong, None)];
    assert_eq!(update(&extension, buffer, &changes), CL_INVALID_ARG_INDEX);
    ok(extension.enqueue(buffer));
    setup.finish();
    let wanted: Vec<i32> = (0..COUNT)
        .map(|at| if at < half { 21 } else { 0 })
        .collect();
    assert_eq!(setup.read::<i32>(other, COUNT), wanted);
    let mut size = 0_usize;
    // SAFETY: room for the answer.
    ok(unsafe {
        extension.command_info.unwrap()(
            handle,
            CL_MUTABLE_DISPATCH_GLOBAL_WORK_SIZE_KHR,
            size_of::<usize>(),
            (&raw mut size).cast(),
            null_mut(),
        )
    });
    assert_eq!(size, half);
    // A copy for another queue, with the command's handle there.
    let queue = Setup::with(0);
    let second = made(|code| {
        // SAFETY: handles.
        unsafe { clCreateCommandQueue()(setup.context, setup.device, 0, code) }
    });
    let mut copied = null_mut();
    // SAFETY: one queue, one handle, room for one.
    let copy = made(|code| unsafe {
        extension.remap.unwrap()(
            buffer,
            CL_FALSE,
            1,
            &raw const second,
            1,
            &raw const handle,
            &raw mut copied,
            code,
        )
    });
    extension.release(buffer);
    let mut size = 0_usize;
    // SAFETY: room for the answer.
    let gone = unsafe {
        extension.command_info.unwrap()(
            handle,
            CL_MUTABLE_DISPATCH_GLOBAL_WORK_SIZE_KHR,
            size_of::<usize>(),
            (&raw mut size).cast(),
            null_mut(),
        )
    };
    assert_eq!(gone, CL_INVALID_MUTABLE_COMMAND_KHR);
    let all = COUNT;
    ok(update(&extension, copy, &[config(copied, &[], Some(&all))]));
    ok(extension.enqueue(copy));
    // SAFETY: a handle.
    ok(unsafe { clFinish()(second) });
    let wanted: Vec<i32> = (0..COUNT)
        .map(|at| if at < half { 28 } else { 7 })
        .collect();
    assert_eq!(setup.read::<i32>(other, COUNT), wanted);
    // Not of the buffer's context.
    // SAFETY: one queue.
    let code = unsafe {
        let mut foreign = queue.queue;
        extension.enqueue.unwrap()(1, &raw mut foreign, copy, 0, null(), null_mut())
    };
    assert!(matches!(code, CL_INVALID_CONTEXT | CL_INVALID_DEVICE));
    extension.release(copy);
}

#[test]
fn mistakes_have_their_codes() {
    if !compiles() {
        return;
    }
    let setup = Setup::with(0);
    let extension = Extension::new();
    let kernel = setup.kernel(ADD, "add");
    let memory = setup.buffer(&[0_i32; 16]);
    let buffer = extension.create(&[setup.queue], 0);
    let none = null_mut();
    let record =
        |after: &[u32], handle| extension.kernel(buffer, none, kernel, 16, after, handle).1;
    assert_eq!(record(&[], none.cast()), CL_INVALID_KERNEL_ARGS);
    ok(set(kernel, 0, &memory));
    ok(set(kernel, 1, &1));
    assert_eq!(
        record(&[1], none.cast()),
        CL_INVALID_SYNC_POINT_WAIT_LIST_KHR
    );
    ok(record(&[], none.cast()));
    ok(record(&[1], none.cast()));
    assert_eq!(
        record(&[0], none.cast()),
        CL_INVALID_SYNC_POINT_WAIT_LIST_KHR
    );
    assert_eq!(
        record(&[3], none.cast()),
        CL_INVALID_SYNC_POINT_WAIT_LIST_KHR
    );
    let mut handle = null_mut();
    // SAFETY: no list, and where things go.
    unsafe {
        let copy = |from, to, size| {
            extension.copy.unwrap()(
                buffer,
                none,
                null(),
                memory,
                memory,
                from,
                to,
                size,
                0,
                null(),
                null_mut(),
                null_mut(),
            )
        };
        assert_eq!(copy(0, 8, 16), CL_MEM_COPY_OVERLAP);
        assert_eq!(copy(0, 56, 16), CL_INVALID_VALUE);
        ok(copy(0, 32, 16));
        // Only kernels have handles.
        let barrier = extension.barrier.unwrap();
        let code = barrier(buffer, none, null(), 0, null(), null_mut(), &raw mut handle);
        assert_eq!(code, CL_INVALID_VALUE);
        let code = barrier(buffer, memory, null(), 0, null(), null_mut(), null_mut());
        assert_eq!(code, CL_INVALID_COMMAND_QUEUE);
        let code = barrier(memory, none, null(), 0, null(), null_mut(), null_mut());
        assert_eq!(code, CL_INVALID_COMMAND_BUFFER_KHR);
    }
    ok(record(&[], &raw mut handle));
    ok(extension.finalize(buffer));
    assert_eq!(record(&[], none.cast()), CL_INVALID_OPERATION);
    // It was not made to be changed.
    let change = config(handle, &[], None);
    assert_eq!(update(&extension, buffer, &[change]), CL_INVALID_OPERATION);
    ok(extension.enqueue(buffer));
    setup.finish();
    extension.release(buffer);
    // SAFETY: no queues.
    let code = refused(|code| unsafe { extension.create.unwrap()(0, null(), null(), code) });
    assert_eq!(code, CL_INVALID_VALUE);
    let wrong = [CL_COMMAND_BUFFER_FLAGS_KHR, 1 << 40, 0];
    // SAFETY: one queue; a list that ends with a zero.
    let code = refused(|code| unsafe {
        extension.create.unwrap()(1, &raw const setup.queue, wrong.as_ptr(), code)
    });
    assert_eq!(code, CL_INVALID_VALUE);
}

#[test]
fn what_waits_for_another_queue_is_in_the_order_of_its_own_queue() {
    let setup = Setup::with(0);
    // Takes long enough to fill again and again that a copy could come before the last fill.
    const LARGE: usize = 16 << 20;
    const END: usize = 64;
    let extension = Extension::new();
    let out_of_order = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
    let queue = |properties| {
        // SAFETY: the context's device.
        made(|code| unsafe {
            clCreateCommandQueue()(setup.context, setup.device, properties, code)
        })
    };
    let (writer, reader) = (queue(out_of_order), queue(0));
    let large = setup.buffer(&vec![0_u8; LARGE]);
    let [shared, own, copied] = [(); 3].map(|()| setup.buffer(&[0_u8; END]));
    let buffer = extension.create(&[writer, reader], 0);
    let fill = |queue, of, size, after: &[u32]| {
        let (mut point, pattern) = (0, 7_u8);
        let first = if after.is_empty() {
            null()
        } else {
            after.as_ptr()
        };
        // SAFETY: a pattern of one byte; as many points; where the point goes.
        ok(unsafe {
            extension.fill.unwrap()(
                buffer,
                queue,
                null(),
                of,
                (&raw const pattern).cast(),
                1,
                0,
                size,
                after.len() as u32,
                first,
                &raw mut point,
                null_mut(),
            )
        });
        point
    };
    let mut before = fill(writer, large, LARGE, &[]);
    for _ in 1..16 {
        before = fill(writer, large, LARGE, &[before]);
    }
    let written = fill(writer, shared, END, &[before]);
    fill(reader, own, END, &[written]);
    // SAFETY: both have so many bytes there; no lists.
    ok(unsafe {
        extension.copy.unwrap()(
            buffer,
            reader,
            null(),
            shared,
            copied,
            0,
            0,
            END,
            0,
            null(),
            null_mut(),
            null_mut(),
        )
    });
    ok(extension.finalize(buffer));
    ok(extension.enqueue(buffer));
    // SAFETY: a handle.
    ok(unsafe { clFinish()(writer) });
    assert_eq!(setup.read::<u8>(copied, END), [7; END]);
    // SAFETY: handles, which are not used any more.
    unsafe {
        ok(extension.release.unwrap()(buffer));
        ok(clReleaseCommandQueue()(writer));
        ok(clReleaseCommandQueue()(reader));
    }
}

#[test]
fn a_command_buffer_is_in_the_order_of_each_queue_that_it_is_enqueued_on() {
    let setup = Setup::with(0);
    const END: usize = 64;
    let extension = Extension::new();
    for properties in [0, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE] {
        let [first, second] = [0, properties].map(|properties| {
            // SAFETY: the context's device.
            made(|code| unsafe {
                clCreateCommandQueue()(setup.context, setup.device, properties, code)
            })
        });
        // An out-of-order queue has its order by barriers.
        let barrier = || {
            if properties != 0 {
                // SAFETY: no lists.
                ok(unsafe { clEnqueueBarrierWithWaitList()(second, 0, null(), null_mut()) });
            }
        };
        let [from, between, to] = [(); 3].map(|()| setup.buffer(&[0_u8; END]));
        let buffer = extension.create(&[first, second], 0);
        // SAFETY: both have so many bytes; no lists.
        ok(unsafe {
            extension.copy.unwrap()(
                buffer,
                second,
                null(),
                from,
                between,
                0,
                0,
                END,
                0,
                null(),
                null_mut(),
                null_mut(),
            )
        });
        ok(extension.finalize(buffer));
        // SAFETY: a context.
        let open = made(|code| unsafe { clCreateUserEvent()(setup.context, code) });
        let (mut enqueued, mut copied, pattern) = (null_mut(), null_mut(), 7_u8);
        // SAFETY: a pattern of one byte, one event, and where the events go.
        unsafe {
            ok(clEnqueueFillBuffer()(
                second,
                from,
                (&raw const pattern).cast(),
                1,
                0,
                END,
                1,
                &raw const open,
                null_mut(),
            ));
            barrier();
            let enqueue = extension.enqueue.unwrap();
            ok(enqueue(0, null_mut(), buffer, 0, null(), &raw mut enqueued));
            barrier();
            ok(clEnqueueCopyBuffer()(
                second,
                between,
                to,
                0,
                0,
                END,
                0,
                null(),
                &raw mut copied,
            ));
        }
        // All wait for the first command.
        for _ in 0..1000 {
            assert_ne!(status(enqueued), CL_COMPLETE);
            assert_ne!(status(copied), CL_COMPLETE);
            std::thread::yield_now();
        }
        // SAFETY: handles.
        unsafe {
            ok(clSetUserEventStatus()(open, CL_COMPLETE));
            ok(clFinish()(second));
        }
        assert_eq!(status(enqueued), CL_COMPLETE);
        assert_eq!(setup.read::<u8>(to, END), [7; END]);
        // SAFETY: handles, which are not used any more.
        unsafe {
            ok(extension.release.unwrap()(buffer));
            for event in [open, enqueued, copied] {
                ok(clReleaseEvent()(event));
            }
            for queue in [first, second] {
                ok(clReleaseCommandQueue()(queue));
            }
        }
    }
}
