//! Kernels of a process on a system where `/proc` is not mounted.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use std::process::Command;
use support::{Launch, program};

/// A command in a namespace of its own, in which `/proc` is an empty folder.
fn without_proc(command: &[&str]) -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "--", "sh", "-c"]);
    unshare
        .arg("mount -t tmpfs none /proc && exec \"$@\"")
        .arg("sh")
        .args(command);
    unshare
}

#[test]
fn kernels_are_loaded_without_proc() {
    if program("kernel void k() {}").is_none() {
        return;
    }
    let can = without_proc(&["test", "!", "-e", "/proc/self"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        println!(
            "NOT TESTED: a system without /proc: there is no `unshare`, or it may not make namespaces"
        );
        return;
    }
    let own = std::env::current_exe().unwrap();
    let arguments = ["--exact", "inside", "--ignored"];
    let ran = without_proc(&[&[own.to_str().unwrap()], &arguments[..]].concat())
        .output()
        .unwrap();
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stdout)
    );
}

#[test]
#[ignore = "the other test runs it, in a namespace of its own"]
fn inside() {
    let program = program("kernel void k(global int *x) { x[get_global_id(0)] += 7; }").unwrap();
    let memory = [1; 4];
    let mut launch = Launch::new([4, 1, 1], [4, 1, 1]);
    launch.memory(&memory);
    launch.run(&program, "k");
    assert_eq!(std::hint::black_box(memory), [8; 4]);
}
