//! Transposition of matrices.

use crate::division::{refuse, threads};
use crate::function::Item;
use quipu::kernels::{Accelerator, OwnElements, OwnTile, kernel};
use quipu::{Buffer, Event, Queue, Result, WorkDivision};

/// The side of a block's tile, where a block has several threads.
const TILE: usize = 32;
/// Rows and columns of the tile of a thread that is alone in its block. Of elements of four bytes
/// that is the nearest cache: the longer the pieces that are read at a time, the fewer pages are
/// looked up for it. Lines that follow each other are fetched ahead.
const HEIGHT: usize = 128;
const WIDTH: usize = 64;
/// Bytes of an element of which so many fit on a thread's stack. Larger ones fill lines by
/// themselves, and need none at hand.
const MOST_AT_HAND: usize = 16;
/// Columns of such a thread.
const LONG: usize = 8 * WIDTH;

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

/// As [`transpose_tiles`], of an `x` of so many columns, for blocks of one thread. Rows of `x` are
/// fetched before any of them is written as a column: where they are a power of two apart, their
/// elements would be in the same places of the nearest cache, and each line would have to be
/// fetched again for each of its elements.
#[kernel]
pub fn transpose_at_hand<T>(
    _acc: &impl Accelerator<2>,
    columns: usize,
    x: &[T],
    mut y: OwnTile<T, 2>,
) {
    let mut at_hand = [[x[0]; HEIGHT]; WIDTH];
    for top in (0..y.extent()[0]).step_by(HEIGHT) {
        for left in (0..y.extent()[1]).step_by(WIDTH) {
            let height = (y.extent()[0] - top).min(HEIGHT);
            let width = (y.extent()[1] - left).min(WIDTH);
            let first = (y.start()[1] + left) * columns + y.start()[0] + top;
            for k in 0..width {
                let from = &x[first + k * columns..][..height];
                for i in 0..height {
                    at_hand[k][i] = from[i];
                }
            }
            for i in 0..height {
                let to = &mut y.row_mut([top + i])[left..left + width];
                // All but the last have as many rounds as the compiler can see.
                if width == WIDTH {
                    for k in 0..WIDTH {
                        to[k] = at_hand[k][i];
                    }
                } else {
                    for k in 0..width {
                        to[k] = at_hand[k][i];
                    }
                }
            }
        }
    }
}

/// Makes of `x`, a matrix of `rows` rows, row after row, the matrix `y` whose rows are the columns
/// of `x`.
///
/// The same on every device. One step, a read and a write for each element. (Tiles that are copied:
/// Lam, Rothberg and Wolf, "The Cache Performance and Optimizations of Blocked Algorithms", 1991.)
///
/// # Errors
/// If the elements of `x` are no such rows, or not as many as those of `y`; as [`Queue::launch`].
pub fn transpose<T: Item>(
    queue: &Queue,
    rows: usize,
    x: &Buffer<T>,
    y: &mut Buffer<T>,
) -> Result<Event> {
    let is_whole = x.is_empty() || (rows != 0 && x.len().is_multiple_of(rows));
    if !is_whole || x.len() != y.len() {
        return refuse(
            "transpose",
            format!(
                "the input has {} elements, the output {}, and {rows} rows are asked for; make them rows times columns",
                x.len(),
                y.len()
            ),
        );
    }
    let columns = x.len() / rows.max(1);
    let mut y = y.shaped([columns, rows])?;
    let threads = threads(queue.limits()).min(TILE);
    if threads == 1 && size_of::<T>() <= MOST_AT_HAND {
        let blocks = [columns.div_ceil(HEIGHT), rows.div_ceil(LONG)];
        let division = WorkDivision::new(blocks, [1, 1], [HEIGHT, LONG]);
        return queue.launch(division, transpose_at_hand(columns, x, &mut y));
    }
    let blocks = [columns.div_ceil(TILE), rows.div_ceil(TILE)];
    let division = WorkDivision::new(blocks, [1, threads], [TILE, TILE / threads]);
    queue.launch(division, transpose_tiles(x, &mut y))
}
