//! The devices of the CPU's driver: a pool of several workers, and the serial one.

use std::fmt;
use std::num::NonZero;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use quipu_driver_cpu::{CpuDriver, Options, SerialDriver};
use quipu_kernel::{BlockScratch, GroupKernel};
use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{Context, Device, Driver, Error, Queue, QueueOptions, RawArgument, Request};

/// Workers of the pool, so that groups are run side by side and one after the other.
const WORKERS: NonZero<usize> = NonZero::new(3).unwrap();

/// A device.
pub(crate) struct CpuDevice {
    name: String,
    queue: Queue,
}

impl fmt::Debug for CpuDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl CpuDevice {
    /// Both.
    pub(crate) fn all() -> &'static [Self] {
        static ALL: OnceLock<Vec<CpuDevice>> = OnceLock::new();
        ALL.get_or_init(|| {
            let pool = CpuDriver::start(Options::new().workers(WORKERS)).unwrap();
            let drivers: [Arc<dyn Driver>; 2] = [pool, Arc::new(SerialDriver::new())];
            drivers.map(|driver| Self::of(&driver)).into()
        })
    }

    fn of(driver: &Arc<dyn Driver>) -> Self {
        let device = Device::all_of(driver).unwrap().remove(0);
        let context = Context::new(std::slice::from_ref(&device)).unwrap();
        Self {
            name: device.name().to_owned(),
            queue: context.queue(&device, QueueOptions::default()).unwrap(),
        }
    }

    /// Runs all work-groups of a launch.
    pub(crate) fn run(&self, launch: impl GroupKernel) {
        let groups = launch.group_count();
        let lent: &dyn GroupKernel = &launch;
        // SAFETY: the command is over when this returns, and runs nothing after that.
        let lent: &'static dyn GroupKernel = unsafe { std::mem::transmute(lent) };
        let event = self.queue.launch(Lent(lent), groups, &Request::default());
        event.unwrap().wait().unwrap();
    }
}

/// A launch that is there until it is over.
struct Lent(&'static dyn GroupKernel);

impl NativeKernel for Lent {
    fn name(&self) -> &'static str {
        "lent"
    }

    unsafe fn run(&self, _: &[RawArgument], groups: Range<u32>) -> Result<(), Error> {
        let groups = u64::from(groups.start)..u64::from(groups.end);
        let mut scratch = BlockScratch::new();
        // SAFETY: each group is run once: `NativeKernel::run` asks its caller for the same.
        let run = unsafe { self.0.run_groups(groups, &mut scratch) };
        // What fails ends the test, by way of the command's error.
        run.unwrap();
        Ok(())
    }
}
