//! The log that `QUIPU_LOG` asks for.
//!
//! Its value is a filter as `Targets` of `tracing-subscriber` defines it: levels, and targets with
//! levels. A bare word that is neither a level nor a module of Quipu would be a filter that shows
//! nothing; it is refused instead.

use quipu_environment::LOG;
use quipu_scheduler::Result;
use quipu_scheduler::said::say;
use std::cell::Cell;
use std::fmt::{self, Write as _};
use std::io::IsTerminal;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::prelude::*;

/// Prints the log that `QUIPU_LOG` asks for to standard error: a level
/// (`error`, `warn`, `info`, `debug`, `trace`), or levels by module, as in
/// `quipu_scheduler=debug,quipu_driver_cpu=trace`. It has colours on a terminal unless
/// `NO_COLOR` is set.
///
/// | level | shows also |
/// |---|---|
/// | `error` | lost devices and buffers; panics of callbacks, and of what a command owned as it was dropped; a trace that could not be completed |
/// | `warn` | workers that could not be pinned; waits that take longer than `QUIPU_WATCH` says |
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
    init_logging(None)
}

/// As [`init_logging_from_env`], where this filter counts if the variable is not set or empty.
///
/// # Errors
/// As there; if the filter makes no sense.
pub fn init_logging_from_env_or(filter: &str) -> Result<bool> {
    init_logging(Some(filter))
}

fn init_logging(otherwise: Option<&str>) -> Result<bool> {
    let given = LOG.get()?;
    let Some(given) = given.or_else(|| otherwise.map(str::to_owned)) else {
        return Ok(false);
    };
    let filter = given.parse::<Targets>();
    let filter = filter.map_err(|error| LOG.refuse(&given, error.to_string()))?;
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let printer = tracing_subscriber::fmt::layer()
        .with_ansi(colours)
        // It would print them where it could not print an event.
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    let started = tracing_subscriber::registry()
        .with(Printer(printer).with_filter(filter))
        .try_init();
    Ok(started.is_ok())
}

/// Prints by another layer, which keeps a buffer for each thread in a thread-local with a
/// destructor. A thread that ends may log after that is gone, where it would panic: its lines are
/// printed plainly then.
struct Printer<L>(L);

/// Dropped before that buffer, as it is made after it.
struct Buffered;

impl Drop for Buffered {
    fn drop(&mut self) {
        ENDS.set(true);
    }
}

thread_local! {
    /// The buffer is about to go, or gone.
    static ENDS: Cell<bool> = const { Cell::new(false) };
    static BUFFERED: Buffered = const { Buffered };
}

impl<S: Subscriber, L: Layer<S>> Layer<S> for Printer<L> {
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if ENDS.get() {
            return print(event);
        }
        self.0.on_event(event, context);
        // The buffer is there.
        let _ = BUFFERED.try_with(|_| ());
    }

    fn on_new_span(&self, span: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        self.0.on_new_span(span, id, context);
    }

    fn on_record(&self, span: &Id, values: &Record<'_>, context: Context<'_, S>) {
        self.0.on_record(span, values, context);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        self.0.on_enter(id, context);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        self.0.on_exit(id, context);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        self.0.on_close(id, context);
    }
}

/// A line of an event, without time and colours.
fn print(event: &Event<'_>) {
    struct Line(String);
    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            // A text takes all that is written to it.
            let _ = match field.name() {
                "message" => write!(self.0, " {value:?}"),
                name => write!(self.0, " {name}={value:?}"),
            };
        }
    }
    let about = event.metadata();
    let mut line = Line(format!("{} {}:", about.level(), about.target()));
    event.record(&mut line);
    say(line.0);
}
