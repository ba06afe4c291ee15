//! Compilation: from a kernel's code to a function on a device.
//!
//! `QUIPU_DUMP` names a folder in which every kernel's source, PTX and log are kept, compiled with
//! lines for profilers and debuggers, and afresh.

use super::nvrtc::{Nvrtc, Output, Problem};
use super::text::Source;
use crate::device::Device;
use crate::native::{CallError, Called, Context, named};
use cudarc::driver::sys::{self, CUfunction, CUfunction_attribute as Attribute, CUmodule};
use quipu_clc::ParameterKind;
use quipu_device_queue::disk::{self, Key};
use quipu_device_queue::error::{of_device, refused};
use quipu_device_queue::launch::print;
use quipu_device_queue::{Failure, VendorDevice};
use quipu_environment::DUMP;
use quipu_kernel_ir::{Dialect, IndexWidth, Module, Options, Printed};
use quipu_scheduler::KernelAttributes;
use quipu_scheduler::error::{ErrorKind, Result};
use quipu_scheduler::panics::quietly;
use std::any::Any;
use std::ffi::{CString, c_int};
use std::fs;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;

/// Threads of a block that suit most kernels.
const USUAL: u64 = 256;
/// Blocks are of so many threads or a multiple.
const WARP: u64 = 32;

/// A kernel that is compiled for a device.
#[derive(Debug)]
pub struct Compiled {
    function: CUfunction,
    module: CUmodule,
    context: Arc<Context>,
    /// The most threads that a block of it can have.
    pub(crate) most_threads: u64,
    /// The size of blocks of which a multiprocessor has room for the most threads; of several such
    /// sizes the one that is nearest to [`USUAL`].
    pub(crate) fitting_threads: u64,
    /// The most threads that a multiprocessor has room for.
    resident_threads: u64,
    /// Bytes that its blocks share, without those that a launch asks for.
    pub(crate) shared: u64,
    /// Registers of a thread, and bytes of memory of its own.
    registers: u64,
    private: u64,
    /// The code that it was printed from, and the printed text's description.
    code: Arc<dyn Any + Send + Sync>,
    pub(crate) printed: Printed,
    /// The arguments of a kernel of a text; none of a printed one.
    pub(crate) text: Option<Vec<ParameterKind>>,
    /// It calls `printf`.
    pub(crate) prints: bool,
}

// SAFETY: CUDA's objects may be used by any thread.
unsafe impl Send for Compiled {}
// SAFETY: and by several at a time.
unsafe impl Sync for Compiled {}

impl Compiled {
    /// The limits of the compiled kernel.
    pub(crate) fn attributes(&self) -> KernelAttributes {
        let mut attributes = KernelAttributes::new(self.most_threads);
        attributes.preferred_block_threads = Some(self.fitting_threads);
        attributes.resident_threads = Some(self.resident_threads);
        attributes.registers = Some(self.registers);
        attributes.private_bytes = Some(self.private);
        attributes.shared_bytes = Some(self.shared);
        attributes
    }

    /// The function, for calls.
    pub(crate) fn function(&self) -> CUfunction {
        self.function
    }

    /// The blocks of so many threads, with so many bytes that a launch asks for, that a device runs
    /// at once.
    pub(crate) fn blocks_at_once(&self, device: &Device, threads: u64, shared: u64) -> Called<u64> {
        let _entered = self.context.enter()?;
        let mut blocks: c_int = 0;
        // SAFETY: asks only.
        let code = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut blocks,
                self.function,
                threads as c_int,
                shared as usize,
            )
        };
        named("cuOccupancyMaxActiveBlocksPerMultiprocessor", code)?;
        let of_each = u64::try_from(blocks).unwrap_or(0);
        Ok(of_each * u64::from(device.properties.multiprocessors))
    }

    /// The module that was printed.
    pub(crate) fn module(&self) -> Option<&Module> {
        self.code.downcast_ref()
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        let _entered = self.context.enter();
        // SAFETY: nobody launches its function any more: a launch has a reference to this.
        let code = unsafe { sys::cuModuleUnload(self.module) };
        if let Err(error) = named("cuModuleUnload", code) {
            quietly(|| tracing::debug!(reason = error.text(), "a module was not unloaded"));
        }
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
    if let Some(source) = Source::of(&**code) {
        return super::text::compile(device, code, &source);
    }
    let Some(module) = code.downcast_ref::<Module>() else {
        return Err(ErrorKind::Unsupported {
            driver: "cuda",
            what: "compile code in this language".to_owned(),
            instead: "write the kernel with `#[kernel]` or in OpenCL C",
        }
        .into());
    };
    let options = Options::new(Dialect::Cuda, width);
    let printed = print(device, module, Dialect::Cuda, &options)?;
    let image = build(device, &printed)?;
    load(device, code, printed, &image)
}

/// Compiles a text, or finds it compiled on disk.
fn build(device: &Device, printed: &Printed) -> Result<Vec<u8>> {
    let failed = |message: String| {
        let what = format!("compile kernel '{}' for it", printed.entry);
        of_device(device.name(), &what, message)
    };
    let nvrtc = Nvrtc::get().map_err(failed)?;
    let (target, is_machine_code) = nvrtc.target(device.capability);
    let mut options = vec![target];
    options.extend(printed.compiler_options.iter().cloned());
    let dump = DUMP.get()?;
    if dump.is_some() {
        options.push("--generate-line-info".to_owned());
    }
    let build = format!("{}\nNVRTC {}", device.build, nvrtc.version);
    let key = Key::new(&build, &options.join(" "), &printed.source);
    let folder = disk::folder("cuda")?;
    if dump.is_none()
        && let Some(folder) = &folder
        && let Some(image) = disk::load(folder, &key)
    {
        return Ok(image);
    }
    let name = format!("{}.cu", printed.entry);
    let compiled = nvrtc.compile(&printed.source, &name, &options, is_machine_code);
    if let Some(dump) = dump
        && let Err(error) = keep(&dump, &key, printed, &options, &compiled)
    {
        quietly(
            || tracing::warn!(%error, folder = %dump.display(), "a kernel is not kept as QUIPU_DUMP asks"),
        );
    }
    let output = compiled.map_err(|problem| match problem {
        Problem::Refused(log) => refused(device.name(), &printed.entry, &log),
        Problem::Failed(message) => failed(message),
    })?;
    if let Some(folder) = folder
        && let Err(error) = disk::store(&folder, &key, &output.image)
    {
        quietly(
            || tracing::debug!(%error, folder = %folder.display(), "compiled code is not kept"),
        );
    }
    Ok(output.image)
}

/// Keeps a kernel's source and the compiler's output, for people.
fn keep(
    folder: &Path,
    key: &Key,
    printed: &Printed,
    options: &[String],
    compiled: &std::result::Result<Output, Problem>,
) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let stem = format!("{}-{}", printed.entry, key.short());
    let file = |ending: &str| folder.join(format!("{stem}.{ending}"));
    fs::write(file("cu"), &printed.source)?;
    let log = match compiled {
        Ok(output) => {
            if !output.ptx.is_empty() {
                let end = output.ptx.iter().rposition(|byte| *byte != 0);
                fs::write(file("ptx"), &output.ptx[..end.map_or(0, |end| end + 1)])?;
            }
            &output.log
        }
        Err(Problem::Refused(log) | Problem::Failed(log)) => log,
    };
    fs::write(file("log"), format!("nvrtc {}\n{log}\n", options.join(" ")))
}

pub(super) fn load(
    device: &Device,
    code: &Arc<dyn Any + Send + Sync>,
    printed: Printed,
    image: &[u8],
) -> Result<Compiled> {
    let failed = |error: CallError| {
        let what = format!("load kernel '{}'", printed.entry);
        device.failed(&what, &error)
    };
    let live = device.live().map_err(failed)?;
    let _entered = live.context.enter().map_err(failed)?;
    let mut module = null_mut();
    // SAFETY: machine code or PTX, as the compiler gave it, which says itself where it ends.
    let loaded = unsafe { sys::cuModuleLoadData(&raw mut module, image.as_ptr().cast()) };
    named("cuModuleLoadData", loaded).map_err(failed)?;
    let mut compiled = Compiled {
        function: null_mut(),
        module,
        context: live.context.clone(),
        most_threads: 0,
        fitting_threads: 0,
        resident_threads: 0,
        shared: 0,
        registers: 0,
        private: 0,
        code: code.clone(),
        printed,
        text: None,
        prints: false,
    };
    look_up(device, &mut compiled).map_err(|error| {
        let what = format!("load kernel '{}'", compiled.printed.entry);
        device.failed(&what, &error)
    })?;
    Ok(compiled)
}

fn look_up(device: &Device, compiled: &mut Compiled) -> Called<()> {
    let name = CString::new(compiled.printed.entry.as_str()).unwrap_or_default();
    // SAFETY: the name ends with a zero.
    let found = unsafe {
        sys::cuModuleGetFunction(&raw mut compiled.function, compiled.module, name.as_ptr())
    };
    named("cuModuleGetFunction", found)?;
    let function = compiled.function;
    let ask = |which| {
        let mut value: c_int = 0;
        // SAFETY: the function belongs to the loaded module, and the call writes one number into
        // `value`.
        let code = unsafe { sys::cuFuncGetAttribute(&raw mut value, which, function) };
        named("cuFuncGetAttribute", code).map(|()| u64::try_from(value).unwrap_or(0))
    };
    compiled.most_threads = ask(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?;
    compiled.shared = ask(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
    compiled.registers = ask(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?;
    compiled.private = ask(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?;
    (compiled.fitting_threads, compiled.resident_threads) =
        fitting_threads(function, compiled.most_threads)?;
    let rest = device.properties.shared_memory_per_block;
    let rest = rest.saturating_sub(compiled.shared);
    // SAFETY: the function is loaded.
    let code = unsafe {
        sys::cuFuncSetAttribute(
            function,
            Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            c_int::try_from(rest).unwrap_or(c_int::MAX),
        )
    };
    named("cuFuncSetAttribute", code)
}

/// See [`Compiled::fitting_threads`]; and the number for which there is room.
fn fitting_threads(function: CUfunction, most: u64) -> Called<(u64, u64)> {
    let mut best = (0, 0, most);
    for threads in (WARP..=most).step_by(WARP as usize) {
        let mut blocks: c_int = 0;
        // SAFETY: the caller's function is of a loaded module, and the call writes one number into
        // `blocks`.
        let code = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut blocks,
                function,
                threads as c_int,
                0,
            )
        };
        named("cuOccupancyMaxActiveBlocksPerMultiprocessor", code)?;
        let at_once = u64::try_from(blocks).unwrap_or(0) * threads;
        let nearness = most - threads.abs_diff(USUAL).min(most);
        if (at_once, nearness) > (best.0, best.1) {
            best = (at_once, nearness, threads);
        }
    }
    Ok((best.2, best.0))
}
