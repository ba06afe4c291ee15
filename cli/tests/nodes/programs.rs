//! Programs that name no node in their code: the environment and the file choose for them.

use super::{as_for_quipu, stdout, support};
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
