//! Content sizes that a command reads, for a driver that brings bytes from one of its memories to
//! another by itself ([`Driver::moves_within_spaces`](crate::driver::Driver::moves_within_spaces)).
//!
//! The core makes no migration then, so the command itself has to come after the last writer of the
//! size, and before the next. It reads the size like any other argument.

use super::super::Queue;
use crate::access::AccessMode;
use crate::memory::access::Access;
use crate::memory::{CONTENT_SIZE_BYTES, MemoryRef};

/// The objects that hold the content sizes of a command's accesses, and that are not accessed
/// themselves.
pub(crate) struct Sizes(Vec<MemoryRef>);

impl Queue {
    /// The content sizes that a command with these accesses also reads, if there are any.
    #[inline]
    pub(crate) fn sizes_to_read(&self, accesses: &[Access<'_>]) -> Option<Sizes> {
        let has = |access: &Access<'_>| access.memory.has_content_size();
        match self.shared().head().moves_within_spaces && accesses.iter().any(has) {
            true => Sizes::of(accesses),
            false => None,
        }
    }
}

impl Sizes {
    /// None if there are more than a command takes, too: then all bytes are brought.
    #[cold]
    fn of(accesses: &[Access<'_>]) -> Option<Self> {
        let mut all: Vec<MemoryRef> = Vec::new();
        for size in accesses
            .iter()
            .filter_map(|access| access.memory.content_size())
        {
            let is_it = |access: &Access<'_>| {
                access.memory.id() == size.id()
                    && access.offset == 0
                    && access.length >= CONTENT_SIZE_BYTES
            };
            if !accesses.iter().any(is_it) && !all.iter().any(|other| other.id() == size.id()) {
                all.push(size);
            }
        }
        let is_room = accesses.len() + all.len() <= usize::from(u8::MAX);
        (is_room && !all.is_empty()).then_some(Self(all))
    }

    /// A command's accesses, and behind them those of the sizes.
    pub(crate) fn behind<'a>(&'a self, accesses: &[Access<'a>]) -> Vec<Access<'a>> {
        let sizes = self.0.iter().map(|size| Access {
            memory: size,
            offset: 0,
            length: CONTENT_SIZE_BYTES,
            mode: AccessMode::Read,
        });
        accesses.iter().copied().chain(sizes).collect()
    }
}
