//! Handing ready commands to their drivers, and calling whom users have asked to be
//! called: in batches, and without recursion.
//!
//! A user's callback may wait, for anything. So it is called when its thread has
//! nothing in hand any more that it could wait for:
//!
//! 1. Who ends a command resolves what waits for it, and serves who waits for its
//!    queue ([`serve`](crate::queue)); what becomes ready meanwhile is *gathered*,
//!    and threads that sleep and wakers are told at once.
//! 2. The outermost [`drain`] hands over what was gathered. Commands that need no
//!    device end in there, after that, since wakers are told of them; what they make
//!    ready is gathered, too. A waker that waits has it go on at once.
//! 3. Commands of drivers that run them on this very thread come last, one batch
//!    after the other: what they run is a user's as well. Such a driver keeps
//!    callbacks until it is through with all that it has ([`KeptCallbacks`]).
//! 4. Callbacks are kept until the outermost end is through with all this
//!    ([`call_back`]). They are called one after the other: what one brings about is
//!    called when it has returned, or while it waits, unless that is for a limited
//!    time alone ([`let_go`]): what it waits for may be brought about by another that
//!    this thread is to call, also for what ends on it only then. Once it has happened,
//!    the others are left: one may wait for what comes after that wait.

use super::observers::Observer;
use super::{Command, Kind, ReadySink};
use crate::driver::Driver;
use crate::error::{ErrorKind, Result};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::thread::LocalKey;

/// A sink that takes nothing: every dependant goes to its driver.
pub struct ToDrivers;

impl ReadySink for ToDrivers {
    fn gather(&mut self, begin: bool) {
        if begin {
            DRAINING.set(DRAINING.get() + 1);
        } else {
            DRAINING.set(DRAINING.get() - 1);
            drain();
        }
    }

    #[inline]
    fn accept(&mut self, command: Command) -> Option<Command> {
        Some(command)
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

/// A list of a thread's own. It has no destructor: it is used to the thread's very end, where a user's thread-local is dropped
/// that waits for what it has enqueued. `EXIT` gives back what memory it has.
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
    edit(&OURS, VecDeque::shrink_to_fit);
    edit(&CALLS, VecDeque::shrink_to_fit);
}

/// The lists are not in use any more for now: their memory is given back when the thread ends, at once if it does already.
fn leave_lists() {
    if EXIT.try_with(|_| ()).is_err() {
        give_back_lists();
    }
}

thread_local! {
    static READY: List<Command> = const { List::new() };
    /// Of what is ready, what needs no device, and ends here. When it does, wakers are told, and one may wait for anything: so it
    /// comes when all else that is ready has gone to its driver, and the list that it was found in is gone through.
    static ENDS: List<Command> = const { List::new() };
    /// Of what was ready, the commands that this thread is to run.
    static OURS: List<Command> = const { List::new() };
    static EXIT: Exit = const { Exit };
    /// How often this thread is inside of gathering or draining.
    static DRAINING: Cell<u32> = const { Cell::new(0) };
    /// Callbacks of what is over.
    static CALLS: List<Arc<Observer>> = const { List::new() };
    /// How often they are kept for what this thread has yet to run.
    static KEPT: Cell<u32> = const { Cell::new(0) };
    /// True while one is called.
    static CALLING: Cell<bool> = const { Cell::new(false) };
    /// Callbacks of what was over already that this thread is inside of, each called by the one before.
    static AT_ONCE: Cell<u32> = const { Cell::new(0) };
    /// Waits that this thread is inside of, each in a callback that another one has let go.
    static WAITS: Cell<u32> = const { Cell::new(0) };
    /// Whether what the innermost of them waits for has happened. None outside of them, and where nobody calls back later.
    static HAPPENED: Cell<Option<&'static dyn Fn() -> bool>> = const { Cell::new(None) };
}

/// True if a command that is ready is done by whoever has it: it needs no device, and no driver is to have it for its
/// threads.
pub(crate) fn is_done_by_anyone(command: &Command) -> bool {
    command.needs_no_device()
        && (command.kind() != Kind::Graph || !command.queue().driver().plays_graphs())
}

/// As a depth of gathering and draining: this thread waits in the middle of an end, and what becomes ready goes on at once.
const WAITING: u32 = 1 << 31;

/// Commands that are handed over together, at most.
const BATCH: usize = 256;
/// Waits inside of each other's callbacks on one thread: far less than its stack has room for.
const MOST_WAITS: u32 = 64;
/// Callbacks of what is over already that are called inside of each other, as above.
const MOST_AT_ONCE: u32 = 16;

/// Hands a ready command to its driver, or ends it here if it is one that
/// needs no device. Iterative: what becomes ready meanwhile is queued. Whoever has
/// nothing in hand then [calls back](call_back).
pub(crate) fn dispatch(command: Command) {
    let ends_here = is_done_by_anyone(&command);
    let length = edit(if ends_here { &ENDS } else { &READY }, |ready| {
        ready.push_back(command);
        ready.len()
    });
    match DRAINING.get() {
        0 | WAITING => drain(),
        // A long list is handed over while it is gone through.
        1 if length >= BATCH && !ends_here => hand_over_to_drivers(),
        _ => {}
    }
}

#[cold]
pub(super) fn drain() {
    match DRAINING.get() {
        0 => {}
        WAITING => return hand_over_ready(),
        _ => return,
    }
    loop {
        hand_over_ready();
        let Some(first) = edit(&OURS, VecDeque::pop_front) else {
            return leave_lists();
        };
        let driver = first.queue().driver().clone();
        let mut batch = vec![first];
        edit(&OURS, |ours| {
            let is_next = |command: &mut Command| is_same(command.queue().driver(), &driver);
            while let Some(command) = ours.pop_front_if(is_next) {
                batch.push(command);
            }
        });
        KEPT.set(KEPT.get() + 1);
        hand_over_batch(Some(&driver), &mut batch);
        // They are called by who has this thread drain.
        KEPT.set(KEPT.get() - 1);
    }
}

fn is_same(one: &Arc<dyn Driver>, other: &Arc<dyn Driver>) -> bool {
    Arc::ptr_eq(one, other)
}

/// Hands over what is ready, but for what this thread is to run, and ends what needs no device.
fn hand_over_ready() {
    let outer = DRAINING.replace(1);
    loop {
        hand_over_to_drivers();
        let Some(command) = edit(&ENDS, VecDeque::pop_front) else {
            break;
        };
        end_here(command);
    }
    DRAINING.set(outer);
}

/// Hands over what is ready for drivers, but for what this thread is to run.
fn hand_over_to_drivers() {
    if edit(&READY, |ready| ready.is_empty()) {
        return;
    }
    let outer = DRAINING.replace(1);
    let mut batch = Vec::new();
    // The driver of the batch, and whether its commands are run by this thread.
    let mut held: Option<(Arc<dyn Driver>, bool)> = None;
    while let Some(command) = edit(&READY, VecDeque::pop_front) {
        // Consecutive commands of one driver go to it together.
        let next = command.queue().driver();
        if !held.as_ref().is_some_and(|(held, _)| is_same(held, next)) {
            hand_over_batch(held.as_ref().map(|(held, _)| held), &mut batch);
            held = Some((next.clone(), next.runs_on_waiting_threads()));
        }
        match &held {
            Some((_, true)) => edit(&OURS, |ours| ours.push_back(command)),
            _ => batch.push(command),
        }
        if batch.len() >= BATCH || edit(&READY, |ready| ready.is_empty()) {
            hand_over_batch(held.as_ref().map(|(held, _)| held), &mut batch);
        }
    }
    DRAINING.set(outer);
}

/// Ends a command that needs no device.
fn end_here(command: Command) {
    let result = command.start();
    // Deeper than any gathering: what this releases is queued.
    let outer = DRAINING.replace(2);
    match result {
        Ok(()) => command.finish_without_device(&mut ToDrivers),
        refused => command.finish(refused, &mut ToDrivers),
    }
    DRAINING.set(outer);
}

pub(super) fn hand_over_batch(driver: Option<&Arc<dyn Driver>>, batch: &mut Vec<Command>) {
    if let (Some(driver), false) = (driver, batch.is_empty()) {
        driver.notify_ready(batch);
        debug_assert!(batch.is_empty(), "a driver takes all that is ready");
        batch.clear();
    }
}

/// Tells those who observe what is over: threads and wakers at once, callbacks when
/// this thread [calls back](call_back).
pub(crate) fn tell(observers: impl IntoIterator<Item = Arc<Observer>>) {
    for observer in observers {
        if !observer.fire_unless_callback() {
            edit(&CALLS, |calls| calls.push_back(observer));
        }
    }
}

/// Calls users' callbacks, unless this thread has something in hand that they might
/// wait for, or is inside of one: then that is done by who called it.
#[cold]
pub(crate) fn call_back() {
    if DRAINING.get() != 0 || KEPT.get() != 0 || CALLING.replace(true) {
        return;
    }
    // Once what this thread waits for has happened, those that are left may wait for what it does then.
    while !HAPPENED.get().is_some_and(|happened| happened())
        && let Some(observer) = edit(&CALLS, VecDeque::pop_front)
    {
        observer.fire();
    }
    CALLING.set(false);
    leave_lists();
}

/// Calls the callback of what is over already: at once, unless it is inside of too many others that were. Then it is called when
/// the outermost of these has returned, or while one waits.
pub(crate) fn call_at_once(observer: Arc<Observer>) {
    let outer = AT_ONCE.get();
    if outer == MOST_AT_ONCE {
        edit(&CALLS, |calls| calls.push_back(observer));
        return;
    }
    AT_ONCE.set(outer + 1);
    observer.fire();
    AT_ONCE.set(outer);
    if outer == 0 {
        call_back();
    }
}

/// Keeps users' callbacks from being called by this thread, while it lives: for a driver that runs commands on the thread that has
/// made them ready. What a callback waits for may be what the thread has yet to run. A command that waits has them called.
///
/// It is that thread's alone:
///
/// ```compile_fail,E0277
/// let kept = quipu_core::command::KeptCallbacks::new();
/// std::thread::spawn(move || drop(kept));
/// ```
#[derive(Debug)]
pub struct KeptCallbacks(PhantomData<*const ()>);

impl KeptCallbacks {
    /// From now on.
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

/// While it lives, this thread waits: what ends on it meanwhile is called back, too.
#[must_use]
pub(crate) struct LetGo<'a> {
    draining: u32,
    calling: bool,
    kept: u32,
    waits: u32,
    outer: Option<&'static dyn Fn() -> bool>,
    happened: PhantomData<&'a dyn Fn() -> bool>,
}

impl Drop for LetGo<'_> {
    fn drop(&mut self) {
        HAPPENED.set(self.outer);
        CALLING.set(self.calling);
        KEPT.set(self.kept);
        WAITS.set(self.waits);
        DRAINING.set(self.draining);
    }
}

/// Before this thread waits: what it has in hand goes on, for it may be waited for, and so does what it ends while the result
/// lives. If it waits for a limited time alone, nobody is called back: a callback takes as long as it likes, and may wait for
/// what its thread does when time is up. For the same reason nobody is any more once what is waited for has `happened`,
/// unless there is nobody to do that later.
///
/// # Errors
/// If too many callbacks wait inside of each other already.
pub(crate) fn let_go<'a>(
    is_limited: bool,
    happened: &'a (dyn Fn() -> bool + 'a),
) -> Result<LetGo<'a>> {
    let outer = LetGo {
        draining: DRAINING.get(),
        calling: CALLING.get(),
        kept: KEPT.get(),
        waits: WAITS.get(),
        outer: HAPPENED.get(),
        happened: PhantomData,
    };
    let is_inside = outer.calling || outer.kept > 0 || outer.draining > 0;
    if is_inside {
        if outer.waits == MOST_WAITS && !happened() {
            return Err(ErrorKind::WouldDeadlock {
                why: "callbacks on this thread wait for each other, each inside of the one before; enqueue what \
                      comes after instead, or wait on another thread",
            }
            .into());
        }
        WAITS.set(outer.waits + 1);
        DRAINING.set(0);
        hand_over_ready();
    }
    // In the middle of an end, nobody can be called back.
    if outer.draining > 0 {
        DRAINING.set(WAITING);
    } else if !is_limited {
        // SAFETY: taken back as the result is dropped, which borrows it; the two callers keep that to the end of their waits.
        let happened = unsafe {
            std::mem::transmute::<&'a (dyn Fn() -> bool + 'a), &'static (dyn Fn() -> bool + 'static)>(
                happened,
            )
        };
        HAPPENED.set(is_inside.then_some(happened));
        CALLING.set(false);
        KEPT.set(0);
        call_back();
    }
    Ok(outer)
}
