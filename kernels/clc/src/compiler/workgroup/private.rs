//! Memory of a work-item's own that an index reaches, side by side for work-items.
//!
//! An array of a work-item's own that is no register lies in the group's memory, once for each
//! work-item. If all of it is read and written as numbers of one size, the same element of all
//! work-items lies together: element `i` of work-item `w`, of `n`, is number `i * n + w`.
//! Work-items that reach the same element then reach neighbours, which is one access of a vector.

use crate::compiler::llvm::*;
use std::collections::{HashMap, HashSet};

/// The memory of a kernel that lies so.
#[derive(Default)]
pub(super) struct SideBySide {
    /// Bytes of a number, by the `alloca`, and by each address within it.
    bytes: HashMap<Value, u64>,
}

impl SideBySide {
    /// Finds it.
    pub(super) fn of(kernel: Value, layout: DataLayout) -> Self {
        let all = blocks(kernel).into_iter().flat_map(Block::instructions);
        let allocas = all.filter(|one| one.opcode() == Some(op::ALLOCA));
        let mut this = Self::default();
        for alloca in allocas {
            if let Some((bytes, addresses)) = numbers(alloca, layout) {
                this.bytes
                    .extend(addresses.into_iter().map(|address| (address, bytes)));
            }
        }
        this
    }

    /// Bytes of a number in the memory that an address is of; none if it lies otherwise.
    pub(super) fn bytes(&self, address: Value) -> Option<u64> {
        self.bytes.get(&address).copied()
    }
}

/// The size of the numbers that an `alloca` is read and written as, and all addresses within it,
/// itself among them; none if there are several sizes, or other uses.
fn numbers(alloca: Value, layout: DataLayout) -> Option<(u64, HashSet<Value>)> {
    let (mut addresses, mut open) = (HashSet::from([alloca]), vec![alloca]);
    let (mut size, mut steps) = (
        None,
        vec![LLVMABISizeOfType(layout, LLVMGetAllocatedType(alloca))],
    );
    while let Some(address) = open.pop() {
        for user in address.users() {
            let of = match user.opcode()? {
                op::LOAD => user.ty(),
                op::STORE if LLVMGetOperand(user, 0) != address => LLVMGetOperand(user, 0).ty(),
                op::GEP => {
                    steps.extend(parts_of(user, layout)?.into_iter().map(|part| part.bytes));
                    if addresses.insert(user) {
                        open.push(user);
                    }
                    continue;
                }
                op::CALL if user.callee()?.starts_with("llvm.lifetime") => continue,
                _ => return None,
            };
            let is_number = match of.kind() {
                kind::INTEGER => [8, 16, 32, 64].contains(&LLVMGetIntTypeWidth(of)),
                other => [kind::HALF, kind::FLOAT, kind::DOUBLE].contains(&other),
            };
            let bytes = LLVMABISizeOfType(layout, of);
            if !is_number || LLVMGetVolatile(user) != 0 || *size.get_or_insert(bytes) != bytes {
                return None;
            }
        }
    }
    let size = size?;
    let are_whole = steps.iter().all(|step| step.is_multiple_of(size));
    are_whole.then_some((size, addresses))
}

/// A part of the distance from an address to one that comes from it: an index, if there is one,
/// times so many bytes.
pub(super) struct Part {
    pub(super) index: Option<Value>,
    pub(super) bytes: u64,
}

/// The parts of what an instruction adds to an address; none if it is of vectors.
pub(super) fn parts_of(gep: Value, layout: DataLayout) -> Option<Vec<Part>> {
    let mut of = LLVMGetGEPSourceElementType(gep);
    let mut parts = Vec::new();
    for (at, index) in gep.operands().skip(1).enumerate() {
        let mut bytes = LLVMABISizeOfType(layout, of);
        if at > 0 {
            match of.kind() {
                kind::ARRAY => {
                    of = LLVMGetElementType(of);
                    bytes = LLVMABISizeOfType(layout, of);
                }
                kind::STRUCT => {
                    let member = index.number()? as u32;
                    parts.push(Part {
                        index: None,
                        bytes: LLVMOffsetOfElement(layout, of, member),
                    });
                    of = LLVMStructGetTypeAtIndex(of, member);
                    continue;
                }
                _ => return None,
            }
        }
        parts.push(match index.number() {
            // Its sign is that of the sum, which goes around alike.
            Some(_) if !index.ty().is_integer(64) => return None,
            Some(number) => Part {
                index: None,
                bytes: number.wrapping_mul(bytes),
            },
            None => Part {
                index: Some(index),
                bytes,
            },
        });
    }
    Some(parts)
}
