//! The memory of one worker for the blocks it runs, one after the other.

use std::fmt;
use std::mem::MaybeUninit;

use crate::error::KernelError;

/// Two cache lines, as processors fetch them.
const LINE: usize = 128;

#[derive(Clone, Copy)]
#[repr(align(128))]
struct Line(#[expect(dead_code, reason = "room, reached by pointer")] [MaybeUninit<u8>; LINE]);

/// One worker's memory for a block: what its threads share, and the threads themselves.
///
/// It grows to the largest block that its worker has run and is used again for each; a block allocates
/// nothing. Between blocks it holds nothing but uninitialised bytes, so whatever happened to a block
/// (an error, a panic), the next one finds it as new.
#[derive(Default)]
pub struct BlockScratch {
    lines: Vec<Line>,
}

impl BlockScratch {
    /// Without any memory, until a block needs some.
    pub const fn new() -> Self {
        Self { lines: Vec::new() }
    }

    /// How many bytes it has.
    pub fn capacity(&self) -> usize {
        self.lines.capacity() * LINE
    }

    /// At least so many bytes, aligned so; what they held before is lost.
    pub(super) fn reserve(
        &mut self,
        bytes: usize,
        alignment: usize,
    ) -> Result<*mut u8, KernelError> {
        let out_of_memory = || KernelError::OutOfMemory { bytes };
        // Room to move the start up to an alignment that is stricter than a line's.
        let slack = if alignment <= LINE { 0 } else { alignment };
        let needed = bytes.checked_add(slack).ok_or_else(out_of_memory)?;
        if needed > self.capacity() {
            // Drop first: the old bytes are not needed, and both need not be there at the same time.
            self.lines = Vec::new();
            self.lines
                .try_reserve_exact(needed.div_ceil(LINE))
                .map_err(|_| out_of_memory())?;
        }
        let start: *mut u8 = self.lines.as_mut_ptr().cast();
        // Without slack the start is aligned already, allocated or dangling.
        Ok(if slack == 0 {
            start
        } else {
            start.wrapping_add(start.align_offset(alignment))
        })
    }
}

impl fmt::Debug for BlockScratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockScratch({} bytes)", self.capacity())
    }
}
