//! Whole numbers: division by zero, and those of 32 bits that are divided many at once.
//!
//! OpenCL C gives a division without a quotient some value, and goes on. For LLVM it may be
//! anything, and processors end the process. So [`make_safe`] replaces such divisors by 1, in the
//! text's own divisions, before LLVM draws conclusions of them.
//!
//! Processors divide whole numbers one by one, but vectors of `double`. The quotient of two numbers
//! of 32 bits, rounded as a `double`, has the right whole part: it is further from the next whole
//! number than rounding moves it. So:
//!
//! Where all are divided by one number, they are multiplied by its inverse, made larger by so
//! little that a quotient does not come to the next whole number, and by more than what rounding
//! takes.
//!
//! The divisions are functions with [vector forms](super::forms), without a mask, because the
//! functions are defined for a divisor of 0, too.

use super::forms::{ATTRIBUTES, Call};
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
        name: "quipu.form.udiv",
        is_signed: false,
        is_rest: false,
    },
    Division {
        opcode: op::SDIV,
        name: "quipu.form.sdiv",
        is_signed: true,
        is_rest: false,
    },
    Division {
        opcode: op::UREM,
        name: "quipu.form.urem",
        is_signed: false,
        is_rest: true,
    },
    Division {
        opcode: op::SREM,
        name: "quipu.form.srem",
        is_signed: true,
        is_rest: true,
    },
];

/// The numbers of work-items that the vector forms are for.
const LENGTHS: [u32; 5] = [4, 8, 16, 32, 64];

/// Has all divisions of whole numbers in a module's functions be defined: a divisor with which
/// there is no quotient becomes 1.
pub(super) fn make_safe(context: Context, module: Module) {
    let builder = LLVMCreateBuilderInContext(context);
    let functions = module.functions().into_iter();
    let all = functions.flat_map(blocks).flat_map(Block::instructions);
    for division in all {
        let mut kinds = DIVISIONS.iter();
        let Some(of) = kinds.find(|it| division.opcode() == Some(it.opcode)) else {
            continue;
        };
        let [dividend, divisor] = [0, 1].map(|at| LLVMGetOperand(division, at));
        let is_plain =
            |number: u64| number != 0 && !(of.is_signed && is_minus_one(divisor, number));
        if divisor.number().is_some_and(is_plain) {
            continue;
        }
        let number = divisor.ty();
        LLVMPositionBuilderBefore(builder, division);
        let compared =
            |value: Value, with: Value| LLVMBuildICmp(builder, compare::EQ, value, with, UNNAMED);
        // The value that is compared has to be the one that divides.
        let divisor = LLVMBuildFreeze(builder, divisor, UNNAMED);
        let mut is_unsafe = compared(divisor, LLVMConstNull(number));
        if of.is_signed {
            // The least number divided by -1 has no quotient that is one.
            let dividend = LLVMBuildFreeze(builder, dividend, UNNAMED);
            LLVMSetOperand(division, 0, dividend);
            let is_least = compared(dividend, repeated(number, |bits| 1 << (bits - 1)));
            let is_negated = compared(divisor, LLVMConstAllOnes(number));
            let is_beyond = LLVMBuildBinOp(builder, op::AND, is_least, is_negated, UNNAMED);
            is_unsafe = LLVMBuildBinOp(builder, op::OR, is_unsafe, is_beyond, UNNAMED);
        }
        let safe = LLVMBuildSelect(
            builder,
            is_unsafe,
            repeated(number, |_| 1),
            divisor,
            UNNAMED,
        );
        LLVMSetOperand(division, 1, safe);
    }
}

/// True if a constant divisor of this value is -1 in its type.
fn is_minus_one(divisor: Value, number: u64) -> bool {
    let bits = LLVMGetIntTypeWidth(divisor.ty());
    number == u64::MAX >> (64 - bits)
}

/// A constant of an integer's type, or of a vector's with it in each element; `value` makes it of
/// the number of bits.
pub(super) fn repeated(of: Type, value: impl FnOnce(u32) -> u64) -> Value {
    let constant = |of: Type| LLVMConstInt(of, value(LLVMGetIntTypeWidth(of)), 0);
    match of.kind() {
        kind::VECTOR => {
            let count = LLVMGetVectorSize(of);
            let element = constant(LLVMGetElementType(of));
            LLVMConstVector(vec![element; count as usize].as_ptr(), count)
        }
        _ => constant(of),
    }
}

/// The divisions of a kernel by numbers that are not constants.
pub(super) fn calls(kernel: Value) -> Vec<Call> {
    let all = blocks(kernel).into_iter().flat_map(Block::instructions);
    let of_one = |one: Value| {
        let mut kinds = DIVISIONS.iter();
        let of = kinds.find(|it| one.opcode() == Some(it.opcode))?;
        let is_one = one.ty().is_integer(32) && LLVMGetOperand(one, 1).number().is_none();
        is_one.then_some(Call {
            instruction: one,
            name: of.name,
            operands: |one| [0, 1].map(|at| LLVMGetOperand(one, at)).to_vec(),
        })
    };
    all.filter_map(of_one).collect()
}

/// The functions, as LLVM's text.
pub(super) fn text() -> String {
    DIVISIONS.iter().map(Division::text).collect()
}

impl Division {
    /// The function of two numbers, and its vector forms, as LLVM's text. They stay until the
    /// optimiser is through.
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
        // The optimiser takes the first form that fits.
        let form = |length: &u32, of: &str, suffix: &str| {
            format!("_ZGV_LLVM_N{length}{of}_{name}({name}_{length}{suffix})")
        };
        let by_one = LENGTHS.iter().map(|length| form(length, "vu", "_by_one"));
        let by_each = LENGTHS.iter().map(|length| form(length, "vv", ""));
        let forms: Vec<String> = by_one.chain(by_each).collect();
        // The least number divided by -1 has no quotient that is one.
        let overflow = match is_signed {
            true => {
                "  %is_least = icmp eq i32 %of, -2147483648\n  %is_negated = icmp eq i32 %by, -1\n  \
                 %is_beyond = and i1 %is_least, %is_negated\n  %is_unsafe = or i1 %is_zero, %is_beyond\n"
            }
            false => "  %is_unsafe = or i1 %is_zero, false\n",
        };
        let mut text = format!(
            "define i32 @{name}(i32 %a, i32 %b) {ATTRIBUTES} \"vector-function-abi-variant\"=\"{}\" {{\n  \
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
                "define {whole} @{name}_{length}({whole} %a, {whole} %b) {ATTRIBUTES} {{\n  \
                 %is_zero = icmp eq {whole} %b, zeroinitializer\n  \
                 %safe = select <{length} x i1> %is_zero, {whole} <{ones}>, {whole} %b\n  \
                 %x = {sign}itofp {whole} %a to {real}\n  \
                 %y = {sign}itofp {whole} %safe to {real}\n  \
                 %real = fdiv {real} %x, %y\n  \
                 %quotient = fpto{sign}i {real} %real to {whole}\n{}",
                rest(&whole, "a")
            );
            let first = vec!["i32 0"; length as usize].join(", ");
            // 1 + 2^-50.
            let _ = write!(
                text,
                "define {whole} @{name}_{length}_by_one({whole} %a, i32 %b) {ATTRIBUTES} {{\n  \
                 %is_zero = icmp eq i32 %b, 0\n  \
                 %divisor = select i1 %is_zero, i32 1, i32 %b\n  \
                 %y = {sign}itofp i32 %divisor to double\n  \
                 %nearly = fdiv double 1.0, %y\n  \
                 %inverse = fmul double %nearly, 0x3FF0000000000004\n  \
                 %some = insertelement {real} poison, double %inverse, i64 0\n  \
                 %every = shufflevector {real} %some, {real} poison, <{length} x i32> <{first}>\n  \
                 %one = insertelement {whole} poison, i32 %divisor, i64 0\n  \
                 %safe = shufflevector {whole} %one, {whole} poison, <{length} x i32> <{first}>\n  \
                 %x = {sign}itofp {whole} %a to {real}\n  \
                 %real = fmul {real} %x, %every\n  \
                 %quotient = fpto{sign}i {real} %real to {whole}\n{}",
                rest(&whole, "a")
            );
        }
        text
    }
}
