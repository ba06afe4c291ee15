//! The library as programs have it: loaded at run time, and called by its C names.

// Helpers of tests are tests: unwrap is their assertion too. Not every test needs all of them.
// Functions have their names in C.
#![allow(clippy::unwrap_used, dead_code, non_snake_case)]

use libloading::Library;
use opencl_sys::cl_icd::*;
use opencl_sys::*;
use std::ffi::{CString, c_void};
use std::path::PathBuf;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

macro_rules! functions {
    ($($name:ident: $type:ident,)+) => {
        /// Functions of the library.
        pub(crate) struct Api {
            library: Library,
            $(pub(crate) $name: $type,)+
        }

        impl Api {
            fn new(library: Library) -> Self {
                // SAFETY: the library exports functions of these names and types.
                $(let $name: $type = unsafe { *library.get(stringify!($name).as_bytes()).unwrap() };)+
                Self { library, $($name,)+ }
            }
        }

        $(
            pub(crate) fn $name() -> <$type as Callable>::Function {
                Callable::function(api().$name)
            }
        )+
    };
}

/// A pointer to a function that is there.
pub(crate) trait Callable {
    type Function;
    fn function(self) -> Self::Function;
}

impl<F> Callable for Option<F> {
    type Function = F;
    fn function(self) -> F {
        self.unwrap()
    }
}

functions! {
    clGetPlatformIDs: clGetPlatformIDs_t,
    clGetPlatformInfo: clGetPlatformInfo_t,
    clGetDeviceIDs: clGetDeviceIDs_t,
    clGetDeviceInfo: clGetDeviceInfo_t,
    clCreateSubDevices: clCreateSubDevices_t,
    clReleaseDevice: clReleaseDevice_t,
    clCreateContext: clCreateContext_t,
    clCreateContextFromType: clCreateContextFromType_t,
    clRetainContext: clRetainContext_t,
    clReleaseContext: clReleaseContext_t,
    clGetContextInfo: clGetContextInfo_t,
    clSetContextDestructorCallback: clSetContextDestructorCallback_t,
    clCreateCommandQueue: clCreateCommandQueue_t,
    clRetainCommandQueue: clRetainCommandQueue_t,
    clReleaseCommandQueue: clReleaseCommandQueue_t,
    clGetCommandQueueInfo: clGetCommandQueueInfo_t,
    clCreateBuffer: clCreateBuffer_t,
    clCreateSubBuffer: clCreateSubBuffer_t,
    clRetainMemObject: clRetainMemObject_t,
    clReleaseMemObject: clReleaseMemObject_t,
    clGetMemObjectInfo: clGetMemObjectInfo_t,
    clSetMemObjectDestructorCallback: clSetMemObjectDestructorCallback_t,
    clCreateProgramWithSource: clCreateProgramWithSource_t,
    clCreateProgramWithBinary: clCreateProgramWithBinary_t,
    clBuildProgram: clBuildProgram_t,
    clRetainProgram: clRetainProgram_t,
    clReleaseProgram: clReleaseProgram_t,
    clGetProgramInfo: clGetProgramInfo_t,
    clGetProgramBuildInfo: clGetProgramBuildInfo_t,
    clCreateKernel: clCreateKernel_t,
    clCloneKernel: clCloneKernel_t,
    clSetKernelArg: clSetKernelArg_t,
    clRetainKernel: clRetainKernel_t,
    clReleaseKernel: clReleaseKernel_t,
    clGetKernelInfo: clGetKernelInfo_t,
    clGetKernelArgInfo: clGetKernelArgInfo_t,
    clGetKernelWorkGroupInfo: clGetKernelWorkGroupInfo_t,
    clEnqueueNDRangeKernel: clEnqueueNDRangeKernel_t,
    clEnqueueReadBuffer: clEnqueueReadBuffer_t,
    clEnqueueWriteBuffer: clEnqueueWriteBuffer_t,
    clEnqueueCopyBuffer: clEnqueueCopyBuffer_t,
    clEnqueueReadBufferRect: clEnqueueReadBufferRect_t,
    clEnqueueWriteBufferRect: clEnqueueWriteBufferRect_t,
    clEnqueueCopyBufferRect: clEnqueueCopyBufferRect_t,
    clEnqueueFillBuffer: clEnqueueFillBuffer_t,
    clEnqueueMapBuffer: clEnqueueMapBuffer_t,
    clEnqueueUnmapMemObject: clEnqueueUnmapMemObject_t,
    clEnqueueNativeKernel: clEnqueueNativeKernel_t,
    clEnqueueTask: clEnqueueTask_t,
    clEnqueueMigrateMemObjects: clEnqueueMigrateMemObjects_t,
    clEnqueueMarkerWithWaitList: clEnqueueMarkerWithWaitList_t,
    clEnqueueBarrierWithWaitList: clEnqueueBarrierWithWaitList_t,
    clCreateUserEvent: clCreateUserEvent_t,
    clSetUserEventStatus: clSetUserEventStatus_t,
    clWaitForEvents: clWaitForEvents_t,
    clGetEventInfo: clGetEventInfo_t,
    clRetainEvent: clRetainEvent_t,
    clReleaseEvent: clReleaseEvent_t,
    clSetEventCallback: clSetEventCallback_t,
    clGetEventProfilingInfo: clGetEventProfilingInfo_t,
    clCreateImage: clCreateImage_t,
    clCreateImage2D: clCreateImage2D_t,
    clGetSupportedImageFormats: clGetSupportedImageFormats_t,
    clGetImageInfo: clGetImageInfo_t,
    clEnqueueReadImage: clEnqueueReadImage_t,
    clEnqueueWriteImage: clEnqueueWriteImage_t,
    clEnqueueCopyImage: clEnqueueCopyImage_t,
    clEnqueueFillImage: clEnqueueFillImage_t,
    clEnqueueCopyImageToBuffer: clEnqueueCopyImageToBuffer_t,
    clEnqueueCopyBufferToImage: clEnqueueCopyBufferToImage_t,
    clEnqueueMapImage: clEnqueueMapImage_t,
    clCreateSampler: clCreateSampler_t,
    clReleaseSampler: clReleaseSampler_t,
    clGetSamplerInfo: clGetSamplerInfo_t,
    clSVMAlloc: clSVMAlloc_t,
    clSVMFree: clSVMFree_t,
    clEnqueueSVMFree: clEnqueueSVMFree_t,
    clEnqueueSVMMemcpy: clEnqueueSVMMemcpy_t,
    clEnqueueSVMMemFill: clEnqueueSVMMemFill_t,
    clEnqueueSVMMap: clEnqueueSVMMap_t,
    clEnqueueSVMUnmap: clEnqueueSVMUnmap_t,
    clSetKernelArgSVMPointer: clSetKernelArgSVMPointer_t,
    clSetKernelExecInfo: clSetKernelExecInfo_t,
    clFlush: clFlush_t,
    clFinish: clFinish_t,
    clGetExtensionFunctionAddressForPlatform: clGetExtensionFunctionAddressForPlatform_t,
}

impl Api {
    /// The address of a name that the library exports.
    pub(crate) fn address(&self, name: &str) -> Option<*mut c_void> {
        // SAFETY: only the address is looked at; the library is never unloaded.
        let address = unsafe {
            self.library
                .get::<*mut c_void>(name.as_bytes())
                .ok()?
                .try_as_raw_ptr()
        };
        Some(address?.cast())
    }
}

/// A function of an extension, as programs ask for it.
pub(crate) fn extension<T: Copy>(name: &str) -> T {
    let name = CString::new(name).unwrap();
    let mut platform = null_mut();
    // SAFETY: room for one platform; a text that ends with a zero.
    let address = unsafe {
        ok(clGetPlatformIDs()(1, &raw mut platform, null_mut()));
        clGetExtensionFunctionAddressForPlatform()(platform, name.as_ptr())
    };
    assert!(!address.is_null(), "{name:?}");
    assert_eq!(size_of::<T>(), size_of_val(&address));
    // SAFETY: the caller names the function's own type, which is an optional pointer.
    unsafe { std::mem::transmute_copy(&address) }
}

/// The path of the library that was built: beside the test, which depends on it.
pub(crate) fn path() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let path = own.parent().unwrap().join("libquipu_opencl.so");
    assert!(path.is_file(), "{} is not there", path.display());
    path
}

pub(crate) fn api() -> &'static Api {
    static API: OnceLock<Api> = OnceLock::new();
    // SAFETY: the library has no initialisers.
    API.get_or_init(|| Api::new(unsafe { Library::new(path()) }.unwrap()))
}

/// A device, a context and a queue.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) device: cl_device_id,
    pub(crate) context: cl_context,
    pub(crate) queue: cl_command_queue,
}

// SAFETY: handles may be used from any thread.
unsafe impl Send for Setup {}
// SAFETY: as for `Send`.
unsafe impl Sync for Setup {}

pub(crate) fn ok(code: cl_int) {
    assert_eq!(code, CL_SUCCESS);
}

/// The status of an event's command.
pub(crate) fn status(event: cl_event) -> cl_int {
    let mut status = 77;
    // SAFETY: room for one number.
    ok(unsafe {
        clGetEventInfo()(
            event,
            CL_EVENT_COMMAND_EXECUTION_STATUS,
            size_of::<cl_int>(),
            (&raw mut status).cast(),
            null_mut(),
        )
    });
    status
}

/// Looks at the code that a creating function gives.
pub(crate) fn made(make: impl FnOnce(*mut cl_int) -> *mut c_void) -> *mut c_void {
    let mut code = 1;
    let object = make(&raw mut code);
    ok(code);
    assert!(!object.is_null());
    object
}

/// The code with which nothing is made.
pub(crate) fn refused(make: impl FnOnce(*mut cl_int) -> *mut c_void) -> cl_int {
    let mut code = 1;
    assert!(make(&raw mut code).is_null());
    code
}

impl Setup {
    pub(crate) fn new() -> Self {
        Self::with(CL_QUEUE_PROFILING_ENABLE)
    }

    pub(crate) fn with(properties: cl_command_queue_properties) -> Self {
        // The processor, unless the platform has the devices that somebody asks for.
        let kind = match std::env::var_os("QUIPU_OPENCL_DEVICES") {
            None => CL_DEVICE_TYPE_CPU,
            Some(_) => CL_DEVICE_TYPE_ALL,
        };
        Self::of(kind, properties).unwrap()
    }

    /// Of the first device of a type; none if there is none.
    pub(crate) fn of(
        kind: cl_device_type,
        properties: cl_command_queue_properties,
    ) -> Option<Self> {
        let mut device = null_mut();
        // SAFETY: room for one device; no properties; where the codes go.
        unsafe {
            match clGetDeviceIDs()(null_mut(), kind, 1, &raw mut device, null_mut()) {
                CL_DEVICE_NOT_FOUND => return None,
                code => ok(code),
            }
            let context = made(|code| {
                clCreateContext()(null(), 1, &raw const device, None, null_mut(), code)
            });
            let queue = made(|code| clCreateCommandQueue()(context, device, properties, code));
            Some(Self {
                device,
                context,
                queue,
            })
        }
    }

    /// A buffer that holds these values.
    pub(crate) fn buffer<T: Copy>(&self, values: &[T]) -> cl_mem {
        let flags = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR;
        let bytes = size_of_val(values);
        // SAFETY: there are as many bytes.
        made(|code| unsafe {
            clCreateBuffer()(
                self.context,
                flags,
                bytes,
                values.as_ptr().cast_mut().cast(),
                code,
            )
        })
    }

    /// The content of a buffer, once the queue has come there.
    pub(crate) fn read<T: Copy + Default>(&self, buffer: cl_mem, count: usize) -> Vec<T> {
        let mut values = vec![T::default(); count];
        let bytes = size_of_val(&values[..]);
        // SAFETY: there is room for as many bytes.
        ok(unsafe {
            clEnqueueReadBuffer()(
                self.queue,
                buffer,
                CL_TRUE,
                0,
                bytes,
                values.as_mut_ptr().cast(),
                0,
                null(),
                null_mut(),
            )
        });
        values
    }

    /// A program; its code, and its log.
    pub(crate) fn try_build(&self, text: &str, options: &str) -> (cl_program, cl_int, String) {
        let (text, options) = (CString::new(text).unwrap(), CString::new(options).unwrap());
        let mut first = text.as_ptr();
        // SAFETY: texts that end with a zero; room for the log.
        unsafe {
            let program = made(|code| {
                clCreateProgramWithSource()(self.context, 1, &raw mut first, null(), code)
            });
            let code = clBuildProgram()(
                program,
                1,
                &raw const self.device,
                options.as_ptr(),
                None,
                null_mut(),
            );
            let mut log = vec![0_u8; 1 << 16];
            let mut length = 0;
            ok(clGetProgramBuildInfo()(
                program,
                self.device,
                CL_PROGRAM_BUILD_LOG,
                log.len(),
                log.as_mut_ptr().cast(),
                &raw mut length,
            ));
            let log = String::from_utf8_lossy(&log[..length - 1]).into_owned();
            (program, code, log)
        }
    }

    pub(crate) fn kernel(&self, text: &str, name: &str) -> cl_kernel {
        let (program, code, log) = self.try_build(text, "");
        assert_eq!(code, CL_SUCCESS, "{log}");
        let name = CString::new(name).unwrap();
        // SAFETY: a text that ends with a zero.
        made(|code| unsafe { clCreateKernel()(program, name.as_ptr(), code) })
    }

    /// Gives the device time for all that need not wait: it does other things, in a queue of their
    /// own.
    pub(crate) fn do_other_things(&self) {
        let order = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
        // SAFETY: the context's device; a pattern of one byte.
        unsafe {
            let queue = made(|code| clCreateCommandQueue()(self.context, self.device, order, code));
            for _ in 0..100 {
                let (buffer, value) = (self.buffer(&[0_u8; 1 << 16]), 1_u8);
                for _ in 0..10 {
                    ok(clEnqueueFillBuffer()(
                        queue,
                        buffer,
                        (&raw const value).cast(),
                        1,
                        0,
                        1 << 16,
                        0,
                        null(),
                        null_mut(),
                    ));
                }
                ok(clFinish()(queue));
                ok(clReleaseMemObject()(buffer));
            }
            ok(clReleaseCommandQueue()(queue));
        }
    }

    pub(crate) fn finish(&self) {
        // SAFETY: a handle.
        ok(unsafe { clFinish()(self.queue) });
    }
}

/// Sets an argument.
pub(crate) fn set<T>(kernel: cl_kernel, index: u32, value: &T) -> cl_int {
    // SAFETY: the value's own bytes.
    unsafe {
        clSetKernelArg()(
            kernel,
            index,
            size_of::<T>(),
            std::ptr::from_ref(value).cast(),
        )
    }
}

/// True if this machine can compile OpenCL C; says so if it cannot.
pub(crate) fn compiles() -> bool {
    let mut available: cl_bool = 0;
    let setup = Setup::new();
    // SAFETY: room for the answer.
    ok(unsafe {
        clGetDeviceInfo()(
            setup.device,
            CL_DEVICE_COMPILER_AVAILABLE,
            size_of::<cl_bool>(),
            (&raw mut available).cast(),
            null_mut(),
        )
    });
    if available == CL_TRUE {
        return true;
    }
    assert!(
        std::env::var_os("QUIPU_TEST_CLC").is_none(),
        "there is no compiler, and QUIPU_TEST_CLC wants it: LLVM, and the program quipu-clc (cargo build -p quipu-clc)"
    );
    println!(
        "NOT TESTED: kernels in OpenCL C: no clang, lld and libLLVM of a version from 18 to 22, or no quipu-clc"
    );
    false
}
