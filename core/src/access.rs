//! Which bytes of which memory a command touches, and how.

use crate::command::notify::ADDRESS_BITS;
use crate::memory::Memory;
use std::ops::Range;
use std::ptr::NonNull;

/// How a command touches a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AccessMode {
    /// Reads it.
    Read = 0,
    /// Reads and writes it, or writes only parts of it.
    ReadWrite = 1,
    /// Writes every byte of it without reading any: nothing has to be brought
    /// there first, and an earlier failure of the range is over.
    Overwrite = 2,
}

impl AccessMode {
    /// True if what is there before matters.
    #[must_use]
    pub fn reads(self) -> bool {
        !matches!(self, Self::Overwrite)
    }

    /// True if what is there changes.
    #[must_use]
    pub fn writes(self) -> bool {
        !matches!(self, Self::Read)
    }
}

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

/// The largest memory object, in bytes: 4 TiB less one.
pub const MAX_MEMORY_BYTES: u64 = (1 << BITS) - 1;
const BITS: u32 = 42;
const MODE_BITS: u32 = 2;
/// Memory objects are aligned to this, so their low address bits are free.
const ALIGN_BITS: u32 = 6;
const _: () = assert!(ADDRESS_BITS - ALIGN_BITS + MODE_BITS + 2 * BITS == 128);

/// An access packed into 16 bytes, as a command keeps it: 42 bits of address,
/// 2 of mode, 42 each of offset and length.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Argument([u64; 2]);

impl Argument {
    #[inline]
    pub(crate) fn new(access: &Access<'_>) -> Self {
        let address = std::ptr::from_ref(access.memory).expose_provenance() as u64;
        Self::pack(address, access.mode, access.offset, access.length)
    }

    #[inline]
    fn pack(address: u64, mode: AccessMode, offset: u64, length: u64) -> Self {
        debug_assert!(address.trailing_zeros() >= ALIGN_BITS && address >> ADDRESS_BITS == 0);
        debug_assert!(offset <= MAX_MEMORY_BYTES && length <= MAX_MEMORY_BYTES);
        let packed = u128::from(address >> ALIGN_BITS) << (2 * BITS + MODE_BITS)
            | u128::from(mode as u8) << (2 * BITS)
            | u128::from(offset) << BITS
            | u128::from(length);
        Self([packed as u64, (packed >> 64) as u64])
    }

    #[inline]
    fn packed(self) -> u128 {
        u128::from(self.0[0]) | u128::from(self.0[1]) << 64
    }

    /// The memory object.
    #[inline]
    pub(crate) fn memory_pointer(self) -> NonNull<Memory> {
        let address = ((self.0[1] >> (2 * BITS + MODE_BITS - 64)) << ALIGN_BITS) as usize;
        // SAFETY: a reference was packed; it is not null.
        unsafe { NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(address)) }
    }

    /// The memory object. It lives until the command that this is an argument
    /// of is over.
    #[must_use]
    #[inline]
    pub fn memory(&self) -> &Memory {
        // SAFETY: memory outlives the commands that use it, and arguments are
        // only reached through their command.
        unsafe { self.memory_pointer().as_ref() }
    }

    /// The bytes in the host's space, allocated if need be.
    ///
    /// # Errors
    /// If the host has no memory for them.
    #[inline]
    pub fn on_host(&self) -> crate::error::Result<RawArgument> {
        let base = self.memory().host_pointer()?;
        // SAFETY: the range was checked against the object at enqueue.
        let pointer = unsafe { base.as_ptr().add(self.offset() as usize) };
        Ok(RawArgument {
            pointer,
            length: self.length() as usize,
        })
    }

    /// The mode.
    #[must_use]
    #[inline]
    pub fn mode(self) -> AccessMode {
        match (self.packed() >> (2 * BITS)) as u8 & ((1 << MODE_BITS) - 1) {
            0 => AccessMode::Read,
            1 => AccessMode::ReadWrite,
            _ => AccessMode::Overwrite,
        }
    }

    /// The first byte.
    #[must_use]
    #[inline]
    pub fn offset(self) -> u64 {
        (self.packed() >> BITS) as u64 & MAX_MEMORY_BYTES
    }

    /// Bytes.
    #[must_use]
    #[inline]
    pub fn length(self) -> u64 {
        self.0[0] & MAX_MEMORY_BYTES
    }

    /// The bytes touched.
    #[must_use]
    #[inline]
    pub fn range(self) -> Range<u64> {
        self.offset()..self.offset() + self.length()
    }
}

/// An argument as a native body sees it: resolved by the driver to memory that
/// the code can address.
#[derive(Clone, Copy, Debug)]
pub struct RawArgument {
    /// The first byte.
    pub pointer: *mut u8,
    /// Bytes.
    pub length: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

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
                let argument = Argument::new(&Access {
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
    /// As 64-bit Arm has, of which this machine need not be one.
    #[test]
    fn the_highest_address_fits() {
        let address = (1 << ADDRESS_BITS) - (1 << ALIGN_BITS);
        for mode in [AccessMode::Read, AccessMode::Overwrite] {
            let argument = Argument::pack(address, mode, MAX_MEMORY_BYTES, MAX_MEMORY_BYTES);
            assert_eq!(argument.memory_pointer().addr().get() as u64, address);
            assert_eq!(argument.mode(), mode);
            assert_eq!(argument.offset(), MAX_MEMORY_BYTES);
            assert_eq!(argument.length(), MAX_MEMORY_BYTES);
        }
    }
}
