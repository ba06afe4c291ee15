//! The platform: the drivers that a program has registered, and their devices.
//!
//! There is no default platform, device or queue: whoever wants one makes one
//! and passes it on. One thing is shared behind the scenes: the *CPU pool is
//! one per process*, however many platforms there are, because two pools of a
//! worker per core would only be in each other's way. It is started by the first
//! platform that has it, with the options of the environment
//! (`QUIPU_CPU_WORKERS`, `QUIPU_CPU_PIN`), and sleeps when it has nothing to do.
//! A platform that asks for [a pool of its own](PlatformBuilder::cpu) gets one.
//!
//! The OpenCL driver is one per process as well, with every device of the
//! system's loader, as the first platform found them. Finding them loads the
//! vendors' libraries, which is most of what a process's first platform costs:
//! about 45 ms with PoCL 3.1 on two cores, under 1 ms without a loader. A
//! program that has no use for them says so ([`PlatformBuilder::opencl`]), or its
//! user does: `QUIPU_OPENCL=off`.
//!
//! So is the CUDA driver ([`PlatformBuilder::cuda`], `QUIPU_CUDA=off`). A GPU of
//! NVIDIA's is then a device of two drivers, which [`Device::driver_name`] tells
//! apart; those of CUDA come first, and are preferred.

use crate::context::Context;
use crate::device::Device;
use quipu_core::driver::Driver;
use quipu_core::{Error, ErrorKind, Result};
use quipu_driver_cpu::{CpuDriver, Options, SerialDriver};
use quipu_driver_cuda::CudaDriver;
use quipu_driver_opencl::OpenClDriver;
use quipu_driver_remote::paired;
use quipu_driver_sim::{SimDriver, engine};
use std::sync::{Arc, OnceLock};

/// A set of drivers and their devices.
#[derive(Clone, Debug)]
pub struct Platform {
    devices: Vec<Device>,
    unavailable: Vec<Unavailable>,
}

/// A driver that gives no device; see [`PlatformBuilder::build_available`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unavailable {
    /// The driver's name.
    pub driver: &'static str,
    /// Why it gives none.
    pub error: Error,
}

impl Platform {
    /// The platform of the embedded drivers: the CPU pool, the serial device, and
    /// what there is of CUDA and OpenCL.
    ///
    /// # Errors
    /// If the pool cannot be started: an option in the environment makes no
    /// sense, or the system gives no threads.
    pub fn new() -> Result<Self> {
        Self::builder().build()
    }

    /// A platform to which drivers can be added.
    pub fn builder() -> PlatformBuilder {
        PlatformBuilder {
            embedded: true,
            cuda: None,
            opencl: None,
            cpu: None,
            drivers: Vec::new(),
            machines: Vec::new(),
            nodes: Vec::new(),
            asks_for_nodes: true,
        }
    }

    /// Its devices, in the order in which their drivers were registered; the
    /// CPU pool first, then the serial device, last those of CUDA and of OpenCL.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The drivers that it goes without, in the order in which they were
    /// registered.
    #[must_use]
    pub fn unavailable(&self) -> &[Unavailable] {
        &self.unavailable
    }

    /// The first device of a driver.
    ///
    /// # Errors
    /// If there is none; says which drivers there are.
    pub fn device(&self, driver: &str) -> Result<Device> {
        let found = self
            .devices
            .iter()
            .find(|device| device.driver_name() == driver);
        found.cloned().ok_or_else(|| {
            let mut names: Vec<_> = self.devices.iter().map(Device::driver_name).collect();
            names.dedup();
            ErrorKind::InvalidArgument {
                what: "choose a device",
                problem: format!(
                    "no driver is called '{driver}'; there are: {}",
                    names.join(", ")
                ),
            }
            .into()
        })
    }

    /// A context of all its devices.
    ///
    /// # Errors
    /// If it has no devices, or one is lost.
    pub fn context(&self) -> Result<Context> {
        Context::new(&self.devices)
    }
}

/// What a platform is to consist of.
#[must_use = "a platform is made by `build`"]
pub struct PlatformBuilder {
    embedded: bool,
    cuda: Option<bool>,
    opencl: Option<bool>,
    cpu: Option<Options>,
    drivers: Vec<Arc<dyn Driver>>,
    machines: Vec<engine::Configuration>,
    nodes: Vec<String>,
    asks_for_nodes: bool,
}

impl PlatformBuilder {
    /// Leaves the embedded drivers out: the process's CPU pool, the serial device,
    /// and CUDA and OpenCL, unless asked for ([`cuda`](PlatformBuilder::cuda),
    /// [`opencl`](PlatformBuilder::opencl)).
    pub fn without_embedded(mut self) -> Self {
        self.embedded = false;
        self
    }

    /// Whether the devices of the system's OpenCL loader are listed. Without a
    /// word of it they are, unless `QUIPU_OPENCL` is `off` or the embedded drivers
    /// are left out. A machine without a loader has none, which is no error;
    /// [`Platform::unavailable`] says why, of a platform that was
    /// [built](PlatformBuilder::build_available) with it.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # fn main() -> quipu::Result<()> {
    /// let platform = Platform::builder().opencl(false).build()?;
    /// assert!(platform.devices().iter().all(|device| device.driver_name() != "opencl"));
    /// # Ok(()) }
    /// ```
    pub fn opencl(mut self, listed: bool) -> Self {
        self.opencl = Some(listed);
        self
    }

    /// Whether the devices of the system's CUDA driver are listed. Without a word
    /// of it they are, unless `QUIPU_CUDA` is `off` or the embedded drivers are left
    /// out. A machine without such a driver has none, which is no error;
    /// [`Platform::unavailable`] says why, of a platform that was
    /// [built](PlatformBuilder::build_available) with it.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # fn main() -> quipu::Result<()> {
    /// let platform = Platform::builder().cuda(false).build()?;
    /// assert!(platform.devices().iter().all(|device| device.driver_name() != "cuda"));
    /// # Ok(()) }
    /// ```
    pub fn cuda(mut self, listed: bool) -> Self {
        self.cuda = Some(listed);
        self
    }

    /// Gives the platform a CPU pool of its own, with these options, in place of
    /// the one that the process shares. Its threads end when the platform and
    /// whatever was made of it are gone.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// use quipu::drivers::Options;
    /// # fn main() -> quipu::Result<()> {
    /// let two = std::num::NonZero::new(2).unwrap();
    /// let platform = Platform::builder().cpu(Options::new().workers(two)).build()?;
    /// assert_eq!(platform.device("cpu")?.properties().multiprocessors, 2);
    /// # Ok(()) }
    /// ```
    pub fn cpu(mut self, options: Options) -> Self {
        self.cpu = Some(options);
        self
    }

    /// Adds a driver that was started: of this project
    /// ([`drivers`](crate::drivers)) or from anywhere else. Whoever keeps a
    /// clone of it can still speak to it.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// use quipu::{drivers::SimDriver, simulation::Configuration};
    /// # fn main() -> quipu::Result<()> {
    /// let machine = SimDriver::start(Configuration::shared_memory(1, 1 << 20))?;
    /// let context = Platform::builder().driver(machine.clone()).build()?.device("sim")?.context()?;
    /// let buffer = context.buffer(&[1, 2, 3])?;
    /// context.queue(&context.fastest())?.fill(&buffer, 7)?.wait()?;
    /// assert!(machine.races() == 0 && !machine.log().is_empty());
    /// # Ok(()) }
    /// ```
    pub fn driver(mut self, driver: Arc<dyn Driver>) -> Self {
        self.drivers.push(driver);
        self
    }

    /// Adds a machine of simulated accelerators. To arm its faults or read its
    /// log, start a [`SimDriver`] and add [that](PlatformBuilder::driver).
    pub fn simulated(mut self, machine: engine::Configuration) -> Self {
        self.machines.push(machine);
        self
    }

    /// Adds the devices of a node that was paired with (`quipu pair`), by its name or address, or of `all` of them. Without
    /// a word of it, those are added that `QUIPU_NODES` names, or else the file `config` in Quipu's folder, unless the
    /// embedded drivers are left out.
    pub fn node(mut self, name: &str) -> Self {
        self.nodes.push(name.to_owned());
        self
    }

    /// Leaves out the nodes that the environment or the file `config` asks for.
    pub fn without_nodes(mut self) -> Self {
        self.asks_for_nodes = false;
        self
    }

    /// The platform.
    ///
    /// # Errors
    /// If a driver cannot be started.
    pub fn build(self) -> Result<Platform> {
        let mut platform = Platform {
            devices: Vec::new(),
            unavailable: Vec::new(),
        };
        for (driver, devices) in self.start() {
            match devices {
                // A machine without CUDA or OpenCL is as good as one with.
                Err(_) if driver == CUDA || driver == OPENCL => {}
                devices => platform.devices.extend(devices?),
            }
        }
        Ok(platform)
    }

    /// The platform of those drivers that can be started and have a device, for
    /// programs that take what there is;
    /// [`Platform::unavailable`] lists the others, with the reasons.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// let platform = Platform::builder().build_available();
    /// for driver in platform.unavailable() {
    ///     eprintln!("without {}: {}", driver.driver, driver.error);
    /// }
    /// ```
    #[must_use]
    pub fn build_available(self) -> Platform {
        let mut platform = Platform {
            devices: Vec::new(),
            unavailable: Vec::new(),
        };
        for (driver, devices) in self.start() {
            let error = match devices {
                Ok(devices) if devices.is_empty() => no_device(),
                Ok(devices) => {
                    platform.devices.extend(devices);
                    continue;
                }
                Err(error) => error,
            };
            platform.unavailable.push(Unavailable { driver, error });
        }
        platform
    }

    /// Starts the drivers as they are asked for: their names, and their devices.
    fn start(self) -> impl Iterator<Item = (&'static str, Result<Vec<Device>>)> {
        let devices = |driver: Arc<dyn Driver>| (driver.name(), Device::all_of(&driver));
        let is_on = |name| std::env::var_os(name).is_none_or(|value| value != "off");
        let asked = |said: Option<bool>, name| said.unwrap_or_else(|| self.embedded && is_on(name));
        let cuda = asked(self.cuda, "QUIPU_CUDA");
        let cuda = cuda.then(|| std::iter::once_with(|| (CUDA, cuda_devices())));
        let opencl = asked(self.opencl, "QUIPU_OPENCL");
        let opencl = opencl.then(|| std::iter::once_with(|| (OPENCL, opencl_devices())));
        let pool = match self.cpu {
            Some(options) => Some(Pool::Own(options)),
            None => self.embedded.then_some(Pool::Shared),
        };
        let pool = pool.map(|pool| std::iter::once_with(|| ("cpu", pool.devices())));
        let serial = self
            .embedded
            .then(|| std::iter::once_with(move || devices(Arc::new(SerialDriver::new()))));
        let machines = self.machines.into_iter().map(move |machine| {
            let driver = SimDriver::start(machine);
            driver.map_or_else(|error| ("sim", Err(error)), |driver| devices(driver))
        });
        let registered = self.drivers.into_iter().map(devices);
        let nodes = match (&self.nodes[..], self.embedded && self.asks_for_nodes) {
            ([], true) => paired::asked_for(),
            ([all], _) if all == "all" => paired::all(),
            (names, _) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                paired::find(&names)
            }
        };
        let (nodes, unknown) = match nodes {
            Ok(nodes) => (nodes, None),
            Err(error) => (Vec::new(), Some((REMOTE, Err(error)))),
        };
        let nodes = std::iter::once_with(move || {
            let (driver, errors) = paired::connect_to(&nodes);
            let driver = driver.map(|driver| {
                driver.map_or_else(|error| (REMOTE, Err(error)), |driver| devices(driver))
            });
            let errors = errors.into_iter().map(|error| (REMOTE, Err(error)));
            driver.into_iter().chain(errors)
        })
        .flatten();
        pool.into_iter()
            .flatten()
            .chain(serial.into_iter().flatten())
            .chain(machines)
            .chain(registered)
            .chain(cuda.into_iter().flatten())
            .chain(opencl.into_iter().flatten())
            .chain(unknown)
            .chain(nodes)
    }
}

fn no_device() -> Error {
    ErrorKind::InvalidArgument {
        what: "start the driver",
        problem: "it found no device".to_owned(),
    }
    .into()
}

/// The name of the driver of nodes' devices.
const REMOTE: &str = "remote";

/// The CUDA driver's name.
const CUDA: &str = "cuda";

/// The process's CUDA devices.
fn cuda_devices() -> Result<Vec<Device>> {
    static SHARED: OnceLock<Result<Vec<Device>>> = OnceLock::new();
    let start = || {
        let driver: Arc<dyn Driver> = CudaDriver::start()?;
        Device::all_of(&driver)
    };
    SHARED.get_or_init(start).clone()
}

/// The OpenCL driver's name.
const OPENCL: &str = "opencl";

/// The process's OpenCL devices.
fn opencl_devices() -> Result<Vec<Device>> {
    static SHARED: OnceLock<Result<Vec<Device>>> = OnceLock::new();
    let start = || {
        let driver: Arc<dyn Driver> = OpenClDriver::start()?;
        Device::all_of(&driver)
    };
    SHARED.get_or_init(start).clone()
}

/// The CPU pool of a platform.
enum Pool {
    /// The process's; see the module.
    Shared,
    Own(Options),
}

impl Pool {
    fn devices(self) -> Result<Vec<Device>> {
        static SHARED: OnceLock<Result<Device>> = OnceLock::new();
        let device = match self {
            // Its parts, if somebody has split it, are not listed: they are
            // theirs.
            Self::Shared => SHARED.get_or_init(|| start_pool(Options::new())).clone(),
            Self::Own(options) => start_pool(options),
        };
        device.map(|device| vec![device])
    }
}

fn start_pool(options: Options) -> Result<Device> {
    let driver: Arc<dyn Driver> = CpuDriver::start(options)?;
    let first = Device::all_of(&driver)?.into_iter().next();
    first.ok_or_else(no_device)
}
