//! Vectors of a few bytes that are read and written as one number.
//!
//! Vectors are made across work-items, so a `uchar4` is taken apart into four numbers. Its memory
//! would be read as four bytes by each work-item: where only some of them do, one by one, since
//! processors gather words, and mask words best. So it is read and written as a word, and taken
//! apart, or put together, by shifts.

use super::llvm::*;

/// Has a function read and write vectors of at most 32 bits as one number, where another work-item
/// may.
pub(super) fn of_vectors(context: Context, function: Value) {
    let builder = LLVMCreateBuilderInContext(context);
    for access in blocks(function).into_iter().flat_map(Block::instructions) {
        let (vector, address) = match access.opcode() {
            Some(op::LOAD) => (access.ty(), LLVMGetOperand(access, 0)),
            Some(op::STORE) => (LLVMGetOperand(access, 0).ty(), LLVMGetOperand(access, 1)),
            _ => continue,
        };
        const PRIVATE: u32 = 0;
        if vector.kind() != kind::VECTOR
            || LLVMGetVolatile(access) != 0
            || LLVMGetPointerAddressSpace(address.ty()) == PRIVATE
        {
            continue;
        }
        let element = LLVMGetElementType(vector);
        if ![8, 16].iter().any(|bits| element.is_integer(*bits)) {
            continue;
        }
        let (each, count) = (LLVMGetIntTypeWidth(element), LLVMGetVectorSize(vector));
        let bits = each * count;
        if ![16, 32].contains(&bits) {
            continue;
        }
        LLVMPositionBuilderBefore(builder, access);
        let word = LLVMIntTypeInContext(context, bits);
        let number = |at: u32| LLVMConstInt(LLVMIntTypeInContext(context, 32), at.into(), 0);
        let shift = |at: u32| LLVMConstInt(word, u64::from(at * each), 0);
        let align = LLVMGetAlignment(access);
        if access.opcode() == Some(op::LOAD) {
            let read = LLVMBuildLoad2(builder, word, address, UNNAMED);
            LLVMSetAlignment(read, align);
            let mut whole = LLVMGetPoison(vector);
            for at in 0..count {
                let part = LLVMBuildBinOp(builder, op::LSHR, read, shift(at), UNNAMED);
                let part = LLVMBuildCast(builder, op::TRUNC, part, element, UNNAMED);
                whole = LLVMBuildInsertElement(builder, whole, part, number(at), UNNAMED);
            }
            LLVMReplaceAllUsesWith(access, whole);
        } else {
            let mut whole = LLVMConstInt(word, 0, 0);
            for at in 0..count {
                let from = LLVMGetOperand(access, 0);
                let part = LLVMBuildExtractElement(builder, from, number(at), UNNAMED);
                // The fourth of a vector of three is no number, and must not make the whole none.
                let part = LLVMBuildFreeze(builder, part, UNNAMED);
                let part = LLVMBuildCast(builder, op::ZEXT, part, word, UNNAMED);
                let part = LLVMBuildBinOp(builder, op::SHL, part, shift(at), UNNAMED);
                whole = LLVMBuildBinOp(builder, op::OR, whole, part, UNNAMED);
            }
            let written = LLVMBuildStore(builder, whole, address);
            LLVMSetAlignment(written, align);
        }
        LLVMInstructionEraseFromParent(access);
    }
}
