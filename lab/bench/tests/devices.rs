//! Benchmarks of devices: a handful of commands each, every result verified, on the processor's
//! cores and on whatever OpenCL and CUDA offer.
//!
//! Without an OpenCL device they fail, or are left out if `QUIPU_TEST_WITHOUT_OPENCL=1`, and say
//! so; those of CUDA run with `QUIPU_TEST_CUDA=1`.

use quipu::Platform;
use quipu::drivers::Options as CpuOptions;
use quipu::drivers::remote::paired;
use quipu::serve::Server;
use quipu_bench::harness::{Options, Report, Scale};
use quipu_bench::ours::Quipu;
use quipu_bench::{BenchError, Measures, list, run};
use std::num::NonZero;
use std::time::Duration;

/// The time within which a node has to answer, on a machine that has much to do.
const PATIENCE: Duration = Duration::from_secs(60);

fn options(devices: &[&str]) -> Options {
    Options {
        scale: Scale::Tiny,
        devices: devices.iter().map(|&device| device.to_owned()).collect(),
        ..Options::default()
    }
}

fn report(name: &str, devices: &[&str]) -> Report {
    run(name, &Quipu::new(), &options(devices)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// True if there is an OpenCL device to test with.
fn has_opencl() -> bool {
    let platform = quipu::Platform::builder().opencl(true).build_available();
    let found = platform.device("opencl").is_ok();
    if !found {
        assert!(
            std::env::var("QUIPU_TEST_WITHOUT_OPENCL").is_ok_and(|value| value == "1"),
            "there is no OpenCL device: install one (Debian: pocl-opencl-icd ocl-icd-libopencl1), or set \
             QUIPU_TEST_WITHOUT_OPENCL=1"
        );
        eprintln!("\n*** NOT TESTED: benchmarks of OpenCL devices.\n");
    }
    found
}

fn names() -> impl Iterator<Item = &'static str> {
    let of_devices = list()
        .iter()
        .filter(|benchmark| benchmark.measures() == Measures::Devices);
    // It takes two devices of CUDA.
    of_devices
        .map(|benchmark| benchmark.name())
        .filter(|name| *name != "device-peers")
}

/// Every benchmark runs on a device, beside its own interface, which is called so.
fn runs_beside_its_own(device: &str, interface: &str) {
    for name in names() {
        let report = report(name, &[device]);
        assert!(!report.rows.is_empty(), "{name}");
        for row in &report.rows {
            assert_eq!(row.device, device, "{name}");
            assert!(row.value.is_finite() && row.runs > 0, "{name}: {row:?}");
            assert!(
                row.reference.is_some(),
                "{name}: {row:?}, {:?}",
                report.notes
            );
            let by_hand = row.reference.as_deref().is_some_and(|reference| {
                reference.contains(interface)
                    || ["the device's copy", "a sleeping thread"].contains(&reference)
            });
            // An overlap stands beside the same commands alone as well.
            assert!(by_hand || name == "device-overlap", "{name}: {row:?}");
        }
    }
}

#[test]
fn every_benchmark_runs_on_opencl_beside_its_own_interface() {
    if has_opencl() {
        runs_beside_its_own("opencl:0", "OpenCL");
    }
}

#[test]
fn every_benchmark_runs_on_cuda_beside_its_own_interface() {
    if std::env::var("QUIPU_TEST_CUDA").is_ok() {
        runs_beside_its_own("cuda:0", "CUDA");
    } else {
        eprintln!(
            "\n*** NOT TESTED: benchmarks of CUDA devices; QUIPU_TEST_CUDA=1 says that there are.\n"
        );
    }
}

/// A node has the kernels of all benchmarks of devices, as `quipu serve` has them.
#[test]
fn every_benchmark_runs_on_the_devices_of_a_node() {
    let folder = tempfile::tempdir().expect("a folder");
    let cores = || {
        let platform = Platform::builder().without_embedded();
        let two = NonZero::new(2).expect("two");
        let platform = platform.cpu(CpuOptions::new().workers(two)).build()?;
        Ok(platform.devices().to_vec())
    };
    let server = Server::new(quipu_cli::benchmarks::served());
    let server = server.address("127.0.0.1:0").name("lab").devices(cores);
    let serving = server.folder(folder.path().join("node")).one_process();
    let serving = serving.start().expect("a node");
    let client = folder.path().join("client");
    let invitation = serving.invite().expect("an invitation");
    let node = paired::pair(&client, &invitation, PATIENCE).expect("a pairing");
    let driver = paired::connect_from(&client, &node, PATIENCE).expect("a connection");
    let platform = Platform::builder().without_embedded().driver(driver);
    let options = Options {
        of_nodes: Some(platform.build().expect("a platform")),
        ..options(&[])
    };
    for name in names() {
        let report = run(name, &Quipu::new(), &options);
        let report = report.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!report.rows.is_empty(), "{name}: {:?}", report.notes);
        for row in &report.rows {
            assert_eq!(row.device, "lab/cpu:0", "{name}");
            assert!(row.value.is_finite() && row.runs > 0, "{name}: {row:?}");
        }
    }
}

#[test]
fn kernels_run_on_the_cores_beside_loops() {
    for name in [
        "saxpy",
        "gemm",
        "nbody",
        "mandelbrot",
        "reduce",
        "device-babelstream",
    ] {
        let report = report(name, &["cpu"]);
        assert!(!report.rows.is_empty(), "{name}");
        for row in &report.rows {
            assert_eq!(row.device, "cpu:0", "{name}");
            assert_eq!(row.reference.as_deref(), Some("rayon"), "{name}: {row:?}");
        }
        assert_eq!(report.notes, [""; 0], "{name}");
    }
}

#[test]
fn a_device_without_an_interface_of_its_own_has_rows_without_a_reference_and_a_note() {
    for name in ["matmul", "stream", "device-costs"] {
        let report = report(name, &["cpu:0"]);
        assert!(!report.rows.is_empty(), "{name}");
        assert!(
            report.rows.iter().all(|row| row.reference.is_none()),
            "{name}"
        );
        let note = "cpu:0: no hand-written reference: devices of the driver 'cpu' have no interface of their own";
        assert_eq!(report.notes, [note], "{name}");
    }
}

#[test]
fn blocks_that_a_device_does_not_have_are_said_to_be_not_measured() {
    if !has_opencl() {
        return;
    }
    let report = report("block-size", &["opencl:0"]);
    let missing = report
        .notes
        .iter()
        .filter(|note| note.contains("threads at most"));
    assert_eq!(report.rows.len() + missing.count(), 12);
}

#[test]
fn two_devices_of_cuda_are_asked_for_where_there_are_none() {
    let report = report("device-peers", &["cpu"]);
    assert!(report.rows.is_empty());
    assert!(
        report.notes[0].contains("NOT MEASURED: it takes two devices of CUDA"),
        "{:?}",
        report.notes
    );
}

#[test]
fn an_unknown_device_is_answered_with_the_known_ones() {
    let error = run("saxpy", &Quipu::new(), &options(&["cuda:77"])).expect_err("no such device");
    assert!(matches!(error, BenchError::UnknownDevice { .. }));
    let message = error.to_string();
    assert!(
        message.contains("\"cuda:77\"") && message.contains("cpu:0"),
        "{message}"
    );
}
