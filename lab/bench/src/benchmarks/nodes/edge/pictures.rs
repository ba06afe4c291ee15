//! Pictures: a camera at the first node, a decoder at the second.
//!
//! A picture is decoded at the second node. The client gets it as the camera gave it, and decodes
//! it with hardware of its own, which is not part of this. A picture has room for the bytes of all
//! its pixels, of which its JPEG uses few.

use super::Stream;
use crate::benchmarks::nodes::cluster::Offer;
use quipu::{Buffer, BuiltIn, Context, Queue};

pub(super) struct Pictures {
    camera: Queue,
    decoder: Queue,
    take: BuiltIn,
    decode: BuiltIn,
    picture: Buffer<u8>,
    size: Buffer<u64>,
    pixels: Buffer<u8>,
    pixels_size: Buffer<u64>,
    shape: Buffer<u32>,
    shown: Vec<u8>,
}

impl Stream for Pictures {
    const NAME: &'static str = "pictures";

    fn offers(width: u32, height: u32) -> [Offer; 2] {
        [Offer::Camera(width, height), Offer::Decoder]
    }

    fn room(width: u32, height: u32) -> usize {
        (width * height * 3) as usize
    }

    fn new(
        context: &Context,
        (width, height): (u32, u32),
        has_content_size: bool,
    ) -> quipu::Result<Self> {
        let devices = context.devices();
        let (camera, decoder) = (&devices[0], &devices[1]);
        let room = Self::room(width, height);
        let (picture, size) = (context.allocate(room)?, context.allocate(1)?);
        if has_content_size {
            picture.set_content_size(Some(&size))?;
        }
        Ok(Self {
            take: camera.built_in_kernel("frame")?,
            decode: decoder.built_in_kernel("decode_jpeg")?,
            camera: context.queue(camera)?,
            decoder: context.queue(decoder)?,
            picture,
            size,
            pixels: context.allocate(room)?,
            pixels_size: context.allocate(1)?,
            shape: context.allocate(3)?,
            shown: vec![0; room],
        })
    }

    fn frame(&mut self, number: u32) -> quipu::Result<()> {
        let to = (u64::from(number), &mut self.picture, self.size.overwrite());
        self.camera.post_launch(1, self.take.call(to))?;
        let picture = (
            &self.picture,
            &self.size,
            self.pixels.overwrite(),
            self.pixels_size.overwrite(),
            self.shape.overwrite(),
        );
        let decoded = self.decoder.launch(1, self.decode.call(picture))?;
        self.camera.read_slice(&self.picture, &mut self.shown)?;
        decoded.wait()
    }

    fn used(&self) -> quipu::Result<usize> {
        Ok(self.camera.read(&self.size)?.wait()?[0] as usize)
    }

    /// The picture here, its shape, and its pixels at the decoder.
    fn results(&self) -> quipu::Result<Vec<u8>> {
        let mut results = self.shown[..self.used()?.min(self.shown.len())].to_vec();
        for side in self.decoder.read(&self.shape)?.wait()? {
            results.extend(side.to_le_bytes());
        }
        results.extend(self.decoder.read(&self.pixels)?.wait()?);
        Ok(results)
    }
}
