//! Kernels whose blocks wait for each other.

use super::EachQueue;
use quipu::prelude::*;

/// The sums of the elements up to each one, in place. Each step goes from one array to the other.
#[kernel]
async fn prefix_sums(acc: &impl GridAccelerator<1>, x: RawMut<u32>, other: RawMut<u32>) {
    let (mut distance, mut in_x) = (1, true);
    while distance < x.len() || !in_x {
        for i in acc.elements(x.len()) {
            // SAFETY: a step reads one array, and each thread writes its own elements of the other.
            unsafe {
                let (from, to) = if in_x { (x, other) } else { (other, x) };
                let before = if i < distance {
                    0
                } else {
                    from.read(i - distance)
                };
                to.write(i, from.read(i) + before);
            }
        }
        acc.sync_grid_threads().await;
        in_x = !in_x;
        distance *= 2;
    }
}

fn sums(x: &[u32]) -> Vec<u32> {
    let mut sum = 0;
    let next = x.iter().map(|x| {
        sum += x;
        sum
    });
    next.collect()
}

pub(crate) fn blocks_wait_for_each_other(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let x: Vec<u32> = (0..5000).map(|i| i * 7 % 13).collect();
        let mut buffer = context.buffer(&x).unwrap();
        let mut other = context.allocate(x.len()).unwrap();
        let division = WorkDivision::new(6, 64, 1);
        let launched = queue.launch(division, prefix_sums(&mut buffer, &mut other));
        let launched = launched.and_then(|event| event.wait());
        if !queue.device().has_grid_barrier() {
            let error = launched.unwrap_err().to_string();
            assert!(error.contains("launch a kernel for each step"), "{error}");
            return;
        }
        launched.unwrap();
        assert_eq!(queue.read(&buffer).unwrap().wait().unwrap(), sums(&x));

        // Several at a time, in streams of their own, each over as many elements as it has, in
        // blocks of any number.
        let mut all: Vec<_> = (0..12)
            .map(|_| {
                (
                    context.buffer(&x).unwrap(),
                    context.allocate(x.len()).unwrap(),
                )
            })
            .collect();
        for (x, other) in &mut all {
            queue.launch(x.len(), prefix_sums(x, other)).unwrap();
        }
        for (buffer, _) in &all {
            assert_eq!(queue.read(buffer).unwrap().wait().unwrap(), sums(&x));
        }
    });
}

pub(crate) fn blocks_of_a_graph_wait_for_each_other(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        if !queue.device().has_grid_barrier() {
            return;
        }
        let ones = vec![1; 777];
        let pairs = [(); 3].map(|()| {
            (
                context.buffer(&ones).unwrap(),
                context.allocate(ones.len()).unwrap(),
            )
        });
        let recording = context.record();
        let recorder = recording.on(queue);
        let mut pairs = pairs;
        for (x, other) in &mut pairs {
            let division = WorkDivision::new(3, 32, 2);
            recorder.launch(division, prefix_sums(x, other)).unwrap();
        }
        let graph = recording.finish().unwrap();
        for _ in 0..2 {
            queue.launch_graph(&graph).unwrap().wait().unwrap();
        }
        for (x, _) in &pairs {
            let expected = sums(&sums(&ones));
            assert_eq!(queue.read(x).unwrap().wait().unwrap(), expected);
        }
    });
}

/// A GPU has room for so many blocks at once; processors run them in turn.
pub(crate) fn too_many_blocks_that_wait_are_refused(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let device = queue.device();
        if device.driver_name() != "cuda" || !device.has_grid_barrier() {
            return;
        }
        let mut x = context.buffer(&vec![1; 100_000]).unwrap();
        let mut other = context.allocate(100_000).unwrap();
        let division = WorkDivision::new(100_000, 32, 1);
        let launched = queue.launch(division, prefix_sums(&mut x, &mut other));
        let error = launched.and_then(|event| event.wait()).unwrap_err();
        let error = error.to_string();
        for words in [
            "100000 blocks of 'prefix_sums'",
            "at most",
            "launch fewer blocks",
        ] {
            assert!(error.contains(words), "{words}: {error}");
        }
        println!("{error}");
    });
}
