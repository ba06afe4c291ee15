//! Constants of sub-groups: their size, and whether work-items are apart where they meet.

use super::graph::Graph;
use super::uniform::Divergence;
use crate::compiler::llvm::*;
use std::collections::HashMap;

/// The number of bits of a ballot. A sub-group whose work-items exchange values has as many
/// work-items at most, unless the kernel names a size.
pub(crate) const BALLOT_BITS: u64 = 128;

/// The metadata with the size that a kernel's sub-groups must have. SPIR-V's translator calls the
/// execution mode SubgroupSize so.
pub(crate) const REQUIRED_SIZE: &str = "intel_reqd_sub_group_size";

/// The functions that become constants.
const WHOLE: &str = "__q_whole";
const WIDTH: &str = "__q_width";
const PARTS: &str = "__q_parts";
const APART: &str = "__q_apart";
const MOST: &str = "__q_most";

/// True if a function of this name is one of these.
pub(super) fn has(name: &str) -> bool {
    [WHOLE, WIDTH, PARTS, APART, MOST].contains(&name)
}

/// The number of work-items in a sub-group of a kernel; none if it is the whole work-group.
pub(crate) fn size(context: Context, kernel: Value) -> Option<u64> {
    let required = numbers(context, kernel, REQUIRED_SIZE).first().copied();
    let exchanges = calls(kernel).any(|(_, name)| name == WIDTH || name == MOST);
    required.or(exchanges.then_some(BALLOT_BITS))
}

/// True if a kernel asks for ballots.
pub(crate) fn takes_ballots(kernel: Value) -> bool {
    calls(kernel).any(|(_, name)| name == MOST)
}

/// The numbers of a kernel's metadata of this name.
pub(crate) fn numbers(context: Context, kernel: Value, name: &str) -> Vec<u64> {
    let mut count = 0;
    let entries = LLVMGlobalCopyAllMetadata(kernel, &raw mut count);
    let kind = metadata_kind(context, name);
    let at = (0..count as u32).find(|at| LLVMValueMetadataEntriesGetKind(entries, *at) == kind);
    let node = at.map(|at| LLVMValueMetadataEntriesGetMetadata(entries, at));
    let operands = node.map(|node| node_operands(LLVMMetadataAsValue(context, node)));
    let operands = operands.unwrap_or_default().into_iter();
    operands.map(|value| value.number().unwrap_or(0)).collect()
}

/// The calls in a kernel, with what is called.
fn calls(kernel: Value) -> impl Iterator<Item = (Value, String)> {
    let all = blocks(kernel).into_iter().flat_map(Block::instructions);
    all.filter_map(|one| Some((one, one.callee()?)))
}

/// Replaces what a kernel asks of its sub-groups by constants; false if it asks for nothing.
pub(crate) fn resolve(
    context: Context,
    kernel: Value,
    local_size: Option<[u32; 3]>,
    are_apart: bool,
) -> bool {
    let size = size(context, kernel);
    let items = local_size.map(|size| size.into_iter().map(u64::from).product::<u64>());
    let is_whole = size.is_none_or(|size| items.is_some_and(|items| items <= size));
    let mut any = false;
    let all: Vec<_> = calls(kernel).collect();
    for (call, name) in all {
        let value = match name.as_str() {
            WHOLE => u64::from(is_whole),
            WIDTH | PARTS => size.unwrap_or(BALLOT_BITS).max(1),
            APART => u64::from(are_apart),
            MOST => BALLOT_BITS,
            _ => continue,
        };
        LLVMReplaceAllUsesWith(call, LLVMConstInt(call.ty(), value, 0));
        LLVMInstructionEraseFromParent(call);
        any = true;
    }
    any
}

/// True if work-items of a kernel may meet where others of the group do not come.
pub(crate) fn are_apart(kernel: Value) -> bool {
    let graph = Graph::new(kernel, &HashMap::new());
    let loops = graph.loops();
    super::emit::are_apart(&graph, &Divergence::of(&graph, &loops))
}
