//! Reading a message from its front to its end.

use crate::error::{Problem, within};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The rest of a message.
pub(crate) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Self {
        Self(body)
    }

    fn short(&self, field: &'static str, needed: usize) -> Problem {
        Problem::Short {
            field,
            needed,
            there: self.0.len(),
        }
    }

    /// True if nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next fixed part.
    pub(crate) fn fixed<T>(&mut self) -> Result<&'a T, Problem>
    where
        T: FromBytes + Immutable + KnownLayout + Unaligned,
    {
        let short = self.short("its fixed part", size_of::<T>());
        let (part, rest) = T::ref_from_prefix(self.0).map_err(|_| short)?;
        self.0 = rest;
        Ok(part)
    }

    /// The next so many elements.
    pub(crate) fn list<T>(&mut self, field: &'static str, count: usize) -> Result<&'a [T], Problem>
    where
        T: FromBytes + Immutable + KnownLayout + Unaligned,
    {
        let short = self.short(field, count.saturating_mul(size_of::<T>()));
        let (list, rest) = <[T]>::ref_from_prefix_with_elems(self.0, count).map_err(|_| short)?;
        self.0 = rest;
        Ok(list)
    }

    /// The next so many bytes.
    pub(crate) fn bytes(
        &mut self,
        field: &'static str,
        length: usize,
    ) -> Result<&'a [u8], Problem> {
        self.list(field, length)
    }

    /// The next so many bytes as a text. The check of the message checks its content.
    pub(crate) fn text(&mut self, field: &'static str, length: usize) -> Result<&'a str, Problem> {
        std::str::from_utf8(self.bytes(field, length)?).map_err(|_| Problem::Text { field })
    }

    /// Nothing but padding is left.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        if self.0.len() >= 8 {
            return Err(Problem::Trailing {
                bytes: self.0.len(),
            });
        }
        zero("the padding", self.0)
    }
}

/// Fails unless all is zero.
pub(crate) fn zero(field: &'static str, value: impl IsZero) -> Result<(), Problem> {
    if value.is_zero() {
        Ok(())
    } else {
        Err(Problem::NotZero { field })
    }
}

/// The text that every reserved field has in errors.
pub(crate) const RESERVED: &str = "a reserved field";

pub(crate) trait IsZero {
    fn is_zero(&self) -> bool;
}

impl IsZero for &[u8] {
    fn is_zero(&self) -> bool {
        self.iter().all(|byte| *byte == 0)
    }
}

impl<const N: usize> IsZero for [u8; N] {
    fn is_zero(&self) -> bool {
        self.as_slice().is_zero()
    }
}

impl IsZero for u8 {
    fn is_zero(&self) -> bool {
        *self == 0
    }
}

impl IsZero for U16 {
    fn is_zero(&self) -> bool {
        self.get() == 0
    }
}

impl IsZero for U32 {
    fn is_zero(&self) -> bool {
        self.get() == 0
    }
}

impl IsZero for U64 {
    fn is_zero(&self) -> bool {
        self.get() == 0
    }
}

/// Fails unless a text is short enough and has no characters in it that control a terminal.
pub(crate) fn check_text(field: &'static str, text: &str, most: usize) -> Result<(), Problem> {
    within(field, text.len() as u64, 0, most as u64)?;
    if text.chars().all(is_for_people) {
        Ok(())
    } else {
        Err(Problem::Text { field })
    }
}

/// True if a character may be in a text for people: neither a control character, nor one that has
/// what stands around it shown in another order.
pub(crate) fn is_for_people(character: char) -> bool {
    let reorders = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !reorders && (!character.is_control() || matches!(character, '\n' | '\t'))
}

/// Fails unless a number may be an id.
pub(crate) fn check_id(field: &'static str, id: u64) -> Result<(), Problem> {
    within(field, id, 1, crate::limits::MAX_ID)
}
