//! Types and functions that kernels do not know.

use quipu_kernel::{Accelerator, KernelData, OwnElements, device, f16, kernel};
use std::ops::Add;

#[derive(Clone, Copy)]
pub struct Unknown(u32);

#[kernel(crate = quipu_kernel)] //~ `Unknown` is no type of
pub fn unknown(_acc: &impl Accelerator<1>, value: Unknown, mut y: OwnElements<u32>) { //~ `Unknown` is no type of
    for (_, y) in y.each() {
        *y = value.0;
    }
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
pub struct Point {
    x: f32,
}

impl Add for Point {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { x: self.x + other.x }
    }
}

#[device(crate = quipu_kernel)]
fn twice<T: Add<Output = T> + Copy>(x: T) -> T {
    x + x
}

#[kernel(crate = quipu_kernel)]
pub fn operator(_acc: &impl Accelerator<1>, point: Point, mut y: OwnElements<f32>) {
    for (_, y) in y.each() {
        *y = twice(point).x; //~ kernels on other devices do not know this operator of `Point`
    }
}

#[kernel(crate = quipu_kernel)]
pub fn wrong(_acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        *y = x[i] + 1u32; //~ cannot add `u32` to `f32`
    }
}

#[kernel(crate = quipu_kernel)]
pub fn rounded_twice(_acc: &impl Accelerator<1>, x: f64, mut y: OwnElements<f16>) {
    for (_, y) in y.each() {
        *y = f16::from_f64(x); //~ `from_f64` of a float of 16 bits is not in the kernel language
    }
}

fn main() {}
