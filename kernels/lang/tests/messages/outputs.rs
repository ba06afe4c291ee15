//! What is not a thread's own cannot be named.

use quipu_kernel::{Accelerator, OwnBlockTile, OwnElements, OwnRows, kernel};

#[kernel(crate = quipu_kernel)]
pub fn shift(acc: &impl Accelerator<1>, x: &[f32], y: OwnElements<f32>) {
    for i in acc.elements(x.len() - 1) {
        y[i + 1] = x[i]; //~ cannot index into a value of type `OwnElements<'_, f32>`
    }
}

#[kernel(crate = quipu_kernel)]
pub fn tile(_acc: &impl Accelerator<2>, mut y: OwnBlockTile<f32, 2>) {
    y[[0, 0]] = 1.0; //~ cannot index into a value of type `OwnBlockTile<'_, f32, 2>`
}

#[kernel(crate = quipu_kernel)]
pub fn rows(_acc: &impl Accelerator<1>, mut y: OwnRows<f32>) {
    y[0][0] = 1.0; //~ cannot index into a value of type `OwnRows<'_, f32>`
}

fn main() {}
