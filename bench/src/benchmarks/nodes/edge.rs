//! `stream-edge`: a camera and a decoder at a node, whose frames a client behind a slow network wants to see, too.
//!
//! Each frame is decoded at the node, where it is; the client gets it as the camera gave it, and of the decoder what it needs to
//! know. A frame has room for the worst case, of which little is in use.

use super::{Doing, Served};
use crate::error::BenchError;
use crate::harness::{Contender, Report, Row, Session};
use crate::reference::network::Way;
use crate::reference::paced::{FIVE_G, Paced, Shape, WIFI_6};
use quipu::drivers::sources::{Options, Source};
use quipu::{Buffer, BuiltIn, Context, Platform, Queue};
use quipu_core::{Device, Driver};
use std::sync::Arc;
use std::time::Instant;

/// The benchmark `stream-edge`.
pub(in crate::benchmarks) fn stream_edge(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let sides: (u32, u32) = session.scale().choose((1280, 720), (640, 480), (64, 48));
    let (width, height) = sides;
    let frames: u32 = session.scale().choose(30, 10, 2);
    let shapes = [WIFI_6, FIVE_G];
    let plan = session.begin(shapes.len());
    for shape in shapes {
        let edge = Edge::new(shape, width, height)?;
        let mut streams = [edge.stream(true)?, edge.stream(false)?];
        let mut sent = [0; 2];
        let mut contenders = Vec::new();
        let names = ["what is in use", "whole buffers"];
        for ((stream, name), sent) in streams.iter_mut().zip(names).zip(&mut sent) {
            let way = &edge.way;
            contenders.push(Contender::new(name, move || {
                let (started, before) = (Instant::now(), way.bytes());
                for _ in 0..frames {
                    stream.frame().doing("streaming")?;
                }
                *sent = (way.bytes() - before) / u64::from(frames);
                Ok(started.elapsed().as_secs_f64() * 1e3 / f64::from(frames))
            }));
        }
        let samples = session.measure(&plan, &mut contenders)?;
        drop(contenders);
        let pairs = (samples.of(0), samples.of(1));
        let row = Row::new(shape.name, "node", 0, "ms/frame", pairs.0);
        report.rows.push(row.beside(samples.name(1), pairs));
        report.notes.push(format!(
            "{}: {:.1} KiB a frame went over the network with a content size, {:.1} KiB without, of {width} x {height} pixels",
            shape.name,
            sent[0] as f64 / 1024.0,
            sent[1] as f64 / 1024.0,
        ));
        for stream in &streams {
            session.verify(
                "stream-edge",
                "the shape of the last picture",
                format!("{:?}", [height, width, 3]),
                format!("{:?}", stream.shape().doing("reading a shape")?),
            )?;
        }
    }
    Ok(())
}

/// A node with a camera and a decoder, and the way there.
struct Edge {
    context: Context,
    way: Paced,
    room: usize,
    _served: Served,
}

impl Edge {
    fn new(shape: Shape, width: u32, height: u32) -> Result<Self, BenchError> {
        let camera = Source::synthetic("camera", width, height, true);
        let driver = Options::new().source(camera).decoder().start();
        let driver: Arc<dyn Driver> = driver.doing("starting a camera")?;
        let devices = Device::all_of(&driver).doing("listing devices")?;
        let mut way = None;
        let (served, remote) = Served::over("edge", &Way::Loopback, devices, |address| {
            let paced = Paced::to(address, shape).doing("making a network")?;
            let address = paced.address.clone();
            way = Some(paced);
            Ok(address)
        })?;
        let platform = Platform::builder().without_embedded().driver(remote);
        let platform = platform.build().doing("listing devices")?;
        Ok(Self {
            context: platform.context().doing("making a context")?,
            way: way.ok_or_else(|| {
                crate::error::SubjectError::failed("making a network", "there is none")
            })?,
            // What a frame has as pixels, which no sensible JPEG exceeds.
            room: (width * height * 3) as usize,
            _served: served,
        })
    }

    fn stream(&self, has_content_size: bool) -> Result<Stream, BenchError> {
        let stream = Stream::new(&self.context, self.room, has_content_size);
        stream.doing("making buffers")
    }
}

/// A stream, frame by frame.
struct Stream {
    camera: Queue,
    decoder: Queue,
    next: BuiltIn,
    decode: BuiltIn,
    position: Buffer<u64>,
    frame: Buffer<u8>,
    size: Buffer<u64>,
    pixels: Buffer<u8>,
    pixels_size: Buffer<u64>,
    shape: Buffer<u32>,
    bytes: Vec<u8>,
}

impl Stream {
    fn new(context: &Context, room: usize, has_content_size: bool) -> quipu::Result<Self> {
        let devices = context.devices();
        let (camera, decoder) = (&devices[0], &devices[1]);
        let (frame, size) = (context.allocate(room)?, context.allocate(1)?);
        if has_content_size {
            frame.set_content_size(Some(&size))?;
        }
        Ok(Self {
            next: camera.built_in_kernel("next_frame")?,
            decode: decoder.built_in_kernel("decode_jpeg")?,
            camera: context.queue(camera)?,
            decoder: context.queue(decoder)?,
            position: context.allocate(1)?,
            frame,
            size,
            pixels: context.allocate(room)?,
            pixels_size: context.allocate(1)?,
            shape: context.allocate(3)?,
            bytes: vec![0; room],
        })
    }

    /// Has the next frame decoded there, and brought here.
    fn frame(&mut self) -> quipu::Result<()> {
        let to = (&mut self.position, &mut self.frame, self.size.overwrite());
        self.camera.post_launch(1, self.next.call(to))?;
        let picture = (
            &self.frame,
            &self.size,
            self.pixels.overwrite(),
            self.pixels_size.overwrite(),
            self.shape.overwrite(),
        );
        let decoded = self.decoder.launch(1, self.decode.call(picture))?;
        self.camera.read_slice(&self.frame, &mut self.bytes)?;
        decoded.wait()
    }

    fn shape(&self) -> quipu::Result<Vec<u32>> {
        self.decoder.read(&self.shape)?.wait()
    }
}
