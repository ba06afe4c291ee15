//! Kernels whose threads go side by side between barriers: the results are those of threads that go
//! alone, also at borders and after faults.

use super::{check, division, ways};
use quipu_kernel::level::UNOPTIMISED;
use quipu_kernel::{
    Block, BlockAccelerator, BlockKernel, BlockScratch, GlobalMut, GlobalRef, Grid, KernelData,
    KernelError, OwnElements, SharedWrite, Threads, WorkDivision, device, kernel,
};
use std::borrow::Borrow;
use std::ops::Add;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// All that may be in a phase of threads that go side by side.
#[kernel(crate = quipu_kernel)]
async fn neighbours(
    acc: &impl BlockAccelerator<1>,
    rounds: u32,
    offset: usize,
    x: &[u32],
    places: GlobalRef<u32>,
    mut y: OwnElements<[u32; 3]>,
    #[shared(acc.extent(Block, Threads)[0])] mut near: SharedWrite<u32>,
    #[shared(acc.extent(Block, Threads)[0])] mut far: SharedWrite<[u32; 2]>,
) {
    let (thread, threads) = (acc.index(Block, Threads)[0], acc.extent(Block, Threads)[0]);
    let at = acc.index(Grid, Threads)[0];
    let last = x.len() - 1;
    // A thread's own element, and the next of what is read; conditions of which one changes in the
    // block.
    near.own()[0] = if at + offset < x.len() {
        x[offset + at]
    } else {
        x[last] + 7
    };
    far.own()[0] = if at >= 1 && thread < threads {
        let_be(places[at - 1], places[[at]])
    } else {
        [3, x[0]]
    };
    let (near_read, far_read) = acc.sync((near, far)).await;
    let mut sum = 1;
    let mut pair = [at as u32, 0];
    for k in 0..rounds {
        let place = thread + k as usize;
        if place < threads {
            sum += near_read[place] * (k + 1);
            pair[1] += far_read[place][0];
        } else if k as usize + 1 <= offset {
            pair[0] ^= near_read[k as usize];
        } else {
            sum = sum.wrapping_add(x[0] ^ k);
        }
    }
    for outer in 1..2 * offset {
        for inner in 0..offset {
            let factor = x[outer * inner] + 1;
            sum = sum.wrapping_mul(factor).max(far_read[thread][1]);
        }
    }
    let kept = (sum, pair[1]);
    // All are changed behind a barrier.
    near = acc.sync(near_read).await;
    near.own()[0] += kept.0;
    near.own()[0] ^= near.own()[0] >> 3;
    for (_, y) in y.each() {
        *y = [near.own()[0], kept.1, pair[0]];
    }
}

#[device(crate = quipu_kernel)]
fn let_be(a: u32, b: u32) -> [u32; 2] {
    [a, b]
}

#[test]
fn runs_neighbours() {
    const { assert!(UNOPTIMISED || <neighbours as BlockKernel<1>>::IN_PHASES) };
    for (blocks, threads, rounds, offset, length) in [
        (2, 5, 3, 0, 10),
        (1, 16, 0, 0, 1),
        (3, 16, 20, 3, 96),
        (2, 33, 9, 2, 63),
        (2, 40, 20, 1, 80),
    ] {
        let threads_u64 = threads as u64;
        let places: Vec<u32> = (0..80).map(|i| i * 13 % 17).collect();
        let x: Vec<u32> = (0..length.max(40)).map(|i| i * 7 % 31).collect();
        let mut y = vec![[0; 3]; blocks * threads];
        check!(neighbours => (rounds, offset, &x, &places, &mut y), division(blocks, threads, 1), threads_u64, threads_u64);
    }
}

/// Shares of several elements, and of none for some threads.
#[kernel(crate = quipu_kernel)]
async fn shares(
    acc: &impl BlockAccelerator<1>,
    length: u32,
    mut y: OwnElements<u32>,
    #[shared(length as usize)] mut a: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    a.own()[0] = thread as u32 + 1;
    let read = acc.sync(a).await;
    let mut sum = 0;
    for k in 0..length {
        sum += read[k as usize] * (k + 1);
    }
    acc.sync_block_threads().await;
    for (_, y) in y.each() {
        *y = sum;
    }
}

#[test]
fn runs_shares() {
    const { assert!(UNOPTIMISED || <shares as BlockKernel<1>>::IN_PHASES) };
    for length in [32, 64, 96] {
        let mut y = vec![0; 64];
        check!(shares => (length, &mut y), division(2, 32, 1), u64::from(length));
    }
}

/// A thread without an element of its own, and an index outside: which is found as where threads go
/// alone.
#[test]
fn own_elements_that_are_not_there_are_found() {
    let mut y = vec![0; 64];
    let said: Vec<_> = ways()
        .map(|mut scratch| {
            let run = || shares(40, &mut y).run_in(division(2, 32, 1), &mut scratch);
            catch_unwind(AssertUnwindSafe(run)).is_ok_and(|run| run.is_ok())
        })
        .collect();
    assert!(!said.contains(&true), "{said:?}");
}

/// Indices that fail in one thread of many, in one round.
#[kernel(crate = quipu_kernel)]
async fn outside(
    acc: &impl BlockAccelerator<1>,
    stride: usize,
    first: i32,
    end: i32,
    x: &[u32],
    mut y: OwnElements<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    let mut sum = 0_u32;
    for k in first..end {
        sum = sum.wrapping_mul(3) + x[k as usize * stride + thread - 2];
    }
    acc.sync_block_threads().await;
    for (_, y) in y.each() {
        *y = sum;
    }
}

#[test]
fn indices_outside_are_found() {
    const { assert!(UNOPTIMISED || <outside as BlockKernel<1>>::IN_PHASES) };
    let x: Vec<u32> = (0..100).collect();
    let runs = |stride, first, end| {
        ways().map(move |mut scratch| {
            let (x, mut y) = ((0..100).collect::<Vec<u32>>(), vec![0; 32]);
            let run =
                || outside(stride, first, end, &x, &mut y).run_in(division(1, 32, 1), &mut scratch);
            let done = catch_unwind(AssertUnwindSafe(run));
            (done.is_ok_and(|run| run.is_ok()), y)
        })
    };
    let at = |k: usize, stride: usize, thread: usize| k * stride + thread - 2;
    for (stride, first, end, is_right) in [
        (2, 1, 35, true),
        (2, 1, 36, true),
        (2, 1, 37, false),
        (2, 0, 3, false),
        (1, 2, 3, true),
        (2, -1, 3, false),
        (0, -1, 2, false),
        (usize::MAX / 2, 1, 4, false),
        (7, 5, 5, true),
        (7, 5, -5, true),
    ] {
        for (done, y) in runs(stride, first, end) {
            assert_eq!(done, is_right, "{stride} {first}..{end}");
            if !done {
                continue;
            }
            for (thread, y) in y.into_iter().enumerate() {
                let sum = (first..end).fold(0_u32, |sum, k| {
                    sum.wrapping_mul(3) + x[at(k as usize, stride, thread)]
                });
                assert_eq!(y, sum, "{stride} {first}..{end} {thread}");
            }
        }
    }
}

/// Two dimensions, whose borders are in blocks, and an element type whose arithmetic is not exact.
#[kernel(crate = quipu_kernel)]
async fn product<const TILE: usize>(
    acc: &impl BlockAccelerator<2>,
    a: GlobalRef<f32, 2>,
    b: GlobalRef<f32, 2>,
    mut c: OwnElements<f32, 2>,
    #[shared(TILE * TILE)] mut a_tile: SharedWrite<f32>,
    #[shared(TILE * TILE)] mut b_tile: SharedWrite<f32>,
) {
    let (rows, inner, columns) = (a.extent()[0], b.extent()[0], b.extent()[1]);
    let (row, column) = (acc.index(Grid, Threads)[0], acc.index(Grid, Threads)[1]);
    let thread = acc.thread_index();
    let (i, j) = (acc.thread_index()[0], acc.index(Block, Threads)[1]);
    let mut sum = 0.25;
    for tile in 0..inner.div_ceil(TILE) {
        let (across, down) = (tile * TILE + j, tile * TILE + i);
        a_tile.own()[0] = if row < rows && across < inner {
            a[[row, across]]
        } else {
            0.0
        };
        b_tile.own()[0] = if down < inner && columns > column {
            b[[down, column]]
        } else {
            0.0
        };
        let (a_read, b_read) = acc.sync((a_tile, b_tile)).await;
        for k in 0..TILE {
            sum += a_read[i * TILE + k] * b_read[k * TILE + j];
        }
        (a_tile, b_tile) = acc.sync((a_read, b_read)).await;
    }
    for (_, c) in c.each() {
        *c = sum + thread[1] as f32;
    }
}

#[test]
fn runs_product() {
    const { assert!(UNOPTIMISED || <product<16> as BlockKernel<2>>::IN_PHASES) };
    fn run<const TILE: usize>([rows, inner, columns]: [usize; 3]) {
        let a: Vec<f32> = (0..rows * inner).map(|i| (i % 7) as f32 / 8.0).collect();
        let b: Vec<f32> = (0..inner * columns).map(|i| (i % 5) as f32).collect();
        let blocks = [rows.div_ceil(TILE), columns.div_ceil(TILE)];
        let division = WorkDivision::new(blocks, [TILE, TILE], [1, 1]).unwrap();
        let a_view = GlobalRef::from(&a).in_strides([rows, inner], [inner, 1]);
        let b_view = GlobalRef::from(&b).in_strides([inner, columns], [columns, 1]);
        let (a_view, b_view) = (a_view.unwrap(), b_view.unwrap());
        for mut scratch in ways() {
            let mut c = vec![0.0; rows * columns];
            let output = GlobalMut::from(&mut c).in_extent([rows, columns]).unwrap();
            product::<TILE>(a_view, b_view, output)
                .run_in(division, &mut scratch)
                .unwrap();
            for (at, c) in c.into_iter().enumerate() {
                let (i, j) = (at / columns, at % columns);
                let sum = (0..inner).map(|k| a[i * inner + k] * b[k * columns + j]);
                let sum = sum.fold(0.25, |sum, product| sum + product) + (j % TILE) as f32;
                assert_eq!(c.to_bits(), sum.to_bits(), "{scratch:?} {i} {j}");
            }
        }
    }
    run::<16>([32, 32, 32]);
    run::<16>([17, 33, 31]);
    run::<16>([5, 48, 40]);
    run::<20>([21, 20, 39]);
}

/// The number of ways to run a kernel in which it comes to its end. In the others it fails, as an
/// index is outside.
fn ends(run: impl Fn(&mut BlockScratch) -> Result<(), KernelError>) -> usize {
    ways()
        .filter_map(|mut scratch| catch_unwind(AssertUnwindSafe(|| run(&mut scratch))).ok())
        .filter(Result::is_ok)
        .count()
}

/// In the rounds, an array of the name of a parameter.
#[kernel(crate = quipu_kernel)]
async fn hidden_view(
    acc: &impl BlockAccelerator<1>,
    n: usize,
    x: &[u32],
    mut y: OwnElements<u32>,
    #[shared(32)] mut s: SharedWrite<u32>,
) {
    let thread = acc.thread_index()[0];
    let first = x[0];
    for k in 0..n {
        let x = [1, 2, 3, 4];
        s.own()[0] += x[k] + first;
    }
    let s = acc.sync(s).await;
    for (_, y) in y.each() {
        *y = s[thread];
    }
}

/// The same of an array that is shared.
#[kernel(crate = quipu_kernel)]
async fn hidden_array(
    acc: &impl BlockAccelerator<1>,
    n: usize,
    mut y: OwnElements<u32>,
    #[shared(32)] mut s: SharedWrite<u32>,
) {
    let thread = acc.thread_index()[0];
    s.own()[0] = thread as u32;
    let read = acc.sync(s).await;
    let mut sum = read[thread];
    for k in 0..n {
        let read = [1, 2, 3, 4];
        sum += read[k];
    }
    acc.sync_block_threads().await;
    for (_, y) in y.each() {
        *y = sum;
    }
}

/// Of what an index is made that is computed again, and of the accelerator.
#[kernel(crate = quipu_kernel)]
async fn hidden_parts(
    acc: &impl BlockAccelerator<1>,
    n: usize,
    x: &[u32],
    mut y: OwnElements<u32>,
) {
    let thread = acc.thread_index()[0];
    let place = thread + n;
    let mut sum = 0;
    for k in 0..n {
        let thread = k * 100;
        sum += x[place] + x[thread];
    }
    for k in 0..n {
        let acc = [[k, 7]];
        sum += acc[0][1] as u32;
    }
    acc.sync_block_threads().await;
    for (_, y) in y.each() {
        *y = sum + thread as u32;
    }
}

#[test]
fn names_that_hide_others_mean_what_rustc_says() {
    const { assert!(UNOPTIMISED || <hidden_view as BlockKernel<1>>::IN_PHASES) };
    const { assert!(UNOPTIMISED || <hidden_array as BlockKernel<1>>::IN_PHASES) };
    const { assert!(UNOPTIMISED || <hidden_parts as BlockKernel<1>>::IN_PHASES) };
    let x = vec![5; 1000];
    let mut y = vec![0; 64];
    check!(hidden_view => (4_usize, &x, &mut y), division(2, 32, 1));
    assert_eq!(y, [30; 64]);
    check!(hidden_array => (4_usize, &mut y), division(2, 32, 1));
    assert_eq!(y[..3], [10, 11, 12]);
    check!(hidden_parts => (4_usize, &x, &mut y), division(2, 32, 1));
    assert_eq!(y[..3], [68, 69, 70]);
    let division = division(2, 32, 1);
    let view = |scratch: &mut BlockScratch| {
        hidden_view(12, &x, &mut vec![0; 64]).run_in(division, scratch)
    };
    assert_eq!(ends(view), 0);
    let array =
        |scratch: &mut BlockScratch| hidden_array(12, &mut vec![0; 64]).run_in(division, scratch);
    assert_eq!(ends(array), 0);
    let parts = |scratch: &mut BlockScratch| {
        hidden_parts(12, &x, &mut vec![0; 64]).run_in(division, scratch)
    };
    assert_eq!(ends(parts), 0);
}

/// A value whose sums are its own, and that lends another number.
#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Far {
    by: u64,
}

impl Borrow<usize> for Far {
    fn borrow(&self) -> &usize {
        &0
    }
}

#[device(crate = quipu_kernel)]
impl Add<usize> for Far {
    type Output = usize;

    fn add(self, other: usize) -> usize {
        other + self.by as usize
    }
}

#[kernel(crate = quipu_kernel)]
async fn far_away(
    acc: &impl BlockAccelerator<1>,
    far: Far,
    x: &[u32],
    mut y: OwnElements<u32>,
    #[shared(32)] mut s: SharedWrite<u32>,
) {
    let thread = acc.thread_index()[0];
    s.own()[0] = x[far + thread];
    let s = acc.sync(s).await;
    for (_, y) in y.each() {
        *y = s[thread];
    }
}

/// Indices that are lent.
#[kernel(crate = quipu_kernel)]
async fn lent(acc: &impl BlockAccelerator<1>, n: usize, x: &[u32], mut y: OwnElements<u32>) {
    let thread = acc.thread_index()[0];
    let lent = &n;
    let mut sum = 0;
    for k in 0..4 {
        sum += x[lent + thread] * k;
    }
    acc.sync_block_threads().await;
    for (_, y) in y.each() {
        *y = sum;
    }
}

#[test]
fn operators_mean_what_rustc_says() {
    const { assert!(UNOPTIMISED || <far_away as BlockKernel<1>>::IN_PHASES) };
    const { assert!(UNOPTIMISED || <lent as BlockKernel<1>>::IN_PHASES) };
    let x: Vec<u32> = (0..64).collect();
    let division = division(1, 32, 1);
    let mut y = vec![0; 32];
    far_away(Far { by: 3 }, &x, &mut y).run(division).unwrap();
    assert_eq!(y[..3], [3, 4, 5]);
    lent(2, &x, &mut y).run(division).unwrap();
    assert_eq!(y[..3], [12, 18, 24]);
    for by in [1 << 20, 1 << 40] {
        let run = |scratch: &mut BlockScratch| {
            far_away(Far { by }, &x, &mut vec![0; 32]).run_in(division, scratch)
        };
        assert_eq!(ends(run), 0);
    }
    let run = |scratch: &mut BlockScratch| lent(33, &x, &mut vec![0; 32]).run_in(division, scratch);
    assert_eq!(ends(run), 0);
}

mod renamed {
    pub(super) use quipu_kernel::Threads as Blocks;
    pub(super) type GlobalRef<'t, T> = quipu_kernel::OwnBlock<'t, T>;
}

/// An index of threads that is called one of blocks.
#[kernel(crate = quipu_kernel)]
async fn other_units(
    acc: &impl BlockAccelerator<1>,
    x: &[u32],
    mut y: OwnElements<u32>,
    #[shared(16)] mut s: SharedWrite<u32>,
) {
    let thread = acc.thread_index()[0];
    let at = acc.index(Grid, renamed::Blocks)[0];
    s.own()[0] = x[(15 - at) * acc.index(Grid, renamed::Blocks)[0] + thread];
    let s = acc.sync(s).await;
    for (_, y) in y.each() {
        *y = s[thread] + at as u32;
    }
}

/// A thread's share of memory, under the name of what all threads read.
#[kernel(crate = quipu_kernel)]
async fn other_views(acc: &impl BlockAccelerator<1>, y: renamed::GlobalRef<u32>) {
    let thread = acc.thread_index()[0];
    acc.sync_block_threads().await;
    y[0] = thread as u32;
}

#[test]
fn types_are_asked_for_themselves() {
    const { assert!(!<other_units as BlockKernel<1>>::IN_PHASES) };
    const { assert!(!<other_views as BlockKernel<1>>::IN_PHASES) };
    let x: Vec<u32> = (0..128).collect();
    let mut y = vec![0; 16];
    check!(other_units => (&x, &mut y), division(1, 16, 1));
    let expected: Vec<u32> = (0..16).map(|at| (15 - at) * at + 2 * at).collect();
    assert_eq!(y, expected);
    for mut scratch in ways() {
        let mut y = vec![100; 16];
        let run = other_views(&mut y).run_in(division(1, 16, 1), &mut scratch);
        run.unwrap();
        assert!(y.into_iter().eq(0..16));
    }
    let run = |scratch: &mut BlockScratch| {
        other_units(&x[..16], &mut vec![0; 16]).run_in(division(1, 16, 1), scratch)
    };
    assert_eq!(ends(run), 0);
}
