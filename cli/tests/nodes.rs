//! From nothing to a remote device: two commands where the device is, one where the program is.
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu::drivers::remote::paired::CLIENT_KEY;
use quipu_conformance::Watchdog;
use quipu_link::client::Dial;
use quipu_link::connection::Connection;
use quipu_link::nodes::Nodes;
use quipu_link::{Folder, Key, LinkError};
use quipu_protocol::batch::Batch;
use quipu_protocol::message::{
    self as wire, CreateBuffer, Fill, Message, Operation, Placeholder, Priority, Wait,
};
use serde_json::Value;
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

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

/// What an HTTP server answers to a request without a body.
fn fetch(address: &str, method: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// How many ports a process listens at, of TCP and UDP. Each counts once: the system shows a socket twice where others come and go
/// while it is asked.
#[cfg(target_os = "linux")]
fn ports(process: u32) -> usize {
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let open: Vec<_> = open
        .filter_map(|file| std::fs::read_link(file.unwrap().path()).ok())
        .collect();
    let of_table = |(table, state): (&str, &str)| {
        // A machine may be without a protocol.
        let table = std::fs::read_to_string(format!("/proc/{process}/net/{table}"));
        let table = table.unwrap_or_default();
        let sockets = table.lines().skip(1).filter_map(|line| {
            let cells: Vec<_> = line.split_whitespace().collect();
            let socket = format!("socket:[{}]", cells[9]).into();
            (cells[3] == state && open.contains(&socket)).then_some(socket)
        });
        sockets.collect::<HashSet<_>>().len()
    };
    // 0A listens; 07 has no other end.
    let tables = [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")];
    tables.into_iter().map(of_table).sum()
}

#[cfg(target_os = "linux")]
#[test]
fn a_node_listens_where_it_was_asked_to_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let serve = ["serve", "--address", "127.0.0.1:0"];
    for (asked, expected) in [(&[][..], 1), (&["--metrics", "127.0.0.1:0"], 2)] {
        let mut serving = quipu(&folder.path().join("node"), &[&serve, asked].concat())
            .stdout(Stdio::piped())
            .spawn()
            .map(Serving)
            .unwrap();
        // What it says last it says when all of it is there.
        let mut lines = BufReader::new(serving.0.stdout.take().unwrap()).lines();
        let last = if asked.is_empty() {
            "`quipu invite`"
        } else {
            "metrics are at"
        };
        assert!(lines.any(|line| line.unwrap().starts_with(last)));
        assert_eq!(ports(serving.0.id()), expected, "{asked:?}");
    }
}

#[test]
fn metrics_are_fetched_where_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let serve = [
        "serve",
        "--address",
        "127.0.0.1:0",
        "--metrics",
        "127.0.0.1:0",
    ];
    let mut serving = quipu(&folder.path().join("node"), &serve)
        .stdout(Stdio::piped())
        .spawn()
        .map(Serving)
        .unwrap();
    let mut lines = BufReader::new(serving.0.stdout.take().unwrap()).lines();
    let address = lines.find_map(|line| {
        let line = line.unwrap();
        let url = line.strip_prefix("metrics are at http://")?;
        Some(url.strip_suffix("/metrics")?.to_owned())
    });
    let address = address.unwrap();
    let page = fetch(&address, "GET", "/metrics");
    assert!(
        page.starts_with("HTTP/1.0 200") || page.starts_with("HTTP/1.1 200"),
        "{page}"
    );
    assert!(page.contains("text/plain; version=0.0.4"), "{page}");
    assert!(page.contains("\nquipu_node_sessions 0\n"), "{page}");
    let links = "\nquipu_node_links{with=\"clients\",state=\"connected\"} 0\n";
    assert!(page.contains(links), "{page}");
    assert!(
        page.contains("\nquipu_node_device_memory_bytes{device=\"0\",driver=\"cpu\",kind=\"cpu\","),
        "{page}"
    );
    assert!(fetch(&address, "GET", "/").contains(" 404 "));
    assert!(fetch(&address, "POST", "/metrics").contains(" 405 "));
}

/// Every option that the page on running nodes, and the unit, give a command is one of that command.
#[test]
fn what_is_said_about_running_nodes_can_be_run() {
    let folder = tempfile::tempdir().unwrap();
    let page = include_str!("../../docs/nodes.md").replace("\\\n", " ");
    let unit = include_str!("../../packaging/quipu-node.service");
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
    let page = include_str!("../../docs/nodes.md");
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
    let page = include_str!("../../docs/nodes.md");
    let blocks = page.split("\n```").skip(1).step_by(2);
    let blocks = blocks.filter_map(|block| block.split_once('\n'));
    blocks
        .filter_map(|(of, text)| (of == language).then_some(text))
        .collect()
}

/// What a program that a text is given to says of it, nothing if all is well; none if there is no such program, which is said.
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
    let unit = include_str!("../../packaging/quipu-node.service")
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

/// Whenever a volume with `fsGroup` is mounted, Kubernetes gives its group rights to all that is there.
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

#[test]
fn a_device_of_another_machine_is_three_commands_away() {
    let folder = tempfile::tempdir().unwrap();
    let (node, client) = (folder.path().join("node"), folder.path().join("client"));
    assert!(remote_devices(&client, &["devices", "--json"]).is_empty());
    // Where the device is: it serves, on a port that is free.
    let serve = ["serve", "--address", "127.0.0.1:0", "--name", "lab"];
    let mut serving = quipu(&node, &serve)
        .stdout(Stdio::piped())
        .spawn()
        .map(Serving)
        .unwrap();
    let mut lines = BufReader::new(serving.0.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(
        first.starts_with("node lab offers 1 device at 127.0.0.1:"),
        "{first}"
    );
    // And somebody is let in.
    let invitation = stdout(&node, &["invite"]);
    // Where the program is. The secret is in no command line.
    let paired = told(&client, &["pair"], &invitation);
    let paired = String::from_utf8(paired.stdout).unwrap();
    assert!(
        paired.starts_with("paired with lab at 127.0.0.1:"),
        "{paired}"
    );

    let devices = remote_devices(&client, &["devices", "--json"]);
    assert_eq!(devices.len(), 1, "{devices:?}");
    assert!(devices[0].ends_with(" on lab"), "{devices:?}");
    // Of that node alone.
    let own = stdout(&client, &["devices", "--json", "--node", "lab"]);
    let own: Value = serde_json::from_str(&own).unwrap();
    assert_eq!(own["devices"].as_array().unwrap().len(), 1, "{own}");
    assert_eq!(own["devices"][0]["name"], devices[0]);
    let nodes = stdout(&client, &["nodes"]);
    assert!(
        nodes.starts_with("lab  127.0.0.1:") && nodes.contains("s away, 1 devices"),
        "{nodes}"
    );
    let top = stdout(&client, &["top"]);
    let row = top.lines().nth(1).unwrap();
    assert!(
        row.starts_with("lab ") && row.contains("127.0.0.1:"),
        "{top}"
    );
    assert!(top.contains(" units, by cpu:0\n"), "{top}");
    // An invitation is good once.
    let again = told(&client, &["pair"], &invitation);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("`quipu invite`"));

    // It is taken back.
    let clients = stdout(&node, &["revoke"]);
    let name = clients.split("  ").next().unwrap();
    stdout(&node, &["revoke", name]);
    // Who asks whether it is there is told, and by the exit code as well.
    let nodes = output(&client, &["nodes"]);
    assert_eq!(nodes.status.code(), Some(1));
    let nodes = String::from_utf8_lossy(&nodes.stdout);
    assert!(nodes.contains("is not enrolled"), "{nodes}");
    let fails = |node: &str, because: &str| {
        let devices = output(&client, &["devices", "--node", node]);
        assert_eq!(devices.status.code(), Some(1), "{node}");
        assert!(devices.stdout.is_empty(), "{node}");
        let said = String::from_utf8_lossy(&devices.stderr).into_owned();
        assert!(said.contains(because), "{said}");
    };
    fails("lab", "is not enrolled");
    fails("nowhere", "no node 'nowhere' was paired with");
    let top = stdout(&client, &["top", "--once", "--node", "lab"]);
    assert!(top.contains("is not enrolled"), "{top}");
    assert!(remote_devices(&client, &["devices", "--json"]).is_empty());
    drop(serving);
    fails("lab", "is a node running there");
    assert!(stdout(&client, &["nodes", "--forget", "lab"]).contains("forgot lab"));
    assert!(stdout(&client, &["nodes"]).contains("no node was paired with"));
}

#[test]
fn a_second_node_of_one_home_is_refused_and_the_first_stays_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let node = folder.path().join("node");
    let serve = ["serve", "--address", "127.0.0.1:0"];
    let mut serving = quipu(&node, &serve)
        .stdout(Stdio::piped())
        .spawn()
        .map(Serving)
        .unwrap();
    let mut lines = BufReader::new(serving.0.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let address = first.split(" at ").nth(1).unwrap();
    let refused = output(&node, &serve);
    assert!(!refused.status.success());
    let error = String::from_utf8(refused.stderr).unwrap();
    let process = format!("process {} serves a node from", serving.0.id());
    assert!(error.contains(&process), "{error}");
    assert!(stdout(&node, &["invite"]).trim().ends_with(address));
    // Nobody is invited to a node that is gone, however it ended.
    drop(serving);
    let refused = output(&node, &["invite"]);
    assert!(!refused.status.success());
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(error.contains("no node serves here now"), "{error}");
    assert!(stdout(&node, &["invite", "--address", "lab:4760"]).contains("@lab:4760"));
}

#[test]
fn an_invitation_is_taken_as_it_was_printed_or_out_of_what_was_printed_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let home = |name: &str| folder.path().join(name);
    let (node, client) = (home("node"), home("client"));
    let serve = [
        "serve",
        "--address",
        "127.0.0.1:0",
        "--name",
        "lab",
        "--invite",
    ];
    let mut serving = quipu(&node, &serve)
        .stdout(Stdio::piped())
        .spawn()
        .map(Serving)
        .unwrap();
    let mut said = String::new();
    let lines = BufReader::new(serving.0.stdout.take().unwrap()).lines();
    for line in lines.map_while(Result::ok) {
        said.push_str(&format!("{line}\n"));
        if line.starts_with("quipu pair ") {
            break;
        }
    }
    // All of it, by standard input; the line, as arguments; its last word.
    let paired = told(&client, &["pair"], &said);
    assert!(paired.status.success(), "{paired:?}");
    for words in [0, 2] {
        let invitation = stdout(&node, &["invite"]);
        let line: Vec<&str> = invitation.split_whitespace().skip(words).collect();
        let paired = stdout(&client, &[&["pair"][..], &line].concat());
        assert!(paired.starts_with("paired with lab"), "{paired}");
    }
    // A text that is no invitation is refused at once, and is not printed.
    for (text, because) in [
        ("", "paste the line that `quipu invite` prints"),
        (
            "node lab offers nothing\n",
            "paste the line that `quipu invite` prints",
        ),
        ("quipu pair quipu1.secret\n", "is not whole"),
    ] {
        let refused = told(&client, &["pair"], text);
        assert_eq!(refused.status.code(), Some(1), "{text}");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains(because) && !said.contains("secret"), "{said}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_node_that_is_stopped_says_so_to_its_clients() {
    let _watchdog = Watchdog::start(
        Duration::from_secs(900),
        "a node that is stopped".to_owned(),
    );
    let folder = tempfile::tempdir().unwrap();
    let (node, client) = (folder.path().join("node"), folder.path().join("client"));
    for one_process in [&[][..], &["--one-process"]] {
        let serve = [
            "serve",
            "--address",
            "127.0.0.1:0",
            "--name",
            "lab",
            "--invite",
        ];
        let mut serving = quipu(&node, &[&serve[..], one_process].concat())
            .stdout(Stdio::piped())
            .spawn()
            .map(Serving)
            .unwrap();
        let lines = BufReader::new(serving.0.stdout.take().unwrap()).lines();
        let invitation = lines
            .map(Result::unwrap)
            .find(|line| line.starts_with("quipu pair "));
        let paired = told(&client, &["pair"], &invitation.unwrap());
        assert!(paired.status.success(), "{paired:?}");
        let folder = Folder::open(client.clone()).unwrap();
        let paired = Nodes::of(&folder).list().unwrap().remove(0);
        let key = Key::of(&folder, CLIENT_KEY).unwrap();
        let dial = Dial {
            address: &paired.address,
            node: paired.fingerprint,
            key: &key,
            name: "test",
            patience: Duration::from_secs(60),
        };
        let mut begun = dial.begin(Duration::from_secs(3600)).unwrap();
        // It is there when it answers.
        let ping = wire::Ping {
            token: 7,
            time_ns: 0,
        };
        begun.connection.send(&Message::Ping(ping)).unwrap();
        let pong = begun.connection.receive_as(|message| match message {
            Message::Pong(_) => Ok(()),
            _ => Err("a pong"),
        });
        pong.unwrap();
        // SAFETY: it takes numbers, of a child that nobody has waited for.
        unsafe { libc::kill(serving.0.id().cast_signed(), libc::SIGTERM) };
        let ended = loop {
            let heard = begun.connection.receive_as(|message| match message {
                Message::Ping(_) | Message::Pong(_) => Ok(()),
                _ => Err("a goodbye"),
            });
            if let Err(error) = heard {
                break error;
            }
        };
        let LinkError::Goodbye { reason, .. } = ended else {
            panic!("{ended}");
        };
        assert_eq!(reason, wire::GoodbyeReason::ShuttingDown);
        // By the signal, as if nobody had waited for that.
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(serving.0.wait().unwrap().signal(), Some(libc::SIGTERM));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_operator_sees_who_comes_and_goes_without_asking() {
    let _watchdog = Watchdog::start(Duration::from_secs(900), "what an operator sees".to_owned());
    let folder = tempfile::tempdir().unwrap();
    let (node, client) = (folder.path().join("node"), folder.path().join("client"));
    let serve = [
        "serve",
        "--address",
        "127.0.0.1:0",
        "--name",
        "lab",
        "--invite",
    ];
    let mut serving = quipu(&node, &serve)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map(Serving)
        .unwrap();
    let lines = BufReader::new(serving.0.stdout.take().unwrap()).lines();
    let invitation = lines
        .map(Result::unwrap)
        .find(|line| line.starts_with("quipu pair "));
    let paired = told(&client, &["pair"], &invitation.unwrap());
    assert!(paired.status.success(), "{paired:?}");
    let mut said = BufReader::new(serving.0.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let mut is_said = |what: &str, with: &str| {
        let line = said.find(|line| line.contains(what)).unwrap();
        assert!(line.contains(with), "{line}");
    };
    is_said("enrolled", "client=");
    remote_devices(&client, &["devices", "--json"]);
    is_said("a session has begun", "client=");
    is_said("a session has ended", "its client has ended it");
    let clients = stdout(&node, &["revoke"]);
    stdout(&node, &["revoke", clients.split("  ").next().unwrap()]);
    output(&client, &["devices", "--node", "lab"]);
    is_said("not let in", "is not enrolled");
}

/// Has a program that is started so find no Landlock, as in a kernel without it.
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
fn without_landlock(command: &mut Command) -> &mut Command {
    use std::os::unix::process::CommandExt;
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let jump = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let gives = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        // The call's number is first of what it looks at.
        step(load, 0, 0, 0),
        step(jump, 0, 1, libc::SYS_landlock_create_ruleset as u32),
        step(gives, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        step(gives, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let enter = move || {
        let filter = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_mut_ptr(),
        };
        // SAFETY: numbers, and a filter that is there until the call returns.
        let entered = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(
                    libc::PR_SET_SECCOMP,
                    libc::SECCOMP_MODE_FILTER,
                    &raw const filter,
                ) == 0
        };
        match entered {
            true => Ok(()),
            false => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: it calls the system alone, twice.
    unsafe { command.pre_exec(enter) }
}

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#[test]
fn a_system_without_landlock_serves_nobody_unless_that_is_accepted_and_says_so() {
    let _watchdog = Watchdog::start(
        Duration::from_secs(900),
        "a node without Landlock".to_owned(),
    );
    let folder = tempfile::tempdir().unwrap();
    let (node, client) = (folder.path().join("node"), folder.path().join("client"));
    let serve = [
        "serve",
        "--address",
        "127.0.0.1:0",
        "--name",
        "lab",
        "--invite",
    ];
    let refused = without_landlock(&mut quipu(&node, &serve))
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stdout.is_empty());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    for part in [
        "the kernel has no Landlock",
        "this node's key",
        "--accept-weak-sandbox",
    ] {
        assert!(said.contains(part), "{said}");
    }
    // Nor has it made a key, or said where it is.
    assert!(!node.exists());
    for (is_without, arguments) in [(true, &["--accept-weak-sandbox"][..]), (false, &[])] {
        let mut command = quipu(&node, &[&serve[..], arguments].concat());
        if is_without {
            without_landlock(&mut command);
        }
        let mut serving = command.stdout(Stdio::piped()).spawn().map(Serving).unwrap();
        let lines = BufReader::new(serving.0.stdout.take().unwrap()).lines();
        let mut weak = false;
        let invitation = lines.map(Result::unwrap).find(|line| {
            weak |= line.starts_with("WEAK SANDBOX: the kernel has no Landlock");
            line.starts_with("quipu pair ")
        });
        assert_eq!(weak, is_without);
        // Its sessions are served.
        let paired = told(&client, &["pair"], &invitation.unwrap());
        assert!(paired.status.success(), "{paired:?}");
        let devices = stdout(&client, &["devices", "--node", "lab"]);
        assert!(devices.contains(" on lab"), "{devices}");
    }
}

#[test]
fn what_means_nothing_is_refused_before_anything_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let refused = |arguments: &[&str], because: &str| {
        let refused = output(&home, arguments);
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains(because), "{arguments:?}: {said}");
    };
    refused(
        &["serve", "--address", "127.0.0.1:0", "--name", "all"],
        "means all nodes",
    );
    refused(
        &["pair", "--name", "a,b", "quipu1.x.y@z:1"],
        "without commas",
    );
    let invite = ["invite", "--address", "lab:4760", "--devices"];
    for device in ["nosuch:9", "cpu:9", "nosuch"] {
        let because = format!("no device is called '{device}' here");
        refused(&[&invite[..], &[device]].concat(), &because);
        refused(&["rights", "laptop", "--devices", device], &because);
    }
    assert!(stdout(&home, &[&invite[..], &["cpu:0"]].concat()).contains("quipu pair"));
}

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
        program.args(["--exact", "a_program", "--ignored", "--nocapture"]);
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

#[test]
fn an_insecure_node_lets_everybody_in_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (node, client) = (folder.path().join("node"), folder.path().join("client"));
    let serve = [
        "serve",
        "--insecure",
        "--address",
        "127.0.0.1:0",
        "--name",
        "lab",
    ];
    let mut serving = quipu(&node, &serve)
        .stdout(Stdio::piped())
        .spawn()
        .map(Serving)
        .unwrap();
    let lines = BufReader::new(serving.0.stdout.take().unwrap()).lines();
    let lines: Vec<String> = lines.take(5).map(Result::unwrap).collect();
    assert!(
        lines[3].starts_with("INSECURE: whoever reaches it"),
        "{lines:?}"
    );
    let address = lines[4].strip_prefix("quipu pair --insecure ").unwrap();
    let paired = output(&client, &["pair", "--insecure", address]);
    assert!(paired.status.success(), "{paired:?}");
    assert!(String::from_utf8_lossy(&paired.stdout).starts_with("paired with lab at 127.0.0.1:"));
    let said = String::from_utf8_lossy(&paired.stderr);
    let key = lines[1].strip_prefix("its key is ").unwrap();
    assert!(
        said.starts_with("INSECURE: whoever answers at") && said.contains(key),
        "{said}"
    );
    let devices = remote_devices(&client, &["devices", "--json"]);
    assert_eq!(devices.len(), 1, "{devices:?}");
    assert_eq!(
        stdout(&node, &["revoke"]),
        stdout(&folder.path().join("other"), &["revoke"])
    );
    // Nobody is where nothing says so.
    let neither = output(&client, &["pair"]);
    assert_eq!(neither.status.code(), Some(1), "{neither:?}");
}

#[test]
fn a_node_that_is_not_insecure_is_not_paired_with_as_if_it_were() {
    let folder = tempfile::tempdir().unwrap();
    let (node, client) = (folder.path().join("node"), folder.path().join("client"));
    let mut serving = quipu(&node, &["serve", "--address", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .map(Serving)
        .unwrap();
    let mut lines = BufReader::new(serving.0.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let (_, address) = first.rsplit_once(" at ").unwrap();
    let refused = output(&client, &["pair", "--insecure", address]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("is not enrolled"),
        "{refused:?}"
    );
    assert!(stdout(&client, &["nodes"]).contains("no node was paired with"));
}

/// A session of the client's that has run commands of two queues, one of which waits for what never comes.
fn busy_session(home: &Path, address: &str) -> Connection {
    let folder = Folder::open(home.to_owned()).unwrap();
    let node = Nodes::of(&folder).list().unwrap().remove(0);
    let dial = Dial {
        address,
        node: node.fingerprint,
        key: &Key::of(&folder, CLIENT_KEY).unwrap(),
        name: "test",
        patience: Duration::from_secs(60),
    };
    let mut session = dial.begin(Duration::ZERO).unwrap().connection;
    let waits = [Wait::needs(1)];
    let fill = |event, queue, waits| {
        Message::Command(wire::Command {
            event,
            device: 0,
            queue,
            priority: Priority::Normal,
            profiled: false,
            waits,
            operation: Operation::Fill(Fill {
                buffer: 1,
                offset: 0,
                length: 64,
                pattern: [0; 16],
                pattern_length: 1,
            }),
        })
    };
    let mut batch = Batch::new(1 << 14);
    let messages = [
        Message::CreateBuffer(CreateBuffer {
            buffer: 1,
            size: 1 << 20,
        }),
        Message::Placeholder(Placeholder { event: 1, peer: 0 }),
        fill(2, 7, &[]),
        fill(3, 9, &waits),
    ];
    for (message, number) in messages.iter().zip(1..) {
        batch.push(message, number).unwrap();
    }
    session.send_batch(&batch).unwrap();
    let mut is_finished = false;
    while !is_finished {
        is_finished = session
            .receive_as(|message| Ok(matches!(message, Message::Completed(_))))
            .unwrap();
    }
    session
}

#[test]
fn what_there_is_to_do_on_devices_and_in_queues_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let (node, client) = (folder.path().join("node"), folder.path().join("client"));
    let serve = [
        "serve",
        "--address",
        "127.0.0.1:0",
        "--name",
        "lab",
        "--invite",
    ];
    let mut serving = quipu(&node, &serve)
        .stdout(Stdio::piped())
        .spawn()
        .map(Serving)
        .unwrap();
    let mut lines = BufReader::new(serving.0.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let address = first.rsplit(' ').next().unwrap().to_owned();
    let invitation = lines.find_map(|line| {
        let line = line.unwrap();
        Some(line.strip_prefix("quipu pair ")?.to_owned())
    });
    stdout(&client, &["pair", &invitation.unwrap()]);
    let session = busy_session(&client, &address);
    loop {
        let top = stdout(&client, &["top", "--once", "--interval", "0.1"]);
        let row = |of: &str| {
            let line = top.lines().find(|line| line.contains(of))?;
            let cells = line.split("  ").map(str::trim);
            let cells = cells.filter(|cell| !cell.is_empty());
            Some(cells.map(str::to_owned).collect::<Vec<_>>())
        };
        // The session's process may be late to answer its node, which waits for no more than a moment.
        let Some(link) = row("own session 1, commands").filter(|link| link[3] != "-") else {
            continue;
        };
        // Running, waiting, commands in a second, how much of it there was something to do, buffers.
        let [device, first, second] = [", by cpu", "session 1, queue 7", "session 1, queue 9"]
            .map(|of| row(of).unwrap_or_else(|| panic!("no {of}: {top}")));
        assert_eq!(device[1..6], ["0", "1", "0", "0 %", "1.00 MiB"]);
        assert_eq!(first[1..], ["0", "0", "0"]);
        assert_eq!(second[1..], ["0", "1", "0"]);
        assert_eq!(link[1], "connected");
        // Nothing goes over it while it is looked at, but for the word now and then that the node is there: sent and received, each
        // with what was compressed of it; and how often it was lost.
        if link[3..] == ["0 B", "-", "0 B", "-", "0"] {
            break;
        }
    }
    drop(session);
}

/// The limit of memory is one of buffers, too, wherever they are: devices may have memory of their own.
#[test]
fn what_a_client_may_have_is_said_as_it_comes() {
    let folder = tempfile::tempdir().unwrap();
    let (node, client) = (folder.path().join("node"), folder.path().join("client"));
    let serve = [
        &[
            "serve",
            "--address",
            "127.0.0.1:0",
            "--name",
            "lab",
            "--invite",
        ][..],
        &["--memory", "3", "--sessions", "1"],
    ];
    let mut serving = quipu(&node, &serve.concat())
        .stdout(Stdio::piped())
        .spawn()
        .map(Serving)
        .unwrap();
    let mut lines = BufReader::new(serving.0.stdout.take().unwrap()).lines();
    let invitation = lines.find_map(|line| {
        let line = line.unwrap();
        Some(line.strip_prefix("quipu pair ")?.to_owned())
    });
    stdout(&client, &["pair", &invitation.unwrap()]);
    let folder = Folder::open(client).unwrap();
    let paired = Nodes::of(&folder).list().unwrap().remove(0);
    let key = Key::of(&folder, CLIENT_KEY).unwrap();
    let dial = Dial {
        address: &paired.address,
        node: paired.fingerprint,
        key: &key,
        name: "test",
        patience: Duration::from_secs(60),
    };
    let first = dial.begin(Duration::ZERO).unwrap();
    assert_eq!(first.terms.max_session_bytes, 3 << 30);
    let error = dial.begin(Duration::ZERO).unwrap_err().to_string();
    assert!(error.contains("`quipu serve --sessions`"), "{error}");
}

/// Sources that an operator names, of a file of theirs too, are devices of each session, whose process may read that file.
#[test]
fn a_nodes_sources_are_its_clients_devices() {
    let folder = tempfile::tempdir().unwrap();
    let (node, client) = (folder.path().join("node"), folder.path().join("client"));
    let film = folder.path().join("film.raw");
    std::fs::write(&film, [7; 4 * 4 * 3 * 2]).unwrap();
    let film = format!("film={},width=4,height=4", film.display());
    let serve = [
        &["serve", "--address", "127.0.0.1:0", "--name", "lab"][..],
        &["--source", &film, "--source", "camera=synthetic,rate=30"],
        &["--decode", "--invite"],
    ];
    let mut serving = quipu(&node, &serve.concat())
        .stdout(Stdio::piped())
        .spawn()
        .map(Serving)
        .unwrap();
    let mut lines = BufReader::new(serving.0.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.starts_with("node lab offers 4 devices"), "{first}");
    let invitation = lines.find_map(|line| {
        let line = line.unwrap();
        Some(line.strip_prefix("quipu pair ")?.to_owned())
    });
    stdout(&client, &["pair", &invitation.unwrap()]);
    let text = stdout(&client, &["devices", "--json"]);
    let json: Value = serde_json::from_str(&text).unwrap();
    let all = json["devices"].as_array().unwrap();
    for (name, kernel) in [
        ("film on lab", "next_frame(inout u64 position"),
        ("camera on lab", "stream_info(out u64 info)"),
        ("decoder on lab", "decode_jpeg(in u8 data"),
    ] {
        let device = all.iter().find(|device| device["name"] == name).unwrap();
        assert_eq!(device["kind"], "custom");
        let kernels = device["built_in_kernels"].as_str().unwrap();
        assert!(kernels.contains(kernel), "{kernels}");
    }
    assert!(stdout(&client, &["top"]).contains("camera"));

    // One that may use some of them sees no others, in a session or asking.
    let listed = stdout(&node, &["rights"]);
    let (name, rights) = listed.trim().split_once("  ").unwrap();
    assert!(rights.ends_with("  all"), "{listed}");
    let granted = stdout(
        &node,
        &["rights", name, "--devices", "sources", "--cores", "1"],
    );
    assert!(granted.contains(": devices=sources cores=1"), "{granted}");
    assert_eq!(remote_devices(&client, &["devices", "--json"]).len(), 3);
    assert!(!stdout(&client, &["top"]).contains(" units, by cpu"));
    stdout(&node, &["rights", name, "--all"]);
    assert_eq!(remote_devices(&client, &["devices", "--json"]).len(), 4);

    // Sessions find all that there is outside of their sandbox.
    let checked = stdout(&node, &[serve.concat(), vec!["--check-sandbox"]].concat());
    assert!(
        checked.contains("\nin the sandbox: all of them\n"),
        "{checked}"
    );
    assert_eq!(checked.matches(": all of them").count(), 5, "{checked}");
}

#[test]
fn what_is_missing_is_said_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    for (arguments, advice) in [
        (&["invite"][..], "quipu serve"),
        (&["pair", "nonsense"], "quipu invite"),
        (&["revoke", "nobody"], "is not enrolled here"),
        (&["rights", "nobody", "--all"], "is not enrolled here"),
        (&["rights", "laptop"], "Say `--all`"),
        (&["rights", "--cores", "1"], "Name a client"),
        (
            &["rights", "laptop", "--devices", "cuda:x"],
            "devices=cuda:0,cpu",
        ),
        (&["top", "--node", "nowhere"], "`quipu pair` adds one"),
        (
            &["devices", "--node", "nowhere"],
            "no node 'nowhere' was paired with",
        ),
        (&["serve", "--address", "nonsense"], "--address"),
        (&["serve", "--source", "camera"], "name=path"),
        (&["serve", "--source", "a=/nowhere/b.jpg"], "/nowhere/b.jpg"),
        (
            &["serve", "--address", "127.0.0.1:0", "--metrics", "nonsense"],
            "--metrics",
        ),
    ] {
        let output = output(&home, arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
        assert!(text.contains(advice), "{arguments:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}
