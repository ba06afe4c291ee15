//! Programs: code that launches bring along, compiled for a device, once.
//!
//! The programs that there are, and those that are being compiled. Compilers take their time, so
//! they run on threads of the host; a launch is held meanwhile. A wrong text is kept, as a program
//! is; a compilation that a device could not do is tried again.

use quipu_kernel_ir::IndexWidth;
use quipu_scheduler::hash::NumberHash;
use quipu_scheduler::{CodeKey, Error};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Programs that are kept; those unused for longest go first.
const MOST: usize = 512;

/// The key of a program: code, for a device, with indices of this width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProgramId {
    /// The device's number.
    pub device: usize,
    /// The code's name.
    pub key: CodeKey,
    /// The width of its indices.
    pub width: IndexWidth,
}

/// A program, or why there is none.
pub type Outcome<C> = Result<Arc<C>, Error>;

enum State<C> {
    /// These launches wait for it.
    Building(Vec<u64>),
    Built {
        outcome: Outcome<C>,
        used: u64,
    },
    /// It was not compiled for a reason that may be gone next time: those that waited for it are
    /// told so, each once.
    Failed {
        error: Error,
        waited: Vec<u64>,
        used: u64,
    },
}

/// True if an error is the device's, and not the code's.
fn is_transient(error: &Error) -> bool {
    use quipu_scheduler::error::ErrorKind::{Device, DeviceLost, OutOfMemory};
    matches!(
        error.kind(),
        Device { .. } | DeviceLost { .. } | OutOfMemory { .. }
    )
}

/// See the module.
pub struct Programs<C>(Mutex<Known<C>>);

struct Known<C> {
    programs: HashMap<ProgramId, State<C>, NumberHash>,
    uses: u64,
}

impl<C> Default for Programs<C> {
    fn default() -> Self {
        Self(Mutex::new(Known {
            programs: HashMap::default(),
            uses: 0,
        }))
    }
}

/// The state of a program that is asked for.
pub enum Found<C> {
    /// It is there, or cannot be.
    Built(Outcome<C>),
    /// It is being compiled, for others too.
    Building,
    /// The caller compiles it now.
    Missing,
}

impl<C> Programs<C> {
    fn known(&self) -> MutexGuard<'_, Known<C>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A program for a launch, which is told when it is there.
    pub fn find(&self, id: ProgramId, launch: u64) -> Found<C> {
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
            Some(State::Failed { error, waited, .. }) if waited.contains(&launch) => {
                let error = error.clone();
                waited.retain(|other| *other != launch);
                if waited.is_empty() {
                    known.programs.remove(&id);
                }
                Found::Built(Err(error))
            }
            Some(State::Failed { .. }) | None => {
                known.programs.insert(id, State::Building(vec![launch]));
                Found::Missing
            }
        }
    }

    /// True if a program is there, or cannot be; perhaps also if it was and has had to go since. A
    /// thread that asks for the same program again and again locks nothing that others want.
    pub fn is_built(&self, id: ProgramId) -> bool {
        thread_local! {
            /// The program that this thread last found, and the table in which it was.
            static LAST: Cell<Option<(usize, ProgramId)>> = const { Cell::new(None) };
        }
        let found = Some((std::ptr::from_ref(self).addr(), id));
        let is_built = LAST.get() == found
            || matches!(self.known().programs.get(&id), Some(State::Built { .. }));
        if is_built {
            LAST.set(found);
        }
        is_built
    }

    /// A program, if it is there now.
    pub fn known_program(&self, id: ProgramId) -> Option<Arc<C>> {
        self.known_outcome(id)?.ok()
    }

    /// A program or the reason why there is none, if that is known now.
    pub fn known_outcome(&self, id: ProgramId) -> Option<Outcome<C>> {
        let mut known = self.known();
        let now = known.uses + 1;
        let Some(State::Built { outcome, used }) = known.programs.get_mut(&id) else {
            return None;
        };
        *used = now;
        let outcome = outcome.clone();
        known.uses = now;
        Some(outcome)
    }

    /// Keeps what was compiled for no launch. Where it is also compiled for launches, these are
    /// told of their own.
    pub fn keep(&self, id: ProgramId, outcome: &Outcome<C>) {
        if outcome.as_ref().is_err_and(is_transient) {
            return;
        }
        let mut known = self.known();
        if known.programs.contains_key(&id) {
            return;
        }
        known.uses += 1;
        let (outcome, used) = (outcome.clone(), known.uses);
        known.programs.insert(id, State::Built { outcome, used });
        let gone = known.oldest();
        let gone = gone.and_then(|id| known.programs.remove(&id));
        drop(known);
        drop(gone);
    }

    /// A program is there; the launches that wait for it.
    pub fn built(&self, id: ProgramId, outcome: Outcome<C>) -> Vec<u64> {
        let mut known = self.known();
        known.uses += 1;
        let used = known.uses;
        let waiting = match known.programs.remove(&id) {
            Some(State::Building(waiting)) => waiting,
            _ => Vec::new(),
        };
        let state = match outcome {
            Err(error) if is_transient(&error) => State::Failed {
                error,
                waited: waiting.clone(),
                used,
            },
            outcome => State::Built { outcome, used },
        };
        known.programs.insert(id, state);
        let gone = known.oldest();
        let gone = gone.and_then(|id| known.programs.remove(&id));
        drop(known);
        // The vendor's library is called for it.
        drop(gone);
        waiting
    }
}

impl<C> Known<C> {
    /// The program that was not used for longest, if there are too many.
    fn oldest(&self) -> Option<ProgramId> {
        if self.programs.len() <= MOST {
            return None;
        }
        let built = self.programs.iter().filter_map(|(id, state)| match state {
            State::Built { used, .. } | State::Failed { used, .. } => Some((*used, *id)),
            State::Building(_) => None,
        });
        built.min_by_key(|(used, _)| *used).map(|(_, id)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::of_device;
    use quipu_scheduler::error::ErrorKind;

    fn id() -> ProgramId {
        ProgramId {
            device: 0,
            key: CodeKey::of::<Programs<()>>(0),
            width: IndexWidth::Bits32,
        }
    }

    #[test]
    fn refusals_of_the_code_are_kept() {
        let (programs, id) = (Programs::<()>::default(), id());
        assert!(matches!(programs.find(id, 1), Found::Missing));
        let refusal = ErrorKind::Kernel {
            what: "compiling".to_owned(),
            message: "no".to_owned(),
        };
        assert_eq!(programs.built(id, Err(refusal.into())), [1]);
        for launch in [1, 2, 1] {
            assert!(matches!(programs.find(id, launch), Found::Built(Err(_))));
        }
    }

    #[test]
    fn failures_of_the_device_are_told_once_and_tried_again() {
        let (programs, id) = (Programs::<()>::default(), id());
        assert!(matches!(programs.find(id, 1), Found::Missing));
        assert!(matches!(programs.find(id, 2), Found::Building));
        let failure = || of_device("a GPU", "compile", "no memory".to_owned());
        assert_eq!(programs.built(id, Err(failure())), [1, 2]);
        assert!(matches!(programs.find(id, 1), Found::Built(Err(_))));
        // One that has not waited for it has it compiled again, for the other too.
        assert!(matches!(programs.find(id, 3), Found::Missing));
        assert!(matches!(programs.find(id, 2), Found::Building));
        assert_eq!(programs.built(id, Err(failure())), [3, 2]);
        assert!(matches!(programs.find(id, 2), Found::Built(Err(_))));
        assert!(matches!(programs.find(id, 3), Found::Built(Err(_))));
        assert!(matches!(programs.find(id, 3), Found::Missing));
    }
}
