//! The nodes that were paired with: which there are, and connecting to them by name.

use crate::{Compression, Met, Options, RemoteDriver, meet_for, together};
#[cfg(feature = "discovery")]
use quipu_discovery::Heard;
use quipu_environment::{COMPRESSION, HOME, NODES, SPIN};
use quipu_link::client::Dial;
use quipu_link::nodes::{Node, Nodes};
use quipu_link::{Folder, Invitation, Key, LinkError, machine_name};
use quipu_scheduler::panics::quietly;
use quipu_scheduler::{Error, ErrorKind, Result};
use quipu_threads::{LeaveUnparked, Start};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The file of a client's key.
pub const CLIENT_KEY: &str = "client.key";

/// The longest that receivers may look before they sleep, in microseconds: a second.
const MOST_SPIN: u64 = 1_000_000;

/// The time within which a node has to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time for which the local network is listened to for a node that is not at its old address.
#[cfg(feature = "discovery")]
const LOOK: Duration = Duration::from_secs(2);

fn failed(problem: String) -> Error {
    ErrorKind::InvalidArgument {
        what: "find nodes",
        problem,
    }
    .into()
}

/// The folder of Quipu's keys and lists: `QUIPU_HOME`, or `quipu` in the user's folder for
/// configuration.
///
/// # Errors
/// If the environment names no such folder.
pub fn home() -> Result<PathBuf> {
    if let Some(home) = HOME.get()? {
        return Ok(home);
    }
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(configuration) = named("XDG_CONFIG_HOME") {
        return Ok(PathBuf::from(configuration).join("quipu"));
    }
    let home = named("HOME").ok_or_else(|| {
        failed(format!(
            "the environment names no home; set {} to a folder for keys",
            HOME.name()
        ))
    })?;
    Ok(PathBuf::from(home).join(".config").join("quipu"))
}

/// All nodes that were paired with, if any were.
///
/// # Errors
/// If the list cannot be read.
pub fn all() -> Result<Vec<Node>> {
    let home = home()?;
    if !home.exists() {
        return Ok(Vec::new());
    }
    let folder = Folder::open(home).map_err(|error| failed(error.to_string()))?;
    let listed = Nodes::of(&folder).list();
    listed.map_err(|error| failed(error.to_string()))
}

/// True if the environment (`QUIPU_NODES`) or the file `config` in [Quipu's folder](home) chooses
/// nodes, also if it chooses none.
///
/// # Errors
/// If the file makes no sense.
pub fn are_chosen() -> Result<bool> {
    Ok(NODES.get()?.is_some() || configured()?.nodes.is_some())
}

/// The nodes that the environment (`QUIPU_NODES`) or else the file `config` in [Quipu's
/// folder](home) asks for (a line `nodes = a, b`): names or addresses, or `all`; and whether it was
/// all. None if neither says anything.
///
/// # Errors
/// If one was not paired with, or the file makes no sense.
pub fn asked_for() -> Result<(Vec<Node>, bool)> {
    let environment = NODES.get()?;
    let names = said(environment.clone(), || Ok(configured()?.nodes))?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let are_all = names == ["all"];
    let found = if are_all { all() } else { find(&names) };
    let nodes: Result<Vec<Node>> = match environment {
        Some(said) => found.map_err(|error| NODES.refuse(said, error.to_string()).into()),
        None => found,
    };
    Ok((nodes?, are_all))
}

/// The names that the environment says, also if it says none, or else the file.
fn said(
    environment: Option<String>,
    file: impl FnOnce() -> Result<Option<String>>,
) -> Result<Vec<String>> {
    let said = environment.map_or_else(file, |said| Ok(Some(said)))?;
    let said = said.unwrap_or_default();
    let names = said.split(',').map(str::trim);
    let names = names.filter(|name| !name.is_empty());
    Ok(names.map(str::to_owned).collect())
}

/// Nodes that were paired with, by names or addresses.
///
/// # Errors
/// If one was not.
pub fn find(names: &[&str]) -> Result<Vec<Node>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let known = all()?;
    let find = |name: &&str| {
        let mut nodes = known.iter();
        let found = nodes.find(|node| node.name == **name || node.address == **name);
        found.cloned().ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|node| node.name.as_str()).collect();
            let known = match &names[..] {
                [] => "none was yet".to_owned(),
                names => format!("there are: {}", names.join(", ")),
            };
            failed(format!(
                "no node '{name}' was paired with; {known}; `quipu pair` adds one"
            ))
        })
    };
    names.iter().map(find).collect()
}

/// The choice of bytes to nodes that are compressed, as the environment (`QUIPU_COMPRESSION`) or
/// else the file `config` says (a line `compression = zstd`); if neither does, those that take less
/// time so.
///
/// # Errors
/// If it says none of `auto`, `adaptive`, `lz4`, `zstd` and `off`, or the file makes no sense.
pub fn compression() -> Result<Compression> {
    let Some(said) = COMPRESSION.get()? else {
        return Ok(configured()?.compression.unwrap_or_default());
    };
    said.parse()
        .map_err(|problem| COMPRESSION.refuse(said, problem).into())
}

/// The time for which receivers of ends look again and again before they sleep, as the environment
/// (`QUIPU_SPIN`, in microseconds) or else the file `config` says (a line `spin = 20`); not at all
/// if neither does.
///
/// # Errors
/// If it says no number up to a million, or the file makes no sense.
pub fn spin() -> Result<Duration> {
    match SPIN.get()? {
        Some(said) => Ok(said),
        None => Ok(configured()?.spin.unwrap_or_default()),
    }
}

fn microseconds(text: &str) -> Option<Duration> {
    let number: u64 = text.parse().ok()?;
    (number <= MOST_SPIN).then(|| Duration::from_micros(number))
}

/// The file's settings, if there is one.
fn configured() -> Result<Configuration> {
    let Ok(home) = home() else {
        return Ok(Configuration::default());
    };
    let path = home.join("config");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Configuration::default());
        }
        Err(error) => return Err(failed(format!("cannot read {}: {error}", path.display()))),
    };
    parse(&text).map_err(|line| {
        failed(format!(
            "{} has a line {line} that makes no sense; write `nodes = a, b` or `nodes = all`, \
             `compression = auto`, `adaptive`, `lz4`, `zstd` or `off`, `spin = MICROSECONDS`",
            path.display()
        ))
    })
}

/// The settings of a configuration.
#[derive(Debug, Default, PartialEq, Eq)]
struct Configuration {
    nodes: Option<String>,
    compression: Option<Compression>,
    spin: Option<Duration>,
}

/// The settings of a configuration; the number of the first line that is none.
fn parse(text: &str) -> std::result::Result<Configuration, usize> {
    let mut said = Configuration::default();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        match line.split_once('=') {
            _ if line.is_empty() => {}
            Some((name, value)) => match name.trim() {
                "nodes" => said.nodes = Some(value.trim().to_owned()),
                "compression" => {
                    said.compression = Some(value.trim().parse().map_err(|_| at + 1)?);
                }
                "spin" => said.spin = Some(microseconds(value.trim()).ok_or(at + 1)?),
                _ => return Err(at + 1),
            },
            None => return Err(at + 1),
        }
    }
    Ok(said)
}

/// Has the key of a folder enrolled at a node, by a line that the node has given out, and remembers
/// the node there, by the name that it has and at that of its addresses where it was found. The
/// folder is made if it is not there; [`home`]'s is that of `quipu pair`. The node may take
/// `patience` to answer.
///
/// # Errors
/// If the line is none, or not good any more; if the node cannot be reached or is another one; if
/// the node has taken the enrolment back already, and then the folder does not keep the node; if
/// the folder is not its owner's alone.
pub fn pair(folder: &Path, line: &str, patience: Duration) -> Result<Node> {
    let enrol = || {
        let invitation: Invitation = line.parse()?;
        let folder = Folder::open(folder)?;
        let key = Key::of(&folder, CLIENT_KEY)?;
        let joined = invitation.take_up(&key, &machine_name(), patience)?;
        let node = Nodes::of(&folder).remember(invitation.node, &joined.address, &joined.name)?;
        if let Some(error) = confirm(&folder, &node, &key, patience)? {
            quietly(|| tracing::warn!(%error, "a pairing is not confirmed yet"));
        }
        Ok(node)
    };
    enrol().map_err(|error: LinkError| {
        ErrorKind::InvalidArgument {
            what: "pair with a node",
            problem: error.to_string(),
        }
        .into()
    })
}

/// Says hello to a node that was just paired with, which forgets a client that never comes. The
/// error is that for which the node was not told: a program has to come within ten minutes.
///
/// # Errors
/// If the node knows nothing of the enrolment. Then the folder does not keep the node.
pub fn confirm(
    folder: &Folder,
    node: &Node,
    key: &Key,
    patience: Duration,
) -> std::result::Result<Option<LinkError>, LinkError> {
    let dial = Dial {
        address: &node.address,
        node: node.fingerprint,
        key,
        name: "pairing",
        patience,
    };
    match dial.ask() {
        Ok(link) => {
            link.close();
            Ok(None)
        }
        Err(error) if error.is_not_enrolled() => {
            Nodes::of(folder).forget(&node.fingerprint.to_string())?;
            Err(error)
        }
        Err(error) => Ok(Some(error)),
    }
}

/// Connects to nodes that were paired with, to be used [together]: the driver of those that are
/// there, if one is; and why others are not. One that is not where it was is looked for on the
/// local network by its key, where the feature `discovery` is on.
#[must_use]
pub fn connect_to(nodes: &[Node]) -> (Option<Result<Arc<RemoteDriver>>>, Vec<Error>) {
    let (mut met, mut errors) = (Vec::new(), Vec::new());
    let alone = nodes.len() == 1;
    let meet = |node: &Node| home().and_then(|home| meet_from(&home, node, PATIENCE, alone));
    for one in at_once(nodes, meet) {
        match one {
            Ok(one) => met.push(one),
            Err(error) => errors.push(error),
        }
    }
    let driver = (!met.is_empty()).then(|| together(met));
    (driver, errors)
}

/// Connects to a node that was paired with, with the key of a folder. The node may take `patience`
/// to answer. One that is not where it was is looked for, as [`connect_to`] does.
///
/// # Errors
/// As [`connect`](crate::connect).
pub fn connect_from(folder: &Path, node: &Node, patience: Duration) -> Result<Arc<RemoteDriver>> {
    together(vec![meet_from(folder, node, patience, true)?])
}

/// Connects to all of these nodes, which were paired with, with the key of a folder, to be
/// used [together]: the driver of their devices, in the order of the nodes. Each may take
/// `patience` to answer, and is looked for as [`connect_to`] does.
///
/// # Errors
/// As [`together`], if any of them is not there.
pub fn connect_together(
    folder: &Path,
    nodes: &[Node],
    patience: Duration,
) -> Result<Arc<RemoteDriver>> {
    let alone = nodes.len() == 1;
    let met = at_once(nodes, |node| meet_from(folder, node, patience, alone)).into_iter();
    together(met.collect::<Result<Vec<Met>>>()?)
}

/// Meets all of these at the same time: several that are far away take no longer than one.
fn at_once(nodes: &[Node], meet: impl Fn(&Node) -> Result<Met> + Sync) -> Vec<Result<Met>> {
    let Some((first, others)) = nodes.split_first() else {
        return Vec::new();
    };
    let meet = &meet;
    let _unparked = LeaveUnparked::new();
    std::thread::scope(|scope| {
        let begin = |node| {
            let thread = std::thread::Builder::new().name("quipu-meet".to_owned());
            (node, thread.start_scoped(scope, move || meet(node)))
        };
        let others: Vec<_> = others.iter().map(begin).collect();
        let mut met = vec![meet(first)];
        met.extend(others.into_iter().map(|(node, thread)| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            // The system gives no thread.
            Err(_) => meet(node),
        }));
        met
    })
}

/// Connects to a node that is used alone, or with others.
fn meet_from(folder: &Path, node: &Node, patience: Duration, alone: bool) -> Result<Met> {
    let _unparked = LeaveUnparked::new();
    let folder = Folder::open(folder).map_err(|error| failed(error.to_string()))?;
    let key = Key::of(&folder, CLIENT_KEY).map_err(|error| failed(error.to_string()))?;
    let (compression, spin) = (compression()?, spin()?);
    let meeting = |node: &Node| {
        let options = Options {
            patience,
            compression,
            spin,
            ..Options::new(&node.name, &node.address, node.fingerprint)
        };
        meet_for(&options, &key, alone)
    };
    let met = meeting(node);
    #[cfg(feature = "discovery")]
    if met.is_err()
        && let Some(moved) = find_again(&folder, &key, node)
    {
        return meeting(&moved);
    }
    met
}

/// Asks the local network for a node that does not answer at its old address, and remembers its new
/// one. The network's answer is believed when the node has proved there that it has its key.
#[cfg(feature = "discovery")]
pub fn find_again(folder: &Folder, key: &Key, node: &Node) -> Option<Node> {
    let is_it = |heard: &Heard| heard.node == node.fingerprint;
    let heard = match quipu_discovery::look(LOOK, is_it) {
        Ok(heard) => heard.into_iter().find(is_it)?,
        Err(error) => {
            quietly(|| tracing::debug!(%error, "nobody was looked for"));
            return None;
        }
    };
    moved(folder, key, node, &heard)
}

/// Addresses of an announcement that are tried: everybody on the network may announce any number.
#[cfg(feature = "discovery")]
const MOST_TRIED: usize = 16;

/// The address of a node by the announcements of its key, if it answers there, and the address is
/// new. The likeliest are tried, all at the same time: one that says nothing takes no longer than
/// another.
#[cfg(feature = "discovery")]
pub fn moved(folder: &Folder, key: &Key, node: &Node, heard: &Heard) -> Option<Node> {
    let others = heard.addresses.iter();
    let others = others.filter(|address| **address != node.address);
    let (answers, first) = std::sync::mpsc::channel();
    for address in others.take(MOST_TRIED).cloned() {
        let (answers, key, node) = (answers.clone(), key.clone(), node.fingerprint);
        // Each ends by itself when the patience is over.
        let ask = move || {
            let dial = Dial {
                address: &address,
                node,
                key: &key,
                name: "quipu",
                patience: PATIENCE,
            };
            match dial.ask() {
                Ok(asked) => {
                    asked.close();
                    // Another may have answered before.
                    let _ = answers.send(address);
                }
                Err(error) => {
                    quietly(|| tracing::debug!(%error, "a node is not where it is said to be"));
                }
            }
        };
        let thread = std::thread::Builder::new().name("quipu-dial".to_owned());
        if let Err(error) = thread.start(ask) {
            quietly(|| tracing::debug!(%error, "an address is not tried"));
        }
    }
    drop(answers);
    let _unparked = LeaveUnparked::new();
    let address = first.recv().ok()?;
    let moved = Nodes::of(folder).has_moved(node.fingerprint, &address);
    quietly(|| tracing::info!(node = node.name, address, "the node has moved"));
    // It may be forgotten meanwhile, or the folder be full: it is there all the same.
    Some(moved.unwrap_or_else(|_| Node {
        address,
        ..node.clone()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "discovery")]
    #[test]
    fn few_addresses_of_an_announcement_are_tried_and_all_at_once() {
        use std::io::Read;
        use std::net::{Ipv4Addr, TcpListener};
        // All addresses of loopback are this machine's.
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let of = |number: u32| Ipv4Addr::from_bits(Ipv4Addr::new(127, 0, 1, 0).to_bits() + number);
        let folder = tempfile::tempdir().unwrap();
        let folder = Folder::open(folder.path().join("client")).unwrap();
        let key = Key::passing().unwrap();
        let node = Node {
            name: "node".to_owned(),
            address: format!("{}:{port}", of(0)),
            fingerprint: key.fingerprint(),
        };
        let heard = Heard {
            node: node.fingerprint,
            name: node.name.clone(),
            addresses: (0..500)
                .map(|number| format!("{}:{port}", of(number)))
                .collect(),
        };
        let counting = std::thread::spawn(move || {
            // None is answered before all have come, and nobody has gone then.
            let come = (0..MOST_TRIED).map(|_| listener.accept().unwrap().0);
            for mut one in come.collect::<Vec<_>>() {
                one.set_nonblocking(true).unwrap();
                let is_more = |read: &std::io::Result<usize>| matches!(read, Ok(1..));
                let mut reads = std::iter::repeat_with(|| one.read(&mut [0; 1 << 14]));
                let end = reads.find(|read| !is_more(read)).unwrap();
                assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
            }
            listener
        });
        assert_eq!(moved(&folder, &key, &node, &heard), None);
        // No other has come.
        let listener = counting.join().unwrap();
        listener.set_nonblocking(true).unwrap();
        let error = listener.accept().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    }

    #[test]
    fn an_enrolment_that_is_taken_back_at_once_is_no_pairing() {
        use quipu_link::clients::Clients;
        use quipu_link::clock::SystemClock;
        use quipu_link::gate::{Arrival, Gate};
        use quipu_link::invitation::Invitations;
        use std::net::TcpListener;
        let parent = tempfile::tempdir().unwrap();
        let served = Folder::open(parent.path().join("node")).unwrap();
        let gate = Gate::new(&served, "node", PATIENCE, Arc::new(SystemClock)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let invitations = Invitations::of(&served);
        let invitation = invitations.invite(gate.fingerprint(), &address, &SystemClock);
        let line = invitation.unwrap().to_string();
        let clients = Clients::of(&served);
        let own = parent.path().join("client");
        let paired = std::thread::scope(|scope| {
            let pairing = scope.spawn(|| pair(&own, &line, PATIENCE));
            let enrolled = gate.admit(listener.accept().unwrap().0).unwrap();
            assert!(matches!(enrolled, Arrival::Enrolled(_)));
            clients.revoke(&clients.list().unwrap()[0].name).unwrap();
            gate.admit(listener.accept().unwrap().0).unwrap_err();
            pairing.join().unwrap()
        });
        let error = paired.unwrap_err().to_string();
        assert!(error.contains("is not enrolled here"), "{error}");
        assert!(error.contains("run `quipu invite` there"), "{error}");
        assert!(clients.list().unwrap().is_empty());
        let own = Folder::open(own).unwrap();
        assert_eq!(Nodes::of(&own).list().unwrap(), []);
    }

    #[test]
    fn the_environment_counts_before_the_file_also_if_it_names_none() {
        let file = || Ok(Some("a, b".to_owned()));
        let said = |environment: Option<&str>| said(environment.map(str::to_owned), file);
        assert_eq!(said(None).ok(), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(said(Some("c,")).ok(), Some(vec!["c".to_owned()]));
        assert_eq!(said(Some("")).ok(), Some(Vec::new()));
        let broken = || Err(failed("it makes no sense".to_owned()));
        assert!(super::said(None, broken).is_err());
        assert!(super::said(Some(String::new()), broken).is_ok());
    }

    #[test]
    fn a_configuration_says_what_it_may_and_nothing_else() {
        assert_eq!(parse(""), Ok(Configuration::default()));
        let nodes = Configuration {
            nodes: Some("a, b".to_owned()),
            ..Configuration::default()
        };
        assert_eq!(parse("# nothing\n\n nodes = a, b # two\n"), Ok(nodes));
        let all = Configuration {
            nodes: Some("all".to_owned()),
            compression: Some(Compression::Zstd),
            spin: Some(Duration::from_micros(20)),
        };
        assert_eq!(parse("compression=zstd\nnodes = all\nspin = 20"), Ok(all));
        assert_eq!(parse("compression = gzip"), Err(1));
        for spin in ["", "-1", "20us", "1000001"] {
            assert_eq!(parse(&format!("spin = {spin}")), Err(1), "{spin}");
        }
        assert_eq!(parse("nodes = all\nnode = x"), Err(2));
        assert_eq!(parse("nodes"), Err(1));
    }
}
