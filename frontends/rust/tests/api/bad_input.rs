//! Bad input: each gets a clear error or a defined result, and never a panic, a hang or an abort.

use super::{each_queue, pool};
use quipu::ErrorKind;
use quipu::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[track_caller]
fn refused<T>(result: quipu::Result<T>, expected: &str) {
    match result {
        Ok(_) => panic!("accepted"),
        Err(error) => {
            let message = error.to_string();
            assert!(
                message.contains(expected),
                "{message:?} does not say {expected:?}"
            );
        }
    }
}

#[test]
fn elements_of_no_size_and_lengths_that_differ() {
    let (context, queue) = pool();
    refused(context.allocate::<[u8; 0]>(4), "no size");
    refused(context.allocate::<()>(0), "no size");
    refused(Pinned::<()>::new(4), "have no size");
    #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
    #[repr(C, align(128))]
    struct Wide([u8; 128]);
    refused(context.allocate::<Wide>(4), "are aligned to 128 bytes");
    let buffer = context.allocate::<u32>(4).unwrap();
    refused(queue.write(&buffer, Vec::new()), "0 elements");
    refused(queue.read_slice(&buffer, &mut []), "0 elements");
}

#[test]
fn extents_that_overflow() {
    let (context, queue) = pool();
    refused(
        context.allocate::<u64>(usize::MAX),
        "exceed the largest buffer",
    );
    refused(
        context.allocate::<u64>(usize::MAX / 8 + 1),
        "exceed the largest buffer",
    );
    refused(context.allocate::<u8>(1 << 50), "exceed the largest buffer");
    refused(context.allocate_nd::<u8, 2>([usize::MAX, 2]), "overflows");
    refused(
        context.allocate_nd::<u8, 3>([1 << 30, 1 << 30, 1 << 30]),
        "overflows",
    );
    refused(
        context.allocate_padded::<u8, 2>([2, usize::MAX - 1]),
        "overflows",
    );
    refused(Layout::padded([3, 1], usize::MAX), "overflows");
    let buffer = context.allocate::<u8>(100).unwrap();
    refused(buffer.shaped([usize::MAX, usize::MAX]), "overflows");
    let mut output = buffer.clone();
    // SAFETY: the function binds its output, always in the same way.
    let kernel = unsafe { native(never, (&mut output,)) };
    refused(queue.launch([usize::MAX, 3], kernel), "overflows");
}

fn never(output: GlobalMut<'_, u8>) -> impl Bound<2> {
    struct Never;
    impl Kernel<2> for Never {
        type Output = ByBlock<u8>;
        fn run<A: Accelerator<2>>(&self, _: &A, _: &mut [u8]) {}
    }
    bind(Never, output)
}

#[test]
fn ranges_out_of_bounds() {
    let (context, queue) = pool();
    let buffer = context.allocate::<u32>(10).unwrap();
    refused(
        buffer.slice(5..11),
        &format!(
            "elements 5..11 lie outside of '{}', which has 10",
            buffer.label()
        ),
    );
    refused(buffer.slice(usize::MAX - 1..usize::MAX), "outside");
    refused(buffer.slice(..=usize::MAX), "outside");
    refused(buffer.slice(4..).unwrap().slice(3..7), "outside");
    #[expect(clippy::reversed_empty_ranges, reason = "that is the error")]
    let reversed = buffer.slice(7..3);
    refused(reversed, "ends before it starts");
    refused(buffer.slice(11..11), "outside");
    refused(buffer.split_at(11), "outside");
    refused(buffer.shaped([3, 4]), "outside");
    refused(buffer.view(Layout::padded([2, 3], 8).unwrap()), "outside");
    let view = buffer.shaped([2, 5]).unwrap();
    refused(view.region([0..3, 0..5]), "beyond");
    refused(view.region([0..2, 5..6]), "beyond");
    let dense = Layout::dense([2, 5]).unwrap();
    refused(
        queue.write_nd(&view, vec![0; 9], &dense),
        "of a container of 9",
    );
    refused(
        queue.read_nd_to(&view, [0; 9], &dense),
        "of a container of 9",
    );
    let region = Layout::dense([4, 5]).unwrap().region([2..4, 0..5]).unwrap();
    refused(
        queue.read_nd_to(&view, [0; 19], &region),
        "of a container of 19",
    );
    refused(
        queue.write_nd(&view, vec![0; 12], &Layout::dense([3, 4]).unwrap()),
        "same extent",
    );
}

#[test]
fn lengths_that_differ() {
    let (context, queue) = pool();
    let (four, five) = (
        context.allocate::<u32>(4).unwrap(),
        context.allocate::<u32>(5).unwrap(),
    );
    refused(
        queue.write(&four, vec![0; 5]),
        "5 elements on the one side, 4 on the other",
    );
    refused(queue.read_to(&four, [0; 3]), "3 elements");
    refused(queue.copy(&four, &five), "same length");
    let (low, high) = (five.slice(..3).unwrap(), five.slice(2..).unwrap());
    refused(queue.copy(&low, &high), "overlap");
    refused(queue.copy(&low, &low), "overlap");
}

#[test]
fn buffers_of_another_context() {
    let (_, queue) = pool();
    let (elsewhere, _) = pool();
    let mut foreign = elsewhere.allocate::<u32>(4).unwrap();
    let ours = queue.allocate::<u32>(4).unwrap();
    let expected = "belongs to another context";
    refused(queue.write(&foreign, vec![0; 4]), expected);
    refused(queue.read(&foreign), expected);
    refused(queue.copy(&ours, &foreign), expected);
    refused(queue.fill(&foreign, 1), expected);
    refused(queue.map(&foreign), expected);
    refused(queue.read_slice(&foreign, &mut [0; 4]), expected);
    refused(queue.host_task_with((&foreign,), |(_,)| ()), expected);
    refused(
        queue.for_each(&mut foreign, (&ours,), |_, _, _| ()),
        expected,
    );
}

#[kernel]
fn add(_acc: &impl Accelerator<1>, a: u32, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        *y += a * x[i];
    }
}

/// A buffer by its label, and which argument of a call it is; ranges in elements.
#[test]
fn errors_name_the_buffer_the_argument_and_elements() {
    let (context, queue) = pool();
    let (elsewhere, elsewhere_queue) = pool();
    let mut foreign = elsewhere.allocate::<u32>(4).unwrap();
    foreign.set_label("weights");
    let mut ours = context.allocate::<u32>(8).unwrap();
    ours.set_label("sums");

    let outside =
        "slice a buffer: elements 5..9 lie outside of 'sums', which has 8; use a range within it";
    refused(ours.slice(5..9), outside);

    let other = |argument: &str| {
        format!("'weights'{argument} belongs to another context; create it in this queue's context")
    };
    let (first, second, third) = (
        other(" (argument 0, counted from 0)"),
        other(" (argument 1, counted from 0)"),
        other(" (argument 2, counted from 0)"),
    );
    refused(queue.read(&foreign), &other(""));
    refused(queue.fill(&foreign, 1), &other(""));
    refused(queue.copy(&foreign, &ours.slice(..4).unwrap()), &first);
    refused(queue.copy(&ours.slice(..4).unwrap(), &foreign), &second);
    // Values count, too.
    refused(
        queue.launch(ours.len(), add(3, &foreign, &mut ours)),
        &second,
    );
    refused(
        queue.launch(foreign.len(), add(3, &ours.clone(), &mut foreign)),
        &third,
    );
    refused(queue.host_task_with((1_u32, &foreign), |_| ()), &second);
    refused(queue.for_each(&mut foreign, (), |_, _, ()| ()), &first);
    let addend = foreign.clone();
    refused(
        queue.for_each(&mut ours, (1_u32, &addend), |_, _, _| ()),
        &third,
    );
    let recording = context.record();
    refused(recording.on(&queue).fill(&foreign, 1), &other(""));
    refused(
        recording.on(&elsewhere_queue).fill(&ours, 1),
        "belongs to another context",
    );
    recording.on(&queue).fill(&ours, 1).unwrap();
    let graph = recording.finish().unwrap();
    refused(
        elsewhere_queue.launch_graph(&graph),
        "the graph belongs to another context",
    );

    let half = ours.slice(2..6).unwrap();
    let mapped = queue.map_mut(&half).unwrap().wait().unwrap();
    let mapping = |argument: &str| format!("'sums'{argument} is mapped at elements 2..6 by '");
    refused(queue.read(&ours), &mapping(""));
    let read = ours.clone();
    let mut written = context.allocate::<u32>(8).unwrap();
    refused(
        queue.launch(8, add(3, &read, &mut written)),
        &mapping(" (argument 1, counted from 0)"),
    );
    drop(mapped);
    queue
        .launch(8, add(3, &read, &mut written))
        .unwrap()
        .wait()
        .unwrap();
}

#[test]
fn events_of_another_context_are_waited_for() {
    let (_, queue) = pool();
    let (_, elsewhere) = pool();
    let gate = UserEvent::new();
    let event = elsewhere.after([gate.event()]).marker().unwrap();
    let task = queue.after([event]).host_task(|| 1).unwrap();
    assert!(!task.is_complete());
    gate.complete();
    assert_eq!(task.wait().unwrap(), 1);
}

/// An event comes into being with its command, so nothing can wait for itself by
/// its own event (a compile-fail test beside `Queue::wait_for` shows it). A task
/// can still wait for what comes after it, or for itself through a queue.
#[test]
fn a_task_that_waits_for_itself_gets_an_error() {
    for driver in ["cpu", "serial"] {
        let platform = Platform::new().unwrap();
        let context = platform.device(driver).unwrap().context().unwrap();
        let queue = context.queue(&context.fastest()).unwrap();
        let inner = queue.clone();
        let task = queue.host_task(move || inner.wait()).unwrap();
        let error = task.wait().unwrap().unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::WouldDeadlock { .. }),
            "{driver}: {error}"
        );
        let inner = queue.clone();
        let task = queue
            .host_task(move || inner.host_task(|| 1)?.wait())
            .unwrap();
        let error = task.wait().unwrap().unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::WouldDeadlock { .. }),
            "{driver}: {error}"
        );
    }
}

#[test]
fn a_queue_dropped_with_work_in_it_still_does_it() {
    each_queue(|context, queue| {
        let queue = context.queue(queue.device()).unwrap();
        let gate = UserEvent::new();
        let mut buffer = context.allocate::<u32>(10).unwrap();
        queue
            .after([gate.event()])
            .for_each(&mut buffer, (), |i, x, ()| *x = i as u32)
            .unwrap();
        let device = queue.device().clone();
        drop(queue);
        gate.complete();
        context.wait_for_device(&device).unwrap();
        let other = context.queue(&device).unwrap();
        assert_eq!(other.read(&buffer).unwrap().wait().unwrap()[9], 9);
    });
}

#[test]
fn a_context_and_all_its_handles_dropped_with_work_in_it_still_does_it() {
    let ran = Arc::new(AtomicU32::new(0));
    let gate = UserEvent::new();
    let event = {
        let (context, queue) = pool();
        let mut buffer = context.allocate::<u32>(10).unwrap();
        queue
            .after([gate.event()])
            .for_each(&mut buffer, (), |i, x, ()| *x = i as u32)
            .unwrap();
        let ran = ran.clone();
        let task = queue.host_task_with((&buffer,), move |(buffer,)| {
            ran.fetch_add(buffer[9], Ordering::SeqCst);
        });
        task.unwrap().event().clone()
    };
    gate.complete();
    event.wait().unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), 9);
}

#[test]
fn many_commands_behind_an_event_that_is_never_completed_and_then_dropped() {
    const MANY: u32 = 100_000;
    each_queue(|context, queue| {
        let gate = UserEvent::new();
        let ran = Arc::new(AtomicU32::new(0));
        let mut buffer = context.allocate::<u32>(1).unwrap();
        let first = queue
            .after([gate.event()])
            .for_each(&mut buffer, (), |_, x, ()| *x += 1)
            .unwrap();
        for _ in 1..MANY {
            let ran = ran.clone();
            let add = move |_, x: &mut u32, ()| {
                ran.fetch_add(1, Ordering::Relaxed);
                *x += 1;
            };
            queue.for_each(&mut buffer, (), add).unwrap();
        }
        let last = queue.read(&buffer).unwrap();
        drop(gate);
        for error in [first.wait().unwrap_err(), last.wait().unwrap_err()] {
            assert!(
                matches!(error.first_cause().kind(), ErrorKind::Abandoned { .. })
                    && error.to_string().contains("bad_input.rs:"),
                "{error}"
            );
        }
        queue.wait().unwrap();
        assert_eq!(ran.load(Ordering::Relaxed), 0, "none of them ran");
        assert_eq!(Arc::strong_count(&ran), 1, "all of them are gone");
        // The queue and the buffer are as good as ever.
        queue.fill(&buffer, 1).unwrap();
        assert_eq!(queue.read(&buffer).unwrap().wait().unwrap(), [1]);
    });
}

#[test]
fn a_container_that_lies_about_its_length_is_refused() {
    struct Liar(std::cell::Cell<bool>);
    impl HostView for Liar {
        type Element = u8;
        fn elements(&self) -> &[u8] {
            if self.0.replace(true) {
                &[1]
            } else {
                &[1, 2, 3, 4]
            }
        }
        fn elements_mut(&mut self) -> &mut [u8] {
            &mut []
        }
    }
    let (context, queue) = pool();
    let buffer = context.allocate::<u8>(4).unwrap();
    refused(
        queue.write(&buffer, Liar(false.into())),
        "of a container of 1",
    );
    refused(
        queue.read_to(&buffer, Liar(false.into())),
        "of a container of 0",
    );
}
