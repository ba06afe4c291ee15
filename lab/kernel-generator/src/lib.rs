//! Random well-typed kernels, as Rust source.
//!
//! A kernel of a language of our own is trusted as far as it was compared: what rustc makes of it,
//! natively, with what compilers make of its printed source. This crate makes kernels to compare,
//! by the thousand, each from a seed. `quipu-kernel-generated` compiles and runs them; its build
//! script asks for some tens of them, and the program `kernels` here for as many as there is time
//! for.
//!
//! * `make`: a kernel of a seed, whose meaning is the same everywhere.
//! * [`tree`]: what it is made of, as text with parts.
//! * [`shrink`]: smaller kernels that may still show the same.
//! * [`batch()`]: many kernels as one file.

mod batch;
mod make;
pub mod random;
pub mod shrink;
pub mod tree;
pub mod types;

pub use batch::{Batch, batch};
pub use make::{Function, Kernel, Parameter, Passing, Shape, kernel};
