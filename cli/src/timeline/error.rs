//! Reasons for which a trace could not be read.

use std::io;

/// An error of a trace file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TimelineError {
    /// The file could not be read.
    #[error("reading the trace failed: {0}")]
    Read(#[source] io::Error),
    /// The file has nothing in it.
    #[error(
        "the trace is empty: the traced program wrote nothing at all; was QUIPU_TRACE set to this file?"
    )]
    Empty,
    /// The file is not a trace, or not from here on.
    #[error(
        "not a trace at line {line}, column {column}: {what}; \
         expected the Chrome trace events that QUIPU_TRACE=file.json writes"
    )]
    Malformed {
        /// The line, from 1.
        line: usize,
        /// The column in it, in bytes, from 1.
        column: usize,
        /// The fault there.
        what: String,
    },
    /// The file is a JSON object without events.
    #[error(
        "not a trace: a JSON object without \"traceEvents\"; expected the file that QUIPU_TRACE=file.json writes"
    )]
    NoEvents,
}

impl From<serde_json::Error> for TimelineError {
    fn from(error: serde_json::Error) -> Self {
        if error.is_io() {
            return TimelineError::Read(error.into());
        }
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        let what = text
            .strip_suffix(&format!(" at line {line} column {column}"))
            .unwrap_or(&text);
        TimelineError::Malformed {
            line,
            column,
            what: what.to_owned(),
        }
    }
}
