//! Handing ready commands to their drivers, in batches and without recursion.

use super::{Command, Kind, ReadySink};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

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

/// Hands a ready command to the sink or to its driver.
#[inline]
pub(crate) fn deliver(command: Command, sink: &mut impl ReadySink) {
    if let Some(command) = sink.accept(command) {
        dispatch(command);
    }
}

thread_local! {
    static READY: RefCell<VecDeque<Command>> = const { RefCell::new(VecDeque::new()) };
    /// How often this thread is inside of gathering or draining.
    static DRAINING: Cell<u32> = const { Cell::new(0) };
}

/// True if a command that is ready is done by whoever has it: it needs no device, and no driver is to have it for its
/// threads.
pub(crate) fn is_done_by_anyone(command: &Command) -> bool {
    command.needs_no_device()
        && (command.kind() != Kind::Graph || !command.queue().driver().plays_graphs())
}

/// Commands that are handed over together, at most.
const BATCH: usize = 256;

/// Hands a ready command to its driver, or ends it here if it is one that
/// needs no device. Iterative: what becomes ready meanwhile is queued.
pub(crate) fn dispatch(command: Command) {
    let length = READY.with_borrow_mut(|ready| {
        ready.push_back(command);
        ready.len()
    });
    match DRAINING.get() {
        0 => drain(),
        // A long list is handed over while it is gone through.
        1 if length >= BATCH => {
            DRAINING.set(0);
            drain();
            DRAINING.set(1);
        }
        _ => {}
    }
}

#[cold]
pub(super) fn drain() {
    if DRAINING.get() != 0 {
        return;
    }
    DRAINING.set(1);
    let mut batch = Vec::new();
    let mut driver: Option<Arc<dyn crate::driver::Driver>> = None;
    while let Some(command) = READY.with_borrow_mut(VecDeque::pop_front) {
        if is_done_by_anyone(&command) {
            let result = command.start();
            // Deeper than any gathering: what this releases is queued.
            DRAINING.set(2);
            match result {
                Ok(()) => command.finish_without_device(&mut ToDrivers),
                refused => command.finish(refused, &mut ToDrivers),
            }
            DRAINING.set(1);
            continue;
        }
        // Consecutive commands of one driver go to it together.
        let next = command.queue().driver();
        if !driver.as_ref().is_some_and(|held| Arc::ptr_eq(held, next)) {
            hand_over_batch(driver.as_ref(), &mut batch);
            driver = Some(next.clone());
        }
        batch.push(command);
        if batch.len() >= BATCH || READY.with_borrow(VecDeque::is_empty) {
            hand_over_batch(driver.as_ref(), &mut batch);
        }
    }
    hand_over_batch(driver.as_ref(), &mut batch);
    DRAINING.set(0);
    // The last command handed over by another thread meanwhile is not ours,
    // but what this thread's drivers made ready during the last batch is.
    if !READY.with_borrow(VecDeque::is_empty) {
        drain();
    }
}

pub(super) fn hand_over_batch(
    driver: Option<&Arc<dyn crate::driver::Driver>>,
    batch: &mut Vec<Command>,
) {
    if let (Some(driver), false) = (driver, batch.is_empty()) {
        driver.notify_ready(batch);
        debug_assert!(batch.is_empty(), "a driver takes all that is ready");
        batch.clear();
    }
}
