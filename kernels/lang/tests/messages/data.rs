//! Types without a layout that other devices know, passed or kept in kernels.

use quipu_kernel::{
    Accelerator, BlockAccelerator, KernelData, OwnElements, SharedWrite, device, kernel, kernel_closure,
};

#[kernel(crate = quipu_kernel)]
pub fn value(_acc: &impl Accelerator<1>, pair: (u8, u16), mut y: OwnElements<u32>) { //~ write a parameter for each part
    for (_, y) in y.each() {
        *y = pair.1 as u32;
    }
}

#[kernel(crate = quipu_kernel)]
pub fn values(_acc: &impl Accelerator<1>, pairs: [(u8, u16); 2], mut y: OwnElements<u32>) { //~ how a tuple lies in memory is not known
    for (_, y) in y.each() {
        *y = pairs[1].1 as u32;
    }
}

#[kernel(crate = quipu_kernel)]
pub fn sizes(_acc: &impl Accelerator<1>, sizes: [usize; 2], mut y: OwnElements<u32>) { //~ write `u32` or `u64`
    for (_, y) in y.each() {
        *y = sizes[1] as u32;
    }
}

#[kernel(crate = quipu_kernel)]
pub fn elements(_acc: &impl Accelerator<1>, x: &[(u8, u16)], mut y: OwnElements<u32>) { //~ how a tuple lies in memory is not known
    for (i, y) in y.each() {
        *y = x[i].1 as u32;
    }
}

#[kernel(crate = quipu_kernel)]
pub async fn shared(acc: &impl BlockAccelerator<1>, mut y: OwnElements<u32>, #[shared(4)] mut s: SharedWrite<(u8, u16)>) { //~ how a tuple lies in memory is not known
    for s in s.own() {
        s.1 = 2;
    }
    let s = acc.sync(s).await;
    for (_, y) in y.each() {
        *y = s[0].1 as u32;
    }
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
pub struct Field {
    pair: (u8, u16),
}

#[kernel(crate = quipu_kernel)]
pub fn field(_acc: &impl Accelerator<1>, field: Field, mut y: OwnElements<u32>) { //~ `(u8, u16)` is no type of a kernel's data
    for (_, y) in y.each() {
        *y = field.pair.1 as u32;
    }
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
pub struct Size {
    size: usize,
}

#[kernel(crate = quipu_kernel)]
pub fn field_elements(_acc: &impl Accelerator<1>, x: &[Size], mut y: OwnElements<u32>) { //~ `usize` is no type of a kernel's data
    for (i, y) in y.each() {
        *y = x[i].size as u32;
    }
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
pub struct Pair<T> {
    both: [T; 2],
}

#[kernel(crate = quipu_kernel)]
pub fn generic(_acc: &impl Accelerator<1>, pair: Pair<(u8, u16)>, mut y: OwnElements<u32>) { //~ `(u8, u16)` is no type of a kernel's data
    for (_, y) in y.each() {
        *y = pair.both[0].1 as u32;
    }
}

#[device(crate = quipu_kernel)]
fn swapped<A, B>(pair: (A, B)) -> (B, A) {
    (pair.1, pair.0)
}

/// All of these are values within a kernel, and a `usize` can be passed alone.
#[kernel(crate = quipu_kernel)]
pub fn within(_acc: &impl Accelerator<1>, offset: usize, mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let (place, both) = swapped(([(offset, i); 2], i + offset));
        let pair = Pair { both: [place, place] };
        let size = Size { size: both[0].1 };
        let field = Field { pair: (1, 2) };
        *y = (size.size + pair.both[1]) as u32 + field.pair.1 as u32;
    }
}

fn main() {
    let pair = (1u8, 2u16);
    let _ = kernel_closure!( //~ `(u8, u16)` is no type of a kernel's data
        crate = quipu_kernel,
        [pair: (u8, u16)] |_acc: &impl Accelerator<1>, mut y: OwnElements<u32>| {
            for (_, y) in y.each() {
                *y = pair.1 as u32;
            }
        }
    );
}
