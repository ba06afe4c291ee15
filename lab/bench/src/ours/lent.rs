//! Objects that commands borrow, and their queues.

use std::ptr::NonNull;
use std::sync::Arc;

use quipu_scheduler::Queue;

use super::pool::failed;
use crate::error::SubjectError;

/// A shared reference without its lifetime: 8 bytes in a command (16 for a trait object) and no
/// counter that all workers would write.
pub(crate) struct Lent<T: ?Sized>(NonNull<T>);

// SAFETY: no more than a `&T`.
unsafe impl<T: ?Sized + Sync> Send for Lent<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for Lent<T> {}

impl<T: ?Sized> Clone for Lent<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Lent<T> {}

impl<T: ?Sized> Lent<T> {
    /// Lends `value`.
    ///
    /// # Safety
    /// `value` stays where it is until everything that the result is given to is over.
    pub(crate) unsafe fn new(value: &T) -> Self {
        Lent(NonNull::from(value))
    }

    /// The lent object.
    #[inline]
    pub(crate) fn get(&self) -> &T {
        // SAFETY: it is still there, as the maker promised.
        unsafe { self.0.as_ref() }
    }
}

/// Queues and what their commands borrow from: dropped, it waits for the commands first.
///
/// Whoever lends `kept` to commands lends it to commands of `queues` only, and never leaves a run
/// with a user event that nobody will complete: a run that ends early drops its user event, which
/// fails what waits for it.
pub(crate) struct Held<T: ?Sized> {
    pub(crate) queues: Vec<Queue>,
    /// Counted, so that it stays where it is, and so that it can be kept for good.
    pub(crate) kept: Arc<T>,
}

impl<T: ?Sized> Held<T> {
    /// Queues whose commands will borrow from `kept`.
    pub(crate) fn new(queues: Vec<Queue>, kept: Arc<T>) -> Self {
        Held { queues, kept }
    }

    /// The first queue.
    pub(crate) fn queue(&self) -> &Queue {
        &self.queues[0]
    }

    /// The kept objects, for commands of these queues.
    pub(crate) fn lend(&self) -> Lent<T> {
        // SAFETY: an `Arc`'s value stays where it is; this one is dropped after everything in the
        // queues is over, or never.
        unsafe { Lent::new(&self.kept) }
    }

    /// Waits for everything in the queues.
    pub(crate) fn wait(&self) -> Result<(), SubjectError> {
        for queue in &self.queues {
            queue.wait().map_err(failed("waiting for a queue"))?;
        }
        Ok(())
    }
}

impl<T: ?Sized> Drop for Held<T> {
    fn drop(&mut self) {
        if self.wait().is_err() {
            // Commands may still borrow from it: then it is never dropped.
            std::mem::forget(Arc::clone(&self.kept));
        }
    }
}
