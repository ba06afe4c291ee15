//! The reader of the command stream: a thread that waits for an end, or else the link's own thread,
//! the *keeper*.
//!
//! A thread that waits and is told of the end by another has to be woken, which takes longer than
//! all the rest of a short command. So:
//!
//! 1. One thread at a time has the *turn*: it reads, and ends commands.
//! 2. A thread that waits takes the turn if no other has it, and gives it back when its command is
//!    over. If commands are still in flight then, it calls the keeper. Only the messages that it
//!    reads wake it, and an [`Interrupt`] if its command ends in another way. After a while it
//!    gives the turn to the keeper, and sleeps as any other: it has to look after its wait now and
//!    then, as to flush commands that it has come to need.
//! 3. If another thread has the turn, it sleeps until it is told.
//! 4. The keeper has the turn from the start. When nothing is in flight for a moment, it may be
//!    taken from it by a thread that waits; and once threads have waited, the keeper gives it up
//!    itself then, and *stands by*. It takes it again when it is called, or when for a while no
//!    thread has waited: so no thread wakes in vain.
//! 5. The commands in flight are *unattended* if a thread has sent or flushed that does not wait,
//!    or that waits while another reads. Then the sending thread calls the keeper if no thread has
//!    the turn, and the keeper goes on if it is just giving it up. A thread that enqueues, or that
//!    flushes because it waits, is no reason: the one flushes later, the other reads. Should it
//!    not, the keeper sees it at its next look.
//!
//! 6. If the connection is *lost* and its stream goes on with another, it is for the keeper to
//!    dial, which may take long: a thread that waits and finds the loss gives the turn back, and
//!    only the keeper takes it until the stream goes on. Waiting threads sleep meanwhile.
//!
//! A thread that gives up the turn looks at the commands in flight afterwards. A thread that sends
//! looks at the turn after it has marked them unattended. So one of them calls.

use crate::link::Link;
use crate::locked;
use crate::receive::receiving;
use quipu_link::LinkError;
use quipu_link::stream::{Incoming, Interrupt};
use quipu_protocol::message::Message;
use quipu_scheduler::event::{Waiter, will_poll};
use quipu_scheduler::panics::quietly;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A thread that has waited for so long leaves the turn to the keeper.
const PATIENCE: Duration = Duration::from_millis(10);
/// The time between the keeper's looks while it stands by.
const LOOK: Duration = Duration::from_millis(5);
/// After so many looks in which no thread has waited, it takes the turn.
const LOOKS: u32 = 40;

/// See the module.
pub(crate) struct Reading {
    /// Locked by the thread that has the turn.
    incoming: Mutex<Option<Incoming>>,
    /// None where a thread cannot wait for two things at once: there the keeper reads.
    interrupt: Option<Arc<Interrupt>>,
    /// True if a thread has the turn: as the state says, with whose lock held it changes.
    taken: AtomicBool,
    /// Something is in flight for which its sender does not read.
    unattended: AtomicBool,
    /// Nothing was in flight for a moment since the keeper last looked.
    paused: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

/// The holder of the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    Nobody,
    Keeper,
    /// A thread that waits.
    Waiter,
}

struct State {
    reader: Reader,
    /// The keeper is to take the turn.
    called: bool,
    /// A thread has waited since the keeper last looked.
    waited: bool,
    /// The connection is lost, and the keeper is to get another.
    lost: bool,
    /// Nothing comes any more.
    ended: bool,
}

/// The turn, until it is given back.
struct Turn<'a> {
    link: &'a Link,
    /// The thread waits while it panics, as a value that it drops then may. That is no panic of its
    /// reading.
    panicked_before: bool,
}

impl<'a> Turn<'a> {
    /// Of this thread's, which has taken it.
    fn of(link: &'a Link) -> Self {
        Self {
            link,
            panicked_before: std::thread::panicking(),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.panicked_before {
            // It may have been in the middle of a message.
            self.link.fail("a thread that was reading has panicked");
        }
        self.link.reading.give_back();
        self.link.call_keeper();
    }
}

impl Reading {
    pub(crate) fn new(incoming: Incoming) -> Self {
        let interrupt = Interrupt::new();
        if let Err(error) = &interrupt {
            quietly(|| tracing::debug!(%error, "threads that wait do not read themselves"));
        }
        Self {
            incoming: Mutex::new(Some(incoming)),
            interrupt: interrupt.ok().map(Arc::new),
            taken: AtomicBool::new(true),
            unattended: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            state: Mutex::new(State {
                reader: Reader::Keeper,
                called: false,
                waited: false,
                lost: false,
                ended: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Nothing comes any more: the thread that has the turn finds that out by itself.
    pub(crate) fn end(&self) {
        locked(&self.state).ended = true;
        self.changed.notify_all();
    }

    fn set(&self, state: &mut State, reader: Reader) {
        state.reader = reader;
        self.taken.store(reader != Reader::Nobody, Ordering::SeqCst);
    }

    /// Takes the turn for a thread that waits, if no other has it, or the keeper need not.
    fn try_take(&self) -> bool {
        let mut state = locked(&self.state);
        state.waited = true;
        let is_free = match state.reader {
            Reader::Nobody => true,
            Reader::Keeper => self.paused.swap(false, Ordering::SeqCst),
            Reader::Waiter => false,
        };
        if state.ended || state.lost || !is_free {
            self.unattended.store(true, Ordering::SeqCst);
            return false;
        }
        let was_keepers = state.reader == Reader::Keeper;
        self.set(&mut state, Reader::Waiter);
        drop(state);
        if let Some(interrupt) = self.interrupt.as_ref().filter(|_| was_keepers) {
            // It may have begun to sleep.
            interrupt.raise();
        }
        true
    }

    fn give_back(&self) {
        let mut state = locked(&self.state);
        self.set(&mut state, Reader::Nobody);
        let is_awaited = state.ended || state.lost;
        drop(state);
        if is_awaited {
            self.changed.notify_all();
        }
    }

    /// Nothing is in flight. Called with the lock held under which that is counted.
    pub(crate) fn nothing_flies(&self) {
        self.unattended.store(false, Ordering::SeqCst);
        self.paused.store(true, Ordering::SeqCst);
    }

    /// The connection is lost. True if the reader is the keeper, and still has the turn: it is to
    /// get another.
    fn lose(&self, reader: Reader) -> bool {
        let mut state = locked(&self.state);
        state.lost = true;
        reader == Reader::Keeper && state.reader == reader
    }

    /// True if the keeper is to go on.
    fn is_keepers(&self) -> bool {
        let state = locked(&self.state);
        let yields = self.paused.swap(false, Ordering::SeqCst) && state.waited;
        state.reader == Reader::Keeper && !yields
    }

    /// The keeper stands by until it is to take the turn, which it then has; false if nothing comes
    /// any more.
    fn stand_by(&self, is_flying: impl Fn() -> bool) -> bool {
        let mut state = locked(&self.state);
        state.waited = false;
        if state.reader == Reader::Keeper {
            self.set(&mut state, Reader::Nobody);
        }
        let mut looks = 0;
        // The sender has relied on the keeper.
        let mut is_due = is_flying() && self.unattended.load(Ordering::SeqCst);
        loop {
            let is_free = state.reader == Reader::Nobody;
            if state.ended && is_free {
                return false;
            }
            is_due |= std::mem::take(&mut state.called) || state.lost;
            if std::mem::take(&mut is_due) && is_free {
                self.set(&mut state, Reader::Keeper);
                return true;
            }
            let waited = self.changed.wait_timeout(state, LOOK);
            let (guard, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            state = guard;
            if waited.timed_out() {
                // While threads wait one after the other, they see to it.
                let waits = std::mem::take(&mut state.waited);
                looks = if waits { 0 } else { looks + 1 };
                is_due = !waits && (is_flying() || looks >= LOOKS);
            }
        }
    }
}

impl Link {
    /// Runs the keeper, until the connection ends.
    pub(crate) fn keep_reading(&self) {
        let _receiving = receiving();
        // It has the turn.
        loop {
            let goes_on = || self.reading.is_keepers().then_some(Duration::MAX);
            self.read_while(Reader::Keeper, &goes_on);
            if !self.reading.stand_by(|| self.is_flying()) {
                break;
            }
        }
        // Nothing comes of it any more, and the other direction ends with it.
        locked(&self.reading.incoming).take();
    }

    /// Waits, and reads meanwhile if no other thread does.
    pub(crate) fn wait(&self, waiter: &Waiter<'_>) {
        let reading = &self.reading;
        if let Some(interrupt) = reading.interrupt.clone()
            && !waiter.has_deadline()
            && !waiter.is_watched()
            && reading.try_take()
        {
            let _turn = Turn::of(self);
            let raise = move || interrupt.raise();
            if let Some(armed) = waiter.arm_with(raise) {
                let _receiving = receiving();
                let begun = Instant::now();
                let goes_on = || {
                    let left = PATIENCE.checked_sub(begun.elapsed());
                    left.filter(|left| !left.is_zero() && !armed.is_done())
                };
                self.read_while(Reader::Waiter, &goes_on);
                if !armed.is_done() {
                    self.reading.unattended.store(true, Ordering::SeqCst);
                }
            }
        } else {
            self.leave_to_keeper();
        }
        // If the connection is lost, another thread reports it.
        waiter.park();
    }

    /// Takes messages as long as `goes_on`, by the holder of the turn.
    fn read_while(&self, reader: Reader, goes_on: &dyn Fn() -> Option<Duration>) {
        let mut incoming = locked(&self.reading.incoming);
        let Some(incoming) = incoming.as_mut() else {
            return;
        };
        loop {
            let take = |link: &mut &Self, message: &Message<'_>, _| link.take(message);
            let (mut link, rest) = (self, |link: &mut &Self| link.look());
            let taken = match &self.reading.interrupt {
                Some(interrupt) => {
                    incoming.receive_while(&mut link, take, rest, interrupt, goes_on)
                }
                None => incoming.receive_or_rest(&mut link, take, rest).map(Some),
            };
            match taken {
                Ok(Some(Ok(()))) => {}
                Ok(None) => return,
                Ok(Some(Err(rule))) => return self.broken(rule),
                Err(error) => {
                    // Messages that have come until now are acted on.
                    self.look();
                    if !self.goes_on_reading(reader, incoming, error) {
                        return;
                    }
                }
            }
        }
    }

    /// True if the reader goes on after an error.
    fn goes_on_reading(&self, reader: Reader, incoming: &mut Incoming, error: LinkError) -> bool {
        let is_end = matches!(error, LinkError::Wire { .. }) || !incoming.is_lost();
        if is_end {
            self.ended(&error);
            return false;
        }
        // Else it is left to the keeper, which finds the loss as this thread did.
        let resumes = self.reading.lose(reader) && self.goes_on(false, incoming, error);
        if resumes {
            locked(&self.reading.state).lost = false;
        }
        resumes
    }

    /// Has the keeper read if something is in flight and no thread does.
    fn call_keeper(&self) {
        if !self.is_flying() || self.reading.taken.load(Ordering::SeqCst) {
            return;
        }
        locked(&self.reading.state).called = true;
        self.reading.changed.notify_all();
    }

    /// Ensures that some thread reads the answers to sent messages: the keeper, unless this thread
    /// will read next, and no other has left it to the keeper.
    pub(crate) fn attend(&self) {
        if self.siblings.get().is_some() {
            // A waiting thread may wait for any node.
            self.leave_to_keeper();
        } else if !will_poll(self.driver_address()) {
            self.leave_to_keeper();
        } else if self.reading.unattended.load(Ordering::SeqCst) {
            self.call_keeper();
        }
    }

    /// Another thread has to read the next messages.
    pub(crate) fn leave_to_keeper(&self) {
        let unattended = &self.reading.unattended;
        if !unattended.load(Ordering::SeqCst) {
            unattended.store(true, Ordering::SeqCst);
        }
        self.call_keeper();
    }
}
