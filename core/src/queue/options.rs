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

/// The commands that hazards order: of two commands that access the same bytes, if one of them
/// writes, the later one begins after the earlier one has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hazards {
    within_queue: bool,
}

impl Hazards {
    /// Commands of all queues.
    pub const ACROSS_QUEUES: Self = Self {
        within_queue: false,
    };

    /// Commands of one in-order queue. The caller orders commands of different queues, and those of
    /// an out-of-order queue, by waits.
    ///
    /// The tracker of a memory object has the hazards of one queue at a time. A command of another
    /// in-order queue that uses the object meanwhile is a barrier of its own queue instead.
    ///
    /// # Safety
    /// Of two commands that neither hazards nor waits order, none writes bytes that the other
    /// touches; or the author of both has been told that such a race gives undefined behaviour. The
    /// memory is in the host's space alone.
    #[must_use]
    pub const unsafe fn within_queue() -> Self {
        Self { within_queue: true }
    }

    pub(crate) const fn are_within_queue(self) -> bool {
        self.within_queue
    }
}

/// The options of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// Program order, else only waits, markers and barriers (and hazards).
    pub in_order: bool,
    /// Each command of an in-order queue begins after the one before it has ended, also where they
    /// could run at the same time: for users that compare their timestamps.
    pub one_at_a_time: bool,
    /// Every enqueue waits for its command. If waiting could never end, that is the enqueue's
    /// error, and the command is cancelled: it is not run unless it has started.
    pub blocking: bool,
    /// Keep timestamps.
    pub profiling: bool,
    /// The urgency of its commands.
    pub priority: Priority,
    /// The way in which ends of commands are found out. Drivers that know them anyway take no
    /// notice.
    pub completion: Completion,
    /// The commands that hazards order: by default those of all queues.
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
