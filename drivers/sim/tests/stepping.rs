//! Waits step the machines without a thread that they need, whichever command they are for.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_driver_cpu::{CpuDriver, Options, SerialDriver};
use quipu_driver_sim::engine::Configuration;
use quipu_scheduler::event::wait_graph;
use quipu_scheduler::{Context, Device, Driver, Event, Queue, QueueOptions, Request, UserEvent};
use std::num::NonZero;
use std::sync::Arc;
use support::{Rig, ends};

fn machine() -> Rig {
    Rig::manual(Configuration::shared_memory(1, 1 << 20))
}

fn queue_of(driver: Arc<dyn Driver>) -> Queue {
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    context.queue(&devices[0], QueueOptions::default()).unwrap()
}

fn task(queue: &Queue, waits: &[Event]) -> Event {
    let request = Request {
        waits,
        ..Request::default()
    };
    queue.host_task(|_| Ok(()), &request).unwrap()
}

/// Each way to wait for a command of `queue` behind one of a machine of another context.
fn wait_on(queue: &Queue) {
    let rig = machine();
    let its = rig.queue(0);
    let behind = || task(queue, &[task(&its, &[])]);
    let event = behind();
    ends(move || event.wait()).unwrap();
    drop(behind());
    let all = queue.clone();
    ends(move || all.wait()).unwrap();
    let (event, user) = (behind(), UserEvent::new());
    let never = task(queue, &[user.event()]);
    ends(move || Event::wait_for_first(&[&never, &event], None)).unwrap();
    user.complete();
}

/// As [`wait_on`], and also inside of a command, where a machine refuses waits.
fn wait_on_and_inside(queue: &Queue) {
    wait_on(queue);
    let rig = machine();
    let event = task(queue, &[task(&rig.queue(0), &[])]);
    let outer = queue.host_task(move |_| event.wait(), &Request::default());
    let outer = outer.unwrap();
    ends(move || outer.wait()).unwrap();
}

#[test]
fn a_wait_steps_the_machines_of_other_contexts() {
    let _alone = support::alone();
    let workers = NonZero::new(2).unwrap();
    let pool = CpuDriver::start(Options::new().workers(workers)).unwrap();
    let options = QueueOptions {
        in_order: false,
        ..QueueOptions::default()
    };
    let devices = Device::all_of(&(pool as _)).unwrap();
    let context = Context::new(&devices).unwrap();
    wait_on_and_inside(&context.queue(&devices[0], options).unwrap());
    wait_on_and_inside(&queue_of(Arc::new(SerialDriver::new())));
    wait_on(&machine().queue(0));
}

#[test]
fn a_wait_steps_all_machines_of_its_context() {
    let _alone = support::alone();
    let run = || {
        let rigs = [machine(), machine()];
        let devices = rigs.each_ref().map(|rig| rig.devices[0].clone());
        let context = Context::new(&devices).unwrap();
        let queues = devices.map(|device| context.queue(&device, QueueOptions::default()).unwrap());
        let mut last = None;
        for round in 0..8 {
            let waits: Vec<Event> = last.into_iter().collect();
            last = Some(task(&queues[round % 2], &waits));
        }
        ends(move || last.unwrap().wait()).unwrap();
        rigs.map(|rig| rig.driver.log())
    };
    assert_eq!(run(), run(), "the order is not the clock's");
}

#[test]
fn a_wait_for_the_first_of_several_steps_the_machines_of_all() {
    let _alone = support::alone();
    let rigs = [machine(), machine()];
    let user = UserEvent::new();
    let never = task(&rigs[0].queue(0), &[user.event()]);
    let event = task(&rigs[1].queue(0), &[]);
    ends(move || Event::wait_for_first(&[&never, &event], None)).unwrap();
    user.complete();
}

#[test]
fn a_wait_for_the_host_steps_all_machines() {
    let _alone = support::alone();
    let rig = machine();
    let user = UserEvent::new();
    let event = user.event();
    task(&rig.queue(0), &[]).on_complete(move |_| user.complete());
    ends(move || event.wait()).unwrap();
}

#[test]
fn a_thread_that_sleeps_already_steps_a_new_machine() {
    let _alone = support::alone();
    let user = UserEvent::new();
    let event = user.event();
    let completes = std::thread::spawn(move || {
        while !wait_graph().contains("1 thread waits") {
            std::thread::yield_now();
        }
        let rig = machine();
        task(&rig.queue(0), &[]).on_complete(move |_| user.complete());
        rig
    });
    ends(move || event.wait()).unwrap();
    completes.join().unwrap();
}
