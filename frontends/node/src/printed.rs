//! The output of a session's kernels, on its way to the client.
//!
//! 1. The standard output of a session's process is a pipe. A [watch](Printed::take) empties it as
//!    bytes come, so a kernel that prints never waits for the client.
//! 2. The pipe is also emptied before ends are sent, once the session has a program that may print.
//!    So what a command has printed comes before its end.
//! 3. Bytes that the client has not acknowledged are kept by the stream, as all that it sends. They
//!    are bounded, as are those that were not sent yet. The rest is lost, and the client is told
//!    how much that is.

use crate::locked;
use crate::node::Shared;
use quipu_protocol::limits::{MAX_BUFFER, MAX_PRINTED};
use quipu_protocol::message::{self, Message};
use quipu_protocol::{EARLY, FEATURES, PRINTED};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Bytes that are kept until they are sent.
const MOST_KEPT: usize = 1 << 20;
/// Bytes of memory for what was sent and is not acknowledged.
const MOST_SENT: usize = 1 << 22;
/// Bytes of memory beside those, for messages that say what is lost.
const MOST_LOSSES: usize = 1 << 16;
/// Bytes of memory that a message takes beside what was printed: its frame's, and those by which it
/// is known.
const OVERHEAD: usize = 64;
/// Reads of the pipe in one go: more than it holds.
const READS: usize = 16;

/// See the module.
pub(crate) struct Printed {
    /// A program of the session may print.
    is_expected: AtomicBool,
    state: Mutex<State>,
}

struct State {
    /// Never waits.
    source: Box<dyn Read + Send>,
    kept: Vec<u8>,
    /// Bytes behind those that are kept.
    lost: u64,
    /// Numbers of messages that were sent, and their bytes.
    sent: VecDeque<(u64, usize)>,
    sent_bytes: usize,
    /// Has the session send what is kept.
    tell: Option<Box<dyn Fn() + Send>>,
}

#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "no process is a session's there")
)]
impl Printed {
    /// The output of a source that never waits.
    pub(crate) fn new(source: impl Read + Send + 'static) -> Self {
        Self {
            is_expected: AtomicBool::new(false),
            state: Mutex::new(State {
                source: Box::new(source),
                kept: Vec::new(),
                lost: 0,
                sent: VecDeque::new(),
                sent_bytes: 0,
                tell: None,
            }),
        }
    }

    /// A program has come that may print.
    pub(crate) fn expect(&self) {
        self.is_expected.store(true, Ordering::Relaxed);
    }

    /// Sets what has the session send. It is called by the thread that [takes](Self::take).
    pub(crate) fn tell(&self, tell: impl Fn() + Send + 'static) {
        locked(&self.state).tell = Some(Box::new(tell));
    }

    /// Empties the source. True if it goes on.
    pub(crate) fn take(&self) -> bool {
        let mut state = locked(&self.state);
        let goes_on = state.take();
        let tell = state.tell.take();
        drop(state);
        // Not locked: who is told has locks of its own while it sends.
        if let Some(tell) = tell {
            tell();
            locked(&self.state).tell.get_or_insert(tell);
        }
        goes_on
    }

    /// Sends all that was printed until now. `acknowledged` is the number of the last message that
    /// the client has; `push` gives the number of the message, or none if it cannot be sent. True
    /// if there was something.
    pub(crate) fn send(
        &self,
        acknowledged: impl FnOnce() -> u64,
        push: impl FnMut(&Message<'_>) -> Option<u64>,
    ) -> bool {
        if !self.is_expected.load(Ordering::Relaxed) {
            return false;
        }
        let mut state = locked(&self.state);
        state.take();
        state.send(acknowledged(), push)
    }
}

impl Shared {
    /// The output of kernels, if this process is a session's: it has their standard output.
    pub(crate) fn printed(&self) -> Option<&Arc<Printed>> {
        match self.home() {
            #[cfg(target_os = "linux")]
            crate::node::Home::Session(_, _, printed) => Some(printed),
            _ => None,
        }
    }

    /// The protocol's features of this process.
    pub(crate) fn features(&self) -> u64 {
        let printed = self.printed().map_or(PRINTED, |_| 0);
        // Only there are first words looked for.
        let early = if cfg!(target_os = "linux") { 0 } else { EARLY };
        FEATURES & !printed & !early
    }
}

impl State {
    /// Empties the source, but for what comes meanwhile. True if it goes on.
    fn take(&mut self) -> bool {
        let mut bytes = [0; MAX_PRINTED];
        for _ in 0..READS {
            match self.source.read(&mut bytes) {
                Ok(0) => return false,
                Ok(count) if self.lost > 0 || self.kept.len() + count > MOST_KEPT => {
                    self.lost += count as u64;
                }
                Ok(count) => self.kept.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        true
    }

    fn send(
        &mut self,
        acknowledged: u64,
        mut push: impl FnMut(&Message<'_>) -> Option<u64>,
    ) -> bool {
        while let Some((number, bytes)) = self.sent.front()
            && *number <= acknowledged
        {
            self.sent_bytes -= bytes;
            self.sent.pop_front();
        }
        let mut push = |state: &mut Self, lost, bytes: &[u8]| {
            let printed = message::Printed { lost, bytes };
            if let Some(number) = push(&Message::Printed(printed)) {
                let takes = OVERHEAD + bytes.len();
                state.sent.push_back((number, takes));
                state.sent_bytes += takes;
            }
        };
        let mut kept = &std::mem::take(&mut self.kept)[..];
        let mut is_any = false;
        while let Some(room) = MOST_SENT.checked_sub(self.sent_bytes + OVERHEAD)
            && let Some((now, rest)) = kept.split_at_checked(room.min(MAX_PRINTED).min(kept.len()))
            && !now.is_empty()
        {
            push(self, 0, now);
            (kept, is_any) = (rest, true);
        }
        self.lost += kept.len() as u64;
        if self.lost > 0 && self.sent_bytes + OVERHEAD <= MOST_SENT + MOST_LOSSES {
            let lost = std::mem::take(&mut self.lost).min(MAX_BUFFER);
            push(self, lost, &[]);
            is_any = true;
        }
        is_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    /// A pipe without a system: what was written, and nothing more for now.
    #[derive(Clone, Default)]
    struct Pipe(Arc<Mutex<VecDeque<u8>>>);

    impl Pipe {
        fn write(&self, bytes: &[u8]) {
            locked(&self.0).extend(bytes);
        }
    }

    impl Read for Pipe {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            match locked(&self.0).read(into)? {
                0 => Err(ErrorKind::WouldBlock.into()),
                count => Ok(count),
            }
        }
    }

    /// A client's share: bytes, and the number of bytes that were lost before so many of them.
    #[derive(Default)]
    struct Client {
        bytes: Vec<u8>,
        lost: Vec<(usize, u64)>,
        number: u64,
    }

    impl Client {
        fn take(&mut self, message: &Message<'_>) -> Option<u64> {
            message.check().unwrap();
            let Message::Printed(printed) = message else {
                panic!("{message:?}");
            };
            if printed.lost > 0 {
                self.lost.push((self.bytes.len(), printed.lost));
            }
            self.bytes.extend_from_slice(printed.bytes);
            self.number += 1;
            Some(self.number)
        }
    }

    #[test]
    fn what_was_printed_is_sent_once_and_in_order() {
        let pipe = Pipe::default();
        let (printed, mut client) = (Printed::new(pipe.clone()), Client::default());
        pipe.write(b"before a program");
        assert!(!printed.send(|| 0, |message| client.take(message)));
        printed.expect();
        assert!(printed.send(|| 0, |message| client.take(message)));
        assert!(!printed.send(|| 0, |message| client.take(message)));
        let much: Vec<u8> = (0..3 * MAX_PRINTED).map(|at| at as u8).collect();
        pipe.write(&much);
        assert!(printed.send(|| 0, |message| client.take(message)));
        assert_eq!(client.bytes, [b"before a program", &much[..]].concat());
        assert_eq!((client.lost.len(), client.number), (0, 4));
    }

    #[test]
    fn who_takes_has_the_session_send_without_a_lock() {
        let pipe = Pipe::default();
        let (printed, told) = (
            Arc::new(Printed::new(pipe.clone())),
            Arc::new(AtomicUsize::new(0)),
        );
        let (own, counted) = (Arc::downgrade(&printed), told.clone());
        printed.tell(move || {
            let printed = own.upgrade().unwrap();
            printed.send(
                || 0,
                |_| Some(counted.fetch_add(1, Ordering::Relaxed) as u64),
            );
        });
        let take = || {
            pipe.write(b"x");
            assert!(printed.take());
            told.load(Ordering::Relaxed)
        };
        // No program has come that may print.
        assert_eq!(take(), 0);
        printed.expect();
        assert_eq!([take(), take()], [1, 2]);
    }

    #[test]
    fn who_acknowledges_nothing_is_told_how_much_is_lost_and_fills_no_memory() {
        let pipe = Pipe::default();
        let (printed, mut client) = (Printed::new(pipe.clone()), Client::default());
        printed.expect();
        let (line, mut written) = ([b'x'; MAX_PRINTED], 0);
        let mut print = |client: &mut Client, acknowledged| {
            pipe.write(&line);
            written += line.len();
            printed.take();
            printed.send(|| acknowledged, |message| client.take(message));
            written
        };
        for _ in 0..2 * (MOST_SENT / MAX_PRINTED + MOST_LOSSES / OVERHEAD) {
            print(&mut client, 0);
        }
        let messages = MOST_SENT.div_ceil(OVERHEAD + MAX_PRINTED);
        assert_eq!(client.bytes.len(), MOST_SENT - messages * OVERHEAD);
        assert_eq!(client.lost.len(), MOST_LOSSES / OVERHEAD);
        // Then the loss is told first, and what comes after it is sent.
        let all = client.number;
        print(&mut client, all);
        let written = print(&mut client, all);
        assert_eq!(
            client.bytes.len(),
            MOST_SENT - messages * OVERHEAD + MAX_PRINTED
        );
        let lost: u64 = client.lost.iter().map(|(_, lost)| lost).sum();
        assert_eq!(client.bytes.len() as u64 + lost, written as u64);
    }

    #[test]
    fn messages_of_a_byte_count_with_all_that_they_take() {
        let pipe = Pipe::default();
        let (printed, mut client) = (Printed::new(pipe.clone()), Client::default());
        printed.expect();
        for _ in 0..MOST_SENT / OVERHEAD {
            pipe.write(b"x");
            printed.send(|| 0, |message| client.take(message));
        }
        assert_eq!(client.bytes.len(), MOST_SENT / (OVERHEAD + 1));
    }

    #[test]
    fn what_nobody_sends_is_bounded() {
        let pipe = Pipe::default();
        let (printed, mut client) = (Printed::new(pipe.clone()), Client::default());
        printed.expect();
        let line = [b'x'; MAX_PRINTED];
        for _ in 0..MOST_KEPT / MAX_PRINTED + 5 {
            pipe.write(&line);
            printed.take();
        }
        assert_eq!(locked(&printed.state).kept.len(), MOST_KEPT);
        printed.send(|| 0, |message| client.take(message));
        assert_eq!(client.bytes.len(), MOST_KEPT);
        assert_eq!(client.lost, [(MOST_KEPT, 5 * MAX_PRINTED as u64)]);
    }
}
