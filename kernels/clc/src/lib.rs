//! OpenCL C and SPIR-V for processors.
//!
//! [`Program::new`] has the compiler read a text, and [`Program::of_spirv`] a module;
//! [`Program::compile`] has it compile a kernel for a size of work-group; [`Kernel::run`] runs
//! work-groups of it on the calling thread.
//!
//! The compiler is a process of its own ([`serve_compiler`]): libLLVM is large, its symbols may
//! clash with the program's, and a text that makes it crash, or take more time or memory than it
//! may, must not harm the program. It uses the machine's own clang, libLLVM and linker, which are
//! found when it runs. Without them everything else works, and [`ClcError::Missing`] says what to
//! install.
//!
//! | file | contents |
//! |---|---|
//! | `compiler` | the compiler's process: the passes that make work-groups of work-items are in `compiler/workgroup` |
//! | `client` | starts that process, and keeps its results on disk |
//! | `child` | programs that are started, for any use of `SIGCHLD` by this one |
//! | `command` | the command line of `quipu-clc` |
//! | `description` | programs that are read for a device, here or by its driver |
//! | `features` | the extensions and optional features of OpenCL C that programs are told of |
//! | `includes` | texts with the files that they include, for compilers elsewhere |
//! | `options` | options of compilers |
//! | `program` | programs and kernels of this process |
//! | `run` | runs compiled kernels |
//! | `image` | the arguments of kernels for images |
//! | `parts` | programs that are linked of several parts |
//! | `passed` | launches as the core has them |
//! | `metadata` | descriptions of compiled kernels |
//! | `output` | the standard output, to which kernels print |
//! | `spirv` | modules of SPIR-V: looked at, specialised, and lowered for the translator |
//! | `text` | texts that are not UTF-8 |

#![cfg_attr(not(test), warn(clippy::disallowed_macros, clippy::disallowed_methods))]

mod child;
mod client;
mod command;
mod compiler;
#[cfg(feature = "core")]
mod description;
mod features;
mod image;
mod includes;
mod metadata;
mod options;
mod output;
mod parts;
#[cfg(feature = "core")]
mod passed;
mod program;
mod run;
mod spirv;
mod text;

pub use client::{
    ClcError, compiler_program, has_half, is_available, kernels_there, limit_compiler,
    llvm_version, set_compiler, takes_spirv,
};
pub use command::run_command;
pub use compiler::{Output, serve_compiler};
#[cfg(feature = "core")]
pub use description::{describe, describe_by_driver, describe_parts};
pub use features::{FEATURES, Feature, Need};
pub use image::Image;
pub use includes::with_includes;
pub use metadata::{
    Description, KernelInfo, Layout, MemoryAccess, ParameterInfo, ParameterKind, ProgramText,
    interned,
};
pub use options::{checked_options, has_uniform_groups, with_named_files};
pub use output::print_for_kernels;
pub use parts::{LinkedKernel, Part, ProgramParts};
pub use program::{Program, SHARED_VARIABLES, Unit};
pub use run::{Argument, Grid, Kernel};
pub use spirv::SpirV;
pub use text::as_utf8;
