//! Accesses, as a command keeps them: memory object, range of bytes, and mode. An access has the
//! object's address and does not know its type; `memory::access` does.

use crate::notify::ADDRESS_BITS;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::ptr::NonNull;

/// A command's access to a range of bytes.
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
    /// True if the command needs the bytes from before.
    #[must_use]
    pub fn reads(self) -> bool {
        !matches!(self, Self::Overwrite)
    }

    /// True if the command changes the bytes.
    #[must_use]
    pub fn writes(self) -> bool {
        !matches!(self, Self::Read)
    }
}

/// The largest memory object, in bytes: 4 TiB less one.
pub const MAX_MEMORY_BYTES: u64 = (1 << BITS) - 1;
const BITS: u32 = 42;
const MODE_BITS: u32 = 2;
/// Memory objects are aligned to this, so their low address bits are free.
const ALIGN_BITS: u32 = 6;
const _: () = assert!(ADDRESS_BITS - ALIGN_BITS + MODE_BITS + 2 * BITS == 128);

/// An access packed into 16 bytes, as a command keeps it: 42 bits of address,
/// 2 of mode, 42 each of offset and length. It keeps nothing: its memory may be gone.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct PackedAccess([u64; 2]);

impl PackedAccess {
    #[inline]
    pub(crate) fn pack(address: u64, mode: AccessMode, offset: u64, length: u64) -> Self {
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

    /// The address of the memory object.
    #[inline]
    pub(crate) fn address(self) -> NonNull<()> {
        let address = ((self.0[1] >> (2 * BITS + MODE_BITS - 64)) << ALIGN_BITS) as usize;
        // SAFETY: a reference was packed; it is not null.
        unsafe { NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(address)) }
    }

    /// The argument that this was taken from, for a caller that knows that the memory object lives.
    ///
    /// # Safety
    /// For `'a`, a command that has this argument is not over; or it is one of a recorded graph,
    /// which lives.
    #[must_use]
    #[inline]
    pub unsafe fn of_live_command<'a>(self) -> Argument<'a> {
        Argument(self, PhantomData)
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

/// One of a command's accesses. A command keeps its memory objects alive until it is over, so
/// arguments are borrowed from it:
///
/// ```compile_fail,E0505
/// use quipu_scheduler::{Command, command::ToDrivers};
/// fn outlives(command: Command) -> u64 {
///     let argument = command.arguments()[0];
///     command.finish(Ok(()), &mut ToDrivers);
///     argument.memory().size()
/// }
/// ```
///
/// The memory object is borrowed, too:
///
/// ```compile_fail,E0505
/// use quipu_scheduler::{Command, command::ToDrivers};
/// fn outlives(command: Command) -> u64 {
///     let memory = command.arguments()[0].memory();
///     command.finish(Ok(()), &mut ToDrivers);
///     memory.size()
/// }
/// ```
///
/// A [`PackedAccess`] can be kept for longer.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Argument<'a>(PackedAccess, PhantomData<&'a ()>);

impl<'a> Argument<'a> {
    /// As accesses that keep nothing.
    #[must_use]
    #[inline]
    pub fn packed(arguments: &[Self]) -> &[PackedAccess] {
        // SAFETY: the same in memory, as the type is transparent.
        unsafe { &*(std::ptr::from_ref(arguments) as *const [PackedAccess]) }
    }

    /// As [`PackedAccess::of_live_command`], of all of a command's.
    ///
    /// # Safety
    /// As for [`PackedAccess::of_live_command`].
    #[inline]
    pub(crate) unsafe fn all_of_live_command(accesses: &'a [PackedAccess]) -> &'a [Self] {
        // SAFETY: the same in memory, as the type is transparent.
        unsafe { &*(std::ptr::from_ref(accesses) as *const [Self]) }
    }
}

impl Deref for Argument<'_> {
    type Target = PackedAccess;

    #[inline]
    fn deref(&self) -> &PackedAccess {
        &self.0
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

    /// The highest address that 64-bit Arm has. This machine need not have it.
    #[test]
    fn the_highest_address_fits() {
        let address = (1 << ADDRESS_BITS) - (1 << ALIGN_BITS);
        for mode in [AccessMode::Read, AccessMode::Overwrite] {
            let argument = PackedAccess::pack(address, mode, MAX_MEMORY_BYTES, MAX_MEMORY_BYTES);
            assert_eq!(argument.address().addr().get() as u64, address);
            assert_eq!(argument.mode(), mode);
            assert_eq!(argument.offset(), MAX_MEMORY_BYTES);
            assert_eq!(argument.length(), MAX_MEMORY_BYTES);
        }
    }
}
