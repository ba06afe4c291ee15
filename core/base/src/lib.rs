//! The ground floors of Quipu's scheduler: what its commands, queues and memory are made of.
//!
//! Nothing here knows what a command is. The crate `quipu-scheduler` stands on it and re-exports what its users need: use
//! that. `scripts/floors` has the table of floors, and checks that no file imports one of a higher floor.
//!
//! | module | what it is |
//! |---|---|
//! | [`error`] | what can go wrong, said for people |
//! | [`clock`] | nanoseconds of the process |
//! | [`sync`] | the atomics and locks that the lock-free protocols use |
//! | [`trace`] | what happened when |
//! | [`limits`] | the core's thresholds |
//! | [`panics`] | what a contained panic said, and where |
//! | [`process`] | children of `fork`; whether anything is lost |
//! | [`bias`] | locks that cost their only thread nothing |
//! | [`state`] | a command's wait count and flags |
//! | [`notify`] | the list of what waits for an event |
//! | [`shown`] | words at which others may look while their slot is given to another command |
//! | [`observers`] | who on the host wants to hear of an event |
//! | [`watching`] | how many futures and callbacks have later enqueues flushed |

pub mod bias;
pub mod clock;
pub mod error;
pub mod limits;
pub mod notify;
pub mod observers;
pub mod panics;
pub mod process;
pub mod shown;
pub mod state;
pub mod sync;
pub mod trace;
pub mod watching;
