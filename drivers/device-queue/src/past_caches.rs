//! Copies on the host into pinned memory that a device is about to read.
//!
//! Bytes that a core has just written are in its cache, and a device that reads them there reads
//! slowly. Stores that go past the caches leave the bytes in the memory, and need not fetch first
//! the bytes that they overwrite. Copies whose bottleneck is the memory itself, because they are
//! much larger than the caches, are faster through them.

/// Copies bytes, past the caches where the processor can.
///
/// # Safety
/// So many bytes are there to be read and to be written, apart from each other, and nobody else
/// writes them or reads those that are written.
pub unsafe fn copy_past_caches(from: *const u8, to: *mut u8, length: usize) {
    /// Bytes of a cache's line.
    const LINE: usize = 64;
    let head = to.align_offset(LINE).min(length);
    let lines = (length - head) / LINE;
    let tail = head + lines * LINE;
    // SAFETY: three parts of the bytes that the caller vouches for; the second begins at a line,
    // and consists of whole ones.
    unsafe {
        to.copy_from_nonoverlapping(from, head);
        copy_lines(from.add(head), to.add(head), lines);
        to.add(tail)
            .copy_from_nonoverlapping(from.add(tail), length - tail);
    }
}

/// # Safety
/// As of [`copy_past_caches`], for so many lines of 64 bytes; the first is written to a multiple
/// of 64.
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn copy_lines(from: *const u8, to: *mut u8, lines: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    let (from, to) = (from.cast::<__m128i>(), to.cast::<__m128i>());
    for line in 0..lines {
        // SAFETY: a line has four times sixteen bytes, which the caller vouches for. (SSE2 is part
        // of every x86-64.)
        unsafe {
            let (from, to) = (from.add(4 * line), to.add(4 * line));
            let values = [0, 1, 2, 3].map(|at| _mm_loadu_si128(from.add(at)));
            for (at, value) in values.into_iter().enumerate() {
                _mm_stream_si128(to.add(at), value);
            }
        }
    }
    // Before anything that is stored from now on, such as that the device may read.
    // SAFETY: as above.
    unsafe { _mm_sfence() };
}

/// # Safety
/// As for x86-64, where there are no such stores.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn copy_lines(from: *const u8, to: *mut u8, lines: usize) {
    // SAFETY: the caller's bytes.
    unsafe { to.copy_from_nonoverlapping(from, lines * 64) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_copied_and_nothing_beside_it_wherever_it_begins_and_ends() {
        let from: Vec<u8> = (0..1000_u32).map(|at| at as u8 | 1).collect();
        for start in 0..70 {
            for length in (0..200).chain([800]) {
                for skipped in [0, 1, 13] {
                    let mut to = vec![0_u8; 1000];
                    // SAFETY: within both vectors.
                    unsafe {
                        copy_past_caches(
                            from.as_ptr().add(skipped),
                            to.as_mut_ptr().add(start),
                            length,
                        );
                    }
                    let (before, rest) = to.split_at(start);
                    let (copied, behind) = rest.split_at(length);
                    assert!(copied == &from[skipped..skipped + length]);
                    assert!(before.iter().chain(behind).all(|byte| *byte == 0));
                }
            }
        }
    }
}
