//! Constants of the host whose methods a kernel calls.
//!
//! A kernel's source is made once, and has the value of a constant at that time. So the host must
//! not be able to change it: a `static` with interior mutability is refused. A type with interior
//! mutability is never `Copy`, so `Copy` is the rule, for the receiver itself and the value that it
//! refers to.
//!
//! `(&&&&OfHost::of(&X)).__unchanging()` is found in the trait that is the most references away and
//! has it.

use std::marker::PhantomData;

/// The type of a constant.
#[derive(Debug)]
pub struct OfHost<T: ?Sized>(PhantomData<fn(&T)>);

impl<T: ?Sized> OfHost<T> {
    /// The marker for the type of this value.
    #[must_use]
    pub fn of(_: &T) -> Self {
        Self(PhantomData)
    }
}

/// Nothing has it.
#[diagnostic::on_unimplemented(
    message = "the host can change a `static` of type `{Self}`, and a kernel on another device would not see that",
    label = "write a `Variable`, and a parameter with `#[variable(NAME)]` for it",
    note = "of a value that never changes write a `const` of a type that is `Copy`"
)]
pub trait SeenByKernels {}

/// References to types that are `Copy`.
#[doc(hidden)]
pub trait UnchangingReference {
    fn __unchanging(&self) {}
}

impl<T: Copy> UnchangingReference for &&&OfHost<&T> {}
impl<T: Copy> UnchangingReference for &&&OfHost<&[T]> {}
impl UnchangingReference for &&&OfHost<&str> {}

/// References to anything else.
#[doc(hidden)]
pub trait ChangingReference {
    type Of: ?Sized;

    fn __unchanging(&self)
    where
        Self::Of: SeenByKernels,
    {
    }
}

impl<T: ?Sized> ChangingReference for &&OfHost<&T> {
    type Of = T;
}

/// Values that are `Copy`.
#[doc(hidden)]
pub trait Unchanging {
    fn __unchanging(&self) {}
}

impl<T: Copy> Unchanging for &OfHost<T> {}
impl<T: Copy> Unchanging for &OfHost<[T]> {}

/// Any other values.
#[doc(hidden)]
pub trait Changing {
    type Of: ?Sized;

    fn __unchanging(&self)
    where
        Self::Of: SeenByKernels,
    {
    }
}

impl<T: ?Sized> Changing for OfHost<T> {
    type Of = T;
}
