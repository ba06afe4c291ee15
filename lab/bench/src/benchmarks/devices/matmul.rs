//! `matmul`: a product of matrices and its future, again and again (Schupikov, "OpenCL-HPX
//! Integration", 2021, 5.1).
//!
//! Matrices of 1 to 1024 blocks of 4 x 4 a side; enqueue and wait, in callback and in polling mode;
//! the mean of 1000, or of as many as fit into some seconds. Beside it the same through the
//! device's own interface, with no future.

use super::target::Need;
use super::{Target, block_size, targets};
use crate::error::BenchError;
use crate::harness::{Report, Session};
use crate::reference::raw::Waiting;
use quipu::Completion;

/// The side of a block.
const SIDE: usize = 4;

/// Ours, and what it is compared with.
pub(super) const MODES: [(&str, Completion, Waiting); 2] = [
    ("callback", Completion::Callback, Waiting::Callback),
    ("polling", Completion::Polling, Waiting::Poll),
];

/// The benchmark `matmul`.
pub(in crate::benchmarks) fn run(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let targets = targets(session, report, Need::OwnInterface)?;
    let blocks = |target: &Target| -> &[usize] {
        let all: &[usize] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
        // The largest take minutes on processors.
        let most = match target.is_wide() {
            true => session.scale().choose(11, 8, 3),
            false => session.scale().choose(8, 6, 3),
        };
        &all[..most]
    };
    let cases = targets.iter().map(|target| 2 * blocks(target).len()).sum();
    let plan = session.begin(cases);
    for target in &targets {
        for &blocks in blocks(target) {
            for mode in MODES {
                let n = SIDE * blocks;
                let case = format!("{blocks} blocks ({n} x {n}), {}", mode.0);
                block_size::product::<SIDE>(session, report, &plan, target, &case, n, mode)?;
            }
        }
    }
    Ok(())
}
