//! CUDA C through NVRTC, which needs no GPU to compile for one, and through CUDA's driver where
//! there is one.

use std::ffi::{CString, c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use libloading::Library;
use quipu_kernel_ir::Printed;
use quipu_kernel_ir::print::{Fault, GRID_BARRIER_WORDS};

use crate::launch::{Argument, Division, Launch, NO_FAULT, Slot};
use crate::{TestingError, numbered};

/// An object of NVRTC's or CUDA's.
type Object = *mut c_void;

/// An address in a GPU's memory.
type Address = u64;

macro_rules! functions {
    ($(#[$documentation:meta])* $functions:ident: $($field:ident = $name:literal: fn($($argument:ty),*);)*) => {
        $(#[$documentation])*
        struct $functions {
            $($field: unsafe extern "C" fn($($argument),*) -> i32,)*
            /// Keeps the functions where they are.
            _library: Library,
        }

        impl $functions {
            /// # Safety
            /// The library is the one that these functions are of.
            unsafe fn load(library: Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: these are the library's types of these functions.
                    $($field: unsafe { *library.get(concat!($name, "\0").as_bytes())? },)*
                    _library: library,
                })
            }
        }
    };
}

functions! {
    /// The functions of NVRTC that are used.
    Compiler:
    create = "nvrtcCreateProgram":
        fn(*mut Object, *const c_char, *const c_char, i32, *const *const c_char, *const *const c_char);
    compile = "nvrtcCompileProgram": fn(Object, i32, *const *const c_char);
    log_size = "nvrtcGetProgramLogSize": fn(Object, *mut usize);
    log = "nvrtcGetProgramLog": fn(Object, *mut c_char);
    code_size = "nvrtcGetCUBINSize": fn(Object, *mut usize);
    code = "nvrtcGetCUBIN": fn(Object, *mut c_char);
    destroy = "nvrtcDestroyProgram": fn(*mut Object);
}

functions! {
    /// The functions of CUDA's driver that are used.
    Cuda:
    start = "cuInit": fn(u32);
    device = "cuDeviceGet": fn(*mut i32, i32);
    attribute = "cuDeviceGetAttribute": fn(*mut i32, i32, i32);
    retain = "cuDevicePrimaryCtxRetain": fn(*mut Object, i32);
    enter = "cuCtxSetCurrent": fn(Object);
    load_code = "cuModuleLoadData": fn(*mut Object, *const c_void);
    unload = "cuModuleUnload": fn(Object);
    function = "cuModuleGetFunction": fn(*mut Object, Object, *const c_char);
    allocate = "cuMemAlloc_v2": fn(*mut Address, usize);
    free = "cuMemFree_v2": fn(Address);
    write = "cuMemcpyHtoD_v2": fn(Address, *const c_void, usize);
    read = "cuMemcpyDtoH_v2": fn(*mut c_void, Address, usize);
    launch = "cuLaunchKernel":
        fn(Object, u32, u32, u32, u32, u32, u32, u32, Object, *mut *mut c_void, *mut *mut c_void);
    launch_together = "cuLaunchCooperativeKernel":
        fn(Object, u32, u32, u32, u32, u32, u32, u32, Object, *mut *mut c_void);
    finish = "cuCtxSynchronize": fn();
}

const MAJOR: i32 = 75;
const MINOR: i32 = 76;

/// The first GPU.
struct Gpu {
    cuda: Cuda,
    context: Object,
    /// The target of its code.
    architecture: String,
}

// SAFETY: CUDA's functions and contexts may be used by any thread, by several at a time.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

fn check(function: &'static str, code: i32) -> Result<(), TestingError> {
    if code == 0 {
        Ok(())
    } else {
        Err(TestingError::Cuda { function, code })
    }
}

/// `None` where there is no NVRTC. It is looked for as `QUIPU_NVRTC` says, and by its usual names.
fn compiler() -> Option<&'static Compiler> {
    static COMPILER: OnceLock<Option<Compiler>> = OnceLock::new();
    let find = || {
        let named = std::env::var("QUIPU_NVRTC").ok();
        let usual = [
            "libnvrtc.so",
            "libnvrtc.so.13",
            "libnvrtc.so.12",
            "libnvrtc.so.11.2",
        ];
        named.as_deref().into_iter().chain(usual).find_map(|name| {
            // SAFETY: loading the compiler runs its initialisers, which ask nothing of us; these
            // are its functions.
            unsafe { Compiler::load(Library::new(name).ok()?).ok() }
        })
    };
    COMPILER.get_or_init(find).as_ref()
}

/// `None` where there is none, or `QUIPU_TEST_CUDA=1` does not say that tests may use it.
fn gpu() -> Result<Option<&'static Gpu>, TestingError> {
    static GPU: OnceLock<Result<Option<Gpu>, String>> = OnceLock::new();
    let open = || {
        if std::env::var("QUIPU_TEST_CUDA").is_ok_and(|value| value == "1") {
            Gpu::open().map(Some).map_err(|error| error.to_string())
        } else {
            Ok(None)
        }
    };
    let gpu = GPU.get_or_init(open).as_ref();
    gpu.map(Option::as_ref)
        .map_err(|error| TestingError::Launch(error.clone()))
}

impl Gpu {
    fn open() -> Result<Self, TestingError> {
        // SAFETY: loading the driver runs its initialisers, which ask nothing of us; these are its
        // functions.
        let cuda = unsafe { Cuda::load(Library::new("libcuda.so.1")?) }?;
        let (mut device, mut major, mut minor, mut context) = (0, 0, 0, null_mut());
        // SAFETY: each pointer is to one of what it says.
        unsafe {
            check("cuInit", (cuda.start)(0))?;
            check("cuDeviceGet", (cuda.device)(&mut device, 0))?;
            let code = (cuda.attribute)(&mut major, MAJOR, device);
            check("cuDeviceGetAttribute", code)?;
            let code = (cuda.attribute)(&mut minor, MINOR, device);
            check("cuDeviceGetAttribute", code)?;
            let code = (cuda.retain)(&mut context, device);
            check("cuDevicePrimaryCtxRetain", code)?;
        }
        Ok(Self {
            cuda,
            context,
            architecture: format!("sm_{major}{minor}"),
        })
    }
}

/// A printed kernel, compiled.
pub struct CudaProgram {
    printed: Printed,
    code: Vec<u8>,
}

impl std::fmt::Debug for CudaProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaProgram")
            .field("entry", &self.printed.entry)
            .finish_non_exhaustive()
    }
}

/// The object that is given up in the end.
struct Held {
    gpu: &'static Gpu,
    memory: Vec<Address>,
    module: Object,
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: they are ours, and given up once.
        unsafe {
            for address in &self.memory {
                (self.gpu.cuda.free)(*address);
            }
            (self.gpu.cuda.unload)(self.module);
        }
    }
}

impl Held {
    /// Memory with these bytes.
    fn memory(&mut self, bytes: &[u8]) -> Result<Address, TestingError> {
        let cuda = &self.gpu.cuda;
        let mut address = 0;
        // SAFETY: the bytes are copied at once, to as many.
        unsafe {
            let code = (cuda.allocate)(&mut address, bytes.len().max(1));
            check("cuMemAlloc", code)?;
            self.memory.push(address);
            let code = (cuda.write)(address, bytes.as_ptr().cast(), bytes.len());
            check("cuMemcpyHtoD", code)?;
        }
        Ok(address)
    }
}

impl CudaProgram {
    /// Compiles for the first GPU, or where [there is none](Self::can_run) for one of compute
    /// capability 8.0; `None` where there is no NVRTC to do it, which is said loudly.
    ///
    /// # Errors
    /// The compiler's messages, with the source.
    pub fn compile_or_skip(printed: &Printed) -> Result<Option<Self>, TestingError> {
        let Some(compiler) = compiler() else {
            eprintln!(
                "\n*** NOT TESTED: CUDA C, as there is no NVRTC (set QUIPU_NVRTC to its library).\n"
            );
            return Ok(None);
        };
        let architecture = gpu()?.map_or("sm_80", |gpu| &gpu.architecture);
        let source = c_string(&printed.source)?;
        let mut options = vec![c_string(&format!("--gpu-architecture={architecture}"))?];
        for option in &printed.compiler_options {
            options.push(c_string(option)?);
        }
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program = null_mut();
        // SAFETY: strings end with zero, the numbers of headers and options are right, and the log
        // and the code have the lengths that were asked for.
        let (result, log, code) = unsafe {
            (compiler.create)(&mut program, source.as_ptr(), null(), 0, null(), null());
            // Options are fewer than 2^31.
            let result = (compiler.compile)(program, pointers.len() as i32, pointers.as_ptr());
            let mut length = 0;
            (compiler.log_size)(program, &mut length);
            let mut log = vec![0_u8; length.max(1)];
            (compiler.log)(program, log.as_mut_ptr().cast());
            let mut length = 0;
            (compiler.code_size)(program, &mut length);
            let mut code = vec![0_u8; length];
            (compiler.code)(program, code.as_mut_ptr().cast());
            (compiler.destroy)(&mut program);
            (result, log, code)
        };
        if result != 0 {
            return Err(TestingError::Compiler {
                log: format!("{result}: {}", String::from_utf8_lossy(&log)),
                source_text: numbered(&printed.source),
            });
        }
        Ok(Some(Self {
            printed: printed.clone(),
            code,
        }))
    }

    /// True if `QUIPU_TEST_CUDA=1` says that there is a GPU.
    ///
    /// # Errors
    /// If that is not so.
    pub fn can_run() -> Result<bool, TestingError> {
        Ok(gpu()?.is_some())
    }

    /// Runs the kernel; the first fault, if there was one.
    ///
    /// # Errors
    /// If there is no GPU, the launch does not fit the kernel, or CUDA fails.
    pub fn run(&self, launch: &mut Launch) -> Result<Option<Fault>, TestingError> {
        let gpu = gpu()?.ok_or_else(|| TestingError::Launch("there is no GPU".to_owned()))?;
        let cuda = &gpu.cuda;
        let slots = launch.slots(&self.printed)?;
        let (_, shared) = self.printed.dynamic_shared(&launch.shared);
        let name = c_string(&self.printed.entry)?;
        let (mut module, mut function) = (null_mut(), null_mut());
        // SAFETY: code that NVRTC has made, which says itself how long it is.
        unsafe {
            check("cuCtxSetCurrent", (cuda.enter)(gpu.context))?;
            let code = (cuda.load_code)(&mut module, self.code.as_ptr().cast());
            check("cuModuleLoadData", code)?;
        }
        let mut held = Held {
            gpu,
            memory: Vec::new(),
            module,
        };
        // SAFETY: a module and a string that ends with zero.
        let code = unsafe { (cuda.function)(&mut function, module, name.as_ptr()) };
        check("cuModuleGetFunction", code)?;
        let fault = held.memory(bytemuck::bytes_of(&NO_FAULT))?;
        let grid_barrier = held.memory(bytemuck::bytes_of(&[0_u32; GRID_BARRIER_WORDS]))?;
        let mut addresses = Vec::new();
        for argument in &launch.arguments {
            addresses.push(match argument {
                Argument::Elements { bytes, .. } => held.memory(bytes)?,
                _ => 0,
            });
        }
        // Each where anything may be.
        let mut values: Vec<[u128; 16]> = Vec::new();
        for slot in &slots {
            let address;
            let bytes = match slot {
                Slot::Bytes(bytes) => &bytes[..],
                Slot::Elements(argument) => {
                    address = addresses[*argument];
                    bytemuck::bytes_of(&address)
                }
                Slot::Fault => bytemuck::bytes_of(&fault),
                Slot::GridBarrier => bytemuck::bytes_of(&grid_barrier),
                Slot::Start | Slot::Local(_) => {
                    return Err(TestingError::Launch("a parameter of OpenCL C".to_owned()));
                }
            };
            let mut value = [0_u128; 16];
            let Some(place) = bytemuck::bytes_of_mut(&mut value).get_mut(..bytes.len()) else {
                return Err(TestingError::Launch("a value of so many bytes".to_owned()));
            };
            place.copy_from_slice(bytes);
            values.push(value);
        }
        let mut pointers: Vec<*mut c_void> = values
            .iter_mut()
            .map(|value| value.as_mut_ptr().cast())
            .collect();
        let [x, y, z] = Division::axes(&launch.division.blocks).map(|blocks| blocks as u32);
        if [x, y, z].contains(&0) {
            return Ok(None);
        }
        let [i, j, k] = Division::axes(&launch.division.threads).map(|threads| threads as u32);
        // SAFETY: as many values as the function has parameters, of their sizes; its memory is
        // held.
        unsafe {
            let (stream, extra) = (null_mut(), null_mut());
            let arguments = pointers.as_mut_ptr();
            let shared = shared as u32;
            if self.printed.grid_barriers {
                let code =
                    (cuda.launch_together)(function, x, y, z, i, j, k, shared, stream, arguments);
                check("cuLaunchCooperativeKernel", code)?;
            } else {
                let code =
                    (cuda.launch)(function, x, y, z, i, j, k, shared, stream, arguments, extra);
                check("cuLaunchKernel", code)?;
            }
            check("cuCtxSynchronize", (cuda.finish)())?;
        }
        let read = |address: Address, bytes: &mut [u8]| {
            // SAFETY: the memory has so many bytes.
            let code = unsafe { (cuda.read)(bytes.as_mut_ptr().cast(), address, bytes.len()) };
            check("cuMemcpyDtoH", code)
        };
        for (argument, address) in launch.arguments.iter_mut().zip(addresses) {
            if let Argument::Elements { bytes, .. } = argument {
                read(address, bytes)?;
            }
        }
        let mut record = NO_FAULT;
        read(fault, bytemuck::bytes_of_mut(&mut record))?;
        Ok(self.printed.fault(&record))
    }
}

fn c_string(text: &str) -> Result<CString, TestingError> {
    CString::new(text).map_err(|_| TestingError::Launch("a zero in a text".into()))
}
