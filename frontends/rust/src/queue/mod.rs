//! Queues: where commands are enqueued.
//!
//! | module | commands |
//! |---|---|
//! | here | markers, barriers, waits |
//! | `transfer` | write, read, copy, fill: of memory that commands own |
//! | `borrow` | the same of memory that is borrowed, in calls and scopes that wait |
//! | `content` | transfers that a content size cuts short, carried out by the host's code |
//! | `launch` | kernels and closures over indices |
//! | `task` | closures on the host |
//! | `native` | closures that are handed the driver's own queue |
//! | `map` | the host's turn at a buffer |
//! | `record` | launches of recorded graphs |
//!
//! `scratch` has memory for algorithms of several commands.
//!
//! Hazards are tracked between all queues of a context, in-order or not: two commands, one of which
//! writes bytes that the other touches, never run at the same time. They run in the order in which
//! they were enqueued. That lets the API be safe. An in-order queue adds that its commands have the
//! effects, and show the host their ends, in order; an out-of-order queue adds nothing.

mod borrow;
mod content;
pub(crate) mod launch;
mod map;
mod native;
mod record;
mod scratch;
pub(crate) mod task;
pub(crate) mod transfer;

pub use borrow::Scope;
pub use launch::IntoDivision;
pub use map::{Guard, MapRead, MapReadNd, MapWrite, MapWriteNd, Mapping};
pub use scratch::Scratch;

use crate::buffer::Buffer;
use crate::context::Context;
use crate::device::Device;
use crate::element::Element;
use quipu_kernel::AcceleratorLimits;
use quipu_scheduler::Request;
use quipu_scheduler::{Access, Event, QueueOptions, Result};
use std::fmt;
use std::sync::Arc;

/// A queue of a device in a context. Cheap to clone; clones are the same queue. When the last is
/// dropped, the commands in it still run.
#[derive(Clone)]
pub struct Queue {
    shared: Arc<QueueInner>,
    waits: Vec<Event>,
    label: Option<Arc<str>>,
}

pub(crate) struct QueueInner {
    core: quipu_scheduler::Queue,
    context: Context,
    device: Device,
    limits: &'static AcceleratorLimits,
    /// Memory for the next scratch buffers.
    scratch: scratch::Kept,
    /// True if the device's driver runs native code.
    runs_native_code: bool,
    /// True if the first launch of a kernel here makes its source, too.
    checks_sources: bool,
}

impl Drop for QueueInner {
    fn drop(&mut self) {
        if quipu_scheduler::process::is_forked() {
            return;
        }
        self.context.queue_dropped(&self.core);
    }
}

impl Queue {
    pub(crate) fn new(core: quipu_scheduler::Queue, context: Context, device: Device) -> Self {
        Self {
            shared: Arc::new(QueueInner {
                core,
                context,
                limits: device.shared_limits(),
                scratch: scratch::Kept::default(),
                runs_native_code: device.core().driver().runs_native_code(),
                checks_sources: crate::kernel::source::are_checked(),
                device,
            }),
            waits: Vec::new(),
            label: None,
        }
    }

    #[inline]
    pub(crate) fn core(&self) -> &quipu_scheduler::Queue {
        &self.shared.core
    }

    /// True if the device's driver runs native code.
    pub(crate) fn runs_native_code(&self) -> bool {
        self.shared.runs_native_code
    }

    #[inline]
    pub(crate) fn request<'r>(&'r self, accesses: &'r [Access<'r>]) -> Request<'r> {
        Request {
            accesses,
            waits: &self.waits,
            label: self.label.as_deref(),
            ..Request::default()
        }
    }

    /// The queue's device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.shared.device
    }

    /// The queue's context.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.shared.context
    }

    /// Its device's limits and preferences for work divisions.
    #[must_use]
    pub fn limits(&self) -> &AcceleratorLimits {
        self.shared.limits
    }

    /// The options that it was made with.
    #[must_use]
    pub fn options(&self) -> &QueueOptions {
        self.core().shared().options()
    }

    /// The same queue, for commands that also wait for these events (of any
    /// queue of any context). If one of those fails, so do they.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # fn main() -> quipu::Result<()> {
    /// # let context = Platform::new()?.context()?;
    /// # let queue = context.queue(&context.fastest())?;
    /// let gate = UserEvent::new();
    /// let task = queue.after([gate.event()]).host_task(|| 42)?;
    /// assert!(!task.is_complete());
    /// gate.complete();
    /// assert_eq!(task.wait()?, 42);
    /// # Ok(()) }
    /// ```
    #[must_use = "the events are waited for by commands that are enqueued through what this gives"]
    pub fn after(&self, events: impl IntoIterator<Item = Event>) -> Self {
        let mut queue = self.clone();
        queue.waits.extend(events);
        queue
    }

    /// The same queue, for launches and host tasks that go by this name in logs
    /// and traces.
    #[must_use = "the name is that of commands that are enqueued through what this gives"]
    pub fn named(&self, label: &str) -> Self {
        let mut queue = self.clone();
        queue.label = Some(Arc::from(label));
        queue
    }

    /// A buffer of so many elements, all zero, for later commands. Its memory is
    /// taken in their order: when the first that uses it is handed to its
    /// device. It is given back in order as well: when the last is over.
    ///
    /// # Errors
    /// If the size is zero or overflows.
    pub fn allocate<T: Element>(&self, length: usize) -> Result<Buffer<T>> {
        self.shared.context.allocate(length)
    }

    /// An event that is over when everything enqueued before is; through
    /// [`after`](Queue::after), when those events are.
    ///
    /// # Errors
    /// If the device or the context is lost.
    pub fn marker(&self) -> Result<Event> {
        self.core().marker(&self.waits)
    }

    /// As [`Queue::marker`], and everything enqueued after waits for it.
    ///
    /// # Errors
    /// If the device or the context is lost.
    pub fn barrier(&self) -> Result<Event> {
        self.core().barrier(&self.waits)
    }

    /// Makes the queue wait for an event: everything enqueued after runs after
    /// it, however it ends.
    ///
    /// An event is made by the enqueue of its command, so no command, and no
    /// queue, can wait for an event of its own future:
    ///
    /// ```compile_fail,E0381
    /// # fn test(queue: &quipu::Queue) -> quipu::Result<()> {
    /// let event: quipu::Event;
    /// event = queue.wait_for(&event)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the device or the context is lost.
    pub fn wait_for(&self, event: &Event) -> Result<Event> {
        let mut waits = self.waits.clone();
        waits.push(event.clone());
        self.core().barrier(&waits)
    }

    /// True if everything that was enqueued is over.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.core().is_empty()
    }

    /// Makes everything that was enqueued run without a further call. Waits and
    /// polls do so too.
    pub fn flush(&self) {
        self.core().flush();
    }

    /// Waits until everything that was enqueued before the call is over. Failed
    /// commands are over too: their futures say so.
    ///
    /// # Errors
    /// If waiting here could never end.
    pub fn wait(&self) -> Result<()> {
        self.core().wait()
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core().fmt(f)
    }
}
