//! A node in this process, on loopback, with keys, over TLS, and clients of it.
#![allow(dead_code, reason = "each test binary uses some of it")]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

pub(crate) mod lossy;
pub(crate) mod pair;
pub(crate) mod relay;
pub(crate) mod rounds;

use quipu_driver_cpu::{CpuDriver, Options as CpuOptions};
use quipu_driver_remote::{Met, Options, RemoteDriver, connect, meet, together};
use quipu_driver_sim::SimDriver;
use quipu_driver_sim::engine::Configuration;
use quipu_kernel_names::native_name;
use quipu_link::client::{Dial, Look};
use quipu_link::clock::SystemClock;
use quipu_link::compression::Compression;
use quipu_link::gate::Gate;
use quipu_link::invitation::Invitations;
use quipu_link::timer::{SystemTimer, Timer};
use quipu_link::{Folder, Key};
use quipu_node::native::Name;
use quipu_node::{Limits, Maker, Natives, Node};
use quipu_scheduler::{Device, Driver};
use std::collections::HashMap;
use std::net::TcpListener;
use std::num::NonZero;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// As long as a machine may be stopped for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The suite's kernels.
#[derive(Default)]
pub(crate) struct Suite(Mutex<Known>);

/// Those that were looked for, and those that come next if one is not among them.
#[derive(Default)]
struct Known {
    found: HashMap<Name, Maker>,
    rest: Option<Box<dyn Iterator<Item = (Name, Maker)> + Send>>,
}

/// A maker of the suite's, which looks at nothing but what is passed.
fn of_launch(maker: quipu_conformance::Maker) -> Maker {
    Arc::new(move |launch| maker(launch.passed))
}

impl Natives for Suite {
    fn find(&self, name: &Name) -> Option<Maker> {
        let mut known = self.0.lock().unwrap();
        if let Some(maker) = known.found.get(name) {
            return Some(maker.clone());
        }
        // A client in this process has asked for it.
        let is_it = |module: &_| native_name(module).is_ok_and(|other| other == *name);
        if let Some(maker) = quipu_conformance::native(is_it) {
            let maker = of_launch(maker);
            known.found.insert(*name, maker.clone());
            return Some(maker);
        }
        let Known { found, rest } = &mut *known;
        let rest = rest.get_or_insert_with(|| {
            let all = quipu_conformance::natives();
            Box::new(all.map(|(module, maker)| (native_name(&module).unwrap(), of_launch(maker))))
        });
        for (other, maker) in rest {
            found.insert(other, maker.clone());
            if other == *name {
                return Some(maker);
            }
        }
        None
    }
}

/// A node, and a client that is enrolled there.
pub(crate) struct Rig {
    pub(crate) node: Node,
    /// The clients' name for it.
    pub(crate) name: &'static str,
    pub(crate) key: Key,
    pub(crate) address: String,
    /// The time for which clients wait for a connection that was lost.
    pub(crate) reconnect: Duration,
    /// And by what they measure it.
    pub(crate) timer: Arc<dyn Timer>,
    /// The time that connections between nodes may take.
    pub(crate) peer_patience: Duration,
    /// The time that the node may take to answer, and the goodbye to it.
    pub(crate) patience: Duration,
    /// The compression that clients use.
    pub(crate) compression: Compression,
    spin: Duration,
    folder: tempfile::TempDir,
}

impl Rig {
    pub(crate) fn new(devices: Vec<Device>, limits: Limits) -> Self {
        Self::with(devices, limits, |_| ())
    }

    /// Receivers on both sides look for so long before they sleep.
    pub(crate) fn spinning(devices: Vec<Device>, limits: Limits, spin: Duration) -> Self {
        Self::with(devices, limits, |options| options.spin = spin)
    }

    /// With other options of the node's.
    pub(crate) fn with(
        devices: Vec<Device>,
        limits: Limits,
        set: impl FnOnce(&mut quipu_node::Options),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let of_node = Folder::open(folder.path().join("node")).unwrap();
        let of_client = Folder::open(folder.path().join("client")).unwrap();
        let gate = Gate::new(&of_node, "node", PATIENCE, Arc::new(SystemClock)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let invitations = Invitations::of(&of_node);
        let invitation = invitations
            .invite(gate.fingerprint(), &address, &SystemClock)
            .unwrap();
        let mut options = quipu_node::Options {
            natives: Arc::new(Suite::default()),
            limits,
            ..quipu_node::Options::new(devices)
        };
        set(&mut options);
        let spin = options.spin;
        let node = Node::serve(options, gate, listener).unwrap();
        let key = Key::of(&of_client, "client.key").unwrap();
        invitation.take_up(&key, "client", PATIENCE).unwrap();
        Self {
            node,
            name: "node",
            key,
            address,
            reconnect: 10 * PATIENCE,
            timer: Arc::new(SystemTimer::default()),
            peer_patience: PATIENCE,
            patience: PATIENCE,
            compression: Compression::default(),
            spin,
            folder,
        }
    }

    /// A session of the client's, to be used together with others.
    pub(crate) fn met(&self) -> Met {
        meet(&self.options(), &self.key).unwrap()
    }

    fn options(&self) -> Options {
        Options {
            patience: self.patience,
            spin: self.spin,
            reconnect: self.reconnect,
            timer: self.timer.clone(),
            peer_patience: self.peer_patience,
            goodbye: self.patience,
            compression: self.compression,
            ..Options::new(self.name, &self.address, self.node.fingerprint())
        }
    }

    /// The node's report on itself to its client.
    pub(crate) fn look(&self) -> Look {
        let dial = Dial {
            // Not by way of what clients use.
            address: &self.node.address().to_string(),
            node: self.node.fingerprint(),
            key: &self.key,
            name: "client",
            patience: PATIENCE,
        };
        dial.ask().unwrap().look().unwrap()
    }

    pub(crate) fn driver(&self) -> Arc<RemoteDriver> {
        connect(&self.options(), &self.key).unwrap()
    }

    pub(crate) fn devices(&self) -> Vec<Device> {
        self.devices_for(&self.key)
    }

    /// The node's devices as another client has them.
    pub(crate) fn devices_for(&self, key: &Key) -> Vec<Device> {
        let driver: Arc<dyn Driver> = connect(&self.options(), key).unwrap();
        Device::all_of(&driver).unwrap()
    }

    /// The folder of the client's key.
    pub(crate) fn of_client(&self) -> std::path::PathBuf {
        self.folder.path().join("client")
    }

    /// The key of another client, which is enrolled at the node.
    pub(crate) fn another_key(&self, name: &str) -> Key {
        let key = Key::passing().unwrap();
        let of_node = Folder::open(self.folder.path().join("node")).unwrap();
        let invitations = Invitations::of(&of_node);
        let invitation = invitations.invite(self.node.fingerprint(), &self.address, &SystemClock);
        invitation.unwrap().take_up(&key, name, PATIENCE).unwrap();
        key
    }
}

/// The devices of nodes that are used together.
pub(crate) fn all_of(rigs: &[&Rig]) -> Vec<Device> {
    let met = rigs.iter().map(|rig| rig.met()).collect();
    let driver: Arc<dyn Driver> = together(met).unwrap();
    Device::all_of(&driver).unwrap()
}

/// A pool of so many workers.
pub(crate) fn pool(workers: usize) -> Vec<Device> {
    let workers = NonZero::new(workers).unwrap();
    let driver: Arc<dyn Driver> = CpuDriver::start(CpuOptions::new().workers(workers)).unwrap();
    Device::all_of(&driver).unwrap()
}

/// Simulated devices with memory of their own.
pub(crate) fn simulated(count: u8) -> Vec<Device> {
    let machine = Configuration::separate_memory(count, 1 << 28);
    let driver: Arc<dyn Driver> = SimDriver::start(machine).unwrap();
    Device::all_of(&driver).unwrap()
}

/// The number of times that a fault is tried: some times, or `QUIPU_NETWORK_ROUNDS` in the
/// environment.
pub(crate) fn rounds(some: u64) -> u64 {
    let said = std::env::var("QUIPU_NETWORK_ROUNDS").ok();
    said.and_then(|rounds| rounds.parse().ok()).unwrap_or(some)
}
