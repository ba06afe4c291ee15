//! `block-size`: the product of matrices of 256 x 256 in blocks of 2 x 2 to 64 x 64 threads
//! (Schupikov, "OpenCL-HPX Integration", 2021, 5.3).

use super::matmul::MODES;
use super::side::{mean, rows, times};
use super::{Doing, Need, Target, near, numbers, targets};
use crate::error::BenchError;
use crate::harness::{Contender, Plan, Report, Session};
use crate::kernels;
use crate::reference::raw::{Argument, Grid, Launch, Memory, Raw, RawResult, Waiting};
use crate::reference::raw::{download, upload};
use quipu::{Completion, WorkDivision};
use std::cell::RefCell;
use std::time::Instant;

/// The side of the matrices.
const N: usize = 256;

/// The benchmark `block-size`.
pub(in crate::benchmarks) fn run(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let targets = targets(session, report, Need::OwnInterface)?;
    let plan = session.begin(12 * targets.len());
    let n = session.scale().choose(N, N, 64);
    for target in &targets {
        for mode in MODES {
            let case = |side: usize| format!("{side} x {side} threads, {}", mode.0);
            product::<2>(session, report, &plan, target, &case(2), n, mode)?;
            product::<4>(session, report, &plan, target, &case(4), n, mode)?;
            product::<8>(session, report, &plan, target, &case(8), n, mode)?;
            product::<16>(session, report, &plan, target, &case(16), n, mode)?;
            product::<32>(session, report, &plan, target, &case(32), n, mode)?;
            product::<64>(session, report, &plan, target, &case(64), n, mode)?;
        }
    }
    Ok(())
}

struct ByHand {
    raw: RefCell<Box<dyn Raw>>,
    launch: Launch,
    c: Memory,
}

fn by_hand(target: &Target, side: usize, n: usize, a: &[f32], b: &[f32]) -> RawResult<ByHand> {
    let mut raw = target.raw()?;
    let c = upload(&mut *raw, &vec![0.0_f32; n * n])?;
    let arguments = [
        Argument::U32(n as u32),
        Argument::Memory(upload(&mut *raw, a)?),
        Argument::Memory(upload(&mut *raw, b)?),
        Argument::Memory(c),
    ];
    let grid = Grid::plane([n / side; 2], [side; 2]);
    let launch = raw.prepare(&format!("multiply_{side}"), grid, &arguments)?;
    Ok(ByHand {
        raw: RefCell::new(raw),
        launch,
        c,
    })
}

/// The product of `n` x `n` matrices in blocks of `SIDE` x `SIDE` threads, a launch and its wait at
/// a time.
pub(super) fn product<const SIDE: usize>(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    target: &Target,
    case: &str,
    n: usize,
    (_, completion, waiting): (&str, Completion, Waiting),
) -> Result<(), BenchError> {
    let limit = target.device().limits().block_thread_count;
    if SIDE * SIDE > limit {
        let id = target.id();
        let note = format!("{case}, {id}: NOT MEASURED: a block has {limit} threads at most");
        report.notes.push(note);
        return Ok(());
    }
    let (left, right) = (numbers(1, n * n), numbers(2, n * n));
    let context = target.context();
    let queue = target.queue(completion)?;
    let a = context.buffer(&left).doing("making a buffer")?;
    let b = context.buffer(&right).doing("making a buffer")?;
    let c = context.allocate::<f32>(n * n).doing("making a buffer")?;
    let mut view = c.shaped([n, n]).doing("shaping a buffer")?;
    let by_hand = target.or_note(by_hand(target, SIDE, n, &left, &right), report);

    let division = WorkDivision::new([n / SIDE; 2], [SIDE; 2], [1, 1]);
    let mut ours = || -> Result<(), BenchError> {
        let call = kernels::multiply_blocks::<SIDE>(n, &a, &b, &mut view);
        let launch = queue.launch(division.clone(), call);
        let event = launch.doing("enqueueing a command")?;
        event.wait().doing("waiting for a command")
    };
    ours()?;
    let started = Instant::now();
    ours()?;
    let times = times(session, started.elapsed());

    let mut contenders = vec![Contender::new("quipu", || mean(times, &mut ours))];
    if let Some(by_hand) = &by_hand {
        let name = by_hand.raw.borrow().language().interface();
        let mut theirs = || {
            let mut raw = by_hand.raw.borrow_mut();
            raw.enqueue(by_hand.launch)?;
            Ok(raw.wait(waiting)?)
        };
        let name = format!("{name}, {}", waiting.name());
        contenders.push(Contender::new(name, move || mean(times, &mut theirs)));
    }
    rows(session, report, plan, target, (case, "µs"), contenders)?;

    let verify = |side: &str, c: &[f32]| {
        for k in 0..64 {
            let (column, down) = (k * 37 % n, k * 61 % n);
            let terms = (0..n).map(|k| (left[k * n + down], right[column * n + k]));
            let expected: f64 = terms.map(|(a, b)| f64::from(a) * f64::from(b)).sum();
            let found = f64::from(c[column * n + down]);
            if !near(expected, found, 1e-4) {
                let what = format!("element {down}, {column} on {}, {side}", target.id());
                return Err(session.wrong(case, what, expected, found));
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
    Ok(())
}
