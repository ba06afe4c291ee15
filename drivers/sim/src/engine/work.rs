//! Work that a step needs done in real time: effects and publications. It is handed out so that the
//! thread that drives the simulation can do it with no lock held.

use super::command::{Command, CommandId, Cost, Effect};
use super::memory::{EffectError, Publication, ViewPlan};

pub(crate) enum Job {
    Effect(ViewPlan, Effect),
    Publish(Publication),
}

/// Something to run, once, before the simulation goes on. It holds all it needs.
pub struct Work {
    pub(crate) command: CommandId,
    pub(crate) job: Job,
}

/// Work that was run; [`Simulation::finish`](super::Simulation::finish) takes it.
pub struct Worked {
    pub(crate) command: CommandId,
    pub(crate) result: WorkResult,
}

pub(crate) enum WorkResult {
    Ran(Publication, Option<Cost>),
    EffectFailed(EffectError),
    Published,
    PublicationPanicked(String),
}

impl Work {
    /// Runs it. Panics of effects are contained.
    #[must_use]
    pub fn run(self) -> Worked {
        let result = match self.job {
            Job::Effect(plan, effect) => match plan.run(effect) {
                Ok((publication, cost)) => WorkResult::Ran(publication, cost),
                Err(error) => WorkResult::EffectFailed(error),
            },
            Job::Publish(publication) => match publication.publish() {
                Ok(()) => WorkResult::Published,
                Err(message) => WorkResult::PublicationPanicked(message),
            },
        };
        Worked {
            command: self.command,
            result,
        }
    }
}

/// Objects that are over and only have to be dropped: effects that will not run, and publications
/// that will not be made. Their owners may call the machine as they drop, so a thread that holds a
/// lock around the simulation drops this outside it.
#[derive(Default)]
pub struct Discarded {
    pub(crate) commands: Vec<Command>,
    pub(crate) works: Vec<Work>,
    pub(crate) results: Vec<Worked>,
    pub(crate) publications: Vec<Publication>,
}

impl Discarded {
    /// True if there is nothing to drop.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
            && self.works.is_empty()
            && self.results.is_empty()
            && self.publications.is_empty()
    }
}

impl std::fmt::Debug for Discarded {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Discarded({} commands)", self.commands.len())
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let job = match self.job {
            Job::Effect(..) => "effect",
            Job::Publish(..) => "publication",
        };
        write!(formatter, "Work({job} of {})", self.command)
    }
}

impl std::fmt::Debug for Worked {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Worked({})", self.command)
    }
}
