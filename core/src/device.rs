//! Devices: their properties, and the handles that contexts and queues hold.

use crate::access::MAX_MEMORY_BYTES;
use crate::built_in::BuiltInKernel;
use crate::check::MAX_GROUPS;
use crate::driver::Driver;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::SpaceId;
use crate::memory::space::{self, Allocator};
use crate::portable::{KernelAttributes, PortableKernel, TextFeatures};
use std::iter::once;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceKind {
    /// Processor cores of this machine.
    Cpu,
    /// A graphics processor.
    Gpu,
    /// Another accelerator.
    Accelerator,
    /// A device that exists only in software.
    Simulated,
    /// A device that only runs kernels that it has built in, as a camera or a decoder: never chosen
    /// unless asked for.
    Custom,
}

impl std::fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Accelerator => "accelerator",
            Self::Simulated => "simulated",
            Self::Custom => "custom",
        })
    }
}

/// The place of a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemorySpace {
    /// The host's memory: nothing is ever copied.
    Host,
    /// The driver's own space of this number; devices that name the same
    /// number share it.
    Own(u32),
}

/// The properties of a device. Sizes in bytes, extents in their own units.
#[derive(Clone, Debug)]
pub struct DeviceProperties {
    /// The device's name, as people know it.
    pub name: String,
    /// Its kind.
    pub kind: DeviceKind,
    /// The name of the manufacturer.
    pub vendor: String,
    /// Units that run work-groups independently: cores, multiprocessors.
    pub multiprocessors: u32,
    /// The largest grid, in blocks, per dimension.
    pub max_grid_blocks: [u64; 3],
    /// The most blocks in a grid, in all.
    pub max_grid_block_count: u64,
    /// The largest block, in threads, per dimension.
    pub max_block_threads: [u64; 3],
    /// The most threads in a block, in all.
    pub max_block_thread_count: u64,
    /// The most elements per thread, per dimension.
    pub max_thread_elements: [u64; 3],
    /// The most elements per thread, in all.
    pub max_thread_element_count: u64,
    /// Bytes of memory that a block shares, at most.
    pub shared_memory_per_block: u64,
    /// Bytes of device memory.
    pub global_memory: u64,
    /// The largest single buffer, in bytes.
    pub max_buffer: u64,
    /// The sizes that a warp can have; none, if that is not known.
    pub warp_sizes: Vec<u32>,
    /// Highest clock rate, in MHz, if known.
    pub clock_mhz: Option<u32>,
    /// The place of its memory.
    pub memory: MemorySpace,
    /// Devices of one driver with the same number order commands among
    /// themselves without the host. `None`: the host resolves every wait.
    pub domain: Option<u32>,
    /// The most queues worth having: the number of commands that can run at once.
    pub concurrent_commands: u32,
    /// True if every command runs on the thread that enqueues or waits.
    pub caller_runs: bool,
    /// True if a device with memory of its own also uses memory of the host where it is. Devices of
    /// one memory space say the same. See [`Driver::map_host_memory`].
    pub maps_host_memory: bool,
    /// True if the device has memory that it shares with the host page by page. See
    /// [`Driver::allocate_managed`].
    pub managed_memory: bool,
}

impl DeviceProperties {
    /// The properties of a device with the host's memory, one multiprocessor and blocks of one
    /// thread, without other limits.
    ///
    /// A driver sets its own with it, and compiles on when Quipu adds a property:
    ///
    /// ```
    /// use quipu_scheduler::{DeviceKind, DeviceProperties, MemorySpace};
    ///
    /// let properties = DeviceProperties {
    ///     memory: MemorySpace::Own(0),
    ///     global_memory: 1 << 30,
    ///     ..DeviceProperties::new(DeviceKind::Accelerator, "the first")
    /// };
    /// assert_eq!(properties.multiprocessors, 1);
    /// ```
    #[must_use]
    pub fn new(kind: DeviceKind, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind,
            vendor: String::new(),
            multiprocessors: 1,
            max_grid_blocks: [MAX_GROUPS; 3],
            max_grid_block_count: MAX_GROUPS,
            max_block_threads: [1; 3],
            max_block_thread_count: 1,
            max_thread_elements: [u64::MAX; 3],
            max_thread_element_count: u64::MAX,
            shared_memory_per_block: 0,
            global_memory: MAX_MEMORY_BYTES,
            max_buffer: MAX_MEMORY_BYTES,
            warp_sizes: vec![1],
            clock_mhz: None,
            memory: MemorySpace::Host,
            domain: None,
            concurrent_commands: 1,
            caller_runs: false,
            maps_host_memory: false,
            managed_memory: false,
        }
    }
}

/// A way to split a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Partition {
    /// Parts of this many multiprocessors each; a remainder is left.
    Equally(u32),
    /// Parts of the given sizes.
    ByCounts(Vec<u32>),
}

/// A device of a registered driver. Cheap to clone.
#[derive(Clone)]
pub struct Device(Arc<DeviceShared>);

struct DeviceShared {
    driver: ManuallyDrop<Arc<dyn Driver>>,
    index: usize,
    properties: DeviceProperties,
    space: SpaceId,
    domain: Option<u64>,
    id: u32,
    lost: OnceLock<Error>,
    parent: Option<Device>,
}

impl Drop for DeviceShared {
    fn drop(&mut self) {
        if crate::process::is_forked() {
            // A driver that ends waits for threads that are not here, and speaks to nodes on its
            // parent's connections.
            return;
        }
        if self.parent.is_some() {
            // SAFETY: `partition` gave the part (`Device::partition`), and the last handle to it
            // goes. Queues have handles, and commands their queues.
            unsafe { self.driver.forget_part(self.index) };
        }
        // SAFETY: dropped once, here, and not used any more.
        unsafe { ManuallyDrop::drop(&mut self.driver) };
    }
}

static NEXT_DEVICE: AtomicU32 = AtomicU32::new(1);
static NEXT_DOMAIN: Mutex<Vec<(usize, u32)>> = Mutex::new(Vec::new());

/// A number for a driver's sync domain, unique in the process.
fn domain_id(driver: &Arc<dyn Driver>, key: u32) -> u64 {
    let mut domains = NEXT_DOMAIN.lock().unwrap_or_else(PoisonError::into_inner);
    let wanted = (Arc::as_ptr(driver).cast::<()>() as usize, key);
    let index = domains
        .iter()
        .position(|d| *d == wanted)
        .unwrap_or_else(|| {
            domains.push(wanted);
            domains.len() - 1
        });
    index as u64 + 1
}

impl Device {
    /// The devices of a driver.
    ///
    /// # Errors
    /// If there are too many memory spaces in the process, or it is a [child](crate::process) of
    /// one that used Quipu; if the driver [needs flushes](Driver::needs_flush), and a device has no
    /// sync domain.
    pub fn all_of(driver: &Arc<dyn Driver>) -> Result<Vec<Self>> {
        crate::process::check()?;
        driver
            .devices()
            .into_iter()
            .enumerate()
            .map(|(index, properties)| Self::new(driver, index, properties, None))
            .collect()
    }

    fn new(
        driver: &Arc<dyn Driver>,
        index: usize,
        properties: DeviceProperties,
        parent: Option<Device>,
    ) -> Result<Self> {
        if properties.domain.is_none() && driver.needs_flush() {
            return Err(ErrorKind::Unsupported {
                driver: driver.name(),
                what: format!("hold back commands of '{}'", properties.name),
                instead: "give the device a sync domain, so that its commands are submitted before they are ready",
            }
            .into());
        }
        let space = match properties.memory {
            MemorySpace::Host => SpaceId::HOST,
            MemorySpace::Own(key) => {
                let allocator: Arc<dyn Allocator> = driver.clone();
                space::register(&allocator, key, properties.maps_host_memory)?
            }
        };
        let id = NEXT_DEVICE.fetch_add(1, Ordering::Relaxed);
        if crate::trace::enabled() {
            crate::trace::name_device(id, &properties.name);
        }
        Ok(Self(Arc::new(DeviceShared {
            driver: ManuallyDrop::new(driver.clone()),
            index,
            domain: properties.domain.map(|key| domain_id(driver, key)),
            properties,
            space,
            id,
            lost: OnceLock::new(),
            parent,
        })))
    }

    /// The properties of the device.
    #[must_use]
    pub fn properties(&self) -> &DeviceProperties {
        &self.0.properties
    }

    /// The device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.properties.name
    }

    /// The name of its driver.
    #[must_use]
    pub fn driver_name(&self) -> &'static str {
        self.0.driver.name()
    }

    /// The device's selector: `cpu:0`, or `node-1/cuda:1` on another machine. A part of a device
    /// has a number of its own.
    #[must_use]
    pub fn selector(&self) -> String {
        self.0.driver.device_selector(self.0.index)
    }

    /// True if a name means this device. It may be the [selector](Device::selector), with or
    /// without the number (`cpu`, `node-1/cuda`), the name of its machine (`node-1`), or that of
    /// its driver, with or without the device's number there (`remote:3`).
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        let (selector, driver) = (self.selector(), self.driver_name());
        let without_number = selector.rsplit_once(':').map(|(before, _)| before);
        let machine = selector.rsplit_once('/').map(|(machine, _)| machine);
        let number = name
            .strip_prefix(driver)
            .and_then(|rest| rest.strip_prefix(':'));
        let names = [Some(&selector[..]), without_number, machine, Some(driver)];
        names.contains(&Some(name))
            || number.is_some_and(|number| number.parse() == Ok(self.0.index))
    }

    /// The driver.
    #[must_use]
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.0.driver
    }

    /// The device's number within its driver.
    #[must_use]
    pub fn index(&self) -> usize {
        self.0.index
    }

    /// The memory space it works in.
    #[must_use]
    pub fn space(&self) -> SpaceId {
        self.0.space
    }

    /// Its sync domain, as a process-wide number.
    #[must_use]
    pub fn domain(&self) -> Option<u64> {
        self.0.domain
    }

    /// A number that identifies the device in traces.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.0.id
    }

    /// The device that this one is a part of, if it is.
    #[must_use]
    pub fn parent(&self) -> Option<&Device> {
        self.0.parent.as_ref()
    }

    /// Bytes of its memory that are free, if known: never more than it has, though a machine may
    /// get more while it runs.
    #[must_use]
    pub fn free_memory(&self) -> Option<u64> {
        // In a child of fork other threads may have had the driver's locks.
        crate::process::check().ok()?;
        let free = self.0.driver.free_memory(self.0.index)?;
        match self.properties().global_memory {
            0 => Some(free),
            memory => Some(free.min(memory)),
        }
    }

    /// The limits of a kernel on the device: see [`Driver::kernel_attributes`].
    ///
    /// # Errors
    /// As [`Driver::kernel_attributes`]; and in a child of `fork`.
    pub fn kernel_attributes(&self, kernel: &dyn PortableKernel) -> Result<KernelAttributes> {
        crate::process::check()?;
        self.0.driver.kernel_attributes(self.0.index, kernel)
    }

    /// True if its commands use [memory in place](crate::Context::memory_in_place) where it is.
    /// Else they use copies of it, as of any memory.
    #[must_use]
    pub fn uses_host_memory(&self) -> bool {
        self.space() == SpaceId::HOST || self.properties().maps_host_memory
    }

    /// True if kernels there may have barriers between the blocks of a launch.
    #[must_use]
    pub fn has_grid_barrier(&self) -> bool {
        self.0.driver.has_grid_barrier(self.0.index)
    }

    /// True if kernels there have fences between the blocks of a launch.
    #[must_use]
    pub fn has_device_fence(&self) -> bool {
        self.0.driver.has_device_fence(self.0.index)
    }

    /// The features that the compiler of the device has for kernels that are texts: see
    /// [`Driver::text_features`].
    #[must_use]
    pub fn text_features(&self) -> TextFeatures {
        self.0.driver.text_features(self.0.index)
    }

    /// The kernels that it has built in.
    #[must_use]
    pub fn built_in_kernels(&self) -> Vec<BuiltInKernel> {
        self.0.driver.built_in_kernels(self.0.index)
    }

    /// Splits the device into parts that are devices themselves and share its
    /// memory.
    ///
    /// # Errors
    /// If it cannot be split so, or the process is a [child](crate::process) of one that used
    /// Quipu.
    pub fn partition(&self, partition: &Partition) -> Result<Vec<Device>> {
        crate::process::check()?;
        let driver = &self.0.driver;
        let mut parts = driver.partition(self.0.index, partition)?.into_iter();
        let mut devices = Vec::with_capacity(parts.len());
        while let Some((number, properties)) = parts.next() {
            match Self::new(driver, number, properties, Some(self.clone())) {
                Ok(device) => devices.push(device),
                Err(error) => {
                    // Those that are devices already are forgotten as these are dropped.
                    for number in once(number).chain(parts.map(|(number, _)| number)) {
                        // SAFETY: `partition` has just given the number, and no device was made of
                        // it.
                        unsafe { driver.forget_part(number) };
                    }
                    return Err(error);
                }
            }
        }
        Ok(devices)
    }

    /// The reason for which the device is lost, if it is.
    #[must_use]
    pub fn lost(&self) -> Option<&Error> {
        self.0.lost.get()
    }

    /// Marks the device as lost: from now on, enqueues to it fail with this cause. Called by its
    /// driver, which fails the commands that it holds.
    pub(crate) fn mark_lost(&self, cause: Error) {
        let _ = self.0.lost.set(cause);
        crate::process::note_loss();
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl Eq for Device {}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}:{} '{}'",
            self.driver_name(),
            self.0.index,
            self.name()
        )
    }
}
