//! Quipu's CPU driver: a work-stealing pool and the serial device.
//!
//! | module | content |
//! |---|---|
//! | `pool` | the threads: deques, sleep, split launches, costs |
//! | `queue` | the driver contract over the pool |
//! | [`serial`] | the device that is the caller's thread |
//! | `device` | the properties of the devices |
//! | `pin` | pinning threads to cores |
//!
//! Options come from the builder or, where it does not set them, from the
//! environment: `QUIPU_CPU_WORKERS=N` sets the number of workers,
//! `QUIPU_CPU_PIN=0,2,4-7` pins them to these cores in turn.

#![cfg_attr(not(test), warn(clippy::disallowed_macros, clippy::disallowed_methods))]

mod device;
mod pin;
mod pool;
mod queue;
pub mod serial;

use pool::{MAX_WORKERS, Pool};
pub use queue::CpuQueue;
use quipu_environment::{CPU_PIN, CPU_WORKERS};
use quipu_scheduler::DeviceProperties;
use quipu_scheduler::error::{Error, ErrorKind, Result};
use quipu_scheduler::panics::quietly;
pub use serial::SerialDriver;
use std::ffi::OsString;
use std::num::NonZero;
use std::sync::Arc;

/// Options of the CPU driver.
#[derive(Clone, Debug, Default)]
pub struct Options {
    workers: Option<NonZero<usize>>,
    pin: Option<Vec<usize>>,
}

impl Options {
    /// The defaults: a worker per core, not pinned, unless the environment says
    /// otherwise.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of workers, which may be more than there are cores.
    #[must_use]
    pub fn workers(mut self, workers: NonZero<usize>) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Pins the workers to these cores in turn. A thread that helps while it waits for their
    /// commands is not pinned.
    #[must_use]
    pub fn pin(mut self, cores: Vec<usize>) -> Self {
        self.pin = Some(cores);
        self
    }

    /// Fills in options that are not set from the environment.
    fn resolve(
        self,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<(NonZero<usize>, Vec<usize>)> {
        let workers = match self.workers {
            Some(workers) => workers,
            None => CPU_WORKERS
                .get_from(&environment)?
                .unwrap_or_else(|| usual_workers(std::thread::available_parallelism().ok())),
        };
        let (pin, said) = match self.pin {
            Some(cores) => (cores, "`Options::pin`"),
            None => match CPU_PIN.get_from(&environment)? {
                Some(cores) => (cores, CPU_PIN.name()),
                None => return Ok((workers, Vec::new())),
            },
        };
        if let Some((core, error)) = pin::first_refused(&pin) {
            return Err(wrong(format!(
                "{said}: no worker can be pinned to core {core} ({error}); name cores that this process may use"
            )));
        }
        Ok((workers, pin))
    }
}

/// The usual number of workers: one for each thread that the machine runs at once, or as many as
/// are possible.
fn usual_workers(threads: Option<NonZero<usize>>) -> NonZero<usize> {
    let threads = threads.map_or(1, NonZero::get);
    NonZero::new(threads.min(MAX_WORKERS)).unwrap_or(NonZero::<usize>::MIN)
}

fn wrong(problem: String) -> Error {
    ErrorKind::InvalidArgument {
        what: "start the CPU driver",
        problem,
    }
    .into()
}

/// The CPU driver: one pool of workers, which knows the devices that are subsets
/// of it. Its threads start with the first context.
pub struct CpuDriver {
    pool: Arc<Pool>,
    properties: DeviceProperties,
}

impl CpuDriver {
    /// Makes a pool.
    ///
    /// # Errors
    /// If an option or its environment variable makes no sense; in a child of a process that used
    /// Quipu before it forked.
    pub fn start(options: Options) -> Result<Arc<Self>> {
        quipu_scheduler::process::check()?;
        let (workers, pin) = options.resolve(|name| std::env::var_os(name))?;
        // The workers know their driver by its address, so that comes first.
        let mut driver = Arc::<Self>::new_uninit();
        let owner = Arc::as_ptr(&driver).cast::<()>();
        let pool = Pool::new(owner, workers, &pin)?;
        Arc::get_mut(&mut driver)
            .expect("nobody else has the driver yet")
            .write(Self {
                pool,
                properties: device::properties(device::model(), workers.get(), false),
            });
        // SAFETY: just written.
        let driver = unsafe { driver.assume_init() };
        driver.pool.keep_address(&driver);
        quietly(|| tracing::debug!(workers, ?pin, "CPU pool made"));
        Ok(driver)
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The properties of the whole pool.
    pub(crate) fn properties(&self) -> &DeviceProperties {
        &self.properties
    }
}

impl Drop for CpuDriver {
    fn drop(&mut self) {
        if quipu_scheduler::process::is_forked() {
            return;
        }
        self.pool.end();
    }
}

impl std::fmt::Debug for CpuDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CpuDriver")
            .field("workers", &self.properties.multiprocessors)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_fills_in_what_is_not_set() {
        let environment = |name: &str| match name {
            name if name == CPU_WORKERS.name() => Some("3".into()),
            _ => None,
        };
        let (workers, pin) = Options::new().resolve(environment).unwrap();
        assert_eq!((workers.get(), pin), (3, vec![]));
        let five = NonZero::new(5).unwrap();
        let (workers, _) = Options::new().workers(five).resolve(environment).unwrap();
        assert_eq!(workers, five);
    }

    #[test]
    fn a_machine_of_more_threads_than_workers_are_possible_has_as_many_as_are() {
        let usual = |threads| usual_workers(NonZero::new(threads)).get();
        assert_eq!([0, 1, 256, 257, 768].map(usual), [1, 1, 256, 256, 256]);
        // A request for more is refused.
        let more = Options::new().workers(NonZero::new(257).unwrap());
        let error = CpuDriver::start(more).map(drop).unwrap_err().to_string();
        assert!(error.contains("at most 256"), "{error}");
    }

    #[test]
    fn what_makes_no_sense_is_an_error_that_names_the_variable() {
        let said = |variable: &'static str, value: &'static str| {
            let environment = |name: &str| (name == variable).then(|| value.into());
            Options::new().resolve(environment).unwrap_err().to_string()
        };
        for value in ["none", "0", "257", "-1"] {
            let error = said(CPU_WORKERS.name(), value);
            let expected = format!("QUIPU_CPU_WORKERS={value}: expected a number from 1 to 256");
            assert!(error.ends_with(&expected), "{error}");
        }
        let error = said(CPU_PIN.name(), "0-");
        assert!(
            error.contains("QUIPU_CPU_PIN=0-: expected cores"),
            "{error}"
        );
        // No machine has so many.
        let error = said(CPU_PIN.name(), "65000");
        assert!(
            error.contains("QUIPU_CPU_PIN: no worker can be pinned to core 65000"),
            "{error}"
        );
        let options = Options::new().pin(vec![65_000]);
        let error = options.resolve(|_| None).unwrap_err().to_string();
        assert!(
            error.contains("`Options::pin`: no worker can be pinned to core 65000"),
            "{error}"
        );
    }
}
