//! The memory of one worker for the blocks it runs, one after the other.

use std::fmt;
use std::mem::MaybeUninit;

use super::RunOptions;
use crate::error::KernelError;
use crate::shared::SHARED_ALIGNMENT;

/// Two cache lines, as processors fetch them.
const LINE: usize = 128;

#[derive(Clone, Copy)]
#[repr(align(128))]
struct Line(#[expect(dead_code, reason = "room, reached by pointer")] [MaybeUninit<u8>; LINE]);

/// One worker's memory for a block: its shared memory, and its threads.
///
/// It grows to the largest block that its worker has run and is used again for each; a block
/// allocates nothing. Between blocks it holds nothing but uninitialised bytes, so whatever happened
/// to a block (an error, a panic), the next one finds it as new.
#[derive(Default)]
pub struct BlockScratch {
    lines: Vec<Line>,
    options: Option<RunOptions>,
}

impl BlockScratch {
    /// Without any memory, until a block needs some.
    pub const fn new() -> Self {
        Self {
            lines: Vec::new(),
            options: None,
        }
    }

    /// As [`new`](Self::new), for a worker that runs groups in such a way, whatever the environment
    /// says.
    pub const fn with_options(options: RunOptions) -> Self {
        Self {
            lines: Vec::new(),
            options: Some(options),
        }
    }

    /// The options of its worker.
    ///
    /// # Errors
    /// As [`RunOptions::from_environment`], if nothing else was said.
    #[inline]
    pub fn options(&self) -> Result<RunOptions, KernelError> {
        match self.options {
            Some(options) => Ok(options),
            None => RunOptions::from_environment(),
        }
    }

    /// The number of its bytes.
    pub fn capacity(&self) -> usize {
        self.lines.capacity() * LINE
    }

    /// So many bytes for the shared memory of a block, all zero.
    pub(super) fn zeroed(&mut self, bytes: usize) -> Result<*mut u8, KernelError> {
        let memory = self.reserve(bytes, SHARED_ALIGNMENT)?;
        // SAFETY: so many bytes were reserved.
        unsafe { memory.write_bytes(0, bytes) };
        Ok(memory)
    }

    /// At least so many bytes, aligned so; their old content is lost.
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
            // Drop first: the old bytes are not needed, and both need not be there at the same
            // time.
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
