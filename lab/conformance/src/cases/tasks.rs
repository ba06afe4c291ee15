//! Waiting and enqueuing from inside of kernels and host tasks: a wait helps, or
//! says that it could never end; it never hangs. Where several workers run commands, one
//! that is idle runs what is ready while other commands and callbacks go on, or block.

use super::cases;
use crate::Fixture;
use crate::support::*;
use quipu_scheduler::error::{ErrorKind, Returned};
use quipu_scheduler::event::wait_graph;
use quipu_scheduler::graph::NodeRequest;
use quipu_scheduler::memory::mapping::HostQueue;
use quipu_scheduler::{
    AccessMode, Clock, Event, Queue, QueueOptions, RawArgument, Recording, Request, Result,
    UserEvent,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

cases! {
    Anything:
        a_task_enqueues_and_waits,
        tasks_wait_inside_of_each_other,
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
        whether_a_task_may_wait_is_its_own_devices_to_say,
        what_an_end_makes_ready_waits_for_what_is_told_of_that_end,
        what_a_waiting_thread_makes_ready_waits_for_that_thread,
        a_clock_that_panics_in_a_task_leaves_nothing_behind,
        a_kernel_waits,
        every_worker_waits_at_once,
        a_task_waits_for_its_dependant_behind_many,
        a_wait_flushes_what_it_depends_on_in_other_contexts,
        a_wait_flushes_what_opens_a_gate_that_it_depends_on;
    Concurrency:
        a_timed_wait_holds_nobody_for_good,
        a_wait_flushes_what_comes_later,
        who_waits_for_whom_is_told;
    Workers:
        a_task_needs_what_it_enqueued,
        a_kernel_needs_what_it_enqueued,
        a_group_needs_what_it_enqueued,
        all_that_a_task_enqueues_runs_while_it_goes_on,
        a_task_needs_what_its_user_event_lets_go,
        commands_that_become_ready_together_need_each_other,
        what_is_run_first_needs_what_it_was_put_before,
        a_callback_needs_what_comes_after_its_event,
        a_waker_needs_what_comes_after_its_event,
        the_destructor_of_an_error_needs_what_comes_after_its_command,
        a_callback_needs_what_it_enqueued;
    CallerRuns:
        a_wait_behind_a_gate_lasts_until_another_thread_opens_it,
        a_blocking_enqueue_lasts_until_another_thread_opens_its_gate,
        a_task_waits_until_another_thread_opens_a_gate,
        a_task_runs_what_it_waits_for_and_nothing_else,
        a_task_runs_what_another_threads_task_waits_for,
        what_another_thread_runs_can_be_waited_for,
        what_a_waiting_task_has_left_is_needed_by_another_thread;
}

fn task(queue: &Queue, run: impl FnOnce() -> Result<()> + Send + 'static) -> Event {
    queue
        .host_task(move |_| run(), &Request::default())
        .unwrap()
}

fn a_task_enqueues_and_waits(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (outer, inner) = (stage.out_of_order(), stage.out_of_order());
    let memory = stage.memory(8);
    let bytes = memory.clone();
    let event = task(&outer, move || {
        let mut last = None;
        for n in 0..10 {
            let waits = last.as_slice();
            last = Some(fold(&inner, &bytes, n, waits));
            // A failure inside is the inner command's own.
            let failed = failing(&inner, &[], &[]);
            waited_or_refused(failed.wait_over())?;
        }
        waited_or_refused(last.expect("ten rounds").wait_over())?;
        waited_or_refused(inner.wait())
    });
    event.wait().unwrap();
    assert_eq!(read_number(&stage.in_order(), &memory), folded(0..10));
}

fn tasks_wait_inside_of_each_other(fixture: &dyn Fixture) {
    fn nest(queue: &Queue, depth: u32) -> Event {
        let again = queue.clone();
        task(queue, move || {
            if depth == 0 {
                return Ok(());
            }
            let (left, right) = (nest(&again, depth - 1), nest(&again, depth - 1));
            waited_or_refused(left.wait_over())?;
            waited_or_refused(right.wait_over())
        })
    }
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    nest(&queue, 6).wait().unwrap();
    queue.wait().unwrap();
}

/// Where a task finds its own event.
type Slot = Arc<Mutex<Option<Event>>>;

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

/// Another device's thread may have made the task ready, and must not wait itself.
fn whether_a_task_may_wait_is_its_own_devices_to_say(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queues: Vec<Queue> = (0..stage.devices.len())
        .map(|device| stage.queue_on(device, QueueOptions::default()))
        .collect();
    let may_wait_after = |queue: &Queue, other: &Queue| {
        let (gate, never) = (UserEvent::new(), UserEvent::new());
        let first = nothing(other, &[], &[gate.event()]);
        let (tell, told) = channel();
        let waited = never.event();
        let run = move || {
            let error = waited
                .wait_timeout(Duration::ZERO)
                .expect_err("is never over");
            tell.send(matches!(error.kind(), ErrorKind::TimedOut))
                .unwrap();
            Ok(())
        };
        let second = named(queue, "may wait", &[first], run);
        gate.complete();
        second.wait().unwrap();
        told.recv().unwrap()
    };
    for queue in &queues {
        let alone = may_wait_after(queue, queue);
        for other in &queues {
            assert_eq!(may_wait_after(queue, other), alone);
        }
    }
}

/// One command's end makes a task ready and is waited for by others, on the same devices or not. The task may be run by the
/// thread in which the command ends, and needs these.
fn what_an_end_makes_ready_waits_for_what_is_told_of_that_end(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queues: Vec<Queue> = (0..stage.devices.len())
        .map(|device| stage.queue_on(device, QueueOptions::default()))
        .collect();
    for (first, second) in queues
        .iter()
        .flat_map(|a| queues.iter().map(move |b| (a, b)))
    {
        for by_callback in [false, true] {
            let (gate, needed) = (UserEvent::new(), UserEvent::new());
            let over = nothing(first, &[], &[gate.event()]);
            let waited = needed.event();
            let run = move || waited_or_refused(waited.wait_over());
            let task = named(second, "needs others", from_ref(&over), run);
            let waiting = if by_callback {
                over.on_complete(move |_| needed.complete());
                None
            } else {
                Some(std::thread::spawn(move || {
                    over.wait_over().unwrap();
                    needed.complete();
                }))
            };
            gate.complete();
            task.wait().unwrap();
            waiting
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        }
    }
}

/// A thread that waits may do the work of what it waits for, and so make a task ready that needs what the thread does next.
fn what_a_waiting_thread_makes_ready_waits_for_that_thread(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queues: Vec<Queue> = (0..stage.devices.len())
        .map(|device| stage.queue_on(device, QueueOptions::default()))
        .collect();
    let memory = stage.memory(8);
    // Whoever opens a gate runs all of it on a device whose commands are run by the caller, and so must not be needed.
    let runs_by_itself = |at: &usize| !stage.devices[*at].properties().caller_runs;
    let firsts = (0..queues.len())
        .filter(runs_by_itself)
        .map(|at| &queues[at]);
    for (first, second) in firsts.flat_map(|a| queues.iter().map(move |b| (a, b))) {
        let (gate, needed) = (UserEvent::new(), UserEvent::new());
        let over = fold(first, &memory, 1, &[gate.event()]);
        let waited = needed.event();
        let run = move || waited_or_refused(waited.wait_over());
        let task = named(second, "needs the thread", from_ref(&over), run);
        gate.complete();
        over.wait().unwrap();
        needed.complete();
        task.wait().unwrap();
    }
}

fn a_clock_that_panics_in_a_task_leaves_nothing_behind(fixture: &dyn Fixture) {
    struct Broken(AtomicUsize);
    impl Clock for Broken {
        fn now(&self) -> Duration {
            // Where the wait looks at it again.
            if self.0.fetch_add(1, Ordering::Relaxed) > 0 {
                std::panic::resume_unwind(Box::new("a clock"));
            }
            Duration::ZERO
        }
    }
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let memory = stage.memory(8);
    for _ in 0..8 {
        let never = UserEvent::new();
        let waited = never.event();
        let run = move || {
            let clock = Broken(AtomicUsize::new(0));
            waited_or_refused(waited.wait_with_clock(Duration::from_secs(1), &clock))
        };
        // It fails by the panic, unless the wait was refused.
        let _ = task(&queue, run).wait_over();
    }
    for n in 0..100 {
        fold(&queue, &memory, n, &[]);
    }
    assert_eq!(read_number(&queue, &memory), folded(0..100));
}

fn the_destructor_of_an_error_needs_what_comes_after_its_command(fixture: &dyn Fixture) {
    #[derive(Debug)]
    struct Needs(Mutex<Receiver<()>>);
    impl std::fmt::Display for Needs {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an error that needs others")
        }
    }
    impl Drop for Needs {
        fn drop(&mut self) {
            // It blocks, as code does that knows nothing of events.
            let _ = self.0.get_mut().expect("not poisoned").recv();
        }
    }
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    for _ in 0..20 {
        let gate = UserEvent::new();
        let (tell, told) = channel();
        let error = ErrorKind::Returned {
            what: "a case",
            error: Returned::new(Needs(Mutex::new(told))),
        };
        drop(named(&queue, "fails", &[gate.event()], move || {
            Err(error.into())
        }));
        let next = named(&queue, "next", &[], move || {
            let _ = tell.send(());
            Ok(())
        });
        gate.complete();
        next.wait().unwrap();
    }
}

/// What a task that never runs owns is dropped before its end, so that it cannot wait for that.
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

fn a_kernel_waits(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (outer, inner) = (stage.out_of_order(), stage.out_of_order());
    let event = launch(&outer, &[], &[], move |_| {
        waited_or_refused(nothing(&inner, &[], &[]).wait())
    });
    event.wait().unwrap();
}

fn every_worker_waits_at_once(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (outer, inner) = (stage.out_of_order(), stage.out_of_order());
    let gate = UserEvent::new();
    let events: Vec<Event> = (0..64)
        .map(|_| {
            let inner = inner.clone();
            let waits = [gate.event()];
            let request = Request {
                waits: &waits,
                ..Request::default()
            };
            let task = outer.host_task(
                move |_| waited_or_refused(nothing(&inner, &[], &[]).wait()),
                &request,
            );
            task.unwrap()
        })
        .collect();
    gate.complete();
    for event in events {
        event.wait().unwrap();
    }
}

/// A host task with a label, behind some events.
fn named(
    queue: &Queue,
    label: &str,
    waits: &[Event],
    run: impl FnOnce() -> Result<()> + Send + 'static,
) -> Event {
    let request = Request {
        waits,
        label: Some(label),
        ..Request::default()
    };
    queue.host_task(move |_| run(), &request).unwrap()
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

fn is_timed_out(result: &Result<()>) -> bool {
    matches!(result, Err(error) if matches!(error.kind(), ErrorKind::TimedOut))
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

fn a_wait_flushes_what_it_depends_on_in_other_contexts(fixture: &dyn Fixture) {
    let stages = [(); 4].map(|()| Stage::new(fixture));
    for _ in 0..3 {
        let mut event = None;
        // From one to the next and back, by each device.
        for stage in stages.iter().chain(stages.iter().rev()) {
            for device in 0..stage.devices.len() {
                let queue = stage.queue_on(device, OUT_OF_ORDER);
                event = Some(nothing(&queue, &[], event.as_slice()));
            }
        }
        event.expect("there are devices").wait().unwrap();
    }
}

fn a_wait_flushes_what_opens_a_gate_that_it_depends_on(fixture: &dyn Fixture) {
    let (stage, elsewhere) = (Stage::new(fixture), Stage::new(fixture));
    let (queue, opens) = (stage.out_of_order(), elsewhere.out_of_order());
    for is_direct in [true, false] {
        let gate = UserEvent::new();
        let event = if is_direct {
            gate.event()
        } else {
            nothing(&queue, &[], &[gate.event()])
        };
        let gate = Mutex::new(Some(gate));
        launch(&opens, &[], &[], move |_| {
            let gate = gate.lock().expect("not poisoned").take();
            gate.expect("it runs once").complete();
            Ok(())
        });
        event.wait().unwrap();
    }
}

/// A task waits for a user event, which a command completes that is enqueued when the task has long been asleep. Nobody
/// flushes that command's queue, nor waits for it, but the task.
fn a_wait_flushes_what_comes_later(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (waits, opens) = (stage.out_of_order(), stage.out_of_order());
    let gate = UserEvent::new();
    let held = named(&stage.out_of_order(), "held back", &[gate.event()], || {
        Ok(())
    });
    let (sender, receiver) = channel();
    let task = named(&waits, "the one that waits", &[], move || {
        let waited = held.wait_over();
        sender.send(()).expect("the case listens");
        waited
    });
    waits.flush();
    until_a_thread_waits_for("held back");
    let last = stage.queue_on(stage.devices.len() - 1, OUT_OF_ORDER);
    let later = nothing(&last, &[], &[]);
    let gate = Mutex::new(Some(gate));
    launch(&opens, &[], &[later], move |_| {
        let gate = gate.lock().expect("not poisoned").take();
        gate.expect("it runs once").complete();
        Ok(())
    });
    hear(&receiver).unwrap();
    task.wait().unwrap();
}

/// Returns when a thread is seen to wait for what is called so.
fn until_a_thread_waits_for(name: &str) {
    let line = format!("for '{name}'");
    while !wait_graph().contains(&line) {
        std::thread::yield_now();
    }
}

fn who_waits_for_whom_is_told(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (outer, inner) = (stage.out_of_order(), stage.out_of_order());
    let gate = UserEvent::new();
    let held = named(&inner, "held up", &[gate.event()], || Ok(()));
    let after = named(&inner, "told of", from_ref(&held), || Ok(()));
    let refused = Flag::new();
    let flag = refused.clone();
    let task = named(&outer, "the one that waits", &[], move || {
        let waited = after.wait_over();
        if waited.is_err() {
            flag.set();
        }
        waited_or_refused(waited)
    });
    outer.flush();
    let told = loop {
        let graph = wait_graph();
        if refused.is_set() || graph.contains("inside of 'the one that waits'") {
            break graph;
        }
        std::thread::yield_now();
    };
    gate.complete();
    task.wait().unwrap();
    if !refused.is_set() {
        for part in [
            "for 'told of' (host task, queue ",
            "1 wait is unresolved",
            "which waits for 'held up'",
            "which waits for a user event made at ",
            file!(),
        ] {
            assert!(told.contains(part), "'{part}' is not in: {told}");
        }
    }
}

fn a_wait_behind_a_gate_lasts_until_another_thread_opens_it(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    type Wait = fn(&Event, &Queue) -> Result<()>;
    let waits: [Wait; 4] = [
        |event, _| event.wait(),
        |event, _| event.wait_over(),
        |_, queue| queue.wait(),
        |event, _| Event::wait_for_first(&[event], None),
    ];
    for (index, wait) in waits.into_iter().enumerate() {
        let gate = UserEvent::new();
        let event = named(&queue, "behind", &[gate.event()], || Ok(()));
        let name = if index == 2 { None } else { Some("behind") };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                match name {
                    Some(name) => until_a_thread_waits_for(name),
                    None => {
                        while !wait_graph().contains("up to its command") {
                            std::thread::yield_now();
                        }
                    }
                }
                gate.complete();
            });
            wait(&event, &queue).unwrap();
        });
        assert!(event.is_complete());
    }
    // Not for longer than it is to.
    let gate = UserEvent::new();
    let event = nothing(&queue, &[], &[gate.event()]);
    assert!(is_timed_out(&event.wait_timeout(Duration::from_millis(1))));
    gate.complete();
    event.wait().unwrap();
}

fn a_blocking_enqueue_lasts_until_another_thread_opens_its_gate(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let blocking = stage.queue(quipu_scheduler::QueueOptions {
        blocking: true,
        ..Default::default()
    });
    let gate = UserEvent::new();
    let event = gate.event();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            until_a_thread_waits_for("behind");
            gate.complete();
        });
        let event = named(&blocking, "behind", &[event], || Ok(()));
        assert!(event.is_complete());
    });
}

fn a_task_waits_until_another_thread_opens_a_gate(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (queue, other) = (stage.in_order(), stage.in_order());
    for of_host in [false, true] {
        let gate = UserEvent::new();
        let held = named(&other, "held up", &[gate.event()], || Ok(()));
        let awaited = if of_host { gate.event() } else { held.clone() };
        let line = if of_host {
            "for a user event made at"
        } else {
            "for 'held up'"
        };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while !wait_graph().contains(line) {
                    std::thread::yield_now();
                }
                gate.complete();
            });
            // It runs as it is enqueued, or as it is waited for.
            let task = named(&queue, "waits", &[], move || {
                waited_or_refused(awaited.wait())
            });
            task.wait().unwrap();
        });
        held.wait().unwrap();
    }
}

fn a_task_runs_what_it_waits_for_and_nothing_else(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (outer, inner) = (stage.out_of_order(), stage.out_of_order());
    let log: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let note = |what: &'static str| {
        let log = log.clone();
        move || {
            log.lock().expect("not poisoned").push(what);
            Ok(())
        }
    };
    let (other, first, second, end) = (note("other"), note("first"), note("second"), note("end"));
    let refused = Flag::new();
    let flag = refused.clone();
    let task = task(&outer, move || {
        named(&inner, "other", &[], other);
        let needed = named(&inner, "first", &[], first);
        let last = named(&inner, "second", &[needed], second);
        if last.wait().is_err() {
            flag.set();
        }
        end()
    });
    task.wait().unwrap();
    stage.out_of_order().wait().unwrap();
    assert!(!refused.is_set(), "it has at hand what it waits for");
    let log = log.lock().unwrap();
    assert_eq!(*log, ["first", "second", "end", "other"]);
}

fn a_task_runs_what_another_threads_task_waits_for(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (queue, side) = (stage.out_of_order(), stage.out_of_order());
    let (gate, slot) = (UserEvent::new(), Slot::default());
    // The first task has this one at hand, which the second waits for; and waits for the second itself.
    let awaited = slot.clone();
    let second = named(&queue, "second", &[gate.event()], move || {
        let mut event = None;
        while event.is_none() {
            event = awaited.lock().expect("not poisoned").take();
            std::thread::yield_now();
        }
        event.expect("just seen").wait()
    });
    let end = second.clone();
    let first = move || {
        let at_hand = named(&side, "at hand", &[], || Ok(()));
        *slot.lock().expect("not poisoned") = Some(at_hand);
        end.wait()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| gate.complete());
        let first = named(&queue, "first", &[], first);
        first.wait().unwrap();
    });
    second.wait().unwrap();
}

/// Lets a command go on when the waiting thread has nothing else to do.
struct Releasing(Flag);

impl Clock for Releasing {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn park(&self, _: Duration) {
        self.0.set();
        std::thread::yield_now();
    }
}

fn what_another_thread_runs_can_be_waited_for(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let gate = UserEvent::new();
    let (started, release) = (Flag::new(), Flag::new());
    let (inside, hold) = (started.clone(), release.clone());
    let event = launch(&queue, &[], &[gate.event()], move |_| {
        inside.set();
        hold.wait();
        Ok(())
    });
    std::thread::scope(|scope| {
        scope.spawn(|| gate.complete());
        started.wait();
        // The other thread is inside of the command: waiting for it makes sense.
        let result = event.wait_with_clock(Duration::from_secs(1), &Releasing(release.clone()));
        release.set();
        result.unwrap();
    });
}

/// As long as a command may take to run that nothing keeps from it.
const LONG_ENOUGH: Duration = Duration::from_secs(60);

/// Blocks until something is sent, as a command, which the core knows nothing of.
fn hear(from: &Receiver<()>) -> Result<()> {
    from.recv_timeout(LONG_ENOUGH)
        .map_err(|_| boom("what it needs is ready and does not run"))
}

/// A task that says that it runs.
fn telling(queue: &Queue, waits: &[Event], tell: &Sender<()>) -> Event {
    let tell = tell.clone();
    after(queue, waits, move || {
        let _ = tell.send(());
        Ok(())
    })
}

fn after(
    queue: &Queue,
    waits: &[Event],
    run: impl FnOnce() -> Result<()> + Send + 'static,
) -> Event {
    let request = Request {
        waits,
        ..Request::default()
    };
    queue.host_task(move |_| run(), &request).unwrap()
}

/// Hundreds of times: others look for work, or sleep.
fn again_and_again(mut round: impl FnMut()) {
    for _ in 0..200 {
        round();
    }
}

fn a_task_needs_what_it_enqueued(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (outer, inner) = (stage.in_order(), stage.in_order());
    again_and_again(|| {
        let inner = inner.clone();
        let event = task(&outer, move || {
            let (tell, told) = channel();
            drop(telling(&inner, &[], &tell));
            inner.flush();
            hear(&told)
        });
        event.wait().unwrap();
    });
}

fn a_kernel_needs_what_it_enqueued(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (outer, inner) = (stage.out_of_order(), stage.out_of_order());
    again_and_again(|| {
        let inner = inner.clone();
        let event = launch(&outer, &[], &[], move |_| {
            let (tell, told) = channel();
            drop(telling(&inner, &[], &tell));
            inner.flush();
            hear(&told)
        });
        event.wait().unwrap();
    });
}

fn a_group_needs_what_it_enqueued(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (outer, inner) = (stage.out_of_order(), stage.out_of_order());
    again_and_again(|| {
        let inner = inner.clone();
        let kernel = Kernel(
            move |_: &[quipu_scheduler::RawArgument], groups: std::ops::Range<u32>| {
                if !groups.contains(&5) {
                    return Ok(());
                }
                let (tell, told) = channel();
                drop(telling(&inner, &[], &tell));
                inner.flush();
                hear(&told)
            },
        );
        let event = launch_native(&outer, kernel, 8, &Request::default()).unwrap();
        event.wait().unwrap();
    });
}

fn all_that_a_task_enqueues_runs_while_it_goes_on(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let outer = stage.in_order();
    let queues: Vec<Queue> = (0..20).map(|_| stage.in_order()).collect();
    let event = task(&outer, move || {
        let (tell, told) = channel();
        for queue in &queues {
            drop(telling(queue, &[], &tell));
            queue.flush();
        }
        queues.iter().try_for_each(|_| hear(&told))
    });
    event.wait().unwrap();
}

fn a_task_needs_what_its_user_event_lets_go(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (outer, inner) = (stage.in_order(), stage.out_of_order());
    again_and_again(|| {
        let (gate, (tell, told)) = (UserEvent::new(), channel());
        let let_go: Vec<Event> = (0..3)
            .map(|_| telling(&inner, &[gate.event()], &tell))
            .collect();
        inner.flush();
        let event = task(&outer, move || {
            gate.complete();
            (0..3).try_for_each(|_| hear(&told))
        });
        event.wait().unwrap();
        for event in let_go {
            event.wait().unwrap();
        }
    });
}

/// Each of two tasks blocks until the other runs.
fn commands_that_become_ready_together_need_each_other(fixture: &dyn Fixture) {
    fn pair(queue: &Queue, first: &Event) -> [Event; 2] {
        let ((one, hears_one), (other, hears_other)) = (channel(), channel());
        let meet = |tell: Sender<()>, told: Receiver<()>| {
            after(queue, std::slice::from_ref(first), move || {
                let _ = tell.send(());
                hear(&told)
            })
        };
        [meet(one, hears_other), meet(other, hears_one)]
    }
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    again_and_again(|| {
        let gate = UserEvent::new();
        let first = after(&queue, &[gate.event()], || Ok(()));
        let both = pair(&queue, &first);
        queue.flush();
        gate.complete();
        for event in both {
            event.wait().unwrap();
        }
    });
}

/// A command of high priority is taken before the one that its worker would have run next, and blocks until that has run.
fn what_is_run_first_needs_what_it_was_put_before(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let urgent = stage.queue(quipu_scheduler::QueueOptions {
        priority: quipu_scheduler::Priority::High,
        ..OUT_OF_ORDER
    });
    for _ in 0..20 {
        // As many as run at once are busy.
        let busy = |until: &Flag| {
            let (begun, until) = (Flag::new(), until.clone());
            let begins = begun.clone();
            let event = after(&queue, &[], move || {
                begins.set();
                until.wait();
                Ok(())
            });
            queue.flush();
            begun.wait();
            event
        };
        let (first_ends, others_end) = (Flag::new(), Flag::new());
        let first = busy(&first_ends);
        let count = stage.devices[0].properties().concurrent_commands.min(4);
        let others: Vec<Event> = (1..count).map(|_| busy(&others_end)).collect();
        let (tell, told) = channel();
        let next = telling(&queue, std::slice::from_ref(&first), &tell);
        let begun = Flag::new();
        let begins = begun.clone();
        let before = after(&urgent, &[], move || {
            begins.set();
            hear(&told)
        });
        queue.flush();
        urgent.flush();
        first_ends.set();
        begun.wait();
        others_end.set();
        for event in [before, next, first].into_iter().chain(others) {
            event.wait().unwrap();
        }
    }
}

/// Has a callback or waker of an event block until what waits for that event runs: twice, as one is run next.
fn needs_what_comes_after(
    fixture: &dyn Fixture,
    observe: impl Fn(&Event, Box<dyn FnOnce() + Send>),
) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    again_and_again(|| {
        let (gate, (tell, told)) = (UserEvent::new(), channel());
        let first = after(&queue, &[gate.event()], || Ok(()));
        let (heard, hears) = channel();
        observe(
            &first,
            Box::new(move || {
                let _ = heard.send((0..2).try_for_each(|_| hear(&told)));
            }),
        );
        let next = [(); 2].map(|()| telling(&queue, std::slice::from_ref(&first), &tell));
        queue.flush();
        // So that one of the device's threads ends the first, and not this one.
        let opens = task(&queue, move || {
            gate.complete();
            Ok(())
        });
        queue.flush();
        hears.recv().unwrap().unwrap();
        for event in next.into_iter().chain([first, opens]) {
            event.wait().unwrap();
        }
    });
}

fn a_callback_needs_what_comes_after_its_event(fixture: &dyn Fixture) {
    needs_what_comes_after(fixture, |event, call| event.on_complete(move |_| call()));
}

/// A waker that calls.
struct Calling(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Wake for Calling {
    fn wake(self: Arc<Self>) {
        let call = self.0.lock().expect("not poisoned").take();
        if let Some(call) = call {
            call();
        }
    }
}

fn a_waker_needs_what_comes_after_its_event(fixture: &dyn Fixture) {
    needs_what_comes_after(fixture, |event, call| {
        let waker = Waker::from(Arc::new(Calling(Mutex::new(Some(call)))));
        // It is not dropped before the event is over, or the waker would be forgotten.
        let mut future = Box::pin(event.clone());
        let polled = std::pin::Pin::as_mut(&mut future).poll(&mut Context::from_waker(&waker));
        assert!(matches!(polled, Poll::Pending), "it waits for a gate");
        event.on_complete(move |_| drop(future));
    });
}

fn a_callback_needs_what_it_enqueued(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    again_and_again(|| {
        let (gate, again) = (UserEvent::new(), queue.clone());
        let first = after(&queue, &[gate.event()], || Ok(()));
        let (heard, hears) = channel();
        first.on_complete(move |_| {
            let (tell, told) = channel();
            drop(telling(&again, &[], &tell));
            again.flush();
            let _ = heard.send(hear(&told));
        });
        let opens = task(&queue, move || {
            gate.complete();
            Ok(())
        });
        queue.flush();
        hears.recv().unwrap().unwrap();
        for event in [first, opens] {
            event.wait().unwrap();
        }
    });
}

fn what_a_waiting_task_has_left_is_needed_by_another_thread(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let (gate, needed) = (UserEvent::new(), UserEvent::new());
    let waited = needed.event();
    let first = named(&queue, "first", &[gate.event()], move || waited.wait());
    let second = named(&queue, "second", &[gate.event()], || Ok(()));
    let thread = std::thread::spawn(move || {
        second.wait_over().unwrap();
        needed.complete();
    });
    // Runs the first, which has the second left.
    gate.complete();
    first.wait().unwrap();
    thread.join().unwrap();
}
