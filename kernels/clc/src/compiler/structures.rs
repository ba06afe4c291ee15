//! Structures of four numbers that work-items gather, read as a whole.
//!
//! In `bodies[near[i]]`, of `float4`, the optimiser gathers the first number of each work-item's,
//! then the second one, and so on: as many reads as there are numbers. Here each work-item's
//! structure is one read, and four vectors are made of all of them by shuffles:
//!
//! ```text
//! rows 0, 4, 8, 12 ─┐                              ┌─▶ x of all
//! rows 1, 5, 9, 13 ─┼─▶ each four, transposed ─────┼─▶ y of all
//! rows 2, 6, 10, 14 ┼                              ┼─▶ z of all
//! rows 3, 7, 11, 15 ┘                              └─▶ w of all
//! ```
//!
//! All work-items have to take part, so that what is read is there: four numbers that are read, or
//! some of four that lie at a multiple of their bytes.

use super::Fault;
use super::llvm::*;
use super::neighbours;
use super::workgroup::keeps_reads_in_place;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The beginning of the functions' names.
const PREFIX: &str = "__q_structures.";

/// The numbers of a structure, and their bytes.
const NUMBERS: u64 = 4;
const BYTES: u64 = 4;

/// The least number of gathers that take longer than reads of structures.
const FEWEST: usize = 3;

/// Gathers of numbers of the same structures, one after the other.
struct Group {
    /// The addresses of the structures' first numbers.
    base: Value,
    /// The number of work-items that take part.
    count: u64,
    /// The type of a number, in names of functions.
    element: String,
    space: String,
    /// The gathers, and which number each reads.
    gathers: Vec<(Value, u64)>,
    /// The numbers that all work-items read.
    all: [bool; NUMBERS as usize],
    /// True if the structures lie at multiples of their bytes.
    is_aligned: bool,
}

/// A gather: its structure's address, which number of it, and what is gathered.
struct Gather {
    base: Value,
    number: u64,
    count: u64,
    element: String,
    space: String,
    takes_all: bool,
    align: u64,
}

impl Gather {
    fn of(call: Value) -> Option<Self> {
        let name = call.callee()?;
        let rest = name.strip_prefix("llvm.masked.gather.v")?;
        let (vector, pointers) = rest.split_once('.')?;
        let (count, element) = vector.split_at(vector.find(|c: char| !c.is_ascii_digit())?);
        let (_, space) = pointers.rsplit_once('p')?;
        let count: u64 = count.parse().ok()?;
        if !["i32", "f32"].contains(&element) || ![4, 8, 16].contains(&count) {
            return None;
        }
        let address = LLVMGetOperand(call, 0);
        let is_member = address.opcode() == Some(op::GEP)
            && LLVMGetNumOperands(address) == 2
            && LLVMGetGEPSourceElementType(address).is_integer(8);
        let offset = match is_member {
            true => LLVMGetOperand(address, 1).number(),
            false => None,
        };
        let inner = offset.filter(|offset| offset % BYTES == 0 && *offset < NUMBERS * BYTES);
        let (base, offset) = match inner {
            Some(offset) => (LLVMGetOperand(address, 0), offset),
            None => (address, 0),
        };
        let mask = LLVMGetOperand(call, 2);
        Some(Self {
            base,
            number: offset / BYTES,
            count,
            element: element.to_owned(),
            space: space.to_owned(),
            takes_all: mask == LLVMConstAllOnes(mask.ty()),
            align: LLVMGetOperand(call, 1)
                .number()
                .filter(|align| *align >= BYTES)?,
        })
    }
}

impl Group {
    /// True if the structures may be read as a whole, and that takes less time.
    fn is_read(&self) -> bool {
        let is_whole = self.all.iter().all(|is_read| *is_read);
        let begins = self.gathers[0].0;
        let takes_all = Gather::of(begins).is_some_and(|gather| gather.takes_all);
        self.gathers.len() >= FEWEST && takes_all && (is_whole || self.is_aligned)
    }

    /// The name of the function that reads.
    fn name(&self) -> String {
        let Self {
            count,
            element,
            space,
            is_aligned,
            ..
        } = self;
        format!("{PREFIX}{count}.{element}.{space}.{is_aligned}")
    }

    /// The function that reads, as LLVM's text.
    fn text(&self) -> String {
        let Self { count, space, .. } = self;
        let number = if self.element == "f32" {
            "float"
        } else {
            "i32"
        };
        let align = if self.is_aligned {
            NUMBERS * BYTES
        } else {
            BYTES
        };
        let (row, vector) = (
            format!("<{NUMBERS} x {number}>"),
            format!("<{count} x {number}>"),
        );
        let pointers = format!("<{count} x ptr addrspace({space})>");
        let result = vec![vector.as_str(); NUMBERS as usize].join(", ");
        let mut text = format!(
            "define {{ {result} }} @\"{}\"({pointers} %from) alwaysinline {{\n",
            self.name()
        );
        for lane in 0..*count {
            let _ = writeln!(
                text,
                "  %p{lane} = extractelement {pointers} %from, i64 {lane}\n  \
                 %r{lane} = load {row}, ptr addrspace({space}) %p{lane}, align {align}"
            );
        }
        let list = |numbers: &[u64]| {
            let numbers: Vec<String> = numbers
                .iter()
                .map(|number| format!("i32 {number}"))
                .collect();
            format!("<{} x i32> <{}>", numbers.len(), numbers.join(", "))
        };
        // Four vectors, each of every fourth row.
        for first in 0..NUMBERS {
            let mut names: Vec<String> = (0..count / NUMBERS)
                .map(|at| format!("%r{}", first + NUMBERS * at))
                .collect();
            let mut width = NUMBERS;
            while names.len() > 1 {
                let every: Vec<u64> = (0..2 * width).collect();
                let pairs = names.chunks(2).enumerate().map(|(at, pair)| {
                    let name = format!("%j{first}.{width}.{at}");
                    let of = format!("<{width} x {number}>");
                    let _ = writeln!(
                        text,
                        "  {name} = shufflevector {of} {}, {of} {}, {}",
                        pair[0],
                        pair[1],
                        list(&every)
                    );
                    name
                });
                names = pairs.collect();
                width *= 2;
            }
            let _ = writeln!(
                text,
                "  %q{first} = shufflevector {vector} {0}, {vector} poison, {1}",
                names[0],
                list(&(0..*count).collect::<Vec<_>>())
            );
        }
        // Of each four of a vector, some of one and some of another, the other's being numbered
        // behind all of the one.
        let mut shuffle = |name: &str, one: &str, other: &str, taken: [u64; 4]| {
            let lanes = (0..count / NUMBERS).flat_map(|four| {
                taken.map(|at| match at {
                    0..NUMBERS => NUMBERS * four + at,
                    _ => count + NUMBERS * four + at - NUMBERS,
                })
            });
            let lanes: Vec<u64> = lanes.collect();
            let _ = writeln!(
                text,
                "  %{name} = shufflevector {vector} %{one}, {vector} %{other}, {}",
                list(&lanes)
            );
        };
        shuffle("low01", "q0", "q1", [0, 4, 1, 5]);
        shuffle("high01", "q0", "q1", [2, 6, 3, 7]);
        shuffle("low23", "q2", "q3", [0, 4, 1, 5]);
        shuffle("high23", "q2", "q3", [2, 6, 3, 7]);
        shuffle("n0", "low01", "low23", [0, 1, 4, 5]);
        shuffle("n1", "low01", "low23", [2, 3, 6, 7]);
        shuffle("n2", "high01", "high23", [0, 1, 4, 5]);
        shuffle("n3", "high01", "high23", [2, 3, 6, 7]);
        let mut so_far = "poison".to_owned();
        for at in 0..NUMBERS {
            let _ = writeln!(
                text,
                "  %s{at} = insertvalue {{ {result} }} {so_far}, {vector} %n{at}, {at}"
            );
            so_far = format!("%s{at}");
        }
        let _ = writeln!(text, "  ret {{ {result} }} {so_far}\n}}");
        text
    }
}

/// The gathers of a block that are of the same structures, with nothing between them that may
/// write.
fn groups(block: Block) -> Vec<Group> {
    let (mut open, mut all): (Vec<Group>, Vec<Group>) = (Vec::new(), Vec::new());
    for instruction in block.instructions() {
        let Some(gather) = Gather::of(instruction) else {
            if keeps_reads_in_place(instruction) {
                all.append(&mut open);
            }
            continue;
        };
        let at = open.iter().position(|group| {
            group.base == gather.base
                && group.count == gather.count
                && group.element == gather.element
        });
        let at = at.unwrap_or_else(|| {
            open.push(Group {
                base: gather.base,
                count: gather.count,
                element: gather.element.clone(),
                space: gather.space.clone(),
                gathers: Vec::new(),
                all: [false; NUMBERS as usize],
                is_aligned: false,
            });
            open.len() - 1
        });
        let group = &mut open[at];
        group.gathers.push((instruction, gather.number));
        group.all[gather.number as usize] |= gather.takes_all;
        group.is_aligned |=
            gather.number == 0 && gather.takes_all && gather.align >= NUMBERS * BYTES;
    }
    all.append(&mut open);
    all.retain(Group::is_read);
    all
}

/// Has structures that a function gathers number by number be read as a whole. True if there are
/// any; the functions that read are to be inlined then.
pub(super) fn read_whole(
    context: Context,
    module: Module,
    machine: Machine,
    function: Value,
) -> Result<bool, Fault> {
    let all: Vec<Group> = blocks(function).into_iter().flat_map(groups).collect();
    if all.is_empty() {
        return Ok(false);
    }
    let texts: BTreeMap<String, String> = all.iter().map(|one| (one.name(), one.text())).collect();
    let text: String = texts.into_values().collect();
    neighbours::link(context, module, machine, &text)?;
    let builder = LLVMCreateBuilderInContext(context);
    for group in all {
        let Some(reads) = module.function(&group.name()) else {
            continue;
        };
        LLVMSetLinkage(reads, linkage::INTERNAL);
        LLVMPositionBuilderBefore(builder, group.gathers[0].0);
        let of = LLVMGlobalGetValueType(reads);
        let whole = LLVMBuildCall2(builder, of, reads, &raw const group.base, 1, UNNAMED);
        for (gather, number) in group.gathers {
            LLVMPositionBuilderBefore(builder, gather);
            let read = LLVMBuildExtractValue(builder, whole, number as u32, UNNAMED);
            let [mask, instead] = [2, 3].map(|at| LLVMGetOperand(gather, at));
            let read = LLVMBuildSelect(builder, mask, read, instead, UNNAMED);
            LLVMReplaceAllUsesWith(gather, read);
            LLVMInstructionEraseFromParent(gather);
        }
    }
    Ok(true)
}
