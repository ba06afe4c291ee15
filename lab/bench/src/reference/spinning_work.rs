//! The work of the spinning threads: the pieces of the imbalance benchmarks and of
//! `in-order-parallel`.
//!
//! Pieces, floats and their places in memory are the subject's, so that what differs is who runs
//! which piece when.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::time::Duration;

use crate::error::BenchError;
use crate::reference::imbalance::{BatchWork, FLOATS, reduce};
use crate::reference::spinning_threads::{Pieces, SpinningThreads};
use crate::subject::{BatchOutcome, ParallelOutcome};

/// Floats of which different threads write different parts.
struct Floats(Box<[UnsafeCell<f32>]>);

// SAFETY: the methods that look at what is shared are unsafe and say who may be doing what.
unsafe impl Sync for Floats {}

impl Floats {
    fn new(floats: impl IntoIterator<Item = f32>) -> Self {
        Floats(floats.into_iter().map(UnsafeCell::new).collect())
    }

    /// Writes all of them.
    fn fill(&mut self, floats: &[f32]) {
        for (own, float) in self.0.iter_mut().zip(floats) {
            *own.get_mut() = *float;
        }
    }

    /// Reads all of them.
    fn read(&mut self) -> Vec<f32> {
        self.0.iter_mut().map(|float| *float.get_mut()).collect()
    }

    /// All of them, to read.
    ///
    /// # Safety
    /// Nobody writes any while the slice lives.
    unsafe fn all(&self) -> &[f32] {
        // SAFETY: a cell has its content's layout; the caller keeps writers away.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len()) }
    }

    /// Some of them, to write.
    ///
    /// # Panics
    /// If there are not so many.
    ///
    /// # Safety
    /// Nobody else looks at any of these while the slice lives.
    #[expect(clippy::mut_from_ref, reason = "the caller keeps everybody else away")]
    unsafe fn part_mut(&self, start: usize, length: usize) -> &mut [f32] {
        let part = &self.0[start..start + length];
        // SAFETY: a cell has its content's layout and may be written through a shared reference;
        // the caller keeps everybody else away.
        unsafe { std::slice::from_raw_parts_mut(UnsafeCell::raw_get(part.as_ptr()), length) }
    }
}

/// The place of a piece's floats.
struct Place {
    kernel: usize,
    group: usize,
    start: usize,
    floats: usize,
}

/// The pieces of the imbalance benchmarks, and the kernels' buffers.
struct BatchPieces {
    work: Arc<BatchWork>,
    places: Vec<Place>,
    buffers: Vec<Floats>,
    batches: usize,
}

impl BatchPieces {
    fn new(work: Arc<BatchWork>, batches: usize) -> Self {
        let mut places = Vec::new();
        for (kernel, groups) in work.batch().kernels().iter().enumerate() {
            let mut start = 0;
            for (group, piece) in groups.iter().enumerate() {
                let floats = piece.floats;
                places.push(Place {
                    kernel,
                    group,
                    start,
                    floats,
                });
                start += floats;
            }
        }
        let buffers = work.batch().initial_buffers().into_iter().map(Floats::new);
        BatchPieces {
            places,
            buffers: buffers.collect(),
            batches,
            work,
        }
    }
}

impl Pieces for BatchPieces {
    fn batches(&self) -> usize {
        self.batches
    }

    fn pieces(&self, _batch: usize) -> usize {
        self.places.len()
    }

    fn run(&self, batch: usize, piece: usize) {
        let place = &self.places[piece];
        // SAFETY: the places do not overlap; each piece runs once in a batch, and the next batch
        // only after this one.
        let own = unsafe { self.buffers[place.kernel].part_mut(place.start, place.floats) };
        self.work.run(batch, place.kernel, place.group, own);
    }
}

/// The imbalance benchmarks' batches on spinning threads.
pub struct SpinningBatches {
    threads: SpinningThreads,
    pieces: Arc<BatchPieces>,
}

impl SpinningBatches {
    /// `batches` times the kernels of `work.batch()`, on so many threads.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn new(threads: usize, work: Arc<BatchWork>, batches: usize) -> Result<Self, BenchError> {
        Ok(SpinningBatches {
            threads: SpinningThreads::new(threads)?,
            pieces: Arc::new(BatchPieces::new(work, batches)),
        })
    }

    /// Runs all batches on buffers as they are at first.
    pub fn run(&mut self) -> BatchOutcome {
        let initial = self.pieces.work.batch().initial_buffers();
        for (buffer, floats) in alone(&mut self.pieces).buffers.iter_mut().zip(&initial) {
            buffer.fill(floats);
        }
        let elapsed = run(&mut self.threads, &self.pieces);
        let buffers = alone(&mut self.pieces).buffers.iter_mut();
        BatchOutcome {
            elapsed,
            buffers: buffers.map(Floats::read).collect(),
        }
    }
}

/// One write, then kernels that read what it wrote: two batches.
struct ReaderPieces {
    input: Vec<f32>,
    shared: Floats,
    /// One float every [`LINE`]: the subject's buffers do not share cache lines either.
    results: Floats,
    kernels: usize,
}

/// Floats in a cache line.
const LINE: usize = 16;

impl Pieces for ReaderPieces {
    fn batches(&self) -> usize {
        2
    }

    fn pieces(&self, batch: usize) -> usize {
        if batch == 0 { 1 } else { self.kernels }
    }

    fn run(&self, batch: usize, piece: usize) {
        if batch == 0 {
            // SAFETY: this is the only piece of its batch.
            let shared = unsafe { self.shared.part_mut(0, self.input.len()) };
            shared.copy_from_slice(&self.input);
        } else {
            // SAFETY: the write is the batch before; here all read.
            let shared = unsafe { self.shared.all() };
            // SAFETY: each piece has a float of its own and runs once.
            let own = unsafe { self.results.part_mut(piece * LINE, 1) };
            own[0] = reduce(shared, piece);
        }
    }
}

/// `in-order-parallel` on spinning threads.
pub struct SpinningReaders {
    threads: SpinningThreads,
    pieces: Arc<ReaderPieces>,
}

impl SpinningReaders {
    /// One write and so many kernels (at least one), on so many threads.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn new(threads: usize, kernels: usize) -> Result<Self, BenchError> {
        Ok(SpinningReaders {
            threads: SpinningThreads::new(threads)?,
            pieces: Arc::new(ReaderPieces {
                input: Vec::new(),
                shared: Floats::new([0.0; FLOATS]),
                results: Floats::new(std::iter::repeat_n(f32::NAN, kernels * LINE)),
                kernels,
            }),
        })
    }

    /// Writes the input (of [`FLOATS`] floats) to the shared buffer, and reduces it in every
    /// kernel.
    pub fn run(&mut self, input: &[f32]) -> ParallelOutcome {
        alone(&mut self.pieces).input = input.to_vec();
        let elapsed = run(&mut self.threads, &self.pieces);
        let results = alone(&mut self.pieces).results.read();
        ParallelOutcome {
            elapsed,
            results: results.into_iter().step_by(LINE).collect(),
        }
    }
}

fn run<P: Pieces + 'static>(threads: &mut SpinningThreads, pieces: &Arc<P>) -> Duration {
    let work: Arc<dyn Pieces> = Arc::clone(pieces) as Arc<dyn Pieces>;
    threads.run(&work)
}

/// The work between two runs, when no thread holds it.
fn alone<P>(pieces: &mut Arc<P>) -> &mut P {
    Arc::get_mut(pieces).expect("threads give the work back before a run returns")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::imbalance::{Batch, initial_value};

    #[test]
    fn batches_compute_what_the_loop_by_hand_does() {
        let batch = Batch::of_kernels_and_groups(3, 4);
        let mut expected = batch.initial_buffers();
        batch.run_by_hand(5, &mut expected);
        for threads in [1, 2, 5] {
            let work = Arc::new(BatchWork::new(batch.clone()));
            let mut spinning =
                SpinningBatches::new(threads, Arc::clone(&work), 5).expect("a few threads");
            for _ in 0..3 {
                assert_eq!(spinning.run().buffers, expected, "x{threads}");
                assert_eq!(work.take(), (5 * 12, 0), "x{threads}");
            }
        }
    }

    #[test]
    fn readers_read_what_this_run_has_written() {
        for threads in [1, 2, 5] {
            let mut spinning = SpinningReaders::new(threads, 9).expect("a few threads");
            for run in 0..3 {
                let input: Vec<f32> = (0..FLOATS)
                    .map(|float| initial_value(float + run))
                    .collect();
                let expected: Vec<f32> = (0..9).map(|kernel| reduce(&input, kernel)).collect();
                assert_eq!(spinning.run(&input).results, expected, "x{threads}");
            }
        }
    }
}
