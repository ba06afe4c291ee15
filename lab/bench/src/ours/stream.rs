//! `babelstream`: streaming kernels as launches of groups with contiguous elements.
//!
//! A worker runs neighbouring groups in one call, as one loop over all their elements; the loops
//! are those of the reference. Constants are captured by value.

use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{Access, AccessMode, Event, MemoryRef, Queue, RawArgument, Request};

use super::place;
use super::pool::{Plain, Pool, download, elements, failed, part_mut};
use crate::error::SubjectError;
use crate::reference::stream::{
    Element, INITIAL_A, INITIAL_B, INITIAL_C, SCALAR, StreamArray, StreamKernel, chunk_from_one,
    chunk_from_two, dot_chunk,
};
use crate::subject::{StreamArrays, StreamOutcome};

/// Bytes of each array that belong to one group.
const GROUP_BYTES: usize = 256 << 10;

/// The elements of these groups of an array with `length` elements.
#[inline]
fn span<T>(groups: &Range<u32>, length: usize) -> Range<usize> {
    let group = GROUP_BYTES / size_of::<T>();
    let start = groups.start as usize * group;
    start..(groups.end as usize * group).min(length)
}

/// `target[i] = kernel()`.
struct FromNone<F>(F);
/// `target[i] = kernel(source[i])`.
struct FromOne<F>(F);
/// `target[i] = kernel(first[i], second[i])`.
struct FromTwo<F>(F);
/// Each group's sum of `a[i] * b[i]`.
struct Dot<T>(std::marker::PhantomData<T>);

/// A closure that a kernel applies to elements.
trait Apply: Copy + Send + Sync + 'static {}
impl<F: Copy + Send + Sync + 'static> Apply for F {}

/// A kernel with the type of its elements. Arguments: the target, then the sources.
struct Streaming<K, T>(K, std::marker::PhantomData<T>);

impl<T: Element + Plain, F: Fn() -> T + Apply> NativeKernel for Streaming<FromNone<F>, T> {
    fn name(&self) -> &'static str {
        "stream set"
    }

    unsafe fn run(
        &self,
        arguments: &[RawArgument],
        groups: Range<u32>,
    ) -> quipu_scheduler::Result<()> {
        let range = span::<T>(&groups, arguments[0].length / size_of::<T>());
        // SAFETY: the argument is written, and each group has elements of its own.
        let target = unsafe { part_mut::<T>(&arguments[0], range.start, range.len()) };
        target.fill((self.0.0)());
        Ok(())
    }
}

impl<T: Element + Plain, F: Fn(T) -> T + Apply> NativeKernel for Streaming<FromOne<F>, T> {
    fn name(&self) -> &'static str {
        "stream from one"
    }

    unsafe fn run(
        &self,
        arguments: &[RawArgument],
        groups: Range<u32>,
    ) -> quipu_scheduler::Result<()> {
        // SAFETY: the first argument is written, each group has elements of its own; the second is
        // read.
        let (target, source) = unsafe {
            let source = elements::<T>(&arguments[1]);
            let range = span::<T>(&groups, source.len());
            let target = part_mut(&arguments[0], range.start, range.len());
            (target, &source[range])
        };
        chunk_from_one(target, source, self.0.0);
        Ok(())
    }
}

impl<T: Element + Plain, F: Fn(T, T) -> T + Apply> NativeKernel for Streaming<FromTwo<F>, T> {
    fn name(&self) -> &'static str {
        "stream from two"
    }

    unsafe fn run(
        &self,
        arguments: &[RawArgument],
        groups: Range<u32>,
    ) -> quipu_scheduler::Result<()> {
        // SAFETY: as above, with two that are read.
        let (target, first, second) = unsafe {
            let (first, second) = (elements::<T>(&arguments[1]), elements::<T>(&arguments[2]));
            let range = span::<T>(&groups, first.len());
            let target = part_mut(&arguments[0], range.start, range.len());
            (target, &first[range.clone()], &second[range])
        };
        chunk_from_two(target, first, second, self.0.0);
        Ok(())
    }
}

impl<T: Element + Plain> NativeKernel for Dot<T> {
    fn name(&self) -> &'static str {
        "stream dot"
    }

    unsafe fn run(
        &self,
        arguments: &[RawArgument],
        groups: Range<u32>,
    ) -> quipu_scheduler::Result<()> {
        // SAFETY: the arguments are this command's, of these lengths; a group's sum is the group's
        // own.
        let (sums, a, b) = unsafe {
            let sums = part_mut::<f64>(&arguments[0], groups.start as usize, groups.len());
            (
                sums,
                elements::<T>(&arguments[1]),
                elements::<T>(&arguments[2]),
            )
        };
        for (group, sum) in groups.zip(sums) {
            let range = span::<T>(&(group..group + 1), a.len());
            *sum = dot_chunk(&a[range.clone()], &b[range]);
        }
        Ok(())
    }
}

/// The queue, the arrays and the groups' sums.
pub(super) struct Arrays<T> {
    queue: Queue,
    arrays: [MemoryRef; 3],
    sums: MemoryRef,
    groups: u64,
    elements: std::marker::PhantomData<T>,
}

impl<T: Element + Plain> Arrays<T> {
    pub(super) fn new(pool: &Pool, length: usize) -> Result<Self, SubjectError> {
        let groups = (length * size_of::<T>()).div_ceil(GROUP_BYTES);
        let array = || pool.buffer::<T>(length);
        let arrays = Arrays {
            queue: pool.queue(true)?,
            arrays: [array()?, array()?, array()?],
            sums: pool.buffer::<f64>(groups)?,
            groups: groups as u64,
            elements: std::marker::PhantomData,
        };
        // First touched by the workers that will use them.
        for (array, value) in arrays.arrays.iter().zip([INITIAL_A, INITIAL_B, INITIAL_C]) {
            let value = T::from_f64(value);
            arrays
                .launch(array, &[], Self::kernel(FromNone(move || value)))
                .and_then(|event| event.wait())
                .map_err(failed("filling an array"))?;
        }
        Ok(arrays)
    }

    fn kernel<K>(kernel: K) -> Streaming<K, T> {
        Streaming(kernel, std::marker::PhantomData)
    }

    fn launch<K: NativeKernel>(
        &self,
        target: &MemoryRef,
        sources: &[StreamArray],
        kernel: K,
    ) -> quipu_scheduler::Result<Event> {
        let mut accesses = vec![Access::whole(target, AccessMode::Overwrite)];
        let sources = sources.iter().map(|&source| &self.arrays[place(source)]);
        accesses.extend(sources.map(|source| Access::whole(source, AccessMode::Read)));
        let request = Request {
            accesses: &accesses,
            ..Request::default()
        };
        self.queue.launch(kernel, self.groups, &request)
    }

    fn enqueue(&self, kernel: StreamKernel) -> quipu_scheduler::Result<Event> {
        use StreamArray::{A, B, C};
        let [a, b, c] = &self.arrays;
        let scalar = T::from_f64(SCALAR);
        // As in the reference: a one that the compiler cannot see keeps the copy a loop.
        let one = black_box(T::from_f64(1.0));
        match kernel {
            StreamKernel::Copy => self.launch(c, &[A], Self::kernel(FromOne(move |a: T| a * one))),
            StreamKernel::Mul => {
                self.launch(b, &[C], Self::kernel(FromOne(move |c: T| scalar * c)))
            }
            StreamKernel::Add => self.launch(c, &[A, B], Self::kernel(FromTwo(|a: T, b: T| a + b))),
            StreamKernel::Triad => {
                let triad = move |b: T, c: T| b + scalar * c;
                self.launch(a, &[B, C], Self::kernel(FromTwo(triad)))
            }
            StreamKernel::Dot => {
                self.launch(&self.sums, &[A, B], Dot::<T>(std::marker::PhantomData))
            }
        }
    }
}

impl<T: Element + Plain> StreamArrays for Arrays<T> {
    fn run(&mut self, kernel: StreamKernel) -> Result<StreamOutcome, SubjectError> {
        let started = Instant::now();
        let event = self
            .enqueue(kernel)
            .map_err(failed("enqueueing a kernel"))?;
        let sum = if kernel == StreamKernel::Dot {
            // The read waits for the kernel, so one wait is enough for both.
            Some(download::<f64>(&self.queue, &self.sums)?.iter().sum())
        } else {
            event.wait().map_err(failed("running a kernel"))?;
            None
        };
        let elapsed = started.elapsed();
        Ok(StreamOutcome { elapsed, sum })
    }

    fn read(&mut self, array: StreamArray) -> Result<Vec<f64>, SubjectError> {
        let elements = download::<T>(&self.queue, &self.arrays[place(array)])?;
        Ok(elements.into_iter().map(Element::to_f64).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_group_ends_with_the_array() {
        let group = GROUP_BYTES / 8;
        assert_eq!(span::<f64>(&(0..1), 3 * group), 0..group);
        assert_eq!(span::<f64>(&(1..3), 3 * group - 5), group..3 * group - 5);
        assert_eq!(span::<f64>(&(0..1), 7), 0..7);
    }
}
