//! Random numbers: Philox4x32-10, which makes four words of the number of their block and a key (Salmon, Moraes, Dror
//! and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011).

use quipu::kernels::{Accelerator, Integer, OwnElements, device, kernel};
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
