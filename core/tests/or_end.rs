//! The end of the process by a driver's own panic.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu_scheduler::process::or_end;
use std::process::Command;

const INSIDE: &str = "QUIPU_TEST_OR_END";

#[test]
fn a_driver_that_panics_ends_the_process_with_words() {
    if std::env::var_os(INSIDE).is_some() {
        let thread = std::thread::spawn(|| or_end("a test", || panic!("a fault")));
        let _ = thread.join();
        return;
    }
    assert_eq!(or_end("a test", || 1), 1);
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.env(INSIDE, "1").args(["--exact", "--nocapture"]);
    again.arg("a_driver_that_panics_ends_the_process_with_words");
    let output = again.output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the thread 'a test' panicked"), "{said}");
}
