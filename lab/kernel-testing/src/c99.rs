//! C99 through `cc` and a shared object.

use std::ffi::c_void;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use libloading::Library;
use quipu_kernel_ir::Printed;
use quipu_kernel_ir::print::Fault;

use crate::launch::{Argument, Launch, NO_FAULT, Slot};
use crate::{TestingError, numbered};

/// A printed kernel, compiled.
#[derive(Debug)]
pub struct C99Program {
    printed: Printed,
    library: Arc<Library>,
}

/// A folder that goes when it is dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // A file that cannot be removed stays among the system's temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Sources as one shared object.
fn build(all: &[&Printed], options: &[&str]) -> Result<Library, TestingError> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!(
        "quipu-kernel-testing-{}-{number}",
        std::process::id()
    ));
    std::fs::create_dir_all(&folder)?;
    let folder = Folder(folder);
    let object = folder.0.join("kernel.so");
    let mut sources = Vec::new();
    let (mut libraries, mut said) = (Vec::new(), Vec::new());
    for (at, printed) in all.iter().enumerate() {
        let source = folder.0.join(format!("kernel_{at}.c"));
        std::fs::write(&source, &printed.source)?;
        sources.push(source);
        for option in &printed.compiler_options {
            let list = if option.starts_with("-l") {
                &mut libraries
            } else {
                &mut said
            };
            if !list.contains(option) {
                list.push(option.clone());
            }
        }
    }
    let output = Command::new("cc")
        .args(["-shared", "-fPIC"])
        .args(options)
        .args(said)
        .args(&sources)
        .arg("-o")
        .arg(&object)
        .args(libraries)
        .output()?;
    if !output.status.success() {
        return Err(TestingError::Compiler {
            log: String::from_utf8_lossy(&output.stderr).into_owned(),
            source_text: all
                .iter()
                .map(|printed| numbered(&printed.source))
                .collect(),
        });
    }
    // SAFETY: the object has no initialisers, and it stays mapped after its file is gone.
    Ok(unsafe { Library::new(&object) }?)
}

impl C99Program {
    /// Compiles with optimisation.
    ///
    /// # Errors
    /// The compiler's messages, with the source.
    pub fn compile(printed: &Printed) -> Result<Self, TestingError> {
        Self::compile_with(printed, &["-O2"])
    }

    /// Compiles with more options than the source needs.
    ///
    /// # Errors
    /// The compiler's messages, with the source.
    pub fn compile_with(printed: &Printed, options: &[&str]) -> Result<Self, TestingError> {
        let library = build(&[printed], options)?;
        Ok(Self {
            printed: printed.clone(),
            library: Arc::new(library),
        })
    }

    /// Compiles several sources, whose entry functions have different names, in one go, which is
    /// faster than one by one; in the order of the sources.
    ///
    /// If the compiler refuses one of them, each is tried alone, and so each error is that of its
    /// own source.
    #[must_use]
    pub fn compile_together(all: &[&Printed], options: &[&str]) -> Vec<Result<Self, TestingError>> {
        match build(all, options) {
            Ok(library) => {
                let library = Arc::new(library);
                let program = |printed: &&Printed| {
                    Ok(Self {
                        printed: (*printed).clone(),
                        library: Arc::clone(&library),
                    })
                };
                all.iter().map(program).collect()
            }
            Err(_) => all
                .iter()
                .map(|printed| Self::compile_with(printed, options))
                .collect(),
        }
    }

    /// Runs the kernel; the first fault, if there was one.
    ///
    /// # Errors
    /// If the launch does not fit the kernel.
    pub fn run(&self, launch: &mut Launch) -> Result<Option<Fault>, TestingError> {
        type Entry = unsafe extern "C" fn(*const *const c_void) -> i32;
        let slots = launch.slots(&self.printed)?;
        let mut record = NO_FAULT;
        let fault_pointer = record.as_mut_ptr();
        // Aligned for any element, as vectors of bytes need not be.
        let mut copies: Vec<Vec<u128>> = launch
            .arguments
            .iter()
            .map(|argument| match argument {
                Argument::Elements { bytes, .. } => {
                    let mut words = vec![0_u128; bytes.len().div_ceil(16) + 1];
                    bytemuck::cast_slice_mut::<u128, u8>(&mut words)[..bytes.len()]
                        .copy_from_slice(bytes);
                    words
                }
                _ => Vec::new(),
            })
            .collect();
        let pointers: Vec<*mut u128> = copies.iter_mut().map(Vec::as_mut_ptr).collect();
        // The bytes of each parameter, in whole words so that they are aligned.
        let mut values: Vec<Vec<u128>> = Vec::new();
        for slot in slots {
            let bytes = match slot {
                Slot::Bytes(bytes) => bytes,
                Slot::Elements(argument) => (pointers[argument] as usize).to_ne_bytes().to_vec(),
                Slot::Fault => (fault_pointer as usize).to_ne_bytes().to_vec(),
                Slot::Start | Slot::Local(_) | Slot::GridBarrier => {
                    return Err(TestingError::Launch("a kernel that is not in C99".into()));
                }
            };
            let mut words = vec![0_u128; bytes.len().div_ceil(16)];
            bytemuck::cast_slice_mut::<u128, u8>(&mut words)[..bytes.len()].copy_from_slice(&bytes);
            values.push(words);
        }
        let arguments: Vec<*const c_void> =
            values.iter().map(|value| value.as_ptr().cast()).collect();
        // SAFETY: the printer gives the entry function this type.
        let status = unsafe {
            let entry = self.library.get::<Entry>(self.printed.entry.as_bytes())?;
            // Each argument points to as many bytes as the printer says that the parameter has, and
            // pointers among them to as many elements as their lengths say.
            entry(arguments.as_ptr())
        };
        for (argument, copy) in launch.arguments.iter_mut().zip(&copies) {
            if let Argument::Elements { bytes, .. } = argument {
                let length = bytes.len();
                bytes.copy_from_slice(&bytemuck::cast_slice::<u128, u8>(copy)[..length]);
            }
        }
        if status != 0 {
            return Err(TestingError::OutOfMemory);
        }
        // SAFETY: it is our own array, which the kernel wrote to through a pointer.
        let record = unsafe { std::ptr::read_volatile(&raw const record) };
        Ok(self.printed.fault(&record))
    }
}
