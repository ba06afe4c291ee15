//! A device whose split fails half-way: the process has no memory space left for one of the parts.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu_scheduler::driver::Notification;
use quipu_scheduler::{
    Context, Device, DeviceProperties, Driver, MemorySpace, Partition, Request, Result,
};
use std::sync::{Arc, Mutex};

mod devices;

/// As many as a process has memory spaces.
const SPACES: u32 = 65_533;

/// Has as many devices with a memory of their own as it is told, and splits the first into three
/// parts. The second part may have a memory of its own.
#[derive(Default)]
struct Splits {
    spaces: u32,
    /// Parts that are in use.
    parts: Mutex<Vec<usize>>,
}

// SAFETY: it drops the commands that it is handed, and runs nothing.
unsafe impl Driver for Splits {
    fn name(&self) -> &'static str {
        "splits"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        let own = |key| DeviceProperties {
            memory: MemorySpace::Own(key),
            ..devices::one("splits").remove(0)
        };
        let mut all = devices::one("splits");
        all.extend((0..self.spaces).map(own));
        all
    }

    fn notify(&self, notification: Notification) {
        drop(notification);
    }

    fn partition(&self, _: usize, partition: &Partition) -> Result<Vec<(usize, DeviceProperties)>> {
        let part = |number| {
            let properties = devices::one("a part").remove(0);
            let has_own_memory = number == 2 && *partition == Partition::Equally(1);
            let memory = match has_own_memory {
                true => MemorySpace::Own(u32::MAX),
                false => MemorySpace::Host,
            };
            (
                number,
                DeviceProperties {
                    memory,
                    ..properties
                },
            )
        };
        self.parts.lock().unwrap().extend(1..=3);
        Ok((1..=3).map(part).collect())
    }

    unsafe fn forget_part(&self, device: usize) {
        let mut parts = self.parts.lock().unwrap();
        let place = parts.iter().position(|part| *part == device);
        parts.swap_remove(place.expect("a part is forgotten once"));
    }
}

#[test]
fn a_split_that_fails_half_way_leaves_no_part_behind() {
    let many = Splits {
        spaces: SPACES,
        ..Splits::default()
    };
    let many: Arc<dyn Driver> = Arc::new(many);
    // All that there are.
    let _kept = Device::all_of(&many).unwrap_or_default();
    let splits = Arc::new(Splits::default());
    let driver: Arc<dyn Driver> = splits.clone();
    let device = Device::all_of(&driver).unwrap().remove(0);
    let in_use = || splits.parts.lock().unwrap().len();
    for _ in 0..2 {
        let refused = device.partition(&Partition::Equally(1)).unwrap_err();
        assert!(refused.to_string().contains("memory spaces"), "{refused}");
        assert_eq!(in_use(), 0, "parts that nobody has are in use");
    }
    // The device can still be used, and split.
    let parts = device.partition(&Partition::Equally(2)).unwrap();
    assert_eq!((parts.len(), in_use()), (3, 3));
    let context = Context::new(&parts).unwrap();
    let queue = context.queue(&parts[1], Default::default()).unwrap();
    let task = queue.host_task(|_| Ok(()), &Request::default()).unwrap();
    // The driver drops commands that it is handed.
    assert!(task.wait().is_err());
    drop((parts, context, queue, task));
    assert_eq!(in_use(), 0);
}
