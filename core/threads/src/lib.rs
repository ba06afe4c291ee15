//! Threads that Quipu starts within a program.
//!
//! A new thread inherits the signal mask and the arithmetic of the thread that starts it. A program
//! may have changed both. A thread of Quipu is [started](Start) with two things as most code
//! expects them:
//!
//! * It takes no signal that the system sends to the process: a program waits for these on threads
//!   of its own choice. A fault of the thread itself still arrives there.
//! * Its [arithmetic](UsualArithmetic) is the usual one.
//!
//! Such a thread knows that it is one ([`is_own`]).
//!
//! Crates that run within programs start their threads so. They ask clippy to warn of the standard
//! library's functions, which `clippy.toml` names.

mod arithmetic;

pub use arithmetic::UsualArithmetic;

use std::cell::Cell;
use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// A thread's builder, as Quipu starts threads by it.
pub trait Start {
    /// Starts a thread, as [`Builder::spawn`] does.
    ///
    /// # Errors
    /// If the system gives none.
    ///
    /// # Panics
    /// As [`Builder::spawn`] does.
    fn start<T: Send + 'static>(
        self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>>;

    /// Starts a thread that ends before the scope does, as [`Builder::spawn_scoped`] does.
    ///
    /// # Errors
    /// If the system gives none.
    ///
    /// # Panics
    /// As [`Builder::spawn_scoped`] does.
    fn start_scoped<'scope, T: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        body: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>;
}

#[allow(clippy::disallowed_methods, reason = "this is the one place")]
impl Start for Builder {
    fn start<T: Send + 'static>(
        self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let _held = HeldSignals::new();
        self.spawn(as_own(body))
    }

    fn start_scoped<'scope, T: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        body: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        let _held = HeldSignals::new();
        self.spawn_scoped(scope, as_own(body))
    }
}

thread_local! {
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// True on a thread that Quipu has started, and not the program.
#[must_use]
pub fn is_own() -> bool {
    OWN.get()
}

/// Has the calling thread's next [park](std::thread::park) return at once when this is dropped. For
/// calls that may park a program's thread: another thread may unpark it meanwhile for reasons of
/// the program's own, and the call would take note of that in the program's place.
#[derive(Debug, Default)]
#[must_use]
pub struct LeaveUnparked(());

impl LeaveUnparked {
    /// Does so when it is dropped.
    pub fn new() -> Self {
        Self(())
    }
}

impl Drop for LeaveUnparked {
    fn drop(&mut self) {
        std::thread::current().unpark();
    }
}

fn as_own<T>(body: impl FnOnce() -> T) -> impl FnOnce() -> T {
    || {
        OWN.set(true);
        let _usual = UsualArithmetic::enter();
        body()
    }
}

/// Signals that a thread brings about itself; and the one of profilers, which ask the thread that
/// works what it does.
#[cfg(unix)]
const TAKEN: [libc::c_int; 8] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
    libc::SIGPROF,
];

/// This thread, and those that it starts, take no other signals, until it is dropped. Then this
/// thread takes what it took before.
struct HeldSignals {
    #[cfg(unix)]
    before: libc::sigset_t,
}

impl HeldSignals {
    #[cfg(unix)]
    fn new() -> Self {
        // SAFETY: sets that are made whole before they are used, and this thread's own mask.
        unsafe {
            let (mut held, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&raw mut held);
            for signal in TAKEN {
                libc::sigdelset(&raw mut held, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const held, &raw mut before);
            Self { before }
        }
    }

    #[cfg(not(unix))]
    fn new() -> Self {
        Self {}
    }
}

#[cfg(unix)]
impl Drop for HeldSignals {
    fn drop(&mut self) {
        let before = &raw const self.before;
        // SAFETY: the mask that this thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// True if the calling thread takes a signal of these.
    fn takes(signals: &[libc::c_int]) -> bool {
        // SAFETY: a set that the call makes whole; no mask is changed.
        unsafe {
            let mut blocked = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut blocked);
            let mut signals = signals.iter();
            signals.any(|signal| libc::sigismember(&raw const blocked, *signal) == 0)
        }
    }

    const OF_PROGRAM: [libc::c_int; 6] = [
        libc::SIGINT,
        libc::SIGTERM,
        libc::SIGUSR1,
        libc::SIGCHLD,
        libc::SIGALRM,
        libc::SIGPIPE,
    ];

    #[test]
    fn a_thread_takes_no_signals_of_the_program() {
        let look = || (takes(&OF_PROGRAM), takes(&[libc::SIGSEGV]));
        let started = Builder::new().start(look).unwrap();
        assert_eq!(started.join().unwrap(), (false, true));
        let scoped = std::thread::scope(|scope| {
            let started = Builder::new().start_scoped(scope, look).unwrap();
            started.join().unwrap()
        });
        assert_eq!(scoped, (false, true));
        assert!(takes(&OF_PROGRAM), "the thread that starts others");
    }

    #[test]
    fn a_thread_knows_whose_it_is() {
        assert!(Builder::new().start(is_own).unwrap().join().unwrap());
        assert!(!is_own());
    }

    #[test]
    fn a_thread_is_left_unparked() {
        std::thread::current().unpark();
        let left = LeaveUnparked::new();
        // In the program's place.
        std::thread::park();
        drop(left);
        std::thread::park();
    }

    #[test]
    fn a_thread_that_takes_no_signals_takes_none_after_it_has_started_another() {
        let body = || {
            Builder::new().start(|| ()).unwrap().join().unwrap();
            takes(&OF_PROGRAM)
        };
        assert!(!Builder::new().start(body).unwrap().join().unwrap());
    }
}
