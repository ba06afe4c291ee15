//! Every element is handed to exactly one thread, whatever the extent, the division and the way in
//! which a driver splits the groups.

#![expect(clippy::unwrap_used, reason = "tests say what they expect by failing")]

use proptest::prelude::*;
use quipu_kernel::{
    Accelerator, Atomically, Atomics, BlockScratch, ByBlock, ByElement, Elements, Extent,
    GlobalMut, Grid, GroupKernel, Kernel, OwnElements, Vector, WorkDivision, erase,
};

/// Adds its number, plus one, to each own element in each of the ways there are, and counts the
/// same elements by number.
struct Visit;

impl<const D: usize> Kernel<D> for Visit {
    type Output = (ByElement<u32>, Atomically<u32>, ByBlock<u32>);

    fn run<A: Accelerator<D>>(
        &self,
        acc: &A,
        (mut own, all, part): (OwnElements<'_, u32, D>, Atomics<'_, u32>, &mut [u32]),
    ) {
        let extent = own.extent();
        for (i, value) in own.each() {
            *value += 1 + i as u32;
        }
        own.each()
            .for_each(|(i, value)| *value += 10 * (1 + i as u32));
        for (start, row) in own.rows() {
            for (column, value) in row.iter_mut().enumerate() {
                let mut position = start.components();
                position[D - 1] += column;
                assert!(acc.region(extent).start().components() <= position);
                *value += 100 * (1 + extent.linearise(Vector::new(position)).unwrap() as u32);
            }
        }
        for i in acc.elements(extent) {
            all.add(i, 1);
        }
        acc.elements(extent).for_each(|i| {
            all.add(i, 10);
        });
        assert_eq!(acc.elements(extent).count(), acc.region(extent).count());
        part.iter_mut().for_each(|value| *value += 1);
    }
}

/// Runs the launch in so many ranges, on two threads.
fn run_split(launch: &dyn GroupKernel, ranges: u64) {
    let count = launch.group_count();
    let length = count.div_ceil(ranges).max(1);
    std::thread::scope(|scope| {
        for worker in 0..2 {
            scope.spawn(move || {
                let mut scratch = BlockScratch::new();
                for range in (worker..ranges).step_by(2) {
                    let groups = (range * length).min(count)..((range + 1) * length).min(count);
                    // SAFETY: the ranges are disjoint, and each is run by one worker.
                    unsafe { launch.run_groups(groups, &mut scratch) }.unwrap();
                }
            });
        }
    });
}

fn check<const D: usize>(
    extent: [usize; D],
    grid: [usize; D],
    block: [usize; D],
    thread: [usize; D],
    ranges: u64,
) {
    check_view(extent, None, grid, block, thread, ranges);
    // With gaps: one element more behind each row, and one row more behind each plane.
    let mut strides = [1; D];
    for d in (0..D - 1).rev() {
        strides[d] = strides[d + 1] * (extent[d + 1] + 1);
    }
    check_view(extent, Some(strides), grid, block, thread, ranges);
}

fn check_view<const D: usize>(
    extent: [usize; D],
    strides: Option<[usize; D]>,
    grid: [usize; D],
    block: [usize; D],
    thread: [usize; D],
    ranges: u64,
) {
    let extent = Extent::new(extent);
    let count = extent.count().unwrap();
    let places = |number: usize| match strides {
        None => number,
        Some(strides) => {
            let position = extent.delinearise(number).unwrap();
            (0..D).map(|d| position[d] * strides[d]).sum()
        }
    };
    let span = if count == 0 { 0 } else { places(count - 1) + 1 };
    let (mut own, mut all, mut parts) =
        (vec![0u32; span + 1], vec![0u32; count], vec![0u32; count]);
    let flat = GlobalMut::from(&mut own[..]);
    let output = (
        match strides {
            None => flat.in_extent(extent).unwrap(),
            Some(strides) => flat.in_strides(extent, strides).unwrap(),
        },
        GlobalMut::from(&mut all),
        GlobalMut::from(&mut parts),
    );
    let division = WorkDivision::new(grid, block, thread).unwrap();
    run_split(&erase(Visit, output, division).unwrap(), ranges);

    let visited = u32::from(division.block_count() > 0);
    let mut expected = vec![0; span + 1];
    for i in 0..count {
        expected[places(i)] = visited * 111 * (1 + i as u32);
    }
    assert_eq!(
        own, expected,
        "its elements, and nothing between or behind them"
    );
    assert!(all.iter().all(|&value| value == 11 * visited));
    assert!(parts.iter().all(|&value| value == visited));
}

/// An extent of `D` dimensions with components from `least` up to `most`.
fn sizes<const D: usize>(least: usize, most: usize) -> impl Strategy<Value = [usize; D]> {
    proptest::array::uniform(least..=most)
}

proptest! {
    #[test]
    fn each_element_once_in_one_dimension(
        extent in sizes::<1>(0, 200), grid in sizes(0, 20), block in sizes(1, 5), thread in sizes(1, 9), ranges in 1..9u64
    ) {
        check(extent, grid, block, thread, ranges);
    }

    #[test]
    fn each_element_once_in_two_dimensions(
        extent in sizes::<2>(0, 20), grid in sizes(0, 5), block in sizes(1, 3), thread in sizes(1, 4), ranges in 1..9u64
    ) {
        check(extent, grid, block, thread, ranges);
    }

    #[test]
    fn each_element_once_in_three_dimensions(
        extent in sizes::<3>(0, 8), grid in sizes(0, 3), block in sizes(1, 3), thread in sizes(1, 3), ranges in 1..9u64
    ) {
        check(extent, grid, block, thread, ranges);
    }
}

/// Writes the index of each thread's first element, so that the grid need not be asked.
struct FirstElement;

impl Kernel<2> for FirstElement {
    type Output = ByElement<[usize; 2]>;

    fn run<A: Accelerator<2>>(&self, acc: &A, mut own: OwnElements<'_, [usize; 2], 2>) {
        let first = acc.index(Grid, Elements).components();
        assert_eq!(own.region().start().components(), first);
        own.each().for_each(|(_, value)| *value = first);
    }
}

#[test]
fn own_elements_start_at_the_index_in_elements_where_the_grid_covers_the_extent() {
    let mut first = vec![[usize::MAX; 2]; 12 * 8];
    let division = WorkDivision::new([3, 2], [2, 1], [2, 4]).unwrap();
    let output = GlobalMut::from(&mut first).in_extent([12, 8]).unwrap();
    erase(FirstElement, output, division)
        .unwrap()
        .run_all(&mut BlockScratch::new())
        .unwrap();
    for row in 0..12 {
        for column in 0..8 {
            assert_eq!(first[row * 8 + column], [row / 2 * 2, column / 4 * 4]);
        }
    }
}

#[test]
fn an_extent_larger_than_memory_is_shared_out_without_overflow() {
    let extent = Extent::new([usize::MAX]);
    struct Ends;
    impl Kernel<1> for Ends {
        type Output = ByElement<usize>;
        fn run<A: Accelerator<1>>(&self, acc: &A, mut end: OwnElements<'_, usize>) {
            let region = acc.region(usize::MAX);
            end.each().for_each(|(_, end)| *end = region.end()[0]);
        }
    }
    let mut ends = [0; 7];
    let division = WorkDivision::new(7, 1, 1).unwrap();
    erase(Ends, GlobalMut::from(&mut ends[..]), division)
        .unwrap()
        .run_all(&mut BlockScratch::new())
        .unwrap();
    assert!(ends.is_sorted());
    assert_eq!(ends[6], extent[0]);
}
