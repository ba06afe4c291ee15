//! `quipu invite`, `rights`, `pair`, `nodes`, `revoke`: the clients of this machine's node, and the
//! nodes of this client.

use super::print;
use crate::error::CommandError;
use quipu::Platform;
use quipu::drivers::remote::paired::{self, CLIENT_KEY};
use quipu_cli::escape;
use quipu_cli::units::{bytes, duration};
use quipu_link::addresses::reachable;
use quipu_link::client::{Dial, Joined, key_at};
use quipu_link::clients::Clients;
use quipu_link::clock::{Clock, SystemClock};
use quipu_link::gate::{Gate, NODE_KEY};
use quipu_link::invitation::Invitations;
use quipu_link::nodes::{Node, Nodes, check_name};
use quipu_link::served::Served;
use quipu_link::{Fingerprint, Folder, Invitation, Key, LinkError, Rights, machine_name};
use quipu_protocol::message::Status;
use quipu_scheduler::said::say;
use std::fmt::Write as _;
use std::io::{self, BufRead, IsTerminal, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The time within which a stranger has to say hello.
const HELLO: Duration = Duration::from_secs(10);

/// The time within which a node has to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// The advice where there is no node.
pub(super) const NO_NODE: &str =
    "no node was paired with; run `quipu serve --invite` on its machine, and here what it prints\n";

/// Quipu's folder.
pub(crate) struct Home(Folder);

impl Home {
    /// The folder's path, whether it is there or not.
    pub(super) fn path() -> Result<PathBuf, CommandError> {
        paired::home().map_err(CommandError::Node)
    }

    /// The folder, made if it is not there.
    pub(crate) fn open() -> Result<Self, CommandError> {
        Ok(Self(Folder::open(Self::path()?)?))
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Folder {
        &self.0
    }

    /// Keeps other processes from serving a node from this folder.
    pub(crate) fn serve(&self) -> Result<Served, CommandError> {
        Ok(self.0.serve()?)
    }
}

/// The gate of this machine's node.
pub(crate) fn gate_of(home: &Home, name: &str) -> Result<Gate, CommandError> {
    Ok(Gate::new(&home.0, name, HELLO, Arc::new(SystemClock))?)
}

/// A new invitation to this machine's node, for a client with these rights.
pub(crate) fn invite(
    home: &Home,
    address: &str,
    rights: Rights,
) -> Result<Invitation, CommandError> {
    let node = Key::of(&home.0, NODE_KEY)?.fingerprint();
    Ok(Invitations::of(&home.0).invite_with(node, address, rights, &SystemClock)?)
}

pub(super) fn shown(text: &str) -> String {
    escape::terminal(text).into_owned()
}

/// The options of `quipu invite`.
#[derive(clap::Args)]
pub(crate) struct InviteOptions {
    /// Address at which clients reach this machine's node, as host:port; several with commas
    /// between them. Without it: the address at which the node serves now.
    #[arg(long)]
    address: Option<String>,

    #[command(flatten)]
    rights: RightsOptions,
}

/// The rights of a client; without them all that the node gives.
#[derive(clap::Args)]
pub(crate) struct RightsOptions {
    /// The devices that the client sees, as `quipu devices` names them: `cuda:0`, or `cuda` for all
    /// of a driver.
    #[arg(long, value_name = "DEVICE,...", value_delimiter = ',')]
    devices: Vec<String>,

    /// The memory in GiB that all sessions of the client have together.
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u64).range(1..1 << 30))]
    memory: Option<u64>,

    /// The number of sessions that the client may have at once.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    sessions: Option<u32>,

    /// The number of cores that each session of the client may keep busy.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    cores: Option<u32>,

    /// The seconds that one kernel of the client may take before its session is ended. On a
    /// processor, the time counts for which one core works on the kernel without a break; on
    /// another device, the kernel's time there.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    run_time: Option<u64>,

    /// The client's sessions never use other nodes.
    #[arg(long)]
    no_peers: bool,
}

impl RightsOptions {
    fn rights(&self) -> Result<Rights, LinkError> {
        let rights = Rights {
            devices: self.devices.clone(),
            memory: self.memory.map(|gigabytes| gigabytes << 30),
            sessions: self.sessions,
            cores: self.cores,
            run_time: self.run_time.map(Duration::from_secs),
            peers: !self.no_peers,
        };
        // As it is read again: so an error is reported now.
        rights.to_string().parse()
    }

    /// The rights that the options say, if each device of them is there.
    fn checked(&self) -> Result<Rights, CommandError> {
        let rights = self.rights()?;
        if !rights.devices.is_empty() {
            check_devices(&rights.devices)?;
        }
        Ok(rights)
    }
}

/// Checks that these name devices of this machine's, or sources. Sources are on the node's own
/// command line.
fn check_devices(named: &[String]) -> Result<(), CommandError> {
    let platform = Platform::builder().without_nodes().build_available();
    let devices = platform.devices().iter();
    let known: Vec<String> = devices.map(quipu::Device::selector).collect();
    let is_known = |name: &str| {
        let is_it = |known: &String| {
            known == name
                || known
                    .split_once(':')
                    .is_some_and(|(driver, _)| driver == name)
        };
        name.split(':').next() == Some("sources") || known.iter().any(is_it)
    };
    match named.iter().find(|name| !is_known(name)) {
        None => Ok(()),
        Some(unknown) => Err(CommandError::NoDevice {
            device: shown(unknown),
            known: known.join(", "),
        }),
    }
}

/// The options of `quipu rights`.
#[derive(clap::Args)]
pub(crate) struct ClientsOptions {
    /// The client, by name or fingerprint, that gets these rights and no others. Without it: all
    /// clients are listed.
    client: Option<String>,

    /// The client gets all rights.
    #[arg(long, requires = "client", conflicts_with_all = ["devices", "memory", "sessions", "cores", "run_time", "no_peers"])]
    all: bool,

    #[command(flatten)]
    rights: RightsOptions,
}

/// Said of a client that is enrolled and has not come since.
const UNCONFIRMED: &str =
    "  (unconfirmed: it is forgotten unless it comes within ten minutes of its invitation)";

/// Lists the clients of this machine's node with their rights, or sets the rights of one.
pub(crate) fn run_rights(options: &ClientsOptions) -> Result<(), CommandError> {
    let home = Home::open()?;
    let clients = Clients::of(&home.0);
    let rights = options.rights.checked()?;
    if let Some(who) = &options.client {
        if rights.are_all() && !options.all {
            return Err(CommandError::NoRights);
        }
        let client = clients.grant(who, rights)?;
        return print(&format!(
            "{}: {}; running sessions that have more end within seconds\n",
            shown(&client.name),
            shown(&client.rights.to_string())
        ));
    }
    if !rights.are_all() {
        return Err(CommandError::NoClient);
    }
    let mut text = String::new();
    for client in clients.present(SystemClock.now())? {
        let (name, rights) = (shown(&client.name), shown(&client.rights.to_string()));
        let unconfirmed = match client.until {
            Some(_) => UNCONFIRMED,
            None => "",
        };
        let _ = writeln!(
            text,
            "{name}  {}  {rights}{unconfirmed}",
            client.fingerprint
        );
    }
    if text.is_empty() {
        text.push_str("nobody was let in; `quipu invite` prints an invitation for a client\n");
    }
    print(&text)
}

/// Prints the line that pairs one client with this machine's node.
pub(crate) fn run_invite(options: &InviteOptions) -> Result<(), CommandError> {
    let home = Home::open()?;
    let address = match &options.address {
        Some(address) => address.clone(),
        None => home.0.served_at()?.ok_or(CommandError::NoAddress)?,
    };
    let address = reachable(&address);
    let rights = options.rights.checked()?;
    print(&format!(
        "quipu pair {}\n",
        invite(&home, &address, rights)?
    ))
}

/// The options of `quipu pair`.
#[derive(clap::Args)]
pub(crate) struct PairOptions {
    /// The line that `quipu invite` has printed on the node's machine. Without it: read from the
    /// terminal or standard input, where no other user of this machine sees it.
    line: Vec<String>,

    /// The address of a node that lets every client in (`quipu serve --insecure`), as host:port;
    /// several with commas between them. Any key that answers there is accepted.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "line")]
    insecure: Option<String>,

    /// The node's name on this machine; without it, the node's own name.
    #[arg(long)]
    name: Option<String>,
}

/// Has this machine's key enrolled at a node, and remembers the node.
pub(crate) fn run_pair(options: &PairOptions) -> Result<(), CommandError> {
    if let Some(name) = &options.name {
        check_name(name)?;
    }
    let home = Home::open()?;
    let key = Key::of(&home.0, CLIENT_KEY)?;
    let (node, joined) = match (&options.insecure, &options.line) {
        (Some(addresses), _) => join_insecurely(addresses, &key)?,
        (None, words) => {
            let invitation = match &words[..] {
                [] => read_invitation()?,
                words => invitation_in(&words.join(" "))?,
            };
            let joined = invitation.take_up(&key, &machine_name(), PATIENCE)?;
            (invitation.node, joined)
        }
    };
    let name = options.name.as_deref().unwrap_or(&joined.name);
    let node = Nodes::of(&home.0).remember(node, &joined.address, name)?;
    if let Some(error) = paired::confirm(&home.0, &node, &key, PATIENCE)? {
        say(shown(&format!(
            "the node was told nothing more; use it within ten minutes: {error}"
        )));
    }
    print(&format!(
        "paired with {} at {}; `quipu devices` lists its devices, and programs use them with QUIPU_NODES={}\n",
        shown(&node.name),
        shown(&node.address),
        shown(&node.name)
    ))
}

/// The invitation in a line that was printed with it, or in its one word.
fn invitation_in(line: &str) -> Result<Invitation, LinkError> {
    let line = line.trim();
    line.strip_prefix("quipu pair").unwrap_or(line).parse()
}

/// Reads lines until one has an invitation, so that all that `quipu serve --invite` prints may
/// come.
fn read_invitation() -> Result<Invitation, CommandError> {
    let stdin = io::stdin();
    let asks = stdin.is_terminal();
    if asks {
        say("the line that `quipu invite` has printed on the node's machine:");
    }
    // No user types more.
    for line in stdin.lock().take(1 << 16).lines() {
        let line = line.map_err(CommandError::NoInvitation)?;
        match invitation_in(&line) {
            Ok(invitation) => return Ok(invitation),
            Err(_) if line.trim().is_empty() => {}
            Err(error) if asks || line.contains("quipu pair") => return Err(error.into()),
            Err(_) => {}
        }
    }
    Err(CommandError::NoInvitation(
        io::ErrorKind::UnexpectedEof.into(),
    ))
}

/// Finds a node that lets every client in, and takes the key of the side that answers for the
/// node's.
fn join_insecurely(addresses: &str, key: &Key) -> Result<(Fingerprint, Joined), CommandError> {
    let (node, address) = key_at(addresses, key, PATIENCE)?;
    let dial = Dial {
        address: &address,
        node,
        key,
        name: "quipu pair",
        patience: PATIENCE,
    };
    // A node that does not let us in is not remembered.
    let link = dial.ask()?;
    let name = link.name().to_owned();
    link.close();
    say(format_args!(
        "INSECURE: whoever answers at {} has the key {node}, and is from now on taken for the node; nothing has proved that it is",
        shown(&address)
    ));
    Ok((node, Joined { name, address }))
}

/// The options of `quipu nodes`.
#[derive(clap::Args)]
pub(crate) struct NodesOptions {
    /// Forget the node of this name, address or fingerprint.
    #[arg(long, value_name = "NODE")]
    forget: Option<String>,

    /// List the nodes that announce themselves on the local network (`quipu serve --announce`),
    /// paired or not.
    #[arg(long, conflicts_with = "forget")]
    discover: bool,
}

/// Lists the nodes that were paired with, and how they are.
pub(crate) fn run_nodes(options: &NodesOptions) -> Result<(), CommandError> {
    let home = Home::open()?;
    let nodes = Nodes::of(&home.0);
    if let Some(which) = &options.forget {
        let node = nodes.forget(which)?;
        return print(&format!("forgot {}\n", shown(&node.name)));
    }
    let all = nodes.list()?;
    if options.discover {
        return discover(&home.0, &all);
    }
    if all.is_empty() {
        return print(NO_NODE);
    }
    let key = Key::of(&home.0, CLIENT_KEY)?;
    let mut text = String::new();
    let mut missing = 0;
    for node in &all {
        let mut moved = None;
        let asked = ask(node, &key).or_else(|error| {
            moved = paired::find_again(&home.0, &key, node);
            moved.as_ref().map_or(Err(error), |node| ask(node, &key))
        });
        let node = moved.as_ref().unwrap_or(node);
        let how = match asked {
            Ok(how) => how,
            Err(error) => {
                missing += 1;
                shown(&error.to_string().replace('\n', " "))
            }
        };
        let _ = writeln!(
            text,
            "{}  {}  {how}",
            shown(&node.name),
            shown(&node.address)
        );
    }
    print(&text)?;
    match missing {
        0 => Ok(()),
        missing => Err(CommandError::NodesMissing {
            missing,
            all: all.len(),
        }),
    }
}

/// The time that nodes on the local network have to announce themselves.
const LISTEN: Duration = Duration::from_secs(3);

/// Lists the nodes that are heard on the local network, and notes the present addresses of paired
/// ones.
fn discover(folder: &Folder, known: &[Node]) -> Result<(), CommandError> {
    let heard = quipu_discovery::look(LISTEN, |_| false)?;
    if heard.is_empty() {
        return print(
            "no node says on the local network that it is there; `quipu serve --announce` does, on its machine\n",
        );
    }
    let key = Key::of(folder, CLIENT_KEY)?;
    let mut text = String::new();
    for heard in &heard {
        let node = known.iter().find(|node| node.fingerprint == heard.node);
        let paired = match node {
            None => "not paired; `quipu invite` on its machine prints what `quipu pair` takes here"
                .to_owned(),
            Some(node) if heard.addresses.contains(&node.address) => {
                format!("paired as {}", shown(&node.name))
            }
            Some(node) => match paired::moved(folder, &key, node, heard) {
                Some(moved) => format!(
                    "paired as {}, was at {}, is now at {}",
                    shown(&node.name),
                    shown(&node.address),
                    shown(&moved.address)
                ),
                // Its address may be a name of the same machine.
                None => format!(
                    "paired as {}, at {}",
                    shown(&node.name),
                    shown(&node.address)
                ),
            },
        };
        let addresses = heard.addresses.join(" ");
        let _ = writeln!(
            text,
            "{}  {addresses}  {}  {paired}",
            shown(&heard.name),
            heard.node
        );
    }
    print(&text)
}

/// A node's status, in a line.
fn ask(node: &Node, key: &Key) -> Result<String, LinkError> {
    let dial = Dial {
        address: &node.address,
        node: node.fingerprint,
        key,
        name: "quipu nodes",
        patience: PATIENCE,
    };
    let mut link = dial.ask()?;
    let ping = link.ping()?;
    let status = link.status()?;
    let devices = link.devices().len();
    link.close();
    let mut how = format!(
        "{} away, {devices} devices, {} sessions, load {:.2} of {} cores",
        duration(u64::try_from(ping.round_trip.as_nanos()).unwrap_or(u64::MAX)),
        status.sessions,
        f64::from(status.load_thousandths) / 1000.0,
        status.cores
    );
    if let Some(sent) = sent_in_bulk(&status) {
        let _ = write!(how, ", {sent}");
    }
    Ok(how)
}

/// The effect of compression on the bytes that a node has sent to its clients' sessions, if it has
/// sent any.
pub(super) fn sent_in_bulk(status: &Status) -> Option<String> {
    (status.bulk_bytes > 0).then(|| {
        format!(
            "sent in bulk: {} as {}, {:.0} %",
            bytes(status.bulk_bytes),
            bytes(status.bulk_sent),
            status.bulk_sent as f64 * 100.0 / status.bulk_bytes as f64
        )
    })
}

/// The options of `quipu revoke`.
#[derive(clap::Args)]
pub(crate) struct RevokeOptions {
    /// The client, by name or fingerprint, that is let in no more. Without it: all clients are
    /// listed.
    client: Option<String>,
}

/// Takes back that a client may come in.
pub(crate) fn run_revoke(options: &RevokeOptions) -> Result<(), CommandError> {
    let home = Home::open()?;
    let clients = Clients::of(&home.0);
    if let Some(who) = &options.client {
        let client = clients.revoke(who)?;
        return print(&format!(
            "{} is not let in any more; what it has running here ends within seconds\n",
            shown(&client.name)
        ));
    }
    let mut text = String::new();
    for client in clients.list()? {
        let _ = writeln!(text, "{}  {}", shown(&client.name), client.fingerprint);
    }
    if text.is_empty() {
        text.push_str("no client may come in; `quipu invite` lets one in\n");
    }
    print(&text)
}
