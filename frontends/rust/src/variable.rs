//! Variables of the program that kernels use without being passed them.
//!
//! A context has a buffer for each that is used in it. These are kept in a list that only grows, so
//! that a launch borrows a buffer from it as it borrows one that it is passed, without a lock.

use crate::buffer::Buffer;
use crate::context::Context;
use crate::element::Element;
use quipu_scheduler::Result;
use std::any::Any;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

/// A variable in the memory of devices, which is there for the whole program: a `static`. Kernels
/// name it with `#[variable(NAME)]` at a parameter, for which nothing is passed then. The
/// parameter's type says whether they read or write it.
///
/// ```
/// use quipu::prelude::*;
///
/// static DONE: Variable<u32> = Variable::zeroed(1);
///
/// #[kernel]
/// fn work(_acc: &impl Accelerator<1>, mut y: OwnElements<f32>, #[variable(DONE)] done: Atomics<u32>) {
///     for (_, y) in y.each() {
///         *y += 1.0;
///         done.add(0, 1);
///     }
/// }
///
/// # fn main() -> quipu::Result<()> {
/// let context = Platform::new()?.context()?;
/// let queue = context.queue(&context.fastest())?;
/// let mut y = context.allocate(100)?;
/// queue.launch(y.len(), work(&mut y))?;
/// assert_eq!(queue.read(&DONE.buffer(&context)?)?.wait()?, [100]);
/// # Ok(()) }
/// ```
///
/// Each context has its own, made when it is first used there, with the elements that the variable
/// begins with. It is a buffer as any: all devices of the context see it, it moves to where it is
/// used, and commands that touch it are ordered. In a recorded graph it is that of the graph's
/// context.
///
/// A variable has a place of its own, so a `const` is none:
///
/// ```compile_fail,E0716
/// # use quipu::prelude::*;
/// const DONE: Variable<u32> = Variable::zeroed(1);
/// # fn test(context: &Context) -> quipu::Result<()> {
/// let done: &'static Variable<u32> = &DONE;
/// # Ok(()) }
/// ```
pub struct Variable<T: Element> {
    initial: Initial<T>,
    /// Makes each `static` a place of its own, and keeps `const`s from being used as one.
    _place: AtomicBool,
}

/// A [`Variable`] that kernels only read. The host may write it.
///
/// ```
/// use quipu::prelude::*;
///
/// static WEIGHTS: Constant<f32> = Constant::new(&[0.25, 0.5, 0.25]);
///
/// #[kernel]
/// fn smooth(_acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<f32>, #[variable(WEIGHTS)] weights: &[f32]) {
///     for (i, y) in y.each() {
///         for k in 0..weights.len() {
///             *y += weights[k] * x[i + k];
///         }
///     }
/// }
///
/// # fn main() -> quipu::Result<()> {
/// let context = Platform::new()?.context()?;
/// let queue = context.queue(&context.fastest())?;
/// let x = context.buffer(&[0.0, 4.0, 8.0, 4.0])?;
/// let mut y = context.allocate(2)?;
/// queue.launch(y.len(), smooth(&x, &mut y))?;
/// assert_eq!(queue.read(&y)?.wait()?, [4.0, 6.0]);
/// # Ok(()) }
/// ```
///
/// ```compile_fail,E0277
/// # use quipu::prelude::*;
/// # static WEIGHTS: Constant<f32> = Constant::new(&[0.25, 0.5, 0.25]);
/// #[kernel]
/// fn change(_acc: &impl Accelerator<1>, #[variable(WEIGHTS)] mut weights: OwnElements<f32>) {
///     for (_, weight) in weights.each() {
///         *weight = 0.0;
///     }
/// }
/// ```
///
/// A value that never changes is better a `const` array, which is compiled into the kernel, where
/// devices have memory for constants.
pub struct Constant<T: Element>(Variable<T>);

/// The elements with which a variable begins.
enum Initial<T: 'static> {
    Elements(&'static [T]),
    Zeros(usize),
}

impl<T: Element> Variable<T> {
    /// A variable that begins with these elements, and has as many.
    #[must_use]
    pub const fn new(elements: &'static [T]) -> Self {
        Self::with(Initial::Elements(elements))
    }

    /// A variable of so many elements, which begin as zeros.
    #[must_use]
    pub const fn zeroed(length: usize) -> Self {
        Self::with(Initial::Zeros(length))
    }

    const fn with(initial: Initial<T>) -> Self {
        Self {
            initial,
            _place: AtomicBool::new(false),
        }
    }

    /// The variable of a context: for the host, to read and write it.
    ///
    /// # Errors
    /// If it has no elements, or more than a buffer can have.
    pub fn buffer(&'static self, context: &Context) -> Result<Buffer<T>> {
        self.borrowed(context).cloned()
    }

    /// As [`Variable::buffer`].
    pub(crate) fn borrowed<'c>(&'static self, context: &'c Context) -> Result<&'c Buffer<T>> {
        context.variables().of(self, || match self.initial {
            Initial::Elements(elements) => context.buffer(elements),
            Initial::Zeros(length) => context.allocate(length),
        })
    }
}

impl<T: Element> Constant<T> {
    /// A constant of these elements.
    #[must_use]
    pub const fn new(elements: &'static [T]) -> Self {
        Self(Variable::new(elements))
    }

    /// A constant of so many elements, which are zeros until the host has written others.
    #[must_use]
    pub const fn zeroed(length: usize) -> Self {
        Self(Variable::zeroed(length))
    }

    /// The constant of a context: for the host, to read and write it. Launches see the writes
    /// before them.
    ///
    /// # Errors
    /// If it has no elements, or more than a buffer can have.
    pub fn buffer(&'static self, context: &Context) -> Result<Buffer<T>> {
        self.0.buffer(context)
    }

    /// As [`Constant::buffer`].
    pub(crate) fn borrowed<'c>(&'static self, context: &'c Context) -> Result<&'c Buffer<T>> {
        self.0.borrowed(context)
    }
}

impl<T: Element> fmt::Debug for Variable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = match self.initial {
            Initial::Elements(elements) => elements.len(),
            Initial::Zeros(length) => length,
        };
        write!(f, "Variable({length} {})", std::any::type_name::<T>())
    }
}

impl<T: Element> fmt::Debug for Constant<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Constant({:?})", self.0)
    }
}

/// The buffers of a context's variables, in the order in which these were first used. A program has
/// few.
#[derive(Default)]
pub(crate) struct Variables(OnceLock<Box<Used>>);

struct Used {
    /// The variable's address, which tells it from others.
    variable: usize,
    /// A `Buffer` of its elements.
    buffer: Box<dyn Any + Send + Sync>,
    next: Variables,
}

impl Variables {
    /// The buffer of a variable; one that is not there yet is made.
    fn of<T: Element>(
        &self,
        variable: &'static Variable<T>,
        make: impl Fn() -> Result<Buffer<T>>,
    ) -> Result<&Buffer<T>> {
        let address = std::ptr::from_ref(variable).expose_provenance();
        let mut end = self;
        loop {
            match end.0.get() {
                Some(used) => {
                    if used.variable == address
                        && let Some(buffer) = used.buffer.downcast_ref()
                    {
                        return Ok(buffer);
                    }
                    end = &used.next;
                }
                None => {
                    let used = Used {
                        variable: address,
                        buffer: Box::new(make()?),
                        next: Self::default(),
                    };
                    // If another thread was faster, its entry is looked at next.
                    drop(end.0.set(Box::new(used)));
                }
            }
        }
    }
}
