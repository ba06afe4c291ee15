//! Threads of the test modes: one accelerator for all of them, so that a kernel is compiled for
//! them once.

use std::future::Future;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::pin::Pin;
use std::task::Poll;

use super::{BlockLaunch, BlockScratch, Execution, RunOptions, crowd, lockstep};
use crate::accelerator::{Accelerator, BlockAccelerator, GridAccelerator};
use crate::barrier::{BlockOf, Exchanged, Port, Site, Turns};
use crate::check::{self, Shadow, Watched};
use crate::division::WorkDivision;
use crate::error::KernelError;
use crate::extent::{Extent, Vector};
use crate::kernel::BlockKernel;
use crate::partition::Partition;
use crate::shared::{BlockContext, SHARED_ALIGNMENT, Shared};

/// The way in which the threads of a block are run.
#[derive(Clone, Copy)]
struct Mode {
    warp_size: u32,
    runs_alone: bool,
    watched: bool,
    /// Blocks are run together, and wait for each other.
    waits_for_grid: bool,
}

impl Mode {
    /// The mode of a block that is run without others.
    fn of(options: &RunOptions) -> Self {
        let (warp_size, runs_alone) = match options.execution {
            Execution::Native => (1, true),
            Execution::Lockstep { warp_size } => (warp_size.clamp(1, 64), true),
            Execution::OsThreads { warp_size } => (warp_size.clamp(1, 64), false),
        };
        Self {
            warp_size,
            runs_alone,
            watched: options.check,
            waits_for_grid: false,
        }
    }

    /// The mode of blocks that wait for each other: a thread of the operating system runs them all.
    fn together(options: &RunOptions) -> Self {
        Self {
            runs_alone: true,
            waits_for_grid: true,
            ..Self::of(options)
        }
    }
}

/// A block that is run in one of the test modes.
pub(super) struct TestBlock<'l, 'a, K: BlockKernel<D>, const D: usize> {
    launch: &'l BlockLaunch<'a, K, D>,
    mode: Mode,
    block: Vector<D>,
    /// Its shared arrays, which say which block they are of by where they are.
    arrays: MaybeUninit<<K::Shared as Shared>::Attached>,
}

impl<'l, 'a, K: BlockKernel<D>, const D: usize> TestBlock<'l, 'a, K, D> {
    pub(super) fn new(launch: &'l BlockLaunch<'a, K, D>, options: &RunOptions) -> Self {
        let mode = if K::WAITS_FOR_GRID {
            Mode::together(options)
        } else {
            Mode::of(options)
        };
        Self {
            launch,
            mode,
            block: Vector::ZERO,
            arrays: MaybeUninit::uninit(),
        }
    }
}

/// A [`TestBlock`] of any kernel. The modes are compiled once, and not for each kernel; so a thread
/// is a boxed future.
pub(super) trait Start: Sync {
    /// The kernel's name.
    fn kernel(&self) -> &'static str;

    /// The number of threads, and the number of bytes that they share.
    fn size(&self) -> (usize, usize);

    /// Is the block of this number from now on.
    ///
    /// # Safety
    /// So many bytes as its threads share are there, zeroed, for as long as it is run. It is not
    /// moved meanwhile.
    unsafe fn attach(&mut self, group: usize, memory: *mut u8);

    /// A thread of the block, that meets the others there.
    ///
    /// # Safety
    /// Called once for each thread of a block that was [attached](Self::attach).
    unsafe fn start<'t>(
        &'t self,
        meeting: &'t dyn Meeting,
        thread: usize,
    ) -> Pin<Box<dyn Future<Output = ()> + 't>>;
}

impl<K: BlockKernel<D>, const D: usize> Start for TestBlock<'_, '_, K, D> {
    fn kernel(&self) -> &'static str {
        std::any::type_name::<K>()
    }

    fn size(&self) -> (usize, usize) {
        let division = &self.launch.division;
        (division.threads_per_block(), self.launch.shared_bytes)
    }

    unsafe fn attach(&mut self, group: usize, memory: *mut u8) {
        self.block = at(self.launch.division.grid_blocks(), group);
        let context = BlockContext {
            block: self.arrays.as_ptr().cast(),
            runs_alone: self.mode.runs_alone,
            watched: self.mode.watched,
        };
        // SAFETY: the memory is the group's alone, and as large as `size` says: this `attach` asks
        // its caller for that.
        self.arrays
            .write(unsafe { self.launch.shared.attach(memory, &context) });
    }

    unsafe fn start<'t>(
        &'t self,
        meeting: &'t dyn Meeting,
        thread: usize,
    ) -> Pin<Box<dyn Future<Output = ()> + 't>> {
        Box::pin(async move {
            let port = TestPort {
                meeting,
                thread,
                block: self.arrays.as_ptr().cast(),
            };
            let acc = TestThread::new(&self.launch.division, self.block, port, self.mode);
            // SAFETY: this is run once for the thread, as the caller promises; the caller of
            // `run_groups` runs no group twice at a time.
            let output = unsafe { K::Output::own(&self.launch.output, &acc) };
            // SAFETY: the block was attached, and so its arrays are there, in memory that was
            // zeroed; and as above.
            let shared = unsafe { K::Shared::hand_out(self.arrays.assume_init_ref(), thread) };
            self.launch.kernel.run(&acc, output, shared).await;
        })
    }
}

/// The position of a number.
fn at<const D: usize>(extent: Extent<D>, number: usize) -> Vector<D> {
    extent.delinearise(number).unwrap_or(Vector::ZERO)
}

/// Runs blocks one after the other, as the options say.
///
/// # Safety
/// As [`GroupKernel::run_groups`](super::GroupKernel::run_groups).
#[cold]
pub(super) unsafe fn run_blocks(
    block: &mut dyn Start,
    groups: Range<usize>,
    options: &RunOptions,
    scratch: &mut BlockScratch,
) -> Result<(), KernelError> {
    let mode = Mode::of(options);
    let (threads, shared_bytes) = block.size();
    let shadow = mode.watched.then(|| Shadow::new(block.kernel()));
    for group in groups {
        let memory = scratch.zeroed(shared_bytes)?;
        if let Some(shadow) = &shadow {
            shadow.forget(memory.addr()..memory.addr() + shared_bytes);
        }
        // SAFETY: so many bytes were reserved and zeroed, and the scratch is borrowed.
        unsafe { block.attach(group, memory) };
        let test = Test {
            of: BlockOf {
                kernel: block.kernel(),
                group: group as u64,
            },
            block,
            threads,
            shadow: shadow.as_ref(),
        };
        if mode.runs_alone {
            lockstep::run_block(&test, mode.warp_size as usize)?;
        } else {
            crowd::run_block(&test, mode.warp_size as usize)?;
        }
    }
    shadow.map_or(Ok(()), |shadow| shadow.verdict())
}

/// Runs all blocks of a launch together, as they wait for each other.
///
/// # Safety
/// As [`GroupKernel::run_groups`](super::GroupKernel::run_groups). These are the launch's blocks,
/// in their order.
#[cold]
pub(super) unsafe fn run_together(
    blocks: &mut [&mut dyn Start],
    options: &RunOptions,
    scratch: &mut BlockScratch,
) -> Result<(), KernelError> {
    let Some(first) = blocks.first() else {
        return Ok(());
    };
    let mode = Mode::together(options);
    let (threads, shared_bytes) = first.size();
    let kernel = first.kernel();
    let shadow = mode.watched.then(|| Shadow::new(kernel));
    let stride = shared_bytes.next_multiple_of(SHARED_ALIGNMENT);
    let bytes = stride.checked_mul(blocks.len());
    let memory = scratch.zeroed(bytes.ok_or(KernelError::OutOfMemory { bytes: usize::MAX })?)?;
    for (group, block) in blocks.iter_mut().enumerate() {
        // SAFETY: so many bytes were reserved for each block and zeroed, and the scratch is
        // borrowed.
        unsafe { block.attach(group, memory.add(group * stride)) };
    }
    let tests: Vec<_> = blocks
        .iter()
        .zip(0..)
        .map(|(block, group)| Test {
            block: &**block,
            of: BlockOf { kernel, group },
            threads,
            shadow: shadow.as_ref(),
        })
        .collect();
    lockstep::run_together(&tests, mode.warp_size as usize)?;
    shadow.map_or(Ok(()), |shadow| shadow.verdict())
}

/// A block that is run in one of the test modes, of any kernel.
pub(super) struct Test<'l> {
    pub(super) block: &'l dyn Start,
    pub(super) of: BlockOf,
    pub(super) threads: usize,
    /// The shadow in which its threads' accesses to raw memory are noted, in checking mode.
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

/// The meeting of a block's threads, in a test mode: [`Port`], of any thread.
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

// SAFETY: both meetings keep the module's promise, and say why.
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
    mode: Mode,
}

impl<'m, const D: usize> TestThread<'m, D> {
    fn new(
        division: &'m WorkDivision<D>,
        block: Vector<D>,
        port: TestPort<'m>,
        mode: Mode,
    ) -> Self {
        Self {
            division,
            block,
            thread: at(division.block_threads(), port.thread),
            port,
            mode,
        }
    }
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
        self.mode.warp_size
    }

    fn block_runs_alone(&self) -> bool {
        self.mode.runs_alone
    }

    fn is_watched(&self) -> bool {
        self.mode.watched
    }
}

impl<'m, const D: usize> BlockAccelerator<D> for TestThread<'m, D> {
    type Port = TestPort<'m>;

    fn port(&self) -> &TestPort<'m> {
        &self.port
    }
}

impl<const D: usize> GridAccelerator<D> for TestThread<'_, D> {
    fn waits_for_grid(&self) -> bool {
        self.mode.waits_for_grid
    }
}
