//! Parts of the pool: listed nowhere, each with a number of its own.

use quipu_driver_cpu::{CpuDriver, CpuQueue, Options};
use quipu_scheduler::{Context, Device, Driver, Partition, QueueOptions, Request};
use std::num::NonZero;
use std::sync::Arc;

#[test]
fn parts_made_at_once_by_two_threads_are_different_devices() {
    let workers = NonZero::new(4).expect("four workers");
    let driver: Arc<dyn Driver> =
        CpuDriver::start(Options::new().workers(workers)).expect("a pool of four");
    let pool = Device::all_of(&driver)
        .expect("the pool's devices")
        .remove(0);
    let split = || {
        pool.partition(&Partition::Equally(2))
            .expect("two parts of two workers")
    };
    let (mut parts, more) = std::thread::scope(|scope| {
        let other = scope.spawn(split);
        (split(), other.join().expect("no panic"))
    });
    parts.extend(more);
    let mut numbers: Vec<usize> = parts.iter().map(Device::index).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3, 4]);
    assert_eq!(driver.devices().len(), 1);
    assert_eq!(Device::all_of(&driver).expect("the same list").len(), 1);
}

#[test]
fn parts_that_are_gone_leave_nothing_in_the_pool() {
    let workers = NonZero::new(4).expect("four workers");
    let driver: Arc<dyn Driver> =
        CpuDriver::start(Options::new().workers(workers)).expect("a pool of four");
    let pool = Device::all_of(&driver)
        .expect("the pool's devices")
        .remove(0);
    let halves = || {
        pool.partition(&Partition::Equally(2))
            .expect("two parts of two workers")
    };
    for _ in 0..1000 {
        let parts = halves();
        assert_eq!([parts[0].index(), parts[1].index()], [1, 2]);
        let quarters = parts[1]
            .partition(&Partition::Equally(1))
            .expect("two parts of one worker");
        assert_eq!([quarters[0].index(), quarters[1].index()], [3, 4]);
    }

    // A queue keeps its part, and its commands run there.
    let mut kept = halves();
    let first = kept.swap_remove(0);
    let context = Context::new(std::slice::from_ref(&pool)).expect("a context");
    let queue = context
        .queue(&first, QueueOptions::default())
        .expect("a queue of a part");
    drop((first, kept));
    let others = halves();
    assert_eq!([others[0].index(), others[1].index()], [2, 3]);
    let native = queue.native().expect("the pool's own queue");
    let native = native
        .downcast::<CpuQueue>()
        .expect("of the type it promises");
    assert_eq!(native.workers, 0..2);
    let name = || std::thread::current().name().map(str::to_owned);
    let (tell, told) = std::sync::mpsc::channel();
    for _ in 0..100 {
        let tell = tell.clone();
        let task = move |_: &[quipu_scheduler::RawArgument]| {
            tell.send(name()).expect("the test listens");
            Ok(())
        };
        queue
            .host_task(task, &Request::default())
            .expect("a task on the part");
    }
    drop((queue, tell));
    let here = name();
    for ran_on in told {
        let team = ["quipu-cpu-0", "quipu-cpu-1"];
        let ran_on_team = ran_on.as_deref().is_some_and(|name| team.contains(&name));
        assert!(ran_on_team || ran_on == here, "{ran_on:?}");
    }
    drop(others);
    // The queue goes with its last command, on the worker that ends it.
    while halves()[0].index() != 1 {
        std::thread::yield_now();
    }
}

#[test]
fn parts_of_more_workers_than_there_are_say_how_many_there_are() {
    let workers = NonZero::new(4).expect("four workers");
    let driver: Arc<dyn Driver> =
        CpuDriver::start(Options::new().workers(workers)).expect("a pool of four");
    let pool = Device::all_of(&driver)
        .expect("the pool's devices")
        .remove(0);
    let error = pool
        .partition(&Partition::Equally(99))
        .expect_err("there are four");
    let text = error.to_string();
    assert!(
        text.contains("99 workers each, and the device has 4"),
        "{text}"
    );
}
