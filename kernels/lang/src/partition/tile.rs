//! Own tiles: boxes of neighbouring elements, of a thread or of a block.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use super::Partition;
use crate::accelerator::{Accelerator, Block, Blocks, Grid, Threads};
use crate::division::WorkDivision;
use crate::error::KernelError;
use crate::extent::{Extent, Vector};
use crate::region::Region;
use crate::strides::Places;
use crate::view::GlobalMut;

/// Partition: each thread is handed a box of neighbouring elements, on every device.
///
/// Where the grid covers the output, a thread's tile has the extent of its elements
/// ([`WorkDivision::thread_elements`]), clipped at the output's end; where the grid does not, the
/// tile is so much larger that no element is left out.
#[derive(Debug, Clone, Copy)]
pub struct ByTile<T>(PhantomData<fn() -> T>);

// SAFETY: the regions of the threads of a grid are disjoint.
unsafe impl<T: Send + 'static, const D: usize> Partition<D> for ByTile<T> {
    type View<'a> = GlobalMut<'a, T, D>;
    type Plan<'a> = GlobalMut<'a, T, D>;
    type Own<'t> = OwnTile<'t, T, D>;

    #[inline]
    fn plan<'a>(
        view: Self::View<'a>,
        _division: &WorkDivision<D>,
    ) -> Result<Self::Plan<'a>, KernelError> {
        Ok(view)
    }

    #[inline(always)]
    unsafe fn own<'t, A: Accelerator<D>>(plan: &GlobalMut<'_, T, D>, acc: &A) -> OwnTile<'t, T, D> {
        let share = acc.division().share(plan.extent());
        OwnTile::new(
            plan,
            Region::of_part(share, acc.index(Grid, Threads), plan.extent()),
        )
    }
}

/// One thread's own box of an output, whose elements are reached by their position in the box.
///
/// ```
/// # use quipu_kernel::*;
/// /// The sum of each row's number and each column's.
/// struct Sums;
///
/// impl Kernel<2> for Sums {
///     type Output = ByTile<usize>;
///     fn run<A: Accelerator<2>>(&self, _acc: &A, mut tile: OwnTile<'_, usize, 2>) {
///         let [top, left] = tile.start().components();
///         for row in 0..tile.extent()[0] {
///             for (column, element) in tile.row_mut([row]).iter_mut().enumerate() {
///                 *element = top + row + left + column;
///             }
///         }
///     }
/// }
///
/// let mut sums = vec![0; 35];
/// let view = GlobalMut::from(&mut sums).in_extent([5, 7])?;
/// erase(Sums, view, WorkDivision::new([3, 2], [1, 1], [2, 4])?)?.run_all(&mut BlockScratch::new())?;
/// assert!(sums.iter().enumerate().all(|(i, sum)| *sum == i / 7 + i % 7));
/// # Ok::<(), KernelError>(())
/// ```
///
/// No other thread's tile can be had, nor two references to an element:
///
/// ```compile_fail,E0499
/// # use quipu_kernel::OwnTile;
/// fn swap(mut tile: OwnTile<'_, f32, 2>) {
///     std::mem::swap(&mut tile[[0, 0]], &mut tile[[0, 0]]);
/// }
/// ```
///
/// ```compile_fail,E0382
/// # use quipu_kernel::OwnTile;
/// fn copy(tile: OwnTile<'_, f32, 2>) -> (OwnTile<'_, f32, 2>, OwnTile<'_, f32, 2>) {
///     (tile, tile)
/// }
/// ```
pub struct OwnTile<'t, T, const D: usize> {
    pointer: *mut T,
    places: Places<D>,
    region: Region<D>,
    elements: PhantomData<&'t mut [T]>,
}

// SAFETY: it is its elements, as a `&mut [T]` is, which is `Send` for these `T`.
unsafe impl<T: Send, const D: usize> Send for OwnTile<'_, T, D> {}
// SAFETY: a shared reference to it gives shared references to its elements, as one to a `&mut [T]`
// does.
unsafe impl<T: Sync, const D: usize> Sync for OwnTile<'_, T, D> {}

impl<'t, T, const D: usize> OwnTile<'t, T, D> {
    #[inline(always)]
    fn new(view: &GlobalMut<'_, T, D>, region: Region<D>) -> Self {
        Self {
            pointer: view.as_ptr(),
            places: view.places(),
            region,
            elements: PhantomData,
        }
    }

    /// Its extent: empty for a thread without elements.
    #[inline(always)]
    pub fn extent(&self) -> Extent<D> {
        let (start, end) = (self.region.start(), self.region.end());
        Extent::from_fn(|d| end[d] - start[d])
    }

    /// The position of its first element in the output.
    #[inline(always)]
    pub fn start(&self) -> Vector<D> {
        self.region.start()
    }

    /// The region of the output with these elements.
    #[inline(always)]
    pub fn region(&self) -> Region<D> {
        self.region
    }

    /// The place of a position in the tile.
    #[inline(always)]
    fn place(&self, position: Vector<D>) -> Option<*mut T> {
        let start = self.region.start();
        self.extent().contains(position).then(|| {
            let place = self
                .places
                .place(Vector::from_fn(|d| start[d] + position[d]));
            self.pointer.wrapping_add(place)
        })
    }

    /// The element at a position of the tile; `None` when that is outside.
    #[inline(always)]
    pub fn get(&self, position: impl Into<Vector<D>>) -> Option<&T> {
        // SAFETY: inside of the tile, which is this thread's own and borrowed.
        self.place(position.into()).map(|place| unsafe { &*place })
    }

    /// The element at a position of the tile, to be changed; `None` when that is outside.
    #[inline(always)]
    pub fn get_mut(&mut self, position: impl Into<Vector<D>>) -> Option<&mut T> {
        // SAFETY: inside of the tile, which is this thread's own and borrowed mutably.
        self.place(position.into())
            .map(|place| unsafe { &mut *place })
    }

    /// A row of the tile, named by its position in all dimensions but the last; an empty one when
    /// that is outside.
    ///
    /// `R` is `D - 1`.
    #[inline(always)]
    pub fn row_mut<const R: usize>(&mut self, row: [usize; R]) -> &mut [T] {
        const {
            assert!(
                R + 1 == D,
                "a row is named by one number less than the tile has dimensions"
            )
        };
        let position = Vector::from_fn(|d| if d < R { row[d] } else { 0 });
        match self.place(position) {
            // SAFETY: the row is inside of the tile, which is this thread's own and borrowed
            // mutably.
            Some(place) => unsafe { std::slice::from_raw_parts_mut(place, self.extent()[D - 1]) },
            None => &mut [],
        }
    }

    /// Each element with its position in the tile, in row-major order.
    #[inline(always)]
    pub fn each(&mut self) -> EachPlaced<'_, T, D> {
        let count = self.extent().product();
        EachPlaced {
            pointer: self.pointer,
            places: self.places,
            start: self.region.start(),
            extent: self.extent(),
            next: Vector::ZERO,
            left: count,
            elements: PhantomData,
        }
    }
}

/// Panics when the position is outside.
impl<T, const D: usize> Index<[usize; D]> for OwnTile<'_, T, D> {
    type Output = T;

    #[inline(always)]
    #[track_caller]
    fn index(&self, position: [usize; D]) -> &T {
        match self.get(position) {
            Some(element) => element,
            None => out_of_bounds(self.extent(), position.into()),
        }
    }
}

/// Panics when the position is outside.
impl<T, const D: usize> IndexMut<[usize; D]> for OwnTile<'_, T, D> {
    #[inline(always)]
    #[track_caller]
    fn index_mut(&mut self, position: [usize; D]) -> &mut T {
        let extent = self.extent();
        match self.get_mut(position) {
            Some(element) => element,
            None => out_of_bounds(extent, position.into()),
        }
    }
}

#[cold]
#[track_caller]
fn out_of_bounds<const D: usize>(extent: Extent<D>, position: Vector<D>) -> ! {
    panic!("index out of bounds: the extent is {extent} but the index is {position}")
}

impl<T, const D: usize> fmt::Debug for OwnTile<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnTile({:?})", self.region)
    }
}

/// Iterator of [`OwnTile::each`] and [`OwnBlockTile::each`]: elements with their positions in the
/// tile.
#[derive(Debug)]
pub struct EachPlaced<'e, T, const D: usize> {
    pointer: *mut T,
    places: Places<D>,
    /// The tile in the output.
    start: Vector<D>,
    extent: Extent<D>,
    /// The next element's position in the tile, and how many come.
    next: Vector<D>,
    left: usize,
    elements: PhantomData<&'e mut [T]>,
}

impl<'e, T, const D: usize> Iterator for EachPlaced<'e, T, D> {
    type Item = (Vector<D>, &'e mut T);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let position = self.next;
        self.extent.advance(&mut self.next);
        let place = self
            .places
            .place(Vector::from_fn(|d| self.start[d] + position[d]));
        // SAFETY: the position is one of those that are left, which are inside of the output and
        // this thread's own; each comes once.
        Some((position, unsafe { &mut *self.pointer.add(place) }))
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

/// Partition: each block has a box of neighbouring elements, and each of its threads a share of
/// that.
///
/// The box has the extent of the block's elements, as [`ByTile`]'s has of a thread's. Which of its
/// elements are a thread's own is the device's choice; natively they are neighbours.
#[derive(Debug, Clone, Copy)]
pub struct ByBlockTile<T>(PhantomData<fn() -> T>);

/// A [`ByBlockTile`] output: the view, and the extent of a block's tile.
#[derive(Debug)]
pub struct BlockTilePlan<'a, T, const D: usize> {
    view: GlobalMut<'a, T, D>,
    tile: Extent<D>,
}

// SAFETY: the tiles of blocks are disjoint, and of a tile each element is the own of one thread.
unsafe impl<T: Send + 'static, const D: usize> Partition<D> for ByBlockTile<T> {
    type View<'a> = GlobalMut<'a, T, D>;
    type Plan<'a> = BlockTilePlan<'a, T, D>;
    type Own<'t> = OwnBlockTile<'t, T, D>;

    #[inline]
    fn plan<'a>(
        view: Self::View<'a>,
        division: &WorkDivision<D>,
    ) -> Result<Self::Plan<'a>, KernelError> {
        let (blocks, elements) = (division.grid_blocks(), division.block_elements());
        let tile =
            Extent::from_fn(|d| elements[d].max(view.extent()[d].div_ceil(blocks[d].max(1))));
        Ok(BlockTilePlan { view, tile })
    }

    #[inline(always)]
    unsafe fn own<'t, A: Accelerator<D>>(
        plan: &BlockTilePlan<'_, T, D>,
        acc: &A,
    ) -> OwnBlockTile<'t, T, D> {
        let region = Region::of_part(plan.tile, acc.index(Grid, Blocks), plan.view.extent());
        let tile = OwnTile::new(&plan.view, region);
        let count = tile.extent().product();
        let threads = acc.extent(Block, Threads);
        let share = count.div_ceil(threads.product());
        let first = threads
            .offset(acc.index(Block, Threads))
            .saturating_mul(share)
            .min(count);
        OwnBlockTile {
            tile,
            first,
            count: share.min(count - first),
        }
    }
}

/// One thread's share of its block's box of an output.
///
/// ```
/// # use quipu_kernel::*;
/// /// Each block writes its number everywhere in its tile.
/// struct Blocked;
///
/// impl Kernel<2> for Blocked {
///     type Output = ByBlockTile<usize>;
///     fn run<A: Accelerator<2>>(&self, acc: &A, mut tile: OwnBlockTile<'_, usize, 2>) {
///         let [row, column] = acc.index(Grid, Blocks).components();
///         for (_position, element) in tile.each() {
///             *element = 10 * row + column;
///         }
///     }
/// }
///
/// let mut numbers = vec![0; 20];
/// let view = GlobalMut::from(&mut numbers).in_extent([4, 5])?;
/// erase(Blocked, view, WorkDivision::new([2, 2], [2, 3], [1, 1])?)?.run_all(&mut BlockScratch::new())?;
/// assert_eq!(numbers[..10], [0, 0, 0, 1, 1, 0, 0, 0, 1, 1]);
/// # Ok::<(), KernelError>(())
/// ```
///
/// Another thread's share cannot be reached:
///
/// ```compile_fail,E0608
/// # use quipu_kernel::OwnBlockTile;
/// fn reach(mut tile: OwnBlockTile<'_, f32, 2>) {
///     tile[[0, 0]] = 1.0;
/// }
/// ```
pub struct OwnBlockTile<'t, T, const D: usize> {
    /// The block's: reached in this thread's share alone.
    tile: OwnTile<'t, T, D>,
    first: usize,
    count: usize,
}

impl<T, const D: usize> OwnBlockTile<'_, T, D> {
    /// The extent of the block's tile.
    #[inline(always)]
    pub fn extent(&self) -> Extent<D> {
        self.tile.extent()
    }

    /// The position of the tile's first element in the output.
    #[inline(always)]
    pub fn start(&self) -> Vector<D> {
        self.tile.start()
    }

    /// Each of this thread's own elements with its position in the block's tile.
    #[inline(always)]
    pub fn each(&mut self) -> EachPlaced<'_, T, D> {
        let extent = self.tile.extent();
        EachPlaced {
            next: extent.delinearise(self.first).unwrap_or(Vector::ZERO),
            left: self.count,
            ..self.tile.each()
        }
    }
}

impl<T, const D: usize> fmt::Debug for OwnBlockTile<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnBlockTile({} of {:?})", self.count, self.tile)
    }
}
