//! Enrolment of a client's key at a node, in a protocol of its own,
//! [`ENROLMENT_PROTOCOL`](crate::ENROLMENT_PROTOCOL).

use super::Body;
use super::cursor::{Cursor, RESERVED, check_text, zero};
use crate::error::{Problem, holds};
use crate::layout;
use crate::limits::MAX_NAME;
use zerocopy::IntoBytes;

/// A client asks that the key with which it has authenticated be enrolled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Enrol<'a> {
    /// The invitation's token. A secret.
    pub token: [u8; 32],
    /// The client's name for itself.
    pub name: &'a str,
}

impl std::fmt::Debug for Enrol<'_> {
    /// Without the token.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Enrol")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<'a> Body<'a> for Enrol<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Enrol = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        Ok(Self {
            token: fixed.token,
            name: cursor.text("the name", fixed.name_length.get().into())?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        check_text("the name", self.name, MAX_NAME)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Enrol {
            token: self.token,
            name_length: (self.name.len() as u16).into(),
            reserved: [0; 6],
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.name.as_bytes());
    }
}

/// The client's key is enrolled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enrolled<'a> {
    /// The node's name.
    pub name: &'a str,
}

impl<'a> Body<'a> for Enrolled<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Enrolled = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        Ok(Self {
            name: cursor.text("the name", fixed.name_length.get().into())?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        holds(!self.name.is_empty(), "a node has a name")?;
        check_text("the name", self.name, MAX_NAME)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Enrolled {
            name_length: (self.name.len() as u16).into(),
            reserved: [0; 6],
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.name.as_bytes());
    }
}
