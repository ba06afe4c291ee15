//! OpenCL C through the system's OpenCL loader, which is loaded when it is first asked for.

use std::ffi::{CString, c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use libloading::Library;
use quipu_kernel_ir::print::Fault;
use quipu_kernel_ir::{OpenClFeatures, Printed};

use crate::launch::{Argument, Division, Launch, NO_FAULT, Slot};
use crate::{TestingError, numbered};

/// An object of OpenCL.
type Object = *mut c_void;

const DEVICE_TYPE_ALL: u64 = 0xffff_ffff;
const PLATFORM_VERSION: u32 = 0x0901;
const PLATFORM_NAME: u32 = 0x0902;
const DEVICE_NAME: u32 = 0x102b;
const DEVICE_VERSION: u32 = 0x102f;
const DEVICE_EXTENSIONS: u32 = 0x1030;
/// `CL_DEVICE_ATOMIC_FENCE_CAPABILITIES`, of OpenCL 3.0.
const ATOMIC_FENCES: u32 = 0x1064;
const MEM_READ_WRITE: u64 = 1;
const MEM_COPY_HOST_PTR: u64 = 1 << 5;
const PROGRAM_BUILD_LOG: u32 = 0x1183;

macro_rules! functions {
    ($($field:ident = $name:literal: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions of OpenCL that are used.
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            /// # Safety
            /// The library is an OpenCL loader, and stays loaded.
            unsafe fn load(library: &Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: these are OpenCL's types of these functions.
                    $($field: unsafe { *library.get(concat!($name, "\0").as_bytes())? },)*
                })
            }
        }
    };
}

functions! {
    get_platform_info = "clGetPlatformInfo": fn(Object, u32, usize, *mut c_void, *mut usize) -> i32;
    get_platforms = "clGetPlatformIDs": fn(u32, *mut Object, *mut u32) -> i32;
    get_devices = "clGetDeviceIDs": fn(Object, u64, u32, *mut Object, *mut u32) -> i32;
    get_device_info = "clGetDeviceInfo": fn(Object, u32, usize, *mut c_void, *mut usize) -> i32;
    create_context = "clCreateContext":
        fn(*const isize, u32, *const Object, *const c_void, *mut c_void, *mut i32) -> Object;
    create_queue = "clCreateCommandQueue": fn(Object, Object, u64, *mut i32) -> Object;
    create_program = "clCreateProgramWithSource":
        fn(Object, u32, *const *const c_char, *const usize, *mut i32) -> Object;
    build_program = "clBuildProgram":
        fn(Object, u32, *const Object, *const c_char, *const c_void, *mut c_void) -> i32;
    get_build_info = "clGetProgramBuildInfo":
        fn(Object, Object, u32, usize, *mut c_void, *mut usize) -> i32;
    release_program = "clReleaseProgram": fn(Object) -> i32;
    create_kernel = "clCreateKernel": fn(Object, *const c_char, *mut i32) -> Object;
    release_kernel = "clReleaseKernel": fn(Object) -> i32;
    set_argument = "clSetKernelArg": fn(Object, u32, usize, *const c_void) -> i32;
    create_buffer = "clCreateBuffer": fn(Object, u64, usize, *mut c_void, *mut i32) -> Object;
    release_buffer = "clReleaseMemObject": fn(Object) -> i32;
    enqueue_kernel = "clEnqueueNDRangeKernel":
        fn(Object, Object, u32, *const usize, *const usize, *const usize, u32, *const Object, *mut Object) -> i32;
    enqueue_read = "clEnqueueReadBuffer":
        fn(Object, Object, u32, usize, usize, *mut c_void, u32, *const Object, *mut Object) -> i32;
    finish = "clFinish": fn(Object) -> i32;
}

/// The first device of the first platform, or of the first whose name has what
/// `QUIPU_TEST_OPENCL_PLATFORM` says in it.
struct Machine {
    functions: Functions,
    device: Object,
    context: Object,
    queue: Object,
    name: String,
    extensions: String,
    features: OpenClFeatures,
    /// Keeps the functions where they are.
    _library: Library,
}

// SAFETY: OpenCL's objects may be used by any thread; its functions, but for setting a kernel's
// arguments, by several at a time, and each kernel here is used by one.
unsafe impl Send for Machine {}
// SAFETY: as above.
unsafe impl Sync for Machine {}

fn check(function: &'static str, code: i32) -> Result<(), TestingError> {
    if code == 0 {
        Ok(())
    } else {
        Err(TestingError::OpenCl { function, code })
    }
}

fn machine() -> Result<&'static Machine, TestingError> {
    static MACHINE: OnceLock<Result<Machine, String>> = OnceLock::new();
    MACHINE
        .get_or_init(|| Machine::open().map_err(|error| error.to_string()))
        .as_ref()
        .map_err(|error| TestingError::NoOpenCl(error.clone()))
}

impl Machine {
    fn open() -> Result<Self, TestingError> {
        // SAFETY: loading an OpenCL loader runs its initialisers, which ask nothing of us.
        let library =
            unsafe { Library::new("libOpenCL.so.1").or_else(|_| Library::new("libOpenCL.so")) }?;
        // SAFETY: that library is one, and is kept.
        let functions = unsafe { Functions::load(&library) }?;
        let platform = platform(&functions)?;
        let version = about(&functions, platform, PLATFORM_VERSION).unwrap_or_default();
        let mut device = null_mut();
        // SAFETY: each pointer is to one of what it says, and the numbers of objects are 1.
        unsafe {
            check(
                "clGetDeviceIDs",
                (functions.get_devices)(platform, DEVICE_TYPE_ALL, 1, &mut device, null_mut()),
            )?;
            let mut code = 0;
            let context =
                (functions.create_context)(null(), 1, &device, null(), null_mut(), &mut code);
            check("clCreateContext", code)?;
            let queue = (functions.create_queue)(context, device, 0, &mut code);
            check("clCreateCommandQueue", code)?;
            let text = |what| {
                let mut length = 0;
                (functions.get_device_info)(device, what, 0, null_mut(), &mut length);
                let mut bytes = vec![0_u8; length];
                let start = bytes.as_mut_ptr().cast();
                (functions.get_device_info)(device, what, length, start, null_mut());
                String::from_utf8_lossy(&bytes)
                    .trim_end_matches('\0')
                    .to_owned()
            };
            let mut fences = 0_u64;
            let start = (&raw mut fences).cast();
            (functions.get_device_info)(device, ATOMIC_FENCES, 8, start, null_mut());
            let device_version = text(DEVICE_VERSION);
            Ok(Self {
                name: text(DEVICE_NAME),
                extensions: text(DEVICE_EXTENSIONS),
                features: OpenClFeatures::usual_on(&version).with_fences(&device_version, fences),
                functions,
                device,
                context,
                queue,
                _library: library,
            })
        }
    }
}

/// A platform's description of itself.
fn about(functions: &Functions, platform: Object, what: u32) -> Option<String> {
    let mut bytes = [0_u8; 256];
    // SAFETY: there is room for so many bytes.
    let code = unsafe {
        let start = bytes.as_mut_ptr().cast();
        (functions.get_platform_info)(platform, what, bytes.len(), start, null_mut())
    };
    let text = String::from_utf8_lossy(&bytes);
    (code == 0).then(|| text.trim_end_matches('\0').to_owned())
}

/// The platform that tests run on.
fn platform(functions: &Functions) -> Result<Object, TestingError> {
    const MOST: usize = 16;
    let wanted = std::env::var("QUIPU_TEST_OPENCL_PLATFORM").unwrap_or_default();
    let (mut platforms, mut count) = ([null_mut(); MOST], 0);
    // SAFETY: there is room for so many platforms.
    let code =
        unsafe { (functions.get_platforms)(MOST as u32, platforms.as_mut_ptr(), &mut count) };
    check("clGetPlatformIDs", code)?;
    let platforms = &platforms[..MOST.min(count as usize)];
    let name = |platform: &Object| about(functions, *platform, PLATFORM_NAME);
    let named = |platform: &&Object| name(platform).is_some_and(|name| name.contains(&wanted));
    platforms.iter().find(named).copied().ok_or_else(|| {
        let names: Vec<String> = platforms.iter().filter_map(name).collect();
        TestingError::NoOpenCl(format!(
            "no platform is called '{wanted}'; there are {names:?}"
        ))
    })
}

/// The name and the extensions of the device that tests run on.
///
/// # Errors
/// If there is none.
pub fn opencl_device() -> Result<(&'static str, &'static str), TestingError> {
    let machine = machine()?;
    Ok((&machine.name, &machine.extensions))
}

/// The printed text for that device; without one, for any device.
#[must_use]
pub fn opencl_features() -> OpenClFeatures {
    machine().map_or(OpenClFeatures::USUAL, |machine| machine.features)
}

/// True if there is an OpenCL device; false if there is none and `QUIPU_TEST_WITHOUT_OPENCL=1` says
/// that tests may leave out what needs one, which is then said loudly.
///
/// # Panics
/// If there is none and they may not.
#[must_use]
pub fn opencl_or_skip() -> bool {
    let Err(error) = machine() else {
        return true;
    };
    assert!(
        std::env::var("QUIPU_TEST_WITHOUT_OPENCL").is_ok_and(|value| value == "1"),
        "{error}\nInstall one (Debian: pocl-opencl-icd ocl-icd-libopencl1), or set QUIPU_TEST_WITHOUT_OPENCL=1 to leave \
         such tests out."
    );
    eprintln!("\n*** NOT TESTED: OpenCL C. {error}\n");
    false
}

/// A printed kernel, built.
pub struct OpenClProgram {
    printed: Printed,
    machine: &'static Machine,
    program: Object,
}

impl std::fmt::Debug for OpenClProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenClProgram")
            .field("entry", &self.printed.entry)
            .finish_non_exhaustive()
    }
}

impl Drop for OpenClProgram {
    fn drop(&mut self) {
        // SAFETY: it is ours, and given up once.
        unsafe { (self.machine.functions.release_program)(self.program) };
    }
}

/// Objects that are given up in the end.
struct Held {
    machine: &'static Machine,
    buffers: Vec<Object>,
    kernel: Object,
}

impl Drop for Held {
    fn drop(&mut self) {
        let functions = &self.machine.functions;
        // SAFETY: they are ours, and given up once.
        unsafe {
            for buffer in &self.buffers {
                (functions.release_buffer)(*buffer);
            }
            (functions.release_kernel)(self.kernel);
        }
    }
}

impl OpenClProgram {
    /// Builds for the machine's first device.
    ///
    /// # Errors
    /// The compiler's messages, with the source.
    pub fn compile(printed: &Printed) -> Result<Self, TestingError> {
        let machine = machine()?;
        let functions = &machine.functions;
        let source = printed.source.as_ptr().cast::<c_char>();
        let length = printed.source.len();
        let mut code = 0;
        // SAFETY: one string of that length.
        let program =
            unsafe { (functions.create_program)(machine.context, 1, &source, &length, &mut code) };
        check("clCreateProgramWithSource", code)?;
        let program = Self {
            printed: printed.clone(),
            machine,
            program,
        };
        let options = c_string(&printed.compiler_options.join(" "))?;
        // SAFETY: one device, and a string that ends with zero.
        let code = unsafe {
            (functions.build_program)(
                program.program,
                1,
                &machine.device,
                options.as_ptr(),
                null(),
                null_mut(),
            )
        };
        if code != 0 {
            let (what, mut length) = (PROGRAM_BUILD_LOG, 0);
            // SAFETY: asks for the length.
            unsafe {
                (functions.get_build_info)(
                    program.program,
                    machine.device,
                    what,
                    0,
                    null_mut(),
                    &mut length,
                );
            }
            let mut log = vec![0_u8; length];
            // SAFETY: as many bytes as that.
            unsafe {
                (functions.get_build_info)(
                    program.program,
                    machine.device,
                    what,
                    length,
                    log.as_mut_ptr().cast(),
                    null_mut(),
                );
            }
            return Err(TestingError::Compiler {
                log: format!("{code}: {}", String::from_utf8_lossy(&log)),
                source_text: numbered(&printed.source),
            });
        }
        Ok(program)
    }

    /// Runs the kernel; the first fault, if there was one.
    ///
    /// The grid is launched in two pieces along each axis, and each buffer starts some elements
    /// after the beginning of its memory object.
    ///
    /// # Errors
    /// If the launch does not fit the kernel, or OpenCL fails.
    pub fn run(&self, launch: &mut Launch) -> Result<Option<Fault>, TestingError> {
        const BEFORE: u64 = 3;
        let machine = self.machine;
        let functions = &machine.functions;
        let slots = launch.slots(&self.printed)?;
        let name = c_string(&self.printed.entry)?;
        let mut code = 0;
        // SAFETY: a built program and a string that ends with zero.
        let kernel = unsafe { (functions.create_kernel)(self.program, name.as_ptr(), &mut code) };
        check("clCreateKernel", code)?;
        let mut held = Held {
            machine,
            buffers: Vec::new(),
            kernel,
        };
        let mut buffer = |bytes: &mut [u8]| {
            let mut code = 0;
            // SAFETY: the bytes are copied at once.
            let buffer = unsafe {
                (functions.create_buffer)(
                    machine.context,
                    MEM_READ_WRITE | MEM_COPY_HOST_PTR,
                    bytes.len(),
                    bytes.as_mut_ptr().cast(),
                    &mut code,
                )
            };
            check("clCreateBuffer", code)?;
            held.buffers.push(buffer);
            Ok::<_, TestingError>(buffer)
        };
        let mut fault_bytes = bytemuck::bytes_of(&NO_FAULT).to_vec();
        let fault = buffer(&mut fault_bytes)?;
        let mut buffers = Vec::new();
        for argument in &launch.arguments {
            buffers.push(match argument {
                Argument::Elements { bytes, size, .. } => {
                    let mut all = vec![0xa5_u8; size * BEFORE as usize];
                    all.extend_from_slice(bytes);
                    buffer(&mut all)?
                }
                _ => null_mut(),
            });
        }
        for (number, slot) in slots.iter().enumerate() {
            let pointer;
            let start = BEFORE.to_ne_bytes();
            let (size, value): (usize, *const c_void) = match slot {
                Slot::Bytes(bytes) => (bytes.len(), bytes.as_ptr().cast()),
                Slot::Start => (start.len(), start.as_ptr().cast()),
                Slot::Local(bytes) => ((*bytes).max(1) as usize, null()),
                Slot::Elements(argument) => {
                    pointer = buffers[*argument];
                    (size_of::<Object>(), (&raw const pointer).cast())
                }
                Slot::GridBarrier => {
                    return Err(TestingError::Launch("a parameter of CUDA C".to_owned()));
                }
                Slot::Fault => {
                    pointer = fault;
                    (size_of::<Object>(), (&raw const pointer).cast())
                }
            };
            // SAFETY: as many bytes as are said, or none for local memory. Parameters are fewer
            // than 2^32.
            let code = unsafe { (functions.set_argument)(kernel, number as u32, size, value) };
            check("clSetKernelArg", code)?;
        }
        let blocks = Division::axes(&launch.division.blocks);
        let threads = Division::axes(&launch.division.threads);
        if blocks.contains(&0) {
            return Ok(None);
        }
        let local = threads.map(|threads| threads as usize);
        // In two pieces along each axis.
        let pieces = |axis: usize| {
            let first = blocks[axis].div_ceil(2);
            [(0, first), (first, blocks[axis] - first)].map(|(from, count)| {
                (
                    (from * threads[axis]) as usize,
                    (count * threads[axis]) as usize,
                )
            })
        };
        for z in pieces(2) {
            for y in pieces(1) {
                for x in pieces(0) {
                    let (offset, global) = ([x.0, y.0, z.0], [x.1, y.1, z.1]);
                    if global.contains(&0) {
                        continue;
                    }
                    // SAFETY: three sizes each; the kernel's arguments are set, and its buffers
                    // live until it has finished, which is waited for below.
                    let code = unsafe {
                        (functions.enqueue_kernel)(
                            machine.queue,
                            kernel,
                            3,
                            offset.as_ptr(),
                            global.as_ptr(),
                            local.as_ptr(),
                            0,
                            null(),
                            null_mut(),
                        )
                    };
                    check("clEnqueueNDRangeKernel", code)?;
                }
            }
        }
        // SAFETY: our own queue.
        check("clFinish", unsafe { (functions.finish)(machine.queue) })?;
        let read = |buffer: Object, skipped: usize, bytes: &mut [u8]| {
            if bytes.is_empty() {
                return Ok(());
            }
            // SAFETY: the buffer has so many bytes after those skipped, and the call waits for
            // them.
            let code = unsafe {
                (functions.enqueue_read)(
                    machine.queue,
                    buffer,
                    1,
                    skipped,
                    bytes.len(),
                    bytes.as_mut_ptr().cast(),
                    0,
                    null(),
                    null_mut(),
                )
            };
            check("clEnqueueReadBuffer", code)
        };
        for (argument, buffer) in launch.arguments.iter_mut().zip(&buffers) {
            if let Argument::Elements { bytes, size, .. } = argument {
                read(*buffer, *size * BEFORE as usize, bytes)?;
            }
        }
        read(fault, 0, &mut fault_bytes)?;
        let mut record = NO_FAULT;
        bytemuck::bytes_of_mut(&mut record).copy_from_slice(&fault_bytes);
        Ok(self.printed.fault(&record))
    }
}

fn c_string(text: &str) -> Result<CString, TestingError> {
    CString::new(text).map_err(|_| TestingError::Launch("a zero in a name".into()))
}
