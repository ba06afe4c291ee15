//! Launches of kernels with barriers: a block's threads are futures, polled in turn on one core.
//!
//! A worker's scratch holds one block at a time: what its threads share, then a [`Slot`] for each thread,
//! the accelerator that the thread borrows and its future. A block goes like this:
//!
//! 1. Zero the shared memory.
//! 2. First round: make each thread in its slot, and poll it, while the slot is in the cache.
//! 3. Further rounds: poll each thread, as long as all of them arrived at one barrier. What a barrier is,
//!    and what is checked, is in [`barrier`](crate::barrier).
//! 4. Drop the threads, also when there is an error or a panic: [`Threads`] does.
//!
//! A round in which some threads end and others arrive at a barrier is an error, so a future is never
//! polled after its end. A thread is never moved once it is in its slot.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::{BlockScratch, GroupKernel, checked_range};
use crate::accelerator::{Accelerator, BlockAccelerator};
use crate::barrier::{BarrierState, Progress};
use crate::division::WorkDivision;
use crate::error::KernelError;
use crate::extent::Vector;
use crate::kernel::BlockKernel;
use crate::partition::{Partition, View};
use crate::shared::{SHARED_ALIGNMENT, Shared, SharedPlan};

/// A [`BlockKernel`] with its output and work division: see [`erase_block`].
pub struct BlockLaunch<'a, K: BlockKernel<D>, const D: usize> {
    kernel: K,
    output: <K::Output as Partition<D>>::Plan<'a>,
    shared: K::Shared,
    shared_bytes: usize,
    division: WorkDivision<D>,
}

/// A launch of `kernel` that writes `output`, divided as `division` says.
///
/// # Errors
/// What the kernel's partition says about an output that it cannot share out, and
/// [`KernelError::OutOfMemory`] when no block could have so much shared memory.
#[inline]
pub fn erase_block<K: BlockKernel<D>, const D: usize>(
    kernel: K,
    output: View<'_, K::Output, D>,
    division: WorkDivision<D>,
) -> Result<BlockLaunch<'_, K, D>, KernelError> {
    let output = K::Output::plan(output, &division)?;
    let mut shared = kernel.shared(&division);
    let mut plan = SharedPlan::new(division.threads_per_block());
    shared.place(&mut plan)?;
    Ok(BlockLaunch {
        kernel,
        output,
        shared,
        shared_bytes: plan.bytes(),
        division,
    })
}

impl<K: BlockKernel<D>, const D: usize> fmt::Debug for BlockLaunch<'_, K, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "BlockLaunch({}, {:?})",
            std::any::type_name::<K>(),
            self.division
        )
    }
}

/// A thread that is a state machine beside those of its block.
struct PolledThread<'b, const D: usize> {
    division: &'b WorkDivision<D>,
    barrier: &'b BarrierState,
    block: Vector<D>,
    thread: Vector<D>,
}

impl<const D: usize> Accelerator<D> for PolledThread<'_, D> {
    #[inline(always)]
    fn division(&self) -> &WorkDivision<D> {
        self.division
    }

    #[inline(always)]
    fn block_index(&self) -> Vector<D> {
        self.block
    }

    #[inline(always)]
    fn thread_index(&self) -> Vector<D> {
        self.thread
    }
}

impl<const D: usize> BlockAccelerator<D> for PolledThread<'_, D> {
    #[inline(always)]
    fn barrier(&self) -> &BarrierState {
        self.barrier
    }
}

impl<K: BlockKernel<D>, const D: usize> GroupKernel for BlockLaunch<'_, K, D> {
    fn group_count(&self) -> u64 {
        self.division.block_count() as u64
    }

    fn shared_bytes(&self) -> usize {
        self.shared_bytes
    }

    unsafe fn run_groups(
        &self,
        groups: Range<u64>,
        scratch: &mut BlockScratch,
    ) -> Result<(), KernelError> {
        let groups = checked_range(&groups, &self.division)?;
        let division = self.division;
        let Some(mut block) = division.grid_blocks().delinearise(groups.start) else {
            return Ok(());
        };
        let barrier = BarrierState::new();
        let mut blocks = Blocks::new(
            scratch,
            self.shared_bytes,
            division.threads_per_block(),
            |acc, shared, thread| {
                // SAFETY: `run` comes to each thread once, the caller runs no group twice at a time, and the
                // kernel cannot keep what it is handed.
                let output = unsafe { K::Output::own(&self.output, acc) };
                // SAFETY: `run` zeroed the memory, which is this block's until its threads are dropped.
                let shared = unsafe { K::Shared::hand_out(shared, thread) };
                self.kernel.run(acc, output, shared)
            },
        )?;
        // SAFETY: `Blocks` reserved so many bytes as the plan says, and its scratch is borrowed.
        let shared = unsafe { self.shared.attach(blocks.shared, &barrier) };
        for group in groups {
            let mut thread = Vector::ZERO;
            let next_thread = || {
                let acc = PolledThread {
                    division: &division,
                    barrier: &barrier,
                    block,
                    thread,
                };
                division.block_threads().advance(&mut thread);
                acc
            };
            blocks.run(group as u64, &barrier, &shared, next_thread)?;
            division.grid_blocks().advance(&mut block);
        }
        Ok(())
    }
}

/// A thread in the scratch: the future borrows the accelerator beside it.
struct Slot<A, F> {
    acc: A,
    future: F,
}

/// Runs blocks of one launch, one after the other, in one scratch.
struct Blocks<A, S, F, M> {
    slots: *mut Slot<A, F>,
    shared: *mut u8,
    shared_bytes: usize,
    threads: usize,
    make: M,
    attached: PhantomData<S>,
}

impl<'b, A: 'b, S: 'b, F, M> Blocks<A, S, F, M>
where
    F: Future<Output = ()>,
    M: Fn(&'b A, &'b S, usize) -> F,
{
    /// Makes room for blocks of so many threads. `make` makes a thread's future.
    fn new(
        scratch: &'b mut BlockScratch,
        shared_bytes: usize,
        threads: usize,
        make: M,
    ) -> Result<Self, KernelError> {
        let alignment = align_of::<Slot<A, F>>().max(SHARED_ALIGNMENT);
        let slots_at = shared_bytes.checked_next_multiple_of(alignment);
        let bytes = slots_at.and_then(|at| {
            size_of::<Slot<A, F>>()
                .checked_mul(threads)?
                .checked_add(at)
        });
        let (Some(slots_at), Some(bytes)) = (slots_at, bytes) else {
            return Err(KernelError::OutOfMemory { bytes: usize::MAX });
        };
        let shared = scratch.reserve(bytes, alignment)?;
        // SAFETY: `slots_at` is at most the number of bytes reserved.
        let slots = unsafe { shared.add(slots_at) }.cast();
        Ok(Self {
            slots,
            shared,
            shared_bytes,
            threads,
            make,
            attached: PhantomData,
        })
    }

    /// Runs one block, whose threads have the accelerators that `next_thread` gives one by one.
    #[inline]
    fn run(
        &mut self,
        group: u64,
        barrier: &'b BarrierState,
        attached: &'b S,
        mut next_thread: impl FnMut() -> A,
    ) -> Result<(), KernelError> {
        // SAFETY: so many bytes were reserved at this place, and no thread is alive that uses them.
        unsafe { self.shared.write_bytes(0, self.shared_bytes) };
        barrier.begin_round();
        let mut alive = Threads {
            slots: self.slots,
            dropped: 0,
            made: 0,
        };
        let mut finished = 0;
        for thread in 0..self.threads {
            barrier.begin_poll();
            // SAFETY: slots were reserved for all threads. The accelerator is written before it is
            // borrowed, and stays where it is until the future that borrows it has been dropped.
            let future = unsafe {
                let slot = self.slots.add(thread);
                (&raw mut (*slot).acc).write(next_thread());
                (&raw mut (*slot).future).write((self.make)(&(*slot).acc, attached, thread));
                alive.made += 1;
                &mut (*slot).future
            };
            // SAFETY: the future is in its slot, where it stays until it is dropped.
            let future = unsafe { Pin::new_unchecked(future) };
            match step(future, barrier) {
                Step::Waits => {}
                Step::Ends => finished += 1,
                Step::Strays => return Err(barrier.explain(group, thread)),
            }
        }
        while finished == 0 {
            barrier.begin_round();
            let mut slot = self.slots;
            for thread in 0..self.threads {
                barrier.begin_poll();
                // SAFETY: all threads are in their slots, where they stay until they are dropped. The
                // reference covers the future alone, not the accelerator, which the future borrows.
                let future = unsafe { Pin::new_unchecked(&mut (*slot).future) };
                match step(future, barrier) {
                    Step::Waits => {}
                    Step::Ends => finished += 1,
                    Step::Strays => return Err(barrier.explain(group, thread)),
                }
                slot = slot.wrapping_add(1);
            }
        }
        if finished != self.threads {
            return Err(barrier.diverged(group, finished, self.threads - finished));
        }
        alive.finish();
        Ok(())
    }
}

/// What a thread did when it was polled.
enum Step {
    /// It arrived at a barrier, once.
    Waits,
    /// It ended.
    Ends,
    /// Something that no thread should do.
    Strays,
}

/// Lets a thread run up to its next barrier.
#[inline(always)]
fn step<F: Future<Output = ()>>(future: Pin<&mut F>, barrier: &BarrierState) -> Step {
    match (
        future.poll(&mut Context::from_waker(Waker::noop())),
        barrier.progress(),
    ) {
        (Poll::Pending, Progress::Waits) => Step::Waits,
        (Poll::Ready(()), Progress::Runs) => Step::Ends,
        _ => Step::Strays,
    }
}

/// The threads of a block that are in their slots: those from `dropped` up to `made`.
struct Threads<A, F> {
    slots: *mut Slot<A, F>,
    dropped: usize,
    made: usize,
}

impl<A, F> Threads<A, F> {
    /// Drops all threads; a panic of one goes on, with the others dropped.
    #[inline(always)]
    fn finish(mut self) {
        self.drop_rest();
    }

    #[inline(always)]
    fn drop_rest(&mut self) {
        if !std::mem::needs_drop::<Slot<A, F>>() {
            self.dropped = self.made;
        }
        while self.dropped < self.made {
            let thread = self.dropped;
            self.dropped += 1;
            // SAFETY: this thread was made, and is dropped only here, where it has been counted first.
            unsafe { self.slots.add(thread).drop_in_place() };
        }
    }
}

impl<A, F> Drop for Threads<A, F> {
    fn drop(&mut self) {
        while self.dropped < self.made {
            // The block has failed already, and a second panic while a first one unwinds would end the
            // process. What threads panic with as they are dropped is forgotten, as dropping that might
            // panic, too.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.drop_rest())) {
                std::mem::forget(panic);
            }
        }
    }
}
