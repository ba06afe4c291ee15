//! The limits that another OpenCL platform's device says of itself and of kernels.
//!
//! PoCL's device stands for another vendor's GPU, and is given limits as GPUs have them: the table
//! of its platform's functions has other answers here. Without PoCL these tests are left out.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use libloading::Library;
use opencl_sys::cl_icd::*;
use opencl_sys::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use support::*;

/// The device's answers: numbers that PoCL's has not.
const GROUP_ITEMS: usize = 24;
const ALIGNMENT_BITS: cl_uint = 4096;
const LINE: cl_uint = 96;
const CACHE: cl_ulong = 12_345;
const UUID: [u8; 16] = *b"a vendor's uuid!";

/// PoCL's own answers.
static ASK_DEVICE: OnceLock<clGetDeviceInfo_t> = OnceLock::new();
static ASK_KERNEL: OnceLock<clGetKernelWorkGroupInfo_t> = OnceLock::new();

/// Answers with values.
///
/// # Safety
/// As `clGetDeviceInfo` has it.
unsafe fn answer<T>(told: &[T], size: usize, value: *mut c_void, size_ret: *mut usize) -> cl_int {
    let bytes = size_of_val(told);
    // SAFETY: each pointer is null, or valid for so many bytes.
    unsafe {
        if !value.is_null() {
            assert!(size >= bytes);
            value
                .cast::<u8>()
                .copy_from_nonoverlapping(told.as_ptr().cast(), bytes);
        }
        if !size_ret.is_null() {
            size_ret.write(bytes);
        }
    }
    CL_SUCCESS
}

unsafe extern "C" fn device_info(
    device: cl_device_id,
    name: cl_device_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    let ask = ASK_DEVICE.get().unwrap().unwrap();
    // SAFETY: as the caller of `clGetDeviceInfo` promises.
    unsafe {
        match name {
            CL_DEVICE_MEM_BASE_ADDR_ALIGN => answer(&[ALIGNMENT_BITS], size, value, size_ret),
            CL_DEVICE_GLOBAL_MEM_CACHE_TYPE => answer(&[CL_READ_ONLY_CACHE], size, value, size_ret),
            CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE => answer(&[LINE], size, value, size_ret),
            CL_DEVICE_GLOBAL_MEM_CACHE_SIZE => answer(&[CACHE], size, value, size_ret),
            CL_DEVICE_ERROR_CORRECTION_SUPPORT => answer(&[CL_TRUE], size, value, size_ret),
            CL_DEVICE_UUID => answer(&UUID, size, value, size_ret),
            CL_DEVICE_EXTENSIONS => {
                let (mut text, mut length) = (vec![0_u8; 1 << 16], 0);
                let place = text.as_mut_ptr().cast();
                ask(device, name, text.len(), place, &raw mut length);
                text.truncate(length - 1);
                text.extend(b" cl_khr_device_uuid\0");
                answer(&text, size, value, size_ret)
            }
            _ => ask(device, name, size, value, size_ret),
        }
    }
}

unsafe extern "C" fn kernel_info(
    kernel: cl_kernel,
    device: cl_device_id,
    name: cl_kernel_work_group_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: as the caller of `clGetKernelWorkGroupInfo` promises.
    unsafe {
        match name {
            CL_KERNEL_WORK_GROUP_SIZE => answer(&[GROUP_ITEMS], size, value, size_ret),
            _ => ASK_KERNEL.get().unwrap().unwrap()(kernel, device, name, size, value, size_ret),
        }
    }
}

/// Has PoCL's platform say other limits: true if there is one.
fn change_limits() -> bool {
    // SAFETY: the loader's initialisers ask nothing.
    let Ok(loader) = (unsafe { Library::new("libOpenCL.so.1") }) else {
        return false;
    };
    let (mut platforms, mut count) = ([null_mut(); 16], 0);
    // SAFETY: the loader's own function, with room for so many platforms.
    unsafe {
        let list: clGetPlatformIDs_t = *loader.get(b"clGetPlatformIDs").unwrap();
        list.unwrap()(16, platforms.as_mut_ptr(), &raw mut count);
    }
    // It stays: its platforms are used.
    std::mem::forget(loader);
    for platform in &platforms[..count as usize] {
        // SAFETY: a platform begins with a pointer to its table, which this process has to itself
        // before the library looks for devices.
        unsafe {
            let table = platform.cast::<*mut _cl_icd_dispatch>().read();
            let mut name = [0_u8; 64];
            let said = (*table).clGetPlatformInfo.unwrap();
            said(
                *platform,
                CL_PLATFORM_NAME,
                name.len(),
                name.as_mut_ptr().cast(),
                null_mut(),
            );
            if name.starts_with(b"Portable Computing Language") {
                ASK_DEVICE.set((*table).clGetDeviceInfo).ok().unwrap();
                (*table).clGetDeviceInfo = Some(device_info);
                let of_kernel = (*table).clGetKernelWorkGroupInfo;
                ASK_KERNEL.set(of_kernel).ok().unwrap();
                (*table).clGetKernelWorkGroupInfo = Some(kernel_info);
                return true;
            }
        }
    }
    false
}

/// The processor, and the device with other limits.
fn devices() -> Option<[cl_device_id; 2]> {
    static CHANGED: OnceLock<bool> = OnceLock::new();
    let is_there = *CHANGED.get_or_init(|| {
        // SAFETY: each test comes here first, and nothing of this process reads the environment
        // before.
        unsafe { std::env::set_var("QUIPU_OPENCL_DEVICES", "cpu,opencl") };
        change_limits()
    });
    if !is_there {
        println!("NOT TESTED: limits of other platforms' devices: PoCL is not there");
        return None;
    }
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
    let own = listed.iter().find(is_ours).copied().unwrap();
    let other = listed.iter().find(|device| !is_ours(device)).copied();
    Some([own, other.unwrap()])
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

/// A context of some devices, and a queue of the last one.
fn setup(devices: &[cl_device_id]) -> Setup {
    let device = *devices.last().unwrap();
    let count = devices.len() as u32;
    // SAFETY: as many devices.
    unsafe {
        let context =
            made(|code| clCreateContext()(null(), count, devices.as_ptr(), None, null_mut(), code));
        let queue = made(|code| clCreateCommandQueue()(context, device, 0, code));
        Setup {
            device,
            context,
            queue,
        }
    }
}

fn launch(setup: &Setup, kernel: cl_kernel, global: usize, local: Option<usize>) -> cl_int {
    let local = local.as_ref().map_or(null(), std::ptr::from_ref);
    // SAFETY: one dimension.
    unsafe {
        clEnqueueNDRangeKernel()(
            setup.queue,
            kernel,
            1,
            null(),
            &raw const global,
            local,
            0,
            null(),
            null_mut(),
        )
    }
}

#[test]
fn a_work_group_is_no_larger_than_the_kernel_takes() {
    let Some([_, other]) = devices() else { return };
    let setup = setup(&[other]);
    let text = "kernel void k(global int *x) { x[get_global_id(0)] = get_local_size(0); }";
    let kernel = setup.kernel(text, "k");
    let buffer = setup.buffer(&[0_i32; 192]);
    ok(set(kernel, 0, &buffer));
    let mut most = 0_usize;
    // SAFETY: room for the answer.
    ok(unsafe {
        clGetKernelWorkGroupInfo()(
            kernel,
            other,
            CL_KERNEL_WORK_GROUP_SIZE,
            size_of::<usize>(),
            (&raw mut most).cast(),
            null_mut(),
        )
    });
    assert_eq!(most, GROUP_ITEMS);
    assert!(asked::<usize>(other, CL_DEVICE_MAX_WORK_GROUP_SIZE) > 96);
    for too_many in [GROUP_ITEMS * 2, GROUP_ITEMS * 4] {
        let code = launch(&setup, kernel, 192, Some(too_many));
        assert_eq!(code, CL_INVALID_WORK_GROUP_SIZE, "{too_many}");
    }
    ok(launch(&setup, kernel, 192, Some(GROUP_ITEMS)));
    assert_eq!(setup.read::<i32>(buffer, 192), [GROUP_ITEMS as i32; 192]);
    ok(launch(&setup, kernel, 192, None));
    let chosen = setup.read::<i32>(buffer, 192);
    assert!(
        chosen
            .iter()
            .all(|size| (1..=GROUP_ITEMS as i32).contains(size))
    );
    let suggest: clGetKernelSuggestedLocalWorkSizeKHR_t =
        extension("clGetKernelSuggestedLocalWorkSizeKHR");
    let (global, mut suggested) = (192_usize, 0_usize);
    // SAFETY: one dimension.
    ok(unsafe {
        suggest.unwrap()(
            setup.queue,
            kernel,
            1,
            null(),
            &raw const global,
            &raw mut suggested,
        )
    });
    assert_eq!(suggested as i32, chosen[0]);
}

#[test]
fn a_sub_buffer_begins_where_its_device_takes_it() {
    let Some([own, other]) = devices() else {
        return;
    };
    assert_eq!(asked::<cl_uint>(own, CL_DEVICE_MEM_BASE_ADDR_ALIGN), 1024);
    let bits = asked::<cl_uint>(other, CL_DEVICE_MEM_BASE_ADDR_ALIGN);
    assert_eq!(bits, ALIGNMENT_BITS);
    let part = |buffer: cl_mem, origin: usize, code: *mut cl_int| {
        let region = cl_buffer_region { origin, size: 64 };
        // SAFETY: a region, as the type says; where the code goes.
        unsafe {
            clCreateSubBuffer()(
                buffer,
                CL_MEM_READ_WRITE,
                CL_BUFFER_CREATE_TYPE_REGION,
                (&raw const region).cast(),
                code,
            )
        }
    };
    let text = "kernel void k(global int *x) { x[get_global_id(0)] = 7; }";
    let run = |setup: &Setup, part: cl_mem| {
        let kernel = setup.kernel(text, "k");
        ok(set(kernel, 0, &part));
        launch(setup, kernel, 16, None)
    };
    let alone = setup(&[other]);
    let buffer = alone.buffer(&[0_i32; 256]);
    assert_eq!(
        refused(|code| part(buffer, 128, code)),
        CL_MISALIGNED_SUB_BUFFER_OFFSET
    );
    ok(run(&alone, made(|code| part(buffer, 512, code))));
    let mut expected = [0; 256];
    expected[128..144].fill(7);
    assert_eq!(alone.read::<i32>(buffer, 256), expected);
    // One of the context's devices takes it, and the other refuses it as it is launched.
    let there = setup(&[own, other]);
    let buffer = there.buffer(&[0_i32; 256]);
    let unaligned = made(|code| part(buffer, 128, code));
    assert_eq!(run(&there, unaligned), CL_MISALIGNED_SUB_BUFFER_OFFSET);
    // SAFETY: a device of the context.
    let queue = made(|code| unsafe { clCreateCommandQueue()(there.context, own, 0, code) });
    let here = Setup {
        device: own,
        queue,
        ..there
    };
    ok(run(&here, unaligned));
    let mut expected = [0; 256];
    expected[32..48].fill(7);
    assert_eq!(here.read::<i32>(buffer, 256), expected);
}

#[test]
fn a_devices_memory_is_described_as_its_vendor_does() {
    let Some([own, other]) = devices() else {
        return;
    };
    let number = |name| asked::<cl_uint>(other, name);
    let kind = number(CL_DEVICE_GLOBAL_MEM_CACHE_TYPE);
    assert_eq!(kind, CL_READ_ONLY_CACHE);
    assert_eq!(number(CL_DEVICE_GLOBAL_MEM_CACHELINE_SIZE), LINE);
    let bytes = asked::<cl_ulong>(other, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE);
    assert_eq!(bytes, CACHE);
    assert_eq!(number(CL_DEVICE_ERROR_CORRECTION_SUPPORT), CL_TRUE);
    assert_eq!(number(CL_DEVICE_ADDRESS_BITS), usize::BITS);
    assert_eq!(asked::<cl_bool>(own, CL_DEVICE_ERROR_CORRECTION_SUPPORT), 0);
    assert_eq!(asked::<[u8; 16]>(other, CL_DEVICE_UUID), UUID);
    // The driver is one, and no device.
    let drivers = [own, other].map(|device| asked::<[u8; 16]>(device, CL_DRIVER_UUID));
    assert_eq!(drivers[0], drivers[1]);
    let uuid = asked::<[u8; 16]>(own, CL_DEVICE_UUID);
    assert!(uuid != drivers[0] && uuid != UUID);
}
