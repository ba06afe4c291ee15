//! Methods that types have natively, and the language has not, where kernels use them.
//! (`every_method.rs` has all.)

use quipu_kernel::{Accelerator, GlobalRef, OwnElements, RawMut, kernel};

#[kernel(crate = quipu_kernel)]
pub fn ends(_acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        let _ = x.get(i..); //~ compare the ends with `len()`
        let sum: f32 = x.iter().cycle().sum(); //~ this iterator is not in the kernel language
        *y = sum;
    }
}

#[kernel(crate = quipu_kernel)]
pub fn position(_acc: &impl Accelerator<1>, x: GlobalRef<f32, 2>, mut y: OwnElements<f32>) {
    for (i, _) in y.each() {
        let _ = x.at([i, i]); //~ this gives an `Option`
    }
}

#[kernel(crate = quipu_kernel)]
pub fn mutable(_acc: &impl Accelerator<1>, y: RawMut<f32>) {
    let _ = unsafe { y.get_mut(3) }; //~ `get_mut` gives an `Option`
}

#[kernel(crate = quipu_kernel)]
pub fn slices(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    let mut own = [1, 2, 3, 4];
    let halves = x.split_at(2); //~ write `let (first, second)
    for chunk in own.chunks_exact_mut(2) { //~ this iterator is not in the kernel language
        chunk[0] = 1;
    }
    let has = x.starts_with(&[3]); //~ this is not in the kernel language
    own[..].sort_unstable(); //~ this is not in the kernel language
    own[..].rotate_left(1); //~ this is not in the kernel language of slices
    let all = x.to_vec(); //~ memory is not allocated in kernels
    for (_, y) in y.each() {
        for x in x.iter().chain(x) { //~ this iterator is not in the kernel language
            *y += *x;
        }
        if has {
            *y += halves.0[0] + all[0];
        }
    }
}

fn main() {}
