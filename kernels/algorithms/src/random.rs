//! Random numbers: Philox4x32-10, which makes four words of the number of their block and a key (Salmon, Moraes, Dror
//! and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011).

use crate::function::Item;
use quipu::kernels::{Accelerator, Integer, OwnElements, Philox, Uniform, device, kernel};
use quipu::{Buffer, Event, Queue, Result};

/// The four words of a counter and a key: [`philox4x32`](quipu::kernels::philox4x32), as a device function.
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

/// Sets the words of block `i` to those of counter `i` in a stream of a seed; each of these as two words, the low one
/// first.
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

/// Fills `y` with random words, four at a time: those that `Philox::new(seed, stream)` gives one after the other.
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
    /// How many words one takes that is uniform.
    const WORDS: u64;
}

#[device]
impl Drawn for f32 {
    const WORDS: u64 = 1;
}

#[device]
impl Drawn for f64 {
    const WORDS: u64 = 2;
}

/// Sets element `i` to the `i`th that a stream of a seed draws by `uniform`.
#[kernel]
pub fn uniform_each<T: Drawn>(
    _acc: &impl Accelerator<1>,
    seed: u64,
    stream: u64,
    mut y: OwnElements<T>,
) {
    for (i, y) in y.each() {
        let mut random = Philox::new(seed, stream).at(i as u64 * T::WORDS);
        *y = random.uniform::<T>();
    }
}

/// Sets elements `2 i` and `2 i + 1` to the `i`th pair that a stream of a seed draws by `normal_pair`.
#[kernel]
pub fn normal_each<T: Drawn>(
    _acc: &impl Accelerator<1>,
    seed: u64,
    stream: u64,
    mut y: OwnElements<T>,
) {
    for (i, y) in y.each() {
        let pair = (i / 2) as u64;
        let mut random = Philox::new(seed, stream).at(2 * pair * T::WORDS);
        let (first, second) = random.normal_pair::<T>();
        *y = if i % 2 == 0 { first } else { second };
    }
}

/// Fills `y` with floats from 0, inclusive, to 1, exclusive: those that `Philox::new(seed, stream)` gives one after the
/// other as [`uniform`](Philox::uniform).
///
/// The same on every device. A block of Philox for each element.
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
    queue.launch(y.len(), uniform_each(seed, stream, y.overwrite()))
}

/// Fills `y` with normally distributed floats, of mean 0 and variance 1: those that `Philox::new(seed, stream)` gives one
/// after the other as [`normal_pair`](Philox::normal_pair).
///
/// Devices compute the logarithm, sine and cosine in it to some units in the last place, and so give the same but for these.
/// The same bits every time, on a given device. A block of Philox and a pair for each element.
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
    queue.launch(y.len(), normal_each(seed, stream, y.overwrite()))
}
