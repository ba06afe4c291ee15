//! Random programs that user events hold back, and release at random moments. Some of their
//! commands are cancelled, and the library may fail in any call. Their results are those of
//! commands that go one by one.

use crate::library::acts::{Act, BUFFERS, BYTES, Model};
use crate::library::faults::{Fault, Faults, next};
use crate::library::{Library, Refusal, started};
use quipu_device_queue::VendorDriver;
use quipu_device_queue::batch::Counts;
use quipu_scheduler::{Context, Device, Driver, Event, MemoryRef, Queue, QueueOptions, UserEvent};
use std::sync::Arc;

struct Stage {
    driver: Arc<VendorDriver<Library>>,
    faults: Arc<Faults>,
    queues: Vec<Queue>,
    buffers: Vec<MemoryRef>,
}

fn stage(seed: u64, ordered: bool) -> Stage {
    let (driver, faults) = started(ordered, seed);
    let dynamic: Arc<dyn Driver> = driver.clone();
    let devices = Device::all_of(&dynamic).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = |number: usize| {
        let options = QueueOptions::default();
        context.queue(&devices[number % 2], options).unwrap()
    };
    let memory = |_| context.memory(BYTES as u64).unwrap();
    Stage {
        driver,
        faults,
        queues: (0..3).map(queue).collect(),
        buffers: (0..BUFFERS).map(memory).collect(),
    }
}

fn open(gate: Option<UserEvent>) {
    if let Some(gate) = gate {
        gate.complete();
    }
}

/// Commands behind a gate. Some are not the device's, and some wait for a second gate.
fn phase(stage: &Stage, random: &mut u64, model: &mut Model, faulty: bool) {
    let queue = &stage.queues[(next(random) % 3) as usize];
    let (mut gate, second) = (Some(UserEvent::new()), UserEvent::new());
    let opened = gate.as_ref().map(UserEvent::event);
    let count = 1 + next(random) % 400;
    // All else waits for one of these.
    let mut acts: Vec<Act> = (0..BUFFERS).map(|buffer| Act::Fold(buffer, 1)).collect();
    let (others, gated) = (next(random) % 2 * 20, next(random) % 2 * 10);
    let early = next(random).is_multiple_of(3);
    let mut events = Vec::new();
    for number in 0..acts.len() as u64 + count {
        let act = match acts.get(number as usize) {
            Some(act) => *act,
            None if next(random) % 1000 < others => Act::of(random),
            None => Act::of_device(random),
        };
        if number as usize == acts.len() {
            acts.push(act);
        }
        let waits = match next(random) % 1000 {
            _ if number < BUFFERS as u64 => opened.clone().into_iter().collect(),
            chance if chance < gated => vec![second.event()],
            _ => vec![],
        };
        events.push(
            act.enqueue(queue, &stage.buffers, &Arc::default(), &waits)
                .unwrap(),
        );
        if early && number == count / 2 {
            open(gate.take());
        }
    }
    queue.flush();
    // Without possible faults there is a batch some time.
    let is_sure = !early && !faulty && others == 0 && gated == 0 && count >= 100;
    let mut patience = next(random) % 2000;
    while stage.driver.batches().ready == 0 && (is_sure || patience > 0) {
        patience = patience.saturating_sub(1);
        std::thread::yield_now();
    }
    for _ in 0..(next(random) % 4).saturating_sub(1) {
        let chosen: &Event = &events[next(random) as usize % events.len()];
        chosen.cancel();
    }
    if next(random).is_multiple_of(2) {
        open(gate);
        second.complete();
    } else {
        second.complete();
        open(gate);
    }
    queue.wait().unwrap();
    for (act, event) in acts.into_iter().zip(events) {
        assert!(event.is_complete(), "{act:?} goes on");
        model.follow(act, event.wait());
    }
}

fn chain(seed: u64, ordered: bool, faulty: bool) -> Counts {
    let stage = stage(seed, ordered);
    let mut random = seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1;
    let mut model = Model::new();
    if faulty {
        let mut often = |fault, most: u64, refusal| {
            let thousandths = next(&mut random) % (most + 1);
            stage.faults.often(fault, thousandths, refusal);
        };
        often(Fault::Make, 500, Refusal::Busy);
        often(Fault::Put, 30, Refusal::Memory);
        often(Fault::Status, 300, Refusal::Busy);
        often(Fault::Callback, 500, Refusal::Busy);
        often(Fault::Flush, 200, Refusal::Busy);
        often(Fault::Reserve, 100, Refusal::Memory);
        if !ordered {
            often(Fault::Run, 15, Refusal::Broken);
        }
    }
    for _ in 0..4 {
        phase(&stage, &mut random, &mut model, faulty);
    }
    stage.faults.end();
    model.check(&stage.queues[0], &stage.buffers, seed);
    let counts = stage.driver.batches();
    assert_eq!(counts.ready, 0, "seed {seed}");
    let Stage { faults, .. } = stage;
    assert_eq!(faults.violations(), [""; 0], "seed {seed}");
    counts
}

#[test]
fn programs_leave_what_they_would_one_by_one() {
    let all = (1..60).map(|seed| chain(seed, seed % 2 == 0, false));
    let put: u64 = all.map(|counts| counts.put).sum();
    assert!(put > 0);
}

#[test]
fn whatever_goes_wrong() {
    for seed in 1..60 {
        chain(seed, seed % 2 == 0, true);
    }
}
