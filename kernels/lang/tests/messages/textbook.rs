//! Mistakes that algorithms of textbooks are first written with.

use quipu_kernel::{Accelerator, Atomics, KernelData, OwnElements, OwnRows, device, kernel};

#[kernel(crate = quipu_kernel)]
pub fn messages(_acc: &impl Accelerator<1>, x: &[u8], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let chunks = x.chunks_exact(4);
        let bytes: Result<[u8; 4], _> = x.try_into(); //~ write `.try_into().unwrap()`
        let rest = chunks.remainder(); //~ write the range of the rest
        let first = x.windows(3).next(); //~ write a `for` loop, and `break`
        let small: Result<u8, _> = i.try_into(); //~ compare with `MAX`, and write `as`
        *y = rest.len() as u32;
    }
}

#[kernel(crate = quipu_kernel)]
pub fn search(acc: &impl Accelerator<1>, to: &[u32], distances: Atomics<u32>) {
    for i in acc.elements(to.len()) {
        if distances.compare_exchange(to[i] as usize, 0, 1).is_ok() {} //~ if this is the expected one: write `==`
        if distances.compare_exchange(to[i] as usize, 0, 1).is_err() {} //~ if this is the expected one: write `==`
    }
}

#[kernel(crate = quipu_kernel)]
pub fn paths(_acc: &impl Accelerator<1>, mut best: OwnElements<u32>, mut paths: OwnRows<u32>) {
    for ((_, path), best) in paths.each().zip(best.iter_mut()) { //~ and the other output as a `RawMut`
        *best = path[0];
    }
    for (first, best) in paths.each().map(|(_, row)| row[0]).zip(best.iter_mut()) { //~ and the other output as a `RawMut`
        *best = first;
    }
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
pub struct Numbers {
    state: u32,
}

#[device(crate = quipu_kernel)]
impl Iterator for Numbers {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.state += 1;
        Some(self.state)
    }
}

#[kernel(crate = quipu_kernel)]
pub fn numbers(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let mut own = Numbers { state: x[i] };
        *y = own.take(3).map(|n| n & 1).sum(); //~ write `for x in it`
        let _ = own.skip(1); //~ of an iterator of your own kernels know `for` and `next`
        let _ = own.step_by(2); //~ of an iterator of your own kernels know `for` and `next`
        let _ = own.zip(own); //~ of an iterator of your own kernels know `for` and `next`
        let _ = own.enumerate(); //~ of an iterator of your own kernels know `for` and `next`
        let _: u32 = own.sum(); //~ of an iterator of your own kernels know `for` and `next`
        let _: u32 = own.product(); //~ of an iterator of your own kernels know `for` and `next`
        let _ = own.count(); //~ of an iterator of your own kernels know `for` and `next`
        let _ = own.last(); //~ of an iterator of your own kernels know `for` and `next`
        let _ = own.nth(2); //~ of an iterator of your own kernels know `for` and `next`
        let _ = own.by_ref(); //~ of an iterator of your own kernels know `for` and `next`
        let _: Vec<u32> = own.collect(); //~ of an iterator of your own kernels know `for` and `next`
    }
}

fn main() {}
