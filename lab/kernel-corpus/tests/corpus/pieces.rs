//! Loops over own elements that are run in pieces: each element gets the result of the loop as it
//! is written, at borders and beyond them, and faults come at the same element.

use super::{Passed, check, division, ways};
use quipu_kernel::{
    Accelerator, GlobalMut, GlobalRef, KernelData, OwnElements, WorkDivision, kernel,
};
use quipu_kernel_testing::Argument;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[kernel(crate = quipu_kernel)]
fn shifted(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        *y = if i == 0 { 7 } else { x[i - 1] };
    }
}

/// All that may be in such a loop.
#[kernel(crate = quipu_kernel)]
fn bordered(
    acc: &impl Accelerator<1>,
    radius: usize,
    near: usize,
    far: usize,
    x: &[u32],
    z: GlobalRef<u32>,
    mut y: OwnElements<[u32; 3]>,
) {
    let last = x.len() - 1;
    let mut total = 0_u32;
    let mut seen = 0;
    for (i, y) in y.each() {
        let (left, one) = (i.saturating_sub(radius), 1);
        let right = last.min(i + radius);
        let middle = (far + i).max(radius) - far;
        let mut sum = x[left].wrapping_mul(3) ^ x[right];
        if i >= radius && last - radius > i {
            sum += x[i - radius] + z[[radius + i]];
        } else if i != near {
            sum ^= z[i] << 3;
        } else if one > 1 && i < 3 {
            continue;
        } else {
            sum += 1;
        }
        let of = |other: u32| other ^ x[i];
        y[0] = of(sum);
        y[1] = match x[middle] % 3 {
            0 => z[i * 1],
            1 => x[i] + x[acc.extent(quipu_kernel::Grid, quipu_kernel::Blocks)[0]],
            _ => x[(i + 1) % x.len()],
        };
        if radius > 1 || i + 5 <= radius {
            y[2] = x[i / 2];
        }
        if !(i < near) && (near < i || total % 2 == 0) {
            y[2] += x[i - near];
        }
        total = total.wrapping_add(sum);
        seen += 1;
        if total % 13 == 5 {
            continue;
        }
        y[2] ^= total + seen;
    }
}

#[test]
fn runs_loops_in_pieces() {
    for length in [1, 2, 15, 16, 17, 40, 257, 1000] {
        let x: Vec<u32> = (0..length).map(|i| i * 7 % 311).collect();
        for (blocks, threads, elements) in [(1, 1, 1000), (2, 1, 30), (3, 2, 7)] {
            for mut scratch in ways() {
                let mut y = vec![0; length as usize];
                let division = division(blocks, threads, elements);
                shifted(&x, &mut y).run_in(division, &mut scratch).unwrap();
                assert_eq!((y[0], &y[1..]), (7, &x[..x.len() - 1]));
            }
        }
    }
    // Everything inside, at borders, and beyond them.
    for (length, radius, near, far) in [(40, 3, 5, 0), (1000, 1, 0, 3), (1000, 200, 700, 20)] {
        let x: Vec<u32> = (0..length).map(|i| i * 7 % 311).collect();
        let z: Vec<u32> = (0..length + 300).map(|i| i * 13 % 97).collect();
        let mut y = vec![[9; 3]; length as usize];
        check!(bordered => (radius, near, far, &x, &z, &mut y), division(3, 2, 7));
    }
    let x: Vec<u32> = (0..70).collect();
    let mut y = vec![0; 70];
    check!(shifted => (&x, &mut y), division(2, 1, 30));
}

/// The rows of a part of a view, whose neighbours are asked for in both dimensions.
#[kernel(crate = quipu_kernel)]
fn warmer(_acc: &impl Accelerator<2>, before: GlobalRef<f32, 2>, mut after: OwnElements<f32, 2>) {
    let last_row = before.extent()[0] - 1;
    let last_column = before.extent()[1] - 1;
    for (position, part) in after.rows() {
        let i = position[0];
        for (k, after) in part.iter_mut().enumerate() {
            let j = position[1] + k;
            let above = before[[i.saturating_sub(1), j]];
            let below = before[[(i + 1).min(last_row), j]];
            let left = before[[i, j.saturating_sub(1)]];
            let right = before[[i, (j + 1).min(last_column)]];
            *after = (above + below + left + right) / 4.0;
        }
    }
    for (number, after) in after.each() {
        if number > 3 {
            *after += before[[number / (last_column + 1), number % (last_column + 1)]];
        }
    }
}

#[test]
fn runs_rows_in_pieces() {
    for extent in [[1, 1], [3, 5], [4, 64], [7, 133]] {
        let count: usize = extent.iter().product();
        let before: Vec<f32> = (0..count).map(|i| (i * 7 % 31) as f32 / 8.0).collect();
        let view = GlobalRef::from(&before)
            .in_strides(extent, [extent[1], 1])
            .unwrap();
        let at = |i: usize, j: usize| before[i * extent[1] + j];
        for mut scratch in ways() {
            let mut after = vec![0.0; count];
            let output = GlobalMut::from(&mut after).in_extent(extent).unwrap();
            let division = WorkDivision::new([2, 1], [1, 2], [4, 70]).unwrap();
            warmer(view, output).run_in(division, &mut scratch).unwrap();
            for (number, after) in after.into_iter().enumerate() {
                let (i, j) = (number / extent[1], number % extent[1]);
                let (above, below) = (
                    at(i.saturating_sub(1), j),
                    at((i + 1).min(extent[0] - 1), j),
                );
                let (left, right) = (
                    at(i, j.saturating_sub(1)),
                    at(i, (j + 1).min(extent[1] - 1)),
                );
                let own = if number > 3 { at(i, j) } else { 0.0 };
                let expected = (above + below + left + right) / 4.0 + own;
                assert_eq!(after.to_bits(), expected.to_bits(), "{extent:?} {i} {j}");
            }
        }
    }
}

/// Reads beyond the end, from an element on.
#[kernel(crate = quipu_kernel)]
fn beyond(_acc: &impl Accelerator<1>, far: usize, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        *y = x[i + far] + 1;
    }
}

/// Reads before the beginning, up to an element.
#[kernel(crate = quipu_kernel)]
fn before(_acc: &impl Accelerator<1>, far: usize, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        *y = x[i - far] + 1;
    }
}

#[test]
fn what_is_outside_is_found_at_its_element() {
    let x: Vec<u32> = (0..100).collect();
    for mut scratch in ways() {
        for (far, written) in [
            (0, 90),
            (10, 90),
            (11, 89),
            (60, 40),
            (99, 1),
            (100, 0),
            (usize::MAX, 0),
        ] {
            let mut y = vec![0; 90];
            let run = || beyond(far, &x, &mut y).run_in(division(1, 1, 90), &mut scratch);
            let done = catch_unwind(AssertUnwindSafe(run));
            let is_done = done.is_ok_and(|run| run.is_ok());
            assert_eq!(is_done, written == 90, "{far} {scratch:?}");
            for (i, y) in y.into_iter().enumerate() {
                let expected = if i < written { (i + far) as u32 + 1 } else { 0 };
                assert_eq!(y, expected, "{far} {i} {scratch:?}");
            }
        }
        let mut y = vec![0; 90];
        let run = || before(1, &x, &mut y).run_in(division(1, 1, 90), &mut scratch);
        let done = catch_unwind(AssertUnwindSafe(run));
        assert!(!done.is_ok_and(|run| run.is_ok()));
        assert_eq!(y, [0; 90]);
    }
}

#[derive(Clone, Copy, bytemuck::NoUninit, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Window {
    width: u32,
}

impl Passed for Window {
    fn argument(&self) -> Argument {
        Argument::uniform(*self)
    }
}

#[kernel(crate = quipu_kernel)]
impl Window {
    fn sums(&self, _acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
        for (i, y) in y.each() {
            if i + (self.width as usize) < x.len() {
                *y = x[i] + x[i + self.width as usize];
            }
        }
    }
}

#[test]
fn runs_methods_in_pieces() {
    let x: Vec<u32> = (0..100).collect();
    for width in [1, 200] {
        let window = Window { width };
        let mut y = vec![5; 90];
        check!(window.sums => (&x, &mut y), division(2, 1, 50));
    }
}

/// What is done in macros is done to each element in turn, too: a variable changes, and the loop
/// ends.
#[kernel(crate = quipu_kernel)]
fn changed_in_macros(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    let (mut k, mut m) = (0, 0);
    for (i, y) in y.each() {
        if i + k + 2 < x.len() {
            *y = x[i + k];
        }
        if matches!(
            {
                k = (k + 1) % 3;
                k
            },
            2
        ) {
            *y += 1000;
        }
    }
    for (i, y) in y.each() {
        *y += x[i + m];
        assert!({
            m = 1 - m;
            m < 2
        });
    }
    for (i, y) in y.each() {
        assert!(i < x.len(), "{i}");
        *y += x[i + 1];
        let is_last = matches!(
            {
                if *y > 1015 {
                    break;
                }
                i
            },
            5
        );
        *y += 10_000 * is_last as u32;
    }
}

/// What is asked once for many elements may be asked of each only behind what leaves it.
#[kernel(crate = quipu_kernel)]
fn behind_jumps(_acc: &impl Accelerator<1>, x: &[u32], first: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        if first.is_empty() {
            continue;
        }
        *y += x[i + first[0] as usize];
    }
    for (i, y) in y.each() {
        let false = first.is_empty() else { continue };
        let from = i + first[0] as usize;
        *y += x[from];
    }
    for (i, y) in y.each() {
        match i % 2 {
            0 if first.is_empty() => continue,
            _ if {
                if first.is_empty() {
                    continue;
                }
                false
            } => {}
            _ => *y += x[i + first[0] as usize],
        }
        *y += x[i + first[0] as usize];
    }
    for (i, y) in y.each() {
        if i + 1 < x.len() {
            assert!({
                if first.is_empty() {
                    continue;
                }
                i < x.len()
            });
            *y += x[i + first[0] as usize];
        }
        let _ = if first.is_empty() { return } else { 0 };
        *y += x[i + first[0] as usize];
    }
}

/// What ends within a piece does not go on behind the loop.
#[kernel(crate = quipu_kernel)]
fn ends_within(_acc: &impl Accelerator<1>, ends: u32, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let before = if i == 0 { 0 } else { x[i - 1] };
        if ends == 1 {
            return;
        }
        *y = before + 1;
    }
    for (_, y) in y.each() {
        *y += 100;
    }
}

#[test]
fn returns_end_the_kernel() {
    let x: Vec<u32> = (1..41).collect();
    for ends in [0, 1] {
        for elements in [40, 12] {
            let mut y = vec![0; 38];
            check!(ends_within => (ends, &x, &mut y), division(40 / elements + 1, 1, elements));
        }
    }
}

#[test]
fn changes_and_jumps_are_seen_wherever_they_are() {
    let x: Vec<u32> = (0..40).collect();
    for elements in [40, 12] {
        let mut y = vec![0; 38];
        check!(changed_in_macros => (&x, &mut y), division(40 / elements + 1, 1, elements));
        for first in [vec![], vec![1, 2]] {
            let mut y = vec![0; 38];
            check!(behind_jumps => (&x, &first, &mut y), division(40 / elements + 1, 1, elements));
        }
    }
}
