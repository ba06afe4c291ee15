//! `mandelbrot`: a loop of another length for each point, in iterations per second.

use super::{COMPARED, Comparison, Doing, Need, Side, Sizes, Target, gate_by_hand, rates, targets};
use crate::error::BenchError;
use crate::harness::{Plan, Report, Session};
use crate::kernels;
use crate::reference::loops::{Loops, Plane};
use crate::reference::raw::{Argument, Grid, Launch, Memory, Raw, RawResult, download, upload};
use std::cell::RefCell;

const THREADS: usize = 256;

/// Points along each side.
const SIZES: Sizes = Sizes {
    gpu: [2048, 4096, 8192],
    other: [1024, 512],
    tiny: 50,
};

/// The benchmark `mandelbrot`.
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
    steps: Memory,
}

fn by_hand(target: &Target, plane: Plane, points: usize) -> RawResult<ByHand> {
    let mut raw = target.raw()?;
    let steps = upload(&mut *raw, &vec![0_u32; points])?;
    let arguments = [
        Argument::F32(plane.left),
        Argument::F32(plane.bottom),
        Argument::F32(plane.step),
        Argument::U32(plane.width as u32),
        Argument::U32(plane.limit),
        Argument::Memory(steps),
        Argument::U32(points as u32),
    ];
    let grid = Grid::line(points.div_ceil(THREADS), THREADS);
    let launch = raw.prepare("escape", grid, &arguments)?;
    Ok(ByHand {
        raw: RefCell::new(raw),
        launch,
        steps,
    })
}

/// The steps of one point, in the kernels' arithmetic.
fn exact(plane: Plane, i: usize) -> u32 {
    let real = ((i % plane.width) as f32).mul_add(plane.step, plane.left);
    let imaginary = ((i / plane.width) as f32).mul_add(plane.step, plane.bottom);
    let (mut x, mut y, mut count) = (0.0_f32, 0.0_f32, 0);
    while count < plane.limit && x.mul_add(x, y * y) < 4.0 {
        let next = x.mul_add(x, (-y).mul_add(y, real));
        y = (2.0 * x).mul_add(y, imaginary);
        x = next;
        count += 1;
    }
    count
}

fn one(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    target: &Target,
    width: usize,
) -> Result<(), BenchError> {
    let points = width * width;
    let plane = Plane {
        left: -2.0,
        bottom: -1.5,
        step: 3.0 / width as f32,
        width,
        limit: 1000,
    };
    let queue = target.queue(COMPARED)?;
    let steps = target.context().allocate::<u32>(points);
    let mut steps = steps.doing("making a buffer")?;
    let loops = Loops::new(target.workers())?;
    let mut looped = vec![0_u32; if target.is_pool() { points } else { 0 }];
    let by_hand = match target.is_pool() {
        true => None,
        false => target.or_note(by_hand(target, plane, points), report),
    };

    let launch = |steps: &mut quipu::Buffer<u32>| {
        let Plane {
            left,
            bottom,
            step,
            width,
            limit,
        } = plane;
        let escape = kernels::escape(left, bottom, step, width, limit, steps.overwrite());
        queue.post_launch(points, escape)
    };
    // The number of steps to count by.
    launch(&mut steps).doing("enqueueing a command")?;
    let found = queue.read(&steps).and_then(quipu::Pending::wait);
    let found = found.doing("reading a buffer")?;
    let total: u64 = found.iter().map(|&steps| u64::from(steps)).sum();

    let case = format!("{width} x {width} points");
    let mut sides = vec![Side::ours(&queue, || launch(&mut steps))];
    if let Some(by_hand) = &by_hand {
        sides.push(Side::raw(&by_hand.raw, by_hand.launch));
    }
    if target.is_pool() {
        sides.push(Side::function("rayon", || {
            loops.escape(plane, &mut looped);
        }));
    }
    let comparison = Comparison {
        case: &case,
        unit: "G iterations/s",
        amount: total as f64 / 1e9,
    };
    let ratios = rates(session, report, plan, target, &comparison, &mut sides)?;
    gate_by_hand(report, target, &case, &ratios);
    drop(sides);

    let verify = |side: &str, steps: &[u32]| {
        for i in (0..points).step_by((points / 1000).max(1)) {
            let what = format!("the steps of point {i} on {}, {side}", target.id());
            session.verify(&case, &what, exact(plane, i), steps[i])?;
        }
        Ok::<_, BenchError>(())
    };
    let found = queue.read(&steps).and_then(quipu::Pending::wait);
    verify("ours", &found.doing("reading a buffer")?)?;
    if let Some(by_hand) = by_hand {
        let raw = &mut *by_hand.raw.borrow_mut();
        verify("by hand", &download(&mut **raw, by_hand.steps, points)?)?;
    }
    if target.is_pool() {
        // Each product is rounded there, so that points near the border are left sooner or later.
        let looped: u64 = looped.iter().map(|&steps| u64::from(steps)).sum();
        if looped.abs_diff(total) > total / 50 {
            return Err(session.wrong(&case, "the number of steps, rayon", total, looped));
        }
    }
    Ok(())
}
