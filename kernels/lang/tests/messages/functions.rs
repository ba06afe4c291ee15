//! What is called.

use quipu_kernel::{Accelerator, OwnElements, kernel};

fn plain(x: f32) -> f32 {
    x
}

#[kernel(crate = quipu_kernel)]
pub fn calls(_acc: &impl Accelerator<1>, mut y: OwnElements<f32>) {
    for (_, y) in y.each() {
        *y = plain(*y); //~ `plain`
    }
}

#[kernel(crate = quipu_kernel)]
pub fn loops(_acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<f32>) {
    for (_, y) in y.each() {
        for pair in x.windows(2) { //~ this iterator is not in the kernel language
            *y += 1.0;
        }
    }
}

fn main() {}
