//! Quipu's kernel language: accelerators, work division, kernels, native launches, and the sources
//! of kernels.
//!
//! A *kernel* is a function that every thread of a launch executes once. Threads form blocks,
//! blocks form a grid, and each thread has elements of its own to go through ([`WorkDivision`]).
//! Outputs are handed to each thread in parts, in a way that the type of the parameter says
//! ([`Partition`]); so a kernel without `unsafe` can neither race nor go out of bounds.
//!
//! ```
//! use quipu_kernel::*;
//!
//! #[kernel(crate = quipu_kernel)] // without `crate` where the kernel language is `quipu`'s
//! fn saxpy(_acc: &impl Accelerator<1>, a: f32, x: &[f32], mut y: OwnElements<f32>) {
//!     for (i, y) in y.each() {
//!         *y += a * x[i];
//!     }
//! }
//!
//! let x = vec![1.0; 10_000];
//! let mut y = vec![2.0; 10_000];
//! let division = WorkDivision::for_elements(y.len(), &AcceleratorLimits::native(4))?;
//! saxpy(3.0, &x, &mut y).run(division)?;
//!
//! assert!(y.iter().all(|&y| y == 5.0));
//! # Ok::<(), KernelError>(())
//! ```
//!
//! A *block kernel* is an `async fn`. Its threads wait for each other at barriers, and turn the
//! memory that they share from a phase in which each writes its own elements to one in which all
//! read ([`SharedWrite`]).
//!
//! ```
//! use quipu_kernel::*;
//!
//! /// The sum of each block's part of `x`.
//! #[kernel(crate = quipu_kernel)]
//! async fn block_sum(
//!     acc: &impl BlockAccelerator<1>,
//!     x: &[f32],
//!     sum: OwnBlock<f32>,
//!     #[shared(acc.extent(Block, Threads)[0])] mut sums: SharedWrite<f32>,
//! ) {
//!     let thread = acc.index(Block, Threads)[0];
//!     let mut own = 0.0;
//!     for i in acc.elements(x.len()) {
//!         own += x[i];
//!     }
//!     sums.own()[0] = own;
//!     let mut half = acc.extent(Block, Threads)[0] / 2; // of a power of two
//!     while half > 0 {
//!         let read = acc.sync(sums).await;
//!         let other = if thread < half { read[thread + half] } else { 0.0 };
//!         sums = acc.sync(read).await;
//!         sums.own()[0] += other;
//!         half /= 2;
//!     }
//!     for sum in sum {
//!         *sum = sums.own()[0]; // one element per block: the first thread's
//!     }
//! }
//!
//! let x = vec![1.0; 4096];
//! let mut sums = vec![0.0; 4];
//! block_sum(&x, &mut sums).run(WorkDivision::new(4, 256, 4)?)?;
//! assert_eq!(sums, [1024.0; 4]);
//! # Ok::<(), KernelError>(())
//! ```
//!
//! # What else kernels have
//!
//! | subject | see |
//! |---|---|
//! | numbers for generic kernels, mathematical functions, complex numbers, 16-bit floats | [`Scalar`], [`Number`], [`Signed`], [`Integer`], [`Float`], [`Complex`] |
//! | outputs by element, tile, row, block; all elements at once | [`Partition`], with a table |
//! | changes in one step, of global and block-shared memory; fences | [`Atomics`], [`SharedAtomics`], [`Accelerator::fence_device`] |
//! | functions of the threads of a warp together | [`BlockAccelerator::warp_shuffle`] and its neighbours |
//! | random numbers | [`random`] |
//! | work that is done once, groups of a block, elements in as many rounds | [`Accelerator::once_per_grid`], [`Accelerator::groups`], [`Accelerator::uniform_elements`] |
//! | a kernel where it is launched | [`kernel_closure`] |
//! | a clock | [`Accelerator::clock`] |
//!
//! # What `#[kernel]` makes
//!
//! Natively a [`Kernel`] or [`BlockKernel`], which may also be written by hand, in any Rust: a
//! value whose `run` every thread executes. And its source, for devices that run other code:
//! [`Call::module`] gives it as the intermediate representation, which is printed in their
//! languages ([`emit`]). The page of [`macro@kernel`] describes the language.
//!
//! # What runs a launch
//!
//! [`erase`] and [`erase_block`] give a [`GroupKernel`], which is object-safe: a driver splits its
//! groups into ranges and runs them on its workers, each with a [`BlockScratch`]. Kernels without
//! barriers are plain loops inside, and so is the work of a block's threads from one barrier to the
//! next, where it can be seen that all come to it: a barrier costs each thread less than a
//! nanosecond. Elsewhere the threads are state machines polled in turn on one core, for which it
//! takes some nanoseconds (`cargo run --release -p quipu-kernel --example barrier_cost` measures
//! both). Neither allocates. A block whose threads do not all come to the same barrier ends with an
//! error. The loops are compiled for several [feature levels](level), of which the machine's best
//! is run.
//!
//! [`RunOptions`], or the environment, choose a way that is slower and finds something out: warps
//! in [lockstep](Execution::Lockstep), block threads on [threads of the operating
//! system](Execution::OsThreads), and [checks](RunOptions::check) for races and indices.
//!
//! # What safe code cannot do
//!
//! * Reach an element that another thread may write: parts of an output are disjoint values, which
//!   do not outlive the thread; a view is consumed by one launch and borrowed exclusively.
//! * Read block-shared memory that another thread may be writing: `SharedWrite` shows a thread its
//!   own elements only, and a barrier makes a `SharedRead` of it for all threads of the block or
//!   for none.
//! * Wait for ever, or come to a barrier without the others: natively that is a [`KernelError`], as
//!   is an await of anything else. The behaviour of such a barrier on a GPU is undefined, and
//!   nothing there finds it. So a kernel has a source only if it is seen that all come
//!   ([`BlockAccelerator`]).
//!
//! Operations that need a promise are `unsafe`: making views of raw memory,
//! [`GroupKernel::run_groups`], on which a driver promises to run no group twice at a time,
//! [`RawMut`] and [`SharedRaw`], [`assume_uniform`](BlockAccelerator::assume_uniform), and
//! implementing [`Partition`], [`Shared`], [`Port`] or [`AtomicElement`].
//!
//! The code that macros write has `unsafe` blocks. Its variables, and what it asks before it reads
//! unchecked, cannot be replaced by a kernel's variables, traits or modules, nor by a module named
//! `core`. The path of this crate is believed (`::quipu`, or that of `crate = path`): do not let it
//! lead to a module with another `__macro`.

#![cfg_attr(not(test), warn(clippy::disallowed_macros, clippy::disallowed_methods))]

/// The example in this crate's README is one that works.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

mod accelerator;
mod atomics;
mod barrier;
mod check;
mod division;
pub mod emit;
mod entry;
mod error;
mod extent;
mod kernel;
mod launch;
pub mod level;
mod number;
mod partition;
pub mod random;
mod region;
mod shared;
mod stencil_loops;
mod strides;
mod view;
mod warp;

pub use accelerator::{
    Accelerator, Block, BlockAccelerator, Blocks, Elements, Grid, GridAccelerator, Measured,
    Thread, Threads,
};
pub use atomics::{AtomicElement, AtomicInteger, Atomics, SharedAtomicArray, SharedAtomics};
pub use barrier::{Barrier, Exchanged, Port, Site, Turns};
pub use division::{
    AcceleratorLimits, KernelResources, LaunchBounds, Multiprocessor, Occupancy, PerDimension,
    Subdivision, WorkDivision,
};
pub use emit::{BuildError, KernelData, KernelValue, ValueParameter};
pub use entry::{
    ByValue, Call, Entry, OwnBlock, Parameter, Pass, PassAll, Reading, ReadingView, Shape,
};
pub use error::{Exceeded, KernelError, Reach};
pub use extent::{Extent, Vector};
pub use kernel::{BlockKernel, Kernel};
pub use launch::{
    BlockLaunch, BlockScratch, Execution, GridLaunch, GroupKernel, RunOptions, erase, erase_block,
};
pub use level::FeatureLevel;
pub use number::{Complex, Float, Integer, Number, Scalar, Signed, Wide, bf16, f16};
pub use partition::{
    Atomically, BlockParts, BlockTilePlan, ByBlock, ByBlockTile, ByElement, ByRow, ByTile, Each,
    EachOwnRow, EachPlaced, EachRow, IterMut, Own, OwnBlockTile, OwnElements, OwnPart, OwnRows,
    OwnTile, OwnZip, Partition, RawMut, RowParts, Unpartitioned, View,
};
pub use quipu_kernel_macros::{KernelData, device, kernel, kernel_closure};
pub use random::{Philox, Uniform, box_muller, philox4x32};
pub use region::{Indices, Region, Rows};
pub use shared::{
    AttachedArray, BlockContext, HasOwn, Phase, SHARED_ALIGNMENT, Shared, SharedArray, SharedPlan,
    SharedRaw, SharedRead, SharedWrite, Turning,
};
pub use view::{At, GlobalMut, GlobalRef};
pub use warp::{
    warp_shuffle_down_within, warp_shuffle_up_within, warp_shuffle_within, warp_shuffle_xor_within,
};

/// The items that the macros' code names.
#[doc(hidden)]
pub mod __macro {
    pub use ::{core, std};

    pub use crate::__optimised as optimised;
    pub use crate::__unoptimised as unoptimised;
    pub use crate::accelerator::{counts_blocks, counts_threads};
    pub use crate::emit;
    pub use crate::entry::{ByValue, Call, Entry, LaunchShape, Parameter, Pass, PassAll, Shape};
    pub use crate::extent::components;
    pub use crate::launch::compiled_here;
    pub use crate::launch::{Elements, Kept, Lanes, Phases, difference, product, sum};
    pub use crate::level::Level;
    pub use crate::partition::is_read_by_all;
    pub use crate::stencil_loops::{Neighbours, Pieces};
    pub use crate::{Accelerator, BlockAccelerator, GridAccelerator};
    pub use crate::{
        AcceleratorLimits, BlockKernel, BlockScratch, GroupKernel, Kernel, KernelError,
        LaunchBounds, Own, Partition, Shared, SharedArray, View, WorkDivision, erase, erase_block,
    };
}
