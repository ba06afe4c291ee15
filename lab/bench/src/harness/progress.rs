//! A progress bar on standard error for work that takes longer than a second, below the rows that
//! have been measured.
//!
//! It is redrawn between runs only: a thread that redraws would be measured as well. It stays away
//! where standard error is no terminal.

use std::cell::{Cell, OnceCell, RefCell};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::harness::Row;
use crate::harness::table::to_line;

/// The time for which a benchmark runs before its bar appears.
const PATIENCE: Duration = Duration::from_secs(1);

/// The number of parts of a round that the bar tells apart.
const PARTS: f64 = 1000.0;

/// Counts rounds of measurement over all cases of a benchmark, and parts of rounds.
pub struct Progress {
    title: String,
    /// The terminal for the bar, if there is one.
    screen: Cell<Option<ProgressDrawTarget>>,
    patience: Duration,
    started: Instant,
    cases: Cell<u64>,
    rounds_per_case: Cell<u64>,
    finished_cases: Cell<u64>,
    position: Cell<f64>,
    /// Rows that are to be shown once there is a bar.
    rows: RefCell<Vec<String>>,
    bar: OnceCell<ProgressBar>,
}

impl Progress {
    /// Progress of the benchmark with this name.
    pub fn new(title: impl Into<String>) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let screen = is_terminal.then(ProgressDrawTarget::stderr);
        Progress::on(screen, title.into(), PATIENCE)
    }

    /// Progress that nobody sees.
    pub fn silent() -> Self {
        Progress::on(None, String::new(), PATIENCE)
    }

    fn on(screen: Option<ProgressDrawTarget>, title: String, patience: Duration) -> Self {
        Progress {
            title,
            screen: Cell::new(screen),
            patience,
            started: Instant::now(),
            cases: Cell::new(0),
            rounds_per_case: Cell::new(0),
            finished_cases: Cell::new(0),
            position: Cell::new(0.0),
            rows: RefCell::default(),
            bar: OnceCell::new(),
        }
    }

    /// Says how much there is to do.
    pub fn expect(&self, cases: usize, rounds_per_case: usize) {
        self.cases.set(cases as u64);
        self.rounds_per_case.set(rounds_per_case as u64);
    }

    /// That share of a round is done: all of it, or one contender's run of several.
    pub fn advance(&self, share: f64) {
        self.position.set(self.position.get() + share);
        self.draw();
    }

    /// A case is done, perhaps in fewer rounds than expected.
    pub fn finish_case(&self) {
        self.finished_cases.set(self.finished_cases.get() + 1);
        let rounds = self.finished_cases.get() * self.rounds_per_case.get();
        self.position.set(rounds as f64);
        self.draw();
    }

    /// A row has been measured: whoever waits for the table sees it already.
    pub fn show(&self, row: &Row) {
        self.rows.borrow_mut().push(to_line(row));
        self.draw();
    }

    /// Rounds done so far, counting those that finished cases did not need.
    pub fn position(&self) -> f64 {
        self.position.get()
    }

    fn draw(&self) {
        let Some(bar) = self.bar() else { return };
        bar.set_position((self.position.get() * PARTS) as u64);
        bar.set_message(self.case());
        for row in self.rows.take() {
            bar.println(row);
        }
    }

    /// The case that is measured, in words.
    fn case(&self) -> String {
        let case = self.cases.get().min(self.finished_cases.get() + 1);
        format!("case {case} of {}", self.cases.get())
    }

    /// The bar, if it is time for one.
    fn bar(&self) -> Option<&ProgressBar> {
        if self.started.elapsed() < self.patience {
            return None;
        }
        if let Some(screen) = self.screen.take() {
            let length = (self.cases.get() * self.rounds_per_case.get()) as f64 * PARTS;
            let bar = ProgressBar::with_draw_target(Some(length as u64), screen)
                .with_prefix(self.title.clone())
                .with_message(self.case());
            if let Ok(style) = ProgressStyle::with_template(
                "{prefix} {msg} {wide_bar} {percent} % {elapsed} ({eta})",
            ) {
                bar.set_style(style);
            }
            return Some(self.bar.get_or_init(|| bar));
        }
        self.bar.get()
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
    use std::io;
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    use super::*;

    /// A terminal, and what has been written there.
    #[derive(Clone, Debug, Default)]
    struct Terminal(Arc<Mutex<String>>);

    impl Terminal {
        /// The text that was written since the last call.
        fn written(&self) -> String {
            std::mem::take(&mut self.0.lock().expect("nobody panics with it"))
        }

        fn progress(&self, patience: Duration) -> Progress {
            let screen = ProgressDrawTarget::term_like(Box::new(self.clone()));
            Progress::on(Some(screen), "no-op".into(), patience)
        }
    }

    impl TermLike for Terminal {
        fn width(&self) -> u16 {
            100
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, line: &str) -> io::Result<()> {
            self.write_str(line)?;
            self.write_str("\n")
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            let mut written = self.0.lock().expect("nobody panics with it");
            written.push_str(text);
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            self.write_str("(cleared)")
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn row(case: &str) -> Row {
        Row::new(case, "cpu", 1, "µs", &[1.0])
    }

    #[test]
    fn a_case_cut_short_counts_in_full() {
        let progress = Progress::silent();
        progress.expect(2, 10);
        progress.advance(1.0);
        progress.advance(0.5);
        progress.advance(0.5);
        assert_eq!(progress.position(), 2.0);
        progress.finish_case();
        assert_eq!(progress.position(), 10.0);
        progress.finish_case();
        assert_eq!(progress.position(), 20.0);
    }

    #[test]
    fn the_bar_moves_with_parts_of_rounds_and_is_gone_with_the_last() {
        let terminal = Terminal::default();
        let progress = terminal.progress(Duration::ZERO);
        progress.expect(2, 2);
        progress.advance(0.5);
        let bar = progress.bar().expect("it has been drawn");
        assert_eq!((bar.position(), bar.length()), (500, Some(4000)));
        let shown = terminal.written();
        assert!(shown.contains("no-op case 1 of 2"), "{shown:?}");
        progress.finish_case();
        assert_eq!(
            (bar.position(), bar.message()),
            (2000, "case 2 of 2".into())
        );
        progress.finish_case();
        assert_eq!(
            (bar.position(), bar.message()),
            (4000, "case 2 of 2".into())
        );
        terminal.written();
        drop(progress);
        let last = terminal.written();
        assert!(
            last.contains("(cleared)") && !last.contains("no-op"),
            "{last:?}"
        );
    }

    #[test]
    fn rows_are_shown_when_they_are_measured() {
        let terminal = Terminal::default();
        let progress = terminal.progress(Duration::ZERO);
        progress.expect(2, 1);
        for case in ["first", "second"] {
            progress.advance(1.0);
            progress.finish_case();
            terminal.written();
            progress.show(&row(case));
            let shown = terminal.written();
            let line = format!("{case}, cpu, 1 worker: 1.00 µs");
            assert_eq!(shown.matches(&line).count(), 1, "{shown:?}");
            // Above the bar.
            assert!(shown.find(&line) < shown.rfind("no-op"), "{shown:?}");
        }
    }

    #[test]
    fn what_takes_no_time_is_not_shown() {
        let terminal = Terminal::default();
        let progress = terminal.progress(Duration::MAX);
        progress.expect(1, 1);
        progress.advance(1.0);
        progress.show(&row("quick"));
        progress.finish_case();
        drop(progress);
        assert_eq!(terminal.written(), "");
    }
}
