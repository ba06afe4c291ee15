//! The CPU driver's side of the contract: submit, flush, join, notify.
//!
//! `submit` is not needed, because the pool holds ready commands only. `flush` has nothing to do,
//! because ready commands run at once. `notify` hands a ready command to the worker that made it
//! ready, or to the pool. `join` helps.

use crate::CpuDriver;
use crate::device;
use crate::pool::Task;
use crate::pool::worker::{InlineRunner, Worker};
use quipu_scheduler::driver::{InlineExecutor, Notification};
use quipu_scheduler::error::{ErrorKind, Result};
use quipu_scheduler::event::Waiter;
use quipu_scheduler::queue::QueueShared;
use quipu_scheduler::{Command, DeviceProperties, Driver, NativeBytes, NativeQueue, Partition};
use std::any::{Any, TypeId};
use std::ops::Range;

/// The queue that native calls and native enqueues on a CPU device are handed. The device has no
/// queues of its own: this one names the workers that run its commands. A native enqueue is run by
/// one of them, and its work is over when it returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuQueue {
    /// The numbers of the pool's workers that take the queue's commands; none on the serial device,
    /// whose commands are run by the thread that makes them ready.
    pub workers: Range<usize>,
}

impl NativeQueue for CpuQueue {
    type Memory = NativeBytes;
}

// SAFETY: a command's code and memory are used while it is here, with the arguments resolved for
// it.
unsafe impl Driver for CpuDriver {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        // Parts of the pool have numbers, but are not listed.
        vec![self.properties().clone()]
    }

    fn start_threads(&self) -> Result<()> {
        self.pool().start_threads()
    }

    fn join(&self, waiter: &Waiter<'_>) -> Result<()> {
        self.pool().join(waiter)
    }

    fn notify(&self, notification: Notification) {
        let Notification::Ready(command) = notification else {
            return;
        };
        let (_, device) = command.queue().owner();
        let priority = command.queue().priority();
        let pool = self.pool();
        Worker::current(pool, |worker| match worker {
            Some(worker) => worker.push(command),
            None => pool.inject(Task::Command(command), device, priority),
        });
    }

    fn notify_ready(&self, commands: &mut Vec<Command>) {
        let pool = self.pool();
        Worker::current(pool, |worker| match worker {
            Some(worker) => commands.drain(..).for_each(|command| worker.push(command)),
            None => pool.inject_many(commands),
        });
    }

    fn inline_executor(&self) -> Option<Box<dyn InlineExecutor>> {
        Some(Box::new(InlineRunner::new(self.pool().clone())))
    }

    fn native_queue(&self, queue: &QueueShared) -> Option<Box<dyn Any + Send>> {
        let workers = self.pool().range_of(queue.device_index())?;
        Some(Box::new(CpuQueue { workers }))
    }

    fn takes_native(&self, queue: TypeId) -> bool {
        queue == TypeId::of::<CpuQueue>()
    }

    fn plays_graphs(&self) -> bool {
        true
    }

    fn is_idle(&self) -> bool {
        self.pool().is_idle()
    }

    fn free_memory(&self, _device: usize) -> Option<u64> {
        Some(device::memory().1)
    }

    fn partition(
        &self,
        device: usize,
        partition: &Partition,
    ) -> Result<Vec<(usize, DeviceProperties)>> {
        let bad = |problem: String| {
            Err(ErrorKind::InvalidArgument {
                what: "split a CPU device",
                problem,
            }
            .into())
        };
        let Some(range) = self.pool().range_of(device) else {
            return bad(format!("there is no CPU device {device}"));
        };
        let counts: Vec<u32> = match partition {
            Partition::Equally(0) => return bad("parts of no workers".to_owned()),
            Partition::Equally(count) if *count as usize > range.len() => {
                return bad(format!(
                    "parts of {count} workers each, and the device has {}; ask for parts of no more than that",
                    range.len()
                ));
            }
            Partition::Equally(count) => {
                vec![*count; range.len() / *count as usize]
            }
            Partition::ByCounts(counts) => counts.clone(),
            _ => return bad("this kind of split is not supported".to_owned()),
        };
        let total: u64 = counts.iter().copied().map(u64::from).sum();
        if counts.is_empty() || counts.contains(&0) || total > range.len() as u64 {
            return bad(format!(
                "parts of {counts:?} workers out of {}; ask for at least one each and no more in all",
                range.len()
            ));
        }
        let mut start = range.start;
        let mut parts = Vec::new();
        for count in counts {
            let workers = start..start + count as usize;
            start = workers.end;
            let number = self.pool().add_team(workers.clone());
            let name = format!(
                "{} (workers {}..{})",
                device::model(),
                workers.start,
                workers.end
            );
            let properties = device::properties(name, workers.len(), false);
            parts.push((number as usize, properties));
        }
        Ok(parts)
    }

    unsafe fn forget_part(&self, device: usize) {
        self.pool().remove_team(device);
    }
}
