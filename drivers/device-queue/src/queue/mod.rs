//! The driver contract over a vendor's library: submit, flush, join, notify.
//!
//! | file | content |
//! |---|---|
//! | `ledger` | the waits and the place of each command, and the next jobs; `transitions`: a command's way through there |
//! | `inbox` | submitted commands, until the ledger takes them over |
//! | `batches` | commands that leave together, as the ledger knows them; `make_batch`: making them, and putting them on a device |
//! | `pump` | doing the jobs: one thread at a time |
//! | `code` | code of launches, compiled before they go |
//! | `durations` | the durations of commands |
//! | `completion` | notice of ends; `wakeup`: wake-ups of the drain thread; `naps`: sleeping for microseconds |
//! | `usage` | the memory that is in use, and may not be taken away |
//! | `slab` | the store of the ledger's entries |
//!
//! * `submit` takes note of the command, with its waits split: those within the domain become
//!   signals that the device waits for; the others are counted. It does nothing else: trackers are
//!   locked around it.
//! * `flush` pumps.
//! * `notify` marks, and pumps.
//! * `join` looks for ended commands for a while, or, while commands of polling queues are in
//!   flight, all the time; then sleeps, until it is done or a device calls.

mod batches;
mod code;
mod completion;
mod durations;
mod inbox;
mod ledger;
mod make_batch;
mod naps;
mod pump;
mod slab;
mod transitions;
mod usage;
mod wakeup;

pub(crate) use completion::Completions;
pub(crate) use inbox::Inbox;
pub(crate) use ledger::Ledger;
pub(crate) use pump::{Activity, drain};
pub use wakeup::Wake;

use crate::batch::LONG_NS;
use crate::graph::{TakenGraph, may_be_within};
use crate::inside::Inside;
use crate::vendor::{Executor, Vendor, VendorDevice};
use crate::{Shared, VendorDriver};
use inbox::Submitted;
use ledger::Facts;
use naps::PreciseNaps;
use pump::{Caller, pause};
use quipu_scheduler::driver::{Notification, Submission};
use quipu_scheduler::error::Result;
use quipu_scheduler::event::Waiter;
use quipu_scheduler::memory::Memory;
use quipu_scheduler::memory::pinned::HostBlock;
use quipu_scheduler::operation::Operation;
use quipu_scheduler::queue::QueueShared;
use quipu_scheduler::{
    BuiltInKernel, Command, DeviceProperties, Driver, Graph, KernelAttributes, Partition,
    PortableKernel, SpaceId, TextFeatures, clock,
};
use std::any::{Any, TypeId};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;
use wakeup::Listener;

/// The time for which a thread that waits keeps its core to itself.
const SPIN_NS: u64 = 20_000;
/// The time for which it goes on looking, while others may have its core, before it sleeps. A
/// thread that sleeps is told of an end late, by a callback of the device's: that delay is to be
/// little of the wait.
const WAIT_NS: u64 = 1_000_000;
/// Its pauses between two looks.
const PAUSES: u32 = 16;
/// The same while a queue asks for polling.
const POLLING_PAUSES: u32 = 1;
/// Its turns between two looks at the clock while it spins: one takes a microsecond, mostly the
/// library's, and the clock a tenth.
const UNTIMED: u32 = 4;
/// The shortest time between two looks while another thread puts commands on devices, which wants
/// those locks, too.
const LOOK_NS: u64 = 5_000;

/// The executor of a command.
fn executor_of<V: Vendor>(device: &V::Device, command: &Command) -> Executor {
    match command.operation() {
        Operation::HostTask => Executor::Host,
        Operation::NativeEnqueue(_) => Executor::DeviceOnce,
        _ if is_nothing(command) => Executor::Host,
        Operation::Migrate(migration) if migration.content.is_some() => {
            V::executor_of_content(device, migration)
        }
        _ => V::executor_of(device, command),
    }
}

/// True if a command makes no call and does nothing: it is over when its waits are.
fn is_nothing(command: &Command) -> bool {
    matches!(command.operation(), Operation::Launch { groups: 0 })
}

impl<V: Vendor> VendorDriver<V> {
    /// As the core says whose ends a thread sees to.
    fn address(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }
}

impl<V: Vendor> Shared<V> {
    /// The work of a thread that sleeps because it waits: looks if commands are in flight, or if a
    /// device has called. Gives the time for which it may sleep then. `since` is the time at which
    /// it began to look at the present commands.
    fn look_and_nap(
        self: &Arc<Self>,
        listener: &Listener<'_>,
        since: &mut Option<u64>,
    ) -> Option<Duration> {
        if listener.has_heard() {
            self.hear(Caller::Waiter);
            return Some(Duration::ZERO);
        }
        if !self.completions.is_in_flight() {
            *since = None;
            return None;
        }
        if self.completions.poll(&self.vendor) {
            *since = None;
            self.pump_and_leave();
            return Some(Duration::ZERO);
        }
        let now = clock::now_ns();
        let since = *since.get_or_insert(now);
        Some(self.completions.nap(since, now))
    }
}

// SAFETY: a command's code and memory are used while it is here, with the arguments resolved for
// it.
unsafe impl<V: Vendor> Driver for VendorDriver<V> {
    fn name(&self) -> &'static str {
        V::NAME
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        let devices = self.shared.vendor.devices().iter();
        devices.map(|device| device.properties().clone()).collect()
    }

    fn submit(&self, submission: Submission<'_>) {
        let waits = submission.host_waits > 0 || !submission.domain_waits.is_empty();
        let device = self.shared.device(submission.queue.device_index());
        let look = |command: &Command| {
            (!command.needs_no_device()).then(|| {
                let fallible = matches!(
                    command.operation(),
                    Operation::Launch { .. } | Operation::Graph(_)
                );
                // A launch that may go at once asks for its code as it goes.
                let building = waits
                    && command.groups() > 0
                    && command.portable().is_some_and(|portable| {
                        let device = submission.queue.device_index();
                        !self.shared.is_built(device, portable, command)
                    });
                let executor = executor_of::<V>(device, command);
                let batched = waits
                    && executor == Executor::Device
                    && may_be_within(&self.shared.vendor, command)
                    && V::can_be_batched(command);
                let batched = batched.then(|| self.shared.takes(command));
                Facts {
                    executor,
                    fallible,
                    building,
                    batched: batched.filter(|takes| *takes <= LONG_NS),
                }
            })
        };
        // SAFETY: it is still being enqueued.
        if let Some(facts) = unsafe { submission.command.with(look) } {
            let many = self.shared.inbox.add(Submitted::new(&submission, facts));
            if many {
                self.shared.completions.call();
            }
        }
    }

    fn flush(&self, _queue: &QueueShared) {
        // A queue's commands may wait for those of others, its migrations above all: flush them
        // all.
        self.shared.pump(Caller::Host);
        self.shared.vendor.attend();
        self.shared.completions.flushed(self.address());
    }

    fn join(&self, waiter: &Waiter<'_>) -> Result<()> {
        // The queue, and with it the driver, may go as soon as the wait is over.
        let shared = Arc::clone(&self.shared);
        // Commands that were put on devices may have been left to this thread.
        if waiter.is_done() {
            shared.completions.attend();
            return Ok(());
        }
        if Inside::is_in(&*shared) {
            shared.completions.attend();
            return Err(Inside::would_deadlock());
        }
        if V::TELLS {
            shared.vendor.wait(waiter);
            return Ok(());
        }
        let (listener, mut since) = {
            let _helper = shared.completions.help();
            let (mut begun, mut looked) = (None, 0);
            let (mut turns, mut now) = (0_u32, 0);
            while (shared.completions.is_in_flight() || shared.activity.is_busy())
                && !waiter.is_done()
                && !waiter.is_late()
            {
                if turns.is_multiple_of(UNTIMED) {
                    now = clock::now_ns();
                }
                turns = turns.wrapping_add(1);
                let looks = !shared.activity.is_busy() || now >= looked + LOOK_NS;
                if looks {
                    looked = now;
                }
                if shared.activity.is_left() || (looks && shared.completions.poll(&shared.vendor)) {
                    shared.pump(Caller::Waiter);
                    turns = 0;
                    continue;
                }
                let waited = now.saturating_sub(*begun.get_or_insert(now));
                if waited < SPIN_NS {
                    // Half a microsecond or so: the library has locks, which others want.
                    let pauses = match shared.completions.is_polling() {
                        true => POLLING_PAUSES,
                        false => PAUSES,
                    };
                    (0..pauses).for_each(|_| std::hint::spin_loop());
                } else if shared.completions.is_in_flight()
                    && (waited < WAIT_NS || shared.completions.is_polling())
                {
                    // The thread that runs the command may need the core. (A thread that only ends
                    // commands does: then this sleeps.)
                    pause(shared.completions.away(now - waited, now));
                    turns = 0;
                } else {
                    break;
                }
            }
            if shared.activity.is_left() {
                shared.completions.call();
            }
            if waiter.is_done() {
                return Ok(());
            }
            // Before the drain thread has devices call, which it does once this thread looks no
            // more.
            (shared.completions.listen(), begun)
        };
        let _precisely = PreciseNaps::begin();
        waiter.sleep_and(|| shared.look_and_nap(&listener, &mut since));
        drop(listener);
        shared.completions.attend();
        Ok(())
    }

    fn poll(&self) -> bool {
        let shared = &self.shared;
        let has_ended = shared.completions.poll(&shared.vendor);
        // Notices may have been left to do, by a thread that has done enough.
        let is_left = shared.activity.is_left() || shared.completions.has_notices();
        if has_ended || is_left || shared.inbox.has_any() {
            shared.pump(Caller::Host);
        }
        shared.completions.is_in_flight()
    }

    unsafe fn suspend_polling(&self) {
        self.shared.completions.suspend();
    }

    unsafe fn resume_polling(&self) {
        self.shared.completions.resume();
    }

    fn notify(&self, notification: Notification) {
        let shared = Arc::clone(&self.shared);
        match notification {
            Notification::Resolved(wait) => {
                let (command, event) = (wait.command(), wait.event());
                shared.pump_after(Caller::Host, |ledger| ledger.resolved(command, event));
            }
            Notification::Ready(command) => {
                let seen_to = shared.completions.seen_to(self.address());
                let mut stray = None;
                shared.pump_after(Caller::Host, |ledger| {
                    stray = ledger.ready(command, seen_to).err();
                });
                // Never submitted: its drop fails it and says so.
                drop(stray);
            }
        }
    }

    fn notify_ready(&self, commands: &mut Vec<Command>) {
        let shared = Arc::clone(&self.shared);
        // All are marked before the first is forwarded: the oldest goes first, whatever the order
        // in which they come.
        for command in commands.drain(..) {
            let stray = shared.ledger().ready(command, None).err();
            drop(stray);
        }
        shared.pump(Caller::Host);
    }

    fn take_graph(&self, graph: &Graph) -> Option<Box<dyn Any + Send + Sync>> {
        TakenGraph::take(&self.shared.vendor, graph)
    }

    fn native_queue(&self, queue: &QueueShared) -> Option<Box<dyn Any + Send>> {
        let device = self.shared.device_if_any(queue.device_index())?;
        let native = self.shared.vendor.native_queue(device)?;
        Some(Box::new(native))
    }

    fn takes_native(&self, queue: TypeId) -> bool {
        queue == TypeId::of::<V::NativeQueue>()
    }

    fn runs_native_code(&self) -> bool {
        false
    }

    fn takes_code(&self, of: TypeId) -> bool {
        self.shared.vendor.takes_code(of)
    }

    fn kernel_attributes(
        &self,
        device: usize,
        kernel: &dyn PortableKernel,
    ) -> Result<KernelAttributes> {
        self.shared.kernel_attributes(device, kernel)
    }

    fn describe(
        &self,
        device: usize,
        program: &(dyn Any + Send + Sync),
    ) -> Result<Box<dyn Any + Send>> {
        let shared = &self.shared;
        shared.vendor.describe(shared.device(device), program)
    }

    fn device_takes_code(&self, device: usize, of: TypeId) -> bool {
        let device = self.shared.device_if_any(device);
        self.takes_code(of) && device.is_some_and(|device| device.takes_code(of))
    }

    fn has_device_fence(&self, device: usize) -> bool {
        let device = self.shared.device_if_any(device);
        device.is_some_and(|device| device.has_device_fence())
    }

    fn has_grid_barrier(&self, device: usize) -> bool {
        let device = self.shared.device_if_any(device);
        device.is_some_and(|device| device.has_grid_barrier())
    }

    fn text_features(&self, device: usize) -> TextFeatures {
        let device = self.shared.device_if_any(device);
        device.map_or_else(TextFeatures::default, |device| device.text_features())
    }

    fn device_selector(&self, device: usize) -> String {
        let selector = self
            .shared
            .device_if_any(device)
            .and_then(|it| it.selector());
        selector.unwrap_or_else(|| format!("{}:{device}", self.name()))
    }

    fn built_in_kernels(&self, device: usize) -> Vec<BuiltInKernel> {
        match self.shared.device_if_any(device) {
            Some(device) => device.built_in_kernels(),
            None => Vec::new(),
        }
    }

    fn limit_memory(&self, device: usize, bytes: u64) {
        self.shared.limit_memory(device, bytes);
    }

    fn moves_within_spaces(&self) -> bool {
        V::MOVES_WITHIN_SPACES
    }

    fn needs_flush(&self) -> bool {
        true
    }

    fn is_idle(&self) -> bool {
        let mut ledger = self.shared.ledger();
        ledger.absorb();
        ledger.is_empty() && self.shared.workers.is_idle()
    }

    fn allocate(&self, key: u32, size: u64) -> Result<u64> {
        self.shared.allocate(key, size)
    }

    unsafe fn map_host_memory(&self, key: u32, host: NonNull<u8>, size: u64) -> Result<u64> {
        // SAFETY: the caller makes sure of the requirements of `Driver::map_host_memory`, which are
        // the same.
        unsafe { self.shared.map_host_memory(key, host, size) }
    }

    fn allocate_managed(&self, device: usize, size: u64) -> Result<HostBlock> {
        self.shared.allocate_managed(device, size)
    }

    unsafe fn free(&self, key: u32, address: u64, size: u64) {
        // SAFETY: the caller makes sure of the requirements of `Driver::free`, which are the same.
        unsafe { self.shared.free(key, address, size) };
    }

    unsafe fn read_allocation(
        &self,
        key: u32,
        address: u64,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<()> {
        // SAFETY: the caller makes sure of the requirements of `Driver::read_allocation`, which are
        // the same.
        unsafe { self.shared.read_allocation(key, address, offset, bytes) }
    }

    unsafe fn write_allocation(
        &self,
        key: u32,
        address: u64,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        // SAFETY: the caller makes sure of the requirements of `Driver::write_allocation`, which
        // are the same.
        unsafe { self.shared.write_allocation(key, address, offset, bytes) }
    }

    unsafe fn is_in_use(&self, key: u32, _address: u64, memory: &Memory) -> bool {
        let is_there = |space: SpaceId| space.key_in(self) == Some(key);
        self.shared.is_in_use(memory, is_there)
    }

    fn has_route(&self, from: SpaceId, to: SpaceId) -> bool {
        self.shared.has_route(from, to)
    }

    fn partition(
        &self,
        device: usize,
        partition: &Partition,
    ) -> Result<Vec<(usize, DeviceProperties)>> {
        let parts = self.shared.partition(device, partition)?;
        let described = |number| (number, self.shared.device(number).properties().clone());
        Ok(parts.map(described).collect())
    }

    unsafe fn forget_part(&self, device: usize) {
        self.shared.forget_part(device);
    }

    fn free_memory(&self, device: usize) -> Option<u64> {
        self.shared.free_memory(device)
    }
}
