//! Parts of the pool: listed nowhere, each with a number of its own.

use quipu_core::{Device, Driver, Partition};
use quipu_driver_cpu::{CpuDriver, Options};
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
