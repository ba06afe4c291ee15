//! Commands that wait for something outside the driver, and that are put on their device with one
//! call when they are released: their results are as if they went one by one.

use crate::library::faults::{Fault, Faults};
use crate::library::{Library, Refusal, started};
use quipu_conformance::folding;
use quipu_device_queue::VendorDriver;
use quipu_device_queue::batch::{FEWEST, LONG_NS, MOST};
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{
    Access, AccessMode, Completion, Context, Device, Driver, Event, MemoryRef, Queue, QueueOptions,
    Request, Result, UserEvent,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

struct Rig {
    driver: Arc<VendorDriver<Library>>,
    devices: Vec<Device>,
    context: Context,
    faults: Arc<Faults>,
    queue: Queue,
}

/// Over both kinds of library, with both kinds of queue.
fn each(test: impl Fn(&Rig)) {
    for (seed, ordered) in [(1, false), (2, true)] {
        for completion in [Completion::Callback, Completion::Polling] {
            let (driver, faults) = started(ordered, seed);
            let dynamic: Arc<dyn Driver> = driver.clone();
            let devices = Device::all_of(&dynamic).unwrap();
            let context = Context::new(&devices).unwrap();
            let options = QueueOptions {
                completion,
                ..QueueOptions::default()
            };
            let queue = context.queue(&devices[0], options).unwrap();
            let rig = Rig {
                driver,
                devices,
                context,
                faults,
                queue,
            };
            test(&rig);
            rig.queue.wait().unwrap();
            assert_eq!(rig.faults.violations(), [""; 0]);
        }
    }
}

fn fold(queue: &Queue, memory: &MemoryRef, number: u64, waits: &[Event]) -> Event {
    let accesses = [Access::whole(memory, AccessMode::ReadWrite)];
    let label = format!("fold {number}");
    let request = Request {
        accesses: &accesses,
        label: Some(&label),
        waits,
        ..Request::default()
    };
    queue.launch(folding(number), 1, &request).unwrap()
}

impl Rig {
    fn memory(&self, size: u64) -> MemoryRef {
        self.context.memory(size).unwrap()
    }

    /// Folds the numbers below `count` into a memory object, one after the other, the first after
    /// the gate.
    fn folds(&self, memory: &MemoryRef, count: u64, gate: &UserEvent) -> Vec<Event> {
        let fold = |number| {
            let gate = [gate.event()];
            let waits = if number == 0 { &gate[..] } else { &[] };
            fold(&self.queue, memory, number, waits)
        };
        (0..count).map(fold).collect()
    }

    /// Waits until so many commands lie ready to leave together.
    fn until_ready(&self, commands: u64) {
        self.queue.flush();
        while self.driver.batches().ready < commands {
            std::thread::yield_now();
        }
    }

    fn read(&self, memory: &MemoryRef) -> Result<u64> {
        let mut bytes = [0xee_u8; 8];
        // SAFETY: the bytes are there until the read is over, and nobody else looks.
        let host = unsafe { HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None) };
        let access = Access::whole(memory, AccessMode::Read);
        self.queue.read(access, host, 8, &[], &[])?.wait()?;
        Ok(u64::from_le_bytes(bytes))
    }
}

fn folded(numbers: impl IntoIterator<Item = u64>) -> u64 {
    let numbers = numbers.into_iter();
    numbers.fold(0, |x: u64, n| x.wrapping_mul(31).wrapping_add(n))
}

/// The commands that may be left of a chain that goes one by one: the last ones, which are too few.
const REST: u64 = FEWEST as u64 - 1;

#[test]
fn a_chain_that_is_held_back_leaves_as_batches() {
    each(|rig| {
        let memory = rig.memory(8);
        let gate = UserEvent::new();
        let count = 3 * MOST as u64;
        let events = rig.folds(&memory, count, &gate);
        rig.until_ready(count - REST);
        assert!(events.iter().all(|event| !event.is_complete()));
        gate.complete();
        for event in &events {
            event.wait().unwrap();
        }
        assert_eq!(rig.read(&memory).unwrap(), folded(0..count));
        let counts = rig.driver.batches();
        assert!(counts.commands >= count - REST, "{counts:?}");
        assert_eq!((counts.put, counts.ready), (counts.made, 0), "{counts:?}");
    });
}

#[test]
fn a_batch_uses_memory_of_the_host_and_its_end_alone_is_told() {
    each(|rig| {
        let memory = quipu_conformance::memory_in_place(&rig.context, 8);
        // It is there before the batch is made.
        fold(&rig.queue, &memory, 0, &[]).wait().unwrap();
        let gate = UserEvent::new();
        let count = 2 * MOST as u64;
        let events = rig.folds(&memory, count, &gate);
        rig.until_ready(count - REST);
        gate.complete();
        for event in &events {
            event.wait().unwrap();
        }
        // On a device with a copy, and back.
        let far = rig.context.queue(&rig.devices[1], QueueOptions::default());
        fold(&far.unwrap(), &memory, count, &[]);
        assert_eq!(rig.read(&memory).unwrap(), folded(0..=count));
    });
}

#[test]
fn a_device_has_all_batches_before_ends_are_looked_at() {
    each(|rig| {
        let memory = rig.memory(8);
        let (gate, before) = (UserEvent::new(), rig.driver.batches());
        let events = rig.folds(&memory, 3 * MOST as u64, &gate);
        rig.until_ready(3 * MOST as u64 - REST);
        let made = rig.driver.batches().made - before.made;
        let (driver, put) = (rig.driver.clone(), Arc::new(AtomicU64::new(0)));
        let seen = put.clone();
        events[0].on_complete(move |_| {
            seen.store(driver.batches().put, Ordering::SeqCst);
        });
        gate.complete();
        events.last().unwrap().wait().unwrap();
        assert!(made >= 3);
        assert_eq!(put.load(Ordering::SeqCst), before.put + made);
    });
}

/// Of commands of unknown duration few end together; of long commands none do.
#[test]
fn what_takes_long_does_not_end_together() {
    each(|rig| {
        let memory = rig.memory(8);
        let count = 3 * MOST as u64;
        let leave = |from: u64, taking: u64| {
            let gate = UserEvent::new();
            let gates = [gate.event()];
            let fold = |number| {
                let waits = if number == from { &gates[..] } else { &[] };
                fold(&rig.queue, &memory, number, waits)
            };
            let events: Vec<_> = (from..from + count).map(fold).collect();
            if taking < LONG_NS {
                rig.until_ready(count - REST);
            }
            gate.complete();
            for event in &events {
                event.wait().unwrap();
            }
            rig.driver.batches()
        };
        let unknown = leave(0, 0);
        assert!(unknown.put >= count / FEWEST as u64 - 1, "{unknown:?}");
        // They took no time at all.
        let short = leave(count, 0);
        assert!(short.put - unknown.put < unknown.put, "{short:?}");
        // One takes long.
        rig.faults.hold(true);
        let long = fold(&rig.queue, &memory, 2 * count, &[]);
        rig.queue.flush();
        while !rig.driver.poll() {
            std::thread::yield_now();
        }
        rig.faults.pass(100 * LONG_NS);
        rig.faults.hold(false);
        long.wait().unwrap();
        let known = leave(2 * count + 1, LONG_NS);
        assert_eq!(known.made, short.made, "{known:?}");
        assert_eq!(rig.read(&memory).unwrap(), folded(0..=3 * count));
    });
}

#[test]
fn commands_end_in_their_order() {
    each(|rig| {
        let memory = rig.memory(8);
        let gate = UserEvent::new();
        let events = rig.folds(&memory, 100, &gate);
        rig.until_ready(100 - REST);
        rig.faults.hold(true);
        gate.complete();
        rig.queue.flush();
        assert!(events.iter().all(|event| !event.is_complete()));
        rig.faults.hold(false);
        for (number, event) in events.iter().enumerate().rev() {
            event.wait().unwrap();
            assert!(events[..number].iter().all(Event::is_complete));
        }
    });
}

/// The end of a long enough command is told by itself; ends of commands that take no time are told
/// together.
#[test]
fn the_first_of_a_batch_end_before_its_last() {
    each(|rig| {
        let memory = rig.memory(8);
        let fill = rig
            .queue
            .fill(Access::whole(&memory, AccessMode::Overwrite), &[0], &[]);
        fill.unwrap().wait().unwrap();
        let count = FEWEST as u64;
        let leave = |from: u64| {
            let gate = UserEvent::new();
            let gates = [gate.event()];
            let fold = |number| {
                let waits = &gates[usize::from(number > from)..];
                fold(&rig.queue, &memory, number, waits)
            };
            let events: Vec<_> = (from..from + count).map(fold).collect();
            rig.until_ready(count);
            rig.faults.hold(true);
            gate.complete();
            rig.queue.flush();
            events
        };
        // Nothing is known of them.
        let events = leave(0);
        for two in 1..count as usize / 2 {
            rig.faults.allow(1);
            events[2 * two - 1].wait().unwrap();
            assert!(!events[2 * two].is_complete());
        }
        rig.faults.hold(false);
        events[count as usize - 1].wait().unwrap();
        // They took no time at all.
        let events = leave(count);
        rig.faults.allow(1);
        events[count as usize - 1].wait().unwrap();
        rig.faults.hold(false);
        assert_eq!(rig.driver.batches().put, 2);
        assert_eq!(rig.read(&memory).unwrap(), folded(0..2 * count));
    });
}

/// Its device is at it until the last of it is over: a command that has no room until then waits
/// for that.
#[test]
fn a_batch_of_which_some_are_over_may_still_make_room() {
    each(|rig| {
        let memory = rig.memory(8);
        let fill = rig
            .queue
            .fill(Access::whole(&memory, AccessMode::Overwrite), &[0], &[]);
        fill.unwrap().wait().unwrap();
        let gate = UserEvent::new();
        let events = rig.folds(&memory, FEWEST as u64, &gate);
        rig.until_ready(FEWEST as u64);
        rig.faults.hold(true);
        gate.complete();
        rig.queue.flush();
        rig.faults.allow(1);
        events[1].wait().unwrap();
        assert!(!events[2].is_complete());
        let other = rig.memory(8);
        let asked = rig.faults.calls(Fault::Reserve);
        rig.faults
            .plan(Fault::Reserve, 0, u64::MAX, Refusal::Memory);
        let waits = fold(&rig.queue, &other, 1, &[]);
        rig.queue.flush();
        while rig.faults.calls(Fault::Reserve) == asked {
            std::thread::yield_now();
        }
        rig.queue.flush();
        rig.faults.end();
        rig.faults.hold(false);
        waits.wait().unwrap();
        assert_eq!(rig.read(&other).unwrap(), 1);
        assert_eq!(rig.read(&memory).unwrap(), folded(0..FEWEST as u64));
    });
}

/// Each by the error of its own kernel, also if that is noticed before the batch is over.
#[test]
fn what_fails_in_a_batch_says_so() {
    each(|rig| {
        let first = rig.memory(8);
        let rounds = 20;
        for _ in 0..rounds {
            // A command that computes from failed bytes has failed.
            let others: Vec<MemoryRef> = (1..FEWEST as u64).map(|_| rig.memory(8)).collect();
            let gate = UserEvent::new();
            let begin = fold(&rig.queue, &first, 0, &[gate.event()]);
            let waits = [begin.clone()];
            let launch = |(number, memory): (usize, &MemoryRef)| {
                // Of four bytes, it reads and writes eight.
                let length = if number % 2 == 0 { 8 } else { 4 };
                let accesses = [Access {
                    length,
                    ..Access::whole(memory, AccessMode::ReadWrite)
                }];
                let request = Request {
                    accesses: &accesses,
                    waits: &waits,
                    ..Request::default()
                };
                rig.queue.launch(folding(1), 1, &request).unwrap()
            };
            let events: Vec<Event> = others.iter().enumerate().map(launch).collect();
            rig.until_ready(FEWEST as u64);
            gate.complete();
            begin.wait().unwrap();
            for (number, (event, memory)) in events.iter().zip(&others).enumerate() {
                let is_right = number % 2 == 0;
                assert_eq!(event.wait().is_ok(), is_right, "{number}");
                if is_right {
                    assert_eq!(rig.read(memory).unwrap(), 1);
                }
            }
        }
        assert_eq!(rig.driver.batches().put, rounds);
    });
}

#[test]
fn few_commands_go_one_by_one() {
    each(|rig| {
        let memory = rig.memory(8);
        let gate = UserEvent::new();
        rig.folds(&memory, REST, &gate);
        rig.queue.flush();
        gate.complete();
        assert_eq!(rig.read(&memory).unwrap(), folded(0..REST));
        assert_eq!(rig.driver.batches().made, 0);
    });
}

#[test]
fn what_nothing_holds_back_goes_one_by_one() {
    each(|rig| {
        let memory = rig.memory(8);
        for number in 0..200 {
            fold(&rig.queue, &memory, number, &[]);
        }
        assert_eq!(rig.read(&memory).unwrap(), folded(0..200));
        assert_eq!(rig.driver.batches().made, 0);
    });
}

#[test]
fn a_batch_that_is_not_made_in_time_holds_nothing_up() {
    each(|rig| {
        let memory = rig.memory(8);
        let gate = UserEvent::new();
        rig.faults.hold_making(true);
        rig.folds(&memory, 200, &gate);
        rig.queue.flush();
        gate.complete();
        assert_eq!(rig.read(&memory).unwrap(), folded(0..200));
        rig.faults.hold_making(false);
        assert_eq!(rig.driver.batches().put, 0);
    });
}

#[test]
fn a_batch_that_cannot_be_made_or_put_goes_one_by_one() {
    each(|rig| {
        let memory = rig.memory(8);
        // The allocation is there, and the code.
        fold(&rig.queue, &memory, 0, &[]).wait().unwrap();
        let gate = UserEvent::new();
        rig.faults.plan(Fault::Make, 0, u64::MAX, Refusal::Busy);
        rig.folds(&memory, 100, &gate);
        rig.queue.flush();
        gate.complete();
        assert_eq!(rig.read(&memory).unwrap(), folded(0..100));
        rig.faults.end();
        let gate = UserEvent::new();
        rig.folds(&memory, 100, &gate);
        rig.until_ready(100 - REST);
        for refusal in [Refusal::Busy, Refusal::Memory] {
            rig.faults.plan(Fault::Put, 0, 1, refusal);
        }
        gate.complete();
        let expected = folded((0..100).chain(0..100));
        assert_eq!(rig.read(&memory).unwrap(), expected);
    });
}

#[test]
fn a_device_with_enough_to_do_leaves_time_to_make_the_next() {
    each(|rig| {
        let memory = rig.memory(8);
        let gate = UserEvent::new();
        let more = |from: u64, commands: u64| {
            for number in from..from + commands {
                let gate = [gate.event()];
                fold(
                    &rig.queue,
                    &memory,
                    number,
                    &gate[usize::from(number > 0)..],
                );
            }
            rig.queue.flush();
            from + commands
        };
        // Two batches at least.
        let count = more(0, 2 * MOST as u64);
        // All of the first ones are ready: one that is not would go one by one.
        rig.until_ready(count - REST);
        rig.faults.hold_making(true);
        let count = more(count, 2 * FEWEST as u64);
        let made = rig.driver.batches().made;
        rig.faults.hold(true);
        gate.complete();
        rig.faults.hold_making(false);
        // Nothing is over, so the device has enough to do.
        while rig.driver.batches().put <= made {
            std::thread::yield_now();
        }
        rig.faults.hold(false);
        assert_eq!(rig.read(&memory).unwrap(), folded(0..count));
    });
}

#[test]
fn memory_that_has_moved_is_used_where_it_is() {
    each(|rig| {
        let memory = rig.memory(8);
        let gate = UserEvent::new();
        rig.folds(&memory, 100, &gate);
        rig.until_ready(100 - REST);
        rig.faults.move_memory();
        gate.complete();
        assert_eq!(rig.read(&memory).unwrap(), folded(0..100));
        assert_eq!(rig.driver.batches().put, 0);
    });
}

#[test]
fn a_cancelled_command_of_a_batch_is_not_run() {
    each(|rig| {
        let (memory, other) = (rig.memory(8), rig.memory(8));
        let gate = UserEvent::new();
        let mut events = rig.folds(&memory, 60, &gate);
        let first = events[0].clone();
        for number in 0..60 {
            events.push(fold(
                &rig.queue,
                &other,
                number,
                std::slice::from_ref(&first),
            ));
        }
        rig.until_ready(120 - REST);
        events[30].cancel();
        gate.complete();
        for (number, event) in events.iter().enumerate() {
            let ended = event.wait();
            // A command that was to read its bytes fails with it.
            assert_eq!(ended.is_err(), (30..60).contains(&number), "{number}");
        }
        rig.read(&memory).unwrap_err();
        assert_eq!(rig.read(&other).unwrap(), folded(0..60));
    });
}

#[test]
fn a_gate_that_fails_runs_nothing() {
    each(|rig| {
        let memory = rig.memory(8);
        let gate = UserEvent::new();
        let events = rig.folds(&memory, 100, &gate);
        rig.until_ready(100 - REST);
        gate.fail("nobody opens the gate");
        for event in events {
            let error = event.wait().unwrap_err();
            assert!(error.to_string().contains("nobody opens"), "{error}");
        }
        let counts = rig.driver.batches();
        assert_eq!((counts.put, counts.ready), (0, 0));
    });
}

#[test]
fn a_kernel_that_fails_fails_what_depends_on_it_and_no_more() {
    each(|rig| {
        let (memory, short, other) = (rig.memory(8), rig.memory(4), rig.memory(8));
        let gate = UserEvent::new();
        let mut events = rig.folds(&memory, 40, &gate);
        let first = events[0].clone();
        let failing = fold(&rig.queue, &short, 7, &[first]);
        for number in 0..40 {
            events.push(fold(
                &rig.queue,
                &other,
                number,
                std::slice::from_ref(&failing),
            ));
        }
        for number in 40..80 {
            events.push(fold(&rig.queue, &memory, number, &[]));
        }
        rig.until_ready(121 - REST);
        gate.complete();
        let error = failing.wait().unwrap_err();
        assert!(error.to_string().contains("fold 7"), "{error}");
        for (number, event) in events.iter().enumerate() {
            let ended = event.wait();
            assert_eq!(ended.is_err(), (40..80).contains(&number), "{number}");
        }
        assert_eq!(rig.read(&memory).unwrap(), folded(0..80));
        assert!(rig.driver.batches().put > 0);
    });
}

#[test]
fn what_waits_for_the_host_in_the_middle_does_not_hold_up_what_is_before() {
    each(|rig| {
        let memory = rig.memory(8);
        let (gate, second) = (UserEvent::new(), UserEvent::new());
        let mut events = rig.folds(&memory, 100, &gate);
        events.push(fold(&rig.queue, &memory, 100, &[second.event()]));
        for number in 101..200 {
            events.push(fold(&rig.queue, &memory, number, &[]));
        }
        rig.until_ready(200 - 2 * REST);
        gate.complete();
        events[99].wait().unwrap();
        assert!(!events[100].is_complete());
        second.complete();
        assert_eq!(rig.read(&memory).unwrap(), folded(0..200));
    });
}

#[test]
fn a_batch_waits_for_what_it_depends_on_on_another_device() {
    each(|rig| {
        let memory = rig.memory(8);
        let options = QueueOptions::default();
        let there = rig.context.queue(&rig.devices[1], options).unwrap();
        let gate = UserEvent::new();
        let mut last = None;
        for number in 0..120 {
            let queue = if number < 60 { &there } else { &rig.queue };
            let waits: Vec<Event> = match number {
                0 => vec![gate.event()],
                _ => last.into_iter().collect(),
            };
            last = Some(fold(queue, &memory, number, &waits));
        }
        there.flush();
        rig.until_ready(120 - 2 * REST);
        gate.complete();
        assert_eq!(rig.read(&memory).unwrap(), folded(0..120));
    });
}

#[test]
fn a_device_that_is_lost_fails_what_is_in_its_batches() {
    each(|rig| {
        for fault in [Fault::Put, Fault::Run] {
            let (driver, faults) = started(true, 3);
            let dynamic: Arc<dyn Driver> = driver.clone();
            let devices = Device::all_of(&dynamic).unwrap();
            let context = Context::new(&devices).unwrap();
            let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
            let memory = context.memory(8).unwrap();
            fold(&queue, &memory, 0, &[]).wait().unwrap();
            let gate = UserEvent::new();
            let events: Vec<Event> = (0..500)
                .map(|number| {
                    let gate = [gate.event()];
                    fold(&queue, &memory, number, &gate[usize::from(number > 0)..])
                })
                .collect();
            queue.flush();
            while driver.batches().ready < 500 - REST {
                std::thread::yield_now();
            }
            faults.plan(fault, 0, 1, Refusal::Lost);
            gate.complete();
            for event in events {
                event.wait().unwrap_err();
            }
            assert!(devices[0].lost().is_some());
        }
        rig.queue.wait().unwrap();
    });
}

#[test]
fn recordings_traces_and_times_are_as_without() {
    each(|rig| {
        let memory = rig.memory(8);
        let options = QueueOptions {
            profiling: true,
            ..QueueOptions::default()
        };
        let timed = rig.context.queue(&rig.devices[0], options).unwrap();
        let gate = UserEvent::new();
        let events: Vec<Event> = (0..100)
            .map(|number| {
                let gate = [gate.event()];
                fold(&timed, &memory, number, &gate[usize::from(number > 0)..])
            })
            .collect();
        timed.flush();
        gate.complete();
        timed.wait().unwrap();
        assert_eq!(rig.read(&memory).unwrap(), folded(0..100));
        for event in events {
            event.wait().unwrap();
        }
        assert_eq!(rig.driver.batches().made, 0);
    });
}
