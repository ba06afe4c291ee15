//! Content sizes: reads of the bytes of buffers that are in use, for the client or for another
//! node, and commands of the node's devices that need no more.
//!
//! The buffer of the content size has this number when the read's turn comes. So the read is a turn
//! of the host with both buffers. While the turn is enqueued, the buffer has a content size in the
//! node's core. So only the bytes in use come from a device.

use super::bulk::Bulk;
use super::commands::{Begun, Done, Work, access};
use super::ends;
use super::landing::Landing;
use super::peer_sender::Parcel;
use super::transfer::{not_larger, too_much};
use super::{Broken, ends::Content};
use quipu_protocol::message::{Command, ContentSize, ReadContent, SendContent};
use quipu_scheduler::event::Profile;
use quipu_scheduler::memory::mapping::HostLease;
use quipu_scheduler::{AccessMode, Error, Event, MemoryRef, Queue, Request, clock};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Bytes of a content size.
const SIZE: u64 = 8;

/// The bytes that are in use, of a turn that has its range first, and the content size then.
fn used(lent: &HostLease, offset: u64) -> Result<Content, Error> {
    let (bytes, size) = (lent.argument(0)?, lent.argument(1)?);
    // SAFETY: eight bytes, which are lent to be read.
    let size = u64::from_le_bytes(unsafe { size.pointer.cast::<[u8; 8]>().read_unaligned() });
    let used = usize::try_from(size.saturating_sub(offset));
    let used = used.unwrap_or(usize::MAX).min(bytes.length);
    if used == 0 {
        return Ok(None);
    }
    // SAFETY: so many bytes are lent to be read.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.pointer, used) };
    Landing::holding(bytes).map(Some)
}

impl Work {
    pub(super) fn read_content(
        &mut self,
        command: &Command<'_>,
        read: &ReadContent,
        waits: &[Event],
    ) -> Done<Result<Begun, Error>> {
        let from = read.offset..read.offset + read.row;
        let limits = self.node.options.limits;
        if read.transfer == 0 && read.row > limits.inline.into() {
            return Err(Broken::limit(
                "more bytes come with a read than the welcome allows",
            ));
        }
        let both = self.with_size(command, (read.buffer, &from), read.size)?;
        let (transfer, bulk) = (read.transfer, self.bulk.clone());
        if transfer != 0 {
            if !bulk.reserve(true, read.row, limits.session_bytes) {
                let error = too_much(read.row, limits.session_bytes);
                return match bulk.name(transfer) {
                    true => Ok(Err(error)),
                    false => Err(not_larger()),
                };
            }
            if !bulk.begin_read(transfer, None, &[read.row as usize]) {
                return Err(not_larger());
            }
        }
        let content = Arc::new(OnceLock::new());
        let own = Arc::clone(&content);
        let offset = read.offset;
        let sends = Arc::clone(&bulk);
        let event = self.take_turn(both, waits, move |lent: &HostLease| {
            let used = used(lent, offset)?;
            if transfer != 0 {
                sends.content_is_ready(transfer, used.clone());
            }
            // Set once, here.
            let _ = own.set(used);
            Ok(())
        });
        let event = event.inspect_err(|_| {
            if transfer != 0 {
                bulk.read_failed(transfer);
            }
        });
        Ok(event.map(|event| Begun {
            event: Some(event),
            result: ends::Result::Content(transfer, content),
        }))
    }

    /// Sends what is in use to a peer.
    pub(super) fn send_content(
        &mut self,
        command: &Command<'_>,
        send: &SendContent,
        waits: &[Event],
    ) -> Done<Result<Begun, Error>> {
        let SendContent { all, size } = *send;
        let peer_sender = self.way_to(all.peer)?;
        let range = all.offset..all.offset + all.row;
        let both = self.with_size(command, (all.buffer, &range), size)?;
        if !self.bulk.name(all.transfer) {
            return Err(not_larger());
        }
        let most = self.node.options.limits.session_bytes;
        let Some(mut reserved) = Reserved::new(&self.bulk, all.row, most) else {
            return Ok(Err(too_much(all.row, most)));
        };
        let ran = Arc::new(OnceLock::new());
        let (times, submitted_ns) = (ran.clone(), clock::now_ns());
        let event = self.take_turn(both, waits, move |lent: &HostLease| {
            let started_ns = clock::now_ns();
            let used = used(lent, all.offset)?;
            let is_all = used
                .as_ref()
                .is_some_and(|used| used.len() as u64 == all.row);
            let parcel = Parcel::of_content(&all, used, !is_all);
            reserved.keep(parcel.counted());
            peer_sender.send(parcel);
            // Set once, here.
            let _ = times.set(Profile {
                submitted_ns,
                started_ns,
                ended_ns: clock::now_ns(),
                lane: ends::HOST_LANE,
                ..Profile::default()
            });
            Ok(())
        });
        let result = match command.profiled {
            true => ends::Result::Timed(ran),
            false => ends::Result::Plain,
        };
        Ok(event.map(|event| Begun {
            event: Some(event),
            result,
        }))
    }

    /// Begins a command, for which the node's core brings only what is in use of these buffers to
    /// another memory. Where a buffer has been freed, or is too small, all bytes are brought: the
    /// command has a transfer perhaps, which has to begin.
    pub(super) fn begin_with_sizes(
        &mut self,
        command: &Command<'_>,
        sizes: &[ContentSize],
        waits: &[Event],
    ) -> Done<Result<Begun, Error>> {
        let mut known = Vec::new();
        for one in sizes {
            let memory = self.objects.buffer(one.buffer.get(), &(0..0))?;
            let size = self.objects.buffer(one.size.get(), &(0..SIZE))?;
            if let (Ok(memory), Ok(size)) = (memory, size)
                && memory.set_content_size(Some(size)).is_ok()
            {
                known.push(memory);
            }
        }
        let begun = self.begin(command, waits);
        for memory in known {
            // To take one back is never refused.
            let _ = memory.set_content_size(None);
        }
        begun
    }

    /// A range of a buffer, and what says how much of it is in use, for a turn.
    fn with_size(
        &mut self,
        command: &Command<'_>,
        (buffer, range): (u64, &Range<u64>),
        size: u64,
    ) -> Done<Result<WithSize, Error>> {
        let queue = self.queue(command)?;
        let memory = self.objects.buffer(buffer, range)?;
        let size = self.objects.buffer(size, &(0..SIZE))?;
        let both = || {
            Ok(WithSize {
                queue: queue?,
                memory: memory?,
                range: range.clone(),
                size: size?,
            })
        };
        Ok(both())
    }

    /// Has the host do something with both.
    fn take_turn(
        &mut self,
        both: Result<WithSize, Error>,
        waits: &[Event],
        turn: impl FnOnce(&HostLease) -> Result<(), Error> + Send + 'static,
    ) -> Result<Event, Error> {
        let WithSize {
            queue,
            memory,
            range,
            size,
        } = both?;
        let host = self.objects.host()?;
        let accesses = [
            access(&memory, &range, AccessMode::Read),
            access(&size, &(0..SIZE), AccessMode::Read),
        ];
        let request = Request {
            accesses: &accesses,
            waits,
            ..Request::default()
        };
        let before = memory.content_size();
        memory.set_content_size(Some(size.clone()))?;
        let turn = host.run(&queue, &request, turn);
        memory.set_content_size(before)?;
        Ok(turn?.event)
    }
}

/// See [`Work::with_size`].
struct WithSize {
    queue: Queue,
    memory: MemoryRef,
    range: Range<u64>,
    size: MemoryRef,
}

/// Bytes that count among those on their way out, unless they are kept, until this is dropped.
struct Reserved(Arc<Bulk>, u64);

impl Reserved {
    fn new(bulk: &Arc<Bulk>, bytes: u64, most: u64) -> Option<Self> {
        let is_room = bulk.reserve(true, bytes, most);
        is_room.then(|| Self(bulk.clone(), bytes))
    }

    /// So many of them go on counting.
    fn keep(&mut self, bytes: u64) {
        self.1 = self.1.saturating_sub(bytes);
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.0.give_back(true, self.1);
    }
}
