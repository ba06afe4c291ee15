//! Native calls: a kernel that is launched by hand with OpenCL's own functions. Any library that
//! takes a `cl_command_queue` or a `CUstream` is called in this way.

use cl3::command_queue::enqueue_nd_range_kernel;
use cl3::event::release_event;
use cl3::kernel::{create_kernel, release_kernel, set_kernel_arg};
use cl3::program::{build_program, create_program_with_source, release_program};
use cl3::types::cl_mem;
use quipu::driver::{OpenClMemory, OpenClQueue};
use quipu::prelude::*;
use std::ptr::{from_ref, null, null_mut};

#[kernel]
fn add_one(_acc: &impl Accelerator<1>, mut x: OwnElements<f32>) {
    for (_, x) in x.each() {
        *x += 1.0;
    }
}

const SQUARE: &str = "kernel void square(global const float *x, global float *y, ulong first) {
    size_t i = get_global_id(0);
    y[i] = x[first + i] * x[first + i];
}";

/// Compiles and launches it, as any OpenCL program would.
unsafe fn square(native: &OpenClQueue, from: &OpenClMemory, to: &OpenClMemory) -> Result<(), i32> {
    let program = create_program_with_source(native.context(), &[SQUARE])?;
    build_program(program, &[native.device()], c"", None, null_mut())?;
    let kernel = create_kernel(program, c"square")?;
    let memories = [from.memory(), to.memory()];
    let first = (from.offset() / size_of::<f32>()) as u64;
    let threads = to.length() / size_of::<f32>();
    // SAFETY: these are the kernel's parameters, and it touches what was declared.
    unsafe {
        for (number, memory) in (0..).zip(&memories) {
            set_kernel_arg(kernel, number, size_of::<cl_mem>(), from_ref(memory).cast())?;
        }
        set_kernel_arg(kernel, 2, size_of::<u64>(), from_ref(&first).cast())?;
        let (queue, all) = (native.queue(), from_ref(&threads));
        let event = enqueue_nd_range_kernel(queue, kernel, 1, null(), all, null(), 0, null())?;
        release_event(event)?;
        release_kernel(kernel)?;
        release_program(program)
    }
}

/// Adds one, squares a part by hand, adds one.
pub fn main() -> quipu::Result<()> {
    let platform = Platform::new()?;
    let Ok(device) = platform.device("opencl") else {
        println!("no OpenCL device, and so nothing to show");
        return Ok(());
    };
    let context = platform.context()?;
    let queue = context.queue(&device)?;
    let numbers: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let (mut x, mut y) = (context.buffer(&numbers)?, context.allocate(100)?);
    queue.launch(1000, add_one(&mut x))?;
    let part = x.slice(500..600)?;
    // SAFETY: it reads the one range and writes the other, in the queue that it is handed.
    let squared = unsafe {
        queue.async_execute((&part, y.overwrite()), |native, [from, to]| {
            square(native, &from, &to)
        })?
    };
    queue.launch(100, add_one(&mut y))?;

    let y = queue.read(&y)?.wait()?;
    squared.wait()?;
    assert!((501..601).zip(y).all(|(i, y)| y == (i * i + 1) as f32));
    Ok(())
}
