//! A session: the subject, the options and the progress bar that every benchmark gets.

use std::fmt::Display;
use std::time::Duration;

use crate::error::BenchError;
use crate::harness::{
    Contender, Machine, Options, Plan, Progress, Report, Row, Samples, Scale, interleave,
};
use crate::subject::Subject;

/// Time that all cases of a quick benchmark share; the rest of its ten seconds is for preparing.
const QUICK: Duration = Duration::from_millis(6500);

/// The pause before each run in which threads of the contender before fall asleep.
const SETTLE: Duration = Duration::from_millis(1);

/// One run of one benchmark.
pub struct Session<'a> {
    /// The runtime that is measured.
    pub subject: &'a dyn Subject,
    /// The user's options.
    pub options: &'a Options,
    /// Rounds done so far.
    pub progress: Progress,
    benchmark: &'static str,
}

impl<'a> Session<'a> {
    /// A session of the benchmark with this name.
    pub fn new(benchmark: &'static str, subject: &'a dyn Subject, options: &'a Options) -> Self {
        Session {
            subject,
            options,
            progress: Progress::new(benchmark),
            benchmark,
        }
    }

    /// The scale that the user chose.
    pub fn scale(&self) -> Scale {
        self.options.scale
    }

    /// The device column of every row.
    pub fn device(&self) -> String {
        self.subject.device()
    }

    /// The worker counts to measure.
    pub fn worker_counts(&self) -> Vec<usize> {
        let cores = Machine::describe().cores.unwrap_or(1);
        self.options.worker_counts(cores)
    }

    /// Says how many cases follow; returns the plan for each.
    pub fn begin(&self, cases: usize) -> Plan {
        let scale = self.scale();
        let rounds = self.options.runs.unwrap_or(scale.choose(9, 5, 2));
        let plan = Plan {
            warm_up: scale.choose(2, 1, 0),
            rounds,
            time_limit: match scale {
                Scale::Full => None,
                Scale::Quick | Scale::Tiny => {
                    Some(QUICK / u32::try_from(cases.max(1)).unwrap_or(u32::MAX))
                }
            },
            settle: scale.choose(SETTLE, SETTLE, Duration::ZERO),
        };
        self.progress.expect(cases, plan.warm_up + plan.rounds);
        plan
    }

    /// Runs contenders in turn as the plan says.
    ///
    /// # Errors
    /// The first error of a contender.
    pub fn measure(
        &self,
        plan: &Plan,
        contenders: &mut [Contender<'_>],
    ) -> Result<Samples, BenchError> {
        interleave(plan, &self.progress, contenders)
    }

    /// Adds a row to the report, and shows it to whoever waits for that.
    pub fn add(&self, report: &mut Report, row: Row) {
        self.progress.show(&row);
        report.rows.push(row);
    }

    /// Checks a result.
    ///
    /// # Errors
    /// [`BenchError::WrongResult`] if the two differ.
    pub fn verify<T: PartialEq + Display>(
        &self,
        case: &str,
        what: &str,
        expected: T,
        found: T,
    ) -> Result<(), BenchError> {
        if expected == found {
            Ok(())
        } else {
            Err(self.wrong(case, what, expected, found))
        }
    }

    /// The error for a result that is wrong.
    pub fn wrong(
        &self,
        case: &str,
        what: impl Into<String>,
        expected: impl Display,
        found: impl Display,
    ) -> BenchError {
        BenchError::WrongResult {
            benchmark: self.benchmark,
            case: case.into(),
            what: what.into(),
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }
}

/// Nanoseconds for each of `count` things.
pub fn nanoseconds_each(elapsed: Duration, count: usize) -> f64 {
    elapsed.as_secs_f64() * 1e9 / count.max(1) as f64
}

/// A number of things in words: `1 worker`, `2 workers`.
pub fn counted(count: usize, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        _ => format!("{count} {thing}s"),
    }
}
