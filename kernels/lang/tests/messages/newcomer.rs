//! Mistakes of someone who knows std and CUDA: one error for each, that says what to write.

use quipu_kernel::{Accelerator, Atomics, BlockAccelerator, GlobalRef, KernelData, OwnElements, SharedWrite, kernel};
use std::sync::atomic::Ordering;

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
pub struct Settings<'a> {
    weights: &'a [f32], //~ pass the slice beside the struct
    scale: f32,
}

#[kernel(crate = quipu_kernel)]
pub fn weighed(_acc: &impl Accelerator<1>, settings: Settings<'_>, mut y: OwnElements<f32>) { //~ pass the slice beside the struct
    for (i, y) in y.each() {
        *y = settings.weights[i] * settings.scale;
    }
}

static mut COUNT: u32 = 0;

#[kernel(crate = quipu_kernel)]
pub fn counted(_acc: &impl Accelerator<1>, mut y: OwnElements<u32>) {
    for (_, y) in y.each() {
        unsafe { COUNT += 1 }; //~ write a `Variable`
        *y = unsafe { COUNT }; //~ write a `Variable`
    }
}

#[kernel(crate = quipu_kernel)]
pub fn atomics(acc: &impl Accelerator<1>, x: &[u32], c: Atomics<u32>) {
    for i in acc.elements(x.len()) {
        c.fetch_add(x[i] as usize, 1); //~ `counts.add(i, 1)`
        c.fetch_max(0, x[i]); //~ `counts.max(i, value)`
        c.swap(0, 1); //~ `counts.exchange(i, value)`
        c.store(1, Ordering::Relaxed); //~ `counts.store(i, value)`
        c.add(0, 1, Ordering::Relaxed); //~ `counts.add(i, 1)`
        c.load(); //~ `counts.load(i)`
        c.max(0, 1);
    }
}

#[kernel(crate = quipu_kernel)]
pub fn std_functions(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let small = u8::try_from(x[i]); //~ compare with `MAX`, and write `as`
        let boxed = Box::new(x[i]); //~ memory is not allocated in kernels
        let list: Vec<u32> = Vec::new(); //~ memory is not allocated in kernels
        let most = x.iter().copied().reduce(|a, b| a.max(b)); //~ write `fold` with a first value
        let sum = x.iter().try_fold(0u32, |a, b| a.checked_add(*b)); //~ write a `for` loop
        let first = x.iter().find_map(|x| if *x > 3 { Some(*x) } else { None }); //~ write a `for` loop
        let all: Vec<u32> = x.iter().map(|x| x + 1).collect(); //~ memory is not allocated in kernels
        *y = 1;
    }
}

#[kernel(crate = quipu_kernel)]
pub async fn local(acc: &impl BlockAccelerator<1>, mut y: OwnElements<u32>) {
    #[shared(64)] //~ is a parameter of the kernel
    let mut tile: SharedWrite<u32>;
    tile.own()[0] = 1;
    let tile = acc.sync(tile).await;
    for (_, y) in y.each() {
        *y = tile[0];
    }
}

#[kernel(crate = quipu_kernel)]
pub async fn plane(acc: &impl BlockAccelerator<2>, mut y: OwnElements<u32, 2>, #[shared([16, 16])] mut tile: SharedWrite<u32>) { //~ has one dimension
    tile.own()[0] = 1;
}

#[kernel(crate = quipu_kernel)]
pub async fn turned(acc: &impl BlockAccelerator<1>, mut y: OwnElements<u32>, #[shared(64)] mut tile: SharedWrite<u32>) {
    tile.own()[0] = 1;
    let mut tile = acc.sync(tile).await;
    tile.own()[0] = 2; //~ turn it at a barrier before
    for (_, y) in y.each() {
        *y = tile[0];
    }
}

#[kernel(crate = quipu_kernel)]
pub fn indices(_acc: &impl Accelerator<1>, n: u32, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        *y = x[n]; //~ cannot be indexed by `u32`
        *y += (i < n) as u32; //~ mismatched types
    }
}

fn main() {}
