//! Notes on the passes' work for a kernel, by lines of its text, for people who write kernels.

use crate::compiler::llvm::*;
use crate::compiler::program::TEXT_NAME;
use std::collections::BTreeSet;

/// Notes about a kernel.
#[derive(Default)]
pub(in crate::compiler) struct Notes {
    pub(in crate::compiler) versions: Vec<VersionNotes>,
    /// The number of loops over work-items in all versions so far.
    loops: usize,
    /// The scope of instructions that are written now: the last loop.
    scope: Option<Metadata>,
}

/// Notes about a version of a kernel.
#[derive(Default)]
pub(in crate::compiler) struct VersionNotes {
    /// The groups that run it.
    pub(in crate::compiler) groups: String,
    /// Sentences on lines; on the whole version, if the line is 0.
    pub(in crate::compiler) sentences: BTreeSet<(u32, String)>,
    /// Lines with branches at which all work-items go the same way, and with those at which they
    /// part.
    pub(in crate::compiler) same: BTreeSet<u32>,
    pub(in crate::compiler) parted: BTreeSet<u32>,
    /// Lines with branches at which the first work-items go one way and the others the other.
    pub(in crate::compiler) split: BTreeSet<u32>,
    pub(in crate::compiler) loops: Vec<ItemLoop>,
}

/// A loop over work-items.
pub(in crate::compiler) struct ItemLoop {
    /// Its number, of all versions. LLVM takes it for the name of a file.
    pub(in crate::compiler) number: usize,
    /// The lines that its instructions are of.
    pub(in crate::compiler) lines: BTreeSet<u32>,
}

impl Notes {
    /// Begins those of the next version.
    pub(super) fn begin(&mut self, groups: String) {
        self.versions.push(VersionNotes {
            groups,
            ..VersionNotes::default()
        });
    }

    pub(super) fn version(&mut self) -> &mut VersionNotes {
        if self.versions.is_empty() {
            self.begin(String::new());
        }
        let last = self.versions.len() - 1;
        &mut self.versions[last]
    }

    /// Notes something about a line, if it is known.
    pub(super) fn say(&mut self, line: Option<u32>, sentence: String) {
        let line = line.unwrap_or(0);
        self.version().sentences.insert((line, sentence));
    }

    /// The number that the next loop over work-items has.
    pub(super) fn next_loop(&self) -> usize {
        self.loops
    }

    /// Begins such a loop.
    pub(super) fn enter(&mut self, scope: Metadata) {
        let number = self.loops;
        self.loops += 1;
        self.scope = Some(scope);
        self.version().loops.push(ItemLoop {
            number,
            lines: BTreeSet::new(),
        });
    }

    /// Ends it.
    pub(super) fn leave(&mut self) {
        self.scope = None;
    }

    /// Notes that the loop has an instruction of a line. Gives its place for LLVM.
    pub(super) fn place(&mut self, context: Context, line: Option<u32>) -> Option<Metadata> {
        let scope = self.scope?;
        if let (Some(line), Some(of)) = (line, self.version().loops.last_mut()) {
            of.lines.insert(line);
        }
        let line = line.unwrap_or(0);
        Some(LLVMDIBuilderCreateDebugLocation(
            context,
            line,
            0,
            scope,
            Metadata::NULL,
        ))
    }
}

/// The line of the program's text that an instruction is of. One of a file that the text includes
/// is of where it is called.
pub(in crate::compiler) fn line(instruction: Value) -> Option<u32> {
    let location = LLVMInstructionGetDebugLoc(instruction).some()?;
    line_of(location)
}

fn line_of(innermost: Metadata) -> Option<u32> {
    let mut at = Some(innermost);
    let in_text = std::iter::from_fn(|| {
        let location = at?;
        at = LLVMDILocationGetInlinedAt(location).some();
        Some(location)
    })
    .find(|location| {
        let file = LLVMDIScopeGetFile(LLVMDILocationGetScope(*location));
        file.some().is_some_and(|file| {
            let mut length = 0;
            let name = LLVMDIFileGetFilename(file, &raw mut length);
            bytes(name, length as usize) == TEXT_NAME.as_bytes()
        })
    });
    let line = LLVMDILocationGetLine(in_text.unwrap_or(innermost));
    (line > 0).then_some(line)
}

/// The line where a loop begins that ends its turns with this branch.
pub(super) fn line_of_loop(context: Context, branch: Value) -> Option<u32> {
    const LOCATION: i32 = 5;
    let node = LLVMGetMetadata(branch, metadata_kind(context, "llvm.loop"));
    let parts = node.some().map(node_operands).unwrap_or_default();
    let parts = parts
        .into_iter()
        .filter_map(Value::some)
        .map(LLVMValueAsMetadata);
    let mut starts = parts.filter(|part| LLVMGetMetadataKind(*part) == LOCATION);
    starts.next().map_or_else(|| line(branch), line_of)
}

/// Things, one after the other, as people list them.
pub(in crate::compiler) fn listed(things: &[String]) -> String {
    match things {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Lines: "line 4", "lines 4 to 6 and 9".
pub(in crate::compiler) fn lines(numbers: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let one = |(first, last): &(u32, u32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first} to {last}"),
    };
    let word = if numbers.len() == 1 { "line" } else { "lines" };
    let ranges: Vec<String> = ranges.iter().map(one).collect();
    format!("{word} {}", ranges.join(", "))
}
