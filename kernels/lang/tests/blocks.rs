//! Kernels with barriers against sequential models.

use proptest::prelude::*;
use quipu_kernel::{
    Atomically, Atomics, Block, BlockAccelerator, BlockKernel, BlockScratch, Blocks, ByBlock,
    ByElement, GlobalMut, GlobalRef, Grid, GroupKernel, OwnElements, SharedArray, SharedWrite,
    Threads, WorkDivision, erase_block,
};

/// The sum of each block's elements, by halving.
struct BlockSum<'a> {
    x: GlobalRef<'a, u64>,
}

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
        sums.own()[0] = acc.elements(self.x.len()).map(|i| self.x[i]).sum();
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

const SIDE: usize = 4;

/// Transposes a matrix by tiles of `SIDE` by `SIDE` threads. `width` is that of the input.
struct Transpose<'a> {
    input: GlobalRef<'a, u32>,
    height: usize,
    width: usize,
}

impl BlockKernel<2> for Transpose<'_> {
    type Output = ByElement<u32>;
    type Shared = SharedArray<u32>;

    fn shared(&self, _division: &WorkDivision<2>) -> SharedArray<u32> {
        SharedArray::new(SIDE * SIDE)
    }

    async fn run<A: BlockAccelerator<2>>(
        &self,
        acc: &A,
        mut output: OwnElements<'_, u32, 2>,
        mut tile: SharedWrite<'_, u32>,
    ) {
        let [block_row, block_column] = acc.index(Grid, Blocks).components();
        let [row, column] = acc.index(Block, Threads).components();
        // Read along the input's rows, from the tile that mirrors this block's.
        let (from_row, from_column) = (block_column * SIDE + row, block_row * SIDE + column);
        if from_row < self.height && from_column < self.width {
            tile.own()[0] = self.input[from_row * self.width + from_column];
        }
        let tile = acc.sync(tile).await;
        output
            .each()
            .for_each(|(_, element)| *element = tile[column * SIDE + row]);
    }
}

proptest! {
    #[test]
    fn a_block_reduction_gives_the_sums(x in proptest::collection::vec(0..1000u64, 0..300), threads in 1usize..40, blocks in 1usize..6) {
        let elements = x.len().div_ceil(threads * blocks).max(1);
        let mut sums = vec![u64::MAX; blocks];
        let division = WorkDivision::new(blocks, threads, elements).unwrap();
        let kernel = BlockSum { x: GlobalRef::from(&x) };
        erase_block(kernel, GlobalMut::from(&mut sums), division).unwrap().run_all(&mut BlockScratch::new()).unwrap();
        for (block, sum) in sums.iter().enumerate() {
            let part = x.iter().skip(block * threads * elements).take(threads * elements);
            prop_assert_eq!(*sum, part.sum::<u64>());
        }
    }

    #[test]
    fn a_tiled_transpose_transposes(height in 1usize..14, width in 1usize..14) {
        let input: Vec<u32> = (0..).take(height * width).collect();
        let mut output = vec![u32::MAX; height * width];
        let division =
            WorkDivision::new([width.div_ceil(SIDE), height.div_ceil(SIDE)], [SIDE, SIDE], [1, 1]).unwrap();
        let kernel = Transpose { input: GlobalRef::from(&input), height, width };
        let view = GlobalMut::from(&mut output).in_extent([width, height]).unwrap();
        erase_block(kernel, view, division).unwrap().run_all(&mut BlockScratch::new()).unwrap();
        for row in 0..height {
            for column in 0..width {
                prop_assert_eq!(output[column * height + row], input[row * width + column]);
            }
        }
    }
}

/// Barriers with predicates, one after the other, so that each must not see the votes of another.
struct Vote;

impl BlockKernel<1> for Vote {
    type Output = ByElement<(usize, bool, bool, usize)>;
    type Shared = ();

    fn shared(&self, _division: &WorkDivision<1>) {}

    async fn run<A: BlockAccelerator<1>>(
        &self,
        acc: &A,
        mut output: OwnElements<'_, (usize, bool, bool, usize)>,
        (): (),
    ) {
        let thread = acc.thread_index()[0];
        let thirds = acc.sync_block_threads_count(thread % 3 == 0).await;
        acc.sync_block_threads().await;
        let all = acc.sync_block_threads_and(thread < 10).await;
        let any = acc.sync_block_threads_or(thread == 9).await;
        let none = acc.sync_block_threads_count(false).await;
        output
            .each()
            .for_each(|(_, votes)| *votes = (thirds, all, any, none));
    }
}

#[test]
fn predicates_are_counted_over_the_block() {
    for (threads, all, any) in [(9, true, false), (10, true, true), (11, false, true)] {
        let mut votes = vec![(0, false, false, 1); 2 * threads];
        let division = WorkDivision::new(2, threads, 1).unwrap();
        erase_block(Vote, GlobalMut::from(&mut votes), division)
            .unwrap()
            .run_all(&mut BlockScratch::new())
            .unwrap();
        assert!(
            votes
                .iter()
                .all(|vote| *vote == (threads.div_ceil(3), all, any, 0)),
            "{votes:?}"
        );
    }
}

/// Two arrays that turn together and apart, of different types and lengths; counts what it finds
/// wrong.
struct TwoArrays;

impl BlockKernel<1> for TwoArrays {
    type Output = Atomically<u32>;
    type Shared = (SharedArray<u64>, SharedArray<u8>);

    fn shared(&self, division: &WorkDivision<1>) -> Self::Shared {
        (
            SharedArray::new(3 * division.threads_per_block() - 1),
            SharedArray::new(1),
        )
    }

    async fn run<A: BlockAccelerator<1>>(
        &self,
        acc: &A,
        wrong: Atomics<'_, u32>,
        (mut wide, mut single): (SharedWrite<'_, u64>, SharedWrite<'_, u8>),
    ) {
        let thread = acc.thread_index()[0];
        let threads = acc.extent(Block, Threads)[0];
        let check = |right: bool| {
            wrong.add(0, u32::from(!right));
        };
        check(
            wide.own().iter().all(|&value| value == 0)
                && single.own().iter().all(|&value| value == 0),
        );
        check(wide.own().len() == if thread + 1 == threads { 2 } else { 3 });
        check(wide.own_range().start == 3 * thread);
        check(single.own().len() == usize::from(thread == 0));

        let start = wide.own_range().start as u64;
        (start..)
            .zip(wide.own())
            .for_each(|(number, value)| *value = number);
        single.own().iter_mut().for_each(|value| *value = 7);
        let (read, alone) = acc.sync((wide, single)).await;
        check(read.iter().zip(0..).all(|(&value, number)| value == number));
        check(*alone == [7]);

        let mut single = acc.sync(alone).await;
        single.own().iter_mut().for_each(|value| *value = 8);
        check(read[0] == 0);
        let (_, alone) = acc.sync((read, single)).await;
        check(*alone == [8]);
    }
}

#[test]
fn shared_arrays_are_zeroed_apart_and_turn_together() {
    let mut wrong = vec![0];
    let mut launch = erase_block(
        TwoArrays,
        GlobalMut::from(&mut wrong),
        WorkDivision::new(3, 5, 1).unwrap(),
    )
    .unwrap();
    assert_eq!(launch.shared_bytes(), 2 * 64 + 1);
    let mut scratch = BlockScratch::new();
    launch.run_all(&mut scratch).unwrap();
    // Again, in memory that is anything but zero.
    launch.run_all(&mut scratch).unwrap();
    assert_eq!(wrong, [0]);
}

#[test]
fn a_scratch_is_allocated_once() {
    let x = vec![1; 1000];
    let mut sums = vec![0; 50];
    let mut launch = erase_block(
        BlockSum {
            x: GlobalRef::from(&x),
        },
        GlobalMut::from(&mut sums),
        WorkDivision::new(50, 20, 1).unwrap(),
    )
    .unwrap();
    let mut scratch = BlockScratch::new();
    assert_eq!(scratch.capacity(), 0);
    launch.run_all(&mut scratch).unwrap();
    let capacity = scratch.capacity();
    launch.run_all(&mut scratch).unwrap();
    assert_eq!(scratch.capacity(), capacity);
}
