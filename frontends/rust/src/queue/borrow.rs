//! Transfers of memory that is borrowed: in calls that wait, and in scopes that
//! do at their end.
//!
//! Borrowed memory has to be given back, whatever happens: a future may be leaked, and a wait may
//! find that it could never end. So a command does not hold borrowed memory; it holds a [`Lease`]
//! on it. The scope takes all leases back before it returns: a command that comes too late finds
//! nothing, and fails; one that is just copying is waited for. That holds for a command that the
//! scope never heard of, too, as a blocking queue has those that it cannot wait for: a lease ends
//! with its [`Lessor`]. Devices with memory of their own copy to and from memory that their
//! commands own instead, and the scope copies between that and the borrowed memory.

use super::Queue;
use super::content::{Content, HostTransfer};
use super::transfer::{check_length, invalid_value, part_of, zeroed};
use crate::buffer::Buffer;
use crate::element::{Element, first_invalid};
use crate::layout::{Layout, Rows, View};
use quipu_scheduler::process::is_forked;
use quipu_scheduler::sync::lock;
use quipu_scheduler::{AccessMode, Error, Event, Result, SpaceId};
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Borrowed memory that can be taken back.
pub(super) struct Lease(Mutex<Option<Pointer>>);

struct Pointer(*mut u8);

// SAFETY: used under the lease's lock only, while the memory that it points to is borrowed by the
// maker of the lease.
unsafe impl Send for Pointer {}

impl Lease {
    /// Uses the memory, if it was not taken back.
    pub(super) fn with(&self, use_it: impl FnOnce(*mut u8)) -> Result<()> {
        match &*lock(&self.0) {
            Some(pointer) => {
                use_it(pointer.0);
                Ok(())
            }
            None => Err(Error::cancelled("a transfer of memory that was taken back")),
        }
    }
}

/// The scope's side of a lease. Dropping it takes the memory back.
struct Lessor(Arc<Lease>);

impl Lessor {
    fn of(pointer: *mut u8) -> Self {
        Self(Arc::new(Lease(Mutex::new(Some(Pointer(pointer))))))
    }

    /// The command's side.
    fn lease(&self) -> Arc<Lease> {
        self.0.clone()
    }
}

impl Drop for Lessor {
    fn drop(&mut self) {
        // No command runs in a child of `fork`, and a thread that is not there may have the lock.
        if is_forked() {
            return;
        }
        *lock(&self.0.0) = None;
    }
}

/// A slice that is borrowed mutably until its scope ends, out of the compiler's
/// sight, because a command may write it meanwhile.
struct Destination<T>(*mut T, usize);

// SAFETY: it stands for a `&mut [T]`.
unsafe impl<T: Send> Send for Destination<T> {}

impl<T> Destination<T> {
    fn new(slice: &mut [T]) -> Self {
        Self(slice.as_mut_ptr(), slice.len())
    }

    /// # Safety
    /// The scope has not ended, and no command uses the slice any more.
    unsafe fn as_mut<'s>(&self) -> &'s mut [T] {
        // SAFETY: as the caller promises.
        unsafe { std::slice::from_raw_parts_mut(self.0, self.1) }
    }

    /// Checks the elements that were read: bits that are no value of the type become zero, and are
    /// an error.
    ///
    /// # Safety
    /// As [`Destination::as_mut`].
    unsafe fn check(&self) -> Result<()>
    where
        T: Element,
    {
        // SAFETY: as the caller promises; the elements are initialised.
        let Some(index) = (unsafe { first_invalid(self.0, self.1) }) else {
            return Ok(());
        };
        // SAFETY: the elements are this destination's alone (`Destination::as_mut`); zeros are a
        // value of an element type.
        unsafe { self.0.write_bytes(0, self.1) };
        Err(invalid_value::<T>(index))
    }
}

type Settle = Box<dyn FnOnce(bool) -> Result<()> + Send>;

/// A command of a scope.
struct Borrowed {
    event: Event,
    lessor: Option<Lessor>,
    /// The work that is left when the memory is the scope's again. Its argument says whether the
    /// command has succeeded.
    settle: Option<Settle>,
}

impl Borrowed {
    fn end(mut self) -> Result<()> {
        let result = self.event.wait();
        drop(self.lessor.take());
        let settled = self.settle.take().map(|settle| settle(result.is_ok()));
        result.and(settled.unwrap_or(Ok(())))
    }
}

impl Drop for Borrowed {
    /// Ends it without waiting, as the end of another one panicked.
    fn drop(&mut self) {
        drop(self.lessor.take());
        if let Some(settle) = self.settle.take() {
            let _ = settle(false);
        }
    }
}

/// A scope in which commands may use borrowed memory; see [`Queue::scope`].
pub struct Scope<'scope, 'env: 'scope> {
    queue: &'env Queue,
    borrowed: Mutex<Vec<Borrowed>>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Writes a slice to a buffer of the same length. The slice is borrowed until
    /// the scope ends; the event may be waited for before.
    ///
    /// # Errors
    /// As [`Queue::write`].
    pub fn write<T: Element>(
        &'scope self,
        buffer: &Buffer<T>,
        source: &'scope [T],
    ) -> Result<Event> {
        check_length("write", source.len(), buffer.len())?;
        let all = Layout::from(buffer.len());
        self.write_layout(buffer, &all, source, &all)
    }

    /// Writes the elements of a slice that are at `layout` to `view`. The slice
    /// is borrowed until the scope ends; the event may be waited for before.
    ///
    /// # Errors
    /// As [`Queue::write_nd`].
    pub fn write_nd<T: Element, const D: usize>(
        &'scope self,
        view: &View<T, D>,
        source: &'scope [T],
        layout: &Layout<D>,
    ) -> Result<Event> {
        self.write_layout(view.buffer(), view.layout(), source, layout)
    }

    fn write_layout<T: Element, const D: usize>(
        &self,
        buffer: &Buffer<T>,
        to: &Layout<D>,
        source: &'scope [T],
        from: &Layout<D>,
    ) -> Result<Event> {
        let source = &source[part_of("write", source.len(), from)?];
        let from = from.at_zero();
        let rows = Rows::between::<T, D>(&from, to)?;
        if !self.is_on_host() {
            let pending = self
                .queue
                .write_layout(buffer, to, source.to_vec(), &from)?;
            return Ok(self.keep(pending.event().clone(), None, None));
        }
        let lessor = Lessor::of(source.as_ptr().cast_mut().cast());
        let transfer = HostTransfer::leased(lessor.lease(), rows, true);
        let event = self.enqueue(transfer, buffer, to.is_dense())?;
        Ok(self.keep(event, Some(lessor), None))
    }

    /// Reads a buffer to a slice of the same length. The slice is borrowed until
    /// the scope ends, and only then to be looked at.
    ///
    /// # Errors
    /// As [`Queue::read`].
    pub fn read<T: Element>(
        &'scope self,
        buffer: &Buffer<T>,
        destination: &'scope mut [T],
    ) -> Result<Event> {
        check_length("read", destination.len(), buffer.len())?;
        let all = Layout::from(buffer.len());
        self.read_layout(buffer, &all, destination, &all)
    }

    /// Reads a view to the elements of a slice that are at `layout`; the others
    /// stay as they are. The slice is borrowed until the scope ends, and only
    /// then to be looked at.
    ///
    /// # Errors
    /// As [`Queue::read_nd_to`].
    pub fn read_nd<T: Element, const D: usize>(
        &'scope self,
        view: &View<T, D>,
        destination: &'scope mut [T],
        layout: &Layout<D>,
    ) -> Result<Event> {
        self.read_layout(view.buffer(), view.layout(), destination, layout)
    }

    fn read_layout<T: Element, const D: usize>(
        &self,
        buffer: &Buffer<T>,
        from: &Layout<D>,
        destination: &'scope mut [T],
        to: &Layout<D>,
    ) -> Result<Event> {
        let part = part_of("read", destination.len(), to)?;
        let destination = Destination::new(&mut destination[part]);
        let to = to.at_zero();
        let rows = Rows::between::<T, D>(from, &to)?;
        if !self.is_on_host() {
            // Without the gaps: they are the slice's, and stay as they are.
            let dense = Layout::dense(to.extent())?;
            let host = zeroed(dense.span())?;
            let mut pending = self.queue.read_layout(buffer, from, host, &dense)?;
            let event = pending.event().clone();
            let settle = move |succeeded: bool| {
                if succeeded {
                    let read = pending.wait_timeout(Duration::ZERO)?;
                    // SAFETY: called as the scope ends; no command has the slice.
                    let destination = unsafe { destination.as_mut() };
                    scatter(&read, destination, &to);
                }
                Ok(())
            };
            return Ok(self.keep(event, None, Some(Box::new(settle))));
        }
        let lessor = Lessor::of(destination.0.cast());
        let transfer = HostTransfer::leased(lessor.lease(), rows, false);
        let event = match self.enqueue(transfer, buffer, true) {
            Ok(event) => event,
            Err(error) => {
                // It may have been run all the same: a blocking queue cannot wait for it.
                drop(lessor);
                // SAFETY: the lease has ended.
                let _ = unsafe { destination.check() };
                return Err(error);
            }
        };
        // SAFETY: called as the scope ends, when the lease has.
        let settle = move |_| unsafe { destination.check() };
        Ok(self.keep(event, Some(lessor), Some(Box::new(settle))))
    }

    fn is_on_host(&self) -> bool {
        self.queue.device().core().space() == SpaceId::HOST
    }

    fn enqueue<T: Element>(
        &self,
        transfer: HostTransfer,
        buffer: &Buffer<T>,
        dense: bool,
    ) -> Result<Event> {
        let content = Content::of(&[buffer.memory()]);
        let access = buffer.access(AccessMode::Read);
        transfer.enqueue(self.queue, &content, access, dense)
    }

    fn keep(&self, event: Event, lessor: Option<Lessor>, settle: Option<Settle>) -> Event {
        lock(&self.borrowed).push(Borrowed {
            event: event.clone(),
            lessor,
            settle,
        });
        event
    }

    /// Waits for every command and takes back their borrowed memory.
    fn end(&self) -> Result<()> {
        let mut result = Ok(());
        let borrowed = std::mem::take(&mut *lock(&self.borrowed));
        for one in borrowed {
            result = result.and(one.end());
        }
        result
    }
}

/// Puts elements without gaps where a layout says.
fn scatter<T: Copy, const D: usize>(elements: &[T], destination: &mut [T], layout: &Layout<D>) {
    if elements.is_empty() {
        return;
    }
    let row = layout.extent()[D - 1];
    for (elements, start) in elements.chunks(row).zip(layout.row_starts()) {
        destination[start..start + row].copy_from_slice(elements);
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scope of {:?}", self.queue)
    }
}

impl Queue {
    /// Calls `body` with a scope in which commands may borrow memory, and waits
    /// for these commands.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # fn main() -> quipu::Result<()> {
    /// # let context = Platform::new()?.context()?;
    /// # let queue = context.queue(&context.fastest())?;
    /// let (numbers, mut doubled) = ([1, 2, 3], [0; 3]);
    /// let buffer = context.allocate(3)?;
    /// queue.scope(|scope| {
    ///     scope.write(&buffer, &numbers)?;
    ///     queue.for_each(&mut buffer.clone(), (), |_, number, ()| *number *= 2)?;
    ///     scope.read(&buffer, &mut doubled)
    /// })??;
    /// assert_eq!(doubled, [2, 4, 6]);
    /// # Ok(()) }
    /// ```
    ///
    /// Borrowed memory cannot be looked at before the scope has ended, nor may it be gone before:
    ///
    /// ```compile_fail,E0502
    /// # use quipu::prelude::*;
    /// # fn test(queue: &Queue, buffer: &Buffer<u32>) -> quipu::Result<()> {
    /// let mut numbers = [0; 3];
    /// queue.scope(|scope| {
    ///     let read = scope.read(buffer, &mut numbers)?;
    ///     println!("{numbers:?}");
    ///     Ok::<_, quipu::Error>(read)
    /// })??;
    /// # Ok(()) }
    /// ```
    ///
    /// ```compile_fail,E0597
    /// # use quipu::prelude::*;
    /// # fn test(queue: &Queue, buffer: &Buffer<u32>) -> quipu::Result<()> {
    /// queue.scope(|scope| {
    ///     let mut numbers = [0; 3];
    ///     scope.read(buffer, &mut numbers).map(drop)
    /// })??;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The first error of a command of the scope, or that waiting here could never end. In the
    /// latter case the commands that could not be waited for will not be done.
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
    ) -> Result<R> {
        let scope = Scope {
            queue: self,
            borrowed: Mutex::new(Vec::new()),
            scope: PhantomData,
            env: PhantomData,
        };
        let value = catch_unwind(AssertUnwindSafe(|| body(&scope)));
        let result = scope.end();
        match value {
            Ok(value) => result.map(|()| value),
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Writes a slice to a buffer of the same length, and waits for it.
    ///
    /// # Errors
    /// As [`Queue::write`], or the command's error, or that waiting here could
    /// never end.
    pub fn write_slice<T: Element>(&self, buffer: &Buffer<T>, source: &[T]) -> Result<()> {
        self.scope(|scope| scope.write(buffer, source).map(drop))?
    }

    /// Reads a buffer to a slice of the same length, and waits for it.
    ///
    /// # Errors
    /// As [`Queue::read`], or the command's error, or that waiting here could
    /// never end.
    pub fn read_slice<T: Element>(&self, buffer: &Buffer<T>, destination: &mut [T]) -> Result<()> {
        self.scope(|scope| scope.read(buffer, destination).map(drop))?
    }

    /// Writes the elements of a slice that are at `layout` to `view`, and waits
    /// for it.
    ///
    /// # Errors
    /// As [`Queue::write_nd`], or the command's error, or that waiting here could
    /// never end.
    pub fn write_slice_nd<T: Element, const D: usize>(
        &self,
        view: &View<T, D>,
        source: &[T],
        layout: &Layout<D>,
    ) -> Result<()> {
        self.scope(|scope| scope.write_nd(view, source, layout).map(drop))?
    }

    /// Reads a view to the elements of a slice that are at `layout`, and waits
    /// for it. The others stay as they are.
    ///
    /// # Errors
    /// As [`Queue::read_nd_to`], or the command's error, or that waiting here
    /// could never end.
    pub fn read_slice_nd<T: Element, const D: usize>(
        &self,
        view: &View<T, D>,
        destination: &mut [T],
        layout: &Layout<D>,
    ) -> Result<()> {
        self.scope(|scope| scope.read_nd(view, destination, layout).map(drop))?
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::sync::Barrier;

    /// A worker that copies has the lease locked, and is not there in a child.
    #[test]
    fn a_child_of_fork_does_not_wait_for_its_parents_copies() {
        quipu_scheduler::process::enter().unwrap();
        let mut byte = 0;
        let lessor = Lessor::of(&raw mut byte);
        let lease = lessor.lease();
        let (is_locked, is_forked) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let copy = |_| {
                    is_locked.wait();
                    is_forked.wait();
                };
                lease.with(copy).unwrap();
            });
            is_locked.wait();
            // SAFETY: the child drops the lessor and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: the call takes a number.
                unsafe { libc::alarm(300) };
                drop(lessor);
                // SAFETY: as above.
                unsafe { libc::_exit(0) };
            }
            is_forked.wait();
            let mut status = -1;
            // SAFETY: the status is there until the call returns.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0, "the child has hung");
        });
    }
}
