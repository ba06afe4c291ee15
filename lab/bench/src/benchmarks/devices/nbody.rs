//! `nbody`: gravity between all bodies, in interactions of 20 operations (Nyland, Harris and Prins,
//! "Fast N-Body Simulation with CUDA", 2007).

use super::{
    COMPARED, Comparison, Doing, Need, Side, Sizes, Target, gate_by_hand, near, numbers, rates,
    targets,
};
use crate::error::BenchError;
use crate::harness::{Plan, Report, Session};
use crate::kernels::{self, Four};
use crate::reference::loops::Loops;
use crate::reference::raw::{Argument, Grid, Launch, Memory, Raw, RawResult, download, upload};
use quipu::WorkDivision;
use std::cell::RefCell;

const SOFTENING: f32 = 0.01;
/// Threads of a block, which divide the number of bodies.
const THREADS: usize = 256;

/// Bodies.
const SIZES: Sizes = Sizes {
    gpu: [1 << 15, 1 << 16, 1 << 17],
    other: [1 << 14, 1 << 12],
    tiny: 512,
};

/// The benchmark `nbody`.
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
    acceleration: Memory,
}

fn by_hand(target: &Target, bodies: &[[f32; 4]]) -> RawResult<ByHand> {
    let mut raw = target.raw()?;
    let acceleration = upload(&mut *raw, &vec![[0.0_f32; 4]; bodies.len()])?;
    let arguments = [
        Argument::F32(SOFTENING),
        Argument::Memory(upload(&mut *raw, bodies)?),
        Argument::Memory(acceleration),
        Argument::U32(bodies.len() as u32),
    ];
    let grid = Grid::line(bodies.len() / THREADS, THREADS);
    let launch = raw.prepare("pull", grid, &arguments)?;
    Ok(ByHand {
        raw: RefCell::new(raw),
        launch,
        acceleration,
    })
}

fn one(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    target: &Target,
    count: usize,
) -> Result<(), BenchError> {
    let coordinates = numbers(3, 4 * count);
    let (chunks, _) = coordinates.as_chunks();
    let host: Vec<Four> = chunks
        .iter()
        .map(|&[x, y, z, w]| Four { x, y, z, w })
        .collect();
    let arrays: &[[f32; 4]] = bytemuck::cast_slice(&host);
    let context = target.context();
    let queue = target.queue(COMPARED)?;
    let bodies = context.buffer(&host).doing("making a buffer")?;
    let acceleration = context.allocate::<Four>(count);
    let mut acceleration = acceleration.doing("making a buffer")?;
    let loops = Loops::new(target.workers())?;
    let mut looped = vec![[0.0_f32; 4]; if target.is_pool() { count } else { 0 }];
    let by_hand = match target.is_pool() {
        true => None,
        false => target.or_note(by_hand(target, arrays), report),
    };

    let case = format!("{count} bodies");
    let threads = THREADS.min(queue.limits().block_thread_count);
    let division = WorkDivision::new(count / threads, threads, 1);
    let mut sides = vec![Side::ours(&queue, || {
        let pull = kernels::pull(SOFTENING, &bodies, acceleration.overwrite());
        queue.post_launch(division.clone(), pull)
    })];
    if let Some(by_hand) = &by_hand {
        sides.push(Side::raw(&by_hand.raw, by_hand.launch));
    }
    if target.is_pool() {
        sides.push(Side::function("rayon", || {
            loops.pull(SOFTENING, arrays, &mut looped);
        }));
    }
    let comparison = Comparison {
        case: &case,
        unit: "GFLOP/s",
        amount: 20.0 * (count as f64).powi(2) / 1e9,
    };
    let ratios = rates(session, report, plan, target, &comparison, &mut sides)?;
    gate_by_hand(report, target, &case, &ratios);
    drop(sides);

    let verify = |side: &str, acceleration: &[[f32; 4]]| {
        for i in (0..count).step_by(count / 16) {
            let expected = exact(arrays, i);
            let found = acceleration[i].map(f64::from);
            let scale = expected
                .iter()
                .fold(1.0, |most: f64, one| most.max(one.abs()));
            if (0..3).any(|k| !near(expected[k] / scale, found[k] / scale, 1e-3)) {
                let what = format!("the acceleration of body {i} on {}, {side}", target.id());
                let (expected, found) = (format!("{expected:?}"), format!("{found:?}"));
                return Err(session.wrong(&case, what, expected, found));
            }
        }
        Ok(())
    };
    let found = queue.read(&acceleration).and_then(quipu::Pending::wait);
    verify(
        "ours",
        bytemuck::cast_slice(&found.doing("reading a buffer")?),
    )?;
    if let Some(by_hand) = by_hand {
        let raw = &mut *by_hand.raw.borrow_mut();
        let found = download(&mut **raw, by_hand.acceleration, count)?;
        verify("by hand", &found)?;
    }
    if target.is_pool() {
        verify("rayon", &looped)?;
    }
    Ok(())
}

/// The same in twice the precision.
fn exact(bodies: &[[f32; 4]], i: usize) -> [f64; 3] {
    let body = bodies[i].map(f64::from);
    bodies.iter().fold([0.0; 3], |mut sum, other| {
        let other = other.map(f64::from);
        let distance: [f64; 3] = std::array::from_fn(|k| other[k] - body[k]);
        let square: f64 = distance.iter().map(|one| one * one).sum();
        let square = square + f64::from(SOFTENING);
        for (sum, distance) in sum.iter_mut().zip(distance) {
            *sum += distance * other[3] / (square * square.sqrt());
        }
        sum
    })
}
