//! Barriers that are not reached, panics, and ranges that are not there: errors, and a scratch as
//! good as new afterwards.

#![expect(clippy::unwrap_used, reason = "tests say what they expect by failing")]

use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI32, Ordering};
use std::task::Poll;

use quipu_kernel::{
    Accelerator, Atomically, Atomics, BlockAccelerator, BlockKernel, BlockScratch, ByElement,
    GlobalMut, GroupKernel, Kernel, KernelError, OwnElements, SharedArray, SharedWrite,
    WorkDivision, erase, erase_block,
};

/// The deed of the threads of `Misbehave`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Deed {
    Nothing,
    EndEarly,
    EndLate,
    OtherBarrier,
    OtherArray,
    BothPhases,
    AwaitTheWorld,
    TwoAtOnce,
    ThreeAtOnce,
    LeaveAtOnce,
    LeaveTheArray,
    Panic,
    PanicLate,
}

/// Four barriers for all threads but the last of block 1, which does something else. Counts how
/// many threads are alive.
struct Misbehave<'a> {
    deed: Deed,
    alive: &'a AtomicI32,
}

struct Alive<'a>(&'a AtomicI32);

impl<'a> Alive<'a> {
    fn new(alive: &'a AtomicI32) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self(alive)
    }
}

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl BlockKernel<1> for Misbehave<'_> {
    type Output = ByElement<u32>;
    type Shared = (SharedArray<u32>, SharedArray<u32>);

    fn shared(&self, division: &WorkDivision<1>) -> Self::Shared {
        let array = SharedArray::new(division.threads_per_block());
        (array, array)
    }

    async fn run<A: BlockAccelerator<1>>(
        &self,
        acc: &A,
        mut output: OwnElements<'_, u32>,
        (one, two): (SharedWrite<'_, u32>, SharedWrite<'_, u32>),
    ) {
        let _alive = Alive::new(self.alive);
        let last = acc.thread_index() == (acc.division().threads_per_block() - 1).into();
        let deed = if last && acc.block_index()[0] == 1 {
            self.deed
        } else {
            Deed::Nothing
        };
        match deed {
            Deed::EndEarly => return,
            Deed::OtherBarrier => acc.sync_block_threads().await,
            Deed::AwaitTheWorld => pending().await,
            Deed::TwoAtOnce => leave(first_barrier(acc)),
            Deed::ThreeAtOnce => {
                leave(first_barrier(acc));
                leave(first_barrier(acc));
            }
            Deed::LeaveAtOnce => return leave(first_barrier(acc)),
            Deed::Panic => panic!("on purpose"),
            _ => {}
        }
        if deed != Deed::OtherBarrier {
            first_barrier(acc).await;
        }
        let (array, other) = if deed == Deed::OtherArray {
            (two, one)
        } else {
            (one, two)
        };
        let wait = acc.sync(array);
        if deed == Deed::LeaveTheArray {
            // Arrive and go on next round, without the array.
            leave(wait);
            let mut waited = false;
            poll_fn(|_| {
                if std::mem::replace(&mut waited, true) {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
            return;
        }
        let read = wait.await;
        assert_eq!(read.len(), acc.division().threads_per_block());
        match deed {
            Deed::PanicLate => panic!("on purpose"),
            Deed::EndLate => return,
            _ => {}
        }
        if deed == Deed::BothPhases {
            // At the place where the others turn back `read`, turn something else.
            let _ = (read, turn(acc, other).await);
        } else {
            let _ = (turn(acc, read).await, other);
        }
        acc.sync_block_threads().await;
        output.each().for_each(|(i, value)| *value = i as u32);
    }
}

/// Arrives, as whoever made the future has done, and does not wait.
fn leave<F: Future>(_arrived: F) {}

/// One barrier in the source, from wherever it is called.
fn first_barrier<A: BlockAccelerator<1>>(acc: &A) -> impl Future<Output = ()> {
    acc.sync_block_threads()
}

/// One barrier in the source for whatever turns.
async fn turn<A: BlockAccelerator<1>, P: quipu_kernel::Phase>(acc: &A, arrays: P) -> P::Turned {
    acc.sync(arrays).await
}

const THREADS: usize = 5;

fn misbehave(deed: Deed, scratch: &mut BlockScratch) -> Result<Vec<u32>, KernelError> {
    let alive = AtomicI32::new(0);
    let mut output = vec![u32::MAX; 3 * THREADS];
    let division = WorkDivision::new(3, THREADS, 1).unwrap();
    let kernel = Misbehave {
        deed,
        alive: &alive,
    };
    let mut launch = erase_block(kernel, GlobalMut::from(&mut output), division).unwrap();
    let result = catch_unwind(AssertUnwindSafe(|| launch.run_all(scratch)));
    assert_eq!(
        alive.load(Ordering::Relaxed),
        0,
        "{deed:?} left threads alive"
    );
    assert_eq!(
        result.is_err(),
        matches!(deed, Deed::Panic | Deed::PanicLate),
        "{deed:?}"
    );
    match result {
        Ok(result) => result.map(|()| output),
        Err(panic) => {
            assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
            Ok(output)
        }
    }
}

#[test]
fn every_kind_of_divergence_is_an_error_and_leaves_the_scratch_as_new() {
    let mut scratch = BlockScratch::new();
    let expected: Vec<u32> = (0..).take(3 * THREADS).collect();
    for deed in [
        Deed::EndEarly,
        Deed::EndLate,
        Deed::OtherBarrier,
        Deed::OtherArray,
        Deed::BothPhases,
        Deed::AwaitTheWorld,
        Deed::TwoAtOnce,
        Deed::ThreeAtOnce,
        Deed::LeaveAtOnce,
        Deed::LeaveTheArray,
    ] {
        let error = misbehave(deed, &mut scratch).unwrap_err();
        let right = match deed {
            Deed::EndEarly | Deed::EndLate | Deed::LeaveTheArray => {
                matches!(
                    error,
                    KernelError::DivergentBarrier { kernel, group: 1, finished: 1, thread: 4, waiting: 4, barrier }
                        if barrier.file().ends_with("failures.rs") && kernel.contains("Misbehave")
                )
            }
            Deed::OtherBarrier | Deed::OtherArray | Deed::BothPhases => {
                matches!(
                    error,
                    KernelError::MismatchedBarrier {
                        group: 1,
                        thread: 4,
                        ..
                    }
                )
            }
            _ => matches!(
                error,
                KernelError::ForeignAwait {
                    group: 1,
                    thread: 4,
                    ..
                }
            ),
        };
        assert!(right, "{deed:?}: {error}");
        assert_eq!(
            misbehave(Deed::Nothing, &mut scratch).unwrap(),
            expected,
            "after {deed:?}"
        );
    }
}

#[test]
fn a_panic_of_one_thread_unwinds_and_drops_the_others() {
    let mut scratch = BlockScratch::new();
    for deed in [Deed::Panic, Deed::PanicLate] {
        let output = misbehave(deed, &mut scratch).unwrap();
        assert_eq!(
            output[..THREADS],
            [0, 1, 2, 3, 4],
            "the block before it has run"
        );
        assert_eq!(
            output[THREADS..],
            [u32::MAX; 2 * THREADS],
            "its own and the one after it have not"
        );
        let capacity = scratch.capacity();
        assert!(misbehave(Deed::Nothing, &mut scratch).is_ok());
        assert_eq!(scratch.capacity(), capacity);
    }
}

/// The first thread ends, the others wait: the same, but found in the first round and one thread
/// alone.
#[test]
fn a_block_of_one_thread_passes_all_barriers_alone() {
    struct Alone;
    impl BlockKernel<1> for Alone {
        type Output = Atomically<u32>;
        type Shared = ();
        fn shared(&self, _division: &WorkDivision<1>) {}
        async fn run<A: BlockAccelerator<1>>(&self, acc: &A, count: Atomics<'_, u32>, (): ()) {
            for _ in 0..=acc.block_index()[0] {
                acc.sync_block_threads().await;
                count.add(0, 1);
            }
        }
    }
    let mut count = vec![0];
    let division = WorkDivision::new(4, 1, 1).unwrap();
    erase_block(Alone, GlobalMut::from(&mut count), division)
        .unwrap()
        .run_all(&mut BlockScratch::new())
        .unwrap();
    assert_eq!(count, [1 + 2 + 3 + 4]);
}

/// A kernel whose threads panic again as they are dropped.
#[test]
fn a_panic_in_a_destructor_does_not_end_the_process() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("again");
        }
    }
    struct Bombs;
    impl BlockKernel<1> for Bombs {
        type Output = ();
        type Shared = ();
        fn shared(&self, _division: &WorkDivision<1>) {}
        async fn run<A: BlockAccelerator<1>>(&self, acc: &A, (): (), (): ()) {
            if acc.thread_index()[0] == 2 {
                panic!("first");
            }
            let _bomb = Bomb;
            acc.sync_block_threads().await;
        }
    }
    let mut launch = erase_block(Bombs, (), WorkDivision::new(1, 3, 1).unwrap()).unwrap();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        launch.run_all(&mut BlockScratch::new())
    }))
    .unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"first"));
}

struct Fill;

impl Kernel<1> for Fill {
    type Output = ByElement<u32>;
    fn run<A: Accelerator<1>>(&self, _acc: &A, mut output: OwnElements<'_, u32>) {
        output
            .each()
            .for_each(|(i, value)| *value = 100 / (7 - i as u32));
    }
}

#[test]
fn a_panic_of_a_kernel_without_barriers_unwinds() {
    let mut output = vec![0; 10];
    let mut scratch = BlockScratch::new();
    let mut launch = erase(
        Fill,
        GlobalMut::from(&mut output),
        WorkDivision::new(5, 1, 2).unwrap(),
    )
    .unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| launch.run_all(&mut scratch))).is_err());
    assert_eq!(output[6], 100);
}

#[test]
fn groups_that_are_not_there_are_refused_before_anything_runs() {
    let mut output = vec![0; 4];
    let launch = erase(
        Fill,
        GlobalMut::from(&mut output),
        WorkDivision::new(2, 1, 2).unwrap(),
    )
    .unwrap();
    let mut scratch = BlockScratch::new();
    for groups in [0..3, 3..3, 0..u64::MAX] {
        // SAFETY: nothing else runs these groups.
        let error = unsafe { launch.run_groups(groups.clone(), &mut scratch) }.unwrap_err();
        assert_eq!(error, KernelError::GroupsOutOfRange { groups, count: 2 });
    }
    #[expect(
        clippy::reversed_empty_ranges,
        reason = "a range that runs backwards is empty"
    )]
    for groups in [0..0, 2..2, 2..1] {
        // SAFETY: nothing else runs these groups.
        assert_eq!(unsafe { launch.run_groups(groups, &mut scratch) }, Ok(()));
    }
    assert_eq!(output, [0; 4]);
}

#[test]
fn too_much_of_anything_is_an_error() {
    struct Greedy(usize);
    impl BlockKernel<1> for Greedy {
        type Output = ();
        type Shared = SharedArray<u64>;
        fn shared(&self, _division: &WorkDivision<1>) -> SharedArray<u64> {
            SharedArray::new(self.0)
        }
        async fn run<A: BlockAccelerator<1>>(
            &self,
            _acc: &A,
            (): (),
            _array: SharedWrite<'_, u64>,
        ) {
        }
    }
    let one = WorkDivision::new(1, 1, 1).unwrap();
    for length in [usize::MAX, usize::MAX / 8, usize::MAX / 16] {
        let error = erase_block(Greedy(length), (), one).unwrap_err();
        assert!(matches!(error, KernelError::OutOfMemory { .. }), "{error}");
    }
    let many = WorkDivision::new(1, usize::MAX / 4, 1).unwrap();
    let error = erase_block(Greedy(1), (), many)
        .unwrap()
        .run_all(&mut BlockScratch::new())
        .unwrap_err();
    assert!(matches!(error, KernelError::OutOfMemory { .. }), "{error}");

    let error = GlobalMut::from(&mut [0u8; 5][..])
        .in_extent([2, 3])
        .unwrap_err();
    assert_eq!(
        error,
        KernelError::ViewTooShort {
            length: 5,
            extent: vec![2, 3]
        }
    );
    assert!(
        GlobalMut::from(&mut [0u8; 5][..])
            .in_extent([usize::MAX, 2])
            .is_err()
    );
}
