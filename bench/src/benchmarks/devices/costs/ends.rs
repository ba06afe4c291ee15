//! What it takes to launch a kernel and to hear of its end.

use super::super::matmul::MODES;
use super::super::side::{mean, rows, times};
use super::super::{Doing, Target};
use super::counter::{ByHand, Counter, by_hand};
use crate::error::{BenchError, SubjectError};
use crate::harness::{Contender, Gate, Plan, Report, Samples, Session, pairwise_difference};
use quipu::{Completion, Context, Event};
use std::pin::pin;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// How much longer than by hand a launch and its end may take, in microseconds.
const SHORT: f64 = 2.0;
/// The same of a kernel that takes long: a few microseconds.
const LONG: f64 = 5.0;
/// How long that is: beyond it nobody who waits in callback mode looks any more, but for a while.
const LONG_KERNEL: Duration = Duration::from_micros(2500);
/// How often its loop goes round at first, to see how long that takes.
const LOOPS: u32 = 100_000;

/// How one hears of a command's end.
pub(super) enum Hearing {
    /// A thread waits.
    Wait,
    /// Its future is awaited under tokio.
    Await(Runtime),
    /// Its future is polled by a scheduler, which polls the context in between.
    Schedule(Context),
}

impl Hearing {
    pub(super) const WAYS: usize = 2;

    /// The ways to be measured of a queue's mode.
    fn ways(target: &Target, completion: Completion) -> Result<[Self; Self::WAYS], BenchError> {
        let future = if completion == Completion::Polling {
            Hearing::Schedule(target.context().clone())
        } else {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            Hearing::Await(runtime.map_err(|error| SubjectError::failed("starting tokio", error))?)
        };
        Ok([Hearing::Wait, future])
    }

    fn name(&self) -> &'static str {
        match self {
            Hearing::Wait => "launch and wait",
            Hearing::Await(_) => "launch and await",
            Hearing::Schedule(_) => "launch and poll its future",
        }
    }

    fn hear(&self, event: Event) -> Result<(), BenchError> {
        let heard = match self {
            Hearing::Wait => event.wait(),
            Hearing::Await(runtime) => runtime.block_on(event),
            Hearing::Schedule(context) => {
                let mut future = pin!(event);
                let mut asked = std::task::Context::from_waker(Waker::noop());
                loop {
                    match future.as_mut().poll(&mut asked) {
                        Poll::Ready(result) => break result,
                        Poll::Pending => context.poll(),
                    };
                }
            }
        };
        heard.doing("waiting for a command")
    }
}

/// How often the loop of a kernel goes round that takes long.
fn loops(session: &Session<'_>, target: &Target) -> Result<u32, BenchError> {
    let counter = Counter::new(target, Completion::Polling, Some(LOOPS))?;
    let mut shortest = Duration::MAX;
    for _ in 0..3 {
        let started = Instant::now();
        counter.launch(&counter.queue)?;
        counter.wait()?;
        shortest = shortest.min(started.elapsed());
    }
    counter.verify(session, "long launch and wait")?;
    let long = session
        .scale()
        .choose(LONG_KERNEL, LONG_KERNEL, Duration::ZERO);
    let times = long.as_secs_f64() / shortest.as_secs_f64().max(1e-9);
    Ok((times * f64::from(LOOPS)).clamp(100.0, 1e8) as u32)
}

/// Each way to hear of ends, of a kernel that takes no time and of one that takes long.
pub(super) fn ends(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    target: &Target,
) -> Result<(), BenchError> {
    let long = loops(session, target)?;
    for loops in [None, Some(long)] {
        for (mode, completion, waiting) in MODES {
            for hearing in Hearing::ways(target, completion)? {
                // As its scheduler has it: nobody else looks.
                let _polling =
                    matches!(hearing, Hearing::Schedule(_)).then(|| target.context().polling());
                let case = match loops {
                    None => format!("{}, {mode}", hearing.name()),
                    Some(_) => format!("long {}, beyond the kernel, {mode}", hearing.name()),
                };
                let counter = Counter::new(target, completion, loops)?;
                let by_hand = by_hand(target, report, loops);
                let ours = || hearing.hear(counter.launch(&counter.queue)?);
                let timed = Timed::new(session, loops, ours)?;
                let plan = &timed.plan(session, plan);
                let mut contenders = vec![Contender::new("quipu", || {
                    timed.sample(ours, || counter.duration())
                })];
                if let Some(by_hand) = &by_hand {
                    for (name, waiting) in by_hand.ways(completion, waiting) {
                        contenders.push(Contender::new(name, move || {
                            timed.sample(|| by_hand.launch_and_wait(waiting), || by_hand.duration())
                        }));
                    }
                }
                let samples = rows(session, report, plan, target, (&case, "µs"), contenders)?;
                no_longer(report, target, &case, &samples, timed.most());
                counter.verify(session, &case)?;
                by_hand.map_or(Ok(()), |by_hand: ByHand| by_hand.verify(session, &case))?;
            }
        }
    }
    Ok(())
}

/// How a launch and its end are timed.
#[derive(Clone, Copy)]
enum Timed {
    /// The mean of so many.
    Mean(usize),
    /// What one takes beyond the kernel's own time, which need not be the same on both sides: less what the next takes by the
    /// device's timestamps.
    BeyondKernel,
}

impl Timed {
    fn new(
        session: &Session<'_>,
        loops: Option<u32>,
        launch: impl Fn() -> Result<(), BenchError>,
    ) -> Result<Self, BenchError> {
        if loops.is_some() {
            return Ok(Timed::BeyondKernel);
        }
        let started = Instant::now();
        launch()?;
        Ok(Timed::Mean(times(session, started.elapsed())))
    }

    /// How much longer than by hand it may take.
    fn most(self) -> f64 {
        match self {
            Timed::Mean(_) => SHORT,
            Timed::BeyondKernel => LONG,
        }
    }

    /// A device's clock drifts by more than what is to be seen of a long kernel, so the sides take turns with each launch of
    /// it.
    fn plan(self, session: &Session<'_>, plan: &Plan) -> Plan {
        match self {
            Timed::Mean(_) => *plan,
            Timed::BeyondKernel => Plan {
                rounds: plan.rounds * session.scale().choose(22, 12, 1),
                ..*plan
            },
        }
    }

    /// Microseconds of what launches a kernel and hears of its end; `duration` launches it, too, and says how long it takes.
    fn sample(
        self,
        launch: impl Fn() -> Result<(), BenchError>,
        duration: impl Fn() -> Result<f64, BenchError>,
    ) -> Result<f64, BenchError> {
        match self {
            Timed::Mean(times) => mean(times, launch),
            Timed::BeyondKernel => {
                // The other side's context was the device's until now.
                launch()?;
                Ok(mean(1, launch)? - duration()?)
            }
        }
    }
}

/// How much longer ours, the first, may take than each of the others.
fn no_longer(report: &mut Report, target: &Target, case: &str, samples: &Samples, most: f64) {
    for other in 1..samples.contenders() {
        let more = pairwise_difference(samples.of(0), samples.of(other)).unwrap_or(f64::NAN);
        let beside = samples.name(other);
        let what = format!("{case}, {}, longer than {beside}", target.id());
        report.gates.push(Gate::at_most(what, more, most, "µs"));
    }
}
