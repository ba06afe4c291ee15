//! The contract between the core and its drivers.
//!
//! A driver runs commands on a family of devices, and finishes each command exactly
//! once. A driver with a sync domain hears of each command at its enqueue, so that
//! its devices can order commands by themselves. Every driver is handed a command
//! when the command's last wait is resolved.
//!
//! | verb | called | obliged to |
//! |---|---|---|
//! | [`submit`](Driver::submit) | at enqueue, once, if the device has a sync domain; in enqueue order per queue and thread | take note of the command without blocking |
//! | [`flush`](Driver::flush) | by the host | make all that was submitted run eventually with no further host call |
//! | [`join`](Driver::join) | by a host thread that waits | return when the waiter is done; help, or sleep; not spin without bound |
//! | [`notify`](Driver::notify) | when a wait of a held command is resolved, and when the last is | be cheap: mark and queue; run or forward the command when it is ready |
//! | `broadcast` | as a command finishes | the core's own: [`Command::finish`] |
//!
//! Two kinds of driver:
//!
//! * One whose devices cannot wait (the CPU pool) ignores `submit` and acts on
//!   [`Notification::Ready`].
//! * One whose devices order commands among themselves has a
//!   [sync domain](DeviceProperties::domain). At `submit` it is told which waits of the command are
//!   commands of that domain. It may forward the command to the device as soon as every *other*
//!   wait is resolved. [`Notification::Resolved`] tells it of each. It reports completions in the
//!   order in which the device ordered them. So when the command is reported, all its waits are
//!   resolved here too.
//!
//! Rules:
//!
//! * A driver does not call the core with a lock held that `notify` takes.
//! * A driver calls no user's callback and no waker itself. [`Command::finish`] does so, on the
//!   thread that calls it; where it is called while the driver is told of ready commands, when the
//!   driver has returned.
//! * The end of a command that a driver has started depends on that driver and its devices alone. A
//!   wait does not flush other contexts for it. So a driver must not leave the end to code that a
//!   command of another context runs: a [`UserEvent`](crate::UserEvent) is for that, or a
//!   [lease](crate::memory::mapping::HostQueue::lend).
//! * A driver names neither a front end nor another driver.
//! * A thread of a driver that ends commands gives back the slots that it has freed
//!   before it sleeps ([`crate::command::slab::flush`]).

use crate::command::{Command, EventId, contain};
use crate::device::DeviceProperties;
use crate::error::{ErrorKind, Result};
use crate::event::Waiter;
use crate::memory::pinned::HostBlock;
use crate::memory::space::Allocator;
use crate::memory::{Memory, SpaceId};
use crate::portable::{KernelAttributes, PortableKernel, TextFeatures};
use crate::queue::place::QueueShared;
pub use crate::router::{Notification, Resolved};
use crate::router::{Router, Wait};
use std::any::{Any, TypeId};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

/// A wait for a command of the same sync domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DomainWait {
    /// The command waited for.
    pub event: EventId,
    /// True if its failure fails the waiting command too, which then must not
    /// be run; else it is only an order.
    pub propagates: bool,
}

/// A command at submission: not the driver's yet.
pub struct Submission<'a> {
    /// The command's event. The command itself comes with
    /// [`Notification::Ready`].
    pub id: EventId,
    /// The queue.
    pub queue: &'a QueueShared,
    /// A look at the command: its kind, arguments and operation.
    pub command: CommandRef,
    /// Waits that are commands of the device's own sync domain and were not
    /// over when the command was enqueued.
    pub domain_waits: &'a [DomainWait],
    /// The number of other waits that are unresolved.
    pub host_waits: u32,
}

/// A command that a driver has been told of and does not own yet. A device that
/// orders commands itself may start one before the host knows that its waits
/// are resolved; this is how it gets at the body.
#[derive(Clone, Copy)]
pub struct CommandRef(NonNull<()>);

// SAFETY: only a name; whoever looks at the command promises that it is held.
unsafe impl Send for CommandRef {}
// SAFETY: as above.
unsafe impl Sync for CommandRef {}

impl CommandRef {
    pub(crate) fn new(command: &Command) -> Self {
        Self(command.as_raw())
    }

    /// Looks at the command.
    ///
    /// # Safety
    /// The command is not finished during the call. Its body is only run when
    /// every wait is over, once.
    pub unsafe fn with<R>(self, look: impl FnOnce(&Command) -> R) -> R {
        // SAFETY: as the caller promises; not dropped, because not owned.
        let command = ManuallyDrop::new(unsafe { Command::from_raw(self.0) });
        look(&command)
    }
}

/// A thread that runs [brief](crate::command::CommandView::is_brief) commands of its own
/// enqueueing. It is of no use to other threads, and stays on the one that made it.
pub trait InlineExecutor {
    /// Keeps ready and brief commands that the thread enqueues from now on, unless another thread
    /// lends itself just now.
    fn begin(&mut self);

    /// Runs the kept commands, and those that become ready by that, as far as they are brief; for a
    /// bounded time. The rest goes to the driver's other threads.
    fn run(&mut self);

    /// Stops keeping commands. Those that were kept go to the driver's other threads.
    fn end(&mut self);
}

/// A driver. See the module.
///
/// Every method may be called from any thread.
///
/// # Safety
/// A driver is trusted with users' memory and code. It runs a command's code, and uses its host
/// memory, only while it has the command, and with the arguments that are resolved for that. Memory
/// that it allocates is nobody else's until it is freed.
pub unsafe trait Driver: Router + Allocator + Send + Sync + 'static {
    /// The driver's name: lower case, one word.
    fn name(&self) -> &'static str;

    /// Its devices. The same list each time; an index into it names a device
    /// to the other methods.
    fn devices(&self) -> Vec<DeviceProperties>;

    /// Starts the threads that run commands, if it has not. Called as a context with one of its
    /// devices is made, before anything is enqueued: a process that only lists devices has no
    /// threads, and its children of `fork` can use them.
    ///
    /// # Errors
    /// If the system gives no thread.
    fn start_threads(&self) -> Result<()> {
        Ok(())
    }

    /// A device's selector, by which users choose it: the driver's name and the device's number,
    /// `cuda:1`. A driver of other machines' devices puts the machine's name and a slash before the
    /// device's selector there.
    fn device_selector(&self, device: usize) -> String {
        format!("{}:{device}", self.name())
    }

    /// Takes note of a command. Only called for devices with a sync domain.
    fn submit(&self, submission: Submission<'_>) {
        let _ = submission;
    }

    /// Makes everything submitted to the queue run without a further call.
    fn flush(&self, queue: &QueueShared) {
        let _ = queue;
    }

    /// Returns when the waiter is done. May use the thread to make progress. The
    /// queue that is waited for may end, and be gone, during the call.
    ///
    /// # Errors
    /// If waiting here could never end.
    fn join(&self, waiter: &Waiter<'_>) -> Result<()> {
        waiter.sleep();
        Ok(())
    }

    /// Looks for ended commands, without blocking; true if something is on a device still. Of
    /// several threads one looks.
    fn poll(&self) -> bool {
        false
    }

    /// Has no thread of the driver look for ends of commands of polling queues, until
    /// [`resume_polling`](Driver::resume_polling) was called as often: then as many do as before.
    /// Neither waits for anything: the core orders the calls under a lock.
    ///
    /// ```compile_fail,E0133
    /// fn hang(driver: &dyn quipu_scheduler::Driver) {
    ///     driver.suspend_polling();
    /// }
    /// ```
    ///
    /// # Safety
    /// Called by the core ([`Context::polling`](crate::Context::polling)), which resumes as soon as
    /// a thread waits.
    unsafe fn suspend_polling(&self) {}

    /// See [`suspend_polling`](Driver::suspend_polling).
    ///
    /// # Safety
    /// Called by the core, once for each time that it has suspended polling.
    unsafe fn resume_polling(&self) {}

    /// Tells of a held command's waits.
    fn notify(&self, notification: Notification);

    /// Tells of several commands that are ready; takes all of them. Unless the driver does it
    /// otherwise, it is told of each: if it panics, that command fails, and it is told of the
    /// others.
    fn notify_ready(&self, commands: &mut Vec<Command>) {
        for command in commands.drain(..) {
            contain(|| self.notify(Notification::Ready(command)));
        }
    }

    /// Takes a recorded graph as one, whose commands are all of this driver's devices. Called once,
    /// as the recording ends. The result lives with the graph and comes back as
    /// [`Graph::taken`](crate::Graph::taken). Each launch on a queue of this driver is then one
    /// command, [`Operation::Graph`](crate::operation::Operation::Graph), submitted and started as
    /// any, and the driver decides how its commands run. It has to keep their edges
    /// ([`Graph::for_each_command`](crate::Graph::for_each_command)). Memory may be elsewhere in
    /// each launch: ask for the [allocations](crate::memory::Memory::allocation) anew. If any
    /// command fails, the launch has to.
    ///
    /// A driver that gives `None`, as by default, has the commands submitted to it one by one.
    fn take_graph(&self, graph: &crate::Graph) -> Option<Box<dyn Any + Send + Sync>> {
        let _ = graph;
        None
    }

    /// True if launches of graphs that were not taken are to be handed to the driver too, as ready
    /// commands. A thread of its own then hands over the graph's commands by
    /// [`Command::finish_without_device`]. So the calling thread need not, and the thread that runs
    /// the commands has them at hand.
    fn plays_graphs(&self) -> bool {
        false
    }

    /// A way for a thread to lend itself to the driver from time to time. Such a thread enqueues
    /// for others, and is awake when a brief command comes for which a thread of the driver would
    /// have to be woken. `None`, as by default, if the driver has no use for that.
    fn inline_executor(&self) -> Option<Box<dyn InlineExecutor>> {
        None
    }

    /// The driver's own queue behind `queue`, which a native call is handed: of
    /// a type that the driver's crate documents. `None` if it has none.
    fn native_queue(&self, queue: &QueueShared) -> Option<Box<dyn Any + Send>> {
        let _ = queue;
        None
    }

    /// True if the driver hands queues of this type to [native enqueues](crate::NativeEnqueue).
    fn takes_native(&self, queue: TypeId) -> bool {
        let _ = queue;
        false
    }

    /// True if the driver runs native code: then a launch is run by
    /// [`Command::run_native`](crate::command::CommandView::run_native). A driver that does not
    /// takes launches that bring their code along
    /// ([`Command::portable`](crate::command::CommandView::portable)), and fails others.
    fn runs_native_code(&self) -> bool {
        true
    }

    /// True if the driver compiles and runs code of this type: see
    /// [`PortableKernel::code_type`].
    fn takes_code(&self, of: TypeId) -> bool {
        let _ = of;
        false
    }

    /// True if a device is given code of this type at all. A driver of other machines' devices
    /// takes more types than each of them does.
    fn device_takes_code(&self, device: usize, of: TypeId) -> bool {
        let _ = device;
        self.takes_code(of)
    }

    /// True if code that is compiled for a device has fences between the blocks of a launch, as
    /// native code does.
    fn has_device_fence(&self, device: usize) -> bool {
        let _ = device;
        true
    }

    /// True if code that is compiled for a device may have barriers between the blocks of a launch,
    /// as native code may.
    fn has_grid_barrier(&self, device: usize) -> bool {
        let _ = device;
        true
    }

    /// The features that a device's own compiler has for kernels that are texts: the fewest, unless
    /// the driver knows more.
    fn text_features(&self, device: usize) -> TextFeatures {
        let _ = device;
        TextFeatures::default()
    }

    /// The limits of a kernel on a device. Its code is compiled, if it was not yet for any launch,
    /// before this returns. A driver that runs native code, as by default, knows them from the
    /// device's properties.
    ///
    /// # Errors
    /// If it cannot be compiled, or the driver is not told.
    fn kernel_attributes(
        &self,
        device: usize,
        kernel: &dyn PortableKernel,
    ) -> Result<KernelAttributes> {
        let _ = kernel;
        let devices = self.devices();
        match devices.get(device) {
            Some(properties) if self.runs_native_code() => {
                Ok(KernelAttributes::new(properties.max_block_thread_count))
            }
            _ => Err(ErrorKind::Unsupported {
                driver: self.name(),
                what: "say what a kernel is on its devices".to_owned(),
                instead: "take the limits of the device",
            }
            .into()),
        }
    }

    /// Has a compiler of the device read a program, for a host without one, and gives the
    /// description that it finds. May block. The types of the program and of the answer are those
    /// of the crate that defines the language: for OpenCL C, `quipu_clc::ProgramText` and
    /// `quipu_clc::Description`.
    ///
    /// # Errors
    /// [`ErrorKind::Kernel`] if the compiler refuses the program, with its log as the message;
    /// [`ErrorKind::Unsupported`] if there is no compiler for it, as by default.
    fn describe(
        &self,
        device: usize,
        program: &(dyn Any + Send + Sync),
    ) -> Result<Box<dyn Any + Send>> {
        let _ = (device, program);
        Err(ErrorKind::Unsupported {
            driver: self.name(),
            what: "read programs for a host without a compiler".to_owned(),
            instead: "install the compiler on this machine",
        }
        .into())
    }

    /// The kernels that a device has built in, whose launches bring a [`BuiltIn`](crate::BuiltIn)
    /// along.
    fn built_in_kernels(&self, device: usize) -> Vec<crate::BuiltInKernel> {
        let _ = device;
        Vec::new()
    }

    /// True if commands of this driver are run by threads of others. If the driver also [needs
    /// flushes](Driver::needs_flush), these are the threads that wait: every wait that may need it
    /// joins it, in turn with other such drivers. [`join`](Driver::join) then calls
    /// [`Waiter::doze`] when it has nothing to do, and returns when the waiter is late. Otherwise
    /// a command is run in [`notify`](Driver::notify), by the thread that makes it ready.
    fn runs_on_waiting_threads(&self) -> bool {
        false
    }

    /// Limits the bytes of a device's own memory that are allocated from now on. A driver without
    /// such memory takes no notice.
    fn limit_memory(&self, device: usize, bytes: u64) {
        let _ = (device, bytes);
    }

    /// True if a memory space of the driver's is several memories, between which it brings bytes by
    /// itself. Then launches and copies of buffers with a content size also read the objects that
    /// hold those sizes. Their arguments are the front end's, and behind them each such object that
    /// is not among those. If the command that writes the size fails, they fail, too.
    fn moves_within_spaces(&self) -> bool {
        false
    }

    /// True if commands may stay unrun until their queue is [flushed](Driver::flush) after they
    /// were [submitted](Driver::submit): so all its devices have a sync domain. A command that
    /// becomes ready after that flush runs without another.
    fn needs_flush(&self) -> bool {
        false
    }

    /// True if no device of the driver runs anything or has anything to run, as the
    /// [wait graph](crate::event::wait_graph) tells. A driver that cannot tell says no.
    fn is_idle(&self) -> bool {
        false
    }

    /// Allocates `size` zeroed bytes in the driver's memory space `key`.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] makes the core evict memory that is not in use and try again.
    fn allocate(&self, key: u32, size: u64) -> Result<u64> {
        let _ = size;
        Err(ErrorKind::Unsupported {
            driver: self.name(),
            what: format!("allocate in its memory space {key}"),
            instead: "its devices use the host's memory",
        }
        .into())
    }

    /// Gives the devices of the memory space `key` the use of host memory where it is: an address
    /// as that of an allocation, which starts at `host` and has so many bytes. It takes none of the
    /// space's memory. So it is never evicted, and [`free`](Driver::free) takes it back with a size
    /// of zero. Called if the devices [say](DeviceProperties::maps_host_memory) that they can.
    ///
    /// When a command of such a device is over, the host sees what it has written there. A command
    /// sees what the host had written before it was handed over.
    ///
    /// # Errors
    /// If this memory cannot be used so. The command that needs it fails.
    ///
    /// # Safety
    /// The bytes are [pinned](crate::memory::pinned), in whole pages that nothing else uses, until
    /// the address is freed.
    unsafe fn map_host_memory(&self, key: u32, host: NonNull<u8>, size: u64) -> Result<u64> {
        let _ = (host, size);
        Err(ErrorKind::Unsupported {
            driver: self.name(),
            what: format!("use memory of the host where it is in its memory space {key}"),
            instead: "use an ordinary buffer, whose bytes are copied",
        }
        .into())
    }

    /// Allocates zeroed memory that a device and the host use by the same address, and whose pages
    /// are where they were used last. It is [pinned](crate::memory::pinned), and
    /// [`map_host_memory`](Driver::map_host_memory) takes it. Called if the device
    /// [has](DeviceProperties::managed_memory) such memory.
    ///
    /// # Errors
    /// If there is no room for it.
    fn allocate_managed(&self, device: usize, size: u64) -> Result<HostBlock> {
        let _ = (device, size);
        Err(ErrorKind::Unsupported {
            driver: self.name(),
            what: "allocate managed memory".to_owned(),
            instead: "use memory of the host in place, or an ordinary buffer",
        }
        .into())
    }

    /// Frees an allocation of the space `key`.
    ///
    /// An address is a number, so no safe code may free, read or write what is there:
    ///
    /// ```compile_fail,E0133
    /// fn free(driver: &dyn quipu_scheduler::Driver) {
    ///     driver.free(0, 4096, 64);
    /// }
    /// ```
    ///
    /// ```compile_fail,E0133
    /// fn read(driver: &dyn quipu_scheduler::Driver) {
    ///     let _ = driver.read_allocation(0, 4096, 0, &mut [0]);
    /// }
    /// ```
    ///
    /// ```compile_fail,E0133
    /// fn write(driver: &dyn quipu_scheduler::Driver) {
    ///     let _ = driver.write_allocation(0, 4096, 0, &[0]);
    /// }
    /// ```
    ///
    /// # Safety
    /// [`allocate`](Driver::allocate) of this driver gave the address, for this space and size; or
    /// [`map_host_memory`](Driver::map_host_memory), and the size is zero. The allocation was not
    /// freed before. No command and no other call uses it, or will.
    unsafe fn free(&self, key: u32, address: u64, size: u64) {
        let _ = (key, address, size);
    }

    /// Copies an idle allocation's bytes from `offset` on to the host, at once. Used to write back
    /// evicted bytes. It may take its time: the core has nothing locked meanwhile, and lets no
    /// command be handed over that uses the allocation.
    ///
    /// # Errors
    /// The error that the device reports.
    ///
    /// # Safety
    /// [`allocate`](Driver::allocate) of this driver gave the address, for this space. It is not
    /// freed before the call returns, and no command writes it meanwhile. The bytes lie within it.
    unsafe fn read_allocation(
        &self,
        key: u32,
        address: u64,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<()> {
        let _ = (address, offset, bytes);
        Err(ErrorKind::Unsupported {
            driver: self.name(),
            what: format!("read its memory space {key}"),
            instead: "its devices use the host's memory",
        }
        .into())
    }

    /// Copies bytes from the host to an allocation that no command uses, from `offset` on, at once.
    /// Used to put back bytes that were taken out for want of room. As
    /// [`read_allocation`](Driver::read_allocation), it may take its time.
    ///
    /// # Errors
    /// The error that the device reports.
    ///
    /// # Safety
    /// [`allocate`](Driver::allocate) of this driver gave the address, for this space. It is not
    /// freed before the call returns, and no command uses it meanwhile. The bytes lie within it.
    unsafe fn write_allocation(
        &self,
        key: u32,
        address: u64,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let _ = (address, offset, bytes);
        Err(ErrorKind::Unsupported {
            driver: self.name(),
            what: format!("write to its memory space {key}"),
            instead: "its devices use the host's memory",
        }
        .into())
    }

    /// True if a command uses an allocation of `memory` that has been handed to a device and is not
    /// over there, or that is just being handed over. If none does, though commands that will are
    /// enqueued, the bytes may be taken to the host to make room
    /// ([`read_allocation`](Driver::read_allocation)) and put back when the first of those is
    /// handed over ([`write_allocation`](Driver::write_allocation)). [`Memory::allocation`] asks,
    /// on the thread that hands a command over. A driver that does not know says yes: then its
    /// users have to wait for commands before more are enqueued than fit.
    ///
    /// # Safety
    /// Called for the core as it makes room for a command of this driver's, on the thread that
    /// hands that one over ([`Memory::allocation`]).
    unsafe fn is_in_use(&self, key: u32, address: u64, memory: &Memory) -> bool {
        let _ = (key, address, memory);
        true
    }

    /// True if the driver can bring bytes from `from` straight to `to`, one of
    /// its own spaces, without passing through the host.
    fn has_route(&self, from: SpaceId, to: SpaceId) -> bool {
        let _ = (from, to);
        false
    }

    /// Bytes free in a device's memory, if known.
    fn free_memory(&self, device: usize) -> Option<u64> {
        let _ = device;
        None
    }

    /// Resets a device: its commands fail, and it is usable again. The core gives up the bytes that
    /// the failed commands would have written, as after any failure; other memory stays.
    ///
    /// # Errors
    /// If the device cannot be reset, such as one whose commands are the host's own.
    fn reset(&self, device: usize) -> Result<()> {
        let _ = device;
        Err(ErrorKind::Unsupported {
            driver: self.name(),
            what: "reset a device".to_owned(),
            instead: "cancel what is enqueued to it, or make a context of it anew",
        }
        .into())
    }

    /// Splits a device into parts: devices with numbers of their own, which
    /// [`devices`](Driver::devices) does not list.
    ///
    /// # Errors
    /// If the device cannot be split so.
    fn partition(
        &self,
        device: usize,
        partition: &crate::device::Partition,
    ) -> Result<Vec<(usize, DeviceProperties)>> {
        let _ = (device, partition);
        Err(ErrorKind::Unsupported {
            driver: self.name(),
            what: "split a device".to_owned(),
            instead: "use the whole device",
        }
        .into())
    }

    /// Notes that a part that [`partition`](Driver::partition) made is gone: no device of that
    /// number, no queue and no command of it is left, and the number may be given to another.
    /// Called by the thread that drops the last of them, which may be one of the driver's own.
    ///
    /// A command that is enqueued to a forgotten part may never run, or run elsewhere. So no safe
    /// code may call this:
    ///
    /// ```compile_fail,E0133
    /// fn forget(driver: &dyn quipu_scheduler::Driver) {
    ///     driver.forget_part(1);
    /// }
    /// ```
    ///
    /// # Safety
    /// [`partition`](Driver::partition) of this driver gave the number, which was not forgotten
    /// since. No device, queue or command of the part is left.
    unsafe fn forget_part(&self, device: usize) {
        let _ = device;
    }
}

/// The interface of the floors below.
impl<D: Driver> Router for D {
    fn driver_name(&self) -> &'static str {
        self.name()
    }

    fn tell(&self, notification: Notification) {
        self.notify(notification);
    }

    fn hand_over(&self, commands: &mut Vec<Command>) {
        self.notify_ready(commands);
    }

    fn flush_queue(&self, queue: &QueueShared) {
        self.flush(queue);
    }

    fn join_wait(&self, wait: &dyn Wait) -> Result<()> {
        self.join(Waiter::of(wait))
    }

    fn is_run_by_waits(&self) -> bool {
        self.runs_on_waiting_threads()
    }

    fn takes_ready_graphs(&self) -> bool {
        self.plays_graphs()
    }

    fn has_nothing_to_do(&self) -> bool {
        self.is_idle()
    }

    unsafe fn pause_polling(&self) {
        // SAFETY: the contract of `Router::pause_polling`, which the caller keeps, is that of this
        // method.
        unsafe { self.suspend_polling() };
    }

    unsafe fn continue_polling(&self) {
        // SAFETY: the contract of `Router::continue_polling`, which the caller keeps, is that of
        // this method.
        unsafe { self.resume_polling() };
    }
}

impl<D: Driver> Allocator for D {
    fn allocate_bytes(&self, key: u32, size: u64) -> Result<u64> {
        self.allocate(key, size)
    }

    unsafe fn map_bytes(&self, key: u32, host: NonNull<u8>, size: u64) -> Result<u64> {
        // SAFETY: the caller keeps the contract of `Allocator`'s method, which is that of
        // `Driver`'s.
        unsafe { self.map_host_memory(key, host, size) }
    }

    unsafe fn free_bytes(&self, key: u32, address: u64, size: u64) {
        // SAFETY: the caller keeps the contract of `Allocator`'s method, which is that of
        // `Driver`'s.
        unsafe { self.free(key, address, size) };
    }

    unsafe fn read_bytes(
        &self,
        key: u32,
        address: u64,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<()> {
        // SAFETY: the caller keeps the contract of `Allocator`'s method, which is that of
        // `Driver`'s.
        unsafe { self.read_allocation(key, address, offset, bytes) }
    }

    unsafe fn write_bytes(&self, key: u32, address: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        // SAFETY: the caller keeps the contract of `Allocator`'s method, which is that of
        // `Driver`'s.
        unsafe { self.write_allocation(key, address, offset, bytes) }
    }

    unsafe fn uses(&self, key: u32, address: u64, memory: &Memory) -> bool {
        // SAFETY: the caller keeps the contract of `Allocator`'s method, which is that of
        // `Driver`'s.
        unsafe { self.is_in_use(key, address, memory) }
    }

    fn brings_directly(&self, from: SpaceId, to: SpaceId) -> bool {
        self.has_route(from, to)
    }
}

/// True if both are the same driver.
pub(crate) fn is_same(one: &Arc<dyn Driver>, other: &Arc<dyn Driver>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}
