//! Variables in global memory that the kernels of a program share.
//!
//! Every kernel is a shared object of its own, so none of them can have the variables. They are a
//! shared object, too: one for each program, with a table of their addresses. A kernel that uses
//! some has a pointer, which is set to the table when the kernel is loaded. It takes their
//! addresses from there.

use super::llvm::*;
use super::workgroup;

/// The name of the table, in the object that has the variables.
pub(crate) const TABLE: &str = "quipu_variables";
/// The name of a kernel's pointer to the table, in its object.
pub(crate) const PLACE: &str = "quipu_variables_place";

/// The address spaces of global and local memory.
const GLOBAL: u32 = 1;
const LOCAL: u32 = 3;

/// The variables of a program, in an order that is the same whenever it is read. Constants that
/// hold addresses of some are among them: clang makes one of an array in private memory whose
/// elements are known, and each kernel would have its own.
pub(super) fn of(module: Module) -> Vec<Value> {
    let mut others = module.globals();
    others.retain(|one| LLVMIsDeclaration(*one) == 0 && !one.name().starts_with("llvm."));
    let is_in = |one: &Value, space: u32| LLVMGetPointerAddressSpace(one.ty()) == space;
    let mut variables = others.clone();
    variables.retain(|one| is_in(one, GLOBAL));
    others.retain(|one| !is_in(one, GLOBAL) && !is_in(one, LOCAL));
    // Some hold addresses of such constants.
    loop {
        let (found, rest) = others
            .into_iter()
            .partition::<Vec<_>, _>(|one| is_made_of(LLVMGetInitializer(*one), &variables));
        if found.is_empty() {
            return variables;
        }
        variables.extend(found);
        others = rest;
    }
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
    // Their address spaces differ, and all addresses have one size.
    let addresses =
        LLVMConstStructInContext(context, variables.as_ptr(), variables.len() as u32, 0);
    let table = LLVMAddGlobalInAddressSpace(module, addresses.ty(), text(TABLE).as_ptr(), 0);
    LLVMSetInitializer(table, addresses);
}
