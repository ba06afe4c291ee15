//! Memory of the host, as transfers see it.
//!
//! [`HostView`] is the trait of containers that buffers can be written from and read to; slices,
//! arrays, vectors, boxed slices and [`Pinned`](crate::Pinned) memory do. [`Source`] is the trait
//! of containers that can be handed over to be written to a buffer: every owned container, and
//! shared ones ([`Arc`]).

use crate::element::Element;
use std::sync::Arc;

/// A container whose elements lie in a row in host memory.
///
/// Implementing it makes a type of your own something that can be written to
/// and read from any buffer:
///
/// ```
/// use quipu::prelude::*;
///
/// struct Matrix { columns: usize, cells: Vec<f32> }
///
/// impl HostView for Matrix {
///     type Element = f32;
///     fn elements(&self) -> &[f32] { &self.cells }
///     fn elements_mut(&mut self) -> &mut [f32] { &mut self.cells }
/// }
///
/// # fn main() -> quipu::Result<()> {
/// let context = Platform::new()?.context()?;
/// let queue = context.queue(&context.fastest())?;
/// let buffer = context.buffer(&Matrix { columns: 2, cells: vec![1.0, 2.0, 3.0, 4.0] })?;
/// let empty = Matrix { columns: 2, cells: vec![0.0; 4] };
/// let matrix = queue.read_to(&buffer, empty)?.wait()?;
/// assert_eq!(matrix.cells[matrix.columns], 3.0);
/// # Ok(()) }
/// ```
///
/// If the future of a transfer is dropped, the container goes with the transfer. Its destructor
/// then runs on whichever thread ends that command, which may be one that waits. The destructor
/// must not take a lock that any thread holds while it enqueues, flushes, waits, or drops a buffer
/// or a queue: it would wait for its own thread.
pub trait HostView {
    /// The type of its elements.
    type Element: Element;

    /// Its elements.
    fn elements(&self) -> &[Self::Element];

    /// Its elements, to be written.
    fn elements_mut(&mut self) -> &mut [Self::Element];
}

macro_rules! views {
    ($([$($generics:tt)*] $container:ty),* $(,)?) => {$(
        impl<T: Element, $($generics)*> HostView for $container {
            type Element = T;

            #[inline]
            fn elements(&self) -> &[T] {
                self
            }

            #[inline]
            fn elements_mut(&mut self) -> &mut [T] {
                self
            }
        }
    )*};
}

views!([] [T], [const N: usize] [T; N], [] Vec<T>, [] Box<[T]>);

/// A container that can be handed over to be written to a buffer, and comes back through the future
/// of the write.
///
/// Every [`HostView`] that owns its memory is one, and so are its shared forms: an [`Arc`] of a
/// slice or a container, or a slice that lives for ever.
///
/// A borrowed slice is none: nothing would keep it there until the device reads it. Use
/// [`Queue::write_slice`](crate::Queue::write_slice), which waits, or
/// [`Queue::scope`](crate::Queue::scope).
///
/// ```compile_fail,E0597
/// # use quipu::prelude::*;
/// fn upload(queue: &Queue, buffer: &Buffer<f32>) -> quipu::Result<Pending<&'static [f32]>> {
///     let local = vec![1.0; buffer.len()];
///     queue.write(buffer, &local[..]) // dropped before the device has read it
/// }
/// ```
pub trait Source: Send + 'static {
    /// The type of its elements.
    type Element: Element;

    /// Its elements.
    fn source(&self) -> &[Self::Element];
}

impl<V: HostView + Send + 'static> Source for V {
    type Element = V::Element;

    fn source(&self) -> &[V::Element] {
        self.elements()
    }
}

impl<V: HostView + Send + Sync + ?Sized + 'static> Source for Arc<V> {
    type Element = V::Element;

    fn source(&self) -> &[V::Element] {
        self.as_ref().elements()
    }
}

impl<T: Element> Source for &'static [T] {
    type Element = T;

    fn source(&self) -> &[T] {
        self
    }
}
