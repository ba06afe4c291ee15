//! The limits of a device, and its preferences.

use std::fmt;

use super::WorkDivision;
use crate::error::{Exceeded, KernelError};

/// A limit that differs by dimension, counted from the fastest (last) one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerDimension {
    /// Of the last dimension.
    pub fastest: usize,
    /// Of the last dimension but one.
    pub second: usize,
    /// Of all slower ones.
    pub slower: usize,
}

impl PerDimension {
    /// No limit in any dimension.
    pub const UNLIMITED: Self = Self::splat(usize::MAX);

    /// The same limit in every dimension.
    pub const fn splat(limit: usize) -> Self {
        Self {
            fastest: limit,
            second: limit,
            slower: limit,
        }
    }

    /// The limit of one dimension of `D`, the slowest being 0.
    pub const fn of<const D: usize>(&self, dimension: usize) -> usize {
        match D.saturating_sub(dimension + 1) {
            0 => self.fastest,
            1 => self.second,
            _ => self.slower,
        }
    }
}

impl fmt::Display for PerDimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::UNLIMITED {
            f.write_str("unlimited")
        } else if *self == Self::splat(self.fastest) {
            write!(f, "{}", self.fastest)
        } else {
            write!(
                f,
                "{} (fastest), {}, {} (all slower)",
                self.fastest, self.second, self.slower
            )
        }
    }
}

/// The limits and preferences of a device, as far as work division is concerned.
///
/// Start from [`native`](Self::native) and set what differs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AcceleratorLimits {
    /// The number of blocks that really run at the same time: cores, or a GPU's multiprocessors.
    pub multiprocessors: usize,
    /// Threads that run in lockstep; 1 where there is no such thing.
    pub warp_size: usize,
    /// Blocks of a grid, by dimension.
    pub grid_blocks: PerDimension,
    /// Blocks of a grid in all.
    pub grid_block_count: usize,
    /// Threads of a block, by dimension.
    pub block_threads: PerDimension,
    /// Threads of a block in all.
    pub block_thread_count: usize,
    /// Elements of a thread, by dimension.
    pub thread_elements: PerDimension,
    /// Elements of a thread in all.
    pub thread_element_count: usize,
    /// Block-shared memory, in bytes.
    pub shared_bytes: usize,
    /// The number of threads per block that an automatic division aims at.
    pub preferred_block_threads: usize,
    /// The number of elements per thread that an automatic division aims at.
    pub preferred_thread_elements: usize,
}

impl AcceleratorLimits {
    /// A native device of so many cores (at least one is assumed).
    ///
    /// A block runs on one core, so one thread of many elements is best, and the grid and the
    /// elements are without limit. A block's threads and shared memory have limits only so that a
    /// mistake does not ask for gigabytes.
    pub const fn native(cores: usize) -> Self {
        Self {
            multiprocessors: if cores == 0 { 1 } else { cores },
            warp_size: 1,
            grid_blocks: PerDimension::UNLIMITED,
            grid_block_count: usize::MAX,
            block_threads: PerDimension::splat(1 << 16),
            block_thread_count: 1 << 16,
            thread_elements: PerDimension::UNLIMITED,
            thread_element_count: usize::MAX,
            shared_bytes: 16 << 20,
            preferred_block_threads: 1,
            preferred_thread_elements: 8192,
        }
    }

    /// Checks that a block may share so many bytes.
    ///
    /// # Errors
    /// [`KernelError::ExceedsLimits`].
    pub fn check_shared_bytes(&self, bytes: usize) -> Result<(), KernelError> {
        let mut check = Check {
            limits: self,
            exceeded: Vec::new(),
        };
        check.total("shared bytes per block", bytes, self.shared_bytes);
        check.finish()
    }

    pub(super) fn check<const D: usize>(
        &self,
        division: &WorkDivision<D>,
    ) -> Result<(), KernelError> {
        let grid = division.grid_blocks();
        let block = division.block_threads();
        let thread = division.thread_elements();
        let mut check = Check {
            limits: self,
            exceeded: Vec::new(),
        };
        for dimension in 0..D {
            check.dimension::<D>(
                "blocks per grid",
                dimension,
                grid[dimension],
                self.grid_blocks,
            );
            check.dimension::<D>(
                "threads per block",
                dimension,
                block[dimension],
                self.block_threads,
            );
            check.dimension::<D>(
                "elements per thread",
                dimension,
                thread[dimension],
                self.thread_elements,
            );
        }
        check.total(
            "blocks per grid",
            division.block_count(),
            self.grid_block_count,
        );
        check.total(
            "threads per block",
            division.threads_per_block(),
            self.block_thread_count,
        );
        check.total(
            "elements per thread",
            division.elements_per_thread(),
            self.thread_element_count,
        );
        check.finish()
    }
}

impl fmt::Display for AcceleratorLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = |limit: usize| match limit {
            usize::MAX => "unlimited".to_owned(),
            limit => limit.to_string(),
        };
        writeln!(f, "  blocks per grid: {}", self.grid_blocks)?;
        writeln!(
            f,
            "  blocks per grid, in all: {}",
            total(self.grid_block_count)
        )?;
        writeln!(f, "  threads per block: {}", self.block_threads)?;
        writeln!(
            f,
            "  threads per block, in all: {}",
            total(self.block_thread_count)
        )?;
        writeln!(f, "  elements per thread: {}", self.thread_elements)?;
        writeln!(
            f,
            "  elements per thread, in all: {}",
            total(self.thread_element_count)
        )?;
        writeln!(f, "  shared bytes per block: {}", total(self.shared_bytes))?;
        write!(
            f,
            "  multiprocessors: {}, warp size: {}",
            self.multiprocessors, self.warp_size
        )
    }
}

/// Gathers everything that is too large, so that one error names it all.
struct Check<'l> {
    limits: &'l AcceleratorLimits,
    exceeded: Vec<Exceeded>,
}

impl Check<'_> {
    fn dimension<const D: usize>(
        &mut self,
        quantity: &'static str,
        at: usize,
        asked: usize,
        limit: PerDimension,
    ) {
        let limit = limit.of::<D>(at);
        if asked > limit {
            self.exceeded.push(Exceeded {
                quantity,
                dimension: Some(at),
                asked,
                limit,
            });
        }
    }

    fn total(&mut self, quantity: &'static str, asked: usize, limit: usize) {
        if asked > limit {
            self.exceeded.push(Exceeded {
                quantity,
                dimension: None,
                asked,
                limit,
            });
        }
    }

    fn finish(self) -> Result<(), KernelError> {
        if self.exceeded.is_empty() {
            return Ok(());
        }
        Err(KernelError::ExceedsLimits {
            exceeded: self.exceeded,
            limits: Box::new(self.limits.clone()),
        })
    }
}
