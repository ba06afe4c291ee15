//! Warps, in kernels that give the same for any size of a warp; asynchronous device functions;
//! branches on properties of the accelerator.

use super::{check, division};
use quipu_kernel::{
    Atomics, Block, BlockAccelerator, Grid, KernelData, OwnElements, Threads, device, kernel,
    warp_shuffle_down_within, warp_shuffle_up_within, warp_shuffle_within, warp_shuffle_xor_within,
};

/// The sum of a warp's values, in each of its threads.
#[device(crate = quipu_kernel)]
async fn warp_sum(acc: &impl BlockAccelerator<1>, value: u32) -> u32 {
    let mut sum = value;
    let mut distance = acc.warp_size() / 2;
    while distance > 0 {
        sum += acc.warp_shuffle_xor(sum, distance).await;
        distance /= 2;
    }
    sum
}

/// Votes of the block's threads: their number, one, all.
#[device(crate = quipu_kernel)]
async fn votes(acc: &impl BlockAccelerator<1>, yes: bool) -> u32 {
    if acc.extent(Block, Threads)[0] == 1 {
        return yes as u32 * 111;
    }
    let count = acc.sync_block_threads_count(yes).await;
    let any = acc.sync_block_threads_or(yes).await;
    let all = acc.sync_block_threads_and(yes).await;
    count as u32 + 10 * any as u32 + 100 * all as u32
}

#[kernel(crate = quipu_kernel)]
async fn sums(
    acc: &impl BlockAccelerator<1>,
    x: &[u32],
    total: Atomics<u32>,
    mut y: OwnElements<u32>,
) {
    let mut own = 0;
    for i in acc.elements(x.len()) {
        own += x[i];
    }
    let sum = warp_sum(acc, own).await;
    let ones = acc.warp_ballot(own % 2 == 1).await.count_ones();
    let some = acc.warp_any(own % 2 == 1).await;
    let every = acc.warp_all(own % 2 == 1).await;
    // Only a warp of one thread has both or neither.
    let agree = some == every;
    let active = acc.warp_active_mask().await.count_ones();
    if acc.lane() == 0 {
        total.add(0, sum);
        total.add(1, ones);
        total.add(2, active);
    }
    let same = acc.warp_shuffle(own, acc.lane()).await;
    let voted = votes(acc, agree || acc.warp_size() > 1).await;
    for (_, y) in y.each() {
        *y = same + 1000 * voted;
    }
}

#[test]
fn runs_sums() {
    let x: Vec<u32> = (0..256).map(|i| i * i % 31).collect();
    let mut total = vec![0; 3];
    let mut y = vec![0; 128];
    check!(sums => (&x, &mut total, &mut y), division(2, 64, 2));
    assert_eq!(total[0], x.iter().sum::<u32>());
    assert_eq!(total[2], 128);
    assert_eq!(y[0], x[0] + x[1] + 1000 * 174);
}

/// Sums of groups of up to four lanes, of which the first adds each to the total.
#[kernel(crate = quipu_kernel)]
async fn groups(
    acc: &impl BlockAccelerator<1>,
    x: &[u32],
    total: Atomics<u32>,
    mut y: OwnElements<u32>,
) {
    let own = x[acc.index(Grid, Threads)[0]];
    let width = acc.warp_size().min(4);
    let (mut sum, mut distance) = (own, width / 2);
    while distance > 0 {
        sum += warp_shuffle_xor_within(acc, sum, distance, width).await;
        distance /= 2;
    }
    let place = acc.lane() % width;
    // Of no other group, so that each is the thread's own.
    let turned = warp_shuffle_within(acc, own, place + width, width).await;
    let below = warp_shuffle_up_within(acc, own, width, width).await;
    let above = warp_shuffle_down_within(acc, own, width, width).await;
    let across = warp_shuffle_xor_within(acc, own, width, width).await;
    // The neighbours' neighbours, but at the ends of a group.
    let up = warp_shuffle_up_within(acc, own, 1, width).await;
    let back = warp_shuffle_down_within(acc, up, 1, width).await;
    if place == 0 {
        total.add(0, sum);
    }
    let is_own = back == own || place + 1 == width;
    for (_, y) in y.each() {
        *y = turned + 10 * below + 100 * above + 1000 * across + 10_000 * is_own as u32;
    }
}

#[test]
fn runs_groups() {
    let x: Vec<u32> = (0..128).map(|i| i * 5 % 7).collect();
    let (mut total, mut y) = (vec![0; 1], vec![0; 128]);
    check!(groups => (&x, &mut total, &mut y), division(2, 64, 1));
    assert_eq!(total[0], x.iter().sum::<u32>());
    let expected: Vec<u32> = x.iter().map(|x| x * 1111 + 10_000).collect();
    assert_eq!(y, expected);
}

/// A place with a name, a flag, and parts of several sizes.
#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Found {
    weight: f64,
    step: Step,
    is_near: bool,
    at: [u16; 3],
    pair: Pair,
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Pair {
    low: u8,
    high: f32,
}

/// The one of an element.
#[device(crate = quipu_kernel)]
fn found(x: &[u32], i: usize) -> Found {
    let near = x[i] % 3 == 0;
    Found {
        weight: x[i] as f64 / 8.0,
        step: if near { Step::Second } else { Step::Other },
        is_near: near,
        at: [i as u16, 2 * i as u16, x[i] as u16],
        pair: Pair {
            low: x[i] as u8,
            high: x[i] as f32 / 2.0,
        },
    }
}

/// The number of parts in which two are the same.
#[device(crate = quipu_kernel)]
fn same(one: Found, other: Found) -> u32 {
    let places = (one.at == other.at) as u32 + (one.weight == other.weight) as u32;
    let kinds =
        (one.step as u32 == other.step as u32) as u32 + (one.is_near == other.is_near) as u32;
    let pairs = (one.pair.low == other.pair.low) as u32 + (one.pair.high == other.pair.high) as u32;
    places + kinds + pairs
}

/// Threads look at structs and arrays of their neighbours.
#[kernel(crate = quipu_kernel)]
async fn structs(acc: &impl BlockAccelerator<1>, x: &[u32], mut y: OwnElements<[u32; 4]>) {
    let i = acc.index(Grid, Threads)[0];
    let own = found(x, i);
    let has_neighbours = acc.warp_size() > 1;
    let across = acc.warp_shuffle_xor(own, 1).await;
    let is_across = same(across, found(x, if has_neighbours { i ^ 1 } else { i }));
    let first = warp_shuffle_within(acc, own, 0, 2).await;
    let is_first = same(first, found(x, if has_neighbours { i - i % 2 } else { i }));
    let up = acc.warp_shuffle_up([own.at[0], own.at[2]], 1).await;
    let back = acc.warp_shuffle_down(up, 1).await;
    let is_last = acc.lane() + 1 == acc.warp_size();
    let is_back = is_last || back == [own.at[0], own.at[2]];
    let is_other = !has_neighbours || across.at[0] != own.at[0];
    for (_, y) in y.each() {
        *y = [is_across, is_first, is_back as u32, is_other as u32];
    }
}

#[test]
fn runs_structs() {
    let x: Vec<u32> = (0..128).map(|i| i * 37 % 128).collect();
    let mut y = vec![[0; 4]; 128];
    check!(structs => (&x, &mut y), division(2, 64, 1));
    assert_eq!(y, [[6, 6, 1, 1]; 128]);
}

#[derive(Clone, Copy, PartialEq, Eq, bytemuck::NoUninit, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(u32)]
enum Step {
    First = 3,
    Second,
    Other = 100,
}

#[device(crate = quipu_kernel)]
fn next(step: Step, x: u32) -> Step {
    match step {
        Step::First if x > 3 => Step::Other,
        Step::First => Step::Second,
        Step::Second | Step::Other => Step::First,
    }
}

#[kernel(crate = quipu_kernel)]
async fn steps<const LONG: bool>(
    acc: &impl BlockAccelerator<1>,
    x: &[u32],
    mut y: OwnElements<u32>,
) {
    const LIMIT: u32 = 1000;
    let mut step = Step::First;
    for (i, y) in y.each() {
        assert!(x[i] < LIMIT, "numbers are small");
        step = next(step, x[i]);
        let size = match (step, LONG) {
            (Step::First, true) => 7,
            (Step::Second, _) => 20,
            (Step::Other, false) => 300,
            (first_or_other, _) => first_or_other as u32,
        };
        *y = if LONG { size * 2 } else { size };
    }
    if LONG {
        acc.sync_block_threads().await;
    }
}

#[test]
fn runs_steps() {
    let x: Vec<u32> = (0..30).map(|i| i * 7 % 10).collect();
    let mut y = vec![0; 30];
    check!(steps::<true> => (&x, &mut y), division(2, 5, 3));
    check!(steps::<false> => (&x, &mut y), division(2, 5, 3));
    assert_eq!(&y[..3], [20, 3, 300]);
}
