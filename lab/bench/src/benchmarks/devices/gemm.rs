//! `gemm`: the product of square matrices, in operations per second.
//!
//! On devices with many threads in a block it is the library's `multiply_squares`, beside the same
//! algorithm by hand.

use super::{
    COMPARED, Comparison, Doing, Need, Side, Sizes, Target, gate_by_hand, near, numbers, rates,
    targets,
};
use crate::error::BenchError;
use crate::harness::{Plan, Report, Session};
use crate::reference::loops::Loops;
use crate::reference::raw::{Argument, Grid, Launch, Memory, Raw, RawResult, download, upload};
use std::cell::RefCell;

/// The side of a block by hand, in threads.
const SIDE: usize = 16;

/// Rows and columns: what takes a device some milliseconds.
const SIZES: Sizes = Sizes {
    gpu: [2048, 4096, 8192],
    other: [1024, 256],
    tiny: 48,
};

/// The benchmark `gemm`.
pub(in crate::benchmarks) fn run(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let targets = targets(session, report, Need::Any)?;
    let cases = SIZES.cases(session, &targets);
    let plan = session.begin(cases.len());
    for (target, size) in cases {
        one(session, report, &plan, target, size)?;
    }
    Ok(())
}

struct ByHand {
    raw: RefCell<Box<dyn Raw>>,
    launch: Launch,
    c: Memory,
}

fn by_hand(target: &Target, n: usize, a: &[f32], b: &[f32]) -> RawResult<ByHand> {
    let mut raw = target.raw()?;
    let c = upload(&mut *raw, &vec![0.0_f32; n * n])?;
    let arguments = [
        Argument::U32(n as u32),
        Argument::Memory(upload(&mut *raw, a)?),
        Argument::Memory(upload(&mut *raw, b)?),
        Argument::Memory(c),
    ];
    let grid = Grid::plane([n / SIDE; 2], [SIDE; 2]);
    let launch = raw.prepare("gemm", grid, &arguments)?;
    Ok(ByHand {
        raw: RefCell::new(raw),
        launch,
        c,
    })
}

fn one(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    target: &Target,
    n: usize,
) -> Result<(), BenchError> {
    let (left, right) = (numbers(1, n * n), numbers(2, n * n));
    let context = target.context();
    let queue = target.queue(COMPARED)?;
    let a = context.buffer(&left).doing("making a buffer")?;
    let b = context.buffer(&right).doing("making a buffer")?;
    let mut c = context.allocate::<f32>(n * n).doing("making a buffer")?;
    let loops = Loops::new(target.workers())?;
    let mut looped = vec![0.0_f32; if target.is_pool() { n * n } else { 0 }];
    let by_hand = match target.is_pool() {
        true => None,
        false => target.or_note(by_hand(target, n, &left, &right), report),
    };

    let case = format!("{n} x {n} f32");
    let mut sides = vec![Side::ours(&queue, || {
        quipu_algorithms::matrix_product(&queue, [n, n, n], &a, &b, &mut c).map(drop)
    })];
    if let Some(by_hand) = &by_hand {
        sides.push(Side::raw(&by_hand.raw, by_hand.launch));
    }
    if target.is_pool() {
        sides.push(Side::function("rayon", || {
            loops.gemm(n, &left, &right, &mut looped);
        }));
    }
    let comparison = Comparison {
        case: &case,
        unit: "GFLOP/s",
        amount: 2.0 * (n as f64).powi(3) / 1e9,
    };
    let ratios = rates(session, report, plan, target, &comparison, &mut sides)?;
    drop(sides);
    gate_by_hand(report, target, &case, &ratios);

    let verify = |side: &str, c: &[f32]| {
        // Samples all over the matrix.
        for k in 0..64 {
            let (row, column) = (k * 37 % n, k * 61 % n);
            let terms = (0..n).map(|k| (left[row * n + k], right[k * n + column]));
            let expected: f64 = terms.map(|(a, b)| f64::from(a) * f64::from(b)).sum();
            let found = f64::from(c[row * n + column]);
            if !near(expected, found, 1e-4) {
                let what = format!("element {row}, {column} on {}, {side}", target.id());
                return Err(session.wrong(&case, what, expected, found));
            }
        }
        Ok(())
    };
    let found = queue.read(&c).and_then(quipu::Pending::wait);
    verify("ours", &found.doing("reading a buffer")?)?;
    if let Some(by_hand) = by_hand {
        let raw = &mut *by_hand.raw.borrow_mut();
        verify("by hand", &download(&mut **raw, by_hand.c, n * n)?)?;
    }
    if target.is_pool() {
        verify("rayon", &looped)?;
    }
    Ok(())
}
