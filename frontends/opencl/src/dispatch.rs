//! The table of functions that handles begin with, for ICD loaders, and functions by their names.

use crate::absent::*;
use crate::address::*;
use crate::command_buffer::*;
use crate::content_size::*;
use crate::context::*;
use crate::device::*;
use crate::enqueue::*;
use crate::event::*;
use crate::graphics::*;
use crate::icd::*;
use crate::image::*;
use crate::kernel::*;
use crate::memory::*;
use crate::platform::*;
use crate::program::*;
use crate::queue::*;
use crate::sampler::*;
use crate::semaphore::*;
use crate::svm::*;
use crate::unified::*;
use opencl_sys::cl_icd::cl_icd_dispatch;
use std::ffi::c_void;
use std::mem::offset_of;

/// The table, whose entries are words.
#[repr(C)]
pub(crate) union Table {
    functions: cl_icd_dispatch,
    words: [isize; size_of::<cl_icd_dispatch>() / size_of::<isize>()],
}

/// `CL_ICD2_TAG_KHR`: says that loaders may make tables of their own.
const TAG: isize = 0x4F50_454E_434C_3331;
/// The entries that it takes: those of `clGetPlatformIDs` and `clUnloadCompiler`. No loader calls
/// them, for they have no object.
const TAGGED: [usize; 2] = [
    offset_of!(cl_icd_dispatch, clGetPlatformIDs) / size_of::<isize>(),
    offset_of!(cl_icd_dispatch, clUnloadCompiler) / size_of::<isize>(),
];

/// Makes the table of a list of functions. Those of other systems and of graphics are absent: the
/// platform lists none of their extensions.
macro_rules! table {
    (functions { $($name:ident = $function:ident;)+ } absent { $($absent:ident),+ } extensions { $($extension:literal = $of:ident;)+ }) => {
        /// The table.
        pub(crate) static DISPATCH: Table = {
            let functions = cl_icd_dispatch {
                $($name: Some($function),)+
                $($absent: None,)+
            };
            let mut table = Table { functions };
            let [first, second] = TAGGED;
            // SAFETY: an entry is a word, and as a word nothing else reads it. The rest stay
            // functions.
            unsafe {
                table.words[first] = TAG;
                table.words[second] = TAG;
            }
            table
        };

        /// The address of a function of the API or of an extension; null of one that there is not.
        pub(crate) fn function(name: &[u8]) -> *mut c_void {
            $(if name == stringify!($name).as_bytes() {
                return $function as *const () as *mut c_void;
            })+
            $(if name == $extension.as_bytes() {
                return $of as *const () as *mut c_void;
            })+
            std::ptr::null_mut()
        }
    };
}

table! {
    functions {
    clGetPlatformIDs = get_platform_ids;
    clGetPlatformInfo = get_platform_info;
    clGetDeviceIDs = get_device_ids;
    clGetDeviceInfo = get_device_info;
    clCreateContext = create_context;
    clCreateContextFromType = create_context_from_type;
    clRetainContext = retain_context;
    clReleaseContext = release_context;
    clGetContextInfo = get_context_info;
    clCreateCommandQueue = create_command_queue;
    clRetainCommandQueue = retain_command_queue;
    clReleaseCommandQueue = release_command_queue;
    clGetCommandQueueInfo = get_command_queue_info;
    clSetCommandQueueProperty = set_command_queue_property;
    clCreateBuffer = create_buffer;
    clCreateImage2D = create_image_2d;
    clCreateImage3D = create_image_3d;
    clRetainMemObject = retain_mem_object;
    clReleaseMemObject = release_mem_object;
    clGetSupportedImageFormats = get_supported_image_formats;
    clGetMemObjectInfo = get_mem_object_info;
    clGetImageInfo = get_image_info;
    clCreateSampler = create_sampler;
    clRetainSampler = retain_sampler;
    clReleaseSampler = release_sampler;
    clGetSamplerInfo = get_sampler_info;
    clCreateProgramWithSource = create_program_with_source;
    clCreateProgramWithBinary = create_program_with_binary;
    clRetainProgram = retain_program;
    clReleaseProgram = release_program;
    clBuildProgram = build_program;
    clUnloadCompiler = unload_compiler;
    clGetProgramInfo = get_program_info;
    clGetProgramBuildInfo = get_program_build_info;
    clCreateKernel = create_kernel;
    clCreateKernelsInProgram = create_kernels_in_program;
    clRetainKernel = retain_kernel;
    clReleaseKernel = release_kernel;
    clSetKernelArg = set_kernel_arg;
    clGetKernelInfo = get_kernel_info;
    clGetKernelWorkGroupInfo = get_kernel_work_group_info;
    clWaitForEvents = wait_for_events;
    clGetEventInfo = get_event_info;
    clRetainEvent = retain_event;
    clReleaseEvent = release_event;
    clGetEventProfilingInfo = get_event_profiling_info;
    clFlush = flush;
    clFinish = finish;
    clEnqueueReadBuffer = enqueue_read_buffer;
    clEnqueueWriteBuffer = enqueue_write_buffer;
    clEnqueueCopyBuffer = enqueue_copy_buffer;
    clEnqueueReadImage = enqueue_read_image;
    clEnqueueWriteImage = enqueue_write_image;
    clEnqueueCopyImage = enqueue_copy_image;
    clEnqueueCopyImageToBuffer = enqueue_copy_image_to_buffer;
    clEnqueueCopyBufferToImage = enqueue_copy_buffer_to_image;
    clEnqueueMapBuffer = enqueue_map_buffer;
    clEnqueueMapImage = enqueue_map_image;
    clEnqueueUnmapMemObject = enqueue_unmap_mem_object;
    clEnqueueNDRangeKernel = enqueue_nd_range_kernel;
    clEnqueueTask = enqueue_task;
    clEnqueueNativeKernel = enqueue_native_kernel;
    clEnqueueMarker = enqueue_marker;
    clEnqueueWaitForEvents = enqueue_wait_for_events;
    clEnqueueBarrier = enqueue_barrier;
    clGetExtensionFunctionAddress = get_extension_function_address;
    clSetEventCallback = set_event_callback;
    clCreateSubBuffer = create_sub_buffer;
    clSetMemObjectDestructorCallback = set_mem_object_destructor_callback;
    clCreateUserEvent = create_user_event;
    clSetUserEventStatus = set_user_event_status;
    clEnqueueReadBufferRect = enqueue_read_buffer_rect;
    clEnqueueWriteBufferRect = enqueue_write_buffer_rect;
    clEnqueueCopyBufferRect = enqueue_copy_buffer_rect;
    clCreateSubDevices = create_sub_devices;
    clRetainDevice = retain_device;
    clReleaseDevice = release_device;
    clCreateImage = create_image;
    clCreateProgramWithBuiltInKernels = create_program_with_built_in_kernels;
    clCompileProgram = compile_program;
    clLinkProgram = link_program;
    clUnloadPlatformCompiler = unload_platform_compiler;
    clGetKernelArgInfo = get_kernel_arg_info;
    clEnqueueFillBuffer = enqueue_fill_buffer;
    clEnqueueFillImage = enqueue_fill_image;
    clEnqueueMigrateMemObjects = enqueue_migrate_mem_objects;
    clEnqueueMarkerWithWaitList = enqueue_marker_with_wait_list;
    clEnqueueBarrierWithWaitList = enqueue_barrier_with_wait_list;
    clGetExtensionFunctionAddressForPlatform = get_extension_function_address_for_platform;
    clCreateCommandQueueWithProperties = create_command_queue_with_properties;
    clCreatePipe = create_pipe;
    clGetPipeInfo = get_pipe_info;
    clSVMAlloc = svm_alloc;
    clSVMFree = svm_free;
    clEnqueueSVMFree = enqueue_svm_free;
    clEnqueueSVMMemcpy = enqueue_svm_memcpy;
    clEnqueueSVMMemFill = enqueue_svm_mem_fill;
    clEnqueueSVMMap = enqueue_svm_map;
    clEnqueueSVMUnmap = enqueue_svm_unmap;
    clCreateSamplerWithProperties = create_sampler_with_properties;
    clSetKernelArgSVMPointer = set_kernel_arg_svm_pointer;
    clSetKernelExecInfo = set_kernel_exec_info;
    clCloneKernel = clone_kernel;
    clCreateProgramWithIL = create_program_with_il;
    clEnqueueSVMMigrateMem = enqueue_svm_migrate_mem;
    clGetDeviceAndHostTimer = get_device_and_host_timer;
    clGetHostTimer = get_host_timer;
    clGetKernelSubGroupInfo = get_kernel_sub_group_info;
    clSetDefaultDeviceCommandQueue = set_default_device_command_queue;
    clSetProgramReleaseCallback = set_program_release_callback;
    clSetProgramSpecializationConstant = set_program_specialization_constant;
    clCreateBufferWithProperties = create_buffer_with_properties;
    clCreateImageWithProperties = create_image_with_properties;
    clSetContextDestructorCallback = set_context_destructor_callback;
    clGetKernelSuggestedLocalWorkSize = get_kernel_suggested_local_work_size;
    clCreateFromGLBuffer = create_from_gl_buffer;
    clCreateFromGLTexture = create_from_gl_texture;
    clCreateFromGLTexture2D = create_from_gl_texture_2d;
    clCreateFromGLTexture3D = create_from_gl_texture_3d;
    clCreateFromGLRenderbuffer = create_from_gl_renderbuffer;
    clCreateFromEGLImageKHR = create_from_egl_image;
    clCreateEventFromGLsyncKHR = create_event_from_gl_sync;
    clCreateEventFromEGLSyncKHR = create_event_from_egl_sync;
    clEnqueueAcquireGLObjects = enqueue_acquire_gl_objects;
    clEnqueueReleaseGLObjects = enqueue_release_gl_objects;
    clEnqueueAcquireEGLObjectsKHR = enqueue_acquire_egl_objects;
    clEnqueueReleaseEGLObjectsKHR = enqueue_release_egl_objects;
    clGetGLObjectInfo = get_gl_object_info;
    clGetGLTextureInfo = get_gl_texture_info;
    clGetGLContextInfoKHR = get_gl_context_info;
    clCreateSubDevicesEXT = create_sub_devices_ext;
    clRetainDeviceEXT = retain_device_ext;
    clReleaseDeviceEXT = release_device_ext;
    clGetKernelSubGroupInfoKHR = get_kernel_sub_group_info_khr;
    }
    absent {
        clGetDeviceIDsFromD3D10KHR,
        clCreateFromD3D10BufferKHR,
        clCreateFromD3D10Texture2DKHR,
        clCreateFromD3D10Texture3DKHR,
        clEnqueueAcquireD3D10ObjectsKHR,
        clEnqueueReleaseD3D10ObjectsKHR,
        clGetDeviceIDsFromD3D11KHR,
        clCreateFromD3D11BufferKHR,
        clCreateFromD3D11Texture2DKHR,
        clCreateFromD3D11Texture3DKHR,
        clCreateFromDX9MediaSurfaceKHR,
        clEnqueueAcquireD3D11ObjectsKHR,
        clEnqueueReleaseD3D11ObjectsKHR,
        clGetDeviceIDsFromDX9MediaAdapterKHR,
        clEnqueueAcquireDX9MediaSurfacesKHR,
        clEnqueueReleaseDX9MediaSurfacesKHR
    }
    extensions {
        "clIcdGetPlatformIDsKHR" = icd_get_platform_ids;
        "clCreateProgramWithILKHR" = create_program_with_il_khr;
        "clCreateCommandQueueWithPropertiesKHR" = create_command_queue_with_properties;
        "clGetKernelSuggestedLocalWorkSizeKHR" = get_kernel_suggested_local_work_size;
        "clHostMemAllocINTEL" = host_mem_alloc;
        "clDeviceMemAllocINTEL" = device_mem_alloc;
        "clSharedMemAllocINTEL" = shared_mem_alloc;
        "clMemFreeINTEL" = mem_free;
        "clMemBlockingFreeINTEL" = mem_blocking_free;
        "clGetMemAllocInfoINTEL" = get_mem_alloc_info;
        "clSetKernelArgMemPointerINTEL" = set_kernel_arg_mem_pointer;
        "clEnqueueMemcpyINTEL" = enqueue_memcpy;
        "clEnqueueMemFillINTEL" = enqueue_mem_fill;
        "clEnqueueMemsetINTEL" = enqueue_memset;
        "clEnqueueMigrateMemINTEL" = enqueue_migrate_mem;
        "clEnqueueMemAdviseINTEL" = enqueue_mem_advise;
        "clCreateCommandBufferKHR" = create_command_buffer;
        "clRetainCommandBufferKHR" = retain_command_buffer;
        "clReleaseCommandBufferKHR" = release_command_buffer;
        "clFinalizeCommandBufferKHR" = finalize_command_buffer;
        "clEnqueueCommandBufferKHR" = enqueue_command_buffer;
        "clGetCommandBufferInfoKHR" = get_command_buffer_info;
        "clCommandBarrierWithWaitListKHR" = command_barrier_with_wait_list;
        "clCommandCopyBufferKHR" = command_copy_buffer;
        "clCommandCopyBufferRectKHR" = command_copy_buffer_rect;
        "clCommandFillBufferKHR" = command_fill_buffer;
        "clCommandCopyImageKHR" = command_copy_image;
        "clCommandCopyImageToBufferKHR" = command_copy_image_to_buffer;
        "clCommandCopyBufferToImageKHR" = command_copy_buffer_to_image;
        "clCommandFillImageKHR" = command_fill_image;
        "clCommandSVMMemcpyKHR" = command_svm_memcpy;
        "clCommandSVMMemFillKHR" = command_svm_mem_fill;
        "clCommandNDRangeKernelKHR" = command_nd_range_kernel;
        "clRemapCommandBufferKHR" = remap_command_buffer;
        "clUpdateMutableCommandsKHR" = update_mutable_commands;
        "clGetMutableCommandInfoKHR" = get_mutable_command_info;
        "clSetKernelArgDevicePointerEXT" = set_kernel_arg_device_pointer;
        "clSetContentSizeBufferPoCL" = set_content_size_buffer;
        "clCreateSemaphoreWithPropertiesKHR" = create_semaphore;
        "clRetainSemaphoreKHR" = retain_semaphore;
        "clReleaseSemaphoreKHR" = release_semaphore;
        "clGetSemaphoreInfoKHR" = get_semaphore_info;
        "clGetSemaphoreHandleForTypeKHR" = get_semaphore_handle_for_type;
        "clEnqueueWaitSemaphoresKHR" = enqueue_wait_semaphores;
        "clEnqueueSignalSemaphoresKHR" = enqueue_signal_semaphores;
        "clIcdGetFunctionAddressForPlatformKHR" = icd_get_function_address_for_platform;
        "clIcdSetPlatformDispatchDataKHR" = icd_set_platform_dispatch_data;
    }
}
