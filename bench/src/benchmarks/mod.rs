//! The benchmarks: one driver each, found by name.
//!
//! A driver prepares the subject and the references, interleaves them, verifies every result and
//! writes rows and gates. Its parameters are the seed's; `--quick` has fewer repetitions of the
//! same shapes.

mod babelstream;
mod enqueue;
mod graphs;
mod idle;
mod imbalance;
mod in_order_parallel;
mod memory;
mod no_op;
mod serial;

use crate::error::BenchError;
use crate::harness::{Options, Report, Session};
use crate::subject::Subject;

/// One benchmark.
pub struct Benchmark {
    name: &'static str,
    summary: &'static str,
    driver: fn(&Session<'_>, &mut Report) -> Result<(), BenchError>,
}

impl Benchmark {
    /// The name by which it is asked for.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What it measures, in one line.
    pub fn summary(&self) -> &'static str {
        self.summary
    }
}

/// Every benchmark, in the order in which they are listed.
pub fn list() -> &'static [Benchmark] {
    static ALL: [Benchmark; 12] = [
        Benchmark {
            name: "in-order",
            summary: "a serial graph of tiny kernels in one in-order queue",
            driver: serial::in_order,
        },
        Benchmark {
            name: "out-of-order",
            summary: "the same graph, alternating between two out-of-order queues by events",
            driver: serial::out_of_order,
        },
        Benchmark {
            name: "kernel-imbalance",
            summary: "batches of 1 to 64 parallel kernels of different length",
            driver: imbalance::kernels,
        },
        Benchmark {
            name: "group-imbalance",
            summary: "serial kernels of 1 to 64 work-groups of different length",
            driver: imbalance::groups,
        },
        Benchmark {
            name: "kernel-group-imbalance",
            summary: "batches of different kernels of different work-groups",
            driver: imbalance::kernels_and_groups,
        },
        Benchmark {
            name: "in-order-parallel",
            summary: "kernels of one in-order queue that read one buffer and write their own",
            driver: in_order_parallel::run,
        },
        Benchmark {
            name: "graphs",
            summary: "five task graphs of empty and of 1 µs tasks beside rayon and tokio",
            driver: graphs::run,
        },
        Benchmark {
            name: "enqueue",
            summary: "enqueueing commands with hazards on 0 to 3 buffers",
            driver: enqueue::run,
        },
        Benchmark {
            name: "no-op",
            summary: "enqueueing one command and waiting for it, beside two sleeping threads",
            driver: no_op::run,
        },
        Benchmark {
            name: "idle",
            summary: "processor use of a device that has nothing to do",
            driver: idle::run,
        },
        Benchmark {
            name: "memory",
            summary: "bytes per pending command, and growth over millions of commands",
            driver: memory::run,
        },
        Benchmark {
            name: "babelstream",
            summary: "five streaming kernels over large arrays, in bytes per second",
            driver: babelstream::run,
        },
    ];
    &ALL
}

/// The benchmark with this name.
///
/// # Errors
/// [`BenchError::UnknownBenchmark`], which names them all.
pub fn find(name: &str) -> Result<&'static Benchmark, BenchError> {
    let found = list().iter().find(|benchmark| benchmark.name == name);
    found.ok_or_else(|| {
        let known: Vec<&str> = list().iter().map(Benchmark::name).collect();
        BenchError::UnknownBenchmark {
            asked: name.into(),
            known: known.join(", "),
        }
    })
}

/// Runs the benchmark with this name.
///
/// # Errors
/// If there is no such benchmark, an option is invalid, the subject fails, or a result is wrong.
pub fn run(name: &str, subject: &dyn Subject, options: &Options) -> Result<Report, BenchError> {
    options.validate()?;
    let benchmark = find(name)?;
    let session = Session::new(benchmark.name, subject, options);
    let mut report = Report::new(benchmark.name);
    (benchmark.driver)(&session, &mut report)?;
    Ok(report)
}
