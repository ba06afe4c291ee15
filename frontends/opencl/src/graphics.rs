//! Functions of extensions that share objects with graphics, which no device has, and older names
//! of functions.
//!
//! Loaders export them, so programs are linked with them. Each function checks its first handle and
//! refuses.

use crate::code::{create, entry, fail};
use crate::context::Context;
use crate::device::{Device, release_device, retain_device};
use crate::handle::Ref;
use crate::kernel::get_kernel_sub_group_info;
use crate::memory::Memory;
use crate::queue::Queue;
use opencl_sys::cl_egl::*;
use opencl_sys::*;
use std::ffi::c_void;

/// Functions that create something of a context, and give null and `CL_INVALID_OPERATION`.
macro_rules! creates_nothing {
    ($($name:ident = $export:literal($($parameter:ty),*);)+) => {$(
        #[unsafe(export_name = $export)]
        pub(crate) unsafe extern "C" fn $name(
            context: cl_context, $(_: $parameter,)* code: *mut cl_int,
        ) -> *mut c_void {
            let body = || {
                Ref::<Context>::of(context)?;
                fail(CL_INVALID_OPERATION)
            };
            // SAFETY: the program passes where the code goes.
            unsafe { create(code, body) }
        }
    )+};
}

creates_nothing! {
    create_from_gl_buffer = "clCreateFromGLBuffer"(cl_mem_flags, cl_GLuint);
    create_from_gl_texture = "clCreateFromGLTexture"(cl_mem_flags, cl_GLenum, cl_GLint, cl_GLuint);
    create_from_gl_texture_2d = "clCreateFromGLTexture2D"(cl_mem_flags, cl_GLenum, cl_GLint, cl_GLuint);
    create_from_gl_texture_3d = "clCreateFromGLTexture3D"(cl_mem_flags, cl_GLenum, cl_GLint, cl_GLuint);
    create_from_gl_renderbuffer = "clCreateFromGLRenderbuffer"(cl_mem_flags, cl_GLuint);
    create_from_egl_image = "clCreateFromEGLImageKHR"(
        CLeglDisplayKHR, CLeglImageKHR, cl_mem_flags, *const cl_egl_image_properties_khr
    );
    create_event_from_gl_sync = "clCreateEventFromGLsyncKHR"(cl_GLsync);
    create_event_from_egl_sync = "clCreateEventFromEGLSyncKHR"(CLeglSyncKHR, CLeglDisplayKHR);
}

/// Functions of a queue that take objects over for one side or the other.
macro_rules! hands_nothing_over {
    ($($name:ident = $export:literal;)+) => {$(
        #[unsafe(export_name = $export)]
        pub(crate) unsafe extern "C" fn $name(
            queue: cl_command_queue, _: cl_uint, _: *const cl_mem, _: cl_uint, _: *const cl_event, _: *mut cl_event,
        ) -> cl_int {
            entry(|| {
                Ref::<Queue>::of(queue)?;
                fail(CL_INVALID_OPERATION)
            })
        }
    )+};
}

hands_nothing_over! {
    enqueue_acquire_gl_objects = "clEnqueueAcquireGLObjects";
    enqueue_release_gl_objects = "clEnqueueReleaseGLObjects";
    enqueue_acquire_egl_objects = "clEnqueueAcquireEGLObjectsKHR";
    enqueue_release_egl_objects = "clEnqueueReleaseEGLObjectsKHR";
}

/// `CL_INVALID_GL_OBJECT`: no memory is made of one.
const INVALID_GL_OBJECT: cl_int = -60;

#[unsafe(export_name = "clGetGLObjectInfo")]
pub(crate) unsafe extern "C" fn get_gl_object_info(
    memory: cl_mem,
    _: *mut cl_gl_object_type,
    _: *mut cl_GLuint,
) -> cl_int {
    entry(|| {
        Ref::<Memory>::of(memory)?;
        fail(INVALID_GL_OBJECT)
    })
}

#[unsafe(export_name = "clGetGLTextureInfo")]
pub(crate) unsafe extern "C" fn get_gl_texture_info(
    memory: cl_mem,
    _: cl_gl_texture_info,
    _: usize,
    _: *mut c_void,
    _: *mut usize,
) -> cl_int {
    entry(|| {
        Ref::<Memory>::of(memory)?;
        fail(INVALID_GL_OBJECT)
    })
}

#[unsafe(export_name = "clGetGLContextInfoKHR")]
pub(crate) unsafe extern "C" fn get_gl_context_info(
    _: *const cl_context_properties,
    _: cl_gl_context_info,
    _: usize,
    _: *mut c_void,
    _: *mut usize,
) -> cl_int {
    CL_INVALID_OPERATION
}

#[unsafe(export_name = "clCreateSubDevicesEXT")]
pub(crate) unsafe extern "C" fn create_sub_devices_ext(
    device: cl_device_id,
    _: *const cl_device_partition_property_ext,
    _: cl_uint,
    _: *mut cl_device_id,
    _: *mut cl_uint,
) -> cl_int {
    // Its properties have other numbers than those of `clCreateSubDevices`, and no device has the
    // extension.
    entry(|| {
        Ref::<Device>::of(device)?;
        fail(CL_INVALID_OPERATION)
    })
}

#[unsafe(export_name = "clRetainDeviceEXT")]
pub(crate) unsafe extern "C" fn retain_device_ext(device: cl_device_id) -> cl_int {
    // SAFETY: a handle needs no promise.
    unsafe { retain_device(device) }
}

#[unsafe(export_name = "clReleaseDeviceEXT")]
pub(crate) unsafe extern "C" fn release_device_ext(device: cl_device_id) -> cl_int {
    // SAFETY: a handle needs no promise.
    unsafe { release_device(device) }
}

#[unsafe(export_name = "clGetKernelSubGroupInfoKHR")]
pub(crate) unsafe extern "C" fn get_kernel_sub_group_info_khr(
    kernel: cl_kernel,
    device: cl_device_id,
    name: cl_kernel_sub_group_info,
    input_size: usize,
    input: *const c_void,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    // SAFETY: as the program promises.
    unsafe {
        get_kernel_sub_group_info(
            kernel, device, name, input_size, input, size, value, size_ret,
        )
    }
}
