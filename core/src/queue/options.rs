//! The options of a queue.

/// The urgency of a queue's commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Run when nothing else is ready.
    Low,
    /// The usual.
    #[default]
    Normal,
    /// Run before others.
    High,
}

/// The way in which a driver finds out that a command is over, if its device does not tell it
/// anyway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Completion {
    /// The device's vendor calls back. Costs nothing while nothing ends.
    #[default]
    Callback,
    /// A thread looks again and again while commands are in flight: least time from a command's end
    /// to the next command, for a core that is busy meanwhile.
    Polling,
}

/// The party that orders commands of which one writes bytes that another accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hazards {
    are_callers: bool,
}

impl Hazards {
    /// The queue does.
    pub const OF_QUEUE: Self = Self { are_callers: false };

    /// The caller does, by waits: a copy, write or fill may be passed a destination that is accessed as if it were only read
    /// ([`AccessMode::Read`](crate::AccessMode::Read)). Then it waits for no other command that is passed the same memory so.
    ///
    /// # Safety
    /// Of two commands that are passed memory so, none writes bytes that the other touches, unless one waits for the other; or
    /// whoever wrote them has been told that such a race gives undefined behaviour. The memory is in the host's space alone.
    #[must_use]
    pub const unsafe fn of_caller() -> Self {
        Self { are_callers: true }
    }

    pub(crate) const fn are_callers(self) -> bool {
        self.are_callers
    }
}

/// The options of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// Program order, else only waits, markers and barriers (and hazards).
    pub in_order: bool,
    /// Each command of an in-order queue begins after the one before it has ended, also where they could run at the same
    /// time: for users that compare their timestamps.
    pub one_at_a_time: bool,
    /// Every enqueue waits for its command. If waiting could never end, that is the enqueue's error, and the command is
    /// cancelled: it is not run unless it has started.
    pub blocking: bool,
    /// Keep timestamps.
    pub profiling: bool,
    /// The urgency of its commands.
    pub priority: Priority,
    /// The way in which ends of commands are found out. Drivers that know them anyway take no
    /// notice.
    pub completion: Completion,
    /// The party that orders commands of which one writes bytes that another accesses: by default the queue.
    pub hazards: Hazards,
}

impl Default for QueueOptions {
    /// In-order, non-blocking, no timestamps, normal priority.
    fn default() -> Self {
        Self {
            in_order: true,
            one_at_a_time: false,
            blocking: false,
            profiling: false,
            priority: Priority::Normal,
            completion: Completion::Callback,
            hazards: Hazards::default(),
        }
    }
}
