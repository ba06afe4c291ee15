//! Devices of another OpenCL platform: their reported properties, builds and commands.
//!
//! PoCL's device stands for another vendor's GPU. Without PoCL these tests are left out.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::cl_icd::{clCompileProgram_t, clGetKernelSubGroupInfo_t, clLinkProgram_t};
use opencl_sys::*;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, Once};
use std::time::Duration;
use support::*;

/// The processor, and another platform's device.
fn devices() -> Option<[cl_device_id; 2]> {
    static TOLD: Once = Once::new();
    // SAFETY: each test comes here first, and nothing of this process reads the environment before.
    TOLD.call_once(|| unsafe { std::env::set_var("QUIPU_OPENCL_DEVICES", "cpu,opencl") });
    let (mut devices, mut count) = ([null_mut(); 8], 0);
    // SAFETY: room for as many devices.
    ok(unsafe {
        clGetDeviceIDs()(
            null_mut(),
            CL_DEVICE_TYPE_ALL,
            8,
            devices.as_mut_ptr(),
            &raw mut count,
        )
    });
    let is_ours =
        |device: &&cl_device_id| asked::<cl_bool>(**device, CL_DEVICE_HOST_UNIFIED_MEMORY) == 1;
    let listed = &devices[..count as usize];
    let own = listed.iter().find(is_ours).copied()?;
    let Some(other) = listed.iter().find(|device| !is_ours(device)).copied() else {
        println!("NOT TESTED: devices of other platforms: there are none");
        return None;
    };
    Some([own, other])
}

/// A device's answer.
fn asked<T: Copy + Default>(device: cl_device_id, name: cl_device_info) -> T {
    let mut value = T::default();
    // SAFETY: room for the answer.
    ok(unsafe {
        clGetDeviceInfo()(
            device,
            name,
            size_of::<T>(),
            (&raw mut value).cast(),
            null_mut(),
        )
    });
    value
}

/// A text that a device says.
fn text_of(device: cl_device_id, name: cl_device_info) -> String {
    let (mut text, mut length) = (vec![0_u8; 1 << 16], 0);
    // SAFETY: room for the answer.
    ok(unsafe {
        clGetDeviceInfo()(
            device,
            name,
            text.len(),
            text.as_mut_ptr().cast(),
            &raw mut length,
        )
    });
    String::from_utf8(text[..length - 1].to_vec()).unwrap()
}

/// A context of some devices, and a queue of the last one.
fn setup(devices: &[cl_device_id]) -> Setup {
    setup_with(devices, None, null_mut())
}

/// Longer than any of this takes.
const LONG: Duration = Duration::from_secs(60);

type Notify = unsafe extern "C" fn(*const c_char, *const c_void, usize, *mut c_void);

fn setup_with(devices: &[cl_device_id], notify: Option<Notify>, data: *mut c_void) -> Setup {
    let device = *devices.last().unwrap();
    let count = devices.len() as u32;
    // SAFETY: as many devices; a function of the right type.
    unsafe {
        let context =
            made(|code| clCreateContext()(null(), count, devices.as_ptr(), notify, data, code));
        let queue = made(|code| clCreateCommandQueue()(context, device, 0, code));
        Setup {
            device,
            context,
            queue,
        }
    }
}

#[test]
fn a_device_says_what_its_own_compiler_has() {
    let Some([own, other]) = devices() else {
        return;
    };
    let extensions = text_of(other, CL_DEVICE_EXTENSIONS);
    let has = |name: &str| extensions.split(' ').any(|one| one == name);
    // PoCL's device for processors has them, and no sub-groups of ours.
    assert!(
        has("cl_khr_fp64") && has("cl_khr_int64_base_atomics"),
        "{extensions}"
    );
    assert!(!has("cl_khr_subgroups"), "{extensions}");
    assert!(text_of(own, CL_DEVICE_EXTENSIONS).contains("cl_khr_subgroups"));
    // Its numbers of 16 bits are what it says of them, as ours are.
    for device in [own, other] {
        let extensions = text_of(device, CL_DEVICE_EXTENSIONS);
        let has_half = extensions.split(' ').any(|one| one == "cl_khr_fp16");
        let config = asked::<cl_device_fp_config>(device, CL_DEVICE_HALF_FP_CONFIG);
        assert_eq!(config & CL_FP_INF_NAN != 0, has_half, "{extensions}");
        let width = asked::<cl_uint>(device, CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF);
        assert_eq!(width > 0, has_half);
    }
    let ours = text_of(own, CL_DEVICE_EXTENSIONS);
    assert_eq!(ours.contains("cl_khr_fp16"), quipu_clc::has_half());
    assert!(ours.contains("cl_khr_subgroup_ballot"), "{ours}");
    for question in [
        CL_DEVICE_GENERIC_ADDRESS_SPACE_SUPPORT,
        CL_DEVICE_WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT,
    ] {
        assert_eq!(asked::<cl_bool>(own, question), 1);
        assert_eq!(asked::<cl_bool>(other, question), 0);
    }
    assert_eq!(asked::<cl_uint>(own, CL_DEVICE_MAX_NUM_SUB_GROUPS), 32);
    assert_eq!(asked::<cl_uint>(other, CL_DEVICE_MAX_NUM_SUB_GROUPS), 0);
    // Its compiler makes vectors of work-items, and its constant memory is a part of its own.
    for width in [
        CL_DEVICE_PREFERRED_VECTOR_WIDTH_CHAR,
        CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT,
        CL_DEVICE_NATIVE_VECTOR_WIDTH_DOUBLE,
    ] {
        assert_eq!(asked::<cl_uint>(other, width), 1);
        assert!(asked::<cl_uint>(own, width) > 1);
    }
    assert_eq!(asked::<cl_uint>(other, CL_DEVICE_MAX_CONSTANT_ARGS), 8);
    assert_eq!(asked::<cl_uint>(own, CL_DEVICE_MAX_CONSTANT_ARGS), 64);
    let constant = asked::<cl_ulong>(other, CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE);
    assert!((64 << 10..64 << 20).contains(&constant), "{constant}");
    // As PoCL says of them.
    let config = asked::<cl_device_fp_config>(other, CL_DEVICE_SINGLE_FP_CONFIG);
    assert!(config & CL_FP_DENORM != 0, "{config:x}");
    let numbers = [own, other].map(|device| asked::<cl_uint>(device, CL_DEVICE_VENDOR_ID));
    assert!(!numbers.contains(&0x5150), "{numbers:x?}");
}

#[test]
fn a_build_fails_where_the_devices_own_compiler_refuses_the_text() {
    let Some([own, other]) = devices() else {
        return;
    };
    let setup = setup(&[own, other]);
    // The processors' compiler has generic memory in this version, and PoCL's has not.
    let text =
        "kernel void k(global int *x) { int *p = x; p[get_global_id(0)] = sub_group_all(1); }";
    let (_, code, log) = setup.try_build(text, "-cl-std=CL3.0");
    assert_eq!(code, CL_BUILD_PROGRAM_FAILURE, "{log}");
    assert!(!log.is_empty());
    let here = Setup {
        device: own,
        ..setup
    };
    let (_, code, log) = here.try_build(text, "-cl-std=CL3.0");
    assert_eq!(code, CL_SUCCESS, "{log}");
}

#[test]
fn what_only_a_devices_own_compiler_takes_is_built_for_it() {
    let Some([own, other]) = devices() else {
        return;
    };
    let setup = setup(&[own, other]);
    let text =
        "kernel void k(global int *x) { __asm__ volatile(\"nop\"); x[get_global_id(0)] = 3; }";
    let (program, code, log) = setup.try_build(text, "");
    assert_eq!(code, CL_SUCCESS, "{log}");
    let buffer = setup.buffer(&[0_i32; 4]);
    let global = 4_usize;
    // SAFETY: a name that ends with a zero; one dimension.
    unsafe {
        let kernel = made(|code| clCreateKernel()(program, c"k".as_ptr(), code));
        ok(set(kernel, 0, &buffer));
        ok(clEnqueueNDRangeKernel()(
            setup.queue,
            kernel,
            1,
            null(),
            &raw const global,
            null(),
            0,
            null(),
            null_mut(),
        ));
    }
    assert_eq!(setup.read::<i32>(buffer, 4), [3; 4]);
    let here = Setup {
        device: own,
        ..setup
    };
    let (_, code, log) = here.try_build(text, "");
    assert_eq!(code, CL_BUILD_PROGRAM_FAILURE, "{log}");
    assert!(log.contains("inline assembly"), "{log}");
    // What neither takes is named as for all devices.
    let (_, code, log) = setup.try_build("kernel void k(global int *x) { x[0] = y; }", "");
    assert_eq!(code, CL_BUILD_PROGRAM_FAILURE, "{log}");
    assert!(log.starts_with("program:1:"), "{log}");
    let (_, code, log) = setup.try_build(text, "-foo");
    assert_eq!(code, CL_INVALID_BUILD_OPTIONS, "{log}");
}

#[test]
fn a_program_is_told_what_the_devices_have_for_which_it_is_built() {
    let Some([own, other]) = devices() else {
        return;
    };
    let there = setup(&[own, other]);
    let here = Setup {
        device: own,
        ..there
    };
    let images = |setup: &Setup| asked::<cl_bool>(setup.device, CL_DEVICE_IMAGE_SUPPORT) == 1;
    assert!(images(&here) && !images(&there));
    let texts = ["#ifndef", "#ifdef"].map(|condition| {
        format!(
            "{condition} __IMAGE_SUPPORT__\n#error no\n#endif\nkernel void k(global int *x) {{}}"
        )
    });
    let (_, code, log) = here.try_build(&texts[0], "");
    assert_eq!(code, CL_SUCCESS, "{log}");
    let (_, code, log) = here.try_build(&texts[1], "");
    assert_eq!(code, CL_BUILD_PROGRAM_FAILURE, "{log}");
}

/// The sender by which a context's function passes on its messages.
static TOLD: Mutex<Option<Sender<String>>> = Mutex::new(None);

unsafe extern "C" fn told(text: *const c_char, _: *const c_void, _: usize, _: *mut c_void) {
    // SAFETY: a text that ends with a zero.
    let text = unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned();
    TOLD.lock().unwrap().as_ref().unwrap().send(text).unwrap();
}

#[test]
fn a_context_is_told_of_commands_that_fail_and_have_no_event() {
    if devices().is_none() {
        return;
    }
    let (sender, messages) = channel();
    *TOLD.lock().unwrap() = Some(sender);
    let [own, _] = devices().unwrap();
    let setup = setup_with(&[own], Some(told), null_mut());
    let kernel = setup.kernel("kernel void named(global int *x) { x[0] = 1; }", "named");
    let buffer = setup.buffer(&[0_i32; 4]);
    ok(set(kernel, 0, &buffer));
    let one = 1_usize;
    // SAFETY: one dimension, and one event.
    unsafe {
        let gate = made(|code| clCreateUserEvent()(setup.context, code));
        ok(clEnqueueNDRangeKernel()(
            setup.queue,
            kernel,
            1,
            null(),
            &raw const one,
            null(),
            1,
            &raw const gate,
            null_mut(),
        ));
        ok(clSetUserEventStatus()(gate, -5));
    }
    let message = messages.recv_timeout(LONG).unwrap();
    assert!(message.contains("clSetUserEventStatus(-5)"), "{message}");
}

#[test]
fn questions_about_a_kernel_are_answered_for_the_device() {
    let Some([own, other]) = devices() else {
        return;
    };
    let setup = setup(&[own, other]);
    let kernel = setup.kernel(
        "kernel void k(global int *x) { x[get_global_id(0)] = 1; }",
        "k",
    );
    let about = |name: cl_kernel_work_group_info| {
        let mut value = 0_usize;
        // SAFETY: room for the answer.
        ok(unsafe {
            clGetKernelWorkGroupInfo()(
                kernel,
                other,
                name,
                size_of::<usize>(),
                (&raw mut value).cast(),
                null_mut(),
            )
        });
        value
    };
    assert_eq!(
        about(CL_KERNEL_WORK_GROUP_SIZE),
        asked::<usize>(other, CL_DEVICE_MAX_WORK_GROUP_SIZE)
    );
    let ask: clGetKernelSubGroupInfo_t = extension("clGetKernelSubGroupInfo");
    let local = 64_usize;
    let mut size = 0_usize;
    let mut sub_groups = |device| {
        // SAFETY: one number each.
        unsafe {
            ask.unwrap()(
                kernel,
                device,
                CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE,
                size_of::<usize>(),
                (&raw const local).cast(),
                size_of::<usize>(),
                (&raw mut size).cast(),
                null_mut(),
            )
        }
    };
    assert_eq!(sub_groups(other), CL_INVALID_OPERATION);
}

#[test]
fn programs_are_linked_for_the_devices_for_which_they_were_compiled() {
    let Some([own, other]) = devices() else {
        return;
    };
    let (both, alone) = (setup(&[other, own]), setup(&[own]));
    let compile: clCompileProgram_t = extension("clCompileProgram");
    let link: clLinkProgram_t = extension("clLinkProgram");
    let compiled = |setup: &Setup| {
        let mut text = c"kernel void k(global int *x) { x[0] = 7; }".as_ptr();
        // SAFETY: a text that ends with a zero; no headers.
        unsafe {
            let program = made(|code| {
                clCreateProgramWithSource()(setup.context, 1, &raw mut text, null(), code)
            });
            ok(compile.unwrap()(
                program,
                1,
                &raw const own,
                null(),
                0,
                null(),
                null_mut(),
                None,
                null_mut(),
            ));
            program
        }
    };
    let linked = |program: cl_program| {
        let mut code = 1;
        // SAFETY: one program.
        let linked = unsafe {
            link.unwrap()(
                both.context,
                0,
                null(),
                null(),
                1,
                &raw const program,
                None,
                null_mut(),
                &raw mut code,
            )
        };
        (linked, code)
    };
    let (program, code) = linked(compiled(&both));
    ok(code);
    let status = |device| {
        let mut status: cl_build_status = 77;
        // SAFETY: room for the answer.
        ok(unsafe {
            clGetProgramBuildInfo()(
                program,
                device,
                CL_PROGRAM_BUILD_STATUS,
                size_of_val(&status),
                (&raw mut status).cast(),
                null_mut(),
            )
        });
        status
    };
    assert_eq!(status(own), CL_BUILD_SUCCESS);
    assert_eq!(status(other), CL_BUILD_NONE);
    assert_eq!(linked(compiled(&alone)).1, CL_INVALID_CONTEXT);
}

#[test]
fn other_devices_take_numbers_of_work_items_beyond_31_bits() {
    let Some([_, other]) = devices() else { return };
    let setup = setup(&[other]);
    let kernel = setup.kernel(
        "kernel void k(global ulong *x) { x[get_global_id(0) - (1ul << 32)] = get_global_id(0); }",
        "k",
    );
    let buffer = setup.buffer(&[0_u64; 4]);
    ok(set(kernel, 0, &buffer));
    let (offset, global) = (1_usize << 32, 4_usize);
    // SAFETY: one dimension.
    ok(unsafe {
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
    });
    let wanted = [0, 1, 2, 3].map(|item| (1_u64 << 32) + item);
    assert_eq!(setup.read::<u64>(buffer, 4), wanted);
}

#[test]
fn a_program_that_polls_its_events_comes_to_an_end() {
    let Some([own, other]) = devices() else {
        return;
    };
    let setup = setup(&[own, other]);
    let (sender, ended) = channel();
    std::thread::spawn(move || {
        let text = "kernel void k(global int *x) { x[get_global_id(0)] += 1; }";
        let kernel = setup.kernel(text, "k");
        let buffer = setup.buffer(&[0_i32; 4]);
        ok(set(kernel, 0, &buffer));
        let (global, written) = (4_usize, [5_i32; 4]);
        let launch = |waits: &[cl_event]| {
            let mut event = null_mut();
            let first = match waits.is_empty() {
                true => null(),
                false => waits.as_ptr(),
            };
            // SAFETY: one dimension, as many events, and room for one.
            ok(unsafe {
                clEnqueueNDRangeKernel()(
                    setup.queue,
                    kernel,
                    1,
                    null(),
                    &raw const global,
                    null(),
                    waits.len() as u32,
                    first,
                    &raw mut event,
                )
            });
            event
        };
        // A kernel by itself; and one that waits for a write.
        let alone = launch(&[]);
        while status(alone) != CL_COMPLETE {}
        let mut event = null_mut();
        // SAFETY: as many bytes, which stay until the events are over.
        ok(unsafe {
            clEnqueueWriteBuffer()(
                setup.queue,
                buffer,
                CL_FALSE,
                0,
                size_of_val(&written),
                written.as_ptr().cast(),
                0,
                null(),
                &raw mut event,
            )
        });
        let after = launch(&[event]);
        while status(after) != CL_COMPLETE {}
        assert_eq!(setup.read::<i32>(buffer, 4), [6; 4]);
        sender.send(()).unwrap();
    });
    ended.recv_timeout(LONG).unwrap();
}
