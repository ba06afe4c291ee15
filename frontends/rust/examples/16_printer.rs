//! Open to other languages: a printer that is no part of Quipu is registered at run time, and
//! writes kernels down.
//!
//! The printer is a crate outside of the workspace, `lab/python`.

use kernel_python::Python;
use quipu::kernel::print::Kernels;
use quipu::prelude::*;

/// The steps that the Collatz sequence of each number takes to one.
#[allow(dead_code, reason = "it is printed and not launched")]
#[kernel]
fn collatz(_acc: &impl Accelerator<1>, numbers: &[u32], mut steps: OwnElements<u32>) {
    for (i, steps) in steps.each() {
        let mut n = numbers[i];
        *steps = 0;
        while n > 1 {
            n = if n & 1 == 0 { n / 2 } else { 3 * n + 1 };
            *steps += 1;
        }
    }
}

/// Shows a kernel in Python.
pub fn main() -> quipu::Result<()> {
    let kernels = Kernels::new().with::<collatz, _>().printer(Python);
    let source = kernels.command(["print", "collatz", "--dialect", "python"])?;
    println!("{source}");
    assert!(source.contains("def collatz(numbers, steps):"));
    Ok(())
}
