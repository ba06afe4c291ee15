//! The first check of a process, made while its thread unwinds: the panic hook cannot be changed
//! there. A process of its own, with one test.
#![allow(clippy::unwrap_used, reason = "tests say what they expect by failing")]

use quipu_kernel::{
    Accelerator, BlockScratch, GlobalMut, GroupKernel, Kernel, KernelError, RawMut, RunOptions,
    Unpartitioned, WorkDivision, erase,
};
use std::panic::catch_unwind;

struct Panics;

impl Kernel<1> for Panics {
    type Output = Unpartitioned<u32>;

    fn run<A: Accelerator<1>>(&self, _: &A, _: RawMut<'_, u32>) {
        panic!("a kernel's panic");
    }
}

/// The message and the place of the kernel's panic, as a check reports them.
fn report() -> (String, String) {
    let mut options = RunOptions::new();
    options.check = true;
    let mut output = vec![0; 1];
    let division = WorkDivision::new([1], [1], [1]).unwrap();
    let mut launch = erase(Panics, GlobalMut::from(&mut output), division).unwrap();
    match launch.run_all(&mut BlockScratch::with_options(options)) {
        Err(KernelError::Panicked { message, place, .. }) => (message, place),
        other => panic!("{other:?}"),
    }
}

struct Checks;

impl Drop for Checks {
    fn drop(&mut self) {
        assert!(std::thread::panicking());
        assert_eq!(report().0, "a kernel's panic");
    }
}

#[test]
fn a_check_in_a_thread_that_unwinds_reports_and_a_later_one_says_where() {
    let outcome = catch_unwind(|| {
        let _checks = Checks;
        panic!("on purpose");
    });
    assert!(outcome.is_err());
    let (message, place) = report();
    assert_eq!(message, "a kernel's panic");
    assert!(place.contains("unwinding.rs"), "{place}");
}
