//! Grids of a kernel that must not be in use at once.
//!
//! PoCL has code of its own for each kernel, size of blocks and width of the grid, and counts what uses it. Versions 4 and
//! 5 count the end of a launch for whichever code of that kernel and size of blocks was used last, and end the process by
//! an assertion once they count below zero (`pocl_release_dlhandle_cache`, repaired in 6.0). So a launch there begins after
//! those of the same kernel, in blocks of the same size, in other grids.

use crate::native::{Called, Event, Queue};
use cl3::types::cl_event;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// What a launch is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// The first thread along each axis, and how many there are.
    pub(super) offset: [usize; 3],
    pub(super) global: [usize; 3],
    /// How many are a block.
    pub(super) local: [usize; 3],
}

/// A kernel, and the size of its blocks.
type Blocks = (u64, [usize; 3]);

/// The first thread of a grid along each axis, and how many there are.
type Grid = ([usize; 3], [usize; 3]);

/// What runs on the devices of a platform whose grids are kept apart.
#[derive(Debug, Default)]
pub(crate) struct Grids {
    running: Mutex<HashMap<Blocks, Running<Event>>>,
}

impl Grids {
    /// True of a platform that this is for, by its name and version.
    pub(crate) fn are_kept_apart_on(platform: &str) -> bool {
        let version = platform.split_once("PoCL ").map(|(_, version)| version);
        let major = version.and_then(|version| version.split('.').next());
        matches!(major, Some("4" | "5"))
    }

    /// Makes the call that puts a launch of a kernel into a queue, with what it has to wait for besides.
    pub(super) fn put(
        &self,
        kernel: u64,
        shape: Shape,
        queue: &Queue,
        waits: &[cl_event],
        call: impl FnOnce(&[cl_event]) -> Called<Event>,
    ) -> Called<Event> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let running = running.entry((kernel, shape.local)).or_default();
        let join = |ends: &[Event]| {
            let ends: Vec<_> = ends.iter().map(Event::raw).collect();
            queue.marker(&ends)
        };
        let after = running.admit((shape.offset, shape.global), is_over, join)?;
        let mut waits: SmallVec<[cl_event; 8]> = waits.into();
        waits.extend(after.map(Event::raw));
        let end = call(&waits)?;
        running.ends.push(end.clone());
        Ok(end)
    }
}

/// What is not known is taken to be over: the call that waits for it will say what is wrong.
fn is_over(end: &Event) -> bool {
    end.status().map_or(true, |status| status <= 0)
}

/// Launches in one grid.
#[derive(Debug)]
struct Running<E> {
    /// Which.
    grid: Grid,
    /// The end of all that ran in another before.
    after: Option<E>,
    /// Their ends, of which some may be over.
    ends: Vec<E>,
    /// With so many of them it is looked which are.
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
    /// Admits a launch in a grid: what it has to wait for, which `join` makes of several. If there is none to be made,
    /// nothing has changed.
    fn admit<Error>(
        &mut self,
        grid: Grid,
        is_over: impl Fn(&E) -> bool,
        join: impl FnOnce(&[E]) -> Result<E, Error>,
    ) -> Result<Option<&E>, Error> {
        if grid != self.grid {
            self.ends.retain(|end| !is_over(end));
            // Each of them waits for what was before them.
            self.after = match &self.ends[..] {
                [] => self.after.take(),
                [end] => Some(end.clone()),
                ends => Some(join(ends)?),
            };
            self.ends.clear();
            self.grid = grid;
            self.look = FEW;
        } else if self.ends.len() >= self.look {
            self.ends.retain(|end| !is_over(end));
            self.look = FEW.max(2 * self.ends.len());
        }
        if self.after.as_ref().is_some_and(&is_over) {
            self.after = None;
        }
        Ok(self.after.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::convert::Infallible;

    #[test]
    fn the_versions_that_count_wrongly_are_known() {
        let platform = |version| format!("Portable Computing Language OpenCL 3.0 {version}");
        for version in ["PoCL 4.0  Linux", "PoCL 5.0+debian  Linux", "PoCL 5.1-pre"] {
            assert!(Grids::are_kept_apart_on(&platform(version)), "{version}");
        }
        for version in [
            "PoCL 3.1+debian  Linux",
            "PoCL 6.0",
            "PoCL 50.0",
            "CUDA 12.4",
        ] {
            assert!(!Grids::are_kept_apart_on(&platform(version)), "{version}");
        }
    }

    /// A launch: its grid, and those whose ends it needs, all of which are over then.
    struct Launched {
        grid: usize,
        needs: BTreeSet<usize>,
    }

    proptest! {
        #[test]
        fn a_launch_needs_the_ends_of_all_in_other_grids(
            steps in prop::collection::vec((0_usize..3, 0_usize..4, 0..4), 1..300),
        ) {
            let mut running = Running::<BTreeSet<usize>>::default();
            let mut launched: Vec<Launched> = Vec::new();
            let mut over = BTreeSet::new();
            // An event is those launches that are over when it is.
            for (grid, ends, luck) in steps {
                let number = launched.len();
                let is_over = |end: &BTreeSet<usize>| end.is_subset(&over);
                let join = |ends: &[BTreeSet<usize>]| {
                    Ok::<_, Infallible>(ends.iter().flatten().copied().collect())
                };
                let after = running.admit(([grid; 3], [1; 3]), is_over, join).unwrap();
                let needs = after.cloned().unwrap_or_default();
                for (other, before) in launched.iter().enumerate() {
                    let is_waited_for = over.contains(&other) || needs.contains(&other);
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
                    running.ends.push(end);
                } else {
                    over.insert(number);
                }
                launched.push(Launched { grid, needs });
                prop_assert!(running.ends.len() <= running.look + 1);
                // Some end, of those that have begun.
                for _ in 0..ends {
                    let next = (0..launched.len()).find(|number| {
                        !over.contains(number) && launched[*number].needs.is_subset(&over)
                    });
                    over.extend(next);
                }
            }
        }
    }
}
