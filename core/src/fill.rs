//! Fills: memory that a pattern is repeated in.

use crate::access::RawArgument;
use crate::operation::{bytes_of_pieces, pieces_of};
use std::ops::Range;

/// Bytes from which on a fill goes around the caches, where it can: more than the largest of them have room for, so that
/// nothing of it would be found there. It spares the memory to be read before it is written.
const PAST_CACHES: usize = 32 << 20;

/// A repeated pattern. The first argument is the destination.
#[derive(Clone, Copy, Debug)]
pub struct Fill {
    pattern: [u8; 16],
    length: u8,
}

impl Fill {
    /// A fill with a pattern of 1 to 16 bytes.
    #[must_use]
    pub fn new(pattern: &[u8]) -> Option<Self> {
        if pattern.is_empty() || pattern.len() > 16 {
            return None;
        }
        let mut bytes = [0; 16];
        bytes[..pattern.len()].copy_from_slice(pattern);
        Some(Self {
            pattern: bytes,
            length: pattern.len() as u8,
        })
    }

    /// The pattern.
    #[must_use]
    pub fn pattern(&self) -> &[u8] {
        &self.pattern[..usize::from(self.length)]
    }

    /// Fills memory that can be addressed.
    ///
    /// # Safety
    /// The destination is valid and nobody else touches it meanwhile.
    pub unsafe fn fill(&self, destination: RawArgument) {
        let pieces = self.pieces(destination);
        // SAFETY: as the caller promises.
        unsafe { self.fill_pieces(destination, 0..pieces) };
    }

    /// In how many pieces of neighbouring bytes several threads can carry the fill out: of as many groups
    /// [`Command::run_native`](crate::Command::run_native) is then to be called. One where it is short.
    #[must_use]
    pub fn pieces(&self, destination: RawArgument) -> u32 {
        pieces_of(destination.length as u64)
    }

    /// Fills some pieces.
    ///
    /// # Safety
    /// As [`Fill::fill`], of these pieces.
    pub(crate) unsafe fn fill_pieces(&self, destination: RawArgument, pieces: Range<u32>) {
        let range = bytes_of_pieces(pieces, destination.length);
        // SAFETY: the range lies within the destination; for the rest the caller vouches.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(destination.pointer.add(range.start), range.len())
        };
        let pattern = self.pattern();
        if destination.length >= PAST_CACHES && fill_past_caches(bytes, pattern) {
            return;
        }
        if pattern.iter().all(|byte| *byte == pattern[0]) {
            bytes.fill(pattern[0]);
            return;
        }
        fill_by_copies(bytes, pattern);
    }
}

fn fill_by_copies(bytes: &mut [u8], pattern: &[u8]) {
    // Some cache lines of patterns at a time: a copy of a few bytes costs as much as one of these.
    let mut many = [0; 512];
    let length = many.len() / pattern.len() * pattern.len();
    let many = &mut many[..length];
    for one in many.chunks_exact_mut(pattern.len()) {
        one.copy_from_slice(pattern);
    }
    for chunk in bytes.chunks_mut(length) {
        chunk.copy_from_slice(&many[..chunk.len()]);
    }
}

/// Fills around the caches, if the machine and the pattern allow it; else nothing is done.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn fill_past_caches(bytes: &mut [u8], pattern: &[u8]) -> bool {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    const LINE: usize = 64;
    if !LINE.is_multiple_of(pattern.len()) {
        return false;
    }
    let head = bytes.as_ptr().align_offset(LINE).min(bytes.len());
    let (head, rest) = bytes.split_at_mut(head);
    fill_by_copies(head, pattern);
    // What a line begins with: the pattern goes on from where the head has ended.
    let mut line = [0_u8; 16];
    for (at, byte) in line.iter_mut().enumerate() {
        *byte = pattern[(head.len() + at) % pattern.len()];
    }
    let (lines, tail) = rest.as_chunks_mut::<LINE>();
    // SAFETY: sixteen bytes are read, which `line` has. (SSE2 is part of every x86-64.)
    let value = unsafe { _mm_loadu_si128(line.as_ptr().cast()) };
    for line in lines {
        let to: *mut __m128i = line.as_mut_ptr().cast();
        for at in 0..LINE / 16 {
            // SAFETY: the place is one of the line's four, which begins at a multiple of 64.
            unsafe { _mm_stream_si128(to.add(at), value) };
        }
    }
    // Before anything that is stored from now on, such as that the command is over.
    // SAFETY: as above.
    unsafe { _mm_sfence() };
    let done = head.len() % pattern.len();
    for (at, byte) in tail.iter_mut().enumerate() {
        *byte = pattern[(done + at) % pattern.len()];
    }
    true
}

/// As for x86-64, where there are no such stores.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn fill_past_caches(_bytes: &mut [u8], _pattern: &[u8]) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::PIECE;

    /// What a pattern makes of so many bytes, one after the other.
    fn model(pattern: &[u8], length: usize) -> Vec<u8> {
        pattern.iter().copied().cycle().take(length).collect()
    }

    #[test]
    fn pieces_are_the_whole_in_any_order() {
        for pattern in [
            &[7][..],
            &[1, 2, 3],
            &[1, 2, 3, 4],
            &[9; 16],
            &[1, 2, 3, 4, 5, 6, 7],
        ] {
            let fill = Fill::new(pattern).expect("short enough");
            for length in [0, 1, PIECE, PIECE + 1, 3 * PIECE + 5] {
                let mut bytes = vec![0_u8; length + 1];
                let destination = RawArgument {
                    pointer: bytes.as_mut_ptr(),
                    length,
                };
                for piece in (0..fill.pieces(destination)).rev() {
                    // SAFETY: the vector has so many bytes, and is touched here alone.
                    unsafe { fill.fill_pieces(destination, piece..piece + 1) };
                }
                assert_eq!(bytes.pop(), Some(0), "what is behind stays as it was");
                assert!(bytes == model(pattern, length), "{pattern:?} in {length}");
            }
        }
    }

    #[test]
    fn going_around_the_caches_gives_the_same() {
        for pattern in [&[7][..], &[1, 2], &[1, 2, 3, 4], &[1, 2, 3, 4, 5, 6, 7, 8]] {
            for start in 0..20 {
                for length in [0, 3, 63, 64, 65, 127, 128, 500] {
                    let mut bytes = vec![0_u8; start + length + 1];
                    if fill_past_caches(&mut bytes[start..start + length], pattern) {
                        assert!(bytes[..start].iter().all(|byte| *byte == 0));
                        assert_eq!(bytes[start..start + length], model(pattern, length));
                        assert_eq!(bytes[start + length], 0);
                    }
                }
            }
        }
    }

    #[test]
    fn patterns_that_do_not_divide_a_line_are_left_to_copies() {
        assert!(!fill_past_caches(&mut [0; 256], &[1, 2, 3]));
    }
}
