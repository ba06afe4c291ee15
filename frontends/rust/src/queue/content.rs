//! Transfers that the host's code carries out where the bytes are: those that a
//! content size cuts short, and those of borrowed memory.
//!
//! A buffer's content size is the first element of another buffer, read when
//! the transfer runs; so the transfer has a hazard on that buffer too. Bytes past
//! the content are not moved; where they would have gone, zeros are.

use super::Queue;
use super::borrow::Lease;
use crate::layout::Rows;
use crate::parcel::Contained;
use quipu_scheduler::Request;
use quipu_scheduler::memory::mapping::HostLease;
use quipu_scheduler::operation::Step;
use quipu_scheduler::overlap::refuse_overlap;
use quipu_scheduler::{Access, AccessMode, Event, MemoryRef, MemorySpace, RawArgument, Result};
use smallvec::SmallVec;
use std::any::Any;
use std::sync::Arc;

/// The content sizes that a transfer has to mind: of which of its buffers, and
/// where the number is.
pub(super) struct Content(SmallVec<[(usize, MemoryRef); 2]>);

impl Content {
    /// Of these buffers.
    pub(super) fn of(memories: &[&MemoryRef]) -> Self {
        let sizes = memories.iter().enumerate();
        Self(
            sizes
                .filter_map(|(index, memory)| Some((index, memory.content_size()?)))
                .collect(),
        )
    }

    pub(super) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// The hazards on the buffers that hold the sizes, before the transfer's own.
    fn accesses<'a>(&'a self, own: &[Access<'a>]) -> SmallVec<[Access<'a>; 4]> {
        let sizes = self.0.iter().map(|(_, memory)| Access {
            memory,
            offset: 0,
            length: size_of::<u64>() as u64,
            mode: AccessMode::Read,
        });
        sizes.chain(own.iter().copied()).collect()
    }

    /// For each of the transfer's own accesses: where it starts in its buffer,
    /// and which argument, if any, says how much of the buffer is in use.
    fn limits(&self, own: &[Access<'_>]) -> SmallVec<[Limit; 2]> {
        let limit = |(index, access): (usize, &Access<'_>)| Limit {
            offset: access.offset,
            size: self.0.iter().position(|(of, _)| *of == index),
        };
        own.iter().enumerate().map(limit).collect()
    }

    /// A copy between buffers.
    pub(super) fn enqueue_copy(
        &self,
        queue: &Queue,
        source: Access<'_>,
        destination: Access<'_>,
        rows: Rows,
        dense: bool,
    ) -> Result<Event> {
        refuse_overlap(&source, &destination, rows.row, &rows.steps)?;
        let own = [source, written(destination, dense)];
        let limits = self.limits(&own);
        let first = self.0.len();
        let task = move |arguments: &[RawArgument]| {
            let (from, to) = (arguments[first], arguments[first + 1]);
            let limits = [limits[0].resolve(arguments), limits[1].resolve(arguments)];
            // SAFETY: rows lie within both accesses, as layouts within their
            // buffers do; they are this command's, and do not overlap.
            unsafe { copy_content(from.pointer, to.pointer, limits, rows.row, &rows.steps) };
            Ok(())
        };
        let accesses = self.accesses(&own);
        enqueue(queue, task, &queue.request(&accesses))
    }
}

/// Enqueues the work of a transfer on its bytes.
fn enqueue(
    queue: &Queue,
    task: impl FnOnce(&[RawArgument]) -> Result<()> + Send + 'static,
    request: &Request<'_>,
) -> Result<Event> {
    // The buffers that hold sizes are no arguments of a call's.
    let named = |error: quipu_scheduler::Error| error.with_argument(|_| None);
    if queue.device().properties().memory == MemorySpace::Host {
        return queue.core().host_task(task, request).map_err(named);
    }
    // The device's driver would bring all bytes to the host: migrations bring those in use.
    let count = request.accesses.len();
    let task = move |lent: &HostLease| {
        let arguments: Result<SmallVec<[RawArgument; 4]>> =
            (0..count).map(|number| lent.argument(number)).collect();
        task(&arguments?)
    };
    let host = queue.context().host();
    let turn = host.run(queue.core(), request, task).map_err(named)?;
    Ok(turn.event)
}

/// The part of a buffer that is in use, as seen from an access to it.
#[derive(Clone, Copy)]
struct Limit {
    offset: u64,
    size: Option<usize>,
}

impl Limit {
    /// Bytes in use from the access's start on; no limit where none is set.
    fn resolve(self, arguments: &[RawArgument]) -> u64 {
        let Some(size) = self.size else {
            return u64::MAX;
        };
        // SAFETY: the argument is the first eight bytes of the size's buffer, and
        // the command has a hazard on them.
        let bytes = unsafe { arguments[size].pointer.cast::<[u8; 8]>().read() };
        u64::from_le_bytes(bytes).saturating_sub(self.offset)
    }
}

/// The access of a write, which overwrites if it is dense: memory that is written wholly need not
/// be brought there first.
fn written(access: Access<'_>, dense: bool) -> Access<'_> {
    let mode = if dense {
        AccessMode::Overwrite
    } else {
        AccessMode::ReadWrite
    };
    Access { mode, ..access }
}

/// The host's side of a transfer.
enum Host {
    /// Memory that the transfer keeps.
    Owned(
        *mut u8,
        #[expect(dead_code, reason = "keeps the memory")] Arc<dyn Any + Send + Sync>,
    ),
    /// Memory that is borrowed, and may be taken back.
    Leased(Arc<Lease>),
}

// SAFETY: whoever makes one makes sure that the memory may be used from any
// thread until the transfer is over.
unsafe impl Send for Host {}

impl Host {
    /// Uses the memory, if it is still there.
    fn with(&self, use_it: impl FnOnce(*mut u8)) -> Result<()> {
        match self {
            Self::Owned(pointer, _) => {
                use_it(*pointer);
                Ok(())
            }
            Self::Leased(lease) => lease.with(use_it),
        }
    }
}

/// A transfer between a buffer and the host.
pub(super) struct HostTransfer {
    host: Host,
    rows: Rows,
    write: bool,
}

impl HostTransfer {
    pub(super) fn write(host: *const u8, rows: Rows, keep: Arc<dyn Any + Send + Sync>) -> Self {
        Self {
            host: Host::Owned(host.cast_mut(), keep),
            rows,
            write: true,
        }
    }

    pub(super) fn read(host: *mut u8, rows: Rows, keep: Arc<dyn Any + Send + Sync>) -> Self {
        Self {
            host: Host::Owned(host, keep),
            rows,
            write: false,
        }
    }

    pub(super) fn leased(lease: Arc<Lease>, rows: Rows, write: bool) -> Self {
        Self {
            host: Host::Leased(lease),
            rows,
            write,
        }
    }

    /// Enqueues the transfer of the buffer's bytes in `access`. `dense` says
    /// that a write covers them all.
    pub(super) fn enqueue(
        self,
        queue: &Queue,
        content: &Content,
        access: Access<'_>,
        dense: bool,
    ) -> Result<Event> {
        let (own, label) = if self.write {
            ([written(access, dense)], "write")
        } else {
            ([access], "read")
        };
        let limit = content.limits(&own)[0];
        let first = content.0.len();
        let this = Contained::new(self);
        let task = move |arguments: &[RawArgument]| {
            let Self { host, rows, write } = &*this;
            let (buffer, limit) = (arguments[first].pointer, limit.resolve(arguments));
            // SAFETY: rows lie within the access and the host's memory, as their
            // layouts were checked to; the access is this command's, the host's
            // memory is this transfer's while it is used.
            host.with(|host| unsafe {
                if *write {
                    copy_content(host, buffer, [u64::MAX, limit], rows.row, &rows.steps);
                } else {
                    copy_content(buffer, host, [limit, u64::MAX], rows.row, &rows.steps);
                }
            })
        };
        let accesses = content.accesses(&own);
        let request = Request {
            label: Some(label),
            ..queue.request(&accesses)
        };
        enqueue(queue, task, &request)
    }
}

/// Copies rows, and zeros in place of bytes beyond the limits of either side.
///
/// # Safety
/// The rows lie within valid memory on both sides, which nobody else uses.
unsafe fn copy_content(
    source: *const u8,
    destination: *mut u8,
    limits: [u64; 2],
    row: u64,
    steps: &[Step],
) {
    let [from, to] = limits;
    let Some((step, inner)) = steps.split_first() else {
        let moved = row.min(from).min(to) as usize;
        // SAFETY: as the caller promises.
        unsafe {
            std::ptr::copy(source, destination, moved);
            destination.add(moved).write_bytes(0, row as usize - moved);
        }
        return;
    };
    for index in 0..step.count {
        let (there, here) = (index * step.source_stride, index * step.destination_stride);
        let limits = [from.saturating_sub(there), to.saturating_sub(here)];
        // SAFETY: as the caller promises.
        unsafe {
            let (source, destination) =
                (source.add(there as usize), destination.add(here as usize));
            copy_content(source, destination, limits, row, inner);
        }
    }
}
