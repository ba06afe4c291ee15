//! Bytes of large transfers: the host's side of their regions, a thread that sends, and
//! destinations for incoming bytes.

use crate::link::Link;
use crate::locked;
use quipu_link::compression::Compressor;
use quipu_link::timer::SystemTimer;
use quipu_protocol::message::{Chunk, Message, Rest};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Bytes of a chunk, at most.
const CHUNK: usize = 1 << 17;

/// Bytes that may lie unwritten before the next chunk is made.
const AHEAD: usize = 4 * CHUNK;

/// The host's side of a transfer: rows of bytes, and how far apart they are. On the wire they come
/// one after the other.
#[derive(Clone, Debug)]
pub(crate) struct HostRegion {
    pointer: *mut u8,
    row: usize,
    /// Outermost first: how many, and how many bytes apart.
    steps: Vec<(usize, usize)>,
}

// SAFETY: the maker of one says for how long its memory is there, and what else touches it.
unsafe impl Send for HostRegion {}

impl HostRegion {
    /// A region.
    ///
    /// # Safety
    /// Until the command of it is over, all of it is valid, for reads or for writes as the command
    /// demands, from any thread. Nothing else writes it, nor reads the bytes that the command
    /// writes.
    pub(crate) unsafe fn new(pointer: *mut u8, row: usize, steps: Vec<(usize, usize)>) -> Self {
        let mut region = Self {
            pointer,
            row,
            steps: steps.into_iter().filter(|(count, _)| *count != 1).collect(),
        };
        while let Some((count, stride)) = region.steps.last().copied()
            && stride == region.row
        {
            region.row *= count;
            region.steps.pop();
        }
        region
    }

    /// Bytes in all.
    pub(crate) fn len(&self) -> usize {
        self.steps
            .iter()
            .fold(self.row, |bytes, (count, _)| bytes * count)
    }

    /// The first bytes, and the rest; none if there are not so many. It has no gaps.
    pub(crate) fn split(&self, at: u64) -> Option<(Self, Self)> {
        let at = usize::try_from(at).ok().filter(|at| *at <= self.row)?;
        let part = |from: usize, row: usize| Self {
            pointer: self.pointer.wrapping_add(from),
            row,
            steps: Vec::new(),
        };
        self.steps
            .is_empty()
            .then(|| (part(0, at), part(at, self.row - at)))
    }

    /// Writes zeros.
    pub(crate) fn clear(&self) {
        if self.row == 0 {
            return;
        }
        self.for_each(0, self.len(), |start, length| {
            // SAFETY: within the region, which is there and ours to write, as `new` was promised.
            unsafe { std::ptr::write_bytes(start, 0, length) };
        });
    }

    /// The first byte of a row, and how many rows there are.
    fn start_of(&self, mut row: usize) -> *mut u8 {
        let mut offset = 0;
        for (count, stride) in self.steps.iter().rev() {
            offset += row % count * stride;
            row /= count;
        }
        self.pointer.wrapping_add(offset)
    }

    /// Calls `each` with the memory of so many bytes from one on, piece by piece.
    fn for_each(&self, from: usize, length: usize, mut each: impl FnMut(*mut u8, usize)) {
        let (mut at, end) = (from, from + length);
        while at < end {
            let within = at % self.row;
            let piece = (self.row - within).min(end - at);
            each(self.start_of(at / self.row).wrapping_add(within), piece);
            at += piece;
        }
    }

    /// Reads bytes; `use_them` sees them as one.
    pub(crate) fn gather<R>(
        &self,
        from: usize,
        length: usize,
        use_them: impl FnOnce(&[u8]) -> R,
    ) -> R {
        assert!(
            from.checked_add(length)
                .is_some_and(|end| end <= self.len())
        );
        if self.steps.is_empty() {
            let start = self.pointer.wrapping_add(from);
            // SAFETY: within the region, as just checked, which is there, as `new` was promised.
            return use_them(unsafe { std::slice::from_raw_parts(start, length) });
        }
        let mut bytes = Vec::with_capacity(length);
        self.for_each(from, length, |start, length| {
            // SAFETY: as above.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(start, length) });
        });
        use_them(&bytes)
    }

    /// Writes bytes.
    pub(crate) fn scatter(&self, to: usize, bytes: &[u8]) {
        assert!(
            to.checked_add(bytes.len())
                .is_some_and(|end| end <= self.len())
        );
        let mut rest = bytes;
        self.for_each(to, bytes.len(), |start, length| {
            let (now, later) = rest.split_at(length);
            // SAFETY: within the region, as just checked, which is there and ours to write, as
            // `new` was promised.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), start, length) };
            rest = later;
        });
    }
}

/// Bytes that are to be sent.
pub(crate) struct Job {
    pub(crate) transfer: u64,
    /// The command that they belong to; none if they are another node's, passed on.
    pub(crate) event: Option<u64>,
    /// Their offset in the transfer's bytes.
    pub(crate) offset: usize,
    /// Zeros follow, which are not sent.
    pub(crate) has_rest: bool,
    pub(crate) bytes: Bytes,
}

/// Bytes that are to be sent, and their owner, if that is not the program.
pub(crate) struct Bytes {
    pub(crate) region: HostRegion,
    pub(crate) _kept: Vec<u8>,
}

/// The queue of bytes to send.
#[derive(Default)]
pub(crate) struct Jobs {
    queue: Mutex<(VecDeque<Job>, bool)>,
    changed: Condvar,
}

impl Jobs {
    /// Has bytes sent. After the end, it never is.
    pub(crate) fn add(&self, job: Job) {
        let mut queue = locked(&self.queue);
        if !queue.1 {
            queue.0.push_back(job);
        }
        drop(queue);
        self.changed.notify_one();
    }

    /// Nothing more is sent.
    pub(crate) fn close(&self) {
        let mut queue = locked(&self.queue);
        queue.1 = true;
        queue.0.clear();
        drop(queue);
        self.changed.notify_all();
    }

    fn next(&self) -> Option<Job> {
        let mut queue = locked(&self.queue);
        loop {
            if queue.1 {
                return None;
            }
            if let Some(job) = queue.0.pop_front() {
                return Some(job);
            }
            queue = self
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Link {
    /// Sends the queued bytes, until the connection ends.
    pub(crate) fn send_bulk(&self) {
        let most = CHUNK.min(self.bulk_out.max_frame() as usize - 64);
        let mut compressor = Compressor::new(
            self.bulk_out.clone(),
            self.compression,
            Arc::new(SystemTimer::default()),
            self.traffic.clone(),
        );
        while let Some(job) = self.jobs.next() {
            let length = job.bytes.region.len();
            let mut at = 0;
            while at < length {
                let piece = most.min(length - at);
                let pushed = job.bytes.region.gather(at, piece, |bytes| {
                    compressor.push(Chunk {
                        transfer: job.transfer,
                        offset: (job.offset + at) as u64,
                        bytes,
                    })
                });
                let sent = pushed.and_then(|_| compressor.wait_for_room(AHEAD));
                if let Err(error) = sent {
                    return self.fail(&error.to_string());
                }
                at += piece;
            }
            if job.has_rest {
                let rest = Message::Rest(Rest {
                    transfer: job.transfer,
                    offset: (job.offset + length) as u64,
                });
                let pushed = self.bulk_out.push(&rest);
                let sent = pushed.and_then(|_| compressor.wait_for_room(AHEAD));
                if let Err(error) = sent {
                    return self.fail(&error.to_string());
                }
            }
            if job.event.is_some_and(|event| self.part_is_over(event)) {
                self.look();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_gathered_and_scattered_row_by_row() {
        let mut bytes: Vec<u8> = (0..60).collect();
        // Two layers, 30 apart, of three rows, 10 apart, of four bytes.
        // SAFETY: within the bytes, which nobody else uses.
        let region = unsafe { HostRegion::new(bytes.as_mut_ptr(), 4, vec![(2, 30), (3, 10)]) };
        assert_eq!(region.len(), 24);
        let all: Vec<u8> = region.gather(0, 24, <[u8]>::to_vec);
        let rows = [0, 10, 20, 30, 40, 50];
        let expected: Vec<u8> = rows.iter().flat_map(|row| *row..row + 4).collect();
        assert_eq!(all, expected);
        assert_eq!(region.gather(6, 9, <[u8]>::to_vec), expected[6..15]);
        region.scatter(3, &[100, 101, 102]);
        assert_eq!(bytes[3], 100);
        assert_eq!(bytes[10..12], [101, 102]);
        assert_eq!(bytes[4], 4);
    }

    #[test]
    fn rows_without_gaps_are_one() {
        let mut bytes = [0_u8; 24];
        // SAFETY: as above.
        let region =
            unsafe { HostRegion::new(bytes.as_mut_ptr(), 4, vec![(1, 999), (2, 12), (3, 4)]) };
        assert!(region.steps.is_empty() && region.row == 24);
    }
}
