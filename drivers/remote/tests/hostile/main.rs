//! Nodes that answer as they like, to a client that uses others beside them: it does not panic,
//! nothing hangs, memory that was given back is not written, what has nothing to do with such a
//! node is as it would be without, and nothing is left of it.
//!
//! The long form: `QUIPU_FUZZ_SESSIONS=20000 cargo test --release -p quipu-driver-remote --test
//! hostile -- --ignored`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod description;
#[path = "../../../../frontends/node/tests/fuzz/lane.rs"]
#[allow(dead_code, reason = "clients use more of it")]
mod lane;
mod node;
#[path = "../../../../frontends/node/tests/fuzz/random.rs"]
mod random;
#[path = "../../../../frontends/node/tests/fuzz/remains.rs"]
mod remains;
#[path = "../support/mod.rs"]
mod support;
/// Messages of all kinds.
#[path = "../../../../net/protocol/tests/support/mod.rs"]
mod wire;

use lane::Lane;
use node::{Asked, Liar};
use quipu_conformance::{Watchdog, folding};
use quipu_driver_remote::{Options, connect};
use quipu_link::{Folder, Key, LinkError};
use quipu_node::Limits;
use quipu_protocol::message::{Chunk, Completed, Message, Ping, Printed, Word};
use quipu_scheduler::{
    Access, AccessMode, Context, Device, Driver, Event, MemoryRef, Queue, QueueOptions, Request,
};
use random::Random;
use remains::{Remains, bytes_in_use, panics};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use support::lossy::Host;
use support::{Rig, pool};

/// One test at a time: what is left is what the whole process has.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Commands of a graph.
const COMMANDS: u64 = 60;

/// A read, and what it brought once it was over.
struct Read {
    event: Event,
    device: String,
    host: Host,
    had: Option<Box<[u8]>>,
}

impl Read {
    /// Looks whether it is over by now.
    fn look(&mut self) {
        if self.had.is_none() && self.event.is_complete() {
            self.had = Some(self.host.0.clone());
        }
    }

    /// Nothing was written since.
    fn check(&self, seed: u64) {
        let had = self.had.as_ref().unwrap();
        if *had == self.host.0 {
            return;
        }
        let differs = had
            .iter()
            .zip(&self.host.0)
            .position(|(one, other)| one != other);
        panic!(
            "seed {seed}: memory was written after its read from '{}', {:?}: from byte {differs:?} of {}",
            self.device,
            self.event.result(),
            had.len(),
        );
    }
}

/// Numbers that only devices of honest nodes fold.
struct Honest {
    queue: Queue,
    memory: MemoryRef,
    events: Vec<Event>,
    expected: u64,
}

impl Honest {
    fn step(&mut self, number: u64) {
        let accesses = [Access::whole(&self.memory, AccessMode::ReadWrite)];
        let request = Request {
            accesses: &accesses,
            ..Request::default()
        };
        let event = self.queue.launch(folding(number), 1, &request);
        self.events.push(event.unwrap());
        self.expected = self.expected.wrapping_mul(31).wrapping_add(number);
    }

    fn check(&self) {
        for event in &self.events {
            event.wait().unwrap();
        }
        let mut host = Host(vec![0; 64].into());
        let from = Access::whole(&self.memory, AccessMode::Read);
        let read = self.queue.read(from, host.memory(), 64, &[], &[]);
        read.unwrap().wait().unwrap();
        assert_eq!(host.0[..8], self.expected.to_le_bytes());
    }
}

/// Runs a random graph over a liar's devices, an honest node's and this machine's.
fn graph(liar: &Liar, key: &Key, honest: &Rig, local: &Device, seed: u64) -> bool {
    liar.prepare(seed);
    let mut random = Random(seed ^ 0x5555);
    let options = Options {
        patience: support::PATIENCE,
        reconnect: if random.once_in(2) {
            Duration::ZERO
        } else {
            Duration::from_secs(1200)
        },
        ..Options::new("liar", &liar.address.to_string(), liar.fingerprint)
    };
    let Ok(driver) = connect(&options, key) else {
        liar.end_all();
        return false;
    };
    let driver: Arc<dyn Driver> = driver;
    let liars = Device::all_of(&driver).unwrap();
    let others = [honest.devices(), vec![local.clone()]].concat();
    let context = Context::new(&[liars.clone(), others.clone()].concat()).unwrap();
    let options = QueueOptions {
        in_order: random.once_in(2),
        profiling: random.once_in(2),
        ..QueueOptions::default()
    };
    let queue = |device: &Device| context.queue(device, options).unwrap();
    let mut own: Vec<Honest> = others
        .iter()
        .map(|device| Honest {
            queue: queue(device),
            memory: context.memory(64).unwrap(),
            events: Vec::new(),
            expected: 0,
        })
        .collect();
    let devices = [liars.clone(), others.clone()].concat();
    let queues: Vec<Queue> = devices.iter().map(queue).collect();
    let sizes = [64, 4000, 1 << 15, 1 << 18];
    let buffers: Vec<MemoryRef> = sizes
        .iter()
        .map(|size| context.memory(*size).unwrap())
        .collect();
    if random.once_in(2) {
        // How much of the largest is in use, which a liar may say as well.
        buffers[3]
            .set_content_size(Some(buffers[0].clone()))
            .unwrap();
    }
    let (mut reads, mut hosts, mut events): (Vec<Read>, Vec<Host>, Vec<Event>) = Default::default();
    for number in 0..COMMANDS {
        let which = random.below(queues.len() as u64) as usize;
        let queue = &queues[which];
        let memory = &buffers[random.below(4) as usize];
        let waits: Vec<Event> = (0..random.below(3))
            .filter_map(|_| random.one_of(&events))
            .collect();
        let accesses = [Access::whole(memory, AccessMode::ReadWrite)];
        let request = Request {
            accesses: &accesses,
            waits: &waits,
            ..Request::default()
        };
        let to = Access::whole(memory, AccessMode::Overwrite);
        let size = memory.size();
        let enqueued = match random.below(6) {
            0 => queue.launch(folding(number), 1, &request),
            1 => queue.fill(to, &[number as u8], &waits),
            2 => {
                hosts.push(Host(vec![number as u8; size as usize].into()));
                let from = hosts.last_mut().unwrap().memory();
                queue.write(from, to, size, &[], &waits)
            }
            3 | 4 => {
                let mut host = Host(vec![0; size as usize].into());
                let to = host.memory();
                let from = Access::whole(memory, AccessMode::Read);
                let read = queue.read(from, to, size, &[], &waits);
                if let Ok(event) = &read {
                    reads.push(Read {
                        event: event.clone(),
                        device: devices[which].name().to_owned(),
                        host,
                        had: None,
                    });
                }
                read
            }
            _ => queue.host_task(|_| Ok(()), &request),
        };
        // It may be known by now that the node is none to be used.
        events.extend(enqueued);
        queue.flush();
        own.iter_mut().for_each(|honest| honest.step(number));
        reads.iter_mut().for_each(Read::look);
    }
    own.iter().for_each(Honest::check);
    if random.once_in(2) {
        for event in &events {
            // However it ends.
            let _ = event.wait();
        }
        reads.iter_mut().for_each(Read::look);
    }
    // It says no more: whatever it has not said by now fails.
    liar.end_all();
    for event in &events {
        // However it ends.
        let _ = event.wait();
    }
    reads.iter_mut().for_each(Read::look);
    own.iter_mut().for_each(|honest| honest.step(seed));
    own.iter().for_each(Honest::check);
    reads.iter().for_each(|read| read.check(seed));
    drop((
        own, queues, buffers, context, devices, liars, others, driver,
    ));
    reads.iter().for_each(|read| read.check(seed));
    true
}

fn fuzz(sessions: u64, seed: u64) {
    let _alone = alone();
    panics::count("nothing that is to panic");
    let _watchdog = Watchdog::start(
        Duration::from_secs(900 + sessions),
        format!("nodes that lie, from seed {seed}"),
    );
    let (liar, key) = Liar::start();
    let honest = Rig::new(pool(1), Limits::default());
    let local = pool(1).remove(0);
    let used = |from, to| {
        let used = (from..to).filter(|seed| graph(&liar, &key, &honest, &local, *seed));
        used.count() as u64
    };
    // Threads, tables and pools that stay are there afterwards.
    let half = (sessions / 4).max(1);
    let mut all = used(seed, seed + half);
    let before = Remains::now();
    all += used(seed + half, seed + sessions);
    before.are_all();
    println!(
        "{:?}; {all} used; {} bytes in use",
        liar.said,
        bytes_in_use()
    );
    assert_eq!(panics::seen(), Vec::<String>::new());
    // A fuzzer that only ever sees one outcome tests nothing.
    let said =
        |number: &std::sync::atomic::AtomicU64| number.load(std::sync::atomic::Ordering::SeqCst);
    assert!(said(&liar.said.ends) > 5 * sessions && said(&liar.said.wrong) > sessions / 4);
    assert!(all > sessions / 2);
}

/// The next so many commands that a node is sent.
fn asked(commands: &mut Lane, count: usize) -> Vec<Asked> {
    let mut all = Vec::new();
    while all.len() < count {
        commands
            .next(|message| all.extend(node::of(message)))
            .unwrap();
    }
    all
}

fn completed(commands: &mut Lane, all: &[&Asked]) {
    let events: Vec<Word> = all.iter().map(|asked| Word::new(asked.event)).collect();
    commands.push(&Message::Completed(Completed { events: &events }));
    commands.flush();
}

/// A liar's device, and an out-of-order queue of it.
fn stage(liar: &Liar, key: &Key) -> (Context, Queue) {
    let options = Options::new("liar", &liar.address.to_string(), liar.fingerprint);
    stage_with(options, key)
}

/// The same, as options say.
fn stage_with(options: Options, key: &Key) -> (Context, Queue) {
    let options = Options {
        patience: support::PATIENCE,
        ..options
    };
    let driver: Arc<dyn Driver> = connect(&options, key).unwrap();
    let device = Device::all_of(&driver).unwrap().remove(0);
    let context = Context::new(std::slice::from_ref(&device)).unwrap();
    let options = QueueOptions {
        in_order: false,
        ..QueueOptions::default()
    };
    let queue = context.queue(&device, options).unwrap();
    (context, queue)
}

#[test]
fn a_node_that_prints_where_no_program_may_print_breaks_a_rule() {
    let _alone = alone();
    let (liar, key) = Liar::start();
    liar.script(|mut commands, _| {
        let all = asked(&mut commands, 1);
        commands.push(&Message::Printed(Printed {
            lost: 1,
            bytes: b"",
        }));
        completed(&mut commands, &[&all[0]]);
        while commands.next(|_| ()).is_ok() {}
    });
    let (context, queue) = stage(&liar, &key);
    let memory = context.memory(64).unwrap();
    let all = quipu_scheduler::Access {
        memory: &memory,
        offset: 0,
        length: 64,
        mode: AccessMode::Overwrite,
    };
    let filled = queue.fill(all, &[1], &[]).and_then(|event| event.wait());
    let error = filled.unwrap_err();
    let cause = error.first_cause();
    let is_lost = matches!(cause.kind(), quipu_scheduler::ErrorKind::DeviceLost { .. });
    assert!(is_lost, "{error}");
    let node = format!("node 'liar' at '{}'", liar.address);
    assert!(cause.to_string().contains(&node), "{cause}");
}

/// Bytes of a transfer on the bulk stream.
const LARGE: u64 = 1 << 16;

#[test]
fn a_read_is_not_over_before_its_bytes_have_come_though_all_after_it_is() {
    let _alone = alone();
    let (liar, key) = Liar::start();
    let (tell, told) = std::sync::mpsc::channel();
    liar.script(move |mut commands, bulks| {
        let mut bulk = bulks.recv().unwrap();
        let all = asked(&mut commands, 3);
        // As of a node that tells the truth, whose bulk stream is slow.
        completed(&mut commands, &[&all[0], &all[1], &all[2]]);
        told.recv().unwrap();
        for offset in (0..LARGE).step_by(1 << 12) {
            bulk.push(&Message::Chunk(Chunk {
                transfer: all[1].transfer,
                offset,
                bytes: &[9; 1 << 12],
            }));
        }
        bulk.flush();
        while commands.next(|_| ()).is_ok() {}
    });
    let (context, queue) = stage(&liar, &key);
    let memory = context.memory(LARGE).unwrap();
    let to = || Access::whole(&memory, AccessMode::Overwrite);
    let mut host = Host(vec![0; LARGE as usize].into());
    let first = queue.fill(to(), &[1], &[]).unwrap();
    let from = Access::whole(&memory, AccessMode::Read);
    let read = queue.read(
        from,
        host.memory(),
        LARGE,
        &[],
        std::slice::from_ref(&first),
    );
    let read = read.unwrap();
    let last = queue.fill(to(), &[2], std::slice::from_ref(&read)).unwrap();
    drop(last);
    first.wait().unwrap();
    assert!(!read.is_complete());
    tell.send(()).unwrap();
    read.wait().unwrap();
    assert!(host.0.iter().all(|byte| *byte == 9));
}

#[test]
fn an_end_that_is_told_twice_is_no_other() {
    let _alone = alone();
    let (liar, key) = Liar::start();
    liar.script(move |mut commands, bulks| {
        // Kept, and not read: so the bytes of the write are still sent.
        let _bulk = bulks.recv().unwrap();
        let all = asked(&mut commands, 1);
        completed(&mut commands, &[&all[0]]);
        completed(&mut commands, &[&all[0]]);
        while commands.next(|_| ()).is_ok() {}
    });
    let (context, queue) = stage(&liar, &key);
    let size = 64 << 20;
    let memory = context.memory(size).unwrap();
    let mut host = Host(vec![7; size as usize].into());
    let to = Access::whole(&memory, AccessMode::Overwrite);
    let write = queue.write(host.memory(), to, size, &[], &[]).unwrap();
    let error = write.wait().unwrap_err().to_string();
    assert!(error.contains("broke a rule"), "{error}");
}

/// The place of a program's key, and the node that it uses.
const KEY: &str = "QUIPU_TEST_KEY";
const NODE: &str = "QUIPU_TEST_NODE";

/// Bytes of the program's large write.
const LARGEST: u64 = 64 << 20;

/// Not a test: a program that ends as it sends bytes.
#[test]
#[ignore = "a program's process, started by a test"]
fn ending_program() {
    let (Some(folder), Ok(node)) = (std::env::var_os(KEY), std::env::var(NODE)) else {
        return;
    };
    let key = Key::of(&Folder::open(PathBuf::from(folder)).unwrap(), "client.key").unwrap();
    let (fingerprint, address) = node.split_once('@').unwrap();
    let options = Options {
        goodbye: Duration::MAX,
        ..Options::new("liar", address, fingerprint.parse().unwrap())
    };
    let (context, queue) = stage_with(options, &key);
    // Many small ones go with their commands, and a large one goes in bulk.
    let sizes = std::iter::repeat_n(1 << 12, 100).chain([LARGEST]);
    for size in sizes {
        let memory = context.memory(size).unwrap();
        let host = Box::leak(Box::new(Host(vec![7; size as usize].into())));
        let to = Access::whole(&memory, AccessMode::Overwrite);
        queue.write(host.memory(), to, size, &[], &[]).unwrap();
    }
    queue.flush();
    std::process::exit(0);
}

/// A busy node has not received all commands, in whichever order its streams go on.
#[test]
fn a_program_that_ends_as_it_sends_bytes_says_goodbye() {
    let _alone = alone();
    let _watchdog = Watchdog::start(Duration::from_secs(300), "a goodbye".to_owned());
    let (liar, _) = Liar::start();
    let (tell, told) = std::sync::mpsc::channel();
    liar.script(move |mut commands, bulks| {
        let mut bulk = bulks.recv().unwrap();
        let mut left = LARGEST;
        while left > 0
            && let Ok(_) = bulk.next(|message| {
                if let Message::Chunk(chunk) = message {
                    left -= chunk.bytes.len() as u64;
                }
            })
        {}
        // A system whose program does not hear it any more throws away what it has not sent.
        let (token, time_ns) = (1, 0);
        commands.push(&Message::Ping(Ping { token, time_ns }));
        commands.flush();
        let mut heard = std::iter::repeat_with(|| commands.next(|_| ()));
        tell.send(heard.find_map(Result::err)).unwrap();
    });
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "ending_program", "--ignored"]);
    program.env(KEY, liar.of_client());
    program.env(NODE, format!("{}@{}", liar.fingerprint, liar.address));
    let ended = program.stdout(Stdio::null()).status().unwrap();
    assert!(ended.success(), "{ended}");
    let error = told.recv().unwrap();
    assert!(
        matches!(error, Some(LinkError::Goodbye { .. })),
        "{error:?}"
    );
}

#[test]
fn whatever_nodes_say_their_clients_go_on_and_nothing_is_left() {
    fuzz(60, 1);
}

#[test]
#[ignore = "the long form: sessions in QUIPU_FUZZ_SESSIONS, 20,000 without it; seed in QUIPU_FUZZ_SEED"]
fn for_long() {
    let number = |name: &str, or: u64| {
        let given = std::env::var(name).ok();
        given.map_or(or, |text| text.parse().expect("a number"))
    };
    fuzz(
        number("QUIPU_FUZZ_SESSIONS", 20_000),
        number("QUIPU_FUZZ_SEED", 1_000_000),
    );
}
