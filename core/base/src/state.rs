//! The state word of a command: its count of unresolved waits, and its flags.
//!
//! ```text
//!  31        30         29       28 .. 26  25 ............. 0
//!  POISONED  WANT_EACH  CLAIMED  (unused)  unresolved waits
//! ```
//!
//! Protocol:
//!
//! 1. The enqueuing thread first gathers the command's waits, then [stores](State::start) their
//!    number, then registers an edge with each. From the first registration on other threads may
//!    resolve waits; a registration that fails, because the event is over, the enqueuer resolves
//!    itself. Nothing but resolving happens to the word from here on, so the command may be run,
//!    and its slot freed, before the enqueuer is back.
//! 2. The thread that resolves the last wait is told so and owns the command: exactly one caller is
//!    ([`State::resolve`], [`State::resolve_many`]).
//! 3. A wait that failed [claims](State::claim_poison) the command, stores the cause, and calls
//!    [`State::poison`], all *before* it resolves. The decrement publishes this to the owner, which
//!    acquired the last decrement. A driver that starts a command before it owns it finds the cause
//!    when it sees the flag.
//! 4. Cancelling does not touch this word, so the holder of the last wait of a
//!    command may resolve it with a plain store: nobody else writes the word.

use crate::limits::MOST_LISTED;
use crate::sync::{AtomicU32, Ordering};

/// A wait of this command failed: it must not run, its cause is stored.
pub const POISONED: u32 = 1 << 31;
/// A wait of this command failed, and stores its cause, or has.
const CLAIMED: u32 = 1 << 29;
/// The driver wants to hear of each resolved wait, not only of the last.
pub const WANT_EACH: u32 = 1 << 30;
/// The bits that count unresolved waits.
const COUNT: u32 = (1 << 26) - 1;
/// The most waits that one command may have.
pub const MAX_WAITS: u32 = COUNT;
const _: () = assert!(MOST_LISTED <= MAX_WAITS as usize / 2);

/// The state of a command after a wait was resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// None: the caller owns the command now.
    Last,
    /// Others, and the driver wants to hear of it.
    Each,
    /// Others.
    One,
}

/// The state word of a command. See the module for its protocol.
#[derive(Debug)]
pub struct State(AtomicU32);

impl State {
    /// The state of a slot that is not in use.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Starts with so many unresolved waits, and flags. Only the thread that
    /// constructs the command calls this, before it registers any of them.
    #[inline]
    pub fn start(&self, waits: u32, flags: u32) {
        debug_assert!(waits <= MAX_WAITS);
        self.0.store(waits | flags, Ordering::Relaxed);
    }

    /// One wait is resolved.
    #[inline]
    #[must_use]
    pub fn resolve(&self) -> Resolved {
        // One wait, which is the caller's: nobody else writes the word. The load acquires the
        // releases of threads that resolved waits before.
        if self.0.load(Ordering::Acquire) == 1 {
            self.0.store(0, Ordering::Relaxed);
            return Resolved::Last;
        }
        self.resolve_many(1)
    }

    /// Resolves so many waits at once.
    #[inline]
    #[must_use]
    pub fn resolve_many(&self, waits: u32) -> Resolved {
        let before = self.0.fetch_sub(waits, Ordering::AcqRel);
        if before & COUNT == waits {
            Resolved::Last
        } else if before & WANT_EACH != 0 {
            Resolved::Each
        } else {
            Resolved::One
        }
    }

    /// Says that a wait failed. True for the first caller, which then stores the cause, and
    /// [poisons](State::poison) the command before it resolves its wait.
    #[inline]
    #[must_use]
    pub fn claim_poison(&self) -> bool {
        self.0.fetch_or(CLAIMED, Ordering::Relaxed) & (CLAIMED | POISONED) == 0
    }

    /// Marks that a wait failed, whose cause is stored.
    #[inline]
    pub fn poison(&self) {
        self.0.fetch_or(POISONED, Ordering::Release);
    }

    /// True if a wait failed: then its cause is stored.
    #[inline]
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.0.load(Ordering::Acquire) & POISONED != 0
    }

    /// Unresolved waits; a snapshot.
    #[must_use]
    pub fn unresolved(&self) -> u32 {
        self.0.load(Ordering::Relaxed) & COUNT
    }
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}
