//! Random chains of commands over a library in which anything may go wrong at any time, against a sequential model: every
//! command ends, once; what is said to have gone well has done what it should; what read what a failed command was to
//! write has failed, too; and nothing is given up that a device still uses.
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod library;

use library::faults::{Fault, Faults, next};
use library::{FakeMemory, FakeQueue, Refusal, stage};
use quipu_core::operation::{HostMemory, Step};
use quipu_core::{
    Access, AccessMode, Completion, Context, ErrorKind, Event, MemoryRef, NativeEnqueue, Queue,
    QueueOptions, RawArgument, Request, Result,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const BYTES: usize = 64;
const BUFFERS: usize = 5;

/// What a command does.
#[derive(Clone, Copy, Debug)]
enum Act {
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
}

impl Act {
    fn of(random: &mut u64) -> Self {
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

    fn reads(self) -> Vec<usize> {
        match self {
            Self::Fill(..) | Self::Write(..) => vec![],
            Self::Copy(from, _)
            | Self::Task(from, _)
            | Self::Native(from, _)
            | Self::Refused(from, _) => vec![from],
            Self::CopyRows(from, to) => vec![from, to],
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
            | Self::Refused(_, to) => to,
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
        }
    }

    /// Counts how often a closure is called.
    fn enqueue(
        self,
        queue: &Queue,
        buffers: &[MemoryRef],
        calls: &Arc<AtomicUsize>,
    ) -> Result<Event> {
        let access = |number: usize, mode| Access {
            memory: &buffers[number],
            offset: 0,
            length: BYTES as u64,
            mode,
        };
        let (read, write) = (AccessMode::Read, AccessMode::Overwrite);
        match self {
            Self::Fill(to, byte) => queue.fill(access(to, write), &[byte], &[]),
            Self::Copy(from, to) => queue.copy(
                access(from, read),
                access(to, write),
                BYTES as u64,
                &[],
                &[],
            ),
            Self::CopyRows(from, to) => {
                let step = Step {
                    count: 8,
                    source_stride: 4,
                    destination_stride: 8,
                };
                let to = access(to, AccessMode::ReadWrite);
                queue.copy(access(from, read), to, 2, &[step], &[])
            }
            Self::Task(from, to) => {
                let accesses = [access(from, read), access(to, write)];
                let request = Request {
                    accesses: &accesses,
                    ..Request::default()
                };
                let run = |arguments: &[RawArgument]| {
                    for at in 0..BYTES {
                        // SAFETY: both have so many bytes, of which nobody writes the first and nobody else has the
                        // second.
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
                queue.write(host, access(to, write), BYTES as u64, &[], &[])
            }
            Self::Native(from, to) | Self::Refused(from, to) => {
                let accesses = [access(from, read), access(to, write)];
                let request = Request {
                    accesses: &accesses,
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
                        return Err(ErrorKind::Cancelled.into());
                    }
                    Ok(())
                };
                // SAFETY: it minds what it declares.
                unsafe { queue.native_enqueue(NativeEnqueue::new(call), &request) }
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

/// What is known of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Its bytes.
    Good,
    /// Its bytes, if they can be had: bringing them somewhere has failed, perhaps.
    Doubtful,
    /// It is to be written by a command that has failed.
    Void,
}

fn plan(faults: &Faults, random: &mut u64, ordered: bool) {
    let mut often = |fault, most: u64, refusal| {
        let thousandths = next(random) % (most + 1);
        faults.often(fault, thousandths, refusal);
    };
    often(Fault::Flush, 200, Refusal::Busy);
    often(Fault::Status, 300, Refusal::Busy);
    often(Fault::Callback, 500, Refusal::Busy);
    often(Fault::HostCopy, 30, Refusal::Busy);
    often(Fault::Reserve, 100, Refusal::Memory);
    // In a stream that keeps its order, what comes after a failure does not end well.
    if !ordered {
        often(Fault::Run, 15, Refusal::Broken);
    }
    let refusal = [Refusal::Busy, Refusal::Memory][(next(random) % 2) as usize];
    let thousandths = next(random) % 30;
    faults.often(Fault::Put, thousandths, refusal);
}

/// Enqueues some commands, waits for all, and follows them in the model.
fn phase(
    queue: &Queue,
    buffers: &[MemoryRef],
    random: &mut u64,
    bytes: &mut [[u8; BYTES]; BUFFERS],
    known: &mut [Known; BUFFERS],
    is_sure: bool,
) -> u64 {
    let count = 1 + next(random) % 30;
    let acts: Vec<Act> = (0..count).map(|_| Act::of(random)).collect();
    let events: Vec<_> = acts
        .iter()
        .map(|act| {
            let calls = Arc::new(AtomicUsize::new(0));
            (act.enqueue(queue, buffers, &calls).unwrap(), calls)
        })
        .collect();
    queue.wait().unwrap();
    let mut failures = 0;
    for (act, (event, calls)) in acts.into_iter().zip(events) {
        assert!(event.is_complete(), "{act:?} goes on");
        let reads = act.reads();
        let is_void = reads.iter().any(|read| known[*read] == Known::Void);
        let (ended, calls) = (event.wait(), calls.load(Ordering::SeqCst));
        if let Act::Native(..) | Act::Refused(..) = act {
            assert!(
                calls < 2 && (calls == 1 || ended.is_err()),
                "{act:?}: {calls}"
            );
            // Where only calls fail, what is on a device ends well.
            assert!(
                !(is_void && is_sure) || calls == 0,
                "{act:?} was called for what is void"
            );
        }
        match ended {
            Ok(()) => {
                assert!(
                    !is_void,
                    "{act:?} went well and read what is void: {known:?}"
                );
                act.model(bytes);
                known[act.writes()] = Known::Good;
            }
            Err(_) => {
                failures += u64::from(!is_void && !matches!(act, Act::Refused(..)));
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
    failures
}

fn chain(seed: u64, ordered: bool) {
    let (devices, context, faults) = stage(ordered, seed);
    let mut random = seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1;
    let queues: Vec<Queue> = (0..4)
        .map(|number| queue(&context, &devices[number % 2], number > 1))
        .collect();
    let buffers: Vec<MemoryRef> = (0..BUFFERS)
        .map(|_| context.memory(BYTES as u64).unwrap())
        .collect();
    let mut bytes = [[0; BYTES]; BUFFERS];
    let mut known = [Known::Good; BUFFERS];
    plan(&faults, &mut random, ordered);
    let mut failures = 0;
    for _ in 0..6 {
        let queue = &queues[(next(&mut random) % 4) as usize];
        failures += phase(
            queue,
            &buffers,
            &mut random,
            &mut bytes,
            &mut known,
            ordered,
        );
    }
    assert!(failures == 0 || faults.refused() > 0, "seed {seed}");
    faults.end();
    for ((buffer, bytes), known) in buffers.iter().zip(bytes).zip(known) {
        let read = read(&queues[0], buffer);
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
    drop((buffers, queues, context));
    assert_eq!(faults.violations(), [""; 0], "seed {seed}");
}

fn queue(context: &Context, device: &quipu_core::Device, polls: bool) -> Queue {
    let options = QueueOptions {
        completion: if polls {
            Completion::Polling
        } else {
            Completion::Callback
        },
        ..QueueOptions::default()
    };
    context.queue(device, options).unwrap()
}

#[test]
fn chains_over_events() {
    (1..100).for_each(|seed| chain(seed, false));
}

#[test]
fn chains_over_streams() {
    (1..100).for_each(|seed| chain(seed, true));
}
