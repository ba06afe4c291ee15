//! Recording: commands are taken as an enqueue takes them, and ordered among themselves.

use super::footprint::{Draft, has_content_size};
use super::{Commands, Edge, Graph, Recorded, Shared, Surroundings, Taken};
use crate::access::{AccessMode, RawArgument};
use crate::check::{
    check_copy, check_fill, check_fill_rows, check_groups, check_region, empty_access,
    is_empty_region, rows_of, rows_of_copy, write_access,
};
use crate::command::EventId;
use crate::command::slot::Slot;
use crate::context::{Context, ContextShared};
use crate::driver::Driver;
use crate::error::{Error, ErrorKind, Foreign, Result};
use crate::limits::{JOIN_DOMAIN_WAITS, JOIN_WAITS};
use crate::memory::access::Access;
use crate::memory::tracker::{Missing, Recorder};
use crate::memory::{Memory, SpaceId};
use crate::operation::{
    BarrierBody, Body, BoxedLaunch, COPY, Endpoint, HostMemory, MarkerBody, Migration,
    NativeKernel, NativeLaunch, RepeatedTask, Step, Transfer, TransferBody, WRITE,
};
use crate::queue::enqueue::{
    Hop, check_regions, construct_recorded, keep_regions, region_of, register_recorded, route,
};
use crate::queue::{Queue, QueueShared};
use crate::region::Region;
use crate::state::WANT_EACH;
use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A recorded command, for others of the same recording to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    recording: u64,
    index: u32,
}

/// The parts of a command to record, besides its body.
#[derive(Clone, Copy, Default)]
pub struct NodeRequest<'a> {
    /// Its accesses, in the order in which the body knows its arguments.
    pub accesses: &'a [Access<'a>],
    /// As [`Request::regions`](crate::Request::regions).
    pub regions: &'a [(usize, Region)],
    /// Commands of this recording that it waits for.
    pub after: &'a [Node],
    /// True if it may touch anything: a full barrier of an in-order queue, in the
    /// graph and for the queue that this is launched on.
    pub unknown_access: bool,
    /// A label for logs and traces.
    pub label: Option<&'a str>,
}

/// Records commands, of one thread or of several: see the [module](super).
pub struct Recording(Mutex<State>);

/// The commands that were recorded so far.
struct State {
    id: u64,
    commands: Commands,
    /// The waits of each command, and for each whether its failure fails the command.
    waits: Vec<Vec<(EventId, bool)>>,
    memories: HashMap<u64, Draft>,
    lanes: Vec<Lane>,
    /// The last list of waits that was joined, and the marker for it.
    joined: Option<(Vec<Node>, EventId)>,
    unknown_access: bool,
    context: Arc<ContextShared>,
}

/// A queue, as far as its order goes.
struct Lane {
    queue: Queue,
    /// The waits of a marker that waits for everything.
    all: Vec<EventId>,
    /// The last barrier.
    gate: Option<EventId>,
}

impl Recording {
    /// An empty recording.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(Mutex::new(State {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            commands: Commands::default(),
            waits: Vec::new(),
            memories: HashMap::new(),
            lanes: Vec::new(),
            joined: None,
            unknown_access: false,
            context: context.shared().clone(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a launch of a native kernel: see [`Queue::launch`].
    ///
    /// # Errors
    /// If an access is out of bounds, mapped, of another context, or of memory with
    /// a content size, a node is of another recording, or the device is lost.
    pub fn launch<K: NativeKernel>(
        &self,
        queue: &Queue,
        kernel: K,
        groups: u64,
        request: &NodeRequest<'_>,
    ) -> Result<Node> {
        let groups = check_groups(groups)?;
        if NativeLaunch::<K>::fits(request.accesses.len()) {
            self.record(queue, NativeLaunch(kernel), groups, request)
        } else {
            self.record(queue, BoxedLaunch(Box::new(kernel)), groups, request)
        }
    }

    /// Records a closure on the host, which runs once in each launch.
    ///
    /// # Errors
    /// As [`Recording::launch`].
    pub fn host_task(
        &self,
        queue: &Queue,
        task: impl FnMut(&[RawArgument]) -> Result<()> + Send + 'static,
        request: &NodeRequest<'_>,
    ) -> Result<Node> {
        // As for `Queue::host_task`: it may be given copies.
        let request = NodeRequest {
            regions: &[],
            ..*request
        };
        self.record(queue, RepeatedTask(Box::new(task)), 1, &request)
    }

    /// Records a marker: over when `after` is, or, without any, when all that was
    /// recorded before for the queue is.
    ///
    /// # Errors
    /// As [`Recording::launch`].
    pub fn marker(&self, queue: &Queue, after: &[Node]) -> Result<Node> {
        let request = NodeRequest {
            after,
            ..NodeRequest::default()
        };
        self.record(queue, MarkerBody(()), 1, &request)
    }

    /// Records a barrier: as a marker, and all that is recorded after it for the queue
    /// waits for it.
    ///
    /// # Errors
    /// As [`Recording::launch`].
    pub fn barrier(&self, queue: &Queue, after: &[Node]) -> Result<Node> {
        let request = NodeRequest {
            after,
            ..NodeRequest::default()
        };
        self.record(queue, BarrierBody, 1, &request)
    }

    /// Records a fill: see [`Queue::fill`].
    ///
    /// # Errors
    /// As [`Queue::fill`] and [`Recording::launch`].
    pub fn fill(
        &self,
        queue: &Queue,
        destination: Access<'_>,
        pattern: &[u8],
        after: &[Node],
    ) -> Result<Node> {
        let fill = check_fill(destination.length, pattern)?;
        if destination.length == 0 {
            return self.record_nothing(queue, &[destination], after);
        }
        let accesses = [write_access(destination, true)];
        self.record_data(queue, fill, &accesses, &[], after)
    }

    /// Records a fill of rows: see [`Queue::fill_rows`].
    ///
    /// # Errors
    /// As [`Queue::fill_rows`] and [`Recording::launch`].
    pub fn fill_rows(
        &self,
        queue: &Queue,
        destination: Access<'_>,
        pattern: &[u8],
        row: u64,
        steps: &[Step],
        after: &[Node],
    ) -> Result<Node> {
        if is_empty_region(row, steps) {
            check_fill(row, pattern)?;
            return self.record_nothing(queue, &[empty_access(destination)], after);
        }
        let (fill, access) = check_fill_rows(destination, pattern, row, steps)?;
        let rows = rows_of(0, &access, row, steps, |step| step.destination_stride);
        self.record_data(queue, fill, &[access], rows.as_slice(), after)
    }

    /// Records a copy: see [`Queue::copy`].
    ///
    /// # Errors
    /// As [`Queue::copy`] and [`Recording::launch`].
    pub fn copy(
        &self,
        queue: &Queue,
        source: Access<'_>,
        destination: Access<'_>,
        row: u64,
        steps: &[Step],
        after: &[Node],
    ) -> Result<Node> {
        if is_empty_region(row, steps) {
            return self.record_nothing(queue, &[source, destination].map(empty_access), after);
        }
        let dense = check_copy(&source, &destination, row, steps)?;
        let accesses = [
            Access {
                mode: AccessMode::Read,
                ..source
            },
            write_access(destination, dense),
        ];
        let transfer = Transfer {
            source: Endpoint::Argument(0),
            destination: Endpoint::Argument(1),
            row,
            steps: steps.to_vec(),
        };
        let body = TransferBody::<COPY>(Box::new(transfer));
        let rows = rows_of_copy(&accesses, row, steps);
        self.record_data(queue, body, &accesses, &rows, after)
    }

    /// Records a write of host memory, whose bytes are read as each launch runs: see
    /// [`Queue::write`].
    ///
    /// # Errors
    /// As [`Queue::write`] and [`Recording::launch`].
    ///
    /// # Safety
    /// The requirements of [`HostMemory::new`] hold as long as the graph lives, not only until the
    /// first transfer is over.
    pub unsafe fn write(
        &self,
        queue: &Queue,
        source: HostMemory,
        destination: Access<'_>,
        row: u64,
        steps: &[Step],
        after: &[Node],
    ) -> Result<Node> {
        if is_empty_region(row, steps) {
            return self.record_nothing(queue, &[empty_access(destination)], after);
        }
        let dense = check_region("write", row, steps, source.len() as u64, destination.length)?;
        let accesses = [write_access(destination, dense)];
        let transfer = Transfer {
            source: Endpoint::Host(source),
            destination: Endpoint::Argument(0),
            row,
            steps: steps.to_vec(),
        };
        let body = TransferBody::<WRITE>(Box::new(transfer));
        let rows = rows_of(0, &accesses[0], row, steps, |step| step.destination_stride);
        self.record_data(queue, body, &accesses, rows.as_slice(), after)
    }

    /// Records a command that does nothing in place of one whose accesses have no bytes, which are
    /// checked.
    fn record_nothing(
        &self,
        queue: &Queue,
        accesses: &[Access<'_>],
        after: &[Node],
    ) -> Result<Node> {
        let request = NodeRequest {
            accesses,
            after,
            ..NodeRequest::default()
        };
        crate::process::check()?;
        self.state().check(queue, &request)?;
        let without_accesses = NodeRequest {
            accesses: &[],
            ..request
        };
        self.host_task(queue, |_| Ok(()), &without_accesses)
    }

    fn record_data<B: Body>(
        &self,
        queue: &Queue,
        body: B,
        accesses: &[Access<'_>],
        regions: &[(usize, Region)],
        after: &[Node],
    ) -> Result<Node> {
        let request = NodeRequest {
            accesses,
            regions,
            after,
            ..NodeRequest::default()
        };
        self.record(queue, body, 1, &request)
    }

    /// The steps of an enqueue, as far as they can be done before a launch. The body is a user's:
    /// it is made a command, which may ask for its name, and dropped if it is refused, with nothing
    /// locked.
    fn record<B: Body>(
        &self,
        queue: &Queue,
        body: B,
        groups: u32,
        request: &NodeRequest<'_>,
    ) -> Result<Node> {
        // Another thread may have had the recording locked.
        crate::process::check()?;
        self.state().check(queue, request)?;
        let label = request.label;
        let (slot, id) = construct_recorded(queue.shared(), body, request.accesses, groups, label);
        if !request.regions.is_empty() {
            keep_regions(slot, request.regions);
        }
        let mut new = New { slot: Some(slot) };
        self.state()
            .record(queue, &mut new, id, B::VTABLE.kind, request)
    }

    /// Ends the recording: from here on the graph does not change.
    ///
    /// # Errors
    /// If the commands are more than four thousand million; in a child of `fork`.
    pub fn finish(self) -> Result<Graph> {
        crate::process::check()?;
        let state = self.0.into_inner();
        state.unwrap_or_else(PoisonError::into_inner).finish()
    }
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.try_lock() {
            Ok(state) => write!(f, "recording of {} commands", state.commands.0.len()),
            Err(_) => write!(f, "recording"),
        }
    }
}

impl State {
    /// Orders a command among those that are there. Earlier checks still hold, whatever other
    /// threads have recorded since.
    fn record(
        &mut self,
        queue: &Queue,
        new: &mut New,
        id: EventId,
        kind: crate::Kind,
        request: &NodeRequest<'_>,
    ) -> Result<Node> {
        let lane = self.lane_of(queue);
        let space_of = |access: &Access<'_>| access.memory.space_on(queue.shared().head());
        let range_of = |access: &Access<'_>| access.offset..access.offset + access.length;
        // First, for it may be refused: nothing that is noted below may name a command that is not
        // there.
        for access in request.accesses.iter().filter(|access| access.mode.reads()) {
            self.check_routes(access.memory, &range_of(access), space_of(access))?;
        }
        let options = queue.shared().options();
        let unknown = request.unknown_access && options.in_order;
        let is_unordered = options.hazards.are_within_queue() && !options.in_order;
        self.unknown_access |= request.unknown_access || is_unordered;
        let mut waits = self.take_place(lane, id, kind, unknown, request.after);
        self.wait_for(request.after, &mut waits);
        for (at, access) in request.accesses.iter().enumerate() {
            let space = space_of(access);
            if access.mode.reads() {
                self.bring(access.memory, &range_of(access), space, id)?;
            }
            let draft = self.memories.get_mut(&access.memory.id());
            let draft = draft.expect("made by `check`");
            let mut gather = Gather {
                context: &self.context,
                commands: &mut self.commands,
                all: &mut self.waits,
                waits: &mut waits,
                recording: id,
            };
            let (tracker, mode) = (&mut draft.tracker, access.mode);
            if is_unordered {
                tracker.record_user(access.offset, id, &mut gather);
            } else if let Some(region) = region_of(request.regions, at) {
                tracker.record_rows(region, mode, space, id, &mut gather);
            } else {
                tracker.record(range_of(access), mode, space, id, &mut gather);
            }
        }
        let index = push(&mut self.commands, &mut self.waits, new.keep(), waits);
        Ok(Node {
            recording: self.id,
            index,
        })
    }

    fn check(&mut self, queue: &Queue, request: &NodeRequest<'_>) -> Result<()> {
        const WHAT: &str = "record a command";
        let wrong =
            |object| -> Result<()> { Err(ErrorKind::WrongContext { what: WHAT, object }.into()) };
        let context = queue.shared().context();
        if !context.is_some_and(|context| Arc::ptr_eq(&context, &self.context)) {
            return wrong(Foreign::Queue(format!("{:?}", queue.shared())));
        }
        queue.shared().check_lost()?;
        if let Some(node) = request.after.iter().find(|n| n.recording != self.id) {
            return Err(ErrorKind::InvalidArgument {
                what: WHAT,
                problem: format!(
                    "it is to wait for command {} of another recording; wait for commands of its \
                     own, and let the launch wait for events from outside",
                    node.index
                ),
            }
            .into());
        }
        if request.accesses.len() > usize::from(u8::MAX) {
            return Err(ErrorKind::InvalidArgument {
                what: WHAT,
                problem: format!(
                    "{} accesses; a command takes at most 255, so combine buffers",
                    request.accesses.len()
                ),
            }
            .into());
        }
        let place = |at: usize| (request.accesses.len() > 1).then_some(at);
        for (at, access) in request.accesses.iter().enumerate() {
            let memory = access.memory;
            if memory.context_id() != self.context.id() {
                return wrong(Foreign::Buffer(memory.name(place(at))));
            }
            let checked = memory.check(WHAT, access.offset, access.length);
            if checked.map_err(|error| error.with_argument(|_| place(at)))? {
                return Err(has_content_size(WHAT, &memory.label()));
            }
        }
        check_regions(request.accesses, request.regions)?;
        for access in request.accesses {
            self.memories
                .entry(access.memory.id())
                .or_insert_with(|| Draft::new(access.memory.handle()));
        }
        Ok(())
    }

    fn lane_of(&mut self, queue: &Queue) -> usize {
        let known = self.lanes.iter();
        let mut known = known.map(|lane| std::ptr::from_ref(lane.queue.shared()));
        known
            .position(|lane| std::ptr::eq(lane, queue.shared()))
            .unwrap_or_else(|| {
                self.lanes.push(Lane {
                    queue: queue.clone(),
                    all: Vec::new(),
                    gate: None,
                });
                self.lanes.len() - 1
            })
    }

    /// Gives the command its place in its queue's order: its waits because of markers and barriers.
    fn take_place(
        &mut self,
        lane: usize,
        id: EventId,
        kind: crate::Kind,
        unknown: bool,
        after: &[Node],
    ) -> Vec<(EventId, bool)> {
        let lane = &mut self.lanes[lane];
        let barrier = unknown || kind == crate::Kind::Barrier;
        let marks = barrier || kind == crate::Kind::Marker;
        let full = unknown || (marks && after.is_empty());
        let mut waits: Vec<_> = lane.gate.iter().map(|gate| (*gate, false)).collect();
        if full {
            waits.extend(lane.all.drain(..).map(|event| (event, false)));
        }
        lane.all.push(id);
        if barrier {
            lane.gate = Some(id);
        }
        waits
    }

    /// Explicit waits. A long list that comes again is joined once, as an enqueue does it.
    fn wait_for(&mut self, after: &[Node], waits: &mut Vec<(EventId, bool)>) {
        let events: Vec<(EventId, bool)> = after
            .iter()
            .map(|node| (id_of(self.commands.0[node.index as usize].slot), true))
            .collect();
        let by_device = || {
            after.iter().any(|node| {
                // SAFETY: a slot of this recording.
                flags_of(unsafe { self.commands.0[node.index as usize].slot.as_ref() }) != 0
            })
        };
        let few = after.len() < JOIN_WAITS || (after.len() <= JOIN_DOMAIN_WAITS && by_device());
        if few {
            waits.extend(events);
            return;
        }
        let joined = match &self.joined {
            Some((list, event)) if list == after => *event,
            _ => {
                let internal = self.context.internal_queue().shared();
                let (slot, id) = construct_recorded(internal, MarkerBody(()), &[], 1, None);
                push(&mut self.commands, &mut self.waits, slot, events);
                self.joined = Some((after.to_vec(), id));
                id
            }
        };
        waits.push((joined, true));
    }

    /// Checks that a device can bring the bytes to `space`, as [`bring`](Self::bring) has it do.
    fn check_routes(
        &self,
        memory: &Memory,
        range: &std::ops::Range<u64>,
        space: SpaceId,
    ) -> Result<()> {
        let draft = self.memories.get(&memory.id());
        let draft = draft.expect("made by `check`");
        let missing = draft.tracker.missing(range, space, None);
        let mut hops = missing.iter().flat_map(|missing| route(missing, space));
        hops.try_for_each(|hop| self.transfer_queue(&hop).map(drop))
    }

    fn transfer_queue(&self, hop: &Hop) -> Result<Queue> {
        self.context.transfer_queue(hop.by).ok_or_else(|| {
            ErrorKind::DeviceLost {
                device: format!("{:?}", hop.by),
                reason: "no device of the context works in that memory space".to_owned(),
            }
            .into()
        })
    }

    /// Has the bytes in `space` when the next command needs them: as the launch starts, or by
    /// migrations between the graph's commands.
    fn bring(
        &mut self,
        memory: &Memory,
        range: &std::ops::Range<u64>,
        space: SpaceId,
        recording: EventId,
    ) -> Result<()> {
        let draft = self.memories.get_mut(&memory.id());
        let draft = draft.expect("made by `check`");
        draft.needs(range, space);
        for missing in draft.tracker.missing(range, space, None) {
            for hop in route(&missing, space) {
                self.bring_leg(memory, &missing, &hop, recording)?;
            }
        }
        Ok(())
    }

    fn bring_leg(
        &mut self,
        memory: &Memory,
        missing: &Missing,
        hop: &Hop,
        recording: EventId,
    ) -> Result<()> {
        let queue = self.transfer_queue(hop)?;
        let accesses = [Access {
            memory,
            offset: missing.range.start,
            length: missing.range.end - missing.range.start,
            mode: AccessMode::Read,
        }];
        let body = Migration {
            from: hop.from,
            to: hop.to,
            content: None,
        };
        let (slot, id) = construct_recorded(queue.shared(), body, &accesses, 1, Some(hop.label()));
        self.lane_of(&queue);
        let mut waits = Vec::new();
        let draft = self.memories.get_mut(&memory.id());
        let tracker = &mut draft.expect("made by `check`").tracker;
        let mut gather = Gather {
            context: &self.context,
            commands: &mut self.commands,
            all: &mut self.waits,
            waits: &mut waits,
            recording,
        };
        tracker.migrate(&missing.range, hop.from, hop.to, None, id, &mut gather);
        push(&mut self.commands, &mut self.waits, slot, waits);
        Ok(())
    }

    /// See [`Recording::finish`].
    fn finish(mut self) -> Result<Graph> {
        let internal = self.context.internal_queue().clone();
        let (end, _) = construct_recorded(internal.shared(), MarkerBody(()), &[], 1, None);
        let mut waited_for = vec![false; self.commands.0.len()];
        for (index, waits) in (0_u32..).zip(self.waits.drain(..)) {
            let edges = edges_of(waits, index);
            for edge in &edges {
                waited_for[edge.command as usize] = true;
            }
            self.commands.0[index as usize].edges = edges;
        }
        let edges = (0_u32..).zip(&waited_for).filter(|(_, waited)| !**waited);
        let edges = edges.map(|(command, _)| Edge {
            command,
            propagates: false,
        });
        let edges: Box<[Edge]> = edges.collect();
        let end_index = push(&mut self.commands, &mut self.waits, end, Vec::new());
        self.commands.0[end_index as usize].edges = edges;

        let roots = (0_u32..).zip(&self.commands.0);
        let roots = roots.filter(|(_, recorded)| recorded.edges.is_empty());
        let mut roots: Box<[u32]> = roots.map(|(index, _)| index).collect();
        // As those come that one event makes ready.
        roots.reverse();
        let renewed = (0..end_index).filter(|index| {
            // SAFETY: a slot of this recording.
            let s = unsafe { self.commands.0[*index as usize].slot.as_ref() };
            s.times().is_some() || flags_of(s) != 0
        });
        let mut footprints: Vec<_> = self.memories.into_values().map(Draft::finish).collect();
        // In the order in which trackers are locked.
        footprints.sort_unstable_by_key(|footprint| std::ptr::from_ref(&*footprint.memory).addr());
        let surroundings = Surroundings {
            footprints: footprints.into(),
            unknown_access: self.unknown_access,
            last: Mutex::new(None),
            queues: self.lanes.into_iter().map(|lane| lane.queue).collect(),
            context: self.context,
        };
        let graph = Arc::new(Shared {
            end: end_index,
            roots,
            renewed: renewed.collect(),
            commands: self.commands,
            taken: OnceLock::new(),
            launch: AtomicPtr::new(std::ptr::null_mut()),
            failure: Mutex::new(None),
            surroundings: Box::new(surroundings),
        });
        register(&graph);
        let graph = Graph(graph);
        offer(&graph);
        Ok(graph)
    }
}

fn id_of(slot: NonNull<Slot>) -> EventId {
    // SAFETY: a slot of a recording.
    EventId::new(slot, unsafe { slot.as_ref() }.notify.generation())
}

/// Adds a command; gives its number.
fn push(
    commands: &mut Commands,
    all: &mut Vec<Vec<(EventId, bool)>>,
    slot: NonNull<Slot>,
    waits: Vec<(EventId, bool)>,
) -> u32 {
    // SAFETY: under construction by this thread.
    let s = unsafe { slot.as_ref() };
    // As many fit in memory.
    let index = commands.0.len() as u32;
    // Until it has its place, this is how others find its number.
    s.sequence.set(u64::from(index));
    commands.0.push(Recorded {
        slot,
        work: s.work.load(Ordering::Relaxed),
        edges: Box::default(),
        generation: s.notify.generation(),
    });
    all.push(waits);
    index
}

/// Each command waited for once, in order: those of the command numbered `before`.
fn edges_of(waits: Vec<(EventId, bool)>, before: u32) -> Box<[Edge]> {
    let edges = waits.into_iter().filter_map(|(event, propagates)| {
        // Of this recording: `push` has set the number.
        let command = event.slot()?.sequence() as u32;
        debug_assert!(command < before, "a command waits for earlier ones only");
        Some(Edge {
            command,
            propagates,
        })
    });
    let mut edges: Vec<Edge> = edges.collect();
    edges.sort_unstable_by_key(|edge| edge.command);
    edges.dedup_by(|again, first| {
        let same = again.command == first.command;
        first.propagates |= same && again.propagates;
        same
    });
    edges.into()
}

/// The flags of the command's state word besides its waits.
fn flags_of(s: &Slot) -> u32 {
    // SAFETY: the recording keeps handles of its queues.
    let queue = s.queue.get().map(|place| unsafe { place.in_use() });
    let needs_no_device = s.vtable.get().is_some_and(|vtable| vtable.needs_no_device);
    if queue.and_then(QueueShared::domain).is_some() && !needs_no_device {
        WANT_EACH
    } else {
        0
    }
}

/// Makes the notify lists, and gives each command its place.
fn register(graph: &Arc<Shared>) {
    let commands = &graph.commands.0;
    for (index, recorded) in (0_u32..).zip(commands) {
        // SAFETY: a slot of this recording, not launched yet.
        let s = unsafe { recorded.slot.as_ref() };
        let flags = flags_of(s);
        let edges = recorded.edges.iter();
        let waits =
            edges.map(|edge| (id_of(commands[edge.command as usize].slot), edge.propagates));
        register_recorded(recorded.slot, waits, flags);
        // A root waits for the launch.
        let count = recorded.edges.len().max(1) as u32;
        s.state.start(count, flags);
        s.set_place(Arc::as_ptr(graph), index, count | flags);
    }
}

/// Lets the driver take the graph as one, if all commands are its own.
fn offer(graph: &Graph) {
    let mut drivers: Vec<Arc<dyn Driver>> = Vec::new();
    graph.for_each_command(|command, _| {
        let driver = command.queue().driver();
        if !command.needs_no_device() && !drivers.iter().any(|known| Arc::ptr_eq(known, driver)) {
            drivers.push(driver.clone());
        }
    });
    if let [driver] = &drivers[..]
        && let Some(made) = driver.take_graph(graph)
    {
        let taken = Taken {
            driver: driver.clone(),
            made: ManuallyDrop::new(made),
        };
        let _ = graph.0.taken.set(taken);
    }
}

/// A slot that no recording has yet.
struct New {
    slot: Option<NonNull<Slot>>,
}

impl New {
    fn keep(&mut self) -> NonNull<Slot> {
        self.slot.take().expect("kept once")
    }
}

impl Drop for New {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            drop(Commands(vec![Recorded {
                slot,
                work: 0,
                edges: Box::default(),
                generation: 0,
            }]));
        }
    }
}

/// Gathers the waits of a command of a recording.
struct Gather<'a> {
    context: &'a Arc<ContextShared>,
    commands: &'a mut Commands,
    all: &'a mut Vec<Vec<(EventId, bool)>>,
    waits: &'a mut Vec<(EventId, bool)>,
    /// The command for whose sake something is recorded.
    recording: EventId,
}

impl Recorder for Gather<'_> {
    fn wait(&mut self, event: EventId, propagate: bool) {
        self.waits.push((event, propagate));
    }

    fn poisoned(&mut self, _: &Error) {
        // Nothing has failed in a recording.
    }

    fn discard(&mut self, error: Error) {
        // For the same reason there is none. The tracker is the recording's own, and locked by
        // nobody.
        drop(error);
    }

    fn recording(&self) -> EventId {
        self.recording
    }

    fn join(&mut self, events: &[EventId]) -> EventId {
        let queue = self.context.internal_queue().shared();
        let (slot, id) = construct_recorded(queue, MarkerBody(()), &[], 1, None);
        let waits = events.iter().map(|event| (*event, false)).collect();
        push(self.commands, self.all, slot, waits);
        id
    }
}

// SAFETY: slots under construction are owned by their recording.
unsafe impl Send for State {}
