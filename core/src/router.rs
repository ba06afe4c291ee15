//! The driver's interface for lower floors: handing commands over, and waiting.
//!
//! Every [`Driver`](crate::Driver) is a [`Router`], by the implementation in `driver.rs`.

use crate::command::EventId;
use crate::command::owned::Command;
use crate::error::Result;
use crate::queue::place::QueueShared;

/// A message to a driver about a command that it holds.
#[derive(Debug)]
pub enum Notification {
    /// The last wait is resolved: the command is the driver's to start and
    /// finish, now.
    Ready(Command),
    /// One of several waits is resolved. Only drivers with a sync domain are
    /// told.
    Resolved(Resolved),
}

/// A notice that one of a command's waits is resolved. Nobody but the core makes one, and it is
/// told once: a driver relies on it to run the command.
///
/// ```compile_fail,E0451
/// # use quipu_scheduler::{EventId, driver::Resolved};
/// fn forge(command: EventId, event: EventId) -> Resolved {
///     Resolved { command, event }
/// }
/// ```
#[derive(Debug)]
pub struct Resolved {
    pub(crate) command: EventId,
    pub(crate) event: EventId,
}

impl Resolved {
    /// The waiting command.
    #[must_use]
    pub fn command(&self) -> EventId {
        self.command
    }

    /// The event that it waited for.
    #[must_use]
    pub fn event(&self) -> EventId {
        self.event
    }
}

/// A thread that waits. None but a [`Waiter`](crate::event::Waiter) is one, and so a driver gets
/// that.
pub trait Wait {}

/// A driver, as commands, queues and waits know it. Each method is the driver's of the name in
/// brackets.
pub trait Router: Send + Sync {
    /// The driver's name ([`Driver::name`](crate::Driver::name)).
    fn driver_name(&self) -> &'static str;

    /// Tells it of a command ([`Driver::notify`](crate::Driver::notify)).
    fn tell(&self, notification: Notification);

    /// Tells it of commands that are ready ([`Driver::notify_ready`](crate::Driver::notify_ready)).
    fn hand_over(&self, commands: &mut Vec<Command>);

    /// Makes the commands that were submitted to a queue run
    /// ([`Driver::flush`](crate::Driver::flush)).
    fn flush_queue(&self, queue: &QueueShared);

    /// Waits as it says ([`Driver::join`](crate::Driver::join)).
    ///
    /// # Errors
    /// If waiting here could never end.
    fn join_wait(&self, wait: &dyn Wait) -> Result<()>;

    /// True if threads that wait run its commands
    /// ([`Driver::runs_on_waiting_threads`](crate::Driver::runs_on_waiting_threads)).
    fn is_run_by_waits(&self) -> bool;

    /// True if graphs are handed to it as ready commands
    /// ([`Driver::plays_graphs`](crate::Driver::plays_graphs)).
    fn takes_ready_graphs(&self) -> bool;

    /// True if it has nothing to do ([`Driver::is_idle`](crate::Driver::is_idle)).
    fn has_nothing_to_do(&self) -> bool;

    /// No thread of it polls from now on
    /// ([`Driver::suspend_polling`](crate::Driver::suspend_polling)).
    ///
    /// # Safety
    /// As of that.
    unsafe fn pause_polling(&self);

    /// Threads of it poll again ([`Driver::resume_polling`](crate::Driver::resume_polling)).
    ///
    /// # Safety
    /// As of that.
    unsafe fn continue_polling(&self);
}

/// True if both are the same driver.
pub(crate) fn is_same(one: &dyn Router, other: &dyn Router) -> bool {
    std::ptr::addr_eq(one, other)
}
