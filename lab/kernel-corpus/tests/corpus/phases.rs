//! Kernels with barriers that are run phase by phase, and such that are not: each does natively
//! what it does in the test modes, where threads are state machines, and printed.

use super::{check, division};
use quipu_kernel::level::UNOPTIMISED;
use quipu_kernel::{
    Atomics, Block, BlockAccelerator, BlockKernel, Blocks, Elements, GlobalMut, GlobalRef, Grid,
    OwnBlock, OwnElements, Philox, RawMut, SharedAtomics, SharedRead, SharedWrite, Threads,
    WorkDivision, device, kernel,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Variables of each kind, in nested loops.
#[kernel(crate = quipu_kernel)]
async fn variables(
    acc: &impl BlockAccelerator<1>,
    rounds: u32,
    x: &[u32],
    mut y: OwnElements<[u32; 4]>,
    #[shared(acc.extent(Block, Threads)[0])] mut ring: SharedWrite<u32>,
) {
    // Computed again.
    let thread = acc.index(Block, Threads)[0];
    let threads = acc.extent(Block, Threads)[0];
    let (before, behind) = ((thread + threads - 1) % threads, (thread + 1) % threads);
    // Uniform, and it changes.
    let mut left = rounds;
    let mut factor = x[rounds as usize % x.len()];
    // Kept, and some of it changes.
    let first = x[acc.index(Grid, Threads)[0] % x.len()];
    let (mut even, mut odd) = (first, 1);
    let mut changes = [0, 0];
    while left > 0 {
        ring.own()[0] = even + left * factor;
        let read = acc.sync(ring).await;
        let neighbour = read[behind];
        ring = acc.sync(read).await;
        // In a phase of its own name's.
        let half = left / 2;
        for step in 0..half {
            ring.own()[0] = neighbour ^ step;
            let ring_read = acc.sync(ring).await;
            if ring_read[before] % 3 == 0 {
                (even, odd) = (odd, even);
                changes[step as usize % 2] += 1;
            }
            ring = acc.sync(ring_read).await;
        }
        even = even.wrapping_mul(factor) % 1000 + first;
        factor += half;
        left -= 1;
    }
    for (_, y) in y.each() {
        *y = [even, odd, changes[0], changes[1]];
    }
}

#[test]
fn runs_variables() {
    const { assert!(UNOPTIMISED || <variables as BlockKernel<1>>::IN_PHASES) };
    let x: Vec<u32> = (0..23).map(|i| i * 7 % 31).collect();
    for rounds in [0, 1, 2, 7] {
        let mut y = vec![[0; 4]; 15];
        check!(variables => (rounds, &x, &mut y), division(3, 5, 1), 5);
    }
}

#[device(crate = quipu_kernel)]
fn filled(mut array: SharedWrite<u32>, with: u32) -> SharedWrite<u32> {
    if with == 0 {
        return array;
    }
    for value in array.own() {
        *value = with;
    }
    return array;
}

#[device(crate = quipu_kernel)]
fn same(array: SharedRead<u32>) -> SharedRead<u32> {
    return array;
}

/// Arrays that `return` and `break` give, from some places the same.
#[kernel(crate = quipu_kernel)]
async fn given(
    acc: &impl BlockAccelerator<1>,
    with: u32,
    mut y: OwnElements<u32>,
    #[shared(6)] a: SharedWrite<u32>,
    #[shared(3)] b: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0] as u32;
    let (a, b) = (filled(a, with), filled(b, thread + 10));
    let (a, b) = acc.sync((a, b)).await;
    let a = 'a: {
        if with > 5 {
            break 'a a;
        }
        same(a)
    };
    let mut rounds = 0;
    let b = loop {
        rounds += 1;
        if rounds > with {
            break b;
        }
        if rounds == 7 {
            break b;
        }
    };
    for (_, y) in y.each() {
        *y = a[thread as usize] + 100 * b[b.len() - 1] + rounds;
    }
}

#[test]
fn runs_given() {
    for with in [0, 3, 9] {
        let mut y = vec![0; 6];
        check!(given => (with, &mut y), division(2, 3, 1));
        let rounds = (with + 1).min(7);
        assert_eq!(y, [with + 1200 + rounds; 6]);
    }
}

/// Arrays whose handles hide each other and change places, of shares of several sizes, of which
/// some threads have none.
#[kernel(crate = quipu_kernel)]
async fn names(
    acc: &impl BlockAccelerator<1>,
    length: u32,
    mut y: OwnElements<u32>,
    sums: OwnBlock<u32>,
    #[shared(length as usize)] mut a: SharedWrite<u32>,
    #[shared(2 * acc.extent(Block, Threads)[0])] mut b: SharedWrite<u32>,
    #[shared(2)] count: SharedAtomics<u32>,
) {
    let thread = acc.index(Block, Threads)[0] as u32;
    for value in a.own() {
        *value = thread + 1;
    }
    for value in b.own() {
        *value = 10 * thread;
    }
    let (a, b) = acc.sync((a, b)).await;
    let mut sum = 0;
    for value in a.iter() {
        sum += value;
    }
    count.add(0, sum + b[b.len() - 1]);
    let (mut b, mut a) = acc.sync((b, a)).await;
    for value in b.own() {
        *value += sum;
    }
    for value in a.own() {
        *value *= 2;
    }
    acc.sync_block_threads().await;
    let counted = count.load(0);
    let b_read = acc.sync(b).await;
    let a_read = acc.sync(a).await;
    for (_, y) in y.each() {
        *y = counted
            + length
            + 3 * b_read[thread as usize]
            + 5 * a_read[0]
            + a_read[a_read.len() - 1];
    }
    if !sums.is_empty() {
        sums[0] = count.load(0) - counted + count.load(1) + acc.index(Grid, Blocks)[0] as u32;
    }
}

#[test]
fn runs_names() {
    const { assert!(UNOPTIMISED || <names as BlockKernel<1>>::IN_PHASES) };
    for length in [1, 3, 4, 7, 8] {
        let (mut y, mut sums) = (vec![0; 12], vec![0; 3]);
        check!(names => (length, &mut y, &mut sums), division(3, 4, 1), u64::from(length), 8);
        assert_eq!(sums, [0, 1, 2], "{length}");
    }
}

/// Loops over ranges of each kind, of which one is empty, and what threads do to memory by unsafe
/// means.
#[kernel(crate = quipu_kernel)]
async fn ranges(acc: &impl BlockAccelerator<1>, n: usize, y: RawMut<u32>, all: Atomics<u32>) {
    let place = acc.index(Grid, Threads)[0];
    let threads = acc.extent(Block, Threads)[0];
    let last = place - acc.index(Block, Threads)[0] + threads - 1;
    for step in (0..n).step_by(2) {
        // SAFETY: the element is this thread's own until the next barrier.
        let before = unsafe { y.read(place) };
        acc.sync_block_threads().await;
        if place == last {
            for at in 0..threads {
                // SAFETY: no other thread does anything.
                unsafe { y.write(last - at, before + step as u32 + at as u32) };
            }
        }
        acc.sync_block_threads().await;
    }
    for step in (1..n).rev() {
        for inner in step..2 {
            acc.sync_block_threads().await;
            all.add(0, (step * inner) as u32);
        }
    }
}

#[test]
fn runs_ranges() {
    const { assert!(UNOPTIMISED || <ranges as BlockKernel<1>>::IN_PHASES) };
    for n in [0, 1, 2, 5] {
        let (mut y, mut all) = (vec![0; 8], vec![0]);
        check!(ranges => (n, &mut y, &mut all), division(2, 4, 1));
        assert_eq!(all, [if n > 1 { 8 } else { 0 }]);
    }
}

/// The number of the thread in its block, and the sum of its neighbours' along the last dimension.
#[kernel(crate = quipu_kernel)]
async fn positions<const D: usize>(
    acc: &impl BlockAccelerator<3>,
    from: GlobalRef<u32, 3>,
    mut y: OwnElements<u32, 3>,
    #[shared(64)] mut tile: SharedWrite<u32>,
) {
    let (rows, columns) = (acc.extent(Block, Threads)[1], acc.extent(Block, Threads)[2]);
    let thread = acc.thread_index();
    let (i, j, k) = (thread[0], thread[1], thread[2]);
    let number = (i * rows + j) * columns + k;
    for value in tile.own() {
        *value = from[[i, j, k]] * 100 + number as u32;
    }
    let read = acc.sync(tile).await;
    let share = 64 / (rows * columns * acc.extent(Block, Threads)[0]);
    for (_, y) in y.each() {
        *y = read[number * share] + D as u32 * read[(number - k + (k + 1) % columns) * share];
    }
}

/// Threads are where they are in all dimensions, and have the share of the array that is theirs.
#[test]
fn phases_have_all_dimensions() {
    const { assert!(UNOPTIMISED || <positions<2> as BlockKernel<3>>::IN_PHASES) };
    let from: Vec<u32> = (0..32).collect();
    let division = WorkDivision::new([2, 1, 2], [2, 4, 2], [1, 1, 1]).unwrap();
    let number = |[i, j, k]: [u32; 3]| (i * 4 + j) * 2 + k;
    for mut scratch in super::ways() {
        let mut y = vec![0; 4 * 4 * 4];
        let view = GlobalRef::from(&from).in_strides([2, 4, 2], [8, 2, 1]);
        let output = GlobalMut::from(&mut y).in_extent([4, 4, 4]);
        positions::<2>(view.unwrap(), output.unwrap())
            .run_in(division, &mut scratch)
            .unwrap();
        for (at, y) in (0..).zip(y) {
            let (i, j, k) = (at / 16 % 2, at / 4 % 4, at % 2);
            let value = |[i, j, k]: [u32; 3]| number([i, j, k]) * 101;
            assert_eq!(
                y,
                value([i, j, k]) + 2 * value([i, j, (k + 1) % 2]),
                "{scratch:?} {at}"
            );
        }
    }
}

#[device(crate = quipu_kernel)]
fn first(x: &[u32]) -> u32 {
    x[0]
}

/// What lends something is not kept: so threads are state machines.
#[kernel(crate = quipu_kernel)]
async fn keeps_slices(acc: &impl BlockAccelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    let thread = acc.index(Block, Threads)[0];
    let part = &x[thread..];
    acc.sync_block_threads().await;
    for (_, y) in y.each() {
        *y = first(part);
    }
}

#[test]
fn runs_keeps_slices() {
    const { assert!(!<keeps_slices as BlockKernel<1>>::IN_PHASES) };
    let (x, mut y) = (vec![3, 1, 4, 1], vec![0; 8]);
    check!(keeps_slices => (&x, &mut y), division(2, 4, 1));
    assert_eq!(y, [3, 1, 4, 1, 3, 1, 4, 1]);
}

/// A variable that is more than plain data, and one that a method changes.
#[kernel(crate = quipu_kernel)]
async fn keeps_outputs(
    acc: &impl BlockAccelerator<1>,
    seed: u32,
    y: OwnElements<u32>,
    #[shared(acc.extent(Block, Threads)[0])] a: SharedWrite<u32>,
) {
    let mut out = y;
    let mut array = a;
    array.own()[0] = seed;
    acc.sync_block_threads().await;
    for (_, y) in out.each() {
        *y = array.own()[0];
    }
}

#[test]
fn runs_keeps_outputs() {
    const { assert!(!<keeps_outputs as BlockKernel<1>>::IN_PHASES) };
    let mut y = vec![0; 8];
    check!(keeps_outputs => (7, &mut y), division(2, 4, 1), 4);
    assert_eq!(y, [7; 8]);
}

/// The same for all at first, until each thread changes it.
#[kernel(crate = quipu_kernel)]
async fn draws(acc: &impl BlockAccelerator<1>, seed: u32, mut y: OwnElements<u32>) {
    let mut words = Philox::new(seed as u64, 0);
    acc.sync_block_threads().await;
    let first = words.next_u32();
    acc.sync_block_threads().await;
    for (_, y) in y.each() {
        *y = first ^ words.next_u32();
    }
}

#[test]
fn runs_draws() {
    let mut y = vec![0; 8];
    check!(draws => (3_u32, &mut y), division(2, 4, 1));
    assert_eq!(y, [y[0]; 8]);
}

/// A barrier for all threads or none, in a condition.
#[kernel(crate = quipu_kernel)]
async fn conditional(acc: &impl BlockAccelerator<1>, n: u32, mut y: OwnElements<u32>) {
    let mut sum = 0;
    if n > 2 {
        acc.sync_block_threads().await;
        sum += n;
    }
    for (_, y) in y.each() {
        *y = sum;
    }
}

/// A loop that threads leave.
#[kernel(crate = quipu_kernel)]
async fn leaves(acc: &impl BlockAccelerator<1>, n: u32, mut y: OwnElements<u32>) {
    let mut left = n;
    while left > 0 {
        acc.sync_block_threads().await;
        for (_, y) in y.each() {
            *y += left;
        }
        if left == 3 {
            break;
        }
        left -= 1;
    }
}

/// Branches that all threads take or none, some with barriers, some around loops, of values of each
/// kind.
#[kernel(crate = quipu_kernel)]
async fn branches(
    acc: &impl BlockAccelerator<1>,
    which: u32,
    x: &[u32],
    mut y: OwnElements<u32>,
    #[shared(acc.extent(Block, Threads)[0])] mut ring: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    let behind = (thread + 1) % acc.extent(Block, Threads)[0];
    let mut own = x[acc.index(Grid, Threads)[0] % x.len()];
    let mut rounds = 1;
    if which == 0 {
        rounds = 3;
        ring.own()[0] = own;
        let read = acc.sync(ring).await;
        own += 10 * read[behind];
        ring = acc.sync(read).await;
    } else if which == 1 {
        let before = own;
        for step in 0..which + 2 {
            ring.own()[0] = own + step;
            let read = acc.sync(ring).await;
            own = read[behind];
            if which + step == 2 {
                own += 100;
                acc.sync_block_threads().await;
            }
            ring = acc.sync(read).await;
        }
        own = own * 1000 + before;
    } else {
        // None, which all threads come to as well.
        own *= 2;
    }
    // Behind it an array is in the phase in which it was before.
    ring.own()[0] = own + rounds;
    let read = acc.sync(ring).await;
    for (_, y) in y.each() {
        *y = read[behind];
    }
}

#[test]
fn runs_branches() {
    const { assert!(UNOPTIMISED || <branches as BlockKernel<1>>::IN_PHASES) };
    let x: Vec<u32> = (0..8).map(|i| i * i + 1).collect();
    for which in 0..3 {
        let mut y = vec![0; 8];
        check!(branches => (which, &x, &mut y), division(2, 4, 1), 4);
        let expected = |block: usize, thread: usize| {
            let at = |thread: usize| x[block * 4 + thread % 4];
            let own = |thread: usize| match which {
                0 => at(thread) + 10 * at(thread + 1) + 3,
                1 => (at(thread + 3) + 103) * 1000 + at(thread) + 1,
                _ => 2 * at(thread) + 1,
            };
            own((thread + 1) % 4)
        };
        for (i, y) in y.into_iter().enumerate() {
            assert_eq!(y, expected(i / 4, i % 4), "{which}, {i}");
        }
    }
}

/// A loop without a head, rounds that end early, and an end in the middle of one, where an array is
/// being read.
#[kernel(crate = quipu_kernel)]
async fn leaves_in_the_middle(
    acc: &impl BlockAccelerator<1>,
    n: u32,
    mut y: OwnElements<u32>,
    #[shared(acc.extent(Block, Threads)[0])] mut ring: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    let behind = (thread + 1) % acc.extent(Block, Threads)[0];
    let mut sum = thread as u32;
    let mut step = 0;
    loop {
        step += 1;
        if step % 3 == 0 {
            continue;
        }
        ring.own()[0] = sum + step;
        let read = acc.sync(ring).await;
        sum += read[behind];
        if step > n {
            break;
        }
        ring = acc.sync(read).await;
    }
    for (_, y) in y.each() {
        *y = sum;
    }
}

#[test]
fn runs_conditions_and_ends_of_loops_for_all_threads() {
    const { assert!(UNOPTIMISED || <conditional as BlockKernel<1>>::IN_PHASES) };
    let mut y = vec![1; 8];
    for n in [2, 3] {
        check!(conditional => (n, &mut y), division(2, 4, 1));
        assert_eq!(y, [if n > 2 { n } else { 0 }; 8]);
    }
    const { assert!(UNOPTIMISED || <leaves as BlockKernel<1>>::IN_PHASES) };
    let mut y = vec![0; 8];
    check!(leaves => (5, &mut y), division(2, 4, 1));
    assert_eq!(y, [12; 8]);
    const { assert!(UNOPTIMISED || <leaves_in_the_middle as BlockKernel<1>>::IN_PHASES) };
    for n in [0, 3, 7] {
        check!(leaves_in_the_middle => (n, &mut y), division(2, 4, 1), 4);
        let mut sums = [0_u32, 1, 2, 3];
        for step in (1_u32..).filter(|step| !step.is_multiple_of(3)) {
            let ring = sums.map(|sum| sum + step);
            sums = std::array::from_fn(|thread| sums[thread] + ring[(thread + 1) % 4]);
            if step > n {
                break;
            }
        }
        assert_eq!(y, [sums, sums].concat());
    }
}

/// All threads go round equally often, but that is not to be seen.
#[kernel(crate = quipu_kernel)]
async fn unseen(acc: &impl BlockAccelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    let thread = acc.index(Block, Threads)[0];
    // SAFETY: of thread 0 it is `x[0]`, and each next element is greater by one.
    let rounds = unsafe { acc.assume_uniform(x[thread] - thread as u32) };
    for (_, y) in y.each() {
        *y = 0;
    }
    for step in 0..rounds {
        acc.sync_block_threads().await;
        for (_, y) in y.each() {
            *y += step;
        }
    }
}

/// Asks something of what all threads are passed, and then makes use of it.
#[kernel(crate = quipu_kernel)]
async fn asked(
    acc: &impl BlockAccelerator<1>,
    n: u32,
    x: &[u32],
    mut y: OwnElements<u32>,
    #[shared(acc.extent(Block, Threads)[0])] mut all: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    all.own()[0] = thread as u32;
    assert!(acc.extent(Block, Threads)[0] == 4, "blocks of four threads"); // asked
    assert_ne!(n as usize, 2, "no 2");
    assert_eq!(
        acc.extent(Block, Elements)[0],
        acc.extent(Block, Threads)[0]
    );
    assert_eq!(n < 100, x.len() < 100, "both are few");
    assert!((n as usize) < x.len());
    let more = x[n as usize];
    let read = acc.sync(all).await;
    let next = read[(thread + 1) % 4] + more;
    for (_, y) in y.each() {
        *y = next;
    }
}

/// Asks something of each thread.
#[kernel(crate = quipu_kernel)]
async fn asked_each(acc: &impl BlockAccelerator<1>, most: usize, mut y: OwnElements<u32>) {
    assert!(acc.index(Block, Threads)[0] <= most);
    acc.sync_block_threads().await;
    for (i, y) in y.each() {
        *y = i as u32;
    }
}

#[test]
fn runs_assertions() {
    const { assert!(UNOPTIMISED || <asked as BlockKernel<1>>::IN_PHASES) };
    const { assert!(!<asked_each as BlockKernel<1>>::IN_PHASES) };
    let (x, mut y) = (vec![10], vec![1; 8]);
    check!(asked => (0, &x, &mut y), division(2, 4, 1), 4);
    assert_eq!(y, [11, 12, 13, 10, 11, 12, 13, 10]);
    check!(asked_each => (3_usize, &mut y), division(2, 4, 1));
    assert_eq!(y, [0, 1, 2, 3, 4, 5, 6, 7]);
    // The words are those of the first that does not hold, before what it guards.
    for (threads, n, words) in [
        (2, 1, "blocks of four threads"),
        (4, 1, "assertion failed: (n as usize) < x.len()"),
    ] {
        let launch = || asked(n, &x, &mut y).run(division(2, threads, 1));
        let panic = catch_unwind(AssertUnwindSafe(launch)).unwrap_err();
        let said = panic.downcast_ref::<&str>().unwrap();
        assert_eq!(*said, words);
    }
}

/// All threads take the branch, but that is not to be seen.
#[kernel(crate = quipu_kernel)]
async fn parted(acc: &impl BlockAccelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    let mut sum = 0;
    // SAFETY: all elements are equal.
    if unsafe { acc.assume_uniform(x[acc.index(Block, Threads)[0]] > 0) } {
        acc.sync_block_threads().await;
        sum += 1;
    }
    for (_, y) in y.each() {
        *y = sum;
    }
}

/// Two variables of one name.
#[kernel(crate = quipu_kernel)]
async fn hidden(acc: &impl BlockAccelerator<1>, n: u32, mut y: OwnElements<u32>) {
    let sum = n + acc.index(Block, Threads)[0] as u32;
    acc.sync_block_threads().await;
    let sum = sum * 2;
    acc.sync_block_threads().await;
    for (_, y) in y.each() {
        *y = sum;
    }
}

#[test]
fn runs_what_is_not_in_phases() {
    const { assert!(!<unseen as BlockKernel<1>>::IN_PHASES) };
    let (x, mut y) = (vec![5, 6, 7, 8], vec![1; 8]);
    check!(unseen => (&x, &mut y), division(2, 4, 1));
    assert_eq!(y, [10; 8]);
    const { assert!(!<hidden as BlockKernel<1>>::IN_PHASES) };
    check!(hidden => (1, &mut y), division(2, 4, 1));
    assert_eq!(y, [2, 4, 6, 8, 2, 4, 6, 8]);
    const { assert!(!<parted as BlockKernel<1>>::IN_PHASES) };
    let (x, mut y) = (vec![1, 1, 1, 1], vec![0; 8]);
    check!(parted => (&x, &mut y), division(2, 4, 1));
    assert_eq!(y, [1; 8]);
}
