//! Scratch buffers: the memory that they take again, and the waits between their commands.

use quipu::QueueOptions;
use quipu::prelude::*;

fn context() -> Context {
    Platform::new().unwrap().context().unwrap()
}

#[test]
fn an_in_order_queue_gives_memory_of_the_same_size_again() {
    let context = context();
    let queue = context.queue(&context.fastest()).unwrap();
    let first = queue.scratch::<u32>(64).unwrap();
    queue.fill(&first, 7).unwrap();
    let other = queue.scratch::<u32>(64).unwrap();
    queue.fill(&other, 8).unwrap();
    assert_eq!(queue.read(&first).unwrap().wait().unwrap(), [7; 64]);
    drop(first);
    // Not zeros, as a buffer that is allocated has.
    let again = queue.scratch::<u32>(64).unwrap();
    assert_eq!(queue.read(&again).unwrap().wait().unwrap(), [7; 64]);
    // Elements of another type with as many bytes, but no other number of bytes.
    drop(other);
    let bytes = queue.scratch::<u8>(256).unwrap();
    assert_eq!(
        queue.read(&bytes).unwrap().wait().unwrap()[..4],
        8_u32.to_ne_bytes()
    );
    let more = queue.scratch::<u32>(65).unwrap();
    assert_eq!(queue.read(&more).unwrap().wait().unwrap(), [0; 65]);
}

#[test]
fn a_queue_keeps_no_more_than_it_says() {
    let context = context();
    let queue = context.queue(&context.fastest()).unwrap();
    let kept = |length: usize, bytes: u8| {
        let scratch = queue.scratch::<u8>(length).unwrap();
        let was_kept = queue.read(&scratch).unwrap().wait().unwrap()[0] == bytes;
        queue.fill(&scratch, bytes).unwrap();
        was_kept
    };
    // Seventeen sizes: the first is forgotten.
    for length in 1..=17 {
        assert!(!kept(length, 3));
    }
    assert!(kept(17, 3) && kept(2, 3) && !kept(1, 3));
    // More bytes than are kept push all others out, and are not kept themselves.
    assert!(!kept(17 << 20, 3));
    assert!(!kept(17 << 20, 3) && !kept(17, 3));
}

#[test]
fn commands_that_use_the_memory_go_first() {
    let context = context();
    let queue = context.queue(&context.fastest()).unwrap();
    let gate = UserEvent::new();
    let scratch = queue.scratch::<u32>(8).unwrap();
    queue.after([gate.event()]).fill(&scratch, 1).unwrap();
    let read = queue.read(&scratch).unwrap();
    drop(scratch);
    let next = queue.scratch::<u32>(8).unwrap();
    queue.fill(&next, 2).unwrap();
    let read_next = queue.read(&next).unwrap();
    assert!(!read_next.is_complete());
    gate.complete();
    assert_eq!(read.wait().unwrap(), [1; 8]);
    assert_eq!(read_next.wait().unwrap(), [2; 8]);
}

#[test]
fn commands_of_an_out_of_order_queue_wait_for_no_others_scratch() {
    let context = context();
    let options = QueueOptions {
        in_order: false,
        ..QueueOptions::default()
    };
    let queue = context.queue_with(&context.fastest(), options).unwrap();
    let gate = UserEvent::new();
    let scratch = queue.scratch::<u32>(8).unwrap();
    let held = queue.after([gate.event()]).fill(&scratch, 1).unwrap();
    drop(scratch);
    let next = queue.scratch::<u32>(8).unwrap();
    assert_eq!(queue.read(&next).unwrap().wait().unwrap(), [0; 8]);
    assert!(!held.is_complete());
    gate.complete();
    held.wait().unwrap();
}

#[test]
fn memory_whose_writer_failed_is_written_anew() {
    let context = context();
    let queue = context.queue(&context.fastest()).unwrap();
    let failed = UserEvent::new();
    let scratch = queue.scratch::<u32>(8).unwrap();
    let lost = queue.after([failed.event()]).fill(&scratch, 1).unwrap();
    drop(scratch);
    failed.fail("no");
    assert!(lost.wait().is_err());
    let next = queue.scratch::<u32>(8).unwrap();
    queue.fill(&next, 2).unwrap();
    assert_eq!(queue.read(&next).unwrap().wait().unwrap(), [2; 8]);
}

#[test]
fn wrong_sizes_are_refused() {
    let context = context();
    let queue = context.queue(&context.fastest()).unwrap();
    assert!(queue.scratch::<u32>(usize::MAX).is_err());
}

#[test]
fn scratch_buffers_may_have_no_elements() {
    let context = context();
    let queue = context.queue(&context.fastest()).unwrap();
    for _ in 0..20 {
        let none = queue.scratch::<u32>(0).unwrap();
        assert!(none.is_empty());
        assert!(queue.read(&none).unwrap().wait().unwrap().is_empty());
    }
}

#[test]
fn what_is_put_in_a_scratch_buffers_place_is_not_kept() {
    let context = context();
    let queue = context.queue(&context.fastest()).unwrap();
    let mine = context.buffer(&[1_u32, 2, 3, 4]).unwrap();
    let mut scratch = queue.scratch::<u32>(4).unwrap();
    *scratch = mine.clone();
    drop(scratch);
    let next = queue.scratch::<u32>(4).unwrap();
    queue.fill(&next, 9).unwrap();
    assert_eq!(queue.read(&mine).unwrap().wait().unwrap(), [1, 2, 3, 4]);
}

#[kernel]
fn bytes_of_flags(
    _acc: &impl Accelerator<1>,
    mut flags: OwnElements<bool>,
    mut out: OwnElements<u8>,
) {
    for ((_, flag), (_, byte)) in flags.each().zip(out.each()) {
        *byte = u8::from(*flag);
    }
}

#[test]
fn elements_of_which_some_bits_are_no_value_get_no_other_elements_memory() {
    let context = context();
    let queue = context.queue(&context.fastest()).unwrap();
    let bytes = queue.scratch::<u8>(8).unwrap();
    queue.fill(&bytes, 200).unwrap();
    drop(bytes);
    let mut flags = queue.scratch::<bool>(8).unwrap();
    let mut out = context.allocate::<u8>(8).unwrap();
    let launch = bytes_of_flags(&mut *flags, &mut out);
    queue.launch(8, launch).unwrap();
    assert_eq!(queue.read(&out).unwrap().wait().unwrap(), [0; 8]);
    // Flags get flags' memory.
    queue.fill(&flags, true).unwrap();
    drop(flags);
    let flags = queue.scratch::<bool>(8).unwrap();
    assert_eq!(queue.read(&flags).unwrap().wait().unwrap(), [true; 8]);
    // Bytes get theirs.
    drop(flags);
    let bytes = queue.scratch::<u8>(8).unwrap();
    assert_eq!(queue.read(&bytes).unwrap().wait().unwrap(), [200; 8]);
}

#[test]
fn memory_that_something_else_holds_is_not_kept() {
    let context = context();
    let queue = context.queue(&context.fastest()).unwrap();
    // A mapping.
    let first = queue.scratch::<u8>(8).unwrap();
    let guard = queue.map(&first).unwrap().wait().unwrap();
    drop(first);
    let next = queue.scratch::<u8>(8).unwrap();
    queue.fill(&next, 1).unwrap();
    drop((next, guard));
    // A clone, by which anything may be set later.
    let first = queue.scratch::<u8>(64).unwrap();
    let clone = (*first).clone();
    drop(first);
    let three = context.buffer(&[3_u64]).unwrap();
    clone.set_content_size(Some(&three)).unwrap();
    let next = queue.scratch::<u8>(64).unwrap();
    queue.write(&next, vec![9_u8; 64]).unwrap().wait().unwrap();
    assert_eq!(queue.read(&next).unwrap().wait().unwrap(), [9; 64]);
    assert_ne!(next.label(), clone.label());
    // A label stays with its own buffer.
    next.set_label("mine");
    drop(next);
    let next = queue.scratch::<u8>(64).unwrap();
    assert_ne!(next.label(), "mine");
}

#[test]
fn memory_of_a_recorded_graph_is_not_kept() {
    let context = context();
    let queue = context.queue(&context.fastest()).unwrap();
    let scratch = queue.scratch::<u8>(8).unwrap();
    let recording = context.record();
    recording.on(&queue).fill(&scratch, 7).unwrap();
    let graph = recording.finish().unwrap();
    drop(scratch);
    let next = queue.scratch::<u8>(8).unwrap();
    queue.fill(&next, 1).unwrap();
    queue.launch_graph(&graph).unwrap();
    assert_eq!(queue.read(&next).unwrap().wait().unwrap(), [1; 8]);
}
