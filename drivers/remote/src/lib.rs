//! Quipu's driver for other machines' devices: a node's devices, as if they were here.
//!
//! | module | contents |
//! |---|---|
//! | [`vendor`] | the verbs of a driver over nodes |
//! | `link` | the connection: commands in flight, ids, ends, loss |
//! | `reading` | the thread that receives: one that waits for a command, or one kept for it |
//! | `flights` | commands that are on the node |
//! | `receive` | messages from the node, checked and acted on |
//! | `resume` | coming back to a session whose connection was lost |
//! | `bulk` | bytes of large transfers, both ways |
//! | `peers` | nodes that are used together, and the bytes between them |
//! | `point` | ends of commands, as the driver asks for them |
//! | `forward` | from a command to a message |
//! | `clock` | the lead of the node's clock over ours |
//! | `memory` | buffers of the node |
//! | `program` | kernels, as the node is told of them |
//! | `description` | programs that a node reads for this machine |
//! | `printed` | the output of kernels on the node |
//! | `device` | properties of the devices |
//! | [`paired`] | the nodes that were paired with, by name |
//! | `failure` | failures that a node reports |
//! | `exit` | goodbye as the process exits |
//!
//! The driver is [that of vendors' libraries](quipu_device_queue), with a node for a library: the
//! order of commands, the executor of host tasks and the effect of failures are decided there, and
//! are the same as for OpenCL.
//!
//! # What goes when
//!
//! A command leaves when all commands that it waits for are on the node or over. Those on the node
//! it names by their ids, so a chain of commands costs one way there and one back. For a command on
//! another node that is used [together] with it, there is a placeholder on its own node, which that
//! command's end brings about. A command on the host or elsewhere is awaited here, and the command
//! leaves when that is over.
//!
//! # Loss
//!
//! When a connection is lost, another is made, and the session goes on where it was: messages that
//! the node has not taken over are sent again, and so are the node's messages from meanwhile, and
//! each takes effect once. That the node cannot be reached for longer than [`Options::reconnect`],
//! or has ended, is the end of the session:
//!
//! 1. Both streams are cut, and threads that read or write memory of the host's stop.
//! 2. Then, and not before, everything in flight fails, with an error that names the node, and so
//!    do later commands.
//! 3. Bytes that were only in the node's memory are lost; the core names the buffers.

#![cfg_attr(not(test), warn(clippy::disallowed_macros, clippy::disallowed_methods))]

mod bulk;
mod clock;
mod description;
mod device;
mod exit;
mod failure;
mod flights;
mod forward;
mod link;
mod memory;
pub mod paired;
mod peers;
mod point;
mod printed;
mod program;
mod reading;
mod receive;
mod resume;
pub mod vendor;

use quipu_device_queue::VendorDriver;
use quipu_link::client::Dial;
pub use quipu_link::compression::Compression;
use quipu_link::session::Greeted;
use quipu_link::timer::{SystemTimer, Timer};
use quipu_link::{Fingerprint, Key};
use quipu_protocol::message::GoodbyeReason;
use quipu_scheduler::sync::lock as locked;
use quipu_scheduler::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::time::Duration;
pub use vendor::Remote;

/// The driver of a node's devices.
pub type RemoteDriver = VendorDriver<Remote>;

/// The node to connect to, and the settings.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's name here, for the names of its devices and errors.
    pub name: String,
    /// Its address, as `host:port`.
    pub address: String,
    /// The key that it has to have.
    pub node: Fingerprint,
    /// This program's own name.
    pub program: String,
    /// The longest time until the node answers; ten seconds by default.
    pub patience: Duration,
    /// The time for which the receiver of ends looks again and again before it sleeps; none by
    /// default. Use none where cores are few.
    pub spin: Duration,
    /// The longest time for which a lost connection is waited for before the commands in flight
    /// fail; two minutes by default. The node keeps the session for a shorter time: half a minute
    /// less, in which it notices the loss. With less than half a minute, the session ends with its
    /// connection.
    pub reconnect: Duration,
    /// The time for which connections must be refused at the node's address before the node counts
    /// as ended; ten seconds by default. It holds for addresses of this machine, too, because a
    /// forwarder to a node may restart.
    pub refusals: Duration,
    /// The longest time in which this node connects to another one; three seconds by default.
    /// Afterwards the bytes between them go by way of this program.
    pub peer_patience: Duration,
    /// The timer that measures these times.
    pub timer: Arc<dyn Timer>,
    /// The longest time that the goodbye to the node may take, as the last device is dropped or the
    /// process exits; five seconds by default. A node that has not heard it keeps the session until
    /// no client has come back for a while.
    pub goodbye: Duration,
    /// The compression of bytes that go to the node. The node chooses that of its own bytes.
    pub compression: Compression,
}

impl Options {
    /// Options for a node with this name, address and key. The fields say the default times.
    #[must_use]
    pub fn new(name: &str, address: &str, node: Fingerprint) -> Self {
        Self {
            name: name.to_owned(),
            address: address.to_owned(),
            node,
            program: "quipu".to_owned(),
            patience: Duration::from_secs(10),
            spin: Duration::ZERO,
            reconnect: Duration::from_secs(120),
            refusals: Duration::from_secs(10),
            peer_patience: Duration::from_secs(3),
            timer: Arc::new(SystemTimer::default()),
            goodbye: Duration::from_secs(5),
            compression: Compression::default(),
        }
    }
}

fn failed(problem: String) -> Error {
    ErrorKind::InvalidArgument {
        what: "connect to a node",
        problem,
    }
    .into()
}

/// A node that has said welcome, and waits to be [used](together).
pub struct Met(Option<Box<(Options, Key, Greeted, Greeted)>>);

impl std::fmt::Debug for Met {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.0.as_ref().map(|met| &met.0.name);
        formatter.debug_tuple("Met").field(&name).finish()
    }
}

impl Met {
    fn take(mut self) -> Option<(Options, Key, Greeted, Greeted)> {
        self.0.take().map(|met| *met)
    }
}

impl Drop for Met {
    fn drop(&mut self) {
        if let Some(met) = self.0.take() {
            // Else the node would wait for us.
            met.2.connection.close(GoodbyeReason::Done, "");
        }
    }
}

/// Connects to a node, as the owner of a key that is enrolled there.
///
/// # Errors
/// If the node cannot be reached, is another than it should be, refuses, offers no devices, or does
/// not answer in time.
pub fn meet(options: &Options, key: &Key) -> Result<Met> {
    meet_for(options, key, false)
}

/// Connects to a node that is used with others, or alone: then it makes no connections to others.
fn meet_for(options: &Options, key: &Key, alone: bool) -> Result<Met> {
    let dial = Dial {
        address: &options.address,
        node: options.node,
        key,
        name: &options.program,
        patience: options.patience,
    };
    let failed =
        |problem: &dyn std::fmt::Display| failed(format!("node '{}': {problem}", options.name));
    let (begun, bulk) = dial
        .begin_both(options.reconnect, alone)
        .map_err(|error| failed(&error))?;
    if begun.devices.is_empty() {
        // Else the node would wait for us.
        begun.connection.close(GoodbyeReason::Done, "");
        let problem = format!("'{}' offers no devices", options.address);
        return Err(failed(&problem));
    }
    let met = (options.clone(), key.clone(), begun, bulk);
    Ok(Met(Some(Box::new(met))))
}

/// The driver of the devices of nodes, in the order of the nodes. A node is told of events that
/// another brings about, by that node, and bytes go from one to another straight, if they can.
///
/// # Errors
/// If there are none, or the system gives no thread.
pub fn together(nodes: Vec<Met>) -> Result<Arc<RemoteDriver>> {
    if nodes.is_empty() {
        return Err(failed("there is no node".to_owned()));
    }
    let (remote, bulks) = Remote::new(nodes).map_err(failed)?;
    let links = remote.links().to_vec();
    let driver = VendorDriver::over(remote)?;
    for (link, bulk) in links.iter().zip(bulks) {
        link.run(Arc::downgrade(&driver), bulk).map_err(failed)?;
    }
    Ok(driver)
}

/// Connects to a node alone, as the owner of a key that is enrolled there: the driver of its
/// devices.
///
/// # Errors
/// As [`meet`] and [`together`].
pub fn connect(options: &Options, key: &Key) -> Result<Arc<RemoteDriver>> {
    together(vec![meet_for(options, key, true)?])
}
