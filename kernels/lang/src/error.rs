//! The errors between the writing of a kernel and its last thread.
//!
//! A panic inside a kernel is not among these: it unwinds out of the launch as it is, and the
//! driver that runs the launch contains it.

use std::fmt;
use std::ops::Range;
use std::panic::Location;

use crate::division::AcceleratorLimits;

/// An error of a work division, of a kernel's views, or of a launch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// A size does not fit this machine's address range.
    #[error(
        "{what} overflows: the extents {extents:?} multiply to more than {}; split the work into several launches",
        usize::MAX
    )]
    ExtentOverflow {
        /// The product that was asked for.
        what: &'static str,
        /// The extents that were multiplied, the slowest dimension of each first.
        extents: Vec<Vec<usize>>,
    },

    /// A block without threads, or threads without elements.
    #[error(
        "a work division of {block_threads:?} threads per block and {thread_elements:?} elements per thread does \
         nothing anywhere; use at least one in every dimension, and zero blocks for an empty grid"
    )]
    EmptyBlock {
        /// Threads per block, as asked.
        block_threads: Vec<usize>,
        /// Elements per thread, as asked.
        thread_elements: Vec<usize>,
    },

    /// A launch disagrees with the bounds that its kernel's attribute sets for blocks.
    #[error(
        "'{kernel}' is launched in blocks of {block_threads:?} threads, and its attribute says {said}"
    )]
    LaunchBounds {
        /// The kernel.
        kernel: &'static str,
        /// Threads per block, as asked.
        block_threads: Vec<usize>,
        /// The attribute's words, and the remedy.
        said: String,
    },

    /// The device cannot run such a work division.
    #[error(
        "the work division exceeds what the device offers:{}\nthe device's limits are:\n{limits}",
        list(exceeded)
    )]
    ExceedsLimits {
        /// Everything that is too large.
        exceeded: Vec<Exceeded>,
        /// All the limits of the device.
        limits: Box<AcceleratorLimits>,
    },

    /// A view was asked to be seen in an extent larger than it is.
    #[error(
        "a view of {length} elements cannot be seen as {extent:?}; pass a larger buffer or a smaller extent"
    )]
    ViewTooShort {
        /// The number of its elements.
        length: usize,
        /// The extent asked for, the slowest dimension first.
        extent: Vec<usize>,
    },

    /// A view was asked to be seen with strides that would put two elements in one place.
    #[error(
        "a view of {extent:?} cannot have its neighbours {strides:?} elements apart; use a last stride of 1, and \
         before it at least the next dimension's stride times its extent"
    )]
    OverlappingRows {
        /// The extent asked for, the slowest dimension first.
        extent: Vec<usize>,
        /// The strides asked for.
        strides: Vec<usize>,
    },

    /// A view of plain integers is not aligned as atomics of their size have to be.
    #[error(
        "a view at an address that is no multiple of {alignment} cannot be used atomically; align the buffer"
    )]
    Unaligned {
        /// The alignment that atomics need, in bytes.
        alignment: usize,
    },

    /// Work-groups were asked for that the launch does not have.
    #[error("groups {}..{} of a launch that has {count}; the end must not be larger than that", groups.start, groups.end)]
    GroupsOutOfRange {
        /// The groups asked for.
        groups: Range<u64>,
        /// The number of groups.
        count: u64,
    },

    /// Some threads of a block finished while others wait for them at a barrier.
    #[error(
        "{kernel}: {waiting} threads of work-group {group} wait at the barrier at {barrier} for {finished} that have \
         finished, the first of which is thread {thread}; every thread of a block must reach the same barriers"
    )]
    DivergentBarrier {
        /// The kernel's type.
        kernel: &'static str,
        /// The work-group, counted in row-major order.
        group: u64,
        /// The number of threads that have ended.
        finished: usize,
        /// The first of those, counted in row-major order in its block.
        thread: usize,
        /// The number of threads that wait.
        waiting: usize,
        /// The place at which they wait.
        barrier: &'static Location<'static>,
    },

    /// Threads of a block wait at two different barriers.
    #[error(
        "{kernel}: threads of work-group {group} wait at different barriers, at {first} and (thread {thread}) at {second}; \
         every thread of a block must reach the same barriers with the same shared arrays"
    )]
    MismatchedBarrier {
        /// The kernel's type.
        kernel: &'static str,
        /// The work-group, counted in row-major order.
        group: u64,
        /// The thread that came to another barrier than those before it.
        thread: usize,
        /// The barrier of the threads before it.
        first: &'static Location<'static>,
        /// The barrier of this thread.
        second: &'static Location<'static>,
    },

    /// A block of a grid finished while another waits for it at a barrier of the grid.
    #[error(
        "{kernel}: work-group {group} waits at the barrier of the grid at {barrier} for work-group {finished}, which has finished; \
         every thread of the grid must reach the same barriers of the grid"
    )]
    DivergentGrid {
        /// The kernel's type.
        kernel: &'static str,
        /// The first work-group that has ended, counted in row-major order.
        finished: u64,
        /// The first work-group that waits.
        group: u64,
        /// The place at which it waits.
        barrier: &'static Location<'static>,
    },

    /// Blocks of a grid wait at two different barriers of the grid.
    #[error(
        "{kernel}: work-groups wait at different barriers of the grid, work-group {} at {} and work-group {} at {}; every thread of \
         the grid must reach the same barriers of the grid", groups[0], barriers[0], groups[1], barriers[1]
    )]
    MismatchedGrid {
        /// The kernel's type.
        kernel: &'static str,
        /// Two work-groups, counted in row-major order.
        groups: [u64; 2],
        /// The places at which they wait.
        barriers: [&'static Location<'static>; 2],
    },

    /// A thread waits for something that is not one barrier of its block.
    #[error(
        "{kernel}: thread {thread} of work-group {group} awaits something that is not exactly one barrier of its block; a block \
         kernel can await its accelerator's barriers, one at a time, and nothing else"
    )]
    ForeignAwait {
        /// The kernel's type.
        kernel: &'static str,
        /// The work-group, counted in row-major order.
        group: u64,
        /// The thread, counted in row-major order in its block.
        thread: usize,
    },

    /// Threads of a warp are at two different warp functions.
    #[error(
        "{kernel}: threads of one warp of work-group {group} are at different warp functions, at {first} and (thread {thread}) at \
         {second}; every thread of a warp must reach the same warp functions"
    )]
    MismatchedWarp {
        /// The kernel's type.
        kernel: &'static str,
        /// The work-group, counted in row-major order.
        group: u64,
        /// The thread that came to another warp function than those before it.
        thread: usize,
        /// The warp function of the threads before it.
        first: &'static Location<'static>,
        /// The warp function of this thread.
        second: &'static Location<'static>,
    },

    /// Some threads of a warp wait at a warp function for others that have ended, or wait at a
    /// barrier.
    #[error(
        "{kernel}: {waiting} threads of warp {warp} of work-group {group} wait at the warp function at {site} for {elsewhere} that \
         have ended or wait at a barrier; every thread of a warp must reach the same warp functions"
    )]
    DivergentWarp {
        /// The kernel's type.
        kernel: &'static str,
        /// The work-group, counted in row-major order.
        group: u64,
        /// The warp in its block.
        warp: usize,
        /// The number of its threads that wait at the warp function.
        waiting: usize,
        /// The number of those that do not.
        elsewhere: usize,
        /// The place at which they wait.
        site: &'static Location<'static>,
    },

    /// A kernel panicked, in checking mode.
    #[error("{kernel} panicked in thread {thread} of work-group {group}, at {place}: {message}")]
    Panicked {
        /// The kernel's type.
        kernel: &'static str,
        /// The work-group, counted in row-major order.
        group: u64,
        /// The thread, counted in row-major order in its block.
        thread: usize,
        /// The message of the panic: of an index out of bounds, the index and the length.
        message: String,
        /// File, line and column.
        place: String,
    },

    /// Two threads reached the same element of raw memory, of which at least one wrote it, and
    /// nothing orders them; found in checking mode.
    #[error(
        "{kernel} races for element {index}: {first}; {second}; between threads of a block a barrier orders them, between \
         blocks nothing does"
    )]
    Race {
        /// The kernel's type.
        kernel: &'static str,
        /// The element in its buffer or shared array.
        index: usize,
        /// The first access, in the order in which the threads happened to run.
        first: Reach,
        /// The second access.
        second: Reach,
    },

    /// The operating system has no threads for a block, each of whose threads should be one.
    #[error(
        "no {threads} threads of the operating system for a block ({reason}); use fewer threads per block"
    )]
    OutOfThreads {
        /// The number of threads that were wanted.
        threads: usize,
        /// The operating system's message.
        reason: String,
    },

    /// An environment variable makes no sense.
    #[error(transparent)]
    Environment(#[from] quipu_environment::Misused),

    /// There is no memory for a block's threads and their shared arrays.
    #[error(
        "no memory for a block: its threads and shared arrays need {bytes} bytes; use fewer threads per block"
    )]
    OutOfMemory {
        /// The number of bytes that was asked for; `usize::MAX` when it cannot even be counted.
        bytes: usize,
    },
}

/// A request that makes no sense is an invalid argument; a fault while it ran is a kernel's
/// failure.
#[cfg(feature = "core")]
impl From<KernelError> for quipu_scheduler::Error {
    #[cold]
    fn from(error: KernelError) -> Self {
        use KernelError::*;
        match &error {
            ExtentOverflow { .. }
            | EmptyBlock { .. }
            | LaunchBounds { .. }
            | ExceedsLimits { .. }
            | ViewTooShort { .. }
            | OverlappingRows { .. }
            | Unaligned { .. }
            | GroupsOutOfRange { .. }
            | Environment(_) => quipu_scheduler::ErrorKind::InvalidArgument {
                what: "launch a kernel",
                problem: error.to_string(),
            },
            DivergentBarrier { .. }
            | MismatchedBarrier { .. }
            | DivergentGrid { .. }
            | MismatchedGrid { .. }
            | ForeignAwait { .. }
            | MismatchedWarp { .. }
            | DivergentWarp { .. }
            | Panicked { .. }
            | Race { .. }
            | OutOfThreads { .. }
            | OutOfMemory { .. } => quipu_scheduler::ErrorKind::Kernel {
                what: "a kernel".to_owned(),
                message: error.to_string(),
            },
        }
        .into()
    }
}

/// An access of a thread to an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reach {
    /// The work-group, counted in row-major order.
    pub group: u64,
    /// The thread, counted in row-major order in its block.
    pub thread: usize,
    /// True if it wrote the element.
    pub writes: bool,
    /// The scope, in words, if it was a step of [`Atomics`](crate::Atomics).
    pub step: Option<&'static str>,
    /// The place in the source.
    pub place: &'static Location<'static>,
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.writes { "writes" } else { "reads" };
        write!(
            f,
            "thread {} of work-group {} {verb} it",
            self.thread, self.group
        )?;
        if let Some(whom) = self.step {
            write!(f, " in a step {whom}")?;
        }
        write!(f, " at {}", self.place)
    }
}

/// One quantity of a work division that is larger than a device allows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exceeded {
    /// The quantity that is too large, as the list of limits names it.
    pub quantity: &'static str,
    /// The dimension, the slowest being 0; `None` for a total.
    pub dimension: Option<usize>,
    /// The amount that was asked for.
    pub asked: usize,
    /// The amount that there is.
    pub limit: usize,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.asked, self.quantity)?;
        if let Some(dimension) = self.dimension {
            write!(f, " in dimension {dimension}")?;
        }
        write!(f, ", at most {} allowed", self.limit)
    }
}

fn list(exceeded: &[Exceeded]) -> String {
    exceeded.iter().map(|one| format!("\n  {one}")).collect()
}
