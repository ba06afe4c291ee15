//! Algorithms written in Quipu's kernel language, generic over element type and operator.
//!
//! Each is a function that is called with a queue and buffers, divides the work as suits the
//! queue's device, and enqueues one launch or a few. None waits: the [`Event`](quipu::Event) or the
//! next command on the buffers does. Kernels that are right whatever they are given are public in
//! [`kernels`], to be launched in another division or printed. With the feature `serve` all kernels
//! are in `served`, for programs that offer them to others.
//!
//! ```
//! use quipu::prelude::*;
//! use quipu_algorithms::{Sum, iota, reduce};
//!
//! # fn main() -> quipu::Result<()> {
//! let context = Platform::new()?.context()?;
//! let queue = context.queue(&context.fastest())?;
//! let mut x = context.allocate::<u64>(1000)?;
//! let mut sum = context.allocate(1)?;
//! iota(&queue, 1, 1, &mut x)?;
//! reduce::<Sum, _>(&queue, &x, &mut sum)?;
//! assert_eq!(queue.read(&sum)?.wait()?, [500_500]);
//! # Ok(()) }
//! ```
//!
//! | algorithm | passes over the data | the same bits every time, on a given device |
//! |---|---|---|
//! | [`fill`], [`iota`], [`transform`], [`zip`] | one | yes |
//! | [`reduce`] | one read | yes |
//! | [`inclusive_scan`], [`exclusive_scan`] | one read, one write | yes |
//! | [`histogram`] | one read | yes |
//! | [`compact`] | one read, one write | yes |
//! | [`radix_sort`], [`radix_sort_by_key`] | for each byte of the key two reads, one write | yes |
//! | [`merge_sort`], [`merge_sort_by_key`] | log(n / 4096) reads and writes, and those of the tiles | yes |
//! | [`transpose`] | one | yes |
//! | [`stencil`] | three reads from near memory, one write | yes |
//! | [`random`], [`random_uniform`], [`random_normal`] | one write | yes |
//! | [`attract`], gravity between all bodies | one read for each block | yes |
//! | [`matrix_product`] | a read of `a` for each 256 columns, of `b` for each 384 rows | yes |
//!
//! Elements are combined with an [`Operator`] in an order that depends on the device's number of
//! cores. So sums of floats may differ from device to device in their last bits; those of integers
//! do not.
//!
//! The matrix product has two kernels: [`kernels::multiply_tiles`] is right where a thread's
//! elements are neighbours, as on processors; where blocks have many threads
//! [`kernels::multiply_squares`] is launched.
//!
//! # Blocks that wait for others
//!
//! In scans and compaction a block waits for the results of the blocks before it, a bounded time. A
//! device need not promise that blocks make progress side by side: a block computes itself the
//! results that it has waited for in vain. So there is one algorithm for all devices, and no choice
//! to make at a launch.

#![deny(missing_docs)]
#![allow(
    clippy::manual_memcpy,
    clippy::needless_range_loop,
    reason = "the kernel language has no `copy_from_slice` and iterators of several arrays"
)]
#![allow(
    clippy::too_many_arguments,
    reason = "views are parameters of their own: the kernel language has no structs of them"
)]

mod bodies;
mod compact;
mod division;
mod elementwise;
mod function;
mod histogram;
mod key;
mod look_back;
mod matmul;
mod merge;
mod radix;
mod random;
mod reduce;
mod scan;
#[cfg(feature = "serve")]
pub mod served;
mod stencil;
mod transpose;

// The tests name the crate as other crates do, and are in it for its private kernels.
#[cfg(test)]
extern crate self as quipu_algorithms;
#[cfg(test)]
mod tests;

pub use bodies::attract;
pub use compact::compact;
pub use elementwise::{fill, iota, transform, zip};
pub use function::{
    Function, Function2, Item, Maximum, Minimum, MultiplyAdd, Operator, Product, Sum,
};
pub use histogram::histogram;
pub use key::{Ascending, Descending, Order, RadixKey};
pub use matmul::matrix_product;
pub use merge::{merge_sort, merge_sort_by_key};
pub use radix::{radix_sort, radix_sort_by_key};
pub use random::{Drawn, random, random_normal, random_uniform};
pub use reduce::reduce;
pub use scan::{exclusive_scan, inclusive_scan};
pub use stencil::stencil;
pub use transpose::transpose;

pub mod kernels {
    //! The kernels by themselves: those that are right whatever they are given.

    pub use crate::bodies::attract_tiles;
    pub use crate::elementwise::{fill_each, iota_each, transform_each, zip_each};
    pub use crate::histogram::{count_bins, count_bins_in_tables};
    pub use crate::matmul::{DEPTH, SIDE, multiply_squares, multiply_tiles};
    pub use crate::radix::{choose_sides, count_digits, settle};
    pub use crate::random::{MANY, normal_blocks, philox_block, random_blocks, uniform_blocks};
    pub use crate::reduce::reduce_blocks;
    pub use crate::stencil::{stencil_fours, stencil_tiles};
    pub use crate::transpose::{transpose_at_hand, transpose_tiles};

    // These write to places that come from their arguments: of wrong ones two threads write one
    // element.
    #[cfg(any(test, feature = "serve"))]
    pub(crate) use crate::{
        compact::{compact_neighbours, compact_tiles},
        merge::{merge_runs, sort_tiles},
        radix::{move_digits, move_digits_in_lines},
        scan::{scan_neighbours, scan_tiles},
    };
}
