//! `opencl-calls`: the cost of calls of the C interface in three implementations, interleaved in
//! one run.
//!
//! Each implementation runs in a process of its own, as for `opencl-kernels`, and finds the
//! functions through the system's loader. [`calling`](super::calling) has the calls.

use super::calling::CALLS;
use super::implementation::Player;
use super::{Peers, peers};
use crate::error::{BenchError, SubjectError};
use crate::harness::{
    Contender, Gate, Report, Row, Scale, Session, counted, median, pairwise_ratio,
};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Calls that are measured in the same rounds, for their figures stand beside each other.
struct Group {
    calls: &'static [&'static str],
    /// The number of each that a run makes.
    counts: [usize; 3],
    /// The kind of one of them.
    unit: &'static str,
    promise: Promise,
}

/// The promise of a group.
#[derive(Clone, Copy, Debug)]
enum Promise {
    /// So many nanoseconds at most, for each call.
    Nanoseconds(&'static [f64]),
    /// No more than this peer.
    NoMoreThan(&'static str),
    /// The first at most so many times the second.
    Ratio(f64),
}

const GROUPS: &[Group] = &[
    Group {
        calls: &["chain-in-order", "chain-out-of-order"],
        counts: [20_000, 5_000, 32],
        unit: "ns/kernel",
        promise: Promise::Nanoseconds(&[150.0, 150.0]),
    },
    Group {
        calls: &["enqueue-held-back", "enqueue-contended"],
        counts: [20_000, 5_000, 32],
        unit: "ns/kernel",
        promise: Promise::Nanoseconds(&[200.0, 300.0]),
    },
    Group {
        calls: &["no-op"],
        counts: [5_000, 1_000, 4],
        unit: "ns/kernel",
        promise: Promise::NoMoreThan("Intel"),
    },
    Group {
        calls: &["independent-in-order", "independent-out-of-order"],
        counts: [2_000, 500, 8],
        unit: "ns/kernel",
        promise: Promise::Ratio(1.1),
    },
    Group {
        calls: &[
            "ask-device",
            "ask-queue",
            "ask-memory",
            "ask-kernel",
            "ask-event",
        ],
        counts: [200_000, 50_000, 16],
        unit: "ns/call",
        promise: Promise::Nanoseconds(&[30.0; 5]),
    },
];

/// The groups with a call that was asked for.
fn chosen(session: &Session<'_>) -> Result<Vec<&'static Group>, BenchError> {
    let asked = &session.options.cases;
    if let Some(unknown) = asked.iter().find(|asked| !CALLS.contains(&asked.as_str())) {
        let reason = format!(
            "there is no case {unknown}; there are: {}",
            CALLS.join(", ")
        );
        return Err(SubjectError::failed("choosing cases", reason).into());
    }
    let is_asked = |call: &&str| asked.is_empty() || asked.iter().any(|it| it == call);
    let groups = GROUPS.iter();
    Ok(groups
        .filter(|group| group.calls.iter().any(is_asked))
        .collect())
}

/// The benchmark.
pub(in crate::benchmarks) fn run(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let Some(Peers {
        all,
        arguments,
        folder: _folder,
    }) = peers(session, report)?
    else {
        return Ok(());
    };
    let groups = chosen(session)?;
    let counts = session.worker_counts();
    let plan = session.begin(groups.len() * counts.len());
    for workers in counts {
        let mut players = all
            .iter()
            .map(|one| Player::start(one, arguments, workers))
            .collect::<Result<Vec<_>, _>>()?;
        for group in &groups {
            let [full, quick, tiny] = group.counts;
            let count = session.scale().choose(full, quick, tiny);
            let mut ready: Vec<RefCell<&mut Player>> = Vec::new();
            for (player, implementation) in players.iter_mut().zip(&all) {
                match first(player, group, session.scale()) {
                    Ok(()) => ready.push(RefCell::new(player)),
                    Err(error) if implementation.name == all[0].name => return Err(error),
                    Err(error) => {
                        report.notes.push(error.to_string());
                        // It may have ended.
                        *player = Player::start(implementation, arguments, workers)?;
                    }
                }
            }
            let wrong = RefCell::new(BTreeSet::new());
            let mut contenders = Vec::new();
            for (at, player) in ready.iter().enumerate() {
                for call in group.calls {
                    let wrong = &wrong;
                    contenders.push(Contender::new(*call, move || {
                        match player.borrow_mut().call(call, count) {
                            Ok(seconds) => Ok(seconds * 1e9 / count as f64),
                            Err(error) if at == 0 => Err(error),
                            // A run that another gets wrong has no figure.
                            Err(error) => {
                                wrong.borrow_mut().insert(error.to_string());
                                Ok(f64::NAN)
                            }
                        }
                    }));
                }
            }
            let samples = session.measure(&plan, &mut contenders)?;
            drop(contenders);
            report.notes.extend(wrong.into_inner());
            let names: Vec<&'static str> =
                ready.iter().map(|player| player.borrow().name).collect();
            let of = |player: usize, call: usize| samples.of(player * group.calls.len() + call);
            for (at, call) in group.calls.iter().enumerate() {
                let ours = of(0, at);
                let row = || Row::new(*call, "cpu", workers, group.unit, ours);
                if names.len() == 1 {
                    session.add(report, row());
                }
                for (peer, name) in names.iter().enumerate().skip(1) {
                    session.add(report, row().beside(*name, (ours, of(peer, at))));
                }
            }
            let by_player: Vec<(&str, Vec<&[f64]>)> = names
                .iter()
                .enumerate()
                .map(|(player, name)| {
                    let calls = 0..group.calls.len();
                    (*name, calls.map(|call| of(player, call)).collect())
                })
                .collect();
            report.gates.extend(gates(group, workers, &by_player));
        }
    }
    Ok(())
}

/// One run of each call, which finds out whether the implementation can do it.
fn first(player: &mut Player, group: &Group, scale: Scale) -> Result<(), BenchError> {
    let [_, quick, tiny] = group.counts;
    let count = scale.choose(quick, quick, tiny);
    group
        .calls
        .iter()
        .try_for_each(|call| player.call(call, count).map(|_| ()))
}

/// The promise of a group's calls, of which each player has samples, ours first.
fn gates(group: &Group, workers: usize, players: &[(&str, Vec<&[f64]>)]) -> Vec<Gate> {
    let workers = counted(workers, "worker");
    let [(_, ours), peers @ ..] = players else {
        return Vec::new();
    };
    match group.promise {
        Promise::Nanoseconds(limits) => {
            let limits = group.calls.iter().zip(limits).zip(ours);
            let gate = |((call, limit), samples): ((&&str, &f64), &&[f64])| {
                Gate::at_most(format!("{call}, {workers}"), median(samples), *limit, "ns")
            };
            limits.map(gate).collect()
        }
        Promise::NoMoreThan(peer) => {
            let Some((_, theirs)) = peers.iter().find(|(name, _)| *name == peer) else {
                return Vec::new();
            };
            let pairs = group.calls.iter().zip(ours.iter().zip(theirs));
            let gate = |(call, (ours, theirs)): (&&str, (&&[f64], &&[f64]))| {
                let ratio = pairwise_ratio(ours, theirs).unwrap_or(f64::NAN);
                Gate::at_most(format!("{call} against {peer}, {workers}"), ratio, 1.0, "x")
            };
            pairs.map(gate).collect()
        }
        Promise::Ratio(limit) => {
            let ([first, second, ..], [one, other, ..]) = (group.calls, &ours[..]) else {
                return Vec::new();
            };
            let ratio = pairwise_ratio(one, other).unwrap_or(f64::NAN);
            let what = format!("{first} against {second}, {workers}");
            vec![Gate::at_most(what, ratio, limit, "x")]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_in_one_group_with_a_promise_for_each() {
        let in_groups: Vec<&str> = GROUPS
            .iter()
            .flat_map(|group| group.calls)
            .copied()
            .collect();
        let distinct: BTreeSet<&str> = in_groups.iter().copied().collect();
        assert_eq!(distinct.len(), in_groups.len());
        assert_eq!(distinct, CALLS.iter().copied().collect());
        for group in GROUPS {
            match group.promise {
                Promise::Nanoseconds(limits) => assert_eq!(limits.len(), group.calls.len()),
                Promise::Ratio(_) => assert_eq!(group.calls.len(), 2),
                Promise::NoMoreThan(_) => {}
            }
        }
    }

    /// Gates of a group whose calls have these samples, ours and Intel's.
    fn met(promise: Promise, ours: [&[f64]; 2], theirs: [&[f64]; 2]) -> Vec<bool> {
        let group = Group {
            calls: &["one", "other"],
            counts: [1; 3],
            unit: "ns/call",
            promise,
        };
        let players = [("Quipu", ours.to_vec()), ("Intel", theirs.to_vec())];
        let gates = gates(&group, 2, &players);
        gates.iter().map(|gate| gate.met).collect()
    }

    #[test]
    fn each_promise_is_kept_and_missed() {
        let (fast, slow): (&[f64], &[f64]) = (&[99.0, 100.0, 900.0], &[120.0, 130.0, 140.0]);
        let limits = Promise::Nanoseconds(&[100.0, 100.0]);
        assert_eq!(met(limits, [fast, slow], [slow, slow]), [true, false]);
        let peer = Promise::NoMoreThan("Intel");
        assert_eq!(met(peer, [fast, slow], [slow, fast]), [true, false]);
        assert!(met(Promise::NoMoreThan("PoCL"), [fast; 2], [slow; 2]).is_empty());
        assert_eq!(met(Promise::Ratio(1.1), [fast, fast], [slow; 2]), [true]);
        assert_eq!(met(Promise::Ratio(1.1), [slow, fast], [slow; 2]), [false]);
    }
}
