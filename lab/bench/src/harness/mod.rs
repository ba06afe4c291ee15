//! The harness: how anything is measured, compared, printed and stored.
//!
//! Protocol of one comparison:
//!
//! 1. A driver makes [`Contender`]s: the subject and its references, each a closure that does one
//!    run, verifies it and returns one sample in the row's unit.
//! 2. [`interleave`] runs them in turn, round after round, every second round backwards, so that a
//!    drift of the machine meets all of them alike. Warm-up rounds are not kept.
//! 3. [`Row`] keeps median, minimum and maximum of the subject, the reference's median, and as
//!    ratio the median of the *per-round* quotients: a slow round slows both sides of its pair.
//! 4. [`Report`] collects rows, gates and notes. [`Session::add`] shows a row at once to whoever
//!    looks at a terminal: a full benchmark takes many minutes. When all is measured [`publish`]
//!    prints the table and writes the files.

mod machine;
mod measure;
mod options;
mod progress;
mod report;
mod session;
mod statistics;
mod table;

pub use machine::Machine;
pub use measure::{Contender, Plan, Samples, interleave};
pub use options::{Options, Scale};
pub use progress::Progress;
pub use report::{Gate, Report, Row, publish};
pub use session::{Session, counted, nanoseconds_each};
pub use statistics::{Summary, median, pairwise_difference, pairwise_ratio};
pub use table::to_table;
