//! The work of the imbalance benchmarks and of `in-order-parallel`.
//!
//! A *batch* is a set of kernels that may run at the same time; a kernel is a set of work-groups;
//! a work-group is one [`Piece`]: so many passes over so many floats. Batch `b + 1` may start when
//! all of batch `b` has ended. Every piece owns a slice of its kernel's buffer and rewrites it in
//! every batch, through a chaotic map: a pass too many, too few or in the wrong place changes the
//! buffer's final contents. [`BatchWork`] also counts what has ended, which shows a piece that
//! starts too early.
//!
//! The seed leaves open how long the buffer is that an imbalanced work-group passes over. Here a
//! group of a kernel with `n` groups owns an `n`-th of the kernel's floats, and group `k` (from 1)
//! passes over it `k` times: the largest piece is the same in all benchmarks and cases.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Floats of the largest kernel.
pub const FLOATS: usize = 8192;

/// Steps of the map for each float in each pass: much more arithmetic than memory traffic.
const STEPS: usize = 16;

/// Floats that the reduction sums side by side, so that it can use vectors.
const LANES: usize = 16;

/// One work-group's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The number of floats that it rewrites.
    pub floats: usize,
    /// The number of times that it does so.
    pub passes: usize,
}

/// The kernels of one batch: for each its work-groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    kernels: Vec<Vec<Piece>>,
}

impl Batch {
    /// `kernels` kernels of one work-group each, from 8192 floats down to 8192 / `kernels`.
    pub fn of_kernels(kernels: usize) -> Self {
        Batch::of_kernels_and_groups(kernels, 1)
    }

    /// One kernel of `groups` work-groups, of which group `k` passes over its floats `k` times.
    pub fn of_groups(groups: usize) -> Self {
        Batch::of_kernels_and_groups(1, groups)
    }

    /// Both at once.
    pub fn of_kernels_and_groups(kernels: usize, groups: usize) -> Self {
        let (kernels, groups) = (kernels.max(1), groups.max(1));
        let kernel = |number: usize| {
            let floats = FLOATS * (kernels - number) / kernels / groups;
            (1..=groups)
                .map(|passes| Piece { floats, passes })
                .collect()
        };
        Batch {
            kernels: (0..kernels).map(kernel).collect(),
        }
    }

    /// The kernels, each a list of its work-groups, in the order in which they are enqueued.
    pub fn kernels(&self) -> &[Vec<Piece>] {
        &self.kernels
    }

    /// All pieces, kernel by kernel.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        self.kernels.iter().flatten().copied()
    }

    /// The buffers before the first batch: one for each kernel, work-group after work-group.
    pub fn initial_buffers(&self) -> Vec<Vec<f32>> {
        let length = |groups: &Vec<Piece>| groups.iter().map(|piece| piece.floats).sum();
        self.kernels
            .iter()
            .map(|groups| (0..length(groups)).map(initial_value).collect())
            .collect()
    }

    /// Runs `batches` batches by hand, one piece after the other, on buffers as
    /// [`initial_buffers`](Self::initial_buffers) gives them.
    pub fn run_by_hand(&self, batches: usize, buffers: &mut [Vec<f32>]) {
        for _ in 0..batches {
            for (groups, buffer) in self.kernels.iter().zip(buffers.iter_mut()) {
                let mut rest = buffer.as_mut_slice();
                for piece in groups {
                    let (own, others) = rest.split_at_mut(piece.floats);
                    work(own, piece.passes);
                    rest = others;
                }
            }
        }
    }

    /// The time of each piece in nanoseconds, in the order of [`pieces`](Self::pieces): each is
    /// repeated until it fills about `least` nanoseconds, so that reading the clock costs nothing.
    pub fn measure_pieces(&self, least: f64) -> Vec<f64> {
        let mut buffers = self.initial_buffers();
        let mut times = Vec::new();
        for (groups, buffer) in self.kernels.iter().zip(buffers.iter_mut()) {
            let mut rest = buffer.as_mut_slice();
            for piece in groups {
                let (own, others) = rest.split_at_mut(piece.floats);
                times.push(measure(least, || work(own, piece.passes)));
                rest = others;
            }
        }
        times
    }
}

/// Nanoseconds per call, over as many calls as fill `least` nanoseconds; the better of two tries,
/// for one may have been interrupted.
fn measure(least: f64, mut call: impl FnMut()) -> f64 {
    let mut time = |calls: u32| {
        let started = Instant::now();
        (0..calls).for_each(|_| call());
        started.elapsed().as_secs_f64() * 1e9
    };
    let mut calls = 1_u32;
    let first = loop {
        let elapsed = time(calls);
        if elapsed >= least || calls >= 1 << 20 {
            break elapsed;
        }
        calls *= 2;
    };
    first.min(time(calls)) / f64::from(calls)
}

/// The float at this position before the first batch: all differ, all in the map's interval.
pub fn initial_value(position: usize) -> f32 {
    0.1 + 0.8 * ((position % 1021) as f32 / 1021.0)
}

/// One step of the logistic map: chaotic, and never leaves the interval from 0 to 1.
#[inline]
fn step(value: f32) -> f32 {
    3.9 * value * (1.0 - value)
}

/// The kernel: rewrites the floats `passes` times.
#[inline(never)]
pub fn work(floats: &mut [f32], passes: usize) {
    for _ in 0..passes {
        for float in floats.iter_mut() {
            let mut value = *float;
            for _ in 0..STEPS {
                value = step(value);
            }
            *float = value;
        }
    }
}

/// The kernel of `in-order-parallel`: reads all of `input`, returns the one float it writes.
#[inline(never)]
pub fn reduce(input: &[f32], kernel: usize) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let (chunks, rest) = input.as_chunks::<LANES>();
    debug_assert!(
        rest.is_empty(),
        "the input's length is a multiple of the lanes"
    );
    for chunk in chunks {
        for (sum, float) in sums.iter_mut().zip(chunk) {
            let mut value = *float;
            for _ in 0..STEPS {
                value = step(value);
            }
            *sum += value;
        }
    }
    // Small whole numbers keep their place beside the sum: every kernel has a result of its own.
    sums.iter().sum::<f32>() + kernel as f32
}

/// The batches as a subject runs them: work and order check in one.
pub struct BatchWork {
    batch: Batch,
    pieces: usize,
    finished: AtomicUsize,
    early: AtomicUsize,
}

impl BatchWork {
    /// The work of batches like this.
    pub fn new(batch: Batch) -> Self {
        let pieces = batch.pieces().count();
        BatchWork {
            batch,
            pieces,
            finished: AtomicUsize::new(0),
            early: AtomicUsize::new(0),
        }
    }

    /// The kernels and their work-groups.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Runs one work-group: `own` is the slice of the kernel's buffer that belongs to the group.
    ///
    /// # Panics
    /// If there is no such kernel or group.
    pub fn run(&self, batch: usize, kernel: usize, group: usize, own: &mut [f32]) {
        // Acquire and Release: whoever is released by the count sees what was computed before it.
        if self.finished.load(Ordering::Acquire) < batch * self.pieces {
            self.early.fetch_add(1, Ordering::Relaxed);
        }
        work(own, self.batch.kernels[kernel][group].passes);
        self.finished.fetch_add(1, Ordering::Release);
    }

    /// The number of pieces that ended, and how many started before all of the batch before had
    /// ended; both start again at zero.
    pub fn take(&self) -> (usize, usize) {
        (
            self.finished.swap(0, Ordering::AcqRel),
            self.early.swap(0, Ordering::AcqRel),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_shrink_from_all_floats_to_their_share() {
        let batch = Batch::of_kernels(4);
        let floats: Vec<usize> = batch.pieces().map(|piece| piece.floats).collect();
        assert_eq!(floats, [8192, 6144, 4096, 2048]);
        assert!(batch.pieces().all(|piece| piece.passes == 1));
        let smallest = Batch::of_kernels(64)
            .pieces()
            .map(|piece| piece.floats)
            .min();
        assert_eq!(smallest, Some(8192 / 64));
    }

    #[test]
    fn group_k_passes_k_times() {
        let batch = Batch::of_groups(64);
        assert_eq!(batch.kernels().len(), 1);
        let passes: Vec<usize> = batch.pieces().map(|piece| piece.passes).collect();
        assert_eq!(passes, (1..=64).collect::<Vec<_>>());
        assert!(batch.pieces().all(|piece| piece.floats == 8192 / 64));
    }

    #[test]
    fn one_piece_is_the_same_work_in_all_three() {
        let whole = Piece {
            floats: 8192,
            passes: 1,
        };
        for batch in [Batch::of_kernels(1), Batch::of_groups(1)] {
            assert_eq!(batch.pieces().collect::<Vec<_>>(), [whole]);
        }
        let both = Batch::of_kernels_and_groups(3, 5);
        assert_eq!(both.kernels().len(), 3);
        assert_eq!(both.pieces().count(), 15);
    }

    #[test]
    fn a_pass_too_few_changes_every_buffer() {
        let batch = Batch::of_kernels_and_groups(2, 2);
        let (mut three, mut two) = (batch.initial_buffers(), batch.initial_buffers());
        batch.run_by_hand(3, &mut three);
        batch.run_by_hand(2, &mut two);
        for (three, two) in three.iter().zip(&two) {
            assert_ne!(three, two);
            assert!(three.iter().all(|float| (0.0..=1.0).contains(float)));
        }
        batch.run_by_hand(1, &mut two);
        assert_eq!(three, two, "the same passes give the same floats");
    }

    #[test]
    fn batch_work_computes_the_same_and_sees_early_pieces() {
        let work = BatchWork::new(Batch::of_groups(2));
        let mut buffers = work.batch().initial_buffers();
        let mut expected = work.batch().initial_buffers();
        work.batch().run_by_hand(2, &mut expected);
        for batch in 0..2 {
            let (first, second) = buffers[0].split_at_mut(4096);
            work.run(batch, 0, 0, first);
            work.run(batch, 0, 1, second);
        }
        assert_eq!(buffers, expected);
        assert_eq!(work.take(), (4, 0));
        work.run(0, 0, 0, &mut buffers[0][..4096]);
        work.run(1, 0, 0, &mut buffers[0][..4096]);
        assert_eq!(work.take(), (2, 1), "group 1 of batch 0 has not ended");
    }

    #[test]
    fn every_piece_gets_a_time() {
        let times = Batch::of_kernels_and_groups(2, 3).measure_pieces(0.0);
        assert_eq!(times.len(), 6);
        assert!(times.iter().all(|time| time.is_finite()));
    }

    #[test]
    fn reductions_tell_kernels_and_inputs_apart() {
        let input: Vec<f32> = (0..FLOATS).map(initial_value).collect();
        assert_eq!(reduce(&input, 5), reduce(&input, 0) + 5.0);
        let other: Vec<f32> = input.iter().map(|float| float * 0.5).collect();
        assert_ne!(reduce(&input, 0), reduce(&other, 0));
    }
}
