//! Tests: a user's code is called with nothing locked, and nothing that it does keeps a command
//! from ending. Such code is in an error, in an error's text, and in a subscriber of the log.

use super::tests::Stage;
use super::{Command, ToDrivers};
use crate::error::{Error, ErrorKind, Returned};
use crate::graph::NodeRequest;
use crate::limits::JOIN_WAITS;
use crate::memory::SpaceId;
use crate::{Access, AccessMode, Event, Graph, MemoryRef, Queue, Recording, Request, UserEvent};
use std::fmt::{Debug, Display, Formatter};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::{Metadata, Subscriber, span};

/// For events that come at once, or never.
const PATIENCE: Duration = Duration::from_secs(120);
const SIZE: u64 = 8;

/// True if another thread can do this meanwhile.
fn another_can(call: impl FnOnce() + Send + 'static) -> bool {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        call();
        // The thread that asks may have given up.
        let _ = tell.send(());
    });
    told.recv_timeout(PATIENCE).is_ok()
}

fn over(memory: &MemoryRef, mode: AccessMode) -> Access<'_> {
    Access {
        memory,
        offset: 0,
        length: SIZE,
        mode,
    }
}

fn enqueue(queue: &Queue, accesses: &[Access<'_>]) -> Event {
    let request = Request {
        accesses,
        ..Request::default()
    };
    queue.host_task(|_| Ok(()), &request).unwrap()
}

/// Something that does something as it is dropped.
struct OnDrop(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call();
        }
    }
}

impl Display for OnDrop {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("a user's error")
    }
}

/// An error that says, as its last clone is dropped, whether another thread can enqueue a command
/// that uses the memory.
fn error_of(queue: &Queue, memory: &MemoryRef, tell: &mpsc::Sender<bool>) -> Error {
    let (queue, memory, tell) = (queue.clone(), memory.clone(), tell.clone());
    let tell = Mutex::new(tell);
    let call = move || {
        let can = another_can(move || {
            enqueue(&queue, &[over(&memory, AccessMode::ReadWrite)]);
        });
        let _ = tell.lock().unwrap().send(can);
    };
    ErrorKind::Returned {
        what: "a test",
        error: Returned::new(OnDrop(Some(Box::new(call)))),
    }
    .into()
}

/// A command that should have written the memory fails with such an error, which nobody else keeps.
fn fail_writing(stage: &Stage, memory: &MemoryRef, tell: &mpsc::Sender<bool>) {
    let (command, event) = stage.command_of(&[over(memory, AccessMode::Overwrite)]);
    drop(event);
    let error = error_of(&stage.queue, memory, tell);
    command.finish(Err(error), &mut ToDrivers);
}

#[test]
fn an_error_that_is_overwritten_is_dropped_with_nothing_locked() {
    let stage = Stage::new(false);
    let (tell, told) = mpsc::channel();
    for parts in [1, 2] {
        let memory = stage.context.memory(SIZE).unwrap();
        fail_writing(&stage, &memory, &tell);
        for part in 0..parts {
            // The first leaves a part that still has the error.
            let (start, end) = if parts == 1 {
                (0, SIZE)
            } else {
                (0, 4 + 4 * part)
            };
            enqueue(
                &stage.queue,
                &[Access {
                    memory: &memory,
                    offset: start,
                    length: end - start,
                    mode: AccessMode::Overwrite,
                }],
            );
        }
        assert!(told.recv_timeout(2 * PATIENCE).unwrap(), "in {parts} parts");
    }
}

#[test]
fn an_error_that_a_loss_replaces_is_dropped_with_nothing_locked() {
    let stage = Stage::new(false);
    let (tell, told) = mpsc::channel();
    let memory = stage.context.memory(SIZE).unwrap();
    fail_writing(&stage, &memory, &tell);
    let lost: Error = ErrorKind::ContextLost {
        reason: "a test".to_owned(),
    }
    .into();
    let poisoned = memory.tracker().lose_space(SpaceId::HOST, &lost);
    assert!(poisoned.any);
    drop(poisoned);
    assert!(told.recv_timeout(2 * PATIENCE).unwrap());
}

/// An error whose destructor panics.
fn undroppable() -> Error {
    let panics = OnDrop(Some(Box::new(|| panic!("an error that is not dropped"))));
    ErrorKind::Returned {
        what: "a test",
        error: Returned::new(panics),
    }
    .into()
}

#[test]
fn errors_that_panic_as_they_are_dropped_keep_nothing_from_ending() {
    let stage = Stage::new(false);
    let memory = stage.context.memory(SIZE).unwrap();
    // The second replaces the first in the tracker.
    for _ in 0..2 {
        let (command, event) = stage.command_of(&[over(&memory, AccessMode::Overwrite)]);
        command.finish(Err(undroppable()), &mut ToDrivers);
        assert!(event.is_complete());
    }
    // One is enough for a graph of two.
    let recording = Recording::new(&stage.context);
    for _ in 0..2 {
        let fails = |_: &[crate::RawArgument]| Err(undroppable());
        let request = NodeRequest::default();
        recording.host_task(&stage.queue, fails, &request).unwrap();
    }
    let graph = recording.finish().unwrap();
    let event = stage.queue.launch_graph(&graph, &[], None).unwrap();
    stage.fail_all(undroppable);
    assert!(event.is_complete(), "it never ends");
    assert!(event.wait().is_err());
}

fn gates() -> Vec<UserEvent> {
    (0..JOIN_WAITS).map(|_| UserEvent::new()).collect()
}

fn events_of(gates: &[UserEvent]) -> Vec<Event> {
    gates.iter().map(UserEvent::event).collect()
}

/// Enqueues a command that waits for a list that is joined.
fn join(queue: &Queue, gates: &[UserEvent]) {
    let request = Request {
        waits: &events_of(gates),
        ..Request::default()
    };
    drop(queue.host_task(|_| Ok(()), &request).unwrap());
}

/// The list that was joined last has failed with an error that says, as the last of it is dropped,
/// whether another thread can do this. Only the list's marker keeps it.
fn fail_a_joined_list(
    stage: &Stage,
    other: impl FnOnce() + Send + Sync + 'static,
) -> mpsc::Receiver<bool> {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let call = move || {
        let can = another_can(other);
        let _ = tell.lock().unwrap().send(can);
    };
    let error = ErrorKind::Returned {
        what: "a test",
        error: Returned::new(OnDrop(Some(Box::new(call)))),
    };
    let (command, event) = stage.command();
    let gates = gates();
    {
        let mut waits = events_of(&gates);
        waits.push(event);
        let request = Request {
            waits: &waits,
            ..Request::default()
        };
        drop(stage.queue.host_task(|_| Ok(()), &request).unwrap());
    }
    command.finish(Err(error.into()), &mut ToDrivers);
    gates.into_iter().for_each(UserEvent::complete);
    // The commands that waited have failed.
    stage.end_all();
    told
}

#[test]
fn a_joined_list_of_waits_is_forgotten_with_nothing_locked() {
    let stage = Stage::new(false);
    let queue = stage.queue.clone();
    let told = fail_a_joined_list(&stage, move || join(&queue, &gates()));
    join(&stage.queue, &gates());
    assert!(told.recv_timeout(2 * PATIENCE).unwrap());
}

/// The marker of the new list is handed over by then, as another thread may wait for it.
#[test]
fn a_joined_list_of_waits_is_forgotten_with_nothing_in_hand() {
    let stage = Arc::new(Stage::new(false));
    let gates = gates();
    let list = events_of(&gates);
    gates.into_iter().for_each(UserEvent::complete);
    let wait = |stage: &Stage, list: &[Event]| {
        let request = Request {
            waits: list,
            ..Request::default()
        };
        stage.queue.host_task(|_| Ok(()), &request).unwrap()
    };
    let (other, same) = (stage.clone(), list.clone());
    let told = fail_a_joined_list(&stage, move || {
        let event = wait(&other, &same);
        other.end_all();
        event.wait().unwrap();
    });
    let event = wait(&stage, &list);
    assert!(told.recv_timeout(2 * PATIENCE).unwrap());
    stage.end_all();
    event.wait().unwrap();
}

#[test]
fn a_launch_of_a_graph_forgets_a_joined_list_with_nothing_locked() {
    let stage = Stage::new(false);
    let memory = stage.context.memory(SIZE).unwrap();
    let recording = Recording::new(&stage.context);
    let access = over(&memory, AccessMode::Overwrite);
    recording.fill(&stage.queue, access, &[1], &[]).unwrap();
    let graph = recording.finish().unwrap();
    let (queue, same) = (stage.queue.clone(), graph.clone());
    let told = fail_a_joined_list(&stage, move || {
        drop(queue.launch_graph(&same, &[], None).unwrap());
    });
    let gates = gates();
    let launched = stage.queue.launch_graph(&graph, &events_of(&gates), None);
    drop(launched.unwrap());
    assert!(told.recv_timeout(2 * PATIENCE).unwrap());
    gates.into_iter().for_each(UserEvent::complete);
    stage.end_all();
}

#[test]
fn what_a_refused_recording_was_given_is_dropped_with_nothing_locked() {
    let (stage, other) = (Stage::new(true), Stage::new(true));
    let recording = Arc::new(Recording::new(&stage.context));
    let (tell, told) = mpsc::channel();
    let (queue, same) = (stage.queue.clone(), recording.clone());
    let call = move || {
        let can = another_can(move || {
            same.marker(&queue, &[]).unwrap();
        });
        let _ = tell.send(can);
    };
    let given = OnDrop(Some(Box::new(call)));
    let task = move |_: &[crate::RawArgument]| {
        let _ = &given;
        Ok(())
    };
    let request = NodeRequest::default();
    let refused = recording.host_task(&other.queue, task, &request);
    assert!(matches!(
        refused.unwrap_err().kind(),
        ErrorKind::WrongContext { .. }
    ));
    assert!(told.recv_timeout(2 * PATIENCE).unwrap());
}

/// A driver that starts a command before it owns it finds the cause of a poison.
#[test]
fn the_cause_of_a_poison_is_there_before_its_flag() {
    let stage = Stage::new(false);
    let gate = UserEvent::new();
    let request = Request {
        waits: &[gate.event()],
        ..Request::default()
    };
    let event = stage.queue.host_task(|_| Ok(()), &request).unwrap();
    // SAFETY: the event refers to it.
    let slot = unsafe { event.id().slot().unwrap().held() };
    let mut causes = 0;
    for _ in 0..2 {
        super::poison(slot, || {
            assert!(!slot.is_refused(), "its cause is only being made");
            causes += 1;
            ErrorKind::Cancelled {
                what: "a test".to_owned(),
            }
            .into()
        });
        assert!(slot.is_refused());
    }
    assert_eq!(causes, 1, "the first cause alone counts");
    gate.complete();
    stage.end_all();
    assert!(event.wait().unwrap_err().to_string().contains("a test"));
}

/// A driver may start a command before it owns it, and again afterwards: the cause stays though it
/// forgets the first start.
#[test]
fn the_cause_of_a_refusal_is_there_however_often_a_command_is_started() {
    let stage = Stage::new(false);
    let (writes, reads) = (UserEvent::new(), UserEvent::new());
    let request = Request {
        waits: &[writes.event(), reads.event()],
        ..Request::default()
    };
    let event = stage.queue.host_task(|_| Ok(()), &request).unwrap();
    writes.fail("a test");
    // SAFETY: the event refers to it.
    let slot = unsafe { event.id().slot().unwrap().held() };
    // As a driver sees it that was told of it.
    let early = ManuallyDrop::new(Command::from_slot(NonNull::from(slot)));
    drop(early.start().unwrap_err());
    reads.complete();
    stage.end_all();
    let text = event.wait().unwrap_err().to_string();
    assert!(text.contains("a test"), "{text}");
}

type Heard = Arc<dyn Fn(&str) + Send + Sync>;

/// A subscriber that is called with all fields of each event of the core's.
struct Listener(Heard);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        use std::fmt::Write;
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("quipu_scheduler")
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = Text(format!("{} ", event.metadata().level()));
        event.record(&mut text);
        (self.0)(&text.0);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

fn listen<R>(heard: impl Fn(&str) + Send + Sync + 'static, during: impl FnOnce() -> R) -> R {
    // As long as there is but one subscriber, `tracing` takes the thread that first logs somewhere
    // for all: one of another test, which has none.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    tracing::subscriber::with_default(Listener(Arc::new(heard)), during)
}

#[test]
fn a_failure_that_no_event_tells_of_is_a_warning() {
    let stage = Stage::new(false);
    let timed_out = || Error::from(ErrorKind::TimedOut);
    let cancelled = || Error::cancelled("a command");
    let cases: [(bool, bool, &dyn Fn() -> Error, usize); 4] = [
        (true, false, &timed_out, 0),
        (false, true, &timed_out, 0),
        (false, false, &timed_out, 1),
        (false, false, &cancelled, 0),
    ];
    for (keeps_event, calls_back, error, warnings) in cases {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let keep = heard.clone();
        let hear = move |text: &str| {
            if text.starts_with("WARN") {
                keep.lock().unwrap().push(text.to_owned());
            }
        };
        let (command, event) = stage.command_of(&[]);
        if calls_back {
            event.on_complete(|result| assert!(result.is_err()));
        }
        let kept = keeps_event.then_some(event);
        listen(hear, || command.finish(Err(error()), &mut ToDrivers));
        let heard = heard.lock().unwrap();
        assert_eq!(heard.len(), warnings, "{heard:?}");
        let text = error().to_string();
        assert!(heard.iter().all(|heard| heard.contains(&text)), "{heard:?}");
        drop(kept);
    }
}

#[test]
fn migrations_are_logged_with_nothing_locked() {
    let stage = Stage::new(false);
    let far = stage.far_queue();
    let memory = stage.context.memory(SIZE).unwrap();
    let (command, _) = stage.command_of(&[over(&memory, AccessMode::Overwrite)]);
    command.finish(Ok(()), &mut ToDrivers);
    let heard = Arc::new(AtomicUsize::new(0));
    let (count, other, same) = (heard.clone(), stage.queue.clone(), memory.clone());
    let hear = move |text: &str| {
        if text.contains("enqueued") {
            let (other, same) = (other.clone(), same.clone());
            let can = another_can(move || {
                enqueue(&other, &[over(&same, AccessMode::Read)]);
            });
            if can {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    listen(hear, || {
        enqueue(&far, &[over(&memory, AccessMode::Read)]);
    });
    // The command and its migration.
    assert_eq!(heard.load(Ordering::Relaxed), 2);
    stage.end_all();
}

#[test]
fn migrations_are_logged_with_nothing_in_hand() {
    let stage = Arc::new(Stage::new(false));
    let far = stage.far_queue();
    let memory = stage.context.memory(SIZE).unwrap();
    let (command, _) = stage.command_of(&[over(&memory, AccessMode::Overwrite)]);
    command.finish(Ok(()), &mut ToDrivers);
    let handed_over = Arc::new(AtomicUsize::new(0));
    let (count, same) = (handed_over.clone(), stage.clone());
    let hear = move |text: &str| {
        if text.contains("message=migrate") {
            count.fetch_add(same.ready(), Ordering::Relaxed);
        }
    };
    listen(hear, || {
        enqueue(&far, &[over(&memory, AccessMode::Read)]);
    });
    assert_eq!(handed_over.load(Ordering::Relaxed), 1);
    stage.end_all();
}

#[test]
fn launches_of_graphs_are_logged_with_nothing_locked() {
    let stage = Stage::new(true);
    let memory = stage.context.memory(SIZE).unwrap();
    let recording = Recording::new(&stage.context);
    let access = over(&memory, AccessMode::Overwrite);
    recording.fill(&stage.queue, access, &[1], &[]).unwrap();
    let graph = recording.finish().unwrap();
    let heard = Arc::new(AtomicUsize::new(0));
    let (count, queue, same) = (heard.clone(), stage.queue.clone(), graph.clone());
    let hear = move |text: &str| {
        if text.contains("enqueued") {
            let (queue, same): (Queue, Graph) = (queue.clone(), same.clone());
            let can = another_can(move || {
                drop(queue.launch_graph(&same, &[], None).unwrap());
            });
            if can {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    listen(hear, || {
        drop(stage.queue.launch_graph(&graph, &[], None).unwrap());
    });
    assert!(heard.load(Ordering::Relaxed) >= 1);
    stage.end_all();
}

struct Unshowable;

impl Display for Unshowable {
    fn fmt(&self, _: &mut Formatter<'_>) -> std::fmt::Result {
        panic!("an error that is not shown")
    }
}

/// Ends it with an error whose text panics, and then with a callback that panics, while a
/// subscriber does.
fn end_badly(command: Command, event: &Event) {
    let called = Arc::new(AtomicUsize::new(0));
    for _ in 0..2 {
        let called = called.clone();
        event.on_complete(move |_| {
            called.fetch_add(1, Ordering::Relaxed);
            panic!("a callback that panics");
        });
    }
    let error = ErrorKind::Returned {
        what: "a test",
        error: Returned::new(Unshowable),
    };
    command.finish(Err(error.into()), &mut ToDrivers);
    assert!(event.is_complete());
    assert_eq!(called.load(Ordering::Relaxed), 2);
}

#[test]
fn whatever_panics_in_the_log_keeps_no_command_from_ending() {
    let stage = Stage::new(true);
    let panics = |text: &str| {
        assert!(
            !text.contains("fail") && !text.contains("panicked"),
            "a subscriber that panics"
        );
    };
    listen(panics, || {
        let (command, event) = stage.command();
        end_badly(command, &event);
        // Nor does anything after it.
        let (command, event) = stage.command();
        end_badly(command, &event);
    });
    let (command, event) = stage.command();
    command.finish(Ok(()), &mut ToDrivers);
    event.wait().unwrap();
}
