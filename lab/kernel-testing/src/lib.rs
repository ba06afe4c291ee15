//! Compiles and runs printed kernels, for tests: C99 through `cc`, OpenCL C through any OpenCL
//! platform, CUDA C through CUDA.
//!
//! ```no_run
//! use quipu_kernel_ir::{Dialect, IndexWidth, Module, Options};
//! use quipu_kernel_testing::{Argument, C99Program, Division, Launch};
//!
//! # fn test(module: &Module) -> Result<(), Box<dyn std::error::Error>> {
//! let printed = module.print(Dialect::C99, &Options::new(Dialect::C99, IndexWidth::Bits32))?;
//! let program = C99Program::compile(&printed)?;
//! let mut launch = Launch::new(
//!     Division::new([4], [32], [1]),
//!     [Argument::uniform(2.0_f32), Argument::buffer(&[1.0_f32; 100]), Argument::buffer(&[0.0_f32; 100])],
//! );
//! let fault = program.run(&mut launch)?;
//! assert_eq!(fault, None);
//! assert_eq!(launch.elements::<f32>(2), [2.0; 100]);
//! # Ok(())
//! # }
//! ```
//!
//! A test that needs OpenCL asks [`opencl_or_skip`] first. CUDA C is compiled where there is NVRTC
//! ([`CudaProgram::compile_or_skip`]), and run where `QUIPU_TEST_CUDA=1` says that there is a GPU.

mod c99;
pub mod corpus;
mod cuda;
mod launch;
mod opencl;

pub use c99::C99Program;
pub use cuda::CudaProgram;
pub use launch::{Argument, Division, Launch};
pub use opencl::{OpenClProgram, opencl_device, opencl_features, opencl_or_skip};

/// The reason for which a printed kernel was not compiled or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestingError {
    /// A file could not be written, or a compiler not be started.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The compiler refuses the source.
    #[error("the compiler refuses the source:\n{log}\n{source_text}")]
    Compiler {
        /// Its text.
        log: String,
        /// The source with numbers of lines.
        source_text: String,
    },
    /// The compiled code could not be loaded.
    #[error("{0}")]
    Library(#[from] libloading::Error),
    /// The launch does not fit the kernel.
    #[error("the launch does not fit the kernel: {0}")]
    Launch(String),
    /// There is no OpenCL device.
    #[error("no OpenCL device: {0}")]
    NoOpenCl(String),
    /// An OpenCL function failed.
    #[error("{function} failed with {code}")]
    OpenCl {
        /// The function.
        function: &'static str,
        /// Its result.
        code: i32,
    },
    /// A function of CUDA's driver failed.
    #[error("{function} failed with {code}")]
    Cuda {
        /// The function.
        function: &'static str,
        /// Its result.
        code: i32,
    },
    /// The entry function says so.
    #[error("the kernel could not run: not enough memory")]
    OutOfMemory,
}

/// A source with the numbers of its lines.
fn numbered(source: &str) -> String {
    source
        .lines()
        .enumerate()
        .map(|(number, line)| format!("{:4} {line}\n", number + 1))
        .collect()
}
