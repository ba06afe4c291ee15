//! Random chains of commands over a library in which anything may go wrong at any time, against a
//! sequential model: every command ends, once; a command that is said to have gone well has done
//! its work; a command that read the bytes of a failed one has failed, too; and nothing is given up
//! that a device still uses.

use crate::library::acts::{Act, BUFFERS, BYTES, Model};
use crate::library::faults::{Fault, Faults, next};
use crate::library::{Refusal, stage};
use quipu_scheduler::{Completion, Context, MemoryRef, Queue, QueueOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn plan(faults: &Faults, random: &mut u64, ordered: bool) {
    let mut often = |fault, most: u64, refusal| {
        let thousandths = next(random) % (most + 1);
        faults.often(fault, thousandths, refusal);
    };
    often(Fault::Flush, 200, Refusal::Busy);
    often(Fault::Status, 300, Refusal::Busy);
    often(Fault::Callback, 500, Refusal::Busy);
    often(Fault::HostCopy, 30, Refusal::Busy);
    often(Fault::Reserve, 100, Refusal::Memory);
    // In a stream that keeps its order, no command after a failure ends well.
    if !ordered {
        often(Fault::Run, 15, Refusal::Broken);
    }
    let refusal = [Refusal::Busy, Refusal::Memory][(next(random) % 2) as usize];
    let thousandths = next(random) % 30;
    faults.often(Fault::Put, thousandths, refusal);
}

/// Enqueues some commands, waits for all, and follows them in the model.
fn phase(queue: &Queue, buffers: &[MemoryRef], random: &mut u64, model: &mut Model, is_sure: bool) {
    let count = 1 + next(random) % 30;
    let acts: Vec<Act> = (0..count).map(|_| Act::of(random)).collect();
    let events: Vec<_> = acts
        .iter()
        .map(|act| {
            let calls = Arc::new(AtomicUsize::new(0));
            (act.enqueue(queue, buffers, &calls, &[]).unwrap(), calls)
        })
        .collect();
    queue.wait().unwrap();
    for (act, (event, calls)) in acts.into_iter().zip(events) {
        assert!(event.is_complete(), "{act:?} goes on");
        let (ended, calls) = (event.wait(), calls.load(Ordering::SeqCst));
        if let Act::Native(..) | Act::Refused(..) = act {
            assert!(
                calls < 2 && (calls == 1 || ended.is_err()),
                "{act:?}: {calls}"
            );
            // If only calls fail, commands on a device end well.
            assert!(
                !(model.is_void(act) && is_sure) || calls == 0,
                "{act:?} was called for what is void"
            );
        }
        model.follow(act, ended);
    }
}

fn chain(seed: u64, ordered: bool) {
    let (devices, context, faults) = stage(ordered, seed);
    let mut random = seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1;
    let queues: Vec<Queue> = (0..4)
        .map(|number| queue(&context, &devices[number % 2], number > 1))
        .collect();
    let buffers: Vec<MemoryRef> = (0..BUFFERS)
        .map(|_| context.memory(BYTES as u64).unwrap())
        .collect();
    let mut model = Model::new();
    plan(&faults, &mut random, ordered);
    for _ in 0..6 {
        let queue = &queues[(next(&mut random) % 4) as usize];
        phase(queue, &buffers, &mut random, &mut model, ordered);
    }
    assert!(model.failures == 0 || faults.refused() > 0, "seed {seed}");
    faults.end();
    model.check(&queues[0], &buffers, seed);
    drop((buffers, queues, context));
    assert_eq!(faults.violations(), [""; 0], "seed {seed}");
}

fn queue(context: &Context, device: &quipu_scheduler::Device, polls: bool) -> Queue {
    let options = QueueOptions {
        completion: if polls {
            Completion::Polling
        } else {
            Completion::Callback
        },
        ..QueueOptions::default()
    };
    context.queue(device, options).unwrap()
}

#[test]
fn chains_over_events() {
    (1..100).for_each(|seed| chain(seed, false));
}

#[test]
fn chains_over_streams() {
    (1..100).for_each(|seed| chain(seed, true));
}
