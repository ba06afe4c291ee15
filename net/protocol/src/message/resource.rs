//! Buffers and programs. Their ids are the client's to choose, so that it need not wait for an
//! answer.

use super::cursor::{Cursor, RESERVED, check_id, check_text, zero};
use super::parts::{check_source, parts};
use super::{Body, numbers};
use crate::error::{Problem, holds, within};
use crate::layout;
use crate::limits::{LARGE, MAX_BUFFER, MAX_NAME, MAX_PROGRAM};
use zerocopy::IntoBytes;

/// A new buffer of zeros. Where on the node its bytes are is the node's affair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateBuffer {
    /// Its id: larger than that of every buffer before.
    pub buffer: u64,
    /// Bytes.
    pub size: u64,
}

impl<'a> Body<'a> for CreateBuffer {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::CreateBuffer = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        Ok(Self {
            buffer: fixed.buffer.get(),
            size: fixed.size.get(),
        })
    }

    fn check(&self) -> Result<(), Problem> {
        check_id("the buffer", self.buffer)?;
        within("the size", self.size, 1, MAX_BUFFER)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::CreateBuffer {
            buffer: self.buffer.into(),
            size: self.size.into(),
            reserved: [0; 16],
        };
        out.extend_from_slice(fixed.as_bytes());
    }
}

numbers! {
    /// In which form a program is.
    ProgramFormat, "the program's form" {
        /// OpenCL C, as text.
        OpenClC = 1,
        /// A module of the kernel language.
        Module = 2,
        /// A kernel that the node has natively, named by the hash of its code.
        Native = 3,
        /// A kernel that a device has built in, by its name.
        BuiltIn = 4,
        /// Several [parts](super::ProgramPart) that are linked.
        Parts = 5,
    }
}

/// Bytes of a native kernel's name.
pub const NATIVE_NAME: usize = 32;

/// A new program: one kernel, and what it needs. It is compiled for a device when it is first
/// launched there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateProgram<'a> {
    /// Its id: larger than that of every program before.
    pub program: u64,
    /// Its form.
    pub format: ProgramFormat,
    /// The program; empty of a text or parts that have come in [messages](ProgramSource) before.
    pub source: &'a [u8],
    /// The kernel's name in it; empty if the form says it.
    pub entry: &'a str,
    /// The options for its compiler; empty unless the form is a text.
    pub options: &'a str,
}

impl CreateProgram<'_> {
    /// True if its kernels may print, so that the node may send what they [print](super::Printed).
    /// A text prints nothing that has neither the function's name, nor anything of which the
    /// compiler may make it: names that are put together, and lines that go on.
    #[must_use]
    pub fn may_print(&self) -> bool {
        const SIGNS: [&[u8]; 4] = [b"printf", b"##", b"\\\n", b"\\\r"];
        let has = |text: &[u8], sign: &[u8]| text.windows(sign.len()).any(|part| part == sign);
        match self.format {
            ProgramFormat::OpenClC => [self.source, self.options.as_bytes()]
                .iter()
                .any(|text| SIGNS.iter().any(|sign| has(text, sign))),
            ProgramFormat::Module | ProgramFormat::BuiltIn => false,
            ProgramFormat::Native | ProgramFormat::Parts => true,
        }
    }
}

impl<'a> Body<'a> for CreateProgram<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::CreateProgram = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        zero(RESERVED, fixed.reserved_2)?;
        Ok(Self {
            program: fixed.program.get(),
            format: ProgramFormat::of(fixed.format.get())?,
            source: cursor.bytes("the source", fixed.source_length.get() as usize)?,
            entry: cursor.text("the entry", fixed.entry_length.get().into())?,
            options: cursor.text("the options", fixed.options_length.get().into())?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        check_id("the program", self.program)?;
        check_text("the entry", self.entry, LARGE.name)?;
        check_text("the options", self.options, LARGE.options)?;
        let comes_before = self.source.is_empty();
        match self.format {
            ProgramFormat::OpenClC => {
                if !comes_before {
                    check_source(self.source)?;
                }
                holds(!self.entry.is_empty(), "a text without the kernel's name")
            }
            ProgramFormat::Module => {
                holds(!comes_before, "a program without source")?;
                holds(
                    self.entry.is_empty() && self.options.is_empty(),
                    "a module has neither an entry nor options beside it",
                )
            }
            ProgramFormat::Native => holds(
                self.source.len() == NATIVE_NAME && self.options.is_empty(),
                "a native kernel is named by 32 bytes, and has no options",
            ),
            ProgramFormat::Parts => {
                if !comes_before {
                    parts(self.source)?;
                }
                holds(
                    !self.entry.is_empty() && self.options.is_empty(),
                    "a program of parts names a kernel, and has no options but theirs",
                )
            }
            ProgramFormat::BuiltIn => {
                holds(!comes_before, "a program without source")?;
                let name = std::str::from_utf8(self.source).map_err(|_| Problem::Text {
                    field: "the source",
                })?;
                check_text("the source", name, MAX_NAME)?;
                holds(
                    self.entry.is_empty() && self.options.is_empty(),
                    "a built-in kernel has neither an entry nor options beside its name",
                )
            }
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::CreateProgram {
            program: self.program.into(),
            format: self.format.number().into(),
            entry_length: (self.entry.len() as u16).into(),
            options_length: (self.options.len() as u16).into(),
            reserved: 0.into(),
            source_length: (self.source.len() as u32).into(),
            reserved_2: 0.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.source);
        out.extend_from_slice(self.entry.as_bytes());
        out.extend_from_slice(self.options.as_bytes());
    }
}

/// A part of the source of the next program that is created or described, whose own message has no
/// source then. Both sides have agreed on [`LONG_PROGRAMS`](crate::LONG_PROGRAMS).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ProgramSource<'a> {
    /// The part, which is not empty.
    pub bytes: &'a [u8],
}

impl std::fmt::Debug for ProgramSource<'_> {
    /// With the number of its bytes.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ProgramSource")
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

impl<'a> Body<'a> for ProgramSource<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::ProgramSource = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        Ok(Self {
            bytes: cursor.bytes("the bytes", fixed.length.get() as usize)?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        let length = self.bytes.len() as u64;
        within("the bytes", length, 1, MAX_PROGRAM.into())
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::ProgramSource {
            length: (self.bytes.len() as u32).into(),
            reserved: 0.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.bytes);
    }
}

macro_rules! ids {
    ($($(#[$documentation:meta])* $name:ident, $field:ident, $text:literal;)*) => {$(
        $(#[$documentation])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            /// Its id.
            pub $field: u64,
        }

        impl<'a> $crate::message::Body<'a> for $name {
            fn read(cursor: &mut $crate::message::cursor::Cursor<'a>) -> Result<Self, $crate::error::Problem> {
                let fixed: &$crate::layout::Id = cursor.fixed()?;
                Ok(Self { $field: fixed.id.get() })
            }

            fn check(&self) -> Result<(), $crate::error::Problem> {
                $crate::message::cursor::check_id($text, self.$field)
            }

            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.$field.to_le_bytes());
            }
        }
    )*};
}
pub(super) use ids;

ids! {
    /// A buffer is not used by any command after this one. It goes when those before are over.
    FreeBuffer, buffer, "the buffer";
    /// A program is not launched by any command after this one.
    FreeProgram, program, "the program";
}
