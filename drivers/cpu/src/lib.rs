//! Quipu's CPU driver: a work-stealing pool and the serial device.
//!
//! | module | what it is |
//! |---|---|
//! | `pool` | the threads: deques, sleep, split launches, costs |
//! | `queue` | the driver contract over the pool |
//! | [`serial`] | the device that is the caller's thread |
//! | `device` | what the devices are |
//!
//! Options come from the builder or, where it does not set them, from the
//! environment: `QUIPU_CPU_WORKERS=N` sets the number of workers,
//! `QUIPU_CPU_PIN=0,2,4-7` pins them to these cores in turn.

mod device;
mod pin;
mod pool;
mod queue;
pub mod serial;

use pool::{MAX_WORKERS, Pool};
pub use queue::CpuQueue;
use quipu_core::DeviceProperties;
use quipu_core::error::{Error, ErrorKind, Result};
pub use serial::SerialDriver;
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

    /// So many workers. May be more than there are cores.
    #[must_use]
    pub fn workers(mut self, workers: NonZero<usize>) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Pins the workers to these cores in turn. A thread that waits for what they have to do may help them, and is not pinned.
    #[must_use]
    pub fn pin(mut self, cores: Vec<usize>) -> Self {
        self.pin = Some(cores);
        self
    }

    /// Fills in what is not set from the environment.
    fn resolve(
        self,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<(NonZero<usize>, Vec<usize>)> {
        let bad = |variable: &str, value: &str, expected: &str| {
            wrong(format!("{variable}={value}: expected {expected}"))
        };
        let workers = match (self.workers, environment("QUIPU_CPU_WORKERS")) {
            (Some(workers), _) => workers,
            (None, Some(value)) => {
                let workers = value.trim().parse().ok();
                let workers =
                    workers.filter(|workers: &NonZero<usize>| workers.get() <= MAX_WORKERS);
                workers.ok_or_else(|| {
                    let expected = format!("a number from 1 to {MAX_WORKERS}");
                    bad("QUIPU_CPU_WORKERS", &value, &expected)
                })?
            }
            (None, None) => usual_workers(std::thread::available_parallelism().ok()),
        };
        let (pin, said) = match (self.pin, environment("QUIPU_CPU_PIN")) {
            (Some(cores), _) => (cores, "`Options::pin`".to_owned()),
            (None, Some(value)) => {
                let cores = parse_cores(&value)
                    .ok_or_else(|| bad("QUIPU_CPU_PIN", &value, "cores such as 0,2,4-7"))?;
                (cores, format!("QUIPU_CPU_PIN={value}"))
            }
            (None, None) => return Ok((workers, Vec::new())),
        };
        if let Some((core, error)) = pin::first_refused(&pin) {
            return Err(wrong(format!(
                "{said}: no worker can be pinned to core {core} ({error}); name cores that this process may use"
            )));
        }
        Ok((workers, pin))
    }
}

/// How many workers there are if nobody says: one for each thread that the machine runs at once, or as many as are possible.
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

/// Cores from a list such as `0,2,4-7`.
fn parse_cores(text: &str) -> Option<Vec<usize>> {
    let mut cores = Vec::new();
    for part in text.split(',').map(str::trim) {
        match part.split_once('-') {
            None => cores.push(part.parse().ok()?),
            Some((first, last)) => {
                let first: usize = first.trim().parse().ok()?;
                let last: usize = last.trim().parse().ok()?;
                if first > last || last > 1 << 16 {
                    return None;
                }
                cores.extend(first..=last);
            }
        }
    }
    Some(cores)
}

/// The CPU driver: one pool of workers, which knows the devices that are subsets
/// of it.
pub struct CpuDriver {
    pool: Arc<Pool>,
    properties: DeviceProperties,
}

impl CpuDriver {
    /// Starts a pool.
    ///
    /// # Errors
    /// If an option or its environment variable makes no sense, or a thread
    /// cannot be started.
    pub fn start(options: Options) -> Result<Arc<Self>> {
        let (workers, pin) = options.resolve(|name| std::env::var(name).ok())?;
        // The workers know their driver by its address, so that comes first.
        let mut driver = Arc::<Self>::new_uninit();
        let owner = Arc::as_ptr(&driver).cast::<()>();
        let pool = Pool::start(owner, workers, &pin)?;
        Arc::get_mut(&mut driver)
            .expect("nobody else has the driver yet")
            .write(Self {
                pool,
                properties: device::properties(device::model(), workers.get(), false),
            });
        // SAFETY: just written.
        let driver = unsafe { driver.assume_init() };
        tracing::debug!(workers, ?pin, "CPU pool started");
        Ok(driver)
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// What the whole pool is and can do.
    pub(crate) fn properties(&self) -> &DeviceProperties {
        &self.properties
    }
}

impl Drop for CpuDriver {
    fn drop(&mut self) {
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
    fn core_lists() {
        assert_eq!(parse_cores("0,2,4-7"), Some(vec![0, 2, 4, 5, 6, 7]));
        assert_eq!(parse_cores("3"), Some(vec![3]));
        for wrong in ["", "a", "3-1", "1-", "-", "1,,2", "0-99999999999"] {
            assert_eq!(parse_cores(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_environment_fills_in_what_is_not_set() {
        let environment = |name: &str| match name {
            "QUIPU_CPU_WORKERS" => Some("3".to_owned()),
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
        // Who asks for more is told.
        let more = Options::new().workers(NonZero::new(257).unwrap());
        let error = CpuDriver::start(more).map(drop).unwrap_err().to_string();
        assert!(error.contains("at most 256"), "{error}");
    }

    #[test]
    fn what_makes_no_sense_is_an_error_that_names_the_variable() {
        let said = |variable: &'static str, value: &'static str| {
            let environment = |name: &str| (name == variable).then(|| value.to_owned());
            Options::new().resolve(environment).unwrap_err().to_string()
        };
        for value in ["none", "0", "257", "-1"] {
            let error = said("QUIPU_CPU_WORKERS", value);
            let expected = format!("QUIPU_CPU_WORKERS={value}: expected a number from 1 to 256");
            assert!(error.ends_with(&expected), "{error}");
        }
        let error = said("QUIPU_CPU_PIN", "0-");
        assert!(
            error.contains("QUIPU_CPU_PIN=0-: expected cores"),
            "{error}"
        );
        // No machine has so many.
        let error = said("QUIPU_CPU_PIN", "65000");
        assert!(
            error.contains("QUIPU_CPU_PIN=65000: no worker can be pinned to core 65000"),
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
