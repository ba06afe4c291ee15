//! `quipu serve`: offers this machine's devices to those who were let in.

use super::node::{Home, gate_of, invite};
use crate::error::CommandError;
use quipu::{Device, Platform};
use quipu_link::peer::Networks;
use quipu_node::{Node, Options as NodeOptions, Peering};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

/// The command's options.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where to listen, as host:port; 0.0.0.0 is every network of this machine.
    #[arg(long, default_value = "0.0.0.0:4760")]
    address: String,

    /// What clients call this machine by, as host:port, if that is another address.
    #[arg(long)]
    advertise: Option<String>,

    /// What the node is called; the machine's name without it.
    #[arg(long)]
    name: Option<String>,

    /// Print an invitation for one client, too.
    #[arg(long)]
    invite: bool,

    /// Where to answer Prometheus, as host:port: plain HTTP, for whoever asks, so on a network that may know.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<String>,

    /// For how many microseconds receivers look again and again before they sleep; zero where cores are few.
    #[arg(long, default_value_t = 0)]
    spin: u64,

    /// For how many seconds a client's session is kept after its connection is lost, at most.
    #[arg(long, default_value_t = 60)]
    patience: u64,

    /// How many gigabytes a client's session may have; half of the machine's memory without it.
    #[arg(long)]
    memory: Option<u64>,

    /// For how many seconds a kernel may run natively without a pause before its session ends; zero is for ever.
    #[arg(long, default_value_t = 0)]
    run_time: u64,

    /// Where other nodes find this one, as an address and port; where its clients have found it without it.
    #[arg(long, value_name = "ADDRESS")]
    peer_address: Option<SocketAddr>,

    /// Where this node may dial others for its clients: networks like 10.1.0.0/16 with commas between them, `private` (those
    /// that are not of the internet; this machine only if the node listens for nobody else), or `none`.
    #[arg(long, default_value = "private")]
    peer_networks: Networks,

    /// Keep all sessions in this process: a kernel that crashes ends all of them.
    #[arg(long)]
    one_process: bool,
}

/// What a session's process is started with.
#[cfg(target_os = "linux")]
#[derive(clap::Args)]
pub(crate) struct SessionOptions {
    #[arg(long, default_value_t = 0)]
    spin: u64,
}

/// What is offered: this machine's devices.
fn offered(platform: &Platform) -> Vec<Device> {
    let devices = platform.devices().iter();
    // What runs on the thread that enqueues would keep a session's thread; what is another node's is there already.
    let devices = devices
        .filter(|device| !device.properties().caller_runs && device.driver_name() != "remote");
    devices.cloned().collect()
}

/// How it is served.
fn serving(devices: &[Device], spin: u64) -> NodeOptions {
    NodeOptions {
        spin: Duration::from_micros(spin),
        ..NodeOptions::new(devices.iter().map(|device| device.core().clone()).collect())
    }
}

/// Serves one client's session, in the process that `quipu serve` has started for it.
#[cfg(target_os = "linux")]
pub(crate) fn run_session(options: &SessionOptions) -> Result<(), CommandError> {
    let served = quipu_node::serve_session(|_| {
        let platform = Platform::builder().build_available();
        Ok::<_, std::convert::Infallible>(serving(&offered(&platform), options.spin))
    });
    match served {
        Ok(never) => match never {},
        Err(error) => Err(CommandError::Session(error)),
    }
}

/// Serves until the process is ended.
pub(crate) fn run(options: &Options) -> Result<(), CommandError> {
    let home = Home::open()?;
    let name = options.name.clone().unwrap_or_else(super::node::machine);
    let gate = gate_of(&home, &name)?;
    let (bound, listener) = listen(&options.address, "--address")?;
    let metrics = options.metrics.as_deref();
    let metrics = metrics.map(|address| listen(address, "--metrics"));
    let metrics = metrics.transpose()?;
    let advertised = match &options.advertise {
        Some(address) => address.clone(),
        None if bound.ip().is_unspecified() => format!("{name}:{}", bound.port()),
        None => bound.to_string(),
    };
    home.note_address(&advertised)?;
    let platform = Platform::builder().build_available();
    let devices = offered(&platform);
    let mut serving = serving(&devices, options.spin);
    serving.peers = Peering {
        address: options.peer_address,
        networks: options.peer_networks.clone(),
    };
    let limits = &mut serving.limits;
    limits.patience = Duration::from_secs(options.patience);
    limits.run_time = Duration::from_secs(options.run_time);
    if let Some(memory) = options.memory {
        limits.process_bytes = memory.saturating_mul(1 << 30);
    }
    #[cfg(target_os = "linux")]
    if !options.one_process {
        let spin = options.spin.to_string();
        let spawn = quipu_node::Spawn::own(["session", "--spin", &spin]);
        let mut spawn = spawn.map_err(CommandError::Session)?;
        // What is for this process alone: where its keys are, a trace's file, other nodes.
        spawn.environment = ["QUIPU_HOME", "QUIPU_TRACE", "QUIPU_NODES"]
            .map(|name| (name.into(), None))
            .into();
        serving.processes = Some(spawn);
    }
    let count = devices.len();
    let fingerprint = gate.fingerprint();
    let node = Node::serve(serving, gate, listener).map_err(CommandError::Serve)?;
    let mut text = format!(
        "node {name} offers {count} device{} at {advertised}\nits key is {fingerprint}\n",
        if count == 1 { "" } else { "s" }
    );
    if options.invite {
        text.push_str(&format!(
            "within ten minutes, run once where the client is:\nquipu pair {}\n",
            invite(&home, &advertised)?
        ));
    } else {
        text.push_str("`quipu invite` prints an invitation for a client\n");
    }
    if let Some((address, listener)) = metrics {
        text.push_str(&format!("metrics are at http://{address}/metrics\n"));
        crate::metrics::serve(listener, node.status(), devices).map_err(CommandError::Serve)?;
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    drop(stdout);
    node.wait();
    Ok(())
}

/// Listens at an address that an option says.
fn listen(address: &str, option: &'static str) -> Result<(SocketAddr, TcpListener), CommandError> {
    let failed = |source| CommandError::Listen {
        address: address.to_owned(),
        option,
        source,
    };
    let listener = TcpListener::bind(address).map_err(failed)?;
    Ok((listener.local_addr().map_err(failed)?, listener))
}
