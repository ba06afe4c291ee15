//! [`Vendor`] for CUDA: the verbs of a driver over the driver API.

use crate::device::{self, Device, Live, Signal};
use crate::forward::{self, Bytes, Cargo, Work};
use crate::graph::{self, Batch, Recorded};
use crate::host;
use crate::memory::{self, Allocation};
use crate::native::{CallError, Called, Stream};
use crate::program::{self, Compiled};
use cudarc::driver::sys::{CUcontext, CUdevice, CUdeviceptr, CUstream};
use quipu_clc::{Image, LinkedKernel, SpirV};
use quipu_device_queue::batch::Plan;
use quipu_device_queue::launch::CodeRef;
use quipu_device_queue::queue::Wake;
use quipu_device_queue::{Executor, Failure, Flight, Obstacle, Status, Vendor, VendorDevice};
use quipu_kernel_ir::{IndexWidth, KernelText, Module};
use quipu_scheduler::error::Result;
use quipu_scheduler::memory::pinned::HostBlock;
use quipu_scheduler::panics::quietly;
use quipu_scheduler::{AccessMode, Command, Graph, KernelAttributes, NativeQueue};
use std::any::{Any, TypeId};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

/// Every device of the system's CUDA driver.
#[derive(Debug)]
pub struct Cuda {
    devices: Vec<Device>,
    /// Pairs of devices that have been told of each other.
    pub(crate) linked: Mutex<Vec<(usize, usize)>>,
}

/// The objects that native calls and native enqueues on a CUDA device are handed: CUDA's own, alive
/// for as long as the driver is, which is at least until the call returns.
#[derive(Clone, Copy, Debug)]
pub struct CudaQueue {
    context: CUcontext,
    stream: CUstream,
    device: CUdevice,
}

// SAFETY: CUDA's objects may be used by any thread.
unsafe impl Send for CudaQueue {}
// SAFETY: and by several at a time.
unsafe impl Sync for CudaQueue {}

impl CudaQueue {
    pub(crate) fn new(device: &Device, live: &Live, stream: &Stream) -> Self {
        Self {
            context: live.context.raw(),
            stream: stream.raw(),
            device: device.handle,
        }
    }

    /// The device's primary context. It is current where a native enqueue is called; the thread of
    /// a native call has to make it so (`cuCtxSetCurrent`).
    #[must_use]
    pub fn context(&self) -> CUcontext {
        self.context
    }

    /// A stream of the device. Commands of a native enqueue come after the waits of its Quipu
    /// command, and are over before that is. Commands of a native call must be over when it
    /// returns.
    #[must_use]
    pub fn stream(&self) -> CUstream {
        self.stream
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> CUdevice {
        self.device
    }
}

impl NativeQueue for CudaQueue {
    type Memory = CudaMemory;
}

/// A buffer, or a part of one, that a native enqueue was given: valid until its command is over.
#[derive(Clone, Copy, Debug)]
pub struct CudaMemory {
    address: CUdeviceptr,
    length: usize,
    mode: AccessMode,
}

impl CudaMemory {
    pub(crate) fn new(bytes: &Bytes<'_>, mode: AccessMode) -> Self {
        Self {
            address: forward::address(bytes),
            length: bytes.length as usize,
            mode,
        }
    }

    /// Its first byte.
    #[must_use]
    pub fn address(&self) -> CUdeviceptr {
        self.address
    }

    /// Bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// The mode in which the closure may use it.
    #[must_use]
    pub fn mode(&self) -> AccessMode {
        self.mode
    }
}

/// Called by CUDA: wakes the driver, and makes no call.
unsafe extern "C" fn heard(wake: *mut c_void) {
    // SAFETY: made by `call_when_over` for this one call.
    unsafe { Wake::from_raw(wake) }.ring();
}

impl Vendor for Cuda {
    const SAYS_ATTRIBUTES: bool = true;
    const NAME: &'static str = "cuda";
    const TITLE: &'static str = "CUDA";
    const INSTEAD: &'static str =
        "write it with `#[kernel]`, or launch it on a device that runs native code";

    const FLUSHES: bool = false;

    type Device = Device;
    type Failure = CallError;
    type Signal = Signal;
    type Cargo = Cargo;
    type Compiled = Compiled;
    type Allocation = Allocation;
    type Batch = Batch;
    type NativeQueue = CudaQueue;

    fn open() -> Result<Self> {
        Ok(Self {
            devices: device::all()?,
            linked: Mutex::default(),
        })
    }

    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn executor_of(_device: &Device, command: &Command) -> Executor {
        forward::executor_of(command)
    }

    fn put(
        &self,
        work: &Work<'_>,
        code: Option<CodeRef<'_, Compiled>>,
        waits: &[Signal],
    ) -> std::result::Result<Flight<Self>, Obstacle<CallError>> {
        forward::put(work, code, waits)
    }

    fn take_graph(&self, device: &Device, graph: &Graph) -> Option<Box<dyn Any + Send + Sync>> {
        Recorded::take(device, graph).map(|recorded| Box::new(recorded) as Box<_>)
    }

    fn can_be_batched(command: &Command) -> bool {
        graph::can_be_batched(command)
    }

    fn start_of(allocation: &Allocation) -> u64 {
        allocation.address
    }

    fn make_batch(
        &self,
        device: &Device,
        plan: &Plan<Self>,
    ) -> std::result::Result<Batch, Obstacle<CallError>> {
        Batch::of(device, plan)
    }

    fn put_batch(
        &self,
        work: &Work<'_>,
        batch: &Batch,
        memories: &[Bytes<'_>],
        waits: &[Signal],
    ) -> std::result::Result<Vec<Flight<Self>>, Obstacle<CallError>> {
        forward::put_batch(work, batch, memories, waits)
    }

    fn do_here(&self, work: &Work<'_>) -> Option<Result<()>> {
        host::do_here(work)
    }

    fn status(&self, signal: &Signal) -> Called<Status<CallError>> {
        let track = &self.devices[signal.device].live()?.tracks[signal.track];
        if let Some(is_finished) = track.is_finished(signal) {
            return Ok(is_finished.then_some(Ok(())));
        }
        // An event cannot fail: CUDA says instead that the context is broken.
        let is_finished = signal.event.has_happened()?;
        if is_finished {
            track.note(signal.ticket);
        }
        Ok(is_finished.then_some(Ok(())))
    }

    fn call_when_over(&self, signal: &Signal, wake: Wake) -> Called<()> {
        let live = self.devices[signal.device].live()?;
        let echo = &live.tracks[signal.track].echo;
        let _entered = live.context.enter()?;
        echo.wait(&signal.event)?;
        let wake = wake.into_raw();
        // SAFETY: it takes its argument, once, and calls nothing.
        unsafe { echo.call(heard, wake) }.inspect_err(|_| {
            // SAFETY: it will not be called, so this is still ours.
            drop(unsafe { Wake::from_raw(wake) });
        })
    }

    fn land(&self, work: &Work<'_>, flight: Flight<Self>) -> Result<()> {
        flight.cargo.land(work.command())
    }

    fn note_times(&self, work: &Work<'_>, flight: &Flight<Self>, seen: u64) -> Option<u64> {
        forward::note_times(work, flight, seen)
    }

    fn takes_code(&self, of: TypeId) -> bool {
        let programs = [
            TypeId::of::<KernelText>(),
            TypeId::of::<LinkedKernel>(),
            TypeId::of::<Image>(),
        ];
        of == TypeId::of::<Module>()
            || programs.contains(&of) && quipu_clc::is_available()
            || of == TypeId::of::<SpirV>() && quipu_clc::takes_spirv()
    }

    fn describe(
        &self,
        device: &Device,
        program: &(dyn Any + Send + Sync),
    ) -> Result<Box<dyn Any + Send>> {
        Ok(Box::new(program::describe(device, program)?))
    }

    fn compile(
        &self,
        device: &Device,
        code: &Arc<dyn Any + Send + Sync>,
        width: IndexWidth,
    ) -> Result<Compiled> {
        program::compile(device, code, width)
    }

    /// As many as the device has room for the most of, of kernels whose blocks are no more than
    /// their threads.
    fn fitting_threads(&self, _device: &Device, compiled: &Compiled, asked: u64) -> u64 {
        match compiled.printed.barriers || asked == 1 {
            true => asked.min(compiled.most_threads),
            false => compiled.fitting_threads,
        }
    }

    fn most_blocks(&self, device: &Device, compiled: &Compiled, threads: u64) -> Option<u64> {
        if !compiled.printed.grid_barriers {
            return None;
        }
        // A launch that is refused for more blocks says so itself.
        compiled.blocks_at_once(device, threads, 0).ok()
    }

    fn reads_ahead(&self, compiled: &Compiled) -> bool {
        compiled.printed.reads_ahead
    }

    fn attributes(&self, _device: &Device, compiled: &Compiled) -> Option<KernelAttributes> {
        Some(compiled.attributes())
    }

    fn reserve(&self, device: &Device, size: u64) -> Called<Allocation> {
        memory::zeroed(device, size)
    }

    unsafe fn map_host_memory(
        &self,
        device: &Device,
        host: NonNull<u8>,
        size: u64,
    ) -> Option<Called<Allocation>> {
        Some(memory::in_place(device, host, size))
    }

    fn allocate_managed(&self, device: &Device, size: u64) -> Option<Called<HostBlock>> {
        let has_any = device.properties().managed_memory;
        has_any.then(|| memory::managed(device, size))
    }

    fn release(&self, device: &Device, allocation: Allocation) {
        if let Err(error) = memory::given_back(device, &allocation) {
            // Its device is lost, or the process ends: then the memory is gone anyway.
            quietly(|| tracing::debug!(reason = error.text(), "memory was not freed"));
        }
    }

    fn read(
        &self,
        device: &Device,
        allocation: &Allocation,
        offset: u64,
        bytes: &mut [u8],
    ) -> Called<()> {
        allocation.read(device, offset, bytes)
    }

    fn write(
        &self,
        device: &Device,
        allocation: &Allocation,
        offset: u64,
        bytes: &[u8],
    ) -> Called<()> {
        allocation.write(device, offset, bytes)
    }

    fn free_memory(&self, device: &Device, left: u64) -> Option<u64> {
        memory::free(device, left)
    }

    /// Between all devices.
    fn has_route(&self, _from: &Device, _to: &Device) -> bool {
        true
    }

    fn native_queue(&self, device: &Device) -> Option<CudaQueue> {
        let live = device.live().ok()?;
        Some(CudaQueue::new(device, live, &live.service))
    }
}
