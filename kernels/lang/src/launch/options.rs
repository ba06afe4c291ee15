//! Options for a worker that runs the groups of a launch: fast, or in a mode that finds mistakes.

use std::ffi::OsString;
use std::sync::OnceLock;

use quipu_environment::{self as environment, CHECK, EXECUTION, FEATURE_LEVEL, Misused};

use crate::error::KernelError;
use crate::level::FeatureLevel;

/// The way in which a launch's threads are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Execution {
    /// As fast as it goes: loops, also between barriers, and polled state machines for blocks of
    /// which these cannot be made.
    #[default]
    Native,
    /// As GPUs do: the threads of a warp go on together, and exchange their values in warp
    /// functions. A test mode: slow. Kernels without barriers run as ever.
    Lockstep {
        /// Threads of a warp: 1 to 64.
        warp_size: u32,
    },
    /// Each thread of a block is a thread of the operating system, and barriers really wait. A test
    /// mode: very slow. Kernels without barriers run as ever.
    OsThreads {
        /// Threads of a warp: 1 to 64.
        warp_size: u32,
    },
}

/// The options of a worker that runs the groups of a launch.
///
/// The environment's options hold if no others are set:
///
/// | variable | values |
/// |---|---|
/// | `QUIPU_EXECUTION` | `native`, `lockstep:32`, `threads`, `threads:32` (with a warp's size) |
/// | `QUIPU_CHECK` | `1`: [`check`](Self::check) |
/// | `QUIPU_FEATURE_LEVEL` | a [`FeatureLevel`]'s name: the highest to use; unless it is below the machine's, a lower one [that is faster](crate::level) may be |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunOptions {
    /// The way in which threads are run.
    pub execution: Execution,
    /// True if mistakes are looked for: a panic (an index out of bounds, for one) becomes an error
    /// that names kernel, thread and line. Two threads that reach the same element of raw memory
    /// without a barrier between are reported with both lines. So are two that change it in steps
    /// of a scope that leaves one of them out. Slow.
    pub check: bool,
    /// The highest feature level to use.
    pub level: FeatureLevel,
}

/// The environment's options, once they have been read.
static OPTIONS: OnceLock<Result<RunOptions, KernelError>> = OnceLock::new();

impl RunOptions {
    /// The default options, without a look at the environment.
    pub const fn new() -> Self {
        Self {
            execution: Execution::Native,
            check: false,
            level: FeatureLevel::V4,
        }
    }

    /// The environment's options (as they were when first read).
    ///
    /// # Errors
    /// [`KernelError::Environment`] if that makes no sense.
    #[inline]
    pub fn from_environment() -> Result<Self, KernelError> {
        match OPTIONS.get() {
            Some(Ok(options)) => Ok(*options),
            _ => Self::first_from_environment(),
        }
    }

    #[cold]
    fn first_from_environment() -> Result<Self, KernelError> {
        OPTIONS
            .get_or_init(|| {
                Self::read(|variable| std::env::var_os(variable)).map_err(KernelError::from)
            })
            .clone()
    }

    fn read(environment: impl Fn(&str) -> Option<OsString>) -> Result<Self, Misused> {
        let mut options = Self::new();
        if let Some(check) = CHECK.get_from(&environment)? {
            options.check = check;
        }
        if let Some(level) = FEATURE_LEVEL.get_from(&environment)? {
            options.level = level
                .parse()
                .map_err(|()| FEATURE_LEVEL.refuse(level, String::new()))?;
        }
        if let Some(execution) = EXECUTION.get_from(&environment)? {
            options.execution = match execution {
                environment::Execution::Native => Execution::Native,
                environment::Execution::Lockstep(warp_size) => Execution::Lockstep { warp_size },
                environment::Execution::Threads(warp_size) => Execution::OsThreads { warp_size },
            };
        }
        Ok(options)
    }
}

impl Default for RunOptions {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_read_and_nonsense_is_named() {
        let read = |variable: &'static str, value: &str| {
            let value = OsString::from(value);
            RunOptions::read(move |asked| (asked == variable).then(|| value.clone()))
        };
        assert_eq!(RunOptions::read(|_| None), Ok(RunOptions::new()));
        assert_eq!(
            read(CHECK.name(), "1").map(|options| options.check),
            Ok(true)
        );
        let level = read(FEATURE_LEVEL.name(), "v3").map(|options| options.level);
        assert_eq!(level, Ok(FeatureLevel::V3));
        for (value, expected) in [
            ("native", Execution::Native),
            ("lockstep:8", Execution::Lockstep { warp_size: 8 }),
            ("threads", Execution::OsThreads { warp_size: 1 }),
            ("threads:64", Execution::OsThreads { warp_size: 64 }),
        ] {
            let execution = read(EXECUTION.name(), value).map(|options| options.execution);
            assert_eq!(execution, Ok(expected));
        }
        for (variable, value) in [
            (CHECK.name(), "yes"),
            (FEATURE_LEVEL.name(), "avx"),
            (EXECUTION.name(), "lockstep:65"),
            (EXECUTION.name(), "native:5"),
            (EXECUTION.name(), "fast"),
        ] {
            let error = read(variable, value).expect_err("nonsense").to_string();
            assert!(error.contains(variable) && error.contains(value), "{error}");
        }
    }
}
