//! The log that `QUIPU_LOG` asks for.

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Prints the log that `QUIPU_LOG` asks for to standard error: a level
/// (`error`, `warn`, `info`, `debug`, `trace`), or levels by module, as in
/// `quipu_core=debug,quipu_driver_cpu=trace`. `debug` shows sizes, launches and
/// migrations, `trace` every allocation and its address as well.
///
/// Nothing in Quipu calls this by itself: it is for programs. True if the log is
/// on now; false if the variable is not set or empty, or the program has a
/// subscriber of its own, which then sees everything that this would print. A
/// directive that makes no sense is reported and left out.
pub fn init_logging_from_env() -> bool {
    match std::env::var("QUIPU_LOG") {
        Ok(directives) if !directives.is_empty() => tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(directives))
            .with_ansi(std::io::stderr().is_terminal())
            .with_writer(std::io::stderr)
            .try_init()
            .is_ok(),
        _ => false,
    }
}
