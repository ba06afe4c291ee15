//! Fills: memory in which a pattern is repeated.

use crate::access::RawArgument;
use crate::operation::{Step, bytes_of_pieces, pieces_of};
use quipu_choice::{Choice, Share, Variant};
use std::ops::Range;

/// The number of bytes from which on a cache keeps nothing of a write: more than the largest caches
/// have room for.
pub(crate) const PAST_CACHES: usize = 32 << 20;

/// The choice whether fills of so many bytes go around the caches, where they can. The memory then
/// is not read before it is written, but fewer stores are under way at a time. The better variant
/// differs from machine to machine.
static AROUND_CACHES: Choice = Choice::new();

/// A repeated pattern. The first argument is the destination: all of it, or rows of it that are
/// apart.
#[derive(Clone, Debug)]
pub struct Fill {
    pattern: [u8; 16],
    length: u8,
    region: Option<Box<Region>>,
}

/// Rows of equally many bytes, in which the pattern begins anew.
#[derive(Clone, Debug)]
struct Region {
    row: u64,
    /// The steps from one row to the next, outermost first: as a transfer's to its destination.
    steps: Box<[Step]>,
}

impl Region {
    fn rows(&self) -> u64 {
        self.steps.iter().map(|step| step.count).product()
    }

    /// The bytes of a row.
    fn row(&self, mut number: u64) -> Range<u64> {
        let mut start = 0;
        for step in self.steps.iter().rev() {
            start += number % step.count * step.destination_stride;
            number /= step.count;
        }
        start..start + self.row
    }
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
            region: None,
        })
    }

    /// The same of rows of so many bytes alone, which do not overlap.
    pub(crate) fn of_rows(self, row: u64, steps: &[Step]) -> Self {
        let steps = steps.into();
        Self {
            region: Some(Box::new(Region { row, steps })),
            ..self
        }
    }

    /// The pattern.
    #[must_use]
    pub fn pattern(&self) -> &[u8] {
        &self.pattern[..usize::from(self.length)]
    }

    /// True if all of the destination is filled.
    #[must_use]
    pub fn is_dense(&self) -> bool {
        self.region.is_none()
    }

    /// If only a part of the destination is filled: the bytes of a row, and the steps from one to
    /// the next, outermost first. Of the steps only the strides of the destination count.
    #[must_use]
    pub fn region(&self) -> Option<(u64, &[Step])> {
        let region = self.region.as_ref()?;
        Some((region.row, &region.steps))
    }

    /// The bytes that are filled of a destination of this length, row by row.
    pub fn rows(&self, length: u64) -> impl Iterator<Item = Range<u64>> {
        let rows = self.region.as_ref().map_or(1, |region| region.rows());
        (0..rows).map(move |number| match &self.region {
            Some(region) => region.row(number),
            None => 0..length,
        })
    }

    /// The number of bytes that are filled of a destination of this length.
    #[must_use]
    pub fn bytes(&self, length: u64) -> u64 {
        let region = self.region.as_ref();
        region.map_or(length, |region| region.row.saturating_mul(region.rows()))
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

    /// The number of pieces of neighbouring bytes or rows in which several threads can carry the
    /// fill out. For as many groups
    /// [`Command::run_native`](crate::command::CommandView::run_native) is then to be called. One
    /// if it is short.
    #[must_use]
    pub fn pieces(&self, destination: RawArgument) -> u32 {
        let length = destination.length as u64;
        let pieces = pieces_of(self.bytes(length));
        match &self.region {
            Some(region) => u64::from(pieces).min(region.rows()) as u32,
            None => pieces,
        }
    }

    /// Fills some pieces.
    ///
    /// # Safety
    /// As [`Fill::fill`], of these pieces.
    pub(crate) unsafe fn fill_pieces(&self, destination: RawArgument, pieces: Range<u32>) {
        let all = self.pieces(destination);
        let Some(region) = &self.region else {
            let share = Share {
                groups: pieces.len(),
                of: all as usize,
            };
            let range = bytes_of_pieces(pieces, destination.length);
            let is_far = destination.length >= PAST_CACHES;
            // SAFETY: the range lies within the destination; for the rest the caller vouches.
            return unsafe { self.fill_range(destination, range, is_far.then_some(share)) };
        };
        let rows = region.rows();
        let first_of = |piece: u32| u128::from(rows) * u128::from(piece) / u128::from(all);
        for number in first_of(pieces.start) as u64..first_of(pieces.end) as u64 {
            let row = region.row(number);
            assert!(
                row.end <= destination.length as u64,
                "a fill's rows were checked against its destination at enqueue"
            );
            // SAFETY: as just checked; for the rest the caller vouches.
            unsafe { self.fill_range(destination, row.start as usize..row.end as usize, None) };
        }
    }

    /// Fills some neighbouring bytes: as a share of so many that caches have no room for them, if
    /// they are.
    ///
    /// # Safety
    /// They are within the destination, and nobody else touches them meanwhile.
    unsafe fn fill_range(&self, destination: RawArgument, range: Range<usize>, far: Option<Share>) {
        // SAFETY: as the caller promises.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(destination.pointer.add(range.start), range.len())
        };
        let pattern = self.pattern();
        if let Some(share) = far {
            let is_filled = AROUND_CACHES.run(share, |variant| match variant {
                Variant::First => fill_lines(bytes, pattern, fill_past_caches),
                Variant::Second => fill_lines(bytes, pattern, fill_through_caches),
            });
            if is_filled {
                return;
            }
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

/// Bytes of a cache's line.
const LINE: usize = 64;

/// Fills whole lines by `fill`, if lines have whole patterns; else nothing is done.
fn fill_lines(bytes: &mut [u8], pattern: &[u8], fill: fn(&mut [[u8; LINE]], &[u8; LINE])) -> bool {
    if !LINE.is_multiple_of(pattern.len()) {
        return false;
    }
    let head = bytes.as_ptr().align_offset(LINE).min(bytes.len());
    let (head, rest) = bytes.split_at_mut(head);
    fill_by_copies(head, pattern);
    // The pattern goes on from the end of the head.
    let mut line = [0_u8; LINE];
    for (at, byte) in line.iter_mut().enumerate() {
        *byte = pattern[(head.len() + at) % pattern.len()];
    }
    let (lines, tail) = rest.as_chunks_mut();
    fill(lines, &line);
    tail.copy_from_slice(&line[..tail.len()]);
    true
}

/// Fills lines through the caches.
fn fill_through_caches(lines: &mut [[u8; LINE]], value: &[u8; LINE]) {
    for line in lines {
        *line = *value;
    }
}

/// Fills lines, which begin at multiples of 64, around the caches.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn fill_past_caches(lines: &mut [[u8; LINE]], value: &[u8; LINE]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    let from: *const __m128i = value.as_ptr().cast();
    // SAFETY: a line has four times sixteen bytes. (SSE2 is part of every x86-64.)
    let values = unsafe { [0, 1, 2, 3].map(|at| _mm_loadu_si128(from.add(at))) };
    for line in lines {
        assert!(line.as_ptr().addr().is_multiple_of(16));
        let to: *mut __m128i = line.as_mut_ptr().cast();
        for (at, value) in values.into_iter().enumerate() {
            // SAFETY: the place is one of the line's four. Each begins at a multiple of 16, as just
            // checked.
            unsafe { _mm_stream_si128(to.add(at), value) };
        }
    }
    // Before anything that is stored from now on, such as that the command is over.
    // SAFETY: as above.
    unsafe { _mm_sfence() };
}

/// As for x86-64, where there are no such stores.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn fill_past_caches(lines: &mut [[u8; LINE]], value: &[u8; LINE]) {
    fill_through_caches(lines, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::PIECE;

    /// A pattern, repeated to so many bytes.
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
    fn rows_are_filled_in_any_order_and_gaps_stay() {
        let step = |count, destination_stride| Step {
            count,
            source_stride: 0,
            destination_stride,
        };
        let shapes: [(usize, &[Step]); 4] = [
            (6, &[step(5, 10)]),
            (12, &[step(3, 100), step(2, 40)]),
            (4, &[step(1, 0), step(7, 4)]),
            (PIECE + 4, &[step(5, PIECE as u64 + 10)]),
        ];
        for (row, steps) in shapes {
            for pattern in [&[7][..], &[1, 2]] {
                let fill = Fill::new(pattern).expect("short enough");
                let fill = fill.of_rows(row as u64, steps);
                let span = steps.iter().fold(row, |span, step| {
                    span + ((step.count - 1) * step.destination_stride) as usize
                });
                let mut bytes = vec![0xEE_u8; span + 3];
                let destination = RawArgument {
                    pointer: bytes.as_mut_ptr(),
                    length: span,
                };
                let mut expected = bytes.clone();
                let mut filled = 0;
                for range in fill.rows(span as u64) {
                    expected[range.start as usize..range.end as usize]
                        .copy_from_slice(&model(pattern, row));
                    filled += range.end - range.start;
                }
                assert_eq!(filled, fill.bytes(span as u64));
                for piece in (0..fill.pieces(destination)).rev() {
                    // SAFETY: the vector has so many bytes, and is touched here alone.
                    unsafe { fill.fill_pieces(destination, piece..piece + 1) };
                }
                assert!(bytes == expected, "{pattern:?} in {row} and {steps:?}");
            }
        }
    }

    #[test]
    fn lines_are_filled_the_same_either_way() {
        for pattern in [&[7][..], &[1, 2], &[1, 2, 3, 4], &[1, 2, 3, 4, 5, 6, 7, 8]] {
            for fill in [fill_past_caches, fill_through_caches] {
                for start in 0..20 {
                    for length in [0, 3, 63, 64, 65, 127, 128, 500] {
                        let mut bytes = vec![0_u8; start + length + 1];
                        assert!(fill_lines(&mut bytes[start..start + length], pattern, fill));
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
        let mut bytes = [0; 256];
        assert!(!fill_lines(&mut bytes, &[1, 2, 3], fill_past_caches));
        assert_eq!(bytes, [0; 256]);
    }
}
