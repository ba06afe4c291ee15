//! Threads that wait, and the search for waits that would never end.
//!
//! The core remembers the commands that wait for a command, and not the commands that it waits for
//! itself: edges lead forward only. So the search goes forward from the commands that the waiting
//! thread keeps from ending, to find out whether the wait can end.
//!
//! # The graph
//!
//! A command is *held* by others if it cannot end before them. It is held by a command that
//!
//! 1. has it in its notify list;
//! 2. has a smaller number in a queue that it waits for up to some number, as a barrier does;
//! 3. is the end of a recorded graph, if the held command is the launch of that graph;
//! 4. holds the goal of a thread that is inside of the held command, and waits without a deadline;
//! 5. has to complete it: the user event that tells a mapping that its turn has come.
//!
//! The goal of a wait is held if each of its events is, or some command before it in its in-order
//! queue is.
//!
//! # Waits that would never end
//!
//! A thread that is about to wait inside of commands goes forward from these. If it comes to its
//! goal, the wait would never end: of all commands on the way, the first to end would have to end
//! after another one. The thread that closes a cycle last is refused: every other edge exists by
//! then. A wait that ends at once, and one of a thread that is inside of no command, searches
//! nothing.
//!
//! One kind of edge can come later: a command takes its number in a queue before its edges are
//! registered, and a wait for the whole queue counts it already. So a thread that stays asleep
//! searches again now and then (`Waiter::look`), and a wait that has become part of a cycle is
//! given up with the same error. A long search is also spread in this way: it may look at few
//! commands at first, and at more the longer the wait has taken.
//!
//! User events hold the commands that wait for them but are held by nothing that the core knows of:
//! code may complete them at any time. So they are part of no cycle. The one of a mapping's turn is
//! the core's own.
//!
//! # Why the search may look
//!
//! All is done under the lock of one registry. Commands end on other threads meanwhile, but none
//! that the search looks at:
//!
//! * A command that a registered thread is inside of does not end before that thread has taken its
//!   entry out, under the lock, and left its wait.
//! * A command that is held by one that does not end does not end either: it counts the wait.
//! * A ready command that the searching thread owns ends only by that thread.
//! * A user event that is noted here ends only after it was taken out, under the lock.
//!
//! So their slots stay in use, their lists open, and writes to them from before they were published
//! stay as they are. Later writes are seen or not.

use super::polling::Waiting;
use super::{Clock, Event, SystemClock};
use crate::command::slot::{Kind, Phase, Slot};
use crate::command::{dependant_of, running};
use crate::error::{Error, ErrorKind};
use crate::memory::owner;
use crate::notify::NotifyList;
use crate::queue::place::Place;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// The end that a thread waits for. The thread refers to its events.
pub(super) enum Goal {
    /// The first of them to be over.
    Events(SmallVec<[NonNull<Slot>; 1]>),
    /// A queue up to a number.
    Queue(&'static Place, u64),
}

/// A thread that waits.
struct Blocked {
    number: u64,
    thread: Thread,
    /// The begin of its wait, by the system's clock.
    since: Duration,
    /// The commands that it is inside of, innermost first.
    commands: SmallVec<[NonNull<Slot>; 2]>,
    goal: Goal,
    /// True if it has a deadline.
    is_limited: bool,
}

struct Registry {
    blocked: Vec<Blocked>,
    /// User events that are not over, with a context whose commands wait for each.
    host_events: BTreeSet<(NonNull<Slot>, u32)>,
    /// The number of ends for which commands of each context wait, and which the host brings about:
    /// of host events, and of leases.
    contexts: BTreeMap<u32, usize>,
    last: u64,
}

// SAFETY: slots are never unmapped, and looked at as the module says; threads are `Send`.
unsafe impl Send for Registry {}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    blocked: Vec::new(),
    host_events: BTreeSet::new(),
    contexts: BTreeMap::new(),
    last: 0,
});

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The word `work` of a user event that nobody is to note any more: it ends, or the core itself
/// completes it, which depends on nothing but its own context.
pub(super) const UNNOTED: u64 = u64::MAX;

/// Notes that a command of a context waits for a user event, if that is not over.
#[inline]
pub(crate) fn note_host_event(event: &Event, context: u32) {
    let known = event.slot().work.load(Ordering::Relaxed);
    if known != UNNOTED && known != u64::from(context) {
        note_anew(event, context);
    }
}

#[cold]
fn note_anew(event: &Event, context: u32) {
    let word = &event.slot().work;
    let mut registry = registry();
    // Else it ends just now, and has taken out, or is about to, the entry from before.
    let noted = word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |known| {
        (known != UNNOTED).then_some(u64::from(context))
    });
    if noted.is_ok() && registry.host_events.insert((event.slot_pointer(), context)) {
        registry.count_up(context);
    }
}

/// A user event ends: it is taken out before.
pub(crate) fn forget_host_event(slot: &Slot) {
    let is_noted = !matches!(slot.work.swap(UNNOTED, Ordering::SeqCst), 0 | UNNOTED);
    if is_noted {
        let slot = NonNull::from(slot);
        let mut registry = registry();
        let registry = &mut *registry;
        let noted = registry
            .host_events
            .extract_if((slot, 0)..=(slot, u32::MAX), |_| true);
        let contexts: SmallVec<[u32; 4]> = noted.map(|(_, context)| context).collect();
        for context in contexts {
            registry.count_down(context);
        }
    }
}

/// Counts, while it lives, a command of a context that the host ends.
pub(crate) struct EndsByHost(u32);

impl EndsByHost {
    /// Counts a command of this context, which is not enqueued yet.
    pub(crate) fn of(context: u32) -> Self {
        registry().count_up(context);
        Self(context)
    }
}

impl Drop for EndsByHost {
    fn drop(&mut self) {
        // In a child of fork another thread may have had the lock.
        if !crate::process::is_forked() {
            registry().count_down(self.0);
        }
    }
}

/// Wakes the threads that sleep in their waits. They look after these, and sleep on.
pub(super) fn wake_all() {
    for blocked in &registry().blocked {
        blocked.thread.unpark();
    }
}

/// True if a command of one of these contexts waits for a user event, or for a command that the
/// host ends.
pub(crate) fn wait_for_host(contexts: &[u32]) -> bool {
    let registry = registry();
    contexts
        .iter()
        .any(|context| registry.contexts.contains_key(context))
}

/// The outcome of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Found,
    /// There is nothing more to be seen.
    Exhausted,
    /// It has seen as much as it may.
    GivenUp,
}

/// The number of commands that are compared one by one before they are hashed.
const FEW: usize = 16;

/// Goes forward from some commands, nearest first. See the module.
struct Search {
    /// The commands that were reached, in this order, each with the number of the command that led
    /// to it.
    reached: SmallVec<[(NonNull<Slot>, Option<usize>); FEW]>,
    /// Their numbers, once they are more than a few.
    numbers: HashMap<NonNull<Slot>, usize>,
    /// The number of commands that the search has gone on from.
    done: usize,
    /// For each queue, the smallest number of a command that was reached, and that command.
    queues: SmallVec<[(&'static Place, u64, usize); 4]>,
    most: usize,
}

impl Search {
    fn new(most: usize) -> Self {
        Self {
            reached: SmallVec::new(),
            numbers: HashMap::new(),
            done: 0,
            queues: SmallVec::new(),
            most,
        }
    }

    fn find(&self, slot: NonNull<Slot>) -> Option<usize> {
        if self.reached.len() <= FEW {
            self.reached.iter().position(|(known, _)| *known == slot)
        } else {
            self.numbers.get(&slot).copied()
        }
    }

    /// True if it was not reached before.
    fn reach(&mut self, slot: NonNull<Slot>, from: Option<usize>) -> bool {
        if self.find(slot).is_some() {
            return false;
        }
        let number = self.reached.len();
        self.reached.push((slot, from));
        if number == FEW {
            let all = self.reached.iter().enumerate();
            self.numbers
                .extend(all.map(|(number, (slot, _))| (*slot, number)));
        } else if number > FEW {
            self.numbers.insert(slot, number);
        }
        true
    }

    fn is_tired(&self) -> bool {
        self.reached.len() > self.most
    }

    /// The number of the command that holds an event: the event's own, or one before it where that
    /// matters.
    ///
    /// # Safety
    /// The event is referred to by a registered thread or the caller.
    unsafe fn holder_of(&self, event: NonNull<Slot>) -> Option<usize> {
        // SAFETY: as the caller promises: the fields that are read were written before the event
        // was given out.
        let s = unsafe { event.as_ref() };
        self.find(event).or_else(|| {
            let in_turn = s.in_order.get();
            let queue = s.queue.get().filter(|_| in_turn)?;
            self.holder_below(queue, s.sequence.get() + 1)
        })
    }

    fn holder_below(&self, queue: &Place, end: u64) -> Option<usize> {
        let below =
            |(known, least, _): &&(&Place, u64, usize)| std::ptr::eq(*known, queue) && *least < end;
        self.queues.iter().find(below).map(|(_, _, number)| *number)
    }

    /// The number of the command that holds a goal: of events, the last one's if each is held, or
    /// with `any` that of the first event that is held.
    ///
    /// # Safety
    /// As [`Search::holder_of`], for each event.
    unsafe fn holder(&self, goal: &Goal, any: bool) -> Option<usize> {
        match goal {
            Goal::Queue(queue, end) => self.holder_below(queue, *end),
            Goal::Events(events) => {
                let mut holder = None;
                for event in events {
                    // SAFETY: as the caller promises.
                    let this = unsafe { self.holder_of(*event) };
                    if any && this.is_some() {
                        return this;
                    }
                    if !any && this.is_none() {
                        return None;
                    }
                    holder = this;
                }
                holder
            }
        }
    }

    /// Goes on from the command of this number.
    ///
    /// # Safety
    /// It does not end meanwhile, as the module says.
    unsafe fn expand(&mut self, number: usize) {
        // SAFETY: it does not end, so the slot is in use and nobody writes what is read here.
        let s = unsafe { self.reached[number].0.as_ref() };
        // SAFETY: its list is not closed, so the commands in it wait, and its entries stay.
        unsafe {
            each_dependant(&s.notify, |dependant| {
                self.reach(dependant, Some(number));
                !self.is_tired()
            });
        }
        if s.recorded.get() {
            let (graph, index, _) = s.place();
            // SAFETY: a graph outlives a launch that is not over.
            let graph = unsafe { &*graph };
            if let Some(launch) = graph.launch().filter(|_| graph.is_end(index)) {
                self.reach(launch, Some(number));
            }
            return;
        }
        if s.phase.load(Ordering::Relaxed) < Phase::Running as u8 {
            // SAFETY: it is not started. It waits for a command that does not end, or is ready and
            // the searching thread's.
            if let Some(opened) = unsafe { opened_by(s) } {
                self.reach(opened, Some(number));
            }
        }
        let (queue, sequence) = (s.queue.get(), s.sequence.get());
        let Some(queue) = queue else {
            return;
        };
        let known = self
            .queues
            .iter_mut()
            .find(|(known, ..)| std::ptr::eq(*known, queue));
        // Those that wait for higher numbers were reached from the command before.
        let high = match known {
            Some((_, least, _)) if *least <= sequence => return,
            Some((_, least, holder)) => {
                *holder = number;
                std::mem::replace(least, sequence)
            }
            None => {
                self.queues.push((queue, sequence, number));
                u64::MAX
            }
        };
        let reach = |slot| {
            self.reach(slot, Some(number));
        };
        queue
            .progress
            .each_watching_command(sequence + 1, high, reach);
    }

    /// Goes on until `is_found`, along edges of all kinds.
    fn run(
        &mut self,
        registry: &Registry,
        with_limited: bool,
        is_found: impl Fn(&Self) -> bool,
    ) -> Outcome {
        loop {
            while self.done < self.reached.len() {
                // SAFETY: it was reached from a command that does not end, and the registry is
                // locked.
                unsafe { self.expand(self.done) };
                self.done += 1;
                if is_found(self) {
                    return Outcome::Found;
                }
                if self.is_tired() {
                    return Outcome::GivenUp;
                }
            }
            let before = self.reached.len();
            for blocked in &registry.blocked {
                if blocked.is_limited && !with_limited {
                    continue;
                }
                // SAFETY: a registered thread refers to its events.
                if let Some(holder) = unsafe { self.holder(&blocked.goal, false) } {
                    for command in &blocked.commands {
                        self.reach(*command, Some(holder));
                    }
                }
            }
            if self.reached.len() == before {
                return Outcome::Exhausted;
            }
        }
    }

    /// The commands on the way to the one of this number, which is the first; last where it began.
    fn way_to(&self, number: usize) -> impl Iterator<Item = NonNull<Slot>> {
        let mut next = Some(number);
        std::iter::from_fn(move || {
            let (slot, from) = self.reached[next?];
            next = from;
            Some(slot)
        })
    }
}

/// The user event that a command completes when its waits are over: so it holds the commands that
/// wait for that event.
///
/// # Safety
/// The command is not ready, or this thread's and not started.
unsafe fn opened_by(holder: &Slot) -> Option<NonNull<Slot>> {
    let opens = holder.vtable.get()?.rare.opens?;
    // SAFETY: nobody touches the body before the command is started.
    unsafe { opens(holder.state_pointer()) }
}

/// Calls `look` with the commands that wait for the event of a list, until `look` says that it has
/// seen enough.
///
/// # Safety
/// Nobody closes the list meanwhile.
unsafe fn each_dependant(notify: &NotifyList, mut look: impl FnMut(NonNull<Slot>) -> bool) {
    let mut entry = notify.entries();
    while let Some(current) = entry {
        // SAFETY: an entry's word is alive until the list is closed.
        let dependant = unsafe { dependant_of(current) };
        if dependant.is_some_and(|dependant| !look(dependant)) {
            return;
        }
        // SAFETY: as for the entry itself.
        entry = unsafe { current.next() };
    }
}

/// A thread's entry among those that wait. The drivers [poll](super::polling) for it. Dropping it
/// takes the entry out.
pub(super) struct Entry(u64, Waiting);

impl Drop for Entry {
    fn drop(&mut self) {
        // In a child of fork another thread may have had the lock.
        if !crate::process::is_forked() {
            registry().forget(self.0);
        }
    }
}

impl Registry {
    fn count_up(&mut self, context: u32) {
        *self.contexts.entry(context).or_default() += 1;
    }

    fn count_down(&mut self, context: u32) {
        if let Some(count) = self.contexts.get_mut(&context) {
            *count -= 1;
            if *count == 0 {
                self.contexts.remove(&context);
            }
        }
    }

    fn forget(&mut self, number: u64) {
        if let Some(place) = self.blocked.iter().position(|it| it.number == number) {
            self.blocked.swap_remove(place);
        }
    }

    /// The reason for which a wait of this thread would never end, if a search that looks at so
    /// many commands finds one.
    fn refusal(&self, goal: &Goal, most: usize) -> Option<Error> {
        let mut search = Search::new(most);
        for command in running::commands() {
            search.reach(command, None);
        }
        // SAFETY: this thread refers to its events.
        let holder = |search: &Search| unsafe { search.holder(goal, false) };
        if search.run(self, false, |search| holder(search).is_some()) != Outcome::Found {
            return None;
        }
        let way: Vec<NonNull<Slot>> = search.way_to(holder(&search)?).collect();
        Some(never_ends(goal, &way))
    }
}

/// The error of a wait whose goal the first command holds. The last command holds the first one,
/// and is one that this thread is inside of.
fn never_ends(goal: &Goal, way: &[NonNull<Slot>]) -> Error {
    // SAFETY: none of them ends while the registry is locked, so their bodies are there.
    let label = |slot: &NonNull<Slot>| quiet_name(unsafe { slot.as_ref() }).to_owned();
    let inside = way.last().map(&label).unwrap_or_default();
    // SAFETY: this thread refers to its events.
    let name_of = |event: &NonNull<Slot>| unsafe { safe_name(event.as_ref()) };
    let (awaited, is_first) = match goal {
        Goal::Queue(queue, _) => (queue.describe(), false),
        Goal::Events(events) => {
            let last = events.last();
            let is_first = last.is_some_and(|event| way.first() == Some(event));
            let name = if is_first {
                way.first().map(&label)
            } else {
                last.map(name_of).map(|name| name.to_owned())
            };
            (format!("'{}'", name.unwrap_or_default()), is_first)
        }
    };
    let mut why = if is_first && way.len() == 1 {
        format!("'{inside}' waits inside of itself for its own end")
    } else {
        let mut why =
            format!("'{inside}' waits inside of itself for {awaited}, which waits for '{inside}'");
        let between = &way[usize::from(is_first).min(way.len())..way.len().saturating_sub(1)];
        if !between.is_empty() {
            let names: Vec<String> = between
                .iter()
                .take(MOST_NAMED)
                .map(|slot| format!("'{}'", label(slot)))
                .collect();
            let more = if between.len() > MOST_NAMED {
                ", ..."
            } else {
                ""
            };
            let _ = write!(why, " by way of {}{more}", names.join(", "));
        }
        why
    };
    why.push_str(
        "; return before you wait, or enqueue what is to come after it instead of waiting for it",
    );
    ErrorKind::WouldDeadlock { why: why.into() }.into()
}

/// The most commands that an error or a line of the wait graph names.
const MOST_NAMED: usize = 8;

/// The name of a command that may end meanwhile, while its slot is referred to: without a look at
/// its body.
fn safe_name(s: &Slot) -> &str {
    let Some(vtable) = s.vtable.get() else {
        return "user event";
    };
    let extension = s.extension();
    let label = extension.and_then(|extension| extension.label.as_deref());
    let timed = s.times().map(|times| times.name);
    label
        .or(timed.filter(|name| !name.is_empty()))
        .unwrap_or_else(|| vtable.kind.name())
}

/// The name of a command that does not end meanwhile. A kernel that has no label and is not timed
/// says its name itself, which is a user's code, and the registry is locked: it is called a launch.
fn quiet_name(s: &Slot) -> &str {
    match s.vtable.get() {
        Some(vtable) if vtable.kind == Kind::Launch => safe_name(s),
        _ => s.label(),
    }
}

/// Enters this thread among those that wait; or says why its wait would never end, if it is inside
/// of commands.
///
/// # Errors
/// If a search that sees `most` commands finds that the wait would never end.
pub(super) fn enter(
    goal: Goal,
    since: Duration,
    is_limited: bool,
    most: usize,
) -> Result<Entry, Error> {
    let thread = std::thread::current();
    // With nothing locked: it may call drivers.
    let waiting = Waiting::begin();
    let mut registry = registry();
    if running::is_inside()
        && let Some(error) = registry.refusal(&goal, most)
    {
        return Err(error);
    }
    registry.last += 1;
    let number = registry.last;
    registry.blocked.push(Blocked {
        number,
        thread,
        since,
        commands: running::commands().collect(),
        goal,
        is_limited,
    });
    Ok(Entry(number, waiting))
}

/// As [`enter`], of an entry that is there. If the wait would never end by now, the entry is taken
/// out at once: it keeps nothing from ending any more.
pub(super) fn search_again(entry: &Entry, most: usize) -> Result<(), Error> {
    let mut registry = registry();
    let refusal = {
        let this = registry.blocked.iter().find(|it| it.number == entry.0);
        this.and_then(|this| registry.refusal(&this.goal, most))
    };
    match refusal {
        None => Ok(()),
        Some(error) => {
            registry.forget(entry.0);
            Err(error)
        }
    }
}

/// The index of the first of some commands that hold the goal of this thread's wait, nearest first,
/// if a search that looks at so many commands finds one.
///
/// # Safety
/// Each is ready, and does not end meanwhile: the caller owns it, or is counted among those that
/// run it.
pub(super) unsafe fn first_needed(
    goal: &Goal,
    ready: impl Iterator<Item = NonNull<Slot>>,
    most: usize,
) -> Option<usize> {
    let registry = registry();
    let mut search = Search::new(most);
    for slot in ready {
        search.reach(slot, None);
    }
    // SAFETY: this thread refers to its events.
    let holder = |search: &Search| unsafe { search.holder(goal, true) };
    if holder(&search).is_none() {
        let found = search.run(&registry, true, |search| holder(search).is_some());
        if found != Outcome::Found {
            return None;
        }
    }
    let mut number = holder(&search)?;
    while let (_, Some(from)) = search.reached[number] {
        number = from;
    }
    Some(number)
}

/// The wait graph as text. For each thread that waits in the core, it shows the command that the
/// thread runs, the event that it waits for, and the commands that this event waits for, as far as
/// they are known.
///
/// Use it for a program that hangs. A thread that waits by other means, such as a lock or a
/// channel, is not shown. See also [`log_waits_longer_than`](super::log_waits_longer_than).
#[must_use]
pub fn wait_graph() -> String {
    if crate::process::is_forked() {
        // Another thread may have had the lock.
        return "no thread waits: this process is a child of fork\n".to_owned();
    }
    let now = SystemClock.now();
    let mut text = String::new();
    let registry = registry();
    let mut search = Search::new(usize::MAX);
    for (event, _) in &registry.host_events {
        search.reach(*event, None);
    }
    for command in registry.blocked.iter().flat_map(|it| &it.commands) {
        search.reach(*command, None);
    }
    let sources = search.reached.len();
    search.run(&registry, true, |_| false);
    let threads = registry.blocked.len();
    let _ = match threads {
        0 => writeln!(text, "no thread waits"),
        1 => writeln!(text, "1 thread waits"),
        _ => writeln!(text, "{threads} threads wait"),
    };
    for blocked in &registry.blocked {
        let name = blocked.thread.name().unwrap_or("without a name");
        let _ = write!(text, "thread '{name}'");
        for command in &blocked.commands {
            // SAFETY: it does not end while its thread is registered.
            let label = quiet_name(unsafe { command.as_ref() });
            let _ = write!(text, ", inside of '{label}'");
        }
        let time = now.saturating_sub(blocked.since);
        let _ = write!(text, ", has waited for {time:.1?} for ");
        let _ = match &blocked.goal {
            Goal::Queue(queue, end) => {
                writeln!(text, "{}, up to its command {end}", queue.describe())
            }
            Goal::Events(events) => {
                for (index, event) in events.iter().enumerate() {
                    let before = if index > 0 { ", or " } else { "" };
                    // SAFETY: a registered thread refers to its events.
                    let event = describe(unsafe { event.as_ref() }, None);
                    let _ = write!(text, "{before}{event}");
                }
                writeln!(text)
            }
        };
        // SAFETY: a registered thread refers to its events.
        let Some(holder) = (unsafe { search.holder(&blocked.goal, true) }) else {
            continue;
        };
        tell_way(
            &mut text,
            &search,
            holder,
            &blocked.goal,
            sources,
            &registry,
        );
    }
    drop(registry);
    // With nothing locked, and not from within a driver, whose locks may be held.
    if super::waiting::may_wait() {
        for driver in owner::all_routers() {
            let state = if driver.has_nothing_to_do() {
                "has nothing to do"
            } else {
                "has something to do"
            };
            let _ = writeln!(text, "driver '{}' {state}", driver.driver_name());
        }
    }
    text
}

/// Writes one line for each command on the way from the holder of a goal back to the first command.
fn tell_way(
    text: &mut String,
    search: &Search,
    holder: usize,
    goal: &Goal,
    sources: usize,
    registry: &Registry,
) {
    let is_goal = |slot: &NonNull<Slot>| match goal {
        Goal::Events(events) => events.contains(slot),
        Goal::Queue(..) => false,
    };
    let way: Vec<NonNull<Slot>> = search.way_to(holder).collect();
    for (index, slot) in way.iter().enumerate() {
        if index > 0 || !is_goal(slot) {
            if index == MOST_NAMED && way.len() > MOST_NAMED + 1 {
                let _ = writeln!(text, "  ... {} more ...", way.len() - MOST_NAMED - 1);
            }
            if index < MOST_NAMED || index + 1 == way.len() {
                // SAFETY: it was reached from a command that does not end, and the registry is
                // locked.
                let s = unsafe { slot.as_ref() };
                let _ = writeln!(
                    text,
                    "  which waits for {}",
                    describe(s, Some(quiet_name(s)))
                );
            }
        }
        let is_source = search.find(*slot).is_some_and(|number| number < sources);
        let mut inside = registry.blocked.iter();
        if let Some(other) = inside.find(|it| is_source && it.commands.contains(slot)) {
            let name = other.thread.name().unwrap_or("without a name");
            let _ = writeln!(text, "  which thread '{name}' is inside of");
        }
    }
}

/// An event, for people. The name is that of one which does not end meanwhile.
fn describe(s: &Slot, name: Option<&str>) -> String {
    let Some(vtable) = s.vtable.get() else {
        return match super::user::made_at(s) {
            Some(made_at) => format!("a user event made at {made_at}"),
            None => "a user event".to_owned(),
        };
    };
    let name = name.unwrap_or_else(|| safe_name(s));
    let kind = vtable.kind.name();
    let queue = match s.queue.get() {
        Some(queue) if !s.recorded.get() => {
            format!("{}, command {}", queue.describe(), s.sequence.get())
        }
        Some(queue) => format!("{}, in a recorded graph", queue.describe()),
        None => "no queue".to_owned(),
    };
    let is_finished = s.notify.closed(s.notify.generation()).is_some();
    let state = match (is_finished, s.state.unresolved()) {
        (true, _) => "over, but not all before it".to_owned(),
        (false, 0) => match Phase::from_byte(s.phase.load(Ordering::Relaxed)) {
            Phase::Queued => "ready, not started".to_owned(),
            Phase::Complete => "ending".to_owned(),
            phase => format!("{phase:?}").to_lowercase(),
        },
        (false, 1) => "1 wait is unresolved".to_owned(),
        (false, count) => format!("{count} waits are unresolved"),
    };
    format!("'{name}' ({kind}, {queue}: {state})")
}

/// The place in the source at which a user event was made, as its slot keeps it.
pub(super) fn location(word: u64) -> Option<&'static Location<'static>> {
    // SAFETY: null, or the word that `UserEvent::new` has put there: the address of a location,
    // which is static.
    unsafe { std::ptr::with_exposed_provenance::<Location<'static>>(word as usize).as_ref() }
}
