//! Sessions in processes of their own (Linux): a client's kernel can harm its own process alone.
//!
//! 1. A client says hello to the node, which starts a process for the session: the node's own
//!    program, as [`Spawn`] says, which comes to [`serve_session`]. The process makes a key, which
//!    never leaves it, and tells its fingerprint.
//! 2. The node tells the client where its session is, and by which key it is known: since it says
//!    so on a connection on which it has proved its own key, it vouches for the other. It needs to
//!    sign nothing, and the session's process can pretend to be nobody but itself.
//! 3. Connections for the session begin with its name, in the clear. The node hands each over as it
//!    is, by that name, before a byte of TLS is read: it is the session's process that finds out
//!    whether it is the session's client. No byte of a session passes through the node's process.
//! 4. The process ends with its session. The session ends with its process, however that ends. Both
//!    end with the node. Programs that the process has started, such as compilers, end with it:
//!    another of the session's processes sees to that, its keeper.
//!
//! | file | contents |
//! |---|---|
//! | here | the two sides' common words |
//! | `parent` | the node's side |
//! | `child` | the session's side |
//! | `loads` | the load of devices, from the session's side to the node's |
//! | `dials` | connections to other nodes, which the node makes for a session |
//! | `channel` | packets between them, with connections |
//! | `keeper` | the session's first process, with which all others end |
//! | `sandbox` | the sandbox of the session's side |
//! | `namespaces` | users, networks and memory that it does not share with others |
//! | `scratch` | the folders that its compilers write to |
//! | `output` | the standard error of its processes, passed on to the node's |
//! | `groups` | resources of all processes together, limited by the kernel |
//! | `usage` | resources of all processes together, looked at from outside |
//! | `trial` | the search for the part of the sandbox that hides something |

mod channel;
mod child;
mod dials;
mod groups;
mod keeper;
mod loads;
mod namespaces;
mod output;
mod parent;
mod sandbox;
mod scratch;
mod trial;
mod usage;

pub(crate) use child::end;
pub use child::{serve_session, serve_session_reading};
pub(crate) use dials::Dials;
pub(crate) use parent::Processes;
pub use sandbox::{Restriction, Weakness, weaknesses, weaknesses_for};
pub use scratch::remove_scratch;
pub use trial::{Trial, enter_trial, trials};

use crate::limits::Limits;
use quipu_environment::{CACHE, HOME, NODES, TRACE};
use quipu_link::Fingerprint;
use quipu_link::clients::Client;
use quipu_protocol::message::{GoodbyeReason, SessionId};
use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The way to start a session's process.
#[derive(Clone, Debug)]
pub struct Spawn {
    /// The program: one that calls [`serve_session`] when it is started so, with its standard input
    /// as it finds it.
    pub program: PathBuf,
    /// The arguments that it is started with.
    pub arguments: Vec<OsString>,
    /// Variables that are not as the node's are; none for those that are not to be there.
    pub environment: Vec<(OsString, Option<OsString>)>,
}

/// Variables of the node's process that its sessions do not have: where its keys are and what it
/// has compiled, its trace's file, other nodes.
const OF_THE_NODE: [&str; 4] = [HOME.name(), CACHE.name(), TRACE.name(), NODES.name()];

impl Spawn {
    /// This program, with these arguments, and without the variables that are for the node's
    /// process alone.
    ///
    /// # Errors
    /// If the system does not say which program this is.
    pub fn own(arguments: impl IntoIterator<Item = impl Into<OsString>>) -> std::io::Result<Self> {
        Ok(Self {
            program: std::env::current_exe()?,
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: OF_THE_NODE.map(|name| (name.into(), None)).into(),
        })
    }
}

/// The message to a session's process as it starts.
#[derive(Debug, PartialEq, Eq)]
struct Start {
    session: SessionId,
    client: Client,
    node_name: String,
    /// The longest time until a connection has said hello, and until the first one comes.
    patience: Duration,
    scratch: PathBuf,
    /// The folder of the node's key, if it is in one.
    hidden: Option<PathBuf>,
    limits: Limits,
    /// It serves also where the kernel has too little of a sandbox.
    accepts_weak_sandbox: bool,
    /// The address at which other nodes find it, if not where its client has; none if it has no
    /// dealings with other nodes.
    peers: Option<Option<SocketAddr>>,
}

/// Node to process: the session that it serves.
const START: u8 = b'I';
/// Node to process: a connection comes with it.
const CONNECTION: u8 = b'C';
/// Node to process: the session ends, for this reason.
const END: u8 = b'E';
/// Process to node: a connection is to be made.
const DIAL: u8 = b'D';
/// Node to process: it comes with this, or there is none.
const DIALLED: u8 = b'A';
/// Process to node: it serves, with this key.
const READY: u8 = b'R';
/// Process to node: its [totals](crate::totals::Totals), if they have changed.
const COUNTS: u8 = b'S';

/// Process to node: the session ends by a limit, which the text says.
const OVER: u8 = b'O';

/// Node to process: a question for the load of the devices, with its number.
const ASK: u8 = b'Q';
/// Process to node: the load of one of them.
const LOAD: u8 = b'L';
/// Process to node: some of the session's links.
const LINKS: u8 = b'N';
/// Process to node: the answer to the question with this number was that.
const ANSWERED: u8 = b'F';

impl Start {
    fn encode(&self) -> Vec<u8> {
        let mut packet = vec![START];
        packet.extend_from_slice(&self.session.0);
        packet.extend_from_slice(&self.client.fingerprint.bytes());
        for number in self.limits.numbers() {
            packet.extend_from_slice(&number.to_le_bytes());
        }
        let patience = u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX);
        packet.extend_from_slice(&patience.to_le_bytes());
        packet.push(u8::from(self.accepts_weak_sandbox));
        packet.push(match self.peers {
            None => 0,
            Some(None) => 1,
            Some(Some(_)) => 2,
        });
        let own = self.peers.flatten();
        packet.extend(own.map_or([0; 18], dials::encode_address));
        let scratch = self.scratch.as_os_str().as_encoded_bytes();
        let hidden = self.hidden.as_deref().map(Path::as_os_str);
        let hidden = hidden.map_or(&[][..], OsStr::as_encoded_bytes);
        let rights = self.client.rights.to_string();
        for text in [
            self.client.name.as_bytes(),
            rights.as_bytes(),
            self.node_name.as_bytes(),
            scratch,
            hidden,
        ] {
            packet.extend_from_slice(&(text.len() as u64).to_le_bytes());
            packet.extend_from_slice(text);
        }
        packet
    }

    fn decode(packet: &[u8]) -> Option<Self> {
        let mut rest = packet.strip_prefix(&[START])?;
        let session = SessionId(*rest.split_first_chunk::<16>()?.0);
        let client = *rest.get(16..)?.split_first_chunk::<32>()?.0;
        rest = &rest[48..];
        let number = |rest: &mut &[u8]| {
            let (number, after) = rest.split_first_chunk::<8>()?;
            *rest = after;
            Some(u64::from_le_bytes(*number))
        };
        let mut numbers = [0; Limits::NUMBERS];
        for each in &mut numbers {
            *each = number(&mut rest)?;
        }
        let patience = Duration::from_millis(number(&mut rest)?);
        let (accepts_weak, after) = rest.split_first()?;
        let (kind, after) = after.split_first()?;
        let (own, after) = after.split_first_chunk::<18>()?;
        rest = after;
        let peers = match kind {
            0 => None,
            1 => Some(None),
            _ => Some(Some(dials::decode_address(own))),
        };
        let text = |rest: &mut &[u8]| {
            let length = usize::try_from(number(rest)?).ok()?;
            let (text, after) = rest.split_at_checked(length)?;
            *rest = after;
            Some(text.to_vec())
        };
        let words = |rest: &mut &[u8]| String::from_utf8(text(rest)?).ok();
        let path = |rest: &mut &[u8]| Some(PathBuf::from(OsString::from_vec(text(rest)?)));
        let (client_name, rights) = (words(&mut rest)?, words(&mut rest)?);
        let node_name = words(&mut rest)?;
        let (scratch, hidden) = (path(&mut rest)?, path(&mut rest)?);
        Some(Self {
            session,
            client: Client {
                fingerprint: Fingerprint::of_bytes(client),
                name: client_name,
                since: Duration::ZERO,
                rights: rights.parse().ok()?,
                until: None,
            },
            node_name,
            patience,
            scratch,
            hidden: Some(hidden).filter(|hidden| !hidden.as_os_str().is_empty()),
            limits: Limits::of_numbers(numbers),
            accepts_weak_sandbox: *accepts_weak != 0,
            peers,
        })
    }
}

/// That a session ends, and why.
fn encode_end(reason: GoodbyeReason, text: &str) -> Vec<u8> {
    let mut packet = vec![
        END,
        match reason {
            GoodbyeReason::Revoked => 1,
            GoodbyeReason::Limit => 2,
            _ => 0,
        },
    ];
    packet.extend(text.bytes().take(1000));
    packet
}

fn decode_end(packet: &[u8]) -> Option<(GoodbyeReason, String)> {
    let [END, reason, text @ ..] = packet else {
        return None;
    };
    let reason = match reason {
        1 => GoodbyeReason::Revoked,
        2 => GoodbyeReason::Limit,
        _ => GoodbyeReason::ShuttingDown,
    };
    Some((reason, String::from_utf8_lossy(text).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_comes_as_it_was() {
        let start = Start {
            session: SessionId([3; 16]),
            client: Client {
                fingerprint: Fingerprint::of_bytes([7; 32]),
                name: "laptop".to_owned(),
                since: Duration::ZERO,
                rights: "devices=cuda:1 cores=3".parse().unwrap(),
                until: None,
            },
            node_name: "lab".to_owned(),
            patience: Duration::from_millis(1500),
            scratch: PathBuf::from("/tmp/somewhere"),
            hidden: Some(PathBuf::from("/home/keys")),
            limits: Limits {
                commands: 77,
                process_bytes: 1 << 33,
                run_time: Duration::from_millis(5),
                ..Limits::default()
            },
            accepts_weak_sandbox: true,
            peers: Some(Some("10.1.2.3:4761".parse().unwrap())),
        };
        let packet = start.encode();
        assert!(packet.len() < channel::LONGEST);
        assert_eq!(Start::decode(&packet).unwrap(), start);
        for length in 0..packet.len() {
            assert!(Start::decode(&packet[..length]).is_none());
        }
        let end = encode_end(GoodbyeReason::Revoked, "gone");
        assert_eq!(
            decode_end(&end).unwrap(),
            (GoodbyeReason::Revoked, "gone".to_owned())
        );
    }
}
