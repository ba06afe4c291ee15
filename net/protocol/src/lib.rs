//! Quipu's network protocol: frames and messages, read in place and checked.
//!
//! This crate is bytes alone: it opens no connection and keeps no session. The protocol itself,
//! with every layout and every rule, is specified in `docs/wire.md`, from which somebody else could
//! write a client. This crate follows it.
//!
//! | module | contents |
//! |---|---|
//! | [`frame`] | headers, kinds, where one frame ends and the next begins |
//! | `layout` | the fixed parts of frames and messages |
//! | [`reader`] | frames from a stream that comes in pieces |
//! | [`batch`] | frames to a stream, many at a time |
//! | [`compression`] | messages that are compressed |
//! | [`sequence`] | numbers of messages: new messages, repetitions, acknowledgements |
//! | [`message`] | contents of frames |
//! | [`limits`] | limits of frames and of their parts |
//! | [`error`] | errors in received bytes, or in a message to be sent |
//!
//! # What is promised
//!
//! * [`message::decode`] takes any bytes. It never panics, never allocates, reads nothing twice,
//!   and its time is linear in the bytes. Its result is wholly valid by the rules of
//!   `docs/wire.md`: counts, lengths, numbers of enums, UTF-8, ranges that do not overflow, zeros
//!   where zeros have to be.
//! * [`message::Message::encode`] writes nothing that `decode` would refuse: both check by the same
//!   function.
//! * An encoded message is decoded as it was, and encoded again gives the same bytes: there is one
//!   way to write a message.
//!
//! Texts, lists and payloads borrow from the frame; layouts are structs of bytes, read where they
//! lie by `zerocopy`, on machines of either byte order.
//!
//! ```
//! use quipu_protocol::batch::Batch;
//! use quipu_protocol::message::{Message, Ping, decode};
//! use quipu_protocol::reader::{Next, FrameReader};
//!
//! let mut batch = Batch::new(quipu_protocol::limits::MIN_FRAME);
//! batch.push(&Message::Ping(Ping { token: 7, time_ns: 42 }), 0)?;
//!
//! let mut reader = FrameReader::new(quipu_protocol::limits::MIN_FRAME);
//! reader.push(batch.bytes());
//! let Next::Frame(frame) = reader.next()? else { panic!("a whole frame was pushed") };
//! assert_eq!(decode(&frame)?, Message::Ping(Ping { token: 7, time_ns: 42 }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod batch;
pub mod compression;
pub mod error;
pub mod frame;
mod layout;
pub mod limits;
pub mod message;
pub mod reader;
pub mod sequence;

/// The protocol's name as TLS negotiates it (ALPN). Another *major* version would be another name.
pub const PROTOCOL: &[u8] = b"quipu/1";

/// The protocol in which a client asks to be enrolled, which is all that can be said in it.
pub const ENROLMENT_PROTOCOL: &[u8] = b"quipu-enrol/1";

/// The protocol between nodes, in which only what a ticket allows can be said.
pub const PEER_PROTOCOL: &[u8] = b"quipu-peer/1";

/// The protocol in which a node proves its key, and nothing is said: a side that dials the node for
/// a session checks first that it is there.
pub const PROOF_PROTOCOL: &[u8] = b"quipu-proof/1";

/// The first bytes of a client's hello.
pub const MAGIC: [u8; 8] = *b"quipu\r\n\0";

/// The first bytes of a connection, before TLS, that is for a session's own process; the first 16
/// bytes of the SHA-256 of the session's id follow. The same as a hello's: no connection that
/// begins with TLS begins so.
pub const ROUTE_MAGIC: [u8; 8] = MAGIC;

/// The same, where the connection comes with the hello that asks for the session: for its command
/// stream, and its bulk stream.
pub const EARLY_MAGIC: [[u8; 8]; 2] = [*b"quipu\r\n\x01", *b"quipu\r\n\x02"];

/// The oldest minor version that is understood.
pub const OLDEST_VERSION: u16 = 3;

/// The newest minor version that is understood.
pub const NEWEST_VERSION: u16 = 3;

/// The feature that both sides agree on: the node takes [`ReadContent`](message::ReadContent).
pub const CONTENT: u64 = 2;

/// The feature that both sides agree on: the node says on which of its device's lanes a profiled
/// command ran, by [`Ran`](message::Ran) in place of [`Profiled`](message::Profiled).
pub const LANES: u64 = 4;

/// The feature that both sides agree on: a node's status comes with a [`Load`](message::Load) of
/// each device.
pub const LOADS: u64 = 8;

/// The feature that both sides agree on: a node's status comes with [`Links`](message::Links).
pub const LINKS: u64 = 32;

/// The feature that both sides agree on: the node takes [`SendContent`](message::SendContent), and
/// a [`Rest`](message::Rest).
pub const SENT_CONTENT: u64 = 64;

/// The feature that both sides agree on: each pings where it has nothing else to send, and a
/// connection on which nothing comes is lost.
pub const PULSE: u64 = 128;

/// The feature that both sides agree on: launches may have an offset, and [local
/// memory](message::ParameterKind::Local) for a parameter.
pub const OFFSETS: u64 = 256;

/// The feature that both sides agree on: the node takes [`ContentSizes`](message::ContentSizes).
pub const CONTENT_SIZES: u64 = 512;

/// The feature that both sides agree on: the node takes [`Describe`](message::Describe).
pub const DESCRIPTIONS: u64 = 1024;

/// The feature that both sides agree on: programs may be linked of several
/// [parts](message::ProgramPart), and devices say whether they take such ones.
pub const PARTS: u64 = 2048;

/// The feature that both sides agree on: devices say whether kernels have images on them, and
/// launches pass these.
pub const IMAGES: u64 = 4096;

/// The feature that both sides agree on: devices say what their compilers have of OpenCL C
/// ([`Takes::TEXT_FEATURES`](message::Takes::TEXT_FEATURES)).
pub const TEXT_FEATURES: u64 = 8192;

/// The feature that both sides agree on: a memory parameter of a launch may have no bytes.
pub const EMPTY_MEMORY: u64 = 16384;

/// The feature that both sides agree on: the node sends what kernels print
/// ([`Printed`](message::Printed)).
pub const PRINTED: u64 = 32768;

/// The feature that both sides agree on: devices say whether their compilers have `half` arithmetic
/// ([`Takes::HALVES`](message::Takes::HALVES)).
pub const HALVES: u64 = 65536;

/// The feature that both sides agree on: the last blocks of a
/// [launch](message::Launch::all_threads) along a dimension may have fewer threads than the others,
/// on devices that say so.
pub const NON_UNIFORM: u64 = 131072;

/// The feature that both sides agree on: the id of a new session is exported from TLS, so its
/// connections may come [early](EARLY_MAGIC); and the node pings while the session starts.
pub const EARLY: u64 = 262144;

/// The feature that both sides agree on: the description of a [kernel](message::KernelDescription)
/// says how its work-groups are divided.
pub const GROUPS: u64 = 524288;

/// The feature that both sides agree on: programs have the [limits](limits::LARGE) of large ones.
pub const LARGE_PROGRAMS: u64 = 1 << 20;

/// The feature that both sides agree on: devices come with their
/// [details](message::DeviceDetails).
pub const DETAILS: u64 = 1 << 21;

/// The feature that both sides agree on: the source of a program may come in several messages
/// ([`ProgramSource`](message::ProgramSource)).
pub const LONG_PROGRAMS: u64 = 1 << 22;

/// The feature that both sides agree on: the session may send to other nodes, and they to it.
pub const PEERS: u64 = 1 << 23;

/// The feature that both sides agree on: devices say what the blocks of a launch can do with each
/// other ([`DeviceBits::BETWEEN_BLOCKS`](message::DeviceBits::BETWEEN_BLOCKS)).
pub const BETWEEN_BLOCKS: u64 = 1 << 24;

/// The label of TLS's exporter for the id of a new session.
pub const SESSION_LABEL: &[u8] = b"EXPORTER-quipu-session";

/// All features that this crate knows.
pub const FEATURES: u64 = compression::LZ4
    | CONTENT
    | LANES
    | LOADS
    | compression::ZSTD
    | LINKS
    | SENT_CONTENT
    | PULSE
    | OFFSETS
    | CONTENT_SIZES
    | DESCRIPTIONS
    | PARTS
    | IMAGES
    | TEXT_FEATURES
    | EMPTY_MEMORY
    | PRINTED
    | HALVES
    | NON_UNIFORM
    | EARLY
    | GROUPS
    | LARGE_PROGRAMS
    | DETAILS
    | LONG_PROGRAMS
    | PEERS
    | BETWEEN_BLOCKS;

/// The version that two speak who understand these: the newest of both. `None` if there is none.
///
/// ```
/// assert_eq!(quipu_protocol::negotiate((1, 3), (2, 5)), Some(3));
/// assert_eq!(quipu_protocol::negotiate((1, 1), (2, 5)), None);
/// ```
#[must_use]
pub fn negotiate(ours: (u16, u16), theirs: (u16, u16)) -> Option<u16> {
    let newest = ours.1.min(theirs.1);
    (newest >= ours.0 && newest >= theirs.0).then_some(newest)
}
