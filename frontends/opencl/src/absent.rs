//! Entry points of an optional feature that no device has: pipes.
//!
//! Devices say that they have none. Each function checks its first handle and refuses with the code
//! that the standard gives for it.

use crate::code::{create, fail};
use crate::context::Context;
use crate::handle::Ref;
use opencl_sys::*;
use std::ffi::c_void;

#[unsafe(export_name = "clCreatePipe")]
pub(crate) unsafe extern "C" fn create_pipe(
    context: cl_context,
    _flags: cl_mem_flags,
    _packet_size: cl_uint,
    _packets: cl_uint,
    _properties: *const cl_pipe_properties,
    code: *mut cl_int,
) -> cl_mem {
    let body = || {
        Ref::<Context>::of(context)?;
        fail(CL_INVALID_OPERATION)
    };
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

#[unsafe(export_name = "clGetPipeInfo")]
pub(crate) unsafe extern "C" fn get_pipe_info(
    _pipe: cl_mem,
    _name: cl_pipe_info,
    _size: usize,
    _value: *mut c_void,
    _size_ret: *mut usize,
) -> cl_int {
    CL_INVALID_MEM_OBJECT
}
