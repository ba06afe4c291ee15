//! Clients and nodes of one process, over TLS: their messages, and losses between them.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod compression;
mod content;
mod detour;
mod links;
mod loss;
#[path = "../support/mod.rs"]
mod support;
mod waiting;
