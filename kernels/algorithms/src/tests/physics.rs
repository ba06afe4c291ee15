//! Stencils, gravity, random numbers.

use crate::tests::modes::{
    Input, Output, OutputView, Value, compare, compare_in, everywhere, modes, prepare, run,
    run_printed, source,
};
use crate::tests::{allocate, buffer, numbers, on_each_device};
use quipu::kernels::{Number, Philox};
use quipu::prelude::*;
use quipu_algorithms::kernels::{
    attract_tiles, normal_blocks, random_blocks, stencil_fours, stencil_tiles, uniform_blocks,
};
use quipu_algorithms::{Drawn, Item, attract, random, random_normal, random_uniform, stencil};
use quipu_kernel_testing::Argument;

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

const SEED: u64 = 0x1234_5678_9abc_def0;
const STREAM: u64 = 7 << 33;

/// The floats of Philox, uniform and normal ones, one after the other.
fn drawn<T: Drawn>(length: usize) -> (Vec<T>, Vec<T>) {
    let (mut uniform, mut normal) = (Philox::new(SEED, STREAM), Philox::new(SEED, STREAM));
    let pairs = std::iter::repeat_with(|| normal.normal_pair::<T>());
    let normal = pairs.flat_map(|(a, b)| [a, b]).take(length).collect();
    let uniform = std::iter::repeat_with(|| uniform.uniform::<T>());
    (uniform.take(length).collect(), normal)
}

#[test]
fn gives_the_floats_of_philox() {
    fn draws<T: Item + Drawn>(context: &Context, queue: &Queue) {
        for length in [1, 100, 10_001] {
            let (uniform, normal) = drawn::<T>(length);
            let mut y = allocate::<T>(context, length);
            random_uniform(queue, SEED, STREAM, &mut y).unwrap();
            compare(&queue.read(&y).unwrap().wait().unwrap(), &uniform);
            random_normal(queue, SEED, STREAM, &mut y).unwrap();
            let read = queue.read(&y).unwrap().wait().unwrap();
            assert!(read.iter().zip(&normal).all(|(a, b)| is_near(*a, *b)));
        }
    }
    on_each_device(|context, queue| {
        draws::<f32>(context, queue);
        draws::<f64>(context, queue);
    });
}

/// But for the last places of a logarithm, a sine or a cosine.
fn is_near<T: Drawn>(a: T, b: T) -> bool {
    let difference = (a - b).abs().cast::<f64>();
    difference <= 8.0 * T::EPSILON.cast::<f64>() * (1.0 + b.abs().cast::<f64>())
}

/// Natively bit for bit; printed, as near as devices compute.
fn normal_in_every_mode<T, const COUNT: usize>()
where
    T: Item + Drawn + bytemuck::NoUninit + bytemuck::AnyBitPattern,
{
    let division = WorkDivision::new(3, 2, 1).unwrap();
    let (_, expected) = drawn::<T>(21);
    let mut native = None;
    for mode in modes() {
        let mut y = vec![T::ZERO; 21];
        let arguments = (SEED, STREAM, &mut y[..]);
        run(
            prepare::<normal_blocks<T, COUNT>, _, _>(arguments, division),
            mode,
        );
        assert!(y.iter().zip(&expected).all(|(a, b)| is_near(*a, *b)));
        compare_in(&format!("{mode:?}"), native.get_or_insert(y.clone()), &y);
    }
    let module = source::<normal_blocks<T, COUNT>, _>(&division);
    let y = vec![T::ZERO; 21];
    let arguments = [
        Argument::uniform(SEED),
        Argument::uniform(STREAM),
        Argument::buffer(&y),
    ];
    run_printed(&module, &division, &arguments, &[], None, |how, launch| {
        let read = launch.elements::<T>(2);
        let mut both = read.iter().zip(&expected);
        assert!(both.all(|(a, b)| is_near(*a, *b)), "{how}: {read:?}");
    });
}

#[test]
fn draws_the_same_in_every_mode() {
    let division = WorkDivision::new(3, 2, 1);
    let (.., uniform) = everywhere!(
        uniform_blocks<f32, 1>, division, [];
        seed = Value(SEED), stream = Value(STREAM), y = Output(vec![0.0_f32; 21]),
    );
    compare(&uniform.0, &drawn(21).0);
    let (.., uniform) = everywhere!(
        uniform_blocks<f64, 3>, division, [];
        seed = Value(SEED), stream = Value(STREAM), y = Output(vec![0.0_f64; 21]),
    );
    compare(&uniform.0, &drawn(21).0);
    normal_in_every_mode::<f32, 2>();
    normal_in_every_mode::<f64, 1>();
}

#[test]
fn gives_the_same_in_every_mode() {
    let x: Vec<f32> = numbers(9 * 20).map(|x| x as f32 * 0.1).collect();
    let weights = [[0.1_f32, 0.2, -0.1], [0.7, 3.0, 0.3], [0.9, 0.4, 0.6]];
    everywhere!(
        stencil_tiles<f32>, WorkDivision::new([2, 2], [1, 3], [5, 4]), [];
        weights = Value(weights), x = Input(x.clone()), y = OutputView(vec![0.0_f32; 9 * 20], [9, 20]),
    );
    everywhere!(
        stencil_fours<f32>, WorkDivision::new([2, 2], [1, 3], [5, 6]), [];
        weights = Value(weights), columns = Value(20_u64), x = Input(x), y = Output(vec![0.0_f32; 9 * 20]),
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
