//! A node in this process, on loopback, with keys, over TLS, and clients of it.
#![allow(dead_code, reason = "each test binary uses some of it")]
#![allow(clippy::unwrap_used, reason = "a test panics")]

pub(crate) mod relay;

use quipu_core::{Device, Driver};
use quipu_driver_cpu::{CpuDriver, Options as CpuOptions};
use quipu_driver_remote::{Options, RemoteDriver, connect};
use quipu_driver_sim::SimDriver;
use quipu_driver_sim::engine::Configuration;
use quipu_link::clock::SystemClock;
use quipu_link::compression::Compression;
use quipu_link::gate::Gate;
use quipu_link::invitation::Invitations;
use quipu_link::timer::{SystemTimer, Timer};
use quipu_link::{Folder, Key};
use quipu_node::native::Name;
use quipu_node::{Limits, Maker, Natives, Node};
use quipu_wire_kernel::native_name;
use std::collections::HashMap;
use std::net::TcpListener;
use std::num::NonZero;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// As long as a machine may be stopped for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The suite's kernels, as far as somebody has asked for them.
#[derive(Default)]
pub(crate) struct Suite(Mutex<HashMap<Name, Maker>>);

impl Natives for Suite {
    fn find(&self, name: &Name) -> Option<Maker> {
        let mut known = self.0.lock().unwrap();
        if let Some(maker) = known.get(name) {
            return Some(maker.clone());
        }
        let is_it = |module: &_| native_name(module).is_ok_and(|other| other == *name);
        let maker = quipu_conformance::native(is_it)?;
        known.insert(*name, maker.clone());
        Some(maker)
    }
}

/// A node, and a client that is enrolled there.
pub(crate) struct Rig {
    pub(crate) node: Node,
    pub(crate) key: Key,
    pub(crate) address: String,
    /// For how long clients wait for a connection that was lost.
    pub(crate) reconnect: Duration,
    /// And by what they measure it.
    pub(crate) timer: Arc<dyn Timer>,
    /// What clients compress.
    pub(crate) compression: Compression,
    spin: Duration,
    _folder: tempfile::TempDir,
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
            key,
            address,
            reconnect: 10 * PATIENCE,
            timer: Arc::new(SystemTimer::default()),
            compression: Compression::default(),
            spin,
            _folder: folder,
        }
    }

    pub(crate) fn driver(&self) -> Arc<RemoteDriver> {
        let options = Options {
            patience: PATIENCE,
            spin: self.spin,
            reconnect: self.reconnect,
            timer: self.timer.clone(),
            compression: self.compression,
            ..Options::new("node", &self.address, self.node.fingerprint())
        };
        connect(&options, &self.key).unwrap()
    }

    pub(crate) fn devices(&self) -> Vec<Device> {
        let driver: Arc<dyn Driver> = self.driver();
        Device::all_of(&driver).unwrap()
    }
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
