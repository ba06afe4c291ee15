//! The command on a terminal: a pseudoterminal, whose other end the tests have.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu_conformance::Watchdog;
use quipu_core::trace::{CommandKind, CommandRecord, Recorder};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{ioctl_tiocsctty, setsid};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

fn quipu(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.args(arguments).env("QUIPU_HOME", home);
    for variable in ["QUIPU_LOG", "QUIPU_TRACE", "QUIPU_NODES", "NO_COLOR"] {
        command.env_remove(variable);
    }
    command.env("TERM", "xterm");
    command
}

fn watchdog() -> Watchdog {
    Watchdog::start(Duration::from_secs(600), "a command on a terminal".into())
}

/// A command that is ended with the test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A terminal, and the command on it.
struct Terminal {
    screen: File,
    /// What it does with what is typed and shown, before there was a command.
    modes: String,
    shown: String,
    command: Started,
}

impl Terminal {
    /// Starts a command on a terminal of its own, in whose lines there is room for 120 characters.
    fn of(mut command: Command) -> Self {
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
        // It is the one that Ctrl-C is for, and heeds it, also where whoever runs the tests does not, as what a shell leaves behind.
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
    fn wait_for(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.shown.find(text) {
                let rest = self.shown.split_off(at + text.len());
                return std::mem::replace(&mut self.shown, rest);
            }
            assert!(self.read(), "{:?}", self.shown);
        }
    }

    /// Reads what has been written, or waits for it. False if the command has ended, and all of it has been read.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        // It is an error where nobody has the other end any more.
        let count = self.screen.read(&mut bytes).unwrap_or(0);
        self.shown
            .push_str(&String::from_utf8_lossy(&bytes[..count]));
        count > 0
    }

    /// Waits until the command has ended; with which status, and what it has shown since.
    fn end(mut self) -> (ExitStatus, String) {
        while self.read() {}
        (
            self.command.0.wait().unwrap(),
            std::mem::take(&mut self.shown),
        )
    }
}

fn modes(terminal: impl AsFd) -> String {
    format!("{:?}", tcgetattr(terminal).unwrap())
}

/// A pipe with a name: whoever opens it waits for the other end.
fn named_pipe(folder: &Path, name: &str) -> String {
    let path = folder.join(name);
    mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    path.into_os_string().into_string().unwrap()
}

/// A timeline is not written before somebody reads it: it takes as long as the test has patience.
#[test]
fn what_takes_more_than_a_second_is_shown_on_a_terminal_and_nowhere_else() {
    let _watchdog = watchdog();
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.json");
    let recorder = Recorder::create(&trace).unwrap();
    recorder.name_device(0, "a processor");
    let command = CommandRecord {
        started_ns: 100,
        ended_ns: 900,
        ..CommandRecord::new(0, CommandKind::Launch, "saxpy")
    };
    recorder.record(command).unwrap();
    drop(recorder);
    let [unseen, seen] = ["unseen.html", "seen.html"].map(|name| named_pipe(folder.path(), name));
    let write = |page: &str| {
        quipu(
            folder.path(),
            &["trace", trace.to_str().unwrap(), "-o", page],
        )
    };
    // It has begun before the other, so if that has taken a second, it has.
    let mut piped = write(&unseen)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map(Started)
        .unwrap();
    let mut terminal = Terminal::of(write(&seen));
    terminal.wait_for("writing the timeline");
    for page in [&unseen, &seen] {
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains("saxpy"));
    }
    let (status, shown) = terminal.end();
    assert!(status.success(), "{shown:?}");
    // The line is cleared before there is anything else.
    let Some((bar, table)) = shown.split_once("1 command on 1 device") else {
        panic!("{shown:?}");
    };
    assert!(bar.ends_with("\x1b[2K"), "{shown:?}");
    assert!(!table.contains('\x1b'), "{shown:?}");
    let said = std::io::read_to_string(piped.0.stderr.take().unwrap()).unwrap();
    assert_eq!(said, "");
    let table = std::io::read_to_string(piped.0.stdout.take().unwrap()).unwrap();
    assert!(!table.contains('\x1b'), "{table:?}");
    assert!(piped.0.wait().unwrap().success());
}

/// It watches processes that do nothing, each for most of a second: more than two in all.
#[test]
fn a_benchmark_shows_what_it_has_measured_before_it_is_done() {
    let _watchdog = watchdog();
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "bench",
        "idle",
        "--quick",
        "--runs",
        "2",
        "--workers",
        "1,2",
    ];
    let mut terminal = Terminal::of(quipu(folder.path(), &arguments));
    // The rows of one worker are above the bar while two are watched.
    for line in ["processor time", "context switches"] {
        terminal.wait_for(&format!("{line}, cpu, 1 worker: "));
    }
    let bar = terminal.wait_for("idle case 3 of 3 ");
    assert!(!bar.contains("2 workers"), "{bar:?}");
    terminal.wait_for("context switches, cpu, 2 workers: ");
    let (status, shown) = terminal.end();
    assert!(status.success(), "{shown:?}");
    let Some((bar, table)) = shown.split_once("idle on ") else {
        panic!("{shown:?}");
    };
    assert!(bar.ends_with("\x1b[2K"), "{shown:?}");
    assert!(!table.contains('\x1b'), "{shown:?}");
    assert_eq!(table.matches("processor time").count(), 4, "{table:?}");
}

#[test]
fn top_draws_until_it_is_interrupted_and_leaves_the_terminal_as_it_was() {
    let _watchdog = watchdog();
    let folder = tempfile::tempdir().unwrap();
    let client = folder.path().join("client");
    let node = support::accelerator(&folder.path().join("node"));
    let paired = quipu(&client, &["pair", &node.invite().unwrap()]).output();
    assert!(paired.unwrap().status.success());

    let mut terminal = Terminal::of(quipu(&client, &["top", "--interval", "0.1"]));
    let mut all = terminal.wait_for(" units, by abacus");
    // Each picture is drawn over the one before: from the corner, each line to its end, and all below.
    for _ in 0..3 {
        all += &terminal.wait_for("\x1b[J");
        let picture = terminal.wait_for("\x1b[J");
        assert!(picture.starts_with("\x1b[Hnode "), "{picture:?}");
        assert!(picture.contains("\r\nlab "), "{picture:?}");
        assert!(
            picture.contains(" units, by abacus\x1b[K\r\n"),
            "{picture:?}"
        );
        all += &picture;
    }
    terminal.screen.write_all(b"\x03").unwrap();
    let (screen, before) = (terminal.screen.try_clone().unwrap(), terminal.modes.clone());
    let (status, rest) = terminal.end();
    assert_eq!(status.signal(), Some(2), "{status}: {rest:?}");
    assert_eq!(modes(&screen), before);
    // Nothing that would have to be undone: a cursor that is hidden, another screen.
    assert!(!(all + &rest).contains("\x1b[?"));
}
