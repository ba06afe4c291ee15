//! Outputs by tile, by block's tile, by rows.

use super::{check, compare, division, natively, run_printed};
use quipu_kernel::{
    Accelerator, Block, BlockAccelerator, GlobalMut, OwnBlockTile, OwnRows, OwnTile, SharedWrite,
    Threads, WorkDivision, device, kernel,
};
use quipu_kernel_testing::Argument;

/// Runs a kernel on an output of rows that are some elements apart, natively in every way, and
/// printed.
macro_rules! check_view {
    ($kernel:expr, $extent:expr, $stride:expr, $division:expr $(, $shared:expr)*) => {{
        let (extent, stride): ([usize; 2], usize) = ($extent, $stride);
        let mut y: Vec<u32> = (0..200).collect();
        let dimensions = extent.map(|components| components as u64);
        let arguments = [Argument::view(&y, &dimensions, &[stride as u64, 1])];
        fn view(y: &mut Vec<u32>, extent: [usize; 2], stride: usize) -> GlobalMut<'_, u32, 2> {
            GlobalMut::from(y).in_strides(extent, [stride, 1]).unwrap()
        }
        natively(&mut y, |y, way| {
            way.run($kernel(view(y, extent, stride)).prepare($division).unwrap());
        });
        let module = $kernel(view(&mut y, extent, stride)).module().unwrap();
        run_printed(&module, &$division, &arguments, &[$($shared),*], |launch| {
            compare(&y, &launch.elements(0));
        });
        y
    }};
}

#[device(crate = quipu_kernel)]
fn mark(mut tile: OwnTile<u32, 2>, with: u32) {
    if tile.extent()[0] > 0 && tile.extent()[1] > 0 {
        tile[[0, 0]] = with + tile[[0, 0]] % 2;
    }
}

#[kernel(crate = quipu_kernel)]
fn tiles(_acc: &impl Accelerator<2>, mut y: OwnTile<u32, 2>) {
    let start = y.start();
    let (rows, columns) = (y.extent()[0], y.extent()[1]);
    for row in 0..rows {
        for column in 0..columns {
            y[[row, column]] += (1000 * (start[0] + row) + 100 * (start[1] + column)) as u32;
        }
    }
    for ([row, column], element) in y.each() {
        if column == 1 {
            continue;
        }
        *element += (10 * row + column) as u32;
    }
    for (k, element) in y.row_mut([1]).iter_mut().enumerate() {
        *element *= k as u32 + 2;
    }
    mark(y, 7);
}

#[test]
fn runs_tiles() {
    let division = WorkDivision::new([2, 2], [1, 2], [2, 3]).unwrap();
    let y = check_view!(tiles, [4, 12], 12, division);
    // 1; 100 + 1, and 2 more from the column; those of row 1 are multiplied.
    assert_eq!(
        (y[0], y[1], y[2], y[12]),
        (7, 101, 204, 2 * (1000 + 12 + 10))
    );
    // Clipped, with threads without elements; more elements than the division has; none at all.
    check_view!(tiles, [3, 7], 13, division);
    check_view!(tiles, [11, 14], 14, division);
    check_view!(tiles, [3, 0], 5, division);
    check_view!(tiles, [0, 3], 5, division);
}

#[kernel(crate = quipu_kernel)]
fn line(_acc: &impl Accelerator<1>, mut y: OwnTile<u32, 1>) {
    let first = y.start()[0] as u32;
    for (at, element) in y.each() {
        *element = 100 * first + at[0] as u32;
    }
    for element in y.row_mut([]) {
        *element += 1;
    }
    if y.extent()[0] > 1 {
        y[[1]] = y[[0]];
    }
}

#[test]
fn runs_line() {
    let mut y = vec![0; 13];
    check!(line => (&mut y), division(2, 2, 4));
    assert_eq!(y[4..8], [401, 401, 403, 404]);
    let mut y = vec![0; 40];
    check!(line => (&mut y), division(2, 2, 4));
}

#[kernel(crate = quipu_kernel)]
async fn transposed(
    acc: &impl BlockAccelerator<2>,
    mut y: OwnBlockTile<u32, 2>,
    #[shared(acc.extent(Block, Threads)[0] * acc.extent(Block, Threads)[1])] mut sums: SharedWrite<
        u32,
    >,
) {
    let (rows, columns) = (y.extent()[0], y.extent()[1]);
    for (position, element) in y.each() {
        sums.own()[0] += *element;
        *element = (100 * position[0] + position[1]) as u32;
    }
    let sums = acc.sync(sums).await;
    let mut sum = 0;
    for part in sums.iter() {
        sum += part;
    }
    for (position, element) in y.each() {
        if position[0] == rows - 1 && position[1] == columns - 1 {
            *element = sum + 1000 * rows as u32;
        }
    }
}

#[test]
fn runs_transposed() {
    let division = WorkDivision::new([2, 2], [2, 3], [2, 1]).unwrap();
    let y = check_view!(transposed, [8, 6], 6, division, 6);
    assert_eq!(y[..3], [0, 1, 2]);
    check_view!(transposed, [5, 4], 9, division, 6);
    check_view!(transposed, [11, 14], 14, division, 6);
    check_view!(transposed, [3, 0], 5, division, 6);
}

#[kernel(crate = quipu_kernel)]
fn running_sums(_acc: &impl Accelerator<1>, mut y: OwnRows<u32>) {
    let first = y.range();
    let columns = y.extent()[1] as u32;
    for (number, row) in y.each() {
        for i in 1..row.len() {
            row[i] += row[i - 1];
        }
        if !row.is_empty() {
            row[0] = 1000 * number as u32 + columns;
        }
    }
    for i in first {
        for (number, row) in y.each() {
            if number == i && !row.is_empty() {
                row[row.len() - 1] += 1;
            }
        }
    }
}

#[test]
fn runs_running_sums() {
    let y = check_view!(running_sums, [4, 5], 8, division(2, 3, 1));
    assert_eq!(y[8..13], [1005, 17, 27, 38, 51]);
    check_view!(running_sums, [19, 5], 5, division(2, 3, 2));
    check_view!(running_sums, [4, 0], 3, division(2, 3, 1));
    check_view!(running_sums, [0, 3], 3, division(2, 3, 1));
}

/// With closures in place of loops.
#[kernel(crate = quipu_kernel)]
fn shares(_acc: &impl Accelerator<1>, mut y: OwnRows<u32>) {
    y.each().for_each(|(i, row)| {
        let sum: u32 = row.iter().copied().sum();
        let counted = row.iter_mut().rev().enumerate();
        counted.for_each(|(k, own)| *own += sum * (k + i) as u32);
    });
}

#[test]
fn runs_shares() {
    let y = check_view!(shares, [4, 5], 8, division(2, 3, 1));
    assert_eq!(
        y[8..13],
        [8 + 5 * 50, 9 + 4 * 50, 10 + 3 * 50, 11 + 2 * 50, 12 + 50]
    );
    check_view!(shares, [19, 5], 5, division(2, 3, 2));
}

#[kernel(crate = quipu_kernel)]
fn rows_of_a_plane(acc: &impl Accelerator<2>, mut y: OwnRows<u32>) {
    let thread = acc.index(Block, Threads);
    for (number, row) in y.each() {
        row.fill((100 * number + 10 * thread[0] + thread[1]) as u32);
    }
}

#[test]
fn runs_rows_of_a_plane() {
    let division = WorkDivision::new([2, 1], [2, 3], [1, 1]).unwrap();
    let y = check_view!(rows_of_a_plane, [12, 3], 3, division);
    assert_eq!((y[0], y[3], y[15], y[33]), (0, 101, 512, 1112));
}
