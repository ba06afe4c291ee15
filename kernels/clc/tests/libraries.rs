//! Libraries that a program is told to load, which the compiler must not be.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use std::process::Command;
use support::program;

/// Set in a process that compiles with libraries that are none.
const WITHIN: &str = "QUIPU_TEST_OF_LIBRARIES";

#[test]
fn libraries_of_the_program_are_not_those_of_the_compiler() {
    let Some(program) = program("kernel void k(global int *x) { x[get_global_id(0)] = 1; }") else {
        return;
    };
    assert_eq!(program.warnings(), "");
    if std::env::var_os(WITHIN).is_some() {
        return;
    }
    let (folder, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let none = folder.path().join("libstdc++.so.6");
    std::fs::write(&none, "no library").unwrap();
    for (name, value) in [("LD_LIBRARY_PATH", folder.path()), ("LD_PRELOAD", &none)] {
        let within = Command::new(std::env::current_exe().unwrap())
            .env(WITHIN, "1")
            .env("QUIPU_CACHE", cache.path().join(name))
            .env(name, value)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&within.stdout);
        assert!(within.status.success(), "{name}: {said}");
    }
}
