//! Stencils, gravity, random numbers.

use crate::modes::{Input, Output, OutputView, Value, compare, everywhere};
use crate::{allocate, buffer, numbers, on_each_device};
use quipu::kernels::{Number, Philox};
use quipu::prelude::*;
use quipu_algorithms::kernels::{attract_tiles, random_blocks, stencil_tiles};
use quipu_algorithms::{attract, random, stencil};

fn weighted<T: Number>(weights: [[T; 3]; 3], columns: usize, x: &[T]) -> Vec<T> {
    let rows = x.len() / columns;
    (0..x.len())
        .map(|at| {
            let (i, j) = (at / columns, at % columns);
            let mut sum = T::ZERO;
            for (a, weights) in weights.iter().enumerate() {
                for (b, weight) in weights.iter().enumerate() {
                    let i = (i + a).saturating_sub(1).min(rows - 1);
                    let j = (j + b).saturating_sub(1).min(columns - 1);
                    sum += *weight * x[i * columns + j];
                }
            }
            sum
        })
        .collect()
}

#[test]
fn applies_stencils() {
    on_each_device(|context, queue| {
        for [rows, columns] in [[1, 1], [1, 5], [5, 1], [2, 2], [33, 1025], [70, 3000]] {
            let x: Vec<f32> = numbers(rows * columns).map(|x| x as f32 * 0.1).collect();
            let weights = [[0.1, 0.2, -0.1], [0.7, 3.0, 0.3], [0.9, 0.4, 0.6]];
            let from = buffer(context, &x);
            let mut y = allocate(context, x.len());
            stencil(queue, weights, columns, &from, &mut y).unwrap();
            let model = weighted(weights, columns, &x);
            compare(&queue.read(&y).unwrap().wait().unwrap(), &model);

            let x: Vec<i64> = numbers(rows * columns).map(i64::from).collect();
            let weights = [[1, 2, -1], [7, 3, 3], [9, -4, 6]];
            let from = buffer(context, &x);
            let mut y = allocate(context, x.len());
            stencil(queue, weights, columns, &from, &mut y).unwrap();
            let model = weighted(weights, columns, &x);
            assert_eq!(queue.read(&y).unwrap().wait().unwrap(), model);
        }
        let x = allocate::<f32>(context, 12);
        let mut y = allocate(context, 12);
        assert!(stencil(queue, [[1.0; 3]; 3], 5, &x, &mut y).is_err());
    });
}

/// Bodies in a cube.
fn bodies(count: usize) -> Vec<[f64; 4]> {
    let words: Vec<f64> = numbers(4 * count).map(|x| f64::from(x) * 1e-7).collect();
    words
        .chunks_exact(4)
        .map(|body| [body[0], body[1], body[2], body[3]])
        .collect()
}

fn attracted(softening: f64, bodies: &[[f64; 4]]) -> Vec<[f64; 4]> {
    let of = |body: &[f64; 4]| {
        let mut sum = [0.0; 4];
        for other in bodies {
            let [x, y, z] = [0, 1, 2].map(|d| other[d] - body[d]);
            let square = x * x + y * y + z * z + softening;
            let weight = other[3] / (square * square.sqrt());
            for (d, distance) in [x, y, z].into_iter().enumerate() {
                sum[d] += distance * weight;
            }
        }
        sum
    };
    bodies.iter().map(of).collect()
}

#[test]
fn attracts() {
    on_each_device(|context, queue| {
        for count in [1, 2, 63, 64, 333] {
            let bodies = bodies(count);
            let from = buffer(context, &bodies);
            let mut y = allocate(context, count);
            attract(queue, 0.01, &from, &mut y).unwrap();
            let read = queue.read(&y).unwrap().wait().unwrap();
            compare(&read, &attracted(0.01, &bodies));
        }
    });
}

#[test]
fn gives_the_words_of_philox() {
    on_each_device(|context, queue| {
        for blocks in [1, 100, 10_001] {
            let mut y = allocate(context, blocks);
            random(queue, 0x1234_5678_9abc_def0, 7 << 33, &mut y).unwrap();
            let mut philox = Philox::new(0x1234_5678_9abc_def0, 7 << 33);
            for block in queue.read(&y).unwrap().wait().unwrap() {
                assert_eq!(block, [(); 4].map(|()| philox.next_u32()));
            }
        }
    });
}

#[test]
fn gives_the_same_in_every_mode() {
    let x: Vec<f32> = numbers(9 * 20).map(|x| x as f32 * 0.1).collect();
    let weights = [[0.1_f32, 0.2, -0.1], [0.7, 3.0, 0.3], [0.9, 0.4, 0.6]];
    everywhere!(
        stencil_tiles<f32>, WorkDivision::new([2, 2], [1, 3], [5, 4]), [];
        weights = Value(weights), x = Input(x), y = OutputView(vec![0.0_f32; 9 * 20], [9, 20]),
    );
    everywhere!(
        attract_tiles<f64>, WorkDivision::new(3, 8, 1), [8];
        softening = Value(0.01_f64), bodies = Input(bodies(21)), y = Output(vec![[0.0_f64; 4]; 21]),
    );
    everywhere!(
        random_blocks, WorkDivision::new(3, 8, 1), [];
        seed = Value([1_u32, 2]), stream = Value([3_u32, 4]), y = Output(vec![[0_u32; 4]; 21]),
    );
}
