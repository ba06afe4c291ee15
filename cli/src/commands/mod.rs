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
    /// Run a kernel of a file in OpenCL C on arrays in files.
    Run(Box<run::Options>),
    /// Run a program that uses OpenCL, unchanged, on these devices.
    #[cfg(unix)]
    Exec(exec::Options),
    /// Show what compiled OpenCL C is kept on disk, or remove it.
    Cache(cache::Options),
    /// The compiler of OpenCL C: reads a request from standard input.
    #[command(hide = true)]
    Clc,
    /// Run benchmarks, each beside a reference in the same run.
    Bench(bench::Options),
    /// Show a recorded trace: a table, and a page with its timeline.
    Trace(trace::Options),
    /// Offer this machine's devices to other machines that are let in.
    Serve(serve::Options),
    /// What `quipu serve` starts for each client: its session.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Session(serve::SessionOptions),
    /// What `quipu serve --check-sandbox` starts.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Sandboxed(serve::sandbox::TrialOptions),
    /// Print a line that lets one client in at this machine's node: good once, for ten minutes.
    Invite(node::InviteOptions),
    /// Take an invitation up: the node's devices can be used here from then on.
    Pair(node::PairOptions),
    /// List the nodes that were paired with, how far they are, and how they are.
    Nodes(node::NodesOptions),
    /// Show the nodes that were paired with, live: how far they are, what they do, what they have.
    Top(top::Options),
    /// List the clients of this machine's node with what they may have, or say what one may have.
    Rights(node::ClientsOptions),
    /// Take back that a client may come in at this machine's node.
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
            Self::Clc => match quipu_clc::serve_compiler() {
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
