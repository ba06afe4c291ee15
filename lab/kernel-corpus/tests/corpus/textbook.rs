//! What the algorithms of textbooks are written with: parts of messages as arrays, arrays that are
//! mapped, generators as iterators, positions taken apart, shared arrays of structs.

use std::iter::{Product, Sum};

use super::{check, division};
use quipu_kernel::{
    Accelerator, Block, BlockAccelerator, Extent, Grid, KernelData, Number, OwnElements,
    SharedWrite, Threads, device, kernel,
};

#[device(crate = quipu_kernel)]
fn weighed(block: &[u8; 4]) -> u32 {
    block[0] as u32 + 2 * block[3] as u32
}

/// Arrays of slices, and slices that are written from arrays.
#[kernel(crate = quipu_kernel)]
fn blocks(_acc: &impl Accelerator<1>, bytes: &[u8], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let own = &bytes[i % 3..];
        let mut words = [0u32; 2];
        for (word, bytes) in words.iter_mut().zip(own.chunks_exact(4)) {
            *word = u32::from_be_bytes(bytes.try_into().unwrap());
        }
        let mut block = [0u8; 16];
        block[..8].copy_from_slice(
            &words[0]
                .wrapping_mul(3)
                .to_le_bytes()
                .map(|b| b ^ 1)
                .repeated(),
        );
        let length = (bytes.len() as u64 * 8).to_be_bytes();
        block[8..].copy_from_slice(&length);
        block[4..8].copy_from_slice(&words[1].to_be_bytes());
        *y = words[0] ^ words[1].rotate_left(7);
        for chunk in block.chunks(4) {
            *y = y.rotate_left(3) ^ weighed(chunk.try_into().expect("four bytes"));
        }
        let last: [u8; 3] = own[own.len() - 3..].try_into().unwrap();
        *y += last[2] as u32;
    }
}

#[device(crate = quipu_kernel)]
trait Repeated {
    fn repeated(self) -> [u8; 8];
}

#[device(crate = quipu_kernel)]
impl Repeated for [u8; 4] {
    fn repeated(self) -> [u8; 8] {
        [
            self[0], self[1], self[2], self[3], self[0], self[1], self[2], self[3],
        ]
    }
}

#[kernel(crate = quipu_kernel)]
fn mapped(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let rows = [[x[i], 1, 2], [3, x[i] + 4, 5]];
        let mut calls = 0;
        let [(a, b), (c, d)] = rows.map(|[left, middle, right]| {
            calls += 1;
            (left ^ middle, right + calls)
        });
        let mut own = [a, b, c];
        let next = own.map(|mut number| {
            number += d;
            number
        });
        own[0] += 1;
        *y = own.iter().sum::<u32>() + 100 * next.map(|n| n as u64 * 3)[1] as u32 + 1000 * calls;
    }
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct SplitMix {
    state: u32,
}

#[device(crate = quipu_kernel)]
impl Iterator for SplitMix {
    type Item = u32;

    fn next(&mut self) -> Option<Self::Item> {
        self.state = self.state.wrapping_mul(0x9e37_79b9).wrapping_add(1);
        let item: Self::Item = self.state ^ (self.state >> 15);
        if item % 16 == 0 { None } else { Some(item) }
    }
}

/// The numbers of a generator of the user's own.
#[kernel(crate = quipu_kernel)]
fn generated(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let mut numbers = SplitMix { state: x[i] };
        let mut count = 0;
        while let Some(number) = numbers.next() {
            *y ^= number;
            count += 1;
            if count == 20 {
                break;
            }
        }
        let rest = numbers.next().map_or(7, |n| n >> 3)
            + (0..3)
                .map(|_| numbers.next().map_or(1, |n| n & 3))
                .sum::<u32>();
        *y = y.wrapping_add(rest);
    }
}

#[device(crate = quipu_kernel)]
fn last_of(extent: Extent<1>) -> usize {
    let [count] = extent;
    count - 1
}

/// Positions and extents taken apart as arrays are.
#[kernel(crate = quipu_kernel)]
fn apart(acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    let extent = y.extent();
    let [count] = extent;
    let last = last_of(extent);
    let [threads] = acc.extent(Grid, Threads);
    for (position, part) in y.rows() {
        let [first] = position;
        for (k, y) in part.iter_mut().enumerate() {
            let pair = [x[first + k], 3];
            let [a, b] = pair;
            *y = a * b
                + (first + k) as u32
                + 100 * count as u32
                + 1000 * threads as u32
                + last as u32;
        }
    }
}

/// With gaps between its fields, which no buffer has.
#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Candidate {
    magnitude: f64,
    row: u32,
    is_left: bool,
}

/// The place of the greatest element of each block, of elements in a shared array.
#[kernel(crate = quipu_kernel)]
async fn pivot<T: Number + Sum + Product>(
    acc: &impl BlockAccelerator<1>,
    x: &[T],
    mut y: OwnElements<u32>,
    #[shared(4)] mut best: SharedWrite<Candidate>,
    #[shared(4)] mut sums: SharedWrite<T>,
) {
    let [thread] = acc.index(Block, Threads);
    let [place] = acc.index(Grid, Threads);
    best.own()[0] = Candidate {
        magnitude: x[place].cast::<f64>(),
        row: place as u32,
        is_left: thread % 2 == 0,
    };
    sums.own()[0] = x.iter().copied().sum::<T>() + x.iter().take(2).copied().product::<T>();
    let mut half = 2;
    while half > 0 {
        let read = acc.sync(best).await;
        let other = if thread < half {
            Some(read[thread + half])
        } else {
            None
        };
        best = acc.sync(read).await;
        if let Some(other) = other {
            if other.magnitude > best.own()[0].magnitude {
                best.own()[0] = other;
            }
        }
        half /= 2;
    }
    let (best, sums) = acc.sync((best, sums)).await;
    for (_, y) in y.each() {
        *y = best[0].row * 10 + best[0].is_left as u32 + 1000 * sums[3].cast::<u32>();
    }
}

#[test]
fn textbooks_are_the_same_everywhere() {
    let bytes: Vec<_> = (0..11_u8).map(|i| i.wrapping_mul(37)).collect();
    let mut y = vec![0_u32; 6];
    check!(blocks => (&bytes, &mut y), division(2, 1, 3));

    let x: Vec<_> = (0..6_u32).map(|i| i * i + 3).collect();
    check!(mapped => (&x, &mut y), division(2, 1, 3));
    check!(generated => (&x, &mut y), division(2, 3, 1));
    check!(apart => (&x, &mut y), division(2, 1, 3));

    let x = vec![3.0_f32, 1.0, 7.0, 2.0, 5.0, 5.0, 1.0, 4.0];
    let mut y = vec![0_u32; 8];
    check!(pivot::<f32> => (&x, &mut y), division(2, 4, 1));
    assert_eq!(y[0] % 1000, 21);
}
