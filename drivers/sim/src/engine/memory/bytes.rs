//! The bytes of allocations: blocks with an alignment of their own choosing, and memory of the
//! host's.

use std::ops::Range;

/// Memory outside of the machine that devices use where it is. Its bytes are copied as a command
/// starts, and written back as the command ends, as is done with bytes that a command writes.
pub trait HostMemory: Send + Sync {
    /// Copies the bytes from `offset` on.
    fn read(&self, offset: usize, to: &mut [u8]);

    /// Sets the bytes from `offset` on.
    fn write(&self, offset: usize, from: &[u8]);
}

/// The bytes of an allocation.
pub(crate) enum Bytes {
    Own(AlignedBytes),
    Host(Box<dyn HostMemory>),
}

impl Bytes {
    /// The bytes, to be read where they lie; none of the host's, which others may be writing.
    pub(crate) fn as_slice(&self) -> Option<&[u8]> {
        match self {
            Self::Own(bytes) => Some(bytes.as_slice()),
            Self::Host(_) => None,
        }
    }

    /// As [`AlignedBytes::as_ptr`].
    pub(crate) fn as_ptr(&self, offset: usize) -> Option<*const u8> {
        match self {
            Self::Own(bytes) => Some(bytes.as_ptr(offset)),
            Self::Host(_) => None,
        }
    }

    /// A copy of some bytes.
    pub(crate) fn copy(&self, range: Range<usize>) -> Vec<u8> {
        self.copy_parts(range.clone(), std::iter::once(range))
    }

    /// A copy of some bytes of which only these parts are used. In the host's memory, other
    /// threads may write the bytes between the parts. The copy has zeros in their place.
    pub(crate) fn copy_parts(
        &self,
        range: Range<usize>,
        parts: impl Iterator<Item = Range<usize>>,
    ) -> Vec<u8> {
        match self {
            Self::Own(bytes) => bytes.as_slice()[range].to_vec(),
            Self::Host(memory) => {
                let mut copy = vec![0; range.len()];
                for part in parts {
                    let to = part.start - range.start..part.end - range.start;
                    memory.read(part.start, &mut copy[to]);
                }
                copy
            }
        }
    }

    /// Sets some bytes.
    pub(crate) fn set(&mut self, offset: usize, from: &[u8]) {
        match self {
            Self::Own(bytes) => {
                bytes.as_mut_slice()[offset..offset + from.len()].copy_from_slice(from);
            }
            Self::Host(memory) => memory.write(offset, from),
        }
    }

    /// Sets the bytes from `offset` on in which `written` differs from `original`.
    pub(crate) fn merge(&mut self, offset: usize, original: &[u8], written: &[u8]) {
        const CHUNK: usize = 256;
        let chunks = original.chunks(CHUNK).zip(written.chunks(CHUNK));
        for (number, (original, written)) in chunks.enumerate() {
            if original == written {
                continue;
            }
            let start = offset + number * CHUNK;
            let bytes = original.iter().zip(written).enumerate();
            let changed = bytes.filter(|(_, (before, after))| before != after);
            match self {
                Self::Own(own) => {
                    let chunk = &mut own.as_mut_slice()[start..start + written.len()];
                    changed.for_each(|(at, (_, after))| chunk[at] = *after);
                }
                Self::Host(memory) => {
                    changed.for_each(|(at, (_, after))| memory.write(start + at, &[*after]));
                }
            }
        }
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Own(bytes) => bytes.fmt(formatter),
            Self::Host(_) => formatter.write_str("memory of the host"),
        }
    }
}

/// `length` bytes whose first has an address that is `phase` modulo `alignment`.
///
/// The block lies inside a vector that is larger by the alignment. The vector never grows, so it
/// never moves.
#[derive(Debug)]
pub(crate) struct AlignedBytes {
    storage: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBytes {
    /// A block of zeros, or nothing where the host has no room for it.
    pub(crate) fn zeroed(length: u64, alignment: u64, phase: u64) -> Option<Self> {
        let length = usize::try_from(length).ok()?;
        let alignment = usize::try_from(alignment).ok()?.max(1);
        let phase = usize::try_from(phase).ok()? % alignment;
        let total = length.checked_add(alignment)?.checked_add(phase)?;
        let mut storage = Vec::new();
        storage.try_reserve_exact(total).ok()?;
        storage.resize(total, 0);
        let misalignment = storage.as_ptr().addr() % alignment;
        let start = (alignment - misalignment) % alignment + phase;
        Some(Self {
            storage,
            start,
            length,
        })
    }

    /// A copy of `bytes`.
    pub(crate) fn copy_of(bytes: &[u8], alignment: u64, phase: u64) -> Option<Self> {
        let mut copy = Self::zeroed(bytes.len() as u64, alignment, phase)?;
        copy.as_mut_slice().copy_from_slice(bytes);
        Some(copy)
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.storage[self.start..self.start + self.length]
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.start + self.length]
    }

    /// A pointer to the byte at `offset`, made without a reference to the bytes: pointers got
    /// earlier stay valid.
    pub(crate) fn as_ptr(&self, offset: usize) -> *const u8 {
        self.storage.as_ptr().wrapping_add(self.start + offset)
    }

    /// As [`as_ptr`](Self::as_ptr), to write through.
    pub(crate) fn as_mut_ptr(&mut self, offset: usize) -> *mut u8 {
        self.storage.as_mut_ptr().wrapping_add(self.start + offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_with_their_phase() {
        for alignment in [1_u64, 2, 64, 4096] {
            for phase in [0, 1, 63, 4097] {
                let bytes = AlignedBytes::copy_of(&[1, 2, 3], alignment, phase).unwrap();
                assert_eq!(bytes.as_ptr(0).addr() as u64 % alignment, phase % alignment);
                assert_eq!(bytes.as_ptr(0), bytes.as_slice().as_ptr());
                assert_eq!(bytes.as_slice(), [1, 2, 3]);
            }
        }
        assert!(AlignedBytes::zeroed(u64::MAX, 64, 0).is_none());
        assert!(AlignedBytes::zeroed(1 << 62, 64, 0).is_none());
    }
}
