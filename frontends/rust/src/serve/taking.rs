//! Arguments from a client, turned into those of a launch.
//!
//! A client may pass anything. A kernel gets only arguments that its parameters' types promise: as
//! many parameters as it has; values that are values of their types; memory that is aligned, long
//! enough for its shape, and accessed in a mode that is enough; nothing that is written shares a
//! byte with anything else. The bytes *in* the memory are only known when the command runs: where
//! not all bits are a value of the type, the launch looks then
//! ([`Stored::check`](crate::kernel::Stored::check)).

use crate::element::Element;
use crate::kernel::{Kept, KeptValue, Read, ReadView, Write, WriteView, region_of};
use crate::layout::Layout;
use quipu_kernel::{
    AtomicElement, Atomically, ByBlock, ByBlockTile, ByElement, ByRow, ByTile, ByValue, KernelData,
    Partition, Reading, ReadingView, Unpartitioned, ValueParameter, WorkDivision,
};
use quipu_node::Parameter;
use quipu_scheduler::portable::Extents;
use quipu_scheduler::region::Region;
use quipu_scheduler::{AccessMode, Error, ErrorKind, Result};

/// The parameters that were passed, and not taken yet.
#[derive(Debug)]
pub struct Taking<'l> {
    parameters: &'l [Parameter<'l>],
    taken: usize,
}

/// Memory that was passed: how many elements, their shape if there is one, and how they are
/// accessed.
type Taken<'l> = (usize, Option<&'l (Extents, Extents)>, AccessMode);

fn refused(problem: String) -> Error {
    ErrorKind::InvalidArgument {
        what: "launch a kernel of the node's program",
        problem: format!("the launch {problem}"),
    }
    .into()
}

fn narrow<const D: usize>(extents: &Extents) -> Option<[usize; D]> {
    let mut narrowed = [0; D];
    if extents.len() != D {
        return None;
    }
    for (to, from) in narrowed.iter_mut().zip(extents) {
        *to = usize::try_from(*from).ok()?;
    }
    Some(narrowed)
}

/// The division of the work.
///
/// # Errors
/// If it has other dimensions, or makes no sense.
pub(super) fn division<const D: usize>(
    [blocks, threads, elements]: [&Extents; 3],
) -> Result<WorkDivision<D>> {
    let all = (narrow(blocks), narrow(threads), narrow(elements));
    let (Some(blocks), Some(threads), Some(elements)) = all else {
        return Err(refused(format!(
            "has {} dimensions where the kernel has {D}, or is too large for this machine",
            blocks.len()
        )));
    };
    let division = WorkDivision::new(blocks, threads, elements);
    division.map_err(|error| refused(format!("cannot be divided so: {error}")))
}

impl<'l> Taking<'l> {
    /// # Errors
    /// If parameters overlap of which one is written.
    pub(super) fn new(parameters: &'l [Parameter<'l>]) -> Result<Self> {
        let all = || parameters.iter().enumerate();
        for (number, one) in all() {
            for (other_number, other) in all().skip(number + 1) {
                if overlap(one, other) {
                    return Err(refused(format!(
                        "has parameters {number} and {other_number} that overlap, one of which is written; pass parts that do not, or a copy"
                    )));
                }
            }
        }
        Ok(Self {
            parameters,
            taken: 0,
        })
    }

    /// # Errors
    /// If there are more parameters than were taken.
    pub(super) fn finish(self) -> Result<()> {
        if self.taken != self.parameters.len() {
            return Err(refused(format!(
                "passes {} parameters where the kernel has {}",
                self.parameters.len(),
                self.taken
            )));
        }
        Ok(())
    }

    fn refuse(&self, problem: &str) -> Error {
        refused(format!("passes a parameter {} {problem}", self.taken))
    }

    fn next(&self) -> Result<&'l Parameter<'l>> {
        self.parameters.get(self.taken).ok_or_else(|| {
            refused(format!(
                "passes {} parameters, and the kernel has more",
                self.parameters.len()
            ))
        })
    }

    fn value<T: ValueParameter>(&mut self) -> Result<T> {
        let Parameter::Value(bytes) = self.next()? else {
            return Err(self.refuse("that is memory, where the kernel has a value"));
        };
        if bytes.len() != size_of::<T>() {
            return Err(self.refuse("whose value is of another size than the kernel's"));
        }
        if !T::is_value(bytes) {
            return Err(self.refuse("whose bytes are no value of its type"));
        }
        // SAFETY: as many bytes as the type has, which were checked to be a value of it; it is
        // plain data.
        let value = unsafe { bytes.as_ptr().cast::<T>().read_unaligned() };
        self.taken += 1;
        Ok(value)
    }

    /// Memory of whole elements.
    fn memory<T: Element + KernelData>(&mut self, is_written: bool) -> Result<Taken<'l>> {
        let Parameter::Memory {
            mode,
            range,
            element,
            shape,
            ..
        } = self.next()?
        else {
            return Err(self.refuse("that is a value, where the kernel has memory"));
        };
        if is_written && !mode.writes() {
            return Err(self.refuse("to be read only, which the kernel writes"));
        }
        let size = size_of::<T>() as u64;
        if *element != size || size == 0 {
            return Err(self.refuse("whose elements are of another size than the kernel's"));
        }
        let length = range.end.saturating_sub(range.start);
        if !range.start.is_multiple_of(align_of::<T>() as u64) || !length.is_multiple_of(size) {
            return Err(self.refuse("that does not begin and end at an element"));
        }
        let Ok(count) = usize::try_from(length / size) else {
            return Err(self.refuse("that is too large for this machine"));
        };
        if count == 0 {
            return Err(self.refuse("without elements"));
        }
        Ok((count, *shape, *mode))
    }

    /// Elements in a row, by how they are accessed.
    fn flat<T: Element + KernelData>(&mut self, is_written: bool) -> Result<AccessMode> {
        let (_, shape, mode) = self.memory::<T>(is_written)?;
        if shape.is_some() {
            return Err(self.refuse("that has a shape, where the kernel has elements in a row"));
        }
        self.taken += 1;
        Ok(mode)
    }

    /// An array of `D` dimensions.
    fn array<T: Element + KernelData, const D: usize>(
        &mut self,
        is_written: bool,
    ) -> Result<(Layout<D>, AccessMode)> {
        let (count, shape, mode) = self.memory::<T>(is_written)?;
        let layout = match shape {
            Some((extents, strides)) => match (narrow(extents), narrow(strides)) {
                (Some(extent), Some(strides)) => Layout::strided(extent, strides).ok(),
                _ => None,
            },
            None => narrow(&Extents::from_slice(&[count as u64]))
                .and_then(|extent: [usize; D]| Layout::dense(extent).ok()),
        };
        let layout = layout.filter(|layout| layout.span() <= count).ok_or_else(|| {
            self.refuse(
                "whose shape is not one of the kernel's dimensions, has rows that overlap, or goes beyond its memory",
            )
        })?;
        self.taken += 1;
        Ok((layout, mode))
    }
}

/// True if they share bytes that one of them writes.
fn overlap(one: &Parameter<'_>, other: &Parameter<'_>) -> bool {
    let memory = |parameter: &Parameter<'_>| match parameter {
        Parameter::Value(_) => None,
        Parameter::Memory {
            mode,
            buffer,
            range,
            element,
            shape,
        } => {
            let length = range.end.saturating_sub(range.start);
            let region = match shape {
                Some((extents, strides)) => region_of(range.start, *element, extents, strides),
                None => Region::new(range.start, length, []),
            };
            Some((mode.writes(), *buffer, region))
        }
    };
    let (Some(one), Some(other)) = (memory(one), memory(other)) else {
        return false;
    };
    one.1 == other.1 && (one.0 || other.0) && one.2.meets(&other.2)
}

/// The way in which a parameter is handed to threads, of kernels that clients launch: all ways that
/// `#[kernel]` has.
#[diagnostic::on_unimplemented(
    message = "a kernel with such a parameter cannot be served",
    note = "memory is of types that buffers have: `quipu::Element`"
)]
pub trait Served<const D: usize>: Partition<D> + Sized {
    /// The part of the parameter that a command keeps.
    #[doc(hidden)]
    type Kept: Kept<Self, D>;

    /// Takes the next passed parameter.
    ///
    /// # Errors
    /// If it does not match the kernel's parameter.
    #[doc(hidden)]
    fn take(from: &mut Taking<'_>) -> Result<Self::Kept>;
}

impl<T: ValueParameter, const D: usize> Served<D> for ByValue<T> {
    type Kept = KeptValue<T>;

    fn take(from: &mut Taking<'_>) -> Result<KeptValue<T>> {
        from.value().map(KeptValue::new)
    }
}

macro_rules! flat {
    ($([$($bound:tt)*] $partition:ident => $kept:ident, $is_written:literal;)*) => {$(
        impl<T: Element + KernelData $($bound)*, const D: usize> Served<D> for $partition<T> {
            type Kept = $kept<T>;

            fn take(from: &mut Taking<'_>) -> Result<$kept<T>> {
                from.flat::<T>($is_written).map($kept::passed)
            }
        }
    )*};
}

flat! {
    [] Reading => Read, false;
    [] ByBlock => Write, true;
    [] Unpartitioned => Write, true;
    [+ AtomicElement] Atomically => Write, true;
}

macro_rules! array {
    ($([$($generics:tt)*] $partition:ty => $kept:ident, $rank:tt, $is_written:literal;)*) => {$(
        impl<T: Element + KernelData, $($generics)*> Served<D> for $partition {
            type Kept = $kept<T, $rank>;

            fn take(from: &mut Taking<'_>) -> Result<$kept<T, $rank>> {
                from.array::<T, $rank>($is_written).map($kept::passed)
            }
        }
    )*};
}

array! {
    [const E: usize, const D: usize] ReadingView<T, E> => ReadView, E, false;
    [const D: usize] ByElement<T> => WriteView, D, true;
    [const D: usize] ByTile<T> => WriteView, D, true;
    [const D: usize] ByBlockTile<T> => WriteView, D, true;
    [const D: usize] ByRow<T> => WriteView, 2, true;
}

macro_rules! tuples {
    ($($name:ident),*) => {
        #[allow(unused_variables, clippy::unused_unit)]
        impl<$($name: Served<D>,)* const D: usize> Served<D> for ($($name,)*) {
            type Kept = ($($name::Kept,)*);

            fn take(from: &mut Taking<'_>) -> Result<Self::Kept> {
                Ok(($($name::take(from)?,)*))
            }
        }
    };
}

tuples!();
tuples!(P0);
tuples!(P0, P1);
tuples!(P0, P1, P2);
tuples!(P0, P1, P2, P3);
tuples!(P0, P1, P2, P3, P4);
tuples!(P0, P1, P2, P3, P4, P5);
tuples!(P0, P1, P2, P3, P4, P5, P6);
tuples!(P0, P1, P2, P3, P4, P5, P6, P7);
tuples!(P0, P1, P2, P3, P4, P5, P6, P7, P8);
tuples!(P0, P1, P2, P3, P4, P5, P6, P7, P8, P9);
tuples!(P0, P1, P2, P3, P4, P5, P6, P7, P8, P9, P10);
tuples!(P0, P1, P2, P3, P4, P5, P6, P7, P8, P9, P10, P11);
