//! [`Vendor`] for nodes: the verbs of a driver over connections to other machines.

use crate::Met;
use crate::description::Asked;
use crate::device::Device;
use crate::failure::Refusal;
use crate::forward::{self, Cargo};
use crate::link::Link;
use crate::memory::Allocation;
use crate::point::Point;
use crate::program::{self, Program};
use crate::resume::Resumption;
use quipu_clc::{Image, LinkedKernel, SpirV};
use quipu_device_queue::launch::CodeRef;
use quipu_device_queue::queue::Wake;
use quipu_device_queue::{Executor, Flight, Obstacle, Status, Vendor, Work};
use quipu_kernel_ir::{IndexWidth, KernelText, Module};
use quipu_link::session::{Greeted, NodeDevice};
use quipu_link::stream::{Duplex, Incoming};
use quipu_protocol::frame::Stream;
use quipu_scheduler::event::Waiter;
use quipu_scheduler::operation::Migration;
use quipu_scheduler::{BuiltIn, Command, Context, ErrorKind, NativeQueue, Result};
use std::any::{Any, TypeId};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// Nodes, and their devices.
pub struct Remote {
    links: Vec<Arc<Link>>,
    devices: Vec<Device>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Remote")
            .field("nodes", &self.nodes())
            .field("devices", &self.devices)
            .finish_non_exhaustive()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.links.iter().for_each(|link| link.close());
    }
}

impl Remote {
    /// Nodes that have said welcome on both streams; the receivers of the second of each.
    pub(crate) fn new(nodes: Vec<Met>) -> std::result::Result<(Self, Vec<Incoming>), String> {
        let (mut links, mut devices, mut bulks) = (Vec::new(), Vec::new(), Vec::new());
        for (number, met) in nodes.into_iter().enumerate() {
            let (link, described, bulk) = link(number, met)?;
            let space = devices.len();
            let own = described.iter().enumerate();
            for (number, device) in own {
                devices.push(Device::new(number, device, &link, space)?);
            }
            links.push(link);
            bulks.push(bulk);
        }
        if links.len() > 1 {
            let all: Vec<_> = links.iter().map(Arc::downgrade).collect();
            for link in &links {
                // Set once, here.
                let _ = link.siblings.set(all.clone());
            }
        }
        Ok((Self { links, devices }, bulks))
    }

    pub(crate) fn links(&self) -> &[Arc<Link>] {
        &self.links
    }

    /// The names of the nodes here.
    #[must_use]
    pub fn nodes(&self) -> Vec<&str> {
        self.links.iter().map(|link| link.node.as_str()).collect()
    }

    /// Bytes that were sent in bulk to the nodes, and the bytes that were sent for them: fewer if
    /// they were compressed.
    #[must_use]
    pub fn bulk_bytes(&self) -> [u64; 2] {
        self.links.iter().fold([0; 2], |[all, sent], link| {
            let [more, less] = link.traffic.bytes();
            [all + more, sent + less]
        })
    }

    /// Cuts the connections to all nodes, as a network may: for tests of a loss.
    #[doc(hidden)]
    pub fn cut(&self) {
        self.links.iter().for_each(|link| link.cut());
    }

    /// The node, if there is one alone: then a waiting thread reads its messages.
    fn only(&self) -> Option<&Link> {
        match &self.links[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// A command may wait for any node: each has a thread that reads.
    fn leave_to_keepers(&self) {
        for link in &self.links {
            if link.is_flying() {
                link.leave_to_keeper();
            }
        }
    }
}

/// The connection to a node, its devices, and the receiver of its bulk stream.
fn link(
    number: usize,
    met: Met,
) -> std::result::Result<(Arc<Link>, Vec<NodeDevice>, Incoming), String> {
    let (options, key, begun, bulk) = met.take().ok_or("it was used before")?;
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
    let resumption = resumable.then(|| Resumption::new(&options, &key, &terms));
    let link = Link::new(
        number,
        &options,
        terms,
        (incoming, out),
        bulk_out,
        resumption,
    );
    Ok((Arc::new(link), devices, bulk_incoming))
}

/// The queue for a native call on a node's device: there is none here.
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
    // Its link is closed by then.
    const WORKS_WHEN_LOST: bool = false;
    // A node's devices may each have a memory of their own.
    const MOVES_WITHIN_SPACES: bool = true;
    // As much as is on its way on a network that is far: on one of a millisecond, four commands in
    // a microsecond.
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

    fn executor_of(_device: &Device, command: &Command) -> Executor {
        forward::executor_of(command)
    }

    fn executor_of_content(device: &Device, migration: &Migration) -> Executor {
        match forward::finds_content(device, migration) {
            true => Executor::Device,
            false => Executor::Host,
        }
    }

    fn put(
        &self,
        work: &Work<'_, Self>,
        code: Option<CodeRef<'_, Program>>,
        waits: &[Point],
    ) -> std::result::Result<Flight<Self>, Obstacle<Refusal>> {
        forward::put(work, code, waits)
    }

    fn flush(&self, device: &Device) -> std::result::Result<(), Refusal> {
        device.link.flush();
        device.link.flush_others();
        Ok(())
    }

    fn status(&self, signal: &Point) -> std::result::Result<Status<Refusal>, Refusal> {
        if signal.is_finished() {
            // Also of one that has failed: why is said as it lands.
            return Ok(Some(Ok(())));
        }
        match self.links[signal.home()].loss() {
            Some(lost) => Err(lost),
            None => Ok(None),
        }
    }

    fn attend(&self) {
        match self.only() {
            Some(link) => link.attend(),
            None => self.leave_to_keepers(),
        }
    }

    fn wait(&self, waiter: &Waiter<'_>) {
        if let Some(link) = self.only() {
            return link.wait(waiter);
        }
        self.leave_to_keepers();
        waiter.park();
    }

    fn call_when_over(&self, _: &Point, _: Wake) -> std::result::Result<(), Refusal> {
        // The receiver tells.
        Ok(())
    }

    fn land(&self, work: &Work<'_, Self>, flight: Flight<Self>) -> Result<()> {
        let Some(error) = flight.signal.take_failure() else {
            return Ok(());
        };
        if let ErrorKind::DeviceLost { reason, .. } = error.kind()
            && let Some(device) = work.command().queue().device()
            && device.lost().is_none()
        {
            // A node knows the buffers that were only in that device's memory, and fails the
            // commands that need them; not if it is gone itself.
            let memory_is_gone = work.device().link.loss().is_some();
            Context::device_lost(device, reason, memory_is_gone);
        }
        Err(error)
    }

    fn note_times(&self, work: &Work<'_, Self>, flight: &Flight<Self>, seen: u64) -> Option<u64> {
        forward::note_times(work, flight, seen)
    }

    fn takes_code(&self, of: TypeId) -> bool {
        of == TypeId::of::<Module>()
            || of == TypeId::of::<KernelText>()
            || of == TypeId::of::<LinkedKernel>()
            // These two are properties of kernels and programs.
            || of == TypeId::of::<SpirV>()
            || of == TypeId::of::<Image>()
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

    fn describe(
        &self,
        device: &Device,
        program: &(dyn Any + Send + Sync),
    ) -> Result<Box<dyn Any + Send>> {
        let asked = Asked::new(program, device.link.terms.program_limits())?;
        Ok(Box::new(device.describe(&asked)?))
    }

    fn reserve(&self, device: &Device, size: u64) -> std::result::Result<Allocation, Refusal> {
        let buffer = device.link.create_buffer(size)?;
        Ok(Allocation { buffer, size })
    }

    fn release(&self, device: &Device, allocation: Allocation) {
        device.link.free_buffer(allocation.buffer, allocation.size);
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

    fn has_route(&self, from: &Device, to: &Device) -> bool {
        from.link.has_way_to(&to.link)
    }

    fn do_here(&self, work: &Work<'_, Self>) -> Option<Result<()>> {
        forward::migrate_content(work)
    }

    fn native_queue(&self, _device: &Device) -> Option<NoQueue> {
        None
    }
}
