//! The order in which a worker runs ready commands.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod long;

use long::Long;
use quipu_driver_cpu::{CpuDriver, Options};
use quipu_scheduler::{
    Context, Device, Driver, Event, Priority, Queue, QueueOptions, RawArgument, Request,
};
use std::num::NonZero;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// Commands that run one after another before others get a turn.
const CHAIN: usize = 64;

struct Rig {
    context: Context,
    device: Device,
    ran: Arc<Mutex<Vec<&'static str>>>,
}

impl Rig {
    /// Of a pool of one worker.
    fn new() -> Self {
        let options = Options::new().workers(NonZero::<usize>::MIN);
        let driver: Arc<dyn Driver> = CpuDriver::start(options).unwrap();
        let device = Device::all_of(&driver).unwrap().remove(0);
        Self {
            context: Context::new(std::slice::from_ref(&device)).unwrap(),
            device,
            ran: Arc::default(),
        }
    }

    fn queue(&self, priority: Priority) -> Queue {
        let options = QueueOptions {
            in_order: false,
            priority,
            ..QueueOptions::default()
        };
        self.context.queue(&self.device, options).unwrap()
    }

    /// A task that says that it ran.
    fn task(&self, queue: &Queue, name: &'static str, waits: &[Event]) -> Event {
        let ran = self.ran.clone();
        let request = Request {
            waits,
            ..Request::default()
        };
        let task = move |_: &[RawArgument]| {
            ran.lock().unwrap().push(name);
            Ok(())
        };
        queue.host_task(task, &request).unwrap()
    }

    /// A long kernel that says that it ran.
    fn long(&self, queue: &Queue, name: &'static str, waits: &[Event]) -> Event {
        let ran = self.ran.clone();
        let request = Request {
            waits,
            ..Request::default()
        };
        let kernel = Long(move || ran.lock().unwrap().push(name));
        queue.launch(kernel, 1, &request).unwrap()
    }

    /// A task which runs by now, and until it is told to end.
    fn held(&self, queue: &Queue, name: &'static str) -> (Event, Sender<()>) {
        let ran = self.ran.clone();
        let (begins, begun) = channel();
        let (end, ends) = channel();
        let task = move |_: &[RawArgument]| {
            ran.lock().unwrap().push(name);
            begins.send(()).unwrap();
            ends.recv().unwrap();
            Ok(())
        };
        let event = queue.host_task(task, &Request::default()).unwrap();
        begun.recv().unwrap();
        (event, end)
    }

    /// Tasks that each wait for the one before, and the first for this event.
    fn chain(&self, queue: &Queue, name: &'static str, length: usize, first: &Event) -> Vec<Event> {
        let mut last = first.clone();
        let next = |_| {
            last = self.task(queue, name, std::slice::from_ref(&last));
            last.clone()
        };
        (0..length).map(next).collect()
    }

    /// The names of the commands that ran, in order, when all these are over.
    fn ran(&self, events: &[Event]) -> Vec<&'static str> {
        assert_eq!(over(events).iter().count(), events.len());
        std::mem::take(&mut *self.ran.lock().unwrap())
    }
}

/// Says of each of these events that it is over. A thread that waited for them would help.
fn over(events: &[Event]) -> Receiver<()> {
    let (say, said) = channel();
    for event in events {
        let say = say.clone();
        event.on_complete(move |outcome| {
            outcome.unwrap();
            say.send(()).unwrap();
        });
    }
    said
}

#[test]
fn others_get_a_turn_after_64_commands_of_a_chain() {
    for is_released_by_chain in [false, true] {
        let rig = Rig::new();
        let queue = rig.queue(Priority::Normal);
        let (first, end) = rig.held(&queue, "chain");
        let mut events = rig.chain(&queue, "chain", 999, &first);
        let waits = if is_released_by_chain {
            std::slice::from_ref(&first)
        } else {
            &[]
        };
        events.extend((0..3).map(|_| rig.task(&queue, "other", waits)));
        end.send(()).unwrap();
        let ran = rig.ran(&events);
        assert_eq!(ran.len(), 1003);
        let runs: Vec<usize> = ran.split(|name| *name == "other").map(<[_]>::len).collect();
        assert_eq!(runs, [CHAIN, CHAIN, CHAIN, 1000 - 3 * CHAIN]);
    }
}

#[test]
fn others_get_a_turn_after_64_long_commands_however_many_become_ready_together() {
    for together in [2, 3, 4, 70] {
        let rig = Rig::new();
        let queue = rig.queue(Priority::Normal);
        let (first, end) = rig.held(&queue, "step");
        let mut last = first;
        let mut events = Vec::new();
        for _ in 0..400 / together {
            let ready =
                (0..together).map(|_| rig.long(&queue, "step", std::slice::from_ref(&last)));
            let ready: Vec<Event> = ready.collect();
            last = ready[0].clone();
            events.extend(ready);
        }
        events.push(rig.task(&queue, "other", &[]));
        end.send(()).unwrap();
        let ran = rig.ran(&events);
        let place = ran.iter().position(|name| *name == "other");
        assert_eq!(place, Some(CHAIN), "{together} at once");
    }
}

#[test]
fn what_is_urgent_is_next_and_what_is_not_is_last() {
    let rig = Rig::new();
    let [high, normal, low] =
        [Priority::High, Priority::Normal, Priority::Low].map(|priority| rig.queue(priority));
    let (first, end) = rig.held(&normal, "chain");
    let mut events = rig.chain(&normal, "chain", 199, &first);
    let (early, late) = (events[9].clone(), events[99].clone());
    events.extend([
        // Released by the chain, which has run 11 and 101 commands by then.
        rig.task(&low, "low", &[first]),
        rig.task(&low, "low", std::slice::from_ref(&early)),
        rig.task(&high, "high", &[early]),
        rig.task(&high, "high", &[late]),
        // Handed in while its first command runs.
        rig.task(&low, "low", &[]),
        rig.task(&high, "high", &[]),
        rig.task(&high, "high", &[]),
    ]);
    end.send(()).unwrap();
    let ran = rig.ran(&events);
    let is_chain = |one: &&str, next: &&str| (*one == "chain") == (*next == "chain");
    let runs: Vec<(&str, usize)> = ran
        .chunk_by(is_chain)
        .map(|run| (run[0], run.len()))
        .collect();
    assert_eq!(
        runs,
        [
            ("chain", 1),
            ("high", 2),
            ("chain", 10),
            ("high", 1),
            ("chain", 90),
            ("high", 1),
            ("chain", 99),
            ("low", 3),
        ]
    );
}

#[test]
fn a_chain_of_low_priority_gives_way_at_each_command() {
    let rig = Rig::new();
    let [normal, low] = [Priority::Normal, Priority::Low].map(|priority| rig.queue(priority));
    let (first, end) = rig.held(&low, "low");
    let mut events = rig.chain(&low, "low", 3, &first);
    let second = events[1].clone();
    events.extend([
        rig.task(&normal, "other", &[]),
        rig.task(&normal, "other", &[]),
        rig.task(&normal, "other", &[second]),
    ]);
    end.send(()).unwrap();
    let ran = rig.ran(&events);
    assert_eq!(ran, ["low", "other", "other", "low", "low", "other", "low"]);
}
