//! Methods that types have natively, and the language has not.

use quipu_kernel::{Accelerator, GlobalRef, OwnElements, kernel};

#[kernel(crate = quipu_kernel)]
pub fn ends(_acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        let _ = x.get(i); //~ `get` gives an `Option`
        let _ = x.first(); //~ this gives an `Option`
        let sum: f32 = x.iter().sum(); //~ this iterator is not in the kernel language
        *y = sum;
    }
}

#[kernel(crate = quipu_kernel)]
pub fn position(_acc: &impl Accelerator<1>, x: GlobalRef<f32, 2>, mut y: OwnElements<f32>) {
    for (i, _) in y.each() {
        let _ = x.at([i, i]); //~ this gives an `Option`
    }
}

#[kernel(crate = quipu_kernel)]
pub fn option(_acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        *y = *x.get(i).unwrap(); //~ keep a `bool` beside the value
    }
}

fn main() {}
