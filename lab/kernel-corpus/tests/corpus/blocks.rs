//! Block kernels: barriers and shared memory.

use super::{check, division, line_of};
use quipu_kernel::{
    Accelerator, Atomics, Block, BlockAccelerator, BlockScratch, Blocks, Execution, Grid,
    KernelError, OwnBlock, OwnElements, RawMut, RunOptions, SharedAtomics, SharedRaw, SharedWrite,
    Threads, device, kernel,
};
use quipu_kernel_ir::print::FaultKind;
use quipu_kernel_ir::{Dialect, IndexWidth, Options};
use quipu_kernel_testing::{Argument, C99Program, Division, Launch};

#[kernel(crate = quipu_kernel)]
async fn block_sum(
    acc: &impl BlockAccelerator<1>,
    x: &[f32],
    sum: OwnBlock<f32>,
    #[shared(acc.extent(Block, Threads)[0])] mut sums: SharedWrite<f32>,
) {
    let thread = acc.index(Block, Threads)[0];
    for i in acc.elements(x.len()) {
        sums.own()[0] += x[i];
    }
    let mut half = acc.extent(Block, Threads)[0] / 2;
    while half > 0 {
        let read = acc.sync(sums).await;
        let other = if thread < half {
            read[thread + half]
        } else {
            0.0
        };
        sums = acc.sync(read).await;
        sums.own()[0] += other;
        half /= 2;
    }
    if !sum.is_empty() {
        sum[0] = sums.own()[0];
    }
}

#[test]
fn runs_block_sum() {
    let x: Vec<f32> = (0..64u8).map(f32::from).collect();
    let mut sums = vec![0.0; 4];
    check!(block_sum => (&x, &mut sums), division(4, 8, 2), 8);
    assert_eq!(sums.iter().sum::<f32>(), 2016.0);
}

#[kernel(crate = quipu_kernel)]
async fn votes<const N: usize>(
    acc: &impl BlockAccelerator<1>,
    limit: u32,
    mut y: OwnElements<u32>,
    #[shared(N)] mut a: SharedWrite<u32>,
    #[shared(limit as usize + 1)] mut b: SharedWrite<u32>,
) {
    let thread = acc.thread_index()[0];
    let count = acc.sync_block_threads_count(thread as u32 > limit).await;
    let any = acc.sync_block_threads_or(thread == 3).await;
    let all = acc.sync_block_threads_and(thread < 3).await;
    acc.sync_block_threads().await;
    for value in a.own() {
        *value = thread as u32;
    }
    for value in b.own() {
        *value = 10 * thread as u32;
    }
    let (a, b) = acc.sync((a, b)).await;
    let mut sum = count as u32 + any as u32 * 100 + all as u32 * 1000;
    for value in a.iter() {
        sum += value;
    }
    for (_, y) in y.each() {
        *y = sum + a[(thread + 1) % a.len()] + b[b.len() - 1];
    }
}

#[test]
fn runs_votes() {
    let mut y = vec![0; 16];
    check!(votes::<8> => (2, &mut y), division(2, 4, 2), 3);
    assert_eq!(y[0], 1 + 100 + 12 + 1 / 2 + 10 * 2);
}

#[device(crate = quipu_kernel)]
fn exchange(numbers: SharedRaw<u32>, a: usize, b: usize) {
    // SAFETY: the caller's thread has both.
    unsafe {
        let held = numbers.read(a);
        numbers.write(a, numbers.read(b));
        numbers.write(b, held);
    }
}

/// A block's numbers, each put where it belongs among them; then each but the first two beside its
/// next one, by another thread. Without phases, as who writes where depends on the numbers.
#[kernel(crate = quipu_kernel)]
async fn placed<const SYNCS: bool>(
    acc: &impl BlockAccelerator<1>,
    x: &[u32],
    y: RawMut<u32>,
    #[shared(acc.extent(Block, Threads)[0])] numbers: SharedWrite<u32>,
    #[shared(1)] count: SharedWrite<u32>,
) {
    let (numbers, count): (SharedRaw<u32>, SharedRaw<u32>) = (numbers.into_raw(), count.into_raw());
    let (thread, threads) = (acc.index(Block, Threads)[0], numbers.len());
    let first = acc.index(Grid, Blocks)[0] * threads;
    let own = x[first + thread];
    let mut before = 0;
    for i in 0..threads {
        let other = x[first + i];
        before += (other < own || other == own && i < thread) as usize;
    }
    // SAFETY: each thread has a place of its own, and one the count.
    unsafe {
        numbers.write(before, own); // placed: the write
        if thread == 3 && !count.is_empty() {
            count.write(0, 7);
        }
    }
    if SYNCS {
        acc.sync_block_threads().await;
    }
    // SAFETY: what was written before the barrier nobody writes before the next.
    let sum = unsafe {
        let mut sum = count.read(0);
        let own = numbers.slice(thread..threads); // placed: the read
        for number in own {
            sum += *number;
        }
        sum
    };
    acc.sync_block_threads().await;
    if thread % 2 == 1 && thread + 1 < threads {
        exchange(numbers, thread, thread + 1);
    }
    acc.sync_block_threads().await;
    // SAFETY: nobody writes the numbers any more, and each thread has an element.
    unsafe { y.write(first + thread, sum * 1000 + numbers.read(thread)) };
}

#[test]
fn runs_placed() {
    let x: Vec<u32> = (0..16).map(|i| i * 7 % 23).collect();
    let mut y = vec![0; 16];
    check!(placed::<true> => (&x, &mut y), division(2, 8, 1), 8);
    let mut numbers = x[..8].to_vec();
    numbers.sort_unstable();
    let sums = (0..8).map(|at| (7 + numbers[at..].iter().sum::<u32>()) * 1000);
    let sums: Vec<_> = sums.collect();
    for pair in [1, 3, 5] {
        numbers.swap(pair, pair + 1);
    }
    let expected = sums.iter().zip(numbers).map(|(sum, number)| sum + number);
    assert!(y[..8].iter().copied().eq(expected), "{y:?}");
}

/// What takes away the barrier finds the race, in all ways in which threads come one after the
/// other.
#[test]
fn races_on_shared_memory_without_phases_are_found() {
    let x: Vec<u32> = (0..16).collect();
    let mut y = vec![0; 16];
    for execution in [
        Execution::Native,
        Execution::Lockstep { warp_size: 1 },
        Execution::Lockstep { warp_size: 4 },
    ] {
        let mut options = RunOptions::new();
        (options.check, options.execution) = (true, execution);
        let call = placed::<false>(&x, &mut y);
        let mut scratch = BlockScratch::with_options(options);
        let error = call.run_in(division(2, 8, 1), &mut scratch).unwrap_err();
        // Each number is where it belongs, and the first thread reads them all.
        let KernelError::Race {
            kernel,
            index: 1,
            first,
            second,
        } = &error
        else {
            panic!("{execution:?}: {error}");
        };
        assert!(kernel.contains("placed"), "{error}");
        for (access, thread, writes, mark) in [
            (first, 0, false, "// placed: the read"),
            (second, 1, true, "// placed: the write"),
        ] {
            assert_eq!((access.group, access.thread), (0, thread), "{error}");
            assert_eq!(access.writes, writes, "{error}");
            assert!(access.place.file().ends_with("blocks.rs"), "{error}");
            let line = line_of(include_str!("blocks.rs"), mark);
            assert_eq!(access.place.line(), line, "{error}");
        }
    }
}

#[kernel(crate = quipu_kernel)]
fn counted(acc: &impl Accelerator<1>, scope: u32, count: Atomics<u32>) {
    for _ in acc.elements(8) {
        if scope == 0 {
            count.thread().add(0, 1); // counted: for a thread
        } else if scope == 1 {
            count.block().add(0, 1); // counted: for a block
        } else {
            count.add(0, 1);
        }
    }
}

/// A step of too narrow a scope may lose what others do; it is found though nothing got lost.
#[test]
fn steps_of_too_narrow_a_scope_are_found() {
    for execution in [Execution::Native, Execution::Lockstep { warp_size: 4 }] {
        let mut options = RunOptions::new();
        (options.check, options.execution) = (true, execution);
        let mut scratch = BlockScratch::with_options(options);
        let mut count = vec![0];
        let mut run = |scope, blocks| {
            counted(scope, &mut count).run_in(division(blocks, 8 / blocks, 1), &mut scratch)
        };
        run(2, 2).unwrap();
        run(1, 1).unwrap();
        for (scope, blocks, whom, mark) in [
            (0, 1, "itself", "// counted: for a thread"),
            (1, 2, "its block", "// counted: for a block"),
        ] {
            let error = run(scope, blocks).unwrap_err();
            let KernelError::Race {
                index: 0,
                first,
                second,
                ..
            } = &error
            else {
                panic!("{execution:?}: {error}");
            };
            // Of a block the last thread to change it is known.
            let threads = if scope == 0 {
                [(0, 0), (0, 1)]
            } else {
                [(0, 3), (1, 0)]
            };
            let found = [first, second].map(|reach| (reach.group, reach.thread));
            assert_eq!(found, threads, "{error}");
            let words = format!("writes it in a step for {whom} alone at ");
            assert!(error.to_string().contains(&words), "{error}");
            let line = line_of(include_str!("blocks.rs"), mark);
            assert_eq!(
                [first.place.line(), second.place.line()],
                [line; 2],
                "{error}"
            );
        }
    }
}

#[kernel(crate = quipu_kernel)]
async fn histogram(
    acc: &impl BlockAccelerator<1>,
    x: &[u32],
    bins: Atomics<u32>,
    most: Atomics<i32>,
    left: Atomics<i32>,
    #[shared(bins.len())] local: SharedAtomics<u32>,
) {
    for i in acc.elements(x.len()) {
        let bin = x[i] as usize % bins.len();
        local.add(bin, 1);
        most.max(0, x[i] as i32);
        left.block().sub(acc.index(Grid, Blocks)[0], 1);
    }
    acc.sync_block_threads().await;
    acc.fence_device();
    let threads = acc.extent(Block, Threads)[0];
    let mut bin = acc.thread_index()[0];
    while bin < bins.len() {
        bins.add(bin, local.load(bin));
        bin += threads;
    }
    if acc.index(quipu_kernel::Grid, Threads)[0] == 0 {
        most.compare_exchange(1, 5, 6);
        bins.inc(0, 1_000_000);
    }
}

#[test]
fn runs_histogram() {
    let x: Vec<u32> = (0..64).map(|i| i * i % 31).collect();
    let mut bins = vec![0; 7];
    let mut most = vec![0, 5];
    // Of each block one: what others do there may get lost.
    let mut left = vec![100; 4];
    check!(histogram => (&x, &mut bins, &mut most, &mut left), division(4, 4, 4), 7);
    assert_eq!(bins.iter().sum::<u32>(), 65, "{bins:?}");
    assert_eq!(most, [28, 6]);
    assert_eq!(left, [84; 4]);
}

#[kernel(crate = quipu_kernel)]
async fn early(acc: &impl BlockAccelerator<1>, mut y: OwnElements<u32>) {
    // SAFETY: there is none, and so this is run in C99 alone, which finds out.
    if unsafe { acc.assume_uniform(acc.index(Block, Threads)[0] == 0) } {
        return;
    }

    acc.sync_block_threads().await;
    for (i, y) in y.each() {
        *y = i as u32;
    }
}

/// A fault says at which barrier the others wait.
#[test]
fn a_barrier_has_a_line() {
    let mut y = vec![0u32; 8];
    let arguments = vec![Argument::buffer(&y)];
    let module = early(&mut y).module().unwrap();
    let options = Options::new(Dialect::C99, IndexWidth::Bits32);
    let printed = module.print(Dialect::C99, &options).unwrap();
    let program = C99Program::compile(&printed).unwrap();
    let mut launch = Launch::new(Division::new([1], [4], [2]), arguments);
    let fault = program.run(&mut launch).unwrap().unwrap();
    assert_eq!(fault.site.kind, FaultKind::Divergence);
    let source = include_str!("blocks.rs").lines();
    let barrier = "    acc.sync_block_threads().await;";
    let mut lines = source
        .zip(1..)
        .skip_while(|(line, _)| !line.starts_with("async fn early"));
    let (_, line) = lines.find(|(line, _)| *line == barrier).unwrap();
    assert_eq!(
        fault.site.location.map(|location| location.line),
        Some(line)
    );
}

/// Each block waits for the one that began before it, and goes on with what that has written.
#[kernel(crate = quipu_kernel)]
fn relay(acc: &impl Accelerator<1>, words: Atomics<u32>, y: RawMut<u64>) {
    let place = words.add(0, 1) as usize;
    let mut before = 0;
    if place > 0 {
        while words.load(place) == 0 {}
        acc.fence_device();
        // SAFETY: it is written before its word is, and not again.
        before = unsafe { y.read(place - 1) };
    }
    // SAFETY: each place is one block's, and read after its word says so.
    unsafe { y.write(place, 3 * before + place as u64) };
    acc.fence_device();
    words.store(place + 1, 1);
}

#[test]
fn runs_relay() {
    let (mut words, mut y) = (vec![0_u32; 9], vec![0_u64; 8]);
    check!(relay => (&mut words, &mut y), division(8, 1, 1));
    assert_eq!(y[..4], [0, 1, 5, 18]);
    assert_eq!(words, [8, 1, 1, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn looks_each_time_where_it_waits() {
    let (mut words, mut y) = (vec![0_u32; 9], vec![0_u64; 8]);
    let module = relay(&mut words, &mut y).module().unwrap();
    let options = Options::new(Dialect::C99, IndexWidth::Bits32);
    let source = module.print(Dialect::C99, &options).unwrap().source;
    assert!(source.contains("quipu_atomic_load_u32(&words"), "{source}");
    assert!(source.contains("quipu_atomic_store_u32(&words"), "{source}");
}

/// Loops between barriers, which assign variables from outside of them in several ways.
#[kernel(crate = quipu_kernel)]
async fn between_barriers(
    acc: &impl BlockAccelerator<1>,
    mut rounds: u32,
    mut y: OwnElements<[u32; 4]>,
    #[shared(acc.extent(Block, Threads)[0])] mut shared: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    let (mut even, mut odd) = (0, 1);
    let mut last = 0;
    'rounds: while rounds > 0 {
        shared.own()[0] = rounds + thread as u32;
        let read = acc.sync(shared).await;
        let mut sum = 0;
        for at in 0..read.len() {
            sum += read[at];
            if sum % 5 == 0 {
                continue;
            }
            (even, odd) = (odd, even ^ sum);
        }
        shared = acc.sync(read).await;
        for at in 0..rounds {
            last += sum % (at + 1);
            if last > 1000 {
                break 'rounds;
            }
        }
        while rounds % 3 == 0 {
            rounds -= 1;
            let mut even = last;
            while even > 9 {
                even /= 3;
            }
            last += even;
        }
        rounds -= 1;
    }
    for (_, y) in y.each() {
        *y = [even, odd, last, rounds];
    }
}

/// The same of one thread, which sees what all of a block have shared.
fn between_barriers_by_hand(mut rounds: u32, threads: u32) -> [u32; 4] {
    let (mut even, mut odd, mut last) = (0, 1, 0);
    'rounds: while rounds > 0 {
        let mut sum = 0;
        for thread in 0..threads {
            sum += rounds + thread;
            if sum % 5 != 0 {
                (even, odd) = (odd, even ^ sum);
            }
        }
        for at in 0..rounds {
            last += sum % (at + 1);
            if last > 1000 {
                break 'rounds;
            }
        }
        while rounds % 3 == 0 {
            rounds -= 1;
            let mut even = last;
            while even > 9 {
                even /= 3;
            }
            last += even;
        }
        rounds -= 1;
    }
    [even, odd, last, rounds]
}

#[test]
fn runs_between_barriers() {
    for rounds in [0, 1, 2, 11, 40, 200] {
        let mut y = vec![[0; 4]; 8];
        check!(between_barriers => (rounds, &mut y), division(2, 4, 1), 4);
        assert_eq!(y, [between_barriers_by_hand(rounds, 4); 8], "{rounds}");
    }
}

#[device(crate = quipu_kernel)]
fn total(of: &[u32]) -> u32 {
    let mut total = 0;
    for x in of {
        total += *x;
    }
    total
}

/// Parts of a shared array, of which a thread has none.
#[kernel(crate = quipu_kernel)]
async fn ranges(
    acc: &impl BlockAccelerator<1>,
    mut y: OwnElements<u32>,
    #[shared(12)] mut numbers: SharedWrite<u32>,
) {
    let block = acc.block_index()[0] as u32;
    let mut last = 0;
    for k in numbers.own_range() {
        last = k as u32;
    }
    for number in numbers.own() {
        *number = 10 * last + block;
    }
    let numbers = acc.sync(numbers).await;
    for (i, y) in y.each() {
        *y = numbers[i % 7];
    }
}

#[test]
fn runs_ranges_of_own() {
    let mut y = vec![0; 14];
    check!(ranges => (&mut y), division(2, 7, 1));
    assert_eq!(y, [10, 10, 30, 30, 50, 50, 70, 11, 11, 31, 31, 51, 51, 71]);
}

/// A shared array where a slice is asked for.
#[kernel(crate = quipu_kernel)]
async fn sliced(
    acc: &impl BlockAccelerator<1>,
    mut y: OwnElements<u32>,
    #[shared(acc.extent(Block, Threads)[0])] mut numbers: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    numbers.own()[0] = 1 + thread as u32;
    let numbers = acc.sync(numbers).await;
    let all: &[u32] = &numbers;
    let mut part = if thread > 1 { all } else { &numbers[..2] };
    let sum = total(&numbers) + total(part) * 100;
    part = &all[thread..];
    for (_, y) in y.each() {
        *y = sum + part[0] * 10_000;
    }
}

#[test]
fn runs_sliced() {
    let mut y = vec![0; 8];
    check!(sliced => (&mut y), division(2, 4, 1), 4);
    assert_eq!(y[..4], [10_310, 20_310, 31_010, 41_010]);
}
