//! Blocks run as a GPU does: warp by warp, the threads of each going on together.
//!
//! The threads are futures, as in [`polled`](super::polled), and polled on one core. A warp goes
//! from one warp function to the next by itself:
//!
//! 1. Each of its lanes is polled once. It ends, or gives way at a barrier of the block or at a
//!    warp function.
//! 2. All at the same warp function: their values are published, and the warp begins again.
//! 3. All at a barrier, or ended: the next warp has its turn.
//! 4. After the last warp, all threads are at one barrier of the block, or all have ended; anything
//!    else is an error.
//!
//! Blocks that wait for each other at barriers of the grid run in turn, each up to the next of
//! these.
//!
//! Words and votes of a warp function are kept twice, by turns: a lane may give its next ones while
//! others have not yet read its last.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::test_thread::{Meeting, Test};
use crate::barrier::{BarrierState, BlockOf, Exchanged, Polling, Port, Site, Turns};
use crate::error::KernelError;

/// The meeting of the block's threads.
struct Lockstep {
    warp_size: usize,
    block: BarrierState,
    /// The warp function that the thread that is being polled has come to.
    at: Cell<Option<Site>>,
    /// True if that thread came to two places at once.
    strays: Cell<bool>,
    /// Of the warp that runs.
    active: Cell<u64>,
    /// The index of the set of words and ballots that is being written.
    writing: Cell<usize>,
    ballots: [Cell<u64>; 2],
    words: [RefCell<[u64; 64]>; 2],
}

impl Lockstep {
    fn new(warp_size: usize) -> Self {
        Self {
            warp_size,
            block: BarrierState::new(),
            at: Cell::new(None),
            strays: Cell::new(false),
            active: Cell::new(0),
            writing: Cell::new(0),
            ballots: [const { Cell::new(0) }; 2],
            words: [const { RefCell::new([0; 64]) }; 2],
        }
    }

    fn begin_poll(&self) {
        self.block.begin_poll();
        self.at.set(None);
        self.strays.set(false);
    }

    /// True if the thread that is being polled is nowhere yet.
    fn goes(&self) -> bool {
        let goes = self.block.has_not_arrived() && self.at.get().is_none();
        self.strays.set(self.strays.get() || !goes);
        goes
    }

    /// Publishes the lanes' values.
    fn publish(&self) {
        self.writing.set(1 - self.writing.get());
        self.ballots[self.writing.get()].set(0);
    }
}

// The promise of `Port`: a thread is polled again only when all have arrived, which step 4 and
// `BarrierState` check. `at` and `arrived` are clear again then, as they are before any poll; and
// no thread is at two places at once. A thread that is dropped is not polled: by then the block has
// failed or ended, and nothing is complete (`Polling::fail`).
impl Meeting for Lockstep {
    fn arrive(&self, _thread: usize, site: Site, turns: Turns, vote: bool) {
        if self.goes() {
            self.block.arrive(site, turns, vote);
        }
    }

    fn poll(&self, _thread: usize) -> Poll<()> {
        BarrierState::poll(&self.block)
    }

    fn outcome(&self) -> usize {
        self.block.outcome()
    }

    fn exchange(&self, thread: usize, site: Site, word: u64, vote: bool) {
        if self.goes() {
            self.at.set(Some(site));
            let lane = thread % self.warp_size;
            self.words[self.writing.get()].borrow_mut()[lane] = word;
            let ballot = &self.ballots[self.writing.get()];
            ballot.set(ballot.get() | u64::from(vote) << lane);
        }
    }

    fn exchanged(&self, _thread: usize) -> Poll<Exchanged> {
        if self.at.get().is_some() || !self.block.has_not_arrived() {
            return Poll::Pending;
        }
        Poll::Ready(Exchanged {
            active: self.active.get(),
            ballot: self.ballots[1 - self.writing.get()].get(),
        })
    }

    fn word(&self, _thread: usize, lane: u32) -> Option<u64> {
        let active = self.active.get() >> lane & 1 == 1;
        active.then(|| self.words[1 - self.writing.get()].borrow()[lane as usize])
    }
}

/// The places of a warp's lanes, after each was polled once.
#[derive(Default)]
struct Round {
    ended: usize,
    /// The first that ended.
    first_ended: Option<usize>,
    waiting: usize,
    /// The number of those at a warp function, and the place of the first of them.
    exchanging: usize,
    site: Option<Site>,
}

/// Runs one block in warps of such a size.
pub(super) fn run_block(test: &Test<'_>, warp_size: usize) -> Result<(), KernelError> {
    let meeting = Lockstep::new(warp_size);
    let _polling = Polling::begin();
    // The threads of a block that is run alone come to no barrier of the grid.
    Running::new(test, &meeting)?.go_on().map(drop)
}

/// Runs blocks that wait for each other: in turn, each up to the next barrier of the grid.
pub(super) fn run_together(tests: &[Test<'_>], warp_size: usize) -> Result<(), KernelError> {
    let meetings: Vec<_> = tests.iter().map(|_| Lockstep::new(warp_size)).collect();
    let _polling = Polling::begin();
    let blocks = tests.iter().zip(&meetings);
    let mut blocks = blocks
        .map(|(test, meeting)| Running::new(test, meeting))
        .collect::<Result<Vec<_>, _>>()?;
    loop {
        // The first block that ended, and the first that waits, with its place.
        let (mut ended, mut waiting) = (None, None);
        for block in &mut blocks {
            let BlockOf { kernel, group } = block.test.of;
            let Some(site) = block.go_on()? else {
                ended = ended.or(Some(group));
                continue;
            };
            let (other, first) = *waiting.get_or_insert((group, site));
            if *first != *site {
                return Err(KernelError::MismatchedGrid {
                    kernel,
                    groups: [other, group],
                    barriers: [first, site],
                });
            }
        }
        let Some((group, barrier)) = waiting else {
            return Ok(());
        };
        if let Some(finished) = ended {
            return Err(KernelError::DivergentGrid {
                kernel: tests[0].of.kernel,
                finished,
                group,
                barrier,
            });
        }
        // Accesses of all threads so far come before those from now on.
        if let Some(shadow) = tests[0].shadow {
            shadow.forget(0..usize::MAX);
        }
    }
}

/// A block that is run in parts.
struct Running<'t> {
    test: &'t Test<'t>,
    meeting: &'t Lockstep,
    alive: Alive<'t>,
    /// The number of barriers passed.
    epoch: u64,
}

impl<'t> Running<'t> {
    fn new(test: &'t Test<'t>, meeting: &'t Lockstep) -> Result<Self, KernelError> {
        let threads = test.threads;
        let mut alive = Alive(Vec::new());
        alive
            .0
            .try_reserve_exact(threads)
            .map_err(|_| KernelError::OutOfMemory {
                bytes: threads.saturating_mul(size_of::<Pin<Box<dyn Future<Output = ()>>>>()),
            })?;
        Ok(Self {
            test,
            meeting,
            alive,
            epoch: 0,
        })
    }

    /// Runs the block up to the next barrier of the grid, or to its end. Gives the place of that
    /// barrier.
    fn go_on(&mut self) -> Result<Option<Site>, KernelError> {
        let (test, meeting) = (self.test, self.meeting);
        let (threads, warp_size) = (test.threads, meeting.warp_size);
        let alive = &mut self.alive;
        loop {
            let (mut ended, mut first_ended, mut waiting) = (0, None, 0);
            for first in (0..threads).step_by(warp_size) {
                let lanes = first..(first + warp_size).min(threads);
                meeting.active.set(u64::MAX >> (64 - lanes.len()));
                loop {
                    let mut round = Round::default();
                    for thread in lanes.clone() {
                        meeting.begin_poll();
                        if thread == alive.0.len() {
                            // SAFETY: this comes to each thread once.
                            alive.0.push(unsafe { test.block.start(meeting, thread) });
                        }
                        let future = alive.0[thread].as_mut();
                        let poll = test.step(thread, self.epoch, || {
                            future.poll(&mut Context::from_waker(Waker::noop()))
                        })?;
                        let place = Place {
                            of: test.of,
                            thread,
                            first: waiting + round.waiting == 0,
                        };
                        round.note(meeting, poll, place)?;
                    }
                    if round.exchanging < lanes.len() {
                        if let (1.., Some(site)) = (round.exchanging, round.site) {
                            return Err(KernelError::DivergentWarp {
                                kernel: test.of.kernel,
                                group: test.of.group,
                                warp: first / warp_size,
                                waiting: round.exchanging,
                                elsewhere: lanes.len() - round.exchanging,
                                site,
                            });
                        }
                        ended += round.ended;
                        first_ended = first_ended.or(round.first_ended);
                        waiting += round.waiting;
                        break;
                    }
                    meeting.publish();
                }
            }
            if ended == threads {
                return Ok(None);
            }
            if let Some(thread) = first_ended {
                let error = meeting.block.diverged(test.of, thread, ended, waiting);
                return Err(error);
            }
            meeting.block.end_round();
            self.epoch += 1;
            if let Some(site) = meeting.block.grid_barrier() {
                return Ok(Some(site));
            }
        }
    }
}

/// The threads. When they are dropped because of an error or a panic, further panics are forgotten.
struct Alive<'t>(Vec<Pin<Box<dyn Future<Output = ()> + 't>>>);

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        // A destructor may ask for an arrival to which the others have not come.
        Polling::fail();
        while let Some(future) = self.0.pop() {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(future))) {
                std::mem::forget(panic);
            }
        }
    }
}

/// The thread that is looked at.
struct Place {
    of: BlockOf,
    thread: usize,
    /// No other has come to the barrier of this round yet.
    first: bool,
}

impl Round {
    /// Notes where a lane is that was just polled.
    fn note(
        &mut self,
        meeting: &Lockstep,
        poll: Poll<()>,
        place: Place,
    ) -> Result<(), KernelError> {
        let Place { of, thread, first } = place;
        let foreign = || of.foreign(thread);
        if meeting.strays.get() {
            return Err(foreign());
        }
        match (poll, meeting.at.get()) {
            (Poll::Ready(()), None) if meeting.block.has_not_arrived() => {
                self.ended += 1;
                self.first_ended = self.first_ended.or(Some(thread));
            }
            (Poll::Ready(()), _) => return Err(foreign()),
            (Poll::Pending, Some(second)) => {
                let first = *self.site.get_or_insert(second);
                if *first != *second {
                    return Err(KernelError::MismatchedWarp {
                        kernel: of.kernel,
                        group: of.group,
                        thread,
                        first,
                        second,
                    });
                }
                self.exchanging += 1;
            }
            (Poll::Pending, None) => {
                let arrived = meeting.block.has_arrived(|| first);
                arrived.map_err(|fault| fault.explain(of, thread))?;
                self.waiting += 1;
            }
        }
        Ok(())
    }
}
