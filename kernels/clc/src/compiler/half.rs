//! Numbers of 16 bits: a `double` becomes one by a function, and a whole number one within bounds.
//!
//! Processors make a `half` of a `float` alone. Where LLVM is to make one of a `double`, it calls a
//! function of the C compiler's own library, which no kernel is linked with.
//!
//! A whole number that is too large for a `half` becomes infinity. LLVM takes such a conversion for
//! one that keeps the number if few of its bits may be other than zero, as those of `x << 21`, and
//! then leaves the `half` out where it becomes a `float`.

use super::division::repeated;
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

/// Bounds the whole numbers that become a `half`. A number at the bounds becomes infinity, as all
/// beyond them do, and has too many bits for LLVM's mistake.
pub(super) fn of_whole_numbers(context: Context, module: Module) {
    const MOST: u64 = 0xffff;
    let builder = LLVMCreateBuilderInContext(context);
    let functions = module.functions().into_iter();
    let all = functions.flat_map(blocks).flat_map(Block::instructions);
    for conversion in all.filter(|one| element(one.ty()).kind() == kind::HALF) {
        let by_float = LLVMGetOperand(conversion, 0);
        let of_number = match conversion.opcode() {
            Some(op::FP_TRUNC) => by_float,
            _ => conversion,
        };
        let opcode = match of_number.opcode() {
            Some(opcode @ (op::UI_TO_FP | op::SI_TO_FP)) => opcode,
            _ => continue,
        };
        let number = LLVMGetOperand(of_number, 0);
        let of = number.ty();
        if LLVMGetIntTypeWidth(element(of)) <= u16::BITS {
            continue;
        }
        LLVMPositionBuilderBefore(builder, conversion);
        let (most, least) = (
            repeated(of, |_| MOST),
            repeated(of, |_| MOST.wrapping_neg()),
        );
        let bound = |number: Value, predicate: i32, bound: Value| {
            let is_within = LLVMBuildICmp(builder, predicate, number, bound, UNNAMED);
            LLVMBuildSelect(builder, is_within, number, bound, UNNAMED)
        };
        let bounded = match opcode {
            op::UI_TO_FP => bound(number, compare::ULT, most),
            _ => bound(bound(number, compare::SLT, most), compare::SGT, least),
        };
        if of_number == conversion {
            LLVMSetOperand(conversion, 0, bounded);
        } else {
            let by_float = LLVMBuildCast(builder, opcode, bounded, by_float.ty(), UNNAMED);
            LLVMSetOperand(conversion, 0, by_float);
        }
    }
}

/// The type of a number, or of those of a vector.
fn element(of: Type) -> Type {
    match of.kind() {
        kind::VECTOR => LLVMGetElementType(of),
        _ => of,
    }
}

/// True if an instruction makes a `half` of a `double`, or vectors of them.
fn is_from_double(instruction: &Value) -> bool {
    instruction.opcode() == Some(op::FP_TRUNC)
        && element(instruction.ty()).kind() == kind::HALF
        && element(LLVMGetOperand(*instruction, 0).ty()).kind() == kind::DOUBLE
}
