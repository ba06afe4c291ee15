//! A platform's functions for loaders (`cl_khr_icd` 2).
//!
//! The loader makes its own table of functions, by their names, and has a pointer to it put into
//! every object. So a program that calls a function which this library does not have gets an error
//! of the loader's. An older loader calls through the table that is this library's.

use crate::code::{create, ensure, entry};
use crate::dispatch::function;
use crate::platform::{self, get_platform_ids};
use opencl_sys::*;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The loader's data for the platform: its objects point to it.
static DATA: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// The data that a new object points to.
pub(crate) fn data() -> *mut c_void {
    DATA.load(Ordering::Acquire)
}

/// The function by which a loader asks for the platform. It has a name of its own, so that the
/// loader finds it in this library.
#[unsafe(export_name = "clIcdGetPlatformIDsKHR")]
pub(crate) unsafe extern "C" fn icd_get_platform_ids(
    entries: cl_uint,
    platforms: *mut cl_platform_id,
    count: *mut cl_uint,
) -> cl_int {
    // SAFETY: OpenCL asks the caller of both names for the same: each pointer is null, or to as
    // many places as it says.
    unsafe { get_platform_ids(entries, platforms, count) }
}

/// The address of any function of the API, those of extensions included.
#[unsafe(export_name = "clIcdGetFunctionAddressForPlatformKHR")]
pub(crate) unsafe extern "C" fn icd_get_function_address_for_platform(
    platform: cl_platform_id,
    name: *const c_char,
) -> *mut c_void {
    let address = || {
        ensure(platform == platform::handle(), CL_INVALID_PLATFORM)?;
        ensure(!name.is_null(), CL_INVALID_VALUE)?;
        // SAFETY: the loader passes a text that ends with a zero.
        let name = unsafe { CStr::from_ptr(name) };
        Ok(function(name.to_bytes()))
    };
    // SAFETY: no code is asked for.
    unsafe { create(null_mut(), address) }
}

#[unsafe(export_name = "clIcdSetPlatformDispatchDataKHR")]
pub(crate) unsafe extern "C" fn icd_set_platform_dispatch_data(
    platform: cl_platform_id,
    data: *mut c_void,
) -> cl_int {
    entry(|| {
        ensure(platform == platform::handle(), CL_INVALID_PLATFORM)?;
        DATA.store(data, Ordering::Release);
        platform::set_data(data);
        Ok(())
    })
}
