//! Many kernels as one file of Rust.

use crate::Kernel;

/// A file, and where in it each kernel is: in a module of its own.
#[derive(Debug)]
pub struct Batch {
    /// The file.
    pub source: String,
    /// The first line of each kernel, counted from 1, in their order.
    pub lines: Vec<usize>,
}

/// The kernels as a file, which `quipu-kernel-generated` includes: a constant `CASES` that lists
/// them.
#[must_use]
pub fn batch(kernels: &[Kernel]) -> Batch {
    let mut source = String::new();
    let mut lines = Vec::new();
    let mut cases = String::new();
    let mut line = 1;
    for kernel in kernels {
        lines.push(line);
        let (name, text, case) = (&kernel.name, kernel.source(), kernel.case());
        let module = format!(
            "mod of_{name} {{\nuse super::*;\n{text}pub(super) const CASE: Case = {case};\n}}\n"
        );
        line += module.lines().count();
        source.push_str(&module);
        cases.push_str(&format!("of_{name}::CASE, "));
    }
    source.push_str(&format!("pub(super) const CASES: &[Case] = &[{cases}];\n"));
    Batch { source, lines }
}

impl Batch {
    /// The number of the kernel that a line is in.
    #[must_use]
    pub fn kernel_at(&self, line: usize) -> Option<usize> {
        self.lines.iter().rposition(|first| *first <= line)
    }
}
