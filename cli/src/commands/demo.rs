//! `quipu demo`: a real job over every device there is.

use crate::demo::{self, Options};
use crate::error::CommandError;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Runs the demo and prints its report.
pub(crate) fn run(options: &Options) -> Result<(), CommandError> {
    if options.session {
        let failed = |error| demo::run::DemoError::Nodes(error).into();
        return demo::nodes::serve_session().map_err(failed);
    }
    crate::interrupt::on_interrupt(demo::run::tidy_up);
    let spinner = if io::stderr().is_terminal() {
        ProgressBar::new_spinner()
    } else {
        ProgressBar::hidden()
    };
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}, {elapsed}") {
        spinner.set_style(style);
    }
    spinner.enable_steady_tick(Duration::from_millis(100));
    let outcome = demo::run::run(options, &|what| spinner.set_message(what.to_owned()));
    spinner.finish_and_clear();
    let report = outcome?;
    let mut stdout = io::stdout().lock();
    write!(stdout, "{report}")?;
    stdout.flush()?;
    if report.difference.is_some() {
        return Err(demo::run::DemoError::Different.into());
    }
    Ok(())
}
