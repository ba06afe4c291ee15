//! The page on running nodes and the unit of systemd: their commands and files work as they stand.

use super::{Serving, as_for_quipu, stdout};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Every option that the page on running nodes, and the unit, give a command is one of that
/// command.
#[test]
fn what_is_said_about_running_nodes_can_be_run() {
    let folder = tempfile::tempdir().unwrap();
    let page = include_str!("../../../docs/nodes.md").replace("\\\n", " ");
    let unit = include_str!("../../../packaging/quipu-node.service");
    let mut seen = 0;
    for line in page.lines().chain(unit.lines()) {
        for call in line.split("quipu ").skip(1) {
            let call = call.split(['`', '|', '"', '>', '&']).next().unwrap();
            let mut words = call.split_whitespace();
            let Some(command) = words.next().filter(|word| {
                [
                    "serve", "invite", "pair", "nodes", "top", "rights", "revoke", "devices",
                ]
                .contains(word)
            }) else {
                continue;
            };
            let help = stdout(folder.path(), &[command, "--help"]);
            for option in words.filter(|word| word.starts_with("--")) {
                assert!(help.contains(option), "{line}");
                seen += 1;
            }
        }
    }
    assert!(seen > 5, "{seen}");
}

#[test]
fn the_page_on_running_nodes_has_every_option() {
    let folder = tempfile::tempdir().unwrap();
    let page = include_str!("../../../docs/nodes.md");
    let (_, reference) = page.split_once("\n## Options\n").unwrap();
    for command in [
        "serve", "invite", "pair", "nodes", "top", "rights", "revoke",
    ] {
        let help = stdout(folder.path(), &[command, "--help"]);
        for line in help.lines() {
            let Some(option) = line.trim_start().strip_prefix("--") else {
                continue;
            };
            let name = option.split([' ', '=', '[']).next().unwrap();
            let listed = format!("`--{name}");
            assert!(reference.contains(&listed), "{command} --{name}");
        }
    }
}

/// The blocks of the page on running nodes that are in a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let page = include_str!("../../../docs/nodes.md");
    let blocks = page.split("\n```").skip(1).step_by(2);
    let blocks = blocks.filter_map(|block| block.split_once('\n'));
    blocks
        .filter_map(|(of, text)| (of == language).then_some(text))
        .collect()
}

/// A program's complaints about a text, nothing if all is well; none if there is no such program,
/// which is said.
fn complaints(program: &str, arguments: &[&str], text: &str) -> Option<String> {
    let started = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut checking) = started else {
        eprintln!("\n*** NOT TESTED: what `{program}` says of the page on running nodes.\n");
        return None;
    };
    let mut stdin = checking.stdin.take().unwrap();
    // One that reads no further has said why.
    let _ = stdin.write_all(text.as_bytes());
    drop(stdin);
    let checked = checking.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.success() || !said.is_empty(), "{program}");
    Some(said)
}

#[test]
fn what_is_written_for_shells_and_for_kubernetes_is_well_formed() {
    let scripts = blocks("sh");
    assert!(scripts.len() > 5, "{scripts:?}");
    for script in scripts {
        let said = complaints("sh", &["-n"], script).unwrap_or_default();
        assert_eq!(said, "", "{script}");
    }
    let [manifest] = blocks("yaml")[..] else {
        panic!("one manifest")
    };
    // Python reads it, where it can.
    let can = complaints("python3", &["-c", "import yaml"], "");
    if can.as_deref() != Some("") {
        return eprintln!("\n*** NOT TESTED: the manifest of a node, without Python's yaml.\n");
    }
    let read = "import sys, yaml; [one['kind'] for one in yaml.safe_load_all(sys.stdin)]";
    let said = complaints("python3", &["-c", read], manifest);
    assert_eq!(said.as_deref(), Some(""), "{manifest}");
}

#[cfg(target_os = "linux")]
#[test]
fn systemd_understands_the_unit() {
    let folder = tempfile::tempdir().unwrap();
    // The command, where it is here.
    let unit = include_str!("../../../packaging/quipu-node.service")
        .replace("/usr/local/bin/quipu", env!("CARGO_BIN_EXE_quipu"));
    let path = folder.path().join("quipu-node.service");
    std::fs::write(&path, unit).unwrap();
    let arguments = ["verify", "--man=no", path.to_str().unwrap()];
    // What it does not understand it leaves out, and says so.
    let said = complaints("systemd-analyze", &arguments, "").unwrap_or_default();
    let said = said
        .lines()
        .find(|line| line.contains("quipu-node.service"));
    assert_eq!(said, None);
}

/// Without these, sessions have no control groups there.
#[test]
fn the_unit_lets_the_node_make_control_groups() {
    let unit = include_str!("../../../packaging/quipu-node.service");
    assert!(unit.lines().any(|line| line == "Delegate=memory pids"));
    assert!(!unit.contains("ProtectControlGroups"));
}

/// Whenever a volume with `fsGroup` is mounted, Kubernetes gives its group rights to all that is
/// there.
#[cfg(unix)]
#[test]
fn a_pods_node_has_its_key_again_when_its_volume_was_mounted_again() {
    let state = tempfile::tempdir().unwrap();
    let at = state.path().to_str().unwrap();
    let [manifest] = blocks("yaml")[..] else {
        panic!("one manifest")
    };
    let mut lines = manifest.lines().map(str::trim_start);
    let command = lines.find_map(|line| {
        line.strip_prefix("- ")
            .filter(|line| line.contains("exec quipu"))
    });
    // Here other tests' nodes are beside it.
    let command = command
        .unwrap()
        .replace("/state", at)
        .replace("0.0.0.0:9476", "127.0.0.1:0 --address 127.0.0.1:0");
    let mut programs = vec![
        Path::new(env!("CARGO_BIN_EXE_quipu"))
            .parent()
            .unwrap()
            .to_owned(),
    ];
    let path = std::env::var_os("PATH").unwrap();
    programs.extend(std::env::split_paths(&path));
    let start = || {
        let mut shell = Command::new("sh");
        let mut serving = as_for_quipu(&state.path().join("quipu"), &mut shell)
            .args(["-c", &command])
            .env("PATH", std::env::join_paths(&programs).unwrap())
            .env("HOSTNAME", "quipu-0")
            .stdout(Stdio::piped())
            .spawn()
            .map(Serving)
            .unwrap();
        let lines = BufReader::new(serving.0.stdout.take().unwrap()).lines();
        let said: Vec<String> = lines.take(2).map(Result::unwrap).collect();
        assert!(said[0].ends_with(" at quipu-0.quipu:4760"), "{said:?}");
        said[1].clone()
    };
    let key = start();
    assert!(key.starts_with("its key is "), "{key}");
    let mounted = Command::new("chmod").args(["-R", "g+rwX", at]).status();
    assert!(mounted.unwrap().success());
    assert_eq!(start(), key);
}
