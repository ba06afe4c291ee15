//! The interface to a vendor's library: one trait, dispatched statically.

use crate::batch::Plan;
use crate::launch::CodeRef;
use crate::queue::Wake;
use crate::work::{Bytes, Work};
use quipu_kernel_ir::IndexWidth;
use quipu_scheduler::clock;
use quipu_scheduler::event::Waiter;
use quipu_scheduler::memory::pinned::HostBlock;
use quipu_scheduler::operation::Migration;
use quipu_scheduler::{
    BuiltInKernel, Command, DeviceProperties, Error, ErrorKind, Graph, KernelAttributes,
    NativeQueue, Partition, Result, TextFeatures,
};
use std::any::{Any, TypeId};
use std::fmt::Debug;
use std::ptr::NonNull;
use std::sync::Arc;

/// A call that a library refused, or the end of a command that has failed there.
pub trait Failure: Clone + Debug + Send + Sync + 'static {
    /// True if the device is of no use any more.
    fn is_loss(&self) -> bool;

    /// True if there was no memory, or no other resource of which devices have few: it may be there
    /// later.
    fn is_out_of_memory(&self) -> bool;

    /// True if it says only that something failed that was waited for.
    fn is_of_a_wait(&self) -> bool {
        false
    }

    /// The call and the reason, in words.
    fn text(&self) -> String;
}

/// A device, as the vendor's part of a driver knows it.
pub trait VendorDevice: Send + Sync + 'static {
    /// Its properties. Its memory is its own.
    fn properties(&self) -> &DeviceProperties;

    /// Its name.
    fn name(&self) -> &str {
        &self.properties().name
    }

    /// The words by which people choose it, unless these are the driver's name and its number.
    fn selector(&self) -> Option<String> {
        None
    }

    /// The kernels that it has built in.
    fn built_in_kernels(&self) -> Vec<BuiltInKernel> {
        Vec::new()
    }

    /// True if kernels have fences between the blocks of a launch.
    fn has_device_fence(&self) -> bool {
        false
    }

    /// True if kernels may have barriers between the blocks of a launch.
    fn has_grid_barrier(&self) -> bool {
        false
    }

    /// The features of its compiler for kernels that are texts.
    fn text_features(&self) -> TextFeatures {
        TextFeatures::default()
    }

    /// True if it takes code of a type that its [vendor takes](Vendor::takes_code).
    fn takes_code(&self, of: TypeId) -> bool {
        let _ = of;
        true
    }
}

/// The executor of a command; its waits depend on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// The device.
    Device,
    /// The device, as soon as the core has said that nothing is left to wait for: it reads memory
    /// of the host's that commands write.
    DeviceWhenReady,
    /// The device, and the host's memory is written for the user, even by a command that then
    /// fails.
    DeviceForUser,
    /// The device, with a user's code that must not be called twice, nor for void bytes.
    DeviceOnce,
    /// A thread of the host.
    Host,
}

/// A command on its device.
#[derive(Debug)]
pub struct Flight<V: Vendor> {
    /// The signal that others on the device wait for.
    pub signal: V::Signal,
    /// The signal of its end, if that is another one, or if the ends of later commands of its line
    /// do not imply it.
    pub done: Option<V::Signal>,
    /// The number, a small one, of the line that it is in, if the device keeps an order: those of a
    /// line end one after the other, and none after one that has failed ends well.
    pub line: Option<usize>,
    /// The failure because of which the rest of its calls were not made: its part on the device
    /// runs, then the command fails.
    pub failure: Option<V::Failure>,
    /// The error with which the command fails when its part on the device has run, whatever the
    /// result of that.
    pub error: Option<Error>,
    /// The objects that the device uses until it is over, and the work that is left then.
    pub cargo: V::Cargo,
}

impl<V: Vendor> Flight<V> {
    /// The signal of its end.
    #[must_use]
    pub fn done(&self) -> &V::Signal {
        self.done.as_ref().unwrap_or(&self.signal)
    }
}

/// The reason for which a command is not on its device. Nothing of it is there then.
#[derive(Debug)]
pub enum Obstacle<F> {
    /// The library said no.
    Call(F),
    /// Something else did.
    Error(Error),
    /// The library said no when a part of the command had run: it must not run again.
    Spent(F),
}

impl<F: Failure> From<F> for Obstacle<F> {
    fn from(failure: F) -> Self {
        Self::Call(failure)
    }
}

impl<F> From<Error> for Obstacle<F> {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// The status of a command on its device: none if it goes on.
pub type Status<F> = Option<std::result::Result<(), F>>;

/// A vendor's library. Any thread may make these calls, never with a lock of the driver's ledger
/// held.
pub trait Vendor: Sized + Send + Sync + 'static {
    /// The driver's name: lower case, one word.
    const NAME: &'static str;
    /// As people write it.
    const TITLE: &'static str;
    /// The remedy for a launch of native code.
    const INSTEAD: &'static str;
    /// True if the vendor's part says by itself that commands have ended, by
    /// [`VendorDriver::look`](crate::VendorDriver::look): then nobody asks again and again, nor to
    /// be called.
    const TELLS: bool = false;
    /// True if a device may still use the memory of its commands after it was given up as lost.
    /// That memory is then kept for good, and the driver with it.
    const WORKS_WHEN_LOST: bool = true;

    /// True if the library says the limits of a compiled kernel. Else no kernel is compiled to ask
    /// for them.
    const SAYS_ATTRIBUTES: bool = false;
    /// True if devices begin with their commands when they are [told](Vendor::flush) to, and not by
    /// themselves.
    const FLUSHES: bool = true;
    /// True if a memory space is several memories, between which the vendor's part brings bytes by
    /// itself. See
    /// [`Driver::moves_within_spaces`](quipu_scheduler::driver::Driver::moves_within_spaces).
    const MOVES_WITHIN_SPACES: bool = false;
    /// Commands that a device is given at once, at most.
    const CREDIT: usize = 256;

    /// The time, in nanoseconds, by which it is found out how long commands take.
    fn now(&self) -> u64 {
        clock::now_ns()
    }

    /// A device.
    type Device: VendorDevice;
    /// The error of a refused call.
    type Failure: Failure;
    /// A point that commands can wait for on a device, and the host can ask after.
    type Signal: Clone + Send + Sync + 'static;
    /// The objects that come with a command on its device.
    type Cargo: Send;
    /// A kernel that is compiled for a device.
    type Compiled: Send + Sync + 'static;
    /// Memory of a device. Every byte of it is zero for a command with the waits that the vendor's
    /// part gives it.
    type Allocation: Send + Sync + 'static;
    /// Commands of a device that are put there with one call.
    type Batch: Send + Sync + 'static;
    /// The queue that native calls and native enqueues are handed.
    type NativeQueue: NativeQueue;

    /// Looks for the library and its devices.
    ///
    /// # Errors
    /// If the system has no such library, or that knows no device: names it and the remedy.
    fn open() -> Result<Self>;

    /// All devices, in the order of their numbers.
    fn devices(&self) -> &[Self::Device];

    /// The executor of a command that is not the host's anyway.
    fn executor_of(device: &Self::Device, command: &Command) -> Executor;

    /// The executor of a migration of the bytes in use: the host, which looks at the content size
    /// first, unless the device does so.
    fn executor_of_content(device: &Self::Device, migration: &Migration) -> Executor {
        let _ = (device, migration);
        Executor::Host
    }

    /// Puts a command on its device, after these. A [native
    /// enqueue](quipu_scheduler::NativeEnqueue) is called here, with all its waits flushed.
    ///
    /// # Errors
    /// If nothing of it is on the device. If some of its calls were made and one is refused, the
    /// flight says so.
    fn put(
        &self,
        work: &Work<'_, Self>,
        code: Option<CodeRef<'_, Self::Compiled>>,
        waits: &[Self::Signal],
    ) -> std::result::Result<Flight<Self>, Obstacle<Self::Failure>>;

    /// Takes a recorded graph as one, if it can be put on the device whole. Gives the object that
    /// is kept for that, with the graph. All its commands are the device's. Each is a launch of
    /// code that the vendor compiles, a fill, or a transfer between arguments; or nothing is done
    /// for it on a device. [`put`](Vendor::put) then gets a launch of the graph as
    /// [`Operation::Graph`](quipu_scheduler::operation::Operation::Graph), with the code of its
    /// launches, which the graph [keeps](crate::graph::TakenGraph::of).
    ///
    /// A vendor that takes none, as by default, has the commands put there one by one.
    fn take_graph(
        &self,
        device: &Self::Device,
        graph: &Graph,
    ) -> Option<Box<dyn Any + Send + Sync>> {
        let _ = (device, graph);
        None
    }

    /// True if a command may be one of a [batch](crate::batch). It is the device's, and a launch of
    /// code that the vendor compiles, a fill, or a transfer between arguments. Called with every
    /// such command that waits.
    ///
    /// A vendor that makes no batches, as by default, has the commands put there one by one.
    fn can_be_batched(command: &Command) -> bool {
        let _ = command;
        false
    }

    /// The start of memory, as batches name it.
    fn start_of(allocation: &Self::Allocation) -> u64 {
        let _ = allocation;
        0
    }

    /// Makes a batch. Called by a thread of the host, while the commands wait.
    ///
    /// # Errors
    /// If it cannot be made: then the commands are put on the device one by one.
    fn make_batch(
        &self,
        device: &Self::Device,
        plan: &Plan<Self>,
    ) -> std::result::Result<Self::Batch, Obstacle<Self::Failure>> {
        let what = "make a batch of commands";
        let problem = "its driver makes none".to_owned();
        let _ = plan;
        Err(crate::error::of_device(device.name(), what, problem).into())
    }

    /// Puts a batch on its device, after these, once: one flight for each of its commands, in their
    /// order, all with the same signal, which is over when all are. One that is to be
    /// [told](crate::batch::Planned::is_told), and those before it up to the last that is told, may
    /// have another that says that these are [over](Flight::done), the same for each of them; they
    /// are over as well once all are. `work` is its first command; `memories` are the objects that
    /// it [uses](Plan::memories).
    ///
    /// # Errors
    /// If nothing of it is on the device: then the commands are put there one by one, unless it is
    /// [spent](Obstacle::Spent).
    fn put_batch(
        &self,
        work: &Work<'_, Self>,
        batch: &Self::Batch,
        memories: &[Bytes<'_, Self>],
        waits: &[Self::Signal],
    ) -> std::result::Result<Vec<Flight<Self>>, Obstacle<Self::Failure>> {
        let _ = (batch, memories, waits);
        let what = "put a batch of commands on it";
        let problem = "its driver makes none".to_owned();
        Err(crate::error::of_device(work.device().name(), what, problem).into())
    }

    /// Does a command on a thread of the host in a way of the vendor's own, if there is one.
    fn do_here(&self, work: &Work<'_, Self>) -> Option<Result<()>> {
        let _ = work;
        None
    }

    /// Makes sure that ends are noticed, of a vendor that [tells](Vendor::TELLS): a thread that
    /// [sees to it](quipu_scheduler::event::will_poll) may have left commands on devices to this
    /// call.
    fn attend(&self) {}

    /// Waits, of a vendor that [tells](Vendor::TELLS): returns when the waiter is done or its time
    /// is up.
    fn wait(&self, waiter: &Waiter<'_>) {
        waiter.park();
    }

    /// Has a device begin with all its commands.
    ///
    /// # Errors
    /// The worst of the refusals; commands that were not refused are begun.
    fn flush(&self, device: &Self::Device) -> std::result::Result<(), Self::Failure> {
        let _ = device;
        Ok(())
    }

    /// The status of the command of a signal.
    ///
    /// # Errors
    /// If that cannot be had.
    fn status(
        &self,
        signal: &Self::Signal,
    ) -> std::result::Result<Status<Self::Failure>, Self::Failure>;

    /// Has the driver woken when a signal is over, in whichever way.
    ///
    /// # Errors
    /// If the device does not call back. Then it is asked again and again.
    fn call_when_over(
        &self,
        signal: &Self::Signal,
        wake: Wake,
    ) -> std::result::Result<(), Self::Failure>;

    /// The points of a command before its last, one of which may say why it has failed.
    fn earlier(cargo: &Self::Cargo) -> &[Self::Signal] {
        let _ = cargo;
        &[]
    }

    /// Does the rest of a command when the device has done its part well.
    ///
    /// # Errors
    /// The kernel's own error.
    fn land(&self, work: &Work<'_, Self>, flight: Flight<Self>) -> Result<()>;

    /// Tells the core when the device ran a command; when it ended, by the process's clock, if its
    /// times were asked for.
    fn note_times(&self, work: &Work<'_, Self>, flight: &Flight<Self>, seen: u64) -> Option<u64>;

    /// True if it compiles code of this type.
    fn takes_code(&self, of: TypeId) -> bool;

    /// Compiles code for a device.
    ///
    /// # Errors
    /// The error of code that cannot be printed; the compiler's error, with the user's lines.
    fn compile(
        &self,
        device: &Self::Device,
        code: &Arc<dyn Any + Send + Sync>,
        width: IndexWidth,
    ) -> Result<Self::Compiled>;

    /// Has a device's compiler read a program: see
    /// [`Driver::describe`](quipu_scheduler::driver::Driver::describe).
    ///
    /// # Errors
    /// As there.
    fn describe(
        &self,
        device: &Self::Device,
        program: &(dyn Any + Send + Sync),
    ) -> Result<Box<dyn Any + Send>> {
        let _ = (device, program);
        Err(crate::error::unread(Self::NAME))
    }

    /// The best number of threads in blocks of a kernel, if the division is left to the device and
    /// so many are asked for. The compiled kernel may need so much that fewer fit, or that another
    /// number leaves less of the device idle.
    fn fitting_threads(&self, device: &Self::Device, compiled: &Self::Compiled, asked: u64) -> u64 {
        let _ = (device, compiled);
        asked
    }

    /// The most blocks, of so many threads each, of a kernel whose blocks have to run at once;
    /// `None` if they need not.
    fn most_blocks(
        &self,
        device: &Self::Device,
        compiled: &Self::Compiled,
        threads: u64,
    ) -> Option<u64> {
        let _ = (device, compiled, threads);
        None
    }

    /// True if a thread of a kernel best has several elements, as it reads them at once; by default
    /// it has.
    fn reads_ahead(&self, compiled: &Self::Compiled) -> bool {
        let _ = compiled;
        true
    }

    /// The limits of a compiled kernel on its device; `None`, as by default, if the library does
    /// not say.
    fn attributes(
        &self,
        device: &Self::Device,
        compiled: &Self::Compiled,
    ) -> Option<KernelAttributes> {
        let _ = (device, compiled);
        None
    }

    /// Takes memory, and has it filled with zeros.
    ///
    /// # Errors
    /// The library's error.
    fn reserve(
        &self,
        device: &Self::Device,
        size: u64,
    ) -> std::result::Result<Self::Allocation, Self::Failure>;

    /// Has a device use memory of the host where it is
    /// ([`Driver::map_host_memory`](quipu_scheduler::Driver::map_host_memory)); none, as by
    /// default, if the library cannot. Then no device says that it can. `release` gives it back.
    ///
    /// # Errors
    /// The library's error.
    ///
    /// # Safety
    /// The bytes are [pinned](quipu_scheduler::memory::pinned), in whole pages that nothing else
    /// uses, until they are given back.
    unsafe fn map_host_memory(
        &self,
        device: &Self::Device,
        host: NonNull<u8>,
        size: u64,
    ) -> Option<std::result::Result<Self::Allocation, Self::Failure>> {
        let _ = (device, host, size);
        None
    }

    /// Allocates zeroed memory that a device and the host share page by page
    /// ([`Driver::allocate_managed`](quipu_scheduler::Driver::allocate_managed)); none, as by
    /// default, if the library has none. Then no device says that it has.
    fn allocate_managed(
        &self,
        device: &Self::Device,
        size: u64,
    ) -> Option<std::result::Result<HostBlock, Self::Failure>> {
        let _ = (device, size);
        None
    }

    /// Gives memory back that nothing uses any more.
    fn release(&self, device: &Self::Device, allocation: Self::Allocation);

    /// Reads bytes, at once.
    ///
    /// # Errors
    /// The library's error.
    fn read(
        &self,
        device: &Self::Device,
        allocation: &Self::Allocation,
        offset: u64,
        bytes: &mut [u8],
    ) -> std::result::Result<(), Self::Failure>;

    /// Writes bytes, at once.
    ///
    /// # Errors
    /// The library's error.
    fn write(
        &self,
        device: &Self::Device,
        allocation: &Self::Allocation,
        offset: u64,
        bytes: &[u8],
    ) -> std::result::Result<(), Self::Failure>;

    /// Bytes that are free on a device. `left` is the number that this driver has left.
    fn free_memory(&self, device: &Self::Device, left: u64) -> Option<u64> {
        let _ = device;
        Some(left)
    }

    /// Sets bytes of an allocation that no command uses to zero, from `offset` on, at once.
    ///
    /// # Errors
    /// The library's error.
    fn clear(
        &self,
        device: &Self::Device,
        allocation: &Self::Allocation,
        offset: u64,
        length: u64,
    ) -> std::result::Result<(), Self::Failure> {
        static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
        let mut at = 0;
        while at < length {
            let piece = (length - at).min(ZEROS.len() as u64);
            self.write(device, allocation, offset + at, &ZEROS[..piece as usize])?;
            at += piece;
        }
        Ok(())
    }

    /// True if bytes go from one device to another without passing through the host.
    fn has_route(&self, from: &Self::Device, to: &Self::Device) -> bool;

    /// Splits a device into parts, each with the memory of its device.
    ///
    /// # Errors
    /// If it cannot be split so.
    fn partition(&self, device: &Self::Device, partition: &Partition) -> Result<Vec<Self::Device>> {
        let _ = (device, partition);
        Err(ErrorKind::Unsupported {
            driver: Self::NAME,
            what: "split a device".to_owned(),
            instead: "use the whole device",
        }
        .into())
    }

    /// The queue that a native call is handed.
    fn native_queue(&self, device: &Self::Device) -> Option<Self::NativeQueue>;
}
