//! Some generated kernels; `scripts/test kernels` compares thousands.

use quipu_kernel_generated::{CASES, compare};

#[test]
fn native_and_printed_kernels_give_the_same() {
    let differences = compare(CASES, false);
    let texts: Vec<String> = differences.iter().map(|one| one.text()).collect();
    assert!(
        differences.is_empty(),
        "{} of {} kernels differ; `cargo run -p quipu-kernel-generator --bin kernels -- --only SEED` makes one smaller:\n{}",
        differences.len(),
        CASES.len(),
        texts.join("\n")
    );
}
