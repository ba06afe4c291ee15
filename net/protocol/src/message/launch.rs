//! Launches of kernels, and their arguments.

use super::command::{Operation, Parsed, check_range, read_waits};
use super::cursor::{Cursor, RESERVED, check_id, zero};
use super::{Word, numbers};
use crate::error::{Problem, holds, within};
use crate::layout;
use crate::limits::{LARGE, MAX_BLOCKS, MAX_BUFFER, MAX_RANK, MAX_SHARED};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

numbers! {
    /// A kernel's access to memory.
    AccessMode, "the access" {
        /// It reads it.
        Read = 0,
        /// It reads and writes it, or writes only parts of it.
        ReadWrite = 1,
        /// It writes every byte and reads none.
        Overwrite = 2,
    }
}

/// A kernel's launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch<'a> {
    /// The program.
    pub program: u64,
    /// Blocks of the grid along each dimension.
    pub blocks: &'a [Word],
    /// Threads of a block along each dimension.
    pub threads: &'a [Word],
    /// Elements of a thread along each dimension.
    pub elements: &'a [Word],
    /// The position of the first thread along each dimension; empty if it is zero. Other than that
    /// only with [`OFFSETS`](crate::OFFSETS).
    pub offset: &'a [Word],
    /// Threads of the grid along each dimension, where its last blocks have fewer than the others;
    /// empty if all have as many. Other than that only with [`NON_UNIFORM`](crate::NON_UNIFORM).
    pub all_threads: &'a [Word],
    /// The number of elements of each array that the threads of a block share.
    pub shared: &'a [Word],
    /// The argument for each parameter.
    pub parameters: &'a [Parameter],
    /// Extents and strides of the parameters that have them, in order.
    pub extents: &'a [Word],
    /// Bytes of the parameters that are values, in order.
    pub values: &'a [u8],
}

/// The argument for a parameter, but for the parts that a launch keeps for all of them together.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Parameter {
    tag: u8,
    mode: u8,
    rank: u8,
    reserved: u8,
    value_length: U32,
    buffer: U64,
    offset: U64,
    length: U64,
    element: U32,
    reserved_2: U16,
    reserved_3: U16,
}

const _: () = assert!(size_of::<Parameter>() == 40);

/// The kind of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// A value of so many bytes.
    Value {
        /// The number of bytes.
        length: u32,
    },
    /// A range of a buffer.
    Memory {
        /// The kernel's access to it.
        mode: AccessMode,
        /// The buffer.
        buffer: u64,
        /// The first byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// Bytes of an element.
        element: u32,
        /// Dimensions, each with an extent and a stride; zero for elements without gaps in one.
        rank: u8,
    },
    /// So many bytes of memory of each block's own. Only with [`OFFSETS`](crate::OFFSETS).
    Local {
        /// The number of bytes.
        length: u64,
    },
}

impl Parameter {
    /// A parameter.
    #[must_use]
    pub fn new(kind: ParameterKind) -> Self {
        let mut parameter = Self::new_zeroed();
        match kind {
            ParameterKind::Value { length } => {
                parameter.tag = VALUE;
                parameter.value_length = length.into();
            }
            ParameterKind::Memory {
                mode,
                buffer,
                offset,
                length,
                element,
                rank,
            } => {
                parameter.tag = MEMORY;
                parameter.mode = mode.number() as u8;
                parameter.rank = rank;
                parameter.buffer = buffer.into();
                parameter.offset = offset.into();
                parameter.length = length.into();
                parameter.element = element.into();
            }
            ParameterKind::Local { length } => {
                parameter.tag = LOCAL;
                parameter.length = length.into();
            }
        }
        parameter
    }

    /// Its kind.
    ///
    /// # Errors
    /// If it is nothing. Those of a message that was decoded are something.
    pub fn kind(&self) -> Result<ParameterKind, Problem> {
        match self.tag {
            VALUE => {
                let kind = ParameterKind::Value {
                    length: self.value_length.get(),
                };
                let only = Self::new(kind).as_bytes() == self.as_bytes();
                holds(only, "a value has a length and nothing else")?;
                Ok(kind)
            }
            MEMORY => {
                let kind = ParameterKind::Memory {
                    mode: AccessMode::of(self.mode.into())?,
                    buffer: self.buffer.get(),
                    offset: self.offset.get(),
                    length: self.length.get(),
                    element: self.element.get(),
                    rank: self.rank,
                };
                let only = Self::new(kind).as_bytes() == self.as_bytes();
                holds(only, "memory has no bytes of a value")?;
                Ok(kind)
            }
            LOCAL => {
                let kind = ParameterKind::Local {
                    length: self.length.get(),
                };
                let only = Self::new(kind).as_bytes() == self.as_bytes();
                holds(only, "local memory has a length and nothing else")?;
                Ok(kind)
            }
            tag => Err(Problem::Unknown {
                field: "the parameter's tag",
                value: tag.into(),
            }),
        }
    }
}

const VALUE: u8 = 1;
const MEMORY: u8 = 2;
const LOCAL: u8 = 3;

/// The argument for a parameter, with all that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed<'a> {
    /// The bytes of a value.
    Value(&'a [u8]),
    /// A range of a buffer.
    Memory {
        /// The kernel's access to it.
        mode: AccessMode,
        /// The buffer.
        buffer: u64,
        /// The first byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// Bytes of an element.
        element: u32,
        /// Elements along each dimension; none for elements without gaps in one.
        extents: &'a [Word],
        /// The distance of neighbours along each dimension, in elements.
        strides: &'a [Word],
    },
    /// So many bytes of memory of each block's own.
    Local(u64),
}

impl<'a> Launch<'a> {
    /// The argument for each parameter. Those of a message that was decoded are all of its
    /// parameters.
    pub fn passed(&self) -> impl Iterator<Item = Passed<'a>> + use<'a> {
        let (mut values, mut extents) = (self.values, self.extents);
        self.parameters.iter().map_while(move |parameter| {
            Some(match parameter.kind().ok()? {
                ParameterKind::Value { length } => {
                    let (value, rest) = values.split_at_checked(length as usize)?;
                    values = rest;
                    Passed::Value(value)
                }
                ParameterKind::Memory {
                    mode,
                    buffer,
                    offset,
                    length,
                    element,
                    rank,
                } => {
                    let (own, rest) = extents.split_at_checked(2 * usize::from(rank))?;
                    extents = rest;
                    let (own, strides) = own.split_at(usize::from(rank));
                    Passed::Memory {
                        mode,
                        buffer,
                        offset,
                        length,
                        element,
                        extents: own,
                        strides,
                    }
                }
                ParameterKind::Local { length } => Passed::Local(length),
            })
        })
    }

    /// All that it says but its program, as bytes: two launches of a program say the same if these
    /// are the same, each.
    #[must_use]
    pub fn parts(&self) -> [&'a [u8]; 9] {
        [
            self.blocks.as_bytes(),
            self.threads.as_bytes(),
            self.elements.as_bytes(),
            self.offset.as_bytes(),
            self.all_threads.as_bytes(),
            self.shared.as_bytes(),
            self.parameters.as_bytes(),
            self.extents.as_bytes(),
            self.values,
        ]
    }

    pub(super) fn read(waits: usize, cursor: &mut Cursor<'a>) -> Result<Parsed<'a>, Problem> {
        let fixed: &layout::Launch = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        let blocks = cursor.list("the blocks", fixed.block_rank.into())?;
        let threads = cursor.list("the threads", fixed.thread_rank.into())?;
        let elements = cursor.list("the elements", fixed.element_rank.into())?;
        let offset = cursor.list("the offset", fixed.offset_rank.into())?;
        let all_threads = cursor.list("the threads of the grid", fixed.all_rank.into())?;
        let shared = cursor.list("the shared arrays", fixed.shared_count.into())?;
        let parameters = cursor.list("the parameters", fixed.parameter_count.get().into())?;
        let extents = cursor.list("the extents", fixed.extent_count.get().into())?;
        let waits = read_waits(waits, cursor)?;
        let launch = Self {
            program: fixed.program.get(),
            blocks,
            threads,
            elements,
            offset,
            all_threads,
            shared,
            parameters,
            extents,
            values: cursor.bytes("the values", fixed.value_bytes.get() as usize)?,
        };
        Ok((waits, Operation::Launch(launch)))
    }

    pub(super) fn check(&self) -> Result<(), Problem> {
        check_id("the program", self.program)?;
        let rank = self.blocks.len();
        within("the grid's dimensions", rank as u64, 1, MAX_RANK as u64)?;
        holds(
            self.threads.len() == rank && self.elements.len() == rank,
            "blocks, threads and elements have as many dimensions as the grid",
        )?;
        holds(
            self.offset.is_empty() || self.offset.len() == rank,
            "an offset has as many dimensions as the grid",
        )?;
        let fits = |((all, blocks), threads): ((&Word, &Word), &Word)| {
            all.get().div_ceil(threads.get().max(1)) == blocks.get()
        };
        let mut along = self.all_threads.iter().zip(self.blocks).zip(self.threads);
        holds(
            self.all_threads.is_empty() || self.all_threads.len() == rank && along.all(fits),
            "the threads of the grid are those of its blocks",
        )?;
        let product = |extents: &[Word]| {
            let mut extents = extents.iter();
            extents.try_fold(1_u64, |product, extent| product.checked_mul(extent.get()))
        };
        let blocks = product(self.blocks);
        within("the blocks", blocks.unwrap_or(u64::MAX), 0, MAX_BLOCKS)?;
        for (what, extents) in [
            ("the threads", self.threads),
            ("the elements", self.elements),
        ] {
            within(what, product(extents).unwrap_or(u64::MAX), 1, MAX_BUFFER)?;
        }
        within(
            "the shared arrays",
            self.shared.len() as u64,
            0,
            MAX_SHARED as u64,
        )?;
        within(
            "the parameters",
            self.parameters.len() as u64,
            0,
            LARGE.parameters as u64,
        )?;
        within("the extents", self.extents.len() as u64, 0, u16::MAX.into())?;
        let (mut values, mut extents) = (0_usize, 0_usize);
        for parameter in self.parameters {
            match parameter.kind()? {
                ParameterKind::Value { length } => {
                    values = values.saturating_add(length as usize);
                }
                ParameterKind::Memory {
                    buffer,
                    offset,
                    length,
                    element,
                    rank,
                    ..
                } => {
                    check_id("a parameter's buffer", buffer)?;
                    match length {
                        // Only with `EMPTY_MEMORY`, which is known to the session.
                        0 => within("the offset", offset, 0, MAX_BUFFER)?,
                        length => check_range(offset, length)?,
                    }
                    within("a parameter's element", element.into(), 1, u32::MAX.into())?;
                    within("a parameter's dimensions", rank.into(), 0, MAX_RANK as u64)?;
                    extents += 2 * usize::from(rank);
                }
                ParameterKind::Local { length } => {
                    within("local memory", length, 0, MAX_BUFFER)?;
                }
            }
        }
        holds(
            values == self.values.len() && extents == self.extents.len(),
            "the values and extents are just those of its parameters",
        )
    }

    pub(super) fn write(&self, waits: &[u8], out: &mut Vec<u8>) {
        let fixed = layout::Launch {
            program: self.program.into(),
            parameter_count: (self.parameters.len() as u16).into(),
            extent_count: (self.extents.len() as u16).into(),
            block_rank: self.blocks.len() as u8,
            thread_rank: self.threads.len() as u8,
            element_rank: self.elements.len() as u8,
            shared_count: self.shared.len() as u8,
            value_bytes: (self.values.len() as u32).into(),
            offset_rank: self.offset.len() as u8,
            all_rank: self.all_threads.len() as u8,
            reserved: 0.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        for words in [
            self.blocks,
            self.threads,
            self.elements,
            self.offset,
            self.all_threads,
            self.shared,
        ] {
            out.extend_from_slice(words.as_bytes());
        }
        out.extend_from_slice(self.parameters.as_bytes());
        out.extend_from_slice(self.extents.as_bytes());
        out.extend_from_slice(waits);
        out.extend_from_slice(self.values);
    }
}
