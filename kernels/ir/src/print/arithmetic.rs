//! Arithmetic: Rust's meaning in C's words.

use crate::operation::{BinaryOperation, Literal, MathFunction, UnaryOperation};
use crate::types::Scalar;

use super::expression::{Expression, parenthesised, precedence};
use super::half;
use super::helpers::{self, unsigned, width};
use super::module::ModulePrinter;

/// A number.
pub(super) fn literal(module: &mut ModulePrinter<'_>, literal: Literal) -> Expression {
    let Literal { scalar, bits } = literal;
    let language = module.language;
    let mut expression = match scalar {
        Scalar::Bool => Expression::primary(if bits == 0 { "false" } else { "true" }),
        Scalar::F32 => {
            let value = f32::from_bits(bits as u32);
            if value.is_finite() {
                signed_text(format!("{value:?}f"))
            } else {
                let bits = format!("{bits:#x}{}", language.suffix(Scalar::U32));
                Expression::primary(language.float_of_bits(&mut module.helpers, scalar, &bits))
            }
        }
        Scalar::F64 => {
            module.doubles = true;
            let value = f64::from_bits(bits);
            if value.is_finite() {
                signed_text(format!("{value:?}"))
            } else {
                let bits = format!("{bits:#x}{}", language.suffix(Scalar::U64));
                Expression::primary(language.float_of_bits(&mut module.helpers, scalar, &bits))
            }
        }
        Scalar::F16 | Scalar::Bf16 => Expression::primary(format!("{bits:#x}")),
        _ if scalar.is_signed() => {
            let unused = 64 - width(scalar);
            let value = (bits << unused) as i64 >> unused;
            let (least, _) = helpers::bounds(language, scalar);
            let lowest = -(1_i128 << (width(scalar) - 1));
            if i128::from(value) == lowest {
                signed_text(least)
            } else if width(scalar) < 32 {
                signed_text(value.to_string())
            } else {
                signed_text(format!("{value}{}", language.suffix(scalar)))
            }
        }
        // As wide as its type: the largest index of 32 bits may have been written with more.
        _ if width(scalar) < 32 => Expression::primary(bits.to_string()),
        _ => {
            let bits = bits & (u64::MAX >> (64 - width(scalar)));
            Expression::primary(format!("{bits}{}", language.suffix(scalar)))
        }
    };
    expression.literal = Some(literal);
    expression
}

fn signed_text(text: String) -> Expression {
    let level = if text.starts_with('-') {
        precedence::UNARY
    } else {
        precedence::PRIMARY
    };
    Expression::new(text, level)
}

/// The operand of a unary operator, which must not run into it: `-(-x)`.
fn operand(expression: &Expression) -> String {
    let level = if expression.text.starts_with(['-', '!', '~']) {
        precedence::PRIMARY
    } else {
        precedence::UNARY
    };
    expression.at(level)
}

/// An integer of 32 or 64 bits as an unsigned one.
fn as_unsigned(
    module: &ModulePrinter<'_>,
    scalar: Scalar,
    expression: &Expression,
    level: u8,
) -> String {
    match &expression.unsigned {
        Some((text, own)) => parenthesised(text, *own, level),
        None => {
            let text = format!(
                "({}){}",
                module.language.scalar(unsigned(scalar)),
                expression.at(precedence::UNARY)
            );
            parenthesised(&text, precedence::UNARY, level)
        }
    }
}

/// A value computed in the unsigned type, as the signed one.
fn wrapped(module: &ModulePrinter<'_>, scalar: Scalar, text: String, level: u8) -> Expression {
    let cast = format!(
        "({}){}",
        module.language.scalar(scalar),
        parenthesised(&text, level, precedence::UNARY)
    );
    let mut expression = Expression::new(cast, precedence::UNARY);
    if width(scalar) >= 32 {
        expression.unsigned = Some((text, level));
    }
    expression
}

fn is_narrow(scalar: Scalar) -> bool {
    scalar.is_integer() && width(scalar) < 32
}

/// An operation of one operand.
pub(super) fn unary(
    module: &mut ModulePrinter<'_>,
    operation: UnaryOperation,
    scalar: Scalar,
    value: &Expression,
) -> Expression {
    let language = module.language;
    let what = match operation {
        UnaryOperation::Negate if scalar.is_float() => {
            if let Some(Literal { bits, .. }) = value.literal {
                let bits = bits ^ 1 << (width(scalar) - 1);
                return literal(module, Literal { scalar, bits });
            }
            return Expression::new(format!("-{}", operand(value)), precedence::UNARY)
                .with([value]);
        }
        UnaryOperation::Negate => {
            if let Some(Literal { bits, .. }) = value.literal {
                let unused = 64 - width(scalar);
                let bits = (bits.wrapping_neg() << unused) as i64 >> unused;
                return literal(
                    module,
                    Literal {
                        scalar,
                        bits: bits as u64,
                    },
                );
            }
            let text = if is_narrow(scalar) {
                format!("-{}", operand(value))
            } else {
                let text = as_unsigned(module, scalar, value, precedence::UNARY);
                // As in `operand`.
                if text.starts_with('-') {
                    format!("-({text})")
                } else {
                    format!("-{text}")
                }
            };
            return wrapped(module, scalar, text, precedence::UNARY).with([value]);
        }
        UnaryOperation::Not => {
            let sign = if scalar == Scalar::Bool { '!' } else { '~' };
            let text = format!("{sign}{}", operand(value));
            let expression = if is_narrow(scalar) {
                wrapped(module, scalar, text, precedence::UNARY)
            } else {
                Expression::new(text, precedence::UNARY)
            };
            return expression.with([value]);
        }
        UnaryOperation::CountOnes => "count_ones",
        UnaryOperation::LeadingZeros => "leading_zeros",
        UnaryOperation::TrailingZeros => "trailing_zeros",
        UnaryOperation::ReverseBits => "reverse_bits",
    };
    let name = helpers::integer(&mut module.helpers, language, what, scalar);
    call(&name, &[value])
}

fn call(name: &str, operands: &[&Expression]) -> Expression {
    let texts: Vec<_> = operands
        .iter()
        .map(|operand| operand.at(precedence::ARGUMENT))
        .collect();
    Expression::primary(format!("{name}({})", texts.join(", "))).with(operands.iter().copied())
}

/// True if an operation may fault, whose second operand is this constant or none.
pub(super) fn may_fault(
    operation: BinaryOperation,
    scalar: Scalar,
    second: Option<Literal>,
) -> bool {
    matches!(
        operation,
        BinaryOperation::Divide | BinaryOperation::Remainder
    ) && scalar.is_integer()
        && second
            .is_none_or(|second| second.bits == 0 || scalar.is_signed() && second.bits == u64::MAX)
}

/// An operation of two operands; with the number of the site, if it may fault and that is to be
/// recorded.
pub(super) fn binary(
    module: &mut ModulePrinter<'_>,
    operation: BinaryOperation,
    scalar: Scalar,
    amount_scalar: Scalar,
    first: &Expression,
    second: &Expression,
    site: Option<u32>,
) -> Expression {
    use BinaryOperation as B;
    let language = module.language;
    let infix = |sign: &str, level: u8| {
        let text = format!("{} {sign} {}", first.at(level), second.at(level + 1));
        Expression::new(text, level).with([first, second])
    };
    match operation {
        B::Add => arithmetic(module, "+", precedence::ADD, scalar, first, second),
        B::Subtract => arithmetic(module, "-", precedence::ADD, scalar, first, second),
        B::Multiply => arithmetic(module, "*", precedence::MULTIPLY, scalar, first, second),
        B::Divide if scalar.is_float() => infix("/", precedence::MULTIPLY),
        B::Remainder if scalar.is_float() => {
            let name = language.math(None, scalar, &mut module.helpers);
            call(&name, &[first, second])
        }
        B::Divide | B::Remainder => {
            let remainder = operation == B::Remainder;
            if !may_fault(operation, scalar, second.literal) {
                let sign = if remainder { "%" } else { "/" };
                return infix(sign, precedence::MULTIPLY);
            }
            let dimensions = usize::from(module.module.kernel.dimensions);
            let name = helpers::division(
                &mut module.helpers,
                language,
                dimensions,
                remainder,
                scalar,
                site.is_some(),
            );
            match site {
                None => call(&name, &[first, second]),
                Some(site) => {
                    let context = Expression::primary("quipu");
                    let site = Expression::primary(site.to_string());
                    let mut division = call(&name, &[&context, first, second, &site]);
                    division.effects.faults = true;
                    division
                }
            }
        }
        // Operands have no effects: an evaluation of the second is not seen, unless it faults.
        B::And if scalar == Scalar::Bool && !second.effects.faults => {
            infix("&&", precedence::LOGICAL_AND)
        }
        B::Or if scalar == Scalar::Bool && !second.effects.faults => {
            infix("||", precedence::LOGICAL_OR)
        }
        B::Xor if scalar == Scalar::Bool => infix("!=", precedence::EQUALITY),
        B::And => infix("&", precedence::AND),
        B::Or => infix("|", precedence::OR),
        B::Xor => infix("^", precedence::XOR),
        B::ShiftLeft | B::ShiftRight => {
            let mask = width(scalar) - 1;
            let amount = match second.literal {
                Some(literal) => (literal.bits & u64::from(mask)).to_string(),
                None => format!("({} & {mask})", second.at(precedence::AND + 1)),
            };
            if operation == B::ShiftRight {
                let text = format!("{} >> {amount}", first.at(precedence::SHIFT));
                return Expression::new(text, precedence::SHIFT).with([first, second]);
            }
            let left = if scalar.is_signed() {
                let text = if is_narrow(scalar) {
                    let wide = language.scalar(Scalar::U32);
                    format!("({wide}){}", first.at(precedence::UNARY))
                } else {
                    as_unsigned(module, scalar, first, precedence::SHIFT)
                };
                format!("{text} << {amount}")
            } else {
                format!("{} << {amount}", first.at(precedence::SHIFT))
            };
            let expression = if scalar.is_signed() || is_narrow(scalar) {
                wrapped(module, scalar, left, precedence::SHIFT)
            } else {
                Expression::new(left, precedence::SHIFT)
            };
            expression.with([first, second])
        }
        B::Equal => infix("==", precedence::EQUALITY),
        B::NotEqual => infix("!=", precedence::EQUALITY),
        B::Less => infix("<", precedence::RELATION),
        B::LessEqual => infix("<=", precedence::RELATION),
        B::Greater => infix(">", precedence::RELATION),
        B::GreaterEqual => infix(">=", precedence::RELATION),
        B::Minimum | B::Maximum if scalar.is_float() => {
            let greater = operation == B::Maximum;
            let name = helpers::float_extreme(&mut module.helpers, language, greater, scalar);
            call(&name, &[first, second])
        }
        B::RotateLeft | B::RotateRight => {
            let what = if operation == B::RotateLeft {
                "rotate_left"
            } else {
                "rotate_right"
            };
            let name = helpers::integer(&mut module.helpers, language, what, scalar);
            // The low bits are all that counts.
            let amount = cast(module, amount_scalar, Scalar::U32, second);
            call(&name, &[first, &amount])
        }
        B::Minimum => named(module, "min", scalar, first, second),
        B::Maximum => named(module, "max", scalar, first, second),
        B::MultiplyHigh => named(module, "multiply_high", scalar, first, second),
        B::SaturatingAdd => named(module, "saturating_add", scalar, first, second),
        B::SaturatingSubtract => named(module, "saturating_subtract", scalar, first, second),
    }
}

fn named(
    module: &mut ModulePrinter<'_>,
    what: &str,
    scalar: Scalar,
    first: &Expression,
    second: &Expression,
) -> Expression {
    let name = helpers::integer(&mut module.helpers, module.language, what, scalar);
    call(&name, &[first, second])
}

/// `+`, `-` or `*`.
fn arithmetic(
    module: &ModulePrinter<'_>,
    sign: &str,
    level: u8,
    scalar: Scalar,
    first: &Expression,
    second: &Expression,
) -> Expression {
    let language = module.language;
    let plain = format!("{} {sign} {}", first.at(level), second.at(level + 1));
    let expression = if is_narrow(scalar) {
        if sign == "*" && scalar == Scalar::U16 {
            // Two of them do not fit an `int`, to which they are promoted.
            let wide = language.scalar(Scalar::U32);
            let text = format!(
                "({wide}){} * {}",
                first.at(precedence::UNARY),
                second.at(level + 1)
            );
            wrapped(module, scalar, text, level)
        } else {
            wrapped(module, scalar, plain, level)
        }
    } else if scalar.is_integer() && scalar.is_signed() {
        let left = as_unsigned(module, scalar, first, level);
        // The other operand is converted to the unsigned type by C.
        let right = match &second.unsigned {
            Some((text, own)) => parenthesised(text, *own, level + 1),
            None => second.at(level + 1),
        };
        wrapped(module, scalar, format!("{left} {sign} {right}"), level)
    } else {
        Expression::new(plain, level)
    };
    expression.with([first, second])
}

/// `as`.
pub(super) fn cast(
    module: &mut ModulePrinter<'_>,
    from: Scalar,
    to: Scalar,
    value: &Expression,
) -> Expression {
    if from == to {
        return value.clone();
    }
    module.doubles |= to == Scalar::F64;
    let language = module.language;
    if from.is_half() {
        return call(
            &half::to_single(&mut module.helpers, language, from),
            &[value],
        );
    }
    if to.is_half() {
        let single = cast(module, from, Scalar::F32, value);
        return call(
            &half::of_single(&mut module.helpers, language, to),
            &[&single],
        );
    }
    if from.is_float() && to.is_integer() {
        let name = helpers::to_integer(&mut module.helpers, language, from, to);
        return call(&name, &[value]);
    }
    if let (Some(Literal { bits, .. }), true) =
        (value.literal, from.is_integer() && to.is_integer())
    {
        let unused = 64 - width(to);
        let bits = if to.is_signed() {
            ((bits << unused) as i64 >> unused) as u64
        } else {
            bits << unused >> unused
        };
        return literal(module, Literal { scalar: to, bits });
    }
    if to.is_integer()
        && to == unsigned(from)
        && let Some((text, level)) = &value.unsigned
    {
        return Expression::new(text.clone(), *level).with([value]);
    }
    let text = format!("({}){}", language.scalar(to), value.at(precedence::UNARY));
    Expression::new(text, precedence::UNARY).with([value])
}

/// The same bits as another type.
pub(super) fn bitcast(
    module: &mut ModulePrinter<'_>,
    from: Scalar,
    to: Scalar,
    value: &Expression,
) -> Expression {
    let language = module.language;
    let bits = |scalar: Scalar| {
        if scalar.is_half() {
            Scalar::U16
        } else {
            scalar
        }
    };
    let (from, to) = (bits(from), bits(to));
    match (from.is_float(), to.is_float()) {
        (false, false) | (true, true) => cast(module, from, to, value),
        (true, false) => {
            let text = value.at(precedence::ARGUMENT);
            let bits = language.bits_of_float(&mut module.helpers, from, &text);
            let bits = Expression::primary(bits).with([value]);
            cast(module, unsigned(from), to, &bits)
        }
        (false, true) => {
            let bits = cast(module, from, unsigned(to), value);
            let text = bits.at(precedence::ARGUMENT);
            let float = language.float_of_bits(&mut module.helpers, to, &text);
            Expression::primary(float).with([value])
        }
    }
}

/// A mathematical function.
pub(super) fn math(
    module: &mut ModulePrinter<'_>,
    function: MathFunction,
    scalar: Scalar,
    operands: &[Expression],
) -> Expression {
    let language = module.language;
    let name = match function {
        MathFunction::IsNan => helpers::classify(&mut module.helpers, language, "is_nan", scalar),
        MathFunction::IsInfinite => {
            helpers::classify(&mut module.helpers, language, "is_infinite", scalar)
        }
        MathFunction::IsFinite => {
            helpers::classify(&mut module.helpers, language, "is_finite", scalar)
        }
        _ => language.math(Some(function), scalar, &mut module.helpers),
    };
    call(&name, &operands.iter().collect::<Vec<_>>())
}
