//! A machine: a network namespace.

use crate::interface;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

/// A network of its own, with nothing in it but `lo`: what runs in it reaches what it is attached
/// to, and nothing else.
#[derive(Clone, Debug)]
pub struct Machine(Arc<File>);

/// Has the calling thread, and what it starts from then on, in a namespace.
fn set(namespace: &File) -> io::Result<()> {
    // SAFETY: it takes numbers.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Machine {
    /// Another machine.
    ///
    /// # Errors
    /// If the system gives no namespace: that takes root.
    pub fn new() -> io::Result<Self> {
        let made = std::thread::spawn(|| {
            // SAFETY: it takes a number, and is about this thread alone.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error());
            }
            interface::up("lo")?;
            File::open("/proc/thread-self/ns/net")
        });
        let file = made.join().map_err(|_| io::Error::other("panicked"))?;
        let named = |error| io::Error::other(format!("a network namespace: {error}"));
        file.map(|file| Self(Arc::new(file))).map_err(named)
    }

    /// Does something there, on a thread of its own: sockets, threads and programs that it makes
    /// are this machine's, also later.
    ///
    /// # Panics
    /// As it does; and if the system does not let a thread in.
    pub fn enter<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        let ended = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                set(&self.0).expect("whoever has made a namespace may enter it");
                what()
            });
            thread.join()
        });
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// A program that runs there, and is killed as soon as the thread that starts it has ended.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let namespace = self.0.clone();
        let before = move || {
            // SAFETY: it takes numbers.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            set(&namespace)
        };
        // SAFETY: between fork and exec there are two system calls and an error made of a number,
        // and no allocation.
        unsafe { command.pre_exec(before) };
        command
    }

    pub(crate) fn namespace(&self) -> &File {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn machines_are_apart() {
        if !crate::lab_or_skip() {
            return;
        }
        let [a, b] = [(); 2].map(|()| Machine::new().unwrap());
        // The same port twice, and nobody from elsewhere gets there.
        let listen = || TcpListener::bind("127.0.0.1:4760").unwrap();
        let _listener = a.enter(listen);
        a.enter(|| TcpStream::connect("127.0.0.1:4760").unwrap());
        b.enter(|| TcpStream::connect("127.0.0.1:4760").unwrap_err());
        b.enter(listen);
        let list = |machine: &Machine| {
            let output = machine.command("ip").args(["-br", "link"]).output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        assert_eq!(list(&a).lines().count(), 1, "{}", list(&a));
    }
}
