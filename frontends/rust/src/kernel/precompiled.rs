//! Kernels that are never launched.
//!
//! Where nothing is optimised, a crate shares generic code with the crates on which it stands, if
//! they compiled it for the same types. So the code that most kernels and launches have in common
//! is compiled here, once, and not with the first kernel of each crate (`scripts/compile-time`).

use crate::prelude::*;
use crate::{Buffer, Queue, Result, View, WorkDivision};

/// Has it compiled, if this is.
pub(crate) fn all() -> usize {
    single::launches as *const () as usize
        ^ double::launches as *const () as usize
        ^ signed::launches as *const () as usize
        ^ unsigned::launches as *const () as usize
}

macro_rules! precompiled {
    ($($name:ident($type:ident) { $value:ident => $more:expr })*) => {$(
        mod $name {
            use super::*;

            #[kernel(crate = crate)]
            fn flat(_acc: &impl Accelerator<1>, a: $type, n: u32, x: &[$type], mut y: OwnElements<$type>) {
                for (i, y) in y.each() {
                    let value = x[i];
                    let mut all = if value == a || i == 0 { value } else { a };
                    for k in 0..n {
                        let other = x[(i + k as usize) % x.len()];
                        if other > value && other != a {
                            all += other * a;
                        } else if other <= value {
                            all -= other / a;
                        } else {
                            continue;
                        }
                        let is_less = all < a;
                        if !is_less {
                            break;
                        }
                    }
                    let mut step = 0;
                    while all >= value && step < n {
                        all *= a;
                        step += 1;
                    }
                    let $value = all.min(a).max(value) % a;
                    *y = $value + $more - (i - 1) as $type;
                }
            }

            #[kernel(crate = crate)]
            fn shaped(acc: &impl Accelerator<2>, x: GlobalRef<$type, 2>, mut y: OwnElements<$type, 2>) {
                let (rows, columns) = (x.extent()[0], x.extent()[1]);
                let row = acc.index(Grid, Threads)[0];
                for (place, part) in y.rows() {
                    for (k, y) in part.iter_mut().enumerate() {
                        let (i, j) = (place[0], place[1] + k);
                        if i > 0 && i + 1 < rows && j < columns && row > 0 {
                            *y = x[[i.saturating_sub(1), j]] + x[[i.min(rows - 1), j]];
                        } else {
                            *y += x[[i, j]];
                        }
                    }
                }
            }

            #[kernel(crate = crate)]
            async fn waiting(
                acc: &impl BlockAccelerator<1>,
                x: &[$type],
                mut y: OwnElements<$type>,
                #[shared(256)] mut all: SharedWrite<$type>,
            ) {
                let (i, thread) = (acc.index(Grid, Threads)[0], acc.index(Block, Threads)[0]);
                all.own()[0] = if i < x.len() { x[i] } else { x[0] };
                let mut half = acc.extent(Block, Threads)[0] / 2;
                while half > 0 {
                    let read = acc.sync(all).await;
                    let other = read[thread + half];
                    all = acc.sync(read).await;
                    all.own()[0] += other;
                    half /= 2;
                }
                for (_, y) in y.each() {
                    *y = all.own()[0];
                }
            }

            #[kernel(crate = crate)]
            async fn tiled(
                acc: &impl BlockAccelerator<2>,
                x: GlobalRef<$type, 2>,
                mut y: OwnElements<$type, 2>,
                #[shared(256)] mut tile: SharedWrite<$type>,
                #[shared(256)] mut other: SharedWrite<$type>,
            ) {
                let (row, column) = (acc.index(Grid, Threads)[0], acc.index(Grid, Threads)[1]);
                let (i, j) = (acc.index(Block, Threads)[0], acc.index(Block, Threads)[1]);
                let mut sum = x[[0, 0]];
                for k in 0..row.div_ceil(16) {
                    tile.own()[0] = x[[row, column + k * 16]];
                    other.own()[0] = x[[column, row]];
                    let (read, other_read) = acc.sync((tile, other)).await;
                    sum += read[i * 16 + k] * other_read[k * 16 + j];
                    (tile, other) = acc.sync((read, other_read)).await;
                }
                for (_, y) in y.each() {
                    *y = sum;
                }
            }

            pub(super) fn launches(
                queue: &Queue,
                a: $type,
                [x, y]: [&mut Buffer<$type>; 2],
                [from, to]: [&mut View<$type, 2>; 2],
            ) -> Result<()> {
                queue.launch(x.len(), flat(a, 1, &*x, &mut *y))?;
                queue.launch([1, 1], shaped(&*from, &mut *to))?;
                let division = WorkDivision::new(1, 1, 1);
                queue.launch(division, waiting(&*x, y))?;
                let division = WorkDivision::new([1, 1], [1, 1], [1, 1]);
                queue.launch(division, tiled(&*from, to))?;
                Ok(())
            }
        }
    )*};
}

precompiled! {
    single(f32) { value => value.abs().sqrt().mul_add(-value, value) }
    double(f64) { value => value.abs().sqrt().mul_add(-value, value) }
    signed(i32) { value => -(value ^ 1).wrapping_add(value) & (value >> 1) | (value << 2) }
    unsigned(u32) { value => (value ^ 1).wrapping_add(value) & (value >> 1) | (value << 2) }
}
