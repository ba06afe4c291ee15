//! `quipu serve`: offers this machine's devices to enrolled clients.

#[cfg(target_os = "linux")]
pub(crate) mod sandbox;

use super::node::{Home, gate_of, invite};
use crate::error::CommandError;
use quipu::drivers::sources::{self, Source, SourcesDriver};
use quipu::{Device, Platform};
use quipu_discovery::Announcement;
use quipu_link::Rights;
use quipu_link::addresses::reachable;
use quipu_link::compression::Compression;
use quipu_link::nodes::check_name;
use quipu_link::peer::Networks;
use quipu_node::{Limits, Node, Options as NodeOptions, Peering};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The command's options.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Address to listen at, as host:port; 0.0.0.0 is every network of this machine. Without it:
    /// 0.0.0.0:4760, or 127.0.0.1:4760 with `--insecure`.
    #[arg(long)]
    address: Option<String>,

    /// Address at which clients reach this machine, as host:port; several with commas between them.
    /// Without it: at the machine's own addresses.
    #[arg(long)]
    advertise: Option<String>,

    /// The node's name; without it, the machine's name.
    #[arg(long)]
    name: Option<String>,

    /// Announce the node on the local network, by mDNS: its name, its addresses and its key's
    /// fingerprint. Clients then find it with `quipu nodes --discover`, and also after its address
    /// has changed.
    #[arg(long)]
    announce: bool,

    /// Also print an invitation for one client.
    #[arg(long)]
    invite: bool,

    /// Let every client in that reaches the address, with all rights: for tests on a closed
    /// network. Clients need no invitation; they run `quipu pair --insecure`.
    #[arg(long)]
    insecure: bool,

    /// Serve metrics for Prometheus at host:port. It is plain HTTP without access control.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<String>,

    /// The microseconds for which receiving threads look again and again before they sleep. They
    /// keep cores busy meanwhile.
    #[arg(long, default_value_t = 0)]
    spin: u64,

    /// The number of cores that a session may keep busy; without it, all.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    cores: Option<u32>,

    /// The longest time in seconds for which a session is kept after its connection is lost.
    #[arg(long, default_value_t = 60)]
    patience: u64,

    /// The memory in GiB that all sessions of a client have together, and the GiB of their buffers
    /// on any device. Without it: half of the machine's memory; for buffers on devices, only
    /// `--device-memory` counts.
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u64).range(1..1 << 30))]
    memory: Option<u64>,

    /// The part of a device's own memory that a session may have, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = Limits::default().device_percent, value_parser = clap::value_parser!(u32).range(1..=100))]
    device_memory: u32,

    /// The number of sessions that a client may have at once.
    #[arg(long, default_value_t = Limits::default().client_sessions as u32, value_parser = clap::value_parser!(u32).range(1..))]
    sessions: u32,

    /// The seconds that one kernel may take before its session is ended; zero is no limit. On a
    /// processor, the time counts for which one core works on the kernel without a break; on
    /// another device, the kernel's time there.
    #[arg(long, default_value_t = Limits::default().run_time.as_secs())]
    run_time: u64,

    /// The seconds that the compilation of one program may take before its session is ended; zero
    /// is no limit.
    #[arg(long, default_value_t = 60)]
    compile_time: u64,

    /// Address at which other nodes find this one, with a port. Without it: the address at which
    /// its clients have found it.
    #[arg(long, value_name = "ADDRESS")]
    peer_address: Option<SocketAddr>,

    /// The networks in which this node may dial other nodes for its clients: networks such as
    /// 10.1.0.0/16 with commas between them, `private` or `none`. `private` includes this machine
    /// only if the node listens on loopback alone.
    #[arg(long, default_value = "private")]
    peer_networks: Networks,

    /// Compression of the bytes that go to clients. `auto` compresses a message if it then arrives
    /// sooner, but never to this machine; `adaptive` does so to this machine, too; `lz4` and `zstd`
    /// compress all that gets shorter; `off` compresses nothing.
    #[arg(long, default_value_t)]
    compression: Compression,

    #[command(flatten)]
    extra: Extra,

    /// Keep all sessions in this process: a kernel that crashes ends all of them.
    #[arg(long)]
    one_process: bool,

    /// Serve although the sandbox of sessions is weak: the system's kernel lacks Landlock or
    /// seccomp, or this node's key is where every session reads. Code of a client may then read and
    /// change what this user can.
    #[cfg(target_os = "linux")]
    #[arg(long, conflicts_with = "one_process")]
    accept_weak_sandbox: bool,

    /// Serve no client. List the devices that sessions find in their sandbox, and the parts of the
    /// sandbox that hide the others.
    #[cfg(target_os = "linux")]
    #[arg(long)]
    check_sandbox: bool,
}

impl Options {
    /// The address to listen at. Only programs of this machine reach an insecure node without a
    /// given address.
    fn address(&self) -> &str {
        match &self.address {
            Some(address) => address,
            None if self.insecure => "127.0.0.1:4760",
            None => "0.0.0.0:4760",
        }
    }

    /// The limits of a session.
    fn limits(&self) -> Limits {
        let mut limits = Limits {
            patience: Duration::from_secs(self.patience),
            run_time: Duration::from_secs(self.run_time),
            compile_time: Duration::from_secs(self.compile_time),
            cores: self.cores.unwrap_or(0),
            client_sessions: self.sessions as usize,
            device_percent: self.device_memory,
            ..Limits::default()
        };
        if let Some(gigabytes) = self.memory {
            limits.process_bytes = gigabytes << 30;
            limits.session_bytes = gigabytes << 30;
        }
        limits
    }
}

/// The arguments that a session's process is started with.
#[cfg(target_os = "linux")]
#[derive(clap::Args)]
pub(crate) struct SessionOptions {
    /// Number of devices that the node offers.
    #[arg(long)]
    devices: usize,

    #[arg(long, default_value_t = 0)]
    spin: u64,

    #[arg(long, default_value_t)]
    compression: Compression,

    #[command(flatten)]
    extra: Extra,
}

/// Devices that are not there by themselves.
#[derive(clap::Args)]
pub(crate) struct Extra {
    /// Also offer a stream of frames as a device: a file of motion JPEG or raw video, or
    /// `synthetic` pictures; can be given several times.
    /// NAME=PATH[,format=jpeg|raw|file][,width=N][,height=N][,pixels=gray|rgb|rgba|yuv420][,rate=N][,loop=no]
    #[arg(long = "source", value_name = "NAME=PATH")]
    sources: Vec<String>,

    /// Also offer a decoder of JPEG, PNG and LZ4 as a device.
    #[arg(long)]
    decode: bool,
}

impl Extra {
    /// The driver of them, if there are any, and the files that they read.
    fn start(&self) -> Result<(Option<Arc<SourcesDriver>>, Vec<PathBuf>), CommandError> {
        let (sources, files) = self.read()?;
        if sources.is_empty() && !self.decode {
            return Ok((None, files));
        }
        let mut options = sources::Options::new();
        for source in sources {
            options = options.source(source);
        }
        if self.decode {
            options = options.decoder();
        }
        Ok((Some(options.start().map_err(CommandError::Node)?), files))
    }

    /// The sources and files of the options.
    fn read(&self) -> Result<(Vec<Source>, Vec<PathBuf>), CommandError> {
        let (mut sources, mut files) = (Vec::new(), Vec::new());
        for text in &self.sources {
            let source: Source = text.parse().map_err(|problem| CommandError::Source {
                text: text.clone(),
                problem,
            })?;
            files.extend(source.path().map(Path::to_owned));
            sources.push(source);
        }
        Ok((sources, files))
    }

    /// The way to start a process that offers the same, with these arguments before those of the
    /// devices.
    #[cfg(target_os = "linux")]
    fn spawn(&self, arguments: &[&str]) -> Result<quipu_node::Spawn, CommandError> {
        let sources = self.sources.iter();
        let sources = sources.flat_map(|source| ["--source", source]);
        let decode = self.decode.then_some("--decode");
        let all = arguments.iter().copied().chain(sources).chain(decode);
        quipu_node::Spawn::own(all).map_err(CommandError::Session)
    }
}

/// The platform of all that is offered.
fn platform(driver: Option<Arc<SourcesDriver>>) -> Platform {
    let mut builder = Platform::builder().without_nodes();
    if let Some(driver) = driver {
        builder = builder.driver(driver);
    }
    builder.build_available()
}

/// The options of the node that serves the devices.
fn serving(devices: &[Device], spin: u64, compression: Compression) -> NodeOptions {
    let natives = quipu_cli::kernels::served()
        .and(quipu_cli::benchmarks::served())
        .and(crate::demo::kernels::served());
    NodeOptions {
        natives: Arc::new(natives),
        spin: Duration::from_micros(spin),
        compression,
        ..NodeOptions::new(devices.iter().map(|device| device.core().clone()).collect())
    }
}

/// Serves one client's session, in the process that `quipu serve` has started for it.
#[cfg(target_os = "linux")]
pub(crate) fn run_session(options: &SessionOptions) -> Result<(), CommandError> {
    let (_, files) = options.extra.read()?;
    let served = quipu_node::serve_session_reading(&files, |_| {
        let (driver, _) = options.extra.start()?;
        let platform = platform(driver);
        let devices = quipu::serve::offered(&platform);
        if devices.len() < options.devices {
            for driver in platform.unavailable() {
                let (driver, reason) = (driver.driver, driver.error.to_string());
                tracing::warn!(driver, reason, "not in a session");
            }
            tracing::warn!(
                found = devices.len(),
                offered = options.devices,
                "a session does not find all devices of the node; `quipu serve --check-sandbox` says why"
            );
        }
        let serving = serving(&devices, options.spin, options.compression);
        Ok::<_, CommandError>(serving)
    });
    match served {
        Ok(never) => match never {},
        Err(error) => Err(CommandError::Session(error)),
    }
}

/// Serves until the process is ended.
pub(crate) fn run(options: &Options) -> Result<(), CommandError> {
    #[cfg(target_os = "linux")]
    if options.check_sandbox {
        return sandbox::check(options);
    }
    let stop = Arc::new(Mutex::new(None::<Box<dyn FnOnce() + Send>>));
    let own = Arc::clone(&stop);
    crate::interrupt::on_interrupt(move || {
        let stop = own.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Clients hear that it was stopped, and need not find out that the node is gone.
        if let Some(stop) = stop {
            stop();
        }
        #[cfg(target_os = "linux")]
        quipu_node::remove_scratch();
    });
    let protection = protection(options, &Home::path()?)?;
    let (driver, _) = options.extra.start()?;
    let home = Home::open()?;
    let served = home.serve()?;
    let name = options
        .name
        .clone()
        .unwrap_or_else(quipu_link::machine_name);
    check_name(&name)?;
    let mut gate = gate_of(&home, &name)?;
    if options.insecure {
        gate = gate.insecure();
    }
    let (bound, listener) = listen(options.address(), "--address")?;
    let metrics = options.metrics.as_deref();
    let metrics = metrics.map(|address| listen(address, "--metrics"));
    let metrics = metrics.transpose()?;
    let advertised = options.advertise.clone();
    let advertised = advertised.unwrap_or_else(|| bound.to_string());
    // As it is then: a machine has other addresses later.
    served.note_address(&advertised)?;
    let advertised = reachable(&advertised);
    let platform = platform(driver);
    let devices = quipu::serve::offered(&platform);
    let serving = node_options(options, &devices)?;
    let count = devices.len();
    let fingerprint = gate.fingerprint();
    // Before the node listens: a failure is reported at once. It says goodbye as it is dropped.
    let _announced = match options.announce {
        true => Some(Announcement::of(&name, fingerprint, bound)?),
        false => None,
    };
    let node = Node::serve(serving, gate, listener).map_err(CommandError::Serve)?;
    *stop.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(node.stop()));
    let mut text = format!(
        "node {name} offers {count} device{} at {advertised}\nits key is {fingerprint}\n{protection}",
        if count == 1 { "" } else { "s" }
    );
    #[cfg(target_os = "linux")]
    if !options.one_process {
        text.push_str(&control_groups(node.why_no_control_groups()));
    }
    text.push_str(&admission(options, &home, &advertised)?);
    if let Some((address, listener)) = metrics {
        text.push_str(&format!("metrics are at http://{address}/metrics\n"));
        crate::metrics::serve(listener, node.status(), node.links(), devices)
            .map_err(CommandError::Serve)?;
    }
    super::print(&text)?;
    node.wait();
    crate::interrupt::give_way();
    Ok(())
}

/// The options of the node, as the command's options say.
fn node_options(options: &Options, devices: &[Device]) -> Result<NodeOptions, CommandError> {
    let mut serving = serving(devices, options.spin, options.compression);
    serving.peers = Peering {
        address: options.peer_address,
        networks: options.peer_networks.clone(),
    };
    serving.limits = options.limits();
    #[cfg(target_os = "linux")]
    if !options.one_process {
        let spin = options.spin.to_string();
        let compression = options.compression.to_string();
        let count = devices.len().to_string();
        let arguments = [
            "session",
            "--devices",
            &count,
            "--spin",
            &spin,
            "--compression",
            &compression,
        ];
        serving.processes = Some(options.extra.spawn(&arguments)?);
        serving.accepts_weak_sandbox = options.accept_weak_sandbox;
    }
    Ok(serving)
}

/// The lines on how clients get in, with an invitation if one is wanted.
fn admission(options: &Options, home: &Home, advertised: &str) -> Result<String, CommandError> {
    let mut text = String::new();
    if options.insecure {
        text.push_str(&format!(
            "INSECURE: whoever reaches it may use this machine's devices and run code on them; \
             a client runs once\nquipu pair --insecure {advertised}\n"
        ));
    }
    if options.invite {
        text.push_str(&format!(
            "within ten minutes, run once where the client is:\nquipu pair {}\n",
            invite(home, advertised, Rights::default())?
        ));
    } else if !options.insecure {
        text.push_str("`quipu invite` prints an invitation for a client\n");
    }
    Ok(text)
}

/// Says whether sessions are in control groups, and why not.
#[cfg(target_os = "linux")]
fn control_groups(why_none: Option<&str>) -> String {
    match why_none {
        None => "control groups: yes\n".to_owned(),
        Some(why) => format!(
            "control groups: no, so what sessions have is limited by a look once a second ({})\n",
            quipu_cli::escape::terminal(why)
        ),
    }
}

/// Describes the sandbox of sessions of a node whose key is in this folder, a line for each fact.
#[cfg(target_os = "linux")]
fn protection(options: &Options, key: &Path) -> Result<String, CommandError> {
    if options.one_process {
        return Ok(UNPROTECTED.to_owned());
    }
    let weaknesses = quipu_node::weaknesses_for(Some(key));
    let serious = weaknesses.iter().filter(|weakness| weakness.is_serious);
    let serious: Vec<&str> = serious.map(|weakness| weakness.what.as_str()).collect();
    if !serious.is_empty() && !options.accept_weak_sandbox {
        return Err(CommandError::WeakSandbox(serious.join("; ")));
    }
    let mut text = "each session has a process of its own, in a sandbox: limits, namespaces, no rights, Landlock, seccomp\n".to_owned();
    for weakness in &weaknesses {
        text.push_str(&format!("WEAK SANDBOX: {}\n", weakness.what));
    }
    Ok(text)
}

/// Elsewhere there is none.
#[cfg(not(target_os = "linux"))]
fn protection(_: &Options, _: &Path) -> Result<String, CommandError> {
    Ok(UNPROTECTED.to_owned())
}

/// The description of no sandbox.
const UNPROTECTED: &str =
    "NO SANDBOX: all sessions are in this process, so their code may do what this user may\n";

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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn an_insecure_node_listens_to_this_machine_alone_unless_it_is_told_otherwise() {
        let elsewhere = ["--address", "10.0.0.1:7"];
        for (arguments, expected) in [
            (&[][..], "0.0.0.0:4760"),
            (&["--insecure"], "127.0.0.1:4760"),
            (&elsewhere, "10.0.0.1:7"),
            (&["--insecure", "--address", "10.0.0.1:7"], "10.0.0.1:7"),
        ] {
            let line = Line::parse_from([&["serve"][..], arguments].concat());
            assert_eq!(line.options.address(), expected, "{arguments:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_key_where_sessions_read_is_a_weakness_that_is_said() {
        let of = |arguments: &[&str], key: &str| {
            let line = Line::parse_from([&["serve"][..], arguments].concat());
            protection(&line.options, Path::new(key))
        };
        let key = "/usr/none/quipu";
        let refused = of(&[], key).unwrap_err().to_string();
        assert!(refused.contains(key), "{refused}");
        let said = of(&["--accept-weak-sandbox"], key).unwrap();
        let line = format!("\nWEAK SANDBOX: the node's key is in {key}");
        assert!(said.contains(&line), "{said}");
        let said = of(&["--accept-weak-sandbox"], "/var/none/quipu").unwrap();
        assert!(!said.contains("the node's key is in"), "{said}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn who_has_no_control_groups_is_told_why() {
        assert_eq!(control_groups(None), "control groups: yes\n");
        let no = control_groups(Some("/sys/fs/cgroup: Read-only file system"));
        assert!(no.starts_with("control groups: no") && no.contains("(/sys/fs/cgroup: Read-only"));
    }
}
