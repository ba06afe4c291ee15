//! Futures: without an executor and under one's own.

use super::{context, each_queue, pool};
use quipu::diagnostics::wait_graph;
use quipu::prelude::*;
use quipu::{ErrorKind, Phase, WhenAny};
use quipu_conformance::Watchdog;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context as Polling, Poll, Wake, Waker};
use std::time::Duration;

/// Nothing here takes longer, on any machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A waker that counts, and whose references can be counted.
struct Counter(AtomicU32);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A waker that says that it was called, and does not return before it may.
struct Slow(Sender<()>, Mutex<Receiver<()>>);

impl Wake for Slow {
    fn wake(self: Arc<Self>) {
        self.0.send(()).unwrap();
        self.1.lock().unwrap().recv().unwrap();
    }
}

fn counter() -> (Arc<Counter>, Waker) {
    let counter = Arc::new(Counter(AtomicU32::new(0)));
    (counter.clone(), Waker::from(counter))
}

/// References to a waker besides the test's two.
fn held(counter: &Arc<Counter>) -> usize {
    Arc::strong_count(counter) - 2
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    pin!(future).poll(&mut Polling::from_waker(waker))
}

/// Waits for what another thread is about to do: whoever ends a command tells the
/// one after the other who waits for it.
fn eventually(what: impl Fn() -> bool) {
    for _ in 0..100_000_000u64 {
        if what() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("it never happens");
}

/// Polls what is over, or about to be.
fn poll_until_ready<F: Future + Unpin>(future: &mut F, waker: &Waker) -> F::Output {
    loop {
        match poll(future, waker) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_future_can_be_waited_for_with_a_timeout_polled_and_called_back() {
    each_queue(|_, queue| {
        let gate = UserEvent::new();
        let later = queue.after([gate.event()]);
        let mut task = later.host_task(|| 5).unwrap();
        assert!(!task.is_complete());
        let error = task.wait_timeout(Duration::ZERO).unwrap_err();
        assert!(
            matches!(
                error.kind(),
                ErrorKind::TimedOut | ErrorKind::WouldDeadlock { .. }
            ),
            "{error}"
        );
        let (sender, receiver) = channel();
        let called = later.host_task(|| 6).unwrap();
        called.on_complete(move |result| sender.send(result.unwrap()).unwrap());
        gate.complete();
        assert_eq!(task.wait_timeout(Duration::MAX).unwrap(), 5);
        assert!(
            task.wait_timeout(Duration::MAX).is_err(),
            "a value is given once"
        );
        assert_eq!(receiver.recv().unwrap(), 6);
        // A callback on what is over is called at once.
        let (sender, receiver) = channel();
        let over = queue.host_task(|| 7).unwrap();
        queue.wait().unwrap();
        over.on_complete(move |result| sender.send(result.unwrap()).unwrap());
        assert_eq!(receiver.recv().unwrap(), 7);
    });
}

#[test]
fn a_poll_that_is_repeated_replaces_the_waker() {
    each_queue(|_, queue| {
        let gate = UserEvent::new();
        let mut task = queue.after([gate.event()]).host_task(|| 5).unwrap();
        let ((old, old_waker), (new, new_waker)) = (counter(), counter());
        assert!(poll(&mut task, &old_waker).is_pending());
        assert_eq!(held(&old), 1);
        assert!(poll(&mut task, &new_waker).is_pending());
        assert!(poll(&mut task, &new_waker).is_pending());
        assert_eq!((held(&old), held(&new)), (0, 1));
        gate.complete();
        assert_eq!(poll_until_ready(&mut task, &new_waker).unwrap(), 5);
        eventually(|| new.0.load(Ordering::SeqCst) == 1 && held(&new) == 0);
        assert_eq!((old.0.load(Ordering::SeqCst), held(&old)), (0, 0));
    });
}

#[test]
fn what_has_been_waited_for_is_ready_though_its_waker_is_not_called_yet() {
    each_queue(|_, queue| {
        let gate = UserEvent::new();
        let mut task = queue.after([gate.event()]).host_task(|| 5).unwrap();
        let mut event = task.event().clone();
        // Observers are told in order: this one keeps the others waiting.
        let (entered, has_entered) = channel();
        let (leave, may_leave) = channel::<()>();
        let mut first = event.clone();
        let slow = Waker::from(Arc::new(Slow(entered, Mutex::new(may_leave))));
        assert!(poll(&mut first, &slow).is_pending());
        let ((count, waker), mut all) = (counter(), when_all([event.clone()]));
        assert!(poll(&mut event, &waker).is_pending());
        assert!(poll(&mut task, &waker).is_pending());
        assert!(poll(&mut all, &waker).is_pending());
        let opening = std::thread::spawn(move || gate.complete());
        has_entered.recv().unwrap();
        event.wait().unwrap();
        assert!(poll(&mut event, &waker).is_ready());
        assert!(matches!(poll(&mut task, &waker), Poll::Ready(Ok(5))));
        assert!(all.wait().is_ok(), "all of them are over");
        assert_eq!(count.0.load(Ordering::SeqCst), 0, "nobody was told yet");
        leave.send(()).unwrap();
        opening.join().unwrap();
        eventually(|| held(&count) == 0);
    });
}

#[test]
fn a_future_that_is_dropped_takes_its_waker_and_leaves_its_command() {
    each_queue(|context, queue| {
        let gate = UserEvent::new();
        let mut buffer = context.allocate::<u32>(4).unwrap();
        let later = queue.after([gate.event()]);
        let mut event = later.for_each(&mut buffer, (), |_, x, ()| *x = 3).unwrap();
        let (count, waker) = counter();
        assert!(poll(&mut event, &waker).is_pending());
        drop(event);
        assert_eq!(held(&count), 0);
        gate.complete();
        assert_eq!(queue.read(&buffer).unwrap().wait().unwrap(), [3; 4]);
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn cancel_cancels_and_drop_does_not() {
    each_queue(|context, queue| {
        let gate = UserEvent::new();
        let later = queue.after([gate.event()]);
        let ran = Arc::new(AtomicU32::new(0));
        let task = || {
            let ran = ran.clone();
            later
                .host_task(move || ran.fetch_add(1, Ordering::SeqCst))
                .unwrap()
        };
        drop(task());
        let cancelled = task();
        cancelled.cancel();
        let mut buffer = context.buffer(&[1u32]).unwrap();
        let write = later
            .named("write two")
            .for_each(&mut buffer, (), |_, x, ()| *x = 2)
            .unwrap();
        write.cancel();
        let read = queue.read(&buffer).unwrap();
        gate.complete();
        let error = cancelled.wait().unwrap_err();
        assert!(error.is_cancelled(), "{error}");
        let which = format!("'host task' on '{}'", queue.device().name());
        assert!(error.to_string().contains(&which), "{error}");
        assert!(write.wait().unwrap_err().is_cancelled());
        assert_eq!(write.phase(), Phase::Failed);
        let error = read.wait().unwrap_err();
        assert!(
            !error.is_cancelled() && error.first_cause().is_cancelled(),
            "{error}"
        );
        // It says which command, of which device.
        let which = format!("'write two' on '{}'", queue.device().name());
        assert!(error.to_string().contains(&which), "{error}");
        queue.wait().unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), 1);
        // Too late is harmless.
        let over = queue.host_task(|| 1).unwrap();
        queue.wait().unwrap();
        over.cancel();
        assert_eq!(over.wait().unwrap(), 1);
    });
}

#[test]
fn when_all_gives_every_value_or_the_first_error_after_all_are_over() {
    each_queue(|_, queue| {
        let tasks = (0..10).map(|i| queue.host_task(move || i).unwrap());
        let tasks: Vec<_> = tasks.collect();
        assert_eq!(when_all(tasks).wait().unwrap(), (0..10).collect::<Vec<_>>());
        let (gate, bad) = (UserEvent::new(), UserEvent::new());
        let tasks = vec![
            queue.after([bad.event()]).host_task(|| 1).unwrap(),
            queue.after([gate.event()]).host_task(|| 2).unwrap(),
        ];
        let mut all = when_all(tasks);
        let (count, waker) = counter();
        assert!(poll(&mut all, &waker).is_pending());
        bad.fail("bad");
        assert!(
            poll(&mut all, &waker).is_pending(),
            "one of them is not over"
        );
        assert!(!all.is_complete());
        gate.complete();
        let error = poll_until_ready(&mut all, &waker).unwrap_err();
        assert!(error.first_cause().to_string().contains("bad"));
        eventually(|| held(&count) == 0);
        assert!(when_all(Vec::<Event>::new()).wait().unwrap().is_empty());
    });
}

#[test]
fn when_any_gives_the_first_and_unlinks_the_others() {
    let (context, queue) = pool();
    let options = QueueOptions {
        in_order: false,
        ..QueueOptions::default()
    };
    let free = context.queue_with(&context.fastest(), options).unwrap();
    let gates: Vec<_> = (0..5).map(|_| UserEvent::new()).collect();
    let tasks = |queue: &Queue| -> Vec<_> {
        let after = |(i, gate): (usize, &UserEvent)| {
            queue.after([gate.event()]).host_task(move || i).unwrap()
        };
        gates.iter().enumerate().map(after).collect()
    };
    let mut any = when_any(tasks(&free)).unwrap();
    let mut dropped = when_any(tasks(&free)).unwrap();
    let mut in_order = when_any(tasks(&queue)).unwrap();
    let (count, waker) = counter();
    assert!(poll(&mut any, &waker).is_pending());
    assert_eq!(held(&count), 5);
    assert!(poll(&mut dropped, &waker).is_pending());
    assert!(poll(&mut in_order, &waker).is_pending());
    assert_eq!(held(&count), 15);
    drop(dropped);
    drop(in_order);
    assert_eq!(held(&count), 5);

    let mut gates = gates;
    gates.remove(3).complete();
    let first = any.wait().unwrap();
    assert_eq!(
        (first.index, first.result.unwrap(), first.rest.len()),
        (3, 3, 4)
    );
    // The losers hold no waker; the winner's is used up.
    eventually(|| held(&count) == 0);
    gates.into_iter().for_each(UserEvent::complete);
    let rest = when_all(first.rest).wait().unwrap();
    assert_eq!(rest, [0, 1, 2, 4]);
}

#[test]
fn when_any_can_be_polled_and_waits_without_an_executor() {
    each_queue(|_, queue| {
        let gate = UserEvent::new();
        let never = queue.after([gate.event()]).marker().unwrap();
        let over = UserEvent::new();
        let event = over.event();
        over.complete();
        let first = when_any([never.clone(), event]).unwrap().wait().unwrap();
        assert_eq!(first.index, 1);
        let (count, waker) = counter();
        let mut any = when_any([never]).unwrap();
        assert!(poll(&mut any, &waker).is_pending());
        gate.complete();
        assert!(poll_until_ready(&mut any, &waker).unwrap().result.is_ok());
        eventually(|| held(&count) == 0);
    });
    assert!(when_any(Vec::<Event>::new()).is_err());
}

#[test]
fn a_thread_that_waits_for_any_is_woken_by_each() {
    let (_, queue) = pool();
    let options = QueueOptions {
        in_order: false,
        ..QueueOptions::default()
    };
    let queue = queue.context().queue_with(queue.device(), options).unwrap();
    for winner in 0..3 {
        let mut gates: Vec<_> = (0..3).map(|_| UserEvent::new()).collect();
        let events: Vec<_> = gates.iter().map(UserEvent::event).collect();
        let tasks: Vec<_> = events
            .into_iter()
            .map(|e| queue.after([e]).marker().unwrap())
            .collect();
        let gate = gates.remove(winner);
        let waiting = std::thread::spawn(move || when_any(tasks).unwrap().wait().unwrap().index);
        gate.complete();
        assert_eq!(waiting.join().unwrap(), winner);
    }
}

#[test]
fn waiting_for_any_on_the_serial_device_lasts_until_another_thread_completes_one() {
    let _watchdog = Watchdog::start(PATIENCE, "a wait on the serial device".to_owned());
    let platform = Platform::new().unwrap();
    let context = platform.device("serial").unwrap().context().unwrap();
    let (gate, never) = (UserEvent::new(), UserEvent::new());
    // On queues of their own: host tasks of one in-order queue come one after the other.
    let later = |gate: &UserEvent| {
        let queue = context.queue(&context.fastest()).unwrap();
        queue.named("any").after([gate.event()]).host_task(|| 1)
    };
    let any = when_any([later(&never).unwrap(), later(&gate).unwrap()]).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !wait_graph().contains("for 'any'") {
                std::thread::yield_now();
            }
            gate.complete();
        });
        assert_eq!(any.wait().unwrap().index, 1);
    });
}

#[test]
fn a_callback_that_waits_for_any_has_others_of_its_thread_called() {
    let _watchdog = Watchdog::start(PATIENCE, "callbacks that wait for any".to_owned());
    let (gate, second) = (UserEvent::new(), UserEvent::new());
    let (sender, receiver) = channel();
    let awaited = [UserEvent::new(), UserEvent::new()];
    let any = when_any([awaited[0].event(), second.event()]).unwrap();
    gate.event().on_complete(move |_| {
        sender.send(any.wait().map(|first| first.index)).unwrap();
    });
    gate.event().on_complete(move |_| second.complete());
    gate.complete();
    assert_eq!(receiver.recv().unwrap().unwrap(), 1);
}

#[test]
fn a_task_may_wait_for_any_of_which_one_comes_after_it() {
    let _watchdog = Watchdog::start(PATIENCE, "a task that waits for any".to_owned());
    let (context, queue) = pool();
    let other = context.queue(&context.fastest()).unwrap();
    let gate = UserEvent::new();
    let (events, to_wait_for) = channel::<Vec<Event>>();
    let (waits, is_waiting) = channel();
    let task = queue
        .host_task(move || {
            let events = to_wait_for.recv().unwrap();
            waits.send(()).unwrap();
            when_any(events).unwrap().wait().map(|first| first.index)
        })
        .unwrap();
    let after = queue.marker().unwrap();
    let free = other.after([gate.event()]).marker().unwrap();
    events.send(vec![after.clone(), free]).unwrap();
    is_waiting.recv().unwrap();
    gate.complete();
    assert_eq!(task.wait().unwrap().unwrap(), 1);

    // Of which all come after it: that never ends.
    let (events, to_wait_for) = channel::<Vec<Event>>();
    let task = queue
        .host_task(move || when_any(to_wait_for.recv().unwrap()).unwrap().wait().err())
        .unwrap();
    let after = [queue.marker().unwrap(), queue.marker().unwrap()];
    events.send(after.to_vec()).unwrap();
    let error = task.wait().unwrap().unwrap();
    assert!(
        matches!(error.kind(), ErrorKind::WouldDeadlock { .. }),
        "{error}"
    );
}

#[test]
fn a_mapping_is_a_future_too() {
    each_queue(|context, queue| {
        let gate = UserEvent::new();
        let buffer = context.allocate::<u8>(4).unwrap();
        queue.after([gate.event()]).fill(&buffer, 3).unwrap();
        let mut mapping = queue.map(&buffer).unwrap();
        let (count, waker) = counter();
        assert!(poll(&mut mapping, &waker).is_pending());
        assert_eq!(held(&count), 1);
        gate.complete();
        let mapped = poll_until_ready(&mut mapping, &waker).unwrap();
        assert_eq!(mapped[..], [3; 4]);
        eventually(|| held(&count) == 0);
    });
}

#[test]
fn a_future_outlives_its_queue_its_buffer_and_its_context() {
    let read = {
        let context = context();
        let queue = context.queue(&context.fastest()).unwrap();
        let buffer = context.buffer(&[1u32, 2, 3]).unwrap();
        queue.read(&buffer).unwrap()
    };
    assert_eq!(read.wait().unwrap(), [1, 2, 3]);
}

#[test]
fn callbacks_may_enqueue_and_their_panics_stay() {
    let (_, queue) = pool();
    let (sender, receiver) = channel();
    let next = queue.clone();
    queue.host_task(|| 1).unwrap().on_complete(move |one| {
        let one = one.unwrap();
        let task = next.host_task(move || one + 1).unwrap();
        task.on_complete(move |two| sender.send(two.unwrap()).unwrap());
    });
    assert_eq!(receiver.recv().unwrap(), 2);
    let task = queue.host_task(|| 1).unwrap();
    let event = task.event().clone();
    task.on_complete(|_| panic!("on purpose"));
    event.wait().unwrap();
    assert_eq!(queue.host_task(|| 3).unwrap().wait().unwrap(), 3);
}

/// As many calls inside of each other would fit on no stack.
const STEPS: usize = 1_000_000;

/// Has a function called once something is over that is over already.
type Ask = fn(Box<dyn FnOnce() + Send>);

/// Asks for a callback, and has it ask for the next one, so often; says when that is done.
fn step(ask: Ask, left: usize, done: Sender<()>) {
    if left == 0 {
        return done.send(()).unwrap();
    }
    ask(Box::new(move || step(ask, left - 1, done)));
}

/// An event that is over.
fn over() -> Event {
    let event = UserEvent::new();
    let over = event.event();
    event.complete();
    over
}

/// One whose first was given.
fn given() -> WhenAny<Event> {
    let mut any = when_any([over()]).unwrap();
    assert!(poll(&mut any, Waker::noop()).is_ready());
    any
}

#[test]
fn callbacks_of_what_is_over_do_not_nest_without_bound() {
    let asks: [Ask; 6] = [
        |call| over().on_complete(|_| call()),
        |call| when_all([over()]).on_complete(|_| call()),
        |call| when_all((over(), over())).on_complete(|_| call()),
        |call| when_all(Vec::<Event>::new()).on_complete(|_| call()),
        |call| when_any([over()]).unwrap().on_complete(|_| call()),
        |call| given().on_complete(|_| call()),
    ];
    for ask in asks {
        let (tell, told) = channel();
        let thread = std::thread::Builder::new().stack_size(1 << 18);
        let steps = thread.spawn(move || step(ask, STEPS, tell)).unwrap();
        steps.join().unwrap();
        told.recv_timeout(PATIENCE).unwrap();
    }
}

#[test]
fn a_panic_in_a_callback_of_what_is_over_stays() {
    when_all([over()]).on_complete(|_| panic!("all"));
    when_all(Vec::<Event>::new()).on_complete(|_| panic!("none"));
    when_any([over()]).unwrap().on_complete(|_| panic!("any"));
    given().on_complete(|_| panic!("given"));
}

#[test]
fn what_a_read_allocates_goes_with_its_future() {
    struct Kept(Vec<u8>, #[expect(dead_code, reason = "counts")] Arc<()>);
    impl HostView for Kept {
        type Element = u8;
        fn elements(&self) -> &[u8] {
            &self.0
        }
        fn elements_mut(&mut self) -> &mut [u8] {
            &mut self.0
        }
    }
    let (context, queue) = pool();
    let buffer = context.allocate::<u8>(4).unwrap();
    let token = Arc::new(());
    let weak: Weak<()> = Arc::downgrade(&token);
    let read = queue.read_to(&buffer, Kept(vec![0; 4], token)).unwrap();
    queue.wait().unwrap();
    assert_eq!(weak.strong_count(), 1);
    drop(read);
    assert_eq!(weak.strong_count(), 0);
}

/// True of a wait that gave up: the serial device knows that it could never end.
fn gave_up(error: &quipu::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::TimedOut | ErrorKind::WouldDeadlock { .. }
    )
}

#[test]
fn all_and_any_can_be_waited_for_with_a_timeout_and_called_back() {
    each_queue(|_, queue| {
        let gate = UserEvent::new();
        let later = queue.after([gate.event()]);
        let task = |value| later.host_task(move || value).unwrap();
        let mut all = when_all([task(1), task(2)]);
        let mut any = when_any([task(3), task(4)]).unwrap();
        assert!(gave_up(&all.wait_timeout(Duration::ZERO).unwrap_err()));
        assert!(gave_up(&any.wait_timeout(Duration::ZERO).unwrap_err()));
        assert!(!all.is_complete() && !any.is_complete());
        let (sender, receiver) = channel();
        let values = sender.clone();
        when_all([task(5), task(6)]).on_complete(move |all| values.send(all.unwrap()).unwrap());
        when_any([task(7)]).unwrap().on_complete(move |first| {
            sender.send(vec![first.unwrap().result.unwrap()]).unwrap();
        });
        gate.complete();
        assert_eq!(all.wait_timeout(Duration::MAX).unwrap(), [1, 2]);
        let first = any.wait_timeout(Duration::MAX).unwrap();
        assert_eq!(
            (first.result.unwrap(), first.rest.len()),
            (first.index + 3, 1)
        );
        let mut called: Vec<_> = receiver.iter().collect();
        called.sort();
        assert_eq!(called, [vec![5, 6], vec![7]]);
        // A value is given once.
        for error in [
            all.wait_timeout(Duration::MAX).unwrap_err(),
            any.wait_timeout(Duration::MAX).unwrap_err(),
        ] {
            assert!(error.to_string().contains("taken before"), "{error}");
        }
        assert!(all.is_complete() && any.is_complete());
        let (_, waker) = counter();
        assert!(matches!(poll(&mut all, &waker), Poll::Ready(Err(_))));
        assert!(matches!(poll(&mut any, &waker), Poll::Ready(Err(_))));
        let (sender, receiver) = channel();
        let called = sender.clone();
        all.on_complete(move |all| called.send(all.is_err()).unwrap());
        any.on_complete(move |first| sender.send(first.is_err()).unwrap());
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [true, true]);
        // What is over is called back at once.
        let (sender, receiver) = channel();
        when_all(Vec::<Event>::new()).on_complete(move |all| sender.send(all.is_ok()).unwrap());
        assert_eq!(receiver.try_recv(), Ok(true));
    });
}

#[test]
fn all_any_and_mappings_can_be_cancelled() {
    each_queue(|context, queue| {
        let gate = UserEvent::new();
        let later = queue.after([gate.event()]);
        let task = || later.host_task(|| ()).unwrap();
        let buffer = context.buffer(&[1u8; 4]).unwrap();
        let (all, any) = (when_all([task(), task()]), when_any([task()]).unwrap());
        let kept = task();
        let mapping = later.map_mut(&buffer).unwrap();
        all.cancel();
        any.cancel();
        mapping.cancel();
        gate.complete();
        assert!(all.wait().unwrap_err().is_cancelled());
        let first = any.wait().unwrap();
        assert!(first.result.unwrap_err().is_cancelled());
        assert!(mapping.wait().unwrap_err().is_cancelled());
        kept.wait().unwrap();
        // Nothing is mapped any more.
        queue.fill(&buffer, 2).unwrap().wait().unwrap();
    });
}

#[test]
fn a_mapping_calls_back() {
    each_queue(|context, queue| {
        let gate = UserEvent::new();
        let buffer = context.allocate::<u8>(4).unwrap();
        queue.after([gate.event()]).fill(&buffer, 3).unwrap();
        let (sender, receiver) = channel();
        queue.map(&buffer).unwrap().on_complete(move |mapped| {
            sender.send(mapped.unwrap().to_vec()).unwrap();
        });
        assert!(receiver.try_recv().is_err());
        gate.complete();
        // A callback alone makes nothing run.
        queue.wait().unwrap();
        assert_eq!(receiver.recv().unwrap(), [3; 4]);
    });
}

#[test]
fn when_all_takes_tuples_of_different_futures() {
    each_queue(|context, queue| {
        let buffer = context.buffer(&[1_u8, 2]).unwrap();
        let word = || queue.host_task(|| "word").unwrap();
        let all = when_all((
            queue.read(&buffer).unwrap(),
            word(),
            queue.marker().unwrap(),
            queue.map(&buffer.slice(..1).unwrap()).unwrap(),
        ));
        let (numbers, text, (), mapped) = all.wait().unwrap();
        assert_eq!(
            (&numbers[..], text, &mapped[..]),
            (&[1, 2][..], "word", &[1][..])
        );
        drop(mapped);

        // The first error in their order, after all are over.
        let gate = UserEvent::new();
        let fails = |why: &'static str| {
            let task = queue
                .after([gate.event()])
                .try_host_task(move || Err::<u8, _>(why));
            task.unwrap()
        };
        let mut all = when_all((word(), fails("first"), fails("second")));
        assert!(!all.is_complete());
        let error = all.wait_timeout(std::time::Duration::ZERO).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::TimedOut), "{error}");
        gate.complete();
        let error = all.wait().unwrap_err();
        assert!(error.to_string().contains("first"), "{error}");

        let (sender, values) = std::sync::mpsc::channel();
        when_all((word(), queue.marker().unwrap()))
            .on_complete(move |all| sender.send(all.unwrap()).unwrap());
        queue.flush();
        queue.wait().unwrap();
        assert_eq!(values.recv().unwrap(), ("word", ()));

        let gate = UserEvent::new();
        let late = || queue.after([gate.event()]).host_task(|| 1).unwrap();
        let all = when_all((late(), late()));
        all.cancel();
        gate.complete();
        assert!(all.wait().unwrap_err().is_cancelled());
    });
}
