//! The source of kernels, for who wants to see it: what `#[kernel]` made, in the languages of devices.
//!
//! ```
//! use quipu::kernel::print::{self, Dialect, IndexWidth, Options};
//! use quipu::prelude::*;
//!
//! #[kernel]
//! fn saxpy(_acc: &impl Accelerator<1>, a: f32, x: &[f32], mut y: OwnElements<f32>) {
//!     for (i, y) in y.each() {
//!         *y += a * x[i];
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let module = print::module::<saxpy, _>()?;
//! let options = Options::new(Dialect::Cuda, IndexWidth::Bits32);
//! let printed = module.print(Dialect::Cuda, &options)?;
//! assert!(printed.source.contains("__global__"));
//! # Ok(()) }
//! ```
//!
//! The type of a kernel has its name: `saxpy` here, `generic::<f32>` of a generic one. Where there is a
//! [`Call`](super::Call), its [`module`](super::Call::module) is the same with the types that were inferred.
//! How the source is compiled and launched is said by [`Printed`], and in the documentation of the printers in
//! `quipu_kernel_ir`.

pub use quipu_kernel::build::ir::print::{
    EntryKind, EntryParameter, FAULT_WORDS, Fault, FaultKind, SharedMemory, Site,
};
pub use quipu_kernel::build::ir::{
    Dialect, ElementOrder, IndexWidth, Module, OpenClFeatures, Options, PrintError, Printed,
    VerifyError,
};
pub use quipu_kernel::{BuildError, Entry};

/// The source of a kernel, by its type, in the intermediate representation: [`Module::print`] writes it down.
///
/// # Errors
/// Says what of the kernel has no source, and where.
pub fn module<K: Entry<D>, const D: usize>() -> Result<Module, BuildError> {
    K::module()
}
