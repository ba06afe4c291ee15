//! Types of parameters that newcomers write: one error for each, at the type, and none where the
//! kernel is called.

use quipu_kernel::{Accelerator, BlockAccelerator, GlobalMut, GlobalRef, KernelData, OwnElements, SharedWrite, device, kernel};
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
pub struct Blur {
    weight: f32,
}

#[kernel(crate = quipu_kernel)]
pub fn blurred(_acc: &impl Accelerator<1>, blur: &Blur, x: &[f32], mut y: OwnElements<f32>) { //~ write `blur: Blur`, and pass the value itself
    for (i, y) in y.each() {
        *y = x[i] * blur.weight;
    }
}

#[kernel(crate = quipu_kernel)]
pub fn number(_acc: &impl Accelerator<1>, a: &f32, mut y: OwnElements<f32>) { //~ write `a: f32`, and pass the value itself
    for (_, y) in y.each() {
        *y *= *a;
    }
}

#[kernel(crate = quipu_kernel)]
pub fn weights(_acc: &impl Accelerator<1>, weights: &[f32; 3], mut y: OwnElements<f32>) { //~ write `weights: [f32; 3]`
    for (_, y) in y.each() {
        *y *= weights[0];
    }
}

#[kernel(crate = quipu_kernel)]
pub fn total(_acc: &impl Accelerator<1>, x: &[f32], out: &mut f32) { //~ a kernel cannot change a value of its caller
    *out = x[0];
}

#[kernel(crate = quipu_kernel)]
pub fn grown(_acc: &impl Accelerator<1>, blur: &mut Blur) { //~ a kernel cannot change a value of its caller
    blur.weight += 1.0;
}

#[kernel(crate = quipu_kernel)]
pub fn written(acc: &impl Accelerator<1>, y: &mut [f32]) { //~ write `OwnElements<T>` for its own elements
    y[acc.index(quipu_kernel::Grid, quipu_kernel::Threads)[0]] = 1.0;
}

#[kernel(crate = quipu_kernel)]
pub fn vector(_acc: &impl Accelerator<1>, x: Vec<f32>, mut y: OwnElements<f32>) { //~ write `&[T]`
    for (i, y) in y.each() {
        *y = x[i];
    }
}

#[kernel(crate = quipu_kernel)]
pub fn vector_to_write(_acc: &impl Accelerator<1>, x: &[f32], y: &mut Vec<f32>) { //~ write
    y[0] = x[0];
}

#[kernel(crate = quipu_kernel)]
pub fn unsized_slice(_acc: &impl Accelerator<1>, x: [f32], mut y: OwnElements<f32>) { //~ write `x: &[f32]`
    for (i, y) in y.each() {
        *y = x[i];
    }
}

#[kernel(crate = quipu_kernel)]
pub fn borrowed(_acc: &impl Accelerator<1>, y: &mut OwnElements<f32>) { //~ write `mut y: OwnElements<f32>`
    for (_, y) in y.each() {
        *y = 1.0;
    }
}

#[kernel(crate = quipu_kernel)]
pub fn text(_acc: &impl Accelerator<1>, name: String, mut y: OwnElements<f32>) { //~ there are no strings and characters in kernels
    for (_, y) in y.each() {
        *y = name.len() as f32;
    }
}

#[kernel(crate = quipu_kernel)]
pub fn borrowed_text(_acc: &impl Accelerator<1>, name: &str, mut y: OwnElements<f32>) { //~ there are no strings and characters in kernels
    for (_, y) in y.each() {
        *y = name.len() as f32;
    }
}

#[kernel(crate = quipu_kernel)]
pub fn optional(_acc: &impl Accelerator<1>, n: Option<u32>, mut y: OwnElements<u32>) { //~ a `u32` that says whether it is there
    for (_, y) in y.each() {
        *y = n.unwrap_or(3);
    }
}

#[kernel(crate = quipu_kernel)]
pub fn boxed(_acc: &impl Accelerator<1>, x: Arc<Vec<f32>>, mut y: OwnElements<f32>) { //~ memory is not allocated in kernels
    for (i, y) in y.each() {
        *y = x[i];
    }
}

#[kernel(crate = quipu_kernel)]
pub fn map(_acc: &impl Accelerator<1>, x: HashMap<u32, u32>, mut y: OwnElements<u32>) { //~ memory is not allocated in kernels
    for (_, y) in y.each() {
        *y = x[y];
    }
}

#[kernel(crate = quipu_kernel)]
pub fn rows(_acc: &impl Accelerator<1>, x: &[&[f32]], mut y: OwnElements<f32>) { //~ put all elements into one buffer
    for (i, y) in y.each() {
        *y = x[i][0];
    }
}

#[kernel(crate = quipu_kernel)]
pub fn vectors(_acc: &impl Accelerator<1>, mut y: OwnElements<Vec<f32>>) { //~ put all elements into one buffer
    for (_, y) in y.each() {
        y[0] = 1.0;
    }
}

#[kernel(crate = quipu_kernel)]
pub fn indices(_acc: &impl Accelerator<1>, at: &[usize], mut y: OwnElements<u32>) { //~ write `u32` or `u64`
    for (i, y) in y.each() {
        *y = at[i] as u32;
    }
}

#[kernel(crate = quipu_kernel)]
pub fn wide(_acc: &impl Accelerator<1>, n: u128, mut y: OwnElements<u32>) { //~ numbers in kernels have up to 64 bits
    for (_, y) in y.each() {
        *y = n as u32;
    }
}

#[kernel(crate = quipu_kernel)]
pub fn elements(_acc: &impl Accelerator<1>, mut y: OwnElements) { //~ say of which type its elements are: `y: OwnElements<f32>`
    for (_, y) in y.each() {
        *y = 1.0;
    }
}

#[kernel(crate = quipu_kernel)]
pub fn whole(_acc: &impl Accelerator<1>, y: GlobalMut<f32>) {} //~ write `OwnElements<T>` for its own elements

#[kernel(crate = quipu_kernel)]
pub fn second(x: &[f32], mut y: OwnElements<f32>) { //~ a kernel's first parameter is the accelerator
    for (i, y) in y.each() {
        *y = x[i];
    }
}

#[kernel(crate = quipu_kernel)]
pub fn plane(_acc: &impl Accelerator<2>, image: GlobalRef<f32, 2>, mut y: OwnElements<f32, 2>) {
    for (_, y) in y.each() {
        *y = image[1][2]; //~ `view[[row, column]]`
        *y += image[(1, 2)]; //~ `view[[row, column]]`
    }
}

#[kernel(crate = quipu_kernel)]
pub async fn waits(acc: &impl BlockAccelerator<1>, mut y: OwnElements<u32>, #[shared(4)] mut s: SharedWrite<u32>) {
    s.own()[0] = 1;
    let s = acc.sync(s); //~ write `.await` behind it
    for (_, y) in y.each() {
        *y = s[0];
    }
}

#[device(crate = quipu_kernel)]
fn product((x, y): (f32, f32)) -> f32 {
    x * y
}

#[kernel(crate = quipu_kernel)]
pub fn calls(_acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<f32>) {
    for (_, y) in y.each() {
        *y = product((x[0], *y));
    }
}

fn main() {
    let (x, mut y) = (vec![1.0_f32; 3], vec![0.0_f32; 3]);
    let _ = blurred(Blur { weight: 1.0 }, &x, &mut y);
    let _ = total(&x, &mut y);
    let _ = written(&mut y);
    let _ = second(&x, &mut y);
    let _ = calls(&x, &mut y);
}
