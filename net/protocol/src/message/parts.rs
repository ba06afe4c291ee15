//! Programs that are linked of several parts: the parts as one run of bytes.
//!
//! Both sides have agreed on [`PARTS`](crate::PARTS).

use super::cursor::{Cursor, check_text};
use super::numbers;
use crate::error::{Problem, holds, within};
use crate::layout;
use crate::limits::LARGE;
use zerocopy::IntoBytes;

numbers! {
    /// In which form a part of a program is.
    PartForm, "the form of a part" {
        /// OpenCL C, as text.
        OpenClC = 1,
        /// A module of SPIR-V.
        SpirV = 2,
    }
}

/// A part of a program that is linked of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramPart<'a> {
    /// Its form.
    pub form: PartForm,
    /// The text or the module.
    pub source: &'a [u8],
    /// The options for the compiler of a text; empty of a module.
    pub options: &'a str,
}

impl<'a> ProgramPart<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Part = cursor.fixed()?;
        Ok(Self {
            form: PartForm::of(fixed.form.get())?,
            source: cursor.bytes("a part's source", fixed.source_length.get() as usize)?,
            options: cursor.text("a part's options", fixed.options_length.get().into())?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        check_text("a part's options", self.options, LARGE.options)?;
        match self.form {
            PartForm::OpenClC => check_source(self.source),
            PartForm::SpirV => holds(
                !self.source.is_empty()
                    && self.source.len().is_multiple_of(4)
                    && self.options.is_empty(),
                "a module of SPIR-V is words, and has no options",
            ),
        }
    }

    /// Appends the part to others.
    pub fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Part {
            source_length: (self.source.len() as u32).into(),
            form: self.form.number().into(),
            options_length: (self.options.len() as u16).into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.source);
        out.extend_from_slice(self.options.as_bytes());
    }
}

/// Fails unless it is a program's text.
pub(super) fn check_source(source: &[u8]) -> Result<(), Problem> {
    let text = std::str::from_utf8(source).ok();
    match text.is_some_and(|text| !text.contains('\0')) {
        true => holds(!source.is_empty(), "a program without source"),
        false => Err(Problem::Text {
            field: "the source",
        }),
    }
}

/// The parts that bytes consist of.
///
/// # Errors
/// If they are none, or too many.
pub fn parts(bytes: &[u8]) -> Result<Vec<ProgramPart<'_>>, Problem> {
    let (mut cursor, mut parts) = (Cursor::new(bytes), Vec::new());
    while !cursor.is_empty() {
        let part = ProgramPart::read(&mut cursor)?;
        part.check()?;
        parts.push(part);
        within(
            "the number of parts",
            parts.len() as u64,
            1,
            LARGE.parts as u64,
        )?;
    }
    holds(!parts.is_empty(), "a program without parts")?;
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_as_they_were_written_and_nothing_else_is() {
        let text = ProgramPart {
            form: PartForm::OpenClC,
            source: b"int f();",
            options: "-w",
        };
        let module = ProgramPart {
            form: PartForm::SpirV,
            source: &[1, 2, 3, 4],
            options: "",
        };
        let mut bytes = Vec::new();
        for part in [text, module, text] {
            part.write(&mut bytes);
        }
        assert_eq!(parts(&bytes).unwrap(), [text, module, text]);
        for length in 0..bytes.len() {
            let cut = parts(&bytes[..length]);
            assert!(
                length == 18 || length == 30 || cut.is_err(),
                "{length}: {cut:?}"
            );
        }
        let is_refused = |part: ProgramPart<'_>| {
            let mut bytes = Vec::new();
            part.write(&mut bytes);
            parts(&bytes).is_err()
        };
        for source in [&b""[..], b"a\0", b"\xff"] {
            assert!(is_refused(ProgramPart { source, ..text }));
        }
        for source in [&b""[..], b"abc"] {
            assert!(is_refused(ProgramPart { source, ..module }));
        }
        assert!(is_refused(ProgramPart {
            options: "-w",
            ..module
        }));
        let mut many = Vec::new();
        for _ in 0..LARGE.parts {
            text.write(&mut many);
        }
        assert_eq!(parts(&many).unwrap().len(), LARGE.parts);
        text.write(&mut many);
        assert!(parts(&many).is_err());
    }
}
