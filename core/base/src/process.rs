//! The process that uses Quipu, and the children of it that cannot.
//!
//! A child of `fork` has the memory of its parent, and of its threads only the one that forked.
//! Locks that other threads held are held there for ever. The workers of a pool, the threads of
//! drivers and the libraries of vendors do not go on there. So in such a child all that starts
//! something or waits fails with [`ErrorKind::Forked`], and all that is dropped is kept.
//!
//! 1. The first context of the process, or driver that starts a thread or uses a vendor's library,
//!    calls [`enter`], which installs a handler for children. A process that forks before that has
//!    children like any other process.
//! 2. In a child the handler sets two flags. [`is_forked`] is for code that runs seldom. The other
//!    says that something is lost ([`is_anything_lost`]), and each enqueue looks at it anyway. So
//!    an enqueue pays nothing.
//! 3. A task or a callback may fork, and so one of Quipu's own threads may be the one that the
//!    child has. It goes on in that user's code. There is nothing for it to do afterwards, so the
//!    process ends with it ([`end_child`]).

use crate::error::{ErrorKind, Result};
#[cfg(all(unix, not(miri)))]
use crate::panics::quietly;
use crate::said::say;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The process that used Quipu first.
static USER: AtomicU32 = AtomicU32::new(0);

/// True in a child of it.
static FORKED: AtomicBool = AtomicBool::new(false);

/// A device or a context of the process was lost, or the process is such a child.
static ANYTHING_LOST: AtomicBool = AtomicBool::new(false);

/// True once a device or a context was lost, or in a child of `fork`: then enqueues look closer.
#[inline]
#[must_use]
pub fn is_anything_lost() -> bool {
    ANYTHING_LOST.load(Ordering::Relaxed)
}

/// Has enqueues look for lost devices and contexts.
pub fn note_loss() {
    ANYTHING_LOST.store(true, Ordering::SeqCst);
}

/// Notes that this process uses Quipu from now on. For drivers, before they start a thread.
///
/// # Errors
/// As [`check`].
pub fn enter() -> Result<()> {
    static ENTERED: Once = Once::new();
    check()?;
    ENTERED.call_once(|| {
        USER.store(std::process::id(), Ordering::SeqCst);
        watch();
    });
    Ok(())
}

/// True in a child of a process that used Quipu before it forked: nothing of Quipu's goes on here.
#[inline]
#[must_use]
pub fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// # Errors
/// [`ErrorKind::Forked`] in such a child.
#[inline]
pub fn check() -> Result<()> {
    if is_forked() {
        return refuse();
    }
    Ok(())
}

#[cold]
fn refuse() -> Result<()> {
    Err(ErrorKind::Forked {
        parent: USER.load(Ordering::Relaxed),
    }
    .into())
}

/// Ends such a child if the calling thread is one that Quipu has started. Called where a user's
/// code has returned, or has panicked: the status is 0, or the 101 of a program that panics. No
/// handler of exits is called. A vendor's would wait for threads that are not here.
#[inline]
pub fn end_child(has_panicked: bool) {
    if is_forked() && quipu_threads::is_own() {
        end(has_panicked);
    }
}

#[cfg(unix)]
#[cold]
fn end(has_panicked: bool) -> ! {
    // SAFETY: the call takes a number.
    unsafe { libc::_exit(if has_panicked { 101 } else { 0 }) }
}

#[cfg(not(unix))]
fn end(_: bool) {}

/// Runs code that commands need to end, on a thread of a driver's own. A user's panic is contained
/// before it gets here. One of Quipu's own would leave every wait without an end, so it ends the
/// process, with words.
pub fn or_end<R>(thread: &str, work: impl FnOnce() -> R) -> R {
    struct End<'a>(&'a str);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                let thread = self.0;
                say(format_args!(
                    "quipu: the thread '{thread}' panicked, without which commands would never end; this is a fault of \
                     Quipu's, please report it with what is above"
                ));
                std::process::abort();
            }
        }
    }
    let _end = End(thread);
    work()
}

/// Has children say that they are.
#[cfg(all(unix, not(miri)))]
fn watch() {
    extern "C" fn in_child() {
        FORKED.store(true, Ordering::SeqCst);
        note_loss();
    }
    // SAFETY: the handler stores to atomics, which a child may do at any state of its parent's
    // other threads.
    let refused = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    if refused != 0 {
        quietly(|| {
            tracing::warn!(
                "children of fork cannot be told from this process: they must not use Quipu"
            );
        });
    }
}

/// There are no such children.
#[cfg(not(all(unix, not(miri))))]
fn watch() {}
