//! Machines that only waiting threads step: drivers that go on only while a thread
//! [joins](crate::Driver::join) them. The commands of such a driver run on waiting threads, and it
//! needs flushes.
//!
//! * A wait may need a machine whichever driver its goal is of, as it may need a flush. So each
//!   wait steps the machines of the contexts that it flushes (`queue::flush`).
//! * A thread that waits steps them in turn before each time that it sleeps, each until the machine
//!   is idle or the wait is over, and then sleeps for a moment only (`Waiter::step`).
//! * A context notes its machines as it is made, and takes them out as it ends. A process without
//!   such machines pays a load for each wait.
//! * A thread that sleeps already does not know of a new machine. So it is woken as one is noted.

use super::blocked;
use crate::queue::flush;
use crate::queue::place::Place;
use crate::router::{Router, is_same};
use crate::sync::lock;
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The machines, each with a context that has it.
static MACHINES: Mutex<Vec<(u32, Arc<dyn Router>)>> = Mutex::new(Vec::new());
/// True while there are any.
static ARE_THERE: AtomicBool = AtomicBool::new(false);

/// Some machines.
pub(super) type Machines = SmallVec<[Arc<dyn Router>; 2]>;

/// Notes the machines of a new context.
pub(crate) fn note(context: u32, drivers: impl Iterator<Item = Arc<dyn Router>>) {
    let machines: Machines = drivers.collect();
    if machines.is_empty() {
        return;
    }
    let mut noted = lock(&MACHINES);
    noted.extend(machines.into_iter().map(|machine| (context, machine)));
    ARE_THERE.store(true, Ordering::Relaxed);
    drop(noted);
    blocked::wake_all();
}

/// A context ends, which has its drivers still.
pub(crate) fn forget_context(context: u32) {
    if are_there_any() {
        let mut noted = lock(&MACHINES);
        noted.retain(|(of, _)| *of != context);
        ARE_THERE.store(!noted.is_empty(), Ordering::Relaxed);
    }
}

#[inline]
pub(super) fn are_there_any() -> bool {
    ARE_THERE.load(Ordering::Relaxed)
}

/// The machines that a wait for commands of these queues may need, each once, in the order in which
/// they were noted. `None` stands for the host's event.
#[cold]
pub(super) fn needed_for(queues: impl Iterator<Item = Option<&'static Place>>) -> Machines {
    let contexts = flush::needed_for(queues);
    let mut machines = Machines::new();
    for (context, machine) in &*lock(&MACHINES) {
        let is_needed = contexts
            .as_ref()
            .is_none_or(|contexts| contexts.contains(context));
        if is_needed && !machines.iter().any(|known| is_same(&**known, &**machine)) {
            machines.push(machine.clone());
        }
    }
    machines
}

/// The state of a waiting thread's step of a machine.
#[derive(Default)]
pub(super) struct Step(Cell<State>);

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    None,
    Going,
    /// The machine has nothing to do, and is to give the thread back.
    Over,
}

impl Step {
    /// Runs a step, which may run a user's code and so panic.
    pub(super) fn run<R>(&self, step: impl FnOnce() -> R) -> R {
        struct Ends<'a>(&'a Step);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.0.0.set(State::None);
            }
        }
        self.0.set(State::Going);
        let _ends = Ends(self);
        step()
    }

    /// Ends the step that the thread is in. False if it is in none.
    pub(super) fn end(&self) -> bool {
        let is_going = self.is_going();
        if is_going {
            self.0.set(State::Over);
        }
        is_going
    }

    /// True from the begin of a step until the machine gives the thread back.
    pub(super) fn is_going(&self) -> bool {
        self.0.get() != State::None
    }

    /// True once the machine has nothing to do.
    pub(super) fn is_over(&self) -> bool {
        self.0.get() == State::Over
    }
}
