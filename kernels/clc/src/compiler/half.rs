//! Numbers of 16 bits: a `double` becomes one by a function.
//!
//! Processors make a `half` of a `float` alone. Where LLVM is to make one of a `double`, it calls a function of the C compiler's
//! own library, which no kernel is linked with.

use super::library::HALF_OF_DOUBLE;
use super::llvm::*;

/// Replaces conversions from `double` to `half` by calls of the library's function.
pub(super) fn of_doubles(context: Context, module: Module) {
    let half = LLVMHalfTypeInContext(context);
    let double = LLVMDoubleTypeInContext(context);
    let of = LLVMFunctionType(half, &raw const double, 1, 0);
    let mangled = format!("_Z{}{HALF_OF_DOUBLE}d", HALF_OF_DOUBLE.len());
    let builder = LLVMCreateBuilderInContext(context);
    let functions = module.functions().into_iter();
    let all = functions.flat_map(blocks).flat_map(Block::instructions);
    for conversion in all.filter(is_from_double) {
        let function = module
            .function(&mangled)
            .unwrap_or_else(|| LLVMAddFunction(module, text(&mangled).as_ptr(), of));
        LLVMPositionBuilderBefore(builder, conversion);
        let from = LLVMGetOperand(conversion, 0);
        let one =
            |number: Value| LLVMBuildCall2(builder, of, function, &raw const number, 1, UNNAMED);
        let to = conversion.ty();
        let result = match to.kind() {
            kind::VECTOR => (0..LLVMGetVectorSize(to)).fold(LLVMGetUndef(to), |vector, at| {
                let at = LLVMConstInt(LLVMIntTypeInContext(context, 32), u64::from(at), 0);
                let element = LLVMBuildExtractElement(builder, from, at, UNNAMED);
                LLVMBuildInsertElement(builder, vector, one(element), at, UNNAMED)
            }),
            _ => one(from),
        };
        LLVMReplaceAllUsesWith(conversion, result);
        LLVMInstructionEraseFromParent(conversion);
    }
}

/// True if an instruction makes a `half` of a `double`, or vectors of them.
fn is_from_double(instruction: &Value) -> bool {
    let element = |of: Type| match of.kind() {
        kind::VECTOR => LLVMGetElementType(of).kind(),
        scalar => scalar,
    };
    instruction.opcode() == Some(op::FP_TRUNC)
        && element(instruction.ty()) == kind::HALF
        && element(LLVMGetOperand(*instruction, 0).ty()) == kind::DOUBLE
}
