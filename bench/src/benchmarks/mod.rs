//! The benchmarks: one driver each, found by name.
//!
//! A driver prepares the subject and the references, interleaves them, verifies every result and
//! writes rows and gates. Its parameters are the seed's; `--quick` has fewer repetitions of the
//! same shapes.

mod babelstream;
mod devices;
mod enqueue;
mod graphs;
mod idle;
mod imbalance;
mod in_order_parallel;
mod memory;
mod no_op;
mod recorded;
mod serial;

use crate::error::BenchError;
use crate::harness::{Options, Report, Session};
use crate::subject::Subject;

/// One benchmark.
pub struct Benchmark {
    name: &'static str,
    summary: &'static str,
    of_devices: bool,
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

    /// Whether it measures devices, and not a [`Subject`].
    pub fn is_of_devices(&self) -> bool {
        self.of_devices
    }
}

/// Every benchmark, in the order in which they are listed.
pub fn list() -> &'static [Benchmark] {
    static ALL: [Benchmark; 26] = [
        Benchmark {
            name: "in-order",
            summary: "a serial graph of tiny kernels in one in-order queue",
            of_devices: false,
            driver: serial::in_order,
        },
        Benchmark {
            name: "out-of-order",
            summary: "the same graph, alternating between two out-of-order queues by events",
            of_devices: false,
            driver: serial::out_of_order,
        },
        Benchmark {
            name: "kernel-imbalance",
            summary: "batches of 1 to 64 parallel kernels of different length",
            of_devices: false,
            driver: imbalance::kernels,
        },
        Benchmark {
            name: "group-imbalance",
            summary: "serial kernels of 1 to 64 work-groups of different length",
            of_devices: false,
            driver: imbalance::groups,
        },
        Benchmark {
            name: "kernel-group-imbalance",
            summary: "batches of different kernels of different work-groups",
            of_devices: false,
            driver: imbalance::kernels_and_groups,
        },
        Benchmark {
            name: "in-order-parallel",
            summary: "kernels of one in-order queue that read one buffer and write their own",
            of_devices: false,
            driver: in_order_parallel::run,
        },
        Benchmark {
            name: "graphs",
            summary: "five task graphs of empty and of 1 µs tasks beside rayon and tokio",
            of_devices: false,
            driver: graphs::run,
        },
        Benchmark {
            name: "recorded",
            summary: "graphs recorded once and launched, beside the same commands enqueued",
            of_devices: false,
            driver: recorded::run,
        },
        Benchmark {
            name: "enqueue",
            summary: "enqueueing commands with hazards on 0 to 3 buffers",
            of_devices: false,
            driver: enqueue::run,
        },
        Benchmark {
            name: "no-op",
            summary: "enqueueing one command and waiting for it, beside two sleeping threads",
            of_devices: false,
            driver: no_op::run,
        },
        Benchmark {
            name: "idle",
            summary: "processor use of a device that has nothing to do",
            of_devices: false,
            driver: idle::run,
        },
        Benchmark {
            name: "memory",
            summary: "bytes per pending command, and growth over millions of commands",
            of_devices: false,
            driver: memory::run,
        },
        Benchmark {
            name: "babelstream",
            summary: "five streaming kernels over large arrays, in bytes per second",
            of_devices: false,
            driver: babelstream::run,
        },
        Benchmark {
            name: "saxpy",
            summary: "y += a x on devices, beside hand-written code",
            of_devices: true,
            driver: devices::saxpy,
        },
        Benchmark {
            name: "gemm",
            summary: "the tiled matrix product on devices, beside hand-written code",
            of_devices: true,
            driver: devices::gemm,
        },
        Benchmark {
            name: "nbody",
            summary: "gravity between all bodies on devices, beside hand-written code",
            of_devices: true,
            driver: devices::nbody,
        },
        Benchmark {
            name: "mandelbrot",
            summary: "loops of different length on devices, beside hand-written code",
            of_devices: true,
            driver: devices::mandelbrot,
        },
        Benchmark {
            name: "reduce",
            summary: "a sum on devices, beside hand-written code",
            of_devices: true,
            driver: devices::reduce,
        },
        Benchmark {
            name: "device-babelstream",
            summary: "five streaming kernels on devices, beside hand-written code and the device's own copy",
            of_devices: true,
            driver: devices::babelstream,
        },
        Benchmark {
            name: "matmul",
            summary: "small to large matrix products and their futures, beside the device's own interface",
            of_devices: true,
            driver: devices::matmul,
        },
        Benchmark {
            name: "stream",
            summary: "making and filling buffers, and reading back, beside the device's own interface",
            of_devices: true,
            driver: devices::stream,
        },
        Benchmark {
            name: "block-size",
            summary: "a matrix product in blocks of 2 x 2 to 64 x 64 threads",
            of_devices: true,
            driver: devices::block_size,
        },
        Benchmark {
            name: "device-costs",
            summary: "what a command costs, and chains of them, beside the device's own interface",
            of_devices: true,
            driver: devices::device_costs,
        },
        Benchmark {
            name: "device-transfers",
            summary: "pageable and pinned memory, both ways, beside the device's own interface",
            of_devices: true,
            driver: devices::device_transfers,
        },
        Benchmark {
            name: "device-overlap",
            summary: "copies both ways while a kernel runs",
            of_devices: true,
            driver: devices::device_overlap,
        },
        Benchmark {
            name: "device-peers",
            summary: "two GPUs: copies between them, and a graph over both",
            of_devices: true,
            driver: devices::device_peers,
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
