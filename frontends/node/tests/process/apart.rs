//! Nodes in processes of their own: that end, or get no threads.

use crate::support::{self, Client};
use crate::worst::{behave, leave_others_behind, loop_for_ever};
use crate::{IS_SESSION, KEYS, children, descendants, devices, end, launch, runs, watchdog};
use quipu_link::client::Dial;
use quipu_link::clock::SystemClock;
use quipu_link::gate::{Gate, NODE_KEY};
use quipu_link::invitation::Invitations;
use quipu_link::{Fingerprint, Folder, Key, LinkError};
use quipu_node::{Node, Options, Spawn};
use std::sync::Arc;
use std::time::Duration;

/// Says that a node has the system give it no more threads when it is told to.
const TAKES_THREADS: &str = "QUIPU_TEST_TAKES_THREADS";

/// Not a test: a node of its own, which a test ends.
#[test]
#[ignore = "a node's process, started by a test"]
fn node_process() {
    let Some(folder) = std::env::var_os(KEYS) else {
        return;
    };
    let folder = Folder::open(std::path::PathBuf::from(folder).join("node")).unwrap();
    let gate = Gate::new(&folder, "node", support::PATIENCE, Arc::new(SystemClock)).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut spawn = Spawn::own(["--exact", "session_process", "--ignored", "--nocapture"]).unwrap();
    spawn.environment = vec![(IS_SESSION.into(), Some("1".into()))];
    let options = Options {
        processes: Some(spawn),
        ..Options::new(devices())
    };
    let node = Node::serve(options, gate, listener).unwrap();
    // Behind what the tests' harness has written.
    println!("\nlistens at {address}");
    if std::env::var_os(TAKES_THREADS).is_some() {
        std::io::stdin().read_line(&mut String::new()).unwrap();
        take_all_threads();
        println!("has no threads");
    }
    node.wait();
}

/// Has the system give this process no thread any more.
fn take_all_threads() {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = status.split(' ').next().unwrap().parse().unwrap();
    // So much for all else, of which stacks leave less than one of them takes.
    let most = pages * 4096 + (64 << 20);
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    assert_eq!(
        // SAFETY: the limit is there until the call returns.
        unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) },
        0
    );
    let wait = || loop {
        std::thread::park();
    };
    while std::thread::Builder::new().spawn(wait).is_ok() {}
}

/// A node in a process of its own, and the key of a client that is enrolled there.
struct Apart {
    node: std::process::Child,
    input: std::process::ChildStdin,
    lines: Box<dyn Iterator<Item = String>>,
    address: String,
    fingerprint: Fingerprint,
    key: Key,
    _folder: tempfile::TempDir,
}

impl Apart {
    fn new(set: impl FnOnce(&mut std::process::Command)) -> Self {
        use std::io::BufRead;
        use std::process::Stdio;
        let folder = tempfile::tempdir().unwrap();
        let mut node = std::process::Command::new(std::env::current_exe().unwrap());
        node.args(["--exact", "apart::node_process", "--ignored", "--nocapture"])
            .env(KEYS, folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        set(&mut node);
        let mut node = node.spawn().unwrap();
        let lines = std::io::BufReader::new(node.stdout.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        let address = lines.find_map(|line| line.strip_prefix("listens at ").map(str::to_owned));
        let address = address.unwrap();
        let of_node = Folder::open(folder.path().join("node")).unwrap();
        let of_client = Folder::open(folder.path().join("client")).unwrap();
        let fingerprint = Key::of(&of_node, NODE_KEY).unwrap().fingerprint();
        let key = Key::of(&of_client, "client.key").unwrap();
        let invitations = Invitations::of(&of_node);
        let invitation = invitations.invite(fingerprint, &address, &SystemClock);
        let taken = invitation.unwrap();
        taken.take_up(&key, "client", support::PATIENCE).unwrap();
        Self {
            input: node.stdin.take().unwrap(),
            node,
            lines: Box::new(lines),
            address,
            fingerprint,
            key,
            _folder: folder,
        }
    }

    fn dial(&self) -> Dial<'_> {
        Dial {
            address: &self.address,
            node: self.fingerprint,
            key: &self.key,
            name: "test",
            patience: support::PATIENCE,
        }
    }

    fn end(&mut self) {
        self.node.kill().unwrap();
        self.node.wait().unwrap();
    }
}

#[test]
fn a_node_that_gets_no_thread_hands_connections_to_sessions() {
    use std::io::Write;
    let _watchdog = watchdog();
    let mut apart = Apart::new(|node| {
        node.env(TAKES_THREADS, "1");
    });
    let begun = apart.dial().begin(Duration::from_secs(3600)).unwrap();
    let mut client = Client::over(begun.connection, &begun.terms, 0);
    launch(&mut client, 1, behave);
    assert_eq!(client.end_of(1), None);
    writeln!(apart.input, "now").unwrap();
    assert_eq!(apart.lines.next().as_deref(), Some("has no threads"));
    let bulk = apart.dial().bulk(client.session.0, client.key).unwrap();
    assert_eq!(bulk.terms.session.0, client.session.0);
    launch(&mut client, 2, behave);
    assert_eq!(client.end_of(2), None);
    apart.end();
}

#[test]
fn a_session_dies_with_its_node_whatever_it_does() {
    let _watchdog = watchdog();
    let mut apart = Apart::new(|_| ());
    // It would wait for its client for long.
    let begun = apart.dial().begin(Duration::from_secs(3600)).unwrap();
    let mut client = Client::over(begun.connection, &begun.terms, 0);
    launch(&mut client, 1, leave_others_behind);
    assert_eq!(client.end_of(1), None);
    launch(&mut client, 2, loop_for_ever);
    launch(&mut client, 3, behave);
    assert_eq!(client.end_of(3), None);
    // The keeper, the session, what it has started, and who has lost his parent and is the keeper's
    // since.
    let running = |all: &[String]| all.iter().filter(|process| runs(process)).count();
    let all = loop {
        let keepers = children(apart.node.id())
            .iter()
            .map(|keeper| {
                let of_keeper = children(keeper.parse().unwrap());
                running(&of_keeper)
            })
            .sum::<usize>();
        let all = descendants(apart.node.id());
        if keepers == 2 && running(&all) == 4 {
            break all;
        }
        std::thread::yield_now();
    };
    // Without a chance to say anything to anybody.
    apart.end();
    let error = end(&mut client);
    assert!(matches!(error, LinkError::Ended { .. }), "{error}");
    while running(&all) > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn what_a_killed_node_has_left_goes_when_another_starts() {
    let _watchdog = watchdog();
    let temporary = tempfile::tempdir().unwrap();
    let start = || {
        Apart::new(|node| {
            node.env("TMPDIR", temporary.path());
        })
    };
    let left = || {
        let entries = std::fs::read_dir(temporary.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        let is_own = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("quipu-");
        names.filter(is_own).count()
    };
    let mut killed = start();
    let begun = killed.dial().begin(Duration::ZERO).unwrap();
    let mut client = Client::over(begun.connection, &begun.terms, 0);
    launch(&mut client, 1, behave);
    assert_eq!(client.end_of(1), None);
    // One that lives is left alone.
    let mut other = start();
    assert_eq!(left(), 1);
    launch(&mut client, 2, behave);
    assert_eq!(client.end_of(2), None);
    let all = descendants(killed.node.id());
    killed.end();
    while all.iter().any(|process| runs(process)) {
        std::thread::yield_now();
    }
    assert_eq!(left(), 1);
    let mut third = start();
    assert_eq!(left(), 0);
    other.end();
    third.end();
}
