//! A thread's own elements where they are counted, or stand beside elements of another share: which
//! number each has there depends on the device, so the words name the way to have it.

use quipu_kernel::{Accelerator, BlockAccelerator, OwnElements, OwnRows, kernel};

#[kernel(crate = quipu_kernel)]
pub fn counted(acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>, mut z: OwnElements<u32>) {
    for (i, y) in y.iter_mut().enumerate() { //~ write `for (i, y) in y.each()`
        *y = x[i];
    }
    for (i, (y, z)) in y.iter_mut().zip(z.iter_mut()).enumerate() { //~ write `for (i, y) in y.each()`
        *y = x[i] + *z;
    }
    for (i, y) in y.iter_mut().map(|y| *y).enumerate() { //~ write `for (i, y) in y.each()`
        let _ = x[i] + y;
    }
    for y in y.iter_mut().skip(1) { //~ write `for (i, y) in y.each()`
        *y = 1;
    }
    for (_, y) in y.each().take(2) { //~ write `for (i, y) in y.each()`
        *y = 1;
    }
    for (_, y) in y.each().step_by(2) { //~ write `for (i, y) in y.each()`
        *y = 1;
    }
    let sum = acc.elements(x.len()).skip(1).sum::<usize>(); //~ write `for (i, y) in y.each()`
    let first = acc.elements(x.len()).position(|i| x[i] == 3); //~ write `for (i, y) in y.each()`
    let small = y.each().map(|(_, y)| *y).position(|y| y < 3); //~ write `for (i, y) in y.each()`
}

#[kernel(crate = quipu_kernel)]
pub async fn groups(acc: &impl BlockAccelerator<1>, x: &[u32]) {
    for i in acc.groups(x.len()).skip(1) { //~ write `for (i, y) in y.each()`
        acc.sync_block_threads().await;
    }
    for (i, x) in acc.groups(x.len()).zip(x) {} //~ and `x[i]` within the loop
    for (x, i) in x.iter().zip(acc.uniform_elements(x.len())) {} //~ and `x[i]` within the loop
}

#[kernel(crate = quipu_kernel)]
pub fn beside(acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>, mut z: OwnElements<u32>) {
    for (x, y) in x.iter().zip(y.iter_mut()) { //~ and `x[i]` within the loop
        *y = *x;
    }
    for (y, x) in y.iter_mut().zip(x) { //~ and `x[i]` within the loop
        *y = *x;
    }
    for ((_, y), x) in y.each().zip(x.iter()) { //~ and `x[i]` within the loop
        *y = *x;
    }
    for (i, y) in (0..).zip(y.iter_mut()) { //~ and `x[i]` within the loop
        *y = i;
    }
    for (y, i) in y.iter_mut().zip(0..) { //~ and `x[i]` within the loop
        *y = i;
    }
    for (i, x) in acc.elements(x.len()).zip(x) {} //~ and `x[i]` within the loop
    for (x, (_, y)) in x.iter().map(|x| x + 1).zip(y.each()) { //~ and `x[i]` within the loop
        *y = x;
    }
    for (y, (_, z)) in y.each().map(|(_, y)| *y).zip(z.each()) { //~ and `x[i]` within the loop
        *z = y;
    }
    for ((_, y), z) in y.each().zip(z.each().map(|(_, z)| *z)) { //~ and `x[i]` within the loop
        *y = z;
    }
    for ((_, (_, y)), (_, z)) in y.each().enumerate().zip(z.each()) { //~ and `x[i]` within the loop
        *y = *z;
    }
}

#[kernel(crate = quipu_kernel)]
pub fn rows(_acc: &impl Accelerator<1>, x: &[u32], mut rows: OwnRows<u32>) {
    for (k, first) in rows.each().map(|(_, row)| row[0]).enumerate() { //~ this counts the elements of this thread
        let _ = x[k] + first;
    }
}

fn main() {}
