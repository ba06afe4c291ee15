//! `device-transfers`: pageable and pinned memory of the host, to a device and back, beside the
//! device's own interface.

use super::side::{mean, rows, times};
use super::{Doing, Need, Target, targets};
use crate::error::BenchError;
use crate::harness::{Contender, Gate, Plan, Report, Session};
use crate::reference::raw::{Memory, Raw, RawResult, Way};
use quipu::{Buffer, Completion, DeviceKind, HostView, Pinned, Queue};
use std::cell::RefCell;
use std::time::Instant;

/// The data of a transfer.
const VALUE: u8 = 0xA5;
/// About how many seconds a sample takes: there are hundreds of them.
const SAMPLE: f64 = 0.03;
/// The most transfers of a sample.
const MOST: usize = 100;
/// The smallest ratio of our transfers to the interface's pageable ones.
const FASTER: f64 = 2.0;

/// The benchmark `device-transfers`.
pub(in crate::benchmarks) fn run(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let targets = targets(session, report, Need::OwnInterface)?;
    let full: &[usize] = &[
        4 << 10,
        64 << 10,
        1 << 20,
        4 << 20,
        16 << 20,
        64 << 20,
        256 << 20,
    ];
    let quick: &[usize] = &[4 << 10, 1 << 20, 64 << 20];
    let sizes = session.scale().choose(full, quick, &[4 << 10]);
    let plan = session.begin(4 * sizes.len() * targets.len());
    for target in &targets {
        for &size in sizes {
            one(session, report, &plan, target, size)?;
        }
    }
    Ok(())
}

struct ByHand {
    raw: RefCell<Box<dyn Raw>>,
    memory: Memory,
    pageable: RefCell<Vec<u8>>,
}

impl ByHand {
    fn new(mut raw: Box<dyn Raw>, size: usize) -> RawResult<Self> {
        let memory = raw.memory(size)?;
        raw.pin(size, VALUE)?;
        Ok(ByHand {
            raw: RefCell::new(raw),
            memory,
            pageable: RefCell::new(vec![VALUE; size]),
        })
    }

    fn move_once(&self, pinned: bool, way: Way) -> RawResult<()> {
        let raw = &mut *self.raw.borrow_mut();
        match (pinned, way) {
            (true, way) => raw.move_pinned(self.memory, way),
            (false, Way::Up) => raw.write(self.memory, &self.pageable.borrow()),
            (false, Way::Down) => raw.read(self.memory, &mut self.pageable.borrow_mut()),
        }
    }
}

/// Moves a container once, and takes it back.
fn move_once<V: HostView<Element = u8> + Send + 'static>(
    queue: &Queue,
    buffer: &Buffer<u8>,
    container: &mut Option<V>,
    way: Way,
) -> Result<(), BenchError> {
    let Some(given) = container.take() else {
        return Ok(());
    };
    let moved = match way {
        Way::Up => queue.write(buffer, given).and_then(quipu::Pending::wait),
        Way::Down => queue.read_to(buffer, given).and_then(quipu::Pending::wait),
    };
    *container = Some(moved.doing("moving bytes")?);
    Ok(())
}

fn one(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    target: &Target,
    size: usize,
) -> Result<(), BenchError> {
    let queue = target.queue(Completion::Callback)?;
    let buffer = target
        .context()
        .allocate::<u8>(size)
        .doing("making a buffer")?;
    let mut pageable = Some(vec![VALUE; size]);
    let mut pinned = Some(Pinned::<u8>::new(size).doing("pinning memory")?);
    if let Some(pinned) = &mut pinned {
        pinned.fill(VALUE);
    }
    let by_hand = target.raw().and_then(|raw| ByHand::new(raw, size));
    let by_hand = target.or_note(by_hand, report);
    for is_pinned in [false, true] {
        for way in [Way::Up, Way::Down] {
            let mut ours = || match is_pinned {
                false => move_once(&queue, &buffer, &mut pageable, way),
                true => move_once(&queue, &buffer, &mut pinned, way),
            };
            ours()?;
            let started = Instant::now();
            ours()?;
            let once = started.elapsed();
            let enough = (SAMPLE / once.as_secs_f64().max(1e-9)) as usize;
            let times = times(session, once).min(enough.clamp(1, MOST));
            let rate = |microseconds: f64| size as f64 / microseconds / 1e3;
            let mut contenders = vec![Contender::new("quipu", || mean(times, &mut ours).map(rate))];
            if let Some(by_hand) = &by_hand {
                let name = by_hand.raw.borrow().language().interface();
                let theirs = move || Ok(by_hand.move_once(is_pinned, way)?);
                contenders.push(Contender::new(name, move || mean(times, theirs).map(rate)));
            }
            let case = format!(
                "{} KiB, {}, {}",
                size >> 10,
                if is_pinned { "pinned" } else { "pageable" },
                if way == Way::Up { "up" } else { "down" },
            );
            let samples = rows(session, report, plan, target, (&case, "GB/s"), contenders)?;
            let large = size >= 64 << 20 && target.device().kind() == DeviceKind::Gpu;
            if large && !is_pinned && samples.contenders() > 1 {
                let row = report.rows.last();
                let ratio = row.and_then(|row| row.ratio).unwrap_or(f64::NAN);
                let what = format!("{case}, {}, against the interface's own", target.id());
                report.gates.push(Gate::at_least(what, ratio, FASTER, "x"));
            }
        }
    }
    let right = |bytes: &[u8]| bytes.iter().all(|&byte| byte == VALUE);
    let ours = [
        pageable.is_some_and(|bytes| right(&bytes)),
        pinned.is_some_and(|bytes| right(&bytes)),
    ];
    let theirs = by_hand.is_none_or(|by_hand| {
        right(&by_hand.pageable.borrow()) && right(by_hand.raw.borrow().pinned())
    });
    let case = format!("{} KiB", size >> 10);
    session.verify(
        &case,
        "whether what came back is what was sent",
        true,
        ours == [true; 2] && theirs,
    )
}
