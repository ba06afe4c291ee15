//! The interface of front ends: enqueues of every kind of command.

use crate::access::{AccessMode, RawArgument};
pub use crate::check::MAX_GROUPS;
use crate::check::{
    check_copy, check_fill, check_fill_rows, check_groups, check_region, empty_access,
    is_empty_region, rows_of, rows_of_copy, write_access,
};
use crate::error::{ErrorKind, Result};
use crate::event::Event;
use crate::graph::Graph;
use crate::memory::Memory;
use crate::memory::access::Access;
use crate::native::NativeEnqueue;
use crate::operation::{
    BarrierBody, Body, BoxedLaunch, COPY, Endpoint, HostMemory, MarkerBody, NativeEnqueueBody,
    NativeKernel, NativeLaunch, READ, Step, TaskBody, Transfer, TransferBody, WRITE,
};
use crate::queue::Queue;
use crate::queue::enqueue::Request;
use std::any::Any;

impl Queue {
    /// Launches a native kernel over `groups` work-groups. With no groups,
    /// nothing is run, but the launch keeps its place in the order.
    ///
    /// # Errors
    /// If an access is out of bounds, mapped or of another context, or the
    /// device is lost.
    #[inline]
    pub fn launch<K: NativeKernel>(
        &self,
        kernel: K,
        groups: u64,
        request: &Request<'_>,
    ) -> Result<Event> {
        let groups = check_groups(groups)?;
        if let Some(sizes) = self.sizes_to_read(request.accesses) {
            let accesses = sizes.behind(request.accesses);
            let request = Request {
                accesses: &accesses,
                ..*request
            };
            return self.enqueue(BoxedLaunch(Box::new(kernel)), groups, &request);
        }
        if NativeLaunch::<K>::fits(request.accesses.len()) {
            self.enqueue(NativeLaunch(kernel), groups, request)
        } else {
            self.enqueue(BoxedLaunch(Box::new(kernel)), groups, request)
        }
    }

    /// As [`Queue::launch`], one-way: no event.
    ///
    /// # Errors
    /// As [`Queue::launch`].
    #[inline]
    pub fn post_launch<K: NativeKernel>(
        &self,
        kernel: K,
        groups: u64,
        request: &Request<'_>,
    ) -> Result<()> {
        let groups = check_groups(groups)?;
        if let Some(sizes) = self.sizes_to_read(request.accesses) {
            let accesses = sizes.behind(request.accesses);
            let request = Request {
                accesses: &accesses,
                ..*request
            };
            return self.post(BoxedLaunch(Box::new(kernel)), groups, &request);
        }
        if NativeLaunch::<K>::fits(request.accesses.len()) {
            self.post(NativeLaunch(kernel), groups, request)
        } else {
            self.post(BoxedLaunch(Box::new(kernel)), groups, request)
        }
    }

    /// Runs a closure on the host, once, with its declared accesses.
    ///
    /// # Errors
    /// As [`Queue::launch`].
    pub fn host_task(
        &self,
        task: impl FnOnce(&[RawArgument]) -> Result<()> + Send + 'static,
        request: &Request<'_>,
    ) -> Result<Event> {
        self.enqueue(
            TaskBody::<false, _>(Some(Box::new(task))),
            1,
            &without_rows(request),
        )
    }

    /// The driver's own queue behind this one, of a type that the driver's crate
    /// documents: for [`Queue::native_call`]. `None` if the driver has none.
    #[must_use]
    pub fn native(&self) -> Option<Box<dyn Any + Send>> {
        self.shared().driver().native_queue(self.shared())
    }

    /// As [`Queue::host_task`], for a closure that uses the driver's own queue ([`Queue::native`]):
    /// its work there is over when it returns.
    ///
    /// # Errors
    /// As [`Queue::launch`].
    pub fn native_call(
        &self,
        call: impl FnOnce(&[RawArgument]) -> Result<()> + Send + 'static,
        request: &Request<'_>,
    ) -> Result<Event> {
        self.enqueue(
            TaskBody::<true, _>(Some(Box::new(call))),
            1,
            &without_rows(request),
        )
    }

    /// Calls a closure that puts work of its own into the driver's queue. The closure gets the
    /// native memory of the buffers that the request declares, which are made valid there first.
    /// The command is over when the work is over. The closure is called once, when everything that
    /// it reads has been written without a fault. It is not called if that fails, or if the command
    /// is cancelled before.
    ///
    /// A thread that hands commands over for the driver calls the closure, and hands over nothing
    /// else meanwhile. So the closure may enqueue, but must not wait for other commands.
    ///
    /// # Errors
    /// If the driver hands out no queues of the closure's type; as [`Queue::launch`].
    ///
    /// # Safety
    /// The closure's work touches only the memory that the request declares, in the declared ranges
    /// and modes, and memory of its own. When the closure returns, all work that uses the command's
    /// memory has been put into the queue that the closure got, or has finished. The closure does
    /// not change the driver's objects.
    pub unsafe fn native_enqueue(
        &self,
        enqueue: NativeEnqueue,
        request: &Request<'_>,
    ) -> Result<Event> {
        self.check_native(&enqueue)?;
        self.enqueue(NativeEnqueueBody(Box::new(enqueue)), 1, request)
    }

    /// As [`Queue::native_enqueue`], one-way: no event.
    ///
    /// # Errors
    /// As [`Queue::native_enqueue`].
    ///
    /// # Safety
    /// As [`Queue::native_enqueue`].
    pub unsafe fn post_native_enqueue(
        &self,
        enqueue: NativeEnqueue,
        request: &Request<'_>,
    ) -> Result<()> {
        self.check_native(&enqueue)?;
        self.post(NativeEnqueueBody(Box::new(enqueue)), 1, request)
    }

    fn check_native(&self, enqueue: &NativeEnqueue) -> Result<()> {
        let driver = self.shared().driver();
        if driver.takes_native(enqueue.queue_type()) {
            return Ok(());
        }
        Err(ErrorKind::Unsupported {
            driver: driver.name(),
            what: format!("hand a {} to a closure", enqueue.queue_type_name()),
            instead: "use the type of native queue that the device's driver documents, or, where it has none, a \
                      kernel or a host task",
        }
        .into())
    }

    /// Launches a recorded graph, as one command of this queue: see [`graph`](crate::graph). It
    /// waits for `waits`, for the commands that the queue's order demands, for the graph's last
    /// launch, and for other users of the same bytes.
    ///
    /// # Errors
    /// If the graph is of another context, a buffer of it is mapped or has a content
    /// size, or a device is lost.
    pub fn launch_graph(
        &self,
        graph: &Graph,
        waits: &[Event],
        label: Option<&str>,
    ) -> Result<Event> {
        let event = self
            .enqueue_graph(graph, waits, label, true)?
            .expect("an event was asked for");
        self.wait_if_blocking(&event)?;
        Ok(event)
    }

    /// As [`Queue::launch_graph`], one-way: no event.
    ///
    /// # Errors
    /// As [`Queue::launch_graph`].
    pub fn post_graph(&self, graph: &Graph, waits: &[Event], label: Option<&str>) -> Result<()> {
        if self.shared().options().blocking {
            return self.launch_graph(graph, waits, label).map(drop);
        }
        self.enqueue_graph(graph, waits, label, false).map(drop)
    }

    /// A marker: over when its waits are, or, without any, when all that was
    /// enqueued before is.
    ///
    /// # Errors
    /// If the device is lost.
    pub fn marker(&self, waits: &[Event]) -> Result<Event> {
        let request = Request {
            waits,
            ..Request::default()
        };
        self.enqueue(MarkerBody(()), 1, &request)
    }

    /// A barrier: over when its waits are, or, without any, when all that was
    /// enqueued before is; all that is enqueued after waits for it.
    ///
    /// # Errors
    /// If the device is lost.
    pub fn barrier(&self, waits: &[Event]) -> Result<Event> {
        let request = Request {
            waits,
            ..Request::default()
        };
        self.enqueue(BarrierBody, 1, &request)
    }

    /// Fills a range with a repeated pattern of 1 to 16 bytes. Like each transfer, a fill of no
    /// bytes does nothing, in its place in the order.
    ///
    /// # Errors
    /// If the pattern's size is wrong or does not divide the range's, or as
    /// [`Queue::launch`].
    pub fn fill(&self, destination: Access<'_>, pattern: &[u8], waits: &[Event]) -> Result<Event> {
        let fill = check_fill(destination.length, pattern)?;
        if destination.length == 0 {
            return self.enqueue_nothing(&[destination], waits);
        }
        let accesses = [write_access(destination, true)];
        let request = Request {
            accesses: &accesses,
            waits,
            ..Request::default()
        };
        self.enqueue(fill, 1, &request)
    }

    /// As [`Queue::fill`], for rows of so many bytes. The pattern begins anew in each row. The
    /// access covers them from the first byte to the last; the bytes between them stay as they are.
    /// Of steps, only the strides of the destination count.
    ///
    /// # Errors
    /// If the rows overlap, or do not fit the access, or as [`Queue::fill`].
    pub fn fill_rows(
        &self,
        destination: Access<'_>,
        pattern: &[u8],
        row: u64,
        steps: &[Step],
        waits: &[Event],
    ) -> Result<Event> {
        if is_empty_region(row, steps) {
            check_fill(row, pattern)?;
            return self.enqueue_nothing(&[empty_access(destination)], waits);
        }
        let (fill, access) = check_fill_rows(destination, pattern, row, steps)?;
        let rows = rows_of(0, &access, row, steps, |step| step.destination_stride);
        let request = Request {
            accesses: &[access],
            regions: rows.as_slice(),
            waits,
            ..Request::default()
        };
        self.enqueue(fill, 1, &request)
    }

    /// Copies an n-dimensional region between two memory objects, or within one. The
    /// accesses cover the region from its first to its last byte. They may overlap in
    /// one object where its rows do not: where they are as far apart in the source as
    /// in the destination, and each step leads past all of those within it.
    ///
    /// # Errors
    /// If the region does not fit its accesses, or its two sides [share
    /// bytes](crate::overlap::refuse_overlap), or as [`Queue::launch`].
    pub fn copy(
        &self,
        source: Access<'_>,
        destination: Access<'_>,
        row: u64,
        steps: &[Step],
        waits: &[Event],
    ) -> Result<Event> {
        if is_empty_region(row, steps) {
            return self.enqueue_nothing(&[source, destination].map(empty_access), waits);
        }
        let dense = check_copy(&source, &destination, row, steps)?;
        let accesses = [
            Access {
                mode: AccessMode::Read,
                ..source
            },
            write_access(destination, dense),
        ];
        let sizes = self.sizes_to_read(&accesses);
        let with_sizes = sizes.as_ref().map(|sizes| sizes.behind(&accesses));
        let request = Request {
            accesses: with_sizes.as_deref().unwrap_or(&accesses),
            regions: &rows_of_copy(&accesses, row, steps),
            waits,
            ..Request::default()
        };
        let transfer = Transfer {
            source: Endpoint::Argument(0),
            destination: Endpoint::Argument(1),
            row,
            steps: steps.to_vec(),
        };
        self.enqueue(TransferBody::<COPY>(Box::new(transfer)), 1, &request)
    }

    /// Writes an n-dimensional region of host memory to a memory object.
    ///
    /// # Errors
    /// As [`Queue::copy`].
    pub fn write(
        &self,
        source: HostMemory,
        destination: Access<'_>,
        row: u64,
        steps: &[Step],
        waits: &[Event],
    ) -> Result<Event> {
        if is_empty_region(row, steps) {
            return self.enqueue_nothing(&[empty_access(destination)], waits);
        }
        let dense = check_region("write", row, steps, source.len() as u64, destination.length)?;
        let accesses = [write_access(destination, dense)];
        let rows = rows_of(0, &accesses[0], row, steps, |step| step.destination_stride);
        let request = Request {
            accesses: &accesses,
            regions: rows.as_slice(),
            waits,
            ..Request::default()
        };
        let transfer = Transfer {
            source: Endpoint::Host(source),
            destination: Endpoint::Argument(0),
            row,
            steps: steps.to_vec(),
        };
        self.enqueue(TransferBody::<WRITE>(Box::new(transfer)), 1, &request)
    }

    /// Reads an n-dimensional region of a memory object to host memory.
    ///
    /// # Errors
    /// As [`Queue::copy`].
    pub fn read(
        &self,
        source: Access<'_>,
        destination: HostMemory,
        row: u64,
        steps: &[Step],
        waits: &[Event],
    ) -> Result<Event> {
        if is_empty_region(row, steps) {
            return self.enqueue_nothing(&[empty_access(source)], waits);
        }
        check_region("read", row, steps, source.length, destination.len() as u64)?;
        let accesses = [Access {
            mode: AccessMode::Read,
            ..source
        }];
        let rows = rows_of(0, &accesses[0], row, steps, |step| step.source_stride);
        let request = Request {
            accesses: &accesses,
            regions: rows.as_slice(),
            waits,
            ..Request::default()
        };
        let transfer = Transfer {
            source: Endpoint::Argument(0),
            destination: Endpoint::Host(destination),
            row,
            steps: steps.to_vec(),
        };
        self.enqueue(TransferBody::<READ>(Box::new(transfer)), 1, &request)
    }
}

/// A closure on the host may be given copies of its accesses, which go back with all bytes between
/// the rows.
fn without_rows<'a>(request: &Request<'a>) -> Request<'a> {
    Request {
        regions: &[],
        ..*request
    }
}

impl Memory {
    /// True if both belong to the same context.
    #[must_use]
    pub fn same_context(&self, other: &Memory) -> bool {
        self.context_id() == other.context_id()
    }
}
