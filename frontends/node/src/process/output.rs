//! A session's standard error, which the node passes on to its own.
//!
//! A client's code may write to it. So each line has the session's number in front, no control
//! characters, and a bounded length; and lines beyond a client's rate are counted instead, in
//! whichever of its sessions they come. The node's standard error may be a terminal or a file; that
//! of its sessions is a pipe.

use crate::locked;
use quipu_link::Fingerprint;
use quipu_protocol::message::presentable;
use quipu_threads::Start;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, PipeReader, Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Bytes of a line, at most; the rest is another line.
const LONGEST: usize = 4096;

/// Bytes at once, at most.
const BURST: f64 = (256 << 10) as f64;

/// Bytes in a second, over time: 84 MiB a day.
const RATE: f64 = (1 << 10) as f64;

/// Bytes that a short line counts for: the session's number stands before it, and it may follow a
/// line of its own about lines that were left out.
const LEAST: usize = 64;

/// Clients whose allowance is kept though it is whole, at most.
const KEPT: usize = 1024;

/// The number of bytes that may come of a client's sessions.
#[derive(Debug)]
struct Allowance {
    bytes: f64,
    last: Duration,
}

impl Allowance {
    fn whole(now: Duration) -> Self {
        Self {
            bytes: BURST,
            last: now,
        }
    }

    /// Gives what has come about since the last time.
    fn at(&mut self, now: Duration) -> &mut f64 {
        let passed = now.saturating_sub(self.last).as_secs_f64();
        self.last = now;
        self.bytes = (self.bytes + passed * RATE).min(BURST);
        &mut self.bytes
    }

    /// Takes so many bytes at this time. False if there are not that many.
    fn take(&mut self, bytes: usize, now: Duration) -> bool {
        let left = self.at(now);
        let has = *left >= bytes as f64;
        if has {
            *left -= bytes as f64;
        }
        has
    }
}

/// The allowances of clients. A client's next session begins with what the last has left.
#[derive(Debug)]
pub(super) struct Outputs {
    began: Instant,
    clients: Mutex<HashMap<Fingerprint, Arc<Mutex<Allowance>>>>,
}

impl Outputs {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            clients: Mutex::default(),
        }
    }

    fn allowance(&self, client: Fingerprint, now: Duration) -> Arc<Mutex<Allowance>> {
        let mut clients = locked(&self.clients);
        if clients.len() >= KEPT {
            // Those that are as new ones are.
            clients.retain(|_, one| Arc::strong_count(one) > 1 || *locked(one).at(now) < BURST);
        }
        let whole = || Arc::new(Mutex::new(Allowance::whole(now)));
        Arc::clone(clients.entry(client).or_insert_with(whole))
    }

    /// Has a thread pass the lines of a client's session on until all its processes have closed the
    /// pipe.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(super) fn pass_on(
        &self,
        (client, session): (Fingerprint, u64),
        from: PipeReader,
    ) -> std::io::Result<()> {
        let began = self.began;
        let allowance = self.allowance(client, began.elapsed());
        std::thread::Builder::new()
            .name("quipu-output".to_owned())
            .stack_size(1 << 16)
            .start(move || {
                let take = |bytes| locked(&allowance).take(bytes, began.elapsed());
                pass_lines_on(session, from, &mut std::io::stderr(), take);
            })?;
        Ok(())
    }
}

/// Passes lines on, of those of which so many bytes may be taken.
fn pass_lines_on(
    session: u64,
    from: impl Read,
    to: &mut impl Write,
    mut take: impl FnMut(usize) -> bool,
) {
    let mut from = BufReader::with_capacity(LONGEST, from);
    let (mut line, mut left_out) = (Vec::new(), 0_u64);
    loop {
        line.clear();
        let read = from
            .by_ref()
            .take(LONGEST as u64)
            .read_until(b'\n', &mut line);
        let is_over = !matches!(read, Ok(1..));
        let mut text = String::new();
        let is_taken = !is_over && take(line.len().max(LEAST));
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
mod tests {
    use super::*;

    fn passed(from: &[u8], clock: impl Fn() -> Duration) -> String {
        let mut allowance = Allowance::whole(clock());
        passed_within(from, &mut allowance, clock)
    }

    fn passed_within(
        from: &[u8],
        allowance: &mut Allowance,
        clock: impl Fn() -> Duration,
    ) -> String {
        let mut to = Vec::new();
        pass_lines_on(7, from, &mut to, |bytes| allowance.take(bytes, clock()));
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
        // As much as it allows comes in four seconds.
        let seconds = std::cell::Cell::new(0);
        let four_seconds_each = || {
            seconds.set(seconds.get() + LONGEST as u64 / RATE as u64);
            Duration::from_secs(seconds.get())
        };
        assert_eq!(passed(&text, four_seconds_each).lines().count(), fit + 10);
    }

    #[test]
    fn a_client_whose_sessions_begin_anew_says_no_more_than_one_that_goes_on() {
        let outputs = Outputs::new();
        let client = |number: u64| {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&number.to_le_bytes());
            Fingerprint::of_bytes(bytes)
        };
        let line = [[b'x'; LONGEST - 1].as_slice(), b"\n"].concat();
        let fit = BURST as usize / LONGEST;
        let mut said = 0;
        for _ in 0..2 * fit {
            let allowance = outputs.allowance(client(0), Duration::ZERO);
            let text = passed_within(&line, &mut locked(&allowance), || Duration::ZERO);
            said += usize::from(text.contains('x'));
        }
        assert_eq!(said, fit);
        // However many others there are.
        let other = outputs.allowance(client(1), Duration::ZERO);
        for number in 2..3 * KEPT as u64 {
            outputs.allowance(client(number), Duration::ZERO);
        }
        assert!(locked(&outputs.clients).len() <= KEPT + 2);
        let of = |number| outputs.allowance(client(number), Duration::ZERO);
        assert!(!locked(&of(0)).take(1, Duration::ZERO));
        assert!(Arc::ptr_eq(&of(1), &other));
    }
}
