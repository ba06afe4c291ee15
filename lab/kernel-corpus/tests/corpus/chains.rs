//! Iterators whose items are summed up, counted, asked, or go through closures.

use super::{check, division};
use quipu_kernel::level::UNOPTIMISED;
use quipu_kernel::{
    Accelerator, Atomics, Block, BlockAccelerator, BlockKernel, Complex, OwnElements, SharedWrite,
    Threads, device, kernel,
};
use std::iter::Sum;

#[kernel(crate = quipu_kernel)]
fn summed(_acc: &impl Accelerator<1>, x: &[f32], z: &[f32], mut y: OwnElements<[f32; 4]>) {
    for (i, y) in y.each() {
        let all: f32 = x.iter().sum();
        let product = x[i..].iter().product::<f32>();
        let dot: f32 = x.iter().zip(z).map(|(a, b)| a * b).sum();
        // Of nothing it is a zero below zero.
        let none: f32 = x[..0].iter().sum();
        let turned = z.iter().fold(Complex::new(0.0, 1.0), |turned, a| {
            turned * Complex::new(*a, 1.0)
        });
        *y = [all + turned.re, product, dot, none];
        y[0] += x
            .iter()
            .filter(|a| **a > 2.0)
            .take_while(|a| **a < 9.0)
            .copied()
            .map(f32::sqrt)
            .sum::<f32>();
    }
}

/// A sum of any numbers that have one.
#[device(crate = quipu_kernel)]
fn total<T: quipu_kernel::Number + for<'a> Sum<&'a T>>(x: &[T]) -> T {
    x.iter().sum()
}

#[device(crate = quipu_kernel)]
fn is_odd(x: u32) -> bool {
    x % 2 == 1
}

#[device(crate = quipu_kernel)]
fn then(hash: u32, next: u32) -> u32 {
    hash.wrapping_mul(31).wrapping_add(next)
}

const TABLE: [u32; 4] = [3, 1, 4, 1];

#[kernel(crate = quipu_kernel)]
fn folds(acc: &impl Accelerator<1>, x: &[u32], totals: Atomics<u32>, mut y: OwnElements<u32>) {
    totals.add(0, acc.elements(x.len()).map(|i| x[i]).sum());
    let mut own = 0;
    acc.elements(x.len()).for_each(|i| own = own.max(x[i]));
    totals.max(1, own);
    for (i, y) in y.each() {
        let part = &x[i..];
        let mut hash = part.iter().copied().fold(7, then);
        hash = then(hash, total(part));
        hash = (0..i as u32).rev().fold(hash, |hash, k| then(hash, k));
        let greatest = part.iter().fold(0, |greatest, a| a.max(&greatest).clone());
        let least = part.iter().copied().fold(u32::MAX, u32::min);
        // Of two, the sum and how many there were.
        let (sum, count) = part
            .iter()
            .fold((0, 0u32), |(sum, count), a| (sum + a, count + 1));
        hash = then(then(hash, greatest + 100 * least), sum * count);
        let odd = part.iter().copied().filter(|a| is_odd(*a)).count();
        let products: u32 = (1..=odd as u32).product();
        hash = then(then(hash, odd as u32), products);
        let nested: u32 = (0..i as u32)
            .map(|a| (0..a).map(|b| a * b).sum::<u32>())
            .sum();
        let of_table = TABLE.iter().zip(&TABLE[1..]).zip(TABLE).zip(&TABLE);
        hash = then(hash, nested);
        hash = of_table.fold(hash, |hash, (((a, b), c), d)| then(hash, a * b + c * d));
        // What is changed outside is changed in the order of the items.
        let mut seen = 0;
        let marked: u32 = part
            .iter()
            .map(|a| {
                seen += 1;
                seen * a
            })
            .filter(|a| a % 3 != 0)
            .sum();
        hash = then(then(hash, marked), seen);
        // A closure that moves counts for itself, all rounds long.
        let mut n = 3;
        let moved: u32 = part
            .iter()
            .map(move |a| {
                n += 1;
                n * a
            })
            .sum();
        n += 1;
        hash = then(then(hash, moved), n);
        let scaled = |a: u32| a * n;
        for a in part.iter().copied().map(scaled).filter(|a| *a != 20) {
            if a > 30 {
                continue;
            }
            if a == 8 {
                break;
            }
            hash = then(hash, a);
        }
        'outer: for (k, a) in x.iter().enumerate().map(|(k, a)| (k as u32 * 2, *a)) {
            for b in part.iter().take_while(|b| **b != 9).map(|b| b + k) {
                if a == b {
                    continue 'outer;
                }
                hash = then(hash, b);
            }
        }
        let mut lowered = [9, 8, 7];
        lowered
            .iter_mut()
            .zip(x)
            .for_each(|(own, x)| *own -= x.min(&7));
        *y = then(hash, lowered[0] + 10 * lowered[1] + 100 * lowered[2]);
    }
}

/// Receivers come before what is passed, and what is passed before the first item.
#[kernel(crate = quipu_kernel)]
fn ordered(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let mut n = i;
        let sum = x[n..].iter().map(move |a| a + n as u32).fold(
            {
                n += 1;
                n as u32
            },
            |sum, a| sum * 3 + a,
        );
        *y = sum + 1000 * n as u32;
    }
}

#[kernel(crate = quipu_kernel)]
fn contents(_acc: &impl Accelerator<1>, x: &[u32], z: &[f32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let (start, few) = (i as i32 - 3, [x[i], 9]);
        let all = [
            x[i..].contains(&2),
            few.contains(&x[0]),
            x[..0].contains(&3),
            z.contains(&0.0),
            z.contains(&z[5]),
            (1..4).contains(&i),
            (start..=2).contains(&(x[i] as i32)),
            (2.5..f32::INFINITY).contains(&z[i]),
            (x[i]..).contains(&4),
            (0.0..=1.5).contains(&z[5]),
        ];
        *y = all.iter().fold(0, |bits, is| bits * 2 + *is as u32);
    }
}

#[kernel(crate = quipu_kernel)]
fn questions(_acc: &impl Accelerator<1>, x: &[u32], asked: Atomics<u32>, mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let part = &x[i..];
        let has = part.iter().any(|a| {
            asked.add(0, 1);
            *a == 9
        });
        let are = part.iter().copied().all(|a| {
            asked.add(1, 1);
            a < 6
        });
        let none = x[..0].iter().any(|_| true) || !x[..0].iter().all(|_| false);
        let is_prime = (2..x[i]).all(|d| x[i] % d != 0);
        let one = (0..i).zip(part).map(|(k, a)| k as u32 == *a).any(|is| is);
        let odd = part.iter().copied().any(is_odd) && (0..).any(|k| k == i);
        *y = has as u32
            + 10 * are as u32
            + 100 * none as u32
            + 1000 * is_prime as u32
            + 10_000 * one as u32
            + 100_000 * odd as u32;
    }
}

/// A closure that changes its own, which an iterator is lent.
#[kernel(crate = quipu_kernel)]
fn lent(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let mut seen = i as u32;
        let mut weigh = move |a: u32| {
            seen += 1;
            a * seen
        };
        let all: u32 = x[i..].iter().copied().map(&mut weigh).sum();
        *y = all * 100 + weigh(1) * 10 + seen;
    }
}

/// In loops with barriers, and between these.
#[kernel(crate = quipu_kernel)]
async fn waiting(
    acc: &impl BlockAccelerator<1>,
    x: &[u32],
    mut y: OwnElements<u32>,
    #[shared(4)] mut all: SharedWrite<u32>,
) {
    let own = acc.index(Block, Threads)[0];
    let mut sum: u32 = x.iter().map(|a| a * own as u32).sum();
    for a in x.iter().rev() {
        all.own()[0] = sum;
        let read = acc.sync(all).await;
        sum = then(sum, read.iter().sum::<u32>() + a) % 1000;
        let is_odd = read.iter().any(|a| *a % 2 == 1);
        all = acc.sync(read).await;
        sum += is_odd as u32;
    }
    // Not of the form of phases.
    for a in x.iter().map(|a| a + 1).filter(|a| *a != 5) {
        all.own()[0] = sum;
        let read = acc.sync(all).await;
        sum = then(sum, read[(own + 1) % 4] * a) % 1000;
        all = acc.sync(read).await;
    }
    for (_, y) in y.each() {
        *y = sum;
    }
}

#[kernel(crate = quipu_kernel)]
async fn phased(
    acc: &impl BlockAccelerator<1>,
    x: &[u32],
    mut y: OwnElements<u32>,
    #[shared(4)] mut all: SharedWrite<u32>,
) {
    let own = acc.index(Block, Threads)[0];
    let mut sum = own as u32;
    for a in x.iter().rev() {
        all.own()[0] = sum;
        let read = acc.sync(all).await;
        sum = then(sum, read.iter().sum::<u32>() + a) % 1000;
        all = acc.sync(read).await;
    }
    for (_, y) in y.each() {
        *y = sum;
    }
}

#[test]
fn runs_chains() {
    let x = vec![3.0f32, 1.5, 4.0, 1.0, 5.5, 9.0];
    let z = vec![2.0f32, 7.0, 1.0, 0.1];
    let mut y = vec![[0.0f32; 4]; 6];
    check!(summed => (&x, &z, &mut y), division(2, 3, 1));
    assert_eq!(y[0][3].to_bits(), (-0.0f32).to_bits());
    assert_eq!(y[4][1], 5.5 * 9.0);

    let x: Vec<u32> = vec![3, 1, 4, 1, 5, 9, 2, 6];
    let mut y = vec![0; 8];
    let mut totals = vec![0, 0];
    check!(folds => (&x, &mut totals, &mut y), division(2, 2, 2));
    assert_eq!(totals, [x.iter().sum(), 9]);
    check!(ordered => (&x, &mut y), division(2, 4, 1));
    check!(waiting => (&x, &mut y), division(2, 4, 1));
    const { assert!(!<waiting as BlockKernel<1>>::IN_PHASES) };
    const { assert!(UNOPTIMISED || <phased as BlockKernel<1>>::IN_PHASES) };
    check!(phased => (&x, &mut y), division(2, 4, 1));

    let z = vec![-0.0f32, 1.5, 2.5, 4.0, 1.0, f32::NAN, 9.0, 3.0];
    check!(contents => (&x, &z, &mut y), division(2, 4, 1));
    assert_eq!(y[0], 0b11_0100_0010);

    check!(lent => (&x, &mut y), division(2, 4, 1));
    assert_eq!(y[6], (2 * 7 + 6 * 8) * 100 + 9 * 10 + 6);

    let mut asked = vec![0, 0];
    check!(questions => (&x, &mut asked, &mut y), division(2, 4, 1));
    assert_eq!(y[0], 101_001);
}
