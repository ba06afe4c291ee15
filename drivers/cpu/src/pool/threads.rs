//! The pool's threads, and their roles as workers.
//!
//! A *worker* is a role: a number, a deque, a place among the sleepers. Mostly a
//! thread keeps its role for life. But a command may wait for others, on its
//! thread: when there is something to do meanwhile, that thread gives its role to
//! a spare one, and sleeps. When its command is over it becomes a spare itself.
//!
//! So a command that waits costs a sleeping thread and no worker. Nothing is ever run on the stack
//! of a command that waits: a command that ran there might wait for that very command, and neither
//! could end.
//!
//! Nobody waits for a thread of the pool to end. The pool's last command is over before the pool
//! ends, but the thread that ended it may still be inside of a user's code: a callback, a
//! subscriber of the log, a destructor of a thread-local. That code may need a lock that the thread
//! that drops the pool holds. Each thread keeps the pool until it ends.

use super::worker::Worker;
use super::{MAX_WORKERS, Pool};
use quipu_scheduler::error::{ErrorKind, Result};
use quipu_scheduler::process::or_end;
use quipu_scheduler::sync::lock;
use quipu_threads::Start;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Thread;

/// The most threads of a pool: its workers, and as many more whose commands wait.
const MOST_THREADS: usize = MAX_WORKERS + 4096;

/// See the module.
pub(super) struct WorkerThreads {
    /// The cores of the workers, in turn.
    pin: Box<[usize]>,
    /// The thread of each worker.
    posts: Box<[Mutex<Option<Thread>>]>,
    threads: Mutex<Threads>,
}

#[derive(Default)]
struct Threads {
    spares: Vec<Arc<Spare>>,
    /// The number of threads.
    started: usize,
}

/// A thread without a role.
struct Spare {
    thread: Thread,
    /// One more than the number of the worker that it is to be; zero for none.
    role: AtomicUsize,
}

impl WorkerThreads {
    pub(super) fn new(workers: usize, pin: &[usize]) -> Self {
        Self {
            pin: pin.into(),
            posts: (0..workers).map(|_| Mutex::new(None)).collect(),
            threads: Mutex::default(),
        }
    }

    /// Unparks the thread that is this worker.
    pub(super) fn unpark(&self, worker: usize) {
        if let Some(thread) = &*lock(&self.posts[worker]) {
            thread.unpark();
        }
    }

    /// The calling thread is this worker from now on.
    fn take_post(&self, worker: usize) {
        if let Some(core) = self.pin.get(worker % self.pin.len().max(1)) {
            crate::pin::pin_to(*core);
        }
        *lock(&self.posts[worker]) = Some(std::thread::current());
    }
}

impl Pool {
    /// Makes a spare or a new thread this worker, which has no thread.
    ///
    /// # Errors
    /// If there are as many threads as there may be, or the system gives none.
    pub(super) fn engage(self: &Arc<Self>, worker: usize) -> Result<()> {
        let mut threads = lock(&self.threads.threads);
        if let Some(spare) = threads.spares.pop() {
            spare.role.store(worker + 1, Ordering::Release);
            spare.thread.unpark();
            return Ok(());
        }
        if threads.started >= MOST_THREADS {
            return Err(ErrorKind::WouldDeadlock {
                why: "thousands of tasks wait for others inside of themselves; have what comes \
                      after them enqueued after what they wait for instead"
                    .into(),
            }
            .into());
        }
        let pool = self.clone();
        // The first threads have their workers' numbers; a guest has the next.
        let number = threads.started;
        let lane = number + usize::from(number >= self.worker_count);
        std::thread::Builder::new()
            .name(format!("quipu-cpu-{number}"))
            .start(move || or_end("quipu-cpu", || pool.thread_life(worker, lane as u32)))
            .map_err(|error| ErrorKind::Device {
                device: "cpu".to_owned(),
                what: format!("start a thread for worker {worker}"),
                message: error.to_string(),
            })?;
        threads.started += 1;
        Ok(())
    }

    /// The life of a thread of the pool, which starts as this worker. Traces show it as this lane.
    fn thread_life(self: Arc<Self>, worker: usize, lane: u32) {
        let mut role = Some(worker);
        while let Some(worker) = role {
            self.threads.take_post(worker);
            Worker::new(self.clone(), worker, lane).run();
            role = self.be_spare();
        }
    }

    /// Waits for a role; `None` when the pool ends.
    fn be_spare(&self) -> Option<usize> {
        let spare = {
            let mut threads = lock(&self.threads.threads);
            if self.is_ending() {
                return None;
            }
            let spare = Arc::new(Spare {
                thread: std::thread::current(),
                role: AtomicUsize::new(0),
            });
            threads.spares.push(spare.clone());
            spare
        };
        loop {
            if let Some(worker) = spare.role.load(Ordering::Acquire).checked_sub(1) {
                return Some(worker);
            }
            if self.is_ending() {
                return None;
            }
            std::thread::park();
        }
    }

    /// Has the spares end.
    pub(super) fn dismiss(&self) {
        for spare in std::mem::take(&mut lock(&self.threads.threads).spares) {
            spare.thread.unpark();
        }
    }
}
