//! As on a network: nodes and clients are processes on machines of their own, TCP is the system's,
//! and what is between them loses packets, damages them, stops, forgets connections, and ends. Each
//! row of the design's table of faults.
//!
//! `QUIPU_NETWORK_ROUNDS` and `QUIPU_GRAPHS` say how often; `scripts/test network` is the long
//! form.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

#[path = "../support/mod.rs"]
mod support;

mod floods;
mod intruder;
mod losses;
mod recoveries;
mod site;

use quipu_conformance::Watchdog;
use std::time::Duration;

fn watchdog(what: &str) -> Watchdog {
    Watchdog::start(Duration::from_secs(6 * 3600), what.to_owned())
}
