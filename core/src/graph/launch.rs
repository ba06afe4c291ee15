//! Playing a launch: handing a graph's commands over, one by one.

use crate::command::recorded::{Graph, Shared};
use crate::command::slot::Slot;
use crate::command::{
    Command, EventId, Gather, Gathering, ReadySink, call_back, contain, deliver, notify_each,
};
use crate::driver::{CommandRef, DomainWait, Submission};
use crate::limits::LAST_GENERATION;
use crate::queue::QueueShared;
use crate::queue::enqueue::{log_panic, tell_driver};
use crate::state::{Resolved, WANT_EACH};
use crate::sync::lock;
use smallvec::SmallVec;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// Plays a started launch. Its command is ended by the graph's end.
pub(crate) fn start(command: Command, sink: &mut impl ReadySink) {
    // SAFETY: commands that come here keep a graph.
    let graph = unsafe { &*command.state_pointer().cast::<Graph>() }.clone();
    let shared = graph.shared();
    if !shared.renewed.is_empty() {
        shared.renew(&command);
    }
    // Published to the end by the waits that are resolved below.
    let launch = command.into_raw().cast::<Slot>();
    shared.launch.store(launch.as_ptr(), Ordering::Relaxed);
    sink.gather(Gather::BEGIN);
    let mut gathering = None;
    for root in &shared.roots {
        let slot = shared.commands.0[*root as usize].slot;
        // SAFETY: the command waits for this.
        let s = unsafe { slot.as_ref() };
        let (queue, id) = (s.queue.get(), id_of(slot));
        match s.state.resolve() {
            Resolved::Last => {
                deliver(Command::from_slot(slot), sink);
            }
            Resolved::Each => {
                // The driver may end other commands, and their observers may wait for later roots.
                gathering.get_or_insert_with(Gathering::begin);
                notify_each(queue, id, EventId::NONE);
            }
            Resolved::One => {}
        }
    }
    sink.gather(Gather::END);
    drop(gathering);
    // A thread that waits may have flushed before there was anything to flush.
    for queue in shared.queues() {
        let queue = queue.shared();
        if queue.driver().needs_flush() {
            contain(|| queue.driver().flush(queue));
        }
    }
    call_back();
}

/// The queue of a command of a graph.
fn queue_of(s: &Slot) -> Option<&QueueShared> {
    // SAFETY: the graph keeps handles of its commands' queues.
    s.queue.get().map(|place| unsafe { place.in_use() })
}

fn id_of(slot: NonNull<Slot>) -> EventId {
    // SAFETY: a slot of a graph.
    EventId::new(slot, unsafe { slot.as_ref() }.notify.generation())
}

impl Shared {
    /// Gives commands new ids, and timestamps, and tells drivers of them that have
    /// to be told before they are ready.
    #[cold]
    fn renew(&self, launch: &Command) {
        for index in &self.renewed {
            let recorded = &self.commands.0[*index as usize];
            // SAFETY: a slot of this graph, between two launches.
            let s = unsafe { recorded.slot.as_ref() };
            // A new id must not be taken for an old one: ids of a graph's commands are known to
            // drivers only, and to them while they run.
            let next = match s.notify.generation() {
                LAST_GENERATION => recorded.generation,
                last => last + 1,
            };
            s.notify.rename(next);
        }
        if crate::trace::enabled() || self.is_timed() {
            self.renew_times(launch);
        }
        for index in &self.renewed {
            let recorded = &self.commands.0[*index as usize];
            // SAFETY: as above.
            let s = unsafe { recorded.slot.as_ref() };
            let (.., state) = s.place();
            if state & WANT_EACH == 0 {
                continue;
            }
            let Some(queue) = queue_of(s) else { continue };
            let waits = recorded.edges.iter().filter_map(|edge| {
                let slot = self.commands.0[edge.command as usize].slot;
                // SAFETY: a slot of this graph, which keeps them.
                let (s, before) = unsafe { (slot.as_ref(), slot.as_ref().place().2) };
                let of = queue_of(s).and_then(QueueShared::domain);
                let same = before & WANT_EACH != 0 && of == queue.domain();
                same.then(|| DomainWait {
                    event: id_of(slot),
                    propagates: edge.propagates,
                })
            });
            let waits: SmallVec<[DomainWait; 4]> = waits.collect();
            let command = ManuallyDrop::new(Command::from_slot(recorded.slot));
            let told = tell_driver(Submission {
                id: id_of(recorded.slot),
                queue,
                command: CommandRef::new(&command),
                domain_waits: &waits,
                host_waits: s.state.unresolved() - waits.len() as u32,
            });
            told.unwrap_or_else(log_panic);
        }
    }

    fn is_timed(&self) -> bool {
        self.renewed.iter().any(|index| {
            // SAFETY: a slot of this graph.
            let s = unsafe { self.commands.0[*index as usize].slot.as_ref() };
            s.times().is_some()
        })
    }

    /// As `decorate` and `Waits::trace` do for a plain command.
    #[cold]
    fn renew_times(&self, launch: &Command) {
        let now = crate::clock::now_ns();
        let of_launch = launch.slot().times();
        // The launch is shown at its end: its roots waited for the events that it waited for.
        let before = of_launch.map(|times| std::mem::take(&mut *lock(&times.waits)));
        for recorded in &self.commands.0 {
            // SAFETY: a slot of this graph, between two launches.
            let Some(times) = unsafe { recorded.slot.as_ref() }.times() else {
                continue;
            };
            let number = crate::tracing_records::number(id_of(recorded.slot));
            times.number.store(number, Ordering::Relaxed);
            times.queued.store(now, Ordering::Relaxed);
            times.submitted.store(0, Ordering::Relaxed);
            times.started.store(0, Ordering::Relaxed);
            times.ended.store(0, Ordering::Relaxed);
        }
        if !crate::trace::enabled() {
            return;
        }
        let number_of = |index: u32| {
            let slot = self.commands.0[index as usize].slot;
            crate::tracing_records::number_of(id_of(slot))
        };
        for (index, recorded) in self.commands.0.iter().enumerate() {
            let numbers = recorded
                .edges
                .iter()
                .filter_map(|edge| number_of(edge.command));
            let numbers: Vec<u64> = if recorded.edges.is_empty() {
                before.clone().unwrap_or_default()
            } else {
                numbers.collect()
            };
            if self.is_end(index as u32) {
                if let Some(times) = of_launch {
                    *lock(&times.waits) = numbers;
                }
            // SAFETY: a slot of this graph, whose launch has not begun to be played.
            } else if let Some(times) = unsafe { recorded.slot.as_ref() }.times() {
                *lock(&times.waits) = numbers;
            }
        }
    }
}
