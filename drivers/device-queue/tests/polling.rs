//! Polling by the user: meanwhile the driver's thread asks for no status. Commands that the user
//! has taken over and given back end, and so do those that threads wait for. A program of its own,
//! one test after the other: as long as any thread of a process waits, drivers poll again.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

#[path = "driver/library/mod.rs"]
mod library;

use library::faults::{Fault, Faults, next};
use library::{FakeMemory, FakeQueue, Refusal, stage, started};
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::{
    Access, AccessMode, Completion, Context, Device, Driver, Event, MemoryRef, NativeEnqueue,
    Queue, QueueOptions, Request, UserEvent,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

const BYTES: u64 = 64;

struct Rig {
    devices: Vec<Device>,
    context: Context,
    faults: Arc<Faults>,
}

/// No other test's thread waits as long as this lives.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn each(test: impl Fn(&Rig)) {
    let _alone = alone();
    for (seed, ordered) in [(1, false), (2, true)] {
        let (devices, context, faults) = stage(ordered, seed);
        let rig = Rig {
            devices,
            context,
            faults,
        };
        test(&rig);
        assert_eq!(rig.faults.violations(), [""; 0]);
    }
}

fn queue(context: &Context, device: &Device, completion: Completion) -> Queue {
    let options = QueueOptions {
        completion,
        ..QueueOptions::default()
    };
    context.queue(device, options).unwrap()
}

fn fill(queue: &Queue, memory: &MemoryRef, byte: u8, waits: &[Event]) -> Event {
    let access = Access {
        memory,
        offset: 0,
        length: memory.size(),
        mode: AccessMode::Overwrite,
    };
    queue.fill(access, &[byte], waits).unwrap()
}

/// Told when an event is over, by no wait.
fn told(event: &Event) -> mpsc::Receiver<quipu_scheduler::Result<()>> {
    let (tell, told) = mpsc::channel();
    event.on_complete(move |result| tell.send(result).unwrap());
    told
}

/// Returns when the device has run all that is there, whoever heard of it.
fn until_run(queue: &Queue, memory: &MemoryRef) -> Event {
    let (tell, told) = mpsc::channel();
    let call = move |queue: &FakeQueue, _: Vec<FakeMemory>| {
        queue.put(move || tell.send(()).unwrap());
        Ok(())
    };
    let accesses = [Access {
        memory,
        offset: 0,
        length: memory.size(),
        mode: AccessMode::ReadWrite,
    }];
    let request = Request {
        accesses: &accesses,
        ..Request::default()
    };
    // SAFETY: it touches no memory.
    let event = unsafe { queue.native_enqueue(NativeEnqueue::new(call), &request) }.unwrap();
    queue.flush();
    told.recv().unwrap();
    event
}

#[test]
fn while_the_user_polls_no_thread_of_the_drivers_does() {
    each(|rig| {
        let queue = queue(&rig.context, &rig.devices[0], Completion::Polling);
        let memory = rig.context.memory(BYTES).unwrap();
        let polling = rig.context.polling();
        let before = rig.faults.looks();
        for round in 0..20 {
            // More than are noted before the drain thread is called to hand them over.
            let mut events: Vec<Event> = (0..100).map(|n| fill(&queue, &memory, n, &[])).collect();
            events.push(until_run(&queue, &memory));
            // All have been run, and nobody has heard of it.
            assert!(events.iter().all(|event| !event.is_complete()), "{round}");
            while polling.poll() {}
            while !events.iter().all(Event::is_complete) {
                rig.context.poll();
            }
        }
        assert_eq!(rig.faults.looks(), before);
        assert!(!polling.poll(), "nothing is in flight");
        drop(polling);
        let event = fill(&queue, &memory, 1, &[]);
        told(&event).recv().unwrap().unwrap();
    });
}

#[test]
fn what_is_in_flight_as_polling_is_given_back_ends() {
    each(|rig| {
        let queue = queue(&rig.context, &rig.devices[0], Completion::Polling);
        let memory = rig.context.memory(BYTES).unwrap();
        for _ in 0..50 {
            let polling = rig.context.polling();
            let event = fill(&queue, &memory, 1, &[]);
            let last = until_run(&queue, &memory);
            assert!(!event.is_complete() && !last.is_complete());
            let told = told(&last);
            drop(polling);
            told.recv().unwrap().unwrap();
            assert!(event.is_complete());
        }
    });
}

#[test]
fn what_is_in_flight_as_polling_is_taken_over_is_the_users() {
    each(|rig| {
        let queue = queue(&rig.context, &rig.devices[0], Completion::Polling);
        let memory = rig.context.memory(BYTES).unwrap();
        for _ in 0..50 {
            rig.faults.hold(true);
            let event = fill(&queue, &memory, 1, &[]);
            queue.flush();
            let polling = rig.context.polling();
            let looks = rig.faults.looks();
            rig.faults.hold(false);
            let told = told(&event);
            while told.try_recv().is_err() {
                polling.poll();
            }
            assert_eq!(rig.faults.looks(), looks);
        }
    });
}

#[test]
fn devices_call_for_other_queues_meanwhile() {
    each(|rig| {
        let polled = queue(&rig.context, &rig.devices[0], Completion::Polling);
        let called = queue(&rig.context, &rig.devices[0], Completion::Callback);
        let (x, y) = (
            rig.context.memory(BYTES).unwrap(),
            rig.context.memory(BYTES).unwrap(),
        );
        let _polling = rig.context.polling();
        for round in 0..50 {
            let gate = UserEvent::new();
            let first = fill(&polled, &x, round, &[gate.event().clone()]);
            let events: Vec<Event> = (0..5).map(|n| fill(&called, &y, n, &[])).collect();
            for event in &events {
                told(event).recv().unwrap().unwrap();
            }
            gate.complete();
            while !first.is_complete() {
                rig.context.poll();
            }
        }
    });
}

/// However many threads wait, and whatever the drain thread has to do.
#[test]
fn one_thread_at_a_time_looks_and_none_when_nothing_is_in_flight() {
    each(|rig| {
        let (before, _) = rig.faults.all_looks();
        std::thread::scope(|scope| {
            for (number, mode) in [(0, Completion::Polling), (1, Completion::Callback)] {
                for _ in 0..3 {
                    scope.spawn(move || {
                        let queue = queue(&rig.context, &rig.devices[number], mode);
                        let memory = rig.context.memory(BYTES).unwrap();
                        for round in 0..200 {
                            let event = fill(&queue, &memory, round, &[]);
                            match round % 3 {
                                0 => event.wait().unwrap(),
                                1 => told(&event).recv().unwrap().unwrap(),
                                _ => queue.flush(),
                            }
                        }
                        queue.wait().unwrap();
                    });
                }
            }
        });
        let (looks, at_once) = rig.faults.all_looks();
        assert!(looks > before);
        assert_eq!(at_once, 1);
        for _ in 0..10_000 {
            std::thread::yield_now();
        }
        assert_eq!(rig.faults.all_looks(), (looks, 1));
    });
}

/// A command that is known to be brief is not called for, but looked for: by nobody, once polling
/// is the user's.
#[test]
fn devices_call_for_what_was_brief_before() {
    each(|rig| {
        let called = queue(&rig.context, &rig.devices[0], Completion::Callback);
        let memory = rig.context.memory(BYTES).unwrap();
        fill(&called, &memory, 1, &[]).wait().unwrap();
        // That one was not known.
        let asked = rig.faults.calls(Fault::Callback);
        rig.faults.hold(true);
        let told = told(&fill(&called, &memory, 2, &[]));
        called.flush();
        // By then the driver's thread has ceased to look all the time.
        let looks = rig.faults.looks();
        while rig.faults.looks() < looks + 1000 {
            std::thread::yield_now();
        }
        assert_eq!(rig.faults.calls(Fault::Callback), asked);
        let _polling = rig.context.polling();
        rig.faults.hold(false);
        let ended = told.recv_timeout(Duration::from_secs(60));
        ended.unwrap().unwrap();
    });
}

#[test]
fn a_thread_that_waits_is_polled_for() {
    each(|rig| {
        let queue = queue(&rig.context, &rig.devices[0], Completion::Polling);
        let memory = rig.context.memory(BYTES).unwrap();
        let _polling = rig.context.polling();
        for round in 0..50 {
            fill(&queue, &memory, round, &[]).wait().unwrap();
            fill(&queue, &memory, round, &[]);
            queue.wait().unwrap();
        }
        // It goes to its device only when the thread sleeps, perhaps.
        let (gate, open) = (UserEvent::new(), mpsc::channel::<()>());
        let event = fill(&queue, &memory, 1, &[gate.event().clone()]);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                open.1.recv().unwrap();
                gate.complete();
            });
            open.0.send(()).unwrap();
            event.wait().unwrap();
        });
    });
}

#[test]
fn so_is_what_another_drivers_command_waits_for() {
    let _alone = alone();
    let (one, one_faults) = started(false, 5);
    let (other, other_faults) = started(true, 6);
    let drivers: [Arc<dyn Driver>; 2] = [one, other];
    let devices = drivers
        .each_ref()
        .map(|driver| Device::all_of(driver).unwrap());
    let context = Context::new(&[devices[0][0].clone(), devices[1][0].clone()]).unwrap();
    let queues = [0, 1].map(|n| queue(&context, &devices[n][0], Completion::Polling));
    let memory = context.memory(BYTES).unwrap();
    let _polling = context.polling();
    for round in 0..50 {
        fill(&queues[0], &memory, round, &[]);
        let mut bytes = [0_u8; BYTES as usize];
        // SAFETY: the bytes are there until the read is over, and nobody else looks.
        let host = unsafe {
            quipu_scheduler::operation::HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None)
        };
        let access = Access {
            memory: &memory,
            offset: 0,
            length: BYTES,
            mode: AccessMode::Read,
        };
        let read = queues[1].read(access, host, BYTES, &[], &[]).unwrap();
        read.wait().unwrap();
        assert_eq!(bytes, [round; BYTES as usize]);
    }
    assert_eq!(one_faults.violations(), [""; 0]);
    assert_eq!(other_faults.violations(), [""; 0]);
}

#[test]
fn a_lost_device_is_found_by_who_polls() {
    each(|rig| {
        let queue = queue(&rig.context, &rig.devices[0], Completion::Polling);
        let memory = rig.context.memory(BYTES).unwrap();
        fill(&queue, &memory, 1, &[]).wait().unwrap();
        let polling = rig.context.polling();
        rig.faults.plan(Fault::Run, 0, u64::MAX, Refusal::Lost);
        let event = fill(&queue, &memory, 1, &[]);
        let told = told(&event);
        let error = loop {
            polling.poll();
            if let Ok(ended) = told.try_recv() {
                break ended.unwrap_err();
            }
        };
        assert!(
            matches!(error.kind(), ErrorKind::DeviceLost { .. }),
            "{error}"
        );
        rig.faults.end();
    });
}

/// Threads that take over polling and give it back, now and then poll, and enqueue meanwhile: every
/// command ends, and nobody waits.
fn hand_over(seed: u64, ordered: bool) {
    let (devices, context, faults) = stage(ordered, seed);
    let is_finished = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2_u64)
            .map(|number| {
                let (context, devices) = (&context, &devices);
                scope.spawn(move || {
                    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15 + number) | 1;
                    let modes = [Completion::Polling, Completion::Callback];
                    let queues = modes.map(|mode| queue(context, &devices[number as usize], mode));
                    let memory = context.memory(BYTES).unwrap();
                    let mut guards = Vec::new();
                    for _ in 0..150 {
                        match next(&mut random) % 4 {
                            0 => guards.push(context.polling()),
                            1 => drop(guards.pop()),
                            2 => drop(context.poll()),
                            _ => {}
                        }
                        let queue = &queues[(next(&mut random) % 2) as usize];
                        let event = fill(queue, &memory, 1, &[]);
                        let told = told(&event);
                        if next(&mut random).is_multiple_of(3) {
                            // The others' guards live on.
                            while told.try_recv().is_err() {
                                context.poll();
                                std::thread::yield_now();
                            }
                        }
                    }
                    drop(guards);
                    let last = fill(&queues[0], &memory, 1, &[]);
                    told(&last)
                })
            })
            .collect();
        let told: Vec<_> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .collect();
        // There are no guards left, and nobody polls.
        for told in told {
            told.recv().unwrap().unwrap();
        }
        is_finished.store(true, Ordering::Release);
    });
    assert!(is_finished.into_inner());
    drop(context);
    assert_eq!(faults.violations(), [""; 0], "seed {seed}");
}

#[test]
fn hand_overs_at_any_time_lose_nothing() {
    let _alone = alone();
    for seed in 1..20 {
        hand_over(seed, seed % 2 == 0);
    }
}
