//! The waits of a command under construction: gathered, counted, registered.

use super::super::Place;
use super::super::progress::Watcher;
use super::marker;
use crate::command::slot::{Glance, INLINE_EDGES, OverflowEdge, Slot};
use crate::command::{Command, EventId, dispatch, notify_each, poison};
use crate::context::ContextShared;
use crate::driver::DomainWait;
use crate::error::Error;
use crate::event::Event;
use crate::memory::owner::Failures;
use crate::memory::tracker::Recorder;
use crate::notify::{Closed, Tag};
use crate::state::{MAX_WAITS, POISONED, Resolved, WANT_EACH};
use crate::sync::lock;
use smallvec::SmallVec;
use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A command under construction: its waits are gathered here, and registered at the end. Kept
/// small: all bytes that are written here have to reach the cache before the next locked
/// instruction can go on.
pub(crate) struct Waits<'a> {
    pub(super) slot: NonNull<Slot>,
    pub(super) s: &'a Slot,
    pub(super) context: Option<&'a Arc<ContextShared>>,
    /// Events that were not over, each with a flag: its failure fails the command.
    pub(super) gathered: [Gathered; GATHERED],
    pub(super) count: usize,
    pub(super) rare: Option<Box<Rare<'a>>>,
}

/// Waits that need no list of their own.
pub(super) const GATHERED: usize = 4;

/// The parts of a command under construction that few commands have.
#[derive(Default)]
pub(super) struct Rare<'a> {
    /// The gathered waits, once they are more than fit.
    pub(super) gathered: Vec<Gathered>,
    pub(super) poison: Option<Error>,
    /// The marker that stands for a list of explicit waits. Its context may forget it at any time,
    /// and then only this keeps how it ended.
    pub(super) joined: Option<Event>,
    /// The marker that the context has forgotten for it. To drop it may drop an error, whose
    /// payload is a user's.
    pub(super) forgotten: Option<Event>,
    /// Errors that were replaced: dropped after the trackers are unlocked.
    pub(super) discarded: Vec<Error>,
    /// Panics of drivers that were told of this command and its helpers: dropped and logged then,
    /// too.
    pub(super) panics: Vec<Box<dyn Any + Send>>,
    /// Also waits for all commands with numbers below this.
    pub(super) prefix: Option<(&'static Place, u64)>,
    /// Helpers that were made meanwhile and are ready: handed over after the
    /// trackers are unlocked.
    pub(super) ready: Vec<Command>,
    /// The queue was marked as dirty, and there are flush demands: it is flushed after the trackers
    /// are unlocked.
    pub(super) flushes: bool,
    /// Waits that were over when they were to be registered, and that a driver
    /// wants to hear of.
    pub(super) late: Vec<EventId>,
    /// Migrations made for this command, to be logged after the trackers are unlocked.
    pub(super) migrated: Vec<super::migrate::Migrated>,
    /// Migrations made for this command that have something to settle.
    pub(super) hops: Vec<(Waits<'a>, EventId)>,
    /// The command that a migration is made for.
    pub(super) made_for: Option<EventId>,
}

/// An event's number, whose lowest bit says whether its failure propagates.
#[derive(Clone, Copy)]
pub(super) struct Gathered(u64);

impl Gathered {
    #[inline]
    pub(super) fn new(event: EventId, propagate: bool) -> Self {
        Self(event.number() | u64::from(propagate))
    }

    #[inline]
    pub(super) fn event(self) -> EventId {
        EventId::from_number(self.0 & !1)
    }

    #[inline]
    pub(super) fn propagates(self) -> bool {
        self.0 & 1 != 0
    }
}

impl<'a> Waits<'a> {
    #[inline]
    pub(super) fn new(slot: NonNull<Slot>) -> Self {
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

    /// The command's id. Its list is open.
    pub(super) fn id(&self) -> EventId {
        EventId::new(self.slot, self.s.notify.generation())
    }

    /// Waits for nothing any more. Helpers that were made meanwhile are still handed over.
    pub(super) fn forget(&mut self) {
        self.count = 0;
        if let Some(rare) = &mut self.rare {
            rare.gathered.clear();
            rare.discarded.extend(rare.poison.take());
        }
    }

    /// Everything gathered.
    #[inline]
    pub(super) fn gathered(&self) -> &[Gathered] {
        if self.count <= GATHERED {
            &self.gathered[..self.count]
        } else {
            self.rare.as_ref().map_or(&[], |rare| &rare.gathered)
        }
    }

    #[inline]
    pub(super) fn gather(&mut self, wait: Gathered) {
        if let Some(place) = self.gathered.get_mut(self.count) {
            *place = wait;
        } else {
            self.gather_more(wait);
        }
        self.count += 1;
    }

    #[cold]
    pub(super) fn gather_more(&mut self, wait: Gathered) {
        let few = self.gathered;
        let rare = self.rare();
        if rare.gathered.is_empty() {
            rare.gathered.extend(few);
        }
        rare.gathered.push(wait);
    }

    /// The wait gathered last.
    #[inline]
    pub(super) fn last_gathered(&mut self) -> Option<&mut Gathered> {
        if self.count <= GATHERED {
            self.gathered[..self.count].last_mut()
        } else {
            self.rare.as_mut()?.gathered.last_mut()
        }
    }

    #[cold]
    pub(super) fn rare(&mut self) -> &mut Rare<'a> {
        self.rare.get_or_insert_default()
    }

    /// Gathers an event; says how it ended if it is over.
    #[inline]
    pub(super) fn add(&mut self, event: EventId, propagate: bool) -> Option<Closed> {
        // Often the same command used several of our buffers before.
        if let Some(last) = self.last_gathered()
            && last.event() == event
        {
            last.0 |= u64::from(propagate);
            return None;
        }
        // Often it is over: one look at its line.
        let closed = event.slot()?.notify().closed(event.generation());
        if closed.is_none() {
            self.gather(Gathered::new(event, propagate));
        }
        closed
    }

    /// Gathers an explicit wait: a failure is this command's, also an earlier
    /// one, unless the wait is an order alone.
    #[inline]
    pub(super) fn add_event(&mut self, event: &Event) {
        if event.is_order_alone() {
            let _ = self.add(event.id(), false);
        } else if self.add(event.id(), true) == Some(Closed::Failed)
            && let Some(error) = event.failure()
        {
            self.rare().poison.get_or_insert(error.for_dependant());
        }
    }

    /// Registers all gathered waits but the prefix, and so ends construction. Gives the command if
    /// it is ready. Otherwise, unless there is a prefix, or the driver wants to hear of waits that
    /// were over by now ([`Waits::settle`]), another thread may have run it already.
    #[inline]
    pub(super) fn register(&mut self, flags: u32) -> Option<Command> {
        self.count(flags);
        self.push(flags)
    }

    /// The first half of [`Waits::register`]: counts the gathered waits, and makes room for its
    /// edges. From here on the command's state says whether it must not run, and nothing of the
    /// command is written but its edges: once a driver with a sync domain was told of it, others
    /// look at it.
    #[inline]
    pub(super) fn count(&mut self, flags: u32) {
        let mut flags = flags;
        let mut count = u32::try_from(self.count).unwrap_or(u32::MAX);
        if let Some(rare) = &mut self.rare {
            if count > MAX_WAITS {
                // So many commands do not fit into most memories. A wait that is not counted would
                // run a command early.
                crate::said::say(format_args!(
                    "quipu: a command waits for {count} others; {MAX_WAITS} can be counted"
                ));
                std::process::abort();
            }
            if let Some(cause) = rare.poison.take() {
                self.s.work.store(cause.into_raw(), Ordering::Relaxed);
                flags |= POISONED;
            }
            count += u32::from(rare.prefix.is_some());
        }
        if self.count > INLINE_EDGES {
            self.make_overflow_edges();
        }
        self.s.state.start(count, flags);
    }

    #[inline]
    pub(super) fn has_prefix(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.prefix.is_some())
    }

    /// The second half of [`Waits::register`]: pushes the edges.
    #[inline]
    pub(super) fn push(&mut self, flags: u32) -> Option<Command> {
        if self.count > INLINE_EDGES || self.rare.is_some() {
            return self.push_many(flags);
        }
        if self.count == 0 {
            return Some(Command::from_slot(self.slot));
        }
        let mut over = 0;
        for (edge, wait) in self.s.edges.iter().zip(self.gathered).take(self.count) {
            let tag = if wait.propagates() {
                Tag::Propagate
            } else {
                Tag::Order
            };
            // SAFETY: the edge lives until this wait is resolved.
            if let Err(closed) = unsafe { push_edge(wait, edge, tag) } {
                over += self.was_over(wait, closed, flags);
            }
        }
        if over == 0 {
            return None;
        }
        self.resolve_over(over)
    }

    /// As [`Waits::push`], of more edges than the slot has, or a prefix.
    #[cold]
    #[inline(never)]
    fn push_many(&mut self, flags: u32) -> Option<Command> {
        if self.count == 0 && !self.has_prefix() {
            return Some(Command::from_slot(self.slot));
        }
        let mut over = 0;
        // Those that `count` has made. The command may be freed as soon as the last edge is pushed.
        let overflow = self
            .s
            .extension()
            .map_or(std::ptr::null(), |e| e.edges.as_ptr());
        for index in 0..self.count {
            let wait = self.gathered()[index];
            let (edge, tag): (*const AtomicU64, Tag) = match self.s.edges.get(index) {
                Some(edge) if wait.propagates() => (edge, Tag::Propagate),
                Some(edge) => (edge, Tag::Order),
                None => {
                    // SAFETY: `count` has made as many as do not fit inline.
                    let edge = unsafe { overflow.add(index - INLINE_EDGES) };
                    let tag = if wait.propagates() {
                        Tag::OverflowPropagate
                    } else {
                        Tag::OverflowOrder
                    };
                    // A pointer to the whole edge, which the thread that ends the event reads, and
                    // not to its first word alone.
                    (edge.cast(), tag)
                }
            };
            // SAFETY: the edge lives until this wait is resolved.
            if let Err(closed) = unsafe { push_edge(wait, edge, tag) } {
                over += self.was_over(wait, closed, flags);
            }
        }
        if over == 0 {
            return None;
        }
        self.resolve_over(over)
    }

    /// Notes that a wait was over by the time it was to be registered. Gives the number of waits
    /// that this resolves now: one, or none if the driver wants to hear of it.
    #[cold]
    #[inline(never)]
    fn was_over(&mut self, wait: Gathered, closed: Closed, flags: u32) -> u32 {
        let event = wait.event();
        if closed == Closed::Failed
            && wait.propagates()
            && let Some(target) = event.slot()
        {
            // SAFETY: closed as failed, and held if this is called. The caller of the enqueue holds
            // the events of its list, and `Rare::joined` holds the marker for them. A hazard was
            // found in a tracker that stays locked until after this. If it had failed before, its
            // cause was found there too (`fail`), this command is poisoned, and nothing is called.
            // If it fails now, it has to lock the tracker before it closes its list.
            poison(self.s, || unsafe { target.held().error() }.for_dependant());
        }
        if flags & WANT_EACH != 0 {
            self.rare.get_or_insert_default().late.push(event);
            0
        } else {
            1
        }
    }

    /// Resolves so many waits that were over; gives the command if those were
    /// all.
    #[cold]
    #[inline(never)]
    fn resolve_over(&self, over: u32) -> Option<Command> {
        (self.s.state.resolve_many(over) == Resolved::Last).then(|| Command::from_slot(self.slot))
    }

    /// The steps that must not be done while trackers are locked: watches the prefix, and tells the
    /// driver of waits that were over by the time they were to be registered. Gives the command if
    /// that makes it ready. Watchers that turn out to be due are added to `served`: to tell them
    /// may run a user's code, so the command is handed over first.
    #[cold]
    pub(super) fn settle(&mut self, id: EventId, served: &mut Vec<Watcher>) -> Option<Command> {
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
        if let Some((watched, end)) = prefix {
            let watcher = Watcher::Command(self.slot);
            if watched.progress.watch(end, watcher, served).is_err() {
                resolve(EventId::NONE);
            }
        }
        owned
    }

    /// Hands over the helpers that were made for this command. As [`settle`](Waits::settle) in all
    /// else.
    #[cold]
    pub(super) fn release_helpers(&mut self, served: &mut Vec<Watcher>) {
        let rare = self.rare();
        let hops = std::mem::take(&mut rare.hops);
        for ready in std::mem::take(&mut rare.ready) {
            dispatch(ready);
        }
        for (mut hop, id) in hops {
            hop.settle(id, served).into_iter().for_each(dispatch);
        }
    }

    /// True if commands were made for this one that are not handed over yet.
    pub(super) fn has_helpers(&self) -> bool {
        let rare = self.rare.as_ref();
        rare.is_some_and(|rare| !(rare.ready.is_empty() && rare.hops.is_empty()))
    }

    /// Logs the migrations that were made for the command. Called with nothing locked.
    pub(super) fn log_migrations(&mut self) {
        if let Some(rare) = &mut self.rare {
            std::mem::take(&mut rare.migrated)
                .iter()
                .for_each(super::migrate::Migrated::log);
        }
    }

    /// True if there is something to settle: then the command is still ours.
    #[inline]
    pub(super) fn is_unsettled(&self) -> bool {
        self.rare
            .as_ref()
            .is_some_and(|rare| rare.prefix.is_some() || !rare.late.is_empty())
    }

    #[cold]
    fn make_overflow_edges(&self) {
        let dependant = self.slot;
        let edges = (INLINE_EDGES..self.count).map(|_| OverflowEdge {
            next: AtomicU64::new(0),
            dependant,
        });
        // SAFETY: under construction by this thread, and no driver was told of it yet
        // (`Waits::count`).
        unsafe { self.s.extend() }.edges = edges.collect();
    }

    /// The gathered waits for commands of the device's own sync domain.
    #[cold]
    pub(super) fn of_domain(&self, domain: u64) -> SmallVec<[DomainWait; 4]> {
        let in_domain = |wait: &Gathered| {
            is_of_domain(wait.event(), domain).then_some(DomainWait {
                event: wait.event(),
                propagates: wait.propagates(),
            })
        };
        self.gathered().iter().filter_map(in_domain).collect()
    }

    #[cold]
    pub(super) fn trace(&self) {
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
pub(super) fn is_of_domain(event: EventId, domain: u64) -> bool {
    let Some(slot) = event.slot() else {
        return false;
    };
    let of_device = |slot: Glance| {
        slot.queue()
            .filter(|_| slot.vtable().is_some_and(|vtable| !vtable.needs_no_device))
    };
    // If the event is over by now, the driver need not hear of it.
    let place = slot.of(event.generation(), of_device).flatten();
    place.is_some_and(|place| place.try_domain() == Some(domain))
}

/// Registers a wait; says how its event ended if it is over.
///
/// # Safety
/// The edge lives until the wait is resolved.
#[inline]
unsafe fn push_edge(wait: Gathered, edge: *const AtomicU64, tag: Tag) -> Result<(), Closed> {
    let event = wait.event();
    let target = event.slot().expect("only events with a slot are gathered");
    // SAFETY: as the caller promises.
    unsafe { target.notify().push(event.generation(), edge, tag) }
}

impl Recorder for Waits<'_> {
    #[inline]
    fn wait(&mut self, event: EventId, propagate: bool) {
        // If it is over and failed, its poison is in the tracker.
        let _ = self.add(event, propagate);
    }

    #[inline]
    fn wait_for_writer(&mut self, event: EventId) {
        let stays = self
            .context
            .is_some_and(|context| context.failures == Failures::StayWithEvents);
        let _ = self.add(event, !stays);
    }

    fn recording(&self) -> EventId {
        let made_for = self.rare.as_ref().and_then(|rare| rare.made_for);
        made_for.unwrap_or_else(|| self.id())
    }

    #[cold]
    fn poisoned(&mut self, cause: &Error) {
        self.rare().poison.get_or_insert(cause.clone());
    }

    #[cold]
    fn discard(&mut self, error: Error) {
        self.rare().discarded.push(error);
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
