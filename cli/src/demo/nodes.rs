//! Two nodes of the demo's own, on this machine: with keys, over TLS, and on Linux with a process
//! for the session, like any.
//!
//! They have the pipeline's kernels natively, so nothing is compiled. Their keys are in a folder of
//! their own, which goes when they do, or when the process is interrupted.

use super::kernels::served;
use quipu::drivers::remote::paired;
use quipu::drivers::{Options, RemoteDriver};
use quipu::prelude::*;
use quipu::serve::{Server, Serving};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The time within which a node has to answer, on a machine that has much to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// Their names.
const NAMES: [&str; 2] = ["node-1", "node-2"];

/// Nodes that serve, and a connection to each: used together, so bytes that one has and the other
/// needs go there straight.
pub(crate) struct Nodes {
    driver: Arc<RemoteDriver>,
    _serving: Vec<Serving>,
    _keys: Keys,
}

/// A folder that goes with its owner.
struct Keys;

impl Drop for Keys {
    fn drop(&mut self) {
        let _held = MAKING.lock();
        remove_keys();
    }
}

/// The folder of the keys of this process's nodes.
fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("quipu-demo-{}.keys", std::process::id()))
}

/// Held while keys are made: files that are removed meanwhile would come back.
static MAKING: Mutex<()> = Mutex::new(());

/// Removes all files of this process's nodes, if there are any.
pub(crate) fn remove_files() {
    let _held = MAKING.lock();
    #[cfg(target_os = "linux")]
    quipu_node::remove_scratch();
    remove_keys();
}

/// Removes their keys.
fn remove_keys() {
    if let Err(error) = std::fs::remove_dir_all(folder()) {
        tracing::debug!(%error, "no keys of the demo's were removed");
    }
}

/// The devices that a node offers: a part of this machine's cores, for there are others that work
/// at the same time.
fn cores() -> quipu::Result<Vec<Device>> {
    let all = std::thread::available_parallelism().map_or(1, NonZero::get);
    let some = NonZero::new(all / 4).unwrap_or(NonZero::<usize>::MIN);
    let platform = Platform::builder().without_embedded();
    let platform = platform.cpu(Options::new().workers(some)).build()?;
    Ok(platform.devices().to_vec())
}

fn server() -> Server {
    Server::new(served())
        .address("127.0.0.1:0")
        .devices(cores)
        .session_arguments(["demo", "--session"])
}

/// Serves one session of one of them, in the process that it has started for that. Returns only if
/// it cannot.
pub(crate) fn serve_session() -> quipu::Result<()> {
    server().start().map(drop)
}

impl Nodes {
    /// Starts them, and pairs with them.
    pub(crate) fn start() -> quipu::Result<Self> {
        // In this order: the keys are removed when no thread holds the lock.
        let (folder, keys) = (folder(), Keys);
        let held = MAKING.lock();
        let (own, mut met, mut all) = (folder.join("client"), Vec::new(), Vec::new());
        for name in NAMES {
            let serving = server().name(name).folder(folder.join(name)).start()?;
            met.push(paired::pair(&own, &serving.invite()?, PATIENCE)?);
            all.push(serving);
        }
        let driver = paired::connect_together(&own, &met, PATIENCE)?;
        drop(held);
        Ok(Self {
            driver,
            _serving: all,
            _keys: keys,
        })
    }

    /// The driver of their devices.
    pub(crate) fn driver(&self) -> Arc<RemoteDriver> {
        Arc::clone(&self.driver)
    }
}
