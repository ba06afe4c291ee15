//! Views of several dimensions, and raw outputs.

use super::{check, compare, division, natively, run_printed};
use quipu_kernel::{
    Accelerator, Block, Elements, GlobalMut, GlobalRef, Grid, OwnElements, RawMut, Threads,
    WorkDivision, device, kernel,
};
use quipu_kernel_testing::Argument;

#[kernel(crate = quipu_kernel)]
fn transpose(_acc: &impl Accelerator<2>, x: GlobalRef<f32, 2>, mut y: OwnElements<f32, 2>) {
    let columns = y.extent()[1];
    for (i, y) in y.each() {
        *y = x[[i % columns, i / columns]];
    }
}

fn output<T>(y: &mut Vec<T>) -> GlobalMut<'_, T, 2> {
    GlobalMut::from(y).in_extent([6, 4]).unwrap()
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
    natively(&mut y, |y, way| {
        way.run(transpose(from, output(y)).prepare(division).unwrap());
    });
    let module = transpose(from, output(&mut y)).module().unwrap();
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
    natively(&mut y, |y, way| {
        way.run(rows(&x[..], output(y)).prepare(division).unwrap());
    });
    let module = rows(&x[..], output(&mut y)).module().unwrap();
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

#[kernel(crate = quipu_kernel)]
fn reverse_parts(acc: &impl Accelerator<1>, length: usize, x: RawMut<u32>, y: RawMut<u32>) {
    for part in acc.elements(x.len() / length) {
        let start = part * length;
        // SAFETY: nobody writes `x`, and a part is one thread's.
        let from = unsafe { x.slice(start..start + length) };
        // SAFETY: as above.
        let to = unsafe { y.slice_mut(start..start + length) };
        for (i, to) in to.iter_mut().enumerate() {
            *to = from[length - 1 - i] + first(from);
        }
    }
}

#[device(crate = quipu_kernel)]
fn first(x: &[u32]) -> u32 {
    x[0]
}

/// From one to the other and back, so often.
#[kernel(crate = quipu_kernel)]
fn to_and_fro(
    acc: &impl Accelerator<1>,
    times: usize,
    x: RawMut<u32>,
    y: RawMut<u64>,
    z: RawMut<u32>,
) {
    for i in acc.elements(x.len()) {
        let mut round = 0;
        while round < times {
            let (from, count, to) = if (round + i) % 2 == 0 {
                (x, y, z)
            } else {
                (z, y, x)
            };
            // SAFETY: the elements are one thread's.
            unsafe {
                to.write(i, from.read(i) + 1);
                count.write(i, count.read(i) + from.read(i) as u64);
            }
            round += 1;
        }
    }
}

#[test]
fn runs_to_and_fro() {
    let (mut x, mut y, mut z) = (vec![1; 20], vec![0; 20], vec![100; 20]);
    check!(to_and_fro => (3_usize, &mut x, &mut y, &mut z), division(2, 5, 2));
    assert_eq!((x[2], y[2], z[2]), (3, 6, 4));
    assert_eq!((x[3], y[3], z[3]), (103, 303, 102));
}

#[test]
fn runs_reverse_parts() {
    let (mut x, mut y) = ((0..20).collect::<Vec<u32>>(), vec![0; 20]);
    check!(reverse_parts => (5_usize, &mut x, &mut y), division(2, 2, 1));
    assert_eq!(y[5..10], [14, 13, 12, 11, 10]);
}

#[test]
#[should_panic(expected = "range out of bounds: the len is 20 but the range is 14..21")]
fn a_raw_slice_is_inside() {
    let (mut x, mut y) = ((0..20).collect::<Vec<u32>>(), vec![0; 20]);
    x.extend([0, 0]);
    let _ = reverse_parts(7, &mut x, &mut y).run(division(3, 1, 1));
}

#[test]
fn runs_scatter() {
    let to: Vec<u32> = (0..20).map(|i| (i * 7) % 20).collect();
    let mut y = vec![0; 20];
    check!(scatter => (&to, &mut y), division(2, 5, 2));
    assert_eq!(y[7], 1);
}
