//! A matrix product by tiles: the threads of a block share the elements that each of them reads.

use quipu::prelude::*;

const TILE: usize = 16;

/// `c = a * b`, in blocks of `TILE` by `TILE` threads. Beyond the borders are zeros.
#[kernel]
async fn matrix_product(
    acc: &impl BlockAccelerator<2>,
    a: GlobalRef<f32, 2>,
    b: GlobalRef<f32, 2>,
    mut c: OwnElements<f32, 2>,
    #[shared(TILE * TILE)] mut a_tile: SharedWrite<f32>,
    #[shared(TILE * TILE)] mut b_tile: SharedWrite<f32>,
) {
    let (rows, inner, columns) = (a.extent()[0], b.extent()[0], b.extent()[1]);
    let (row, column) = (acc.index(Grid, Threads)[0], acc.index(Grid, Threads)[1]);
    let (i, j) = (acc.index(Block, Threads)[0], acc.index(Block, Threads)[1]);

    let mut sum = 0.0;
    for tile in 0..inner.div_ceil(TILE) {
        let (across, down) = (tile * TILE + j, tile * TILE + i);
        a_tile.own()[0] = if row < rows && across < inner {
            a[[row, across]]
        } else {
            0.0
        };
        b_tile.own()[0] = if down < inner && column < columns {
            b[[down, column]]
        } else {
            0.0
        };

        let (a_read, b_read) = acc.sync((a_tile, b_tile)).await;
        for k in 0..TILE {
            sum += a_read[i * TILE + k] * b_read[k * TILE + j];
        }
        (a_tile, b_tile) = acc.sync((a_read, b_read)).await;
    }
    for (_, c) in c.each() {
        *c = sum;
    }
}

/// Compares with three loops.
pub fn main() -> quipu::Result<()> {
    let context = Platform::new()?.context()?;
    let queue = context.queue(&context.fastest())?;

    let (rows, inner, columns) = (50, 70, 40);
    let left: Vec<f32> = (0..rows * inner).map(|i| (i % 7) as f32).collect();
    let right: Vec<f32> = (0..inner * columns).map(|i| (i % 5) as f32).collect();
    let a = context.buffer(&left)?.shaped([rows, inner])?;
    let b = context.buffer(&right)?.shaped([inner, columns])?;
    let mut c = context.allocate_nd([rows, columns])?;
    let blocks = [rows.div_ceil(TILE), columns.div_ceil(TILE)];
    let division = WorkDivision::new(blocks, [TILE, TILE], [1, 1]);
    queue.launch(division, matrix_product(&a, &b, &mut c))?;

    let product = queue.read_nd(&c)?.wait()?;
    for row in 0..rows {
        for column in 0..columns {
            let expected: f32 = (0..inner)
                .map(|k| left[row * inner + k] * right[k * columns + column])
                .sum();
            assert_eq!(product[row * columns + column], expected);
        }
    }
    println!("{} elements are right", product.len());
    Ok(())
}
