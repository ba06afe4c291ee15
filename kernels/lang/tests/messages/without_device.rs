//! Methods without `#[device]`.

use quipu_kernel::{Accelerator, Atomics, KernelData, OwnElements, device, kernel};

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
pub struct Point {
    x: f32,
}

impl Point {
    fn squared(self) -> f32 {
        self.x * self.x
    }

    fn scaled(&self, by: f32) -> Self {
        Self { x: self.x * by }
    }

    fn grow(&mut self, by: f32, times: u32) {
        self.x += by * times as f32;
    }
}

trait Shape {
    fn size(&self) -> f32;
}

impl Shape for Point {
    fn size(&self) -> f32 {
        self.x
    }
}

impl Shape for f32 {
    fn size(&self) -> f32 {
        *self
    }
}

#[device(crate = quipu_kernel)]
trait Known {
    fn known(&self, by: f32) -> f32;
}

#[device(crate = quipu_kernel)]
impl Known for Point {
    fn known(&self, by: f32) -> f32 {
        self.scaled(by).x //~ kernels on other devices do not know this method of `Point`
    }
}

#[device(crate = quipu_kernel)]
impl Point {
    fn doubled(self) -> Self {
        Self { x: self.x + self.x }
    }
}

#[kernel(crate = quipu_kernel)]
pub fn calls(_acc: &impl Accelerator<1>, point: Point, mut y: OwnElements<f32>) {
    for (_, y) in y.each() {
        *y = point.squared(); //~ kernels on other devices do not know this method of `Point`
        *y += point.scaled(2.0).x; //~ kernels on other devices do not know this method of `Point`
        *y += point.size(); //~ kernels on other devices do not know this method of `Point`
        *y += y.size(); //~ kernels on other devices do not know this method of `f32`
        let mut other = point.doubled().doubled();
        other.grow(*y, 3); //~ kernels on other devices do not know this method of `Point`
        *y += other.known(2.0) + (*y as u8).is_ascii_control() as u32 as f32; //~ kernels on other devices do not know this method of `u8`
    }
}

#[kernel(crate = quipu_kernel)]
pub fn of_handles(_acc: &impl Accelerator<1>, counts: Atomics<u32>) {
    counts.nand(0, 1); //~ kernels do not know this method
}

fn main() {}
