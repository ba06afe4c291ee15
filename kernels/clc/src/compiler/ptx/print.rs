//! `printf` on NVIDIA's GPUs, by the function of their driver.
//!
//! That function, `vprintf`, takes a format of the C library and the address of the arguments. They
//! lie one after the other, each at a multiple of its size.

use super::super::Fault;
use super::super::llvm::*;

/// The address space of pointers that may point to any.
const GENERIC: u32 = 4;

/// The most arguments that the driver prints in a call, beside the format.
const MOST_ARGUMENTS: usize = 32;

/// The driver's function.
pub(super) const FUNCTION: &str = "vprintf";

/// Makes each call of `printf` one of the driver's function. Calls of constant formats have formats
/// of the C library by now.
///
/// # Errors
/// If a call has more arguments than the driver prints, or prints a vector by a format that is not
/// constant.
pub(super) fn lower(context: Context, module: Module) -> Result<(), Fault> {
    if module.function("printf").is_none() {
        return Ok(());
    }
    let number = LLVMIntTypeInContext(context, 32);
    let pointer = LLVMPointerTypeInContext(context, GENERIC);
    let of = LLVMFunctionType(number, [pointer; 2].as_ptr(), 2, 0);
    let print = LLVMAddFunction(module, c"vprintf".as_ptr(), of);
    let builder = LLVMCreateBuilderInContext(context);
    for function in module.functions() {
        for call in blocks(function).into_iter().flat_map(Block::instructions) {
            if call.callee().as_deref() != Some("printf") {
                continue;
            }
            // The last operand is what is called.
            let mut passed: Vec<Value> = call.operands().collect();
            passed.pop();
            let arguments = passed.split_off(1);
            let is_vector = |one: &Value| one.ty().kind() == kind::VECTOR;
            if arguments.len() > MOST_ARGUMENTS || arguments.iter().any(is_vector) {
                return Err(refused());
            }
            let format = generic(builder, call, passed[0], pointer);
            let list = list(context, builder, function, call, &arguments);
            let list = generic(builder, call, list, pointer);
            LLVMBuildCall2(builder, of, print, [format, list].as_ptr(), 2, UNNAMED);
            LLVMReplaceAllUsesWith(call, LLVMConstInt(number, 0, 0));
            LLVMInstructionEraseFromParent(call);
        }
    }
    Ok(())
}

fn refused() -> Fault {
    Fault::Refused(format!(
        "error: 'printf' prints at most {MOST_ARGUMENTS} numbers at a time on NVIDIA's GPUs, and vectors by a constant format \
         alone; print in several calls"
    ))
}

/// Memory of the function's own that the arguments are put into before the call.
fn list(
    context: Context,
    builder: Builder,
    function: Value,
    call: Value,
    arguments: &[Value],
) -> Value {
    let byte = LLVMIntTypeInContext(context, 8);
    let word = LLVMIntTypeInContext(context, 64);
    let mut end = 0;
    let mut places = Vec::new();
    for argument in arguments {
        let size = size(argument.ty());
        let start = u64::next_multiple_of(end, size);
        places.push(start);
        end = start + size;
    }
    // Memory that is taken elsewhere than at the function's beginning is taken anew each time.
    LLVMPositionBuilderBefore(
        builder,
        LLVMGetFirstInstruction(LLVMGetFirstBasicBlock(function)),
    );
    let list = LLVMBuildAlloca(builder, LLVMArrayType2(word, end.div_ceil(8)), UNNAMED);
    LLVMPositionBuilderBefore(builder, call);
    for (argument, start) in arguments.iter().zip(places) {
        let start = LLVMConstInt(word, start, 0);
        let place = LLVMBuildGEP2(builder, byte, list, &raw const start, 1, UNNAMED);
        let is_pointer = argument.ty().kind() == kind::POINTER;
        let pointer = LLVMPointerTypeInContext(context, GENERIC);
        let argument = match is_pointer {
            true => generic(builder, call, *argument, pointer),
            false => *argument,
        };
        LLVMBuildStore(builder, argument, place);
    }
    list
}

/// The bytes of a scalar or a pointer.
fn size(of: Type) -> u64 {
    match of.kind() {
        kind::INTEGER => u64::from(LLVMGetIntTypeWidth(of)).div_ceil(8),
        _ => 8,
    }
}

/// A pointer without a space of its own.
fn generic(builder: Builder, before: Value, value: Value, pointer: Type) -> Value {
    LLVMPositionBuilderBefore(builder, before);
    match LLVMGetPointerAddressSpace(value.ty()) {
        GENERIC => value,
        _ => LLVMBuildCast(builder, op::ADDRESS_SPACE_CAST, value, pointer, UNNAMED),
    }
}
