//! The options of a queue.

/// How urgent a queue's commands are.
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

/// How a driver finds out that a command is over, where its device does not
/// tell it anyway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Completion {
    /// The device's vendor calls back. Costs nothing while nothing ends.
    #[default]
    Callback,
    /// A thread looks again and again while commands are in flight: least time
    /// from a command's end to what comes after it, for a core that is busy
    /// meanwhile.
    Polling,
}

/// What kind of queue to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// Program order, else only waits, markers and barriers (and hazards).
    pub in_order: bool,
    /// Each command of an in-order queue begins after the one before it has ended, also where they could run at the same
    /// time: for who compares their timestamps.
    pub one_at_a_time: bool,
    /// Every enqueue waits for its command. If waiting could never end, that is the enqueue's error, and the command is
    /// cancelled: it is not run unless it has started.
    pub blocking: bool,
    /// Keep timestamps.
    pub profiling: bool,
    /// How urgent.
    pub priority: Priority,
    /// How ends of commands are found out. Drivers that know them anyway take no
    /// notice.
    pub completion: Completion,
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
        }
    }
}
