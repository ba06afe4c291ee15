//! The end of a command, step by step: the `broadcast` of the drivers' contract. Nothing here
//! recurses.

use super::deferred::{Gathering, announce, call_back, contain, deliver, run_destructors, wake};
use super::recorded::Shared;
use super::slot::{self, Kind, OverflowEdge, Phase, Slot};
use super::{Command, EventId, Gather, ReadySink, discard, log, release, running, slab};
use crate::error::{Error, ErrorKind};
use crate::notify::{Entry, Tag};
use crate::panics::quietly;
use crate::queue::place::Place;
use crate::router::{Notification, Resolved as OneResolved};
use crate::state::Resolved;
use crate::sync::prefetch_for_writing;
use smallvec::SmallVec;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// The record of a failed command, for the log. It is logged once the command is over: showing an
/// error and the log's subscriber are users' code, which may panic.
struct Failed {
    command: String,
    error: Error,
    /// No event says that it failed, and neither does the failure of another command.
    is_silent: bool,
}

impl Failed {
    /// The log record of a command that fails, if anybody may want it.
    ///
    /// # Safety
    /// The caller owns the command.
    unsafe fn of(s: &Slot, error: &Error, unobserved: bool) -> Option<Self> {
        // A program that cancels knows that it does, and a device is lost with all of its commands.
        let is_known = matches!(
            error.kind(),
            ErrorKind::Dependency { .. }
                | ErrorKind::Cancelled { .. }
                | ErrorKind::DeviceLost { .. }
        );
        // SAFETY: as the caller promises.
        let is_silent = unobserved && !is_known && !unsafe { is_watched(s) };
        let is_wanted = log::is_wanted() || is_silent && log::are_warnings_wanted();
        if !is_wanted {
            return None;
        }
        let mut command = String::new();
        // A kernel says its name itself.
        quietly(|| s.label().clone_into(&mut command));
        Some(Self {
            command,
            error: error.clone(),
            is_silent,
        })
    }

    fn log(self) {
        let Self { command, error, .. } = &self;
        quietly(|| match self.is_silent {
            true => tracing::warn!(command, %error, "a command that has no event failed"),
            false => tracing::debug!(command, %error, "failed"),
        });
        discard(self.error);
    }
}

/// True if a callback or a waker is told how a command ends.
///
/// # Safety
/// The caller owns the command.
unsafe fn is_watched(s: &Slot) -> bool {
    let mut entry = s.notify.entries();
    while let Some(one) = entry {
        if one.tag() == Tag::Observers {
            return true;
        }
        // SAFETY: entries are alive until the owner has closed the list.
        entry = unsafe { one.next() };
    }
    false
}

/// Ends a command with an error: keeps the error, poisons the bytes that it would have written, and
/// broadcasts.
///
/// # Safety
/// The caller owns the command and gives it up.
#[cold]
pub(crate) unsafe fn fail(
    slot: NonNull<Slot>,
    error: Error,
    time: Option<u64>,
    sink: &mut impl ReadySink,
) {
    // SAFETY: owned by the caller.
    let s = unsafe { slot.as_ref() };
    // Errors that give way to this one. They carry a user's code, so they are dropped when the
    // command is over.
    let mut replaced: SmallVec<[Error; 2]> = SmallVec::new();
    replaced.extend(take_cause(s));
    // A reference is the owner's, and the others are events.
    let unobserved = s.references.load(Ordering::Relaxed) == 1;
    let is_told = error.ends_command(unobserved);
    let told = is_told.then(|| error.clone());
    // SAFETY: owned by the caller.
    let failed = unsafe { Failed::of(s, &error, unobserved) };
    if let Some(vtable) = s.vtable.get() {
        let id = EventId::new(slot, s.notify.generation());
        // Before the list is closed: a command that looks at a tracker later
        // and finds this one over must find the poison too.
        // SAFETY: owned, and not over.
        for argument in unsafe { s.arguments() } {
            // SAFETY: memory outlives the commands that use it.
            let memory = unsafe { argument.memory_pointer().as_ref() };
            let poisoned = if argument.mode().writes() {
                memory.poison(argument.range(), id, &error)
            } else if vtable.kind == Kind::Migrate {
                // It reads the object, and writes its copy elsewhere.
                memory.not_brought(argument.range(), id, &error)
            } else {
                continue;
            };
            replaced.extend(poisoned.replaced);
        }
        if let Some(fail) = vtable.rare.fail {
            // SAFETY: owned, and its state was not dropped before.
            unsafe { fail(s.state_pointer(), id, &error) };
        }
        // SAFETY: the command is owned, and its state was not dropped before.
        unsafe { drop_state(slot) };
    }
    // SAFETY: the payload is free now: arguments and state are done with. No
    // reader looks at it until the list is closed as failed.
    unsafe { s.payload.get().cast::<Error>().write(error) };
    // SAFETY: the command is owned by the caller, who gives it up; its state was dropped, and its
    // payload holds the error.
    unsafe { broadcast_dropped(slot, true, time, sink) };
    failed.into_iter().for_each(Failed::log);
    told.iter().for_each(Error::tell);
    replaced.into_iter().for_each(discard);
}

/// Takes the cause for which a command must not run, if it was stored and nobody has taken it.
fn take_cause(s: &Slot) -> Option<Error> {
    if !s.state.is_poisoned() {
        return None;
    }
    let raw = s.work.swap(0, Ordering::Acquire);
    // SAFETY: the first poisoner put it there; taken once.
    (raw != 0).then(|| unsafe { Error::from_raw(raw) })
}

/// # Safety
/// The caller owns the command and gives it up.
#[inline]
pub(crate) unsafe fn broadcast(
    slot: NonNull<Slot>,
    failed: bool,
    time: Option<u64>,
    sink: &mut impl ReadySink,
) {
    // SAFETY: owned by the caller.
    let s = unsafe { slot.as_ref() };
    if s.vtable.get().is_some_and(|vtable| vtable.drop.is_some()) {
        // SAFETY: the command is owned, and its state was not dropped before.
        unsafe { drop_state(slot) };
    }
    // SAFETY: the command is owned by the caller, who gives it up.
    unsafe { broadcast_dropped(slot, failed, time, sink) };
}

/// Drops the state of a command's body. Its destructors are a user's code inside of the command,
/// which ends only afterwards.
///
/// # Safety
/// The caller owns the command, and its state was not dropped before.
pub(crate) unsafe fn drop_state(slot: NonNull<Slot>) {
    // SAFETY: owned by the caller.
    let s = unsafe { slot.as_ref() };
    // From here on nobody asks the state for a name (`Slot::label`).
    s.phase.store(Phase::Complete as u8, Ordering::Relaxed);
    if let Some(drop) = s.vtable.get().and_then(|vtable| vtable.drop) {
        running::within(slot, || {
            run_destructors(|| {
                // SAFETY: the state is the vtable's, and dropped once.
                unsafe { drop(s.state_pointer()) }
            });
        });
    }
}

/// Ends a command of a recorded graph, which stays where it is: nothing is dropped, and nobody
/// outside of the graph has heard of it. It is made ready for the next launch first: from the
/// moment that its last dependant is told, it may be launched again.
///
/// # Safety
/// The caller owns the command and gives it up.
pub(super) unsafe fn end_recorded(
    slot: NonNull<Slot>,
    result: Result<(), Error>,
    time: Option<u64>,
    sink: &mut impl ReadySink,
) {
    // SAFETY: the graph keeps the slot until its launch is over, which waits for the dependants
    // below.
    let s = unsafe { slot.as_ref() };
    let (graph, index, state) = s.place();
    // SAFETY: kept by its launch, as above.
    let graph = unsafe { &*graph };
    if let Some(times) = s.times() {
        record(s, slot, times, result.as_ref().err(), time);
    }
    let mut replaced = None;
    if result.is_err() || s.state.is_poisoned() {
        // A launch's counters give way to the cause of its not being run.
        replaced = take_cause(s);
        s.work.store(graph.work(index), Ordering::Relaxed);
    }
    s.state.start(0, state);
    if graph.is_end(index) {
        // SAFETY: its launch is over now; nothing here is touched afterwards.
        unsafe { finish_launch(graph, sink) };
        replaced.into_iter().for_each(discard);
        return;
    }
    let first = s.notify.entries();
    // The graph's launch fails with it, and tells of it.
    let failed = result
        .as_ref()
        .err()
        // SAFETY: owned by the caller.
        .and_then(|error| unsafe { Failed::of(s, error, false) });
    // Dropped when this command is over: errors carry a user's code.
    let uncounted = result.err().and_then(|error| {
        // Before any of them is told.
        // SAFETY: the list is as it was made.
        unsafe { fail_dependants(first, &error) };
        graph.note_failure(index, error)
    });
    // SAFETY: the list is as it was made; the commands in it wait for this command.
    let is_left = first.is_some_and(|first| unsafe {
        match first.next() {
            None => resolve_entry(first, false, s, sink),
            Some(second) => resolve_list(first, second, false, s, sink),
        }
    });
    failed.into_iter().for_each(Failed::log);
    uncounted.into_iter().for_each(discard);
    replaced.into_iter().for_each(discard);
    if is_left {
        call_back();
    }
}

/// Ends the launch. All commands are over, and nobody else touches the graph.
///
/// # Safety
/// The graph is alive, with a launch that is being played. Both may be gone
/// afterwards.
unsafe fn finish_launch(graph: *const Shared, sink: &mut impl ReadySink) {
    let (launch, failure) = {
        // SAFETY: as the caller promises.
        let graph = unsafe { &*graph };
        let launch = graph.launch.swap(std::ptr::null_mut(), Ordering::Relaxed);
        (NonNull::new(launch), graph.take_failure())
    };
    let launch = launch.expect("a graph's end is reached by a launch");
    let result = failure.map_or(Ok(()), |(_, error)| Err(error));
    Command::from_slot(launch).finish(result, sink);
}

/// # Safety
/// The entries are those of a recorded command whose dependants wait for it still.
#[cold]
unsafe fn fail_dependants(first: Option<Entry>, error: &Error) {
    let mut entry = first;
    while let Some(current) = entry {
        // SAFETY: as the caller promises.
        if let Some(dependant) = unsafe { dependant_of(current) }
            && matches!(current.tag(), Tag::Propagate | Tag::OverflowPropagate)
        {
            // SAFETY: it counts this wait.
            poison(unsafe { dependant.as_ref() }, || error.for_dependant());
        }
        // SAFETY: as the caller promises.
        entry = unsafe { current.next() };
    }
}

/// The command whose wait an entry stands for; none if it is the observers.
///
/// # Safety
/// The entry's word is alive.
#[inline(always)]
pub(crate) unsafe fn dependant_of(entry: Entry) -> Option<NonNull<Slot>> {
    match entry.tag() {
        Tag::Observers => None,
        Tag::Order | Tag::Propagate => {
            let address = entry.address();
            let base = address.addr() & !(align_of::<Slot>() - 1);
            // An inline edge lies in its slot's first cache line.
            let slot = address.with_addr(base).cast_mut().cast::<Slot>();
            // SAFETY: an edge's address is not null.
            Some(unsafe { NonNull::new_unchecked(slot) })
        }
        Tag::OverflowOrder | Tag::OverflowPropagate => {
            // SAFETY: an overflow edge starts with its word and lives until
            // its dependant is released.
            Some(unsafe { (*entry.address().cast::<OverflowEdge>()).dependant })
        }
    }
}

/// The common end: progress, close, release, serve the queue, observe, forget.
///
/// # Safety
/// The caller owns the command and gives it up; its state is dropped.
#[inline]
pub(super) unsafe fn broadcast_dropped(
    slot: NonNull<Slot>,
    failed: bool,
    time: Option<u64>,
    sink: &mut impl ReadySink,
) {
    // SAFETY: owned by the caller; freed at the earliest by `release` below.
    let s = unsafe { slot.as_ref() };
    if let Some(times) = s.times() {
        // SAFETY: a failed command's payload holds its error by now.
        let error = failed.then(|| unsafe { s.error() });
        record(s, slot, times, error.as_ref(), time);
    }
    let queue = s.queue.get();
    let done = s.done.get();
    if !done.is_null() {
        // From here until the list is closed nothing may be called that waits:
        // events wait for that, once the queue has told of the byte.
        // SAFETY: the progress page lives until this byte is set and seen.
        unsafe { (*done).store(1, Ordering::Release) };
    }
    let first = s.notify.close(failed);
    // After the close another queue may have this place. Then this merely looks at its sentinel.
    let watched = queue.filter(|queue| queue.progress.is_sentinel(s.sequence.get()));
    let looked_at = if let Some(queue) = watched {
        // SAFETY: the entry was taken from the closed list.
        unsafe { resolve_with_queue(first, queue, failed, s, sink) };
        true
    } else if let Some(first) = first {
        // SAFETY: the entry was taken from the closed list.
        unsafe { resolve_entries(first, failed, s, sink) }
    } else {
        false
    };
    // Last: wakers and callbacks may wait for any of the above.
    if looked_at {
        wake_and_call_back();
    }
    // The usual end, without a second look at facts that are known here.
    if !failed
        && s.references.load(Ordering::Acquire) == 1
        && s.extension.get().is_none()
        && s.observers.is_none()
    {
        // SAFETY: the only reference was the owner's, and is given up.
        unsafe { slab::give(slot) };
        return;
    }
    // SAFETY: the owner's reference, given up once.
    unsafe { release(slot) };
}

/// The end of a queue's sentinel: a user's code is called when the dependants, and the watchers of
/// the queue, have been resolved and told, for it may wait for any of them.
///
/// # Safety
/// `first` was taken from the closed notify list of `over`.
#[cold]
#[inline(never)]
unsafe fn resolve_with_queue(
    first: Option<Entry>,
    queue: &'static Place,
    failed: bool,
    over: &Slot,
    sink: &mut impl ReadySink,
) {
    let _gathering = Gathering::begin();
    // First, so that a queue which ends does so before a callback of its last command is called,
    // which may take its time.
    queue.progress(sink);
    if let Some(first) = first {
        // SAFETY: as the caller promises.
        unsafe { resolve_entries(first, failed, over, sink) };
    }
}

/// Resolves the waits that the entries of a closed list stand for; true as of [`resolve_entry`].
///
/// # Safety
/// `first` was taken from the closed notify list of `over`.
#[inline(always)]
unsafe fn resolve_entries(
    first: Entry,
    failed: bool,
    over: &Slot,
    sink: &mut impl ReadySink,
) -> bool {
    // SAFETY: an entry's word lives until its owner is released. The entries are as the caller
    // promises.
    unsafe {
        match first.next() {
            None => resolve_entry(first, failed, over, sink),
            Some(second) => resolve_list(first, second, failed, over, sink),
        }
    }
}

/// Resolves one entry of a closed list, which is one wait of a dependant or the observers. True if
/// it is the observers, whose wakers and callbacks are called last, or if this thread or a driver
/// on it has run code for the dependant, so that there may be callbacks.
///
/// In the middle of every command's end, so all rare cases are out of line.
///
/// # Safety
/// `entry` was taken from the closed notify list of `over`, its next was read.
#[inline(always)]
pub(super) unsafe fn resolve_entry(
    entry: Entry,
    failed: bool,
    over: &Slot,
    sink: &mut impl ReadySink,
) -> bool {
    let mut gathering = None;
    // SAFETY: as the caller promises.
    unsafe { resolve_gathering(entry, failed, over, sink, &mut gathering) }
}

/// As [`resolve_entry`], one of several. A driver that is told of a wait may end other commands.
/// Their observers are a user's code, which may wait for commands of later entries. So this thread
/// gathers from then on, for as long as the caller keeps `gathering`.
///
/// # Safety
/// As [`resolve_entry`].
#[inline(always)]
unsafe fn resolve_gathering(
    entry: Entry,
    failed: bool,
    over: &Slot,
    sink: &mut impl ReadySink,
    gathering: &mut Option<Gathering>,
) -> bool {
    // SAFETY: as the caller promises.
    let Some(dependant) = (unsafe { dependant_of(entry) }) else {
        announce_observers(over);
        return true;
    };
    // SAFETY: the dependant is alive: it still counts this wait.
    let d = unsafe { dependant.as_ref() };
    if failed && matches!(entry.tag(), Tag::Propagate | Tag::OverflowPropagate) {
        // SAFETY: `over` is failed and its reference is still held.
        unsafe { fail_dependant(d, over) };
    }
    // Read before the wait is resolved: afterwards it may be run and freed.
    let queue = d.queue.get();
    let generation = d.notify.generation();
    match d.state.resolve() {
        Resolved::Last => return deliver(Command::from_slot(dependant), sink),
        Resolved::One => {}
        Resolved::Each => {
            gathering.get_or_insert_with(Gathering::begin);
            notify_each(
                queue,
                EventId::new(dependant, generation),
                EventId::new(NonNull::from(over), over.notify.generation()),
            );
            // The dependant's driver may have ended others here.
            return true;
        }
    }
    false
}

/// As [`resolve_entry`], of a list of several.
///
/// # Safety
/// `first` was taken from the closed notify list of `over`; `second` is its next.
#[inline(never)]
pub(super) unsafe fn resolve_list(
    first: Entry,
    second: Entry,
    failed: bool,
    over: &Slot,
    sink: &mut impl ReadySink,
) -> bool {
    sink.gather(Gather::BEGIN);
    let mut gathering = None;
    let mut looked_at = false;
    let (mut entry, mut following) = (first, Some(second));
    let mut length = 1_usize;
    loop {
        // SAFETY: the entry was taken from the closed list, its next was read.
        looked_at |= unsafe { resolve_gathering(entry, failed, over, sink, &mut gathering) };
        let Some(current) = following else { break };
        // SAFETY: an entry's word lives until its owner is released, which is
        // when it is resolved, in the next turn.
        following = unsafe { current.next() };
        if let Some(next) = following {
            length += 1;
            prefetch_list(next, length);
        }
        entry = current;
    }
    sink.gather(Gather::END);
    looked_at
}

/// Dependants of a long list that are fetched ahead: a miss takes as long as
/// some tens of them, and a core has a dozen in flight.
const AHEAD: usize = 16;

/// Fetches the next entries of a notify list. A long one leads from the command enqueued last to
/// the first, which mostly means downwards through memory.
#[inline]
pub(super) fn prefetch_list(next: Entry, length: usize) {
    let slot = next.address().cast::<Slot>();
    match length {
        0..4 => {}
        4 => (1..AHEAD).for_each(|ahead| prefetch_for_writing(slot.wrapping_sub(ahead))),
        _ => prefetch_for_writing(slot.wrapping_sub(AHEAD)),
    }
}

#[cold]
pub(super) fn record(
    s: &Slot,
    slot: NonNull<Slot>,
    times: &slot::Times,
    failed: Option<&Error>,
    time: Option<u64>,
) {
    let now = time.unwrap_or_else(crate::clock::now_ns);
    times.ended.store(now, Ordering::Relaxed);
    crate::tracing_records::record(s, EventId::new(slot, s.notify.generation()), times, failed);
}

/// Tells the threads that observe a command that is over; notes the others.
#[cold]
fn announce_observers(s: &Slot) {
    // SAFETY: the owner's reference still holds the slot's use.
    announce(unsafe { s.observers.close() });
}

#[cold]
fn wake_and_call_back() {
    wake();
    call_back();
}

/// Marks a dependant as one that must not run, because `over` failed.
///
/// # Safety
/// `over` is failed, and its owner's reference is held.
#[cold]
#[inline(never)]
unsafe fn fail_dependant(dependant: &Slot, over: &Slot) {
    // SAFETY: as the caller promises.
    poison(dependant, || unsafe { over.error() }.for_dependant());
}

/// Tells a driver that wants to know that one of several waits is resolved.
#[cold]
pub(crate) fn notify_each(queue: Option<&'static Place>, command: EventId, event: EventId) {
    // A driver that has finished the command meanwhile ignores the note, and so does that of a
    // later queue here.
    if let Some(queue) = queue
        && let Some(driver) = queue.try_router()
    {
        let resolved = Notification::Resolved(OneResolved { command, event });
        contain(|| driver.tell(resolved));
    }
}

/// Marks a command as one that must not run, with the first cause given.
pub(crate) fn poison(slot: &Slot, cause: impl FnOnce() -> Error) {
    if slot.state.claim_poison() {
        slot.work.store(cause().into_raw(), Ordering::Release);
        slot.state.poison();
    }
}
