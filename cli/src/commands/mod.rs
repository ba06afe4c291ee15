//! The commands: one file each, with its options and a function `run`.

mod bench;
mod demo;
mod devices;
mod kernel;
mod node;
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
    /// Does it.
    pub(crate) fn run(self) -> Result<(), CommandError> {
        match self {
            Self::Demo(options) => demo::run(&options),
            Self::Devices(options) => devices::run(&options),
            Self::Kernel(options) => kernel::run(&options),
            Self::Bench(options) => bench::run(options),
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
