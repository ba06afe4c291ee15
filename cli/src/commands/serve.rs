//! `quipu serve`: offers this machine's devices to those who were let in.

use super::node::{Home, gate_of, invite};
use crate::error::CommandError;
use quipu::Platform;
use quipu_node::{Node, Options as NodeOptions};
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
    let devices = platform.devices().iter();
    // What runs on the thread that enqueues would keep a session's thread; what is another node's is there already.
    let devices = devices
        .filter(|device| !device.properties().caller_runs && device.driver_name() != "remote");
    let devices: Vec<_> = devices.cloned().collect();
    let count = devices.len();
    let fingerprint = gate.fingerprint();
    let serving = NodeOptions {
        spin: Duration::from_micros(options.spin),
        ..NodeOptions::new(devices.iter().map(|device| device.core().clone()).collect())
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
