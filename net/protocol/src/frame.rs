//! Frames: a header of 16 bytes, and a message.
//!
//! | offset | bytes | contents |
//! |---|---|---|
//! | 0 | 4 | the frame's length: header, message and padding, a multiple of 8 |
//! | 4 | 2 | the message's kind |
//! | 6 | 2 | flags: 1 or 2 if the message is [compressed](crate::compression), by LZ4 or Zstandard; else zero |
//! | 8 | 8 | the message's number in its stream and direction, from 1; zero for those that have none |

use crate::compression::{self, Codec};
use crate::error::{Place, Problem, WireError};
use crate::layout::Header;
use crate::limits::HEADER;
use zerocopy::{FromBytes, IntoBytes};

/// The sender of messages of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sender {
    /// A client.
    Client,
    /// A node.
    Node,
    /// Either.
    Both,
}

/// Over which of a session's streams messages of a kind go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Either, and before there is a session.
    Any,
    /// The command stream.
    Command,
    /// The bulk stream, and connections from node to node.
    Bulk,
    /// Connections from node to node, where who dials sends as a client does.
    Peer,
}

macro_rules! kinds {
    ($($(#[$documentation:meta])* $name:ident = $number:literal, $text:literal, $sender:ident, $stream:ident;)*) => {
        /// The kind of a frame's message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Kind {
            $($(#[$documentation])* $name = $number,)*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The kind of this number.
            #[must_use]
            pub fn of(number: u16) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Its name, as errors and logs say it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// The sender of its messages.
            #[must_use]
            pub fn sender(self) -> Sender {
                match self {
                    $(Self::$name => Sender::$sender,)*
                }
            }

            /// Over which stream they go.
            #[must_use]
            pub fn stream(self) -> Stream {
                match self {
                    $(Self::$name => Stream::$stream,)*
                }
            }
        }
    };
}

kinds! {
    /// A client's first message.
    Hello = 0x01, "hello", Client, Any;
    /// A node's answer to a hello: the session's terms.
    Welcome = 0x02, "welcome", Node, Any;
    /// A node's answer to a hello that it turns down, with the reason.
    Refuse = 0x03, "refuse", Node, Any;
    /// The number of the last message that was received.
    Acknowledge = 0x04, "acknowledge", Both, Any;
    /// A request for a pong.
    Ping = 0x05, "ping", Both, Any;
    /// The answer to a ping.
    Pong = 0x06, "pong", Both, Any;
    /// The last message of a connection.
    Goodbye = 0x07, "goodbye", Both, Any;
    /// A client's request to be enrolled.
    Enrol = 0x08, "enrol", Client, Any;
    /// The answer to a client that is enrolled now.
    Enrolled = 0x09, "enrolled", Node, Any;
    /// A request for a node's status.
    StatusRequest = 0x0a, "status request", Client, Any;
    /// A node's status.
    Status = 0x0b, "status", Node, Any;
    /// One of a node's devices.
    Device = 0x0c, "device", Node, Any;
    /// The address of a new session.
    Redirect = 0x0d, "redirect", Node, Any;
    /// The first message from node to node.
    Ticket = 0x0e, "ticket", Client, Any;
    /// The answer to a ticket that is good.
    Admitted = 0x0f, "admitted", Node, Any;
    /// The load of a device.
    Load = 0x10, "load", Node, Any;
    /// The traffic on the connections of a client's sessions.
    Links = 0x11, "links", Node, Any;
    /// A new buffer.
    CreateBuffer = 0x20, "create buffer", Client, Command;
    /// A buffer is not used any more.
    FreeBuffer = 0x21, "free buffer", Client, Command;
    /// A new program.
    CreateProgram = 0x22, "create program", Client, Command;
    /// A program is not used any more.
    FreeProgram = 0x23, "free program", Client, Command;
    /// A part of the source of the next program.
    ProgramSource = 0x24, "program source", Client, Command;
    /// A command that does nothing.
    Nothing = 0x30, "nothing", Client, Command;
    /// A kernel's launch.
    Launch = 0x31, "launch", Client, Command;
    /// A fill.
    Fill = 0x32, "fill", Client, Command;
    /// A copy between buffers.
    Copy = 0x33, "copy", Client, Command;
    /// A write of a client's bytes.
    Write = 0x34, "write", Client, Command;
    /// A read of bytes for a client.
    Read = 0x35, "read", Client, Command;
    /// A read of the bytes of a buffer that are in use.
    ReadContent = 0x36, "read content", Client, Command;
    /// The sizes of the parts of a command's buffers that are in use.
    ContentSizes = 0x37, "content sizes", Client, Command;
    /// An event that somebody else brings about.
    Placeholder = 0x38, "placeholder", Client, Command;
    /// The end of a placeholder's event.
    Resolve = 0x39, "resolve", Client, Command;
    /// A request not to run a command.
    Cancel = 0x3a, "cancel", Client, Command;
    /// A request to read a program and to describe its kernels.
    Describe = 0x3b, "describe", Client, Command;
    /// Commands that have succeeded.
    Completed = 0x50, "completed", Node, Command;
    /// Commands that have succeeded, with their times.
    Profiled = 0x51, "profiled", Node, Command;
    /// A command that has failed.
    Failed = 0x52, "failed", Node, Command;
    /// The bytes of a read.
    ReadBytes = 0x53, "read bytes", Node, Command;
    /// A device is lost.
    DeviceLost = 0x54, "device lost", Node, Command;
    /// The number of bytes of a read that are in use.
    Content = 0x55, "content", Node, Command;
    /// Commands that have succeeded, with their times and devices.
    Ran = 0x56, "ran", Node, Command;
    /// A part of a compiler's log of a program.
    BuildLog = 0x57, "build log", Node, Command;
    /// A kernel of a program.
    KernelDescription = 0x58, "kernel description", Node, Command;
    /// A parameter of a program's kernel.
    ParameterDescription = 0x59, "parameter description", Node, Command;
    /// Text that kernels have printed.
    Printed = 0x5a, "printed", Node, Command;
    /// A part of a transfer.
    Chunk = 0x70, "chunk", Both, Bulk;
    /// The rest of a transfer, which is zeros.
    Rest = 0x71, "rest", Both, Bulk;
    /// A connection to another node.
    Peer = 0x80, "peer", Client, Command;
    /// Bytes go to another node.
    Send = 0x81, "send", Client, Command;
    /// Bytes come from another node.
    Receive = 0x82, "receive", Client, Command;
    /// Another node is told of an end.
    Tell = 0x83, "tell", Client, Command;
    /// The rest of a transfer never comes.
    Abandon = 0x84, "abandon", Client, Command;
    /// A placeholder has come about, by another node's word.
    CameAbout = 0x85, "came about", Client, Peer;
    /// A transfer has come.
    Taken = 0x86, "taken", Node, Peer;
    /// Another node is gone.
    Part = 0x87, "part", Client, Command;
    /// Bytes that are in use go to another node.
    SendContent = 0x88, "send content", Client, Command;
}

impl Kind {
    /// True if its messages have numbers: they take effect exactly once, in order, across
    /// connections. So do those that belong to one stream.
    #[must_use]
    pub fn is_numbered(self) -> bool {
        self.stream() != Stream::Any
    }

    /// Fails unless such a message may come from there, over this stream.
    ///
    /// # Errors
    /// Says that it has no place there.
    pub fn check_route(self, from: Sender, over: Stream) -> Result<(), WireError> {
        let (sender, stream) = (self.sender(), self.stream());
        let is_of = match over {
            Stream::Peer => stream == over || stream == Stream::Bulk,
            _ => stream == over,
        };
        if (sender == from || sender == Sender::Both) && (is_of || stream == Stream::Any) {
            return Ok(());
        }
        Err(
            Problem::Rule("the other side does not send it over this stream")
                .at(Place::Message(self.name())),
        )
    }
}

/// A frame as it was received: its kind, its number, and the bytes of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its number, or zero.
    pub sequence: u64,
    /// By what the message is compressed: it is [unpacked](crate::compression::Unpacker::unpack)
    /// before it is decoded.
    pub compressed: Option<Codec>,
    /// The message, padding included.
    pub body: &'a [u8],
}

/// The length of the frame that these bytes begin, or `None` while its header has not come.
///
/// # Errors
/// If no frame of at most `most` bytes begins so. A receiver asks before it waits for the rest, or
/// makes room for it.
pub fn length(bytes: &[u8], most: u32) -> Result<Option<usize>, WireError> {
    let Ok((header, _)) = Header::ref_from_prefix(bytes) else {
        return Ok(None);
    };
    let length = header.length.get();
    if (length as usize) < HEADER || length > most || !length.is_multiple_of(8) {
        return Err(Problem::FrameLength { length, most }.at(Place::Header));
    }
    Ok(Some(length as usize))
}

/// The frame that is just these bytes.
///
/// # Errors
/// If the header is not one of this version.
pub fn parse(bytes: &[u8]) -> Result<Frame<'_>, WireError> {
    let at = |problem: Problem| problem.at(Place::Header);
    let (header, body) = Header::ref_from_prefix(bytes).map_err(|_| {
        at(Problem::Short {
            field: "the header",
            needed: HEADER,
            there: bytes.len(),
        })
    })?;
    if header.length.get() as usize != bytes.len() || !bytes.len().is_multiple_of(8) {
        return Err(at(Problem::FrameLength {
            length: header.length.get(),
            most: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
        }));
    }
    let number = header.kind.get();
    let kind = Kind::of(number).ok_or_else(|| at(Problem::Kind { kind: number }))?;
    let flags = header.flags.get();
    let mut codecs = Codec::ALL.into_iter();
    let compressed = codecs.find(|codec| codec.flag() == flags);
    if flags != 0 && !(compressed.is_some() && compression::may_be(kind)) {
        return Err(at(Problem::NotZero { field: "flags" }));
    }
    let sequence = header.sequence.get();
    if (sequence != 0) != kind.is_numbered() {
        return Err(at(Problem::Rule(
            "numbered messages have a number from 1, and others have zero",
        )));
    }
    Ok(Frame {
        kind,
        sequence,
        compressed,
        body,
    })
}

/// Begins a frame; its length is set by [`end`].
pub(crate) fn begin(kind: Kind, flags: u16, sequence: u64, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    let header = Header {
        length: 0.into(),
        kind: (kind as u16).into(),
        flags: flags.into(),
        sequence: sequence.into(),
    };
    out.extend_from_slice(header.as_bytes());
    start
}

/// Pads the frame that began at `start`, and says how long it is.
pub(crate) fn end(start: usize, most: u32, out: &mut Vec<u8>) -> Result<(), Problem> {
    out.resize(start + (out.len() - start).next_multiple_of(8), 0);
    let bytes = out.len() - start;
    let length = u32::try_from(bytes).unwrap_or(u32::MAX);
    if length > most {
        return Err(Problem::FrameLength { length, most });
    }
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}
