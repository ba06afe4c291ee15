//! Batches: commands that are known ahead, because something outside the driver holds them all
//! back. They are put on their device with one call when they are released.
//!
//! The plan of a batch is gathered while its commands wait, and the batch is made by a thread of
//! the host. Nothing of this holds a command up: if it is not made in time, if one of its commands
//! was cancelled, or memory has moved, the commands are put on the device one by one.

use crate::launch::Code;
use crate::region::Part;
use crate::vendor::Vendor;
use quipu_scheduler::SpaceId;
use quipu_scheduler::access::PackedAccess;
use quipu_scheduler::driver::CommandRef;
use quipu_scheduler::operation::Fill;
use smallvec::SmallVec;

/// A batch of fewer commands gains less than it costs.
pub const FEWEST: usize = 32;
/// The most commands of a batch: so long does it take to make one.
pub const MOST: usize = 256;
/// The most time that commands of a batch take together, in nanoseconds, as far as is known: a
/// command that waits for one of them on the device waits for all.
pub(crate) const MOST_NS: u64 = 500_000;
/// The time of commands whose ends the host hears of together: reports of single ends take the
/// device time.
const TOLD_NS: u64 = 30_000;
/// A command that takes longer goes by itself: a batch would save little of that.
pub const LONG_NS: u64 = 50_000;
/// The time that an unknown command is taken to need: its batch then is one of the fewest, and it
/// becomes known from that.
pub(crate) const UNKNOWN_NS: u64 = MOST_NS / FEWEST as u64;

/// The parts of a batch.
pub struct Plan<V: Vendor> {
    /// Its commands, each after those that it waits for.
    pub commands: Vec<Planned<V>>,
    /// An argument for each memory object that they use, and the start of the object. For the code
    /// that puts them on the device.
    pub(crate) memories: Vec<(PackedAccess, u64)>,
    /// The device's memory.
    pub(crate) space: Option<SpaceId>,
    /// A command of it uses memory of the host where it is.
    pub(crate) uses_host_memory: bool,
    /// The time of its commands after the last one that is told, in nanoseconds.
    untold_ns: u64,
}

/// A command of a batch.
pub struct Planned<V: Vendor> {
    /// Its work.
    pub does: Does<V>,
    /// Its arguments: their places in their memory, and lengths. That memory may be gone while a
    /// batch is made.
    pub arguments: SmallVec<[PackedAccess; 4]>,
    /// The start of the memory of each argument, as [`Vendor::start_of`] says.
    pub starts: SmallVec<[u64; 4]>,
    /// The numbers of those commands of the batch that it waits for.
    pub after: SmallVec<[u32; 2]>,
    /// The host is to hear that it is over, and those before it up to the last that is told,
    /// without waiting for those that come after it. Of the last of a batch it hears anyway. None
    /// is told that comes after a use of host memory [in
    /// place](quipu_scheduler::Context::memory_in_place) within the batch: only the batch's end
    /// says that the host sees what was written there.
    pub is_told: bool,
    /// The command, which may be looked at from when the batch is put on its device until it is
    /// over there.
    pub held: CommandRef,
}

/// The work of a command of a batch.
#[allow(clippy::large_enum_variant, reason = "nearly all of them are launches")]
pub enum Does<V: Vendor> {
    /// Launches this.
    Launch(Code<V::Compiled>),
    /// Fills its first argument.
    Fill(Fill),
    /// Moves bytes from one argument to another.
    Copy {
        /// The number of the argument that they are from.
        from: usize,
        /// The number of the argument that they go to.
        to: usize,
        /// The parts that are moved, by their places from the start of each argument.
        parts: Vec<Part>,
    },
}

impl<V: Vendor> Default for Plan<V> {
    fn default() -> Self {
        Self {
            commands: Vec::new(),
            memories: Vec::new(),
            space: None,
            uses_host_memory: false,
            untold_ns: 0,
        }
    }
}

impl<V: Vendor> Plan<V> {
    /// True if the next command, which takes so many nanoseconds, is to be told.
    pub(crate) fn tells(&mut self, takes: u64) -> bool {
        self.untold_ns += takes;
        let tells = self.untold_ns >= TOLD_NS;
        if tells {
            self.untold_ns = 0;
        }
        tells
    }

    /// The number of memory objects that its commands use.
    #[must_use]
    pub fn memories(&self) -> usize {
        self.memories.len()
    }
}

/// Counts of batches since the driver was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Batches that lay ready for their commands to be let go.
    pub made: u64,
    /// Batches that were put on a device.
    pub put: u64,
    /// Batches that could not be made.
    pub failed: u64,
    /// Commands of those that were put on a device.
    pub commands: u64,
    /// Commands of batches that lie ready now.
    pub ready: u64,
}
