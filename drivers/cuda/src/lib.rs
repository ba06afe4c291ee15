//! Quipu's driver for NVIDIA's GPUs, on CUDA's driver API and NVRTC.
//!
//! | module | what it is |
//! |---|---|
//! | `device` | the devices: what they are, their contexts and streams |
//! | `queue` | the driver contract: submit, flush, join, notify; how commands become calls |
//! | `region` | transfers' regions as CUDA's calls take them |
//! | `staging` | pinned memory, through which the host's bytes go |
//! | `program` | code that launches bring along: compiled, kept, launched |
//! | `memory` | allocations of the devices' memory |
//! | `workers` | threads for what the host does: host tasks, compilers, large copies |
//! | `native` | CUDA's objects |
//! | `error` | CUDA's refusals in words |
//!
//! # The libraries
//!
//! CUDA's driver library is loaded when the program runs, through [`cudarc`], of which only the declarations (`sys`) are
//! used: its safe layer keeps an order of its own among streams and buffers, which here is the core's to decide. Nothing
//! of NVIDIA's is needed to build, and a machine without the library has no devices and is told why. NVRTC, the compiler,
//! is loaded when the first kernel is compiled.
//!
//! # Order
//!
//! All devices are one sync domain: their commands wait for each other by CUDA's events, without the host. A device has
//! several streams for kernels, so that commands that do not wait for each other overlap, and one for copies in each
//! direction. A stream keeps its order, and a wait for an event that was never recorded is none: so a command is put into
//! a stream only when all that it waits for is over, or is in a stream already. A command that waits for the last one of
//! a stream goes into the same, where it needs no event.
//!
//! # The host's memory
//!
//! A copy from memory that is not pinned reads it when it is put into a stream, not when its turn has come. So the host's
//! bytes go through pinned memory, and what was written by another command is read only when that is over; bytes that
//! come from a device are handed to the user when the command ends, and so never those of one that failed.
//!
//! # Native code
//!
//! These devices run none: a launch brings its code along, or fails and says so. Host tasks run on threads of the host,
//! with copies of what they declare.

mod device;
mod error;
mod memory;
mod native;
mod program;
mod queue;
mod region;
mod staging;
mod workers;

pub use queue::CudaQueue;

use device::Device;
use program::Programs;
use queue::{Completions, Ledger};
use quipu_core::SpaceId;
use quipu_core::error::{ErrorKind, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use workers::Workers;

/// The driver.
pub struct CudaDriver {
    shared: Arc<Shared>,
}

/// What the driver, the drain thread and commands on their way share.
pub(crate) struct Shared {
    devices: Vec<Device>,
    ledger: Mutex<Ledger>,
    completions: Arc<Completions>,
    workers: Arc<Workers>,
    programs: Programs,
    /// Pairs of devices that have been told of each other.
    linked: Mutex<Vec<(usize, usize)>>,
    /// The core knows whose a memory space is.
    this: Weak<CudaDriver>,
}

impl CudaDriver {
    /// The driver of all devices that there are. Their contexts and streams are made when they are first used.
    ///
    /// # Errors
    /// If the system has no CUDA driver, or that knows no device: says which and what to do. If the system gives no
    /// thread.
    pub fn start() -> Result<Arc<Self>> {
        let devices = device::all()?;
        let driver = Arc::new_cyclic(|this| Self {
            shared: Arc::new(Shared {
                ledger: Mutex::new(Ledger::new(devices.len())),
                devices,
                completions: Arc::default(),
                workers: Workers::new(),
                programs: Programs::default(),
                linked: Mutex::default(),
                this: this.clone(),
            }),
        });
        let shared = Arc::downgrade(&driver.shared);
        std::thread::Builder::new()
            .name("quipu-cuda".to_owned())
            .spawn(move || queue::drain(&shared))
            .map_err(|error| ErrorKind::InvalidArgument {
                what: "start the CUDA driver",
                problem: format!("the system gives no thread: {error}"),
            })?;
        tracing::debug!(devices = driver.shared.devices.len(), "CUDA devices found");
        Ok(driver)
    }
}

impl Drop for CudaDriver {
    fn drop(&mut self) {
        self.shared.completions.close();
    }
}

impl Shared {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device of a memory space's key.
    fn device_of_key(&self, key: u32) -> Result<&Device> {
        self.devices.get(key as usize).ok_or_else(|| {
            ErrorKind::InvalidArgument {
                what: "use a CUDA device's memory",
                problem: format!("there is no device {key}; there are {}", self.devices.len()),
            }
            .into()
        })
    }

    /// The device of a memory space.
    fn device_of_space(&self, space: SpaceId) -> Option<&Device> {
        let driver = self.this.upgrade()?;
        self.device_of_key(space.key_in(&*driver)?).ok()
    }
}

impl std::fmt::Debug for CudaDriver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("CudaDriver")
            .field("devices", &self.shared.devices.len())
            .finish_non_exhaustive()
    }
}
