//! The bulk stream: bytes of writes as they come, and of reads as they are ready.

use super::landing::Landing;
use crate::locked;
use quipu_core::UserEvent;
use quipu_link::LinkError;
use quipu_link::stream::{Incoming, Outgoing};
use quipu_wire::message::{Chunk, Message};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Bytes of a chunk, at most.
const CHUNK: usize = 1 << 17;

/// Bytes that may lie unwritten before the next chunk is made.
const AHEAD: usize = 4 * CHUNK;

/// See the module.
#[derive(Default)]
pub(crate) struct Bulk {
    state: Mutex<State>,
    /// A transfer was named, or bytes are to be sent, or it is over.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Writes whose bytes are on their way.
    writes: HashMap<u64, Write>,
    /// Reads that are not over.
    reads: HashMap<u64, Read>,
    ready: VecDeque<(u64, Range<usize>, Arc<Landing>)>,
    last_named: u64,
    /// Bytes of transfers that are not over, in and out.
    bytes: [u64; 2],
    out: Option<Outgoing>,
    closed: bool,
}

/// A write whose bytes are on their way.
pub(crate) struct Write {
    /// Where to; nowhere if the command has failed.
    pub(crate) landing: Option<Arc<Landing>>,
    /// How many.
    pub(crate) length: u64,
    /// How many have come.
    pub(crate) received: u64,
    /// What is brought about when so many have come, in order.
    pub(crate) pieces: VecDeque<(u64, UserEvent)>,
    /// Whether its bytes count.
    pub(crate) is_reserved: bool,
}

/// A read that is not over.
struct Read {
    landing: Arc<Landing>,
    /// The ends of its pieces, and whether each is ready.
    pieces: Vec<(usize, bool)>,
    /// The next piece to be sent.
    next: usize,
}

impl State {
    fn name(&mut self, transfer: u64) -> bool {
        let is_new = transfer > self.last_named;
        self.last_named = self.last_named.max(transfer);
        is_new
    }
}

impl Bulk {
    /// True if a transfer of so many bytes may be begun, whose bytes then count.
    pub(crate) fn reserve(&self, is_read: bool, bytes: u64, most: u64) -> bool {
        let mut state = locked(&self.state);
        let all = &mut state.bytes[usize::from(is_read)];
        let Some(more) = all.checked_add(bytes).filter(|more| *more <= most) else {
            return false;
        };
        *all = more;
        true
    }

    /// Bytes that do not count after all.
    pub(crate) fn give_back(&self, is_read: bool, bytes: u64) {
        let all = &mut locked(&self.state).bytes[usize::from(is_read)];
        *all = all.saturating_sub(bytes);
    }

    /// A write has named a transfer, whose bytes are expected from here on. False if it is not larger than all before.
    pub(crate) fn expect(&self, transfer: u64, write: Write) -> bool {
        let mut state = locked(&self.state);
        let is_new = state.name(transfer);
        if is_new && !state.closed {
            state.writes.insert(transfer, write);
        }
        drop(state);
        self.changed.notify_all();
        is_new
    }

    /// A read has named a transfer; the ends of its pieces. False if it is not larger than all before.
    pub(crate) fn begin_read(&self, transfer: u64, landing: Arc<Landing>, ends: &[usize]) -> bool {
        let pieces = ends.iter().map(|end| (*end, false)).collect();
        let read = Read {
            landing,
            pieces,
            next: 0,
        };
        let mut state = locked(&self.state);
        let is_new = state.name(transfer);
        if is_new && !state.closed {
            state.reads.insert(transfer, read);
        }
        is_new
    }

    /// A read that fails at once has named a transfer. False if it is not larger than all before.
    pub(crate) fn name(&self, transfer: u64) -> bool {
        locked(&self.state).name(transfer)
    }

    /// A piece of a read is ready: it is sent after those before it.
    pub(crate) fn piece_is_ready(&self, transfer: u64, piece: usize) {
        let mut state = locked(&self.state);
        let State { reads, ready, .. } = &mut *state;
        let Some(read) = reads.get_mut(&transfer) else {
            return;
        };
        read.pieces[piece].1 = true;
        while let Some((end, true)) = read.pieces.get(read.next) {
            let start = match read.next {
                0 => 0,
                next => read.pieces[next - 1].0,
            };
            ready.push_back((transfer, start..*end, read.landing.clone()));
            read.next += 1;
        }
        if read.next == read.pieces.len() {
            reads.remove(&transfer);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// A read has failed: what is not sent of it never is.
    pub(crate) fn read_failed(&self, transfer: u64) {
        let mut state = locked(&self.state);
        if let Some(read) = state.reads.remove(&transfer) {
            let sent = match read.next {
                0 => 0,
                next => read.pieces[next - 1].0,
            };
            let left = (read.landing.len() - sent) as u64;
            state.bytes[1] = state.bytes[1].saturating_sub(left);
        }
    }

    /// Nothing moves any more, and what waits for bytes fails.
    pub(crate) fn close(&self, reason: &str) {
        let mut state = locked(&self.state);
        state.closed = true;
        let writes = std::mem::take(&mut state.writes);
        state.reads.clear();
        state.ready.clear();
        let out = state.out.take();
        drop(state);
        self.changed.notify_all();
        if let Some(out) = out {
            out.abort(reason);
        }
        let pieces = writes.into_values().flat_map(|write| write.pieces);
        pieces.for_each(|(_, event)| event.fail(reason));
    }

    /// Cuts the connection, as a network may.
    pub(crate) fn cut(&self, reason: &str) {
        let out = locked(&self.state).out.clone();
        if let Some(out) = out {
            out.cut(reason);
        }
    }

    /// Sees to the stream, until it ends. `go_on` says whether it goes on after an error.
    pub(crate) fn run(
        &self,
        mut incoming: Incoming,
        out: Outgoing,
        go_on: impl FnMut(&mut Incoming, LinkError) -> Result<(), LinkError>,
    ) -> Result<(), LinkError> {
        {
            let mut state = locked(&self.state);
            if state.closed {
                return Ok(());
            }
            state.out = Some(out.clone());
        }
        std::thread::scope(|scope| {
            let sender = std::thread::Builder::new().name("quipu-bulk".to_owned());
            let sending = sender.spawn_scoped(scope, || self.send(&out));
            let ended = match sending {
                Ok(_) => self.receive(&mut incoming, go_on),
                Err(error) => {
                    tracing::error!(%error, "no thread for a bulk stream");
                    Ok(())
                }
            };
            self.close("the session's bulk stream has ended");
            ended
        })
    }

    /// Takes what comes.
    fn receive(
        &self,
        incoming: &mut Incoming,
        mut go_on: impl FnMut(&mut Incoming, LinkError) -> Result<(), LinkError>,
    ) -> Result<(), LinkError> {
        loop {
            let taken = incoming.receive(|message, _| match message {
                Message::Chunk(chunk) => self.take(chunk),
                Message::Pong(_) => true,
                _ => false,
            });
            let taken = match taken {
                Ok(taken) => taken,
                Err(error) => {
                    go_on(incoming, error)?;
                    continue;
                }
            };
            if !taken {
                tracing::info!("a chunk that follows none came; the session ends");
                return Ok(());
            }
        }
    }

    /// Takes a chunk; false if it does not follow the one before, or nobody waits for it any more.
    fn take(&self, chunk: &Chunk<'_>) -> bool {
        let mut state = locked(&self.state);
        // Nothing is kept of transfers that no command has named: this reads on when one has.
        while chunk.transfer > state.last_named {
            if state.closed {
                return false;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let Some(write) = state.writes.get_mut(&chunk.transfer) else {
            return false;
        };
        let end = chunk.offset + chunk.bytes.len() as u64;
        if chunk.offset != write.received || end > write.length {
            return false;
        }
        write.received = end;
        let landing = write.landing.clone();
        drop(state);
        if let Some(landing) = landing {
            // SAFETY: commands read these bytes when they were said to have come, which is below; this thread alone
            // writes them.
            unsafe { landing.write(chunk.offset as usize, chunk.bytes) };
        }
        let mut state = locked(&self.state);
        let Some(write) = state.writes.get_mut(&chunk.transfer) else {
            return !state.closed;
        };
        let mut over = Vec::new();
        while write.pieces.front().is_some_and(|(at, _)| *at <= end) {
            over.extend(write.pieces.pop_front());
        }
        if end == write.length {
            let length = if write.is_reserved { write.length } else { 0 };
            state.writes.remove(&chunk.transfer);
            state.bytes[0] = state.bytes[0].saturating_sub(length);
        }
        drop(state);
        over.into_iter().for_each(|(_, event)| event.complete());
        true
    }

    /// Sends what is ready, until the stream ends.
    fn send(&self, out: &Outgoing) {
        let most = CHUNK.min(out.max_frame() as usize - 64);
        loop {
            let mut state = locked(&self.state);
            let (transfer, range, landing) = loop {
                if state.closed {
                    return;
                }
                if let Some(ready) = state.ready.pop_front() {
                    break ready;
                }
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            };
            drop(state);
            let length = range.len() as u64;
            let mut at = range.start;
            while at < range.end {
                let end = range.end.min(at + most);
                let chunk = Message::Chunk(Chunk {
                    transfer,
                    offset: at as u64,
                    // SAFETY: the piece is ready: nobody writes it any more.
                    bytes: unsafe { landing.bytes(at..end) },
                });
                // If the connection is lost, whoever receives sees it.
                if out.push(&chunk).is_err() || out.wait_for_room(AHEAD).is_err() {
                    return;
                }
                at = end;
            }
            let mut state = locked(&self.state);
            state.bytes[1] = state.bytes[1].saturating_sub(length);
        }
    }
}
