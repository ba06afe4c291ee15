//! Gathers and scatters that look as they run whether they are accesses of neighbours.
//!
//! In `for (int i = get_global_id(0); i < n; i += get_global_size(0)) sum += x[i]`, work-items of a strip read neighbours in
//! each turn. The optimiser cannot tell, because a sum of 32 bits may overflow between two of them, so it makes a gather. A
//! processor takes several times as long for that as for a vector. So a gather or scatter whose addresses come from a counter
//! of a loop asks first:
//!
//! ```text
//! addresses, as distances from the first ── all where neighbours would be? ──▶ one access of a vector
//!                                        └─ else ────────────────────────────▶ the gather or scatter
//! ```
//!
//! Work-items that a mask leaves out do not count. Their addresses may be anything, and so are frozen. libLLVM's C interface
//! cannot split blocks, so functions in LLVM's text ask, and are inlined.

use super::Fault;
use super::llvm::*;
use std::collections::{BTreeMap, HashSet};

/// What the functions' names begin with.
const PREFIX: &str = "__q_neighbours.";

/// A gather or scatter.
struct Access {
    is_gather: bool,
    /// How many work-items take part, as LLVM writes it.
    count: String,
    /// The type of a number, in names of functions.
    element: String,
    /// The address space.
    space: String,
    align: u64,
}

impl Access {
    /// What a call does; none if it is no gather or scatter of numbers of 32 or 64 bits.
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
        };
        access.number().map(|_| access)
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
        } = self;
        format!("{PREFIX}{is_gather}.{count}.{element}.{space}.{align}")
    }

    /// The function that asks, as LLVM's text, and what it calls. Its parameters are addresses, a mask, and what is written, or
    /// what work-items without an access have.
    fn text(&self) -> (String, [String; 2]) {
        let Self {
            is_gather,
            count,
            element,
            space,
            align,
        } = self;
        let (number, bytes) = self.number().unwrap_or(("i32", 4));
        let lanes: u32 = count.parse().unwrap_or(1);
        let list = |of: &str, number: fn(u32, u32) -> u32| {
            let all: Vec<String> = (0..lanes)
                .map(|lane| format!("{of} {}", number(lane, bytes)))
                .collect();
            all.join(", ")
        };
        let (first, distances) = (
            list("i32", |_, _| 0),
            list("i64", |lane, bytes| lane * bytes),
        );
        let vector = format!("<{count} x {number}>");
        let (pointer, pointers) = (
            format!("ptr addrspace({space})"),
            format!("<{count} x ptr addrspace({space})>"),
        );
        let (mask, wide) = (format!("<{count} x i1>"), format!("<{count} x i64>"));
        let (result, one, all, end) = match is_gather {
            true => (
                vector.as_str(),
                format!(
                    "%one = call {vector} @llvm.masked.load.v{count}{element}.p{space}({pointer} %first, i32 {align}, \
                     {mask} %mask, {vector} %value)"
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
                    "call void @llvm.masked.store.v{count}{element}.p{space}({vector} %value, {pointer} %first, i32 {align}, \
                     {mask} %mask)"
                ),
                format!(
                    "call void @llvm.masked.scatter.v{count}{element}.v{count}p{space}({vector} %value, {pointers} %to, \
                     i32 {align}, {mask} %mask)"
                ),
                "ret void".to_owned(),
            ),
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
  {one}
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
            let call = call.replace(&format!("i32 {align}"), "i32 immarg");
            let (_, call) = call.split_once("call ").unwrap_or(("", &call));
            format!("declare {call}\n")
        });
        (text, declared)
    }
}

/// True if addresses of numbers of so many bytes come from a counter of a loop and numbers that are the same for all alone.
fn are_counted(addresses: Value, bytes: u64, layout: DataLayout) -> bool {
    let (mut open, mut seen, mut is_counted) = (vec![addresses], HashSet::new(), false);
    while let Some(value) = open.pop() {
        if value.ty().kind() != kind::VECTOR || value.opcode().is_none() || !seen.insert(value) {
            continue;
        }
        match value.opcode() {
            Some(op::ADD | op::SUB | op::TRUNC | op::ZEXT | op::SEXT) => {}
            // Structures have more between two of a member.
            Some(op::GEP)
                if LLVMABISizeOfType(layout, LLVMGetGEPSourceElementType(value)) == bytes => {}
            Some(op::PHI) => {
                is_counted = true;
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
            // The same for all.
            Some(op::SHUFFLE_VECTOR)
                if LLVMGetOperand(value, 0).opcode() == Some(op::INSERT_ELEMENT) =>
            {
                continue;
            }
            _ => return false,
        }
        open.extend(value.operands());
    }
    is_counted
}

/// True if an address is in memory of the function's own.
fn is_of_strip(address: Value) -> bool {
    match address.opcode() {
        Some(op::GEP) => is_of_strip(LLVMGetOperand(address, 0)),
        other => other == Some(op::ALLOCA),
    }
}

/// Has the gathers and scatters of a function ask whether they are accesses of neighbours. True if any does; the functions that
/// ask are to be inlined then.
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
            let (_, bytes) = access.number()?;
            are_counted(addresses, bytes.into(), layout).then_some((call, access))
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
    let (mut asking, mut message) = (Module::NULL, std::ptr::null_mut());
    if LLVMParseIRInContext(
        context,
        buffer(text.as_bytes()),
        &raw mut asking,
        &raw mut message,
    ) != 0
    {
        return Err(Fault::Failed(string(message)));
    }
    LLVMSetTarget(asking, LLVMGetDefaultTargetTriple());
    LLVMSetModuleDataLayout(asking, layout);
    if LLVMLinkModules2(module, asking) != 0 {
        let fault = "what asks for neighbours cannot be linked";
        return Err(Fault::Failed(fault.to_owned()));
    }
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
