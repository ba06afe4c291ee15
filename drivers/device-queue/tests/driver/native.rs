//! Native enqueues: closures that put work of their own into a library's queue are commands as any,
//! called once, and never for void bytes.

use crate::library::faults::{Fault, Faults};
use crate::library::{CAPACITY, FakeMemory, FakeQueue, Refusal, stage};
use quipu_conformance::folding;
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{
    Access, AccessMode, Completion, Context, Device, Event, MemoryRef, NativeEnqueue, NativeQueue,
    Queue, QueueOptions, RawArgument, Request, Result, UserEvent,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

const BYTES: u64 = 64;

fn part(memory: &MemoryRef, offset: u64, length: u64, mode: AccessMode) -> Access<'_> {
    Access {
        memory,
        offset,
        length,
        mode,
    }
}

struct Rig {
    devices: Vec<Device>,
    context: Context,
    faults: Arc<Faults>,
    queue: Queue,
}

/// Over both kinds of library, both ways of completion, both kinds of queue.
fn each(test: impl Fn(&Rig)) {
    for (seed, ordered) in [(1, false), (2, true)] {
        for completion in [Completion::Callback, Completion::Polling] {
            for in_order in [true, false] {
                let (devices, context, faults) = stage(ordered, seed);
                let options = QueueOptions {
                    completion,
                    in_order,
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
                rig.queue.wait().unwrap();
                assert_eq!(rig.faults.violations(), [""; 0]);
            }
        }
    }
}

fn fill(queue: &Queue, memory: &MemoryRef, byte: u8, waits: &[Event]) -> Event {
    queue
        .fill(Access::whole(memory, AccessMode::Overwrite), &[byte], waits)
        .unwrap()
}

fn read(queue: &Queue, memory: &MemoryRef) -> Result<Vec<u8>> {
    let mut bytes = vec![0xee; memory.size() as usize];
    // SAFETY: the bytes are there until the read is over, and nobody else looks.
    let host = unsafe { HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None) };
    let access = Access::whole(memory, AccessMode::Read);
    queue.read(access, host, memory.size(), &[], &[])?.wait()?;
    Ok(bytes)
}

impl Rig {
    fn used(&self, byte: u8) -> MemoryRef {
        let memory = self.context.memory(BYTES).unwrap();
        fill(&self.queue, &memory, byte, &[]).wait().unwrap();
        memory
    }

    fn native(
        &self,
        accesses: &[Access<'_>],
        waits: &[Event],
        call: impl FnOnce(&FakeQueue, Vec<FakeMemory>) -> Result<()> + Send + 'static,
    ) -> Event {
        let request = Request {
            accesses,
            waits,
            ..Request::default()
        };
        // SAFETY: the tests' closures keep to their declared accesses.
        unsafe {
            self.queue
                .native_enqueue(NativeEnqueue::new(call), &request)
        }
        .unwrap()
    }

    /// Adds one to each byte of the first, into the second, in two parts; how often it was called.
    fn add_one(&self, from: &MemoryRef, to: &MemoryRef) -> (Event, Arc<AtomicUsize>) {
        let called = Arc::new(AtomicUsize::new(0));
        let calls = called.clone();
        let accesses = [
            Access::whole(from, AccessMode::Read),
            Access::whole(to, AccessMode::Overwrite),
        ];
        let event = self.native(&accesses, &[], move |queue, memories| {
            calls.fetch_add(1, Ordering::SeqCst);
            put_add_one(queue, &memories);
            Ok(())
        });
        (event, called)
    }

    /// A host task that fails, and is to write this.
    fn failing_task(&self, memory: &MemoryRef) -> Event {
        let request = Request {
            accesses: &[Access::whole(memory, AccessMode::ReadWrite)],
            ..Request::default()
        };
        let refused = || ErrorKind::FailedByHost {
            reason: "refused".to_owned(),
        };
        let fail = move |_: &[RawArgument]| Err(refused().into());
        self.queue.host_task(fail, &request).unwrap()
    }
}

fn put_add_one(queue: &FakeQueue, memories: &[FakeMemory]) {
    let [from, to] = *memories else {
        panic!("{} memories", memories.len())
    };
    for half in 0..2 {
        queue.put(move || {
            let (from, to) = (from, to);
            let (start, end) = (half * from.length / 2, (half + 1) * from.length / 2);
            for at in start..end {
                to.bytes()[at] = from.bytes()[at].wrapping_add(1);
            }
        });
    }
}

#[test]
fn what_a_closure_puts_there_is_a_command_between_others() {
    each(|rig| {
        let (x, y, z) = (rig.used(1), rig.used(2), rig.used(3));
        let request = Request {
            accesses: &[part(&x, 0, 8, AccessMode::ReadWrite)],
            ..Request::default()
        };
        let before = rig.queue.launch(folding(7), 1, &request).unwrap();
        let (first, calls) = rig.add_one(&x, &y);
        let (second, _) = rig.add_one(&y, &z);
        let later = fill(&rig.queue, &x, 9, &[]);
        let mut expected = vec![3; BYTES as usize];
        let number = u64::from_le_bytes([1; 8]).wrapping_mul(31).wrapping_add(7);
        for (byte, folded) in expected.iter_mut().zip(number.to_le_bytes()) {
            *byte = folded.wrapping_add(2);
        }
        assert_eq!(read(&rig.queue, &z).unwrap(), expected);
        for event in [before, first, second, later] {
            event.wait().unwrap();
        }
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        assert_eq!(read(&rig.queue, &x).unwrap(), vec![9; 64]);
    });
}

#[test]
fn a_closure_is_handed_ranges_and_modes() {
    each(|rig| {
        let (x, y) = (rig.used(1), rig.used(2));
        let accesses = [
            part(&x, 5, 7, AccessMode::Read),
            part(&y, 8, 16, AccessMode::ReadWrite),
            part(&x, 32, 4, AccessMode::Overwrite),
        ];
        let (tell, told) = mpsc::channel();
        let event = rig.native(&accesses, &[], move |queue, memories| {
            for memory in &memories {
                tell.send((memory.length, memory.mode)).unwrap();
            }
            queue.put(move || {
                let memories = &memories;
                let [from, both, to] = [0, 1, 2].map(|number| memories[number]);
                both.bytes()[0] += from.bytes()[6];
                to.bytes().fill(7);
            });
            Ok(())
        });
        event.wait().unwrap();
        let told: Vec<_> = told.iter().collect();
        let (read_only, both, write) = (
            AccessMode::Read,
            AccessMode::ReadWrite,
            AccessMode::Overwrite,
        );
        assert_eq!(told, [(7, read_only), (16, both), (4, write)]);
        let mut expected = [vec![1; 64], vec![2; 64]];
        expected[0][32..36].fill(7);
        expected[1][8] = 3;
        assert_eq!(read(&rig.queue, &x).unwrap(), expected[0]);
        assert_eq!(read(&rig.queue, &y).unwrap(), expected[1]);
    });
}

#[test]
fn what_it_declares_is_brought_there_and_from_there() {
    each(|rig| {
        let other = rig
            .context
            .queue(&rig.devices[1], QueueOptions::default())
            .unwrap();
        let (x, y) = (rig.context.memory(BYTES).unwrap(), rig.used(2));
        fill(&other, &x, 40, &[]);
        let (event, _) = rig.add_one(&x, &y);
        assert_eq!(read(&other, &y).unwrap(), vec![41; 64]);
        event.wait().unwrap();
    });
}

#[test]
fn it_is_called_while_what_comes_before_is_on_the_device() {
    each(|rig| {
        let (x, y) = (rig.used(1), rig.used(2));
        rig.faults.hold(true);
        let before = fill(&rig.queue, &x, 5, &[]);
        let (tell, told) = mpsc::channel();
        let accesses = [
            Access::whole(&x, AccessMode::Read),
            Access::whole(&y, AccessMode::Overwrite),
        ];
        let event = rig.native(&accesses, &[], move |queue, memories| {
            put_add_one(queue, &memories);
            tell.send(()).unwrap();
            Ok(())
        });
        rig.queue.flush();
        told.recv().unwrap();
        assert!(!before.is_complete() && !event.is_complete());
        rig.faults.hold(false);
        assert_eq!(read(&rig.queue, &y).unwrap(), vec![6; 64]);
    });
}

/// The acts of a closure that fail its command.
fn failing(panics: bool) -> Result<()> {
    if panics {
        panic!("not {}", "today");
    }
    Err(ErrorKind::Kernel {
        what: "a native call".to_owned(),
        message: "not today".to_owned(),
    }
    .into())
}

#[test]
fn an_error_or_a_panic_fails_the_command_after_what_is_there_has_run() {
    for panics in [false, true] {
        each(|rig| {
            let (x, y, z, w) = (rig.used(1), rig.used(2), rig.used(3), rig.used(4));
            let (tell, told) = mpsc::channel();
            let accesses = [
                Access::whole(&x, AccessMode::Read),
                Access::whole(&y, AccessMode::Overwrite),
            ];
            let event = rig.native(&accesses, &[], move |queue, memories| {
                put_add_one(queue, &memories);
                queue.put(move || tell.send(()).unwrap());
                failing(panics)
            });
            let (dependant, calls) = rig.add_one(&y, &z);
            let (other, _) = rig.add_one(&x, &w);
            let error = event.wait().unwrap_err();
            assert!(error.to_string().contains("not today"), "{error}");
            let is_panic = matches!(error.kind(), ErrorKind::Panicked { .. });
            assert_eq!(is_panic, panics, "{error}");
            told.try_recv().expect("it has run by now");
            let error = dependant.wait().unwrap_err();
            assert!(
                error.first_cause().to_string().contains("not today"),
                "{error}"
            );
            assert_eq!(calls.load(Ordering::SeqCst), 0);
            other.wait().unwrap();
            assert_eq!(read(&rig.queue, &w).unwrap(), vec![2; 64]);
            read(&rig.queue, &y).unwrap_err();
            fill(&rig.queue, &y, 8, &[]).wait().unwrap();
            assert_eq!(read(&rig.queue, &y).unwrap(), vec![8; 64]);
        });
    }
}

#[test]
fn it_is_not_called_for_what_is_void() {
    each(|rig| {
        let (x, y) = (rig.used(1), rig.used(2));
        let failed = rig.failing_task(&x);
        let (event, calls) = rig.add_one(&x, &y);
        failed.wait().unwrap_err();
        event.wait().unwrap_err();
        assert_eq!(calls.load(Ordering::SeqCst), 0);
        // Nor are its captures kept.
        assert_eq!(Arc::strong_count(&calls), 1);
    });
}

#[test]
fn a_cancelled_one_is_not_called() {
    each(|rig| {
        let (x, y) = (rig.used(1), rig.used(2));
        let gate = UserEvent::new();
        let calls = Arc::new(AtomicUsize::new(0));
        let called = calls.clone();
        let accesses = [
            Access::whole(&x, AccessMode::Read),
            Access::whole(&y, AccessMode::ReadWrite),
        ];
        let event = rig.native(&accesses, &[gate.event().clone()], move |_, _| {
            called.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
        rig.queue.flush();
        event.cancel();
        gate.complete();
        let error = event.wait().unwrap_err();
        assert!(error.is_cancelled(), "{error}");
        rig.queue.wait().unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), 0);
        assert_eq!(Arc::strong_count(&calls), 1);
    });
}

#[test]
fn one_that_is_called_goes_on_when_it_is_cancelled() {
    each(|rig| {
        let (x, y) = (rig.used(1), rig.used(2));
        rig.faults.hold(true);
        let (tell, told) = mpsc::channel();
        let accesses = [
            Access::whole(&x, AccessMode::Read),
            Access::whole(&y, AccessMode::Overwrite),
        ];
        let event = rig.native(&accesses, &[], move |queue, memories| {
            put_add_one(queue, &memories);
            tell.send(()).unwrap();
            Ok(())
        });
        rig.queue.flush();
        told.recv().unwrap();
        event.cancel();
        rig.faults.hold(false);
        event.wait().unwrap();
        assert_eq!(read(&rig.queue, &y).unwrap(), vec![2; 64]);
    });
}

#[test]
fn a_refused_call_around_it_does_not_call_it_again() {
    for skip in 0..4 {
        for refusal in [Refusal::Busy, Refusal::Memory] {
            each(|rig| {
                let (x, y) = (rig.used(1), rig.used(2));
                rig.faults.plan(Fault::Put, skip, 1, refusal);
                let (event, calls) = rig.add_one(&x, &y);
                let ended = event.wait();
                rig.faults.end();
                let calls = calls.load(Ordering::SeqCst);
                // Before the closure and between its parts, never.
                let expected = if skip == 0 { 0 } else { 1 };
                assert_eq!(calls, expected);
                assert_eq!(ended.is_ok(), skip == 3, "{ended:?}");
                fill(&rig.queue, &y, 8, &[]).wait().unwrap();
            });
        }
    }
}

#[test]
fn one_that_waits_for_memory_is_called_once_there_is_some() {
    each(|rig| {
        let (x, y) = (rig.used(1), rig.context.memory(BYTES).unwrap());
        rig.faults.hold(true);
        let before = fill(&rig.queue, &x, 4, &[]);
        rig.queue.flush();
        let refused = rig.faults.refused();
        rig.faults.plan(Fault::Reserve, 0, 1, Refusal::Memory);
        let (event, calls) = rig.add_one(&x, &y);
        rig.queue.flush();
        while rig.faults.refused() == refused {
            std::thread::yield_now();
        }
        assert_eq!(calls.load(Ordering::SeqCst), 0);
        rig.faults.hold(false);
        before.wait().unwrap();
        event.wait().unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        assert_eq!(read(&rig.queue, &y).unwrap(), vec![5; 64]);
    });
}

#[test]
fn one_whose_wait_fails_on_the_device_is_not_called_again() {
    each(|rig| {
        let (x, y, z) = (rig.used(1), rig.used(2), rig.used(3));
        rig.faults.hold(true);
        // It reads the bytes that the native one is to write, which is only an order.
        let accesses = (
            Access::whole(&x, AccessMode::Read),
            Access::whole(&y, AccessMode::Overwrite),
        );
        let before = rig
            .queue
            .copy(accesses.0, accesses.1, BYTES, &[], &[])
            .unwrap();
        let (event, calls) = rig.add_one(&z, &x);
        rig.queue.flush();
        while calls.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        rig.faults.plan(Fault::Run, 0, 1, Refusal::Broken);
        rig.faults.hold(false);
        before.wait().unwrap_err();
        let error = event.wait().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Device { .. }), "{error}");
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        rig.faults.end();
        fill(&rig.queue, &x, 8, &[]).wait().unwrap();
        assert_eq!(read(&rig.queue, &x).unwrap(), vec![8; 64]);
    });
}

#[test]
fn a_closure_may_enqueue_and_is_told_that_it_must_not_wait() {
    each(|rig| {
        let (x, y, z) = (rig.used(1), rig.used(2), rig.used(3));
        let (tell, told) = mpsc::channel();
        let queue = rig.queue.clone();
        let accesses = [
            Access::whole(&x, AccessMode::Read),
            Access::whole(&y, AccessMode::Overwrite),
        ];
        let later = z.clone();
        let event = rig.native(&accesses, &[], move |native, memories| {
            put_add_one(native, &memories);
            let inner = fill(&queue, &later, 6, &[]);
            tell.send((inner.clone(), inner.wait(), queue.wait()))
                .unwrap();
            Ok(())
        });
        event.wait().unwrap();
        let (inner, waited, queue_waited) = told.recv().unwrap();
        for error in [waited, queue_waited].map(Result::unwrap_err) {
            assert!(
                matches!(error.kind(), ErrorKind::WouldDeadlock { .. }),
                "{error}"
            );
        }
        inner.wait().unwrap();
        assert_eq!(read(&rig.queue, &y).unwrap(), vec![2; 64]);
        assert_eq!(read(&rig.queue, &z).unwrap(), vec![6; 64]);
    });
}

#[test]
fn one_that_declares_nothing_comes_between_all_of_an_in_order_queue() {
    each(|rig| {
        if !rig.queue.shared().options().in_order {
            return;
        }
        let (x, y) = (rig.used(1), rig.used(2));
        rig.faults.hold(true);
        let before = fill(&rig.queue, &x, 5, &[]);
        let order = Arc::new(AtomicUsize::new(0));
        let (tell, told) = mpsc::channel();
        let at = order.clone();
        let request = Request {
            unknown_access: true,
            ..Request::default()
        };
        let call = move |queue: &FakeQueue, _: Vec<FakeMemory>| {
            queue.put(move || tell.send(at.fetch_add(1, Ordering::SeqCst)).unwrap());
            Ok(())
        };
        // SAFETY: it touches no memory.
        let event =
            unsafe { rig.queue.native_enqueue(NativeEnqueue::new(call), &request) }.unwrap();
        let after = fill(&rig.queue, &y, 6, &[]);
        let checked = (before.clone(), event.clone());
        rig.faults.hold(false);
        after.wait().unwrap();
        assert!(checked.0.is_complete() && checked.1.is_complete());
        assert_eq!(told.recv().unwrap(), 0);
    });
}

#[test]
fn a_lost_device_fails_it_and_what_is_there() {
    each(|rig| {
        let (x, y) = (rig.used(1), rig.used(2));
        rig.faults.plan(Fault::Run, 1, u64::MAX, Refusal::Lost);
        let (event, calls) = rig.add_one(&x, &y);
        let error = event.wait().unwrap_err();
        assert!(
            matches!(error.first_cause().kind(), ErrorKind::DeviceLost { .. }),
            "{error}"
        );
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_device_that_is_found_lost_as_it_is_flushed_calls_nothing() {
    each(|rig| {
        let (x, y) = (rig.used(1), rig.used(2));
        let gate = UserEvent::new();
        let before = fill(&rig.queue, &x, 5, &[gate.event().clone()]);
        let (event, calls) = rig.add_one(&x, &y);
        rig.faults.plan(Fault::Flush, 0, u64::MAX, Refusal::Lost);
        gate.complete();
        before.wait().unwrap_err();
        event.wait().unwrap_err();
        assert_eq!(calls.load(Ordering::SeqCst), 0);
        assert!(rig.devices[0].lost().is_some());
    });
}

struct Nobodys;
impl NativeQueue for Nobodys {
    type Memory = ();
}

#[test]
fn another_librarys_queue_is_refused() {
    each(|rig| {
        let call = |_: &Nobodys, _| Ok(());
        let request = Request::default();
        // SAFETY: it does nothing.
        let event = unsafe { rig.queue.native_enqueue(NativeEnqueue::new(call), &request) };
        let error = event.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Unsupported { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("Nobodys"), "{error}");
    });
}

#[test]
fn one_way_ones_run_and_fail_what_reads_what_they_were_to_write() {
    each(|rig| {
        let (x, y) = (rig.used(1), rig.used(2));
        let post = |fails: bool| {
            let accesses = [
                Access::whole(&x, AccessMode::Read),
                Access::whole(&y, AccessMode::Overwrite),
            ];
            let request = Request {
                accesses: &accesses,
                ..Request::default()
            };
            let call = NativeEnqueue::new(move |queue: &FakeQueue, memories: Vec<FakeMemory>| {
                put_add_one(queue, &memories);
                if fails { failing(false) } else { Ok(()) }
            });
            // SAFETY: it keeps to its declared accesses.
            unsafe { rig.queue.post_native_enqueue(call, &request) }.unwrap();
        };
        post(false);
        assert_eq!(read(&rig.queue, &y).unwrap(), vec![2; 64]);
        post(true);
        let error = read(&rig.queue, &y).unwrap_err();
        assert!(error.first_cause().to_string().contains("not today"));
    });
}

#[test]
fn more_of_them_than_a_device_takes_at_once_come_in_order() {
    each(|rig| {
        let (x, y) = (rig.used(0), rig.used(0));
        for round in 0..300 {
            let (from, to) = if round % 2 == 0 { (&x, &y) } else { (&y, &x) };
            drop(rig.add_one(from, to));
        }
        assert_eq!(read(&rig.queue, &x).unwrap(), vec![44; 64]);
        assert!(rig.devices[0].free_memory() <= Some(CAPACITY));
    });
}
