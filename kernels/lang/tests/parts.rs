//! Every element is in exactly one thread's tile or rows, whatever the extents and the division.

#![expect(clippy::unwrap_used, reason = "tests say what they expect by failing")]

use proptest::prelude::*;
use quipu_kernel::{
    Accelerator, BlockScratch, ByBlockTile, ByRow, ByTile, GlobalMut, GroupKernel, Kernel,
    OwnBlockTile, OwnRows, OwnTile, Vector, WorkDivision, erase,
};

/// Adds a number for its place to each own element in each of the ways there are.
struct Visit;

type Visited<const D: usize> = (ByTile<u32>, ByBlockTile<u32>);

impl<const D: usize> Kernel<D> for Visit {
    type Output = Visited<D>;

    fn run<A: Accelerator<D>>(
        &self,
        _acc: &A,
        (mut tile, mut block_tile): (OwnTile<'_, u32, D>, OwnBlockTile<'_, u32, D>),
    ) {
        let number = |start: Vector<D>, at: Vector<D>| {
            (0..D).fold(0, |number, d| number * 100 + (start[d] + at[d]) as u32)
        };
        let start = tile.start();
        for (at, element) in tile.each() {
            *element += 1 + number(start, at);
        }
        let extent = tile.extent();
        for i in 0..extent.count().unwrap() {
            let at = extent.delinearise(i).unwrap();
            tile[at.components()] += 1 + number(start, at);
            *tile.get_mut(at).unwrap() += 1 + number(start, at);
        }
        assert!(tile.get(extent.components()).is_none());
        let start = block_tile.start();
        for (at, element) in block_tile.each() {
            *element += 1 + number(start, at);
        }
    }
}

fn check<const D: usize>(
    extent: [usize; D],
    grid: [usize; D],
    block: [usize; D],
    thread: [usize; D],
) {
    let count = extent.iter().product();
    let (mut tiles, mut block_tiles) = (vec![0; count], vec![0; count]);
    let view = (
        GlobalMut::from(&mut tiles).in_extent(extent).unwrap(),
        GlobalMut::from(&mut block_tiles).in_extent(extent).unwrap(),
    );
    let division = WorkDivision::new(grid, block, thread).unwrap();
    erase(Visit, view, division)
        .unwrap()
        .run_all(&mut BlockScratch::new())
        .unwrap();
    let empty = grid.contains(&0);
    for (i, (tile, block_tile)) in tiles.into_iter().zip(block_tiles).enumerate() {
        let mut rest = i;
        let mut number = 0;
        let mut scale = 1;
        for d in (0..D).rev() {
            number += scale * (rest % extent[d]) as u32;
            rest /= extent[d];
            scale *= 100;
        }
        let once = if empty { 0 } else { number + 1 };
        assert_eq!((tile, block_tile), (3 * once, once), "{i} of {extent:?}");
    }
}

proptest! {
    #[test]
    fn tiles_of_one_dimension(extent in 0usize..90, grid in 0usize..4, block in 1usize..4, thread in 1usize..9) {
        check([extent], [grid], [block], [thread]);
    }

    #[test]
    fn tiles_of_three_dimensions(
        extent in proptest::array::uniform3(0usize..9),
        grid in proptest::array::uniform3(0usize..3),
        block in proptest::array::uniform3(1usize..3),
        thread in proptest::array::uniform3(1usize..4),
    ) {
        check(extent, grid, block, thread);
    }

    #[test]
    fn rows_are_dealt_out_in_order(rows in 0usize..40, columns in 0usize..5, gap in 0usize..3, grid in 0usize..4, block in 1usize..4) {
        struct Rows;
        impl Kernel<2> for Rows {
            type Output = ByRow<u32>;
            fn run<A: Accelerator<2>>(&self, _acc: &A, mut own: OwnRows<'_, u32>) {
                let range = own.range();
                assert_eq!(own.each().map(|(row, _)| row).collect::<Vec<_>>(), range.collect::<Vec<_>>());
                for (row, elements) in own.each() {
                    elements.iter_mut().for_each(|element| *element += 1 + row as u32);
                }
            }
        }
        let pitch = columns + gap;
        let mut memory = vec![0; rows * pitch];
        let view = GlobalMut::from(&mut memory).in_strides([rows, columns], [pitch, 1]).unwrap();
        let division = WorkDivision::new([grid, 1], [1, block], [1, 1]).unwrap();
        erase(Rows, view, division).unwrap().run_all(&mut BlockScratch::new()).unwrap();
        for (i, element) in memory.into_iter().enumerate() {
            let expected = if grid == 0 || i % pitch >= columns { 0 } else { 1 + i / pitch };
            prop_assert_eq!(element as usize, expected);
        }
    }
}

/// Rows of a tile, in two dimensions and in one.
#[test]
fn rows_of_tiles_are_slices() {
    struct Fill;
    impl Kernel<2> for Fill {
        type Output = ByTile<u32>;
        fn run<A: Accelerator<2>>(&self, _acc: &A, mut tile: OwnTile<'_, u32, 2>) {
            let rows = tile.extent()[0];
            for row in 0..rows {
                let length = tile.extent()[1];
                assert_eq!(tile.row_mut([row]).len(), length);
                tile.row_mut([row]).fill(1 + row as u32);
            }
            assert!(tile.row_mut([rows]).is_empty());
        }
    }
    let mut numbers = vec![0; 15];
    let view = GlobalMut::from(&mut numbers).in_extent([3, 5]).unwrap();
    let division = WorkDivision::new([2, 2], [1, 1], [2, 3]).unwrap();
    erase(Fill, view, division)
        .unwrap()
        .run_all(&mut BlockScratch::new())
        .unwrap();
    assert_eq!(numbers, [1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1]);
}
