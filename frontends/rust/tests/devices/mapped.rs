//! Buffers in memory of the host that devices use where it is: mapped, and managed.

use super::EachQueue;
use quipu::prelude::*;

#[kernel]
fn add(_acc: &impl Accelerator<1>, amount: u32, mut y: OwnElements<u32>) {
    for (_, y) in y.each() {
        *y += amount;
    }
}

#[kernel]
fn sums_of_three(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        *y = x[3 * i] + x[3 * i + 1] + x[3 * i + 2];
    }
}

#[kernel]
fn count_multiples(
    _acc: &impl Accelerator<1>,
    of: u32,
    mut x: OwnElements<u32>,
    counts: Atomics<u32>,
) {
    for (_, x) in x.each() {
        if *x % of == 0 {
            counts.add(1, 1);
        }
    }
}

/// The kinds of such buffers.
type Allocate = fn(&Context, usize) -> quipu::Result<Buffer<u32>>;

const KINDS: [Allocate; 2] = [
    |context, length| context.allocate_mapped(length),
    |context, length| context.allocate_managed(length),
];

/// The buffer's elements, and their place on the host.
fn lent(queue: &Queue, buffer: &Buffer<u32>) -> (Vec<u32>, usize) {
    let mapped = queue.map(buffer).unwrap().wait().unwrap();
    (mapped.to_vec(), mapped.as_ptr().addr())
}

pub(crate) fn kernels_use_memory_of_the_host(each_queue: EachQueue) {
    const LENGTH: usize = 30_000;
    each_queue(&|context, queue| {
        for allocate in KINDS {
            let mut x = allocate(context, LENGTH).unwrap();
            let (zeros, place) = lent(queue, &x);
            assert_eq!(zeros, [0; LENGTH]);
            let mut mapped = queue.map_mut(&x).unwrap().wait().unwrap();
            (0..).zip(mapped.iter_mut()).for_each(|(i, x)| *x = i);
            drop(mapped);
            for amount in 1..=10 {
                queue.launch(LENGTH, add(amount, &mut x)).unwrap();
            }
            // Another buffer of the kind, an ordinary one, a part, copies, fills and transfers.
            let mut sums = allocate(context, LENGTH / 3).unwrap();
            queue
                .launch(sums.len(), sums_of_three(&x, &mut sums))
                .unwrap();
            let (found, _) = lent(queue, &sums);
            for (i, sum) in found.iter().enumerate() {
                assert_eq!(*sum as usize, 9 * i + 3 + 3 * 55, "element {i}");
            }
            let ordinary = context.allocate::<u32>(LENGTH / 3).unwrap();
            queue.copy(&sums, &ordinary).unwrap();
            queue.fill(&x.slice(100..200).unwrap(), 7).unwrap();
            let mut part = x.slice(150..9000).unwrap();
            queue.launch(part.len(), add(1, &mut part)).unwrap();
            queue
                .copy(&ordinary, &x.slice(LENGTH - LENGTH / 3..).unwrap())
                .unwrap();
            drop(queue.write(&x.slice(..3).unwrap(), vec![1, 2, 3]).unwrap());
            let read = queue.read(&x).unwrap().wait().unwrap();
            let expected = |i: usize| match i {
                0..3 => i + 1,
                100..150 => 7,
                150..200 => 8,
                200..9000 => i + 56,
                9000..20_000 => i + 55,
                20_000.. => 9 * (i - 20_000) + 168,
                _ => i + 55,
            };
            for (i, x) in read.iter().enumerate() {
                assert_eq!(*x as usize, expected(i), "element {i}");
            }
            assert_eq!(lent(queue, &x), (read, place));
        }
    });
}

pub(crate) fn pinned_memory_becomes_a_buffer(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        for length in [1, 1000, 100_000] {
            let mut pinned = Pinned::<u32>::new(length).unwrap();
            (5..).zip(pinned.iter_mut()).for_each(|(i, x)| *x = i);
            let place = pinned.as_ptr().addr();
            let mut x = context.mapped_from(pinned).unwrap();
            queue.launch(length, add(3, &mut x)).unwrap();
            let (found, at) = lent(queue, &x);
            let expected: Vec<u32> = (8..).take(length).collect();
            assert_eq!((found, at), (expected, place));
        }
    });
}

pub(crate) fn pinned_memory_is_taken_back(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        for length in [0, 1, 1000, 100_000] {
            let mut pinned = Pinned::<u32>::new(length).unwrap();
            (5..).zip(pinned.iter_mut()).for_each(|(i, x)| *x = i);
            let place = pinned.as_ptr().addr();
            // Again and again the same memory, also while commands are held back.
            for round in 1..=3 {
                let mut x = context.mapped_from(pinned).unwrap();
                let gate = UserEvent::new();
                let held = queue.after([gate.event()]);
                held.launch(length, add(2, &mut x)).unwrap();
                queue.launch(length, add(1, &mut x)).unwrap();
                let taken = queue.take(x).unwrap();
                assert!(length == 0 || !taken.is_complete());
                gate.complete();
                pinned = taken.wait().unwrap();
                assert_eq!(pinned.as_ptr().addr(), place);
                let mut expected = (5 + 3 * round..).zip(pinned.iter());
                assert!(expected.all(|(i, x)| i == *x), "{length} in round {round}");
            }
        }
    });
}

pub(crate) fn memory_with_other_handles_is_not_taken(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let mapped = || {
            let x = context.mapped_from(Pinned::<u32>::new(100).unwrap());
            let mut x = x.unwrap();
            queue.launch(100, add(4, &mut x)).unwrap();
            x
        };
        let refused = |x: Buffer<u32>, words: &str| {
            let taken = queue.take(x).and_then(|taken| taken.wait());
            let error = taken.map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        let x = mapped();
        refused(x.slice(1..).unwrap(), "a part of a buffer");
        refused(x.clone(), "other handles");
        assert_eq!(queue.read(&x).unwrap().wait().unwrap(), [4; 100]);
        // A graph has handles, too.
        let recording = context.record();
        recording.on(queue).fill(&x, 5).unwrap();
        let graph = recording.finish().unwrap();
        refused(x, "graphs of it");
        queue.launch_graph(&graph).unwrap().wait().unwrap();
        let x = mapped();
        let lent = queue.map(&x).unwrap().wait().unwrap();
        refused(x, "mapped");
        assert_eq!(*lent, [4; 100]);
        refused(context.allocate(100).unwrap(), "`mapped_from`");
    });
}

pub(crate) fn the_host_sees_a_count_between_kernels(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        let numbers: Vec<u32> = (0..10_000).collect();
        let mut x = context.buffer(&numbers).unwrap();
        for allocate in KINDS {
            let mut counts = allocate(context, 2).unwrap();
            let mut expected = 0;
            for of in 1..30 {
                let launched = queue.launch(x.len(), count_multiples(of, &mut x, &mut counts));
                launched.unwrap();
                expected += 10_000_u32.div_ceil(of);
                assert_eq!(lent(queue, &counts).0, [0, expected]);
            }
        }
    });
}

pub(crate) fn a_graph_uses_memory_of_the_host(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        for allocate in KINDS {
            let mut x = allocate(context, 3000).unwrap();
            let other = context.allocate::<u32>(1000).unwrap();
            let recording = context.record();
            let on = recording.on(queue);
            on.launch(3000, add(1, &mut x)).unwrap();
            on.copy(&x.slice(..1000).unwrap(), &other).unwrap();
            on.fill(&x.slice(1000..2000).unwrap(), 4).unwrap();
            on.copy(&other, &x.slice(2000..).unwrap()).unwrap();
            let graph = recording.finish().unwrap();
            for round in 1..6 {
                queue.launch_graph(&graph).unwrap();
                let found = lent(queue, &x).0;
                let expected = [[round; 1000], [4; 1000], [round; 1000]].concat();
                assert_eq!(found, expected, "round {round}");
            }
        }
    });
}

pub(crate) fn such_a_buffer_may_be_empty_or_dropped_in_use(each_queue: EachQueue) {
    each_queue(&|context, queue| {
        for allocate in KINDS {
            let none = allocate(context, 0).unwrap();
            assert!(none.is_empty() && lent(queue, &none).0.is_empty());
            queue.fill(&none, 1).unwrap().wait().unwrap();
            let gate = UserEvent::new();
            let sums = context.allocate::<u32>(1000).unwrap();
            let mut y = sums.clone();
            for _ in 0..4 {
                let mut x = allocate(context, 3000).unwrap();
                let held = queue.after([gate.event()]);
                held.launch(3000, add(2, &mut x)).unwrap();
                queue.launch(1000, sums_of_three(&x, &mut y)).unwrap();
            }
            gate.complete();
            assert_eq!(queue.read(&sums).unwrap().wait().unwrap(), [6; 1000]);
        }
    });
}
