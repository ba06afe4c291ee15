//! The kernels of each algorithm, for programs that serve: a client that calls the algorithm of
//! these types on a queue of the node's device finds them there.
//!
//! ```
//! use quipu_algorithms::{Sum, served};
//!
//! let kernels = served::radix_sort::<u32>().and(served::inclusive_scan::<Sum, f32>());
//! kernels.check()?;
//! # Ok::<(), quipu::Error>(())
//! ```
//!
//! All of them are of this crate's code: no client does more to a node's memory than to buffers of
//! its own, whatever it passes.

use crate::function::{Function, Function2, Item, MultiplyAdd, Operator, Sum};
use crate::kernels as all;
use crate::key::{Order, RadixKey};
use crate::random::Drawn;
use crate::reduce::LANES;
use quipu::kernels::{Float, KernelData, Number};
use quipu::serve::Kernels;

/// Of [`fill`](crate::fill).
#[must_use]
pub fn fill<T: Item>() -> Kernels {
    Kernels::new().with::<all::fill_each<T>, _>()
}

/// Of [`iota`](crate::iota).
#[must_use]
pub fn iota<T: Item + Number>() -> Kernels {
    Kernels::new().with::<all::iota_each<T>, _>()
}

/// Of [`transform`](crate::transform).
#[must_use]
pub fn transform<T: Item, U: Item, F: Function<T, U> + KernelData>() -> Kernels {
    Kernels::new().with::<all::transform_each<T, U, F>, _>()
}

/// Of [`zip`](crate::zip).
#[must_use]
pub fn zip<T: Item, U: Item, V: Item, F: Function2<T, U, V> + KernelData>() -> Kernels {
    Kernels::new().with::<all::zip_each<T, U, V, F>, _>()
}

/// Of [`reduce`](crate::reduce).
#[must_use]
pub fn reduce<O: Operator<T> + KernelData, T: Item + KernelData>() -> Kernels {
    Kernels::new()
        .with::<all::reduce_blocks<T, O, 1>, _>()
        .with::<all::reduce_blocks<T, O, LANES>, _>()
}

fn scan<O: Operator<T> + KernelData, T: Item + KernelData, const INCLUSIVE: bool>() -> Kernels {
    Kernels::new()
        .with::<all::scan_neighbours<T, O, INCLUSIVE>, _>()
        .with::<all::scan_tiles<T, O, INCLUSIVE>, _>()
}

/// Of [`inclusive_scan`](crate::inclusive_scan).
#[must_use]
pub fn inclusive_scan<O: Operator<T> + KernelData, T: Item + KernelData>() -> Kernels {
    scan::<O, T, true>()
}

/// Of [`exclusive_scan`](crate::exclusive_scan).
#[must_use]
pub fn exclusive_scan<O: Operator<T> + KernelData, T: Item + KernelData>() -> Kernels {
    scan::<O, T, false>()
}

/// Of [`histogram`](crate::histogram).
#[must_use]
pub fn histogram<T: Item, F: Function<T, u32> + KernelData>() -> Kernels {
    Kernels::new()
        .with::<all::count_bins<T, F>, _>()
        .with::<all::count_bins_in_tables<T, F, { crate::histogram::TABLES_OF_FEW }>, _>()
        .with::<all::count_bins_in_tables<T, F, 1>, _>()
}

/// Of [`compact`](crate::compact).
#[must_use]
pub fn compact<T: Item, F: Function<T, bool> + KernelData>() -> Kernels {
    Kernels::new()
        .with::<all::compact_neighbours<T, F>, _>()
        .with::<all::compact_tiles<T, F>, _>()
}

fn radix<K: Item + RadixKey, V: Item, const VALUES: bool>() -> Kernels {
    Kernels::new()
        .with::<all::count_digits<K>, _>()
        .with::<all::choose_sides, _>()
        .with::<all::move_digits<K, V, VALUES>, _>()
        .with::<all::settle<K>, _>()
        .and(exclusive_scan::<Sum, u64>())
}

/// Of [`radix_sort`](crate::radix_sort).
#[must_use]
pub fn radix_sort<K: Item + RadixKey>() -> Kernels {
    radix::<K, u8, false>()
}

/// Of [`radix_sort_by_key`](crate::radix_sort_by_key).
#[must_use]
pub fn radix_sort_by_key<K: Item + RadixKey, V: Item>() -> Kernels {
    radix::<K, V, true>()
        .with::<all::move_digits_in_lines<K, V>, _>()
        .with::<all::settle<V>, _>()
}

fn merge<K: Item, V: Item, O: Order<K> + KernelData, const VALUES: bool>() -> Kernels {
    Kernels::new()
        .with::<all::sort_tiles<K, V, O, VALUES>, _>()
        .with::<all::merge_runs<K, V, O, VALUES>, _>()
}

/// Of [`merge_sort`](crate::merge_sort).
#[must_use]
pub fn merge_sort<K: Item, O: Order<K> + KernelData>() -> Kernels {
    merge::<K, u8, O, false>()
}

/// Of [`merge_sort_by_key`](crate::merge_sort_by_key).
#[must_use]
pub fn merge_sort_by_key<K: Item, V: Item, O: Order<K> + KernelData>() -> Kernels {
    merge::<K, V, O, true>()
}

/// Of [`transpose`](crate::transpose).
#[must_use]
pub fn transpose<T: Item>() -> Kernels {
    Kernels::new()
        .with::<all::transpose_at_hand<T>, _>()
        .with::<all::transpose_tiles<T>, _>()
}

/// Of [`stencil`](crate::stencil).
#[must_use]
pub fn stencil<T: Item + Number>() -> Kernels
where
    [[T; 3]; 3]: KernelData,
{
    Kernels::new()
        .with::<all::stencil_fours<T>, _>()
        .with::<all::stencil_tiles<T>, _>()
}

/// Of [`random`](crate::random).
#[must_use]
pub fn random() -> Kernels {
    Kernels::new().with::<all::random_blocks, _>()
}

/// Of [`random_uniform`](crate::random_uniform).
#[must_use]
pub fn random_uniform<T: Item + Drawn>() -> Kernels {
    Kernels::new()
        .with::<all::uniform_blocks<T, { all::MANY }>, _>()
        .with::<all::uniform_blocks<T, 1>, _>()
}

/// Of [`random_normal`](crate::random_normal).
#[must_use]
pub fn random_normal<T: Item + Drawn>() -> Kernels {
    Kernels::new()
        .with::<all::normal_blocks<T, { all::MANY }>, _>()
        .with::<all::normal_blocks<T, 1>, _>()
}

/// Of [`attract`](crate::attract).
#[must_use]
pub fn attract<T: Item + Float + KernelData>() -> Kernels
where
    [T; 4]: Item,
{
    Kernels::new().with::<all::attract_tiles<T>, _>()
}

/// Of [`matrix_product`](crate::matrix_product), for clients with processors of any kind.
#[must_use]
pub fn matrix_product<T: Item + MultiplyAdd + KernelData>() -> Kernels {
    let kernels = Kernels::new().with::<all::multiply_squares<T>, _>();
    if size_of::<T>() <= 4 {
        kernels
            .with::<all::multiply_tiles<T, 12, 32>, _>()
            .with::<all::multiply_tiles<T, 6, 16>, _>()
    } else {
        kernels
            .with::<all::multiply_tiles<T, 12, 16>, _>()
            .with::<all::multiply_tiles<T, 6, 8>, _>()
    }
}
