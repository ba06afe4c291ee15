//! Scratch buffers: memory that an algorithm needs from one of its commands to the next. The queue
//! keeps it for the next algorithm that needs as much.

use super::{Queue, QueueInner};
use crate::buffer::Buffer;
use crate::element::{Element, takes_any_bits};
use quipu_scheduler::{MemoryRef, Result};
use std::any::TypeId;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// The most buffers that a queue keeps, and the most bytes that they have together: above either,
/// the one that was kept first goes.
const MOST_BUFFERS: usize = 16;
const MOST_BYTES: u64 = 16 << 20;

/// Memory that a queue keeps for scratch buffers.
#[derive(Default)]
pub(super) struct Kept(Mutex<VecDeque<(Bits, MemoryRef)>>);

/// The types for which the bits in kept memory are values: one type, or all types that take any
/// bits. Memory is only given to elements of which its bits are values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bits {
    Any,
    Of(TypeId),
}

impl Bits {
    fn of<T: Element>() -> Self {
        match takes_any_bits::<T>() {
            true => Self::Any,
            false => Self::Of(TypeId::of::<T>()),
        }
    }
}

impl Kept {
    fn take(&self, bits: Bits, bytes: u64) -> Option<MemoryRef> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |(of, memory): &(Bits, MemoryRef)| *of == bits && memory.size() == bytes;
        let at = kept.iter().rposition(fits)?;
        let (_, memory) = kept.remove(at)?;
        Some(memory)
    }

    fn keep(&self, bits: Bits, memory: MemoryRef) {
        let mut gone = Vec::new();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back((bits, memory));
        let mut bytes: u64 = kept.iter().map(|(_, memory)| memory.size()).sum();
        while kept.len() > MOST_BUFFERS || bytes > MOST_BYTES {
            let Some(first) = kept.pop_front() else { break };
            bytes -= first.1.size();
            gone.push(first);
        }
        drop(kept);
        // Nothing is locked as memory is given back.
        drop(gone);
    }
}

/// A buffer for values that commands hand to later commands of the same algorithm:
/// [`Queue::scratch`]. When it is dropped, its memory stays with the queue for the next scratch
/// buffer of the same size, unless something else still holds it: a clone or a slice of the buffer,
/// a mapping, or a recorded graph.
#[must_use]
pub struct Scratch<T: Element> {
    buffer: Buffer<T>,
    /// Its memory, whatever the user has since put in the buffer's place.
    memory: MemoryRef,
    queue: Arc<QueueInner>,
}

impl<T: Element> Deref for Scratch<T> {
    type Target = Buffer<T>;

    fn deref(&self) -> &Buffer<T> {
        &self.buffer
    }
}

impl<T: Element> DerefMut for Scratch<T> {
    fn deref_mut(&mut self) -> &mut Buffer<T> {
        &mut self.buffer
    }
}

impl<T: Element> Drop for Scratch<T> {
    fn drop(&mut self) {
        // In a child of `fork`, other threads may have had the locks.
        if !self.queue.reuses_scratch() || quipu_scheduler::process::is_forked() {
            return;
        }
        // The buffer's handle is one, unless the user has put another in its place.
        let is_in_buffer = std::ptr::eq(&raw const **self.buffer.memory(), &raw const *self.memory);
        if self.memory.is_unshared(1 + u64::from(is_in_buffer)) {
            let bits = Bits::of::<T>();
            self.queue.scratch.keep(bits, self.memory.clone());
        }
    }
}

impl Queue {
    /// A buffer of so many elements for values that an algorithm's commands hand to its later ones.
    /// Its content is not defined: a command has to write an element before another reads it.
    ///
    /// It costs less than [`allocate`](Self::allocate), as an in-order queue keeps the memory of
    /// scratch buffers that were dropped (16 of them and 16 MiB at most). Commands that still use
    /// it go first, as with any buffer. A queue whose commands may overtake each other allocates
    /// new memory, so that its algorithms do not wait for each other. Memory is not kept if a
    /// clone, a slice, a mapping or a [recorded graph](crate::Recording) has it as the scratch
    /// buffer is dropped, or if it has a label or a content size. Elements of which some bits are
    /// no value, as `bool`, get memory of the same element type alone.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # fn main() -> quipu::Result<()> {
    /// # let context = Platform::new()?.context()?;
    /// # let queue = context.queue(&context.fastest())?;
    /// let mut halves = queue.scratch::<f32>(2)?;
    /// queue.write(&mut halves, vec![1.0, 2.0])?;
    /// assert_eq!(queue.read(&halves)?.wait()?, [1.0, 2.0]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    pub fn scratch<T: Element>(&self, length: usize) -> Result<Scratch<T>> {
        // In a child of `fork`, another thread may have had the lock.
        quipu_scheduler::process::check()?;
        let bytes = crate::buffer::bytes_of::<T>("allocate a scratch buffer", length)?;
        // A buffer without elements has memory for one.
        let bytes = bytes.max(size_of::<T>() as u64);
        let kept = match self.shared.reuses_scratch() {
            true => self.shared.scratch.take(Bits::of::<T>(), bytes),
            false => None,
        };
        let buffer = match kept {
            Some(memory) => {
                memory.set_element_size(size_of::<T>() as u64);
                Buffer::whole(memory, length)
            }
            None => self.allocate(length)?,
        };
        Ok(Scratch {
            memory: buffer.memory().clone(),
            buffer,
            queue: self.shared.clone(),
        })
    }
}

impl QueueInner {
    fn reuses_scratch(&self) -> bool {
        self.core.shared().options().in_order
    }
}
