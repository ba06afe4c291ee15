//! Structs without the derive as elements of memory, and other elements that kernels do not have:
//! one error for each mistake.

use quipu_kernel::{
    Accelerator, BlockAccelerator, GlobalRef, OwnBlock, OwnElements, OwnRows,
    RawMut, SharedWrite, device, kernel,
};

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Point {
    x: f32,
    y: f32,
}

#[kernel(crate = quipu_kernel)]
pub async fn shared(acc: &impl BlockAccelerator<1>, x: &[f32], mut y: OwnElements<f32>, #[shared(4)] mut s: SharedWrite<Point>) { //~ `Point`
    s.own()[0] = Point { x: x[0], y: 2.0 };
    let s = acc.sync(s).await;
    for (i, y) in y.each() {
        *y = s[0].x;
    }
}

#[kernel(crate = quipu_kernel)]
pub fn slice(_acc: &impl Accelerator<1>, x: &[Point], mut y: OwnElements<f32>) { //~ `Point`
    for (i, y) in y.each() {
        *y = x[i].x;
    }
}

#[kernel(crate = quipu_kernel)]
pub fn own(_acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<Point>) { //~ `Point`
    for (i, y) in y.each() {
        y.x = x[i];
    }
}

#[kernel(crate = quipu_kernel)]
pub fn raw(acc: &impl Accelerator<1>, x: &[f32], y: RawMut<Point>) { //~ `Point`
    for i in acc.elements(x.len()) {
        unsafe { y.write(i, Point { x: x[i], y: 0.0 }) };
    }
}

#[kernel(crate = quipu_kernel)]
pub fn view(_acc: &impl Accelerator<2>, x: GlobalRef<Point, 2>, mut y: OwnElements<f32, 2>) { //~ `Point`
    for (i, y) in y.each() {
        *y = x[[0, i]].x;
    }
}

#[kernel(crate = quipu_kernel)]
pub fn rows(_acc: &impl Accelerator<1>, mut y: OwnRows<Point>) { //~ `Point`
    for (_, row) in y.each() {
        for y in row {
            y.x = 1.0;
        }
    }
}

#[kernel(crate = quipu_kernel)]
pub async fn block(acc: &impl BlockAccelerator<1>, y: OwnBlock<Point>) { //~ `Point`
    acc.sync_block_threads().await;
    for y in y {
        y.x = 1.0;
    }
}

#[kernel(crate = quipu_kernel)]
pub fn made(_acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        let point = Point { x: x[i], y: 3.0 }; //~ `Point`
        *y = point.x + point.y;
    }
}

#[device(crate = quipu_kernel)]
fn length(point: Point) -> f32 {
    point.x.hypot(point.y)
}

#[kernel(crate = quipu_kernel)]
pub fn apart(acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<u32>) {
    for [i, j] in acc.elements(x.len()) { //~ `[i, j]` takes apart arrays, indices and extents, and `usize` is none of these
        let at = i + j;
    }
    for (_, y) in y.each() {
        *y = 1;
    }
}

fn main() {}
