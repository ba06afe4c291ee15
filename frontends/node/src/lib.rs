//! A node: a machine's devices, for others over the network.
//!
//! | module | contents |
//! |---|---|
//! | [`node`] | the node itself: it listens, admits clients, and keeps sessions |
//! | [`limits`] | limits of a session's resources |
//! | [`native`] | kernels that the node's program has natively |
//! | [`process`] | sessions in processes of their own |
//! | `listening` | the thread that takes connections and looks for their first words |
//! | `strangers` | connections that have not said hello yet |
//! | `early` | connections of sessions that are coming |
//! | `watch` | the thread that looks for revoked clients and for kernels that take too long |
//! | `totals` | the numbers that sessions count |
//! | `questions` | answers to clients that only ask for the status |
//! | `budget` | a budget of work that others cause |
//! | `operator` | the lines that the operator is told without asking |
//! | `paced` | an answer that is made at intervals, for all clients that ask |
//! | `load` | the load of devices, and the traffic of links |
//! | `printed` | the output of a session's kernels, on its way to the client |
//! | `describe` | descriptions of devices in the protocol's words |
//! | `failure` | errors in the protocol's words |
//! | `session` | one client's buffers, programs, commands |
//!
//! A session is a context over the node's devices, and a client's commands are commands of that
//! context's queues. So the core's promises of order, hazards and failures hold for a client's
//! commands. The core decides where on the node a buffer's bytes are. `docs/wire.md` specifies the
//! messages and their checks.

#![cfg_attr(not(test), warn(clippy::disallowed_macros, clippy::disallowed_methods))]

mod budget;
mod describe;
#[cfg(target_os = "linux")]
mod early;
mod failure;
pub mod limits;
mod listening;
mod load;
pub mod native;
pub mod node;
mod operator;
mod paced;
mod printed;
#[cfg(target_os = "linux")]
pub mod process;
mod questions;
mod session;
mod strangers;
mod totals;
mod watch;

pub use limits::Limits;
pub use load::{LinkStates, LinkSums, LinkTotals};
pub use native::{Launch, Maker, Natives, Parameter};
pub use node::{Node, Options, Peering};
#[cfg(target_os = "linux")]
pub use process::{
    Restriction, Spawn, Weakness, remove_scratch, serve_session, serve_session_reading, weaknesses,
    weaknesses_for,
};

use quipu_scheduler::sync::lock as locked;

/// The log target for operators: enrolments, refusals, begins and ends of sessions, and limits, in
/// a line each. `quipu serve` shows it at `info`, and no other target.
pub const OPERATOR: &str = "quipu_node::operator";
