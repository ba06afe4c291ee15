//! A program that serves: this machine's devices and the program's own kernels, for clients over
//! the network. It takes the feature `serve`.
//!
//! A program with `#[kernel]`s offers them ([`Kernels`]), and a client that was built with the same
//! ones launches them here as it launches them on any device: natively on processors, so no
//! compiler is needed on the machine, and on its other devices as their drivers print them. A
//! kernel is known by a hash of its code and of the layout of its parameters: if client and node
//! were built from different versions of it, its launches fail and say so. Clients also run OpenCL
//! C here, on devices that have a compiler for it, as with `quipu serve`.
//!
//! ```no_run
//! use quipu::prelude::*;
//! use quipu::serve::{Kernels, Server};
//!
//! #[kernel]
//! fn saxpy(_acc: &impl Accelerator<1>, a: f32, x: &[f32], mut y: OwnElements<f32>) {
//!     for (i, y) in y.each() {
//!         *y += a * x[i];
//!     }
//! }
//!
//! fn main() -> quipu::Result<()> {
//!     let server = Server::new(Kernels::new().with::<saxpy, _>());
//!     let serving = server.start()?; // first in `main`: see below
//!     println!("run once where the client is:\nquipu pair {}", serving.invite()?);
//!     serving.wait();
//!     Ok(())
//! }
//! ```
//!
//! The client has nothing to do but to have been paired with the node and to ask for it:
//! `QUIPU_NODES=name`, or [`PlatformBuilder::node`](crate::PlatformBuilder::node).
//!
//! # One process, or one for each client
//!
//! On Linux each client's session has a process of its own, in a sandbox: without the node's key,
//! network and files, within [limits](Server::limits). A kernel that crashes, never ends or eats
//! memory costs its own client's session and no other.
//!
//! Such a process is *this program, started anew* with the arguments that it was started with. It
//! comes to [`Server::start`], which then does not return: it enters the sandbox, opens the devices
//! and serves the session. So:
//!
//! * `main` comes to [`Server::start`] first, with the same kernels, whatever it is started for. It
//!   does not read its standard input before, starts no threads (so an executor is built
//!   afterwards) and opens nothing that a client's kernels should not have.
//! * If that is not where the program's own arguments lead to, [`Server::session_arguments`] says
//!   which do.
//!
//! [`Server::one_process`] keeps all sessions in this process. A kernel of any of them can then end
//! it, and all of them.

mod kernels;
mod server;
mod taking;

pub use kernels::{Kernels, Unpassed};
pub use quipu_link::peer::Networks;
pub use quipu_node::Limits;
pub use server::{Server, Serving, devices, offered};
pub use taking::{Served, Taking};

#[cfg(test)]
mod tests;
