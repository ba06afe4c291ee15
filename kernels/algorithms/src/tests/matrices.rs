//! Transposition and products.

use crate::tests::modes::{Index, Input, OutputView, compare, everywhere};
use crate::tests::{allocate, buffer, numbers, on_each_device};
use quipu::DeviceKind;
use quipu::kernels::KernelData;
use quipu::prelude::*;
use quipu_algorithms::kernels::{
    DEPTH, SIDE, multiply_squares, multiply_tiles, transpose_at_hand, transpose_tiles,
};
use quipu_algorithms::{Item, MultiplyAdd, matrix_product, transpose};

#[test]
fn transposes() {
    on_each_device(|context, queue| {
        for [rows, columns] in [
            [1, 1],
            [1, 70],
            [70, 1],
            [32, 64],
            [33, 31],
            [129, 200],
            [300, 64],
        ] {
            let x: Vec<u32> = numbers(rows * columns).collect();
            let from = buffer(context, &x);
            let mut y = allocate(context, x.len());
            transpose(queue, rows, &from, &mut y).unwrap();
            let model: Vec<u32> = (0..x.len())
                .map(|at| x[at % rows * columns + at / rows])
                .collect();
            assert_eq!(queue.read(&y).unwrap().wait().unwrap(), model);
        }
    });
}

/// As many of these elements as of small ones would not fit on a thread's stack.
#[test]
fn transposes_large_elements() {
    on_each_device(|context, queue| {
        let [rows, columns] = [65, 3];
        let x: Vec<[u64; 64]> = (0..65 * 3).map(|i| [i; 64]).collect();
        let from = buffer(context, &x);
        let mut y = allocate(context, x.len());
        transpose(queue, rows, &from, &mut y).unwrap();
        let model: Vec<[u64; 64]> = (0..x.len())
            .map(|at| x[at % rows * columns + at / rows])
            .collect();
        assert_eq!(queue.read(&y).unwrap().wait().unwrap(), model);
    });
}

#[test]
fn refuses_what_is_no_matrix() {
    on_each_device(|context, queue| {
        let x = allocate::<u8>(context, 12);
        let mut y = allocate(context, 12);
        for rows in [0, 5, 24] {
            assert!(transpose(queue, rows, &x, &mut y).is_err(), "{rows}");
        }
        let x = allocate::<f32>(context, 12);
        let mut y = allocate(context, 9);
        assert!(matrix_product(queue, [3, 4, 3], &x, &x, &mut y).is_ok());
        let error = matrix_product(queue, [3, 3, 3], &x, &x, &mut y).unwrap_err();
        assert!(error.to_string().contains("`a` has 12"), "{error}");
    });
}

/// The product in the order that is promised.
fn product<T: MultiplyAdd>([rows, inner, columns]: [usize; 3], a: &[T], b: &[T]) -> Vec<T> {
    let mut c = vec![T::ZERO; rows * columns];
    for i in 0..rows {
        for j in 0..columns {
            for from in (0..inner).step_by(DEPTH) {
                let mut sum = T::ZERO;
                for k in from..inner.min(from + DEPTH) {
                    sum = a[i * inner + k].multiply_add(b[k * columns + j], sum);
                }
                let c = &mut c[i * columns + j];
                *c = sum.multiply_add(T::ONE, *c);
            }
        }
    }
    c
}

fn multiplies<T: Item + MultiplyAdd>(
    sides: [usize; 3],
    of_a: impl Fn(u32) -> T,
    of_b: impl Fn(u32) -> T,
) {
    let [rows, inner, columns] = sides;
    let a: Vec<T> = numbers(rows * inner).map(of_a).collect();
    let b: Vec<T> = numbers(inner * columns).map(of_b).collect();
    let model = product(sides, &a, &b);
    on_each_device(|context, queue| {
        let (a, b) = (buffer(context, &a), buffer(context, &b));
        let mut c = allocate(context, rows * columns);
        matrix_product(queue, sides, &a, &b, &mut c).unwrap();
        compare(&queue.read(&c).unwrap().wait().unwrap(), &model);
    });
}

#[test]
fn multiplies_in_the_promised_order() {
    for sides in [
        [1, 1, 1],
        [6, 16, 16],
        [7, 3, 17],
        [97, 513, 257],
        [200, 40, 30],
        [399, 20, 270],
    ] {
        multiplies(sides, |x| x as f32 * 1e-7, |x| (x % 1000) as f32 - 499.5);
        multiplies(
            sides,
            |x| f64::from(x) * 1e-7,
            |x| f64::from(x % 1000) - 499.5,
        );
        // Which wrap.
        multiplies(sides, |x| x as i8, |x| (x >> 3) as i8);
        multiplies(sides, |x| u64::from(x) << 40, |x| u64::from(x) << 20 | 7);
    }
}

/// The numbers that are summed at once, and the division of the work, make no difference. The
/// kernel is one for processors: GPUs have no room for its tiles.
#[test]
fn multiplies_with_any_registers() {
    fn with<T, const ROWS: usize, const COLUMNS: usize>(of: impl Fn(u32) -> T)
    where
        T: Item + MultiplyAdd + KernelData,
    {
        let sides = [115, 300, 97];
        let a: Vec<T> = numbers(sides[0] * sides[1]).map(&of).collect();
        let b: Vec<T> = numbers(sides[1] * sides[2]).map(&of).collect();
        let model = product(sides, &a, &b);
        on_each_device(|context, queue| {
            if queue.device().properties().kind == DeviceKind::Gpu {
                return;
            }
            let (a, b) = (buffer(context, &a), buffer(context, &b));
            let tile = [2 * ROWS, COLUMNS];
            let blocks = [sides[0].div_ceil(tile[0]), sides[2].div_ceil(tile[1])];
            let mut c = allocate::<T>(context, sides[0] * sides[2])
                .shaped([sides[0], sides[2]])
                .unwrap();
            queue
                .launch(
                    WorkDivision::new(blocks, [1, 1], tile),
                    multiply_tiles::<T, ROWS, COLUMNS>(sides[1], &a, &b, &mut c),
                )
                .unwrap();
            compare(&queue.read(c.buffer()).unwrap().wait().unwrap(), &model);
        });
    }
    with::<f32, 6, 16>(|x| x as f32 * 0.1);
    with::<f32, 12, 32>(|x| x as f32 * 0.1);
    with::<f64, 6, 8>(|x| f64::from(x) * 0.1);
    with::<f64, 12, 16>(|x| f64::from(x) * 0.1);
}

#[test]
fn transposes_the_same_in_every_mode() {
    let x: Vec<u32> = numbers(20 * 9).collect();
    everywhere!(
        transpose_tiles<u32>, WorkDivision::new([2, 3], [2, 1], [3, 8]), [];
        x = Input(x), y = OutputView(vec![0_u32; 20 * 9], [9, 20]),
    );
}

/// Tiles that are more than a thread has at hand, and are not all as large.
#[test]
fn transposes_at_hand_the_same_in_every_mode() {
    let [rows, columns] = [130, 140];
    let x: Vec<u32> = numbers(rows * columns).collect();
    let model: Vec<u32> = (0..x.len())
        .map(|at| x[at % rows * columns + at / rows])
        .collect();
    let (.., y) = everywhere!(
        transpose_at_hand<u32>, WorkDivision::new([1, 2], [1, 1], [140, 75]), [];
        columns = Index(columns), x = Input(x), y = OutputView(vec![0_u32; rows * columns], [columns, rows]),
    );
    compare(&y.0, &model);
}

#[test]
fn multiplies_the_same_in_every_mode() {
    let sides = [13, 300, 35];
    let a: Vec<f32> = numbers(13 * 300).map(|x| x as f32 * 0.1).collect();
    let b: Vec<f32> = numbers(300 * 35).map(|x| x as f32 * 0.3).collect();
    let model = product(sides, &a, &b);
    let tile = [12, 32];
    let shared = [tile[1] * DEPTH, tile[0] * tile[1]].map(|length| length as u64);
    let (.., c) = everywhere!(
        contiguous multiply_tiles<f32, 6, 16>, WorkDivision::new([2, 2], [1, 1], tile), [shared[0], shared[1]];
        inner = Index(300), a = Input(a), b = Input(b), c = OutputView(vec![0.0_f32; 13 * 35], [13, 35]),
    );
    compare(&c.0, &model);
}

#[test]
fn multiplies_squares_the_same_in_every_mode() {
    let sides = [19, 300, 35];
    let a: Vec<f32> = numbers(19 * 300).map(|x| x as f32 * 0.1).collect();
    let b: Vec<f32> = numbers(300 * 35).map(|x| x as f32 * 0.3).collect();
    let model = product(sides, &a, &b);
    let (.., c) = everywhere!(
        multiply_squares<f32>, WorkDivision::new([2, 3], [SIDE, SIDE], [1, 1]), [];
        inner = Index(300), a = Input(a), b = Input(b), c = OutputView(vec![0.0_f32; 19 * 35], [19, 35]),
    );
    compare(&c.0, &model);
}
