//! The options of a benchmark.

use std::path::PathBuf;

use crate::error::BenchError;

/// The scale of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// The benchmark's own parameters.
    #[default]
    Full,
    /// The same shapes with fewer repetitions: at most ten seconds per benchmark.
    Quick,
    /// A handful of commands: exercises every line, its figures mean nothing. For tests.
    Tiny,
}

impl Scale {
    /// Chooses one of three values.
    pub fn choose<T>(self, full: T, quick: T, tiny: T) -> T {
        match self {
            Scale::Full => full,
            Scale::Quick => quick,
            Scale::Tiny => tiny,
        }
    }
}

/// The options of one benchmark run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The scale of the run (`--quick`).
    pub scale: Scale,
    /// Kept rounds; the benchmark's own number when `None`.
    pub runs: Option<usize>,
    /// Worker counts to measure; powers of two up to the number of cores when empty.
    pub workers: Vec<usize>,
    /// The devices to measure, by the names that `quipu devices` gives them (`--device`); all real
    /// ones when empty, or all of the nodes. For benchmarks of devices.
    pub devices: Vec<String>,
    /// The devices of nodes (`--node`); this machine's when `None`. For benchmarks of devices.
    pub of_nodes: Option<quipu::Platform>,
    /// The number of nodes (`--nodes`); the benchmark's own number when `None`. For benchmarks of
    /// several nodes.
    pub nodes: Option<usize>,
    /// The arguments with which this program, started anew, comes to
    /// [`serve_session`](crate::serve_session), which is handed one more: so nodes' sessions have
    /// processes of their own, where the system has such. In this process when `None`.
    pub sessions: Option<Vec<std::ffi::OsString>>,
    /// The arguments with which this program, started anew, comes to
    /// [`serve_platform`](crate::serve_platform), which is handed one more. Platforms are not
    /// measured when `None`.
    pub platforms: Option<Vec<std::ffi::OsString>>,
    /// The cases to measure (`--case`); all when empty. For `opencl-kernels` and `opencl-calls`.
    pub cases: Vec<String>,
    /// The file for the JSON form (`--json`).
    pub json: Option<PathBuf>,
}

impl Options {
    /// Checks every value that a user can have typed.
    ///
    /// # Errors
    /// [`BenchError::InvalidOption`] for zero runs and zero workers.
    pub fn validate(&self) -> Result<(), BenchError> {
        if self.runs == Some(0) {
            return Err(BenchError::InvalidOption {
                option: "--runs",
                given: "0".into(),
                wrong: "which measures nothing",
                advice: "give at least 1",
            });
        }
        if self.nodes == Some(0) {
            return Err(BenchError::InvalidOption {
                option: "--nodes",
                given: "0".into(),
                wrong: "which leaves nobody to compute",
                advice: "give at least 1 node",
            });
        }
        if self.workers.contains(&0) {
            return Err(BenchError::InvalidOption {
                option: "--workers",
                given: "0".into(),
                wrong: "which leaves nobody to run a command",
                advice: "give at least 1 worker",
            });
        }
        Ok(())
    }

    /// The worker counts to measure on a machine with so many cores: ascending, no duplicates.
    pub fn worker_counts(&self, cores: usize) -> Vec<usize> {
        let mut counts = if !self.workers.is_empty() {
            self.workers.clone()
        } else if self.scale == Scale::Full {
            let powers = std::iter::successors(Some(1), |count| Some(count * 2));
            powers
                .take_while(|&count| count < cores)
                .chain([cores.max(1)])
                .collect()
        } else {
            vec![1, cores.max(1)]
        };
        counts.sort_unstable();
        counts.dedup();
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_counts_are_powers_of_two_and_all_cores() {
        let full = Options::default();
        assert_eq!(full.worker_counts(1), [1]);
        assert_eq!(full.worker_counts(2), [1, 2]);
        assert_eq!(full.worker_counts(6), [1, 2, 4, 6]);
        assert_eq!(full.worker_counts(16), [1, 2, 4, 8, 16]);
        let quick = Options {
            scale: Scale::Quick,
            ..Options::default()
        };
        assert_eq!(quick.worker_counts(16), [1, 16]);
    }

    #[test]
    fn what_the_user_asks_for_is_sorted_and_kept() {
        let asked = Options {
            workers: vec![3, 1, 3],
            ..Options::default()
        };
        assert_eq!(asked.worker_counts(2), [1, 3]);
    }

    #[test]
    fn zero_is_refused_with_advice() {
        let none = Options {
            workers: vec![1, 0],
            ..Options::default()
        };
        let message = none.validate().expect_err("0 workers").to_string();
        assert!(message.contains("at least 1 worker"), "{message}");
        let never = Options {
            runs: Some(0),
            ..Options::default()
        };
        assert!(never.validate().is_err());
        let alone = Options {
            nodes: Some(0),
            ..Options::default()
        };
        let message = alone.validate().expect_err("0 nodes").to_string();
        assert!(message.contains("at least 1 node"), "{message}");
        assert!(Options::default().validate().is_ok());
    }
}
