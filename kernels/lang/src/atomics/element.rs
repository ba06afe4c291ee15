//! The types of which hardware changes an element in one step, and the steps.

use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::number::{Integer, Number};

/// A number of 32 or 64 bits that is changed in one step.
///
/// # Safety
/// `Atomic` has the size and the bit patterns of `Self`.
#[diagnostic::on_unimplemented(
    message = "devices change numbers of 32 and 64 bits in one step, and `{Self}` is none",
    label = "take `Atomics` of `u32`, `i32`, `u64`, `i64`, `f32` or `f64`: of a struct, one for each field"
)]
pub unsafe trait AtomicElement: Number {
    /// The atomic type that an element is changed as.
    type Atomic: Send + Sync + 'static;

    /// Its value.
    fn load(atomic: &Self::Atomic) -> Self;
    /// Sets it.
    fn store(atomic: &Self::Atomic, value: Self);
    /// Replaces it, and gives its old value.
    fn swap(atomic: &Self::Atomic, value: Self) -> Self;
    /// Replaces it if it has the bits of `expected`, and gives its old value.
    fn compare_exchange(atomic: &Self::Atomic, expected: Self, new: Self) -> Self;
    /// The sum: integers wrap.
    fn sum(self, other: Self) -> Self;
    /// The difference: integers wrap.
    fn difference(self, other: Self) -> Self;

    /// Replaces its value by that of `new`, and gives its old value.
    #[inline(always)]
    fn update(atomic: &Self::Atomic, mut new: impl FnMut(Self) -> Self) -> Self {
        let mut old = Self::load(atomic);
        loop {
            let found = Self::compare_exchange(atomic, old, new(old));
            if found.to_word() == old.to_word() {
                return old;
            }
            old = found;
        }
    }

    /// Adds, and gives its old value.
    #[inline(always)]
    fn fetch_add(atomic: &Self::Atomic, value: Self) -> Self {
        Self::update(atomic, |old| old.sum(value))
    }
    /// Subtracts, and gives its old value.
    #[inline(always)]
    fn fetch_sub(atomic: &Self::Atomic, value: Self) -> Self {
        Self::update(atomic, |old| old.difference(value))
    }
    /// Takes the smaller, and gives its old value.
    #[inline(always)]
    fn fetch_min(atomic: &Self::Atomic, value: Self) -> Self {
        Self::update(atomic, |old| old.lesser(value))
    }
    /// Takes the greater, and gives its old value.
    #[inline(always)]
    fn fetch_max(atomic: &Self::Atomic, value: Self) -> Self {
        Self::update(atomic, |old| old.greater(value))
    }
}

/// An integer of 32 or 64 bits, whose bits are changed in one step.
pub trait AtomicInteger: AtomicElement + Integer {
    /// Keeps bits, and gives its old value.
    fn fetch_and(atomic: &Self::Atomic, value: Self) -> Self;
    /// Sets bits, and gives its old value.
    fn fetch_or(atomic: &Self::Atomic, value: Self) -> Self;
    /// Flips bits, and gives its old value.
    fn fetch_xor(atomic: &Self::Atomic, value: Self) -> Self;
}

/// The steps that std has itself.
macro_rules! native {
    ($atomic:ident: $($name:ident),*) => {$(
        #[inline(always)]
        fn $name(atomic: &$atomic, value: Self) -> Self {
            atomic.$name(value, Relaxed)
        }
    )*};
}

macro_rules! integers {
    ($($type:ident => $atomic:ident;)*) => {$(
        // SAFETY: std documents the same size and bit patterns for both.
        unsafe impl AtomicElement for $type {
            type Atomic = $atomic;

            #[inline(always)]
            fn load(atomic: &$atomic) -> Self {
                atomic.load(Relaxed)
            }
            #[inline(always)]
            fn store(atomic: &$atomic, value: Self) {
                atomic.store(value, Relaxed);
            }
            #[inline(always)]
            fn compare_exchange(atomic: &$atomic, expected: Self, new: Self) -> Self {
                match atomic.compare_exchange(expected, new, Relaxed, Relaxed) {
                    Ok(old) | Err(old) => old,
                }
            }
            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn difference(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            native! { $atomic:
                swap, fetch_add, fetch_sub, fetch_min, fetch_max
            }
        }

        impl AtomicInteger for $type {
            native! { $atomic: fetch_and, fetch_or, fetch_xor }
        }
    )*};
}

integers! {
    u32 => AtomicU32;
    i32 => AtomicI32;
    u64 => AtomicU64;
    i64 => AtomicI64;
}

macro_rules! floats {
    ($($type:ident => $atomic:ident;)*) => {$(
        // SAFETY: any bits are a float of the same size.
        unsafe impl AtomicElement for $type {
            type Atomic = $atomic;

            #[inline(always)]
            fn load(atomic: &$atomic) -> Self {
                Self::from_bits(atomic.load(Relaxed))
            }
            #[inline(always)]
            fn store(atomic: &$atomic, value: Self) {
                atomic.store(value.to_bits(), Relaxed);
            }
            #[inline(always)]
            fn swap(atomic: &$atomic, value: Self) -> Self {
                Self::from_bits(atomic.swap(value.to_bits(), Relaxed))
            }
            #[inline(always)]
            fn compare_exchange(atomic: &$atomic, expected: Self, new: Self) -> Self {
                match atomic.compare_exchange(expected.to_bits(), new.to_bits(), Relaxed, Relaxed) {
                    Ok(old) | Err(old) => Self::from_bits(old),
                }
            }
            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn difference(self, other: Self) -> Self {
                self - other
            }
        }
    )*};
}

floats! {
    f32 => AtomicU32;
    f64 => AtomicU64;
}
