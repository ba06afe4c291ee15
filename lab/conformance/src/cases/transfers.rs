//! Writes, reads, copies and fills: linear, strided in several dimensions,
//! between devices.

use super::cases;
use crate::Fixture;
use crate::support::*;
use quipu_scheduler::operation::Step;
use quipu_scheduler::{AccessMode, MemoryRef, Queue, QueueOptions, Request};
use std::ptr::NonNull;

cases! {
    Anything:
        linear_writes_and_reads,
        strided_writes_keep_what_lies_between,
        strided_reads,
        copies_within_and_between_buffers,
        strided_copies_in_three_dimensions,
        rows_are_copied_between_rows_of_the_same_buffer,
        fills_of_every_pattern,
        fills_of_rows_keep_what_lies_between,
        long_ones_are_whole,
        host_tasks_see_what_they_declare,
        memory_the_caller_brings_is_valid_from_the_start;
    SeveralDevices:
        bytes_follow_from_device_to_device,
        devices_write_halves_of_a_buffer;
}

fn pattern(count: usize, seed: u8) -> Vec<u8> {
    (0..count)
        .map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed))
        .collect()
}

fn linear_writes_and_reads(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for options in [QueueOptions::default(), OUT_OF_ORDER] {
        let queue = stage.queue(options);
        let memory = stage.memory(300);
        let all = pattern(300, 1);
        write_all(&queue, &memory, &all);
        assert_eq!(read_all(&queue, &memory), all);
        // A part, over it.
        let some = pattern(100, 77);
        let host = HostBytes::new(&some);
        queue
            .write(
                host.memory(),
                part(&memory, 33..133, AccessMode::Overwrite),
                100,
                &[],
                &[],
            )
            .unwrap();
        let mut expected = all;
        expected[33..133].copy_from_slice(&some);
        assert_eq!(read_all(&queue, &memory), expected);
        assert_eq!(
            read_range(&queue, &memory, 100..200).unwrap(),
            expected[100..200]
        );
    }
}

/// A region of rows in both sides, and its copy by hand.
fn copy_by_hand(from: &[u8], to: &mut [u8], row: u64, steps: &[Step]) {
    match steps {
        [] => to[..row as usize].copy_from_slice(&from[..row as usize]),
        [step, inner @ ..] => {
            for index in 0..step.count {
                copy_by_hand(
                    &from[(index * step.source_stride) as usize..],
                    &mut to[(index * step.destination_stride) as usize..],
                    row,
                    inner,
                );
            }
        }
    }
}

const PLANES: [Step; 2] = [
    Step {
        count: 3,
        source_stride: 100,
        destination_stride: 64,
    },
    Step {
        count: 4,
        source_stride: 20,
        destination_stride: 16,
    },
];
const ROW: u64 = 11;

fn strided_writes_keep_what_lies_between(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let memory = stage.memory(256);
    let mut expected = pattern(256, 3);
    write_all(&queue, &memory, &expected);
    let from = pattern(300, 99);
    let host = HostBytes::new(&from);
    let access = part(&memory, 8..256, AccessMode::ReadWrite);
    queue
        .write(host.memory(), access, ROW, &PLANES, &[])
        .unwrap();
    copy_by_hand(&from, &mut expected[8..], ROW, &PLANES);
    assert_eq!(read_all(&queue, &memory), expected);
}

fn strided_reads(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let memory = stage.memory(300);
    let from = pattern(300, 3);
    write_all(&queue, &memory, &from);
    let mut expected = pattern(256, 50);
    let host = HostBytes::new(&expected);
    let event = queue
        .read(reads(&memory), host.memory(), ROW, &PLANES, &[])
        .unwrap();
    event.wait().unwrap();
    copy_by_hand(&from, &mut expected, ROW, &PLANES);
    assert_eq!(host.bytes(), expected);
}

fn copy(queue: &Queue, from: (&MemoryRef, u64), to: (&MemoryRef, u64), length: u64) {
    queue
        .copy(
            part(from.0, from.1..from.1 + length, AccessMode::Read),
            part(to.0, to.1..to.1 + length, AccessMode::Overwrite),
            length,
            &[],
            &[],
        )
        .unwrap();
}

fn copies_within_and_between_buffers(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let (a, b) = (stage.memory(128), stage.memory(128));
    let mut first = pattern(128, 5);
    let mut second = vec![0; 128];
    write_all(&queue, &a, &first);
    copy(&queue, (&a, 10), (&b, 50), 60);
    second[50..110].copy_from_slice(&first[10..70]);
    copy(&queue, (&b, 50), (&a, 0), 30);
    first[..30].copy_from_slice(&second[50..80]);
    copy(&queue, (&a, 0), (&a, 64), 64);
    first.copy_within(0..64, 64);
    assert_eq!(read_all(&queue, &a), first);
    assert_eq!(read_all(&queue, &b), second);
}

fn strided_copies_in_three_dimensions(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let (a, b) = (stage.memory(300), stage.memory(256));
    let from = pattern(300, 5);
    let mut expected = pattern(256, 200);
    write_all(&queue, &a, &from);
    write_all(&queue, &b, &expected);
    queue
        .copy(
            reads(&a),
            part(&b, 3..256, AccessMode::ReadWrite),
            ROW,
            &PLANES,
            &[],
        )
        .unwrap();
    copy_by_hand(&from, &mut expected[3..], ROW, &PLANES);
    // Strides of zero in the source repeat a row.
    let repeat = [Step {
        count: 5,
        source_stride: 0,
        destination_stride: 8,
    }];
    queue
        .copy(
            part(&a, 100..108, AccessMode::Read),
            part(&b, 200..240, AccessMode::Overwrite),
            8,
            &repeat,
            &[],
        )
        .unwrap();
    copy_by_hand(&from[100..], &mut expected[200..], 8, &repeat);
    assert_eq!(read_all(&queue, &b), expected);
}

fn rows_are_copied_between_rows_of_the_same_buffer(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let step = |count, source_stride, destination_stride| Step {
        count,
        source_stride,
        destination_stride,
    };
    let image = [step(5, 40, 40)];
    let planes = [step(2, 100, 100), step(3, 20, 20)];
    // A row, steps, where it starts in the source and in the destination.
    let apart: [(u64, &[Step], u64, u64); 6] = [
        // An image's left half onto its right, and back; rows onto those below and beside.
        (20, &image, 0, 20),
        (20, &image, 20, 0),
        (11, &image, 2, 55),
        // Within planes; between rows of the plane below, to the left.
        (9, &planes, 3, 12),
        (9, &planes, 12, 103),
        // Steps of one row are none.
        (8, &[step(1, 0, 7), step(4, 16, 16)], 8, 16 * 3),
    ];
    for options in [QueueOptions::default(), OUT_OF_ORDER] {
        let queue = stage.queue(options);
        let memory = stage.memory(320);
        for (row, steps, from, to) in apart {
            let mut expected = pattern(320, row as u8);
            write_all(&queue, &memory, &expected);
            // The commands that the copy waits for, and those that wait for it.
            let early = part(&memory, 20..40, AccessMode::Overwrite);
            queue.fill(early, &[5], &[]).unwrap();
            expected[20..40].fill(5);
            let (source, target) = (
                part(&memory, from..200 + from, AccessMode::Read),
                part(&memory, to..200 + to, AccessMode::Overwrite),
            );
            queue.copy(source, target, row, steps, &[]).unwrap();
            let late = part(&memory, 60..62, AccessMode::Overwrite);
            queue.fill(late, &[99], &[]).unwrap();
            let before = expected.clone();
            copy_by_hand(
                &before[from as usize..],
                &mut expected[to as usize..],
                row,
                steps,
            );
            expected[60..62].fill(99);
            assert_eq!(read_all(&queue, &memory), expected, "{row} in {steps:?}");
        }
        let overlapping: [(u64, &[Step], u64, u64); 6] = [
            (21, &image, 0, 20),
            (20, &image, 0, 0),
            (20, &image, 0, 160),
            (9, &planes, 3, 110),
            // Rows of which it would have to be looked at each: as far apart as in the other, or
            // not.
            (2, &[step(4, 10, 20)], 0, 2),
            (4, &[step(4, 2, 2)], 0, 9),
        ];
        for (row, steps, from, to) in overlapping {
            let (source, target) = (
                part(&memory, from..200 + from, AccessMode::Read),
                part(&memory, to..200 + to, AccessMode::Overwrite),
            );
            let refused = queue.copy(source, target, row, steps, &[]).map(drop);
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("overlap"), "{error}");
        }
    }
}

fn fills_of_every_pattern(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let memory = stage.memory(32_768);
    let mut expected = pattern(32_768, 9);
    write_all(&queue, &memory, &expected);
    let mut at = 0;
    // Few of each pattern, and as many as are written in several steps; of different bytes, and of
    // equal ones.
    let cases = (1..=16_usize).flat_map(|size| {
        let equal = vec![size as u8; size];
        let different = pattern(size, size as u8);
        [(different.clone(), 2), (equal, 2), (different, 129)]
    });
    for (bytes, count) in cases {
        let size = bytes.len();
        let length = size * count;
        let access = part(
            &memory,
            at as u64..(at + length) as u64,
            AccessMode::Overwrite,
        );
        queue.fill(access, &bytes, &[]).unwrap();
        for (index, byte) in expected[at..at + length].iter_mut().enumerate() {
            *byte = bytes[index % size];
        }
        at += length + 1;
    }
    assert_eq!(read_all(&queue, &memory), expected);
}

fn fills_of_rows_keep_what_lies_between(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let step = |count, destination_stride| Step {
        count,
        source_stride: 0,
        destination_stride,
    };
    let shapes: [(u64, Vec<Step>); 6] = [
        (12, vec![step(5, 20)]),
        (12, vec![step(3, 100), step(4, 17)]),
        (4, vec![step(2, 150), step(3, 40), step(2, 20)]),
        // Rows that adjoin; one row; all.
        (4, vec![step(3, 50), step(4, 4)]),
        (8, vec![step(1, 7)]),
        (75, vec![step(4, 75)]),
    ];
    for options in [QueueOptions::default(), OUT_OF_ORDER] {
        let queue = stage.queue(options);
        let memory = stage.memory(310);
        for (n, (row, steps)) in shapes.iter().enumerate() {
            for value in [&[n as u8][..], &[1, 2], &[5, 6, 7, 8]] {
                if !row.is_multiple_of(value.len() as u64) {
                    continue;
                }
                let mut expected = pattern(310, n as u8);
                write_all(&queue, &memory, &expected);
                let access = part(&memory, 10..310, AccessMode::Overwrite);
                queue.fill_rows(access, value, *row, steps, &[]).unwrap();
                let from: Vec<u8> = value.iter().copied().cycle().take(*row as usize).collect();
                copy_by_hand(&from, &mut expected[10..], *row, steps);
                // Bytes that are written again are read as written last.
                let late = part(&memory, 10..12, AccessMode::Overwrite);
                queue.fill(late, &[99], &[]).unwrap();
                expected[10..12].fill(99);
                assert_eq!(read_all(&queue, &memory), expected, "{row} in {steps:?}");
            }
        }
        // Bytes that cannot be written cannot be kept either.
        let from = failing(&queue, &[overwrites(&memory)], &[]);
        let access = part(&memory, 0..300, AccessMode::Overwrite);
        let filled = queue
            .fill_rows(access, &[1], 1, &[step(2, 2)], &[])
            .unwrap();
        assert_caused_by(&filled, &from);
        let all = part(&memory, 0..310, AccessMode::Overwrite);
        let whole = queue
            .fill_rows(all, &[1], 31, &[step(10, 31)], &[])
            .unwrap();
        whole.wait().unwrap();
        assert_eq!(read_all(&queue, &memory), [1; 310]);
    }
}

/// Long enough that a driver may have several threads carry them out.
fn long_ones_are_whole(fixture: &dyn Fixture) {
    const LENGTH: usize = 3_000_001;
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let (a, b) = (stage.memory(LENGTH as u64), stage.memory(LENGTH as u64));
    for size in [1, 3, 4] {
        let bytes = pattern(size, 40);
        let filled = LENGTH / size * size;
        let access = part(&a, 0..filled as u64, AccessMode::Overwrite);
        queue.fill(access, &bytes, &[]).unwrap();
        let all = read_all(&queue, &a);
        assert!((0..filled).all(|at| all[at] == bytes[at % size]));
    }
    // In rows, of which several threads have some each.
    let step = Step {
        count: 3,
        source_stride: 0,
        destination_stride: 1_000_000,
    };
    write_all(&queue, &a, &vec![3; LENGTH]);
    queue
        .fill_rows(overwrites(&a), &[4, 5], 999_998, &[step], &[])
        .unwrap();
    let all = read_all(&queue, &a);
    assert!((0..LENGTH).all(|at| match at % 1_000_000 {
        999_998.. => all[at] == 3,
        _ if at == LENGTH - 1 => all[at] == 3,
        inside => all[at] == [4, 5][inside % 2],
    }));
    let from = pattern(LENGTH, 60);
    write_all(&queue, &a, &from);
    queue.fill(overwrites(&b), &[7], &[]).unwrap();
    copy(&queue, (&a, 1), (&b, 4), LENGTH as u64 - 5);
    let copied = read_all(&queue, &b);
    assert!(copied[..4] == [7; 4] && copied[LENGTH - 1] == 7);
    assert!(copied[4..LENGTH - 1] == from[1..LENGTH - 4]);
}

fn host_tasks_see_what_they_declare(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let (a, b) = (stage.memory(8), stage.memory(8));
    put(&queue, &a, 42, &[]);
    let accesses = [reads(&a), overwrites(&b)];
    let request = Request {
        accesses: &accesses,
        ..Request::default()
    };
    let task = queue.host_task(
        |arguments| {
            store(&arguments[1], load(&arguments[0]) + 1);
            Ok(())
        },
        &request,
    );
    drop(task.unwrap());
    assert_eq!(read_number(&queue, &b), 43);
}

fn memory_the_caller_brings_is_valid_from_the_start(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let mut bytes = Box::new([0_u8; 64]);
    bytes.copy_from_slice(&pattern(64, 6));
    let pointer = NonNull::new(Box::into_raw(bytes).cast::<u8>()).unwrap();
    struct Owner(NonNull<u8>);
    // SAFETY: it only frees the bytes.
    unsafe impl Send for Owner {}
    // SAFETY: as above.
    unsafe impl Sync for Owner {}
    impl Drop for Owner {
        fn drop(&mut self) {
            // SAFETY: from a box of 64 bytes, freed once.
            drop(unsafe { Box::from_raw(self.0.as_ptr().cast::<[u8; 64]>()) });
        }
    }
    // SAFETY: the owner keeps the bytes, and nobody else touches them.
    let memory = unsafe {
        stage
            .context
            .memory_over(pointer, 64, Box::new(Owner(pointer)))
    };
    let memory = memory.unwrap();
    let queue = stage.in_order();
    assert_eq!(read_all(&queue, &memory), pattern(64, 6));
    let event = fold(&queue, &memory, 1, &[]);
    event.wait().unwrap();
    let expected = u64::from_le_bytes(pattern(8, 6).try_into().unwrap());
    assert_eq!(
        read_number(&queue, &memory),
        expected.wrapping_mul(31).wrapping_add(1)
    );
}

fn bytes_follow_from_device_to_device(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let count = stage.devices.len();
    let queues: Vec<_> = (0..count)
        .map(|device| stage.queue_on(device, QueueOptions::default()))
        .collect();
    let memory = stage.memory(64);
    let mut numbers = Vec::new();
    for round in 0..200_usize {
        // A walk that visits every pair of devices.
        let device = (round * round + round / count) % count;
        fold(&queues[device], &memory, round as u64, &[]);
        numbers.push(round as u64);
    }
    for queue in &queues {
        assert_eq!(read_number(queue, &memory), folded(numbers.iter().copied()));
    }
}

fn devices_write_halves_of_a_buffer(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queues: Vec<_> = (0..stage.devices.len())
        .map(|device| stage.queue_on(device, OUT_OF_ORDER))
        .collect();
    let memory = stage.memory(16);
    for round in 0..20_u64 {
        for half in 0..2_u64 {
            let queue = &queues[(round + half) as usize % queues.len()];
            let access = part(&memory, half * 8..half * 8 + 8, AccessMode::ReadWrite);
            launch(queue, &[access], &[], move |a| {
                store(
                    &a[0],
                    load(&a[0]).wrapping_mul(31).wrapping_add(round + half),
                );
                Ok(())
            });
        }
    }
    for queue in &queues {
        let bytes = read_all(queue, &memory);
        assert_eq!(bytes[..8], folded(0..20).to_le_bytes());
        assert_eq!(bytes[8..], folded(1..21).to_le_bytes());
    }
}
