//! Performs a plan on real devices and reports how everything ended.

use super::kernel::Mix;
use super::model::{Predicted, UNREAD, is_of_a_device};
use super::order::{Order, Waits};
use super::plan::{End, Fate, Id, Plan, RecordedPlan, RecordingPlan, Region, Step, Work};
use crate::patience::RunningClock;
use crate::support::{HostBytes, in_place, launch_native, post_native, record_native};
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::graph::{Node, NodeRequest};
use quipu_scheduler::memory::mapping::{HostQueue, Reservation};
use quipu_scheduler::{
    Access, AccessMode, Context, Device, Error, Event, Graph, MemoryRef, Queue, Recording, Request,
    UserEvent,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The end of an event.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Well.
    Fine,
    /// Not well.
    Failed {
        /// The error.
        error: Error,
        /// The step that its first cause names.
        origin: Option<Id>,
        /// True if it says that a dependency failed.
        dependency: bool,
        /// True if it says that it was cancelled itself.
        cancelled: bool,
    },
    /// It was not even enqueued: its device was lost.
    Refused,
}

/// The ends of the events; of one-way commands nothing is known.
pub(super) type Outcomes = HashMap<Id, Outcome>;

/// A plan that was executed. Its contexts are still there.
pub(super) struct Executed {
    pub(super) outcomes: Outcomes,
    reads: HashMap<Id, Vec<u8>>,
    buffers: Vec<Option<MemoryRef>>,
    /// A queue per buffer to look at it with.
    readers: Vec<Queue>,
    events: HashMap<Id, Event>,
    has_fault: bool,
}

struct Host<'a> {
    plan: &'a Plan,
    patience: Duration,
    contexts: Vec<Context>,
    queues: Vec<Option<Queue>>,
    buffers: Vec<Option<MemoryRef>>,
    graphs: Vec<Graph>,
    order: Order,
    users: Vec<(Id, UserEvent)>,
    events: HashMap<Id, (Event, Waits)>,
    reads: HashMap<Id, HostBytes>,
    /// The queues of each context's mappings.
    mappings: Vec<HostQueue>,
    /// The bytes that the host saw in mappings, or why there were none.
    mapped: HashMap<Id, Result<Vec<u8>, Error>>,
    refused: Vec<Id>,
    observed: u64,
    called: Arc<AtomicU64>,
}

/// Performs the plan.
pub(super) fn execute(
    plan: &Plan,
    devices: &[Device],
    patience: Duration,
) -> Result<Executed, String> {
    let say = |error: Error| error.to_string();
    let contexts: Vec<Context> = (0..plan.contexts)
        .map(|_| Context::new(devices))
        .collect::<Result<_, _>>()
        .map_err(say)?;
    let queues: Vec<Option<Queue>> = plan
        .queues
        .iter()
        .map(|queue| contexts[queue.context].queue(&devices[queue.device], queue.options))
        .map(|queue| queue.map(Some))
        .collect::<Result<_, _>>()
        .map_err(say)?;
    let buffers: Vec<Option<MemoryRef>> = plan
        .buffers
        .iter()
        .map(|buffer| {
            let (context, bytes) = (&contexts[buffer.context], buffer.bytes as u64);
            match buffer.in_place {
                true => Ok(in_place(context, bytes).0),
                false => context.memory(bytes),
            }
        })
        .map(|buffer| buffer.map(Some))
        .collect::<Result<_, _>>()
        .map_err(say)?;
    let recordings = plan.recordings.iter();
    let graphs = recordings
        .map(|recording| record(recording, &contexts, &queues, &buffers))
        .collect::<Result<_, _>>()
        .map_err(say)?;
    let mappings = contexts.iter().map(HostQueue::new);
    let mut host = Host {
        plan,
        patience,
        mappings: mappings.collect::<Result<_, _>>().map_err(say)?,
        mapped: HashMap::new(),
        refused: Vec::new(),
        contexts,
        queues,
        buffers,
        graphs,
        order: Order::new(plan),
        users: Vec::new(),
        events: HashMap::new(),
        reads: HashMap::new(),
        observed: 0,
        called: Arc::new(AtomicU64::new(0)),
    };
    for (id, step) in &plan.steps {
        host.step(*id, step)
            .map_err(|problem| format!("at step {id}: {problem}"))?;
    }
    host.finish(devices)
}

impl Host<'_> {
    fn step(&mut self, id: Id, step: &Step) -> Result<(), String> {
        match step {
            Step::NewUser => {
                let user = UserEvent::new();
                self.order.new_user(id);
                let waits = self.order.event(id);
                self.events.insert(id, (user.event(), waits));
                self.users.push((id, user));
            }
            Step::EndUser { user, .. } => self.end_user(*user),
            Step::Command { .. } => self.command(id, step)?,
            Step::Cancel(target) => {
                if let Some((event, _)) = self.events.get(target) {
                    event.cancel();
                }
            }
            Step::Wait(target) => self.wait(*target)?,
            Step::Look(target) => self.look(*target)?,
            Step::Observe(target) => {
                if let Some((event, _)) = self.events.get(target) {
                    let called = self.called.clone();
                    self.observed += 1;
                    event.on_complete(move |_| {
                        called.fetch_add(1, Ordering::SeqCst);
                    });
                }
            }
            Step::WaitQueue(queue) => self.wait_queue(*queue)?,
            Step::DropQueue(queue) => self.queues[*queue] = None,
            Step::DropBuffer(buffer) => self.buffers[*buffer] = None,
        }
        Ok(())
    }

    fn end_user(&mut self, id: Id) {
        let Some(at) = self.users.iter().position(|(user, _)| *user == id) else {
            return;
        };
        let (_, user) = self.users.swap_remove(at);
        self.order.end_user(id);
        match self.plan.end_of(id) {
            End::Complete => user.complete(),
            End::Fail => user.fail(&super::kernel::message(id)),
            End::Drop => drop(user),
        }
    }

    fn accesses<'b>(buffers: &'b [Option<MemoryRef>], regions: &[Region]) -> Vec<Access<'b>> {
        let of = |region: &Region| Access {
            memory: buffers[region.buffer]
                .as_ref()
                .expect("a dropped buffer is not used any more"),
            offset: region.range.start as u64,
            length: region.len() as u64,
            mode: region.mode,
        };
        regions.iter().map(of).collect()
    }

    fn command(&mut self, id: Id, step: &Step) -> Result<(), String> {
        let Step::Command {
            queue: number,
            work,
            waits,
            posted,
        } = step
        else {
            return Ok(());
        };
        let before = self.plan.fault.map(|_| self.order.clone());
        let visible = self.order.command(self.plan, id, step);
        if self.plan.queues[*number].options.blocking {
            // The enqueue waits: what it may wait for is ended before.
            let open: Vec<Id> = self.users.iter().map(|(user, _)| *user).collect();
            for user in open {
                if self.order.may_wait_for(visible, user) {
                    self.end_user(user);
                }
            }
        }
        let waits: Vec<Event> = waits
            .iter()
            .filter_map(|wait| self.events.get(wait))
            .map(|(event, _)| event.clone())
            .collect();
        let queue = self.queues[*number]
            .as_ref()
            .expect("a dropped queue is not used any more");
        let regions = match work {
            // It keeps its buffers, also when nobody else does.
            Work::Graph(_) => Vec::new(),
            work => work.regions(),
        };
        let accesses = Self::accesses(&self.buffers, &regions);
        let request = Request {
            accesses: &accesses,
            regions: &rows_of(&regions),
            waits: &waits,
            unknown_access: work.is_unknown(),
            label: None,
        };
        let mix = |groups: u32, fate: Fate, spin: u32| Mix {
            id,
            modes: regions.iter().map(|region| region.mode).collect(),
            rows: regions.iter().map(|region| region.rows).collect(),
            groups,
            fate,
            spin,
        };
        let event = match work {
            Work::Kernel {
                groups, fate, spin, ..
            } => {
                let kernel = mix(*groups, *fate, *spin).printed(&regions);
                let groups = u64::from(*groups);
                if *posted {
                    let posted = match kernel {
                        Ok(kernel) => post_native(queue, kernel, groups, &request),
                        Err(kernel) => post_native(queue, kernel, groups, &request),
                    };
                    return self.accepted(id, posted, before).map(drop);
                }
                match kernel {
                    Ok(kernel) => launch_native(queue, kernel, groups, &request),
                    Err(kernel) => launch_native(queue, kernel, groups, &request),
                }
            }
            Work::Task { fate, .. } => {
                let task = mix(1, *fate, 0);
                queue.host_task(move |arguments| task.end(arguments, 0..1), &request)
            }
            Work::Copy { shape, .. } => queue.copy(
                accesses[0],
                accesses[1],
                shape.row as u64,
                &shape.strides,
                &waits,
            ),
            Work::Fill { pattern, shape, to } if shape.row == to.len() => {
                queue.fill(accesses[0], pattern, &waits)
            }
            Work::Fill { pattern, shape, .. } => {
                let row = shape.row as u64;
                queue.fill_rows(accesses[0], pattern, row, &shape.strides, &waits)
            }
            Work::Map { region, writes } => {
                let context = self.plan.queues[*number].context;
                let memory = self.buffers[region.buffer].clone();
                let memory = memory.expect("a dropped buffer is not used any more");
                let range = region.range.start as u64..region.range.end as u64;
                let host = &self.mappings[context];
                let reserved = host.reserve(queue, &memory, range, region.mode, &waits, "map");
                let Some(reservation) = self.accepted(id, reserved, before)? else {
                    return Ok(());
                };
                return self.map(id, reservation, visible, writes.as_deref());
            }
            Work::Write { from, shape, .. } => queue.write(
                HostBytes::new(from).memory(),
                accesses[0],
                shape.row as u64,
                &shape.strides,
                &waits,
            ),
            Work::Read { bytes, shape, .. } => {
                let host = HostBytes::new(&vec![UNREAD; *bytes]);
                let memory = host.memory();
                self.reads.insert(id, host);
                queue.read(
                    accesses[0],
                    memory,
                    shape.row as u64,
                    &shape.strides,
                    &waits,
                )
            }
            Work::Marker => queue.marker(&waits),
            Work::Barrier => queue.barrier(&waits),
            Work::Graph(recording) => {
                let graph = &self.graphs[recording.number];
                if *posted {
                    let posted = queue.post_graph(graph, &waits, None);
                    return self.accepted(id, posted, before).map(drop);
                }
                queue.launch_graph(graph, &waits, None)
            }
        };
        let Some(event) = self.accepted(id, event, before)? else {
            return Ok(());
        };
        if self.plan.queues[*number].options.blocking && !event.is_complete() {
            return Err("a blocking queue returned before the command was over".to_owned());
        }
        self.events.insert(id, (event, visible));
        Ok(())
    }

    /// The enqueued command; none if it was refused because its device was lost.
    fn accepted<T>(
        &mut self,
        id: Id,
        enqueued: Result<T, Error>,
        before: Option<Order>,
    ) -> Result<Option<T>, String> {
        match (enqueued, before) {
            (Ok(enqueued), _) => Ok(Some(enqueued)),
            // Nothing waits for it.
            (Err(error), Some(before)) if is_of_a_device(&error) => {
                self.order.back_to(before);
                self.refused.push(id);
                Ok(None)
            }
            (Err(error), _) => Err(error.to_string()),
        }
    }

    /// Takes the host's turn, if nothing that it may wait for is open; else gives it up.
    fn map(
        &mut self,
        id: Id,
        reservation: Reservation,
        waits: Waits,
        writes: Option<&[u8]>,
    ) -> Result<(), String> {
        if !self.order.must_end(waits) {
            return Ok(());
        }
        ends(reservation.granted(), self.patience)
            .map_err(|problem| format!("the mapping of step {id} {problem}"))?;
        let taken = reservation.take().map(|hold| {
            let bytes = hold.bytes();
            // SAFETY: the bytes are the host's until the hold is dropped.
            let bytes = unsafe { std::slice::from_raw_parts_mut(bytes.pointer, bytes.length) };
            let seen = bytes.to_vec();
            if let Some(writes) = writes {
                bytes.copy_from_slice(writes);
            }
            seen
        });
        self.mapped.insert(id, taken);
        Ok(())
    }

    /// An event that must not be over must not be seen so.
    fn look(&self, target: Id) -> Result<(), String> {
        let Some((event, waits)) = self.events.get(&target) else {
            return Ok(());
        };
        if self.order.must_be_open(*waits) && event.is_complete() {
            return Err(format!(
                "step {target} is over while a user event that it waits for is open"
            ));
        }
        Ok(())
    }

    fn wait(&self, target: Id) -> Result<(), String> {
        let Some((event, waits)) = self.events.get(&target) else {
            return Ok(());
        };
        if !self.order.must_end(*waits) {
            return self.look(target);
        }
        ends(event, self.patience).map_err(|problem| format!("step {target} {problem}"))
    }

    fn wait_queue(&self, number: usize) -> Result<(), String> {
        let Some(queue) = &self.queues[number] else {
            return Ok(());
        };
        let waits = self.order.queue(number);
        if !self.order.must_end(waits) {
            return if self.order.must_be_open(waits) && queue.is_empty() {
                Err(format!(
                    "queue {number} is empty while a command of it waits"
                ))
            } else {
                Ok(())
            };
        }
        // A marker first: its wait can give up.
        match queue.marker(&[]) {
            Ok(marker) => {
                ends(&marker, self.patience)
                    .map_err(|problem| format!("queue {number} {problem}"))?;
            }
            Err(error) if self.plan.fault.is_some() && is_of_a_device(&error) => {}
            Err(error) => return Err(error.to_string()),
        }
        queue.wait().map_err(|error| error.to_string())?;
        if !queue.is_empty() {
            return Err(format!("queue {number} was waited for and is not empty"));
        }
        Ok(())
    }

    fn finish(mut self, devices: &[Device]) -> Result<Executed, String> {
        let open: Vec<Id> = self.users.iter().map(|(user, _)| *user).collect();
        open.into_iter().for_each(|user| self.end_user(user));
        for number in 0..self.queues.len() {
            self.wait_queue(number)?;
        }
        let mut targets: Vec<Id> = self.events.keys().copied().collect();
        targets.sort_unstable();
        for target in &targets {
            self.wait(*target)?;
        }
        // Callbacks may still be on their way on another thread.
        while self.called.load(Ordering::SeqCst) < self.observed {
            std::thread::yield_now();
        }
        let events: HashMap<Id, Event> = self
            .events
            .into_iter()
            .map(|(id, (event, _))| (id, event))
            .collect();
        let mut outcomes = outcomes(&events, &self.mapped);
        let refused = self.refused.iter().map(|id| (*id, Outcome::Refused));
        outcomes.extend(refused);
        let left: Vec<&Device> = devices
            .iter()
            .filter(|device| device.lost().is_none())
            .collect();
        let readers = self
            .plan
            .buffers
            .iter()
            .enumerate()
            .map(|(index, buffer)| {
                let device = left[index % left.len()];
                self.contexts[buffer.context].queue(device, crate::support::OUT_OF_ORDER)
            })
            .collect::<Result<_, _>>()
            .map_err(|error: Error| error.to_string())?;
        Ok(Executed {
            outcomes,
            reads: self
                .reads
                .iter()
                .map(|(id, host)| (*id, host.bytes()))
                .chain(
                    self.mapped
                        .into_iter()
                        .filter_map(|(id, bytes)| Some((id, bytes.ok()?))),
                )
                .collect(),
            has_fault: self.plan.fault.is_some(),
            buffers: self.buffers,
            readers,
            events,
        })
    }
}

/// The rows of regions that have some.
fn rows_of(regions: &[Region]) -> Vec<(usize, quipu_scheduler::Region)> {
    let rows = regions.iter().enumerate();
    rows.filter_map(|(at, region)| Some((at, region.in_core()?)))
        .collect()
}

/// Records a graph.
fn record(
    plan: &RecordingPlan,
    contexts: &[Context],
    queues: &[Option<Queue>],
    buffers: &[Option<MemoryRef>],
) -> Result<Graph, Error> {
    let recording = Recording::new(&contexts[plan.context]);
    let mut nodes: Vec<Node> = Vec::new();
    for (id, RecordedPlan { queue, work, after }) in &plan.commands {
        let queue = queues[*queue].as_ref().expect("none is dropped yet");
        let after: Vec<Node> = after.iter().map(|index| nodes[*index]).collect();
        let regions = work.regions();
        let accesses = Host::accesses(buffers, &regions);
        let request = NodeRequest {
            accesses: &accesses,
            regions: &rows_of(&regions),
            after: &after,
            unknown_access: work.is_unknown(),
            label: None,
        };
        let mix = |groups: u32, fate: Fate, spin: u32| Mix {
            id: *id,
            modes: regions.iter().map(|region| region.mode).collect(),
            rows: regions.iter().map(|region| region.rows).collect(),
            groups,
            fate,
            spin,
        };
        let node = match work {
            Work::Kernel {
                groups, fate, spin, ..
            } => {
                let kernel = mix(*groups, *fate, *spin).printed(&regions);
                let groups = u64::from(*groups);
                match kernel {
                    Ok(kernel) => record_native(&recording, queue, kernel, groups, &request),
                    Err(kernel) => record_native(&recording, queue, kernel, groups, &request),
                }
            }
            Work::Task { fate, .. } => {
                let task = mix(1, *fate, 0);
                let task = move |arguments: &[_]| task.end(arguments, 0..1);
                recording.host_task(queue, task, &request)
            }
            Work::Copy { shape, .. } => recording.copy(
                queue,
                accesses[0],
                accesses[1],
                shape.row as u64,
                &shape.strides,
                &after,
            ),
            Work::Fill { pattern, shape, to } if shape.row == to.len() => {
                recording.fill(queue, accesses[0], pattern, &after)
            }
            Work::Fill { pattern, shape, .. } => recording.fill_rows(
                queue,
                accesses[0],
                pattern,
                shape.row as u64,
                &shape.strides,
                &after,
            ),
            // SAFETY: the bytes are kept and never change.
            Work::Write { from, shape, .. } => unsafe {
                recording.write(
                    queue,
                    HostBytes::new(from).memory(),
                    accesses[0],
                    shape.row as u64,
                    &shape.strides,
                    &after,
                )
            },
            Work::Barrier => recording.barrier(queue, &after),
            Work::Marker | Work::Read { .. } | Work::Map { .. } | Work::Graph(_) => {
                recording.marker(queue, &after)
            }
        };
        nodes.push(node?);
    }
    recording.finish()
}

/// Waits for an event that must end, however it ends.
fn ends(event: &Event, patience: Duration) -> Result<(), String> {
    match event.wait_with_clock(patience, &RunningClock::new()) {
        Err(error) if matches!(error.kind(), ErrorKind::TimedOut) => {
            Err("does not end, and waits for nothing that is open".to_owned())
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldDeadlock { .. }) => {
            Err(format!("cannot be waited for: {error}"))
        }
        _ if !event.is_complete() => Err("was waited for and is not over".to_owned()),
        _ => Ok(()),
    }
}

/// The step that a first cause names in its own words.
fn named(error: &Error) -> Option<Id> {
    let message = match error.first_cause().kind() {
        ErrorKind::Kernel { message, .. } | ErrorKind::Panicked { message, .. } => message,
        ErrorKind::FailedByHost { reason } => reason,
        _ => return None,
    };
    message.strip_prefix("step ")?.parse().ok()
}

fn outcomes(events: &HashMap<Id, Event>, mapped: &HashMap<Id, Result<Vec<u8>, Error>>) -> Outcomes {
    let of_maps = mapped.iter();
    let of_maps = of_maps.filter_map(|(id, bytes)| Some((*id, bytes.as_ref().err()?.clone())));
    let errors: HashMap<Id, Error> = events
        .iter()
        .filter_map(|(id, event)| Some((*id, event.result()?.err()?)))
        .chain(of_maps)
        .collect();
    let is_dependency = |error: &Error| matches!(error.kind(), ErrorKind::Dependency { .. });
    // The others are known by being the very same error.
    let origins: HashMap<*const ErrorKind, Id> = errors
        .iter()
        .filter(|(_, error)| !is_dependency(error))
        .map(|(id, error)| (std::ptr::from_ref(error.kind()), *id))
        .collect();
    events
        .keys()
        .chain(mapped.keys())
        .map(|id| {
            let outcome = errors.get(id).map_or(Outcome::Fine, |error| {
                let first = std::ptr::from_ref(error.first_cause().kind());
                Outcome::Failed {
                    error: error.clone(),
                    origin: named(error).or_else(|| origins.get(&first).copied()),
                    dependency: is_dependency(error),
                    cancelled: error.is_cancelled(),
                }
            });
            (*id, outcome)
        })
        .collect()
}

impl Executed {
    /// Compares what was read, and what the buffers hold, with the model.
    pub(super) fn compare(&self, predicted: &Predicted) -> Result<(), String> {
        for (id, bytes) in &predicted.reads {
            let read = self.reads.get(id);
            if read != Some(bytes) {
                return Err(format!("step {id} read {read:?}, not {bytes:?}"));
            }
        }
        for (number, expected) in predicted.buffers.iter().enumerate() {
            let Some(memory) = &self.buffers[number] else {
                continue;
            };
            // Stretches of bytes that can be read, and of bytes that cannot.
            let mut start = 0;
            for stretch in expected.chunk_by(|a, b| a.is_ok() == b.is_ok()) {
                let range = start..start + stretch.len();
                start = range.end;
                self.compare_stretch(number, memory, range, stretch)?;
            }
        }
        Ok(())
    }

    fn compare_stretch(
        &self,
        number: usize,
        memory: &MemoryRef,
        range: std::ops::Range<usize>,
        expected: &[Result<u8, super::model::Causes>],
    ) -> Result<(), String> {
        let host = HostBytes::new(&vec![UNREAD; range.len()]);
        let access = Access {
            memory,
            offset: range.start as u64,
            length: range.len() as u64,
            mode: AccessMode::Read,
        };
        let read = self.readers[number].read(access, host.memory(), range.len() as u64, &[], &[]);
        let at = format!("buffer {number}, bytes {range:?}");
        match read.and_then(|event| event.wait()) {
            Ok(()) => {
                let bytes = host.bytes();
                let same = bytes
                    .iter()
                    .zip(expected)
                    .all(|(byte, expected)| matches!(expected, Ok(expected) if expected == byte));
                if same {
                    Ok(())
                } else {
                    Err(format!("{at}: {bytes:?} instead of {expected:?}"))
                }
            }
            Err(error) => {
                let causes = expected.iter().filter_map(|byte| byte.as_ref().err());
                let mut causes = causes.flat_map(|causes| causes.iter().copied());
                if self.has_fault && is_of_a_device(&error) {
                    return Ok(());
                }
                let origin = named(&error).or_else(|| self.origin(&error));
                if origin.is_some_and(|origin| causes.any(|cause| cause == origin)) {
                    Ok(())
                } else {
                    Err(format!(
                        "{at} cannot be read because of {origin:?} ('{error}') instead of {expected:?}"
                    ))
                }
            }
        }
    }

    /// The step whose very own error this first cause is.
    fn origin(&self, error: &Error) -> Option<Id> {
        let first = error.first_cause().kind();
        self.events.iter().find_map(|(id, event)| {
            let own = event.result()?.err()?;
            std::ptr::eq(own.kind(), first).then_some(*id)
        })
    }
}
