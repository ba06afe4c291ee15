//! Parcels: values that a command and its future share. The command owns the value
//! until it is over, and the future afterwards.

use quipu_scheduler::panics::{drop_panic, quietly};
use quipu_scheduler::{Error, Result};
use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A value in a place of its own, that the command reaches by pointers made
/// before it was enqueued, and that is taken out when the command is over.
pub(crate) struct Parcel<C>(UnsafeCell<Option<C>>);

// SAFETY: a parcel is not used by two threads at a time: before the enqueue by
// its maker, then by the command, and after that by whoever takes it out.
unsafe impl<C: Send> Send for Parcel<C> {}
// SAFETY: as above.
unsafe impl<C: Send> Sync for Parcel<C> {}

impl<C> Parcel<C> {
    /// With this content.
    pub(crate) fn new(content: C) -> Arc<Self> {
        Arc::new(Self(UnsafeCell::new(Some(content))))
    }

    /// Without content.
    pub(crate) fn empty() -> Arc<Self> {
        Arc::new(Self(UnsafeCell::new(None)))
    }

    /// Looks at the content before the command is enqueued.
    pub(crate) fn prepare<R>(
        parcel: &mut Arc<Self>,
        look: impl FnOnce(&mut C) -> Result<R>,
    ) -> Result<R> {
        let content = Arc::get_mut(parcel).and_then(|parcel| parcel.0.get_mut().as_mut());
        // No other thread has it yet, so the content is there.
        look(content.ok_or_else(|| Error::cancelled("a transfer"))?)
    }

    /// Puts the content in.
    ///
    /// # Safety
    /// The caller is the running command.
    pub(crate) unsafe fn put(&self, content: C) {
        // SAFETY: it is the command's now.
        unsafe { *self.0.get() = Some(content) };
    }

    /// Looks at the content in its place, if it is there.
    ///
    /// # Safety
    /// As [`Parcel::take`].
    pub(crate) unsafe fn look<R>(&self, look: impl FnOnce(&mut C) -> R) -> Option<R> {
        // SAFETY: it is the caller's now.
        unsafe { (*self.0.get()).as_mut() }.map(look)
    }

    /// Takes the content out.
    ///
    /// # Safety
    /// The command is over, or was never enqueued, and no other thread takes.
    pub(crate) unsafe fn take(&self) -> Option<C> {
        // SAFETY: it is the caller's now.
        unsafe { (*self.0.get()).take() }
    }
}

impl<C> Drop for Parcel<C> {
    fn drop(&mut self) {
        // In its place, which the content may point to.
        contain("a container", || *self.0.get_mut() = None);
    }
}

/// A user's value that a command keeps: a panic as it is dropped, perhaps on a
/// worker, stays here.
pub(crate) struct Contained<F>(ManuallyDrop<F>);

impl<F> Contained<F> {
    pub(crate) fn new(value: F) -> Self {
        Self(ManuallyDrop::new(value))
    }

    /// The value, uncontained.
    pub(crate) fn into_inner(self) -> F {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once: `this` is not dropped.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }
}

impl<F> Deref for Contained<F> {
    type Target = F;

    #[inline]
    fn deref(&self) -> &F {
        &self.0
    }
}

impl<F> DerefMut for Contained<F> {
    fn deref_mut(&mut self) -> &mut F {
        &mut self.0
    }
}

impl<F> Drop for Contained<F> {
    #[inline]
    fn drop(&mut self) {
        if std::mem::needs_drop::<F>() {
            // SAFETY: dropped once, here.
            contain("a closure", || unsafe { ManuallyDrop::drop(&mut self.0) });
        }
    }
}

fn contain(what: &str, drop: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(drop)) {
        drop_panic(panic);
        quietly(|| tracing::error!("{what} panicked as it was dropped after its command"));
    }
}
