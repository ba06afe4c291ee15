//! `for` loops.

use super::{check, division};
use quipu_kernel::{Accelerator, Extent, OwnElements, Vector, device, kernel};

#[kernel(crate = quipu_kernel)]
fn ranges(_acc: &impl Accelerator<1>, x: &[i32], mut y: OwnElements<i64>) {
    for (i, y) in y.each() {
        let v = x[i];
        let mut hash = 17i64;
        for a in 0..v {
            hash = hash.wrapping_mul(31).wrapping_add(a as i64);
        }
        for a in (v..10).rev() {
            hash = hash.wrapping_mul(37).wrapping_add(a as i64);
        }
        for a in (-3..=v).step_by(2) {
            hash = hash.wrapping_mul(41).wrapping_add(a as i64);
        }
        for a in (0..=v).rev() {
            if a == 5 {
                continue;
            }
            hash = hash.wrapping_mul(43).wrapping_add(a as i64);
        }
        for a in 250..=255u8 {
            hash = hash.wrapping_mul(47).wrapping_add(a as i64);
        }
        for a in (i8::MIN..i8::MAX).step_by(100) {
            hash = hash.wrapping_mul(53).wrapping_add(a as i64);
        }
        for a in (v..10).rev().step_by(3) {
            hash = hash.wrapping_mul(59).wrapping_add(a as i64);
        }
        for a in (v..=10).rev().step_by(4) {
            hash = hash.wrapping_mul(61).wrapping_add(a as i64);
        }
        for a in (v..10).step_by(3).rev() {
            hash = hash.wrapping_mul(67).wrapping_add(a as i64);
        }
        for a in (v as i16..=10).step_by(4).rev() {
            hash = hash.wrapping_mul(71).wrapping_add(a as i64);
        }
        for a in (i8::MIN..=i8::MAX).step_by(100).rev() {
            hash = hash.wrapping_mul(73).wrapping_add(a as i64);
        }
        for a in (0..=u8::MAX).rev().step_by(255) {
            hash = hash.wrapping_mul(79).wrapping_add(a as i64);
        }
        for a in (i32::MIN..0).step_by(n_of(v)).rev() {
            hash = hash.wrapping_mul(83).wrapping_add(a as i64);
        }
        *y = hash;
    }
}

/// A step that is known where the kernel runs.
#[device(crate = quipu_kernel)]
fn n_of(v: i32) -> usize {
    0x2000_0000 + (v & 0xff) as usize
}

#[test]
fn runs_ranges() {
    let x: Vec<i32> = (-10..15).collect();
    let mut y = vec![0; 25];
    check!(ranges => (&x, &mut y), division(5, 5, 1));
}

#[kernel(crate = quipu_kernel)]
fn elements(acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<f32>) {
    let mut sum = 0.0;
    for i in acc.elements(x.len()) {
        sum += x[i];
    }
    for (_, y) in y.each() {
        *y = sum;
    }
    let mut window = [0.0; 4];
    for (i, y) in y.each() {
        for (k, w) in window.iter_mut().enumerate() {
            *w = x[(i + k) % x.len()];
        }
        for w in &window {
            *y += *w;
        }
        for w in window {
            *y += w;
        }
        for w in x[i..].iter() {
            *y -= w * 0.5;
        }
    }
}

#[test]
fn runs_elements() {
    let x: Vec<f32> = (0..20u8).map(f32::from).collect();
    let mut y = vec![0.0; 20];
    check!(elements => (&x, &mut y), division(2, 5, 2));
}

/// Ranges and positions in variables.
#[kernel(crate = quipu_kernel)]
fn kept(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let mut range = 0..i;
        if i % 3 == 1 {
            range = i / 2..x.len();
        }
        let backwards = if i > 3 { 1..4u32 } else { 2..3 };
        let mut place = Extent::new([3, 5]).position_of(i % 15);
        let all: Extent<2> = Extent::splat(i % 3);
        place[1] += place[0];
        if i > 10 {
            place = Vector::new([i, 1]);
        }
        let mut hash = x[range.clone()].len() as u32;
        for k in range {
            hash = hash.wrapping_mul(31).wrapping_add(x[k]);
        }
        for k in backwards.rev() {
            hash = hash.wrapping_mul(37).wrapping_add(k);
        }
        let [row, column] = place.components();
        *y = hash.wrapping_add((row * 100 + column + 1000 * all.product()) as u32);
    }
}

#[test]
fn runs_kept() {
    let x: Vec<u32> = (0..20).collect();
    let mut y = vec![0; 20];
    check!(kept => (&x, &mut y), division(2, 5, 2));
    assert_eq!(y[0], 2 * 1 + 0);
}
