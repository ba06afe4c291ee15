//! Devices that have nothing to do use no processor: their threads sleep until there is something,
//! also while commands wait for what has not happened. The only test of this process, for it looks
//! at all threads.
#![cfg(target_os = "linux")]

use quipu_conformance::{Fixture, fixture};
use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{
    Context, Event, Queue, QueueOptions, RawArgument, Request, Result, UserEvent,
};
use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::ops::Range;
use std::path::Path;

/// Steps of work that take some tenths of a millisecond: longer than a worker looks for work before
/// it sleeps.
const SHORT: u32 = 1 << 18;
/// Some tenths of a second: tens of the system's ticks, in which it tells processor time.
const LONG: u32 = 1 << 26;
/// So many short times have passed, and threads are still not asleep: they never are.
const PATIENCE: usize = 10_000;

/// Does so many steps of work.
fn work(steps: u32) {
    let mut value = black_box(steps);
    for _ in 0..steps {
        value = black_box(value.wrapping_mul(0x9e37_79b9).rotate_left(5));
    }
}

/// Works in each of its groups.
struct Busy;

impl NativeKernel for Busy {
    fn name(&self) -> &'static str {
        "busy"
    }

    unsafe fn run(&self, _: &[RawArgument], groups: Range<u32>) -> Result<()> {
        for _ in groups {
            work(SHORT / 16);
        }
        Ok(())
    }
}

/// The system's figures for a thread.
#[derive(Debug, PartialEq, Eq)]
struct Thread {
    name: String,
    is_asleep: bool,
    /// Ticks on a processor, in the program and in the system.
    ticks: (u64, u64),
    /// The number of times that it has left a processor: asleep it does not, and who looks for work
    /// does each time.
    switches: Vec<String>,
}

/// A thread of this process, from its folder; none if it has ended.
fn thread(folder: &Path) -> Option<Thread> {
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    let status = fs::read_to_string(folder.join("status")).ok()?;
    // The number, the name in parentheses, and then words of which the first says what it does.
    let (start, words) = stat.rsplit_once(')')?;
    let (_, name) = start.split_once('(')?;
    let words: Vec<&str> = words.split_whitespace().collect();
    let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
    Some(Thread {
        name: name.to_owned(),
        is_asleep: words[0] == "S",
        ticks: (words[11].parse().ok()?, words[12].parse().ok()?),
        switches: lines.map(str::to_owned).collect(),
    })
}

/// All threads of this process but this one, by their number; and but the first, in which the
/// harness says so when a test takes a minute.
fn others() -> BTreeMap<String, Thread> {
    let me = fs::read_link("/proc/thread-self").expect("Linux names the thread that asks");
    let first = std::process::id().to_string();
    let threads = fs::read_dir("/proc/self/task").expect("Linux lists a process's threads");
    threads
        .map(|entry| entry.expect("Linux names them all"))
        .filter(|entry| Some(entry.file_name().as_os_str()) != me.file_name())
        .filter(|entry| entry.file_name() != first.as_str())
        .filter_map(|entry| {
            let number = entry.file_name().to_string_lossy().into_owned();
            Some((number, thread(&entry.path())?))
        })
        .collect()
}

/// Waits until all other threads sleep, and have while this one did something else; then none of
/// them may do anything.
fn nobody_does_anything(workers: usize, when: &str) {
    let mut before = others();
    let fell_asleep = (0..PATIENCE).any(|_| {
        work(SHORT);
        let last = std::mem::replace(&mut before, others());
        before == last && before.values().all(|thread| thread.is_asleep)
    });
    assert!(fell_asleep, "{when}: {before:#?}");
    let of_devices = |thread: &&Thread| thread.name.starts_with("quipu-");
    let count = before.values().filter(of_devices).count();
    assert_eq!(count, workers, "{when}: {before:#?}");
    work(LONG);
    assert_eq!(others(), before, "{when}");
}

fn launch(queue: &Queue, waits: &[Event]) -> Event {
    let request = Request {
        waits,
        ..Request::default()
    };
    queue.launch(Busy, 64, &request).expect("a valid launch")
}

/// Devices of so many threads: whenever there is nothing to do for them, they do nothing.
fn idles(fixture: &dyn Fixture, workers: usize) {
    let when = |what| format!("{}, {what}", fixture.name());
    let devices = fixture.devices();
    let context = Context::new(&devices).expect("a context over fresh devices");
    nobody_does_anything(workers, &when("before anything"));
    let queue = context
        .queue(&devices[0], QueueOptions::default())
        .expect("a queue of the context's device");
    for _ in 0..100 {
        launch(&queue, &[]).wait().expect("it ran");
    }
    nobody_does_anything(workers, &when("after many launches"));
    let gate = UserEvent::new();
    let held = launch(&queue, &[gate.event()]);
    nobody_does_anything(workers, &when("while a command waits"));
    gate.complete();
    held.wait().expect("it ran");
}

#[test]
fn devices_without_work_use_no_processor() {
    idles(&fixture::pool(1), 1);
    idles(&fixture::pool(4), 4);
    idles(&fixture::simulated::one(), 1);
}
