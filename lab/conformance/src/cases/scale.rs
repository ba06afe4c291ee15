//! Long chains, wide fans, dense wait lists, and handles that are stale.

use super::cases;
use crate::Fixture;
use crate::slots::slot_and_generation;
use crate::support::*;
use quipu_scheduler::{Event, UserEvent};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

cases! {
    Anything:
        a_long_chain,
        a_long_failing_chain,
        a_chain_of_markers,
        a_fan_of_a_hundred_thousand,
        one_waits_for_a_hundred_thousand,
        the_same_long_list_again_and_again,
        slots_are_used_again_under_stale_handles;
}

fn a_long_chain(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let memory = stage.memory(8);
    let gate = UserEvent::new();
    // Held until it is whole: the longest that releasing it can take.
    drop(fold(&queue, &memory, 0, &[gate.event()]));
    for n in 1..fixture.longest_chain() {
        drop(fold(&queue, &memory, n, &[]));
    }
    queue.flush();
    gate.complete();
    queue.wait().unwrap();
    assert_eq!(
        read_number(&queue, &memory),
        folded(0..fixture.longest_chain())
    );
}

fn a_long_failing_chain(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let memory = stage.memory(8);
    let gate = UserEvent::new();
    let origin = gate.event();
    let mut last = fold(&queue, &memory, 0, &[gate.event()]);
    for n in 1..fixture.longest_chain() {
        last = fold(&queue, &memory, n, &[]);
    }
    queue.flush();
    // Never completed, and then dropped.
    drop(gate);
    assert_caused_by(&last, &origin);
    put(&queue, &memory, 6, &[]);
    assert_eq!(read_number(&queue, &memory), 6);
}

fn a_chain_of_markers(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let gate = UserEvent::new();
    let mut last = gate.event();
    for n in 0..200_000 {
        last = if n % 3 == 0 {
            queue.barrier(&[last]).unwrap()
        } else {
            queue.marker(&[last]).unwrap()
        };
    }
    queue.flush();
    gate.complete();
    last.wait().unwrap();
}

fn counting(queue: &quipu_scheduler::Queue, count: &Arc<AtomicU64>, waits: &[Event]) -> Event {
    let count = count.clone();
    launch(queue, &[], waits, move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(())
    })
}

fn a_fan_of_a_hundred_thousand(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let gate = UserEvent::new();
    let root = nothing(&queue, &[], &[gate.event()]);
    let count = Arc::new(AtomicU64::new(0));
    for _ in 0..100_000 {
        counting(&queue, &count, from_ref(&root));
    }
    let all = queue.marker(&[]).unwrap();
    queue.flush();
    gate.complete();
    all.wait().unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 100_000);
}

fn one_waits_for_a_hundred_thousand(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let count = Arc::new(AtomicU64::new(0));
    let gate = UserEvent::new();
    let waits: Vec<Event> = (0..100_000)
        .map(|_| counting(&queue, &count, &[gate.event()]))
        .collect();
    let seen = Arc::new(AtomicU64::new(0));
    let (from, to) = (count.clone(), seen.clone());
    let last = launch(&queue, &[], &waits, move |_| {
        to.store(from.load(Ordering::SeqCst), Ordering::SeqCst);
        Ok(())
    });
    queue.flush();
    gate.complete();
    last.wait().unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 100_000);
}

fn the_same_long_list_again_and_again(fixture: &dyn Fixture) {
    const WIDTH: usize = 64;
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let gate = UserEvent::new();
    let ran = Arc::new(AtomicU64::new(0));
    let mut layer: Vec<Event> = vec![gate.event(); WIDTH];
    for depth in 0..100 {
        layer = (0..WIDTH)
            .map(|_| {
                let ran = ran.clone();
                launch(&queue, &[], &layer, move |_| {
                    let before = ran.fetch_add(1, Ordering::SeqCst) as usize;
                    // All of the layer before ran, and none of the next.
                    if before / WIDTH == depth {
                        Ok(())
                    } else {
                        Err(boom(&format!("number {before} in layer {depth}")))
                    }
                })
            })
            .collect();
    }
    queue.flush();
    gate.complete();
    for event in layer {
        event.wait().unwrap();
    }
}

fn slots_are_used_again_under_stale_handles(fixture: &dyn Fixture) {
    /// The number of times that a stale tracker is used meanwhile.
    const USES: u64 = 20;
    // Each is waited for, which takes a trip to the device and back.
    let commands = fixture.longest_chain().min(200_000);
    let between = commands / USES;
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    // Trackers that remember commands which were over long ago.
    let stale: Vec<_> = (0..50).map(|_| stage.memory(8)).collect();
    for (n, memory) in stale.iter().enumerate() {
        put(&queue, memory, n as u64, &[]);
        observe(&queue, memory, &[]);
    }
    queue.wait().unwrap();
    let kept = nothing(&queue, &[], &[]);
    kept.wait().unwrap();
    let mut slots: HashMap<u64, u64> = HashMap::new();
    for n in 0..commands {
        let event = nothing(&queue, &[], &[]);
        event.wait().unwrap();
        let (slot, generation) = slot_and_generation(&event);
        if let Some(before) = slots.insert(slot, generation) {
            assert!(generation > before, "a handle was given out twice");
        }
        // A kept event keeps its slot.
        assert_ne!(slot, slot_and_generation(&kept).0);
        if n % between == 0 {
            let memory = &stale[(n / between) as usize % stale.len()];
            fold(&queue, memory, n, &[]).wait().unwrap();
        }
    }
    // Each thread that begins or ends commands has some of its own.
    assert!(
        (slots.len() as u64) < commands / 10 + 512,
        "{} slots for commands of which one is pending at a time",
        slots.len()
    );
    for (n, memory) in stale.iter().enumerate() {
        let rounds = (0..commands.div_ceil(between)).filter(|r| *r as usize % stale.len() == n);
        let expected = rounds.fold(n as u64, |x, r| {
            x.wrapping_mul(31).wrapping_add(r * between)
        });
        assert_eq!(read_number(&queue, memory), expected);
    }
    kept.wait().unwrap();
}
