//! Quipu's driver for every device of every platform that the system's OpenCL loader offers.
//!
//! | module | what it is |
//! |---|---|
//! | `device` | the devices: what they are, their contexts and queues |
//! | `queue` | the driver contract: submit, flush, join, notify; how commands become calls |
//! | `region` | transfers' regions as OpenCL's calls take them |
//! | `program` | code that launches bring along: compiled, kept, launched |
//! | `memory` | allocations of the devices' memory |
//! | `workers` | threads for what the host does: host tasks, compilers |
//! | `native` | OpenCL's objects |
//! | `error` | OpenCL's refusals in words |
//!
//! # The loader
//!
//! OpenCL is loaded when the program runs, through [`cl3`], with its feature `dynamic`: nothing of a vendor's is needed to
//! build, and a machine without a loader has no devices and is told why. `cl3` and not `opencl3`, which stands on top of
//! it: its types own a context, a queue and a kernel each in their own way, where this driver needs OpenCL's objects bare,
//! with the numbers of its errors. It is kept up with OpenCL's releases, and every function of it says what it needs.
//!
//! # Order
//!
//! The devices of a platform share one OpenCL context and are one sync domain: their commands wait for each other by
//! OpenCL's events, without the host. Queues are out-of-order where a device has them, so that OpenCL knows no order but
//! what commands wait for; else there are several in-order ones. Copies to and from the host have queues of their own.
//! What a command waits for outside the domain is resolved by the host first.
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
mod workers;

pub use queue::OpenClQueue;

use device::Device;
use program::Programs;
use queue::{Completions, Ledger};
use quipu_core::SpaceId;
use quipu_core::error::{ErrorKind, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use workers::Workers;

/// The driver.
pub struct OpenClDriver {
    shared: Arc<Shared>,
}

/// What the driver, the drain thread and commands on their way share.
pub(crate) struct Shared {
    devices: Vec<Device>,
    ledger: Mutex<Ledger>,
    completions: Arc<Completions>,
    workers: Arc<Workers>,
    programs: Programs,
    /// The core knows whose a memory space is.
    this: Weak<OpenClDriver>,
}

impl OpenClDriver {
    /// The driver of all devices that there are. Their contexts and queues are made when they are first used.
    ///
    /// # Errors
    /// If the system has no OpenCL loader, or that knows no device: says which and what to do. If the system gives no
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
                this: this.clone(),
            }),
        });
        let shared = Arc::downgrade(&driver.shared);
        std::thread::Builder::new()
            .name("quipu-opencl".to_owned())
            .spawn(move || queue::drain(&shared))
            .map_err(|error| ErrorKind::InvalidArgument {
                what: "start the OpenCL driver",
                problem: format!("the system gives no thread: {error}"),
            })?;
        tracing::debug!(
            devices = driver.shared.devices.len(),
            "OpenCL devices found"
        );
        Ok(driver)
    }
}

impl Drop for OpenClDriver {
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
                what: "use an OpenCL device's memory",
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

impl std::fmt::Debug for OpenClDriver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("OpenClDriver")
            .field("devices", &self.shared.devices.len())
            .finish_non_exhaustive()
    }
}
