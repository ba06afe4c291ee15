//! The tools that are found in a folder that the environment names.

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

/// A folder of tools. They are looked for by their names, and none is run.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let this = Self(tempfile::tempdir().unwrap());
        for part in ["bin", "lib", "path"] {
            std::fs::create_dir(this.0.path().join(part)).unwrap();
        }
        this
    }

    fn make(&self, name: &str) {
        std::fs::write(self.0.path().join(name), "").unwrap();
    }

    /// Looks for the tools there.
    fn look(&self, wanted: &str) {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "looks_in_a_process_of_its_own"])
            .env("QUIPU_LLVM", self.0.path())
            // A translator is looked for there, too.
            .env("PATH", self.0.path().join("path"))
            .env("QUIPU_TEST_TRANSLATOR", wanted)
            .status();
        assert!(status.unwrap().success(), "{wanted}");
    }
}

#[test]
fn a_machine_without_a_translator_says_what_to_install() {
    let folder = Folder::new();
    for file in ["bin/clang-19", "bin/ld.lld-19", "lib/libLLVM.so.19.1"] {
        folder.make(file);
    }
    folder.look("missing");
    // LLVM does not read the bitcode of newer versions.
    folder.make("bin/llvm-spirv-20");
    folder.look("missing");
    folder.make("path/llvm-spirv-15");
    folder.look("there");
}

#[test]
fn the_library_may_be_the_systems_while_the_programs_are_in_the_folder() {
    let multiarch = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let is_there = |version: &u32| {
        let path = format!("{multiarch}/libLLVM.so.{version}.1");
        std::path::Path::new(&path).is_file()
    };
    let Some(version) = (18..=22).find(is_there) else {
        println!("NOT TESTED: libLLVM apart from its programs: {multiarch} has none");
        return;
    };
    let folder = Folder::new();
    folder.make(&format!("bin/clang-{version}"));
    folder.make(&format!("bin/ld.lld-{version}"));
    folder.look("missing");
}
