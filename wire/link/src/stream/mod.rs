//! Both directions of a connection at once: numbers, acknowledgements, batches.
//!
//! Anybody may [push](Outgoing::push) messages, which never waits: a message is encoded and put behind the others. Then
//! somebody [flushes](Outgoing::flush):
//!
//! 1. Who flushes becomes the writer, unless somebody is; then that one writes what was pushed meanwhile. So while one
//!    batch is on its way the next one grows, and under load a write is of many frames.
//! 2. The writer takes the batch, has TLS encrypt a piece of it, and sends it without waiting. No other thread has to be
//!    woken for that, which would take longer than all the rest.
//! 3. If the socket takes no more, the rest is left to the stream's own thread, which waits for the socket. So a flush never
//!    waits either, and can be done by a thread that has other things to do.
//!
//! One thread [receives](Incoming::receive). What concerns the stream alone is seen to there: numbers are checked,
//! repetitions left out, pings answered, acknowledgements noted. What came is acknowledged with what is sent next, or by
//! itself when much has come.
//!
//! Receiving never waits for sending, and sending never for receiving: TLS is locked while it computes, and not while
//! anybody waits for a socket. So two machines that both send without reading do not wait for each other for ever; what is not read
//! yet stays with its sender, who sees that in [`Outgoing::pending_bytes`] and can [wait](Outgoing::wait_for_room).
//!
//! | file | what it is |
//! |---|---|
//! | here | what is shared, and sending |
//! | `incoming` | receiving |
//! | `interrupt` | receiving while something else is waited for |
//! | `socket` | sending and receiving without waiting |

mod incoming;
mod interrupt;
mod socket;

pub use incoming::Incoming;
pub use interrupt::Interrupt;

use crate::error::{LinkError, Result};
use quipu_wire::batch::Batch;
use quipu_wire::frame::{Sender, Stream};
use quipu_wire::message::{Acknowledge, Goodbye, GoodbyeReason, Message, presentable};
use quipu_wire::reader::FrameReader;
use quipu_wire::sequence::Sent;
use std::io::{self, ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// How both directions of a connection are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplex {
    /// Which of a session's streams it is: what belongs to the other is refused.
    pub stream: Stream,
    /// For how long the receiver looks again and again before it sleeps. To be woken takes 15 to 25 µs; while it looks, it
    /// needs a core.
    pub spin: Duration,
}

impl Default for Duplex {
    /// A command stream; 20 µs, which is as long as it takes to be woken.
    fn default() -> Self {
        Self {
            stream: Stream::Command,
            spin: Duration::from_micros(20),
        }
    }
}

/// The direction in which messages go. Clones are the same. When the last is dropped, or the other direction is, the
/// connection ends at once; [`close`](Outgoing::close) it before, so that what was pushed arrives.
#[derive(Clone, Debug)]
pub struct Outgoing {
    shared: Arc<Shared>,
    /// Ends the connection with the last clone.
    _handle: Arc<Handle>,
}

#[derive(Debug)]
struct Shared {
    socket: TcpStream,
    tls: Mutex<rustls::Connection>,
    queue: Mutex<Queue>,
    /// What is on its way to the socket. Whoever has this locked is the writer.
    writer: Mutex<Writing>,
    /// The socket takes no more, or the stream ends: for its thread.
    stuck: Condvar,
    /// There is room again, or the stream has failed.
    room: Condvar,
    address: String,
    most: u32,
}

/// What was pushed, and nobody writes yet.
#[derive(Debug)]
struct Queue {
    batch: Batch,
    sent: Sent,
    /// What is to be acknowledged with the next batch.
    received: Option<u64>,
    /// Bytes that the writer has taken and not written.
    taken: usize,
    is_stuck: bool,
    /// Nothing is pushed any more: what was is written, and this direction closed.
    is_closing: bool,
    /// Answers to pings that nobody has taken.
    pongs: u32,
    /// Why nothing can be sent any more.
    failure: Option<String>,
}

/// A batch on its way.
#[derive(Debug, Default)]
struct Writing {
    plain: Vec<u8>,
    encrypted_to: usize,
    cipher: Vec<u8>,
    written_to: usize,
}

/// Bytes that are encrypted at once: TLS is locked meanwhile.
const PIECE: usize = 1 << 16;

#[derive(Debug)]
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.fail("this side has given it up".to_owned());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The two directions of a connection on which TLS's handshake is done.
pub(crate) fn split(
    mut tls: rustls::Connection,
    socket: TcpStream,
    reader: FrameReader,
    most: u32,
    address: String,
    options: Duplex,
) -> io::Result<(Incoming, Outgoing)> {
    let from = match tls {
        rustls::Connection::Client(_) => Sender::Node,
        rustls::Connection::Server(_) => Sender::Client,
    };
    socket::give_up_when_dead(&socket);
    // What is encrypted is bounded by what the writer hands over at once.
    tls.set_buffer_limit(None);
    let shared = Arc::new(Shared {
        socket,
        tls: Mutex::new(tls),
        queue: Mutex::new(Queue {
            batch: Batch::new(most),
            sent: Sent::default(),
            received: None,
            taken: 0,
            is_stuck: false,
            is_closing: false,
            pongs: 0,
            failure: None,
        }),
        writer: Mutex::default(),
        stuck: Condvar::new(),
        room: Condvar::new(),
        address,
        most,
    });
    let own = Arc::clone(&shared);
    std::thread::Builder::new()
        .name("quipu-link".to_owned())
        .spawn(move || own.unstick())?;
    let incoming = Incoming::new(Arc::clone(&shared), reader, from, options);
    let handle = Arc::new(Handle(Arc::clone(&shared)));
    let outgoing = Outgoing {
        shared,
        _handle: handle,
    };
    Ok((incoming, outgoing))
}

/// How far a writer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    All,
    /// The socket takes no more.
    Stuck,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// Nothing can be sent any more, for this reason, if it is the first.
    fn fail(&self, reason: String) {
        let mut queue = self.queue();
        queue.failure.get_or_insert(reason);
        queue.batch.clear();
        queue.taken = 0;
        drop(queue);
        // Who receives is told so.
        let _ = self.socket.shutdown(Shutdown::Both);
        self.room.notify_all();
        self.stuck.notify_all();
    }

    /// Writes what was pushed, unless somebody does, and does not wait for the socket.
    fn flush(&self) {
        self.flush_by(socket::send_now);
    }

    fn flush_by(&self, send: impl Fn(&TcpStream, &[u8]) -> io::Result<usize>) {
        loop {
            let mut writing = match self.writer.try_lock() {
                Ok(writing) => writing,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            let written = self.write(&mut writing, &send);
            drop(writing);
            match written {
                Ok(Written::All) => {}
                Ok(Written::Stuck) => {
                    self.queue().is_stuck = true;
                    self.stuck.notify_one();
                    return;
                }
                Err(error) => return self.fail(error.to_string()),
            }
            // Whoever pushed before the writer was free has gone away again.
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
            let mut writing = lock(&self.writer);
            let written = self.write(&mut writing, socket::send_and_wait);
            drop(writing);
            if let Err(error) = written {
                return self.fail(error.to_string());
            }
            queue = self.queue();
            // Whoever pushed before the writer was free has gone away again.
            queue.is_stuck |= !queue.batch.is_empty();
            if queue.is_closing && !queue.is_stuck {
                drop(queue);
                return self.end();
            }
        }
    }

    /// Closes this direction. Everything that was pushed is written.
    fn end(&self) {
        lock(&self.tls).send_close_notify();
        // Whoever does not get it takes the connection to be lost.
        let _ = self.write(&mut lock(&self.writer), socket::send_and_wait);
        let _ = self.socket.shutdown(Shutdown::Write);
        let closed = || "this side has closed it".to_owned();
        self.queue().failure.get_or_insert_with(closed);
        self.room.notify_all();
    }

    /// Writes all that was pushed, or as much as `send` takes.
    fn write(
        &self,
        writing: &mut Writing,
        send: impl Fn(&TcpStream, &[u8]) -> io::Result<usize>,
    ) -> io::Result<Written> {
        loop {
            while let Some(rest) = writing.cipher.get(writing.written_to..)
                && !rest.is_empty()
            {
                match send(&self.socket, rest) {
                    Ok(0) => return Err(ErrorKind::WriteZero.into()),
                    Ok(written) => writing.written_to += written,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        return Ok(Written::Stuck);
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            writing.cipher.clear();
            writing.written_to = 0;
            if writing.encrypted_to == writing.plain.len() {
                self.take(writing);
            }
            let start = writing.encrypted_to;
            let end = writing.plain.len().min(start + PIECE);
            let mut tls = lock(&self.tls);
            tls.writer().write_all(&writing.plain[start..end])?;
            while tls.wants_write() {
                tls.write_tls(&mut writing.cipher)?;
            }
            drop(tls);
            writing.encrypted_to = end;
            if writing.cipher.is_empty() {
                return Ok(Written::All);
            }
        }
    }

    /// Takes what was pushed. What was taken before is written.
    fn take(&self, writing: &mut Writing) {
        let mut queue = self.queue();
        if let Some(received) = queue.received.take() {
            let acknowledge = Message::Acknowledge(Acknowledge { received });
            // It has one field, which is no less than one.
            let _ = queue.batch.push(&acknowledge, 0);
        }
        queue.batch.exchange(&mut writing.plain);
        queue.taken = writing.plain.len();
        queue.pongs = 0;
        writing.encrypted_to = 0;
        drop(queue);
        self.room.notify_all();
    }

    /// Puts a message behind the others; gives its number.
    fn push(&self, queue: &mut Queue, message: &Message<'_>) -> Result<u64> {
        if let Some(failure) = &queue.failure {
            return Err(self.failed(failure));
        }
        if queue.is_closing {
            return Err(self.failed("this side closes it"));
        }
        let mut sent = queue.sent;
        let sequence = if message.kind().is_numbered() {
            sent.next()
        } else {
            0
        };
        let pushed = queue.batch.push(message, sequence);
        pushed.map_err(LinkError::NotSent)?;
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
    /// Puts a message behind those that are to be sent; gives its number, or zero if its kind has none. Never waits.
    ///
    /// # Errors
    /// If it breaks a rule, or the connection is lost.
    pub fn push(&self, message: &Message<'_>) -> Result<u64> {
        self.shared.push(&mut self.shared.queue(), message)
    }

    /// Has everything that was pushed written, by this thread or by one that is writing. Never waits. If the connection is
    /// lost, whoever receives is told.
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

    /// How many numbered messages the other side has not acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> u64 {
        self.shared.queue().sent.outstanding()
    }

    /// Writes what was pushed, and waits for the socket, unless somebody else writes; then waits until no more than so many
    /// bytes are [pending](Self::pending_bytes): for who has much to send and nothing else to do.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn wait_for_room(&self, most: usize) -> Result<()> {
        self.shared.flush_by(socket::send_and_wait);
        let mut queue = self.shared.queue();
        loop {
            if let Some(failure) = &queue.failure {
                return Err(self.shared.failed(failure));
            }
            if queue.batch.bytes().len() + queue.taken <= most {
                return Ok(());
            }
            queue = self
                .shared
                .room
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Says goodbye after everything that was pushed, and closes this direction. Returns when that is written, or when
    /// the other side has not taken it for so long; then the connection ends at once.
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

    /// Ends the connection at once, without a word: for one that breaks the rules, or is given up. The other side sees
    /// its end when it reads; one that only writes, when both directions here are dropped, which closes the socket.
    pub fn abort(&self, reason: &str) {
        self.shared.fail(reason.to_owned());
    }
}
