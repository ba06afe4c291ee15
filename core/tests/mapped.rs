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
    Access, AccessMode, Context, Device, DeviceProperties, Driver, MemoryRef, Queue, Recording,
    Result,
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

/// What is mapped, and as a command of this kind is logged.
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

/// Maps memory as a command of this kind is enqueued, which has to be refused. The queue's wait,
/// for which the mapping stays, ends all the same, and so does all else.
fn is_refused<T>(
    kind: &'static str,
    prepare: impl Fn(&Context, &Queue, &MemoryRef) -> T,
    enqueue: impl Fn(&T, &Queue, &MemoryRef) -> Result<()>,
) {
    let _alone = alone();
    let driver: Arc<dyn Driver> = Arc::new(Ends);
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], Default::default()).unwrap();
    let memory = context.memory(64).unwrap();
    let prepared = prepare(&context, &queue, &memory);
    let host = HostQueue::new(&context).unwrap();
    let next = (kind, host, queue.clone(), memory.clone());
    let subscriber = Arc::new(Maps(Mutex::new(Some(next)), Mutex::new(None)));
    let log = tracing::Dispatch::new(subscriber.clone());
    let enqueue = || enqueue(&prepared, &queue, &memory);
    let outcome = tracing::dispatcher::with_default(&log, enqueue);
    let hold = subscriber.1.lock().unwrap().take();
    let hold = hold.expect("a command of the kind is logged");
    let error = outcome.expect_err("the memory was mapped meanwhile");
    assert!(matches!(error.kind(), ErrorKind::Mapped { .. }), "{error}");
    let (tell, told) = mpsc::channel();
    let waiting = queue.clone();
    std::thread::spawn(move || tell.send(waiting.wait()).unwrap());
    let waited = told.recv_timeout(PATIENCE);
    waited.expect("a command waits for the mapping").unwrap();
    drop(hold);
    enqueue().unwrap();
    queue.wait().unwrap();
}

#[test]
fn a_command_is_refused_if_its_memory_is_mapped_meanwhile() {
    is_refused(
        "fill",
        |_, _, _| (),
        |(), queue, memory| {
            let access = Access::whole(memory, AccessMode::Overwrite);
            queue.fill(access, &[1], &[]).map(drop)
        },
    );
}

#[test]
fn a_launch_of_a_graph_is_refused_if_its_memory_is_mapped_meanwhile() {
    is_refused(
        "graph",
        |context, queue, memory| {
            let recorder = Recording::new(context);
            let access = Access::whole(memory, AccessMode::Overwrite);
            recorder.fill(queue, access, &[1], &[]).unwrap();
            recorder.finish().unwrap()
        },
        |graph, queue, _| queue.launch_graph(graph, &[], None).map(drop),
    );
}

#[test]
fn of_two_mappings_at_once_one_is_refused() {
    is_refused(
        "map",
        |context, _, _| HostQueue::new(context).unwrap(),
        |host, queue, memory| {
            let range = 0..memory.size();
            let reserved = host.reserve(queue, memory, range, AccessMode::Read, &[], "other")?;
            reserved.granted().wait()?;
            reserved.take().map(drop)
        },
    );
}
