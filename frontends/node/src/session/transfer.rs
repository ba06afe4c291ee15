//! Copies, writes and reads.

use super::Broken;
use super::bulk::{Loan, Parked, Place, Write};
use super::commands::{Begun, Done, Work, access, plain};
use super::ends;
use super::landing::Landing;
use quipu_protocol::message::{self, Command, Stride};
use quipu_scheduler::memory::mapping::HostLease;
use quipu_scheduler::operation::Step;
use quipu_scheduler::{
    AccessMode, Device, Error, ErrorKind, Event, MemoryRef, MemorySpace, Queue, UserEvent,
};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex};

type Enqueued = std::result::Result<Begun, Error>;

/// The bytes of a transfer's piece. A piece of a write goes to the device while the rest comes. A
/// piece of a read goes to the client while the rest is read.
const PIECE: u64 = 1 << 21;

/// The bytes from a region's first to its last.
fn span(offset: u64, row: u64, steps: impl Iterator<Item = (u64, u64)>) -> Range<u64> {
    // The protocol has seen to it that this is less than what overflows.
    let beyond: u64 = steps.map(|(count, stride)| (count - 1) * stride).sum();
    offset..offset + beyond + row
}

fn strides(steps: &[Stride]) -> impl Iterator<Item = (u64, u64)> {
    steps
        .iter()
        .map(|step| (step.count.get(), step.stride.get()))
}

/// The distances between the steps of a region without gaps.
fn dense(row: u64, steps: &[Stride]) -> Vec<u64> {
    let mut size = row;
    let mut all: Vec<u64> = steps
        .iter()
        .rev()
        .map(|step| {
            let stride = size;
            size *= step.count.get();
            stride
        })
        .collect();
    all.reverse();
    all
}

/// The ends of the pieces of so many bytes.
fn pieces(bytes: u64) -> Vec<u64> {
    let count = bytes.div_ceil(PIECE).max(1);
    (1..=count)
        .map(|piece| (piece * PIECE).min(bytes))
        .collect()
}

pub(super) fn too_much(bytes: u64, most: u64) -> Error {
    ErrorKind::OutOfMemory {
        device: "the node's session".to_owned(),
        asked: bytes,
        free: 0,
        capacity: most,
    }
    .into()
}

impl Work {
    pub(super) fn copy(
        &mut self,
        command: &Command<'_>,
        copy: &message::Copy<'_>,
        waits: &[Event],
    ) -> Done<Enqueued> {
        let steps: Vec<Step> = copy
            .steps
            .iter()
            .map(|step| Step {
                count: step.count.get(),
                source_stride: step.source_stride.get(),
                destination_stride: step.destination_stride.get(),
            })
            .collect();
        let from = steps.iter().map(|step| (step.count, step.source_stride));
        let from = span(copy.source_offset, copy.row, from);
        let to = steps
            .iter()
            .map(|step| (step.count, step.destination_stride));
        let to = span(copy.destination_offset, copy.row, to);
        let queue = self.queue(command)?;
        let source = self.objects.buffer(copy.source, &from)?;
        let destination = self.objects.buffer(copy.destination, &to)?;
        let enqueue = || {
            let (queue, source, destination) = (queue?, source?, destination?);
            let event = queue.copy(
                access(&source, &from, AccessMode::Read),
                access(&destination, &to, AccessMode::ReadWrite),
                copy.row,
                &steps,
                waits,
            )?;
            Ok(plain(command, event))
        };
        Ok(enqueue())
    }

    pub(super) fn write(
        &mut self,
        command: &Command<'_>,
        write: &message::Write<'_>,
        waits: &[Event],
    ) -> Done<Enqueued> {
        let bytes = write
            .region_bytes()
            .map_err(|_| Broken::rule("a write of no region"))?;
        let to = span(write.offset, write.row, strides(write.steps));
        if write.bytes.len() > self.node.options.limits.inline as usize {
            return Err(Broken::limit(
                "more bytes ride along than the welcome allows",
            ));
        }
        let queue = self.queue(command)?;
        let memory = self.objects.buffer(write.buffer, &to)?;
        if write.transfer == 0 {
            let enqueue = || {
                let landing = Landing::holding(write.bytes)?;
                // SAFETY: nobody else has it.
                let source = unsafe { landing.part(0..landing.len()) };
                let (queue, memory) = (queue?, memory?);
                let steps = write_steps(write);
                let to = access(&memory, &to, AccessMode::ReadWrite);
                let event = queue.write(source, to, write.row, &steps, waits)?;
                Ok(plain(command, event))
            };
            return Ok(enqueue());
        }
        let most = self.node.options.limits.session_bytes;
        let is_reserved = self.bulk.reserve(false, bytes, most);
        if let (Ok(_), Ok(memory)) = (&queue, &memory)
            && is_reserved
            && self.is_lent(command, write.steps)
        {
            return self.write_lent(command, write, memory, bytes, waits);
        }
        let prepared = || {
            let (queue, memory) = (queue?, memory?);
            if !is_reserved {
                return Err(too_much(bytes, most));
            }
            Ok((queue, memory, Landing::new(bytes)?))
        };
        let (enqueued, landing, pieces) = match prepared() {
            Ok((queue, memory, landing)) => {
                let parts = write_in_pieces(&queue, &memory, write, bytes, &to, &landing, waits);
                let (enqueued, pieces) = match parts {
                    Ok((event, pieces)) => (Ok(plain(command, event)), pieces),
                    Err(error) => (Err(error), VecDeque::new()),
                };
                (enqueued, Some(landing), pieces)
            }
            Err(error) => (Err(error), None, VecDeque::new()),
        };
        // The bytes come all the same.
        let place = landing
            .filter(|_| enqueued.is_ok())
            .map_or(Place::Nowhere, Place::Landing);
        let expected = Write {
            pieces,
            is_reserved,
            ..Write::new(place, bytes)
        };
        if !self.bulk.expect(write.transfer, expected) {
            return Err(not_larger());
        }
        Ok(enqueued)
    }

    pub(super) fn read(
        &mut self,
        command: &Command<'_>,
        read: &message::Read<'_>,
        waits: &[Event],
    ) -> Done<Enqueued> {
        let bytes = read
            .region_bytes()
            .map_err(|_| Broken::rule("a read of no region"))?;
        let from = span(read.offset, read.row, strides(read.steps));
        let limits = self.node.options.limits;
        if read.transfer == 0 && bytes > limits.inline.into() {
            return Err(Broken::limit(
                "more bytes come with a read than the welcome allows",
            ));
        }
        let queue = self.queue(command)?;
        let memory = self.objects.buffer(read.buffer, &from)?;
        let lent = match (&queue, &memory) {
            (Ok(_), Ok(memory)) if self.is_lent(command, read.steps) => Some(memory.clone()),
            _ => None,
        };
        let prepare = || {
            let (queue, memory) = (queue?, memory?);
            Ok::<_, Error>((queue, memory, Landing::new(bytes)?))
        };
        let strided = dense(read.row, read.steps);
        let steps: Vec<Step> = strides(read.steps)
            .zip(strided)
            .map(|((count, source_stride), destination_stride)| Step {
                count,
                source_stride,
                destination_stride,
            })
            .collect();
        if read.transfer == 0 {
            let enqueue = || {
                let (queue, memory, landing) = prepare()?;
                // SAFETY: it is looked at when the read is over.
                let to = unsafe { landing.part(0..landing.len()) };
                let from = access(&memory, &from, AccessMode::Read);
                let event = queue.read(from, to, read.row, &steps, waits)?;
                Ok(Begun {
                    event: Some(event),
                    result: ends::Result::Read(landing),
                })
            };
            return Ok(enqueue());
        }
        let reserved = self.bulk.reserve(true, bytes, limits.session_bytes);
        if let Some(memory) = lent.filter(|_| reserved) {
            return self.read_lent(read, &memory, bytes, waits);
        }
        let prepared = if reserved {
            prepare().inspect_err(|_| self.bulk.give_back(true, bytes))
        } else {
            Err(too_much(bytes, limits.session_bytes))
        };
        let (queue, memory, landing) = match prepared {
            Ok(prepared) => prepared,
            Err(error) if self.bulk.name(read.transfer) => return Ok(Err(error)),
            Err(_) => return Err(not_larger()),
        };
        let ends = if steps.is_empty() {
            pieces(bytes)
        } else {
            vec![bytes]
        };
        let places: Vec<usize> = ends.iter().map(|end| *end as usize).collect();
        if !self
            .bulk
            .begin_read(read.transfer, Some(landing.clone()), &places)
        {
            return Err(not_larger());
        }
        let (mut events, mut start) = (Vec::new(), 0);
        for (piece, end) in ends.iter().copied().enumerate() {
            let (part, row) = match steps.is_empty() {
                true => (from.start + start..from.start + end, end - start),
                false => (from.clone(), read.row),
            };
            // SAFETY: it is looked at when the read is over.
            let to = unsafe { landing.part(start as usize..end as usize) };
            let from = access(&memory, &part, AccessMode::Read);
            match queue.read(from, to, row, &steps, waits) {
                Ok(event) => {
                    let (bulk, transfer) = (self.bulk.clone(), read.transfer);
                    event.on_complete(move |outcome| {
                        if outcome.is_ok() {
                            bulk.piece_is_ready(transfer, piece);
                        }
                    });
                    events.push(event);
                }
                Err(error) => {
                    self.bulk.read_failed(read.transfer);
                    return Ok(Err(error));
                }
            }
            start = end;
        }
        let joined = join(&queue, events);
        Ok(joined.map(|event| Begun {
            event: Some(event),
            result: ends::Result::Transferred(read.transfer),
        }))
    }
}

impl Work {
    /// True if a transfer's bytes go straight from or to the network: its device works in the
    /// host's memory, and they lie there without gaps.
    pub(super) fn is_lent(&self, command: &Command<'_>, steps: &[Stride]) -> bool {
        let device = self.node.options.devices.get(command.device as usize);
        let is_host = |device: &Device| matches!(device.properties().memory, MemorySpace::Host);
        steps.is_empty() && !command.profiled && device.is_some_and(is_host)
    }

    fn write_lent(
        &mut self,
        command: &Command<'_>,
        write: &message::Write<'_>,
        memory: &MemoryRef,
        bytes: u64,
        waits: &[Event],
    ) -> Done<Enqueued> {
        let parked = Parked::new(self.node.clone());
        let loan = Arc::new(Mutex::new(Loan::Awaited(parked, false)));
        let to = access(
            memory,
            &(write.offset..write.offset + write.row),
            AccessMode::Overwrite,
        );
        let own = loan.clone();
        let begin = move |lent| Loan::begin(&own, lent);
        // Its bytes are looked for before the first of them comes.
        let expected = Write::new(Place::HostLease(loan.clone()), bytes);
        if !self.bulk.expect(write.transfer, expected) {
            return Err(not_larger());
        }
        let event = self
            .objects
            .host()
            .and_then(|host| host.lend(to, waits, begin));
        // Else its bytes come all the same.
        let event = event.inspect_err(|_| Loan::begin(&loan, None));
        Ok(event.map(|event| plain(command, event)))
    }

    fn read_lent(
        &mut self,
        read: &message::Read<'_>,
        memory: &MemoryRef,
        bytes: u64,
        waits: &[Event],
    ) -> Done<Enqueued> {
        let from = access(
            memory,
            &(read.offset..read.offset + read.row),
            AccessMode::Read,
        );
        if !self.bulk.begin_read(read.transfer, None, &[bytes as usize]) {
            return Err(not_larger());
        }
        let (bulk, transfer) = (self.bulk.clone(), read.transfer);
        let begin = move |lent: Option<HostLease>| {
            if let Some(lent) = lent {
                bulk.lent_is_ready(transfer, lent);
            }
        };
        let event = self
            .objects
            .host()
            .and_then(|host| host.lend(from, waits, begin));
        Ok(event
            .map(|event| Begun {
                event: Some(event),
                result: ends::Result::Transferred(transfer),
            })
            .inspect_err(|_| self.bulk.read_failed(transfer)))
    }
}

pub(super) fn not_larger() -> Broken {
    Broken::rule("a transfer's id is not larger than those before")
}

/// One event for those of all pieces.
fn join(queue: &Queue, mut events: Vec<Event>) -> Result<Event, Error> {
    match events.len() {
        1 => Ok(events.remove(0)),
        _ => queue.marker(&events),
    }
}

fn write_steps(write: &message::Write<'_>) -> Vec<Step> {
    let dense = dense(write.row, write.steps);
    let steps = strides(write.steps).zip(dense);
    steps
        .map(|((count, destination_stride), source_stride)| Step {
            count,
            source_stride,
            destination_stride,
        })
        .collect()
}

/// Enqueues the pieces of a write, each of which waits for its bytes.
fn write_in_pieces(
    queue: &Queue,
    memory: &MemoryRef,
    write: &message::Write<'_>,
    bytes: u64,
    to: &Range<u64>,
    landing: &Arc<Landing>,
    waits: &[Event],
) -> Result<(Event, VecDeque<(u64, UserEvent)>), Error> {
    let steps = write_steps(write);
    let ends = if steps.is_empty() {
        pieces(bytes)
    } else {
        vec![bytes]
    };
    let (mut events, mut come, mut start) = (Vec::new(), VecDeque::new(), 0);
    for end in ends {
        let arrived = UserEvent::new();
        let mut waits = waits.to_vec();
        waits.push(arrived.event());
        let (part, row) = match steps.is_empty() {
            true => (to.start + start..to.start + end, end - start),
            false => (to.clone(), write.row),
        };
        // SAFETY: the bytes are written before the event comes about, and not after.
        let source = unsafe { landing.part(start as usize..end as usize) };
        let to = access(memory, &part, AccessMode::ReadWrite);
        events.push(queue.write(source, to, row, &steps, &waits)?);
        come.push_back((end, arrived));
        start = end;
    }
    Ok((join(queue, events)?, come))
}
