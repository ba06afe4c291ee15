//! Transposition of matrices.

use crate::division::{refuse, threads};
use crate::function::Item;
use quipu::kernels::{Accelerator, OwnElements, kernel};
use quipu::{Buffer, Event, Queue, Result, WorkDivision};

/// The side of a tile that fits into the nearest cache, from where each line is taken several times.
const TILE: usize = 32;

/// Sets element (i, j) of `y` to element (j, i) of `x`. The elements of a thread are a tile.
#[kernel]
pub fn transpose_tiles<T>(_acc: &impl Accelerator<2>, x: &[T], mut y: OwnElements<T, 2>) {
    let columns = y.extent()[0];
    for (position, row) in y.rows() {
        let mut at = position[1] * columns + position[0];
        for y in row.iter_mut() {
            *y = x[at];
            at += columns;
        }
    }
}

/// Makes of `x`, a matrix of `rows` rows, row after row, the matrix `y` whose rows are the columns of `x`.
///
/// The same on every device. One step, a read and a write for each element. (Tiles: Lam, Rothberg and Wolf, "The
/// Cache Performance and Optimizations of Blocked Algorithms", 1991.)
///
/// # Errors
/// If the elements of `x` are no such rows, or not as many as those of `y`; as [`Queue::launch`].
pub fn transpose<T: Item>(
    queue: &Queue,
    rows: usize,
    x: &Buffer<T>,
    y: &mut Buffer<T>,
) -> Result<Event> {
    if rows == 0 || !x.len().is_multiple_of(rows) || x.len() != y.len() {
        return refuse(
            "transpose",
            format!(
                "the input has {} elements, the output {}, and {rows} rows are asked for; make them rows times columns",
                x.len(),
                y.len()
            ),
        );
    }
    let columns = x.len() / rows;
    let threads = threads(queue.limits()).min(TILE);
    let blocks = [columns.div_ceil(TILE), rows.div_ceil(TILE)];
    let division = WorkDivision::new(blocks, [1, threads], [TILE, TILE / threads]);
    let mut y = y.shaped([columns, rows])?;
    queue.launch(division, transpose_tiles(x, &mut y))
}
