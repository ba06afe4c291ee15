//! From a kernel, which is the work of one work-item, to a function that runs whole work-groups.
//!
//! Work-items of a group run one after another, in loops that the optimiser then turns into vector
//! code. Where they wait for each other, at a barrier, the loops end, and others begin: a *region*
//! is the code that work-items run from one barrier until each of the next ones that they may come
//! to. Values that they have in hand at a barrier are kept in memory, for each work-item or once
//! for the group, and a switch goes to the region that they have come to ("continuation-based
//! synchronisation": Meyer, Aktemur, Alpay and Heuveline, 2023). So barriers may be in loops and
//! branches.
//!
//! 1. [`graph`]: the kernel's blocks, split at barriers.
//! 2. [`uniform`]: the values that are the same for the whole group, and the nodes that all
//!    work-items run together.
//! 3. *Cuts*: edges where all work-items stop. Those of barriers are *outer* cuts. So are those
//!    into and out of loops with barriers that all work-items go through together. Other such loops
//!    get *inner* cuts, at their headers and exits: so that the loop over work-items is the
//!    innermost one, which is the one that the optimiser makes vectors of.
//! 4. [`variables`]: values that are alive at cuts, and values that are made again instead.
//! 5. [`emit`]: for each outer region loops over z, y, and strips of x; within a strip the inner
//!    regions, each a loop over the strip's work-items. Values that cross an inner cut are in
//!    arrays of a strip's size, which the optimiser keeps in vector registers. Values that cross an
//!    outer one are in the group's memory.
//! 6. [`access`]: the distances at which neighbours read, and accesses that need no atomic
//!    operation.
//! 7. [`common`]: values that are the same for work-items in a loop which they leave one by one.
//! 8. [`private`]: memory of a work-item's own, of which neighbours' elements lie side by side.
//! 9. [`small_arrays`]: those of a work-item's own that become registers.
//! 10. [`sub_groups`]: how large these are. Where some of a group meet without others,
//!     [`emit::apart`](emit) has each work-item stop and go on by itself.
//! 11. [`notes`]: notes on this for the kernel's user, if somebody asks.
//! 12. [`guard`]: a group of which no work-item is out of bounds, or at an edge, runs a version
//!     without the test.
//! 13. [`waits`]: there are no inner cuts where a work-item may hold what others wait for, by
//!     atomic operations.
//! 14. [`stages`]: accesses of a work-item's that no other one of it may be moved past.
//! 15. [`counters`]: counters that begin at a work-item's number.

mod access;
mod common;
mod counters;
mod emit;
mod graph;
mod guard;
mod notes;
mod private;
mod small_arrays;
pub(super) mod spaces;
mod stages;
pub(super) mod sub_groups;
mod uniform;
mod unroll;
mod variables;
mod waits;

use super::llvm::*;
use super::{Fault, calls};
use crate::metadata::Layout;
pub(super) use access::{estimates_roots, keeps_reads_in_place, switches_by_numbers};
use emit::Emitter;
pub(crate) use emit::{NUMBERS, place_of_arguments};
pub(super) use graph::{BARRIER, MEETING};
pub(super) use notes::{Notes, line, lines, listed};
pub(super) use small_arrays::choose;
use std::collections::HashMap;
pub(super) use unroll::keep_loops;
pub(super) use waits::is_shared;

/// The name of the function that is made.
pub(crate) const ENTRY: &str = "quipu_run_groups";

/// The alignment of local memory and arguments: the largest type of OpenCL C.
pub(super) const ALIGNMENT: u64 = 128;

/// Makes the function of work-groups of a kernel, and has nothing else be left. Fills the notes, if
/// there are any.
pub(super) fn transform(
    context: Context,
    module: Module,
    kernel: Value,
    machine: Machine,
    local_size: Option<[u32; 3]>,
    notes: Option<&mut Notes>,
) -> Result<Layout, Fault> {
    let layout = LLVMCreateTargetDataLayout(machine);
    let printf = module.function("printf");
    let all = calls::with_kept(kernel);
    let prints = printf.is_some_and(|printf| all.iter().any(|one| uses(*one, &[printf])));
    let local_bytes = place_local(context, module, kernel, layout);
    super::variables::place(context, module, kernel);
    counters::take_apart(context, kernel);
    let mut emitter = Emitter::new(context, module, kernel, layout, local_size)?;
    emitter.notes = notes.is_some().then(Notes::default);
    let after = emitter.begin();
    let (branches, selects) = (guard::branches(kernel), guard::selects(kernel));
    let every = branches.iter().chain(&selects).collect();
    // Groups at an edge still run a version without tests of bounds.
    let versions: [Vec<_>; 2] = [every, branches.iter().collect()];
    let count = if selects.is_empty() { 1 } else { 2 };
    let mut of_most_groups = true;
    for guards in versions[..count].iter().filter(|guards| !guards.is_empty()) {
        let [within, other] = emitter.fork(|emitter| guard::holds(emitter, guards));
        let assumed: HashMap<Value, usize> = guards
            .iter()
            .map(|guard| (guard.decision, guard.way))
            .collect();
        emitter.go_on(within);
        emitter.versions(
            &waits::graph(kernel, &assumed),
            guards,
            of_most_groups,
            after,
        )?;
        of_most_groups = false;
        emitter.go_on(other);
    }
    let graph = waits::graph(kernel, &HashMap::new());
    emitter.versions(&graph, &[], of_most_groups, after)?;
    let (spill_bytes_per_item, spill_bytes) = emitter.end(after);
    LLVMSetLinkage(kernel, linkage::INTERNAL);
    if let (Some(notes), Some(made)) = (notes, emitter.notes) {
        *notes = made;
    }
    Ok(Layout {
        local_bytes,
        spill_bytes_per_item,
        spill_bytes,
        prints,
    })
}

/// The address space of local memory.
const LOCAL: u32 = 3;

/// The local variables of all kernels.
fn local_variables(module: Module) -> Vec<Value> {
    let mut variables = module.globals();
    variables.retain(|global| LLVMGetPointerAddressSpace(global.ty()) == LOCAL);
    variables
}

/// True if a function uses local variables.
pub(super) fn uses_local(function: Value) -> bool {
    let all = blocks(function).into_iter().flat_map(Block::instructions);
    let mut operands = all.flat_map(Value::operands);
    operands.any(is_of_local)
}

fn is_of_local(value: Value) -> bool {
    let is_variable = LLVMIsAGlobalVariable(value).some().is_some();
    is_variable && LLVMGetPointerAddressSpace(value.ty()) == LOCAL
        || LLVMIsAConstantExpr(value).some().is_some() && value.operands().any(is_of_local)
}

/// True if a function of this name is one that the passes replace.
pub(super) fn has(name: &str) -> bool {
    [BARRIER, MEETING, spaces::SPACE].contains(&name)
        || variables::is_at_hand(name)
        || sub_groups::has(name)
}

/// The number of bytes of a kernel's local variables.
pub(super) fn local_bytes(module: Module, kernel: Value, layout: DataLayout) -> u64 {
    let locals = local_variables(module).into_iter();
    let are_used = locals.filter(|local| uses(kernel, &[*local]));
    let sizes = are_used.map(|local| {
        let size = LLVMABISizeOfType(layout, LLVMGlobalGetValueType(local));
        size.next_multiple_of(ALIGNMENT)
    });
    sizes.sum()
}

/// The number of bytes that each work-item of a kernel has of its own in memory.
pub(super) fn private_bytes(kernel: Value, layout: DataLayout) -> u64 {
    let all = blocks(kernel).into_iter().flat_map(Block::instructions);
    let own = all.filter(|one| one.opcode() == Some(op::ALLOCA));
    own.map(|alloca| own_bytes(alloca, layout)).sum()
}

/// Bytes of a work-item's own memory for an `alloca`: a multiple of its alignment, since that of
/// the next one follows.
fn own_bytes(alloca: Value, layout: DataLayout) -> u64 {
    let bytes = LLVMABISizeOfType(layout, LLVMGetAllocatedType(alloca));
    bytes.next_multiple_of(u64::from(LLVMGetAlignment(alloca).max(1)))
}

/// True if a kernel uses one of these globals.
pub(super) fn uses(kernel: Value, globals: &[Value]) -> bool {
    let mut instructions = blocks(kernel).into_iter().flat_map(Block::instructions);
    instructions.any(|one| one.operands().any(|operand| mentions(operand, globals)))
}

/// Gives local variables of a kernel places in the group's local memory; how many bytes they take.
fn place_local(context: Context, module: Module, kernel: Value, layout: DataLayout) -> u64 {
    let byte = LLVMIntTypeInContext(context, 8);
    let wide = LLVMIntTypeInContext(context, 64);
    let pointer = LLVMPointerTypeInContext(context, LOCAL);
    let of = LLVMFunctionType(pointer, std::ptr::null(), 0, 0);
    let locals = local_variables(module);
    if locals.is_empty() {
        return 0;
    }
    let base = LLVMAddFunction(module, text("__q_local").as_ptr(), of);
    let mut places: HashMap<Value, u64> = HashMap::new();
    let mut end = 0;
    place(context, kernel, &locals, |builder, global| {
        let place = *places.entry(global).or_insert_with(|| {
            let place = end;
            let size = LLVMABISizeOfType(layout, LLVMGlobalGetValueType(global));
            end += size.next_multiple_of(ALIGNMENT);
            place
        });
        let start = LLVMBuildCall2(builder, of, base, std::ptr::null(), 0, UNNAMED);
        let offset = LLVMConstInt(wide, place, 0);
        LLVMBuildInBoundsGEP2(builder, byte, start, &raw const offset, 1, UNNAMED)
    });
    end
}

/// Has a kernel find globals where instructions say that they are, which `make` makes before each
/// use.
pub(super) fn place(
    context: Context,
    kernel: Value,
    globals: &[Value],
    mut make: impl FnMut(Builder, Value) -> Value,
) {
    let builder = LLVMCreateBuilderInContext(context);
    for block in blocks(kernel) {
        for instruction in block.instructions() {
            let count = LLVMGetNumOperands(instruction).max(0) as u32;
            for index in 0..count {
                let operand = LLVMGetOperand(instruction, index);
                if !mentions(operand, globals) {
                    continue;
                }
                let before = match instruction.opcode() {
                    Some(op::PHI) => LLVMGetIncomingBlock(instruction, index).terminator(),
                    _ => instruction,
                };
                LLVMPositionBuilderBefore(builder, before);
                let made = written_out(builder, operand, globals, &mut |global| {
                    make(builder, global)
                });
                LLVMSetOperand(instruction, index, made);
            }
        }
    }
}

/// True if a constant is made of one of these globals.
fn mentions(value: Value, globals: &[Value]) -> bool {
    globals.contains(&value)
        || (LLVMIsAConstantExpr(value).some().is_some()
            && value.operands().any(|operand| mentions(operand, globals)))
}

/// A constant that is made of globals as instructions, where these are placed by `place`.
fn written_out(
    builder: Builder,
    value: Value,
    globals: &[Value],
    place: &mut dyn FnMut(Value) -> Value,
) -> Value {
    if globals.contains(&value) {
        return place(value);
    }
    if !mentions(value, globals) {
        return value;
    }
    let operands: Vec<Value> = value
        .operands()
        .map(|operand| written_out(builder, operand, globals, place))
        .collect();
    match LLVMGetConstOpcode(value) {
        op::GEP => LLVMBuildGEP2(
            builder,
            LLVMGetGEPSourceElementType(value),
            operands[0],
            operands[1..].as_ptr(),
            operands.len() as u32 - 1,
            UNNAMED,
        ),
        operation if operands.len() == 2 => {
            LLVMBuildBinOp(builder, operation, operands[0], operands[1], UNNAMED)
        }
        operation => LLVMBuildCast(builder, operation, operands[0], value.ty(), UNNAMED),
    }
}
