//! `quipu serve`: offers this machine's devices to those who were let in.

use super::node::{Home, gate_of, invite};
use crate::error::CommandError;
use quipu::Device;
use quipu_discovery::Announcement;
use quipu_node::{Node, Options as NodeOptions};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
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

    /// Say on the local network, by mDNS, that this node is there: its name, its addresses and its key's fingerprint. So clients
    /// find it with `quipu nodes --discover`, and again when its address has changed.
    #[arg(long)]
    announce: bool,

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

/// How it is served.
fn serving(devices: &[Device], spin: u64) -> NodeOptions {
    NodeOptions {
        natives: Arc::new(quipu_cli::kernels::served()),
        spin: Duration::from_micros(spin),
        ..NodeOptions::new(devices.iter().map(|device| device.core().clone()).collect())
    }
}

/// Serves one client's session, in the process that `quipu serve` has started for it.
#[cfg(target_os = "linux")]
pub(crate) fn run_session(options: &SessionOptions) -> Result<(), CommandError> {
    let served = quipu_node::serve_session(|_| {
        Ok::<_, std::convert::Infallible>(serving(&quipu::serve::devices(), options.spin))
    });
    match served {
        Ok(never) => match never {},
        Err(error) => Err(CommandError::Session(error)),
    }
}

/// Serves until the process is ended.
pub(crate) fn run(options: &Options) -> Result<(), CommandError> {
    #[cfg(target_os = "linux")]
    crate::interrupt::on_interrupt(quipu_node::remove_scratch);
    let home = Home::open()?;
    let name = options
        .name
        .clone()
        .unwrap_or_else(quipu_link::machine_name);
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
    let devices = quipu::serve::devices();
    let mut serving = serving(&devices, options.spin);
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
    // Before the node listens to anybody: what cannot be done is said at once. It says goodbye as it is dropped.
    let _announced = match options.announce {
        true => Some(Announcement::of(&name, fingerprint, bound)?),
        false => None,
    };
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
