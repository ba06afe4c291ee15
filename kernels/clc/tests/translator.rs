//! Machines that have LLVM, and no translator of SPIR-V.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

use quipu_clc::{ClcError, SpirV, Unit, is_available, set_compiler, takes_spirv};
use std::process::Command;

/// The part of the test below in a process of its own: LLVM is looked for once.
#[test]
fn looks_in_a_process_of_its_own() {
    let Some(wanted) = std::env::var_os("QUIPU_TEST_TRANSLATOR") else {
        return;
    };
    set_compiler(env!("CARGO_BIN_EXE_quipu-clc").into(), Vec::new());
    assert!(is_available());
    assert_eq!(takes_spirv(), wanted == "there");
    // A module of kernels, without any.
    let words = [
        0x0723_0203_u32,
        0x10000,
        0,
        8,
        0,
        2 << 16 | 17,
        6,
        3 << 16 | 14,
        2,
        2,
    ];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let module = SpirV::new(&bytes).unwrap();
    if wanted == "missing" {
        let error = Unit::of_spirv(&module).unwrap_err();
        assert!(matches!(error, ClcError::NoTranslator));
        let said = error.to_string();
        assert!(
            said.contains("llvm-spirv") && said.contains("apt install"),
            "{said}"
        );
    }
}

#[test]
fn a_machine_without_a_translator_says_what_to_install() {
    let folder = tempfile::tempdir().unwrap();
    for part in ["bin", "lib"] {
        std::fs::create_dir(folder.path().join(part)).unwrap();
    }
    // Tools are looked for by their names; none of these is run.
    let make = |name: &str| std::fs::write(folder.path().join(name), "").unwrap();
    for file in ["bin/clang-19", "bin/ld.lld-19", "lib/libLLVM.so.19.1"] {
        make(file);
    }
    let look = |wanted: &str| {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "looks_in_a_process_of_its_own"])
            .env("QUIPU_LLVM", folder.path())
            .env("QUIPU_TEST_TRANSLATOR", wanted)
            .status();
        assert!(status.unwrap().success(), "{wanted}");
    };
    look("missing");
    // LLVM does not read the bitcode of newer versions.
    make("bin/llvm-spirv-20");
    look("missing");
    make("bin/llvm-spirv-15");
    look("there");
}
