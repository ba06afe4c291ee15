//! Nodes by the command: serving devices where they are, and using them where the program is.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod documents;
mod pairing;
mod programs;
mod refusals;
mod sandbox;
mod serving;
mod sessions;
#[path = "../support/mod.rs"]
mod support;

use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn quipu(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.args(arguments).env("QUIPU_HOME", home);
    for variable in ["QUIPU_LOG", "QUIPU_TRACE", "QUIPU_NODES", "QUIPU_CPU_PIN"] {
        command.env_remove(variable);
    }
    command.env("QUIPU_CUDA", "off");
    command.env("QUIPU_OPENCL", "off");
    command.env("QUIPU_CPU_WORKERS", "2");
    command
}

/// Gives another program the environment that the command has.
fn as_for_quipu<'a>(home: &Path, program: &'a mut Command) -> &'a mut Command {
    for (variable, value) in quipu(home, &[]).get_envs() {
        match value {
            Some(value) => program.env(variable, value),
            None => program.env_remove(variable),
        };
    }
    program
}

fn output(home: &Path, arguments: &[&str]) -> Output {
    quipu(home, arguments).output().unwrap()
}

/// Runs the command with this text on its standard input.
fn told(home: &Path, arguments: &[&str], text: &str) -> Output {
    let mut told = quipu(home, arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = told.stdin.take().unwrap();
    // One that reads no further has said why.
    let _ = stdin.write_all(text.as_bytes());
    drop(stdin);
    told.wait_with_output().unwrap()
}

fn stdout(home: &Path, arguments: &[&str]) -> String {
    let output = output(home, arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// A node that is ended with the test.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The names of the nodes' devices that a client lists.
fn remote_devices(home: &Path, arguments: &[&str]) -> Vec<String> {
    let text = stdout(home, arguments);
    let json: Value = serde_json::from_str(&text).unwrap();
    let devices = json["devices"].as_array().unwrap().iter();
    let remote = devices.filter(|device| device["driver"] == "remote");
    remote
        .map(|device| {
            // By what it is chosen: the node's name, and what the node calls it.
            let id = device["id"].as_str().unwrap();
            assert!(
                id.ends_with("/cpu:0") || id.contains("/sources:") || id.contains("/abacus:"),
                "{id}"
            );
            device["name"].as_str().unwrap().to_owned()
        })
        .collect()
}
