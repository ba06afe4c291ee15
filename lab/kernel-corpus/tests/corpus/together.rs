//! Barriers and the threads that come to them: a value decides if it is seen to be the same for a
//! block, or is vouched for. All else is refused as the source is made, at the barrier's line and
//! with the line at which threads part. (Cases that need no types are refused by the macro:
//! `tests/messages/parted.rs`.)

use super::{check, division};
use quipu_kernel::{
    Atomics, Block, BlockAccelerator, BuildError, OwnElements, SharedAtomics, SharedWrite, Threads,
    device, kernel,
};
use quipu_kernel_ir::{Dialect, IndexWidth, OpenClFeatures, Options};

/// Each thread halves its number until it is below 10, and all wait for each other.
#[kernel(crate = quipu_kernel)]
async fn until_none(acc: &impl BlockAccelerator<1>, x: &[u32], mut y: OwnElements<[u32; 2]>) {
    let mut own = x[acc.index(Block, Threads)[0]];
    let mut rounds = 0;
    while acc.sync_block_threads_or(own >= 10).await {
        if own >= 10 {
            own /= 2;
        }
        rounds += 1;
    }
    for (_, y) in y.each() {
        *y = [own, rounds];
    }
}

#[test]
fn runs_until_none() {
    let (x, mut y) = (vec![3, 9, 10, 160], vec![[0; 2]; 4]);
    check!(until_none => (&x, &mut y), division(1, 4, 1));
    assert_eq!(y, [[3, 5], [9, 5], [5, 5], [5, 5]]);
}

/// Blocks take the next task until there is none: what one thread has fetched, all read.
#[kernel(crate = quipu_kernel)]
async fn tasks(
    acc: &impl BlockAccelerator<1>,
    next: Atomics<u32>,
    done: Atomics<u32>,
    #[shared(1)] mut task: SharedWrite<u32>,
) {
    loop {
        for task in task.own() {
            *task = next.add(0, 1);
        }
        let fetched = acc.sync(task).await;
        let number = fetched[0] as usize;
        task = acc.sync(fetched).await;
        if number >= done.len() {
            break;
        }
        done.add(number, 1);
    }
}

#[test]
fn runs_tasks() {
    let (mut next, mut done) = (vec![0], vec![0; 7]);
    check!(tasks => (&mut next, &mut done), division(3, 4, 1));
    assert_eq!((next[0], &done), (10, &vec![4; 7]));
    // The loop over a thread's own elements is written twice, but where a compiler would not stand
    // it.
    let module = tasks(&mut next, &mut done).module().unwrap();
    let adds = |repeats_beside_barriers| {
        let opencl = Dialect::OpenCl(OpenClFeatures {
            repeats_beside_barriers,
            ..OpenClFeatures::USUAL
        });
        let options = Options::new(opencl, IndexWidth::Bits32);
        let source = module.print(opencl, &options).unwrap().source;
        source.matches("atomic_add(&next").count()
    };
    assert_eq!((adds(true), adds(false)), (2, 1));
}

/// The larger of two numbers, or zero early on.
#[device(crate = quipu_kernel)]
fn larger(a: u32, b: u32) -> u32 {
    if a == 0 {
        return 0;
    }
    if a > b { a } else { b }
}

/// Waits, but not for whom it has nothing to do.
#[device(crate = quipu_kernel)]
async fn waits(acc: &impl BlockAccelerator<1>, n: u32, own: u32) -> u32 {
    if n == 0 {
        return own;
    }
    acc.sync_block_threads().await;
    if own > 2 {
        return 2;
    }
    own
}

/// Through functions, tables and parts of what is passed; and elements that all go through.
#[kernel(crate = quipu_kernel)]
async fn decided(
    acc: &impl BlockAccelerator<1>,
    least: u32,
    start: u32,
    parity: u32,
    x: &[u32],
    count: Atomics<u32>,
    #[shared(1)] counted: SharedAtomics<u32>,
) {
    const STEPS: [u32; 3] = [1, 0, 2];
    let own = acc.index(Block, Threads)[0] as u32;
    let mut sum = 0;
    for step in STEPS {
        if larger(step, least) > 1 {
            sum += waits(acc, step, own).await;
        }
    }
    let part = &x[start as usize..];
    for k in 0..part.len() {
        if part[k] % 2 == parity {
            continue;
        }
        if part[k] == 9 {
            break;
        }
        acc.sync_block_threads().await;
        sum += part[k];
    }
    for i in acc.uniform_elements(x.len()) {
        if acc.sync_block_threads_count(i < x.len()).await > 2 {
            acc.sync_block_threads().await;
            sum += 100;
        }
    }
    for i in acc.uniform_elements(x.len()).rev() {
        acc.sync_block_threads().await;
        if i < x.len() {
            sum += x[i];
        }
    }
    counted.add(0, sum);
    acc.sync_block_threads().await;
    if acc.once_per_block() {
        count.add(0, counted.load(0));
    }
}

#[test]
fn runs_decided() {
    let (x, mut count) = (vec![7, 1, 2, 3, 5, 9, 11], vec![0]);
    check!(decided => (2, 1, 0, &x, &mut count), division(1, 4, 1));
    // Steps 1 and 2 wait; then come 1, 3 and 5, two rounds with three elements and more, and all
    // elements once.
    let own: u32 = (0..4_u32).map(|own| 2 * own.min(2)).sum();
    assert_eq!(count, [own + 4 * (1 + 3 + 5) + 4 * 200 + 38]);
}

/// Warps go on by what their threads say together.
#[kernel(crate = quipu_kernel)]
async fn by_votes(acc: &impl BlockAccelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    let mut own = x[acc.index(Block, Threads)[0]];
    while acc.warp_any(own > 0).await {
        let first = acc.warp_shuffle(own, 0).await;
        if first > 1000 {
            own += acc.warp_shuffle_down(own, 1).await;
        }
        own = own.saturating_sub(1);
    }
    for (_, y) in y.each() {
        *y = own;
    }
}

/// What each warp does is its own affair.
#[kernel(crate = quipu_kernel)]
async fn by_warps(acc: &impl BlockAccelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    let thread = acc.index(Block, Threads)[0];
    let size = acc.warp_size();
    let warp = thread as u32 / size;
    let mut own = x[thread];
    if warp == 0 {
        own += u32::from(acc.warp_any(true).await);
    } else if thread / size as usize > 1 {
        own += u32::from(acc.warp_all(true).await);
    } else {
        own += 1;
    }
    for (_, y) in y.each() {
        *y = own;
    }
}

#[test]
fn runs_by_warps() {
    let (x, mut y) = ((0..12).collect::<Vec<u32>>(), vec![0; 12]);
    check!(by_warps => (&x, &mut y), division(1, 12, 1));
    assert_eq!(y, (1..13).collect::<Vec<u32>>());
}

#[test]
fn runs_by_votes() {
    let (x, mut y) = (vec![3, 0, 7, 1], vec![1; 4]);
    check!(by_votes => (&x, &mut y), division(1, 4, 1));
    assert_eq!(y, [0; 4]);
}

/// The line behind a comment.
fn line(comment: &str) -> u32 {
    let comment = format!("// {comment}");
    let lines = include_str!("together.rs").lines().zip(2..);
    let mut found = lines.filter(|(line, _)| line.trim() == comment);
    let (_, line) = found.next().unwrap();
    assert_eq!(found.next(), None, "{comment}");
    line
}

/// Checks that there is no source of a kernel, as threads part in one line and should come together
/// in another.
#[track_caller]
fn assert_parted<T: std::fmt::Debug>(module: Result<T, BuildError>, name: &str, words: &[&str]) {
    let error = module.unwrap_err();
    let BuildError::Refused {
        file,
        line: at,
        problem,
    } = &error
    else {
        panic!("{error}");
    };
    assert!(file.ends_with("together.rs"), "{error}");
    assert_eq!(*at, line(&format!("all: {name}")), "{error}");
    let parted = format!("in line {} ", line(&format!("some: {name}")));
    for words in words.iter().chain(&[&*parted]) {
        assert!(problem.contains(words), "{words:?}: {error}");
    }
}

const OF_BLOCK: &[&str] = &[
    "every thread of a block has to come to a barrier",
    "acc.sync_block_threads_or(…)",
    "unsafe { acc.assume_uniform(…) }",
];

#[kernel(crate = quipu_kernel)]
async fn by_own_data(acc: &impl BlockAccelerator<1>, x: &[u32]) {
    let own = x[acc.index(Block, Threads)[0]];
    // some: data
    if own > 3 {
        // all: data
        acc.sync_block_threads().await;
    }
}

#[kernel(crate = quipu_kernel)]
async fn by_rounds(acc: &impl BlockAccelerator<1>, x: &[u32]) {
    let mut own = x[acc.index(Block, Threads)[0]];
    loop {
        // all: rounds
        acc.sync_block_threads().await;
        // some: rounds
        if own < 3 {
            break;
        }
        own -= 1;
    }
}

#[kernel(crate = quipu_kernel)]
async fn by_a_variable(acc: &impl BlockAccelerator<1>, n: u32, x: &[u32]) {
    let mut rounds = n;
    if x[acc.index(Block, Threads)[0]] > 3 {
        rounds += 1;
    }
    // some: variable
    for _ in 0..rounds {
        // all: variable
        acc.sync_block_threads().await;
    }
}

#[kernel(crate = quipu_kernel)]
async fn by_elements(acc: &impl BlockAccelerator<1>, mut y: OwnElements<u32>) {
    // some: elements
    for (_, y) in y.each() {
        // all: elements
        acc.sync_block_threads().await;
        *y += 1;
    }
}

#[kernel(crate = quipu_kernel)]
async fn by_counts(acc: &impl BlockAccelerator<1>, x: &[u32]) {
    let own = x[acc.index(Block, Threads)[0]] as usize;
    // some: counts
    for _ in acc.uniform_elements(own) {
        // all: counts
        acc.sync_block_threads().await;
    }
}

#[kernel(crate = quipu_kernel)]
async fn by_warps_of_a_block(acc: &impl BlockAccelerator<1>) {
    let warp = acc.index(Block, Threads)[0] / acc.warp_size() as usize;
    // some: warps
    if warp == 0 {
        // all: warps
        acc.sync_block_threads().await;
    }
}

#[kernel(crate = quipu_kernel)]
async fn by_an_atomic(
    acc: &impl BlockAccelerator<1>,
    n: u32,
    #[shared(1)] task: SharedAtomics<u32>,
) {
    if acc.once_per_block() {
        task.store(0, n);
    }
    acc.sync_block_threads().await;
    // some: atomic
    if task.load(0) > 3 {
        // all: atomic
        acc.sync_block_threads().await;
    }
}

#[kernel(crate = quipu_kernel)]
async fn in_a_function(acc: &impl BlockAccelerator<1>, x: &[u32]) {
    let own = x[acc.index(Block, Threads)[0]];
    late(acc, own).await;
}

#[device(crate = quipu_kernel)]
async fn late(acc: &impl BlockAccelerator<1>, own: u32) {
    // some: function
    if own > 3 {
        return;
    }
    // all: function
    acc.sync_block_threads().await;
}

#[kernel(crate = quipu_kernel)]
async fn by_lanes(acc: &impl BlockAccelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    let mut own = x[acc.index(Block, Threads)[0]];
    // some: lanes
    while own > 3 {
        // all: lanes
        own -= acc.warp_shuffle_xor(1_u32, 1).await + acc.warp_active_mask().await.count_ones();
    }
    for (_, y) in y.each() {
        *y = own;
    }
}

#[test]
fn no_source_is_made_where_threads_may_part() {
    let (x, mut y) = (vec![1; 8], vec![0; 8]);
    assert_parted(by_own_data(&x).module(), "data", OF_BLOCK);
    assert_parted(by_rounds(&x).module(), "rounds", OF_BLOCK);
    assert_parted(by_a_variable(3, &x).module(), "variable", OF_BLOCK);
    assert_parted(by_counts(&x).module(), "counts", OF_BLOCK);
    assert_parted(by_warps_of_a_block().module(), "warps", OF_BLOCK);
    assert_parted(by_an_atomic(3).module(), "atomic", OF_BLOCK);
    assert_parted(in_a_function(&x).module(), "function", OF_BLOCK);
    let elements = [OF_BLOCK[0], "acc.uniform_elements(n)"];
    assert_parted(by_elements(&mut y).module(), "elements", &elements);
    let warps = ["every thread of a warp", "acc.warp_any(…)"];
    assert_parted(by_lanes(&x, &mut y).module(), "lanes", &warps);
}

/// As `by_own_data`, by who knows `x`.
#[kernel(crate = quipu_kernel)]
async fn vouched(acc: &impl BlockAccelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    let own = x[acc.index(Block, Threads)[0]];
    let mut sum = own;
    // SAFETY: all elements are equal.
    if unsafe { acc.assume_uniform(own > 3) } {
        acc.sync_block_threads().await;
        sum += 1;
    }
    for (_, y) in y.each() {
        *y = sum;
    }
}

/// Natively it is looked who comes, whatever was said.
#[test]
fn runs_vouched() {
    let (mut x, mut y) = (vec![4; 4], vec![0; 4]);
    check!(vouched => (&x, &mut y), division(1, 4, 1));
    assert_eq!(y, [5; 4]);
    x[2] = 3;
    let error = vouched(&x, &mut y).run(division(1, 4, 1)).unwrap_err();
    assert!(error.to_string().contains("wait at the barrier"), "{error}");
}
