//! `Option` and `Result` by value: expressions that give them, that take them apart, and `?`.

use super::{check, division};
use quipu_kernel::{Accelerator, OwnElements, device, kernel};

#[device(crate = quipu_kernel)]
fn halved(x: u32) -> Option<u32> {
    if x % 2 == 0 { Some(x / 2) } else { None }
}

#[device(crate = quipu_kernel)]
fn quarter(x: u32) -> Option<u32> {
    let half_of_it = halved(x)?;
    halved(half_of_it)
}

/// The result, or the reason for which there is none.
#[device(crate = quipu_kernel)]
fn difference(a: u32, b: u32) -> Result<u32, u8> {
    if b == 0 {
        return Err(1);
    }
    a.checked_sub(b).ok_or(2)
}

#[device(crate = quipu_kernel)]
fn differences(a: u32, b: u32) -> Result<u64, u32> {
    let first = difference(a, b)?;
    let second = difference(first, b).map_err(|error| error * 10)?;
    Ok(first as u64 * 100 + second as u64)
}

#[device(crate = quipu_kernel)]
fn is_small(x: u32) -> Result<(), u32> {
    if x < 5 { Ok(()) } else { Err(x) }
}

#[device(crate = quipu_kernel)]
fn are_small(x: u32, y: u32) -> Result<(), u32> {
    is_small(x)?;
    is_small(y)
}

/// A reference is not counted.
#[device(crate = quipu_kernel)]
fn second(x: &[u32]) -> Option<&u32> {
    x.get(1)
}

#[kernel(crate = quipu_kernel)]
fn given(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        *y = match quarter(x[i]) {
            Some(0) => 7,
            Some(n) if n > 2 => 100 * n,
            Some(n) => n,
            None => 9,
        };
        if let Some(n) = halved(x[i]) {
            *y += 1000 * n;
        } else {
            *y += 50_000;
        }
        let mut last = None;
        for k in 0..x[i] {
            if k % 3 == 1 {
                last = Some(k);
            }
        }
        let Some(last) = last else { continue };
        *y += 100_000 * last;
    }
}

#[kernel(crate = quipu_kernel)]
fn results(_acc: &impl Accelerator<1>, x: &[u32], n: u32, mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        *y = match differences(x[i], n) {
            Ok(k) => k as u32,
            Err(error) => 7000 + error,
        };
        *y += 10_000 * are_small(x[i], n).is_ok() as u32;
        *y += 100_000 * are_small(n, x[i]).err().unwrap_or(3);
        *y += 10_000_000 * difference(x[i], 1).ok().map_or(5, |k| k % 2);
    }
}

#[kernel(crate = quipu_kernel)]
fn some_elements(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        *y = x.get(i + 1).copied().unwrap_or(50);
        if let Some(next) = x.get(i + 2) {
            *y += 100 * *next;
        }
        let part = &x[..i];
        *y += 1000 * *part.first().unwrap_or(&7);
        if let Some(last) = part.last() {
            *y += 10_000 * last;
        }
        *y += 100_000 * second(part).map(|k| k + 1).unwrap_or_default();
        let array = [i as u32, 2, 3];
        *y += 1_000_000 * array.get(i % 4).map_or(6, |k| *k);
        *y += 10_000_000 * (x.get(i).is_some() && x.get(i + 6).is_none()) as u32;
    }
}

#[kernel(crate = quipu_kernel)]
fn found(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let wanted = i as u32;
        *y = x.iter().find(|v| **v > wanted).copied().unwrap_or(77);
        *y += 100
            * x.iter()
                .position(|v| *v == wanted)
                .map_or(99, |at| at as u32);
        let behind = x.iter().map(|v| v * 2).skip(i).find(|v| v % 3 == 0);
        *y += 10_000 * behind.unwrap_or(88);
        if let Some((at, v)) = x.iter().enumerate().find(|(at, v)| *at > i && **v < 4) {
            *y += 1_000_000 * (at as u32 + v);
        }
    }
}

#[kernel(crate = quipu_kernel)]
fn extremes(_acc: &impl Accelerator<1>, x: &[u32], f: &[f32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let part = &x[i..];
        *y = part.iter().copied().min().unwrap_or(0);
        if let Some(greatest) = part.iter().max() {
            *y += 100 * *greatest;
        }
        // Of equals `min` gives the first, and `max` the last.
        let first = (0..6_u32).min_by_key(|k| x[*k as usize] % 4);
        let last = (0..6_u32).max_by_key(|k| x[*k as usize] % 4);
        *y += 10_000 * first.unwrap_or(9) + 100_000 * last.unwrap_or(9);
        let least = f[i..].iter().copied().min_by(|a, b| a.total_cmp(b));
        *y += 1_000_000 * least.map_or(3, |least| (least + 8.0) as u32);
        *y += 50 * x[i..i].iter().max().is_none() as u32;
    }
}

#[kernel(crate = quipu_kernel)]
fn chained(_acc: &impl Accelerator<1>, x: &[u32], n: u32, mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        if let Some(next) = x.get(i + 1)
            && *next > n
            && let Some(half_of_it) = halved(*next)
        {
            *y = half_of_it;
        } else if let 1..=4 = x[i]
            && i > 1
        {
            *y = 20;
        } else {
            *y = 30;
        }
        *y += if n > 2
            && let k @ 1..=4 = x[i]
        {
            k * 100
        } else {
            5000
        };
        let mut at = i;
        while let Some(next) = x.get(at)
            && *next < 6
        {
            at += 1;
            if at == 4 {
                break;
            }
        }
        *y += 10_000 * at as u32;
    }
}

#[kernel(crate = quipu_kernel)]
fn combined(_acc: &impl Accelerator<1>, x: &[u32], n: u32, mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let one = halved(x[i]).or(Some(n)).filter(|k| *k > 2);
        let other = (x[i] > 3).then(|| x[i] - 3);
        *y = one.and_then(|k| k.checked_sub(3)).unwrap_or_else(|| 40);
        *y += 100 * other.map_or(0, |k| k) + 1000 * one.and(other).is_some() as u32;
        *y += 10_000
            * (n == 2)
                .then_some(x[i])
                .or_else(|| halved(x[i]))
                .unwrap_or(8);
        let pair = if i > 2 { Some((x[i], n as f32)) } else { None };
        if let Some((a, b)) = pair {
            *y += 100_000 * (a + b as u32);
        }
        let nested = Some(other);
        *y += 10_000_000 * matches!(nested, Some(Some(1..=3))) as u32;
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
fn options_and_results_are_values() {
    let f = vec![3.0_f32, -1.0, -0.0, 0.0, 2.0, -4.0];
    run! {
        given();
        results(2);
        some_elements();
        found();
        chained(3);
        combined(2);
        extremes(&f);
    }
}

/// The place of the best element, as programs look for it; ends of ranges.
#[allow(
    clippy::double_ended_iterator_last,
    reason = "kernels have no `next_back`"
)]
#[kernel(crate = quipu_kernel)]
fn best_places(_acc: &impl Accelerator<1>, x: &[i32], z: &[f32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let greatest = x.iter().enumerate().max_by_key(|(_, v)| **v);
        let nearest = z.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
        let above = x.iter().enumerate().find(|(k, v)| *k > i && **v > 2);
        let pair = x.iter().zip(z).find(|(a, b)| **b > **a as f32);
        let last = x.iter().enumerate().filter(|(_, v)| **v % 2 == 0).last();
        let around = i.saturating_sub(1)..(i + 2).min(x.len());
        *y = (around.start + 10 * around.end) as u32;
        *y += 100 * greatest.map_or(9, |(k, _)| k as u32);
        *y += 1000 * nearest.map(|(k, _)| k as u32).unwrap_or(9);
        if let Some((k, v)) = above {
            *y += 10_000 * (k as u32 + *v as u32);
        }
        if let Some((a, b)) = pair {
            *y += 1_000_000 * (*a as u32 + *b as u32);
        }
        let (place, _) = last.unwrap_or((9, &0));
        *y += 100_000_000 * place as u32;
    }
}

#[test]
fn runs_best_places() {
    let (x, z) = (vec![1, 7, 3, 7, 2], vec![0.5, 2.5, -1.0, 8.0, -0.5]);
    let mut y = vec![0; 5];
    check!(best_places => (&x, &z, &mut y), division(5, 1, 1));
    assert_eq!(
        y,
        [
            415_082_320,
            415_052_330,
            415_102_341,
            415_002_352,
            415_002_353
        ]
    );
}
