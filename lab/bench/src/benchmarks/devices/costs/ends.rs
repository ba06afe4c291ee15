//! The time to launch a kernel and to hear of its end.

use super::super::matmul::MODES;
use super::super::side::{mean, rows, times};
use super::super::{Doing, Target};
use super::counter::{ByHand, Counter, by_hand};
use crate::error::{BenchError, SubjectError};
use crate::harness::{Contender, Gate, Plan, Report, Session, median, pairwise_difference};
use crate::reference::raw::Waiting;
use quipu::{Completion, Context, Event, UserEvent};
use std::pin::pin;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// The most microseconds of a launch and its end beyond those by hand.
const SHORT: f64 = 2.0;
/// The most time after the end of a kernel that takes long until one hears of it, in microseconds.
const LATER: f64 = 5.0;
/// That time: beyond it no thread that waits in callback mode looks any more, but for a while.
const LONG_KERNEL: Duration = Duration::from_micros(2500);
/// The time that a thread sleeps that is woken at once, as after a kernel that takes no time.
const SOON: Duration = Duration::from_micros(20);
/// The number of times that its loop goes round at first, to see how long that takes.
const LOOPS: u32 = 100_000;

/// The way of hearing of a command's end.
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

/// The time by which a thread that sleeps runs later when it is woken after `long` than when it is
/// woken soon, in microseconds: the system's part, where one is told of ends.
fn later_awake(runtime: &Runtime, long: Duration) -> Result<f64, BenchError> {
    let woken = |after: Duration| {
        let user = UserEvent::new();
        let event = user.event();
        std::thread::scope(|scope| {
            let waker = scope.spawn(move || {
                let started = Instant::now();
                while started.elapsed() < after {
                    std::hint::spin_loop();
                }
                let at = Instant::now();
                user.complete();
                at
            });
            let heard = runtime.block_on(event).doing("waiting for an event");
            let woke = Instant::now();
            let at = waker.join();
            let at = at.map_err(|_| SubjectError::failed("waking a thread", "it panicked"));
            heard?;
            Ok(woke.saturating_duration_since(at?).as_secs_f64() * 1e6)
        })
    };
    woken(SOON).and_then(|soon| Ok(woken(long)? - soon))
}

/// The number of times that the loop of a kernel goes round that takes long.
fn loops(session: &Session<'_>, target: &Target) -> Result<u32, BenchError> {
    let counter = Counter::new(target, Completion::Polling)?;
    let mut shortest = Duration::MAX;
    for _ in 0..3 {
        let started = Instant::now();
        counter.launch_after(&counter.queue, Some(LOOPS))?;
        counter.wait()?;
        shortest = shortest.min(started.elapsed());
    }
    counter.verify(session, "how much later after long")?;
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
                let sides = Sides {
                    hearing,
                    counter: Counter::new(target, completion)?,
                    by_hand: by_hand(target, report),
                    completion,
                    waiting,
                };
                let case = match loops {
                    None => sides.launch(session, report, plan, target, mode)?,
                    Some(loops) => sides.later(session, report, plan, target, (mode, loops))?,
                };
                sides.counter.verify(session, &case)?;
                let by_hand = sides.by_hand;
                by_hand.map_or(Ok(()), |by_hand: ByHand| by_hand.verify(session, &case))?;
            }
        }
    }
    Ok(())
}

/// Ours and by hand, and how each is to hear of ends.
struct Sides {
    hearing: Hearing,
    counter: Counter,
    by_hand: Option<ByHand>,
    completion: Completion,
    waiting: Waiting,
}

impl Sides {
    /// The time of a launch with its end. The case that was measured.
    fn launch(
        &self,
        session: &Session<'_>,
        report: &mut Report,
        plan: &Plan,
        target: &Target,
        mode: &str,
    ) -> Result<String, BenchError> {
        let case = format!("{}, {mode}", self.hearing.name());
        let (counter, hearing) = (&self.counter, &self.hearing);
        let ours = || hearing.hear(counter.launch(&counter.queue)?);
        ours()?;
        let started = Instant::now();
        ours()?;
        let times = times(session, started.elapsed());
        // Each has the device to itself before it is timed: the other side's context was the
        // device's until then.
        let mut contenders = vec![Contender::new("quipu", || {
            ours()?;
            mean(times, ours)
        })];
        if let Some(by_hand) = &self.by_hand {
            for (name, waiting) in by_hand.ways(self.completion, self.waiting) {
                contenders.push(Contender::new(name, move || {
                    let by_hand = || by_hand.launch_and_wait(waiting);
                    by_hand()?;
                    mean(times, by_hand)
                }));
            }
        }
        let samples = rows(session, report, plan, target, (&case, "µs"), contenders)?;
        for other in 1..samples.contenders() {
            let more = pairwise_difference(samples.of(0), samples.of(other)).unwrap_or(f64::NAN);
            let beside = samples.name(other);
            let what = format!("{case}, {}, longer than {beside}", target.id());
            report.gates.push(Gate::at_most(what, more, SHORT, "µs"));
        }
        Ok(case)
    }

    /// The time by which one hears later of the end of a kernel whose loop goes round so often. The
    /// case that was measured.
    fn later(
        &self,
        session: &Session<'_>,
        report: &mut Report,
        plan: &Plan,
        target: &Target,
        (mode, loops): (&str, u32),
    ) -> Result<String, BenchError> {
        let case = format!("{}, how much later after long, {mode}", self.hearing.name());
        let (counter, hearing) = (&self.counter, &self.hearing);
        let ours = || {
            // The other side's context was the device's until now.
            hearing.hear(counter.launch(&counter.queue)?)?;
            let short = counter.beyond_kernel(None, |event| hearing.hear(event))?;
            Ok(counter.beyond_kernel(Some(loops), |event| hearing.hear(event))? - short)
        };
        let mut contenders = vec![Contender::new("quipu", ours)];
        if let Some(by_hand) = &self.by_hand {
            let (launch, long) = (by_hand.launch, by_hand.after(loops)?);
            for (name, waiting) in by_hand.ways(self.completion, self.waiting) {
                contenders.push(Contender::new(name, move || {
                    by_hand.launch_and_wait(waiting)?;
                    let short = by_hand.beyond_kernel(launch, waiting)?;
                    Ok(by_hand.beyond_kernel(long, waiting)? - short)
                }));
            }
        }
        let floor = contenders.len();
        if let Hearing::Await(runtime) = hearing
            && self.by_hand.is_some()
        {
            let sleeper = || later_awake(runtime, LONG_KERNEL);
            contenders.push(Contender::new("a sleeping thread", sleeper));
        }
        // Each sample is of one launch, and a device's clock makes it longer or shorter by more
        // than is looked for.
        let plan = Plan {
            rounds: plan.rounds * session.scale().choose(66, 24, 1),
            ..*plan
        };
        let samples = rows(session, report, &plan, target, (&case, "µs"), contenders)?;
        if self.by_hand.is_some() {
            let what = format!("{case}, {}", target.id());
            let beyond = (floor < samples.contenders())
                .then(|| pairwise_difference(samples.of(0), samples.of(floor)).unwrap_or(f64::NAN));
            let later = beyond.unwrap_or_else(|| median(samples.of(0)));
            report.gates.push(Gate::at_most(what, later, LATER, "µs"));
        }
        Ok(case)
    }
}
