//! Errors in received bytes, or in a message to be sent.

use std::fmt;

/// Bytes that make no sense, or a message that must not be sent. The side that receives such bytes
/// closes the connection: the bytes after them have no meaning either.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct WireError {
    /// The place of the fault.
    pub place: Place,
    /// The fault.
    pub problem: Problem,
}

/// The place of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a frame's header.
    Header,
    /// In a message of this kind.
    Message(&'static str),
    /// In the order of messages.
    Order,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => formatter.write_str("a frame's header"),
            Self::Message(name) => write!(formatter, "message '{name}'"),
            Self::Order => formatter.write_str("the order of messages"),
        }
    }
}

/// A fault in a frame or a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A length of a frame that no frame has.
    #[error("a frame of {length} bytes; it has 16 to {most}, in multiples of 8")]
    FrameLength {
        /// The length that the header gives, in bytes.
        length: u32,
        /// The most bytes that are allowed here.
        most: u32,
    },
    /// A kind that this version does not know.
    #[error("kind {kind:#06x} is not one of this version")]
    Kind {
        /// The number of the kind in the header.
        kind: u16,
    },
    /// The frame ends within the message.
    #[error("{field} needs {needed} bytes, and {there} are left")]
    Short {
        /// The field that is cut off.
        field: &'static str,
        /// Bytes that it has.
        needed: usize,
        /// Bytes that there are.
        there: usize,
    },
    /// Bytes after the message's end.
    #[error("{bytes} bytes follow its end")]
    Trailing {
        /// The number of bytes that follow.
        bytes: usize,
    },
    /// Something has to be zero and is not.
    #[error("{field} is not zero")]
    NotZero {
        /// The field.
        field: &'static str,
    },
    /// A number that stands for nothing.
    #[error("{field} is {value}, which stands for nothing")]
    Unknown {
        /// The field with this number.
        field: &'static str,
        /// The number.
        value: u64,
    },
    /// A number, or a count, out of its bounds.
    #[error("{field} is {value}; it is {least} to {most}")]
    Bounds {
        /// The field with this number.
        field: &'static str,
        /// The number.
        value: u64,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A text that is not UTF-8, or has characters in it that control a terminal.
    #[error("{field} is not a text: UTF-8 without control characters but line feeds and tabs")]
    Text {
        /// The field.
        field: &'static str,
    },
    /// A rule that concerns several fields.
    #[error("{0}")]
    Rule(&'static str),
}

impl Problem {
    pub(crate) fn at(self, place: Place) -> WireError {
        WireError {
            place,
            problem: self,
        }
    }
}

/// Fails unless a number is within bounds.
pub(crate) fn within(
    field: &'static str,
    value: u64,
    least: u64,
    most: u64,
) -> Result<(), Problem> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Problem::Bounds {
        field,
        value,
        least,
        most,
    })
}

/// Fails with a rule unless something holds.
pub(crate) fn holds(it: bool, rule: &'static str) -> Result<(), Problem> {
    if it { Ok(()) } else { Err(Problem::Rule(rule)) }
}
