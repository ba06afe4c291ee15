//! Mappings: the host's turn at a buffer.
//!
//! A mapping is a future of a guard. From the call on until the guard (or the
//! future) is dropped, commands that touch the range are refused with an error
//! that names the mapping: to wait for it could be to wait for oneself.

use super::Queue;
use super::transfer::invalid_value;
use crate::buffer::Buffer;
use crate::element::{Element, first_invalid};
use crate::future::Waitable;
use crate::layout::{Layout, View};
use quipu_scheduler::memory::mapping::{Hold, Reservation};
use quipu_scheduler::{AccessMode, ErrorKind, Event, Result};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Index, IndexMut};
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

impl Queue {
    /// Maps a buffer for reading on the host, after everything that writes it
    /// and was enqueued before. On devices whose memory is the host's, nothing is
    /// copied.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # fn main() -> quipu::Result<()> {
    /// # let context = Platform::new()?.context()?;
    /// # let queue = context.queue(&context.fastest())?;
    /// let buffer = context.buffer(&[1, 2, 3])?;
    /// let numbers = queue.map(&buffer)?.wait()?;
    /// assert_eq!(numbers.iter().sum::<i32>(), 6);
    /// assert!(queue.fill(&buffer, 0).is_err()); // mapped
    /// drop(numbers);
    /// queue.fill(&buffer, 0)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the buffer is mapped or of another context, or the device is lost.
    #[track_caller]
    pub fn map<T: Element>(&self, buffer: &Buffer<T>) -> Result<Mapping<MapRead<T>>> {
        self.reserve(buffer, AccessMode::Read, ())
    }

    /// Maps a buffer for reading and writing on the host, after everything that
    /// touches it and was enqueued before.
    ///
    /// # Errors
    /// As [`Queue::map`].
    #[track_caller]
    pub fn map_mut<T: Element>(&self, buffer: &Buffer<T>) -> Result<Mapping<MapWrite<T>>> {
        self.reserve(buffer, AccessMode::ReadWrite, ())
    }

    /// As [`Queue::map`], of a view: its elements are found by their positions, or row by row. The
    /// elements between its rows are mapped with it.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # fn main() -> quipu::Result<()> {
    /// # let context = Platform::new()?.context()?;
    /// # let queue = context.queue(&context.fastest())?;
    /// let image = context.allocate_padded::<u8, 2>([3, 5])?;
    /// queue.fill_nd(&image.region([1..2, 0..5])?, 9)?;
    /// let pixels = queue.map_nd(&image)?.wait()?;
    /// assert_eq!((pixels[[0, 4]], pixels[[1, 4]]), (0, 9));
    /// let rows: Vec<&[u8]> = pixels.rows().collect();
    /// assert_eq!(rows, [[0; 5], [9; 5], [0; 5]]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Queue::map`].
    #[track_caller]
    pub fn map_nd<T: Element, const D: usize>(
        &self,
        view: &View<T, D>,
    ) -> Result<Mapping<MapReadNd<T, D>>> {
        self.reserve(view.buffer(), AccessMode::Read, *view.layout())
    }

    /// As [`Queue::map_mut`], of a view: see [`Queue::map_nd`].
    ///
    /// # Errors
    /// As [`Queue::map`].
    #[track_caller]
    pub fn map_nd_mut<T: Element, const D: usize>(
        &self,
        view: &View<T, D>,
    ) -> Result<Mapping<MapWriteNd<T, D>>> {
        self.reserve(view.buffer(), AccessMode::ReadWrite, *view.layout())
    }

    #[track_caller]
    fn reserve<T: Element, G: Guard>(
        &self,
        buffer: &Buffer<T>,
        mode: AccessMode,
        shape: G::Shape,
    ) -> Result<Mapping<G>> {
        let label = format!("the mapping made at {}", Location::caller());
        let host = self.context().host();
        let (memory, range) = (buffer.memory(), buffer.range());
        let reservation = host.reserve(self.core(), memory, range, mode, &self.waits, &label)?;
        Ok(Mapping {
            reservation: Some(reservation),
            over: None,
            shape: Some(shape),
        })
    }
}

/// The future of a mapping. Dropping it gives the mapping up.
#[must_use = "dropping it gives the mapping up"]
pub struct Mapping<G: Guard> {
    reservation: Option<Reservation>,
    /// The event, once the reservation was taken.
    over: Option<Event>,
    /// The shape that the guard needs, until it is made.
    shape: Option<G::Shape>,
}

/// A guard of a mapping: [`MapRead`] or [`MapWrite`], [`MapReadNd`] or [`MapWriteNd`].
pub trait Guard: sealed::Guard {}

impl<T: Element> Guard for MapRead<T> {}
impl<T: Element> Guard for MapWrite<T> {}
impl<T: Element, const D: usize> Guard for MapReadNd<T, D> {}
impl<T: Element, const D: usize> Guard for MapWriteNd<T, D> {}

mod sealed {
    use quipu_scheduler::Result;
    use quipu_scheduler::memory::mapping::Hold;

    pub trait Guard: Sized {
        /// The facts that it needs besides the place of its bytes.
        type Shape: Send + Sync + Unpin + 'static;

        fn new(hold: Hold, shape: Self::Shape) -> Result<Self>;
    }
}

impl<G: Guard> Mapping<G> {
    fn take(&mut self) -> Result<G> {
        match (self.reservation.take(), self.shape.take()) {
            (Some(reservation), Some(shape)) => {
                self.over = Some(reservation.granted().clone());
                sealed::Guard::new(reservation.take()?, shape)
            }
            _ => Err(ErrorKind::InvalidArgument {
                what: "take a mapping",
                problem: "it was taken before; a future gives its value once".to_owned(),
            }
            .into()),
        }
    }

    /// True if the mapping is there, or will never be.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        Waitable::event(self).is_complete()
    }

    /// Waits for the mapping.
    ///
    /// # Errors
    /// If the command that should have written the buffer failed, there is no memory, or waiting
    /// here could never end.
    pub fn wait(mut self) -> Result<G> {
        Waitable::event(&self).wait_over()?;
        self.take()
    }

    /// As [`Mapping::wait`], for so long at most. After a timeout the future is
    /// as it was.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] if it is not there by then; else as
    /// [`Mapping::wait`].
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<G> {
        Waitable::event(self).wait_timeout(timeout)?;
        self.take()
    }

    /// Calls `callback` with the guard when the mapping is there, or will never
    /// be, or now if that is so; on whichever thread brings it about, with no lock
    /// held.
    pub fn on_complete(mut self, callback: impl FnOnce(Result<G>) + Send + 'static)
    where
        G: 'static,
    {
        let event = Waitable::event(&self).clone();
        event.on_complete(move |_| callback(self.take()));
    }

    /// Asks that the mapping not be made, as [`Event::cancel`]: if its turn has
    /// not come, it fails when that would have, and holds nothing.
    pub fn cancel(&self) {
        if let Some(reservation) = &self.reservation {
            reservation.cancel();
        }
    }
}

impl<G: Guard> Waitable for Mapping<G> {
    type Value = G;

    fn cancel(&self) {
        Mapping::cancel(self);
    }

    fn event(&self) -> &Event {
        match (&self.reservation, &self.over) {
            (Some(reservation), _) => reservation.granted(),
            (None, Some(over)) => over,
            (None, None) => unreachable!("a mapping has its reservation or its event"),
        }
    }

    fn forget_waker(&mut self) {
        self.event_mut().forget_waker();
    }
}

impl<G: Guard> Mapping<G> {
    fn event_mut(&mut self) -> &mut Event {
        match (&mut self.reservation, &mut self.over) {
            (Some(reservation), _) => reservation.granted_mut(),
            (None, Some(over)) => over,
            (None, None) => unreachable!("a mapping has its reservation or its event"),
        }
    }
}

impl<G: Guard> Future for Mapping<G> {
    type Output = Result<G>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<G>> {
        let this = self.get_mut();
        Pin::new(this.event_mut())
            .poll(context)
            .map(|_| this.take())
    }
}

impl<G: Guard> fmt::Debug for Mapping<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mapping({:?})", self.reservation)
    }
}

/// A buffer mapped for reading: a slice. The mapping ends when it is dropped.
pub struct MapRead<T: Element>(Hold, PhantomData<T>);

/// A buffer mapped for reading and writing: a slice. The mapping ends when it is
/// dropped.
pub struct MapWrite<T: Element>(Hold, PhantomData<T>);

/// The elements of a hold, checked.
fn checked<T: Element>(hold: Hold) -> Result<Hold> {
    let bytes = hold.bytes();
    let pointer = bytes.pointer.cast::<T>();
    if !pointer.is_aligned() {
        return Err(ErrorKind::InvalidArgument {
            what: "map a buffer",
            problem: format!(
                "its memory is not aligned for {}",
                std::any::type_name::<T>()
            ),
        }
        .into());
    }
    // SAFETY: the bytes are the host's while the hold lives, initialised, and
    // those of a buffer of `T`.
    match unsafe { first_invalid(pointer, bytes.length / size_of::<T>()) } {
        None => Ok(hold),
        Some(index) => Err(invalid_value::<T>(index)),
    }
}

macro_rules! guards {
    ($($guard:ident),*) => {$(
        impl<T: Element> sealed::Guard for $guard<T> {
            type Shape = ();

            fn new(hold: Hold, (): ()) -> Result<Self> {
                Ok(Self(checked::<T>(hold)?, PhantomData))
            }
        }

        impl<T: Element> Deref for $guard<T> {
            type Target = [T];

            fn deref(&self) -> &[T] {
                let bytes = self.0.bytes();
                // SAFETY: nobody else writes the bytes while the hold lives;
                // they were checked to be aligned values of `T`.
                unsafe {
                    std::slice::from_raw_parts(bytes.pointer.cast(), bytes.length / size_of::<T>())
                }
            }
        }

        impl<T: Element + fmt::Debug> fmt::Debug for $guard<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.deref().fmt(f)
            }
        }
    )*};
}

guards!(MapRead, MapWrite);

impl<T: Element> DerefMut for MapWrite<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let bytes = self.0.bytes();
        // SAFETY: nobody else touches the bytes while the hold lives; else as in
        // `deref`.
        unsafe {
            std::slice::from_raw_parts_mut(bytes.pointer.cast(), bytes.length / size_of::<T>())
        }
    }
}

/// A view mapped for reading. The mapping ends when it is dropped.
pub struct MapReadNd<T: Element, const D: usize> {
    elements: MapRead<T>,
    layout: Layout<D>,
}

/// A view mapped for reading and writing. The mapping ends when it is dropped.
pub struct MapWriteNd<T: Element, const D: usize> {
    elements: MapWrite<T>,
    layout: Layout<D>,
}

macro_rules! guards_nd {
    ($($guard:ident of $of:ident),*) => {$(
        impl<T: Element, const D: usize> sealed::Guard for $guard<T, D> {
            type Shape = Layout<D>;

            fn new(hold: Hold, layout: Layout<D>) -> Result<Self> {
                let elements = <$of<T> as sealed::Guard>::new(hold, ())?;
                Ok(Self { elements, layout })
            }
        }

        impl<T: Element, const D: usize> $guard<T, D> {
            /// Elements along each dimension.
            #[must_use]
            pub fn extent(&self) -> [usize; D] {
                self.layout.extent()
            }

            /// The positions of its elements in [`elements`](Self::elements).
            #[must_use]
            pub fn layout(&self) -> &Layout<D> {
                &self.layout
            }

            /// The distance of neighbours along each dimension, in bytes.
            #[must_use]
            pub fn pitch(&self) -> [usize; D] {
                self.layout.pitch::<T>()
            }

            /// All mapped elements, with those between the rows.
            #[must_use]
            pub fn elements(&self) -> &[T] {
                &self.elements
            }

            /// Its rows, in order: elements that are neighbours along the last
            /// dimension.
            pub fn rows(&self) -> impl Iterator<Item = &[T]> {
                let row = self.layout.extent()[D - 1];
                let starts = self.layout.row_starts();
                starts.map(move |start| &self.elements[start..start + row])
            }

            /// The element at a position, if there is one.
            #[must_use]
            pub fn get(&self, position: [usize; D]) -> Option<&T> {
                self.elements.get(self.layout.place(position)?)
            }
        }

        impl<T: Element, const D: usize> Index<[usize; D]> for $guard<T, D> {
            type Output = T;

            fn index(&self, position: [usize; D]) -> &T {
                match self.get(position) {
                    Some(element) => element,
                    None => outside(position, self.layout.extent()),
                }
            }
        }

        impl<T: Element, const D: usize> fmt::Debug for $guard<T, D> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "mapping of {:?} elements", self.layout.extent())
            }
        }
    )*};
}

guards_nd!(MapReadNd of MapRead, MapWriteNd of MapWrite);

impl<T: Element, const D: usize> MapWriteNd<T, D> {
    /// As [`elements`](Self::elements), to be written.
    pub fn elements_mut(&mut self) -> &mut [T] {
        &mut self.elements
    }

    /// As [`rows`](Self::rows), to be written.
    pub fn rows_mut(&mut self) -> impl Iterator<Item = &mut [T]> {
        let row = self.layout.extent()[D - 1];
        let (mut rest, mut passed) = (&mut self.elements[..], 0);
        // They come in order and do not overlap.
        self.layout.row_starts().map(move |start| {
            let from = std::mem::take(&mut rest);
            let (mine, after) = from[start - passed..].split_at_mut(row);
            rest = after;
            passed = start + row;
            mine
        })
    }

    /// As [`get`](Self::get), to be written.
    pub fn get_mut(&mut self, position: [usize; D]) -> Option<&mut T> {
        let place = self.layout.place(position)?;
        self.elements.get_mut(place)
    }
}

impl<T: Element, const D: usize> IndexMut<[usize; D]> for MapWriteNd<T, D> {
    fn index_mut(&mut self, position: [usize; D]) -> &mut T {
        let extent = self.layout.extent();
        match self.get_mut(position) {
            Some(element) => element,
            None => outside(position, extent),
        }
    }
}

#[cold]
#[track_caller]
fn outside<const D: usize>(position: [usize; D], extent: [usize; D]) -> ! {
    panic!("there is no element {position:?} in a mapping of {extent:?} elements")
}
