//! Random numbers: Philox4x32-10, which makes four words of the number of their block and a key
//! (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011).

use crate::division::{BLOCKS_PER_CORE, parts, threads};
use crate::function::Item;
use quipu::kernels::{
    Accelerator, Integer, OwnElements, Philox, RawMut, Uniform, box_muller, device, kernel,
};
use quipu::{AcceleratorLimits, Buffer, Event, KernelError, Queue, Result, WorkDivision};

/// The four words of a counter and a key: [`philox4x32`](quipu::kernels::philox4x32), as a device
/// function.
#[device]
pub fn philox_block(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = counter;
    let [mut k0, mut k1] = key;
    for _ in 0..10 {
        let high0 = 0xd251_1f53u32.mul_high(c0);
        let low0 = 0xd251_1f53u32.wrapping_mul(c0);
        let high1 = 0xcd9e_8d57u32.mul_high(c2);
        let low1 = 0xcd9e_8d57u32.wrapping_mul(c2);
        (c0, c1, c2, c3) = (high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0);
        k0 = k0.wrapping_add(0x9e37_79b9);
        k1 = k1.wrapping_add(0xbb67_ae85);
    }
    [c0, c1, c2, c3]
}

/// Sets the words of block `i` to those of counter `i` in a stream of a seed; each of these as two
/// words, the low one first.
#[kernel]
pub fn random_blocks(
    _acc: &impl Accelerator<1>,
    seed: [u32; 2],
    stream: [u32; 2],
    mut y: OwnElements<[u32; 4]>,
) {
    for (i, y) in y.each() {
        let block = i as u64;
        let counter = [block as u32, (block >> 32) as u32, stream[0], stream[1]];
        *y = philox_block(counter, seed);
    }
}

/// Fills `y` with random words, four at a time: those that `Philox::new(seed, stream)` gives one
/// after the other.
///
/// The same on every device. Ten rounds of two multiplications for each four words.
///
/// # Errors
/// As [`Queue::launch`].
pub fn random(queue: &Queue, seed: u64, stream: u64, y: &mut Buffer<[u32; 4]>) -> Result<Event> {
    let halves = |number: u64| [number as u32, (number >> 32) as u32];
    queue.launch(
        y.len(),
        random_blocks(halves(seed), halves(stream), y.overwrite()),
    )
}

/// Floats that buffers are filled with.
#[device]
pub trait Drawn: Uniform {
    /// The number of uniform or normal values from a block of Philox.
    const OF_BLOCK: usize;
}

#[device]
impl Drawn for f32 {
    const OF_BLOCK: usize = 4;
}

#[device]
impl Drawn for f64 {
    const OF_BLOCK: usize = 2;
}

/// Blocks that are made side by side where a thread is alone in its block: as many as a vector has
/// words, at most.
pub const MANY: usize = 16;

/// Sets elements to the values that a stream of a seed draws by `uniform`, one after the other: for
/// each of the thread's elements `COUNT` blocks of Philox.
#[kernel]
pub fn uniform_blocks<T: Drawn, const COUNT: usize>(
    acc: &impl Accelerator<1>,
    seed: u64,
    stream: u64,
    y: RawMut<T>,
) {
    let random = Philox::new(seed, stream);
    let whole = y.len() / (COUNT * T::OF_BLOCK);
    for group in acc.elements(whole) {
        let first = group * COUNT;
        // SAFETY: no two blocks have elements in common.
        let y = unsafe { y.slice_mut(first * T::OF_BLOCK..(first + COUNT) * T::OF_BLOCK) };
        for block in 0..COUNT {
            let mut random = random.at(4 * (first + block) as u64);
            for k in 0..T::OF_BLOCK {
                y[block * T::OF_BLOCK + k] = random.uniform::<T>();
            }
        }
    }
    if acc.once_per_grid() {
        let mut random = random.at(4 * (whole * COUNT) as u64);
        for i in whole * COUNT * T::OF_BLOCK..y.len() {
            // SAFETY: no block above has it, and one thread comes here.
            unsafe { y.write(i, random.uniform::<T>()) };
        }
    }
}

/// As [`uniform_blocks`], by `normal_pair`.
#[kernel]
pub fn normal_blocks<T: Drawn, const COUNT: usize>(
    acc: &impl Accelerator<1>,
    seed: u64,
    stream: u64,
    y: RawMut<T>,
) {
    let random = Philox::new(seed, stream);
    let whole = y.len() / (COUNT * T::OF_BLOCK);
    for group in acc.elements(whole) {
        let first = group * COUNT;
        // SAFETY: no two blocks have elements in common.
        let y = unsafe { y.slice_mut(first * T::OF_BLOCK..(first + COUNT) * T::OF_BLOCK) };
        for block in 0..COUNT {
            let mut random = random.at(4 * (first + block) as u64);
            for k in 0..T::OF_BLOCK {
                y[block * T::OF_BLOCK + k] = random.uniform::<T>();
            }
        }
        // In a loop of its own: calls of the mathematical functions in one with the rounds would
        // leave that without vectors.
        for pair in 0..COUNT * T::OF_BLOCK / 2 {
            (y[2 * pair], y[2 * pair + 1]) = box_muller(y[2 * pair], y[2 * pair + 1]);
        }
    }
    if acc.once_per_grid() {
        let mut random = random.at(4 * (whole * COUNT) as u64);
        let mut i = whole * COUNT * T::OF_BLOCK;
        while i < y.len() {
            let (one, other) = random.normal_pair::<T>();
            // SAFETY: no block above has it, and one thread comes here.
            unsafe { y.write(i, one) };
            if i + 1 < y.len() {
                // SAFETY: as above.
                unsafe { y.write(i + 1, other) };
            }
            i += 2;
        }
    }
}

/// A division of groups of `MANY` of so many blocks among threads that are alone in theirs.
fn in_parts(
    length: usize,
    blocks: usize,
    limits: &AcceleratorLimits,
) -> std::result::Result<WorkDivision<1>, KernelError> {
    let groups = blocks.div_ceil(MANY);
    let parts = parts(length, limits, BLOCKS_PER_CORE).min(groups.max(1));
    WorkDivision::new(parts, 1, groups.div_ceil(parts).max(1))
}

/// Fills `y` with floats from 0, inclusive, to 1, exclusive: those that `Philox::new(seed, stream)`
/// gives one after the other as [`uniform`](Philox::uniform).
///
/// The same on every device. A block of Philox for four `f32` or two `f64`.
///
/// # Errors
/// As [`Queue::launch`].
///
/// ```
/// use quipu::kernels::Philox;
/// use quipu::prelude::*;
/// use quipu_algorithms::random_uniform;
///
/// # fn main() -> quipu::Result<()> {
/// let context = Platform::new()?.context()?;
/// let queue = context.queue(&context.fastest())?;
/// let mut x = context.allocate::<f32>(1000)?;
/// random_uniform(&queue, 1, 2, &mut x)?;
/// let mut philox = Philox::new(1, 2);
/// assert!(queue.read(&x)?.wait()?.iter().all(|x| *x == philox.uniform::<f32>()));
/// # Ok(()) }
/// ```
pub fn random_uniform<T: Item + Drawn>(
    queue: &Queue,
    seed: u64,
    stream: u64,
    y: &mut Buffer<T>,
) -> Result<Event> {
    let blocks = y.len().div_ceil(T::OF_BLOCK);
    if threads(queue.limits()) == 1 {
        let division = in_parts(y.len(), blocks, queue.limits());
        let kernel = uniform_blocks::<T, MANY>(seed, stream, y.overwrite());
        queue.launch(division, kernel)
    } else {
        let kernel = uniform_blocks::<T, 1>(seed, stream, y.overwrite());
        queue.launch(blocks, kernel)
    }
}

/// Fills `y` with normally distributed floats, of mean 0 and variance 1: those that
/// `Philox::new(seed, stream)` gives one after the other as [`normal_pair`](Philox::normal_pair).
///
/// Devices compute the logarithm, sine and cosine in it to some units in the last place, and so
/// give the same but for these. The same bits every time, on a given device. A block of Philox for
/// four `f32` or two `f64`.
///
/// # Errors
/// As [`Queue::launch`].
///
/// ```
/// use quipu::prelude::*;
/// use quipu_algorithms::random_normal;
///
/// # fn main() -> quipu::Result<()> {
/// let context = Platform::new()?.context()?;
/// let queue = context.queue(&context.fastest())?;
/// let mut x = context.allocate::<f64>(10_000)?;
/// random_normal(&queue, 1, 2, &mut x)?;
/// let mean = queue.read(&x)?.wait()?.iter().sum::<f64>() / 10_000.0;
/// assert!(mean.abs() < 0.05);
/// # Ok(()) }
/// ```
pub fn random_normal<T: Item + Drawn>(
    queue: &Queue,
    seed: u64,
    stream: u64,
    y: &mut Buffer<T>,
) -> Result<Event> {
    let blocks = y.len().div_ceil(T::OF_BLOCK);
    if threads(queue.limits()) == 1 {
        let division = in_parts(y.len(), blocks, queue.limits());
        let kernel = normal_blocks::<T, MANY>(seed, stream, y.overwrite());
        queue.launch(division, kernel)
    } else {
        let kernel = normal_blocks::<T, 1>(seed, stream, y.overwrite());
        queue.launch(blocks, kernel)
    }
}
