//! Faults, and their times.

use super::Refusal;
use std::collections::HashMap;
use std::sync::{Condvar, Mutex};
use std::thread::{self, ThreadId};

/// A place where something can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// A call that puts a part of a command on a device.
    Put,
    /// A part of a command, as the device runs it.
    Run,
    /// The call that has a device begin.
    Flush,
    /// Asking for a command's status.
    Status,
    /// Asking to be called.
    Callback,
    /// Compiling.
    Compile,
    /// Taking memory.
    Reserve,
    /// Copies of the host's.
    HostCopy,
    /// Making a batch.
    Make,
}

/// The calls that fail.
#[derive(Clone, Copy, Debug)]
enum When {
    /// The calls from this to that, counted from now.
    Calls(u64, u64),
    /// So many in a thousand.
    Often(u64),
}

/// See the module.
pub(crate) struct Faults {
    state: Mutex<State>,
    change: Condvar,
}

struct State {
    random: u64,
    planned: HashMap<Fault, (When, Refusal)>,
    violations: Vec<String>,
    /// Calls so far.
    calls: HashMap<Fault, u64>,
    /// Refusals so far.
    refused: u64,
    /// Called at the next.
    once_refused: Option<Box<dyn FnOnce() + Send>>,
    /// No device runs anything.
    held: bool,
    /// Parts of commands that they run all the same.
    allowed: u64,
    /// No device calls.
    muted: bool,
    /// No batch is made.
    unmade: bool,
    /// Memory is elsewhere.
    moved: bool,
    /// The number of times that the driver's own thread has asked for a status.
    looks: u64,
    /// The number of times that any thread has.
    all_looks: u64,
    /// The number of threads that ask for one now, and the most that did at once.
    looking: u64,
    most_looking: u64,
    /// The time, by which commands take as long as a test says: none, usually.
    now: u64,
    /// The part of it that passes at each question for a status.
    pace: u64,
    /// The thread that has ended a command last.
    ended_by: Option<ThreadId>,
    /// The most threads that a block of a kernel has room for, if there is such a number.
    room: Option<u64>,
    /// The threads of the blocks of each launch that was put on a device, or into a batch.
    launched: Vec<Vec<u64>>,
}

/// The next of a sequence of random numbers: xorshift (Marsaglia 2003).
pub(crate) fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

impl Faults {
    /// The time.
    pub(crate) fn now(&self) -> u64 {
        let mut state = self.state();
        state.now += state.pace;
        state.now
    }

    /// From now on so many nanoseconds pass whenever somebody asks for the time: so commands take
    /// so long.
    pub(crate) fn pace(&self, nanoseconds: u64) {
        self.state().pace = nanoseconds;
    }

    /// So many nanoseconds pass.
    pub(crate) fn pass(&self, nanoseconds: u64) {
        self.state().now += nanoseconds;
    }

    /// From now on kernels are compiled so that their blocks have room for so many threads.
    #[allow(dead_code, reason = "not all tests are of this")]
    pub(crate) fn leave_room_for(&self, threads: u64) {
        self.state().room = Some(threads);
    }

    pub(super) fn room(&self) -> Option<u64> {
        self.state().room
    }

    pub(super) fn note_launch(&self, threads: &[u64]) {
        self.state().launched.push(threads.to_vec());
    }

    /// The threads of the blocks of each launch since this was last asked.
    #[allow(dead_code, reason = "not all tests are of this")]
    pub(crate) fn launched(&self) -> Vec<Vec<u64>> {
        std::mem::take(&mut self.state().launched)
    }

    pub(crate) fn new(seed: u64) -> Self {
        let state = State {
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            planned: HashMap::new(),
            violations: Vec::new(),
            calls: HashMap::new(),
            refused: 0,
            once_refused: None,
            held: false,
            allowed: 0,
            muted: false,
            unmade: false,
            moved: false,
            looks: 0,
            all_looks: 0,
            looking: 0,
            most_looking: 0,
            now: 0,
            pace: 0,
            ended_by: None,
            room: None,
            launched: Vec::new(),
        };
        Self {
            state: Mutex::new(state),
            change: Condvar::new(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    /// Of the calls from now on, `count` go wrong after `skip` that do not.
    pub(crate) fn plan(&self, fault: Fault, skip: u64, count: u64, refusal: Refusal) {
        let when = When::Calls(skip, skip.saturating_add(count));
        self.state().planned.insert(fault, (when, refusal));
    }

    /// So many in a thousand calls go wrong.
    pub(crate) fn often(&self, fault: Fault, thousandths: u64, refusal: Refusal) {
        let when = When::Often(thousandths);
        self.state().planned.insert(fault, (when, refusal));
    }

    /// The number of calls.
    #[allow(dead_code, reason = "not all tests are of this")]
    pub(crate) fn calls(&self, fault: Fault) -> u64 {
        self.state().calls.get(&fault).copied().unwrap_or(0)
    }

    /// From now on nothing goes wrong.
    pub(crate) fn end(&self) {
        self.state().planned.clear();
    }

    /// A call is made.
    pub(crate) fn check(&self, fault: Fault) -> Result<(), Refusal> {
        let mut state = self.state();
        *state.calls.entry(fault).or_default() += 1;
        let number = next(&mut state.random);
        let Some((when, refusal)) = state.planned.get_mut(&fault) else {
            return Ok(());
        };
        let refusal = *refusal;
        let is_now = match when {
            When::Often(thousandths) => number % 1000 < *thousandths,
            When::Calls(from, to) => {
                let is_now = *from == 0 && *to > 0;
                *from = from.saturating_sub(1);
                *to = to.saturating_sub(1);
                is_now
            }
        };
        if !is_now {
            return Ok(());
        }
        state.refused += 1;
        let call = state.once_refused.take();
        drop(state);
        call.into_iter().for_each(|call| call());
        Err(refusal)
    }

    /// Does this before the next call that goes wrong has said so.
    #[allow(dead_code, reason = "not all tests are of this")]
    pub(crate) fn once_refused(&self, call: impl FnOnce() + Send + 'static) {
        self.state().once_refused = Some(Box::new(call));
    }

    /// Has the devices run nothing, or their commands again.
    pub(crate) fn hold(&self, held: bool) {
        self.state().held = held;
    }

    /// Has devices that are held run so many parts of commands.
    #[allow(dead_code, reason = "not all tests are of this")]
    pub(crate) fn allow(&self, parts: u64) {
        self.state().allowed = parts;
    }

    /// True if the devices run nothing.
    pub(crate) fn is_held(&self) -> bool {
        let state = self.state();
        state.held && state.allowed == 0
    }

    /// A device runs a part.
    pub(super) fn note_part(&self) {
        let mut state = self.state();
        state.allowed = state.allowed.saturating_sub(1);
    }

    /// From now on devices do not call, though they say that they will.
    #[allow(dead_code, reason = "not all tests are of this")]
    pub(crate) fn mute(&self) {
        self.state().muted = true;
    }

    /// True if devices do not call.
    pub(super) fn is_muted(&self) -> bool {
        self.state().muted
    }

    /// Has batches that are being made stay so, or be made.
    pub(crate) fn hold_making(&self, held: bool) {
        self.state().unmade = held;
        self.change.notify_all();
    }

    /// From now on memory is elsewhere, as far as batches know.
    pub(crate) fn move_memory(&self) {
        self.state().moved = true;
    }

    /// True if memory is elsewhere.
    pub(crate) fn is_moved(&self) -> bool {
        self.state().moved
    }

    /// A batch is made, once it may be.
    pub(crate) fn make(&self) -> Result<(), Refusal> {
        let state = self.state();
        let state = self.change.wait_while(state, |state| state.unmade);
        drop(state.expect("nobody panics with it"));
        self.check(Fault::Make)
    }

    /// A command is ended.
    pub(super) fn note_end(&self) {
        self.state().ended_by = Some(thread::current().id());
    }

    /// The thread that has ended a command last.
    #[allow(dead_code, reason = "not all tests are of this")]
    pub(crate) fn ended_by(&self) -> Option<ThreadId> {
        self.state().ended_by
    }

    /// Asks for a status.
    pub(crate) fn look<R>(&self, status: impl FnOnce() -> R) -> R {
        let is_own = std::thread::current().name() == Some("quipu-fake");
        {
            let mut state = self.state();
            state.looks += u64::from(is_own);
            state.all_looks += 1;
            state.looking += 1;
            state.most_looking = state.most_looking.max(state.looking);
        }
        let status = status();
        self.state().looking -= 1;
        status
    }

    /// The number of times that any thread has asked for a status, and the most threads that did at
    /// once.
    #[allow(dead_code, reason = "not all tests are of this")]
    pub(crate) fn all_looks(&self) -> (u64, u64) {
        let state = self.state();
        (state.all_looks, state.most_looking)
    }

    /// The number of times that the driver's own thread has asked for a status.
    pub(crate) fn looks(&self) -> u64 {
        self.state().looks
    }

    /// The number of refused calls.
    pub(crate) fn refused(&self) -> u64 {
        self.state().refused
    }

    /// Notes that the driver has broken a rule.
    pub(crate) fn violated(&self, what: String) {
        self.state().violations.push(what);
    }

    /// The rules that the driver has broken.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.state().violations.clone()
    }
}
