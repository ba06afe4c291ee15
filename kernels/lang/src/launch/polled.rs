//! Blocks whose threads are futures, polled in turn on one core.
//!
//! A worker's scratch holds one block at a time: its shared memory, then a [`Slot`] for each
//! thread, the accelerator that the thread borrows and its future. A block goes like this:
//!
//! 1. Zero the shared memory.
//! 2. Make each thread in its slot. A thread that comes to a barrier as it is made, before it is
//!    polled, is an error.
//! 3. Rounds: poll each thread, as long as all of them arrived at one barrier. Barriers and their
//!    checks are in [`barrier`](crate::barrier).
//! 4. Drop the threads, also when there is an error or a panic: [`Threads`] does. Then no arrival
//!    is complete any more, as a destructor may ask.
//!
//! A round in which some threads end and others arrive at a barrier is an error, so a future is
//! never polled after its end. A thread is never moved once it is in its slot.

use std::future::Future;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::{BlockLaunch, BlockScratch};
use crate::accelerator::{Accelerator, BlockAccelerator, GridAccelerator};
use crate::barrier::{BarrierState, BlockOf, Polling};
use crate::division::WorkDivision;
use crate::error::KernelError;
use crate::extent::Vector;
use crate::kernel::BlockKernel;
use crate::level::{Level, Share, Work};
use crate::partition::Partition;
use crate::shared::{BlockContext, SHARED_ALIGNMENT, Shared};

/// The loop over some groups, which start at `block`.
pub(super) struct Groups<'l, 'a, K: BlockKernel<D>, const D: usize> {
    pub(super) launch: &'l BlockLaunch<'a, K, D>,
    pub(super) scratch: &'l mut BlockScratch,
    pub(super) block: Vector<D>,
    pub(super) groups: Range<usize>,
}

/// The state that the threads of a block have in common.
struct BlockState<const D: usize> {
    division: WorkDivision<D>,
    block: Vector<D>,
    barrier: BarrierState,
}

/// A thread that is a state machine beside those of its block, in code for a feature level. Small,
/// as every thread has one in memory.
struct PolledThread<'b, L, const D: usize> {
    state: &'b BlockState<D>,
    thread: Vector<D>,
    level: PhantomData<L>,
}

impl<L: Level, const D: usize> Accelerator<D> for PolledThread<'_, L, D> {
    #[inline(always)]
    fn division(&self) -> &WorkDivision<D> {
        &self.state.division
    }

    #[inline(always)]
    fn block_index(&self) -> Vector<D> {
        self.state.block
    }

    #[inline(always)]
    fn thread_index(&self) -> Vector<D> {
        self.thread
    }

    #[inline(always)]
    fn block_runs_alone(&self) -> bool {
        true
    }
}

impl<L: Level, const D: usize> BlockAccelerator<D> for PolledThread<'_, L, D> {
    type Port = BarrierState;

    #[inline(always)]
    fn port(&self) -> &BarrierState {
        &self.state.barrier
    }
}

/// Only for a kernel that does not say that it waits for the grid: then it may not.
impl<L: Level, const D: usize> GridAccelerator<D> for PolledThread<'_, L, D> {
    #[inline(always)]
    fn waits_for_grid(&self) -> bool {
        false
    }
}

impl<K: BlockKernel<D>, const D: usize> Work for Groups<'_, '_, K, D> {
    type Output = Result<(), KernelError>;

    #[inline]
    fn share(&self) -> Share {
        Share {
            groups: self.groups.len(),
            of: self.launch.division.block_count(),
        }
    }

    #[inline(always)]
    fn run<L: Level>(self) -> Result<(), KernelError> {
        let mut block = self.block;
        for group in self.groups {
            run_block::<L, K, D>(self.launch, self.scratch, block, group as u64)?;
            self.launch.division.grid_blocks().advance(&mut block);
        }
        Ok(())
    }
}

/// Runs one block.
#[inline(always)]
fn run_block<L: Level, K: BlockKernel<D>, const D: usize>(
    launch: &BlockLaunch<'_, K, D>,
    scratch: &mut BlockScratch,
    block: Vector<D>,
    group: u64,
) -> Result<(), KernelError> {
    let state = BlockState {
        division: launch.division,
        block,
        barrier: BarrierState::new(),
    };
    let mut room = Room::new(
        scratch,
        launch.shared_bytes,
        state.division.threads_per_block(),
        |acc, shared, thread| {
            // SAFETY: `run` comes to each thread once, the caller of `run_groups` runs no group
            // twice at a time, and the kernel cannot keep its output.
            let output = unsafe { K::Output::own(&launch.output, acc) };
            // SAFETY: `run` zeroed the memory, which is this block's until its threads are dropped.
            let shared = unsafe { K::Shared::hand_out(shared, thread) };
            launch.kernel.run(acc, output, shared)
        },
    )?;
    let context = BlockContext {
        block: std::ptr::from_ref(&state.barrier).cast(),
        runs_alone: true,
        watched: false,
    };
    // SAFETY: there are so many bytes as the plan says, and the scratch is borrowed.
    let shared = unsafe { launch.shared.attach(room.shared, &context) };
    let mut thread = Vector::ZERO;
    let next_thread = || {
        let acc = PolledThread::<L, D> {
            state: &state,
            thread,
            level: PhantomData,
        };
        state.division.block_threads().advance(&mut thread);
        acc
    };
    let block = BlockOf {
        kernel: std::any::type_name::<K>(),
        group,
    };
    room.run(block, &state.barrier, &shared, next_thread)
}

/// A thread in the scratch: the future borrows the accelerator beside it.
struct Slot<A, F> {
    acc: A,
    future: F,
}

/// Room in a scratch for the threads of a block, and their shared memory.
struct Room<A, S, F, M> {
    slots: *mut Slot<A, F>,
    shared: *mut u8,
    shared_bytes: usize,
    threads: usize,
    make: M,
    attached: PhantomData<S>,
}

impl<'b, A: 'b, S: 'b, F, M> Room<A, S, F, M>
where
    F: Future<Output = ()>,
    M: Fn(&'b A, &'b S, usize) -> F,
{
    /// Makes room for so many threads. `make` makes a thread's future.
    #[inline(always)]
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

    /// Runs the block, whose threads have the accelerators that `next_thread` gives one by one.
    #[inline(always)]
    fn run(
        &mut self,
        block: BlockOf,
        barrier: &BarrierState,
        attached: &'b S,
        mut next_thread: impl FnMut() -> A,
    ) -> Result<(), KernelError> {
        // SAFETY: so many bytes were reserved at this place, and no thread is alive that uses them.
        unsafe { self.shared.write_bytes(0, self.shared_bytes) };
        let _polling = Polling::begin();
        let mut alive = Threads {
            slots: self.slots,
            dropped: 0,
            made: 0,
        };
        let slots = self.slots;
        let end = slots.wrapping_add(self.threads);
        // (Not counted along, as hardly anybody asks.)
        // SAFETY: both are in the room.
        let number = |slot: *mut Slot<A, F>| unsafe { slot.offset_from(slots) } as usize;

        // Not in the first round: a thread that has been made needs fewer instructions in every
        // round.
        barrier.begin_poll();
        let mut slot = slots;
        while slot != end {
            // SAFETY: slots were reserved for all threads. The accelerator is written before it is
            // borrowed, and stays where it is until the future that borrows it has been dropped.
            unsafe {
                (&raw mut (*slot).acc).write(next_thread());
                (&raw mut (*slot).future).write((self.make)(&(*slot).acc, attached, number(slot)));
            }
            alive.made += 1;
            if !barrier.has_not_arrived() {
                return Err(block.foreign(number(slot)));
            }
            slot = slot.wrapping_add(1);
        }

        let context = &mut Context::from_waker(Waker::noop());
        loop {
            let mut finished = 0;
            let mut first_finished = slots;
            let mut slot = slots;
            // The only call of `poll`: so it is inlined, for the feature level's sake.
            while slot != end {
                barrier.begin_poll();
                // SAFETY: the thread is in its slot, where it stays until it is dropped. The
                // reference covers the future alone, not the accelerator, which the future borrows.
                let future = unsafe { Pin::new_unchecked(&mut (*slot).future) };
                match future.poll(context) {
                    Poll::Pending => {
                        if let Err(fault) = barrier.has_arrived(|| number(slot) == finished) {
                            return Err(fault.explain(block, number(slot)));
                        }
                    }
                    Poll::Ready(()) => {
                        if !barrier.has_not_arrived() {
                            return Err(block.foreign(number(slot)));
                        }
                        if finished == 0 {
                            first_finished = slot;
                        }
                        finished += 1;
                    }
                }
                slot = slot.wrapping_add(1);
            }
            if finished == self.threads {
                break;
            }
            if finished > 0 {
                let (thread, waiting) = (number(first_finished), self.threads - finished);
                return Err(barrier.diverged(block, thread, finished, waiting));
            }
            barrier.end_round();
        }
        alive.finish();
        Ok(())
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
            // SAFETY: this thread was made, and is dropped only here, where it has been counted
            // first.
            unsafe { self.slots.add(thread).drop_in_place() };
        }
    }
}

impl<A, F> Drop for Threads<A, F> {
    fn drop(&mut self) {
        if self.dropped < self.made {
            Polling::fail();
        }
        while self.dropped < self.made {
            // The block has failed already, and a second panic while a first one unwinds would end
            // the process. The payload of a thread that panics as it is dropped is forgotten, as
            // dropping that might panic, too.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.drop_rest())) {
                std::mem::forget(panic);
            }
        }
    }
}
