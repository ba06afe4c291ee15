//! Sines, cosines and tangents of `float`, many at once.
//!
//! Any angle needs bits of the number pi as far as its own bits reach, from a table
//! (`__q_any_angle`), which takes gathers and products of 64 bits. Near angles need three numbers.
//! A vector form takes all for near ones, and does the others one by one if there are any.

use super::forms::{ATTRIBUTES, CALLED};
use super::llvm::*;
use std::fmt::Write as _;

/// The functions of one number, which the library has.
pub(super) const NAMES: [&str; 3] = ["sin", "cos", "tan"];

/// The lengths of vector forms.
const LENGTHS: [u32; 3] = [4, 8, 16];

/// The angles below this are near.
const NEAR: f64 = 65536.0;

/// The functions that a module calls.
pub(super) fn called(module: Module) -> Vec<(&'static str, Value)> {
    let function = |name: &&'static str| {
        let function = module.function(&format!("{CALLED}{name}"))?;
        Some((*name, function))
    };
    NAMES.iter().filter_map(function).collect()
}

/// The names of a function's vector forms, as LLVM's attribute has them.
pub(super) fn forms(name: &str) -> String {
    let form = |length| format!("_ZGV_LLVM_N{length}v_{CALLED}{name}({CALLED}{name}_{length})");
    LENGTHS.map(form).join(",")
}

/// The vector forms of a function, as LLVM's text.
pub(super) fn text(name: &str) -> String {
    let mut text =
        format!("declare float @{CALLED}{name}(float)\ndeclare float @llvm.fabs.f32(float)\n");
    for length in LENGTHS {
        form(&mut text, name, length);
    }
    text + "!0 = !{!\"branch_weights\", i32 1, i32 1000000}\n"
}

fn form(text: &mut String, name: &str, length: u32) {
    let of = format!("<{length} x float>");
    let whole = format!("<{length} x i32>");
    let flags = format!("<{length} x i1>");
    let every = |one: &str| {
        let all = vec![one; length as usize].join(", ");
        format!("<{all}>")
    };
    let c = |number: f64| {
        every(&format!(
            "float 0x{:016X}",
            f64::from(number as f32).to_bits()
        ))
    };
    let i = |number: i32| every(&format!("i32 {number}"));
    let fma = format!("call {of} @llvm.fma.v{length}f32");
    let far = format!("quipu.far.{name}_{length}");
    let rounder = c(12_582_912.0);
    let _ = write!(
        text,
        "declare {of} @llvm.fma.v{length}f32({of}, {of}, {of})\n\
         declare {of} @llvm.fabs.v{length}f32({of})\n\
         declare i1 @llvm.vector.reduce.or.v{length}i1({flags})\n\
         define {of} @{CALLED}{name}_{length}({of} %a) {ATTRIBUTES} {{\n\
         near:\n  \
         %m = call {of} @llvm.fabs.v{length}f32({of} %a)\n  \
         %t = {fma}({of} %m, {of} {}, {of} {rounder})\n  \
         %n = fsub {of} %t, {rounder}\n  \
         %q = bitcast {of} %t to {whole}\n  \
         %r1 = {fma}({of} %n, {of} {}, {of} %m)\n  \
         %r2 = {fma}({of} %n, {of} {}, {of} %r1)\n  \
         %r = {fma}({of} %n, {of} {}, {of} %r2)\n  \
         %z = fmul {of} %r, %r\n",
        c(std::f64::consts::FRAC_2_PI),
        c(-f64::from(f32::from_bits(0x3fc9_0fdb))),
        c(4.371_138_828_673_793e-8),
        c(1.715_124_510_005_881_9e-15),
    );
    // The polynomials of `__q_sine` and `__q_cosine`.
    let _ = write!(
        text,
        "  %s1 = {fma}({of} {}, {of} %z, {of} {})\n  \
         %s2 = {fma}({of} %s1, {of} %z, {of} {})\n  \
         %s3 = fmul {of} %s2, %z\n  \
         %s = {fma}({of} %s3, {of} %r, {of} %r)\n  \
         %c1 = {fma}({of} {}, {of} %z, {of} {})\n  \
         %c2 = {fma}({of} %c1, {of} %z, {of} {})\n  \
         %c3 = fmul {of} %c2, %z\n  \
         %c4 = {fma}({of} {}, {of} %z, {of} {})\n  \
         %c = {fma}({of} %c3, {of} %z, {of} %c4)\n  \
         %odd = and {whole} %q, {}\n  \
         %is_odd = icmp ne {whole} %odd, zeroinitializer\n  \
         %sign_of_a = bitcast {of} %a to {whole}\n",
        c(-1.951_529_589_1e-4),
        c(8.332_160_873_6e-3),
        c(-1.666_665_461_1e-1),
        c(2.443_315_711_809_948e-5),
        c(-1.388_731_625_493_765e-3),
        c(4.166_664_568_298_827e-2),
        c(-0.5),
        c(1.0),
        i(1),
    );
    // A bit of the quarter is the sign, and the angle's own sign where the function is odd.
    let _ = match name {
        "sin" => write!(
            text,
            "  %turned = shl {whole} %q, {}\n  \
             %signs = xor {whole} %turned, %sign_of_a\n  \
             %plain = select {flags} %is_odd, {of} %c, {of} %s\n",
            i(30)
        ),
        "cos" => write!(
            text,
            "  %next = add {whole} %q, {}\n  \
             %signs = shl {whole} %next, {}\n  \
             %plain = select {flags} %is_odd, {of} %s, {of} %c\n",
            i(1),
            i(30)
        ),
        _ => write!(
            text,
            "  %turned = shl {whole} %q, {}\n  \
             %signs = xor {whole} %turned, %sign_of_a\n  \
             %above = select {flags} %is_odd, {of} %c, {of} %s\n  \
             %below = select {flags} %is_odd, {of} %s, {of} %c\n  \
             %plain = fdiv {of} %above, %below\n",
            i(31)
        ),
    };
    let _ = write!(
        text,
        "  %sign = and {whole} %signs, {}\n  \
         %bits = bitcast {of} %plain to {whole}\n  \
         %signed = xor {whole} %bits, %sign\n  \
         %result = bitcast {whole} %signed to {of}\n  \
         %is_far = fcmp ogt {of} %m, {}\n  \
         %is_any = call i1 @llvm.vector.reduce.or.v{length}i1({flags} %is_far)\n  \
         br i1 %is_any, label %far, label %end, !prof !0\n\
         far:\n  \
         %other = call {of} @{far}({of} %a, {of} %result)\n  \
         br label %end\n\
         end:\n  \
         %all = phi {of} [ %result, %near ], [ %other, %far ]\n  \
         ret {of} %all\n}}\n",
        i(i32::MIN),
        c(NEAR),
    );
    // Registers of the widest kind, as where it is called.
    let _ = write!(
        text,
        "define internal {of} @{far}({of} %a, {of} %near) noinline cold nounwind willreturn memory(none) \
         \"prefer-vector-width\"=\"512\" \"min-legal-vector-width\"=\"{}\" {{\n\
         start:\n  br label %one\n\
         one:\n  \
         %at = phi i32 [ 0, %start ], [ %next, %one ]\n  \
         %before = phi {of} [ %near, %start ], [ %after, %one ]\n  \
         %x = extractelement {of} %a, i32 %at\n  \
         %m = call float @llvm.fabs.f32(float %x)\n  \
         %is_far = fcmp ogt float %m, {NEAR:.1}\n  \
         %y = call float @{CALLED}{name}(float %x)\n  \
         %changed = insertelement {of} %before, float %y, i32 %at\n  \
         %after = select i1 %is_far, {of} %changed, {of} %before\n  \
         %next = add i32 %at, 1\n  \
         %is_last = icmp eq i32 %next, {length}\n  \
         br i1 %is_last, label %end, label %one\n\
         end:\n  ret {of} %after\n}}\n",
        length * 32,
    );
}
