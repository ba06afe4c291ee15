//! Loaded kernels: they are open no longer than they are being loaded, and each is its own.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu_clc::Program;
use support::{Launch, program};

/// The number of files that this process has open.
fn open() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

// The only test of its process, for others would open files meanwhile.
#[test]
fn kernels_keep_no_files() {
    const KERNELS: usize = 12;
    let text: String = (0..KERNELS)
        .map(|at| format!("global int shared{at}; kernel void k{at}(global int *x) {{ shared{at} += {at}; *x = shared{at}; }}\n"))
        .collect();
    if program("kernel void k() {}").is_none() {
        return;
    }
    let program = Program::new(&text, "-cl-std=CL3.0").unwrap();
    let memory = [0];
    let mut launch = Launch::new([1, 1, 1], [1, 1, 1]);
    launch.memory(&memory);
    // All of them stay loaded, with the variables that they share.
    launch.run(&program, "k0");
    let before = open();
    for round in 1..3 {
        for at in 0..KERNELS {
            launch.run(&program, &format!("k{at}"));
            // SAFETY: the launch has written there; it is over.
            let written = unsafe { std::ptr::from_ref(&memory[0]).read_volatile() };
            assert_eq!(written as usize, at * round, "kernel {at}");
        }
    }
    assert_eq!(open(), before);
}
