//! Kernels and their arguments: from buffers on the host's side to views on the
//! device's.
//!
//! | on the host | in a kernel | in [`for_each`](crate::Queue::for_each) | in a host task |
//! |---|---|---|---|
//! | `&Buffer<T>` | [`GlobalRef<T>`](crate::GlobalRef) | `&[T]` | `&[T]` |
//! | `&mut Buffer<T>` | [`GlobalMut<T>`](crate::GlobalMut) | | `&mut [T]` |
//! | `buffer.overwrite()` | `GlobalMut<T>`, all written, none read | | `&mut [T]` |
//! | `&View<T, D>` | `GlobalRef<T, D>` | `&[T]` if it has no gaps | `&[T]` if it has no gaps |
//! | `&mut View<T, D>` | `GlobalMut<T, D>` | | `&mut [T]` if it has no gaps |
//! | numbers, `bool`, arrays of them, [`Value`] | the same | the same | the same |
//!
//! A view reaches its own elements alone: the elements between the rows of a written view stay as
//! they are. So one launch may be given regions side by side in one buffer, as a matrix's panel and
//! the rest of it. Of several commands the bytes of a view are those from its first element to its
//! last, gaps included: regions side by side are ordered as if they overlapped.
//!
//! The functions that `#[kernel]` makes are called with their arguments ([`Call`]); a kernel in any
//! Rust, for processors alone, is bound to them ([`native`]).
//!
//! | in `#[kernel]` | passed |
//! |---|---|
//! | `f32`, a struct with `#[derive(KernelData)]`, arrays of them | the value |
//! | `&[T]` | `&Buffer<T>` |
//! | `GlobalRef<T, D>` | `&View<T, D>`; `&Buffer<T>` in one dimension |
//! | `OwnElements<T, D>` | `&mut View<T, D>`; `&mut Buffer<T>` or `.overwrite()` in one dimension |
//! | `OwnTile<T, D>`, `OwnBlockTile<T, D>` | as `OwnElements` |
//! | `OwnRows<T>` | `&mut View<T, 2>` |
//! | `OwnBlock<T>` | `&mut Buffer<T>` or `.overwrite()` |
//! | `Atomics<T>`, `RawMut<T>` | `&mut Buffer<T>` |
//! | `#[variable(NAME)]` at one of those that are memory | nothing: it is the context's [`Variable`](crate::Variable) |
//! | `#[shared(length)] SharedWrite<T>`, `SharedAtomics<T>` | nothing |
//!
//! The module [`print`](mod@print) shows a kernel in the languages of devices.
//!
//! A kernel that a device has built in is found by its name, and called with the same
//! ([`BuiltIn`]).
//!
//! An argument comes in three forms: as the user passes it ([`Argument`]), as the
//! command keeps it ([`Stored`], without borrows), and as the kernel sees it when
//! the driver has said where the bytes are ([`Stored::View`]).

mod argument;
mod bind;
mod body;
mod built_in;
mod call;
#[cfg(test)]
mod checked_elements_tests;
mod native;
mod overlap;
mod pass;
mod passing;
#[cfg(debug_assertions)]
mod precompiled;
mod prepared;
pub mod print;
pub(crate) mod source;
mod text;

pub use argument::{
    Accesses, Argument, Arguments, HostArguments, MemoryArgument, NativeArguments, Raw, Read,
    ReadView, Shared, SharedArguments, Stored, Value, Write, WriteView,
};
pub use bind::{Bind, Bound, BoundBlocks, BoundKernel, bind, bind_blocks};
pub use built_in::{BuiltIn, BuiltInArgument, BuiltInArguments, BuiltInCall};
pub use call::{Call, Launch};
pub use native::{Native, native};
pub use pass::{Pass, PassAll};

pub(crate) use argument::{collect, host_views, placed, refuse_gaps};
pub(crate) use body::{EachBody, FillBody, LaunchBody};
#[cfg(feature = "serve")]
pub(crate) use call::Called;
pub(crate) use call::cannot_run;
#[cfg(feature = "serve")]
pub(crate) use overlap::region_of;
pub(crate) use overlap::{refuse_overlap, rows_with_gaps};
#[cfg(feature = "serve")]
pub(crate) use pass::{Kept, KeptValue};
pub(crate) use passing::{Lengths, Passing};
#[cfg(debug_assertions)]
pub(crate) use precompiled::all as precompiled;
pub(crate) use prepared::Prepared;
pub use text::{Listed, Program, TextArgument, TextArguments, TextCall, TextKept, TextKernel};
