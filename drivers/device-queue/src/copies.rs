//! Copies of a command's bytes on the host.

use quipu_scheduler::RawArgument;
use quipu_scheduler::access::Argument;
use quipu_scheduler::memory::Memory;
use std::ops::Range;
use std::ptr::NonNull;

/// Bytes as aligned as a buffer's on the host.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

const LINE: usize = 64;

/// A copy of a range of a memory object, as aligned as the range is in the object.
pub(crate) struct Copied {
    lines: Vec<Line>,
    range: Range<u64>,
}

impl Copied {
    pub(crate) fn new(range: Range<u64>) -> Self {
        let length = (range.end - range.start) as usize + Self::skipped(&range);
        Self {
            lines: vec![Line([0; LINE]); length.div_ceil(LINE)],
            range,
        }
    }

    fn skipped(range: &Range<u64>) -> usize {
        (range.start % LINE as u64) as usize
    }

    /// A pointer to a part of the range, which `of` lies within. It stays valid beside pointers to
    /// other parts, also where these overlap.
    fn pointer(&mut self, of: &Range<u64>) -> *mut u8 {
        assert!(self.range.start <= of.start && of.end <= self.range.end);
        let start = (of.start - self.range.start) as usize + Self::skipped(&self.range);
        let lines = self.lines.as_mut_ptr().cast::<u8>();
        // SAFETY: the lines have the bytes of the whole range.
        unsafe { lines.add(start) }
    }

    /// A part of the range; `of` lies within it.
    pub(crate) fn bytes(&mut self, of: &Range<u64>) -> &mut [u8] {
        let length = (of.end - of.start) as usize;
        // SAFETY: the lines have so many bytes from there on, all of them initialised, and are
        // borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(of), length) }
    }
}

/// Copies of a command's arguments: one copy for those that overlap.
pub(crate) struct Copies(Vec<(NonNull<Memory>, Copied)>);

impl Copies {
    pub(crate) fn of(arguments: &[Argument<'_>]) -> Self {
        let mut ranges: Vec<(NonNull<Memory>, Range<u64>)> = arguments
            .iter()
            .map(|argument| (NonNull::from(argument.memory()), argument.range()))
            .collect();
        ranges.sort_unstable_by_key(|(memory, range)| (memory.addr(), range.start));
        let mut joined: Vec<(NonNull<Memory>, Range<u64>)> = Vec::new();
        for (memory, range) in ranges {
            match joined.last_mut() {
                Some((last, before)) if *last == memory && range.start < before.end => {
                    before.end = before.end.max(range.end);
                }
                _ => joined.push((memory, range)),
            }
        }
        let copies = joined.into_iter();
        Self(
            copies
                .map(|(memory, range)| (memory, Copied::new(range)))
                .collect(),
        )
    }

    /// An argument's bytes.
    pub(crate) fn bytes(&mut self, argument: &Argument<'_>) -> &mut [u8] {
        let copy = self.copy_of(argument);
        copy.map_or(&mut [], |copy| copy.bytes(&argument.range()))
    }

    /// An argument's bytes, for a command that may have several arguments with the same.
    pub(crate) fn raw(&mut self, argument: &Argument<'_>) -> RawArgument {
        let range = argument.range();
        let copy = self.copy_of(argument);
        RawArgument {
            pointer: copy.map_or(std::ptr::null_mut(), |copy| copy.pointer(&range)),
            length: (range.end - range.start) as usize,
        }
    }

    fn copy_of(&mut self, argument: &Argument<'_>) -> Option<&mut Copied> {
        let memory = NonNull::from(argument.memory());
        let range = argument.range();
        let has = |(of, copy): &&mut (NonNull<Memory>, Copied)| {
            *of == memory && copy.range.start <= range.start && range.end <= copy.range.end
        };
        self.0.iter_mut().find(has).map(|(_, copy)| copy)
    }
}
