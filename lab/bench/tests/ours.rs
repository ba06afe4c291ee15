//! Quipu as the subject of every benchmark: a handful of commands each, every result verified.

use quipu_bench::harness::{Options, Scale};
use quipu_bench::ours::Quipu;
use quipu_bench::subject::{Queues, Subject};
use quipu_bench::{Measures, list, run};

fn tiny(workers: Vec<usize>) -> Options {
    Options {
        scale: Scale::Tiny,
        workers,
        ..Options::default()
    }
}

#[test]
fn every_benchmark_runs_on_quipu_and_its_results_are_right() {
    let quipu = Quipu::new();
    for benchmark in list()
        .iter()
        .filter(|benchmark| benchmark.measures() == Measures::Subject)
    {
        let name = benchmark.name();
        // Only Linux tells this.
        if matches!(name, "idle" | "memory") && !cfg!(target_os = "linux") {
            continue;
        }
        // A driver gives no report unless every result is right.
        let report = run(name, &quipu, &tiny(vec![1, 2, 5]))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!report.rows.is_empty(), "{name}");
        let ours = report.rows.iter().all(|row| row.device == "cpu");
        assert!(ours, "{name}: {:?}", report.rows);
    }
}

#[test]
fn a_pool_of_no_workers_is_an_error() {
    let error = match Quipu::new().no_op(0) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("a pool without workers was started"),
    };
    assert!(error.contains("starting a pool"), "{error}");
}

#[test]
fn pending_commands_can_be_given_up() {
    let quipu = Quipu::new();
    let mut pending = quipu.pending(1).expect("a queue");
    pending.enqueue(100).expect("commands");
    // Their user event goes first, so this does not wait for ever.
    drop(pending);
}

#[test]
fn a_subject_is_prepared_once_and_run_often() {
    let quipu = Quipu::new();
    for queues in [Queues::OneInOrder, Queues::TwoOutOfOrder] {
        let mut run = quipu.serial_chain(2, queues, 100).expect("a chain");
        for _ in 0..20 {
            assert_eq!(run().expect("a run").sum, 100);
        }
    }
}
