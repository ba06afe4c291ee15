//! A thread that waits for a node looks after its wait, as every thread that waits does.

mod support;

use quipu_node::Limits;
use quipu_scheduler::{
    Access, AccessMode, Context, Device, Event, QueueOptions, RawArgument, Request, Result,
    UserEvent, operation::NativeKernel,
};
use std::ops::Range;
use std::sync::mpsc::channel;
use std::time::Duration;
use support::{PATIENCE, Rig, pool, simulated};

/// Nobody can tell when the thread is where it receives: so this is repeated, and others run
/// before.
const ROUNDS: usize = 20;
const TURNS: usize = 2_000;

struct Nothing;

impl NativeKernel for Nothing {
    fn name(&self) -> &'static str {
        "nothing"
    }

    unsafe fn run(&self, _: &[RawArgument], _: Range<u32>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn what_a_wait_for_a_node_comes_to_need_is_flushed() {
    let rig = Rig::new(pool(1), Limits::default());
    let devices = [
        rig.devices().remove(0),
        simulated(1).remove(0),
        pool(1).remove(0),
    ];
    let context = Context::new(&devices).unwrap();
    let queue = |device: &Device| context.queue(device, QueueOptions::default()).unwrap();
    let [node, late, host] = [0, 1, 2].map(|at| queue(&devices[at]));
    let memory = context.memory(64).unwrap();
    let fill = |waits: &[Event]| {
        let access = Access {
            memory: &memory,
            offset: 0,
            length: 64,
            mode: AccessMode::Overwrite,
        };
        node.fill(access, &[1], waits).unwrap()
    };
    fill(&[]).wait().unwrap();
    let wait_long = |event: Event| {
        let (tell, told) = channel();
        std::thread::spawn(move || tell.send(event.wait()));
        told
    };
    for round in 0..ROUNDS {
        let gate = UserEvent::new();
        let told = wait_long(fill(&[gate.event()]));
        for _ in 0..TURNS {
            std::thread::yield_now();
        }
        // Its driver keeps it until it is flushed, and what opens the gate comes after it.
        let first = late.launch(Nothing, 1, &Request::default()).unwrap();
        let request = Request {
            waits: &[first],
            ..Request::default()
        };
        let open = move |_: &[RawArgument]| {
            gate.complete();
            Ok(())
        };
        drop(host.host_task(open, &request).unwrap());
        let ended = told.recv_timeout(PATIENCE.min(Duration::from_secs(60)));
        ended
            .unwrap_or_else(|_| panic!("round {round}: nobody flushes"))
            .unwrap();
    }
}
