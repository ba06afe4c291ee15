//! What the `quipu` command is made of.

pub mod escape;
pub mod kernels;
pub mod table;
pub mod timeline;
pub mod units;
