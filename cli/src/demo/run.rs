//! The pipeline as a task graph over every device.
//!
//! 1. The devices: the processor's pool and two simulated accelerators with memory of their own.
//! 2. A buffer per plane, and an in-order queue per device.
//! 3. Each stage on each tile is one launch on the queue of the device that has the tile. What it
//!    reads and writes are slices of the planes; that is all that orders the commands, and all that
//!    moves bytes between the memories.
//! 4. The result is read, compared with the sequential version, and written, with the picture of
//!    the timeline, which is drawn from the trace of the run.

use super::image::{Image, ImageError};
use super::plan::{Access, Element, Geometry, Plane, Stage, Tile};
use super::report::{DeviceShare, Report, Written};
use super::stages::{self, Input, Output, StageParams};
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
    let pipeline = Pipeline::new(geometry)?;
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
        let name = format!("quipu-demo-{}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
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

/// A plane's memory.
enum PlaneBuffer {
    Floats(Buffer<f32>),
    Words(Buffer<u32>),
}

/// The devices, their queues, and the planes.
struct Pipeline {
    geometry: Geometry,
    devices: Vec<Device>,
    queues: Vec<Queue>,
    planes: Vec<PlaneBuffer>,
}

/// Of so many tiles, neighbours together, how many each device has: the processor half, the
/// simulated accelerators a quarter each.
const SHARES: [usize; 3] = [2, 1, 1];

impl Pipeline {
    fn new(geometry: Geometry) -> Result<Self, DemoError> {
        let capacity = 2 * geometry.total_bytes() as u64 + (1 << 20);
        let platform = Platform::builder()
            .simulated(Configuration::separate_memory(2, capacity))
            .build()?;
        let pool = platform.device("cpu")?;
        let simulated = platform
            .devices()
            .iter()
            .filter(|device| device.properties().kind == DeviceKind::Simulated);
        let devices: Vec<Device> = std::iter::once(pool).chain(simulated.cloned()).collect();
        let context = Context::new(&devices)?;
        let queues = devices
            .iter()
            .map(|device| context.queue(device))
            .collect::<quipu::Result<_>>()?;
        let planes = Plane::ALL
            .into_iter()
            .map(|plane| {
                let elements = geometry.plane_elements(plane);
                Ok(match plane.element() {
                    Element::Float => PlaneBuffer::Floats(context.allocate(elements)?),
                    Element::Word => PlaneBuffer::Words(context.allocate(elements)?),
                })
            })
            .collect::<quipu::Result<_>>()?;
        Ok(Self {
            geometry,
            devices,
            queues,
            planes,
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
        let all = self.words(&self.whole(Plane::Source))?;
        // The vector comes back through the future; nobody needs it.
        drop(self.queues[0].write(&all, source.pixels().to_vec())?);
        for stage in Stage::ALL {
            for tile in stage.tiles(&self.geometry) {
                self.enqueue(stage, &tile, params)?;
            }
        }
        // Commands that are only flushed when somebody waits would start late.
        self.queues.iter().for_each(Queue::flush);
        Ok(self.queues[0]
            .read(&self.words(&self.whole(Plane::Result))?)?
            .wait()?)
    }

    fn whole(&self, plane: Plane) -> Access {
        Access {
            plane,
            rows: 0..self.geometry.row_count(plane),
        }
    }

    /// The queue of the device that has a tile.
    fn queue_of(&self, tile: &Tile) -> &Queue {
        let total: usize = SHARES.iter().sum();
        let mut place = tile.index * total / self.geometry.tile_count();
        for (queue, share) in self.queues.iter().zip(SHARES) {
            if place < share {
                return queue;
            }
            place -= share;
        }
        &self.queues[0]
    }

    fn floats(&self, access: &Access) -> quipu::Result<Buffer<f32>> {
        match &self.planes[access.plane.index()] {
            PlaneBuffer::Floats(buffer) => buffer.slice(self.geometry.elements(access)),
            PlaneBuffer::Words(_) => unreachable!("{:?} holds floats", access.plane),
        }
    }

    fn words(&self, access: &Access) -> quipu::Result<Buffer<u32>> {
        match &self.planes[access.plane.index()] {
            PlaneBuffer::Words(buffer) => buffer.slice(self.geometry.elements(access)),
            PlaneBuffer::Floats(_) => unreachable!("{:?} holds words", access.plane),
        }
    }

    /// One stage on one tile: a launch of one block, which computes the tile's rows.
    fn enqueue(&self, stage: Stage, tile: &Tile, params: &StageParams) -> quipu::Result<()> {
        let queue = self
            .queue_of(tile)
            .named(&format!("{} {}", stage.name(), tile.index));
        let job = Value(Job {
            stage,
            params: *params,
            tile: tile.index,
            rows: (tile.rows.start, tile.rows.end),
        });
        let one = one_block();
        let reads = stage.reads(&self.geometry, tile);
        let write = stage.writes(tile);
        let elements: Vec<Element> = reads.iter().map(|read| read.plane.element()).collect();
        use Element::{Float, Word};
        match (&elements[..], write.plane.element()) {
            ([Word], Float) => {
                let (a, mut to) = (self.words(&reads[0])?, self.floats(&write)?);
                queue.post_launch(one, native(word_to_float, (job, &a, to.overwrite())))
            }
            ([Float], Float) => {
                let (a, mut to) = (self.floats(&reads[0])?, self.floats(&write)?);
                queue.post_launch(one, native(float_to_float, (job, &a, to.overwrite())))
            }
            ([Float], Word) => {
                let (a, mut to) = (self.floats(&reads[0])?, self.words(&write)?);
                queue.post_launch(one, native(float_to_word, (job, &a, to.overwrite())))
            }
            ([Float, Float], Float) => {
                let (a, b) = (self.floats(&reads[0])?, self.floats(&reads[1])?);
                let mut to = self.floats(&write)?;
                queue.post_launch(one, native(floats2_to_float, (job, &a, &b, to.overwrite())))
            }
            ([Float, Float, Float], Float) => {
                let (a, b) = (self.floats(&reads[0])?, self.floats(&reads[1])?);
                let (c, mut to) = (self.floats(&reads[2])?, self.floats(&write)?);
                queue.post_launch(
                    one,
                    native(floats3_to_float, (job, &a, &b, &c, to.overwrite())),
                )
            }
            ([Float, Float, Float], Word) => {
                let (a, b) = (self.floats(&reads[0])?, self.floats(&reads[1])?);
                let (c, mut to) = (self.floats(&reads[2])?, self.words(&write)?);
                queue.post_launch(
                    one,
                    native(floats3_to_word, (job, &a, &b, &c, to.overwrite())),
                )
            }
            _ => unreachable!("no stage has these inputs and this output"),
        }
    }
}

fn one_block() -> WorkDivision<1> {
    WorkDivision::new(1, 1, 1).expect("one block of one thread is a division of every device")
}

/// What a command does: plain data, copied into it.
#[derive(Clone, Copy)]
struct Job {
    stage: Stage,
    params: StageParams,
    tile: usize,
    rows: (usize, usize),
}

impl Job {
    fn run(&self, inputs: &[Input<'_>], output: Output<'_>) {
        let tile = Tile {
            index: self.tile,
            rows: self.rows.0..self.rows.1,
        };
        stages::run(self.stage, &self.params, &tile, inputs, output);
    }
}

/// An input of a kernel.
#[derive(Clone, Copy)]
enum Given<'a> {
    Floats(GlobalRef<'a, f32>),
    Words(GlobalRef<'a, u32>),
}

impl Given<'_> {
    fn input(&self) -> Input<'_> {
        match self {
            Self::Floats(floats) => Input::Floats(floats),
            Self::Words(words) => Input::Words(words),
        }
    }
}

/// The kernel: a stage with its inputs; its output is its block's share, which is all of it.
struct OnTile<'a, const N: usize, O> {
    job: Job,
    inputs: [Given<'a>; N],
    output: std::marker::PhantomData<fn() -> O>,
}

impl<const N: usize> Kernel<1> for OnTile<'_, N, f32> {
    type Output = ByBlock<f32>;
    fn run<A: Accelerator<1>>(&self, _acc: &A, output: &mut [f32]) {
        let inputs = self.inputs.each_ref().map(Given::input);
        self.job.run(&inputs, Output::Floats(output));
    }
}

impl<const N: usize> Kernel<1> for OnTile<'_, N, u32> {
    type Output = ByBlock<u32>;
    fn run<A: Accelerator<1>>(&self, _acc: &A, output: &mut [u32]) {
        let inputs = self.inputs.each_ref().map(Given::input);
        self.job.run(&inputs, Output::Words(output));
    }
}

/// One function per combination of element types, from the views of the arguments to the kernel.
macro_rules! kernels {
    ($($name:ident($($input:ident: $kind:ident $type:ty),+) -> $output:ty;)+) => {$(
        fn $name<'a>(
            job: Job,
            $($input: GlobalRef<'a, $type>,)+
            output: GlobalMut<'a, $output>,
        ) -> impl Bound<1> + use<'a> {
            let inputs = [$(Given::$kind($input)),+];
            let output_type = std::marker::PhantomData::<fn() -> $output>;
            bind(OnTile { job, inputs, output: output_type }, output)
        }
    )+};
}

kernels! {
    word_to_float(a: Words u32) -> f32;
    float_to_float(a: Floats f32) -> f32;
    float_to_word(a: Floats f32) -> u32;
    floats2_to_float(a: Floats f32, b: Floats f32) -> f32;
    floats3_to_float(a: Floats f32, b: Floats f32, c: Floats f32) -> f32;
    floats3_to_word(a: Floats f32, b: Floats f32, c: Floats f32) -> u32;
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
            let inward = command.name.ends_with("device");
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
