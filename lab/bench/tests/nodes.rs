//! Benchmarks of nodes: a handful of commands each, every result verified.

use quipu_bench::harness::{Options, Scale};
use quipu_bench::ours::Quipu;
use quipu_bench::{Measures, list, run};

#[test]
fn every_benchmark_of_nodes_runs_beside_tls_and_its_results_are_right() {
    let options = Options {
        scale: Scale::Tiny,
        ..Options::default()
    };
    let of_nodes = list()
        .iter()
        .filter(|benchmark| benchmark.measures() == Measures::Nodes);
    let mut count = 0;
    for benchmark in of_nodes {
        let name = benchmark.name();
        let report =
            run(name, &Quipu::new(), &options).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!report.rows.is_empty(), "{name}");
        for row in &report.rows {
            assert!(row.value.is_finite() && row.runs > 0, "{name}: {row:?}");
            assert!(row.reference.is_some(), "{name}: {row:?}");
        }
        count += 1;
    }
    assert_eq!(count, 7);
}

#[cfg(target_os = "linux")]
#[test]
fn links_are_measured_beside_tls_and_tcp_and_results_are_right() {
    if !quipu_lab_network::lab_or_skip() {
        return;
    }
    let options = Options {
        scale: Scale::Tiny,
        ..Options::default()
    };
    let report = run("links", &Quipu::new(), &options).unwrap_or_else(|error| panic!("{error}"));
    // Three things on two networks, each beside TLS and TCP.
    assert_eq!(report.rows.len(), 12);
    for row in &report.rows {
        assert!(row.value.is_finite() && row.reference.is_some(), "{row:?}");
    }
}
