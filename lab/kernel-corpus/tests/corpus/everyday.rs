//! Everyday Rust in kernels: names in alternatives, assignments to parts, derived comparisons,
//! bytes of numbers, adapters behind closures, parts of slices.

use std::cmp::{Ordering, max, min};
use std::mem::swap;

use super::{check, division};
use quipu_kernel::{Accelerator, KernelData, OwnElements, device, kernel};

#[device(crate = quipu_kernel)]
#[derive(Clone, Copy, Default, PartialEq, PartialOrd, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Key {
    major: u32,
    minor: f32,
}

#[device(crate = quipu_kernel)]
#[derive(Clone, Copy, PartialEq, PartialOrd, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Twice<T>(T, Key);

#[device(crate = quipu_kernel)]
fn is_before<T: PartialOrd + Copy>(one: T, other: T) -> bool {
    one < other
}

#[kernel(crate = quipu_kernel)]
fn compared(_acc: &impl Accelerator<1>, x: &[u32], f: &[f32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let next = (i + 1) % x.len();
        let [one, other] = [i, next].map_to_keys(x, f);
        *y = (one == other) as u32 + 10 * (one < other) as u32 + 100 * (one >= other) as u32;
        let same = Key {
            minor: f[i],
            ..Default::default()
        };
        *y += 1000
            * (same
                != Key {
                    major: 0,
                    minor: f[i],
                }) as u32;
        let (a, b) = (Twice(x[i] % 2, one), Twice(x[next] % 2, other));
        *y += 10_000 * (a <= b) as u32 + 100_000 * (a == Twice(x[i] % 2, one)) as u32;
        *y += 1_000_000 * is_before(one, other) as u32
            + 10_000_000 * ([one, other] == [other, one]) as u32;
    }
}

/// Two of them at once.
#[device(crate = quipu_kernel)]
trait Keys {
    fn map_to_keys(self, x: &[u32], f: &[f32]) -> [Key; 2];
}

#[device(crate = quipu_kernel)]
impl Keys for [usize; 2] {
    fn map_to_keys(self, x: &[u32], f: &[f32]) -> [Key; 2] {
        [
            Key {
                major: x[self[0]] / 4,
                minor: f[self[0]],
            },
            Key {
                major: x[self[1]] / 4,
                minor: f[self[1]],
            },
        ]
    }
}

#[kernel(crate = quipu_kernel)]
fn taken_apart(_acc: &impl Accelerator<1>, x: &[u32], n: u32, mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let (mut a, mut b, mut c) = (1, 2, 3.0);
        [a, b] = [x[i], a + b + n];
        *y = a + 10 * b;
        Key { major: a, minor: c } = Key {
            major: x[i] + b,
            minor: c + 1.0,
        };
        (b, [a, ..]) = (a, [n, b, 7]);
        let mut numbers = [0; 3];
        (numbers[i % 3], _) = (a + b, c);
        *y += 100 * a + 1000 * b + 10_000 * numbers[i % 3] + c as u32;
        *y += match (x[i], n) {
            (1, v) | (v, 1) | (v @ 4, _) => v * 100_000,
            (3, mut v) | (9, mut v) => {
                v += 3;
                v * 100_000
            }
            _ => 0,
        };
    }
}

#[kernel(crate = quipu_kernel)]
fn bytes(_acc: &impl Accelerator<1>, x: &[u32], f: &[f32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let word = x[i] * 0x0102_0304;
        let [low, ..] = word.to_le_bytes();
        let turned = u32::from_be_bytes(word.to_le_bytes());
        *y = turned ^ word.swap_bytes() ^ low as u32;
        *y ^= u16::from_le_bytes([x[i] as u8, 2]) as u32;
        *y ^= f[i].to_be_bytes()[0] as u32 ^ f32::from_le_bytes(f[i].to_le_bytes()).to_bits();
        *y ^= (-(x[i] as i64)).swap_bytes() as u32 ^ word.to_be();
    }
}

#[kernel(crate = quipu_kernel)]
fn overflowing(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let word = x[i].wrapping_mul(0x4000_0001);
        let (signed, small) = (word as i32, (x[i] as i8).wrapping_mul(30));
        let (sum, carry) = word.overflowing_add(0x8000_0000);
        let (product, is_finished) = signed.overflowing_mul(-3);
        *y = sum ^ product as u32 ^ carry as u32 ^ (is_finished as u32) << 1;
        *y ^= word.saturating_mul(3)
            ^ signed.saturating_mul(-5) as u32
            ^ small.saturating_mul(2) as u32;
        *y ^= small.checked_mul(2).map_or(5, |k| k as u32) << 2;
        *y ^= signed.checked_add(signed).unwrap_or(7) as u32;
        *y ^= signed.checked_div(x[i] as i32 - 4).unwrap_or(11) as u32;
        *y ^= i32::MIN.checked_rem(x[i] as i32 - 5).unwrap_or(13) as u32;
        *y ^= signed.checked_neg().unwrap_or(17) as u32 ^ x[i].checked_shl(x[i] * 7).unwrap_or(19);
        *y ^= word.isqrt()
            ^ (word as u64 * 977).isqrt() as u32
            ^ (x[i] as u8).wrapping_mul(20).isqrt() as u32;
        *y ^= i.checked_sub(3).map_or(23, |k| k as u32) ^ (x[i] as u16).overflowing_sub(4).0 as u32;
    }
}

#[kernel(crate = quipu_kernel)]
fn ordered(_acc: &impl Accelerator<1>, x: &[u32], f: &[f32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        *y = match x[i].cmp(&4) {
            Ordering::Less => 1,
            Ordering::Equal => 2,
            Ordering::Greater => 3,
        };
        *y += 10 * f[i].total_cmp(&0.0).is_lt() as u32
            + 100 * f[i].partial_cmp(&f[0]).is_none() as u32;
        let order = f[i].total_cmp(&f[3]).reverse().then(x[i].cmp(&1));
        *y += 1000 * (order == Ordering::Greater) as u32;
        let (mut least, mut most) = (min(x[i], 4), max(x[i], 4));
        swap(&mut least, &mut most);
        *y += 10_000 * least + 1_000_000 * most;
    }
}

#[kernel(crate = quipu_kernel)]
fn adapted(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let twice = |v: &u32| v * 2;
        *y = x
            .iter()
            .map(|v| v + 1)
            .zip(x.iter().map(twice))
            .map(|(a, b)| a * b)
            .sum();
        *y += x
            .iter()
            .zip(x.iter().map(|v| v % 3))
            .skip(i)
            .map(|(a, b)| *a * b * 1000)
            .sum::<u32>();
        for (k, v) in x.iter().filter(|v| **v > 2).enumerate() {
            *y += k as u32 * v * 10_000;
        }
        let mut last = 0;
        for v in x.iter().map(|v| v + 1).rev().step_by(2).take(i) {
            last = last * 10 + v;
        }
        *y += last * 1_000_000;
    }
}

#[kernel(crate = quipu_kernel)]
fn parted(_acc: &impl Accelerator<1>, x: &[u32], n: usize, mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        *y = x.windows(n).map(|w| w[0] * w[n - 1]).sum();
        for (k, part) in x.chunks(4).enumerate() {
            *y += 100 * (k as u32 + 1) * part.len() as u32;
        }
        for part in x[i..].chunks_exact(2) {
            *y += 10_000 * part[0] * part[1];
        }
        let (low, high) = x.split_at(i);
        *y += 10_000_000 * (low.len() as u32 + high[0]);
        let mut own = [x[i], 2, 3, 4];
        own[1..].copy_from_slice(&x[..3]);
        own.reverse();
        let (front, back) = own.split_at_mut(2);
        front[0] += 1;
        back.swap(0, 1);
        *y ^= own[0] + 8 * own[1] + 64 * own[2] + 512 * own[3];
    }
}

macro_rules! run {
    ($($kernel:ident($($more:expr),*);)*) => {$({
        let x = vec![3, 1, 4, 8, 5, 9];
        let mut y = vec![0; 6];
        check!($kernel => (&x $(, $more)*, &mut y), division(2, 3, 1));
        // Nothing is taken for all of them.
        assert!(y.iter().any(|one| *one != y[0]), "{y:?}");
    })*};
}

#[test]
fn everyday_rust_is_the_same_everywhere() {
    let f = vec![3.0_f32, -1.0, -0.0, 0.0, f32::NAN, -4.0];
    run! {
        compared(&f);
        taken_apart(2);
        bytes(&f);
        overflowing();
        ordered(&f);
        adapted();
        parted(3_usize);
    }
}
