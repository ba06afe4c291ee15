//! The product of matrices.
//!
//! Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008, in a block of
//! one thread:
//!
//! 1. The block packs `DEPTH` rows of its columns of `b`, and as many columns of its rows of `a`,
//!    into panels as wide as the next step's pieces of them.
//! 2. Each `ROWS` x `COLUMNS` elements of the result are summed in registers along the panels, and
//!    added to the block's tile.
//! 3. Both steps are done again for the next `DEPTH`, until there is nothing left; then the tile is
//!    written.
//!
//! Where blocks have many threads, each has one element of the result, and all share the elements
//! that each of them reads.

use crate::division::refuse;
use crate::function::{Item, MultiplyAdd};
use quipu::kernels::{
    Block, BlockAccelerator, Elements, FeatureLevel, Grid, KernelData, OwnElements, RunOptions,
    SharedWrite, Threads, device, kernel,
};
use quipu::{AcceleratorLimits, Buffer, Event, Queue, Result, WorkDivision};

/// The extent of a panel along the inner dimension.
pub const DEPTH: usize = 256;
/// The number of rows of `a` that are packed at once: they fit into the second cache.
const HEIGHT: usize = 96;
/// Rows of `b` that are packed together. The panels that one row goes to lie a power of two apart,
/// in one set of a cache.
const LINES: usize = 4;

/// Copies a line.
#[device]
fn copy_line<T: Copy>(from: &[T], to: &mut [T]) {
    for q in 0..to.len() {
        to[q] = from[q];
    }
}

/// The sums of the products of a panel of `a`, `ROWS` wide, and one of `b`, `COLUMNS` wide.
#[device]
fn sum_products<T: MultiplyAdd, const ROWS: usize, const COLUMNS: usize>(
    panel_a: &[T],
    panel_b: &[T],
) -> [[T; COLUMNS]; ROWS] {
    let mut sums = [[T::ZERO; COLUMNS]; ROWS];
    for p in 0..panel_a.len() / ROWS {
        let x = &panel_a[p * ROWS..(p + 1) * ROWS];
        let y = &panel_b[p * COLUMNS..(p + 1) * COLUMNS];
        for r in 0..ROWS {
            for q in 0..COLUMNS {
                sums[r][q] = x[r].multiply_add(y[q], sums[r][q]);
            }
        }
    }
    sums
}

/// Sets `c` to the product of `a` and `b`, whose inner dimension is `inner`. Blocks have one
/// thread, of a multiple of `ROWS` times a multiple of `COLUMNS` elements. That many are summed at
/// once: as fit into a device's registers.
#[kernel]
pub async fn multiply_tiles<
    T: MultiplyAdd + KernelData,
    const ROWS: usize,
    const COLUMNS: usize,
>(
    acc: &impl BlockAccelerator<2>,
    inner: usize,
    a: &[T],
    b: &[T],
    mut c: OwnElements<T, 2>,
    #[shared(HEIGHT * DEPTH)] mut panels_a: SharedWrite<T>,
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
        for above in (0..depth).step_by(LINES) {
            for j in (0..width).step_by(COLUMNS) {
                let taken = COLUMNS.min(width - j);
                for p in above..(above + LINES).min(depth) {
                    let at = (from + p) * columns + start[1] + j;
                    let to = j * depth + p * COLUMNS;
                    if taken == COLUMNS {
                        copy_line(&b[at..at + COLUMNS], &mut panels_b[to..to + COLUMNS]);
                    } else {
                        copy_line(&b[at..at + taken], &mut panels_b[to..to + taken]);
                        for q in taken..COLUMNS {
                            panels_b[to + q] = T::ZERO;
                        }
                    }
                }
            }
        }
        for top in (0..height).step_by(HEIGHT) {
            let bottom = (top + HEIGHT).min(height);
            for i in (top..bottom).step_by(ROWS) {
                let to = (i - top) * depth;
                let panel = &mut panels_a[to..to + ROWS * depth];
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
                for i in (top..bottom).step_by(ROWS) {
                    let panel_a = &panels_a[(i - top) * depth..(i - top + ROWS) * depth];
                    let sums = sum_products::<T, ROWS, COLUMNS>(panel_a, panel_b);
                    for r in 0..ROWS {
                        let at = (i + r) * pitch + j;
                        let line = &mut tile[at..at + COLUMNS];
                        for q in 0..COLUMNS {
                            line[q] = sums[r][q].multiply_add(T::ONE, line[q]);
                        }
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

/// The side of a block of [`multiply_squares`], in threads.
pub const SIDE: usize = 16;

/// Sets `c` to the product of `a` and `b`, whose inner dimension is `inner`. Blocks have [`SIDE`]
/// by `SIDE` threads of one element.
#[kernel]
pub async fn multiply_squares<T: MultiplyAdd + KernelData>(
    acc: &impl BlockAccelerator<2>,
    inner: usize,
    a: &[T],
    b: &[T],
    mut c: OwnElements<T, 2>,
    #[shared(SIDE * SIDE)] mut a_square: SharedWrite<T>,
    #[shared(SIDE * SIDE)] mut b_square: SharedWrite<T>,
) {
    let (rows, columns) = (c.extent()[0], c.extent()[1]);
    let (row, column) = (acc.index(Grid, Threads)[0], acc.index(Grid, Threads)[1]);
    let (i, j) = (acc.index(Block, Threads)[0], acc.index(Block, Threads)[1]);
    // The rows that a thread reads, as slices whose ends are the conditions to read: so each is
    // looked at once.
    let a_row = if row < rows {
        &a[row * inner..(row + 1) * inner]
    } else {
        &a[..0]
    };
    let b_column = if column < columns && column < b.len() {
        &b[column..]
    } else {
        &b[..0]
    };
    let mut product = T::ZERO;
    let mut sum = T::ZERO;
    let mut from = 0;
    while from < inner {
        // Both are read before either is waited for.
        let x = if from + j < a_row.len() {
            a_row[from + j]
        } else {
            T::ZERO
        };
        let place = (from + i) * columns;
        let y = if from + i < inner && place < b_column.len() {
            b_column[place]
        } else {
            T::ZERO
        };
        a_square.own()[0] = x;
        b_square.own()[0] = y;
        let (a_read, b_read) = acc.sync((a_square, b_square)).await;
        // All but the last have as many rounds as the compiler can see.
        if inner - from >= SIDE {
            for k in 0..SIDE {
                sum = a_read[i * SIDE + k].multiply_add(b_read[k * SIDE + j], sum);
            }
        } else {
            for k in 0..inner - from {
                sum = a_read[i * SIDE + k].multiply_add(b_read[k * SIDE + j], sum);
            }
        }
        (a_square, b_square) = acc.sync((a_read, b_read)).await;
        from += SIDE;
        if from % DEPTH == 0 || from >= inner {
            product = sum.multiply_add(T::ONE, product);
            sum = T::ZERO;
        }
    }
    for (_, c) in c.each() {
        *c = product;
    }
}

/// Elements of a block, multiples of the elements that are summed in registers: as many as its
/// shared memory has room for, no more than leave each core two blocks, and about as many as other
/// blocks have.
fn tile<T>([rows, columns]: [usize; 2], limits: &AcceleratorLimits) -> [usize; 2] {
    // The most that are summed at once, of which the others are divisors.
    const ROWS: usize = 12;
    const COLUMNS: usize = 32;
    const TILES: [[usize; 2]; 6] = [
        [384, 256],
        [192, 256],
        [192, 128],
        [96, 128],
        [96, 64],
        [48, 64],
    ];
    let fits = |[height, width]: [usize; 2]| {
        let elements = (HEIGHT + width) * DEPTH + height * width;
        let blocks = rows.div_ceil(height) * columns.div_ceil(width);
        elements * size_of::<T>() <= limits.shared_bytes && blocks >= 2 * limits.multiprocessors
    };
    let last = TILES[TILES.len() - 1];
    let [height, width] = TILES.into_iter().find(|tile| fits(*tile)).unwrap_or(last);
    [even(rows, height, ROWS), even(columns, width, COLUMNS)]
}

/// Parts of at most `most`, which are as even as multiples of `step` can be: so that no core is
/// left with the largest.
fn even(length: usize, most: usize, step: usize) -> usize {
    let parts = length.div_ceil(most).max(1);
    length
        .div_ceil(parts)
        .next_multiple_of(step)
        .clamp(step, most)
}

/// Sets `c`, of `rows` x `columns` elements, to the product of `a`, of `rows` x `inner`, and `b`,
/// of `inner` x `columns`: `[rows, inner, columns]` in this order. All are dense, row after row.
///
/// `rows * inner * columns` multiplications: of floats each is rounded once with its addition;
/// integers wrap. An element is summed in order within each [`DEPTH`](crate::kernels::DEPTH) of the
/// inner dimension, and these sums in order: the same bits on every device.
///
/// # Errors
/// If the buffers have other lengths; as [`Queue::launch`].
pub fn matrix_product<T: Item + MultiplyAdd>(
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
    let mut c = c.shaped([rows, columns])?;
    let limits = queue.limits();
    if limits.preferred_block_threads > 1 && limits.block_thread_count >= SIDE * SIDE {
        let blocks = [rows.div_ceil(SIDE), columns.div_ceil(SIDE)];
        return queue.launch(
            WorkDivision::new(blocks, [SIDE, SIDE], [1, 1]),
            multiply_squares(inner, a, b, &mut c),
        );
    }
    let tile = tile::<T>([rows, columns], limits);
    let blocks = [rows.div_ceil(tile[0]), columns.div_ceil(tile[1])];
    let division = WorkDivision::new(blocks, [1, 1], tile);
    // With two vectors of a row: twelve of the 16 registers of AVX2, 24 of the 32 of AVX-512.
    let level = RunOptions::from_environment()
        .map_or(FeatureLevel::Baseline, |options| options.level)
        .min(FeatureLevel::detected());
    match (level, size_of::<T>()) {
        (FeatureLevel::V4, 0..=4) => {
            queue.launch(division, multiply_tiles::<T, 12, 32>(inner, a, b, &mut c))
        }
        (FeatureLevel::V4, _) => {
            queue.launch(division, multiply_tiles::<T, 12, 16>(inner, a, b, &mut c))
        }
        (_, 0..=4) => queue.launch(division, multiply_tiles::<T, 6, 16>(inner, a, b, &mut c)),
        _ => queue.launch(division, multiply_tiles::<T, 6, 8>(inner, a, b, &mut c)),
    }
}
