//! The command on a terminal: a pseudoterminal, whose other end the tests have.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;
#[path = "support/terminal.rs"]
mod terminal;

use quipu_scheduler::trace::{CommandKind, CommandRecord, Recorder};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use terminal::{Started, Terminal, modes, watchdog};

fn quipu(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.args(arguments).env("QUIPU_HOME", home);
    for variable in ["QUIPU_LOG", "QUIPU_TRACE", "QUIPU_NODES", "NO_COLOR"] {
        command.env_remove(variable);
    }
    command.env("TERM", "xterm");
    command
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
    // Each picture is drawn over the one before: from the corner, each line to its end, and all
    // below.
    for _ in 0..3 {
        all += &terminal.wait_for("\x1b[J");
        let picture = terminal.wait_for("\x1b[J");
        assert!(picture.starts_with("\x1b[Hnode "), "{picture:?}");
        assert!(picture.contains("\r\nlab "), "{picture:?}");
        assert!(
            picture.contains(" units, by abacus:0\x1b[K\r\n"),
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
