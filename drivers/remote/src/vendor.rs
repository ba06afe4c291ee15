//! The verbs that the driver is made of.

use crate::Options;
use crate::device::Device;
use crate::failure::Refusal;
use crate::forward::{self, Cargo};
use crate::link::Link;
use crate::memory::Allocation;
use crate::point::Point;
use crate::program::{self, Program};
use crate::resume::Resumption;
use quipu_core::event::Waiter;
use quipu_core::{BuiltIn, Command, Context, ErrorKind, NativeQueue, Result};
use quipu_driver_vendor::launch::Code;
use quipu_driver_vendor::queue::Wake;
use quipu_driver_vendor::{Doer, Flight, Obstacle, Status, Vendor, Work};
use quipu_kernel_ir::{IndexWidth, KernelText, Module};
use quipu_link::Key;
use quipu_link::session::Greeted;
use quipu_link::stream::{Duplex, Incoming};
use quipu_wire::frame::Stream;
use std::any::{Any, TypeId};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// A node, and its devices.
pub struct Remote {
    link: Arc<Link>,
    devices: Vec<Device>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Remote")
            .field("node", &self.link.node)
            .field("devices", &self.devices)
            .finish_non_exhaustive()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.link.close();
    }
}

impl Remote {
    /// A node that has said welcome on both streams; what receives from the second.
    pub(crate) fn new(
        options: &Options,
        key: &Key,
        begun: Greeted,
        bulk: Greeted,
    ) -> std::result::Result<(Self, Incoming), String> {
        let resumable = !begun.terms.patience.is_zero();
        let split = |greeted: Greeted, stream, spin| {
            let split = greeted.connection.split(Duplex {
                stream,
                spin,
                resumable,
            });
            split.map_err(|error| error.to_string())
        };
        let (terms, devices) = (begun.terms.clone(), begun.devices.clone());
        let (incoming, out) = split(begun, Stream::Command, options.spin)?;
        let (bulk_incoming, bulk_out) = split(bulk, Stream::Bulk, Duration::ZERO)?;
        let resumption = resumable.then(|| Resumption::new(options, key, &terms));
        let link = Link::new(options, terms, (incoming, out), bulk_out, resumption);
        let link = Arc::new(link);
        let devices = devices.iter().enumerate();
        let devices = devices.map(|(number, device)| Device::new(number, device, &link));
        let remote = Self {
            devices: devices.collect::<std::result::Result<_, _>>()?,
            link,
        };
        Ok((remote, bulk_incoming))
    }

    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// What the node is called here.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.link.node
    }

    /// Bytes that were sent in bulk to the node, and what was sent for them: less if they were compressed.
    #[must_use]
    pub fn bulk_bytes(&self) -> [u64; 2] {
        self.link.traffic.bytes()
    }

    /// Cuts the connection, as a network may: for tests of what happens then.
    pub fn cut(&self) {
        self.link.cut();
    }
}

/// What a native call on a node's device would be handed: there is nothing of the kind here.
#[derive(Debug)]
pub enum NoQueue {}

impl NativeQueue for NoQueue {
    type Memory = Infallible;
}

impl Vendor for Remote {
    const NAME: &'static str = "remote";
    const TITLE: &'static str = "remote";
    const INSTEAD: &'static str =
        "write it with `#[kernel]`, and serve from a program that has it, or in OpenCL C";
    const TELLS: bool = true;
    // As much as is on its way on a network that is far: on one of a millisecond, four commands in a microsecond.
    const CREDIT: usize = 4096;

    type Device = Device;
    type Failure = Refusal;
    type Signal = Point;
    type Cargo = Cargo;
    type Compiled = Program;
    type Allocation = Allocation;
    type Batch = Infallible;
    type NativeQueue = NoQueue;

    fn open() -> Result<Self> {
        Err(ErrorKind::InvalidArgument {
            what: "look for nodes",
            problem: "nodes are connected to one by one; use `connect`".to_owned(),
        }
        .into())
    }

    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn doer_of(_device: &Device, command: &Command) -> Doer {
        forward::doer_of(command)
    }

    fn put(
        &self,
        work: &Work<'_, Self>,
        code: Option<&Code<Program>>,
        waits: &[Point],
    ) -> std::result::Result<Flight<Self>, Obstacle<Refusal>> {
        forward::put(work, code, waits)
    }

    fn flush(&self, _device: &Device) -> std::result::Result<(), Refusal> {
        self.link.flush();
        Ok(())
    }

    fn status(&self, signal: &Point) -> std::result::Result<Status<Refusal>, Refusal> {
        if signal.is_over() {
            // Also of one that has failed: why is said as it lands.
            return Ok(Some(Ok(())));
        }
        match self.link.loss() {
            Some(lost) => Err(lost),
            None => Ok(None),
        }
    }

    fn attend(&self) {
        self.link.attend();
    }

    fn wait(&self, waiter: &Waiter<'_>) {
        self.link.wait(waiter);
    }

    fn call_when_over(&self, _: &Point, _: Wake) -> std::result::Result<(), Refusal> {
        // The receiver tells.
        Ok(())
    }

    fn land(&self, work: &Work<'_, Self>, cargo: Cargo) -> Result<()> {
        let Some(error) = cargo.point.take_failure() else {
            return Ok(());
        };
        if let ErrorKind::DeviceLost { reason, .. } = error.kind()
            && let Some(device) = work.command().queue().device()
            && device.lost().is_none()
        {
            // The node knows what was only in that device's memory, and says so of whatever needs it.
            Context::device_lost(device, reason, false);
        }
        Err(error)
    }

    fn note_times(&self, work: &Work<'_, Self>, flight: &Flight<Self>, seen: u64) -> Option<u64> {
        forward::note_times(work, flight, seen)
    }

    fn takes_code(&self, of: TypeId) -> bool {
        of == TypeId::of::<Module>()
            || of == TypeId::of::<KernelText>()
            || of == TypeId::of::<BuiltIn>()
    }

    fn compile(
        &self,
        device: &Device,
        code: &Arc<dyn Any + Send + Sync>,
        _width: IndexWidth,
    ) -> Result<Program> {
        program::create(device, code)
    }

    fn reserve(&self, _device: &Device, size: u64) -> std::result::Result<Allocation, Refusal> {
        let buffer = self.link.create_buffer(size)?;
        Ok(Allocation { buffer, size })
    }

    fn release(&self, _device: &Device, allocation: Allocation) {
        self.link.free_buffer(allocation.buffer, allocation.size);
    }

    fn read(
        &self,
        device: &Device,
        allocation: &Allocation,
        offset: u64,
        bytes: &mut [u8],
    ) -> std::result::Result<(), Refusal> {
        device.read(allocation, offset, bytes)
    }

    fn write(
        &self,
        device: &Device,
        allocation: &Allocation,
        offset: u64,
        bytes: &[u8],
    ) -> std::result::Result<(), Refusal> {
        device.write(allocation, offset, bytes)
    }

    fn clear(
        &self,
        device: &Device,
        allocation: &Allocation,
        offset: u64,
        length: u64,
    ) -> std::result::Result<(), Refusal> {
        device.clear(allocation, offset, length)
    }

    fn has_route(&self, _from: &Device, _to: &Device) -> bool {
        false
    }

    fn native_queue(&self, _device: &Device) -> Option<NoQueue> {
        None
    }
}
