//! Arguments of calls: the types that are passed for each type of parameter, and the parts of them
//! that commands keep.

use super::argument::{Accesses, Argument, Raw, Read, ReadView, Stored, Write, WriteView};
use super::passing::Passing;
use crate::buffer::{Buffer, Overwrite};
use crate::context::Context;
use crate::element::Element;
use crate::layout::View;
use crate::variable::{Constant, Variable};
use quipu_kernel::{
    AtomicElement, Atomically, ByBlock, ByBlockTile, ByElement, ByRow, ByTile, ByValue, Extent,
    KernelData, Partition, Reading, ReadingView, Unpartitioned, ValueParameter, View as ViewOf,
};
use quipu_scheduler::{Access, AccessMode, ErrorKind, Result};

/// The part that a command keeps of an argument that is handed to threads by `P`.
///
/// # Safety
/// As [`Stored`].
#[doc(hidden)]
pub unsafe trait Kept<P: Partition<D>, const D: usize>: Send + Sync + 'static {
    /// As [`Stored::PLACES`].
    const PLACES: u64 = 1;

    /// As [`Stored::is_checked`].
    #[inline]
    #[must_use]
    fn is_checked() -> bool {
        false
    }

    /// As [`Stored::check`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As [`Stored::check`].
    unsafe fn check(&self, raw: &mut Raw<'_>) -> Result<()> {
        for _ in 0..Self::PLACES.count_ones() {
            raw.next();
        }
        Ok(())
    }

    /// The view that a launch is given.
    ///
    /// # Errors
    /// If the memory does not suit the type.
    ///
    /// # Safety
    /// As [`Stored::view`].
    unsafe fn view<'a>(&self, raw: &mut Raw<'a>) -> Result<P::View<'a>>;

    /// Passes it to code that a driver compiles.
    fn pass(&self, to: &mut Passing<'_>);

    /// As [`Stored::has_gaps`].
    #[inline]
    fn has_gaps(&self) -> bool {
        false
    }
}

/// An argument that can be passed for a parameter of a kernel that is handed to threads by `P`.
///
/// # Safety
/// The kept part touches memory by the access that `keep` gives, in its mode, and by nothing else.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed for this parameter of the kernel",
    note = "pass `&Buffer<T>` for `&[T]`, `&View<T, D>` for `GlobalRef<T, D>`, `&mut Buffer<T>`, `&mut View<T, D>` or `.overwrite()` for what is written, and a value of the same type for a value",
    note = "a `Vec` or slice of the host becomes a buffer by `context.buffer(&data)?`; of a `Result` pass what is in it: write `?` where it is made"
)]
pub unsafe trait Pass<'b, P: Partition<D>, const D: usize> {
    /// The part of it that the command keeps.
    #[doc(hidden)]
    type Kept: Kept<P, D>;

    /// Both halves of it: the part that the command keeps, and the command's access.
    ///
    /// # Errors
    /// If it cannot be an argument.
    #[doc(hidden)]
    fn keep<'c>(self, context: &'c Context) -> Result<(Self::Kept, Option<Access<'c>>)>
    where
        'b: 'c;

    /// The number of its elements for which one of the work division's stands.
    #[doc(hidden)]
    #[inline]
    fn elements_of_one(&self) -> usize {
        1
    }

    /// The fit that it needs with the elements of a launch that names nothing else.
    #[doc(hidden)]
    #[inline]
    fn owned(&self) -> Owned<D> {
        Owned::Nothing
    }
}

/// The part of an argument that threads own.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub enum Owned<const D: usize> {
    /// Nothing, or an argument that no caller passes.
    Nothing,
    /// Elements of this extent.
    Elements([usize; D]),
    /// So many rows.
    Rows(usize),
    /// A part of the part of their block, of so many elements in all.
    OfBlocks(usize),
}

impl<const D: usize> Owned<D> {
    /// A launch of nothing is one of any output.
    #[inline]
    fn fits(self, elements: Extent<D>) -> bool {
        if elements.is_empty() {
            return true;
        }
        match self {
            Self::Nothing => true,
            Self::Elements(extent) => elements == extent.into(),
            Self::Rows(rows) => elements.count() == Ok(rows),
            Self::OfBlocks(_) => false,
        }
    }

    /// The error that says why it does not fit, and how to write the launch.
    #[cold]
    pub(super) fn refuse(
        self,
        kernel: &str,
        number: usize,
        elements: Extent<D>,
    ) -> quipu_scheduler::Error {
        let asked = elements.components();
        let asked = match &asked[..] {
            [one] => one.to_string(),
            several => format!("{several:?}"),
        };
        let has = match self {
            Self::Nothing => "nothing of it".to_owned(),
            Self::Elements(extent) => match &extent[..] {
                [one] => format!("{one} elements"),
                several => format!("the extent {several:?}"),
            },
            Self::Rows(rows) => format!("{rows} rows"),
            Self::OfBlocks(length) => {
                format!("{length} elements, which are shared out among the launch's blocks")
            }
        };
        let instead = match self {
            Self::OfBlocks(_) => {
                "say how many blocks there are: `WorkDivision::new(blocks, threads, elements)?`"
            }
            Self::Rows(_) => {
                "launch it over the output's rows, or say the whole division, as `WorkDivision::new(blocks, threads, elements)?`"
            }
            Self::Nothing | Self::Elements(_) => {
                "launch it over the output's `len()` or `extent()`, pass a part of the output, or say the whole division, \
                 as `WorkDivision::for_elements(n, &device.limits())?`"
            }
        };
        ErrorKind::InvalidArgument {
            what: "launch a kernel",
            problem: format!(
                "'{kernel}' is launched over {asked}, and its argument {number}, counted from 0, has {has}; {instead}"
            ),
        }
        .into()
    }
}

macro_rules! kept {
    ($([$($generics:tt)*] $stored:ty: $partition:ty, $dimensions:tt;)*) => {$(
        // SAFETY: the views are those of `Stored`.
        unsafe impl<$($generics)*> Kept<$partition, $dimensions> for $stored {
            #[inline]
            fn is_checked() -> bool {
                <Self as Stored>::is_checked()
            }

            unsafe fn check(&self, raw: &mut Raw<'_>) -> Result<()> {
                // SAFETY: `Kept::check` asks its caller for the same as `Stored::check`.
                unsafe { Stored::check(self, raw) }
            }

            #[inline]
            unsafe fn view<'a>(&self, raw: &mut Raw<'a>) -> Result<ViewOf<'a, $partition, $dimensions>> {
                // SAFETY: `Kept::view` asks its caller for the same as `Stored::view`.
                unsafe { Stored::view(self, raw) }
            }

            fn pass(&self, to: &mut Passing<'_>) {
                Stored::pass(self, to);
            }

            #[inline]
            fn has_gaps(&self) -> bool {
                Stored::has_gaps(self)
            }
        }
    )*};
}

kept! {
    [T: Element + KernelData, const D: usize] Read<T>: Reading<T>, D;
    [T: Element + KernelData, const D: usize] Read<T>: ReadingView<T, 1>, D;
    [T: Element + KernelData, const E: usize, const D: usize] ReadView<T, E>: ReadingView<T, E>, D;
    [T: Element] Write<T>: ByElement<T>, 1;
    [T: Element] Write<T>: ByTile<T>, 1;
    [T: Element] Write<T>: ByBlockTile<T>, 1;
    [T: Element, const D: usize] WriteView<T, D>: ByElement<T>, D;
    [T: Element, const D: usize] WriteView<T, D>: ByTile<T>, D;
    [T: Element, const D: usize] WriteView<T, D>: ByBlockTile<T>, D;
    [T: Element, const D: usize] WriteView<T, 2>: ByRow<T>, D;
    [T: Element, const D: usize] Write<T>: ByBlock<T>, D;
    [T: Element, const D: usize] Write<T>: Unpartitioned<T>, D;
    [T: Element + AtomicElement, const D: usize] Write<T>: Atomically<T>, D;
}

/// A value that is kept.
#[doc(hidden)]
#[derive(Debug)]
pub struct KeptValue<T>(T);

#[cfg(feature = "serve")]
impl<T> KeptValue<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(value)
    }
}

// SAFETY: there are no bytes to reach.
unsafe impl<T: ValueParameter, const D: usize> Kept<ByValue<T>, D> for KeptValue<T> {
    const PLACES: u64 = 0;

    #[inline]
    unsafe fn view<'a>(&self, _raw: &mut Raw<'a>) -> Result<ViewOf<'a, ByValue<T>, D>> {
        Ok(self.0)
    }

    fn pass(&self, to: &mut Passing<'_>) {
        to.parameter(self.0);
    }
}

// SAFETY: a value reaches no memory.
unsafe impl<'b, T: ValueParameter, const D: usize> Pass<'b, ByValue<T>, D> for T {
    type Kept = KeptValue<T>;

    #[inline]
    fn keep<'c>(self, _context: &'c Context) -> Result<(KeptValue<T>, Option<Access<'c>>)>
    where
        'b: 'c,
    {
        Ok((KeptValue(self), None))
    }
}

macro_rules! pass {
    ($([$($generics:tt)*] $from:ty => $kept:ty: $partition:ty, $dimensions:tt $(=> $owned:ident $(, $elements:ident)?)?;)*) => {$(
        // SAFETY: both halves are of one buffer or view (`Argument::split`).
        unsafe impl<'b, $($generics)*> Pass<'b, $partition, $dimensions> for $from {
            type Kept = $kept;

            #[inline]
            fn keep<'c>(self, _context: &'c Context) -> Result<($kept, Option<Access<'c>>)>
            where
                'b: 'c,
            {
                Argument::split(self)
            }

            $(
                #[inline]
                fn owned(&self) -> Owned<$dimensions> {
                    $owned(self)
                }

                $(#[inline]
                fn elements_of_one(&self) -> usize {
                    $elements(self)
                })?
            )?
        }
    )*};
}

fn elements_of_row<T: Element>(plane: &View<T, 2>) -> usize {
    plane.extent()[1]
}

fn elements<T: Element>(buffer: &Buffer<T>) -> Owned<1> {
    Owned::Elements([buffer.len()])
}

fn placed_elements<T: Element, const D: usize>(view: &View<T, D>) -> Owned<D> {
    Owned::Elements(view.extent())
}

fn overwritten<T: Element>(buffer: &Overwrite<'_, T>) -> Owned<1> {
    elements(buffer.buffer)
}

fn rows<T: Element, const D: usize>(plane: &View<T, 2>) -> Owned<D> {
    Owned::Rows(plane.extent()[0])
}

fn of_blocks<T: Element, const D: usize>(buffer: &Buffer<T>) -> Owned<D> {
    Owned::OfBlocks(buffer.len())
}

fn overwritten_of_blocks<T: Element, const D: usize>(buffer: &Overwrite<'_, T>) -> Owned<D> {
    of_blocks(buffer.buffer)
}

pass! {
    [T: Element + KernelData, const D: usize] &'b Buffer<T> => Read<T>: Reading<T>, D;
    [T: Element + KernelData, const D: usize] &'b Buffer<T> => Read<T>: ReadingView<T, 1>, D;
    [T: Element + KernelData, const E: usize, const D: usize] &'b View<T, E> => ReadView<T, E>: ReadingView<T, E>, D;
    [T: Element] &'b mut Buffer<T> => Write<T>: ByElement<T>, 1 => elements;
    [T: Element] &'b mut Buffer<T> => Write<T>: ByTile<T>, 1 => elements;
    [T: Element] &'b mut Buffer<T> => Write<T>: ByBlockTile<T>, 1 => elements;
    [T: Element, const D: usize] &'b mut View<T, D> => WriteView<T, D>: ByElement<T>, D => placed_elements;
    [T: Element, const D: usize] &'b mut View<T, D> => WriteView<T, D>: ByTile<T>, D => placed_elements;
    [T: Element, const D: usize] &'b mut View<T, D> => WriteView<T, D>: ByBlockTile<T>, D => placed_elements;
    [T: Element, const D: usize] &'b mut View<T, 2> => WriteView<T, 2>: ByRow<T>, D => rows, elements_of_row;
    [T: Element, const D: usize] &'b mut Buffer<T> => Write<T>: ByBlock<T>, D => of_blocks;
    [T: Element, const D: usize] &'b mut Buffer<T> => Write<T>: Unpartitioned<T>, D;
    [T: Element + AtomicElement, const D: usize] &'b mut Buffer<T> => Write<T>: Atomically<T>, D;
    [T: Element] Overwrite<'b, T> => Write<T>: ByElement<T>, 1 => overwritten;
    [T: Element] Overwrite<'b, T> => Write<T>: ByTile<T>, 1 => overwritten;
    [T: Element] Overwrite<'b, T> => Write<T>: ByBlockTile<T>, 1 => overwritten;
    [T: Element, const D: usize] Overwrite<'b, T> => Write<T>: ByBlock<T>, D => overwritten_of_blocks;
    [T: Element, const D: usize] Overwrite<'b, T> => Write<T>: Unpartitioned<T>, D;
}

/// Variables: a kernel names them, and its caller does not pass them.
macro_rules! variables {
    ($([$($generics:tt)*] $from:ident => $kept:ident, $mode:ident: $partition:ty, $dimensions:tt;)*) => {$(
        // SAFETY: the access is of the buffer that the variable has in the context, in the mode of
        // the kept part.
        unsafe impl<'b, $($generics)*> Pass<'b, $partition, $dimensions> for &'static $from<T> {
            type Kept = $kept<T>;

            #[inline]
            fn keep<'c>(self, context: &'c Context) -> Result<($kept<T>, Option<Access<'c>>)>
            where
                'b: 'c,
            {
                let buffer = self.borrowed(context)?;
                Ok(($kept::new(), Some(buffer.access(AccessMode::$mode))))
            }
        }
    )*};
}

variables! {
    [T: Element + KernelData, const D: usize] Constant => Read, Read: Reading<T>, D;
    [T: Element + KernelData, const D: usize] Constant => Read, Read: ReadingView<T, 1>, D;
    [T: Element + KernelData, const D: usize] Variable => Read, Read: Reading<T>, D;
    [T: Element + KernelData, const D: usize] Variable => Read, Read: ReadingView<T, 1>, D;
    [T: Element] Variable => Write, ReadWrite: ByElement<T>, 1;
    [T: Element] Variable => Write, ReadWrite: ByTile<T>, 1;
    [T: Element] Variable => Write, ReadWrite: ByBlockTile<T>, 1;
    [T: Element, const D: usize] Variable => Write, ReadWrite: ByBlock<T>, D;
    [T: Element, const D: usize] Variable => Write, ReadWrite: Unpartitioned<T>, D;
    [T: Element + AtomicElement, const D: usize] Variable => Write, ReadWrite: Atomically<T>, D;
}

/// A tuple of arguments for all parameters of a kernel.
///
/// # Safety
/// As [`Pass`], of each.
pub unsafe trait PassAll<'b, P: Partition<D>, const D: usize> {
    /// The part of them that the command keeps.
    #[doc(hidden)]
    type Kept: Kept<P, D>;

    /// As [`Pass::keep`], of all.
    ///
    /// # Errors
    /// If one cannot be an argument.
    #[doc(hidden)]
    fn keep_all<'c>(self, context: &'c Context, accesses: &mut Accesses<'c>) -> Result<Self::Kept>
    where
        'b: 'c;

    /// As [`Pass::elements_of_one`], of that with the most.
    #[doc(hidden)]
    fn elements_of_one(&self) -> usize;

    /// The first that does not fit the elements of a launch, and its number.
    #[doc(hidden)]
    fn misfit(&self, elements: Extent<D>) -> Option<(usize, Owned<D>)>;
}

macro_rules! tuples {
    ($($argument:ident $partition:ident $at:tt),*) => {
        // SAFETY: each reaches its own bytes.
        #[allow(unused_variables, clippy::unused_unit)]
        unsafe impl<$($argument: Kept<$partition, D>, $partition: Partition<D>,)* const D: usize>
            Kept<($($partition,)*), D> for ($($argument,)*)
        {
            const PLACES: u64 = 0 $(| (<$argument as Kept<$partition, D>>::PLACES & 1) << $at)*;

            unsafe fn check(&self, raw: &mut Raw<'_>) -> Result<()> {
                // SAFETY: `Kept::check` of the tuple asks its caller for that of each.
                $(unsafe { self.$at.check(raw) }?;)*
                Ok(())
            }

            #[inline]
            fn is_checked() -> bool {
                false $(|| <$argument as Kept<$partition, D>>::is_checked())*
            }

            #[inline]
            unsafe fn view<'a>(&self, raw: &mut Raw<'a>) -> Result<ViewOf<'a, ($($partition,)*), D>> {
                // SAFETY: `Kept::view` asks its caller for the same as `Stored::view`.
                Ok(($(unsafe { self.$at.view(raw) }?,)*))
            }

            fn pass(&self, to: &mut Passing<'_>) {
                $(self.$at.pass(to);)*
            }

            #[inline]
            fn has_gaps(&self) -> bool {
                false $(|| self.$at.has_gaps())*
            }
        }

        // SAFETY: each keeps its own access, in order.
        #[allow(unused_variables, clippy::unused_unit)]
        unsafe impl<'b, $($argument: Pass<'b, $partition, D>, $partition: Partition<D>,)* const D: usize>
            PassAll<'b, ($($partition,)*), D> for ($($argument,)*)
        {
            type Kept = ($($argument::Kept,)*);

            #[inline]
            fn keep_all<'c>(
                self,
                context: &'c Context,
                accesses: &mut Accesses<'c>,
            ) -> Result<Self::Kept>
            where
                'b: 'c,
            {
                Ok(($({
                    let (kept, access) = self.$at.keep(context)?;
                    if let Some(access) = access {
                        accesses.push(access);
                    }
                    kept
                },)*))
            }

            #[inline]
            fn elements_of_one(&self) -> usize {
                1_usize $(.max(self.$at.elements_of_one()))*
            }

            #[inline]
            fn misfit(&self, elements: Extent<D>) -> Option<(usize, Owned<D>)> {
                $(
                    let owned = self.$at.owned();
                    if !owned.fits(elements) {
                        return Some(($at, owned));
                    }
                )*
                None
            }
        }
    };
}

tuples!();
tuples!(A0 P0 0);
tuples!(A0 P0 0, A1 P1 1);
tuples!(A0 P0 0, A1 P1 1, A2 P2 2);
tuples!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3);
tuples!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4);
tuples!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5);
tuples!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5, A6 P6 6);
tuples!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5, A6 P6 6, A7 P7 7);
tuples!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5, A6 P6 6, A7 P7 7, A8 P8 8);
tuples!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5, A6 P6 6, A7 P7 7, A8 P8 8, A9 P9 9);
tuples!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5, A6 P6 6, A7 P7 7, A8 P8 8, A9 P9 9, A10 P10 10);
tuples!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5, A6 P6 6, A7 P7 7, A8 P8 8, A9 P9 9, A10 P10 10, A11 P11 11);
