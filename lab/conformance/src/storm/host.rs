//! A thread of the host in a storm.
//!
//! A thread completes its own user events before it waits for anything. So no thread waits for what
//! another one would only do after its own wait, and a storm that does not end is the core's fault.
//! A device that runs commands on the calling thread may run any task there, also in the middle of
//! a user event's completion. So tasks do not wait in its storms.

use super::world::{How, Visit, Work, World};
use crate::graph::random::Random;
use quipu_scheduler::{AccessMode, Event, Queue, Request, UserEvent};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// User events that a thread has open at most.
const MOST_OPEN: usize = 3;

pub(super) struct Host {
    world: Arc<World>,
    number: usize,
    random: Random,
    /// Commands that it has enqueued.
    commands: u64,
    open: Vec<UserEvent>,
    /// Events of its last commands.
    events: Vec<Event>,
}

impl Host {
    pub(super) fn new(world: Arc<World>, number: usize, seed: u64) -> Self {
        Self {
            world,
            number,
            random: Random::new(seed),
            commands: 0,
            open: Vec::new(),
            events: Vec::new(),
        }
    }

    pub(super) fn run(mut self, steps: usize) {
        for _ in 0..steps {
            self.step();
        }
        self.complete_all();
        for event in std::mem::take(&mut self.events) {
            self.wait_for(&event);
        }
        self.world.doing(self.number, "has ended");
    }

    fn step(&mut self) {
        match self.random.index(100) {
            0..=44 => self.work(How::Kernel),
            45..=52 => self.work(How::Task),
            53..=57 => self.work(How::Barrier),
            58..=62 => self.mark(),
            63..=68 => self.launch_graph(),
            69..=70 => self.read_much_then_write(),
            71..=76 => self.open_user(),
            77..=81 => self.complete_one(),
            82..=85 => self.wait(),
            86 => self.wait_for_queue(),
            87..=90 => self.call_back(),
            91..=94 => self.task_that_enqueues(),
            95 => self.map(),
            96..=97 => self.world.replace_buffer(&mut self.random),
            98 => self.world.replace_queue(&mut self.random),
            _ => self.world.queue(&mut self.random).flush(),
        }
    }

    fn doing(&self, what: &'static str) {
        self.world.doing(self.number, what);
    }

    fn keep(&mut self, event: Option<Event>) {
        const KEPT: usize = 12;
        let Some(event) = event else { return };
        if self.random.percent(40) {
            self.world.share(&event, &mut self.random);
        }
        if self.events.len() == KEPT {
            self.events.remove(0);
        }
        self.events.push(event);
    }

    /// The waits of the next command: its own and others', now and then many.
    fn waits(&mut self) -> Vec<Event> {
        let most = match self.random.index(20) {
            0 => 80,
            1..=2 => 12,
            3..=8 => 2,
            _ => 0,
        };
        let mut waits = self.world.some_events(&mut self.random, most);
        if self.random.percent(30) {
            waits.extend(self.random.choose(&self.events).cloned());
        }
        if self.random.percent(50) {
            waits.extend(self.open.last().map(UserEvent::event));
        }
        waits
    }

    fn author(&mut self) -> Option<(usize, u64)> {
        self.commands += 1;
        Some((self.number, self.commands))
    }

    fn enqueue(&mut self, queue: &Queue, visits: Vec<Visit>, waits: &[Event], how: How) {
        let work = Work {
            world: self.world.clone(),
            visits,
            author: self.author(),
            turns: if self.random.percent(10) { 2000 } else { 0 },
        };
        let event = self.world.enqueue(queue, work, waits, how);
        self.keep(event);
    }

    fn work(&mut self, how: How) {
        self.doing("enqueues work");
        let queue = self.world.queue(&mut self.random);
        let visits = self.world.visits(&mut self.random, 6);
        let waits = self.waits();
        self.enqueue(&queue, visits, &waits, how);
    }

    /// A marker or a barrier.
    fn mark(&mut self) {
        self.doing("enqueues a marker");
        let queue = self.world.queue(&mut self.random);
        let waits = if self.random.percent(50) {
            self.waits()
        } else {
            Vec::new()
        };
        let event = if self.random.percent(50) {
            queue.marker(&waits)
        } else {
            queue.barrier(&waits)
        };
        match event {
            Ok(event) => self.keep(Some(event)),
            Err(error) => self.world.tolerate(&error),
        }
    }

    fn launch_graph(&mut self) {
        let Some(graph) = self.world.graph(&mut self.random) else {
            return;
        };
        self.doing("launches a graph");
        let queue = self.world.queue(&mut self.random);
        let waits = self.waits();
        match queue.launch_graph(&graph, &waits, Some("graph")) {
            Ok(event) => self.keep(Some(event)),
            Err(error) => self.world.tolerate(&error),
        }
    }

    /// More readers of the same bytes than are kept one by one, some of them held back, and a
    /// writer behind them.
    fn read_much_then_write(&mut self) {
        self.doing("enqueues many readers");
        let buffer = self.world.buffer(&mut self.random);
        let count = buffer.cells.len();
        let visit = |range: std::ops::Range<usize>, writes| Visit {
            buffer: buffer.clone(),
            range,
            writes,
        };
        let held = self.waits();
        for index in 0..70 + self.random.index(80) {
            let queue = self.world.queue(&mut self.random);
            let start = self.random.index(count);
            // Now and then the same twice, or all of it.
            let visits = match self.random.index(6) {
                0 => vec![visit(start..start + 1, false), visit(start..count, false)],
                1 => vec![visit(start..start + 1, false)],
                _ => vec![visit(0..count, false)],
            };
            let waits = if index % 3 == 0 { &held[..] } else { &[] };
            self.enqueue(&queue, visits, waits, How::Kernel);
        }
        let queue = self.world.queue(&mut self.random);
        let how = if self.random.percent(50) {
            How::Kernel
        } else {
            How::Barrier
        };
        self.enqueue(&queue, vec![visit(0..count, true)], &[], how);
    }

    fn open_user(&mut self) {
        if self.open.len() == MOST_OPEN {
            self.complete_one();
        }
        let user = UserEvent::new();
        self.world.share(&user.event(), &mut self.random);
        self.open.push(user);
    }

    fn complete_one(&mut self) {
        self.doing("completes a user event");
        if !self.open.is_empty() {
            let at = self.random.index(self.open.len());
            self.open.swap_remove(at).complete();
        }
    }

    /// Before any wait: see the module.
    fn complete_all(&mut self) {
        self.doing("completes all its user events");
        for user in std::mem::take(&mut self.open) {
            user.complete();
        }
    }

    fn wait_for(&self, event: &Event) {
        self.doing("waits for an event");
        if let Err(error) = event.wait() {
            self.world.tolerate(&error);
        }
    }

    fn wait(&mut self) {
        self.complete_all();
        let mut events = self.world.some_events(&mut self.random, 2);
        events.extend(self.random.choose(&self.events).cloned());
        if self.random.percent(20) {
            self.doing("waits for the first of some events");
            let events: Vec<&Event> = events.iter().collect();
            if !events.is_empty()
                && let Err(error) = Event::wait_for_first(&events, None)
            {
                self.world.tolerate(&error);
            }
            return;
        }
        for event in &events {
            self.wait_for(event);
        }
    }

    fn wait_for_queue(&mut self) {
        self.complete_all();
        self.doing("waits for a queue");
        let queue = self.world.queue(&mut self.random);
        if let Err(error) = queue.wait() {
            self.world.tolerate(&error);
        }
    }

    /// A callback that enqueues.
    fn call_back(&mut self) {
        self.doing("registers a callback");
        let Some(event) = self.random.choose(&self.events).cloned() else {
            return;
        };
        let world = self.world.clone();
        let mut random = Random::new(self.random.next());
        let enqueued = world.clone();
        enqueued.enqueued.fetch_add(1, Ordering::SeqCst);
        event.on_complete(move |_| {
            enqueue_from_inside(&world, &mut random);
            world.ran.fetch_add(1, Ordering::SeqCst);
        });
    }

    /// A task that enqueues others, and waits for some of them. It may be refused that, where the
    /// wait would never end.
    fn task_that_enqueues(&mut self) {
        self.doing("enqueues a task that enqueues");
        let queue = self.world.queue(&mut self.random);
        let waits = self.waits();
        let visits = self.world.visits(&mut self.random, 2);
        let unknown = self.random.percent(50);
        let accesses: Vec<_> = visits.iter().map(Visit::access).collect();
        let request = Request {
            accesses: &accesses,
            regions: &[],
            waits: &waits,
            unknown_access: unknown,
            label: Some("task that enqueues"),
        };
        let world = self.world.clone();
        let author = self.author();
        let work = Work {
            world: world.clone(),
            visits: visits.clone(),
            author,
            turns: 0,
        };
        let mut random = Random::new(self.random.next());
        world.enqueued.fetch_add(1, Ordering::SeqCst);
        let task = {
            let world = world.clone();
            move |arguments: &[quipu_scheduler::RawArgument]| {
                work.run(arguments);
                for _ in 0..1 + random.index(3) {
                    let event = enqueue_from_inside(&world, &mut random);
                    if world.tasks_may_wait
                        && random.percent(60)
                        && let Some(event) = event
                        && let Err(error) = event.wait()
                    {
                        world.tolerate(&error);
                    }
                }
                world.ran.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }
        };
        let event = queue.host_task(task, &request);
        let event = world.accepted(event);
        self.keep(event);
    }

    /// A turn of the host at a buffer's bytes.
    fn map(&mut self) {
        self.complete_all();
        self.doing("maps a buffer");
        let (queue, buffer) = (
            self.world.queue(&mut self.random),
            self.world.buffer(&mut self.random),
        );
        let range = 0..buffer.memory.size();
        let reserved = self.world.host.reserve(
            &queue,
            &buffer.memory,
            range,
            AccessMode::ReadWrite,
            &[],
            "a turn in a storm",
        );
        match reserved {
            Ok(reservation) => {
                let granted = reservation.granted().clone();
                self.wait_for(&granted);
                match reservation.take() {
                    Ok(hold) => {
                        let cells = 0..buffer.cells.len();
                        buffer.cells.visit(cells, true, None, 100, &hold.bytes());
                    }
                    Err(error) => self.world.tolerate(&error),
                }
            }
            Err(error) => self.world.tolerate(&error),
        }
    }
}

/// Enqueues a kernel, on behalf of no thread.
fn enqueue_from_inside(world: &Arc<World>, random: &mut Random) -> Option<Event> {
    let queue = world.queue(random);
    let visits = world.visits(random, 3);
    let work = Work {
        world: world.clone(),
        visits,
        author: None,
        turns: 0,
    };
    let how = if random.percent(80) {
        How::Kernel
    } else {
        How::Task
    };
    let waits = world.some_events(random, 2);
    world.enqueue(&queue, work, &waits, how)
}
