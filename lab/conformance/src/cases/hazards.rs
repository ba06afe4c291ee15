//! Hazards by byte range: read after write, write after read, write after write
//! are waits; nothing else is.

use super::cases;
use crate::Fixture;
use crate::support::*;
use quipu_scheduler::{AccessMode, Event, MemoryRef, Queue, QueueOptions, UserEvent};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

cases! {
    Anything:
        overlapping_accesses_wait_and_disjoint_ones_do_not,
        a_command_may_access_a_range_twice,
        ranges_split_and_merge,
        many_readers_then_a_writer,
        readers_of_many_ranges_then_a_writer;
    Concurrency:
        disjoint_halves_are_written_at_once;
}

const MODES: [AccessMode; 3] = [
    AccessMode::Read,
    AccessMode::ReadWrite,
    AccessMode::Overwrite,
];

fn overlapping_accesses_wait_and_disjoint_ones_do_not(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let pairs: [(Range<u64>, Range<u64>); 7] = [
        (0..64, 0..64),
        (0..32, 32..64),
        (0..33, 32..64),
        (31..33, 0..32),
        (32..33, 0..32),
        (10..20, 14..15),
        (63..64, 0..63),
    ];
    for (first, second) in pairs {
        for before in MODES {
            for after in MODES {
                let overlap = first.start < second.end && second.start < first.end;
                let waits = overlap && (before.writes() || after.writes());
                // Of queues of either kind, and of one or of two.
                let queues = [stage.out_of_order(), stage.queue(QueueOptions::default())];
                for (one, two) in [(0, 0), (0, 1), (1, 0)] {
                    let memory = stage.memory(64);
                    let gate = UserEvent::new();
                    let held = nothing(
                        &queues[one],
                        &[part(&memory, first.clone(), before)],
                        &[gate.event()],
                    );
                    let event = nothing(&queues[two], &[part(&memory, second.clone(), after)], &[]);
                    let what = format!("{before:?} {first:?}, {after:?} {second:?}");
                    if waits {
                        queues[two].flush();
                        nothing(&queues[0], &[], &[]).wait().unwrap();
                        assert!(!event.is_complete(), "{what}: must wait");
                    } else {
                        event.wait().unwrap();
                        assert!(!held.is_complete());
                    }
                    gate.complete();
                    held.wait().unwrap();
                    event.wait().unwrap();
                }
            }
        }
    }
}

fn a_command_may_access_a_range_twice(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let memory = stage.memory(24);
    for round in 0..100_u64 {
        let accesses = [
            part(&memory, 0..16, AccessMode::Read),
            part(&memory, 8..24, AccessMode::ReadWrite),
            part(&memory, 8..16, AccessMode::Read),
            part(&memory, 0..8, AccessMode::Overwrite),
        ];
        launch(&queue, &accesses, &[], move |a| {
            let sum = load(&a[0]).wrapping_mul(31).wrapping_add(load(&a[2]));
            store(&a[3], sum.wrapping_add(round));
            store(&a[1], load(&a[1]).wrapping_add(1));
            Ok(())
        });
    }
    let mut expected = [0_u64; 2];
    for round in 0..100 {
        expected[0] = expected[0]
            .wrapping_mul(31)
            .wrapping_add(expected[1])
            .wrapping_add(round);
        expected[1] += 1;
    }
    let bytes = read_all(&queue, &memory);
    assert_eq!(bytes[..8], expected[0].to_le_bytes());
    assert_eq!(bytes[8..16], expected[1].to_le_bytes());
    assert_eq!(bytes[16..], [0; 8]);
}

fn set(queue: &Queue, memory: &MemoryRef, range: Range<u64>, value: u8) {
    launch(
        queue,
        &[part(memory, range, AccessMode::Overwrite)],
        &[],
        move |a| {
            (0..a[0].length).for_each(|index| store_byte(&a[0], index, value));
            Ok(())
        },
    );
}

fn ranges_split_and_merge(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let size = 512_u64;
    let memory = stage.memory(size);
    let mut expected = vec![0_u8; size as usize];
    let mut write = |range: Range<u64>, value: u8| {
        set(&queue, &memory, range.clone(), value);
        expected[range.start as usize..range.end as usize].fill(value);
    };
    for round in 0..4_u8 {
        // Every byte alone, forwards and in a scattered order; then ever larger
        // pieces; then ever smaller ones inside of each other.
        for at in 0..size {
            write(at..at + 1, at as u8 ^ round);
        }
        for at in 0..size {
            let at = at * 5 % size;
            write(at..at + 1, (at as u8).wrapping_mul(3) ^ round);
        }
        for length in [2, 8, 64, 100, 500] {
            let start = u64::from(round) * 3;
            write(start..start + length, length as u8);
        }
        for inset in 0..200 {
            write(inset..size - inset, inset as u8);
        }
    }
    assert_eq!(read_all(&queue, &memory), expected);
}

fn many_readers_then_a_writer(fixture: &dyn Fixture) {
    const READERS: u64 = 10_000;
    let stage = Stage::new(fixture);
    // Once held until all are enqueued, once while they run.
    for held in [true, false] {
        let queues = [stage.in_order(), stage.out_of_order(), stage.in_order()];
        let memory = stage.memory(8);
        let gate = UserEvent::new();
        let waits = [gate.event()];
        put(&queues[0], &memory, 77, if held { &waits } else { &[] });
        let ran = Arc::new(AtomicU64::new(0));
        let readers: Vec<Event> = (0..READERS)
            .map(|n| {
                let ran = ran.clone();
                launch(&queues[n as usize % 3], &[reads(&memory)], &[], move |a| {
                    ran.fetch_add(1, Ordering::SeqCst);
                    match load(&a[0]) {
                        77 => Ok(()),
                        seen => Err(boom(&format!("reader {n} saw {seen}"))),
                    }
                })
            })
            .collect();
        let before = ran.clone();
        let writer = launch(&queues[1], &[overwrites(&memory)], &[], move |a| {
            store(&a[0], before.load(Ordering::SeqCst));
            Ok(())
        });
        queues.iter().for_each(Queue::flush);
        if held {
            nothing(&queues[1], &[], &[]).wait().unwrap();
            assert_eq!(ran.load(Ordering::SeqCst), 0);
            assert!(!writer.is_complete());
        }
        gate.complete();
        writer.wait().unwrap();
        for reader in readers {
            reader.wait().unwrap();
        }
        assert_eq!(read_number(&queues[0], &memory), READERS);
    }
}

fn readers_of_many_ranges_then_a_writer(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let memory = stage.memory(256);
    let gate = UserEvent::new();
    let ran = Arc::new(AtomicU64::new(0));
    let mut count = 0;
    for round in 0..20_u64 {
        for at in 0..100 {
            let ran = ran.clone();
            let start = (at * 7 + round) % 200;
            let waits = [gate.event()];
            launch(
                &queue,
                &[part(&memory, start..start + 1 + at % 50, AccessMode::Read)],
                if at % 10 == 0 { &waits } else { &[] },
                move |_| {
                    ran.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                },
            );
            count += 1;
        }
    }
    let before = ran.clone();
    launch(&queue, &[overwrites(&memory)], &[], move |a| {
        store(&a[0], before.load(Ordering::SeqCst));
        Ok(())
    });
    gate.complete();
    assert_eq!(read_number(&queue, &memory), count);
}

fn disjoint_halves_are_written_at_once(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for options in [QueueOptions::default(), OUT_OF_ORDER] {
        let queue = stage.queue(options);
        let memory = stage.memory(16);
        for mode in [AccessMode::ReadWrite, AccessMode::Overwrite] {
            let flags = [Flag::new(), Flag::new()];
            let events = [0_usize, 1].map(|me| {
                let (mine, other) = (flags[me].clone(), flags[1 - me].clone());
                let range = me as u64 * 8..me as u64 * 8 + 8;
                launch(&queue, &[part(&memory, range, mode)], &[], move |a| {
                    mine.set();
                    other.wait();
                    store(&a[0], me as u64 + 5);
                    Ok(())
                })
            });
            for event in events {
                event.wait().unwrap();
            }
            let bytes = read_all(&queue, &memory);
            assert_eq!(bytes[..8], 5_u64.to_le_bytes());
            assert_eq!(bytes[8..], 6_u64.to_le_bytes());
        }
    }
}
