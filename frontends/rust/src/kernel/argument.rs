//! Arguments: as they are passed, kept and seen.

use super::overlap::refuse_overlap;
use super::passing::Passing;
use crate::buffer::{Buffer, Overwrite};
use crate::element::{Element, first_invalid, takes_any_bits};
use crate::layout::{Layout, View};
use quipu_kernel::{GlobalMut, GlobalRef};
use quipu_scheduler::{Access, AccessMode, ErrorKind, RawArgument, Result};
use smallvec::SmallVec;
use std::marker::PhantomData;

/// The part of an argument, or of a tuple of them, that a command keeps.
///
/// # Safety
/// The views of an argument reach its own bytes and nothing else, and write them
/// only if its access does.
pub unsafe trait Stored: Send + Sync + 'static {
    /// The members of a tuple that are in memory: a bit for each, from the lowest. Of one argument,
    /// 1 if it is.
    const PLACES: u64 = 1;

    /// The form in which a kernel is given it.
    type View<'a>;

    /// The form in which a host task is given it.
    type Host<'a>;

    /// Takes as many of the resolved arguments as it has, and makes the kernel's
    /// view of them.
    ///
    /// # Errors
    /// If the memory does not suit the type.
    ///
    /// # Safety
    /// The arguments are the command's, valid for `'a` in their modes. Views that write are given
    /// to one partition each, which hands disjoint parts to threads. Of several views of an
    /// argument, as each call of
    /// [`NativeKernel::run`](quipu_scheduler::operation::NativeKernel::run) has one, each runs
    /// other groups of the same division: see [`GlobalMut::from_raw_parts`].
    unsafe fn view<'a>(&self, raw: &mut Raw<'a>) -> Result<Self::View<'a>>;

    /// True if it is written, and some bits are no value of its elements: then
    /// [`check`](Self::check) looks at them.
    #[inline]
    #[must_use]
    fn is_checked() -> bool {
        false
    }

    /// Takes as many of the resolved arguments as it has. Sees to it that all elements of those
    /// that are written are values of their types: threads get references to them.
    ///
    /// # Errors
    /// If the bits of an element that keeps its content are no value of its type.
    ///
    /// # Safety
    /// The arguments are the command's, valid in their modes, and no thread uses their memory
    /// meanwhile.
    unsafe fn check(&self, raw: &mut Raw<'_>) -> Result<()> {
        for _ in 0..Self::PLACES.count_ones() {
            raw.next();
        }
        Ok(())
    }

    /// As [`Stored::view`], for a host task.
    ///
    /// # Errors
    /// If the memory does not suit the type.
    ///
    /// # Safety
    /// As for [`Stored::view`]; called once for a command.
    unsafe fn host<'a>(&self, raw: &mut Raw<'a>) -> Result<Self::Host<'a>>;

    /// Passes it to code that a driver compiles.
    #[doc(hidden)]
    fn pass(&self, to: &mut Passing<'_>);

    /// True if there are gaps between the elements of one of them: then they cannot be given as
    /// slices, the form that host tasks and closures get.
    #[inline]
    fn has_gaps(&self) -> bool {
        false
    }
}

/// Resolved arguments that are not taken yet.
pub type Raw<'a> = std::slice::Iter<'a, RawArgument>;

/// The part that a command keeps of arguments that its threads share: none is written.
pub trait Shared: Stored {
    /// The form in which every index is given it.
    type Each<'a>: Copy + Send + Sync;

    /// As [`Stored::view`].
    ///
    /// # Errors
    /// If the memory does not suit the type.
    ///
    /// # Safety
    /// As for [`Stored::view`].
    unsafe fn each<'a>(&self, raw: &mut Raw<'a>) -> Result<Self::Each<'a>>;
}

/// One argument of a launch or host task, as it is passed.
///
/// # Safety
/// The stored part reaches the bytes of the access, in its mode, and nothing else.
pub unsafe trait Argument<'b> {
    /// The part of it that the command keeps.
    type Stored: Stored;

    /// Both halves of it: the part that the command keeps, and the command's access.
    ///
    /// # Errors
    /// If it cannot be an argument.
    fn split(self) -> Result<(Self::Stored, Option<Access<'b>>)>;
}

/// A tuple of up to eight [`Argument`]s.
///
/// # Safety
/// The stored part reaches the bytes of the accesses that are added, each in its mode and in this
/// order, and nothing else.
pub unsafe trait Arguments<'b> {
    /// The part of them that the command keeps.
    type Stored: Stored;

    /// Gives the part that the command keeps, and adds its accesses to `accesses`, in order.
    ///
    /// # Errors
    /// If one cannot be an argument.
    fn store(self, accesses: &mut Accesses<'b>) -> Result<Self::Stored>;
}

/// The accesses of a command.
pub type Accesses<'b> = SmallVec<[Access<'b>; 4]>;

/// A tuple of [`Argument`]s of which none is written.
pub trait SharedArguments<'b>: Arguments<'b, Stored: Shared> {}

impl<'b, A: Arguments<'b, Stored: Shared>> SharedArguments<'b> for A {}

/// An [`Argument`] that is memory: a buffer or a view.
pub trait MemoryArgument<'b>: Argument<'b> {}

impl<'b, T: Element> MemoryArgument<'b> for &'b Buffer<T> {}
impl<'b, T: Element> MemoryArgument<'b> for &'b mut Buffer<T> {}
impl<'b, T: Element> MemoryArgument<'b> for Overwrite<'b, T> {}
impl<'b, T: Element, const D: usize> MemoryArgument<'b> for &'b View<T, D> {}
impl<'b, T: Element, const D: usize> MemoryArgument<'b> for &'b mut View<T, D> {}

/// A tuple of up to eight [`MemoryArgument`]s, for
/// [`Queue::async_execute`](crate::Queue::async_execute).
pub trait NativeArguments<'b> {
    /// One for each of them.
    type Memories<M>;

    /// Adds the command's accesses, in order.
    ///
    /// # Errors
    /// If one cannot be an argument.
    fn declare(self, accesses: &mut Accesses<'b>) -> Result<()>;

    /// As many as there are arguments; none if they are not.
    fn memories<M>(memories: Vec<M>) -> Option<Self::Memories<M>>;
}

/// The form in which a host task is given the arguments `A`.
pub type HostArguments<'a, 'b, A> = <<A as Arguments<'b>>::Stored as Stored>::Host<'a>;

/// Collects the arguments of a host task, and refuses those that could race within it.
pub(crate) fn collect<'b, A: Arguments<'b>>(
    what: &'static str,
    arguments: A,
) -> Result<(A::Stored, Accesses<'b>)> {
    let mut accesses = Accesses::new();
    let stored = arguments.store(&mut accesses)?;
    // Views with gaps are refused next.
    refuse_overlap(what, &accesses, |_| ())?;
    refuse_gaps(what, &stored)?;
    Ok((stored, accesses))
}

/// Refuses arguments that are given as slices and cannot be.
#[inline]
pub(crate) fn refuse_gaps(what: &'static str, stored: &impl Stored) -> Result<()> {
    if stored.has_gaps() {
        return Err(gaps(what));
    }
    Ok(())
}

#[cold]
fn gaps(what: &'static str) -> quipu_scheduler::Error {
    ErrorKind::InvalidArgument {
        what,
        problem: "a view with gaps between its rows is no slice; pass its `buffer()` and its \
                  `pitch()`, launch a kernel, or copy it to one without"
            .to_owned(),
    }
    .into()
}

/// Has an error that names a buffer say which argument that is, where these are in memory: see
/// [`Stored::PLACES`].
#[cold]
pub(crate) fn placed(error: quipu_scheduler::Error, places: u64) -> quipu_scheduler::Error {
    error.with_argument(|buffer| (0..64).filter(|at| places >> at & 1 == 1).nth(buffer))
}

/// The next argument as elements.
///
/// # Safety
/// It is that of a buffer of `T`.
#[inline]
unsafe fn elements<T>(raw: &mut Raw<'_>) -> Result<(*mut T, usize)> {
    let Some(argument) = raw.next() else {
        return Err(unresolved("the driver resolved too few arguments"));
    };
    let pointer = argument.pointer.cast::<T>();
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(unresolved(
            "a buffer's memory is not aligned for its elements",
        ));
    }
    Ok((pointer, argument.length / size_of::<T>()))
}

/// These elements, if all their bits are values of `T`: other devices, and other machines, may
/// leave any bits.
///
/// # Errors
/// Says which are not.
///
/// # Safety
/// They are there, initialised, and nobody writes them meanwhile.
#[inline]
pub(crate) unsafe fn values<T: Element>(pointer: *mut T, length: usize) -> Result<(*mut T, usize)> {
    // SAFETY: as the caller promises; aligned, as `elements` has seen.
    match unsafe { first_invalid(pointer, length) } {
        None => Ok((pointer, length)),
        Some(index) => Err(no_value::<T>(index)),
    }
}

#[cold]
fn no_value<T>(index: usize) -> quipu_scheduler::Error {
    ErrorKind::InvalidArgument {
        what: "run code on a buffer",
        problem: format!(
            "the bits of element {index}, of those it was to be given, are no value of {}; what wrote them is wrong",
            std::any::type_name::<T>()
        ),
    }
    .into()
}

#[cold]
fn unresolved(problem: &str) -> quipu_scheduler::Error {
    ErrorKind::InvalidArgument {
        what: "run a kernel",
        problem: format!("{problem}; this is an error of the device's driver"),
    }
    .into()
}

/// The extents and strides of a view; none of a buffer.
pub(crate) type ExtentsAndStrides<'a> = Option<(&'a [usize], &'a [usize])>;

/// A buffer that is read.
#[derive(Debug)]
pub struct Read<T>(PhantomData<fn() -> T>);

/// A buffer that is written.
#[derive(Debug)]
pub struct Write<T> {
    /// True if its content is not kept.
    overwrites: bool,
    elements: PhantomData<fn() -> T>,
}

/// A view of `D` dimensions that is read.
#[derive(Debug)]
pub struct ReadView<T, const D: usize>(Layout<D>, PhantomData<fn() -> T>);

/// A view of `D` dimensions that is written.
#[derive(Debug)]
pub struct WriteView<T, const D: usize>(Layout<D>, Write<T>);

impl<T> Read<T> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Write<T> {
    /// One whose content is kept.
    pub(crate) fn new() -> Self {
        Self {
            overwrites: false,
            elements: PhantomData,
        }
    }

    /// One whose content is not kept.
    fn overwriting() -> Self {
        Self {
            overwrites: true,
            ..Self::new()
        }
    }
}

/// The parts that a command keeps of a client's arguments.
#[cfg(feature = "serve")]
mod passed {
    use super::{AccessMode, Layout, PhantomData, Read, ReadView, Write, WriteView};

    impl<T> Read<T> {
        pub(crate) fn passed(_: AccessMode) -> Self {
            Self::new()
        }
    }

    impl<T> Write<T> {
        pub(crate) fn passed(mode: AccessMode) -> Self {
            match mode {
                AccessMode::Overwrite => Self::overwriting(),
                _ => Self::new(),
            }
        }
    }

    impl<T, const D: usize> ReadView<T, D> {
        pub(crate) fn passed((layout, _): (Layout<D>, AccessMode)) -> Self {
            Self(layout, PhantomData)
        }
    }

    impl<T, const D: usize> WriteView<T, D> {
        pub(crate) fn passed((layout, mode): (Layout<D>, AccessMode)) -> Self {
            Self(layout, Write::passed(mode))
        }
    }
}

impl<T: Element> Write<T> {
    /// Sees that elements are values of their type. If their content is not kept, those that are
    /// none become zero.
    ///
    /// # Safety
    /// They are there, aligned, and nobody else's.
    unsafe fn check_values(&self, pointer: *mut T, length: usize) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe {
            match self.overwrites {
                true => clear_invalid(pointer, length),
                false => drop(values(pointer, length)?),
            }
        }
        Ok(())
    }

    /// The elements of the next argument, to be written in parts.
    ///
    /// # Safety
    /// As [`Stored::view`].
    #[inline]
    pub(crate) unsafe fn output(raw: &mut Raw<'_>) -> Result<(*mut T, usize)> {
        // SAFETY: as the caller promises.
        unsafe { elements(raw) }
    }
}

// SAFETY: the views are read only.
unsafe impl<T: Element> Stored for Read<T> {
    type View<'a> = GlobalRef<'a, T>;
    type Host<'a> = &'a [T];

    fn pass(&self, to: &mut Passing<'_>) {
        to.memory(size_of::<T>(), None);
    }

    #[inline]
    unsafe fn view<'a>(&self, raw: &mut Raw<'a>) -> Result<GlobalRef<'a, T>> {
        // SAFETY: as the caller promises.
        unsafe {
            let (pointer, length) = elements(raw)?;
            let (pointer, length) = values::<T>(pointer, length)?;
            Ok(GlobalRef::from_raw_parts(pointer, length))
        }
    }

    #[inline]
    unsafe fn host<'a>(&self, raw: &mut Raw<'a>) -> Result<&'a [T]> {
        // SAFETY: the argument is of this type, and valid for `'a`: `Stored::view` asks its caller
        // for that.
        unsafe { self.each(raw) }
    }
}

impl<T: Element> Shared for Read<T> {
    type Each<'a> = &'a [T];

    #[inline]
    unsafe fn each<'a>(&self, raw: &mut Raw<'a>) -> Result<&'a [T]> {
        // SAFETY: the command's bytes, as the caller promises, which nobody writes while it runs:
        // it reads them.
        unsafe {
            let (pointer, length) = elements(raw)?;
            let (pointer, length) = values::<T>(pointer, length)?;
            Ok(std::slice::from_raw_parts(pointer, length))
        }
    }
}

/// Writes zero, which is a value of every element type, over elements whose bits are no value of
/// theirs.
///
/// # Safety
/// As for [`values`], and they may be written.
unsafe fn clear_invalid<T: Element>(pointer: *mut T, length: usize) {
    let mut checked = 0;
    // SAFETY: within the elements; the rest as the caller promises.
    while let Some(index) = unsafe { first_invalid(pointer.add(checked), length - checked) } {
        // SAFETY: as above.
        unsafe { pointer.add(checked + index).write(T::zeroed()) };
        checked += index + 1;
    }
}

// SAFETY: the views are of an argument whose access writes.
unsafe impl<T: Element> Stored for Write<T> {
    #[inline]
    fn is_checked() -> bool {
        !takes_any_bits::<T>()
    }

    type View<'a> = GlobalMut<'a, T>;
    type Host<'a> = &'a mut [T];

    unsafe fn check(&self, raw: &mut Raw<'_>) -> Result<()> {
        // SAFETY: the argument is of this type, and nobody else's: `Stored::check` asks its caller
        // for that.
        unsafe {
            let (pointer, length) = elements::<T>(raw)?;
            self.check_values(pointer, length)
        }
    }

    fn pass(&self, to: &mut Passing<'_>) {
        to.memory(size_of::<T>(), None);
    }

    #[inline]
    unsafe fn view<'a>(&self, raw: &mut Raw<'a>) -> Result<GlobalMut<'a, T>> {
        // SAFETY: the command's bytes, in a mode that writes, and run as `from_raw_parts` demands:
        // both are this function's contract.
        unsafe { elements(raw).map(|(pointer, length)| GlobalMut::from_raw_parts(pointer, length)) }
    }

    #[inline]
    unsafe fn host<'a>(&self, raw: &mut Raw<'a>) -> Result<&'a mut [T]> {
        // SAFETY: the command's bytes, as the caller promises, which are this task's alone: it
        // writes them, and is called once.
        unsafe {
            let (pointer, length) = elements(raw)?;
            self.check_values(pointer, length)?;
            Ok(std::slice::from_raw_parts_mut(pointer, length))
        }
    }
}

// SAFETY: the views are of an argument whose access writes.
unsafe impl<T: Element, const D: usize> Stored for WriteView<T, D> {
    #[inline]
    fn is_checked() -> bool {
        !takes_any_bits::<T>()
    }

    type View<'a> = GlobalMut<'a, T, D>;
    type Host<'a> = &'a mut [T];

    unsafe fn check(&self, raw: &mut Raw<'_>) -> Result<()> {
        // SAFETY: the argument is of this type, and its rows are nobody else's: `Stored::check`
        // asks its caller for that.
        unsafe {
            let (pointer, length) = elements::<T>(raw)?;
            let flat = GlobalRef::from_raw_parts(pointer, length);
            let is_inside = flat.in_strides(self.0.extent(), self.0.strides());
            is_inside.map_err(|error| unresolved(&error.to_string()))?;
            for start in self.0.row_starts() {
                self.1
                    .check_values(pointer.add(start), self.0.extent()[D - 1])?;
            }
        }
        Ok(())
    }

    fn pass(&self, to: &mut Passing<'_>) {
        to.memory(size_of::<T>(), Some(self.0.extents_and_strides()));
    }

    #[inline]
    unsafe fn view<'a>(&self, raw: &mut Raw<'a>) -> Result<GlobalMut<'a, T, D>> {
        // SAFETY: the argument is of this type, and valid for `'a`: `Stored::view` asks its caller
        // for that.
        let flat = unsafe { self.1.view(raw) }?;
        flat.in_strides(self.0.extent(), self.0.strides())
            .map_err(|error| unresolved(&error.to_string()))
    }

    #[inline]
    unsafe fn host<'a>(&self, raw: &mut Raw<'a>) -> Result<&'a mut [T]> {
        // SAFETY: the argument is of this type, and valid for `'a`: `Stored::host` asks its caller
        // for that.
        unsafe { self.1.host(raw) }
    }

    #[inline]
    fn has_gaps(&self) -> bool {
        !self.0.is_dense()
    }
}

// SAFETY: the views are read only.
unsafe impl<T: Element, const D: usize> Stored for ReadView<T, D> {
    type View<'a> = GlobalRef<'a, T, D>;
    type Host<'a> = &'a [T];

    fn pass(&self, to: &mut Passing<'_>) {
        to.memory(size_of::<T>(), Some(self.0.extents_and_strides()));
    }

    #[inline]
    unsafe fn view<'a>(&self, raw: &mut Raw<'a>) -> Result<GlobalRef<'a, T, D>> {
        // SAFETY: the argument is of this type, and valid for `'a`: `Stored::view` asks its caller
        // for that. Others may write between its rows. The rows alone are looked at, and all are
        // inside: the view's access has its layout's span.
        unsafe {
            let (pointer, length) = elements::<T>(raw)?;
            let flat = GlobalRef::from_raw_parts(pointer, length);
            let view = flat.in_strides(self.0.extent(), self.0.strides());
            let view = view.map_err(|error| unresolved(&error.to_string()))?;
            if !takes_any_bits::<T>() {
                for start in self.0.row_starts() {
                    values::<T>(pointer.add(start), self.0.extent()[D - 1])?;
                }
            }
            Ok(view)
        }
    }

    #[inline]
    unsafe fn host<'a>(&self, raw: &mut Raw<'a>) -> Result<&'a [T]> {
        // SAFETY: the argument is of this type, and valid for `'a`: `Stored::host` asks its caller
        // for that.
        unsafe { self.each(raw) }
    }

    #[inline]
    fn has_gaps(&self) -> bool {
        !self.0.is_dense()
    }
}

impl<T: Element, const D: usize> Shared for ReadView<T, D> {
    type Each<'a> = &'a [T];

    #[inline]
    unsafe fn each<'a>(&self, raw: &mut Raw<'a>) -> Result<&'a [T]> {
        // SAFETY: the argument is of this type, and valid for `'a`: `Shared::each` asks its caller
        // for that.
        unsafe { Read::<T>(PhantomData).each(raw) }
    }
}

// SAFETY: both halves are of the same buffer, and the access writes if the stored half does.
unsafe impl<'b, T: Element> Argument<'b> for &'b Buffer<T> {
    type Stored = Read<T>;

    #[inline]
    fn split(self) -> Result<(Read<T>, Option<Access<'b>>)> {
        Ok((Read(PhantomData), Some(self.access(AccessMode::Read))))
    }
}

// SAFETY: both halves are of the same buffer, and the access writes if the stored half does.
unsafe impl<'b, T: Element> Argument<'b> for &'b mut Buffer<T> {
    type Stored = Write<T>;

    #[inline]
    fn split(self) -> Result<(Write<T>, Option<Access<'b>>)> {
        Ok((Write::new(), Some(self.access(AccessMode::ReadWrite))))
    }
}

// SAFETY: both halves are of the same buffer, and the access writes if the stored half does.
unsafe impl<'b, T: Element> Argument<'b> for Overwrite<'b, T> {
    type Stored = Write<T>;

    #[inline]
    fn split(self) -> Result<(Write<T>, Option<Access<'b>>)> {
        let access = self.buffer.access(AccessMode::Overwrite);
        Ok((Write::overwriting(), Some(access)))
    }
}

// SAFETY: both halves are of the same buffer, and the access writes if the stored half does.
unsafe impl<'b, T: Element, const D: usize> Argument<'b> for &'b View<T, D> {
    type Stored = ReadView<T, D>;

    fn split(self) -> Result<(ReadView<T, D>, Option<Access<'b>>)> {
        let access = self.buffer().access(AccessMode::Read);
        Ok((ReadView(*self.layout(), PhantomData), Some(access)))
    }
}

// SAFETY: both halves are of the same buffer, and the access writes if the stored half does.
unsafe impl<'b, T: Element, const D: usize> Argument<'b> for &'b mut View<T, D> {
    type Stored = WriteView<T, D>;

    fn split(self) -> Result<(WriteView<T, D>, Option<Access<'b>>)> {
        // The elements between the rows stay as they are, so the bytes are read too.
        let access = self.buffer().access(AccessMode::ReadWrite);
        Ok((WriteView(*self.layout(), Write::new()), Some(access)))
    }
}

/// A plain value as an argument: of a type that is not passed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<T>(pub T);

macro_rules! values {
    ($([$($generics:tt)*] $kept:ty => $type:ty, |$value:ident| $give:expr;)*) => {$(
        // SAFETY: there are no bytes to reach.
        unsafe impl<$($generics)*> Stored for $kept {
            const PLACES: u64 = 0;
            type View<'a> = $type;
            type Host<'a> = $type;

            fn pass(&self, to: &mut Passing<'_>) {
                let $value = *self;
                to.value($give);
            }

            #[inline]
            unsafe fn view<'a>(&self, _raw: &mut Raw<'a>) -> Result<$type> {
                let $value = *self;
                Ok($give)
            }

            #[inline]
            unsafe fn host<'a>(&self, _raw: &mut Raw<'a>) -> Result<$type> {
                let $value = *self;
                Ok($give)
            }
        }

        impl<$($generics)*> Shared for $kept {
            type Each<'a> = $type;

            #[inline]
            unsafe fn each<'a>(&self, _raw: &mut Raw<'a>) -> Result<$type> {
                let $value = *self;
                Ok($give)
            }
        }

        // SAFETY: it is a value, and reaches no memory.
        unsafe impl<'b, $($generics)*> Argument<'b> for $kept {
            type Stored = Self;

            #[inline]
            fn split(self) -> Result<(Self, Option<Access<'b>>)> {
                Ok((self, None))
            }
        }
    )*};
}

macro_rules! numbers {
    ($($number:ty),*) => {
        values!($([] $number => $number, |value| value;)*);
    };
}

numbers!(
    u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64, bool
);

values! {
    [T: Copy + Send + Sync + 'static] Value<T> => T, |value| value.0;
    [T: Copy + Send + Sync + 'static, const N: usize] [T; N] => [T; N], |value| value;
}

macro_rules! tuples {
    ($($name:ident $at:tt),*) => {
        // SAFETY: each of them reaches its own bytes.
        #[allow(unused_variables, clippy::unused_unit)]
        unsafe impl<$($name: Stored),*> Stored for ($($name,)*) {
            const PLACES: u64 = 0 $(| ($name::PLACES & 1) << $at)*;

            type View<'a> = ($($name::View<'a>,)*);
            type Host<'a> = ($($name::Host<'a>,)*);

            unsafe fn check(&self, raw: &mut Raw<'_>) -> Result<()> {
                // SAFETY: the argument is of this type, and nobody else's: `Stored::check` asks its
                // caller for that.
                $(unsafe { self.$at.check(raw) }?;)*
                Ok(())
            }

            #[inline]
            fn is_checked() -> bool {
                false $(|| $name::is_checked())*
            }

            fn pass(&self, to: &mut Passing<'_>) {
                $(self.$at.pass(to);)*
            }

            #[inline]
            unsafe fn view<'a>(&self, raw: &mut Raw<'a>) -> Result<Self::View<'a>> {
                // SAFETY: the argument is of this type, and valid for `'a`: `Stored::view` asks its
                // caller for that.
                Ok(($(unsafe { self.$at.view(raw) }?,)*))
            }

            #[inline]
            unsafe fn host<'a>(&self, raw: &mut Raw<'a>) -> Result<Self::Host<'a>> {
                // SAFETY: the argument is of this type, and valid for `'a`: `Stored::host` asks its
                // caller for that.
                Ok(($(unsafe { self.$at.host(raw) }?,)*))
            }

            #[inline]
            fn has_gaps(&self) -> bool {
                false $(|| self.$at.has_gaps())*
            }
        }

        #[allow(unused_variables, clippy::unused_unit)]
        impl<$($name: Shared),*> Shared for ($($name,)*) {
            type Each<'a> = ($($name::Each<'a>,)*);

            #[inline]
            unsafe fn each<'a>(&self, raw: &mut Raw<'a>) -> Result<Self::Each<'a>> {
                // SAFETY: the argument is of this type, and valid for `'a`: `Shared::each` asks its
                // caller for that.
                Ok(($(unsafe { self.$at.each(raw) }?,)*))
            }
        }

        // SAFETY: each member keeps to the same, and they are stored in the order of their
        // accesses.
        #[allow(unused_variables, clippy::unused_unit)]
        unsafe impl<'b, $($name: Argument<'b>),*> Arguments<'b> for ($($name,)*) {
            type Stored = ($($name::Stored,)*);

            #[inline]
            fn store(self, accesses: &mut Accesses<'b>) -> Result<Self::Stored> {
                Ok(($({
                    let (stored, access) = self.$at.split()?;
                    if let Some(access) = access {
                        accesses.push(access);
                    }
                    stored
                },)*))
            }
        }

        #[allow(unused_variables)]
        impl<'b, $($name: MemoryArgument<'b>),*> NativeArguments<'b> for ($($name,)*) {
            type Memories<M> = [M; 0 $(+ { let _: usize = $at; 1 })*];

            fn declare(self, accesses: &mut Accesses<'b>) -> Result<()> {
                $(accesses.extend(self.$at.split()?.1);)*
                Ok(())
            }

            fn memories<M>(memories: Vec<M>) -> Option<Self::Memories<M>> {
                memories.try_into().ok()
            }
        }
    };
}

tuples!();
tuples!(A0 0);
tuples!(A0 0, A1 1);
tuples!(A0 0, A1 1, A2 2);
tuples!(A0 0, A1 1, A2 2, A3 3);
tuples!(A0 0, A1 1, A2 2, A3 3, A4 4);
tuples!(A0 0, A1 1, A2 2, A3 3, A4 4, A5 5);
tuples!(A0 0, A1 1, A2 2, A3 3, A4 4, A5 5, A6 6);
tuples!(A0 0, A1 1, A2 2, A3 3, A4 4, A5 5, A6 6, A7 7);

/// The views of a host task.
///
/// # Safety
/// As [`Stored::host`].
pub(crate) unsafe fn host_views<'a, S: Stored>(
    stored: &S,
    raw: &'a [RawArgument],
) -> Result<S::Host<'a>> {
    // SAFETY: as the caller promises.
    unsafe { stored.host(&mut raw.iter()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a node may send them.
    #[test]
    fn bits_that_are_no_value_are_no_reference() {
        let mut bytes = [0_u8, 1, 2];
        let mut of = |length| RawArgument {
            pointer: bytes.as_mut_ptr(),
            length,
        };
        let (all, first) = ([of(3)], [of(2)]);
        // SAFETY: the bytes are there, and borrowed by one of these at a time.
        unsafe {
            assert!(Read::<bool>(PhantomData).host(&mut all.iter()).is_err());
            let error = Write::<bool>::new().host(&mut all.iter());
            let error = error.expect_err("two is no bool").to_string();
            assert!(error.contains("element 2"), "{error}");
            let values = Write::<bool>::new().host(&mut first.iter());
            assert_eq!(values.expect("these are"), [false, true]);
            let values = Read::<u8>(PhantomData).host(&mut all.iter());
            assert_eq!(values.expect("any bits are"), [0, 1, 2]);
        }
    }
}
