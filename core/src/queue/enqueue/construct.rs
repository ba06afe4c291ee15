//! Taking a slot and writing a command into it; markers, which other commands' enqueues make.

use super::super::{Queue, QueueShared};
use super::waits::{Gathered, Waits};
use crate::access::PackedAccess;
use crate::command::slot::{Extension, INLINE_ARGUMENTS, Kind, Phase, Slot, Times, Vtable};
use crate::command::{Command, EventId, call_back, dispatch, log, slab};
use crate::event::Event;
use crate::memory::access::Access;
use crate::memory::tracker::Recorder;
use crate::operation::{Body, MarkerBody};
use crate::region::Region;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Takes a slot and writes a body into it. The command is under construction,
/// held by one reference.
#[inline]
pub(super) fn construct<B: Body>(
    queue: &QueueShared,
    body: B,
    accesses: &[Access<'_>],
    groups: u32,
    timed: bool,
    in_order: bool,
    label: Option<&str>,
) -> NonNull<Slot> {
    construct_and(
        queue,
        body,
        accesses,
        groups,
        timed,
        in_order,
        label,
        |enqueued| {
            enqueued.log();
        },
    )
}

/// As [`construct`], for a caller that has something locked: `later` is handed the record to log
/// when nothing is.
#[inline]
#[expect(clippy::too_many_arguments, reason = "those of `construct`")]
pub(super) fn construct_and<B: Body>(
    queue: &QueueShared,
    body: B,
    accesses: &[Access<'_>],
    groups: u32,
    timed: bool,
    in_order: bool,
    label: Option<&str>,
    later: impl FnOnce(log::Enqueued),
) -> NonNull<Slot> {
    assert!(
        B::fits(accesses.len()),
        "a body that does not fit is boxed by its maker"
    );
    let slot = take(queue, B::VTABLE, accesses, groups, in_order);
    // SAFETY: the slot was just taken.
    let s = unsafe { slot.as_ref() };
    // SAFETY: the body fits, as asserted, behind the arguments.
    unsafe { s.state_pointer().cast::<B>().write(body) };
    if (timed || label.is_some() || log::is_wanted())
        && let Some(enqueued) = decorate(slot, timed, label)
    {
        later(enqueued);
    }
    slot
}

/// As [`construct`], of any body, which is not written yet.
#[inline]
fn take(
    queue: &QueueShared,
    vtable: &'static Vtable,
    accesses: &[Access<'_>],
    groups: u32,
    in_order: bool,
) -> NonNull<Slot> {
    let slot = slab::take();
    // SAFETY: the slot was just taken.
    let s = unsafe { slot.as_ref() };
    s.references.store(1, Ordering::Relaxed);
    s.vtable.set(Some(vtable));
    s.queue.set(Some(queue.place()));
    s.done.set(std::ptr::null());
    s.work.store(u64::from(groups) << 32, Ordering::Relaxed);
    s.set_small(Phase::Queued, accesses.len() as u8, in_order);
    if accesses.len() <= INLINE_ARGUMENTS {
        let arguments = s.payload.get().cast::<PackedAccess>();
        for (index, access) in accesses.iter().enumerate() {
            // SAFETY: within the payload of a slot under construction.
            unsafe { arguments.add(index).write(PackedAccess::new(access)) };
        }
    } else {
        // SAFETY: under construction by this thread.
        unsafe { s.extend() }.arguments = Some(accesses.iter().map(PackedAccess::new).collect());
    }
    slot
}

/// Makes a marker of a command under construction, which has no number yet. Drops its body, a
/// user's code: nothing is locked.
#[cold]
pub(super) fn become_marker(slot: NonNull<Slot>) {
    // SAFETY: under construction by this thread.
    let s = unsafe { slot.as_ref() };
    let before = s.vtable.get();
    s.vtable.set(Some(MarkerBody::<()>::VTABLE));
    let state = s.state_pointer();
    s.set_small(Phase::Queued, 0, s.in_order.get());
    // SAFETY: under construction by this thread.
    if let Some(extension) = s.extension().map(|_| unsafe { s.extend() }) {
        extension.arguments = None;
        extension.regions = Box::default();
    }
    if let Some(drop) = before.and_then(|vtable| vtable.drop) {
        // SAFETY: the body that `construct` wrote there, which nobody drops again: a marker has
        // none.
        unsafe { drop(state) };
    }
}

/// Keeps the rows of a command under construction, for its driver to look at.
#[cold]
pub(crate) fn keep_regions(slot: NonNull<Slot>, regions: &[(usize, Region)]) {
    // SAFETY: under construction by this thread.
    unsafe { slot.as_ref().extend() }.regions = regions.into();
}

/// Takes a slot for a command of a recorded graph and writes a body into it. It has no
/// number in its queue, and its list is open.
pub(crate) fn construct_recorded<B: Body>(
    queue: &QueueShared,
    body: B,
    accesses: &[Access<'_>],
    groups: u32,
    label: Option<&str>,
) -> (NonNull<Slot>, EventId) {
    assert!(
        B::fits(accesses.len()),
        "a body that does not fit is boxed by its maker"
    );
    let slot = take(queue, B::VTABLE, accesses, groups, false);
    // SAFETY: the slot was just taken.
    let s = unsafe { slot.as_ref() };
    // SAFETY: the body fits, as asserted, behind the arguments.
    unsafe { s.state_pointer().cast::<B>().write(body) };
    let timed = queue.is_timed();
    if timed || label.is_some() {
        let (name, bytes) = describe(s);
        // SAFETY: under construction by this thread.
        let extension: &mut Extension = unsafe { s.extend() };
        let times = Times {
            name,
            bytes,
            ..Times::default()
        };
        extension.times = timed.then(|| Box::new(times));
        extension.label = label.map(Arc::from);
    }
    let id = id_of(slot);
    open(slot, id);
    (slot, id)
}

/// Registers a command of a recorded graph with those that it waits for, whose lists
/// are open.
pub(crate) fn register_recorded(
    slot: NonNull<Slot>,
    before: impl Iterator<Item = (EventId, bool)>,
    flags: u32,
) {
    let mut waits = Waits::new(slot);
    for (event, propagates) in before {
        waits.gather(Gathered::new(event, propagates));
    }
    // One without waits is no command yet: it waits for the launch.
    std::mem::forget(waits.register(flags));
}

/// The name of a command under construction, and the number of bytes that it touches or moves.
fn describe(s: &Slot) -> (&'static str, u64) {
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
    (name, bytes)
}

/// Gives the record of the command to log, when nothing is locked.
#[cold]
fn decorate(slot: NonNull<Slot>, timed: bool, label: Option<&str>) -> Option<log::Enqueued> {
    // SAFETY: under construction by this thread.
    let s = unsafe { slot.as_ref() };
    let id = id_of(slot);
    let (name, bytes) = describe(s);
    let groups = (s.work.load(Ordering::Relaxed) >> 32) as u32;
    let enqueued = log::Enqueued::of(s, id, label.unwrap_or(name), groups, bytes);
    let logged = enqueued.is_some() && log::are_starts_wanted();
    if !(timed || label.is_some() || logged) {
        return enqueued;
    }
    // SAFETY: under construction by this thread.
    let extension: &mut Extension = unsafe { s.extend() };
    extension.logged = logged;
    if timed {
        let times = Times {
            number: crate::tracing_records::number(id).into(),
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
    enqueued
}

/// The id that the command under construction will have.
#[inline]
pub(super) fn id_of(slot: NonNull<Slot>) -> EventId {
    // SAFETY: under construction by this thread.
    EventId::new(slot, unsafe { slot.as_ref() }.notify.generation() + 1)
}

#[inline]
pub(super) fn open(slot: NonNull<Slot>, id: EventId) {
    // SAFETY: under construction by this thread.
    unsafe { slot.as_ref() }.notify.open(id.generation());
}

/// A marker on a context's own queue, with the waits that `add` adds. Gives its id, and the command
/// if it is ready at once: to be handed over when no tracker is locked.
pub(super) fn marker<T: Send>(
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

pub(super) fn construct_marker<T: Send>(queue: &QueueShared, keep: T) -> NonNull<Slot> {
    let slot = construct(
        queue,
        MarkerBody(Box::new(keep)),
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
    if let Some(ready) = ready {
        dispatch(ready);
        call_back();
    }
}

/// As `marker`, with an event.
pub(super) fn marker_event(
    queue: &Queue,
    add: impl FnOnce(&mut Waits<'_>),
) -> (Event, Option<Command>) {
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
