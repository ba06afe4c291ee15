//! Quipu's driver for sources of data and decoders: devices that only run the kernels that they
//! have built in.
//!
//! | module | content |
//! |---|---|
//! | [`source`] | the origins of frames: files, a generator, the program |
//! | `stream` | the device of a source |
//! | [`decode`] | the device that decodes |
//! | `lane` | a device's threads, and their work on commands |
//! | `passed` | the parameters of a kernel, checked |
//!
//! A device of these works in the host's memory, so on one node a frame goes from its source to the
//! decoder, and to the processor, without being moved. Kernels are launched by name:
//!
//! | device | kernel |
//! |---|---|
//! | a source | `next_frame(inout u64 position, out u8 frame, out u64 size)` |
//! | | `frame(value u64 number, out u8 frame, out u64 size)` |
//! | | `stream_info(out u64 info)` |
//! | the decoder | `decode_jpeg(in u8 data, in u64 size, out u8 pixels, out u64 pixels_size, out u32 shape)` |
//! | | `decode_png(in u8 data, in u64 size, out u8 pixels, out u64 pixels_size, out u32 shape)` |
//! | | `decode_lz4(in u8 data, in u64 size, out u8 bytes, out u64 bytes_size)` |
//!
//! A kernel writes for a size the number of bytes that it has written. As the content size of the
//! other buffer, that has transfers move these and no more.

#![cfg_attr(not(test), warn(clippy::disallowed_macros, clippy::disallowed_methods))]

pub mod decode;
mod lane;
mod passed;
pub mod source;
mod stream;

use lane::{BuiltInDevice, Lane};
use quipu_scheduler::driver::Notification;
use quipu_scheduler::{
    BuiltIn, BuiltInKernel, DeviceKind, DeviceProperties, Driver, ErrorKind, Result,
};
pub use source::Source;
use std::any::TypeId;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The devices that there are to be.
#[derive(Debug, Default)]
#[must_use = "a driver is made by `start`"]
pub struct Options {
    sources: Vec<Source>,
    decoder: bool,
}

impl Options {
    /// Options without a device.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more source.
    pub fn source(mut self, source: Source) -> Self {
        self.sources.push(source);
        self
    }

    /// A decoder, too.
    pub fn decoder(mut self) -> Self {
        self.decoder = true;
        self
    }

    /// Starts the driver.
    ///
    /// # Errors
    /// If there would be no devices, or two of the same name; if a source's file cannot be read or
    /// makes no sense; if the system gives no threads.
    pub fn start(self) -> Result<Arc<SourcesDriver>> {
        quipu_scheduler::process::enter()?;
        let failed = |problem: String| ErrorKind::InvalidArgument {
            what: "start sources of data",
            problem,
        };
        let mut devices: Vec<Box<dyn BuiltInDevice>> = Vec::new();
        for (number, source) in self.sources.iter().enumerate() {
            let mut before = self.sources[..number].iter();
            if before.any(|before| before.name() == source.name()) {
                let name = source.name();
                return Err(failed(format!("two sources are called '{name}'; rename one")).into());
            }
        }
        for source in self.sources {
            let name = source.name().to_owned();
            let stream = stream::Stream::open(source);
            let stream = stream.map_err(|error| failed(format!("source '{name}': {error}")))?;
            devices.push(Box::new(stream));
        }
        if self.decoder {
            devices.push(Box::new(decode::Decoder::default()));
        }
        if devices.is_empty() {
            let problem = "there are none; name a source, or ask for the decoder".to_owned();
            return Err(failed(problem).into());
        }
        let unfinished = Arc::new(AtomicU64::new(0));
        let lanes = devices.into_iter().map(|device| {
            let started = Lane::start(device, &unfinished);
            started.map_err(|error| failed(format!("the system gives no thread: {error}")))
        });
        Ok(Arc::new(SourcesDriver {
            lanes: lanes.collect::<std::result::Result<_, _>>()?,
            unfinished,
        }))
    }
}

/// The driver.
#[derive(Debug)]
pub struct SourcesDriver {
    lanes: Vec<Lane>,
    /// Commands that are not over.
    unfinished: Arc<AtomicU64>,
}

/// The driver's name.
const NAME: &str = "sources";

// SAFETY: a command's code and memory are used while it is here, with the arguments resolved for
// it.
unsafe impl Driver for SourcesDriver {
    fn name(&self) -> &'static str {
        NAME
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        let lanes = self.lanes.iter();
        lanes.map(|lane| properties(lane.device())).collect()
    }

    fn notify(&self, notification: Notification) {
        let Notification::Ready(command) = notification else {
            return;
        };
        self.unfinished.fetch_add(1, Ordering::SeqCst);
        self.lanes[command.queue().device_index()].take(command);
    }

    fn runs_native_code(&self) -> bool {
        false
    }

    fn takes_code(&self, of: TypeId) -> bool {
        of == TypeId::of::<BuiltIn>()
    }

    fn built_in_kernels(&self, device: usize) -> Vec<BuiltInKernel> {
        self.lanes[device].device().kernels().to_vec()
    }

    fn is_idle(&self) -> bool {
        self.unfinished.load(Ordering::SeqCst) == 0
    }
}

/// The number of commands that a device that only computes runs at once.
fn threads() -> usize {
    std::thread::available_parallelism()
        .map_or(1, NonZero::get)
        .min(4)
}

fn properties(device: &dyn BuiltInDevice) -> DeviceProperties {
    DeviceProperties {
        vendor: "quipu".to_owned(),
        // A built-in kernel runs once, over whatever it is launched.
        max_grid_blocks: [1; 3],
        max_grid_block_count: 1,
        concurrent_commands: device.threads() as u32,
        ..DeviceProperties::new(DeviceKind::Custom, device.name())
    }
}

/// Signatures that this crate has written itself.
fn signatures(texts: &[&str]) -> Vec<BuiltInKernel> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}
