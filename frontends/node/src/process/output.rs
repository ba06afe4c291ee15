//! A session's standard error, which the node passes on to its own.
//!
//! A client's code may write to it. So each line has the session's number in front, no control characters, and a bounded length; and
//! lines beyond a rate are counted instead. What is a terminal or a file for the node is a pipe for its sessions.

use quipu_protocol::message::presentable;
use quipu_threads::Start;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, PipeReader, Read, Write};
use std::time::{Duration, Instant};

/// Bytes of a line, at most; the rest is another line.
const LONGEST: usize = 4096;

/// Bytes at once, at most.
const BURST: f64 = (1 << 20) as f64;

/// Bytes in a second, over time.
const RATE: f64 = (64 << 10) as f64;

/// How many bytes may come.
struct Allowance {
    bytes: f64,
    last: Duration,
}

impl Allowance {
    /// Takes so many bytes at this time. False if there are not that many.
    fn take(&mut self, bytes: usize, now: Duration) -> bool {
        let passed = now.saturating_sub(self.last).as_secs_f64();
        self.last = now;
        self.bytes = (self.bytes + passed * RATE).min(BURST);
        let has = self.bytes >= bytes as f64;
        if has {
            self.bytes -= bytes as f64;
        }
        has
    }
}

/// Has a thread pass a session's lines on until all its processes have closed the pipe.
///
/// # Errors
/// If the system gives no thread.
pub(super) fn pass_on(session: u64, from: PipeReader) -> std::io::Result<()> {
    let began = Instant::now();
    std::thread::Builder::new()
        .name("quipu-output".to_owned())
        .stack_size(1 << 16)
        .start(move || {
            pass_lines_on(session, from, &mut std::io::stderr(), || began.elapsed());
        })?;
    Ok(())
}

fn pass_lines_on(session: u64, from: impl Read, to: &mut impl Write, clock: impl Fn() -> Duration) {
    let mut from = BufReader::with_capacity(LONGEST, from);
    let mut allowance = Allowance {
        bytes: BURST,
        last: clock(),
    };
    let (mut line, mut left_out) = (Vec::new(), 0_u64);
    loop {
        line.clear();
        let read = from
            .by_ref()
            .take(LONGEST as u64)
            .read_until(b'\n', &mut line);
        let is_over = !matches!(read, Ok(1..));
        let mut text = String::new();
        let is_taken = !is_over && allowance.take(line.len(), clock());
        if left_out > 0 && (is_over || is_taken) {
            // A string takes all.
            let _ = writeln!(text, "session {session}: {left_out} lines were left out");
            left_out = 0;
        }
        if is_taken {
            let line = String::from_utf8_lossy(line.trim_ascii_end());
            let line = presentable(&line, LONGEST);
            let _ = writeln!(text, "session {session}: {line}");
        } else if !is_over {
            left_out += 1;
        }
        // Where the node's own output is closed, there is nobody to hear it.
        let _ = to.write_all(text.as_bytes());
        if is_over {
            return;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]
mod tests {
    use super::*;

    fn passed(from: &[u8], clock: impl Fn() -> Duration) -> String {
        let mut to = Vec::new();
        pass_lines_on(7, from, &mut to, clock);
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn lines_say_whose_they_are_and_have_no_control_characters() {
        let text = b"first\n\x1b[2Jsecond\xff\n\nlast";
        let expected =
            "session 7: first\nsession 7:  [2Jsecond\u{fffd}\nsession 7: \nsession 7: last\n";
        assert_eq!(passed(text, || Duration::ZERO), expected);
        // A long line cannot pretend to be another's.
        let long = [b'x'; 3 * LONGEST];
        let said = passed(&long, || Duration::ZERO);
        assert_eq!(said.lines().count(), 3);
        assert!(said.lines().all(|line| line.starts_with("session 7: x")));
    }

    #[test]
    fn lines_beyond_the_rate_are_counted_and_others_pass_later() {
        let line = [[b'x'; LONGEST - 1].as_slice(), b"\n"].concat();
        let fit = BURST as usize / LONGEST;
        let text = line.repeat(fit + 10);
        let said = passed(&text, || Duration::ZERO);
        assert_eq!(said.lines().count(), fit + 1);
        assert!(said.ends_with("session 7: 10 lines were left out\n"));
        // As much as it allows comes in a second.
        let seconds = std::cell::Cell::new(0);
        let second_each = || {
            seconds.set(seconds.get() + 1);
            Duration::from_secs(seconds.get())
        };
        assert_eq!(passed(&text, second_each).lines().count(), fit + 10);
    }
}
