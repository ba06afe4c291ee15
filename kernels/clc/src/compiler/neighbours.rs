//! Gathers and scatters that look as they run whether they are accesses of neighbours.
//!
//! In `for (int i = get_global_id(0); i < n; i += get_global_size(0)) sum += x[i]`, work-items of a
//! strip read neighbours in each turn. The optimiser cannot tell, because a sum of 32 bits may
//! overflow between two of them, so it makes a gather. A processor takes several times as long for
//! that as for a vector. So it is where a number goes around (`x[l & (step - 1)]`) but seldom does
//! so between two of a strip. A gather or scatter whose addresses come from a counter of a loop, or
//! from such a number, asks first:
//!
//! ```text
//! addresses, as distances from the first ── all where neighbours would be? ──▶ one access of a vector
//!                                        └─ else ────────────────────────────▶ the gather or scatter
//! ```
//!
//! Neighbours may be members of structures of two, as `float2` is: every second number is left out
//! then.
//!
//! Work-items that a mask leaves out do not count. Their addresses may be anything, and so are
//! frozen. libLLVM's C interface cannot split blocks, so functions in LLVM's text ask, and are
//! inlined.

use super::Fault;
use super::llvm::*;
use std::collections::{BTreeMap, HashSet};

/// The beginning of the functions' names.
const PREFIX: &str = "__q_neighbours.";

/// A gather or scatter.
struct Access {
    is_gather: bool,
    /// The number of work-items that take part, as LLVM writes it.
    count: String,
    /// The type of a number, in names of functions.
    element: String,
    /// The address space.
    space: String,
    align: u64,
    /// Numbers from one neighbour's to that of the next.
    stride: u64,
}

impl Access {
    /// The work of a call; none if it is no gather or scatter of numbers of 32 or 64 bits.
    fn of(call: Value) -> Option<Self> {
        let name = call.callee()?;
        let rest = name.strip_prefix("llvm.masked.")?;
        let (is_gather, rest) = match rest.strip_prefix("gather.v") {
            Some(rest) => (true, rest),
            None => (false, rest.strip_prefix("scatter.v")?),
        };
        let (vector, pointers) = rest.split_once('.')?;
        let (count, element) = vector.split_at(vector.find(|c: char| !c.is_ascii_digit())?);
        let (_, space) = pointers.rsplit_once('p')?;
        let access = Self {
            is_gather,
            count: count.to_owned(),
            element: element.to_owned(),
            space: space.to_owned(),
            align: LLVMGetOperand(call, if is_gather { 1 } else { 2 }).number()?,
            stride: 1,
        };
        access.number().map(|_| access)
    }

    /// As it may be an access of neighbours, by what its addresses come from; none if it is none.
    fn of_neighbours(self, addresses: Value, layout: DataLayout) -> Option<Self> {
        let (_, bytes) = self.number()?;
        let apart = between_neighbours(addresses, layout)?;
        let stride = apart / u64::from(bytes);
        let is_near = (1..=2).contains(&stride) && apart.is_multiple_of(bytes.into());
        is_near.then_some(Self { stride, ..self })
    }

    /// A number's type and bytes.
    fn number(&self) -> Option<(&'static str, u32)> {
        Some(match self.element.as_str() {
            "i32" => ("i32", 4),
            "f32" => ("float", 4),
            "i64" => ("i64", 8),
            "f64" => ("double", 8),
            _ => return None,
        })
    }

    /// The name of the function that asks.
    fn name(&self) -> String {
        let Self {
            is_gather,
            count,
            element,
            space,
            align,
            stride,
        } = self;
        format!("{PREFIX}{is_gather}.{count}.{element}.{space}.{align}.{stride}")
    }

    /// The function that asks, as LLVM's text, and what it calls. Its parameters are addresses, a
    /// mask, and what is written, or what work-items without an access have.
    fn text(&self) -> (String, [String; 2]) {
        let Self {
            is_gather,
            count,
            element,
            space,
            align,
            stride,
        } = self;
        let (number, bytes) = self.number().unwrap_or(("i32", 4));
        let lanes: u64 = count.parse().unwrap_or(1);
        let list = |of: &str, lanes: u64, number: &dyn Fn(u64) -> u64| {
            let all: Vec<String> = (0..lanes)
                .map(|lane| format!("{of} {}", number(lane)))
                .collect();
            all.join(", ")
        };
        let (first, distances) = (
            list("i32", lanes, &|_| 0),
            list("i64", lanes, &|lane| lane * stride * u64::from(bytes)),
        );
        // Numbers of neighbours among all that lie there, and back.
        let every = lanes * stride;
        let spread = list("i32", every, &|at| {
            if at.is_multiple_of(*stride) {
                at / stride
            } else {
                lanes
            }
        });
        let kept = list("i32", lanes, &|lane| lane * stride);
        let vector = format!("<{count} x {number}>");
        let row = format!("<{every} x {number}>");
        let (pointer, pointers) = (
            format!("ptr addrspace({space})"),
            format!("<{count} x ptr addrspace({space})>"),
        );
        let (mask, wide) = (format!("<{count} x i1>"), format!("<{count} x i64>"));
        let row_mask = format!("<{every} x i1>");
        let (result, one, all, end) = match is_gather {
            true => (
                vector.as_str(),
                format!(
                    "%there = call {row} @llvm.masked.load.v{every}{element}.p{space}({pointer} %first, i32 {align}, \
                     {row_mask} %asked, {row} %instead)"
                ),
                format!(
                    "%all = call {vector} @llvm.masked.gather.v{count}{element}.v{count}p{space}({pointers} %to, i32 {align}, \
                     {mask} %mask, {vector} %value)"
                ),
                format!(
                    "%read = phi {vector} [ %one, %near ], [ %all, %far ]\n  ret {vector} %read"
                ),
            ),
            false => (
                "void",
                format!(
                    "call void @llvm.masked.store.v{every}{element}.p{space}({row} %instead, {pointer} %first, i32 {align}, \
                     {row_mask} %asked)"
                ),
                format!(
                    "call void @llvm.masked.scatter.v{count}{element}.v{count}p{space}({vector} %value, {pointers} %to, \
                     i32 {align}, {mask} %mask)"
                ),
                "ret void".to_owned(),
            ),
        };
        let kept = match is_gather {
            true => {
                format!("%one = shufflevector {row} %there, {row} poison, <{count} x i32> <{kept}>")
            }
            false => String::new(),
        };
        let name = self.name();
        let text = format!(
            "define {result} @\"{name}\"({pointers} %to, {mask} %mask, {vector} %value) alwaysinline {{
  %some = freeze {pointers} %to
  %at = ptrtoint {pointers} %some to {wide}
  %start = shufflevector {wide} %at, {wide} poison, <{count} x i32> <{first}>
  %distance = sub {wide} %at, %start
  %elsewhere = icmp ne {wide} %distance, <{distances}>
  %counts = and {mask} %elsewhere, %mask
  %bits = bitcast {mask} %counts to i{count}
  %is_near = icmp eq i{count} %bits, 0
  br i1 %is_near, label %near, label %far
near:
  %first = extractelement {pointers} %some, i64 0
  %asked = shufflevector {mask} %mask, {mask} zeroinitializer, <{every} x i32> <{spread}>
  %instead = shufflevector {vector} %value, {vector} poison, <{every} x i32> <{spread}>
  {one}
  {kept}
  br label %end
far:
  {all}
  br label %end
end:
  {end}
}}\n"
        );
        let declared = [one, all].map(|call| {
            let call = call.replace(" %first", "").replace(" %to", "");
            let call = call.replace(" %mask", "").replace(" %value", "");
            let call = call.replace(" %asked", "").replace(" %instead", "");
            let call = call.replace(&format!("i32 {align}"), "i32 immarg");
            let (_, call) = call.split_once("call ").unwrap_or(("", &call));
            format!("declare {call}\n")
        });
        (text, declared)
    }
}

/// Bytes between what neighbours access, if that is known, and their addresses come from a counter
/// of a loop, or numbers that go around, and from such as are the same for all alone.
fn between_neighbours(addresses: Value, layout: DataLayout) -> Option<u64> {
    let (mut open, mut seen) = (vec![addresses], HashSet::new());
    let (mut counts, mut is_multiple, mut goes_around) = (false, false, false);
    let mut apart = None;
    while let Some(value) = open.pop() {
        if value.ty().kind() != kind::VECTOR || value.opcode().is_none() || !seen.insert(value) {
            continue;
        }
        match value.opcode() {
            Some(op::ADD | op::SUB | op::TRUNC | op::ZEXT | op::SEXT) => {}
            Some(op::SHL) if LLVMGetOperand(value, 1).opcode().is_none() => is_multiple = true,
            Some(op::AND) if value.operands().any(is_same_for_all) => goes_around = true,
            // A member of a structure.
            Some(op::GEP)
                if value
                    .operands()
                    .skip(1)
                    .all(|index| index.opcode().is_none()) => {}
            Some(op::GEP) => {
                let bytes = LLVMABISizeOfType(layout, element_of(value));
                if *apart.get_or_insert(bytes) != bytes {
                    return None;
                }
            }
            Some(op::PHI) => {
                counts = true;
                let count = LLVMCountIncoming(value);
                open.extend((0..count).map(|at| LLVMGetIncomingValue(value, at)));
                continue;
            }
            // What the strip's array has, where the loop begins.
            Some(op::LOAD) if is_of_strip(LLVMGetOperand(value, 0)) => continue,
            // What it was, for work-items that have left.
            Some(op::SELECT) => {
                open.extend([1, 2].map(|at| LLVMGetOperand(value, at)));
                continue;
            }
            _ if is_same_for_all(value) => continue,
            _ => return None,
        }
        open.extend(value.operands());
    }
    apart.filter(|_| goes_around || counts && !is_multiple)
}

/// True if a vector has a number that is no constant in all places.
fn is_same_for_all(vector: Value) -> bool {
    vector.opcode() == Some(op::SHUFFLE_VECTOR)
        && LLVMGetOperand(vector, 0).opcode() == Some(op::INSERT_ELEMENT)
}

/// The type of the elements that the last index of an address counts.
fn element_of(address: Value) -> Type {
    let mut element = LLVMGetGEPSourceElementType(address);
    for _ in address.operands().skip(2) {
        if element.kind() != kind::ARRAY {
            return element;
        }
        element = LLVMGetElementType(element);
    }
    element
}

/// True if an address is in memory of the function's own.
fn is_of_strip(address: Value) -> bool {
    match address.opcode() {
        Some(op::GEP) => is_of_strip(LLVMGetOperand(address, 0)),
        other => other == Some(op::ALLOCA),
    }
}

/// Links functions in LLVM's text to a module.
pub(super) fn link(
    context: Context,
    module: Module,
    machine: Machine,
    text: &str,
) -> Result<(), Fault> {
    let (mut linked, mut message) = (Module::NULL, std::ptr::null_mut());
    let text = buffer(text.as_bytes());
    if LLVMParseIRInContext(context, text, &raw mut linked, &raw mut message) != 0 {
        return Err(Fault::Failed(string(message)));
    }
    LLVMSetTarget(linked, LLVMGetDefaultTargetTriple());
    LLVMSetModuleDataLayout(linked, LLVMCreateTargetDataLayout(machine));
    if LLVMLinkModules2(module, linked) != 0 {
        let fault = "functions of gathers cannot be linked";
        return Err(Fault::Failed(fault.to_owned()));
    }
    Ok(())
}

/// Has the gathers and scatters of a function ask whether they are accesses of neighbours. True if
/// any does; the functions that ask are to be inlined then.
pub(super) fn ask(
    context: Context,
    module: Module,
    machine: Machine,
    function: Value,
) -> Result<bool, Fault> {
    let layout = LLVMCreateTargetDataLayout(machine);
    let calls = blocks(function).into_iter().flat_map(Block::instructions);
    let accesses: Vec<(Value, Access)> = calls
        .filter_map(|call| {
            let access = Access::of(call)?;
            let addresses = LLVMGetOperand(call, u32::from(!access.is_gather));
            let access = access.of_neighbours(addresses, layout)?;
            Some((call, access))
        })
        .collect();
    if accesses.is_empty() {
        return Ok(false);
    }
    let mut texts = BTreeMap::new();
    for (_, access) in &accesses {
        let (text, declared) = access.text();
        texts.insert(access.name(), text);
        texts.extend(declared.map(|declaration| (declaration.clone(), declaration)));
    }
    let text: String = texts.into_values().collect();
    link(context, module, machine, &text)?;
    let builder = LLVMCreateBuilderInContext(context);
    for (call, access) in accesses {
        let Some(asks) = module.function(&access.name()) else {
            continue;
        };
        LLVMSetLinkage(asks, linkage::INTERNAL);
        LLVMPositionBuilderBefore(builder, call);
        let operands = match access.is_gather {
            true => [0, 2, 3],
            false => [1, 3, 0],
        };
        let operands = operands.map(|at| LLVMGetOperand(call, at));
        let of = LLVMGlobalGetValueType(asks);
        let made = LLVMBuildCall2(builder, of, asks, operands.as_ptr(), 3, UNNAMED);
        LLVMReplaceAllUsesWith(call, made);
        LLVMInstructionEraseFromParent(call);
    }
    Ok(true)
}
