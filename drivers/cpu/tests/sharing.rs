//! Launches of many groups are run by several threads at once.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu_driver_cpu::{CpuDriver, Options};
use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{
    Context, Device, Driver, Partition, Queue, QueueOptions, RawArgument, Request, Result,
};
use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longer than a launch takes that is not worth sharing.
const LONG: Duration = Duration::from_micros(100);
/// Longer than any correct run takes.
const FOR_EVER: Duration = Duration::from_secs(60);

fn work_for(time: Duration) {
    let started = Instant::now();
    while started.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// A kernel whose groups, but for the first, wait until they are told to end.
struct Together {
    arrive: Sender<String>,
    ends: Mutex<Receiver<()>>,
}

impl NativeKernel for Together {
    fn name(&self) -> &'static str {
        "together"
    }

    unsafe fn run(&self, _: &[RawArgument], groups: Range<u32>) -> Result<()> {
        for group in groups {
            // A worker that has not seen a kernel before runs a group alone, and shares the others
            // if that one was long.
            work_for(LONG);
            if group > 0 {
                let thread = std::thread::current().name().unwrap_or("?").to_owned();
                self.arrive.send(thread).unwrap();
                let told = self.ends.lock().unwrap().recv();
                assert!(told.is_err(), "nothing is ever sent");
            }
        }
        Ok(())
    }
}

/// As many groups as there are workers are inside of the kernel before the first of them ends.
#[test]
fn a_long_launch_is_run_by_all_workers_at_once() {
    let workers = NonZero::new(4).unwrap();
    let driver: Arc<dyn Driver> = CpuDriver::start(Options::new().workers(workers)).unwrap();
    let pool = Device::all_of(&driver).unwrap().remove(0);
    let part = pool.partition(&Partition::Equally(2)).unwrap().remove(1);
    let context = Context::new(std::slice::from_ref(&pool)).unwrap();
    // By workers that have not seen it, and by others that have.
    for (device, workers) in [(&pool, 0..4), (&pool, 0..4), (&part, 2..4)] {
        let queue = context.queue(device, QueueOptions::default()).unwrap();
        let (arrive, arrived) = channel();
        let (end, ends) = channel();
        let kernel = Together {
            arrive,
            ends: Mutex::new(ends),
        };
        let groups = 1 + workers.len() as u64;
        let event = queue.launch(kernel, groups, &Request::default()).unwrap();
        let mut threads: Vec<String> = workers
            .clone()
            .map_while(|_| arrived.recv_timeout(FOR_EVER).ok())
            .collect();
        drop(end);
        threads.sort();
        let all: Vec<String> = workers
            .map(|worker| format!("quipu-cpu-{worker}"))
            .collect();
        assert_eq!(threads, all);
        event.wait().unwrap();
    }
}

/// A kernel whose groups count themselves, and wait for something else now and then.
struct Waiting {
    runs: Arc<[AtomicU32]>,
    tasks: Queue,
}

impl NativeKernel for Waiting {
    fn name(&self) -> &'static str {
        "waiting"
    }

    unsafe fn run(&self, _: &[RawArgument], groups: Range<u32>) -> Result<()> {
        for group in groups {
            self.runs[group as usize].fetch_add(1, Ordering::Relaxed);
            work_for(LONG / 10);
            if group.is_multiple_of(3) {
                let work = |_: &[RawArgument]| {
                    work_for(LONG / 2);
                    Ok(())
                };
                self.tasks.host_task(work, &Request::default())?.wait()?;
            }
        }
        Ok(())
    }
}

/// While a group waits, another thread is its worker, and takes up the same launch, as the other
/// workers are busy.
#[test]
fn every_group_is_run_once_though_some_wait() {
    let workers = NonZero::new(3).unwrap();
    let driver: Arc<dyn Driver> = CpuDriver::start(Options::new().workers(workers)).unwrap();
    let pool = Device::all_of(&driver).unwrap().remove(0);
    let context = Context::new(std::slice::from_ref(&pool)).unwrap();
    let options = QueueOptions {
        in_order: false,
        ..QueueOptions::default()
    };
    let queue = context.queue(&pool, options).unwrap();
    let runs: Arc<[AtomicU32]> = (0..200).map(|_| AtomicU32::new(0)).collect();
    for _ in 0..50 {
        let (begun, begins) = channel();
        let busy = [(); 2].map(|()| {
            let (end, ends) = channel::<()>();
            let begun = begun.clone();
            let stay = move |_: &[RawArgument]| {
                begun.send(()).unwrap();
                assert!(ends.recv().is_err(), "nothing is ever sent");
                Ok(())
            };
            (end, queue.host_task(stay, &Request::default()).unwrap())
        });
        for _ in &busy {
            begins.recv_timeout(FOR_EVER).unwrap();
        }
        let kernel = Waiting {
            runs: runs.clone(),
            tasks: queue.clone(),
        };
        let launched = queue.launch(kernel, runs.len() as u64, &Request::default());
        launched.unwrap().wait_timeout(FOR_EVER).unwrap();
        let all = runs.iter().map(|runs| runs.swap(0, Ordering::Relaxed));
        assert_eq!(all.collect::<Vec<_>>(), vec![1; runs.len()]);
        for (end, stayed) in busy {
            drop(end);
            stayed.wait().unwrap();
        }
    }
}
