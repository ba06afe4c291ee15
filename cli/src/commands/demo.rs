//! `quipu demo`: a real job over every device there is.

use crate::demo::{self, Options, Progress};
use crate::error::CommandError;
use crate::progress::Busy;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The present step of the demo, shown on standard error.
#[derive(Default)]
struct Shown(Mutex<Option<Busy>>);

impl Shown {
    fn busy(&self) -> MutexGuard<'_, Option<Busy>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Shown {
    fn begin(&self, what: &str, steps: u64) {
        let mut busy = self.busy();
        // The earlier step is taken away first.
        *busy = None;
        *busy = Some(Busy::new(what, steps));
    }

    fn step(&self) {
        if let Some(busy) = &*self.busy() {
            busy.step();
        }
    }
}

/// Runs the demo and prints its report.
pub(crate) fn run(options: &Options) -> Result<(), CommandError> {
    if options.session {
        let failed = |error| demo::run::DemoError::Nodes(error).into();
        return demo::nodes::serve_session().map_err(failed);
    }
    crate::interrupt::on_interrupt(demo::run::tidy_up);
    let shown = Arc::new(Shown::default());
    let progress: Arc<dyn Progress> = shown.clone();
    let outcome = demo::run::run(options, &progress);
    *shown.busy() = None;
    let report = outcome?;
    super::print(&report.to_string())?;
    if report.difference.is_some() {
        return Err(demo::run::DemoError::Different.into());
    }
    Ok(())
}
