//! Nodes and a client on a network: each a machine of its own, each node a process with processes
//! of its sessions.

use crate::support::{PATIENCE, Suite, pool};
use quipu_driver_remote::{Options, connect, meet, together};
use quipu_lab_network::{Link, Machine, Relay, Shape};
use quipu_link::client::Dial;
use quipu_link::clock::SystemClock;
use quipu_link::gate::{Gate, NODE_KEY};
use quipu_link::invitation::Invitations;
use quipu_link::timer::{ManualTimer, SystemTimer, Timer};
use quipu_link::{Fingerprint, Folder, Key};
use quipu_node::{Node, Spawn, serve_session};
use quipu_protocol::message::Status;
use quipu_scheduler::{Device, Driver, Result};
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// The folder of a node's keys; that this process is a node.
const NODE: &str = "QUIPU_TEST_NODE";
/// The seconds for which a node waits for first words.
const HELLO: &str = "QUIPU_TEST_HELLO";
/// Says that no time passes for a node: what it gives up it was told to.
const STILL: &str = "QUIPU_TEST_STILL";
/// Says that this process is a session's.
const SESSION: &str = "QUIPU_TEST_SESSION";
/// The folder of a client's key; that this process is a client.
pub(crate) const CLIENT: &str = "QUIPU_TEST_CLIENT";
/// The key of the node that it uses.
pub(crate) const KEY: &str = "QUIPU_TEST_KEY";

/// This program, to be started with one of the functions that are no tests.
pub(crate) fn like(name: &str) -> [String; 4] {
    ["--exact", name, "--ignored", "--nocapture"].map(str::to_owned)
}

/// Not a test: what a session's process does.
#[test]
#[ignore = "a session's process, started by a node's"]
fn session_process() {
    if std::env::var_os(SESSION).is_none() {
        return;
    }
    let served = serve_session(|_| Ok::<_, String>(serving()));
    panic!("{served:?}");
}

fn serving() -> quipu_node::Options {
    let timer: Arc<dyn Timer> = match std::env::var_os(STILL) {
        Some(_) => Arc::new(ManualTimer::default()),
        None => Arc::new(SystemTimer::default()),
    };
    quipu_node::Options {
        natives: Arc::new(Suite::default()),
        timer,
        ..quipu_node::Options::new(pool(2))
    }
}

/// Not a test: what a node's process does.
#[test]
#[ignore = "a node's process, started by the tests"]
fn node_process() {
    let Some(folder) = std::env::var_os(NODE) else {
        return;
    };
    let folder = Folder::open(PathBuf::from(folder)).unwrap();
    let hello = std::env::var(HELLO).unwrap().parse().unwrap();
    let hello = Duration::from_secs(hello);
    let gate = Gate::new(&folder, "node", hello, Arc::new(SystemClock)).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).unwrap();
    let mut spawn = Spawn::own(like("site::session_process")).unwrap();
    spawn.environment = vec![(SESSION.into(), Some("1".into())), (NODE.into(), None)];
    let options = quipu_node::Options {
        processes: Some(spawn),
        ..serving()
    };
    let node = Node::serve(options, gate, listener).unwrap();
    // Behind what the tests' harness has written.
    println!("\nserves");
    node.wait();
}

pub(crate) const PORT: u16 = 4760;

/// A node, on a machine of its own.
pub(crate) struct Served {
    pub(crate) machine: Machine,
    pub(crate) link: Link,
    pub(crate) address: String,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) folder: PathBuf,
    hello: Duration,
    /// No time passes for it when it is started next.
    pub(crate) is_still: bool,
    /// The process, and what it says, which somebody has to hear.
    process: Option<(Child, BufReader<ChildStdout>)>,
}

impl Served {
    fn on(relay: &Relay, number: u8, folder: &Path, hello: Duration) -> Self {
        let machine = Machine::new().unwrap();
        let address = Ipv4Addr::new(10, 9, 0, 10 + number);
        let link = relay.attach(&machine, address, Shape::default()).unwrap();
        let path = folder.join(format!("node-{number}"));
        let fingerprint = Key::of(&Folder::open(&path).unwrap(), NODE_KEY).unwrap();
        let mut served = Self {
            machine,
            link,
            address: format!("{address}:{PORT}"),
            fingerprint: fingerprint.fingerprint(),
            folder: path,
            hello,
            is_still: false,
            process: None,
        };
        served.start();
        served
    }

    /// Starts the node, which is not there.
    pub(crate) fn start(&mut self) {
        let mut command = self.machine.command(std::env::current_exe().unwrap());
        command
            .args(like("site::node_process"))
            .env(NODE, &self.folder)
            .env(HELLO, self.hello.as_secs().to_string());
        if self.is_still {
            command.env(STILL, "1");
        }
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        let mut lines = said.by_ref().lines().map_while(std::result::Result::ok);
        assert!(lines.any(|line| line == "serves"), "the node did not start");
        self.process = Some((process, said));
    }

    /// Kills the node's process, without a chance to say anything to anybody. When this returns its
    /// sessions are over, too: their keepers, who see to it, would let them go on for a moment, on
    /// a machine that has others to run.
    pub(crate) fn kill(&mut self) {
        let sessions = self.sessions().into_iter().flat_map(children);
        let ends: Vec<End> = sessions.filter_map(End::of).collect();
        if let Some((mut process, _)) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
        ends.iter().for_each(End::wait);
    }

    /// The processes of its sessions: their keepers.
    pub(crate) fn sessions(&self) -> Vec<i32> {
        let Some((process, _)) = &self.process else {
            return Vec::new();
        };
        children(process.id().cast_signed())
    }

    /// Kills the processes of its sessions, and not their keepers. They are over when this returns.
    pub(crate) fn kill_sessions(&self) {
        for process in self.sessions().into_iter().flat_map(children) {
            let end = End::of(process);
            // SAFETY: it takes numbers. One that is over meanwhile does not mind: its number is not
            // given anew so soon.
            unsafe { libc::kill(process, libc::SIGKILL) };
            end.iter().for_each(End::wait);
        }
    }
}

/// The end of a process that is another's child, seen at a file.
struct End(OwnedFd);

impl End {
    /// None if it is over.
    fn of(process: i32) -> Option<Self> {
        // SAFETY: it takes numbers.
        let told = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
        let told = i32::try_from(told).ok().filter(|told| *told >= 0)?;
        // SAFETY: just opened, and nobody else's.
        Some(Self(unsafe { OwnedFd::from_raw_fd(told) }))
    }

    fn wait(&self) {
        let mut event = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one place, which is there until the call returns.
        while unsafe { libc::poll(&raw mut event, 1, -1) } < 1 {}
    }
}

/// The processes that a process has started; nothing if it is gone.
fn children(process: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
    let lists = tasks.into_iter().flatten().flatten().map(|task| {
        let list = std::fs::read_to_string(task.path().join("children"));
        list.unwrap_or_default()
    });
    let children: Vec<String> = lists.collect();
    let children = children.iter().flat_map(|list| list.split_whitespace());
    children.map(|id| id.parse().unwrap()).collect()
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some((mut process, _)) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Nodes, a client, and what is between them.
pub(crate) struct Site {
    pub(crate) nodes: Vec<Served>,
    pub(crate) client: Machine,
    pub(crate) link: Link,
    pub(crate) relay: Relay,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) key: Key,
    /// The time for which the client waits for a connection that was lost.
    pub(crate) reconnect: Duration,
}

impl Site {
    /// So many nodes, and a client that is enrolled at each; none where this machine gives no such
    /// network, and it may not.
    pub(crate) fn new(seed: u64, nodes: u8) -> Option<Self> {
        Self::of_patient(seed, nodes, PATIENCE)
    }

    /// The same, where nodes wait for so long for first words.
    pub(crate) fn of_patient(seed: u64, nodes: u8, hello: Duration) -> Option<Self> {
        if !quipu_lab_network::lab_or_skip() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let relay = Relay::new(seed).unwrap();
        let client = Machine::new().unwrap();
        let link = relay.attach(&client, address(0), Shape::default()).unwrap();
        let of_client = Folder::open(folder.path().join("client")).unwrap();
        let key = Key::of(&of_client, "client.key").unwrap();
        let nodes = (0..nodes).map(|number| {
            let node = Served::on(&relay, number, folder.path(), hello);
            let invitations = Invitations::of(&Folder::open(&node.folder).unwrap());
            let invitation = invitations.invite(node.fingerprint, &node.address, &SystemClock);
            let invitation = invitation.unwrap();
            client.enter(|| invitation.take_up(&key, "client", PATIENCE).unwrap());
            node
        });
        Some(Self {
            nodes: nodes.collect(),
            client,
            link,
            relay,
            folder,
            key,
            reconnect: 10 * PATIENCE,
        })
    }

    /// A node's devices, as the client has them.
    pub(crate) fn devices(&self, node: usize) -> Result<Vec<Device>> {
        self.devices_from(&self.client, node, &self.nodes[node].address)
    }

    /// A node's devices, as the client has them on this machine, from which the node has this
    /// address.
    pub(crate) fn devices_from(
        &self,
        machine: &Machine,
        node: usize,
        address: &str,
    ) -> Result<Vec<Device>> {
        let options = Options {
            address: address.to_owned(),
            ..self.options(node)
        };
        machine.enter(|| {
            let driver: Arc<dyn Driver> = connect(&options, &self.key)?;
            Device::all_of(&driver)
        })
    }

    /// All nodes' devices, as the client has them, who uses the nodes together.
    pub(crate) fn together(&self) -> Result<Vec<Device>> {
        self.client.enter(|| {
            let nodes = 0..self.nodes.len();
            let met = nodes.map(|node| meet(&self.options(node), &self.key));
            let driver: Arc<dyn Driver> = together(met.collect::<Result<_>>()?)?;
            Device::all_of(&driver)
        })
    }

    fn options(&self, node: usize) -> Options {
        let node = &self.nodes[node];
        Options {
            patience: PATIENCE,
            reconnect: self.reconnect,
            // So that who kills nodes by the hundred does not wait for each.
            refusals: Duration::from_millis(50),
            ..Options::new("node", &node.address, node.fingerprint)
        }
    }

    /// The state of a node.
    pub(crate) fn status(&self, node: usize) -> Status {
        let node = &self.nodes[node];
        let dial = Dial {
            address: &node.address,
            node: node.fingerprint,
            key: &self.key,
            name: "test",
            patience: PATIENCE,
        };
        self.client.enter(|| {
            let mut link = dial.ask().unwrap();
            let status = link.status().unwrap();
            link.close();
            status
        })
    }

    /// Returns when a node has nothing of any session.
    pub(crate) fn is_empty(&self, node: usize) {
        loop {
            let status = self.status(node);
            if status.sessions == 0
                && status.session_bytes == 0
                && self.nodes[node].sessions().is_empty()
            {
                return;
            }
        }
    }

    /// A program like this one, as a client of the first node: one of the functions that are no
    /// tests.
    pub(crate) fn another_client(&self, name: &str) -> Command {
        let mut command = self.client.command(std::env::current_exe().unwrap());
        let node = &self.nodes[0];
        command.args(like(name));
        command.env(CLIENT, self.folder.path().join("client"));
        command.env(KEY, format!("{}@{}", node.fingerprint, node.address));
        command
    }
}

/// One of the client's addresses.
pub(crate) fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, 0, 100 + number)
}
