//! `saxpy`: y += a x, in bytes per second.

use super::{COMPARED, Comparison, Doing, Need, Side, Sizes, Target, gate_by_hand, rates, targets};
use crate::error::BenchError;
use crate::harness::{Plan, Report, Session};
use crate::kernels;
use crate::reference::loops::Loops;
use crate::reference::raw::{Argument, Grid, Launch, Memory, Raw, RawResult, download, upload};
use std::cell::RefCell;

/// With these, and whole numbers, every sum is exact however often it is made.
const A: f32 = 1.0 / 1024.0;
const THREADS: usize = 256;

/// Elements: on a GPU more than its caches hold.
const SIZES: Sizes = Sizes {
    gpu: [1 << 24, 1 << 26, 1 << 28],
    other: [1 << 26, 1 << 22],
    tiny: 1000,
};

/// The benchmark `saxpy`.
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

fn element(i: usize) -> f32 {
    (i % 8) as f32
}

/// Beside, if there is one, the hand-written launch, and its memory.
struct ByHand {
    raw: RefCell<Box<dyn Raw>>,
    launch: Launch,
    y: Memory,
}

fn by_hand(target: &Target, x: &[f32]) -> RawResult<ByHand> {
    let mut raw = target.raw()?;
    let y = upload(&mut *raw, &vec![0.0_f32; x.len()])?;
    let arguments = [
        Argument::F32(A),
        Argument::Memory(upload(&mut *raw, x)?),
        Argument::Memory(y),
        Argument::U32(x.len() as u32),
    ];
    let grid = Grid::line(x.len().div_ceil(THREADS), THREADS);
    let launch = raw.prepare("saxpy", grid, &arguments)?;
    Ok(ByHand {
        raw: RefCell::new(raw),
        launch,
        y,
    })
}

fn one(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    target: &Target,
    length: usize,
) -> Result<(), BenchError> {
    let host: Vec<f32> = (0..length).map(element).collect();
    let context = target.context();
    let queue = target.queue(COMPARED)?;
    let x = context.buffer(&host).doing("making a buffer")?;
    let mut y = context.allocate::<f32>(length).doing("making a buffer")?;
    let loops = Loops::new(target.workers())?;
    let mut looped = vec![0.0_f32; if target.is_pool() { length } else { 0 }];
    let by_hand = match target.is_pool() {
        true => None,
        false => target.or_note(by_hand(target, &host), report),
    };

    let case = format!("{length} f32");
    let mut sides = vec![Side::ours(&queue, || {
        queue.post_launch(length, kernels::saxpy(A, &x, &mut y))
    })];
    if let Some(by_hand) = &by_hand {
        sides.push(Side::raw(&by_hand.raw, by_hand.launch));
    }
    if target.is_pool() {
        sides.push(Side::function("rayon", || {
            loops.saxpy(A, &host, &mut looped)
        }));
    }
    let comparison = Comparison {
        case: &case,
        unit: "GB/s",
        amount: 12.0 * length as f64 / 1e9,
    };
    let ratios = rates(session, report, plan, target, &comparison, &mut sides)?;
    gate_by_hand(report, target, &case, &ratios);
    let counts: Vec<u64> = sides.iter().map(Side::count).collect();
    drop(sides);

    let verify = |side: &str, count: u64, y: &[f32]| {
        let expected = |i| element(i) * A * count as f32;
        let wrong = (0..length).find(|&i| y[i] != expected(i));
        wrong.map_or(Ok(()), |i| {
            let what = format!("element {i} on {}, {side}", target.id());
            Err(session.wrong(&case, what, expected(i), y[i]))
        })
    };
    let found = queue.read(&y).and_then(quipu::Pending::wait);
    verify("ours", counts[0], &found.doing("reading a buffer")?)?;
    if let Some(by_hand) = by_hand {
        let raw = &mut *by_hand.raw.borrow_mut();
        verify(
            "by hand",
            counts[1],
            &download(&mut **raw, by_hand.y, length)?,
        )?;
    }
    if target.is_pool() {
        verify("rayon", counts[1], &looped)?;
    }
    Ok(())
}
