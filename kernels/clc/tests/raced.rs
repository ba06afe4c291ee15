//! A header that changes after its text has become part of a key on disk, and before the compiler
//! reads it.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

#[allow(dead_code, reason = "only launches are of use here")]
mod support;

use quipu_clc::{Program, Unit, is_available, set_compiler};
use std::fs::write;
use std::os::unix::fs::PermissionsExt;
use support::Launch;

/// The result of the kernel `k` of a program.
fn written(program: &Program) -> i32 {
    let memory = [0];
    let mut launch = Launch::new([1, 1, 1], [1, 1, 1]);
    launch.memory(&memory);
    launch.run(program, "k");
    // SAFETY: the launch has written there; it is over.
    unsafe { std::ptr::from_ref(&memory[0]).read_volatile() }
}

// The only test of its process: the compiler is a script that changes the header first, if there is
// another one.
#[test]
fn what_is_made_of_a_header_that_has_changed_meanwhile_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let [script, header, other] = ["compiler", "value.h", "other.h"].map(|n| folder.path().join(n));
    let text = format!(
        "#!/bin/sh\nif [ -e {other} ]; then mv {other} {header}; fi\nexec {compiler}\n",
        other = other.display(),
        header = header.display(),
        compiler = env!("CARGO_BIN_EXE_quipu-clc"),
    );
    write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
    set_compiler(script, Vec::new());
    if !is_available() {
        assert!(
            std::env::var_os("QUIPU_TEST_CLC").is_none(),
            "there is no LLVM, and QUIPU_TEST_CLC wants it"
        );
        println!("NOT TESTED: OpenCL C on processors");
        return;
    }
    let options = format!("-I {}", folder.path().display());
    let source = "#include <value.h>\nkernel void k(global int *x) { *x = VALUE; }";
    let program = || Program::new(source, &options).unwrap();
    let unit = || Program::of(&Unit::new(source, &options, &[]).unwrap()).unwrap();
    let makes: [&dyn Fn() -> Program; 2] = [&program, &unit];
    // No other run has kept what is made of these numbers.
    let salt = std::process::id() as i32 * 4;
    for (at, make) in makes.iter().enumerate() {
        let [first, second] = [salt + 2 * at as i32, salt + 2 * at as i32 + 1];
        write(&header, format!("#define VALUE {first}\n")).unwrap();
        write(&other, format!("#define VALUE {second}\n")).unwrap();
        assert_eq!(written(&make()), second, "the header has not changed");
        assert_eq!(written(&make()), second);
        write(&header, format!("#define VALUE {first}\n")).unwrap();
        assert_eq!(written(&make()), first);
        // What is right is kept.
        assert_eq!(written(&make()), first);
    }
}
