//! Errors of commands, in one line for the person at the terminal.

use quipu::kernel::print::{BuildError, PrintError};
use quipu_cli::timeline::TimelineError;
use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

/// The failure of a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// Standard output did not take the text.
    #[error("cannot print the results: {0}")]
    Print(io::Error),
    /// The system does not name this program's file.
    #[error("cannot find the file of this program: {0}; start quipu by its full path")]
    OwnProgram(io::Error),
    /// `QUIPU_LOG` makes no sense.
    #[error(transparent)]
    Log(quipu::Error),
    /// The local network is not to be spoken to.
    #[error(transparent)]
    Discovery(#[from] quipu_discovery::DiscoveryError),
    /// The program with the benchmarks is not there.
    #[error(
        "there is no {}; `cargo build --release -p quipu-bench` makes it, in Quipu's source tree", program.display()
    )]
    NoBenchmarks {
        /// The file.
        program: PathBuf,
    },
    /// Cargo has not built the program with the benchmarks, and said why.
    #[error("quipu-bench is not built; cargo says why above")]
    BuildBenchmarks,
    /// The program with the benchmarks cannot be started.
    #[error("cannot start {}: {source}", program.display())]
    StartBenchmarks {
        /// The file.
        program: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The demo did not come to its end.
    #[error(transparent)]
    Demo(#[from] crate::demo::run::DemoError),
    /// A program cannot be run with Quipu as its OpenCL.
    #[cfg(unix)]
    #[error(transparent)]
    Exec(#[from] crate::commands::exec::ExecError),
    /// There is no such kernel.
    #[error("there is no kernel named \"{asked}\"; the names are: {known}")]
    UnknownKernel {
        /// The name that was asked for.
        asked: String,
        /// The names that there are.
        known: String,
    },
    /// Something of a kernel has no source.
    #[error(transparent)]
    BuildKernel(#[from] BuildError),
    /// A dialect cannot express an operation of a kernel.
    #[error(transparent)]
    PrintKernel(#[from] PrintError),
    /// The trace cannot be opened.
    #[error("cannot open the trace {}: {source}; a program run with QUIPU_TRACE={} in its environment writes one", path.display(), path.display())]
    OpenTrace {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The trace cannot be read.
    #[error("{}: {source}", path.display())]
    ReadTrace {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: TimelineError,
    },
    /// The page would replace the trace.
    #[error("the page would overwrite the trace {} itself; give -o another name", path.display())]
    SameFile {
        /// The file.
        path: PathBuf,
    },
    /// Keys, lists or nodes cannot be used.
    #[error(transparent)]
    Link(#[from] quipu_link::LinkError),
    /// A node cannot be used.
    #[error(transparent)]
    Node(quipu::Error),
    /// Nodes that were asked for are not there.
    #[error("{}", .0.join("; "))]
    Nodes(Vec<String>),
    /// Nodes have not answered.
    #[error("{missing} of {all} nodes cannot be used; what is wrong stands beside each")]
    NodesMissing {
        /// The number.
        missing: usize,
        /// The number of all nodes.
        all: usize,
    },
    /// Rights to a device that no node has.
    #[error("no device is called '{device}' here; there are: {known}")]
    NoDevice {
        /// The given name.
        device: String,
        /// The known names.
        known: String,
    },
    /// No invitation was said, and none has come.
    #[error(
        "no invitation has come: {0}; paste the line that `quipu invite` prints on the node's machine, or pipe it to `quipu pair`"
    )]
    NoInvitation(io::Error),
    /// No node serves from this user's folder, and no address is given at which one will.
    #[error("no node serves here now; run `quipu serve` first, or say --address host:port")]
    NoAddress,
    /// A source of data makes no sense.
    #[error("--source {text}: {problem}")]
    Source {
        /// The given text.
        text: String,
        /// The fault in it.
        problem: String,
    },
    /// There is no listening at an address.
    #[error("cannot listen at {address}: {source}; choose another with {option}")]
    Listen {
        /// The address.
        address: String,
        /// The option that says another.
        option: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A session's process cannot be started, or serve.
    #[error("a client's session has no process: {0}")]
    #[cfg(target_os = "linux")]
    Session(io::Error),
    /// Rights are to be given that are not said.
    #[error(
        "which rights? Say `--all`, or of --devices, --memory, --cores, --run-time and --no-peers those that are meant"
    )]
    NoRights,
    /// Rights are given without a client to have them.
    #[error("whose rights? Name a client; `quipu rights` lists them")]
    NoClient,
    /// Sessions do not find the devices that the node offers.
    #[error(
        "sessions do not find all devices; `--one-process` serves them without a sandbox, to clients that are trusted with the machine"
    )]
    #[cfg(target_os = "linux")]
    Sandbox,
    /// A session's process could read the node's key.
    #[error(
        "clients' sessions would be in too weak a sandbox: {0}. Serve on a system that has it, or accept that with --accept-weak-sandbox"
    )]
    #[cfg(target_os = "linux")]
    WeakSandbox(String),
    /// A node cannot be begun.
    #[error("cannot serve: {0}; check the limits on threads and files (`ulimit -a`)")]
    Serve(io::Error),
    /// A kernel cannot be run as it was asked.
    #[error("{0}")]
    Run(String),
    /// A program does not compile: the compiler's messages, in lines of their own.
    #[error("{0}")]
    Compile(String),
    /// The compiler's process was asked for nothing that it knows.
    #[error("this command is what Quipu starts to compile OpenCL C, and is of no use by hand")]
    Compiler,
    /// A variable of the environment makes no sense.
    #[error(transparent)]
    Environment(#[from] quipu_environment::Misused),
    /// A folder cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}; check that the folder exists and is writable", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl CommandError {
    /// True if no program reads standard output any more.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Print(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Prints the error, in one line, with its causes.
    pub(crate) fn report(&self) {
        let stderr = io::stderr();
        let colours = stderr.is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let (red, plain) = if colours {
            ("\x1b[1;31m", "\x1b[0m")
        } else {
            ("", "")
        };
        // If standard error is gone too, there is no output left for the error.
        let text = match self {
            Self::Compile(said) => {
                let lines = said.lines().map(quipu_cli::escape::terminal);
                lines.collect::<Vec<_>>().join("\n")
            }
            _ => one_line(self),
        };
        let _ = writeln!(stderr.lock(), "{red}error:{plain} {text}");
    }
}

/// The error and its causes, as far as it does not name them itself.
fn one_line(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    // Messages may quote text of others.
    quipu_cli::escape::terminal(&text.replace('\n', " ")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot start")]
    struct Outer(#[source] io::Error);

    #[test]
    fn causes_that_are_not_named_are_added_once() {
        let cause = || io::Error::other("no\nmemory");
        assert_eq!(one_line(&Outer(cause())), "cannot start: no memory");
        let named = CommandError::Print(io::Error::other("gone"));
        assert_eq!(one_line(&named), "cannot print the results: gone");
    }

    #[test]
    fn only_a_pipe_of_ours_is_a_broken_pipe() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(CommandError::Print(broken()).is_broken_pipe());
        let write = CommandError::Write {
            path: "page.html".into(),
            source: broken(),
        };
        assert!(!write.is_broken_pipe());
    }
}
