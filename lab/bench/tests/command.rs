//! `quipu-bench` as a user runs it: output, files and exit status.

// Helpers of tests are tests: unwrap is their assertion too.
#![allow(clippy::unwrap_used)]

#[cfg(target_os = "linux")]
#[path = "../../../cli/tests/support/terminal.rs"]
#[allow(dead_code, reason = "tests of the command look at more of a terminal")]
mod terminal;

use quipu::Platform;
use quipu::drivers::Options as CpuOptions;
use quipu::drivers::remote::paired;
use quipu::serve::Server;
use serde_json::Value;
use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// The program, with an environment that says nothing about Quipu.
fn bench(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu-bench"));
    command.args(arguments);
    for variable in [
        "QUIPU_LOG",
        "QUIPU_TRACE",
        "QUIPU_CPU_WORKERS",
        "QUIPU_CPU_PIN",
    ] {
        command.env_remove(variable);
    }
    // The devices of CUDA and OpenCL differ from machine to machine.
    command.env("QUIPU_CUDA", "off");
    command.env("QUIPU_OPENCL", "off");
    command
}

fn run(arguments: &[&str]) -> Output {
    bench(arguments).output().unwrap()
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
fn a_command_line_that_makes_no_sense_is_a_usage_error() {
    for arguments in [&[][..], &["no-op", "--runs", "many"]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains("help"), "{arguments:?}");
    }
}

#[test]
fn benchmarks_are_listed_by_name() {
    let list = stdout(&run(&["list"]));
    for benchmark in quipu_bench::list() {
        let line = format!("{} ", benchmark.name());
        assert!(list.lines().any(|l| l.starts_with(&line)), "{list}");
    }
}

#[test]
fn an_unknown_benchmark_is_answered_with_the_names() {
    // Also behind a known one: nothing is run before all are known.
    for names in [&["inorder"][..], &["in-order", "inorder"]] {
        let error = failure(&run(names));
        assert!(error.contains("\"inorder\""), "{error}");
        assert!(error.contains("in-order, out-of-order"), "{error}");
    }
}

#[test]
fn a_benchmark_writes_the_stable_form() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("r.json");
    let output = bench(&["in-order", "--quick", "--runs", "1"])
        .args(["--workers", "1,2"])
        .arg("--json")
        .arg(&json)
        .output()
        .unwrap();
    let table = stdout(&output);
    assert!(table.starts_with("in-order on "), "{table}");
    assert!(table.contains("100000 kernels"), "{table}");
    let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(report["benchmark"], "in-order");
    let rows = report["rows"].as_array().unwrap();
    assert!(!rows.is_empty());
    for row in rows {
        assert_eq!(row["device"], "cpu");
        assert_eq!(row["unit"], "ns/kernel");
        assert_eq!(row["runs"], 1);
        assert!(row["value"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["ratio"].is_number(), "{row}");
    }
    let workers = |row: &Value| row["workers"].as_u64();
    assert!(rows.iter().any(|row| workers(row) == Some(2)));
}

#[test]
fn several_benchmarks_write_a_file_each() {
    let folder = tempfile::tempdir().unwrap();
    let output = bench(&["no-op", "enqueue", "--quick", "--runs", "1"])
        .args(["--workers", "1", "--json", "r.json"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let table = stdout(&output);
    assert!(
        table.contains("no-op on ") && table.contains("\n\nenqueue on "),
        "{table}"
    );
    for name in ["no-op", "enqueue"] {
        let text = fs::read_to_string(folder.path().join(format!("r-{name}.json"))).unwrap();
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["benchmark"], name);
    }
    assert!(!folder.path().join("r.json").exists());
}

#[test]
fn options_that_measure_nothing_are_refused() {
    let error = failure(&run(&["no-op", "--workers", "0"]));
    assert!(error.contains("--workers"), "{error}");
    let error = failure(&run(&["no-op", "--runs", "0"]));
    assert!(error.contains("--runs"), "{error}");
}

/// The numbers of commands and devices of a trace.
fn traced(path: &std::path::Path) -> (usize, usize) {
    let trace: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let events = trace.as_array().unwrap().iter();
    let commands = events.filter(|event| event["cat"] == "command");
    let devices: Vec<_> = commands
        .map(|event| event["args"]["device"].as_u64())
        .collect();
    let different: std::collections::HashSet<_> = devices.iter().collect();
    (devices.len(), different.len())
}

#[test]
fn a_benchmark_can_be_traced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let arguments = ["no-op", "--quick", "--runs", "1", "--workers", "1"];
    stdout(
        &bench(&arguments)
            .env("QUIPU_TRACE", &path)
            .output()
            .unwrap(),
    );
    let another = folder.path().join("another.json");
    stdout(
        &bench(&arguments)
            .arg("--trace")
            .arg(&another)
            .output()
            .unwrap(),
    );
    for path in [path, another] {
        let (commands, devices) = traced(&path);
        assert!(commands > 0 && devices == 1, "{commands} of {devices}");
    }
    let nowhere = folder.path().join("no/trace.json");
    let error = failure(
        &bench(&arguments)
            .arg("--trace")
            .arg(&nowhere)
            .output()
            .unwrap(),
    );
    assert!(error.contains("cannot create the trace file"), "{error}");
}

#[test]
fn a_benchmark_runs_on_a_paired_node() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let server = Server::new(quipu_cli::benchmarks::served());
    let server = server.address("127.0.0.1:0").name("lab").one_process();
    let server = server.folder(folder.path().join("node")).devices(|| {
        let platform = Platform::builder().without_embedded();
        let platform = platform.cpu(CpuOptions::new()).build()?;
        Ok(platform.devices().to_vec())
    });
    let serving = server.start().unwrap();
    paired::pair(&home, &serving.invite().unwrap(), Duration::from_secs(60)).unwrap();
    let of_node = |name: &str, node: &str| {
        let mut command = bench(&[name, "--quick", "--runs", "1", "--node", node]);
        command.env("QUIPU_HOME", &home).output().unwrap()
    };
    let table = stdout(&of_node("saxpy", "lab"));
    assert!(table.contains("lab/cpu:0"), "{table}");
    assert!(!table.contains(" cpu:0"), "{table}");
    let error = failure(&of_node("saxpy", "attic"));
    assert!(error.contains("no node 'attic' was paired with"), "{error}");
    let error = failure(&of_node("in-order", "lab"));
    assert!(error.contains("takes no --node"), "{error}");
}

#[test]
fn a_reader_that_stops_has_had_enough() {
    let mut child = bench(&["list"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stderr(&output), "");
}

#[cfg(target_os = "linux")]
/// It watches processes that do nothing, each for most of a second: more than two in all.
#[test]
fn a_benchmark_shows_what_it_has_measured_before_it_is_done() {
    let _watchdog = terminal::watchdog();
    let arguments = ["idle", "--quick", "--runs", "2", "--workers", "1,2"];
    let mut on_terminal = bench(&arguments);
    on_terminal.env("TERM", "xterm").env_remove("NO_COLOR");
    let mut terminal = terminal::Terminal::of(on_terminal);
    // The rows of one worker are above the bar while two are watched.
    for line in ["processor time", "context switches"] {
        terminal.wait_for(&format!("{line}, cpu, 1 worker: "));
    }
    let bar = terminal.wait_for("idle case 3 of 3 ");
    assert!(!bar.contains("2 workers"), "{bar:?}");
    terminal.wait_for("context switches, cpu, 2 workers: ");
    let (status, shown) = terminal.end();
    assert!(status.success(), "{shown:?}");
    let Some((bar, table)) = shown.split_once("idle on ") else {
        panic!("{shown:?}");
    };
    assert!(bar.ends_with("\x1b[2K"), "{shown:?}");
    assert!(!table.contains('\x1b'), "{shown:?}");
    assert_eq!(table.matches("processor time").count(), 4, "{table:?}");
}
