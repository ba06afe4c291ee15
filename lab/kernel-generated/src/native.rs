//! Running a kernel natively, in every way that there is.

use std::panic::{AssertUnwindSafe, catch_unwind};

use quipu_kernel::{
    BlockScratch, Entry, Execution, FeatureLevel, GroupKernel, KernelError, PassAll, RunOptions,
    WorkDivision,
};

/// A way to run a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// Its name.
    pub name: &'static str,
    options: RunOptions,
    /// The number of workers that share the groups.
    workers: u64,
}

/// The reason for which a kernel did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The thread of the grid, where it is known.
    pub thread: Option<u64>,
    /// The message.
    pub message: String,
}

impl Way {
    /// The way that all others are compared with: serial, at the best feature level, with checks,
    /// so that failures are known by thread.
    #[must_use]
    pub fn checked() -> Self {
        let mut options = RunOptions::new();
        options.check = true;
        Self {
            name: "checked",
            options,
            workers: 1,
        }
    }

    /// All others that there are for a kernel.
    #[must_use]
    pub fn all(is_block: bool) -> Vec<Self> {
        let way = |name, execution, level, workers| {
            let mut options = RunOptions::new();
            options.execution = execution;
            options.level = level;
            Self {
                name,
                options,
                workers,
            }
        };
        let native = Execution::Native;
        let lockstep = |warp_size| Execution::Lockstep { warp_size };
        let best = FeatureLevel::V4;
        let mut ways = vec![
            way("baseline", native, FeatureLevel::Baseline, 1),
            way("x86-64-v2", native, FeatureLevel::V2, 1),
            way("x86-64-v3", native, FeatureLevel::V3, 1),
            way("x86-64-v4", native, best, 1),
            way("pool", native, best, 3),
        ];
        if is_block {
            ways.extend([
                way("lockstep:1", lockstep(1), best, 1),
                way("lockstep:4", lockstep(4), best, 1),
                way("lockstep:32", lockstep(32), best, 2),
                way("threads", Execution::OsThreads { warp_size: 1 }, best, 1),
            ]);
        }
        ways
    }

    /// Runs a kernel with its arguments.
    ///
    /// # Errors
    /// Its failure.
    pub fn run<'b, K, A, const D: usize>(
        &self,
        arguments: A,
        [blocks, threads, elements]: [[usize; D]; 3],
    ) -> Result<(), Failure>
    where
        K: Entry<D>,
        A: PassAll<'b, K::Parameters, D>,
    {
        let threads_of = Threads {
            blocks: &blocks,
            threads: &threads,
        };
        let failed = |error| failure(error, threads_of);
        let division = WorkDivision::new(blocks, threads, elements).map_err(failed)?;
        let launch = K::prepare(arguments.views(), division).map_err(failed)?;
        self.launch(&launch, threads_of)
    }

    fn launch(&self, launch: &dyn GroupKernel, threads: Threads<'_>) -> Result<(), Failure> {
        let count = launch.group_count();
        let worker = |worker: u64| {
            let mut scratch = BlockScratch::with_options(self.options);
            let run = || {
                if self.workers == 1 {
                    // SAFETY: one worker, which runs each group once; the views are borrows that
                    // the launch keeps.
                    return unsafe { launch.run_groups(0..count, &mut scratch) };
                }
                let mut group = worker;
                while group < count {
                    // SAFETY: each group is one worker's, which runs it once.
                    unsafe { launch.run_groups(group..group + 1, &mut scratch) }?;
                    group += self.workers;
                }
                Ok(())
            };
            match catch_unwind(AssertUnwindSafe(run)) {
                Ok(result) => result.map_err(|error| failure(error, threads)),
                Err(payload) => Err(Failure {
                    thread: None,
                    message: text(&*payload),
                }),
            }
        };
        if self.workers == 1 {
            return worker(0);
        }
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.workers)
                .map(|number| scope.spawn(move || worker(number)))
                .collect();
            let mut result = Ok(());
            for worker in workers {
                match worker.join() {
                    Ok(one) => result = result.and(one),
                    Err(payload) => std::panic::resume_unwind(payload),
                }
            }
            result
        })
    }
}

/// The number of blocks and threads of a launch.
#[derive(Clone, Copy)]
struct Threads<'a> {
    blocks: &'a [usize],
    threads: &'a [usize],
}

impl Threads<'_> {
    /// The row-major number, in the threads of the grid, of a thread of a block, both by their
    /// numbers.
    fn number(self, mut block: u64, mut thread: u64) -> u64 {
        let (mut number, mut stride) = (0, 1);
        for (blocks, threads) in self.blocks.iter().zip(self.threads).rev() {
            let (blocks, threads) = (*blocks as u64, *threads as u64);
            number += (block % blocks * threads + thread % threads) * stride;
            stride *= blocks * threads;
            block /= blocks;
            thread /= threads;
        }
        number
    }
}

fn failure(error: KernelError, threads: Threads<'_>) -> Failure {
    let thread = match &error {
        KernelError::Panicked { group, thread, .. } => Some(threads.number(*group, *thread as u64)),
        _ => None,
    };
    Failure {
        thread,
        message: error.to_string(),
    }
}

/// The message of a panic.
#[must_use]
pub fn text(payload: &(dyn std::any::Any + Send)) -> String {
    let known = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied());
    known.unwrap_or("a panic that is no text").to_owned()
}
