//! A driver that takes recorded graphs as one.

use quipu_driver_cpu::SerialDriver;
use quipu_scheduler::command::ToDrivers;
use quipu_scheduler::driver::Notification;
use quipu_scheduler::error::{ErrorKind, Result};
use quipu_scheduler::graph::{Graph, NodeRequest};
use quipu_scheduler::operation::Operation;
use quipu_scheduler::{
    Access, AccessMode, CommandView, Context, Device, DeviceProperties, Driver, Kind, QueueOptions,
    RawArgument, Recording, UserEvent,
};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs everything on the calling thread; of a graph, all at once.
#[derive(Default)]
struct Whole {
    singly: AtomicU64,
    launches: AtomicU64,
}

/// Its result for a graph.
struct Plan {
    commands: usize,
    edges: usize,
}

// SAFETY: a command's code and memory are used while it is here, with the arguments resolved for
// it.
unsafe impl Driver for Whole {
    fn name(&self) -> &'static str {
        "whole"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        SerialDriver::new().devices()
    }

    fn runs_on_waiting_threads(&self) -> bool {
        true
    }

    fn take_graph(&self, graph: &Graph) -> Option<Box<dyn Any + Send + Sync>> {
        let mut plan = Plan {
            commands: 0,
            edges: 0,
        };
        graph.for_each_command(|_, edges| {
            let number = plan.commands as u32;
            assert!(edges.iter().all(|edge| edge.command < number));
            plan.commands += 1;
            plan.edges += edges.len();
        });
        // Says no to one that is too long.
        (plan.commands < 10).then(|| Box::new(plan) as Box<_>)
    }

    fn notify(&self, notification: Notification) {
        let Notification::Ready(command) = notification else {
            return;
        };
        let result = command.start().and_then(|()| match command.operation() {
            Operation::Graph(graph) => {
                self.launches.fetch_add(1, Ordering::SeqCst);
                let plan = graph.taken::<Plan>().expect("it was taken");
                assert_eq!(graph.len(), plan.commands);
                let mut result = Ok(());
                graph.for_each_command(|command, _| {
                    if result.is_ok() && !command.needs_no_device() {
                        result = perform(command);
                    }
                });
                result
            }
            _ => {
                self.singly.fetch_add(1, Ordering::SeqCst);
                perform(&command)
            }
        });
        command.finish(result, &mut ToDrivers);
    }
}

fn perform(command: &CommandView) -> Result<()> {
    let arguments = command.arguments().iter();
    let arguments: Vec<RawArgument> = arguments.map(|a| a.on_host()).collect::<Result<_>>()?;
    match command.operation() {
        // SAFETY: in the order of their edges, one after another.
        Operation::Fill(fill) => unsafe { fill.fill(arguments[0]) },
        // SAFETY: as above.
        Operation::Transfer(transfer) => unsafe { transfer.copy(&arguments) },
        // SAFETY: as above.
        _ => return unsafe { command.run_native(&arguments, 0..command.groups()) },
    }
    Ok(())
}

fn load(raw: &RawArgument) -> u8 {
    // SAFETY: the argument is the command's, and not empty.
    unsafe { raw.pointer.read() }
}

fn store(raw: &RawArgument, value: u8) {
    // SAFETY: as above, and it is one that is written.
    unsafe { raw.pointer.write(value) };
}

#[test]
fn a_driver_may_take_a_graph_as_one() {
    let whole = Arc::new(Whole::default());
    let driver: Arc<dyn Driver> = whole.clone();
    let other: Arc<dyn Driver> = Arc::new(SerialDriver::new());
    let devices = [
        Device::all_of(&driver).unwrap().remove(0),
        Device::all_of(&other).unwrap().remove(0),
    ];
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let elsewhere = context.queue(&devices[1], QueueOptions::default()).unwrap();
    let memory = context.memory(4).unwrap();

    let record = |tasks: usize, on: &quipu_scheduler::Queue| {
        let recording = Recording::new(&context);
        let access = Access::whole(&memory, AccessMode::Overwrite);
        recording.fill(&queue, access, &[1], &[]).unwrap();
        recording.marker(&queue, &[]).unwrap();
        for _ in 0..tasks {
            let request = NodeRequest {
                accesses: &[Access::whole(&memory, AccessMode::ReadWrite)],
                ..NodeRequest::default()
            };
            let task = |raw: &[RawArgument]| {
                store(&raw[0], load(&raw[0]) + 2);
                match load(&raw[0]) {
                    99 => Err(ErrorKind::Kernel {
                        what: "task".to_owned(),
                        message: "never".to_owned(),
                    }
                    .into()),
                    _ => Ok(()),
                }
            };
            recording.host_task(on, task, &request).unwrap();
        }
        recording.finish().unwrap()
    };
    let value = || {
        let seen = Arc::new(AtomicU64::new(0));
        let to = seen.clone();
        let request = quipu_scheduler::Request {
            accesses: &[Access::whole(&memory, AccessMode::Read)],
            ..quipu_scheduler::Request::default()
        };
        let look = move |raw: &[RawArgument]| {
            to.store(u64::from(load(&raw[0])), Ordering::SeqCst);
            Ok(())
        };
        elsewhere.host_task(look, &request).unwrap().wait().unwrap();
        seen.load(Ordering::SeqCst)
    };

    let graph = record(3, &queue);
    assert!(graph.is_taken());
    assert_eq!(graph.taken::<Plan>().map(|plan| plan.edges), Some(4));
    for launches in 1..4 {
        // Ordered as any command.
        let gate = UserEvent::new();
        let launch = queue.launch_graph(&graph, &[gate.event()], None).unwrap();
        assert_eq!(whole.launches.load(Ordering::SeqCst), launches - 1);
        gate.complete();
        launch.wait().unwrap();
        assert_eq!(whole.launches.load(Ordering::SeqCst), launches);
        assert_eq!(value(), 7);
    }
    assert_eq!(whole.singly.load(Ordering::SeqCst), 0);
    // On another driver's queue it is played, with the same effect.
    elsewhere
        .launch_graph(&graph, &[], None)
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(whole.launches.load(Ordering::SeqCst), 3);
    assert_eq!(whole.singly.load(Ordering::SeqCst), 4);
    assert_eq!(value(), 7);

    // One that fails, and what depends on it.
    let failing = record(1, &queue);
    let recording = Recording::new(&context);
    let request = NodeRequest {
        accesses: &[Access::whole(&memory, AccessMode::Overwrite)],
        ..NodeRequest::default()
    };
    let refused = || ErrorKind::FailedByHost {
        reason: "refused".to_owned(),
    };
    let task = move |_: &[RawArgument]| Err(refused().into());
    recording.host_task(&queue, task, &request).unwrap();
    let fails = recording.finish().unwrap();
    assert!(fails.is_taken());
    let failed = queue.launch_graph(&fails, &[], None).unwrap();
    failed.wait().unwrap_err();
    let reader = quipu_scheduler::Request {
        accesses: &[Access::whole(&memory, AccessMode::Read)],
        ..quipu_scheduler::Request::default()
    };
    let read = elsewhere.host_task(|_| Ok(()), &reader).unwrap();
    assert!(matches!(
        read.wait().unwrap_err().kind(),
        ErrorKind::Dependency { .. }
    ));
    queue
        .launch_graph(&failing, &[], None)
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(value(), 3);

    // Not taken: too long, or partly another driver's.
    for graph in [record(20, &queue), record(1, &elsewhere)] {
        assert!(!graph.is_taken());
        let before = whole.launches.load(Ordering::SeqCst);
        queue
            .launch_graph(&graph, &[], None)
            .unwrap()
            .wait()
            .unwrap();
        assert_eq!(whole.launches.load(Ordering::SeqCst), before);
        let mut kinds = Vec::new();
        graph.for_each_command(|command, _| kinds.push(command.kind()));
        assert_eq!(kinds[..2], [Kind::Fill, Kind::Marker]);
    }
}
