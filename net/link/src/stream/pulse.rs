//! Liveness: pings where nothing else is sent, and the loss of a connection on which nothing comes.
//!
//! TCP tells whether the next machine answers. A proxy or a tunnel ends TCP there, and may be
//! stopped behind it: then both sides would wait for ever. So, if both sides take pulses:
//!
//! 1. A side that has sent nothing for half of the time sends what it has to send, or a ping.
//! 2. A side to which no byte has come for all of the time takes the connection to be lost.
//!
//! A thread of the stream looks at the counts four times in that time, so messages pass without a
//! look at the clock. Bytes that the system has and that are not read yet have come: a reader may
//! be busy for long. A look that comes late says that this process was stopped, and nothing of the
//! other side.

use super::{Attached, Loss, Shared, socket};
use crate::timer::{SystemTimer, Timer};
use quipu_protocol::message::{Message, Ping};
use quipu_threads::Start;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The time without a byte after which a connection is lost, where this side chooses. The other
/// side is taken to be there for half as long again at most, the time that the system takes to find
/// a machine dead.
pub const IDLE: Duration = Duration::from_secs(20);

/// No connection is lost sooner, whatever the other side chooses: pings are not to be a load.
const LEAST: Duration = Duration::from_secs(1);

/// The pulse that two sides have agreed on.
#[derive(Clone, Debug)]
pub(crate) struct Pulse {
    /// After how long without a byte the connection is lost; zero for never.
    idle: Duration,
    timer: Arc<dyn Timer>,
}

impl Default for Pulse {
    /// None.
    fn default() -> Self {
        Self::within(Duration::ZERO, Arc::new(SystemTimer::default()))
    }
}

impl Pulse {
    pub(crate) fn within(idle: Duration, timer: Arc<dyn Timer>) -> Self {
        let idle = if idle.is_zero() {
            idle
        } else {
            idle.max(LEAST)
        };
        Self { idle, timer }
    }

    /// Watches a stream from a thread of its own, until that has ended.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(super) fn watch(self, shared: &Arc<Shared>) -> std::io::Result<()> {
        if self.idle.is_zero() {
            return Ok(());
        }
        let watched = Arc::downgrade(shared);
        let thread = std::thread::Builder::new()
            .name("quipu-pulse".to_owned())
            .stack_size(1 << 16)
            .start(move || Watch::new(self).run(&watched))?;
        // Set once, here.
        let _ = shared.watcher.set(thread.thread().clone());
        Ok(())
    }
}

/// The state of the thread.
struct Watch {
    pulse: Pulse,
    /// The connection of which the rest is known.
    attached: Weak<Attached>,
    /// Bytes that were sent and received by the last look, and when these numbers were seen to
    /// change.
    sent: (u64, Duration),
    received: (u64, Duration),
    /// The time at which it looked last.
    looked: Duration,
}

impl Watch {
    fn new(pulse: Pulse) -> Self {
        let now = pulse.timer.now();
        Self {
            pulse,
            attached: Weak::new(),
            sent: (0, now),
            received: (0, now),
            looked: now,
        }
    }

    fn run(mut self, watched: &Weak<Shared>) {
        let pause = self.pulse.idle / 4;
        loop {
            match watched.upgrade() {
                Some(shared) if shared.queue().failure.is_none() => self.look(&shared),
                _ => return,
            }
            self.pulse.timer.park_until(self.looked + pause);
        }
    }

    /// Looks at the bytes that have gone and come since the last look.
    fn look(&mut self, shared: &Shared) {
        let (now, idle) = (self.pulse.timer.now(), self.pulse.idle);
        let since = now.saturating_sub(std::mem::replace(&mut self.looked, now));
        let (attached, is_pending) = {
            let queue = shared.queue();
            let is_pending = queue.taken > 0 || !queue.batch.is_empty();
            (queue.attached.clone(), is_pending)
        };
        let Some(attached) = attached else {
            self.attached = Weak::new();
            return;
        };
        let [sent, received] = shared.counts.bytes();
        let is_new = !std::ptr::eq(self.attached.as_ptr(), &raw const *attached);
        if is_new {
            self.attached = Arc::downgrade(&attached);
        }
        if is_new || sent != self.sent.0 {
            self.sent = (sent, now);
        }
        let is_late = since > idle / 2;
        if is_new
            || is_late
            || received != self.received.0
            || socket::has_something(&attached.socket)
        {
            self.received = (received, now);
        }
        if now.saturating_sub(self.received.1) >= idle {
            let reason = format!("nothing has come for {} s", idle.as_secs_f64());
            return shared.lose(Some(&attached), Loss::Silent, &reason);
        }
        if now.saturating_sub(self.sent.1) >= idle / 2 {
            if !is_pending {
                let ping = Message::Ping(Ping {
                    token: 0,
                    time_ns: 0,
                });
                // If the stream has ended, the next look finds that.
                let _ = shared.push(&mut shared.queue(), &ping);
            }
            // A thread that has pushed something and is held up since has not flushed it.
            shared.flush();
        }
    }
}
