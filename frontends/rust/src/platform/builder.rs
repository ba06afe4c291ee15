//! The builder of platforms, which starts their drivers.

use super::embedded::{self, Pool, Started, devices_of, no_device};
use super::{Platform, Unavailable};
use quipu_driver_cpu::{Options, SerialDriver};
#[cfg(feature = "sim")]
use quipu_driver_sim::{SimDriver, engine};
use quipu_environment as environment;
use quipu_scheduler::driver::Driver;
use quipu_scheduler::said::say;
use quipu_scheduler::{Result, process};
use std::sync::Arc;

/// The drivers of a platform to be built.
#[must_use = "a platform is made by `build`"]
pub struct PlatformBuilder {
    embedded: bool,
    #[cfg(feature = "cuda")]
    cuda: Option<bool>,
    #[cfg(feature = "opencl")]
    opencl: Option<bool>,
    cpu: Option<Options>,
    drivers: Vec<Arc<dyn Driver>>,
    #[cfg(feature = "sim")]
    machines: Vec<engine::Configuration>,
    #[cfg(feature = "remote")]
    nodes: Vec<String>,
    asks_for_nodes: bool,
}

impl PlatformBuilder {
    pub(super) fn new() -> Self {
        Self {
            embedded: true,
            #[cfg(feature = "cuda")]
            cuda: None,
            #[cfg(feature = "opencl")]
            opencl: None,
            cpu: None,
            drivers: Vec::new(),
            #[cfg(feature = "sim")]
            machines: Vec::new(),
            #[cfg(feature = "remote")]
            nodes: Vec::new(),
            asks_for_nodes: true,
        }
    }

    /// Leaves the embedded drivers out: the process's CPU pool, the serial device,
    /// and CUDA and OpenCL, unless asked for ([`cuda`](PlatformBuilder::cuda),
    /// [`opencl`](PlatformBuilder::opencl)).
    pub fn without_embedded(mut self) -> Self {
        self.embedded = false;
        self
    }

    /// Sets whether the devices of the system's OpenCL loader are listed. Without this call they
    /// are, unless `QUIPU_OPENCL` is `off` or the embedded drivers are left out. A machine without
    /// a loader has none, which is no error; [`Platform::unavailable`] says why, of a platform that
    /// was [built](PlatformBuilder::build_available) with it.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # fn main() -> quipu::Result<()> {
    /// let platform = Platform::builder().opencl(false).build()?;
    /// assert!(platform.devices().iter().all(|device| device.driver_name() != "opencl"));
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "opencl")]
    pub fn opencl(mut self, listed: bool) -> Self {
        self.opencl = Some(listed);
        self
    }

    /// Sets whether the devices of the system's CUDA driver are listed. Without this call they are,
    /// unless `QUIPU_CUDA` is `off` or the embedded drivers are left out. A machine without such a
    /// driver has none, which is no error; [`Platform::unavailable`] says why, of a platform that
    /// was [built](PlatformBuilder::build_available) with it.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # fn main() -> quipu::Result<()> {
    /// let platform = Platform::builder().cuda(false).build()?;
    /// assert!(platform.devices().iter().all(|device| device.driver_name() != "cuda"));
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "cuda")]
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

    /// Adds a driver that was started: of this project ([`drivers`](crate::drivers)) or from
    /// anywhere else. A program that keeps a clone of it can still speak to it.
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
    #[cfg(feature = "sim")]
    pub fn simulated(mut self, machine: engine::Configuration) -> Self {
        self.machines.push(machine);
        self
    }

    /// Adds the devices of a node that was paired with (`quipu pair`), by its name or address, or
    /// of `all` of them. Without a word of it, those are added that `QUIPU_NODES` names, or else
    /// the file `config` in Quipu's folder, unless the embedded drivers are left out.
    #[cfg(feature = "remote")]
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
    /// If a driver cannot be started, a variable of the environment makes no sense (if that has a
    /// say: without [the embedded drivers](PlatformBuilder::without_embedded) it has none), or this
    /// process was forked from one that used Quipu.
    pub fn build(self) -> Result<Platform> {
        if let Some(refused) = self.refusals().into_iter().next() {
            return Err(refused.error);
        }
        let mut platform = Platform {
            devices: Vec::new(),
            unavailable: Vec::new(),
        };
        for (driver, devices) in self.start() {
            match devices {
                // A machine without CUDA or OpenCL is as good as one with.
                Err(_) if [embedded::CUDA, embedded::OPENCL].contains(&driver) => {}
                // Of all nodes, those that are there.
                Err(error) if driver == embedded::ONE_OF_ALL => {
                    say(format_args!("quipu: goes on without a node: {error}"));
                    let driver = embedded::REMOTE;
                    platform.unavailable.push(Unavailable { driver, error });
                }
                devices => platform.devices.extend(devices?),
            }
        }
        Ok(platform)
    }

    /// The platform of those drivers that can be started and have a device, for programs that take
    /// any drivers; [`Platform::unavailable`] lists the others, with the reasons.
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
            unavailable: self.refusals(),
        };
        if process::is_forked() {
            return platform;
        }
        let refused: Vec<_> = platform.unavailable.iter().map(|it| it.driver).collect();
        for (driver, devices) in self.start() {
            let error = match devices {
                // For the reason that it was refused for.
                Err(_) if refused.contains(&driver) => continue,
                Ok(devices) if devices.is_empty() => no_device(),
                Ok(devices) => {
                    platform.devices.extend(devices);
                    continue;
                }
                Err(error) => error,
            };
            let driver = match driver {
                embedded::ONE_OF_ALL => embedded::REMOTE,
                driver => driver,
            };
            platform.unavailable.push(Unavailable { driver, error });
        }
        platform
    }

    /// The drivers that are asked for and cannot be had, with the reasons, as far as these are
    /// known before anything is started.
    fn refusals(&self) -> Vec<Unavailable> {
        if let Err(error) = process::check() {
            return vec![Unavailable {
                driver: "cpu",
                error,
            }];
        }
        if !self.embedded {
            return Vec::new();
        }
        let misused = environment::misused();
        let refused = misused.map(|misused| Unavailable {
            driver: misused.concerns,
            error: misused.into(),
        });
        refused.collect()
    }

    /// Starts the drivers as they are asked for, each as the one before it has been taken: their
    /// names, and their devices.
    fn start(self) -> impl Iterator<Item = Started> {
        let mut starts: Vec<Box<dyn FnOnce() -> Vec<Started>>> = Vec::new();
        let pool = match self.cpu {
            Some(options) => Some(Pool::Own(options)),
            None => self.embedded.then_some(Pool::Shared),
        };
        if let Some(pool) = pool {
            starts.push(Box::new(|| vec![("cpu", pool.devices())]));
        }
        if self.embedded {
            starts.push(Box::new(|| vec![devices_of(Arc::new(SerialDriver::new()))]));
        }
        #[cfg(feature = "sim")]
        for machine in self.machines {
            starts.push(Box::new(|| match SimDriver::start(machine) {
                Ok(driver) => vec![devices_of(driver)],
                Err(error) => vec![("sim", Err(error))],
            }));
        }
        for driver in self.drivers {
            starts.push(Box::new(|| vec![devices_of(driver)]));
        }
        // A value that makes no sense was refused before.
        #[cfg(any(feature = "cuda", feature = "opencl"))]
        let asked = |said: Option<bool>, variable: &environment::Variable<bool>| {
            said.unwrap_or_else(|| self.embedded && matches!(variable.get(), Ok(None | Some(true))))
        };
        #[cfg(feature = "cuda")]
        if asked(self.cuda, &environment::CUDA) {
            starts.push(Box::new(|| {
                vec![(embedded::CUDA, embedded::cuda_devices())]
            }));
        }
        #[cfg(feature = "opencl")]
        if asked(self.opencl, &environment::OPENCL) {
            starts.push(Box::new(|| {
                vec![(embedded::OPENCL, embedded::opencl_devices())]
            }));
        }
        let may_ask = self.embedded && self.asks_for_nodes;
        #[cfg(feature = "remote")]
        starts.push(Box::new(move || {
            embedded::node_devices(&self.nodes, may_ask)
        }));
        #[cfg(not(feature = "remote"))]
        if may_ask {
            starts.push(Box::new(embedded::without_nodes));
        }
        starts.into_iter().flat_map(|start| start())
    }
}
