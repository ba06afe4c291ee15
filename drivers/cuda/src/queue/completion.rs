//! How ends of commands on a device are heard of.
//!
//! 1. Commands in a stream end in order, so only the oldest of each is looked at, by one thread at a time: one that waits
//!    for something if there is one, else the drain thread; none when nothing is in flight.
//! 2. After a while in which nothing has ended, and unless a queue asked for polling, the drain thread asks each stream
//!    that has work to wake it when the oldest command there has ended, and sleeps. CUDA calls back on a thread of its
//!    own, which only wakes.
//! 3. A device that is lost does not call back: so the drain thread looks from time to time all the same.
//! 4. What is noted is acted on by whoever [pumps](super::pump): the drain thread, or a host thread that does so anyway.

use crate::device::{Signal, Track};
use crate::native::CallError;
use quipu_core::clock;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long one looks before one sleeps: longer than being woken takes.
pub(super) const PATIENCE_NS: u64 = 100_000;
/// How often the drain thread looks at a device that may be lost.
const LOOK: Duration = Duration::from_millis(20);

/// A command's end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notice {
    /// The command's number in the ledger.
    pub(super) sequence: u64,
    /// Whether its device is well.
    pub(super) result: Result<(), CallError>,
    /// When the host heard of it, on the process's clock.
    pub(super) seen: u64,
}

/// A command in a stream.
#[derive(Debug)]
struct Watched {
    sequence: u64,
    signal: Signal,
    /// Its queue asks for polling.
    polled: bool,
}

/// The commands in a stream, oldest first.
#[derive(Debug)]
struct Line {
    device: usize,
    track: usize,
    watched: VecDeque<Watched>,
    /// The command whose end wakes the drain thread.
    armed: Option<u64>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Completions {
    noted: Mutex<Noted>,
    wake: Condvar,
    lines: Mutex<Vec<Line>>,
    in_flight: AtomicUsize,
    /// Those in flight whose queues ask for polling.
    polled: AtomicUsize,
    /// When something was last in flight that was new, or ended.
    active: AtomicU64,
}

#[derive(Default)]
struct Noted {
    notices: Vec<Notice>,
    /// Somebody has left work to the drain thread.
    called: bool,
    /// The drain thread sleeps.
    asleep: bool,
    /// The driver is gone.
    closed: bool,
}

/// What the drain thread is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Pump,
    Poll,
    End,
}

/// Called by CUDA: wakes the drain thread.
unsafe extern "C" fn heard(completions: *mut c_void) {
    // SAFETY: made by `arm` for this one call.
    let completions = unsafe { Arc::from_raw(completions.cast::<Completions>()) };
    completions.call();
}

impl Completions {
    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lines(&self) -> MutexGuard<'_, Vec<Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a command's end noted.
    pub(super) fn watch(&self, sequence: u64, signal: Signal, polled: bool) {
        let mut lines = self.lines();
        let (device, track) = (signal.device, signal.track);
        let known = lines
            .iter_mut()
            .find(|line| line.device == device && line.track == track);
        let watched = Watched {
            sequence,
            signal,
            polled,
        };
        match known {
            Some(line) => line.watched.push_back(watched),
            None => lines.push(Line {
                device,
                track,
                watched: VecDeque::from([watched]),
                armed: None,
            }),
        }
        self.polled
            .fetch_add(usize::from(polled), Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        drop(lines);
        self.active.store(clock::now_ns(), Ordering::Relaxed);
        self.wake_if_asleep(self.noted());
    }

    fn wake_if_asleep(&self, noted: MutexGuard<'_, Noted>) {
        let asleep = noted.asleep;
        drop(noted);
        if asleep {
            self.wake.notify_one();
        }
    }

    /// True if something is in flight.
    pub(super) fn is_in_flight(&self) -> bool {
        self.in_flight.load(Ordering::SeqCst) > 0
    }

    /// True if a queue asks for polling that has something in flight.
    pub(super) fn is_polling(&self) -> bool {
        self.polled.load(Ordering::Relaxed) > 0
    }

    /// Looks at what is in flight, unless somebody does; true if something has ended.
    pub(super) fn poll(&self) -> bool {
        let Ok(mut lines) = self.lines.try_lock() else {
            return false;
        };
        let mut ended = Vec::new();
        let mut polled = 0;
        for line in lines.iter_mut() {
            while let Some(oldest) = line.watched.front() {
                let result = match oldest.signal.event.has_happened() {
                    Ok(false) => break,
                    Ok(true) => Ok(()),
                    Err(error) => Err(error),
                };
                polled += usize::from(oldest.polled);
                ended.push((oldest.sequence, result));
                line.watched.pop_front();
            }
        }
        if ended.is_empty() {
            return false;
        }
        let seen = clock::now_ns();
        // Before the lock is given up: whoever finds nothing in flight finds all of it noted.
        let count = ended.len();
        let notices = ended.into_iter().map(|(sequence, result)| Notice {
            sequence,
            result,
            seen,
        });
        self.noted().notices.extend(notices);
        self.polled.fetch_sub(polled, Ordering::Relaxed);
        self.in_flight.fetch_sub(count, Ordering::SeqCst);
        drop(lines);
        self.active.store(seen, Ordering::Relaxed);
        true
    }

    /// True if nothing has come or ended for so long that the drain thread may sleep.
    pub(super) fn is_quiet(&self) -> bool {
        let active = self.active.load(Ordering::Relaxed);
        clock::now_ns().saturating_sub(active) > PATIENCE_NS
    }

    /// Has the drain thread woken when the oldest command of a stream ends, for each stream that has one.
    pub(super) fn arm<'a>(self: &Arc<Self>, track: impl Fn(usize, usize) -> Option<&'a Track>) {
        let mut lines = self.lines();
        for line in lines.iter_mut() {
            let Some(oldest) = line.watched.front() else {
                continue;
            };
            if line.armed == Some(oldest.sequence) {
                continue;
            }
            let Some(track) = track(line.device, line.track) else {
                continue;
            };
            line.armed = Some(oldest.sequence);
            let asked = oldest.signal.event.context().enter().and_then(|_entered| {
                track.echo.wait(&oldest.signal.event)?;
                let listener = Arc::into_raw(self.clone());
                // SAFETY: it takes what it is given, once, and calls nothing.
                let called = unsafe { track.echo.call(heard, listener.cast_mut().cast()) };
                if called.is_err() {
                    // SAFETY: it will not be called, so this is still ours.
                    drop(unsafe { Arc::from_raw(listener) });
                }
                called
            });
            if let Err(error) = asked {
                // Then it is found out by looking.
                tracing::debug!(?error, "a stream does not call back");
            }
        }
    }

    /// Takes what was noted.
    pub(super) fn take(&self) -> Vec<Notice> {
        std::mem::take(&mut self.noted().notices)
    }

    /// True if something is noted.
    pub(super) fn has_notices(&self) -> bool {
        !self.noted().notices.is_empty()
    }

    /// Leaves work to the drain thread.
    pub(super) fn call(&self) {
        let mut noted = self.noted();
        noted.called = true;
        self.wake_if_asleep(noted);
    }

    /// Ends the drain thread.
    pub(crate) fn close(&self) {
        let mut noted = self.noted();
        noted.closed = true;
        self.wake_if_asleep(noted);
    }

    /// What is to be done, if there is anything without sleeping.
    fn due(&self, noted: &mut Noted) -> Option<Due> {
        if noted.closed {
            return Some(Due::End);
        }
        if std::mem::take(&mut noted.called) || !noted.notices.is_empty() {
            return Some(Due::Pump);
        }
        let looks = self.is_in_flight() && (self.is_polling() || !self.is_quiet());
        looks.then_some(Due::Poll)
    }

    /// Sleeps until there is something to do. While something is in flight, streams have been [asked](Self::arm) to wake.
    pub(super) fn next(&self) -> Due {
        let mut noted = self.noted();
        loop {
            if let Some(due) = self.due(&mut noted) {
                return due;
            }
            noted.asleep = true;
            if self.is_in_flight() {
                let waited = self.wake.wait_timeout(noted, LOOK);
                noted = waited.unwrap_or_else(PoisonError::into_inner).0;
                noted.asleep = false;
                return self.due(&mut noted).unwrap_or(Due::Poll);
            }
            noted = self
                .wake
                .wait(noted)
                .unwrap_or_else(PoisonError::into_inner);
            noted.asleep = false;
        }
    }
}
