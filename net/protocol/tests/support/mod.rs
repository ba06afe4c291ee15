//! Messages for tests: one of each kind, with something in every field; and random ones.
#![allow(dead_code, reason = "each test takes what it needs")]

pub(crate) mod random;

use quipu_protocol::message::*;

/// A list that lives as long as the test.
pub(crate) fn kept<T: Clone>(list: &[T]) -> &'static [T] {
    Box::leak(list.to_vec().into_boxed_slice())
}

fn words(numbers: &[u64]) -> &'static [Word] {
    let words: Vec<Word> = numbers.iter().copied().map(Word::new).collect();
    kept(&words)
}

fn command(event: u64, waits: &[Wait], operation: Operation<'static>) -> Message<'static> {
    Message::Command(Command {
        event,
        device: 3,
        queue: 9,
        priority: Priority::High,
        profiled: true,
        waits: kept(waits),
        operation,
    })
}

/// One message of each kind, with its number.
/// A text and a module, as bytes.
fn two_parts() -> &'static [u8] {
    let text = ProgramPart {
        form: PartForm::OpenClC,
        source: b"int g();",
        options: "-w",
    };
    let module = ProgramPart {
        form: PartForm::SpirV,
        source: &[3, 2, 0x23, 7],
        options: "",
    };
    let mut bytes = Vec::new();
    for part in [text, module] {
        part.write(&mut bytes);
    }
    kept(&bytes)
}

pub(crate) fn samples() -> Vec<(Message<'static>, u64)> {
    let session = SessionId(*b"0123456789abcdef");
    let waits = [Wait::needs(5), Wait::after(6)];
    let stride = |count: u64, stride: u64| Stride {
        count: count.into(),
        stride: stride.into(),
    };
    let messages = vec![
        Message::Hello(Hello {
            versions: (1, 2),
            role: Role::Resume,
            features: 0x0102_0304_0506_0708,
            session,
            epoch: 4,
            data_order: DataOrder::Little,
            received: 77,
            max_frame: 1 << 20,
            patience_ms: 30_000,
            name: "käfer",
        }),
        Message::Welcome(Welcome {
            version: 1,
            data_order: DataOrder::Big,
            devices: 2,
            features: 5,
            session,
            epoch: 4,
            patience_ms: 20_000,
            received: 78,
            max_frame: 1 << 20,
            max_inline: 4096,
            max_commands: 10_000,
            max_buffers: 1000,
            max_programs: 100,
            max_program_bytes: 65_536,
            max_buffer_bytes: 1 << 30,
            max_session_bytes: 1 << 32,
            idle_ms: 5000,
            peer_address: PeerAddress::of("10.1.2.3:4761".parse().unwrap()),
            name: "node-a",
        }),
        Message::Refuse(Refuse {
            refusal: Refusal::NotEnrolled,
            text: "pair first",
        }),
        Message::Acknowledge(Acknowledge { received: 300 }),
        Message::Ping(Ping {
            token: 7,
            time_ns: 42,
        }),
        Message::Pong(Pong {
            token: 7,
            time_ns: 42,
            received_ns: 1000,
            sent_ns: 1001,
        }),
        Message::Goodbye(Goodbye {
            reason: GoodbyeReason::Idle,
            text: "no word for 5 s",
        }),
        Message::Enrol(Enrol {
            token: [0xab; 32],
            name: "laptop",
        }),
        Message::Enrolled(Enrolled { name: "node-a" }),
        Message::StatusRequest,
        Message::Status(Status {
            uptime_ms: 1,
            sessions: 2,
            cores: 3,
            load_thousandths: 4,
            memory_bytes: 6,
            memory_free: 5,
            session_bytes: 7,
            commands_held: 8,
            commands_over: 9,
            bulk_bytes: 11,
            bulk_sent: 10,
        }),
        Message::Device(Device {
            number: 1,
            kind: DeviceKind::Gpu,
            takes: Takes(Takes::OPENCL_C | Takes::MODULE),
            multiprocessors: 132,
            clock_mhz: 1980,
            max_grid_blocks: [1, 2, 3],
            max_grid_block_count: 4,
            max_block_threads: [5, 6, 7],
            max_block_thread_count: 8,
            max_thread_elements: [9, 10, u64::MAX],
            max_thread_element_count: 12,
            shared_memory_per_block: 13,
            global_memory: 14,
            max_buffer: 15,
            concurrent_commands: 16,
            warp_sizes: kept(&[32.into()]),
            name: "H200",
            vendor: "NVIDIA",
            selector: "cuda",
            kernels: "",
            details: Some(DeviceDetails {
                properties: DeviceBits(DeviceBits::DENORMALS | DeviceBits::CACHE),
                address_bits: 64,
                vendor_number: 0x10de,
                cache_line: 128,
                cache_bytes: 1 << 20,
                constant_bytes: 1 << 16,
                part_alignment: 256,
                argument_bytes: 4096,
                uuid: [0xab; 16],
            }),
        }),
        Message::CreateBuffer(CreateBuffer {
            buffer: 11,
            size: 4096,
        }),
        Message::FreeBuffer(FreeBuffer { buffer: 11 }),
        Message::CreateProgram(CreateProgram {
            program: 12,
            format: ProgramFormat::OpenClC,
            source: b"kernel void f() {}",
            entry: "f",
            options: "-cl-fast-relaxed-math",
        }),
        Message::FreeProgram(FreeProgram { program: 12 }),
        command(20, &waits, Operation::Nothing),
        command(
            21,
            &waits,
            Operation::Launch(Launch {
                program: 12,
                blocks: words(&[2, 3]),
                threads: words(&[4, 5]),
                elements: words(&[1, 8]),
                offset: words(&[6, 0]),
                all_threads: words(&[7, 13]),
                shared: words(&[64]),
                parameters: kept(&[
                    Parameter::new(ParameterKind::Value { length: 3 }),
                    Parameter::new(ParameterKind::Memory {
                        mode: AccessMode::Overwrite,
                        buffer: 11,
                        offset: 16,
                        length: 256,
                        element: 4,
                        rank: 2,
                    }),
                    Parameter::new(ParameterKind::Local { length: 512 }),
                ]),
                extents: words(&[4, 8, 16, 1]),
                values: &[1, 2, 3],
            }),
        ),
        command(
            22,
            &waits,
            Operation::Fill(Fill {
                buffer: 11,
                offset: 8,
                length: 30,
                pattern: *b"abc\0\0\0\0\0\0\0\0\0\0\0\0\0",
                pattern_length: 3,
            }),
        ),
        command(
            23,
            &waits,
            Operation::Copy(Copy {
                source: 11,
                source_offset: 1,
                destination: 13,
                destination_offset: 2,
                row: 32,
                steps: kept(&[Step {
                    count: 4.into(),
                    source_stride: 64.into(),
                    destination_stride: 32.into(),
                }]),
            }),
        ),
        command(
            24,
            &waits,
            Operation::Write(Write {
                buffer: 11,
                offset: 1,
                row: 3,
                steps: kept(&[stride(2, 16)]),
                transfer: 0,
                bytes: b"abcdef",
            }),
        ),
        command(
            25,
            &waits,
            Operation::Read(Read {
                buffer: 11,
                offset: 1,
                row: 1 << 20,
                steps: kept(&[stride(2, 1 << 21)]),
                transfer: 31,
            }),
        ),
        Message::Placeholder(Placeholder { event: 26, peer: 3 }),
        Message::Resolve(Resolve {
            event: 26,
            failure: Some(Failure::Kernel),
            text: "boom",
        }),
        Message::Cancel(Cancel { event: 25 }),
        Message::Completed(Completed {
            events: words(&[20, 22]),
        }),
        Message::Profiled(Profiled {
            profiles: kept(&[Profile {
                event: 23.into(),
                submitted_ns: 100.into(),
                started_ns: 200.into(),
                ended_ns: 300.into(),
            }]),
        }),
        Message::Failed(Failed {
            event: 24,
            cause: 0,
            failure: Failure::OutOfMemory,
            numbers: [1 << 40, 5, 6],
            what: "device 'H200'",
            text: "no memory",
        }),
        Message::ReadBytes(ReadBytes {
            event: 25,
            bytes: b"wxyz!",
        }),
        Message::DeviceLost(DeviceLost {
            device: 1,
            memory_lost: true,
            text: "gone",
        }),
        Message::Chunk(Chunk {
            transfer: 31,
            offset: 65_536,
            bytes: &[9; 9],
        }),
        Message::Redirect(Redirect {
            session: SessionId(*b"0123456789abcdef"),
            key: [0xcd; 32],
            wait_ms: 10_000,
        }),
        Message::Ticket(Ticket {
            versions: (1, 3),
            epoch: 2,
            session,
            ticket: [0xef; 32],
            max_frame: 1 << 20,
        }),
        Message::Admitted(Admitted {
            version: 3,
            max_frame: 1 << 21,
        }),
        Message::Peer(Peer {
            peer: 3,
            epoch: 2,
            role: PeerRole::Dials,
            is_routed: true,
            wait_ms: 3000,
            session,
            key: [0xcd; 32],
            ticket: [0xef; 32],
            address: PeerAddress::of("[fd00::7]:4760".parse().unwrap()),
        }),
        command(
            30,
            &waits,
            Operation::Send(SendBytes {
                buffer: 11,
                offset: 1,
                row: 4000,
                transfer: 32,
                peer: 3,
                remote: 33,
            }),
        ),
        command(
            31,
            &waits,
            Operation::Receive(Receive {
                buffer: 11,
                offset: 2,
                row: 4000,
                transfer: 34,
                peer: 4,
            }),
        ),
        Message::Tell(Tell {
            event: 30,
            peer: 3,
            placeholder: 27,
        }),
        Message::Abandon(Abandon { transfer: 34 }),
        Message::CameAbout(CameAbout { event: 26 }),
        Message::Taken(Taken { transfer: 33 }),
        Message::Part(Part { peer: 3 }),
        command(
            32,
            &waits,
            Operation::ReadContent(ReadContent {
                buffer: 11,
                offset: 1,
                row: 4000,
                transfer: 35,
                size: 10,
            }),
        ),
        Message::Content(Content {
            event: 32,
            length: 3000,
        }),
        Message::Ran(Ran {
            runs: kept(&[Run {
                profile: Profile {
                    event: 33.into(),
                    submitted_ns: 100.into(),
                    started_ns: 200.into(),
                    ended_ns: 300.into(),
                },
                lane: 5.into(),
            }]),
        }),
        Message::Load(Load {
            device: 1,
            waiting: 2,
            running: 3,
            over: 4,
            busy_ns: 5,
            buffer_bytes: 6,
            free_bytes: 7,
            queues: kept(&[QueueLoad {
                session: 8.into(),
                queue: 9.into(),
                waiting: 10.into(),
                running: 11.into(),
                over: 12.into(),
            }]),
        }),
        Message::Links(Links {
            more: 1,
            links: kept(&[LinkEntry::from(&LinkLoad {
                session: 2,
                kind: LinkKind::ToNode,
                state: LinkState::ByClient,
                resumed: 3,
                address: PeerAddress::of("[fd00::7]:4760".parse().unwrap()),
                key: [0xcd; 32],
                round_trip_ns: 4,
                sent: 5,
                received: 6,
                chunks_sent: [8, 7],
                chunks_received: [10, 9],
            })]),
        }),
        Message::Rest(Rest {
            transfer: 33,
            offset: 3000,
        }),
        command(
            34,
            &waits,
            Operation::SendContent(SendContent {
                all: SendBytes {
                    buffer: 11,
                    offset: 1,
                    row: 4000,
                    transfer: 36,
                    peer: 3,
                    remote: 37,
                },
                size: 10,
            }),
        ),
        Message::ContentSizes(ContentSizes {
            event: 35,
            sizes: kept(&[ContentSize {
                buffer: 11.into(),
                size: 10.into(),
            }]),
        }),
        Message::Command(Command {
            event: 36,
            device: 3,
            queue: 9,
            priority: Priority::High,
            profiled: false,
            waits: &[],
            operation: Operation::Describe(Describe::text("kernel void f() {}", "-w")),
        }),
        Message::BuildLog(BuildLog {
            event: 36,
            text: "a warning",
        }),
        Message::KernelDescription(KernelDescription {
            event: 36,
            name: "f",
            attributes: "vec_type_hint(int)",
            parameters: 2,
            required_local_size: Some([8, 4, 1]),
            local_bytes: 256,
            has_barriers: true,
            reaches_beyond: true,
            uniform_groups: true,
            sub_group_size: 128,
            private_bytes: 8000,
        }),
        Message::ParameterDescription(ParameterDescription {
            event: 36,
            class: ParameterClass::Constant,
            is_read: true,
            is_written: false,
            is_const: true,
            is_restrict: false,
            is_volatile: true,
            size: [0, 0],
            name: "in",
            type_name: "float*",
        }),
        Message::CreateProgram(CreateProgram {
            program: 13,
            format: ProgramFormat::Parts,
            source: two_parts(),
            entry: "f",
            options: "",
        }),
        Message::Command(Command {
            event: 37,
            device: 3,
            queue: 9,
            priority: Priority::High,
            profiled: false,
            waits: &[],
            operation: Operation::Describe(Describe {
                form: DescribeForm::Linked,
                source: two_parts(),
                options: "",
            }),
        }),
        Message::Printed(Printed {
            lost: 5,
            bytes: b"17 0x2a\n",
        }),
        Message::ProgramSource(ProgramSource {
            bytes: b"kernel void",
        }),
        Message::CreateProgram(CreateProgram {
            program: 14,
            format: ProgramFormat::OpenClC,
            source: b"",
            entry: "f",
            options: "-w",
        }),
    ];
    let numbered = |(at, message): (usize, Message<'static>)| {
        let sequence = if message.kind().is_numbered() {
            at as u64 + 1
        } else {
            0
        };
        (message, sequence)
    };
    messages.into_iter().enumerate().map(numbered).collect()
}
