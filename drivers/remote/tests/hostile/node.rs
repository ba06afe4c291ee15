//! A node that answers as it likes: mostly with requested answers, out of order and late, and now
//! and then with answers that are slightly wrong.

use crate::lane::Lane;
use crate::random::Random;
use crate::wire;
use quipu_link::clock::SystemClock;
use quipu_link::gate::{Arrival, Caller, Gate};
use quipu_link::invitation::Invitations;
use quipu_link::{Fingerprint, Folder, Key};
use quipu_protocol::message::*;
use std::collections::{HashMap, VecDeque};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// As long as a machine may be stopped for.
const PATIENCE: Duration = Duration::from_secs(120);

/// Messages of all kinds, whoever may send them.
pub(crate) fn others() -> Vec<Message<'static>> {
    let mut random = Random(11);
    let drawn = (0..200).map(|_| {
        let bytes: Vec<u8> = (0..120).map(|_| random.next() as u8).collect();
        wire::random::message(&mut wire::random::Draw(&bytes)).0
    });
    let samples = wire::samples().into_iter().map(|(message, _)| message);
    samples.chain(drawn).collect()
}

/// The script of a session that does not answer as it likes: for its command stream, and its bulk
/// stream, once that is there.
pub(crate) type Script = Box<dyn FnOnce(Lane, &Receiver<Lane>) + Send>;

/// The acts of the node.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) ends: AtomicU64,
    pub(crate) wrong: AtomicU64,
    pub(crate) sessions: AtomicU64,
}

/// See the module.
pub(crate) struct Liar {
    pub(crate) address: SocketAddr,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) said: Arc<Said>,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
    folder: tempfile::TempDir,
}

struct Shared {
    gate: Gate,
    said: Arc<Said>,
    others: Vec<Message<'static>>,
    /// The seed of the next session's answers.
    seed: AtomicU64,
    /// The features that it does not take.
    lacks: AtomicU64,
    script: Mutex<Option<Script>>,
    stopping: AtomicBool,
    sockets: Mutex<Vec<TcpStream>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Threads that wait for a session's bulk stream.
    bulks: Mutex<HashMap<[u8; 16], Sender<Lane>>>,
}

impl Liar {
    /// A node, and the key of a client that is enrolled there.
    pub(crate) fn start() -> (Self, Key) {
        let folder = tempfile::tempdir().unwrap();
        let open = |name| Folder::open(folder.path().join(name)).unwrap();
        let gate = Gate::new(&open("node"), "liar", PATIENCE, Arc::new(SystemClock)).unwrap();
        let fingerprint = gate.fingerprint();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let said = Arc::new(Said::default());
        let shared = Arc::new(Shared {
            gate,
            said: said.clone(),
            others: others(),
            seed: AtomicU64::new(0),
            lacks: AtomicU64::new(0),
            script: Mutex::default(),
            stopping: AtomicBool::new(false),
            sockets: Mutex::default(),
            threads: Mutex::default(),
            bulks: Mutex::default(),
        });
        let own = shared.clone();
        let listening = std::thread::spawn(move || own.listen(&listener));
        let invitations = Invitations::of(&open("node"));
        let invitation = invitations.invite(fingerprint, &address.to_string(), &SystemClock);
        let key = Key::of(&open("client"), "client.key").unwrap();
        invitation
            .unwrap()
            .take_up(&key, "client", PATIENCE)
            .unwrap();
        let own = Self {
            address,
            fingerprint,
            said,
            shared,
            listening: Some(listening),
            folder,
        };
        (own, key)
    }

    /// The folder of its client's key.
    pub(crate) fn of_client(&self) -> PathBuf {
        self.folder.path().join("client")
    }

    /// The next session is of this seed.
    pub(crate) fn prepare(&self, seed: u64) {
        self.shared.seed.store(seed, Ordering::SeqCst);
    }

    /// From now on it does not take these features.
    pub(crate) fn lack(&self, features: u64) {
        self.shared.lacks.store(features, Ordering::SeqCst);
    }

    /// The next session does this.
    pub(crate) fn script(&self, script: impl FnOnce(Lane, &Receiver<Lane>) + Send + 'static) {
        *self.shared.script.lock().unwrap() = Some(Box::new(script));
    }

    /// Every connection ends, and whoever answered on it.
    pub(crate) fn end_all(&self) {
        for socket in self.shared.sockets.lock().unwrap().drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
        self.shared.bulks.lock().unwrap().clear();
        let threads = std::mem::take(&mut *self.shared.threads.lock().unwrap());
        for thread in threads {
            thread.join().unwrap();
        }
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
        self.end_all();
    }
}

impl Shared {
    fn listen(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            let (stream, _) = listener.accept().unwrap();
            if self.stopping.load(Ordering::SeqCst) {
                return;
            }
            self.sockets
                .lock()
                .unwrap()
                .push(stream.try_clone().unwrap());
            let own = self.clone();
            let thread = std::thread::spawn(move || own.see_to(stream));
            self.threads.lock().unwrap().push(thread);
        }
    }

    fn see_to(&self, stream: TcpStream) {
        let socket = stream.try_clone().unwrap();
        let Ok(Arrival::Caller(caller)) = self.gate.admit(stream) else {
            return;
        };
        let (session, ..) = caller.session();
        match caller.role() {
            Role::Session => {
                self.begin(*caller, &socket);
                // Another of its handles is kept.
                let _ = socket.shutdown(Shutdown::Both);
            }
            Role::Bulk => {
                let welcome = self.welcome(session, &mut Random(0));
                let Ok(connection) = caller.welcome(welcome, &[]) else {
                    return;
                };
                if let Some(waits) = self.bulks.lock().unwrap().remove(&session.0) {
                    // Whoever waited may have gone.
                    let _ = waits.send(Lane::new(connection));
                }
            }
            _ => {
                let _ = caller.refuse(Refusal::NoSession, "there is none");
            }
        }
    }

    fn begin(&self, caller: Caller, socket: &TcpStream) {
        let seed = self.seed.load(Ordering::SeqCst);
        let mut random = Random(seed);
        let number = self.said.sessions.fetch_add(1, Ordering::SeqCst);
        let mut session = SessionId(*b"a liar's session");
        session.0[..8].copy_from_slice(&number.to_le_bytes());
        let (found, bulk) = channel();
        self.bulks.lock().unwrap().insert(session.0, found);
        if let Some(script) = self.script.lock().unwrap().take() {
            // With a seed of which all is as it usually is.
            let devices = [device(0, &mut Random(1))];
            let connection = caller.welcome(self.welcome(session, &mut Random(1)), &devices);
            return script(Lane::new(connection.unwrap()), &bulk);
        }
        let devices: Vec<Device<'_>> = (0..1 + random.below(2))
            .map(|number| device(number as u32, &mut random))
            .collect();
        let welcome = self.welcome(session, &mut random);
        let Ok(connection) = caller.welcome(welcome, &devices) else {
            return;
        };
        Answers {
            node: self,
            socket,
            wrong: [0, 15, 60][random.below(3) as usize],
            random,
            commands: Lane::new(connection),
            awaited: bulk,
            bulk: None,
            pending: VecDeque::new(),
            over: Vec::new(),
            coming: Vec::new(),
            prints: false,
            is_finished: false,
        }
        .run();
    }

    fn welcome(&self, session: SessionId, random: &mut Random) -> Welcome<'static> {
        Welcome {
            features: quipu_protocol::FEATURES & !self.lacks.load(Ordering::SeqCst),
            ..welcome(session, random)
        }
    }
}

fn welcome(session: SessionId, random: &mut Random) -> Welcome<'static> {
    // The last is the usual.
    let mut one_of = |numbers: &[u64]| match random.once_in(12) {
        true => random.one_of(numbers).unwrap(),
        false => numbers[numbers.len() - 1],
    };
    Welcome {
        version: 0,
        data_order: DataOrder::Little,
        devices: 0,
        features: quipu_protocol::FEATURES,
        session,
        epoch: 1,
        patience_ms: 0,
        received: 0,
        max_frame: one_of(&[1 << 14, 1 << 16, 1 << 20]) as u32,
        max_inline: one_of(&[0, 100, 4096]) as u32,
        max_commands: one_of(&[0, 1, 8, u32::MAX.into(), 1000]) as u32,
        max_buffers: one_of(&[1, 100, u32::MAX.into()]) as u32,
        max_programs: one_of(&[0, 100]) as u32,
        max_program_bytes: one_of(&[0, 4096]) as u32,
        max_buffer_bytes: one_of(&[4096, u64::MAX]),
        max_session_bytes: one_of(&[1 << 20, u64::MAX]),
        idle_ms: 0,
        peer_address: None,
        name: "liar",
    }
}

fn device(number: u32, random: &mut Random) -> Device<'static> {
    let mut size = |usual: u64| match random.below(90) {
        0 => 0,
        1 => u64::MAX,
        2 => 1,
        _ => usual,
    };
    let mut extents = |usual| [size(usual), size(usual), size(usual)];
    let (max_grid_blocks, max_block_threads) = (extents(1 << 20), extents(1 << 10));
    Device {
        number,
        kind: DeviceKind::Gpu,
        takes: Takes(Takes::ALL & !Takes::BUILT_IN),
        multiprocessors: size(4) as u32,
        clock_mhz: size(1000) as u32,
        max_grid_blocks,
        max_grid_block_count: size(1 << 30),
        max_block_threads,
        max_block_thread_count: size(1 << 10),
        max_thread_elements: [u64::MAX; 3],
        max_thread_element_count: size(u64::MAX),
        shared_memory_per_block: size(1 << 15),
        global_memory: size(1 << 30),
        max_buffer: size(1 << 28),
        concurrent_commands: size(8) as u32,
        warp_sizes: &[],
        name: "device",
        vendor: "nobody",
        selector: "none:0",
        kernels: "",
        details: None,
    }
}

/// A command that was sent, and what it is to be answered with.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) event: u64,
    profiled: bool,
    /// Bytes of a read; and by which transfer, if not with a message.
    bytes: u64,
    pub(crate) transfer: u64,
    content: bool,
}

/// One session.
struct Answers<'a> {
    node: &'a Shared,
    /// Of the command stream.
    socket: &'a TcpStream,
    /// One choice in so many is wrong.
    wrong: u64,
    random: Random,
    commands: Lane,
    awaited: Receiver<Lane>,
    bulk: Option<Lane>,
    pending: VecDeque<Asked>,
    /// Events whose ends were told.
    over: Vec<u64>,
    /// Bytes of transfers that were not sent yet: transfer, from where, how many.
    coming: Vec<(u64, u64, u64)>,
    /// A program has come that may print.
    prints: bool,
    is_finished: bool,
}

impl Answers<'_> {
    fn run(mut self) {
        loop {
            let mut asked = None;
            let mut may_print = false;
            let heard = self.commands.next(|message| {
                asked = of(message);
                may_print = matches!(message, Message::CreateProgram(create) if create.may_print());
            });
            self.prints |= may_print;
            if heard.is_err() {
                return;
            }
            self.pending.extend(asked);
            // Late, but not never: a node that is silent is waited for.
            let is_late = has_more(self.socket);
            while !(self.pending.is_empty() || is_late && self.random.once_in(3)) {
                self.answer();
            }
            while !(self.coming.is_empty() || is_late && self.random.once_in(3)) {
                self.chunk();
            }
            if self.is_finished || !self.commands.flush() {
                return;
            }
        }
    }

    fn errs(&mut self) -> bool {
        let errs = self.random.once_in(self.wrong);
        if errs {
            self.node.said.wrong.fetch_add(1, Ordering::Relaxed);
        }
        errs
    }

    /// Answers one of the commands, or says something else.
    fn answer(&mut self) {
        if self.errs() {
            return self.lie();
        }
        let at = self.random.below(self.pending.len() as u64);
        let Some(asked) = self.pending.remove(at as usize) else {
            return;
        };
        self.give(asked);
        if self.prints && self.random.once_in(20) {
            let lost = self.random.below(1 << 42).max(1);
            self.commands
                .push(&Message::Printed(Printed { lost, bytes: b"" }));
        }
        let is_read = asked.bytes > 0 || asked.content;
        if self.random.once_in(60) && !is_read {
            self.fail(asked.event);
        } else {
            self.complete(asked.event, asked.profiled);
        }
        self.over.push(asked.event);
        self.node.said.ends.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives what a read has asked for.
    fn give(&mut self, asked: Asked) {
        let used = match asked.content {
            true => self.random.below(asked.bytes + 1),
            false => asked.bytes,
        };
        if asked.content {
            self.commands.push(&Message::Content(Content {
                event: asked.event,
                length: used,
            }));
        }
        if used > 0 && asked.transfer == 0 {
            self.bytes(asked.event, used);
        } else if used > 0 {
            self.coming.push((asked.transfer, 0, used));
        }
    }

    fn bytes(&mut self, event: u64, length: u64) {
        let bytes = vec![self.random.next() as u8; length as usize];
        let bytes = &bytes[..];
        self.commands
            .push(&Message::ReadBytes(ReadBytes { event, bytes }));
    }

    fn complete(&mut self, event: u64, profiled: bool) {
        if !profiled {
            let events = [Word::new(event)];
            self.commands
                .push(&Message::Completed(Completed { events: &events }));
            return;
        }
        let mut times = [0; 3].map(|_| self.random.next() >> self.random.below(64));
        times.sort_unstable();
        let profile = Profile {
            event: event.into(),
            submitted_ns: times[0].into(),
            started_ns: times[1].into(),
            ended_ns: times[2].into(),
        };
        let runs = [Run {
            profile,
            lane: self.random.below(1024).into(),
        }];
        let profiles = [profile];
        let is_plain = self.random.once_in(2);
        self.commands.push(&match is_plain {
            true => Message::Profiled(Profiled {
                profiles: &profiles,
            }),
            false => Message::Ran(Ran { runs: &runs }),
        });
    }

    fn fail(&mut self, event: u64) {
        let failure = match self.random.one_of(Failure::ALL).unwrap() {
            // It is the end of all that is done there.
            Failure::DeviceLost if !self.random.once_in(4) => Failure::Kernel,
            failure => failure,
        };
        let numbers = match failure {
            Failure::OutOfMemory => [self.random.next(), 0, u64::MAX],
            _ => [0; 3],
        };
        self.commands.push(&Message::Failed(Failed {
            event,
            cause: 0,
            failure,
            numbers,
            what: "a device",
            text: "no",
        }));
    }

    /// Puts the next of a transfer's bytes.
    fn chunk(&mut self) {
        if self.bulk.is_none() {
            self.bulk = self.awaited.recv().ok();
        }
        let at = self.random.below(self.coming.len() as u64) as usize;
        let (transfer, from, left) = self.coming[at];
        let length = left.min(1 + self.random.below(16_000));
        self.coming[at] = (transfer, from + length, left - length);
        if length == left {
            self.coming.swap_remove(at);
        }
        self.put_chunk(transfer, from, length);
    }

    fn put_chunk(&mut self, transfer: u64, offset: u64, length: u64) {
        let bytes = vec![self.random.next() as u8; length as usize];
        if let Some(bulk) = &mut self.bulk {
            bulk.push(&Message::Chunk(Chunk {
                transfer,
                offset,
                bytes: &bytes,
            }));
            // The client may have gone.
            self.is_finished |= !bulk.flush();
        } else {
            self.coming.clear();
        }
    }

    fn lie(&mut self) {
        let known = self.pending.iter().map(|asked| asked.event);
        let known: Vec<u64> = known
            .chain(self.over.iter().copied().rev().take(9))
            .collect();
        let event = self.random.one_of(&known).unwrap_or(1);
        let random_length = 1 + self.random.below(5000);
        match self.random.below(12) {
            // Ends that were told, or are told though their bytes have not come; twice.
            0 => self.complete(event, false),
            1 => {
                self.complete(event, false);
                self.complete(event, true);
            }
            2 => {
                self.complete(event, false);
                self.fail(event);
            }
            3 => self.fail(event),
            4 => self.complete(event + 1000, false),
            5 => self.bytes(event, random_length),
            6 => {
                let length = random_length;
                self.commands
                    .push(&Message::Content(Content { event, length }));
            }
            7 => {
                let text = "gone";
                self.commands.push(&Message::DeviceLost(DeviceLost {
                    device: self.random.below(5) as u32,
                    memory_lost: self.random.once_in(2),
                    text,
                }));
            }
            8 => {
                let transfer = self.coming.first().map_or(1, |coming| coming.0);
                let offset = self.random.below(5000);
                let transfer = transfer + self.random.below(2);
                self.put_chunk(transfer, offset, random_length);
            }
            9 => {
                let other = self.random.one_of(&self.node.others).unwrap();
                self.commands.push(&other);
            }
            10 => {
                // The client may wait for the rest of a frame that has none.
                let bit = self.random.next() as usize;
                self.commands.twist(bit);
                self.commands.flush();
                self.is_finished = true;
            }
            _ => {
                self.commands.push(&Message::Goodbye(Goodbye {
                    reason: self.random.one_of(GoodbyeReason::ALL).unwrap(),
                    text: "so long",
                }));
                self.commands.flush();
                self.is_finished = true;
            }
        }
    }
}

/// True if more has come than was read.
fn has_more(socket: &TcpStream) -> bool {
    let mut byte = 0_u8;
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: one byte, which is there to be written.
    unsafe { libc::recv(socket.as_raw_fd(), (&raw mut byte).cast(), 1, flags) > 0 }
}

/// The request of a message, if it is a command.
pub(crate) fn of(message: &Message<'_>) -> Option<Asked> {
    let Message::Command(command) = message else {
        return None;
    };
    let (bytes, transfer, content) = match &command.operation {
        Operation::Read(read) => (read.region_bytes().unwrap(), read.transfer, false),
        Operation::ReadContent(read) => (read.row, read.transfer, true),
        _ => (0, 0, false),
    };
    Some(Asked {
        event: command.event,
        profiled: command.profiled,
        bytes,
        transfer,
        content,
    })
}
