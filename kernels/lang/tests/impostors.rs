//! A crate without `unsafe` of its own reaches no memory but its own, whatever it gives the names
//! that macros write and ask: variables, methods of traits, modules, and launches inside of
//! kernels.

#![deny(unsafe_code)]
#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::result_unit_err,
    clippy::wrong_self_convention,
    reason = "what macros might find is there to be left alone"
)]
#![allow(clippy::unwrap_used, reason = "tests say what they expect by failing")]

/// What macros find where they look for the standard library.
extern crate self as core;
pub use std::{any, borrow, clone, cmp, fmt, future, iter, marker, mem, ops, option, result};

/// A conversion that gives 0.
pub mod convert {
    pub use std::convert::TryFrom;

    pub trait TryInto<T>: Sized {
        fn try_into(self) -> Result<T, ()>;
    }
    impl TryInto<usize> for u32 {
        fn try_into(self) -> Result<usize, ()> {
            Ok(0)
        }
    }
}

/// A number of 16 bits that has 8.
pub mod primitive {
    #![allow(non_camel_case_types)]

    pub type u16 = std::primitive::u8;
    pub use std::primitive::{bool, i64, i128, str, u8, u32, u64, usize};
}

#[path = "impostors/launches.rs"]
mod launches;
#[path = "impostors/methods.rs"]
mod methods;
#[path = "impostors/modules.rs"]
mod modules;
#[path = "impostors/names.rs"]
mod names;
