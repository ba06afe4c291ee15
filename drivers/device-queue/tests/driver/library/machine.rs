//! A device: a thread, its commands, and their ends.

use super::Refusal;
use super::faults::{Fault, Faults, next};
use quipu_device_queue::Status;
use quipu_device_queue::queue::Wake;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};

/// Streams of a device that keeps their order.
pub(crate) const STREAMS: usize = 3;

/// A breach of a rule for drivers.
const EARLY: &str = "memory was given back while the device used it";

/// A point that can be waited for.
#[derive(Clone, Debug)]
pub(crate) struct Point(Arc<Reached>);

#[derive(Debug)]
struct Reached {
    machine: Weak<Machine>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    end: Option<Result<(), Refusal>>,
    calls: Vec<Wake>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?}", self.end)
    }
}

impl Point {
    fn new(machine: &Arc<Machine>) -> Self {
        Self(Arc::new(Reached {
            machine: Arc::downgrade(machine),
            state: Mutex::default(),
        }))
    }

    /// True if it is that point.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("nobody panics with it")
    }

    fn end(&self, end: Result<(), Refusal>) {
        let mut state = self.state();
        state.end = Some(end);
        let calls = std::mem::take(&mut state.calls);
        drop(state);
        let call = match end {
            Ok(()) => Wake::ring_over,
            Err(_) => Wake::ring,
        };
        calls.into_iter().for_each(call);
    }

    fn ended(&self) -> Option<Result<(), Refusal>> {
        self.state().end
    }

    /// As the library says it.
    pub(crate) fn status(&self) -> Result<Status<Refusal>, Refusal> {
        let ended = self.ended();
        let machine = self.0.machine.upgrade();
        if ended.is_none() && machine.is_some_and(|machine| machine.is_lost()) {
            return Err(Refusal::Lost);
        }
        Ok(ended)
    }

    /// Has somebody called.
    pub(crate) fn call(&self, wake: Wake) {
        let mut state = self.state();
        if state.end.is_none() {
            return state.calls.push(wake);
        }
        drop(state);
        wake.ring();
    }
}

/// A part of a command.
pub(crate) struct Part {
    /// The points that it waits for.
    pub(crate) waits: Vec<Point>,
    /// Its stream, if those keep their order.
    pub(crate) stream: Option<usize>,
    /// The memory that it uses.
    pub(crate) uses: Vec<usize>,
    /// It fills fresh memory with zeros, which is of no use once that is given back.
    pub(crate) is_zeroing: bool,
    /// Its work.
    pub(crate) run: Box<dyn FnOnce() + Send>,
}

struct Queued {
    part: Part,
    point: Point,
}

#[derive(Default)]
struct Inside {
    random: u64,
    /// Not flushed yet.
    staged: Vec<Queued>,
    queued: Vec<Queued>,
    /// The memory of the part that runs.
    running: Option<(Vec<usize>, bool)>,
    lost: bool,
    closed: bool,
}

/// See the module.
pub(crate) struct Machine {
    inside: Mutex<Inside>,
    change: Condvar,
    ordered: bool,
    faults: Arc<Faults>,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Machine")
    }
}

impl Machine {
    /// A device. Its thread ends with the last that knows it, or when it is lost.
    pub(crate) fn start(seed: u64, ordered: bool, faults: Arc<Faults>) -> Arc<Self> {
        let machine = Arc::new(Self {
            inside: Mutex::new(Inside {
                random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
                ..Inside::default()
            }),
            change: Condvar::new(),
            ordered,
            faults,
        });
        let weak = Arc::downgrade(&machine);
        std::thread::spawn(move || {
            while let Some(machine) = weak.upgrade()
                && machine.step()
            {}
        });
        machine
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().expect("nobody panics with it")
    }

    /// True if the device is of no use, and at rest.
    pub(crate) fn is_lost(&self) -> bool {
        let inside = self.inside();
        inside.lost && inside.running.is_none()
    }

    /// Takes a part; it runs once it is flushed.
    pub(crate) fn put(self: &Arc<Self>, part: Part) -> Point {
        let point = Point::new(self);
        let queued = Queued {
            part,
            point: point.clone(),
        };
        self.inside().staged.push(queued);
        point
    }

    /// Has the commands here run.
    pub(crate) fn flush(&self) {
        let mut inside = self.inside();
        let staged = std::mem::take(&mut inside.staged);
        inside.queued.extend(staged);
        drop(inside);
        self.change.notify_all();
    }

    /// Fills memory with zeros, from now on.
    pub(crate) fn zero(self: &Arc<Self>, pointer: *mut u8, length: usize) -> Point {
        struct Place(*mut u8);
        // SAFETY: the memory is not given back before this is over.
        unsafe impl Send for Place {}
        let place = Place(pointer);
        let point = Point::new(self);
        let part = Part {
            waits: Vec::new(),
            stream: None,
            uses: vec![pointer.addr()],
            is_zeroing: true,
            run: Box::new(move || {
                let place = place;
                // SAFETY: as said; whoever uses it waits for this.
                unsafe { place.0.write_bytes(0, length) };
            }),
        };
        let queued = Queued {
            part,
            point: point.clone(),
        };
        self.inside().queued.push(queued);
        self.change.notify_all();
        point
    }

    /// Waits until a point is reached.
    pub(crate) fn wait(&self, point: &Point) -> Result<(), Refusal> {
        let mut inside = self.inside();
        loop {
            if let Some(end) = point.ended() {
                return end;
            }
            if inside.lost {
                return Err(Refusal::Lost);
            }
            inside = self.change.wait(inside).expect("nobody panics with it");
        }
    }

    /// Memory is given back: nothing may use it any more, apart from the part that fills it with
    /// zeros.
    pub(crate) fn released(&self, memory: usize) {
        let mut inside = self.inside();
        inside
            .queued
            .retain(|queued| !(queued.part.is_zeroing && queued.part.uses == [memory]));
        while inside
            .running
            .as_ref()
            .is_some_and(|(uses, is_zeroing)| *is_zeroing && *uses == [memory])
        {
            inside = self.change.wait(inside).expect("nobody panics with it");
        }
        // A part that was never begun may never be.
        let staged = inside.staged.iter_mut().map(|staged| &mut staged.part);
        for part in staged.filter(|part| part.uses.contains(&memory)) {
            let faults = self.faults.clone();
            part.run = Box::new(move || faults.violated(EARLY.to_owned()));
        }
        let mut uses = inside.queued.iter().flat_map(|queued| &queued.part.uses);
        let is_running = inside
            .running
            .as_ref()
            .is_some_and(|(uses, _)| uses.contains(&memory));
        if !inside.lost && (is_running || uses.any(|used| *used == memory)) {
            self.faults.violated(EARLY.to_owned());
        }
    }

    /// Runs one part, of those that may run any; false if the device is gone.
    fn step(&self) -> bool {
        let mut inside = self.inside();
        if inside.closed || inside.lost {
            return false;
        }
        let most = if self.faults.is_held() {
            0
        } else {
            inside.queued.len()
        };
        let ready: Vec<usize> = (0..most)
            .filter(|number| self.is_ready(&inside.queued, *number))
            .collect();
        if ready.is_empty() {
            // From time to time, for its wait may be for another device's.
            let patience = std::time::Duration::from_millis(1);
            drop(
                self.change
                    .wait_timeout(inside, patience)
                    .expect("nobody panics with it"),
            );
            return true;
        }
        let chosen = ready[(next(&mut inside.random) % ready.len() as u64) as usize];
        let Queued { part, point } = inside.queued.remove(chosen);
        self.faults.note_part();
        inside.running = Some((part.uses, part.is_zeroing));
        drop(inside);
        let failed = part
            .waits
            .iter()
            .any(|wait| matches!(wait.ended(), Some(Err(_))));
        let end = if failed {
            Err(Refusal::Wait)
        } else if part.is_zeroing {
            Ok(())
        } else {
            self.faults.check(Fault::Run)
        };
        if end.is_ok() {
            (part.run)();
        }
        let mut inside = self.inside();
        inside.running = None;
        if end == Err(Refusal::Lost) {
            inside.lost = true;
            inside.queued.clear();
            inside.staged.clear();
        } else {
            point.end(end);
        }
        drop(inside);
        self.change.notify_all();
        true
    }

    fn is_ready(&self, queued: &[Queued], number: usize) -> bool {
        let part = &queued[number].part;
        let is_first = part.stream.is_none()
            || !self.ordered
            || queued[..number]
                .iter()
                .all(|earlier| earlier.part.stream != part.stream);
        is_first && part.waits.iter().all(|wait| wait.ended().is_some())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.inside().closed = true;
    }
}
