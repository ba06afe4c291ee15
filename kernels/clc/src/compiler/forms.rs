//! Functions with vector forms that LLVM knows.
//!
//! Some operations of work-items side by side are other instructions than those of one work-item.
//!
//! 1. Functions of angles are calls in a program's bitcode. [`call`] replaces other such operations
//!    of a kernel by calls of functions. LLVM knows of vector forms of each function.
//! 2. The optimiser makes vectors of the loop over work-items, with calls of vector forms.
//! 3. [`marked_inline`] has all calls inlined. One that is still a scalar's becomes the plain
//!    operation.

use super::llvm::*;
use super::{Fault, angles, division, roots};

/// The beginning of the names of all these functions.
pub(super) const CALLED: &str = "quipu.form.";

/// Attributes of all these functions. They stay functions until the optimiser is through.
pub(super) const ATTRIBUTES: &str = "noinline nounwind willreturn speculatable memory(none)";

/// An instruction that a call replaces.
pub(super) struct Call {
    pub(super) instruction: Value,
    /// The function.
    pub(super) name: &'static str,
    /// Gives the call's arguments. Another call may have replaced an operand of the instruction, so
    /// the arguments are asked for as the call is made.
    pub(super) operands: fn(Value) -> Vec<Value>,
}

/// Replaces operations of a kernel by calls. True if there are any.
pub(super) fn call(
    context: Context,
    module: Module,
    machine: Machine,
    kernel: Value,
) -> Result<bool, Fault> {
    let mut is_any = false;
    let kinds = [
        (division::calls(kernel), division::text as fn() -> String),
        (roots::calls(context, kernel), roots::text),
    ];
    for (calls, text) in kinds {
        if !calls.is_empty() {
            is_any = true;
            link(context, module, machine, &text())?;
            replace(context, module, calls);
        }
    }
    for (name, function) in angles::called(module) {
        is_any = true;
        give_forms(context, function, &angles::forms(name));
        link(context, module, machine, &angles::text(name))?;
    }
    Ok(is_any)
}

/// Has LLVM know vector forms of a function that is there. It may be called where a work-item does
/// not come to it.
fn give_forms(context: Context, function: Value, forms: &str) {
    const FUNCTION: u32 = u32::MAX;
    let (key, text) = ("vector-function-abi-variant", forms);
    let known = LLVMCreateStringAttribute(
        context,
        key.as_ptr().cast(),
        key.len() as u32,
        text.as_ptr().cast(),
        text.len() as u32,
    );
    LLVMAddAttributeAtIndex(function, FUNCTION, known);
    for kind in ["speculatable", "nounwind", "willreturn", "noinline"] {
        let attribute = LLVMCreateEnumAttribute(context, attribute_kind(kind), 0);
        LLVMAddAttributeAtIndex(function, FUNCTION, attribute);
    }
    // The forms, which are linked, call it.
    LLVMSetLinkage(function, linkage::EXTERNAL);
}

/// Links functions that are LLVM's text.
fn link(context: Context, module: Module, machine: Machine, text: &str) -> Result<(), Fault> {
    let (mut functions, mut message) = (Module::NULL, std::ptr::null_mut());
    if LLVMParseIRInContext(
        context,
        buffer(text.as_bytes()),
        &raw mut functions,
        &raw mut message,
    ) != 0
    {
        return Err(Fault::Failed(string(message)));
    }
    LLVMSetTarget(functions, LLVMGetDefaultTargetTriple());
    LLVMSetModuleDataLayout(functions, LLVMCreateTargetDataLayout(machine));
    if LLVMLinkModules2(module, functions) != 0 {
        let fault = "functions with vector forms cannot be linked";
        return Err(Fault::Failed(fault.to_owned()));
    }
    Ok(())
}

fn replace(context: Context, module: Module, calls: Vec<Call>) {
    let builder = LLVMCreateBuilderInContext(context);
    for call in calls {
        let Some(function) = module.function(call.name) else {
            continue;
        };
        LLVMPositionBuilderBefore(builder, call.instruction);
        let of = LLVMGlobalGetValueType(function);
        let operands = (call.operands)(call.instruction);
        let (first, count) = (operands.as_ptr(), operands.len() as u32);
        let made = LLVMBuildCall2(builder, of, function, first, count, UNNAMED);
        LLVMReplaceAllUsesWith(call.instruction, made);
        LLVMInstructionEraseFromParent(call.instruction);
    }
}

/// Marks the functions as ones to be inlined, once the optimiser is through.
pub(super) fn marked_inline(context: Context, module: Module) {
    const FUNCTION: u32 = u32::MAX;
    let are_ours = |function: &Value| function.name().starts_with(CALLED);
    for function in module.functions().into_iter().filter(are_ours) {
        LLVMRemoveEnumAttributeAtIndex(function, FUNCTION, attribute_kind("noinline"));
        let inline = LLVMCreateEnumAttribute(context, attribute_kind("alwaysinline"), 0);
        LLVMAddAttributeAtIndex(function, FUNCTION, inline);
        LLVMSetLinkage(function, linkage::INTERNAL);
    }
}
