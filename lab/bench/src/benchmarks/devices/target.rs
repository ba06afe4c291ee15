//! The devices that a benchmark runs on.

use super::Doing;
use crate::error::BenchError;
use crate::harness::{Report, Session};
use crate::reference::raw::{self, Raw, RawResult};
use quipu::{Completion, Context, Device, DeviceKind, Platform, Queue, QueueOptions};

/// The requirements of a benchmark on a device, if the user chose none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing.
    Any,
    /// An interface of its own.
    OwnInterface,
    /// To be one of CUDA's.
    Cuda,
}

impl Need {
    fn is_met(self, device: &Device) -> bool {
        // The caller's thread and simulated accelerators are for tests.
        match self {
            Need::Any => matches!(device.driver_name(), "cpu" | "cuda" | "opencl"),
            Need::OwnInterface => matches!(device.driver_name(), "cuda" | "opencl"),
            Need::Cuda => device.driver_name() == "cuda",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Need::Any => "a device",
            Need::OwnInterface => "a device of CUDA or OpenCL",
            Need::Cuda => "a device of CUDA",
        }
    }
}

/// A device with a context of its own.
pub(super) struct Target {
    id: String,
    device: Device,
    context: Context,
}

/// The name by which `quipu devices` lists a device.
pub(in crate::benchmarks) fn id(device: &Device) -> String {
    device.selector()
}

/// The devices to run on: those that the user chose, else all of the nodes that the user chose,
/// else every one of this machine that has what is needed. If there is none, a note says so.
pub(super) fn targets(
    session: &Session<'_>,
    report: &mut Report,
    need: Need,
) -> Result<Vec<Target>, BenchError> {
    let of_nodes = session.options.of_nodes.as_ref();
    let own = || Platform::builder().build_available();
    let platform = of_nodes.map_or_else(own, Platform::clone);
    let asked = &session.options.devices;
    let mut chosen: Vec<Device> = Vec::new();
    for name in asked {
        let is_named = |device: &&Device| device.is_called(name);
        let found = platform.devices().iter().find(is_named);
        chosen.push(found.cloned().ok_or_else(|| {
            BenchError::UnknownDevice {
                asked: name.clone(),
                known: platform
                    .devices()
                    .iter()
                    .map(id)
                    .collect::<Vec<_>>()
                    .join(", "),
            }
        })?);
    }
    if asked.is_empty() {
        // Devices of built-in kernels alone have none of a benchmark's.
        let fits = |device: &&Device| match of_nodes {
            Some(_) => device.kind() != DeviceKind::Custom,
            None => need.is_met(device),
        };
        chosen = platform.devices().iter().filter(fits).cloned().collect();
    }
    if chosen.is_empty() {
        let why = platform.unavailable().iter();
        let why: Vec<_> = why
            .map(|missing| format!("{}: {}", missing.driver, missing.error))
            .collect();
        let note = format!(
            "NOT MEASURED: there is no {}. {}",
            need.words(),
            why.join("; ")
        );
        report.notes.push(note.replacen("no a ", "no ", 1));
    }
    chosen.into_iter().map(Target::new).collect()
}

impl Target {
    fn new(device: Device) -> Result<Self, BenchError> {
        Ok(Target {
            id: id(&device),
            context: device.context().doing("making a context")?,
            device,
        })
    }

    /// The device's id, for the device column.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The device.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// A context of the device alone.
    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    /// Its multiprocessors, for the column of workers.
    pub(super) fn workers(&self) -> usize {
        self.device.properties().multiprocessors as usize
    }

    /// True if it is the processor's cores, with our pool of threads.
    pub(super) fn is_pool(&self) -> bool {
        self.device.driver_name() == "cpu"
    }

    /// True if many threads side by side are what it is fast with.
    pub(super) fn is_wide(&self) -> bool {
        self.device.kind() == DeviceKind::Gpu
    }

    /// A new in-order queue.
    pub(super) fn queue(&self, completion: Completion) -> Result<Queue, BenchError> {
        self.queue_with(QueueOptions {
            completion,
            ..QueueOptions::default()
        })
    }

    pub(super) fn queue_with(&self, options: QueueOptions) -> Result<Queue, BenchError> {
        self.context
            .queue_with(&self.device, options)
            .doing("making a queue")
    }

    /// The device's own interface.
    pub(super) fn raw(&self) -> RawResult<Box<dyn Raw>> {
        let queue = self.context.queue(&self.device);
        let queue = queue.map_err(|error| raw::RawError::Absent(error.to_string()))?;
        raw::open(&queue)
    }

    /// The result of hand-written code, or a note of why there is none. A fault of the benchmark
    /// itself is an error.
    pub(super) fn or_note<T>(&self, made: RawResult<T>, report: &mut Report) -> Option<T> {
        match made {
            Ok(made) => Some(made),
            Err(error) => {
                let note = format!("{}: no hand-written reference: {error}", self.id);
                if !report.notes.contains(&note) {
                    report.notes.push(note);
                }
                None
            }
        }
    }
}

/// The sizes of a comparison's problems.
pub(super) struct Sizes {
    /// On a GPU; with `--quick` the first alone.
    pub(super) gpu: [usize; 3],
    /// On any other device, and there with `--quick`.
    pub(super) other: [usize; 2],
    /// In tests.
    pub(super) tiny: usize,
}

impl Sizes {
    /// The comparisons of a run: on each device each of its sizes.
    pub(super) fn cases<'t>(
        &self,
        session: &Session<'_>,
        targets: &'t [Target],
    ) -> Vec<(&'t Target, usize)> {
        let of = |target: &'t Target| {
            let (full, quick) = match target.is_wide() {
                true => (&self.gpu[..], &self.gpu[..1]),
                false => (&self.other[..1], &self.other[1..]),
            };
            let sizes = session
                .scale()
                .choose(full, quick, std::slice::from_ref(&self.tiny));
            sizes.iter().map(move |size| (target, *size))
        };
        targets.iter().flat_map(of).collect()
    }
}
