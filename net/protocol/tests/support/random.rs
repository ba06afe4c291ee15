//! Random messages, all of them valid, made of bytes that somebody else draws: fewer bytes, smaller
//! messages.

use super::kept;
use quipu_protocol::LONG_PROGRAMS;
use quipu_protocol::limits::{
    MAX_BUFFER, MAX_CONTENT_SIZES, MAX_ID, MAX_LINKS, MAX_PRINTED, MAX_PROGRAM, MAX_QUEUE_LOADS,
    MIN_FRAME,
};
use quipu_protocol::message::*;

/// Numbers out of bytes; zeros when there are no more.
pub(crate) struct Draw<'a>(pub(crate) &'a [u8]);

impl Draw<'_> {
    fn byte(&mut self) -> u8 {
        let (byte, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *byte
    }

    /// Any number, of any magnitude.
    fn number(&mut self) -> u64 {
        let length = usize::from(self.byte() % 9);
        (0..length).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    fn up_to(&mut self, most: u64) -> u64 {
        match most.checked_add(1) {
            Some(count) => self.number() % count,
            None => self.number(),
        }
    }

    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.up_to(most - least)
    }

    fn small(&mut self) -> u32 {
        self.number() as u32
    }

    fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    fn one_of<T: Clone>(&mut self, list: &[T]) -> T {
        list[usize::from(self.byte()) % list.len()].clone()
    }

    fn id(&mut self) -> u64 {
        self.between(1, MAX_ID)
    }

    fn text(&mut self, most: u64) -> &'static str {
        let characters = ['a', 'Z', ' ', '\n', '\t', 'ü', '→', '𝄞', '~', '0'];
        let length = self.up_to(most / 4);
        let text: String = (0..length).map(|_| self.one_of(&characters)).collect();
        text.leak()
    }

    fn bytes(&mut self, length: u64) -> &'static [u8] {
        let bytes: Vec<u8> = (0..length).map(|_| self.byte()).collect();
        kept(&bytes)
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    fn words<const N: usize>(&mut self) -> [u64; N] {
        std::array::from_fn(|_| self.number())
    }

    fn list<T: Clone>(&mut self, most: u64, mut one: impl FnMut(&mut Self) -> T) -> &'static [T] {
        let count = self.up_to(most);
        let list: Vec<T> = (0..count).map(|_| one(self)).collect();
        kept(&list)
    }

    /// A range within a buffer of any size.
    fn range(&mut self) -> (u64, u64) {
        let length = self.between(1, MAX_BUFFER);
        (self.up_to(MAX_BUFFER - length), length)
    }
}

/// A random message and a number for it.
pub(crate) fn message(draw: &mut Draw<'_>) -> (Message<'static>, u64) {
    let message = match draw.byte() % 46 {
        0 => hello(draw),
        1 => welcome(draw),
        2 => Message::Refuse(Refuse {
            refusal: draw.one_of(Refusal::ALL),
            text: draw.text(4096),
        }),
        3 => Message::Acknowledge(Acknowledge {
            received: draw.id(),
        }),
        4 => Message::Ping(Ping {
            token: draw.number(),
            time_ns: draw.number(),
        }),
        5 => {
            let mut times: [u64; 2] = draw.words();
            times.sort_unstable();
            Message::Pong(Pong {
                token: draw.number(),
                time_ns: draw.number(),
                received_ns: times[0],
                sent_ns: times[1],
            })
        }
        6 => Message::Goodbye(Goodbye {
            reason: draw.one_of(GoodbyeReason::ALL),
            text: draw.text(4096),
        }),
        7 => Message::Enrol(Enrol {
            token: draw.array(),
            name: draw.text(256),
        }),
        8 => Message::Enrolled(Enrolled {
            name: if draw.flag() { "ä" } else { "node" },
        }),
        9 => Message::StatusRequest,
        10 => {
            let memory = draw.number();
            Message::Status(Status {
                uptime_ms: draw.number(),
                sessions: draw.small(),
                cores: draw.small(),
                load_thousandths: draw.small(),
                memory_bytes: memory,
                memory_free: draw.up_to(memory),
                session_bytes: draw.number(),
                commands_held: draw.number(),
                commands_over: draw.number(),
                bulk_bytes: draw.number(),
                bulk_sent: draw.number(),
            })
        }
        11 => device(draw),
        37 => load(draw),
        38 => links(draw),
        26 => Message::Redirect(Redirect {
            session: SessionId(*b"0123456789abcdef"),
            key: draw.array(),
            wait_ms: draw.small(),
        }),
        12 => Message::CreateBuffer(CreateBuffer {
            buffer: draw.id(),
            size: draw.between(1, MAX_BUFFER),
        }),
        40 => {
            let size = |draw: &mut Draw<'_>| {
                let buffer = draw.id();
                ContentSize {
                    buffer: buffer.into(),
                    size: if buffer == 1 { 2 } else { buffer - 1 }.into(),
                }
            };
            let first = size(draw);
            let mut sizes = draw.list(MAX_CONTENT_SIZES as u64 - 1, size).to_vec();
            sizes.push(first);
            Message::ContentSizes(ContentSizes {
                event: draw.id(),
                sizes: kept(&sizes),
            })
        }
        13 => Message::FreeBuffer(FreeBuffer { buffer: draw.id() }),
        14 => program(draw),
        15 => Message::FreeProgram(FreeProgram { program: draw.id() }),
        16 => Message::Placeholder(Placeholder {
            event: draw.id(),
            peer: draw.up_to(MAX_ID),
        }),
        17 => {
            let failure = draw.flag().then(|| draw.one_of(Failure::ALL));
            Message::Resolve(Resolve {
                event: draw.id(),
                failure,
                text: failure.map_or("", |_| draw.text(4096)),
            })
        }
        18 => Message::Cancel(Cancel { event: draw.id() }),
        19 => {
            let first = Word::new(draw.id());
            let more = draw.list(64, |draw| Word::new(draw.id()));
            Message::Completed(Completed {
                events: kept(&[&[first], more].concat()),
            })
        }
        36 => {
            let run = |draw: &mut Draw<'_>| Run {
                profile: profile(draw),
                lane: draw.up_to(1023).into(),
            };
            let first = run(draw);
            let more = draw.list(16, run);
            Message::Ran(Ran {
                runs: kept(&[&[first], more].concat()),
            })
        }
        20 => {
            let first = profile(draw);
            let more = draw.list(16, profile);
            Message::Profiled(Profiled {
                profiles: kept(&[&[first], more].concat()),
            })
        }
        21 => {
            let failure = draw.one_of(Failure::ALL);
            Message::Failed(Failed {
                event: draw.id(),
                cause: match failure {
                    Failure::Dependency => draw.up_to(MAX_ID),
                    _ => 0,
                },
                failure,
                numbers: match failure {
                    Failure::OutOfMemory => draw.words(),
                    _ => [0; 3],
                },
                what: draw.text(256),
                text: draw.text(4096),
            })
        }
        22 => {
            let length = draw.between(1, 3000);
            Message::ReadBytes(ReadBytes {
                event: draw.id(),
                bytes: draw.bytes(length),
            })
        }
        23 => Message::DeviceLost(DeviceLost {
            device: draw.up_to(1023) as u32,
            memory_lost: draw.flag(),
            text: draw.text(4096),
        }),
        24 => {
            let length = draw.between(1, 3000);
            Message::Chunk(Chunk {
                transfer: draw.id(),
                offset: draw.up_to(MAX_BUFFER - length),
                bytes: draw.bytes(length),
            })
        }
        39 => Message::Rest(Rest {
            transfer: draw.id(),
            offset: draw.up_to(MAX_BUFFER - 1),
        }),
        27 => Message::Ticket(Ticket {
            versions: (1, draw.between(1, u16::MAX.into()) as u16),
            epoch: draw.between(1, u32::MAX.into()) as u32,
            session: SessionId(*b"0123456789abcdef"),
            ticket: draw.array(),
            max_frame: draw.between(MIN_FRAME.into(), 1 << 24) as u32,
        }),
        28 => Message::Admitted(Admitted {
            version: draw.between(1, u16::MAX.into()) as u16,
            max_frame: draw.between(MIN_FRAME.into(), 1 << 24) as u32,
        }),
        29 => peer(draw),
        30 => Message::Tell(Tell {
            event: draw.id(),
            peer: draw.id(),
            placeholder: draw.id(),
        }),
        31 => Message::Abandon(Abandon {
            transfer: draw.id(),
        }),
        32 => Message::CameAbout(CameAbout { event: draw.id() }),
        33 => Message::Taken(Taken {
            transfer: draw.id(),
        }),
        34 => Message::Part(Part { peer: draw.id() }),
        35 => Message::Content(Content {
            event: draw.id(),
            length: draw.up_to(MAX_BUFFER),
        }),
        41 => Message::BuildLog(BuildLog {
            event: draw.id(),
            text: if draw.flag() { "ä\n" } else { "a warning" },
        }),
        42 => Message::KernelDescription(KernelDescription {
            event: draw.id(),
            name: if draw.flag() { "ä" } else { "saxpy" },
            attributes: draw.text(4096),
            parameters: draw.up_to(4096) as u16,
            required_local_size: draw
                .flag()
                .then(|| std::array::from_fn(|_| draw.up_to(1024).max(1) as u32)),
            local_bytes: draw.number(),
            has_barriers: draw.flag(),
            reaches_beyond: draw.flag(),
            uniform_groups: draw.flag(),
            sub_group_size: draw.number() as u32,
            private_bytes: draw.number(),
        }),
        43 => parameter_description(draw),
        44 => {
            let length = draw.up_to(MAX_PRINTED as u64);
            Message::Printed(Printed {
                lost: match length {
                    0 => draw.between(1, MAX_BUFFER),
                    _ => draw.up_to(MAX_BUFFER),
                },
                bytes: draw.bytes(length),
            })
        }
        45 => {
            let length = draw.between(1, 2000);
            Message::ProgramSource(ProgramSource {
                bytes: draw.bytes(length),
            })
        }
        _ => command(draw),
    };
    let sequence = match message.kind().is_numbered() {
        true => draw.id(),
        false => 0,
    };
    (message, sequence)
}

fn parameter_description(draw: &mut Draw<'_>) -> Message<'static> {
    use ParameterClass::{Constant, Global, Image, Value};
    let class = draw.one_of(ParameterClass::ALL);
    let is_memory = matches!(class, Global | Constant | Image);
    Message::ParameterDescription(ParameterDescription {
        event: draw.id(),
        class,
        is_read: draw.flag() && is_memory,
        is_written: draw.flag() && is_memory,
        is_const: draw.flag(),
        is_restrict: draw.flag(),
        is_volatile: draw.flag(),
        size: match class {
            Value => [draw.small(), 1 << draw.up_to(31)],
            _ => [0; 2],
        },
        name: draw.text(8192),
        type_name: draw.text(8192),
    })
}

fn profile(draw: &mut Draw<'_>) -> Profile {
    let mut times: [u64; 3] = draw.words();
    times.sort_unstable();
    Profile {
        event: draw.id().into(),
        submitted_ns: times[0].into(),
        started_ns: times[1].into(),
        ended_ns: times[2].into(),
    }
}

fn hello(draw: &mut Draw<'_>) -> Message<'static> {
    let role = draw.one_of(Role::ALL);
    let belongs = matches!(role, Role::Resume | Role::Bulk);
    let newest = draw.between(1, u16::MAX.into());
    let mut session = SessionId::NONE;
    if belongs {
        session.0 = draw.array();
        session.0[15] = 1;
    }
    Message::Hello(Hello {
        versions: (draw.between(1, newest) as u16, newest as u16),
        role,
        features: draw.number(),
        session,
        epoch: if belongs {
            draw.between(1, u32::MAX.into()) as u32
        } else {
            0
        },
        data_order: draw.one_of(DataOrder::ALL),
        received: if belongs { draw.up_to(MAX_ID) } else { 0 },
        max_frame: draw.between(MIN_FRAME.into(), 1 << 24) as u32,
        patience_ms: draw.small(),
        name: draw.text(256),
    })
}

fn welcome(draw: &mut Draw<'_>) -> Message<'static> {
    let features = draw.number();
    let belongs = draw.flag();
    let mut session = SessionId::NONE;
    if belongs {
        session.0 = draw.array();
        session.0[0] = 1;
    }
    let max_frame = draw.between(MIN_FRAME.into(), 1 << 24) as u32;
    let rides = u64::from(max_frame - MIN_FRAME / 2);
    Message::Welcome(Welcome {
        version: draw.between(1, u16::MAX.into()) as u16,
        data_order: draw.one_of(DataOrder::ALL),
        devices: draw.up_to(1024) as u32,
        features,
        session,
        epoch: if belongs {
            draw.between(1, u32::MAX.into()) as u32
        } else {
            0
        },
        patience_ms: draw.small(),
        received: draw.up_to(MAX_ID),
        max_frame,
        max_inline: draw.up_to(rides) as u32,
        max_commands: draw.small(),
        max_buffers: draw.small(),
        max_programs: draw.small(),
        max_program_bytes: draw.up_to(match features & LONG_PROGRAMS {
            0 => rides,
            _ => MAX_PROGRAM.into(),
        }) as u32,
        max_buffer_bytes: draw.number(),
        max_session_bytes: draw.number(),
        idle_ms: draw.small(),
        peer_address: match draw.flag() {
            true => Some(peer_address(draw)),
            false => None,
        },
        name: draw.text(256),
    })
}

fn peer_address(draw: &mut Draw<'_>) -> PeerAddress {
    let port = draw.between(1, u16::MAX.into()) as u16;
    let ip: std::net::IpAddr = match draw.flag() {
        true => [10, draw.byte(), draw.byte(), draw.byte()].into(),
        false => {
            let mut ip: [u8; 16] = draw.array();
            ip[0] = 0xfd;
            ip.into()
        }
    };
    PeerAddress::of((ip, port).into()).unwrap()
}

fn peer(draw: &mut Draw<'_>) -> Message<'static> {
    let role = draw.one_of(PeerRole::ALL);
    let dials = role == PeerRole::Dials;
    Message::Peer(Peer {
        peer: draw.id(),
        epoch: draw.between(1, u32::MAX.into()) as u32,
        role,
        is_routed: dials && draw.flag(),
        wait_ms: draw.between(1, 600_000) as u32,
        session: match dials {
            true => SessionId(*b"0123456789abcdef"),
            false => SessionId::NONE,
        },
        key: draw.array(),
        ticket: draw.array(),
        address: match dials {
            true => Some(peer_address(draw)),
            false => None,
        },
    })
}

fn load(draw: &mut Draw<'_>) -> Message<'static> {
    Message::Load(Load {
        device: draw.up_to(1023) as u32,
        waiting: draw.number(),
        running: draw.number(),
        over: draw.number(),
        busy_ns: draw.number(),
        buffer_bytes: draw.number(),
        free_bytes: draw.number(),
        queues: draw.list(MAX_QUEUE_LOADS as u64, |draw| QueueLoad {
            session: draw.small().max(1).into(),
            queue: draw.small().into(),
            waiting: draw.number().into(),
            running: draw.number().into(),
            over: draw.number().into(),
        }),
    })
}

fn links(draw: &mut Draw<'_>) -> Message<'static> {
    Message::Links(Links {
        more: draw.small(),
        links: draw.list(MAX_LINKS as u64, |draw| {
            let kind = draw.one_of(LinkKind::ALL);
            let states = match kind {
                LinkKind::Commands | LinkKind::Bulk => &LinkState::ALL[..2],
                LinkKind::ToNode | LinkKind::FromNode => LinkState::ALL,
            };
            LinkEntry::from(&LinkLoad {
                session: draw.small().max(1),
                kind,
                state: draw.one_of(states),
                resumed: draw.small(),
                address: match draw.flag() {
                    true => Some(peer_address(draw)),
                    false => None,
                },
                key: draw.array(),
                round_trip_ns: draw.number(),
                sent: draw.number(),
                received: draw.number(),
                chunks_sent: [draw.number(), draw.number()],
                chunks_received: [draw.number(), draw.number()],
            })
        }),
    })
}

fn device(draw: &mut Draw<'_>) -> Message<'static> {
    let kernels = draw.text(4096);
    let takes = draw.up_to(Takes::ALL.into()) as u16 & Takes::ALL & !Takes::BUILT_IN;
    let built_in = if kernels.is_empty() {
        0
    } else {
        Takes::BUILT_IN
    };
    Message::Device(Device {
        number: draw.up_to(1023) as u32,
        kind: draw.one_of(DeviceKind::ALL),
        takes: Takes(takes | built_in),
        multiprocessors: draw.small(),
        clock_mhz: draw.small(),
        max_grid_blocks: draw.words(),
        max_grid_block_count: draw.number(),
        max_block_threads: draw.words(),
        max_block_thread_count: draw.number(),
        max_thread_elements: draw.words(),
        max_thread_element_count: draw.number(),
        shared_memory_per_block: draw.number(),
        global_memory: draw.number(),
        max_buffer: draw.number(),
        concurrent_commands: draw.small(),
        warp_sizes: draw.list(16, |draw| (1_u32 << draw.up_to(31)).into()),
        name: draw.text(256),
        vendor: draw.text(256),
        selector: draw.text(256),
        kernels,
        details: draw.flag().then(|| device_details(draw)),
    })
}

fn device_details(draw: &mut Draw<'_>) -> DeviceDetails {
    let properties = draw.up_to(DeviceBits::ALL.into()) as u32;
    let (cache_line, cache_bytes, cache) = match properties & DeviceBits::CACHE {
        0 => (0, 0, DeviceBits::CACHE_TAKES_WRITES),
        _ => (draw.small(), draw.number(), 0),
    };
    DeviceDetails {
        properties: DeviceBits(properties & !cache),
        address_bits: draw.small(),
        vendor_number: draw.small(),
        cache_line,
        cache_bytes,
        constant_bytes: draw.number(),
        part_alignment: if draw.flag() { 0 } else { 1 << draw.up_to(63) },
        argument_bytes: draw.number(),
        uuid: draw.array(),
    }
}

/// Parts of a program, as bytes.
fn parts(draw: &mut Draw<'_>) -> &'static [u8] {
    let mut bytes = Vec::new();
    for _ in 0..draw.between(1, 4) {
        let part = match draw.flag() {
            true => ProgramPart {
                form: PartForm::OpenClC,
                source: "int f() { /* ü */ }".as_bytes(),
                options: draw.text(4096),
            },
            false => {
                let words = draw.between(1, 100);
                ProgramPart {
                    form: PartForm::SpirV,
                    source: draw.bytes(4 * words),
                    options: "",
                }
            }
        };
        part.write(&mut bytes);
    }
    kept(&bytes)
}

fn program(draw: &mut Draw<'_>) -> Message<'static> {
    let format = draw.one_of(ProgramFormat::ALL);
    let (entry, options) = match format {
        ProgramFormat::OpenClC => ("saxpy", draw.text(8192)),
        ProgramFormat::Parts => ("saxpy", ""),
        ProgramFormat::Module => ("", ""),
        ProgramFormat::Native => (draw.text(8192), ""),
        ProgramFormat::BuiltIn => ("", ""),
    };
    Message::CreateProgram(CreateProgram {
        program: draw.id(),
        format,
        source: match format {
            ProgramFormat::OpenClC if draw.flag() => b"",
            ProgramFormat::OpenClC => "kernel void saxpy() { /* ü */ }".as_bytes(),
            ProgramFormat::Module => {
                let length = draw.between(1, 2000);
                draw.bytes(length)
            }
            ProgramFormat::Native => draw.bytes(32),
            ProgramFormat::BuiltIn => "next_frame".as_bytes(),
            ProgramFormat::Parts => parts(draw),
        },
        entry,
        options,
    })
}

fn strides(draw: &mut Draw<'_>) -> &'static [Stride] {
    draw.list(4, |draw| Stride {
        count: draw.between(1, 5).into(),
        stride: draw.up_to(1 << 20).into(),
    })
}

fn send_bytes(draw: &mut Draw<'_>) -> SendBytes {
    let (offset, row) = draw.range();
    SendBytes {
        buffer: draw.id(),
        offset,
        row,
        transfer: draw.id(),
        peer: draw.id(),
        remote: draw.id(),
    }
}

fn command(draw: &mut Draw<'_>) -> Message<'static> {
    let operation = match draw.byte() % 11 {
        0 => Operation::Nothing,
        1 => Operation::Launch(launch(draw)),
        2 => {
            let length = draw.between(1, 16);
            let mut pattern = draw.array::<16>();
            pattern[length as usize..].fill(0);
            let count = draw.between(1, MAX_BUFFER / length);
            Operation::Fill(Fill {
                buffer: draw.id(),
                offset: draw.up_to(MAX_BUFFER - count * length),
                length: count * length,
                pattern,
                pattern_length: length as u8,
            })
        }
        3 => Operation::Copy(Copy {
            source: draw.id(),
            source_offset: draw.up_to(1 << 40),
            destination: draw.id(),
            destination_offset: draw.up_to(1 << 40),
            row: draw.between(1, 1 << 30),
            steps: draw.list(4, |draw| Step {
                count: draw.between(1, 5).into(),
                source_stride: draw.up_to(1 << 20).into(),
                destination_stride: draw.up_to(1 << 20).into(),
            }),
        }),
        4 => {
            let mut write = Write {
                buffer: draw.id(),
                offset: draw.up_to(1 << 40),
                row: draw.between(1, 10),
                steps: strides(draw),
                transfer: if draw.flag() { draw.id() } else { 0 },
                bytes: &[],
            };
            if write.transfer == 0 {
                write.bytes = draw.bytes(write.region_bytes().unwrap());
            }
            Operation::Write(write)
        }
        8 => {
            let (offset, row) = draw.range();
            let buffer = draw.id();
            Operation::ReadContent(ReadContent {
                buffer,
                offset,
                row,
                transfer: draw.up_to(MAX_ID),
                size: if buffer == 1 { 2 } else { buffer - 1 },
            })
        }
        10 if draw.flag() => Operation::Describe(Describe {
            form: draw.one_of(&[DescribeForm::Linked, DescribeForm::Compiled]),
            source: parts(draw),
            options: "",
        }),
        10 => Operation::Describe(Describe::text(
            "kernel void saxpy() { /* ü */ }",
            draw.text(4096),
        )),
        5 => Operation::Send(send_bytes(draw)),
        9 => {
            let all = send_bytes(draw);
            let size = if all.buffer == 1 { 2 } else { all.buffer - 1 };
            Operation::SendContent(SendContent { all, size })
        }
        6 => {
            let (offset, row) = draw.range();
            Operation::Receive(Receive {
                buffer: draw.id(),
                offset,
                row,
                transfer: draw.id(),
                peer: draw.id(),
            })
        }
        _ => Operation::Read(Read {
            buffer: draw.id(),
            offset: draw.up_to(1 << 40),
            row: draw.between(1, 1 << 30),
            steps: strides(draw),
            transfer: draw.up_to(MAX_ID),
        }),
    };
    let event = draw.id();
    let is_plain = matches!(operation, Operation::Describe(_));
    let waits = match event {
        _ if is_plain => 0,
        1 => 0,
        _ => 32,
    };
    Message::Command(Command {
        event,
        device: draw.up_to(1023) as u32,
        queue: draw.small(),
        priority: draw.one_of(Priority::ALL),
        profiled: draw.flag() && !is_plain,
        waits: draw.list(waits, |draw| {
            let other = draw.between(1, event - 1);
            if draw.flag() {
                Wait::needs(other)
            } else {
                Wait::after(other)
            }
        }),
        operation,
    })
}

fn launch(draw: &mut Draw<'_>) -> Launch<'static> {
    let rank = draw.between(1, 4);
    let mut extents = |least: u64, most: u64| {
        let words: Vec<Word> = (0..rank)
            .map(|_| draw.between(least, most).into())
            .collect();
        kept(&words)
    };
    let (blocks, threads, elements) = (extents(0, 200), extents(1, 99), extents(1, 99));
    let offset = match draw.flag() {
        true => {
            let words: Vec<Word> = (0..rank).map(|_| draw.number().into()).collect();
            kept(&words)
        }
        false => kept(&[]),
    };
    let all_threads = match draw.flag() {
        true => {
            let along = blocks.iter().zip(threads);
            let words: Vec<Word> = along
                .map(|(blocks, threads)| {
                    let most = blocks.get() * threads.get();
                    most.saturating_sub(draw.up_to(threads.get() - 1)).into()
                })
                .collect();
            kept(&words)
        }
        false => kept(&[]),
    };
    let shared = draw.list(4, |draw| draw.number().into());
    let (mut value_bytes, mut ranks) = (0, 0);
    let parameters = draw.list(12, |draw| {
        Parameter::new(if draw.up_to(7) == 0 {
            ParameterKind::Local {
                length: draw.up_to(MAX_BUFFER),
            }
        } else if draw.flag() {
            let length = draw.up_to(40) as u32;
            value_bytes += u64::from(length);
            ParameterKind::Value { length }
        } else {
            let (offset, length) = match draw.up_to(7) {
                0 => (draw.up_to(MAX_BUFFER), 0),
                _ => draw.range(),
            };
            let rank = draw.up_to(3) as u8;
            ranks += usize::from(rank);
            ParameterKind::Memory {
                mode: draw.one_of(AccessMode::ALL),
                buffer: draw.id(),
                offset,
                length,
                element: draw.between(1, u32::MAX.into()) as u32,
                rank,
            }
        })
    });
    let words: Vec<Word> = (0..2 * ranks).map(|_| draw.number().into()).collect();
    Launch {
        program: draw.id(),
        blocks,
        threads,
        elements,
        offset,
        all_threads,
        shared,
        parameters,
        extents: kept(&words),
        values: draw.bytes(value_bytes),
    }
}
