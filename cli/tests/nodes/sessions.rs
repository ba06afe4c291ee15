//! Sessions: a client's commands, limits and devices on a node.

use super::{Serving, quipu, remote_devices, stdout};
use quipu::drivers::remote::paired::CLIENT_KEY;
use quipu_link::client::Dial;
use quipu_link::connection::Connection;
use quipu_link::nodes::Nodes;
use quipu_link::{Folder, Key};
use quipu_protocol::batch::Batch;
use quipu_protocol::message::{
    self as wire, CreateBuffer, Fill, Message, Operation, Placeholder, Priority, Wait,
};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// A session of the client's that has run commands of two queues. A command of one queue waits for
/// ever.
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
        // The session's process may be late to answer its node, which waits for no more than a
        // moment.
        let Some(link) = row("own session 1, commands").filter(|link| link[3] != "-") else {
            continue;
        };
        // Running, waiting, commands in a second, how much of it there was something to do,
        // buffers.
        let [device, first, second] = [", by cpu", "session 1, queue 7", "session 1, queue 9"]
            .map(|of| row(of).unwrap_or_else(|| panic!("no {of}: {top}")));
        assert_eq!(device[1..6], ["0", "1", "0", "0 %", "1.00 MiB"]);
        assert_eq!(first[1..], ["0", "0", "0"]);
        assert_eq!(second[1..], ["0", "1", "0"]);
        assert_eq!(link[1], "connected");
        // Nothing goes over it while it is looked at, but for the word now and then that the node
        // is there: sent and received, each with what was compressed of it; and how often it was
        // lost.
        if link[3..] == ["0 B", "-", "0 B", "-", "0"] {
            break;
        }
    }
    drop(session);
}

/// The limit of memory is one of buffers, too, wherever they are: devices may have memory of their
/// own.
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

/// Sources that an operator names, of a file of theirs too, are devices of each session, whose
/// process may read that file.
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
    for part in ["limits", "namespaces", "rights", "files", "calls"] {
        let within = format!("within its {part} alone: all of them");
        assert!(checked.contains(&within), "{checked}");
    }
}
