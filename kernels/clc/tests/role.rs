//! The compiler's process, from outside.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

use std::io::{Read, Write};
use std::process::{Command, Stdio};

#[test]
fn a_compiler_gives_up_calls_of_the_system_before_it_answers() {
    let mut compiler = Command::new(env!("CARGO_BIN_EXE_quipu-clc"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = compiler.stdin.take().unwrap();
    to.write_all(b"no request").unwrap();
    drop(to);
    let mut answer = Vec::new();
    let mut said = compiler.stdout.take().unwrap();
    said.read_to_end(&mut answer).unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("the request is not one"));
    // Nobody has waited for it, so the system still knows what it was.
    let status = std::fs::read_to_string(format!("/proc/{}/status", compiler.id())).unwrap();
    compiler.wait().unwrap();
    for line in ["Seccomp:\t2", "NoNewPrivs:\t1"] {
        assert!(status.contains(line), "{line} is not in\n{status}");
    }
}
