//! Rules of the standard for calls on a processor of this machine.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread::ThreadId;
use support::*;

#[test]
fn a_device_type_with_all_bits_means_every_device() {
    let devices = |kind: cl_device_type| {
        let mut count = 0;
        // SAFETY: room for the number.
        let code = unsafe { clGetDeviceIDs()(null_mut(), kind, 0, null_mut(), &raw mut count) };
        (code, count)
    };
    let all = devices(CL_DEVICE_TYPE_ALL);
    assert_eq!(all.0, CL_SUCCESS);
    // Java has no unsigned numbers, and passes -1.
    assert_eq!(devices(cl_device_type::MAX), all);
    assert_eq!(devices(1 << 32).0, CL_INVALID_DEVICE_TYPE);
    let kind = cl_device_type::MAX;
    // SAFETY: no properties; where the code goes.
    let context =
        made(|code| unsafe { clCreateContextFromType()(null(), kind, None, null_mut(), code) });
    // SAFETY: a handle.
    ok(unsafe { clReleaseContext()(context) });
}

/// Enqueues a read or write of a whole buffer, after an event; gives the event of the command.
fn transfer(
    setup: &Setup,
    buffer: cl_mem,
    writes: bool,
    host: &mut [i32],
    after: &[cl_event],
) -> cl_event {
    let (queue, bytes, pointer) = (setup.queue, size_of_val(host), host.as_mut_ptr());
    let list = if after.is_empty() {
        null()
    } else {
        after.as_ptr()
    };
    let mut event = null_mut();
    // SAFETY: the bytes stay until the command is over, and there are as many events.
    ok(unsafe {
        match writes {
            true => clEnqueueWriteBuffer()(
                queue,
                buffer,
                CL_FALSE,
                0,
                bytes,
                pointer.cast(),
                after.len() as u32,
                list,
                &raw mut event,
            ),
            false => clEnqueueReadBuffer()(
                queue,
                buffer,
                CL_FALSE,
                0,
                bytes,
                pointer.cast(),
                after.len() as u32,
                list,
                &raw mut event,
            ),
        }
    });
    event
}

#[test]
fn transfers_of_a_queue_out_of_order_wait_for_their_events_alone() {
    let setup = Setup::with(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    let (buffer, other) = (setup.buffer(&[1_i32; 256]), setup.buffer(&[2_i32; 256]));
    // SAFETY: a context.
    let gate = made(|code| unsafe { clCreateUserEvent()(setup.context, code) });
    let (mut source, mut seen) = (vec![3; 256], vec![0; 256]);
    let written = transfer(&setup, buffer, true, &mut source, &[gate]);
    let read = transfer(&setup, buffer, false, &mut seen, &[]);
    let (mut copied, mut filled) = (null_mut(), null_mut());
    // SAFETY: whole buffers; a pattern of one byte.
    unsafe {
        let value = 4_u8;
        ok(clEnqueueCopyBuffer()(
            setup.queue,
            buffer,
            other,
            0,
            0,
            1024,
            0,
            null(),
            &raw mut copied,
        ));
        ok(clEnqueueFillBuffer()(
            setup.queue,
            buffer,
            (&raw const value).cast(),
            1,
            0,
            1024,
            1,
            &raw const copied,
            &raw mut filled,
        ));
    }
    let others = [read, copied, filled];
    let are_over = || others.iter().all(|event| status(*event) == CL_COMPLETE);
    // The gate is closed all the while.
    for _ in 0..20 {
        if !are_over() {
            setup.do_other_things();
        }
    }
    let are_over = are_over();
    // SAFETY: an event of the program's own.
    ok(unsafe { clSetUserEventStatus()(gate, CL_COMPLETE) });
    setup.finish();
    assert!(
        are_over,
        "they waited for a command that none of their events is of"
    );
    assert_eq!(status(written), CL_COMPLETE);
    assert_eq!(setup.read::<i32>(buffer, 256), [3; 256]);
}

/// The sender by which a destructor's function says on which thread it is called.
static CALLED: Mutex<Option<Sender<ThreadId>>> = Mutex::new(None);

unsafe extern "C" fn destroyed(_of: *mut c_void, _data: *mut c_void) {
    let thread = std::thread::current().id();
    CALLED
        .lock()
        .unwrap()
        .as_ref()
        .unwrap()
        .send(thread)
        .unwrap();
}

#[test]
fn destructors_are_called_on_a_thread_that_holds_no_lock_of_the_program() {
    let (sender, called) = channel();
    *CALLED.lock().unwrap() = Some(sender);
    let setup = Setup::new();
    let buffer = setup.buffer(&[1_i32; 4]);
    let own = std::thread::current().id();
    // SAFETY: handles, and a function of the right type.
    unsafe {
        ok(clSetMemObjectDestructorCallback()(
            buffer,
            Some(destroyed),
            null_mut(),
        ));
        ok(clReleaseMemObject()(buffer));
        assert_ne!(called.recv().unwrap(), own);
        ok(clSetContextDestructorCallback()(
            setup.context,
            Some(destroyed),
            null_mut(),
        ));
        ok(clReleaseCommandQueue()(setup.queue));
        ok(clReleaseContext()(setup.context));
        assert_ne!(called.recv().unwrap(), own);
    }
}

#[test]
fn arguments_that_are_no_objects_of_the_context_have_their_codes() {
    if !compiles() {
        return;
    }
    let (setup, other) = (Setup::new(), Setup::new());
    let text = "kernel void k(global int *x, read_only image2d_t i, sampler_t s, local int *l) {}";
    let kernel = setup.kernel(text, "k");
    // SAFETY: no value; the code says that it is looked at first.
    let code = unsafe { clSetKernelArg()(kernel, 1, size_of::<cl_mem>(), null()) };
    assert_eq!(code, CL_INVALID_MEM_OBJECT);
    assert_eq!(set(kernel, 0, &other.buffer(&[1_i32])), CL_INVALID_CONTEXT);
    // SAFETY: handles; one texel.
    let (image, sampler) = unsafe {
        (
            made(|code| {
                let (format, description) = image(4, 1, null_mut());
                let flags = CL_MEM_READ_WRITE;
                clCreateImage()(
                    other.context,
                    flags,
                    &raw const format,
                    &raw const description,
                    null_mut(),
                    code,
                )
            }),
            made(|code| {
                clCreateSampler()(
                    other.context,
                    CL_FALSE,
                    CL_ADDRESS_CLAMP,
                    CL_FILTER_NEAREST,
                    code,
                )
            }),
        )
    };
    assert_eq!(set(kernel, 1, &image), CL_INVALID_CONTEXT);
    assert_eq!(set(kernel, 2, &sampler), CL_INVALID_CONTEXT);
    // OpenCL 3.0 has no local memory without bytes.
    // SAFETY: local memory is passed as a size.
    let code = unsafe { clSetKernelArg()(kernel, 3, 0, null()) };
    assert_eq!(code, CL_INVALID_ARG_SIZE);
}

/// An image of four bytes a texel, perhaps over a buffer.
fn image(width: usize, height: usize, buffer: cl_mem) -> (cl_image_format, cl_image_desc) {
    let format = cl_image_format {
        image_channel_order: CL_RGBA,
        image_channel_data_type: CL_UNSIGNED_INT8,
    };
    let description = cl_image_desc {
        image_type: match buffer.is_null() {
            true => CL_MEM_OBJECT_IMAGE2D,
            false => CL_MEM_OBJECT_IMAGE1D_BUFFER,
        },
        image_width: width,
        image_height: height,
        image_depth: 1,
        image_array_size: 1,
        image_row_pitch: 0,
        image_slice_pitch: 0,
        num_mip_levels: 0,
        num_samples: 0,
        buffer,
    };
    (format, description)
}

/// Maps bytes of a buffer.
fn map(
    setup: &Setup,
    buffer: cl_mem,
    flags: cl_map_flags,
    bytes: std::ops::Range<usize>,
) -> cl_int {
    let mut code = 1;
    // SAFETY: where the code goes.
    unsafe {
        clEnqueueMapBuffer()(
            setup.queue,
            buffer,
            CL_TRUE,
            flags,
            bytes.start,
            bytes.len(),
            0,
            null(),
            null_mut(),
            &raw mut code,
        )
    };
    code
}

#[test]
fn bytes_are_mapped_for_writing_once() {
    let setup = Setup::new();
    let buffer = setup.buffer(&[1_u8; 64]);
    ok(map(&setup, buffer, CL_MAP_WRITE, 0..32));
    assert_eq!(
        map(&setup, buffer, CL_MAP_WRITE, 31..64),
        CL_INVALID_OPERATION
    );
    let invalidates = CL_MAP_WRITE_INVALIDATE_REGION;
    assert_eq!(map(&setup, buffer, invalidates, 0..1), CL_INVALID_OPERATION);
    ok(map(&setup, buffer, CL_MAP_WRITE, 32..64));
    ok(map(&setup, buffer, CL_MAP_READ, 0..64));
}

#[test]
fn a_blocking_call_that_fails_gives_no_event() {
    let setup = Setup::new();
    let buffer = setup.buffer(&[1_i32; 4]);
    let mut host = [0_i32; 4];
    // SAFETY: a context; room for the bytes; one event.
    unsafe {
        let gate = made(|code| clCreateUserEvent()(setup.context, code));
        ok(clSetUserEventStatus()(gate, -1));
        let mut event = null_mut();
        let (queue, pointer) = (setup.queue, host.as_mut_ptr().cast());
        let code = clEnqueueReadBuffer()(
            queue,
            buffer,
            CL_TRUE,
            0,
            16,
            pointer,
            1,
            &raw const gate,
            &raw mut event,
        );
        assert_eq!(code, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
        assert!(event.is_null());
        let mut code = 1;
        let address = clEnqueueMapBuffer()(
            queue,
            buffer,
            CL_TRUE,
            CL_MAP_WRITE,
            0,
            16,
            1,
            &raw const gate,
            &raw mut event,
            &raw mut code,
        );
        assert_eq!(code, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
        assert!(address.is_null() && event.is_null());
    }
    ok(map(&setup, buffer, CL_MAP_WRITE, 0..16));
}

#[test]
fn slices_of_an_image_on_the_host_need_not_be_whole_rows_apart() {
    let setup = Setup::new();
    let (format, mut description) = image(2, 2, null_mut());
    description.image_type = CL_MEM_OBJECT_IMAGE3D;
    description.image_depth = 2;
    // Two rows of 8 bytes are 16; the next slice begins after 20.
    let mut host: Vec<u8> = (0..36).collect();
    let mut seen = vec![0_u8; 36];
    // SAFETY: three numbers each; the bytes of two slices.
    unsafe {
        let image = made(|code| {
            clCreateImage()(
                setup.context,
                CL_MEM_READ_WRITE,
                &raw const format,
                &raw const description,
                null_mut(),
                code,
            )
        });
        let (origin, region) = ([0_usize; 3], [2_usize, 2, 2]);
        let (origin, region) = (origin.as_ptr(), region.as_ptr());
        ok(clEnqueueWriteImage()(
            setup.queue,
            image,
            CL_TRUE,
            origin,
            region,
            8,
            20,
            host.as_ptr().cast(),
            0,
            null(),
            null_mut(),
        ));
        ok(clEnqueueReadImage()(
            setup.queue,
            image,
            CL_TRUE,
            origin,
            region,
            8,
            20,
            seen.as_mut_ptr().cast(),
            0,
            null(),
            null_mut(),
        ));
    }
    host[16..20].fill(0);
    assert_eq!(seen, host);
}

#[test]
fn an_image_over_a_part_of_a_buffer_has_no_host_pointer_and_no_offset() {
    let setup = Setup::new();
    let mut bytes = vec![0_u8; 512];
    let flags = CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR;
    // SAFETY: the bytes stay until the program ends its objects.
    unsafe {
        let pointer = bytes.as_mut_ptr().cast();
        let whole = made(|code| clCreateBuffer()(setup.context, flags, 512, pointer, code));
        let region = cl_buffer_region {
            origin: 128,
            size: 256,
        };
        let part = made(|code| {
            clCreateSubBuffer()(
                whole,
                CL_MEM_READ_WRITE,
                CL_BUFFER_CREATE_TYPE_REGION,
                (&raw const region).cast(),
                code,
            )
        });
        let (format, description) = image(64, 1, part);
        let image = made(|code| {
            clCreateImage()(
                setup.context,
                CL_MEM_READ_WRITE,
                &raw const format,
                &raw const description,
                null_mut(),
                code,
            )
        });
        let asked = |of: cl_mem, name: cl_mem_info| {
            let mut value = 77_usize;
            let bytes = size_of::<usize>();
            ok(clGetMemObjectInfo()(
                of,
                name,
                bytes,
                (&raw mut value).cast(),
                null_mut(),
            ));
            value
        };
        assert_eq!(asked(part, CL_MEM_OFFSET), 128);
        assert_eq!(asked(part, CL_MEM_HOST_PTR), pointer.addr() + 128);
        assert_eq!(asked(image, CL_MEM_OFFSET), 0);
        assert_eq!(asked(image, CL_MEM_HOST_PTR), 0);
    }
}

/// A context of two parts of the processor, a queue for each, and the parts.
fn parts(setup: &Setup) -> Option<[(Setup, cl_device_id); 2]> {
    let mut units = 0_u32;
    // SAFETY: room for the answers; lists that end with a zero.
    unsafe {
        ok(clGetDeviceInfo()(
            setup.device,
            CL_DEVICE_MAX_COMPUTE_UNITS,
            4,
            (&raw mut units).cast(),
            null_mut(),
        ));
        if units < 2 {
            println!("NOT TESTED: devices that are parts: the processor has one core");
            return None;
        }
        let half = (units / 2) as cl_device_partition_property;
        let by: [cl_device_partition_property; 3] = [CL_DEVICE_PARTITION_EQUALLY, half, 0];
        let mut parts = [null_mut(); 2];
        let mut count = 0;
        let room = if units.is_multiple_of(2) { 2 } else { 0 };
        if room == 0 {
            println!(
                "NOT TESTED: devices that are parts: the processor has an odd number of cores"
            );
            return None;
        }
        ok(clCreateSubDevices()(
            setup.device,
            by.as_ptr(),
            room,
            parts.as_mut_ptr(),
            &raw mut count,
        ));
        let context =
            made(|code| clCreateContext()(null(), 2, parts.as_ptr(), None, null_mut(), code));
        Some(parts.map(|device| {
            let queue = made(|code| clCreateCommandQueue()(context, device, 0, code));
            let setup = Setup {
                device,
                context,
                queue,
            };
            (setup, device)
        }))
    }
}

#[test]
fn a_program_that_was_built_differently_for_two_devices_runs_as_each_was_built() {
    if !compiles() {
        return;
    }
    let Some([(first, one), (second, two)]) = parts(&Setup::new()) else {
        return;
    };
    let text = c"kernel void k(global int *x) { x[get_global_id(0)] = VALUE; }";
    let mut pointer = text.as_ptr();
    // SAFETY: texts that end with a zero; handles.
    let program = unsafe {
        let program = made(|code| {
            clCreateProgramWithSource()(first.context, 1, &raw mut pointer, null(), code)
        });
        for (device, options) in [(one, c"-DVALUE=1"), (two, c"-DVALUE=2")] {
            ok(clBuildProgram()(
                program,
                1,
                &raw const device,
                options.as_ptr(),
                None,
                null_mut(),
            ));
        }
        program
    };
    let run = |program: cl_program| {
        // SAFETY: a name that ends with a zero.
        let kernel = made(|code| unsafe { clCreateKernel()(program, c"k".as_ptr(), code) });
        let values = [first, second].map(|setup| {
            let buffer = setup.buffer(&[0_i32; 4]);
            ok(set(kernel, 0, &buffer));
            let global = 4_usize;
            // SAFETY: one dimension.
            ok(unsafe {
                clEnqueueNDRangeKernel()(
                    setup.queue,
                    kernel,
                    1,
                    null(),
                    &raw const global,
                    null(),
                    0,
                    null(),
                    null_mut(),
                )
            });
            setup.read::<i32>(buffer, 4)
        });
        // SAFETY: a handle.
        ok(unsafe { clReleaseKernel()(kernel) });
        values
    };
    assert_eq!(run(program), [[1; 4], [2; 4]]);
    // So does what is made of its binaries.
    // SAFETY: room for the answers, and for as many bytes as were said.
    let again = unsafe {
        let mut sizes = [0_usize; 2];
        ok(clGetProgramInfo()(
            program,
            CL_PROGRAM_BINARY_SIZES,
            size_of_val(&sizes),
            sizes.as_mut_ptr().cast(),
            null_mut(),
        ));
        let mut binaries = sizes.map(|size| vec![0_u8; size]);
        let mut places = binaries.each_mut().map(|binary| binary.as_mut_ptr());
        ok(clGetProgramInfo()(
            program,
            CL_PROGRAM_BINARIES,
            size_of_val(&places),
            places.as_mut_ptr().cast(),
            null_mut(),
        ));
        let mut places = binaries.each_ref().map(|binary| binary.as_ptr());
        let mut statuses = [1; 2];
        let again = made(|code| {
            clCreateProgramWithBinary()(
                first.context,
                2,
                [one, two].as_ptr(),
                sizes.as_ptr(),
                places.as_mut_ptr(),
                statuses.as_mut_ptr(),
                code,
            )
        });
        assert_eq!(statuses, [CL_SUCCESS; 2]);
        ok(clBuildProgram()(again, 0, null(), null(), None, null_mut()));
        again
    };
    assert_eq!(run(again), [[1; 4], [2; 4]]);
}

#[test]
fn a_work_group_is_one_sub_group() {
    if !compiles() {
        return;
    }
    let setup = Setup::new();
    let address = api().address("clGetKernelSubGroupInfo").unwrap();
    // SAFETY: the function of that name is of this type.
    let ask: cl_icd::clGetKernelSubGroupInfo_t = unsafe { std::mem::transmute(address) };
    let kernel = setup.kernel("kernel void k(global int *to) { *to = 1; }", "k");
    let eight = "__attribute__((intel_reqd_sub_group_size(8))) kernel void k() {}";
    let of_eight = setup.kernel(eight, "k");
    // So much memory has each work-item that a group has few.
    let large = "__attribute__((intel_reqd_sub_group_size(8))) kernel void k(global int *to) {
        int own[1 << 18];
        for (int i = 0; i < 1 << 18; i++) own[i] = to[i];
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (int i = 0; i < 1 << 18; i++) to[i] = own[to[i] & 1023];
    }";
    let large = setup.kernel(large, "k");
    let ask_of = |kernel, name, given: &[usize], room: usize| {
        let mut answer = [7_usize; 3];
        // SAFETY: so many numbers, and room for so many.
        let code = unsafe {
            ask.unwrap()(
                kernel,
                setup.device,
                name,
                size_of_val(given),
                given.as_ptr().cast(),
                8 * room,
                answer.as_mut_ptr().cast(),
                null_mut(),
            )
        };
        (code, answer)
    };
    let ask = |name, given: &[usize], room| ask_of(kernel, name, given, room);
    let done = |one| (CL_SUCCESS, [one, 7, 7]);
    let bad = (CL_INVALID_VALUE, [7; 3]);
    for (name, given, wanted) in [
        (CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE, 20, 8),
        (CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE, 20, 3),
        (CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT, 3, 24),
    ] {
        assert_eq!(ask_of(of_eight, name, &[given], 1), done(wanted));
    }
    assert_eq!(
        ask(CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE, &[8, 4], 1),
        done(32)
    );
    assert_eq!(
        ask(CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE, &[8, 4, 2], 1),
        done(1)
    );
    assert_eq!(ask(CL_KERNEL_MAX_NUM_SUB_GROUPS, &[], 1), done(1));
    assert_eq!(ask(CL_KERNEL_COMPILE_NUM_SUB_GROUPS, &[], 1), done(0));
    let most = ask(CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT, &[1], 3);
    assert!(most.0 == CL_SUCCESS && most.1[0] > 1 && most.1[1..] == [1, 1]);
    assert_eq!(
        ask(CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT, &[2], 2),
        (CL_SUCCESS, [0, 0, 7])
    );
    assert_eq!(ask(CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE, &[], 1), bad);
    assert_eq!(
        ask(CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT, &[1, 1], 3),
        bad
    );
    assert_eq!(ask(77, &[1], 1), bad);
    let items = {
        let mut items = 0_usize;
        // SAFETY: room for the answer.
        ok(unsafe {
            clGetKernelWorkGroupInfo()(
                large,
                setup.device,
                CL_KERNEL_WORK_GROUP_SIZE,
                size_of::<usize>(),
                (&raw mut items).cast(),
                null_mut(),
            )
        });
        items
    };
    assert!((8..1024).contains(&items), "{items}");
    let groups = items / 8;
    assert_eq!(
        ask_of(large, CL_KERNEL_MAX_NUM_SUB_GROUPS, &[], 1),
        done(items.div_ceil(8))
    );
    for (count, wanted) in [(groups, 8 * groups), (groups + 1, 0)] {
        assert_eq!(
            ask_of(large, CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT, &[count], 1),
            done(wanted)
        );
    }
}
