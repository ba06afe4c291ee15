//! Words of a slot at which others may look while the slot is given to another command.
//!
//! 1. A thread that takes a slot writes them, by releasing stores, after the list was closed under
//!    the last generation, and then opens the list under the next one.
//! 2. A thread that has no more than an id looks by acquiring loads. The values that it has seen
//!    are of that id's command if the list is open under the id's generation before the look and
//!    after it. A value of an earlier use was overwritten before the list was opened, and a thread
//!    that sees a value of a later use sees that the list was closed.

use crate::notify::NotifyList;
use crate::sync::{AtomicPtr, AtomicU64, Ordering};
use std::ptr::null_mut;

/// A reference to an object that is never freed, or none; other threads may look at it while it is
/// changed.
pub struct Reference<T: 'static>(AtomicPtr<T>);

impl<T> Reference<T> {
    /// A reference to nothing.
    #[must_use]
    pub fn none() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// The value that the reference leads to.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or made of a `&'static T` by `set`, with which this synchronises.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Releasing: see the module.
    #[inline]
    pub fn set(&self, to: Option<&'static T>) {
        let pointer = to.map_or(null_mut(), |to| std::ptr::from_ref(to).cast_mut());
        self.0.store(pointer, Ordering::Release);
    }
}

/// A number that others may look at while it is changed.
pub struct Number(AtomicU64);

impl Default for Number {
    fn default() -> Self {
        Self::new()
    }
}

impl Number {
    /// Zero.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The number.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Releasing: see the module.
    #[inline]
    pub fn set(&self, to: u64) {
        self.0.store(to, Ordering::Release);
    }
}

/// The result of `look` on the slot of `notify`, if the event of this generation is not over before
/// and after.
#[inline]
pub fn look_while_open<R>(
    notify: &NotifyList,
    generation: u32,
    look: impl FnOnce() -> R,
) -> Option<R> {
    let is_open = || notify.closed(generation).is_none();
    if !is_open() {
        return None;
    }
    let seen = look();
    is_open().then_some(seen)
}
