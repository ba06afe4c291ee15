//! The five streaming kernels on rayon, hand-written.
//!
//! Kernels, scalar, initial values, counted bytes and verification are BabelStream's
//! (T. Deakin et al., "Evaluating attainable memory bandwidth of parallel programming models via
//! BabelStream", 2018): `copy` c = a, `mul` b = s c, `add` c = a + b, `triad` a = b + s c,
//! `dot` sum of a b. Bytes are those the kernel names: a store's hidden read of its cache line is
//! not counted. All stores are plain ones.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rayon::ThreadPool;
use rayon::prelude::*;

use crate::error::{BenchError, SubjectError};
use crate::reference::rayon_executor::rayon_pool;
use crate::subject::{StreamArrays, StreamOutcome};

/// The value all of `a` starts with.
pub const INITIAL_A: f64 = 0.1;
/// The value all of `b` starts with.
pub const INITIAL_B: f64 = 0.2;
/// The value all of `c` starts with.
pub const INITIAL_C: f64 = 0.0;
/// The factor of `mul` and `triad`.
pub const SCALAR: f64 = 0.4;

/// Sums that the dot product keeps side by side, so that it can use vectors.
const LANES: usize = 16;

/// Chunks for each thread: enough that a thread which the system stops for a while gets help.
const CHUNKS_PER_THREAD: usize = 4;

/// One of the five kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKernel {
    /// c = a
    Copy,
    /// b = scalar * c
    Mul,
    /// c = a + b
    Add,
    /// a = b + scalar * c
    Triad,
    /// sum of a * b
    Dot,
}

impl StreamKernel {
    /// All five, in the order in which they are run.
    pub const ALL: [StreamKernel; 5] = [
        StreamKernel::Copy,
        StreamKernel::Mul,
        StreamKernel::Add,
        StreamKernel::Triad,
        StreamKernel::Dot,
    ];

    /// The kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            StreamKernel::Copy => "copy",
            StreamKernel::Mul => "mul",
            StreamKernel::Add => "add",
            StreamKernel::Triad => "triad",
            StreamKernel::Dot => "dot",
        }
    }

    /// The number of arrays that it reads or writes: each counts in full.
    pub fn arrays(self) -> usize {
        match self {
            StreamKernel::Copy | StreamKernel::Mul | StreamKernel::Dot => 2,
            StreamKernel::Add | StreamKernel::Triad => 3,
        }
    }
}

/// One of the three arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamArray {
    /// a
    A,
    /// b
    B,
    /// c
    C,
}

/// The element type of the arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// `f32`
    Single,
    /// `f64`
    Double,
}

impl Precision {
    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Precision::Single => 4,
            Precision::Double => 8,
        }
    }

    /// The type's name.
    pub fn name(self) -> &'static str {
        match self {
            Precision::Single => "f32",
            Precision::Double => "f64",
        }
    }

    /// The largest relative error of an element, and of the dot product.
    fn tolerances(self) -> (f64, f64) {
        match self {
            Precision::Single => (f64::from(f32::EPSILON) * 100.0, 1e-5),
            Precision::Double => (f64::EPSILON * 100.0, 1e-8),
        }
    }
}

/// An element of the arrays.
pub trait Element:
    Copy
    + Send
    + Sync
    + std::ops::Add<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::AddAssign
    + 'static
{
    /// The nearest element.
    fn from_f64(value: f64) -> Self;
    /// The same value, exactly.
    fn to_f64(self) -> f64;
}

impl Element for f32 {
    fn from_f64(value: f64) -> Self {
        value as f32
    }
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

impl Element for f64 {
    fn from_f64(value: f64) -> Self {
        value
    }
    fn to_f64(self) -> f64 {
        self
    }
}

/// The three arrays and the pool that streams through them.
pub struct RayonStream<T> {
    pool: ThreadPool,
    a: Vec<T>,
    b: Vec<T>,
    c: Vec<T>,
    chunk: usize,
}

impl<T: Element> RayonStream<T> {
    /// Arrays of `length` elements, first touched by the threads that will use them.
    ///
    /// # Errors
    /// If the pool cannot be started.
    pub fn new(workers: usize, length: usize) -> Result<Self, BenchError> {
        let pool = rayon_pool(workers)?;
        let filled = |value: f64| -> Vec<T> {
            let value = T::from_f64(value);
            pool.install(|| (0..length).into_par_iter().map(|_| value).collect())
        };
        let (a, b, c) = (filled(INITIAL_A), filled(INITIAL_B), filled(INITIAL_C));
        let chunk = length.div_ceil(workers.max(1) * CHUNKS_PER_THREAD).max(1);
        Ok(RayonStream {
            pool,
            a,
            b,
            c,
            chunk,
        })
    }

    /// Runs one kernel; the time of the whole call, and the sum if it is the dot product.
    pub fn run(&mut self, kernel: StreamKernel) -> (Duration, Option<f64>) {
        let RayonStream {
            pool,
            a,
            b,
            c,
            chunk,
        } = self;
        let scalar = T::from_f64(SCALAR);
        // Multiplying by a one that the compiler cannot see keeps the copy a loop: as a library
        // copy it would choose a store type of its own.
        let one = black_box(T::from_f64(1.0));
        let started = Instant::now();
        let sum = pool.install(|| match kernel {
            StreamKernel::Copy => from_one(*chunk, c, a, move |a| a * one),
            StreamKernel::Mul => from_one(*chunk, b, c, move |c| scalar * c),
            StreamKernel::Add => from_two(*chunk, c, a, b, |a, b| a + b),
            StreamKernel::Triad => from_two(*chunk, a, b, c, move |b, c| b + scalar * c),
            StreamKernel::Dot => Some(dot(*chunk, a, b)),
        });
        (started.elapsed(), sum)
    }
}

impl<T: Element> StreamArrays for RayonStream<T> {
    fn run(&mut self, kernel: StreamKernel) -> Result<StreamOutcome, SubjectError> {
        let (elapsed, sum) = RayonStream::run(self, kernel);
        Ok(StreamOutcome { elapsed, sum })
    }

    fn read(&mut self, array: StreamArray) -> Result<Vec<f64>, SubjectError> {
        let elements = match array {
            StreamArray::A => &self.a,
            StreamArray::B => &self.b,
            StreamArray::C => &self.c,
        };
        Ok(elements.iter().map(|element| element.to_f64()).collect())
    }
}

/// `target[i] = kernel(source[i])`. Gives no sum.
fn from_one<T: Element>(
    chunk: usize,
    target: &mut [T],
    source: &[T],
    kernel: impl Fn(T) -> T + Copy + Send + Sync,
) -> Option<f64> {
    let chunks = target.par_chunks_mut(chunk).zip(source.par_chunks(chunk));
    chunks.for_each(|(target, source)| chunk_from_one(target, source, kernel));
    None
}

/// One chunk. Takes the kernel by value: behind a reference its constants might be what the loop
/// overwrites, and the loop would use no vectors.
pub(crate) fn chunk_from_one<T: Element>(target: &mut [T], source: &[T], kernel: impl Fn(T) -> T) {
    for (target, source) in target.iter_mut().zip(source) {
        *target = kernel(*source);
    }
}

/// `target[i] = kernel(first[i], second[i])`. Gives no sum.
fn from_two<T: Element>(
    chunk: usize,
    target: &mut [T],
    first: &[T],
    second: &[T],
    kernel: impl Fn(T, T) -> T + Copy + Send + Sync,
) -> Option<f64> {
    let sources = first.par_chunks(chunk).zip(second.par_chunks(chunk));
    let chunks = target.par_chunks_mut(chunk).zip(sources);
    chunks.for_each(|(target, (first, second))| chunk_from_two(target, first, second, kernel));
    None
}

/// One chunk, the kernel by value.
pub(crate) fn chunk_from_two<T: Element>(
    target: &mut [T],
    first: &[T],
    second: &[T],
    kernel: impl Fn(T, T) -> T,
) {
    for (target, (first, second)) in target.iter_mut().zip(first.iter().zip(second)) {
        *target = kernel(*first, *second);
    }
}

fn dot<T: Element>(chunk: usize, a: &[T], b: &[T]) -> f64 {
    let chunks = a.par_chunks(chunk).zip(b.par_chunks(chunk));
    chunks.map(|(a, b)| dot_chunk(a, b)).sum()
}

pub(crate) fn dot_chunk<T: Element>(a: &[T], b: &[T]) -> f64 {
    /// Elements between two additions to the `f64` sum, which keeps `f32` sums accurate.
    const BLOCK: usize = 1024;
    let blocks = a.chunks(BLOCK).zip(b.chunks(BLOCK));
    blocks
        .map(|(a, b)| {
            let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
            let mut sum = sum_lanes(&dot_lanes(a, b));
            for (a, b) in a_rest.iter().zip(b_rest) {
                sum += (*a * *b).to_f64();
            }
            sum
        })
        .sum()
}

/// One dot product per lane. Not inlined: seen together with what becomes of the sums, compilers
/// choose vectors across the lanes and load elements one by one.
#[inline(never)]
fn dot_lanes<T: Element>(a: &[[T; LANES]], b: &[[T; LANES]]) -> [T; LANES] {
    let mut sums = [T::from_f64(0.0); LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums
}

/// The sum of all lanes, halves on halves: few dependent additions, and good for accuracy.
#[inline(never)]
fn sum_lanes<T: Element>(sums: &[T; LANES]) -> f64 {
    let mut sums = *sums;
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            let other = sums[lane + width];
            sums[lane] += other;
        }
        width /= 2;
    }
    sums[0].to_f64()
}

/// The values that every element must have, followed in `f64` through the kernels that were run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gold {
    a: f64,
    b: f64,
    c: f64,
}

impl Default for Gold {
    fn default() -> Self {
        Gold {
            a: INITIAL_A,
            b: INITIAL_B,
            c: INITIAL_C,
        }
    }
}

impl Gold {
    /// Follows one kernel.
    pub fn run(&mut self, kernel: StreamKernel) {
        match kernel {
            StreamKernel::Copy => self.c = self.a,
            StreamKernel::Mul => self.b = SCALAR * self.c,
            StreamKernel::Add => self.c = self.a + self.b,
            StreamKernel::Triad => self.a = self.b + SCALAR * self.c,
            StreamKernel::Dot => {}
        }
    }

    /// Checks an array: the mean relative error of its elements. The error names what it should be
    /// and what it is.
    pub fn check_array(
        &self,
        array: StreamArray,
        precision: Precision,
        elements: &[f64],
    ) -> Result<(), (f64, f64)> {
        let gold = match array {
            StreamArray::A => self.a,
            StreamArray::B => self.b,
            StreamArray::C => self.c,
        };
        let count = elements.len().max(1) as f64;
        let error = elements
            .iter()
            .map(|element| (element - gold).abs())
            .sum::<f64>()
            / count;
        // The comparison is this way round so that NaN is an error.
        if error <= precision.tolerances().0 * gold.abs().max(f64::MIN_POSITIVE) {
            Ok(())
        } else {
            Err((gold, elements.iter().sum::<f64>() / count))
        }
    }

    /// Checks a dot product over so many elements.
    pub fn check_dot(
        &self,
        precision: Precision,
        length: usize,
        sum: f64,
    ) -> Result<(), (f64, f64)> {
        let gold = self.a * self.b * length as f64;
        if ((sum - gold) / gold).abs() <= precision.tolerances().1 {
            Ok(())
        } else {
            Err((gold, sum))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T: Element>(precision: Precision, length: usize, workers: usize) {
        let mut stream = RayonStream::<T>::new(workers, length).expect("a few threads");
        let mut gold = Gold::default();
        for _ in 0..10 {
            for kernel in StreamKernel::ALL {
                let (_, sum) = stream.run(kernel);
                gold.run(kernel);
                assert_eq!(sum.is_some(), kernel == StreamKernel::Dot);
                if let Some(sum) = sum {
                    assert_eq!(gold.check_dot(precision, length, sum), Ok(()));
                }
            }
        }
        for array in [StreamArray::A, StreamArray::B, StreamArray::C] {
            let elements = stream.read(array).expect("reading memory");
            assert_eq!(elements.len(), length);
            assert_eq!(gold.check_array(array, precision, &elements), Ok(()));
        }
    }

    #[test]
    fn kernels_give_the_gold_values_in_both_precisions() {
        for (length, workers) in [(1, 2), (1000, 1), (100_003, 3)] {
            run::<f32>(Precision::Single, length, workers);
            run::<f64>(Precision::Double, length, workers);
        }
    }

    #[test]
    fn a_wrong_element_or_sum_is_noticed() {
        let gold = Gold::default();
        let mut elements = vec![INITIAL_A; 1000];
        let check =
            |elements: &[f64]| gold.check_array(StreamArray::A, Precision::Double, elements);
        assert!(check(&elements).is_ok());
        elements[500] = 0.2;
        assert!(check(&elements).is_err());
        elements[500] = f64::NAN;
        assert!(check(&elements).is_err());
        let sum = INITIAL_A * INITIAL_B * 1000.0;
        assert!(gold.check_dot(Precision::Double, 1000, sum).is_ok());
        assert!(gold.check_dot(Precision::Double, 1001, sum).is_err());
    }

    #[test]
    fn bytes_are_counted_as_named() {
        let arrays = StreamKernel::ALL.map(StreamKernel::arrays);
        assert_eq!(arrays, [2, 2, 3, 3, 2]);
    }
}
