//! Grids of a kernel that must not be in use at once.
//!
//! PoCL has code of its own for each kernel, size of blocks and width of the grid, and counts the
//! launches that use it. Up to version 5 it counts the end of a launch for the code of that kernel
//! and size of blocks that was used last, and ends the process by an assertion once it counts below
//! zero (`pocl_release_dlhandle_cache`, repaired in 6.0). So a launch there begins after those of
//! the same kernel, in blocks of the same size, in other grids. It is one count for all contexts of
//! the process. Events cannot wait for another context's launches, so a thread waits for them,
//! which is rare.

use crate::native::{Called, Event, Queue};
use cl3::types::cl_event;
use quipu_device_queue::Failure;
use quipu_scheduler::panics::quietly;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

/// The sizes of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// The first thread along each axis, and the number of threads.
    pub(super) offset: [usize; 3],
    pub(super) global: [usize; 3],
    /// The number of threads of a block.
    pub(super) local: [usize; 3],
}

/// A kernel, and the size of its blocks.
type Blocks = (u64, [usize; 3]);

/// The first thread of a grid along each axis, and the number of threads.
type Grid = ([usize; 3], [usize; 3]);

/// The launches that run where grids are kept apart.
static RUNNING: LazyLock<Mutex<HashMap<Blocks, Running<End>>>> = LazyLock::new(Mutex::default);

/// The target of launches: a context, and a device, as OpenCL knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whereabouts {
    pub(crate) context: usize,
    pub(crate) device: usize,
}

/// Notes that a device is no longer used by a context: its launches are over. Their events must not
/// live longer than the device (PoCL 3.1 does not stand that the event of a part of a device is
/// released after that).
pub(crate) fn forget(whereabouts: Whereabouts) {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    running.retain(|_, running| {
        let is_there = |end: &End| end.whereabouts == whereabouts;
        running.ends.retain(|end| !is_there(end));
        running.after.take_if(|after| is_there(after));
        !running.ends.is_empty() || running.after.is_some()
    });
}

/// Makes the call that puts a launch of a kernel into a queue, with its further waits.
pub(super) fn put_apart(
    kernel: u64,
    shape: Shape,
    (whereabouts, queue): (Whereabouts, &Queue),
    waits: &[cl_event],
    call: impl FnOnce(&[cl_event]) -> Called<Event>,
) -> Called<Event> {
    let ending = |event| End { event, whereabouts };
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let running = running.entry((kernel, shape.local)).or_default();
    let join = |ends: &[End]| {
        let ends: Vec<_> = ends.iter().map(|end| end.event.raw()).collect();
        queue.marker(&ends).map(ending)
    };
    let is_own = |end: &End| end.whereabouts.context == whereabouts.context;
    let after = running.admit(
        (shape.offset, shape.global),
        is_finished,
        is_own,
        wait,
        join,
    )?;
    let mut waits: SmallVec<[cl_event; 8]> = waits.into();
    waits.extend(after.map(|end| end.event.raw()));
    let event = call(&waits)?;
    running.ends.push(ending(event.clone()));
    // A thread that waits for it has the lock that the pump of its driver may need before it
    // flushes. The pump reports an error.
    let _ = queue.flush();
    Ok(event)
}

/// The end of a launch, or of several.
#[derive(Clone, Debug)]
struct End {
    event: Event,
    whereabouts: Whereabouts,
}

/// An event of unknown state is taken to be over: the call that waits for it will report the error.
fn is_finished(end: &End) -> bool {
    end.event.status().map_or(true, |status| status <= 0)
}

/// As above.
fn wait(end: &End) {
    if let Err(error) = end.event.wait() {
        quietly(|| {
            tracing::debug!(
                problem = error.text(),
                "a launch of another context has failed"
            );
        });
    }
}

/// Launches in one grid.
#[derive(Debug)]
struct Running<E> {
    /// The grid.
    grid: Grid,
    /// The end of all that ran in another before.
    after: Option<E>,
    /// Their ends, some of which may be over.
    ends: Vec<E>,
    /// The number of ends at which those that are over are taken out.
    look: usize,
}

/// Fewer ends are not looked at.
const FEW: usize = 32;

impl<E> Default for Running<E> {
    fn default() -> Self {
        Self {
            grid: Default::default(),
            after: None,
            ends: Vec::new(),
            look: FEW,
        }
    }
}

impl<E: Clone> Running<E> {
    /// Admits a launch in a grid. Gives the event that it has to wait for; `join` makes one of
    /// several. Waits here for events that are not its context's own. If none can be made, nothing
    /// has changed.
    fn admit<Error>(
        &mut self,
        grid: Grid,
        is_finished: impl Fn(&E) -> bool,
        is_own: impl Fn(&E) -> bool,
        wait: impl Fn(&E),
        join: impl FnOnce(&[E]) -> Result<E, Error>,
    ) -> Result<Option<&E>, Error> {
        let is_waited_for = |end: &E| {
            let is_own = is_own(end);
            if !is_own {
                wait(end);
            }
            !is_own
        };
        if grid != self.grid {
            self.ends
                .retain(|end| !is_finished(end) && !is_waited_for(end));
            // Each of them waits for the launches before them.
            self.after = match &self.ends[..] {
                [] => self.after.take(),
                [end] => Some(end.clone()),
                ends => Some(join(ends)?),
            };
            self.ends.clear();
            self.grid = grid;
            self.look = FEW;
        } else if self.ends.len() >= self.look {
            self.ends.retain(|end| !is_finished(end));
            self.look = FEW.max(2 * self.ends.len());
        }
        self.after
            .take_if(|after| is_finished(after) || is_waited_for(after));
        Ok(self.after.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::convert::Infallible;

    /// A launch: its grid, and the launches whose ends it needs, all of which are over then.
    struct Launched {
        grid: usize,
        needs: BTreeSet<usize>,
    }

    proptest! {
        #[test]
        fn a_launch_needs_the_ends_of_all_in_other_grids(
            steps in prop::collection::vec((0_usize..3, 0_usize..4, 0..4, prop::bool::weighted(0.3)), 1..300),
        ) {
            // An event is of a context, and is those launches that are over when it is.
            type Event = (bool, BTreeSet<usize>);
            let mut running = Running::<Event>::default();
            let mut launched: Vec<Launched> = Vec::new();
            let over = RefCell::new(BTreeSet::new());
            for (grid, ends, luck, context) in steps {
                let number = launched.len();
                let is_finished = |end: &Event| end.1.is_subset(&over.borrow());
                let is_own = |end: &Event| end.0 == context;
                let wait = |end: &Event| over.borrow_mut().extend(&end.1);
                let join = |ends: &[Event]| {
                    assert!(ends.iter().all(is_own), "a wait for another context's event");
                    let all = ends.iter().flat_map(|end| &end.1);
                    Ok::<_, Infallible>((context, all.copied().collect()))
                };
                let grid_of = ([grid; 3], [1; 3]);
                let after = running.admit(grid_of, is_finished, is_own, wait, join).unwrap();
                prop_assert!(after.is_none_or(is_own));
                let needs = after.map(|end| end.1.clone()).unwrap_or_default();
                for (other, before) in launched.iter().enumerate() {
                    let is_waited_for = over.borrow().contains(&other) || needs.contains(&other);
                    prop_assert!(before.grid == grid || is_waited_for);
                    // Nobody waits for more than it takes.
                    prop_assert!(before.grid != grid || !needs.contains(&other) || launched[other..]
                        .iter()
                        .any(|between| between.grid != grid));
                }
                // Not every call puts something into a queue.
                if luck > 0 {
                    let mut end = needs.clone();
                    end.insert(number);
                    running.ends.push((context, end));
                } else {
                    over.borrow_mut().insert(number);
                }
                launched.push(Launched { grid, needs });
                prop_assert!(running.ends.len() <= running.look + 1);
                // Some end, of those that have begun.
                for _ in 0..ends {
                    let mut over = over.borrow_mut();
                    let next = (0..launched.len()).find(|number| {
                        !over.contains(number) && launched[*number].needs.is_subset(&over)
                    });
                    over.extend(next);
                }
            }
        }
    }
}
