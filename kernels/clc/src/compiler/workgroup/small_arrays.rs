//! Small arrays of a work-item's own that an index reaches, as registers.
//!
//! An array that is reached by an index that differs between work-items is in memory, and vectors
//! of work-items read and write a place each. A few numbers are chosen from sooner: each element
//! becomes a variable, a read takes the one whose number the index is, and a write changes that one
//! and leaves the others. Instructions that fill an array as a whole are written out first, in all
//! arrays of numbers.

use super::graph::Graph;
use super::own_bytes;
use super::private::parts_of;
use super::uniform::Divergence;
use crate::compiler::llvm::*;
use std::collections::HashMap;

/// The most elements that are chosen from.
const MOST_CHOSEN: u64 = 8;

/// The most elements that are written one by one.
const MOST_WRITTEN: u64 = 64;

/// An array that is read and written as numbers of one type.
struct Array {
    alloca: Value,
    element: Type,
    /// Bytes of an element.
    bytes: u64,
    count: u64,
    accesses: Vec<Access>,
    /// The instructions that fill it as a whole, and the elements that each writes.
    fills: Vec<(Value, Vec<Value>)>,
}

/// A read or a write of an element.
struct Access {
    instruction: Value,
    /// The parts of the sum of bytes from the array's start: constants, and indices with the bytes
    /// that each counts for.
    fixed: u64,
    indices: Vec<(Value, u64)>,
}

/// The accesses that are written out. They go when all are, because one may be the index of
/// another.
#[derive(Default)]
struct WrittenOut {
    accesses: Vec<Value>,
    /// For each read, the value that takes its place.
    values: HashMap<Value, Value>,
}

impl WrittenOut {
    fn present(&self, value: Value) -> Value {
        self.values.get(&value).copied().unwrap_or(value)
    }
}

/// Has the small arrays of a kernel be registers where that is faster.
pub(in crate::compiler) fn choose(context: Context, kernel: Value, layout: DataLayout) {
    let all = blocks(kernel).into_iter().flat_map(Block::instructions);
    let allocas = all.filter(|one| one.opcode() == Some(op::ALLOCA));
    let arrays: Vec<Array> = allocas
        .filter_map(|one| array(context, one, layout))
        .collect();
    if arrays.is_empty() {
        return;
    }
    let graph = Graph::new(kernel, &HashMap::new());
    let differs = Divergence::of(&graph, &graph.loops());
    let builder = LLVMCreateBuilderInContext(context);
    let mut written_out = WrittenOut::default();
    for array in &arrays {
        for (fill, values) in &array.fills {
            LLVMPositionBuilderBefore(builder, *fill);
            for (at, value) in values.iter().enumerate() {
                LLVMBuildStore(builder, *value, array.place(context, builder, at as u64));
            }
            LLVMInstructionEraseFromParent(*fill);
        }
        let mut indices = array.accesses.iter().flat_map(|access| &access.indices);
        if array.count <= MOST_CHOSEN && indices.any(|(index, _)| differs.differs(*index)) {
            for access in &array.accesses {
                array.write_out(context, builder, access, &mut written_out);
            }
        }
    }
    for access in written_out.accesses {
        LLVMInstructionEraseFromParent(access);
    }
}

/// An array of which all uses are known; none if some are not.
fn array(context: Context, alloca: Value, layout: DataLayout) -> Option<Array> {
    let whole = own_bytes(alloca, layout);
    let mut element = None;
    let (mut accesses, mut fills) = (Vec::new(), Vec::new());
    let mut open = vec![(alloca, 0_u64, Vec::new())];
    while let Some((address, fixed, indices)) = open.pop() {
        for user in address.users() {
            let of = match user.opcode()? {
                op::LOAD => user.ty(),
                op::STORE if LLVMGetOperand(user, 0) != address => LLVMGetOperand(user, 0).ty(),
                op::GEP => {
                    let (mut fixed, mut indices) = (fixed, indices.clone());
                    for part in parts_of(user, layout)? {
                        match part.index {
                            Some(index) => indices.push((index, part.bytes)),
                            None => fixed = fixed.wrapping_add(part.bytes),
                        }
                    }
                    open.push((user, fixed, indices));
                    continue;
                }
                op::CALL => {
                    let callee = user.callee()?;
                    if !callee.starts_with("llvm.lifetime") {
                        let is_whole = address == alloca && LLVMGetOperand(user, 0) == alloca;
                        fills.push((user, is_whole.then_some(callee)?));
                    }
                    continue;
                }
                _ => return None,
            };
            if LLVMGetVolatile(user) != 0 || *element.get_or_insert(of) != of {
                return None;
            }
            accesses.push(Access {
                instruction: user,
                fixed,
                indices: indices.clone(),
            });
        }
    }
    let element = element?;
    let is_number =
        [kind::HALF, kind::FLOAT, kind::DOUBLE, kind::INTEGER].contains(&element.kind());
    let bytes = LLVMABISizeOfType(layout, element);
    let count = whole / bytes;
    let is_of_elements = is_number && whole.is_multiple_of(bytes) && count <= MOST_WRITTEN;
    let has_index = accesses.iter().any(|access| !access.indices.is_empty());
    // Members of packed structures lie between.
    let are_at_elements = accesses.iter().all(|access| {
        let mut strides = access.indices.iter().map(|(_, bytes)| *bytes);
        access.fixed.is_multiple_of(bytes) && strides.all(|stride| stride.is_multiple_of(bytes))
    });
    if !is_of_elements || !has_index || !are_at_elements {
        return None;
    }
    let fills = fills.into_iter().map(|(fill, callee)| {
        let is_all = LLVMGetOperand(fill, 2).number() == Some(whole);
        let values = match callee {
            _ if !is_all => None,
            name if name.starts_with("llvm.memcpy") => {
                of_constant(LLVMGetOperand(fill, 1), element, count)
            }
            name if name.starts_with("llvm.memset") => {
                let byte = LLVMGetOperand(fill, 1).number()?;
                let value = of_byte(context, byte, element, bytes)?;
                Some(vec![value; count as usize])
            }
            _ => None,
        };
        values.map(|values| (fill, values))
    });
    Some(Array {
        alloca,
        element,
        bytes,
        count,
        accesses,
        fills: fills.collect::<Option<_>>()?,
    })
}

/// The elements of a constant that an array is copied from.
fn of_constant(from: Value, element: Type, count: u64) -> Option<Vec<Value>> {
    let initial = LLVMIsAGlobalVariable(from)
        .some()
        .filter(|variable| LLVMIsGlobalConstant(*variable) != 0)
        .map(LLVMGetInitializer)?
        .some()?;
    let elements = (0..count as u32).map(|at| {
        let value = LLVMGetAggregateElement(initial, at).some()?;
        (value.ty() == element).then_some(value)
    });
    elements.collect()
}

/// An element all of whose bytes are this one.
fn of_byte(context: Context, byte: u64, element: Type, bytes: u64) -> Option<Value> {
    let bits = (byte & 0xff) * (u64::MAX / 0xff);
    match (bits, element.kind()) {
        (0, _) => Some(LLVMConstNull(element)),
        (_, kind::INTEGER) => Some(LLVMConstInt(element, bits, 0)),
        _ => {
            let number = LLVMConstInt(LLVMIntTypeInContext(context, 8 * bytes as u32), bits, 0);
            Some(LLVMConstBitCast(number, element))
        }
    }
}

impl Array {
    /// The address of an element.
    fn place(&self, context: Context, builder: Builder, at: u64) -> Value {
        let offset = LLVMConstInt(LLVMIntTypeInContext(context, 64), at * self.bytes, 0);
        let byte = LLVMIntTypeInContext(context, 8);
        LLVMBuildInBoundsGEP2(builder, byte, self.alloca, &raw const offset, 1, UNNAMED)
    }

    /// Has an access whose index is no constant choose from all elements.
    fn write_out(
        &self,
        context: Context,
        builder: Builder,
        access: &Access,
        written_out: &mut WrittenOut,
    ) {
        if access.indices.is_empty() {
            return;
        }
        let one = access.instruction;
        LLVMPositionBuilderBefore(builder, one);
        let wide = LLVMIntTypeInContext(context, 64);
        let number = |number: u64| LLVMConstInt(wide, number, 0);
        let mut offset = number(access.fixed);
        for (index, bytes) in &access.indices {
            let index = written_out.present(*index);
            let index = LLVMBuildCast(builder, op::SEXT, index, wide, UNNAMED);
            let part = LLVMBuildBinOp(builder, op::MUL, index, number(*bytes), UNNAMED);
            offset = LLVMBuildBinOp(builder, op::ADD, offset, part, UNNAMED);
        }
        let mut read = None;
        for at in 0..self.count {
            let place = self.place(context, builder, at);
            let old = LLVMBuildLoad2(builder, self.element, place, UNNAMED);
            let is_it = LLVMBuildICmp(
                builder,
                compare::EQ,
                offset,
                number(at * self.bytes),
                UNNAMED,
            );
            if one.opcode() == Some(op::STORE) {
                let new = LLVMBuildSelect(builder, is_it, LLVMGetOperand(one, 0), old, UNNAMED);
                LLVMBuildStore(builder, new, place);
            } else {
                read = Some(match read {
                    Some(others) => LLVMBuildSelect(builder, is_it, old, others, UNNAMED),
                    None => old,
                });
            }
        }
        if let Some(read) = read {
            LLVMReplaceAllUsesWith(one, read);
            written_out.values.insert(one, read);
        }
        written_out.accesses.push(one);
    }
}
