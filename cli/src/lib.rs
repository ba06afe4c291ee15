//! What the `quipu` command is made of.

pub mod kernels;
pub mod timeline;
