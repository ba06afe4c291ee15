//! Conversions and indices of types whose `impl` has no `#[device]`, or one that devices cannot
//! have: one error for each mistake.

use std::ops::{Index, IndexMut};

use quipu_kernel::{Accelerator, KernelData, OwnElements, device, kernel};

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
pub struct Plain {
    parts: [f32; 2],
}

impl From<f32> for Plain {
    fn from(part: f32) -> Self {
        Self { parts: [part; 2] }
    }
}

impl Index<usize> for Plain {
    type Output = f32;

    fn index(&self, at: usize) -> &f32 {
        &self.parts[at]
    }
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
pub struct Pair {
    first: f32,
    second: f32,
}

#[device(crate = quipu_kernel)]
impl From<&Plain> for Pair { //~ write it above one for values
    fn from(plain: &Plain) -> Self {
        Self { first: plain.parts[0], second: plain.parts[1] }
    }
}

#[device(crate = quipu_kernel)]
impl From<f64> for Pair {
    fn from(part: f64) -> Self {
        let text = "text"; //~ use numbers
        Self { first: part as f32, second: 0.0 }
    }
}

#[device(crate = quipu_kernel)]
impl Index<u32> for Pair {
    type Output = f32;

    fn index(&self, at: u32) -> &f32 {
        match at {
            0 => &self.first,
            _ => &self.second,
        }
    }
}

impl IndexMut<u32> for Pair {
    fn index_mut(&mut self, at: u32) -> &mut f32 {
        match at {
            0 => &mut self.first,
            _ => &mut self.second,
        }
    }
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
pub struct Triple {
    parts: [f32; 3],
    rest: f32,
}

#[device(crate = quipu_kernel)]
impl Index<u32> for Triple {
    type Output = f32;

    fn index(&self, at: u32) -> &f32 {
        &self.parts[at as usize]
    }
}

#[device(crate = quipu_kernel)]
impl IndexMut<u32> for Triple {
    fn index_mut(&mut self, at: u32) -> &mut f32 {
        if at == 3 { &mut self.rest } else { &mut self.parts[at as usize] } //~ `&mut self.parts[i]`
    }
}

#[device(crate = quipu_kernel)]
impl TryFrom<u32> for Pair { //~ leave `#[device]` off this `impl`
    type Error = u32;

    fn try_from(part: u32) -> Result<Self, u32> {
        Err(part)
    }
}

#[device(crate = quipu_kernel)]
impl Into<f32> for Pair { //~ `impl From<A> for B` gives `into`, too
    fn into(self) -> f32 {
        self.first
    }
}

#[kernel(crate = quipu_kernel)]
pub fn converts(_acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        let plain = Plain::from(x[i]); //~ do not know how `Plain` is made of `f32`
        *y = plain[i % 2]; //~ do not know what an index of `Plain` gives
        let mut pair = Pair::from(3.0f64);
        pair[1] += 2.0; //~ do not know which element of `Pair` is changed
        let mut triple = Triple { parts: [0.0; 3], rest: pair[0] };
        triple[2] = x[i];
    }
}

fn main() {}
