//! Elements that are not a thread's own, which kernels cannot name.

use quipu_kernel::{Accelerator, OwnBlockTile, OwnElements, OwnRows, kernel};

#[kernel(crate = quipu_kernel)]
pub fn shift(acc: &impl Accelerator<1>, x: &[f32], y: OwnElements<f32>) {
    for i in acc.elements(x.len() - 1) {
        y[i + 1] = x[i]; //~ for (i, y) in y.each()
    }
}

#[kernel(crate = quipu_kernel)]
pub fn tile(_acc: &impl Accelerator<2>, mut y: OwnBlockTile<f32, 2>) {
    y[[0, 0]] = 1.0; //~ for (position, y) in y.each()
}

#[kernel(crate = quipu_kernel)]
pub fn rows(_acc: &impl Accelerator<1>, mut y: OwnRows<f32>) {
    y[0][0] = 1.0; //~ for (i, row) in y.each()
}

fn main() {}
