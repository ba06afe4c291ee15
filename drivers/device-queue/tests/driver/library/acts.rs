//! Random commands over a few buffers, and a model of their results.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use super::faults::next;
use super::{FakeMemory, FakeQueue};
use quipu_conformance::folding;
use quipu_scheduler::operation::{HostMemory, Step};
use quipu_scheduler::{
    Access, AccessMode, ErrorKind, Event, MemoryRef, NativeEnqueue, Queue, RawArgument, Request,
    Result,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) const BYTES: usize = 64;
pub(crate) const BUFFERS: usize = 5;

/// The work of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Fill(usize, u8),
    Copy(usize, usize),
    /// Two bytes of each eight.
    CopyRows(usize, usize),
    /// Three times the bytes, and one.
    Task(usize, usize),
    Write(usize, u8),
    /// As a task, by a closure that puts parts of its own there.
    Native(usize, usize),
    /// The same, and then it says no.
    Refused(usize, usize),
    /// The first eight bytes, as a number, times 31, and this: a kernel.
    Fold(usize, u64),
}

impl Act {
    pub(crate) fn of(random: &mut u64) -> Self {
        let number = next(random) as usize;
        let (from, other) = (number / 8 % BUFFERS, number / 64 % (BUFFERS - 1));
        // Two that differ.
        let to = (from + 1 + other) % BUFFERS;
        let byte = (number / 4096) as u8;
        match number % 11 {
            0 => Self::Fill(to, byte),
            1 | 2 => Self::Copy(from, to),
            3 | 4 => Self::CopyRows(from, to),
            5 | 6 => Self::Task(from, to),
            7 | 8 => Self::Native(from, to),
            9 if byte < 40 => Self::Refused(from, to),
            _ => Self::Write(to, byte),
        }
    }

    /// One that a device does by itself.
    pub(crate) fn of_device(random: &mut u64) -> Self {
        let number = next(random);
        match Self::of(random) {
            act @ (Self::Fill(..) | Self::Copy(..) | Self::CopyRows(..))
                if !number.is_multiple_of(4) =>
            {
                act
            }
            other => Self::Fold(other.writes(), number % 100),
        }
    }

    fn reads(self) -> Vec<usize> {
        match self {
            Self::Fill(..) | Self::Write(..) => vec![],
            Self::Copy(from, _)
            | Self::Task(from, _)
            | Self::Native(from, _)
            | Self::Refused(from, _) => vec![from],
            Self::CopyRows(from, to) => vec![from, to],
            Self::Fold(to, _) => vec![to],
        }
    }

    fn writes(self) -> usize {
        match self {
            Self::Fill(to, _)
            | Self::Write(to, _)
            | Self::Copy(_, to)
            | Self::CopyRows(_, to)
            | Self::Task(_, to)
            | Self::Native(_, to)
            | Self::Refused(_, to)
            | Self::Fold(to, _) => to,
        }
    }

    fn model(self, bytes: &mut [[u8; BYTES]; BUFFERS]) {
        match self {
            Self::Fill(to, byte) | Self::Write(to, byte) => bytes[to] = [byte; BYTES],
            Self::Copy(from, to) => bytes[to] = bytes[from],
            Self::CopyRows(from, to) => {
                for row in 0..8 {
                    let source = bytes[from];
                    bytes[to][8 * row..8 * row + 2].copy_from_slice(&source[4 * row..4 * row + 2]);
                }
            }
            Self::Task(from, to) | Self::Native(from, to) => bytes[to] = bytes[from].map(task),
            Self::Refused(..) => panic!("it went well"),
            Self::Fold(to, number) => {
                let mut x = [0; 8];
                x.copy_from_slice(&bytes[to][..8]);
                let x = u64::from_le_bytes(x).wrapping_mul(31).wrapping_add(number);
                bytes[to][..8].copy_from_slice(&x.to_le_bytes());
            }
        }
    }

    /// Counts how often a closure is called.
    pub(crate) fn enqueue(
        self,
        queue: &Queue,
        buffers: &[MemoryRef],
        calls: &Arc<AtomicUsize>,
        waits: &[Event],
    ) -> Result<Event> {
        let access = |number: usize, mode| Access {
            memory: &buffers[number],
            offset: 0,
            length: BYTES as u64,
            mode,
        };
        let (read, write) = (AccessMode::Read, AccessMode::Overwrite);
        match self {
            Self::Fill(to, byte) => queue.fill(access(to, write), &[byte], waits),
            Self::Copy(from, to) => queue.copy(
                access(from, read),
                access(to, write),
                BYTES as u64,
                &[],
                waits,
            ),
            Self::CopyRows(from, to) => {
                let step = Step {
                    count: 8,
                    source_stride: 4,
                    destination_stride: 8,
                };
                let to = access(to, AccessMode::ReadWrite);
                queue.copy(access(from, read), to, 2, &[step], waits)
            }
            Self::Task(from, to) => {
                let accesses = [access(from, read), access(to, write)];
                let request = Request {
                    accesses: &accesses,
                    waits,
                    ..Request::default()
                };
                let run = |arguments: &[RawArgument]| {
                    for at in 0..BYTES {
                        // SAFETY: both have so many bytes; nobody writes the first ones, and nobody
                        // else has the second ones.
                        unsafe {
                            let byte = arguments[0].pointer.add(at).read();
                            arguments[1].pointer.add(at).write(task(byte));
                        }
                    }
                    Ok(())
                };
                queue.host_task(run, &request)
            }
            Self::Write(to, byte) => {
                let bytes: Arc<[u8; BYTES]> = Arc::new([byte; BYTES]);
                let pointer = bytes.as_ptr().cast_mut();
                // SAFETY: kept until the write is over, and only read.
                let host = unsafe { HostMemory::new(pointer, BYTES, Some(bytes)) };
                queue.write(host, access(to, write), BYTES as u64, &[], waits)
            }
            Self::Native(from, to) | Self::Refused(from, to) => {
                let accesses = [access(from, read), access(to, write)];
                let request = Request {
                    accesses: &accesses,
                    waits,
                    ..Request::default()
                };
                let (calls, is_refused) = (calls.clone(), matches!(self, Self::Refused(..)));
                let call = move |queue: &FakeQueue, memories: Vec<FakeMemory>| {
                    calls.fetch_add(1, Ordering::SeqCst);
                    let [from, to] = [memories[0], memories[1]];
                    for start in [0, BYTES / 2] {
                        queue.put(move || {
                            let (from, to) = (from, to);
                            for at in start..start + BYTES / 2 {
                                to.bytes()[at] = task(from.bytes()[at]);
                            }
                        });
                    }
                    if is_refused {
                        let reason = "refused".to_owned();
                        return Err(ErrorKind::FailedByHost { reason }.into());
                    }
                    Ok(())
                };
                // SAFETY: it keeps to its declared accesses.
                unsafe { queue.native_enqueue(NativeEnqueue::new(call), &request) }
            }
            Self::Fold(to, number) => {
                let accesses = [access(to, AccessMode::ReadWrite)];
                let request = Request {
                    accesses: &accesses,
                    waits,
                    ..Request::default()
                };
                queue.launch(folding(number), 1, &request)
            }
        }
    }
}

fn task(byte: u8) -> u8 {
    byte.wrapping_mul(3).wrapping_add(1)
}

fn read(queue: &Queue, memory: &MemoryRef) -> Result<[u8; BYTES]> {
    let mut bytes = [0xee; BYTES];
    // SAFETY: the bytes are there until the read is over, and nobody else looks.
    let host = unsafe { HostMemory::new(bytes.as_mut_ptr(), BYTES, None) };
    let access = Access {
        memory,
        offset: 0,
        length: BYTES as u64,
        mode: AccessMode::Read,
    };
    queue.read(access, host, BYTES as u64, &[], &[])?.wait()?;
    Ok(bytes)
}

/// The state of a buffer in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Its bytes.
    Good,
    /// Its bytes, if they can be had: bringing them somewhere has failed, perhaps.
    Doubtful,
    /// It is to be written by a command that has failed.
    Void,
}

/// The states of the buffers.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) bytes: [[u8; BYTES]; BUFFERS],
    pub(crate) known: [Known; BUFFERS],
    /// Commands that have failed by themselves.
    pub(crate) failures: u64,
}

impl Model {
    pub(crate) fn new() -> Self {
        Self {
            bytes: [[0; BYTES]; BUFFERS],
            known: [Known::Good; BUFFERS],
            failures: 0,
        }
    }

    /// True if a command reads void bytes.
    pub(crate) fn is_void(&self, act: Act) -> bool {
        let mut reads = act.reads().into_iter();
        reads.any(|read| self.known[read] == Known::Void)
    }

    /// A command has ended so. Commands come in the order in which they were enqueued.
    pub(crate) fn follow(&mut self, act: Act, ended: Result<()>) {
        let is_void = self.is_void(act);
        let (reads, known) = (act.reads(), &mut self.known);
        match ended {
            Ok(()) => {
                assert!(
                    !is_void,
                    "{act:?} went well and read what is void: {known:?}"
                );
                act.model(&mut self.bytes);
                known[act.writes()] = Known::Good;
            }
            Err(_) => {
                self.failures += u64::from(!is_void && !matches!(act, Act::Refused(..)));
                for read in reads.into_iter().filter(|_| !is_void) {
                    known[read] = match known[read] {
                        Known::Good => Known::Doubtful,
                        other => other,
                    };
                }
                known[act.writes()] = Known::Void;
            }
        }
    }

    /// The buffers are as they should be.
    pub(crate) fn check(&self, queue: &Queue, buffers: &[MemoryRef], seed: u64) {
        for ((buffer, bytes), known) in buffers.iter().zip(self.bytes).zip(self.known) {
            let read = read(queue, buffer);
            match known {
                Known::Good => assert_eq!(read.unwrap(), bytes, "seed {seed}"),
                Known::Doubtful => {
                    if let Ok(read) = read {
                        assert_eq!(read, bytes, "seed {seed}");
                    }
                }
                Known::Void => assert!(read.is_err(), "seed {seed}"),
            }
        }
    }
}
