//! Destructors of values that commands own. They run inside of a command's end, and may wait there
//! for anything but that end.

use super::cases;
use crate::Fixture;
use crate::support::*;
use quipu_scheduler::graph::NodeRequest;
use quipu_scheduler::{Access, AccessMode, Event, Recording, Request, UserEvent};
use std::sync::mpsc::channel;

cases! {
    Anything:
        a_destructor_waits_for_what_is_called_back,
        a_destructor_of_a_graphs_value_waits_for_what_is_called_back;
    CallerRuns:
        markers_end_while_a_destructor_blocks;
}

/// Runs a closure as it is dropped.
struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|run| run());
    }
}

fn on_drop<F: FnOnce()>(run: F) -> OnDrop<F> {
    OnDrop(Some(run))
}

/// An event that the callback of another one completes.
fn called_back_by(event: &Event) -> Event {
    let called = UserEvent::new();
    let answer = called.event();
    event.on_complete(move |_| called.complete());
    answer
}

fn a_destructor_waits_for_what_is_called_back(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let memory = stage.memory(8);
    let gate = UserEvent::new();
    let user = nothing(&queue, &[updates(&memory)], &[gate.event()]);
    let called = called_back_by(&user);
    let (done, is_done) = channel();
    let value = on_drop(move || {
        let _ = done.send(called.wait());
    });
    stage.context.drop_after_users(&memory, value);
    gate.complete();
    queue.flush();
    user.wait().unwrap();
    waited_or_refused(is_done.recv().unwrap()).unwrap();
}

fn a_destructor_of_a_graphs_value_waits_for_what_is_called_back(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let gate = UserEvent::new();
    let first = queue.marker(&[gate.event()]).unwrap();
    let called = called_back_by(&first);
    let (done, is_done) = channel();
    let value = on_drop(move || {
        let _ = done.send(called.wait());
    });
    let recording = Recording::new(&stage.context);
    let owner = move |_: &_| {
        let _ = &value;
        Ok(())
    };
    recording
        .host_task(&queue, owner, &NodeRequest::default())
        .unwrap();
    let graph = recording.finish().unwrap();
    let launch = queue.launch_graph(&graph, &[first], None).unwrap();
    drop(graph);
    gate.complete();
    launch.wait().unwrap();
    waited_or_refused(is_done.recv().unwrap()).unwrap();
}

fn markers_end_while_a_destructor_blocks(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let memory = stage.memory(8);
    let gate = UserEvent::new();
    let access = Access::whole(&memory, AccessMode::ReadWrite);
    let request = Request {
        accesses: &[access],
        waits: &[gate.event()],
        ..Request::default()
    };
    let user = queue.host_task(|_| Ok(()), &request).unwrap();
    let (go, goes) = channel::<()>();
    // It is ready with the markers, and before some of them.
    let markers = || queue.marker(std::slice::from_ref(&user)).unwrap();
    let before = markers();
    let value = on_drop(move || goes.recv().unwrap());
    stage.context.drop_after_users(&memory, value);
    let after = markers();
    let thread = std::thread::spawn(move || {
        before.wait().unwrap();
        after.wait().unwrap();
        go.send(()).unwrap();
    });
    gate.complete();
    user.wait().unwrap();
    thread.join().unwrap();
}
