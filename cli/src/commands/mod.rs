//! The commands: one file each, with its options and a function `run`.

mod bench;
mod cache;
mod demo;
mod devices;
#[cfg(unix)]
pub(crate) mod exec;
mod kernel;
mod node;
mod run;
mod serve;
mod top;
mod trace;

pub(crate) use devices::failed_nodes;

use crate::error::CommandError;
use std::io::Write;

/// The commands of `quipu`.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Process an image on every device, check the result, and draw a timeline.
    Demo(crate::demo::Options),
    /// List the devices of this machine and of paired nodes.
    Devices(devices::Options),
    /// Print the source of a kernel as a device gets it.
    Kernel(kernel::Options),
    /// Run one kernel in OpenCL C or SPIR-V on arrays in files.
    Run(Box<run::Options>),
    /// Run a program that uses OpenCL on Quipu's devices.
    #[cfg(unix)]
    Exec(exec::Options),
    /// Show the compiled OpenCL C that is kept on disk, or remove it.
    Cache(cache::Options),
    /// The compiler of OpenCL C: reads a request from standard input; with arguments, what
    /// `quipu-clc` does.
    #[command(hide = true)]
    Clc {
        /// The arguments of `quipu-clc`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Run benchmarks, each beside a reference in the same run.
    Bench(bench::Options),
    /// Show a recorded trace as a table, or as a page with its timeline.
    Trace(trace::Options),
    /// Offer this machine's devices to other machines.
    Serve(serve::Options),
    /// The process of one client's session, which `quipu serve` starts.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Session(serve::SessionOptions),
    /// A process in the sandbox, which `quipu serve --check-sandbox` starts.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Sandboxed(serve::sandbox::TrialOptions),
    /// Print an invitation: a line that lets one client use this machine's node. It is good once,
    /// for ten minutes.
    Invite(node::InviteOptions),
    /// Accept an invitation. Programs on this machine can then use the node's devices.
    Pair(node::PairOptions),
    /// List the paired nodes with their distance and their load.
    Nodes(node::NodesOptions),
    /// Show the paired nodes, live: distance, load, devices, and your own queues there.
    Top(top::Options),
    /// List the clients of this machine's node with their rights, or set the rights of one.
    Rights(node::ClientsOptions),
    /// List the clients of this machine's node, or remove one.
    Revoke(node::RevokeOptions),
}

impl Command {
    /// True if it serves others.
    pub(crate) fn is_of_a_node(&self) -> bool {
        match self {
            Self::Serve(_) => true,
            #[cfg(target_os = "linux")]
            Self::Session(_) => true,
            _ => false,
        }
    }

    /// Does it.
    pub(crate) fn run(self) -> Result<(), CommandError> {
        match self {
            Self::Demo(options) => demo::run(&options),
            Self::Devices(options) => devices::run(&options),
            Self::Kernel(options) => kernel::run(&options),
            Self::Run(options) => run::run(&options),
            #[cfg(unix)]
            Self::Exec(options) => exec::run(&options),
            Self::Cache(options) => cache::run(&options),
            Self::Clc { arguments } if !arguments.is_empty() => {
                std::process::exit(quipu_clc::run_command(arguments).into())
            }
            Self::Clc { .. } => match quipu_clc::serve_compiler() {
                true => Ok(()),
                false => Err(CommandError::Compiler),
            },
            Self::Bench(options) => bench::run(&options),
            Self::Trace(options) => trace::run(&options),
            Self::Serve(options) => serve::run(&options),
            #[cfg(target_os = "linux")]
            Self::Session(options) => serve::run_session(&options),
            #[cfg(target_os = "linux")]
            Self::Sandboxed(options) => serve::sandbox::run_trial(&options),
            Self::Invite(options) => node::run_invite(&options),
            Self::Pair(options) => node::run_pair(&options),
            Self::Nodes(options) => node::run_nodes(&options),
            Self::Top(options) => top::run(&options),
            Self::Rights(options) => node::run_rights(&options),
            Self::Revoke(options) => node::run_revoke(&options),
        }
    }
}

/// Prints a command's result to standard output.
fn print(text: &str) -> Result<(), CommandError> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes());
    written
        .and_then(|()| stdout.flush())
        .map_err(CommandError::Print)
}
