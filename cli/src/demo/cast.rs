//! The devices that take part: all that this machine has, two simulated accelerators, and those of
//! two nodes; or those of nodes that are named.
//!
//! Devices that run the kernels natively compute the same as the sequential version. Devices whose
//! drivers compile them, as CUDA's and OpenCL's, are *tried* first, on the picture's upper rows: a
//! device whose trial fails, or differs in any bit, is left out, and the report says why.
//!
//! Then each device is *measured*, alone, on the same rows: it gets tiles in proportion to its
//! speed.

use super::image::{Image, Size};
use super::nodes::Nodes;
use super::plan::{Geometry, Plane, Stage};
use super::run::DemoError;
use super::stages::{Planes, StageParams};
use super::{Options, Progress};
use super::{report::LeftOut, sequential};
use crate::commands::failed_nodes;
use crate::platform::platform_with;
use quipu::prelude::*;
use quipu::simulation::Configuration;
use quipu::{DeviceKind, Pending};
use std::time::{Duration, Instant};

/// Rows of the picture that devices are tried on, and of a tile of them.
const TRIED_ROWS: usize = 48;
const TRIED_TILE_ROWS: usize = 20;

/// The weight of the fastest device.
const FASTEST: f64 = 1000.0;

/// The devices, the processor's pool first.
pub(crate) struct Cast {
    /// The devices that take part.
    pub(crate) devices: Vec<Device>,
    /// The time that each device took for the measured rows.
    pub(crate) took: Vec<Duration>,
    /// The devices that do not.
    pub(crate) left_out: Vec<LeftOut>,
    /// Gone last: the devices say goodbye to them.
    _nodes: Option<Nodes>,
}

impl Cast {
    /// Looks for devices: those of the nodes that are named, or this machine's and those of nodes
    /// that are started, if there are to be any.
    pub(crate) fn find(
        source: &Image,
        options: &Options,
        progress: &dyn Progress,
    ) -> Result<Self, DemoError> {
        match &options.nodes[..] {
            [] => Self::here(source, !options.no_nodes, progress),
            nodes => Self::of_nodes(source, nodes, progress),
        }
    }

    /// The devices of these nodes, each tried before: a node compiles kernels for some of them.
    fn of_nodes(
        source: &Image,
        nodes: &[String],
        progress: &dyn Progress,
    ) -> Result<Self, DemoError> {
        let platform = platform_with(nodes);
        let reasons = failed_nodes(&platform);
        if !reasons.is_empty() {
            return Err(DemoError::NoNode { reasons });
        }
        let (devices, left_out) = tried(platform.devices().to_vec(), source, progress);
        let cast = Self::measured(devices, left_out, None, source, progress);
        if cast.devices.is_empty() {
            let reasons = cast.left_out.iter().map(ToString::to_string).collect();
            return Err(DemoError::NoDevice { reasons });
        }
        Ok(cast)
    }

    /// This machine's devices, and those of nodes that are started, if there are to be any.
    pub(super) fn here(
        source: &Image,
        with_nodes: bool,
        progress: &dyn Progress,
    ) -> Result<Self, DemoError> {
        // Nodes that the environment names are the user's, and not the demo's.
        let embedded = Platform::builder().without_nodes().build_available();
        let of_host = |device: &&Device| ["cpu", "serial"].contains(&device.driver_name());
        let (own, others): (Vec<_>, Vec<_>) = embedded.devices().iter().partition(of_host);
        let mut devices: Vec<Device> = own.into_iter().cloned().collect();
        // Those that have nothing but built-in kernels have no use for others.
        let others = others
            .into_iter()
            .filter(|device| device.kind() != DeviceKind::Custom);
        let others: Vec<Device> = others.cloned().collect();
        let (tried, left_out) = tried(others, source, progress);
        devices.extend(tried);

        let nodes = with_nodes
            .then(Nodes::start)
            .transpose()
            .map_err(DemoError::Nodes)?;
        // As much as all planes take, however they are cut, and twice.
        let most = Geometry::new(source.size(), Some(1), 1).total_bytes();
        let capacity = 2 * most as u64 + (1 << 20);
        let mut platform = Platform::builder()
            .without_embedded()
            .simulated(Configuration::separate_memory(2, capacity));
        if let Some(nodes) = &nodes {
            platform = platform.driver(nodes.driver());
        }
        devices.extend_from_slice(platform.build()?.devices());
        Ok(Self::measured(devices, left_out, nodes, source, progress))
    }

    /// Those of the devices that can be measured.
    fn measured(
        devices: Vec<Device>,
        mut left_out: Vec<LeftOut>,
        nodes: Option<Nodes>,
        source: &Image,
        progress: &dyn Progress,
    ) -> Self {
        let (mut good, mut took) = (Vec::new(), Vec::new());
        for (device, result) in measured(devices, source, progress) {
            match result {
                Ok(time) => {
                    good.push(device);
                    took.push(time);
                }
                Err(error) => left_out.push(LeftOut::new(&device, error.to_string())),
            }
        }
        Self {
            devices: good,
            took,
            left_out,
            _nodes: nodes,
        }
    }

    /// The weight of each device, by which it gets tiles: in proportion to its speed.
    pub(crate) fn weights(&self) -> Vec<usize> {
        let least = self.took.iter().min().copied().unwrap_or_default();
        let weight = |took: &Duration| {
            let speed = least.as_secs_f64() / took.as_secs_f64().max(f64::MIN_POSITIVE);
            ((FASTEST * speed) as usize).max(1)
        };
        self.took.iter().map(weight).collect()
    }

    /// Their names: as long as two have one name, with their driver's, and with a number.
    pub(crate) fn names(&self) -> Vec<String> {
        let name = |device: &Device| device.name().to_owned();
        let mut names: Vec<String> = self.devices.iter().map(name).collect();
        let with_driver = |index: usize| self.devices[index].driver_name().to_owned();
        tell_apart(&mut names, with_driver);
        tell_apart(&mut names, |index| format!("device {index}"));
        names
    }
}

/// Says something of the device of this number behind names that are not the only ones of their
/// kind.
fn tell_apart(names: &mut [String], what: impl Fn(usize) -> String) {
    let before = names.to_vec();
    for (index, name) in names.iter_mut().enumerate() {
        if before.iter().filter(|other| *other == name).count() > 1 {
            *name = format!("{name}, {}", what(index));
        }
    }
}

/// A device that is being tried.
struct Trial {
    device: Device,
    planes: Planes,
    queue: Queue,
}

impl Trial {
    fn new(device: Device, geometry: Geometry) -> Result<Self, (Device, quipu::Error)> {
        let make = || {
            let context = device.context()?;
            Ok((context.queue(&device)?, Planes::new(&context, geometry)?))
        };
        match make() {
            Ok((queue, planes)) => Ok(Self {
                device,
                planes,
                queue,
            }),
            Err(error) => Err((device, error)),
        }
    }

    /// Enqueues all stages, and the read of their result.
    fn begin(&self, source: &Image, params: &StageParams) -> quipu::Result<Pending<Vec<u32>>> {
        let pixels = self.planes.words(&self.planes.whole(Plane::Source))?;
        drop(self.queue.write(&pixels, source.pixels().to_vec())?);
        for stage in Stage::ALL {
            for tile in stage.tiles(&params.geometry) {
                self.planes.enqueue(&self.queue, stage, &tile, params)?;
            }
        }
        let result = self.planes.words(&self.planes.whole(Plane::Result))?;
        let result = self.queue.read(&result)?;
        self.queue.flush();
        Ok(result)
    }
}

/// Tries devices, all at the same time; gives those that compute the same as the sequential
/// version.
fn tried(
    devices: Vec<Device>,
    source: &Image,
    progress: &dyn Progress,
) -> (Vec<Device>, Vec<LeftOut>) {
    if devices.is_empty() {
        return (Vec::new(), Vec::new());
    }
    progress.begin(
        "trying the devices that compile kernels",
        devices.len() as u64,
    );
    let part = upper_rows(source);
    let geometry = Geometry::new(part.size(), Some(TRIED_TILE_ROWS), 1);
    let params = StageParams::new(geometry);
    let begun: Vec<_> = devices
        .into_iter()
        .map(|device| {
            let trial = Trial::new(device, geometry)?;
            match trial.begin(&part, &params) {
                Ok(result) => Ok((trial, result)),
                Err(error) => Err((trial.device, error)),
            }
        })
        .collect();
    let expected = sequential::process(&part, &params, &|| ());
    let (mut good, mut left_out) = (Vec::new(), Vec::new());
    for begun in begun {
        let ended = begun.and_then(|(trial, result)| match result.wait() {
            Ok(pixels) => Ok((trial.device, pixels)),
            Err(error) => Err((trial.device, error)),
        });
        progress.step();
        let (device, why) = match ended {
            Ok((device, pixels)) => {
                let image = Image::new(part.size(), pixels);
                match image.difference(&expected) {
                    None => {
                        good.push(device);
                        continue;
                    }
                    Some(difference) => (device, differs(difference.count)),
                }
            }
            Err((device, error)) => (device, error.to_string()),
        };
        left_out.push(LeftOut::new(&device, why));
    }
    (good, left_out)
}

/// The time that each device takes for the rows on which devices are tried, alone, once its kernels
/// are made.
fn measured(
    devices: Vec<Device>,
    source: &Image,
    progress: &dyn Progress,
) -> Vec<(Device, quipu::Result<Duration>)> {
    progress.begin("measuring the devices", devices.len() as u64);
    let part = upper_rows(source);
    let geometry = Geometry::new(part.size(), Some(TRIED_TILE_ROWS), 1);
    let params = StageParams::new(geometry);
    let measure = |device: Device| {
        let took = Trial::new(device.clone(), geometry).map_err(|(_, error)| error);
        let took = took.and_then(|trial| {
            trial.begin(&part, &params)?.wait()?;
            let begun = Instant::now();
            trial.begin(&part, &params)?.wait()?;
            Ok(begun.elapsed())
        });
        progress.step();
        (device, took)
    };
    devices.into_iter().map(measure).collect()
}

fn differs(pixels: usize) -> String {
    format!(
        "of the rows that it was tried on, {pixels} pixels differ from the sequential version's"
    )
}

/// The picture's upper rows.
fn upper_rows(source: &Image) -> Image {
    let (width, rows) = (
        source.size().width(),
        source.size().height().min(TRIED_ROWS),
    );
    let size = Size::new(width, rows).unwrap_or(source.size());
    let count = size.width() * size.height();
    Image::new(size, source.pixels()[..count].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_tiles_in_proportion_to_its_speed() {
        let platform = Platform::builder()
            .cuda(false)
            .opencl(false)
            .build()
            .unwrap();
        let of = |took: &[u64]| Cast {
            devices: platform.devices().to_vec(),
            took: took.iter().copied().map(Duration::from_micros).collect(),
            left_out: Vec::new(),
            _nodes: None,
        };
        assert_eq!(of(&[10, 20, 10_000_000]).weights(), [1000, 500, 1]);
        // A clock that has not moved says nothing.
        assert_eq!(of(&[0, 7]).weights(), [1, 1]);
    }

    #[test]
    fn devices_of_one_name_are_told_apart() {
        let mut names = ["gpu", "gpu", "cpu", "gpu"].map(String::from);
        let drivers = ["cuda", "cuda", "cpu", "opencl"];
        tell_apart(&mut names, |index| drivers[index].to_owned());
        tell_apart(&mut names, |index| format!("device {index}"));
        assert_eq!(
            names,
            [
                "gpu, cuda, device 0",
                "gpu, cuda, device 1",
                "cpu",
                "gpu, opencl"
            ]
        );
    }
}
