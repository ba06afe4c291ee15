//! The barrier of a block whose threads are state machines polled on one core.
//!
//! A block runs in *rounds*. In a round the scheduler ([`launch`](crate::launch)) polls each thread
//! of the block once, in order; a thread runs up to its next barrier, arrives there, and gives way.
//! One word is kept, [`ARRIVED`]: the place at which the thread that is being polled has arrived. A
//! thread and a barrier cost a nanosecond or two, so every instruction counts:
//!
//! * The word is a variable of the operating system's thread, so that no code has to keep or load
//!   its address. Code that runs a block leaves it as it was found ([`Polling`]), as a kernel may
//!   run a launch of its own.
//! * A thread that has not arrived is the address of its block's state there, which no other block
//!   has as long as the thread lives. So threads of a launch inside of a kernel do not make the
//!   arrivals of the threads around them complete: one word says whose thread is polled, too.
//! * Nothing is passed from one thread to the next but through a branch, which the processor
//!   predicts; counting the arrivals would make each thread wait for the store of the one before
//!   it.
//!
//! 1. Before each poll the scheduler clears `ARRIVED`: it sets it to the address of the block's
//!    state.
//! 2. A thread that asks whether its arrival is complete is told so if `ARRIVED` is clear for its
//!    own block: it was polled again, and so all threads came to the same barrier in the round
//!    before.
//! 3. The thread arrives: it sets `ARRIVED`, which has to be clear, to the place of the barrier,
//!    marked if it turns arrays. It marks it once more if it does not turn the arrays that the
//!    first thread of the last round turned.
//! 4. After each poll the scheduler compares `ARRIVED` with the value that it expects: that of the
//!    first thread of the round. Usually it is the same as in the round before, as barriers are in
//!    loops.
//! 5. After the round it checks that all threads ended, or that all arrived. Then the barrier is
//!    complete, the votes are published, and the next round begins.
//! 6. If the block fails, `ARRIVED` is set to a stray arrival before threads are dropped: a
//!    destructor that asks, as in step 2, is not polled again.

use std::cell::Cell;
use std::panic::Location;
use std::task::Poll;

use super::{BlockOf, Exchanged, Port, Site, Turns};
use crate::error::KernelError;

/// Mark of an arrival that turns arrays.
const TURNS: usize = 1;
/// Mark of an arrival that turns others than expected.
const OTHERS: usize = 2;
/// An arrival that no thread may make: twice at once, or with arrays of another block.
const STRAY: usize = 3;
/// A value with which no thread arrives: expected before any other is.
const NOWHERE: usize = usize::MAX;

const _: () = assert!(
    align_of::<Location<'static>>() > 3 && align_of::<BarrierState>() > 3,
    "places have room for marks, and no mark makes one of another"
);

thread_local! {
    /// The place at which the block's thread that is being polled has arrived: address and marks.
    /// Before it did, the address of the block's state; 0 while no block is run.
    static ARRIVED: Cell<usize> = const { Cell::new(0) };
}

/// A block is being run here: at its end the word is as it was before.
#[derive(Debug)]
pub(crate) struct Polling(usize);

impl Polling {
    pub(crate) fn begin() -> Self {
        Self(ARRIVED.get())
    }

    /// The block goes no further: from here to its end, no arrival is complete.
    pub(crate) fn fail() {
        ARRIVED.set(STRAY);
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        ARRIVED.set(self.0);
    }
}

/// Two arrivals that do not fit each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    /// The place at which the first thread of the round arrived.
    first: Option<Site>,
    /// The place of the thread that did not fit.
    second: Option<Site>,
}

/// The barrier of a block: the place and the turns of the arrivals. One per block that is running.
#[derive(Debug)]
pub struct BarrierState {
    /// The value to which the first thread of the round has set [`ARRIVED`], without [`OTHERS`].
    expected: Cell<usize>,
    /// The arrays that that thread turned, if any.
    turns: Cell<Turns>,
    /// The arrays that a thread turns that does not turn the same.
    other_turns: Cell<Turns>,
    /// Votes of this round that are yes.
    votes: Cell<usize>,
    /// Votes of the last completed barrier that were yes.
    outcome: Cell<usize>,
}

impl BarrierState {
    pub(crate) fn new() -> Self {
        Self {
            expected: Cell::new(NOWHERE),
            turns: Cell::new(Turns::NONE),
            other_turns: Cell::new(Turns::NONE),
            votes: Cell::new(0),
            outcome: Cell::new(0),
        }
    }

    /// The value of [`ARRIVED`] for a thread of this block that has not arrived.
    #[inline(always)]
    fn clear(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Step 1 of the protocol.
    #[inline(always)]
    pub(crate) fn begin_poll(&self) {
        ARRIVED.set(self.clear());
    }

    /// Step 4 for a thread that ended: it must not have arrived.
    #[inline(always)]
    pub(crate) fn has_not_arrived(&self) -> bool {
        ARRIVED.get() == self.clear()
    }

    /// Step 4 for a thread that gave way. `first`: no other thread was polled in this round.
    ///
    /// # Errors
    /// If it has not arrived exactly once, where the first thread of the round did.
    #[inline(always)]
    pub(crate) fn has_arrived(&self, first: impl FnOnce() -> bool) -> Result<(), Fault> {
        if ARRIVED.get() == self.expected.get() {
            Ok(())
        } else {
            self.has_arrived_elsewhere(first())
        }
    }

    #[cold]
    fn has_arrived_elsewhere(&self, first: bool) -> Result<(), Fault> {
        let arrived = ARRIVED.get();
        if arrived == self.clear() || arrived == STRAY {
            return Err(Fault {
                first: None,
                second: None,
            });
        }
        if first {
            if arrived & OTHERS != 0 {
                self.turns.set(self.other_turns.get());
            }
            self.expected.set(arrived & !OTHERS);
            return Ok(());
        }
        let (first, second) = (site_of(self.expected.get()), site_of(arrived));
        let same_marks = arrived & STRAY == self.expected.get() & STRAY;
        // One place may have several `Location`s, if it was compiled into several units.
        if first == second && same_marks {
            return Ok(());
        }
        Err(Fault { first, second })
    }

    /// Step 5, when all have arrived.
    #[inline(always)]
    pub(crate) fn end_round(&self) {
        self.outcome.set(self.votes.replace(0));
    }

    /// The place of the barrier at which all have arrived, if that is one of the grid.
    pub(crate) fn grid_barrier(&self) -> Option<Site> {
        let expected = self.expected.get();
        let is_of_grid = expected & STRAY == TURNS && self.turns.get() == Turns::GRID;
        is_of_grid.then(|| site_of(expected)).flatten()
    }

    /// Some threads ended, of which this is the first, while others arrived.
    #[cold]
    pub(crate) fn diverged(
        &self,
        block: BlockOf,
        thread: usize,
        finished: usize,
        waiting: usize,
    ) -> KernelError {
        let BlockOf { kernel, group } = block;
        let expected = Some(self.expected.get()).filter(|word| *word != NOWHERE);
        match expected.and_then(site_of) {
            Some(barrier) => KernelError::DivergentBarrier {
                kernel,
                group,
                finished,
                thread,
                waiting,
                barrier,
            },
            None => block.foreign(0),
        }
    }

    /// Step 3 for a thread that turns arrays.
    #[inline(always)]
    fn arrive_turning(&self, site: Site, turns: Turns) {
        let mut word = address_of(site) | TURNS;
        if turns != self.turns.get() {
            word = self.turn_others(word, turns);
        }
        ARRIVED.set(word);
    }

    #[cold]
    fn stray(&self) {
        ARRIVED.set(STRAY);
    }

    #[cold]
    fn turn_others(&self, word: usize, turns: Turns) -> usize {
        self.other_turns.set(turns);
        if turns == Turns::FOREIGN {
            STRAY
        } else {
            word | OTHERS
        }
    }
}

impl Fault {
    /// The error of a thread that neither ended nor arrived exactly once.
    #[cold]
    pub(crate) fn explain(self, block: BlockOf, thread: usize) -> KernelError {
        let BlockOf { kernel, group } = block;
        match (self.first, self.second) {
            (Some(first), Some(second)) => KernelError::MismatchedBarrier {
                kernel,
                group,
                thread,
                first,
                second,
            },
            _ => block.foreign(thread),
        }
    }
}

#[inline(always)]
fn address_of(site: Site) -> usize {
    std::ptr::from_ref(site).expose_provenance()
}

/// The place that an arrival's word says.
#[cold]
fn site_of(word: usize) -> Option<Site> {
    let address = word & !STRAY;
    let pointer = std::ptr::with_exposed_provenance::<Location<'static>>(address);
    // SAFETY: null, or exposed by `address_of` from a reference that is valid for ever.
    unsafe { pointer.as_ref() }
}

// SAFETY: a thread is polled again only after the scheduler has seen all arrive at one place with
// one set of arrays (step 4: turning others than the first is marked, and marks are compared), and
// each once only (step 3). A thread that asks without being polled, as it is dropped, finds
// `ARRIVED` set (step 6), and so does one that is asked by a thread of a block inside: its ticket
// is its own block.
unsafe impl Port for BarrierState {
    type Ticket<'p> = &'p Self;

    #[inline(always)]
    fn arrive(&self, site: Site, turns: Turns, vote: bool) -> &Self {
        if !self.has_not_arrived() {
            self.stray();
            return self;
        }
        if vote {
            self.votes.set(self.votes.get() + 1);
        }
        if turns == Turns::NONE {
            ARRIVED.set(address_of(site));
        } else {
            self.arrive_turning(site, turns);
        }
        self
    }

    #[inline(always)]
    fn poll(block: &Self) -> Poll<()> {
        if block.has_not_arrived() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    #[inline(always)]
    fn outcome(&self) -> usize {
        self.outcome.get()
    }

    /// A warp of one thread waits for no other.
    #[inline(always)]
    fn exchange(&self, _site: Site, _word: u64, _vote: bool) {}

    #[inline(always)]
    fn exchanged(&self, vote: bool) -> Poll<Exchanged> {
        Poll::Ready(Exchanged {
            active: 1,
            ballot: u64::from(vote),
        })
    }

    #[inline(always)]
    fn word(&self, _lane: u32, own: u64) -> u64 {
        own
    }

    #[inline(always)]
    fn block(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }
}
