//! Reductions.

use crate::tests::modes::{Input, Output, everywhere};
use crate::tests::{LENGTHS, allocate, buffer, numbers, on_each_device};
use quipu::prelude::*;
use quipu_algorithms::kernels::reduce_blocks;
use quipu_algorithms::{Item, Maximum, Minimum, Operator, Product, Sum, reduce};

fn reduced<O: Operator<T> + KernelData, T: Item>(context: &Context, queue: &Queue, x: &[T]) -> T {
    let x = buffer(context, x);
    let mut result = allocate(context, 1);
    reduce::<O, T>(queue, &x, &mut result).unwrap();
    queue.read(&result).unwrap().wait().unwrap()[0]
}

#[test]
fn sums_and_finds_extremes() {
    on_each_device(|context, queue| {
        for length in LENGTHS {
            let x: Vec<u32> = numbers(length).collect();
            let sum = x.iter().map(|&x| u64::from(x)).sum::<u64>();
            let wide: Vec<u64> = x.iter().map(|&x| x.into()).collect();
            assert_eq!(reduced::<Sum, _>(context, queue, &wide), sum);
            let least = x.iter().copied().min().unwrap_or(u32::MAX);
            assert_eq!(reduced::<Minimum, _>(context, queue, &x), least);
            let signed: Vec<i32> = x.iter().map(|&x| x as i32 - (1 << 24)).collect();
            let most = signed.iter().copied().max().unwrap_or(i32::MIN);
            assert_eq!(reduced::<Maximum, _>(context, queue, &signed), most);
        }
    });
}

#[test]
fn multiplies_floats() {
    on_each_device(|context, queue| {
        for length in LENGTHS {
            // Powers of two, of which products are exact, and so few that none is too large in any
            // order.
            let x: Vec<f64> = (0..length)
                .map(|i| match i % 1000 {
                    0 => 2.0,
                    500 => 0.5,
                    _ => 1.0,
                })
                .collect();
            let product = if (length - 1) % 1000 < 500 { 2.0 } else { 1.0 };
            assert_eq!(reduced::<Product, _>(context, queue, &x), product);
        }
    });
}

#[test]
fn gives_the_same_bits_every_time() {
    on_each_device(|context, queue| {
        let x: Vec<f32> = numbers(100_003).map(|x| x as f32 * 0.1).collect();
        let first = reduced::<Sum, _>(context, queue, &x);
        let exact: f64 = x.iter().map(|&x| f64::from(x)).sum();
        assert!(
            (f64::from(first) / exact - 1.0).abs() < 1e-5,
            "{first} {exact}"
        );
        for _ in 0..10 {
            assert_eq!(
                reduced::<Sum, _>(context, queue, &x).to_bits(),
                first.to_bits()
            );
        }
    });
}

#[test]
fn refuses_a_result_of_two() {
    on_each_device(|context, queue| {
        let x = allocate::<u32>(context, 3);
        let mut result = allocate(context, 2);
        assert!(reduce::<Sum, _>(queue, &x, &mut result).is_err());
    });
}

#[test]
fn gives_the_same_bits_in_every_mode() {
    let x: Vec<f32> = numbers(1003).map(|x| x as f32 * 0.1).collect();
    everywhere!(
        reduce_blocks<f32, Sum, 4>, WorkDivision::new(3, 8, 1), [8];
        x = Input(x.clone()), sums = Output(vec![0.0_f32; 3]),
    );
    // Blocks of many threads, of which each takes one element of every stride; and of more threads
    // than elements.
    for (blocks, threads) in [(3, 32), (2, 1024)] {
        let (_, sums) = everywhere!(
            reduce_blocks<f32, Sum, 1>, WorkDivision::new(blocks, threads, 1), [threads as u64];
            x = Input(x.clone()), sums = Output(vec![0.0_f32; blocks]),
        );
        let exact: f64 = x.iter().map(|x| f64::from(*x)).sum();
        let sum: f64 = sums.0.iter().map(|x| f64::from(*x)).sum();
        assert!((sum / exact - 1.0).abs() < 1e-5, "{sum} {exact}");
    }
}
