//! The pool in moments that are too short to be met by chance.

use super::*;
use crate::{CpuDriver, Options};
use quipu_scheduler::command::ToDrivers;
use quipu_scheduler::driver::{Notification, Submission};
use quipu_scheduler::event::{Clock, log_waits_longer_than, wait_graph};
use quipu_scheduler::{
    Access, AccessMode, Context, Device, DeviceProperties, Driver, Event, MemoryRef, Partition,
    Queue, QueueOptions, Request, UserEvent,
};
use std::sync::mpsc;
use std::time::Duration;

fn pool_of(workers: NonZero<usize>) -> (Arc<Pool>, Device, Context) {
    let driver = CpuDriver::start(Options::new().workers(workers)).unwrap();
    let pool = driver.pool().clone();
    let driver: Arc<dyn Driver> = driver;
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    (pool, devices[0].clone(), context)
}

fn task(queue: &Queue, run: impl FnOnce() + Send + 'static) -> Event {
    let run = move |_: &[quipu_scheduler::RawArgument]| {
        run();
        Ok(())
    };
    queue.host_task(run, &Request::default()).unwrap()
}

/// A guest takes one of two tasks, whose only worker looks for them while the guest
/// has both in hands, finds nothing, and falls asleep. The guest may have no need of
/// the other one: the worker must be woken for it.
#[test]
fn a_worker_is_woken_for_what_a_guest_leaves() {
    let (pool, device, context) = pool_of(NonZero::<usize>::MIN);
    let parts = device.partition(&Partition::ByCounts(vec![1])).unwrap();
    let out_of_order = |priority| QueueOptions {
        in_order: false,
        priority,
        ..QueueOptions::default()
    };
    for (device, number, priority) in [
        (&device, POOL_DEVICE, Priority::High),
        (&device, POOL_DEVICE, Priority::Low),
        (&parts[0], 1, Priority::Normal),
    ] {
        let queue = context.queue(device, out_of_order(priority)).unwrap();
        let busy = context
            .queue(device, out_of_order(Priority::Normal))
            .unwrap();
        let (tell, told) = mpsc::channel();
        let (go, going) = mpsc::channel();
        let occupied = task(&busy, move || {
            tell.send(()).unwrap();
            going.recv().unwrap();
        });
        told.recv().unwrap();
        let events = [(); 2].map(|()| task(&queue, || ()));

        let team = pool.team(number);
        let injector = &team.injectors[level(priority)];
        // The list into which the guest puts the other one back.
        let held = lock(&injector.older);
        let guest = std::thread::spawn({
            let pool = pool.clone();
            move || pool.take_injected(pool.worker_count, priority)
        });
        while injector.newest.load(Ordering::Acquire) != 0 {
            std::thread::yield_now();
        }
        go.send(()).unwrap();
        while pool.sleep.asleep() == 0 {
            std::thread::yield_now();
        }
        drop(held);
        let taken = guest.join().unwrap();
        assert!(
            pool.sleep.asleep() == 0 || injector.is_empty(),
            "a task lies and its worker sleeps"
        );
        let Some(Task::Command(command)) = taken else {
            panic!("the guest finds the first task");
        };
        command.finish(Ok(()), &mut ToDrivers);
        for event in [occupied].into_iter().chain(events) {
            event.wait().unwrap();
        }
    }
}

/// A worker that was woken for its sub-device's task finds something else to do, and others that
/// may not run that task look meanwhile: it must wake one that may, which sleeps.
#[test]
fn a_worker_with_something_else_to_do_wakes_another_for_its_sub_device() {
    let (pool, device, context) = pool_of(NonZero::new(4).unwrap());
    let part = device.partition(&Partition::Equally(2)).unwrap().remove(1);
    let number = 2;
    let queue = context.queue(&part, QueueOptions::default()).unwrap();
    // Both workers are busy while this thread takes the task.
    let (tell, told) = mpsc::channel();
    let busy = [(); 2].map(|()| {
        let (tell, (end, ends)) = (tell.clone(), mpsc::channel::<()>());
        let queue = context.queue(&part, QueueOptions::default()).unwrap();
        let occupied = task(&queue, move || {
            tell.send(()).unwrap();
            assert!(ends.recv().is_err(), "nothing is ever sent");
        });
        told.recv().unwrap();
        (end, occupied)
    });
    let (ran, runs) = mpsc::channel();
    task(&queue, move || ran.send(()).unwrap());
    let taken = pool.take_injected(2, Priority::Normal);
    for (end, occupied) in busy {
        drop(end);
        occupied.wait().unwrap();
    }
    while pool.sleep.asleep() < 4 {
        std::thread::yield_now();
    }
    // It is there again, and the wake for it was that of worker 2, which has taken something else.
    let team = pool.team(number);
    assert!(team.workers.contains(2) && team.range.len() == 2);
    pool.elsewhere.fetch_add(1, Ordering::Relaxed);
    team.injectors[level(Priority::Normal)].push(taken.expect("nobody else takes it"));
    pool.pass_on_wake(2, false);
    // A thread that waits for the task would run it.
    runs.recv_timeout(std::time::Duration::from_secs(60))
        .unwrap();
}

/// Keeps which groups were run together, and where.
struct Ranges(mpsc::Sender<(std::thread::ThreadId, Range<u32>)>);

impl quipu_scheduler::operation::NativeKernel for Ranges {
    fn name(&self) -> &'static str {
        "ranges"
    }

    unsafe fn run(
        &self,
        _: &[quipu_scheduler::RawArgument],
        groups: Range<u32>,
    ) -> quipu_scheduler::Result<()> {
        let here = std::thread::current().id();
        self.0.send((here, groups)).unwrap();
        Ok(())
    }
}

/// Keeps so many workers busy, each until its sender is dropped.
fn occupy(device: &Device, context: &Context, workers: usize) -> Vec<(mpsc::Sender<()>, Event)> {
    let (tell, told) = mpsc::channel();
    let occupied = (0..workers).map(|_| {
        let (tell, (end, ends)) = (tell.clone(), mpsc::channel::<()>());
        let queue = context.queue(device, QueueOptions::default()).unwrap();
        let occupied = task(&queue, move || {
            tell.send(()).unwrap();
            assert!(ends.recv().is_err(), "nothing is ever sent");
        });
        told.recv().unwrap();
        (end, occupied)
    });
    occupied.collect()
}

/// A command that ends runs its dependant itself. No other worker can come for that, nor for a turn
/// of others, where there are none.
#[test]
fn a_chain_is_shown_to_nobody() {
    const LENGTH: usize = 2 * 64 + 6;
    let workers = NonZero::new(2).unwrap();
    let (pool, device, context) = pool_of(workers);
    let queue = context.queue(&device, QueueOptions::default()).unwrap();
    let busy = occupy(&device, &context, workers.get());
    let (tell, told) = mpsc::channel();
    let mut last = None;
    for _ in 0..LENGTH {
        let request = Request {
            waits: last.as_slice(),
            ..Request::default()
        };
        last = Some(queue.launch(Ranges(tell.clone()), 1, &request).unwrap());
    }
    let guest = Worker::guest(pool.clone(), Costs::default());
    let mut next = guest.search();
    for left in (0..LENGTH).rev() {
        guest.perform(next.expect("the next of the chain is at hand"));
        assert_eq!(pool.deques[workers.get()].len(), 0, "with {left} left");
        assert!(!pool.has_work(), "with {left} left");
        next = guest.take();
    }
    assert!(next.is_none());
    assert_eq!(told.try_iter().count(), LENGTH);
    for (end, occupied) in busy {
        drop(end);
        occupied.wait().unwrap();
    }
    last.expect("the last of the chain").wait().unwrap();
}

/// A kernel that mostly does nothing, but may wait until another such kernel says that it runs.
struct Meets(Option<(mpsc::Sender<()>, Mutex<mpsc::Receiver<()>>)>);

impl quipu_scheduler::operation::NativeKernel for Meets {
    fn name(&self) -> &'static str {
        "meets"
    }

    unsafe fn run(
        &self,
        _: &[quipu_scheduler::RawArgument],
        _: Range<u32>,
    ) -> quipu_scheduler::Result<()> {
        if let Some((tell, told)) = &self.0 {
            tell.send(()).unwrap();
            let patience = std::time::Duration::from_secs(60);
            lock(told).recv_timeout(patience).expect("the other runs");
        }
        Ok(())
    }
}

/// Two kernels that are known to be short become ready together while the other worker sleeps, by a
/// command's end or as a command runs. Each blocks until the other runs.
#[test]
fn what_seems_short_is_kept_from_nobody() {
    let workers = NonZero::new(2).unwrap();
    let (pool, device, context) = pool_of(workers);
    let out_of_order = QueueOptions {
        in_order: false,
        ..QueueOptions::default()
    };
    let queue = context.queue(&device, out_of_order).unwrap();
    for round in 0..20 {
        // All workers know that it is short.
        for _ in 0..1000 {
            queue
                .post_launch(Meets(None), 1, &Request::default())
                .unwrap();
        }
        queue.wait().unwrap();
        let mut busy = occupy(&device, &context, 1);
        let (end, occupied) = busy.pop().expect("one");
        while pool.sleep.asleep() < 1 {
            std::thread::yield_now();
        }
        let ((one, hears_one), (other, hears_other)) = (mpsc::channel(), mpsc::channel());
        let gate = UserEvent::new();
        let waits = match round % 2 {
            0 => vec![occupied.clone()],
            _ => vec![gate.event()],
        };
        let both = [(one, hears_other), (other, hears_one)].map(|(tell, told)| {
            let kernel = Meets(Some((tell, Mutex::new(told))));
            let request = Request {
                waits: &waits,
                ..Request::default()
            };
            queue.launch(kernel, 1, &request).unwrap()
        });
        if round % 2 == 1 {
            // By the worker, after which it runs them.
            let after = std::slice::from_ref(&occupied);
            let request = Request {
                waits: after,
                ..Request::default()
            };
            let opens = move |_: &[quipu_scheduler::RawArgument]| {
                gate.complete();
                Ok(())
            };
            queue.host_task(opens, &request).unwrap();
        }
        drop(end);
        // This thread would run one of them if it waited for it while no worker is awake.
        while !both.iter().all(Event::is_complete) {
            std::thread::yield_now();
        }
        for event in both {
            event.wait().unwrap();
        }
    }
}

/// The only worker that is awake runs an urgent command before the one that it would have run next.
#[test]
fn what_was_to_be_next_is_everybodys_while_something_urgent_runs() {
    let (pool, device, context) = pool_of(NonZero::new(2).unwrap());
    let busy = occupy(&device, &context, 2);
    let urgent = QueueOptions {
        priority: Priority::High,
        ..QueueOptions::default()
    };
    let urgent = context.queue(&device, urgent).unwrap();
    let queue = context.queue(&device, QueueOptions::default()).unwrap();
    let first = task(&queue, || ());
    let guest = Worker::guest(pool.clone(), Costs::default());
    let first_taken = guest.search().expect("it was handed in");
    let next = queue
        .launch(
            Meets(None),
            1,
            &Request {
                waits: std::slice::from_ref(&first),
                ..Request::default()
            },
        )
        .unwrap();
    let before = task(&urgent, || ());
    guest.perform(first_taken);
    assert!(
        !pool.deques.iter().any(|deque| deque.len() > 0),
        "it is next"
    );
    let taken = guest.take().expect("the urgent one");
    assert_eq!(taken.device(), POOL_DEVICE);
    assert_eq!(pool.deques[2].len(), 1, "what was to be next is hidden");
    guest.perform(taken);
    guest.perform(guest.take().expect("what was to be next"));
    for (end, occupied) in busy {
        drop(end);
        occupied.wait().unwrap();
    }
    for event in [before, next] {
        event.wait().unwrap();
    }
}

/// A worker that leaves little tasks to others comes when invited all the same.
#[test]
fn invitations_are_told_from_tasks_by_who_looks() {
    let (pool, _device, _context) = pool_of(NonZero::<usize>::MIN);
    let look = || pool.published.0.load(Ordering::Acquire);
    // As one that looks for work.
    pool.sleep.start_spinning();
    let first = look();
    pool.tell_spinners();
    let second = look();
    assert!(second != first && !are_invited(first, second));
    pool.tell_of_invitation();
    assert!(are_invited(second, look()) && are_invited(first, look()));
    pool.sleep.stop_spinning();
}

/// A worker that knows nothing of a kernel runs one group alone first. A thread that waits is a
/// guest for as long as that, and does so once, not each time.
#[test]
fn a_guest_knows_what_the_one_before_it_has_measured() {
    // With one worker, nothing is shared.
    let workers = NonZero::new(2).unwrap();
    let (pool, device, context) = pool_of(workers);
    let queue = context.queue(&device, QueueOptions::default()).unwrap();
    let here = std::thread::current().id();
    let mut is_alone = Vec::new();
    // The worker that was woken may come first.
    while is_alone.len() < 3 {
        while pool.sleep.asleep() < workers.get() {
            std::thread::yield_now();
        }
        let (tell, told) = mpsc::channel();
        queue
            .post_launch(Ranges(tell), 64, &Request::default())
            .unwrap();
        queue.wait().unwrap();
        let (by, first) = told.recv().unwrap();
        if by == here {
            is_alone.push(first == (0..1));
        }
    }
    assert_eq!(is_alone, [true, false, false]);
}

/// All workers are busy while this thread, as a guest, goes through a transfer or fill of several
/// pieces. It has invited them, and does without them.
#[test]
fn others_are_invited_to_long_transfers_and_fills() {
    const LENGTH: u64 = 1 << 24;
    let workers = NonZero::new(3).unwrap();
    let (pool, device, context) = pool_of(workers);
    let queue = context.queue(&device, QueueOptions::default()).unwrap();
    let [from, to] = [(); 2].map(|()| context.memory(LENGTH).unwrap());
    let all = |memory| Access {
        memory,
        offset: 0,
        length: LENGTH,
        mode: AccessMode::ReadWrite,
    };
    let fill = || queue.fill(all(&from), &[7], &[]).unwrap();
    let copy = || queue.copy(all(&from), all(&to), LENGTH, &[], &[]).unwrap();
    for enqueue in [&fill as &dyn Fn() -> Event, &copy] {
        let busy = occupy(&device, &context, workers.get());
        let event = enqueue();
        let taken = pool.take_injected(pool.worker_count, Priority::Normal);
        let guest = Worker::guest(pool.clone(), Costs::default());
        let invitation = &pool.invitations[pool.worker_count];
        let next = invitation.next();
        guest.perform(taken.expect("nobody else takes it"));
        assert_ne!(invitation.next(), next, "it has invited nobody");
        assert!(!invitation.is_open(), "nobody need come any more");
        drop(busy);
        event.wait().unwrap();
    }
    assert_eq!(last_byte(&queue, &to), 7);
}

fn last_byte(queue: &Queue, memory: &MemoryRef) -> u8 {
    let from = Access {
        memory,
        offset: memory.size() - 1,
        length: 1,
        mode: AccessMode::Read,
    };
    let mut byte = [0];
    // SAFETY: it is there until the read is over, which is waited for.
    let to = unsafe { quipu_scheduler::operation::HostMemory::new(byte.as_mut_ptr(), 1, None) };
    queue.read(from, to, 1, &[], &[]).unwrap().wait().unwrap();
    byte[0]
}

/// The only worker takes from its deque without a fence, so no other thread may take from it. (A
/// guest that does may be running the same task as that worker.)
#[test]
fn a_guest_takes_nothing_of_the_only_workers_deque() {
    for workers in [1, 2] {
        let (pool, device, context) = pool_of(NonZero::new(workers).unwrap());
        // All are busy while this thread puts a task into the first one's deque.
        let busy = occupy(&device, &context, workers);
        let queue = context.queue(&device, QueueOptions::default()).unwrap();
        let event = task(&queue, || ());
        let guest = Worker::guest(pool.clone(), Costs::default());
        let taken = guest.search().expect("it was handed in");
        assert!(pool.deques[0].push(taken.into_word()));
        match guest.search() {
            Some(task) if workers > 1 => guest.perform(task),
            Some(_) => panic!("it is the worker's own"),
            None => assert_eq!(workers, 1),
        }
        for (end, occupied) in busy {
            drop(end);
            occupied.wait().unwrap();
        }
        event.wait().unwrap();
    }
}

/// Waits for an event of its own when it is first asked to sleep or to log.
struct WaitsItself(Mutex<Option<Event>>);

impl WaitsItself {
    fn wait(&self) {
        let inner = lock(&self.0).take();
        if let Some(inner) = inner {
            inner.wait().unwrap();
        }
    }
}

impl Clock for WaitsItself {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn park(&self, timeout: Duration) {
        self.wait();
        std::thread::park_timeout(timeout);
    }
}

impl tracing::Subscriber for WaitsItself {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.wait();
    }
}

/// A command waits on the only worker, and code within that wait waits, too. Afterwards the worker
/// sleeps as one.
fn wait_within_a_wait(label: &str, wait: impl FnOnce(Event, WaitsItself) + Send + 'static) {
    let (pool, device, context) = pool_of(NonZero::<usize>::MIN);
    let queue = context.queue(&device, QueueOptions::default()).unwrap();
    let (outer, inner) = (UserEvent::new(), UserEvent::new());
    let (outer_event, waits) = (outer.event(), WaitsItself(Mutex::new(Some(inner.event()))));
    let request = Request {
        label: Some(label),
        ..Request::default()
    };
    let run = move |_: &[quipu_scheduler::RawArgument]| {
        wait(outer_event, waits);
        Ok(())
    };
    let waited = queue.host_task(run, &request).unwrap();
    // Both of its waits, asleep.
    let inside = format!(", inside of '{label}'");
    while wait_graph().matches(&inside).count() < 2 {
        std::thread::yield_now();
    }
    inner.complete();
    outer.complete();
    waited.wait().unwrap();
    while pool.sleep.asleep() < 1 {
        std::thread::yield_now();
    }
    assert_eq!(pool.sleep.asleep_or_waking(), 1);
    assert_eq!(pool.sleep.looking(), 0);
    task(&queue, || ()).wait().unwrap();
}

#[test]
fn a_clock_may_wait_within_the_wait_that_it_times() {
    wait_within_a_wait("by a clock", |event, clock| {
        event.wait_with_clock(Duration::MAX, &clock).unwrap();
    });
}

#[test]
fn a_subscriber_may_wait_within_the_wait_that_it_hears_of() {
    // As long as there is but one subscriber, `tracing` takes the thread that first logs somewhere
    // for all: one of another test, which has none, and waits as long.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    log_waits_longer_than(Some(Duration::from_millis(1)));
    wait_within_a_wait("by a subscriber", |event, subscriber| {
        tracing::subscriber::with_default(subscriber, || event.wait().unwrap());
    });
    log_waits_longer_than(None);
}

/// A driver that waits for something when it is told that one of a command's waits is over.
#[derive(Default)]
struct Curious(Mutex<Option<Event>>);

// SAFETY: it runs commands that touch no memory.
unsafe impl Driver for Curious {
    fn name(&self) -> &'static str {
        "curious"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        let cpu = CpuDriver::start(Options::new().workers(NonZero::<usize>::MIN)).unwrap();
        let device = cpu.devices().remove(0);
        vec![DeviceProperties {
            domain: Some(0),
            ..device
        }]
    }

    fn submit(&self, _: Submission<'_>) {}

    fn notify(&self, notification: Notification) {
        match notification {
            Notification::Resolved(_) => {
                let event = lock(&self.0).take();
                event.into_iter().for_each(|event| event.wait().unwrap());
            }
            Notification::Ready(command) => {
                let started = command.start();
                command.finish(started, &mut ToDrivers);
            }
        }
    }
}

/// A pool of one worker that is at a task, and a queue of another driver in the same context.
/// Neither queue has an order.
struct Beside {
    queue: Queue,
    others: Queue,
    /// The task, which ends when `go` is dropped.
    first: Event,
    go: mpsc::Sender<()>,
}

fn beside(driver: Arc<dyn Driver>) -> Beside {
    let (_, device, _) = pool_of(NonZero::<usize>::MIN);
    let other = Device::all_of(&driver).unwrap();
    let context = Context::new(&[device.clone(), other[0].clone()]).unwrap();
    let options = QueueOptions {
        in_order: false,
        ..QueueOptions::default()
    };
    let queue = context.queue(&device, options).unwrap();
    let others = context.queue(&other[0], options).unwrap();
    let (tell, told) = mpsc::channel();
    let (go, going) = mpsc::channel::<()>();
    let first = task(&queue, move || {
        tell.send(()).unwrap();
        assert!(going.recv().is_err(), "nothing is ever sent");
    });
    told.recv().unwrap();
    Beside {
        queue,
        others,
        first,
        go,
    }
}

/// A command that does nothing after these.
fn after(queue: &Queue, waits: &[Event]) -> Event {
    let request = Request {
        waits,
        ..Request::default()
    };
    queue.host_task(|_| Ok(()), &request).unwrap()
}

/// It is told on the only worker, which has gathered others that the same end made ready.
#[test]
fn who_waits_between_two_dependants_leaves_the_others_to_another_thread() {
    let curious = Arc::new(Curious::default());
    let Beside {
        queue,
        others,
        first,
        go,
    } = beside(curious.clone());
    let gate = UserEvent::new();
    let told_of = after(&others, &[first.clone(), gate.event()]);
    let gathered = [(); 3].map(|()| after(&queue, std::slice::from_ref(&first)));
    *lock(&curious.0) = Some(gathered[2].clone());
    drop(go);
    for event in gathered {
        event.wait_timeout(Duration::from_secs(60)).unwrap();
    }
    gate.complete();
    told_of.wait().unwrap();
}

/// A driver that keeps a command, and ends it when it is told that one of another command's waits
/// is over.
#[derive(Default)]
struct Keeps(Mutex<Option<Command>>);

// SAFETY: it runs commands that touch no memory.
unsafe impl Driver for Keeps {
    fn name(&self) -> &'static str {
        "keeps"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        Curious::default().devices()
    }

    fn submit(&self, _: Submission<'_>) {}

    fn notify(&self, notification: Notification) {
        match notification {
            Notification::Ready(command) => *lock(&self.0) = Some(command),
            Notification::Resolved(_) => {
                let kept = lock(&self.0).take();
                kept.into_iter()
                    .for_each(|command| command.finish(Ok(()), &mut ToDrivers));
            }
        }
    }
}

#[test]
fn a_callback_of_what_a_driver_ends_between_two_dependants_may_wait_for_the_second() {
    let keeps = Arc::new(Keeps::default());
    let Beside {
        queue,
        others,
        first,
        go,
    } = beside(keeps.clone());
    let kept = after(&others, &[]);
    let gate = UserEvent::new();
    // Of both orders in the list, one is the wrong one.
    let before = after(&queue, std::slice::from_ref(&first));
    let told_of = after(&others, &[first.clone(), gate.event()]);
    let behind = after(&queue, std::slice::from_ref(&first));
    let (tell, told) = mpsc::channel();
    kept.on_complete(move |_| {
        let waited = [before, behind].map(|event| event.wait_timeout(Duration::from_secs(60)));
        tell.send(waited).unwrap();
    });
    drop(go);
    for waited in told.recv().unwrap() {
        waited.unwrap();
    }
    // Kept, as the first was.
    gate.complete();
    drop(told_of);
    let last = lock(&keeps.0).take();
    last.into_iter()
        .for_each(|command| command.finish(Ok(()), &mut ToDrivers));
}

/// A brief kernel that says when it runs.
struct Brief(mpsc::Sender<()>);

impl quipu_scheduler::operation::NativeKernel for Brief {
    fn name(&self) -> &'static str {
        "brief"
    }

    unsafe fn run(
        &self,
        _: &[quipu_scheduler::RawArgument],
        _: Range<u32>,
    ) -> Result<(), quipu_scheduler::Error> {
        self.0.send(()).unwrap();
        Ok(())
    }

    fn is_brief(&self, _: u32) -> bool {
        true
    }
}

/// Read once the first kernel has run, it waits for the second to run.
struct Patient {
    pool: Arc<Pool>,
    first: Mutex<mpsc::Receiver<()>>,
    second: Mutex<mpsc::Receiver<()>>,
}

impl Clock for Patient {
    fn now(&self) -> Duration {
        if lock(&self.first).try_recv().is_ok() {
            let second = lock(&self.second).recv_timeout(Duration::from_secs(20));
            second.expect("nobody else can run it");
        }
        Duration::ZERO
    }

    fn park(&self, _: Duration) {
        // For tasks that were put there without a wake.
        self.pool.wake_for(POOL_DEVICE);
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// A thread that helps has commands at hand that no other thread sees. A clock may block.
#[test]
fn who_has_to_read_a_users_clock_keeps_nothing_to_itself() {
    let (pool, device, context) = pool_of(NonZero::<usize>::MIN);
    let queue = context.queue(&device, QueueOptions::default()).unwrap();
    let busy = occupy(&device, &context, 1);
    let launch = |waits: &[Event]| {
        let (tell, told) = mpsc::channel();
        let request = Request {
            waits,
            ..Request::default()
        };
        (
            queue.launch(Brief(tell), 1, &request).unwrap(),
            Mutex::new(told),
        )
    };
    let (before, first) = launch(&[]);
    let (event, second) = launch(&[before]);
    let taken = pool.take_injected(pool.worker_count, Priority::Normal);
    for (end, occupied) in busy {
        drop(end);
        occupied.wait().unwrap();
    }
    while pool.sleep.asleep() < 1 {
        std::thread::yield_now();
    }
    pool.own.injectors[level(Priority::Normal)].push(taken.expect("nobody else takes it"));
    let clock = Patient {
        pool,
        first,
        second,
    };
    event
        .wait_with_clock(Duration::from_secs(1), &clock)
        .unwrap();
}
