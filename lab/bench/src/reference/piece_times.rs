//! The times of a batch's pieces while other threads run such pieces as well.
//!
//! Cores share hardware threads, caches, memory and frequency, so a piece takes longer beside
//! others than alone. A schedule of times that were measured alone is out of reach for everybody on
//! such a machine; one of times measured together is what a perfect scheduler would do there.
//!
//! Protocol for one piece, on threads that all have floats of their own:
//!
//! 1. Each thread counts itself into `arrived` and spins until all have.
//! 2. Each runs the piece so often that the clock costs nothing and notes the time per run; then it
//!    counts itself into `timed` and runs on until all have, so that nobody's time ends alone.
//! 3. The same again, and each keeps the better of its two times: one may have been interrupted.
//!
//! The time of the piece is the mean over the threads. It comes out too long where a schedule
//! leaves threads without work, at the end of a batch: there, who still runs has more of the
//! machine.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Instant;

use crate::error::BenchError;
use crate::reference::imbalance::{Batch, Piece, initial_value, work};
use crate::reference::spinning_threads::{Pieces, SpinningThreads, spin_until};

/// The number of times that each piece is timed.
const TRIES: usize = 2;

/// A limit for pieces whose time is nothing.
const MOST_RUNS: f64 = 1e6;

/// One piece, and how it is timed.
struct Timed {
    piece: Piece,
    /// The number of times that it runs between two looks at the clock.
    runs: usize,
    /// For each try, how many threads have come to it.
    arrived: [AtomicUsize; TRIES],
    /// For each try, how many threads have taken their time.
    timed: [AtomicUsize; TRIES],
    /// The sum of the threads' times in picoseconds.
    sum: AtomicU64,
}

impl Timed {
    fn new(piece: Piece, runs: usize) -> Self {
        Timed {
            piece,
            runs,
            arrived: Default::default(),
            timed: Default::default(),
            sum: AtomicU64::new(0),
        }
    }
}

/// The function that runs a piece, and the clock in nanoseconds: tests have their own.
#[derive(Clone, Copy)]
struct Instruments {
    work: fn(&mut [f32], usize),
    now: fn() -> f64,
}

const REAL: Instruments = Instruments {
    work,
    now: || {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed().as_secs_f64() * 1e9
    },
};

/// Every batch is one piece of the measured batch, once for each thread. The copies wait for each
/// other, so no thread takes two.
struct Together {
    threads: usize,
    pieces: Vec<Timed>,
    /// Each thread's floats.
    floats: Vec<Mutex<Vec<f32>>>,
    instruments: Instruments,
}

impl Pieces for Together {
    fn batches(&self) -> usize {
        self.pieces.len()
    }

    fn pieces(&self, _batch: usize) -> usize {
        self.threads
    }

    fn run(&self, batch: usize, thread: usize) {
        let timed = &self.pieces[batch];
        let mut floats = self.floats[thread]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let own = &mut floats[..timed.piece.floats];
        let Instruments { work, now } = self.instruments;
        let mut best = f64::INFINITY;
        for attempt in 0..TRIES {
            timed.arrived[attempt].fetch_add(1, Ordering::AcqRel);
            spin_until(|| timed.arrived[attempt].load(Ordering::Acquire) == self.threads);
            let started = now();
            for _ in 0..timed.runs {
                work(own, timed.piece.passes);
            }
            best = best.min((now() - started) / timed.runs as f64);
            timed.timed[attempt].fetch_add(1, Ordering::AcqRel);
            while timed.timed[attempt].load(Ordering::Acquire) < self.threads {
                work(own, timed.piece.passes);
            }
        }
        timed
            .sum
            .fetch_add((best * 1e3).round() as u64, Ordering::Relaxed);
    }
}

/// Times the pieces of a batch on several threads at once.
pub struct PieceTimes {
    batch: Batch,
    threads: usize,
    /// The number of times that each piece runs between two looks at the clock.
    runs: Vec<usize>,
    spinning: SpinningThreads,
    instruments: Instruments,
}

impl PieceTimes {
    /// The name in the reference column, of what list scheduling makes of these times.
    pub const NAME: &str = "list scheduling, pieces timed together";

    /// The pieces of `batch`, each while `threads` threads run it. `alone` are their times on one
    /// thread in nanoseconds, `least` is for how many nanoseconds each would be repeated there.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn new(
        batch: Batch,
        threads: usize,
        alone: &[f64],
        least: f64,
    ) -> Result<Self, BenchError> {
        let threads = threads.max(1);
        let runs = |time: &f64| (least / time).ceil().clamp(1.0, MOST_RUNS) as usize;
        Ok(PieceTimes {
            batch,
            threads,
            runs: alone.iter().map(runs).collect(),
            spinning: SpinningThreads::new(threads)?,
            instruments: REAL,
        })
    }

    /// The time of each piece in nanoseconds, in the batch's order.
    pub fn measure(&mut self) -> Vec<f64> {
        let pieces = self.batch.pieces().zip(&self.runs);
        let pieces = pieces.map(|(piece, &runs)| Timed::new(piece, runs));
        let longest = self.batch.pieces().map(|piece| piece.floats).max();
        let floats = || (0..longest.unwrap_or(0)).map(initial_value).collect();
        let together = Arc::new(Together {
            threads: self.threads,
            pieces: pieces.collect(),
            floats: (0..self.threads).map(|_| Mutex::new(floats())).collect(),
            instruments: self.instruments,
        });
        let work: Arc<dyn Pieces> = Arc::clone(&together) as Arc<dyn Pieces>;
        self.spinning.run(&work);
        // Relaxed: the run is over.
        let sums = together.pieces.iter().map(|timed| &timed.sum);
        let nanoseconds = |sum: &AtomicU64| sum.load(Ordering::Relaxed) as f64 / 1e3;
        sums.map(|sum| nanoseconds(sum) / self.threads as f64)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// This thread's time: the floats that it has rewritten.
        static REWRITTEN: Cell<usize> = const { Cell::new(0) };
    }

    /// A machine whose clock counts what a thread has done.
    const EXACT: Instruments = Instruments {
        work: |floats, passes| {
            work(floats, passes);
            REWRITTEN.set(REWRITTEN.get() + floats.len() * passes);
        },
        now: || REWRITTEN.get() as f64,
    };

    #[test]
    fn the_time_of_a_piece_is_that_of_one_run_on_one_thread() {
        for batch in [Batch::of_groups(7), Batch::of_kernels_and_groups(3, 4)] {
            let pieces: Vec<Piece> = batch.pieces().collect();
            let expected: Vec<f64> = pieces
                .iter()
                .map(|piece| (piece.floats * piece.passes) as f64)
                .collect();
            for threads in [1, 3] {
                for runs in [1, 9] {
                    let runs = vec![runs; pieces.len()];
                    let spinning = SpinningThreads::new(threads).expect("a few threads");
                    let mut times = PieceTimes {
                        batch: batch.clone(),
                        threads,
                        runs,
                        spinning,
                        instruments: EXACT,
                    };
                    assert_eq!(times.measure(), expected, "{threads} threads");
                }
            }
        }
    }

    /// The number of threads that have looked at the clock before a try, in all tries.
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    /// The number of threads that have run a piece after they took its time, in all tries.
    static WENT_ON: AtomicUsize = AtomicUsize::new(0);

    thread_local! {
        /// This thread's looks at the clock: two for each try.
        static LOOKS: Cell<usize> = const { Cell::new(0) };
        /// The number of looks when it last went on.
        static LAST: Cell<usize> = const { Cell::new(0) };
        static SLOWEST: Cell<bool> = const { Cell::new(false) };
    }

    #[test]
    fn every_time_is_taken_while_all_threads_run_the_piece() {
        const THREADS: usize = 4;
        let now = || {
            let looks = LOOKS.get();
            LOOKS.set(looks + 1);
            let tries = looks / 2 + 1;
            if looks.is_multiple_of(2) {
                STARTED.fetch_add(1, Ordering::AcqRel);
                // For ever, unless all run this piece in this try.
                spin_until(|| STARTED.load(Ordering::Acquire) >= THREADS * tries);
            } else {
                // For ever, if the others stop when they have their own time.
                let company = || WENT_ON.load(Ordering::Acquire) >= (THREADS - 1) * tries;
                spin_until(|| !SLOWEST.get() || company());
                let started = STARTED.load(Ordering::Acquire);
                assert_eq!(started, THREADS * tries, "nobody is in the next try");
            }
            0.0
        };
        let instrumented = |floats: &mut [f32], passes| {
            let looks = LOOKS.get();
            if looks.is_multiple_of(2) && LAST.replace(looks) != looks {
                WENT_ON.fetch_add(1, Ordering::AcqRel);
            }
            work(floats, passes);
        };
        SLOWEST.set(true);
        let mut times = PieceTimes {
            runs: vec![1; 3],
            batch: Batch::of_kernels(3),
            threads: THREADS,
            spinning: SpinningThreads::new(THREADS).expect("a few threads"),
            instruments: Instruments {
                work: instrumented,
                now,
            },
        };
        assert_eq!(times.measure(), [0.0; 3]);
        assert_eq!(STARTED.load(Ordering::Acquire), THREADS * 3 * TRIES);
    }

    #[test]
    fn pieces_are_repeated_until_they_fill_the_time() {
        let batch = Batch::of_kernels(4);
        let alone = [8.0, 3.0, 0.0, 100.0];
        let times = PieceTimes::new(batch, 1, &alone, 10.0).expect("no thread");
        assert_eq!(times.runs, [2, 4, MOST_RUNS as usize, 1]);
    }
}
