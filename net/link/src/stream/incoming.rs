//! The direction from which messages come.

use super::interrupt::{GoesOn, Interrupt};
use super::{Attached, Duplex, Loss, Shared, socket};
use crate::connection::{ended, wire};
use crate::error::{LinkError, Result, on_one_line};
use crate::locked;
use quipu_protocol::compression::Unpacker;
use quipu_protocol::frame::{Frame, Sender};
use quipu_protocol::message::{Message, Pong, decode};
use quipu_protocol::reader::{FrameReader, Next};
use quipu_protocol::sequence::{Arrival, Received};
use std::io::{BufRead, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The direction from which messages come: for one thread.
#[derive(Debug)]
pub struct Incoming {
    pub(super) shared: Arc<Shared>,
    attached: Arc<Attached>,
    reader: FrameReader,
    received: Received,
    /// Messages and bytes since something was last acknowledged.
    due: (u32, usize),
    /// Messages since the last rest.
    unrested: u32,
    cipher: Box<[u8]>,
    /// The number of bytes that have to come before the system wakes the waiting thread.
    woken_at: usize,
    unpacker: Unpacker,
    from: Sender,
    options: Duplex,
    start: Instant,
    /// Something has come on this connection.
    heard: bool,
}

/// Bytes that are taken from the socket at once.
const PIECE: usize = 1 << 17;

/// Bytes of a record of TLS's, at most.
const RECORD: usize = (1 << 14) + 256;

/// Bytes that are worth not being woken for each part of them.
const MUCH: usize = 1 << 15;

/// After so many messages, or bytes, they are acknowledged by themselves. The sender may count on
/// 1024 and 16 MiB; but the bytes that it keeps until then should lie in its processor's caches.
const DUE: (u32, usize) = (512, 1 << 22);

/// A side that has sent so many messages since the last rest is likely to send on. The receiver
/// looks for more before it rests again.
const BUSY: u32 = 8;

/// After so many there is a rest, whatever else has come.
const RESTLESS: u32 = 256;

/// Answers to pings that the other side lets lie, at most.
const MOST_PONGS: u32 = 1024;

/// The other event that a receiving thread waits for, beside messages.
type Unless<'a> = Option<(&'a Interrupt, GoesOn<'a>)>;

/// The kind of a message that came, if it is not the stream's own affair.
enum Came {
    Message,
    Nothing,
}

impl Incoming {
    pub(super) fn new(
        shared: Arc<Shared>,
        attached: Arc<Attached>,
        reader: FrameReader,
        from: Sender,
        options: Duplex,
    ) -> Self {
        Self {
            shared,
            attached,
            reader,
            received: Received::default(),
            due: (0, 0),
            unrested: 0,
            cipher: vec![0; PIECE].into_boxed_slice(),
            woken_at: 1,
            unpacker: Unpacker::default(),
            from,
            options,
            start: Instant::now(),
            heard: false,
        }
    }

    /// True if something has come on this connection: the other side knows that it was taken.
    #[must_use]
    pub fn has_heard(&self) -> bool {
        self.heard
    }

    /// Goes on with another connection, of which these bytes were read.
    pub(super) fn go_on(&mut self, attached: Arc<Attached>, reader: FrameReader) {
        self.attached = attached;
        self.woken_at = 1;
        self.reader = reader;
        self.due = (0, 0);
        self.heard = false;
    }

    /// Hands the next message to `take`, with its number; waits for it. Messages that concern the
    /// stream alone, and repetitions, do not come here. Gives the value of `take`.
    ///
    /// # Errors
    /// If a message makes no sense or has a wrong number, the connection is lost, or the other side
    /// says goodbye. Nothing more comes then, unless the connection [is lost](Self::is_lost) and
    /// another takes its place. A thread that receives bytes that make no sense should [say
    /// so](super::Outgoing::close) and end it.
    pub fn receive<T>(&mut self, take: impl FnOnce(&Message<'_>, u64) -> T) -> Result<T> {
        let take = |(): &mut (), message: &Message<'_>, number| take(message, number);
        self.receive_or_rest(&mut (), take, |()| ())
    }

    /// As [`receive`](Self::receive), and calls `rest` whenever all received messages were taken,
    /// before it waits for more: for work that is better done once for many messages. Both are
    /// handed `with`.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn receive_or_rest<W, T>(
        &mut self,
        with: &mut W,
        take: impl FnOnce(&mut W, &Message<'_>, u64) -> T,
        rest: impl FnMut(&mut W),
    ) -> Result<T> {
        match self.receive_unless(with, take, rest, None)? {
            Some(taken) => Ok(taken),
            None => unreachable!("it waits for nothing else"),
        }
    }

    /// As [`receive_or_rest`](Self::receive_or_rest), for a thread that waits for another event,
    /// which messages here may cause or not: `None` as soon as, after a rest, `goes_on` gives
    /// nothing. It is asked again when `interrupt` was [raised](Interrupt::raise), and after the
    /// time that it gives.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn receive_while<W, T>(
        &mut self,
        with: &mut W,
        take: impl FnOnce(&mut W, &Message<'_>, u64) -> T,
        rest: impl FnMut(&mut W),
        interrupt: &Interrupt,
        goes_on: &dyn Fn() -> Option<Duration>,
    ) -> Result<Option<T>> {
        self.receive_unless(with, take, rest, Some((interrupt, goes_on)))
    }

    fn receive_unless<W, T>(
        &mut self,
        with: &mut W,
        take: impl FnOnce(&mut W, &Message<'_>, u64) -> T,
        mut rest: impl FnMut(&mut W),
        unless: Unless<'_>,
    ) -> Result<Option<T>> {
        let allowed = self.reader.allowed();
        loop {
            if !self.is_ready() {
                let more = self.look_for_more();
                if !matches!(more, Ok(true)) {
                    rest(with);
                    self.unrested = 0;
                }
                more?;
            }
            while self.missing()? > 0 {
                if !self.read_more(unless)? {
                    return Ok(None);
                }
            }
            let frame = match self.reader.next() {
                Ok(Next::Frame(frame)) => frame,
                Ok(Next::Missing(_)) => continue,
                Err(source) => return Err(wire(&self.shared.address, source)),
            };
            self.heard = true;
            self.unrested = self.unrested.saturating_add(1);
            let routed = frame.kind.check_route(self.from, self.options.stream);
            routed.map_err(|source| wire(&self.shared.address, source))?;
            let packed = frame.compressed.map(|_| frame.body.len());
            // Without an agreement, the decoder refuses it.
            let codecs = self.shared.codecs;
            let frame = if frame.compressed.is_some_and(|codec| codecs.have(codec)) {
                let plain = self.unpacker.unpack(&frame, allowed);
                plain.map_err(|source| wire(&self.shared.address, source))?
            } else {
                frame
            };
            let message = decode(&frame).map_err(|source| wire(&self.shared.address, source))?;
            if let Message::Chunk(chunk) = &message {
                let plain = chunk.bytes.len();
                self.shared.counts.chunk(plain, packed.unwrap_or(plain));
            }
            let (received, due) = (&mut self.received, &mut self.due);
            let came = notice(&self.shared, &frame, &message, received, due, self.start)?;
            let is_numbered = frame.sequence > 0;
            // Not acknowledged before it is taken over: a side that acknowledges a command's end
            // does not name it any more.
            match came {
                Came::Message => {
                    let taken = take(with, &message, frame.sequence);
                    if is_numbered {
                        self.acknowledge();
                    }
                    return Ok(Some(taken));
                }
                Came::Nothing if is_numbered => self.acknowledge(),
                Came::Nothing => {}
            }
        }
    }

    /// Has the messages that were taken over acknowledged with the next ones that are sent, or now
    /// if they are many.
    fn acknowledge(&mut self) {
        let last = self.received.last();
        self.shared.received.store(last, Ordering::Release);
        if self.due.0 >= DUE.0 || self.due.1 >= DUE.1 {
            self.shared.flush();
            // A thread that was just writing may have looked before: then they are acknowledged
            // with the next message.
            if self.shared.queue().told >= last {
                self.due = (0, 0);
            }
        }
    }

    /// True if something is there to be looked at.
    fn is_ready(&self) -> bool {
        self.reader.missing().map_or(true, |missing| missing == 0)
    }

    /// Bytes of the next frame that are missing.
    fn missing(&self) -> Result<usize> {
        let missing = self.reader.missing();
        missing.map_err(|source| wire(&self.shared.address, source))
    }

    /// All that was there is taken over: whether more has come meanwhile, if that is worth a look.
    fn look_for_more(&mut self) -> Result<bool> {
        if !(BUSY..RESTLESS).contains(&self.unrested) {
            return Ok(false);
        }
        match socket::receive_now(&self.attached.socket, &mut self.cipher) {
            Ok(length) => {
                self.read(length)?;
                Ok(self.is_ready())
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) =>
            {
                Ok(false)
            }
            Err(error) => Err(self.lost_by(error)),
        }
    }

    /// Gets bytes that have come to the reader; waits for some. False if it does not wait any more.
    fn read_more(&mut self, unless: Unless<'_>) -> Result<bool> {
        self.sleep_until_much_has_come();
        match self.receive_bytes(unless) {
            Ok(Some(length)) => self.read(length).map(|()| true),
            Ok(None) => Ok(false),
            Err(error) => Err(self.lost_by(error)),
        }
    }

    /// Decrypts so many bytes that have come, and hands them to the reader.
    fn read(&mut self, length: usize) -> Result<()> {
        self.shared.counts.received(length);
        let mut cipher = &self.cipher[..length];
        let mut tls = locked(&self.attached.tls);
        let mut closed = false;
        // Also of no bytes: TLS has to learn that the stream is over.
        loop {
            let read = tls.read_tls(&mut cipher);
            read.map_err(|error| ended(&self.shared.address, error))?;
            let state = match tls.process_new_packets() {
                Ok(state) => state,
                Err(source) => {
                    drop(tls);
                    // The alert.
                    self.shared.flush();
                    // A machine in between may have made it up: it tells nothing of the other side.
                    let error = LinkError::Tls {
                        address: self.shared.address.clone(),
                        source,
                    };
                    return Err(self.lost(Loss::Silent, error));
                }
            };
            let mut left = state.plaintext_bytes_to_read();
            while left > 0 {
                let mut reader = tls.reader();
                let piece = reader.fill_buf();
                let piece = piece.map_err(|error| ended(&self.shared.address, error))?;
                let taken = piece.len();
                self.reader.push(piece);
                reader.consume(taken);
                left = left.saturating_sub(taken.max(1));
            }
            closed |= state.peer_has_closed();
            if cipher.is_empty() {
                break;
            }
        }
        let has_to_say = tls.wants_write();
        drop(tls);
        if has_to_say {
            self.shared.flush();
        }
        if length > 0 && !closed {
            return Ok(());
        }
        if self.reader.missing().is_ok_and(|missing| missing == 0) {
            // Bytes that came before the end are read first.
            return Ok(());
        }
        if closed && self.reader.is_between_frames() && self.shared.queue().failure.is_none() {
            return Err(self.shared.failed("the other side closed it"));
        }
        Err(self.lost_by(ErrorKind::UnexpectedEof.into()))
    }

    /// The connection is lost, as the system says.
    fn lost_by(&self, error: std::io::Error) -> LinkError {
        let loss = Loss::of(&error);
        self.lost(loss, ended(&self.shared.address, error))
    }

    /// The connection is lost; why, if it was not given up before for another reason.
    fn lost(&self, loss: Loss, error: LinkError) -> LinkError {
        // The receiving thread reports the end: it may have more to tell the other side.
        if self.shared.resumable {
            self.shared
                .lose(Some(&self.attached), loss, &error.to_string());
        }
        match &self.shared.queue().failure {
            Some(reason) => self.shared.failed(reason),
            None => error,
        }
    }

    /// In the middle of a large frame, has the system wake this thread when much of it has come,
    /// and not for each part that the other side hands to its system at once: to wake it takes the
    /// sender longer than to encrypt some of those.
    fn sleep_until_much_has_come(&mut self) {
        // So many bytes are missing and more, less those that TLS has of a record that has not come
        // whole.
        let missing = self.reader.missing().unwrap_or(0);
        let sure = missing.saturating_sub(RECORD).min(PIECE);
        let woken_at = (sure / MUCH * MUCH).max(1);
        if woken_at != self.woken_at {
            socket::wake_at(&self.attached.socket, woken_at);
            self.woken_at = woken_at;
        }
    }

    /// Looks for a while, then sleeps; `None` if it does not wait any more.
    fn receive_bytes(&mut self, unless: Unless<'_>) -> std::io::Result<Option<usize>> {
        let goes_on = || unless.is_none_or(|(_, goes_on)| goes_on().is_some());
        let spin = self.options.spin;
        let since = (!spin.is_zero()).then(Instant::now);
        while let Some(since) = since {
            match socket::receive_now(&self.attached.socket, &mut self.cipher) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                outcome => return outcome.map(Some),
            }
            if !goes_on() {
                return Ok(None);
            }
            if since.elapsed() >= spin {
                break;
            }
            std::hint::spin_loop();
        }
        loop {
            if let Some((interrupt, goes_on)) = unless
                && !interrupt.wait_for(&self.attached.socket, goes_on)?
            {
                return Ok(None);
            }
            let mut socket = &self.attached.socket;
            let received = match self.woken_at {
                1 => socket.read(&mut self.cipher),
                _ => socket::receive_much(socket, &mut self.cipher, unless.is_none()),
            };
            match received {
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                outcome => return outcome.map(Some),
            }
        }
    }

    /// From now on, frames may be so large.
    pub fn allow_frames(&mut self, received: u32) {
        self.reader.allow(received);
    }

    /// The last numbered message that came.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.received.last()
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.shared.fail("this side has given it up".to_owned());
    }
}

/// Handles messages that concern the stream alone.
fn notice(
    shared: &Shared,
    frame: &Frame<'_>,
    message: &Message<'_>,
    received: &mut Received,
    due: &mut (u32, usize),
    start: Instant,
) -> Result<Came> {
    if frame.sequence > 0 {
        let arrival = received.take(frame.sequence);
        let arrival = arrival.map_err(|source| wire(&shared.address, source))?;
        due.0 += 1;
        due.1 += frame.body.len();
        return Ok(match arrival {
            Arrival::New => Came::Message,
            Arrival::Repeated => Came::Nothing,
        });
    }
    match message {
        Message::Acknowledge(acknowledge) => {
            let mut queue = shared.queue();
            let noted = queue.sent.acknowledge(acknowledge.received);
            noted.map_err(|source| wire(&shared.address, source))?;
            queue.acknowledged = acknowledge.received;
            let is_room = queue.replay.acknowledged(acknowledge.received) && queue.waiting > 0;
            drop(queue);
            if is_room {
                shared.room.notify_all();
            }
            Ok(Came::Nothing)
        }
        Message::Ping(ping) => {
            let now = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let pong = Message::Pong(Pong {
                token: ping.token,
                time_ns: ping.time_ns,
                received_ns: now,
                sent_ns: now,
            });
            let mut queue = shared.queue();
            queue.pongs += 1;
            let pongs = queue.pongs;
            // If it cannot be sent, the next call to receive gives the reason.
            let _ = shared.push(&mut queue, &pong);
            drop(queue);
            if pongs > MOST_PONGS {
                return Err(shared.failed("it sends pings and does not read their answers"));
            }
            shared.flush();
            Ok(Came::Nothing)
        }
        Message::Goodbye(goodbye) => Err(LinkError::Goodbye {
            address: shared.address.clone(),
            reason: goodbye.reason,
            text: on_one_line(goodbye.text),
        }),
        _ => Ok(Came::Message),
    }
}
