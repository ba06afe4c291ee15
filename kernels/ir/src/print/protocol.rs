//! The facts of a printed kernel that a driver needs, in data. Their use is described in
//! [`print`](super).

use std::fmt;
use std::mem::MaybeUninit;

use crate::function::Location;
use crate::module::{Module, ParameterKind, SharedId, SharedLength};
use crate::types::{Scalar, Type};

use super::IndexWidth;

/// A printed kernel, and how it is launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// The language, as [`Printer::language`](super::Printer::language) names it.
    pub language: &'static str,
    /// The source: one translation unit.
    pub source: String,
    /// The name of the entry function.
    pub entry: String,
    /// The options that the compiler needs to give the source its meaning.
    pub compiler_options: Vec<String>,
    /// The parameters of the entry function, in order.
    pub parameters: Vec<EntryParameter>,
    /// The block-shared arrays of the module, by number.
    pub shared: Vec<SharedMemory>,
    /// Dimensions of the grid.
    pub dimensions: usize,
    /// The width of `usize` in the source.
    pub index_width: IndexWidth,
    /// True if the kernel has barriers of its own: its blocks may not have more threads than run at
    /// once.
    pub barriers: bool,
    /// True if the kernel has barriers of the grid: all of its blocks have to run at once.
    pub grid_barriers: bool,
    /// True if a thread reads several of its elements at once, so that it had best have several.
    pub reads_ahead: bool,
    /// The places in the user's source that a fault record may name.
    pub sites: Vec<Site>,
}

/// A parameter of an entry function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryParameter {
    /// Its name in the source.
    pub name: String,
    /// The kind of the argument.
    pub kind: EntryKind,
    /// Its size in bytes; 0 for [`EntryKind::SharedPointer`].
    pub size: u64,
}

/// The argument for a parameter of an entry function. Numbers of parameters are those in
/// [`KernelInfo::parameters`](crate::KernelInfo::parameters).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// The bytes of a uniform parameter: a scalar (`bool` is one byte, `usize` of the index width),
    /// or a struct or array laid out as C does.
    Uniform {
        /// Number of the kernel's parameter.
        parameter: usize,
    },
    /// A pointer to a buffer's or view's elements. Where a [`Start`](Self::Start) follows, to the
    /// beginning of the memory object; else to the first element.
    Pointer {
        /// Number of the kernel's parameter.
        parameter: usize,
    },
    /// The number of elements from the pointer to the first element: `u64`. OpenCL C only, as its
    /// pointers to memory objects cannot be moved by the host.
    Start {
        /// Number of the kernel's parameter.
        parameter: usize,
    },
    /// The number of places, gaps included: of the index width.
    Length {
        /// Number of the kernel's parameter.
        parameter: usize,
    },
    /// Elements of a view along a dimension: of the index width.
    Extent {
        /// Number of the kernel's parameter.
        parameter: usize,
        /// The dimension.
        dimension: usize,
    },
    /// Places between a view's neighbours along a dimension: of the index width.
    Stride {
        /// Number of the kernel's parameter.
        parameter: usize,
        /// The dimension.
        dimension: usize,
    },
    /// OpenCL C: the local memory of an array whose length is given with each launch; as many bytes
    /// as its elements have, at least one, are asked for with
    /// `clSetKernelArg(kernel, i, bytes, NULL)`.
    SharedPointer {
        /// The array.
        shared: SharedId,
    },
    /// CUDA C: where the array starts in the block's dynamic shared memory, in bytes: `u32`. From
    /// [`Printed::dynamic_shared`].
    SharedOffset {
        /// The array.
        shared: SharedId,
    },
    /// The number of elements of an array whose length is given with each launch: of the index
    /// width.
    SharedLength {
        /// The array.
        shared: SharedId,
    },
    /// The work division, `3 * dimensions` numbers of the index width: the grid's blocks, the
    /// block's threads, the thread's elements, each along dimension 0 first.
    Launch,
    /// A pointer to the fault record in device memory: [`FAULT_WORDS`] `u32`s, all zero at first.
    /// Only of kernels with [sites](Printed::sites), and in C99 of those with barriers.
    Fault,
    /// CUDA C: a pointer to [`GRID_BARRIER_WORDS`] `u32`s in device memory, for a kernel with
    /// barriers of the grid. They are zero before their first launch. A launch leaves them ready
    /// for the next one. No two launches use them at a time.
    GridBarrier,
}

/// A block-shared array of a printed kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedMemory {
    /// Bytes of an element.
    pub element_size: u64,
    /// The alignment of an element's address.
    pub alignment: u64,
    /// The number of elements, or that a launch gives it.
    pub length: SharedLength,
}

impl SharedMemory {
    /// Its bytes; none where a launch gives the number of elements.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        match self.length {
            SharedLength::Fixed(length) => Some(self.element_size.saturating_mul(length)),
            SharedLength::Launch => None,
        }
    }
}

/// A place in the user's source where something can go wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The kind of fault there.
    pub kind: FaultKind,
    /// The function.
    pub function: String,
    /// The place in the source.
    pub location: Option<Location>,
    /// The message of an assertion, with `{}` for each of its values.
    pub message: Option<String>,
    /// The types of these.
    pub values: Vec<Scalar>,
}

/// The kind of a fault in a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// An index out of bounds; a read gave zero.
    Read,
    /// An index out of bounds; the write was dropped.
    Write,
    /// A range of a slice out of bounds; the slice was empty.
    Range,
    /// A division or remainder by zero, or of the smallest number by -1; it gave zero.
    Division,
    /// An assertion that did not hold.
    Assertion,
    /// Not all threads of a block came to the barrier. C99 only: elsewhere such a kernel's
    /// behaviour is undefined.
    Divergence,
}

/// The number of `u32`s of a fault record. By number they are: 0, the site's number and 1, or 0 if
/// nothing went wrong; 1, nothing; 2 and 3, low half first, the row-major number of the thread in
/// the grid's threads; 4 and 5, the index (of a range its start, of a division the divisor, of an
/// assertion its first value); 6 and 7, the length (of a range its end, of an assertion its second
/// value).
pub const FAULT_WORDS: usize = 8;

/// The number of `u32`s of [`EntryKind::GridBarrier`]: the blocks that wait, and the barriers
/// passed.
pub const GRID_BARRIER_WORDS: usize = 2;

/// The first fault of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The site in the source, with the kind of fault.
    pub site: Site,
    /// The row-major number of the thread in the grid's threads.
    pub thread: u64,
    /// The index out of bounds; of a range its start.
    pub index: u64,
    /// The number of elements; of a range its end.
    pub length: u64,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (index, length) = (self.index, self.length);
        match self.site.kind {
            FaultKind::Read => write!(f, "read of element {index} of {length}")?,
            FaultKind::Write => write!(f, "write of element {index} of {length}")?,
            FaultKind::Range => write!(f, "range {index}..{length} outside of the slice")?,
            FaultKind::Division if index == 0 => f.write_str("division by zero")?,
            FaultKind::Division => f.write_str("division of the smallest number by -1")?,
            FaultKind::Assertion => {
                let message = self.site.message.as_deref().unwrap_or_default();
                f.write_str("assertion failed: ")?;
                let mut rest = message;
                for (scalar, word) in self.site.values.iter().zip([index, length]) {
                    let (before, after) = rest.split_once("{}").unwrap_or((rest, ""));
                    f.write_str(before)?;
                    write_word(f, *scalar, word)?;
                    rest = after;
                }
                f.write_str(rest)?;
            }
            FaultKind::Divergence => {
                f.write_str("a barrier that not every thread of the block came to")?;
            }
        }
        write!(f, ", in `{}`", self.site.function)?;
        if let Some(Location { file, line }) = self.site.location {
            write!(f, " at {file}:{line}")?;
        }
        write!(f, ", by thread {}", self.thread)
    }
}

/// A value, of the word that was recorded of it.
fn write_word(f: &mut fmt::Formatter<'_>, scalar: Scalar, word: u64) -> fmt::Result {
    match scalar {
        Scalar::Bool => write!(f, "{}", word != 0),
        Scalar::F32 => write!(f, "{}", f32::from_bits(word as u32)),
        Scalar::F64 => write!(f, "{}", f64::from_bits(word)),
        _ if scalar.is_signed() => write!(f, "{}", word.cast_signed()),
        _ => write!(f, "{word}"),
    }
}

impl Printed {
    /// The fault in the record of a launch; `None` if nothing went wrong.
    #[must_use]
    pub fn fault(&self, record: &[u32; FAULT_WORDS]) -> Option<Fault> {
        let wide = |at: usize| u64::from(record[at]) | u64::from(record[at + 1]) << 32;
        let site = record[0].checked_sub(1)?;
        Some(Fault {
            site: self.sites.get(site as usize)?.clone(),
            thread: wide(2),
            index: wide(4),
            length: wide(6),
        })
    }

    /// The offset of each block-shared array of given length (in order; of [`SharedLength::Fixed`]
    /// none) in a block's dynamic shared memory, and the number of bytes that this memory needs.
    #[must_use]
    pub fn dynamic_shared(&self, lengths: &[u64]) -> (Vec<u64>, u64) {
        let mut end = 0_u64;
        let launched = self
            .shared
            .iter()
            .filter(|array| array.length == SharedLength::Launch);
        let starts = launched
            .zip(lengths)
            .map(|(array, length)| {
                let start = end.next_multiple_of(array.alignment);
                end = start.saturating_add(array.element_size.saturating_mul(*length));
                start
            })
            .collect();
        (starts, end)
    }
}

impl Module {
    /// The bytes to pass for a uniform parameter ([`EntryKind::Uniform`]), of those of the value as
    /// Rust lays it out (`repr(C)`, with a `usize` of 64 bits). Bytes between the fields of a
    /// struct are not initialised, in either. `None` if the parameter is none of these, or the
    /// value is of another size.
    #[must_use]
    pub fn uniform<'v>(
        &self,
        parameter: usize,
        value: &'v [MaybeUninit<u8>],
        width: IndexWidth,
    ) -> Option<&'v [MaybeUninit<u8>]> {
        let ParameterKind::Uniform(number) = self.kernel.parameters.get(parameter)?.kind else {
            return None;
        };
        let of = &self
            .kernel
            .function
            .values
            .get(number.0 as usize)?
            .value_type;
        let (size, _) = layout(self, of, IndexWidth::Bits64.bytes());
        if value.len() as u64 != size {
            return None;
        }
        // Indices are parameters by themselves, not parts of a value in memory; little-endian, as
        // on every device that there is a driver for.
        let (size, _) = layout(self, of, width.bytes());
        value.get(..size as usize)
    }
}

/// The size and alignment of a type, as C lays it out; of indices as wide as given.
pub(super) fn layout(module: &Module, of: &Type, index: u64) -> (u64, u64) {
    match of {
        Type::Unit => (0, 1),
        Type::Scalar(Scalar::Index | Scalar::SignedIndex) => (index, index),
        Type::Scalar(scalar) => {
            let size = u64::from(scalar.size().unwrap_or(1));
            (size, size)
        }
        Type::Struct(id) => {
            let structure = module.structure(*id);
            let (mut size, mut alignment) = (0_u64, structure.alignment);
            for field in &structure.fields {
                let (bytes, align) = layout(module, &field.field_type, index);
                size = size.next_multiple_of(align) + bytes;
                alignment = alignment.max(align);
            }
            (size.next_multiple_of(alignment), alignment)
        }
        Type::Array(element, length) => {
            let (size, alignment) = layout(module, element, index);
            (size * length, alignment)
        }
        Type::Slice { .. } => (16, 8),
    }
}
