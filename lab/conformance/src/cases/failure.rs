//! Failure: explicit waits and read-after-write pass it on with the first
//! cause; pure ordering does not; a failed writer poisons its range until
//! something overwrites it.

use super::cases;
use crate::Fixture;
use crate::support::*;
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::operation::Step;
use quipu_scheduler::{AccessMode, Event, QueueOptions, UserEvent};

cases! {
    Anything:
        explicit_waits_pass_it_on,
        user_events_fail_what_waits,
        reading_what_a_failed_command_should_have_written,
        updating_what_a_failed_command_should_have_written,
        pure_ordering_does_not_pass_it_on,
        waits_that_are_orders_alone_do_not_pass_it_on,
        markers_and_barriers,
        poison_is_by_range_until_overwritten,
        partial_writes_do_not_heal,
        rows_on_top_of_each_other_do_not_heal,
        transfers_pass_it_on,
        the_first_of_a_long_way,
        long_wait_lists_pass_it_on,
        the_queue_goes_on;
    SeveralDevices:
        poison_follows_the_bytes;
}

fn explicit_waits_pass_it_on(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for queue in [stage.in_order(), stage.out_of_order()] {
        // Once enqueued before the failure, once after.
        for early in [true, false] {
            let gate = UserEvent::new();
            let failed = failing(&queue, &[], &[gate.event()]);
            let mut gate = Some(gate);
            if !early {
                gate.take().unwrap().complete();
                failed.wait_over().unwrap();
            }
            let ran = Flag::new();
            let inside = ran.clone();
            let second = launch(&queue, &[], from_ref(&failed), move |_| {
                inside.set();
                Ok(())
            });
            let third = nothing(&queue, &[], from_ref(&second));
            let fine = nothing(&queue, &[], &[]);
            let both = nothing(&queue, &[], &[fine.clone(), third.clone()]);
            if let Some(gate) = gate {
                gate.complete();
            }
            for event in [&second, &third, &both] {
                assert_caused_by(event, &failed);
            }
            fine.wait().unwrap();
            assert!(!ran.is_set());
            let error = error_of(&third).to_string();
            assert!(error.contains("boom"), "'{error}' does not name the cause");
        }
    }
}

fn waits_that_are_orders_alone_do_not_pass_it_on(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    // Also lists that are long enough to be joined, and longer than what devices wait for by
    // themselves.
    for others in [0, 10, 70] {
        // Once enqueued before the failure, once after.
        for early in [true, false] {
            let gate = UserEvent::new();
            let failing = failing(&queue, &[], &[gate.event()]);
            let fine = (0..others).map(|_| nothing(&queue, &[], &[gate.event()]));
            let mut waits: Vec<Event> = fine.collect();
            waits.push(failing.as_order());
            let gate = if early {
                Some(gate)
            } else {
                gate.complete();
                error_of(&failing);
                None
            };
            let after = nothing(&queue, &[], &waits);
            // A clone is the same, and others of the event are not.
            let again = nothing(&queue, &[], &[waits[others].clone()]);
            let needing = nothing(&queue, &[], std::slice::from_ref(&failing));
            if let Some(gate) = gate {
                assert!(!after.is_complete(), "it comes after what it waits for");
                gate.complete();
            }
            after.wait().unwrap();
            again.wait().unwrap();
            assert_caused_by(&needing, &failing);
        }
    }
}

fn user_events_fail_what_waits(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    for abandon in [false, true] {
        let user = UserEvent::new();
        let event = user.event();
        let waits = nothing(&queue, &[], from_ref(&event));
        if abandon {
            drop(user);
            let error = error_of(&event);
            assert!(matches!(error.kind(), ErrorKind::Abandoned { .. }));
            let said = error.to_string();
            assert!(said.contains("failure.rs:"), "'{said}' says not which");
        } else {
            user.fail("the dog ate it");
            assert!(error_of(&event).to_string().contains("the dog ate it"));
        }
        assert_caused_by(&waits, &event);
        assert_caused_by(&nothing(&queue, &[], from_ref(&event)), &event);
    }
}

fn reading_what_a_failed_command_should_have_written(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for queue in [stage.in_order(), stage.out_of_order()] {
        for mode in [AccessMode::ReadWrite, AccessMode::Overwrite] {
            let (a, b) = (stage.memory(8), stage.memory(8));
            let gate = UserEvent::new();
            let access = part(&a, 0..8, mode);
            let failed = failing(&queue, &[access], &[gate.event()]);
            // Enqueued before, by a kernel that also writes.
            let accesses = [reads(&a), overwrites(&b)];
            let early = nothing(&queue, &accesses, &[]);
            let next = nothing(&queue, &[reads(&b)], &[]);
            gate.complete();
            assert_caused_by(&early, &failed);
            assert_caused_by(&next, &failed);
            // Enqueued after, on this queue and another.
            assert_caused_by(&nothing(&queue, &[reads(&a)], &[]), &failed);
            assert_caused_by(&nothing(&stage.in_order(), &[reads(&b)], &[]), &failed);
            // A range that it shares nothing with is fine.
            nothing(&queue, &[reads(&stage.memory(8))], &[])
                .wait()
                .unwrap();
        }
    }
}

fn updating_what_a_failed_command_should_have_written(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let memory = stage.memory(8);
    let gate = UserEvent::new();
    let failed = failing(&queue, &[updates(&memory)], &[gate.event()]);
    let updates_it: Vec<Event> = (0..20).map(|n| fold(&queue, &memory, n, &[])).collect();
    gate.complete();
    for event in &updates_it {
        assert_caused_by(event, &failed);
    }
    // It stays so, until it is overwritten.
    assert_caused_by(&fold(&queue, &memory, 1, &[]), &failed);
    put(&queue, &memory, 0, &[]);
    fold(&queue, &memory, 3, &[]).wait().unwrap();
    assert_eq!(read_number(&queue, &memory), 3);
}

fn pure_ordering_does_not_pass_it_on(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for options in [QueueOptions::default(), OUT_OF_ORDER] {
        let queue = stage.queue(options);
        for early in [true, false] {
            let memory = stage.memory(8);
            put(&queue, &memory, 1, &[]);
            let gate = UserEvent::new();
            let waits = [gate.event()];
            // Write after read.
            let reader = failing(&queue, &[reads(&memory)], &waits);
            // Write after write.
            let writer = failing(&queue, &[overwrites(&memory)], &[]);
            let mut gate = Some(gate);
            if !early {
                gate.take().unwrap().complete();
                writer.wait_over().unwrap();
            }
            let over = put(&queue, &memory, 2, &[]);
            // Queue order.
            let after = nothing(&queue, &[], &[]);
            if let Some(gate) = gate {
                gate.complete();
            }
            over.wait().unwrap();
            after.wait().unwrap();
            error_of(&reader);
            error_of(&writer);
            assert_eq!(read_number(&queue, &memory), 2);
        }
    }
}

fn markers_and_barriers(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for options in [QueueOptions::default(), OUT_OF_ORDER] {
        for early in [true, false] {
            let queue = stage.queue(options);
            let gate = UserEvent::new();
            let failed = failing(&queue, &[], &[gate.event()]);
            let mut gate = Some(gate);
            if !early {
                gate.take().unwrap().complete();
                failed.wait_over().unwrap();
            }
            let marker = queue.marker(&[]).unwrap();
            let listed = queue.marker(from_ref(&failed)).unwrap();
            let barrier = queue.barrier(&[]).unwrap();
            let after = nothing(&queue, &[], &[]);
            let listed_barrier = queue.barrier(from_ref(&failed)).unwrap();
            let at_last = nothing(&queue, &[], &[]);
            if let Some(gate) = gate {
                gate.complete();
            }
            marker.wait().unwrap();
            barrier.wait().unwrap();
            after.wait().unwrap();
            // Commands behind such a barrier wait for it in order only.
            at_last.wait().unwrap();
            assert_caused_by(&listed, &failed);
            assert_caused_by(&listed_barrier, &failed);
        }
    }
}

fn poison_is_by_range_until_overwritten(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for early in [true, false] {
        let queue = stage.out_of_order();
        let memory = stage.memory(64);
        write_all(&queue, &memory, &[7; 64]);
        let gate = UserEvent::new();
        let access = part(&memory, 16..32, AccessMode::Overwrite);
        let failed = failing(&queue, &[access], &[gate.event()]);
        let mut gate = Some(gate);
        if !early {
            gate.take().unwrap().complete();
            failed.wait_over().unwrap();
        }
        let read = |range| nothing(&queue, &[part(&memory, range, AccessMode::Read)], &[]);
        let fine = [read(0..16), read(32..64)];
        let bad = [read(15..17), read(0..64), read(31..33), read(20..21)];
        // A smaller range is healed.
        let heal = part(&memory, 20..24, AccessMode::Overwrite);
        let healer = queue.fill(heal, &[9], &[]).unwrap();
        let fine_now = [read(20..24), read(21..22)];
        let still_bad = [read(16..20), read(24..32), read(19..21), read(0..64)];
        if let Some(gate) = gate {
            gate.complete();
        }
        healer.wait().unwrap();
        for event in fine.iter().chain(&fine_now) {
            event.wait().unwrap();
        }
        for event in bad.iter().chain(&still_bad) {
            assert_caused_by(event, &failed);
        }
        // And then all of it.
        write_all(&queue, &memory, &[5; 64]).wait().unwrap();
        assert_eq!(read_all(&queue, &memory), [5; 64]);
    }
}

fn partial_writes_do_not_heal(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let memory = stage.memory(64);
    let failed = failing(&queue, &[overwrites(&memory)], &[]);
    let rows = [Step {
        count: 4,
        source_stride: 8,
        destination_stride: 16,
    }];
    let host = HostBytes::new(&[3; 32]);
    let partial = queue.write(host.memory(), updates(&memory), 8, &rows, &[]);
    assert_caused_by(&partial.unwrap(), &failed);
    assert_caused_by(&nothing(&queue, &[reads(&memory)], &[]), &failed);
}

fn rows_on_top_of_each_other_do_not_heal(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let memory = stage.memory(16);
    let failed = failing(&queue, &[overwrites(&memory)], &[]);
    // As many bytes as the range has, but all in its first half.
    let rows = [Step {
        count: 2,
        source_stride: 8,
        destination_stride: 0,
    }];
    let host = HostBytes::new(&[3; 16]);
    let half = queue.write(host.memory(), overwrites(&memory), 8, &rows, &[]);
    assert_caused_by(&half.unwrap(), &failed);
    let second_half = part(&memory, 8..16, AccessMode::Read);
    assert_caused_by(&nothing(&queue, &[second_half], &[]), &failed);
}

fn transfers_pass_it_on(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let (a, b) = (stage.memory(32), stage.memory(32));
    let failed = failing(&queue, &[part(&a, 0..16, AccessMode::Overwrite)], &[]);
    let copy = queue
        .copy(
            part(&a, 8..24, AccessMode::Read),
            part(&b, 0..16, AccessMode::Overwrite),
            16,
            &[],
            &[],
        )
        .unwrap();
    assert_caused_by(&copy, &failed);
    let host = HostBytes::new(&[1; 16]);
    let read = |range| {
        queue.read(
            part(&b, range, AccessMode::Read),
            host.memory(),
            16,
            &[],
            &[],
        )
    };
    assert_caused_by(&read(0..16).unwrap(), &failed);
    assert_eq!(host.bytes(), [1; 16], "a read that failed wrote nothing");
    read(16..32).unwrap().wait().unwrap();
    // A fill and a write overwrite.
    queue
        .fill(part(&b, 0..8, AccessMode::Overwrite), &[4], &[])
        .unwrap();
    let host = HostBytes::new(&[6; 8]);
    let access = part(&b, 8..16, AccessMode::Overwrite);
    queue.write(host.memory(), access, 8, &[], &[]).unwrap();
    let expected = [vec![4; 8], vec![6; 8], vec![0; 16]].concat();
    assert_eq!(read_all(&queue, &b), expected);
}

fn the_first_of_a_long_way(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let gate = UserEvent::new();
    let origin = failing(&queue, &[], &[gate.event()]);
    let mut event = origin.clone();
    // By waits, by bytes, by markers, in turn.
    for round in 0..60 {
        let memory = stage.memory(8);
        event = match round % 3 {
            0 => nothing(&queue, &[], &[event]),
            1 => {
                nothing(&queue, &[overwrites(&memory)], &[event]);
                nothing(&queue, &[reads(&memory)], &[])
            }
            _ => queue.marker(&[event]).unwrap(),
        };
    }
    gate.complete();
    assert_caused_by(&event, &origin);
    let message = error_of(&event).to_string();
    assert!(message.len() < 300, "the message repeats itself: {message}");
}

fn long_wait_lists_pass_it_on(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for early in [true, false] {
        let queue = stage.out_of_order();
        let gate = UserEvent::new();
        let mut events: Vec<Event> = (0..100)
            .map(|_| nothing(&queue, &[], &[gate.event()]))
            .collect();
        let failed = failing(&queue, &[], &[gate.event()]);
        events.insert(37, failed.clone());
        let mut gate = Some(gate);
        if !early {
            gate.take().unwrap().complete();
            queue.wait().unwrap();
        }
        // The same list again and again, and one that lacks the failure.
        let all: Vec<Event> = (0..50).map(|_| nothing(&queue, &[], &events)).collect();
        let fine = nothing(&queue, &[], &events[40..]);
        let again = nothing(&queue, &[], &events);
        if let Some(gate) = gate {
            gate.complete();
        }
        fine.wait().unwrap();
        for event in all.iter().chain([&again]) {
            assert_caused_by(event, &failed);
        }
    }
}

fn the_queue_goes_on(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let memory = stage.memory(8);
    for n in 0..500_u64 {
        let failed = failing(&queue, &[overwrites(&memory)], &[]);
        put(&queue, &memory, n, &[]);
        let (event, seen) = observe(&queue, &memory, &[]);
        if n % 50 == 0 {
            event.wait().unwrap();
            assert_eq!(seen.load(std::sync::atomic::Ordering::SeqCst), n);
            error_of(&failed);
        }
    }
    queue.wait().unwrap();
    assert_eq!(read_number(&queue, &memory), 499);
}

fn poison_follows_the_bytes(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let count = stage.devices.len();
    for (writer, reader) in (0..count).flat_map(|w| (0..count).map(move |r| (w, r))) {
        let (from, to) = (
            stage.queue_on(writer, OUT_OF_ORDER),
            stage.queue_on(reader, OUT_OF_ORDER),
        );
        for early in [true, false] {
            let memory = stage.memory(32);
            write_all(&from, &memory, &[3; 32]);
            let gate = UserEvent::new();
            let access = part(&memory, 8..16, AccessMode::Overwrite);
            let failed = failing(&from, &[access], &[gate.event()]);
            let mut gate = Some(gate);
            if !early {
                gate.take().unwrap().complete();
                failed.wait_over().unwrap();
            }
            let read = |range| nothing(&to, &[part(&memory, range, AccessMode::Read)], &[]);
            let bad = [read(0..32), read(8..9)];
            // Read together with the poisoned bytes above, and fine all the
            // same: what is poisoned is bytes, not what they travelled with.
            let fine = [read(0..8), read(16..32)];
            if let Some(gate) = gate {
                gate.complete();
            }
            for event in &bad {
                assert_caused_by(event, &failed);
            }
            for event in &fine {
                event.wait().unwrap();
            }
            let heal = part(&memory, 8..16, AccessMode::Overwrite);
            from.fill(heal, &[4], &[]).unwrap();
            let expected = [vec![3; 8], vec![4; 8], vec![3; 16]].concat();
            assert_eq!(read_all(&to, &memory), expected);
        }
    }
}
