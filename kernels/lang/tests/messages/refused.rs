//! Code that the macro refuses: all of it at once, and none of the code around it.

use quipu_kernel::{Accelerator, OwnElements, kernel};

#[kernel(crate = quipu_kernel)]
pub fn refused(_acc: &impl Accelerator<1>, mut y: OwnElements<f32>) {
    let text = "text"; //~ there are no strings and characters in kernels
    for (_, y) in y.each() {
        if let 'a' = 'b' { //~ there are no strings and characters in kernels
            *y = 3.0;
        }
    }
}

fn main() {}
