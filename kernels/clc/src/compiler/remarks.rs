//! LLVM's remarks on the loops over work-items, and the explanation of a whole kernel.
//!
//! The passes give each loop over work-items a place of its own, "file 7", and its instructions the
//! user's lines there. So what LLVM says of an instruction in it begins with `7:12:0: `.

use super::llvm::*;
use super::object;
use super::workgroup::{Notes, line, lines, listed};
use crate::metadata::Layout;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::fmt::Write;

/// LLVM's remarks while a module is optimised.
pub(super) struct Remarks {
    /// It stays until the process ends, as the context does.
    said: *mut Vec<String>,
}

/// The outcome of a loop over work-items, and of copies of it.
#[derive(Default)]
struct Outcome {
    /// LLVM's own words for it: "vectorization width: 16, interleaved count: 4".
    vectors: BTreeSet<String>,
    /// The reasons against vectors, each with the line that is at fault.
    scalar: BTreeSet<(u32, String)>,
}

extern "C" fn hear(diagnostic: *mut c_void, said: *mut c_void) {
    let text = string(LLVMGetDiagInfoDescription(diagnostic));
    // SAFETY: `Remarks::of` has given its list, which stays, and nobody else looks at it while LLVM
    // runs.
    unsafe { (*said.cast::<Vec<String>>()).push(text) };
}

impl Remarks {
    /// Has LLVM say what it does with loops.
    pub(super) fn of(context: Context) -> Self {
        object::tell(&[
            c"-pass-remarks=loop-vectorize",
            c"-pass-remarks-analysis=loop-vectorize",
        ]);
        let said: *mut Vec<String> = Box::into_raw(Box::default());
        LLVMContextSetDiagnosticHandler(context, hear, said.cast());
        Self { said }
    }

    /// The outcome of each loop over work-items.
    fn outcomes(&self) -> BTreeMap<usize, Outcome> {
        // SAFETY: LLVM is through, so nobody else has the list.
        let said = unsafe { &*self.said };
        let mut outcomes: BTreeMap<usize, Outcome> = BTreeMap::new();
        for remark in said {
            let mut parts = remark.splitn(4, ':');
            let [Some(number), Some(line), _, Some(text)] = std::array::from_fn(|_| parts.next())
            else {
                continue;
            };
            let Ok(number) = number.parse() else { continue };
            let (line, text) = (line.parse().unwrap_or(0), text.trim());
            if let Some(how) = text.strip_prefix("vectorized loop (") {
                let outcome = outcomes.entry(number).or_default();
                outcome.vectors.insert(how.trim_end_matches(')').to_owned());
            } else if let Some(why) = text.strip_prefix("loop not vectorized: ")
                && !why.starts_with("the optimizer was unable")
            {
                let outcome = outcomes.entry(number).or_default();
                outcome.scalar.insert((line, why.to_owned()));
            }
        }
        outcomes
    }
}

/// The sentences about a kernel.
pub(super) fn explanation(
    kernel: &str,
    local_size: Option<[u32; 3]>,
    layout: &Layout,
    notes: &Notes,
    remarks: &Remarks,
    module: Module,
) -> String {
    let outcomes = remarks.outcomes();
    let size = match local_size {
        Some([x, 1, 1]) => format!("work-groups of {x} work-items"),
        Some([x, y, 1]) => format!("work-groups of {x} x {y} work-items"),
        Some([x, y, z]) => format!("work-groups of {x} x {y} x {z} work-items"),
        None => "work-groups of any size (a size that is known makes better code)".to_owned(),
    };
    let mut text = format!("kernel {kernel}, for {size}:\n");
    let Layout {
        local_bytes,
        spill_bytes_per_item,
        ..
    } = layout;
    let _ = writeln!(
        text,
        "  memory of a group: {local_bytes} bytes of local variables, and {spill_bytes_per_item} bytes for each work-item: what it \
         keeps across barriers, and arrays of its own"
    );
    for version in &notes.versions {
        let _ = writeln!(text, "  {}:", version.groups);
        let mut sentences = version.sentences.clone();
        // Those that are split have no mask any more.
        let parted = version.parted.difference(&version.split).copied().collect();
        let branches = [
            (
                &version.same,
                "all work-items go the same way at this branch",
            ),
            (
                &version.split,
                "the first work-items go one way at this branch, the others the other, in two loops without the test",
            ),
            (
                &parted,
                "work-items part at this branch: both ways are run, and masks say for which",
            ),
        ];
        for (numbers, sentence) in branches {
            sentences.extend(numbers.iter().map(|line| (*line, sentence.to_owned())));
        }
        for (line, sentence) in sentences {
            let _ = match line {
                0 => writeln!(text, "    {sentence}"),
                _ => writeln!(text, "    line {line}: {sentence}"),
            };
        }
        let mut told_of: BTreeSet<u32> = BTreeSet::new();
        for of in &version.loops {
            if let Some(outcome) = outcomes.get(&of.number) {
                let _ = writeln!(
                    text,
                    "    work-items, {}: {}",
                    lines(&of.lines),
                    told(outcome)
                );
                told_of.extend(&of.lines);
            }
        }
        let all = version.loops.iter().flat_map(|of| &of.lines);
        let rest: BTreeSet<u32> = all
            .copied()
            .filter(|line| !told_of.contains(line))
            .collect();
        if !rest.is_empty() {
            let _ = writeln!(
                text,
                "    work-items, {}: no loop is left, as they are few, or have nothing to do there",
                lines(&rest)
            );
        }
    }
    text.push_str(&slow_instructions(module));
    text
}

/// The outcome of a loop, as a sentence.
fn told(outcome: &Outcome) -> String {
    let vectors = outcome.vectors.iter().map(|how| {
        let mut numbers = how
            .split(|c: char| !c.is_ascii_digit())
            .filter(|n| !n.is_empty());
        let scale = if how.contains("vscale") {
            "a multiple of "
        } else {
            ""
        };
        let width = numbers.next().unwrap_or("?");
        match numbers.next() {
            Some("1") | None => format!("vectors of {scale}{width} work-items"),
            Some(count) => {
                format!("vectors of {scale}{width} work-items, {count} vectors at a time")
            }
        }
    });
    let vectors: Vec<String> = vectors.collect();
    let scalar = outcome.scalar.iter().map(|(line, why)| match line {
        0 | 1 => format!("LLVM: {why}"),
        _ => format!("LLVM, of line {line}: {why}"),
    });
    let scalar: Vec<String> = scalar.collect();
    match (&vectors[..], &scalar[..]) {
        (_, []) => listed(&vectors),
        ([], _) => format!("one after the other, no vectors ({})", scalar.join("; ")),
        _ => format!(
            "{}; a copy of the loop has none ({})",
            listed(&vectors),
            scalar.join("; ")
        ),
    }
}

/// Instructions that take long, by lines: those that fetch the numbers of a vector one by one, and
/// calls of the system's libraries.
fn slow_instructions(module: Module) -> String {
    let mut found: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for function in module.functions() {
        for instruction in blocks(function).into_iter().flat_map(Block::instructions) {
            let (Some(callee), Some(line)) = (instruction.callee(), line(instruction)) else {
                continue;
            };
            let what = if callee.starts_with("llvm.masked.gather") {
                "the numbers of a vector are read from a place each, one by one".to_owned()
            } else if callee.starts_with("llvm.masked.scatter") {
                "the numbers of a vector are written to a place each, one by one".to_owned()
            } else if let Some(name) = of_system(module, &callee) {
                format!(
                    "`{name}` of the system's library is called for one work-item after the other"
                )
            } else {
                continue;
            };
            found.entry(what).or_default().insert(line);
        }
    }
    let mut text = String::new();
    for (what, of) in found {
        let _ = writeln!(text, "  {}: {what}", lines(&of));
    }
    text
}

/// The name of a function of the system's libraries, if this is one, or becomes one.
fn of_system(module: Module, callee: &str) -> Option<&str> {
    const BECOME_CALLS: [&str; 9] = [
        "cos", "exp", "exp10", "exp2", "log", "log10", "log2", "pow", "sin",
    ];
    match callee.strip_prefix("llvm.") {
        Some(intrinsic) => {
            let name = intrinsic.split('.').next()?;
            BECOME_CALLS.contains(&name).then_some(name)
        }
        None => {
            let function = module.function(callee)?;
            (LLVMIsDeclaration(function) != 0).then_some(callee)
        }
    }
}
