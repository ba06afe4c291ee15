//! Counters from a work-item's number on: `for (i = get_local_id(0); i < n; i += 128)`.
//!
//! Each becomes the number that it begins at and a counter that begins at 0, which is the same for
//! all work-items in a turn. So a work-item need not keep a number of its own from turn to turn,
//! and the optimiser sees that neighbours read neighbours.

use crate::compiler::llvm::*;

/// Takes the counters of a kernel apart.
pub(super) fn take_apart(context: Context, kernel: Value) {
    let builder = LLVMCreateBuilderInContext(context);
    for block in blocks(kernel) {
        for phi in block.instructions() {
            if phi.opcode() == Some(op::PHI)
                && let Some(counter) = Counter::of(phi)
            {
                counter.take_apart(builder, block);
            }
        }
    }
}

/// A phi that grows by a constant from a work-item's number on.
struct Counter {
    phi: Value,
    /// The operands of the phi that are its value at the beginning, and the one in each next turn.
    first: u32,
    next: u32,
    step: Value,
}

impl Counter {
    fn of(phi: Value) -> Option<Self> {
        let is_number = phi.ty().kind() == kind::INTEGER && LLVMGetIntTypeWidth(phi.ty()) >= 32;
        if !is_number || LLVMCountIncoming(phi) != 2 {
            return None;
        }
        let ways = [(0, 1), (1, 0)];
        let (first, next) = ways.into_iter().find(|(first, next)| {
            let sum = LLVMGetIncomingValue(phi, *next);
            sum.opcode() == Some(op::ADD)
                && LLVMGetOperand(sum, 0) == phi
                && LLVMGetOperand(sum, 1).number().is_some()
                && is_of_item(LLVMGetIncomingValue(phi, *first))
        })?;
        let step = LLVMGetOperand(LLVMGetIncomingValue(phi, next), 1);
        Some(Self {
            phi,
            first,
            next,
            step,
        })
    }

    fn take_apart(&self, builder: Builder, header: Block) {
        let of = self.phi.ty();
        let [start, next] = [self.first, self.next].map(|at| LLVMGetIncomingValue(self.phi, at));
        LLVMPositionBuilderBefore(builder, self.phi);
        let turns = LLVMBuildPhi(builder, of, UNNAMED);
        let mut after = header.instructions().into_iter();
        if let Some(first) = after.find(|one| one.opcode() != Some(op::PHI)) {
            LLVMPositionBuilderBefore(builder, first);
        }
        let number = LLVMBuildBinOp(builder, op::ADD, start, turns, UNNAMED);
        LLVMPositionBuilderBefore(builder, next);
        let more = LLVMBuildBinOp(builder, op::ADD, turns, self.step, UNNAMED);
        // Where start and step are not negative, neither part leaves what the sum stays within.
        let step = self.step.number().unwrap_or(u64::MAX);
        if step >> (LLVMGetIntTypeWidth(of) - 1) == 0 {
            for sum in [number, more] {
                LLVMSetNSW(sum, LLVMGetNSW(next));
            }
        }
        for (value, at) in [(LLVMConstInt(of, 0, 0), self.first), (more, self.next)] {
            let from = LLVMGetIncomingBlock(self.phi, at);
            LLVMAddIncoming(turns, &raw const value, &raw const from, 1);
        }
        LLVMReplaceAllUsesWith(self.phi, number);
        LLVMInstructionEraseFromParent(self.phi);
    }
}

/// True if a value is a work-item's number, which is not negative.
fn is_of_item(value: Value) -> bool {
    match value.opcode() {
        Some(op::TRUNC | op::ZEXT | op::SEXT) => is_of_item(LLVMGetOperand(value, 0)),
        _ => value
            .callee()
            .is_some_and(|name| name.starts_with("__q_lid") || name.starts_with("__q_gid")),
    }
}
