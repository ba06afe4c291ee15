//! Programs that name no node in their code: the environment and the file choose for them.

use super::{as_for_quipu, output, remote_devices, stdout, support};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::process::Command;

/// Not a test: a program that says nothing about nodes, which is started by one.
#[test]
#[ignore = "a program, started by a test"]
fn a_program() {
    let platform = quipu::Platform::new().unwrap();
    let devices = platform.devices().iter();
    let remote = devices.filter(|device| device.driver_name() == "remote");
    let fastest = platform.context().unwrap().fastest();
    println!(
        "\n{} remote, {} is fastest",
        remote.count(),
        fastest.driver_name()
    );
}

/// The node's device is one that a program prefers to its own processors.
#[test]
fn a_program_uses_the_nodes_that_it_was_asked_to_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let client = folder.path().join("client");
    let node = support::accelerator(&folder.path().join("node"));
    stdout(&client, &["pair", &node.invite().unwrap()]);
    let program = |nodes: Option<&str>| {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["--exact", "programs::a_program", "--ignored", "--nocapture"]);
        as_for_quipu(&client, &mut program).envs(nodes.map(|nodes| ("QUIPU_NODES", nodes)));
        let output = program.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find(|line| line.ends_with(" is fastest"));
        line.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    let (none, one) = ("0 remote, cpu is fastest", "1 remote, remote is fastest");
    // That it was paired with asks for nothing.
    assert_eq!(program(None), none);
    assert_eq!(program(Some("lab")), one);
    assert_eq!(program(Some("all")), one);
    assert_eq!(program(Some("")), none);
    // The environment is stronger than the file, also if it says none.
    std::fs::write(client.join("config"), "nodes = lab\n").unwrap();
    assert_eq!(program(None), one);
    assert_eq!(program(Some("")), none);
}

/// `quipu devices` lists all paired nodes unless the environment or the file chooses some.
#[test]
fn the_list_of_devices_has_the_nodes_that_the_file_names() {
    let folder = tempfile::tempdir().unwrap();
    let client = folder.path().join("client");
    let node = support::accelerator(&folder.path().join("node"));
    stdout(&client, &["pair", &node.invite().unwrap()]);
    let listed = || remote_devices(&client, &["devices", "--json"]).len();
    assert_eq!(listed(), 1);
    let choose = |line: &str| std::fs::write(client.join("config"), line).unwrap();
    choose("nodes =\n");
    assert_eq!(listed(), 0);
    choose("nodes = lab\n");
    assert_eq!(listed(), 1);
    // A line about something else chooses no nodes.
    choose("compression = lz4\n");
    assert_eq!(listed(), 1);
}

/// `quipu run` connects to nodes only for a device that this machine does not have.
#[test]
fn a_kernel_on_this_machine_asks_no_node() {
    let folder = tempfile::tempdir().unwrap();
    let client = folder.path().join("client");
    let node = support::accelerator(&folder.path().join("node"));
    stdout(&client, &["pair", &node.invite().unwrap()]);
    let kernel = folder.path().join("k.cl");
    std::fs::write(&kernel, "kernel void k() {}").unwrap();
    let kernel = kernel.to_str().unwrap();
    let run = |device| {
        let arguments = ["run", kernel, "k", "--global", "1", "--device", device];
        let output = output(&client, &arguments);
        String::from_utf8(output.stderr).unwrap()
    };
    let said = run("nowhere");
    assert!(said.contains("no device is called 'nowhere'"), "{said}");
    assert!(said.contains("lab/abacus:0"), "{said}");
    // The node is now at an address at which every connection is seen.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let known = std::fs::read_to_string(client.join("nodes")).unwrap();
    let (fingerprint, _) = known.split_once('\t').unwrap();
    let address = listener.local_addr().unwrap();
    let moved = format!("{fingerprint}\t{address}\tlab\n");
    std::fs::write(client.join("nodes"), moved).unwrap();
    // It compiles the kernel, or finds no compiler.
    let said = run("cpu");
    assert!(!said.contains("no device is called"), "{said}");
    let seen = listener.accept().unwrap_err();
    assert_eq!(seen.kind(), ErrorKind::WouldBlock);
}
