//! Progress: ready commands run beside a command, a callback or a destructor that blocks.

use super::{hear, named, task};
use crate::Fixture;
use crate::cases::cases;
use crate::support::*;
use quipu_scheduler::error::{ErrorKind, Returned};
use quipu_scheduler::{Event, Queue, Request, Result, UserEvent};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

cases! {
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

/// A command of high priority is taken before the one that its worker would have run next, and
/// blocks until that has run.
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

/// Has a callback or waker of an event block until what waits for that event runs: twice, as one is
/// run next.
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
