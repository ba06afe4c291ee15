//! A cloud of points: a depth camera at the first node, a sorter at the second.
//!
//! The first node makes a sparse cloud of a depth image: a point for each pixel whose depth the
//! camera knows, one of sixteen or so. The second node sorts the points by depth, the farthest
//! first. The client blends them into a picture in this order. A cloud has room for a point of each
//! pixel.

#![allow(clippy::needless_range_loop, reason = "kernels go by index")]

use super::Stream;
use crate::benchmarks::nodes::cluster::Offer;
use quipu::kernels::{Accelerator, OwnElements, RawMut, kernel};
use quipu::serve::Kernels;
use quipu::{Buffer, Context, Queue};
use std::num::NonZero;

/// Depths are numbers from 1 to this.
const DEPTHS: usize = 4096;

/// A depth image: of each pixel the depth in the lower half, and the light in the upper half. Zero
/// is a pixel whose depth is not known.
#[kernel]
fn measure_depths(
    _acc: &impl Accelerator<1>,
    number: u32,
    width: u32,
    mut image: OwnElements<u32>,
) {
    for (i, pixel) in image.each() {
        let (x, y) = (i as u32 % width, i as u32 / width);
        let place = x.wrapping_mul(0x9e37_79b1) ^ y.wrapping_mul(0x85eb_ca77);
        let noise = (place ^ number.wrapping_mul(0xc2b2_ae3d)).wrapping_mul(0x27d4_eb2f);
        let depth = 1 + (x.wrapping_add(number.wrapping_mul(3)) ^ y) % 4096;
        let light = (x.wrapping_mul(y) >> 4) & 0xff;
        *pixel = if noise >> 28 == 0 {
            depth | (light << 16)
        } else {
            0
        };
    }
}

/// The cloud of a depth image, and the number of its bytes. A point has 16 bits each for depth,
/// light, column and row, the lowest first. One thread does all.
#[kernel]
fn make_cloud(
    _acc: &impl Accelerator<1>,
    width: usize,
    image: &[u32],
    cloud: RawMut<u64>,
    size: RawMut<u64>,
) {
    let mut count = 0;
    for i in 0..image.len() {
        let pixel = image[i];
        if pixel != 0 {
            let place = (((i / width) as u64) << 16) | (i % width) as u64;
            // SAFETY: the launch has one thread.
            unsafe { cloud.write(count, pixel as u64 | (place << 32)) };
            count += 1;
        }
    }
    // SAFETY: as above.
    unsafe { size.write(0, 8 * count as u64) };
}

/// A cloud by depth, the farthest point first, and of one depth in the order of the pixels. One
/// thread does all.
#[kernel]
fn sort_cloud(_acc: &impl Accelerator<1>, cloud: &[u64], size: &[u64], sorted: RawMut<u64>) {
    let cloud = &cloud[..(size[0] / 8) as usize];
    let mut starts = [0_u32; DEPTHS + 1];
    for i in 0..cloud.len() {
        starts[DEPTHS + 1 - (cloud[i] & 0xffff) as usize] += 1;
    }
    let mut before = 0;
    for depth in 0..DEPTHS + 1 {
        before += starts[depth];
        starts[depth] = before - starts[depth];
    }
    for i in 0..cloud.len() {
        let depth = DEPTHS + 1 - (cloud[i] & 0xffff) as usize;
        // SAFETY: the launch has one thread.
        unsafe { sorted.write(starts[depth] as usize, cloud[i]) };
        starts[depth] += 1;
    }
}

/// The kernels, for nodes.
pub(in crate::benchmarks::nodes) fn kernels() -> Kernels {
    Kernels::new()
        .with::<measure_depths, _>()
        .with::<make_cloud, _>()
        .with::<sort_cloud, _>()
}

pub(super) struct Points {
    camera: Queue,
    sorter: Queue,
    width: usize,
    image: Buffer<u32>,
    cloud: Buffer<u64>,
    size: Buffer<u64>,
    sorted: Buffer<u64>,
    points: Vec<u64>,
    used: usize,
    shown: Vec<u8>,
}

impl Points {
    /// Blends the points into a picture, each over the two by two pixels from its own on.
    fn show(&mut self) {
        self.shown.fill(0);
        for point in &self.points[..self.used / size_of::<u64>()] {
            let [_, light, column, row] = [0, 16, 32, 48].map(|bits| (point >> bits) as u16);
            let at = usize::from(row) * self.width + usize::from(column);
            for pixel in [at, at + 1, at + self.width, at + self.width + 1] {
                if let Some(pixel) = self.shown.get_mut(pixel) {
                    *pixel = ((u16::from(*pixel) + light) / 2) as u8;
                }
            }
        }
    }
}

impl Stream for Points {
    const NAME: &'static str = "points";

    fn offers(_: u32, _: u32) -> [Offer; 2] {
        [const { Offer::Workers(NonZero::<usize>::MIN) }; 2]
    }

    fn room(width: u32, height: u32) -> usize {
        (width * height) as usize * size_of::<u64>()
    }

    fn new(
        context: &Context,
        (width, height): (u32, u32),
        has_content_size: bool,
    ) -> quipu::Result<Self> {
        let devices = context.devices();
        let pixels = (width * height) as usize;
        let (cloud, sorted) = (context.allocate(pixels)?, context.allocate(pixels)?);
        let size = context.allocate(1)?;
        if has_content_size {
            cloud.set_content_size(Some(&size))?;
            sorted.set_content_size(Some(&size))?;
        }
        Ok(Self {
            camera: context.queue(&devices[0])?,
            sorter: context.queue(&devices[1])?,
            width: width as usize,
            image: context.allocate(pixels)?,
            cloud,
            size,
            sorted,
            points: vec![0; pixels],
            used: 0,
            shown: vec![0; pixels],
        })
    }

    fn frame(&mut self, number: u32) -> quipu::Result<()> {
        let pixels = self.image.len();
        let measure = measure_depths(number, self.width as u32, self.image.overwrite());
        self.camera.post_launch(pixels, measure)?;
        let make = make_cloud(self.width, &self.image, &mut self.cloud, &mut self.size);
        self.camera.post_launch(1, make)?;
        let sort = sort_cloud(&self.cloud, &self.size, &mut self.sorted);
        self.sorter.post_launch(1, sort)?;
        let mut size = [0];
        self.sorter.scope(|scope| {
            scope.read(&self.size, &mut size)?;
            scope.read(&self.sorted, &mut self.points).map(drop)
        })??;
        self.used = size[0] as usize;
        self.show();
        Ok(())
    }

    fn used(&self) -> quipu::Result<usize> {
        Ok(self.used)
    }

    /// The sorted points, and the picture of them.
    fn results(&self) -> quipu::Result<Vec<u8>> {
        let points = &self.points[..self.used / size_of::<u64>()];
        let bytes = points.iter().flat_map(|point| point.to_le_bytes());
        Ok(bytes.chain(self.shown.iter().copied()).collect())
    }
}
