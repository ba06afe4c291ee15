//! Calls with something else than a kernel takes, and structs without the derive: one error for
//! each mistake.

use quipu_kernel::{Accelerator, Atomics, OwnElements, WorkDivision, kernel};

#[derive(Clone, Copy)]
#[repr(C)]
pub struct Line {
    slope: f32,
    offset: f32,
}

#[kernel(crate = quipu_kernel)]
pub fn heights(_acc: &impl Accelerator<1>, line: Line, mut y: OwnElements<f32>) { //~ `Line` is no type of a kernel's data
    for (i, y) in y.each() {
        let height = line.slope * i as f32 + line.offset;
        *y = if line.slope > 0.0 { height } else { line.offset };
    }
}

#[kernel(crate = quipu_kernel)]
fn saxpy(_acc: &impl Accelerator<1>, a: f32, x: &[f32], mut y: OwnElements<f32>, counts: Atomics<u32>) {
    for (i, y) in y.each() {
        *y += a * x[i];
        counts.add(0, 1);
    }
}

pub fn calls(division: WorkDivision<1>) {
    let (x, mut y, mut counts) = (vec![1.0; 8], vec![2.0; 8], vec![0; 1]);
    let _ = saxpy(2.0, &1.0, &mut y, &mut counts).run(division); //~ `&{float}` cannot be passed for this parameter of the kernel
    let _ = saxpy(2.0, &x, &y, &mut counts).run(division); //~ `&Vec<f32>` cannot be passed for this parameter of the kernel
    let _ = saxpy(2.0, &x, &mut y, 3).run(division); //~ `{integer}` cannot be passed for this parameter of the kernel
    let _ = saxpy(2, &x, &mut y, &mut counts).run(division); //~ mismatched types
}

fn main() {}
