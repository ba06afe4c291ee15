//! Standard error that nobody reads: what is said there is lost, and nothing ends.
#![cfg(all(not(loom), target_os = "linux"))]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu_scheduler::trace;
use std::fs::File;
use std::io::pipe;
use std::process::{Command, Stdio};

const INSIDE: &str = "QUIPU_TEST_SAID";

/// This test in a process of its own, which traces to a file.
fn again(file: &str, stderr: impl Into<Stdio>) -> Command {
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.env(INSIDE, "1").env("QUIPU_TRACE", file);
    again.args(["--exact", "--nocapture"]);
    again.arg("a_standard_error_that_nobody_reads_ends_no_process");
    again.stdout(Stdio::null()).stderr(stderr);
    again
}

#[test]
fn a_standard_error_that_nobody_reads_ends_no_process() {
    if std::env::var_os(INSIDE).is_some() {
        trace::enabled();
        return;
    }
    // As a trace begins.
    let closed = || pipe().unwrap().1;
    let ended = again("/nowhere/trace.json", closed()).status().unwrap();
    assert!(ended.success(), "{ended}");
    // As the process exits: a file in which nothing can be changed is not completed.
    let fifo = std::env::temp_dir().join(format!("quipu-said-{}", std::process::id()));
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    // It takes all that is written, as nobody waits for a reader then.
    let _open = File::options().read(true).write(true).open(&fifo).unwrap();
    let file = fifo.to_str().unwrap();
    let heard = again(file, Stdio::piped()).output().unwrap().stderr;
    let ended = again(file, closed()).status().unwrap();
    std::fs::remove_file(&fifo).unwrap();
    let heard = String::from_utf8_lossy(&heard);
    assert!(heard.contains("quipu: "), "{heard}");
    assert!(ended.success(), "{ended}");
}
