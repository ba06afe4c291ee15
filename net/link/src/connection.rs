//! Frames over TLS over TCP.
//!
//! A connection is for one thread, and blocks, until it is [split](Connection::split). Until a
//! deadline that is set has passed, however slowly the other side goes on: each wait for the socket
//! is for no longer than the time that is left.

use crate::error::{LinkError, Result, on_one_line};
use crate::key::Fingerprint;
use crate::stream::{self, Agreed, Duplex, Incoming, Outgoing, Pulse};
use crate::timer::{Timer, deadline_after};
use quipu_protocol::SESSION_LABEL;
use quipu_protocol::batch::Batch;
use quipu_protocol::compression::Codecs;
use quipu_protocol::error::WireError;
use quipu_protocol::frame::Frame;
use quipu_protocol::limits::MIN_FRAME;
use quipu_protocol::message::{Goodbye, GoodbyeReason, Message, SessionId, decode, presentable};
use quipu_protocol::reader::{FrameReader, Next};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// A socket with a deadline.
#[derive(Debug)]
struct Socket {
    stream: TcpStream,
    deadline: Option<Instant>,
}

impl Socket {
    /// The time that the next call may wait.
    fn left(&self) -> io::Result<Option<Duration>> {
        let Some(deadline) = self.deadline else {
            return Ok(None);
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(Some(left))
    }
}

/// Does it again as long as a signal interrupts it. A wait with a time limit is interrupted by
/// each. It is also interrupted when the process is stopped and goes on, which no process can have
/// the system hide (signal(7)).
fn uninterrupted(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        uninterrupted(|| {
            self.stream.set_read_timeout(self.left()?)?;
            self.stream.read(buffer)
        })
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        uninterrupted(|| {
            self.stream.set_write_timeout(self.left()?)?;
            self.stream.write(bytes)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// A connection whose other side has authenticated.
#[derive(Debug)]
pub struct Connection {
    tls: rustls::Connection,
    socket: Socket,
    reader: FrameReader,
    peer: Fingerprint,
    address: String,
    most: u32,
    /// The codecs by which messages may be compressed.
    codecs: Codecs,
    /// The pulse by which each side sees that the other is there, once it is a stream.
    pulse: Pulse,
}

/// One side of TLS.
enum Stream {
    Client(rustls::StreamOwned<rustls::ClientConnection, TcpStream>),
    Server(rustls::StreamOwned<rustls::ServerConnection, TcpStream>),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Client(stream) => stream.read(buffer),
            Self::Server(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Client(stream) => stream.write(bytes),
            Self::Server(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Client(stream) => stream.flush(),
            Self::Server(stream) => stream.flush(),
        }
    }
}

/// Bytes that are taken from TLS at once.
const PIECE: usize = 1 << 14;

impl Connection {
    /// Does TLS's handshake, until a deadline.
    pub(crate) fn shake_hands(
        stream: TcpStream,
        mut tls: rustls::Connection,
        address: &str,
        deadline: Instant,
    ) -> Result<Self> {
        let mut socket = Socket {
            stream,
            deadline: Some(deadline),
        };
        let ended = |error| ended(address, error);
        socket.stream.set_nodelay(true).map_err(ended)?;
        while tls.is_handshaking() {
            while tls.wants_write() {
                tls.write_tls(&mut socket).map_err(ended)?;
            }
            if !tls.is_handshaking() {
                break;
            }
            if tls.read_tls(&mut socket).map_err(ended)? == 0 {
                return Err(ended(ErrorKind::UnexpectedEof.into()));
            }
            process(&mut tls, &mut socket, address)?;
        }
        while tls.wants_write() {
            tls.write_tls(&mut socket).map_err(ended)?;
        }
        let key = tls.peer_certificates().and_then(|keys| keys.first());
        let peer = key.and_then(|key| Fingerprint::of_public_key(key.as_ref()));
        let peer = peer.ok_or_else(|| LinkError::Tls {
            address: address.to_owned(),
            source: rustls::Error::NoCertificatesPresented,
        })?;
        Ok(Self {
            tls,
            socket,
            reader: FrameReader::new(MIN_FRAME),
            peer,
            address: address.to_owned(),
            most: MIN_FRAME,
            codecs: Codecs::default(),
            pulse: Pulse::default(),
        })
    }

    /// The key that the other side has proved to have.
    #[must_use]
    pub fn peer(&self) -> Fingerprint {
        self.peer
    }

    /// The id of the session that both sides mean if it begins on this connection: only they know
    /// it.
    pub(crate) fn own_session(&self) -> Option<SessionId> {
        let id = self
            .tls
            .export_keying_material([0; 16], SESSION_LABEL, None);
        id.ok().map(SessionId).filter(|id| *id != SessionId::NONE)
    }

    /// The address of this side, if the system says it.
    pub(crate) fn own_address(&self) -> Option<std::net::SocketAddr> {
        self.socket.stream.local_addr().ok()
    }

    /// The other side's address, as errors name it.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The protocol, as TLS has negotiated it.
    #[must_use]
    pub fn protocol(&self) -> &[u8] {
        self.tls.alpn_protocol().unwrap_or_default()
    }

    /// Gives everything from now on until then; without a deadline, it may wait for ever.
    pub fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.socket.deadline = deadline;
    }

    /// Sends larger frames than before the welcome, as far as the other side takes them, and takes
    /// larger ones.
    pub fn allow_frames(&mut self, sent: u32, received: u32) {
        self.most = sent;
        self.reader.allow(received);
    }

    /// Both sides have said that they take messages compressed by these, once it is a stream.
    pub(crate) fn allow_compression(&mut self, codecs: Codecs) {
        self.codecs = codecs;
    }

    /// Has the stream that this is [split](Self::split) into ping where it has nothing else to
    /// send, and take the connection to be lost if nothing comes for so long, by this timer; zero
    /// for never. The other side pings as well, or it answers pings, as every stream does. A
    /// connection that takes the place of the stream's goes on so.
    pub fn expect_pulse(&mut self, idle: Duration, timer: std::sync::Arc<dyn Timer>) {
        self.pulse = Pulse::within(idle, timer);
    }

    /// The codecs by which messages may be compressed.
    pub(crate) fn codecs(&self) -> Codecs {
        self.codecs
    }

    /// Sends a message that has no number.
    ///
    /// # Errors
    /// If it breaks a rule; if the connection is lost, or the deadline has passed.
    pub fn send(&mut self, message: &Message<'_>) -> Result<()> {
        self.send_all(std::slice::from_ref(message))
    }

    /// Sends messages that have no numbers, together.
    ///
    /// # Errors
    /// As [`Connection::send`]. If one breaks a rule, none is sent.
    pub fn send_all(&mut self, messages: &[Message<'_>]) -> Result<()> {
        let mut batch = Batch::new(self.most);
        for message in messages {
            batch.push(message, 0).map_err(LinkError::NotSent)?;
        }
        self.send_batch(&batch)
    }

    /// Sends the messages of a batch.
    ///
    /// # Errors
    /// If the connection is lost, or the deadline has passed.
    pub fn send_batch(&mut self, batch: &Batch) -> Result<()> {
        self.write(batch.bytes())
    }

    /// Sends bytes as they are: so tests send messages that break the rules.
    ///
    /// # Errors
    /// If the connection is lost, or the deadline has passed.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.write(bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let taken = self.tls.writer().write(rest);
            let taken = taken.map_err(|error| ended(&self.address, error))?;
            rest = &rest[taken..];
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the bytes that TLS has to send.
    fn flush(&mut self) -> Result<()> {
        while self.tls.wants_write() {
            let written = self.tls.write_tls(&mut self.socket);
            written.map_err(|error| ended(&self.address, error))?;
        }
        Ok(())
    }

    /// The next frame.
    ///
    /// # Errors
    /// If the received bytes make no sense; if the connection is lost or closed, or the deadline
    /// has passed.
    pub fn receive(&mut self) -> Result<Frame<'_>> {
        loop {
            let missing = self.reader.missing();
            if missing.map_err(|source| wire(&self.address, source))? == 0 {
                break;
            }
            self.read_more()?;
        }
        match self.reader.next() {
            Ok(Next::Frame(frame)) => Ok(frame),
            Ok(Next::Missing(_)) => Err(ended(&self.address, ErrorKind::UnexpectedEof.into())),
            Err(source) => Err(wire(&self.address, source)),
        }
    }

    /// Gets bytes that have come to the reader; waits for some.
    fn read_more(&mut self) -> Result<()> {
        let mut piece = [0; PIECE];
        loop {
            match self.tls.reader().read(&mut piece) {
                Ok(0) if self.reader.is_between_frames() => {
                    return Err(LinkError::Ended {
                        address: self.address.clone(),
                        reason: "the other side closed it".to_owned(),
                    });
                }
                Ok(0) => return Err(ended(&self.address, ErrorKind::UnexpectedEof.into())),
                Ok(length) => {
                    self.reader.push(&piece[..length]);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(ended(&self.address, error)),
            }
            self.flush()?;
            let read = self.tls.read_tls(&mut self.socket);
            read.map_err(|error| ended(&self.address, error))?;
            process(&mut self.tls, &mut self.socket, &self.address)?;
        }
    }

    /// Hands the next message to `take`, which gives a value for it, or the name of the message
    /// that it expected instead. Goodbyes are errors.
    ///
    /// # Errors
    /// As [`Connection::receive`]; if the message breaks a rule, is a goodbye, or is not the
    /// expected one.
    pub fn receive_as<T>(
        &mut self,
        take: impl FnOnce(&Message<'_>) -> std::result::Result<T, &'static str>,
    ) -> Result<T> {
        let address = self.address.clone();
        let frame = self.receive()?;
        let message = decode(&frame).map_err(|source| wire(&address, source))?;
        if let Message::Goodbye(Goodbye { reason, text }) = message {
            return Err(LinkError::Goodbye {
                address,
                reason,
                text: on_one_line(text),
            });
        }
        take(&message).map_err(|expected| LinkError::Unexpected {
            address,
            kind: message.kind().name(),
            expected,
        })
    }

    /// TLS alone, to write to and read from: for measurements beside it. Nothing of the protocol
    /// goes through this. Bytes that were received and not taken are lost.
    #[must_use]
    pub fn into_stream(self) -> impl Read + Write + Send {
        match self.tls {
            rustls::Connection::Client(tls) => {
                Stream::Client(rustls::StreamOwned::new(tls, self.socket.stream))
            }
            rustls::Connection::Server(tls) => {
                Stream::Server(rustls::StreamOwned::new(tls, self.socket.stream))
            }
        }
    }

    /// The parts with which a stream goes on. Deadlines are over.
    pub(crate) fn into_parts(self) -> Result<(rustls::Connection, TcpStream, FrameReader, u32)> {
        let failed = |error| ended(&self.address, error);
        let stream = &self.socket.stream;
        stream.set_read_timeout(None).map_err(failed)?;
        stream.set_write_timeout(None).map_err(failed)?;
        Ok((self.tls, self.socket.stream, self.reader, self.most))
    }

    /// The two directions, to be used at the same time. Deadlines are over.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn split(self, options: Duplex) -> Result<(Incoming, Outgoing)> {
        let (address, codecs) = (self.address.clone(), self.codecs);
        let pulse = self.pulse.clone();
        let (tls, socket, reader, most) = self.into_parts()?;
        let agreed = Agreed {
            most,
            codecs,
            address: address.clone(),
            pulse,
        };
        let split = stream::split(tls, socket, reader, agreed, options);
        split.map_err(|error| ended(&address, error))
    }

    /// Says why, and closes. No answer is waited for.
    pub fn close(mut self, reason: GoodbyeReason, text: &str) {
        let text = presentable(text, 512);
        let goodbye = Message::Goodbye(Goodbye {
            reason,
            text: &text,
        });
        // A side that does not get it finds the connection closed.
        let _ = self.send(&goodbye);
        self.end();
    }

    /// Closes without a word of Quipu's.
    pub(crate) fn end(mut self) {
        self.tls.send_close_notify();
        let _ = self.flush();
        let _ = self.socket.stream.shutdown(Shutdown::Write);
    }

    /// Ends TLS, on which nothing was said, on both sides, and gives the socket back for something
    /// else to begin on. One side ends first and says no more until the other has ended as well, so
    /// that no later byte is taken for one of this.
    ///
    /// # Errors
    /// If the other side says something, or does not end it in time.
    pub(crate) fn leave(mut self, ends_first: bool) -> Result<TcpStream> {
        if ends_first {
            self.tls.send_close_notify();
            self.flush()?;
        }
        match self.read_more() {
            Ok(()) => {
                return Err(LinkError::Ended {
                    address: self.address,
                    reason: "the other side says something where nothing is to be said".to_owned(),
                });
            }
            Err(LinkError::Ended { .. }) if self.is_closed() => {}
            Err(error) => return Err(error),
        }
        if !ends_first {
            self.tls.send_close_notify();
            self.flush()?;
        }
        let (_, socket, ..) = self.into_parts()?;
        Ok(socket)
    }

    /// True if the other side has said that it closes it.
    fn is_closed(&mut self) -> bool {
        matches!(self.tls.reader().read(&mut [0]), Ok(0))
    }

    /// As [`Connection::end`], but waits for the other side to close as well: its unread bytes
    /// would else make the system throw away our last bytes. Only for a while, and for so many
    /// bytes.
    pub(crate) fn end_and_drain(mut self, most: Duration) {
        self.tls.send_close_notify();
        let _ = self.flush();
        let _ = self.socket.stream.shutdown(Shutdown::Write);
        let until = deadline_after(most);
        self.socket.deadline = Some(self.socket.deadline.map_or(until, |set| set.min(until)));
        let mut piece = [0; PIECE];
        let mut left = 64 * PIECE;
        while let Ok(1..) = self.socket.read(&mut piece)
            && let Some(fewer) = left.checked_sub(PIECE)
        {
            left = fewer;
        }
    }
}

/// Has TLS process the received bytes; tells the other side if they make no sense.
fn process(tls: &mut rustls::Connection, socket: &mut Socket, address: &str) -> Result<()> {
    let Err(source) = tls.process_new_packets() else {
        return Ok(());
    };
    // The alert. The connection is over whether it arrives or not.
    let _ = tls.write_tls(socket);
    Err(LinkError::Tls {
        address: address.to_owned(),
        source,
    })
}

pub(crate) fn wire(address: &str, source: WireError) -> LinkError {
    LinkError::Wire {
        address: address.to_owned(),
        source,
    }
}

pub(crate) fn ended(address: &str, error: io::Error) -> LinkError {
    let address = address.to_owned();
    match error.kind() {
        // A socket's timeout is either, by the system.
        ErrorKind::TimedOut | ErrorKind::WouldBlock => LinkError::TimedOut { address },
        ErrorKind::UnexpectedEof => LinkError::Ended {
            address,
            reason: "it was cut, without a goodbye from the other side".to_owned(),
        },
        _ => LinkError::Ended {
            address,
            reason: error.to_string(),
        },
    }
}
