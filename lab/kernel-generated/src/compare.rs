//! The comparison of cases that run natively and printed.

use quipu_kernel_ir::print::Fault;
use quipu_kernel_ir::{Dialect, ElementOrder, IndexWidth, Options, Printed};
use quipu_kernel_testing::{
    C99Program, Division, Launch, OpenClProgram, TestingError, opencl_features,
};

use crate::case::{Case, Data};
use crate::native::{Failure, Way};

/// The difference.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The kernel.
    pub case: Case,
    /// In a line.
    pub what: String,
}

impl Difference {
    /// With the input.
    #[must_use]
    pub fn text(&self) -> String {
        let Case { name, seed, .. } = self.case;
        format!(
            "{name} (seed {seed:#x}): {}\n{}",
            self.what,
            Data::of(&self.case).text(&self.case)
        )
    }
}

/// The result of a run.
#[derive(Clone)]
struct Outcome {
    way: String,
    data: Data,
    result: Result<(), Failure>,
}

/// Compares each case in all ways with what it gives with checks; the first difference of each
/// case.
///
/// Sources are printed with indices of 32 or of 64 bits, as the seed says; for elements that are
/// contiguous, as threads have them natively, and, unless what is written depends on that, for
/// strided ones: as C99, and, if that is asked for, as OpenCL C, which takes a device's compiler
/// its time for each.
#[must_use]
pub fn compare(cases: &[Case], opencl: bool) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut left = Vec::new();
    for case in cases {
        let reference = native(case, &Way::checked());
        let different = Way::all(case.is_block)
            .iter()
            .find_map(|way| difference(case, &reference, &native(case, way)));
        match different {
            None => left.push((*case, reference)),
            Some(what) => differences.push(Difference { case: *case, what }),
        }
    }
    for order in [ElementOrder::Contiguous, ElementOrder::Strided] {
        let mut next = Vec::new();
        for part in left.chunks(64) {
            for ((case, reference), what) in part.iter().zip(run_c99(part, order)) {
                let what = what.and_then(|()| {
                    if opencl {
                        let outcome = run_opencl(case, order)?;
                        difference(case, reference, &outcome).map_or(Ok(()), Err)
                    } else {
                        Ok(())
                    }
                });
                match what {
                    Ok(()) if case.is_ordered => {}
                    Ok(()) => next.push((*case, reference.clone())),
                    Err(what) => differences.push(Difference { case: *case, what }),
                }
            }
        }
        left = next;
    }
    differences
}

/// The difference of each case whose source is printed as C99. All are compiled in one go.
fn run_c99(cases: &[(Case, Outcome)], order: ElementOrder) -> Vec<Result<(), String>> {
    let printed: Vec<_> = cases
        .iter()
        .map(|(case, _)| print(case, Dialect::C99, order))
        .collect();
    let sources: Vec<&Printed> = printed.iter().flatten().collect();
    let mut programs = C99Program::compile_together(&sources, &["-O2"]).into_iter();
    let mut what = |(case, reference): &(Case, Outcome), printed: &Result<Printed, String>| {
        printed.as_ref().map_err(Clone::clone)?;
        let program = programs.next().expect("there is one of each source");
        let program = program.map_err(|error| error.to_string())?;
        let run = |launch: &mut Launch| program.run(launch);
        let outcome = run_printed(case, ("C99", order), &run)?;
        difference(case, reference, &outcome).map_or(Ok(()), Err)
    };
    let both = cases.iter().zip(&printed);
    both.map(|(case, printed)| what(case, printed)).collect()
}

fn native(case: &Case, way: &Way) -> Outcome {
    let mut data = Data::of(case);
    let result = (case.run)(&mut data, way);
    Outcome {
        way: way.name.to_owned(),
        data,
        result,
    }
}

/// Printed as OpenCL C, on the system's first device.
fn run_opencl(case: &Case, order: ElementOrder) -> Result<Outcome, String> {
    let printed = print(case, Dialect::OpenCl(opencl_features()), order)?;
    let program = OpenClProgram::compile(&printed).map_err(|error| error.to_string())?;
    let mut outcome = run_printed(case, ("OpenCL C", order), &|launch| program.run(launch))?;
    if let Err(failure) = &mut outcome.result {
        // Work-groups run at the same time, and any of them is the first.
        failure.thread = None;
    }
    Ok(outcome)
}

fn print(case: &Case, dialect: Dialect, elements: ElementOrder) -> Result<Printed, String> {
    let module = (case.module)().map_err(|error| format!("no source: {error}"))?;
    let width = if case.is_wide || case.seed % 2 == 1 {
        IndexWidth::Bits64
    } else {
        IndexWidth::Bits32
    };
    let options = Options {
        elements,
        ..Options::new(dialect, width)
    };
    module
        .print(dialect, &options)
        .map_err(|error| format!("not printed: {error}"))
}

/// Runs printed source: in such a language, for such elements.
fn run_printed(
    case: &Case,
    (language, order): (&str, ElementOrder),
    run: &dyn Fn(&mut Launch) -> Result<Option<Fault>, TestingError>,
) -> Result<Outcome, String> {
    let [blocks, threads, elements] = case
        .division
        .map(|extent| extent.iter().map(|one| *one as u64).collect());
    let mut data = Data::of(case);
    let mut launch = Launch::new(
        Division {
            blocks,
            threads,
            elements,
        },
        data.printed(case),
    )
    .with_shared(case.shared.iter().copied());
    let fault = run(&mut launch).map_err(|error| error.to_string())?;
    for (at, argument) in launch.arguments.iter().enumerate() {
        data.keep_printed(at, argument);
    }
    let result = fault.map_or(Ok(()), |fault| {
        Err(Failure {
            // Where elements are others', so are their mistakes.
            thread: (order == ElementOrder::Contiguous).then_some(fault.thread),
            message: fault.to_string(),
        })
    });
    Ok(Outcome {
        way: match order {
            ElementOrder::Contiguous => language.to_owned(),
            ElementOrder::Strided => format!("{language} in strides"),
        },
        data,
        result,
    })
}

/// The fault, by words of rustc's panics and of printed faults.
#[must_use]
pub fn kind(message: &str) -> Option<&'static str> {
    const KINDS: [(&str, &[&str]); 3] = [
        (
            "bounds",
            &[
                "out of bounds",
                "out of range",
                "of element",
                "outside of the slice",
            ],
        ),
        (
            "division by zero",
            &["divide by zero", "divisor of zero", "division by zero"],
        ),
        (
            "overflowing division",
            &["with overflow", "of the smallest number"],
        ),
    ];
    let is_said = |words: &&str| message.contains(*words);
    let said = KINDS.iter().find(|(_, words)| words.iter().any(is_said));
    said.map(|(kind, _)| *kind)
}

/// The difference of two runs: whether they fail, the failing thread and its fault, or their
/// output.
fn difference(case: &Case, reference: &Outcome, other: &Outcome) -> Option<String> {
    let ways = format!("{} and {}", reference.way, other.way);
    match (&reference.result, &other.result) {
        (Ok(()), Ok(())) => reference
            .data
            .difference(&other.data, case)
            .map(|what| format!("{ways} differ: {what}")),
        (Err(ours), Err(theirs)) => {
            let is_same = match ours.thread.zip(theirs.thread) {
                None => true,
                Some((one, other)) if one != other => false,
                Some(_) => kind(&ours.message)
                    .zip(kind(&theirs.message))
                    .is_none_or(|(ours, theirs)| ours == theirs),
            };
            (!is_same).then(|| {
                format!(
                    "{ways} fail in different threads, or in different ways: {} and {}",
                    ours.message, theirs.message
                )
            })
        }
        (Ok(()), Err(failure)) => Some(format!(
            "only {} fails (of {ways}): {}",
            other.way, failure.message
        )),
        (Err(failure), Ok(())) => Some(format!(
            "only {} fails (of {ways}): {}",
            reference.way, failure.message
        )),
    }
}
