//! Quipu's connections: keys, paired nodes and enrolled clients, TLS, and the handshake.
//!
//! | module | contents |
//! |---|---|
//! | [`addresses`] | a node's addresses |
//! | [`key`] | a machine's own key, and fingerprints |
//! | [`folder`] | Quipu's folder of keys and lists, for its owner alone |
//! | [`served`] | the process that serves a node from that folder, and its address |
//! | [`nodes`] | the nodes that a client has paired with |
//! | [`clients`] | the clients that a node has enrolled |
//! | [`rights`] | a client's rights at a node |
//! | `base32` | text for people to read to each other |
//! | [`invitation`] | invitations: one word that enrols one client, for ten minutes |
//! | [`connection`] | frames over TLS over TCP |
//! | [`compression`] | the choice of compression for large transfers |
//! | `tls` | the choice of cryptography, and TLS by raw public keys |
//! | [`stream`] | both directions of a connection at once: numbers, acknowledgements, batches |
//! | [`route`] | the bytes before TLS on a connection that is for one session |
//! | `resolve` | the addresses of a host's name, within a time limit |
//! | [`client`] | dialling a node: enrolment, hello, ping, status |
//! | `early` | connections of a session that is being asked for |
//! | [`session`] | the first words of a client, and a node's answer: its terms and its devices |
//! | [`peer`] | connections from node to node |
//! | [`gate`] | the admission of connections at a node |
//! | [`clock`] | the time of day, which tests give |
//! | [`timer`] | time that passes, which tests give |
//! | [`error`] | errors, with texts for people |
//!
//! `docs/wire.md` specifies the messages, and the checks of each side.
//!
//! # Trust
//!
//! 1. Every machine makes a key of its own, Ed25519. There are no certificates and no authorities.
//!    TLS authenticates both sides by raw public keys (RFC 7250): there is no certificate parser to
//!    be attacked.
//! 2. A client has a node's fingerprint from an invitation, and dials that key only. It sends
//!    nothing before the key has proved itself.
//! 3. A node has a client's fingerprint from an enrolment. It reads nothing of a client that has
//!    none.
//! 4. An invitation is good for one client, for ten minutes, and for enrolment only; the node keeps
//!    a hash of it. A thief of the node's files gets no invitation out of them.
//!
//! # Which cryptography
//!
//! `rustls` with `ring`. The other choice, `aws-lc-rs`, encrypts bulk data faster, where a machine
//! talks to itself or the network is faster than a core of `ring`'s; but it takes several times as
//! long to build, and every build of Quipu builds this. `ring` needs a C compiler, which Rust needs
//! as its linker anyway, and never asks for CMake or an assembler. The choice is made in one place,
//! in `tls`; `quipu bench noop` and `bulk` measure its cost.
//!
//! # Blocking
//!
//! Threads, and no asynchronous runtime: a session has two connections, so there are few of them. A
//! wake-up through a runtime costs as much as one by the socket, and the runtime's part on top. A
//! [`Connection`](connection::Connection) blocks, and everything that waits for the other side
//! before it is known has a deadline, however slowly bytes drip in.

#![cfg_attr(not(test), warn(clippy::disallowed_macros, clippy::disallowed_methods))]

pub mod addresses;
mod base32;
pub mod client;
pub mod clients;
pub mod clock;
pub mod compression;
pub mod connection;
mod early;
pub mod error;
pub mod folder;
pub mod gate;
pub mod invitation;
pub mod key;
pub mod nodes;
pub mod peer;
mod resolve;
pub mod rights;
pub mod route;
pub mod served;
pub mod session;
pub mod stream;
pub mod timer;
mod tls;

pub use error::{LinkError, Result};
pub use folder::Folder;
pub use invitation::Invitation;
pub use key::{Fingerprint, Key};
pub use rights::Rights;
pub use route::Route;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Logs something. A subscriber is a user's code: if it panics, the connection goes on.
fn quietly(log: impl FnOnce()) {
    let logged = catch_unwind(AssertUnwindSafe(log));
    // To drop a panic's payload may panic, too. The payload of that panic is leaked: somewhere this
    // has to end.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(logged))) {
        std::mem::forget(again);
    }
}

/// Locks a mutex, also after a thread has panicked with it: all data that is kept so is whole at
/// every moment.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// This machine's name: `localhost` if the system does not say.
#[must_use]
pub fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok());
    match name.unwrap_or_default().trim() {
        "" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_payload_of_a_contained_panic_is_dropped() {
        let kept = Arc::new(());
        let payload = Arc::clone(&kept);
        quietly(move || std::panic::panic_any(payload));
        assert_eq!(Arc::strong_count(&kept), 1);
    }
}
