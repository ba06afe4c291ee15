//! Kernels whose blocks wait for each other.

use super::{check, division, line_of};
use quipu_kernel::{
    Atomics, Block, BlockScratch, Blocks, Grid, GridAccelerator, OwnElements, RawMut, RunOptions,
    SharedWrite, Threads, device, kernel,
};
use quipu_kernel_ir::print::PrintError;
use quipu_kernel_ir::{Dialect, IndexWidth, OpenClFeatures, Options};

/// The sum of an element and the one a distance before it, of those that a step has read.
#[device(crate = quipu_kernel)]
fn sum_at(from: RawMut<u32>, i: usize, distance: usize) -> u32 {
    // SAFETY: no thread writes the elements that a step reads.
    unsafe {
        if i < distance {
            from.read(i)
        } else {
            from.read(i) + from.read(i - distance)
        }
    }
}

/// The sums of the elements up to each one, in place. Each step goes from one array to the other.
#[kernel(crate = quipu_kernel)]
async fn prefix_sums(acc: &impl GridAccelerator<1>, x: RawMut<u32>, other: RawMut<u32>) {
    let (mut distance, mut in_x) = (1, true);
    while distance < x.len() || !in_x {
        for i in acc.elements(x.len()) {
            // SAFETY: each element is written by one thread, and read after the next barrier.
            unsafe {
                if in_x {
                    other.write(i, sum_at(x, i, distance));
                } else {
                    x.write(i, sum_at(other, i, distance));
                }
            }
        }
        acc.sync_grid_threads().await;
        in_x = !in_x;
        distance *= 2;
    }
}

#[test]
fn runs_prefix_sums() {
    let (mut x, mut other): (Vec<u32>, _) = ((0..300).map(|i| i * 7 % 13).collect(), vec![0; 300]);
    let mut sum = 0;
    let added = x.iter().map(|x| {
        sum += x;
        sum
    });
    let sums: Vec<_> = added.collect();
    check!(prefix_sums => (&mut x, &mut other), division(5, 8, 2));
    assert_eq!(x, sums);
}

/// Tells whether a block's part of a rod has changed, and adds it to those of the other blocks.
#[device(crate = quipu_kernel)]
async fn tell(
    acc: &impl GridAccelerator<1>,
    has_changed: bool,
    changed: Atomics<u32>,
    round: usize,
) {
    let count = acc.sync_block_threads_count(has_changed).await;
    if acc.once_per_block() && count > 0 {
        changed.add(round, count as u32);
    }
    acc.sync_grid_threads().await;
}

/// Heat in a rod whose ends stay as they are, until nothing changes any more: each thread has one
/// element, and reads its neighbours' in its block's memory, or at the borders of a block in the
/// other array.
#[kernel(crate = quipu_kernel)]
async fn rod(
    acc: &impl GridAccelerator<1>,
    heat: RawMut<u32>,
    changed: Atomics<u32>,
    #[shared(acc.extent(Block, Threads)[0])] mut part: SharedWrite<u32>,
) {
    let (i, n) = (acc.index(Grid, Threads)[0], heat.len());
    let (thread, threads) = (acc.index(Block, Threads)[0], acc.extent(Block, Threads)[0]);
    let mut round = 0;
    loop {
        // SAFETY: elements are written between this barrier and the one after it, and read here.
        let (own, before, after) = unsafe {
            let before = if i == 0 {
                heat.read(0)
            } else {
                heat.read(i - 1)
            };
            let after = if i + 1 == n {
                heat.read(i)
            } else {
                heat.read(i + 1)
            };
            (heat.read(i), before, after)
        };
        part.own()[0] = own;
        let read = acc.sync(part).await;
        let left = if thread == 0 {
            before
        } else {
            read[thread - 1]
        };
        let right = if thread + 1 == threads {
            after
        } else {
            read[thread + 1]
        };
        part = acc.sync(read).await;
        let next = if i == 0 || i + 1 == n {
            own
        } else {
            (left + right) / 2
        };
        tell(acc, next != own, changed, round).await;
        // SAFETY: it is the thread's own, and all have read it.
        unsafe { heat.write(i, next) };
        acc.sync_grid_threads().await;
        // SAFETY: all threads have added what they have before the barrier.
        if unsafe { acc.assume_uniform(changed.load(round)) } == 0 {
            break;
        }
        round += 1;
    }
}

#[test]
fn runs_rod() {
    let mut heat = vec![0; 12];
    heat[0] = 1000;
    let mut changed = vec![0; 400];
    check!(rod => (&mut heat, &mut changed), division(3, 4, 1), 4);
    let rounds = changed.iter().position(|changed| *changed == 0).unwrap();
    assert!((10..400).contains(&rounds));
    assert!(heat.windows(2).all(|pair| pair[0] >= pair[1]));
}

/// A kernel in two dimensions that waits where there is such a barrier, and else has nothing to
/// wait for.
#[kernel(crate = quipu_kernel)]
async fn asks(acc: &impl GridAccelerator<2>, count: Atomics<u32>, mut y: OwnElements<u32, 2>) {
    for (_, y) in y.each() {
        count.add(0, 1);
        *y += 1;
    }
    if acc.has_grid_barrier() {
        acc.sync_grid_threads().await;
        for (_, y) in y.each() {
            *y += count.load(0) - 24;
        }
    }
}

#[test]
fn runs_asks() {
    for mut way in super::ways_and_devices() {
        let (mut count, mut y) = (vec![0; 1], vec![5; 24]);
        let view = quipu_kernel::GlobalMut::from(&mut y[..])
            .in_extent([4, 6])
            .unwrap();
        let division = quipu_kernel::WorkDivision::new([2, 3], [2, 1], [1, 2]).unwrap();
        way.run(asks(&mut count, view).prepare(division).unwrap());
        assert_eq!(y, [6; 24]);
    }
}

/// Some blocks end while the others wait.
#[kernel(crate = quipu_kernel)]
async fn some_end(acc: &impl GridAccelerator<1>, x: &[u32]) {
    // some: block
    if x[acc.index(Grid, Blocks)[0]] > 0 {
        // all: block
        acc.sync_grid_threads().await;
    }
}

/// Blocks wait at two places.
#[kernel(crate = quipu_kernel)]
async fn two_places(acc: &impl GridAccelerator<1>, x: &[u32]) {
    if x[acc.index(Grid, Blocks)[0]] > 0 {
        acc.sync_grid_threads().await;
    } else {
        acc.sync_grid_threads().await;
    }
}

#[test]
fn natively_it_is_seen_that_blocks_part() {
    for execution in super::ways() {
        let mut scratch = execution;
        let mut told = |x: &[u32; 3]| {
            let of = some_end(x).run_in(division(3, 2, 1), &mut scratch);
            of.map_err(|error| error.to_string())
        };
        assert_eq!(told(&[1, 1, 1]), Ok(()));
        assert_eq!(told(&[0, 0, 0]), Ok(()));
        let error = told(&[1, 0, 1]).unwrap_err();
        assert!(
            error.contains("work-group 0 waits at the barrier of the grid at")
                && error.contains("work-group 1"),
            "{error}"
        );
    }
    let error = two_places(&[1, 0, 1]).run(division(3, 2, 1)).unwrap_err();
    let words = "different barriers of the grid, work-group 0 at";
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn blocks_that_may_part_have_no_source() {
    let line = |mark: &str| line_of(include_str!("grids.rs"), mark) + 1;
    let error = some_end(&[1]).module().unwrap_err().to_string();
    for words in [
        "every thread of the grid has to come to a barrier of the grid",
        "a value that is passed, or an element of memory that is only read",
        &format!("grids.rs:{}", line("// all: block")),
        &format!("line {} ", line("// some: block")),
    ] {
        assert!(error.contains(words), "{words:?}: {error}");
    }
}

#[test]
fn opencl_says_what_to_do_instead() {
    let (mut x, mut other) = (vec![1; 4], vec![0; 4]);
    let module = prefix_sums(&mut x, &mut other).module().unwrap();
    let opencl = Dialect::OpenCl(OpenClFeatures::USUAL);
    let printed = module.print(opencl, &Options::new(opencl, IndexWidth::Bits32));
    let Err(PrintError::Unsupported { what, location, .. }) = printed else {
        panic!("{printed:?}");
    };
    assert!(what.contains("launch a kernel for each step"), "{what}");
    assert!(location.is_some_and(|at| at.file.ends_with("grids.rs")));
}

/// Each thread writes its element, and reads the one of a thread of another block.
#[kernel(crate = quipu_kernel)]
async fn reads_others<const WAITS: bool>(
    acc: &impl GridAccelerator<1>,
    x: RawMut<u32>,
    mut y: OwnElements<u32>,
) {
    let (i, n) = (acc.index(Grid, Threads)[0], x.len());
    // SAFETY: each thread has an element.
    unsafe { x.write(i, i as u32) };
    if WAITS {
        acc.sync_grid_threads().await;
    }
    for (i, y) in y.each() {
        // SAFETY: all elements are written, if threads have waited.
        *y = unsafe { x.read(n - 1 - i) };
    }
}

#[test]
fn a_barrier_of_the_grid_orders_blocks() {
    let mut options = RunOptions::new();
    options.check = true;
    let mut scratch = BlockScratch::with_options(options);
    let (mut x, mut y) = (vec![0; 8], vec![0; 8]);
    reads_others::<true>(&mut x, &mut y)
        .run_in(division(4, 2, 1), &mut scratch)
        .unwrap();
    assert_eq!(y, [7, 6, 5, 4, 3, 2, 1, 0]);
    let raced = reads_others::<false>(&mut x, &mut y).run_in(division(4, 2, 1), &mut scratch);
    assert!(raced.unwrap_err().to_string().contains("races for element"));
}
