//! Operators, methods and casts of numbers.

use super::Maker;
use crate::tree::{Expression, Piece, pieces};
use crate::types::{Scalar, Type};

/// Methods of integers that take one more of the same type.
const BINARY_METHODS: [&str; 7] = [
    "wrapping_add",
    "wrapping_sub",
    "wrapping_mul",
    "saturating_add",
    "saturating_sub",
    "min",
    "max",
];

const FLOATS: [Scalar; 4] = [Scalar::F16, Scalar::Bf16, Scalar::F32, Scalar::F64];

impl Maker {
    /// An operation with a result of a type.
    pub(super) fn operation(&mut self, of: Scalar, depth: usize) -> Expression {
        let pieces = if of == Scalar::Bool {
            self.truth(depth)
        } else if of.is_float() {
            self.float(of, depth)
        } else {
            self.integer(of, depth)
        };
        Expression::new(Type::Scalar(of), pieces)
    }

    /// Two operands; the second is a bare number at times.
    fn infix(&mut self, of: Scalar, sign: &str, depth: usize) -> Vec<Piece> {
        let left = self.scalar(of, depth);
        if of != Scalar::Bool && self.random.chance(15) {
            let bare = 1 + self.random.below(9);
            let bare = if of.is_float() {
                let bare = format!("{bare}.25");
                if of.is_half() {
                    of.float_literal(&bare)
                } else {
                    bare
                }
            } else {
                bare.to_string()
            };
            return pieces!["(", left, format!(" {sign} {bare})")];
        }
        let right = self.scalar(of, depth);
        if is_comparison(sign) && of.is_half() && has_block(&right.pieces) {
            // No numbers of the compiler's own: it borrows what it compares, which a block on the
            // right may change.
            return pieces!["({", left, format!("}} {sign} "), right, ")"];
        }
        pieces!["(", left, format!(" {sign} "), right, ")"]
    }

    fn truth(&mut self, depth: usize) -> Vec<Piece> {
        match self.random.below(12) {
            0 => pieces!["(!", self.scalar(Scalar::Bool, depth), ")"],
            1 => {
                let of = *self.random.pick(&FLOATS);
                let method = *self.random.pick(&["is_nan", "is_infinite", "is_finite"]);
                pieces!["(", self.scalar(of, depth), format!(").{method}()")]
            }
            2 => {
                let of = *self.random.pick(&FLOATS);
                pieces![self.settled(of, depth), ".is_sign_negative()"]
            }
            3 => {
                let of = *self
                    .random
                    .pick(&[Scalar::U8, Scalar::U16, Scalar::U32, Scalar::U64]);
                pieces!["(", self.scalar(of, depth), ").is_power_of_two()"]
            }
            4..7 => {
                let sign = *self
                    .random
                    .pick(&["&&", "||", "&&", "||", "&", "|", "^", "==", "!="]);
                self.infix(Scalar::Bool, sign, depth)
            }
            _ => {
                let of = loop {
                    let of = self.any_scalar();
                    if of != Scalar::Bool {
                        break of;
                    }
                };
                let sign = *self.random.pick(&["==", "!=", "<", "<=", ">", ">="]);
                self.infix(of, sign, depth)
            }
        }
    }

    /// A float that is no NaN, in parentheses: for what looks at the sign or the bits.
    fn settled(&mut self, of: Scalar, depth: usize) -> Expression {
        let value = self.scalar(of, depth);
        Expression::new(
            Type::Scalar(of),
            pieces![format!("settled_{}(", of.name()), value, ")"],
        )
    }

    fn float(&mut self, of: Scalar, depth: usize) -> Vec<Piece> {
        match self.random.below(20) {
            0..6 => {
                let sign = *self
                    .random
                    .pick(&["+", "-", "*", "/", "+", "-", "*", "/", "%"]);
                self.infix(of, sign, depth)
            }
            6 => pieces!["(-", self.scalar(of, depth), ")"],
            7..10 => {
                let method = *self.random.pick(&[
                    "abs",
                    "sqrt",
                    "floor",
                    "ceil",
                    "trunc",
                    "round",
                    "round_ties_even",
                    "fract",
                    "recip",
                    "signum",
                ]);
                pieces!["(", self.scalar(of, depth), format!(").{method}()")]
            }
            10 => {
                let (a, b, c) = (
                    self.scalar(of, depth),
                    self.scalar(of, depth.min(1)),
                    self.scalar(of, depth.min(1)),
                );
                pieces!["(", a, ").mul_add(", b, ", ", c, ")"]
            }
            11..13 => {
                // Of two zeros either: the sum is the same.
                let methods = if of.is_half() {
                    // Their own `min` and `max`, of the crate `half`, give a NaN if the first is
                    // one.
                    ["lesser", "greater"]
                } else {
                    ["min", "max"]
                };
                let method = *self.random.pick(&methods);
                let (a, b) = (self.scalar(of, depth), self.scalar(of, depth));
                let zero = if of.is_half() {
                    of.float_literal("0.0")
                } else {
                    "0.0".to_owned()
                };
                pieces!["((", a, format!(").{method}("), b, format!(") + {zero})")]
            }
            13 => {
                let sign = self.settled(of, depth.min(2));
                pieces!["(", self.scalar(of, depth), ").copysign(", sign, ")"]
            }
            14 if !of.is_half() => {
                let low = self.random.below(5);
                let high = low + self.random.below(100);
                let value = self.scalar(of, depth);
                pieces!["(", value, format!(").clamp(-{low}.5, {high}.0)")]
            }
            15 => {
                let bits = match of.bits() {
                    16 => Scalar::U16,
                    32 => Scalar::U32,
                    _ => Scalar::U64,
                };
                let value = self.scalar(bits, depth);
                pieces![
                    format!("settled_{0}({0}::from_bits(", of.name()),
                    value,
                    "))"
                ]
            }
            _ => self.cast(of, depth),
        }
    }

    fn integer(&mut self, of: Scalar, depth: usize) -> Vec<Piece> {
        let bits = of.bits();
        match self.random.below(30) {
            0..8 => {
                let sign = *self.random.pick(&["+", "-", "*", "&", "|", "^", "+", "-"]);
                self.infix(of, sign, depth)
            }
            8..11 => {
                let sign = *self.random.pick(&["<<", ">>"]);
                let amount = self.any_integer();
                let (left, right) = (self.scalar(of, depth), self.scalar(amount, depth.min(2)));
                if self.random.chance(30) {
                    let constant = self.random.below(bits as usize);
                    return pieces!["(", left, format!(" {sign} {constant})")];
                }
                pieces!["(", left, format!(" {sign} "), right, ")"]
            }
            11..13 => self.division(of, depth),
            13 => {
                let sign = if of.is_signed() && self.random.chance(60) {
                    "-"
                } else {
                    "!"
                };
                pieces![format!("({sign}"), self.scalar(of, depth), ")"]
            }
            14..17 => {
                let method = *self.random.pick(&BINARY_METHODS);
                let (a, b) = (self.scalar(of, depth), self.scalar(of, depth));
                pieces!["(", a, format!(").{method}("), b, ")"]
            }
            17..19 => {
                let method = *self.random.pick(&[
                    "wrapping_shl",
                    "wrapping_shr",
                    "rotate_left",
                    "rotate_right",
                ]);
                let (a, b) = (
                    self.scalar(of, depth),
                    self.scalar(Scalar::U32, depth.min(2)),
                );
                pieces!["(", a, format!(").{method}("), b, ")"]
            }
            19 if of.is_signed() => {
                let method = *self
                    .random
                    .pick(&["abs", "signum", "wrapping_abs", "wrapping_neg"]);
                pieces!["(", self.scalar(of, depth), format!(").{method}()")]
            }
            19 => pieces!["(", self.scalar(of, depth), ").wrapping_neg()"],
            20 => pieces!["(", self.scalar(of, depth), ").reverse_bits()"],
            21 => {
                let low = self.random.below(50);
                let high = low + self.random.below(70);
                let low = if of.is_signed() {
                    format!("-{low}")
                } else {
                    low.to_string()
                };
                pieces![
                    "(",
                    self.scalar(of, depth),
                    format!(").clamp({low}, {high})")
                ]
            }
            22 => {
                let (a, b) = (self.scalar(of, depth), self.scalar(of, depth));
                let method = *self.random.pick(&["mul_high", "distance"]);
                pieces!["(", a, format!(").{method}("), b, ")"]
            }
            24 | 27 => {
                let counted = self.any_integer();
                let method = *self.random.pick(&[
                    "count_ones",
                    "count_zeros",
                    "leading_zeros",
                    "trailing_zeros",
                ]);
                pieces![
                    "((",
                    self.scalar(counted, depth),
                    format!(").{method}() as {})", of.name())
                ]
            }
            23 if of == Scalar::U64 => pieces![self.settled(Scalar::F64, depth), ".to_bits()"],
            25 if of == Scalar::U32 => pieces![self.settled(Scalar::F32, depth), ".to_bits()"],
            23 if of == Scalar::U16 => {
                let half = *self.random.pick(&[Scalar::F16, Scalar::Bf16]);
                pieces![self.settled(half, depth), ".to_bits()"]
            }
            26 if of == Scalar::U64 || of == Scalar::I64 => {
                let from = if of == Scalar::U64 {
                    *self.random.pick(&[Scalar::U8, Scalar::U32, Scalar::Bool])
                } else {
                    *self.random.pick(&[Scalar::I8, Scalar::U16, Scalar::I32])
                };
                pieces![
                    format!("{}::from(", of.name()),
                    self.scalar(from, depth),
                    ")"
                ]
            }
            _ => self.cast(of, depth),
        }
    }

    /// `/`, `%` and their like, of which none fails, but in kernels that are meant to.
    fn division(&mut self, of: Scalar, depth: usize) -> Vec<Piece> {
        let dividend = self.scalar(of, depth);
        if self.faults && self.random.chance(30) {
            // Not of constants, which rustc would compute.
            if let Some(divisor) = self.variable(|v| v.of == Type::Scalar(of)) {
                let sign = *self.random.pick(&["/", "%"]);
                let name = divisor.name;
                return pieces!["(", dividend, format!(" {sign} ({name}))")];
            }
        }
        let divisor = self.scalar(of, depth.min(2));
        match self.random.below(4) {
            // With -1 among the divisors.
            0 if of.is_signed() && self.random.chance(40) => {
                let method = *self.random.pick(&["wrapping_div", "wrapping_rem"]);
                pieces!["(", dividend, format!(").{method}(-1)")]
            }
            0 => {
                let method = *self.random.pick(&["wrapping_div", "wrapping_rem"]);
                pieces!["(", dividend, format!(").{method}("), divisor, " | 1)"]
            }
            1 if !of.is_signed() => {
                pieces!["(", dividend, ").div_ceil(", divisor, " | 1)"]
            }
            _ => {
                let sign = *self.random.pick(&["/", "%"]);
                pieces!["(", dividend, format!(" {sign} ("), divisor, " & 63 | 1))"]
            }
        }
    }

    /// `as`, from any type.
    fn cast(&mut self, to: Scalar, depth: usize) -> Vec<Piece> {
        if let Some(counter) = self.counters.last()
            && self.random.chance(25)
        {
            let counter = format!("({counter} as u32)");
            return pieces![converted(counter, Scalar::U32, to)];
        }
        let from = loop {
            let from = self.any_scalar();
            // `bool` is only cast to integers.
            if from != Scalar::Bool || to.is_integer() {
                break from;
            }
        };
        // Through a type between, at times.
        if self.random.chance(15) {
            let between = self.any_integer();
            let value = self.scalar(from, depth);
            return through(through(pieces![value], from, between), between, to);
        }
        if self.random.chance(10) && from != Scalar::Bool {
            return pieces![
                "(",
                self.scalar(from, depth),
                format!(").cast::<{}>()", to.name())
            ];
        }
        let value = self.scalar(from, depth);
        through(pieces![value], from, to)
    }
}

fn is_comparison(sign: &str) -> bool {
    matches!(sign, "==" | "!=" | "<" | "<=" | ">" | ">=")
}

/// True if there are statements in an expression.
fn has_block(pieces: &[Piece]) -> bool {
    pieces.iter().any(|piece| match piece {
        Piece::Text(_) => false,
        Piece::Expression(inner) => has_block(&inner.pieces),
        Piece::Block(_) => true,
    })
}

/// A conversion: `as`, where there is that.
fn through(value: Vec<Piece>, from: Scalar, to: Scalar) -> Vec<Piece> {
    let mut pieces = pieces!["("];
    pieces.extend(value);
    pieces.push(conversion(from, to).into());
    pieces
}

/// As [`through`], of a text.
pub(super) fn converted(value: String, from: Scalar, to: Scalar) -> String {
    format!("({value}{}", conversion(from, to))
}

/// The end of a conversion.
fn conversion(from: Scalar, to: Scalar) -> String {
    let name = to.name();
    if from.is_half() || to.is_half() {
        format!(").cast::<{name}>()")
    } else {
        format!(" as {name})")
    }
}
