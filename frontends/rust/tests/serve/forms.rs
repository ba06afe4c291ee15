//! Parameters of every kind, on a node as here.

use crate::kernels::*;
use crate::loopback::Loopback;
use quipu::kernels::f16;
use quipu::prelude::*;
use quipu::{Result, WorkDivision};

/// Numbers without order.
fn numbers(length: usize) -> impl Iterator<Item = u32> {
    (0..length as u32).map(|i| i.wrapping_mul(2_654_435_761) >> 7)
}

fn floats(length: usize) -> Vec<f32> {
    numbers(length)
        .map(|number| number as f32 / 1024.0 + 0.5)
        .collect()
}

fn settings(mode: Mode) -> Settings {
    Settings {
        small: 9,
        scale: 1.5,
        is_on: true,
        half: f16::from_f32(0.25),
        weights: [3.0, 0.125],
        mode,
    }
}

/// All kernels, on a node.
pub(crate) fn check(node: &Loopback) {
    for length in [1, 7, 1000] {
        lines(node, length);
    }
    planes(node);
    blocks(node);
    grids(node);
    variables(node);
}

fn lines(node: &Loopback, length: usize) {
    let x = &floats(length);
    node.same(|context, queue| {
        let mut y = context.buffer(x)?;
        queue.launch(length, scale(3.5_f32, &mut y))?;
        Ok(y)
    });
    node.same(|context, queue| {
        let mut y = context.buffer_from(numbers(length).map(u64::from).collect::<Vec<_>>())?;
        queue.launch(length, scale(3_u64, &mut y))?;
        Ok(y)
    });
    for (mode, is_on) in [(Mode::Add, true), (Mode::Subtract, false)] {
        node.same(|context, queue| {
            let x = context.buffer(x)?;
            let mut y = context.allocate::<f64>(length)?;
            let call = values(settings(mode), 3, mode, is_on, &x, &mut y);
            queue.launch(length, call)?;
            Ok(y)
        });
    }
    let moved = node.same(|context, queue| {
        let x = context.buffer(x)?;
        let mut y = context.allocate::<f32>(length)?;
        offset(2.0, &x, &mut y).launch(queue, length)?;
        Ok(y)
    });
    assert_eq!(moved[0], x[0] + 2.0);
    let counts = node.same(|context, queue| {
        let bytes: Vec<u8> = numbers(length).map(|number| number as u8).collect();
        let bytes = context.buffer_from(bytes)?;
        let mut counts = context.allocate::<u32>(64)?;
        queue.launch(length, histogram(&bytes, &mut counts))?;
        Ok(counts)
    });
    assert_eq!(counts.iter().sum::<u32>() as usize, length);
    node.same(|context, queue| {
        let x = context.buffer_from(numbers(length).collect::<Vec<_>>())?;
        let mut y = context.allocate::<u32>(length)?;
        queue.launch(length, reverse(&x, &mut y))?;
        Ok(y)
    });
    node.same(|context, queue| {
        let modes = context.buffer(&[Mode::Add, Mode::Add, Mode::Subtract])?;
        let flags = context.buffer(&[true, false])?;
        let mut y = context.buffer_from(vec![true; length])?;
        queue.launch(length, choose(&modes, &flags, &mut y))?;
        Ok(y)
    });
    // A part of a buffer, and all of one that is overwritten.
    node.same(|context, queue| {
        let whole = context.buffer(x)?;
        let mut part = whole.slice(length / 2..length)?;
        queue.launch(part.len(), scale(-1.0_f32, &mut part))?;
        Ok(whole)
    });
}

pub(crate) fn planes(node: &Loopback) {
    node.same(|context, queue| {
        let x = context.buffer_from(numbers(64).map(|number| number as i32).collect::<Vec<_>>())?;
        let y = context.allocate::<i32>(3 * 6 * 10)?;
        let below = x.view(Layout::padded([4, 7], 9)?)?;
        let all = y.view(Layout::padded([3, 6, 7], 10)?)?;
        let mut some = all.region([1..3, 1..5, 0..7])?;
        queue.launch([2, 4, 7], region(&below, &mut some))?;
        Ok(y)
    });
    // The left columns are read and the right ones written, whose rows lie between each other.
    node.same(|context, queue| {
        let all = context.buffer_from(
            numbers(4 * 10)
                .map(|number| number as i32)
                .collect::<Vec<_>>(),
        )?;
        let left = all.view(Layout::padded([4, 5], 10)?)?;
        let right = all.slice(5..)?;
        let mut right = right.view(Layout::padded([1, 4, 5], 10)?)?;
        queue.launch([1, 4, 5], region(&left, &mut right))?;
        Ok(all)
    });
    node.same(|context, queue| {
        let y = context.buffer_from(numbers(20 * 33).collect::<Vec<_>>())?;
        let mut plane = y.view(Layout::padded([20, 30], 33)?)?;
        let division = WorkDivision::new([3, 4], [1, 2], [7, 4]);
        queue.launch(division, boxes(&mut plane))?;
        Ok(y)
    });
    node.same(|context, queue| {
        let y = context.buffer(&floats(12 * 8))?;
        let mut plane = y.view(Layout::dense([12, 8])?)?;
        queue.launch(12, normalise(&mut plane))?;
        Ok(y)
    });
}

pub(crate) fn blocks(node: &Loopback) {
    node.same(|context, queue| {
        let y = context.buffer_from(
            numbers(16 * 16)
                .map(|number| number % 99)
                .collect::<Vec<_>>(),
        )?;
        let mut plane = y.view(Layout::dense([16, 16])?)?;
        let division = WorkDivision::new([4, 2], [2, 4], [2, 2]);
        queue.launch(division, block_boxes(&mut plane))?;
        Ok(y)
    });
    let sums = node.same(|context, queue| {
        let x = context.buffer_from((0..1000).collect::<Vec<u64>>())?;
        let mut sums = context.allocate::<u64>(8)?;
        let division = WorkDivision::new(8, 16, 8);
        queue.launch(division, block_sum(&x, &mut sums))?;
        Ok(sums)
    });
    assert_eq!(sums.iter().sum::<u64>(), 499_500);
}

/// The blocks of a launch wait for each other.
fn grids(node: &Loopback) {
    for queue in [&node.local, &node.remote] {
        assert!(queue.device().has_grid_barrier(), "{:?}", queue.device());
        assert!(queue.device().has_device_fence(), "{:?}", queue.device());
    }
    let x = node.same(|context, queue| {
        let mut x = context.buffer_from(numbers(64).collect::<Vec<_>>())?;
        queue.launch(WorkDivision::new(4, 16, 1), rotated(5, &mut x))?;
        Ok(x)
    });
    let mut expected: Vec<_> = numbers(64).collect();
    expected.rotate_left(5);
    assert_eq!(x, expected);
}

fn variables(node: &Loopback) {
    let launch = |context: &Context, queue: &Queue| -> Result<Buffer<f32>> {
        let mut y = context.allocate(10)?;
        queue.launch(10, with_variables(&mut y))?;
        Ok(y)
    };
    assert_eq!(node.same(launch)[..3], [0.25, 0.5, 0.125]);
    let calls = CALLS.buffer(&node.context).unwrap();
    assert_eq!(node.local.read(&calls).unwrap().wait().unwrap(), [25]);
}
