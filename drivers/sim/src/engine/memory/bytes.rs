//! A block of bytes with an alignment of its own choosing.

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
