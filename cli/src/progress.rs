//! Progress bars on a terminal, for work that takes longer than a second: reading a file, steps, or
//! work of unknown length.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Read};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time that an activity takes before it is shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// The interval at which the elapsed time is shown anew.
const TICK: Duration = Duration::from_millis(100);

/// The output for progress, and true if it is a terminal.
struct Screen {
    is_terminal: bool,
    target: ProgressDrawTarget,
}

impl Screen {
    fn stderr() -> Self {
        Self {
            is_terminal: io::stderr().is_terminal(),
            target: ProgressDrawTarget::stderr(),
        }
    }
}

/// Work that is shown until this is dropped: how many of its steps are done, if it has any.
pub(crate) struct Busy {
    bar: ProgressBar,
    /// Shows it when its time has come, unless it is over.
    shows: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Busy {
    /// Shows it once it has taken a second.
    pub(crate) fn new(what: &str, steps: u64) -> Self {
        Self::on(Screen::stderr(), what, steps, PATIENCE)
    }

    /// Shows it on a screen, once it has taken so long.
    fn on(screen: Screen, what: &str, steps: u64, patience: Duration) -> Self {
        let steps = (steps > 0).then_some(steps);
        let bar = ProgressBar::with_draw_target(steps, ProgressDrawTarget::hidden());
        bar.set_message(what.to_owned());
        let shows = screen.is_terminal.then(|| {
            let (over, watch) = channel();
            let bar = bar.clone();
            let shower = std::thread::spawn(move || {
                if watch.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                    show(&bar, steps.is_some(), screen.target);
                }
            });
            (over, shower)
        });
        Self { bar, shows }
    }

    /// A step is done.
    pub(crate) fn step(&self) {
        self.bar.inc(1);
    }
}

fn show(bar: &ProgressBar, has_steps: bool, target: ProgressDrawTarget) {
    bar.set_draw_target(target);
    let template = match has_steps {
        true => "{spinner} {msg} {wide_bar} {pos}/{len}, {elapsed}",
        false => "{spinner} {msg}, {elapsed}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(TICK);
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some((over, shower)) = self.shows.take() {
            drop(over);
            // It would have been a picture, no more.
            let _ = shower.join();
        }
        self.bar.finish_and_clear();
    }
}

/// A reader that shows how far it is. It stays silent where standard error is no terminal.
pub(crate) struct Watched<R> {
    inner: R,
    title: &'static str,
    length: u64,
    position: u64,
    /// The screen for it, until it is shown.
    screen: Option<Screen>,
    started: Instant,
    bar: Option<ProgressBar>,
}

impl<R> Watched<R> {
    /// Watches `inner`, which has `length` bytes.
    pub(crate) fn new(inner: R, title: &'static str, length: u64) -> Self {
        Self {
            inner,
            title,
            length,
            position: 0,
            screen: Some(Screen::stderr()),
            started: Instant::now(),
            bar: None,
        }
    }

    /// Shows how far it is after so long, if it is time to.
    fn show(&mut self, elapsed: Duration) {
        if elapsed >= PATIENCE
            && let Some(screen) = self.screen.take_if(|screen| screen.is_terminal)
        {
            self.bar = Some(bar(self.title, self.length, screen.target));
        }
        if let Some(bar) = &self.bar {
            bar.set_position(self.position);
        }
    }
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.position += count as u64;
        self.show(self.started.elapsed());
        Ok(count)
    }
}

fn bar(title: &'static str, length: u64, target: ProgressDrawTarget) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length), target);
    if let Ok(style) =
        ProgressStyle::with_template("{prefix} {wide_bar} {bytes}/{total_bytes} ({eta})")
    {
        bar.set_style(style);
    }
    bar.set_prefix(title);
    bar
}

impl<R> Drop for Watched<R> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::sync::mpsc::Receiver;

    /// A terminal whose output the test gets.
    #[derive(Debug)]
    struct Terminal(Sender<String>);

    impl TermLike for Terminal {
        fn width(&self) -> u16 {
            80
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
            self.write_str(line)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            // A receiver that is gone has seen enough.
            let _ = self.0.send(text.to_owned());
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            self.write_str("(cleared)")
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A screen, which is a terminal or is taken for none, and its output.
    fn screen(is_terminal: bool) -> (Screen, Receiver<String>) {
        let (write, written) = channel();
        let target = ProgressDrawTarget::term_like(Box::new(Terminal(write)));
        let screen = Screen {
            is_terminal,
            target,
        };
        (screen, written)
    }

    #[test]
    fn steps_are_counted_before_they_are_shown() {
        let busy = Busy::new("working", 3);
        busy.step();
        busy.step();
        assert_eq!((busy.bar.position(), busy.bar.length()), (2, Some(3)));
        assert_eq!(Busy::new("working", 0).bar.length(), None);
    }

    #[test]
    fn what_is_read_is_what_is_there() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut watched = Watched::new(&bytes[..], "reading", 256);
        let mut read = Vec::new();
        watched.read_to_end(&mut read).expect("reading memory");
        assert_eq!((read, watched.position), (bytes.clone(), 256));
    }

    #[test]
    fn work_that_takes_too_long_is_shown_until_it_is_over() {
        for steps in [0, 7] {
            let (screen, written) = screen(true);
            let busy = Busy::on(screen, "making it", steps, Duration::ZERO);
            // By a thread of its own: this one is busy.
            let mut shown = written.recv().unwrap();
            while !shown.contains("making it") {
                shown.push_str(&written.recv().unwrap());
            }
            assert_eq!(shown.contains("0/7"), steps == 7, "{shown}");
            drop(busy);
            let rest: Vec<String> = written.iter().collect();
            let cleared = rest.iter().rposition(|text| text == "(cleared)");
            let after = &rest[cleared.unwrap()..];
            assert!(!after.concat().contains("making it"), "{rest:?}");
        }
    }

    #[test]
    fn work_that_is_over_sooner_or_that_no_terminal_sees_is_not_shown() {
        for (is_terminal, patience) in [(true, Duration::MAX), (false, Duration::ZERO)] {
            let (screen, written) = screen(is_terminal);
            let busy = Busy::on(screen, "making it", 7, patience);
            // No thread waits to show progress that no terminal would show.
            assert_eq!(busy.shows.is_some(), is_terminal);
            busy.step();
            // Others that begin later have long been shown.
            for _ in 0..10 {
                let (screen, written) = self::screen(true);
                let _other = Busy::on(screen, "another", 0, Duration::ZERO);
                assert_ne!(written.recv().unwrap(), "");
            }
            drop(busy);
            let all: String = written.iter().collect();
            assert_eq!(all, "");
        }
    }

    #[test]
    fn what_is_read_for_more_than_a_second_is_shown_on_a_terminal() {
        let just_before = Duration::from_millis(999);
        let second = Duration::from_secs(1);
        for (is_terminal, elapsed, is_shown) in [
            (true, just_before, false),
            (true, second, true),
            (false, second, false),
        ] {
            let (screen, written) = screen(is_terminal);
            let mut watched = Watched::new(&[0; 0][..], "reading", 200);
            (watched.screen, watched.position) = (Some(screen), 150);
            watched.show(elapsed);
            assert_eq!(watched.bar.is_some(), is_shown);
            // From then on each read moves it on.
            watched.position = 160;
            watched.show(elapsed + second.saturating_sub(elapsed) / 2);
            let position = watched.bar.as_ref().map(ProgressBar::position);
            assert_eq!(position, is_shown.then_some(160));
            drop(watched);
            let all: String = written.iter().collect();
            assert_eq!(all.contains("reading"), is_shown, "{all}");
            assert_eq!(all.contains("150 B/200 B"), is_shown, "{all}");
        }
    }

    #[test]
    fn standard_error_is_where_things_are_shown_if_it_is_a_terminal() {
        let is_terminal = io::stderr().is_terminal();
        assert_eq!(Busy::new("working", 3).shows.is_some(), is_terminal);
        let watched = Watched::new(io::empty(), "reading", 0);
        let screen = watched.screen.as_ref().unwrap();
        assert_eq!(screen.is_terminal, is_terminal);
        assert_eq!(PATIENCE, Duration::from_secs(1));
    }
}
