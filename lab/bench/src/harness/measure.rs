//! Interleaved runs of a subject and its references.

use std::time::{Duration, Instant};

use crate::error::BenchError;
use crate::harness::Progress;

/// Rounds that are always measured, however short the time limit: a median of fewer says nothing.
const LEAST_ROUNDS: usize = 2;

/// One side of a comparison: a name and a closure that does one verified run.
pub struct Contender<'a> {
    name: String,
    run: Box<dyn FnMut() -> Result<f64, BenchError> + 'a>,
}

impl<'a> Contender<'a> {
    /// A contender whose `run` returns one sample in the unit of the row it is for.
    pub fn new(
        name: impl Into<String>,
        run: impl FnMut() -> Result<f64, BenchError> + 'a,
    ) -> Contender<'a> {
        Contender {
            name: name.into(),
            run: Box::new(run),
        }
    }
}

/// The number of rounds, and the longest time.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rounds before the first that is kept.
    pub warm_up: usize,
    /// Rounds that are kept.
    pub rounds: usize,
    /// No further round starts after this time (two are always kept).
    pub time_limit: Option<Duration>,
    /// A pause before each run, in which threads of the contender before go to sleep.
    pub settle: Duration,
}

/// The samples of all contenders: one list each, one sample per kept round.
#[derive(Clone, Debug)]
pub struct Samples {
    names: Vec<String>,
    samples: Vec<Vec<f64>>,
}

impl Samples {
    /// The samples of the contender at this position.
    ///
    /// # Panics
    /// If there were not so many contenders.
    pub fn of(&self, contender: usize) -> &[f64] {
        &self.samples[contender]
    }

    /// The contender's name at this position.
    ///
    /// # Panics
    /// If there were not so many contenders.
    pub fn name(&self, contender: usize) -> &str {
        &self.names[contender]
    }

    /// The number of contenders.
    pub fn contenders(&self) -> usize {
        self.samples.len()
    }
}

/// Runs the contenders in turn, round after round; every second round goes backwards.
///
/// # Errors
/// The first error of a contender ends the measurement.
pub fn interleave(
    plan: &Plan,
    progress: &Progress,
    contenders: &mut [Contender<'_>],
) -> Result<Samples, BenchError> {
    let mut samples = vec![Vec::with_capacity(plan.rounds); contenders.len()];
    let share = 1.0 / contenders.len() as f64;
    let started = Instant::now();
    for round in 0..plan.warm_up + plan.rounds {
        for step in 0..contenders.len() {
            let index = if round % 2 == 0 {
                step
            } else {
                contenders.len() - 1 - step
            };
            if !plan.settle.is_zero() {
                std::thread::sleep(plan.settle);
            }
            let sample = (contenders[index].run)()?;
            if round >= plan.warm_up {
                samples[index].push(sample);
            }
            progress.advance(share);
        }
        let kept = (round + 1).saturating_sub(plan.warm_up);
        let late = plan
            .time_limit
            .is_some_and(|limit| started.elapsed() >= limit);
        if late && kept >= LEAST_ROUNDS {
            break;
        }
    }
    progress.finish_case();
    Ok(Samples {
        names: contenders.iter().map(|each| each.name.clone()).collect(),
        samples,
    })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn plan(warm_up: usize, rounds: usize) -> Plan {
        Plan {
            warm_up,
            rounds,
            time_limit: None,
            settle: Duration::ZERO,
        }
    }

    #[test]
    fn runs_alternate_and_warm_up_is_dropped() {
        let order = RefCell::new(String::new());
        let next = RefCell::new(0.0);
        let contender = |name: &'static str| {
            let (order, next) = (&order, &next);
            Contender::new(name, move || {
                order.borrow_mut().push_str(name);
                *next.borrow_mut() += 1.0;
                Ok(*next.borrow())
            })
        };
        let mut contenders = [contender("a"), contender("b")];
        let samples = interleave(&plan(1, 3), &Progress::silent(), &mut contenders)
            .expect("no contender fails");
        assert_eq!(*order.borrow(), "abbaabba");
        assert_eq!(samples.of(0), &[4.0, 5.0, 8.0]);
        assert_eq!(samples.of(1), &[3.0, 6.0, 7.0]);
        assert_eq!(samples.name(1), "b");
        assert_eq!(samples.contenders(), 2);
    }

    #[test]
    fn every_run_moves_the_progress_on() {
        let progress = Progress::silent();
        progress.expect(2, 3);
        let positions = RefCell::new(Vec::new());
        let contender = || {
            Contender::new("a", || {
                positions.borrow_mut().push(progress.position());
                Ok(1.0)
            })
        };
        let mut contenders = [contender(), contender(), contender(), contender()];
        interleave(&plan(1, 2), &progress, &mut contenders).expect("no contender fails");
        let quarters: Vec<f64> = (0..12).map(|run| f64::from(run) / 4.0).collect();
        assert_eq!(*positions.borrow(), quarters);
        assert_eq!(progress.position(), 3.0);
    }

    #[test]
    fn a_time_limit_still_keeps_two_rounds() {
        let mut limited = plan(2, 50);
        limited.time_limit = Some(Duration::ZERO);
        let mut contenders = [Contender::new("a", || Ok(1.0))];
        let samples =
            interleave(&limited, &Progress::silent(), &mut contenders).expect("it cannot fail");
        assert_eq!(samples.of(0).len(), LEAST_ROUNDS);
    }

    #[test]
    fn the_first_error_ends_the_measurement() {
        let mut contenders = [Contender::new("a", || {
            Err(BenchError::Print(std::io::Error::other("gone")))
        })];
        assert!(interleave(&plan(0, 1), &Progress::silent(), &mut contenders).is_err());
    }
}
