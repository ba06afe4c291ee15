//! Memory that many threads change at the same time, each change one step.
//!
//! [`Atomics`] is an output that every thread is handed whole ([`Atomically`](crate::Atomically));
//! block-shared memory has the same as [`SharedAtomics`]. Each method changes one element and gives
//! its old value. Their order among each other is all that is promised, for each element by itself
//! (*relaxed*); To publish other memory with them, put a [fence](crate::Accelerator::fence_device)
//! between: after the memory is written and before the store that says so, and after the load that
//! sees that store and before the memory is read.
//!
//! A change is one step for the threads of the *device*, unless another *scope* is said; in
//! [checking mode](crate::RunOptions::check) changes of an element by threads that a scope leaves
//! out are reported:
//!
//! | scope | a change is one step for | in alpaka (a library for C++) |
//! |---|---|---|
//! | [`thread`](Atomics::thread) | this thread: nobody else changes the element meanwhile | |
//! | [`block`](Atomics::block) | the block's threads | `hierarchy::Threads` |
//! | [`grid`](Atomics::grid) | the grid's threads | `hierarchy::Blocks` |
//! | [`device`](Atomics::device) | the device's threads, of all launches | `hierarchy::Grids` |
//! | [`system`](Atomics::system) | host and other devices, too | |
//!
//! ```
//! # use quipu_kernel::*;
//! /// The number of times that each byte occurs.
//! struct Histogram<'a>(&'a [u8]);
//!
//! impl Kernel<1> for Histogram<'_> {
//!     type Output = Atomically<u32>;
//!     fn run<A: Accelerator<1>>(&self, acc: &A, counts: Atomics<'_, u32>) {
//!         for i in acc.elements(self.0.len()) {
//!             counts.add(usize::from(self.0[i]), 1);
//!         }
//!     }
//! }
//!
//! let mut counts = vec![0; 256];
//! let division = WorkDivision::new(2, 3, 4)?;
//! erase(Histogram(b"quipu"), GlobalMut::from(&mut counts), division)?.run_all(&mut BlockScratch::new())?;
//! assert_eq!(counts[usize::from(b'u')], 2);
//! # Ok::<(), KernelError>(())
//! ```

mod element;
mod shared;

pub use element::{AtomicElement, AtomicInteger};
pub use shared::{SharedAtomicArray, SharedAtomics};

use crate::check::{self, Scope};
use std::fmt;
use std::panic::Location;

/// Elements that every thread may change, one step at a time.
///
/// They cannot be reached but in steps:
///
/// ```compile_fail,E0608
/// # use quipu_kernel::Atomics;
/// fn not_a_step(counts: Atomics<'_, u32>) {
///     counts[0] += 1;
/// }
/// ```
///
/// And not every change is one that hardware makes of every type:
///
/// ```compile_fail,E0599
/// # use quipu_kernel::Atomics;
/// fn no_bits(sums: Atomics<'_, f32>) {
///     sums.or(0, 1.0);
/// }
/// ```
pub struct Atomics<'t, T: AtomicElement> {
    elements: &'t [T::Atomic],
    /// Steps of the scope need not be one for any but this OS thread.
    alone: bool,
    /// A block's threads are run by one OS thread.
    block_alone: bool,
    /// The scope of the threads for which a step is one.
    scope: Scope,
    watched: bool,
}

impl<T: AtomicElement> Clone for Atomics<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: AtomicElement> Copy for Atomics<'_, T> {}

impl<T: AtomicElement> fmt::Debug for Atomics<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Atomics({} elements)", self.elements.len())
    }
}

/// Methods that change an element by a function of it and an operand, and give its old value.
macro_rules! steps {
    ($($(#[$documentation:meta])* $name:ident by $fetch:ident, |$old:ident, $value:ident| $new:expr;)*) => {$(
        $(#[$documentation])*
        ///
        /// # Panics
        /// If there is no such element.
        #[inline(always)]
        #[track_caller]
        pub fn $name(&self, index: usize, value: T) -> T {
            let atomic = self.at(index, true);
            if self.alone {
                let ($old, $value) = (T::load(atomic), value);
                T::store(atomic, $new);
                $old
            } else {
                T::$fetch(atomic, value)
            }
        }
    )*};
}

impl<'t, T: AtomicElement> Atomics<'t, T> {
    #[inline(always)]
    pub(crate) fn new(elements: &'t [T::Atomic], block_alone: bool, watched: bool) -> Self {
        Self {
            elements,
            alone: false,
            block_alone,
            scope: Scope::Device,
            watched,
        }
    }

    /// The same, of elements that this thread alone changes: changes of others may get lost.
    #[inline(always)]
    #[must_use]
    pub fn thread(self) -> Self {
        Self {
            alone: true,
            scope: Scope::Thread,
            ..self
        }
    }

    /// The same, changed in one step for the threads of this thread's block; for others changes may
    /// get lost.
    #[inline(always)]
    #[must_use]
    pub fn block(self) -> Self {
        Self {
            alone: self.block_alone,
            scope: Scope::Block,
            ..self
        }
    }

    /// The same, changed in one step for the threads of this thread's grid: as
    /// [`device`](Self::device), for no device has one that is weaker.
    #[inline(always)]
    #[must_use]
    pub fn grid(self) -> Self {
        self.device()
    }

    /// The same, changed in one step for all threads of the device, as it is unless something else
    /// is said.
    #[inline(always)]
    #[must_use]
    pub fn device(self) -> Self {
        Self {
            alone: false,
            scope: Scope::Device,
            ..self
        }
    }

    /// The same, changed in one step for the host and other devices, too.
    #[inline(always)]
    #[must_use]
    pub fn system(self) -> Self {
        self.device()
    }

    /// The number of elements.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// True if there are no elements.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    #[inline(always)]
    #[track_caller]
    fn at(&self, index: usize, changes: bool) -> &'t T::Atomic {
        let Some(element) = self.elements.get(index) else {
            out_of_bounds(self.elements.len(), index)
        };
        if self.watched {
            let address = std::ptr::from_ref(element).addr();
            check::note(
                address,
                index,
                changes,
                Some(self.scope),
                Location::caller(),
            );
        }
        element
    }

    /// The value of an element.
    ///
    /// # Panics
    /// If there is no such element.
    #[inline(always)]
    #[track_caller]
    pub fn load(&self, index: usize) -> T {
        T::load(self.at(index, false))
    }

    /// Sets an element.
    ///
    /// # Panics
    /// If there is no such element.
    #[inline(always)]
    #[track_caller]
    pub fn store(&self, index: usize, value: T) {
        T::store(self.at(index, true), value);
    }

    steps! {
        /// Adds to an element and gives its old value; integers wrap.
        add by fetch_add, |old, value| T::sum(old, value);
        /// Subtracts from an element and gives its old value; integers wrap.
        sub by fetch_sub, |old, value| T::difference(old, value);
        /// Makes an element the smaller of itself and a value, and gives its old value. Of a number
        /// and NaN, the number is the smaller.
        min by fetch_min, |old, value| old.lesser(value);
        /// Makes an element the greater of itself and a value, and gives its old value. Of a number
        /// and NaN, the number is the greater.
        max by fetch_max, |old, value| old.greater(value);
        /// Replaces an element and gives its old value.
        exchange by swap, |old, value| value;
    }

    /// Replaces an element if it has the bits of `expected`, and gives its old value: it was
    /// replaced if that has these bits.
    ///
    /// # Panics
    /// If there is no such element.
    #[inline(always)]
    #[track_caller]
    pub fn compare_exchange(&self, index: usize, expected: T, new: T) -> T {
        let atomic = self.at(index, true);
        if self.alone {
            let old = T::load(atomic);
            if old.to_word() == expected.to_word() {
                T::store(atomic, new);
            }
            old
        } else {
            T::compare_exchange(atomic, expected, new)
        }
    }

    /// Replaces the value of an element by that of `new`, and gives its old value. `new` is called
    /// until no other thread came between: its effects may happen several times.
    ///
    /// # Panics
    /// If there is no such element, and as `new` does.
    #[inline(always)]
    #[track_caller]
    pub fn update(&self, index: usize, new: impl FnMut(T) -> T) -> T {
        T::update(self.at(index, true), new)
    }
}

impl<T: AtomicInteger> Atomics<'_, T> {
    steps! {
        /// Keeps the bits of an element that are 1 in a value, too, and gives its old value.
        and by fetch_and, |old, value| old & value;
        /// Sets the bits of an element that are 1 in a value, and gives its old value.
        or by fetch_or, |old, value| old | value;
        /// Flips the bits of an element that are 1 in a value, and gives its old value.
        xor by fetch_xor, |old, value| old ^ value;
    }
}

impl Atomics<'_, u32> {
    /// Adds one to an element, or sets it to zero if it is `last` or more, and gives its old value:
    /// counts round.
    ///
    /// # Panics
    /// If there is no such element.
    #[inline(always)]
    #[track_caller]
    pub fn inc(&self, index: usize, last: u32) -> u32 {
        self.update(index, |old| if old >= last { 0 } else { old + 1 })
    }

    /// Subtracts one from an element, or sets it to `last` if it is zero or more than `last`, and
    /// gives its old value: counts round backwards.
    ///
    /// # Panics
    /// If there is no such element.
    #[inline(always)]
    #[track_caller]
    pub fn dec(&self, index: usize, last: u32) -> u32 {
        self.update(index, |old| {
            if old == 0 || old > last {
                last
            } else {
                old - 1
            }
        })
    }
}

#[cold]
#[track_caller]
fn out_of_bounds(length: usize, index: usize) -> ! {
    panic!("index out of bounds: the len is {length} but the index is {index}")
}
