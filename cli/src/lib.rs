//! The parts of the `quipu` command.

pub mod benchmarks;
pub mod escape;
pub mod kernels;
pub mod table;
pub mod timeline;
pub mod units;
