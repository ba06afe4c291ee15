//! The memory that a pointer to generic memory points to: a comparison of its address.
//!
//! Local memory comes first, then what work-items keep, and nothing lies between.

use crate::compiler::llvm::*;

/// The function that tells it: 0 of global memory, 1 of local memory, 2 of a work-item's own.
pub(super) const SPACE: &str = "__q_space";
/// The address spaces of a work-item's own memory and of local memory, whose places they are.
const PLACES: [(&str, u32); 2] = [("__q_place_of_local", 3), ("__q_place_of_kept", 0)];
/// The number of the kept memory's end among those that a work-item asks for.
const END: u64 = 13;

/// Replaces a kernel's questions by comparisons.
pub(crate) fn resolve(context: Context, module: Module, kernel: Value) {
    if module.function(SPACE).is_none() {
        return;
    }
    let builder = LLVMCreateBuilderInContext(context);
    let (number, word) = (
        LLVMIntTypeInContext(context, 32),
        LLVMIntTypeInContext(context, 64),
    );
    let call = |name: &str, of: Type, arguments: &[Value]| {
        let callee = module.function(name);
        let callee = callee.unwrap_or_else(|| LLVMAddFunction(module, text(name).as_ptr(), of));
        let count = arguments.len() as u32;
        LLVMBuildCall2(builder, of, callee, arguments.as_ptr(), count, UNNAMED)
    };
    let all = blocks(kernel).into_iter().flat_map(Block::instructions);
    for question in all.filter(|one| one.callee().as_deref() == Some(SPACE)) {
        LLVMPositionBuilderBefore(builder, question);
        let address = LLVMGetOperand(question, 0);
        let address = LLVMBuildCast(builder, op::PTR_TO_INT, address, word, UNNAMED);
        let [local, kept] = PLACES.map(|(name, space)| {
            let pointer = LLVMPointerTypeInContext(context, space);
            let of = LLVMFunctionType(pointer, std::ptr::null(), 0, 0);
            let place = call(name, of, &[]);
            LLVMBuildCast(builder, op::PTR_TO_INT, place, word, UNNAMED)
        });
        let of = LLVMFunctionType(word, &raw const number, 1, 0);
        let end = call("__q_info", of, &[LLVMConstInt(number, END, 0)]);
        let is_below = |bound| LLVMBuildICmp(builder, compare::ULT, address, bound, UNNAMED);
        let value = |value| LLVMConstInt(number, value, 0);
        let within = LLVMBuildSelect(builder, is_below(end), value(2), value(0), UNNAMED);
        let within = LLVMBuildSelect(builder, is_below(kept), value(1), within, UNNAMED);
        let space = LLVMBuildSelect(builder, is_below(local), value(0), within, UNNAMED);
        LLVMReplaceAllUsesWith(question, space);
        LLVMInstructionEraseFromParent(question);
    }
}
