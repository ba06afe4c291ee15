//! Recorded graphs: commands that are recorded once and launched many times.
//!
//! The facts that an enqueue finds out each time (buffers, waits, migrations between devices) are
//! found out once. A launch is one command, however many are in it.
//!
//! | recorded | properties |
//! |---|---|
//! | launches, closures over indices | as by a queue; values that are passed are those of the recording |
//! | copies, fills | as by a queue |
//! | writes of host memory | the memory is the graph's, and written anew in each launch |
//! | host tasks | may be called many times, and give no value: their results go to buffers |
//! | markers, barriers, waits for other recorded commands | as by a queue, with [`Node`]s in place of events |
//!
//! A graph cannot hold things that there are only once. The compiler refuses a closure that can be
//! called only once. It also refuses borrowed memory and reads, for whose bytes there would be no
//! future:
//!
//! ```compile_fail,E0507
//! # fn test(recording: &quipu::Recording, queue: &quipu::Queue, text: String) -> quipu::Result<()> {
//! recording.on(queue).host_task(move || drop(text))?;
//! # Ok(()) }
//! ```
//!
//! For the same reason a recorder has no native calls ([`Queue::async_execute`] and its like):
//! their closures put their work into a device's queue once. Where a graph is to hold such a call,
//! launch two graphs, one before and one after, with the call between them:
//!
//! ```compile_fail,E0599
//! # use quipu::driver::OpenClQueue;
//! # fn test(recording: &quipu::Recording, queue: &quipu::Queue, x: &quipu::Buffer<f32>) -> quipu::Result<()> {
//! // SAFETY: the closure puts nothing into the device's queue.
//! unsafe { recording.on(queue).async_execute((x,), |_: &OpenClQueue, _| Ok::<(), String>(()))? };
//! # Ok(()) }
//! ```
//!
//! An event from outside is refused as the command is recorded; the launch can wait for it:
//!
//! ```
//! # use quipu::prelude::*;
//! # fn main() -> quipu::Result<()> {
//! # let context = Platform::new()?.context()?;
//! # let queue = context.queue(&context.fastest())?;
//! let gate = UserEvent::new();
//! let recording = context.record();
//! let waiting = queue.after([gate.event()]);
//! let error = recording.on(&waiting).host_task(|| ()).unwrap_err();
//! assert!(error.to_string().contains("launch"));
//!
//! recording.on(&queue).host_task(|| ())?;
//! let launched = waiting.launch_graph(&recording.finish()?)?;
//! assert!(!launched.is_complete());
//! gate.complete();
//! launched.wait()?;
//! # Ok(()) }
//! ```

use crate::buffer::Buffer;
use crate::context::Context;
use crate::element::Element;
use crate::host::Source;
use crate::kernel::{Arguments, HostArguments, Launch, Shared, SharedArguments, collect};
use crate::layout::{Layout, Rows, View};
use crate::parcel::{Contained, Parcel};
use crate::queue::launch::{Enqueue, fill_rows_task, fill_task};
use crate::queue::task::failed;
use crate::queue::transfer::{check_length, part_of};
use crate::queue::{IntoDivision, Queue};
use quipu_scheduler::graph::{NodeRequest, Recording as Core};
use quipu_scheduler::operation::{HostMemory, NativeKernel};
use quipu_scheduler::{AccessMode, ErrorKind, Kind, RawArgument, Request, Result};
use std::fmt;

pub use quipu_scheduler::graph::Node;

/// Commands that are being recorded: see the [module](self).
///
/// ```
/// # use quipu::prelude::*;
/// # fn main() -> quipu::Result<()> {
/// # let context = Platform::new()?.context()?;
/// # let queue = context.queue(&context.fastest())?;
/// let (mut x, y) = (context.buffer(&[1, 2, 3])?, context.allocate::<i32>(3)?);
/// let recording = context.record();
/// let step = recording.on(&queue);
/// step.for_each(&mut x, (), |_, x, ()| *x += 1)?;
/// step.copy(&x, &y)?;
/// let graph = recording.finish()?;
/// assert_eq!(graph.len(), 2);
///
/// for _ in 0..10 {
///     queue.post_graph(&graph)?;
/// }
/// assert_eq!(queue.read(&y)?.wait()?, [11, 12, 13]);
/// # Ok(()) }
/// ```
pub struct Recording(Core);

/// A recorded graph, launched by [`Queue::launch_graph`]. It does not change. Clones are the same
/// graph; the objects that it uses live as long as it does.
#[derive(Clone)]
pub struct Graph(quipu_scheduler::Graph);

/// Records commands for a queue.
#[derive(Clone)]
#[must_use = "commands are recorded through this"]
pub struct Recorder<'r> {
    recording: &'r Recording,
    queue: Queue,
    after: Vec<Node>,
}

impl Context {
    /// An empty recording, for queues of this context.
    #[must_use]
    pub fn record(&self) -> Recording {
        Recording(Core::new(self.core()))
    }
}

impl Recording {
    /// Records for this queue, and under the name that it [goes by](Queue::named).
    pub fn on<'r>(&'r self, queue: &Queue) -> Recorder<'r> {
        Recorder {
            recording: self,
            queue: queue.clone(),
            after: Vec::new(),
        }
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// None at present.
    pub fn finish(self) -> Result<Graph> {
        self.0.finish().map(Graph)
    }
}

impl Graph {
    pub(crate) fn core(&self) -> &quipu_scheduler::Graph {
        &self.0
    }

    /// The number of commands that a launch runs: those recorded, and migrations and markers that
    /// were needed between them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The times at which the commands of the latest launch passed their states: name, kind and
    /// times of those whose queues keep [timestamps](crate::QueueOptions::profiling). To be called
    /// when the launch is over.
    #[must_use]
    pub fn profiles(&self) -> Vec<(String, Kind, crate::Profile)> {
        self.0.profiles()
    }
}

impl Enqueue for &Recorder<'_> {
    type Output = Node;

    fn enqueue(
        self,
        core: &quipu_scheduler::Queue,
        body: impl NativeKernel,
        groups: u64,
        request: &Request<'_>,
    ) -> Result<Node> {
        let request = self.request(request)?;
        self.recording.0.launch(core, body, groups, &request)
    }
}

impl Recorder<'_> {
    /// The same, for commands that also wait for these. If one of those fails, so do
    /// they.
    pub fn after(&self, nodes: impl IntoIterator<Item = Node>) -> Self {
        let mut recorder = self.clone();
        recorder.after.extend(nodes);
        recorder
    }

    /// The same, for launches and host tasks that go by this name in logs and traces.
    pub fn named(&self, label: &str) -> Self {
        let mut recorder = self.clone();
        recorder.queue = recorder.queue.named(label);
        recorder
    }

    /// The request for a node, from the request that a queue would enqueue.
    fn request<'q>(&'q self, request: &Request<'q>) -> Result<NodeRequest<'q>> {
        self.refuse_events(request)?;
        Ok(NodeRequest {
            accesses: request.accesses,
            regions: request.regions,
            after: &self.after,
            unknown_access: request.unknown_access,
            label: request.label,
        })
    }

    fn refuse_events(&self, request: &Request<'_>) -> Result<()> {
        if request.waits.is_empty() {
            return Ok(());
        }
        Err(ErrorKind::InvalidArgument {
            what: "record a command",
            problem: "its queue is to wait for events, which are over once and for all, while a \
                      graph is launched again and again; let the launch wait for them, as in \
                      `queue.after(events).launch_graph(&graph)`"
                .to_owned(),
        }
        .into())
    }

    /// Records a launch of a kernel: see [`Queue::launch`].
    ///
    /// # Errors
    /// As [`Queue::launch`]; if the queue is of another context or waits for events, a
    /// node is of another recording, or a buffer has a content size.
    pub fn launch<'b, const D: usize>(
        &self,
        division: impl IntoDivision<D>,
        call: impl Launch<'b, D>,
    ) -> Result<Node> {
        self.queue.prepare(division, call, self)
    }

    /// Records a closure over the elements of a buffer: see [`Queue::for_each`].
    ///
    /// # Errors
    /// As [`Recorder::launch`].
    pub fn for_each<'b, T, A, F>(
        &self,
        output: &'b mut Buffer<T>,
        arguments: A,
        each: F,
    ) -> Result<Node>
    where
        T: Element,
        A: SharedArguments<'b>,
        F: for<'a> Fn(usize, &'a mut T, <A::Stored as Shared>::Each<'a>) + Send + Sync + 'static,
    {
        self.queue
            .prepare_each(output, arguments, each, |core, body, groups, request| {
                let request = self.request(request)?;
                self.recording.0.launch(core, body, groups, &request)
            })
    }

    /// Records a closure on the host, which is called once in each launch. It may touch anything:
    /// on an in-order queue it runs after everything that was recorded for it before, and before
    /// everything after; and the launch as a whole is ordered so where it is launched.
    ///
    /// # Errors
    /// As [`Recorder::launch`].
    pub fn host_task(&self, mut task: impl FnMut() + Send + 'static) -> Result<Node> {
        let request = self.queue.unknown();
        self.task(&request, move |_| {
            task();
            Ok(())
        })
    }

    /// As [`Recorder::host_task`], for a closure that may fail: an error fails its command, the
    /// commands that depend on it, and the launch.
    ///
    /// # Errors
    /// As [`Recorder::launch`].
    pub fn try_host_task<E: std::fmt::Display + Send + Sync + 'static>(
        &self,
        mut task: impl FnMut() -> Result<(), E> + Send + 'static,
    ) -> Result<Node> {
        let request = self.queue.unknown();
        self.task(&request, move |_| task().map_err(failed))
    }

    /// Records a closure on the host with buffers as slices: see
    /// [`Queue::host_task_with`].
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # fn main() -> quipu::Result<()> {
    /// # let context = Platform::new()?.context()?;
    /// # let queue = context.queue(&context.fastest())?;
    /// let (x, mut sum) = (context.buffer(&[1, 2, 3])?, context.allocate::<i32>(1)?);
    /// let recording = context.record();
    /// recording.on(&queue).host_task_with((&x, &mut sum), |(x, sum)| {
    ///     sum[0] += x.iter().sum::<i32>();
    /// })?;
    /// let graph = recording.finish()?;
    /// queue.launch_graph(&graph)?;
    /// queue.launch_graph(&graph)?;
    /// assert_eq!(queue.read(&sum)?.wait()?, [12]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Recorder::launch`] and [`Queue::host_task_with`].
    pub fn host_task_with<'b, A>(
        &self,
        arguments: A,
        mut task: impl for<'a> FnMut(HostArguments<'a, 'b, A>) + Send + 'static,
    ) -> Result<Node>
    where
        A: Arguments<'b>,
    {
        let (stored, accesses) = collect("record a host task", arguments)?;
        let request = self.queue.request(&accesses);
        self.task(&request, move |raw| {
            // SAFETY: the arguments are this command's, in the order in which they were
            // collected, and do not overlap where they are written.
            unsafe { crate::kernel::host_views(&stored, raw) }.map(&mut task)
        })
    }

    fn task(
        &self,
        request: &Request<'_>,
        task: impl FnMut(&[RawArgument]) -> Result<()> + Send + 'static,
    ) -> Result<Node> {
        let request = self.request(request)?;
        let mut task = Contained::new(task);
        let run = move |arguments: &[RawArgument]| task(arguments);
        let core = self.queue.core();
        self.recording.0.host_task(core, run, &request)
    }

    /// Records a marker: over when everything that was recorded for the queue before is;
    /// through [`after`](Recorder::after), when those commands are.
    ///
    /// # Errors
    /// As [`Recorder::launch`].
    pub fn marker(&self) -> Result<Node> {
        self.refuse_events(&self.queue.request(&[]))?;
        self.recording.0.marker(self.queue.core(), &self.after)
    }

    /// As [`Recorder::marker`], and everything that is recorded for the queue after it waits for
    /// it.
    ///
    /// # Errors
    /// As [`Recorder::launch`].
    pub fn barrier(&self) -> Result<Node> {
        self.refuse_events(&self.queue.request(&[]))?;
        self.recording.0.barrier(self.queue.core(), &self.after)
    }

    /// Records a write of all of `source` to all of `buffer`. The source is the graph's
    /// from now on, and is written again in each launch.
    ///
    /// # Errors
    /// If their lengths differ; else as [`Recorder::launch`].
    pub fn write<T: Element, S: Source<Element = T>>(
        &self,
        buffer: &Buffer<T>,
        source: S,
    ) -> Result<Node> {
        self.refuse_events(&self.queue.request(&[]))?;
        check_length("write", source.source().len(), buffer.len())?;
        let all = Layout::from(buffer.len());
        let mut parcel = Parcel::new(source);
        let host = Parcel::prepare(&mut parcel, |source| {
            let elements = source.source();
            let part = part_of("write", elements.len(), &all)?;
            Ok(elements[part].as_ptr())
        })?;
        let rows = Rows::between::<T, 1>(&all, &all)?;
        let length = buffer.len() * size_of::<T>();
        let access = buffer.access(AccessMode::Overwrite);
        let (core, after) = (self.queue.core(), &self.after);
        // SAFETY: the source does not move nor change in its parcel, which the transfer
        // keeps, and is only read.
        unsafe {
            let memory = HostMemory::new(host.cast_mut().cast(), length, Some(parcel));
            self.recording
                .0
                .write(core, memory, access, rows.row, &rows.steps, after)
        }
    }

    /// Records a copy: see [`Queue::copy`].
    ///
    /// # Errors
    /// As [`Queue::copy`] and [`Recorder::launch`].
    pub fn copy<T: Element>(&self, source: &Buffer<T>, destination: &Buffer<T>) -> Result<Node> {
        check_length("copy", source.len(), destination.len())?;
        let all = Layout::from(source.len());
        self.copy_layout(source, &all, destination, &all)
    }

    /// Records a copy of a view to another: see [`Queue::copy_nd`].
    ///
    /// # Errors
    /// As [`Queue::copy_nd`] and [`Recorder::launch`].
    pub fn copy_nd<T: Element, const D: usize>(
        &self,
        source: &View<T, D>,
        destination: &View<T, D>,
    ) -> Result<Node> {
        let (from, to) = (source.layout(), destination.layout());
        self.copy_layout(source.buffer(), from, destination.buffer(), to)
    }

    fn copy_layout<T: Element, const D: usize>(
        &self,
        source: &Buffer<T>,
        from: &Layout<D>,
        destination: &Buffer<T>,
        to: &Layout<D>,
    ) -> Result<Node> {
        self.refuse_events(&self.queue.request(&[]))?;
        let rows = Rows::between::<T, D>(from, to)?;
        self.recording.0.copy(
            self.queue.core(),
            source.access(AccessMode::Read),
            destination.access(AccessMode::Overwrite),
            rows.row,
            &rows.steps,
            &self.after,
        )
    }

    /// Records a fill: see [`Queue::fill`].
    ///
    /// # Errors
    /// As [`Queue::fill`] and [`Recorder::launch`].
    pub fn fill<T: Element>(&self, buffer: &Buffer<T>, value: T) -> Result<Node> {
        let accesses = [buffer.access(AccessMode::Overwrite)];
        let request = self.queue.request(&accesses);
        let pattern = bytemuck::bytes_of(&value);
        if pattern.len() <= 16 {
            self.refuse_events(&request)?;
            let core = self.queue.core();
            return self
                .recording
                .0
                .fill(core, accesses[0], pattern, &self.after);
        }
        // Longer than a device's engine can repeat.
        if !self.queue.runs_native_code() {
            return self.task(&request, fill_task(buffer, value));
        }
        let (body, groups) = self.queue.fill_body(buffer, value)?;
        let request = self.request(&request)?;
        let core = self.queue.core();
        self.recording.0.launch(core, body, groups, &request)
    }

    /// Records a fill of a view: see [`Queue::fill_nd`].
    ///
    /// # Errors
    /// As [`Queue::fill_nd`] and [`Recorder::launch`].
    pub fn fill_nd<T: Element, const D: usize>(&self, view: &View<T, D>, value: T) -> Result<Node> {
        let layout = view.layout();
        if layout.is_dense() {
            return self.fill(view.buffer(), value);
        }
        let pattern = bytemuck::bytes_of(&value);
        if pattern.len() > 16 {
            // Longer than a device's engine can repeat.
            let accesses = [view.buffer().access(AccessMode::ReadWrite)];
            let request = self.queue.request(&accesses);
            return self.task(&request, fill_rows_task(*layout, value));
        }
        self.refuse_events(&self.queue.request(&[]))?;
        let rows = Rows::between::<T, D>(layout, layout)?;
        self.recording.0.fill_rows(
            self.queue.core(),
            view.buffer().access(AccessMode::Overwrite),
            pattern,
            rows.row,
            &rows.steps,
            &self.after,
        )
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Recorder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "recorder for {:?}", self.queue)
    }
}
