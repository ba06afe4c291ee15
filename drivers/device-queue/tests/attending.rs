//! The threads that notice ends. A thread that waits for its own command leaves the driver's thread
//! asleep. The driver's thread notices the end of a command that no thread waits for, however it
//! came to the device. A program of its own: threads of other tests that wait would notice ends,
//! too.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

#[path = "driver/library/mod.rs"]
mod library;

use library::faults::{Fault, Faults};
use library::{Refusal, stage};
use quipu_scheduler::event::Clock;
use quipu_scheduler::{
    Access, AccessMode, Completion, Context, Device, Event, MemoryRef, Queue, QueueOptions,
    UserEvent,
};
#[cfg(target_os = "linux")]
use std::collections::HashMap;
#[cfg(target_os = "linux")]
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

const BYTES: u64 = 64;

struct Rig {
    devices: Vec<Device>,
    context: Context,
    faults: Arc<Faults>,
}

/// One at a time: a thread that waits flushes all queues of the process, another test's too.
static ALONE: Mutex<()> = Mutex::new(());

fn each(test: impl Fn(&Rig)) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (seed, ordered) in [(1, false), (2, true)] {
        let (devices, context, faults) = stage(ordered, seed);
        // Nothing is known to be over so soon that nobody has to call.
        faults.pace(1_000_000_000);
        let rig = Rig {
            devices,
            context,
            faults,
        };
        test(&rig);
        assert_eq!(rig.faults.violations(), [""; 0]);
    }
}

fn queue(context: &Context, device: &Device, completion: Completion) -> Queue {
    let options = QueueOptions {
        completion,
        ..QueueOptions::default()
    };
    context.queue(device, options).unwrap()
}

fn fill(queue: &Queue, memory: &MemoryRef, byte: u8, waits: &[Event]) -> Event {
    let access = Access {
        memory,
        offset: 0,
        length: memory.size(),
        mode: AccessMode::Overwrite,
    };
    queue.fill(access, &[byte], waits).unwrap()
}

/// Told when an event is over, by no wait.
fn told(event: &Event) -> mpsc::Receiver<quipu_scheduler::Result<()>> {
    let (tell, told) = mpsc::channel();
    event.on_complete(move |result| tell.send(result).unwrap());
    told
}

#[test]
fn who_waits_for_what_he_enqueued_leaves_the_drivers_thread_asleep() {
    each(|rig| {
        let queue = queue(&rig.context, &rig.devices[0], Completion::Polling);
        let memory = rig.context.memory(BYTES).unwrap();
        let before = rig.faults.looks();
        for _ in 0..200 {
            fill(&queue, &memory, 1, &[]).wait().unwrap();
        }
        assert_eq!(rig.faults.looks(), before);
        // It asked for polling: nothing is asked to call.
        assert_eq!(rig.faults.calls(Fault::Callback), 0);
    });
}

/// The number of times that each living thread of the drivers' own has slept.
#[cfg(target_os = "linux")]
fn sleeps() -> HashMap<PathBuf, u64> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let of_thread = |thread: std::io::Result<std::fs::DirEntry>| {
        // One that ends meanwhile is left out.
        let thread = thread.ok()?.path();
        let name = std::fs::read_to_string(thread.join("comm")).ok()?;
        let status = std::fs::read_to_string(thread.join("status")).ok()?;
        let mut lines = status.lines();
        let slept = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        let is_drivers = name.trim_end() == "quipu-fake";
        is_drivers.then(|| (thread, slept.trim().parse().unwrap()))
    };
    threads.filter_map(of_thread).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn who_polls_leaves_the_drivers_thread_asleep() {
    each(|rig| {
        let queue = queue(&rig.context, &rig.devices[0], Completion::Polling);
        let memory = rig.context.memory(BYTES).unwrap();
        let end = |rounds| {
            for _ in 0..rounds {
                let event = fill(&queue, &memory, 1, &[]);
                // As a future's first poll does.
                let told = told(&event);
                queue.flush();
                while told.try_recv().is_err() {
                    rig.context.poll();
                }
            }
        };
        let _polling = rig.context.polling();
        end(10);
        let before = sleeps();
        end(500);
        // Another test's thread may live on, with nothing to do.
        let more = sleeps()
            .into_iter()
            .map(|(thread, after)| after - before.get(&thread).unwrap_or(&after));
        let slept: u64 = more.sum();
        // A message from before may be on its way; one for each command would be 500.
        assert!(slept < 50, "{slept} times");
    });
}

/// Says when a thread that waits falls asleep. No time passes.
struct Asleep(mpsc::Sender<()>);

impl Clock for Asleep {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn park(&self, timeout: Duration) {
        // Nobody may listen any more.
        let _ = self.0.send(());
        std::thread::park_timeout(timeout);
    }
}

/// True if a thread that waits for a command, and sleeps, is the first to see that it has ended. If
/// it is `gated`, the thread sleeps before the command is on its device.
fn who_sleeps_sees_it(rig: &Rig, gated: bool) -> bool {
    let queue = queue(&rig.context, &rig.devices[0], Completion::Callback);
    let memory = rig.context.memory(BYTES).unwrap();
    // The driver's thread looks now and then whether a device is lost, and may be the first.
    (0..1000).any(|_| {
        rig.faults.hold(true);
        let asked = rig.faults.calls(Fault::Callback);
        let gate = UserEvent::new();
        let gates: Vec<Event> = gated.then(|| gate.event()).into_iter().collect();
        let (tell, asleep) = mpsc::channel();
        std::thread::scope(|scope| {
            let (queue, memory) = (&queue, &memory);
            let waits = scope.spawn(move || {
                let filled = fill(queue, memory, 1, &gates);
                let clock = Asleep(tell);
                filled.wait_with_clock(Duration::MAX, &clock).unwrap();
            });
            asleep.recv().unwrap();
            gate.complete();
            // A thread that looks all the time has no device call.
            while rig.faults.calls(Fault::Callback) == asked {
                std::thread::yield_now();
            }
            rig.faults.hold(false);
            let who = waits.thread().id();
            waits.join().unwrap();
            rig.faults.ended_by() == Some(who)
        })
    })
}

#[test]
fn a_device_that_calls_wakes_the_thread_that_waits() {
    each(|rig| assert!(who_sleeps_sees_it(rig, false)));
}

#[test]
fn a_thread_that_waits_looks_at_a_device_that_is_late_to_call() {
    each(|rig| {
        rig.faults.mute();
        assert!(who_sleeps_sees_it(rig, false));
        assert!(who_sleeps_sees_it(rig, true));
    });
}

#[test]
fn what_a_device_says_as_it_calls_is_not_asked() {
    each(|rig| {
        let queue = queue(&rig.context, &rig.devices[0], Completion::Callback);
        let memory = rig.context.memory(BYTES).unwrap();
        rig.faults.hold(true);
        let asked = rig.faults.calls(Fault::Callback);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| fill(&queue, &memory, 1, &[]).wait().unwrap());
            while rig.faults.calls(Fault::Callback) == asked {
                std::thread::yield_now();
            }
            rig.faults.plan(Fault::Status, 0, u64::MAX, Refusal::Busy);
            rig.faults.hold(false);
            waits.join().unwrap();
        });
        rig.faults.end();
    });
}

#[test]
fn a_thread_that_ceases_to_wait_leaves_what_it_has_heard_to_others() {
    each(|rig| {
        let queue = queue(&rig.context, &rig.devices[0], Completion::Callback);
        let memory = rig.context.memory(BYTES).unwrap();
        for _ in 0..50 {
            rig.faults.hold(true);
            let event = fill(&queue, &memory, 1, &[]);
            let gate = UserEvent::new();
            // Listens, for the first end; and another sleeps on for the second.
            let (first, second) = (gate.event(), event.clone());
            let waits = [first, second].map(|it| std::thread::spawn(move || it.wait().unwrap()));
            rig.faults.hold(false);
            gate.complete();
            for waits in waits {
                waits.join().unwrap();
            }
            told(&event).recv().unwrap().unwrap();
        }
    });
}

#[test]
fn what_another_thread_flushes_is_heard_of() {
    each(|rig| {
        let queue = queue(&rig.context, &rig.devices[0], Completion::Callback);
        let memory = rig.context.memory(BYTES).unwrap();
        for _ in 0..50 {
            let event = fill(&queue, &memory, 1, &[]);
            let other = queue.clone();
            std::thread::spawn(move || other.flush()).join().unwrap();
            told(&event).recv().unwrap().unwrap();
        }
    });
}

#[test]
fn what_is_flushed_by_a_wait_for_nothing_is_heard_of() {
    each(|rig| {
        let [full, empty] =
            [(); 2].map(|()| queue(&rig.context, &rig.devices[0], Completion::Callback));
        let memory = rig.context.memory(BYTES).unwrap();
        for _ in 0..50 {
            rig.faults.hold(true);
            let event = fill(&full, &memory, 1, &[]);
            empty.wait().unwrap();
            rig.faults.hold(false);
            told(&event).recv().unwrap().unwrap();
        }
    });
}
