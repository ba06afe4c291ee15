//! The enqueue: from a front end's request to a command that its driver will run.
//!
//! The steps, in this order. The numbers are those of "The life of a command" in ARCHITECTURE.md,
//! where a front end has step 1:
//!
//! 2. Everything is checked first: a refused command leaves no trace.
//! 3. A slot is taken and the body written.
//! 4. Explicit waits are gathered. Then the trackers of all its memory are locked together, by
//!    address.
//! 5. The command takes its number in the queue, with the trackers locked. From then on barriers
//!    count it. The waits that the last barrier demands are gathered. The notify list is opened:
//!    from now on others may wait for the command.
//! 6. Each access is recorded; hazards are gathered; bytes that are missing in
//!    the device's space become migrations, which are recorded before it.
//! 7. The gathered waits are counted and registered, with the trackers still locked: a writer that
//!    fails has to lock them to say so before it is over. A driver with a sync domain is told
//!    between the count and the registration. From here on other threads may run the command.
//! 8. The trackers are unlocked; the thread that resolves the last wait hands the command over.
//!
//! | file | steps |
//! |---|---|
//! | this one | the order of them all, gates, lists of waits |
//! | `construct` | 3: a slot and its body; markers |
//! | `waits` | 4 to 7: waits, gathered, counted and registered |
//! | `locked` | 4 and 8: the trackers |
//! | `migrate` | 6: migrations of missing bytes |
//! | `sizes` | 6: content sizes for drivers that bring bytes by themselves |
//! | `graph` | the same steps for a recorded graph as a whole |
//!
//! # The wait graph has no cycle
//!
//! The *point* of a command is the moment at which it takes its number (step 5), while it holds the
//! locks of all its trackers. The helpers that are made as its accesses are recorded (migrations,
//! and markers that join readers) have the same point, and come before it in the order in which
//! they were made. "Earlier" is the happens-before order of points, and that order among helpers.
//! It has no cycle, so it is enough that **every edge of the wait graph leads from a command to an
//! earlier one**:
//!
//! * *Explicit wait.* The caller has the event, which [`Queue::order`] gives after step 8.
//! * *Hazard.* The other command was found in a tracker. It had that tracker locked at its own
//!   point and has unlocked it before this command locked it, which is before this command's point.
//!   This is so of users of segments and of [rows](Request::regions).
//! * *Prefix* (a barrier, a marker without a list, a command of unknown access). It waits for the
//!   smaller numbers of its queue. One counter gives them out, each after the smaller ones.
//! * *Turn of an event* ([`Context::in_turn`]). This marker waits for an event that its maker has,
//!   and for the smaller numbers of that event's queue. They were given out before the event's, so
//!   all are earlier than the event, which is earlier than the marker.
//! * *Gate.* A command waits for the last barrier that has a smaller number in its queue.
//! * *Migration.* The command that needs the bytes waits for this helper. The migration waits for
//!   commands that it finds in the tracker: commands with earlier points and helpers made before
//!   it. It does not wait for the command that it is made for, which [`Recorder::recording`] names.
//! * *Joined readers.* This helper waits for readers that it finds in a tracker, as a migration
//!   does, and never for the command that is being recorded. A command that finds the marker later
//!   has a later point.
//! * *Joined list of waits.* This marker is made in step 4, before trackers are locked, and has a
//!   number and a point of its own. It waits for events that its maker's caller has, as above. A
//!   later command with the same list finds the marker in the context's cache, and so has a later
//!   point.
//! * *Launch of a graph.* A launch is a command with one point, and takes all trackers of the graph
//!   together. It waits for the launch before it, whose enqueue has ended: both hold the graph's
//!   `last` from before their points until after them.
//! * *Within a graph.* A recorded command waits for commands with a smaller index and, if for none,
//!   for the launch. The launch ends with the last of them. Nothing outside waits for a recorded
//!   command, and no recorded command waits for anything outside. So a graph can be taken for its
//!   launch alone.
//! * *Last drop of a buffer, last drop of a queue, a watcher of the host.* They wait for commands,
//!   and no command waits for them.
//! * *Mapping, turn of the host.* A turn is made of commands and explicit waits, each as above. The
//!   host ends it, as it ends a user event: a mapping, for which no command waits, and a lease.
//! * *Grant of a mapping.* This marker waits for a user event of the core's own, which ends as the
//!   holder becomes ready. It is a part of the holder's end for the others, so it has the holder's
//!   point, and the marker, which is enqueued after the holder, a later one.
//! * *Eviction.* It reads an idle object under a user event of its own and waits for no command.
//!   The thread that completes the event waits for the device's memory alone.
//!
//! Edges that lead out of the graph of commands remain: a user event, which code completes, a
//! lease, which code gives back, and a command that code is running, which may wait for an event by
//! itself. The second kind is looked for as the code begins to wait (`event::waiting`).
//!
//! Both the locks of step 4 and the number of step 5 are needed. If the number came first, another
//! thread's barrier could take the next number and record its accesses in between. The barrier
//! would wait for the command as a part of its prefix, and the command for the barrier as a hazard.
//!
//! [`Context::in_turn`]: crate::Context::in_turn
//! [`Recorder::recording`]: crate::memory::tracker::Recorder::recording
//!
//! ARCHITECTURE.md has the order of all locks. An enqueue takes these, in this order: a graph's
//! `last`; trackers, by address; the context's transfer queues, the list of places or the registry
//! of dirty queues; a queue's barrier history; a queue's pages. No thread waits for a command while
//! it holds one of them.

mod construct;
mod graph;
mod locked;
mod migrate;
mod sizes;
#[cfg(test)]
mod tests;
mod waits;

use super::flush::note_waits;
use super::place::Head;
use super::{Queue, QueueShared};
use crate::command::slot::{Kind, Slot, Vtable};
use crate::command::{
    Command, EventId, Gathering, ToDrivers, call_back, dispatch, is_done_by_anyone,
    resolve_watchers, wake,
};
use crate::context::ContextShared;
use crate::driver::{CommandRef, Notification, Submission};
use crate::error::{ErrorKind, Foreign, Result};
use crate::event::{Event, SeesTo};
use crate::limits::{JOIN_DOMAIN_WAITS, JOIN_WAITS, MOST_LISTED};
use crate::memory::CONTENT_SIZE_BYTES;
use crate::memory::Memory;
use crate::memory::access::Access;
use crate::operation::Body;
use crate::panics::{quietly, text_of};
use crate::region::Region;
use crate::state::WANT_EACH;
use construct::{become_marker, construct, construct_marker, id_of, marker, marker_event, open};
use locked::Locked;
use std::any::Any;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use waits::is_of_domain;

pub(crate) use construct::{construct_recorded, drop_after, keep_regions, register_recorded};
pub(crate) use migrate::{Hop, route};
pub(crate) use waits::Waits;

/// The parts of an enqueue besides the body.
#[derive(Clone, Copy, Default)]
pub struct Request<'a> {
    /// The command's accesses, in the order in which the body knows its arguments.
    pub accesses: &'a [Access<'a>],
    /// The rows of accesses with gaps between rows, each with the number of its access. They reach
    /// from the first to the last of its bytes. Commands on rows that share no byte are not
    /// ordered. Only for launches: a closure on the host has whole accesses.
    pub regions: &'a [(usize, Region)],
    /// Events it waits for, and fails with, unless they are [orders alone](Event::as_order).
    pub waits: &'a [Event],
    /// True if it may touch anything: a full barrier of an in-order queue.
    pub unknown_access: bool,
    /// A label for logs and traces.
    pub label: Option<&'a str>,
}

impl<'a> Request<'a> {
    /// The rows of one of its accesses, if it has gaps.
    #[cold]
    fn region_of(&self, access: &Access<'_>) -> Option<&'a Region> {
        let mut accesses = self.accesses.iter();
        let at = accesses.position(|other| std::ptr::eq(other, access))?;
        region_of(self.regions, at)
    }
}

/// The rows of an access, if it has gaps.
pub(crate) fn region_of(regions: &[(usize, Region)], access: usize) -> Option<&Region> {
    let mut regions = regions.iter();
    regions
        .find(|(of, _)| *of == access)
        .map(|(_, region)| region)
}

/// Checks that regions lie within their accesses.
#[cold]
pub(crate) fn check_regions(accesses: &[Access<'_>], regions: &[(usize, Region)]) -> Result<()> {
    for (at, region) in regions {
        let rows = region.range();
        let is_within = accesses.get(*at).is_some_and(|access| {
            access.offset <= rows.start && rows.end <= access.offset + access.length
        });
        if !is_within {
            return Err(ErrorKind::InvalidArgument {
                what: "enqueue",
                problem: format!("the rows of access {at} lie outside of it, in bytes {rows:?}"),
            }
            .into());
        }
    }
    Ok(())
}

/// True if bytes of these accesses, or content sizes of their memory, are mapped. Their trackers
/// are locked.
fn is_any_mapped(accesses: &[Access<'_>], locked: &Locked<'_>) -> bool {
    let mut sizes = locked.sizes().into_iter().flatten().flatten();
    sizes.any(|size| size.mapping_of(&(0..CONTENT_SIZE_BYTES)).is_some())
        || accesses.iter().any(|access| {
            let range = access.offset..access.offset + access.length;
            access.memory.mapping_of(&range).is_some()
        })
}

/// Says if a command lists more events than it may.
pub(super) fn check_listed(waits: &[Event]) -> Result<()> {
    if waits.len() > MOST_LISTED {
        return Err(ErrorKind::InvalidArgument {
            what: "enqueue",
            problem: format!(
                "a list of {} events; a command waits for at most {MOST_LISTED}, so have markers wait for parts of it",
                waits.len()
            ),
        }
        .into());
    }
    Ok(())
}

impl Queue {
    /// Enqueues a command and gives its event.
    ///
    /// # Errors
    /// If an access is out of bounds or mapped, belongs to another context, or
    /// the device or context is lost: nothing is enqueued then. Of a blocking queue
    /// also if waiting here could never end: see [`Queue::wait_if_blocking`].
    #[inline]
    pub(crate) fn enqueue<B: Body>(
        &self,
        body: B,
        groups: u32,
        request: &Request<'_>,
    ) -> Result<Event> {
        let event = self
            .enqueue_command(body, groups, request, true, None)?
            .expect("an event was asked for");
        self.wait_if_blocking(&event)?;
        Ok(event)
    }

    /// As [`Queue::enqueue`], of a queue that is not a blocking one. `recorded` is called once the
    /// accesses are recorded, with their trackers locked.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn enqueue_and<B: Body>(
        &self,
        body: B,
        request: &Request<'_>,
        recorded: &mut dyn FnMut(),
    ) -> Result<Event> {
        let event = self.enqueue_command(body, 1, request, true, Some(recorded))?;
        Ok(event.expect("an event was asked for"))
    }

    /// Waits for a command that was just enqueued, if the queue is a blocking one.
    ///
    /// # Errors
    /// If waiting here could never end. The command is in the queue then, but its event is lost
    /// with the error, and a caller that is told that it failed may enqueue it again. So it is
    /// cancelled, and is not run unless it has started.
    #[inline]
    pub(crate) fn wait_if_blocking(&self, event: &Event) -> Result<()> {
        if self.shared().options().blocking {
            event.wait_over().inspect_err(|_| event.cancel())?;
        }
        Ok(())
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
        self.enqueue_command(body, groups, request, false, None)
            .map(drop)
    }

    /// The code that depends on the body's type is little, and by itself: so little code is added
    /// by another type.
    #[inline]
    fn enqueue_command<B: Body>(
        &self,
        body: B,
        groups: u32,
        request: &Request<'_>,
        want_event: bool,
        recorded: Option<&mut dyn FnMut()>,
    ) -> Result<Option<Event>> {
        let has_content_sizes = self.check(self.shared().head(), request)?;
        let options = &self.shared().head().options;
        let slot = construct(
            self.shared(),
            body,
            request.accesses,
            groups,
            self.shared().head().timed,
            options.in_order,
            request.label,
        );
        if !request.regions.is_empty() {
            keep_regions(slot, request.regions);
        }
        let kind = B::VTABLE.kind;
        self.order(slot, kind, has_content_sizes, request, want_event, recorded)
    }

    /// Finds the waits of a constructed command, and hands it over if there are none.
    ///
    /// # Errors
    /// If bytes of it were mapped since they were checked.
    #[inline]
    fn order(
        &self,
        slot: NonNull<Slot>,
        kind: Kind,
        has_content_sizes: bool,
        request: &Request<'_>,
        want_event: bool,
        recorded: Option<&mut dyn FnMut()>,
    ) -> Result<Option<Event>> {
        let head = self.shared().head();
        let id = id_of(slot);
        // The rare parts are dropped below, out of other commands' way.
        let mut waits = ManuallyDrop::new(Waits::new(slot));
        if want_event {
            waits.s.references.store(2, Ordering::Relaxed);
        }
        if !request.waits.is_empty() {
            self.wait_for_events(&mut waits, request.waits);
        }
        let mut locked = if has_content_sizes {
            Locked::lock_with_sizes(request.accesses)
        } else {
            Locked::lock(request.accesses)
        };
        let mut accesses = request.accesses.iter();
        if has_content_sizes || accesses.any(|access| access.memory.is_mapped()) {
            locked = match self.lock_unmapped(locked, has_content_sizes, request) {
                Ok(locked) => locked,
                Err(mapped) => {
                    self.enqueue_as_marker(&mut waits, id);
                    return Err(mapped);
                }
            };
        }
        let is_apart = self.is_apart(request.accesses.iter().map(|access| access.memory));
        let opened = self.take_place(&mut waits, id, kind, request, is_apart);
        if !opened {
            open(slot, id);
        }
        if !request.accesses.is_empty() {
            waits.context = self.shared().counted_context();
        }
        if is_apart {
            for access in request.accesses {
                // SAFETY: locked by `locked`; not dropped, so not unlocked.
                let mut tracker = ManuallyDrop::new(unsafe { access.memory.locked_tracker() });
                tracker.record_user(access.offset, id, &mut *waits);
            }
        } else {
            if let Some(sizes) = locked.sizes() {
                self.migrate_contents(&mut waits, request.accesses, sizes);
            }
            for access in request.accesses {
                // SAFETY: locked by `locked`; not dropped, so not unlocked.
                let mut tracker = ManuallyDrop::new(unsafe { access.memory.locked_tracker() });
                let range = access.offset..access.offset + access.length;
                let space = access.memory.space_on(head);
                if tracker.enter(space) && access.mode.reads() && !has_content_sizes {
                    self.migrate(&mut waits, access, &mut tracker, space, None);
                }
                if !request.regions.is_empty()
                    && let Some(region) = request.region_of(access)
                {
                    tracker.record_rows(region, access.mode, space, id, &mut *waits);
                } else {
                    tracker.record(range, access.mode, space, id, &mut *waits);
                }
            }
        }
        if let Some(recorded) = recorded {
            recorded();
        }
        let event = want_event.then(|| Event::from_slot(slot));
        let command = self.register(&mut waits, id);
        let sizes = has_content_sizes.then(|| locked.take_sizes());
        drop(locked);
        self.submit(&mut waits, id, command);
        // With nothing in hand: these may be the last handles, and keep a user's memory.
        drop(sizes);
        Ok(event)
    }

    /// The locks of a request's trackers, unless bytes were mapped since they were checked.
    ///
    /// # Errors
    /// If some were. Nothing is locked then.
    #[cold]
    #[inline(never)]
    fn lock_unmapped<'a>(
        &self,
        mut locked: Locked<'a>,
        has_content_sizes: bool,
        request: &Request<'a>,
    ) -> Result<Locked<'a>> {
        while is_any_mapped(request.accesses, &locked) {
            drop(locked);
            self.check_closely(self.shared().head(), request)?;
            locked = if has_content_sizes {
                Locked::lock_with_sizes(request.accesses)
            } else {
                Locked::lock(request.accesses)
            };
        }
        Ok(locked)
    }

    /// Enqueues a marker that waits for nothing in place of a constructed command that is refused.
    /// Only its waits are noted so far, and it has no number.
    #[cold]
    #[inline(never)]
    fn enqueue_as_marker(&self, waits: &mut ManuallyDrop<Waits<'_>>, id: EventId) {
        become_marker(waits.slot);
        waits.s.references.store(1, Ordering::Relaxed);
        waits.forget();
        // Not as the marker of all before it.
        let opened = self.take_place(waits, id, Kind::HostTask, &Request::default(), false);
        if !opened {
            open(waits.slot, id);
        }
        let command = self.register(waits, id);
        self.submit(waits, id, command);
    }

    /// True if hazards do not order the command with these trackers, which are locked.
    #[inline(always)]
    fn is_apart<'a>(&self, memories: impl Iterator<Item = &'a Memory>) -> bool {
        let head = self.shared().head();
        head.options.hazards.are_within_queue() && self.is_apart_from(memories)
    }

    #[inline(never)]
    fn is_apart_from<'a>(&self, mut memories: impl Iterator<Item = &'a Memory>) -> bool {
        let head = self.shared().head();
        let can_be_here = |memory: &Memory| {
            // SAFETY: locked by the caller; not dropped, so not unlocked.
            let mut tracker = ManuallyDrop::new(unsafe { memory.locked_tracker() });
            tracker.is_for(head.id)
        };
        !head.options.in_order || !memories.all(can_be_here)
    }

    /// Takes the command's number, with its trackers locked, and gathers the waits that the queue's
    /// order demands. True if the command's list is open then, as a barrier's has to be early.
    #[inline(always)]
    fn take_place(
        &self,
        waits: &mut Waits<'_>,
        id: EventId,
        kind: Kind,
        request: &Request<'_>,
        is_apart: bool,
    ) -> bool {
        let queue = self.shared();
        let head = queue.head();
        let is_alone = request.unknown_access || is_apart || head.options.one_at_a_time;
        let unknown = is_alone && head.options.in_order;
        let barrier = unknown || matches!(kind, Kind::Barrier);
        let prefix = barrier || (matches!(kind, Kind::Marker) && request.waits.is_empty());
        if barrier {
            let full = unknown || request.waits.is_empty();
            self.take_number_as_barrier(waits, id, full);
        } else {
            let sequence = waits.s.take_number(queue);
            if queue.gate.is_closed() {
                self.wait_for_gate(waits, sequence);
            }
            if prefix {
                waits.rare().prefix = Some((queue.place(), sequence));
            }
        }
        barrier
    }

    /// Registers the gathered waits; gives the command if it is ready. By reference, and so is
    /// [`submit`](Self::submit): bytes that were written in words are slow to move at once.
    #[inline(always)]
    fn register(&self, waits: &mut Waits<'_>, id: EventId) -> Option<Command> {
        let head = self.shared().head();
        // From here on the command may be run and freed by others; with a sync
        // domain, not before its driver has been told.
        if head.timed || head.domain.is_some() {
            self.register_slowly(waits, head, id)
        } else {
            waits.register(0)
        }
    }

    /// Drops the gathered waits, and hands the command over if it is ready. Called with nothing
    /// locked.
    #[inline(always)]
    fn submit(&self, waits: &mut ManuallyDrop<Waits<'_>>, id: EventId, command: Option<Command>) {
        if waits.rare.is_some() {
            // SAFETY: both callers end with this; nobody looks at it again.
            let waits = unsafe { ManuallyDrop::take(waits) };
            return conclude_rare(self.shared(), waits, id, command);
        }
        if let Some(command) = command {
            hand_over(self.shared(), command);
        }
    }

    /// Registers a traced command, or one whose driver has a sync domain.
    #[cold]
    fn register_slowly(&self, waits: &mut Waits<'_>, head: &Head, id: EventId) -> Option<Command> {
        if crate::trace::enabled() {
            waits.trace();
        }
        let plays = |vtable: &Vtable| vtable.kind == Kind::Graph && vtable.needs_no_device;
        let Some(domain) = head
            .domain
            .filter(|_| !waits.s.vtable.get().is_some_and(plays))
        else {
            return waits.register(0);
        };
        let queue = self.shared();
        let domain_waits = waits.of_domain(domain);
        let all = waits.count + usize::from(waits.has_prefix());
        // Before the driver is told: its device may start the command at once,
        // and looks at the state to see whether it may.
        waits.count(WANT_EACH);
        let told = {
            let command = ManuallyDrop::new(Command::from_slot(waits.slot));
            tell_driver(Submission {
                id,
                queue,
                command: CommandRef::new(&command),
                domain_waits: &domain_waits,
                host_waits: (all - domain_waits.len()) as u32,
            })
        };
        if let Err(panic) = told {
            waits.rare().panics.push(panic);
        }
        // The waits are not registered yet, so the command, and with it the queue, is still there.
        // The queue of one that is ready is marked later: as it is handed over, or when it is a
        // migration.
        let flushes = head.needs_flush && all > 0 && queue.mark_dirty();
        let command = waits.push(WANT_EACH);
        if flushes {
            waits.rare().flushes = true;
        }
        command
    }

    /// Enqueues a command that does nothing in place of one whose accesses have no bytes. They are
    /// checked as that one's would be.
    ///
    /// # Errors
    /// As [`Queue::enqueue`].
    pub(crate) fn enqueue_nothing(
        &self,
        accesses: &[Access<'_>],
        waits: &[Event],
    ) -> Result<Event> {
        let request = Request {
            accesses,
            waits,
            ..Request::default()
        };
        self.check(self.shared().head(), &request)?;
        let without_accesses = Request {
            accesses: &[],
            ..request
        };
        self.host_task(|_| Ok(()), &without_accesses)
    }

    /// Checks accesses that will be enqueued.
    ///
    /// # Errors
    /// As [`Queue::enqueue`].
    pub(crate) fn check_accesses(&self, accesses: &[Access<'_>]) -> Result<()> {
        let request = Request {
            accesses,
            ..Request::default()
        };
        self.check(self.shared().head(), &request).map(drop)
    }

    /// Checks a request; true if there are content sizes to mind. The text of an error is made out
    /// of line.
    #[inline]
    fn check(&self, head: &Head, request: &Request<'_>) -> Result<bool> {
        let mut has_content_sizes = false;
        let accesses = request.accesses;
        let usual = accesses.iter().all(|access| {
            let memory = access.memory;
            memory.context_id() == head.context_id
                && memory.is_open_for(access.offset, access.length)
        });
        let many = accesses.len() > usize::from(u8::MAX) || request.waits.len() > MOST_LISTED;
        if !usual || crate::process::is_anything_lost() || many {
            has_content_sizes = self.check_closely(head, request)?;
        }
        if !request.regions.is_empty() {
            check_regions(accesses, request.regions)?;
        }
        crate::context::recycle_slots_if_due();
        Ok(has_content_sizes)
    }

    #[cold]
    #[inline(never)]
    fn check_closely(&self, head: &Head, request: &Request<'_>) -> Result<bool> {
        let mut has_content_sizes = false;
        if crate::process::is_anything_lost() {
            self.shared().check_lost()?;
        }
        if self.shared().counted_context().is_some() {
            // Of several it is said which.
            let place = |at: usize| (request.accesses.len() > 1).then_some(at);
            for (at, access) in request.accesses.iter().enumerate() {
                if access.memory.context_id() != head.context_id {
                    return Err(ErrorKind::WrongContext {
                        what: "enqueue",
                        object: Foreign::Buffer(access.memory.name(place(at))),
                    }
                    .into());
                }
                access
                    .memory
                    .check("enqueue", access.offset, access.length)
                    .map_err(|error| error.with_argument(|_| place(at)))?;
                if let Some(size) = access.memory.content_size() {
                    size.check("enqueue", 0, CONTENT_SIZE_BYTES)?;
                    has_content_sizes = true;
                }
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
        check_listed(request.waits)?;
        Ok(has_content_sizes)
    }

    /// Takes a number and becomes the gate of all that comes after.
    #[cold]
    fn take_number_as_barrier(&self, waits: &mut Waits<'_>, id: EventId, full: bool) {
        let queue = self.shared();
        // A thread that looks at the open list before the number is known sees none that the queue
        // has passed.
        waits.s.sequence.set(u64::MAX);
        // Commands find it at the gate before it is registered.
        open(waits.slot, id);
        let (sequence, previous) = queue.gate.close(
            id.number(),
            full,
            || waits.s.take_number(queue),
            |id| EventId::from_number(id).is_finished(),
        );
        // All after a barrier wait for it, this one too. If it is the command
        // just before, and waits for all before it, that is all there is.
        if let Some(before) = previous {
            let _ = waits.add(EventId::from_number(before.id), false);
            if before.full && before.sequence + 1 == sequence {
                return;
            }
        }
        if full {
            waits.rare().prefix = Some((queue.place(), sequence));
        }
    }

    /// Waits for the last barrier with a smaller number.
    #[cold]
    fn wait_for_gate(&self, waits: &mut Waits<'_>, sequence: u64) {
        let gate = &self.shared().gate;
        if let Some(id) = gate.before(sequence)
            && waits.add(EventId::from_number(id), false).is_some()
        {
            gate.open(id);
        }
    }

    /// Explicit waits. A long list that comes again is joined once.
    #[inline]
    fn wait_for_events(&self, waits: &mut Waits<'_>, events: &[Event]) {
        note_waits(self.shared(), events);
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
            && self.shared().head().domain.is_some_and(|domain| {
                events
                    .iter()
                    .any(|event| !event.id().is_finished() && is_of_domain(event.id(), domain))
            });
        // A joined list of waits would fail with any of them.
        let fails_with_all = !events.iter().any(Event::is_order_alone);
        let context = self.shared().context();
        let context = context.filter(|_| !by_device && fails_with_all);
        let Some(context) = context else {
            for event in events {
                waits.add_event(event);
            }
            return;
        };
        let (event, ready, forgotten) = context.join_waits(events, |queue| {
            marker_event(queue, |join| {
                for event in events {
                    join.add_event(event);
                }
            })
        });
        waits.add_event(&event);
        let rare = waits.rare();
        rare.ready.extend(ready);
        rare.forgotten = forgotten;
        // Others may have the context forget it before it is registered.
        rare.joined = Some(event);
    }
}

/// Tells a driver of a command. If it panics, as where it asks a user's kernel for its name, the
/// command is registered all the same: half enqueued it would never end. It is then one that the
/// driver does not know, and fails as that.
pub(crate) fn tell_driver(submission: Submission<'_>) -> std::thread::Result<()> {
    let queue = submission.queue;
    catch_unwind(AssertUnwindSafe(|| queue.driver().submit(submission)))
}

/// Logs the text of such a panic. Called with nothing locked.
#[cold]
pub(crate) fn log_panic(panic: Box<dyn Any + Send>) {
    let message = text_of(panic);
    quietly(|| tracing::error!(message, "a driver panicked as it was told of a command"));
}

/// The end of an enqueue that needed more than most. A user's code (wakers, subscribers of the log,
/// callbacks, destructors of errors) comes after the command and all its helpers are handed over:
/// it may wait for any of them.
#[cold]
fn conclude_rare(queue: &QueueShared, mut waits: Waits<'_>, id: EventId, command: Option<Command>) {
    if waits.has_helpers() || waits.is_unsettled() {
        hand_over_with_helpers(queue, &mut waits, id, command);
    } else if let Some(command) = command {
        let told = hand_over_contained(queue, command);
        waits.rare().panics.extend(told.err());
    }
    if waits.rare().flushes {
        queue.flush();
    }
    waits.log_migrations();
    std::mem::take(&mut waits.rare().panics)
        .into_iter()
        .for_each(log_panic);
    call_back();
}

/// Hands over a ready command together with the helpers that were made for it.
fn hand_over_with_helpers(
    queue: &QueueShared,
    waits: &mut Waits<'_>,
    id: EventId,
    mut command: Option<Command>,
) {
    let gathering = Gathering::begin();
    let mut served = Vec::new();
    waits.release_helpers(&mut served);
    if waits.is_unsettled() {
        command = waits.settle(id, &mut served);
    }
    // Before a driver is called, which may panic.
    resolve_watchers(served, &mut ToDrivers);
    if let Some(command) = command {
        let head = queue.head();
        if head.router.is_run_by_waits() && !head.needs_flush {
            // Its driver would run it at once, on this thread, with the rest still gathered.
            dispatch(command);
        } else {
            let told = hand_over_contained(queue, command);
            waits.rare().panics.extend(told.err());
        }
    }
    drop(gathering);
    wake();
}

/// An event that is over when another one is, and all commands with numbers below `end` in the
/// queue there. It fails with the other one alone. It keeps the context, whose own queue it is in,
/// until it is over: a wait for it needs the context's links.
pub(crate) fn turn_of(
    context: &Arc<ContextShared>,
    event: &Event,
    prefix: (&'static super::Place, u64),
) -> Event {
    let queue = context.internal_queue();
    // The event may be another context's, and so are the commands before it in its queue.
    note_waits(queue.shared(), std::slice::from_ref(event));
    let slot = construct_marker(queue.shared(), context.clone());
    // SAFETY: under construction by this thread.
    unsafe { slot.as_ref() }
        .references
        .store(2, Ordering::Relaxed);
    let id = id_of(slot);
    let mut waits = Waits::new(slot);
    open(slot, id);
    waits.add_event(event);
    waits.rare().prefix = Some(prefix);
    let turn = Event::from_slot(slot);
    let command = waits.register(0);
    conclude_rare(queue.shared(), waits, id, command);
    turn
}

/// Hands over a command that is ready as it is enqueued.
#[inline]
fn hand_over(queue: &QueueShared, command: Command) {
    if is_done_by_anyone(&command) || queue.head().needs_flush {
        return hand_over_contained(queue, command).unwrap_or_else(log_panic);
    }
    // Nothing comes after it: if the driver panics, the command fails, and the caller hears of the
    // panic.
    queue.router().tell(Notification::Ready(command));
}

/// As [`hand_over`], in the middle of an enqueue: if the driver panics, the command fails, and the
/// rest is done all the same. Gives the panic, to be logged then.
fn hand_over_contained(queue: &QueueShared, command: Command) -> std::thread::Result<()> {
    if is_done_by_anyone(&command) {
        dispatch(command);
        call_back();
        return Ok(());
    }
    let head = queue.head();
    let seen_to = head.needs_flush.then(|| SeesTo::flush(&*head.router));
    let ready = Notification::Ready(command);
    let told = catch_unwind(AssertUnwindSafe(|| head.router.tell(ready)));
    drop(seen_to);
    // Marked also for commands that were submitted before: another thread may have flushed the
    // queue since, and this one flushes only dirty queues.
    if head.needs_flush && queue.mark_dirty() {
        queue.flush();
    }
    told
}
