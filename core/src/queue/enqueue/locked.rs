//! The trackers of a command's memory, locked together.

use crate::memory::access::Access;
use crate::memory::{Memory, MemoryRef};
use std::ptr::NonNull;

/// The trackers of all accesses, locked together, each once, by address.
pub(super) enum Locked<'a> {
    None,
    One(&'a Memory),
    Two(&'a Memory, &'a Memory),
    Many(Vec<&'a Memory>),
    /// The trackers of the accesses, and those of their content sizes.
    WithSizes(Box<WithSizes>),
}

/// The trackers of all accesses and of their memory's content sizes.
pub(super) struct WithSizes {
    /// The caller's, or kept by `sizes`, also once these are taken.
    locked: Vec<NonNull<Memory>>,
    /// For each access, the object that holds the content size of its memory.
    sizes: Vec<Option<MemoryRef>>,
}

impl<'a> Locked<'a> {
    /// Inlined into every enqueue, for few have more than two accesses.
    #[inline(always)]
    pub(super) fn lock(accesses: &[Access<'a>]) -> Self {
        match accesses {
            [] => Self::None,
            [one] => {
                one.memory.lock_tracker();
                Self::One(one.memory)
            }
            [a, b] if std::ptr::eq(a.memory, b.memory) => {
                a.memory.lock_tracker();
                Self::One(a.memory)
            }
            [a, b] => {
                let (mut first, mut second) = (a.memory, b.memory);
                if std::ptr::from_ref(first) > std::ptr::from_ref(second) {
                    std::mem::swap(&mut first, &mut second);
                }
                first.lock_tracker();
                second.lock_tracker();
                Self::Two(first, second)
            }
            _ => Self::lock_many(accesses),
        }
    }

    #[inline(never)]
    fn lock_many(accesses: &[Access<'a>]) -> Self {
        let mut memories: Vec<_> = accesses.iter().map(|access| access.memory).collect();
        memories.sort_unstable_by_key(|memory| std::ptr::from_ref(*memory).addr());
        memories.dedup_by(|a, b| std::ptr::eq(*a, *b));
        memories.iter().for_each(|memory| memory.lock_tracker());
        Self::Many(memories)
    }

    /// Locks memory objects that are in the order of locking, and each once.
    pub(super) fn lock_sorted(memories: Vec<&'a Memory>) -> Self {
        debug_assert!(
            memories.is_sorted_by(|a, b| std::ptr::from_ref(*a) < std::ptr::from_ref(*b))
        );
        memories.iter().for_each(|memory| memory.lock_tracker());
        Self::Many(memories)
    }

    #[cold]
    pub(super) fn lock_with_sizes(accesses: &[Access<'a>]) -> Self {
        let sizes: Vec<_> = accesses
            .iter()
            .map(|access| access.memory.content_size())
            .collect();
        let of_sizes = sizes.iter().flatten().map(|size| NonNull::from(&**size));
        let own = accesses.iter().map(|access| NonNull::from(access.memory));
        let mut locked: Vec<_> = own.chain(of_sizes).collect();
        locked.sort_unstable_by_key(|memory| memory.addr());
        locked.dedup();
        for memory in &locked {
            // SAFETY: borrowed from the caller or kept by `sizes`.
            unsafe { memory.as_ref() }.lock_tracker();
        }
        Self::WithSizes(Box::new(WithSizes { locked, sizes }))
    }

    /// For each access, the object that holds the content size of its memory, if any has one.
    #[inline]
    pub(super) fn sizes(&self) -> Option<&[Option<MemoryRef>]> {
        match self {
            Self::WithSizes(with_sizes) => Some(&with_sizes.sizes),
            _ => None,
        }
    }
}

impl Locked<'_> {
    /// The objects that hold the content sizes: to be dropped after this.
    #[cold]
    pub(super) fn take_sizes(&mut self) -> Vec<Option<MemoryRef>> {
        match self {
            Self::WithSizes(with_sizes) => std::mem::take(&mut with_sizes.sizes),
            _ => Vec::new(),
        }
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: (all) locked by `lock`; the guard unlocks as it is dropped.
        let unlock = |memory: &Memory| drop(unsafe { memory.locked_tracker() });
        match self {
            Self::None => {}
            Self::One(one) => unlock(one),
            Self::Two(first, second) => {
                unlock(second);
                unlock(first);
            }
            Self::Many(memories) => memories.iter().for_each(|memory| unlock(memory)),
            Self::WithSizes(with_sizes) => {
                for memory in &with_sizes.locked {
                    // SAFETY: borrowed from the caller or kept by `sizes`, which go after this,
                    // also where they are taken.
                    unlock(unsafe { memory.as_ref() });
                }
            }
        }
    }
}
