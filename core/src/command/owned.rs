//! A command as its owner has it, and the sink of the commands that its end makes ready.

use super::slot::Slot;
use super::view::CommandView;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// A command whose waits are resolved (or, at `submit`, about to be), owned by the driver or thread
/// that is to run it.
#[repr(transparent)]
pub struct Command(pub(super) CommandView);

// SAFETY: a command is owned; its body's state is required to be `Send`.
unsafe impl Send for Command {}

impl std::ops::Deref for Command {
    type Target = CommandView;

    #[inline]
    fn deref(&self) -> &CommandView {
        &self.0
    }
}

/// The receiver of the dependants that a finished command makes ready.
pub trait ReadySink {
    /// Takes the command if this sink's owner runs it, or gives it back, to be
    /// handed to its own driver.
    fn accept(&mut self, command: Command) -> Option<Command>;

    /// Called before and after the dependants of a finished command are gone
    /// through, so that they can be handed over together.
    #[inline]
    fn gather(&mut self, step: Gather) {
        let _ = step;
    }
}

impl<S: ReadySink + ?Sized> ReadySink for &mut S {
    fn accept(&mut self, command: Command) -> Option<Command> {
        (**self).accept(command)
    }

    fn gather(&mut self, step: Gather) {
        (**self).gather(step);
    }
}

/// A notice that a thread begins to go through the dependants of a command, or has done so. The
/// core makes it alone, and ends each that it has begun. A sink may pass it on.
///
/// ```compile_fail,E0423
/// use quipu_scheduler::command::{Gather, ReadySink, ToDrivers};
/// ToDrivers.gather(Gather(true));
/// ```
#[derive(Debug)]
pub struct Gather(bool);

impl Gather {
    pub(crate) const BEGIN: Self = Self(true);
    pub(crate) const END: Self = Self(false);

    /// True if they begin to be.
    #[inline]
    #[must_use]
    pub fn begins(&self) -> bool {
        self.0
    }
}

impl Command {
    #[inline]
    pub(crate) fn from_slot(slot: NonNull<Slot>) -> Self {
        Self(CommandView(slot))
    }

    /// The command as a thin pointer, for intrusive lists and deques.
    #[inline]
    #[must_use]
    pub fn into_raw(self) -> NonNull<()> {
        ManuallyDrop::new(self).0.0.cast()
    }

    /// The address of the command, without giving it up.
    #[inline]
    pub(crate) fn as_raw(&self) -> NonNull<()> {
        self.0.0.cast()
    }

    /// A word of the command's that its owner may use while the command is
    /// ready and not finished: to link it into a list.
    #[inline]
    pub fn set_link(&mut self, link: u64) {
        self.slot().link.store(link, Ordering::Relaxed);
    }

    /// The word last [set](Command::set_link).
    #[inline]
    #[must_use]
    pub fn link(&self) -> u64 {
        self.slot().link.load(Ordering::Relaxed)
    }

    /// The command back from its pointer.
    ///
    /// # Safety
    /// `raw` came from [`Command::into_raw`] and is used once.
    #[inline]
    #[must_use]
    pub unsafe fn from_raw(raw: NonNull<()>) -> Self {
        Self(CommandView(raw.cast()))
    }
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({:?})", self.label(), self.id())
    }
}
