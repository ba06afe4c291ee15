//! Threads that end: a thread-local of the user's that is dropped then uses the core as any code
//! does. What the core, a driver and what it calls keep for a thread may be gone by then, as
//! thread-locals are dropped in the opposite order of their first use.

use super::cases;
use crate::Fixture;
use crate::support::*;
use quipu_scheduler::{MemoryRef, Queue, QueueOptions, UserEvent};
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

cases! {
    Anything:
        a_thread_local_enqueues_waits_and_drops,
        a_callback_on_a_thread_that_ends_waits;
}

/// The last work of a thread.
struct AtEnd(Box<dyn FnOnce()>);

thread_local! {
    static AT_END: RefCell<Option<Last>> = const { RefCell::new(None) };
}

struct Last {
    work: Option<AtEnd>,
    panic: Panic,
}

/// The panic of what was done, if there was one: of a thread that has ended.
type Panic = Arc<Mutex<Option<Box<dyn Any + Send>>>>;

impl Drop for Last {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            // A panic in the destructor of a thread-local would end the process.
            let outcome = catch_unwind(AssertUnwindSafe(work.0));
            *self.panic.lock().unwrap() = outcome.err();
        }
    }
}

/// Does something as this thread ends.
fn at_end(work: impl FnOnce() + 'static) -> Panic {
    let panic = Panic::default();
    AT_END.set(Some(Last {
        work: Some(AtEnd(Box::new(work))),
        panic: Arc::clone(&panic),
    }));
    panic
}

/// Waits until a thread has ended, and panics as what it did then has.
fn join(thread: JoinHandle<Panic>) {
    let panic = thread.join().unwrap();
    let panic = panic.lock().unwrap().take();
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

fn use_all(stage: &Stage, queue: &Queue, memory: &MemoryRef, numbers: std::ops::Range<u64>) {
    for n in numbers.clone() {
        fold(queue, memory, n, &[]).wait().unwrap();
    }
    // Commands that this thread makes ready later: out of order, on another queue, behind an event
    // of the host.
    let other = stage.out_of_order();
    let gate = UserEvent::new();
    let behind = nothing(&other, &[reads(memory)], &[gate.event().clone()]);
    let told = Flag::new();
    let called = told.clone();
    behind.on_complete(move |_| called.set());
    let future = other.marker(std::slice::from_ref(&behind)).unwrap();
    gate.complete();
    future.wait().unwrap();
    behind.wait().unwrap();
    other.wait().unwrap();
    queue.flush();
    queue.wait().unwrap();
    told.wait();
    // A buffer that is in use as it is dropped, and an event that nobody waits for.
    let used = stage.memory(64);
    write_all(queue, &used, &[3; 64]);
    drop(fold(queue, &used, 1, &[]));
    drop(used);
    drop(other);
}

fn a_thread_local_enqueues_waits_and_drops(fixture: &dyn Fixture) {
    const EACH: u64 = 20;
    // Thread-locals are dropped in the opposite order of their first use: so this one is dropped
    // after all others, or before them, or is the only one that there is.
    for (first, is_used_before) in [(true, true), (false, true), (true, false)] {
        for options in [QueueOptions::default(), OUT_OF_ORDER] {
            let stage = Arc::new(Stage::new(fixture));
            let (queue, memory) = (stage.queue(options), stage.memory(8));
            put(&queue, &memory, 0, &[]).wait().unwrap();
            let ended = {
                let (queue, memory, stage) = (queue.clone(), memory.clone(), stage.clone());
                std::thread::spawn(move || {
                    if !first {
                        use_all(&stage, &queue, &memory, 0..EACH);
                    }
                    let ended = at_end({
                        let (queue, memory, stage) = (queue.clone(), memory.clone(), stage.clone());
                        move || {
                            use_all(&stage, &queue, &memory, EACH..2 * EACH);
                            let own = stage.queue(options);
                            fold(&own, &memory, 2 * EACH, &[]);
                            // The last of each, with work in it.
                            drop((own, queue, memory, stage));
                        }
                    });
                    if first && is_used_before {
                        use_all(&stage, &queue, &memory, 0..EACH);
                    }
                    ended
                })
            };
            join(ended);
            let from = if is_used_before { 0 } else { EACH };
            queue.wait().unwrap();
            assert_eq!(
                read_number(&stage.in_order(), &memory),
                folded(from..=2 * EACH)
            );
        }
    }
}

fn a_callback_on_a_thread_that_ends_waits(fixture: &dyn Fixture) {
    let stage = Arc::new(Stage::new(fixture));
    let (queue, memory) = (stage.in_order(), stage.memory(8));
    put(&queue, &memory, 5, &[]).wait().unwrap();
    let ended = {
        let (queue, memory, stage) = (queue.clone(), memory.clone(), stage.clone());
        std::thread::spawn(move || {
            at_end(move || {
                let gate = UserEvent::new();
                let number = fold(&queue, &memory, 7, &[gate.event().clone()]);
                let (other, event) = (stage.out_of_order(), number.clone());
                let waited = Arc::new(Mutex::new(None));
                let said = waited.clone();
                gate.event().on_complete(move |_| {
                    *said.lock().unwrap() = Some(event.wait().is_ok());
                });
                gate.complete();
                number.wait().unwrap();
                other.wait().unwrap();
                assert_eq!(*waited.lock().unwrap(), Some(true));
            })
        })
    };
    join(ended);
}
