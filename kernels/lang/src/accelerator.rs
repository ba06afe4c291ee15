//! The accelerator, a kernel's view of the machine: the thread's position, the sizes of things,
//! and, in a block kernel, the barrier.
//!
//! An index or extent is asked for by *origin* and *unit*, as in [`acc.index(Grid, Threads)`](
//! Accelerator::index): of this thread in the grid, counted in threads. Pairs that mean nothing do
//! not compile:
//!
//! ```compile_fail,E0277
//! use quipu_kernel::{Accelerator, Block, Blocks};
//!
//! fn nonsense<A: Accelerator<1>>(acc: &A) -> usize {
//!     acc.index(Block, Blocks)[0] // a block has no blocks
//! }
//! ```

use std::future::Future;
use std::iter::StepBy;
use std::ops::Range;
use std::panic::Location;
use std::sync::LazyLock;
use std::sync::atomic::{Ordering, compiler_fence, fence};
use std::time::Instant;

use crate::barrier::{Barrier, Port, Turns};
use crate::check;
use crate::division::WorkDivision;
use crate::emit::ValueParameter;
use crate::extent::{Extent, Vector};
use crate::number::Scalar;
use crate::region::{Indices, Region};
use crate::shared::{Phase, Turning};
use crate::warp::{Exchange, shuffle};

/// Origin: the whole grid.
#[derive(Debug, Clone, Copy)]
pub struct Grid;
/// Origin: this thread's block.
#[derive(Debug, Clone, Copy)]
pub struct Block;
/// Origin: this thread.
#[derive(Debug, Clone, Copy)]
pub struct Thread;

/// Unit: blocks of threads.
#[derive(Debug, Clone, Copy)]
pub struct Blocks;
/// Unit: threads.
#[derive(Debug, Clone, Copy)]
pub struct Threads;
/// Unit: elements of threads.
#[derive(Debug, Clone, Copy)]
pub struct Elements;

/// Origins in which a thread has an index counted in `Unit`, and which have an extent in it.
///
/// An index in elements is that of the thread's first element.
pub trait Measured<Unit>: sealed::Sealed {
    /// Of an index so: is it the same for all threads of a block?
    #[doc(hidden)]
    const COUNTS_BLOCKS: bool = false;
    /// Of an index so: is it one more for the next thread?
    #[doc(hidden)]
    const COUNTS_THREADS: bool = false;

    /// The number of units of the origin, along each dimension.
    #[doc(hidden)]
    fn extent<const D: usize>(division: &WorkDivision<D>) -> Extent<D>;
    /// The position of the thread `thread` of the block `block` in the origin, in units.
    #[doc(hidden)]
    fn index<const D: usize>(
        division: &WorkDivision<D>,
        block: Vector<D>,
        thread: Vector<D>,
    ) -> Vector<D>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Grid {}
    impl Sealed for super::Block {}
    impl Sealed for super::Thread {}
}

/// True if an index of such an origin and unit counts blocks.
#[doc(hidden)]
pub const fn counts_blocks<Origin: Measured<Unit>, Unit>(_: &Origin, _: &Unit) -> bool {
    Origin::COUNTS_BLOCKS
}

/// True if an index of such an origin and unit counts threads.
#[doc(hidden)]
pub const fn counts_threads<Origin: Measured<Unit>, Unit>(_: &Origin, _: &Unit) -> bool {
    Origin::COUNTS_THREADS
}

macro_rules! measured {
    ($($origin:ty, $unit:ty: $extent:ident, |$division:ident, $block:ident, $thread:ident, $d:ident| $index:expr $(, $counts:ident)?;)*) => {$(
        impl Measured<$unit> for $origin {
            $(const $counts: bool = true;)?

            #[inline(always)]
            fn extent<const D: usize>(division: &WorkDivision<D>) -> Extent<D> {
                division.$extent()
            }
            #[inline(always)]
            fn index<const D: usize>($division: &WorkDivision<D>, $block: Vector<D>, $thread: Vector<D>) -> Vector<D> {
                Vector::from_fn(|$d| $index)
            }
        }
    )*};
}

measured! {
    Grid, Blocks: grid_blocks, |_division, block, _thread, d| block[d], COUNTS_BLOCKS;
    Grid, Threads: grid_threads, |division, block, thread, d|
        block[d] * division.block_threads()[d] + thread[d], COUNTS_THREADS;
    Grid, Elements: grid_elements, |division, block, thread, d|
        (block[d] * division.block_threads()[d] + thread[d]) * division.thread_elements()[d];
    Block, Threads: block_threads, |_division, _block, thread, d| thread[d], COUNTS_THREADS;
    Block, Elements: block_elements, |division, _block, thread, d| thread[d] * division.thread_elements()[d];
    Thread, Elements: thread_elements, |_division, _block, _thread, _d| 0;
}

/// One thread of a launch, as its kernel sees it.
///
/// Kernels are generic over it, so that each device runs them with an accelerator of its own.
pub trait Accelerator<const D: usize> {
    /// The extents of the launch.
    fn division(&self) -> &WorkDivision<D>;

    /// This thread's block in the grid: `index(Grid, Blocks)`.
    fn block_index(&self) -> Vector<D>;

    /// This thread in its block: `index(Block, Threads)`.
    fn thread_index(&self) -> Vector<D>;

    /// The index of this thread (of its first element, if counted in elements) from an origin.
    #[inline(always)]
    fn index<Origin: Measured<Unit>, Unit>(&self, _origin: Origin, _unit: Unit) -> Vector<D> {
        Origin::index(self.division(), self.block_index(), self.thread_index())
    }

    /// The number of units of an origin, along each dimension.
    #[inline(always)]
    fn extent<Origin: Measured<Unit>, Unit>(&self, _origin: Origin, _unit: Unit) -> Extent<D> {
        Origin::extent(self.division())
    }

    /// The part of `extent` that is this thread's own.
    ///
    /// Every position of the extent is the own of exactly one thread of the grid. Where the grid
    /// covers the extent, a thread's own elements start at its `index(Grid, Elements)`; where it
    /// does not, its threads have more elements each, so that none is left out.
    #[inline(always)]
    fn region(&self, extent: impl Into<Extent<D>>) -> Region<D> {
        Region::of_thread(self.division(), self.index(Grid, Threads), extent.into())
    }

    /// The row-major numbers of this thread's own elements of `extent`.
    ///
    /// ```
    /// # use quipu_kernel::Accelerator;
    /// fn own_sum<A: Accelerator<1>>(acc: &A, x: &[f32]) -> f32 {
    ///     acc.elements(x.len()).map(|i| x[i]).sum()
    /// }
    /// ```
    #[inline(always)]
    fn elements(&self, extent: impl Into<Extent<D>>) -> Indices<D> {
        self.region(extent).indices()
    }

    /// The groups, of so many, that are this block's: the block's own number, and on in steps of as
    /// many as there are blocks. All threads of a block go through the same groups, so there may be
    /// barriers in the loop.
    ///
    /// ```
    /// # use quipu_kernel::Accelerator;
    /// fn rows<A: Accelerator<1>>(acc: &A, count: usize) -> Vec<usize> {
    ///     let mut rows = Vec::new();
    ///     for row in acc.groups(count) {
    ///         rows.push(row);
    ///     }
    ///     rows
    /// }
    /// ```
    #[inline(always)]
    fn groups(&self, count: usize) -> StepBy<Range<usize>> {
        let blocks = self.division().grid_blocks();
        let first = blocks.offset(self.block_index());
        (first..count).step_by(blocks.product())
    }

    /// As many rounds for every thread of the grid: this thread's number in the grid, and on in
    /// steps of as many as there are threads, until `count` or more elements had their turn. In the
    /// last round it may be `count` or beyond, where there is no element; so there may be barriers
    /// in the loop, where [`elements`](Self::elements) has threads come out of it at different
    /// times.
    #[inline(always)]
    fn uniform_elements(&self, count: usize) -> StepBy<Range<usize>> {
        let threads = self.division().grid_threads();
        let number = threads.offset(self.index(Grid, Threads));
        let threads = threads.product();
        let end = count.div_ceil(threads).wrapping_mul(threads);
        (number..end).step_by(threads)
    }

    /// True in one thread of the grid.
    #[inline(always)]
    fn once_per_grid(&self) -> bool {
        self.index(Grid, Threads) == Vector::ZERO
    }

    /// True in one thread of each block.
    #[inline(always)]
    fn once_per_block(&self) -> bool {
        self.thread_index() == Vector::ZERO
    }

    /// The number of threads that run in lockstep. One, on native devices, and where OpenCL has not
    /// all of the sub-groups' functions that the kernel uses.
    #[inline(always)]
    fn warp_size(&self) -> u32 {
        1
    }

    /// True if rustc has compiled the kernel for the processor that runs it. False where it is
    /// printed for a device.
    ///
    /// This and the questions after it are answered when the kernel is compiled or printed, and so
    /// is [`warp_size`](Self::warp_size) but on devices with warps of several sizes. Of an `if`
    /// that they decide, a device is given just the branch that it takes; both have to compile.
    #[inline(always)]
    fn is_native(&self) -> bool {
        true
    }

    /// True if threads run side by side, thousands of them, with neighbouring elements for
    /// neighbouring threads, as on GPUs. False if there are a few threads, each with neighbouring
    /// elements of its own.
    #[inline(always)]
    fn is_gpu(&self) -> bool {
        false
    }

    /// True if there is `f64`, which some devices of OpenCL lack.
    #[inline(always)]
    fn has_f64(&self) -> bool {
        true
    }

    /// True if there is a [`clock`](Self::clock), which OpenCL C lacks.
    #[inline(always)]
    fn has_clock(&self) -> bool {
        true
    }

    /// True if there are fences and atomics for the host and other devices, too
    /// ([`fence_system`](Self::fence_system), [`Atomics::system`](crate::Atomics::system)), which
    /// OpenCL C lacks.
    #[inline(always)]
    fn has_system_scope(&self) -> bool {
        true
    }

    /// True if a fence orders memory accesses of different blocks
    /// ([`fence_device`](Self::fence_device)), which OpenCL C 1.2 lacks.
    #[inline(always)]
    fn has_device_fence(&self) -> bool {
        true
    }

    /// True if there are barriers of the grid ([`GridAccelerator`]), which OpenCL C lacks.
    #[inline(always)]
    fn has_grid_barrier(&self) -> bool {
        true
    }

    /// This thread's number in its warp.
    #[inline(always)]
    fn lane(&self) -> u32 {
        let thread = self.division().block_threads().offset(self.thread_index());
        (thread % self.warp_size() as usize) as u32
    }

    /// The time of a clock that never goes back for a thread: for measuring parts of a kernel. It
    /// ticks in a unit of the device's own: nanoseconds natively, cycles of a multiprocessor in
    /// CUDA. OpenCL C has none, so a kernel that comes to this without asking
    /// [`has_clock`](Self::has_clock) is refused there.
    #[inline]
    fn clock(&self) -> u64 {
        static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
        BEGIN.elapsed().as_nanos() as u64
    }

    /// This thread's memory accesses before the fence happen before those after it, for the threads
    /// of its block.
    #[inline(always)]
    fn fence_block(&self) {
        block_fence(self, Ordering::SeqCst);
    }

    /// This thread's reads before the fence happen before its accesses after it, for the threads of
    /// its block. Assume that it has read a value that another thread wrote after a
    /// [release](Self::fence_block_release). Then that thread's accesses before the release happen
    /// before this one's after the fence.
    #[inline(always)]
    fn fence_block_acquire(&self) {
        block_fence(self, Ordering::Acquire);
    }

    /// This thread's memory accesses before the fence happen before its writes after it, for the
    /// threads of its block.
    #[inline(always)]
    fn fence_block_release(&self) {
        block_fence(self, Ordering::Release);
    }

    /// This thread's memory accesses before the fence happen before those after it, for the threads
    /// of the device. A kernel that comes to this without asking
    /// [`has_device_fence`](Self::has_device_fence) is refused where there is no such fence.
    #[inline(always)]
    fn fence_device(&self) {
        device_fence(self, Ordering::SeqCst);
    }

    /// As [`fence_block_acquire`](Self::fence_block_acquire), for the threads of the device. As
    /// with [`fence_device`](Self::fence_device), there are devices without it.
    #[inline(always)]
    fn fence_device_acquire(&self) {
        device_fence(self, Ordering::Acquire);
    }

    /// As [`fence_block_release`](Self::fence_block_release), for the threads of the device. As
    /// with [`fence_device`](Self::fence_device), there are devices without it.
    #[inline(always)]
    fn fence_device_release(&self) {
        device_fence(self, Ordering::Release);
    }

    /// This thread's memory accesses before the fence happen before those after it, for the threads
    /// of the grid: as [`fence_device`](Self::fence_device), for no device has one that is weaker.
    #[inline(always)]
    fn fence_grid(&self) {
        self.fence_device();
    }

    /// This thread's memory accesses before the fence happen before those after it, for the host
    /// and other devices, too.
    #[inline(always)]
    fn fence_system(&self) {
        self.fence_device();
    }

    /// As [`fence_block_acquire`](Self::fence_block_acquire), for the host and other devices, too.
    #[inline(always)]
    fn fence_system_acquire(&self) {
        self.fence_device_acquire();
    }

    /// As [`fence_block_release`](Self::fence_block_release), for the host and other devices, too.
    #[inline(always)]
    fn fence_system_release(&self) {
        self.fence_device_release();
    }

    /// True if one thread of the operating system runs the block's threads.
    #[doc(hidden)]
    #[inline(always)]
    fn block_runs_alone(&self) -> bool {
        false
    }

    /// True if the thread's memory accesses by unsafe means are watched: in checking mode.
    #[doc(hidden)]
    #[inline(always)]
    fn is_watched(&self) -> bool {
        false
    }
}

#[inline(always)]
fn block_fence<const D: usize>(acc: &(impl Accelerator<D> + ?Sized), order: Ordering) {
    if acc.block_runs_alone() {
        compiler_fence(order);
    } else {
        fence(order);
    }
}

#[inline(always)]
fn device_fence<const D: usize>(acc: &(impl Accelerator<D> + ?Sized), order: Ordering) {
    fence(order);
    if acc.is_watched() {
        check::fence();
    }
}

/// One thread of a launch whose blocks can wait for their threads.
///
/// Every thread of the block must reach each of these barriers, at the same place of the source.
/// Natively, a block whose threads are not all at the same barrier is stopped with an error; it
/// never hangs. Other devices cannot detect such an error. So Quipu prints a kernel only if its
/// source shows that all threads reach each barrier. Conditions around a barrier must be *uniform*:
/// the same for all threads of the block. Lengths, extents, passed values, the block's index,
/// votes, and elements of a [`SharedRead`](crate::SharedRead) at a uniform index are uniform, and
/// so is all that is computed from them. [`assume_uniform`](Self::assume_uniform) vouches for
/// another value.
///
/// A barrier returns a future that has to be awaited at once:
///
/// ```
/// # use quipu_kernel::{Block, BlockAccelerator, Threads};
/// async fn all_even<A: BlockAccelerator<1>>(acc: &A, number: usize) -> bool {
///     acc.sync_block_threads_and(number % 2 == 0).await
/// }
/// ```
///
/// A kernel without barriers is handed an [`Accelerator`] only, on which there are none:
///
/// ```compile_fail,E0599
/// # use quipu_kernel::Accelerator;
/// async fn run<A: Accelerator<1>>(acc: &A) {
///     acc.sync_block_threads().await;
/// }
/// ```
pub trait BlockAccelerator<const D: usize>: Accelerator<D> {
    /// The type of the port at which this thread meets the others of its block.
    #[doc(hidden)]
    type Port: Port;

    /// The port at which this thread meets the others of its block.
    #[doc(hidden)]
    fn port(&self) -> &Self::Port;

    /// Waits until every thread of the block is here.
    #[inline(always)]
    #[track_caller]
    fn sync_block_threads(&self) -> Barrier<'_, Self::Port> {
        Barrier::new(self.port(), Location::caller(), Turns::NONE, false)
    }

    /// Waits until every thread of the block is here, and says for how many `predicate` holds.
    #[inline(always)]
    #[track_caller]
    fn sync_block_threads_count(&self, predicate: bool) -> impl Future<Output = usize> {
        let port = self.port();
        let barrier = Barrier::new(port, Location::caller(), Turns::NONE, predicate);
        async move {
            barrier.await;
            port.outcome()
        }
    }

    /// Waits until every thread of the block is here, and says whether `predicate` holds for all.
    #[inline(always)]
    #[track_caller]
    fn sync_block_threads_and(&self, predicate: bool) -> impl Future<Output = bool> {
        let count = self.sync_block_threads_count(predicate);
        let threads = self.division().threads_per_block();
        async move { count.await == threads }
    }

    /// Waits until every thread of the block is here, and says whether `predicate` holds for any.
    #[inline(always)]
    #[track_caller]
    fn sync_block_threads_or(&self, predicate: bool) -> impl Future<Output = bool> {
        let count = self.sync_block_threads_count(predicate);
        async move { count.await > 0 }
    }

    /// Waits until every thread of the block is here, and turns shared arrays from their write
    /// phase to their read phase or back, one or a tuple of them.
    ///
    /// See [`SharedWrite`](crate::SharedWrite).
    #[inline(always)]
    #[track_caller]
    fn sync<P: Phase>(&self, arrays: P) -> Turning<'_, P, Self::Port> {
        Turning::new(self.port(), Location::caller(), arrays)
    }

    /// The value, which is the same for all threads of the block that come here, for a reason that
    /// cannot be seen: so a barrier may depend on it.
    ///
    /// A vote says so without `unsafe`, but is a barrier itself:
    /// `acc.sync_block_threads_or(condition).await`.
    ///
    /// # Safety
    /// It is the same for all these threads; where it decides about functions of a warp and no
    /// barriers, for those of each warp; and where it decides about barriers of the grid, for those
    /// of the grid. If it is not, and some do not come to a barrier for that, anything may happen
    /// on devices; natively the launch fails, as ever.
    #[inline(always)]
    #[must_use]
    unsafe fn assume_uniform<T: Scalar>(&self, value: T) -> T {
        value
    }

    /// A bit for each lane of the warp that has a thread.
    ///
    /// This and the other functions of a warp are for all of its threads together: every one comes
    /// here.
    #[inline(always)]
    #[track_caller]
    fn warp_active_mask(&self) -> impl Future<Output = u64> {
        let exchange = Exchange::new(self.port(), Location::caller(), 0, false);
        async move { exchange.await.active }
    }

    /// True if `predicate` holds in all active lanes of the warp.
    #[inline(always)]
    #[track_caller]
    fn warp_all(&self, predicate: bool) -> impl Future<Output = bool> {
        let exchange = Exchange::new(self.port(), Location::caller(), 0, predicate);
        async move {
            let exchanged = exchange.await;
            exchanged.ballot == exchanged.active
        }
    }

    /// True if `predicate` holds in any active lane of the warp.
    #[inline(always)]
    #[track_caller]
    fn warp_any(&self, predicate: bool) -> impl Future<Output = bool> {
        let exchange = Exchange::new(self.port(), Location::caller(), 0, predicate);
        async move { exchange.await.ballot != 0 }
    }

    /// A bit for each active lane of the warp in which `predicate` holds.
    #[inline(always)]
    #[track_caller]
    fn warp_ballot(&self, predicate: bool) -> impl Future<Output = u64> {
        let exchange = Exchange::new(self.port(), Location::caller(), 0, predicate);
        async move { exchange.await.ballot }
    }

    /// The `value` of another lane, counted modulo the warp's size; its own where that is not
    /// active. A value is a number, or an array or struct of numbers.
    ///
    /// ```
    /// # use quipu_kernel::BlockAccelerator;
    /// /// The warp's sum, in each of its threads, if it is full.
    /// async fn warp_sum<A: BlockAccelerator<1>>(acc: &A, mut sum: f32) -> f32 {
    ///     let mut distance = acc.warp_size() / 2;
    ///     while distance > 0 {
    ///         sum += acc.warp_shuffle_xor(sum, distance).await;
    ///         distance /= 2;
    ///     }
    ///     sum
    /// }
    /// ```
    #[inline(always)]
    #[track_caller]
    fn warp_shuffle<T: ValueParameter>(&self, value: T, lane: u32) -> impl Future<Output = T> {
        let from = lane % self.warp_size();
        shuffle(self.port(), Location::caller(), value, Some(from))
    }

    /// The `value` of the lane so many below; its own where there is none.
    #[inline(always)]
    #[track_caller]
    fn warp_shuffle_up<T: ValueParameter>(
        &self,
        value: T,
        distance: u32,
    ) -> impl Future<Output = T> {
        let from = self.lane().checked_sub(distance);
        shuffle(self.port(), Location::caller(), value, from)
    }

    /// The `value` of the lane so many above; its own where there is none.
    #[inline(always)]
    #[track_caller]
    fn warp_shuffle_down<T: ValueParameter>(
        &self,
        value: T,
        distance: u32,
    ) -> impl Future<Output = T> {
        let from = self.lane().saturating_add(distance);
        let from = (from < self.warp_size()).then_some(from);
        shuffle(self.port(), Location::caller(), value, from)
    }

    /// The `value` of the lane whose number differs in these bits; its own where there is none.
    #[inline(always)]
    #[track_caller]
    fn warp_shuffle_xor<T: ValueParameter>(&self, value: T, bits: u32) -> impl Future<Output = T> {
        let from = self.lane() ^ bits;
        let from = (from < self.warp_size()).then_some(from);
        shuffle(self.port(), Location::caller(), value, from)
    }
}

/// One thread of a launch whose blocks can wait for each other: all of them run at the same time.
///
/// ```
/// use quipu_kernel::{Atomics, GridAccelerator, OwnElements, WorkDivision, kernel};
///
/// /// Each element becomes the sum of all.
/// #[kernel(crate = quipu_kernel)]
/// async fn sum_of_all(acc: &impl GridAccelerator<1>, total: Atomics<u32>, mut y: OwnElements<u32>) {
///     for (_, y) in y.each() {
///         total.add(0, *y);
///     }
///     acc.sync_grid_threads().await;
///     for (_, y) in y.each() {
///         *y = total.load(0);
///     }
/// }
///
/// let (mut total, mut y) = (vec![0; 1], vec![1, 2, 3, 4]);
/// sum_of_all(&mut total, &mut y).run(WorkDivision::new(2, 2, 1)?)?;
/// assert_eq!(y, [10; 4]);
/// # Ok::<(), quipu_kernel::KernelError>(())
/// ```
///
/// Devices have room for a limited number of blocks at the same time, and refuse a launch of more.
/// OpenCL C has no such barrier. Natively one thread of the operating system runs the whole launch.
///
/// A thread of a kernel whose blocks do not wait for each other has a [`BlockAccelerator`] only:
///
/// ```compile_fail,E0599
/// # use quipu_kernel::BlockAccelerator;
/// async fn run<A: BlockAccelerator<1>>(acc: &A) {
///     acc.sync_grid_threads().await;
/// }
/// ```
pub trait GridAccelerator<const D: usize>: BlockAccelerator<D> {
    /// Waits until every thread of the grid is here. Memory accesses of all threads before it
    /// happen before those after it.
    ///
    /// Every thread of the grid must reach it, at the same place of the source, as those of a block
    /// do with the barriers of a [`BlockAccelerator`]. So conditions around it must be the same for
    /// all threads of the grid: lengths, extents, passed values, and elements of memory that is
    /// only read, at such an index.
    #[inline(always)]
    #[track_caller]
    fn sync_grid_threads(&self) -> Barrier<'_, Self::Port> {
        let turns = if self.waits_for_grid() {
            Turns::GRID
        } else {
            Turns::FOREIGN
        };
        Barrier::new(self.port(), Location::caller(), turns, false)
    }

    /// True if all blocks of the launch are run together.
    #[doc(hidden)]
    fn waits_for_grid(&self) -> bool;
}
