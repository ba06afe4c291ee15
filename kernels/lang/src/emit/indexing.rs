//! `expression[index]`: of slices, arrays and views, and of users' types whose `impl Index` has
//! `#[device]`.
//!
//! The macro asks for the element by a method of [`Indexing`], and says by the method's name
//! whether the element may be changed. As with [conversions](super::Conversion), types that
//! [`Indexes`] knows have the method with most references before its type, which is found first.
//! Users' types without `#[device]` are refused by the next, and all others have the last.

use std::panic::Location;

use super::expression::{Derived, Expr, dereference};
use super::place::index;
use super::state::{self, Mode, Raw};

/// The work of `Index` where a source is made.
#[diagnostic::on_unimplemented(
    message = "kernels on other devices do not know what an index of `{Self}` gives",
    label = "write `#[device]` above the `impl Index<{I}> for {Self}`"
)]
pub trait Indexes<I> {
    /// As the trait's of the same name.
    type Output: ?Sized;
    #[doc(hidden)]
    fn indexed(this: Expr<Self>, at: Expr<I>) -> Expr<Self::Output>;
}

/// The work of `IndexMut` where a source is made.
#[diagnostic::on_unimplemented(
    message = "kernels on other devices do not know which element of `{Self}` is changed",
    label = "write `#[device]` above the `impl IndexMut<{I}> for {Self}`"
)]
pub trait IndexesToChange<I>: Indexes<I> {
    #[doc(hidden)]
    fn indexed_to_change(this: Expr<Self>, at: Expr<I>) -> Expr<Self::Output>;

    /// The element for a method, which changes it or reads it. No method of a number changes it.
    #[doc(hidden)]
    #[track_caller]
    fn indexed_for_method(this: Expr<Self>, at: Expr<I>) -> Expr<Self::Output> {
        let location = Location::caller();
        let before = state::at(location, |s| s.frame().function.statements());
        let read = Self::indexed(this, at);
        let is_number = state::at(location, |s| {
            let of = s.frame().type_of(read.raw());
            of.is_none_or(|of| of.scalar().is_some())
        });
        if is_number {
            return read;
        }
        state::at(location, |s| s.frame().function.take_back(before));
        Self::indexed_to_change(this, at)
    }
}

impl<T, const N: usize> Indexes<usize> for [T; N] {
    type Output = T;

    #[track_caller]
    fn indexed(this: Expr<Self>, at: Expr<usize>) -> Expr<T> {
        index(this, at, None)
    }
}

impl<T, const N: usize> IndexesToChange<usize> for [T; N] {
    #[track_caller]
    fn indexed_to_change(this: Expr<Self>, at: Expr<usize>) -> Expr<T> {
        index(this, at, None)
    }

    #[track_caller]
    fn indexed_for_method(this: Expr<Self>, at: Expr<usize>) -> Expr<T> {
        index(this, at, None)
    }
}

/// An index that is asked for.
pub struct Indexing<T: ?Sized, I> {
    of: Expr<T>,
    at: Expr<I>,
}

impl<T: ?Sized, I> std::fmt::Debug for Indexing<T, I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Indexing({:?}, {:?})", self.of, self.at)
    }
}

impl<T: ?Sized, I> Indexing<T, I> {
    /// The index of an expression.
    #[must_use]
    pub fn new(of: Expr<T>, at: Expr<I>) -> Self {
        Self { of, at }
    }

    /// The whole, which the function for the index refers to.
    fn referred(&self) -> Expr<T> {
        Expr::from_raw(match self.of.raw() {
            Raw::Place(place, _) => Raw::Place(place, Mode::Reference),
            raw => raw,
        })
    }
}

/// The element for the code around it, which has the type that rustc has found.
fn element<T: ?Sized, R: ?Sized>(lent: Expr<T>) -> Expr<R> {
    Expr::from_raw(dereference(lent).raw())
}

/// An index of a type that is known to have one.
pub trait OwnIndexed<T: ?Sized, I> {
    #[doc(hidden)]
    fn __index<R: ?Sized>(&self, witness: Option<&R>) -> Expr<R>;
    #[doc(hidden)]
    fn __index_to_change<R: ?Sized>(&self, witness: Option<&R>) -> Expr<R>
    where
        T: IndexesToChange<I>;
    #[doc(hidden)]
    fn __index_of_receiver<R: ?Sized>(&self, witness: Option<&R>) -> Expr<R>;
}

impl<T: ?Sized + Indexes<I>, I> OwnIndexed<T, I> for &&Indexing<T, I> {
    #[track_caller]
    fn __index<R: ?Sized>(&self, _witness: Option<&R>) -> Expr<R> {
        element(T::indexed(self.referred(), self.at))
    }

    #[track_caller]
    fn __index_to_change<R: ?Sized>(&self, _witness: Option<&R>) -> Expr<R>
    where
        T: IndexesToChange<I>,
    {
        element(T::indexed_to_change(self.referred(), self.at))
    }

    #[track_caller]
    fn __index_of_receiver<R: ?Sized>(&self, witness: Option<&R>) -> Expr<R> {
        self.__index(witness)
    }
}

/// The receiver of a method, of a type whose elements may be changed.
pub trait IndexedReceiver {
    #[doc(hidden)]
    fn __index_of_receiver<R: ?Sized>(&self, witness: Option<&R>) -> Expr<R>;
}

impl<T: ?Sized + IndexesToChange<I>, I> IndexedReceiver for &&&Indexing<T, I> {
    #[track_caller]
    fn __index_of_receiver<R: ?Sized>(&self, _witness: Option<&R>) -> Expr<R> {
        element(T::indexed_for_method(self.referred(), self.at))
    }
}

/// An index of a type that is [`Derived`]: it is refused.
pub trait IndexedOfOwn<T: ?Sized, I> {
    #[doc(hidden)]
    fn __index<R: ?Sized>(&self, _: Option<&R>) -> Expr<R>
    where
        T: Indexes<I>,
    {
        super::control::never()
    }
    #[doc(hidden)]
    fn __index_to_change<R: ?Sized>(&self, _: Option<&R>) -> Expr<R>
    where
        T: Indexes<I>,
    {
        super::control::never()
    }
    #[doc(hidden)]
    fn __index_of_receiver<R: ?Sized>(&self, _: Option<&R>) -> Expr<R>
    where
        T: Indexes<I>,
    {
        super::control::never()
    }
}

impl<T: ?Sized + Derived, I> IndexedOfOwn<T, I> for &Indexing<T, I> {}

/// An index of any other type.
pub trait IndexedOfOthers {
    #[doc(hidden)]
    fn __index<R: ?Sized>(&self, witness: Option<&R>) -> Expr<R>;
    #[doc(hidden)]
    fn __index_to_change<R: ?Sized>(&self, witness: Option<&R>) -> Expr<R>;
    #[doc(hidden)]
    fn __index_of_receiver<R: ?Sized>(&self, witness: Option<&R>) -> Expr<R>;
}

impl<T: ?Sized, I> IndexedOfOthers for Indexing<T, I> {
    #[track_caller]
    fn __index<R: ?Sized>(&self, witness: Option<&R>) -> Expr<R> {
        index(self.of, self.at, witness)
    }

    #[track_caller]
    fn __index_to_change<R: ?Sized>(&self, witness: Option<&R>) -> Expr<R> {
        index(self.of, self.at, witness)
    }

    #[track_caller]
    fn __index_of_receiver<R: ?Sized>(&self, witness: Option<&R>) -> Expr<R> {
        index(self.of, self.at, witness)
    }
}
