//! The moment between the two halves of a registration, as the driver is told of the command.

use crate::command::slot::INLINE_EDGES;
use crate::driver::{Notification, Submission};
use crate::limits::JOIN_WAITS;
use crate::{
    Command, Context, Device, DeviceKind, DeviceProperties, Driver, ErrorKind, Event, Queue,
    QueueOptions, Request, UserEvent,
};
use std::sync::{Arc, Mutex};

type Hook = Box<dyn FnOnce(&Submission<'_>) + Send>;

/// Calls a hook with the next command that it is told of, and keeps ready commands.
#[derive(Default)]
struct Told {
    hook: Mutex<Option<Hook>>,
    ready: Mutex<Vec<Command>>,
}

// SAFETY: a command's code and memory are used while it is here, with the arguments resolved for
// it.
unsafe impl Driver for Told {
    fn name(&self) -> &'static str {
        "told"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        vec![DeviceProperties {
            domain: Some(0),
            ..DeviceProperties::new(DeviceKind::Simulated, "told")
        }]
    }

    fn submit(&self, submission: Submission<'_>) {
        let hook = self.hook.lock().unwrap().take();
        if let Some(hook) = hook {
            hook(&submission);
        }
    }

    fn notify(&self, notification: Notification) {
        if let Notification::Ready(command) = notification {
            self.ready.lock().unwrap().push(command);
        }
    }
}

struct Stage {
    driver: Arc<Told>,
    queue: Queue,
}

impl Stage {
    fn new() -> Self {
        let driver = Arc::new(Told::default());
        let devices = Device::all_of(&(driver.clone() as Arc<dyn Driver>)).unwrap();
        let options = QueueOptions {
            in_order: false,
            ..QueueOptions::default()
        };
        let context = Context::new(&devices).unwrap();
        let queue = context.queue(&devices[0], options).unwrap();
        Self { driver, queue }
    }

    /// A task whose driver calls this as it is told of it.
    fn task(&self, waits: &[Event], hook: impl FnOnce(&Submission<'_>) + Send + 'static) -> Event {
        *self.driver.hook.lock().unwrap() = Some(Box::new(hook));
        let event = task(&self.queue, waits);
        assert!(self.driver.hook.lock().unwrap().is_none(), "it was told");
        event
    }

    /// Ends all ready commands, and those that become ready by that.
    fn end_all(&self) {
        let next = || self.driver.ready.lock().unwrap().pop();
        while let Some(command) = next() {
            let result = command.start();
            command.finish(result, &mut crate::command::ToDrivers);
        }
    }
}

fn task(queue: &Queue, waits: &[Event]) -> Event {
    let request = Request {
        waits,
        ..Request::default()
    };
    queue.host_task(|_| Ok(()), &request).unwrap()
}

fn gates(count: usize) -> (Vec<UserEvent>, Vec<Event>) {
    let gates: Vec<UserEvent> = (0..count).map(|_| UserEvent::new()).collect();
    let events = gates.iter().map(UserEvent::event).collect();
    (gates, events)
}

/// While a command with a long list of waits is enqueued, its context joins another list, the first
/// one fails, and its marker's slot is somebody else's.
#[test]
fn a_list_that_fails_while_its_command_is_registered_fails_the_command() {
    let stage = Stage::new();
    let (mut first, list) = gates(JOIN_WAITS);
    let queue = stage.queue.clone();
    let event = stage.task(&list, move |_| {
        let (others, other_list) = gates(JOIN_WAITS);
        let other = task(&queue, &other_list);
        first.pop().unwrap().fail("a test");
        first.into_iter().for_each(UserEvent::complete);
        // More than were in use before, so that some of these have the slots that are free again.
        let reopened: Vec<UserEvent> = (0..4096).map(|_| UserEvent::new()).collect();
        drop(reopened);
        others.into_iter().for_each(UserEvent::complete);
        drop(other);
    });
    stage.end_all();
    let error = event.wait().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("a test"), "{text}");
    assert!(
        matches!(error.first_cause().kind(), ErrorKind::FailedByHost { .. }),
        "{text}"
    );
}

/// A driver may start a command at once as it is told of it, on another thread. That looks at the
/// command's fields outside of its slot.
#[test]
fn a_command_is_complete_when_its_driver_is_told_of_it() {
    let stage = Stage::new();
    let (gates, mut list) = gates(INLINE_EDGES + 2);
    // So the list is not joined, whatever its length.
    list[0] = list[0].as_order();
    let event = stage.task(&list, move |submission| {
        // SAFETY: it is not finished during this.
        let edges = unsafe {
            submission
                .command
                .with(|command| command.slot().extension().map_or(0, |e| e.edges.len()))
        };
        assert_eq!(edges, 2);
    });
    gates.into_iter().for_each(UserEvent::complete);
    stage.end_all();
    event.wait().unwrap();
}

/// A driver asks a kernel for its name as it is told of it: a user's code, perhaps.
#[test]
fn a_driver_that_panics_as_it_is_told_keeps_no_command_from_ending() {
    let stage = Stage::new();
    let gate = UserEvent::new();
    let events = [
        stage.task(&[], |_| panic!("a name that panics")),
        stage.task(&[gate.event()], |_| panic!("a name that panics")),
    ];
    gate.complete();
    stage.end_all();
    for event in events {
        event.wait().unwrap();
    }
    stage.queue.wait().unwrap();
}
