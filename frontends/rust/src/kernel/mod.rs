//! Kernels and their arguments: from buffers on the host's side to views on the
//! device's.
//!
//! | on the host | in a kernel | in [`for_each`](crate::Queue::for_each) | in a host task |
//! |---|---|---|---|
//! | `&Buffer<T>` | [`GlobalRef<T>`](crate::GlobalRef) | `&[T]` | `&[T]` |
//! | `&mut Buffer<T>` | [`GlobalMut<T>`](crate::GlobalMut) | | `&mut [T]` |
//! | `buffer.overwrite()` | `GlobalMut<T>`, all written, none read | | `&mut [T]` |
//! | `&View<T, D>` without gaps | `GlobalRef<T>` | `&[T]` | `&[T]` |
//! | `&mut View<T, D>` without gaps | `GlobalMut<T, D>` | | `&mut [T]` |
//! | numbers, `bool`, arrays of them, [`Value`] | the same | the same | the same |
//!
//! An argument comes in three forms: as the user passes it ([`Argument`]), as the
//! command keeps it ([`Stored`], without borrows), and as the kernel sees it when
//! the driver has said where the bytes are ([`Stored::View`]).

mod argument;
mod bind;
mod body;

pub use argument::{
    Accesses, Argument, Arguments, HostArguments, Raw, Read, Shared, SharedArguments, Stored,
    Value, Write, WriteView,
};
pub use bind::{Bind, Bound, BoundBlocks, BoundKernel, bind, bind_blocks};

pub(crate) use argument::{collect, host_views, refuse_overlap};
pub(crate) use body::{EachBody, FillBody, LaunchBody};
