//! Serving.

use super::Kernels;
use crate::device::Device;
use crate::platform::Platform;
use quipu_driver_remote::paired;
use quipu_link::Folder;
use quipu_link::addresses::reachable;
use quipu_link::clients::Clients;
use quipu_link::clock::SystemClock;
use quipu_link::gate::Gate;
use quipu_link::invitation::Invitations;
use quipu_link::peer::Networks;
use quipu_link::served::Served;
use quipu_node::{Limits, Node, Options, Peering};
use quipu_scheduler::{Error, ErrorKind, Result};
use std::ffi::OsString;
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The time within which a stranger has to say hello.
const HELLO: Duration = Duration::from_secs(60);

/// Says to a process that it is for one session.
#[cfg(target_os = "linux")]
const IS_SESSION: &str = "QUIPU_SERVES_SESSION";

/// A second node of the same arguments has been started by none: the processes of its sessions
/// would not know for which they are.
#[cfg(target_os = "linux")]
static HAS_STARTED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

fn failed(problem: String) -> Error {
    ErrorKind::InvalidArgument {
        what: "serve",
        problem,
    }
    .into()
}

/// This machine's devices, as far as they can be [offered].
#[must_use]
pub fn devices() -> Vec<Device> {
    offered(&Platform::builder().without_nodes().build_available())
}

/// A platform's devices, as far as they can be used by others: not those of other nodes, nor those
/// that compute on the thread that enqueues.
#[must_use]
pub fn offered(platform: &Platform) -> Vec<Device> {
    let devices = platform.devices().iter();
    let devices = devices
        .filter(|device| !device.properties().caller_runs && device.driver_name() != "remote");
    devices.cloned().collect()
}

type Devices = Box<dyn Fn() -> Result<Vec<Device>>>;

/// The settings of a program that serves: see the [module](crate::serve).
#[must_use = "nothing is served before it is started"]
pub struct Server {
    kernels: Kernels,
    devices: Devices,
    address: String,
    advertised: Option<String>,
    name: Option<String>,
    folder: Option<PathBuf>,
    limits: Limits,
    peers: Peering,
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "of processes"))]
    arguments: Option<Vec<OsString>>,
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "of processes"))]
    one_process: bool,
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "of processes"))]
    accepts_weak_sandbox: bool,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("kernels", &self.kernels)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Serves these kernels, on [all devices](devices) of this machine, at port 4760 of every
    /// network of it, within the [usual limits](Limits::default).
    pub fn new(kernels: Kernels) -> Self {
        Self {
            kernels,
            devices: Box::new(|| Ok(devices())),
            address: "0.0.0.0:4760".to_owned(),
            advertised: None,
            name: None,
            folder: None,
            limits: Limits::default(),
            peers: Peering::default(),
            arguments: None,
            one_process: false,
            accepts_weak_sandbox: false,
        }
    }

    /// Sets the address to listen at, as `host:port`; port 0 is one that is free.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = address.into();
        self
    }

    /// Sets the address at which clients reach it, as `host:port`, or several with commas between
    /// them, if that is not at the machine's own addresses.
    pub fn advertise(mut self, address: impl Into<String>) -> Self {
        self.advertised = Some(address.into());
        self
    }

    /// Sets the node's name; without it, the machine's.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The folder of its key, and of the list of clients that may come in. It is made if it is not
    /// there, and has to be its owner's alone. `QUIPU_HOME` without it, or `~/.config/quipu`, which
    /// is also that of `quipu invite` and `quipu revoke`.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Sets the limits of a client's use, the time that a session is kept after its connection is
    /// lost ([`Limits::patience`]), and the time that a kernel may run ([`Limits::run_time`]).
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the address at which other nodes that a client uses find this one; without it, the
    /// address at which the client has found it.
    pub fn peer_address(mut self, address: SocketAddr) -> Self {
        self.peers.address = Some(address);
        self
    }

    /// Sets the networks in which this node may dial others for its clients, so that bytes go
    /// straight from one to the other: [`Networks::default`] without it, which is private networks,
    /// and this machine only if the node listens for this machine alone. With [`Networks::none`] it
    /// dials no other node, and bytes for one go by way of the client.
    pub fn peer_networks(mut self, networks: Networks) -> Self {
        self.peers.networks = networks;
        self
    }

    /// Sets the function that gives the devices to offer. It is called in each session's process
    /// again, in its sandbox, so it starts drivers there and does not give out those that were
    /// started before.
    pub fn devices(mut self, devices: impl Fn() -> Result<Vec<Device>> + 'static) -> Self {
        self.devices = Box::new(devices);
        self
    }

    /// Keeps all sessions in this process, which a kernel of any of them can end.
    pub fn one_process(mut self) -> Self {
        self.one_process = true;
        self
    }

    /// Serves also where the system's kernel has no Landlock or no seccomp, without which a
    /// client's code can read this node's key.
    pub fn accept_weak_sandbox(mut self) -> Self {
        self.accepts_weak_sandbox = true;
        self
    }

    /// The arguments with which this program comes to [`start`](Self::start) when it is started for
    /// a session; those that it was started with itself without them, of which there can only be
    /// one node.
    pub fn session_arguments(
        mut self,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        self.arguments = Some(arguments.into_iter().map(Into::into).collect());
        self
    }

    /// Serves, on threads of its own. In a process that was started for a client's session it does
    /// not return: see the [module](crate::serve).
    ///
    /// # Errors
    ///
    /// * The address cannot be listened on.
    /// * Others than the owner have rights to the folder, or another node serves from it.
    /// * There is no device.
    /// * A `#[kernel]` has no source.
    /// * Linux lacks Landlock or seccomp, and [`accept_weak_sandbox`](Self::accept_weak_sandbox)
    ///   was not called.
    /// * A second server of this program wants processes without
    ///   [`session_arguments`](Self::session_arguments).
    /// * In a session's process: the process already has threads, or its sandbox cannot be entered.
    pub fn start(self) -> Result<Serving> {
        #[cfg(target_os = "linux")]
        if !self.one_process && std::env::var_os(IS_SESSION).is_some() {
            return Err(self.serve_session());
        }
        self.kernels.check()?;
        let folder = match self.folder {
            Some(folder) => folder,
            None => paired::home()?,
        };
        let folder = Folder::open(folder).map_err(|error| failed(error.to_string()))?;
        let served = folder.serve().map_err(|error| failed(error.to_string()))?;
        let name = self.name.unwrap_or_else(quipu_link::machine_name);
        let gate = Gate::new(&folder, &name, HELLO, Arc::new(SystemClock));
        let gate = gate.map_err(|error| failed(error.to_string()))?;
        let cannot_listen = |error| {
            failed(format!(
                "it cannot listen at {}: {error}; choose another address, as host:port",
                self.address
            ))
        };
        let listener = TcpListener::bind(&self.address).map_err(cannot_listen)?;
        let bound = listener.local_addr().map_err(cannot_listen)?;
        let advertised = self.advertised.unwrap_or_else(|| bound.to_string());
        let devices = (self.devices)()?;
        if devices.is_empty() {
            return Err(failed("there is no device to offer".to_owned()));
        }
        let options = Options {
            natives: Arc::new(self.kernels),
            limits: self.limits,
            peers: self.peers,
            #[cfg(target_os = "linux")]
            processes: (!self.one_process)
                .then(|| spawn(self.arguments))
                .transpose()?,
            #[cfg(target_os = "linux")]
            accepts_weak_sandbox: self.accepts_weak_sandbox,
            ..Options::new(devices.iter().map(|device| device.core().clone()).collect())
        };
        let node = Node::serve(options, gate, listener);
        let node = node.map_err(|error| failed(error.to_string()))?;
        let noted = served.note_address(&advertised);
        noted.map_err(|error| failed(error.to_string()))?;
        Ok(Serving {
            node,
            folder,
            advertised,
            _served: served,
        })
    }

    /// Serves one session. Returns only if it cannot.
    #[cfg(target_os = "linux")]
    fn serve_session(self) -> Error {
        // The sandbox holds for the thread that enters it, and those that it starts.
        let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
        if threads > 1 {
            return failed(format!(
                "the process of a session has {threads} threads before it serves; have `main` come to `Server::start` before it starts any, or choose `one_process`"
            ));
        }
        let (devices, kernels) = (self.devices, self.kernels);
        let served = quipu_node::serve_session(|_| {
            let devices = devices()?;
            Ok::<_, Error>(Options {
                natives: Arc::new(kernels),
                ..Options::new(devices.iter().map(|device| device.core().clone()).collect())
            })
        });
        match served {
            Ok(never) => match never {},
            Err(error) => failed(error.to_string()),
        }
    }
}

/// The way in which processes of sessions are started.
#[cfg(target_os = "linux")]
fn spawn(arguments: Option<Vec<OsString>>) -> Result<quipu_node::Spawn> {
    let own = || {
        if HAS_STARTED.swap(true, std::sync::atomic::Ordering::SeqCst) {
            return Err(failed(
                "the program has served before, and its sessions' processes would not know for which node; say by which `session_arguments` it comes to this one, or serve it in `one_process`"
                    .to_owned(),
            ));
        }
        Ok(std::env::args_os().skip(1).collect())
    };
    let arguments = arguments.map_or_else(own, Ok)?;
    let mut spawn = quipu_node::Spawn::own(arguments).map_err(|error| failed(error.to_string()))?;
    spawn
        .environment
        .push((IS_SESSION.into(), Some("1".into())));
    Ok(spawn)
}

/// A node that serves. It ends when this is dropped, and its clients' sessions with it.
#[derive(Debug)]
pub struct Serving {
    node: Node,
    folder: Folder,
    advertised: String,
    /// Until the node has ended, which is before it.
    _served: Served,
}

impl Serving {
    /// The address at which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.node.address()
    }

    /// The number of sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.node.sessions()
    }

    /// A line that lets one client in, once, within ten minutes: `quipu pair LINE` on the client's
    /// machine, or [`paired::pair`](crate::drivers::remote::paired::pair) in its program.
    ///
    /// # Errors
    /// If it cannot be noted in the folder.
    pub fn invite(&self) -> Result<String> {
        let invitations = Invitations::of(&self.folder);
        // The machine's addresses are those that it has now.
        let address = reachable(&self.advertised);
        let invitation = invitations.invite(self.node.fingerprint(), &address, &SystemClock);
        let invitation = invitation.map_err(|error| failed(error.to_string()))?;
        Ok(invitation.to_string())
    }

    /// The names of the clients that may come in.
    ///
    /// # Errors
    /// If the folder's list cannot be read.
    pub fn clients(&self) -> Result<Vec<String>> {
        let listed = Clients::of(&self.folder).list();
        let listed = listed.map_err(|error| failed(error.to_string()))?;
        Ok(listed.into_iter().map(|client| client.name).collect())
    }

    /// Takes back that a client may come in, by its name or fingerprint. Its running commands end
    /// within seconds.
    ///
    /// # Errors
    /// If there is none, or the folder's list cannot be written.
    pub fn revoke(&self, client: &str) -> Result<()> {
        let revoked = Clients::of(&self.folder).revoke(client);
        revoked
            .map(|_| ())
            .map_err(|error| failed(error.to_string()))
    }

    /// Serves until the process is ended.
    pub fn wait(self) {
        self.node.wait();
    }
}
