//! Buffers: elements that the devices of a context share.

use crate::layout::{Layout, View};
use quipu_kernel::Extent;
use quipu_scheduler::access::MAX_MEMORY_BYTES;
use quipu_scheduler::error::{BufferName, Foreign, Unit};
use quipu_scheduler::{Access, AccessMode, ErrorKind, MemoryRef, Result};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, Range, RangeBounds};

/// Elements in the memory of a context. A handle: clones and
/// [slices](Buffer::slice) are the same memory, which is freed when the last of
/// them is gone and every command that uses it is over.
///
/// Commands are ordered by the bytes that they touch, not by the handles in use. A command that
/// reads what an earlier one writes waits for it, on whichever queue either is.
pub struct Buffer<T> {
    memory: MemoryRef,
    offset: u64,
    length: usize,
    elements: PhantomData<T>,
}

/// The largest alignment of elements: every copy of a buffer begins at a multiple of it.
const MOST_ALIGNED: usize = 64;

/// The bytes of so many elements.
pub(crate) fn bytes_of<T>(what: &'static str, length: usize) -> Result<u64> {
    let size = size_of::<T>() as u64;
    let problem = match (length as u64).checked_mul(size) {
        Some(_) if size == 0 => format!(
            "elements of type {} have no size",
            std::any::type_name::<T>()
        ),
        Some(_) if align_of::<T>() > MOST_ALIGNED => format!(
            "elements of type {} are aligned to {} bytes; buffers are aligned to {MOST_ALIGNED}, so use a type that asks for no more",
            std::any::type_name::<T>(),
            align_of::<T>()
        ),
        Some(bytes) if bytes <= MAX_MEMORY_BYTES => return Ok(bytes),
        _ => format!(
            "{length} elements of {} bytes exceed the largest buffer, {MAX_MEMORY_BYTES} bytes; split it",
            size_of::<T>()
        ),
    };
    Err(ErrorKind::InvalidSize { what, problem }.into())
}

impl<T> Buffer<T> {
    pub(crate) fn whole(memory: MemoryRef, length: usize) -> Self {
        Self {
            memory,
            offset: 0,
            length,
            elements: PhantomData,
        }
    }

    /// The number of its elements. A buffer may have none: commands on it do nothing.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// True if it has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// A part of it, as a buffer: commands on parts that do not overlap do not
    /// wait for each other.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # fn main() -> quipu::Result<()> {
    /// # let context = Platform::new()?.context()?;
    /// # let queue = context.queue(&context.fastest())?;
    /// let buffer = context.buffer(&[1, 2, 3, 4, 5])?;
    /// assert_eq!(queue.read(&buffer.slice(1..3)?)?.wait()?, [2, 3]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the range ends before it starts, or goes beyond the buffer.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Self> {
        let what = "slice a buffer";
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(end) => end.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => self.length,
        };
        if start > end {
            return Err(ErrorKind::InvalidSize {
                what,
                problem: format!("the range {start}..{end} ends before it starts"),
            }
            .into());
        }
        let size = size_of::<T>() as u64;
        if end > self.length {
            return Err(ErrorKind::OutOfBounds {
                what,
                buffer: self.name(),
                unit: Unit::Elements,
                start: start as u64,
                end: end as u64,
                size: self.length as u64,
            }
            .into());
        }
        Ok(Self {
            memory: self.memory.clone(),
            offset: self.offset + start as u64 * size,
            length: end - start,
            elements: PhantomData,
        })
    }

    /// The parts before and from `middle` on.
    ///
    /// # Errors
    /// If `middle` is beyond the buffer.
    pub fn split_at(&self, middle: usize) -> Result<(Self, Self)> {
        Ok((self.slice(..middle)?, self.slice(middle..)?))
    }

    /// The buffer as an array laid out so.
    ///
    /// # Errors
    /// If the layout goes beyond the buffer.
    pub fn view<const D: usize>(&self, layout: Layout<D>) -> Result<View<T, D>> {
        let start = layout.offset();
        let part = self.slice(start..start.saturating_add(layout.span()))?;
        Ok(View::new(part, layout.at_zero()))
    }

    /// The buffer's first elements as an array without gaps.
    ///
    /// # Errors
    /// If the extent overflows, or holds more than the buffer.
    pub fn shaped<const D: usize>(&self, extent: impl Into<Extent<D>>) -> Result<View<T, D>> {
        self.view(Layout::dense(extent)?)
    }

    /// For the arguments of a launch: the kernel writes every element without reading any. Its
    /// present elements need not be brought to the device, and an earlier failure to write it is
    /// over.
    #[must_use]
    pub fn overwrite(&mut self) -> Overwrite<'_, T> {
        Overwrite { buffer: self }
    }

    /// Says that only the first bytes of the buffer are in use: as many as the first element of
    /// `size` says when a transfer runs. Reads, writes and copies move that many and no more, and
    /// so do migrations between memory spaces. Bytes past them read as zero then. A number larger
    /// than the buffer counts as its size. `None` takes that back.
    ///
    /// Fills and kernels mind no content size. A kernel sees all bytes of the buffer; those past
    /// the content hold the last values written there in the same memory space, and zero if the
    /// last write was in another.
    ///
    /// Counted from the buffer's first byte, in bytes, also when this is a slice
    /// of it.
    ///
    /// # Errors
    /// If both are the same memory, or of different contexts, or the content size
    /// of `size` is itself in this buffer, directly or through others.
    pub fn set_content_size(&self, size: Option<&Buffer<u64>>) -> Result<()> {
        if let Some(size) = size {
            let what = "set a content size";
            if size.offset != 0 {
                return Err(ErrorKind::InvalidArgument {
                    what,
                    problem: "the size is the first element of a whole buffer; do not pass a slice"
                        .to_owned(),
                }
                .into());
            }
            if !size.memory.same_context(&self.memory) {
                return Err(ErrorKind::WrongContext {
                    what,
                    object: Foreign::Buffer(size.name()),
                }
                .into());
            }
        }
        self.memory
            .set_content_size(size.map(|size| size.memory.clone()))
    }

    /// Names the memory in errors, logs and traces.
    pub fn set_label(&self, label: &str) {
        self.memory.set_label(label);
    }

    /// The name of the memory.
    #[must_use]
    pub fn label(&self) -> String {
        self.memory.label()
    }

    pub(crate) fn memory(&self) -> &MemoryRef {
        &self.memory
    }

    /// True if it is all of the memory's elements.
    pub(crate) fn is_whole(&self) -> bool {
        // No elements have the memory for one.
        let bytes = self.length.max(1) as u64 * size_of::<T>() as u64;
        self.offset == 0 && bytes == self.memory.size()
    }

    /// Its bytes in the memory.
    pub(crate) fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.length as u64 * size_of::<T>() as u64
    }

    /// Its name in errors.
    fn name(&self) -> BufferName {
        BufferName {
            label: self.label(),
            argument: None,
        }
    }

    /// An access to all of it.
    #[inline]
    pub(crate) fn access(&self, mode: AccessMode) -> Access<'_> {
        Access {
            memory: &self.memory,
            offset: self.offset,
            length: self.length as u64 * size_of::<T>() as u64,
            mode,
        }
    }
}

impl<T> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        Self {
            memory: self.memory.clone(),
            offset: self.offset,
            length: self.length,
            elements: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}[{:?}] of {} {}",
            self.label(),
            self.range(),
            self.length,
            std::any::type_name::<T>()
        )
    }
}

/// A buffer that a launch overwrites: see [`Buffer::overwrite`].
#[derive(Debug)]
pub struct Overwrite<'b, T> {
    pub(crate) buffer: &'b mut Buffer<T>,
}
