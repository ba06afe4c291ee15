//! Callbacks that wait. The goal of a wait may need the very thread that calls them: the thread has
//! let go of all else by then, or it says that waiting there could never end.

use super::cases;
use crate::Fixture;
use crate::support::*;
use quipu_scheduler::{Clock, ErrorKind, Event, Queue, Request, Result, UserEvent};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

cases! {
    Anything:
        a_callback_waits_for_a_marker_or_barrier,
        a_callback_waits_for_its_queue,
        callbacks_wait_for_each_others_events,
        a_callback_waits_for_what_another_brings_about,
        a_callback_waits_for_who_hears_after_it,
        a_callback_waits_for_what_is_called_back_meanwhile,
        a_callback_waits_for_what_is_done_after_another_wait,
        a_queue_that_is_empty_is_waited_for_however_deep,
        who_waits_with_a_limit_hands_over_what_is_ready,
        a_waker_waits_for_what_its_thread_has_in_hand,
        a_waker_waits_for_what_ends_on_its_thread,
        a_wait_with_a_limit_calls_nobody_back,
        callbacks_that_complete_events_do_not_nest,
        callbacks_of_what_is_over_do_not_nest,
        the_dependants_of_a_task_that_has_waited_wait_for_each_other;
    SeveralDevices:
        a_callback_waits_for_another_device,
        a_callback_waits_for_what_its_thread_has_yet_to_run,
        a_task_waits_for_what_its_thread_has_yet_to_run;
}

/// The results of waits inside of callbacks.
#[derive(Clone)]
struct Waits {
    /// Refusing is no way out: the device's threads have others to go on with.
    must_succeed: bool,
    results: Arc<Mutex<Vec<Result<()>>>>,
}

impl Waits {
    /// For queues of the first device.
    fn new(stage: &Stage) -> Self {
        Self {
            must_succeed: stage.devices[0].driver().name() == "cpu",
            results: Arc::default(),
        }
    }

    /// For queues of all devices.
    fn anywhere() -> Self {
        Self {
            must_succeed: false,
            results: Arc::default(),
        }
    }

    /// Waits, when `event` is over, for what is put into the place that this gives.
    fn behind(&self, event: &Event) -> Place {
        let place = Place::default();
        let (waits, inside) = (self.clone(), place.clone());
        event.on_complete(move |_| {
            let event = inside.lock().expect("not poisoned").clone();
            waits.heard(event.map_or(Ok(()), |event| event.wait()));
        });
        place
    }

    fn heard(&self, result: Result<()>) {
        self.results.lock().expect("not poisoned").push(result);
    }

    /// Returns when so many have returned.
    fn expect(&self, count: usize) {
        let results = || self.results.lock().expect("not poisoned");
        while results().len() < count {
            std::thread::yield_now();
        }
        for result in results().drain(..) {
            if self.must_succeed {
                result.expect("nothing that it waits for needs this thread");
            } else {
                waited_or_refused(result).unwrap();
            }
        }
    }
}

/// The place in which a callback finds the event to wait for.
type Place = Arc<Mutex<Option<Event>>>;

fn put(place: &Place, event: &Event) {
    *place.lock().unwrap() = Some(event.clone());
}

fn task(
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

fn a_callback_waits_for_a_marker_or_barrier(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let waits = Waits::new(&stage);
    for queue in [stage.in_order(), stage.out_of_order()] {
        for is_barrier in [false, true] {
            for comes_before in [false, true] {
                let gate = UserEvent::new();
                let first = task(&queue, &[gate.event()], || Ok(()));
                let stand = || match is_barrier {
                    false => queue.marker(&[]).unwrap(),
                    true => queue.barrier(&[]).unwrap(),
                };
                // Either may be the first that the queue is watched for.
                let event = if comes_before {
                    let place = waits.behind(&first);
                    let event = stand();
                    put(&place, &event);
                    event
                } else {
                    let event = stand();
                    put(&waits.behind(&first), &event);
                    event
                };
                queue.flush();
                gate.complete();
                event.wait().unwrap();
                waits.expect(1);
            }
        }
    }
}

fn a_callback_waits_for_its_queue(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let waits = Waits::new(&stage);
    for queue in [stage.in_order(), stage.out_of_order()] {
        let gate = UserEvent::new();
        let events = [(); 3].map(|()| nothing(&queue, &[], &[gate.event()]));
        for event in &events {
            let (queue, waits) = (queue.clone(), waits.clone());
            event.on_complete(move |_| waits.heard(queue.wait()));
        }
        queue.flush();
        gate.complete();
        waits.expect(3);
        queue.wait().unwrap();
    }
}

fn callbacks_wait_for_each_others_events(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for queue in [stage.in_order(), stage.out_of_order()] {
        // More than may wait inside of each other on one thread: some may be refused.
        for (count, waits) in [(2, Waits::new(&stage)), (1000, Waits::anywhere())] {
            let gate = UserEvent::new();
            let on = |n: usize| {
                let gate = [gate.event()];
                match n % 3 {
                    0 => queue.marker(&gate).unwrap(),
                    1 => nothing(&queue, &[], &gate),
                    _ => task(&queue, &gate, || Ok(())),
                }
            };
            let events: Vec<Event> = (0..count).map(on).collect();
            for (n, event) in events.iter().enumerate() {
                put(&waits.behind(event), &events[count - 1 - n]);
            }
            queue.flush();
            gate.complete();
            waits.expect(count);
            queue.wait().unwrap();
        }
    }
}

fn a_callback_waits_for_what_another_brings_about(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let waits = Waits::new(&stage);
    for queue in [stage.in_order(), stage.out_of_order()] {
        let (gate, late) = (UserEvent::new(), UserEvent::new());
        // On an in-order queue nothing behind it is seen before it.
        let behind = nothing(&stage.out_of_order(), &[], &[late.event()]);
        let events = [(); 2].map(|()| queue.marker(&[gate.event()]).unwrap());
        put(&waits.behind(&events[0]), &behind);
        let late = Mutex::new(Some(late));
        events[1].on_complete(move |_| {
            late.lock()
                .expect("not poisoned")
                .take()
                .into_iter()
                .for_each(UserEvent::complete);
        });
        queue.flush();
        gate.complete();
        behind.wait().unwrap();
        waits.expect(1);
    }
}

/// A waker that completes an event.
struct Completing(Mutex<Option<UserEvent>>);

impl Wake for Completing {
    fn wake(self: Arc<Self>) {
        let event = self.0.lock().expect("not poisoned").take();
        event.into_iter().for_each(UserEvent::complete);
    }
}

fn a_callback_waits_for_who_hears_after_it(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let waits = Waits::new(&stage);
    for queue in [stage.in_order(), stage.out_of_order()] {
        let (gate, late) = (UserEvent::new(), UserEvent::new());
        let behind = nothing(&stage.out_of_order(), &[], &[late.event()]);
        let mut event = nothing(&queue, &[], &[gate.event()]);
        put(&waits.behind(&event), &behind);
        let waker = Waker::from(Arc::new(Completing(Mutex::new(Some(late)))));
        let polled = Pin::new(&mut event).poll(&mut Context::from_waker(&waker));
        assert!(matches!(polled, Poll::Pending));
        gate.complete();
        behind.wait().unwrap();
        waits.expect(1);
    }
}

fn a_callback_waits_for_what_is_called_back_meanwhile(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let waits = Waits::new(&stage);
    let others = stage.out_of_order();
    for queue in [stage.in_order(), stage.out_of_order()] {
        let [gate, go, late] = [(); 3].map(|()| UserEvent::new());
        let behind = nothing(&others, &[], &[late.event()]);
        // Begins in the callback, and may end on its thread, while that waits.
        let meanwhile = nothing(&others, &[], &[go.event()]);
        let late = Mutex::new(Some(late));
        meanwhile.on_complete(move |_| {
            let late = late.lock().expect("not poisoned").take();
            late.into_iter().for_each(UserEvent::complete);
        });
        let first = queue.marker(&[gate.event()]).unwrap();
        let (go, inside, event) = (Mutex::new(Some(go)), waits.clone(), behind.clone());
        first.on_complete(move |_| {
            let go = go.lock().expect("not poisoned").take();
            go.into_iter().for_each(UserEvent::complete);
            inside.heard(event.wait());
        });
        queue.flush();
        gate.complete();
        behind.wait().unwrap();
        waits.expect(1);
    }
}

/// Time of which a moment passes whenever somebody looks.
#[derive(Default)]
struct Looks(AtomicU32);

impl Looks {
    /// The number that a thread that waits for it takes.
    const MOST: Duration = Duration::from_secs(1000);
}

impl Clock for Looks {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.fetch_add(1, Ordering::Relaxed).into())
    }

    fn park(&self, _: Duration) {}
}

/// A waker that waits for an event, as long as it is told.
struct Waiting(Event, Mutex<Option<Result<()>>>);

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        let waited = self.0.wait_with_clock(Looks::MOST, &Looks::default());
        *self.1.lock().expect("not poisoned") = Some(waited);
    }
}

fn who_waits_with_a_limit_hands_over_what_is_ready(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let gate = UserEvent::new();
    let mut first = queue.marker(&[gate.event()]).unwrap();
    let second = queue.marker(from_ref(&first)).unwrap();
    let waiting = Arc::new(Waiting(second, Mutex::default()));
    let waker = Waker::from(waiting.clone());
    let polled = Pin::new(&mut first).poll(&mut Context::from_waker(&waker));
    assert!(matches!(polled, Poll::Pending));
    gate.complete();
    let waited = waiting.1.lock().unwrap().take();
    waited.expect("it was woken by this thread").unwrap();
}

fn a_wait_with_a_limit_calls_nobody_back(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let (gate, later) = (UserEvent::new(), UserEvent::new());
    let events = [(); 2].map(|()| queue.marker(&[gate.event()]).unwrap());
    let later = Arc::new(Mutex::new(Some(later)));
    let (waited, called) = (Arc::new(Mutex::new(None)), Arc::new(AtomicU32::new(0)));
    for event in &events {
        let (waited, called, later) = (waited.clone(), called.clone(), later.clone());
        event.on_complete(move |_| {
            // The other may wait for what this one does when time is up.
            if called.fetch_add(1, Ordering::SeqCst) == 0 {
                let later = later.lock().expect("not poisoned").take();
                let event = later.as_ref().expect("taken once").event();
                let result = event.wait_with_clock(Looks::MOST, &Looks::default());
                let others = called.load(Ordering::SeqCst) - 1;
                *waited.lock().expect("not poisoned") = Some((result, others));
            }
        });
    }
    gate.complete();
    let (result, others) = waited.lock().unwrap().take().expect("called here");
    assert!(matches!(result.unwrap_err().kind(), ErrorKind::TimedOut));
    assert_eq!((others, called.load(Ordering::SeqCst)), (0, 2));
}

fn callbacks_that_complete_events_do_not_nest(fixture: &dyn Fixture) {
    const EVENTS: u32 = 100_000;
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    for with_commands in [false, true] {
        let first = UserEvent::new();
        let called = Arc::new(AtomicU32::new(0));
        let mut last = first.event();
        for _ in 0..EVENTS {
            let next = UserEvent::new();
            let event = next.event();
            let called = called.clone();
            last.on_complete(move |_| {
                called.fetch_add(1, Ordering::SeqCst);
                next.complete();
            });
            last = if with_commands {
                queue.marker(from_ref(&event)).unwrap()
            } else {
                event
            };
        }
        first.complete();
        last.wait().unwrap();
        assert_eq!(called.load(Ordering::SeqCst), EVENTS);
    }
}

fn the_dependants_of_a_task_that_has_waited_wait_for_each_other(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let waits = Waits::new(&stage);
    let (queue, inner) = (stage.out_of_order(), stage.out_of_order());
    let gate = UserEvent::new();
    // Its thread is nobody's worker any more when it ends.
    let first = task(&queue, &[gate.event()], move || {
        waited_or_refused(nothing(&inner, &[], &[]).wait())
    });
    let markers = [(); 4].map(|()| queue.marker(from_ref(&first)).unwrap());
    for (n, marker) in markers.iter().enumerate() {
        put(&waits.behind(marker), &markers[3 - n]);
    }
    gate.complete();
    for marker in &markers {
        marker.wait().unwrap();
    }
    waits.expect(4);
}

fn a_callback_waits_for_another_device(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let waits = Waits::anywhere();
    for device in 0..stage.devices.len() {
        for other in 0..stage.devices.len() {
            let queue = stage.queue_on(device, OUT_OF_ORDER);
            let others = stage.queue_on(other, OUT_OF_ORDER);
            let gate = UserEvent::new();
            let first = task(&queue, &[gate.event()], || Ok(()));
            let second = task(&queue, from_ref(&first), || Ok(()));
            // Comes after both, on the other device.
            let last = task(&others, &[second], || Ok(()));
            put(&waits.behind(&first), &last);
            gate.complete();
            last.wait().unwrap();
            waits.expect(1);
        }
    }
}

fn a_callback_waits_for_what_its_thread_has_yet_to_run(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let count = stage.devices.len();
    for (opening, device, other) in (0..count * count * count).map(|number| {
        (
            number / count / count,
            number / count % count,
            number % count,
        )
    }) {
        let queue = stage.queue_on(device, OUT_OF_ORDER);
        let others = stage.queue_on(other, OUT_OF_ORDER);
        let mut waits = Waits::anywhere();
        // Nothing else needs a thread of these.
        waits.must_succeed = [opening, device, other]
            .iter()
            .all(|device| ["cpu", "serial"].contains(&stage.devices[*device].driver().name()));
        let gate = UserEvent::new();
        // Whoever runs this has both of those that wait for it in hand.
        let opener = task(
            &stage.queue_on(opening, OUT_OF_ORDER),
            &[gate.event()],
            || Ok(()),
        );
        let [first, second] = [(); 2].map(|()| task(&queue, from_ref(&opener), || Ok(())));
        let last = task(&others, &[second], || Ok(()));
        put(&waits.behind(&first), &last);
        gate.complete();
        last.wait().unwrap();
        waits.expect(1);
    }
}

fn a_task_waits_for_what_its_thread_has_yet_to_run(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for device in 0..stage.devices.len() {
        for other in 0..stage.devices.len() {
            let queue = stage.queue_on(device, OUT_OF_ORDER);
            let others = stage.queue_on(other, OUT_OF_ORDER);
            let (gate, place) = (UserEvent::new(), Place::default());
            let inside = place.clone();
            let first = task(&queue, &[gate.event()], move || {
                let event = inside.lock().expect("not poisoned").clone();
                waited_or_refused(event.map_or(Ok(()), |event| event.wait()))
            });
            let second = task(&queue, &[gate.event()], || Ok(()));
            let last = task(&others, &[second], || Ok(()));
            put(&place, &last);
            gate.complete();
            first.wait().unwrap();
            last.wait().unwrap();
        }
    }
}

fn a_callback_waits_for_what_is_done_after_another_wait(fixture: &dyn Fixture) {
    const ROUNDS: u32 = 300;
    const LOOKS: u32 = 1000;
    let stage = Stage::new(fixture);
    let waits = Waits::new(&stage);
    let others = stage.out_of_order();
    let driver = stage.devices[0].driver();
    for _ in 0..ROUNDS {
        let [gate, go, late] = [(); 3].map(|()| UserEvent::new());
        // May end on the thread of the callback that waits for it, and is over then.
        let meanwhile = nothing(&others, &[], &[go.event()]);
        put(&waits.behind(&meanwhile), &late.event());
        let first = others.marker(&[gate.event()]).unwrap();
        let (both, inside) = (Mutex::new(Some((go, late))), waits.clone());
        first.on_complete(move |_| {
            let both = both.lock().expect("not poisoned").take();
            let (go, late) = both.expect("called once");
            go.complete();
            inside.heard(meanwhile.wait());
            late.complete();
        });
        // A pool's workers have mostly fallen asleep by then, and who waits does what there is.
        (0..LOOKS)
            .take_while(|_| !driver.is_idle())
            .for_each(|_| std::thread::yield_now());
        gate.complete();
        waits.expect(2);
    }
}

fn a_queue_that_is_empty_is_waited_for_however_deep(fixture: &dyn Fixture) {
    const DEEPER: u32 = 100;
    let stage = Stage::new(fixture);
    let (queue, empty) = (stage.out_of_order(), stage.out_of_order());
    let (gate, late) = (UserEvent::new(), UserEvent::new());
    let events: Vec<Event> = (0..DEEPER)
        .map(|_| queue.marker(&[gate.event()]).unwrap())
        .collect();
    let waits = Waits {
        must_succeed: true,
        ..Waits::anywhere()
    };
    let called = Arc::new(AtomicU32::new(0));
    for event in &events {
        let (called, waits) = (called.clone(), waits.clone());
        let (empty, late) = (empty.clone(), late.event());
        event.on_complete(move |_| {
            if called.fetch_add(1, Ordering::SeqCst) < DEEPER - 1 {
                // Refused where it is too deep.
                drop(late.wait());
            }
            waits.heard(empty.wait());
        });
    }
    std::thread::scope(|scope| {
        scope.spawn(|| gate.complete());
        while called.load(Ordering::SeqCst) < DEEPER {
            std::thread::yield_now();
        }
        late.complete();
    });
    waits.expect(DEEPER as usize);
}

/// Steps that each enqueue the next when they are over, which they may be as soon as they are
/// enqueued.
struct Steps {
    queue: Queue,
    left: AtomicU32,
}

fn step(steps: Arc<Steps>) {
    let event = nothing(&steps.queue, &[], &[]);
    event.on_complete(move |_| {
        if steps.left.fetch_sub(1, Ordering::SeqCst) > 1 {
            step(steps);
        }
    });
}

fn callbacks_of_what_is_over_do_not_nest(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let steps = Arc::new(Steps {
        queue: stage.out_of_order(),
        left: AtomicU32::new(10_000),
    });
    step(steps.clone());
    while steps.left.load(Ordering::SeqCst) > 0 {
        steps.queue.wait().unwrap();
    }
}

/// A waker that does something, once.
struct Doing<F>(Mutex<Option<F>>);

impl<F: FnOnce() + Send + 'static> Wake for Doing<F> {
    fn wake(self: Arc<Self>) {
        let run = self.0.lock().expect("not poisoned").take();
        run.into_iter().for_each(|run| run());
    }
}

pub(super) fn on_wake(event: &mut Event, run: impl FnOnce() + Send + 'static) {
    let waker = Waker::from(Arc::new(Doing(Mutex::new(Some(run)))));
    let polled = Pin::new(event).poll(&mut Context::from_waker(&waker));
    assert!(matches!(polled, Poll::Pending));
}

fn a_waker_waits_for_what_its_thread_has_in_hand(fixture: &dyn Fixture) {
    // More than are handed over together.
    const MANY: usize = 1000;
    let stage = Stage::new(fixture);
    let waits = Waits::anywhere();
    let queue = stage.out_of_order();
    for with_commands in [false, true] {
        let gate = UserEvent::new();
        let on = |n: usize| match with_commands && n != MANY / 2 {
            true => nothing(&queue, &[], &[gate.event()]),
            false => queue.marker(&[gate.event()]).unwrap(),
        };
        let mut events: Vec<Event> = (0..MANY).map(on).collect();
        let others = [0, MANY / 2 - 1, MANY / 2 + 1, MANY - 1].map(|n| events[n].clone());
        let inside = waits.clone();
        on_wake(&mut events[MANY / 2], move || {
            others.iter().for_each(|event| inside.heard(event.wait()));
        });
        gate.complete();
        waits.expect(4);
        queue.wait().unwrap();
    }
}

fn a_waker_waits_for_what_ends_on_its_thread(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let waits = Waits::anywhere();
    let queue = stage.out_of_order();
    for _ in 0..50 {
        let (gate, go) = (UserEvent::new(), UserEvent::new());
        let mut first = queue.marker(&[gate.event()]).unwrap();
        let meanwhile = nothing(&queue, &[], &[go.event()]);
        let last = queue.marker(from_ref(&meanwhile)).unwrap();
        let (inside, event) = (waits.clone(), last.clone());
        on_wake(&mut first, move || {
            go.complete();
            inside.heard(event.wait());
        });
        gate.complete();
        last.wait().unwrap();
        waits.expect(1);
    }
}
