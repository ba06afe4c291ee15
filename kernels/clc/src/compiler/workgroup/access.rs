//! Memory accesses of work-items: the distances between neighbours, and the processor's
//! instructions for them.

use super::LOCAL;
use super::graph::{Graph, Loop};
use super::private::{Part, parts_of};
use super::uniform::Divergence;
use super::variables::{is_leaf, is_pure};
use super::waits::is_shared;
use crate::compiler::forms;
use crate::compiler::library::CALLED_TO_READ;
use crate::compiler::llvm::*;
use std::collections::HashSet;
use std::sync::OnceLock;

/// True if no read may be moved from behind an instruction to before it: one that may write, or
/// that takes part in an order of threads.
pub(in crate::compiler) fn keeps_reads_in_place(instruction: Value) -> bool {
    match instruction.opcode() {
        Some(op::STORE | op::FENCE) => true,
        Some(op::CALL) => {
            let callee = instruction.callee().unwrap_or_default();
            !is_leaf(instruction) && !is_arithmetic(&callee) && !callee.starts_with(CALLED_TO_READ)
        }
        _ => is_shared(instruction),
    }
}

/// True if a function of this name is LLVM's, or has vector forms, and has nothing to do with
/// memory.
pub(super) fn is_arithmetic(callee: &str) -> bool {
    let is_of_llvm = callee.starts_with("llvm.")
        && !callee.starts_with("llvm.mem")
        && !callee.starts_with("llvm.masked");
    is_of_llvm || callee.starts_with(forms::CALLED)
}

/// The operations of a kernel that addresses come from and that make a number go around: a number
/// modulo another, or bits of one.
pub(super) fn cyclic(kernel: Value) -> HashSet<Value> {
    let accesses = blocks(kernel).into_iter().flat_map(Block::instructions);
    let mut open: Vec<Value> = accesses
        .filter_map(|access| match access.opcode() {
            Some(op::LOAD) => Some(LLVMGetOperand(access, 0)),
            Some(op::STORE) => Some(LLVMGetOperand(access, 1)),
            _ => None,
        })
        .collect();
    let (mut seen, mut cyclic) = (HashSet::new(), HashSet::new());
    while let Some(value) = open.pop() {
        let is_narrow = |of: Type| of.kind() == kind::INTEGER && LLVMGetIntTypeWidth(of) < 32;
        match value.opcode() {
            None | Some(op::LOAD) => continue,
            Some(op::AND | op::UREM | op::SREM | op::ASHR) if may_count(value) => {
                cyclic.insert(value);
            }
            Some(op::TRUNC) if is_narrow(value.ty()) && may_count(value) => {
                cyclic.insert(value);
            }
            _ => {}
        }
        if seen.insert(value) {
            open.extend(value.operands());
        }
    }
    cyclic
}

/// True if a number may grow by as much from one work-item, or turn of a loop, to the next, for all
/// that the optimiser sees: it does not where it comes from memory, from an exclusive or, or from a
/// `float`.
fn may_count(number: Value) -> bool {
    let (mut open, mut seen) = (vec![number], HashSet::new());
    while let Some(value) = open.pop() {
        let is_new = seen.insert(value);
        match value.opcode() {
            None | Some(op::LOAD) => {}
            _ if [kind::HALF, kind::FLOAT, kind::DOUBLE].contains(&value.ty().kind()) => {}
            Some(op::CALL) if is_leaf(value) => return true,
            Some(op::PHI) if !is_new => return true,
            _ if !is_new => {}
            Some(op::PHI) => {
                let count = LLVMCountIncoming(value);
                open.extend((0..count).map(|at| LLVMGetIncomingValue(value, at)));
            }
            Some(op::XOR) if LLVMGetOperand(value, 1).opcode().is_some() => {}
            _ => open.extend(value.operands()),
        }
    }
    false
}

/// True if a kernel has a switch by what is in memory, or by what loops make of the work-item's
/// number. One by the number itself is for few of a strip.
pub(in crate::compiler) fn switches_by_numbers(kernel: Value) -> bool {
    let ends = blocks(kernel).into_iter().map(Block::terminator);
    let switches = ends.filter(|end| end.opcode() == Some(op::SWITCH));
    let mut open: Vec<(Value, bool)> = switches
        .map(|switch| (LLVMGetOperand(switch, 0), false))
        .collect();
    let mut seen = HashSet::new();
    while let Some((value, is_changed)) = open.pop() {
        if !seen.insert((value, is_changed)) {
            continue;
        }
        match value.opcode() {
            Some(op::LOAD) => return true,
            Some(op::CALL) if is_changed && is_of_item(value) => return true,
            Some(op::PHI) => open.extend(value.operands().map(|operand| (operand, true))),
            _ if is_pure(value) => {
                open.extend(value.operands().map(|operand| (operand, is_changed)))
            }
            _ => {}
        }
    }
    false
}

/// True if a value is the work-item's own number.
fn is_of_item(value: Value) -> bool {
    let name = value.callee().unwrap_or_default();
    name.starts_with("__q_lid") || name.starts_with("__q_gid")
}

/// Bytes from what a work-item reads to what its neighbour along x does, at most; the largest
/// number if that is not known, as where each has a row of a matrix.
pub(super) fn widest_stride(graph: &Graph, layout: DataLayout) -> u64 {
    let all = graph.nodes.iter().flat_map(|node| &node.body);
    let loads = all.filter(|one| one.opcode() == Some(op::LOAD));
    let strides = loads.map(|load| stride(LLVMGetOperand(*load, 0), layout, 0));
    strides.max().unwrap_or(0)
}

/// The growth of a value from one work-item to the next along x, as far as its own arithmetic
/// tells.
fn stride(value: Value, layout: DataLayout, depth: usize) -> u64 {
    const DEEPEST: usize = 12;
    if depth > DEEPEST {
        return 0;
    }
    let of = |index: u32| stride(LLVMGetOperand(value, index), layout, depth + 1);
    let constant = |index: u32| LLVMGetOperand(value, index).number();
    match value.opcode() {
        Some(op::CALL) => {
            let name = value.callee().unwrap_or_default();
            u64::from(["__q_lid0", "__q_gid0"].contains(&name.as_str()))
        }
        Some(op::MUL) => match (of(0), constant(1)) {
            (stride, Some(factor)) => stride.saturating_mul(factor),
            (0, None) if of(1) == 0 => 0,
            _ => u64::MAX,
        },
        Some(op::SHL) => match (of(0), constant(1)) {
            (0, _) => 0,
            (stride, Some(bits)) => stride.saturating_mul(1 << bits.min(63)),
            _ => u64::MAX,
        },
        Some(op::ADD | op::SUB | op::OR) => of(0).max(of(1)),
        Some(op::TRUNC | op::ZEXT | op::SEXT) => of(0),
        Some(op::GEP) => {
            let mut widest = of(0);
            let mut element = LLVMGetGEPSourceElementType(value);
            for index in 1..value.operands().count() as u32 {
                if index > 1 && element.kind() == kind::ARRAY {
                    element = LLVMGetElementType(element);
                }
                let bytes = LLVMABISizeOfType(layout, element);
                widest = widest.max(of(index).saturating_mul(bytes));
            }
            widest
        }
        _ => 0,
    }
}

/// True if each work-item goes along a row of its own in a loop, and writes there: its elements lie
/// side by side from turn to turn, and apart from those of its neighbours. Vectors of turns then
/// take less time than those of work-items.
pub(super) fn goes_along_rows(
    graph: &Graph,
    of: &Loop,
    differs: &Divergence,
    layout: DataLayout,
) -> bool {
    let [counter] = graph.nodes[of.header].phis[..] else {
        return false;
    };
    let within = (0..graph.nodes.len()).filter(|at| of.nodes[*at]);
    let mut writes = false;
    for one in within.flat_map(|at| &graph.nodes[at].body) {
        let (address, bytes) = match one.opcode() {
            Some(op::LOAD) => (LLVMGetOperand(*one, 0), LLVMABISizeOfType(layout, one.ty())),
            Some(op::STORE) => {
                writes = true;
                let stored = LLVMGetOperand(*one, 0);
                (
                    LLVMGetOperand(*one, 1),
                    LLVMABISizeOfType(layout, stored.ty()),
                )
            }
            Some(op::CALL)
                if !one
                    .callee()
                    .is_some_and(|name| name.starts_with("llvm.") || is_leaf(*one)) =>
            {
                return false;
            }
            Some(op::ATOMIC_RMW | op::ATOMIC_CMPXCHG) => return false,
            _ => continue,
        };
        let is_along = along(address, counter, graph, of, layout, 0) == Some(bytes)
            && stride(address, layout, 0) > bytes
            && LLVMGetVolatile(*one) == 0;
        if differs.differs(address) && !is_along {
            return false;
        }
    }
    writes && !differs.differs(counter)
}

/// The growth of a value from one turn of a loop to the next, by its counter; none if that is not
/// known.
fn along(
    value: Value,
    counter: Value,
    graph: &Graph,
    within: &Loop,
    layout: DataLayout,
    depth: usize,
) -> Option<u64> {
    const DEEPEST: usize = 12;
    if value == counter {
        return Some(1);
    }
    if !graph
        .home
        .get(&value)
        .is_some_and(|home| within.nodes[*home])
        || is_leaf(value)
    {
        return Some(0);
    }
    if depth == DEEPEST {
        return None;
    }
    let of = |value: Value| along(value, counter, graph, within, layout, depth + 1);
    match value.opcode()? {
        op::ADD => Some(of(LLVMGetOperand(value, 0))? + of(LLVMGetOperand(value, 1))?),
        op::SEXT | op::ZEXT => of(LLVMGetOperand(value, 0)),
        op::GEP => {
            let mut sum = of(LLVMGetOperand(value, 0))?;
            for part in parts_of(value, layout)? {
                sum += of_index(&part, of)?;
            }
            Some(sum)
        }
        _ if is_pure(value) => {
            let mut operands = value.operands();
            operands.all(|operand| of(operand) == Some(0)).then_some(0)
        }
        _ => None,
    }
}

fn of_index(part: &Part, of: impl Fn(Value) -> Option<u64>) -> Option<u64> {
    match part.index {
        Some(index) => Some(of(index)? * part.bytes),
        None => Some(0),
    }
}

/// An atomic operation's effect on a number.
pub(super) enum Plain {
    Exchange,
    Operation(i32),
    /// The number stays if it compares so with the other one.
    Choice(i32),
}

/// The effect of one, by the number that the C interface gives it.
pub(super) fn plain_operation(number: i32) -> Option<Plain> {
    Some(match number {
        0 => Plain::Exchange,
        1 => Plain::Operation(op::ADD),
        2 => Plain::Operation(op::SUB),
        3 => Plain::Operation(op::AND),
        5 => Plain::Operation(op::OR),
        6 => Plain::Operation(op::XOR),
        7 => Plain::Choice(compare::SGT),
        8 => Plain::Choice(compare::SLT),
        9 => Plain::Choice(compare::UGT),
        10 => Plain::Choice(compare::ULT),
        _ => return None,
    })
}

/// True if an instruction changes a number in local memory, which no other thread has at hand while
/// a group runs.
pub(super) fn is_atomic_in_local(change: Value) -> bool {
    let is_change = matches!(change.opcode(), Some(op::ATOMIC_RMW | op::ATOMIC_CMPXCHG));
    is_change && LLVMGetPointerAddressSpace(LLVMGetOperand(change, 0).ty()) == LOCAL
}

/// A processor's vector registers.
#[derive(Clone, Copy)]
pub(super) struct Registers {
    pub(super) count: u64,
    /// The number of numbers of 32 bits in each.
    pub(super) numbers: u64,
}

/// True if this processor has a feature, by the name that LLVM has for it.
fn has(feature: &str) -> bool {
    // To ask the processor takes long on a virtual machine.
    static FEATURES: OnceLock<String> = OnceLock::new();
    let features = FEATURES.get_or_init(|| string(LLVMGetHostCPUFeatures()));
    features.split(',').any(|one| one == feature)
}

/// True if this processor reads and writes some bytes of a vector, and not others.
pub(super) fn masks_bytes() -> bool {
    has("+avx512bw")
}

/// True if this processor has an estimate of 14 bits of inverse square roots.
pub(in crate::compiler) fn estimates_roots() -> bool {
    cfg!(target_arch = "x86_64") && has("+avx512vl")
}

/// True if this processor gathers words about as fast as it reads them one by one, at least.
pub(super) fn gathers_words() -> bool {
    has("+avx512vl")
}

impl Registers {
    pub(super) fn of_host() -> Self {
        let (count, numbers) = match has("+avx512vl") {
            true => (32, 16),
            false => (16, 8),
        };
        Self { count, numbers }
    }
}

/// Has a function use the widest vectors that the processor has. LLVM would leave the widest of
/// some alone, for they run at a lower frequency there; a kernel is arithmetic enough to be worth
/// it.
pub(super) fn widest_vectors(context: Context) -> Attribute {
    attribute(context, "prefer-vector-width", "512")
}

/// Has a function divide where its numbers may be approximate. LLVM would multiply by a reciprocal
/// that some processors know to 12 bits: one step of Newton's method makes three units in the last
/// place of it, and the standard allows two and a half.
pub(super) fn true_divisions(context: Context) -> Attribute {
    attribute(context, "reciprocal-estimates", "!vec-divf")
}

fn attribute(context: Context, name: &str, value: &str) -> Attribute {
    LLVMCreateStringAttribute(
        context,
        name.as_ptr().cast(),
        name.len() as u32,
        value.as_ptr().cast(),
        value.len() as u32,
    )
}
