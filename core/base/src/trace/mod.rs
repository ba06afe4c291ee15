//! The trace of a program: a record of when and where each command ran, as a file that Perfetto and
//! `quipu trace` open.
//!
//! `QUIPU_TRACE=file.json` in the environment of any program turns the trace on; [`start`] does the
//! same from code. When it is off, its whole cost is [`enabled`]: one relaxed load of a static. The
//! core asks that question once per finished command and only then builds a [`CommandRecord`]:
//!
//! ```
//! use quipu_scheduler_base::trace::{self, CommandKind, CommandRecord};
//!
//! if trace::enabled() {
//!     trace::record(CommandRecord {
//!         started_ns: 1_000,
//!         ended_ns: 4_500,
//!         ..CommandRecord::new(7, CommandKind::Launch, "saxpy")
//!     });
//! }
//! ```
//!
//! # Protocol
//!
//! 1. The first [`enabled`] (or [`start`]) of the process decides: it reads `QUIPU_TRACE`, creates
//!    the file and asks the C runtime to call [`finish`] at exit. `{pid}` in the file's name
//!    becomes the process id, so that several processes with one environment do not write over each
//!    other. A file that cannot be created is reported on standard error, once, and the trace stays
//!    off.
//! 2. [`record`] puts the finished command into a block of the calling thread: one uncontended
//!    lock, no formatting.
//! 3. The thread that fills a block (256 records, or one second of the supplied time) takes the
//!    writer's lock, empties the blocks of *all* threads, orders them by end time and writes them
//!    to the file in one piece.
//! 4. [`finish`] writes the rest and closes the JSON array. It may be called any number of times: a
//!    record that comes after it overwrites the bracket and goes on. The core calls it when the
//!    last context is dropped.
//!
//! # Bounds
//!
//! Memory is bounded, whatever the length of the program: at most 64 blocks of 256 records, and two
//! tables of fixed size that join dependencies ([`Recorder`] has the figures). The file grows by
//! about 600 bytes per command up to a limit of 2 GiB (`QUIPU_TRACE_LIMIT`, in MiB): then the trace
//! stops, says so on standard error, and the file so far remains a complete one. A process that
//! dies loses at most the content of the blocks; the file then lacks its `]`, which Perfetto and
//! `quipu trace` both accept.
//!
//! # Time
//!
//! The trace has no clock. Callers supply nanoseconds since an origin of their choice; the
//! simulated devices' time works as well as the wall's.

mod error;
mod flow;
mod format;
mod record;
mod recorder;

pub use error::TraceError;
pub use record::{CommandKind, CommandRecord, Detour, Name, NodeClock};
pub use recorder::{DEFAULT_LIMIT, Recorder};

use crate::said::say;
use quipu_environment::{TRACE, TRACE_LIMIT};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Nobody has looked at the environment yet.
const UNDECIDED: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

/// The state of the trace: on, off or undecided. Written under [`STARTING`], and by the thread that
/// stops a trace that cannot go on.
static STATE: AtomicU8 = AtomicU8::new(UNDECIDED);
/// The recorder of the process. Set at most once, before `STATE` becomes `ON`.
static RECORDER: OnceLock<Recorder> = OnceLock::new();
/// Held while the decision is made.
static STARTING: Mutex<()> = Mutex::new(());

/// True if finished commands are to be recorded.
///
/// One relaxed load; the first call of the process also reads `QUIPU_TRACE`.
#[inline]
pub fn enabled() -> bool {
    match STATE.load(Ordering::Relaxed) {
        OFF => false,
        ON => true,
        _ => decide(),
    }
}

/// Reads the environment; prints an error, because there is no caller to be handed it.
#[cold]
fn decide() -> bool {
    if crate::process::is_forked() {
        // Another thread may have had the lock, and the file would be the parent's.
        return false;
    }
    let starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if STATE.load(Ordering::Relaxed) == UNDECIDED {
        let wanted = TRACE.get().map_err(TraceError::from);
        let started = wanted.and_then(|file| file.map(|file| begin(&expand(file))).transpose());
        if let Err(error) = &started {
            say(format_args!("quipu: {}: {error}", TRACE.name()));
        }
        if !matches!(started, Ok(Some(()))) {
            STATE.store(OFF, Ordering::Relaxed);
        }
    }
    drop(starting);
    STATE.load(Ordering::Relaxed) == ON
}

/// `{pid}` becomes the process id.
fn expand(name: PathBuf) -> PathBuf {
    // A name that is not Unicode is left as it is.
    match name.to_str() {
        Some(text) => text
            .replace("{pid}", &std::process::id().to_string())
            .into(),
        None => name,
    }
}

/// Creates the recorder. The caller holds [`STARTING`] and has seen that there is none.
fn begin(path: &Path) -> Result<(), TraceError> {
    let limit = TRACE_LIMIT
        .get()?
        .map_or(DEFAULT_LIMIT, |mebibytes| mebibytes << 20);
    let mut recorder = Recorder::create(path)?;
    recorder.set_limit(limit);
    if RECORDER.set(recorder).is_ok() {
        finish_at_exit();
    }
    STATE.store(ON, Ordering::Relaxed);
    Ok(())
}

/// Turns the trace on from code, into a new file at `path`, for the rest of the process. In a child
/// of `fork`, where nothing is recorded, it does nothing.
///
/// # Errors
///
/// [`TraceError::AlreadyStarted`] when a trace is being written, by `QUIPU_TRACE` or an earlier
/// call: [`path`] says where. [`TraceError::Create`] when the file cannot be created.
pub fn start(path: impl AsRef<Path>) -> Result<(), TraceError> {
    if crate::process::is_forked() {
        return Ok(());
    }
    // The environment has the first word.
    enabled();
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    match RECORDER.get() {
        Some(recorder) => Err(TraceError::AlreadyStarted {
            path: recorder.path().to_owned(),
        }),
        None => begin(path.as_ref()),
    }
}

/// The file this process traces into, if it does.
pub fn path() -> Option<PathBuf> {
    recorder().map(|recorder| recorder.path().to_owned())
}

/// The recorder, while the trace is on; none in a child of `fork`, where other threads may have had
/// its locks.
fn recorder() -> Option<&'static Recorder> {
    let is_on = enabled() && !crate::process::is_forked();
    if is_on { RECORDER.get() } else { None }
}

/// Records a finished command. Does nothing when the trace is off, but see [`enabled`]: ask first.
pub fn record(command: CommandRecord) {
    if let Some(recorder) = recorder()
        && let Err(error) = recorder.record(command)
    {
        STATE.store(OFF, Ordering::Relaxed);
        // In the middle of an end, where nothing may panic, as `eprintln` does.
        let _ = writeln!(std::io::stderr(), "quipu: {error}");
    }
}

/// Names a device; without this it is called `device <id>`.
pub fn name_device(device: u32, name: &str) {
    if let Some(recorder) = recorder() {
        recorder.name_device(device, name);
    }
}

/// Says how far the clock of a device's machine is ahead of this one's, as is known by now.
pub fn note_clock(device: u32, clock: &NodeClock<'_>) {
    if let Some(recorder) = recorder() {
        recorder.note_clock(device, clock);
    }
}

/// Says that bytes for a device went a longer way than they should.
pub fn note_detour(device: u32, detour: &Detour<'_>) {
    if let Some(recorder) = recorder() {
        recorder.note_detour(device, detour);
    }
}

/// Names a lane of a device (a worker, a copy engine); without this it is called `lane <lane>`.
pub fn name_lane(device: u32, lane: u32, name: &str) {
    if let Some(recorder) = recorder() {
        recorder.name_lane(device, lane, name);
    }
}

/// Names a queue; without this it is called `queue <id>`.
pub fn name_queue(queue: u32, name: &str) {
    if let Some(recorder) = recorder() {
        recorder.name_queue(queue, name);
    }
}

/// Writes out everything recorded so far and completes the JSON. Recording may go on afterwards.
///
/// # Errors
///
/// [`TraceError::Write`] when the file did not take it. Without a trace there is nothing to do, and
/// that succeeds.
pub fn finish() -> Result<(), TraceError> {
    if crate::process::is_forked() {
        // The file is the parent's.
        return Ok(());
    }
    RECORDER.get().map_or(Ok(()), Recorder::finish)
}

/// Asks the C runtime to complete the file as the process exits.
#[cfg(not(miri))]
fn finish_at_exit() {
    use std::ffi::c_int;
    unsafe extern "C" {
        fn atexit(callback: extern "C" fn()) -> c_int;
    }
    extern "C" fn at_exit() {
        // Nothing may unwind into the C runtime, and nobody is left to be told of an error but
        // standard error.
        if let Ok(Err(error)) = std::panic::catch_unwind(finish) {
            say(format_args!("quipu: {error}"));
        }
    }
    // SAFETY: `atexit` is in every C runtime that std links, with this signature. The callback is a
    // plain function that does not unwind and touches only statics that are never destroyed. If the
    // runtime has no room for it, the file merely lacks its closing bracket.
    unsafe {
        atexit(at_exit);
    }
}

/// Miri has no `atexit`: the file lacks its closing bracket there.
#[cfg(miri)]
fn finish_at_exit() {}

#[cfg(test)]
mod tests;
