//! What standard error shows of things that take longer than a second, where it is a terminal: of a file that is read, of
//! work in steps, and of work of which nobody knows how far it is.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Read};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long something takes before it is shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often the time it has taken is shown anew.
const TICK: Duration = Duration::from_millis(100);

/// Work that is shown until this is dropped: how many of its steps are done, if it has any.
pub(crate) struct Busy {
    bar: ProgressBar,
    /// Shows it when its time has come, unless it is over.
    shows: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Busy {
    /// Shows it once it has taken a second.
    pub(crate) fn new(what: &str, steps: u64) -> Self {
        let steps = (steps > 0).then_some(steps);
        let bar = ProgressBar::with_draw_target(steps, ProgressDrawTarget::hidden());
        bar.set_message(what.to_owned());
        let shows = io::stderr().is_terminal().then(|| {
            let (over, watch) = channel();
            let bar = bar.clone();
            let shower = std::thread::spawn(move || {
                if watch.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                    show(&bar, steps.is_some());
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

fn show(bar: &ProgressBar, has_steps: bool) {
    bar.set_draw_target(ProgressDrawTarget::stderr());
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
    visible: bool,
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
            visible: io::stderr().is_terminal(),
            started: Instant::now(),
            bar: None,
        }
    }
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.position += count as u64;
        if self.visible && self.started.elapsed() >= PATIENCE {
            let bar = self.bar.get_or_insert_with(|| bar(self.title, self.length));
            bar.set_position(self.position);
        }
        Ok(count)
    }
}

fn bar(title: &'static str, length: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
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
}
