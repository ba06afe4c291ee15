//! Transfers of memory that commands own while they run.
//!
//! A container that is written from, or read to, is handed over and comes back through the future.
//! A device may use it after the future is gone, so borrowed memory will not do.
//!
//! Everything is a region of some number of dimensions; a whole buffer is one
//! of one dimension.

use super::Queue;
use super::content::{Content, HostTransfer};
use super::launch::fill_rows_task;
use crate::buffer::{Buffer, bytes_of};
use crate::element::{Element, first_invalid};
use crate::future::Pending;
use crate::host::{HostView, Source};
use crate::layout::{Layout, Rows, View};
use crate::parcel::Parcel;
use crate::pinned::{Keeper, Pinned, Returned};
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{AccessMode, Error, ErrorKind, Event, Result};
use std::marker::PhantomPinned;
use std::mem::MaybeUninit;
use std::sync::{Arc, PoisonError};

/// The words of errors for [`Queue::take`].
const TAKE: &str = "take the memory of a buffer back";

/// How often a thread looks for memory whose last handle may be another thread's.
const ROUNDS: usize = 1000;

impl Queue {
    /// Takes the memory of a [mapped](crate::Context::mapped_from) buffer back, with the elements
    /// that the commands on it leave there. Nothing is copied, unless a device had a copy.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # fn main() -> quipu::Result<()> {
    /// # let context = Platform::new()?.context()?;
    /// # let queue = context.queue(&context.fastest())?;
    /// let buffer = context.mapped_from(Pinned::<u32>::new(1000)?)?;
    /// queue.fill(&buffer, 7)?;
    /// let elements: Pinned<u32> = queue.take(buffer)?.wait()?;
    /// assert_eq!(elements[999], 7);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the buffer is a part of another, or its memory is not pinned memory that was mapped; if
    /// it is mapped to the host, or the device is lost. The buffer is dropped then.
    ///
    /// The future gives the error of a command that failed to write the elements. It also gives an
    /// error if the buffer has other handles by then: clones, slices, views, or graphs that use it.
    /// They keep the memory.
    pub fn take<T: Element>(&self, mut buffer: Buffer<T>) -> Result<Pending<Pinned<T>>> {
        let wrong = |problem: &str| -> Error {
            ErrorKind::InvalidArgument {
                what: TAKE,
                problem: problem.to_owned(),
            }
            .into()
        };
        if !buffer.is_whole() {
            return Err(wrong("it is a part of a buffer; pass the whole buffer"));
        }
        let returned = buffer.memory().with_keeper(Keeper::returned);
        let returned: Returned<T> = returned.ok_or_else(|| {
            wrong("its memory is not the program's; `mapped_from` makes a buffer of such memory")
        })?;
        // It waits for all commands on the buffer, and the bytes come to the host for it.
        let last = self.host_task_with((&mut buffer,), |_| ())?;
        let event = last.event().clone();
        Ok(Pending::new(event, move || {
            // No command uses the memory any more, so it goes with its last handle.
            drop(buffer);
            // A thread that makes room on a device has a handle for a moment.
            for _ in 0..ROUNDS {
                if let Some(pinned) = returned
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take()
                {
                    return Ok(pinned);
                }
                std::thread::yield_now();
            }
            Err(wrong(
                "there are other handles to it; drop its clones, slices, views, and graphs of it",
            ))
        }))
    }

    /// Writes all of `source` to all of `buffer`, without waiting, and gives
    /// `source` back.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # fn main() -> quipu::Result<()> {
    /// # let context = Platform::new()?.context()?;
    /// # let queue = context.queue(&context.fastest())?;
    /// let buffer = context.allocate(4)?;
    /// let numbers = queue.write(&buffer, vec![1.0, 2.0, 3.0, 4.0])?.wait()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If their lengths differ, the buffer is mapped or of another context, or
    /// the device is lost. `source` is dropped then.
    pub fn write<T: Element, S: Source<Element = T>>(
        &self,
        buffer: &Buffer<T>,
        source: S,
    ) -> Result<Pending<S>> {
        let all = Layout::from(buffer.len());
        check_length("write", source.source().len(), buffer.len())?;
        self.write_layout(buffer, &all, source, &all)
    }

    /// Writes the elements of `source` that are at `layout` to `view`, and gives
    /// `source` back.
    ///
    /// # Errors
    /// If their extents differ or the layout goes beyond `source`; else as
    /// [`Queue::write`].
    pub fn write_nd<T: Element, S: Source<Element = T>, const D: usize>(
        &self,
        view: &View<T, D>,
        source: S,
        layout: &Layout<D>,
    ) -> Result<Pending<S>> {
        self.write_layout(view.buffer(), view.layout(), source, layout)
    }

    pub(super) fn write_layout<T: Element, S: Source<Element = T>, const D: usize>(
        &self,
        buffer: &Buffer<T>,
        to: &Layout<D>,
        source: S,
        from: &Layout<D>,
    ) -> Result<Pending<S>> {
        let mut parcel = Parcel::new(source);
        let host = Parcel::prepare(&mut parcel, |source| {
            let elements = source.source();
            let part = part_of("write", elements.len(), from)?;
            Ok(elements[part].as_ptr())
        })?;
        let rows = Rows::between::<T, D>(from, to)?;
        let length = from.span() * size_of::<T>();
        let access = buffer.access(AccessMode::Overwrite);
        // SAFETY: the source does not move nor change in its parcel, which the
        // transfer keeps, and is only read.
        let memory =
            unsafe { HostMemory::new(host.cast_mut().cast(), length, Some(parcel.clone())) };
        let content = Content::of(&[buffer.memory()]);
        let event = if content.is_none() {
            self.core()
                .write(memory, access, rows.row, &rows.steps, &self.waits)?
        } else {
            let transfer = HostTransfer::write(host.cast(), rows, parcel.clone());
            transfer.enqueue(self, &content, access, to.is_dense())?
        };
        Ok(Pending::new(event, move || take(&parcel)))
    }

    /// Reads all of a buffer, without waiting.
    ///
    /// # Errors
    /// If there is no host memory for it, the buffer is mapped or of another
    /// context, or the device is lost.
    pub fn read<T: Element>(&self, buffer: &Buffer<T>) -> Result<Pending<Vec<T>>> {
        self.read_to(buffer, zeroed(buffer.len())?)
    }

    /// Reads all of a buffer to all of a container, without waiting, and gives
    /// that back.
    ///
    /// # Errors
    /// If their lengths differ; else as [`Queue::read`]. The container is
    /// dropped then.
    pub fn read_to<T: Element, V: HostView<Element = T> + Send + 'static>(
        &self,
        buffer: &Buffer<T>,
        container: V,
    ) -> Result<Pending<V>> {
        let all = Layout::from(buffer.len());
        check_length("read", container.elements().len(), buffer.len())?;
        self.read_layout(buffer, &all, container, &all)
    }

    /// Reads a view to a vector without gaps.
    ///
    /// # Errors
    /// As [`Queue::read`].
    pub fn read_nd<T: Element, const D: usize>(
        &self,
        view: &View<T, D>,
    ) -> Result<Pending<Vec<T>>> {
        let dense = Layout::dense(view.extent())?;
        self.read_layout(view.buffer(), view.layout(), zeroed(view.len())?, &dense)
    }

    /// Reads a view to the elements of a container that are at `layout`, and
    /// gives the container back.
    ///
    /// # Errors
    /// If their extents differ or the layout goes beyond the container; else as
    /// [`Queue::read`].
    pub fn read_nd_to<T, V, const D: usize>(
        &self,
        view: &View<T, D>,
        container: V,
        layout: &Layout<D>,
    ) -> Result<Pending<V>>
    where
        T: Element,
        V: HostView<Element = T> + Send + 'static,
    {
        self.read_layout(view.buffer(), view.layout(), container, layout)
    }

    pub(super) fn read_layout<T, V, const D: usize>(
        &self,
        buffer: &Buffer<T>,
        from: &Layout<D>,
        container: V,
        to: &Layout<D>,
    ) -> Result<Pending<V>>
    where
        T: Element,
        V: HostView<Element = T> + Send + 'static,
    {
        let mut parcel = Parcel::new(Received::into(container));
        let host = Parcel::prepare(&mut parcel, |received| received.part(to))?;
        let rows = Rows::between::<T, D>(from, to)?;
        let span = to.span();
        let access = buffer.access(AccessMode::Read);
        // SAFETY: the container does not move in its parcel, which the transfer
        // keeps, and nobody else uses it until the transfer is over.
        let memory =
            unsafe { HostMemory::new(host.0.cast(), span * size_of::<T>(), Some(parcel.clone())) };
        let content = Content::of(&[buffer.memory()]);
        let event = if content.is_none() {
            self.core()
                .read(access, memory, rows.row, &rows.steps, &self.waits)?
        } else {
            let transfer = HostTransfer::read(host.0.cast(), rows, parcel.clone());
            transfer.enqueue(self, &content, access, false)?
        };
        Ok(Pending::new(event, move || {
            // SAFETY: called once, by a future whose command is over.
            unsafe { parcel.look(Received::check) }.unwrap_or(Ok(()))?;
            take(&parcel).map(Received::into_inner)
        }))
    }

    /// Copies all of one buffer to all of another, or to another part of the
    /// same.
    ///
    /// # Errors
    /// If their lengths differ, they overlap, are mapped or of another context,
    /// or the device is lost.
    pub fn copy<T: Element>(&self, source: &Buffer<T>, destination: &Buffer<T>) -> Result<Event> {
        check_length("copy", source.len(), destination.len())?;
        let all = Layout::from(source.len());
        self.copy_layout(source, &all, destination, &all)
    }

    /// Copies one view to another, which may be of the same buffer: an image's left
    /// half to its right half.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # fn main() -> quipu::Result<()> {
    /// # let context = Platform::new()?.context()?;
    /// # let queue = context.queue(&context.fastest())?;
    /// let image = context.buffer(&[1, 2, 0, 0, 3, 4, 0, 0])?.shaped([2, 4])?;
    /// queue.copy_nd(&image.region([0..2, 0..2])?, &image.region([0..2, 2..4])?)?;
    /// assert_eq!(queue.read_nd(&image)?.wait()?, [1, 2, 1, 2, 3, 4, 3, 4]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If their extents differ, or both are of one buffer and share elements, or one
    /// begins before the other ends and their rows are not equally far apart; else as
    /// [`Queue::copy`].
    pub fn copy_nd<T: Element, const D: usize>(
        &self,
        source: &View<T, D>,
        destination: &View<T, D>,
    ) -> Result<Event> {
        self.copy_layout(
            source.buffer(),
            source.layout(),
            destination.buffer(),
            destination.layout(),
        )
    }

    fn copy_layout<T: Element, const D: usize>(
        &self,
        source: &Buffer<T>,
        from: &Layout<D>,
        destination: &Buffer<T>,
        to: &Layout<D>,
    ) -> Result<Event> {
        let rows = Rows::between::<T, D>(from, to)?;
        let source_access = source.access(AccessMode::Read);
        let access = destination.access(AccessMode::Overwrite);
        let content = Content::of(&[source.memory(), destination.memory()]);
        if content.is_none() {
            return self
                .core()
                .copy(source_access, access, rows.row, &rows.steps, &self.waits);
        }
        content.enqueue_copy(self, source_access, access, rows, to.is_dense())
    }

    /// Fills a buffer with a value.
    ///
    /// # Errors
    /// If the buffer is mapped or of another context, or the device is lost.
    pub fn fill<T: Element>(&self, buffer: &Buffer<T>, value: T) -> Result<Event> {
        let pattern = bytemuck::bytes_of(&value);
        if pattern.len() > 16 {
            // Longer than a device's engine can repeat.
            return self.launch_fill(buffer, value);
        }
        self.core()
            .fill(buffer.access(AccessMode::Overwrite), pattern, &self.waits)
    }

    /// Fills a view with a value. The gaps between rows stay as they are.
    ///
    /// # Errors
    /// As [`Queue::fill`].
    pub fn fill_nd<T: Element, const D: usize>(
        &self,
        view: &View<T, D>,
        value: T,
    ) -> Result<Event> {
        let layout = view.layout();
        if layout.is_dense() {
            return self.fill(view.buffer(), value);
        }
        let pattern = bytemuck::bytes_of(&value);
        if pattern.len() > 16 {
            // Longer than a device's engine can repeat.
            let accesses = [view.buffer().access(AccessMode::ReadWrite)];
            let request = self.request(&accesses);
            return self
                .core()
                .host_task(fill_rows_task(*layout, value), &request);
        }
        let rows = Rows::between::<T, D>(layout, layout)?;
        let access = view.buffer().access(AccessMode::Overwrite);
        self.core()
            .fill_rows(access, pattern, rows.row, &rows.steps, &self.waits)
    }
}

/// A pointer to elements of a container in a parcel.
#[derive(Clone, Copy)]
struct HostPointer<T>(*mut T);

// SAFETY: used by one thread at a time, as the parcel is.
unsafe impl<T: Send> Send for HostPointer<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for HostPointer<T> {}

/// A container whose elements a read writes. Nobody sees the container before its elements are
/// checked, the container's own destructor included: a read that failed, or whose future was
/// dropped, may have left bits that are no values.
struct Received<T: Element, V> {
    /// The elements that are read, once they are known.
    elements: Option<(HostPointer<T>, usize)>,
    /// As it may have its elements in itself, its bits say nothing before these are checked.
    container: MaybeUninit<V>,
    /// False when the container was given back.
    is_there: bool,
    /// `elements` may point into `container`, so references to this are not exclusive.
    _pinned: PhantomPinned,
}

impl<T: Element, V: HostView<Element = T>> Received<T, V> {
    fn into(container: V) -> Self {
        Self {
            elements: None,
            container: MaybeUninit::new(container),
            is_there: true,
            _pinned: PhantomPinned,
        }
    }

    /// A pointer to the elements at a layout, which are those that are read. The container does not
    /// move from now on.
    fn part<const D: usize>(&mut self, layout: &Layout<D>) -> Result<HostPointer<T>> {
        // SAFETY: nothing was read yet, so the container is as it was given.
        let elements = unsafe { self.container.assume_init_mut() }.elements_mut();
        let part = part_of("read", elements.len(), layout)?;
        let part = &mut elements[part];
        let pointer = HostPointer(part.as_mut_ptr());
        self.elements = Some((pointer, part.len()));
        Ok(pointer)
    }

    /// The container, which was checked where it was. The pointer to its elements ends.
    fn into_inner(mut self) -> V {
        self.is_there = false;
        // SAFETY: given back once. Its elements were checked, so they are values.
        unsafe { self.container.assume_init_read() }
    }
}

impl<T: Element, V> Received<T, V> {
    /// Checks the elements that were read: bits that are no value of the type become zero, and are
    /// an error.
    fn check(&mut self) -> Result<()> {
        let Some((HostPointer(first), count)) = self.elements else {
            return Ok(());
        };
        // SAFETY: the container has not moved since it gave the pointer, and its elements were
        // initialised before the read. The caller has the container alone, so the transfer is over
        // (`Parcel`).
        let Some(index) = (unsafe { first_invalid(first, count) }) else {
            return Ok(());
        };
        // SAFETY: the elements are the container's, which nobody else uses. Zeros are a value of an
        // element type.
        unsafe { first.write_bytes(0, count) };
        Err(invalid_value::<T>(index))
    }
}

impl<T: Element, V> Drop for Received<T, V> {
    fn drop(&mut self) {
        if self.is_there {
            // An error is of a read that failed already, or that nobody waits for.
            let _ = self.check();
            // SAFETY: it is there, dropped once, and its elements are values.
            unsafe { self.container.assume_init_drop() };
        }
    }
}

pub(super) fn invalid_value<T>(index: usize) -> quipu_scheduler::Error {
    ErrorKind::InvalidArgument {
        what: "read a buffer",
        problem: format!(
            "the bits of element {index} are no value of {}; the kernel that wrote them is wrong",
            std::any::type_name::<T>()
        ),
    }
    .into()
}

fn take<C>(parcel: &Arc<Parcel<C>>) -> Result<C> {
    // SAFETY: called once, by a future whose command is over.
    let content = unsafe { parcel.take() };
    content.ok_or_else(|| Error::cancelled("a transfer"))
}

/// A vector of zeros, or an error where `vec!` would abort.
pub(super) fn zeroed<T: Element>(length: usize) -> Result<Vec<T>> {
    let bytes = bytes_of::<T>("read a buffer", length)?;
    bytemuck::allocation::try_zeroed_vec(length).map_err(|()| {
        ErrorKind::OutOfMemory {
            device: "the host".to_owned(),
            asked: bytes,
            free: 0,
            capacity: 0,
        }
        .into()
    })
}

pub(crate) fn check_length(what: &'static str, host: usize, buffer: usize) -> Result<()> {
    if host == buffer {
        return Ok(());
    }
    Err(ErrorKind::InvalidSize {
        what,
        problem: format!(
            "{host} elements on the one side, {buffer} on the other; pass parts of the same length"
        ),
    }
    .into())
}

/// The elements that a layout reaches, checked.
pub(crate) fn part_of<const D: usize>(
    what: &'static str,
    length: usize,
    layout: &Layout<D>,
) -> Result<std::ops::Range<usize>> {
    let (start, span) = (layout.offset(), layout.span());
    match start.checked_add(span) {
        Some(end) if end <= length => Ok(start..end),
        _ => Err(ErrorKind::InvalidSize {
            what,
            problem: format!(
                "the layout reaches {span} elements from element {start} on, of a container of {length}"
            ),
        }
        .into()),
    }
}
