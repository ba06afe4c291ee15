//! Iterators and their adapters.

use super::{check, division};
use quipu_kernel::level::UNOPTIMISED;
use quipu_kernel::{
    Accelerator, Block, BlockAccelerator, BlockKernel, OwnElements, SharedWrite, Threads, device,
    kernel,
};
use std::ops::Range;

/// A hash that tells which numbers came, and in which order.
#[device(crate = quipu_kernel)]
fn then(hash: u32, next: u32) -> u32 {
    hash.wrapping_mul(31).wrapping_add(next)
}

#[kernel(crate = quipu_kernel)]
fn zipped(_acc: &impl Accelerator<1>, x: &[u32], z: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let mut hash = 7;
        // The shorter one decides.
        for (a, b) in x[i..].iter().zip(z.iter()) {
            if *a == 4 {
                continue;
            }
            hash = then(then(hash, *a), *b);
        }
        for (a, b) in x.iter().zip(&z[..i / 2]) {
            hash = then(hash, a * b);
        }
        for (k, (a, &b)) in x.iter().zip(z).enumerate() {
            hash = then(hash, k as u32 + a * b);
        }
        for ((a, b), k) in x.iter().zip(z).zip(3u8..) {
            hash = then(hash, a + b * k as u32);
        }
        let mut own = [1u32, 2, 3, 4];
        let more = [5u32, 6, 7];
        for (own, x) in own.iter_mut().zip(&x[i..]) {
            *own += x;
        }
        for (own, more) in own.iter_mut().zip(&more) {
            *own *= *more;
        }
        // By value, as it was when the loop began.
        for (k, copy) in (0..9usize).zip(own) {
            own[3 - k] += copy;
        }
        for (k, own) in own.iter().enumerate() {
            hash = then(hash, *own + k as u32);
        }
        let pairs = x.iter().zip(z.iter());
        'outer: for (a, b) in pairs {
            for (c, d) in x.iter().zip(z).skip(2) {
                if c + d == a + b {
                    continue 'outer;
                }
                if c + d + i as u32 == 10 {
                    break 'outer;
                }
                hash = then(hash, c + d);
            }
        }
        *y = hash;
    }
}

#[device(crate = quipu_kernel)]
fn length(range: Range<usize>) -> u32 {
    if range.is_empty() {
        return 9;
    }
    range.len() as u32
}

#[kernel(crate = quipu_kernel)]
fn adapted(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let mut hash = 7;
        for a in x[i..].iter().rev() {
            hash = then(hash, *a);
        }
        for a in x.iter().step_by(i + 1) {
            hash = then(hash, *a);
        }
        for a in x.iter().skip(i) {
            hash = then(hash, *a);
        }
        for (k, a) in x.iter().enumerate().skip(2).take(i).rev() {
            hash = then(hash, *a + k as u32);
        }
        for a in x.iter().rev().take(3).copied().skip(1) {
            hash = then(hash, a);
        }
        for (k, a) in x.iter().rev().enumerate().rev().step_by(2) {
            hash = then(hash, k as u32 * a);
        }
        for a in x.iter().cloned().step_by(2).rev() {
            hash = then(hash, a);
        }
        for a in x.iter().take(20 * i) {
            hash = then(hash, *a);
        }
        for a in (0..x.len()).skip(3) {
            hash = then(hash, a as u32);
        }
        for a in (0..=i as i8).rev().skip(1).step_by(2) {
            hash = then(hash, a as u32);
        }
        hash = then(hash, length(i..4));
        hash = then(hash, (i as i32 - 3..3).len() as u32);
        for a in (i as i64 - 3..4).take(5) {
            hash = then(hash, a as u32);
        }
        for (k, a) in (-4..=i as i16).enumerate().rev() {
            hash = then(hash, (a as u32).wrapping_add(k as u32));
        }
        let mut own = [1u32, 2, 3, 4];
        for (k, own) in own.iter_mut().rev().enumerate() {
            *own += 10 * k as u32;
        }
        for own in own.iter_mut().skip(1).step_by(2) {
            *own += 100;
        }
        for own in own.iter() {
            hash = then(hash, *own);
        }
        *y = hash;
    }
}

/// Ranges of the greatest and smallest numbers, of which there may be more than there are numbers.
#[kernel(crate = quipu_kernel)]
fn to_the_ends(_acc: &impl Accelerator<1>, x: &[u64], mut y: OwnElements<u64>) {
    for (i, y) in y.each() {
        let v = x[i];
        let mut hash = v;
        for a in (0..=u64::MAX).rev().skip(3).take(4) {
            hash = hash.wrapping_mul(31).wrapping_add(a);
        }
        for a in (0..=u64::MAX).step_by(0x7fff_ffff).skip(2).take(3) {
            hash = hash.wrapping_mul(31).wrapping_add(a);
        }
        for (a, b) in (i64::MIN..=i64::MAX).rev().zip(v..=u64::MAX) {
            hash = hash.wrapping_mul(31).wrapping_add(a as u64 ^ b);
        }
        for (a, b) in (v - 9..).zip(250..=255u8) {
            hash = hash.wrapping_mul(31).wrapping_add(a ^ b as u64);
        }
        for a in (0..=u32::MAX).skip(0xffff_fffe) {
            hash = hash.wrapping_mul(31).wrapping_add(a as u64);
        }
        for a in (0..=u32::MAX).rev().step_by(0x5555_5555) {
            hash = hash.wrapping_mul(31).wrapping_add(a as u64);
        }
        for (k, a) in (u64::MAX - 4..=u64::MAX).enumerate() {
            hash = hash.wrapping_mul(31).wrapping_add(a + 0 * k as u64);
        }
        for a in (i8::MIN..=i8::MAX).step_by(51).rev().skip(1) {
            hash = hash.wrapping_mul(31).wrapping_add(a as u64);
        }
        for a in (v..0).rev().take(3) {
            hash = hash.wrapping_add(a);
        }
        *y = hash;
    }
}

/// The first multiple of a number that is at least so great.
#[device(crate = quipu_kernel)]
fn multiple(of: u32, least: u32) -> u32 {
    let mut found = 0;
    for k in 1.. {
        if k % 3 == 0 {
            continue;
        }
        if of * k >= least {
            found = of * k;
            break;
        }
    }
    found
}

#[kernel(crate = quipu_kernel)]
fn open(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let mut hash = multiple(x[i], 20);
        for k in i.. {
            if k >= x.len() || x[k] == 9 {
                break;
            }
            hash = then(hash, x[k]);
        }
        for k in (-3i16..).step_by(2).skip(1) {
            if k > i as i16 {
                break;
            }
            hash = then(hash, k as u32);
        }
        for (k, a) in (5u8..).zip(x) {
            hash = then(hash, *a + k as u32);
        }
        *y = hash;
    }
}

/// Loops with barriers over what was adapted.
#[kernel(crate = quipu_kernel)]
async fn waiting(
    acc: &impl BlockAccelerator<1>,
    n: usize,
    x: &[u32],
    mut y: OwnElements<u32>,
    #[shared(4)] mut all: SharedWrite<u32>,
) {
    let own = acc.index(Block, Threads)[0];
    let mut sum = own as u32;
    for (k, a) in x
        .iter()
        .zip(x[1..].iter().rev())
        .take(n)
        .enumerate()
        .skip(1)
        .step_by(2)
    {
        all.own()[0] = sum;
        let read = acc.sync(all).await;
        sum = then(sum, read[(own + k) % 4] + a.0 * a.1);
        all = acc.sync(read).await;
    }
    for _ in (0..n).skip(1).take(2) {
        all.own()[0] = sum;
        let read = acc.sync(all).await;
        sum = then(sum, read[(own + 1) % 4]);
        all = acc.sync(read).await;
    }
    for k in 1.. {
        if k == n {
            break;
        }
        all.own()[0] = sum;
        let read = acc.sync(all).await;
        sum = then(sum, read[(own + k) % 4]);
        all = acc.sync(read).await;
    }
    for (_, y) in y.each() {
        *y = sum;
    }
}

/// A loop that begins with a thread's own number, and ends for all at once.
#[kernel(crate = quipu_kernel)]
async fn from_own(
    acc: &impl BlockAccelerator<1>,
    n: usize,
    mut y: OwnElements<u32>,
    #[shared(4)] mut all: SharedWrite<u32>,
) {
    let own = acc.index(Block, Threads)[0];
    let (mut sum, mut rounds) = (own as u32, 0);
    for k in own.. {
        if rounds == n {
            break;
        }
        rounds += 1;
        all.own()[0] = sum;
        let read = acc.sync(all).await;
        sum = then(sum, read[k % 4]);
        all = acc.sync(read).await;
    }
    for (_, y) in y.each() {
        *y = sum;
    }
}

/// Two outputs, of which a thread has the same elements.
#[kernel(crate = quipu_kernel)]
fn pairs(
    acc: &impl Accelerator<1>,
    t: f32,
    x: &[f32],
    mut v: OwnElements<f32>,
    mut p: OwnElements<f32>,
) {
    for ((i, v), (j, p)) in v.each().zip(p.each()) {
        *v += t * x[i];
        *p += t * *v + x[j];
    }
    v.each().zip(p.each()).for_each(|((i, v), (_, p))| {
        if i % 3 == 1 {
            std::mem::swap(v, p);
        }
    });
    for ((i, v), (j, (_, p))) in v.each().zip(acc.elements(x.len()).zip(p.each())) {
        if j % 5 == 4 {
            continue;
        }
        *p -= *v * x[(i + j) % x.len()];
    }
}

/// A thread's own elements, counted beside their numbers.
#[kernel(crate = quipu_kernel)]
fn in_order(acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (k, (i, y)) in y.each().enumerate() {
        *y = then(*y, (100 * k + i) as u32);
    }
    let odd = acc
        .elements(x.len())
        .enumerate()
        .filter(|(k, i)| (k + i) % 2 == 1)
        .map(|(_, i)| i as u32)
        .fold(0, then);
    for (_, y) in y.each() {
        *y = then(*y, odd);
    }
}

/// Own elements without their numbers, by themselves and beside others.
#[kernel(crate = quipu_kernel)]
fn without_numbers(acc: &impl Accelerator<1>, mut y: OwnElements<u32>, mut z: OwnElements<u32>) {
    let extent = y.extent();
    for y in y.iter_mut() {
        if *y == 0 {
            continue;
        }
        *y += 3;
    }
    for (y, i) in y.iter_mut().zip(acc.elements(extent)) {
        *y = then(*y, i as u32);
    }
    y.iter_mut().zip(z.each()).for_each(|(y, (i, z))| {
        if i % 3 == 1 {
            std::mem::swap(y, z);
        }
    });
}

/// A sum of a thread's own: which these are depends on the device.
#[kernel(crate = quipu_kernel)]
fn summed_without_numbers(_acc: &impl Accelerator<1>, mut y: OwnElements<u32>) {
    let sum = y.iter_mut().map(|y| *y & 0xff).sum::<u32>();
    for y in y.iter_mut() {
        *y = then(*y, sum);
    }
}

#[test]
fn runs_own_elements_without_numbers() {
    for division in [division(2, 3, 4), division(1, 3, 2)] {
        let (mut y, mut z): (Vec<u32>, _) = ((0..29).collect(), vec![5; 29]);
        check!(without_numbers => (&mut y, &mut z), division);
        check!(summed_without_numbers => (&mut y), division);
    }
}

#[test]
fn runs_own_elements_with_others() {
    let x: Vec<f32> = (0..29).map(|i| i as f32 / 4.0 - 2.0).collect();
    for division in [division(2, 3, 4), division(2, 4, 4), division(1, 3, 2)] {
        let (mut v, mut p) = (vec![1.0; 29], vec![2.0; 29]);
        check!(pairs => (0.5f32, &x, &mut v, &mut p), division);
        let (x, mut y) = (vec![3, 1, 4, 1, 5, 9, 2, 6], vec![1; 29]);
        check!(in_order => (&x, &mut y), division);
    }
}

#[test]
fn runs_iterators() {
    let x: Vec<u32> = vec![3, 1, 4, 1, 5, 9, 2, 6];
    let z: Vec<u32> = vec![2, 7, 1, 8, 2, 8];
    let mut y = vec![0; 8];
    check!(zipped => (&x, &z, &mut y), division(2, 4, 1));
    check!(adapted => (&x, &mut y), division(2, 2, 2));
    check!(open => (&x, &mut y), division(2, 4, 1));
    const { assert!(UNOPTIMISED || <waiting as BlockKernel<1>>::IN_PHASES) };
    check!(from_own => (5usize, &mut y), division(2, 4, 1));
    check!(waiting => (5usize, &x, &mut y), division(2, 4, 1));

    let x: Vec<u64> = vec![u64::MAX, u64::MAX - 2, u64::MAX - 9];
    let mut y = vec![0; 3];
    check!(to_the_ends => (&x, &mut y), division(1, 3, 1));
}
