//! Compares the kernels that were compiled; with `--opencl` also as OpenCL C. Each difference is
//! some lines on the standard output, the first of them a `@`, the kernel's name, and what differs.

use std::process::ExitCode;

use quipu_kernel_generated::{CASES, compare};
use quipu_kernel_testing::opencl_device;

fn main() -> ExitCode {
    // Failures are intended, or reported below.
    std::panic::set_hook(Box::new(|_| {}));
    let opencl = std::env::args().any(|argument| argument == "--opencl");
    if opencl && let Err(error) = opencl_device() {
        eprintln!("{error}");
        return ExitCode::from(2);
    }
    let differences = compare(CASES, opencl);
    for difference in &differences {
        println!("@ {} {}", difference.case.name, difference.text());
    }
    ExitCode::SUCCESS
}
