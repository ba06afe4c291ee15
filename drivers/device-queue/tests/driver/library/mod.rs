//! A vendor's library that exists only here: devices that are a thread, which runs commands in any
//! order that the waits allow, and which go wrong as a test says.
#![allow(dead_code, reason = "each test binary uses some of it")]

pub(crate) mod acts;
mod batch;
pub(crate) mod faults;
pub(crate) mod machine;
mod native;
mod put;

use batch::Batch;
#[allow(unused_imports, reason = "as above")]
pub(crate) use native::FakeMemory;
pub(crate) use native::FakeQueue;
pub(crate) use put::Recorded;

use faults::{Fault, Faults};
use machine::{Machine, Point};
use quipu_device_queue::batch::{Does, Plan};
use quipu_device_queue::launch::CodeRef;
use quipu_device_queue::queue::Wake;
use quipu_device_queue::region::Shape;
use quipu_device_queue::{
    Bytes, Executor, Failure, Flight, Obstacle, Status, Vendor, VendorDevice, VendorDriver, Work,
};
use quipu_kernel_ir::{IndexWidth, Module};
use quipu_scheduler::memory::pinned::PinnedRange;
use quipu_scheduler::{
    Command, Context, Device, DeviceKind, DeviceProperties, Driver, Error, Graph, MemorySpace,
    Result,
};
use std::alloc::Layout;
use std::any::{Any, TypeId};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The number of the next allocation.
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// Bytes of a page.
const PAGE: usize = 4096;
/// Bytes of a device's memory.
pub(crate) const CAPACITY: u64 = 1 << 24;

/// The error of a refused call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// For no reason that stays.
    Busy,
    /// There is no memory.
    Memory,
    /// Something that it waits for has failed.
    Wait,
    /// The command has failed on the device.
    Broken,
    /// The device is lost.
    Lost,
}

impl Failure for Refusal {
    fn is_loss(&self) -> bool {
        *self == Self::Lost
    }

    fn is_out_of_memory(&self) -> bool {
        *self == Self::Memory
    }

    fn is_of_a_wait(&self) -> bool {
        *self == Self::Wait
    }

    fn text(&self) -> String {
        format!("the library says {self:?}")
    }
}

/// A device.
pub(crate) struct Fake {
    properties: DeviceProperties,
    pub(crate) machine: Arc<Machine>,
}

impl VendorDevice for Fake {
    fn properties(&self) -> &DeviceProperties {
        &self.properties
    }
}

/// Memory of a device.
pub(crate) struct Allocation {
    pub(crate) pointer: *mut u8,
    /// None of memory of the host's.
    layout: Option<Layout>,
    /// Tells it from all others that there ever were.
    pub(crate) number: usize,
    pub(crate) zeroed: Point,
    faults: Arc<Faults>,
}

// SAFETY: it owns its bytes, which are touched as the driver orders it.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

/// The objects that come with a command.
#[derive(Debug, Default)]
pub(crate) struct Cargo {
    pub(crate) earlier: Vec<Point>,
    /// The kernel's own error.
    pub(crate) outcome: Arc<Mutex<Option<Error>>>,
    /// The times of its run, if they are to be known.
    pub(crate) times: Option<Arc<Mutex<(u64, u64)>>>,
}

/// The library.
pub(crate) struct Library {
    devices: Vec<Fake>,
    /// True if a device's streams keep their order; otherwise only waits do.
    pub(crate) ordered: bool,
    pub(crate) faults: Arc<Faults>,
}

/// A library of two devices, as a driver, and its faults.
pub(crate) fn started(ordered: bool, seed: u64) -> (Arc<VendorDriver<Library>>, Arc<Faults>) {
    started_with(ordered, seed, CAPACITY)
}

/// The same, with so many bytes of memory each.
pub(crate) fn started_with(
    ordered: bool,
    seed: u64,
    capacity: u64,
) -> (Arc<VendorDriver<Library>>, Arc<Faults>) {
    let faults = Arc::new(Faults::new(seed));
    let device = |number: u32| Fake {
        properties: properties(number, capacity),
        machine: Machine::start(seed + u64::from(number), ordered, faults.clone()),
    };
    let library = Library {
        devices: vec![device(0), device(1)],
        ordered,
        faults: faults.clone(),
    };
    (
        VendorDriver::over(library).expect("the system gives threads"),
        faults,
    )
}

/// The devices of a fresh library, a context over them, and its faults.
pub(crate) fn stage(ordered: bool, seed: u64) -> (Vec<Device>, Context, Arc<Faults>) {
    stage_with(ordered, seed, CAPACITY)
}

/// The same, with so many bytes of memory each.
pub(crate) fn stage_with(
    ordered: bool,
    seed: u64,
    capacity: u64,
) -> (Vec<Device>, Context, Arc<Faults>) {
    let (driver, faults) = started_with(ordered, seed, capacity);
    let driver: Arc<dyn Driver> = driver;
    let devices = Device::all_of(&driver).expect("its devices");
    let context = Context::new(&devices).expect("a context over them");
    (devices, context, faults)
}

fn properties(number: u32, capacity: u64) -> DeviceProperties {
    DeviceProperties {
        max_block_threads: [64; 3],
        max_block_thread_count: 64,
        shared_memory_per_block: 1 << 14,
        global_memory: capacity,
        max_buffer: capacity,
        memory: MemorySpace::Own(number),
        domain: Some(0),
        concurrent_commands: 4,
        // One uses memory of the host where it is, and one has copies.
        maps_host_memory: number == 0,
        ..DeviceProperties::new(DeviceKind::Gpu, format!("fake {number}"))
    }
}

impl Vendor for Library {
    const NAME: &'static str = "fake";
    const TITLE: &'static str = "fake";
    const INSTEAD: &'static str = "write it for the fake library";

    fn now(&self) -> u64 {
        self.faults.now()
    }

    type Device = Fake;
    type Failure = Refusal;
    type Signal = Point;
    type Cargo = Cargo;
    type Compiled = ();
    type Allocation = Allocation;
    type Batch = Batch;
    type NativeQueue = FakeQueue;

    fn open() -> Result<Self> {
        Err(quipu_device_queue::error::no_devices(
            "look for fake devices",
            "tests make them".to_owned(),
        ))
    }

    fn devices(&self) -> &[Fake] {
        &self.devices
    }

    fn executor_of(_device: &Fake, command: &Command) -> Executor {
        put::executor_of(command)
    }

    fn put(
        &self,
        work: &Work<'_, Self>,
        code: Option<CodeRef<'_, ()>>,
        waits: &[Point],
    ) -> std::result::Result<Flight<Self>, Obstacle<Refusal>> {
        if let Some(code) = code {
            self.faults.note_launch(&code.passed.threads);
        }
        put::put(self, work, code, waits)
    }

    fn take_graph(&self, _device: &Fake, graph: &Graph) -> Option<Box<dyn Any + Send + Sync>> {
        Some(Box::new(Recorded::of(graph)))
    }

    fn can_be_batched(_command: &Command) -> bool {
        true
    }

    fn start_of(allocation: &Allocation) -> u64 {
        // Another place, if the memory is said to have moved: nothing is ever run there.
        let moved = u64::from(allocation.faults.is_moved()) << 60;
        allocation.pointer.expose_provenance() as u64 | moved
    }

    fn make_batch(
        &self,
        _device: &Fake,
        plan: &Plan<Self>,
    ) -> std::result::Result<Batch, Obstacle<Refusal>> {
        self.faults.make()?;
        let mut uses_host_memory = false;
        for command in &plan.commands {
            let starts = command.starts.iter().map(|start| *start as usize);
            let mut starts = starts.map(std::ptr::without_provenance);
            uses_host_memory |= starts.any(|start| PinnedRange::of(start, 1).is_some());
            if uses_host_memory && command.is_told {
                let what = "the host is told of an end before it sees what was written".to_owned();
                self.faults.violated(what);
            }
            if let Does::Launch(code) = &command.does {
                self.faults.note_launch(&code.passed.threads);
            }
        }
        Ok(Batch::of(plan))
    }

    fn put_batch(
        &self,
        work: &Work<'_, Self>,
        batch: &Batch,
        memories: &[Bytes<'_, Self>],
        waits: &[Point],
    ) -> std::result::Result<Vec<Flight<Self>>, Obstacle<Refusal>> {
        batch::put_batch(self, work, batch, memories, waits)
    }

    fn flush(&self, device: &Fake) -> std::result::Result<(), Refusal> {
        self.faults.check(Fault::Flush)?;
        device.machine.flush();
        Ok(())
    }

    fn status(&self, signal: &Point) -> std::result::Result<Status<Refusal>, Refusal> {
        self.faults.look(|| {
            self.faults.check(Fault::Status)?;
            signal.status()
        })
    }

    fn call_when_over(&self, signal: &Point, wake: Wake) -> std::result::Result<(), Refusal> {
        self.faults.check(Fault::Callback)?;
        if !self.faults.is_muted() {
            signal.call(wake);
        }
        Ok(())
    }

    fn earlier(cargo: &Cargo) -> &[Point] {
        &cargo.earlier
    }

    fn land(&self, _work: &Work<'_, Self>, flight: Flight<Self>) -> Result<()> {
        self.faults.note_end();
        let outcome = flight.cargo.outcome.lock();
        let outcome = outcome.expect("nobody panics with it").take();
        outcome.map_or(Ok(()), Err)
    }

    fn note_times(&self, work: &Work<'_, Self>, flight: &Flight<Self>, _seen: u64) -> Option<u64> {
        let times = flight.cargo.times.as_ref()?;
        let (began, ended) = *times.lock().expect("nobody panics with it");
        work.command().started_at(began);
        Some(ended)
    }

    fn takes_code(&self, of: TypeId) -> bool {
        of == TypeId::of::<Module>()
    }

    fn fitting_threads(&self, _device: &Fake, _compiled: &(), asked: u64) -> u64 {
        self.faults.room().map_or(asked, |room| asked.min(room))
    }

    fn compile(
        &self,
        device: &Fake,
        _code: &Arc<dyn Any + Send + Sync>,
        _width: IndexWidth,
    ) -> Result<()> {
        let refused = self.faults.check(Fault::Compile);
        refused.map_err(|refusal| {
            quipu_device_queue::error::of_call(device.name(), "compile", &refusal)
        })
    }

    fn reserve(&self, device: &Fake, size: u64) -> std::result::Result<Allocation, Refusal> {
        self.faults.check(Fault::Reserve)?;
        let layout = Layout::from_size_align(size.max(1) as usize, 64).expect("a small size");
        // SAFETY: the layout has a size.
        let pointer = unsafe { std::alloc::alloc(layout) };
        assert!(!pointer.is_null());
        // SAFETY: so many bytes, ours alone.
        unsafe { pointer.write_bytes(0xaa, layout.size()) };
        let zeroed = device.machine.zero(pointer, layout.size());
        Ok(Allocation {
            pointer,
            layout: Some(layout),
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            zeroed,
            faults: self.faults.clone(),
        })
    }

    unsafe fn map_host_memory(
        &self,
        device: &Fake,
        host: NonNull<u8>,
        size: u64,
    ) -> Option<std::result::Result<Allocation, Refusal>> {
        let pinned = PinnedRange::of(host.as_ptr(), size as usize);
        let pages = pinned
            .expect("memory that is used in place is pinned")
            .bytes();
        assert!(pages.start.is_multiple_of(PAGE) && pages.end.is_multiple_of(PAGE));
        let reserved = self.faults.check(Fault::Reserve);
        Some(reserved.map(|()| Allocation {
            pointer: host.as_ptr(),
            layout: None,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            // Zeroing nothing is over when all before it is.
            zeroed: device.machine.zero(host.as_ptr(), 0),
            faults: self.faults.clone(),
        }))
    }

    fn release(&self, device: &Fake, allocation: Allocation) {
        device.machine.released(allocation.pointer.addr());
        if let Some(layout) = allocation.layout {
            // SAFETY: allocated so, freed once.
            unsafe { std::alloc::dealloc(allocation.pointer, layout) };
        }
    }

    fn read(
        &self,
        device: &Fake,
        allocation: &Allocation,
        offset: u64,
        bytes: &mut [u8],
    ) -> std::result::Result<(), Refusal> {
        self.faults.check(Fault::HostCopy)?;
        device.machine.wait(&allocation.zeroed)?;
        // SAFETY: the range is one of the allocation's, and nobody writes it now: the driver sees
        // to that.
        let from = unsafe {
            std::slice::from_raw_parts(allocation.pointer.add(offset as usize), bytes.len())
        };
        bytes.copy_from_slice(from);
        Ok(())
    }

    fn write(
        &self,
        device: &Fake,
        allocation: &Allocation,
        offset: u64,
        bytes: &[u8],
    ) -> std::result::Result<(), Refusal> {
        self.faults.check(Fault::HostCopy)?;
        device.machine.wait(&allocation.zeroed)?;
        // SAFETY: as above, and nobody reads it.
        let to = unsafe {
            std::slice::from_raw_parts_mut(allocation.pointer.add(offset as usize), bytes.len())
        };
        to.copy_from_slice(bytes);
        Ok(())
    }

    fn has_route(&self, _from: &Fake, _to: &Fake) -> bool {
        true
    }

    fn native_queue(&self, _device: &Fake) -> Option<FakeQueue> {
        None
    }
}

/// True if a transfer takes few calls.
fn is_for_a_device(shape: &Shape) -> bool {
    shape.is_for_a_device(u64::MAX)
}
