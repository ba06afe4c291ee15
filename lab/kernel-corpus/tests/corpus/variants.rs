//! Enums whose variants have fields.

use super::{check, division};
use quipu_kernel::{Accelerator, KernelData, OwnElements, device, kernel};

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
enum Shape {
    Circle(f32),
    Box { width: f32, height: f32 },
    Moved([f32; 2], u8),
    Nothing,
}

use Shape::Circle;

#[derive(Clone, Copy, KernelData)]
#[kernel_data(crate = quipu_kernel)]
enum Either<L, R> {
    Left(L),
    Right(R),
}

#[device(crate = quipu_kernel)]
impl Shape {
    fn area(self) -> f32 {
        match self {
            Self::Circle(radius) => 3.0 * radius * radius,
            Self::Box { width, height } => width * height,
            Self::Moved([x, _], by) => x + by as f32,
            Self::Nothing => 0.0,
        }
    }

    fn grow(&mut self) {
        if let Shape::Box { width, .. } = self {
            *width += 1.0;
        }
    }
}

#[device(crate = quipu_kernel)]
fn shape(kind: u32, size: f32) -> Shape {
    match kind % 4 {
        0 => Circle(size),
        1 => Shape::Box {
            width: size,
            height: 2.0,
        },
        2 => Shape::Moved([size, 1.0], kind as u8),
        _ => Shape::Nothing,
    }
}

#[device(crate = quipu_kernel)]
fn told<L: Copy, R: Copy>(of: Either<L, R>) -> bool {
    matches!(of, Either::Left(_))
}

#[kernel(crate = quipu_kernel)]
fn shapes(_acc: &impl Accelerator<1>, x: &[u32], f: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        let mut one = shape(x[i], f[i]);
        *y = one.area();
        one.grow();
        *y += 100.0 * one.area();
        let kept = if x[i] > 4 { one } else { Shape::Nothing };
        if let Shape::Nothing = kept {
            *y += 0.5;
        }
        if let Circle(r) | Shape::Box { width: r, .. } = one {
            *y += 10_000.0 * r;
        }
        let either = if f[i] > 2.0 {
            Either::Left(one)
        } else {
            Either::Right(x[i] as u16)
        };
        *y += match either {
            Either::Left(Shape::Moved(..)) => 0.25,
            Either::Left(_) => 0.125,
            Either::Right(n) => n as f32 * 1000.0,
        };
        *y += 100_000.0 * told(either) as u32 as f32;
    }
}

#[test]
fn variants_have_fields() {
    let x = vec![3, 1, 4, 8, 5, 2];
    let f = vec![1.0, 2.0, 3.0, 1.5, 4.0, 6.0];
    let mut y = vec![0.0; 6];
    check!(shapes => (&x, &f, &mut y), division(2, 3, 1));
    assert_eq!(
        y,
        [3000.5, 31604.5, 132727.625, 23681.75, 151008.125, 100808.75]
    );
}
