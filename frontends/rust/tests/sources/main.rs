//! Sources of data and the decoder: devices of built-in kernels, here and behind a node.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests say what they expect by failing, too"
)]

mod decoding;
mod node;
mod streams;

use quipu::drivers::sources::{Options, Source};
use quipu::prelude::*;
use quipu::{DeviceKind, Result};

const WIDTH: usize = 48;
const HEIGHT: usize = 32;

/// The same pictures as pixels and as JPEG, and a decoder, beside a pool.
fn builder() -> quipu::PlatformBuilder {
    let (width, height) = (WIDTH as u32, HEIGHT as u32);
    let sources = Options::new()
        .source(Source::synthetic("raw", width, height, false))
        .source(Source::synthetic("camera", width, height, true))
        .decoder();
    Platform::builder()
        .cuda(false)
        .opencl(false)
        .driver(sources.start().unwrap())
}

fn context() -> Context {
    builder().build().unwrap().context().unwrap()
}

/// The device whose name begins so: a node's have the node's behind it.
fn named(context: &Context, name: &str) -> Device {
    let mut devices = context.devices().iter();
    let found = devices.find(|device| device.name().starts_with(name));
    found.unwrap().clone()
}

/// A stream that is read frame by frame.
struct Stream {
    queue: Queue,
    position: Buffer<u64>,
    frame: Buffer<u8>,
    size: Buffer<u64>,
}

impl Stream {
    fn new(context: &Context, name: &str, most: usize) -> Self {
        let (frame, size) = (
            context.allocate(most).unwrap(),
            context.allocate(1).unwrap(),
        );
        frame.set_content_size(Some(&size)).unwrap();
        Self {
            queue: context.queue(&named(context, name)).unwrap(),
            position: context.allocate(1).unwrap(),
            frame,
            size,
        }
    }

    /// Has the next frame brought.
    fn next(&mut self) -> Result<Event> {
        let next = self.queue.device().built_in_kernel("next_frame")?;
        let to = (&mut self.position, self.frame.overwrite(), &mut self.size);
        self.queue.launch(1, next.call(to))
    }

    /// The frame that was brought last.
    fn bytes(&self) -> Vec<u8> {
        let size = self.queue.read(&self.size).unwrap().wait().unwrap()[0];
        let mut bytes = self.queue.read(&self.frame).unwrap().wait().unwrap();
        assert!(bytes[size as usize..].iter().all(|byte| *byte == 0));
        bytes.truncate(size as usize);
        bytes
    }
}
