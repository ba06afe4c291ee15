//! Where the devices come from.

use quipu_core::error::Result;
use quipu_core::{Device, Driver, Partition, SpaceId};
use quipu_driver_cpu::{CpuDriver, Options, SerialDriver};
use std::num::NonZero;
use std::sync::Arc;

/// Makes fresh devices of a driver to test.
pub trait Fixture: Sync {
    /// What is tested, for messages.
    fn name(&self) -> String;

    /// Fresh devices: of a driver, or of several, that nobody has used yet. The
    /// first is the one that most cases use; those about several use them all.
    fn devices(&self) -> Vec<Device>;

    /// True if a command of a queue of higher priority overtakes ready ones of
    /// lower priority.
    fn honours_priorities(&self) -> bool {
        true
    }
}

/// What the first device must be able to do for a case to make sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing in particular.
    Anything,
    /// The host goes on while a command runs.
    Asynchronous,
    /// Two commands run at once.
    Concurrency,
    /// One command runs at a time, while the host goes on, by priority.
    OneAtATime,
    /// Commands run on the calling thread, which cannot wait for itself.
    CallerRuns,
    /// Several devices.
    SeveralDevices,
}

impl Needs {
    pub(crate) fn met_by(self, fixture: &dyn Fixture, devices: &[Device]) -> bool {
        let Some(first) = devices.first().map(Device::properties) else {
            return false;
        };
        match self {
            Self::Anything => true,
            Self::Asynchronous => !first.caller_runs,
            Self::Concurrency => !first.caller_runs && first.concurrent_commands >= 2,
            Self::OneAtATime => {
                !first.caller_runs && first.concurrent_commands == 1 && fixture.honours_priorities()
            }
            Self::CallerRuns => first.caller_runs,
            Self::SeveralDevices => devices.len() > 1,
        }
    }
}

/// A fixture made of a name and a function.
pub struct Made<F> {
    name: String,
    make: F,
    priorities: bool,
}

/// A fixture whose devices `make` makes, afresh each time.
///
/// ```
/// use quipu_conformance::fixture;
/// use quipu_core::{Device, Driver};
/// use std::sync::Arc;
///
/// let serial = fixture::of("serial", || {
///     let driver: Arc<dyn Driver> = Arc::new(quipu_driver_cpu::SerialDriver::new());
///     Device::all_of(&driver)
/// });
/// assert_eq!(quipu_conformance::Fixture::devices(&serial).len(), 1);
/// ```
pub fn of<F: Fn() -> Result<Vec<Device>> + Sync>(name: &str, make: F) -> Made<F> {
    Made {
        name: name.to_owned(),
        make,
        priorities: true,
    }
}

impl<F> Made<F> {
    /// Says that the driver takes no notice of priorities.
    #[must_use]
    pub fn without_priorities(mut self) -> Self {
        self.priorities = false;
        self
    }
}

impl<F: Fn() -> Result<Vec<Device>> + Sync> Fixture for Made<F> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn devices(&self) -> Vec<Device> {
        (self.make)().expect("the fixture's driver starts")
    }

    fn honours_priorities(&self) -> bool {
        self.priorities
    }
}

fn start_pool(workers: usize) -> Result<Arc<dyn Driver>> {
    let workers = NonZero::new(workers).unwrap_or(NonZero::<usize>::MIN);
    Ok(CpuDriver::start(Options::new().workers(workers))?)
}

/// The CPU's pool with so many workers.
#[must_use]
pub fn pool(workers: usize) -> impl Fixture {
    of(&format!("a pool of {workers}"), move || {
        Device::all_of(&start_pool(workers)?)
    })
}

/// A part of `workers` of a pool of `all` workers.
#[must_use]
pub fn part_of_pool(workers: u32, all: usize) -> impl Fixture {
    of(
        &format!("{workers} workers of a pool of {all}"),
        move || {
            let devices = Device::all_of(&start_pool(all)?)?;
            devices[0].partition(&Partition::ByCounts(vec![workers]))
        },
    )
}

/// The serial device.
#[must_use]
pub fn serial() -> impl Fixture {
    of("the serial device", || {
        let driver: Arc<dyn Driver> = Arc::new(SerialDriver::new());
        Device::all_of(&driver)
    })
}

/// Devices with memory of their own, one thread each.
#[must_use]
pub fn islands(count: u32) -> impl Fixture {
    of(&format!("{count} islands"), move || {
        let driver: Arc<dyn Driver> = crate::island::IslandDriver::start(count);
        Device::all_of(&driver)
    })
    .without_priorities()
}

/// Several devices in one context, in three memory spaces: a pool, a part of it,
/// and two islands.
#[must_use]
pub fn mixed(workers: usize) -> impl Fixture {
    of(
        &format!("a pool of {workers} with two islands"),
        move || {
            let mut devices = Device::all_of(&start_pool(workers)?)?;
            let parts = devices[0].partition(&Partition::ByCounts(vec![1]))?;
            devices.extend(parts);
            let driver: Arc<dyn Driver> = crate::island::IslandDriver::start(2);
            devices.extend(Device::all_of(&driver)?);
            Ok(devices)
        },
    )
}

/// True if all devices work in one memory space.
#[must_use]
pub fn share_one_space(devices: &[Device]) -> bool {
    let first: Option<SpaceId> = devices.first().map(Device::space);
    devices.iter().all(|device| Some(device.space()) == first)
}
