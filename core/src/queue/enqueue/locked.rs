//! The trackers of a command's memory, locked together.

use crate::access::Access;
use crate::error::Result;
use crate::memory::{CONTENT_SIZE_BYTES, Memory, MemoryRef};
use smallvec::SmallVec;

/// The objects that hold the content sizes of the accesses' memory.
pub(super) enum Sizes {
    /// No memory has one.
    None,
    /// One entry for each access.
    Some(SmallVec<[Option<MemoryRef>; 4]>),
}

impl Sizes {
    /// # Errors
    /// If one is mapped.
    #[cold]
    pub(super) fn of(accesses: &[Access<'_>]) -> Result<Self> {
        let sizes = accesses.iter().map(|access| {
            let size = access.memory.content_size();
            if let Some(size) = &size {
                size.check("enqueue", 0, CONTENT_SIZE_BYTES)?;
            }
            Ok(size)
        });
        sizes.collect::<Result<_>>().map(Self::Some)
    }

    #[inline]
    pub(super) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// The trackers of all accesses, and of the content sizes that they need, locked
/// together, each once, by address.
pub(super) enum Locked<'a> {
    None,
    One(&'a Memory),
    Two(&'a Memory, &'a Memory),
    Many(Vec<&'a Memory>),
}

impl<'a> Locked<'a> {
    #[inline]
    pub(super) fn lock(accesses: &[Access<'a>], sizes: &'a Sizes) -> Self {
        if let Sizes::Some(sizes) = sizes {
            let sizes = sizes.iter().flatten().map(|size| &**size);
            return Self::lock_many(accesses.iter().map(|access| access.memory).chain(sizes));
        }
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
            _ => Self::lock_many(accesses.iter().map(|access| access.memory)),
        }
    }

    fn lock_many(memories: impl Iterator<Item = &'a Memory>) -> Self {
        let mut memories: Vec<&'a Memory> = memories.collect();
        memories.sort_unstable_by_key(|memory| std::ptr::from_ref(*memory).addr());
        memories.dedup_by(|a, b| std::ptr::eq(*a, *b));
        for memory in &memories {
            memory.lock_tracker();
        }
        Self::Many(memories)
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
        }
    }
}
