//! Recorded graphs, as users see them. The conformance suite checks the promises of graphs over
//! every driver.

use quipu::prelude::*;
use quipu::{ErrorKind, Kind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[kernel]
fn scale(_acc: &impl Accelerator<1>, factor: f32, mut values: OwnElements<f32>) {
    for (_, value) in values.each() {
        *value *= factor;
    }
}

/// Queues of the pool and of a device with memory of its own.
fn two_devices() -> (Context, [Queue; 2]) {
    let context = crate::context();
    let first = context.queue(&context.fastest()).unwrap();
    let sim = context.devices().iter().find(|d| d.driver_name() == "sim");
    let second = context.queue(sim.unwrap()).unwrap();
    (context, [first, second])
}

#[test]
fn every_kind_of_command_is_recorded() {
    let (context, [queue, other]) = two_devices();
    let n = 40;
    let (mut a, b) = (
        context.allocate::<f32>(n).unwrap(),
        context.allocate::<f32>(n).unwrap(),
    );
    let matrix = context.allocate_padded::<f32, 2>([5, 8]).unwrap();
    let copied = context.allocate_nd::<f32, 2>([5, 8]).unwrap();
    let wide = context.allocate::<[u64; 4]>(3).unwrap();
    let called = Arc::new(AtomicUsize::new(0));

    let recording = context.record();
    let on = recording.on(&queue);
    on.write(&b, vec![2.0_f32; n]).unwrap();
    on.copy(&b, &a).unwrap();
    on.launch(n, scale(3.0, &mut a)).unwrap();
    recording
        .on(&other)
        .for_each(&mut a, (&b,), |i, a, (b,)| *a += b[i])
        .unwrap();
    let filled = on.fill_nd(&matrix, 7.0).unwrap();
    on.after([filled]).copy_nd(&matrix, &copied).unwrap();
    on.fill(&wide, [5; 4]).unwrap();
    let inside = called.clone();
    let counted = on
        .host_task(move || {
            inside.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    on.after([counted]).named("last").marker().unwrap();
    on.barrier().unwrap();
    on.host_task_with((&mut a,), |(a,)| a[0] = -1.0).unwrap();
    let graph = recording.finish().unwrap();
    assert!(!graph.is_empty() && graph.len() >= 12);

    for launches in 1..4 {
        let launched = match launches % 2 {
            0 => queue.launch_graph(&graph).unwrap(),
            _ => other.named("again").launch_graph(&graph).unwrap(),
        };
        launched.wait().unwrap();
        let mut expected = vec![8.0; n];
        expected[0] = -1.0;
        assert_eq!(queue.read(&a).unwrap().wait().unwrap(), expected);
        assert_eq!(queue.read_nd(&copied).unwrap().wait().unwrap(), [7.0; 40]);
        assert_eq!(queue.read(&wide).unwrap().wait().unwrap(), [[5; 4]; 3]);
        assert_eq!(called.load(Ordering::SeqCst), launches);
    }
}

#[test]
fn a_task_that_fails_fails_the_launch_by_name() {
    let (context, [queue, _]) = two_devices();
    let recording = context.record();
    let mut launches = 0;
    recording
        .on(&queue)
        .try_host_task(move || {
            launches += 1;
            if launches == 2 {
                Err("twice is too often")
            } else {
                Ok(())
            }
        })
        .unwrap();
    let graph = recording.finish().unwrap();
    queue.launch_graph(&graph).unwrap().wait().unwrap();
    let error = queue.launch_graph(&graph).unwrap().wait().unwrap_err();
    assert!(error.to_string().contains("twice is too often"), "{error}");
    queue.launch_graph(&graph).unwrap().wait().unwrap();
}

#[test]
fn what_cannot_be_recorded_is_refused_in_words() {
    let (context, [queue, _]) = two_devices();
    let gate = UserEvent::new();
    let waiting = queue.after([gate.event()]);
    let recording = context.record();
    let on = recording.on(&waiting);
    let mut buffer = context.allocate::<f32>(4).unwrap();
    let view = context.allocate_padded::<f32, 2>([2, 2]).unwrap();
    let dense = context.allocate_nd::<f32, 2>([2, 2]).unwrap();
    let refused = [
        on.launch(4, scale(1.0, &mut buffer)).unwrap_err(),
        on.for_each(&mut buffer, (), |_, _, ()| ()).unwrap_err(),
        on.host_task(|| ()).unwrap_err(),
        on.host_task_with((&buffer,), |_| ()).unwrap_err(),
        on.marker().unwrap_err(),
        on.barrier().unwrap_err(),
        on.fill(&buffer, 1.0).unwrap_err(),
        on.fill_nd(&view, 1.0).unwrap_err(),
        on.copy_nd(&view, &dense).unwrap_err(),
        on.write(&buffer, vec![0.0; 4]).unwrap_err(),
    ];
    for error in refused {
        assert!(error.to_string().contains("let the launch wait"), "{error}");
    }
    gate.complete();
    let on = recording.on(&queue);
    let error = on.write(&buffer, vec![0.0; 3]).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::InvalidSize { .. }),
        "{error}"
    );
    let half = buffer.slice(..2).unwrap();
    let error = on.copy(&buffer, &half).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::InvalidSize { .. }),
        "{error}"
    );
    let error = on.copy(&half, &half).unwrap_err();
    assert!(error.to_string().contains("overlap"), "{error}");
    on.fill(&buffer, 1.0).unwrap();
    let graph = recording.finish().unwrap();
    assert_eq!(graph.len(), 1);
    // Mapped, it cannot be launched.
    let mapping = queue.map(&buffer).unwrap().wait().unwrap();
    let error = queue.launch_graph(&graph).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Mapped { .. }), "{error}");
    drop(mapping);
    queue.launch_graph(&graph).unwrap().wait().unwrap();
}

#[test]
fn the_times_of_its_commands_can_be_asked_for() {
    let (context, [queue, _]) = two_devices();
    let options = QueueOptions {
        profiling: true,
        ..QueueOptions::default()
    };
    let timed = context.queue_with(queue.device(), options).unwrap();
    let mut buffer = context.allocate::<f32>(4).unwrap();
    let recording = context.record();
    recording.on(&queue).fill(&buffer, 1.0).unwrap();
    recording
        .on(&timed)
        .named("tenfold")
        .launch(4, scale(10.0, &mut buffer))
        .unwrap();
    let graph = recording.finish().unwrap();
    queue.launch_graph(&graph).unwrap().wait().unwrap();
    let profiles = graph.profiles();
    let [(name, Kind::Launch, profile)] = &profiles[..] else {
        panic!("one command is timed, not {profiles:?}");
    };
    assert_eq!(name, "tenfold");
    assert!(profile.started_ns > 0 && profile.started_ns <= profile.ended_ns);
}
