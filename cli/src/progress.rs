//! A bar on standard error for a file that takes longer than a second to read.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Read};
use std::time::{Duration, Instant};

/// How long a file is read before the bar appears.
const PATIENCE: Duration = Duration::from_secs(1);

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
    fn what_is_read_is_what_is_there() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut watched = Watched::new(&bytes[..], "reading", 256);
        let mut read = Vec::new();
        watched.read_to_end(&mut read).expect("reading memory");
        assert_eq!((read, watched.position), (bytes.clone(), 256));
    }
}
