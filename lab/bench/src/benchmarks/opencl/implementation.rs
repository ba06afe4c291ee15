//! OpenCL implementations of this machine, each in a process of its own.

use super::player::ANSWER;
use crate::error::{BenchError, SubjectError};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The longest time of an answer. A launch that never ends is reported, and its process ended.
const PATIENCE: Duration = Duration::from_secs(180);

/// An implementation, and how a process is told to use it.
#[derive(Clone, Debug)]
pub(super) struct Implementation {
    pub(super) name: &'static str,
    /// A part of its platform's name.
    platform: &'static str,
    /// A folder that names its library for the loader.
    vendors: PathBuf,
    variables: Vec<(&'static str, OsString)>,
}

/// Our library's file.
const LIBRARY: &str = "libquipu_opencl.so";

impl Implementation {
    /// Ours, as it is built beside this program; `folder` is to name it for the loader.
    pub(super) fn ours(folder: &Path) -> Result<Self, BenchError> {
        let own = std::env::current_exe()?;
        // Tests are in a folder below that of libraries.
        let folders = own.ancestors().skip(1).take(2);
        let library = folders
            .map(|folder| folder.join(LIBRARY))
            .find(|library| library.is_file());
        let library = library.ok_or_else(|| {
            let advice = format!(
                "{LIBRARY} is not beside {}: build it with \"cargo build --release -p quipu-opencl -p quipu-clc\"",
                own.display()
            );
            BenchError::from(SubjectError::failed("looking for our library", advice))
        })?;
        std::fs::write(
            folder.join("quipu.icd"),
            library.as_os_str().as_encoded_bytes(),
        )?;
        Ok(Implementation {
            name: "Quipu",
            platform: "Quipu",
            vendors: folder.to_owned(),
            variables: vec![("QUIPU_OPENCL_DEVICES", "cpu".into())],
        })
    }

    /// Intel's runtime for processors, where `scripts/intel-opencl` has put it.
    pub(super) fn intel() -> Option<Self> {
        let own = std::env::current_exe().ok()?;
        let folder = own
            .ancestors()
            .map(|folder| folder.join("intel-opencl"))
            .find(|folder| folder.join("vendors").is_dir())?;
        Some(Implementation {
            name: "Intel",
            platform: "Intel",
            vendors: folder.join("vendors"),
            variables: vec![("LD_LIBRARY_PATH", folder.join("lib").into())],
        })
    }

    /// PoCL of the system.
    pub(super) fn pocl() -> Option<Self> {
        let vendors = PathBuf::from("/etc/OpenCL/vendors");
        vendors.join("pocl.icd").is_file().then(|| Implementation {
            name: "PoCL",
            platform: "Portable",
            vendors,
            variables: Vec::new(),
        })
    }
}

/// The process of an implementation.
pub(super) struct Player {
    pub(super) name: &'static str,
    child: Child,
    told: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Player {
    /// Starts it on so many cores. `arguments` are those with which this program comes to
    /// [`serve`](super::serve_platform).
    pub(super) fn start(
        implementation: &Implementation,
        arguments: &[OsString],
        workers: usize,
    ) -> Result<Self, BenchError> {
        let mut vendors = implementation.vendors.clone().into_os_string();
        // Some loaders take what does not end so for a library.
        vendors.push("/");
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(arguments)
            .arg(implementation.platform)
            .env("OCL_ICD_VENDORS", vendors)
            .env_remove("OCL_ICD_FILENAMES")
            .env("POCL_MAX_PTHREAD_COUNT", workers.to_string())
            .envs(implementation.variables.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        confine(&mut command, workers);
        let mut child = command.spawn()?;
        let (told, answers) = (child.stdin.take(), child.stdout.take());
        let (Some(told), Some(answers)) = (told, answers) else {
            return Err(std::io::Error::other("a process has no pipes").into());
        };
        Ok(Player {
            name: implementation.name,
            child,
            told,
            answers: BufReader::new(answers),
        })
    }

    /// Tells it something; what it answers.
    fn ask(&mut self, what: &str) -> Result<String, BenchError> {
        writeln!(self.told, "{what}")?;
        loop {
            if self.answers.buffer().is_empty() && !comes_within(self.answers.get_ref(), PATIENCE) {
                let _ = self.child.kill();
                let reason = format!("there is no answer within {} seconds", PATIENCE.as_secs());
                return Err(self.failed(what, reason));
            }
            let mut line = String::new();
            if self.answers.read_line(&mut line)? == 0 {
                let status = self.child.wait()?;
                return Err(self.failed(what, format!("its process has ended with {status}")));
            }
            let Some(answer) = line.trim_end().strip_prefix(ANSWER) else {
                continue;
            };
            return match answer.split_once(' ') {
                Some(("ok", answer)) => Ok(answer.to_owned()),
                _ => Err(self.failed(what, answer.to_owned())),
            };
        }
    }

    fn failed(&self, what: &str, reason: String) -> BenchError {
        SubjectError::failed(format!("{}: {what}", self.name), reason).into()
    }

    fn seconds(&mut self, what: &str) -> Result<f64, BenchError> {
        let answer = self.ask(what)?;
        let seconds = answer.parse();
        seconds.map_err(|_| self.failed(what, format!("{answer} is no number")))
    }

    /// Builds a case; how many seconds that took.
    pub(super) fn load(&mut self, name: &str, scale: &str) -> Result<f64, BenchError> {
        self.seconds(&format!("load {name} {scale}"))
    }

    /// Runs it; how many seconds that took.
    pub(super) fn run(&mut self) -> Result<f64, BenchError> {
        self.seconds("run")
    }

    /// Makes so many calls; how many seconds that took.
    pub(super) fn call(&mut self, name: &str, count: usize) -> Result<f64, BenchError> {
        self.seconds(&format!("call {name} {count}"))
    }

    /// Its output.
    pub(super) fn read(&mut self) -> Result<Vec<u8>, BenchError> {
        let answer = self.ask("read")?;
        let count = answer.parse();
        let count = count.map_err(|_| self.failed("read", format!("{answer} is no number")))?;
        let mut bytes = vec![0; count];
        self.answers.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        // It ends when nothing more comes, but may be in a kernel that does not.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// True if something comes from there within a time, or its end.
#[cfg(unix)]
fn comes_within(from: &impl std::os::fd::AsRawFd, limit: Duration) -> bool {
    let mut asked = libc::pollfd {
        fd: from.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let limit = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: one structure, of an open file.
    (unsafe { libc::poll(&raw mut asked, 1, limit) }) != 0
}

#[cfg(not(unix))]
fn comes_within<T>(_: &T, _: Duration) -> bool {
    true
}

/// Has a process run on the first few cores of this one's.
#[cfg(target_os = "linux")]
fn confine(command: &mut Command, workers: usize) {
    use std::os::unix::process::CommandExt;
    let cores: Vec<usize> = crate::reference::affinity::cores();
    // SAFETY: plain bits, for which all zeros is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for core in cores.into_iter().take(workers) {
        // SAFETY: the core is one of the set's.
        unsafe { libc::CPU_SET(core, &mut set) };
    }
    let confined = move || {
        // SAFETY: about the calling thread, and the set is only read.
        match unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: one system call, which is allowed between fork and exec.
    unsafe { command.pre_exec(confined) };
}

#[cfg(not(target_os = "linux"))]
fn confine(_: &mut Command, _: usize) {}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn silence_and_an_end_are_told_apart() -> std::io::Result<()> {
        let (mut one, other) = UnixStream::pair()?;
        assert!(!comes_within(&other, Duration::ZERO));
        one.write_all(b"a line")?;
        assert!(comes_within(&other, Duration::MAX));
        let (one, other) = UnixStream::pair()?;
        drop(one);
        assert!(comes_within(&other, Duration::MAX));
        Ok(())
    }
}
