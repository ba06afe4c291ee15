//! How algorithms divide work.

use quipu::{AcceleratorLimits, ErrorKind, KernelError, Result, WorkDivision};

/// Elements that are worth a block of their own.
const LEAST: usize = 8192;
/// Blocks for each core, so that one that is late has little left to do.
const BLOCKS_PER_CORE: usize = 4;

/// In how many contiguous parts `length` elements are gone through: at least one.
pub(crate) fn parts(length: usize, limits: &AcceleratorLimits) -> usize {
    length
        .div_ceil(LEAST)
        .clamp(1, limits.multiprocessors.max(1) * BLOCKS_PER_CORE)
}

/// How many threads a block with barriers has: a power of two.
pub(crate) fn threads(limits: &AcceleratorLimits) -> usize {
    let threads = limits.preferred_block_threads.clamp(1, 1024);
    1 << threads.ilog2()
}

/// An argument that cannot be one.
pub(crate) fn refuse<T>(what: &'static str, problem: String) -> Result<T> {
    Err(ErrorKind::InvalidArgument { what, problem }.into())
}

/// Refuses lengths that differ.
pub(crate) fn same_length(what: &'static str, from: usize, to: usize) -> Result<()> {
    if from == to {
        return Ok(());
    }
    refuse(
        what,
        format!("the input has {from} elements and the output {to}; make them equally long"),
    )
}

/// So many blocks of one thread, of one element.
pub(crate) fn single(blocks: usize) -> std::result::Result<WorkDivision<1>, KernelError> {
    WorkDivision::new(blocks, 1, 1)
}
