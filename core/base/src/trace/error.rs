//! Errors of traces.

use std::io;
use std::path::PathBuf;

/// The reason for which a trace was not started, or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file could not be created.
    #[error("cannot create the trace file {path}: {source}; nothing is traced", path = path.display())]
    Create {
        /// The file asked for.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file refused bytes that were written to it.
    #[error("writing the trace {path} failed: {source}; the trace ends here", path = path.display())]
    Write {
        /// The trace file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file reached its size limit.
    #[error(
        "the trace {path} has reached its limit of {limit} bytes and ends here; QUIPU_TRACE_LIMIT (in MiB) raises it",
        path = path.display()
    )]
    Full {
        /// The trace file.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// A variable of the environment makes no sense.
    #[error(transparent)]
    Environment(#[from] quipu_environment::Misused),
    /// The process already writes a trace.
    #[error("a trace is already being written to {path}: one process has one trace", path = path.display())]
    AlreadyStarted {
        /// The file of the trace.
        path: PathBuf,
    },
}
