//! The shadow of raw memory: the last accesses of each element.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::Scope;
use crate::barrier::Site;
use crate::error::{KernelError, Reach};

/// A thread of a launch, at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watched {
    /// Its block.
    pub(crate) group: u64,
    /// Its number in the block.
    pub(crate) thread: usize,
    /// The number of barriers of the block that it has passed.
    pub(crate) epoch: u64,
}

/// An access to an element.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Access {
    pub(crate) watched: Watched,
    pub(crate) writes: bool,
    /// The scope of the threads for which it is a step, if it is one.
    scope: Option<Scope>,
    pub(crate) site: Site,
    /// The number of accesses and fences before it.
    time: u64,
}

impl Access {
    /// One that happens now.
    pub(crate) fn new(watched: Watched, writes: bool, scope: Option<Scope>, site: Site) -> Self {
        Self {
            watched,
            writes,
            scope,
            site,
            time: 0,
        }
    }

    /// True if nothing orders it and a later one, one of them writes, and they are no steps for
    /// both threads.
    fn races_with(&self, later: &Self, fences: &Fences) -> bool {
        let (one, two) = (self.watched, later.watched);
        let same_thread = one.group == two.group && one.thread == two.thread;
        let are_steps = match self.scope.min(later.scope) {
            None | Some(Scope::Thread) => same_thread,
            Some(Scope::Block) => one.group == two.group,
            Some(Scope::Device) => true,
        };
        let ordered = are_steps
            || (one.group == two.group && one.epoch != two.epoch)
            || (fences.has_passed(one, self.time) && fences.has_passed(two, self.time));
        (self.writes || later.writes) && !ordered
    }

    fn reach(&self) -> Reach {
        Reach {
            group: self.watched.group,
            thread: self.watched.thread,
            writes: self.writes,
            step: self.scope.map(|scope| match scope {
                Scope::Thread => "for itself alone",
                Scope::Block => "for its block alone",
                Scope::Device => "for the device",
            }),
            place: self.site,
        }
    }
}

/// The time of the last fence for the device of each thread that has come to one.
#[derive(Debug, Default)]
struct Fences(HashMap<(u64, usize), u64>);

impl Fences {
    fn has_passed(&self, thread: Watched, since: u64) -> bool {
        let last = self.0.get(&(thread.group, thread.thread));
        last.is_some_and(|last| *last > since)
    }
}

/// The accesses of an element: the last writer's, and those of two different readers since (any
/// more race with the same accesses as these do). And one before the last writer's whose scope was
/// narrower, as it may race with threads with which the last writer's does not.
#[derive(Debug, Clone, Copy, Default)]
struct Trace {
    writer: Option<Access>,
    readers: [Option<Access>; 2],
    narrower: Option<Access>,
}

impl Trace {
    /// Leaves an access in the trace, and gives an earlier one that races with it.
    fn note(&mut self, access: Access, fences: &Fences) -> Option<Access> {
        let [one, two] = self.readers;
        let known = [self.writer, self.narrower, one, two];
        let mut known = known.into_iter().flatten();
        let racer = known
            .clone()
            .find(|known| known.races_with(&access, fences));
        if access.writes {
            *self = Self {
                writer: Some(access),
                readers: [None; 2],
                narrower: known.find(|known| known.scope < access.scope),
            };
        } else if one.is_none_or(|one| one.watched == access.watched) {
            self.readers[0] = Some(access);
        } else {
            let [one, _] = self.readers;
            // Of readers of an epoch that is over, none can race any more, unless they are of
            // another block.
            let over = one.is_some_and(|one| {
                one.watched.group == access.watched.group
                    && one.watched.epoch != access.watched.epoch
            });
            self.readers[usize::from(!over)] = Some(access);
        }
        racer
    }
}

/// The shadow of all raw memory that a launch's kernel reaches.
#[derive(Debug)]
pub(crate) struct Shadow {
    kernel: &'static str,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    traces: HashMap<usize, Trace>,
    fences: Fences,
    time: u64,
    /// The first race.
    race: Option<KernelError>,
}

impl Shadow {
    pub(crate) fn new(kernel: &'static str) -> Self {
        Self {
            kernel,
            state: Mutex::default(),
        }
    }

    pub(crate) fn kernel(&self) -> &'static str {
        self.kernel
    }

    pub(super) fn note(&self, address: usize, index: usize, mut access: Access) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        state.time += 1;
        access.time = state.time;
        let trace = state.traces.entry(address).or_default();
        let racer = trace.note(access, &state.fences);
        if let (Some(racer), None) = (racer, &state.race) {
            state.race = Some(KernelError::Race {
                kernel: self.kernel,
                index,
                first: racer.reach(),
                second: access.reach(),
            });
        }
    }

    /// A thread has come to a fence for the device.
    pub(super) fn fence(&self, watched: Watched) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.time += 1;
        let time = state.time;
        let thread = (watched.group, watched.thread);
        state.fences.0.insert(thread, time);
    }

    /// The memory of a block is another block's from now on.
    pub(crate) fn forget(&self, addresses: std::ops::Range<usize>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state
            .traces
            .retain(|address, _| !addresses.contains(address));
    }

    /// The first race that was found.
    pub(crate) fn verdict(&self) -> Result<(), KernelError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.race.take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// True if the last of these accesses races with one before: block, thread, epoch, and whether
    /// it writes.
    fn last_races(accesses: &[(u64, usize, u64, bool)]) -> bool {
        let mut trace = Trace::default();
        let mut races = false;
        for &(group, thread, epoch, writes) in accesses {
            let watched = Watched {
                group,
                thread,
                epoch,
            };
            let access = Access::new(watched, writes, None, std::panic::Location::caller());
            races = trace.note(access, &Fences::default()).is_some();
        }
        races
    }

    /// True if a read of block 1 races with a write of block 0. Both may come to fences in between.
    fn read_races(writer_fences: bool, reader_fences: bool) -> bool {
        let thread = |group| Watched {
            group,
            thread: 0,
            epoch: 0,
        };
        let shadow = Shadow::new("kernel");
        let access = |group, writes| {
            Access::new(thread(group), writes, None, std::panic::Location::caller())
        };
        // Fences before the accesses that they should order.
        shadow.fence(thread(0));
        shadow.fence(thread(1));
        shadow.note(64, 0, access(0, true));
        if writer_fences {
            shadow.fence(thread(0));
        }
        if reader_fences {
            shadow.fence(thread(1));
        }
        shadow.note(64, 0, access(1, false));
        shadow.verdict().is_err()
    }

    #[test]
    fn fences_of_both_threads_order_blocks() {
        assert!(!read_races(true, true));
        assert!(read_races(true, false));
        assert!(read_races(false, true));
        assert!(read_races(false, false));
    }

    /// True if steps of two threads race: the block, the thread and the scope of each.
    fn steps_race(steps: [(u64, usize, Scope); 2]) -> bool {
        let [first, second] = steps.map(|(group, thread, scope)| {
            let watched = Watched {
                group,
                thread,
                epoch: 0,
            };
            Access::new(watched, true, Some(scope), std::panic::Location::caller())
        });
        first.races_with(&second, &Fences::default())
    }

    #[test]
    fn steps_race_with_whom_a_scope_leaves_out() {
        use Scope::{Block, Device, Thread};
        assert!(!steps_race([(0, 0, Device), (1, 0, Device)]));
        assert!(!steps_race([(0, 0, Block), (0, 1, Block)]));
        assert!(!steps_race([(0, 0, Block), (0, 1, Device)]));
        assert!(!steps_race([(0, 0, Thread), (0, 0, Thread)]));
        assert!(steps_race([(0, 0, Block), (1, 0, Block)]));
        assert!(steps_race([(0, 0, Block), (1, 0, Device)]));
        assert!(steps_race([(0, 0, Device), (0, 1, Thread)]));
    }

    /// The indices of the steps that race with one before.
    fn racing(steps: &[(u64, usize, Scope)]) -> Vec<usize> {
        let mut trace = Trace::default();
        let mut racing = Vec::new();
        for (number, &(group, thread, scope)) in steps.iter().enumerate() {
            let watched = Watched {
                group,
                thread,
                epoch: 0,
            };
            let access = Access::new(watched, true, Some(scope), std::panic::Location::caller());
            if trace.note(access, &Fences::default()).is_some() {
                racing.push(number);
            }
        }
        racing
    }

    #[test]
    fn a_step_for_fewer_is_remembered_behind_one_for_more() {
        use Scope::{Block, Device, Thread};
        assert_eq!(
            racing(&[(0, 0, Block), (0, 1, Device), (1, 0, Device)]),
            [2]
        );
        assert_eq!(
            racing(&[
                (0, 0, Block),
                (0, 0, Device),
                (0, 1, Device),
                (1, 0, Device)
            ]),
            [3]
        );
        assert_eq!(racing(&[(0, 0, Thread), (0, 0, Block), (0, 1, Block)]), [2]);
        assert_eq!(
            racing(&[(0, 0, Device), (0, 0, Block), (0, 1, Device), (0, 2, Block)]),
            []
        );
        assert_eq!(
            racing(&[(0, 0, Device), (0, 1, Device), (1, 0, Device)]),
            []
        );
    }

    #[test]
    fn what_nothing_orders_races() {
        let (read, write) = (false, true);
        assert!(last_races(&[(0, 0, 0, write), (0, 1, 0, write)]));
        assert!(last_races(&[(0, 0, 0, write), (0, 1, 0, read)]));
        assert!(last_races(&[(0, 0, 0, read), (0, 1, 0, write)]));
        assert!(last_races(&[(0, 0, 5, read), (1, 0, 3, write)]));
        assert!(last_races(&[
            (0, 1, 0, read),
            (0, 0, 0, read),
            (0, 0, 0, write)
        ]));
        assert!(last_races(&[
            (0, 0, 0, read),
            (0, 1, 0, read),
            (0, 0, 0, write)
        ]));
        assert!(last_races(&[
            (0, 0, 0, read),
            (0, 1, 0, read),
            (0, 2, 0, write)
        ]));
        assert!(last_races(&[
            (0, 7, 0, read),
            (0, 0, 1, read),
            (0, 1, 1, read),
            (0, 0, 1, write)
        ]));
        assert!(!last_races(&[(0, 0, 0, write), (0, 0, 0, read)]));
        assert!(!last_races(&[(0, 0, 0, read), (0, 1, 0, read)]));
        assert!(!last_races(&[(0, 0, 0, write), (0, 1, 1, read)]));
        assert!(!last_races(&[
            (0, 0, 0, read),
            (0, 1, 0, read),
            (0, 2, 1, write)
        ]));
    }
}
