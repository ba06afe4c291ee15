//! Calls of functions that kernels cannot call.

use std::cmp::max;

use quipu_kernel::{Accelerator, OwnElements, device, kernel};

fn plain(x: f32) -> f32 {
    x
}

mod helpers {
    pub fn sum(a: f32, b: f32) -> f32 {
        a + b
    }
}

#[kernel(crate = quipu_kernel)]
pub fn calls(_acc: &impl Accelerator<1>, mut y: OwnElements<f32>) {
    for (_, y) in y.each() {
        *y = plain(*y); //~ kernels on other devices do not know this function
        let other = helpers::sum(*y, 1.0); //~ kernels on other devices do not know this function
        *y = std::convert::identity(other); //~ kernels on other devices do not know this function
        *y += max(other as u32, 3) as f32;
    }
}

#[device(crate = quipu_kernel)]
pub fn in_a_function(x: f32) -> f32 {
    helpers::sum(plain(x), 1.0) //~ kernels on other devices do not know this function
}

fn main() {}
