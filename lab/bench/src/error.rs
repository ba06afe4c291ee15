//! Errors of benchmarks, for people.

use std::path::PathBuf;

use thiserror::Error;

/// The measured runtime could not do what a benchmark asked of it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SubjectError {
    /// The subject has no implementation of this benchmark.
    #[error(
        "{device} does not run the benchmark \"{benchmark}\"; choose another benchmark or device"
    )]
    Unsupported {
        /// The device that was asked.
        device: String,
        /// The benchmark it lacks.
        benchmark: &'static str,
    },
    /// The subject tried and failed.
    #[error("{what} failed: {source}")]
    Failed {
        /// The subject's operation.
        what: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl SubjectError {
    /// Wraps the runtime's own error: `what` says which step failed.
    pub fn failed(
        what: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        SubjectError::Failed {
            what: what.into(),
            source: source.into(),
        }
    }
}

/// The reason for which a benchmark gave no report.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BenchError {
    /// No benchmark has this name.
    #[error("there is no benchmark named \"{asked}\"; the names are: {known}")]
    UnknownBenchmark {
        /// The name that was given.
        asked: String,
        /// Every name there is, separated by commas.
        known: String,
    },
    /// No device has this name.
    #[error("there is no device \"{asked}\"; there are: {known}")]
    UnknownDevice {
        /// The name that was given.
        asked: String,
        /// Every device there is, separated by commas.
        known: String,
    },
    /// A device's own interface, which is compared with, failed.
    #[error("the hand-written reference failed: {0}")]
    Raw(#[from] crate::reference::raw::RawError),
    /// An option's value cannot be used.
    #[error("the option {option} was {given}, {wrong}; {advice}")]
    InvalidOption {
        /// The option as the user knows it.
        option: &'static str,
        /// The value that was given.
        given: String,
        /// The fault of it.
        wrong: &'static str,
        /// The advice.
        advice: &'static str,
    },
    /// The measured code computed something else than it should have.
    #[error(
        "{benchmark}, {case}: {what} is wrong: expected {expected}, found {found}; \
         a figure for a wrong result means nothing, so none is reported"
    )]
    WrongResult {
        /// The benchmark.
        benchmark: &'static str,
        /// The case in it.
        case: String,
        /// The quantity that was verified.
        what: String,
        /// The right value.
        expected: String,
        /// The value.
        found: String,
    },
    /// The measured runtime failed.
    #[error("the measured runtime failed: {0}")]
    Subject(#[from] SubjectError),
    /// A connection on loopback, or a node there, could not be had, or was lost.
    #[error("a connection on loopback failed: {0}")]
    Network(Box<dyn std::error::Error + Send + Sync>),
    /// The threads of a reference executor could not be started.
    #[error(
        "cannot start {workers} threads for the reference {reference}: {source}; try fewer workers"
    )]
    Threads {
        /// The reference executor.
        reference: &'static str,
        /// The number of threads that were asked for.
        workers: usize,
        /// The system's answer.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The system does not offer a measurement.
    #[error("{benchmark} needs {what}, which this system does not report; run it on {instead}")]
    Unavailable {
        /// The benchmark.
        benchmark: &'static str,
        /// Its requirement.
        what: &'static str,
        /// The systems on which it works.
        instead: &'static str,
    },
    /// A result file could not be written.
    #[error(
        "cannot write the results to {}: {source}; check that the folder exists and is writable",
        path.display()
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The terminal or pipe that the table goes to has gone.
    #[error("cannot print the results: {0}")]
    Print(#[from] std::io::Error),
}
