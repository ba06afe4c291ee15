//! Runs cases natively and printed, and says what differs.

use quipu_kernel_ir::print::Fault;
use quipu_kernel_ir::{Dialect, ElementOrder, IndexWidth, OpenClFeatures, Options, Printed};
use quipu_kernel_testing::{C99Program, Division, Launch, OpenClProgram, TestingError};

use crate::case::{Case, Data};
use crate::native::{Failure, Way};

/// What differs.
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

/// What a run gave.
struct Outcome {
    way: String,
    data: Data,
    result: Result<(), Failure>,
}

/// Compares each case in all ways with what it gives with checks; the first difference of each case.
///
/// Sources are printed with indices of 32 or of 64 bits, as the seed says: as C99, and, if that is asked for, as OpenCL C,
/// which takes a device's compiler its time for each.
#[must_use]
pub fn compare(cases: &[Case], opencl: bool) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut printed = Vec::new();
    for case in cases {
        let reference = native(case, &Way::checked());
        let different = Way::all(case.is_block)
            .iter()
            .find_map(|way| difference(case, &reference, &native(case, way)));
        match different.map_or_else(|| print(case, Dialect::C99), Err) {
            Ok(source) => printed.push((*case, reference, source)),
            Err(what) => differences.push(Difference { case: *case, what }),
        }
    }
    for part in printed.chunks(64) {
        let sources: Vec<&Printed> = part.iter().map(|(_, _, printed)| printed).collect();
        let programs = C99Program::compile_together(&sources, &["-O2"]);
        for ((case, reference, _), program) in part.iter().zip(programs) {
            let what = match program {
                Ok(program) => run_printed(case, "C99", &|launch| program.run(launch))
                    .and_then(|outcome| difference(case, reference, &outcome).map_or(Ok(()), Err)),
                Err(error) => Err(format!("{error}")),
            };
            let what = what.and_then(|()| {
                if opencl {
                    let outcome = run_opencl(case)?;
                    difference(case, reference, &outcome).map_or(Ok(()), Err)
                } else {
                    Ok(())
                }
            });
            if let Err(what) = what {
                differences.push(Difference { case: *case, what });
            }
        }
    }
    differences
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
fn run_opencl(case: &Case) -> Result<Outcome, String> {
    let printed = print(case, Dialect::OpenCl(OpenClFeatures::USUAL))?;
    let program = OpenClProgram::compile(&printed).map_err(|error| error.to_string())?;
    let mut outcome = run_printed(case, "OpenCL C", &|launch| program.run(launch))?;
    if let Err(failure) = &mut outcome.result {
        // Work-groups run at the same time, and any of them is the first.
        failure.thread = None;
    }
    Ok(outcome)
}

fn print(case: &Case, dialect: Dialect) -> Result<Printed, String> {
    let module = (case.module)().map_err(|error| format!("no source: {error}"))?;
    let width = if case.is_wide || case.seed % 2 == 1 {
        IndexWidth::Bits64
    } else {
        IndexWidth::Bits32
    };
    let options = Options {
        // In the order that threads have natively, as what they add up depends on it.
        elements: ElementOrder::Contiguous,
        ..Options::new(dialect, width)
    };
    module
        .print(dialect, &options)
        .map_err(|error| format!("not printed: {error}"))
}

/// Runs printed source: in a way of such a name, which says what went wrong.
fn run_printed(
    case: &Case,
    way: &str,
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
            thread: Some(fault.thread),
            message: fault.to_string(),
        })
    });
    Ok(Outcome {
        way: way.to_owned(),
        data,
        result,
    })
}

/// What two runs do not have in common: whether they fail, the thread that does, or what they have written.
fn difference(case: &Case, reference: &Outcome, other: &Outcome) -> Option<String> {
    let ways = format!("{} and {}", reference.way, other.way);
    match (&reference.result, &other.result) {
        (Ok(()), Ok(())) => reference
            .data
            .difference(&other.data, case)
            .map(|what| format!("{ways} differ: {what}")),
        (Err(ours), Err(theirs)) => {
            let threads = ours.thread.zip(theirs.thread);
            let is_same = threads.is_none_or(|(ours, theirs)| ours == theirs);
            (!is_same).then(|| {
                format!(
                    "{ways} fail in different threads: {} and {}",
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
