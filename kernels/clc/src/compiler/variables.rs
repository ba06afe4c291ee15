//! Variables in global memory that the kernels of a program share.
//!
//! Every kernel is a shared object of its own, so none of them can have the variables. They are a
//! shared object, too: one for each program, with a table of their addresses. A kernel that uses
//! some has a pointer, which is set to the table when the kernel is loaded. It takes their
//! addresses from there.

use super::Fault;
use super::llvm::*;
use super::workgroup;

/// The name of the table, in the object that has the variables.
pub(crate) const TABLE: &str = "quipu_variables";
/// The name of a kernel's pointer to the table, in its object.
pub(crate) const PLACE: &str = "quipu_variables_place";

/// The address space of global memory.
const GLOBAL: u32 = 1;

/// The variables of a program, in an order that is the same whenever it is read.
pub(super) fn of(module: Module) -> Vec<Value> {
    let mut variables = module.globals();
    variables.retain(|variable| {
        LLVMIsDeclaration(*variable) == 0 && LLVMGetPointerAddressSpace(variable.ty()) == GLOBAL
    });
    variables
}

/// Refuses a program that has the address of such a variable in a constant one: each kernel has its
/// own constants.
pub(super) fn refuse_addresses(module: Module, variables: &[Value]) -> Result<(), Fault> {
    for other in module.globals() {
        let is_llvms = other.name().starts_with("llvm.");
        if variables.contains(&other) || LLVMIsDeclaration(other) != 0 || is_llvms {
            continue;
        }
        if is_made_of(LLVMGetInitializer(other), variables) {
            return Err(Fault::Refused(format!(
                "error: variable '{}' is in constant memory and holds the address of a variable in global memory, which is \
                 not supported on processors; put it in global memory, too",
                other.name()
            )));
        }
    }
    Ok(())
}

/// A variable that it refers to counts by itself: that has an initializer of its own, which may
/// refer to others in a circle.
fn is_made_of(constant: Value, variables: &[Value]) -> bool {
    if LLVMIsAGlobalVariable(constant).some().is_some() {
        return variables.contains(&constant);
    }
    constant
        .operands()
        .any(|operand| is_made_of(operand, variables))
}

/// Has a kernel take the addresses of variables from the table.
pub(super) fn place(context: Context, module: Module, kernel: Value) {
    let variables = of(module);
    for variable in &variables {
        // None stays in the kernel's own object.
        LLVMSetLinkage(*variable, linkage::INTERNAL);
    }
    if !workgroup::uses(kernel, &variables) {
        return;
    }
    let pointer = LLVMPointerTypeInContext(context, 0);
    let place = LLVMAddGlobalInAddressSpace(module, pointer, text(PLACE).as_ptr(), 0);
    LLVMSetInitializer(place, LLVMConstPointerNull(pointer));
    // It is set before the kernel runs for the first time, and stays.
    let stays = LLVMGetMDKindIDInContext(context, c"invariant.load".as_ptr(), 14);
    let nothing = LLVMMDNodeInContext2(context, std::ptr::null(), 0);
    let nothing = LLVMMetadataAsValue(context, nothing);
    let wide = LLVMIntTypeInContext(context, 64);
    workgroup::place(context, kernel, &variables, |builder, variable| {
        let number = variables.iter().position(|one| *one == variable);
        let number = LLVMConstInt(wide, number.unwrap_or_default() as u64, 0);
        let table = LLVMBuildLoad2(builder, pointer, place, UNNAMED);
        let entry = LLVMBuildInBoundsGEP2(builder, pointer, table, &raw const number, 1, UNNAMED);
        let address = LLVMBuildLoad2(builder, variable.ty(), entry, UNNAMED);
        for load in [table, address] {
            LLVMSetMetadata(load, stays, nothing);
        }
        address
    });
}

/// Has a program that was read consist of its variables and their table.
pub(super) fn only(context: Context, module: Module) {
    let variables = of(module);
    let of = LLVMPointerTypeInContext(context, GLOBAL);
    let count = variables.len() as u64;
    for function in module.functions() {
        if LLVMIsDeclaration(function) == 0 {
            LLVMSetLinkage(function, linkage::INTERNAL);
        }
    }
    for global in module.globals() {
        if LLVMIsDeclaration(global) == 0 {
            LLVMSetLinkage(global, linkage::INTERNAL);
        }
    }
    let table =
        LLVMAddGlobalInAddressSpace(module, LLVMArrayType2(of, count), text(TABLE).as_ptr(), 0);
    LLVMSetInitializer(table, LLVMConstArray2(of, variables.as_ptr(), count));
}
