//! Many host threads at once.

use super::cases;
use crate::Fixture;
use crate::support::*;
use quipu_scheduler::{Event, QueueOptions, RawArgument, Request, UserEvent};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

cases! {
    Anything:
        many_threads_enqueue_to_one_queue,
        buffers_taken_in_opposite_order,
        barriers_from_many_threads,
        gates_opened_while_others_enqueue,
        barriers_that_write_beside_readers,
        failures_while_others_enqueue,
        contexts_by_the_thread;
}

const THREADS: u64 = 4;

fn many_threads_enqueue_to_one_queue(fixture: &dyn Fixture) {
    const EACH: u64 = 2000;
    let stage = Stage::new(fixture);
    for options in [QueueOptions::default(), OUT_OF_ORDER] {
        let queue = stage.queue(options);
        let sum = stage.memory(8);
        let own: Vec<_> = (0..THREADS).map(|_| stage.memory(8)).collect();
        std::thread::scope(|scope| {
            for own in &own {
                let (queue, sum) = (queue.clone(), sum.clone());
                scope.spawn(move || {
                    for n in 0..EACH {
                        fold(&queue, own, n, &[]);
                        launch(&queue, &[updates(&sum)], &[], |a| {
                            store(&a[0], load(&a[0]) + 1);
                            Ok(())
                        });
                    }
                });
            }
        });
        queue.wait().unwrap();
        assert_eq!(read_number(&queue, &sum), THREADS * EACH);
        for own in &own {
            assert_eq!(read_number(&queue, own), folded(0..EACH));
        }
    }
}

fn buffers_taken_in_opposite_order(fixture: &dyn Fixture) {
    const EACH: u64 = 3000;
    let stage = Stage::new(fixture);
    let memories: Vec<_> = (0..3).map(|_| stage.memory(8)).collect();
    std::thread::scope(|scope| {
        for thread in 0..THREADS as usize {
            let queue = stage.queue(if thread % 2 == 0 {
                OUT_OF_ORDER
            } else {
                QueueOptions::default()
            });
            let memories = &memories;
            scope.spawn(move || {
                for n in 0..EACH as usize {
                    // Every order of two of the three.
                    let first = (thread + n) % 3;
                    let second = (first + 1 + (thread + n / 3) % 2) % 3;
                    let accesses = [updates(&memories[first]), updates(&memories[second])];
                    launch(&queue, &accesses, &[], |a| {
                        // The same amount is added to both: a lost update shows.
                        for argument in a {
                            store(argument, load(argument) + 1);
                        }
                        Ok(())
                    });
                }
                queue.flush();
            });
        }
    });
    let queue = stage.in_order();
    let sum: u64 = memories.iter().map(|m| read_number(&queue, m)).sum();
    assert_eq!(sum, 2 * THREADS * EACH);
}

fn barriers_from_many_threads(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for options in [QueueOptions::default(), OUT_OF_ORDER] {
        let queue = stage.queue(options);
        let ran = Arc::new(AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (queue, ran) = (queue.clone(), ran.clone());
                scope.spawn(move || {
                    let mine = Arc::new(AtomicU64::new(0));
                    for n in 0..500_u64 {
                        let (ran, mine, counted) = (ran.clone(), mine.clone(), n);
                        launch(&queue, &[], &[], move |_| {
                            ran.fetch_add(1, Ordering::SeqCst);
                            // Those of this thread before its last barrier.
                            let before = mine.fetch_add(1, Ordering::SeqCst);
                            if before >= counted / 10 * 10 {
                                Ok(())
                            } else {
                                Err(boom("overtook a barrier"))
                            }
                        })
                        .on_complete(|_| ());
                        if n % 10 == 9 {
                            let barrier = queue.barrier(&[]).unwrap();
                            if thread == 0 {
                                barrier.on_complete(|_| ());
                            }
                        }
                        if n % 97 == 0 {
                            queue.marker(&[]).unwrap();
                        }
                    }
                    let failed = mine.clone();
                    queue.barrier(&[]).unwrap();
                    launch(&queue, &[], &[], move |_| {
                        assert_eq!(failed.load(Ordering::SeqCst), 500);
                        Ok(())
                    })
                });
            }
        });
        queue.wait().unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), THREADS * 500);
    }
}

fn gates_opened_while_others_enqueue(fixture: &dyn Fixture) {
    const EACH: u64 = 1000;
    let stage = Stage::new(fixture);
    let ran = Arc::new(AtomicU64::new(0));
    let (gates, opener) = std::sync::mpsc::channel::<UserEvent>();
    std::thread::scope(|scope| {
        // One thread opens gates as they come, others enqueue behind them.
        scope.spawn(move || opener.into_iter().for_each(UserEvent::complete));
        for _ in 0..THREADS - 1 {
            let (queue, ran, gates) = (stage.out_of_order(), ran.clone(), gates.clone());
            scope.spawn(move || {
                let mut last: Option<Event> = None;
                for _ in 0..EACH {
                    let gate = UserEvent::new();
                    let mut waits = vec![gate.event()];
                    waits.extend(last.take());
                    gates.send(gate).unwrap();
                    let ran = ran.clone();
                    last = Some(launch(&queue, &[], &waits, move |_| {
                        ran.fetch_add(1, Ordering::SeqCst);
                        Ok(())
                    }));
                }
                queue.flush();
            });
        }
        drop(gates);
    });
    while ran.load(Ordering::SeqCst) < (THREADS - 1) * EACH {
        std::thread::yield_now();
    }
}

/// A barrier of a queue writes what other threads' commands of that queue read. Whichever comes
/// first in the queue comes first at the buffer: else each would wait for the other.
fn barriers_that_write_beside_readers(fixture: &dyn Fixture) {
    // As many as devices do in about the same time.
    let each = fixture.longest_chain() / 10;
    let stage = Stage::new(fixture);
    let (queue, memory) = (stage.in_order(), stage.memory(8));
    let over: Vec<Event> = (0..7)
        .map(|_| {
            let user = UserEvent::new();
            let event = user.event();
            user.complete();
            event
        })
        .collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..each {
                // Explicit waits take their time between the first step of an enqueue and the last.
                launch(&queue, &[reads(&memory)], &over, |_| Ok(()));
                if n % 64 == 0 {
                    queue.wait().unwrap();
                }
            }
        });
        scope.spawn(|| {
            for n in 0..each / 4 {
                let request = Request {
                    accesses: &[updates(&memory)],
                    unknown_access: true,
                    ..Request::default()
                };
                let count = |a: &[RawArgument]| {
                    store(&a[0], load(&a[0]) + 1);
                    Ok(())
                };
                queue.host_task(count, &request).unwrap();
                if n % 16 == 0 {
                    queue.wait().unwrap();
                }
            }
        });
    });
    assert_eq!(read_number(&queue, &memory), each / 4);
}

fn failures_while_others_enqueue(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let memory = stage.memory(64);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (queue, memory) = (stage.out_of_order(), memory.clone());
            scope.spawn(move || {
                for n in 0..1000_u64 {
                    let start = (thread * 8 + n) % 56;
                    let range = part(
                        &memory,
                        start..start + 8,
                        quipu_scheduler::AccessMode::Overwrite,
                    );
                    match n % 3 {
                        0 => failing(&queue, &[range], &[]),
                        1 => nothing(&queue, &[reads(&memory)], &[]),
                        _ => fold(&queue, &memory, n, &[]),
                    };
                }
                queue.flush();
            });
        }
    });
    // All is well once it is overwritten, whatever happened.
    let queue = stage.in_order();
    write_all(&queue, &memory, &[9; 64]).wait().unwrap();
    assert_eq!(read_all(&queue, &memory), [9; 64]);
}

fn contexts_by_the_thread(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..20 {
                    let context = quipu_scheduler::Context::new(&stage.devices).unwrap();
                    let queue = context
                        .queue(&stage.devices[0], QueueOptions::default())
                        .unwrap();
                    let memory = context.memory(8).unwrap();
                    for n in 0..50 {
                        fold(&queue, &memory, n, &[]);
                    }
                    queue.flush();
                }
            });
        }
    });
}
