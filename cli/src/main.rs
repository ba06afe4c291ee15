//! The `quipu` command.
//!
//! | module | contents |
//! |---|---|
//! | [`commands`] | one file per command: its options and its work |
//! | [`demo`] | the image pipeline |
//! | [`metrics`] | metrics of a node, for Prometheus |
//! | [`npy`] | arrays in files |
//! | [`platform`] | the devices there are |
//! | [`error`] | errors of commands, in one line |
//! | [`interrupt`] | clean-up before Ctrl-C ends the process |
//! | [`progress`] | progress bars, for reading large files and other long work |
//!
//! Results go to standard output, everything else to standard error. The exit status is 0 for
//! success, 1 for a command that failed and 2 for a command line that makes no sense. A program
//! that stops reading our output (`quipu devices | head -1`) has had enough: that is success too.

#![cfg_attr(not(test), warn(clippy::disallowed_macros))]

mod commands;
mod demo;
mod error;
mod interrupt;
mod metrics;
mod npy;
mod platform;
mod progress;

use clap::Parser;
use error::CommandError;
use std::process::ExitCode;

/// One task graph over every compute device you can reach.
#[derive(Parser)]
#[command(name = "quipu", version, arg_required_else_help = true)]
#[command(after_help = "\
Environment:
  QUIPU_LOG=debug         log to standard error: error, warn, info, debug, trace, or by module
  QUIPU_TRACE=file.json   record each command with its device and its time; `quipu trace` shows it
  QUIPU_CPU_WORKERS=N     threads of the device cpu; without it, one for each core
  QUIPU_CPU_PIN=0,2,4-7   the cores to which these threads are bound
  QUIPU_NODES=a,b         the paired nodes that programs use; `all` for all
  QUIPU_DISCOVERY=off     do not look on the local network for a node whose address has changed
  QUIPU_HOME=folder       the folder of keys and paired nodes; without it, ~/.config/quipu")]
struct Arguments {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    // Programs compile OpenCL C in a process of their own: this one's program, with a hidden
    // command.
    if let Ok(own) = std::env::current_exe() {
        quipu_clc::set_compiler(own, vec!["clc".into()]);
    }
    let arguments = Arguments::parse();
    let logging = match arguments.command.is_of_a_node() {
        // Its operator sees without asking which clients come and go.
        true => quipu::init_logging_from_env_or(&format!("{}=info", quipu_node::OPERATOR)),
        false => quipu::init_logging_from_env(),
    };
    let logging = logging.map_err(CommandError::Log);
    match logging.and_then(|_| arguments.command.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_broken_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            interrupt::give_way();
            error.report();
            ExitCode::FAILURE
        }
    }
}
