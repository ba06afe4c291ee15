//! SPIR-V, by the machine's translator, `llvm-spirv`.
//!
//! It gives bitcode in which OpenCL's built-in functions have the names that clang gives them, so
//! what follows is the same as for a text. It is a process of its own within the limits of this
//! one: a module that is not valid may make it crash. Its bitcode is of an older LLVM. An event is
//! a pointer there, and a type of its own today: the functions of events are called by other names,
//! under which the library has them with pointers. A sampler is a pointer there, too, and a number
//! in the library: so where a function takes one, the pointer's lowest bits are passed. An argument
//! of a kernel is read as a pointer from where its number is, and only the number counts.

use super::llvm::*;
use super::tools::{NO_TRANSLATOR, Tools};
use super::{Fault, Scratch, llvm, object};
use std::process::Command;

/// Has a module translated.
pub(super) fn module(tools: &Tools, module: &[u8]) -> Result<Vec<u8>, Fault> {
    let translator = tools.translator.as_ref();
    let translator = translator.ok_or_else(|| Fault::Failed(NO_TRANSLATOR.to_owned()))?;
    let folder = Scratch::new()?;
    let (from, to) = (
        folder.path().join("module.spv"),
        folder.path().join("module.bc"),
    );
    std::fs::write(&from, module)?;
    let output = Command::new(translator)
        .args(["-r", "--spirv-target-env=CL2.0"])
        .args(["--spirv-gen-kernel-arg-name-md", "--spirv-ext=+all", "-o"])
        .args([&to, &from])
        // It may crash; where it does is of no use to anybody here, and takes long to find out.
        .env("LLVM_DISABLE_SYMBOLIZATION", "1")
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(not_valid(&format!("{}: {}", output.status, gist(&said))));
    }
    object::load_llvm(tools, object::Step::Read)?;
    let context = LLVMContextCreate();
    let module = object::parse(context, &std::fs::read(&to)?)?;
    module
        .verify()
        .map_err(|error| not_valid(error.lines().next().unwrap_or_default()))?;
    keep_printf(context, module);
    rename_functions_of_events(module);
    pass_samplers_as_numbers(context, module);
    Ok(llvm::contents(LLVMWriteBitcodeToMemoryBuffer(module)).to_vec())
}

fn not_valid(said: &str) -> Fault {
    Fault::Refused(format!(
        "error: the SPIR-V module is not valid, or has what the translator of this machine (llvm-spirv) does not know; \
         it says: {said}"
    ))
}

/// The line of a program's words that says what is wrong.
fn gist(said: &str) -> &str {
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or("nothing");
    // Of a failed assertion the condition alone.
    let condition = first.split_once("Assertion `").map(|(_, rest)| rest);
    let condition = condition.and_then(|rest| rest.split_once("' failed"));
    condition.map_or(first, |(condition, _)| condition)
}

/// Has the optimiser leave calls of `printf` as they are, as clang's option for texts does. Where a
/// line without numbers is printed, it would call another function of the C library.
fn keep_printf(context: Context, module: Module) {
    const KEPT: &str = "no-builtin-printf";
    let kept = LLVMCreateStringAttribute(
        context,
        KEPT.as_ptr().cast(),
        KEPT.len() as u32,
        c"".as_ptr(),
        0,
    );
    for function in module.functions() {
        if LLVMIsDeclaration(function) == 0 {
            LLVMAddAttributeAtIndex(function, u32::MAX, kept);
        }
    }
}

/// Gives functions of events the names of those that take pointers.
fn rename_functions_of_events(module: Module) {
    const EVENT: &str = "9ocl_event";
    for function in module.functions() {
        let name = function.name();
        if LLVMIsDeclaration(function) == 0 || !name.starts_with("_Z") || !name.ends_with(EVENT) {
            continue;
        }
        if name.contains("async_work_group_strided_copy") {
            let name = name
                .replace(EVENT, "Pv")
                .replace("_Z29async_", "_Z33__q_async_");
            LLVMSetValueName2(function, name.as_ptr().cast(), name.len());
        }
    }
}

/// Has functions that take samplers take numbers for them.
fn pass_samplers_as_numbers(context: Context, module: Module) {
    const SAMPLER: &str = "11ocl_sampler";
    const LITERAL: &str = "__translate_sampler_initializer";
    let builder = LLVMCreateBuilderInContext(context);
    let number = LLVMIntTypeInContext(context, 32);
    let is_sampler = |value: Value| {
        let of = value.ty();
        of.kind() == kind::POINTER && LLVMGetPointerAddressSpace(of) == CONSTANT_MEMORY
    };
    for function in module.functions() {
        let name = function.name();
        let is_literal = name == LITERAL;
        if LLVMIsDeclaration(function) == 0 || !(is_literal || name.contains(SAMPLER)) {
            continue;
        }
        let calls = function.users().into_iter();
        let calls: Vec<Value> = calls
            .filter(|user| user.opcode() == Some(op::CALL))
            .collect();
        if is_literal {
            for call in calls {
                LLVMPositionBuilderBefore(builder, call);
                let literal = LLVMGetOperand(call, 0);
                let pointer = LLVMBuildCast(builder, op::INT_TO_PTR, literal, call.ty(), UNNAMED);
                replace(call, pointer);
            }
            continue;
        }
        let parameters = parameters(function);
        let types: Vec<Type> = parameters
            .iter()
            .map(|one| if is_sampler(*one) { number } else { one.ty() })
            .collect();
        let old = format!("{name}.of_pointers");
        LLVMSetValueName2(function, old.as_ptr().cast(), old.len());
        for call in calls {
            let of = LLVMFunctionType(call.ty(), types.as_ptr(), types.len() as u32, 0);
            let new = module.function(&name);
            let new = new.unwrap_or_else(|| LLVMAddFunction(module, text(&name).as_ptr(), of));
            LLVMPositionBuilderBefore(builder, call);
            let arguments: Vec<Value> = (0..types.len() as u32)
                .map(|at| match LLVMGetOperand(call, at) {
                    pointer if is_sampler(pointer) => {
                        LLVMBuildCast(builder, op::PTR_TO_INT, pointer, number, UNNAMED)
                    }
                    other => other,
                })
                .collect();
            let count = arguments.len() as u32;
            let made = LLVMBuildCall2(builder, of, new, arguments.as_ptr(), count, UNNAMED);
            replace(call, made);
        }
    }
}

/// The address space of constant memory.
const CONSTANT_MEMORY: u32 = 2;

fn replace(call: Value, by: Value) {
    LLVMReplaceAllUsesWith(call, by);
    LLVMInstructionEraseFromParent(call);
}
