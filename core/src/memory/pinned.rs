//! Pinned host memory. A program registers a range here, and drivers look up a transfer's bytes. A
//! driver registers the range with its library at the first transfer. The range keeps that
//! registration, and drops it before the memory is freed. Memory that devices use in place
//! ([`Context::memory_in_place`](crate::Context::memory_in_place)) is pinned, too.

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// All ranges, by their last byte.
static RANGES: RwLock<BTreeMap<usize, Arc<PinnedRange>>> = RwLock::new(BTreeMap::new());
/// The number of ranges: if it is zero, nobody looks for one.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A range of the host's memory that stays where it is.
pub struct PinnedRange {
    bytes: Range<usize>,
    kept: Mutex<Vec<(usize, Kept)>>,
}

/// A value that a user of a range keeps with it. It is made once; others that ask meanwhile look at
/// it when it is there.
type Kept = Arc<OnceLock<Box<dyn Any + Send + Sync>>>;

/// Memory of the host's, and the object that frees it.
pub struct HostBlock {
    /// The first byte.
    pub start: NonNull<u8>,
    /// Keeps the memory.
    pub keep: Box<dyn Any + Send + Sync>,
}

impl std::fmt::Debug for HostBlock {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "host memory at {:?}", self.start)
    }
}

/// Says, while it lives, that a range of memory stays where it is.
#[derive(Debug)]
pub struct Pinning(Arc<PinnedRange>);

impl Pinning {
    /// Notes that these bytes stay where they are.
    ///
    /// # Safety
    /// They are mapped until this is dropped, and no transfer uses them when it is, nor when it is
    /// made.
    #[must_use]
    pub unsafe fn new(pointer: *const u8, length: usize) -> Self {
        let start = pointer.expose_provenance();
        let range = Arc::new(PinnedRange {
            bytes: start..start + length,
            kept: Mutex::default(),
        });
        // In a child of fork another thread may have had the lock, and nothing is transferred.
        if length > 0 && !crate::process::is_forked() {
            let mut ranges = RANGES.write().unwrap_or_else(PoisonError::into_inner);
            ranges.insert(start + length - 1, range.clone());
            COUNT.store(ranges.len(), Ordering::Release);
        }
        Self(range)
    }
}

impl Drop for Pinning {
    fn drop(&mut self) {
        if crate::process::is_forked() {
            // Another thread of the parent may have had the locks, and the registrations are the
            // parent's.
            std::mem::forget(self.0.clone());
            return;
        }
        if !self.0.bytes.is_empty() {
            let mut ranges = RANGES.write().unwrap_or_else(PoisonError::into_inner);
            ranges.remove(&(self.0.bytes.end - 1));
            COUNT.store(ranges.len(), Ordering::Release);
        }
        let kept = std::mem::take(&mut *self.0.kept());
        // No transfer uses the range any more: destructors of registrations run here, before the
        // memory goes.
        drop(kept);
    }
}

impl PinnedRange {
    /// The range that holds all of these bytes, if they are in one.
    #[must_use]
    pub fn of(pointer: *const u8, length: usize) -> Option<Arc<Self>> {
        let is_none = COUNT.load(Ordering::Acquire) == 0 || length == 0;
        if is_none || crate::process::is_forked() {
            // In a child of fork another thread may have had the lock.
            return None;
        }
        let start = pointer.addr();
        let end = start.checked_add(length)?;
        let ranges = RANGES.read().unwrap_or_else(PoisonError::into_inner);
        let (_, range) = ranges.range(start..).next()?;
        (range.bytes.start <= start && end <= range.bytes.end).then(|| range.clone())
    }

    /// The addresses of its bytes.
    #[must_use]
    pub fn bytes(&self) -> Range<usize> {
        self.bytes.clone()
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Vec<(usize, Kept)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value that is kept with the range under a name, if it is there by now.
    pub fn kept_as<T: Any + Send + Sync, R>(
        &self,
        name: usize,
        look: impl FnOnce(&T) -> R,
    ) -> Option<R> {
        let cell = {
            let kept = self.kept();
            let mut known = kept.iter().filter(|(known, _)| *known == name);
            known.next().map(|(_, cell)| cell.clone())?
        };
        cell.get()?.downcast_ref().map(look)
    }

    /// The value that is kept with the range under a name, made if there is none. Of several
    /// threads that ask at a time, one makes it and the others wait. It is dropped before the
    /// range's memory goes.
    pub fn keep<T: Any + Send + Sync, R>(
        &self,
        name: usize,
        make: impl FnOnce() -> T,
        look: impl FnOnce(&T) -> R,
    ) -> Option<R> {
        let cell = {
            let mut kept = self.kept();
            match kept.iter().find(|(known, _)| *known == name) {
                Some((_, cell)) => cell.clone(),
                None => {
                    let cell = Kept::default();
                    kept.push((name, cell.clone()));
                    cell
                }
            }
        };
        let made = cell.get_or_init(|| Box::new(make()));
        made.downcast_ref().map(look)
    }
}

impl std::fmt::Debug for PinnedRange {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("PinnedRange")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tells(Arc<AtomicUsize>);

    impl Drop for Tells {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn bytes_are_found_in_the_range_that_holds_all_of_them() {
        let memory = [vec![0_u8; 100], vec![0_u8; 50]];
        let pin = |bytes: &[u8]| {
            // SAFETY: the vectors outlive it, and nobody transfers anything.
            unsafe { Pinning::new(bytes.as_ptr(), bytes.len()) }
        };
        let find = |bytes: &[u8]| {
            let found = PinnedRange::of(bytes.as_ptr(), bytes.len());
            found.map(|range| range.bytes().start)
        };
        let first = pin(&memory[0][10..90]);
        let second = pin(&memory[1]);
        let starts = [memory[0][10..].as_ptr().addr(), memory[1].as_ptr().addr()];
        for part in [10..90, 10..11, 89..90, 40..60] {
            assert_eq!(find(&memory[0][part]), Some(starts[0]));
        }
        for part in [9..90, 10..91, 0..5, 90..100, 30..30] {
            assert_eq!(find(&memory[0][part.clone()]), None, "{part:?}");
        }
        assert_eq!(find(&memory[1]), Some(starts[1]));
        drop(first);
        assert_eq!(find(&memory[0][10..90]), None);
        assert_eq!(find(&memory[1][1..2]), Some(starts[1]));
        drop(second);
        assert_eq!(find(&memory[1][1..2]), None);
    }

    #[test]
    fn what_is_kept_is_made_once_and_dropped_with_the_range() {
        let memory = [0_u8; 64];
        // SAFETY: the array outlives it, and nobody transfers anything.
        let pinning = unsafe { Pinning::new(memory.as_ptr(), memory.len()) };
        let range = PinnedRange::of(memory.as_ptr(), 8).expect("it was just said");
        let (made, dropped) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
        let make = || {
            made.fetch_add(1, Ordering::Relaxed);
            Tells(dropped.clone())
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(range.keep(1, make, |_| 7), Some(7)));
            }
        });
        assert_eq!(made.load(Ordering::Relaxed), 1);
        assert_eq!(range.kept_as(1, |_: &Tells| 8), Some(8));
        assert_eq!(range.kept_as(2, |_: &Tells| 8), None);
        assert_eq!(range.keep(2, make, |_| ()), Some(()));
        assert_eq!(range.kept_as(2, |_: &u8| ()), None);
        assert_eq!(range.keep(1, || 3_u8, |_| ()), None);
        assert_eq!(dropped.load(Ordering::Relaxed), 0);
        drop(pinning);
        // Even if another thread still has the range.
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
        drop(range);
    }
}
