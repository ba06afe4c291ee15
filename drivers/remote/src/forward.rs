//! Forwarding: from a command to a message.

use crate::bulk::HostRegion;
use crate::clock::Sighting;
use crate::device::Device;
use crate::failure::Refusal;
use crate::link::{Link, Route, Task};
use crate::peers::Shipment;
use crate::point::{Point, Times};
use crate::program::Program;
use crate::vendor::Remote;
use quipu_device_queue::launch::{CodeRef, mismatch};
use quipu_device_queue::{Executor, Failure as _, Flight, Obstacle, VendorDevice as _};
use quipu_protocol::limits::{MAX_PATTERN, MAX_STEPS};
use quipu_protocol::message::{
    self, ContentSize, Launch, Parameter, ParameterKind, Read, ReadContent, Step, Stride, Word,
    Write,
};
use quipu_scheduler::access::Argument;
use quipu_scheduler::operation::{Endpoint, Fill, Migration, Operation, Transfer};
use quipu_scheduler::trace::{self, Detour};
use quipu_scheduler::{AccessMode, Command, Error, PassedParameter, Priority, SpaceId, clock};
use smallvec::SmallVec;

type Work<'a> = quipu_device_queue::Work<'a, Remote>;

/// Bytes of a write that is sent only when the node has reported the end of the earlier commands:
/// its own way takes so long that this makes no difference.
const LARGE: u64 = 16 << 20;

/// Lanes in the trace for bytes to other nodes: behind those that a device has, for a trace has a
/// thousand for each.
const TO_NODES: u32 = 960;
/// The last of them, counted from the first: further nodes share it.
const MOST_NODES: u32 = 39;

/// The data that comes with a command.
#[derive(Debug)]
pub struct Cargo {
    /// The time at which it was sent, if its times were asked for.
    pub(crate) sent: Option<u64>,
}

/// The executor of a command.
pub(crate) fn executor_of(command: &Command) -> Executor {
    match command.operation() {
        Operation::Transfer(transfer) if transfer.steps.len() > MAX_STEPS => Executor::Host,
        Operation::Transfer(transfer) if matches!(transfer.destination, Endpoint::Host(_)) => {
            Executor::DeviceForUser
        }
        // The node would have to keep it until its turn.
        Operation::Transfer(transfer)
            if matches!(transfer.source, Endpoint::Host(_)) && transfer.bytes() > LARGE =>
        {
            Executor::DeviceWhenReady
        }
        // It is copied as it is sent, and another command may bring it to the host.
        Operation::Migrate(migration) if migration.from == SpaceId::HOST => {
            Executor::DeviceWhenReady
        }
        _ => Executor::Device,
    }
}

/// True if the node from which a migration goes finds out itself how much is in use: as it reads it
/// for the host, or sends it to another node.
pub(crate) fn finds_content(device: &Device, migration: &Migration) -> bool {
    let can = match is_between_nodes(migration) {
        true => device.link.all_send_content(),
        false => migration.to == SpaceId::HOST && device.link.terms.takes_content(),
    };
    can && migration.content == Some(migration.from)
}

/// Sends a command, after these.
pub(crate) fn put(
    work: &Work<'_>,
    code: Option<CodeRef<'_, Program>>,
    waits: &[Point],
) -> Result<Flight<Remote>, Obstacle<Refusal>> {
    let command = work.command();
    let options = command.queue().options();
    let profiled = options.profiling || trace::enabled();
    let route = Route {
        device: work.device().number,
        queue: command.queue().id(),
        priority: Some(match options.priority {
            Priority::Low => message::Priority::Low,
            Priority::Normal => message::Priority::Normal,
            Priority::High => message::Priority::High,
        }),
        // The node does not know the times at which bytes came and went.
        profiled: profiled && !matches!(command.operation(), Operation::Transfer(_)),
        sizes: content_sizes(work)?,
    };
    let sent = profiled.then(clock::now_ns);
    if let Operation::Migrate(migration) = command.operation()
        && is_between_nodes(migration)
    {
        let size = match (command.arguments(), migration.content) {
            ([_, size], Some(space)) => {
                let (size, _) = work.bytes_in(size, space)?;
                Some(size.allocation.buffer)
            }
            _ => None,
        };
        let bytes = command.arguments()[0].length();
        let point = ship(work, migration, (bytes, size), waits, profiled)?;
        return Ok(Flight {
            // The end of others of its line tells of one half only.
            done: Some(point.clone()),
            signal: point,
            line: None,
            failure: None,
            error: None,
            cargo: Cargo { sent },
        });
    }
    let send = |task: Task<'_>| {
        let point = work.device().link.send(&route, waits, task)?;
        work.device().link.send_ahead(&point);
        Ok(point)
    };
    let point = match (command.operation(), code) {
        (Operation::Transfer(transfer), _) => put_transfer(work, transfer, send)?,
        (Operation::Fill(fill), _) => put_fill(work, fill, send)?,
        (Operation::Migrate(migration), _) => put_migration(work, migration, send)?,
        (Operation::Launch { .. }, Some(code)) => put_launch(work, code, send)?,
        (Operation::NativeEnqueue(_), _) => {
            let error: Error = quipu_scheduler::ErrorKind::Unsupported {
                driver: "remote",
                what: "call into a node's device".to_owned(),
                instead: "launch a kernel, or run a host task",
            }
            .into();
            return Err(error.into());
        }
        (Operation::Nothing | Operation::Launch { groups: 0 }, _) => {
            send(Task::Plain(message::Operation::Nothing))?
        }
        _ => return Err(command.unsupported("remote").into()),
    };
    // Later commands may be over before its bytes have arrived, and a lying node may say so.
    let has_bytes = matches!(
        command.operation(),
        Operation::Transfer(_) | Operation::Migrate(_)
    );
    Ok(Flight {
        done: has_bytes.then(|| point.clone()),
        signal: point,
        line: None,
        failure: None,
        error: None,
        cargo: Cargo { sent },
    })
}

/// The sizes of the bytes in use of its buffers, for a command for which the node may bring them
/// from one of its memories to another. An object that was made the holder of a size later is not
/// among the arguments.
fn content_sizes(work: &Work<'_>) -> Result<Vec<ContentSize>, Obstacle<Refusal>> {
    let command = work.command();
    let arguments = command.arguments();
    let has = |argument: &Argument<'_>| argument.memory().has_content_size();
    let is_within = match command.operation() {
        Operation::Launch { .. } => true,
        Operation::Transfer(transfer) => matches!(
            (&transfer.source, &transfer.destination),
            (Endpoint::Argument(_), Endpoint::Argument(_))
        ),
        _ => false,
    };
    if !is_within || !arguments.iter().any(has) || !work.device().link.terms.takes_content_sizes() {
        return Ok(Vec::new());
    }
    let mut sizes = Vec::new();
    for argument in arguments {
        let Some(size) = argument.memory().content_size() else {
            continue;
        };
        if let Some(size) = arguments
            .iter()
            .find(|other| other.memory().id() == size.id())
        {
            let (bytes, size) = (work.bytes(argument)?, work.bytes(size)?);
            sizes.push(ContentSize {
                buffer: bytes.allocation.buffer.into(),
                size: size.allocation.buffer.into(),
            });
        }
    }
    Ok(sizes)
}

type Sent = Result<Point, Obstacle<Refusal>>;

/// Numbers of a launch: mostly few, which are to cost no allocation.
type Words = SmallVec<[Word; 4]>;

fn words(numbers: &[u64]) -> Words {
    let mut words = Words::new();
    put_words(&mut words, numbers);
    words
}

/// One by one: to collect or extend by an iterator takes several times as long for so few.
fn put_words(words: &mut Words, numbers: &[u64]) {
    for number in numbers {
        words.push(Word::new(*number));
    }
}

fn put_fill(
    work: &Work<'_>,
    fill: &Fill,
    send: impl FnOnce(Task<'_>) -> Result<Point, Refusal>,
) -> Sent {
    let to = work.bytes(&work.command().arguments()[0])?;
    let mut pattern = [0; MAX_PATTERN];
    pattern[..fill.pattern().len()].copy_from_slice(fill.pattern());
    let (row, steps) = fill.region().unwrap_or((to.length, &[]));
    let first = message::Operation::Fill(message::Fill {
        buffer: to.allocation.buffer,
        offset: to.offset,
        length: row,
        pattern,
        pattern_length: fill.pattern().len() as u8,
    });
    let apart: Vec<_> = steps.iter().filter(|step| step.count > 1).collect();
    if apart.is_empty() {
        return Ok(send(Task::Plain(first))?);
    }
    // The protocol fills regions without gaps. So the first row is filled, the others of its plane
    // are copies of it, the other planes are copies of that plane, and so on.
    let copies: Vec<Vec<Step>> = (0..apart.len())
        .rev()
        .map(|outer| {
            let copied = apart[outer + 1..].iter().map(|step| Step {
                count: step.count.into(),
                source_stride: step.destination_stride.into(),
                destination_stride: step.destination_stride.into(),
            });
            let to_others = Step {
                count: (apart[outer].count - 1).into(),
                source_stride: 0.into(),
                destination_stride: apart[outer].destination_stride.into(),
            };
            std::iter::once(to_others).chain(copied).collect()
        })
        .collect();
    let copies = copies.iter().map(|steps| {
        message::Operation::Copy(message::Copy {
            source: to.allocation.buffer,
            source_offset: to.offset,
            destination: to.allocation.buffer,
            destination_offset: to.offset + steps[0].destination_stride.get(),
            row,
            steps,
        })
    });
    let all: Vec<_> = std::iter::once(first).chain(copies).collect();
    Ok(send(Task::Several(&all))?)
}

fn put_migration(
    work: &Work<'_>,
    migration: &Migration,
    send: impl FnOnce(Task<'_>) -> Result<Point, Refusal>,
) -> Sent {
    let argument = &work.command().arguments()[0];
    let row = argument.length();
    let host = argument.on_host()?;
    // SAFETY: the host's copy is there for as long as a command uses it, and the hazards keep
    // others away.
    let region = unsafe { HostRegion::new(host.pointer, host.length, Vec::new()) };
    let task = if migration.from == SpaceId::HOST {
        let (to, _) = work.bytes_in(argument, migration.to)?;
        let write = Write {
            buffer: to.allocation.buffer,
            offset: to.offset,
            row,
            steps: &[],
            transfer: 0,
            bytes: &[],
        };
        Task::Write(write, region)
    } else if let ([_, size], Some(space)) = (work.command().arguments(), migration.content) {
        let (from, _) = work.bytes_in(argument, migration.from)?;
        let (size, _) = work.bytes_in(size, space)?;
        let read = ReadContent {
            buffer: from.allocation.buffer,
            offset: from.offset,
            row,
            transfer: 0,
            size: size.allocation.buffer,
        };
        Task::ReadContent(read, region)
    } else {
        let (from, _) = work.bytes_in(argument, migration.from)?;
        let read = Read {
            buffer: from.allocation.buffer,
            offset: from.offset,
            row,
            steps: &[],
            transfer: 0,
        };
        Task::Read(read, region)
    };
    Ok(send(task)?)
}

/// True if bytes go from one node to another.
fn is_between_nodes(migration: &Migration) -> bool {
    migration.from != SpaceId::HOST && migration.to != SpaceId::HOST
}

/// Sends the first bytes of a migration's argument from one node to another: of so many, those that
/// are in use, if a buffer there says how many that are.
fn ship(
    work: &Work<'_>,
    migration: &Migration,
    (bytes, size): (u64, Option<u64>),
    waits: &[Point],
    profiled: bool,
) -> Sent {
    let argument = &work.command().arguments()[0];
    let (from, source) = work.bytes_in(argument, migration.from)?;
    let (to, destination) = work.bytes_in(argument, migration.to)?;
    let route = |device: u32| Route {
        device,
        queue: work.command().queue().id(),
        profiled,
        ..Route::default()
    };
    let shipment = Shipment {
        from: (from.allocation.buffer, from.offset),
        to: (to.allocation.buffer, to.offset),
        bytes,
        size,
    };
    let routes = [&route(source.number), &route(destination.number)];
    let shipped = source
        .link
        .ship(&destination.link, routes, waits, &shipment)?;
    Ok(shipped)
}

/// A migration from one node to another of the bytes in use, with zeros for the rest: on a thread
/// that may wait.
pub(crate) fn migrate_content(work: &Work<'_>) -> Option<quipu_scheduler::Result<()>> {
    match work.command().operation() {
        Operation::Migrate(migration) if is_between_nodes(migration) => {
            Some(move_content(work, migration))
        }
        _ => None,
    }
}

fn move_content(work: &Work<'_>, migration: &Migration) -> quipu_scheduler::Result<()> {
    let failed = |obstacle: Obstacle<Refusal>| match obstacle {
        Obstacle::Error(error) => error,
        Obstacle::Call(refusal) | Obstacle::Spent(refusal) => quipu_scheduler::ErrorKind::Device {
            device: format!("'{}'", work.device().name()),
            what: "move a buffer's content".to_owned(),
            message: refusal.text(),
        }
        .into(),
    };
    let [argument, size] = work.command().arguments() else {
        return Ok(());
    };
    let mut used = [0; 8];
    match migration.content {
        None => used = argument.length().to_le_bytes(),
        Some(SpaceId::HOST) => {
            let size = size.on_host()?;
            // SAFETY: eight bytes that are valid on the host; the hazards see to it that nobody
            // writes them.
            used = unsafe { size.pointer.cast::<[u8; 8]>().read() };
        }
        Some(space) => {
            let (size, holder) = work.bytes_in(size, space)?;
            let read = holder.read(size.allocation, size.offset, &mut used);
            read.map_err(|refusal| failed(refusal.into()))?;
        }
    }
    let used = Migration::used(argument, used) as u64;
    let (_, source) = work.bytes_in(argument, migration.from)?;
    let (to, destination) = work.bytes_in(argument, migration.to)?;
    let mut points = Vec::new();
    if used > 0 {
        points.push(ship(work, migration, (used, None), &[], false).map_err(failed)?);
    }
    if used < argument.length() {
        let zeros = message::Operation::Fill(message::Fill {
            buffer: to.allocation.buffer,
            offset: to.offset + used,
            length: argument.length() - used,
            pattern: [0; MAX_PATTERN],
            pattern_length: 1,
        });
        let route = Route {
            device: destination.number,
            ..Route::default()
        };
        let filled = destination.link.send(&route, &[], Task::Plain(zeros));
        points.push(filled.map_err(|refusal| failed(refusal.into()))?);
    }
    let sent = clock::now_ns();
    // All are waited for, also if one fails: nothing of this goes on when it is over.
    let waited = points.iter().map(|point| {
        let device = if point.is_joint() {
            source
        } else {
            destination
        };
        device.wait(point)
    });
    let waited: Vec<Result<(), Refusal>> = waited.collect();
    points
        .iter()
        .for_each(|point| note_detour(work, migration, point, sent));
    let over: Result<Vec<()>, Refusal> = waited.into_iter().collect();
    over.map(drop).map_err(|refusal| failed(refusal.into()))
}

fn put_transfer(
    work: &Work<'_>,
    transfer: &Transfer,
    send: impl FnOnce(Task<'_>) -> Result<Point, Refusal>,
) -> Sent {
    let arguments = work.command().arguments();
    let steps = &transfer.steps;
    let strides = |stride: fn(&quipu_scheduler::operation::Step) -> u64| -> Vec<Stride> {
        let steps = steps.iter().map(|step| Stride {
            count: step.count.into(),
            stride: stride(step).into(),
        });
        steps.collect()
    };
    let region = |pointer, stride: fn(&quipu_scheduler::operation::Step) -> u64| {
        let steps = steps
            .iter()
            .map(|step| (step.count as usize, stride(step) as usize));
        // SAFETY: the core has checked the region against its memory, which its owner keeps until
        // the command is over.
        unsafe { HostRegion::new(pointer, transfer.row as usize, steps.collect()) }
    };
    let task = match (&transfer.source, &transfer.destination) {
        (Endpoint::Host(from), Endpoint::Argument(to)) => {
            let to = work.bytes(&arguments[*to])?;
            let steps = strides(|step| step.destination_stride);
            let write = Write {
                buffer: to.allocation.buffer,
                offset: to.offset,
                row: transfer.row,
                steps: &steps,
                transfer: 0,
                bytes: &[],
            };
            let region = region(from.pointer(), |step| step.source_stride);
            return Ok(send(Task::Write(write, region))?);
        }
        (Endpoint::Argument(from), Endpoint::Host(to)) => {
            let from = work.bytes(&arguments[*from])?;
            let steps = strides(|step| step.source_stride);
            let read = Read {
                buffer: from.allocation.buffer,
                offset: from.offset,
                row: transfer.row,
                steps: &steps,
                transfer: 0,
            };
            let region = region(to.pointer(), |step| step.destination_stride);
            return Ok(send(Task::Read(read, region))?);
        }
        (Endpoint::Argument(from), Endpoint::Argument(to)) => {
            let (from, to) = (work.bytes(&arguments[*from])?, work.bytes(&arguments[*to])?);
            let steps = steps.iter().map(|step| Step {
                count: step.count.into(),
                source_stride: step.source_stride.into(),
                destination_stride: step.destination_stride.into(),
            });
            let steps: Vec<Step> = steps.collect();
            let copy = message::Operation::Copy(message::Copy {
                source: from.allocation.buffer,
                source_offset: from.offset,
                destination: to.allocation.buffer,
                destination_offset: to.offset,
                row: transfer.row,
                steps: &steps,
            });
            return Ok(send(Task::Plain(copy))?);
        }
        (Endpoint::Host(_), Endpoint::Host(_)) => Task::Plain(message::Operation::Nothing),
    };
    Ok(send(task)?)
}

fn put_launch(
    work: &Work<'_>,
    code: CodeRef<'_, Program>,
    send: impl FnOnce(Task<'_>) -> Result<Point, Refusal>,
) -> Sent {
    let passed = code.passed;
    let most = code.compiled.most_parameters();
    let too_many = || -> Error {
        quipu_scheduler::ErrorKind::InvalidArgument {
            what: "launch a kernel",
            problem: format!(
                "it has {} parameters; the node takes {most}",
                passed.parameters.len()
            ),
        }
        .into()
    };
    if passed.parameters.len() > most {
        return Err(too_many().into());
    }
    let takes_offsets = code.compiled.takes_offsets();
    let has_local = || {
        let mut parameters = passed.parameters.iter();
        parameters.any(|parameter| matches!(parameter, PassedParameter::Local(_)))
    };
    let of_older_version = |what: &str| -> Error {
        quipu_scheduler::ErrorKind::Unsupported {
            driver: "remote",
            what: format!("pass {what} to a node of an older version"),
            instead: "use a node of this version",
        }
        .into()
    };
    if !takes_offsets && (!passed.offset.is_empty() || has_local()) {
        return Err(of_older_version("an offset or local memory").into());
    }
    let mut memories = work.command().arguments().iter();
    let mut parameters: SmallVec<[Parameter; 6]> = SmallVec::new();
    let (mut extents, mut values) = (Words::new(), SmallVec::<[u8; 64]>::new());
    let mut number = 0;
    for parameter in &passed.parameters {
        parameters.push(Parameter::new(match parameter {
            PassedParameter::Value(bytes) => {
                values.extend(code.compiled.value(number, bytes));
                number += 1;
                ParameterKind::Value {
                    length: bytes.len() as u32,
                }
            }
            PassedParameter::Local(bytes) => ParameterKind::Local { length: *bytes },
            PassedParameter::Memory { element, shape } => {
                let argument = memories.next();
                let argument = argument.ok_or_else(|| mismatch("what is passed for it"))?;
                let bytes = work.bytes(argument)?;
                if bytes.length == 0 && !code.compiled.takes_empty_memory() {
                    return Err(of_older_version("a buffer without elements").into());
                }
                let (each, strides) = match shape.as_deref() {
                    Some((each, strides)) => (&each[..], &strides[..]),
                    None => (&[][..], &[][..]),
                };
                put_words(&mut extents, each);
                put_words(&mut extents, strides);
                ParameterKind::Memory {
                    mode: match argument.mode() {
                        AccessMode::Read => message::AccessMode::Read,
                        AccessMode::ReadWrite => message::AccessMode::ReadWrite,
                        AccessMode::Overwrite => message::AccessMode::Overwrite,
                    },
                    buffer: bytes.allocation.buffer,
                    offset: bytes.offset,
                    length: bytes.length,
                    element: u32::try_from(*element).unwrap_or(u32::MAX).max(1),
                    rank: each.len() as u8,
                }
            }
        }));
    }
    let launch = message::Operation::Launch(Launch {
        program: code.compiled.id,
        blocks: &words(&passed.blocks),
        threads: &words(&passed.threads),
        elements: &words(&passed.elements),
        offset: &words(&passed.offset),
        all_threads: &words(&passed.all_threads),
        shared: &words(&passed.shared),
        parameters: &parameters,
        extents: &extents,
        values: &values,
    });
    Ok(send(Task::Plain(launch))?)
}

/// Says in the trace if bytes of a migration did not go straight from one node to the other.
fn note_detour(work: &Work<'_>, migration: &Migration, point: &Point, at_ns: u64) {
    let bytes = point.went_around();
    if bytes == 0 || !trace::enabled() {
        return;
    }
    if let Some([from, to]) = ends_of(work, migration)
        && let Some(device) = work.command().queue().device()
    {
        let detour = Detour {
            from: &from.link.node,
            to: &to.link.node,
            bytes,
            at_ns,
        };
        trace::note_detour(device.id(), &detour);
    }
}

/// The devices that a migration goes from and to.
fn ends_of<'a>(work: &Work<'a>, migration: &Migration) -> Option<[&'a Device; 2]> {
    let argument = &work.command().arguments()[0];
    let device = |space| {
        work.bytes_in(argument, space)
            .ok()
            .map(|(_, device)| device)
    };
    Some([device(migration.from)?, device(migration.to)?])
}

/// The times at which a command began and ended on a device, by our clock: it was sent and its end
/// was seen at these times.
fn by_our_clock(device: &Device, times: &Times, sent: u64, seen: u64) -> Option<(u64, u64)> {
    let sighting = Sighting {
        sent,
        submitted: times.submitted_ns,
        started: times.started_ns,
        ended: times.ended_ns,
        seen,
    };
    let clock = &device.link.clock;
    match times.lane {
        None => clock.note(&sighting),
        Some(lane) => clock.note_on((device.number, lane), &sighting),
    }
}

/// Tells the core when a command ran, by this machine's clock: as the node says, or else as long as
/// it was away.
pub(crate) fn note_times(work: &Work<'_>, flight: &Flight<Remote>, seen: u64) -> Option<u64> {
    let sent = flight.cargo.sent?;
    let seen = seen.max(sent);
    let point = &flight.signal;
    let (started, ended) = match work.command().operation() {
        Operation::Migrate(migration) if is_between_nodes(migration) => {
            let ran = note_between(work, migration, point, sent, seen);
            let (started, ended) = ran.unwrap_or((sent, seen));
            note_detour(work, migration, point, started);
            (started, ended)
        }
        _ => note_there(work, point, sent, seen).unwrap_or((sent, seen)),
    };
    work.command().started_at(started);
    Some(ended)
}

/// Notes the times at which a command of one node ran, if that reports them.
fn note_there(work: &Work<'_>, point: &Point, sent: u64, seen: u64) -> Option<(u64, u64)> {
    let times = point.times()?;
    if let Some(lane) = times.lane {
        work.command().set_lane(lane);
    }
    let ran = by_our_clock(work.device(), &times, sent, seen)?;
    tell_clock(work, &work.device().link);
    Some(ran)
}

/// Notes the time in which bytes were under way from a node to another, if both say so: from the
/// one's first read until the other had them all, each by its own clock. The program's own times of
/// sending the commands and seeing their ends tell little of that: the commands wait on the nodes
/// for others.
fn note_between(
    work: &Work<'_>,
    migration: &Migration,
    point: &Point,
    sent: u64,
    seen: u64,
) -> Option<(u64, u64)> {
    let [from, to] = ends_of(work, migration)?;
    let [read, written] = point.joint_times()?;
    let (started, _) = by_our_clock(from, &read, sent, seen)?;
    let (_, ended) = by_our_clock(to, &written, sent, seen)?;
    // The core has the device that they come from do it.
    tell_clock(work, &from.link);
    let lane = TO_NODES + (to.link.number as u32).min(MOST_NODES);
    work.command().set_lane(lane);
    if trace::enabled()
        && let Some(device) = work.command().queue().device()
        && from.link.clock.is_new_lane(device.id(), lane)
    {
        trace::name_lane(device.id(), lane, &format!("to {}", to.link.node));
    }
    // They go over one connection, one after the other, while the device does something else.
    Some(from.link.clock.on_way(to.link.number, started, ended))
}

/// Puts the bounds of a node's clock into the trace.
fn tell_clock(work: &Work<'_>, link: &Link) {
    if trace::enabled()
        && let Some(device) = work.command().queue().device()
    {
        link.clock.tell(&link.node, device.id());
    }
}
