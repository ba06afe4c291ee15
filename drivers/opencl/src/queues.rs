//! A device's queues, and the choice of one for a command.

use crate::device::{Device, DeviceHandle};
use crate::native::{Called, Context, Event, Queue};
use quipu_device_queue::{Failure, made_once};
use quipu_scheduler::panics::quietly;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Queues for kernels of a device whose queues keep their order: so many run at once.
pub(crate) const IN_ORDER_QUEUES: usize = 8;

/// The same for copies of a way: one that waits for a kernel holds up no others.
const COPY_QUEUES: usize = 4;

/// A queue; a flag that the device is yet to be told of its commands, because each flush is a call,
/// and most queues have nothing new; and its commands.
#[derive(Debug)]
pub(crate) struct Fed {
    /// The end of its last command, if the queue keeps its order.
    last: Mutex<Option<Event>>,
    queue: Queue,
    order: Order,
    unflushed: AtomicBool,
    /// Commands that keep this were put there and have not ended.
    there: Arc<()>,
}

/// The order in which a queue runs its commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    None,
    Kept,
    /// And nothing after a command that has failed.
    Stream,
}

/// A token that a command in a queue keeps until it has ended.
#[derive(Debug)]
pub(crate) struct Within(#[allow(dead_code, reason = "it is counted")] Arc<()>);

impl Fed {
    fn new(queue: Queue, order: Order) -> Self {
        Self {
            last: Mutex::default(),
            queue,
            order,
            unflushed: AtomicBool::new(false),
            there: Arc::default(),
        }
    }

    /// Notes that a command with this end was put there.
    pub(crate) fn entered(&self, end: &Event) -> Within {
        if self.order != Order::None {
            *self.last() = Some(end.clone());
        }
        Within(self.there.clone())
    }

    fn last(&self) -> MutexGuard<'_, Option<Event>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if all commands that are put there wait for this event anyway.
    pub(crate) fn implies(&self, wait: &Event) -> bool {
        self.order == Order::Stream && self.ends_with(wait)
    }

    /// True if this is the end of its last command.
    fn ends_with(&self, end: &Event) -> bool {
        let last = self.last();
        last.as_ref().is_some_and(|last| last.raw() == end.raw())
    }

    fn is_empty(&self) -> bool {
        Arc::strong_count(&self.there) == 1
    }

    /// The queue, for code that puts something there before the next flush.
    pub(crate) fn feed(&self) -> &Queue {
        self.unflushed.store(true, Ordering::Release);
        &self.queue
    }

    fn flush(&self) -> Called<()> {
        if !self.unflushed.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let flushed = self.queue.flush();
        if flushed.is_err() {
            self.unflushed.store(true, Ordering::Release);
        }
        flushed
    }
}

/// Makes a device's queues.
#[derive(Debug)]
struct Maker {
    context: Context,
    device: DeviceHandle,
    order: Order,
    profiling: bool,
}

impl Maker {
    fn queue(&self, out_of_order: bool) -> Called<Queue> {
        Queue::of(&self.context, self.device.0, out_of_order, self.profiling)
    }

    fn fed(&self) -> Called<Fed> {
        Ok(Fed::new(self.queue(self.order == Order::None)?, self.order))
    }
}

/// Queues of a device for the same things, each made when those before it are not enough; one alone
/// where that keeps no order.
#[derive(Debug)]
struct Group {
    queues: Box<[OnceLock<Fed>]>,
    /// The one that was last used.
    last: AtomicUsize,
}

impl Group {
    fn new(maker: &Maker, most: usize) -> Self {
        let most = if maker.order == Order::None { 1 } else { most };
        Self {
            queues: (0..most).map(|_| OnceLock::new()).collect(),
            last: AtomicUsize::new(0),
        }
    }

    fn made(&self) -> impl Iterator<Item = &Fed> {
        self.queues.iter().map_while(OnceLock::get)
    }

    /// The queue for a command that waits for these. It is the one whose last event is one of
    /// these, so that a chain stays where it is; else the one that was last used if nothing is left
    /// there, because device and host have it at hand. Otherwise it is another with nothing in it,
    /// which may be a new one, or the next in turn.
    fn choose(&self, waits: &[Event], maker: &Maker) -> Called<&Fed> {
        let make = |at: usize| made_once(&self.queues[at], || maker.fed());
        let last = self.last.load(Ordering::Relaxed);
        let Some(used) = self.queues[last].get() else {
            return make(last);
        };
        if self.queues.len() == 1 {
            return Ok(used);
        }
        let is_last = |queue: &Fed| waits.iter().any(|wait| queue.ends_with(wait));
        let at = if let Some(at) = self.made().position(is_last) {
            at
        } else if used.is_empty() {
            last
        } else if let Some(at) = self.made().position(Fed::is_empty) {
            at
        } else {
            let made = self.made().count();
            match self.queues.get(made).map(|_| make(made)) {
                Some(Ok(_)) => made,
                Some(Err(error)) => {
                    let reason = error.text();
                    quietly(|| tracing::debug!(reason, made, "a device gives no further queue"));
                    (last + 1) % made
                }
                None => (last + 1) % made,
            }
        };
        self.last.store(at, Ordering::Relaxed);
        make(at)
    }
}

/// The queues of a device's commands, used by one thread at a time, which also flushes.
#[derive(Debug)]
pub(crate) struct Queues {
    maker: Maker,
    /// Kernels, fills, copies within the device's memory.
    compute: Group,
    /// Queues for copies from the host.
    upload: Group,
    /// Queues for copies to the host.
    download: Group,
    /// Fault records of kernels, for each queue of kernels that keeps its order: nothing else
    /// stands behind a kernel for them.
    records: [OnceLock<Fed>; IN_ORDER_QUEUES],
    /// The queue of commands for which the enqueuing thread waits at once.
    pub(crate) service: Queue,
    /// The in-order queues of users' closures.
    native: [OnceLock<Fed>; IN_ORDER_QUEUES],
    /// The queue of closures that was last used.
    native_turn: AtomicUsize,
}

/// The direction of a command: each has queues of its own, so that copies run beside kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lane {
    #[default]
    Compute,
    Upload,
    Download,
}

impl Queues {
    /// The queues of a device; with timestamps if `profiling`.
    pub(crate) fn of(context: &Context, device: &Device, profiling: bool) -> Called<Self> {
        let order = match device.out_of_order {
            true => Order::None,
            false if device.platform.is_of_streams => Order::Stream,
            false => Order::Kept,
        };
        let maker = Maker {
            context: context.clone(),
            device: device.handle,
            order,
            profiling,
        };
        Ok(Self {
            compute: Group::new(&maker, IN_ORDER_QUEUES),
            upload: Group::new(&maker, COPY_QUEUES),
            download: Group::new(&maker, COPY_QUEUES),
            records: Default::default(),
            service: maker.queue(false)?,
            native: Default::default(),
            native_turn: AtomicUsize::new(0),
            maker,
        })
    }

    /// The queue for a command that waits for these.
    pub(crate) fn of_lane(&self, lane: Lane, waits: &[Event]) -> Called<&Fed> {
        let group = match lane {
            Lane::Upload => &self.upload,
            Lane::Download => &self.download,
            Lane::Compute => &self.compute,
        };
        group.choose(waits, &self.maker)
    }

    /// The queue for the fault record of a kernel in this queue.
    pub(crate) fn of_record(&self, kernel: &Queue) -> Called<&Fed> {
        let is_there = |fed: &Fed| fed.queue == *kernel;
        let at = self.compute.made().position(is_there);
        match at.filter(|_| self.maker.order != Order::None) {
            Some(at) => made_once(&self.records[at], || self.maker.fed())
                .or_else(|_| self.of_lane(Lane::Download, &[])),
            None => self.of_lane(Lane::Download, &[]),
        }
    }

    /// An in-order queue for the commands of a user's closure.
    pub(crate) fn native(&self) -> Called<&Fed> {
        let turn = self.native_turn.fetch_add(1, Ordering::Relaxed);
        let place = &self.native[turn % IN_ORDER_QUEUES];
        made_once(place, || {
            Ok(Fed::new(self.maker.queue(false)?, Order::None))
        })
    }

    /// Has the device begin with all of it.
    pub(crate) fn flush(&self) -> Called<()> {
        let groups = [&self.compute, &self.upload, &self.download];
        let queues = groups.into_iter().flat_map(Group::made);
        let others = self.records.iter().chain(&self.native);
        let queues = queues.chain(others.filter_map(OnceLock::get));
        worst(queues.map(Fed::flush))
    }
}

/// The worst result of several calls, all of which are made: a loss if there is one, else the first
/// failure.
pub(crate) fn worst(calls: impl Iterator<Item = Called<()>>) -> Called<()> {
    let mut worst = Ok(());
    for call in calls {
        if let Err(error) = call
            && (worst.is_ok() || error.is_loss())
        {
            worst = Err(error);
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::any;
    use crate::native::CallError;
    use std::collections::{HashSet, VecDeque};

    /// Queues of an OpenCL device that keep their order.
    fn in_order() -> Option<Queues> {
        let mut device = any("which queue a command is put into")?;
        device.out_of_order = false;
        let context = device.platform.context().expect("a context");
        Some(Queues::of(context, &device, false).expect("queues"))
    }

    /// Puts something into a queue. Gives the queue, the end, and the token that is kept until it
    /// has ended.
    fn put(queues: &Queues, lane: Lane, waits: &[Event]) -> (*const Fed, Event, Within) {
        let fed = queues.of_lane(lane, waits).expect("a queue");
        let raw: Vec<_> = waits.iter().map(Event::raw).collect();
        let end = fed.feed().marker(&raw).expect("a marker");
        let within = fed.entered(&end);
        (std::ptr::from_ref(fed), end, within)
    }

    fn finish(queues: &Queues) {
        queues.flush().expect("a flush");
        queues.service.finish().expect("an end");
    }

    #[test]
    fn chains_stay_in_their_queue_and_others_go_elsewhere() {
        let Some(queues) = in_order() else {
            return;
        };
        let put = |waits: &[Event]| put(&queues, Lane::Compute, waits);
        let (first, first_end, first_within) = put(&[]);
        let (second, second_end, second_within) = put(&[]);
        assert_ne!(first, second, "something is in the first");
        let (chained, chained_end, chained_within) = put(std::slice::from_ref(&first_end));
        assert_eq!(chained, first);
        // It is not the last there any more.
        let (other, _, other_within) = put(&[first_end]);
        assert!(other != first && other != second);
        let (joined, ..) = put(&[chained_end, second_end]);
        assert!(joined == first || joined == second);
        drop((first_within, second_within, chained_within, other_within));
        let (again, ..) = put(&[]);
        assert_eq!(again, joined, "nothing is left in what was last used");
        finish(&queues);
    }

    #[test]
    fn nothing_goes_behind_others_where_a_queue_is_empty() {
        let Some(queues) = in_order() else {
            return;
        };
        for (lane, most) in [
            (Lane::Compute, IN_ORDER_QUEUES),
            (Lane::Upload, COPY_QUEUES),
            (Lane::Download, COPY_QUEUES),
        ] {
            // One takes for ever, and of the others there are now more, now fewer.
            let (long, _, _within) = put(&queues, lane, &[]);
            let mut short = VecDeque::new();
            for number in 0..20 * most {
                let (place, _, within) = put(&queues, lane, &[]);
                assert_ne!(place, long, "{lane:?}");
                short.push_back((place, within));
                let there: HashSet<_> = short.iter().map(|(place, _)| *place).collect();
                assert_eq!(there.len(), short.len(), "two are in one");
                if short.len() > number % (most - 1) {
                    short.pop_front();
                }
            }
            // When all have something, no more is made.
            let more: Vec<_> = (0..3 * most).map(|_| put(&queues, lane, &[])).collect();
            let there: HashSet<_> = more.iter().map(|(place, ..)| *place).collect();
            assert_eq!(there.len(), most);
        }
        finish(&queues);
    }

    #[test]
    fn records_of_kernels_wait_for_no_kernel_in_another_queue() {
        let Some(queues) = in_order() else {
            return;
        };
        let kernels: Vec<_> = (0..IN_ORDER_QUEUES)
            .map(|_| {
                let fed = queues.of_lane(Lane::Compute, &[]).expect("a queue");
                let end = fed.feed().marker(&[]).expect("a marker");
                (fed, fed.entered(&end))
            })
            .collect();
        let record = |fed: &Fed| std::ptr::from_ref(queues.of_record(&fed.queue).expect("a queue"));
        let records: HashSet<_> = kernels.iter().map(|(fed, _)| record(fed)).collect();
        assert_eq!(records.len(), kernels.len());
        let (copy, ..) = put(&queues, Lane::Download, &[]);
        assert!(!records.contains(&copy));
        assert_eq!(record(kernels[0].0), record(kernels[0].0));
        finish(&queues);
    }

    #[test]
    fn only_streams_imply_what_is_in_front() {
        let Some(queues) = in_order() else {
            return;
        };
        for order in [Order::None, Order::Kept, Order::Stream] {
            let fed = Fed::new(queues.service.clone(), order);
            let marker = || fed.feed().marker(&[]).expect("a marker");
            let (before, last) = (marker(), marker());
            let _within = (fed.entered(&before), fed.entered(&last));
            assert_eq!(fed.implies(&last), order == Order::Stream);
            assert!(!fed.implies(&before), "that is not known");
        }
        finish(&queues);
    }

    #[test]
    fn all_calls_are_made_and_a_loss_is_told_first() {
        let of = |codes: &[i32]| {
            let mut made = 0;
            let calls = codes.iter().map(|code| {
                made += 1;
                let (call, code) = ("clFlush", *code);
                if code == 0 {
                    Ok(())
                } else {
                    Err(CallError { call, code })
                }
            });
            let code = worst(calls).err().map(|error| error.code);
            assert_eq!(made, codes.len());
            code
        };
        assert_eq!(of(&[0, 0]), None);
        assert_eq!(of(&[0, -5, -6, 0]), Some(-5));
        assert_eq!(of(&[-5, -36, 0]), Some(-36));
    }
}
