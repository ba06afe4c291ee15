//! Flushing: the queues that a wait has to flush.
//!
//! A driver may hold commands back until their queue is flushed after they were submitted
//! ([`Driver::needs_flush`]). A queue with such commands is *dirty*. Commands are submitted as they
//! are enqueued, and helpers as the command that they are made for is enqueued. So nothing else
//! makes a queue dirty: a command that becomes ready after a flush needs no other. A wait has to
//! flush every dirty queue that it may need, and should flush no other: a flush ends a batch that
//! another thread is still adding to.
//!
//! A wait flushes the dirty queues of some contexts, each once:
//!
//! 1. The context of the event or queue that is waited for.
//! 2. Every context that is *linked* from one of these. An enqueue links its context to another one
//!    as it takes an event of the other one into its list of waits ([`note_waits`]).
//! 3. All contexts, if the wait may depend on the host: it is for a
//!    [`UserEvent`](crate::UserEvent), or a command of one of these contexts waits for one that is
//!    not over, or bytes of one of these contexts are lent to the host, now or later
//!    ([`HostQueue::lend`]).
//!
//! Nothing that the wait needs stays unflushed. A command waits for another one for one of these
//! reasons, and each is covered:
//!
//! * Its queue's order: barriers, markers, gates, and the order in which events become visible.
//!   Both commands are in one queue, and so in one context.
//! * The order of another queue: an event's turn ([`Context::in_turn`](crate::Context::in_turn))
//!   waits for the commands before it in its queue. It takes the event into its list of waits, so
//!   that its context is linked to theirs.
//! * A hazard, a migration, a content size, a mapping or a recorded graph. All of them belong to
//!   one memory object or graph, which belongs to one context, and so do the queues that use it: an
//!   enqueue refuses another context's object. A context's own queues count as its queues.
//! * An event in its list of waits: of the same context (rule 1), of another one (rule 2), or the
//!   host's (rule 3). A marker that joins a list is enqueued after the list was noted.
//! * The end of a lease, which any code gives back (rule 3). A lease is counted from before its
//!   command is enqueued. (No command waits for a mapping: it is refused while the mapping is
//!   there.)
//! * Code inside of it that waits. That code is a wait of its own, which flushes as this one does.
//!
//! Links are noted before the waiting command is registered, so a wait for this command, or for one
//! that waits for it, finds them. A link lasts as long as both of its contexts. When one of the
//! contexts ends, all its commands are over that others may wait for: each keeps its queue, and a
//! queue its context. A context's own queue does not. Of the commands there, others wait for turns
//! of events, which keep the context themselves (`turn_of`), and for helpers of commands that do.
//!
//! A driver may also go on only while threads wait (`event::stepped`). A wait steps such drivers of
//! the same contexts, so it is covered for the same reasons.
//!
//! An enqueue on another thread may have taken its number in the queue, so that a wait for the
//! whole queue counts it, and be submitted only after the wait has flushed. And a user event may be
//! completed by a command that is enqueued later. So a thread that stays asleep flushes again after
//! a moment, and once more (`Waiter::look`). From then on it has a *flush demand*, and so have
//! futures and callbacks from the beginning. While there are demands, an enqueue that makes a queue
//! dirty has a thread flush, a moment later (`soon`), the queues that a wait of theirs would flush.
//! So a batch goes on meanwhile:
//!
//! 1. A demand is counted, its observer is registered, and its owner flushes then.
//! 2. An enqueue hands its command over, marks its queue as dirty, and then looks at the count. In
//!    between both have a fence. So either the owner's flush finds the queue dirty, or the enqueue
//!    sees the demand.
//! 3. An enqueue that finds its queue dirty leaves it so. The thread that marked it looked at the
//!    count afterwards, and so either has it flushed, or was followed by every demand, whose
//!    owner's flush found the queue if it was needed. A queue that comes to be needed later is
//!    marked later, or the demand is for an event of the host, and its owner has flushed all
//!    queues.
//!
//! [`Driver::needs_flush`]: crate::Driver::needs_flush
//! [`HostQueue::lend`]: crate::memory::mapping::HostQueue::lend

use super::place::{Place, QueueShared};
use crate::command::{KeptCallbacks, contain};
use crate::event::{Event, blocked};
use crate::flush_demand;
use crate::sync::lock;
use smallvec::SmallVec;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

struct Registry {
    /// Queues with commands that a flush has to start.
    dirty: Vec<&'static Place>,
    /// A context, and one whose events its commands wait for.
    links: Vec<(u32, u32)>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    dirty: Vec::new(),
    links: Vec::new(),
});

/// The number of dirty queues.
static DIRTY_COUNT: AtomicUsize = AtomicUsize::new(0);
/// True once two contexts have lived at a time.
static ARE_SEVERAL: AtomicBool = AtomicBool::new(false);
/// The link noted last, as two numbers in one.
static LAST_LINK: AtomicU64 = AtomicU64::new(0);

/// Flushes the queues for which there are demands.
fn flush_as_demanded() {
    flush_contexts(flush_demand::contexts(), true);
}

/// The thread that flushes as demanded. It runs callbacks of what it finds to be over, and these
/// may block. So while it flushes, others flush for themselves.
mod soon {
    use super::{contain, flush_as_demanded};
    use crate::sync::lock;
    use quipu_threads::Start;
    use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
    use std::time::Duration;

    /// The time for which a batch goes on.
    const MOMENT: Duration = Duration::from_millis(1);

    #[derive(Clone, Copy, PartialEq)]
    enum State {
        Asleep,
        Asked,
        Flushing,
    }

    static STATE: Mutex<State> = Mutex::new(State::Asleep);
    static BELL: Condvar = Condvar::new();

    /// Has it flush in a moment. False if there is no such thread, or if it is busy.
    pub(super) fn ask() -> bool {
        static IS_THERE: OnceLock<bool> = OnceLock::new();
        let thread = || std::thread::Builder::new().name("quipu-flush".to_owned());
        if !IS_THERE.get_or_init(|| thread().start(run).is_ok()) {
            return false;
        }
        let mut state = lock(&STATE);
        if *state == State::Asleep {
            *state = State::Asked;
            BELL.notify_one();
        }
        *state == State::Asked
    }

    fn run() {
        loop {
            let mut state = lock(&STATE);
            while *state != State::Asked {
                state = BELL.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            drop(state);
            std::thread::sleep(MOMENT);
            // Before the flush: a request that comes meanwhile may be too late for it.
            *lock(&STATE) = State::Flushing;
            // It may end a queue, and with it a driver, whose end may panic. The thread goes on:
            // nobody else would flush.
            contain(flush_as_demanded);
            *lock(&STATE) = State::Asleep;
        }
    }
}

/// A second context comes into being.
pub(crate) fn note_several_contexts() {
    ARE_SEVERAL.store(true, Ordering::SeqCst);
}

/// A context ends: its links go.
pub(crate) fn forget_context(number: u32) {
    let mut registry = lock(&REGISTRY);
    registry
        .links
        .retain(|(of, to)| *of != number && *to != number);
    // Under the lock: a thread that notes a link stores it there, too.
    LAST_LINK.store(0, Ordering::Relaxed);
}

/// Notes the other contexts, and the host events, among the events that a command of the queue
/// waits for.
#[inline]
pub(super) fn note_waits(queue: &QueueShared, events: &[Event]) {
    let own = queue.context_number();
    let are_several = ARE_SEVERAL.load(Ordering::Relaxed);
    for event in events {
        match event.queue().map(Place::context_number) {
            None => blocked::note_host_event(event, own),
            Some(other) if are_several && other != own => note_wait(own, event, other),
            Some(_) => {}
        }
    }
}

#[cold]
fn note_wait(own: u32, event: &Event, other: u32) {
    let link = u64::from(own) << 32 | u64::from(other);
    if LAST_LINK.load(Ordering::Relaxed) == link || event.is_visible() {
        return;
    }
    let mut registry = lock(&REGISTRY);
    if !registry.links.contains(&(own, other)) {
        registry.links.push((own, other));
    }
    LAST_LINK.store(link, Ordering::Relaxed);
}

/// Some contexts.
pub(crate) type Numbers = SmallVec<[u32; 4]>;

/// Gives these contexts, and all that are linked from them.
fn linked(mut contexts: Numbers, links: &[(u32, u32)]) -> Numbers {
    let mut next = 0;
    while next < contexts.len() {
        for (of, to) in links {
            if *of == contexts[next] && !contexts.contains(to) {
                contexts.push(*to);
            }
        }
        next += 1;
    }
    contexts
}

/// Flushes the queues that a wait for commands of these queues needs; `None` stands for the host's
/// event.
#[inline]
pub(crate) fn flush_for(queues: impl IntoIterator<Item = Option<&'static Place>>) {
    if DIRTY_COUNT.load(Ordering::Acquire) == 0 {
        return;
    }
    let contexts = queues
        .into_iter()
        .map(|queue| queue.map(Place::context_number));
    flush_contexts(contexts.collect(), true);
}

/// The contexts that a wait for commands of these queues may need; `None` if that is all of them.
pub(crate) fn needed_for(queues: impl Iterator<Item = Option<&'static Place>>) -> Option<Numbers> {
    let contexts = queues.map(|queue| queue.map(Place::context_number));
    needed(contexts.collect(), true)
}

/// As [`needed_for`], of contexts; `None` stands for the host's event.
fn needed(contexts: Option<Numbers>, for_host: bool) -> Option<Numbers> {
    let contexts = contexts.map(|contexts| linked(contexts, &lock(&REGISTRY).links));
    contexts.filter(|contexts| !for_host || !blocked::wait_for_host(contexts))
}

#[cold]
fn flush_contexts(contexts: Option<Numbers>, for_host: bool) {
    if crate::process::is_forked() {
        // Drivers have no threads here, and others may have had their locks.
        return;
    }
    let contexts = needed(contexts, for_host);
    let mut wanted: Vec<Visit> = Vec::new();
    {
        let mut registry = lock(&REGISTRY);
        registry.dirty.retain(|queue| {
            let number = queue.context_number();
            let is_wanted = contexts
                .as_ref()
                .is_none_or(|contexts| contexts.contains(&number));
            if is_wanted {
                let visit = Visit::new(queue);
                visit.queue().head().dirty.store(false, Ordering::Release);
                wanted.push(visit);
            }
            !is_wanted
        });
        DIRTY_COUNT.store(registry.dirty.len(), Ordering::Release);
    }
    // One of them may block, or wait for what another queue's flush starts.
    let _kept = KeptCallbacks::new();
    // Each once: this wait is not for commands that others enqueue meanwhile.
    for visit in wanted {
        // One that panics keeps no other from being flushed, also as its last visitor ends it:
        // nobody would come back for these.
        contain(move || {
            let queue = visit.queue();
            queue.router().flush_queue(queue);
        });
    }
}

/// A flush of a queue by a caller without a handle: the queue is not recycled meanwhile.
struct Visit(&'static Place);

impl Visit {
    /// A visit to one of the dirty queues, with the registry locked: `recycle` has it leave these
    /// first (`leave_dirty`).
    fn new(place: &'static Place) -> Self {
        place.visitors.fetch_add(1, Ordering::Relaxed);
        Self(place)
    }

    fn queue(&self) -> &QueueShared {
        // SAFETY: `new` has counted this visit in `visitors`, and `recycle` leaves a place to its
        // last visitor.
        unsafe { self.0.in_use() }
    }
}

impl Drop for Visit {
    /// Recycles the queue if it is time, also when a driver has panicked.
    fn drop(&mut self) {
        let place = self.0;
        let has_ended = {
            let _registry = lock(&REGISTRY);
            place.visitors.fetch_sub(1, Ordering::Relaxed) == 1
                && place.ended.swap(false, Ordering::Relaxed)
        };
        if has_ended {
            // SAFETY: it has ended, and `leave_dirty` has left this to the last of its visitors.
            unsafe { place.recycle() };
        }
    }
}

impl Place {
    /// The number of the context of the queue here: also of a queue that is the context's own.
    #[inline]
    #[must_use]
    pub fn context_number(&self) -> u32 {
        self.context_number.load(Ordering::Relaxed)
    }

    /// Makes the queue's memory available to another queue.
    ///
    /// # Safety
    /// No handle of the queue is left and its last command is over; called once for it, but for the
    /// case that it is visited.
    pub(super) unsafe fn recycle(&'static self) {
        // SAFETY: its head is taken below, and nowhere else.
        if !unsafe { self.in_use() }.leave_dirty() {
            return;
        }
        // SAFETY: as the caller promises, and nobody visits it.
        let head = unsafe { self.vacate() };
        // Last: this may end the context.
        drop(head);
    }
}

impl QueueShared {
    /// Notes that commands were submitted that a flush has to start. Called after the submission: a
    /// flush that comes between would miss it. True if there are flush demands, and no thread that
    /// flushes for them: then the caller flushes, with nothing locked.
    #[must_use]
    pub(crate) fn mark_dirty(&self) -> bool {
        if self.head().dirty.load(Ordering::Acquire) {
            return false;
        }
        let mut registry = lock(&REGISTRY);
        if !self.head().dirty.swap(true, Ordering::AcqRel) {
            registry.dirty.push(self.place());
            DIRTY_COUNT.store(registry.dirty.len(), Ordering::Release);
        }
        drop(registry);
        fence(Ordering::SeqCst);
        flush_demand::are_there_any() && !soon::ask()
    }

    /// Flushes the queue and those that its commands may wait for.
    pub(super) fn flush(&self) {
        if DIRTY_COUNT.load(Ordering::Acquire) != 0 {
            flush_contexts(Some([self.context_number()].into_iter().collect()), false);
        }
    }

    /// Takes the queue, whose last command is over, out of the dirty ones. False if another thread
    /// is just flushing it, which then recycles it.
    fn leave_dirty(&self) -> bool {
        let mut registry = lock(&REGISTRY);
        if self.head().dirty.swap(false, Ordering::AcqRel) {
            registry
                .dirty
                .retain(|queue| !std::ptr::eq(*queue, self.place()));
            DIRTY_COUNT.store(registry.dirty.len(), Ordering::Release);
        }
        let is_visited = self.visitors.load(Ordering::Relaxed) > 0;
        if is_visited {
            self.ended.store(true, Ordering::Relaxed);
        }
        !is_visited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_needs_what_those_it_needs_need() {
        let links = [(1, 2), (2, 3), (3, 1), (4, 5), (5, 6)];
        let linked = |from: &[u32]| {
            let mut all = linked(Numbers::from_slice(from), &links).to_vec();
            all.sort_unstable();
            all
        };
        assert_eq!(linked(&[1]), [1, 2, 3]);
        assert_eq!(linked(&[5]), [5, 6]);
        assert_eq!(linked(&[3, 4]), [1, 2, 3, 4, 5, 6]);
        assert_eq!(linked(&[7]), [7]);
    }
}
