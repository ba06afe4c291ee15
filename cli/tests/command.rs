//! The `quipu` command as a user runs it: output, files and exit status.

// Helpers of tests are tests: unwrap is their assertion too.
#![allow(clippy::unwrap_used)]

use quipu_scheduler::trace::{CommandKind, CommandRecord, Recorder};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The command, with an environment that says nothing about Quipu.
fn quipu(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.args(arguments);
    for variable in [
        "QUIPU_LOG",
        "QUIPU_TRACE",
        "QUIPU_CPU_WORKERS",
        "QUIPU_CPU_PIN",
    ] {
        command.env_remove(variable);
    }
    // What there is of CUDA and OpenCL differs from machine to machine.
    command.env("QUIPU_CUDA", "off");
    command.env("QUIPU_OPENCL", "off");
    command
}

fn run(arguments: &[&str]) -> Output {
    quipu(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A failure that is one line, and the line.
fn failure(output: &Output) -> String {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with("error: "), "{text}");
    assert!(output.stdout.is_empty());
    text
}

#[test]
fn the_version_and_the_help_name_the_command() {
    let version = stdout(&run(&["--version"]));
    assert_eq!(version, format!("quipu {}\n", env!("CARGO_PKG_VERSION")));
    let help = stdout(&run(&["--help"]));
    for word in [
        "demo",
        "devices",
        "kernel",
        "bench",
        "trace",
        "QUIPU_LOG",
        "QUIPU_TRACE",
    ] {
        assert!(help.contains(word), "{help}");
    }
    assert!(!help.contains('\x1b'), "no colours in a pipe");
}

#[test]
fn a_command_line_that_makes_no_sense_is_a_usage_error() {
    for arguments in [
        &[][..],
        &["device"],
        &["devices", "--json", "--verbose"],
        &["trace"],
        &["kernel"],
        &["kernel", "print"],
        &["kernel", "print", "saxpy", "--dialect", "basic"],
        &["kernel", "print", "saxpy", "--index-width", "16"],
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains("help"), "{arguments:?}");
    }
}

#[test]
fn devices_are_listed_in_three_ways() {
    let table = stdout(&run(&["devices"]));
    assert!(table.starts_with("device "), "{table}");
    for device in ["cpu:0", "serial:0", "sim:0", "sim:1"] {
        assert_eq!(table.matches(device).count(), 1, "{table}");
    }
    assert!(!table.contains('\x1b'), "no colours in a pipe");

    let list = stdout(&run(&["devices", "--verbose"]));
    for property in ["multiprocessors", "max block threads", "vendor", "vailable"] {
        assert!(list.contains(property), "{list}");
    }

    let json: Value = serde_json::from_str(&stdout(&run(&["devices", "--json"]))).unwrap();
    let devices = json["devices"].as_array().unwrap();
    let ids: Vec<&str> = devices.iter().filter_map(|d| d["id"].as_str()).collect();
    assert_eq!(ids, ["cpu:0", "serial:0", "sim:0", "sim:1"]);
    assert!(json["unavailable"].is_array());
    for device in devices {
        let fields = device.as_object().unwrap();
        assert_eq!(fields.len(), 25, "{device}");
        assert!(device["multiprocessors"].as_u64().unwrap() >= 1);
        assert_eq!(device["max_grid_blocks"].as_array().unwrap().len(), 3);
    }
}

#[test]
fn a_machine_without_opencl_is_told_why() {
    let mut command = quipu(&["devices", "--verbose"]);
    // The loader of Debian looks here for vendors; without one, there is no loader either.
    command.env_remove("QUIPU_OPENCL");
    command.env("OCL_ICD_VENDORS", "/nowhere");
    let list = stdout(&command.output().unwrap());
    let line = list.lines().find(|line| line.trim().starts_with("opencl"));
    assert!(line.is_some_and(|line| line.contains("OpenCL")), "{list}");
}

#[test]
fn the_environment_sets_the_workers_and_a_wrong_value_is_explained() {
    let with = |workers: &str, arguments: &[&str]| {
        let mut command = quipu(arguments);
        stdout(&command.env("QUIPU_CPU_WORKERS", workers).output().unwrap())
    };
    let json: Value = serde_json::from_str(&with("3", &["devices", "--json"])).unwrap();
    assert_eq!(json["devices"][0]["multiprocessors"], 3);

    let table = with("none", &["devices"]);
    assert!(!table.contains("cpu:0"), "{table}");
    assert!(table.contains("1 driver is not available"), "{table}");
    let list = with("none", &["devices", "--verbose"]);
    assert!(list.contains("QUIPU_CPU_WORKERS=none"), "{list}");
    let list = with("\x1b[2J", &["devices", "--verbose"]);
    assert!(list.contains("QUIPU_CPU_WORKERS="), "{list}");
    assert!(!list.contains('\x1b'), "{list}");
}

#[test]
fn kernels_are_listed_and_printed_as_asked() {
    let list = stdout(&run(&["kernel", "list"]));
    assert!(list.starts_with("saxpy "), "{list}");
    for line in list.lines() {
        let name = line.split(' ').next().unwrap();
        for dialect in ["c99", "opencl", "cuda"] {
            let source = stdout(&run(&["kernel", "print", name, "--dialect", dialect]));
            assert!(source.contains(name), "{source}");
        }
    }

    let print = |options: &[&str]| {
        let arguments = [&["kernel", "print", "matrix_product"], options].concat();
        stdout(&run(&arguments))
    };
    let (c99, opencl, cuda) = (
        print(&[]),
        print(&["--dialect", "opencl"]),
        print(&["--dialect", "cuda"]),
    );
    // The user's names, whatever the language.
    for source in [&c99, &opencl, &cuda] {
        assert!(
            source.contains("a_tile") && source.contains("sum"),
            "{source}"
        );
    }
    assert!(c99.contains("int32_t matrix_product("), "{c99}");
    assert!(opencl.contains("barrier("), "{opencl}");
    assert!(cuda.contains("__syncthreads()"), "{cuda}");
    assert_eq!(c99, print(&["--dialect", "c99", "--index-width", "32"]));
    assert_ne!(c99, print(&["--index-width", "64"]));
    assert!(!c99.contains("#line"), "{c99}");
    let with_lines = print(&["--lines"]);
    assert!(with_lines.contains("kernels.rs\""), "{with_lines}");
}

#[test]
fn an_unknown_kernel_is_answered_with_the_names() {
    let error = failure(&run(&["kernel", "print", "axpy"]));
    assert!(error.contains("\"axpy\""), "{error}");
    assert!(error.contains("saxpy, spread"), "{error}");
}

/// A trace of three commands on two devices, one of them failed.
fn record(path: &Path) {
    let recorder = Recorder::create(path).unwrap();
    recorder.name_device(0, "a processor");
    recorder.name_device(1, "an accelerator");
    recorder.name_queue(0, "main");
    for id in 0..3 {
        let command = CommandRecord {
            device: (id % 2) as u32,
            started_ns: 1_000 * id + 100,
            ended_ns: 1_000 * id + 900,
            failed: (id == 2).then(|| "on purpose".to_owned()),
            ..CommandRecord::new(id, CommandKind::Launch, "saxpy")
        };
        recorder.record(command).unwrap();
    }
}

#[test]
fn a_trace_becomes_a_table_a_page_and_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    record(&folder.path().join("trace.json"));
    let trace = |arguments: &[&str]| {
        let mut command = quipu(&["trace", "trace.json"]);
        let command = command.args(arguments).current_dir(folder.path());
        command.output().unwrap()
    };

    let table = stdout(&trace(&[]));
    assert!(table.starts_with("3 commands on 2 devices"), "{table}");
    assert!(
        table.contains("1 failed") && table.contains("an accelerator"),
        "{table}"
    );
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        1,
        "no other file"
    );

    let table = stdout(&trace(&["-o", "timeline.html"]));
    assert!(
        table.ends_with("The timeline is in timeline.html\n"),
        "{table}"
    );
    let page = fs::read_to_string(folder.path().join("timeline.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") || page.starts_with("<!doctype html>"));
    assert!(page.contains("saxpy") && page.contains("trace.json"));

    stdout(&trace(&["--output", "timeline.svg"]));
    let picture = fs::read_to_string(folder.path().join("timeline.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("an accelerator"));
}

#[test]
fn a_trace_that_cannot_be_used_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let trace = |arguments: &[&str]| {
        let mut command = quipu(&["trace"]);
        let command = command.args(arguments).current_dir(folder.path());
        failure(&command.output().unwrap())
    };
    let error = trace(&["trace.json"]);
    assert!(
        error.contains("cannot open the trace trace.json"),
        "{error}"
    );
    assert!(error.contains("QUIPU_TRACE=trace.json"), "{error}");

    fs::write(&path, "\x1b[31mno trace").unwrap();
    let error = trace(&["trace.json"]);
    assert!(error.starts_with("error: trace.json: "), "{error}");

    record(&path);
    let before = fs::read(&path).unwrap();
    let error = trace(&["trace.json", "-o", "./trace.json"]);
    assert!(error.contains("overwrite"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
    let error = trace(&["trace.json", "-o", "nowhere/page.html"]);
    assert!(error.contains("cannot write nowhere"), "{error}");
}

#[test]
fn logging_goes_to_standard_error_and_nonsense_is_refused() {
    let with = |level: &str| {
        let mut command = quipu(&["devices"]);
        command.env("QUIPU_LOG", level).output().unwrap()
    };
    let debug = with("debug");
    assert!(stdout(&debug).starts_with("device "));
    assert!(
        stderr(&debug).contains("CPU pool made"),
        "{}",
        stderr(&debug)
    );
    assert!(!stderr(&debug).contains('\x1b'), "no colours in a pipe");
    assert_eq!(stderr(&with("error")), "");
    assert_eq!(stderr(&with("")), "");
    let error = failure(&with("verbose"));
    assert!(error.contains("QUIPU_LOG=verbose"), "{error}");
}

#[test]
fn whoever_stops_reading_has_had_enough() {
    for arguments in [
        &["devices", "--verbose"][..],
        &["kernel", "list"],
        &["--help"],
    ] {
        let mut child = quipu(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(stderr(&output), "", "{arguments:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_standard_error_that_nobody_reads_ends_nothing() {
    for (variable, value) in [
        ("QUIPU_TRACE", "/nowhere/trace.json"),
        ("QUIPU_LOG", "trace"),
    ] {
        let closed = || std::io::pipe().unwrap().1;
        let mut command = quipu(&["devices"]);
        command.env(variable, value);
        let ended = command.stdout(closed()).stderr(closed()).status().unwrap();
        assert_eq!(ended.code(), Some(0), "{variable}={value}");
    }
}

#[cfg(unix)]
#[test]
fn benchmarks_are_a_program_beside_the_command() {
    use std::os::unix::fs::PermissionsExt;
    // Outside of the source tree, in which it would be built.
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("quipu");
    // Another process writes each program: a test that starts a process beside this one would pass
    // it our open file, and a file that is open for writing cannot be run.
    let shell = |script: &str, arguments: &[&Path]| {
        let mut shell = Command::new("sh");
        shell.args(["-ec", script, "sh"]).args(arguments);
        assert!(shell.status().unwrap().success());
    };
    shell(
        "cp \"$1\" \"$2\"",
        &[Path::new(env!("CARGO_BIN_EXE_quipu")), &own],
    );
    let bench = || {
        Command::new(&own)
            .args(["bench", "no-op", "--help", "-x", "a b"])
            .output()
    };
    let error = failure(&bench().unwrap());
    assert!(
        error.contains("cargo build --release -p quipu-bench"),
        "{error}"
    );

    let program = folder.path().join("quipu-bench");
    let script = r#"printf '#!/bin/sh\nprintf "<%%s>" "$@"\nexit 7\n' > "$1""#;
    shell(script, &[&program]);
    let error = failure(&bench().unwrap());
    assert!(error.contains("cannot start"), "{error}");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let output = bench().unwrap();
    assert_eq!(output.stdout, b"<no-op><--help><-x><a b>");
    assert_eq!(output.status.code(), Some(7));
}
