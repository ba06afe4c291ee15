//! Kernels that are written for any number of dimensions, in one to five: more than devices have.

use super::{compare, natively, run_printed};
use quipu_kernel::{
    Accelerator, Block, BlockAccelerator, Blocks, Elements, GlobalMut, GlobalRef, Grid,
    OwnElements, RawMut, SharedWrite, Thread, Threads, WorkDivision, kernel,
};
use quipu_kernel_testing::Argument;

/// Something of all indices and extents that there are.
#[kernel(crate = quipu_kernel)]
fn places<const D: usize>(acc: &impl Accelerator<D>, y: RawMut<u32>) {
    let mut all = 0_u32;
    for d in 0..D {
        let parts = [
            acc.index(Grid, Blocks)[d],
            acc.index(Grid, Threads)[d],
            acc.index(Grid, Elements)[d],
            acc.index(Block, Threads)[d],
            acc.index(Block, Elements)[d],
            acc.extent(Grid, Blocks)[d],
            acc.extent(Grid, Threads)[d],
            acc.extent(Grid, Elements)[d],
            acc.extent(Block, Threads)[d],
            acc.extent(Block, Elements)[d],
            acc.extent(Thread, Elements)[d],
        ];
        for part in parts {
            all = all.wrapping_mul(31).wrapping_add(part as u32);
        }
    }
    let number = acc
        .extent(Grid, Threads)
        .number_of(acc.index(Grid, Threads));
    // SAFETY: each thread has a number of its own.
    unsafe { y.write(number, all) };
}

/// The element that lies across from each element, along all axes, and its place.
#[kernel(crate = quipu_kernel)]
fn across<const D: usize>(
    _acc: &impl Accelerator<D>,
    x: GlobalRef<u32, D>,
    mut y: OwnElements<u32, D>,
) {
    let extent = y.extent();
    for (i, y) in y.each() {
        let mut position = extent.position_of(i);
        for d in 0..D {
            position[d] = extent[d] - 1 - position[d];
        }
        *y = x[position] * 1000 + extent.number_of(position) as u32;
    }
}

/// The numbers of elements, of an output and of the accelerator.
#[kernel(crate = quipu_kernel)]
fn twice<const D: usize>(acc: &impl Accelerator<D>, mut y: OwnElements<u32, D>) {
    let extent = y.extent();
    for ((i, y), k) in y.each().zip(acc.elements(extent)) {
        *y = *y * 1000 + i as u32 + k as u32;
    }
}

/// Of each block, its threads' numbers backwards.
#[kernel(crate = quipu_kernel)]
async fn backwards<const D: usize>(
    acc: &impl BlockAccelerator<D>,
    y: RawMut<u32>,
    #[shared(acc.extent(Block, Threads).product())] mut numbers: SharedWrite<u32>,
) {
    let threads = acc.extent(Block, Threads);
    let within = threads.number_of(acc.index(Block, Threads));
    let number = acc
        .extent(Grid, Threads)
        .number_of(acc.index(Grid, Threads));
    numbers.own()[0] = number as u32;
    let numbers = acc.sync(numbers).await;
    // SAFETY: each thread has a number of its own.
    unsafe { y.write(number, numbers[threads.product() - 1 - within]) };
}

/// Runs a grid without blocks of a kernel without barriers natively, and of one that has them and
/// shared memory in every way: nothing is written, and nothing fails.
fn check_empty<const D: usize>(blocks: [usize; D], threads: [usize; D], elements: [usize; D]) {
    let division = WorkDivision::new(blocks, threads, elements).unwrap();
    assert_eq!(division.block_count(), 0);
    let given = vec![7_u32; 5];
    let shared = [threads.iter().product::<usize>() as u64];
    let mut y = given.clone();
    natively(&mut y, |y, way| {
        way.run(places::<D>(y).prepare(division).unwrap());
    });
    let module = backwards::<D>(&mut y).module().unwrap();
    natively(&mut y, |y, way| {
        way.run(backwards::<D>(y).prepare(division).unwrap());
    });
    assert_eq!(y, given);
    let argument = Argument::buffer(&given);
    run_printed(&module, &division, &[argument], &shared, |launch| {
        compare(&given, &launch.elements(0));
    });
}

#[test]
fn grids_without_blocks_do_nothing() {
    check_empty([0, 3], [2, 2], [1, 2]);
    check_empty([3, 0], [2, 2], [1, 2]);
}

/// Runs all four in so many dimensions.
fn check<const D: usize>(
    blocks: [usize; D],
    threads: [usize; D],
    elements: [usize; D],
    extent: [usize; D],
) {
    let division = WorkDivision::new(blocks, threads, elements).unwrap();
    let count = blocks.iter().chain(&threads).product();

    let mut y = vec![0_u32; count];
    let argument = Argument::buffer(&y);
    let module = places::<D>(&mut y).module().unwrap();
    natively(&mut y, |y, way| {
        way.run(places::<D>(y).prepare(division).unwrap());
    });
    run_printed(&module, &division, &[argument], &[], |launch| {
        compare(&y, &launch.elements(0));
    });

    let mut expected = vec![0_u32; count];
    // Threads of blocks, in the order of their numbers.
    let all: [usize; D] = std::array::from_fn(|d| blocks[d] * threads[d]);
    let position = |number: usize, extent: [usize; D]| {
        let mut rest = number;
        let mut position = [0; D];
        for d in (0..D).rev() {
            position[d] = rest % extent[d];
            rest /= extent[d];
        }
        position
    };
    let number = |position: [usize; D], extent: [usize; D]| {
        (0..D).fold(0, |number, d| number * extent[d] + position[d])
    };
    for (at, expected) in expected.iter_mut().enumerate() {
        let mut place = position(at, all);
        for d in 0..D {
            let within = place[d] % threads[d];
            place[d] = place[d] - within + threads[d] - 1 - within;
        }
        *expected = number(place, all) as u32;
    }
    let argument = Argument::buffer(&y);
    let module = backwards::<D>(&mut y).module().unwrap();
    natively(&mut y, |y, way| {
        way.run(backwards::<D>(y).prepare(division).unwrap());
    });
    assert_eq!(y, expected);
    let shared = [threads.iter().product::<usize>() as u64];
    run_printed(&module, &division, &[argument], &shared, |launch| {
        compare(&y, &launch.elements(0));
    });

    // With a gap after each row.
    let mut strides = [1; D];
    for d in (0..D - 1).rev() {
        strides[d] = strides[d + 1] * extent[d + 1] + usize::from(d + 2 == D);
    }
    let length: usize = extent.iter().product();
    let x: Vec<u32> = (0..).take(strides[0] * extent[0]).collect();
    let mut y = vec![0; length];
    let wide = |of: [usize; D]| of.map(|of| of as u64);
    let dense: [usize; D] = std::array::from_fn(|d| extent[d + 1..].iter().product());
    let arguments = [
        Argument::view(&x, &wide(extent), &wide(strides)),
        Argument::view(&y, &wide(extent), &wide(dense)),
    ];
    let expected: Vec<u32> = (0..length)
        .map(|at| {
            let across = length - 1 - at;
            let position = position(across, extent);
            let offset: usize = (0..D).map(|d| position[d] * strides[d]).sum();
            x[offset] * 1000 + across as u32
        })
        .collect();
    let from = GlobalRef::from(&x).in_strides(extent, strides).unwrap();
    natively(&mut y, |y, way| {
        let to = GlobalMut::from(y).in_extent(extent).unwrap();
        way.run(across(from, to).prepare(division).unwrap());
    });
    assert_eq!(y, expected);
    let to = GlobalMut::from(&mut y).in_extent(extent).unwrap();
    let module = across(from, to).module().unwrap();
    run_printed(&module, &division, &arguments, &[], |launch| {
        compare(&expected, &launch.elements(1));
    });

    let arguments = [Argument::view(&y, &wide(extent), &wide(dense))];
    let expected: Vec<u32> = (0..)
        .zip(&y)
        .map(|(i, y)| y.wrapping_mul(1000) + 2 * i)
        .collect();
    natively(&mut y, |y, way| {
        let both = GlobalMut::from(y).in_extent(extent).unwrap();
        way.run(twice(both).prepare(division).unwrap());
    });
    assert_eq!(y, expected);
    let both = GlobalMut::from(&mut y).in_extent(extent).unwrap();
    let module = twice(both).module().unwrap();
    run_printed(&module, &division, &arguments, &[], |launch| {
        compare(&expected, &launch.elements(0));
    });
}

#[test]
fn runs_in_one_dimension() {
    check([3], [5], [2], [29]);
}

#[test]
fn runs_in_two_dimensions() {
    check([2, 3], [3, 2], [1, 4], [7, 22]);
}

#[test]
fn runs_in_three_dimensions() {
    check([2, 1, 3], [1, 3, 2], [2, 1, 2], [4, 3, 11]);
}

#[test]
fn runs_in_four_dimensions() {
    check([2, 1, 3, 2], [1, 2, 1, 3], [1, 2, 1, 1], [3, 5, 2, 7]);
}

#[test]
fn runs_in_five_dimensions() {
    check(
        [2, 1, 1, 2, 2],
        [1, 2, 2, 1, 2],
        [1, 1, 2, 1, 3],
        [2, 3, 2, 2, 7],
    );
}
