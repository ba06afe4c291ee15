//! The floor: a hand-written executor on crossbeam-deque.
//!
//! It does what is inevitable and nothing else: a counter per task, a deque per worker, the first
//! successor that becomes ready is run next by the same worker. It has no events, no errors, no
//! commands that come later. The caller is the first worker.
//!
//! Protocol of a run, which keeps waking threads out of the measured time:
//!
//! 1. The caller publishes the job, raises `epoch` and unparks the helpers.
//! 2. Each helper counts itself into `arrived` and spins until `released` equals its epoch.
//! 3. When all have arrived the caller starts the clock, pushes the roots, sets `released`, and
//!    works like everybody else.
//! 4. A worker that finds its deque empty subtracts what it has finished from `unfinished`, then
//!    steals. At zero everybody leaves; the helpers park.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_deque::{Steal, Stealer, Worker};

use crate::error::BenchError;
use crate::reference::counted::{CountedGraph, GraphExecutor};
use crate::reference::task::Task;

/// The work of one epoch.
#[derive(Clone)]
struct Job {
    graph: Arc<CountedGraph>,
    task: Arc<dyn Task>,
}

struct Shared {
    stealers: Vec<Stealer<u32>>,
    job: Mutex<Option<Job>>,
    epoch: AtomicUsize,
    arrived: AtomicUsize,
    released: AtomicUsize,
    unfinished: AtomicUsize,
    left: AtomicUsize,
    stop: AtomicBool,
}

/// A pool of workers that run counted graphs.
pub struct DequeExecutor {
    shared: Arc<Shared>,
    deque: Worker<u32>,
    helpers: Vec<JoinHandle<()>>,
}

impl DequeExecutor {
    /// An executor with this many workers, of which the caller of `run` is one.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn new(workers: usize) -> Result<Self, BenchError> {
        let deques: Vec<Worker<u32>> = (0..workers.max(1)).map(|_| Worker::new_lifo()).collect();
        let shared = Arc::new(Shared {
            stealers: deques.iter().map(Worker::stealer).collect(),
            job: Mutex::new(None),
            epoch: AtomicUsize::new(0),
            arrived: AtomicUsize::new(0),
            released: AtomicUsize::new(0),
            unfinished: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        });
        let mut deques = deques.into_iter();
        let deque = deques.next().expect("there is at least one worker");
        let mut executor = DequeExecutor {
            shared,
            deque,
            helpers: Vec::new(),
        };
        for (deque, index) in deques.zip(1..) {
            let shared = Arc::clone(&executor.shared);
            let helper = std::thread::Builder::new()
                .name(format!("floor-{index}"))
                .spawn(move || help(&shared, &deque, index))
                .map_err(|source| BenchError::Threads {
                    reference: "crossbeam-deque",
                    workers,
                    source: Box::new(source),
                })?;
            executor.helpers.push(helper);
        }
        Ok(executor)
    }
}

impl GraphExecutor for DequeExecutor {
    fn name(&self) -> &'static str {
        "crossbeam-deque"
    }

    fn run(&mut self, graph: &Arc<CountedGraph>, task: &Arc<dyn Task>) -> Duration {
        let shared = &*self.shared;
        let helpers = self.helpers.len();
        shared.unfinished.store(graph.tasks(), Ordering::Relaxed);
        shared.arrived.store(0, Ordering::Relaxed);
        shared.left.store(0, Ordering::Relaxed);
        *shared.job.lock().unwrap_or_else(PoisonError::into_inner) = Some(Job {
            graph: Arc::clone(graph),
            task: Arc::clone(task),
        });
        let epoch = shared.epoch.load(Ordering::Relaxed) + 1;
        shared.epoch.store(epoch, Ordering::Release);
        self.helpers
            .iter()
            .for_each(|helper| helper.thread().unpark());
        spin_until(|| shared.arrived.load(Ordering::Acquire) == helpers);
        let started = Instant::now();
        for &root in graph.roots().iter().rev() {
            self.deque.push(root);
        }
        shared.released.store(epoch, Ordering::Release);
        work(shared, &self.deque, 0, graph, &**task);
        let elapsed = started.elapsed();
        spin_until(|| shared.left.load(Ordering::Acquire) == helpers);
        elapsed
    }
}

impl Drop for DequeExecutor {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        for helper in self.helpers.drain(..) {
            helper.thread().unpark();
            // A helper ends by a panic of a task only, which its run has shown already.
            let _ = helper.join();
        }
    }
}

fn help(shared: &Shared, deque: &Worker<u32>, index: usize) {
    let mut seen = 0;
    while !shared.stop.load(Ordering::Acquire) {
        let epoch = shared.epoch.load(Ordering::Acquire);
        if epoch == seen {
            std::thread::park();
            continue;
        }
        seen = epoch;
        let job = shared
            .job
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let Some(job) = job else { continue };
        shared.arrived.fetch_add(1, Ordering::AcqRel);
        spin_until(|| shared.released.load(Ordering::Acquire) == epoch);
        work(shared, deque, index, &job.graph, &*job.task);
        drop(job);
        shared.left.fetch_add(1, Ordering::AcqRel);
    }
}

/// Runs tasks until no task is unfinished.
fn work(shared: &Shared, deque: &Worker<u32>, index: usize, graph: &CountedGraph, body: &dyn Task) {
    let mut finished = 0;
    let mut idle = 0_u32;
    loop {
        let Some(mut task) = deque.pop().or_else(|| steal(shared, deque, index)) else {
            if finished > 0 {
                shared.unfinished.fetch_sub(finished, Ordering::AcqRel);
                finished = 0;
            }
            if shared.unfinished.load(Ordering::Acquire) == 0 {
                return;
            }
            relax(&mut idle);
            continue;
        };
        idle = 0;
        loop {
            body.run(task);
            finished += 1;
            let mut next = None;
            graph.complete(task, |ready| {
                if next.is_none() {
                    next = Some(ready);
                } else {
                    deque.push(ready);
                }
            });
            match next {
                Some(ready) => task = ready,
                None => break,
            }
        }
    }
}

fn steal(shared: &Shared, deque: &Worker<u32>, index: usize) -> Option<u32> {
    let victims = shared.stealers.len();
    for step in 1..victims {
        let victim = &shared.stealers[(index + step) % victims];
        loop {
            match victim.steal_batch_and_pop(deque) {
                Steal::Success(task) => return Some(task),
                Steal::Empty => break,
                Steal::Retry => std::hint::spin_loop(),
            }
        }
    }
    None
}

fn spin_until(condition: impl Fn() -> bool) {
    let mut idle = 0;
    while !condition() {
        relax(&mut idle);
    }
}

/// Spins a while, then lets others have the core: there may be fewer cores than workers.
fn relax(idle: &mut u32) {
    *idle = idle.saturating_add(1);
    if *idle < 128 {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::shape::GraphShape;
    use crate::reference::task::{AddTask, OrderVerdict};

    #[test]
    fn every_shape_runs_once_and_in_order() {
        for workers in [1, 2, 5] {
            let mut executor = DequeExecutor::new(workers).expect("a few threads");
            for shape in GraphShape::tiny().into_iter().chain(GraphShape::standard()) {
                let shape = Arc::new(shape);
                let verdict = executor.verify(&shape);
                assert_eq!(
                    verdict,
                    OrderVerdict::default(),
                    "{} x{workers}",
                    shape.name()
                );
            }
        }
    }

    #[test]
    fn a_graph_runs_again_after_a_reset() {
        let mut executor = DequeExecutor::new(2).expect("a few threads");
        let graph = Arc::new(CountedGraph::new(&GraphShape::chain(500)));
        let add = Arc::new(AddTask::default());
        let task: Arc<dyn Task> = Arc::clone(&add) as Arc<dyn Task>;
        for _ in 0..20 {
            graph.reset();
            executor.run(&graph, &task);
            assert_eq!(add.take(), 500);
        }
    }
}
