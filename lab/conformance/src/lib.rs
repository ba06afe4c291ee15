//! The conformance suite: the core's promises, written once against
//! [`Context`](quipu_scheduler::Context) and run over every driver.
//!
//! | module | contents |
//! |---|---|
//! | `cases` | the promises, one function each, gathered by [`suite`] |
//! | [`fixture`] | fixtures: a fresh driver per case |
//! | [`graph`] | random command graphs against a sequential model |
//! | [`island`] | a small driver whose devices have memory of their own |
//! | [`storm`] | many threads that share everything, with rules that always hold |
//! | [`slots`] | a promise that needs a process of its own |
//! | `printed` | the suite's kernels as code, for drivers that compile it |
//! | `watchdog` | the end of the process, with a name, when something hangs |
//! | `patience` | time as this process has it |
//!
//! A driver's test is three lines: make a [`Fixture`] of it, call [`run`] and
//! [`graph::random_graphs`].
//!
//! Rules for cases:
//!
//! * A case asserts. It never sleeps and never looks at a clock; where a promise
//!   is that something ends, it waits, and the watchdog of [`run`] says which
//!   case did not come back.
//! * A device may need a flush to make progress: a case waits through events and
//!   queues, which flush, or flushes itself before it looks at a flag.
//! * A device may have memory of its own: a case looks at bytes through read
//!   commands and kernels, never through a host pointer.
//! * A device may run no native code. What `support` launches by name, and the
//!   graphs' kernels, are printed there; closures become host tasks that touch the
//!   same.
//! * What a device cannot do at all is named by [`Needs`]; what it must refuse,
//!   it must refuse with the right error, which is a case too.

mod cases;
pub mod fixture;
pub mod graph;
pub mod island;
mod patience;
mod printed;
pub mod slots;
pub mod storm;
mod support;
mod watchdog;

pub use cases::suite;
pub use fixture::{Fixture, Needs};
pub use printed::{Maker, folding, native, natives};
pub use support::memory_in_place;
pub use watchdog::Watchdog;

use quipu_scheduler::event::wait_graph;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// One promise of the core.
#[derive(Clone, Copy)]
pub struct Case {
    /// Its name: the promise in a few words.
    pub name: &'static str,
    /// The abilities that the case requires of the device.
    pub needs: Needs,
    /// Panics if the promise is not kept.
    pub run: fn(&dyn Fixture),
}

/// No case takes longer than this, on any machine; one that does hangs.
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs every case that makes sense for the fixture, and panics with the list of
/// those that failed. What each took is printed, for `--nocapture`. `QUIPU_CASE` in
/// the environment restricts the run to cases whose names contain it.
///
/// # Panics
/// If a case fails. A case that does not come back ends the process.
pub fn run(fixture: &dyn Fixture) {
    let wanted = std::env::var("QUIPU_CASE").unwrap_or_default();
    let devices = fixture.devices();
    let mut failed = Vec::new();
    let mut passed = 0;
    for case in suite() {
        if !case.name.contains(&wanted) || !case.needs.met_by(fixture, &devices) {
            continue;
        }
        let name = format!("'{}' over {}", case.name, fixture.name());
        let described = name.clone();
        let watchdog =
            Watchdog::describing(PATIENCE, move || format!("{described}: {}", wait_graph()));
        let begun = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| (case.run)(fixture)));
        drop(watchdog);
        println!("{name}: {:.1?}", begun.elapsed());
        match outcome {
            Ok(()) => passed += 1,
            Err(_) => {
                eprintln!("failed: {name}");
                failed.push(case.name);
            }
        }
    }
    println!(
        "{}: {passed} passed, {} failed",
        fixture.name(),
        failed.len()
    );
    assert!(
        failed.is_empty(),
        "{} does not keep: {failed:#?}",
        fixture.name()
    );
}
