//! Faults in a vendor's library, call by call: the commands that fail, those that do not, and that
//! nothing is given up that a device still uses.

use crate::library::faults::{Fault, Faults};
use crate::library::{CAPACITY, Refusal, stage};
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{
    Access, AccessMode, Completion, Context, Device, Error, Event, MemoryRef, Queue, QueueOptions,
    RawArgument, Request, Result, UserEvent,
};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

const CELLS: u64 = 8;

fn fill(queue: &Queue, memory: &MemoryRef, byte: u8, waits: &[Event]) -> Event {
    queue
        .fill(Access::whole(memory, AccessMode::Overwrite), &[byte], waits)
        .unwrap()
}

fn copy(queue: &Queue, from: &MemoryRef, to: &MemoryRef) -> Event {
    let (from, to) = (
        Access::whole(from, AccessMode::Read),
        Access::whole(to, AccessMode::Overwrite),
    );
    let length = from.length;
    queue.copy(from, to, length, &[], &[]).unwrap()
}

/// Copies in so many rows, each with a call of its own.
fn copy_rows(queue: &Queue, from: &MemoryRef, to: &MemoryRef) -> Event {
    copy_rows_after(queue, from, to, &[])
}

/// The same, after these.
fn copy_rows_after(queue: &Queue, from: &MemoryRef, to: &MemoryRef, waits: &[Event]) -> Event {
    let (from, to) = (
        Access::whole(from, AccessMode::Read),
        Access::whole(to, AccessMode::ReadWrite),
    );
    let step = quipu_scheduler::operation::Step {
        count: CELLS,
        source_stride: 4,
        destination_stride: 8,
    };
    queue.copy(from, to, 2, &[step], waits).unwrap()
}

fn read(queue: &Queue, memory: &MemoryRef) -> Result<Vec<u8>> {
    let mut bytes = vec![0xee; memory.size() as usize];
    // SAFETY: the bytes are there until the read is over, and nobody else looks.
    let host = unsafe { HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None) };
    let access = Access::whole(memory, AccessMode::Read);
    queue.read(access, host, memory.size(), &[], &[])?.wait()?;
    Ok(bytes)
}

struct Rig {
    devices: Vec<Device>,
    context: Context,
    faults: Arc<Faults>,
    queue: Queue,
}

/// Over both kinds of library and both ways of completion.
fn each(test: impl Fn(&Rig)) {
    for (seed, ordered) in [(1, false), (2, true)] {
        for completion in [Completion::Callback, Completion::Polling] {
            let (devices, context, faults) = stage(ordered, seed);
            let options = QueueOptions {
                completion,
                ..QueueOptions::default()
            };
            let queue = context.queue(&devices[0], options).unwrap();
            let rig = Rig {
                devices,
                context,
                faults,
                queue,
            };
            test(&rig);
            // Memory that commands use is given up when they are over, and so before this.
            rig.queue.wait().unwrap();
            assert_eq!(rig.faults.violations(), [""; 0]);
        }
    }
}

impl Rig {
    fn memory(&self) -> MemoryRef {
        self.context.memory(8 * CELLS).unwrap()
    }

    /// Memory that has been used, so that the next command takes none.
    fn used(&self, byte: u8) -> MemoryRef {
        let memory = self.memory();
        fill(&self.queue, &memory, byte, &[]).wait().unwrap();
        memory
    }
}

fn is_device(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Device { .. })
}

#[test]
fn a_command_whose_first_call_is_refused_fails_alone() {
    each(|rig| {
        let (x, y) = (rig.used(1), rig.used(2));
        rig.faults.plan(Fault::Put, 0, 1, Refusal::Busy);
        let failed = fill(&rig.queue, &x, 3, &[]);
        let error = failed.wait().unwrap_err();
        assert!(is_device(&error), "{error}");
        for part in ["fake 0", "Busy"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        assert_eq!(read(&rig.queue, &y).unwrap(), vec![2; 64]);
        // A command that reads the bytes that it was to write names it as the cause.
        let error = read(&rig.queue, &x).unwrap_err();
        assert!(is_device(error.first_cause()), "{error}");
        fill(&rig.queue, &x, 4, &[]).wait().unwrap();
        assert_eq!(read(&rig.queue, &x).unwrap(), vec![4; 64]);
    });
}

#[test]
fn a_command_of_which_a_part_was_put_runs_that_and_then_fails_once() {
    for refused in 1..6 {
        for refusal in [Refusal::Busy, Refusal::Memory] {
            each(|rig| {
                let (x, y, z) = (rig.used(1), rig.used(2), rig.used(5));
                rig.faults.plan(Fault::Put, refused, 1, refusal);
                let failed = copy_rows(&rig.queue, &x, &y);
                let dependant = copy(&rig.queue, &y, &z);
                // Given up while the device may be at it: the driver keeps it.
                drop((x, y));
                let error = failed.wait().unwrap_err();
                assert!(is_device(&error), "{error}");
                let error = dependant.wait().unwrap_err();
                assert!(is_device(error.first_cause()), "{error}");
                let w = rig.used(7);
                assert_eq!(read(&rig.queue, &w).unwrap(), vec![7; 64]);
            });
        }
    }
}

#[test]
fn a_command_that_is_refused_for_want_of_memory_waits_for_others() {
    each(|rig| {
        let (x, y, z) = (rig.used(1), rig.used(2), rig.used(3));
        rig.faults.hold(true);
        let (before, calls) = (rig.faults.refused(), rig.faults.calls(Fault::Put));
        let first = fill(&rig.queue, &x, 4, &[]);
        rig.queue.flush();
        // The driver's own thread may be the one that puts it there.
        while rig.faults.calls(Fault::Put) == calls {
            std::thread::yield_now();
        }
        rig.faults.plan(Fault::Put, 0, 1, Refusal::Memory);
        let last = copy(&rig.queue, &y, &z);
        rig.queue.flush();
        while rig.faults.refused() == before {
            std::thread::yield_now();
        }
        assert!(!first.is_complete() && !last.is_complete());
        rig.faults.hold(false);
        first.wait().unwrap();
        last.wait().unwrap();
        assert_eq!(read(&rig.queue, &z).unwrap(), vec![2; 64]);
    });
}

/// Says so as its thread ends.
struct Tells(Sender<()>);

impl Drop for Tells {
    fn drop(&mut self) {
        // Nobody may listen any more.
        let _ = self.0.send(());
    }
}

thread_local! {
    static LAST: Cell<Option<Tells>> = const { Cell::new(None) };
}

#[test]
fn room_that_is_made_as_a_command_is_refused_has_it_tried_again() {
    each(|rig| {
        let x = rig.used(1);
        let options = QueueOptions::default();
        let tasks = rig.context.queue(&rig.devices[0], options).unwrap();
        let ((begin, begun), (end, ends), (tell, told)) = (channel(), channel(), channel());
        let task = move |_: &[RawArgument]| {
            LAST.set(Some(Tells(tell.clone())));
            begin.send(()).unwrap();
            ends.recv().unwrap();
            Ok(())
        };
        let task = tasks.host_task(task, &Request::default()).unwrap();
        tasks.flush();
        begun.recv().unwrap();
        rig.faults.once_refused(move || {
            end.send(()).unwrap();
            // Its thread has done all of it then.
            told.recv().unwrap();
        });
        rig.faults.plan(Fault::Put, 0, 1, Refusal::Memory);
        fill(&rig.queue, &x, 2, &[]).wait().unwrap();
        task.wait().unwrap();
    });
}

#[test]
fn a_command_that_is_refused_for_want_of_memory_with_nothing_to_wait_for_fails() {
    each(|rig| {
        let x = rig.used(1);
        rig.faults.plan(Fault::Put, 0, u64::MAX, Refusal::Memory);
        let error = fill(&rig.queue, &x, 2, &[]).wait().unwrap_err();
        assert!(error.to_string().contains("Memory"), "{error}");
        rig.faults.end();
        fill(&rig.queue, &x, 3, &[]).wait().unwrap();
    });
}

#[test]
fn memory_that_cannot_be_had_is_said_with_sizes() {
    each(|rig| {
        rig.faults
            .plan(Fault::Reserve, 0, u64::MAX, Refusal::Memory);
        let x = rig.memory();
        let error = fill(&rig.queue, &x, 2, &[]).wait().unwrap_err();
        let ErrorKind::OutOfMemory {
            asked, capacity, ..
        } = error.kind()
        else {
            panic!("{error}")
        };
        assert_eq!((*asked, *capacity), (8 * CELLS, CAPACITY));
        rig.faults.end();
        fill(&rig.queue, &x, 3, &[]).wait().unwrap();
        assert_eq!(read(&rig.queue, &x).unwrap(), vec![3; 64]);
    });
}

#[test]
fn a_flush_that_fails_is_tried_again() {
    each(|rig| {
        rig.faults.plan(Fault::Flush, 0, 5, Refusal::Busy);
        let x = rig.memory();
        fill(&rig.queue, &x, 9, &[]).wait().unwrap();
        assert_eq!(read(&rig.queue, &x).unwrap(), vec![9; 64]);
    });
}

#[test]
fn a_device_that_never_begins_is_lost_and_the_others_live_on() {
    each(|rig| {
        let (x, y) = (rig.memory(), rig.memory());
        rig.faults.plan(Fault::Flush, 0, u64::MAX, Refusal::Busy);
        let error = fill(&rig.queue, &x, 9, &[]).wait().unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::DeviceLost { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("Busy"), "{error}");
        rig.faults.end();
        assert!(rig.devices[0].lost().is_some());
        let other = rig
            .context
            .queue(&rig.devices[1], QueueOptions::default())
            .unwrap();
        fill(&other, &y, 5, &[]).wait().unwrap();
        assert_eq!(read(&other, &y).unwrap(), vec![5; 64]);
    });
}

#[test]
fn what_fails_on_the_device_is_told_from_what_waits_for_it() {
    each(|rig| {
        let (x, y, z) = (rig.used(1), rig.used(2), rig.used(3));
        // The second of the three parts: the copy.
        rig.faults.plan(Fault::Run, 1, 1, Refusal::Broken);
        let first = fill(&rig.queue, &x, 4, &[]);
        let second = copy(&rig.queue, &x, &y);
        let third = copy(&rig.queue, &y, &z);
        first.wait().unwrap();
        let cause = second.wait().unwrap_err();
        assert!(cause.to_string().contains("Broken"), "{cause}");
        let error = third.wait().unwrap_err();
        assert_eq!(error.first_cause().to_string(), cause.to_string());
        rig.faults.end();
        assert_eq!(read(&rig.queue, &x).unwrap(), vec![4; 64]);
    });
}

#[test]
fn a_part_that_fails_is_the_cause_and_not_the_last_which_waits_for_it() {
    each(|rig| {
        let (x, y) = (rig.used(1), rig.used(2));
        rig.faults.plan(Fault::Run, 2, 1, Refusal::Broken);
        let error = copy_rows(&rig.queue, &x, &y).wait().unwrap_err();
        assert!(error.to_string().contains("Broken"), "{error}");
    });
}

#[test]
fn a_lost_device_fails_what_is_there_and_the_others_live_on() {
    each(|rig| {
        let (x, y) = (rig.used(1), rig.memory());
        rig.faults.plan(Fault::Run, 3, u64::MAX, Refusal::Lost);
        // The driver's own thread may still be at it: nothing more is taken by a device that is
        // known to be lost.
        rig.faults.hold(true);
        let events: Vec<Event> = (0..40).map(|n| fill(&rig.queue, &x, n, &[])).collect();
        rig.faults.hold(false);
        let failed = events.iter().filter_map(|event| event.wait().err());
        let failed: Vec<Error> = failed.collect();
        assert!(failed.len() >= 30, "{}", failed.len());
        for error in &failed {
            let kind = error.first_cause().kind();
            assert!(matches!(kind, ErrorKind::DeviceLost { .. }), "{error}");
        }
        rig.faults.end();
        let other = rig
            .context
            .queue(&rig.devices[1], QueueOptions::default())
            .unwrap();
        fill(&other, &y, 5, &[]).wait().unwrap();
        assert_eq!(read(&other, &y).unwrap(), vec![5; 64]);
    });
}

#[test]
fn what_comes_behind_a_command_that_finds_its_device_lost_fails_as_well() {
    each(|rig| {
        let (x, y, z) = (rig.used(1), rig.used(2), rig.used(3));
        let gate = UserEvent::new();
        let waits = [gate.event()];
        rig.faults.hold(true);
        // Both leave one after the other, once the gate is open.
        let first = copy_rows_after(&rig.queue, &x, &y, &waits);
        let second = fill(&rig.queue, &z, 4, &waits);
        rig.queue.flush();
        // A part of the first is put there. Commands that are put there after that are taken, and
        // never end well.
        rig.faults.plan(Fault::Put, 1, 1, Refusal::Lost);
        rig.faults.plan(Fault::Run, 0, u64::MAX, Refusal::Lost);
        gate.complete();
        rig.faults.hold(false);
        for event in [first, second] {
            let error = event.wait().unwrap_err();
            let kind = error.first_cause().kind();
            assert!(matches!(kind, ErrorKind::DeviceLost { .. }), "{error}");
        }
        rig.faults.end();
        // A device that is lost does not say when it is through with its commands.
        std::mem::forget((x, y, z));
    });
}

/// The first eight bytes times 31, and a number.
fn fold(queue: &Queue, memory: &MemoryRef, number: u64) -> Event {
    let accesses = [Access {
        length: 8,
        ..Access::whole(memory, AccessMode::ReadWrite)
    }];
    let request = quipu_scheduler::Request {
        accesses: &accesses,
        ..quipu_scheduler::Request::default()
    };
    let kernel = quipu_conformance::folding(number);
    queue.launch(kernel, 1, &request).unwrap()
}

#[test]
fn a_kernel_that_faults_fails_and_its_device_is_lost_in_words_while_others_live_on() {
    each(|rig| {
        let (x, y, z) = (rig.used(1), rig.used(2), rig.used(3));
        let other = rig
            .context
            .queue(&rig.devices[1], QueueOptions::default())
            .unwrap();
        // Its copy there is as good as the one that is lost.
        assert_eq!(read(&other, &z).unwrap(), vec![3; 64]);
        fold(&other, &z, 1).wait().unwrap();
        // Both are enqueued before anybody knows.
        rig.faults.hold(true);
        rig.faults.plan(Fault::Run, 0, u64::MAX, Refusal::Lost);
        let faulty = fold(&rig.queue, &x, 7);
        let later = fold(&rig.queue, &y, 7);
        rig.faults.hold(false);
        let error = faulty.wait().unwrap_err();
        rig.faults.end();
        let ErrorKind::DeviceLost { device, reason } = error.kind() else {
            panic!("{error}")
        };
        assert!(
            device.contains("fake 0") && reason.contains("the library says Lost"),
            "{error}"
        );
        later.wait().unwrap_err();
        // In words, to whoever asks or tries.
        let lost = rig.devices[0].lost().unwrap().to_string();
        assert!(lost.contains("fake 0") && lost.contains("Lost"), "{lost}");
        let access = Access::whole(&y, AccessMode::Overwrite);
        let refused = rig.queue.fill(access, &[1], &[]).unwrap_err();
        assert_eq!(refused.to_string(), lost);
        // Bytes that were only there are gone, with the reason; the rest lives on.
        let error = read(&other, &x).unwrap_err();
        assert!(
            matches!(error.first_cause().kind(), ErrorKind::DeviceLost { .. }),
            "{error}"
        );
        assert!(rig.devices[1].lost().is_none());
        fold(&other, &z, 2).wait().unwrap();
        let folded = |x: u64, n| x.wrapping_mul(31).wrapping_add(n);
        let expected = folded(folded(u64::from_le_bytes([3; 8]), 1), 2);
        assert_eq!(read(&other, &z).unwrap()[..8], expected.to_le_bytes());
        fill(&other, &x, 9, &[]).wait().unwrap();
        assert_eq!(read(&other, &x).unwrap(), vec![9; 64]);
    });
}

#[test]
fn a_status_that_cannot_be_had_for_a_while_is_asked_for_again() {
    each(|rig| {
        rig.faults.plan(Fault::Status, 0, 20, Refusal::Busy);
        let x = rig.used(6);
        assert_eq!(read(&rig.queue, &x).unwrap(), vec![6; 64]);
    });
}

#[test]
fn a_device_that_does_not_call_is_polled() {
    each(|rig| {
        rig.faults.often(Fault::Callback, 1000, Refusal::Busy);
        let gate = UserEvent::new();
        let x = rig.memory();
        let event = fill(&rig.queue, &x, 6, &[gate.event().clone()]);
        gate.complete();
        event.wait().unwrap();
        assert_eq!(read(&rig.queue, &x).unwrap(), vec![6; 64]);
    });
}

#[test]
fn copies_of_the_hosts_that_fail_fail_their_task() {
    each(|rig| {
        let x = rig.used(1);
        rig.faults.plan(Fault::HostCopy, 0, 1, Refusal::Busy);
        let event = rig
            .queue
            .host_task(
                |_: &[quipu_scheduler::RawArgument]| Ok(()),
                &quipu_scheduler::Request {
                    accesses: &[Access::whole(&x, AccessMode::ReadWrite)],
                    ..quipu_scheduler::Request::default()
                },
            )
            .unwrap();
        let error = event.wait().unwrap_err();
        assert!(is_device(&error), "{error}");
        fill(&rig.queue, &x, 2, &[]).wait().unwrap();
        assert_eq!(read(&rig.queue, &x).unwrap(), vec![2; 64]);
    });
}

#[test]
fn a_callback_that_waits_is_told_that_it_must_not() {
    each(|rig| {
        let gate = UserEvent::new();
        let (x, y) = (rig.memory(), rig.memory());
        let other = rig
            .context
            .queue(&rig.devices[1], QueueOptions::default())
            .unwrap();
        let later = fill(&other, &y, 1, &[gate.event().clone()]);
        let open = UserEvent::new();
        let event = fill(&rig.queue, &x, 1, &[open.event().clone()]);
        let (tell, told) = std::sync::mpsc::channel();
        let waited = later.clone();
        event.on_complete(move |_| tell.send(waited.wait()).unwrap());
        // It is over only when this thread, which may wait in callbacks, looks no more.
        rig.faults.hold(true);
        open.complete();
        rig.faults.hold(false);
        let error = told.recv().unwrap().unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::WouldDeadlock { .. }),
            "{error}"
        );
        gate.complete();
        later.wait().unwrap();
    });
}

#[test]
fn a_host_task_that_waits_for_what_comes_after_it_is_told_that_it_must_not() {
    each(|rig| {
        let x = rig.used(1);
        let (give, given) = std::sync::mpsc::channel::<Event>();
        let (tell, told) = std::sync::mpsc::channel();
        let task = move |_: &[quipu_scheduler::RawArgument]| {
            tell.send(given.recv().unwrap().wait()).unwrap();
            Ok(())
        };
        let request = quipu_scheduler::Request::default();
        let task = rig.queue.host_task(task, &request).unwrap();
        give.send(fill(&rig.queue, &x, 2, &[])).unwrap();
        rig.queue.flush();
        let error = told.recv().unwrap().unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::WouldDeadlock { .. }),
            "{error}"
        );
        task.wait().unwrap();
        assert_eq!(read(&rig.queue, &x).unwrap(), vec![2; 64]);
    });
}

/// A subscriber of the log, which is a user's code: it panics whatever it hears.
struct Panics;

impl tracing::Subscriber for Panics {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        panic!("a subscriber that panics: {:?}", event.metadata().name());
    }
}

#[test]
fn a_subscriber_that_panics_keeps_no_command_from_ending() {
    each(|rig| {
        tracing::subscriber::with_default(Panics, || {
            rig.faults
                .plan(Fault::Reserve, 0, u64::MAX, Refusal::Memory);
            let x = rig.memory();
            let error = fill(&rig.queue, &x, 2, &[]).wait().unwrap_err();
            let is_memory = matches!(error.kind(), ErrorKind::OutOfMemory { .. });
            assert!(is_memory, "{error}");
            rig.faults.end();
            rig.faults.plan(Fault::Flush, 0, 5, Refusal::Busy);
            fill(&rig.queue, &x, 3, &[]).wait().unwrap();
        });
        assert_eq!(read(&rig.queue, &rig.used(1)).unwrap(), vec![1; 64]);
    });
}
