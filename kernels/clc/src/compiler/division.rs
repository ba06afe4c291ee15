//! Whole numbers of 32 bits that are divided many at once.
//!
//! Processors divide whole numbers one by one, but vectors of `double`. The quotient of two numbers of 32 bits, rounded as a
//! `double`, has the right whole part: it is further from the next whole number than rounding moves it. So:
//!
//! 1. [`call`] replaces each division of a kernel by a call of a function. LLVM knows of a vector form of it for each length,
//!    without a mask, because the function is defined for a divisor of 0, too.
//! 2. The optimiser makes vectors of the loop over work-items, with calls of vector forms.
//! 3. [`marked_inline`] has all calls inlined. One that is still a scalar's becomes a plain division.

use super::Fault;
use super::llvm::*;
use std::fmt::Write as _;

/// A kind of division: its opcode, its name, and what it is made of.
struct Division {
    opcode: i32,
    name: &'static str,
    is_signed: bool,
    is_rest: bool,
}

const DIVISIONS: [Division; 4] = [
    Division {
        opcode: op::UDIV,
        name: "quipu.divide.udiv",
        is_signed: false,
        is_rest: false,
    },
    Division {
        opcode: op::SDIV,
        name: "quipu.divide.sdiv",
        is_signed: true,
        is_rest: false,
    },
    Division {
        opcode: op::UREM,
        name: "quipu.divide.urem",
        is_signed: false,
        is_rest: true,
    },
    Division {
        opcode: op::SREM,
        name: "quipu.divide.srem",
        is_signed: true,
        is_rest: true,
    },
];

/// How many work-items the vector forms are for.
const LENGTHS: [u32; 5] = [4, 8, 16, 32, 64];

/// What the names of all these functions begin with.
pub(super) const CALLED_TO_DIVIDE: &str = "quipu.divide.";

/// Replaces the divisions of a kernel by numbers that are not constants. True if there are any.
pub(super) fn call(
    context: Context,
    module: Module,
    machine: Machine,
    kernel: Value,
) -> Result<bool, Fault> {
    let all = blocks(kernel).into_iter().flat_map(Block::instructions);
    let divisions: Vec<(Value, &Division)> = all
        .filter_map(|one| {
            let of = DIVISIONS
                .iter()
                .find(|it| one.opcode() == Some(it.opcode))?;
            let is_one = one.ty().is_integer(32) && LLVMGetOperand(one, 1).number().is_none();
            is_one.then_some((one, of))
        })
        .collect();
    if divisions.is_empty() {
        return Ok(false);
    }
    let text: String = DIVISIONS.iter().map(Division::text).collect();
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
        let fault = "functions that divide cannot be linked";
        return Err(Fault::Failed(fault.to_owned()));
    }
    let builder = LLVMCreateBuilderInContext(context);
    for (division, of) in divisions {
        let Some(function) = module.function(of.name) else {
            continue;
        };
        LLVMPositionBuilderBefore(builder, division);
        let operands = [0, 1].map(|at| LLVMGetOperand(division, at));
        let of = LLVMGlobalGetValueType(function);
        let call = LLVMBuildCall2(builder, of, function, operands.as_ptr(), 2, UNNAMED);
        LLVMReplaceAllUsesWith(division, call);
        LLVMInstructionEraseFromParent(division);
    }
    Ok(true)
}

/// Marks the functions that divide as ones to be inlined, once the optimiser is through.
pub(super) fn marked_inline(context: Context, module: Module) {
    const FUNCTION: u32 = u32::MAX;
    let are_ours = |function: &Value| function.name().starts_with(CALLED_TO_DIVIDE);
    for function in module.functions().into_iter().filter(are_ours) {
        LLVMRemoveEnumAttributeAtIndex(function, FUNCTION, attribute_kind("noinline"));
        let inline = LLVMCreateEnumAttribute(context, attribute_kind("alwaysinline"), 0);
        LLVMAddAttributeAtIndex(function, FUNCTION, inline);
        LLVMSetLinkage(function, linkage::INTERNAL);
    }
}

impl Division {
    /// The function of two numbers, and its vector forms, as LLVM's text. They stay until the optimiser is through.
    fn text(&self) -> String {
        let Self {
            name,
            is_signed,
            is_rest,
            ..
        } = self;
        let sign = if *is_signed { "s" } else { "u" };
        let rest = |of: &str, whole: &str| match is_rest {
            true => format!(
                "  %product = mul {of} %quotient, %safe\n  %rest = sub {of} %{whole}, %product\n  ret {of} %rest\n}}\n"
            ),
            false => format!("  ret {of} %quotient\n}}\n"),
        };
        let forms = LENGTHS.map(|length| format!("_ZGV_LLVM_N{length}vv_{name}({name}_{length})"));
        let attributes = "noinline nounwind willreturn speculatable memory(none)";
        // The least number divided by -1 has no quotient that is one.
        let overflow = match is_signed {
            true => {
                "  %is_least = icmp eq i32 %of, -2147483648\n  %is_negated = icmp eq i32 %by, -1\n  \
                 %is_beyond = and i1 %is_least, %is_negated\n  %is_unsafe = or i1 %is_zero, %is_beyond\n"
            }
            false => "  %is_unsafe = or i1 %is_zero, false\n",
        };
        let mut text = format!(
            "define i32 @{name}(i32 %a, i32 %b) {attributes} \"vector-function-abi-variant\"=\"{}\" {{\n  \
             %of = freeze i32 %a\n  %by = freeze i32 %b\n  %is_zero = icmp eq i32 %by, 0\n{overflow}  \
             %safe = select i1 %is_unsafe, i32 1, i32 %by\n  %quotient = {sign}div i32 %of, %safe\n{}",
            forms.join(","),
            rest("i32", "of")
        );
        for length in LENGTHS {
            let (whole, real) = (format!("<{length} x i32>"), format!("<{length} x double>"));
            let ones = vec!["i32 1"; length as usize].join(", ");
            let _ = write!(
                text,
                "define {whole} @{name}_{length}({whole} %a, {whole} %b) {attributes} {{\n  \
                 %is_zero = icmp eq {whole} %b, zeroinitializer\n  \
                 %safe = select <{length} x i1> %is_zero, {whole} <{ones}>, {whole} %b\n  \
                 %x = {sign}itofp {whole} %a to {real}\n  \
                 %y = {sign}itofp {whole} %safe to {real}\n  \
                 %real = fdiv {real} %x, %y\n  \
                 %quotient = fpto{sign}i {real} %real to {whole}\n{}",
                rest(&whole, "a")
            );
        }
        text
    }
}
