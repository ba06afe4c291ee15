//! The commands: one file each, with its options and a function `run`.

mod bench;
mod demo;
mod devices;
mod kernel;
mod trace;

use crate::error::CommandError;

/// What to do.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Process an image on every device, check the result, and draw what happened.
    Demo(crate::demo::Options),
    /// List the devices there are.
    Devices(devices::Options),
    /// Show kernels as devices are given them.
    Kernel(kernel::Options),
    /// Run benchmarks, each beside a reference in the same run.
    Bench(bench::Options),
    /// Show a recorded trace: a table, and a page with its timeline.
    Trace(trace::Options),
}

impl Command {
    /// Does it.
    pub(crate) fn run(self) -> Result<(), CommandError> {
        match self {
            Self::Demo(options) => demo::run(&options),
            Self::Devices(options) => devices::run(&options),
            Self::Kernel(options) => kernel::run(&options),
            Self::Bench(options) => bench::run(options),
            Self::Trace(options) => trace::run(&options),
        }
    }
}
