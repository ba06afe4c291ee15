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
//!
//! | file | steps |
//! |---|---|
//! | this one | the order of them all, gates, lists of waits |
//! | `construct` | 2: a slot and its body; markers |
//! | `waits` | 3, 6, 7: what is gathered, counted and registered |
//! | `locked` | 4 and 8: the trackers |
//! | `migrate` | 6: what brings missing bytes |
//! | `graph` | the same steps for a recorded graph as a whole |

mod construct;
mod graph;
mod locked;
mod migrate;
mod waits;

use super::{Barrier, Priority, Queue, QueueShared, UNKNOWN, lock};
use crate::access::Access;
use crate::command::slot::{Kind, Slot, Vtable};
use crate::command::state::WANT_EACH;
use crate::command::{Command, EventId, call_back, dispatch, is_done_by_anyone};
use crate::driver::{Held, Submission};
use crate::error::{ErrorKind, Result};
use crate::event::{Event, SeesTo};
use crate::memory::CONTENT_SIZE_BYTES;
use crate::operation::Body;
use construct::{construct, id_of, marker, marker_event, open};
use locked::Locked;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use waits::is_of_domain;

pub(crate) use construct::{construct_recorded, drop_after, register_recorded};
pub(crate) use migrate::{Leg, route};
pub(crate) use waits::Waits;

/// What to enqueue besides the body.
#[derive(Clone, Copy, Default)]
pub struct Request<'a> {
    /// What it touches, in the order in which the body knows its arguments.
    pub accesses: &'a [Access<'a>],
    /// Events it waits for, and fails with, unless they are [orders alone](Event::as_order).
    pub waits: &'a [Event],
    /// True if it may touch anything: a full barrier of an in-order queue.
    pub unknown_access: bool,
    /// A label for logs and traces.
    pub label: Option<&'a str>,
}

/// Wait lists from this length on are joined into one marker, which the next
/// command with the same list shares: n by n dependencies cost n, not n².
pub(crate) const JOIN_WAITS: usize = 8;

/// A list of commands that the device can wait for by itself is joined only if
/// it is longer than this. A marker ends on the host, so the device would have
/// to be told by it: that takes longer than so many edges cost, and the device
/// stands still meanwhile. Much longer lists cost more than that each time they
/// come again. Readers of a buffer are joined at the same length.
pub(crate) const JOIN_DOMAIN_WAITS: usize = 64;

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
            .enqueue_command(body, groups, request, true)?
            .expect("an event was asked for");
        self.wait_if_blocking(&event)?;
        Ok(event)
    }

    /// Waits for a command that was just enqueued, if the queue is a blocking one.
    ///
    /// # Errors
    /// If waiting here could never end. The command is in the queue then, but its event is lost with the error, and who is
    /// told that it failed may do it again: so it is cancelled, and is not run unless it has started.
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
        self.enqueue_command(body, groups, request, false).map(drop)
    }

    /// What depends on the body's type is little, and by itself: so little code is added by another type.
    #[inline]
    fn enqueue_command<B: Body>(
        &self,
        body: B,
        groups: u32,
        request: &Request<'_>,
        want_event: bool,
    ) -> Result<Option<Event>> {
        let has_content_sizes = self.check(self.shared().body(), request)?;
        let options = &self.shared().body().options;
        let slot = construct(
            self.shared(),
            body,
            request.accesses,
            groups,
            self.shared().body().timed,
            options.in_order,
            request.label,
        );
        Ok(self.order(slot, B::VTABLE.kind, has_content_sizes, request, want_event))
    }

    /// Finds what a constructed command waits for, and hands it over if that is nothing.
    #[inline]
    fn order(
        &self,
        slot: NonNull<Slot>,
        kind: Kind,
        has_content_sizes: bool,
        request: &Request<'_>,
        want_event: bool,
    ) -> Option<Event> {
        let qbody = self.shared().body();
        let id = id_of(slot);
        // What few commands need is dropped below, out of the others' way.
        let mut waits = ManuallyDrop::new(Waits::new(slot));
        if want_event {
            waits.s.references.store(2, Ordering::Relaxed);
        }
        let opened = self.take_place(&mut waits, id, kind, request);

        let locked = if has_content_sizes {
            Locked::lock_with_sizes(request.accesses)
        } else {
            Locked::lock(request.accesses)
        };
        if !opened {
            open(slot, id);
        }
        if !request.accesses.is_empty() {
            if let super::ContextLink::Counted(context) = &qbody.context {
                waits.context = Some(context);
            }
            if let Some(sizes) = locked.sizes() {
                self.migrate_contents(&mut waits, request.accesses, sizes, qbody.space);
            }
            for access in request.accesses {
                // SAFETY: locked by `locked`; not dropped, so not unlocked.
                let mut tracker = ManuallyDrop::new(unsafe { access.memory.locked_tracker() });
                let range = access.offset..access.offset + access.length;
                if tracker.enter(qbody.space) && access.mode.reads() && !has_content_sizes {
                    self.migrate(&mut waits, access, &mut tracker, qbody.space, None);
                }
                tracker.record(range, access.mode, qbody.space, id, &mut *waits);
            }
        }
        let event = want_event.then(|| Event::from_slot(slot));
        let command = self.register(&mut waits, id);
        drop(locked);
        self.conclude(&mut waits, id, command);
        event
    }

    /// Gathers what the queue's order demands, and explicit waits. True if the command's list is open then, as a
    /// barrier's has to be early.
    #[inline(always)]
    fn take_place(
        &self,
        waits: &mut Waits<'_>,
        id: EventId,
        kind: Kind,
        request: &Request<'_>,
    ) -> bool {
        let queue = self.shared();
        let unknown = request.unknown_access && queue.body().options.in_order;
        let barrier = unknown || matches!(kind, Kind::Barrier);
        let prefix = barrier || (matches!(kind, Kind::Marker) && request.waits.is_empty());
        if barrier {
            let full = unknown || request.waits.is_empty();
            self.take_number_as_barrier(waits, id, full);
        } else {
            let sequence = waits.s.take_number(queue);
            if queue.gate.id.load(Ordering::SeqCst) != 0 {
                self.wait_for_gate(waits, sequence);
            }
            if prefix {
                waits.rare().prefix = Some((queue, sequence));
            }
        }
        if !request.waits.is_empty() {
            self.wait_for_events(waits, request.waits);
        }
        barrier
    }

    /// Registers what was gathered; gives the command if it is ready. By reference, and so
    /// is [`conclude`](Self::conclude): what was written in words is slow to move at once.
    #[inline(always)]
    fn register(&self, waits: &mut Waits<'_>, id: EventId) -> Option<Command> {
        let qbody = self.shared().body();
        // From here on the command may be run and freed by others; with a sync
        // domain, not before its driver has been told.
        if qbody.timed || qbody.domain.is_some() {
            self.register_slowly(waits, qbody, id)
        } else {
            waits.register(0)
        }
    }

    /// With nothing locked: drops what was gathered, and hands the command over if it is ready.
    #[inline(always)]
    fn conclude(&self, waits: &mut ManuallyDrop<Waits<'_>>, id: EventId, command: Option<Command>) {
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
    fn register_slowly(
        &self,
        waits: &mut Waits<'_>,
        body: &super::Body,
        id: EventId,
    ) -> Option<Command> {
        if crate::trace::enabled() {
            waits.trace();
        }
        let plays = |vtable: &Vtable| vtable.kind == Kind::Graph && vtable.needs_no_device;
        let Some(domain) = body
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
        // is still there. One that is ready is handed over, and its queue marked then.
        if body.needs_flush && all > 0 {
            queue.mark_dirty();
        }
        waits.push(WANT_EACH)
    }

    /// Checks what can be wrong with a request; true if there are content sizes
    /// to mind. What to say about it is found out of line.
    #[inline]
    fn check(&self, body: &super::Body, request: &Request<'_>) -> Result<bool> {
        let mut has_content_sizes = false;
        let accesses = request.accesses;
        let usual = accesses.iter().all(|access| {
            let memory = access.memory;
            memory.context_id() == body.context_id
                && memory.is_open_for(access.offset, access.length)
        });
        if !usual || crate::context::is_anything_lost() || accesses.len() > usize::from(u8::MAX) {
            has_content_sizes = self.check_closely(body, request)?;
        }
        crate::context::recycle_slots_if_due();
        Ok(has_content_sizes)
    }

    #[cold]
    #[inline(never)]
    fn check_closely(&self, body: &super::Body, request: &Request<'_>) -> Result<bool> {
        let mut has_content_sizes = false;
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
        Ok(has_content_sizes)
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
        let mut spins = 0_u32;
        loop {
            let id = gate.id.load(Ordering::SeqCst);
            let number = gate.sequence.load(Ordering::SeqCst);
            if id == 0 {
                return;
            }
            if number == UNKNOWN {
                spins += 1;
                if spins < 100 {
                    std::hint::spin_loop();
                } else {
                    // The barrier's thread was preempted, or takes the numbers from another: let it run.
                    std::thread::yield_now();
                }
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
        // What a list is joined into would fail with any of it.
        let fails_with_all = !events.iter().any(Event::is_order_alone);
        let context = self.shared().context();
        let context = context.filter(|_| !by_device && fails_with_all);
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
        if ready.is_some() {
            waits.rare().ready.extend(ready);
        }
        waits.add_event(&event);
    }
}

/// The end of an enqueue that needed more than most.
#[cold]
fn conclude_rare(
    queue: &'static QueueShared,
    mut waits: Waits<'_>,
    id: EventId,
    mut command: Option<Command>,
) {
    waits.release_helpers();
    if waits.is_unsettled() {
        command = waits.settle(id);
    }
    if let Some(command) = command {
        hand_over(queue, command);
    }
    // Only now: a callback may wait for what was in hand until here.
    call_back();
}

/// Hands over a command that is ready as it is enqueued.
#[inline]
fn hand_over(queue: &'static QueueShared, command: Command) {
    if is_done_by_anyone(&command) {
        dispatch(command);
        call_back();
    } else {
        let body = queue.body();
        let seen_to = body.needs_flush.then(|| SeesTo::flush(&*body.driver));
        body.driver
            .notify(crate::driver::Notification::Ready(command));
        drop(seen_to);
        if body.needs_flush {
            // Also of what was submitted before: another thread may have flushed the queue since, and this one flushes only what is dirty.
            queue.mark_dirty();
        }
    }
}

impl QueueShared {
    /// The queue's priority.
    #[inline]
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.options().priority
    }
}
