//! `device-costs`: the cost of commands beside the device's own interface.
//!
//! Every command adds one to the same number, so all are a chain, and the number says how many ran.
//!
//! 1. *enqueue*: the time of the calls alone, of commands that run meanwhile.
//! 2. *launch and wait*, in callback and in polling mode, beside each way to wait that the
//!    interface has; and the same of a future: *launch and await* under tokio, which is told,
//!    *launch and poll its future* by a scheduler that [polls the context](quipu::Context::poll)
//!    itself.
//! 3. *…, how much later after long*: how much more that takes of a kernel of 2.5 ms, for which who
//!    waits in callback mode sleeps, than of one that takes no time; each less its own time by the
//!    device's timestamps. What the system takes longer to run a thread that has slept for so long
//!    is beside it, where that is how one hears of it, and not its delay.
//! 4. *chain*: kernels that wait for each other, per kernel, from the release of a user event that
//!    has held them all back (for a while, or just as long as it took to enqueue them), or from the
//!    first enqueue, or recorded and launched as one; beside launches one by one and, of CUDA, the
//!    replay of a graph made by hand.

mod chain;
mod counter;
mod ends;

use super::matmul::MODES;
use super::side::{mean, rows};
use super::{Need, Target, targets};
use crate::error::BenchError;
use crate::harness::{Contender, Gate, Plan, Report, Session, median};
use crate::reference::raw::Waiting;
use counter::{Counter, by_hand};
use ends::Hearing;
use quipu::Completion;

/// The most microseconds of a call beyond the interface's own.
const ENQUEUE: f64 = 1.0;

/// The benchmark `device-costs`.
pub(in crate::benchmarks) fn run(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let targets = targets(session, report, Need::OwnInterface)?;
    let measured = 2 + 2 * MODES.len() * Hearing::WAYS + 4 * MODES.len();
    let plan = session.begin(measured * targets.len());
    for target in &targets {
        enqueue(session, report, &plan, target)?;
        ends::ends(session, report, &plan, target)?;
        chain::chain(session, report, &plan, target)?;
    }
    Ok(())
}

/// The calls alone.
fn enqueue(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    target: &Target,
) -> Result<(), BenchError> {
    // Fewer than streams take before a call waits for the device.
    let commands = session.scale().choose(500, 200, 3);
    let counter = Counter::new(target, Completion::Callback)?;
    let by_hand = by_hand(target, report);
    let mut events = Vec::with_capacity(commands);
    let mut one = |case: &str, with_future: bool| -> Result<(), BenchError> {
        let mut contenders = vec![Contender::new("quipu", || {
            let sample = match with_future {
                true => mean(commands, || {
                    events.push(counter.launch(&counter.queue)?);
                    Ok(())
                }),
                false => mean(commands, || counter.post()),
            };
            counter.wait()?;
            events.clear();
            sample
        })];
        if let Some(by_hand) = &by_hand {
            let name = by_hand.raw.borrow().language().interface();
            contenders.push(Contender::new(name, || {
                let sample = mean(commands, || by_hand.enqueue());
                by_hand.wait(Waiting::Synchronise)?;
                sample
            }));
        }
        let samples = rows(session, report, plan, target, (case, "µs"), contenders)?;
        if samples.contenders() > 1 {
            let more = median(samples.of(0)) - median(samples.of(1));
            let what = format!("{case}, {}, more than the interface's own", target.id());
            report.gates.push(Gate::at_most(what, more, ENQUEUE, "µs"));
        }
        Ok(())
    };
    one("enqueue, one-way", false)?;
    one("enqueue, with a future", true)?;
    counter.verify(session, "enqueue")?;
    by_hand.map_or(Ok(()), |by_hand| by_hand.verify(session, "enqueue"))
}
