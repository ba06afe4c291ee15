//! Errors of links. Their texts are for people: they name the request, the fault and the remedy.

use crate::key::Fingerprint;
use quipu_protocol::error::WireError;
use quipu_protocol::message::{GoodbyeReason, Refusal};
use std::io;
use std::path::{Path, PathBuf};

/// The result of an operation on connections or keys.
pub type Result<T, E = LinkError> = std::result::Result<T, E>;

/// An error of a link.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// A file or folder could not be used.
    #[error("cannot {what} '{path}': {source}", path = path.display())]
    File {
        /// The operation.
        what: &'static str,
        /// The file's path.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file that holds secrets can be read by others, or belongs to another user.
    #[error("'{path}' {problem}; it holds what only its owner may know", path = path.display())]
    NotPrivate {
        /// The path.
        path: PathBuf,
        /// The fault, and the remedy.
        problem: String,
    },
    /// A file has something in it that does not belong there.
    #[error("'{path}' {problem}", path = path.display())]
    BadFile {
        /// The path.
        path: PathBuf,
        /// The fault, and the remedy.
        problem: String,
    },
    /// An address, invitation or fingerprint makes no sense.
    #[error("{what} '{text}' {problem}")]
    BadText {
        /// The expected form.
        what: &'static str,
        /// The text.
        text: String,
        /// The fault, and the remedy.
        problem: &'static str,
    },
    /// Nothing answers at an address.
    #[error("cannot reach '{address}': {source}; is a node running there (`quipu serve`)?")]
    Unreachable {
        /// The address.
        address: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The node has another key than it should.
    #[error(
        "'{address}' has the key {found}, not {expected}: it is another node, or somebody pretends to be it; if the node \
         was set up anew, pair with it again"
    )]
    WrongKey {
        /// The address.
        address: String,
        /// The key that was paired with.
        expected: Fingerprint,
        /// The key that it has.
        found: Fingerprint,
    },
    /// The other side speaks no TLS, or not Quipu's.
    #[error("'{address}' does not speak Quipu's protocol: {source}")]
    Tls {
        /// The other side's address.
        address: String,
        /// The reason.
        source: rustls::Error,
    },
    /// The received bytes make no sense.
    #[error("'{address}' sent what makes no sense: {source}")]
    Wire {
        /// The other side's address.
        address: String,
        /// The fault in the bytes.
        source: WireError,
    },
    /// A message came that has no place there.
    #[error("'{address}' sent '{kind}' where {expected} was due")]
    Unexpected {
        /// The other side's address.
        address: String,
        /// The message that came.
        kind: &'static str,
        /// The message that should have come.
        expected: &'static str,
    },
    /// The connection was lost, or the other side closed it.
    #[error("the connection to '{address}' ended: {reason}")]
    Ended {
        /// The other side's address.
        address: String,
        /// The reason, as far as it is known.
        reason: String,
    },
    /// Time ran out.
    #[error(
        "'{address}' did not answer in time; check that a node serves there, and that firewalls let its port through (4760, unless the node was given another)"
    )]
    TimedOut {
        /// The other side's address.
        address: String,
    },
    /// The node does not take the connection.
    #[error("node '{address}' refuses: {text}{}", advice(*refusal))]
    Refused {
        /// The other side's address.
        address: String,
        /// The reason.
        refusal: Refusal,
        /// Its text.
        text: String,
    },
    /// A client came to this node and was not taken: for its log.
    #[error("'{address}', whose key is {key}, was refused: {text}")]
    TurnedAway {
        /// The address of the other side.
        address: String,
        /// The key that it has proved.
        key: Fingerprint,
        /// The reason.
        refusal: Refusal,
        /// The text that it was told.
        text: String,
    },
    /// The other side ended the connection with a word.
    #[error("'{address}' said goodbye: {text}")]
    Goodbye {
        /// The other side's address.
        address: String,
        /// The reason.
        reason: GoodbyeReason,
        /// Its text.
        text: String,
    },
    /// Another of that name is known already.
    #[error("{what} is called '{name}' already; choose another name")]
    NameTaken {
        /// The thing that has the name, in words.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Another process serves a node from the folder.
    #[error(
        "process {process} serves a node from '{path}' already; stop it, or give this node a folder of its own (QUIPU_HOME)",
        path = path.display()
    )]
    Served {
        /// The folder.
        path: PathBuf,
        /// The number of the other process.
        process: String,
    },
    /// A message that was to be sent breaks the rules.
    #[error("a message was not sent: {0}")]
    NotSent(WireError),
    /// No random numbers, or no key, could be had.
    #[error("cannot {0}: the system gives no random numbers")]
    Random(&'static str),
}

/// The other side's text, as a part of a line of a log: it may come from anyone, and makes no lines
/// of its own.
pub(crate) fn on_one_line(text: &str) -> String {
    text.replace(['\n', '\t'], " ")
}

fn advice(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::NotEnrolled => "; run `quipu invite` there and `quipu pair` here",
        Refusal::Invitation => "; ask for a new one (`quipu invite`)",
        _ => "",
    }
}

impl LinkError {
    /// True if a node has refused the key, because no client of it is enrolled there.
    #[must_use]
    pub fn is_not_enrolled(&self) -> bool {
        let refused = Refusal::NotEnrolled;
        matches!(self, Self::Refused { refusal, .. } if *refusal == refused)
    }

    pub(crate) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File {
            what,
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn bad_file(path: &Path, problem: impl Into<String>) -> Self {
        Self::BadFile {
            path: path.to_owned(),
            problem: problem.into(),
        }
    }
}
