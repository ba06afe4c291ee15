//! The memory that an address is of, and what is written there.

use crate::compiler::llvm::*;
use std::collections::HashSet;

/// Memory that an address may be of: that of an argument, a variable or an `alloca`, or any of an
/// address space. Arguments are taken to be of different memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Place {
    space: u32,
    of: Option<Value>,
}

/// The address space of a work-item's own memory, and the one of pointers to any other.
const PRIVATE: u32 = 0;
const GENERIC: u32 = 4;

impl Place {
    fn meets(&self, other: &Self) -> bool {
        let is_any = |place: &Self| place.space == GENERIC;
        is_any(self)
            || is_any(other)
            || self.space == other.space
                && (self.of.is_none() || other.of.is_none() || self.of == other.of)
    }

    /// True if some of these may be the same memory as some of those, if two arguments may be.
    pub(super) fn any_share(these: &[Self], those: &[Self]) -> bool {
        let share = |one: &Self, other: &Self| {
            one.space == other.space || one.space == GENERIC || other.space == GENERIC
        };
        these
            .iter()
            .any(|one| those.iter().any(|other| share(one, other)))
    }

    /// True if some of these are the same memory as some of those.
    pub(super) fn any_meet(these: &[Self], those: &[Self]) -> bool {
        these
            .iter()
            .any(|one| those.iter().any(|other| one.meets(other)))
    }

    /// True if an address is of a work-item's own memory, or may be.
    pub(super) fn is_own(address: Value) -> bool {
        let own = |place: &Self| [PRIVATE, GENERIC].contains(&place.space);
        places(address).iter().any(own)
    }

    /// True if it is that of an argument, a variable or an `alloca`.
    pub(super) fn is_named(&self) -> bool {
        self.of.is_some()
    }
}

/// The address that an instruction writes to, if it does.
pub(super) fn written(instruction: Value) -> Option<Value> {
    match instruction.opcode()? {
        op::STORE => Some(LLVMGetOperand(instruction, 1)),
        op::ATOMIC_RMW | op::ATOMIC_CMPXCHG => Some(LLVMGetOperand(instruction, 0)),
        op::CALL => {
            let name = instruction.callee()?;
            (name.starts_with("llvm.mem") || name.starts_with("llvm.masked.store"))
                .then(|| LLVMGetOperand(instruction, u32::from(name.contains("masked"))))
        }
        _ => None,
    }
}

/// The number in memory after an instruction that finds `found` there, as far as both are known.
pub(super) fn left(instruction: Value, found: Option<u64>) -> Option<u64> {
    let by = |operand: u32| LLVMGetOperand(instruction, operand);
    match instruction.opcode()? {
        op::STORE => by(0).number(),
        op::ATOMIC_CMPXCHG => by(2).number(),
        op::ATOMIC_RMW => {
            let is_integer = by(1).ty().kind() == kind::INTEGER;
            let bits = is_integer.then(|| LLVMGetIntTypeWidth(by(1).ty()))?;
            let number = by(1).number()?;
            let now = match LLVMGetAtomicRMWBinOp(instruction) {
                0 => number,
                1 => found?.wrapping_add(number),
                2 => found?.wrapping_sub(number),
                3 => found? & number,
                5 => found? | number,
                6 => found? ^ number,
                _ => return None,
            };
            Some(now & (u64::MAX >> (64 - bits)))
        }
        _ => None,
    }
}

/// The memory that an address may be of.
pub(super) fn places(address: Value) -> Vec<Place> {
    let (mut open, mut seen) = (vec![address], HashSet::new());
    let mut found = Vec::new();
    while let Some(value) = open.pop() {
        if !seen.insert(value) {
            continue;
        }
        let space = match value.ty().kind() {
            kind::POINTER => LLVMGetPointerAddressSpace(value.ty()),
            _ => GENERIC,
        };
        let constant = LLVMIsAConstantExpr(value).some().map(LLVMGetConstOpcode);
        let is_named = LLVMIsAArgument(value).some().is_some()
            || LLVMIsAGlobalVariable(value).some().is_some()
            || value.opcode() == Some(op::ALLOCA);
        match value.opcode().or(constant) {
            Some(op::GEP | op::BIT_CAST | op::ADDRESS_SPACE_CAST | op::FREEZE) => {
                open.push(LLVMGetOperand(value, 0));
            }
            Some(op::SELECT) => open.extend(value.operands().skip(1)),
            Some(op::PHI) => {
                let count = LLVMCountIncoming(value);
                open.extend((0..count).map(|at| LLVMGetIncomingValue(value, at)));
            }
            _ => found.push(Place {
                space,
                of: is_named.then_some(value),
            }),
        }
    }
    found
}
