//! fill, iota, transform, zip.

use crate::printed::{compare, run_printed};
use crate::{LENGTHS, allocate, buffer, numbers, on_each_device};
use quipu::prelude::*;
use quipu_algorithms::kernels::{fill_each, iota_each, transform_each, zip_each};
use quipu_algorithms::{Function, Function2, fill, iota, transform, zip};
use quipu_kernel_testing::Argument;

#[derive(Clone, Copy, KernelData)]
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

#[derive(Clone, Copy, KernelData)]
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
fn prints() {
    let division = WorkDivision::new(3, 4, 9).unwrap();
    let x: Vec<u32> = numbers(100).collect();
    let a: Vec<f32> = x.iter().map(|&x| x as f32).collect();
    let b: Vec<f64> = x.iter().map(|&x| f64::from(x) * 0.7).collect();
    let context = Platform::new().unwrap().context().unwrap();
    let queue = context.queue(&context.fastest()).unwrap();
    let mut y = allocate::<f32>(&context, 100);
    let mut z = allocate::<f64>(&context, 100);
    let (bx, ba, bb) = (
        buffer(&context, &x),
        buffer(&context, &a),
        buffer(&context, &b),
    );
    let (float, double) = (
        Argument::buffer(&[0.0_f32; 100]),
        Argument::buffer(&[0.0_f64; 100]),
    );

    let module = fill_each(1.5_f32, &mut y).module().unwrap();
    queue.launch(division, fill_each(1.5_f32, &mut y)).unwrap();
    run_printed(
        &module,
        &division,
        &[Argument::uniform(1.5_f32), float.clone()],
        &[],
        |launch| {
            compare(
                &queue.read(&y).unwrap().wait().unwrap(),
                &launch.elements(1),
            );
        },
    );

    let module = iota_each(1.5_f32, 0.1, &mut y).module().unwrap();
    queue
        .launch(division, iota_each(1.5_f32, 0.1, &mut y))
        .unwrap();
    let arguments = [
        Argument::uniform(1.5_f32),
        Argument::uniform(0.1_f32),
        float.clone(),
    ];
    run_printed(&module, &division, &arguments, &[], |launch| {
        compare(
            &queue.read(&y).unwrap().wait().unwrap(),
            &launch.elements(2),
        );
    });

    let scale = Scale { factor: 0.3 };
    let module = transform_each(scale, &bx, &mut y).module().unwrap();
    queue
        .launch(division, transform_each(scale, &bx, &mut y))
        .unwrap();
    let arguments = [Argument::uniform(0.3_f32), Argument::buffer(&x), float];
    run_printed(&module, &division, &arguments, &[], |launch| {
        compare(
            &queue.read(&y).unwrap().wait().unwrap(),
            &launch.elements(2),
        );
    });

    let axpy = Axpy { a: 0.3 };
    let module = zip_each(axpy, &ba, &bb, &mut z).module().unwrap();
    queue
        .launch(division, zip_each(axpy, &ba, &bb, &mut z))
        .unwrap();
    let arguments = [
        Argument::uniform(0.3_f64),
        Argument::buffer(&a),
        Argument::buffer(&b),
        double,
    ];
    run_printed(&module, &division, &arguments, &[], |launch| {
        compare(
            &queue.read(&z).unwrap().wait().unwrap(),
            &launch.elements(3),
        );
    });
}
