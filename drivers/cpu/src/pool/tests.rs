//! The pool in moments that are too short to be met by chance.

use super::*;
use crate::{CpuDriver, Options};
use quipu_core::command::ToDrivers;
use quipu_core::{
    Access, AccessMode, Context, Device, Driver, Event, MemoryRef, Partition, Queue, QueueOptions,
    Request, UserEvent,
};
use std::sync::mpsc;

fn pool_of(workers: NonZero<usize>) -> (Arc<Pool>, Device, Context) {
    let driver = CpuDriver::start(Options::new().workers(workers)).unwrap();
    let pool = driver.pool().clone();
    let driver: Arc<dyn Driver> = driver;
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    (pool, devices[0].clone(), context)
}

fn task(queue: &Queue, run: impl FnOnce() + Send + 'static) -> Event {
    let run = move |_: &[quipu_core::RawArgument]| {
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
        // Where the guest puts the other one back.
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

/// A worker that was woken for its sub-device's task finds something else to do, and others look meanwhile who may not
/// run that task: it must wake one that may, which sleeps.
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
    // It is there again, and the wake for it was worker 2's, who has taken something else.
    let team = pool.team(number);
    assert!(team.workers.contains(2) && team.range.len() == 2);
    pool.elsewhere.fetch_add(1, Ordering::Relaxed);
    team.injectors[level(Priority::Normal)].push(taken.expect("nobody else takes it"));
    pool.pass_on_wake(2, false);
    // Who waits for the task would run it.
    runs.recv_timeout(std::time::Duration::from_secs(60))
        .unwrap();
}

/// Keeps which groups were run together, and where.
struct Ranges(mpsc::Sender<(std::thread::ThreadId, Range<u32>)>);

impl quipu_core::operation::NativeKernel for Ranges {
    fn name(&self) -> &'static str {
        "ranges"
    }

    unsafe fn run(
        &self,
        _: &[quipu_core::RawArgument],
        groups: Range<u32>,
    ) -> quipu_core::Result<()> {
        let here = std::thread::current().id();
        self.0.send((here, groups)).unwrap();
        Ok(())
    }
}

/// After each command of a chain, while the thread that has run it is held up, the other worker comes,
/// looks everywhere and finds nothing. Nor does it where others were to have a turn.
#[test]
fn a_chain_never_changes_threads() {
    const LENGTH: usize = 70;
    let workers = NonZero::new(2).unwrap();
    let (pool, device, context) = pool_of(workers);
    let queue = context.queue(&device, QueueOptions::default()).unwrap();
    let (ran, hears) = mpsc::channel();
    // Commands of the chain say how they are let go.
    let (say, said) = mpsc::channel::<Option<mpsc::Sender<()>>>();
    let gate = UserEvent::new();
    let mut last = gate.event();
    for _ in 0..LENGTH {
        let request = Request {
            waits: &[last],
            ..Request::default()
        };
        last = queue.launch(Ranges(ran.clone()), 1, &request).unwrap();
        let say = say.clone();
        // What comes next is ready by then.
        last.on_complete(move |_| {
            let (go, going) = mpsc::channel();
            let _ = say.send(Some(go));
            let _ = going.recv();
        });
    }
    gate.complete();
    for _ in 0..LENGTH {
        let go = said.recv().unwrap().unwrap();
        let say = say.clone();
        task(&queue, move || say.send(None).unwrap());
        let other = said.recv().unwrap();
        assert!(other.is_none(), "the other worker has the next");
        while pool.sleep.asleep() == 0 {
            std::thread::yield_now();
        }
        go.send(()).unwrap();
    }
    drop(ran);
    let threads: Vec<_> = hears.iter().map(|(thread, _)| thread).collect();
    assert_eq!(threads, [threads[0]; LENGTH]);
}

/// Who leaves little tasks to others comes when invited all the same.
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

/// Who knows nothing of a kernel runs one group alone first. A thread that waits is a guest for as long as that, and does so
/// once, not each time.
#[test]
fn a_guest_knows_what_the_one_before_it_has_measured() {
    // Where there is one worker, nothing is shared.
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
        let (tell, told) = mpsc::channel();
        let busy: Vec<_> = (0..workers.get())
            .map(|_| {
                let (tell, (end, ends)) = (tell.clone(), mpsc::channel::<()>());
                task(&queue, move || {
                    tell.send(()).unwrap();
                    assert!(ends.recv().is_err(), "nothing is ever sent");
                });
                told.recv().unwrap();
                end
            })
            .collect();
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
    let to = unsafe { quipu_core::operation::HostMemory::new(byte.as_mut_ptr(), 1, None) };
    queue.read(from, to, 1, &[], &[]).unwrap().wait().unwrap();
    byte[0]
}

/// The only worker takes from its deque without a fence, so nobody else may take of it. (A guest that does may be running
/// what that worker runs, too.)
#[test]
fn a_guest_takes_nothing_of_the_only_workers_deque() {
    for workers in [1, 2] {
        let (pool, device, context) = pool_of(NonZero::new(workers).unwrap());
        // All are busy while this thread puts a task into the first one's deque.
        let (tell, told) = mpsc::channel();
        let busy: Vec<_> = (0..workers)
            .map(|_| {
                let (tell, (end, ends)) = (tell.clone(), mpsc::channel::<()>());
                let queue = context.queue(&device, QueueOptions::default()).unwrap();
                let occupied = task(&queue, move || {
                    tell.send(()).unwrap();
                    assert!(ends.recv().is_err(), "nothing is ever sent");
                });
                told.recv().unwrap();
                (end, occupied)
            })
            .collect();
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
