//! Random programs in OpenCL C against a reference that gives each work-item a stack of its own.
//!
//! `QUIPU_CLC_PROGRAMS` says how many, and `QUIPU_CLC_SEED` which is the first. What does not agree
//! is made smaller, as long as it does not, and printed whole.
//!
//! | file | contents |
//! |---|---|
//! | `types` | types, random numbers |
//! | `generator`, `expressions` | random programs |
//! | `program` | programs as trees, and smaller ones |
//! | `reference`, `reference.cl`, `fibres.c` | programs as they should run |
//! | `compare` | programs run in both ways |

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

#[allow(
    dead_code,
    reason = "launches of it are not for processes of their own"
)]
mod support;

#[path = "random/compare.rs"]
mod compare;
#[path = "random/expressions.rs"]
mod expressions;
#[path = "random/generator.rs"]
mod generator;
#[path = "random/program.rs"]
mod program;
#[path = "random/reference.rs"]
mod reference;
#[path = "random/types.rs"]
mod types;

use compare::Outcome;
use program::Program;
use reference::Reference;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of programs that are compiled at once.
const TOGETHER: u64 = 12;

/// A number that the environment may say.
fn said(name: &str, otherwise: u64) -> u64 {
    let said = std::env::var(name).ok();
    said.map_or(otherwise, |said| said.parse().unwrap())
}

#[test]
fn random_programs_do_as_fibres_do() {
    if support::program("kernel void f() {}").is_none() {
        return;
    }
    let first = said("QUIPU_CLC_SEED", 1);
    let end = first + said("QUIPU_CLC_PROGRAMS", 36);
    let reference = Reference::new();
    let next = AtomicU64::new(first);
    let faults = Mutex::new(Vec::new());
    let work = || {
        loop {
            let start = next.fetch_add(TOGETHER, Relaxed);
            if start >= end {
                return;
            }
            let programs: Vec<Program> = (start..(start + TOGETHER).min(end))
                .map(generator::program)
                .collect();
            let each: Vec<&Program> = programs.iter().collect();
            let outcomes = compare::outcomes(&reference, &each);
            for (program, outcome) in programs.iter().zip(outcomes) {
                if !matches!(outcome, Outcome::Agrees) {
                    let (program, outcome) = made_smaller(&reference, program.clone(), outcome);
                    let report = report(&program, &outcome);
                    println!("{report}");
                    faults.lock().unwrap().push(report);
                }
            }
            if (start - first).is_multiple_of(120) {
                println!("{} of {} programs", start - first, end - first);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(16));
    std::thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(work)));
    let faults = faults.into_inner().unwrap();
    assert!(
        faults.is_empty(),
        "{} of {} programs:\n{}",
        faults.len(),
        end - first,
        faults.join("\n")
    );
}

fn report(program: &Program, outcome: &Outcome) -> String {
    let Program {
        name,
        local,
        groups,
        numbers,
        is_of_size,
        ..
    } = program;
    format!(
        "// {name} {outcome}\n// work-groups of {local:?}, {groups:?} of them, u and m {numbers:?}, compiled for {}\n{}",
        if *is_of_size { "this size" } else { "any size" },
        compare::text(&[program])
    )
}

/// A program with as few statements as give the same kind of fault.
fn made_smaller(
    reference: &Reference,
    mut program: Program,
    mut outcome: Outcome,
) -> (Program, Outcome) {
    // How many are tried.
    let mut left = said("QUIPU_CLC_TRIES", 300);
    let mut from = 0;
    loop {
        let smaller = program.smaller();
        let count = smaller.len();
        let mut found = false;
        // It goes on where it has found one, for what comes before has been tried.
        for at in (from.min(count)..count).chain(0..from.min(count)) {
            if left == 0 {
                return (program, outcome);
            }
            left -= 1;
            let of = compare::outcomes(reference, &[&smaller[at]]).remove(0);
            if of.is_like(&outcome) {
                (program, outcome) = (smaller[at].clone(), of);
                from = at;
                found = true;
                break;
            }
        }
        if !found {
            return (program, outcome);
        }
    }
}
