//! The barrier of a block whose threads are state machines polled on one core.
//!
//! A block runs in *rounds*. In a round the scheduler ([`launch`](crate::launch)) polls each thread of
//! the block once, in order; a thread runs up to its next barrier, arrives there, and gives way.
//!
//! 1. Before each poll the scheduler notes that the thread runs. (Progress is that of one thread: counting
//!    the arrivals of all would make each thread wait for the store of the one before it.)
//! 2. The thread arrives: its [`Arrival`] notes the barrier's generation, adds its vote, and is pending.
//!    The first to arrive in a round says where the barrier is and which shared arrays turn; every other
//!    has to say the same, or does not count as arrived.
//! 3. After each poll the scheduler checks that the thread has either ended or arrived exactly once.
//! 4. After the round it checks that all threads ended, or that all arrived. Then the barrier is complete,
//!    and the next round begins: the votes are published, the rest is forgotten, the generation rises.
//! 5. In the next round each arrival sees a generation that is not the one it noted, and is ready.
//!
//! So an arrival becomes ready only after *every* thread of the block came to the same barrier with the
//! same arrays. The safety of shared arrays rests on that alone, whatever else a kernel does with these
//! futures (polls them by hand, drops them, leaks them, joins two of them).

use std::cell::Cell;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::KernelError;

/// A place in the source.
pub(crate) type Site = &'static Location<'static>;

/// Which shared arrays turn at a barrier, and in which direction: two bits for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turns(u64);

impl Turns {
    /// How many shared arrays a block may have.
    pub(crate) const MOST_ARRAYS: u32 = 31;
    /// No array turns.
    pub(crate) const NONE: Self = Self(0);
    /// Never equal to what another thread arrives with: arrays of another block are being turned.
    pub(crate) const FOREIGN: Self = Self(u64::MAX);

    #[inline(always)]
    pub(crate) const fn to_read(array: u32) -> Self {
        Self(1 << (2 * array))
    }

    #[inline(always)]
    pub(crate) const fn to_write(array: u32) -> Self {
        Self(2 << (2 * array))
    }

    /// The turns of two sets of arrays together. An array cannot be in both.
    #[inline(always)]
    pub(crate) const fn and(self, other: Self) -> Self {
        if self.0 & other.0 == 0 {
            Self(self.0 | other.0)
        } else {
            Self::FOREIGN
        }
    }
}

/// What a thread has done in a poll so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It has not come to a barrier.
    Runs,
    /// It has arrived at the barrier that the first thread of the round arrived at.
    Waits,
    /// It has arrived elsewhere, or once more. Nothing but the next poll changes that.
    Strays,
}

/// The barrier of a block: who has arrived, where, and with what. One per block that is running.
#[derive(Debug)]
pub struct BarrierState {
    /// Rounds begun.
    generation: Cell<u64>,
    /// What the thread that is being polled has done so far.
    progress: Cell<Progress>,
    /// Where the first thread of this round arrived, `None` before it did.
    site: Cell<Option<Site>>,
    /// What that thread turns.
    turns: Cell<Turns>,
    /// Predicates that held in this round.
    votes: Cell<usize>,
    /// Predicates that held at the last completed barrier.
    outcome: Cell<usize>,
    /// Where a thread arrived that did not fit the first.
    mismatch: Cell<Option<Site>>,
}

impl BarrierState {
    pub(crate) fn new() -> Self {
        Self {
            generation: Cell::new(0),
            progress: Cell::new(Progress::Runs),
            site: Cell::new(None),
            turns: Cell::new(Turns::NONE),
            votes: Cell::new(0),
            outcome: Cell::new(0),
            mismatch: Cell::new(None),
        }
    }

    /// Step 1 of the protocol.
    #[inline(always)]
    pub(crate) fn begin_poll(&self) {
        self.progress.set(Progress::Runs);
    }

    /// Step 2.
    #[inline(always)]
    fn arrive(&self, site: Site, turns: Turns, vote: bool) {
        let as_the_first = turns == self.turns.get()
            && self
                .site
                .get()
                .is_some_and(|first| std::ptr::eq(first, site));
        if (as_the_first && self.progress.get() == Progress::Runs)
            || self.arrive_otherwise(site, turns)
        {
            self.progress.set(Progress::Waits);
            if vote {
                self.votes.set(self.votes.get() + 1);
            }
        }
    }

    /// An arrival that is the first of its round, or not obviously like the first; whether it counts.
    #[cold]
    fn arrive_otherwise(&self, site: Site, turns: Turns) -> bool {
        if self.progress.get() == Progress::Runs && turns != Turns::FOREIGN {
            match self.site.get() {
                None => {
                    self.site.set(Some(site));
                    self.turns.set(turns);
                    return true;
                }
                // One place may have several `Location`s, if it was compiled into several units.
                Some(first) if *first == *site && self.turns.get() == turns => return true,
                Some(_) => self.mismatch.set(Some(site)),
            }
        }
        self.progress.set(Progress::Strays);
        false
    }

    /// What the thread that was just polled has done: step 3.
    #[inline(always)]
    pub(crate) fn progress(&self) -> Progress {
        self.progress.get()
    }

    /// Step 4, when all have arrived, and before the first round.
    #[inline(always)]
    pub(crate) fn begin_round(&self) {
        self.outcome.set(self.votes.replace(0));
        self.site.set(None);
        self.generation.set(self.generation.get() + 1);
    }

    /// Why a thread neither ended nor arrived exactly once.
    #[cold]
    pub(crate) fn explain(&self, group: u64, thread: usize) -> KernelError {
        match (self.site.get(), self.mismatch.get()) {
            (first, Some(second)) => KernelError::MismatchedBarrier {
                group,
                thread,
                first: first.unwrap_or(second),
                second,
            },
            (_, None) => KernelError::ForeignAwait { group, thread },
        }
    }

    /// Some threads ended while others arrived.
    #[cold]
    pub(crate) fn diverged(&self, group: u64, finished: usize, waiting: usize) -> KernelError {
        match self.site.get() {
            Some(barrier) => KernelError::DivergentBarrier {
                group,
                finished,
                waiting,
                barrier,
            },
            None => KernelError::ForeignAwait { group, thread: 0 },
        }
    }
}

/// One thread's arrival at a barrier, which is also the wait for all others; gives the number of
/// predicates that held.
#[derive(Debug)]
#[must_use = "a thread that arrives at a barrier has to wait there: await it"]
pub(crate) struct Arrival<'b> {
    state: &'b BarrierState,
    /// The generation at which it arrived.
    generation: u64,
}

impl<'b> Arrival<'b> {
    /// Arrives. (Not only when it is polled first: so there is less to keep while waiting.)
    #[inline(always)]
    pub(crate) fn new(state: &'b BarrierState, site: Site, turns: Turns, vote: bool) -> Self {
        state.arrive(site, turns, vote);
        Self {
            state,
            generation: state.generation.get(),
        }
    }

    #[inline(always)]
    pub(crate) fn poll_votes(&self) -> Poll<usize> {
        if self.generation == self.state.generation.get() {
            Poll::Pending
        } else {
            Poll::Ready(self.state.outcome.get())
        }
    }
}

impl Future for Arrival<'_> {
    type Output = usize;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<usize> {
        self.poll_votes()
    }
}

/// One thread's wait at a barrier.
#[derive(Debug)]
#[must_use = "a thread that arrives at a barrier has to wait there: await it"]
pub struct Barrier<'b>(Arrival<'b>);

impl<'b> Barrier<'b> {
    #[inline(always)]
    pub(crate) fn new(state: &'b BarrierState, site: Site) -> Self {
        Self(Arrival::new(state, site, Turns::NONE, false))
    }
}

impl Future for Barrier<'_> {
    type Output = ();

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<()> {
        self.0.poll_votes().map(drop)
    }
}
