//! Queues that have hazards to themselves: each keeps its order on buffers that all of them use,
//! and waits for no other.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu_driver_cpu::{CpuDriver, Options};
use quipu_scheduler::graph::{NodeRequest, Recording};
use quipu_scheduler::memory::mapping::HostQueue;
use quipu_scheduler::{
    Access, AccessMode, Context, Device, Driver, Event, Hazards, MemoryRef, Queue, QueueOptions,
    RawArgument, Request, UserEvent,
};
use std::num::NonZero;
use std::sync::Arc;

const QUEUES: usize = 4;
const BUFFERS: usize = 3;
/// Past the number of readers that a tracker keeps.
const STEPS: usize = 400;

/// A step of a queue in its own number of each buffer: numbers of buffers, and a constant.
#[derive(Clone, Copy, Debug)]
struct Step {
    from: usize,
    to: usize,
    constant: u64,
    how: How,
}

#[derive(Clone, Copy, Debug)]
enum How {
    Task,
    Graph,
    Host,
}

fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

fn steps(seed: u64) -> Vec<Step> {
    let mut random = seed;
    let step = |_| Step {
        from: next(&mut random) as usize % BUFFERS,
        to: next(&mut random) as usize % BUFFERS,
        constant: next(&mut random),
        how: match next(&mut random) % 16 {
            0 => How::Host,
            1 | 2 => How::Graph,
            _ => How::Task,
        },
    };
    (0..STEPS).map(step).collect()
}

fn combined(from: u64, to: u64, constant: u64) -> u64 {
    to.wrapping_mul(31).wrapping_add(from ^ constant)
}

struct Rig {
    context: Context,
    device: Device,
    host: HostQueue,
    buffers: Vec<MemoryRef>,
}

impl Rig {
    fn new() -> Self {
        let options = Options::new().workers(NonZero::new(2).unwrap());
        let driver: Arc<dyn Driver> = CpuDriver::start(options).unwrap();
        let device = Device::all_of(&driver).unwrap().remove(0);
        let context = Context::new(std::slice::from_ref(&device)).unwrap();
        let buffers = (0..BUFFERS).map(|_| context.memory(8 * QUEUES as u64).unwrap());
        Self {
            buffers: buffers.collect(),
            host: HostQueue::with_options(&context, apart(false)).unwrap(),
            context,
            device,
        }
    }

    fn accesses(&self, step: Step) -> Vec<Access<'_>> {
        let access = |number: usize, mode| Access {
            memory: &self.buffers[number],
            offset: 0,
            length: 8 * QUEUES as u64,
            mode,
        };
        match step.from == step.to {
            true => vec![access(step.to, AccessMode::ReadWrite)],
            false => vec![
                access(step.to, AccessMode::ReadWrite),
                access(step.from, AccessMode::Read),
            ],
        }
    }

    /// Enqueues a step of the queue of this number, and gives its event.
    fn enqueue(&self, queue: &Queue, number: usize, step: Step, waits: &[Event]) -> Event {
        let accesses = self.accesses(step);
        let work = move |raw: &[RawArgument]| {
            let [to, from] = [raw[0], raw[raw.len() - 1]]
                .map(|argument| argument.pointer.cast::<u64>().wrapping_add(number));
            // SAFETY: each queue has numbers of its own, and keeps its order.
            unsafe { *to = combined(*from, *to, step.constant) };
            Ok(())
        };
        let request = Request {
            accesses: &accesses,
            waits,
            ..Request::default()
        };
        match step.how {
            How::Task => queue.host_task(work, &request).unwrap(),
            How::Graph => {
                let recording = Recording::new(&self.context);
                let node = NodeRequest {
                    accesses: &accesses,
                    ..NodeRequest::default()
                };
                recording.host_task(queue, work, &node).unwrap();
                let graph = recording.finish().unwrap();
                queue.launch_graph(&graph, waits, None).unwrap()
            }
            How::Host => {
                let arguments = accesses.len();
                let task = move |lease: &quipu_scheduler::memory::mapping::HostLease| {
                    let raw: Vec<_> = (0..arguments)
                        .map(|at| lease.argument(at).unwrap())
                        .collect();
                    work(&raw)
                };
                self.host.run(queue, &request, task).unwrap().in_queue
            }
        }
    }

    /// Runs all steps. An out-of-order queue is given its order by waits.
    fn run(&self, queue: &Queue, number: usize, steps: &[Step], in_order: bool, first: &[Event]) {
        let mut waits = first.to_vec();
        for step in steps {
            let event = self.enqueue(queue, number, *step, &waits);
            waits.clear();
            if !in_order {
                waits.push(event);
            }
        }
    }
}

fn apart(in_order: bool) -> QueueOptions {
    QueueOptions {
        in_order,
        // SAFETY: each queue has bytes of its own, and an out-of-order one is ordered by waits.
        hazards: unsafe { Hazards::within_queue() },
        ..QueueOptions::default()
    }
}

#[test]
fn queues_on_the_same_buffers_keep_their_own_order_and_wait_for_no_other() {
    for round in 1..=20_u64 {
        let rig = Rig::new();
        let all: Vec<_> = (0..QUEUES)
            .map(|number| steps(round.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (number as u64 + 1)))
            .collect();
        let is_in_order = |number: usize| number != 1;
        let queues: Vec<_> = (0..QUEUES)
            .map(|number| {
                let options = apart(is_in_order(number));
                rig.context.queue(&rig.device, options).unwrap()
            })
            .collect();
        // The first queue stands still, with all its commands enqueued, until the others are
        // through.
        let gate = UserEvent::new();
        rig.run(&queues[0], 0, &all[0], true, &[gate.event()]);
        std::thread::scope(|scope| {
            for number in 1..QUEUES {
                let (rig, queue, steps) = (&rig, &queues[number], &all[number]);
                scope.spawn(move || {
                    rig.run(queue, number, steps, is_in_order(number), &[]);
                    queue.wait().unwrap();
                });
            }
        });
        gate.complete();
        queues[0].wait().unwrap();
        for (number, steps) in all.iter().enumerate() {
            let mut expected = [0; BUFFERS];
            for step in steps {
                expected[step.to] = combined(expected[step.from], expected[step.to], step.constant);
            }
            let found: Vec<u64> = rig
                .buffers
                .iter()
                .map(|buffer| {
                    let first = buffer.host_pointer().unwrap().cast::<u64>();
                    // SAFETY: all commands are over.
                    unsafe { first.add(number).read() }
                })
                .collect();
            assert_eq!(found, expected, "queue {number} in round {round}");
        }
    }
}
