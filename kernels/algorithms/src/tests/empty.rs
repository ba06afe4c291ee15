//! Algorithms on buffers without elements: they do nothing, or give the result for no elements.

use crate::tests::on_each_device;
use quipu::prelude::*;
use quipu_algorithms::{
    Ascending, Function, Sum, compact, exclusive_scan, histogram, inclusive_scan, matrix_product,
    merge_sort, merge_sort_by_key, radix_sort, radix_sort_by_key, reduce, stencil, transpose,
};

#[derive(Clone, Copy, KernelData, bytemuck::NoUninit)]
#[repr(C)]
struct Modulo {
    divisor: u32,
}

#[device]
impl Function<u32, u32> for Modulo {
    fn apply(self, x: u32) -> u32 {
        x % self.divisor
    }
}

#[derive(Clone, Copy, KernelData, bytemuck::NoUninit)]
#[repr(C)]
struct Odd {
    bit: u32,
}

#[device]
impl Function<u32, bool> for Odd {
    fn apply(self, x: u32) -> bool {
        x & self.bit != 0
    }
}

#[test]
fn nothing_is_summed_sorted_and_counted() {
    on_each_device(|context, queue| {
        let none = context.allocate::<u32>(0).unwrap();
        let other = || context.allocate::<u32>(0).unwrap();
        let mut sum = context.buffer(&[7_u32]).unwrap();
        reduce::<Sum, _>(queue, &none, &mut sum)
            .unwrap()
            .wait()
            .unwrap();
        assert_eq!(queue.read(&sum).unwrap().wait().unwrap(), [0]);
        inclusive_scan::<Sum, _>(queue, &none, &mut other())
            .unwrap()
            .wait()
            .unwrap();
        exclusive_scan::<Sum, _>(queue, &none, &mut other())
            .unwrap()
            .wait()
            .unwrap();
        radix_sort(queue, &mut other()).unwrap().wait().unwrap();
        radix_sort_by_key(queue, &mut other(), &mut other())
            .unwrap()
            .wait()
            .unwrap();
        merge_sort(queue, Ascending::default(), &mut other())
            .unwrap()
            .wait()
            .unwrap();
        merge_sort_by_key(queue, Ascending::default(), &mut other(), &mut other())
            .unwrap()
            .wait()
            .unwrap();
        let mut bins = context.buffer(&[5_u32; 3]).unwrap();
        histogram(queue, Modulo { divisor: 3 }, &none, &mut bins)
            .unwrap()
            .wait()
            .unwrap();
        assert_eq!(queue.read(&bins).unwrap().wait().unwrap(), [0; 3]);
        let mut count = context.buffer(&[9_u64]).unwrap();
        compact(queue, Odd { bit: 1 }, &none, &mut other(), &mut count)
            .unwrap()
            .wait()
            .unwrap();
        assert_eq!(queue.read(&count).unwrap().wait().unwrap(), [0]);
    });
}

#[test]
fn matrices_may_have_no_rows_or_columns() {
    on_each_device(|context, queue| {
        let none = context.allocate::<f32>(0).unwrap();
        let mut other = context.allocate::<f32>(0).unwrap();
        for rows in [0, 1, 5] {
            transpose(queue, rows, &none, &mut other)
                .unwrap()
                .wait()
                .unwrap();
            stencil(queue, [[1.0; 3]; 3], rows, &none, &mut other)
                .unwrap()
                .wait()
                .unwrap();
        }
        let mut product = context.buffer(&[3.0_f32; 6]).unwrap();
        matrix_product(queue, [2, 0, 3], &none, &none, &mut product)
            .unwrap()
            .wait()
            .unwrap();
        assert_eq!(queue.read(&product).unwrap().wait().unwrap(), [0.0; 6]);
        matrix_product(queue, [0, 4, 0], &none, &none, &mut other)
            .unwrap()
            .wait()
            .unwrap();
    });
}
