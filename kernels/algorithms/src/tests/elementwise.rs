//! fill, iota, transform, zip.

use crate::tests::modes::{Input, Output, Value, everywhere};
use crate::tests::{LENGTHS, allocate, buffer, numbers, on_each_device};
use quipu::prelude::*;
use quipu_algorithms::kernels::{fill_each, iota_each, transform_each, zip_each};
use quipu_algorithms::{Function, Function2, fill, function, iota, transform, zip};

#[derive(Clone, Copy, KernelData, bytemuck::NoUninit)]
#[repr(C)]
struct Scale {
    factor: f32,
}

#[device]
impl Function<u32, f32> for Scale {
    fn apply(self, x: u32) -> f32 {
        self.factor * x as f32
    }
}

#[derive(Clone, Copy, KernelData, bytemuck::NoUninit)]
#[repr(C)]
struct Axpy {
    a: f64,
}

#[device]
impl Function2<f32, f64, f64> for Axpy {
    fn apply(self, x: f32, y: f64) -> f64 {
        self.a * x as f64 + y
    }
}

#[test]
fn fills() {
    on_each_device(|context, queue| {
        for length in LENGTHS {
            let mut y = allocate::<i16>(context, length);
            fill(queue, -7, &mut y).unwrap();
            assert_eq!(queue.read(&y).unwrap().wait().unwrap(), vec![-7; length]);
        }
    });
}

#[test]
fn counts_on() {
    on_each_device(|context, queue| {
        for length in LENGTHS {
            let mut y = allocate::<f64>(context, length);
            iota(queue, 1.0, 0.5, &mut y).unwrap();
            let model: Vec<f64> = (0..length).map(|i| 1.0 + 0.5 * i as f64).collect();
            assert_eq!(queue.read(&y).unwrap().wait().unwrap(), model);
        }
    });
}

#[test]
fn transforms() {
    on_each_device(|context, queue| {
        for length in LENGTHS {
            let x: Vec<u32> = numbers(length).collect();
            let from = buffer(context, &x);
            let mut y = allocate(context, length);
            transform(queue, Scale { factor: 0.3 }, &from, &mut y).unwrap();
            let model: Vec<f32> = x.iter().map(|&x| 0.3 * x as f32).collect();
            assert_eq!(queue.read(&y).unwrap().wait().unwrap(), model);
        }
    });
}

#[test]
fn transforms_with_a_closure() {
    on_each_device(|context, queue| {
        for length in LENGTHS {
            let x: Vec<u32> = numbers(length).collect();
            let from = buffer(context, &x);
            let mut y = allocate(context, length);
            let (factor, offset) = (0.3_f32, [1_u32, 2]);
            let scaled = function!([factor: f32, offset: [u32; 2]] |x: u32| -> f32 {
                let moved = x + offset[1];
                factor * moved as f32
            });
            transform(queue, scaled, &from, &mut y).unwrap();
            let model: Vec<f32> = x.iter().map(|&x| 0.3 * (x + 2) as f32).collect();
            assert_eq!(queue.read(&y).unwrap().wait().unwrap(), model);

            let mut sums = allocate(context, length);
            let sum = function!([] |x: u32, y: f32| -> f32 { x as f32 + y });
            zip(queue, sum, &from, &y, &mut sums).unwrap();
            let model: Vec<f32> = x.iter().zip(model).map(|(&x, y)| x as f32 + y).collect();
            assert_eq!(queue.read(&sums).unwrap().wait().unwrap(), model);
        }
    });
}

#[test]
fn zips() {
    on_each_device(|context, queue| {
        for length in LENGTHS {
            let a: Vec<f32> = numbers(length).map(|x| x as f32).collect();
            let b: Vec<f64> = numbers(length).map(|x| f64::from(x) * 0.7).collect();
            let (from_a, from_b) = (buffer(context, &a), buffer(context, &b));
            let mut y = allocate(context, length);
            zip(queue, Axpy { a: 0.3 }, &from_a, &from_b, &mut y).unwrap();
            let model: Vec<f64> = a
                .iter()
                .zip(&b)
                .map(|(&a, b)| 0.3 * f64::from(a) + b)
                .collect();
            assert_eq!(queue.read(&y).unwrap().wait().unwrap(), model);
        }
    });
}

#[test]
fn refuses_other_lengths() {
    on_each_device(|context, queue| {
        let x = allocate::<u32>(context, 3);
        let mut y = allocate::<f32>(context, 4);
        let error = transform(queue, Scale { factor: 1.0 }, &x, &mut y).unwrap_err();
        assert!(error.to_string().contains("3 elements"), "{error}");
    });
}

#[test]
fn gives_the_same_in_every_mode() {
    let x: Vec<u32> = numbers(100).collect();
    let a: Vec<f32> = x.iter().map(|&x| x as f32).collect();
    let b: Vec<f64> = x.iter().map(|&x| f64::from(x) * 0.7).collect();
    for division in [WorkDivision::new(3, 4, 9), WorkDivision::new(2, 8, 1)] {
        let (_, y) = everywhere!(
            fill_each<f32>, division, [];
            value = Value(1.5_f32), y = Output(vec![0.0_f32; 100]),
        );
        assert_eq!(y.0, [1.5; 100]);
        everywhere!(
            iota_each<f32>, division, [];
            start = Value(1.5_f32), step = Value(0.1_f32), y = Output(vec![0.0_f32; 100]),
        );
        everywhere!(
            transform_each<u32, f32, Scale>, division, [];
            f = Value(Scale { factor: 0.3 }), x = Input(x.clone()), y = Output(vec![0.0_f32; 100]),
        );
        everywhere!(
            zip_each<f32, f64, f64, Axpy>, division, [];
            f = Value(Axpy { a: 0.3 }), a = Input(a.clone()), b = Input(b.clone()),
            y = Output(vec![0.0_f64; 100]),
        );
    }
}
