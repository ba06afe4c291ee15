//! Accesses of memory objects, before they are packed and after.

use super::Memory;
use crate::access::{AccessMode, Argument, PackedAccess, RawArgument};
use std::ptr::NonNull;

/// One access of a command: a byte range of a memory object and a mode.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// The memory.
    pub memory: &'a Memory,
    /// The first byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// The mode.
    pub mode: AccessMode,
}

impl<'a> Access<'a> {
    /// An access of all bytes of a memory object.
    #[must_use]
    #[inline]
    pub fn whole(memory: &'a Memory, mode: AccessMode) -> Self {
        Self {
            memory,
            offset: 0,
            length: memory.size(),
            mode,
        }
    }
}

impl PackedAccess {
    #[inline]
    pub(crate) fn new(access: &Access<'_>) -> Self {
        let address = std::ptr::from_ref(access.memory).expose_provenance() as u64;
        Self::pack(address, access.mode, access.offset, access.length)
    }

    /// The memory object.
    #[inline]
    pub(crate) fn memory_pointer(self) -> NonNull<Memory> {
        self.address().cast()
    }

    /// True if it is an access of this object, whose address no other has meanwhile.
    #[must_use]
    #[inline]
    pub fn is_of(self, memory: &Memory) -> bool {
        std::ptr::eq(self.memory_pointer().as_ptr(), memory)
    }
}

impl<'a> Argument<'a> {
    /// The memory object.
    #[must_use]
    #[inline]
    pub fn memory(self) -> &'a Memory {
        // SAFETY: `of_live_command` and `all_of_live_command` say that such a command is not over
        // for `'a`. Memory outlives the commands that use it (see `memory`).
        unsafe { self.memory_pointer().as_ref() }
    }

    /// The bytes in the host's space, allocated if need be.
    ///
    /// # Errors
    /// If the host has no memory for them.
    #[inline]
    pub fn on_host(&self) -> crate::error::Result<RawArgument> {
        let base = self.memory().host_pointer()?;
        // SAFETY: the range was checked against the object at enqueue (`Memory::check`).
        let pointer = unsafe { base.as_ptr().add(self.offset() as usize) };
        Ok(RawArgument {
            pointer,
            length: self.length() as usize,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::MAX_MEMORY_BYTES;

    #[test]
    fn packing_keeps_every_field() {
        let memory = Memory::detached_for_tests(64);
        for mode in [
            AccessMode::Read,
            AccessMode::ReadWrite,
            AccessMode::Overwrite,
        ] {
            for (offset, length) in [
                (0, 0),
                (0, 1),
                (1, MAX_MEMORY_BYTES),
                (MAX_MEMORY_BYTES, 0),
                (12345, 67890),
            ] {
                let argument = PackedAccess::new(&Access {
                    memory: &memory,
                    offset,
                    length,
                    mode,
                });
                assert_eq!(argument.memory_pointer(), NonNull::from(&*memory));
                assert_eq!(argument.mode(), mode);
                assert_eq!(argument.offset(), offset);
                assert_eq!(argument.length(), length);
            }
        }
    }
}
