//! Deferred calls: ready commands are handed to their drivers, and wakers and callbacks
//! are called, in batches and without recursion.
//!
//! A user's callback may wait for anything. So its thread calls it after it has handed over all
//! commands that the callback could wait for:
//!
//! 1. The end of a command resolves the waits for it, and serves the waits for its queue
//!    ([`serve`](super::serve)). Commands that become ready meanwhile are *gathered*. Threads that
//!    sleep are told as they are found; wakers and callbacks are *noted* ([`announce`]). Wakers are
//!    called after all of this ([`wake`]). A waker that waits has the following ones called first.
//!    The wakers of events that a waker ends are called inside of it, as long as there are not too
//!    many inside of each other.
//! 2. The outermost [`drain`] hands over the gathered commands. Commands that need no device end
//!    after that in there, since wakers are told of them. Those that own a user's values are the
//!    last, for a destructor may wait for any of the others ([`run_destructors`]). The commands
//!    that they make ready are gathered, too. A waker that waits has them go on at once. Wakers
//!    that were noted meanwhile are called after all that: a driver may end a command that it is
//!    handed while it has others in hand.
//! 3. Commands of drivers that run them on this very thread come when all observers have been told,
//!    as the thread begins to [call back](call_back), one batch after the other. Their bodies are a
//!    user's code as well. A thread that waits before that runs those that its wait needs, and no
//!    others ([`hand_over_found`]). Such a driver keeps callbacks until it is through with all its
//!    commands ([`KeptCallbacks`]).
//! 4. Callbacks are kept until the outermost end is through with all this
//!    ([`call_back`]). They run one after the other. A callback may finish commands.
//!    The callbacks of these commands run when it returns, or while it waits without a
//!    time limit ([`enter_blocking_wait`]), because it may wait for one of them. Once
//!    its wait is over, the remaining callbacks are left: one of them may wait for
//!    something that comes after that wait.
//!
//! A driver may panic as it is told of commands, in the middle of other commands' ends. The panic
//! is contained ([`contain`]): a command that the driver has dropped fails as any dropped command
//! does, and the rest goes on.

use super::owned::{Command, Gather, ReadySink};
use super::slot::Kind;
use crate::error::{ErrorKind, Result};
use crate::limits::{BATCH, MOST_AT_ONCE, MOST_WAITS};
use crate::observers::{Delivery, Observer};
use crate::panics::{quietly, text_of};
use crate::router::{Router, is_same};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::LocalKey;

/// A sink that takes nothing: every dependant goes to its driver.
pub struct ToDrivers;

impl ReadySink for ToDrivers {
    fn gather(&mut self, step: Gather) {
        if step.begins() {
            DRAINING.set(DRAINING.get() + 1);
        } else {
            // A sink may pass on an end, and not what has begun.
            DRAINING.set(DRAINING.get().saturating_sub(1));
            drain();
        }
    }

    #[inline]
    fn accept(&mut self, command: Command) -> Option<Command> {
        Some(command)
    }
}

/// Gathers commands that this thread makes ready, while it lives. Then all of them are handed over
/// together.
#[must_use]
pub(crate) struct Gathering(());

impl Gathering {
    pub(crate) fn begin() -> Self {
        ToDrivers.gather(Gather::BEGIN);
        Self(())
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        ToDrivers.gather(Gather::END);
    }
}

/// Hands a ready command to the sink or to its driver; true if this thread had to
/// see to it: then there may be callbacks.
#[inline]
pub(crate) fn deliver(command: Command, sink: &mut impl ReadySink) -> bool {
    let command = sink.accept(command);
    let is_left = command.is_some();
    if let Some(command) = command {
        dispatch(command);
    }
    is_left
}

/// A list of a thread's own, without a destructor. A thread uses it to its very end: a user's
/// thread-local that is dropped there may wait for commands that it has enqueued. `EXIT` gives back
/// the memory of the list.
struct List<T>(ManuallyDrop<RefCell<VecDeque<T>>>);

impl<T> List<T> {
    const fn new() -> Self {
        Self(ManuallyDrop::new(RefCell::new(VecDeque::new())))
    }
}

fn edit<T, R>(list: &'static LocalKey<List<T>>, edit: impl FnOnce(&mut VecDeque<T>) -> R) -> R {
    list.with(|list| edit(&mut list.0.borrow_mut()))
}

/// Gives back the memory of this thread's lists, as it ends.
struct Exit;

impl Drop for Exit {
    fn drop(&mut self) {
        give_back_lists();
    }
}

fn give_back_lists() {
    edit(&READY, VecDeque::shrink_to_fit);
    edit(&ENDS, VecDeque::shrink_to_fit);
    edit(&LAST_ENDS, VecDeque::shrink_to_fit);
    edit(&OURS, VecDeque::shrink_to_fit);
    edit(&CALLS, VecDeque::shrink_to_fit);
    edit(&WAKES, VecDeque::shrink_to_fit);
}

/// The lists are not in use any more for now: their memory is given back when the thread ends, at
/// once if it does already.
fn leave_lists() {
    if EXIT.try_with(|_| ()).is_err() {
        give_back_lists();
    }
}

thread_local! {
    static READY: List<Command> = const { List::new() };
    /// The ready commands that need no device, and end here. Such an end tells wakers, and a waker
    /// may wait for anything. So it comes when all other ready commands have gone to their drivers,
    /// and this thread is through with the list that it was in.
    static ENDS: List<Command> = const { List::new() };
    /// Those of them whose ends run a user's destructors, which may wait for the others.
    static LAST_ENDS: List<Command> = const { List::new() };
    /// The ready commands that this thread is to run.
    static OURS: List<Command> = const { List::new() };
    static EXIT: Exit = const { Exit };
    static PUBLISHER: Cell<Option<Publisher>> = const { Cell::new(None) };
    /// The number of times that this thread is inside of gathering or draining.
    static DRAINING: Cell<u32> = const { Cell::new(0) };
    /// The value of `DRAINING` as the thread called the innermost waker that it is inside of.
    static WAKING_AT: Cell<u32> = const { Cell::new(NOT_WAKING) };
    /// The value of `DRAINING` as this thread began to end a command that needs no device. No
    /// driver has commands in hand there.
    static ENDING_AT: Cell<u32> = const { Cell::new(NOT_ENDING) };
    /// Wakers of finished events that this thread is about to call.
    static WAKES: List<Arc<Observer>> = const { List::new() };
    /// The number of wakers ever taken from the front of `WAKES`. A waker's position is this number
    /// and the waker's index, and does not change.
    static TAKEN: Cell<u64> = const { Cell::new(0) };
    /// Wakers in front of this position are left for when the waker or callback that this thread is
    /// inside of has returned.
    static OTHERS_END: Cell<u64> = const { Cell::new(0) };
    /// Callbacks of finished events.
    static CALLS: List<Arc<Observer>> = const { List::new() };
    /// The number of callbacks ever taken from the front of `CALLS`.
    static CALLED: Cell<u64> = const { Cell::new(0) };
    /// Callbacks in front of this position are left for when the waker that this thread is inside
    /// of has returned, or waits.
    static LEFT_END: Cell<u64> = const { Cell::new(0) };
    /// The number of reasons to keep callbacks: commands that this thread has yet to run.
    static KEPT: Cell<u32> = const { Cell::new(0) };
    /// True while one is called.
    static CALLING: Cell<bool> = const { Cell::new(false) };
    /// Callbacks of finished events that this thread is inside of, each called by the one before.
    static AT_ONCE: Cell<u32> = const { Cell::new(0) };
    /// Wakers that this thread is inside of, each called by the one before, since its innermost
    /// wait began.
    static WOKEN: Cell<u32> = const { Cell::new(0) };
    /// Waits that this thread is inside of, each in a callback that another one has let go.
    static WAITS: Cell<u32> = const { Cell::new(0) };
    /// The condition that the innermost of them waits for. None outside of them, and where nothing
    /// calls back later.
    static HAPPENED: Cell<Option<&'static dyn Fn() -> bool>> = const { Cell::new(None) };
    /// Hands over the commands that the innermost of them needs. Set by the first of them, and only
    /// called within one.
    static NEEDED: Cell<fn()> = const { Cell::new(|| {}) };
}

/// Shows tasks to other threads of a driver that only this thread knows of.
pub type Publisher = fn();

/// Sets the function that this thread calls from now on before it runs a user's code in the middle
/// of a command's end: a waker, a callback, or commands of a driver that runs them on this very
/// thread. Gives the function that was set before. For a driver whose threads keep ready commands
/// to themselves: that code may take any time, or block.
pub fn replace_publisher(publisher: Option<Publisher>) -> Option<Publisher> {
    PUBLISHER.replace(publisher)
}

/// Called before this thread runs a user's code: ready commands that it has in hand go to their
/// drivers, and its driver shows the tasks that it keeps to itself.
pub(super) fn publish() {
    hand_over_to_drivers();
    if let Some(publisher) = PUBLISHER.get() {
        contain(publisher);
    }
}

/// True if the thread that has a ready command does it itself: it needs no device, and no driver is
/// to have it for its threads.
pub(crate) fn is_done_by_anyone(command: &Command) -> bool {
    command.needs_no_device()
        && (command.kind() != Kind::Graph || !command.queue().router().takes_ready_graphs())
}

/// A depth of gathering and draining: this thread waits in the middle of an end, and hands over
/// ready commands at once.
const WAITING: u32 = 1 << 31;

/// The depth of a thread that calls no waker.
const NOT_WAKING: u32 = u32::MAX;

/// The depth of a thread that ends no command which needs no device.
const NOT_ENDING: u32 = u32::MAX - 1;

/// Hands a ready command to its driver, or ends it here if it is one that needs no device.
/// Iterative: commands that become ready meanwhile are queued. A thread that has nothing in hand
/// then [calls back](call_back).
pub(crate) fn dispatch(command: Command) {
    let ends_here = is_done_by_anyone(&command);
    let list = match ends_here {
        false => &READY,
        true if command.owns_values() => &LAST_ENDS,
        true => &ENDS,
    };
    let length = edit(list, |ready| {
        ready.push_back(command);
        ready.len()
    });
    match DRAINING.get() {
        0 | WAITING => drain(),
        // A long list is handed over while it is gone through.
        1 if length >= BATCH && !ends_here => hand_over_to_drivers(),
        depth if depth == WAKING_AT.get() && !ends_here => hand_over_to_drivers(),
        _ => {}
    }
}

#[cold]
pub(super) fn drain() {
    let waits = match DRAINING.get() {
        0 => false,
        WAITING => true,
        // A waker may block for a command that it has made ready. Commands that end here wait for
        // its return: they wake others.
        depth if depth == WAKING_AT.get() => return hand_over_to_drivers(),
        _ => return,
    };
    {
        // This loop hands over the commands that a waker makes ready, unless the waker waits for
        // them. So no loop nests.
        let _depth = Depth::enter(1);
        loop {
            hand_over_ready();
            let Some(waker) = take_waker() else { break };
            call_waker(&waker);
        }
    }
    if waits {
        NEEDED.get()();
    }
}

/// Hands over those commands that `find` finds among the ones that this thread is to run, until it
/// finds none. Used by a wait in the middle of an end, or of a batch of these: other threads may
/// wait for the code after it.
pub(crate) fn hand_over_found(find: impl Fn(&VecDeque<Command>) -> Option<usize>) {
    if edit(&OURS, |ours| ours.is_empty()) {
        return;
    }
    while let Some(command) = edit(&OURS, |ours| ours.remove(find(ours)?)) {
        let driver = command.queue().router().clone();
        KEPT.set(KEPT.get() + 1);
        publish();
        hand_over_batch(Some(&driver), &mut vec![command]);
        KEPT.set(KEPT.get() - 1);
        hand_over_ready();
    }
}

/// Hands over all that this thread is to run: for a wait that is so long that another thread may
/// need these.
pub(crate) fn hand_over_all() {
    while hand_over_ours() {
        hand_over_ready();
    }
}

/// True if there is something that this thread is to run.
pub(crate) fn has_ours() -> bool {
    edit(&OURS, |ours| !ours.is_empty())
}

/// Hands over the next batch of commands that this thread is to run; false if there is none.
fn hand_over_ours() -> bool {
    let Some(first) = edit(&OURS, VecDeque::pop_front) else {
        return false;
    };
    let driver = first.queue().router().clone();
    let mut batch = vec![first];
    edit(&OURS, |ours| {
        let is_next = |command: &mut Command| is_same(&**command.queue().router(), &*driver);
        while let Some(command) = ours.pop_front_if(is_next) {
            batch.push(command);
        }
    });
    KEPT.set(KEPT.get() + 1);
    publish();
    hand_over_batch(Some(&driver), &mut batch);
    // They are called by the caller that has this thread drain.
    KEPT.set(KEPT.get() - 1);
    true
}

/// Hands over ready commands, except those that this thread is to run, and ends those that need no
/// device.
fn hand_over_ready() {
    let _depth = Depth::enter(1);
    loop {
        hand_over_to_drivers();
        let next = edit(&ENDS, VecDeque::pop_front);
        let Some(command) = next.or_else(|| edit(&LAST_ENDS, VecDeque::pop_front)) else {
            break;
        };
        end_here(command);
    }
}

/// Hands over ready commands for drivers, except those that this thread is to run.
fn hand_over_to_drivers() {
    if edit(&READY, |ready| ready.is_empty()) {
        return;
    }
    // Deeper than any gathering: commands that a driver makes ready here, by ending others, are
    // handed over by this loop.
    let _depth = Depth::enter(2);
    let mut batch = Vec::new();
    // The driver of the batch, and whether its commands are run by this thread.
    let mut held: Option<(Arc<dyn Router>, bool)> = None;
    while let Some(command) = edit(&READY, VecDeque::pop_front) {
        // Consecutive commands of one driver go to it together.
        let next = command.queue().router();
        if !held
            .as_ref()
            .is_some_and(|(held, _)| is_same(&**held, &**next))
        {
            hand_over_batch(held.as_ref().map(|(held, _)| held), &mut batch);
            held = Some((next.clone(), next.is_run_by_waits()));
        }
        match &held {
            Some((_, true)) => edit(&OURS, |ours| ours.push_back(command)),
            _ => batch.push(command),
        }
        if batch.len() >= BATCH || edit(&READY, |ready| ready.is_empty()) {
            hand_over_batch(held.as_ref().map(|(held, _)| held), &mut batch);
        }
    }
}

/// Ends a command that needs no device.
fn end_here(command: Command) {
    let result = command.start();
    // Deeper than any gathering: commands that this releases are queued.
    let _depth = Depth::enter(2);
    ENDING_AT.set(2);
    match result {
        Ok(()) => command.finish_without_device(&mut ToDrivers),
        refused => command.finish(refused, &mut ToDrivers),
    }
}

/// Runs destructors of what a command owns, in the middle of its end: a user's code, which may wait
/// as a waker may. If the command needs no device, so that no driver has others in hand, the thread
/// first shows the tasks that it keeps to itself, and a wait has callbacks called.
pub(super) fn run_destructors(run: impl FnOnce()) {
    if DRAINING.get() != ENDING_AT.get() {
        return run();
    }
    publish();
    let depth = WAKING_AT.replace(DRAINING.get());
    let others = OTHERS_END.replace(end_of_wakes());
    run();
    OTHERS_END.set(others);
    WAKING_AT.set(depth);
}

/// Enters so deep a level of gathering and draining, inside of no waker and no end there, while it
/// lives. A panic leaves the level, too.
struct Depth {
    draining: u32,
    waking_at: u32,
    ending_at: u32,
}

impl Depth {
    fn enter(depth: u32) -> Self {
        Self {
            draining: DRAINING.replace(depth),
            waking_at: WAKING_AT.replace(NOT_WAKING),
            ending_at: ENDING_AT.replace(NOT_ENDING),
        }
    }
}

impl Drop for Depth {
    fn drop(&mut self) {
        DRAINING.set(self.draining);
        WAKING_AT.set(self.waking_at);
        ENDING_AT.set(self.ending_at);
    }
}

/// Calls a driver in the middle of a command's end. The end goes on whatever the driver does.
pub(crate) fn contain(call: impl FnOnce()) {
    // Wakers that are noted by now are not called in there, where a driver may refuse their waits.
    let others = OTHERS_END.replace(end_of_wakes());
    let outcome = catch_unwind(AssertUnwindSafe(call));
    OTHERS_END.set(others);
    if let Err(panic) = outcome {
        let message = text_of(panic);
        quietly(|| {
            tracing::error!(
                message,
                "a driver panicked as it was told of commands; those that it has dropped fail"
            );
        });
    }
}

pub(super) fn hand_over_batch(driver: Option<&Arc<dyn Router>>, batch: &mut Vec<Command>) {
    if crate::process::is_forked() {
        // Its threads are not here.
        std::mem::take(batch).into_iter().for_each(std::mem::forget);
        return;
    }
    if let (Some(driver), false) = (driver, batch.is_empty()) {
        contain(|| {
            driver.hand_over(batch);
            debug_assert!(batch.is_empty(), "a driver takes all that is ready");
        });
        // Commands that a driver leaves behind, which it must not, fail.
        batch.clear();
    }
}

/// Tells the observers of a finished event: threads at once, then wakers, which are a user's code
/// and may wait for these. Callbacks are called when this thread [calls back](call_back), or a
/// waker waits.
pub(crate) fn tell(observers: impl IntoIterator<Item = Arc<Observer>>) {
    announce(observers);
    wake();
}

/// The first half of [`tell`], which runs no user's code: threads are told. Wakers and callbacks
/// are noted, so that a thread that waits meanwhile calls them.
pub(crate) fn announce(observers: impl IntoIterator<Item = Arc<Observer>>) {
    for observer in observers {
        match observer.delivery() {
            Delivery::AtOnce => observer.fire(),
            Delivery::Wakes => edit(&WAKES, |wakes| wakes.push_back(observer)),
            Delivery::CallsBack => edit(&CALLS, |calls| calls.push_back(observer)),
        }
    }
}

/// Calls the wakers that were noted, but for those of the waker that this thread is inside of:
/// their turn comes when that has returned, or while it waits. Where this thread gathers, or a
/// driver is told of commands, the turn of all comes when it is through with that: a waker may wait
/// for a command that is gathered, or that the driver has in hand. Inside of too many wakers, the
/// loop that has called the innermost one goes on with these, and so does a wait.
pub(crate) fn wake() {
    let depth = DRAINING.get();
    if !matches!(depth, 0 | WAITING) && depth != WAKING_AT.get() || WOKEN.get() == MOST_AT_ONCE {
        return;
    }
    while let Some(waker) = take_waker() {
        call_waker(&waker);
    }
}

/// Calls a waker. The callbacks that are noted by now come after it, unless it waits: one of them
/// may wait for what the waker does next.
fn call_waker(waker: &Observer) {
    let noted = CALLED.get() + edit(&CALLS, |calls| calls.len()) as u64;
    let left = LEFT_END.replace(noted);
    let outer = WOKEN.replace(WOKEN.get() + 1);
    fire(waker);
    WOKEN.set(outer);
    LEFT_END.set(left);
}

/// Takes the first of the callbacks that were noted, but for those that are left. The others are
/// kept in a child of `fork`, which the one before has made.
fn take_callback() -> Option<Arc<Observer>> {
    if crate::process::is_forked() {
        return None;
    }
    match LEFT_END.get().saturating_sub(CALLED.get()) {
        0 => {
            let callback = edit(&CALLS, VecDeque::pop_front)?;
            CALLED.set(CALLED.get() + 1);
            Some(callback)
        }
        // All that are left stay in front of it.
        left => edit(&CALLS, |calls| calls.remove(left as usize)),
    }
}

/// Takes the first of the wakers that were noted, but for others'. All are kept in a child of
/// `fork`.
fn take_waker() -> Option<Arc<Observer>> {
    if crate::process::is_forked() {
        return None;
    }
    match OTHERS_END.get().saturating_sub(TAKEN.get()) {
        0 => {
            let waker = edit(&WAKES, VecDeque::pop_front)?;
            TAKEN.set(TAKEN.get() + 1);
            Some(waker)
        }
        // All that are others' stay in front of it.
        others => edit(&WAKES, |wakes| wakes.remove(others as usize)),
    }
}

/// The position behind all wakers that were noted.
fn end_of_wakes() -> u64 {
    TAKEN.get() + edit(&WAKES, |wakes| wakes.len()) as u64
}

/// Has an observer do its action, once. Before a user's code runs, this thread shows the tasks that
/// it keeps to itself.
pub(crate) fn fire(observer: &Observer) {
    if observer.delivery() == Delivery::AtOnce {
        return observer.fire();
    }
    publish();
    let depth = WAKING_AT.replace(DRAINING.get());
    let others = OTHERS_END.replace(end_of_wakes());
    observer.fire();
    OTHERS_END.set(others);
    WAKING_AT.set(depth);
}

/// Runs the commands that this thread is to run, and calls users' callbacks. Does neither if the
/// thread has commands in hand that they might wait for, or is inside of a callback: then the
/// caller of that does so.
#[cold]
pub(crate) fn call_back() {
    if DRAINING.get() == 0 {
        while hand_over_ours() {
            hand_over_ready();
        }
    }
    call_callbacks();
}

fn call_callbacks() {
    let is_through = matches!(DRAINING.get(), 0 | WAITING);
    if !is_through || KEPT.get() != 0 || CALLING.replace(true) {
        return;
    }
    // Once the thread's wait is over, the remaining callbacks may wait for the code after it.
    while !HAPPENED.get().is_some_and(|happened| happened())
        && let Some(observer) = take_callback()
    {
        fire(&observer);
    }
    CALLING.set(false);
    leave_lists();
}

/// Calls the callback of a finished event at once, unless the thread is inside of too many others
/// like it. Then it is called when the outermost of these has returned, or while one waits.
pub(crate) fn call_at_once(observer: Arc<Observer>) {
    let outer = AT_ONCE.get();
    if outer == MOST_AT_ONCE {
        edit(&CALLS, |calls| calls.push_back(observer));
        return;
    }
    AT_ONCE.set(outer + 1);
    fire(&observer);
    AT_ONCE.set(outer);
    if outer == 0 {
        call_back();
    }
}

/// Keeps users' callbacks from being called by this thread, while it lives. For a driver that runs
/// commands on the thread that has made them ready: a callback may wait for a command that the
/// thread has yet to run. A command that waits has them called.
///
/// It stays on that thread:
///
/// ```compile_fail,E0277
/// let kept = quipu_scheduler::command::KeptCallbacks::new();
/// std::thread::spawn(move || drop(kept));
/// ```
#[derive(Debug)]
pub struct KeptCallbacks(PhantomData<*const ()>);

impl KeptCallbacks {
    /// Keeps them from now on.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "it does something")]
    pub fn new() -> Self {
        KEPT.set(KEPT.get() + 1);
        Self(PhantomData)
    }
}

impl Drop for KeptCallbacks {
    /// Calls them, unless they are kept for something else.
    fn drop(&mut self) {
        KEPT.set(KEPT.get() - 1);
        call_back();
    }
}

/// A wait of this thread, while it lives: callbacks of events that end on the thread meanwhile are
/// called, too.
#[must_use]
pub(crate) struct BlockingWait<'a> {
    draining: u32,
    calling: bool,
    kept: u32,
    waits: u32,
    woken: u32,
    others_end: u64,
    left_end: u64,
    outer: Option<&'static dyn Fn() -> bool>,
    happened: PhantomData<&'a dyn Fn() -> bool>,
}

impl Drop for BlockingWait<'_> {
    fn drop(&mut self) {
        HAPPENED.set(self.outer);
        CALLING.set(self.calling);
        KEPT.set(self.kept);
        WAITS.set(self.waits);
        WOKEN.set(self.woken);
        OTHERS_END.set(self.others_end);
        LEFT_END.set(self.left_end);
        DRAINING.set(self.draining);
    }
}

/// Called before this thread waits. Commands that it has in hand go on, because the wait may be for
/// one of them, and so do those that it ends while the result lives. In a wait with a time limit,
/// no callback and no waker is called: a callback takes as long as it likes, and may wait for
/// something that its thread does when time is up. For the same reason none is called any more once
/// the wait's condition has `happened`, unless nothing would call it later.
///
/// `hand_over_needed` hands over commands that become ready in the middle of an end, and that the
/// wait needs.
///
/// # Errors
/// If too many callbacks wait inside of each other already.
pub(crate) fn enter_blocking_wait<'a>(
    is_limited: bool,
    happened: &'a (dyn Fn() -> bool + 'a),
    hand_over_needed: fn(),
) -> Result<BlockingWait<'a>> {
    let outer = BlockingWait {
        draining: DRAINING.get(),
        calling: CALLING.get(),
        kept: KEPT.get(),
        waits: WAITS.get(),
        woken: WOKEN.get(),
        others_end: OTHERS_END.get(),
        left_end: LEFT_END.get(),
        outer: HAPPENED.get(),
        happened: PhantomData,
    };
    if !is_limited {
        OTHERS_END.set(0);
    }
    let is_waking = edit(&WAKES, |wakes| !wakes.is_empty());
    let is_woken = WAKING_AT.get() != NOT_WAKING;
    let is_inside = outer.calling || outer.kept > 0 || outer.draining > 0 || is_waking || is_woken;
    if is_inside {
        if outer.waits == MOST_WAITS && !happened() {
            return Err(ErrorKind::WouldDeadlock {
                why: "callbacks on this thread wait for each other, each inside of the one before; enqueue what \
                      comes after instead, or wait on another thread"
                    .into(),
            }
            .into());
        }
        WAITS.set(outer.waits + 1);
        WOKEN.set(0);
        DRAINING.set(0);
        hand_over_ready();
    }
    // In the middle of an end, a waker alone may need those that are called back.
    let calls = !is_limited && (outer.draining == 0 || outer.draining == WAKING_AT.get());
    if outer.draining > 0 {
        NEEDED.set(hand_over_needed);
        DRAINING.set(WAITING);
        KEPT.set(outer.kept + 1);
    }
    if calls {
        // SAFETY: taken back as the result is dropped, which borrows it; the two callers keep that
        // to the end of their waits.
        let happened = unsafe {
            std::mem::transmute::<&'a (dyn Fn() -> bool + 'a), &'static (dyn Fn() -> bool + 'static)>(
                happened,
            )
        };
        HAPPENED.set(is_inside.then_some(happened));
        CALLING.set(false);
        KEPT.set(0);
        LEFT_END.set(0);
        // Commands that this thread is to run are left to the wait, which runs those that it needs.
        hand_over_ready();
        call_callbacks();
    }
    // One of the wakers that this thread is about to call may bring about the end of the wait.
    while !is_limited
        && !happened()
        && let Some(waker) = take_waker()
    {
        call_waker(&waker);
        call_callbacks();
    }
    Ok(outer)
}
