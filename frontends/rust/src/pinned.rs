//! Memory that stays where it is: page-aligned, locked where the system
//! allows it, and known to drivers as such, so that a device can read and write
//! it at full speed.

use crate::element::Element;
use crate::host::HostView;
use quipu_scheduler::memory::pinned::Pinning;
use quipu_scheduler::{ErrorKind, Result};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// The alignment of the memory: a page on the systems we know, or a divisor of a larger page.
const PAGE: usize = 4096;

/// A fixed number of elements in pinned host memory, zero at first. A slice
/// that transfers take and give back like any container. A device's driver that
/// can make use of it is told of the memory with the first large transfer, which
/// takes longer for that.
///
/// ```
/// # use quipu::prelude::*;
/// # fn main() -> quipu::Result<()> {
/// let mut staging = Pinned::<u32>::new(1024)?;
/// staging[3] = 7;
/// assert_eq!(staging.as_ptr() as usize % 4096, 0);
/// # Ok(()) }
/// ```
pub struct Pinned<T: Element> {
    pointer: NonNull<T>,
    length: usize,
    locked: bool,
    /// Tells drivers of it; ends before the memory does.
    pinning: Option<Pinning>,
}

// SAFETY: it owns its elements as a `Box<[T]>` does.
unsafe impl<T: Element> Send for Pinned<T> {}
// SAFETY: as above.
unsafe impl<T: Element> Sync for Pinned<T> {}

impl<T: Element> Pinned<T> {
    /// So many elements, all zero.
    ///
    /// # Errors
    /// If the elements have no size, or theirs overflows, or there is no memory.
    pub fn new(length: usize) -> Result<Self> {
        let layout = layout::<T>(length)?;
        // SAFETY: the layout has a size.
        let pointer = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| {
            ErrorKind::OutOfMemory {
                device: "the host".to_owned(),
                asked: layout.size() as u64,
                free: 0,
                capacity: 0,
            }
        })?;
        // SAFETY: allocated, until this is dropped; and transfers have it for
        // themselves, whole.
        let pinning = unsafe { Pinning::new(pointer.as_ptr(), layout.size()) };
        Ok(Self {
            locked: lock(pointer, layout.size()),
            pinning: Some(pinning),
            pointer: pointer.cast(),
            length,
        })
    }

    /// The first byte, and the object that keeps the memory, for a buffer that is this memory.
    pub(crate) fn into_keeper(self) -> (NonNull<u8>, Keeper<T>) {
        let first = self.pointer.cast();
        let keeper = Keeper {
            pinned: Some(self),
            to: Arc::default(),
        };
        (first, keeper)
    }

    /// True if the system has locked the memory. Where its limits forbid that, the memory is usable
    /// all the same.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.locked
    }
}

/// The place for pinned memory that is no buffer's any more.
pub(crate) type Returned<T> = Arc<Mutex<Option<Pinned<T>>>>;

/// Keeps the memory of a buffer, which has it for itself, and gives it back when the buffer goes.
pub(crate) struct Keeper<T: Element> {
    pinned: Option<Pinned<T>>,
    to: Returned<T>,
}

impl<T: Element> Keeper<T> {
    /// The place that the memory is given back to.
    pub(crate) fn returned(&self) -> Returned<T> {
        self.to.clone()
    }
}

impl<T: Element> Drop for Keeper<T> {
    fn drop(&mut self) {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        *to = self.pinned.take();
    }
}

/// Whole pages, at least one, so that no other bytes are unlocked with them.
fn layout<T>(length: usize) -> Result<Layout> {
    let layout = Layout::array::<T>(length.max(1))
        .and_then(|layout| layout.align_to(PAGE))
        .map(|layout| layout.pad_to_align())
        .ok()
        .filter(|layout| layout.size() > 0);
    layout.ok_or_else(|| {
        ErrorKind::InvalidSize {
            what: "pin host memory",
            problem: format!(
                "{length} elements of {} bytes have no size, or more than memory has addresses",
                size_of::<T>()
            ),
        }
        .into()
    })
}

#[cfg(all(unix, not(miri)))]
fn lock(pointer: NonNull<u8>, size: usize) -> bool {
    // SAFETY: the range was just allocated.
    unsafe { libc::mlock(pointer.as_ptr().cast(), size) == 0 }
}

#[cfg(all(unix, not(miri)))]
fn unlock(pointer: NonNull<u8>, size: usize) {
    // SAFETY: the range is still allocated, and was locked.
    unsafe { libc::munlock(pointer.as_ptr().cast(), size) };
}

#[cfg(any(not(unix), miri))]
fn lock(_: NonNull<u8>, _: usize) -> bool {
    false
}

#[cfg(any(not(unix), miri))]
fn unlock(_: NonNull<u8>, _: usize) {}

impl<T: Element> Drop for Pinned<T> {
    fn drop(&mut self) {
        let layout = layout::<T>(self.length).expect("the layout was valid when it was allocated");
        self.pinning = None;
        if self.locked {
            unlock(self.pointer.cast(), layout.size());
        }
        // SAFETY: allocated by `new` with this layout, freed once.
        unsafe { dealloc(self.pointer.as_ptr().cast(), layout) };
    }
}

impl<T: Element> Deref for Pinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: so many elements, initialised, owned.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.length) }
    }
}

impl<T: Element> DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and borrowed for writing.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.length) }
    }
}

impl<T: Element> HostView for Pinned<T> {
    type Element = T;

    fn elements(&self) -> &[T] {
        self
    }

    fn elements_mut(&mut self) -> &mut [T] {
        self
    }
}

impl<T: Element + fmt::Debug> fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.deref().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_scheduler::memory::pinned::PinnedRange;

    #[test]
    fn drivers_know_of_it_as_long_as_it_is_there() {
        let pinned = Pinned::<u32>::new(3000).expect("so little memory");
        let (first, bytes) = (pinned.as_ptr().cast::<u8>(), 4 * 3000);
        let find = |start: usize, length| PinnedRange::of(first.wrapping_add(start), length);
        assert!(find(0, bytes).is_some() && find(bytes - 4, 4).is_some());
        drop(pinned);
        assert!(find(0, bytes).is_none());
    }
}
