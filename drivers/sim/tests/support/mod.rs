//! Helpers of the driver's tests: a context over a simulated machine, kernels made of closures, and
//! buffers of 64-bit cells.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use quipu_driver_sim::SimDriver;
use quipu_driver_sim::engine::{Configuration, RacePolicy};
use quipu_scheduler::event::wait_graph;
use quipu_scheduler::operation::{HostMemory, NativeKernel};
use quipu_scheduler::{
    Access, AccessMode, Context, Device, Driver, Event, MemoryRef, Queue, QueueOptions,
    RawArgument, Request, Result,
};

/// Keeps the other tests of this process waiting. A wait that may depend on a user event flushes
/// every queue of the process, so a test that counts uploads, or needs the same log twice, must be
/// alone.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits on a thread of its own. Panics if the wait does not end.
pub(crate) fn ends<R: Send + 'static>(wait: impl FnOnce() -> R + Send + 'static) -> R {
    const PATIENCE: Duration = Duration::from_secs(60);
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(wait()));
    let outcome = told.recv_timeout(PATIENCE);
    outcome.unwrap_or_else(|_| panic!("hangs: {}", wait_graph()))
}

/// A simulated machine with a context over all of its devices.
pub(crate) struct Rig {
    pub(crate) driver: Arc<SimDriver>,
    pub(crate) devices: Vec<Device>,
    pub(crate) context: Context,
}

impl Rig {
    /// A machine that the test's own thread steps. Commands that nothing orders fail.
    pub(crate) fn manual(configuration: Configuration) -> Self {
        Self::of(SimDriver::manual(strict(configuration)).unwrap())
    }

    /// A machine with a thread.
    pub(crate) fn threaded(configuration: Configuration) -> Self {
        Self::of(SimDriver::start(strict(configuration)).unwrap())
    }

    fn of(driver: Arc<SimDriver>) -> Self {
        let object: Arc<dyn Driver> = driver.clone();
        let devices = Device::all_of(&object).unwrap();
        let context = Context::new(&devices).unwrap();
        Self {
            driver,
            devices,
            context,
        }
    }

    pub(crate) fn queue(&self, device: usize) -> Queue {
        let options = QueueOptions {
            in_order: false,
            ..QueueOptions::default()
        };
        self.context.queue(&self.devices[device], options).unwrap()
    }

    /// A buffer of so many cells.
    pub(crate) fn cells(&self, count: u64) -> MemoryRef {
        self.context.memory(8 * count).unwrap()
    }
}

fn strict(mut configuration: Configuration) -> Configuration {
    configuration.races = RacePolicy::Fail;
    configuration
}

/// A kernel of a name, that is a closure over its arguments.
pub(crate) struct Kernel<F>(pub(crate) &'static str, pub(crate) F);

impl<F: Fn(&[RawArgument]) -> Result<()> + Send + Sync + 'static> NativeKernel for Kernel<F> {
    fn name(&self) -> &'static str {
        self.0
    }

    unsafe fn run(&self, arguments: &[RawArgument], _groups: Range<u32>) -> Result<()> {
        (self.1)(arguments)
    }
}

/// An argument's cells.
pub(crate) fn view<'a>(argument: &RawArgument) -> &'a mut [u64] {
    assert!(argument.pointer.cast::<u64>().is_aligned());
    // SAFETY: buffers of the tests hold cells, the driver made the pointer valid, and the kernel
    // that calls this uses one view of each argument, writing to it only if it was declared so.
    unsafe { std::slice::from_raw_parts_mut(argument.pointer.cast(), argument.length / 8) }
}

/// All of a buffer.
pub(crate) fn all(memory: &MemoryRef, mode: AccessMode) -> Access<'_> {
    part(memory, 0, memory.size() / 8, mode)
}

/// Some cells of a buffer.
pub(crate) fn part(memory: &MemoryRef, first: u64, count: u64, mode: AccessMode) -> Access<'_> {
    Access {
        memory,
        offset: 8 * first,
        length: 8 * count,
        mode,
    }
}

/// `to[i] = 3 * from[i] + add`, one cell after the other.
pub(crate) fn map(queue: &Queue, from: &MemoryRef, to: &MemoryRef, add: u64) -> Event {
    map_after(queue, from, to, add, &[])
}

pub(crate) fn map_after(
    queue: &Queue,
    from: &MemoryRef,
    to: &MemoryRef,
    add: u64,
    waits: &[Event],
) -> Event {
    let kernel = Kernel("map", move |arguments: &[RawArgument]| {
        for (to, from) in view(&arguments[1]).iter_mut().zip(view(&arguments[0])) {
            *to = step(*from, add);
        }
        Ok(())
    });
    let accesses = [all(from, AccessMode::Read), all(to, AccessMode::Overwrite)];
    let request = Request {
        accesses: &accesses,
        waits,
        ..Request::default()
    };
    queue.launch(kernel, 4, &request).unwrap()
}

/// The change of a cell by [`map`] and [`update`].
pub(crate) fn step(cell: u64, add: u64) -> u64 {
    cell.wrapping_mul(3).wrapping_add(add)
}

/// `buffer[i] = 3 * buffer[i] + add`.
pub(crate) fn update(queue: &Queue, buffer: &MemoryRef, add: u64, waits: &[Event]) -> Event {
    let kernel = Kernel("update", move |arguments: &[RawArgument]| {
        for cell in view(&arguments[0]) {
            *cell = step(*cell, add);
        }
        Ok(())
    });
    let accesses = [all(buffer, AccessMode::ReadWrite)];
    let request = Request {
        accesses: &accesses,
        waits,
        ..Request::default()
    };
    queue.launch(kernel, 1, &request).unwrap()
}

/// Writes cells from the host.
pub(crate) fn write(queue: &Queue, buffer: &MemoryRef, cells: &[u64]) -> Event {
    let keep: Arc<Vec<u64>> = Arc::new(cells.to_vec());
    let pointer = keep.as_ptr().cast::<u8>().cast_mut();
    let bytes = 8 * cells.len();
    // SAFETY: the vector lives until the transfer is over, and is only read.
    let source = unsafe { HostMemory::new(pointer, bytes, Some(keep)) };
    let to = part(buffer, 0, cells.len() as u64, AccessMode::Overwrite);
    queue.write(source, to, bytes as u64, &[], &[]).unwrap()
}

/// Reads a buffer's cells to the host, and waits for that.
pub(crate) fn read(queue: &Queue, buffer: &MemoryRef) -> Result<Vec<u64>> {
    let mut cells = vec![u64::MAX; (buffer.size() / 8) as usize];
    // SAFETY: the wait below ends before the vector does, and nobody touches it meanwhile.
    let to = unsafe { HostMemory::new(cells.as_mut_ptr().cast(), 8 * cells.len(), None) };
    let from = all(buffer, AccessMode::Read);
    queue.read(from, to, buffer.size(), &[], &[])?.wait()?;
    Ok(cells)
}

/// A kernel on all of a buffer, after some events.
pub(crate) fn on_all<F>(
    queue: &Queue,
    name: &'static str,
    buffer: &MemoryRef,
    waits: &[Event],
    body: F,
) -> Event
where
    F: Fn(&[RawArgument]) -> Result<()> + Send + Sync + 'static,
{
    let accesses = [all(buffer, AccessMode::ReadWrite)];
    let request = Request {
        accesses: &accesses,
        waits,
        ..Request::default()
    };
    queue.launch(Kernel(name, body), 1, &request).unwrap()
}
