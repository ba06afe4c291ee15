//! The kernels with which `quipu bench` measures devices. `quipu serve` has them, too, so that
//! `quipu bench --node` measures the devices of a node.
//!
//! | kernels | benchmark |
//! |---|---|
//! | [`saxpy`] | `saxpy` |
//! | the library's [`multiply_squares`](quipu_algorithms::kernels::multiply_squares) | `gemm` |
//! | [`pull`] | `nbody` |
//! | [`escape`] | `mandelbrot` |
//! | [`sum_blocks`], the library's [`reduce_blocks`](quipu_algorithms::kernels::reduce_blocks) | `reduce` |
//! | [`copy_each`], [`scale_each`], [`add_each`], [`triad_each`], [`dot_blocks`] | `device-babelstream` |
//! | [`multiply_blocks`] | `matmul`, `block-size` |
//! | [`add_each`] | `stream` |
//! | [`add_one`], [`add_one_slowly`], [`converge`], [`peek`] | costs of commands |

#![allow(
    clippy::needless_range_loop,
    reason = "the kernel language has no iterators of several arrays"
)]
// Items that `#[kernel]` makes beside the functions have no documentation.
#![allow(missing_docs)]

use bytemuck::{Pod, Zeroable};
use quipu::kernels::{
    Accelerator, Block, BlockAccelerator, Blocks, Float, Grid, KernelData, OwnBlock, OwnElements,
    SharedWrite, Threads, device, kernel,
};
use quipu::serve::Kernels;
use quipu_algorithms::{Item, Sum, served as library};

/// All of them, with the types and sizes that benchmarks launch them with, for nodes.
#[must_use]
pub fn served() -> Kernels {
    streamed::<f32>()
        .and(streamed::<f64>())
        .with::<saxpy, _>()
        .with::<sum_blocks<2>, _>()
        .with::<sum_blocks<64>, _>()
        .with::<pull, _>()
        .with::<escape, _>()
        .with::<multiply_blocks<2>, _>()
        .with::<multiply_blocks<4>, _>()
        .with::<multiply_blocks<8>, _>()
        .with::<multiply_blocks<16>, _>()
        .with::<multiply_blocks<32>, _>()
        .with::<multiply_blocks<64>, _>()
        .with::<add_one, _>()
        .with::<add_one_slowly, _>()
        .with::<converge, _>()
        .with::<peek<f32>, _>()
        .with::<peek<u32>, _>()
        .and(library::matrix_product::<f32>())
        .and(library::reduce::<Sum, f32>())
}

/// Those of `device-babelstream`.
fn streamed<T: Item + Float + KernelData>() -> Kernels {
    Kernels::new()
        .with::<copy_each<T>, _>()
        .with::<scale_each<T>, _>()
        .with::<add_each<T>, _>()
        .with::<triad_each<T>, _>()
        .with::<dot_blocks<T, 1>, _>()
        .with::<dot_blocks<T, 2>, _>()
        .with::<dot_blocks<T, 32>, _>()
}

/// y += a x
#[kernel]
pub fn saxpy(_acc: &impl Accelerator<1>, a: f32, x: &[f32], mut y: OwnElements<f32>) {
    for (position, row) in y.rows() {
        let x = &x[position[0]..position[0] + row.len()];
        for (i, y) in row.iter_mut().enumerate() {
            *y += a * x[i];
        }
    }
}

/// c = a
#[kernel]
pub fn copy_each<T: Float>(_acc: &impl Accelerator<1>, a: &[T], mut c: OwnElements<T>) {
    for (position, row) in c.rows() {
        let a = &a[position[0]..position[0] + row.len()];
        for (i, c) in row.iter_mut().enumerate() {
            *c = a[i];
        }
    }
}

/// b = scalar c
#[kernel]
pub fn scale_each<T: Float>(_acc: &impl Accelerator<1>, scalar: T, c: &[T], mut b: OwnElements<T>) {
    for (position, row) in b.rows() {
        let c = &c[position[0]..position[0] + row.len()];
        for (i, b) in row.iter_mut().enumerate() {
            *b = scalar * c[i];
        }
    }
}

/// c = a + b
#[kernel]
pub fn add_each<T: Float>(_acc: &impl Accelerator<1>, a: &[T], b: &[T], mut c: OwnElements<T>) {
    for (position, row) in c.rows() {
        let a = &a[position[0]..position[0] + row.len()];
        let b = &b[position[0]..position[0] + row.len()];
        for (i, c) in row.iter_mut().enumerate() {
            *c = a[i] + b[i];
        }
    }
}

/// a = b + scalar c
#[kernel]
pub fn triad_each<T: Float>(
    _acc: &impl Accelerator<1>,
    scalar: T,
    b: &[T],
    c: &[T],
    mut a: OwnElements<T>,
) {
    for (position, row) in a.rows() {
        let b = &b[position[0]..position[0] + row.len()];
        let c = &c[position[0]..position[0] + row.len()];
        for (i, a) in row.iter_mut().enumerate() {
            *a = b[i] + scalar * c[i];
        }
    }
}

/// A thread's share of the sum of a b: `LANES` neighbours at a time, each into a sum of its own.
#[device]
fn dot_share<T: Float, const LANES: usize>(a: &[T], b: &[T], thread: usize, threads: usize) -> T {
    let mut lanes = [T::ZERO; LANES];
    let mut at = thread * LANES;
    while at + LANES <= a.len() {
        let x = &a[at..at + LANES];
        let y = &b[at..at + LANES];
        for k in 0..LANES {
            lanes[k] += x[k] * y[k];
        }
        at += threads * LANES;
    }
    // The rest is less than a stride. One thread finds its beginning here.
    let mut k = 0;
    while at < a.len() {
        lanes[k] += a[at] * b[at];
        at += 1;
        k += 1;
    }
    let mut sum = lanes[0];
    for k in 1..LANES {
        sum += lanes[k];
    }
    sum
}

/// So many elements of an array a thread asks for before it needs the first.
const AHEAD: usize = 4;

/// The same, where neighbouring threads read neighbouring elements.
#[device]
fn dot_stride<T: Float>(a: &[T], b: &[T], thread: usize, threads: usize) -> T {
    let stride = AHEAD * threads;
    let mut sum = T::ZERO;
    let mut from = 0;
    while from + stride <= a.len() {
        let x = &a[from..from + stride];
        let y = &b[from..from + stride];
        for k in 0..AHEAD {
            sum += x[k * threads + thread] * y[k * threads + thread];
        }
        from += stride;
    }
    let mut at = from + thread;
    while at < a.len() {
        sum += a[at] * b[at];
        at += threads;
    }
    sum
}

/// The same, where neighbouring threads read neighbouring pairs: GPUs have more bytes on their way
/// with 8 of a thread than with 4.
#[device]
fn dot_pairs<T: Float>(a: &[T], b: &[T], thread: usize, threads: usize) -> T {
    let stride = AHEAD * threads;
    let mut sum = T::ZERO;
    let mut from = 0;
    while from + stride <= a.len() {
        let x = &a[from..from + stride];
        let y = &b[from..from + stride];
        for k in 0..AHEAD / 2 {
            let at = 2 * (k * threads + thread);
            sum += x[at] * y[at];
            sum += x[at + 1] * y[at + 1];
        }
        from += stride;
    }
    let mut at = from + thread;
    while at < a.len() {
        sum += a[at] * b[at];
        at += threads;
    }
    sum
}

/// The sum of a b, of each block's contiguous part. Blocks have a power of two of threads; those of
/// many threads take one lane, or two for numbers of 4 bytes.
#[kernel]
pub async fn dot_blocks<T: Float + KernelData, const LANES: usize>(
    acc: &impl BlockAccelerator<1>,
    a: &[T],
    b: &[T],
    sums: OwnBlock<T>,
    #[shared(acc.extent(Block, Threads)[0])] mut totals: SharedWrite<T>,
) {
    let blocks = acc.extent(Grid, Blocks)[0];
    let threads = acc.extent(Block, Threads)[0];
    let thread = acc.index(Block, Threads)[0];
    let length = a.len().div_ceil(blocks);
    let start = (acc.index(Grid, Blocks)[0] * length).min(a.len());
    let end = (start + length).min(a.len());
    let a = &a[start..end];
    let b = &b[start..end];
    let mut total = if LANES == 1 {
        dot_stride(a, b, thread, threads)
    } else if LANES == 2 {
        dot_pairs(a, b, thread, threads)
    } else {
        dot_share::<T, LANES>(a, b, thread, threads)
    };
    totals.own()[0] = total;
    let mut half = threads / 2;
    while half > 0 {
        let read = acc.sync(totals).await;
        if thread < half {
            total += read[thread + half];
        }
        totals = acc.sync(read).await;
        totals.own()[0] = total;
        half /= 2;
    }
    for sum in sums {
        *sum = total;
    }
}

/// A thread's share of the sum of x.
#[device]
fn sum_share<const LANES: usize>(x: &[f32], thread: usize, threads: usize) -> f32 {
    let mut lanes = [0.0; LANES];
    let mut at = thread * LANES;
    while at + LANES <= x.len() {
        let x = &x[at..at + LANES];
        for k in 0..LANES {
            lanes[k] += x[k];
        }
        at += threads * LANES;
    }
    // As above.
    let mut k = 0;
    while at < x.len() {
        lanes[k] += x[at];
        at += 1;
        k += 1;
    }
    let mut sum = lanes[0];
    for k in 1..LANES {
        sum += lanes[k];
    }
    sum
}

/// The same, where neighbouring threads read neighbouring pairs, as above.
#[device]
fn sum_pairs(x: &[f32], thread: usize, threads: usize) -> f32 {
    let stride = 2 * AHEAD * threads;
    let mut sum = 0.0;
    let mut from = 0;
    while from + stride <= x.len() {
        let x = &x[from..from + stride];
        for k in 0..AHEAD {
            let at = 2 * (k * threads + thread);
            sum += x[at];
            sum += x[at + 1];
        }
        from += stride;
    }
    let mut at = from + thread;
    while at < x.len() {
        sum += x[at];
        at += threads;
    }
    sum
}

/// The sum of x, of each block's contiguous part. Blocks have a power of two of threads; those of
/// many threads take two lanes.
#[kernel]
pub async fn sum_blocks<const LANES: usize>(
    acc: &impl BlockAccelerator<1>,
    x: &[f32],
    sums: OwnBlock<f32>,
    #[shared(acc.extent(Block, Threads)[0])] mut totals: SharedWrite<f32>,
) {
    let blocks = acc.extent(Grid, Blocks)[0];
    let threads = acc.extent(Block, Threads)[0];
    let thread = acc.index(Block, Threads)[0];
    let length = x.len().div_ceil(blocks);
    let start = (acc.index(Grid, Blocks)[0] * length).min(x.len());
    let end = (start + length).min(x.len());
    let x = &x[start..end];
    let mut total = if LANES == 2 {
        sum_pairs(x, thread, threads)
    } else {
        sum_share::<LANES>(x, thread, threads)
    };
    totals.own()[0] = total;
    let mut half = threads / 2;
    while half > 0 {
        let read = acc.sync(totals).await;
        if thread < half {
            total += read[thread + half];
        }
        totals = acc.sync(read).await;
        totals.own()[0] = total;
        half /= 2;
    }
    for sum in sums {
        *sum = total;
    }
}

/// Four floats that devices read at once, for they are aligned.
#[derive(Clone, Copy, Debug, Default, PartialEq, KernelData, Pod, Zeroable)]
#[repr(C, align(16))]
pub struct Four {
    /// Of a body: where it is; of an acceleration: where to.
    pub x: f32,
    /// The same.
    pub y: f32,
    /// The same.
    pub z: f32,
    /// Of a body, its mass.
    pub w: f32,
}

/// The acceleration of one body by others, added to a sum: 20 operations for each, as is the custom
/// to count them.
#[device]
fn pulled(softening: f32, body: Four, others: &[Four], sum: Four) -> Four {
    let mut sum = sum;
    for other in others {
        let x = other.x - body.x;
        let y = other.y - body.y;
        let z = other.z - body.z;
        let square = x.mul_add(x, y.mul_add(y, z.mul_add(z, softening)));
        let inverse = square.rsqrt();
        let weight = other.w * (inverse * inverse * inverse);
        sum.x = x.mul_add(weight, sum.x);
        sum.y = y.mul_add(weight, sum.y);
        sum.z = z.mul_add(weight, sum.z);
    }
    sum
}

/// Gravity: sets element `i` of the acceleration to what all bodies do to body `i`. A block takes
/// as many bodies at a time into its shared memory as it has threads, of one element each; their
/// number divides that of bodies.
#[kernel(max_block_threads = 256)]
pub async fn pull(
    acc: &impl BlockAccelerator<1>,
    softening: f32,
    bodies: &[Four],
    mut acceleration: OwnElements<Four>,
    #[shared(acc.extent(Block, Threads)[0])] mut tile: SharedWrite<Four>,
) {
    let thread = acc.index(Block, Threads)[0];
    let threads = acc.extent(Block, Threads)[0];
    let body = bodies[acc.index(Grid, Threads)[0]];
    let mut sum = Four {
        x: 0.0,
        y: 0.0,
        z: 0.0,
        w: 0.0,
    };
    let mut from = 0;
    while from < bodies.len() {
        tile.own()[0] = bodies[from + thread];
        let read = acc.sync(tile).await;
        // In a function of its own, as variables of an `async fn` are in memory.
        sum = pulled(softening, body, &read[..threads], sum);
        tile = acc.sync(read).await;
        from += threads;
    }
    for (_, acceleration) in acceleration.each() {
        *acceleration = sum;
    }
}

/// The number of steps that it takes until z = z^2 + c leaves the circle of radius 2, `limit` at
/// most, for points of a plane `width` points wide.
#[kernel]
pub fn escape(
    _acc: &impl Accelerator<1>,
    left: f32,
    bottom: f32,
    step: f32,
    width: usize,
    limit: u32,
    mut steps: OwnElements<u32>,
) {
    for (i, steps) in steps.each() {
        let real = ((i % width) as f32).mul_add(step, left);
        let imaginary = ((i / width) as f32).mul_add(step, bottom);
        let mut x = 0.0_f32;
        let mut y = 0.0_f32;
        let mut count = 0;
        while count < limit && x.mul_add(x, y * y) < 4.0 {
            let next = x.mul_add(x, (-y).mul_add(y, real));
            y = (2.0 * x).mul_add(y, imaginary);
            x = next;
            count += 1;
        }
        *steps = count;
    }
}

/// The product of square matrices of `n` x `n` elements, column after column, in blocks of `SIDE` x
/// `SIDE` threads that share what each of them reads (Schupikov, "OpenCL-HPX Integration", 2021,
/// listing 5.1). `SIDE` divides `n`.
#[kernel]
pub async fn multiply_blocks<const SIDE: usize>(
    acc: &impl BlockAccelerator<2>,
    n: usize,
    a: &[f32],
    b: &[f32],
    mut c: OwnElements<f32, 2>,
    #[shared(SIDE * SIDE)] mut a_block: SharedWrite<f32>,
    #[shared(SIDE * SIDE)] mut b_block: SharedWrite<f32>,
) {
    let (column, row) = (acc.index(Block, Threads)[0], acc.index(Block, Threads)[1]);
    let across = acc.index(Grid, Threads)[0];
    let down = acc.index(Grid, Threads)[1];
    let mut sum = 0.0;
    for block in 0..n / SIDE {
        a_block.own()[0] = a[(SIDE * block + column) * n + down];
        b_block.own()[0] = b[across * n + SIDE * block + row];
        let (a_read, b_read) = acc.sync((a_block, b_block)).await;
        for k in 0..SIDE {
            sum += a_read[k * SIDE + row] * b_read[column * SIDE + k];
        }
        (a_block, b_block) = acc.sync((a_read, b_read)).await;
    }
    for (_, c) in c.each() {
        *c = sum;
    }
}

/// Adds one to a number: a command that does next to nothing, and shows that it ran.
#[kernel]
pub fn add_one(_acc: &impl Accelerator<1>, mut counter: OwnElements<u32>) {
    for (_, counter) in counter.each() {
        *counter += 1;
    }
}

/// Adds one to a number after so much work: a number that is halved and has one added comes to two,
/// by the thirtieth time.
#[kernel]
pub fn add_one_slowly(_acc: &impl Accelerator<1>, times: u32, mut counter: OwnElements<u32>) {
    for (_, counter) in counter.each() {
        let mut number = 0.0f32;
        for _ in 0..times {
            number = 0.5 * number + 1.0;
        }
        *counter += (0.5 * number) as u32;
    }
}

/// Halves a number and adds one, so many times, which comes to two: work that takes as long as one
/// likes.
#[kernel]
pub fn converge(_acc: &impl Accelerator<1>, times: u32, mut x: OwnElements<f32>) {
    for (_, x) in x.each() {
        let mut number = 0.0;
        for _ in 0..times {
            number = 0.5 * number + 1.0;
        }
        *x = number;
    }
}

/// Reads one of many numbers: so all of them are brought to the device.
#[kernel]
pub fn peek<T>(_acc: &impl Accelerator<1>, x: &[T], mut y: OwnElements<T>) {
    for (i, y) in y.each() {
        *y = x[i];
    }
}
