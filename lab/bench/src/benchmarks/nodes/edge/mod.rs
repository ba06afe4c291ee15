//! `stream-edge`: streams that two nodes make together for a client behind a slow network.
//!
//! | file | stream |
//! |---|---|
//! | `pictures` | a camera at the first node, a decoder at the second |
//! | `points` | a cloud of points of a depth camera at the first node, sorted at the second |
//!
//! Buffers have room for the worst case, of which a frame uses little. So there are four ways: only
//! the bytes in use move, or whole buffers do; and bytes go from node to node, on a network that is
//! no hindrance, or by way of the client, both of whose links share one slow network. A fifth way
//! uses no node: the client's own processor does all.
//!
//! Beside the ways, on the same network, go TLS and TCP alone, with as many bytes as a frame uses.

mod pictures;
mod points;

pub(super) use points::kernels;

use super::Doing;
use super::cluster::{Cluster, Offer, devices};
use crate::error::BenchError;
use crate::harness::{Contender, Gate, Plan, Report, Row, Session};
use crate::reference::network::{Pair, Way};
use crate::reference::paced::{FIVE_G, Paced, Shape, WIFI_6};
use crate::reference::process::Usage;
use pictures::Pictures;
use points::Points;
use quipu::{Context, Device};
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// The ways over nodes: whether buffers have content sizes, and whether nodes are used together.
/// The first is measured against the last, and against [`OWN`].
const WAYS: [(&str, bool, bool); 4] = [
    ("what is in use, node to node", true, true),
    ("what is in use, through the client", true, false),
    ("whole buffers, node to node", false, true),
    ("whole buffers, through the client", false, false),
];

/// The name of the way without nodes.
const OWN: &str = "the client's own processor";

/// The least frame rate of the first way, as a multiple of the last way's: of frames of 1280 x 720
/// pixels, and of smaller ones, whose round trips take a larger part of the time.
const FASTER: [f64; 2] = [10.0, 3.0];
/// The most bytes of the first way, as a part of the last way's.
const BYTES: f64 = 0.05;
/// The same of the client's processor time. What a frame costs beside its bytes, such as commands
/// and wake-ups, does not shrink with them.
const PROCESSOR: f64 = 0.4;
/// Bytes that ask for a frame.
const WORDS: usize = 96;

/// A stream, frame by frame.
trait Stream: Sized + Send {
    /// Its name in rows.
    const NAME: &'static str;

    /// The nodes' offers for frames of so many pixels.
    fn offers(width: u32, height: u32) -> [Offer; 2];

    /// The bytes for which a buffer that moves has room.
    fn room(width: u32, height: u32) -> usize;

    /// Its buffers, in a context of the first node's device and the second's.
    fn new(context: &Context, sides: (u32, u32), has_content_size: bool) -> quipu::Result<Self>;

    /// Has a frame made, and shows it.
    fn frame(&mut self, number: u32) -> quipu::Result<()>;

    /// Bytes of the last frame that are in use.
    fn used(&self) -> quipu::Result<usize>;

    /// All that has to be the same of a frame, whichever devices have made it.
    fn results(&self) -> quipu::Result<Vec<u8>>;
}

/// The costs of a run, for each frame.
#[derive(Default)]
struct Costs {
    kibibytes: Vec<f64>,
    /// Milliseconds of a processor.
    processor: Vec<f64>,
}

/// The benchmark `stream-edge`.
pub(in crate::benchmarks) fn stream_edge(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let shapes = [WIFI_6, FIVE_G];
    let plan = session.begin(2 * shapes.len());
    for shape in shapes {
        measure::<Pictures>(session, report, &plan, shape)?;
        measure::<Points>(session, report, &plan, shape)?;
    }
    report.notes.push(
        "bytes are those of both of the client's links, both ways; processor time is the client's"
            .to_owned(),
    );
    Ok(())
}

/// Measures a stream over a network.
fn measure<S: Stream>(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    shape: Shape,
) -> Result<(), BenchError> {
    let sides: (u32, u32) = session.scale().choose((1280, 720), (640, 480), (64, 48));
    let frames: u32 = session.scale().choose(30, 5, 2);
    let edge = Edge::new(session, shape, &S::offers(sides.0, sides.1))?;
    let network = &edge.network;
    let mut streams = Vec::new();
    for (name, has_content_size, is_straight) in WAYS {
        let devices = if is_straight {
            &edge.straight
        } else {
            &edge.around
        };
        streams.push((name, stream::<S>(devices, sides, has_content_size)?));
    }
    streams.push((OWN, stream::<S>(&edge.own, sides, true)?));
    let used = streams[0].1.used().doing("streaming")?;

    let costs: Vec<RefCell<Costs>> = streams.iter().map(|_| RefCell::default()).collect();
    let mut pairs = Pair::both(&Way::Paced(network.clone()))?;
    let mut contenders = Vec::new();
    for ((name, stream), costs) in streams.iter_mut().zip(&costs) {
        contenders.push(Contender::new(*name, move || {
            let (started, bytes, time) = (Instant::now(), network.bytes(), own_time(network));
            for number in 0..frames {
                stream.frame(number).doing("streaming")?;
            }
            let rate = f64::from(frames) / started.elapsed().as_secs_f64();
            let (bytes, time) = (
                network.bytes() - bytes,
                own_time(network).saturating_sub(time),
            );
            let mut costs = costs.borrow_mut();
            costs
                .kibibytes
                .push(bytes as f64 / 1024.0 / f64::from(frames));
            costs
                .processor
                .push(time.as_secs_f64() * 1e3 / f64::from(frames));
            Ok(rate)
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
    let samples = session.measure(plan, &mut contenders)?;
    drop(contenders);

    let case = format!("{}, {}", shape.name, S::NAME);
    let (last, own) = (WAYS.len() - 1, WAYS.len());
    let mut rows = |unit: &str, samples: &[&[f64]], beside: usize| -> f64 {
        let first = report.rows.len();
        for way in (0..samples.len()).filter(|way| *way != beside) {
            let name = format!("{case}: {}", streams[way].0);
            let row = Row::new(name, "node", 0, unit, samples[way]);
            let row = row.beside(streams[beside].0, (samples[way], samples[beside]));
            session.add(report, row);
        }
        report.rows[first].ratio.unwrap_or(f64::NAN)
    };
    let rates: Vec<&[f64]> = (0..streams.len()).map(|way| samples.of(way)).collect();
    let faster = rows("frames/s", &rates, last);
    let costs: Vec<Costs> = costs.into_iter().map(RefCell::into_inner).collect();
    let bytes: Vec<&[f64]> = costs.iter().map(|costs| &costs.kibibytes[..]).collect();
    let smaller = rows("KiB/frame", &bytes[..own], last);
    // Sessions with processes of their own use no time of the client.
    let is_apart = session.options.sessions.is_some() && cfg!(target_os = "linux");
    let lighter = is_apart.then(|| {
        let used: Vec<&[f64]> = costs.iter().map(|costs| &costs.processor[..]).collect();
        rows("ms of a core/frame", &used, own);
        rows("ms of a core/frame", &used[..own], last)
    });
    for alone in streams.len()..samples.contenders() {
        let name = format!("{case}: {}", WAYS[0].0);
        let pairs = (samples.of(0), samples.of(alone));
        let row = Row::new(name, "node", 0, "frames/s", pairs.0);
        session.add(report, row.beside(samples.name(alone), pairs));
    }
    let what = |of: &str| format!("{case}, {}, {of}, beside {}", WAYS[0].0, WAYS[last].0);
    report.gates.push(Gate::at_least(
        what("frames/s"),
        faster,
        session.scale().choose(FASTER[0], FASTER[1], FASTER[1]),
        "x",
    ));
    report
        .gates
        .push(Gate::at_most(what("KiB/frame"), smaller, BYTES, "x"));
    if let Some(lighter) = lighter {
        report.gates.push(Gate::at_most(
            what("ms of a core/frame"),
            lighter,
            PROCESSOR,
            "x",
        ));
    }

    let expected = streams[own].1.results().doing("streaming")?;
    for (name, stream) in &streams[..own] {
        session.verify(
            &format!("{case}: {name}"),
            "whether the last frame is that of the client's own processor",
            true,
            stream.results().doing("streaming")? == expected,
        )?;
    }
    report.notes.push(format!(
        "{case}: frames of {} x {} pixels use {} KiB of {}",
        sides.0,
        sides.1,
        used >> 10,
        S::room(sides.0, sides.1) >> 10,
    ));
    Ok(())
}

/// A stream on these devices, which has had its first frame.
fn stream<S: Stream>(
    devices: &[Device],
    sides: (u32, u32),
    has_content_size: bool,
) -> Result<S, BenchError> {
    let make = || -> quipu::Result<S> {
        let mut stream = S::new(&Context::new(devices)?, sides, has_content_size)?;
        stream.frame(0)?;
        Ok(stream)
    };
    make().doing("streaming")
}

/// The processor time of this process, without the network's part.
fn own_time(network: &Paced) -> Duration {
    let all = Usage::now().map_or(Duration::ZERO, |usage| usage.processor);
    all.saturating_sub(network.processor())
}

/// Two nodes, the network to both, and what they offer as devices of the client's own.
struct Edge {
    // In this order: clients say goodbye first.
    straight: Vec<Device>,
    around: Vec<Device>,
    own: Vec<Device>,
    network: Paced,
    _nodes: Cluster,
}

impl Edge {
    fn new(session: &Session<'_>, shape: Shape, offers: &[Offer; 2]) -> Result<Self, BenchError> {
        let network = Paced::new(shape);
        let ways = [(); 2].map(|()| Way::Paced(network.clone()));
        let nodes = Cluster::new(session, offers, &ways)?;
        Ok(Self {
            straight: nodes.together(&ways[0])?,
            around: nodes.apart(&ways[0])?,
            own: devices(offers)?,
            network,
            _nodes: nodes,
        })
    }
}
