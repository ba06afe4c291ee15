//! Threads that spin and claim pieces from one counter: greedy list scheduling made by hand.
//!
//! What `list_scheduling` computes knows no cost of handing a piece to a thread. These threads do
//! nothing but what the schedule asks for: they show how much of it any program reaches.
//! They know everything beforehand (the pieces, their order, that nobody else needs the cores) and
//! have no events, no errors, and no commands that come later.
//!
//! Protocol of a run, with one word `claims` that holds a batch's number and its next piece:
//!
//! 1. At rest `claims` has no piece to give (`CLOSED`). The caller, which is the first of the
//!    threads, publishes the work, raises `epoch` and unparks the helpers; each counts itself into
//!    `arrived` and spins on `claims`. This keeps waking threads out of the measured time.
//! 2. When all have arrived the caller starts the clock and opens batch 0.
//! 3. Whoever sees a piece in `claims` takes one with a single addition; the answer names the batch
//!    and the piece, or says that others were faster.
//! 4. Whoever ends a piece lowers `unfinished`. Who lowers it to zero opens the next batch and
//!    takes its first piece in the same store: a chain of single pieces never changes threads.
//! 5. After the last batch `claims` names one that does not exist. Everybody leaves; the helpers
//!    park until the next run, and are asleep while others are measured.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::BenchError;

/// The work: batches of pieces. Each batch waits for all of the one before.
pub trait Pieces: Send + Sync {
    /// The number of batches; at least one, and less than 2^32.
    fn batches(&self) -> usize;

    /// The number of pieces that a batch has; at least one, and less than 2^31.
    fn pieces(&self, batch: usize) -> usize;

    /// Runs one piece. Each is run once in every run, on any thread, together with others of its
    /// batch, after all of the batch before.
    fn run(&self, batch: usize, piece: usize);
}

/// `claims` between two runs: batch 0 with more pieces taken than any batch has.
const CLOSED: u64 = 1 << 31;

/// The number of times that a thread looks before it lets others have its core: some hundred
/// microseconds, far longer than it waits for a batch unless there are fewer cores than threads.
const PATIENCE: u32 = 1 << 13;

/// A value with a cache line (and its neighbour, which processors fetch together) to itself.
#[repr(align(128))]
struct Alone<T>(T);

struct Shared {
    /// The open batch in the upper half, its next piece in the lower.
    claims: Alone<AtomicU64>,
    /// Pieces of the open batch that have not ended.
    unfinished: Alone<AtomicUsize>,
    work: Mutex<Option<Arc<dyn Pieces>>>,
    epoch: AtomicUsize,
    arrived: AtomicUsize,
    left: AtomicUsize,
    stop: AtomicBool,
}

/// Threads that run batches of pieces.
pub struct SpinningThreads {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
}

impl SpinningThreads {
    /// The name in the reference column.
    pub const NAME: &str = "spinning threads by hand";

    /// So many threads, of which the caller of [`run`](Self::run) is one.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn new(threads: usize) -> Result<Self, BenchError> {
        let shared = Arc::new(Shared {
            claims: Alone(AtomicU64::new(CLOSED)),
            unfinished: Alone(AtomicUsize::new(0)),
            work: Mutex::new(None),
            epoch: AtomicUsize::new(0),
            arrived: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        });
        let mut spinning = SpinningThreads {
            shared,
            helpers: Vec::new(),
        };
        for index in 1..threads {
            let shared = Arc::clone(&spinning.shared);
            let helper = std::thread::Builder::new()
                .name(format!("spinning-{index}"))
                .spawn(move || help(&shared))
                .map_err(|source| BenchError::Threads {
                    reference: SpinningThreads::NAME,
                    workers: threads,
                    source: Box::new(source),
                })?;
            spinning.helpers.push(helper);
        }
        Ok(spinning)
    }

    /// Runs all pieces; returns the time from the opening of the first batch to the end of the
    /// last. Afterwards no thread holds the work.
    pub fn run(&mut self, work: &Arc<dyn Pieces>) -> Duration {
        let shared = &*self.shared;
        let helpers = self.helpers.len();
        shared.arrived.store(0, Ordering::Relaxed);
        shared.left.store(0, Ordering::Relaxed);
        shared.claims.0.store(CLOSED, Ordering::Relaxed);
        *shared.work.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(work));
        // Release: a helper that sees the epoch sees the counters of this run.
        shared.epoch.fetch_add(1, Ordering::Release);
        for helper in &self.helpers {
            helper.thread().unpark();
        }
        spin_until(|| shared.arrived.load(Ordering::Acquire) == helpers);
        let started = Instant::now();
        let first = shared.open(&**work, 0);
        shared.take_part(&**work, first);
        let elapsed = started.elapsed();
        spin_until(|| shared.left.load(Ordering::Acquire) == helpers);
        *shared.work.lock().unwrap_or_else(PoisonError::into_inner) = None;
        elapsed
    }
}

impl Drop for SpinningThreads {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        for helper in self.helpers.drain(..) {
            helper.thread().unpark();
            // A helper ends by a panic of a piece only, which its run has shown already.
            let _ = helper.join();
        }
    }
}

/// A piece that a thread has taken and nobody else will run.
#[derive(Clone, Copy)]
struct Claim {
    batch: usize,
    piece: usize,
}

impl Shared {
    /// Opens a batch and takes its first piece; `None` if there is no such batch any more.
    ///
    /// Only for the caller at the start of a run, and for who has ended the last piece of the batch
    /// before.
    fn open(&self, work: &dyn Pieces, batch: usize) -> Option<Claim> {
        let exists = batch < work.batches();
        if exists {
            let pieces = work.pieces(batch);
            debug_assert!(pieces > 0, "batch {batch} has no piece that could end it");
            self.unfinished.0.store(pieces, Ordering::Relaxed);
        }
        // Release: who takes a piece sees the count above and what all pieces before have written.
        let taken = u64::from(exists);
        self.claims
            .0
            .store((batch as u64) << 32 | taken, Ordering::Release);
        exists.then_some(Claim { batch, piece: 0 })
    }

    /// Spins until there is a piece to take; `None` when all batches are over.
    fn claim(&self, work: &dyn Pieces) -> Option<Claim> {
        let mut looks = 0;
        loop {
            let seen = unpacked(self.claims.0.load(Ordering::Acquire));
            if seen.batch >= work.batches() {
                return None;
            }
            // Looking first leaves the line shared while there is nothing to take.
            if seen.piece < work.pieces(seen.batch) {
                // Another batch may have been opened since: the answer says whose piece it is.
                let taken = unpacked(self.claims.0.fetch_add(1, Ordering::Acquire));
                if taken.batch < work.batches() && taken.piece < work.pieces(taken.batch) {
                    return Some(taken);
                }
            }
            relax(&mut looks);
        }
    }

    /// Runs pieces, beginning with `own`, until all batches are over.
    fn take_part(&self, work: &dyn Pieces, mut own: Option<Claim>) {
        while let Some(claim) = own.take().or_else(|| self.claim(work)) {
            work.run(claim.batch, claim.piece);
            // Acquire and Release: who opens the next batch has seen all of this one.
            if self.unfinished.0.fetch_sub(1, Ordering::AcqRel) == 1 {
                own = self.open(work, claim.batch + 1);
            }
        }
    }
}

fn unpacked(claims: u64) -> Claim {
    Claim {
        batch: (claims >> 32) as usize,
        piece: (claims & u64::from(u32::MAX)) as usize,
    }
}

fn help(shared: &Shared) {
    let mut seen = 0;
    while !shared.stop.load(Ordering::Acquire) {
        let epoch = shared.epoch.load(Ordering::Acquire);
        if epoch == seen {
            std::thread::park();
            continue;
        }
        seen = epoch;
        let work = shared
            .work
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let Some(work) = work else { continue };
        shared.arrived.fetch_add(1, Ordering::AcqRel);
        shared.take_part(&*work, None);
        drop(work);
        shared.left.fetch_add(1, Ordering::AcqRel);
    }
}

/// Spins until the condition holds.
pub(crate) fn spin_until(condition: impl Fn() -> bool) {
    let mut looks = 0;
    while !condition() {
        relax(&mut looks);
    }
}

/// Spins, and lets others have the core only if it takes very long.
fn relax(looks: &mut u32) {
    *looks = looks.saturating_add(1);
    if *looks < PATIENCE {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches of given sizes; counts what runs, and what starts before its batch may.
    struct Counted {
        sizes: Vec<usize>,
        ran: Vec<Vec<AtomicUsize>>,
        finished: AtomicUsize,
        early: AtomicUsize,
    }

    impl Counted {
        fn new(sizes: &[usize]) -> Self {
            let counters = |&size: &usize| (0..size).map(|_| AtomicUsize::new(0)).collect();
            Counted {
                sizes: sizes.to_vec(),
                ran: sizes.iter().map(counters).collect(),
                finished: AtomicUsize::new(0),
                early: AtomicUsize::new(0),
            }
        }

        /// The number of times that the piece that ran least and the one that ran most have run,
        /// and how many pieces were early.
        fn take(&self) -> (usize, usize, usize) {
            let counts = self.ran.iter().flatten();
            let counts: Vec<usize> = counts.map(|ran| ran.swap(0, Ordering::AcqRel)).collect();
            self.finished.store(0, Ordering::Release);
            (
                counts.iter().copied().min().unwrap_or(0),
                counts.iter().copied().max().unwrap_or(0),
                self.early.swap(0, Ordering::AcqRel),
            )
        }
    }

    impl Pieces for Counted {
        fn batches(&self) -> usize {
            self.sizes.len()
        }

        fn pieces(&self, batch: usize) -> usize {
            self.sizes[batch]
        }

        fn run(&self, batch: usize, piece: usize) {
            let before: usize = self.sizes[..batch].iter().sum();
            if self.finished.load(Ordering::Acquire) < before {
                self.early.fetch_add(1, Ordering::Relaxed);
            }
            self.ran[batch][piece].fetch_add(1, Ordering::Relaxed);
            self.finished.fetch_add(1, Ordering::Release);
        }
    }

    #[test]
    fn every_piece_runs_once_after_the_batch_before() {
        let lists = [vec![1], vec![7], vec![1; 50], vec![3, 1, 64, 2, 5, 1, 1, 8]];
        for threads in [1, 2, 5] {
            let mut spinning = SpinningThreads::new(threads).expect("a few threads");
            for sizes in &lists {
                let counted = Arc::new(Counted::new(sizes));
                let work: Arc<dyn Pieces> = Arc::clone(&counted) as Arc<dyn Pieces>;
                for run in 0..20 {
                    spinning.run(&work);
                    let found = counted.take();
                    assert_eq!(found, (1, 1, 0), "{sizes:?} x{threads}, run {run}");
                }
            }
        }
    }

    /// Remembers which thread ran which piece.
    struct Threads {
        batches: usize,
        ran: Mutex<Vec<(std::thread::ThreadId, usize)>>,
    }

    impl Pieces for Threads {
        fn batches(&self) -> usize {
            self.batches
        }

        fn pieces(&self, _batch: usize) -> usize {
            1
        }

        fn run(&self, batch: usize, _piece: usize) {
            let mut ran = self.ran.lock().unwrap_or_else(PoisonError::into_inner);
            ran.push((std::thread::current().id(), batch));
        }
    }

    #[test]
    fn a_chain_of_single_pieces_stays_on_the_calling_thread() {
        let threads = Arc::new(Threads {
            batches: 100,
            ran: Mutex::default(),
        });
        let work: Arc<dyn Pieces> = Arc::clone(&threads) as Arc<dyn Pieces>;
        SpinningThreads::new(3).expect("a few threads").run(&work);
        let caller = std::thread::current().id();
        let expected: Vec<_> = (0..100).map(|batch| (caller, batch)).collect();
        let ran = threads.ran.lock().expect("no piece panicked");
        assert_eq!(*ran, expected);
    }

    #[test]
    fn threads_that_were_never_used_end() {
        drop(SpinningThreads::new(4).expect("a few threads"));
    }
}
