//! Inverse square roots of `float`, many at once.
//!
//! A square root and a division take a processor about twenty cycles for a vector. AVX-512 has an
//! estimate of 14 bits of the inverse root, which takes a few. One step of Newton's method makes
//! all bits but the last of it, and the standard allows two units in the last place. The program
//! must allow for divisions that are not exact: clang marks those (`fpmath`).
//!
//! For zero and infinity the estimate is the result, and a step would make of it what is no number.

use super::forms::{ATTRIBUTES, Call};
use super::llvm::*;
use super::workgroup;
use std::fmt::Write as _;

const NAME: &str = "quipu.form.inverse_root";

/// The lengths of vector forms, with the bits of their registers.
const LENGTHS: [(u32, u32); 3] = [(4, 128), (8, 256), (16, 512)];

/// The inverse square roots of a kernel, where this processor has an estimate of them.
pub(super) fn calls(context: Context, kernel: Value) -> Vec<Call> {
    if !workgroup::estimates_roots() {
        return Vec::new();
    }
    let marked = metadata_kind(context, "fpmath");
    let all = blocks(kernel).into_iter().flat_map(Block::instructions);
    let of_one = |one: Value| {
        let of = one.ty();
        let is_near = one.opcode() == Some(op::FDIV)
            && of.kind() == kind::FLOAT
            && LLVMGetMetadata(one, marked).some().is_some();
        if !is_near || LLVMGetOperand(one, 0) != LLVMConstReal(of, 1.0) {
            return None;
        }
        let root = LLVMGetOperand(one, 1);
        let is_root = root.callee().as_deref() == Some("llvm.sqrt.f32");
        is_root.then_some(Call {
            instruction: one,
            name: NAME,
            operands: |one| vec![LLVMGetOperand(LLVMGetOperand(one, 1), 0)],
        })
    };
    all.filter_map(of_one).collect()
}

/// The function of one number and its vector forms, as LLVM's text.
pub(super) fn text() -> String {
    let form = |(length, _)| format!("_ZGV_LLVM_N{length}v_{NAME}({NAME}_{length})");
    let forms: Vec<String> = LENGTHS.map(form).to_vec();
    let mut text = format!(
        "declare float @llvm.sqrt.f32(float)\n\
         define float @{NAME}(float %a) {ATTRIBUTES} \"vector-function-abi-variant\"=\"{}\" {{\n  \
         %root = call float @llvm.sqrt.f32(float %a)\n  \
         %inverse = fdiv float 1.0, %root\n  ret float %inverse\n}}\n",
        forms.join(",")
    );
    for (length, bits) in LENGTHS {
        let of = format!("<{length} x float>");
        let every = |number: &str| vec![format!("float {number}"); length as usize].join(", ");
        let (one, half) = (every("1.0"), every("0.5"));
        let mask = if length == 16 { "i16" } else { "i8" };
        let estimate = format!("@llvm.x86.avx512.rsqrt14.ps.{bits}");
        let fma = format!("@llvm.fma.v{length}f32");
        let _ = write!(
            text,
            "declare {of} {estimate}({of}, {of}, {mask})\n\
             declare {of} {fma}({of}, {of}, {of})\n\
             define {of} @{NAME}_{length}({of} %a) {ATTRIBUTES} {{\n  \
             %near = call {of} {estimate}({of} %a, {of} zeroinitializer, {mask} -1)\n  \
             %root = fmul {of} %a, %near\n  \
             %less = fneg {of} %root\n  \
             %rest = call {of} {fma}({of} %less, {of} %near, {of} <{one}>)\n  \
             %part = fmul {of} %near, <{half}>\n  \
             %nearer = call {of} {fma}({of} %part, {of} %rest, {of} %near)\n  \
             %is_limit = fcmp uno {of} %rest, %rest\n  \
             %result = select <{length} x i1> %is_limit, {of} %near, {of} %nearer\n  \
             ret {of} %result\n}}\n"
        );
    }
    text
}
