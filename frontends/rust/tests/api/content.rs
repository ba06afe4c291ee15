//! Content sizes: only bytes in use move.

use super::{each_queue, pool};
use quipu::ErrorKind;
use quipu::drivers::SimDriver;
use quipu::prelude::*;
use quipu::simulation::Configuration;
use quipu_scheduler::event::refuse_waits;

#[test]
fn only_the_content_is_read_and_the_rest_is_zero() {
    each_queue(|context, queue| {
        let buffer = context.buffer(&[1u8, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let size = context.buffer(&[5u64]).unwrap();
        buffer.set_content_size(Some(&size)).unwrap();
        assert_eq!(
            queue.read(&buffer).unwrap().wait().unwrap(),
            [1, 2, 3, 4, 5, 0, 0, 0]
        );
        // A slice sees the content from where it starts.
        assert_eq!(
            queue
                .read(&buffer.slice(4..).unwrap())
                .unwrap()
                .wait()
                .unwrap(),
            [5, 0, 0, 0]
        );
        let mut host = [9; 8];
        queue.read_slice(&buffer, &mut host).unwrap();
        assert_eq!(host, [1, 2, 3, 4, 5, 0, 0, 0]);
        // More than there is counts as all.
        queue.fill(&size, u64::MAX).unwrap();
        assert_eq!(queue.read(&buffer).unwrap().wait().unwrap()[7], 8);
        queue.fill(&size, 0).unwrap();
        assert_eq!(queue.read(&buffer).unwrap().wait().unwrap(), [0; 8]);
        buffer.set_content_size(None).unwrap();
        assert_eq!(queue.read(&buffer).unwrap().wait().unwrap()[0], 1);
    });
}

#[test]
fn only_the_content_is_written_and_copied() {
    each_queue(|context, queue| {
        let buffer = context.allocate::<u16>(4).unwrap();
        let size = context.buffer(&[4u64]).unwrap();
        buffer.set_content_size(Some(&size)).unwrap();
        drop(queue.write(&buffer, [1u16, 2, 3, 4]).unwrap());
        let plain = context.buffer(&[9u16; 4]).unwrap();
        queue.copy(&buffer, &plain).unwrap();
        assert_eq!(queue.read(&plain).unwrap().wait().unwrap(), [1, 2, 0, 0]);
        buffer.set_content_size(None).unwrap();
        assert_eq!(queue.read(&buffer).unwrap().wait().unwrap(), [1, 2, 0, 0]);
        // The size of the destination counts as well.
        buffer.set_content_size(Some(&size)).unwrap();
        queue
            .copy(&context.buffer(&[7u16; 4]).unwrap(), &buffer)
            .unwrap();
        buffer.set_content_size(None).unwrap();
        assert_eq!(queue.read(&buffer).unwrap().wait().unwrap(), [7, 7, 0, 0]);
    });
}

#[test]
fn a_size_is_read_when_the_transfer_runs() {
    each_queue(|context, queue| {
        let gate = UserEvent::new();
        let buffer = context.buffer(&[1u8, 2, 3, 4]).unwrap();
        let mut size = context.buffer(&[4u64]).unwrap();
        buffer.set_content_size(Some(&size)).unwrap();
        // The write of the size waits; so does the read, which comes after it;
        // and the last write comes after the read.
        let later = queue.after([gate.event()]);
        later
            .for_each(&mut size, (), |_, size, ()| *size = 2)
            .unwrap();
        let read = queue.read(&buffer).unwrap();
        queue.fill(&size, 3).unwrap();
        assert!(!read.is_complete());
        gate.complete();
        assert_eq!(read.wait().unwrap(), [1, 2, 0, 0]);
        assert_eq!(queue.read(&buffer).unwrap().wait().unwrap(), [1, 2, 3, 0]);
    });
}

#[test]
fn regions_are_cut_row_by_row() {
    each_queue(|context, queue| {
        let buffer = context.buffer(&(1..=12u8).collect::<Vec<_>>()).unwrap();
        let size = context.buffer(&[6u64]).unwrap();
        buffer.set_content_size(Some(&size)).unwrap();
        let view = buffer.shaped([3, 4]).unwrap().region([0..3, 1..3]).unwrap();
        assert_eq!(
            queue.read_nd(&view).unwrap().wait().unwrap(),
            [2, 3, 6, 0, 0, 0]
        );
    });
}

#[test]
fn sizes_that_make_no_sense_are_refused() {
    let (context, queue) = pool();
    let buffer = context.allocate::<u64>(4).unwrap();
    assert!(buffer.set_content_size(Some(&buffer)).is_err());
    assert!(
        buffer
            .slice(..2)
            .unwrap()
            .set_content_size(Some(&buffer.slice(2..).unwrap()))
            .is_err()
    );
    let sizes = context.allocate::<u64>(2).unwrap();
    assert!(
        buffer
            .set_content_size(Some(&sizes.slice(1..).unwrap()))
            .is_err()
    );
    let (elsewhere, _) = pool();
    let foreign = elsewhere.allocate::<u64>(1).unwrap();
    let error = buffer.set_content_size(Some(&foreign)).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::WrongContext { .. }),
        "{error}"
    );
    // Overlapping copies are refused with a content size as without.
    buffer.set_content_size(Some(&sizes)).unwrap();
    let (low, high) = (buffer.slice(..3).unwrap(), buffer.slice(1..).unwrap());
    assert!(
        queue
            .copy(&low, &high)
            .unwrap_err()
            .to_string()
            .contains("overlap")
    );
}

#[test]
fn content_sizes_in_each_other_are_refused() {
    let context = super::context();
    let (a, b) = (
        context.allocate::<u64>(1).unwrap(),
        context.allocate::<u64>(1).unwrap(),
    );
    a.set_content_size(Some(&b)).unwrap();
    let error = b.set_content_size(Some(&a)).unwrap_err();
    assert!(error.to_string().contains("content size"), "{error}");
    a.set_content_size(None).unwrap();
    b.set_content_size(Some(&a)).unwrap();
}

#[test]
fn a_transfer_that_a_blocking_queue_cannot_wait_for_is_not_done() {
    let machine = SimDriver::manual(Configuration::shared_memory(1, 1 << 20)).unwrap();
    let platform = Platform::builder().driver(machine).build().unwrap();
    let sim = platform.device("sim").unwrap();
    let context = sim.context().unwrap();
    let queue = context.queue(&sim).unwrap();
    let options = QueueOptions {
        blocking: true,
        ..QueueOptions::default()
    };
    let blocking = context.queue_with(&sim, options).unwrap();
    let buffer = context.buffer(&[1u8; 4]).unwrap();
    let size = context.buffer(&[4u64]).unwrap();
    buffer.set_content_size(Some(&size)).unwrap();
    let gate = UserEvent::new();
    queue.after([gate.event()]).fill(&buffer, 9).unwrap();
    let outer = refuse_waits(Some("it is this test that must not wait"));
    let error = blocking.write(&buffer, vec![2; 4]).unwrap_err();
    refuse_waits(outer);
    assert!(
        matches!(error.kind(), ErrorKind::WouldDeadlock { .. }),
        "{error}"
    );
    gate.complete();
    buffer.set_content_size(None).unwrap();
    let error = queue.read(&buffer).unwrap().wait().unwrap_err();
    assert!(error.first_cause().is_cancelled(), "{error}");
}
