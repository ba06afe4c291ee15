//! Two nodes that are used together, and a relay on each way: from the client to either, and from
//! either to the other.

use super::relay::{Relay, Way};
use super::{Rig, all_of};
use quipu_node::{Limits, Options};
use quipu_scheduler::Device;
use std::sync::Arc;

/// See the module.
pub(crate) struct Pair {
    pub(crate) rigs: [Rig; 2],
    /// From the client to each.
    pub(crate) clients: [Arc<Relay>; 2],
    /// To each from the other.
    pub(crate) peers: [Arc<Relay>; 2],
}

impl Pair {
    pub(crate) fn new(devices: [Vec<Device>; 2], seed: u64) -> Self {
        Self::with(devices, seed, |_| ())
    }

    pub(crate) fn with(devices: [Vec<Device>; 2], seed: u64, set: impl Fn(&mut Options)) -> Self {
        let peers = [0, 1].map(|side| Arc::new(Relay::nowhere(seed + side)));
        let mut devices = devices.into_iter().zip(&peers).map(|(devices, relay)| {
            Rig::with(devices, Limits::default(), |options| {
                options.peers.address = Some(relay.address.parse().unwrap());
                set(options);
            })
        });
        let mut rigs = [(); 2].map(|()| devices.next().unwrap());
        drop(devices);
        let clients = [0, 1].map(|side: usize| {
            let rig = &mut rigs[side];
            peers[side].lead_to(&rig.address);
            let relay = Arc::new(Relay::to(&rig.address, seed + 2 + side as u64));
            rig.address.clone_from(&relay.address);
            relay
        });
        Self {
            rigs,
            clients,
            peers,
        }
    }

    /// The devices of both, of sessions of their own.
    pub(crate) fn devices(&self) -> Vec<Device> {
        all_of(&[&self.rigs[0], &self.rigs[1]])
    }

    /// Bytes that went between the client and the nodes, and between the nodes.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let of = |relays: &[Arc<Relay>; 2]| relays.iter().map(|relay| relay.bytes()).sum();
        (of(&self.clients), of(&self.peers))
    }

    /// Sets the fate of connections between the nodes.
    pub(crate) fn set_peers(&self, way: Way) {
        self.peers.iter().for_each(|relay| relay.set(way));
    }

    /// Commands on both nodes that are not over.
    pub(crate) fn held(&self) -> u64 {
        let rigs = self.rigs.iter();
        rigs.map(|rig| rig.node.status()().commands_held).sum()
    }
}
