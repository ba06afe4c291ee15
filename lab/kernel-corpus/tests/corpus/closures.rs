//! Closures as kernels where they are launched, with values from around them.

use super::{compare, division, natively, run_printed};
use quipu_kernel::{
    Accelerator, Block, BlockAccelerator, OwnBlock, OwnElements, SharedWrite, Threads, device,
    kernel_closure,
};
use quipu_kernel_testing::Argument;

const BIAS: u32 = 7;

#[device(crate = quipu_kernel)]
fn twice(x: u32) -> u32 {
    2 * x
}

#[test]
fn a_closure_has_values_of_what_is_around_it() {
    let factor = 3_u32;
    let rows = [1_u32, 10, 100];
    let closure = kernel_closure!(crate = quipu_kernel,
        [factor: u32, rows: [u32; 3], mut sum: u32 = factor + rows[2]]
        |_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>| {
            for (i, y) in y.each() {
                sum += rows[2];
                *y += twice(factor) * x[i] + BIAS + rows[i % 3];
            }
            for (_, y) in y.each() {
                *y += sum;
            }
        }
    );
    let x: Vec<u32> = (0..20).collect();
    let mut y = vec![1; 20];
    let arguments = [
        Argument::uniform([3_u32, 1, 10, 100, 103]),
        Argument::buffer(&x),
        Argument::buffer(&y),
    ];
    let division = division(2, 5, 2);
    natively(&mut y, |y, way| {
        // A copy is the same kernel, with the same values.
        let copy = closure;
        way.run(copy.call(&x, y).prepare(division).unwrap());
    });
    assert_eq!(y[..2], [1 + 7 + 1 + 303, 1 + 6 + 7 + 10 + 303]);
    assert_eq!(y[3], 1 + 18 + 7 + 1 + 303);
    let module = closure.call(&x, &mut y).module().unwrap();
    run_printed(&module, &division, &arguments, &[], |launch| {
        compare(&y, &launch.elements(2));
    });
}

#[test]
fn a_closure_with_barriers_is_async() {
    let first = 5_u64;
    let closure = kernel_closure!(crate = quipu_kernel,
        [first: u64]
        async |
            acc: &impl BlockAccelerator<1>,
            x: &[u64],
            sum: OwnBlock<u64>,
            #[shared(acc.extent(Block, Threads)[0])] mut sums: SharedWrite<u64>,
        | {
            sums.own()[0] = first;
            for i in acc.elements(x.len()) {
                sums.own()[0] += x[i];
            }
            let read = acc.sync(sums).await;
            for sum in sum {
                *sum = 0;
                for part in read.iter() {
                    *sum += *part;
                }
            }
        }
    );
    let x: Vec<u64> = (0..24).collect();
    let mut y = vec![0];
    let arguments = [
        Argument::uniform(first),
        Argument::buffer(&x),
        Argument::buffer(&y),
    ];
    let division = division(1, 4, 6);
    natively(&mut y, |y, way| {
        way.run(closure.call(&x, y).prepare(division).unwrap());
    });
    assert_eq!(y, [276 + 20]);
    let module = closure.call(&x, &mut y).module().unwrap();
    run_printed(&module, &division, &arguments, &[4], |launch| {
        compare(&y, &launch.elements(2));
    });
}

#[test]
fn a_closure_without_values_is_one_expression() {
    let (x, mut y) = ((0..20).collect::<Vec<u32>>(), vec![1; 20]);
    let closure = kernel_closure!(
        crate = quipu_kernel,
        |_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>| for (i, y) in y.each() {
            *y = x[i];
        }
    );
    let arguments = [
        Argument::Uniform(Vec::new()),
        Argument::buffer(&x),
        Argument::buffer(&y),
    ];
    let division = division(2, 5, 2);
    natively(&mut y, |y, way| {
        way.run(closure.call(&x, y).prepare(division).unwrap());
    });
    assert_eq!(x, y);
    let module = closure.call(&x, &mut y).module().unwrap();
    run_printed(&module, &division, &arguments, &[], |launch| {
        compare(&y, &launch.elements(2));
    });
}
