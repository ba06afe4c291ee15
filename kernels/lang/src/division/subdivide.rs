//! Work divisions that fit a device, found from the number of elements.
//!
//! Sizes that do not divide are rounded up: the last block of a dimension sticks out, and the
//! elements that a thread is handed are clipped to the extent it asks for.

use super::{AcceleratorLimits, PerDimension, WorkDivision};
use crate::error::KernelError;
use crate::extent::Extent;

/// The shapes that the blocks of a subdivided grid may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Subdivision {
    /// Any: the fastest dimension gets as many threads as it can take, then the next one.
    Unrestricted,
    /// The same number of threads in every dimension.
    EqualExtent,
    /// As near to equal as the grid and the limits allow.
    CloseToEqualExtent,
}

/// An automatic division makes at least this many groups per multiprocessor where there is work for
/// them, so that an uneven load still ends evenly.
const GROUPS_PER_MULTIPROCESSOR: usize = 8;

/// ... or this many, of one thread each: these run one after the other, and half of the last one's
/// time is shared with no other.
const SINGLE_GROUPS_PER_MULTIPROCESSOR: usize = 32;

/// ... but gives no thread fewer than one in this many of its preferred elements for it.
const SMALLEST_SHARE: usize = 16;

impl<const D: usize> WorkDivision<D> {
    /// The division that suits a device for so many elements.
    ///
    /// Blocks have the device's preferred number of threads and threads its preferred number of
    /// elements, fewer where the multiprocessors would otherwise idle, both taken from the fastest
    /// dimension first. Zero elements make zero blocks.
    ///
    /// ```
    /// use quipu_kernel::{AcceleratorLimits, WorkDivision};
    ///
    /// let division = WorkDivision::<1>::for_elements(1_000_000, &AcceleratorLimits::native(4))?;
    /// assert_eq!(division.threads_per_block(), 1);
    /// assert!(division.grid_elements()[0] >= 1_000_000);
    /// # Ok::<(), quipu_kernel::KernelError>(())
    /// ```
    ///
    /// # Errors
    /// [`KernelError::ExtentOverflow`] when the elements cannot be counted,
    /// [`KernelError::ExceedsLimits`] when the device has no division for them.
    pub fn for_elements(
        total: impl Into<Extent<D>>,
        limits: &AcceleratorLimits,
    ) -> Result<Self, KernelError> {
        let total = total.into();
        let count = total.count()?;
        let threads_wanted = limits
            .preferred_block_threads
            .clamp(1, limits.block_thread_count.max(1));
        let groups = match threads_wanted {
            1 => SINGLE_GROUPS_PER_MULTIPROCESSOR,
            _ => GROUPS_PER_MULTIPROCESSOR,
        };
        let at_once = limits
            .multiprocessors
            .saturating_mul(groups)
            .saturating_mul(threads_wanted);
        let most = limits
            .preferred_thread_elements
            .clamp(1, limits.thread_element_count.max(1));
        let least = (most / SMALLEST_SHARE).max(1);
        let elements_wanted = (count / at_once.max(1)).clamp(least, most);

        let elements = fill_fastest_first(total, elements_wanted, limits.thread_elements);
        let threads =
            fill_fastest_first(total.tiles(elements), threads_wanted, limits.block_threads);
        Self::covering(total, threads, elements, limits)
    }

    /// The division of `total` elements into threads of `thread_elements` each and blocks as large
    /// as the device allows and `subdivision` permits.
    ///
    /// # Errors
    /// As [`for_elements`](Self::for_elements), and [`KernelError::EmptyBlock`] for threads of no
    /// elements.
    pub fn subdivide(
        total: impl Into<Extent<D>>,
        thread_elements: impl Into<Extent<D>>,
        limits: &AcceleratorLimits,
        subdivision: Subdivision,
    ) -> Result<Self, KernelError> {
        let (total, elements) = (total.into(), thread_elements.into());
        total.count()?;
        if elements.is_empty() {
            return Self::new(Extent::splat(0), Extent::ONE, elements);
        }
        let grid_threads = total.tiles(elements);
        let most = limits.block_thread_count.max(1);
        let threads = match subdivision {
            Subdivision::Unrestricted => {
                fill_fastest_first(grid_threads, most, limits.block_threads)
            }
            Subdivision::EqualExtent => equal(clamped(grid_threads, limits), most),
            Subdivision::CloseToEqualExtent => close_to_equal(clamped(grid_threads, limits), most),
        };
        Self::covering(total, threads, elements, limits)
    }

    /// As [`subdivide`](Self::subdivide), with full blocks only: in every dimension the threads of
    /// a block divide those that the elements need, so that no block sticks out. (The last thread's
    /// elements may.)
    ///
    /// Where few numbers divide the extent, blocks are small: one thread each, along a dimension of
    /// a prime number of threads that is larger than a block can be. Sides that shall be close to
    /// equal grow in turns, the shortest first, while any can.
    ///
    /// ```
    /// use quipu_kernel::{AcceleratorLimits, Extent, Subdivision, WorkDivision};
    ///
    /// let mut limits = AcceleratorLimits::native(4);
    /// limits.block_thread_count = 64;
    /// let any = WorkDivision::subdivide([30, 100], [1, 1], &limits, Subdivision::Unrestricted)?;
    /// let full = WorkDivision::subdivide_evenly([30, 100], [1, 1], &limits, Subdivision::Unrestricted)?;
    /// assert_eq!(any.block_threads(), Extent::new([1, 64]));
    /// assert_eq!(full.block_threads(), Extent::new([1, 50]));
    /// # Ok::<(), quipu_kernel::KernelError>(())
    /// ```
    ///
    /// # Errors
    /// As [`subdivide`](Self::subdivide).
    pub fn subdivide_evenly(
        total: impl Into<Extent<D>>,
        thread_elements: impl Into<Extent<D>>,
        limits: &AcceleratorLimits,
        subdivision: Subdivision,
    ) -> Result<Self, KernelError> {
        let (total, elements) = (total.into(), thread_elements.into());
        let largest = Self::subdivide(total, elements, limits, subdivision)?;
        if largest.block_count() == 0 {
            return Ok(largest);
        }
        // The elements that a thread has in the end, which may be more for the sake of the grid's
        // limits.
        let elements = largest.thread_elements();
        let needed = total.tiles(elements);
        let most = largest.block_threads();
        let threads = match subdivision {
            Subdivision::EqualExtent => {
                let divides = |side: &usize| (0..D).all(|d| needed[d].is_multiple_of(*side));
                Extent::splat((1..=most[0]).rev().find(divides).unwrap_or(1))
            }
            Subdivision::CloseToEqualExtent => close_to_equal_divisors(needed, limits),
            Subdivision::Unrestricted => {
                let mut rest = limits.block_thread_count.max(1);
                let mut threads = Extent::ONE;
                for d in (0..D).rev() {
                    let most = limits.block_threads.of::<D>(d).min(rest);
                    threads[d] = largest_divisor(needed[d], most.max(1));
                    rest /= threads[d];
                }
                threads
            }
        };
        Self::covering(total, threads, elements, limits)
    }

    /// The grid of such blocks that covers `total`. Where a device's grid is too small for that,
    /// its threads get more elements instead.
    fn covering(
        total: Extent<D>,
        threads: Extent<D>,
        mut elements: Extent<D>,
        limits: &AcceleratorLimits,
    ) -> Result<Self, KernelError> {
        if total.is_empty() {
            return Self::new(Extent::splat(0), Extent::ONE, Extent::ONE);
        }
        let mut grid = Extent::ONE;
        for dimension in 0..D {
            let most = limits
                .grid_blocks
                .of::<D>(dimension)
                .max(1)
                .saturating_mul(threads[dimension]);
            let least_elements = total[dimension].div_ceil(most);
            elements[dimension] = elements[dimension].max(least_elements);
            let blocks = total[dimension]
                .div_ceil(elements[dimension])
                .div_ceil(threads[dimension]);
            grid[dimension] = blocks;
        }
        let division = Self::new(grid, threads, elements)?;
        division.validate(limits)?;
        Ok(division)
    }
}

/// The largest divisor of a number that is not larger than `most`.
fn largest_divisor(number: usize, most: usize) -> usize {
    let divides = |divisor: &usize| number.is_multiple_of(*divisor);
    (1..=most.min(number)).rev().find(divides).unwrap_or(1)
}

/// For each number a divisor of it: ever the shortest of the sides that can grow does, by as little
/// as divides, until none can.
fn close_to_equal_divisors<const D: usize>(
    needed: Extent<D>,
    limits: &AcceleratorLimits,
) -> Extent<D> {
    let most = limits.block_thread_count.max(1);
    let mut sides = Extent::<D>::ONE;
    loop {
        let count: usize = sides.components().iter().product();
        let larger = |d: usize| {
            let room = limits
                .block_threads
                .of::<D>(d)
                .min(most / (count / sides[d]));
            (sides[d] + 1..=room.min(needed[d])).find(|side| needed[d].is_multiple_of(*side))
        };
        let growing = (0..D).rev().filter_map(|d| Some((d, larger(d)?)));
        let Some((d, side)) = growing.min_by_key(|(d, _)| sides[*d]) else {
            return sides;
        };
        sides[d] = side;
    }
}

/// Up to `wanted` in all, from the fastest dimension on, at least one in each.
fn fill_fastest_first<const D: usize>(
    available: Extent<D>,
    wanted: usize,
    limit: PerDimension,
) -> Extent<D> {
    let mut rest = wanted;
    let mut filled = Extent::ONE;
    for dimension in (0..D).rev() {
        let taken = available[dimension]
            .min(limit.of::<D>(dimension))
            .min(rest)
            .max(1);
        filled[dimension] = taken;
        rest /= taken;
    }
    filled
}

/// The most threads per block in each dimension by itself, at least one.
fn clamped<const D: usize>(grid_threads: Extent<D>, limits: &AcceleratorLimits) -> Extent<D> {
    Extent::from_fn(|dimension| {
        grid_threads[dimension]
            .min(limits.block_threads.of::<D>(dimension))
            .max(1)
    })
}

/// The largest cube inside `available` with at most `most` threads.
fn equal<const D: usize>(available: Extent<D>, most: usize) -> Extent<D> {
    let fits = |side: usize| {
        Extent::<D>::splat(side)
            .checked_count()
            .is_some_and(|count| count <= most)
    };
    let mut side = 1;
    let mut too_large = available
        .components()
        .into_iter()
        .fold(usize::MAX, usize::min)
        .saturating_add(1);
    while side + 1 < too_large {
        let middle = side + (too_large - side) / 2;
        if fits(middle) {
            side = middle
        } else {
            too_large = middle
        }
    }
    Extent::splat(side)
}

/// `available` with its longest sides cut to one length, so that at most `most` threads are left.
fn close_to_equal<const D: usize>(available: Extent<D>, most: usize) -> Extent<D> {
    let fits = |cap: usize| {
        let cut = Extent::<D>::from_fn(|dimension| available[dimension].min(cap));
        cut.checked_count()
            .is_some_and(|count| count <= most)
            .then_some(cut)
    };
    // The largest cap on every side that fits ...
    let (mut cap, mut too_large) = (1, usize::MAX);
    while cap + 1 < too_large {
        let middle = cap + (too_large - cap) / 2;
        if fits(middle).is_some() {
            cap = middle
        } else {
            too_large = middle
        }
    }
    let mut threads = fits(cap).unwrap_or(Extent::ONE);
    // ... and one more for each side that still can have it, the fastest first.
    for dimension in (0..D).rev() {
        let mut larger = threads;
        larger[dimension] = threads[dimension]
            .saturating_add(1)
            .min(available[dimension]);
        if larger.checked_count().is_some_and(|count| count <= most) {
            threads = larger;
        }
    }
    threads
}
