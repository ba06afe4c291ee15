//! Messages: the contents of frames.
//!
//! | module | messages |
//! |---|---|
//! | [`connection`] | hello, welcome, refuse, acknowledge, ping, pong, goodbye |
//! | [`enrolment`] | enrol, enrolled |
//! | [`redirect`] | the address of a new session |
//! | [`node`] | status, device |
//! | [`load`] | the load of a device, by queue |
//! | [`link`] | the traffic on the connections of a client's sessions |
//! | [`resource`] | buffers and programs |
//! | [`command`] | commands, and their waits |
//! | [`description`] | a program's kernels, for a client without a compiler |
//! | [`launch`] | launches of kernels, and their arguments |
//! | [`event`] | cancelled commands, placeholders, ends of commands with their results |
//! | [`bulk`] | chunks of transfers |
//! | [`peer`] | from node to node |
//! | `cursor` | reading a message from its front to its end |
//! | `parts` | programs that are linked of several parts |
//!
//! Each is a struct that borrows its texts, lists and payloads. A sender makes one and
//! [encodes](Message::encode) it; a receiver gets one from [`decode`], all of whose rules are
//! checked but those that need to be known what the session has: which buffers there are, and how
//! large they are.

pub mod bulk;
pub mod command;
pub mod connection;
mod cursor;
pub mod description;
pub mod enrolment;
pub mod event;
pub mod launch;
pub mod link;
pub mod load;
pub mod node;
pub mod parts;
pub mod peer;
pub mod redirect;
pub mod resource;

pub use bulk::{Chunk, Rest};
pub use command::{
    Command, ContentSize, ContentSizes, Copy, Fill, Operation, Priority, Read, ReadContent, Step,
    Stride, Wait, Write,
};
pub use connection::{
    Acknowledge, DataOrder, Goodbye, GoodbyeReason, Hello, Ping, Pong, Refusal, Refuse, Role,
    SessionId, Welcome,
};
pub use description::{
    BuildLog, Describe, DescribeForm, KernelDescription, ParameterClass, ParameterDescription,
};
pub use enrolment::{Enrol, Enrolled};
pub use event::{
    Cancel, Completed, Content, DeviceLost, Failed, Failure, Printed, Profile, Profiled, Ran,
    ReadBytes, Resolve, Run,
};
pub use launch::{AccessMode, Launch, Parameter, ParameterKind, Passed};
pub use link::{LinkEntry, LinkKind, LinkLoad, LinkState, Links};
pub use load::{Load, QueueLoad};
pub use node::{Device, DeviceBits, DeviceDetails, DeviceKind, Status, Takes};
pub use parts::{PartForm, ProgramPart, parts};
pub use peer::{
    Abandon, Admitted, CameAbout, Part, Peer, PeerAddress, PeerRole, Placeholder, Receive,
    SendBytes, SendContent, Taken, Tell, Ticket,
};
pub use redirect::Redirect;
pub use resource::{
    CreateBuffer, CreateProgram, FreeBuffer, FreeProgram, ProgramFormat, ProgramSource,
};
pub use zerocopy::little_endian::U64 as Word;

use crate::error::{Place, Problem, WireError};
use crate::frame::{self, Frame, Kind};
use cursor::Cursor;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Message<'a> {
    /// A client's first message.
    Hello(Hello<'a>),
    /// A node's answer.
    Welcome(Welcome<'a>),
    /// A node's other answer.
    Refuse(Refuse<'a>),
    /// The messages that were received.
    Acknowledge(Acknowledge),
    /// Asks for an answer.
    Ping(Ping),
    /// The answer.
    Pong(Pong),
    /// The last message of a connection.
    Goodbye(Goodbye<'a>),
    /// A client asks to be enrolled.
    Enrol(Enrol<'a>),
    /// It is.
    Enrolled(Enrolled<'a>),
    /// Asks how a node is.
    StatusRequest,
    /// The state of the node.
    Status(Status),
    /// The load of a device.
    Load(Load<'a>),
    /// The traffic of the connections of a client's sessions.
    Links(Links<'a>),
    /// One of a node's devices.
    Device(Device<'a>),
    /// The address of a new session.
    Redirect(Redirect),
    /// A new buffer.
    CreateBuffer(CreateBuffer),
    /// A buffer is not used any more.
    FreeBuffer(FreeBuffer),
    /// A new program.
    CreateProgram(CreateProgram<'a>),
    /// A program is not used any more.
    FreeProgram(FreeProgram),
    /// A part of the source of the next program.
    ProgramSource(ProgramSource<'a>),
    /// The first message from node to node.
    Ticket(Ticket),
    /// The answer.
    Admitted(Admitted),
    /// A command, of one of eleven kinds.
    Command(Command<'a>),
    /// The content sizes of a command's buffers.
    ContentSizes(ContentSizes<'a>),
    /// An event that somebody else brings about.
    Placeholder(Placeholder),
    /// It has come about.
    Resolve(Resolve<'a>),
    /// A command is not to be run.
    Cancel(Cancel),
    /// Commands that have succeeded.
    Completed(Completed<'a>),
    /// Commands that have succeeded, and when.
    Profiled(Profiled<'a>),
    /// Commands that have succeeded, when, and where.
    Ran(Ran<'a>),
    /// A command that has failed.
    Failed(Failed<'a>),
    /// The bytes of a read.
    ReadBytes(ReadBytes<'a>),
    /// The number of bytes of a read that are in use.
    Content(Content),
    /// A part of what a compiler says of a program.
    BuildLog(BuildLog<'a>),
    /// A kernel of a program.
    KernelDescription(KernelDescription<'a>),
    /// A parameter of a program's kernel.
    ParameterDescription(ParameterDescription<'a>),
    /// The output of kernels.
    Printed(Printed<'a>),
    /// A device is lost.
    DeviceLost(DeviceLost<'a>),
    /// A part of a transfer.
    Chunk(Chunk<'a>),
    /// The rest of a transfer is zeros.
    Rest(Rest),
    /// A connection to another node.
    Peer(Peer),
    /// Another node is told of an end.
    Tell(Tell),
    /// The rest of a transfer never comes.
    Abandon(Abandon),
    /// A placeholder has come about, by another node's word.
    CameAbout(CameAbout),
    /// A transfer has come.
    Taken(Taken),
    /// Another node is gone.
    Part(Part),
}

/// The reading and writing of a message. Bytes that are read were not checked yet; a message that
/// is written was.
trait Body<'a>: Sized {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem>;
    fn check(&self) -> Result<(), Problem>;
    fn write(&self, out: &mut Vec<u8>);
}

fn read<'a, T: Body<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    let mut cursor = Cursor::new(body);
    let message = T::read(&mut cursor)?;
    cursor.finish()?;
    message.check()?;
    Ok(message)
}

macro_rules! messages {
    ($($name:ident,)*) => {
        impl<'a> Message<'a> {
            /// Fails with what a receiver would refuse it for.
            ///
            /// # Errors
            /// Says which field, and what is allowed.
            pub fn check(&self) -> Result<(), WireError> {
                let checked = match self {
                    $(Self::$name(message) => message.check(),)*
                    Self::Command(command) => command.check(),
                    Self::StatusRequest => Ok(()),
                };
                checked.map_err(|problem| problem.at(Place::Message(self.kind().name())))
            }

            /// Its kind.
            #[must_use]
            pub fn kind(&self) -> Kind {
                match self {
                    $(Self::$name(_) => Kind::$name,)*
                    Self::Command(command) => command.kind(),
                    Self::StatusRequest => Kind::StatusRequest,
                }
            }

            fn write(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$name(message) => message.write(out),)*
                    Self::Command(command) => command.write(out),
                    Self::StatusRequest => {}
                }
            }
        }

        fn read_as(kind: Kind, body: &[u8]) -> Result<Message<'_>, Problem> {
            Ok(match kind {
                $(Kind::$name => Message::$name(read(body)?),)*
                Kind::Nothing | Kind::Launch | Kind::Fill | Kind::Copy | Kind::Write | Kind::Read
                | Kind::ReadContent | Kind::Describe | Kind::Send | Kind::SendContent | Kind::Receive => {
                    let mut cursor = Cursor::new(body);
                    let command = Command::read(kind, &mut cursor)?;
                    cursor.finish()?;
                    command.check()?;
                    Message::Command(command)
                }
                Kind::StatusRequest => {
                    Cursor::new(body).finish()?;
                    Message::StatusRequest
                }
            })
        }
    };
}

messages! {
    Hello, Welcome, Refuse, Acknowledge, Ping, Pong, Goodbye, Enrol, Enrolled, Status, Load, Links, Device, Redirect, CreateBuffer, FreeBuffer,
    CreateProgram, FreeProgram, ProgramSource, ContentSizes, Placeholder, Resolve, Cancel, Completed, Profiled, Ran, Failed, ReadBytes, Content,
    BuildLog, KernelDescription, ParameterDescription, Printed, DeviceLost,
    Chunk, Rest, Ticket, Admitted, Peer, Tell, Abandon, CameAbout, Taken, Part,
}

/// The message of a frame.
///
/// # Errors
/// If it breaks a rule of `docs/wire.md` that can be seen from the frame alone, or is compressed.
pub fn decode<'a>(frame: &Frame<'a>) -> Result<Message<'a>, WireError> {
    if frame.compressed.is_some() {
        return Err(Problem::NotZero { field: "flags" }.at(Place::Header));
    }
    read_as(frame.kind, frame.body).map_err(|problem| problem.at(Place::Message(frame.kind.name())))
}

impl Message<'_> {
    /// Appends it as a frame of at most `most` bytes, with its number, or zero if its kind has
    /// none.
    ///
    /// # Errors
    /// If a receiver would refuse it; nothing is appended then.
    pub fn encode(&self, sequence: u64, most: u32, out: &mut Vec<u8>) -> Result<(), WireError> {
        let kind = self.kind();
        if (sequence != 0) != kind.is_numbered() {
            return Err(Problem::Rule(
                "numbered messages have a number from 1, and others have zero",
            )
            .at(Place::Header));
        }
        self.check()?;
        let start = frame::begin(kind, 0, sequence, out);
        self.write(out);
        frame::end(start, most, out).map_err(|problem| {
            out.truncate(start);
            problem.at(Place::Message(kind.name()))
        })
    }

    /// Appends what comes after the header.
    pub(crate) fn write_body(&self, out: &mut Vec<u8>) {
        self.write(out);
    }
}

/// A text as messages may carry it: its first `most` bytes at most, with a space for every
/// character that does not belong into a text for people.
///
/// ```
/// assert_eq!(quipu_protocol::message::presentable("a\u{1b}[31mb", 64), "a [31mb");
/// assert_eq!(quipu_protocol::message::presentable("größer", 3), "gr");
/// ```
#[must_use]
pub fn presentable(text: &str, most: usize) -> String {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let shown = |character| match character {
        _ if cursor::is_for_people(character) => character,
        _ => ' ',
    };
    // A space is not longer than what it stands for.
    text[..end].chars().map(shown).collect()
}

/// Enums that are numbers on the wire.
macro_rules! numbers {
    ($($(#[$documentation:meta])* $name:ident, $field:literal { $($(#[$variant:meta])* $value:ident = $number:literal,)* })*) => {$(
        $(#[$documentation])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum $name {
            $($(#[$variant])* $value = $number,)*
        }

        impl $name {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$value),*];

            pub(super) fn of(number: u16) -> Result<Self, $crate::error::Problem> {
                match number {
                    $($number => Ok(Self::$value),)*
                    _ => Err($crate::error::Problem::Unknown { field: $field, value: number.into() }),
                }
            }

            pub(super) fn number(self) -> u16 {
                self as u16
            }
        }
    )*};
}
use numbers;
