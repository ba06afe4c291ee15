//! Goodbye as the process exits.
//!
//! A program may end while its devices are still in use: `main` returns before the last of them is
//! dropped, something calls `std::process::exit`, a thread is in the middle of dropping them.
//! Without a goodbye each node would keep the session until it believes that the program does not
//! come back. So the C runtime is asked to call here as the process exits:
//!
//! 1. Each connection that there is says goodbye, on a thread of its own, for the exiting thread
//!    may hold any lock.
//! 2. The exit goes on when all have, or after a moment.

use crate::link::Link;
use crate::locked;
use quipu_link::timer::deadline_after;
use quipu_threads::Start;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, Once, TryLockError, Weak};
use std::time::{Duration, Instant};

/// The most time beyond the longest goodbye for which the exit is held up.
const GRACE: Duration = Duration::from_millis(500);

/// The connections that there are, and the process that made them: one that was forked has copies,
/// which are not its own to end.
static LINKS: Mutex<(u32, Vec<Weak<Link>>)> = Mutex::new((0, Vec::new()));

/// Has a connection say goodbye as the process exits, unless it has before.
pub(crate) fn note(link: &Arc<Link>) {
    static ASKED: Once = Once::new();
    ASKED.call_once(ask);
    let mut links = locked(&LINKS);
    links.0 = std::process::id();
    links.1.retain(|link| link.strong_count() > 0);
    links.1.push(Arc::downgrade(link));
}

/// Says goodbye on all connections.
fn say_goodbye() {
    let links = {
        // A thread that notes a link is done soon, unless it is this one, or was left behind by a
        // fork.
        let until = deadline_after(GRACE);
        let mut links = loop {
            match LINKS.try_lock() {
                Ok(links) => break links,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::yield_now(),
                Err(TryLockError::WouldBlock) => return,
            }
        };
        if links.0 != std::process::id() {
            return;
        }
        std::mem::take(&mut links.1)
    };
    let mut longest = Duration::ZERO;
    let (said, goodbyes) = channel();
    for link in links.iter().filter_map(Weak::upgrade) {
        longest = longest.max(link.goodbye);
        let said = said.clone();
        let saying = std::thread::Builder::new().name("quipu-goodbye".to_owned());
        // Without a thread there is no goodbye.
        let _ = saying.start(move || {
            link.close();
            // The exit may not wait any more. A link dropped here could be the last reference.
            let _ = said.send(());
            std::mem::forget(link);
        });
    }
    drop(said);
    let until = deadline_after(longest.saturating_add(GRACE));
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if goodbyes.recv_timeout(left).is_err() {
            return;
        }
    }
}

/// Asks the C runtime to say goodbye as the process exits.
#[cfg(not(miri))]
fn ask() {
    use std::ffi::c_int;
    unsafe extern "C" {
        fn atexit(callback: extern "C" fn()) -> c_int;
    }
    extern "C" fn at_exit() {
        // Nothing may unwind into the C runtime, and no one is left to be told.
        let _ = std::panic::catch_unwind(say_goodbye);
    }
    // SAFETY: `atexit` is in every C runtime that std links, with this signature. The callback is a
    // plain function that does not unwind and touches only statics that are never destroyed. If the
    // runtime has no room for it, there is no goodbye, and nodes find the connections ended.
    unsafe {
        atexit(at_exit);
    }
}

/// Miri has no `atexit`.
#[cfg(miri)]
fn ask() {}
