//! Occupancy: the number of blocks of a kernel that a device runs at once, and its use for dividing
//! the work.
//!
//! A GPU's multiprocessor holds several blocks, as many as its registers, its shared memory and its
//! lists of threads and blocks have room for; while some wait for memory, others compute. Their
//! number depends on the kernel, as it was compiled. So a device that knows it is asked about each
//! kernel ([`Occupancy`]), and an automatic division goes by the answer:
//! [`AcceleratorLimits::for_kernel`] gives limits with preferences that suit the kernel, and
//! [`WorkDivision::for_elements`](super::WorkDivision::for_elements) does the rest.

use super::AcceleratorLimits;
use crate::error::{Exceeded, KernelError};

/// A device's knowledge of a compiled kernel.
///
/// A driver that can ask its interface (CUDA has a call for it) answers from there. One that knows
/// numbers only has [`Multiprocessor::holding`].
pub trait Occupancy {
    /// The most threads that a block of the kernel can have.
    fn max_block_threads(&self) -> usize;

    /// The number of blocks of so many threads that one multiprocessor runs at once, with the
    /// shared memory that these blocks have; 0 if it cannot run any.
    fn resident_blocks(&self, block_threads: usize) -> usize;
}

/// The needs of a compiled kernel: compilers and drivers call them a kernel's attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelResources {
    /// Registers of a thread.
    pub registers: usize,
    /// Bytes that each block shares, whatever its size.
    pub shared_bytes: usize,
    /// Bytes that each block shares for each of its threads: of arrays whose length goes by the
    /// block's extent.
    pub shared_bytes_per_thread: usize,
    /// Threads of a block, at most.
    pub max_block_threads: usize,
}

/// The room of one multiprocessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Multiprocessor {
    /// Threads.
    pub threads: usize,
    /// Blocks.
    pub blocks: usize,
    /// Registers.
    pub registers: usize,
    /// Bytes of shared memory.
    pub shared_bytes: usize,
    /// Threads that registers are given to together: a warp.
    pub warp_size: usize,
    /// Registers that a warp is given come in multiples of this many.
    pub register_unit: usize,
    /// Bytes that a block is given come in multiples of this many.
    pub shared_unit: usize,
}

impl Multiprocessor {
    /// The occupancy of a kernel there.
    ///
    /// ```
    /// use quipu_kernel::{KernelResources, Multiprocessor, Occupancy};
    ///
    /// let multiprocessor = Multiprocessor {
    ///     threads: 2048,
    ///     blocks: 32,
    ///     registers: 65_536,
    ///     shared_bytes: 102_400,
    ///     warp_size: 32,
    ///     register_unit: 256,
    ///     shared_unit: 128,
    /// };
    /// let kernel = KernelResources {
    ///     registers: 64,
    ///     shared_bytes: 0,
    ///     shared_bytes_per_thread: 0,
    ///     max_block_threads: 1024,
    /// };
    /// // Registers for 1024 threads.
    /// assert_eq!(multiprocessor.holding(kernel).resident_blocks(256), 4);
    /// ```
    #[must_use]
    pub fn holding(self, kernel: KernelResources) -> impl Occupancy {
        Held {
            multiprocessor: self,
            kernel,
        }
    }
}

/// A multiprocessor with blocks of a kernel.
struct Held {
    multiprocessor: Multiprocessor,
    kernel: KernelResources,
}

/// The next multiple of a unit; more than there is of anything if that cannot be counted.
fn in_units(amount: usize, unit: usize) -> usize {
    amount
        .checked_next_multiple_of(unit.max(1))
        .unwrap_or(usize::MAX)
}

impl Occupancy for Held {
    fn max_block_threads(&self) -> usize {
        self.kernel.max_block_threads
    }

    fn resident_blocks(&self, block_threads: usize) -> usize {
        let Self {
            multiprocessor: has,
            kernel: needs,
        } = self;
        if block_threads == 0 || block_threads > needs.max_block_threads {
            return 0;
        }
        let warps = block_threads.div_ceil(has.warp_size.max(1));
        let of_warp = in_units(
            needs.registers.saturating_mul(has.warp_size.max(1)),
            has.register_unit,
        );
        let of_block = needs
            .shared_bytes_per_thread
            .saturating_mul(block_threads)
            .saturating_add(needs.shared_bytes);
        let room = |has: usize, needs: usize| has.checked_div(needs).unwrap_or(usize::MAX);
        has.blocks
            .min(room(
                has.threads,
                warps.saturating_mul(has.warp_size.max(1)),
            ))
            // A warp's registers are all of one multiprocessor, so it is warps that there is room
            // for.
            .min(room(has.registers, of_warp) / warps)
            .min(room(has.shared_bytes, in_units(of_block, has.shared_unit)))
    }
}

impl AcceleratorLimits {
    /// The limits for launches of one kernel: with blocks as large as the kernel's may be, a
    /// preference for blocks of which as many threads as possible run at once, and as many
    /// "multiprocessors" as blocks of that size do.
    ///
    /// Of sizes with equally many threads at once the one next to the device's preferred size is
    /// taken, the smaller of two. Sizes are multiples of the warp's.
    ///
    /// ```
    /// # use quipu_kernel::{AcceleratorLimits, KernelResources, Multiprocessor, WorkDivision};
    /// # let multiprocessor = Multiprocessor {
    /// #     threads: 2048, blocks: 32, registers: 65_536, shared_bytes: 102_400,
    /// #     warp_size: 32, register_unit: 256, shared_unit: 128,
    /// # };
    /// # let kernel = KernelResources {
    /// #     registers: 64, shared_bytes: 40_000, shared_bytes_per_thread: 0, max_block_threads: 1024,
    /// # };
    /// # let mut device = AcceleratorLimits::native(80);
    /// # device.warp_size = 32;
    /// # device.block_thread_count = 1024;
    /// let limits = device.for_kernel(&multiprocessor.holding(kernel))?;
    /// // Shared memory for two blocks, registers for 1024 threads.
    /// assert_eq!((limits.preferred_block_threads, limits.multiprocessors), (512, 160));
    /// let division = WorkDivision::<1>::for_elements(1 << 24, &limits)?;
    /// assert_eq!(division.threads_per_block(), 512);
    /// # Ok::<(), quipu_kernel::KernelError>(())
    /// ```
    ///
    /// # Errors
    /// [`KernelError::ExceedsLimits`] if no block of the kernel fits on the device.
    pub fn for_kernel(&self, kernel: &impl Occupancy) -> Result<Self, KernelError> {
        let most = self.block_thread_count.min(kernel.max_block_threads());
        let warp = self.warp_size.clamp(1, most.max(1));
        let preferred = self.preferred_block_threads;
        let best = (1..=most / warp)
            .map(|warps| warps * warp)
            .map(|threads| (threads, kernel.resident_blocks(threads)))
            .filter(|(_, blocks)| *blocks > 0)
            // The last of equals is taken, so from the largest on.
            .rev()
            .max_by_key(|(threads, blocks)| {
                let at_once = threads.saturating_mul(*blocks);
                (at_once, std::cmp::Reverse(threads.abs_diff(preferred)))
            });
        let Some((threads, blocks)) = best else {
            return Err(KernelError::ExceedsLimits {
                exceeded: vec![Exceeded {
                    quantity: "threads per block that the kernel's registers and shared memory leave room for",
                    dimension: None,
                    asked: warp,
                    limit: 0,
                }],
                limits: Box::new(self.clone()),
            });
        };
        let mut limits = self.clone();
        limits.block_thread_count = most;
        limits.preferred_block_threads = threads;
        limits.multiprocessors = self.multiprocessors.saturating_mul(blocks);
        Ok(limits)
    }
}
