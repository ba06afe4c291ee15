//! Queues, and the order of their commands.
//!
//! *In-order*: commands have the effects that running them one after another
//! would have, and the host sees their events complete in that order; yet
//! commands that share no memory hazard run in parallel. *Out-of-order*: only
//! waits, markers, barriers (and hazards, which the Rust front end always
//! tracks) order them.
//!
//! A command of *unknown access* (a host task that does not declare its accesses) is a full barrier
//! of an in-order queue.
//!
//! The part of a queue that its commands know is in `place`.

pub(crate) mod enqueue;
pub(crate) mod flush;
#[cfg(test)]
mod flush_tests;
pub(crate) mod gate;
pub(crate) mod options;
pub(crate) mod place;
pub(crate) mod progress;

use crate::command::{enter_blocking_wait, fire};
use crate::context::ContextShared;
use crate::device::Device;
use crate::driver::Driver;
use crate::error::{ErrorKind, Result};
use crate::event::{Waiter, hand_over_needed, polling};
use crate::memory::SpaceId;
use crate::observers::{Action, Observer};
use flush::flush_for;
pub use options::{Completion, Hazards, Priority, QueueOptions};
pub(crate) use place::forget_barriers;
use place::{DeviceName, Head};
pub use place::{Place, QueueShared, route_to};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

/// The parts of a queue that are of higher floors than its [`Head`], which keeps it.
struct Links {
    driver: Arc<dyn Driver>,
    device: Option<Device>,
    /// Keeps the context while the queue has commands; the context's own
    /// queues must not.
    context: ContextLink,
}

enum ContextLink {
    Counted(Arc<ContextShared>),
    Own(Weak<ContextShared>),
}

impl QueueShared {
    #[inline]
    fn links(&self) -> &Links {
        let links = &*self.head().links;
        debug_assert!(links.is::<Links>());
        // SAFETY: `Queue::with_link` alone makes queues, and puts a `Links` there.
        unsafe { &*std::ptr::from_ref(links).cast::<Links>() }
    }

    /// The driver of the queue's device.
    #[inline]
    #[must_use]
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.links().driver
    }

    /// The queue's device; `None` for a context's own queue.
    #[inline]
    #[must_use]
    pub fn device(&self) -> Option<&Device> {
        self.links().device.as_ref()
    }

    /// # Errors
    /// If the device, or the context, is lost.
    #[cold]
    pub(crate) fn check_lost(&self) -> Result<()> {
        crate::process::check()?;
        let links = self.links();
        let device = links.device.as_ref().and_then(Device::lost);
        let context = match &links.context {
            ContextLink::Counted(context) => context.lost(),
            ContextLink::Own(_) => None,
        };
        device.or(context).map_or(Ok(()), |lost| Err(lost.clone()))
    }

    pub(crate) fn context(&self) -> Option<Arc<ContextShared>> {
        match &self.links().context {
            ContextLink::Counted(context) => Some(context.clone()),
            ContextLink::Own(context) => context.upgrade(),
        }
    }

    /// The context that the queue's commands are of, if it is not the context's own queue.
    #[inline]
    fn counted_context(&self) -> Option<&Arc<ContextShared>> {
        match &self.links().context {
            ContextLink::Counted(context) => Some(context),
            ContextLink::Own(_) => None,
        }
    }
}

static NEXT_ID: AtomicU32 = AtomicU32::new(1);

/// A queue of a device in a context. Clones are the same queue; when the last is dropped, the queue
/// is flushed and its commands still run.
#[derive(Clone)]
pub struct Queue {
    place: &'static Place,
    _handle: Arc<Handle>,
}

struct Handle(&'static Place);

impl Drop for Handle {
    fn drop(&mut self) {
        if crate::process::is_forked() {
            // No command in it ends here.
            return;
        }
        let queue = self.0;
        let end = queue.progress.end();
        if !queue.progress.reached(end) {
            // Its commands may wait for commands of other queues, which nobody may flush any more:
            // as for a wait.
            flush_for([Some(queue)]);
        }
        let recycle = Observer::new(Action::Call(Box::new(move || {
            // SAFETY: this was the last handle, so no command comes any more, and all that came are
            // over.
            unsafe { queue.recycle() };
        })));
        if queue.observe(end, &recycle).is_none() {
            fire(&recycle);
        }
    }
}

impl Queue {
    pub(crate) fn new(
        context: &Arc<ContextShared>,
        device: &Device,
        options: QueueOptions,
    ) -> Self {
        Self::with_link(
            ContextLink::Counted(context.clone()),
            context.id(),
            device.driver().clone(),
            Some(device.clone()),
            options,
        )
    }

    /// A queue that belongs to the context itself.
    pub(crate) fn internal(
        context: Weak<ContextShared>,
        context_number: u32,
        driver: Arc<dyn Driver>,
        device: Option<Device>,
    ) -> Self {
        let options = QueueOptions {
            in_order: false,
            ..QueueOptions::default()
        };
        Self::with_link(
            ContextLink::Own(context),
            context_number,
            driver,
            device,
            options,
        )
    }

    fn with_link(
        context: ContextLink,
        context_number: u32,
        driver: Arc<dyn Driver>,
        device: Option<Device>,
        options: QueueOptions,
    ) -> Self {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let tracing = crate::trace::enabled();
        if tracing {
            let name = device.as_ref().map_or("host", Device::name);
            crate::trace::name_queue(id, &format!("queue {id} on {name}"));
        }
        let head = Head {
            context_id: match &context {
                ContextLink::Counted(context) => context.id(),
                ContextLink::Own(_) => 0,
            },
            space: device.as_ref().map_or(SpaceId::HOST, Device::space),
            maps_host_memory: device
                .as_ref()
                .is_some_and(|device| device.properties().maps_host_memory),
            domain: device.as_ref().and_then(Device::domain),
            timed: options.profiling || tracing,
            moves_within_spaces: driver.moves_within_spaces(),
            needs_flush: driver.needs_flush(),
            owner: (
                Arc::as_ptr(&driver).cast(),
                device.as_ref().map_or(0, |device| device.index() as u32),
            ),
            router: driver.clone(),
            device: device.as_ref().map(|device| DeviceName {
                name: device.name().to_owned(),
                id: device.id(),
            }),
            options,
            dirty: AtomicBool::new(false),
            id,
            links: Box::new(Links {
                driver,
                device,
                context,
            }),
        };
        let place = QueueShared::create(head, context_number);
        Self {
            place,
            _handle: Arc::new(Handle(place)),
        }
    }

    /// The queue as drivers see it.
    #[inline]
    #[must_use]
    pub fn shared(&self) -> &QueueShared {
        // SAFETY: this is a handle.
        unsafe { self.place.in_use() }
    }

    /// True if everything that was enqueued is over.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.place.progress.reached(self.place.progress.end())
    }

    /// Makes all enqueued commands, and those that they wait for, run without a further call.
    pub fn flush(&self) {
        self.shared().flush();
    }

    /// Waits until everything that was enqueued before the call is over, and for no command that
    /// others enqueue meanwhile. Failed commands are over too: their events say so.
    ///
    /// # Errors
    /// If waiting here could never end.
    pub fn wait(&self) -> Result<()> {
        // Before it looks: another thread may have had the progress's lock.
        crate::process::check()?;
        let end = self.place.progress.end();
        let happened = || self.place.progress.reached(end);
        let _blocking = enter_blocking_wait(false, &happened, hand_over_needed)?;
        let waiter = Waiter::for_queue(self.place, &**self.shared().router(), end);
        let _seen_to = waiter.sees_to();
        flush_for([Some(self.place)]);
        let _resumed = polling::while_waiting();
        waiter.join()?;
        if waiter.is_done() {
            Ok(())
        } else {
            Err(ErrorKind::TimedOut.into())
        }
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.shared().fmt(f)
    }
}
