//! `stream-edge`: a camera at one node and a decoder at another, whose frames a client behind a slow network wants to see, too.
//!
//! Each frame is decoded at the other node; the client gets it as the camera gave it, and of the decoder what it needs to know.
//! A frame has room for the worst case, of which little is in use. So there are four ways: what is in use, or whole buffers; from
//! node to node, on a network that is no hindrance, or by way of the client, both of whose links share one slow network. Beside
//! them, on the same network, go TLS and TCP alone, which ask for as many bytes as a frame has in use.

use super::Doing;
use super::cluster::{Cluster, Offer};
use crate::error::BenchError;
use crate::harness::{Contender, Gate, Report, Row, Session};
use crate::reference::network::{Pair, Way};
use crate::reference::paced::{FIVE_G, Paced, Shape, WIFI_6};
use crate::reference::process::Usage;
use quipu::{Buffer, BuiltIn, Context, Device, Queue};
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// The ways: whether buffers have content sizes, and whether nodes are used together. The last is what the others are beside.
const WAYS: [(&str, bool, bool); 4] = [
    ("what is in use, node to node", true, true),
    ("what is in use, through the client", true, false),
    ("whole buffers, node to node", false, true),
    ("whole buffers, through the client", false, false),
];

const LAST: (&str, bool, bool) = WAYS[WAYS.len() - 1];

/// The most of whole buffers' bytes that frames may take of which only what is in use moves, of 1280 x 720 or 640 x 480 pixels.
const PART: f64 = 0.1;
/// Bytes that ask for a frame.
const WORDS: usize = 96;

/// The time of a run, for each frame.
#[derive(Default)]
struct Took {
    kibibytes: Vec<f64>,
    /// Milliseconds of a processor.
    processor: Vec<f64>,
}

/// The benchmark `stream-edge`.
pub(in crate::benchmarks) fn stream_edge(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let sides: (u32, u32) = session.scale().choose((1280, 720), (640, 480), (64, 48));
    let (width, height) = sides;
    let frames: u32 = session.scale().choose(30, 5, 2);
    let shapes = [WIFI_6, FIVE_G];
    let plan = session.begin(shapes.len());
    for shape in shapes {
        let edge = Edge::new(session, shape, width, height)?;
        let mut streams = Vec::new();
        for (_, has_content_size, is_straight) in WAYS {
            streams.push(edge.stream(has_content_size, is_straight)?);
        }
        // The pictures of this camera are alike: so much is in use of each, or nearly.
        let used = streams[0].frame_in_use().doing("streaming")?;
        let mut pairs = Pair::both(&Way::Paced(edge.network.clone()))?;
        let took = WAYS.map(|_| RefCell::new(Took::default()));
        let mut contenders = Vec::new();
        for ((stream, (name, ..)), took) in streams.iter_mut().zip(WAYS).zip(&took) {
            let network = &edge.network;
            contenders.push(Contender::new(name, move || {
                let (started, before) = (Instant::now(), network.bytes());
                let used = own_time(network);
                for _ in 0..frames {
                    stream.frame().doing("streaming")?;
                }
                let seconds = started.elapsed().as_secs_f64();
                let each = |all: f64| all / f64::from(frames);
                let bytes = network.bytes() - before;
                let used = own_time(network).saturating_sub(used);
                let mut took = took.borrow_mut();
                took.kibibytes.push(each(bytes as f64 / 1024.0));
                took.processor.push(each(used.as_secs_f64() * 1e3));
                Ok(f64::from(frames) / seconds)
            }));
        }
        for (name, pair) in &mut pairs {
            contenders.push(Contender::new(*name, move || {
                let started = Instant::now();
                for _ in 0..frames {
                    pair.exchange(WORDS, used)?;
                }
                Ok(f64::from(frames) / started.elapsed().as_secs_f64())
            }));
        }
        let samples = session.measure(&plan, &mut contenders)?;
        drop(contenders);
        let rates: Vec<&[f64]> = (0..WAYS.len()).map(|way| samples.of(way)).collect();
        let faster = rows(session, report, shape.name, "frames/s", &rates);
        for alone in WAYS.len()..samples.contenders() {
            let name = format!("{}: {}", shape.name, WAYS[0].0);
            let pairs = (rates[0], samples.of(alone));
            let row = Row::new(name, "node", 0, "frames/s", pairs.0);
            session.add(report, row.beside(samples.name(alone), pairs));
        }
        let took = took.map(RefCell::into_inner);
        let bytes: Vec<&[f64]> = took.iter().map(|took| &took.kibibytes[..]).collect();
        let smaller = rows(session, report, shape.name, "KiB/frame", &bytes);
        let what = |of: &str| format!("{}, {}, {of}, beside {}", shape.name, WAYS[0].0, LAST.0);
        let gates = [
            Gate::at_least(what("frames/s"), faster, 1.0, "x"),
            Gate::at_most(what("KiB/frame"), smaller, PART, "x"),
        ];
        report.gates.extend(gates);
        // Sessions with processes of their own use no time of the client.
        if session.options.sessions.is_some() && cfg!(target_os = "linux") {
            let used: Vec<&[f64]> = took.iter().map(|took| &took.processor[..]).collect();
            rows(session, report, shape.name, "ms of a core/frame", &used);
        }
        for stream in &mut streams {
            session.verify(
                "stream-edge",
                "the shape of the last picture",
                format!("{:?}", [height, width, 3]),
                format!("{:?}", stream.shape().doing("reading a shape")?),
            )?;
            session.verify(
                "stream-edge",
                "whether the client has all of the last frame",
                true,
                stream.is_whole().doing("reading a size")?,
            )?;
        }
    }
    report.notes.push(format!(
        "frames are of {width} x {height} pixels, with room for {} KiB; bytes are those of both of the client's links, both ways",
        (width * height * 3) >> 10,
    ));
    Ok(())
}

/// A row for each way, beside the last; how many times that the first is.
fn rows(
    session: &Session<'_>,
    report: &mut Report,
    shape: &str,
    unit: &str,
    samples: &[&[f64]],
) -> f64 {
    let (first, last) = (report.rows.len(), WAYS.len() - 1);
    for (way, (name, ..)) in WAYS.iter().enumerate().take(last) {
        let row = Row::new(format!("{shape}: {name}"), "node", 0, unit, samples[way]);
        let pairs = (samples[way], samples[last]);
        session.add(report, row.beside(LAST.0, pairs));
    }
    report.rows[first].ratio.unwrap_or(f64::NAN)
}

/// The processor time of this process, without the network's part.
fn own_time(network: &Paced) -> Duration {
    let all = Usage::now().map_or(Duration::ZERO, |usage| usage.processor);
    all.saturating_sub(network.processor())
}

/// A node with a camera and one with a decoder, and the network to both.
struct Edge {
    // In this order: clients say goodbye first.
    straight: Vec<Device>,
    around: Vec<Device>,
    network: Paced,
    room: usize,
    _nodes: Cluster,
}

impl Edge {
    fn new(
        session: &Session<'_>,
        shape: Shape,
        width: u32,
        height: u32,
    ) -> Result<Self, BenchError> {
        let network = Paced::new(shape);
        let offers = [Offer::Camera(width, height), Offer::Decoder];
        let ways = [Way::Paced(network.clone()), Way::Paced(network.clone())];
        let nodes = Cluster::new(session, &offers, &ways)?;
        Ok(Self {
            straight: nodes.together(&ways[0])?,
            around: nodes.apart(&ways[0])?,
            network,
            // The frame's bytes as pixels, which no sensible JPEG exceeds.
            room: (width * height * 3) as usize,
            _nodes: nodes,
        })
    }

    fn stream(&self, has_content_size: bool, is_straight: bool) -> Result<Stream, BenchError> {
        let devices = if is_straight {
            &self.straight
        } else {
            &self.around
        };
        let make = || -> quipu::Result<Stream> {
            Stream::new(&Context::new(devices)?, self.room, has_content_size)
        };
        make().doing("making buffers")
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

    /// A frame, and how many bytes of it are in use.
    fn frame_in_use(&mut self) -> quipu::Result<usize> {
        self.frame()?;
        Ok(self.camera.read(&self.size)?.wait()?[0] as usize)
    }

    fn shape(&self) -> quipu::Result<Vec<u32>> {
        self.decoder.read(&self.shape)?.wait()
    }

    /// True if what came last is a picture to its last byte.
    fn is_whole(&self) -> quipu::Result<bool> {
        let used = self.camera.read(&self.size)?.wait()?[0] as usize;
        let frame = self.bytes.get(..used);
        Ok(frame.is_some_and(|bytes| {
            bytes.starts_with(&[0xff, 0xd8]) && bytes.ends_with(&[0xff, 0xd9])
        }))
    }
}
