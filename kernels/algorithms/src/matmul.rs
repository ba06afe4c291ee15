//! The product of matrices.
//!
//! Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008, in a block of one thread:
//!
//! 1. The block packs `DEPTH` rows of its columns of `b`, and as many columns of its rows of `a`, into panels as wide as
//!    what the next step takes of them.
//! 2. Each `ROWS` x `COLUMNS` elements of the result are summed in registers along the panels, and added to the block's
//!    tile.
//! 3. That again for the next `DEPTH`, until there is nothing left; then the tile is written.

use crate::division::refuse;
use crate::function::Item;
use quipu::kernels::{
    Block, BlockAccelerator, Elements, Float, Grid, OwnElements, SharedElement, SharedWrite, kernel,
};
use quipu::{Buffer, Event, Queue, Result, WorkDivision};

/// Rows of what is summed in registers: with `COLUMNS`, twelve of the 16 registers of AVX2 for `f32`.
pub const ROWS: usize = 6;
/// Columns of what is summed in registers.
pub const COLUMNS: usize = 16;
/// How much of the inner dimension a panel holds.
pub const DEPTH: usize = 256;
/// Elements of a block: `a`'s panel fits into the second cache.
const TILE: [usize; 2] = [96, 256];

/// Sets `c` to the product of `a` and `b`, whose inner dimension is `inner`. Blocks have one thread, of a multiple of
/// [`ROWS`] times a multiple of [`COLUMNS`] elements.
#[kernel]
pub async fn multiply_tiles<T: Float + SharedElement>(
    acc: &impl BlockAccelerator<2>,
    inner: usize,
    a: &[T],
    b: &[T],
    mut c: OwnElements<T, 2>,
    #[shared(acc.extent(Block, Elements)[0] * DEPTH)] mut panels_a: SharedWrite<T>,
    #[shared(acc.extent(Block, Elements)[1] * DEPTH)] mut panels_b: SharedWrite<T>,
    #[shared(acc.extent(Block, Elements)[0] * acc.extent(Block, Elements)[1])]
    mut tile: SharedWrite<T>,
) {
    let start = acc.index(Grid, Elements);
    let pitch = acc.extent(Block, Elements)[1];
    let columns = c.extent()[1];
    let height = acc.extent(Block, Elements)[0].min(c.extent()[0] - start[0]);
    let width = pitch.min(columns - start[1]);
    let panels_a = panels_a.own();
    let panels_b = panels_b.own();
    let tile = tile.own();

    let mut from = 0;
    while from < inner {
        let depth = DEPTH.min(inner - from);
        for j in (0..width).step_by(COLUMNS) {
            let taken = COLUMNS.min(width - j);
            for p in 0..depth {
                let at = (from + p) * columns + start[1] + j;
                let line = &b[at..at + taken];
                let to = j * depth + p * COLUMNS;
                let panel = &mut panels_b[to..to + COLUMNS];
                if taken == COLUMNS {
                    for q in 0..COLUMNS {
                        panel[q] = line[q];
                    }
                } else {
                    for q in 0..COLUMNS {
                        panel[q] = if q < taken { line[q] } else { T::ZERO };
                    }
                }
            }
        }
        for i in (0..height).step_by(ROWS) {
            let panel = &mut panels_a[i * depth..(i + ROWS) * depth];
            for r in 0..ROWS {
                if i + r < height {
                    let at = (start[0] + i + r) * inner + from;
                    let line = &a[at..at + depth];
                    for p in 0..depth {
                        panel[p * ROWS + r] = line[p];
                    }
                } else {
                    for p in 0..depth {
                        panel[p * ROWS + r] = T::ZERO;
                    }
                }
            }
        }
        for j in (0..width).step_by(COLUMNS) {
            let panel_b = &panels_b[j * depth..(j + COLUMNS) * depth];
            for i in (0..height).step_by(ROWS) {
                let panel_a = &panels_a[i * depth..(i + ROWS) * depth];
                let mut sums = [[T::ZERO; COLUMNS]; ROWS];
                for p in 0..depth {
                    let x = &panel_a[p * ROWS..(p + 1) * ROWS];
                    let y = &panel_b[p * COLUMNS..(p + 1) * COLUMNS];
                    for r in 0..ROWS {
                        for q in 0..COLUMNS {
                            sums[r][q] = x[r].mul_add(y[q], sums[r][q]);
                        }
                    }
                }
                for r in 0..ROWS {
                    let at = (i + r) * pitch + j;
                    let line = &mut tile[at..at + COLUMNS];
                    for q in 0..COLUMNS {
                        line[q] += sums[r][q];
                    }
                }
            }
        }
        from += depth;
    }
    for (position, row) in c.rows() {
        let at = (position[0] - start[0]) * pitch + position[1] - start[1];
        let line = &tile[at..at + row.len()];
        for (q, c) in row.iter_mut().enumerate() {
            *c = line[q];
        }
    }
}

/// Sets `c`, of `rows` x `columns` elements, to the product of `a`, of `rows` x `inner`, and `b`, of `inner` x
/// `columns`: `[rows, inner, columns]` in this order. All are dense, row after row.
///
/// `rows * inner * columns` multiplications, each rounded once with its addition. An element is summed in order within
/// each [`DEPTH`](crate::kernels::DEPTH) of the inner dimension, and these sums in order: the same bits on every
/// device.
///
/// # Errors
/// If the buffers have other lengths; as [`Queue::launch`].
pub fn matrix_product<T: Item + Float>(
    queue: &Queue,
    [rows, inner, columns]: [usize; 3],
    a: &Buffer<T>,
    b: &Buffer<T>,
    c: &mut Buffer<T>,
) -> Result<Event> {
    for (name, length, sides) in [
        ("a", a.len(), [rows, inner]),
        ("b", b.len(), [inner, columns]),
        ("c", c.len(), [rows, columns]),
    ] {
        if sides[0].checked_mul(sides[1]) != Some(length) {
            return refuse(
                "multiply matrices",
                format!("`{name}` has {length} elements; make it {sides:?}"),
            );
        }
    }
    let tile = tile_for(queue.limits().shared_bytes, size_of::<T>());
    let blocks = [rows.div_ceil(tile[0]), columns.div_ceil(tile[1])];
    let mut c = c.shaped([rows, columns])?;
    queue.launch(
        WorkDivision::new(blocks, [1, 1], tile),
        multiply_tiles(inner, a, b, &mut c),
    )
}

/// The tile of a block that has so many bytes of shared memory, for elements of so many: the largest that fits, or the
/// smallest that there is. The sums are the same for each.
fn tile_for(shared: usize, element: usize) -> [usize; 2] {
    let [mut rows, mut columns] = TILE;
    let asked = |rows: usize, columns: usize| ((rows + columns) * DEPTH + rows * columns) * element;
    while asked(rows, columns) > shared && (rows > ROWS || columns > COLUMNS) {
        rows = (rows / 2 / ROWS * ROWS).max(ROWS);
        columns = (columns / 2 / COLUMNS * COLUMNS).max(COLUMNS);
    }
    [rows, columns]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_fit_where_there_is_little_shared_memory() {
        assert_eq!(tile_for(1 << 20, 8), TILE);
        for shared in [1 << 20, 1 << 19, 1 << 18, 1 << 16, 48 << 10] {
            let [rows, columns] = tile_for(shared, 8);
            assert!(rows.is_multiple_of(ROWS) && columns.is_multiple_of(COLUMNS));
            let asked = ((rows + columns) * DEPTH + rows * columns) * 8;
            assert!(asked <= shared, "{asked} of {shared} bytes");
        }
        assert_eq!(tile_for(0, 4), [ROWS, COLUMNS]);
    }
}
