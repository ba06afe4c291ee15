//! The error of a kernel without a source.

use std::panic::Location;

use quipu_kernel_ir::VerifyError;

/// The reason for which no source can be made of a kernel that runs natively.
///
/// rustc refuses constructs that the kernel language does not have, at their lines. This error is
/// for problems that are known only when the source is made: in generic functions for these types,
/// say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Something that the kernel language does not have.
    #[error("{file}:{line}: {problem}")]
    Refused {
        /// The user's file.
        file: &'static str,
        /// The line in it.
        line: u32,
        /// The problem, and the remedy.
        problem: String,
    },
}

impl BuildError {
    /// The error of a module that was written, where each statement has its line.
    pub(super) fn of(error: VerifyError) -> Self {
        let (file, line) = error.location.map_or(("", 0), |at| (at.file, at.line));
        Self::Refused {
            file,
            line,
            problem: error.problem,
        }
    }

    pub(super) fn refused(location: &Location<'static>, problem: &str) -> Self {
        Self::Refused {
            file: location.file(),
            line: location.line(),
            problem: problem.to_owned(),
        }
    }
}
