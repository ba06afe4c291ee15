//! One body for each promise, run in every mode there is: natively at every feature level, checked,
//! in lockstep warps of several sizes, and on threads of the operating system.

#![expect(clippy::unwrap_used, reason = "tests say what they expect by failing")]

use std::fmt::Debug;
use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};

use quipu_kernel::{
    Accelerator, Atomically, Atomics, Block, BlockAccelerator, BlockKernel, BlockScratch, Blocks,
    ByBlock, ByElement, Execution, FeatureLevel, GlobalMut, GlobalRef, Grid, GroupKernel, Kernel,
    KernelError, OwnElements, RunOptions, Scalar, SharedArray, SharedAtomicArray, SharedAtomics,
    SharedWrite, Threads, WorkDivision, erase, erase_block,
};

/// A way to run a launch.
#[derive(Debug, Clone, Copy)]
struct Mode {
    options: RunOptions,
    warp_size: u32,
}

fn modes() -> Vec<Mode> {
    let mut modes = Vec::new();
    let mut add = |execution, warp_size, check, level| {
        let mut options = RunOptions::new();
        options.execution = execution;
        options.check = check;
        options.level = level;
        modes.push(Mode { options, warp_size });
    };
    for level in FeatureLevel::ALL {
        add(Execution::Native, 1, false, level);
    }
    add(Execution::Native, 1, true, FeatureLevel::V4);
    for warp_size in [1, 4, 8, 32, 64] {
        for check in [false, true] {
            add(
                Execution::Lockstep { warp_size },
                warp_size,
                check,
                FeatureLevel::V4,
            );
            add(
                Execution::OsThreads { warp_size },
                warp_size,
                check,
                FeatureLevel::V4,
            );
        }
    }
    modes
}

/// Runs a block kernel in every mode and compares what it writes with what `expected` says for a
/// warp's size.
fn everywhere<K, T>(
    kernel: impl Fn() -> K,
    division: WorkDivision<1>,
    expected: impl Fn(u32) -> Vec<T>,
) where
    K: for<'a> BlockKernel<1, Output: quipu_kernel::Partition<1, View<'a> = GlobalMut<'a, T>>>,
    T: Default + Clone + PartialEq + Debug,
{
    for mode in modes() {
        let expected = expected(mode.warp_size);
        let mut output = vec![T::default(); expected.len()];
        let mut launch = erase_block(kernel(), GlobalMut::from(&mut output), division).unwrap();
        let mut scratch = BlockScratch::with_options(mode.options);
        launch
            .run_all(&mut scratch)
            .unwrap_or_else(|error| panic!("{mode:?}: {error}"));
        drop(launch);
        assert_eq!(output, expected, "{mode:?}");
    }
}

/// The sum of each block's elements, by halving.
struct BlockSum<'a>(GlobalRef<'a, u64>);

impl BlockKernel<1> for BlockSum<'_> {
    type Output = ByBlock<u64>;
    type Shared = SharedArray<u64>;

    fn shared(&self, division: &WorkDivision<1>) -> SharedArray<u64> {
        SharedArray::new(division.threads_per_block())
    }

    async fn run<A: BlockAccelerator<1>>(
        &self,
        acc: &A,
        sum: &mut [u64],
        mut sums: SharedWrite<'_, u64>,
    ) {
        let thread = acc.index(Block, Threads)[0];
        sums.own()[0] = acc.elements(self.0.len()).map(|i| self.0[i]).sum();
        let mut left = acc.extent(Block, Threads)[0];
        while left > 1 {
            let half = left.div_ceil(2);
            let read = acc.sync(sums).await;
            let other = if thread + half < left {
                read[thread + half]
            } else {
                0
            };
            sums = acc.sync(read).await;
            sums.own()[0] += other;
            left = half;
        }
        if let [sum] = sum {
            *sum = sums.own()[0];
        }
    }
}

#[test]
fn blocks_sum_their_elements() {
    let x: Vec<u64> = (0..3 * 70 * 2).map(|i| i * i).collect();
    let sums: Vec<u64> = x.chunks(140).map(|part| part.iter().sum()).collect();
    let division = WorkDivision::new(3, 70, 2).unwrap();
    everywhere(|| BlockSum(GlobalRef::from(&x)), division, |_| sums.clone());
}

/// Barriers with predicates, in a device function and a loop.
struct Vote;

async fn vote<A: BlockAccelerator<1>>(acc: &A, yes: bool) -> [usize; 3] {
    let count = acc.sync_block_threads_count(yes).await;
    acc.sync_block_threads().await;
    let all = acc.sync_block_threads_and(yes).await;
    [
        count,
        usize::from(all),
        usize::from(acc.sync_block_threads_or(yes).await),
    ]
}

impl BlockKernel<1> for Vote {
    type Output = ByElement<[usize; 3]>;
    type Shared = ();

    fn shared(&self, _division: &WorkDivision<1>) {}

    async fn run<A: BlockAccelerator<1>>(
        &self,
        acc: &A,
        mut output: OwnElements<'_, [usize; 3]>,
        (): (),
    ) {
        let thread = acc.thread_index()[0];
        let mut total = [0; 3];
        for limit in [0, 3, 9, 100] {
            let votes = vote(acc, thread < limit).await;
            total = std::array::from_fn(|i| total[i] * 10 + votes[i]);
        }
        output.each().for_each(|(_, votes)| *votes = total);
    }
}

#[test]
fn predicates_are_counted() {
    let division = WorkDivision::new(2, 9, 1).unwrap();
    everywhere(|| Vote, division, |_| vec![[399, 11, 111]; 18]);
}

/// Everything that a warp does, each thread's answers one number.
struct Warps;

impl BlockKernel<1> for Warps {
    type Output = ByElement<[u64; 10]>;
    type Shared = ();

    fn shared(&self, _division: &WorkDivision<1>) {}

    async fn run<A: BlockAccelerator<1>>(
        &self,
        acc: &A,
        mut output: OwnElements<'_, [u64; 10]>,
        (): (),
    ) {
        let thread = acc.thread_index()[0] as u64;
        let value = 100 + thread;
        let answers = [
            u64::from(acc.lane()),
            acc.warp_active_mask().await,
            u64::from(acc.warp_all(thread != 5).await),
            u64::from(acc.warp_any(thread == 5).await),
            acc.warp_ballot(thread.is_multiple_of(3)).await,
            acc.warp_shuffle(value, 2).await,
            acc.warp_shuffle_up(value as f64, 1).await as u64,
            acc.warp_shuffle_down(value as u16, 2).await.into(),
            acc.warp_shuffle_xor(value as i32, 1).await as u64,
            u64::from(acc.warp_shuffle(thread == 4, 0).await),
        ];
        // Threads of different warps come here after as many exchanges, or none.
        acc.sync_block_threads().await;
        output.each().for_each(|(_, output)| *output = answers);
    }
}

/// The answers of `Warps`, from the definition.
fn warp_answers(threads: u64, warp_size: u32) -> Vec<[u64; 10]> {
    let size = u64::from(warp_size);
    let answers = |thread: u64| {
        let (first, lane) = (thread / size * size, thread % size);
        let lanes = size.min(threads - first);
        let mask = |predicate: &dyn Fn(u64) -> bool| {
            (0..lanes)
                .filter(|lane| predicate(first + lane))
                .map(|lane| 1 << lane)
                .sum::<u64>()
        };
        let of = |lane: Option<u64>| {
            100 + lane
                .filter(|lane| *lane < lanes)
                .map_or(thread, |lane| first + lane)
        };
        [
            lane,
            mask(&|_| true),
            u64::from(mask(&|thread| thread == 5) == 0),
            u64::from(mask(&|thread| thread == 5) != 0),
            mask(&|thread| thread % 3 == 0),
            of(Some(2 % size)),
            of(lane.checked_sub(1)),
            of(Some(lane + 2)),
            of(Some(lane ^ 1)),
            u64::from(first == 4),
        ]
    };
    (0..threads).map(answers).collect()
}

#[test]
fn warps_exchange_what_they_say() {
    for threads in [64, 13] {
        let division = WorkDivision::new(2, threads as usize, 1).unwrap();
        everywhere(
            || Warps,
            division,
            |warp_size| {
                let answers = warp_answers(threads, warp_size);
                [answers.clone(), answers].concat()
            },
        );
    }
}

/// A sum over each warp by shuffles, over the block by shared atomics: in loops of warp functions
/// that warps go through at their own pace.
struct ShuffleSum;

async fn shuffle_sum<A: BlockAccelerator<1>, T: Scalar + std::ops::Add<Output = T>>(
    acc: &A,
    value: T,
) -> T {
    let mut sum = value;
    let mut distance = acc.warp_size() / 2;
    while distance > 0 {
        sum = sum + acc.warp_shuffle_xor(sum, distance).await;
        distance /= 2;
    }
    sum
}

impl BlockKernel<1> for ShuffleSum {
    type Output = ByElement<f64>;
    type Shared = SharedAtomicArray<f64>;

    fn shared(&self, _division: &WorkDivision<1>) -> Self::Shared {
        SharedAtomicArray::new(1)
    }

    async fn run<A: BlockAccelerator<1>>(
        &self,
        acc: &A,
        mut output: OwnElements<'_, f64>,
        total: SharedAtomics<'_, f64>,
    ) {
        let sum = shuffle_sum(acc, acc.thread_index()[0] as f64).await;
        if acc.lane() == 0 {
            total.add(0, sum);
        }
        acc.sync_block_threads().await;
        output
            .each()
            .for_each(|(_, output)| *output = total.load(0));
    }
}

#[test]
fn shuffles_in_loops_sum() {
    let division = WorkDivision::new(3, 128, 1).unwrap();
    everywhere(|| ShuffleSum, division, |_| vec![127.0 * 64.0; 3 * 128]);
}

/// A histogram in shared memory, added to the one of all blocks; with every atomic operation on the
/// way.
struct Histogram<'a>(GlobalRef<'a, u32>);

impl BlockKernel<1> for Histogram<'_> {
    type Output = Atomically<u32>;
    type Shared = (SharedAtomicArray<u32>, SharedAtomicArray<u64>);

    fn shared(&self, _division: &WorkDivision<1>) -> Self::Shared {
        (SharedAtomicArray::new(8), SharedAtomicArray::new(1))
    }

    async fn run<A: BlockAccelerator<1>>(
        &self,
        acc: &A,
        counts: Atomics<'_, u32>,
        (bins, seen): (SharedAtomics<'_, u32>, SharedAtomics<'_, u64>),
    ) {
        for i in acc.elements(self.0.len()) {
            bins.add((self.0[i] % 8) as usize, 1);
            seen.or(0, 1 << (self.0[i] % 8));
        }
        acc.fence_block();
        acc.sync_block_threads().await;
        let thread = acc.thread_index()[0];
        if thread < 8 {
            counts.add(thread, bins.load(thread));
            counts.max(8, bins.load(thread));
            counts.system().and(9, seen.load(0) as u32);
            counts.xor(10, 1 << thread);
            counts.inc(11, 4);
            counts.update(12, |old| old.wrapping_mul(3).wrapping_add(1));
        }
        acc.fence_device();
    }
}

#[test]
fn atomics_lose_nothing() {
    let x: Vec<u32> = (0..700).map(|i| i * i).collect();
    let division = WorkDivision::new(3, 16, 5).unwrap();
    let mut expected = vec![0; 13];
    for (i, x) in x.iter().enumerate() {
        expected[(x % 8) as usize] += 1;
        // The grid is smaller than x: each thread has 15 elements.
        assert!(i / 15 < 48);
    }
    let mut bins = [[0; 8]; 3];
    x.iter()
        .enumerate()
        .for_each(|(i, x)| bins[i / 240][(x % 8) as usize] += 1);
    expected[8] = bins.concat().into_iter().max().unwrap();
    expected[10] = 0xff; // three blocks flip each bit
    expected[11] = 24 % 5;
    expected[12] = (0..24).fold(0, |old: u32, _| old.wrapping_mul(3).wrapping_add(1));
    everywhere(
        || Histogram(GlobalRef::from(&x)),
        division,
        |_| expected.clone(),
    );
}

/// A deed of a block's threads that they should not do.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Deed {
    EndEarly,
    OtherBarrier,
    OtherWarpFunction,
    SkipWarpFunction,
    BarrierInstead,
    AwaitTheWorld,
    WarpAndBarrierAtOnce,
    Leave,
}

/// One barrier in the source, from wherever it is called.
fn first_barrier<A: BlockAccelerator<1>>(acc: &A) -> impl Future<Output = ()> {
    acc.sync_block_threads()
}

struct Misbehave(Deed);

impl BlockKernel<1> for Misbehave {
    type Output = ();
    type Shared = ();

    fn shared(&self, _division: &WorkDivision<1>) {}

    async fn run<A: BlockAccelerator<1>>(&self, acc: &A, (): (), (): ()) {
        let odd = acc.thread_index()[0] == 6 && acc.block_index()[0] == 1;
        match self.0 {
            Deed::EndEarly if odd => return,
            Deed::OtherBarrier if odd => acc.sync_block_threads().await,
            Deed::OtherWarpFunction if odd => drop(acc.warp_any(true).await),
            Deed::SkipWarpFunction if odd => return,
            Deed::BarrierInstead if odd => acc.sync_block_threads().await,
            Deed::AwaitTheWorld if odd => std::future::pending().await,
            Deed::WarpAndBarrierAtOnce if odd => {
                let barrier = first_barrier(acc);
                acc.warp_ballot(true).await;
                barrier.await;
            }
            Deed::Leave if odd => drop(first_barrier(acc)),
            Deed::OtherWarpFunction | Deed::SkipWarpFunction | Deed::BarrierInstead => {
                acc.warp_ballot(true).await;
            }
            _ => first_barrier(acc).await,
        }
        acc.sync_block_threads().await;
    }
}

#[test]
fn nobody_waits_for_ever() {
    let division = WorkDivision::new(3, 8, 1).unwrap();
    for mode in modes()
        .into_iter()
        .filter(|mode| mode.warp_size == 1 || mode.warp_size >= 4)
    {
        for deed in [
            Deed::EndEarly,
            Deed::OtherBarrier,
            Deed::OtherWarpFunction,
            Deed::SkipWarpFunction,
            Deed::BarrierInstead,
            Deed::AwaitTheWorld,
            Deed::WarpAndBarrierAtOnce,
            Deed::Leave,
        ] {
            let mut launch = erase_block(Misbehave(deed), (), division).unwrap();
            let result = launch.run_all(&mut BlockScratch::with_options(mode.options));
            let alone = mode.warp_size == 1;
            let native = mode.options.execution == Execution::Native && !mode.options.check;
            let error = match (deed, alone) {
                // A warp of one exchanges with itself.
                (Deed::OtherWarpFunction, true) => {
                    assert_eq!(result, Ok(()), "{mode:?}");
                    continue;
                }
                // Natively nobody waits at warp functions, and so nobody is at two places at once.
                (Deed::WarpAndBarrierAtOnce, true) if native => {
                    assert_eq!(result, Ok(()), "{mode:?}");
                    continue;
                }
                _ => result.expect_err("the block diverges"),
            };
            let threads = matches!(mode.options.execution, Execution::OsThreads { .. });
            let right = match deed {
                Deed::EndEarly => matches!(
                    error,
                    KernelError::DivergentBarrier {
                        group: 1,
                        finished: 1,
                        thread: 6,
                        waiting: 7,
                        ..
                    }
                ),
                Deed::OtherBarrier => {
                    matches!(error, KernelError::MismatchedBarrier { group: 1, first, second, .. } if first != second)
                }
                Deed::OtherWarpFunction => {
                    matches!(error, KernelError::MismatchedWarp { group: 1, first, second, .. } if first != second)
                }
                Deed::SkipWarpFunction | Deed::BarrierInstead if alone => matches!(
                    error,
                    KernelError::DivergentBarrier { group: 1, .. }
                        | KernelError::MismatchedBarrier { group: 1, .. }
                ),
                Deed::SkipWarpFunction => {
                    matches!(error, KernelError::DivergentWarp { group: 1, .. })
                }
                // Whoever is found first: the warp, or the barrier that other warps do not come to.
                Deed::BarrierInstead => matches!(
                    error,
                    KernelError::DivergentWarp { group: 1, .. }
                        | KernelError::MismatchedBarrier { group: 1, .. }
                ),
                Deed::AwaitTheWorld | Deed::WarpAndBarrierAtOnce => {
                    matches!(
                        error,
                        KernelError::ForeignAwait {
                            group: 1,
                            thread: 6,
                            ..
                        }
                    )
                }
                // It goes on to the second barrier while others wait at the first.
                Deed::Leave => matches!(
                    error,
                    KernelError::ForeignAwait {
                        group: 1,
                        thread: 6,
                        ..
                    }
                ),
            };
            // Threads of the operating system come in any order: the others may be blamed for
            // waiting first.
            let in_any_order =
                threads && matches!(error, KernelError::ForeignAwait { group: 1, .. });
            assert!(right || in_any_order, "{mode:?} {deed:?}: {error}");
            let text = error.to_string();
            assert!(text.contains("Misbehave"), "{text}");
        }
    }
}

#[test]
fn a_panic_goes_on_in_every_mode_or_is_named() {
    struct Panics;
    impl BlockKernel<1> for Panics {
        type Output = ();
        type Shared = SharedArray<u32>;

        fn shared(&self, division: &WorkDivision<1>) -> SharedArray<u32> {
            SharedArray::new(division.threads_per_block())
        }

        async fn run<A: BlockAccelerator<1>>(&self, acc: &A, (): (), array: SharedWrite<'_, u32>) {
            let read = acc.sync(array).await;
            let [block, thread] = [acc.block_index()[0], acc.thread_index()[0]];
            let index = if (block, thread) == (1, 3) {
                77
            } else {
                thread
            };
            std::hint::black_box(read[index]); // panics
            acc.sync_block_threads().await;
        }
    }
    for mode in modes() {
        let mut launch = erase_block(Panics, (), WorkDivision::new(2, 5, 1).unwrap()).unwrap();
        let mut scratch = BlockScratch::with_options(mode.options);
        let run = std::panic::AssertUnwindSafe(|| launch.run_all(&mut scratch));
        match std::panic::catch_unwind(run) {
            Ok(Err(KernelError::Panicked {
                kernel,
                group: 1,
                thread: 3,
                message,
                place,
            })) => {
                assert!(mode.options.check, "{mode:?}");
                assert!(kernel.ends_with("Panics"), "{kernel}");
                assert!(message.contains("the index is 77"), "{message}");
                let mut lines = include_str!("modes.rs").lines().zip(1..);
                let (_, line) = lines.find(|(line, _)| line.ends_with("// panics")).unwrap();
                assert!(place.contains(&format!("modes.rs:{line}:")), "{place}");
            }
            Err(panic) => {
                assert!(!mode.options.check, "{mode:?}");
                let message = panic
                    .downcast_ref::<String>()
                    .expect("an index out of bounds");
                assert!(message.contains("77"), "{message}");
            }
            other => panic!("{mode:?}: {other:?}"),
        }
    }
}

/// Arithmetic of every kind that levels could compute differently: divisions, roots, sums in order,
/// conversions.
struct Arithmetic<'a>(&'a [f32]);

impl Kernel<1> for Arithmetic<'_> {
    type Output = (ByElement<f32>, ByElement<u32>);

    fn run<A: Accelerator<1>>(
        &self,
        acc: &A,
        (mut floats, mut integers): (OwnElements<'_, f32>, OwnElements<'_, u32>),
    ) {
        for (i, y) in floats.each() {
            let x = self.0[i];
            *y = x * x + 0.1 * x - (x.abs() + 2.0).sqrt() / 3.0;
        }
        let sum = acc
            .elements(self.0.len())
            .map(|i| self.0[i] * 1.1)
            .sum::<f32>();
        for (i, y) in integers.each() {
            let x = self.0[i].mul_add(sum, 1.0);
            *y = x.to_bits().rotate_left(i as u32 % 32).count_ones() + (x * 3.0) as i32 as u32;
        }
    }
}

#[test]
fn levels_give_the_same_bits() {
    let x: Vec<f32> = (0..10_000).map(|i| (i as f32 - 5000.0) / 7.0).collect();
    let run = |level| {
        let (mut floats, mut integers) = (vec![0.0; x.len()], vec![0; x.len()]);
        let view = (GlobalMut::from(&mut floats), GlobalMut::from(&mut integers));
        let division = WorkDivision::new(10, 1, 1000).unwrap();
        let mut options = RunOptions::new();
        options.level = level;
        let mut launch = erase(Arithmetic(&x), view, division).unwrap();
        launch
            .run_all(&mut BlockScratch::with_options(options))
            .unwrap();
        (
            floats.into_iter().map(f32::to_bits).collect::<Vec<_>>(),
            integers,
        )
    };
    let baseline = run(FeatureLevel::Baseline);
    for level in FeatureLevel::ALL {
        assert!(run(level) == baseline, "{level}");
    }
}

/// A launch inside of a thread that is at its barriers.
#[test]
fn a_kernel_may_run_a_launch_of_its_own() {
    struct Outer;
    impl BlockKernel<1> for Outer {
        type Output = ByElement<u64>;
        type Shared = SharedArray<u64>;

        fn shared(&self, division: &WorkDivision<1>) -> SharedArray<u64> {
            SharedArray::new(division.threads_per_block())
        }

        async fn run<A: BlockAccelerator<1>>(
            &self,
            acc: &A,
            mut output: OwnElements<'_, u64>,
            mut array: SharedWrite<'_, u64>,
        ) {
            let x: Vec<u64> = (0..16).collect();
            let mut sums = [0];
            let division = WorkDivision::new(1, 8, 2).unwrap();
            let barrier = acc.sync_block_threads(); // arrived, and not waited yet
            erase_block(
                BlockSum(GlobalRef::from(&x)),
                GlobalMut::from(&mut sums[..]),
                division,
            )
            .unwrap()
            .run_all(&mut BlockScratch::with_options(RunOptions::new()))
            .unwrap();
            barrier.await;
            array.own()[0] = sums[0] + acc.index(Grid, Blocks)[0] as u64;
            let read = acc.sync(array).await;
            output
                .each()
                .for_each(|(_, output)| *output = read.iter().sum());
        }
    }
    let division = WorkDivision::new(2, 3, 1).unwrap();
    everywhere(|| Outer, division, |_| vec![360, 360, 360, 363, 363, 363]);
}

/// The first thread arrives with its array and is never polled again; the other one has not come
/// when its block fails.
struct Unfinished<'a> {
    panics: bool,
    /// An arrival became ready.
    is_ready: &'a AtomicBool,
}

/// Asks once more as it is dropped.
struct AsksLate<'a, F: Future + Unpin>(F, &'a AtomicBool);

impl<F: Future + Unpin> Drop for AsksLate<'_, F> {
    fn drop(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        if Pin::new(&mut self.0).poll(&mut context).is_ready() {
            self.1.store(true, Ordering::Relaxed);
        }
    }
}

impl BlockKernel<1> for Unfinished<'_> {
    type Output = ();
    type Shared = SharedArray<u32>;

    fn shared(&self, _division: &WorkDivision<1>) -> SharedArray<u32> {
        SharedArray::new(2)
    }

    async fn run<A: BlockAccelerator<1>>(&self, acc: &A, (): (), array: SharedWrite<'_, u32>) {
        if acc.thread_index()[0] == 0 {
            let _late = AsksLate(acc.sync(array), self.is_ready);
            pending::<()>().await;
        } else {
            assert!(!self.panics, "as it is told");
            pending::<()>().await;
        }
    }
}

#[test]
fn a_destructor_finds_no_arrival_complete_that_is_not() {
    for mode in modes() {
        for panics in [false, true] {
            let is_ready = AtomicBool::new(false);
            let kernel = Unfinished {
                panics,
                is_ready: &is_ready,
            };
            let division = WorkDivision::new(1, 2, 1).unwrap();
            let mut launch = erase_block(kernel, (), division).unwrap();
            let mut scratch = BlockScratch::with_options(mode.options);
            let run = catch_unwind(AssertUnwindSafe(|| launch.run_all(&mut scratch)));
            assert!(!matches!(run, Ok(Ok(()))), "{mode:?} {panics}");
            assert!(!is_ready.load(Ordering::Relaxed), "{mode:?} {panics}");
        }
    }
}

/// The first thread comes to a barrier last, and then to another before it waits at the first.
struct Twice<'a> {
    has_come: &'a AtomicBool,
    /// The second arrival became ready.
    is_ready: &'a AtomicBool,
}

impl BlockKernel<1> for Twice<'_> {
    type Output = ();
    type Shared = SharedArray<u32>;

    fn shared(&self, _division: &WorkDivision<1>) -> SharedArray<u32> {
        SharedArray::new(2)
    }

    async fn run<A: BlockAccelerator<1>>(&self, acc: &A, (): (), array: SharedWrite<'_, u32>) {
        if acc.thread_index()[0] == 0 {
            while !self.has_come.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            let _first = first_barrier(acc);
            acc.sync(array).await;
            self.is_ready.store(true, Ordering::Relaxed);
        } else {
            let first = first_barrier(acc);
            self.has_come.store(true, Ordering::Release);
            first.await;
        }
    }
}

#[test]
fn an_arrival_that_is_refused_is_never_complete() {
    for warp_size in [1, 2] {
        for _ in 0..100 {
            let (has_come, is_ready) = (AtomicBool::new(false), AtomicBool::new(false));
            let kernel = Twice {
                has_come: &has_come,
                is_ready: &is_ready,
            };
            let division = WorkDivision::new(1, 2, 1).unwrap();
            let mut launch = erase_block(kernel, (), division).unwrap();
            let mut options = RunOptions::new();
            options.execution = Execution::OsThreads { warp_size };
            let run = launch.run_all(&mut BlockScratch::with_options(options));
            assert!(
                matches!(run, Err(KernelError::ForeignAwait { thread: 0, .. })),
                "{run:?}"
            );
            assert!(!is_ready.load(Ordering::Relaxed));
        }
    }
}
