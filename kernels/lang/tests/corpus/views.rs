//! Views of several dimensions, and raw outputs.

use super::{check, compare, division, run_printed};
use quipu_kernel::{
    Accelerator, Block, Elements, GlobalMut, GlobalRef, Grid, OwnElements, RawMut, Threads,
    WorkDivision, kernel,
};
use quipu_kernel_testing::Argument;

#[kernel(crate = quipu_kernel)]
fn transpose(_acc: &impl Accelerator<2>, x: GlobalRef<f32, 2>, mut y: OwnElements<f32, 2>) {
    let columns = y.extent()[1];
    for (i, y) in y.each() {
        *y = x[[i % columns, i / columns]];
    }
}

#[test]
fn runs_transpose() {
    let x: Vec<f32> = (0..28u8).map(f32::from).collect();
    let mut y = vec![0.0; 24];
    let division = WorkDivision::new([2, 2], [3, 1], [1, 2]).unwrap();
    let from = GlobalRef::from(&x).in_strides([4, 6], [7, 1]).unwrap();
    let arguments = [
        Argument::view(&x, &[4, 6], &[7, 1]),
        Argument::view(&y, &[6, 4], &[4, 1]),
    ];
    let to = GlobalMut::from(&mut y).in_extent([6, 4]).unwrap();
    let call = transpose(from, to);
    let module = call.module().unwrap();
    call.run(division).unwrap();
    assert_eq!(y[1], 7.0);
    run_printed(&module, &division, &arguments, &[], |launch| {
        compare(&y, &launch.elements(1));
    });
}

#[kernel(crate = quipu_kernel)]
fn rows(acc: &impl Accelerator<2>, x: GlobalRef<u32>, mut y: OwnElements<u32, 2>) {
    let first = acc.index(Grid, Elements);
    let threads = acc.extent(Block, Threads);
    let bias = x[..2].len() as u32 + threads[0] as u32 * 0 + first[0] as u32 * 0;
    for (position, row) in y.rows() {
        for (k, element) in row.iter_mut().enumerate() {
            *element = x[position[0]] * 100 + (position[1] + k) as u32 + bias;
        }
    }
}

#[test]
fn runs_rows() {
    let x: Vec<u32> = (0..6).collect();
    let mut y = vec![0; 24];
    let division = WorkDivision::new([2, 2], [3, 1], [1, 2]).unwrap();
    let arguments = [Argument::buffer(&x), Argument::view(&y, &[6, 4], &[4, 1])];
    let to = GlobalMut::from(&mut y).in_extent([6, 4]).unwrap();
    let call = rows(&x[..], to);
    let module = call.module().unwrap();
    call.run(division).unwrap();
    assert_eq!(y[5], 103);
    run_printed(&module, &division, &arguments, &[], |launch| {
        compare(&y, &launch.elements(1));
    });
}

#[kernel(crate = quipu_kernel)]
fn scatter(acc: &impl Accelerator<1>, to: &[u32], y: RawMut<u32>) {
    for i in acc.elements(to.len()) {
        // SAFETY: every place is named once.
        unsafe { y.write(to[i] as usize, i as u32) };
    }
}

#[test]
fn runs_scatter() {
    let to: Vec<u32> = (0..20).map(|i| (i * 7) % 20).collect();
    let mut y = vec![0; 20];
    check!(scatter => (&to, &mut y), division(2, 5, 2));
    assert_eq!(y[7], 1);
}
