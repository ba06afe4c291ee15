//! The pool in moments that are too short to be met by chance.

use super::*;
use crate::{CpuDriver, Options};
use quipu_core::command::ToDrivers;
use quipu_core::{Context, Device, Driver, Event, Partition, Queue, QueueOptions, Request};
use std::sync::mpsc;

fn task(queue: &Queue, run: impl FnOnce() + Send + 'static) -> Event {
    let run = move |_: &[quipu_core::RawArgument]| {
        run();
        Ok(())
    };
    queue.host_task(run, &Request::default()).unwrap()
}

/// A guest takes one of two tasks, whose only worker looks for them while the guest
/// has both in hands, finds nothing, and falls asleep. The guest may have no need of
/// the other one: the worker must be woken for it.
#[test]
fn a_worker_is_woken_for_what_a_guest_leaves() {
    let driver = CpuDriver::start(Options::new().workers(NonZero::<usize>::MIN)).unwrap();
    let pool = driver.pool().clone();
    let driver: Arc<dyn Driver> = driver;
    let devices = Device::all_of(&driver).unwrap();
    let parts = devices[0].partition(&Partition::ByCounts(vec![1])).unwrap();
    let context = Context::new(&devices).unwrap();
    let out_of_order = |priority| QueueOptions {
        in_order: false,
        priority,
        ..QueueOptions::default()
    };
    for (device, number, priority) in [
        (&devices[0], POOL_DEVICE, Priority::High),
        (&devices[0], POOL_DEVICE, Priority::Low),
        (&parts[0], 1, Priority::Normal),
    ] {
        let queue = context.queue(device, out_of_order(priority)).unwrap();
        let busy = context
            .queue(&devices[0], out_of_order(Priority::Normal))
            .unwrap();
        let (tell, told) = mpsc::channel();
        let (go, going) = mpsc::channel();
        let occupied = task(&busy, move || {
            tell.send(()).unwrap();
            going.recv().unwrap();
        });
        told.recv().unwrap();
        let events = [(); 2].map(|()| task(&queue, || ()));

        let team = pool.team(number);
        let injector = &team.injectors[level(priority)];
        // Where the guest puts the other one back.
        let held = lock(&injector.older);
        let guest = std::thread::spawn({
            let pool = pool.clone();
            move || pool.take_injected(pool.worker_count, priority)
        });
        while injector.newest.load(Ordering::Acquire) != 0 {
            std::thread::yield_now();
        }
        go.send(()).unwrap();
        while pool.sleep.asleep() == 0 {
            std::thread::yield_now();
        }
        drop(held);
        let taken = guest.join().unwrap();
        assert!(
            pool.sleep.asleep() == 0 || injector.is_empty(),
            "a task lies and its worker sleeps"
        );
        let Some(Task::Command(command)) = taken else {
            panic!("the guest finds the first task");
        };
        command.finish(Ok(()), &mut ToDrivers);
        for event in [occupied].into_iter().chain(events) {
            event.wait().unwrap();
        }
    }
}

/// Keeps which groups were run together, and where.
struct Ranges(mpsc::Sender<(std::thread::ThreadId, Range<u32>)>);

impl quipu_core::operation::NativeKernel for Ranges {
    fn name(&self) -> &'static str {
        "ranges"
    }

    unsafe fn run(
        &self,
        _: &[quipu_core::RawArgument],
        groups: Range<u32>,
    ) -> quipu_core::Result<()> {
        let here = std::thread::current().id();
        self.0.send((here, groups)).unwrap();
        Ok(())
    }
}

/// Who knows nothing of a kernel runs one group alone first. A thread that waits is a guest for as long as that, and does so
/// once, not each time.
#[test]
fn a_guest_knows_what_the_one_before_it_has_measured() {
    // Where there is one worker, nothing is shared.
    let workers = NonZero::new(2).unwrap();
    let driver = CpuDriver::start(Options::new().workers(workers)).unwrap();
    let pool = driver.pool().clone();
    let driver: Arc<dyn Driver> = driver;
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let here = std::thread::current().id();
    let mut is_alone = Vec::new();
    // The worker that was woken may come first.
    while is_alone.len() < 3 {
        while pool.sleep.asleep() < workers.get() {
            std::thread::yield_now();
        }
        let (tell, told) = mpsc::channel();
        queue
            .post_launch(Ranges(tell), 64, &Request::default())
            .unwrap();
        queue.wait().unwrap();
        let (by, first) = told.recv().unwrap();
        if by == here {
            is_alone.push(first == (0..1));
        }
    }
    assert_eq!(is_alone, [true, false, false]);
}
