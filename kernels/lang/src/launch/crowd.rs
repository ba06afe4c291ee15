//! Blocks whose threads are threads of the operating system, which really wait at barriers.
//!
//! A test mode that is slow, and as near to a GPU as a CPU comes: the threads of a block run at the
//! same time, in any order. A thread runs its future to the end in one poll; at a barrier the poll
//! sleeps until the last thread has come.
//!
//! No thread waits for ever. The threads that wait at the barrier, wait at warp functions, or have
//! ended are counted under one lock. If these are all and none can go on, or a thread came to
//! another place, awaits something else, or panics, the block has *failed*: every waiting thread is
//! woken, finds that the arrival is not complete (for ever), and so comes back to the place where
//! it ends.

use quipu_threads::{LeaveUnparked, Start};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::test_thread::{Meeting, Test};
use crate::barrier::{BlockOf, Exchanged, Site, Turns};
use crate::error::KernelError;

/// The place at which a thread has arrived before it has seen that all have.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Arrived {
    Nowhere,
    /// At the barrier, when so many had been passed.
    Barrier(u64),
    /// At a warp function, when so many had been passed.
    Warp(u64),
}

/// A warp's lanes.
#[derive(Debug, Clone)]
struct Warp {
    /// Warp functions passed. Its lowest bit says which words and ballots are being written.
    passed: u64,
    /// The place at which its lanes wait, and their number.
    site: Option<Site>,
    waiting: u32,
    lanes: u32,
    ballots: [u64; 2],
    words: [Vec<u64>; 2],
}

struct State {
    /// Barriers passed.
    passed: u64,
    /// The place at which threads wait, the arrays that they turn, and their number.
    site: Option<Site>,
    turns: Turns,
    waiting: usize,
    votes: usize,
    /// Votes at the last barrier passed.
    outcome: usize,
    arrived: Vec<Arrived>,
    warps: Vec<Warp>,
    ended: usize,
    /// The first in order of those that have ended.
    first_ended: usize,
    /// The block has failed; with a panic if there is no error.
    failed: bool,
    error: Option<KernelError>,
}

/// The meeting of the block's threads.
struct Crowd {
    of: BlockOf,
    threads: usize,
    warp_size: usize,
    state: Mutex<State>,
    /// A barrier or warp function was passed, or the block failed.
    moved: Condvar,
}

impl Crowd {
    fn new(of: BlockOf, threads: usize, warp_size: usize) -> Self {
        let warps = (0..threads).step_by(warp_size).map(|first| {
            let lanes = warp_size.min(threads - first);
            Warp {
                passed: 0,
                site: None,
                waiting: 0,
                lanes: lanes as u32,
                ballots: [0; 2],
                words: [vec![0; lanes], vec![0; lanes]],
            }
        });
        let state = State {
            passed: 0,
            site: None,
            turns: Turns::NONE,
            waiting: 0,
            votes: 0,
            outcome: 0,
            arrived: vec![Arrived::Nowhere; threads],
            warps: warps.collect(),
            ended: 0,
            first_ended: usize::MAX,
            failed: false,
            error: None,
        };
        Self {
            of,
            threads,
            warp_size,
            state: Mutex::new(state),
            moved: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics with the lock held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until something moved.
    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.moved
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The block has failed; the first to say so says why.
    fn fail(&self, state: &mut State, error: Option<KernelError>) {
        if !state.failed {
            state.failed = true;
            state.error = error;
            self.moved.notify_all();
        }
    }

    fn foreign(&self, thread: usize) -> Option<KernelError> {
        Some(self.of.foreign(thread))
    }

    /// True if a thread can arrive somewhere.
    fn goes(&self, state: &mut State, thread: usize) -> bool {
        if state.arrived[thread] != Arrived::Nowhere {
            self.fail(state, self.foreign(thread));
        }
        !state.failed
    }

    /// Fails the block if all threads wait or have ended.
    fn look_for_divergence(&self, state: &mut State) {
        let exchanging: u32 = state.warps.iter().map(|warp| warp.waiting).sum();
        let waiting = state.waiting + exchanging as usize;
        if waiting == 0 || waiting + state.ended < self.threads {
            return;
        }
        let BlockOf { kernel, group } = self.of;
        let stuck = |(number, warp): (usize, &Warp)| {
            Some(KernelError::DivergentWarp {
                kernel,
                group,
                warp: number,
                waiting: warp.waiting as usize,
                elsewhere: (warp.lanes - warp.waiting) as usize,
                site: warp.site?,
            })
        };
        let error = state.warps.iter().enumerate().find_map(stuck).or_else(|| {
            Some(KernelError::DivergentBarrier {
                kernel,
                group,
                finished: state.ended,
                thread: state.first_ended,
                waiting: state.waiting,
                barrier: state.site?,
            })
        });
        self.fail(state, error);
    }

    /// A thread's future has been polled.
    fn end(&self, thread: usize, poll: Poll<()>) {
        let mut state = self.lock();
        if poll.is_pending() || state.arrived[thread] != Arrived::Nowhere {
            self.fail(&mut state, self.foreign(thread));
        }
        state.ended += 1;
        state.first_ended = state.first_ended.min(thread);
        self.look_for_divergence(&mut state);
    }
}

// The promise of `Port`: an arrival is complete once `passed` has grown since, which it does when
// all threads have arrived with one place and one set of arrays. A thread that arrives anywhere
// before it knows fails the block (`goes`), and of a failed block no arrival is complete: so what a
// refused arrival asks is never answered with an earlier one.
impl Meeting for Crowd {
    fn arrive(&self, thread: usize, site: Site, turns: Turns, vote: bool) {
        let mut state = self.lock();
        let state = &mut *state;
        if !self.goes(state, thread) {
            return;
        }
        let first = *state.site.get_or_insert(site);
        if state.waiting == 0 {
            state.turns = turns;
        }
        if *first != *site || state.turns != turns || turns == Turns::FOREIGN {
            let error = match turns {
                Turns::FOREIGN => self.foreign(thread),
                _ => Some(KernelError::MismatchedBarrier {
                    kernel: self.of.kernel,
                    group: self.of.group,
                    thread,
                    first,
                    second: site,
                }),
            };
            return self.fail(state, error);
        }
        state.arrived[thread] = Arrived::Barrier(state.passed);
        state.waiting += 1;
        state.votes += usize::from(vote);
        if state.waiting == self.threads {
            state.passed += 1;
            state.site = None;
            state.waiting = 0;
            state.outcome = std::mem::take(&mut state.votes);
            self.moved.notify_all();
        } else {
            self.look_for_divergence(state);
        }
    }

    fn poll(&self, thread: usize) -> Poll<()> {
        let mut state = self.lock();
        loop {
            if state.failed {
                return Poll::Pending;
            }
            match state.arrived[thread] {
                Arrived::Barrier(passed) if passed < state.passed => {
                    state.arrived[thread] = Arrived::Nowhere;
                    crate::check::enter_epoch(state.passed);
                    return Poll::Ready(());
                }
                Arrived::Barrier(_) => state = self.wait(state),
                _ => return Poll::Pending,
            }
        }
    }

    fn outcome(&self) -> usize {
        self.lock().outcome
    }

    fn exchange(&self, thread: usize, site: Site, word: u64, vote: bool) {
        let mut state = self.lock();
        let state = &mut *state;
        if !self.goes(state, thread) {
            return;
        }
        let warp = &mut state.warps[thread / self.warp_size];
        let first = *warp.site.get_or_insert(site);
        if *first != *site {
            let error = KernelError::MismatchedWarp {
                kernel: self.of.kernel,
                group: self.of.group,
                thread,
                first,
                second: site,
            };
            return self.fail(state, Some(error));
        }
        let (lane, writing) = (thread % self.warp_size, warp.passed as usize % 2);
        warp.words[writing][lane] = word;
        warp.ballots[writing] |= u64::from(vote) << lane;
        warp.waiting += 1;
        state.arrived[thread] = Arrived::Warp(warp.passed);
        if warp.waiting == warp.lanes {
            warp.passed += 1;
            warp.site = None;
            warp.waiting = 0;
            warp.ballots[1 - writing] = 0;
            self.moved.notify_all();
        } else {
            self.look_for_divergence(state);
        }
    }

    fn exchanged(&self, thread: usize) -> Poll<Exchanged> {
        let mut state = self.lock();
        loop {
            if state.failed {
                return Poll::Pending;
            }
            let warp = &state.warps[thread / self.warp_size];
            match state.arrived[thread] {
                Arrived::Warp(passed) if passed < warp.passed => {
                    let exchanged = Exchanged {
                        active: u64::MAX >> (64 - warp.lanes),
                        ballot: warp.ballots[passed as usize % 2],
                    };
                    state.arrived[thread] = Arrived::Nowhere;
                    return Poll::Ready(exchanged);
                }
                Arrived::Warp(_) => state = self.wait(state),
                _ => return Poll::Pending,
            }
        }
    }

    fn word(&self, thread: usize, lane: u32) -> Option<u64> {
        let state = self.lock();
        let warp = &state.warps[thread / self.warp_size];
        // This thread's warp passes nothing before this thread comes there: these are the words of
        // the last one passed.
        warp.words[(warp.passed as usize + 1) % 2]
            .get(lane as usize)
            .copied()
    }
}

/// Runs one block.
pub(super) fn run_block(test: &Test<'_>, warp_size: usize) -> Result<(), KernelError> {
    let threads = test.threads;
    let crowd = Crowd::new(test.of, threads, warp_size);
    let block = test.block;
    let body = |thread: usize| {
        // SAFETY: each thread is started once.
        let mut future = unsafe { block.start(&crowd, thread) };
        future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
    };
    let _unparked = LeaveUnparked::new();
    let panic = std::thread::scope(|scope| {
        let mut started = Vec::new();
        for thread in 0..threads {
            let (crowd, body) = (&crowd, &body);
            let run = move || {
                let ended =
                    catch_unwind(AssertUnwindSafe(|| test.step(thread, 0, || body(thread))));
                match ended {
                    Ok(Ok(poll)) => crowd.end(thread, poll),
                    Ok(Err(error)) => crowd.fail(&mut crowd.lock(), Some(error)),
                    Err(panic) => {
                        crowd.fail(&mut crowd.lock(), None);
                        return Some(panic);
                    }
                }
                None
            };
            match std::thread::Builder::new().start_scoped(scope, run) {
                Ok(handle) => started.push(handle),
                Err(reason) => {
                    let error = KernelError::OutOfThreads {
                        threads,
                        reason: reason.to_string(),
                    };
                    crowd.fail(&mut crowd.lock(), Some(error));
                    break;
                }
            }
        }
        let mut panics = started
            .into_iter()
            .filter_map(|handle| match handle.join() {
                Ok(panic) => panic,
                Err(panic) => Some(panic),
            });
        let first = panics.next();
        panics.for_each(std::mem::forget);
        first
    });
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
    match crowd.lock().error.take() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
