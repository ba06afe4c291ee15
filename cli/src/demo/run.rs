//! The pipeline as a task graph over every device.
//!
//! 1. The devices (`cast`).
//! 2. A buffer per plane, and an in-order queue per device.
//! 3. Each stage on each tile is one launch on the queue of the device that has the tile. It reads
//!    and writes slices of the planes; these alone order the commands, and all that moves bytes
//!    between the memories.
//! 4. The result is read, compared with the sequential version, and written, with the picture of
//!    the timeline, which is drawn from the trace of the run.

use super::cast::Cast;
use super::image::{Image, ImageError};
use super::plan::{Geometry, Plane, Stage, Tile, divide};
use super::report::{DeviceShare, Report, Written};
use super::stages::{Planes, StageParams};
use super::{Options, Progress, sequential};
use quipu::prelude::*;
use quipu_cli::timeline::{Look, TimelineError, Trace, render_svg};
use quipu_scheduler::trace;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The width of the timeline's picture, in pixels.
const WIDTH: u32 = 1400;

/// The colours of the stages in it, in the order of [`Stage::ALL`].
const COLOURS: [&str; Stage::ALL.len()] = [
    "#c9b08a", "#c0392b", "#e0b03c", "#8e9f3c", "#8d6e63", "#4f7d4b", "#3b9c94", "#1f6f78",
    "#d9772b", "#7a6bb8", "#55479b", "#b0578d", "#2f5f9e",
];

/// A reason for which the demo did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum DemoError {
    /// A picture could not be read or written.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// A device or a command failed.
    #[error("the pipeline failed: {0}")]
    Pipeline(#[from] quipu::Error),
    /// Nodes that were named are not there.
    #[error("{}", reasons.join("; "))]
    NoNode {
        /// The reason of each.
        reasons: Vec<String>,
    },
    /// No device of these nodes can compute.
    #[error("no device of the nodes can compute the demo: {}", reasons.join("; "))]
    NoDevice {
        /// The reason of each.
        reasons: Vec<String>,
    },
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
        /// The path at which it should be.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The result is wrong.
    #[error("the result differs from the sequential version's; please report this")]
    Different,
}

/// Runs the demo and gives the report of it.
///
/// # Errors
/// If a picture cannot be read or written, a device fails, or the result is wrong.
pub(crate) fn run(options: &Options, progress: &Arc<dyn Progress>) -> Result<Report, DemoError> {
    progress.begin("preparing the picture", 0);
    let source = options.source()?;
    // Before there are nodes: an interrupt, which removes the files of both, may come as soon as
    // those are there.
    let recording = Recording::start()?;
    let cast = Cast::find(&source, options, &**progress)?;
    let geometry = options.geometry(source.size(), cast.devices.len());
    let params = StageParams::new(geometry);
    let (names, left_out) = (cast.names(), cast.left_out.clone());
    let ids: Vec<u32> = cast
        .devices
        .iter()
        .map(|device| device.core().id())
        .collect();

    let pipeline = Pipeline::new(cast, geometry)?;
    let begun = quipu_scheduler::clock::now_ns();
    let started = Instant::now();
    let pixels = pipeline.process(&source, &params, progress)?;
    let elapsed = started.elapsed();
    drop(pipeline);
    let mut recorded = recording.finish()?;
    // Not the trials of devices, nor other commands in a trace that the user asked for.
    recorded
        .commands
        .retain(|command| command.queued_ns >= begun && ids.contains(&command.device));
    recorded.devices.retain_mut(|device| {
        let place = ids.iter().position(|id| *id == device.id);
        place.is_some_and(|place| {
            device.name.clone_from(&names[place]);
            true
        })
    });

    progress.begin("checking against the sequential version", sequential::STEPS);
    let started = Instant::now();
    let expected = sequential::process(&source, &params, &|| progress.step());
    let sequential = started.elapsed();
    let result = Image::new(source.size(), pixels);
    let difference = result.difference(&expected);

    progress.begin("writing the pictures", 2);
    let title = format!("quipu demo, {}", source.size());
    let look = Look {
        width: WIDTH,
        title: Some(&title),
        names: &Stage::ALL.map(|stage| (stage.name(), COLOURS[stage.index()])),
    };
    std::fs::write(&options.timeline, render_svg(&recorded, &look)).map_err(|source| {
        ImageError::Write {
            path: options.timeline.clone(),
            source,
        }
    })?;
    progress.step();
    options.picture(&source, result).write(&options.output)?;
    progress.step();
    Ok(Report {
        size: source.size(),
        geometry,
        devices: account(&recorded, &names, &ids),
        left_out,
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

/// The path of this process's own trace, which the user has not asked for.
fn own_trace() -> PathBuf {
    std::env::temp_dir().join(format!("quipu-demo-{}.json", std::process::id()))
}

/// Removes the files that an interrupted run leaves in the system's temporary folder.
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
            // The user has not asked for it; if it cannot be removed, the system will.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The devices' queues, and the planes.
pub(crate) struct Pipeline {
    geometry: Geometry,
    queues: Vec<Queue>,
    /// The tiles of each queue's device.
    tiles: Vec<Range<usize>>,
    planes: Planes,
    /// Gone last.
    _cast: Cast,
}

impl Pipeline {
    pub(crate) fn new(cast: Cast, geometry: Geometry) -> Result<Self, DemoError> {
        let context = Context::new(&cast.devices)?;
        let queues = cast.devices.iter().map(|device| context.queue(device));
        Ok(Self {
            geometry,
            queues: queues.collect::<quipu::Result<_>>()?,
            tiles: divide(geometry.tile_count(), &cast.weights()),
            planes: Planes::new(&context, geometry)?,
            _cast: cast,
        })
    }

    /// Enqueues everything, waits for the result.
    pub(crate) fn process(
        &self,
        source: &Image,
        params: &StageParams,
        progress: &Arc<dyn Progress>,
    ) -> Result<Vec<u32>, DemoError> {
        let planes = &self.planes;
        let all = planes.words(&planes.whole(Plane::Source))?;
        // The vector comes back through the future; it is not needed.
        drop(self.queues[0].write(&all, source.pixels().to_vec())?);
        let mut events = Vec::new();
        for stage in Stage::ALL {
            for tile in stage.tiles(&self.geometry) {
                events.push(planes.enqueue(self.queue_of(&tile), stage, &tile, params)?);
            }
        }
        progress.begin("running the pipeline", events.len() as u64);
        for event in events {
            let progress = Arc::clone(progress);
            event.on_complete(move |_| progress.step());
        }
        // Commands that are only flushed when a thread waits would start late.
        self.queues.iter().for_each(Queue::flush);
        Ok(self.queues[0]
            .read(&planes.words(&planes.whole(Plane::Result))?)?
            .wait()?)
    }

    /// The queue of the device that has a tile.
    fn queue_of(&self, tile: &Tile) -> &Queue {
        let mut queues = self.queues.iter().zip(&self.tiles);
        let found = queues.find(|(_, tiles)| tiles.contains(&tile.index));
        found.map_or(&self.queues[0], |(queue, _)| queue)
    }
}

/// The work of each device, from the trace.
fn account(recorded: &Trace, names: &[String], ids: &[u32]) -> Vec<DeviceShare> {
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
    let mut tiles: Vec<Vec<usize>> = vec![Vec::new(); names.len()];
    for command in &recorded.commands {
        let Some(device) = ids.iter().position(|id| *id == command.device) else {
            continue;
        };
        let share = &mut shares[device];
        if command.is_migration() {
            if command.name.ends_with("the device") {
                share.bytes_in += command.bytes;
            } else {
                share.bytes_out += command.bytes;
            }
        } else if let Some((stage, tile)) = parse(&command.name) {
            share.commands += 1;
            share.busy += Duration::from_nanos(command.duration_ns());
            if !share.stages.contains(&stage) {
                share.stages.push(stage);
            }
            if !tiles[device].contains(&tile) {
                tiles[device].push(tile);
                share.tiles += 1;
            }
        }
    }
    for share in &mut shares {
        share.stages.sort_by_key(|stage| stage.index());
    }
    shares
}

/// A stage and a tile from a command's label.
fn parse(label: &str) -> Option<(Stage, usize)> {
    let (name, tile) = label.rsplit_once(' ')?;
    let stage = Stage::ALL.into_iter().find(|stage| stage.name() == name)?;
    Some((stage, tile.parse().ok()?))
}
