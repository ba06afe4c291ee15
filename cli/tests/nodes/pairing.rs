//! Pairing: from nothing to a device of another machine, in three commands.

use super::{Serving, output, quipu, remote_devices, stdout, told};
use quipu_link::Folder;
use quipu_link::clients::Clients;
use quipu_link::clock::SystemClock;
use quipu_link::gate::{Arrival, Gate};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::Arc;

#[test]
fn a_pairing_that_the_node_takes_back_at_once_fails() {
    let parent = tempfile::tempdir().unwrap();
    let (own, client) = (parent.path().join("node"), parent.path().join("client"));
    let folder = Folder::open(&own).unwrap();
    let patience = std::time::Duration::from_secs(60);
    let gate = Gate::new(&folder, "lab", patience, Arc::new(SystemClock)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let invitation = stdout(&own, &["invite", "--address", &address]);
    let serving = std::thread::spawn(move || {
        let enrolled = gate.admit(listener.accept().unwrap().0).unwrap();
        let clients = Clients::of(&folder);
        clients.revoke(&clients.list().unwrap()[0].name).unwrap();
        let refused = gate.admit(listener.accept().unwrap().0).unwrap_err();
        (enrolled, refused, clients.list().unwrap())
    });
    let paired = told(&client, &["pair"], &invitation);
    let (enrolled, refused, clients) = serving.join().unwrap();
    assert!(matches!(enrolled, Arrival::Enrolled(_)), "{enrolled:?}");
    let said = String::from_utf8_lossy(&paired.stderr).into_owned();
    assert_eq!(paired.status.code(), Some(1), "{said}{refused}");
    assert!(paired.stdout.is_empty());
    assert!(
        said.contains("is not enrolled here; run `quipu invite` there"),
        "{said}"
    );
    // Neither side knows the other.
    assert!(clients.is_empty());
    assert!(stdout(&client, &["nodes"]).contains("no node was paired with"));
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
    // An invitation is good for one client, which may use it again: the answer may have been lost.
    let again = told(&client, &["pair"], &invitation);
    assert!(again.status.success());
    let refused = told(&folder.path().join("other"), &["pair"], &invitation);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("`quipu invite`"));

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
fn a_pairing_that_ends_half_way_shows_on_the_node_until_it_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let (node, client) = (folder.path().join("node"), folder.path().join("client"));
    let serve = ["serve", "--address", "127.0.0.1:0", "--name", "lab"];
    let mut serving = quipu(&node, &serve)
        .stdout(Stdio::piped())
        .spawn()
        .map(Serving)
        .unwrap();
    let mut lines = BufReader::new(serving.0.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    let invitation = stdout(&node, &["invite"]);
    // The node has enrolled it when it finds that it cannot note the node.
    stdout(&client, &["nodes"]);
    let noted = client.join("nodes");
    std::fs::create_dir(&noted).unwrap();
    let paired = told(&client, &["pair"], &invitation);
    assert!(!paired.status.success(), "{paired:?}");
    let rights = stdout(&node, &["rights"]);
    assert!(rights.contains("unconfirmed"), "{rights}");
    std::fs::remove_dir(&noted).unwrap();
    let paired = told(&client, &["pair"], &invitation);
    assert!(paired.status.success(), "{paired:?}");
    let rights = stdout(&node, &["rights"]);
    assert!(!rights.contains("unconfirmed"), "{rights}");
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
    let lines: Vec<String> = lines.take(6).map(Result::unwrap).collect();
    assert!(
        lines[4].starts_with("INSECURE: whoever reaches it"),
        "{lines:?}"
    );
    let address = lines[5].strip_prefix("quipu pair --insecure ").unwrap();
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
