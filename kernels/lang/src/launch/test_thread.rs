//! Threads of the test modes: one accelerator for all of them, so that a kernel is compiled for them once.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

use super::BlockLaunch;
use crate::accelerator::{Accelerator, BlockAccelerator};
use crate::barrier::{BlockOf, Exchanged, Port, Site, Turns};
use crate::check::{self, Shadow, Watched};
use crate::division::WorkDivision;
use crate::error::KernelError;
use crate::extent::Vector;
use crate::kernel::BlockKernel;
use crate::partition::Partition;
use crate::shared::Shared;

/// A block that is run in one of the test modes.
pub(super) struct TestBlock<'l, 'a, K: BlockKernel<D>, const D: usize> {
    pub(super) launch: &'l BlockLaunch<'a, K, D>,
    pub(super) block: Vector<D>,
    /// Its shared arrays, in memory that was zeroed.
    pub(super) arrays: &'l <K::Shared as Shared>::Attached,
    pub(super) warp_size: u32,
    pub(super) runs_alone: bool,
    pub(super) watched: bool,
}

/// A [`TestBlock`] of any kernel. The modes are compiled once, and not for each kernel; so a thread is a boxed future.
pub(super) trait Start: Sync {
    /// A thread of the block, that meets the others there.
    ///
    /// # Safety
    /// Called once for each thread.
    unsafe fn start<'t>(
        &'t self,
        meeting: &'t dyn Meeting,
        thread: usize,
    ) -> Pin<Box<dyn Future<Output = ()> + 't>>;
}

impl<K: BlockKernel<D>, const D: usize> Start for TestBlock<'_, '_, K, D> {
    unsafe fn start<'t>(
        &'t self,
        meeting: &'t dyn Meeting,
        thread: usize,
    ) -> Pin<Box<dyn Future<Output = ()> + 't>> {
        Box::pin(async move {
            let division = &self.launch.division;
            let position = division.block_threads().delinearise(thread);
            let acc = TestThread {
                division,
                block: self.block,
                thread: position.unwrap_or(Vector::ZERO),
                port: TestPort {
                    meeting,
                    thread,
                    block: block_of(self.arrays),
                },
                warp_size: self.warp_size,
                runs_alone: self.runs_alone,
                watched: self.watched,
            };
            // SAFETY: this is run once for the thread, as the caller promises; the caller of `run_groups` runs no
            // group twice at a time.
            let output = unsafe { K::Output::own(&self.launch.output, &acc) };
            // SAFETY: the memory was zeroed and is the block's; and as above.
            let shared = unsafe { K::Shared::hand_out(self.arrays, thread) };
            self.launch.kernel.run(&acc, output, shared).await;
        })
    }
}

/// What says which block it is, as long as its arrays live.
pub(super) fn block_of<A>(arrays: &A) -> *const () {
    std::ptr::from_ref(arrays).cast()
}

/// A block that is run in one of the test modes, of any kernel.
pub(super) struct Test<'l> {
    pub(super) block: &'l dyn Start,
    pub(super) of: BlockOf,
    pub(super) threads: usize,
    /// Where what its threads do to raw memory is noted, in checking mode.
    pub(super) shadow: Option<&'l Shadow>,
}

impl Test<'_> {
    /// Runs a step of a thread; in checking mode so that its mistakes are noted.
    pub(super) fn step<R>(
        &self,
        thread: usize,
        epoch: u64,
        step: impl FnOnce() -> R,
    ) -> Result<R, KernelError> {
        match self.shadow {
            None => Ok(step()),
            Some(shadow) => {
                let watched = Watched {
                    group: self.of.group,
                    thread,
                    epoch,
                };
                check::contained(shadow, watched, step)
            }
        }
    }
}

/// Where the threads of a block meet, in a test mode: [`Port`], of any thread.
pub(super) trait Meeting {
    fn arrive(&self, thread: usize, site: Site, turns: Turns, vote: bool);
    fn poll(&self, thread: usize) -> Poll<()>;
    fn outcome(&self) -> usize;
    fn exchange(&self, thread: usize, site: Site, word: u64, vote: bool);
    fn exchanged(&self, thread: usize) -> Poll<Exchanged>;
    fn word(&self, thread: usize, lane: u32) -> Option<u64>;
}

/// A thread's way to the meeting.
pub(super) struct TestPort<'m> {
    meeting: &'m dyn Meeting,
    thread: usize,
    block: *const (),
}

// SAFETY: both meetings promise what the module says, and say why.
unsafe impl Port for TestPort<'_> {
    type Ticket<'p>
        = &'p Self
    where
        Self: 'p;

    fn arrive(&self, site: Site, turns: Turns, vote: bool) -> &Self {
        self.meeting.arrive(self.thread, site, turns, vote);
        self
    }

    fn poll(port: &Self) -> Poll<()> {
        port.meeting.poll(port.thread)
    }

    fn outcome(&self) -> usize {
        self.meeting.outcome()
    }

    fn exchange(&self, site: Site, word: u64, vote: bool) {
        self.meeting.exchange(self.thread, site, word, vote);
    }

    fn exchanged(&self, _vote: bool) -> Poll<Exchanged> {
        self.meeting.exchanged(self.thread)
    }

    fn word(&self, lane: u32, own: u64) -> u64 {
        self.meeting.word(self.thread, lane).unwrap_or(own)
    }

    fn block(&self) -> *const () {
        self.block
    }
}

/// A thread of a test mode.
pub(super) struct TestThread<'m, const D: usize> {
    division: &'m WorkDivision<D>,
    block: Vector<D>,
    thread: Vector<D>,
    port: TestPort<'m>,
    warp_size: u32,
    runs_alone: bool,
    watched: bool,
}

impl<const D: usize> Accelerator<D> for TestThread<'_, D> {
    fn division(&self) -> &WorkDivision<D> {
        self.division
    }

    fn block_index(&self) -> Vector<D> {
        self.block
    }

    fn thread_index(&self) -> Vector<D> {
        self.thread
    }

    fn warp_size(&self) -> u32 {
        self.warp_size
    }

    fn block_runs_alone(&self) -> bool {
        self.runs_alone
    }

    fn is_watched(&self) -> bool {
        self.watched
    }
}

impl<'m, const D: usize> BlockAccelerator<D> for TestThread<'m, D> {
    type Port = TestPort<'m>;

    fn port(&self) -> &TestPort<'m> {
        &self.port
    }
}
