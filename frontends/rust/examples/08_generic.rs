//! A generic kernel with device functions and structs: how much of a square a shape covers.

use quipu::prelude::*;

#[device]
trait Shape {
    fn covers(&self, x: f32, y: f32) -> bool;
}

#[derive(Clone, Copy, KernelData)]
#[repr(C)]
struct Disc {
    centre: [f32; 2],
    radius: f32,
}

#[derive(Clone, Copy, KernelData)]
#[repr(C)]
struct Ring {
    outer: Disc,
    inner: Disc,
}

#[device]
impl Shape for Disc {
    fn covers(&self, x: f32, y: f32) -> bool {
        let (across, down) = (x - self.centre[0], y - self.centre[1]);
        across * across + down * down < self.radius * self.radius
    }
}

#[device]
impl Shape for Ring {
    fn covers(&self, x: f32, y: f32) -> bool {
        self.outer.covers(x, y) && !self.inner.covers(x, y)
    }
}

#[kernel]
fn draw<S: Shape>(_acc: &impl Accelerator<2>, shape: S, mut picture: OwnElements<u8, 2>) {
    let (rows, columns) = (picture.extent()[0] as f32, picture.extent()[1] as f32);
    for (position, part) in picture.rows() {
        for (k, pixel) in part.iter_mut().enumerate() {
            let x = ((position[1] + k) as f32 + 0.5) / columns;
            let y = (position[0] as f32 + 0.5) / rows;
            *pixel = if shape.covers(x, y) { 1 } else { 0 };
        }
    }
}

/// Draws two shapes, each by an instance of the kernel of its own.
pub fn main() -> quipu::Result<()> {
    let context = Platform::new()?.context()?;
    let queue = context.queue(&context.fastest())?;
    let mut picture = context.allocate_nd::<u8, 2>([400, 400])?;
    let (centre, radius) = ([0.5, 0.5], 0.5);
    let outer = Disc { centre, radius };
    let mut inner = outer;
    inner.radius = 0.25;
    queue.launch(picture.extent(), draw(outer, &mut picture))?;
    let of_disc = queue.read_nd(&picture)?.wait()?;
    queue.launch(picture.extent(), draw(Ring { outer, inner }, &mut picture))?;
    let of_ring = queue.read_nd(&picture)?.wait()?;

    let quarter = std::f64::consts::FRAC_PI_4; // of the square
    for (pixels, expected) in [(of_disc, quarter), (of_ring, quarter * 0.75)] {
        let share = pixels.iter().filter(|pixel| **pixel == 1).count() as f64 / 160_000.0;
        println!("{share:.4}");
        assert!((share - expected).abs() < 1e-3);
    }
    Ok(())
}
