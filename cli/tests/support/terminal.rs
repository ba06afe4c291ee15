//! A pseudoterminal with a command on it, whose other end the tests have.

use quipu_conformance::Watchdog;
use rustix::process::{ioctl_tiocsctty, setsid};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

pub(crate) fn watchdog() -> Watchdog {
    Watchdog::start(Duration::from_secs(600), "a command on a terminal".into())
}

/// A command that is ended with the test.
pub(crate) struct Started(pub(crate) Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A terminal, and the command on it.
pub(crate) struct Terminal {
    pub(crate) screen: File,
    /// The terminal's settings (echo, line mode) before a command had it.
    pub(crate) modes: String,
    shown: String,
    pub(crate) command: Started,
}

impl Terminal {
    /// Starts a command on a terminal of its own, in whose lines there is room for 120 characters.
    pub(crate) fn of(mut command: Command) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let screen = openpt(flags).unwrap();
        unlockpt(&screen).unwrap();
        let device = ioctl_tiocgptpeer(&screen, flags).unwrap();
        let size = Winsize {
            ws_row: 40,
            ws_col: 120,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&device, size).unwrap();
        let [input, output, errors] = [(); 3].map(|()| device.try_clone().unwrap());
        command.stdin(input).stdout(output).stderr(errors);
        // It is the one that Ctrl-C is for, and heeds it, also where whoever runs the tests does
        // not, as what a shell leaves behind.
        let input = std::io::stdin();
        let take_terminal = move || {
            // SAFETY: the system's own handler.
            unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
            setsid()?;
            Ok(ioctl_tiocsctty(&input)?)
        };
        // SAFETY: system calls, which may be made between fork and exec.
        unsafe { command.pre_exec(take_terminal) };
        Self {
            modes: modes(&device),
            screen: File::from(screen),
            shown: String::new(),
            command: command.spawn().map(Started).unwrap(),
        }
    }

    /// Waits until that has been shown; what has been shown up to there.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.shown.find(text) {
                let rest = self.shown.split_off(at + text.len());
                return std::mem::replace(&mut self.shown, rest);
            }
            assert!(self.read(), "{:?}", self.shown);
        }
    }

    /// Reads what has been written, or waits for it. False if the command has ended, and all of it
    /// has been read.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        // It is an error where nobody has the other end any more.
        let count = self.screen.read(&mut bytes).unwrap_or(0);
        self.shown
            .push_str(&String::from_utf8_lossy(&bytes[..count]));
        count > 0
    }

    /// Waits until the command has ended; with which status, and what it has shown since.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        while self.read() {}
        (
            self.command.0.wait().unwrap(),
            std::mem::take(&mut self.shown),
        )
    }
}

pub(crate) fn modes(terminal: impl AsFd) -> String {
    format!("{:?}", tcgetattr(terminal).unwrap())
}
