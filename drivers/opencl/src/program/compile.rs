//! Compilation: from a kernel's code to a kernel of OpenCL.

use super::launch::Callable;
use crate::device::Device;
use crate::native::{CallError, Called, Kernel, Program, c_string, named};
use cl3::info_type::InfoType;
use cl3::program::CL_PROGRAM_DEVICES;
use cl3::types::{cl_device_id, cl_program};
use quipu_device_queue::disk::{self, Key};
use quipu_device_queue::error::refused;
use quipu_device_queue::launch::print;
use quipu_device_queue::{Failure, VendorDevice};
use quipu_kernel_ir::print::SharedMemory;
use quipu_kernel_ir::{
    Dialect, ElementOrder, IndexWidth, KernelText, Module, Options, Printed, TextLanguage,
};
use quipu_scheduler::error::{ErrorKind, Result};
use quipu_scheduler::panics::quietly;
use quipu_scheduler::{DeviceKind, Error, KernelAttributes};
use std::any::Any;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A kernel that is compiled for a device.
#[derive(Debug)]
pub struct Compiled {
    /// The kernel, whose arguments are set and which is put into a queue by one thread at a time.
    kernel: Mutex<Callable>,
    /// The number of its code, among all kernels of a process.
    pub(super) identity: u64,
    /// The number of its arguments.
    pub(crate) arguments: u32,
    /// The most threads that a block of it can have, and the number that they best are a multiple
    /// of.
    threads: (u64, u64),
    /// The code that it was printed from, and the printed text's description; none of a user's
    /// text.
    pub(crate) printed: Option<(Arc<dyn Any + Send + Sync>, Printed)>,
}

impl Compiled {
    /// The module that was printed.
    pub(crate) fn module(&self) -> Option<(&Module, &Printed)> {
        let (module, printed) = self.printed.as_ref()?;
        Some((module.downcast_ref()?, printed))
    }

    /// The best number of threads of its blocks if so many are asked for.
    pub(crate) fn fitting_threads(&self, asked: u64) -> u64 {
        match self.printed {
            Some(_) => fitting(asked, self.threads),
            // A user's text may take its blocks to be of one size.
            None => asked,
        }
    }

    /// The limits of the compiled kernel.
    pub(crate) fn attributes(&self, device: &Device) -> KernelAttributes {
        let (most, multiple) = self.threads;
        let most = most.min(device.properties.max_block_thread_count);
        let mut attributes = KernelAttributes::new(most);
        attributes.preferred_block_threads = Some(multiple);
        let callable = self.callable();
        let kernel = callable.kernel();
        let ask = |what| {
            let info = cl3::kernel::get_kernel_work_group_info(kernel.raw(), device.handle.0, what);
            info.ok().map(InfoType::to_ulong)
        };
        attributes.private_bytes = ask(cl3::kernel::CL_KERNEL_PRIVATE_MEM_SIZE);
        // PoCL 5.0 says that there is none: it has at least the printed arrays.
        let printed = self.printed.iter().flat_map(|(_, it)| &it.shared);
        let declared = printed.filter_map(SharedMemory::bytes).sum();
        let told = ask(cl3::kernel::CL_KERNEL_LOCAL_MEM_SIZE);
        attributes.shared_bytes = told.map(|bytes| bytes.max(declared));
        attributes
    }

    /// The kernel, for code that sets its arguments and puts it into a queue.
    pub(super) fn callable(&self) -> MutexGuard<'_, Callable> {
        self.kernel.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A text for OpenCL's compiler.
#[derive(Hash)]
struct Source<'a> {
    text: &'a str,
    entry: &'a str,
    options: String,
}

impl Source<'_> {
    /// A number of its own.
    fn identity(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// True if its code depends on nothing but itself: on no file of the system's.
    fn is_whole(&self) -> bool {
        // A directive may be written with blanks, with a line continued within it, or with `%:` for
        // `#`. A text that only speaks of it is compiled anew in each process.
        let text: String = self.text.replace("\\\r\n", "").replace("\\\n", "");
        !text.contains("include")
            && !self.options.contains("-I")
            && !self.options.contains("-include")
    }
}

/// Compiles code for a device.
///
/// # Errors
/// The error of code that cannot be printed; the compiler's error, with the user's lines.
pub(crate) fn compile(
    device: &Device,
    code: &Arc<dyn Any + Send + Sync>,
    width: IndexWidth,
) -> Result<Compiled> {
    if let Some(module) = code.downcast_ref::<Module>() {
        let dialect = Dialect::OpenCl(device.features);
        let mut options = Options::new(dialect, width);
        if device.properties.kind == DeviceKind::Cpu {
            options.elements = ElementOrder::Contiguous;
        }
        let printed = print(device, module, dialect, &options)?;
        let source = Source {
            text: &printed.source,
            entry: &printed.entry,
            options: printed.compiler_options.join(" "),
        };
        let kernel = build(device, &source)?;
        let identity = source.identity();
        if !printed.sites.is_empty() {
            device.places.make(device);
        }
        return finish(device, kernel, identity, Some((code.clone(), printed)));
    }
    if let Some(given) = code.downcast_ref::<KernelText>()
        && given.language == TextLanguage::OpenClC
    {
        if given
            .source
            .trim_matches(['\0', ' ', '\t', '\r', '\n'])
            .is_empty()
        {
            // OpenCL takes a text of no bytes for one that ends with a zero, wherever that is.
            return Err(ErrorKind::InvalidArgument {
                what: "launch a kernel",
                problem: format!(
                    "the text of kernel '{}' is empty; give its program a text in OpenCL C",
                    given.entry
                ),
            }
            .into());
        }
        let source = Source {
            text: &given.source,
            entry: &given.entry,
            options: given.options.clone(),
        };
        let kernel = build(device, &source)?;
        return finish(device, kernel, source.identity(), None);
    }
    Err(ErrorKind::Unsupported {
        driver: "opencl",
        what: "compile code in this language".to_owned(),
        instead: "write the kernel with `#[kernel]` or in OpenCL C",
    }
    .into())
}

fn finish(
    device: &Device,
    kernel: Kernel,
    identity: u64,
    printed: Option<(Arc<dyn Any + Send + Sync>, Printed)>,
) -> Result<Compiled> {
    // Mostly before anything that takes long is on the device.
    if device.gains() {
        device.landings.make(device);
    }
    let info = cl3::kernel::get_kernel_info(kernel.raw(), cl3::kernel::CL_KERNEL_NUM_ARGS);
    let arguments = named("clGetKernelInfo", info)
        .map_err(|error| device.failed("look at a kernel", &error))?
        .to_uint();
    let ask = |what, otherwise| {
        let info = cl3::kernel::get_kernel_work_group_info(kernel.raw(), device.handle.0, what);
        // A limit that is not told is left to the launch.
        info.map_or(otherwise, |info| info.to_size() as u64).max(1)
    };
    let threads = (
        ask(cl3::kernel::CL_KERNEL_WORK_GROUP_SIZE, usize::MAX as u64),
        ask(cl3::kernel::CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, 1),
    );
    Ok(Compiled {
        kernel: Mutex::new(Callable::new(kernel)),
        identity,
        arguments,
        threads,
        printed,
    })
}

/// As many threads as are asked for, or as there can be: then of a size that suits the device, if
/// it has one that is not larger.
fn fitting(asked: u64, (most, multiple): (u64, u64)) -> u64 {
    if asked <= most {
        return asked;
    }
    match most / multiple * multiple {
        0 => most,
        whole => whole,
    }
}

/// Builds a text, or finds it built on disk; its kernel.
fn build(device: &Device, source: &Source<'_>) -> Result<Kernel> {
    let failed = |error: CallError| {
        let what = format!("compile kernel '{}' for it", source.entry);
        device.failed(&what, &error)
    };
    let context = device.platform.context().map_err(failed)?;
    let key = Key::new(&device.build, &source.options, source.text);
    let folder = disk::folder("opencl")?.filter(|_| source.is_whole());
    let kept = folder
        .as_deref()
        .and_then(|folder| disk::load(folder, &key));
    if let Some(binary) = kept {
        match from_binary(device, context, &binary, source) {
            Ok(kernel) => return Ok(kernel),
            Err(error) => {
                quietly(|| tracing::debug!(error = error.text(), "a program on disk is of no use"));
            }
        }
    }
    let made = cl3::program::create_program_with_source(context.raw(), &[source.text]);
    let program = named("clCreateProgramWithSource", made)
        .map(Program::new)
        .map_err(failed)?;
    if let Err(error) = build_program(device, &program, &source.options) {
        let log = build_log(device, program.raw());
        return Err(if log.trim().is_empty() {
            failed(error)
        } else {
            refused(device.name(), source.entry, &log)
        });
    }
    let kernel = kernel_of(&program, source.entry).map_err(|error| {
        if error.code == cl3::error_codes::CL_INVALID_KERNEL_NAME {
            no_kernel(source, &program)
        } else {
            failed(error)
        }
    })?;
    if let Some(folder) = folder
        && let Some(binary) = binary_of(program.raw())
        && let Err(error) = disk::store(&folder, &key, &binary)
    {
        quietly(
            || tracing::debug!(%error, folder = %folder.display(), "a compiled program is not kept"),
        );
    }
    Ok(kernel)
}

fn from_binary(
    device: &Device,
    context: &crate::native::Context,
    binary: &[u8],
    source: &Source<'_>,
) -> Called<Kernel> {
    // SAFETY: the device is one of the context's; the binary was given by the same version of the
    // same driver, which checks it.
    let made = unsafe {
        cl3::program::create_program_with_binary(context.raw(), &[device.handle.0], &[binary])
    };
    let program = Program::new(named("clCreateProgramWithBinary", made)?);
    build_program(device, &program, &source.options)?;
    kernel_of(&program, source.entry)
}

pub(super) fn build_program(device: &Device, program: &Program, options: &str) -> Called<()> {
    build_for(&[device.handle.0], program, options)
}

fn build_for(devices: &[cl_device_id], program: &Program, options: &str) -> Called<()> {
    let options = c_string(options);
    let built = cl3::program::build_program(program.raw(), devices, &options, None, null_mut());
    named("clBuildProgram", built)
}

fn kernel_of(program: &Program, entry: &str) -> Called<Kernel> {
    let made = cl3::kernel::create_kernel(program.raw(), &c_string(entry));
    named("clCreateKernel", made).map(Kernel::new)
}

pub(super) fn build_log(device: &Device, program: cl_program) -> String {
    let log = cl3::program::get_program_build_data(
        program,
        device.handle.0,
        cl3::program::CL_PROGRAM_BUILD_LOG,
    );
    let log = log.unwrap_or_default();
    String::from_utf8_lossy(&log)
        .trim_end_matches('\0')
        .trim_end()
        .to_owned()
}

/// The binary of the one device that the program was built for.
fn binary_of(program: cl_program) -> Option<Vec<u8>> {
    let info = cl3::program::get_program_info(program, cl3::program::CL_PROGRAM_BINARIES).ok()?;
    let binaries = info.to_vec_vec_uchar();
    binaries.into_iter().find(|binary| !binary.is_empty())
}

/// A text has no such kernel.
fn no_kernel(source: &Source<'_>, program: &Program) -> Error {
    let kernels = kernels_of(program, &source.options);
    let names: Vec<String> = kernels
        .iter()
        .filter_map(|kernel| {
            let what = cl3::kernel::CL_KERNEL_FUNCTION_NAME;
            let name = cl3::kernel::get_kernel_info(kernel.raw(), what).ok()?;
            Some(name.to_string().trim_end_matches('\0').to_owned())
        })
        .collect();
    let names = match names.is_empty() {
        true => "none that the driver tells of".to_owned(),
        false => names.join(", "),
    };
    ErrorKind::InvalidArgument {
        what: "launch a kernel",
        problem: format!(
            "the program has no kernel '{}'; it has: {names}",
            source.entry
        ),
    }
    .into()
}

/// The kernels of a program that is built with these options.
pub(super) fn kernels_of(program: &Program, options: &str) -> Vec<Kernel> {
    let kernels = || {
        let kernels = cl3::kernel::create_kernels_in_program(program.raw()).unwrap_or_default();
        kernels.into_iter().map(Kernel::new).collect::<Vec<_>>()
    };
    let there = kernels();
    if !there.is_empty() {
        return there;
    }
    // NVIDIA's OpenCL says none of a program that is not built for every device of its context.
    let devices = cl3::program::get_program_info(program.raw(), CL_PROGRAM_DEVICES);
    let devices = devices.map(|info| info.to_vec_intptr()).unwrap_or_default();
    let devices: Vec<_> = devices.into_iter().map(|it| it as cl_device_id).collect();
    match build_for(&devices, program, options) {
        Ok(()) => kernels(),
        Err(_) => there,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_no_larger_than_a_kernel_leaves_room_for() {
        assert_eq!(fitting(256, (1024, 32)), 256);
        assert_eq!(fitting(100, (1024, 32)), 100);
        assert_eq!(fitting(256, (100, 32)), 96);
        assert_eq!(fitting(256, (20, 32)), 20);
        assert_eq!(fitting(1, (1, 8)), 1);
    }

    #[test]
    fn a_text_that_includes_files_is_not_whole() {
        let is_whole = |text: &str, options: &str| {
            let source = Source {
                text,
                entry: "f",
                options: options.to_owned(),
            };
            source.is_whole()
        };
        assert!(is_whole("kernel void f() {}", "-cl-std=CL1.2 -D N=3"));
        assert!(!is_whole("#include \"f.h\"", ""));
        assert!(!is_whole("  # \tinclude <f.h>", ""));
        assert!(!is_whole("#incl\\\nude <f.h>", ""));
        assert!(!is_whole("kernel void f() {}", "-I headers"));
        assert!(!is_whole("kernel void f() {}", "-include f.h"));
    }
}
