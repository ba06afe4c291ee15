//! Benchmarks of nodes: this machine's cores, served to this process on loopback, with keys and
//! TLS.
//!
//! | file | contents |
//! |---|---|
//! | here | nodes, and devices of them |
//! | `add` | the kernel, here and there |
//! | `commands` | `noop` and `chain` |
//! | `transfers` | `bulk` |
//! | `migrate` | `migrate` |
//! | `buffers` | `buffers` |
//! | `matmul` | `distributed-matmul` |
//! | `cluster` | several nodes, on loopback or at a switch, and the offer of each |
//! | `edge` | `stream-edge`, a file for each stream |
//! | `links` | `links`, over networks that are made for it |

mod add;
mod buffers;
mod cluster;
mod commands;
mod edge;
#[cfg(target_os = "linux")]
mod links;
mod matmul;
mod migrate;
mod transfers;

pub(super) use buffers::buffers;
pub use cluster::serve_session;
pub(super) use commands::{chain, noop};
pub(super) use edge::stream_edge;
#[cfg(target_os = "linux")]
pub(super) use links::links;
pub(super) use matmul::distributed_matmul;
pub(super) use migrate::migrate;
pub(super) use transfers::bulk;

use crate::error::{BenchError, SubjectError};
use crate::harness::{Machine, Session};
use crate::reference::network::Way;
use add::Add;
use cluster::{Offer, node_options};
use quipu_driver_cpu::{CpuDriver, Options as CpuOptions};
use quipu_link::clock::SystemClock;
use quipu_link::gate::Gate;
use quipu_link::invitation::Invitations;
use quipu_link::{Folder, Key};
use quipu_node::Node;
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{Access, AccessMode, Context, Device, Driver, Event, MemoryRef, Queue};
use quipu_scheduler::{QueueOptions, Request};
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

/// The longest time of a handshake.
const PATIENCE: Duration = Duration::from_secs(60);

/// The operation's name in errors.
trait Doing<T> {
    fn doing(self, what: &str) -> Result<T, BenchError>;
}

impl<T, E: Into<Box<dyn std::error::Error + Send + Sync>>> Doing<T> for Result<T, E> {
    fn doing(self, what: &str) -> Result<T, BenchError> {
        self.map_err(|error| SubjectError::failed(what, error).into())
    }
}

/// All cores of this machine.
fn cores() -> Result<Device, BenchError> {
    let driver: Arc<dyn Driver> = CpuDriver::start(CpuOptions::new()).doing("starting a pool")?;
    first(&driver)
}

fn first(driver: &Arc<dyn Driver>) -> Result<Device, BenchError> {
    let devices = Device::all_of(driver).doing("listing devices")?;
    let first = devices.into_iter().next();
    first.ok_or_else(|| SubjectError::failed("listing devices", "there is none").into())
}

/// A node that is served by this process, and what it takes to connect to it.
struct Hosted {
    client: (quipu_driver_remote::Options, Key),
    _node: Node,
    _folder: tempfile::TempDir,
}

impl Hosted {
    /// One that offers this, with this between the node and its client.
    fn new(name: &str, network: &Way, options: quipu_node::Options) -> Result<Self, BenchError> {
        let folder = tempfile::tempdir().doing("making a folder")?;
        let of_node = Folder::open(folder.path().join("node")).doing("making a folder")?;
        let of_client = Folder::open(folder.path().join("client")).doing("making a folder")?;
        let gate = Gate::new(&of_node, name, PATIENCE, Arc::new(SystemClock));
        let gate = gate.doing("making a node's key")?;
        let listener = network.listen().doing("listening")?;
        let address = network.address(&listener).doing("listening")?;
        let invitation =
            Invitations::of(&of_node).invite(gate.fingerprint(), &address, &SystemClock);
        let node = network.far(|| Node::serve(options, gate, listener));
        let node = node.doing("serving")?;
        let key = Key::of(&of_client, "client.key").doing("making a client's key")?;
        let invitation = invitation.doing("inviting a client")?;
        let enrolled = network.near(|| invitation.take_up(&key, "bench", PATIENCE));
        enrolled.doing("pairing")?;
        let options = quipu_driver_remote::Options {
            patience: PATIENCE,
            ..quipu_driver_remote::Options::new(name, &address, node.fingerprint())
        };
        Ok(Self {
            client: (options, key),
            _node: node,
            _folder: folder,
        })
    }
}

/// A node that is served by this process, and its first device as a client has it.
struct Served {
    device: Device,
    // In this order: the client says goodbye first.
    node: Hosted,
}

impl Served {
    /// One that offers all cores, with this between it and its client.
    fn new(session: &Session<'_>, name: &str, network: &Way) -> Result<Self, BenchError> {
        let cores = Machine::describe().cores.and_then(NonZero::new);
        let offer = Offer::Workers(cores.unwrap_or(NonZero::<usize>::MIN));
        let options = node_options(session, &offer)?;
        let node = Hosted::new(name, network, options)?;
        let (options, key) = &node.client;
        let driver: Arc<dyn Driver> = network
            .near(|| quipu_driver_remote::connect(options, key))
            .doing("connecting")?;
        let device = first(&driver)?;
        Ok(Self { device, node })
    }
}

/// The driver of nodes that are used together, as the near end of a way connects to them.
fn together<'a>(
    network: &Way,
    nodes: impl IntoIterator<Item = &'a Hosted>,
) -> Result<Arc<dyn Driver>, BenchError> {
    let clients: Vec<_> = nodes.into_iter().map(|node| &node.client).collect();
    let connect = || {
        let met = clients
            .into_iter()
            .map(|(options, key)| quipu_driver_remote::meet(options, key).doing("connecting"));
        let met = met.collect::<Result<Vec<_>, BenchError>>()?;
        quipu_driver_remote::together(met).doing("connecting")
    };
    Ok(network.near(connect)?)
}

/// A queue of a device in a context of its own.
struct Place {
    context: Context,
    queue: Queue,
}

impl Place {
    fn new(device: &Device) -> Result<Self, BenchError> {
        let context = Context::new(std::slice::from_ref(device)).doing("making a context")?;
        let queue = context.queue(device, QueueOptions::default());
        let queue = queue.doing("making a queue")?;
        Ok(Self { context, queue })
    }

    fn memory(&self, bytes: usize) -> Result<MemoryRef, BenchError> {
        self.context.memory(bytes as u64).doing("making a buffer")
    }
}

/// Enqueues the kernel, which adds one to the first number of a buffer.
fn add(queue: &Queue, memory: &MemoryRef) -> Result<Event, BenchError> {
    let accesses = [Access {
        memory,
        offset: 0,
        length: memory.size(),
        mode: AccessMode::ReadWrite,
    }];
    let request = Request {
        accesses: &accesses,
        ..Request::default()
    };
    let event = queue.launch(Add, 1, &request);
    event.doing("enqueueing a kernel")
}

/// Writes a buffer's bytes, and waits.
fn write(queue: &Queue, memory: &MemoryRef, bytes: &mut [u8]) -> Result<(), BenchError> {
    let to = Access::whole(memory, AccessMode::Overwrite);
    // SAFETY: the bytes are there, and ours, until the transfer is over, which is waited for.
    let from = unsafe { HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None) };
    let event = queue.write(from, to, memory.size(), &[], &[]);
    wait(event.doing("enqueueing a write")?)
}

/// Reads a buffer's bytes, and waits.
fn read(queue: &Queue, memory: &MemoryRef, bytes: &mut [u8]) -> Result<(), BenchError> {
    let from = Access::whole(memory, AccessMode::Read);
    // SAFETY: as above.
    let to = unsafe { HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None) };
    let event = queue.read(from, to, memory.size(), &[], &[]);
    wait(event.doing("enqueueing a read")?)
}

/// Waits for a transfer. If that cannot be done its memory must not go.
fn wait(event: Event) -> Result<(), BenchError> {
    let waited = event.wait();
    assert!(event.is_complete(), "a wait for a transfer has ended early");
    waited.doing("waiting for a transfer")
}

/// The first number of a buffer.
fn number(queue: &Queue, memory: &MemoryRef) -> Result<u32, BenchError> {
    let mut bytes = vec![0; memory.size() as usize];
    read(queue, memory, &mut bytes)?;
    let mut first = [0; 4];
    first.copy_from_slice(&bytes[..4]);
    Ok(u32::from_le_bytes(first))
}
