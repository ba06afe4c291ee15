//! A progress bar on standard error for what takes longer than a second.
//!
//! It is redrawn between runs only: a thread that redraws would be measured as well. It stays away
//! where standard error is no terminal.

use std::cell::{Cell, OnceCell};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How long a benchmark runs before its bar appears.
const PATIENCE: Duration = Duration::from_secs(1);

/// Counts rounds of measurement over all cases of a benchmark.
pub struct Progress {
    title: String,
    visible: bool,
    started: Instant,
    cases: Cell<u64>,
    rounds_per_case: Cell<u64>,
    finished_cases: Cell<u64>,
    position: Cell<u64>,
    bar: OnceCell<ProgressBar>,
}

impl Progress {
    /// Progress of the benchmark with this name.
    pub fn new(title: impl Into<String>) -> Self {
        Progress::with_visibility(title.into(), std::io::stderr().is_terminal())
    }

    /// Progress that nobody sees.
    pub fn silent() -> Self {
        Progress::with_visibility(String::new(), false)
    }

    fn with_visibility(title: String, visible: bool) -> Self {
        Progress {
            title,
            visible,
            started: Instant::now(),
            cases: Cell::new(0),
            rounds_per_case: Cell::new(0),
            finished_cases: Cell::new(0),
            position: Cell::new(0),
            bar: OnceCell::new(),
        }
    }

    /// Says how much there is to do.
    pub fn expect(&self, cases: usize, rounds_per_case: usize) {
        self.cases.set(cases as u64);
        self.rounds_per_case.set(rounds_per_case as u64);
    }

    /// One round is done.
    pub fn advance(&self) {
        self.position.set(self.position.get() + 1);
        self.draw();
    }

    /// A case is done, perhaps in fewer rounds than expected.
    pub fn finish_case(&self) {
        self.finished_cases.set(self.finished_cases.get() + 1);
        self.position
            .set(self.finished_cases.get() * self.rounds_per_case.get());
        self.draw();
    }

    /// Rounds done so far, counting those that finished cases did not need.
    pub fn position(&self) -> u64 {
        self.position.get()
    }

    fn draw(&self) {
        if !self.visible || self.started.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_init(|| {
            let length = self.cases.get() * self.rounds_per_case.get();
            let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
            if let Ok(style) =
                ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {elapsed} ({eta})")
            {
                bar.set_style(style);
            }
            bar.set_prefix(self.title.clone());
            bar
        });
        bar.set_position(self.position.get());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_cut_short_counts_in_full() {
        let progress = Progress::silent();
        progress.expect(2, 10);
        progress.advance();
        progress.advance();
        assert_eq!(progress.position(), 2);
        progress.finish_case();
        assert_eq!(progress.position(), 10);
        progress.finish_case();
        assert_eq!(progress.position(), 20);
    }
}
