//! A command that comes upon a mapping as it is enqueued is refused: else it would wait for the
//! host, and the host could wait for it.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod devices;

use quipu_scheduler::command::ToDrivers;
use quipu_scheduler::driver::Notification;
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::memory::mapping::{Hold, HostQueue};
use quipu_scheduler::{
    Access, AccessMode, Context, Device, DeviceProperties, Driver, Event, MemoryRef, Queue,
    Recording, Result, UserEvent,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

/// For a wait that ends soon, or never.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ends what it is handed, at once.
struct Ends;

// SAFETY: a command's code and memory are not used.
unsafe impl Driver for Ends {
    fn name(&self) -> &'static str {
        "ends"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        devices::one("ends")
    }

    fn notify(&self, notification: Notification) {
        if let Notification::Ready(command) = notification {
            command.finish(Ok(()), &mut ToDrivers);
        }
    }
}

/// Memory to be mapped as soon as a command of this kind is logged.
type Next = (&'static str, HostQueue, Queue, MemoryRef);

/// A subscriber that maps memory, once, as it hears of an enqueue: a command is logged when its
/// accesses were checked and are not recorded yet.
struct Maps(Mutex<Option<Next>>, Mutex<Option<Hold>>);

/// True if a record is of a command of this kind.
struct IsKind(&'static str, bool);

impl Visit for IsKind {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.1 |= field.name() == "kind" && value == self.0;
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

impl Subscriber for Maps {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let is_meant = |next: &mut Next| {
            let mut is_kind = IsKind(next.0, false);
            event.record(&mut is_kind);
            is_kind.1
        };
        let next = self.0.lock().unwrap().take_if(is_meant);
        if let Some((_, host, queue, memory)) = next {
            *self.1.lock().unwrap() = Some(map(&host, &queue, &memory));
        }
    }
}

fn map(host: &HostQueue, queue: &Queue, memory: &MemoryRef) -> Hold {
    let range = 0..memory.size();
    let reserved = host.reserve(queue, memory, range, AccessMode::ReadWrite, &[], "mapping");
    let reserved = reserved.unwrap();
    reserved.granted().wait().unwrap();
    reserved.take().unwrap()
}

/// The tests set a subscriber for the process's level of the log.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A queue of a device, and a buffer.
struct Stage {
    context: Context,
    queue: Queue,
    memory: MemoryRef,
}

impl Stage {
    fn new() -> Self {
        let driver: Arc<dyn Driver> = Arc::new(Ends);
        let devices = Device::all_of(&driver).unwrap();
        let context = Context::new(&devices).unwrap();
        Self {
            queue: context.queue(&devices[0], Default::default()).unwrap(),
            memory: context.memory(64).unwrap(),
            context,
        }
    }

    fn host_queue(&self) -> HostQueue {
        HostQueue::new(&self.context).unwrap()
    }

    fn fill(&self, waits: &[Event]) -> Result<()> {
        let access = Access::whole(&self.memory, AccessMode::Overwrite);
        self.queue.fill(access, &[1], waits).map(drop)
    }

    /// All that is in the queue is over.
    fn is_through(&self) {
        let (tell, told) = mpsc::channel();
        let waiting = self.queue.clone();
        std::thread::spawn(move || tell.send(waiting.wait()).unwrap());
        let waited = told.recv_timeout(PATIENCE);
        waited.expect("a refused command is in the queue").unwrap();
    }

    /// Maps memory as a command of this kind is enqueued, which has to be refused. Nothing of it is
    /// in the queue then, though the mapping stays, and so does an event that it was to wait for.
    fn is_refused(
        &self,
        kind: &'static str,
        mapped: &MemoryRef,
        enqueue: impl Fn(&[Event]) -> Result<()>,
    ) {
        let _alone = alone();
        let next = (kind, self.host_queue(), self.queue.clone(), mapped.clone());
        let subscriber = Arc::new(Maps(Mutex::new(Some(next)), Mutex::new(None)));
        let log = tracing::Dispatch::new(subscriber.clone());
        let gate = UserEvent::new();
        let waits = [gate.event()];
        let outcome = tracing::dispatcher::with_default(&log, || enqueue(&waits));
        let hold = subscriber.1.lock().unwrap().take();
        let hold = hold.expect("a command of the kind is logged");
        let error = outcome.expect_err("the memory was mapped meanwhile");
        assert!(matches!(error.kind(), ErrorKind::Mapped { .. }), "{error}");
        self.is_through();
        drop(hold);
        gate.complete();
        enqueue(&waits).unwrap();
        self.is_through();
    }
}

#[test]
fn a_command_is_refused_if_its_memory_is_mapped_meanwhile() {
    let stage = Stage::new();
    stage.is_refused("fill", &stage.memory, |waits| stage.fill(waits));
}

#[test]
fn a_command_is_refused_if_a_content_size_is_mapped_meanwhile() {
    let stage = Stage::new();
    let size = stage.context.memory(8).unwrap();
    stage.memory.set_content_size(Some(size.clone())).unwrap();
    stage.is_refused("fill", &size, |waits| stage.fill(waits));
}

#[test]
fn a_launch_of_a_graph_is_refused_if_its_memory_is_mapped_meanwhile() {
    let stage = Stage::new();
    let recording = Recording::new(&stage.context);
    let access = Access::whole(&stage.memory, AccessMode::Overwrite);
    recording.fill(&stage.queue, access, &[1], &[]).unwrap();
    let graph = recording.finish().unwrap();
    stage.is_refused("graph", &stage.memory, |waits| {
        stage.queue.launch_graph(&graph, waits, None).map(drop)
    });
}

#[test]
fn of_two_mappings_at_once_one_is_refused() {
    let stage = Stage::new();
    let host = stage.host_queue();
    stage.is_refused("map", &stage.memory, |_| {
        let (queue, memory) = (&stage.queue, &stage.memory);
        let range = 0..memory.size();
        let reserved = host.reserve(queue, memory, range, AccessMode::Read, &[], "other")?;
        reserved.granted().wait()?;
        reserved.take().map(drop)
    });
}

#[test]
fn of_a_mapping_of_mapped_bytes_nothing_is_in_the_queue() {
    let stage = Stage::new();
    let host = stage.host_queue();
    let hold = map(&host, &stage.queue, &stage.memory);
    let gate = UserEvent::new();
    for range in [0..64, 60..70] {
        let waits = [gate.event()];
        let (queue, memory) = (&stage.queue, &stage.memory);
        let refused = host.reserve(queue, memory, range, AccessMode::Read, &waits, "other");
        refused.expect_err("it is mapped, or out of bounds");
    }
    stage.is_through();
    drop((hold, gate));
}
