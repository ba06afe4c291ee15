//! Borrowed memory.

use super::{context, each_queue, pool};
use quipu::ErrorKind;
use quipu::prelude::*;
use quipu_scheduler::event::refuse_waits;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn slices_are_written_and_read() {
    each_queue(|context, queue| {
        let buffer = context.allocate::<u64>(1000).unwrap();
        let numbers: Vec<u64> = (0..1000).collect();
        queue.write_slice(&buffer, &numbers).unwrap();
        let mut back = [0; 1000];
        queue.read_slice(&buffer, &mut back).unwrap();
        assert_eq!(back[..], numbers[..]);
    });
}

#[test]
fn a_scope_waits_for_what_borrows() {
    each_queue(|context, queue| {
        let buffer = context.allocate::<u32>(4).unwrap();
        let (mut first, mut second) = ([0; 4], [0; 4]);
        let sum = queue
            .scope(|scope| {
                scope.write(&buffer, &[1, 2, 3, 4])?;
                scope.read(&buffer, &mut first)?;
                queue.for_each(&mut buffer.clone(), (), |_, x, ()| *x *= 10)?;
                // A future that is leaked is no danger.
                std::mem::forget(scope.read(&buffer, &mut second)?);
                Ok::<_, quipu::Error>(10)
            })
            .unwrap()
            .unwrap();
        assert_eq!((first, second, sum), ([1, 2, 3, 4], [10, 20, 30, 40], 10));
    });
}

/// In-order, blocking or not.
fn options(blocking: bool) -> QueueOptions {
    QueueOptions {
        blocking,
        ..QueueOptions::default()
    }
}

fn would_deadlock(result: quipu::Result<()>) {
    let error = result.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::WouldDeadlock { .. }),
        "{error}"
    );
}

#[test]
fn a_scope_gives_back_what_it_cannot_wait_for() {
    let context = context();
    for blocking in [false, true] {
        let device = context.fastest();
        let queue = context.queue_with(&device, options(blocking)).unwrap();
        let gate = UserEvent::new();
        let buffer = context.buffer(&[1u8; 4]).unwrap();
        let (source, mut destination) = (vec![2; 4], vec![0; 4]);
        let later = queue.after([gate.event()]);
        let outer = refuse_waits(Some("it is this test that must not wait"));
        would_deadlock(later.read_slice(&buffer, &mut destination));
        would_deadlock(later.write_slice(&buffer, &source));
        refuse_waits(outer);
        // The commands run now, and must not touch what is gone.
        drop(source);
        destination.fill(7);
        gate.complete();
        queue.wait().unwrap();
        assert_eq!(destination, [7; 4]);
        let error = queue.read(&buffer).unwrap().wait().unwrap_err();
        assert!(error.first_cause().is_cancelled(), "{error}");
    }
}

#[test]
fn a_task_gets_back_what_it_lent_to_what_comes_after_it() {
    let context = context();
    for driver in ["cpu", "serial"] {
        for blocking in [false, true] {
            let mut devices = context.devices().iter();
            let device = devices.find(|device| device.driver_name() == driver);
            let queue = context
                .queue_with(device.unwrap(), options(blocking))
                .unwrap();
            let buffer = context.buffer(&[1u8; 4]).unwrap();
            let (inner, lent) = (queue.clone(), buffer.clone());
            let task = move || {
                let mut destination = vec![0; 4];
                would_deadlock(inner.read_slice(&lent, &mut destination));
                would_deadlock(inner.write_slice(&lent, &[2; 4]));
                destination.fill(7);
                destination
            };
            let destination = queue.host_task(task).unwrap().wait().unwrap();
            queue.wait().unwrap();
            assert_eq!(destination, [7; 4], "{driver}");
            let error = queue.read(&buffer).unwrap().wait().unwrap_err();
            assert!(error.first_cause().is_cancelled(), "{driver}: {error}");
        }
    }
}

#[test]
fn what_a_command_has_begun_with_is_given_back_where_waits_are_refused() {
    let (context, queue) = pool();
    let queue = context.queue_with(queue.device(), options(true)).unwrap();
    let buffer = context.buffer(&vec![1u8; 1 << 22]).unwrap();
    let mut destination = vec![0u8; 1 << 22];
    for _ in 0..20 {
        // As in a callback of a driver's. The command may have begun by then, and is too late to be
        // cancelled.
        let outer = refuse_waits(Some("it is this test that must not wait"));
        let read = queue.read_slice(&buffer, &mut destination);
        refuse_waits(outer);
        destination.fill(7);
        queue.wait().unwrap();
        assert!(destination.iter().all(|byte| *byte == 7), "{read:?}");
    }
}

#[test]
fn a_panic_in_a_scope_waits_for_its_commands() {
    each_queue(|context, queue| {
        let buffer = context.buffer(&[3u8; 4]).unwrap();
        let mut read = [0; 4];
        let gate = UserEvent::new();
        let event = gate.event();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            queue.scope(|scope| {
                scope.read(&buffer, &mut read).unwrap();
                gate.complete();
                panic!("on purpose");
            })
        }));
        assert!(outcome.is_err() && event.is_complete());
        assert_eq!(read, [3; 4]);
    });
}

#[test]
fn the_first_error_of_a_scope_is_its_result() {
    each_queue(|context, queue| {
        let mut buffer = context.allocate::<u8>(4).unwrap();
        queue
            .for_each(&mut buffer, (), |_, _, ()| panic!("on purpose"))
            .unwrap();
        let mut read = [9; 4];
        let error = queue.read_slice(&buffer, &mut read).unwrap_err();
        assert!(error.to_string().contains("on purpose"), "{error}");
        assert_eq!(read, [9; 4]);
        // A write makes the range good again.
        queue.write_slice(&buffer, &[1; 4]).unwrap();
        queue.read_slice(&buffer, &mut read).unwrap();
        assert_eq!(read, [1; 4]);
    });
}

#[test]
fn lengths_have_to_agree() {
    let (context, queue) = pool();
    let buffer = context.allocate::<u8>(4).unwrap();
    assert!(queue.write_slice(&buffer, &[1; 5]).is_err());
    assert!(queue.read_slice(&buffer, &mut [1; 3]).is_err());
}

#[test]
fn a_scope_takes_regions() {
    each_queue(|context, queue| {
        let view = context.allocate_padded::<u8, 2>([3, 4]).unwrap();
        let image = Layout::dense([5, 6]).unwrap();
        let corner = image.region([2..5, 2..6]).unwrap();
        let source: Vec<u8> = (0..30).collect();
        let mut destination = [99; 12];
        let dense = Layout::dense([3, 4]).unwrap();
        queue
            .scope(|scope| {
                scope.write_nd(&view, &source, &corner)?;
                scope.read_nd(&view, &mut destination, &dense)
            })
            .unwrap()
            .unwrap();
        let expected = [14, 15, 16, 17, 20, 21, 22, 23, 26, 27, 28, 29];
        assert_eq!(destination, expected);
        // A layout that goes beyond the slice, or has another extent, is refused.
        let short = &source[..29];
        assert!(queue.write_slice_nd(&view, short, &corner).is_err());
        assert!(queue.write_slice_nd(&view, &source, &image).is_err());
        let mut host = [0; 29];
        assert!(queue.read_slice_nd(&view, &mut host, &corner).is_err());
        assert!(queue.read_slice_nd(&view, &mut [0; 30], &image).is_err());
    });
}
