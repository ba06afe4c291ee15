//! The enqueue: from what a front end asks for to a command that its driver
//! will run.
//!
//! In order, and why in this order:
//!
//! 1. Everything is checked first: a refused command leaves no trace.
//! 2. A slot is taken and the body written.
//! 3. The command takes its number in the queue (after that, barriers count it).
//!    Explicit waits and the gate are gathered.
//! 4. The trackers of all its memory are locked together, by address, so that
//!    two threads that enqueue (x, y) and (y, x) cannot wait for each other.
//! 5. Its notify list is opened: from now on others may wait for it.
//! 6. Each access is recorded; hazards are gathered; bytes that are missing in
//!    the device's space become migrations, which are recorded before it.
//! 7. A driver with a sync domain is told. What was gathered is counted and
//!    registered, with the trackers still locked: a writer that fails has to
//!    lock them to say so before it is over. From here on others may run the
//!    command.
//! 8. The trackers are unlocked; whoever resolves the last wait hands the
//!    command over.

use super::progress::Watcher;
use super::{Barrier, Priority, Queue, QueueShared, UNKNOWN, lock};
use crate::access::{Access, Argument};
use crate::command::notify::{Closed, Tag};
use crate::command::slot::{
    Extension, INLINE_ARGUMENTS, INLINE_EDGES, Kind, OverflowEdge, Phase, Slot, Times,
};
use crate::command::state::{POISONED, Resolved, WANT_EACH};
use crate::command::{Command, EventId, dispatch, log, notify_each, poison, slab};
use crate::context::ContextShared;
use crate::driver::{DomainWait, Held, Submission};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::memory::tracker::Recorder;
use crate::memory::{Memory, SpaceId, TrackerGuard};
use crate::operation::{Body, Migration};
use smallvec::SmallVec;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What to enqueue besides the body.
#[derive(Clone, Copy, Default)]
pub struct Request<'a> {
    /// What it touches, in the order in which the body knows its arguments.
    pub accesses: &'a [Access<'a>],
    /// Events it waits for.
    pub waits: &'a [Event],
    /// True if it may touch anything: a full barrier of an in-order queue.
    pub unknown_access: bool,
    /// A label for logs and traces.
    pub label: Option<&'a str>,
}

/// Wait lists from this length on are joined into one marker, which the next
/// command with the same list shares: n by n dependencies cost n, not n².
const JOIN_WAITS: usize = 8;

/// A list of commands that the device can wait for by itself is joined only if
/// it is longer than this. A marker ends on the host, so the device would have
/// to be told by it: that takes longer than so many edges cost, and the device
/// stands still meanwhile. Much longer lists cost more than that each time they
/// come again. Readers of a buffer are joined at the same length.
const JOIN_DOMAIN_WAITS: usize = 64;

/// A command under construction: what it waits for is gathered here, and
/// registered at the end. Kept small: whatever is written here has to reach the
/// cache before the next locked instruction can go on.
struct Waits<'a> {
    slot: NonNull<Slot>,
    s: &'a Slot,
    context: Option<&'a Arc<ContextShared>>,
    /// Events that were not over, with whether their failure is ours.
    gathered: [Gathered; GATHERED],
    count: usize,
    rare: Option<Box<Rare<'a>>>,
}

/// Waits that need no list of their own.
const GATHERED: usize = 4;

/// What few commands need while under construction.
#[derive(Default)]
struct Rare<'a> {
    /// What was gathered, once it is more than fits.
    gathered: Vec<Gathered>,
    poison: Option<Error>,
    /// Also waits for all commands with numbers below this.
    prefix: Option<(&'static QueueShared, u64)>,
    /// Helpers that were made meanwhile and are ready: handed over after the
    /// trackers are unlocked.
    ready: Vec<Command>,
    /// Waits that were over when they were to be registered, and that a driver
    /// wants to hear of.
    late: Vec<EventId>,
    /// Migrations made for this command that have something to settle.
    legs: Vec<(Waits<'a>, EventId)>,
}

/// An event's number, whose lowest bit says whether its failure propagates.
#[derive(Clone, Copy)]
struct Gathered(u64);

impl Gathered {
    #[inline]
    fn new(event: EventId, propagate: bool) -> Self {
        Self(event.number() | u64::from(propagate))
    }

    #[inline]
    fn event(self) -> EventId {
        EventId::from_number(self.0 & !1)
    }

    #[inline]
    fn propagates(self) -> bool {
        self.0 & 1 != 0
    }
}

impl<'a> Waits<'a> {
    #[inline]
    fn new(slot: NonNull<Slot>) -> Self {
        Self {
            slot,
            // SAFETY: the slot is taken and under construction by this thread.
            s: unsafe { slot.as_ref() },
            context: None,
            gathered: [Gathered(0); GATHERED],
            count: 0,
            rare: None,
        }
    }

    /// Everything gathered.
    #[inline]
    fn gathered(&self) -> &[Gathered] {
        if self.count <= GATHERED {
            &self.gathered[..self.count]
        } else {
            self.rare.as_ref().map_or(&[], |rare| &rare.gathered)
        }
    }

    #[inline]
    fn gather(&mut self, wait: Gathered) {
        if let Some(place) = self.gathered.get_mut(self.count) {
            *place = wait;
        } else {
            self.gather_more(wait);
        }
        self.count += 1;
    }

    #[cold]
    fn gather_more(&mut self, wait: Gathered) {
        let few = self.gathered;
        let rare = self.rare();
        if rare.gathered.is_empty() {
            rare.gathered.extend(few);
        }
        rare.gathered.push(wait);
    }

    /// The wait gathered last.
    #[inline]
    fn last_gathered(&mut self) -> Option<&mut Gathered> {
        if self.count <= GATHERED {
            self.gathered[..self.count].last_mut()
        } else {
            self.rare.as_mut()?.gathered.last_mut()
        }
    }

    #[cold]
    fn rare(&mut self) -> &mut Rare<'a> {
        self.rare.get_or_insert_default()
    }

    /// Gathers an event; says how it ended if it is over.
    #[inline]
    fn add(&mut self, event: EventId, propagate: bool) -> Option<Closed> {
        // Often the same command used several of our buffers before.
        if let Some(last) = self.last_gathered()
            && last.event() == event
        {
            last.0 |= u64::from(propagate);
            return None;
        }
        // Often it is over: one look at its line.
        let closed = event.slot()?.notify.closed(event.generation());
        if closed.is_none() {
            self.gather(Gathered::new(event, propagate));
        }
        closed
    }

    /// Gathers an explicit wait: a failure is this command's, also an earlier
    /// one.
    #[inline]
    fn add_event(&mut self, event: &Event) {
        if self.add(event.id(), true) == Some(Closed::Failed)
            && let Some(error) = event.failure()
        {
            self.rare().poison.get_or_insert(error.for_dependant());
        }
    }

    /// Registers everything gathered but the prefix, and so ends construction.
    /// Gives the command if it is ready; else, unless there is a prefix, or the
    /// driver wants to hear of what was over by now ([`Waits::settle`]),
    /// somebody else may have run it already.
    #[inline]
    fn register(&mut self, flags: u32) -> Option<Command> {
        self.count(flags);
        self.push(flags)
    }

    /// The first half of [`Waits::register`]: counts what was gathered. From
    /// here on the command's state says whether it must not run.
    #[inline]
    fn count(&mut self, flags: u32) {
        let mut flags = flags;
        // Bounded by what fits in memory: an edge takes 8 bytes.
        let mut count = self.count as u32;
        if let Some(rare) = &mut self.rare {
            if let Some(cause) = rare.poison.take() {
                self.s.work.store(cause.into_raw(), Ordering::Relaxed);
                flags |= POISONED;
            }
            count += u32::from(rare.prefix.is_some());
        }
        self.s.state.start(count, flags);
    }

    #[inline]
    fn has_prefix(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.prefix.is_some())
    }

    /// The second half of [`Waits::register`]: pushes the edges.
    #[inline]
    fn push(&mut self, flags: u32) -> Option<Command> {
        if self.count == 0 && !self.has_prefix() {
            return Some(Command::from_slot(self.slot));
        }
        let mut over = 0;
        let overflow = if self.count > INLINE_EDGES {
            self.overflow_edges()
        } else {
            std::ptr::null()
        };
        for index in 0..self.count {
            let wait = self.gathered()[index];
            let (word, tag) = match self.s.edges.get(index) {
                Some(edge) if wait.propagates() => (&raw const *edge, Tag::Propagate),
                Some(edge) => (&raw const *edge, Tag::Order),
                None => {
                    // SAFETY: as many were made as do not fit inline.
                    let edge = unsafe { &(*overflow.add(index - INLINE_EDGES)).next };
                    let tag = if wait.propagates() {
                        Tag::OverflowPropagate
                    } else {
                        Tag::OverflowOrder
                    };
                    (&raw const *edge, tag)
                }
            };
            let event = wait.event();
            let target = event.slot().expect("only events with a slot are gathered");
            // SAFETY: the edge lives until this wait is resolved.
            if let Err(closed) = unsafe { target.notify.push(event.generation(), word, tag) } {
                if flags & WANT_EACH != 0 {
                    self.rare.get_or_insert_default().late.push(event);
                } else {
                    over += 1;
                }
                if closed == Closed::Failed && wait.propagates() {
                    // Of hazards the tracker's lock is still held, so a failed
                    // writer has not closed its list; of explicit waits the
                    // caller holds the event.
                    // SAFETY: closed as failed, and held.
                    poison(self.s, || unsafe { target.error() }.for_dependant());
                }
            }
        }
        (over != 0 && self.s.state.resolve_many(over) == Resolved::Last)
            .then(|| Command::from_slot(self.slot))
    }

    /// What must not be done while trackers are locked: watches the prefix, and
    /// tells the driver of waits that were over by the time they were to be
    /// registered. Gives the command if that makes it ready.
    #[cold]
    fn settle(&mut self, id: EventId) -> Option<Command> {
        let rare = self.rare();
        let late = std::mem::take(&mut rare.late);
        let prefix = rare.prefix.take();
        // The queue is read before the last wait is resolved.
        let queue = self.s.queue.get();
        let mut owned = None;
        let mut resolve = |event: EventId| match self.s.state.resolve() {
            Resolved::Last => owned = Some(Command::from_slot(self.slot)),
            Resolved::Each => notify_each(queue, id, event),
            Resolved::One => {}
        };
        for event in late {
            resolve(event);
        }
        if let Some((watched, end)) = prefix
            && watched.watch(end, Watcher::Command(self.slot)).is_err()
        {
            resolve(EventId::NONE);
        }
        owned
    }

    /// Hands over what was made for this command on the way.
    #[cold]
    fn release_helpers(&mut self) {
        let rare = self.rare();
        let legs = std::mem::take(&mut rare.legs);
        for ready in std::mem::take(&mut rare.ready) {
            dispatch(ready);
        }
        for (mut leg, id) in legs {
            leg.settle(id).into_iter().for_each(dispatch);
        }
    }

    /// True if there is something to settle: then the command is still ours.
    #[inline]
    fn is_unsettled(&self) -> bool {
        self.rare
            .as_ref()
            .is_some_and(|rare| rare.prefix.is_some() || !rare.late.is_empty())
    }

    #[cold]
    fn overflow_edges(&self) -> *const OverflowEdge {
        let dependant = self.slot;
        let block: Box<[OverflowEdge]> = (INLINE_EDGES..self.count)
            .map(|_| OverflowEdge {
                next: AtomicU64::new(0),
                dependant,
            })
            .collect();
        let first = block.as_ptr();
        // SAFETY: under construction by this thread.
        unsafe { self.s.extend() }.edges = block;
        first
    }

    /// Of what was gathered, the commands of the device's own sync domain.
    #[cold]
    fn of_domain(&self, domain: u64) -> SmallVec<[DomainWait; 4]> {
        let in_domain = |wait: &Gathered| {
            is_of_domain(wait.event(), domain).then_some(DomainWait {
                event: wait.event(),
                propagates: wait.propagates(),
            })
        };
        self.gathered().iter().filter_map(in_domain).collect()
    }

    #[cold]
    fn trace(&self) {
        if let Some(times) = self.s.times() {
            *lock(&times.waits) = self
                .gathered()
                .iter()
                .filter_map(|wait| crate::tracing_records::number_of(wait.event()))
                .collect();
        }
    }
}

/// True if the event is that of a command that devices of this domain can wait
/// for by themselves.
fn is_of_domain(event: EventId, domain: u64) -> bool {
    let Some(slot) = event.slot() else {
        return false;
    };
    // SAFETY: queues are never freed. If the event is over meanwhile, this may
    // be another command's queue: then the wait is resolved and the driver
    // ignores it.
    let queue = unsafe { slot.queue.get().as_ref() };
    queue.is_some_and(|queue| queue.try_domain() == Some(domain))
        && slot
            .vtable
            .get()
            .is_some_and(|vtable| !matches!(vtable.kind, Kind::Marker | Kind::Barrier))
}

impl Recorder for Waits<'_> {
    #[inline]
    fn wait(&mut self, event: EventId, propagate: bool) {
        // If it is over and failed, its poison is in the tracker.
        let _ = self.add(event, propagate);
    }

    #[cold]
    fn poisoned(&mut self, cause: &Error) {
        self.rare().poison.get_or_insert(cause.clone());
    }

    #[cold]
    fn join(&mut self, events: &[EventId]) -> EventId {
        let Some(context) = self.context else {
            return EventId::NONE;
        };
        let (id, ready) = marker(context.internal_queue(), (), |waits| {
            for event in events {
                waits.wait(*event, false);
            }
        });
        self.rare().ready.extend(ready);
        id
    }
}

/// Takes a slot and writes a body into it. The command is under construction,
/// held by one reference.
#[inline]
fn construct<B: Body>(
    queue: &'static QueueShared,
    body: B,
    accesses: &[Access<'_>],
    groups: u32,
    timed: bool,
    in_order: bool,
    label: Option<&str>,
) -> NonNull<Slot> {
    assert!(
        B::fits(accesses.len()),
        "a body that does not fit is boxed by its maker"
    );
    let slot = slab::take();
    // SAFETY: the slot was just taken.
    let s = unsafe { slot.as_ref() };
    s.references.store(1, Ordering::Relaxed);
    s.vtable.set(Some(B::VTABLE));
    s.queue.set(queue);
    s.done.set(std::ptr::null());
    s.work.store(u64::from(groups) << 32, Ordering::Relaxed);
    s.set_small(Phase::Queued, accesses.len() as u8, in_order);
    if accesses.len() <= INLINE_ARGUMENTS {
        let arguments = s.payload.get().cast::<Argument>();
        for (index, access) in accesses.iter().enumerate() {
            // SAFETY: within the payload of a slot under construction.
            unsafe { arguments.add(index).write(Argument::new(access)) };
        }
    } else {
        // SAFETY: under construction by this thread.
        unsafe { s.extend() }.arguments = Some(accesses.iter().map(Argument::new).collect());
    }
    // SAFETY: the body fits, as asserted, behind the arguments.
    unsafe { s.state_pointer().cast::<B>().write(body) };
    if timed || label.is_some() || log::is_wanted() {
        decorate(slot, timed, label);
    }
    slot
}

#[cold]
fn decorate(slot: NonNull<Slot>, timed: bool, label: Option<&str>) {
    // SAFETY: under construction by this thread.
    let s = unsafe { slot.as_ref() };
    let id = id_of(slot);
    // SAFETY: the arguments were just written, and the payload is intact.
    let lengths = unsafe { s.arguments() }.iter().map(|a| a.length());
    let transfer = s
        .vtable
        .get()
        .is_some_and(|vtable| vtable.kind == Kind::Copy);
    let bytes = if transfer {
        lengths.max().unwrap_or(0)
    } else {
        lengths.sum()
    };
    let name = match s.vtable.get() {
        // SAFETY: the state was just written.
        Some(vtable) => unsafe { (vtable.name)(s.state_pointer()) },
        None => "",
    };
    let logged = log::is_wanted() && {
        let groups = (s.work.load(Ordering::Relaxed) >> 32) as u32;
        log::enqueued(s, id, label.unwrap_or(name), groups, bytes)
    };
    if !(timed || label.is_some() || logged) {
        return;
    }
    // SAFETY: under construction by this thread.
    let extension: &mut Extension = unsafe { s.extend() };
    extension.logged = logged;
    if timed {
        let times = Times {
            number: crate::tracing_records::number(id),
            name,
            bytes,
            ..Times::default()
        };
        times
            .queued
            .store(crate::clock::now_ns(), Ordering::Relaxed);
        extension.times = Some(Box::new(times));
    }
    extension.label = label.map(Arc::from);
}

/// The id that the command under construction will have.
#[inline]
fn id_of(slot: NonNull<Slot>) -> EventId {
    // SAFETY: under construction by this thread.
    EventId::new(slot, unsafe { slot.as_ref() }.notify.generation() + 1)
}

#[inline]
fn open(slot: NonNull<Slot>, id: EventId) {
    // SAFETY: under construction by this thread.
    unsafe { slot.as_ref() }.notify.open(id.generation());
}

/// A marker on a context's own queue, which waits for what `add` says. Gives
/// its id, and the command if it is ready at once: to be handed over when no
/// tracker is locked.
fn marker<T: Send>(
    queue: &Queue,
    keep: T,
    add: impl FnOnce(&mut Waits<'_>),
) -> (EventId, Option<Command>) {
    let slot = construct_marker(queue.shared(), keep);
    let id = id_of(slot);
    let mut waits = Waits::new(slot);
    open(slot, id);
    add(&mut waits);
    (id, waits.register(0))
}

fn construct_marker<T: Send>(queue: &'static QueueShared, keep: T) -> NonNull<Slot> {
    let slot = construct(
        queue,
        crate::operation::MarkerBody(Box::new(keep)),
        &[],
        1,
        false,
        false,
        None,
    );
    // SAFETY: under construction by this thread.
    unsafe { slot.as_ref() }.take_number(queue);
    slot
}

/// Drops `keep` when every event in `after` is over. Needs no device.
pub(crate) fn drop_after<T: Send>(queue: &Queue, keep: T, after: &[EventId]) {
    let (_, ready) = marker(queue, keep, |waits| {
        for event in after {
            waits.wait(*event, false);
        }
    });
    ready.into_iter().for_each(dispatch);
}

/// The trackers of all accesses, locked together, each once, by address.
enum Locked<'a> {
    None,
    One(&'a Memory),
    Two(&'a Memory, &'a Memory),
    Many(Vec<&'a Memory>),
}

impl<'a> Locked<'a> {
    #[inline]
    fn lock(accesses: &[Access<'a>]) -> Self {
        match accesses {
            [] => Self::None,
            [one] => {
                one.memory.lock_tracker();
                Self::One(one.memory)
            }
            [a, b] if std::ptr::eq(a.memory, b.memory) => {
                a.memory.lock_tracker();
                Self::One(a.memory)
            }
            [a, b] => {
                let (mut first, mut second) = (a.memory, b.memory);
                if std::ptr::from_ref(first) > std::ptr::from_ref(second) {
                    std::mem::swap(&mut first, &mut second);
                }
                first.lock_tracker();
                second.lock_tracker();
                Self::Two(first, second)
            }
            _ => Self::lock_many(accesses),
        }
    }

    fn lock_many(accesses: &[Access<'a>]) -> Self {
        let mut memories: Vec<&'a Memory> = accesses.iter().map(|access| access.memory).collect();
        memories.sort_unstable_by_key(|memory| std::ptr::from_ref(*memory).addr());
        memories.dedup_by(|a, b| std::ptr::eq(*a, *b));
        for memory in &memories {
            memory.lock_tracker();
        }
        Self::Many(memories)
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: (all) locked by `lock`; the guard unlocks as it is dropped.
        let unlock = |memory: &Memory| drop(unsafe { memory.locked_tracker() });
        match self {
            Self::None => {}
            Self::One(one) => unlock(one),
            Self::Two(first, second) => {
                unlock(second);
                unlock(first);
            }
            Self::Many(memories) => memories.iter().for_each(|memory| unlock(memory)),
        }
    }
}

impl Queue {
    /// Enqueues a command and gives its event.
    ///
    /// # Errors
    /// If an access is out of bounds or mapped, belongs to another context, or
    /// the device or context is lost. Nothing is enqueued then.
    #[inline]
    pub(crate) fn enqueue<B: Body>(
        &self,
        body: B,
        groups: u32,
        request: &Request<'_>,
    ) -> Result<Event> {
        let event = self
            .enqueue_command(body, groups, request, true)?
            .expect("an event was asked for");
        if self.shared().options().blocking {
            event.wait_over()?;
        }
        Ok(event)
    }

    /// Enqueues a command one-way: no event, the least cost.
    ///
    /// # Errors
    /// As [`Queue::enqueue`].
    #[inline]
    pub(crate) fn post<B: Body>(&self, body: B, groups: u32, request: &Request<'_>) -> Result<()> {
        if self.shared().options().blocking {
            return self.enqueue(body, groups, request).map(drop);
        }
        self.enqueue_command(body, groups, request, false).map(drop)
    }

    #[inline]
    fn enqueue_command<B: Body>(
        &self,
        body: B,
        groups: u32,
        request: &Request<'_>,
        want_event: bool,
    ) -> Result<Option<Event>> {
        let queue = self.shared();
        let qbody = queue.body();
        self.check(qbody, request)?;
        let unknown = request.unknown_access && qbody.options.in_order;
        let barrier = unknown || matches!(B::VTABLE.kind, Kind::Barrier);
        let prefix =
            barrier || (matches!(B::VTABLE.kind, Kind::Marker) && request.waits.is_empty());

        let slot = construct(
            queue,
            body,
            request.accesses,
            groups,
            qbody.timed,
            qbody.options.in_order,
            request.label,
        );
        let id = id_of(slot);
        // What few commands need is dropped below, out of the others' way.
        let mut waits = ManuallyDrop::new(Waits::new(slot));
        let s = waits.s;
        if want_event {
            s.references.store(2, Ordering::Relaxed);
        }
        if barrier {
            let full = unknown || request.waits.is_empty();
            self.take_number_as_barrier(&mut waits, id, full);
        } else {
            let sequence = s.take_number(queue);
            if queue.gate.id.load(Ordering::SeqCst) != 0 {
                self.wait_for_gate(&mut waits, sequence);
            }
            if prefix {
                waits.rare().prefix = Some((queue, sequence));
            }
        }
        if !request.waits.is_empty() {
            self.wait_for_events(&mut waits, request.waits);
        }

        let locked = Locked::lock(request.accesses);
        if !barrier {
            open(slot, id);
        }
        if !request.accesses.is_empty() {
            if let super::ContextLink::Counted(context) = &qbody.context {
                waits.context = Some(context);
            }
            for access in request.accesses {
                // SAFETY: locked by `locked`; not dropped, so not unlocked.
                let mut tracker = ManuallyDrop::new(unsafe { access.memory.locked_tracker() });
                let range = access.offset..access.offset + access.length;
                if tracker.enter(qbody.space) && access.mode.reads() {
                    self.migrate(&mut waits, access, &mut tracker, qbody.space);
                }
                tracker.record(range, access.mode, qbody.space, id, &mut *waits);
            }
        }
        let event = want_event.then(|| Event::from_slot(slot));
        // From here on the command may be run and freed by others; with a sync
        // domain, not before its driver has been told.
        let command = if qbody.timed || qbody.domain.is_some() {
            self.register_slowly(&mut waits, qbody, id)
        } else {
            waits.register(0)
        };
        drop(locked);
        let command = if waits.rare.is_some() {
            finish_rare(ManuallyDrop::into_inner(waits), id, command)
        } else {
            command
        };
        if let Some(command) = command {
            hand_over(queue, command);
        }
        Ok(event)
    }

    /// Registers a traced command, or one whose driver has a sync domain.
    #[cold]
    fn register_slowly(
        &self,
        waits: &mut Waits<'_>,
        body: &super::Body,
        id: EventId,
    ) -> Option<Command> {
        if crate::trace::enabled() {
            waits.trace();
        }
        let Some(domain) = body.domain else {
            return waits.register(0);
        };
        let queue = self.shared();
        let domain_waits = waits.of_domain(domain);
        let all = waits.count + usize::from(waits.has_prefix());
        // Before the driver is told: its device may start the command at once,
        // and looks at the state to see whether it may.
        waits.count(WANT_EACH);
        {
            let command = ManuallyDrop::new(Command::from_slot(waits.slot));
            body.driver.submit(Submission {
                id,
                queue,
                command: Held::new(&command),
                domain_waits: &domain_waits,
                host_waits: (all - domain_waits.len()) as u32,
            });
        }
        // The guard is not released yet, so the command, and with it the queue,
        // is still there.
        if body.needs_flush {
            queue.mark_dirty();
        }
        waits.push(WANT_EACH)
    }

    #[inline]
    fn check(&self, body: &super::Body, request: &Request<'_>) -> Result<()> {
        if crate::context::is_anything_lost() {
            body.check_lost()?;
        }
        if let super::ContextLink::Counted(_) = &body.context {
            for access in request.accesses {
                if access.memory.context_id() != body.context_id {
                    return Err(ErrorKind::WrongContext {
                        what: "enqueue",
                        object: "buffer",
                    }
                    .into());
                }
                access
                    .memory
                    .check("enqueue", access.offset, access.length)?;
            }
        }
        if request.accesses.len() > usize::from(u8::MAX) {
            return Err(ErrorKind::InvalidArgument {
                what: "enqueue",
                problem: format!(
                    "{} accesses; a command takes at most 255, so combine buffers",
                    request.accesses.len()
                ),
            }
            .into());
        }
        crate::context::recycle_slots_if_due();
        Ok(())
    }

    /// Takes a number and becomes the gate of all that comes after.
    #[cold]
    fn take_number_as_barrier(&self, waits: &mut Waits<'_>, id: EventId, full: bool) {
        let queue = self.shared();
        let gate = &queue.gate;
        open(waits.slot, id);
        let mut history = lock(&gate.history);
        // Who takes a smaller number now and sees this waits until the number
        // is known, finds it too large, and looks in the history.
        gate.sequence.store(UNKNOWN, Ordering::SeqCst);
        gate.id.store(id.number(), Ordering::SeqCst);
        let sequence = waits.s.take_number(queue);
        let previous = history.back().copied();
        history.push_back(Barrier { sequence, id, full });
        gate.sequence.store(sequence, Ordering::SeqCst);
        while history.len() > 1 && history.front().is_some_and(|barrier| barrier.id.is_over()) {
            history.pop_front();
        }
        drop(history);
        // All after a barrier wait for it, this one too. If it is the command
        // just before, and waits for all before it, that is all there is.
        if let Some(before) = previous {
            let _ = waits.add(before.id, false);
            if before.full && before.sequence + 1 == sequence {
                return;
            }
        }
        if full {
            waits.rare().prefix = Some((queue, sequence));
        }
    }

    /// Waits for the last barrier with a smaller number.
    #[cold]
    fn wait_for_gate(&self, waits: &mut Waits<'_>, sequence: u64) {
        let gate = &self.shared().gate;
        loop {
            let id = gate.id.load(Ordering::SeqCst);
            let number = gate.sequence.load(Ordering::SeqCst);
            if id == 0 {
                return;
            }
            if number == UNKNOWN {
                std::hint::spin_loop();
                continue;
            }
            if gate.id.load(Ordering::SeqCst) != id {
                continue;
            }
            if number < sequence {
                if waits.add(EventId::from_number(id), false).is_some() {
                    // It is over: nobody has to look again.
                    let _ = gate
                        .id
                        .compare_exchange(id, 0, Ordering::SeqCst, Ordering::SeqCst);
                }
                return;
            }
            break;
        }
        let history = lock(&gate.history);
        let before = history
            .iter()
            .rev()
            .find(|barrier| barrier.sequence < sequence)
            .copied();
        drop(history);
        if let Some(barrier) = before {
            let _ = waits.add(barrier.id, false);
        }
    }

    /// Explicit waits. A long list that comes again is joined once.
    #[inline]
    fn wait_for_events(&self, waits: &mut Waits<'_>, events: &[Event]) {
        if events.len() < JOIN_WAITS {
            for event in events {
                waits.add_event(event);
            }
            return;
        }
        self.wait_for_many(waits, events);
    }

    #[cold]
    fn wait_for_many(&self, waits: &mut Waits<'_>, events: &[Event]) {
        let by_device = events.len() <= JOIN_DOMAIN_WAITS
            && self.shared().body().domain.is_some_and(|domain| {
                events
                    .iter()
                    .any(|event| !event.id().is_over() && is_of_domain(event.id(), domain))
            });
        let context = self.shared().context().filter(|_| !by_device);
        let Some(context) = context else {
            for event in events {
                waits.add_event(event);
            }
            return;
        };
        let (event, ready) = context.join_waits(events, |queue| {
            marker_event(queue, |join| {
                for event in events {
                    join.add_event(event);
                }
            })
        });
        waits.rare().ready.extend(ready);
        waits.add_event(&event);
    }

    /// Brings what is missing to `space`, before the access is recorded.
    #[cold]
    fn migrate<'a>(
        &self,
        waits: &mut Waits<'a>,
        access: &Access<'_>,
        tracker: &mut TrackerGuard<'_>,
        space: SpaceId,
    ) {
        let Some(context) = waits.context else {
            return;
        };
        let range = access.offset..access.offset + access.length;
        for missing in tracker.missing(&range, space) {
            let direct = [missing.from, space].into_iter().find(|s| {
                *s != SpaceId::HOST
                    && crate::memory::space::owner(*s)
                        .is_some_and(|(driver, _)| driver.has_route(missing.from, space))
            });
            let legs: SmallVec<[(SpaceId, SpaceId, SpaceId); 2]> = if missing.from == SpaceId::HOST
            {
                SmallVec::from_slice(&[(missing.from, space, space)])
            } else if let Some(by) = direct {
                SmallVec::from_slice(&[(missing.from, space, by)])
            } else if space == SpaceId::HOST {
                SmallVec::from_slice(&[(missing.from, space, missing.from)])
            } else if missing.on_host {
                SmallVec::from_slice(&[(SpaceId::HOST, space, space)])
            } else {
                SmallVec::from_slice(&[
                    (missing.from, SpaceId::HOST, missing.from),
                    (SpaceId::HOST, space, space),
                ])
            };
            for (from, to, by) in legs {
                self.migrate_leg(
                    context,
                    waits,
                    access.memory,
                    tracker,
                    &missing.range,
                    from,
                    to,
                    by,
                );
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one leg of a route, used once")]
    fn migrate_leg<'a>(
        &self,
        context: &'a Arc<ContextShared>,
        waits: &mut Waits<'a>,
        memory: &Memory,
        tracker: &mut TrackerGuard<'_>,
        range: &std::ops::Range<u64>,
        from: SpaceId,
        to: SpaceId,
        by: SpaceId,
    ) {
        let Some(queue) = context.transfer_queue(by) else {
            waits.rare().poison.get_or_insert_with(|| {
                ErrorKind::DeviceLost {
                    device: format!("{by:?}"),
                    reason: "no device of the context works in that memory space".to_owned(),
                }
                .into()
            });
            return;
        };
        let shared = queue.shared();
        // The read is what it waits for; that it writes the copy in the other
        // space, the tracker's `migrate` knows.
        let access = Access {
            memory,
            offset: range.start,
            length: range.end - range.start,
            mode: crate::access::AccessMode::Read,
        };
        let timed = shared.body().timed;
        let label = timed.then_some(if to == SpaceId::HOST {
            "migrate to the host"
        } else {
            "migrate to the device"
        });
        let slot = construct(
            shared,
            Migration { from, to },
            &[access],
            1,
            timed,
            false,
            label,
        );
        let id = id_of(slot);
        let mut leg = Waits::new(slot);
        leg.context = Some(context);
        leg.s.take_number(shared);
        open(slot, id);
        tracker.migrate(range, from, to, id, &mut leg);
        tracing::debug!(memory = memory.id(), ?range, ?from, ?to, "migrate");
        let ready = queue.register_slowly(&mut leg, shared.body(), id);
        let rare = waits.rare();
        rare.ready.append(&mut leg.rare().ready);
        rare.ready.extend(ready);
        if leg.is_unsettled() {
            rare.legs.push((leg, id));
        }
    }
}

/// The end of an enqueue that needed more than most: gives the command if it is
/// ready.
#[cold]
fn finish_rare(mut waits: Waits<'_>, id: EventId, command: Option<Command>) -> Option<Command> {
    waits.release_helpers();
    if waits.is_unsettled() {
        waits.settle(id)
    } else {
        command
    }
}

/// Hands over a command that is ready as it is enqueued.
#[inline]
fn hand_over(queue: &QueueShared, command: Command) {
    if command.needs_no_device() {
        dispatch(command);
    } else {
        queue
            .driver()
            .notify(crate::driver::Notification::Ready(command));
    }
}

/// As `marker`, with an event.
fn marker_event(queue: &Queue, add: impl FnOnce(&mut Waits<'_>)) -> (Event, Option<Command>) {
    let slot = construct_marker(queue.shared(), ());
    // SAFETY: under construction by this thread.
    unsafe { slot.as_ref() }
        .references
        .store(2, Ordering::Relaxed);
    let id = id_of(slot);
    let mut waits = Waits::new(slot);
    open(slot, id);
    add(&mut waits);
    let event = Event::from_slot(slot);
    let ready = waits.register(0);
    (event, ready)
}

impl QueueShared {
    /// The queue's priority.
    #[inline]
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.options().priority
    }
}
