//! Queues: order, markers, barriers, priorities, profiling.

use super::{context, each_queue, pool};
use quipu::diagnostics::wait_graph;
use quipu::drivers::{Options, SimDriver};
use quipu::prelude::*;
use quipu::simulation::{Configuration, RacePolicy};
use quipu::{ErrorKind, Phase};
use quipu_conformance::Watchdog;
use quipu_scheduler::event::refuse_waits;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

#[test]
fn commands_without_a_hazard_do_not_wait_for_each_other() {
    let (context, queue) = pool();
    let gate = UserEvent::new();
    let (mut x, mut y) = (
        context.allocate::<u32>(4).unwrap(),
        context.allocate::<u32>(4).unwrap(),
    );
    let held = queue
        .after([gate.event()])
        .for_each(&mut x, (), |_, x, ()| *x = 1)
        .unwrap();
    queue.for_each(&mut y, (), |_, y, ()| *y = 2).unwrap();
    // Another queue sees the effect, while this one's host still waits in order.
    let other = context.queue(&context.fastest()).unwrap();
    assert_eq!(other.read(&y).unwrap().wait().unwrap(), [2; 4]);
    assert!(!held.is_complete());
    gate.complete();
    queue.wait().unwrap();
}

#[test]
fn the_host_sees_an_in_order_queues_ends_in_order() {
    let (context, queue) = pool();
    let gate = UserEvent::new();
    let (mut x, mut y) = (
        context.allocate::<u32>(4).unwrap(),
        context.allocate::<u32>(4).unwrap(),
    );
    let first = queue
        .after([gate.event()])
        .for_each(&mut x, (), |_, x, ()| *x = 1)
        .unwrap();
    let second = queue.for_each(&mut y, (), |_, y, ()| *y = 2).unwrap();
    let other = context.queue(&context.fastest()).unwrap();
    other.read(&y).unwrap().wait().unwrap();
    assert!(!second.is_complete() && !first.is_complete());
    gate.complete();
    second.wait().unwrap();
    assert!(first.is_complete());
    assert_eq!(first.phase(), Phase::Complete);
}

#[test]
fn hazards_order_commands_of_different_queues_and_devices() {
    let context = context();
    let mut buffer = context.allocate::<u32>(8).unwrap();
    let queues: Vec<_> = context
        .devices()
        .iter()
        .flat_map(|device| {
            let out_of_order = QueueOptions {
                in_order: false,
                ..QueueOptions::default()
            };
            [
                context.queue(device).unwrap(),
                context.queue_with(device, out_of_order).unwrap(),
            ]
        })
        .collect();
    let mut expected = 0u32;
    for round in 0..20u32 {
        for queue in &queues {
            queue
                .for_each(&mut buffer, (round,), |_, x, (by,)| {
                    *x = x.wrapping_mul(3) + by
                })
                .unwrap();
            expected = expected.wrapping_mul(3).wrapping_add(round);
        }
    }
    assert_eq!(
        queues[0].read(&buffer).unwrap().wait().unwrap(),
        [expected; 8]
    );
}

#[test]
fn a_queue_waits_for_an_event_of_another() {
    each_queue(|context, queue| {
        let gate = UserEvent::new();
        let other = context.queue(&context.devices()[0]).unwrap();
        let event = other.after([gate.event()]).host_task(|| 1).unwrap();
        queue.wait_for(event.event()).unwrap();
        let task = queue.host_task(|| 2).unwrap();
        assert!(!task.is_complete() && !queue.is_empty());
        gate.complete();
        assert_eq!(task.wait().unwrap(), 2);
        assert!(event.is_complete());
        queue.wait().unwrap();
        assert!(queue.is_empty());
    });
}

#[test]
fn markers_and_barriers_of_an_out_of_order_queue() {
    let context = context();
    let options = QueueOptions {
        in_order: false,
        ..QueueOptions::default()
    };
    let queue = context.queue_with(&context.fastest(), options).unwrap();
    let gate = UserEvent::new();
    let held = queue.after([gate.event()]).host_task(|| ()).unwrap();
    let marker = queue.marker().unwrap();
    assert_eq!(queue.host_task(|| 1).unwrap().wait().unwrap(), 1); // passes the marker
    // With a list, a marker waits for that alone.
    let over = queue.host_task(|| ()).unwrap();
    queue
        .after([over.event().clone()])
        .marker()
        .unwrap()
        .wait()
        .unwrap();
    let barrier = queue.barrier().unwrap();
    let behind = queue.host_task(|| 2).unwrap();
    assert!(!marker.is_complete() && !barrier.is_complete() && !behind.is_complete());
    gate.complete();
    assert_eq!(behind.wait().unwrap(), 2);
    assert!(held.is_complete() && marker.is_complete() && barrier.is_complete());
}

#[test]
fn every_enqueue_of_a_blocking_queue_is_over_when_it_returns() {
    let context = context();
    for device in context.devices() {
        let options = QueueOptions {
            blocking: true,
            ..QueueOptions::default()
        };
        let queue = context.queue_with(device, options).unwrap();
        let mut buffer = context.allocate::<u32>(100).unwrap();
        let event = queue
            .for_each(&mut buffer, (), |i, x, ()| *x = i as u32)
            .unwrap();
        assert!(event.is_complete());
        assert!(queue.read(&buffer).unwrap().is_complete());
        assert!(queue.is_empty());
    }
}

#[test]
fn a_blocking_enqueue_lasts_until_another_thread_completes_its_event() {
    for driver in ["cpu", "serial"] {
        let platform = Platform::new().unwrap();
        let context = platform.device(driver).unwrap().context().unwrap();
        let options = QueueOptions {
            blocking: true,
            ..QueueOptions::default()
        };
        let queue = context.queue_with(&context.fastest(), options).unwrap();
        let gate = UserEvent::new();
        let later = queue.named("behind").after([gate.event()]);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !wait_graph().contains("for 'behind'") {
                    std::thread::yield_now();
                }
                gate.complete();
            });
            let task = later.host_task(|| 1).unwrap();
            assert!(task.is_complete(), "{driver}");
            assert_eq!(task.wait().unwrap(), 1);
        });
    }
}

#[test]
fn a_blocking_enqueue_that_must_not_wait_is_an_error() {
    let (context, queue) = pool();
    let options = QueueOptions {
        blocking: true,
        ..QueueOptions::default()
    };
    let queue = context.queue_with(queue.device(), options).unwrap();
    let gate = UserEvent::new();
    let has_run = Arc::new(AtomicBool::new(false));
    let run = has_run.clone();
    let task = move || run.store(true, Ordering::SeqCst);
    let outer = refuse_waits(Some("it is this test that must not wait"));
    let error = queue.after([gate.event()]).host_task(task).unwrap_err();
    refuse_waits(outer);
    assert!(
        matches!(error.kind(), ErrorKind::WouldDeadlock { .. }),
        "{error}"
    );
    gate.complete();
    queue.wait().unwrap();
    // Who was told that it failed may have done it in another way.
    assert!(!has_run.load(Ordering::SeqCst), "it was cancelled");
}

#[test]
fn timestamps_are_in_order_and_only_kept_when_asked_for() {
    let context = context();
    for device in context.devices() {
        let options = QueueOptions {
            profiling: true,
            ..QueueOptions::default()
        };
        let queue = context.queue_with(device, options).unwrap();
        assert!(queue.options().profiling);
        let mut buffer = context.allocate::<u32>(100).unwrap();
        let event = queue
            .for_each(&mut buffer, (), |i, x, ()| *x = i as u32)
            .unwrap();
        event.wait().unwrap();
        let times = event.profile().unwrap();
        let order = [
            times.queued_ns,
            times.submitted_ns,
            times.started_ns,
            times.ended_ns,
        ];
        assert!(
            times.queued_ns > 0 && order.is_sorted(),
            "{device}: {order:?}"
        );
    }
    if std::env::var_os("QUIPU_TRACE").is_none() {
        let queue = context.queue(&context.fastest()).unwrap();
        assert_eq!(queue.marker().unwrap().profile(), None);
    }
}

#[test]
fn priorities_are_accepted_everywhere() {
    let context = context();
    for priority in [Priority::Low, Priority::Normal, Priority::High] {
        for device in context.devices() {
            let options = QueueOptions {
                priority,
                ..QueueOptions::default()
            };
            let queue = context.queue_with(device, options).unwrap();
            assert_eq!(queue.host_task(|| 1).unwrap().wait().unwrap(), 1);
        }
    }
}

#[test]
fn what_is_urgent_overtakes_on_a_busy_device() {
    let one = std::num::NonZero::new(1).unwrap();
    let platform = Platform::builder().cpu(Options::new().workers(one));
    let cpu = platform.build().unwrap().device("cpu").unwrap();
    let context = cpu.context().unwrap();
    let queue = |priority| {
        let options = QueueOptions {
            priority,
            in_order: false,
            ..QueueOptions::default()
        };
        context.queue_with(&cpu, options).unwrap()
    };
    let [low, normal, high] = [Priority::Low, Priority::Normal, Priority::High].map(queue);
    // The only worker is kept busy while everything else becomes ready.
    let (begun, has_begun) = channel();
    let (go, may_go) = channel::<()>();
    normal
        .host_task(move || {
            begun.send(()).unwrap();
            may_go.recv().unwrap();
        })
        .map(drop)
        .unwrap();
    has_begun.recv().unwrap();
    let (ran, order) = channel();
    for round in 0..3 {
        for (name, queue) in [("low", &low), ("normal", &normal), ("high", &high)] {
            let ran = ran.clone();
            let task = move || ran.send((name, round)).unwrap();
            drop(queue.host_task(task).unwrap());
        }
    }
    drop(ran);
    go.send(()).unwrap();
    // Nobody waits but on the channel: a thread that waits for a command may help.
    let order: Vec<_> = order.iter().map(|(name, _)| name).collect();
    assert_eq!(order[..3], ["high"; 3]);
    assert_eq!(order[3..6], ["normal"; 3]);
    assert_eq!(order[6..], ["low"; 3]);
}

#[test]
fn a_failed_wait_fails_the_command_and_names_the_first_cause() {
    each_queue(|_, queue| {
        let gate = UserEvent::new();
        let first = queue.after([gate.event()]).host_task(|| 1).unwrap();
        let second = queue
            .after([first.event().clone()])
            .host_task(|| 2)
            .unwrap();
        gate.fail("the gate fell over");
        for error in [first.wait().unwrap_err(), second.wait().unwrap_err()] {
            assert!(
                matches!(error.kind(), ErrorKind::Dependency { .. }),
                "{error}"
            );
            assert!(
                error
                    .first_cause()
                    .to_string()
                    .contains("the gate fell over"),
                "{error}"
            );
        }
    });
}

/// A wait flushes whatever needs it, also queues of other threads, which may be
/// just gone.
#[test]
fn threads_with_contexts_of_their_own_do_not_meet() {
    let threads: Vec<_> = (0..4u32)
        .map(|thread| {
            std::thread::spawn(move || {
                for round in 0..50 {
                    let context = context();
                    let queue = context.queue(context.devices().last().unwrap()).unwrap();
                    let buffer = context.allocate::<u32>(8).unwrap();
                    queue.fill(&buffer, thread + round).unwrap();
                    let read = queue.read(&buffer).unwrap().wait().unwrap();
                    assert_eq!(read, [thread + round; 8]);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn commands_whose_futures_are_dropped_take_effect_in_order() {
    each_queue(|context, queue| {
        let buffer = context.allocate::<u32>(4).unwrap();
        let (low, high) = buffer.split_at(2).unwrap();
        queue.fill(&buffer, 2).unwrap();
        queue
            .post_for_each(&mut low.clone(), (&high,), |i, x, (high,)| *x += high[i])
            .unwrap();
        queue.copy(&low, &high).unwrap();
        drop(queue.write(&low, [9, 9]).unwrap());
        let (sender, receiver) = std::sync::mpsc::channel();
        drop(queue.host_task(move || sender.send(()).unwrap()).unwrap());
        assert_eq!(queue.read(&buffer).unwrap().wait().unwrap(), [9, 9, 4, 4]);
        receiver.recv().unwrap();
    });
}

#[test]
fn commands_whose_futures_are_dropped_take_regions_and_buffers() {
    each_queue(|context, queue| {
        let view = context.allocate_nd::<u32, 2>([2, 3]).unwrap();
        let dense = Layout::dense([2, 3]).unwrap();
        let write = [1, 2, 3, 4, 5, 6];
        drop(queue.write_nd(&view, write, &dense).unwrap());
        let column = |at| view.region([0..2, at..at + 1]).unwrap();
        let row = |at| view.region([at..at + 1, 0..3]).unwrap();
        queue.copy_nd(&row(0), &row(1)).unwrap();
        queue.fill_nd(&column(1), 9).unwrap();
        let mut buffer = view.buffer().clone();
        queue
            .host_task_with((&mut buffer, 10u32), |(cells, by)| {
                cells.iter_mut().for_each(|cell| *cell *= by);
            })
            .map(drop)
            .unwrap();
        let read = queue.read_nd(&view).unwrap().wait().unwrap();
        assert_eq!(read, [10, 90, 30, 10, 90, 30]);
        let (sender, receiver) = channel();
        queue
            .try_host_task(move || sender.send(7).map_err(|_| "nobody listens"))
            .map(drop)
            .unwrap();
        queue
            .try_host_task(|| Err::<(), _>("nobody sees this"))
            .map(drop)
            .unwrap();
        queue.wait().unwrap();
        assert_eq!(receiver.recv().unwrap(), 7);
    });
}

/// A simulated device with room for two buffers of [`LENGTH`], and nothing beside them; commands on
/// the same bytes that nothing orders fail. Its queue does not keep order: what does is the
/// buffers.
fn room_for_two() -> (Arc<SimDriver>, Queue) {
    let mut machine = Configuration::separate_memory(1, 2 * BYTES);
    machine.races = RacePolicy::Fail;
    let driver = SimDriver::start(machine).unwrap();
    let platform = Platform::builder()
        .without_embedded()
        .driver(driver.clone());
    let context = platform.build().unwrap().context().unwrap();
    let options = QueueOptions {
        in_order: false,
        ..QueueOptions::default()
    };
    let queue = context.queue_with(&context.devices()[0], options).unwrap();
    (driver, queue)
}

/// Long enough for anything that does not hang.
const PATIENCE: Duration = Duration::from_secs(60);
const LENGTH: usize = 1024;
const BYTES: u64 = 8 * LENGTH as u64;

#[test]
fn a_queues_buffer_has_memory_from_its_first_command_to_its_last() {
    let (_, queue) = room_for_two();
    let free = || queue.device().free_memory();
    // Many more than there is memory for, which none of them has.
    let unused: Vec<Buffer<u64>> = (0..100).map(|_| queue.allocate(LENGTH).unwrap()).collect();
    assert_eq!(free(), Some(2 * BYTES));
    let mut buffer = queue.allocate::<u64>(LENGTH).unwrap();
    queue.fill(&buffer, 1).unwrap().wait().unwrap();
    assert_eq!(free(), Some(BYTES));
    // The handle goes before its last command runs; the memory does not.
    let gate = UserEvent::new();
    let last = queue
        .after([gate.event()])
        .for_each(&mut buffer, (), |_, x, ()| *x += 1)
        .unwrap();
    drop(buffer);
    queue.flush();
    assert!(!last.is_complete());
    assert_eq!(free(), Some(BYTES));
    gate.complete();
    last.wait().unwrap();
    queue.wait().unwrap();
    let watchdog = Watchdog::start(PATIENCE, "memory that is given back".to_owned());
    while free() != Some(2 * BYTES) {
        // Whoever ends the last command frees it.
        std::thread::yield_now();
    }
    drop((watchdog, unused));
    assert_eq!(free(), Some(2 * BYTES));
}

#[test]
fn buffers_of_a_queue_take_turns_with_the_memory_and_each_finds_zeros() {
    const ROUNDS: u64 = 40;
    let (driver, queue) = room_for_two();
    let mut sums = queue.allocate::<u64>(1).unwrap();
    // All are enqueued before the first runs, and nobody waits between.
    let gate = UserEvent::new();
    let mut events = vec![];
    for round in 1..=ROUNDS {
        let mut buffer = queue.allocate::<u64>(LENGTH / 2).unwrap();
        let write = queue.after([gate.event()]);
        let write = write.for_each(&mut buffer, (round,), |i, x, (by,)| *x += by + i as u64);
        events.push(write.unwrap());
        // Dropped when neither has run yet.
        let add = |_, sum: &mut u64, (x,): (&[u64],)| *sum += x.iter().sum::<u64>();
        events.push(queue.for_each(&mut sums, (&buffer,), add).unwrap());
    }
    queue.flush();
    assert!(events.iter().all(|event| !event.is_complete()));
    gate.complete();
    for event in events {
        event.wait().unwrap();
    }
    let half = LENGTH as u64 / 2;
    let each = |round| half * round + half * (half - 1) / 2;
    let sum = (1..=ROUNDS).map(each).sum::<u64>();
    assert_eq!(queue.read(&sums).unwrap().wait().unwrap(), [sum]);
    assert_eq!(driver.races(), 0);
}

#[test]
fn a_queues_buffer_is_the_contexts() {
    let context = context();
    let queues: Vec<_> = context
        .devices()
        .iter()
        .map(|device| context.queue(device).unwrap())
        .collect();
    for queue in &queues {
        // Of zeros, whichever device looks first.
        let mut buffer = queue.allocate::<u32>(9).unwrap();
        for other in &queues {
            assert_eq!(other.read(&buffer).unwrap().wait().unwrap(), [0; 9]);
        }
        for other in &queues {
            other
                .for_each(&mut buffer, (), |i, x, ()| *x += i as u32)
                .unwrap();
        }
        let count = queues.len() as u32;
        let expected: Vec<u32> = (0..9).map(|i| count * i).collect();
        assert_eq!(queue.read(&buffer).unwrap().wait().unwrap(), expected);
        // Sizes are checked as a context's are.
        for length in [usize::MAX / 8, usize::MAX] {
            let error = queue.allocate::<u32>(length).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::InvalidSize { .. }));
        }
    }
}
