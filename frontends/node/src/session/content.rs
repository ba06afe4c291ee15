//! Reads of what is in use.
//!
//! How much that is, a buffer says when the read's turn has come: so it is a turn of the host's, with both. That brings what is in
//! use here, and no more, if it is in a device's memory: for that moment the buffer has its content size in the node's core, too.

use super::commands::{Begun, Done, Work, access};
use super::ends;
use super::landing::Landing;
use super::transfer::{not_larger, too_much};
use super::{Broken, ends::Content};
use quipu_core::memory::mapping::Lent;
use quipu_core::{AccessMode, Error, Event, Request};
use quipu_wire::message::{Command, ReadContent};
use std::sync::{Arc, OnceLock};

/// Bytes of a content size.
const SIZE: u64 = 8;

/// The bytes that are in use, of a turn that has its range first, and the content size then.
fn used(lent: &Lent, offset: u64) -> Result<Content, Error> {
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
        let queue = self.queue(command)?;
        let memory = self.objects.buffer(read.buffer, &from)?;
        let size = self.objects.buffer(read.size, &(0..SIZE))?;
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
        let turn = move |lent: &Lent| {
            let used = used(lent, offset)?;
            if transfer != 0 {
                sends.content_is_ready(transfer, used.clone());
            }
            // Set once, here.
            let _ = own.set(used);
            Ok(())
        };
        let enqueue = || {
            let (queue, memory, size) = (queue?, memory?, size?);
            let host = self.objects.host()?;
            let accesses = [
                access(&memory, &from, AccessMode::Read),
                access(&size, &(0..SIZE), AccessMode::Read),
            ];
            let request = Request {
                accesses: &accesses,
                waits,
                ..Request::default()
            };
            let before = memory.content_size();
            memory.set_content_size(Some(size.clone()))?;
            let event = host.run(&queue, &request, turn);
            memory.set_content_size(before)?;
            event
        };
        let event = enqueue().inspect_err(|_| {
            if transfer != 0 {
                bulk.read_failed(transfer);
            }
        });
        Ok(event.map(|event| Begun {
            event: Some(event),
            result: ends::Result::Content(transfer, content),
        }))
    }
}
