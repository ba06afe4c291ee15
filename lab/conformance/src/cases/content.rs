//! Content sizes: the bytes that migrations bring of memory of which only a part is in use.

use super::cases;
use crate::Fixture;
use crate::graph::random::Random;
use crate::support::*;
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::{AccessMode, Event, MemoryRef, Queue};

cases! {
    Anything:
        sizes_that_cannot_be_are_refused;
    SeveralDevices:
        what_is_in_use_follows_from_device_to_device,
        a_larger_size_brings_the_rest,
        a_size_that_failed_fails_who_needs_it,
        a_command_may_change_the_size_of_what_it_reads,
        random_sizes_on_random_devices;
}

const BYTES: u64 = 200;

/// Two objects, of which the second holds the first one's content size; and a
/// queue for each device.
fn stage(fixture: &dyn Fixture) -> (Stage, MemoryRef, MemoryRef, Vec<Queue>) {
    let stage = Stage::new(fixture);
    let (data, size) = (stage.memory(BYTES), stage.memory(8));
    data.set_content_size(Some(size.clone())).unwrap();
    let queues = (0..stage.devices.len())
        .map(|device| stage.queue_on(device, OUT_OF_ORDER))
        .collect();
    (stage, data, size, queues)
}

fn byte(seed: u64, index: usize) -> u8 {
    // Never zero.
    seed.wrapping_mul(31).wrapping_add(index as u64 * 7) as u8 | 1
}

/// Overwrites all bytes.
fn overwrite(queue: &Queue, data: &MemoryRef, seed: u64) -> Event {
    launch(queue, &[overwrites(data)], &[], move |a| {
        (0..a[0].length).for_each(|index| store_byte(&a[0], index, byte(seed, index)));
        Ok(())
    })
}

/// Sees all bytes as a kernel on the queue's device does.
fn see(queue: &Queue, data: &MemoryRef) -> quipu_scheduler::Result<Vec<u8>> {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let to = seen.clone();
    launch(queue, &[reads(data)], &[], move |a| {
        *to.lock().unwrap() = (0..a[0].length).map(|at| load_byte(&a[0], at)).collect();
        Ok(())
    })
    .wait()?;
    Ok(std::mem::take(&mut *seen.lock().unwrap()))
}

fn sizes_that_cannot_be_are_refused(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (data, short) = (stage.memory(100), stage.memory(7));
    let error = data.set_content_size(Some(short)).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::InvalidSize { .. }),
        "{error}"
    );
    assert!(data.set_content_size(Some(data.clone())).is_err());
}

fn what_is_in_use_follows_from_device_to_device(fixture: &dyn Fixture) {
    let (stage, data, size, queues) = stage(fixture);
    let moves = |from: usize, to: usize| stage.devices[from].space() != stage.devices[to].space();
    for from in 0..queues.len() {
        for to in 0..queues.len() {
            // More than there is counts as all.
            for used in [0, 1, 77, BYTES, u64::MAX] {
                let seed = used.wrapping_add(from as u64);
                overwrite(&queues[from], &data, seed);
                put(&queues[from], &size, used, &[]);
                let seen = see(&queues[to], &data).unwrap();
                let used = if moves(from, to) { used } else { u64::MAX };
                let expected: Vec<u8> = (0..BYTES as usize)
                    .map(|at| {
                        if (at as u64) < used {
                            byte(seed, at)
                        } else {
                            0
                        }
                    })
                    .collect();
                assert_eq!(seen, expected, "{used} bytes from device {from} to {to}");
                // Another device reads the middle only.
                let middle = read_range(&queues[to], &data, 50..100).unwrap();
                assert_eq!(middle, expected[50..100]);
            }
        }
    }
    // Without a size, all of it again.
    overwrite(&queues[0], &data, 9);
    put(&queues[0], &size, 3, &[]);
    let last = queues.len() - 1;
    see(&queues[last], &data).unwrap();
    data.set_content_size(None).unwrap();
    let all: Vec<u8> = (0..BYTES as usize).map(|at| byte(9, at)).collect();
    assert_eq!(see(&queues[last], &data).unwrap(), all);
}

fn a_larger_size_brings_the_rest(fixture: &dyn Fixture) {
    let (_stage, data, size, queues) = stage(fixture);
    let last = queues.len() - 1;
    overwrite(&queues[0], &data, 1);
    for used in [10, 150, 20, 150] {
        // By whichever device: the bytes stay where they are.
        put(&queues[used as usize % queues.len()], &size, used, &[]);
        let seen = see(&queues[last], &data).unwrap();
        for (at, seen) in seen.iter().enumerate().take(used as usize) {
            assert_eq!(*seen, byte(1, at), "byte {at} of {used}");
        }
    }
}

fn a_size_that_failed_fails_who_needs_it(fixture: &dyn Fixture) {
    let (stage, data, size, queues) = stage(fixture);
    let last = queues.len() - 1;
    overwrite(&queues[0], &data, 1);
    let failed = failing(&queues[0], &[overwrites(&size)], &[]);
    let reader = nothing(&queues[last], &[reads(&data)], &[]);
    let device = &stage.devices[last];
    let is_moved = stage.devices[0].space() != device.space();
    if !is_moved && !device.driver().moves_within_spaces() {
        reader.wait().unwrap();
        return;
    }
    assert_caused_by(&reader, &failed);
    // It is no lasting harm.
    put(&queues[0], &size, 5, &[]);
    assert_eq!(
        see(&queues[last], &data).unwrap()[..5],
        [0, 1, 2, 3, 4].map(|at| byte(1, at))
    );
}

fn a_command_may_change_the_size_of_what_it_reads(fixture: &dyn Fixture) {
    let (_stage, data, size, queues) = stage(fixture);
    let last = queues.len() - 1;
    overwrite(&queues[0], &data, 4);
    put(&queues[0], &size, 50, &[]);
    for accesses in [
        [updates(&size), reads(&data)],
        [reads(&data), updates(&size)],
    ] {
        let number = usize::from(accesses[0].mode == AccessMode::Read);
        launch(&queues[last], &accesses, &[], move |a| {
            store(&a[number], load(&a[number]) + 1);
            Ok(())
        })
        .wait()
        .unwrap();
    }
    assert_eq!(read_number(&queues[0], &size), 52);
}

fn random_sizes_on_random_devices(fixture: &dyn Fixture) {
    let (_stage, data, size, queues) = stage(fixture);
    let mut random = Random::new(11);
    // What the bytes should be, how many are in use, and from which on a device
    // that changed some may have lost them.
    let mut expected = vec![0; BYTES as usize];
    let (mut used, mut kept) = (0, BYTES as usize);
    for step in 0..600 {
        let queue = &queues[random.index(queues.len())];
        match random.index(5) {
            0 => {
                overwrite(queue, &data, step);
                kept = BYTES as usize;
                for (at, expected) in expected.iter_mut().enumerate() {
                    *expected = byte(step, at);
                }
            }
            1 => {
                used = random.index(BYTES as usize + 20);
                put(queue, &size, used as u64, &[]);
            }
            2 => {
                kept = kept.min(used);
                let kept = kept;
                launch(queue, &[updates(&data)], &[], move |a| {
                    for at in 0..kept {
                        store_byte(&a[0], at, load_byte(&a[0], at).wrapping_add(1));
                    }
                    Ok(())
                });
                for expected in &mut expected[..kept] {
                    *expected = expected.wrapping_add(1);
                }
            }
            _ => {
                let seen = see(queue, &data).unwrap();
                let exact = used.min(kept);
                assert_eq!(seen[..exact], expected[..exact], "step {step}, {used} used");
                let rest = seen[exact..].iter().zip(&expected[exact..]);
                for (seen, expected) in rest {
                    assert!(*seen == 0 || seen == expected, "step {step}, {used} used");
                }
            }
        }
    }
}
