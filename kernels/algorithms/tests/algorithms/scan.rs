//! Scans.

use crate::printed::{compare, run_printed};
use crate::{LENGTHS, allocate, buffer, numbers, on_each_device};
use quipu::prelude::*;
use quipu_algorithms::kernels::{scan_parts, total_parts};
use quipu_algorithms::{Maximum, Operator, Sum, exclusive_scan, inclusive_scan};
use quipu_kernel_testing::Argument;

/// `x -> a x + b` modulo 2^32, one after the other: associative, not commutative.
#[derive(Clone, Copy, KernelData)]
#[repr(C)]
struct Then {
    nothing: u32,
}

#[device]
impl Operator<[u32; 2]> for Then {
    fn identity() -> [u32; 2] {
        [1, 0]
    }
    fn combine(left: [u32; 2], right: [u32; 2]) -> [u32; 2] {
        [
            left[0].wrapping_mul(right[0]),
            left[1].wrapping_mul(right[0]).wrapping_add(right[1]),
        ]
    }
}

#[test]
fn scans_sums() {
    on_each_device(|context, queue| {
        for length in LENGTHS {
            let x: Vec<u64> = numbers(length).map(u64::from).collect();
            let from = buffer(context, &x);
            let mut y = allocate::<u64>(context, length);
            let mut sum = 0;
            let model: Vec<(u64, u64)> = x
                .iter()
                .map(|x| {
                    let before = sum;
                    sum += x;
                    (before, sum)
                })
                .collect();
            exclusive_scan::<Sum, _>(queue, &from, &mut y).unwrap();
            let read = queue.read(&y).unwrap().wait().unwrap();
            assert!(read.iter().eq(model.iter().map(|(before, _)| before)));
            inclusive_scan::<Sum, _>(queue, &from, &mut y).unwrap();
            let read = queue.read(&y).unwrap().wait().unwrap();
            assert!(read.iter().eq(model.iter().map(|(_, with)| with)));
        }
    });
}

#[test]
fn scans_maxima_of_floats() {
    on_each_device(|context, queue| {
        let x: Vec<f32> = numbers(20_001).map(|x| x as f32 * -0.5).collect();
        let from = buffer(context, &x);
        let mut y = allocate(context, x.len());
        inclusive_scan::<Maximum, _>(queue, &from, &mut y).unwrap();
        let mut most = f32::MIN;
        let model: Vec<f32> = x
            .iter()
            .map(|&x| {
                most = most.max(x);
                most
            })
            .collect();
        assert_eq!(queue.read(&y).unwrap().wait().unwrap(), model);
    });
}

#[test]
fn keeps_the_order() {
    on_each_device(|context, queue| {
        for length in LENGTHS {
            let x: Vec<[u32; 2]> = numbers(length).map(|x| [x | 1, x >> 3]).collect();
            let from = buffer(context, &x);
            let mut y = allocate(context, x.len());
            inclusive_scan::<Then, _>(queue, &from, &mut y).unwrap();
            let mut total = Then::identity();
            let model: Vec<[u32; 2]> = x
                .iter()
                .map(|&x| {
                    total = Then::combine(total, x);
                    total
                })
                .collect();
            assert_eq!(queue.read(&y).unwrap().wait().unwrap(), model);
        }
    });
}

#[test]
fn refuses_other_lengths() {
    on_each_device(|context, queue| {
        let x = allocate::<u32>(context, 3);
        let mut y = allocate(context, 2);
        assert!(exclusive_scan::<Sum, _>(queue, &x, &mut y).is_err());
    });
}

#[test]
fn prints() {
    let context = Platform::new().unwrap().context().unwrap();
    let queue = context.queue(&context.fastest()).unwrap();
    let x: Vec<f32> = numbers(100).map(|x| x as f32 * 0.1).collect();
    let before = vec![1.0_f32, 2.0, 3.0];
    let (from, offsets) = (buffer(&context, &x), buffer(&context, &before));
    let mut totals = allocate::<f32>(&context, 3);
    let mut y = allocate::<f32>(&context, 100);
    let division = WorkDivision::new(3, 1, 1).unwrap();

    let module = total_parts::<f32, Sum>(&from, &mut totals)
        .module()
        .unwrap();
    queue
        .launch(division, total_parts::<f32, Sum>(&from, &mut totals))
        .unwrap();
    let arguments = [Argument::buffer(&x), Argument::buffer(&[0.0_f32; 3])];
    run_printed(&module, &division, &arguments, &[], |launch| {
        compare(
            &queue.read(&totals).unwrap().wait().unwrap(),
            &launch.elements(1),
        );
    });

    let module = scan_parts::<f32, Sum, true>(&from, &offsets, &mut y)
        .module()
        .unwrap();
    queue
        .launch(
            division,
            scan_parts::<f32, Sum, true>(&from, &offsets, &mut y),
        )
        .unwrap();
    let arguments = [
        Argument::buffer(&x),
        Argument::buffer(&before),
        Argument::buffer(&[0.0_f32; 100]),
    ];
    run_printed(&module, &division, &arguments, &[], |launch| {
        compare(
            &queue.read(&y).unwrap().wait().unwrap(),
            &launch.elements(2),
        );
    });
}
