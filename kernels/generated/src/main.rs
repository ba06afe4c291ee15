//! Compares the kernels that were compiled. Each difference is some lines on the standard output, the first of them a
//! `@`, the kernel's name, and what differs.

use std::process::ExitCode;

use quipu_kernel_generated::{CASES, compare};

fn main() -> ExitCode {
    // What fails is meant to, or reported below.
    std::panic::set_hook(Box::new(|_| {}));
    let differences = compare(CASES);
    for difference in &differences {
        println!("@ {} {}", difference.case.name, difference.text());
    }
    ExitCode::SUCCESS
}
