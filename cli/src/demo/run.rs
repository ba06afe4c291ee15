//! The pipeline as a task graph over every device.
//!
//! 1. The devices: the processor's pool, two simulated accelerators with memory of their own, and those of two nodes that the
//!    demo starts.
//! 2. A buffer per plane, and an in-order queue per device.
//! 3. Each stage on each tile is one launch on the queue of the device that has the tile. What it
//!    reads and writes are slices of the planes; that is all that orders the commands, and all that
//!    moves bytes between the memories.
//! 4. The result is read, compared with the sequential version, and written, with the picture of
//!    the timeline, which is drawn from the trace of the run.

use super::image::{Image, ImageError};
use super::nodes::Nodes;
use super::plan::{Geometry, Plane, Stage, Tile};
use super::report::{DeviceShare, Report, Written};
use super::stages::{Planes, StageParams};
use super::timeline::{Activity, Span, Timeline};
use super::{Options, sequential};
use quipu::DeviceKind;
use quipu::prelude::*;
use quipu::simulation::Configuration;
use quipu_cli::timeline::{TimelineError, Trace};
use quipu_core::trace;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Why the demo did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum DemoError {
    /// A picture could not be read or written.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// A device or a command failed.
    #[error("the pipeline failed: {0}")]
    Pipeline(#[from] quipu::Error),
    /// The nodes could not be started.
    #[error("the demo's nodes could not be started: {0}; `--no-nodes` goes without")]
    Nodes(quipu::Error),
    /// The trace of the run could not be made.
    #[error("the run could not be traced: {0}")]
    Trace(#[from] trace::TraceError),
    /// The trace of the run could not be read.
    #[error("the trace of the run could not be read: {0}")]
    Timeline(#[from] TimelineError),
    /// The trace's file could not be opened.
    #[error("the trace of the run at {path} could not be opened: {source}")]
    Open {
        /// Where it should be.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The result is wrong.
    #[error("the result differs from the sequential version's; please report this")]
    Different,
}

/// Runs the demo and gives what to tell about it.
///
/// # Errors
/// If a picture cannot be read or written, a device fails, or the result is wrong.
pub(crate) fn run(options: &Options, progress: &dyn Fn(&str)) -> Result<Report, DemoError> {
    progress("preparing the picture");
    let source = options.source()?;
    let geometry = options.geometry(source.size());
    let params = StageParams::new(geometry);

    let recording = Recording::start()?;
    progress("running the pipeline");
    let pipeline = Pipeline::new(geometry, !options.no_nodes)?;
    let started = Instant::now();
    let pixels = pipeline.process(&source, &params)?;
    let elapsed = started.elapsed();
    let names = pipeline.device_names();
    drop(pipeline);
    let recorded = recording.finish()?;

    progress("checking against the sequential version");
    let started = Instant::now();
    let expected = sequential::process(&source, &params);
    let sequential = started.elapsed();
    let result = Image::new(source.size(), pixels);
    let difference = result.difference(&expected);

    progress("writing the pictures");
    let (devices, timeline) = account(&recorded, &names, source.size().to_string());
    timeline.write(&options.timeline)?;
    options.picture(&source, result).write(&options.output)?;
    Ok(Report {
        size: source.size(),
        geometry,
        devices,
        elapsed,
        sequential,
        difference,
        written: vec![
            Written {
                what: "the picture",
                path: options.output.clone(),
            },
            Written {
                what: "who did what, and when",
                path: options.timeline.clone(),
            },
        ],
    })
}

/// Where this process keeps the trace that nobody has asked for.
fn own_trace() -> PathBuf {
    std::env::temp_dir().join(format!("quipu-demo-{}.json", std::process::id()))
}

/// Removes what a run that is interrupted leaves in the system's temporary folder.
pub(crate) fn tidy_up() {
    // It need not be there.
    let _ = std::fs::remove_file(own_trace());
    super::nodes::remove_files();
}

/// The trace of the run: the user's, if one is being recorded, else one of our own.
struct Recording {
    path: PathBuf,
    own: bool,
}

impl Recording {
    fn start() -> Result<Self, DemoError> {
        if let (true, Some(path)) = (trace::enabled(), trace::path()) {
            return Ok(Self { path, own: false });
        }
        let path = own_trace();
        trace::start(&path)?;
        Ok(Self { path, own: true })
    }

    fn finish(self) -> Result<Trace, DemoError> {
        trace::finish()?;
        let file = std::fs::File::open(&self.path).map_err(|source| DemoError::Open {
            path: self.path.clone(),
            source,
        })?;
        Ok(Trace::read(std::io::BufReader::new(file))?)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if self.own {
            // Nobody asked for it; if it cannot be removed, the system will.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The devices, their queues, and the planes.
struct Pipeline {
    geometry: Geometry,
    devices: Vec<Device>,
    queues: Vec<Queue>,
    planes: Planes,
    /// Gone last: what is above says goodbye to them.
    _nodes: Option<Nodes>,
}

/// Of so many tiles, neighbours together, how many each device has: the processor half of what the nodes leave, the simulated
/// accelerators a quarter each, and the nodes as much as those.
const SHARES: [usize; 5] = [2, 1, 1, 1, 1];

impl Pipeline {
    fn new(geometry: Geometry, with_nodes: bool) -> Result<Self, DemoError> {
        let capacity = 2 * geometry.total_bytes() as u64 + (1 << 20);
        let nodes = with_nodes
            .then(Nodes::start)
            .transpose()
            .map_err(DemoError::Nodes)?;
        // What the environment names is the user's, and not the demo's.
        let mut platform = Platform::builder()
            .without_embedded()
            .simulated(Configuration::separate_memory(2, capacity));
        if let Some(nodes) = &nodes {
            platform = platform.driver(nodes.driver());
        }
        let platform = platform.build()?;
        let embedded = Platform::builder().opencl(false).cuda(false);
        let pool = embedded.without_nodes().build()?.device("cpu")?;
        let others = platform.devices().iter().cloned();
        let simulated = |device: &Device| device.properties().kind == DeviceKind::Simulated;
        let (simulated, remote): (Vec<_>, Vec<_>) = others.partition(simulated);
        let devices: Vec<Device> = [vec![pool], simulated, remote].concat();
        let context = Context::new(&devices)?;
        let queues = devices
            .iter()
            .map(|device| context.queue(device))
            .collect::<quipu::Result<_>>()?;
        Ok(Self {
            geometry,
            devices,
            queues,
            planes: Planes::new(&context, geometry)?,
            _nodes: nodes,
        })
    }

    fn device_names(&self) -> Vec<String> {
        self.devices
            .iter()
            .map(|device| device.properties().name.clone())
            .collect()
    }

    /// Enqueues everything, waits for the result.
    fn process(&self, source: &Image, params: &StageParams) -> Result<Vec<u32>, DemoError> {
        let planes = &self.planes;
        let all = planes.words(&planes.whole(Plane::Source))?;
        // The vector comes back through the future; nobody needs it.
        drop(self.queues[0].write(&all, source.pixels().to_vec())?);
        for stage in Stage::ALL {
            for tile in stage.tiles(&self.geometry) {
                planes.enqueue(self.queue_of(&tile), stage, &tile, params)?;
            }
        }
        // Commands that are only flushed when somebody waits would start late.
        self.queues.iter().for_each(Queue::flush);
        Ok(self.queues[0]
            .read(&planes.words(&planes.whole(Plane::Result))?)?
            .wait()?)
    }

    /// The queue of the device that has a tile.
    fn queue_of(&self, tile: &Tile) -> &Queue {
        let shares = &SHARES[..self.queues.len()];
        let total: usize = shares.iter().sum();
        let mut place = tile.index * total / self.geometry.tile_count();
        for (queue, &share) in self.queues.iter().zip(shares) {
            if place < share {
                return queue;
            }
            place -= share;
        }
        &self.queues[0]
    }
}

/// Who did what, from the trace: the table's rows and the picture's boxes.
fn account(recorded: &Trace, names: &[String], title: String) -> (Vec<DeviceShare>, Timeline) {
    let mut shares: Vec<DeviceShare> = names
        .iter()
        .map(|name| DeviceShare {
            name: name.clone(),
            commands: 0,
            tiles: 0,
            stages: Vec::new(),
            busy: Duration::ZERO,
            bytes_in: 0,
            bytes_out: 0,
        })
        .collect();
    let places: HashMap<u32, usize> = recorded
        .devices
        .iter()
        .filter_map(|device| {
            let place = names.iter().position(|name| *name == device.name)?;
            Some((device.id, place))
        })
        .collect();
    let (first, _) = recorded.span_ns();
    let mut tiles: Vec<Vec<usize>> = vec![Vec::new(); names.len()];
    let mut spans = Vec::new();
    for command in &recorded.commands {
        let Some(&device) = places.get(&command.device) else {
            continue;
        };
        let share = &mut shares[device];
        let activity = if command.is_migration() {
            let inward = command.name.ends_with("the device");
            if inward {
                share.bytes_in += command.bytes;
            } else {
                share.bytes_out += command.bytes;
            }
            Activity::Copy {
                bytes: command.bytes,
                inward,
            }
        } else {
            let Some((stage, tile)) = parse(&command.name) else {
                continue;
            };
            share.commands += 1;
            share.busy += Duration::from_nanos(command.duration_ns());
            if !share.stages.contains(&stage) {
                share.stages.push(stage);
            }
            if !tiles[device].contains(&tile) {
                tiles[device].push(tile);
                share.tiles += 1;
            }
            Activity::Compute { stage, tile }
        };
        spans.push(Span {
            device,
            activity,
            start: Duration::from_nanos(command.started_ns.saturating_sub(first)),
            end: Duration::from_nanos(command.ended_ns.saturating_sub(first)),
        });
    }
    for share in &mut shares {
        share.stages.sort_by_key(|stage| stage.index());
    }
    let timeline = Timeline {
        title: format!("quipu demo, {title}"),
        devices: names.to_vec(),
        spans,
    };
    (shares, timeline)
}

/// A stage and a tile from a command's label.
fn parse(label: &str) -> Option<(Stage, usize)> {
    let (name, tile) = label.rsplit_once(' ')?;
    let stage = Stage::ALL.into_iter().find(|stage| stage.name() == name)?;
    Some((stage, tile.parse().ok()?))
}
