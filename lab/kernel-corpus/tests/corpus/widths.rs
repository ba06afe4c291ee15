//! `usize` means the same on every device, also where a launch's indices have 32 bits: where a
//! number counts that may take more, the kernel is printed for 64. Kernels whose numbers fit are
//! printed for 32.

use super::{check, division};
use quipu_kernel::{
    Accelerator, Block, BlockAccelerator, Entry, GlobalRef, Grid, OwnElements, SharedWrite,
    Threads, device, kernel,
};
use quipu_kernel_ir::{Dialect, IndexWidth, Options};

#[kernel(crate = quipu_kernel)]
fn weighted(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u64>) {
    for (i, y) in y.each() {
        let mut sum = 0;
        for k in 0..x.len() {
            sum += x[k] as usize * (k + i);
        }
        *y = sum as u64;
        let (far, offset) = (x[i] as usize * 3, x[i] as isize * -7 + i as isize);
        if far > x[0] as usize + 4_000_000_000 {
            *y += 1;
        }
        *y ^= (far / 5) as u64 ^ (offset as f32).to_bits() as u64 ^ far.min(6_000_000) as u64;
    }
}

/// What is beyond 32 bits where its low half counts alone.
#[kernel(crate = quipu_kernel)]
fn low(_acc: &impl Accelerator<1>, x: &[u32], n: u32, mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let far = x[i] as usize * (i + 1) - x[i] as usize * i;
        *y = (far + 5) as u32 + x[(n as usize * x.len() + i) - n as usize * x.len()];
    }
}

#[allow(dead_code, reason = "it is only printed")]
#[kernel(crate = quipu_kernel)]
fn stencil(_acc: &impl Accelerator<2>, x: GlobalRef<f32, 2>, mut y: OwnElements<f32, 2>) {
    let (rows, columns) = (x.extent()[0], x.extent()[1]);
    for (at, part) in y.rows() {
        for (k, y) in part.iter_mut().enumerate() {
            let (i, j) = (at[0], at[1] + k);
            let above = if i > 0 { x[[i - 1, j]] } else { 0.0 };
            *y = above + x[[(i + 1).min(rows - 1), (j + 1).min(columns - 1)]];
        }
    }
}

#[allow(dead_code, reason = "it is only printed")]
#[kernel(crate = quipu_kernel)]
fn multiplied(_acc: &impl Accelerator<1>, a: &[f32], n: u32, mut y: OwnElements<f32>) {
    let n = n as usize;
    for (i, y) in y.each() {
        for k in 0..n {
            *y += a[i * n + k] * a[k * n + i];
        }
    }
}

#[allow(dead_code, reason = "it is only printed")]
#[kernel(crate = quipu_kernel)]
async fn reduced(
    acc: &impl BlockAccelerator<1>,
    x: &[u32],
    mut y: OwnElements<u32>,
    #[shared(acc.extent(Block, Threads)[0])] mut sums: SharedWrite<u32>,
) {
    let thread = acc.index(Block, Threads)[0];
    let mut own = 0;
    for i in acc.elements(x.len()) {
        own += x[i];
    }
    for sum in sums.own() {
        *sum = own;
    }
    let mut half = acc.extent(Block, Threads)[0] / 2;
    while half > 0 {
        let read = acc.sync(sums).await;
        let other = if thread < half {
            read[thread + half]
        } else {
            0
        };
        sums = acc.sync(read).await;
        for sum in sums.own() {
            *sum += other;
        }
        half /= 2;
    }
    let read = acc.sync(sums).await;
    let number = acc.index(Grid, Threads)[0];
    for (i, y) in y.each() {
        *y = read[0] + (i + number) as u32;
    }
}

/// A thread's share of a sum, several neighbours at a time as long as there are so many.
#[device(crate = quipu_kernel)]
fn share(x: &[f32], thread: usize, threads: usize) -> f32 {
    let stride = 4 * threads;
    let mut sum = 0.0;
    let mut from = 0;
    while from + stride <= x.len() {
        let part = &x[from..from + stride];
        for k in 0..4 {
            sum += part[k * threads + thread];
        }
        from += stride;
    }
    let mut at = from + thread;
    while at < x.len() {
        sum += x[at];
        at += threads;
    }
    sum
}

#[kernel(crate = quipu_kernel)]
fn shares(acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<f32>) {
    let threads = acc.extent(Grid, Threads)[0];
    for (i, y) in y.each() {
        *y = share(x, i, threads);
    }
}

/// A variable that grows by what data say, up to a number of data.
#[kernel(crate = quipu_kernel)]
fn leaps(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u64>) {
    for (i, y) in y.each() {
        let (leap, end) = (x[i] as usize, 5 * x[0] as usize);
        let mut at = 1;
        while at + leap <= end {
            at += leap;
        }
        *y = at as u64;
    }
}

/// Numbers of which nothing is known, and products of their products.
#[kernel(crate = quipu_kernel)]
fn unknown(_acc: &impl Accelerator<1>, x: &[u64], mut y: OwnElements<u64>) {
    for (i, y) in y.each() {
        let (a, b) = (x[i] as usize, x[(i + 1) % x.len()] as usize);
        let (product, sum) = (a * b, (a << 20) + (b << 12));
        *y = (product * product + sum * (product + sum)) as u64 / 3;
    }
}

#[test]
fn sizes_are_the_same_everywhere() {
    let x = vec![7_u64, 300, 0, 5, 1, 2];
    let mut y = vec![0_u64; 6];
    check!(unknown => (&x, &mut y), division(2, 3, 1));
    let x = vec![4_000_000_000_u32, 7, 3_999_999_999, 1 << 31, 5, 0];
    let mut y = vec![0_u64; 6];
    check!(weighted => (&x, &mut y), division(2, 3, 1));
    assert!(y.iter().all(|one| *one > 1 << 32), "{y:?}");
    let jumps = vec![4_000_000_000_u32, 3_999_999_999, 1 << 31, 4_294_967_295];
    let mut y = vec![0_u64; 4];
    check!(leaps => (&jumps, &mut y), division(2, 2, 1));
    assert!(y.iter().all(|one| *one > 1 << 32), "{y:?}");
    let x = [4_000_000_000_u32, 7, 99, 1 << 31, 5, 0].map(|x| x / 2);
    let x = x.to_vec();
    let mut y = vec![0_u32; 6];
    check!(low => (&x, 2_000_000_000_u32, &mut y), division(2, 3, 1));
    let x: Vec<f32> = (0..29).map(|i| i as f32).collect();
    let mut y = vec![0.0_f32; 6];
    check!(shares => (&x, &mut y), division(2, 3, 1));
}

/// The width for which a kernel is printed where a launch's extents fit into 32 bits.
fn width<K: Entry<D>, const D: usize>() -> IndexWidth {
    let options = Options::new(Dialect::C99, IndexWidth::Bits32);
    let printed = K::module().unwrap().print(Dialect::C99, &options).unwrap();
    printed.index_width
}

#[test]
fn kernels_whose_sizes_fit_have_indices_of_32_bits() {
    assert_eq!(width::<weighted, 1>(), IndexWidth::Bits64);
    assert_eq!(width::<low, 1>(), IndexWidth::Bits32);
    assert_eq!(width::<stencil, 2>(), IndexWidth::Bits32);
    assert_eq!(width::<multiplied, 1>(), IndexWidth::Bits32);
    assert_eq!(width::<reduced, 1>(), IndexWidth::Bits32);
    assert_eq!(width::<shares, 1>(), IndexWidth::Bits32);
    assert_eq!(width::<leaps, 1>(), IndexWidth::Bits64);
}
