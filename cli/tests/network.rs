//! The command as on a network: a node that says where it is, moves, and is found again; one that
//! does not, is not.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu_lab_network::{Cable, Machine, Switch};
use std::io::{BufRead, BufReader, Read};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

/// A machine with a folder of its own, on a cable.
struct Place {
    machine: Machine,
    cable: Cable,
    home: PathBuf,
}

impl Place {
    fn at(switch: &Switch, number: u8, folder: &Path) -> Self {
        let machine = Machine::new().unwrap();
        let cable = switch.attach(&machine, address(number), None).unwrap();
        Self {
            machine,
            cable,
            home: folder.join(number.to_string()),
        }
    }

    fn quipu(&self, arguments: &[&str]) -> Command {
        let mut command = self.machine.command(env!("CARGO_BIN_EXE_quipu"));
        command.args(arguments).env("QUIPU_HOME", &self.home);
        for variable in ["QUIPU_LOG", "QUIPU_TRACE", "QUIPU_NODES", "QUIPU_DISCOVERY"] {
            command.env_remove(variable);
        }
        command.env("QUIPU_CUDA", "off").env("QUIPU_OPENCL", "off");
        command.env("QUIPU_CPU_WORKERS", "1");
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.quipu(arguments).output().unwrap()
    }

    fn stdout(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The output of a command that may fail, as where a node is not there.
    fn said(&self, arguments: &[&str]) -> String {
        String::from_utf8(self.output(arguments).stdout).unwrap()
    }

    /// Starts a node, and lets a client in.
    fn serve(&self, options: &[&str], client: &Place) -> Serving {
        let arguments = [&["serve", "--address", "0.0.0.0:4760", "--invite"], options].concat();
        let mut process = self
            .quipu(&arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        let mut lines = said.by_ref().lines().map_while(Result::ok);
        let pair = lines.find_map(|line| line.strip_prefix("quipu pair ").map(str::to_owned));
        let pair = pair.unwrap();
        let serving = Serving(process, said);
        client.stdout(&["pair", &pair]);
        serving
    }
}

fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 8, 0, number)
}

/// A node, and what it says, which somebody has to hear.
struct Serving(
    Child,
    #[expect(dead_code, reason = "kept open")] BufReader<ChildStdout>,
);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Asks again until the answer is that: what is heard on a network, and when, nobody promises.
fn until(place: &Place, arguments: &[&str], is_it: impl Fn(&str) -> bool) -> String {
    loop {
        let text = place.said(arguments);
        if is_it(&text) {
            return text;
        }
    }
}

#[test]
fn a_node_that_announces_itself_is_listed_and_found_again_where_it_has_moved() {
    if !quipu_lab_network::lab_or_skip() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let switch = Switch::new().unwrap();
    let [node, client] = [1, 2].map(|number| Place::at(&switch, number, folder.path()));
    let other = Place::at(&switch, 3, folder.path());
    let announced = [
        "--announce",
        "--name",
        "lab",
        "--advertise",
        "10.8.0.1:4760",
    ];
    let serving = node.serve(&announced, &client);

    // Whoever asks hears it, with its key; who was paired with it is told so.
    let line = |text: &str| {
        text.lines()
            .find(|line| line.starts_with("lab  "))
            .map(str::to_owned)
    };
    let heard = until(&client, &["nodes", "--discover"], |text| {
        line(text).is_some()
    });
    let heard = line(&heard).unwrap();
    assert!(
        heard.contains("  10.8.0.1:4760  ") && heard.ends_with("  paired as lab"),
        "{heard}"
    );
    let elsewhere = until(&other, &["nodes", "--discover"], |text| {
        line(text).is_some()
    });
    assert!(
        elsewhere.contains("not paired; `quipu invite`"),
        "{elsewhere}"
    );
    let key = heard.split("  ").nth(2).unwrap();
    assert_eq!(key.len(), 52, "{heard}");

    // It moves. Programs, and those who ask how it is, find it by its key, and remember where.
    node.cable.move_to(address(7)).unwrap();
    let moved = |text: &str| text.starts_with("lab  10.8.0.7:4760  ") && text.contains("s away");
    until(&client, &["nodes"], moved);
    let devices = client.stdout(&["devices", "--node", "lab"]);
    assert!(devices.contains(" on lab"), "{devices}");
    node.cable.move_to(address(8)).unwrap();
    until(&client, &["devices", "--node", "lab"], |text| {
        text.contains(" on lab")
    });
    // Without anybody's help, from now on.
    let nodes = client
        .quipu(&["nodes"])
        .env("QUIPU_DISCOVERY", "off")
        .output()
        .unwrap();
    let nodes = String::from_utf8(nodes.stdout).unwrap();
    assert!(nodes.starts_with("lab  10.8.0.8:4760  "), "{nodes}");
    node.cable.move_to(address(9)).unwrap();
    let told =
        |text: &str| text.contains("paired as lab, was at 10.8.0.8:4760, is now at 10.8.0.9:4760");
    until(&client, &["nodes", "--discover"], told);
    drop(serving);
}

/// Nobody knows the machine's name there, and the node is called something else; one of the
/// machine's addresses leads nowhere for others.
#[test]
fn a_line_of_a_node_that_was_told_no_address_leads_to_it() {
    if !quipu_lab_network::lab_or_skip() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (switch, other) = (Switch::new().unwrap(), Switch::new().unwrap());
    let [node, client] = [1, 2].map(|number| Place::at(&switch, number, folder.path()));
    let elsewhere = Ipv4Addr::new(10, 9, 0, 1);
    let _cable = other.attach(&node.machine, elsewhere, None).unwrap();
    let _serving = node.serve(&["--name", "the lab"], &client);
    let devices = client.stdout(&["devices", "--node", "the lab"]);
    assert!(devices.contains(" on the lab"), "{devices}");
    // So does one that is printed later, when the machine is elsewhere.
    node.cable.move_to(address(7)).unwrap();
    let second = Place::at(&switch, 3, folder.path());
    let line = node.stdout(&["invite"]);
    let line = line.trim().strip_prefix("quipu pair ").unwrap();
    assert!(
        line.contains("10.8.0.7:4760") && line.contains("10.9.0.1:4760"),
        "{line}"
    );
    let paired = second.stdout(&["pair", line]);
    assert!(
        paired.starts_with("paired with the lab at 10.8.0.7:4760;"),
        "{paired}"
    );
}

#[test]
fn who_says_that_it_is_another_node_is_not_believed() {
    if !quipu_lab_network::lab_or_skip() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let switch = Switch::new().unwrap();
    let [node, client, liar] = [1, 2, 3].map(|number| Place::at(&switch, number, folder.path()));
    // It is a node, too, but not the one whose key it says it has.
    let _liars = liar.serve(&["--name", "liar", "--advertise", "10.8.0.3:4760"], &client);
    let serving = node.serve(&["--name", "lab", "--advertise", "10.8.0.1:4760"], &client);
    let key = std::fs::read_to_string(client.home.join("nodes")).unwrap();
    let key = key.lines().find(|line| line.ends_with("\tlab")).unwrap();
    let key = key.split('\t').next().unwrap().parse().unwrap();
    let listening = "0.0.0.0:4760".parse().unwrap();
    let announce = || quipu_discovery::Announcement::of("lab", key, listening).unwrap();
    let _lie = liar.machine.enter(announce);
    drop(serving);
    let lie = |text: &str| {
        text.contains("10.8.0.3:4760") && text.contains("paired as lab, at 10.8.0.1:4760")
    };
    until(&client, &["nodes", "--discover"], lie);
    let nodes = client.said(&["nodes"]);
    let lab = nodes
        .lines()
        .find(|line| line.starts_with("lab  10.8.0.1:4760  "));
    assert!(
        lab.is_some_and(|line| line.contains("cannot reach")),
        "{nodes}"
    );
}

#[test]
fn a_node_that_nobody_asked_to_says_nothing() {
    if !quipu_lab_network::lab_or_skip() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let switch = Switch::new().unwrap();
    let [node, client, other] = [1, 2, 3].map(|number| Place::at(&switch, number, folder.path()));
    let _serving = node.serve(&["--name", "lab", "--advertise", "10.8.0.1:4760"], &client);
    let heard = client.stdout(&["nodes", "--discover"]);
    assert!(heard.starts_with("no node says"), "{heard}");
    let own = other.output(&["serve", "--announce", "--address", "127.0.0.1:0"]);
    let error = String::from_utf8(own.stderr).unwrap();
    assert!(
        !own.status.success() && error.contains("--address"),
        "{error}"
    );
}
