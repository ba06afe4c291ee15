//! Programs: code that launches bring along, compiled for a device, once.
//!
//! | file | what it is |
//! |---|---|
//! | here | which programs there are, and which are being compiled |
//! | `compile` | from code to a kernel: printing, compiling, build logs |
//! | `nvrtc` | the compiler |
//! | `disk` | compiled programs on disk |
//! | `launch` | from what a launch passes to calls; faults |
//!
//! Compilers take their time, so they run on threads of the host; a launch is held meanwhile.

mod compile;
mod disk;
mod launch;
mod nvrtc;

pub(crate) use compile::{Compiled, compile};
pub(crate) use launch::{FaultRead, Launch, Refusal, width_of};

use quipu_core::{CodeKey, Error};
use quipu_kernel_ir::IndexWidth;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Programs that are kept; those unused for longest go first.
const MOST: usize = 512;

/// Which program: code, for a device, with indices of this width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProgramId {
    pub(crate) device: usize,
    pub(crate) key: CodeKey,
    pub(crate) width: IndexWidth,
}

/// A program, or why there is none.
pub(crate) type Outcome = Result<Arc<Compiled>, Error>;

enum State {
    /// These launches wait for it.
    Building(Vec<u64>),
    Built {
        outcome: Outcome,
        used: u64,
    },
}

/// See the module.
#[derive(Default)]
pub(crate) struct Programs(Mutex<Known>);

#[derive(Default)]
struct Known {
    programs: HashMap<ProgramId, State>,
    uses: u64,
}

/// What is known of a program that is asked for.
pub(crate) enum Found {
    Built(Outcome),
    /// It is being compiled, for others too.
    Building,
    /// Whoever asked compiles it now.
    Missing,
}

impl Programs {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A program for a launch, which is told when it is there.
    pub(crate) fn find(&self, id: ProgramId, launch: u64) -> Found {
        let mut known = self.known();
        known.uses += 1;
        let now = known.uses;
        match known.programs.get_mut(&id) {
            Some(State::Built { outcome, used }) => {
                *used = now;
                Found::Built(outcome.clone())
            }
            Some(State::Building(waiting)) => {
                waiting.push(launch);
                Found::Building
            }
            None => {
                known.programs.insert(id, State::Building(vec![launch]));
                Found::Missing
            }
        }
    }

    /// A program is there; the launches that wait for it.
    pub(crate) fn built(&self, id: ProgramId, outcome: Outcome) -> Vec<u64> {
        let mut known = self.known();
        known.uses += 1;
        let used = known.uses;
        let before = known.programs.insert(id, State::Built { outcome, used });
        let gone = known.oldest();
        let gone = gone.and_then(|id| known.programs.remove(&id));
        drop(known);
        // CUDA is called for it.
        drop(gone);
        match before {
            Some(State::Building(waiting)) => waiting,
            _ => Vec::new(),
        }
    }
}

impl Known {
    /// The program that was not used for longest, if there are too many.
    fn oldest(&self) -> Option<ProgramId> {
        if self.programs.len() <= MOST {
            return None;
        }
        let built = self.programs.iter().filter_map(|(id, state)| match state {
            State::Built { used, .. } => Some((*used, *id)),
            State::Building(_) => None,
        });
        built.min_by_key(|(used, _)| *used).map(|(_, id)| id)
    }
}
