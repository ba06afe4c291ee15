//! Both directions of a connection at once: numbers, acknowledgements, batches.
//!
//! Any thread may [push](Outgoing::push) messages, which never waits: a message is encoded and put
//! behind the others. Then a thread [flushes](Outgoing::flush):
//!
//! 1. A thread that flushes becomes the writer, unless there is one; then that one writes the
//!    messages that were pushed meanwhile. So while one batch is on its way the next one grows, and
//!    under load a write is of many frames.
//! 2. The writer takes the batch, has TLS encrypt a piece of it, and sends it without waiting. No
//!    other thread has to be woken for that, which would take longer than all the rest.
//! 3. If the socket takes no more, the rest is left to the stream's own thread, which waits for the
//!    socket. So a flush never waits either, and can be done by a thread that has other things to
//!    do.
//!
//! One thread [receives](Incoming::receive). It handles messages that concern the stream alone:
//! numbers are checked, repetitions left out, pings answered, acknowledgements noted. Received
//! messages are acknowledged with the next ones that are sent, or by themselves when much has come.
//!
//! Receiving never waits for sending, and sending never for receiving: TLS is locked while it
//! computes or hands over the bytes that the socket takes at once, and not while a thread waits for
//! a socket. So two machines that both send without reading do not wait for each other for ever;
//! unread messages stay with their sender, which sees them in [`Outgoing::pending_bytes`] and can
//! [wait](Outgoing::wait_for_room).
//!
//! # Loss
//!
//! A stream that is [resumable](Duplex::resumable) outlives its connection:
//!
//! 1. A thread that finds the connection lost, sending or receiving, marks it so. Messages pushed
//!    from then on are kept.
//! 2. [`Incoming::receive`] gives the error; [`Incoming::is_lost`] tells that it is not the end.
//!    The thread that receives gets another connection, on which both sides have said up to which
//!    message they have received, and [goes on](Incoming::resume) with it. [`Incoming::loss`] tells
//!    whether the system knew of the loss or nothing came.
//! 3. Messages that the other side has not received are sent again, with the numbers that they had,
//!    before anything else.
//!
//! Written messages are kept until they are acknowledged (`replay`), as written: they are not
//! copied unless they are sent again.
//!
//! | file | contents |
//! |---|---|
//! | here | shared state, and sending |
//! | `carried` | statistics of a stream |
//! | `incoming` | receiving |
//! | `interrupt` | receiving while something else is waited for |
//! | `pulse` | pings where nothing else is sent, and the loss of a connection on which nothing comes |
//! | `replay` | the replay buffer: written bytes that are not acknowledged |
//! | `resume` | the loss of a connection, and going on with another |
//! | `socket` | sending and receiving without waiting |

mod carried;
mod incoming;
mod interrupt;
mod pulse;
mod replay;
mod resume;
mod socket;

pub use carried::Carried;
pub use incoming::Incoming;
pub use interrupt::Interrupt;
pub use pulse::IDLE;
pub(crate) use pulse::Pulse;
pub use socket::NOTICED_WITHIN;

use crate::error::{LinkError, Result};
use crate::locked;
use carried::Counts;
use quipu_protocol::batch::Batch;
use quipu_protocol::compression::{Codecs, Packed};
use quipu_protocol::error::WireError;
use quipu_protocol::frame::{Sender, Stream};
use quipu_protocol::message::{Acknowledge, Goodbye, GoodbyeReason, Message, presentable};
use quipu_protocol::reader::FrameReader;
use quipu_protocol::sequence::Sent;
use quipu_threads::Start;
use replay::Replay;
use std::cell::Cell;
use std::io::{self, ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// The settings for both directions of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplex {
    /// The stream of a session that it is: messages of the other are refused.
    pub stream: Stream,
    /// The time for which the receiver looks again and again before it sleeps. A wake-up takes
    /// longer than a look; while it looks, it needs a core.
    pub spin: Duration,
    /// True if it outlives its connection: unacknowledged messages are kept then.
    pub resumable: bool,
}

impl Default for Duplex {
    /// A command stream that ends with its connection; 20 µs, which is as long as it takes to be
    /// woken.
    fn default() -> Self {
        Self {
            stream: Stream::Command,
            spin: Duration::from_micros(20),
            resumable: false,
        }
    }
}

/// The direction in which messages go. Clones are the same. When the last is dropped, or the other
/// direction is, the connection ends at once; [`close`](Outgoing::close) it before, so that pushed
/// messages arrive.
#[derive(Clone, Debug)]
pub struct Outgoing {
    shared: Arc<Shared>,
    /// Ends the connection with the last clone.
    _handle: Arc<Handle>,
}

/// The way in which a connection was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    /// Nothing came any more, or damaged bytes came: the other side may know nothing of it.
    #[default]
    Silent,
    /// The connection was ended or reset: the other side's system did that, or a machine between,
    /// and the way there works.
    Told,
}

impl Loss {
    /// The kind of loss that the system's error means.
    fn of(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe => Self::Told,
            _ => Self::Silent,
        }
    }
}

/// A connection that a stream goes over.
#[derive(Debug)]
struct Attached {
    socket: TcpStream,
    tls: Mutex<rustls::Connection>,
    /// The stream's.
    counts: Arc<Counts>,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    /// The last message that this side has received and taken over: acknowledged with the next
    /// batch.
    received: AtomicU64,
    /// The bytes on their way to the socket. The thread that has this locked is the writer. Locked
    /// before the queue, if both are.
    writer: Mutex<Writing>,
    /// The socket takes no more, or the stream ends: for its thread.
    stuck: Condvar,
    /// There is room again, or the stream has failed.
    room: Condvar,
    counts: Arc<Counts>,
    address: String,
    most: u32,
    /// The codecs by which messages may be compressed.
    codecs: Codecs,
    resumable: bool,
    /// The thread that watches whether anything comes, if one does: it is woken as the stream ends.
    watcher: OnceLock<Thread>,
}

/// The terms that the two sides have agreed on.
#[derive(Debug)]
pub(crate) struct Agreed {
    /// The largest frame that the other side takes.
    pub(crate) most: u32,
    /// The codecs by which messages may be compressed.
    pub(crate) codecs: Codecs,
    /// The other side's address, as errors name it.
    pub(crate) address: String,
    /// The pulse by which each side sees that the other is there.
    pub(crate) pulse: Pulse,
}

/// Messages that were pushed, and that no thread writes yet.
#[derive(Debug)]
struct Queue {
    batch: Batch,
    sent: Sent,
    /// Messages that were written and are not acknowledged, if the stream is resumable.
    replay: Replay,
    /// The connection; none while it is lost.
    attached: Option<Arc<Attached>>,
    /// The way in which the last connection was lost.
    loss: Loss,
    /// Threads that wait for room.
    waiting: usize,
    /// The last message that the other side has acknowledged on the stream itself, behind its
    /// earlier messages.
    acknowledged: u64,
    /// The last message that this side has acknowledged on this connection.
    told: u64,
    /// Bytes that the writer has taken and not written.
    taken: usize,
    is_stuck: bool,
    /// Nothing is pushed any more: earlier messages are written, and this direction closed.
    is_closing: bool,
    /// Answers to pings that the writer has not taken.
    pongs: u32,
    /// The reason for which nothing can be sent any more.
    failure: Option<String>,
}

/// A batch on its way.
#[derive(Debug)]
struct Writing {
    attached: Arc<Attached>,
    /// The last number that was given when the batch was taken.
    last: u64,
    /// True if the batch has a number: the other side acknowledges it, and until then it is kept.
    is_numbered: bool,
    plain: Vec<u8>,
    /// Bytes before it are with TLS, or sent.
    encrypted_to: usize,
}

/// Bytes that are encrypted at once: TLS is locked meanwhile.
const PIECE: usize = 1 << 17;

/// Bytes that are kept to be sent again before [`Outgoing::wait_for_room`] waits: twice the bytes
/// that a receiver may take over without acknowledging them.
const MOST_KEPT: usize = 32 << 20;

#[derive(Debug)]
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.fail("this side has given it up".to_owned());
    }
}

/// The two directions of a connection on which TLS's handshake is done.
pub(crate) fn split(
    tls: rustls::Connection,
    socket: TcpStream,
    reader: FrameReader,
    agreed: Agreed,
    options: Duplex,
) -> io::Result<(Incoming, Outgoing)> {
    let from = match tls {
        rustls::Connection::Client(_) => Sender::Node,
        rustls::Connection::Server(_) => Sender::Client,
    };
    let Agreed {
        most,
        codecs,
        address,
        pulse,
    } = agreed;
    let counts = Arc::default();
    let attached = attach(tls, socket, &counts);
    let shared = Arc::new(Shared {
        queue: Mutex::new(Queue {
            batch: Batch::new(most),
            sent: Sent::default(),
            replay: Replay::default(),
            attached: Some(Arc::clone(&attached)),
            loss: Loss::default(),
            waiting: 0,
            acknowledged: 0,
            told: 0,
            taken: 0,
            is_stuck: false,
            is_closing: false,
            pongs: 0,
            failure: None,
        }),
        received: AtomicU64::new(0),
        writer: Mutex::new(Writing {
            attached: Arc::clone(&attached),
            last: 0,
            is_numbered: false,
            plain: Vec::new(),
            encrypted_to: 0,
        }),
        stuck: Condvar::new(),
        room: Condvar::new(),
        counts,
        address,
        most,
        codecs,
        resumable: options.resumable,
        watcher: OnceLock::new(),
    });
    let own = Arc::clone(&shared);
    std::thread::Builder::new()
        .name("quipu-link".to_owned())
        .start(move || own.unstick())?;
    if let Err(error) = pulse.watch(&shared) {
        // The thread above ends.
        shared.fail(error.to_string());
        return Err(error);
    }
    let incoming = Incoming::new(Arc::clone(&shared), attached, reader, from, options);
    let handle = Arc::new(Handle(Arc::clone(&shared)));
    let outgoing = Outgoing {
        shared,
        _handle: handle,
    };
    Ok((incoming, outgoing))
}

/// A connection, for a stream to go over.
fn attach(mut tls: rustls::Connection, socket: TcpStream, counts: &Arc<Counts>) -> Arc<Attached> {
    socket::give_up_when_dead(&socket);
    // The encrypted bytes are bounded by the plain bytes that the writer hands over at once.
    tls.set_buffer_limit(None);
    Arc::new(Attached {
        socket,
        tls: Mutex::new(tls),
        counts: Arc::clone(counts),
    })
}

/// The progress of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    All,
    /// The socket takes no more.
    Stuck,
    /// The connection is lost: the rest is kept.
    Lost,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        locked(&self.queue)
    }

    /// Nothing can be sent any more, for this reason, if it is the first.
    fn fail(&self, reason: String) {
        let mut queue = self.queue();
        queue.failure.get_or_insert(reason);
        queue.batch.clear();
        queue.taken = 0;
        queue.replay = Replay::default();
        let attached = queue.attached.take();
        drop(queue);
        if let Some(attached) = attached {
            // The receiving thread is told so.
            let _ = attached.socket.shutdown(Shutdown::Both);
        }
        self.room.notify_all();
        self.stuck.notify_all();
        self.wake_watcher();
    }

    /// The thread that watches whether anything comes finds that the stream has ended.
    fn wake_watcher(&self) {
        if let Some(watcher) = self.watcher.get() {
            watcher.unpark();
        }
    }

    /// Writes the pushed messages, unless another thread does, and does not wait for the socket.
    fn flush(&self) {
        self.flush_by(socket::send_now);
    }

    fn flush_by(&self, send: impl Fn(&Attached) -> io::Result<()>) {
        loop {
            let mut writing = match self.writer.try_lock() {
                Ok(writing) => writing,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            let written = self.write(&mut writing, &send);
            let attached = written.is_err().then(|| Arc::clone(&writing.attached));
            drop(writing);
            match written {
                Ok(Written::All) => {}
                Ok(Written::Lost) => return,
                Ok(Written::Stuck) => {
                    self.queue().is_stuck = true;
                    self.stuck.notify_one();
                    return;
                }
                Err(error) => {
                    return self.lose(attached.as_ref(), Loss::of(&error), &error.to_string());
                }
            }
            // A thread that pushed before the writer was free has gone away again.
            if self.queue().batch.is_empty() {
                return;
            }
        }
    }

    /// The stream's thread: waits for the socket where others must not. Ends with the connection.
    fn unstick(&self) {
        let mut queue = self.queue();
        loop {
            while !queue.is_stuck && !queue.is_closing && queue.failure.is_none() {
                queue = self
                    .stuck
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            if queue.failure.is_some() {
                return;
            }
            queue.is_stuck = false;
            drop(queue);
            let mut writing = locked(&self.writer);
            let written = self.write(&mut writing, socket::send_and_wait);
            let attached = written.is_err().then(|| Arc::clone(&writing.attached));
            drop(writing);
            if let Err(error) = written {
                self.lose(attached.as_ref(), Loss::of(&error), &error.to_string());
            }
            queue = self.queue();
            if queue.attached.is_none() {
                if queue.is_closing {
                    let reason = "the connection was lost as this side closed it";
                    queue.failure.get_or_insert_with(|| reason.to_owned());
                    drop(queue);
                    self.wake_watcher();
                    return self.room.notify_all();
                }
                continue;
            }
            // A thread that pushed before the writer was free has gone away again.
            queue.is_stuck |= !queue.batch.is_empty();
            if queue.is_closing && !queue.is_stuck {
                drop(queue);
                return self.end();
            }
        }
    }

    /// Closes this direction. Everything that was pushed is written.
    fn end(&self) {
        let mut writing = locked(&self.writer);
        let attached = Arc::clone(&writing.attached);
        locked(&attached.tls).send_close_notify();
        // A side that does not get it takes the connection to be lost.
        let _ = self.write(&mut writing, socket::send_and_wait);
        drop(writing);
        let _ = attached.socket.shutdown(Shutdown::Write);
        let closed = || "this side has closed it".to_owned();
        self.queue().failure.get_or_insert_with(closed);
        self.wake_watcher();
        self.room.notify_all();
    }

    /// Writes all that was pushed, or as much as `send` takes.
    fn write(
        &self,
        writing: &mut Writing,
        send: impl Fn(&Attached) -> io::Result<()>,
    ) -> io::Result<Written> {
        let attached = Arc::clone(&writing.attached);
        loop {
            match send(&attached) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Written::Stuck),
                sent => sent?,
            }
            if writing.encrypted_to == writing.plain.len() && !self.take(writing) {
                return Ok(Written::Lost);
            }
            let start = writing.encrypted_to;
            let end = writing.plain.len().min(start + PIECE);
            if start == end {
                return Ok(Written::All);
            }
            let mut tls = locked(&attached.tls);
            tls.writer().write_all(&writing.plain[start..end])?;
            writing.encrypted_to = end;
        }
    }

    /// Takes the pushed messages. Those taken before are written. False if the connection is lost.
    fn take(&self, writing: &mut Writing) -> bool {
        let mut queue = self.queue();
        if queue.attached.is_none() && queue.failure.is_none() {
            return false;
        }
        if self.resumable && writing.is_numbered && writing.last > queue.sent.acknowledged() {
            let room = queue.replay.room();
            let written = std::mem::replace(&mut writing.plain, room);
            queue.replay.keep(writing.last, written);
        }
        let received = self.received.load(Ordering::Acquire);
        if std::mem::replace(&mut queue.told, received) < received {
            let acknowledge = Message::Acknowledge(Acknowledge { received });
            // It has one field, which is no less than one.
            let _ = queue.batch.push(&acknowledge, 0);
        }
        queue.batch.exchange(&mut writing.plain);
        queue.taken = writing.plain.len();
        let last = queue.sent.last();
        writing.is_numbered = last > writing.last;
        writing.last = last;
        queue.pongs = 0;
        writing.encrypted_to = 0;
        let is_awaited = queue.waiting > 0;
        drop(queue);
        if is_awaited {
            self.room.notify_all();
        }
        true
    }

    /// Puts a message behind the others; gives its number.
    fn push(&self, queue: &mut Queue, message: &Message<'_>) -> Result<u64> {
        let is_numbered = message.kind().is_numbered();
        self.push_by(queue, is_numbered, |batch, sequence| {
            batch.push(message, sequence)
        })
    }

    fn push_by(
        &self,
        queue: &mut Queue,
        is_numbered: bool,
        push: impl FnOnce(&mut Batch, u64) -> std::result::Result<(), WireError>,
    ) -> Result<u64> {
        if let Some(failure) = &queue.failure {
            return Err(self.failed(failure));
        }
        if queue.is_closing {
            return Err(self.failed("this side closes it"));
        }
        let mut sent = queue.sent;
        let sequence = if is_numbered { sent.next() } else { 0 };
        push(&mut queue.batch, sequence).map_err(LinkError::NotSent)?;
        queue.sent = sent;
        Ok(sequence)
    }

    fn failed(&self, reason: &str) -> LinkError {
        LinkError::Ended {
            address: self.address.clone(),
            reason: reason.to_owned(),
        }
    }
}

impl Outgoing {
    /// Puts a message behind those that are to be sent; gives its number, or zero if its kind has
    /// none. Never waits.
    ///
    /// # Errors
    /// If it breaks a rule, or the connection is lost.
    pub fn push(&self, message: &Message<'_>) -> Result<u64> {
        self.shared.push(&mut self.shared.queue(), message)
    }

    /// As [`push`](Self::push), of a message that is compressed. Its kind is one with numbers.
    pub(crate) fn push_packed(&self, packed: &Packed<'_>) -> Result<u64> {
        let queue = &mut self.shared.queue();
        self.shared.push_by(queue, true, |batch, sequence| {
            batch.push_packed(packed, sequence)
        })
    }

    /// The codecs by which messages may be compressed: both sides take them.
    #[must_use]
    pub fn codecs(&self) -> Codecs {
        self.shared.codecs
    }

    /// True if the other side is on this machine, as far as its address says so.
    #[must_use]
    pub fn is_here(&self) -> bool {
        let attached = self.shared.queue().attached.clone();
        let address = attached.and_then(|attached| attached.socket.peer_addr().ok());
        address.is_some_and(|address| address.ip().to_canonical().is_loopback())
    }

    /// Has everything that was pushed written, by this thread or by one that is writing. Never
    /// waits. If the connection is lost, the receiving thread is told.
    pub fn flush(&self) {
        self.shared.flush();
    }

    /// As [`push`](Self::push) and [`flush`](Self::flush).
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn send(&self, message: &Message<'_>) -> Result<u64> {
        let sequence = self.push(message)?;
        self.flush();
        Ok(sequence)
    }

    /// The largest frame that the other side takes.
    #[must_use]
    pub fn max_frame(&self) -> u32 {
        self.shared.most
    }

    /// Bytes that were pushed and that the socket has not taken.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        let queue = self.shared.queue();
        queue.batch.bytes().len() + queue.taken
    }

    /// Bytes that are kept to be sent again after a loss.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.shared.queue().replay.bytes()
    }

    /// The last message that the other side has acknowledged behind all that it sent before: it did
    /// not know of the end of a command that this message names when it sent its earlier messages.
    /// An acknowledgement as a stream is resumed is not counted, for the messages that are sent
    /// again are older.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.shared.queue().acknowledged
    }

    /// The number of numbered messages that the other side has not acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> u64 {
        self.shared.queue().sent.outstanding()
    }

    /// Writes pushed bytes, and waits until at most `most` bytes are [pending](Self::pending_bytes)
    /// and the replay buffer has room. For a thread that only sends. It does not write while
    /// another thread does. It waits longer while the connection of a resumable stream is lost.
    /// True if it had to wait.
    ///
    /// # Errors
    /// If the stream has ended.
    pub fn wait_for_room(&self, most: usize) -> Result<bool> {
        let has_waited = Cell::new(false);
        self.shared
            .flush_by(|attached| match socket::send_now(attached) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    has_waited.set(true);
                    socket::send_and_wait(attached)
                }
                sent => sent,
            });
        let waited = self.wait(|queue| {
            queue.batch.bytes().len() + queue.taken <= most && queue.replay.bytes() <= MOST_KEPT
        })?;
        Ok(waited || has_waited.get())
    }

    /// As [`wait_for_room`](Self::wait_for_room), for the thread that receives on the same stream.
    /// It waits neither for acknowledgements, which come there, nor while the connection is lost,
    /// which that thread has to handle.
    ///
    /// # Errors
    /// If the stream has ended.
    pub fn wait_for_room_or_loss(&self, most: usize) -> Result<()> {
        self.flush();
        self.wait(|queue| {
            queue.attached.is_none() || queue.batch.bytes().len() + queue.taken <= most
        })?;
        Ok(())
    }

    /// Waits until something holds of the queue. True if it had to.
    fn wait(&self, holds: impl Fn(&Queue) -> bool) -> Result<bool> {
        let mut has_waited = false;
        let mut queue = self.shared.queue();
        loop {
            if let Some(failure) = &queue.failure {
                return Err(self.shared.failed(failure));
            }
            if holds(&queue) {
                return Ok(has_waited);
            }
            has_waited = true;
            queue.waiting += 1;
            let waited = self.shared.room.wait(queue);
            queue = waited.unwrap_or_else(PoisonError::into_inner);
            queue.waiting -= 1;
        }
    }

    /// Says goodbye after everything that was pushed, and closes this direction. Returns when that
    /// is written, or when the other side has not taken it for so long; then the connection ends at
    /// once.
    pub fn close(&self, reason: GoodbyeReason, text: &str, patience: Duration) {
        let text = presentable(text, 512);
        let goodbye = Message::Goodbye(Goodbye {
            reason,
            text: &text,
        });
        let mut queue = self.shared.queue();
        if self.shared.push(&mut queue, &goodbye).is_err() {
            return;
        }
        queue.is_closing = true;
        self.shared.stuck.notify_all();
        let waits = |queue: &mut Queue| queue.failure.is_none();
        let waited = self.shared.room.wait_timeout_while(queue, patience, waits);
        let (queue, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(queue);
        if timeout.timed_out() {
            self.abort("the other side did not take this side's goodbye in time");
        }
    }

    /// Waits until the other side has ended the connection as well, and no longer than so: after
    /// [`close`](Self::close), the system has delivered the goodbye then, and may let go of the
    /// socket. As good as it goes: a system that does not tell is not waited for.
    pub fn wait_for_end(&self, until: Instant) {
        let attached = self.shared.queue().attached.clone();
        if let Some(attached) = attached {
            socket::wait_for_end(&attached.socket, until);
        }
    }

    /// Cuts the connection, as a network may. A stream that is resumable goes on with another one;
    /// another ends.
    pub fn cut(&self, reason: &str) {
        self.shared.lose(None, Loss::Silent, reason);
    }

    /// Ends the connection at once, without a word: for one that breaks the rules, or is given up.
    /// The other side sees its end when it reads; one that only writes, when both directions here
    /// are dropped, which closes the socket.
    pub fn abort(&self, reason: &str) {
        self.shared.fail(reason.to_owned());
    }
}
