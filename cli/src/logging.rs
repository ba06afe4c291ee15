//! `QUIPU_LOG`: what Quipu does, on standard error.
//!
//! The value is a filter as `tracing-subscriber` defines it: a level, or targets with levels. A
//! bare word that is neither a level nor a module of ours would be a filter that shows nothing; it
//! is refused instead.

use crate::error::CommandError;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

const VARIABLE: &str = "QUIPU_LOG";
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Starts logging, if the environment asks for it.
pub(crate) fn start() -> Result<(), CommandError> {
    let Some(given) = std::env::var_os(VARIABLE).filter(|given| !given.is_empty()) else {
        return Ok(());
    };
    let given = given.to_string_lossy().into_owned();
    let filter = parse(&given).map_err(|problem| CommandError::Log { given, problem })?;
    let stderr_is_terminal = std::io::stderr().is_terminal();
    // If something else logs already, it goes on doing so.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(stderr_is_terminal && std::env::var_os("NO_COLOR").is_none())
        .try_init();
    Ok(())
}

fn parse(given: &str) -> Result<EnvFilter, String> {
    let directives: Vec<&str> = given.split(',').map(str::trim).collect();
    for directive in &directives {
        let bare = !directive.contains(['=', '[']);
        let level = LEVELS.contains(&directive.to_ascii_lowercase().as_str());
        if bare && !level && !directive.starts_with("quipu") {
            return Err(format!(
                "\"{directive}\" is neither a level nor one of Quipu's modules"
            ));
        }
    }
    EnvFilter::builder()
        .parse(directives.join(","))
        .map_err(|error| error.to_string())
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
