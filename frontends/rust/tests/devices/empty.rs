//! Buffers, slices, views and launches without elements: they do nothing, and are errors nowhere.

use quipu::prelude::*;

#[kernel]
fn add_length(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (_, y) in y.each() {
        *y += 1 + x.len() as u32;
    }
}

#[kernel]
fn add_count(_acc: &impl Accelerator<2>, x: GlobalRef<u32, 2>, mut y: OwnElements<u32, 2>) {
    for (_, y) in y.each() {
        *y += 1 + x.extent().product() as u32;
    }
}

#[kernel]
async fn add_sum(
    acc: &impl BlockAccelerator<1>,
    _x: &[u32],
    sums: OwnBlock<u32>,
    #[shared(_x.len())] mut scratch: SharedWrite<u32>,
) {
    for own in scratch.own() {
        *own = 1;
    }
    let scratch = acc.sync(scratch).await;
    for sum in sums {
        for k in 0..scratch.len() {
            *sum += scratch[k];
        }
    }
}

/// Each command, with nothing to work on, beside one that has something.
pub(crate) fn nothing_is_an_error_nowhere(context: &Context, queue: &Queue) {
    let some = context.buffer(&[1_u32, 2, 3, 4]).unwrap();
    let parts = [
        context.allocate(0).unwrap(),
        context.buffer::<[u32]>(&[]).unwrap(),
        context.buffer_from(Vec::new()).unwrap(),
        some.slice(2..2).unwrap(),
        some.slice(4..).unwrap(),
        some.split_at(0).unwrap().0,
    ];
    for mut none in parts {
        assert!(none.is_empty());
        let nothing = queue.read(&none).unwrap().wait().unwrap();
        assert!(nothing.is_empty());
        queue.write(&none, nothing).unwrap().wait().unwrap();
        queue.write_slice(&none, &[]).unwrap();
        queue.read_slice(&none, &mut []).unwrap();
        queue.fill(&none, 9).unwrap().wait().unwrap();
        queue
            .copy(&none, &context.allocate(0).unwrap())
            .unwrap()
            .wait()
            .unwrap();
        assert!(queue.map(&none).unwrap().wait().unwrap().is_empty());
        assert!(queue.map_mut(&none).unwrap().wait().unwrap().is_empty());
        let task = |(none,): (&mut [u32],)| assert!(none.is_empty());
        queue
            .host_task_with((&mut none,), task)
            .unwrap()
            .wait()
            .unwrap();

        // A launch of nothing, one that reads nothing, and one over blocks that have nothing.
        let x = some.slice(..1).unwrap();
        let launched = queue.launch(none.len(), add_length(&x, &mut none));
        launched.unwrap().wait().unwrap();
        let mut y = context.buffer(&[5_u32; 3]).unwrap();
        queue.launch(3, add_length(&none, &mut y)).unwrap();
        let division = WorkDivision::new(2, 1, 1);
        let launched = queue.launch(division, add_length(&x, &mut none));
        launched.unwrap().wait().unwrap();
        assert_eq!(queue.read(&y).unwrap().wait().unwrap(), [6; 3]);

        // Views, of which a side is nothing.
        let view = none.shaped([3, 0]).unwrap();
        let mut plane = context.allocate_nd([2, 2]).unwrap();
        queue.launch([2, 2], add_count(&view, &mut plane)).unwrap();
        let mut flat = plane.region([0..2, 2..2]).unwrap();
        assert!(flat.is_empty() && flat.extent() == [2, 0]);
        let launched = queue.launch(flat.extent(), add_count(&view, &mut flat));
        launched.unwrap().wait().unwrap();
        queue.fill_nd(&flat, 9).unwrap().wait().unwrap();
        let copied = queue.copy_nd(&flat, &plane.region([0..2, 0..0]).unwrap());
        copied.unwrap().wait().unwrap();
        assert!(queue.read_nd(&flat).unwrap().wait().unwrap().is_empty());
        assert_eq!(queue.read_nd(&plane).unwrap().wait().unwrap(), [1; 4]);

        // Shared arrays as long as what is not there.
        let mut sums = context.allocate::<u32>(2).unwrap();
        let division = WorkDivision::new(2, 4, 1);
        queue.launch(division, add_sum(&none, &mut sums)).unwrap();
        assert_eq!(queue.read(&sums).unwrap().wait().unwrap(), [0; 2]);
    }
    // In a recorded graph.
    let (mut none, mut y) = (some.slice(4..).unwrap(), context.allocate(3).unwrap());
    let recording = context.record();
    let recorder = recording.on(queue);
    recorder.fill(&none, 9).unwrap();
    recorder.copy(&none, &context.allocate(0).unwrap()).unwrap();
    recorder.launch(3, add_length(&none, &mut y)).unwrap();
    let x = some.slice(..1).unwrap();
    recorder.launch(0, add_length(&x, &mut none)).unwrap();
    let graph = recording.finish().unwrap();
    for _ in 0..2 {
        queue.launch_graph(&graph).unwrap();
    }
    assert_eq!(queue.read(&y).unwrap().wait().unwrap(), [2; 3]);
    assert_eq!(queue.read(&some).unwrap().wait().unwrap(), [1, 2, 3, 4]);
    assert_eq!(Pinned::<u32>::new(0).unwrap().len(), 0);
}
