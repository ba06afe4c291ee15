//! Types and functions that kernels do not know.

use quipu_kernel::{Accelerator, Atomics, KernelData, OwnElements, WorkDivision, device, f16, kernel};
use std::ops::{Add, Neg};

#[derive(Clone, Copy)]
pub struct Unknown(u32);

#[kernel(crate = quipu_kernel)]
pub fn unknown(_acc: &impl Accelerator<1>, value: Unknown, mut y: OwnElements<u32>) { //~ `Unknown` is no type of a kernel's data
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

impl Neg for Point {
    type Output = Self;
    fn neg(self) -> Self {
        Self { x: -self.x }
    }
}

impl IntoIterator for Point {
    type Item = f32;
    type IntoIter = std::iter::Once<f32>;
    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self.x)
    }
}

#[device(crate = quipu_kernel)]
fn negated<T: Neg<Output = T> + Copy>(x: T) -> T {
    -x
}

#[device(crate = quipu_kernel)]
fn twice<T: Add<Output = T> + Copy>(x: T) -> T {
    x + x
}

#[kernel(crate = quipu_kernel)]
pub fn operator(_acc: &impl Accelerator<1>, point: Point, mut y: OwnElements<f32>) {
    for (_, y) in y.each() {
        *y = twice(point).x; //~ kernels on other devices do not know this operator of `Point`
        *y += negated(point).x; //~ kernels on other devices do not know this operator of `Point`
        for x in point { //~ a `for` loop in a kernel does not go over `Point`
            *y += x;
        }
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

#[kernel(crate = quipu_kernel)] //~ take `Atomics` of `u32`, `i32`, `u64`, `i64`, `f32` or `f64`
pub fn counted(_acc: &impl Accelerator<1>, points: Atomics<Point>) { //~ devices change numbers of 32 and 64 bits in one step, and `Point` is none
    points.add(0, Point { x: 1.0 }); //~ its trait bounds were not satisfied
}

#[kernel(crate = quipu_kernel)]
pub fn counted_pairs(_acc: &impl Accelerator<1>, pairs: Atomics<[u32; 2]>) { //~ take `Atomics` of `u32`, `i32`, `u64`, `i64`, `f32` or `f64`
    pairs.add(0, [1, 2]);
}

#[kernel(crate = quipu_kernel)]
pub fn scale(_acc: &impl Accelerator<1>, factor: f32, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        *y = factor * x[i];
    }
}

fn main() {
    let (x, mut y) = (vec![1.0_f32; 3], vec![0.0_f32; 3]);
    let division = WorkDivision::new(1, 3, 1).unwrap();
    let _ = scale(2.0, &x, &mut y).run(division);
    let _ = scale(2.0, x, &mut y).run(division); //~ `Vec<f32>` cannot be passed for this parameter of the kernel
    let _ = scale(2.0, &[1.0_f32], &y).run(division); //~ `&Vec<f32>` cannot be passed for this parameter of the kernel
}
