//! Threads of the test modes: one accelerator for all of them, so that a kernel is compiled for them once.

use std::future::Future;
use std::task::Poll;

use super::BlockLaunch;
use crate::accelerator::{Accelerator, BlockAccelerator};
use crate::barrier::{Exchanged, Port, Site, Turns};
use crate::check::Shadow;
use crate::division::WorkDivision;
use crate::error::KernelError;
use crate::extent::Vector;
use crate::kernel::BlockKernel;
use crate::partition::Partition;
use crate::shared::{BlockContext, Shared};

/// A block that is run in one of the test modes.
pub(super) struct TestBlock<'l, 'a, K: BlockKernel<D>, const D: usize> {
    pub(super) launch: &'l BlockLaunch<'a, K, D>,
    pub(super) block: Vector<D>,
    pub(super) group: u64,
    /// Where what its threads do to raw memory is noted, in checking mode.
    pub(super) shadow: Option<&'l Shadow>,
    /// Its shared memory, zeroed.
    pub(super) memory: *mut u8,
}

// SAFETY: the launch may be shared between threads, and the memory is reached through the arrays in it alone.
unsafe impl<K: BlockKernel<D>, const D: usize> Sync for TestBlock<'_, '_, K, D> {}

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
        std::ptr::from_ref(self.meeting).cast()
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

impl<K: BlockKernel<D>, const D: usize> TestBlock<'_, '_, K, D> {
    /// How many threads it has.
    pub(super) fn threads(&self) -> usize {
        self.launch.division.threads_per_block()
    }

    /// The shared arrays, for one run of the block.
    pub(super) fn attach(
        &self,
        meeting: &dyn Meeting,
        runs_alone: bool,
    ) -> <K::Shared as Shared>::Attached {
        let context = BlockContext {
            block: std::ptr::from_ref(meeting).cast(),
            runs_alone,
            watched: self.shadow.is_some(),
        };
        // SAFETY: `run_slowly` reserved and zeroed so many bytes as the plan says, and borrows the scratch meanwhile.
        unsafe { self.launch.shared.attach(self.memory, &context) }
    }

    /// A thread, whose number in the block is given.
    pub(super) fn accelerator<'m>(
        &'m self,
        meeting: &'m dyn Meeting,
        thread: usize,
        warp_size: u32,
        runs_alone: bool,
    ) -> TestThread<'m, D> {
        let division = &self.launch.division;
        let position = division.block_threads().delinearise(thread);
        TestThread {
            division,
            block: self.block,
            thread: position.unwrap_or(Vector::ZERO),
            port: TestPort { meeting, thread },
            warp_size,
            runs_alone,
            watched: self.shadow.is_some(),
        }
    }

    /// What a thread does.
    ///
    /// # Safety
    /// Called once for each thread of the block, with the arrays that [`attach`](Self::attach) gave for this run.
    pub(super) unsafe fn start<'t>(
        &'t self,
        acc: &'t TestThread<'_, D>,
        shared: &'t <K::Shared as Shared>::Attached,
    ) -> impl Future<Output = ()> {
        // SAFETY: as the caller promises; the caller of `run_groups` runs no group twice at a time.
        let output = unsafe { K::Output::own(&self.launch.output, acc) };
        // SAFETY: the memory was zeroed and is the block's; and as the caller promises.
        let shared = unsafe { K::Shared::hand_out(shared, acc.port.thread) };
        self.launch.kernel.run(acc, output, shared)
    }

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
                let watched = crate::check::Watched {
                    group: self.group,
                    thread,
                    epoch,
                };
                crate::check::contained(shadow, watched, step)
            }
        }
    }
}
