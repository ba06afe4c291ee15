//! `stream`: making and filling buffers, and reading back (Schupikov, "OpenCL-HPX Integration",
//! 2021, 5.2).
//!
//! *Input* makes three buffers of so many blocks of 4 x 4 floats a side and fills two of them from
//! the host. *Output* reads one back, after a sum of two. Each is the mean of 1000, or of as many
//! as fit into some seconds. Beside it the same through the device's own interface.

use super::side::{mean, rows, times};
use super::{Doing, Need, Target, numbers, targets};
use crate::error::BenchError;
use crate::harness::{Contender, Plan, Report, Session};
use crate::kernels;
use crate::reference::raw::{Argument, Grid, Memory, Raw, RawResult, Waiting, upload};
use quipu::{Buffer, Completion, Queue};
use std::cell::RefCell;
use std::time::Instant;

const THREADS: usize = 64;

/// The benchmark `stream`.
pub(in crate::benchmarks) fn run(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let targets = targets(session, report, Need::OwnInterface)?;
    let all = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
    let blocks = &all[..session.scale().choose(10, 8, 3)];
    let plan = session.begin(2 * blocks.len() * targets.len());
    for target in &targets {
        for &blocks in blocks {
            one(session, report, &plan, target, blocks)?;
        }
    }
    Ok(())
}

/// Three buffers, the first two filled.
fn input(
    target: &Target,
    queue: &Queue,
    host: &mut [Option<Vec<f32>>; 2],
) -> quipu::Result<[Buffer<f32>; 3]> {
    let length = host[0].as_ref().map_or(0, Vec::len);
    let context = target.context();
    let buffers = [
        context.allocate(length)?,
        context.allocate(length)?,
        context.allocate(length)?,
    ];
    let mut writes = Vec::with_capacity(2);
    for (buffer, host) in buffers.iter().zip(&mut *host) {
        writes.push(queue.write(buffer, host.take().unwrap_or_default())?);
    }
    for (write, host) in writes.into_iter().zip(host) {
        // Given back for the next.
        *host = Some(write.wait()?);
    }
    Ok(buffers)
}

/// The same by hand.
fn raw_input(raw: &mut dyn Raw, host: [&[f32]; 2]) -> RawResult<[Memory; 3]> {
    Ok([
        upload(raw, host[0])?,
        upload(raw, host[1])?,
        raw.memory(size_of_val(host[0]))?,
    ])
}

fn one(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    target: &Target,
    blocks: usize,
) -> Result<(), BenchError> {
    let n = 4 * blocks;
    let length = n * n;
    let (x, y) = (numbers(1, length), numbers(2, length));
    let mut host = [Some(x.clone()), Some(y.clone())];
    let queue = target.queue(Completion::Callback)?;
    let raw = target.or_note(target.raw(), report).map(RefCell::new);

    // Makes the buffers that the second part reads.
    let started = Instant::now();
    let [a, b, mut c] = input(target, &queue, &mut host).doing("making and filling buffers")?;
    let times = times(session, started.elapsed());
    let mut contenders = vec![Contender::new("quipu", || {
        mean(times, || {
            let made = input(target, &queue, &mut host).doing("making and filling buffers");
            made.map(drop)
        })
    })];
    if let Some(raw) = &raw {
        contenders.push(Contender::new(raw.borrow().language().interface(), || {
            mean(times, || {
                let raw = &mut *raw.borrow_mut();
                for memory in raw_input(&mut **raw, [&x, &y])? {
                    raw.release(memory)?;
                }
                Ok(())
            })
        }));
    }
    let case = format!("{blocks} blocks ({n} x {n}), input");
    rows(session, report, plan, target, (&case, "µs"), contenders)?;

    let sum = kernels::add_each(&a, &b, c.overwrite());
    queue
        .post_launch(length, sum)
        .doing("enqueueing a command")?;
    let mut read = Some(vec![0.0_f32; length]);
    let mut raw_read = vec![0.0_f32; length];
    let memory = match &raw {
        Some(raw) => Some(raw_sum(&mut **raw.borrow_mut(), [&x, &y])?),
        None => None,
    };
    let mut contenders = vec![Contender::new("quipu", || {
        mean(times, || {
            let pending = queue.read_to(&c, read.take().unwrap_or_default());
            read = Some(
                pending
                    .and_then(quipu::Pending::wait)
                    .doing("reading a buffer")?,
            );
            Ok(())
        })
    })];
    if let (Some(raw), Some(memory)) = (&raw, memory) {
        let raw_read = &mut raw_read;
        contenders.push(Contender::new(
            raw.borrow().language().interface(),
            move || {
                mean(times, || {
                    let bytes = bytemuck::cast_slice_mut(raw_read);
                    Ok(raw.borrow_mut().read(memory, bytes)?)
                })
            },
        ));
    }
    let case = format!("{blocks} blocks ({n} x {n}), output");
    rows(session, report, plan, target, (&case, "µs"), contenders)?;

    let verify = |side: &str, sums: &[f32]| {
        let wrong = (0..length).find(|&i| sums.get(i) != Some(&(x[i] + y[i])));
        wrong.map_or(Ok(()), |i| {
            let what = format!("element {i} on {}, {side}", target.id());
            Err(session.wrong(&case, what, x[i] + y[i], sums.get(i).unwrap_or(&f32::NAN)))
        })
    };
    verify("ours", &read.unwrap_or_default())?;
    if raw.is_some() {
        verify("by hand", &raw_read)?;
    }
    Ok(())
}

/// The sum by hand, ready to be read.
fn raw_sum(raw: &mut dyn Raw, host: [&[f32]; 2]) -> RawResult<Memory> {
    let [a, b, c] = raw_input(raw, host)?;
    let arguments = [
        Argument::Memory(a),
        Argument::Memory(b),
        Argument::Memory(c),
        Argument::U32(host[0].len() as u32),
    ];
    let grid = Grid::line(host[0].len().div_ceil(THREADS), THREADS);
    let launch = raw.prepare("add_f32", grid, &arguments)?;
    raw.enqueue(launch)?;
    raw.wait(Waiting::Synchronise)?;
    Ok(c)
}
