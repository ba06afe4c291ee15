//! A node as its operator sees it: its addresses, its metrics, its log and its end.

use super::{Serving, output, quipu, remote_devices, stdout, told};
use quipu::drivers::remote::paired::CLIENT_KEY;
use quipu_conformance::Watchdog;
use quipu_link::client::Dial;
use quipu_link::nodes::Nodes;
use quipu_link::{Folder, Key, LinkError};
use quipu_protocol::message::{self as wire, Message};
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

/// An HTTP server's answer to a request without a body.
fn fetch(address: &str, method: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The number of ports that a process listens at, of TCP and UDP. Each counts once: the system
/// shows a socket twice where others come and go while it is asked.
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
    // One that ends by a limit: it has more than its client may from now on.
    let opened = Folder::open(client.clone()).unwrap();
    let paired = Nodes::of(&opened).list().unwrap().remove(0);
    let key = Key::of(&opened, CLIENT_KEY).unwrap();
    let dial = Dial {
        address: &paired.address,
        node: paired.fingerprint,
        key: &key,
        name: "test",
        patience: Duration::from_secs(60),
    };
    let _begun = dial.begin(Duration::from_secs(3600)).unwrap();
    is_said("a session has begun", "client=");
    let clients = stdout(&node, &["revoke"]);
    let name = clients.split("  ").next().unwrap();
    stdout(&node, &["rights", name, "--no-peers"]);
    is_said("a session has ended", "narrowed the rights");
    stdout(&node, &["revoke", name]);
    output(&client, &["devices", "--node", "lab"]);
    is_said("not let in", "is not enrolled");
}
