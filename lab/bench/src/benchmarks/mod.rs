//! The benchmarks: one driver each, found by name.
//!
//! A driver prepares the subject and the references, interleaves them, verifies every result and
//! writes rows and gates. `--quick` has fewer repetitions of the same shapes.

mod babelstream;
mod devices;
mod enqueue;
mod graphs;
mod idle;
mod imbalance;
mod in_order_parallel;
mod memory;
mod nested;
mod no_op;
mod nodes;
mod opencl;
mod ranges;
mod recorded;
mod serial;

pub use nodes::serve_session;
pub use opencl::serve_platform;

use crate::error::BenchError;
use crate::harness::{Options, Report, Session};
use crate::subject::Subject;

/// The subject of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measures {
    /// A [`Subject`].
    Subject,
    /// Devices of this machine or of nodes.
    Devices,
    /// The processor of this machine, beside other implementations of OpenCL on it.
    Implementations,
    /// Nodes, in this process, on loopback.
    Nodes,
    /// Nodes, in this process, on networks within this machine, which takes root.
    Networks,
}

/// One benchmark.
pub struct Benchmark {
    name: &'static str,
    summary: &'static str,
    measures: Measures,
    driver: fn(&Session<'_>, &mut Report) -> Result<(), BenchError>,
}

impl Benchmark {
    /// The name by which it is asked for.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its subject, in one line.
    pub fn summary(&self) -> &'static str {
        self.summary
    }

    /// Its subject.
    pub fn measures(&self) -> Measures {
        self.measures
    }
}

/// Every benchmark, in the order in which they are listed.
pub fn list() -> &'static [Benchmark] {
    static ALL: &[Benchmark] = &[
        Benchmark {
            name: "in-order",
            summary: "a serial graph of tiny kernels in one in-order queue",
            measures: Measures::Subject,
            driver: serial::in_order,
        },
        Benchmark {
            name: "out-of-order",
            summary: "the same graph, alternating between two out-of-order queues by events",
            measures: Measures::Subject,
            driver: serial::out_of_order,
        },
        Benchmark {
            name: "kernel-imbalance",
            summary: "batches of 1 to 64 parallel kernels of different length",
            measures: Measures::Subject,
            driver: imbalance::kernels,
        },
        Benchmark {
            name: "group-imbalance",
            summary: "serial kernels of 1 to 64 work-groups of different length",
            measures: Measures::Subject,
            driver: imbalance::groups,
        },
        Benchmark {
            name: "kernel-group-imbalance",
            summary: "batches of different kernels of different work-groups",
            measures: Measures::Subject,
            driver: imbalance::kernels_and_groups,
        },
        Benchmark {
            name: "in-order-parallel",
            summary: "kernels of one in-order queue that read one buffer and write their own",
            measures: Measures::Subject,
            driver: in_order_parallel::run,
        },
        Benchmark {
            name: "graphs",
            summary: "five task graphs of empty and of 1 µs tasks beside rayon and tokio",
            measures: Measures::Subject,
            driver: graphs::run,
        },
        Benchmark {
            name: "nested",
            summary: "tasks that enqueue tasks, to fan out and for Fibonacci numbers, beside rayon's scopes",
            measures: Measures::Subject,
            driver: nested::run,
        },
        Benchmark {
            name: "recorded",
            summary: "graphs recorded once and launched, beside the same commands enqueued",
            measures: Measures::Subject,
            driver: recorded::run,
        },
        Benchmark {
            name: "ranges",
            summary: "commands on overlapping parts of two objects, beside a shorter queue of them",
            measures: Measures::Subject,
            driver: ranges::run,
        },
        Benchmark {
            name: "enqueue",
            summary: "enqueueing commands with hazards on 0 to 3 buffers",
            measures: Measures::Subject,
            driver: enqueue::run,
        },
        Benchmark {
            name: "no-op",
            summary: "enqueueing one command and waiting for it, beside two sleeping threads",
            measures: Measures::Subject,
            driver: no_op::run,
        },
        Benchmark {
            name: "idle",
            summary: "processor use of a device that has nothing to do",
            measures: Measures::Subject,
            driver: idle::run,
        },
        Benchmark {
            name: "memory",
            summary: "bytes per pending command, and growth over millions of commands",
            measures: Measures::Subject,
            driver: memory::run,
        },
        Benchmark {
            name: "babelstream",
            summary: "five streaming kernels over large arrays, in bytes per second",
            measures: Measures::Subject,
            driver: babelstream::run,
        },
        Benchmark {
            name: "saxpy",
            summary: "y += a x on devices, beside hand-written code",
            measures: Measures::Devices,
            driver: devices::saxpy,
        },
        Benchmark {
            name: "gemm",
            summary: "the tiled matrix product on devices, beside hand-written code",
            measures: Measures::Devices,
            driver: devices::gemm,
        },
        Benchmark {
            name: "nbody",
            summary: "gravity between all bodies on devices, beside hand-written code",
            measures: Measures::Devices,
            driver: devices::nbody,
        },
        Benchmark {
            name: "mandelbrot",
            summary: "loops of different length on devices, beside hand-written code",
            measures: Measures::Devices,
            driver: devices::mandelbrot,
        },
        Benchmark {
            name: "reduce",
            summary: "a sum on devices, beside hand-written code",
            measures: Measures::Devices,
            driver: devices::reduce,
        },
        Benchmark {
            name: "opencl-kernels",
            summary: "programs in OpenCL C on the processor, beside Intel's runtime and PoCL",
            measures: Measures::Implementations,
            driver: opencl::run,
        },
        Benchmark {
            name: "opencl-calls",
            summary: "calls of OpenCL's C interface on the processor, beside Intel's runtime and PoCL",
            measures: Measures::Implementations,
            driver: opencl::calls::run,
        },
        Benchmark {
            name: "device-babelstream",
            summary: "five streaming kernels on devices, beside hand-written code and the device's own copy",
            measures: Measures::Devices,
            driver: devices::babelstream,
        },
        Benchmark {
            name: "matmul",
            summary: "small to large matrix products and their futures, beside the device's own interface",
            measures: Measures::Devices,
            driver: devices::matmul,
        },
        Benchmark {
            name: "stream",
            summary: "making and filling buffers, and reading back, beside the device's own interface",
            measures: Measures::Devices,
            driver: devices::stream,
        },
        Benchmark {
            name: "block-size",
            summary: "a matrix product in blocks of 2 x 2 to 64 x 64 threads",
            measures: Measures::Devices,
            driver: devices::block_size,
        },
        Benchmark {
            name: "device-costs",
            summary: "what a command costs, and chains of them, beside the device's own interface",
            measures: Measures::Devices,
            driver: devices::device_costs,
        },
        Benchmark {
            name: "device-transfers",
            summary: "pageable and pinned memory, both ways, beside the device's own interface",
            measures: Measures::Devices,
            driver: devices::device_transfers,
        },
        Benchmark {
            name: "device-overlap",
            summary: "copies both ways while a kernel runs",
            measures: Measures::Devices,
            driver: devices::device_overlap,
        },
        Benchmark {
            name: "device-peers",
            summary: "two GPUs: copies between them, and a graph over both",
            measures: Measures::Devices,
            driver: devices::device_peers,
        },
        Benchmark {
            name: "noop",
            summary: "a kernel that does next to nothing and the wait for it, here and on a node, beside TCP and TLS alone",
            measures: Measures::Nodes,
            driver: nodes::noop,
        },
        Benchmark {
            name: "chain",
            summary: "10,000 kernels on a node, each of which waits for the one before",
            measures: Measures::Nodes,
            driver: nodes::chain,
        },
        Benchmark {
            name: "bulk",
            summary: "4 KiB and 64 MiB to a node and back, beside the same bytes over TCP and TLS alone",
            measures: Measures::Nodes,
            driver: nodes::bulk,
        },
        Benchmark {
            name: "migrate",
            summary: "4 bytes and 8 MiB that kernels on two nodes change in turn, beside TLS alone",
            measures: Measures::Nodes,
            driver: nodes::migrate,
        },
        Benchmark {
            name: "buffers",
            summary: "up to ten million live buffers of a node: the time and the memory of each, beside few buffers",
            measures: Measures::Nodes,
            driver: nodes::buffers,
        },
        Benchmark {
            name: "distributed-matmul",
            summary: "a matrix product over several nodes' cores or GPUs, beside one node, and beside the same devices without nodes",
            measures: Measures::Nodes,
            driver: nodes::distributed_matmul,
        },
        #[cfg(target_os = "linux")]
        Benchmark {
            name: "links",
            summary: "a kernel, and bytes to a node and back, over Wi-Fi 6 and 5G as they are made here (as root), beside TLS alone",
            measures: Measures::Networks,
            driver: nodes::links,
        },
        Benchmark {
            name: "stream-edge",
            summary: "pictures and clouds of points of two nodes over a slow network, what is in use beside whole buffers",
            measures: Measures::Nodes,
            driver: nodes::stream_edge,
        },
    ];
    ALL
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
