//! Programs that this one starts, their output and their exit status.
//!
//! The program may have had its children waited for: by ignoring `SIGCHLD`, or by a handler that
//! waits for any. Then a status is lost. So what a program printed counts, and its status where
//! there is one.

use quipu_environment::LLVM;
use quipu_threads::{LeaveUnparked, Start};
use std::fmt;
use std::io::{Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::Builder;

/// A program's output and its end.
pub(crate) struct Ended {
    /// None if another part of this program took it.
    status: Option<ExitStatus>,
    pub(crate) stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Ended {
    /// True if the program is known to have failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.status.is_some_and(|status| !status.success())
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "{status}")?,
            None => write!(f, "its status is not known, for SIGCHLD is ignored here")?,
        }
        write!(f, "; {}", String::from_utf8_lossy(&self.stderr).trim())
    }
}

/// Variables by which the system loads other libraries into a program than it was built for.
const LIBRARIES: [&str; 5] = [
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LD_AUDIT",
    "DYLD_LIBRARY_PATH",
    "DYLD_INSERT_LIBRARIES",
];

/// Runs a program with an input, until it has ended. Libraries that this program was told to load
/// are for this one. An LLVM that the user names may have its own in its folder.
pub(crate) fn run(mut command: Command, input: &[u8]) -> std::io::Result<Ended> {
    for name in LIBRARIES {
        command.env_remove(name);
    }
    if let Some(named) = LLVM.get().ok().flatten() {
        command.env(LIBRARIES[0], named.join("lib"));
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (mut to, said, mut wrong) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let _unparked = LeaveUnparked::new();
    let read = std::thread::scope(|scope| {
        // A compiler that ends before it has read all says why by its status. The signal that there
        // is no reader would end a program in C, and such a thread does not take it.
        Builder::new().start_scoped(scope, move || {
            let _ = to.as_mut().map(|to| to.write_all(input));
        })?;
        let stderr = &mut stderr;
        Builder::new().start_scoped(scope, move || {
            let _ = wrong.as_mut().map(|wrong| wrong.read_to_end(stderr));
        })?;
        // Without a reader the program would not end.
        let mut said = said;
        said.as_mut()
            .map_or(Ok(0), |said| said.read_to_end(&mut stdout))
    });
    let status = match child.wait() {
        Err(error) if is_of_no_child(&error) => None,
        status => Some(status?),
    };
    read?;
    Ok(Ended {
        status,
        stdout,
        stderr,
    })
}

#[cfg(unix)]
fn is_of_no_child(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(libc::ECHILD)
}

#[cfg(not(unix))]
fn is_of_no_child(_error: &std::io::Error) -> bool {
    false
}

/// Has this process wait for its children itself, whatever the program that started it does with
/// its own.
#[cfg(unix)]
pub(crate) fn wait_for_own() {
    // SAFETY: the default is no code of ours.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

#[cfg(not(unix))]
pub(crate) fn wait_for_own() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_compiler_that_reads_nothing_does_not_end_the_program() {
        // As it is in programs in C.
        // SAFETY: the default is no code of ours.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let ended = run(Command::new("true"), &vec![b' '; 8 << 20]).unwrap();
        assert!(!ended.has_failed());
    }
}
