//! Recorded writes, fills, copies and kernels: the bytes that they leave.

use super::{Scene, folded_from, launched, record_fold};
use crate::Fixture;
use crate::cases::cases;
use crate::support::*;
use quipu_scheduler::AccessMode;

cases! {
    Anything:
        data_commands,
        kernels_fills_and_copies,
        fills_of_rows;
}

fn data_commands(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let (a, b) = (scene.stage.memory(16), scene.stage.memory(16));
    let queue = scene.stage.out_of_order();
    let host = HostBytes::new(&[1, 2, 3, 4]);
    let recording = &mut scene.recording;
    let (low, high) = (
        part(&a, 0..4, AccessMode::Overwrite),
        part(&a, 8..16, AccessMode::Overwrite),
    );
    // SAFETY: the bytes are kept and never change.
    unsafe { recording.write(&queue, host.memory(), low, 4, &[], &[]) }.unwrap();
    recording.fill(&queue, high, &[8, 9], &[]).unwrap();
    let (from, to) = (reads(&a), overwrites(&b));
    recording.copy(&queue, from, to, 16, &[], &[]).unwrap();
    let (_stage, graph) = scene.finish();
    for _ in 0..3 {
        write_all(&queue, &a, &[5; 16]);
        launched(&queue, &graph);
        let expected = [1, 2, 3, 4, 5, 5, 5, 5, 8, 9, 8, 9, 8, 9, 8, 9];
        assert_eq!(read_all(&queue, &b), expected);
    }
}

fn kernels_fills_and_copies(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let (a, b) = (scene.stage.memory(24), scene.stage.memory(24));
    let queues = [scene.stage.out_of_order(), scene.stage.in_order()];
    for n in 0..3 {
        record_fold(&mut scene, &queues[0], &a, n, "fold");
    }
    let high = |pattern: &[u8], scene: &mut Scene| {
        let high = part(&a, 8..24, AccessMode::Overwrite);
        scene
            .recording
            .fill(&queues[0], high, pattern, &[])
            .unwrap();
    };
    high(&[1, 2, 3, 4, 5, 6, 7, 8], &mut scene);
    // In two pieces, a row each.
    let step = quipu_scheduler::operation::Step {
        count: 2,
        source_stride: 16,
        destination_stride: 16,
    };
    let (from, to) = (reads(&a), updates(&b));
    let recording = &mut scene.recording;
    recording
        .copy(&queues[0], from, to, 8, &[step], &[])
        .unwrap();
    recording.barrier(&queues[1], &[]).unwrap();
    high(&[8, 9], &mut scene);
    record_fold(&mut scene, &queues[1], &b, 7, "fold");
    let (_stage, graph) = scene.finish();
    let mut x = 5;
    write_all(&queues[0], &b, &[3; 24]);
    write_all(&queues[0], &a, &[0; 24]);
    put(&queues[0], &a, x, &[]);
    for queue in [&queues[0], &queues[1], &queues[0]] {
        // The second is not waited for before it is launched.
        queue.post_graph(&graph, &[], None).unwrap();
        launched(queue, &graph);
        x = folded_from(x, (0..2).flat_map(|_| 0..3));
        let mut high = [8, 9].repeat(8);
        let mut of_a = x.to_le_bytes().to_vec();
        of_a.append(&mut high);
        assert_eq!(read_all(queue, &a), of_a);
        let y = x.wrapping_mul(31).wrapping_add(7).to_le_bytes();
        let of_b = [y, [3; 8], [1, 2, 3, 4, 5, 6, 7, 8]].concat();
        assert_eq!(read_all(queue, &b), of_b);
    }
}

fn fills_of_rows(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let memory = scene.stage.memory(24);
    let queue = scene.stage.in_order();
    let step = quipu_scheduler::operation::Step {
        count: 2,
        source_stride: 0,
        destination_stride: 16,
    };
    let gaps = part(&memory, 8..26, AccessMode::Overwrite);
    let refused = scene
        .recording
        .fill_rows(&queue, gaps, &[6, 5], 2, &[step], &[]);
    assert!(refused.is_err(), "it reaches beyond the end");
    let gaps = part(&memory, 0..18, AccessMode::Overwrite);
    scene
        .recording
        .fill_rows(&queue, gaps, &[6, 5], 2, &[step], &[])
        .unwrap();
    record_fold(&mut scene, &queue, &memory, 3, "fold");
    let (_stage, graph) = scene.finish();
    for n in 0..3 {
        let mut expected = [n; 24];
        write_all(&queue, &memory, &expected);
        launched(&queue, &graph);
        for row in [0, 16] {
            expected[row..row + 2].copy_from_slice(&[6, 5]);
        }
        let x = u64::from_le_bytes(expected[..8].try_into().unwrap());
        let x = x.wrapping_mul(31).wrapping_add(3);
        expected[..8].copy_from_slice(&x.to_le_bytes());
        assert_eq!(read_all(&queue, &memory), expected);
    }
}
