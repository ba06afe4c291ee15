//! Cancellation: a request that is honoured until the command starts.

use super::cases;
use crate::Fixture;
use crate::support::*;
use quipu_scheduler::{AccessMode, Event, UserEvent};

cases! {
    Anything:
        before_it_starts,
        after_it_is_over,
        dependants_fail_with_it,
        a_failed_dependency_comes_first,
        markers_can_be_cancelled,
        the_second_of_two_requests_changes_nothing;
    Asynchronous:
        while_it_runs;
}

fn before_it_starts(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for queue in [stage.in_order(), stage.out_of_order()] {
        let (ran, dropped) = (Flag::new(), Flag::new());
        let (inside, guard) = (ran.clone(), SetOnDrop(dropped.clone()));
        let gate = UserEvent::new();
        let event = launch(&queue, &[], &[gate.event()], move |_| {
            let _ = &guard;
            inside.set();
            Ok(())
        });
        event.cancel();
        queue.flush();
        // It fails once its waits are resolved, not before.
        nothing(&stage.out_of_order(), &[], &[]).wait().unwrap();
        assert!(!event.is_complete());
        gate.complete();
        let error = error_of(&event);
        assert!(error.is_cancelled(), "{error}");
        assert!(!ran.is_set());
        assert!(dropped.is_set(), "what it holds goes with it");
    }
}

fn after_it_is_over(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let memory = stage.memory(8);
    let event = put(&queue, &memory, 4, &[]);
    event.wait().unwrap();
    event.cancel();
    event.wait().unwrap();
    assert_eq!(read_number(&queue, &memory), 4);
    let failed = failing(&queue, &[], &[]);
    failed.wait_over().unwrap();
    failed.cancel();
    assert!(!error_of(&failed).is_cancelled());
}

fn dependants_fail_with_it(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let memory = stage.memory(16);
    write_all(&queue, &memory, &[1; 16]);
    let gate = UserEvent::new();
    let access = part(&memory, 0..8, AccessMode::Overwrite);
    let event = nothing(&queue, &[access], &[gate.event()]);
    let by_wait = nothing(&queue, &[], from_ref(&event));
    let by_bytes = nothing(&queue, &[reads(&memory)], &[]);
    let other_bytes = nothing(&queue, &[part(&memory, 8..16, AccessMode::Read)], &[]);
    let over_it = nothing(&queue, &[overwrites(&memory)], &[]);
    event.cancel();
    gate.complete();
    assert!(error_of(&event).is_cancelled());
    for dependant in [&by_wait, &by_bytes] {
        assert_caused_by(dependant, &event);
        assert!(!error_of(dependant).is_cancelled());
        assert!(error_of(dependant).first_cause().is_cancelled());
    }
    other_bytes.wait().unwrap();
    over_it.wait().unwrap();
}

fn a_failed_dependency_comes_first(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let gate = UserEvent::new();
    let failed = failing(&queue, &[], &[gate.event()]);
    let event = nothing(&queue, &[], from_ref(&failed));
    event.cancel();
    gate.complete();
    assert_caused_by(&event, &failed);
}

fn markers_can_be_cancelled(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let gate = UserEvent::new();
    let gated = nothing(&queue, &[], &[gate.event()]);
    let marker = queue.marker(&[]).unwrap();
    let barrier = queue.barrier(&[]).unwrap();
    let after = nothing(&queue, &[], &[]);
    marker.cancel();
    barrier.cancel();
    gate.complete();
    assert!(error_of(&marker).is_cancelled());
    assert!(error_of(&barrier).is_cancelled());
    gated.wait().unwrap();
    after.wait().unwrap();
}

fn the_second_of_two_requests_changes_nothing(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let gate = UserEvent::new();
    let events: Vec<Event> = (0..100)
        .map(|_| nothing(&queue, &[], &[gate.event()]))
        .collect();
    for event in &events {
        event.cancel();
        event.clone().cancel();
    }
    drop(gate);
    // The user event was abandoned: that is why they fail.
    for event in &events {
        assert!(!error_of(event).is_cancelled());
    }
}

fn while_it_runs(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let memory = stage.memory(8);
    let (started, release) = (Flag::new(), Flag::new());
    let (inside, hold) = (started.clone(), release.clone());
    let event = launch(&queue, &[overwrites(&memory)], &[], move |a| {
        inside.set();
        hold.wait();
        store(&a[0], 11);
        Ok(())
    });
    queue.flush();
    started.wait();
    event.cancel();
    release.set();
    event.wait().unwrap();
    assert_eq!(read_number(&queue, &memory), 11);
}
