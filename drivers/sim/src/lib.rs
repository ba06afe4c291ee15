//! Quipu's simulated accelerators, in simulated time.
//!
//! | module | content |
//! |---|---|
//! | [`engine`] | the machine: devices, memory spaces, event-status areas, a clock of its own |
//! | `queue` | the driver contract over the machine: submit, flush, join, notify |
//! | `program` | a command's form on the machine, and its work there |
//! | `memory` | allocations of the machine's spaces |
//! | `device` | the properties of the devices |
//! | `error` | the machine's failures as the core's errors |
//! | `view` | the machine as others see it while it is the driver's |
//!
//! The engine knows nothing of Quipu's core. The rest is an adapter between the two, and none of it
//! is simulated: it does the work of a driver of a real accelerator with queues and events of its
//! own.
//!
//! # Two ways to run
//!
//! [`SimDriver::start`] gives the machine a thread. [`SimDriver::manual`] does not: the machine
//! moves only while a host thread waits for something that may need it, on that thread. A program
//! of one thread then has the same log every time, and a wait that could never end is an error. Any
//! such thread may run a command of the machine, so no command may block until that thread does
//! something after its wait.
//!
//! # Order
//!
//! Devices of one memory space are one sync domain: their commands wait for each other through the
//! space's event-status area, without the host. The host passes on each other wait with one write.
//!
//! # Time
//!
//! Timestamps are the machine's own, moved onto the process's clock: a command's times are shifted
//! so that the machine's time at its upload is not before the host's, by an offset that never
//! decreases. If the machine's clock then runs ahead of the host's, they are cut off at the host's
//! time of the event. So a command starts after it was submitted and after its waits have ended, on
//! the machine or elsewhere, and nothing ends in the future. Exact simulated times are in the
//! machine's log.

#![cfg_attr(not(test), warn(clippy::disallowed_macros, clippy::disallowed_methods))]

mod device;
pub mod engine;
mod error;
mod memory;
mod program;
mod queue;
mod view;

use engine::{
    Configuration, DeviceId, DeviceStatistics, Fault, HostInteractions, Machine, Mode, Record,
};
pub use queue::SimQueue;
use queue::ledger::Ledger;
use quipu_scheduler::error::{ErrorKind, Result};
use quipu_scheduler::panics::quietly;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
pub use view::MachineView;

/// The driver of a simulated machine.
pub struct SimDriver {
    shared: Arc<Shared>,
}

/// The state that the driver, the machine's notices and the effects of commands share.
pub(crate) struct Shared {
    pub(crate) machine: Machine,
    pub(crate) configuration: Configuration,
    ledger: Mutex<Ledger>,
    /// Threads that step a machine without a thread of its own.
    pub(crate) steppers: AtomicUsize,
}

impl SimDriver {
    /// Switches on a machine with a thread of its own.
    ///
    /// # Errors
    /// If the configuration could not work, or the system gives no thread.
    pub fn start(configuration: Configuration) -> Result<Arc<Self>> {
        Self::new(configuration, Mode::Threaded)
    }

    /// Switches on a machine that moves only on the threads that wait: for deterministic tests. The
    /// crate's page says more.
    ///
    /// # Errors
    /// If the configuration could not work.
    pub fn manual(configuration: Configuration) -> Result<Arc<Self>> {
        Self::new(configuration, Mode::Manual)
    }

    fn new(configuration: Configuration, mode: Mode) -> Result<Arc<Self>> {
        quipu_scheduler::process::enter()?;
        let link = Arc::new(OnceLock::<Weak<Shared>>::new());
        let callback = {
            let link = Arc::clone(&link);
            move |notice| {
                // Gone if the driver is being dropped: then it holds no commands.
                if let Some(shared) = link.get().and_then(Weak::upgrade) {
                    shared.hear(notice);
                }
            }
        };
        let machine = Machine::new(configuration.clone(), mode, callback)
            .map_err(|error| error::of_start(&error))?;
        let shared = Arc::new(Shared {
            machine,
            ledger: Mutex::new(Ledger::new(&configuration)),
            steppers: AtomicUsize::new(0),
            configuration,
        });
        let linked = link.set(Arc::downgrade(&shared));
        debug_assert!(linked.is_ok(), "the link is set once, here");
        quietly(|| {
            tracing::debug!(
                devices = shared.configuration.devices.len(),
                ?mode,
                "simulated machine started"
            );
        });
        Ok(Arc::new(Self { shared }))
    }

    /// The machine, to be looked at and moved on.
    #[must_use]
    pub fn machine(&self) -> MachineView<'_> {
        MachineView(&self.shared.machine)
    }

    /// The counts of a device.
    #[must_use]
    pub fn statistics(&self, device: usize) -> Option<DeviceStatistics> {
        let device = self.shared.device_id(device)?;
        self.machine()
            .with(|simulation| simulation.statistics(device))
    }

    /// The number of program images that a device has been given.
    #[must_use]
    pub fn image_builds(&self, device: usize) -> u64 {
        self.statistics(device)
            .map_or(0, |statistics| statistics.image_builds)
    }

    /// The counts of the host's acts on the machine.
    #[must_use]
    pub fn interactions(&self) -> HostInteractions {
        self.machine().with(|simulation| simulation.interactions())
    }

    /// The number of commands that conflicted with an earlier one and were not ordered after it:
    /// zero, unless the core misses a hazard.
    #[must_use]
    pub fn races(&self) -> u64 {
        self.machine().with(|simulation| simulation.races())
    }

    /// The latest records of the machine's log, oldest first.
    #[must_use]
    pub fn log(&self) -> Vec<Record> {
        self.machine()
            .with(|simulation| simulation.log().cloned().collect())
    }

    /// Arms a fault; it counts from now.
    ///
    /// # Errors
    /// If it could never happen.
    pub fn arm(&self, fault: Fault) -> Result<()> {
        let machine = &self.shared.machine;
        machine
            .with(|simulation| simulation.arm(fault))
            .map_err(|error| {
                ErrorKind::InvalidArgument {
                    what: "arm a fault of the simulated machine",
                    problem: error.to_string(),
                }
                .into()
            })
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Shared {
    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The engine's name of a device, if there is such a device.
    pub(crate) fn device_id(&self, device: usize) -> Option<DeviceId> {
        let id = u16::try_from(device).ok()?;
        (device < self.configuration.devices.len()).then_some(DeviceId(id))
    }
}

impl std::fmt::Debug for SimDriver {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SimDriver")
            .field("devices", &self.shared.configuration.devices.len())
            .field("mode", &self.machine().mode())
            .finish_non_exhaustive()
    }
}
