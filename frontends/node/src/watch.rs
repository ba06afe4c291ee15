//! The watch: a thread that looks from time to time for revoked clients, and for kernels that run
//! or compile for too long.
//!
//! A thread that runs a native kernel, or compiles one for a client, says so in a place of its own,
//! with the time; another looks at all places. It also looks at kernels that run on devices without
//! a thread of this process ([`runs`](crate::session)). A kernel or a compiler that runs for longer
//! than the limit cannot be stopped: its session ends, and with it the process, if the session has
//! one.

use crate::locked;
use crate::node::Shared;
use crate::session::Session;
use quipu_link::timer::Timer;
use quipu_protocol::message::GoodbyeReason;
use quipu_scheduler::panics::quietly;
use quipu_threads::Start;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// Between two looks at who is still enrolled.
const LOOKING: Duration = Duration::from_secs(1);

/// A thread's place.
#[derive(Debug, Default)]
struct Slot {
    /// Since when it runs or compiles a kernel, in nanoseconds, plus one; zero if it does neither.
    since: AtomicU64,
    /// Whether it compiles it.
    compiles: AtomicBool,
    /// Of which session: its number.
    session: AtomicU64,
}

static SLOTS: Mutex<Vec<Weak<Slot>>> = Mutex::new(Vec::new());

/// A place that is looked at as long as somebody has it.
fn new_slot() -> Arc<Slot> {
    let slot = Arc::new(Slot::default());
    let mut slots = locked(&SLOTS);
    slots.retain(|slot| slot.strong_count() > 0);
    slots.push(Arc::downgrade(&slot));
    slot
}

thread_local! {
    static SLOT: Arc<Slot> = new_slot();
}

/// The stopwatch of a session's kernels.
#[derive(Clone, Debug)]
pub(crate) struct Stopwatch {
    timer: Arc<dyn Timer>,
    session: u64,
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Stopwatch {
    pub(crate) fn new(timer: Arc<dyn Timer>, session: u64) -> Self {
        Self { timer, session }
    }

    /// Runs a part of a kernel.
    pub(crate) fn time<R>(&self, run: impl FnOnce() -> R) -> R {
        self.watch(false, run)
    }

    /// Compiles a kernel.
    pub(crate) fn time_compiler<R>(&self, compile: impl FnOnce() -> R) -> R {
        self.watch(true, compile)
    }

    fn watch<R>(&self, compiles: bool, work: impl FnOnce() -> R) -> R {
        struct Stopped(Arc<Slot>);
        impl Drop for Stopped {
            fn drop(&mut self) {
                self.0.since.store(0, Ordering::Release);
            }
        }
        // A thread that ends, and runs a kernel in the destructor of a thread-local, has a place
        // for that kernel alone.
        let slot = SLOT.try_with(Arc::clone).unwrap_or_else(|_| new_slot());
        slot.session.store(self.session, Ordering::Relaxed);
        slot.compiles.store(compiles, Ordering::Relaxed);
        let since = nanoseconds(self.timer.now()).saturating_add(1);
        slot.since.store(since, Ordering::Release);
        // Also if it panics.
        let _stopped = Stopped(slot);
        work()
    }
}

/// The numbers of sessions that have run a kernel, or compiled one, since before a time.
fn late(compiles: bool, before: u64) -> Vec<u64> {
    let slots = locked(&SLOTS);
    let slots = slots.iter().filter_map(Weak::upgrade);
    slots
        .filter(|slot| (1..=before).contains(&slot.since.load(Ordering::Acquire)))
        .filter(|slot| slot.compiles.load(Ordering::Relaxed) == compiles)
        .map(|slot| slot.session.load(Ordering::Relaxed))
        .collect()
}

/// Starts the thread that looks, which ends with the node.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<()> {
    let (shared, timer) = (Arc::downgrade(shared), Arc::clone(&shared.options.timer));
    std::thread::Builder::new()
        .name("quipu-watch".to_owned())
        .start(move || {
            let mut next = LOOKING;
            loop {
                let until = timer.now() + next;
                while timer.now() < until && shared.strong_count() > 0 {
                    timer.park_until(until);
                }
                let Some(shared) = shared.upgrade() else {
                    return;
                };
                next = shared.look();
            }
        })?;
    Ok(())
}

impl Shared {
    /// Looks, and says when to look again.
    fn look(&self) -> Duration {
        self.hold_to_rights();
        let limits = &self.options.limits;
        self.end_long(limits.run_time);
        self.end_late(false, limits.run_time)
            .min(self.end_late(true, limits.compile_time))
    }

    /// Ends the sessions of which a kernel has run on a device for longer than a limit, if there is
    /// one.
    fn end_long(&self, limit: Duration) {
        if limit.is_zero() {
            return;
        }
        let now = self.options.timer.now();
        let devices = self.options.devices.iter();
        let devices: Vec<bool> = devices
            .map(|device| !device.driver().runs_native_code())
            .collect();
        let sessions: Vec<_> = locked(&self.sessions).values().cloned().collect();
        for session in sessions {
            if session.longest_on(&devices, now) > limit {
                self.end_over_limit(&session, &over_limit(false, limit));
            }
        }
    }

    fn end_over_limit(&self, session: &Session, text: &str) {
        quietly(|| tracing::warn!(text, "a session ends"));
        #[cfg(target_os = "linux")]
        if let crate::node::Home::Session(_, node, _) = self.home() {
            node.tell_over(text);
        }
        session.end(GoodbyeReason::Limit, text);
        // Its own thread may be the one that runs the kernel.
        self.forget(session.id());
        self.end_own();
    }

    /// Ends the sessions whose kernels run, or are compiled, for longer than a limit, if there is
    /// one; when to look again.
    fn end_late(&self, compiles: bool, limit: Duration) -> Duration {
        if limit.is_zero() {
            return LOOKING;
        }
        let now = self.options.timer.now();
        if let Some(before) = now.checked_sub(limit) {
            let late = late(compiles, nanoseconds(before));
            let sessions: Vec<_> = locked(&self.sessions).values().cloned().collect();
            for session in sessions {
                if late.contains(&session.number()) {
                    self.end_over_limit(&session, &over_limit(compiles, limit));
                }
            }
        }
        LOOKING.min(limit / 4).max(Duration::from_millis(1))
    }
}

/// Which limit a client has exceeded, and where it is set.
fn over_limit(compiles: bool, limit: Duration) -> String {
    let seconds = limit.as_secs_f64();
    match compiles {
        true => format!(
            "a kernel took longer than {seconds} s to compile, which is the node's limit (`quipu serve --compile-time`)"
        ),
        false => format!(
            "a kernel ran for longer than {seconds} s, which is the node's limit (`quipu serve --run-time`)"
        ),
    }
}
