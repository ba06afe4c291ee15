//! A user's code inside of a user's code: random programs whose callbacks, wakers and tasks
//! register callbacks, complete user events, enqueue, wait, and drop the last handle of something.
//!
//! What such code waits for never depends on that code, but where a task waits for its own
//! dependants. So each step works, or is refused because the wait could never end. All that was
//! registered is called, once.

use super::cases;
use crate::Fixture;
use crate::graph::random::Random;
use crate::support::*;
use quipu_scheduler::{ErrorKind, Event, Queue, QueueOptions, Request, Result, UserEvent};
use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

cases! {
    Anything:
        users_code_may_do_anything_inside_of_users_code;
}

const ROUNDS: u64 = 100;
/// Events that there are from the beginning.
const ITEMS: usize = 16;
/// The depth of code that registers other code.
const DEPTH: u32 = 3;

/// The objects that all code of a program uses.
struct World {
    stage: Stage,
    items: Vec<Event>,
    queues: Vec<Queue>,
    /// Each is the last handle of what it is of.
    last_handles: Mutex<Vec<Box<dyn Any + Send>>>,
    /// Futures that were polled.
    polled: Mutex<Vec<Event>>,
    registered: AtomicUsize,
    called: AtomicUsize,
    problems: Mutex<Vec<String>>,
}

/// A step of the program's, inside of others.
#[derive(Clone)]
struct Step {
    world: Arc<World>,
    seed: u64,
    depth: u32,
}

/// Takes a step when it is woken first.
struct Steps(Step, AtomicBool);

impl Steps {
    fn take_first(&self) -> bool {
        let is_first = !self.1.swap(true, Ordering::SeqCst);
        if is_first {
            self.0.world.called.fetch_add(1, Ordering::SeqCst);
        }
        is_first
    }
}

impl Wake for Steps {
    fn wake(self: Arc<Self>) {
        if self.take_first() {
            self.0.take();
        }
    }
}

impl World {
    fn expect<T>(&self, what: &str, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                let is_refusal = matches!(
                    error.kind(),
                    ErrorKind::WouldDeadlock { .. } | ErrorKind::TimedOut
                );
                if !is_refusal {
                    let mut problems = self.problems.lock().unwrap();
                    problems.push(format!("{what}: {error}"));
                }
                None
            }
        }
    }
}

impl Step {
    fn inner(&self, random: &mut Random) -> Self {
        Self {
            world: self.world.clone(),
            seed: random.next(),
            depth: self.depth + 1,
        }
    }

    /// Calls back when the event is over.
    fn call_back(self, event: &Event) {
        self.world.registered.fetch_add(1, Ordering::SeqCst);
        event.on_complete(move |_| {
            self.world.called.fetch_add(1, Ordering::SeqCst);
            self.take();
        });
    }

    /// Is woken when the event is over.
    fn poll(self, event: &Event) {
        self.world.registered.fetch_add(1, Ordering::SeqCst);
        let world = self.world.clone();
        let steps = Arc::new(Steps(self, AtomicBool::new(false)));
        let waker = Waker::from(steps.clone());
        let mut event = event.clone();
        if Pin::new(&mut event)
            .poll(&mut Context::from_waker(&waker))
            .is_ready()
        {
            steps.take_first();
        }
        world.polled.lock().unwrap().push(event);
    }

    fn task(self, queue: &Queue, waits: &[Event], acts: bool) -> Option<Event> {
        let request = Request {
            waits,
            ..Request::default()
        };
        let world = self.world.clone();
        let task = move |_: &[_]| {
            if acts {
                self.take();
            }
            Ok(())
        };
        world.expect("a task", queue.host_task(task, &request))
    }

    fn take(&self) {
        let mut random = Random::new(self.seed);
        for _ in 0..random.within(1..4) {
            self.act(&mut random);
        }
    }

    fn act(&self, random: &mut Random) {
        let world = &self.world;
        let item = &world.items[random.index(world.items.len())];
        let queue = &world.queues[random.index(world.queues.len())];
        let goes_deeper = self.depth < DEPTH;
        match random.within(0..12) {
            0 if goes_deeper => self.inner(random).call_back(item),
            1 if goes_deeper => self.inner(random).poll(item),
            2 => {
                let user = UserEvent::new();
                let event = user.event();
                if goes_deeper {
                    self.inner(random).call_back(&event);
                    self.inner(random).poll(&event);
                }
                match random.percent(80) {
                    true => user.complete(),
                    false => drop(user),
                }
                // An abandoned command fails.
                assert!(event.is_complete());
            }
            3 | 4 => {
                let waits = [item.clone()];
                let waits = &waits[..random.index(2)];
                let inner = self.inner(random);
                let event = inner.task(queue, waits, goes_deeper && random.percent(50));
                if let Some(event) = event {
                    if goes_deeper && random.percent(50) {
                        self.inner(random).call_back(&event);
                    }
                    if random.percent(50) {
                        world.expect("a wait for a task", event.wait());
                    }
                }
            }
            5 => {
                let handle = world.last_handles.lock().unwrap().pop();
                drop(handle);
            }
            6 => {
                world.expect("a wait for a queue", queue.wait());
            }
            7 => {
                world.expect("a glance", item.wait_timeout(Duration::ZERO));
            }
            8 => {
                let marker = queue.marker(from_ref(item));
                if let Some(marker) = world.expect("a marker", marker) {
                    world.expect("a wait for a marker", marker.wait());
                }
            }
            9 => {
                let fresh = world.stage.queue_on(0, QueueOptions::default());
                self.inner(random).task(&fresh, &[], false);
            }
            10 => {
                let other = &world.items[random.index(world.items.len())];
                world.expect(
                    "a wait for two",
                    Event::wait_for_first(&[item, other], None),
                );
            }
            _ => {
                world.expect("a wait for an item", item.wait());
            }
        }
    }
}

/// Something that has work, and goes with its last handle.
fn last_handle(stage: &Stage, gate: &Event, random: &mut Random) -> Box<dyn Any + Send> {
    let queue = stage.out_of_order();
    let memory = stage.memory(64);
    let (accesses, waits) = ([updates(&memory)], [gate.clone()]);
    let request = Request {
        accesses: &accesses,
        waits: &waits,
        ..Request::default()
    };
    let event = queue.host_task(|_| Ok(()), &request).unwrap();
    match random.within(0..3) {
        0 => Box::new(queue),
        1 => Box::new(memory),
        _ => Box::new(event),
    }
}

fn users_code_may_do_anything_inside_of_users_code(fixture: &dyn Fixture) {
    for round in 0..ROUNDS {
        let mut random = Random::new(round);
        let stage = Stage::new(fixture);
        let mut queues = vec![stage.in_order(), stage.out_of_order()];
        for device in 1..stage.devices.len() {
            queues.push(stage.queue_on(device, QueueOptions::default()));
        }
        let mut gates = Vec::new();
        let mut items: Vec<Event> = Vec::new();
        for at in 0..ITEMS {
            if at < 2 || random.percent(30) {
                let gate = UserEvent::new();
                items.push(gate.event());
                gates.push(gate);
                continue;
            }
            let queue = &queues[random.index(queues.len())];
            let waits: Vec<Event> = (0..random.within(1..10))
                .map(|_| items[random.index(at)].clone())
                .collect();
            let request = Request {
                waits: &waits,
                ..Request::default()
            };
            let item = match random.within(0..4) {
                0 => queue.marker(&waits),
                1 => queue.barrier(&waits),
                _ => queue.host_task(|_| Ok(()), &request),
            };
            items.push(item.unwrap());
        }
        let last_handles = (0..6).map(|_| last_handle(&stage, &items[0], &mut random));
        let last_handles = Mutex::new(last_handles.collect());
        let world = Arc::new(World {
            stage,
            items,
            queues,
            last_handles,
            polled: Mutex::default(),
            registered: AtomicUsize::new(0),
            called: AtomicUsize::new(0),
            problems: Mutex::default(),
        });
        let step = Step {
            world: world.clone(),
            seed: 0,
            depth: 0,
        };
        for item in &world.items {
            step.inner(&mut random).call_back(item);
            step.inner(&mut random).poll(item);
        }
        std::thread::scope(|scope| {
            for gate in gates {
                scope.spawn(|| gate.complete());
            }
        });
        // Threads that wait step these devices, so this thread runs their commands.
        let is_over = || {
            let called = world.called.load(Ordering::SeqCst);
            called == world.registered.load(Ordering::SeqCst)
        };
        while !is_over() {
            for queue in &world.queues {
                queue.wait().unwrap();
            }
            std::thread::yield_now();
        }
        let problems = std::mem::take(&mut *world.problems.lock().unwrap());
        assert!(problems.is_empty(), "round {round}: {problems:?}");
        // Futures that nobody polls any more have the events, and these the code that has this
        // world.
        world.polled.lock().unwrap().clear();
    }
}
