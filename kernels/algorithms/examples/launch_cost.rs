//! The cost of a kernel's launch beside a host task that does the same to the same buffer: `cargo
//! run --release -p quipu-algorithms --example launch_cost [-- --gates]`.
//!
//! A chain of commands, each of which adds one to a number, is enqueued in an in-order queue behind
//! an event of ours, which is then completed. Measured are both halves, enqueueing and running, of
//! both kinds in turn; the number is checked. With `--gates` it fails if a launch takes 50 ns more
//! than a task.

use quipu::prelude::*;
use std::process::ExitCode;
use std::time::Instant;

const COMMANDS: usize = 10_000;
const ROUNDS: usize = 31;
/// Nanoseconds that a launch may take more than a host task.
const GATE: f64 = 50.0;

#[kernel]
fn add_one(_acc: &impl Accelerator<1>, mut y: OwnElements<u64>) {
    for (_, y) in y.each() {
        *y += 1;
    }
}

/// Nanoseconds per command: to enqueue one, and to run it.
fn measure(
    queue: &Queue,
    number: &mut Buffer<u64>,
    mut enqueue: impl FnMut(&Queue, &mut Buffer<u64>) -> quipu::Result<()>,
) -> quipu::Result<[f64; 2]> {
    queue.write(number, vec![0])?.wait()?;
    let gate = UserEvent::new();
    queue.wait_for(&gate.event())?;
    let start = Instant::now();
    for _ in 0..COMMANDS {
        enqueue(queue, number)?;
    }
    let enqueued = start.elapsed();
    let start = Instant::now();
    gate.complete();
    queue.wait()?;
    let run = start.elapsed();
    assert_eq!(queue.read(number)?.wait()?, [COMMANDS as u64]);
    Ok([enqueued, run].map(|time| time.as_secs_f64() * 1e9 / COMMANDS as f64))
}

fn main() -> quipu::Result<ExitCode> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let Some(unknown) = arguments.iter().find(|argument| *argument != "--gates") {
        eprintln!(
            "`{unknown}` is no option; there is `--gates`, to fail if a launch takes too long"
        );
        return Ok(ExitCode::from(2));
    }
    let mut missed = false;
    let cpu = Platform::new()?.device("cpu")?;
    let context = Context::new(std::slice::from_ref(&cpu))?;
    let queue = context.queue(&cpu)?;
    let mut number = context.buffer(&[0_u64])?;
    let one = WorkDivision::new(1, 1, 1).expect("one thread of one element");
    let mut rounds = Vec::new();
    for _ in 0..=ROUNDS {
        let task = measure(&queue, &mut number, |queue, number| {
            queue
                .host_task_with((number,), |(number,)| number[0] += 1)
                .map(drop)
        })?;
        let explicit = measure(&queue, &mut number, |queue, number| {
            queue.post_launch(one, add_one(number))
        })?;
        let automatic = measure(&queue, &mut number, |queue, number| {
            queue.post_launch(1, add_one(number))
        })?;
        rounds.push([task, explicit, automatic]);
    }
    rounds.remove(0);
    let median = |of: &dyn Fn(&[[f64; 2]; 3]) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        (values[ROUNDS / 2], values[0])
    };
    println!(
        "nanoseconds per command, medians (and best) of {ROUNDS} rounds of {COMMANDS} commands"
    );
    println!(
        "{:28} {:>16} {:>16} {:>16}",
        "", "enqueue", "run", "more than a task"
    );
    for (at, name) in [
        "a host task",
        "a kernel, divided by hand",
        "a kernel, divided by us",
    ]
    .into_iter()
    .enumerate()
    {
        let (enqueue, best_enqueue) = median(&|round| round[at][0]);
        let (run, best_run) = median(&|round| round[at][1]);
        let total = |times: [f64; 2]| times[0] + times[1];
        let (more, _) = median(&|round| total(round[at]) - total(round[0]));
        println!(
            "{name:28} {enqueue:7.1} ({best_enqueue:6.1}) {run:7.1} ({best_run:6.1}) {more:16.1}"
        );
        missed |= more > GATE;
    }
    let outcome = if missed { "MISSED" } else { "met" };
    println!("{outcome}: at most {GATE} ns more than a task");
    Ok(ExitCode::from(u8::from(missed && !arguments.is_empty())))
}
