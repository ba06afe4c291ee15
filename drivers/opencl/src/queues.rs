//! A device's queues, and which of them a command is put into.

use crate::device::Device;
use crate::native::{Called, Context, Event, Queue};
use quipu_driver_vendor::{Failure, made_once};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Queues for kernels of a device whose queues keep their order: so many run at once.
pub(crate) const IN_ORDER_QUEUES: usize = 8;

/// A queue; whether the device is yet to be told of what was put there, for each flush is a call of a microsecond, and most
/// queues have nothing new; and what is there.
#[derive(Debug)]
pub(crate) struct Fed {
    /// The end of what was put there last, where the queue keeps its order.
    last: Mutex<Option<Event>>,
    queue: Queue,
    order: Order,
    unflushed: AtomicBool,
    /// What keeps this was put there and has not ended.
    there: Arc<()>,
}

/// How a queue runs what is put there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    None,
    Kept,
    /// And nothing after what has failed.
    Stream,
}

/// What a command keeps until it has ended that was put into a queue.
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

    /// A command was put there, of which this is the end.
    pub(crate) fn entered(&self, end: &Event) -> Within {
        if self.order != Order::None {
            *self.last() = Some(end.clone());
        }
        Within(self.there.clone())
    }

    fn last(&self) -> MutexGuard<'_, Option<Event>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True of what all that is put there waits for anyway.
    pub(crate) fn implies(&self, wait: &Event) -> bool {
        self.order == Order::Stream && self.ends_with(wait)
    }

    /// True of the end of what was put there last.
    fn ends_with(&self, end: &Event) -> bool {
        let last = self.last();
        last.as_ref().is_some_and(|last| last.raw() == end.raw())
    }

    fn is_empty(&self) -> bool {
        Arc::strong_count(&self.there) == 1
    }

    /// The queue, for whoever puts something there before the next flush.
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

/// What a device's commands are put into, by one thread at a time, which also flushes.
#[derive(Debug)]
pub(crate) struct Queues {
    /// Kernels, fills, copies within the device's memory.
    compute: Vec<Fed>,
    /// What comes from the host.
    upload: Fed,
    /// What goes to the host.
    download: Fed,
    /// What is waited for at once by the thread that asks for it.
    pub(crate) service: Queue,
    /// What closures of users put there, in order; made when they are first used.
    native: [OnceLock<Fed>; IN_ORDER_QUEUES],
    /// The queue for kernels that was last used.
    turn: AtomicUsize,
    /// The same of the queues of closures.
    native_turn: AtomicUsize,
}

/// What moves which way: each has a queue of its own, so that copies run beside kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lane {
    #[default]
    Compute,
    Upload,
    Download,
}

impl Queues {
    /// Those of a device, which are made here; with timestamps if so.
    pub(crate) fn of(context: &Context, device: &Device, profiling: bool) -> Called<Self> {
        let queue = |out_of_order| Queue::of(context, device.handle.0, out_of_order, profiling);
        let order = match device.out_of_order {
            true => Order::None,
            false if device.platform.is_of_streams => Order::Stream,
            false => Order::Kept,
        };
        let fed = || Ok(Fed::new(queue(device.out_of_order)?, order));
        let compute = if device.out_of_order {
            1
        } else {
            IN_ORDER_QUEUES
        };
        Ok(Self {
            compute: (0..compute).map(|_| fed()).collect::<Called<_>>()?,
            upload: fed()?,
            download: fed()?,
            service: queue(false)?,
            native: Default::default(),
            turn: AtomicUsize::new(0),
            native_turn: AtomicUsize::new(0),
        })
    }

    /// The queue for a command that waits for these.
    pub(crate) fn of_lane(&self, lane: Lane, waits: &[Event]) -> &Fed {
        match lane {
            Lane::Upload => &self.upload,
            Lane::Download => &self.download,
            Lane::Compute => &self.compute[self.choose(waits)],
        }
    }

    /// Where several keep their order: that of which one of these is the last, so that a chain stays where it is; else the
    /// one that was last used if nothing is left there, for device and host have it at hand; else the next in turn.
    fn choose(&self, waits: &[Event]) -> usize {
        let count = self.compute.len();
        if count == 1 {
            return 0;
        }
        let is_last = |queue: &Fed| waits.iter().any(|wait| queue.ends_with(wait));
        if let Some(last) = self.compute.iter().position(is_last) {
            return last;
        }
        let last = self.turn.load(Ordering::Relaxed) % count;
        match self.compute[last].is_empty() {
            true => last,
            false => (self.turn.fetch_add(1, Ordering::Relaxed) + 1) % count,
        }
    }

    /// An in-order queue for what a closure of a user puts there.
    pub(crate) fn native(&self, make: impl FnOnce() -> Called<Queue>) -> Called<&Fed> {
        let turn = self.native_turn.fetch_add(1, Ordering::Relaxed);
        let place = &self.native[turn % IN_ORDER_QUEUES];
        made_once(place, || Ok(Fed::new(make()?, Order::None)))
    }

    /// Has the device begin with all of it.
    pub(crate) fn flush(&self) -> Called<()> {
        let queues = self.compute.iter().chain([&self.upload, &self.download]);
        let queues = queues.chain(self.native.iter().filter_map(OnceLock::get));
        worst(queues.map(Fed::flush))
    }
}

/// What came of several calls, all of which are made: a loss if there is one, else the first failure.
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
    use crate::device::all;
    use crate::native::CallError;

    /// Queues of an OpenCL device that keep their order.
    fn in_order() -> Option<Queues> {
        let mut devices = match all() {
            Ok(devices) => devices,
            Err(error) => {
                assert!(
                    std::env::var("QUIPU_TEST_WITHOUT_OPENCL").is_ok_and(|value| value == "1"),
                    "{error}"
                );
                eprintln!("\n*** NOT TESTED: which queue a command is put into. {error}\n");
                return None;
            }
        };
        let mut device = devices.swap_remove(0);
        device.out_of_order = false;
        let context = device.platform.context().expect("a context");
        Some(Queues::of(context, &device, false).expect("queues"))
    }

    #[test]
    fn chains_stay_in_their_queue_and_others_go_elsewhere() {
        let Some(queues) = in_order() else {
            return;
        };
        let put = |waits: &[Event]| {
            let fed = queues.of_lane(Lane::Compute, waits);
            let raw: Vec<_> = waits.iter().map(Event::raw).collect();
            let end = fed.feed().marker(&raw).expect("a marker");
            let within = fed.entered(&end);
            (std::ptr::from_ref(fed), end, within)
        };
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
        assert_eq!(again, other, "nothing is left in what was last used");
        queues.flush().expect("a flush");
        queues.service.finish().expect("an end");
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
        queues.service.finish().expect("an end");
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
