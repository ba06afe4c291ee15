//! `reduce`: a sum, in bytes per second: of a kernel of one launch, beside the same by hand, and
//! the library's `reduce`.

use super::{
    COMPARED, Comparison, Doing, Need, Side, Sizes, Target, gate_by_hand, near, rates, targets,
};
use crate::error::BenchError;
use crate::harness::{Plan, Report, Session};
use crate::kernels;
use crate::reference::loops::Loops;
use crate::reference::raw::{Argument, Grid, Launch, Memory, Raw, RawResult, download, upload};
use quipu::WorkDivision;
use quipu_algorithms::Sum;
use std::cell::{Cell, RefCell};

const THREADS: usize = 256;

/// Elements: on a GPU more than its caches hold.
const SIZES: Sizes = Sizes {
    gpu: [1 << 24, 1 << 26, 1 << 28],
    other: [1 << 26, 1 << 22],
    tiny: 1000,
};

/// The benchmark `reduce`.
pub(in crate::benchmarks) fn run(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let targets = targets(session, report, Need::Any)?;
    let cases = SIZES.cases(session, &targets);
    let plan = session.begin(2 * cases.len());
    for (target, size) in cases {
        one(session, report, &plan, target, size)?;
    }
    Ok(())
}

struct ByHand {
    raw: RefCell<Box<dyn Raw>>,
    launch: Launch,
    sums: Memory,
}

fn by_hand(target: &Target, x: &[f32], blocks: usize) -> RawResult<ByHand> {
    let mut raw = target.raw()?;
    let sums = upload(&mut *raw, &vec![0.0_f32; blocks])?;
    let arguments = [
        Argument::Memory(upload(&mut *raw, x)?),
        Argument::Memory(sums),
        Argument::U32(x.len() as u32),
    ];
    let launch = raw.prepare("sum", Grid::line(blocks, THREADS), &arguments)?;
    Ok(ByHand {
        raw: RefCell::new(raw),
        launch,
        sums,
    })
}

fn one(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    target: &Target,
    length: usize,
) -> Result<(), BenchError> {
    let host: Vec<f32> = (0..length).map(|i| (i % 8) as f32 / 8.0).collect();
    let expected: f64 = host.iter().map(|&x| f64::from(x)).sum();
    // So many, too, that no sum of a thread's is long enough to lose digits.
    let blocks = (8 * target.workers()).max(length >> 16);
    let queue = target.queue(COMPARED)?;
    let context = target.context();
    let x = context.buffer(&host).doing("making a buffer")?;
    let mut sums = context.allocate::<f32>(blocks).doing("making a buffer")?;
    let mut total = context.allocate::<f32>(1).doing("making a buffer")?;
    let loops = Loops::new(target.workers())?;
    let looped = Cell::new(0.0_f32);
    let by_hand = match target.is_pool() {
        true => None,
        false => target.or_note(by_hand(target, &host, blocks), report),
    };

    let case = format!("{length} f32, one launch");
    let comparison = |case| Comparison {
        case,
        unit: "GB/s",
        amount: 4.0 * length as f64 / 1e9,
    };
    let reference = || match &by_hand {
        Some(by_hand) => Some(Side::raw(&by_hand.raw, by_hand.launch)),
        None if target.is_pool() => {
            let sum = || looped.set(loops.sum(&host));
            Some(Side::function("rayon", sum))
        }
        None => None,
    };
    let ours = Side::ours(&queue, || match target.is_wide() {
        true => {
            let division = WorkDivision::new(blocks, THREADS, 1);
            queue.post_launch(division, kernels::sum_blocks::<2>(&x, sums.overwrite()))
        }
        false => {
            let division = WorkDivision::new(blocks, 1, 1);
            queue.post_launch(division, kernels::sum_blocks::<64>(&x, sums.overwrite()))
        }
    });
    let mut sides: Vec<_> = [Some(ours), reference()].into_iter().flatten().collect();
    let first = comparison(&case);
    let ratios = rates(session, report, plan, target, &first, &mut sides)?;
    gate_by_hand(report, target, &case, &ratios);
    drop(sides);
    let ours = Side::ours(&queue, || {
        quipu_algorithms::reduce::<Sum, _>(&queue, &x, &mut total).map(drop)
    });
    let second = format!("{length} f32, the library's");
    let mut sides: Vec<_> = [Some(ours), reference()].into_iter().flatten().collect();
    let ratios = rates(
        session,
        report,
        plan,
        target,
        &comparison(&second),
        &mut sides,
    )?;
    gate_by_hand(report, target, &second, &ratios);
    drop(sides);

    let verify = |side: &str, sums: &[f32]| {
        let found: f64 = sums.iter().map(|&sum| f64::from(sum)).sum();
        if near(expected, found, 1e-4) {
            return Ok(());
        }
        let what = format!("the sum on {}, {side}", target.id());
        Err(session.wrong(&case, what, expected, found))
    };
    let found = queue.read(&sums).and_then(quipu::Pending::wait);
    verify("ours", &found.doing("reading a buffer")?)?;
    let found = queue.read(&total).and_then(quipu::Pending::wait);
    verify("the library's", &found.doing("reading a buffer")?)?;
    if let Some(by_hand) = &by_hand {
        let raw = &mut *by_hand.raw.borrow_mut();
        verify("by hand", &download(&mut **raw, by_hand.sums, blocks)?)?;
    }
    if target.is_pool() {
        verify("rayon", &[looped.get()])?;
    }
    Ok(())
}
