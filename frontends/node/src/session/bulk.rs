//! The bulk stream: bytes of writes as they come, and of reads as they are ready.

use super::landing::Landing;
use super::peer_sender::Parcel;
use crate::locked;
use crate::node::Shared;
use quipu_link::LinkError;
use quipu_link::compression::Compressor;
use quipu_link::stream::{Carried, Incoming, Outgoing};
use quipu_protocol::message::{Chunk, Message, Rest};
use quipu_scheduler::memory::mapping::HostLease;
use quipu_scheduler::panics::quietly;
use quipu_scheduler::{ErrorKind, UserEvent};
use quipu_threads::Start;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

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
    ready: VecDeque<(u64, Range<usize>, Source)>,
    last_named: u64,
    /// A transfer that is about to be named, and the peer that it comes from.
    of_peer: Option<(u64, u64)>,
    /// Bytes of transfers that are not over, in and out.
    bytes: [u64; 2],
    out: Option<Outgoing>,
    closed: bool,
}

/// The place of bytes that are ready.
pub(crate) enum Source {
    Landing(Arc<Landing>),
    /// In a buffer, which is given back when they are sent.
    HostLease(HostLease),
    /// With those that another node could not be brought.
    Parcel(Arc<Parcel>),
}

/// The fate of a chunk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Took {
    /// More is expected, or it was left out.
    Some,
    /// All of its transfer has come with it.
    All,
    /// It does not follow the one before, or whoever sends it should not.
    Wrong,
    /// Nobody waits for it any more.
    Over,
}

/// The destination of the bytes of a write.
#[derive(Clone)]
pub(crate) enum Place {
    /// Nowhere: the command has failed.
    Nowhere,
    Landing(Arc<Landing>),
    /// Straight into the buffer.
    HostLease(Arc<Mutex<Loan>>),
}

/// Memory of a piece beside its bytes.
const OF_PIECE: u64 = 64;

/// Bytes that have come before their write's turn, and where they go in it.
pub(crate) struct Parked {
    node: Arc<Shared>,
    pieces: Vec<(usize, Vec<u8>)>,
    /// From which byte on there are zeros, if there are.
    rest: Option<usize>,
    bytes: u64,
}

impl Parked {
    pub(crate) fn new(node: Arc<Shared>) -> Self {
        Self {
            node,
            pieces: Vec::new(),
            rest: None,
            bytes: 0,
        }
    }

    /// Keeps some more; false if there is no memory for them.
    fn keep(&mut self, offset: usize, bytes: &[u8]) -> bool {
        let length = bytes.len() as u64 + OF_PIECE;
        if !self.node.park(length) {
            return false;
        }
        self.bytes += length;
        let mut kept = Vec::new();
        // Whoever serves has other limits, too: what cannot be had is to fail a command, and not
        // the process.
        let is_room =
            kept.try_reserve_exact(bytes.len()).is_ok() && self.pieces.try_reserve(1).is_ok();
        if is_room {
            kept.extend_from_slice(bytes);
            self.pieces.push((offset, kept));
        }
        is_room
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.node.unpark(self.bytes);
    }
}

/// A buffer's bytes, into which a write's go.
pub(crate) enum Loan {
    /// It is not the write's turn. The bytes that have come by now, and whether that is all.
    Awaited(Parked, bool),
    /// So much had come when there was no memory for more: the write fails when its turn comes.
    Refused(u64),
    Had(HostLease),
    /// Never, or not any more.
    Over,
}

impl Loan {
    /// The write's turn has come, if it does.
    pub(crate) fn begin(loan: &Mutex<Self>, lent: Option<HostLease>) {
        let mut loan = locked(loan);
        let before = std::mem::replace(&mut *loan, Self::Over);
        let (parked, is_all, lent) = match (before, lent) {
            (Self::Awaited(parked, is_all), Some(lent)) => (parked, is_all, lent),
            (Self::Refused(asked), Some(lent)) => {
                drop(loan);
                let error = ErrorKind::OutOfMemory {
                    device: "the node, for what comes before its turn,".to_owned(),
                    asked,
                    free: 0,
                    capacity: asked,
                };
                return lent.finish(Err(error.into()));
            }
            _ => return,
        };
        for (offset, bytes) in &parked.pieces {
            put(&lent, *offset, bytes);
        }
        if let Some(rest) = parked.rest {
            clear(&lent, rest);
        }
        drop(parked);
        if is_all {
            drop(loan);
            lent.finish(Ok(()));
        } else {
            *loan = Self::Had(lent);
        }
    }

    /// Some of the bytes have come, or, without any, zeros from there on.
    fn take(loan: &Mutex<Self>, offset: usize, bytes: Option<&[u8]>, is_all: bool) {
        let mut loan = locked(loan);
        match &mut *loan {
            Self::Awaited(parked, all) => {
                *all = is_all;
                match bytes {
                    None => parked.rest = Some(offset),
                    Some(bytes) if parked.keep(offset, bytes) => {}
                    Some(bytes) => *loan = Self::Refused((offset + bytes.len()) as u64),
                }
            }
            Self::Had(lent) => match bytes {
                Some(bytes) => put(lent, offset, bytes),
                None => clear(lent, offset),
            },
            Self::Refused(_) | Self::Over => {}
        }
        if is_all && matches!(*loan, Self::Had(_)) {
            let had = std::mem::replace(&mut *loan, Self::Over);
            drop(loan);
            if let Self::Had(lent) = had {
                lent.finish(Ok(()));
            }
        }
    }

    /// No more bytes come, for this reason.
    fn fail(loan: &Mutex<Self>, reason: &str) {
        let before = std::mem::replace(&mut *locked(loan), Self::Over);
        if let Self::Had(lent) = before {
            lent.finish(Err(ErrorKind::Device {
                device: "the node".to_owned(),
                what: "receive what is to be written".to_owned(),
                message: reason.to_owned(),
            }
            .into()));
        }
    }
}

/// Writes bytes into those of a buffer.
fn put(lent: &HostLease, offset: usize, bytes: &[u8]) {
    let all = lent.bytes();
    let end = offset.checked_add(bytes.len());
    assert!(end.is_some_and(|end| end <= all.length));
    // SAFETY: within the bytes, as just checked, which are lent to be written.
    unsafe {
        let to = all.pointer.add(offset);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
    }
}

/// Writes zeros into those of a buffer from one on.
fn clear(lent: &HostLease, from: usize) {
    let all = lent.bytes();
    let length = all.length.checked_sub(from);
    let length = length.unwrap_or_else(|| unreachable!("zeros behind the end"));
    // SAFETY: within the bytes, as just checked, which are lent to be written.
    unsafe { all.pointer.add(from).write_bytes(0, length) };
}

impl Source {
    /// Some of the bytes, which are ready.
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        match self {
            Self::Parcel(parcel) => parcel.bytes(range),
            // SAFETY: nobody writes them any more.
            Self::Landing(landing) => unsafe { landing.bytes(range) },
            Self::HostLease(lent) => {
                let all = lent.bytes();
                assert!(range.start <= range.end && range.end <= all.length);
                // SAFETY: within the bytes, as just checked, which are lent to be read.
                unsafe { std::slice::from_raw_parts(all.pointer.add(range.start), range.len()) }
            }
        }
    }
}

/// A write whose bytes are on their way.
pub(crate) struct Write {
    pub(crate) place: Place,
    /// The number of bytes.
    pub(crate) length: u64,
    /// The number of bytes that have come.
    pub(crate) received: u64,
    /// Events that are completed when so many bytes have come, in order.
    pub(crate) pieces: VecDeque<(u64, UserEvent)>,
    /// True if its bytes count.
    pub(crate) is_reserved: bool,
    /// The node that sends them, if it is not the client.
    pub(crate) peer: Option<u64>,
    /// Somebody is just putting some in place.
    pub(crate) is_busy: bool,
}

impl Write {
    /// A write of so many bytes, from the client.
    pub(crate) fn new(place: Place, length: u64) -> Self {
        Self {
            place,
            length,
            received: 0,
            pieces: VecDeque::new(),
            is_reserved: true,
            peer: None,
            is_busy: false,
        }
    }

    /// No more bytes come, for this reason.
    fn fail(self, reason: &str) {
        if let Place::HostLease(loan) = &self.place {
            Loan::fail(loan, reason);
        }
        self.pieces
            .into_iter()
            .for_each(|(_, event)| event.fail(reason));
    }
}

/// A read that is not over.
struct Read {
    /// None if its bytes are lent.
    landing: Option<Arc<Landing>>,
    length: usize,
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

    /// A write has named a transfer, whose bytes are expected from here on. False if it is not
    /// larger than all before.
    pub(crate) fn expect(&self, transfer: u64, mut write: Write) -> bool {
        let mut state = locked(&self.state);
        let is_new = state.name(transfer);
        write.peer = state
            .of_peer
            .take()
            .filter(|of| of.0 == transfer)
            .map(|of| of.1);
        if is_new && !state.closed {
            state.writes.insert(transfer, write);
        }
        drop(state);
        self.changed.notify_all();
        is_new
    }

    /// The next transfer that is [expected](Self::expect) comes from a peer.
    pub(crate) fn is_of_peer(&self, transfer: u64, peer: u64) {
        locked(&self.state).of_peer = Some((transfer, peer));
    }

    /// The rest of a transfer never comes; false if it never was one. Nothing happens if all has
    /// come.
    pub(crate) fn abandon(&self, transfer: u64) -> bool {
        let mut state = locked(&self.state);
        if transfer > state.last_named {
            return false;
        }
        let busy = |state: &State| {
            let write = state.writes.get(&transfer);
            write.is_some_and(|write| write.is_busy)
        };
        while busy(&state) {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(write) = state.writes.remove(&transfer) {
            let length = if write.is_reserved { write.length } else { 0 };
            state.bytes[0] = state.bytes[0].saturating_sub(length);
            drop(state);
            write.fail("what should have come from another node never will");
        }
        true
    }

    /// Bytes that another node could not be brought go by way of the client.
    pub(crate) fn send_by_client(&self, parcel: Arc<Parcel>) {
        let mut state = locked(&self.state);
        if !state.closed {
            quietly(|| {
                tracing::warn!(
                    transfer = parcel.transfer,
                    bytes = parcel.length,
                    "bytes for another node go by way of the client"
                );
            });
            let all = 0..parcel.length;
            let ready = (parcel.transfer, all, Source::Parcel(parcel));
            state.ready.push_back(ready);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// A read has named a transfer; the ends of its pieces. False if it is not larger than all
    /// before.
    pub(crate) fn begin_read(
        &self,
        transfer: u64,
        landing: Option<Arc<Landing>>,
        ends: &[usize],
    ) -> bool {
        let pieces = ends.iter().map(|end| (*end, false)).collect();
        let read = Read {
            landing,
            length: ends.last().copied().unwrap_or(0),
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
            if let Some(landing) = read.landing.clone() {
                ready.push_back((transfer, start..*end, Source::Landing(landing)));
            }
            read.next += 1;
        }
        if read.next == read.pieces.len() {
            reads.remove(&transfer);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// The bytes of a read are lent: they are sent, and then given back.
    pub(crate) fn lent_is_ready(&self, transfer: u64, lent: HostLease) {
        let mut state = locked(&self.state);
        if let Some(read) = state.reads.remove(&transfer) {
            let source = Source::HostLease(lent);
            state.ready.push_back((transfer, 0..read.length, source));
        }
        drop(state);
        self.changed.notify_all();
    }

    /// The bytes in use of a read are here: they are sent.
    pub(crate) fn content_is_ready(&self, transfer: u64, content: Option<Arc<Landing>>) {
        let mut state = locked(&self.state);
        if let Some(read) = state.reads.remove(&transfer) {
            let used = content.as_ref().map_or(0, |content| content.len());
            let left = read.length.saturating_sub(used) as u64;
            state.bytes[1] = state.bytes[1].saturating_sub(left);
            let ready = content.map(|content| (transfer, 0..used, Source::Landing(content)));
            state.ready.extend(ready);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// A read has failed: bytes of it that are not sent never are.
    pub(crate) fn read_failed(&self, transfer: u64) {
        let mut state = locked(&self.state);
        if let Some(read) = state.reads.remove(&transfer) {
            let sent = match read.next {
                0 => 0,
                next => read.pieces[next - 1].0,
            };
            let left = (read.length - sent) as u64;
            state.bytes[1] = state.bytes[1].saturating_sub(left);
        }
    }

    /// Nothing moves any more, and what waits for bytes fails.
    pub(crate) fn close(&self, reason: &str) {
        let mut state = locked(&self.state);
        state.closed = true;
        let writes = std::mem::take(&mut state.writes);
        state.reads.clear();
        // Some end commands as they are dropped.
        let ready = std::mem::take(&mut state.ready);
        let out = state.out.take();
        drop(state);
        drop(ready);
        self.changed.notify_all();
        if let Some(out) = out {
            out.abort(reason);
        }
        for write in writes.into_values() {
            write.fail(reason);
        }
    }

    /// True if the session has a bulk stream.
    pub(crate) fn has_begun(&self) -> bool {
        locked(&self.state).out.is_some()
    }

    /// The traffic of the stream; none if there is no stream yet.
    pub(super) fn carried(&self) -> Option<Carried> {
        let out = locked(&self.state).out.clone();
        out.map(|out| out.carried())
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
        mut compressor: Compressor,
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
            let sending = sender.start_scoped(scope, || self.send(&out, &mut compressor));
            let ended = match sending {
                Ok(_) => self.receive(&mut incoming, go_on),
                Err(error) => {
                    quietly(|| tracing::error!(%error, "no thread for a bulk stream"));
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
            let taken = incoming.receive(|message, _| {
                let took = match message {
                    Message::Chunk(chunk) => self.take(chunk, None),
                    Message::Rest(rest) => self.take_rest(rest, None),
                    Message::Pong(_) => Took::Some,
                    _ => Took::Wrong,
                };
                (took, message.kind().name())
            });
            match taken {
                Ok((Took::Some | Took::All, _)) => {}
                Ok((Took::Over, _)) => return Ok(()),
                Ok((Took::Wrong, kind)) => {
                    return Err(LinkError::Unexpected {
                        address: "a client's bulk stream".to_owned(),
                        kind,
                        expected: "a chunk that follows those before it",
                    });
                }
                Err(error) => go_on(incoming, error)?,
            }
        }
    }

    /// True if a command has named the transfer, so that nobody waits for that any more.
    pub(super) fn is_named(&self, transfer: u64) -> bool {
        transfer <= locked(&self.state).last_named
    }

    /// Nothing is kept of transfers that no command has named: this waits until one has.
    fn named(&self, transfer: u64) -> Result<MutexGuard<'_, State>, Took> {
        let mut state = locked(&self.state);
        while transfer > state.last_named {
            if state.closed {
                return Err(Took::Over);
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Ok(state)
    }

    /// Takes a chunk, from a peer or from the client. Any part of a peer's bytes may come by way of
    /// the client instead, or again: bytes that have come before are left out.
    pub(crate) fn take(&self, chunk: &Chunk<'_>, from: Option<u64>) -> Took {
        self.come(chunk.transfer, chunk.offset, Some(chunk.bytes), from)
    }

    /// The same of zeros to the transfer's end.
    pub(crate) fn take_rest(&self, rest: &Rest, from: Option<u64>) -> Took {
        self.come(rest.transfer, rest.offset, None, from)
    }

    /// These bytes of a transfer have come, or, without any, zeros to its end.
    fn come(&self, transfer: u64, at: u64, bytes: Option<&[u8]>, from: Option<u64>) -> Took {
        let mut state = match self.named(transfer) {
            Ok(state) => state,
            Err(took) => return took,
        };
        let write = loop {
            let closed = state.closed;
            match state.writes.get_mut(&transfer) {
                None if closed => return Took::Over,
                // All has come another way, or the rest never does.
                None => return Took::Some,
                Some(write) if !write.is_busy => break write,
                Some(_) => {
                    state = self
                        .changed
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        let end = bytes.map_or(write.length, |bytes| at + bytes.len() as u64);
        let repeats = at < write.received;
        if at > write.received
            || end > write.length
            || at == write.length
            || (repeats && write.peer.is_none())
            || (from.is_some() && from != write.peer)
        {
            return Took::Wrong;
        }
        let offset = write.received;
        let had = (offset - at) as usize;
        let bytes = bytes.map(|bytes| bytes.get(had..).unwrap_or(&[]));
        if bytes.is_some_and(<[u8]>::is_empty) {
            return Took::Some;
        }
        write.received = end;
        write.is_busy = true;
        let (place, length) = (write.place.clone(), write.length);
        drop(state);
        match place {
            Place::Nowhere => {}
            Place::Landing(landing) => {
                // What was not written is zeros.
                if let Some(bytes) = bytes {
                    // SAFETY: commands read these bytes when they were said to have come, which is
                    // below; whoever says that it is busy alone writes them.
                    unsafe { landing.write(offset as usize, bytes) };
                }
            }
            Place::HostLease(loan) => {
                Loan::take(&loan, offset as usize, bytes, end == length);
            }
        }
        let mut state = locked(&self.state);
        let closed = state.closed;
        let Some(write) = state.writes.get_mut(&transfer) else {
            return if closed { Took::Over } else { Took::Some };
        };
        write.is_busy = false;
        let mut over = Vec::new();
        while write.pieces.front().is_some_and(|(at, _)| *at <= end) {
            over.extend(write.pieces.pop_front());
        }
        if end == write.length {
            let length = if write.is_reserved { write.length } else { 0 };
            state.writes.remove(&transfer);
            state.bytes[0] = state.bytes[0].saturating_sub(length);
        }
        drop(state);
        // For threads that abandon the transfer, or have bytes of it, too.
        self.changed.notify_all();
        over.into_iter().for_each(|(_, event)| event.complete());
        if end == length { Took::All } else { Took::Some }
    }

    /// Sends what is ready, until the stream ends.
    fn send(&self, out: &Outgoing, compressor: &mut Compressor) {
        let most = CHUNK.min(out.max_frame() as usize - 64);
        loop {
            let mut state = locked(&self.state);
            let (transfer, range, source) = loop {
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
            let length = match &source {
                Source::Parcel(parcel) => parcel.counted(),
                Source::Landing(_) | Source::HostLease(_) => range.len() as u64,
            };
            let mut at = range.start;
            while at < range.end {
                let end = range.end.min(at + most);
                let chunk = Chunk {
                    transfer,
                    offset: at as u64,
                    bytes: source.bytes(at..end),
                };
                // If the connection is lost, whoever receives sees it.
                if compressor.push(chunk).is_err() || compressor.wait_for_room(AHEAD).is_err() {
                    return;
                }
                at = end;
            }
            match source {
                Source::HostLease(lent) => lent.finish(Ok(())),
                Source::Parcel(parcel) => {
                    if let Some(rest) = parcel.rest(transfer)
                        && (out.push(&Message::Rest(rest)).is_err()
                            || compressor.wait_for_room(AHEAD).is_err())
                    {
                        return;
                    }
                    parcel.finish();
                }
                Source::Landing(_) => {}
            }
            let mut state = locked(&self.state);
            state.bytes[1] = state.bytes[1].saturating_sub(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::node::{Home, Options};
    use quipu_link::Folder;
    use quipu_link::clock::SystemClock;
    use quipu_link::gate::Gate;
    use quipu_link::stream::IDLE;

    #[test]
    fn pieces_without_number_are_not_kept_however_small_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Folder::open(folder.path().join("node")).unwrap();
        let gate = Gate::new(&folder, "node", IDLE, Arc::new(SystemClock)).unwrap();
        let limits = Limits {
            process_bytes: 0,
            ..Limits::default()
        };
        let options = Options {
            limits,
            ..Options::new(Vec::new())
        };
        let mut parked = Parked::new(Shared::new(options, gate, Home::Here));
        // All of these together have two million bytes, which is few, and much more memory.
        let kept = (0..2_000_000)
            .take_while(|at| parked.keep(*at, &[1]))
            .count();
        let room = 64 << 20;
        assert!(
            kept * size_of::<(usize, Vec<u8>)>() <= room && kept > 1000,
            "{kept}"
        );
        assert!(kept < 2_000_000);
    }
}
