//! The engine of the simulated accelerators, without a context.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod common;
mod devices;
mod faults;
mod machine;
mod memory;
mod random_graphs;
