//! The library as loaders have it: tables of functions, and the pointers in objects to them.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::*;
use std::ffi::{CString, c_char, c_void};
use std::ptr::{null, null_mut};
use support::*;

/// The beginning of every object.
#[repr(C)]
struct Object {
    dispatch: *const [isize; 64],
    data: *mut c_void,
}

/// The number of `clUnloadCompiler` in the table.
const UNLOAD_COMPILER: usize = 31;
const TAG: isize = 0x4F50_454E_434C_3331;

fn object(handle: *mut c_void) -> (*const [isize; 64], *mut c_void) {
    // SAFETY: handles of this library point to such.
    let object = unsafe { &*handle.cast::<Object>() };
    (object.dispatch, object.data)
}

#[test]
fn a_loader_gets_functions_by_name_and_finds_its_data_in_every_object() {
    type Address = unsafe extern "C" fn(cl_platform_id, *const c_char) -> *mut c_void;
    type SetData = unsafe extern "C" fn(cl_platform_id, *mut c_void) -> cl_int;
    let address: Address = extension("clIcdGetFunctionAddressForPlatformKHR");
    let set_data: SetData = extension("clIcdSetPlatformDispatchDataKHR");
    let mut platform = null_mut();
    // SAFETY: room for one.
    ok(unsafe { clGetPlatformIDs()(1, &raw mut platform, null_mut()) });
    let (dispatch, _) = object(platform);
    // SAFETY: the table has more entries than these.
    let table = unsafe { &*dispatch };
    assert_eq!([table[0], table[UNLOAD_COMPILER]], [TAG; 2]);

    // SAFETY: a platform, and texts that end with a zero.
    let of = |name: &str| unsafe {
        let name = CString::new(name).unwrap();
        address(platform, name.as_ptr())
    };
    for name in [
        "clGetPlatformIDs",
        "clUnloadCompiler",
        "clGetPlatformInfo",
        "clEnqueueNDRangeKernel",
        "clGetKernelSuggestedLocalWorkSize",
    ] {
        assert_eq!(of(name), api().address(name).unwrap(), "{name}");
    }
    assert_eq!(
        of("clCreateSemaphoreWithPropertiesKHR"),
        extension("clCreateSemaphoreWithPropertiesKHR")
    );
    assert!(of("clNothing").is_null());
    // SAFETY: no platform, and no text.
    unsafe {
        assert!(address(null_mut(), null()).is_null());
        assert!(address(platform, null()).is_null());
        assert_eq!(set_data(null_mut(), null_mut()), CL_INVALID_PLATFORM);
    }

    // Those that were there before point to it as those do that come.
    let before = Setup::new();
    let data = std::ptr::without_provenance_mut(0x1234);
    // SAFETY: nothing looks at it.
    ok(unsafe { set_data(platform, data) });
    let after = Setup::new();
    let buffer = after.buffer(&[1]);
    assert_eq!(before.device, after.device);
    let objects = [platform, after.device, after.context, after.queue, buffer];
    for handle in objects {
        assert_eq!(object(handle), (dispatch, data));
    }
}
