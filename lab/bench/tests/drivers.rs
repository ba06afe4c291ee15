//! Every driver, run with a handful of commands: the right subject gets a report, a wrong one an
//! error that names what is wrong.

mod sequential;

use quipu_bench::harness::{Options, Report, Scale};
use quipu_bench::subject::Subject;
use quipu_bench::{BenchError, Benchmark, Measures, list, publish, run};
use sequential::{Fault, Sequential};

fn tiny() -> Options {
    Options {
        scale: Scale::Tiny,
        workers: vec![1, 2],
        ..Options::default()
    }
}

/// Those that measure a subject: `devices.rs` has the others.
fn of_subjects() -> impl Iterator<Item = &'static Benchmark> {
    list()
        .iter()
        .filter(|benchmark| benchmark.measures() == Measures::Subject)
}

/// Benchmarks that need what only Linux tells.
fn needs_linux(name: &str) -> bool {
    matches!(name, "idle" | "memory")
}

fn report(name: &str) -> Report {
    run(name, &Sequential::default(), &tiny()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn the_list_names_each_benchmark_once() {
    let mut names: Vec<&str> = list().iter().map(|benchmark| benchmark.name()).collect();
    let expected = [
        "babelstream",
        "block-size",
        "buffers",
        "bulk",
        "chain",
        "device-babelstream",
        "device-costs",
        "device-overlap",
        "device-peers",
        "device-transfers",
        "distributed-matmul",
        "enqueue",
        "gemm",
        "graphs",
        "group-imbalance",
        "idle",
        "in-order",
        "in-order-parallel",
        "kernel-group-imbalance",
        "kernel-imbalance",
        #[cfg(target_os = "linux")]
        "links",
        "mandelbrot",
        "matmul",
        "memory",
        "migrate",
        "nbody",
        "nested",
        "no-op",
        "noop",
        "opencl-calls",
        "opencl-kernels",
        "out-of-order",
        "ranges",
        "recorded",
        "reduce",
        "saxpy",
        "stream",
        "stream-edge",
    ];
    names.sort_unstable();
    assert_eq!(names, expected);
    assert!(
        list()
            .iter()
            .all(|benchmark| !benchmark.summary().is_empty())
    );
}

#[test]
fn every_driver_reports_rows_with_numbers_beside_references() {
    for benchmark in of_subjects() {
        let name = benchmark.name();
        if needs_linux(name) && !cfg!(target_os = "linux") {
            continue;
        }
        let report = report(name);
        assert_eq!(report.benchmark, name);
        assert!(!report.rows.is_empty(), "{name}");
        assert!(!report.gates.is_empty(), "{name}");
        for row in &report.rows {
            assert_eq!(row.device, "sequential", "{name}: {row:?}");
            assert!(row.value.is_finite() && row.runs > 0, "{name}: {row:?}");
            assert!(
                row.min <= row.value && row.value <= row.max,
                "{name}: {row:?}"
            );
            assert!(row.workers == 1 || row.workers == 2, "{name}: {row:?}");
        }
        assert!(
            report.rows.iter().any(|row| row.reference_value.is_some()),
            "{name} has no reference"
        );
    }
}

#[test]
fn speed_ups_stand_beside_list_scheduling() {
    let report = report("kernel-imbalance");
    let bounds: Vec<(&str, f64)> = report
        .rows
        .iter()
        .filter(|row| row.unit == "x")
        .map(|row| {
            let reference = row.reference.as_deref();
            assert_eq!(reference, Some("list scheduling, pieces timed alone"));
            (&*row.case, row.reference_value.expect("a bound"))
        })
        .collect();
    assert_eq!(bounds.len(), 2);
    assert_eq!(bounds[0], ("1 kernel", 1.0));
    // Three pieces of 3, 2 and 1 units on two workers end after 3 of 6 units; times vary a little.
    assert_eq!(bounds[1].0, "3 kernels");
    assert!(bounds[1].1 > 1.0 && bounds[1].1 <= 2.0);
}

#[test]
fn every_worker_count_stands_beside_spinning_threads_in_time() {
    for (name, cases) in [
        ("kernel-imbalance", 2),
        ("group-imbalance", 2),
        ("kernel-group-imbalance", 2),
        ("in-order-parallel", 2),
    ] {
        let report = report(name);
        for workers in [1, 2] {
            let rows = report.rows.iter().filter(|row| {
                row.reference.as_deref() == Some("spinning threads by hand")
                    && row.workers == workers
            });
            let units: Vec<&str> = rows.map(|row| &*row.unit).collect();
            assert_eq!(units.len(), cases, "{name}, {workers}");
            assert!(units.iter().all(|&unit| unit != "x"), "{name}: {units:?}");
        }
    }
}

#[test]
fn the_promise_is_the_time_of_list_scheduling_of_pieces_timed_together() {
    for name in [
        "kernel-imbalance",
        "group-imbalance",
        "kernel-group-imbalance",
    ] {
        let report = report(name);
        let bounded = report.rows.iter().filter(|row| {
            row.reference.as_deref() == Some("list scheduling, pieces timed together")
        });
        let bounded: Vec<(&str, usize)> = bounded
            .inspect(|row| assert!(row.unit != "x" && row.reference_value > Some(0.0)))
            .map(|row| (&*row.case, row.workers))
            .collect();
        assert_eq!(
            bounded.len(),
            2,
            "{name}: one for the two workers of each case"
        );
        let gates: Vec<&str> = report.gates.iter().map(|gate| &*gate.what).collect();
        let expected = [
            "speed-up of one piece, 2 workers".into(),
            format!("share of list scheduling, {}, 2 workers", bounded[1].0),
        ];
        assert_eq!(gates, expected, "{name}");
    }
}

#[test]
fn the_in_order_report_has_all_references_and_gates() {
    let report = report("in-order");
    for reference in ["bare call", "crossbeam-deque", "out-of-order"] {
        let with = |workers| {
            let rows = report.rows.iter();
            rows.filter(|row| row.reference.as_deref() == Some(reference) && row.workers == workers)
                .count()
        };
        assert_eq!((with(1), with(2)), (2, 2), "{reference}");
    }
    // Per worker count a limit and the comparison of queues; growth for the second count.
    assert_eq!(report.gates.len(), 5);
}

#[test]
fn graphs_run_beside_three_executors() {
    let report = report("graphs");
    for reference in ["crossbeam-deque", "rayon", "tokio"] {
        let rows = report.rows.iter();
        let count = rows
            .filter(|row| row.reference.as_deref() == Some(reference))
            .count();
        // Five shapes, two kinds of task, two worker counts.
        assert_eq!(count, 20, "{reference}");
    }
}

fn fault(name: &str, fault: Fault) -> BenchError {
    match run(name, &Sequential { fault }, &tiny()) {
        Err(error) => error,
        Ok(_) => panic!("{name} did not notice {fault:?}"),
    }
}

#[test]
fn every_driver_notices_a_lost_command() {
    for benchmark in of_subjects() {
        // An idle device runs nothing that could be lost.
        if benchmark.name() == "idle"
            || (needs_linux(benchmark.name()) && !cfg!(target_os = "linux"))
        {
            continue;
        }
        let error = fault(benchmark.name(), Fault::LosesOne);
        assert!(matches!(error, BenchError::WrongResult { .. }), "{error}");
        assert!(error.to_string().starts_with(benchmark.name()), "{error}");
    }
}

#[test]
fn drivers_notice_commands_in_the_wrong_order() {
    for name in [
        "graphs",
        "ranges",
        "recorded",
        "kernel-imbalance",
        "group-imbalance",
        "kernel-group-imbalance",
        "in-order-parallel",
    ] {
        let error = fault(name, Fault::Disorder);
        assert!(matches!(error, BenchError::WrongResult { .. }), "{error}");
    }
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    let error = run("inorder", &Sequential::default(), &tiny()).expect_err("no such name");
    let message = error.to_string();
    assert!(
        message.contains("\"inorder\"") && message.contains("in-order, out-of-order"),
        "{message}"
    );
}

#[test]
fn invalid_options_are_refused_before_anything_runs() {
    let options = Options {
        runs: Some(0),
        ..tiny()
    };
    let error = run("in-order", &Sequential::default(), &options).expect_err("no runs");
    assert!(matches!(error, BenchError::InvalidOption { .. }));
}

#[test]
fn a_subject_without_a_benchmark_says_so() {
    struct Nothing;
    impl Subject for Nothing {
        fn device(&self) -> String {
            "nothing".into()
        }
    }
    for benchmark in of_subjects() {
        if needs_linux(benchmark.name()) && !cfg!(target_os = "linux") {
            continue;
        }
        let error = run(benchmark.name(), &Nothing, &tiny()).expect_err("it can do nothing");
        assert!(
            error.to_string().contains("nothing does not run"),
            "{error}"
        );
    }
}

#[test]
fn results_are_printed_and_stored() {
    let folder = std::env::temp_dir().join(format!("quipu-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let options = Options {
        json: Some(folder.join("report.json")),
        ..tiny()
    };
    let report = report("out-of-order");
    let mut output = Vec::new();
    publish(&report, &options, &mut output).expect("the folder is there");
    let json = std::fs::read_to_string(folder.join("report.json")).expect("it was written");
    let back: Report = serde_json::from_str(&json).expect("the stable form");
    assert_eq!(back.rows, report.rows);
    let table = String::from_utf8(output).expect("text");
    assert!(table.contains("64 kernels"), "{table}");
    std::fs::remove_dir_all(&folder).expect("it was there");
}
