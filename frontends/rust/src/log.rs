//! The log that `QUIPU_LOG` asks for.
//!
//! Its value is a filter as `Targets` of `tracing-subscriber` defines it: levels, and targets with levels. A bare
//! word that is neither a level nor a module of Quipu would be a filter that shows nothing; it is
//! refused instead.

use quipu_core::{ErrorKind, Result};
use std::io::IsTerminal;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

const VARIABLE: &str = "QUIPU_LOG";
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Prints the log that `QUIPU_LOG` asks for to standard error: a level
/// (`error`, `warn`, `info`, `debug`, `trace`), or levels by module, as in
/// `quipu_core=debug,quipu_driver_cpu=trace`. It has colours on a terminal unless
/// `NO_COLOR` is set.
///
/// | level | shows also |
/// |---|---|
/// | `error` | lost devices and buffers; panics of callbacks, and of what a command owned as it was dropped; a trace that could not be completed |
/// | `warn` | workers that could not be pinned |
/// | `debug` | drivers that start, launches, migrations and evictions with their ranges or sizes, commands that fail |
/// | `trace` | every allocation with its size and address, the pointers that launches are given, uploads to simulated devices |
///
/// Nothing in Quipu calls this by itself: it is for programs. True if the log is
/// on now; false if the variable is not set or empty, or the program has a
/// subscriber of its own, which then sees everything that this would print.
///
/// # Errors
/// If the variable's value makes no sense; says which part of it.
pub fn init_logging_from_env() -> Result<bool> {
    let Some(given) = std::env::var_os(VARIABLE).filter(|given| !given.is_empty()) else {
        return Ok(false);
    };
    let given = given.to_string_lossy();
    let filter = parse(&given).map_err(|problem| ErrorKind::InvalidArgument {
        what: "start logging",
        problem: format!(
            "{VARIABLE}={given}: {problem}; use one of error, warn, info, debug and trace, or \
             modules with levels as in quipu_core=debug,quipu_driver_cpu=trace"
        ),
    })?;
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let printer = tracing_subscriber::fmt::layer()
        .with_ansi(colours)
        .with_writer(std::io::stderr);
    let started = tracing_subscriber::registry()
        .with(printer.with_filter(filter))
        .try_init();
    Ok(started.is_ok())
}

fn parse(given: &str) -> std::result::Result<Targets, String> {
    let directives: Vec<&str> = given.split(',').map(str::trim).collect();
    for directive in &directives {
        let bare = !directive.contains('=');
        let level = LEVELS.contains(&directive.to_ascii_lowercase().as_str());
        if bare && !level && !directive.starts_with("quipu") {
            return Err(format!(
                "\"{directive}\" is neither a level nor one of Quipu's modules"
            ));
        }
        if let Some((module, level)) = directive.split_once('=')
            && (module.is_empty() || level.is_empty())
        {
            return Err(format!("\"{directive}\" is no module with a level"));
        }
    }
    let filter = directives.join(",").parse::<Targets>();
    filter.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_modules_are_filters() {
        for given in [
            "info",
            "TRACE",
            "off",
            "quipu_core",
            "quipu_core=debug,quipu_driver_cpu=trace",
            "warn, quipu_core::queue=trace",
            "my_program=debug",
        ] {
            assert!(parse(given).is_ok(), "{given}");
        }
    }

    #[test]
    fn what_would_show_nothing_is_refused() {
        for given in ["verbose", "info,everything", "quipu_core=loud", ",", "="] {
            assert!(parse(given).is_err(), "{given}");
        }
    }
}
