//! The ground floors of Quipu's scheduler: the parts of its commands, queues and memory.
//!
//! Nothing here knows what a command is. The crate `quipu-scheduler` stands on this one and
//! re-exports the items that its users need: use that crate. `scripts/floors` has the table of
//! floors, and checks that no file imports one of a higher floor.
//!
//! | module | content |
//! |---|---|
//! | [`error`] | errors, in words for people |
//! | [`clock`] | nanoseconds of the process |
//! | [`sync`] | the atomics and locks that the lock-free protocols use |
//! | [`trace`] | a record of when and where each command ran |
//! | [`hash`] | hashes of bytes and of numbers |
//! | [`limits`] | the core's thresholds |
//! | [`panics`] | the text and the place of a contained panic |
//! | [`said`] | lines on standard error |
//! | [`process`] | children of `fork`; whether anything is lost |
//! | [`bias`] | locks that cost their only thread nothing |
//! | [`state`] | a command's wait count and flags |
//! | [`notify`] | the list of commands and observers that wait for an event |
//! | [`shown`] | words at which others may look while their slot is given to another command |
//! | [`observers`] | the host's observers of an event |
//! | [`flush_demand`] | the futures and callbacks for which later enqueues flush, counted |

#![cfg_attr(not(test), warn(clippy::disallowed_macros, clippy::disallowed_methods))]

pub mod bias;
pub mod clock;
pub mod error;
pub mod flush_demand;
pub mod hash;
pub mod limits;
pub mod notify;
pub mod observers;
pub mod panics;
pub mod process;
pub mod said;
pub mod shown;
pub mod state;
pub mod sync;
pub mod trace;
