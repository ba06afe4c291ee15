//! [`Vendor`] for OpenCL: the verbs of a driver over the system's loader.

use crate::device::{self, Device, DeviceHandle, PlatformHandle};
use crate::forward::{self, Bytes, Cargo, Work};
use crate::memory::{self, Allocation};
use crate::native::{CallError, Called, Context, Event, Queue, named};
use crate::partition;
use crate::program::{self, Compiled};
use crate::staging;
use cl3::event::CL_COMPLETE;
use cl3::types::{
    cl_command_queue, cl_context, cl_device_id, cl_event, cl_int, cl_mem, cl_platform_id,
};
use quipu_clc::ProgramText;
use quipu_device_queue::launch::CodeRef;
use quipu_device_queue::queue::Wake;
use quipu_device_queue::{Executor, Flight, Obstacle, Status, Vendor, error};
use quipu_kernel_ir::{IndexWidth, KernelText, Module};
use quipu_scheduler::error::Result;
use quipu_scheduler::{AccessMode, Command, KernelAttributes, NativeQueue, Partition};
use std::any::{Any, TypeId};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Every device of every platform of the system's OpenCL loader.
#[derive(Debug)]
pub struct OpenCl {
    pub(crate) devices: Vec<Device>,
}

/// The objects that native calls and native enqueues on an OpenCL device are handed: OpenCL's own,
/// alive for as long as this is.
#[derive(Clone, Debug)]
pub struct OpenClQueue {
    platform: PlatformHandle,
    context: Context,
    queue: Queue,
    device: DeviceHandle,
}

impl OpenClQueue {
    pub(crate) fn new(device: &Device, queue: &Queue) -> Called<Self> {
        Ok(Self {
            platform: device.platform.handle,
            context: device.platform.context()?.clone(),
            queue: queue.clone(),
            device: device.handle,
        })
    }

    /// The platform.
    #[must_use]
    pub fn platform(&self) -> cl_platform_id {
        self.platform.0
    }

    /// The context: that of all devices of the platform.
    #[must_use]
    pub fn context(&self) -> cl_context {
        self.context.raw()
    }

    /// An in-order queue of the device. Commands of a native enqueue come after the waits of its
    /// Quipu command, and are over before that is. Commands of a native call must be over when it
    /// returns.
    #[must_use]
    pub fn queue(&self) -> cl_command_queue {
        self.queue.raw()
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> cl_device_id {
        self.device.0
    }
}

impl NativeQueue for OpenClQueue {
    type Memory = OpenClMemory;
}

/// A buffer, or a part of one, that a native enqueue was given: valid until its command is over.
#[derive(Clone, Copy, Debug)]
pub struct OpenClMemory {
    memory: cl_mem,
    offset: usize,
    length: usize,
    mode: AccessMode,
}

impl OpenClMemory {
    pub(crate) fn new(bytes: &Bytes<'_>, mode: AccessMode) -> Self {
        Self {
            memory: bytes.allocation.memory.raw(),
            offset: bytes.offset as usize,
            length: bytes.length as usize,
            mode,
        }
    }

    /// The memory object, in which other parts may be in use by others.
    #[must_use]
    pub fn memory(&self) -> cl_mem {
        self.memory
    }

    /// The place of its first byte in the memory object.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
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

/// Called by OpenCL: wakes the driver, and makes no call.
extern "C" fn heard(_event: cl_event, status: cl_int, wake: *mut c_void) {
    // SAFETY: made by `call_when_over` for this one call.
    let wake = unsafe { Wake::from_raw(wake) };
    if status == CL_COMPLETE {
        wake.ring_over();
    } else {
        wake.ring();
    }
}

impl OpenCl {
    /// The same, with several queues that keep their order instead of one that does not, on all
    /// devices. Else on those that have no other.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        for device in &mut self.devices {
            device.out_of_order = false;
        }
        self
    }

    /// The same, with no kernel that runs in several grids at once, on all devices. Else on those
    /// of PoCL before 6, which ends the process by an assertion where one does.
    #[must_use]
    pub fn with_grids_apart(self) -> Self {
        for device in &self.devices {
            let keeps = &device.platform.keeps_grids_apart;
            keeps.store(true, Ordering::Relaxed);
        }
        self
    }
}

impl Vendor for OpenCl {
    const SAYS_ATTRIBUTES: bool = true;
    const NAME: &'static str = "opencl";
    const TITLE: &'static str = "OpenCL";
    const INSTEAD: &'static str =
        "write it with `#[kernel]` or in OpenCL C, or launch it on a device that runs native code";

    type Device = Device;
    type Failure = CallError;
    type Signal = Event;
    type Cargo = Cargo;
    type Compiled = Compiled;
    type Allocation = Allocation;
    type Batch = ();
    type NativeQueue = OpenClQueue;

    fn open() -> Result<Self> {
        let devices = device::all()?;
        Ok(Self { devices })
    }

    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn executor_of(device: &Device, command: &Command) -> Executor {
        forward::executor_of(device, command)
    }

    fn do_here(&self, work: &Work<'_>) -> Option<Result<()>> {
        staging::do_here(work)
    }

    fn put(
        &self,
        work: &Work<'_>,
        code: Option<CodeRef<'_, Compiled>>,
        waits: &[Event],
    ) -> std::result::Result<Flight<Self>, Obstacle<CallError>> {
        forward::put(work, code, waits)
    }

    fn flush(&self, device: &Device) -> Called<()> {
        device.flush()
    }

    fn status(&self, signal: &Event) -> Called<Status<CallError>> {
        let status = signal.status()?;
        Ok((status <= CL_COMPLETE).then(|| named("the command's event", signed(status))))
    }

    fn call_when_over(&self, signal: &Event, wake: Wake) -> Called<()> {
        let wake = wake.into_raw();
        let set = cl3::event::set_event_callback(signal.raw(), CL_COMPLETE, heard, wake);
        named("clSetEventCallback", set).inspect_err(|_| {
            // SAFETY: it will not be called, so this is still ours.
            drop(unsafe { Wake::from_raw(wake) });
        })
    }

    fn earlier(cargo: &Cargo) -> &[Event] {
        cargo.earlier()
    }

    fn land(&self, work: &Work<'_>, flight: Flight<Self>) -> Result<()> {
        match flight.cargo.land() {
            Some(fault) => fault.outcome(work.device(), work.command().label()),
            None => Ok(()),
        }
    }

    fn note_times(&self, work: &Work<'_>, flight: &Flight<Self>, seen: u64) -> Option<u64> {
        forward::note_times(work, flight, seen)
    }

    fn takes_code(&self, of: TypeId) -> bool {
        of == TypeId::of::<Module>() || of == TypeId::of::<KernelText>()
    }

    fn compile(
        &self,
        device: &Device,
        code: &Arc<dyn Any + Send + Sync>,
        width: IndexWidth,
    ) -> Result<Compiled> {
        program::compile(device, code, width)
    }

    fn describe(
        &self,
        device: &Device,
        program: &(dyn Any + Send + Sync),
    ) -> Result<Box<dyn Any + Send>> {
        let text = program.downcast_ref::<ProgramText>();
        let text = text.ok_or_else(|| error::unread(Self::NAME))?;
        Ok(Box::new(program::describe(device, text)?))
    }

    fn fitting_threads(&self, _device: &Device, compiled: &Compiled, asked: u64) -> u64 {
        compiled.fitting_threads(asked)
    }

    fn reads_ahead(&self, compiled: &Compiled) -> bool {
        // A user's text may take its threads to have so many.
        let printed = compiled.printed.as_ref();
        printed.is_none_or(|(_, printed)| printed.reads_ahead)
    }

    fn attributes(&self, device: &Device, compiled: &Compiled) -> Option<KernelAttributes> {
        Some(compiled.attributes(device))
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
        // SAFETY: the bytes are pinned, in whole pages, until this is freed: the contract of
        // `Vendor::map_host_memory`.
        Some(unsafe { memory::in_place(device, host, size) })
    }

    fn release(&self, _device: &Device, allocation: Allocation) {
        drop(allocation);
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

    /// Between devices of one platform.
    fn has_route(&self, from: &Device, to: &Device) -> bool {
        Arc::ptr_eq(&from.platform, &to.platform)
    }

    fn partition(&self, device: &Device, partition: &Partition) -> Result<Vec<Device>> {
        partition::partition(device, partition)
    }

    fn native_queue(&self, device: &Device) -> Option<OpenClQueue> {
        OpenClQueue::new(device, &device.queues(false).ok()?.service).ok()
    }
}

/// An event's status as the result of a call: a negative one is a failure.
fn signed(status: cl_int) -> std::result::Result<(), cl_int> {
    if status < 0 { Err(status) } else { Ok(()) }
}
