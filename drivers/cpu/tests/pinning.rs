//! Workers that are pinned run on the cores that were asked for, and nowhere
//! else.
#![cfg(target_os = "linux")]

use quipu_driver_cpu::{CpuDriver, Options};
use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{Context, Device, Driver, QueueOptions, RawArgument, Request, Result};
use std::num::NonZero;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

/// The cores on which the calling thread may run.
fn allowed() -> Vec<usize> {
    // SAFETY: an all-zero set is valid, and is as large as is said; cores are
    // looked up within it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        assert_eq!(libc::sched_getaffinity(0, size, &raw mut set), 0);
        (0..libc::CPU_SETSIZE as usize)
            .filter(|core| libc::CPU_ISSET(*core, &set))
            .collect()
    }
}

/// A kernel whose groups tell which worker runs them and where that may run.
struct Where(Sender<(String, Vec<usize>)>);

impl NativeKernel for Where {
    fn name(&self) -> &'static str {
        "where"
    }

    unsafe fn run(&self, _: &[RawArgument], groups: Range<u32>) -> Result<()> {
        for _ in groups {
            let worker = std::thread::current().name().unwrap_or("?").to_owned();
            self.0.send((worker, allowed())).expect("the test listens");
        }
        Ok(())
    }
}

/// The places in which the groups of some launches on a pool ran, as they tell.
fn told(workers: usize, pin: &[usize]) -> Vec<(String, Vec<usize>)> {
    let workers = NonZero::new(workers).expect("a worker");
    let options = Options::new().workers(workers).pin(pin.to_vec());
    let driver: Arc<dyn Driver> = CpuDriver::start(options).expect("a pool");
    let devices = Device::all_of(&driver).expect("its devices");
    let context = Context::new(&devices).expect("a context");
    let queue = context
        .queue(&devices[0], QueueOptions::default())
        .expect("a queue");
    let (tell, told) = channel();
    for _ in 0..16 {
        queue
            .post_launch(Where(tell.clone()), 64, &Request::default())
            .expect("a launch");
    }
    drop(tell);
    // Not by waiting for the queue: this thread, which nobody pinned, would help.
    told.iter().collect()
}

#[test]
fn pinned_workers_stay_on_their_cores() {
    let cores = allowed();
    let (first, last) = (cores[0], cores[cores.len() - 1]);
    // Only where there are several cores can this tell a pinned worker from
    // another; everywhere it shows that the pool works with one.
    for core in [first, last] {
        let seen = told(2, &[core]);
        assert_eq!(seen.len(), 16 * 64);
        for (worker, at) in seen {
            assert_eq!(at, [core], "{worker}");
        }
    }
    for (worker, at) in told(2, &[last, first]) {
        let expected = match worker.as_str() {
            "quipu-cpu-0" => last,
            "quipu-cpu-1" => first,
            _ => panic!("{worker} is no worker"),
        };
        assert_eq!(at, [expected], "{worker}");
    }
    for (worker, at) in told(2, &[]) {
        assert_eq!(at, cores, "{worker}");
    }
}
