//! Counted handles to memory objects.

use super::Memory;
use crate::panics::quietly;
use std::any::Any;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::PoisonError;
use std::sync::atomic::{Ordering, fence};

/// A counted handle to a memory object. The last one to go frees it, after
/// every command that uses it.
pub struct MemoryRef(pub(super) NonNull<Memory>);

// SAFETY: a handle only gives shared access to a `Sync` object.
unsafe impl Send for MemoryRef {}
// SAFETY: as for `Send`, just above.
unsafe impl Sync for MemoryRef {}

impl Deref for MemoryRef {
    type Target = Memory;
    #[inline]
    fn deref(&self) -> &Memory {
        // SAFETY: alive while a handle is.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for MemoryRef {
    fn clone(&self) -> Self {
        self.handles.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl Drop for MemoryRef {
    fn drop(&mut self) {
        self.give_up(false);
    }
}

/// A handle that goes when no command uses the object any more, wherever that may be: the tracker
/// stays with whose it is.
pub(crate) struct Unused(ManuallyDrop<MemoryRef>);

impl Unused {
    pub(crate) fn new(memory: MemoryRef) -> Self {
        Self(ManuallyDrop::new(memory))
    }
}

impl Drop for Unused {
    fn drop(&mut self) {
        self.0.give_up(true);
    }
}

impl MemoryRef {
    /// True if there are only so many handles, and nothing was set by others that commands of
    /// another user would notice: no mapping, no content size and no label. Nothing of that changes
    /// afterwards if all these handles are the caller's own.
    #[must_use]
    pub fn is_unshared(&self, handles: u64) -> bool {
        // After what was done by the handles that are gone.
        self.handles.load(Ordering::Acquire) == handles
            && self.unusual.load(Ordering::Relaxed) == 0
            && self
                .cold_or_forked()
                .is_some_and(|cold| cold.label.is_none())
    }

    /// Looks at the value that keeps the host memory which a user brought, if it is of this type.
    pub fn with_keeper<K: Any, R>(&self, look: impl FnOnce(&K) -> R) -> Option<R> {
        let cold = self.cold();
        let keep: &dyn Any = &**cold.keep.as_ref()?;
        keep.downcast_ref().map(look)
    }

    /// Gives the handle up, once. The last one frees the object, which may be known to be unused,
    /// and gives up the object's handle of its content size, which may have one itself: nothing
    /// recurses.
    fn give_up(&mut self, is_unused: bool) {
        let mut kept = self.release(is_unused);
        while let Some(size) = kept {
            kept = ManuallyDrop::new(size).release(false);
        }
    }

    /// As [`give_up`](MemoryRef::give_up), but for the content size of the object that is freed,
    /// which it gives.
    fn release(&mut self, is_unused: bool) -> Option<MemoryRef> {
        if self.handles.fetch_sub(1, Ordering::Release) != 1 {
            return None;
        }
        if crate::process::is_forked() {
            // The commands that use it do not end here.
            return None;
        }
        fence(Ordering::Acquire);
        let context = self.context.upgrade();
        let is_idle = is_unused || self.tracker().is_idle();
        match context {
            Some(context) if !is_idle => {
                // A handle more until then: a thread that needs room is to find it.
                self.handles.store(1, Ordering::Relaxed);
                context.free_when_unused(MemoryRef(self.0));
                return None;
            }
            Some(context) => context.objects().forget(self.id),
            None if is_idle || self.is_idle_soon() => {}
            None => {
                // A context outlives its commands, so this cannot be; leaking is
                // the safe answer if it ever is.
                quietly(|| {
                    tracing::error!(
                        "a buffer is in use after its context ended; its memory is kept"
                    );
                });
                return None;
            }
        }
        // SAFETY: the object was boxed, no handle and no command uses it.
        let mut memory = unsafe { Box::from_raw(self.0.as_ptr()) };
        let cold = memory.cold.get_mut();
        let cold = cold.unwrap_or_else(PoisonError::into_inner);
        cold.content_size.take()
    }
}

impl std::fmt::Debug for MemoryRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&**self, f)
    }
}
