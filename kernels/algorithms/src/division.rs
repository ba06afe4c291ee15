//! The division of the algorithms' work.

use quipu::{AcceleratorLimits, ErrorKind, KernelError, Result, WorkDivision};

/// Elements that are worth a block of their own.
const LEAST: usize = 8192;
/// Blocks for each core, so that one that is late has little left to do.
pub(crate) const BLOCKS_PER_CORE: usize = 4;

/// In how many contiguous parts `length` elements are gone through, so many for each core at most:
/// at least one.
pub(crate) fn parts(length: usize, limits: &AcceleratorLimits, for_each_core: usize) -> usize {
    length
        .div_ceil(LEAST)
        .clamp(1, limits.multiprocessors.max(1) * for_each_core)
}

/// The number of threads of a block with barriers: a power of two.
pub(crate) fn threads(limits: &AcceleratorLimits) -> usize {
    let threads = limits.preferred_block_threads.clamp(1, 1024);
    1 << threads.ilog2()
}

/// A division into tiles of neighbouring elements, one for each block.
pub(crate) struct Tiles {
    /// The number of tiles: at least one.
    pub(crate) count: usize,
    pub(crate) division: std::result::Result<WorkDivision<1>, KernelError>,
}

/// Elements of a thread's part of a tile, at most. A quarter of it is no multiple of 4096 bytes:
/// parts that are gone through side by side would else be in the same places of the nearest cache.
const MOST: usize = LEAST - 64;

/// Tiles of `length` elements. One fits into the nearest caches, as it is gone through twice.
pub(crate) fn tiles(length: usize, limits: &AcceleratorLimits) -> Tiles {
    let threads = threads(limits);
    let elements = limits.preferred_thread_elements.clamp(16, MOST);
    let count = length.div_ceil(threads * elements).max(1);
    Tiles {
        count,
        division: WorkDivision::new(count, threads, elements),
    }
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
