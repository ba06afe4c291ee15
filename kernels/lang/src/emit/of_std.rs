//! Functions of std's that a kernel calls by a name which it has by `use`: `max(a, b)`.
//!
//! The function that such a name stands for is only known to rustc. A user's function with
//! `#[device]` has a type of its name, which comes before those here. Of any other function its
//! path is asked where the source is made.

use std::marker::PhantomData;
use std::panic::Location;

use super::state;

/// The function that a name stands for: std's, by one of the types here, or the user's.
#[derive(Debug)]
pub struct Meant<F>(PhantomData<fn() -> F>);

impl<F> Meant<F> {
    #[doc(hidden)]
    #[must_use]
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

/// A type that stands for a function of std's.
pub trait OfStd {
    /// The path of the function, up to its type parameters.
    const PATH: &'static str;
}

/// Of std's function it is asked whether it is that.
pub trait MeansStd {
    #[doc(hidden)]
    fn __is(&self, name: impl FnOnce() -> &'static str);
}

/// Of the user's nothing is asked.
pub trait MeansOwn {
    #[doc(hidden)]
    fn __is(&self, name: impl FnOnce() -> &'static str);
}

impl<F: OfStd> MeansStd for Meant<F> {
    #[track_caller]
    fn __is(&self, name: impl FnOnce() -> &'static str) {
        let name = name();
        if name.split('<').next() != Some(F::PATH) {
            let location = Location::caller();
            state::at(location, |s| {
                s.refuse(
                    location,
                    "kernels on other devices do not know this function; write `#[device]` above its `fn`",
                );
            });
        }
    }
}

impl<F> MeansOwn for &Meant<F> {
    fn __is(&self, _: impl FnOnce() -> &'static str) {}
}

macro_rules! of_std {
    ($($name:ident = $path:literal, $builder:path, [$($bound:tt)*], $result:ty, ($($argument:ty),*);)*) => {$(
        #[doc = concat!("`", $path, "`.")]
        pub mod $name {
            use super::super::data::KernelValue;
            use super::super::expression::Expr;

            /// Stands for it.
            #[allow(non_camel_case_types)]
            #[derive(Debug)]
            pub struct __function_2;

            impl super::OfStd for __function_2 {
                const PATH: &'static str = $path;
            }

            #[doc(hidden)]
            impl __function_2 {
                #[track_caller]
                pub fn __call<T: KernelValue $($bound)*>(one: Expr<T>, other: Expr<T>) -> Expr<$result> {
                    $builder(one, other)
                }
            }

            #[doc(hidden)]
            pub fn name_of<T: 'static, R, F: Fn($($argument),*) -> R>(
                _: F,
                _: Expr<T>,
                _: Expr<T>,
            ) -> &'static str {
                std::any::type_name::<F>()
            }
        }
    )*};
}

of_std! {
    max = "core::cmp::max", crate::emit::maximum, [+ Ord], T, (T, T);
    min = "core::cmp::min", crate::emit::minimum, [+ Ord], T, (T, T);
    swap = "core::mem::swap", crate::emit::swap, [], (), (&'static mut T, &'static mut T);
}
