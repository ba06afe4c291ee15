//! Functions of the runtime that a printed source has: those that it calls, each once, after those
//! that they call.

use std::collections::BTreeSet;

use crate::types::Scalar;

use super::dialect::Language;

/// The helpers asked for so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Helpers {
    known: BTreeSet<String>,
    texts: Vec<String>,
}

/// The beginnings of the names of integer divisions.
const DIVIDE: &str = "quipu_divide_";
const REMAINDER: &str = "quipu_remainder_";

impl Helpers {
    /// Asks for a helper; the helpers that it calls are asked for while its text is made.
    pub(super) fn add(&mut self, name: &str, text: impl FnOnce(&mut Self) -> String) {
        if !self.known.contains(name) {
            let text = text(self);
            self.known.insert(name.to_owned());
            self.texts.push(text);
        }
    }

    /// Integers are divided, by a number that may be zero.
    pub(super) fn divide(&self) -> bool {
        let mut names = self.known.iter();
        names.any(|name| {
            [DIVIDE, REMAINDER]
                .iter()
                .any(|begin| name.starts_with(begin))
        })
    }

    pub(super) fn texts(&self) -> String {
        self.texts
            .iter()
            .flat_map(|text| [text.trim_end(), "\n\n"])
            .collect()
    }
}

/// Bits of an integer (not an index) or float.
pub(super) fn width(scalar: Scalar) -> u32 {
    8 * scalar.size().unwrap_or(8)
}

/// The unsigned integer of the same width.
pub(super) fn unsigned(scalar: Scalar) -> Scalar {
    match scalar.size() {
        Some(1) => Scalar::U8,
        Some(2) => Scalar::U16,
        Some(4) => Scalar::U32,
        _ => Scalar::U64,
    }
}

/// A type's part in the name of a helper.
pub(super) fn short(scalar: Scalar) -> &'static str {
    scalar.rust_name()
}

/// A call of a helper on a place.
pub(super) fn call_on(name: &str, pointer: &str, operands: &[String]) -> String {
    let mut arguments = vec![pointer];
    arguments.extend(operands.iter().map(String::as_str));
    format!("{name}({})", arguments.join(", "))
}

/// The smallest and the greatest number of an integer type, as text.
pub(super) fn bounds(language: &dyn Language, scalar: Scalar) -> (String, String) {
    let width = width(scalar);
    if scalar.is_signed() {
        let greatest = (1_u64 << (width - 1)) - 1;
        let suffix = language.suffix(scalar);
        if width < 32 {
            (format!("-{}", greatest + 1), greatest.to_string())
        } else {
            (
                format!("(-{greatest}{suffix} - 1)"),
                format!("{greatest}{suffix}"),
            )
        }
    } else {
        let greatest = u64::MAX >> (64 - width);
        ("0".into(), format!("{greatest}{}", language.suffix(scalar)))
    }
}

/// A helper over one integer type, with the name `quipu_{what}_{type}`; gives the name.
pub(super) fn integer(
    helpers: &mut Helpers,
    language: &dyn Language,
    what: &str,
    scalar: Scalar,
) -> String {
    let name = format!("quipu_{what}_{}", short(scalar));
    helpers.add(&name, |helpers| {
        let (function, t) = (language.function(), language.scalar(scalar));
        let u = language.scalar(unsigned(scalar));
        let bits = width(scalar);
        let mask = bits - 1;
        let (least, greatest) = bounds(language, scalar);
        let one = format!("static {function}{t} {name}({t} a)");
        let two = format!("static {function}{t} {name}({t} a, {t} b)");
        let amount = format!(
            "static {function}{t} {name}({t} a, {} amount)",
            language.scalar(Scalar::U32)
        );
        match what {
            "min" => format!("{two}\n{{\n    return a < b ? a : b;\n}}"),
            "max" => format!("{two}\n{{\n    return a > b ? a : b;\n}}"),
            "saturating_add" if bits < 32 && scalar.is_signed() => format!(
                "{two}\n{{\n    int sum = a + b;\n    return ({t})(sum < {least} ? {least} : sum > {greatest} ? {greatest} : sum);\n}}"
            ),
            "saturating_subtract" if bits < 32 && scalar.is_signed() => format!(
                "{two}\n{{\n    int sum = a - b;\n    return ({t})(sum < {least} ? {least} : sum > {greatest} ? {greatest} : sum);\n}}"
            ),
            "saturating_add" if scalar.is_signed() => format!(
                "{two}\n{{\n    {t} sum = ({t})(({u})a + ({u})b);\n    if (((a ^ sum) & (b ^ sum)) < 0)\n        return a < 0 ? {least} : {greatest};\n    return sum;\n}}"
            ),
            "saturating_subtract" if scalar.is_signed() => format!(
                "{two}\n{{\n    {t} sum = ({t})(({u})a - ({u})b);\n    if (((a ^ b) & (a ^ sum)) < 0)\n        return a < 0 ? {least} : {greatest};\n    return sum;\n}}"
            ),
            "saturating_add" => format!(
                "{two}\n{{\n    {t} sum = ({t})(a + b);\n    return sum < a ? ({t}){greatest} : sum;\n}}"
            ),
            "saturating_subtract" => {
                format!("{two}\n{{\n    return a < b ? ({t})0 : ({t})(a - b);\n}}")
            }
            "rotate_left" => format!(
                "{amount}\n{{\n    {u} x = ({u})a;\n    amount &= {mask};\n    return ({t})(({u})(x << amount) | ({u})(x >> (({bits} - amount) & {mask})));\n}}"
            ),
            "rotate_right" => format!(
                "{amount}\n{{\n    {u} x = ({u})a;\n    amount &= {mask};\n    return ({t})(({u})(x >> amount) | ({u})(x << (({bits} - amount) & {mask})));\n}}"
            ),
            "count_ones" => {
                let counted = language.count_ones(bits > 32, &widened(language, bits, "a", u));
                format!("{one}\n{{\n    return ({t}){counted};\n}}")
            }
            "trailing_zeros" => {
                let below = format!("({u})(~({u})a & (({u})a - 1))");
                let counted = language.count_ones(bits > 32, &widened(language, bits, &below, u));
                format!("{one}\n{{\n    return ({t}){counted};\n}}")
            }
            "leading_zeros" => {
                let counted = language.leading_zeros(bits > 32, &widened(language, bits, "a", u));
                let less = if bits < 32 { format!(" - {}", 32 - bits) } else { String::new() };
                format!("{one}\n{{\n    return ({t})({counted}{less});\n}}")
            }
            "reverse_bits" if bits < 32 => {
                let inner = integer(helpers, language, what, Scalar::U32);
                format!("{one}\n{{\n    return ({t})({inner}(({u})a) >> {});\n}}", 32 - bits)
            }
            "reverse_bits" if scalar.is_signed() => {
                let inner = integer(helpers, language, what, unsigned(scalar));
                format!("{one}\n{{\n    return ({t}){inner}(({u})a);\n}}")
            }
            "reverse_bits" => reverse_bits(language, &one, bits),
            "multiply_high" if bits == 32 => {
                let wide = language.scalar(if scalar.is_signed() { Scalar::I64 } else { Scalar::U64 });
                format!("{two}\n{{\n    return ({t})((({wide})a * b) >> 32);\n}}")
            }
            // Knuth, The Art of Computer Programming, volume 2, 4.3.1 M, in halves.
            "multiply_high" if !scalar.is_signed() => format!(
                "{two}\n{{\n    {t} a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;\n    \
                 {t} middle = a1 * b0 + (a0 * b0 >> 32);\n    \
                 {t} other = a0 * b1 + (middle & 0xffffffffu);\n    \
                 return a1 * b1 + (middle >> 32) + (other >> 32);\n}}"
            ),
            // The unsigned product is too large by the other factor for each negative factor.
            _ => {
                let inner = integer(helpers, language, "multiply_high", unsigned(scalar));
                format!(
                    "{two}\n{{\n    {u} high = {inner}(({u})a, ({u})b);\n    \
                     return ({t})(high - (a < 0 ? ({u})b : 0) - (b < 0 ? ({u})a : 0));\n}}"
                )
            }
        }
    });
    name
}

/// An integer of 8 or 16 bits as one of 32 without its sign, others as unsigned.
fn widened(language: &dyn Language, bits: u32, text: &str, own: &str) -> String {
    if bits < 32 {
        format!("({})({own}){text}", language.scalar(Scalar::U32))
    } else {
        format!("({own}){text}")
    }
}

fn reverse_bits(language: &dyn Language, head: &str, bits: u32) -> String {
    let suffix = language.suffix(if bits == 32 { Scalar::U32 } else { Scalar::U64 });
    let mut text = format!("{head}\n{{\n");
    let mut distance = 1;
    while distance < bits {
        // Every other group of so many bits.
        let mask = (0..bits)
            .filter(|bit| bit / distance % 2 == 0)
            .fold(0_u64, |mask, bit| mask | 1 << bit);
        text.push_str(&format!(
            "    a = (a >> {distance} & {mask:#x}{suffix}) | (a & {mask:#x}{suffix}) << {distance};\n"
        ));
        distance *= 2;
    }
    text.push_str("    return a;\n}");
    text
}

/// The helper that casts a float to an integer; its name.
pub(super) fn to_integer(
    helpers: &mut Helpers,
    language: &dyn Language,
    from: Scalar,
    to: Scalar,
) -> String {
    let name = format!("quipu_{}_to_{}", short(from), short(to));
    helpers.add(&name, |_| {
        let (function, f, t) = (
            language.function(),
            language.scalar(from),
            language.scalar(to),
        );
        let (least, greatest) = bounds(language, to);
        // Powers of two are exact in both types of floats.
        let power = |exponent: u32| {
            let power = 2_f64.powi(exponent.cast_signed());
            format!("{power:?}{}", if from == Scalar::F32 { "f" } else { "" })
        };
        let (low, high) = if to.is_signed() {
            (format!("-{}", power(width(to) - 1)), power(width(to) - 1))
        } else {
            (
                format!("0.0{}", if from == Scalar::F32 { "f" } else { "" }),
                power(width(to)),
            )
        };
        format!(
            "static {function}{t} {name}({f} x)\n{{\n    if (x != x)\n        return 0;\n    \
             return x <= {low} ? ({t}){least} : x >= {high} ? ({t}){greatest} : ({t})x;\n}}"
        )
    });
    name
}

/// The helper that gives the smaller or greater of two floats; its name.
pub(super) fn float_extreme(
    helpers: &mut Helpers,
    language: &dyn Language,
    greater: bool,
    scalar: Scalar,
) -> String {
    let name = format!(
        "quipu_{}_{}",
        if greater { "max" } else { "min" },
        short(scalar)
    );
    helpers.add(&name, |_| {
        let (function, t) = (language.function(), language.scalar(scalar));
        let sign = if greater { '>' } else { '<' };
        format!(
            "static {function}{t} {name}({t} a, {t} b)\n{{\n    return a {sign} b || b != b ? a : b;\n}}"
        )
    });
    name
}

/// The helper that finds the kind of number that a float is; gives its name.
pub(super) fn classify(
    helpers: &mut Helpers,
    language: &dyn Language,
    what: &str,
    scalar: Scalar,
) -> String {
    let name = format!("quipu_{what}_{}", short(scalar));
    helpers.add(&name, |_| {
        let (function, t) = (language.function(), language.scalar(scalar));
        let (greatest, suffix) = if scalar == Scalar::F32 {
            (format!("{:?}", f32::MAX), "f")
        } else {
            (format!("{:?}", f64::MAX), "")
        };
        let test = match what {
            "is_nan" => "x != x".to_owned(),
            "is_infinite" => format!("x > {greatest}{suffix} || x < -{greatest}{suffix}"),
            _ => format!("x <= {greatest}{suffix} && x >= -{greatest}{suffix}"),
        };
        format!("static {function}bool {name}({t} x)\n{{\n    return {test};\n}}")
    });
    name
}

/// The core that records faults.
pub(super) fn fault(helpers: &mut Helpers, language: &dyn Language, dimensions: usize) {
    helpers.add("quipu_fault", |_| {
        let (u32, u64) = (language.scalar(Scalar::U32), language.scalar(Scalar::U64));
        let record = language.pointer(u32, crate::Space::Global, true);
        let context = language.context_pointer();
        let mut number = String::new();
        for d in 0..dimensions {
            let own = format!(
                "(({u64})quipu->block[{d}] * quipu->launch.block_threads[{d}] + quipu->thread[{d}])"
            );
            number = if d == 0 {
                own
            } else {
                format!(
                    "{number} * (({u64})quipu->launch.grid_blocks[{d}] * quipu->launch.block_threads[{d}]) + {own}"
                )
            };
            if d + 1 < dimensions {
                number = format!("({number})");
            }
        }
        let claim = language.claim("fault", "site + 1");
        let publish = language.publish();
        let publish = publish.map_or_else(String::new, |call| format!("        {call}\n"));
        format!(
            "/* Records the first fault of a launch. */\n\
             static {cold}void quipu_record({record}fault, {u64} thread, {u64} index, {u64} length, {u32} site)\n{{\n    \
             if (fault[0] == 0 && {claim}) {{\n        \
             fault[2] = ({u32})thread;\n        fault[3] = ({u32})(thread >> 32);\n        \
             fault[4] = ({u32})index;\n        fault[5] = ({u32})(index >> 32);\n        \
             fault[6] = ({u32})length;\n        fault[7] = ({u32})(length >> 32);\n{publish}    }}\n}}\n\n\
             static {function}void quipu_fault({context}quipu, {u64} index, {u64} length, {u32} site)\n{{\n    \
             quipu_record(quipu->fault, {number}, index, length, site);\n}}",
            cold = language.cold(),
            function = language.function(),
        )
    });
}

/// The check of an index, of `usize`'s width or of 64 bits; its name.
pub(super) fn check_index(
    helpers: &mut Helpers,
    language: &dyn Language,
    dimensions: usize,
    scalar: Scalar,
    wide: bool,
) -> &'static str {
    let name = if wide { "quipu_in_wide" } else { "quipu_in" };
    fault(helpers, language, dimensions);
    helpers.add(name, |_| {
        let (u32, t) = (language.scalar(Scalar::U32), language.scalar(scalar));
        format!(
            "/* True if an index is in bounds; if not, a fault is recorded. */\n\
             static {}bool {name}({}quipu, {t} index, {t} length, {u32} site)\n{{\n    \
             if (index < length)\n        return true;\n    \
             quipu_fault(quipu, index, length, site);\n    return false;\n}}",
            language.function(),
            language.context_pointer(),
        )
    });
    name
}

/// The check of a range.
pub(super) fn check_range(
    helpers: &mut Helpers,
    language: &dyn Language,
    dimensions: usize,
    index: Scalar,
) -> &'static str {
    fault(helpers, language, dimensions);
    helpers.add("quipu_range_in", |_| {
        let (u32, t) = (language.scalar(Scalar::U32), language.scalar(index));
        format!(
            "/* True if a range is in bounds; if not, a fault is recorded. */\n\
             static {}bool quipu_range_in({}quipu, {t} start, {t} end, {t} length, {u32} site)\n{{\n    \
             if (start <= end && end <= length)\n        return true;\n    \
             quipu_fault(quipu, start, end, site);\n    return false;\n}}",
            language.function(),
            language.context_pointer(),
        )
    });
    "quipu_range_in"
}

/// The check of an assertion.
pub(super) fn check_assertion(
    helpers: &mut Helpers,
    language: &dyn Language,
    dimensions: usize,
    has_values: bool,
) -> &'static str {
    fault(helpers, language, dimensions);
    if has_values {
        helpers.add("quipu_assert_with", |_| {
            let u64 = language.scalar(Scalar::U64);
            format!(
                "static {}void quipu_assert_with({}quipu, bool condition, {u64} first, {u64} second, {} site)\n{{\n    \
                 if (!condition)\n        quipu_fault(quipu, first, second, site);\n}}",
                language.function(),
                language.context_pointer(),
                language.scalar(Scalar::U32),
            )
        });
        return "quipu_assert_with";
    }
    helpers.add("quipu_assert", |_| {
        format!(
            "static {}void quipu_assert({}quipu, bool condition, {} site)\n{{\n    \
             if (!condition)\n        quipu_fault(quipu, 0, 0, site);\n}}",
            language.function(),
            language.context_pointer(),
            language.scalar(Scalar::U32),
        )
    });
    "quipu_assert"
}

/// Integer division or remainder; its name.
pub(super) fn division(
    helpers: &mut Helpers,
    language: &dyn Language,
    dimensions: usize,
    remainder: bool,
    scalar: Scalar,
    checked: bool,
) -> String {
    let what = if remainder { REMAINDER } else { DIVIDE };
    let name = format!("{what}{}", short(scalar));
    if checked {
        fault(helpers, language, dimensions);
    }
    helpers.add(&name, |_| {
        let (function, t) = (language.function(), language.scalar(scalar));
        let sign = if remainder { '%' } else { '/' };
        let (least, _) = bounds(language, scalar);
        let wrong = if scalar.is_signed() {
            format!("b == 0 || (b == -1 && a == {least})")
        } else {
            "b == 0".to_owned()
        };
        if checked {
            let (u32, u64) = (language.scalar(Scalar::U32), language.scalar(Scalar::U64));
            let context = language.context_pointer();
            format!(
                "static {function}{t} {name}({context}quipu, {t} a, {t} b, {u32} site)\n{{\n    \
                 if ({wrong}) {{\n        quipu_fault(quipu, ({u64})b, 0, site);\n        return 0;\n    }}\n    \
                 return ({t})(a {sign} b);\n}}"
            )
        } else {
            format!(
                "static {function}{t} {name}({t} a, {t} b)\n{{\n    return {wrong} ? 0 : ({t})(a {sign} b);\n}}"
            )
        }
    });
    name
}
