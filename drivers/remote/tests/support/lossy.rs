//! Random graphs over a node that is lost while they run, compared with a sequential model.
//!
//! The model goes through the commands as they were enqueued, and is told how each ended. What
//! failed has to say that the node is lost, and may only fail if it had to do with the node; what a
//! failed command was to write is void. What ended well has done so to the bytes that were there.
//! In the end, each buffer has survived, is lost by name, or is void: which of these follows from
//! where it was written last, and who has read it since.

use quipu_conformance::folding;
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{
    Access, AccessMode, Context, Device, Error, ErrorKind, Event, MemoryRef, Queue, QueueOptions,
    Request,
};
use std::sync::Barrier;

const OUT_OF_ORDER: QueueOptions = QueueOptions {
    in_order: false,
    one_at_a_time: false,
    blocking: false,
    profiling: false,
    priority: quipu_scheduler::Priority::Normal,
    completion: quipu_scheduler::Completion::Callback,
    hazards: quipu_scheduler::Hazards::ACROSS_QUEUES,
};

/// Numbers that look random.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }
}

/// Bytes for transfers, kept until they are looked at.
pub(crate) struct Host(pub(crate) Box<[u8]>);

impl Host {
    pub(crate) fn memory(&mut self) -> HostMemory {
        // SAFETY: kept, and not looked at, until all commands are over, by who made it.
        unsafe { HostMemory::new(self.0.as_mut_ptr(), self.0.len(), None) }
    }
}

/// True if an error says, itself or as its cause, that the node is lost.
pub(crate) fn names_the_node(error: &Error) -> bool {
    match error.first_cause().kind() {
        ErrorKind::DeviceLost { device, reason } => {
            device.ends_with(" on node") && reason.contains("node 'node'")
        }
        _ => false,
    }
}

/// The content of a buffer: its first number, and the value of each byte behind that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Content {
    first: u64,
    rest: u8,
}

impl Content {
    fn of(byte: u8) -> Self {
        Self {
            first: u64::from_le_bytes([byte; 8]),
            rest: byte,
        }
    }

    fn folded(self, n: u64) -> Self {
        Self {
            first: folded(self.first, n),
            ..self
        }
    }

    fn is(self, bytes: &[u8]) -> bool {
        bytes[..8] == self.first.to_le_bytes() && bytes[8..].iter().all(|byte| *byte == self.rest)
    }
}

fn folded(value: u64, n: u64) -> u64 {
    value.wrapping_mul(31).wrapping_add(n)
}

/// The place of a buffer's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// On this device of the node, and nowhere else.
    There(usize),
    /// Also, or only, where nothing is lost.
    Elsewhere,
    /// On the node, and on the way to somewhere else.
    Between,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Fold,
    Fill,
    Write,
    /// Into these bytes of the host's.
    Read(usize),
    Task,
}

/// A command.
struct Step {
    act: Act,
    number: usize,
    queue: usize,
    buffer: usize,
    /// Steps that it waits for.
    waits: Vec<usize>,
    /// None if it was refused.
    event: Option<Event>,
}

/// A buffer, and what it has to be like: no bytes if a failed command was to write them.
struct Buffer {
    memory: MemoryRef,
    label: String,
    content: Option<Content>,
    place: Place,
    /// With this command the last that may use it has been.
    until: usize,
}

/// The results of the buffers of graphs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// Those that were written on the node, and nowhere else.
    pub(crate) lost: usize,
    /// Those that have survived it.
    pub(crate) kept: usize,
}

impl std::ops::AddAssign for Seen {
    fn add_assign(&mut self, other: Self) {
        self.lost += other.lost;
        self.kept += other.kept;
    }
}

impl Seen {
    /// Of so many graphs: a test that sees no buffer lost tests nothing.
    pub(crate) fn is_enough(self, graphs: u64) {
        let [lost, kept] = [self.lost, self.kept].map(|seen| seen as u64);
        assert!(lost >= graphs / 5 && kept >= graphs, "{self:?}");
    }
}

/// Numbers that a device folds that has nothing to do with the node.
struct Apart {
    queue: Queue,
    memory: MemoryRef,
    events: Vec<Event>,
    expected: u64,
}

impl Apart {
    fn step(&mut self, n: u64) {
        let request = Request {
            accesses: &[Access::whole(&self.memory, AccessMode::ReadWrite)],
            ..Request::default()
        };
        self.events
            .push(self.queue.launch(folding(n), 1, &request).unwrap());
        self.expected = folded(self.expected, n);
    }

    fn check(&self) {
        self.events.iter().for_each(|event| event.wait().unwrap());
        let bytes = read(&self.queue, &self.memory).unwrap();
        assert_eq!(bytes[..8], self.expected.to_le_bytes());
    }
}

fn read(queue: &Queue, memory: &MemoryRef) -> quipu_scheduler::Result<Box<[u8]>> {
    let mut host = Host(vec![0; memory.size() as usize].into());
    let from = Access::whole(memory, AccessMode::Read);
    let read = queue.read(from, host.memory(), memory.size(), &[], &[])?;
    read.wait()?;
    Ok(host.0)
}

/// Commands of a graph.
const COMMANDS: usize = 40;

/// Runs a random graph over a node's devices and others, while at a random moment something has the
/// node lost: what fails says so, and what has nothing to do with it is as it would be without. The
/// first of the others is this machine's.
pub(crate) fn graph(
    node: &[Device],
    others: &[Device],
    seed: u64,
    lose: impl FnOnce() + Send,
) -> Seen {
    let mut random = Random(seed);
    let devices = [node, others].concat();
    let context = Context::new(&devices).unwrap();
    let queue = |device| context.queue(device, OUT_OF_ORDER).unwrap();
    let queues: Vec<Queue> = devices.iter().map(queue).collect();
    let mut apart: Vec<Apart> = others
        .iter()
        .map(|device| Apart {
            queue: queue(device),
            memory: context.memory(64).unwrap(),
            events: Vec::new(),
            expected: 0,
        })
        .collect();
    // Some are large enough for the bulk stream, and most are left alone some time, often before
    // the loss.
    let sizes = [64, 1 << 12, 1 << 17, 3 << 20, 64, 64, 1 << 12, 64];
    let mut buffers: Vec<Buffer> = (0..)
        .zip(sizes)
        .map(|(number, size)| {
            let memory = context.memory(size).unwrap();
            let label = format!("number {number} of {seed}");
            memory.set_label(&label);
            Buffer {
                memory,
                label,
                content: Some(Content::of(0)),
                place: Place::Elsewhere,
                until: match number {
                    0 => COMMANDS,
                    _ => random.below(COMMANDS + COMMANDS / 2),
                },
            }
        })
        .collect();
    let (mut hosts, mut steps): (Vec<Host>, Vec<Step>) = (Vec::new(), Vec::new());
    // Both sides have what there is to cut.
    let to = Access::whole(&buffers[0].memory, AccessMode::Overwrite);
    let first = queues[0].fill(to, &[0], &[]).unwrap();
    first.wait().unwrap();
    steps.push(Step {
        act: Act::Fill,
        number: 0,
        queue: 0,
        buffer: 0,
        waits: Vec::new(),
        event: Some(first),
    });
    let moment = random.below(COMMANDS);
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            barrier.wait();
            lose();
        });
        for number in 0..COMMANDS {
            if number == moment {
                barrier.wait();
            }
            let used: Vec<usize> = (0..buffers.len())
                .filter(|buffer| number < buffers[*buffer].until)
                .collect();
            let (queue, buffer) = (random.below(queues.len()), used[random.below(used.len())]);
            let waits = (0..random.below(3)).map(|_| random.below(steps.len()));
            let mut step = Step {
                act: Act::Fold,
                number,
                queue,
                buffer,
                waits: waits.collect(),
                event: None,
            };
            step.act = match random.below(5) {
                0 => Act::Fold,
                1 => Act::Fill,
                2 => Act::Write,
                3 => Act::Read(hosts.len()),
                _ => Act::Task,
            };
            let memory = &buffers[buffer].memory;
            match enqueue(&step, &steps, &queues[queue], memory, &mut hosts) {
                Ok(event) => {
                    // So that some of it is over by then. However it has ended is looked at later.
                    if number < moment && random.below(3) == 0 {
                        let _ = event.wait();
                    }
                    step.event = Some(event);
                }
                Err(error) => assert!(names_the_node(&error), "seed {seed}: {error}"),
            }
            steps.push(step);
            // What has nothing to do with the node goes on.
            apart.iter_mut().for_each(|apart| apart.step(number as u64));
        }
    });
    for (at, step) in steps.iter().enumerate() {
        let buffer = &mut buffers[step.buffer];
        if let Err(wrong) = follow(step, &steps, buffer, node.len(), &hosts) {
            panic!("seed {seed}, step {at}: {wrong}");
        }
    }
    apart.iter().for_each(Apart::check);
    let seen = check(&buffers, &queues[node.len()], seed);
    // Whatever is still to be done there fails, too, and at once.
    let to = Access::whole(&buffers[0].memory, AccessMode::Overwrite);
    let after = queues[0].fill(to, &[1], &[]);
    let error = after.and_then(|event| event.wait()).unwrap_err();
    assert!(names_the_node(&error), "{error}");
    seen
}

fn enqueue(
    step: &Step,
    steps: &[Step],
    queue: &Queue,
    memory: &MemoryRef,
    hosts: &mut Vec<Host>,
) -> quipu_scheduler::Result<Event> {
    let (size, n) = (memory.size(), step.number as u64);
    let waits = step.waits.iter().filter_map(|at| steps[*at].event.clone());
    let waits: Vec<Event> = waits.collect();
    let request = Request {
        accesses: &[Access::whole(memory, AccessMode::ReadWrite)],
        waits: &waits,
        ..Request::default()
    };
    let to = Access::whole(memory, AccessMode::Overwrite);
    match step.act {
        Act::Fold => queue.launch(folding(n), 1, &request),
        Act::Fill => queue.fill(to, &[n as u8], &waits),
        Act::Write => {
            hosts.push(Host(vec![n as u8; size as usize].into()));
            let from = hosts.last_mut().unwrap().memory();
            queue.write(from, to, size, &[], &waits)
        }
        Act::Read(_) => {
            hosts.push(Host(vec![0; size as usize].into()));
            let to = hosts.last_mut().unwrap().memory();
            let from = Access::whole(memory, AccessMode::Read);
            queue.read(from, to, size, &[], &waits)
        }
        Act::Task => queue.host_task(
            move |arguments| {
                let first = arguments[0].pointer.cast::<u64>();
                // SAFETY: the buffer has more bytes, which are the task's meanwhile.
                unsafe { first.write_unaligned(folded(first.read_unaligned(), n)) };
                Ok(())
            },
            &request,
        ),
    }
}

/// Has the model take a step, after a look at how it really ended.
fn follow(
    step: &Step,
    steps: &[Step],
    buffer: &mut Buffer,
    on_node: usize,
    hosts: &[Host],
) -> Result<(), String> {
    let is_there = step.queue < on_node;
    let overwrites = matches!(step.act, Act::Fill | Act::Write);
    let waited = step.waits.iter().filter_map(|at| steps[*at].event.as_ref());
    let waits_are_over = waited.clone().all(|event| event.wait().is_ok());
    let (before, is_read) = (buffer.content, matches!(step.act, Act::Read(_)));
    let Some(event) = &step.event else {
        // Nothing was done to anything.
        return match is_there {
            true => Ok(()),
            false => Err("it was refused, and is not the node's".to_owned()),
        };
    };
    let ended = event.wait();
    if is_read {
        buffer.place = match buffer.place {
            Place::There(device) if device == step.queue => Place::There(device),
            Place::There(_) if !is_there && ended.is_ok() => Place::Elsewhere,
            Place::There(_) => Place::Between,
            Place::Between if !is_there && ended.is_ok() => Place::Elsewhere,
            place => place,
        };
    }
    if let Err(error) = ended {
        if !names_the_node(&error) {
            return Err(error.to_string());
        }
        let needs_no_node = overwrites || buffer.place == Place::Elsewhere && before.is_some();
        if !is_there && waits_are_over && needs_no_node {
            return Err(format!("it has nothing to do with the node: {error}"));
        }
        if !is_read {
            buffer.content = None;
        }
        return Ok(());
    }
    if !waits_are_over {
        return Err("it ended well, though what it waits for has failed".to_owned());
    }
    let n = step.number as u64;
    let after = match (step.act, before) {
        (Act::Fill | Act::Write, _) => Content::of(n as u8),
        (_, None) => return Err("it ended well, though it had nothing to read".to_owned()),
        (Act::Read(host), Some(content)) if !content.is(&hosts[host].0) => {
            return Err(format!("it did not read {content:?}"));
        }
        (Act::Read(_), Some(content)) => content,
        (Act::Fold | Act::Task, Some(content)) => content.folded(n),
    };
    buffer.content = Some(after);
    if !is_read {
        buffer.place = match is_there {
            true => Place::There(step.queue),
            false => Place::Elsewhere,
        };
    }
    Ok(())
}

/// Looks at all buffers from here, when the node is lost.
fn check(buffers: &[Buffer], here: &Queue, seed: u64) -> Seen {
    let mut seen = Seen::default();
    for buffer in buffers {
        let Buffer {
            label,
            content,
            place,
            ..
        } = buffer;
        let about = format!("'{label}' is {content:?}, {place:?}");
        // What was on its way when the node was lost has come or not when the first that asks for
        // it is over.
        let asked = read(here, &buffer.memory);
        match (asked.or_else(|_| read(here, &buffer.memory)), content) {
            (Ok(bytes), Some(content)) => {
                assert!(!matches!(place, Place::There(_)), "{about}, and is there");
                assert!(content.is(&bytes), "{about}, and another");
                seen.kept += 1;
            }
            (Ok(_), None) => panic!("{about}, and can be read"),
            (Err(error), _) => {
                assert!(names_the_node(&error), "{about}: {error}");
                if content.is_some() {
                    assert_ne!(*place, Place::Elsewhere, "{about}: {error}");
                    let says = error.to_string();
                    assert!(says.contains(&format!("'{label}'")), "{about}: {error}");
                    seen.lost += 1;
                }
            }
        }
        // Written again as a whole, it can be used again.
        let to = Access::whole(&buffer.memory, AccessMode::Overwrite);
        let filled = here.fill(to, &[seed as u8], &[]).unwrap();
        filled.wait().unwrap();
        assert!(Content::of(seed as u8).is(&read(here, &buffer.memory).unwrap()));
    }
    seen
}
