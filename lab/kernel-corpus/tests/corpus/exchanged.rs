//! Shared arrays and slices that change places, or of which one is chosen.

use super::{check, division};
use quipu_kernel::level::UNOPTIMISED;
use quipu_kernel::{
    Accelerator, Block, BlockAccelerator, BlockKernel, OwnElements, SharedWrite, Threads, device,
    kernel,
};

/// Sums of more and more neighbours, from one array to the other and back, by barriers.
#[kernel(crate = quipu_kernel)]
async fn swapped(
    acc: &impl BlockAccelerator<1>,
    x: &[u32],
    rounds: u32,
    mut y: OwnElements<u32>,
    #[shared(4)] mut from: SharedWrite<u32>,
    #[shared(4)] mut to: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    for (k, own) in from.own().iter_mut().enumerate() {
        *own = x[thread + k];
    }
    for _ in 0..rounds {
        let read = acc.sync(from).await;
        for own in to.own() {
            *own = read[thread] * 10 + read[(thread + 1) % 4];
        }
        from = acc.sync(read).await;
        std::mem::swap(&mut from, &mut to);
    }
    let read = acc.sync(from).await;
    for (_, y) in y.each() {
        *y = read[thread];
    }
}

/// The same, unchecked: one barrier for each round.
#[kernel(crate = quipu_kernel)]
async fn swapped_raw(
    acc: &impl BlockAccelerator<1>,
    x: &[u32],
    rounds: u32,
    mut y: OwnElements<u32>,
    #[shared(4)] a: SharedWrite<u32>,
    #[shared(4)] b: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    let (mut from, mut to) = (a.into_raw(), b.into_raw());
    // SAFETY: a thread writes its own element, of the array that none reads before the next
    // barrier.
    unsafe { from.write(thread, x[thread]) };
    acc.sync_block_threads().await;
    for _ in 0..rounds {
        // SAFETY: as above.
        unsafe { to.write(thread, from.read(thread) * 10 + from.read((thread + 1) % 4)) };
        acc.sync_block_threads().await;
        (from, to) = (to, from);
    }
    for (_, y) in y.each() {
        // SAFETY: nothing is written any more.
        *y = unsafe { from.read(thread) };
    }
}

/// The round decides which array it is.
#[kernel(crate = quipu_kernel)]
async fn chosen_raw(
    acc: &impl BlockAccelerator<1>,
    x: &[u32],
    rounds: u32,
    mut y: OwnElements<u32>,
    #[shared(4)] a: SharedWrite<u32>,
    #[shared(4)] b: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    let (a, b) = (a.into_raw(), b.into_raw());
    // SAFETY: as above.
    unsafe { a.write(thread, x[thread]) };
    acc.sync_block_threads().await;
    for round in 0..rounds {
        let (from, to) = if round % 2 == 0 { (a, b) } else { (b, a) };
        // SAFETY: as above.
        unsafe { to.write(thread, from.read(thread) * 10 + from.read((thread + 1) % 4)) };
        acc.sync_block_threads().await;
    }
    let last = if rounds % 2 == 0 { a } else { b };
    for (_, y) in y.each() {
        // SAFETY: a barrier has ended the last round, and nothing is written after it.
        *y = unsafe { last.read(thread) };
    }
}

#[device(crate = quipu_kernel)]
fn first_of(x: &[u32]) -> u32 {
    x[0] + x.len() as u32
}

/// One of two to read.
#[kernel(crate = quipu_kernel)]
async fn chosen(
    acc: &impl BlockAccelerator<1>,
    x: &[u32],
    n: u32,
    mut y: OwnElements<u32>,
    #[shared(4)] mut a: SharedWrite<u32>,
    #[shared(8)] mut b: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    for own in a.own() {
        *own = x[thread];
    }
    for own in b.own() {
        *own = x[thread] * 100;
    }
    let (mut a, mut b) = acc.sync((a, b)).await;
    let one = if n > 1 { &a } else { &b };
    let mut sum = one[thread] + one.len() as u32;
    std::mem::swap(&mut a, &mut b);
    sum += 1000 * a.len() as u32 + 10_000 * first_of(&a[1..]);
    let (mut low, mut high) = (&x[..2], &x[2..]);
    (low, high) = (high, low);
    std::mem::swap(&mut low, &mut high);
    for (_, y) in y.each() {
        *y = sum + 10_000_000 * (low.len() as u32 + high[0]);
    }
}

/// Both of two slices, in one of two orders, and parts of one.
#[kernel(crate = quipu_kernel)]
fn chosen_pairs(
    _acc: &impl Accelerator<1>,
    order: u32,
    x: &[u32],
    z: &[u32],
    mut y: OwnElements<u32>,
) {
    let (mut from, mut other) = if order == 0 { (x, z) } else { (z, x) };
    for (i, y) in y.each() {
        let (low, high) = if from[i] > 2 && i > 0 {
            (&x[..i], &x[i..])
        } else {
            (&z[..1], &z[1..])
        };
        for round in 1..4 {
            *y = *y * 10 + from[i] * round;
            std::mem::swap(&mut from, &mut other);
        }
        *y += 10_000 * (low[0] + 10 * high.len() as u32);
        (from, other) = (other, from);
    }
}

#[test]
fn both_of_two_slices_are_chosen() {
    let (x, z) = (vec![3, 1, 4], vec![5, 7, 2]);
    for (order, expected) in [
        (0, [250_409, 250_243, 130_452]),
        (1, [250_575, 230_741, 250_286]),
    ] {
        let mut y = vec![0; 3];
        check!(chosen_pairs => (order, &x, &z, &mut y), division(3, 1, 1));
        assert_eq!(y, expected);
    }
}

#[test]
fn shared_arrays_change_places() {
    const { assert!(UNOPTIMISED || <swapped_raw as BlockKernel<1>>::IN_PHASES) };
    const { assert!(UNOPTIMISED || <chosen_raw as BlockKernel<1>>::IN_PHASES) };
    let x = vec![3, 1, 4, 2, 5];
    for (rounds, expected) in [
        (0, [3, 1, 4, 2]),
        (1, [31, 14, 42, 23]),
        (2, [324, 182, 443, 261]),
        (3, [3422, 2263, 4691, 2934]),
    ] {
        let mut y = vec![0; 4];
        check!(swapped => (&x, rounds, &mut y), division(1, 4, 1));
        assert_eq!(y, expected);
        let mut y = vec![0; 4];
        check!(swapped_raw => (&x, rounds, &mut y), division(1, 4, 1));
        assert_eq!(y, expected);
        let mut y = vec![0; 4];
        check!(chosen_raw => (&x, rounds, &mut y), division(1, 4, 1));
        assert_eq!(y, expected);
    }
}

#[test]
fn one_of_two_shared_arrays_is_read() {
    let x = vec![3, 1, 4, 2, 5];
    let mut y = vec![0; 4];
    check!(chosen => (&x, 2, &mut y), division(1, 4, 1));
    assert_eq!(y, [63_078_007, 63_078_005, 63_078_008, 63_078_006]);
    let mut y = vec![0; 4];
    check!(chosen => (&x, 1, &mut y), division(1, 4, 1));
    assert_eq!(y, [63_078_308, 63_078_308, 63_078_108, 63_078_108]);
}
