//! Functions of std's that are known by their paths.

use super::{check, division};
use quipu_kernel::{Accelerator, Complex, Integer, KernelData, OwnElements, device, kernel};
use std::{cmp, mem};

#[derive(Clone, Copy, Default, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Kept {
    first: u32,
    second: [u32; 2],
}

#[device(crate = quipu_kernel)]
fn middle<T: Integer + Ord>(a: T, b: T, c: T) -> T {
    cmp::max(cmp::min(a, b), cmp::min(cmp::max(a, b), c))
}

#[kernel(crate = quipu_kernel)]
fn compared(_acc: &impl Accelerator<1>, x: &[i32], mut y: OwnElements<i32>) {
    for (i, y) in y.each() {
        let next = x[(i + 1) % x.len()];
        *y = std::cmp::max(x[i], next) - 2 * core::cmp::min(x[i], next);
        *y += 100 * middle(x[i], next, 3) + 10_000 * middle(i as i8, 2, 1) as i32;
        *y += 1_000_000 * cmp::max(1, i as i32);
        if cmp::max(i > 3, next > 3) && cmp::min(i < 5, true) {
            *y = -*y;
        }
    }
}

#[kernel(crate = quipu_kernel)]
fn moved(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let mut a = [x[i], 1, 2];
        let mut b = [3u32, 4, 5];
        mem::swap(&mut a, &mut b);
        core::mem::swap(&mut a[1], &mut b[2]);
        let mut kept = Kept {
            first: x[i],
            second: [7, 8],
        };
        let first = mem::replace(&mut kept.first, a[0] + b[0]);
        // What is there is what the new value has made of it.
        let second = std::mem::replace(&mut kept.second[1], {
            kept.first += 1;
            kept.first
        });
        let before = mem::replace(
            &mut kept,
            Kept {
                first: 9,
                second: [first, second],
            },
        );
        let array = mem::take(&mut kept.second);
        let mut z = Complex::new(x[i] as f32, 1.0);
        let real = core::mem::take(&mut z.re);
        *y = 3 * mem::take(y) + 1;
        let added = mem::replace(y, 0);
        *y = added
            + 10 * (before.first + before.second[1] + array[0] + array[1])
            + 1_000 * (kept.first + kept.second[0] + kept.second[1] + real as u32)
            + 100_000 * (a[0] + 10 * a[1] + 100 * a[2] + b[0] + 10 * b[1] + 100 * b[2])
            + mem::take(&mut kept).first
            + kept.first;
    }
}

#[test]
fn runs_functions_of_std() {
    let x = vec![3, -1, 4, 1, -5, 9];
    let mut y = vec![0; 6];
    check!(compared => (&x, &mut y), division(2, 3, 1));
    assert_eq!(y[0], 1_010_000 + 3 + 2 + 100 * 3);
    assert_eq!(y[4], -(4_020_000 + 9 + 10 + 100 * 3));

    let x = vec![3, 1, 4, 1, 5, 9];
    let mut y = vec![2; 6];
    check!(moved => (&x, &mut y), division(2, 3, 1));
}
