//! Quipu's benchmarks, each beside a reference in the same run.
//!
//! ```text
//!  benchmarks/  the drivers: parameters, cases, gates, verification      list(), run()
//!      |    \
//!  harness/  reference/   what is compared with: floors by hand, peers   subject  what is measured
//!  rounds, statistics, table, JSON, page                                    |
//!                                                                         ours/   Quipu as a subject
//! ```
//!
//! Benchmarks of devices (`benchmarks/devices/`) go another way: they launch the kernels of
//! [`kernels`] through the front end's queues, and hand-written ones through the device's own
//! interface ([`reference::raw`]).
//!
//! Benchmarks of nodes (`benchmarks/nodes/`) serve this machine's cores to themselves on loopback,
//! with keys and TLS, beside what TCP and TLS alone take for as many bytes
//! ([`reference::network`]).
//!
//! A figure is only reported beside a floor or a peer measured in the same run, and only when the
//! result that was computed is right. Of the others only [`ours`] knows Quipu: whoever wants to be
//! measured implements [`subject::Subject`].
//!
//! ```
//! use quipu_bench::{harness::{Options, Scale}, list, run, subject::Subject};
//!
//! struct Nothing;
//! impl Subject for Nothing {
//!     fn device(&self) -> String {
//!         "none".into()
//!     }
//! }
//!
//! assert!(list().iter().any(|benchmark| benchmark.name() == "in-order"));
//! let options = Options { scale: Scale::Tiny, ..Options::default() };
//! let error = run("in-order", &Nothing, &options).unwrap_err();
//! assert!(error.to_string().contains("none does not run"));
//! ```

pub mod benchmarks;
pub mod error;
pub mod harness;
pub mod kernels;
pub mod ours;
pub mod reference;
pub mod subject;

pub use benchmarks::{Benchmark, Measures, find, list, run, serve_platform, serve_session};
pub use error::{BenchError, SubjectError};
pub use harness::publish;
