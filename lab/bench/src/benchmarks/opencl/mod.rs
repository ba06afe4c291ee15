//! Programs in OpenCL C through the C interface of three implementations, interleaved in one run:
//! `opencl-kernels` here, and `opencl-calls` in [`calls`].
//!
//! | file | contents |
//! |---|---|
//! | `kernels/` | the programs |
//! | [`computing`], [`searching`] | the arguments of each |
//! | [`case`] | cases, and numbers for them |
//! | [`calls`], [`calling`] | the cost of calls: the comparison, and the calls |
//! | [`player`] | the process of one implementation |
//! | [`implementation`] | starts such a process, and sends it commands |
//! | here | the comparison |
//!
//! Each implementation runs in a process of its own, on as many cores as there are workers, and
//! launches when it is told. Results are compared before anything is timed. Where the two others
//! agree and Quipu does not, the benchmark fails.

mod calling;
pub(super) mod calls;
mod case;
mod computing;
mod implementation;
mod player;
mod searching;
#[cfg(test)]
mod tests;

use crate::error::{BenchError, SubjectError};
use crate::harness::{Contender, Gate, Report, Row, Scale, Session};
use case::{Case, Entry, Kind, Size};
use implementation::{Implementation, Player};
use std::cell::RefCell;
use std::convert::Infallible;
use std::ffi::OsString;

/// All cases.
fn entries() -> impl Iterator<Item = &'static Entry> {
    computing::ENTRIES.iter().chain(searching::ENTRIES)
}

/// Serves the platform of this name in this process, whose input and output are its parent's.
///
/// # Errors
/// If there is no such platform, or the parent has gone.
pub fn serve_platform(platform: &str) -> Result<Infallible, BenchError> {
    player::serve(platform)?;
    std::process::exit(0)
}

/// The cases that were asked for: all of them, or a part for a quick run.
fn chosen(session: &Session<'_>) -> Result<Vec<&'static Entry>, BenchError> {
    /// Of how many cases a quick run has one.
    const QUICK: usize = 16;
    let asked = &session.options.cases;
    if let Some(unknown) = asked
        .iter()
        .find(|asked| entries().all(|it| it.name != **asked))
    {
        let known: Vec<&str> = entries().map(|entry| entry.name).collect();
        let reason = format!(
            "there is no case {unknown}; there are: {}",
            known.join(", ")
        );
        return Err(SubjectError::failed("choosing cases", reason).into());
    }
    let step = match session.scale() {
        Scale::Quick if asked.is_empty() => QUICK,
        _ => 1,
    };
    let is_chosen = |entry: &&Entry| asked.is_empty() || asked.iter().any(|it| it == entry.name);
    Ok(entries().filter(is_chosen).step_by(step).collect())
}

/// The implementations of this machine, ours first.
struct Peers<'a> {
    all: Vec<Implementation>,
    /// The arguments with which this program comes to [`serve_platform`].
    arguments: &'a [OsString],
    /// Names our library for the loader, as long as it is kept.
    folder: tempfile::TempDir,
}

/// The implementations to measure; none, with a note, if ours cannot be.
fn peers<'a>(session: &Session<'a>, report: &mut Report) -> Result<Option<Peers<'a>>, BenchError> {
    if !quipu_clc::is_available() {
        let note = "NOT MEASURED: the machine has no LLVM to compile OpenCL C with";
        report.notes.push(note.to_owned());
        return Ok(None);
    }
    let Some(arguments) = &session.options.platforms else {
        let note =
            "NOT MEASURED: platforms have processes of their own, which this program cannot start";
        report.notes.push(note.to_owned());
        return Ok(None);
    };
    let folder = tempfile::tempdir()?;
    let mut all = vec![Implementation::ours(folder.path())?];
    for (peer, advice) in [
        (
            Implementation::intel(),
            "Intel's runtime: run scripts/intel-opencl",
        ),
        (Implementation::pocl(), "PoCL: install it"),
    ] {
        match peer {
            Some(peer) => all.push(peer),
            None => report.notes.push(format!("NOT MEASURED beside {advice}")),
        }
    }
    Ok(Some(Peers {
        all,
        arguments,
        folder,
    }))
}

/// The benchmark.
pub(super) fn run(session: &Session<'_>, report: &mut Report) -> Result<(), BenchError> {
    let Some(Peers {
        all,
        arguments,
        folder: _folder,
    }) = peers(session, report)?
    else {
        return Ok(());
    };
    let chosen = chosen(session)?;
    let counts = session.worker_counts();
    let plan = session.begin(chosen.len() * counts.len());
    let scale = session.scale().choose("full", "full", "tiny");
    for workers in counts {
        let mut ratios: Vec<(&'static str, Vec<(f64, &'static str)>)> = Vec::new();
        let mut players = Vec::new();
        for implementation in &all {
            players.push(Player::start(implementation, arguments, workers)?);
        }
        for entry in &chosen {
            let case = (entry.make)(Size(session.scale()));
            let mut ready: Vec<RefCell<&mut Player>> = Vec::new();
            let mut results = Vec::new();
            for (player, implementation) in players.iter_mut().zip(&all) {
                let first = player
                    .load(entry.name, scale)
                    .and_then(|_| player.run())
                    .and_then(|_| player.read());
                match first {
                    Ok(first) => {
                        results.push((player.name, first));
                        ready.push(RefCell::new(player));
                    }
                    Err(error) if implementation.name == all[0].name => return Err(error),
                    Err(error) => {
                        report.notes.push(format!("{}: {error}", entry.name));
                        // It may have ended.
                        *player = Player::start(implementation, arguments, workers)?;
                    }
                }
            }
            verify(session, report, entry.name, &case, &results)?;
            let mut contenders: Vec<Contender<'_>> = ready
                .iter()
                .map(|player| {
                    let name = player.borrow().name;
                    Contender::new(name, move || Ok(1.0 / player.borrow_mut().run()?))
                })
                .collect();
            let samples = session.measure(&plan, &mut contenders)?;
            let row = || Row::new(entry.name, "cpu", workers, "launches/s", samples.of(0));
            if samples.contenders() == 1 {
                session.add(report, row());
            }
            for (peer, player) in ready.iter().enumerate().skip(1) {
                let name = player.borrow().name;
                let row = row().beside(name, (samples.of(0), samples.of(peer)));
                if let Some(ratio) = row.ratio {
                    match ratios.iter_mut().find(|(of, _)| *of == name) {
                        Some((_, ratios)) => ratios.push((ratio, entry.name)),
                        None => ratios.push((name, vec![(ratio, entry.name)])),
                    }
                }
                session.add(report, row);
            }
        }
        report.gates.extend(gates(workers, &ratios));
    }
    Ok(())
}

/// The promise of the ratios to each peer.
fn gates(workers: usize, ratios: &[(&'static str, Vec<(f64, &'static str)>)]) -> Vec<Gate> {
    let mut gates = Vec::new();
    for (peer, ratios) in ratios {
        let logarithms: f64 = ratios.iter().map(|(ratio, _)| ratio.ln()).sum();
        let mean = (logarithms / ratios.len() as f64).exp();
        let least = if *peer == "PoCL" { 8.0 } else { 1.5 };
        let what = format!("geometric mean of the ratios to {peer}, {workers} workers");
        gates.push(Gate::at_least(what, mean, least, "x"));
        let slowest = ratios.iter().min_by(|one, other| one.0.total_cmp(&other.0));
        if let Some((ratio, case)) = slowest {
            let what = format!("least ratio to {peer}, {case}, {workers} workers");
            gates.push(Gate::at_least(what, *ratio, 0.9, "x"));
        }
    }
    gates
}

/// Compares results, ours first. Ours are wrong where two others agree on something else; any other
/// difference is a note.
fn verify(
    session: &Session<'_>,
    report: &mut Report,
    name: &str,
    case: &Case,
    results: &[(&'static str, Vec<u8>)],
) -> Result<(), BenchError> {
    let mut differences = Vec::new();
    for (at, (one, first)) in results.iter().enumerate() {
        for (other, second) in &results[at + 1..] {
            if let Some(difference) = difference(case, first, second) {
                differences.push(format!("{one} and {other} differ: {difference}"));
            }
        }
    }
    let [ours, ..] = results else { return Ok(()) };
    let is_of_ours = |difference: &String| difference.starts_with(ours.0);
    if results.len() == 3 && differences.len() == 2 && differences.iter().all(is_of_ours) {
        return Err(session.wrong(
            name,
            "a result",
            "what the others have",
            differences.join("; "),
        ));
    }
    let notes = differences.into_iter();
    report
        .notes
        .extend(notes.map(|difference| format!("{name}: {difference}")));
    Ok(())
}

/// A place at which two results differ by more than the case allows.
fn difference(case: &Case, one: &[u8], other: &[u8]) -> Option<String> {
    let mut start = 0;
    for (index, data) in case.results() {
        let end = start + data.bytes.len();
        let (one, other) = (&one[start..end], &other[start..end]);
        start = end;
        let count = data.bytes.len() / data.kind.size();
        let (mut apart, mut first) = (0_usize, None);
        for at in 0..count {
            let [one, other] = [one, other].map(|bytes| number(data.kind, bytes, at));
            let most = match data.kind {
                Kind::Float => case.tolerance * one.abs().max(other.abs()).max(1.0),
                _ => 0.0,
            };
            let is_same = (one - other).abs() <= most || (one.is_nan() && other.is_nan());
            if !is_same && one != other {
                apart += 1;
                first.get_or_insert((at, one, other));
            }
        }
        if let Some((at, one, other)) = first
            && apart as f64 > case.apart * count as f64
        {
            return Some(format!(
                "{apart} of {count} results in memory {index}, the first {one} and {other} at {at}"
            ));
        }
    }
    None
}

fn number(kind: Kind, bytes: &[u8], at: usize) -> f64 {
    let word = |at: usize| {
        let four = bytes[4 * at..].first_chunk::<4>();
        four.copied().unwrap_or_default()
    };
    match kind {
        Kind::Byte => f64::from(bytes[at]),
        Kind::Int => f64::from(i32::from_le_bytes(word(at))),
        Kind::Float => f64::from(f32::from_le_bytes(word(at))),
    }
}
