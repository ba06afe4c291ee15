//! The device queue: the common part of Quipu's drivers over vendors' libraries.
//!
//! A vendor's library puts commands on devices and says when they are over. The choice and the
//! order of commands, and the consequences of a failure, are the same for all of them. So a driver
//! is this crate's [`VendorDriver`], and beside it the part that only the library can do: a
//! [`Vendor`], dispatched statically.
//!
//! | module | content |
//! |---|---|
//! | [`vendor`] | the verbs of a library |
//! | [`queue`] | the driver contract: the order of commands, and notice of their ends |
//! | [`work`] | a command that is being worked on, and its bytes |
//! | `host` | the work of a thread of the host for a command; `copies`: of its bytes |
//! | [`batch`] | commands that are put on a device with one call |
//! | `memory` | allocations, as the core asks for them |
//! | `parts` | devices that are parts of others |
//! | [`staging`] | large copies between pageable memory and devices |
//! | `sharing` | work that a thread shares with other threads of the driver |
//! | [`past_caches`] | copies into memory that a device is about to read |
//! | [`programs`] | the programs that there are, and those that are being compiled |
//! | [`disk`] | compiled programs on disk |
//! | [`graph`] | recorded graphs that are put on a device whole |
//! | [`launch`] | from a launch's parameters to a printed kernel's arguments |
//! | [`clock`] | a device's clock, and the process's |
//! | [`region`] | transfers' regions as calls take them |
//! | [`workers`] | threads for work of the host: host tasks, compilers |
//! | [`error`] | refusals as the core's errors |
//! | `inside` | the threads that must not wait |

#![cfg_attr(not(test), warn(clippy::disallowed_macros, clippy::disallowed_methods))]

pub mod batch;
pub mod clock;
mod copies;
pub mod disk;
pub mod error;
pub mod graph;
mod host;
mod inside;
pub mod launch;
mod memory;
mod parts;
pub mod past_caches;
pub mod programs;
pub mod queue;
pub mod region;
mod sharing;
pub mod staging;
pub mod vendor;
pub mod work;
pub mod workers;

pub use inside::is_own_thread;
use parts::Parts;
use programs::Programs;
use queue::{Activity, Completions, Inbox, Ledger};
use quipu_scheduler::Partition;
use quipu_scheduler::error::{ErrorKind, Result};
use quipu_scheduler::panics::quietly;
use quipu_scheduler::process::or_end;
use quipu_threads::Start;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
pub use vendor::{Executor, Failure, Flight, Obstacle, Status, Vendor, VendorDevice};
pub use work::{Bytes, Work};
use workers::Workers;

/// A driver over a vendor's library.
pub struct VendorDriver<V: Vendor> {
    shared: Arc<Shared<V>>,
}

/// The state that the driver, the drain thread and commands on their way share.
pub(crate) struct Shared<V: Vendor> {
    pub(crate) vendor: V,
    parts: Parts<V::Device>,
    pub(crate) inbox: Arc<Inbox>,
    ledger: Mutex<Ledger<V>>,
    pub(crate) completions: Completions<V>,
    pub(crate) activity: Activity,
    pub(crate) workers: Arc<Workers>,
    pub(crate) programs: Programs<V::Compiled>,
    /// Bytes of each device's memory that are allocated.
    pub(crate) allocated: Vec<AtomicU64>,
    /// The bytes that may be allocated.
    pub(crate) capacity: Vec<AtomicU64>,
    /// The core knows whose a memory space is.
    pub(crate) this: Weak<VendorDriver<V>>,
}

impl<V: Vendor> VendorDriver<V> {
    /// The driver of all devices that there are. Their parts are made when the devices are first
    /// used.
    ///
    /// # Errors
    /// If the system has no library of the vendor's, or that knows no device: names it and the
    /// remedy. If the system gives no thread.
    pub fn start() -> Result<Arc<Self>> {
        quipu_scheduler::process::check()?;
        Self::over(V::open()?)
    }

    /// The driver of all devices of a vendor.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn over(vendor: V) -> Result<Arc<Self>> {
        quipu_scheduler::process::enter()?;
        let count = vendor.devices().len();
        let memory = |device: &V::Device| AtomicU64::new(device.properties().global_memory);
        let capacity = vendor.devices().iter().map(memory).collect();
        let inbox = Arc::<Inbox>::default();
        let driver = Arc::new_cyclic(|this| Self {
            shared: Arc::new(Shared {
                vendor,
                parts: Parts::default(),
                ledger: Mutex::new(Ledger::new(count, inbox.clone())),
                inbox,
                completions: Completions::default(),
                activity: Activity::default(),
                workers: Workers::new(V::NAME),
                programs: Programs::default(),
                allocated: (0..count).map(|_| AtomicU64::new(0)).collect(),
                capacity,
                this: this.clone(),
            }),
        });
        let weak = Arc::downgrade(&driver.shared);
        driver.shared.workers.on_wait(move || {
            if let Some(shared) = weak.upgrade() {
                shared.waits_inside();
            }
        });
        let (shared, wakeup) = (
            Arc::downgrade(&driver.shared),
            driver.shared.completions.wakeup(),
        );
        std::thread::Builder::new()
            .name(format!("quipu-{}", V::NAME))
            .start(move || or_end(V::NAME, || queue::drain(&shared, &wakeup)))
            .map_err(|error| ErrorKind::InvalidArgument {
                what: "start a driver",
                problem: format!("the system gives no thread: {error}"),
            })?;
        quietly(|| tracing::debug!(driver = V::NAME, devices = count, "devices found"));
        Ok(driver)
    }

    /// The counts of batches.
    #[must_use]
    pub fn batches(&self) -> batch::Counts {
        self.shared.ledger().counts()
    }
}

impl<V: Vendor> VendorDriver<V> {
    /// The vendor's part.
    #[must_use]
    pub fn vendor(&self) -> &V {
        &self.shared.vendor
    }

    /// Looks for ended commands, and acts on them, on this thread: for a vendor that
    /// [tells](Vendor::TELLS). Not to be called by a thread that has something of the vendor's
    /// locked.
    pub fn look(&self) {
        self.shared.look();
    }
}

impl<V: Vendor> Drop for VendorDriver<V> {
    fn drop(&mut self) {
        if quipu_scheduler::process::is_forked() {
            return;
        }
        self.shared.completions.close();
    }
}

impl<V: Vendor> Shared<V> {
    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger<V>> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A device by its number, which is the core's, and so one that there is.
    pub(crate) fn device(&self, number: usize) -> &V::Device {
        match self.device_if_any(number) {
            Some(device) => device,
            None => unreachable!("the core has its numbers from the driver"),
        }
    }

    /// A device by its number: one that the library lists, or a part.
    #[inline]
    pub(crate) fn device_if_any(&self, number: usize) -> Option<&V::Device> {
        let listed = self.vendor.devices();
        match listed.get(number) {
            Some(device) => Some(device),
            None => self.parts.get(number - listed.len()),
        }
    }

    /// Splits a device; the parts' numbers.
    pub(crate) fn partition(
        &self,
        number: usize,
        partition: &Partition,
    ) -> Result<std::ops::Range<usize>> {
        let listed = self.vendor.devices().len();
        let device = self.device(number);
        let split = || self.vendor.partition(device, partition);
        let parts = self.parts.split(number, partition, split)?;
        self.ledger().expect_devices(listed + parts.end);
        Ok(listed + parts.start..listed + parts.end)
    }

    /// A part is gone.
    pub(crate) fn forget_part(&self, number: usize) {
        self.parts.forget(number - self.vendor.devices().len());
    }
}

impl<V: Vendor> std::fmt::Debug for VendorDriver<V> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("VendorDriver")
            .field("name", &V::NAME)
            .field("devices", &self.shared.vendor.devices().len())
            .finish_non_exhaustive()
    }
}

/// A value that is made when it is first used; if it cannot be made now, it may be later.
///
/// # Errors
/// If it cannot be made now.
pub fn made_once<T, E>(
    cell: &OnceLock<T>,
    make: impl FnOnce() -> std::result::Result<T, E>,
) -> std::result::Result<&T, E> {
    match cell.get() {
        Some(made) => Ok(made),
        None => {
            // Of two threads that make it at a time, one drops its own.
            let made = make()?;
            Ok(cell.get_or_init(|| made))
        }
    }
}
