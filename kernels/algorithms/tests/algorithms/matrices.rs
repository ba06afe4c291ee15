//! Transposition and products.

use crate::printed::{compare, run_printed};
use crate::{allocate, buffer, numbers, on_each_device};
use quipu::kernels::{Float, SharedElement};
use quipu::prelude::*;
use quipu_algorithms::kernels::{DEPTH, multiply_tiles, transpose_tiles};
use quipu_algorithms::{Item, matrix_product, transpose};
use quipu_kernel_testing::Argument;

#[test]
fn transposes() {
    on_each_device(|context, queue| {
        for [rows, columns] in [[1, 1], [1, 70], [70, 1], [32, 64], [33, 31], [129, 200]] {
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
fn product<T: Float>([rows, inner, columns]: [usize; 3], a: &[T], b: &[T]) -> Vec<T> {
    let mut c = vec![T::ZERO; rows * columns];
    for i in 0..rows {
        for j in 0..columns {
            for from in (0..inner).step_by(DEPTH) {
                let mut sum = T::ZERO;
                for k in from..inner.min(from + DEPTH) {
                    sum = a[i * inner + k].mul_add(b[k * columns + j], sum);
                }
                c[i * columns + j] += sum;
            }
        }
    }
    c
}

/// Matrices of such sides.
fn factors<T: Item + Float>([rows, inner, columns]: [usize; 3]) -> [Vec<T>; 2] {
    let a = numbers(rows * inner).map(|x| T::cast_from(x) * T::cast_from(1e-7));
    let b = numbers(inner * columns).map(|x| T::cast_from(x % 1000) - T::cast_from(499.5));
    [a.collect(), b.collect()]
}

fn multiplies<T: Item + Float>(sides: [usize; 3]) {
    let [rows, _, columns] = sides;
    let [a, b] = factors::<T>(sides);
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
        multiplies::<f32>(sides);
        multiplies::<f64>(sides);
    }
}

/// What is summed at once, and how the work is divided, makes no difference.
#[test]
fn multiplies_with_any_registers() {
    fn with<T: Item + Float + SharedElement, const ROWS: usize, const COLUMNS: usize>() {
        let sides = [115, 300, 97];
        let [a, b] = factors::<T>(sides);
        let model = product(sides, &a, &b);
        on_each_device(|context, queue| {
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
    with::<f32, 6, 16>();
    with::<f32, 12, 32>();
    with::<f64, 6, 8>();
    with::<f64, 12, 16>();
}

#[test]
fn prints() {
    let context = Platform::new().unwrap().context().unwrap();
    let queue = context.queue(&context.fastest()).unwrap();

    let x: Vec<u32> = numbers(20 * 9).collect();
    let from = buffer(&context, &x);
    let mut y = allocate::<u32>(&context, 20 * 9).shaped([9, 20]).unwrap();
    let division = WorkDivision::new([2, 3], [2, 1], [3, 8]).unwrap();
    let module = transpose_tiles(&from, &mut y).module().unwrap();
    queue
        .launch(division, transpose_tiles(&from, &mut y))
        .unwrap();
    let arguments = [
        Argument::buffer(&x),
        Argument::view(&[0_u32; 20 * 9], &[9, 20], &[20, 1]),
    ];
    run_printed(&module, &division, &arguments, &[], |launch| {
        let native = queue.read(y.buffer()).unwrap().wait().unwrap();
        compare(&native, &launch.elements(1));
    });

    let sides = [13, 300, 35];
    let a: Vec<f32> = numbers(13 * 300).map(|x| x as f32 * 0.1).collect();
    let b: Vec<f32> = numbers(300 * 35).map(|x| x as f32 * 0.3).collect();
    let tile = [12, 32];
    let division = WorkDivision::new([2, 2], [1, 1], tile).unwrap();
    let (from_a, from_b) = (buffer(&context, &a), buffer(&context, &b));
    let mut c = allocate::<f32>(&context, 13 * 35).shaped([13, 35]).unwrap();
    let module = multiply_tiles::<f32, 6, 16>(300, &from_a, &from_b, &mut c)
        .module()
        .unwrap();
    let arguments = [
        Argument::index(300),
        Argument::buffer(&a),
        Argument::buffer(&b),
        Argument::view(&[0.0_f32; 13 * 35], &[13, 35], &[35, 1]),
    ];
    let shared = [tile[1] * DEPTH, tile[0] * tile[1]].map(|length| length as u64);
    queue
        .launch(
            division,
            multiply_tiles::<f32, 6, 16>(300, &from_a, &from_b, &mut c),
        )
        .unwrap();
    let native = queue.read(c.buffer()).unwrap().wait().unwrap();
    compare(&native, &product(sides, &a, &b));
    run_printed(&module, &division, &arguments, &shared, |launch| {
        compare(&native, &launch.elements(3));
    });
}
