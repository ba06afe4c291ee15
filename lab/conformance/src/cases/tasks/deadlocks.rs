//! Deadlocks: a wait that could never end is refused, through any chain of commands.

use super::{Releasing, Slot, is_timed_out, named, task};
use crate::Fixture;
use crate::cases::cases;
use crate::support::*;
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::graph::NodeRequest;
use quipu_scheduler::memory::mapping::HostQueue;
use quipu_scheduler::{
    AccessMode, Event, Queue, RawArgument, Recording, Request, Result, UserEvent,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

cases! {
    Anything:
        a_task_waits_for_itself,
        a_destructor_waits_for_its_own_command,
        a_task_waits_for_what_comes_after_it,
        a_task_waits_for_a_mapping_that_comes_after_it,
        a_task_waits_for_its_dependant,
        a_task_waits_for_what_depends_on_it_from_afar,
        a_task_waits_for_what_an_earlier_task_of_its_thread_holds_up,
        a_command_of_a_graph_waits_for_the_launch,
        a_blocking_enqueue_in_a_task_behind_the_task,
        tasks_wait_for_what_depends_on_each_other,
        a_task_waits_for_its_dependant_behind_many;
    Concurrency:
        a_timed_wait_holds_nobody_for_good;
}

fn waits_for_what_is_put_there(queue: &Queue, slot: &Slot, gate: &UserEvent) -> Event {
    let slot = slot.clone();
    let waits = [gate.event()];
    let request = Request {
        waits: &waits,
        ..Request::default()
    };
    let task = queue.host_task(
        move |_| {
            let event = slot.lock().expect("not poisoned").take();
            assert_would_deadlock(event.expect("was put there").wait());
            Ok(())
        },
        &request,
    );
    task.unwrap()
}

fn a_task_waits_for_itself(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for queue in [stage.in_order(), stage.out_of_order()] {
        let (slot, gate) = (Slot::default(), UserEvent::new());
        let event = waits_for_what_is_put_there(&queue, &slot, &gate);
        *slot.lock().unwrap() = Some(event.clone());
        gate.complete();
        event.wait().unwrap();
    }
}

/// The state of a task that never runs is dropped before the task's end, so it cannot wait for
/// that.
fn a_destructor_waits_for_its_own_command(fixture: &dyn Fixture) {
    struct Waits(Slot, Sender<Result<()>>);
    impl Drop for Waits {
        fn drop(&mut self) {
            let event = self.0.lock().unwrap().take();
            let _ = self.1.send(event.expect("was put there").wait_over());
        }
    }
    let stage = Stage::new(fixture);
    for queue in [stage.in_order(), stage.out_of_order()] {
        let (slot, gate) = (Slot::default(), UserEvent::new());
        let (tell, told) = channel();
        let waits = Waits(slot.clone(), tell);
        let run = move || {
            drop(waits);
            Ok(())
        };
        let event = named(&queue, "never run", &[gate.event()], run);
        *slot.lock().unwrap() = Some(event.clone());
        gate.fail("the case says so");
        event.wait().unwrap_err();
        let error = told.recv().unwrap().unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::WouldDeadlock { .. }),
            "{error}"
        );
    }
}

fn a_task_waits_for_what_comes_after_it(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let (slot, gate) = (Slot::default(), UserEvent::new());
    let event = waits_for_what_is_put_there(&queue, &slot, &gate);
    let after = nothing(&queue, &[], &[]);
    *slot.lock().unwrap() = Some(after.clone());
    gate.complete();
    event.wait().unwrap();
    after.wait().unwrap();
    // The queue as a whole, too.
    let again = queue.clone();
    let whole = task(&queue, move || {
        assert_would_deadlock(again.wait());
        Ok(())
    });
    whole.wait().unwrap();
}

fn a_task_waits_for_a_mapping_that_comes_after_it(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let host = HostQueue::new(&stage.context).unwrap();
    for in_order in [true, false] {
        let queue = if in_order {
            stage.in_order()
        } else {
            stage.out_of_order()
        };
        let memory = stage.memory(8);
        let (again, bytes, host) = (queue.clone(), memory.clone(), host.clone());
        let map = move || {
            let mapping = host.reserve(&again, &bytes, 0..8, AccessMode::Read, &[], "a test")?;
            assert_would_deadlock(mapping.granted().wait());
            // Behind that event, too.
            let behind = again.marker(&[mapping.granted().clone()])?;
            assert_would_deadlock(behind.wait());
            drop(mapping);
            Ok(())
        };
        // In order, the task is a barrier; out of order, it writes what is mapped.
        let accesses = [part(&memory, 0..8, AccessMode::Overwrite)];
        let request = Request {
            accesses: if in_order { &[] } else { &accesses },
            unknown_access: in_order,
            ..Request::default()
        };
        let event = queue.host_task(move |_| map(), &request).unwrap();
        event.wait().unwrap();
        // The turn is given up, and keeps nobody.
        queue.wait().unwrap();
    }
}

/// A task called 'outer' that waits for what is put there before its gate opens, and is refused. If
/// its driver lets tasks wait at all, the error names both.
fn is_refused(queue: &Queue, slot: &Slot, gate: &UserEvent) -> Event {
    let slot = slot.clone();
    named(queue, "outer", &[gate.event()], move || {
        let event = slot.lock().expect("not poisoned").take();
        let never = UserEvent::new();
        let lets_tasks_wait = is_timed_out(&never.event().wait_timeout(Duration::ZERO));
        let error = event.expect("was put there").wait_over();
        let error = error.expect_err("waiting here could never end").to_string();
        if lets_tasks_wait {
            for name in ["'outer'", "'inner'"] {
                assert!(error.contains(name), "{name} is not named: {error}");
            }
        }
        assert!(error.contains("never end"), "{error}");
        Ok(())
    })
}

/// Has a task wait for what `dependant` makes of its event, which then ends as any.
fn waits_in_vain(outer: &Queue, dependant: impl FnOnce(&Event) -> Event) {
    let (slot, gate) = (Slot::default(), UserEvent::new());
    let task = is_refused(outer, &slot, &gate);
    let inner = dependant(&task);
    *slot.lock().unwrap() = Some(inner.clone());
    gate.complete();
    task.wait().unwrap();
    inner.wait().unwrap();
}

fn a_task_waits_for_its_dependant(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for outer in [stage.in_order(), stage.out_of_order()] {
        for inner in [stage.in_order(), stage.out_of_order()] {
            waits_in_vain(&outer, |task| {
                named(&inner, "inner", std::slice::from_ref(task), || Ok(()))
            });
        }
    }
}

fn a_task_waits_for_what_depends_on_it_from_afar(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let elsewhere = Stage::new(fixture);
    let last = stage.devices.len() - 1;
    let outer = stage.out_of_order();
    let queues = [
        stage.queue_on(last, OUT_OF_ORDER),
        elsewhere.out_of_order(),
        stage.in_order(),
    ];
    // Along a chain over devices and contexts.
    waits_in_vain(&outer, |task| {
        let mut event = task.clone();
        for _ in 0..5 {
            for queue in &queues {
                event = nothing(queue, &[], &[event]);
            }
        }
        named(&queues[1], "inner", &[event], || Ok(()))
    });
    // Through a barrier and a marker, which count by number.
    waits_in_vain(&outer, |_| {
        let barrier = outer.barrier(&[]).unwrap();
        let marker = outer.marker(&[]).unwrap();
        named(&queues[0], "inner", &[barrier, marker], || Ok(()))
    });
    // Through hazards, by a marker for many readers.
    let (memory, host) = (stage.memory(8), stage.in_order());
    waits_in_vain(&outer, |task| {
        put(&host, &memory, 1, from_ref(task));
        for _ in 0..100 {
            nothing(&queues[0], &[reads(&memory)], &[]);
        }
        let accesses = [updates(&memory)];
        let request = Request {
            accesses: &accesses,
            label: Some("inner"),
            ..Request::default()
        };
        host.host_task(|_| Ok(()), &request).unwrap()
    });
    // By a long list of waits, which is joined.
    waits_in_vain(&outer, |task| {
        let mut waits: Vec<Event> = (0..20).map(|_| nothing(&queues[0], &[], &[])).collect();
        waits.push(nothing(&queues[0], &[], from_ref(task)));
        named(&queues[2], "inner", &waits, || Ok(()))
    });
}

fn a_task_waits_for_what_an_earlier_task_of_its_thread_holds_up(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (outer, inner) = (stage.out_of_order(), stage.out_of_order());
    let (slot, gate) = (Slot::default(), UserEvent::new());
    let (again, deep) = (inner.clone(), slot.clone());
    let refused = Flag::new();
    let note = |flag: Flag| {
        move |waited: Result<()>| {
            if waited.is_err() {
                flag.set();
            }
            waited_or_refused(waited)
        }
    };
    let (note, note_too) = (note(refused.clone()), note(refused.clone()));
    let task = named(&outer, "outer", &[gate.event()], move || {
        // Whichever thread runs this one, the first waits for it.
        let nested = named(&again, "nested", &[], move || {
            let event = deep.lock().expect("not poisoned").take();
            note(event.expect("was put there").wait_over())
        });
        note_too(nested.wait())
    });
    let after = named(&inner, "inner", from_ref(&task), || Ok(()));
    *slot.lock().unwrap() = Some(after.clone());
    gate.complete();
    task.wait().unwrap();
    after.wait().unwrap();
    assert!(refused.is_set(), "one of them waits last");
}

fn a_command_of_a_graph_waits_for_the_launch(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let slot = Slot::default();
    let inside = slot.clone();
    let recording = Recording::new(&stage.context);
    let request = NodeRequest {
        label: Some("outer"),
        ..NodeRequest::default()
    };
    let task = move |_: &[RawArgument]| {
        let event = inside.lock().expect("not poisoned").take();
        assert_would_deadlock(event.expect("was put there").wait_over());
        Ok(())
    };
    recording.host_task(&queue, task, &request).unwrap();
    let graph = recording.finish().unwrap();
    for _ in 0..2 {
        // For the launch, and for what comes after it.
        for is_after in [false, true] {
            let gate = UserEvent::new();
            let launch = queue.launch_graph(&graph, &[gate.event()], None).unwrap();
            let after = nothing(&queue, &[], from_ref(&launch));
            let awaited = if is_after { &after } else { &launch };
            *slot.lock().unwrap() = Some(awaited.clone());
            gate.complete();
            launch.wait().unwrap();
            after.wait().unwrap();
        }
    }
}

fn a_blocking_enqueue_in_a_task_behind_the_task(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let outer = stage.out_of_order();
    let blocking = stage.queue(quipu_scheduler::QueueOptions {
        blocking: true,
        ..OUT_OF_ORDER
    });
    let (slot, gate) = (Slot::default(), UserEvent::new());
    let itself = slot.clone();
    let task = named(&outer, "outer", &[gate.event()], move || {
        let waits = [itself
            .lock()
            .expect("not poisoned")
            .take()
            .expect("was put there")];
        let request = Request {
            waits: &waits,
            ..Request::default()
        };
        assert_would_deadlock(blocking.host_task(|_| Ok(()), &request));
        Ok(())
    });
    *slot.lock().unwrap() = Some(task.clone());
    gate.complete();
    task.wait().unwrap();
}

fn tasks_wait_for_what_depends_on_each_other(fixture: &dyn Fixture) {
    const TASKS: usize = 3;
    let stage = Stage::new(fixture);
    let (outer, inner) = (stage.out_of_order(), stage.out_of_order());
    for _ in 0..20 {
        let gates: Vec<UserEvent> = (0..TASKS).map(|_| UserEvent::new()).collect();
        let slots: Vec<Slot> = (0..TASKS).map(|_| Slot::default()).collect();
        let refused = Arc::new(AtomicUsize::new(0));
        let lets_tasks_wait = Flag::new();
        let tasks: Vec<Event> = (0..TASKS)
            .map(|index| {
                let (slot, refused) = (slots[index].clone(), refused.clone());
                let lets = lets_tasks_wait.clone();
                named(&outer, "outer", &[gates[index].event()], move || {
                    let never = UserEvent::new();
                    if is_timed_out(&never.event().wait_timeout(Duration::ZERO)) {
                        lets.set();
                    }
                    let event = slot.lock().expect("not poisoned").take();
                    let waited = event.expect("was put there").wait_over();
                    if waited.is_err() {
                        refused.fetch_add(1, Ordering::SeqCst);
                    }
                    waited_or_refused(waited)
                })
            })
            .collect();
        // Each waits for what waits for the next.
        for (index, slot) in slots.iter().enumerate() {
            let next = &tasks[(index + 1) % TASKS];
            let after = named(&inner, "inner", from_ref(next), || Ok(()));
            *slot.lock().unwrap() = Some(after);
        }
        std::thread::scope(|scope| {
            for gate in gates {
                scope.spawn(move || gate.complete());
            }
        });
        for task in &tasks {
            task.wait().unwrap();
        }
        inner.wait().unwrap();
        let refused = refused.load(Ordering::SeqCst);
        if lets_tasks_wait.is_set() {
            assert!(
                refused <= 1,
                "the last to wait is refused, and nobody else: {refused}"
            );
        }
    }
}

fn a_task_waits_for_its_dependant_behind_many(fixture: &dyn Fixture) {
    // More than a wait looks at before it sleeps.
    const MANY: usize = 3_000;
    let stage = Stage::new(fixture);
    let (outer, queue) = (stage.out_of_order(), stage.out_of_order());
    waits_in_vain(&outer, |task| {
        let mut last = task.clone();
        for _ in 0..MANY {
            last = queue.marker(&[last, task.clone()]).unwrap();
        }
        named(&queue, "inner", &[last], || Ok(()))
    });
}

fn a_timed_wait_holds_nobody_for_good(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (outer, inner) = (stage.out_of_order(), stage.out_of_order());
    let (slots, gates) = (
        [(); 2].map(|()| Slot::default()),
        [(); 2].map(|()| UserEvent::new()),
    );
    let started = Flag::new();
    let (slot, inside, go) = (slots[0].clone(), started.clone(), Flag::new());
    let free = go.clone();
    // It waits for what waits for the other, for a limited time, again and again.
    let patient = named(&outer, "patient", &[gates[0].event()], move || {
        let event = slot
            .lock()
            .expect("not poisoned")
            .take()
            .expect("was put there");
        inside.set();
        let clock = Releasing(Flag::new());
        while !free.is_set() {
            match event.wait_with_clock(Duration::ZERO, &clock) {
                Err(error) if matches!(error.kind(), ErrorKind::TimedOut) => {}
                other => return waited_or_refused(other),
            }
        }
        Ok(())
    });
    let slot = slots[1].clone();
    let other = named(&outer, "other", &[gates[1].event()], move || {
        go.set();
        let event = slot
            .lock()
            .expect("not poisoned")
            .take()
            .expect("was put there");
        waited_or_refused(event.wait_over())
    });
    let after_other = named(&inner, "after other", from_ref(&other), || Ok(()));
    let after_patient = named(&inner, "after patient", from_ref(&patient), || Ok(()));
    *slots[0].lock().unwrap() = Some(after_other.clone());
    *slots[1].lock().unwrap() = Some(after_patient.clone());
    let [first, second] = gates;
    std::thread::scope(|scope| {
        scope.spawn(|| first.complete());
        started.wait();
        scope.spawn(|| second.complete());
    });
    for event in [patient, other, after_other, after_patient] {
        event.wait().unwrap();
    }
}
