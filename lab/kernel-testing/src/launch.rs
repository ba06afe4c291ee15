//! A launch: its arguments, and the bytes of each parameter of an entry function.

use bytemuck::{AnyBitPattern, NoUninit};
use quipu_kernel_ir::print::{EntryKind, FAULT_WORDS};
use quipu_kernel_ir::{IndexWidth, Printed, SharedLength};

use crate::TestingError;

/// A work division.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    /// Blocks of the grid, along each dimension.
    pub blocks: Vec<u64>,
    /// Threads of a block.
    pub threads: Vec<u64>,
    /// Elements of a thread.
    pub elements: Vec<u64>,
}

impl Division {
    /// From three extents.
    #[must_use]
    pub fn new<const D: usize>(blocks: [u64; D], threads: [u64; D], elements: [u64; D]) -> Self {
        Self {
            blocks: blocks.to_vec(),
            threads: threads.to_vec(),
            elements: elements.to_vec(),
        }
    }

    /// An extent along the hardware's axes: the last dimension, the last but one, all others.
    pub(crate) fn axes(extent: &[u64]) -> [u64; 3] {
        let from_last = |d: usize| extent.len().checked_sub(d + 1).map_or(1, |at| extent[at]);
        let others = extent.len().saturating_sub(2);
        [
            from_last(0),
            from_last(1),
            extent[..others].iter().product(),
        ]
    }
}

/// An argument for a parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A uniform parameter's bytes. Of an index: see [`Argument::index`].
    Uniform(Vec<u8>),
    /// A `usize` or `isize`, passed in the kernel's index width.
    Index(u64),
    /// A buffer or view.
    Elements {
        /// The bytes of all places.
        bytes: Vec<u8>,
        /// Bytes of an element.
        size: usize,
        /// Of a view, its extents and strides.
        shape: Option<(Vec<u64>, Vec<u64>)>,
    },
}

impl Argument {
    /// A uniform parameter.
    pub fn uniform<T: NoUninit>(value: T) -> Self {
        Self::Uniform(bytemuck::bytes_of(&value).to_vec())
    }

    /// A uniform parameter of type `usize` or `isize`.
    #[must_use]
    pub fn index(value: u64) -> Self {
        Self::Index(value)
    }

    /// A buffer.
    pub fn buffer<T: NoUninit>(elements: &[T]) -> Self {
        Self::Elements {
            bytes: bytemuck::cast_slice(elements).to_vec(),
            size: size_of::<T>(),
            shape: None,
        }
    }

    /// A view, with its extents and strides.
    pub fn view<T: NoUninit>(elements: &[T], extents: &[u64], strides: &[u64]) -> Self {
        Self::Elements {
            bytes: bytemuck::cast_slice(elements).to_vec(),
            size: size_of::<T>(),
            shape: Some((extents.to_vec(), strides.to_vec())),
        }
    }
}

/// The arguments and division of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The work division.
    pub division: Division,
    /// For each parameter of the kernel. What the kernel writes is here afterwards.
    pub arguments: Vec<Argument>,
    /// The lengths of shared arrays that have none of their own, in order.
    pub shared: Vec<u64>,
}

impl Launch {
    /// Without shared arrays.
    pub fn new(division: Division, arguments: impl IntoIterator<Item = Argument>) -> Self {
        Self {
            division,
            arguments: arguments.into_iter().collect(),
            shared: Vec::new(),
        }
    }

    /// With the lengths of shared arrays.
    #[must_use]
    pub fn with_shared(mut self, lengths: impl IntoIterator<Item = u64>) -> Self {
        self.shared = lengths.into_iter().collect();
        self
    }

    /// The elements of an argument.
    ///
    /// # Panics
    /// If it is not a buffer or view of such elements.
    #[must_use]
    pub fn elements<T: AnyBitPattern>(&self, argument: usize) -> Vec<T> {
        let Argument::Elements { bytes, size, .. } = &self.arguments[argument] else {
            panic!("argument {argument} has no elements");
        };
        assert_eq!(*size, size_of::<T>(), "elements of argument {argument}");
        bytes
            .chunks_exact(*size)
            .map(bytemuck::pod_read_unaligned)
            .collect()
    }

    /// The kinds of the entry function's parameters.
    pub(crate) fn slots(&self, printed: &Printed) -> Result<Vec<Slot>, TestingError> {
        let wrong = |what: &str| TestingError::Launch(what.to_owned());
        let division = &self.division;
        for extent in [&division.blocks, &division.threads, &division.elements] {
            if extent.len() != printed.dimensions {
                return Err(wrong("the work division's dimensions"));
            }
        }
        let index = |value: u64| match printed.index_width {
            IndexWidth::Bits32 => (value as u32).to_ne_bytes().to_vec(),
            IndexWidth::Bits64 => value.to_ne_bytes().to_vec(),
        };
        let launched: Vec<_> = printed
            .shared
            .iter()
            .enumerate()
            .filter(|(_, array)| array.length == SharedLength::Launch)
            .map(|(number, _)| number)
            .collect();
        if launched.len() != self.shared.len() {
            return Err(wrong("the number of lengths of shared arrays"));
        }
        let shared_length = |number: u32| {
            let at = launched.iter().position(|known| *known == number as usize);
            at.map_or(0, |at| self.shared[at])
        };
        let (offsets, _) = printed.dynamic_shared(&self.shared);
        let argument = |parameter: usize| {
            self.arguments
                .get(parameter)
                .ok_or_else(|| wrong("too few arguments"))
        };
        let elements = |parameter: usize| match argument(parameter)? {
            Argument::Elements { bytes, size, shape } => Ok((bytes, *size, shape)),
            _ => Err(wrong("a uniform argument for a buffer")),
        };
        let shape = |parameter: usize| {
            elements(parameter)?
                .2
                .as_ref()
                .ok_or_else(|| wrong("a buffer for a view"))
        };
        let mut slots = Vec::new();
        for entry in &printed.parameters {
            let slot = match entry.kind {
                EntryKind::Uniform { parameter } => match argument(parameter)? {
                    Argument::Uniform(bytes) => Slot::Bytes(bytes.clone()),
                    Argument::Index(value) => Slot::Bytes(index(*value)),
                    Argument::Elements { .. } => {
                        return Err(wrong("a buffer for a uniform parameter"));
                    }
                },
                EntryKind::Pointer { parameter } => {
                    elements(parameter)?;
                    Slot::Elements(parameter)
                }
                EntryKind::Start { .. } => Slot::Start,
                EntryKind::Length { parameter } => {
                    let (bytes, size, _) = elements(parameter)?;
                    Slot::Bytes(index((bytes.len() / size) as u64))
                }
                EntryKind::Extent {
                    parameter,
                    dimension,
                } => Slot::Bytes(index(shape(parameter)?.0[dimension])),
                EntryKind::Stride {
                    parameter,
                    dimension,
                } => Slot::Bytes(index(shape(parameter)?.1[dimension])),
                EntryKind::SharedPointer { shared } => Slot::Local(
                    shared_length(shared.0) * printed.shared[shared.0 as usize].element_size,
                ),
                EntryKind::SharedOffset { shared } => {
                    let at = launched
                        .iter()
                        .position(|known| *known == shared.0 as usize);
                    Slot::Bytes(
                        at.map_or_else(Vec::new, |at| (offsets[at] as u32).to_ne_bytes().to_vec()),
                    )
                }
                EntryKind::SharedLength { shared } => Slot::Bytes(index(shared_length(shared.0))),
                EntryKind::Launch => Slot::Bytes(
                    [&division.blocks, &division.threads, &division.elements]
                        .into_iter()
                        .flatten()
                        .flat_map(|extent| index(*extent))
                        .collect(),
                ),
                EntryKind::Fault => Slot::Fault,
                EntryKind::GridBarrier => Slot::GridBarrier,
            };
            if let Slot::Bytes(bytes) = &slot
                && bytes.len() as u64 != entry.size
            {
                return Err(wrong(&format!(
                    "{} bytes for `{}`, which has {}",
                    bytes.len(),
                    entry.name,
                    entry.size
                )));
            }
            slots.push(slot);
        }
        Ok(slots)
    }
}

/// An argument for a parameter of an entry function.
#[derive(Clone, Debug)]
pub(crate) enum Slot {
    /// These bytes.
    Bytes(Vec<u8>),
    /// A pointer to the elements of this argument.
    Elements(usize),
    /// The number of elements before the first.
    Start,
    /// So many bytes of local memory.
    Local(u64),
    /// A pointer to the fault record.
    Fault,
    /// A pointer to the words of barriers of the grid.
    GridBarrier,
}

/// An empty fault record.
pub(crate) const NO_FAULT: [u32; FAULT_WORDS] = [0; FAULT_WORDS];
