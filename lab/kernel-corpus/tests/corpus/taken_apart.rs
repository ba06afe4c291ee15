//! Values that are the same for all threads, bound together with others: by tuples, arrays,
//! structs, `if let`, and functions.

use super::{Passed, check, division};
use quipu_kernel::level::UNOPTIMISED;
use quipu_kernel::{
    Block, BlockAccelerator, BlockKernel, KernelData, OwnElements, SharedWrite, Threads, device,
    kernel,
};
use quipu_kernel_testing::Argument;

#[derive(Clone, Copy, bytemuck::NoUninit, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Steps {
    first: u32,
    by: u32,
}

impl Passed for Steps {
    fn argument(&self) -> Argument {
        Argument::uniform(*self)
    }
}

/// The half of an even number, and what is left of another.
#[device(crate = quipu_kernel)]
fn halved(n: usize) -> (usize, usize) {
    (n / 2, n % 2)
}

#[device(crate = quipu_kernel)]
fn even(n: u32) -> Option<u32> {
    (n % 2 == 0).then_some(n / 2)
}

/// The sum of a block's numbers, whose threads are a power of two.
#[kernel(crate = quipu_kernel)]
async fn bound_together(
    acc: &impl BlockAccelerator<1>,
    steps: Steps,
    mut y: OwnElements<u32>,
    #[shared(acc.extent(Block, Threads)[0])] mut sums: SharedWrite<u32>,
) {
    let (thread, threads) = (acc.index(Block, Threads)[0], acc.extent(Block, Threads)[0]);
    let Steps { first, by } = steps;
    let [row, of_rows] = [first, by + 1];
    sums.own()[0] = row + by * thread as u32;
    let (mut half, _) = halved(threads);
    while half > 0 {
        let read = acc.sync(sums).await;
        let other = if thread < half {
            read[thread + half]
        } else {
            0
        };
        sums = acc.sync(read).await;
        sums.own()[0] += other;
        half /= 2;
    }
    let mut rounds = if of_rows > 3 { 3 } else { of_rows };
    if let Some(more) = even(first) {
        let read = acc.sync(sums).await;
        rounds += more;
        sums = acc.sync(read).await;
    }
    for round in 0..rounds % 4 {
        sums.own()[0] += round;
        let read = acc.sync(sums).await;
        sums = acc.sync(read).await;
    }
    for (_, y) in y.each() {
        *y = sums.own()[0];
    }
}

/// A thread's index, and how many there are.
#[device(crate = quipu_kernel)]
fn place(acc: &impl BlockAccelerator<1>) -> (usize, usize) {
    if acc.extent(Block, Threads)[0] == 1 {
        return (0, 1);
    }
    (acc.index(Block, Threads)[0], acc.extent(Block, Threads)[0])
}

/// As many rounds as there are threads.
#[kernel(crate = quipu_kernel)]
async fn given_together(acc: &impl BlockAccelerator<1>, mut y: OwnElements<u32>) {
    let (thread, threads) = place(acc);
    let mut state = (thread as u32, 0_usize);
    while state.1 < threads {
        acc.sync_block_threads().await;
        state.0 += 1;
        state.1 += 1;
    }
    for (_, y) in y.each() {
        *y = state.0;
    }
}

#[test]
fn runs_bound_together() {
    const { assert!(UNOPTIMISED || <bound_together as BlockKernel<1>>::IN_PHASES) };
    for (first, by) in [(1, 1), (2, 5)] {
        let mut y = vec![0; 16];
        check!(bound_together => (Steps { first, by }, &mut y), division(2, 8, 1), 8);
        let sum = 8 * first + 28 * by;
        let rounds = (by + 1).min(3) + if first == 2 { 1 } else { 0 };
        assert_eq!(y[8], sum + (0..rounds % 4).sum::<u32>());
    }
}

#[test]
fn runs_given_together() {
    let mut y = vec![0; 8];
    check!(given_together => (&mut y), division(2, 4, 1));
    assert_eq!(y, [4, 5, 6, 7, 4, 5, 6, 7]);
}
