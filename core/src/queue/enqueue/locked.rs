//! The trackers of a command's memory, locked together.

use crate::access::Access;
use crate::memory::Memory;

/// The trackers of all accesses, locked together, each once, by address.
pub(super) enum Locked<'a> {
    None,
    One(&'a Memory),
    Two(&'a Memory, &'a Memory),
    Many(Vec<&'a Memory>),
}

impl<'a> Locked<'a> {
    #[inline]
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

    pub(super) fn lock_many(accesses: &[Access<'a>]) -> Self {
        let mut memories: Vec<&'a Memory> = accesses.iter().map(|access| access.memory).collect();
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
