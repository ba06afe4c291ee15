//! Kernels that between them use everything that the language accepts: see `tests/corpus/mod.rs`.
//!
//! They are a crate of their own, and no test of the kernel language's. So they are compiled
//! without optimisation, which takes much less time, with the levels of processors that the
//! language has.
