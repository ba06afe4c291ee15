//! References that depend on conditions in a kernel; conversions and texts of the user's own types.

use quipu_kernel::{Accelerator, KernelData, OwnElements, kernel};
use std::fmt;

#[kernel(crate = quipu_kernel)]
pub fn chosen(_acc: &impl Accelerator<1>, n: u32, x: &[f32], mut y: OwnElements<f32>) {
    let (mut a, mut b) = ([1.0_f32, 2.0], [3.0_f32, 4.0]);
    for (_, y) in y.each() {
        let one = if n > 3 {
            &mut a //~ a reference in a kernel cannot depend on a condition
        } else {
            &mut b //~ a reference in a kernel cannot depend on a condition
        };
        one[0] += 1.0;
        *y = one[0];
    }
    for (i, y) in y.each() {
        let one = match n {
            0 => &x[i], //~ a reference in a kernel cannot depend on a condition
            _ => &x[0], //~ a reference in a kernel cannot depend on a condition
        };
        *y = *one;
    }
}

#[kernel(crate = quipu_kernel)]
pub fn replaced(_acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        let mut one = &x[0];
        *y = *one;
        one = &x[i]; //~ a variable in a kernel cannot be made to refer to something else
        *y += *one;
    }
}

/// Slices can, and what is known when the source is made needs no choice.
#[kernel(crate = quipu_kernel)]
pub fn slices<const LONG: bool>(_acc: &impl Accelerator<1>, n: usize, x: &[f32], mut y: OwnElements<f32>) {
    let (a, b) = ([1.0_f32, 2.0], [3.0_f32, 4.0]);
    let known = if LONG { &a } else { &b };
    for (i, y) in y.each() {
        let mut part = if i > n { &x[..n] } else { &x[n..] };
        *y = part[0] + known[1];
        part = &x[1..];
        *y += part[0];
    }
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
pub struct Metres {
    metres: f32,
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(u32)]
pub enum Mode {
    First = 3,
    Second,
}

impl fmt::Display for Metres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} m", self.metres)
    }
}

impl From<Metres> for f32 {
    fn from(metres: Metres) -> Self {
        metres.metres
    }
}

impl From<Mode> for u32 {
    fn from(mode: Mode) -> Self {
        mode as u32 * 10
    }
}

#[kernel(crate = quipu_kernel)]
pub fn own(_acc: &impl Accelerator<1>, way: Metres, mode: Mode, mut y: OwnElements<f32>) {
    for (_, y) in y.each() {
        println!("{way} and {}", *y); //~ kernels print numbers and `bool`s, and not `Metres`
        assert!(*y > 3.0, "it is {}", way); //~ kernels print numbers and `bool`s, and not `Metres`
        *y = way.into(); //~ do not know how `f32` is made of `Metres`
        let number: u32 = mode.into(); //~ do not know how `u32` is made of `Mode`
        *y += number as f32;
    }
}

fn main() {}
