//! Patterns in conditions, and of structs of fields without names.

use super::{check, division};
use quipu_kernel::{Accelerator, KernelData, OwnElements, device, kernel};

#[derive(Clone, Copy, PartialEq, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(u8)]
enum Move {
    Up,
    Down,
    Stay = 7,
}

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
#[repr(C)]
struct Pair(u32, [u32; 2]);

mod units {
    use quipu_kernel::KernelData;

    #[derive(Clone, Copy, KernelData)]
    #[kernel_data(crate = quipu_kernel)]
    #[repr(transparent)]
    pub(super) struct Metres(pub f32);
}

const LIMIT: u32 = 4;

#[device(crate = quipu_kernel)]
fn move_of(x: u32) -> Move {
    match x % 3 {
        0 => Move::Up,
        1 => Move::Down,
        _ => Move::Stay,
    }
}

#[kernel(crate = quipu_kernel)]
fn conditions(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let next = x[(i + 1) % x.len()];
        if let Move::Up = move_of(x[i]) {
            *y = 1;
        } else if let Move::Down = move_of(next) {
            *y = 2;
        } else {
            *y = 3;
        }
        if let LIMIT | 9 = x[i] {
            *y += 10;
        }
        let both = if let (3, k @ 1..=4) = (x[i], next) {
            k * 7
        } else {
            0
        };
        // What is asked may change what the others see.
        let mut n = x[i];
        let mut rounds = 0;
        'rounds: while let 1..=20 = {
            rounds += 1;
            n
        } {
            n += 3;
            if n == 8 {
                continue 'rounds;
            }
            if n > 15 {
                break;
            }
        }
        *y += 100 * (both + n) + 10_000 * rounds;
    }
}

/// The place of a number: others are left out as they do not match.
#[device(crate = quipu_kernel)]
fn place_of(x: &[u32], wanted: u32) -> u32 {
    for (i, v) in x.iter().enumerate() {
        let true = *v == wanted else { continue };
        return i as u32;
    }
    77
}

#[kernel(crate = quipu_kernel)]
fn otherwise(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        *y = place_of(x, i as u32);
        let (1 | 3, k) = (x[i], *y + 100) else {
            *y += 1000;
            continue;
        };
        let kept @ 100..=199 = k else { return };
        *y = kept;
    }
}

#[kernel(crate = quipu_kernel)]
fn questions(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let goes = matches!(move_of(x[i]), Move::Up | Move::Down);
        if goes && !matches!((i, x[i]), (_, 1),) {
            *y += 1;
        }
        if matches!(x[i], k @ 1..=4 if k as usize > i) {
            *y += 10;
        }
        *y += 100 * matches!(x[i], 1 | 5..) as u32;
        // A method is called on what there was before its arguments changed that.
        let mut n = x[i];
        let changed = n.wrapping_add(matches!(
            {
                n += 1;
                n
            },
            2
        ) as u32);
        *y += 1000 * changed;
        *y += 10_000 * matches!(Pair { 0: x[i], 1: [n; 2] }, Pair { 0: 3, .. }) as u32;
    }
}

#[kernel(crate = quipu_kernel)]
fn nameless(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let pair = Pair(x[i], [i as u32, 5]);
        let Pair(a, [b, _]) = pair;
        let Pair(mut c, ..) = pair;
        c += match pair {
            Pair(1, _) => 100,
            Pair(k, [0 | 2, _]) => k * 1000,
            Pair(..) => 0,
        };
        let units::Metres(height) = units::Metres(x[i] as f32 / 2.0);
        for Pair(_, [d, e]) in [pair, Pair(a, [b, 6])] {
            *y += d + e;
        }
        if let Pair(3.., [d, _]) = pair {
            *y += 10_000 * d;
        }
        *y += a + b + c + height as u32;
    }
}

/// Parts of what is changed through a reference to the whole; and names for several values at once,
/// which may be slices.
#[kernel(crate = quipu_kernel)]
fn parts(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let mut array = [1, 2, x[i]];
        let [a, _, c] = &mut array;
        std::mem::swap(a, c);
        *c += 10;
        let mut pair = Pair(x[i], [7, 8]);
        let Pair(first, [_, last]) = &mut pair;
        *first += 1;
        *last += *first;
        if let Pair(_, [7, last]) = &mut pair {
            *last += 100;
        }
        let (low, high, kept) = (&x[..2], &x[2..], array);
        array[1] = 50;
        let ((one, two), _) = ((low[0], high[i % 4]), array);
        *y = kept[0] + 10 * kept[1] + 100 * kept[2] + 10_000 * pair.1[1] + one * two;
    }
}

/// The number of a slice's elements is part of a pattern.
#[kernel(crate = quipu_kernel)]
fn lengths(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        *y = match &x[i + 1..] {
            [] => 0,
            [_] => 1,
            [3 | 4, b, c, _, ..] => b + c,
            [a, b, ..] => a * b,
        };
        if let [4, 1, ..] | [_] = &x[i..] {
            *y += 10;
        }
        if matches!([x[i], 2], [1, ..]) {
            *y += 20;
        }
        let (mut sum, mut from) = (0, i);
        while let [a, _, ..] = x[from..] {
            sum += a;
            from += 1;
        }
        *y += 100_000 * sum;
        let [a, b] = x[i..] else {
            *y += 100;
            continue;
        };
        *y += 1000 * (a + b);
    }
}

macro_rules! run {
    ($($kernel:ident: $expected:expr;)*) => {$({
        let x = vec![3, 1, 4, 1, 5, 9];
        let mut y = vec![0; 6];
        check!($kernel => (&x, &mut y), division(2, 3, 1));
        assert_eq!(y, $expected);
    })*};
}

#[test]
fn runs_patterns() {
    run! {
        conditions: [52501, 51602, 41612, 51603, 41703, 31811];
        otherwise: [177, 101, 1077, 100, 1002, 1004];
        questions: [13_011, 2100, 4011, 2100, 5100, 9101];
        parts: [1_121_135, 1_101_124, 1_131_139, 1_101_148, 1_141_137, 1_181_132];
        lengths: [1_400_104, 1_100_126, 1_000_115, 600_165, 514_001, 110];
        nameless: [3018, 116, 24027, 122, 40035, 50048];
    }
}
