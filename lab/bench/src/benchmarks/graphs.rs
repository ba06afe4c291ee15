//! `graphs`: five task graphs with empty tasks and with tasks of 1 µs, beside three executors.
//!
//! Before anything is timed, every executor and the subject run each shape once with order stamps.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::BenchError;
use crate::harness::{
    Contender, Gate, Plan, Report, Row, Samples, Scale, Session, counted, nanoseconds_each,
};
use crate::reference::counted::{CountedGraph, GraphExecutor};
use crate::reference::deque_executor::DequeExecutor;
use crate::reference::rayon_executor::RayonExecutor;
use crate::reference::shape::GraphShape;
use crate::reference::task::{EmptyTask, OrderVerdict, SpinTask, StampedTask, Task};
use crate::reference::tokio_executor::TokioExecutor;

const UNIT: &str = "ns/task";

/// Peers that cannot run in this process, as they were measured before the project on a machine
/// with two cores: shape, and for Taskflow 4.1 and oneTBB (tasks with counters of their own)
/// nanoseconds per empty task with 1 and 2 workers.
const RECORDED: [(&str, [f64; 2], [f64; 2]); 5] = [
    ("chain", [29.0, 28.0], [22.0, 21.0]),
    ("independent", [36.0, 38.0], [27.0, 79.0]),
    ("wavefront", [36.0, 30.0], [26.0, 25.0]),
    ("fan-join", [47.0, 50.0], [38.0, 95.0]),
    ("all-to-all", [483.0, 483.0], [337.0, 449.0]),
];

/// The largest ratio to a recorded figure that still counts as level with it.
const LEVEL: f64 = 1.1;

/// The benchmark `graphs`.
pub(crate) fn run(session: &Session<'_>, report: &mut Report) -> Result<(), BenchError> {
    let shapes = match session.scale() {
        Scale::Tiny => GraphShape::tiny(),
        Scale::Full | Scale::Quick => GraphShape::standard(),
    };
    let workers = session.worker_counts();
    let spin = SpinTask::lasting(Duration::from_micros(1));
    let bodies: [(&str, Arc<dyn Task>); 2] =
        [("0 µs", Arc::new(EmptyTask)), ("1 µs", Arc::new(spin))];
    let plan = session.begin(shapes.len() * bodies.len() * workers.len());
    for &count in &workers {
        let mut executors: Vec<Box<dyn GraphExecutor>> = vec![
            Box::new(DequeExecutor::new(count)?),
            Box::new(RayonExecutor::new(count)?),
            Box::new(TokioExecutor::new(count)?),
        ];
        for shape in shapes.iter().cloned().map(Arc::new) {
            verify(session, count, &shape, &mut executors)?;
            for (name, body) in &bodies {
                let case = format!("{}, {name}", shape.name());
                let measured = measure(session, &plan, count, &shape, body, &mut executors)?;
                add_rows(session, report, &case, count, &measured.run);
                if *name == "0 µs" {
                    add_build_row(session, report, &shape, count, &measured);
                    add_recorded_gates(report, &shape, count);
                }
            }
        }
    }
    report.notes.push(format!(
        "1 µs is {} dependent multiplications on this machine",
        spin.steps()
    ));
    Ok(())
}

/// Times of one case: position 0 is the subject, then the executors.
struct Measured {
    run: Samples,
    build: Vec<f64>,
    build_by_hand: Vec<f64>,
}

fn measure(
    session: &Session<'_>,
    plan: &Plan,
    workers: usize,
    shape: &Arc<GraphShape>,
    body: &Arc<dyn Task>,
    executors: &mut [Box<dyn GraphExecutor>],
) -> Result<Measured, BenchError> {
    let tasks = shape.tasks();
    let (mut build, mut build_by_hand) = (Vec::new(), Vec::new());
    let mut subject = session
        .subject
        .graph(workers, Arc::clone(shape), Arc::clone(body))?;
    let mut contenders = vec![Contender::new("subject", || {
        let outcome = subject()?;
        build.push(nanoseconds_each(outcome.build, tasks));
        let started = Instant::now();
        drop(CountedGraph::new(std::hint::black_box(shape)));
        build_by_hand.push(nanoseconds_each(started.elapsed(), tasks));
        Ok(nanoseconds_each(outcome.elapsed, tasks))
    })];
    let graph = Arc::new(CountedGraph::new(shape));
    for executor in executors.iter_mut() {
        let graph = Arc::clone(&graph);
        contenders.push(Contender::new(executor.name(), move || {
            graph.reset();
            Ok(nanoseconds_each(executor.run(&graph, body), tasks))
        }));
    }
    let run = session.measure(plan, &mut contenders)?;
    drop(contenders);
    let warm_up = build.len() - run.of(0).len();
    Ok(Measured {
        run,
        build: build.split_off(warm_up),
        build_by_hand: build_by_hand.split_off(warm_up),
    })
}

fn verify(
    session: &Session<'_>,
    workers: usize,
    shape: &Arc<GraphShape>,
    executors: &mut [Box<dyn GraphExecutor>],
) -> Result<(), BenchError> {
    let case = format!("{}, {}", shape.name(), counted(workers, "worker"));
    let check = |who: &str, verdict: OrderVerdict| {
        let what = format!("the order of tasks on {who}");
        session.verify(&case, &what, OrderVerdict::default(), verdict)
    };
    for executor in executors.iter_mut() {
        let verdict = executor.verify(shape);
        check(executor.name(), verdict)?;
    }
    let stamped = Arc::new(StampedTask::new(Arc::clone(shape)));
    let task: Arc<dyn Task> = Arc::clone(&stamped) as Arc<dyn Task>;
    session.subject.graph(workers, Arc::clone(shape), task)?()?;
    check(&session.device(), stamped.take())
}

fn add_rows(
    session: &Session<'_>,
    report: &mut Report,
    case: &str,
    workers: usize,
    samples: &Samples,
) {
    let ours = samples.of(0);
    for reference in 1..samples.contenders() {
        let name = samples.name(reference);
        let row = Row::new(case, session.device(), workers, UNIT, ours)
            .beside(name, (ours, samples.of(reference)));
        if name == "rayon" || name == "tokio" {
            let what = format!("{case}, {}, against {name}", counted(workers, "worker"));
            let ratio = row.ratio.unwrap_or(f64::NAN);
            report.gates.push(Gate::at_most(what, ratio, 1.0, "x"));
        }
        session.add(report, row);
    }
}

fn add_build_row(
    session: &Session<'_>,
    report: &mut Report,
    shape: &GraphShape,
    workers: usize,
    measured: &Measured,
) {
    let case = format!("{}, build", shape.name());
    session.add(
        report,
        Row::new(
            case,
            session.device(),
            workers,
            "ns/task enqueued",
            &measured.build,
        )
        .beside(
            "counters by hand",
            (&measured.build, &measured.build_by_hand),
        ),
    );
}

/// Recorded figures hold for the machine they were recorded on, or one much like it.
fn add_recorded_gates(report: &mut Report, shape: &GraphShape, workers: usize) {
    if report.machine.cores != Some(2) || !(1..=2).contains(&workers) {
        return;
    }
    let case = format!("{}, 0 µs", shape.name());
    let row = report
        .rows
        .iter()
        .find(|row| row.case == case && row.workers == workers);
    let recorded = RECORDED
        .iter()
        .find(|(name, ..)| shape.name().starts_with(name));
    let (Some(row), Some((_, taskflow, tbb))) = (row, recorded) else {
        return;
    };
    let value = row.value;
    for (peer, figures) in [("Taskflow", taskflow), ("oneTBB", tbb)] {
        let figure = figures[workers - 1];
        let mut gate = Gate::at_most(
            format!("{case}, {}, level with {peer}", counted(workers, "worker")),
            value,
            figure * LEVEL,
            UNIT,
        );
        gate.target = format!("at most {LEVEL} times {figure}, recorded earlier");
        report.gates.push(gate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_standard_shape_has_recorded_peers() {
        for shape in GraphShape::standard() {
            let found = RECORDED
                .iter()
                .filter(|(name, ..)| shape.name().starts_with(name));
            assert_eq!(found.count(), 1, "{}", shape.name());
        }
    }
}
