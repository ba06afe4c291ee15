//! Stencils: weighted sums of neighbours.
//!
//! A thread that is alone in its block makes four rows at a time ([`stencil_fours`]): so its input
//! goes from the second cache to the first three times for two rows, and not six, and is loaded
//! that much less. Where blocks have many threads, neighbours share their input as it is
//! ([`stencil_tiles`]).

use crate::division::{refuse, threads};
use crate::function::Item;
use quipu::kernels::{
    Accelerator, Elements, Grid, Number, OwnElements, RawMut, Thread, Threads, device, kernel,
};
use quipu::{Buffer, Event, Queue, Result, WorkDivision};

/// Rows of a thread, and columns of a block.
const TILE: [usize; 2] = [32, 1024];
/// Columns of a thread that is alone in its block: memory is read ahead along rows, of which ten of
/// single precision fit into its second cache.
const LONG: usize = 8192;

/// Sets each element of `y` to the sum of its 3 x 3 neighbours in `x`, itself among them, times
/// their weights. Behind an edge are the elements of the edge.
#[kernel]
pub fn stencil_tiles<T: Number>(
    _acc: &impl Accelerator<2>,
    weights: [[T; 3]; 3],
    x: &[T],
    mut y: OwnElements<T, 2>,
) {
    let rows = y.extent()[0];
    let columns = y.extent()[1];
    for (position, row) in y.rows() {
        let i = position[0];
        let above = if i > 0 { i - 1 } else { i };
        let below = if i + 1 < rows { i + 1 } else { i };
        let above = &x[above * columns..(above + 1) * columns];
        let here = &x[i * columns..(i + 1) * columns];
        let below = &x[below * columns..(below + 1) * columns];

        sum_row(weights, above, here, below, position[1], row);
    }
}

/// As [`stencil_tiles`], of neighbouring rows and columns: as many as a thread has in the launch.
#[kernel]
pub fn stencil_fours<T: Number>(
    acc: &impl Accelerator<2>,
    weights: [[T; 3]; 3],
    columns: u64,
    x: &[T],
    y: RawMut<T>,
) {
    let columns = columns as usize;
    let rows = x.len() / columns.max(1);
    let thread = acc.index(Grid, Threads);
    let extent = acc.extent(Thread, Elements);
    let first = (thread[1] * extent[1]).min(columns);
    let end = (first + extent[1]).min(columns);
    let last = ((thread[0] + 1) * extent[0]).min(rows);
    let mut i = (thread[0] * extent[0]).min(last);
    while i < last && first < end {
        let above = if i > 0 { i - 1 } else { i };
        let above = &x[above * columns..(above + 1) * columns];
        let here = &x[i * columns..(i + 1) * columns];
        let below = (i + 1).min(rows - 1);
        let below = &x[below * columns..(below + 1) * columns];
        // SAFETY: the rows and columns of a thread are its own.
        let row = unsafe { y.slice_mut(i * columns + first..i * columns + end) };
        if i + 3 < last {
            let third = &x[(i + 2) * columns..(i + 3) * columns];
            let fourth = &x[(i + 3) * columns..(i + 4) * columns];
            let lowest = (i + 4).min(rows - 1);
            let lowest = &x[lowest * columns..(lowest + 1) * columns];
            // SAFETY: as above; these are other rows.
            let row_1 = unsafe { y.slice_mut((i + 1) * columns + first..(i + 1) * columns + end) };
            // SAFETY: as above.
            let row_2 = unsafe { y.slice_mut((i + 2) * columns + first..(i + 2) * columns + end) };
            // SAFETY: as above.
            let row_3 = unsafe { y.slice_mut((i + 3) * columns + first..(i + 3) * columns + end) };
            sum_rows(
                weights, above, here, below, third, fourth, lowest, first, row, row_1, row_2, row_3,
            );
            i += 4;
        } else {
            sum_row(weights, above, here, below, first, row);
            i += 1;
        }
    }
}

/// The sums for a part of a row that starts at column `first`.
#[device]
fn sum_row<T: Number>(
    weights: [[T; 3]; 3],
    above: &[T],
    here: &[T],
    below: &[T],
    first: usize,
    row: &mut [T],
) {
    // The columns whose neighbours are inside, and the others.
    let columns = here.len();
    let end = first + row.len();
    let inner = first.max(1);
    let inner_end = end.min(columns - 1);
    if inner < inner_end {
        let length = inner_end - inner;
        let above = &above[inner - 1..][..length + 2];
        let here = &here[inner - 1..][..length + 2];
        let below = &below[inner - 1..][..length + 2];
        let y = &mut row[inner - first..][..length];
        for k in 0..length {
            y[k] = sum_between(weights, above, here, below, k, k + 1, k + 2);
        }
    }
    if first == 0 {
        row[0] = at_edge(weights, above, here, below, 0);
    }
    if end == columns {
        row[end - 1 - first] = at_edge(weights, above, here, below, columns - 1);
    }
}

/// As [`sum_row`], for parts of four rows, one below the other.
#[device]
fn sum_rows<T: Number>(
    weights: [[T; 3]; 3],
    above: &[T],
    here: &[T],
    below: &[T],
    third: &[T],
    fourth: &[T],
    lowest: &[T],
    first: usize,
    row: &mut [T],
    row_1: &mut [T],
    row_2: &mut [T],
    row_3: &mut [T],
) {
    let columns = here.len();
    let end = first + row.len();
    let inner = first.max(1);
    let inner_end = end.min(columns - 1);
    if inner < inner_end {
        let length = inner_end - inner;
        let above = &above[inner - 1..][..length + 2];
        let here = &here[inner - 1..][..length + 2];
        let below = &below[inner - 1..][..length + 2];
        let third = &third[inner - 1..][..length + 2];
        let fourth = &fourth[inner - 1..][..length + 2];
        let lowest = &lowest[inner - 1..][..length + 2];
        let row = &mut row[inner - first..][..length];
        let row_1 = &mut row_1[inner - first..][..length];
        let row_2 = &mut row_2[inner - first..][..length];
        let row_3 = &mut row_3[inner - first..][..length];
        for k in 0..length {
            row[k] = sum_between(weights, above, here, below, k, k + 1, k + 2);
            row_1[k] = sum_between(weights, here, below, third, k, k + 1, k + 2);
            row_2[k] = sum_between(weights, below, third, fourth, k, k + 1, k + 2);
            row_3[k] = sum_between(weights, third, fourth, lowest, k, k + 1, k + 2);
        }
    }
    if first == 0 {
        row[0] = at_edge(weights, above, here, below, 0);
        row_1[0] = at_edge(weights, here, below, third, 0);
        row_2[0] = at_edge(weights, below, third, fourth, 0);
        row_3[0] = at_edge(weights, third, fourth, lowest, 0);
    }
    if end == columns {
        let edge = end - 1 - first;
        row[edge] = at_edge(weights, above, here, below, columns - 1);
        row_1[edge] = at_edge(weights, here, below, third, columns - 1);
        row_2[edge] = at_edge(weights, below, third, fourth, columns - 1);
        row_3[edge] = at_edge(weights, third, fourth, lowest, columns - 1);
    }
}

/// The sum for a column at an edge, or both.
#[device]
fn at_edge<T: Number>(
    weights: [[T; 3]; 3],
    above: &[T],
    here: &[T],
    below: &[T],
    column: usize,
) -> T {
    let left = if column > 0 { column - 1 } else { column };
    let right = if column + 1 < here.len() {
        column + 1
    } else {
        column
    };
    sum_between(weights, above, here, below, left, column, right)
}

/// The sum for a column between two others.
#[device]
fn sum_between<T: Number>(
    weights: [[T; 3]; 3],
    above: &[T],
    here: &[T],
    below: &[T],
    left: usize,
    column: usize,
    right: usize,
) -> T {
    weights[0][0] * above[left]
        + weights[0][1] * above[column]
        + weights[0][2] * above[right]
        + weights[1][0] * here[left]
        + weights[1][1] * here[column]
        + weights[1][2] * here[right]
        + weights[2][0] * below[left]
        + weights[2][1] * below[column]
        + weights[2][2] * below[right]
}

/// Sets each element of `y` to the sum of its 3 x 3 neighbours in `x`, itself among them, times
/// their weights. Both are matrices of `columns` columns, row after row. Behind an edge are the
/// elements of the edge (a halo of one element).
///
/// Sums are made row after row, from left to right: the same bits on every device. 9
/// multiplications and 8 additions for each element.
///
/// # Errors
/// If the elements are no such rows, or not as many in both; as [`Queue::launch`].
pub fn stencil<T: Item + Number>(
    queue: &Queue,
    weights: [[T; 3]; 3],
    columns: usize,
    x: &Buffer<T>,
    y: &mut Buffer<T>,
) -> Result<Event>
where
    [[T; 3]; 3]: quipu::kernels::KernelData,
{
    let is_whole = x.is_empty() || (columns != 0 && x.len().is_multiple_of(columns));
    if !is_whole || x.len() != y.len() {
        return refuse(
            "apply a stencil",
            format!(
                "the input has {} elements, the output {}, and {columns} columns are asked for; make them rows times columns",
                x.len(),
                y.len()
            ),
        );
    }
    let rows = x.len() / columns.max(1);
    let threads = threads(queue.limits()).min(TILE[1]);
    let length = if threads > 1 {
        TILE[1] / threads
    } else {
        columns.clamp(1, LONG)
    };
    let blocks = [rows.div_ceil(TILE[0]), columns.div_ceil(threads * length)];
    let division = WorkDivision::new(blocks, [1, threads], [TILE[0], length]);
    if threads == 1 {
        let kernel = stencil_fours(weights, columns as u64, x, y.overwrite());
        return queue.launch(division, kernel);
    }
    let mut y = y.shaped([rows, columns])?;
    queue.launch(division, stencil_tiles(weights, x, &mut y))
}
