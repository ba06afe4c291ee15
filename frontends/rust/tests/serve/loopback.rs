//! A node in this process, and a client of it.

use quipu::drivers::Options;
use quipu::drivers::remote::paired;
use quipu::prelude::*;
use quipu::serve::{Kernels, Server, Serving};
use std::net::TcpListener;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// As long as a machine may be stopped for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Loopback {
    // In this order: the client says goodbye first.
    pub(crate) remote: Queue,
    /// A device of this process that is as the node's.
    pub(crate) local: Queue,
    pub(crate) context: Context,
    pub(crate) serving: Serving,
    pub(crate) folder: PathBuf,
}

/// A pool of two workers.
pub(crate) fn pool() -> quipu::Result<Vec<Device>> {
    let workers = NonZero::new(2).unwrap();
    let platform = Platform::builder().without_embedded();
    let platform = platform.cpu(Options::new().workers(workers)).build()?;
    Ok(platform.devices().to_vec())
}

/// A server at a port of its own, with keys of its own.
pub(crate) fn server(kernels: Kernels, folder: &Path) -> Server {
    Server::new(kernels)
        .address("127.0.0.1:0")
        .name("node")
        .folder(folder.join("node"))
        .devices(pool)
}

impl Loopback {
    /// A node of one process.
    pub(crate) fn start(kernels: Kernels, folder: &TempDir) -> Self {
        let folder = folder.path().to_owned();
        let serving = server(kernels, &folder).one_process().start().unwrap();
        Self::of(serving, folder)
    }

    pub(crate) fn of(serving: Serving, folder: PathBuf) -> Self {
        let own = folder.join("client");
        let node = paired::pair(&own, &serving.invite().unwrap(), PATIENCE).unwrap();
        let driver = paired::connect_from(&own, &node, PATIENCE).unwrap();
        let platform = Platform::builder().without_embedded().driver(driver);
        let platform = platform.build().unwrap();
        let mut devices = platform.devices().to_vec();
        devices.extend(pool().unwrap());
        let context = Context::new(&devices).unwrap();
        Self {
            remote: context.queue(&devices[0]).unwrap(),
            local: context.queue(devices.last().unwrap()).unwrap(),
            context,
            serving,
            folder,
        }
    }

    /// The bits that a computation leaves on the node are those that it leaves here.
    pub(crate) fn same<T: Element + PartialEq + std::fmt::Debug>(
        &self,
        compute: impl Fn(&Context, &Queue) -> quipu::Result<Buffer<T>>,
    ) -> Vec<T> {
        let [here, there] = [&self.local, &self.remote].map(|queue| {
            let left = compute(&self.context, queue).unwrap();
            queue.read(&left).unwrap().wait().unwrap()
        });
        let bits = |elements: &[T]| bytemuck::cast_slice::<T, u8>(elements).to_vec();
        assert!(
            bits(&here) == bits(&there),
            "{here:?} here, {there:?} there"
        );
        here
    }
}

/// A port that is in use.
pub(crate) fn taken() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}
