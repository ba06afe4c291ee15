//! Floats of 16 bits: a value is its bits, and these convert them from and to `float`.

use crate::types::Scalar;

use super::dialect::Language;
use super::helpers::Helpers;

/// The helper that makes a `float` of a float of 16 bits; its name. The signalling NaNs become
/// quiet ones.
pub(super) fn to_single(helpers: &mut Helpers, language: &dyn Language, from: Scalar) -> String {
    let name = format!("quipu_{}_to_f32", from.rust_name());
    helpers.add(&name, |helpers| {
        let (function, f32) = (language.function(), language.scalar(Scalar::F32));
        let (u16, u32) = (language.scalar(Scalar::U16), language.scalar(Scalar::U32));
        let head = format!("static {function}{f32} {name}({u16} number)\n{{");
        if from == Scalar::Bf16 {
            let float = language.float_of_bits(helpers, Scalar::F32, "bits << 16");
            return format!(
                "{head}\n    {u32} bits = number;\n    if ((bits & 0x7fffu) > 0x7f80u)\n        bits |= 0x40u;\n    \
                 return {float};\n}}"
            );
        }
        // Those below the smallest normal number are exact products.
        let small = language.bits_of_float(
            helpers,
            Scalar::F32,
            &format!("({f32})mantissa * 5.9604644775390625e-8f"),
        );
        let float = language.float_of_bits(helpers, Scalar::F32, "sign | bits");
        format!(
            "{head}\n    {u32} sign = ({u32})(number & 0x8000u) << 16;\n    \
             {u32} exponent = number >> 10 & 31u, mantissa = number & 0x3ffu, bits;\n    \
             if (exponent == 31u)\n        bits = 0x7f800000u | (mantissa != 0 ? 0x400000u | mantissa << 13 : 0);\n    \
             else if (exponent != 0)\n        bits = (exponent + 112u) << 23 | mantissa << 13;\n    \
             else\n        bits = {small};\n    return {float};\n}}"
        )
    });
    name
}

/// The helper that rounds a `float` to a float of 16 bits, to the nearest, of two as near to the
/// even one; its name.
pub(super) fn of_single(helpers: &mut Helpers, language: &dyn Language, to: Scalar) -> String {
    let name = format!("quipu_f32_to_{}", to.rust_name());
    helpers.add(&name, |helpers| {
        let (function, f32) = (language.function(), language.scalar(Scalar::F32));
        let (u16, u32) = (language.scalar(Scalar::U16), language.scalar(Scalar::U32));
        let bits = language.bits_of_float(helpers, Scalar::F32, "single");
        let head = format!(
            "static {function}{u16} {name}({f32} single)\n{{\n    {u32} bits = {bits};\n    \
             {u32} sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;"
        );
        if to == Scalar::Bf16 {
            return format!(
                "{head}\n    if (magnitude > 0x7f800000u)\n        return ({u16})(sign | magnitude >> 16 | 0x40u);\n    \
                 return ({u16})(sign | (magnitude + 0x7fffu + (magnitude >> 16 & 1u)) >> 16);\n}}"
            );
        }
        format!(
            "{head}\n    if (magnitude > 0x7f800000u)\n        \
             return ({u16})(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));\n    \
             if (magnitude >= 0x47800000u)\n        return ({u16})(sign | 0x7c00u);\n    \
             if (magnitude >= 0x38800000u) {{\n        magnitude -= 0x38000000u;\n        \
             return ({u16})(sign | (magnitude + 0xfffu + (magnitude >> 13 & 1u)) >> 13);\n    }}\n    \
             /* Below the smallest normal number. */\n    \
             if (magnitude < 0x33000000u)\n        return ({u16})sign;\n    \
             {u32} shift = 126u - (magnitude >> 23), digits = (magnitude & 0x7fffffu) | 0x800000u;\n    \
             {u32} low = digits >> shift & 1u;\n    \
             return ({u16})(sign | (digits + ((1u << (shift - 1u)) - 1u) + low) >> shift);\n}}"
        )
    });
    name
}
