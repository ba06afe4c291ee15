//! The kernels that devices are measured with, in Quipu's language. Beside them, in `by_hand.cl`
//! and `by_hand.cu`, is what a programmer writes for the same in the devices' languages.
//!
//! Nodes have the kernels, too: they are in the crate of `quipu serve`.

pub use quipu_cli::benchmarks::*;

/// The hand-written kernels in OpenCL C.
pub const OPENCL_C: &str = include_str!("by_hand.cl");
/// The hand-written kernels in CUDA C.
pub const CUDA_C: &str = include_str!("by_hand.cu");
