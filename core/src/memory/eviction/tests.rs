//! Bytes that take as long as a test likes: only commands that need them wait for them.

use crate::command::{Command, ToDrivers};
use crate::driver::Notification;
use crate::error::ErrorKind;
use crate::graph::NodeRequest;
use crate::memory::eviction::{Evicted, Eviction};
use crate::memory::pinned::Pinning;
use crate::memory::{Allocation, Memory, MemoryRef, SpaceId};
use crate::operation::Operation;
use crate::{
    Access, AccessMode, Context, Device, DeviceKind, DeviceProperties, Driver, Event, MemorySpace,
    Queue, QueueOptions, Recording, Request, Result, UserEvent,
};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

const SIZE: usize = 8;
/// For events that come at once, or never.
const PATIENCE: Duration = Duration::from_secs(60);

/// As the driver that hands a command over, or on its behalf.
fn allocation(memory: &Memory, space: SpaceId) -> Result<Allocation> {
    // SAFETY: the driver has no device, and says what is in use as the test wants it.
    unsafe { memory.allocation(space) }
}

#[derive(Debug, PartialEq, Eq)]
enum Call {
    Read,
    Write,
}

/// A driver whose second device has memory for one allocation, far away. A call that moves bytes
/// says so, and waits for leave.
struct Far {
    ready: Mutex<Vec<Command>>,
    allocations: Mutex<HashMap<u64, Vec<u8>>>,
    /// Memory of the host's that it uses where it is.
    mapped: Mutex<Vec<u64>>,
    addresses: AtomicU64,
    is_in_use: AtomicBool,
    /// True if the driver asks for a command's memory as soon as it is handed over, as drivers do.
    prepares: AtomicBool,
    /// It panics as it is to write, once.
    panics: AtomicBool,
    called: Mutex<mpsc::Sender<Call>>,
    may: Mutex<mpsc::Receiver<()>>,
}

impl Far {
    fn call(&self, call: Call) {
        self.called.lock().unwrap().send(call).unwrap();
        // Also if the test has failed, and is gone.
        let _ = self.may.lock().unwrap().recv();
    }
}

// SAFETY: a command's code and memory are used while it is here, with the arguments resolved for
// it.
unsafe impl Driver for Far {
    fn name(&self) -> &'static str {
        "far"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        let device = |memory| DeviceProperties {
            global_memory: SIZE as u64,
            max_buffer: SIZE as u64,
            memory,
            ..DeviceProperties::new(DeviceKind::Simulated, "far")
        };
        let far = DeviceProperties {
            maps_host_memory: true,
            ..device(MemorySpace::Own(0))
        };
        vec![device(MemorySpace::Host), far]
    }

    fn notify(&self, notification: Notification) {
        if let Notification::Ready(command) = notification {
            if self.prepares.load(Ordering::Relaxed) {
                let space = command.queue().device().unwrap().space();
                for argument in command.arguments() {
                    allocation(argument.memory(), space).unwrap();
                }
            }
            self.ready.lock().unwrap().push(command);
        }
    }

    fn allocate(&self, _key: u32, size: u64) -> Result<u64> {
        let mut allocations = self.allocations.lock().unwrap();
        if !allocations.is_empty() {
            return Err(ErrorKind::OutOfMemory {
                device: "far".to_owned(),
                asked: size,
                free: 0,
                capacity: size,
            }
            .into());
        }
        let address = self.addresses.fetch_add(1, Ordering::Relaxed);
        allocations.insert(address, vec![0; SIZE]);
        Ok(address)
    }

    unsafe fn map_host_memory(&self, _key: u32, host: NonNull<u8>, size: u64) -> Result<u64> {
        assert_eq!(size, SIZE as u64);
        let address = host.addr().get() as u64;
        self.mapped.lock().unwrap().push(address);
        Ok(address)
    }

    unsafe fn free(&self, _key: u32, address: u64, size: u64) {
        if size == 0 {
            let mut mapped = self.mapped.lock().unwrap();
            let at = mapped.iter().position(|known| *known == address).unwrap();
            mapped.remove(at);
            return;
        }
        self.allocations.lock().unwrap().remove(&address).unwrap();
    }

    unsafe fn read_allocation(
        &self,
        _: u32,
        address: u64,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<()> {
        self.call(Call::Read);
        let from = &self.allocations.lock().unwrap()[&address][offset as usize..];
        bytes.copy_from_slice(&from[..bytes.len()]);
        Ok(())
    }

    unsafe fn write_allocation(
        &self,
        _: u32,
        address: u64,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        assert!(!self.panics.swap(false, Ordering::Relaxed), "by design");
        self.call(Call::Write);
        let mut allocations = self.allocations.lock().unwrap();
        let to = &mut allocations.get_mut(&address).unwrap()[offset as usize..];
        to[..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    /// As of a machine that has got more memory since it was looked at.
    fn free_memory(&self, _: usize) -> Option<u64> {
        Some(2 * SIZE as u64)
    }

    unsafe fn is_in_use(&self, _: u32, _: u64, _: &crate::memory::Memory) -> bool {
        self.is_in_use.load(Ordering::Relaxed)
    }
}

struct Stage {
    far: Arc<Far>,
    called: Mutex<mpsc::Receiver<Call>>,
    go: mpsc::Sender<()>,
    context: Context,
    /// Of the device that uses the host's memory, and of the one that is far.
    queues: [Queue; 2],
    space: SpaceId,
}

impl Stage {
    fn new() -> Self {
        let (called, calls) = mpsc::channel();
        let (go, may) = mpsc::channel();
        let far = Arc::new(Far {
            ready: Mutex::default(),
            allocations: Mutex::default(),
            mapped: Mutex::default(),
            addresses: AtomicU64::new(1),
            is_in_use: AtomicBool::new(false),
            prepares: AtomicBool::new(false),
            panics: AtomicBool::new(false),
            called: Mutex::new(called),
            may: Mutex::new(may),
        });
        let driver: Arc<dyn Driver> = far.clone();
        let devices = Device::all_of(&driver).unwrap();
        let context = Context::new(&devices).unwrap();
        let queue = |device| context.queue(device, QueueOptions::default()).unwrap();
        Self {
            far,
            called: Mutex::new(calls),
            go,
            queues: [queue(&devices[0]), queue(&devices[1])],
            space: devices[1].space(),
            context,
        }
    }

    fn use_on(
        &self,
        device: usize,
        memory: &MemoryRef,
        mode: AccessMode,
        waits: &[Event],
    ) -> Event {
        let access = Access {
            memory,
            offset: 0,
            length: SIZE as u64,
            mode,
        };
        let request = Request {
            accesses: &[access],
            waits,
            ..Request::default()
        };
        self.queues[device].host_task(|_| Ok(()), &request).unwrap()
    }

    /// The command that is ready, if there is one.
    fn ready(&self) -> Option<Command> {
        self.far.ready.lock().unwrap().pop()
    }

    /// A buffer whose bytes are only on the far device: these.
    fn far_away(&self, byte: u8) -> MemoryRef {
        let memory = self.context.memory(SIZE as u64).unwrap();
        let event = self.use_on(1, &memory, AccessMode::Overwrite, &[]);
        let address = allocation(&memory, self.space).unwrap().address;
        let mut allocations = self.far.allocations.lock().unwrap();
        allocations.get_mut(&address).unwrap().fill(byte);
        drop(allocations);
        self.ready().unwrap().finish(Ok(()), &mut ToDrivers);
        event.wait().unwrap();
        memory
    }

    /// Calls `meanwhile`, on a thread of its own, while `wants` waits for bytes that are on their
    /// way; then lets them come. Gives the results of both.
    fn while_bytes_travel<W: Send, M: Send>(
        &self,
        call: &Call,
        wants: impl FnOnce() -> W + Send,
        meanwhile: impl FnOnce() -> M + Send,
    ) -> (W, M) {
        std::thread::scope(|scope| {
            let wants = scope.spawn(wants);
            assert_eq!(&self.called.lock().unwrap().recv().unwrap(), call);
            let (tell, told) = mpsc::channel();
            scope.spawn(move || {
                // The test may have given up.
                let _ = tell.send(meanwhile());
            });
            let done = told.recv_timeout(PATIENCE);
            self.go.send(()).unwrap();
            (wants.join().unwrap(), done.unwrap())
        })
    }

    fn host_bytes(&self, memory: &MemoryRef) -> [u8; SIZE] {
        let bytes = memory.host_pointer().unwrap().cast::<[u8; SIZE]>();
        // SAFETY: so many are there, and no command runs.
        unsafe { bytes.read() }
    }
}

#[repr(align(4096))]
struct Page([u8; 4096]);

#[test]
fn memory_in_place_is_the_hosts_and_never_evicted() {
    let stage = Stage::new();
    let mut page = Box::new(Page([0; 4096]));
    let start = NonNull::from(&mut page.0).cast::<u8>();
    // SAFETY: the page is there until the object goes, which drops this first.
    let pinning = unsafe { Pinning::new(start.as_ptr(), page.0.len()) };
    let keep = Box::new((pinning, page));
    // SAFETY: a page of its own, which `keep` keeps, pinned.
    let memory = unsafe { stage.context.memory_in_place(start, SIZE as u64, keep) };
    let memory = memory.unwrap();
    let address = allocation(&memory, stage.space).unwrap();
    assert_eq!(
        (address.address, address.size),
        (start.addr().get() as u64, 0)
    );
    assert_eq!(stage.context.bytes_in(stage.space), 0);
    // Nothing is brought from one device to the other.
    for device in [1, 0, 1] {
        let used = stage.use_on(device, &memory, AccessMode::ReadWrite, &[]);
        let command = stage.ready().unwrap();
        assert!(matches!(command.operation(), Operation::HostTask));
        assert!(stage.ready().is_none());
        for what in [Eviction::Redundant, Eviction::Idle, Eviction::Waiting] {
            assert_eq!(memory.evict(stage.space, what), Evicted::Nothing);
        }
        command.finish(Ok(()), &mut ToDrivers);
        used.wait().unwrap();
    }
    for what in [Eviction::Redundant, Eviction::Idle, Eviction::Waiting] {
        assert_eq!(memory.evict(stage.space, what), Evicted::Nothing);
    }
    assert_eq!(allocation(&memory, stage.space).unwrap(), address);
    assert_eq!(stage.far.mapped.lock().unwrap()[..], [address.address]);
    drop(memory);
    assert!(stage.far.mapped.lock().unwrap().is_empty());
}

#[test]
fn no_more_memory_is_free_than_there_is() {
    let stage = Stage::new();
    for device in stage.context.devices() {
        assert_eq!(device.free_memory(), Some(SIZE as u64));
    }
}

#[test]
fn nobody_else_waits_for_bytes_that_are_written_back() {
    let stage = Stage::new();
    let memory = stage.far_away(7);
    let other = stage.context.memory(SIZE as u64).unwrap();
    let (allocated, made) = stage.while_bytes_travel(
        &Call::Read,
        || allocation(&other, stage.space),
        || {
            memory.set_label("still here");
            memory.set_content_size(None).unwrap();
            // It also counts as there for the others of its context.
            let made = stage.context.memory(1).unwrap();
            drop(stage.context.memory(1).unwrap());
            assert!(memory.with_allocation(stage.space, |_| ()).is_none());
            made
        },
    );
    allocated.unwrap();
    assert_eq!(memory.allocated_in(), [SpaceId::HOST]);
    assert_eq!(stage.host_bytes(&memory), [7; SIZE]);
    // A command that only needs the host's copy needs no migration.
    let read = stage.use_on(0, &memory, AccessMode::Read, &[]);
    stage.ready().unwrap().finish(Ok(()), &mut ToDrivers);
    read.wait().unwrap();
    drop(made);
}

#[test]
fn who_writes_bytes_that_are_written_back_is_enqueued_and_waits() {
    let stage = Stage::new();
    stage.far.is_in_use.store(true, Ordering::Relaxed);
    let memory = stage.far_away(7);
    let other = stage.context.memory(SIZE as u64).unwrap();
    let (allocated, written) = stage.while_bytes_travel(
        &Call::Read,
        || allocation(&other, stage.space).map(drop),
        || {
            let written = stage.use_on(0, &memory, AccessMode::Overwrite, &[]);
            assert!(stage.ready().is_none(), "it runs beside the write-back");
            written
        },
    );
    // It is of no use any more, and commands that are not over keep the allocation.
    let error = allocated.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::OutOfMemory { .. }),
        "{error}"
    );
    stage.ready().unwrap().finish(Ok(()), &mut ToDrivers);
    written.wait().unwrap();
    // The bytes that were written back are older than those that were written: they are not taken
    // for them.
    allocation(&other, stage.space).unwrap();
    assert!(stage.called.lock().unwrap().try_recv().is_err());
}

#[test]
fn what_waits_for_a_write_back_may_be_handed_over_by_who_has_written_back() {
    let stage = Stage::new();
    stage.far.is_in_use.store(true, Ordering::Relaxed);
    let memory = stage.far_away(7);
    let address = allocation(&memory, stage.space).unwrap().address;
    let other = stage.context.memory(SIZE as u64).unwrap();
    stage.far.prepares.store(true, Ordering::Relaxed);
    let (allocated, written) = stage.while_bytes_travel(
        &Call::Read,
        || {
            let (tell, told) = mpsc::channel();
            let (other, space) = (other.clone(), stage.space);
            std::thread::spawn(move || tell.send(allocation(&other, space).map(drop)));
            told.recv_timeout(PATIENCE)
        },
        || stage.use_on(1, &memory, AccessMode::Overwrite, &[]),
    );
    allocated.expect("it waits for itself").unwrap_err();
    assert_eq!(allocation(&memory, stage.space).unwrap().address, address);
    stage.ready().unwrap().finish(Ok(()), &mut ToDrivers);
    written.wait().unwrap();
}

#[test]
fn what_a_command_is_handed_over_for_meanwhile_stays() {
    let stage = Stage::new();
    stage.far.is_in_use.store(true, Ordering::Relaxed);
    let memory = stage.far_away(7);
    let address = allocation(&memory, stage.space).unwrap().address;
    let other = stage.context.memory(SIZE as u64).unwrap();
    let (allocated, read) = stage.while_bytes_travel(
        &Call::Read,
        || allocation(&other, stage.space).map(drop),
        || stage.use_on(1, &memory, AccessMode::Read, &[]),
    );
    assert!(allocated.is_err());
    assert_eq!(allocation(&memory, stage.space).unwrap().address, address);
    stage.ready().unwrap().finish(Ok(()), &mut ToDrivers);
    read.wait().unwrap();
}

#[test]
fn nobody_else_waits_for_bytes_that_make_room_and_come_back() {
    let stage = Stage::new();
    let memory = stage.far_away(7);
    let held = UserEvent::new();
    let waiting = stage.use_on(1, &memory, AccessMode::ReadWrite, &[held.event()]);
    let other = stage.context.memory(SIZE as u64).unwrap();
    let enqueue = || {
        memory.set_label("on its way");
        stage.use_on(1, &memory, AccessMode::Read, &[])
    };
    let (allocated, one) =
        stage.while_bytes_travel(&Call::Read, || allocation(&other, stage.space), enqueue);
    allocated.unwrap();
    drop(other);
    let (allocated, two) =
        stage.while_bytes_travel(&Call::Write, || allocation(&memory, stage.space), enqueue);
    let address = allocated.unwrap().address;
    assert_eq!(
        stage.far.allocations.lock().unwrap()[&address],
        [7_u8; SIZE]
    );
    held.complete();
    while let Some(command) = stage.ready() {
        command.finish(Ok(()), &mut ToDrivers);
    }
    for event in [waiting, one, two] {
        event.wait().unwrap();
    }
}

#[test]
fn bytes_that_come_back_are_kept_if_the_driver_panics() {
    let stage = Stage::new();
    let memory = stage.far_away(7);
    let held = UserEvent::new();
    let waiting = stage.use_on(1, &memory, AccessMode::ReadWrite, &[held.event()]);
    let other = stage.context.memory(SIZE as u64).unwrap();
    stage.go.send(()).unwrap();
    allocation(&other, stage.space).unwrap();
    drop(other);
    stage.far.panics.store(true, Ordering::Relaxed);
    let panicked = catch_unwind(AssertUnwindSafe(|| allocation(&memory, stage.space)));
    assert!(panicked.is_err());
    assert!(stage.far.allocations.lock().unwrap().is_empty());
    stage.go.send(()).unwrap();
    let address = allocation(&memory, stage.space).unwrap().address;
    assert_eq!(
        stage.far.allocations.lock().unwrap()[&address],
        [7_u8; SIZE]
    );
    held.complete();
    stage.ready().unwrap().finish(Ok(()), &mut ToDrivers);
    waiting.wait().unwrap();
}

#[test]
fn a_launch_of_a_graph_keeps_the_memory_of_which_it_uses_no_bytes() {
    let stage = Stage::new();
    stage.far.is_in_use.store(true, Ordering::Relaxed);
    let memory = stage.far_away(7);
    let address = allocation(&memory, stage.space).unwrap().address;
    let access = Access {
        memory: &memory,
        offset: 0,
        length: 0,
        mode: AccessMode::Read,
    };
    let request = NodeRequest {
        accesses: &[access],
        ..NodeRequest::default()
    };
    let (recording, queue) = (Recording::new(&stage.context), &stage.queues[1]);
    recording.host_task(queue, |_| Ok(()), &request).unwrap();
    let graph = recording.finish().unwrap();
    let event = queue.launch_graph(&graph, &[], None).unwrap();
    let handed_over = stage.ready().unwrap();
    let other = stage.context.memory(SIZE as u64).unwrap();
    // Bytes that make room do so at once.
    stage.go.send(()).unwrap();
    assert!(allocation(&other, stage.space).is_err());
    assert_eq!(allocation(&memory, stage.space).unwrap().address, address);
    handed_over.finish(Ok(()), &mut ToDrivers);
    event.wait().unwrap();
    allocation(&other, stage.space).unwrap();
}

#[test]
fn what_commands_use_that_nobody_has_a_handle_of_makes_room() {
    let stage = Stage::new();
    let memory = stage.far_away(7);
    let held = UserEvent::new();
    let waiting = stage.use_on(1, &memory, AccessMode::ReadWrite, &[held.event()]);
    drop(memory);
    let other = stage.context.memory(SIZE as u64).unwrap();
    stage.go.send(()).unwrap();
    allocation(&other, stage.space).unwrap();
    drop(other);
    held.complete();
    stage.ready().unwrap().finish(Ok(()), &mut ToDrivers);
    waiting.wait().unwrap();
    assert!(stage.far.allocations.lock().unwrap().is_empty());
}

#[test]
fn a_driver_ends_after_the_last_of_its_allocations() {
    let stage = Stage::new();
    let kept = stage.far_away(7);
    let far = Arc::downgrade(&stage.far);
    drop(stage);
    // The context, its queues and devices have gone.
    let lives = far.upgrade().unwrap();
    assert_eq!(lives.allocations.lock().unwrap().len(), 1);
    drop(kept);
    assert!(lives.allocations.lock().unwrap().is_empty());
    assert_eq!(Arc::strong_count(&lives), 1);
}

#[test]
fn bytes_whose_other_copy_is_lost_as_some_are_written_back_stay() {
    let stage = Stage::new();
    let memory = stage.far_away(7);
    let lost = SpaceId(u16::MAX - 7);
    // As a migration to a third device would have left it.
    let half = SIZE as u64 / 2..SIZE as u64;
    let none = crate::EventId::NONE;
    memory
        .tracker()
        .migrate(&half, stage.space, lost, None, none, &mut super::Ignore);
    let other = stage.context.memory(SIZE as u64).unwrap();
    let (allocated, ()) = stage.while_bytes_travel(
        &Call::Read,
        || allocation(&other, stage.space),
        || {
            let cause = ErrorKind::DeviceLost {
                device: "third".to_owned(),
                reason: "a test".to_owned(),
            };
            let poisoned = memory.tracker().lose_space(lost, &cause.into());
            assert!(!poisoned.any);
            // The bytes that were read are not all: they are read once more.
            stage.go.send(()).unwrap();
        },
    );
    allocated.unwrap();
    assert_eq!(memory.allocated_in(), [SpaceId::HOST]);
    assert_eq!(stage.host_bytes(&memory), [7; SIZE]);
}

#[test]
fn a_content_size_is_of_the_same_context() {
    let [one, other] = [Stage::new(), Stage::new()];
    let memory = one.context.memory(SIZE as u64).unwrap();
    let size = other.context.memory(SIZE as u64).unwrap();
    let error = memory.set_content_size(Some(size)).unwrap_err();
    let is_foreign = matches!(error.kind(), ErrorKind::WrongContext { .. });
    assert!(is_foreign && memory.content_size().is_none(), "{error}");
}
