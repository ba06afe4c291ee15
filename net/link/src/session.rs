//! The first words of a client, and a node's answer: its terms and its devices.

use crate::client::{Dial, own_order, receive_or_refusal};
use crate::connection::Connection;
use crate::error::{LinkError, Result};
use crate::key::Fingerprint;
use crate::timer::{SystemTimer, deadline_after};
use quipu_protocol::compression::Codecs;
use quipu_protocol::limits::{MAX_FRAME, MAX_NAME, ProgramLimits};
use quipu_protocol::message::{
    DataOrder, Device, DeviceDetails, DeviceKind, Hello, LinkEntry, LinkLoad, Links, Load, Message,
    PeerAddress, QueueLoad, Redirect, Role, SessionId, Takes, Welcome, presentable,
};
use quipu_protocol::{
    CONTENT, CONTENT_SIZES, DESCRIPTIONS, EMPTY_MEMORY, FEATURES, GROUPS, LANES, LINKS, LOADS,
    LONG_PROGRAMS, NEWEST_VERSION, OFFSETS, OLDEST_VERSION, PEERS, PRINTED, PROTOCOL, PULSE,
    SENT_CONTENT,
};
use std::sync::Arc;
use std::time::Duration;

/// A device of a node, as the node describes it. Sizes in bytes, extents in their own units; the
/// largest number means no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDevice {
    /// Its kind.
    pub kind: DeviceKind,
    /// The programs that it takes.
    pub takes: Takes,
    /// Its name, for people.
    pub name: String,
    /// Its maker.
    pub vendor: String,
    /// The words by which people choose it on the node: `cuda:1`.
    pub selector: String,
    /// The signatures of the kernels that it has built in, one in a line.
    pub kernels: String,
    /// Units that run blocks independently.
    pub multiprocessors: u32,
    /// Highest clock rate, in MHz; zero if it is not known.
    pub clock_mhz: u32,
    /// The largest grid, in blocks, per dimension.
    pub max_grid_blocks: [u64; 3],
    /// The most blocks in a grid.
    pub max_grid_block_count: u64,
    /// The largest block, in threads, per dimension.
    pub max_block_threads: [u64; 3],
    /// The most threads in a block.
    pub max_block_thread_count: u64,
    /// The most elements of a thread, per dimension.
    pub max_thread_elements: [u64; 3],
    /// The most elements of a thread.
    pub max_thread_element_count: u64,
    /// Bytes that the threads of a block share, at most.
    pub shared_memory_per_block: u64,
    /// Bytes of memory.
    pub global_memory: u64,
    /// The largest buffer, in bytes.
    pub max_buffer: u64,
    /// The number of commands that can run at once.
    pub concurrent_commands: u32,
    /// The sizes that a warp can have.
    pub warp_sizes: Vec<u32>,
    /// Its details; none from a node that does not tell them.
    pub details: Option<DeviceDetails>,
}

impl From<&Device<'_>> for NodeDevice {
    fn from(device: &Device<'_>) -> Self {
        Self {
            kind: device.kind,
            takes: device.takes,
            name: device.name.to_owned(),
            vendor: device.vendor.to_owned(),
            selector: device.selector.to_owned(),
            kernels: device.kernels.to_owned(),
            multiprocessors: device.multiprocessors,
            clock_mhz: device.clock_mhz,
            max_grid_blocks: device.max_grid_blocks,
            max_grid_block_count: device.max_grid_block_count,
            max_block_threads: device.max_block_threads,
            max_block_thread_count: device.max_block_thread_count,
            max_thread_elements: device.max_thread_elements,
            max_thread_element_count: device.max_thread_element_count,
            shared_memory_per_block: device.shared_memory_per_block,
            global_memory: device.global_memory,
            max_buffer: device.max_buffer,
            concurrent_commands: device.concurrent_commands,
            warp_sizes: device.warp_sizes.iter().map(|size| size.get()).collect(),
            details: device.details,
        }
    }
}

/// The load of a device of a node, by all sessions that there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeLoad {
    /// Commands that have not begun.
    pub waiting: u64,
    /// Commands that run.
    pub running: u64,
    /// Commands that are over.
    pub over: u64,
    /// The time that commands ran there, as far as times were asked for.
    pub busy: Duration,
    /// Bytes that buffers take there.
    pub buffer_bytes: u64,
    /// Bytes of its memory that are free, no matter which programs have the others; zero if that is
    /// not known.
    pub free_bytes: u64,
    /// The same for each queue of our own sessions.
    pub queues: Vec<QueueLoad>,
}

impl From<&Load<'_>> for NodeLoad {
    fn from(load: &Load<'_>) -> Self {
        Self {
            waiting: load.waiting,
            running: load.running,
            over: load.over,
            busy: Duration::from_nanos(load.busy_ns),
            buffer_bytes: load.buffer_bytes,
            free_bytes: load.free_bytes,
            queues: load.queues.to_vec(),
        }
    }
}

/// The traffic of the links of our own sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeLinks {
    /// The links, those of a session one after the other.
    pub links: Vec<LinkLoad>,
    /// The number of others beside these.
    pub more: u32,
}

impl From<&Links<'_>> for NodeLinks {
    fn from(links: &Links<'_>) -> Self {
        Self {
            // Each was checked as the message came.
            links: links.links.iter().flat_map(LinkEntry::load).collect(),
            more: links.more,
        }
    }
}

/// The terms of a node, from its welcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The node's name.
    pub name: String,
    /// The version that is spoken.
    pub version: u16,
    /// The session, and how often it was attached to.
    pub session: (SessionId, u32),
    /// The time that the node keeps the session after a loss; zero if it ends with its connection.
    pub patience: Duration,
    /// The last message that the node has taken over from this stream.
    pub received: u64,
    /// The session's own key, if it has a process of its own.
    pub key: Option<Fingerprint>,
    /// Bytes that ride with a write or come with a read, at most.
    pub max_inline: u32,
    /// Commands whose ends were not acknowledged, at most.
    pub max_commands: u32,
    /// Buffers, at most.
    pub max_buffers: u32,
    /// Programs, at most.
    pub max_programs: u32,
    /// Bytes of a program, at most.
    pub max_program_bytes: u32,
    /// Bytes of a buffer, at most.
    pub max_buffer_bytes: u64,
    /// Bytes of all buffers, at most.
    pub max_session_bytes: u64,
    /// The address at which the node waits for others; none if it neither waits for them nor dials.
    pub peer_address: Option<PeerAddress>,
    /// After how many milliseconds without a byte a connection is lost, if both sides ping.
    idle_ms: u32,
    features: u64,
    order: DataOrder,
    devices: u32,
    max_frame: u32,
}

impl Terms {
    /// The features of the protocol that were agreed on.
    #[must_use]
    pub fn features(&self) -> u64 {
        self.features
    }

    /// True if the node takes the source of a program in several messages.
    #[must_use]
    pub fn takes_long_programs(&self) -> bool {
        self.features & LONG_PROGRAMS != 0
    }

    /// True if the node takes reads of bytes in use.
    #[must_use]
    pub fn takes_content(&self) -> bool {
        self.features & CONTENT != 0
    }

    /// True if the node sends the bytes in use to others, and takes it from them.
    #[must_use]
    pub fn sends_content(&self) -> bool {
        self.features & SENT_CONTENT != 0
    }

    /// True if the node takes commands of whose buffers a part is in use.
    #[must_use]
    pub fn takes_content_sizes(&self) -> bool {
        self.features & CONTENT_SIZES != 0
    }

    /// After how long without a byte a connection is lost; zero for never.
    #[must_use]
    pub fn idle(&self) -> Duration {
        match self.features & PULSE {
            0 => Duration::ZERO,
            _ => Duration::from_millis(self.idle_ms.into()),
        }
    }

    /// True if the node takes launches with an offset, and local memory for a parameter.
    #[must_use]
    pub fn takes_offsets(&self) -> bool {
        self.features & OFFSETS != 0
    }

    /// True if the node takes launches with memory of no bytes for a parameter.
    #[must_use]
    pub fn takes_empty_memory(&self) -> bool {
        self.features & EMPTY_MEMORY != 0
    }

    /// True if the node reads programs for a client without a compiler.
    #[must_use]
    pub fn describes(&self) -> bool {
        self.features & DESCRIPTIONS != 0
    }

    /// True if its descriptions say how kernels' work-groups are divided.
    #[must_use]
    pub fn tells_groups(&self) -> bool {
        self.features & GROUPS != 0
    }

    /// The limits of programs and their kernels at the node.
    #[must_use]
    pub fn program_limits(&self) -> &'static ProgramLimits {
        ProgramLimits::with(self.features)
    }

    /// True if the node sends what kernels print.
    #[must_use]
    pub fn tells_printed(&self) -> bool {
        self.features & PRINTED != 0
    }

    /// True if the node says on which lanes profiled commands ran.
    #[must_use]
    pub fn tells_lanes(&self) -> bool {
        self.features & LANES != 0
    }

    /// True if the node reports the loads of its devices.
    #[must_use]
    pub fn tells_loads(&self) -> bool {
        self.features & LOADS != 0
    }

    /// True if the node reports the traffic of its links.
    #[must_use]
    pub fn tells_links(&self) -> bool {
        self.features & LINKS != 0
    }
}

impl From<&Welcome<'_>> for Terms {
    fn from(welcome: &Welcome<'_>) -> Self {
        Self {
            name: welcome.name.to_owned(),
            version: welcome.version,
            session: (welcome.session, welcome.epoch),
            patience: Duration::from_millis(welcome.patience_ms.into()),
            received: welcome.received,
            key: None,
            max_inline: welcome.max_inline,
            max_commands: welcome.max_commands,
            max_buffers: welcome.max_buffers,
            max_programs: welcome.max_programs,
            max_program_bytes: welcome.max_program_bytes,
            max_buffer_bytes: welcome.max_buffer_bytes,
            max_session_bytes: welcome.max_session_bytes,
            peer_address: welcome.peer_address,
            idle_ms: welcome.idle_ms,
            features: welcome.features,
            order: welcome.data_order,
            devices: welcome.devices,
            max_frame: welcome.max_frame,
        }
    }
}

/// A connection on which a node has said welcome. Without a deadline from here on, unless it was
/// made to ask.
#[derive(Debug)]
pub struct Greeted {
    /// The connection.
    pub connection: Connection,
    /// The node's terms.
    pub terms: Terms,
    /// Its devices, in the order of their numbers; none on a bulk stream.
    pub devices: Vec<NodeDevice>,
}

/// A node's answer to a hello.
pub(crate) enum Answer {
    Welcome(Box<Greeted>),
    Redirect(Redirect),
}

/// The time that a session may take to start on its node, which opens the devices.
pub const STARTING: Duration = Duration::from_secs(60);

/// The time between two pings of a node by which it says that a session starts.
pub const STARTING_PING: Duration = Duration::from_secs(1);

/// The place of a connection in a session that is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The session, and which connection of this stream it is, from 1: more than any before, also
    /// of those that came to nothing.
    pub session: (SessionId, u32),
    /// The last message that was taken over from this stream.
    pub received: u64,
    /// The time that we would wait for a lost connection; zero if not at all.
    pub patience: Duration,
    /// The session's own key, if it has a process of its own.
    pub key: Option<Fingerprint>,
    /// The session is used without other nodes, so its node makes no connections for it. It counts
    /// as a session begins.
    pub alone: bool,
}

impl Dial<'_> {
    /// Begins a session, which ends when its connection is lost for longer than the patience; with
    /// it, if that is zero or too short for the node to give up before we do. The connection is its
    /// command stream.
    ///
    /// # Errors
    /// If the node cannot be reached, is another than it should be, refuses, or does not answer in
    /// time.
    pub fn begin(&self, patience: Duration) -> Result<Greeted> {
        let place = Place {
            patience,
            ..Place::default()
        };
        self.attach(Role::Session, &place)
    }

    /// A session's bulk stream, the first one.
    ///
    /// # Errors
    /// As [`Dial::begin`].
    pub fn bulk(&self, session: SessionId, key: Option<Fingerprint>) -> Result<Greeted> {
        let place = Place {
            session: (session, 1),
            key,
            ..Place::default()
        };
        self.attach(Role::Bulk, &place)
    }

    /// Another connection for a stream of a session whose connection was lost.
    ///
    /// # Errors
    /// As [`Dial::begin`].
    pub fn resume(&self, is_bulk: bool, place: &Place) -> Result<Greeted> {
        let role = if is_bulk { Role::Bulk } else { Role::Resume };
        self.attach(role, place)
    }

    pub(crate) fn attach(&self, role: Role, place: &Place) -> Result<Greeted> {
        let mut greeted = self.greet(role, place)?;
        greeted.connection.set_deadline(None);
        Ok(greeted)
    }

    /// Says hello, and hears the answer; goes where a new session is.
    fn greet(&self, role: Role, place: &Place) -> Result<Greeted> {
        match self.say_hello(role, place)? {
            Answer::Welcome(greeted) => Ok(*greeted),
            Answer::Redirect(redirect) if role == Role::Session => {
                let place = Place {
                    session: (redirect.session, 1),
                    key: Some(Fingerprint::of_bytes(redirect.key)),
                    ..*place
                };
                self.greet_here(Role::Resume, &place)
            }
            Answer::Redirect(_) => Err(self.unexpected("redirect", "a welcome")),
        }
    }

    /// Says hello, and hears a welcome.
    pub(crate) fn greet_here(&self, role: Role, place: &Place) -> Result<Greeted> {
        match self.say_hello(role, place)? {
            Answer::Welcome(greeted) => Ok(*greeted),
            Answer::Redirect(_) => Err(self.unexpected("redirect", "a welcome")),
        }
    }

    pub(crate) fn unexpected(&self, kind: &'static str, expected: &'static str) -> LinkError {
        LinkError::Unexpected {
            address: self.address.to_owned(),
            kind,
            expected,
        }
    }

    fn say_hello(&self, role: Role, place: &Place) -> Result<Answer> {
        let session = place.key.map(|key| (place.session.0, key));
        let connection = self.connect(PROTOCOL, session)?;
        self.say_hello_on(connection, role, place)
    }

    /// Says hello on a connection, and hears the answer. The node may take longer than the patience
    /// where it starts a session, and says now and then that it does.
    pub(crate) fn say_hello_on(
        &self,
        mut connection: Connection,
        role: Role,
        place: &Place,
    ) -> Result<Answer> {
        let (session, epoch) = place.session;
        let patience_ms = u32::try_from(place.patience.as_millis()).unwrap_or(u32::MAX);
        let name = presentable(self.name, MAX_NAME);
        let said = connection.send(&Message::Hello(Hello {
            versions: (OLDEST_VERSION, NEWEST_VERSION),
            role,
            features: match place.alone {
                true => FEATURES & !PEERS,
                false => FEATURES,
            },
            session,
            epoch,
            data_order: own_order(),
            received: place.received,
            max_frame: MAX_FRAME,
            patience_ms,
            name: &name,
        }));
        let last = deadline_after(self.patience.saturating_add(STARTING));
        let answer = loop {
            let heard = receive_or_refusal(&mut connection, |message| match message {
                Message::Welcome(welcome) => Ok(Some(Ok(Terms::from(welcome)))),
                Message::Redirect(redirect) => Ok(Some(Err(*redirect))),
                Message::Ping(_) if role == Role::Session => Ok(None),
                _ => Err("a welcome"),
            });
            match heard.transpose() {
                Some(answer) => break answer,
                None => connection.set_deadline(Some(last.min(deadline_after(self.patience)))),
            }
        };
        // A node that refuses does so without reading our hello, which may then fail: its message
        // is the reason.
        let terms = match (answer, said) {
            (Ok(terms), said) => said.map(|()| terms)?,
            (Err(refused @ LinkError::Refused { .. }), _) | (Err(refused), Ok(())) => {
                return Err(refused);
            }
            (Err(_), Err(failed)) => return Err(failed),
        };
        let mut terms = match terms {
            Ok(terms) => terms,
            Err(redirect) => return Ok(Answer::Redirect(redirect)),
        };
        terms.key = place.key;
        let unexpected = |expected| self.unexpected("welcome", expected);
        let is_sound = (OLDEST_VERSION..=NEWEST_VERSION).contains(&terms.version)
            && terms.features & !FEATURES == 0
            && terms.order == own_order();
        if !is_sound {
            return Err(unexpected("one that takes what was offered, and no more,"));
        }
        let is_of_role = match role {
            Role::Status => terms.session == (SessionId::NONE, 0),
            Role::Session => {
                terms.session.0 != SessionId::NONE
                    && terms.session.1 == 1
                    && (terms.patience.is_zero() || terms.patience < place.patience)
            }
            Role::Bulk => terms.session == (session, epoch) && terms.devices == 0,
            // The first connection to a session's own process is told of the devices.
            Role::Resume => {
                terms.session == (session, epoch)
                    && (epoch == 1 || terms.devices == 0)
                    && (terms.patience.is_zero() || terms.patience < place.patience)
            }
        };
        if !is_of_role {
            return Err(unexpected("one to what was asked for"));
        }
        connection.allow_frames(terms.max_frame, MAX_FRAME);
        connection.allow_compression(Codecs::of(terms.features));
        connection.expect_pulse(terms.idle(), Arc::new(SystemTimer::default()));
        let mut devices = Vec::new();
        for number in 0..terms.devices {
            devices.push(connection.receive_as(|message| match message {
                Message::Device(device)
                    if device.number == number && device.is_within(terms.features) =>
                {
                    Ok(NodeDevice::from(device))
                }
                _ => Err("the next device, with what was agreed on,"),
            })?);
        }
        Ok(Answer::Welcome(Box::new(Greeted {
            connection,
            terms,
            devices,
        })))
    }
}
