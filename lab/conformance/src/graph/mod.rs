//! Random command graphs against a sequential model.
//!
//! 1. [`plan`]: a graph is a list of steps of the host's program, made from a
//!    seed by `generate`: user events made and ended, commands of every kind on
//!    queues of both kinds on all devices of one or two contexts, waits, looks,
//!    cancellations, queues and buffers dropped in between.
//! 2. `execute` performs the steps. Meanwhile `order` knows, from the rules of
//!    ordering alone, which user events each command has to wait for and which
//!    it may: a command that is complete while one that it has to wait for is
//!    open has missed a wait; one that does not end when none that it may wait
//!    for is open waits for too much.
//! 3. `model` then runs the commands one after another, in enqueue order, on
//!    plain bytes, with the rules of failure, and predicts how each command ends
//!    and every byte. Kernels mix all they read into all they write, so that a
//!    missed dependency shows in the bytes. Of a cancelled command the model
//!    takes the outcome as reported, and predicts what follows from it.
//! 4. A failure is made small by leaving steps out while it stays (`shrink`).
//!
//! What several failed dependencies leave open is only whose cause is named
//! first; the model allows each of them.
//!
//! Where things go wrong by themselves (`Graphs::have_faults`), nobody knows which
//! command, or implicit migration, that strikes. So a command, or a look at bytes, may
//! fail with what a device says of itself, and what follows from that is predicted; what
//! ends well has to have the right bytes, and to depend on nothing that has failed. What
//! is refused at its enqueue, because its device is lost, was never there.

mod execute;
mod generate;
mod kernel;
mod model;
mod order;
pub mod plan;
pub(crate) mod random;
mod shrink;

use crate::{Fixture, Watchdog};
pub(crate) use kernel::mix_natively;
use plan::Plan;
use random::Random;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Graphs after which the devices are made afresh.
const PER_DEVICES: u64 = 500;
/// A command that does not end while the process runs for so long hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// `PER_DEVICES` graphs take seconds, or some minutes over connections that are lost all the time;
/// the process ends after this.
const LAST_RESORT: Duration = Duration::from_secs(1800);

/// A graph that went wrong.
#[derive(Debug)]
pub struct Failure {
    /// Makes the graph again: `graphs --only` of this.
    pub seed: u64,
    /// The fault.
    pub message: String,
    /// The graph, made as small as was possible.
    pub plan: Plan,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "the graph of seed {:#x} failed: {}",
            self.seed, self.message
        )?;
        writeln!(f, "made small:\n{}", self.plan)
    }
}

/// The number of graphs that went well, and those that did not.
#[derive(Debug, Default)]
pub struct Summary {
    /// Graphs as the model predicts them.
    pub passed: u64,
    /// The others.
    pub failures: Vec<Failure>,
}

/// Runs `count` random graphs over the fixture's devices. `QUIPU_GRAPHS` in the
/// environment sets another count.
///
/// # Panics
/// If a graph does not go as the model predicts, with the graph made small.
pub fn random_graphs(count: u64, seed: u64, fixture: &dyn Fixture) {
    let count = std::env::var("QUIPU_GRAPHS")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(count);
    let summary = run(count, seed, 1, fixture, &mut |_| ());
    if let Some(failure) = summary.failures.first() {
        panic!("{}: {failure}", fixture.name());
    }
}

/// Runs `count` random graphs, and stops when `most` have failed. `progress` is
/// called with the number of graphs done.
pub fn run(
    count: u64,
    seed: u64,
    most: usize,
    fixture: &dyn Fixture,
    progress: &mut dyn FnMut(u64),
) -> Summary {
    let mut summary = Summary::default();
    let mut seeds = Random::new(seed);
    let current = Arc::new(AtomicU64::new(0));
    let mut done = 0;
    while done < count {
        let devices = fixture.devices();
        let (name, now) = (fixture.name(), current.clone());
        let _watchdog = Watchdog::describing(LAST_RESORT, move || {
            format!(
                "the graph of seed {:#x} over {name}",
                now.load(Ordering::SeqCst)
            )
        });
        // Of devices that are to go wrong each has one graph.
        let graphs = if fixture.graphs().have_faults {
            1
        } else {
            PER_DEVICES
        };
        for _ in 0..graphs.min(count - done) {
            let seed = seeds.next();
            current.store(seed, Ordering::SeqCst);
            let failure = one_over(seed, &devices, fixture);
            done += 1;
            progress(done);
            match failure {
                None => summary.passed += 1,
                Some(failure) => {
                    summary.failures.push(failure);
                    if summary.failures.len() >= most {
                        return summary;
                    }
                    // The devices may be of no use any more.
                    break;
                }
            }
        }
    }
    summary
}

/// Runs the graph of one seed.
#[must_use]
pub fn one(seed: u64, fixture: &dyn Fixture) -> Option<Failure> {
    one_over(seed, &fixture.devices(), fixture)
}

fn one_over(
    seed: u64,
    devices: &[quipu_scheduler::Device],
    fixture: &dyn Fixture,
) -> Option<Failure> {
    let plan = generate::generate(seed, devices, fixture.graphs());
    let message = check(&plan, devices, fixture, PATIENCE).err()?;
    // At once: making it small may take a while, or never end.
    eprintln!(
        "{}: the graph of seed {seed:#x} failed: {message}",
        fixture.name()
    );
    let (plan, message) = shrink::shrink(plan, message, fixture);
    Some(Failure {
        seed,
        message,
        plan,
    })
}

/// Executes a plan and compares it with the model.
fn check(
    plan: &Plan,
    devices: &[quipu_scheduler::Device],
    fixture: &dyn Fixture,
    patience: Duration,
) -> Result<(), String> {
    if let Some(fault) = &plan.fault {
        fixture.fail(fault);
    }
    let executed = execute::execute(plan, devices, patience)?;
    let predicted = model::predict(plan, &executed.outcomes)?;
    executed.compare(&predicted)
}
