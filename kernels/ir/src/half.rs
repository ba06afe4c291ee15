//! The two floats of 16 bits, computed with as `f32`, then rounded.
//!
//! No target computes with them the way the others do, so no printer does: a value of one is its
//! bits, and the representation has its conversions from and to `f32` alone. [`FunctionBuilder`]
//! writes all else with these. `f32` has more than twice their digits and two more, so sums,
//! products, quotients and square roots are correctly rounded all the same; conversions from wider
//! types, and `fma`, are rounded *to odd* first, after which rounding once more rounds as if it
//! were the only time. So results are those of the kernel language natively, bit for bit.

use crate::builder::FunctionBuilder;
use crate::function::Value;
use crate::operation::{BinaryOperation as B, MathFunction as M, Operation, UnaryOperation as U};
use crate::types::Scalar;

const SIGN: u64 = 0x8000;

impl FunctionBuilder {
    /// The scalar of a value, if that is a float of 16 bits.
    pub(crate) fn half_of(&self, value: Value) -> Option<Scalar> {
        self.type_of(value)
            .scalar()
            .filter(|scalar| scalar.is_half())
    }

    /// A conversion that the representation has.
    fn converted(&mut self, value: Value, to: Scalar) -> Value {
        self.define(to.into(), Operation::Cast(value, to))
    }

    /// A negation: of the sign, also that of a NaN.
    pub(crate) fn negated_half(&mut self, value: Value, half: Scalar) -> Value {
        let bits = self.bitcast(value, Scalar::U16);
        let sign = self.literal(Scalar::U16, SIGN);
        let bits = self.binary(B::Xor, bits, sign);
        self.bitcast(bits, half)
    }

    /// An operation of two operands.
    pub(crate) fn binary_of_halves(
        &mut self,
        operation: B,
        [first, second]: [Value; 2],
        half: Scalar,
    ) -> Value {
        let (first, second) = (
            self.converted(first, Scalar::F32),
            self.converted(second, Scalar::F32),
        );
        let result = self.binary(operation, first, second);
        if operation.is_comparison() {
            result
        } else {
            self.converted(result, half)
        }
    }

    /// A mathematical function.
    pub(crate) fn math_of_halves(
        &mut self,
        function: M,
        operands: &[Value],
        half: Scalar,
    ) -> Value {
        match function {
            M::Abs | M::Copysign => {
                let bits = self.bitcast(operands[0], Scalar::U16);
                let rest = self.literal(Scalar::U16, SIGN - 1);
                let mut bits = self.binary(B::And, bits, rest);
                if let Some(sign) = operands.get(1) {
                    let of = self.bitcast(*sign, Scalar::U16);
                    let sign = self.literal(Scalar::U16, SIGN);
                    let sign = self.binary(B::And, of, sign);
                    bits = self.binary(B::Or, bits, sign);
                }
                self.bitcast(bits, half)
            }
            M::Fma => {
                let wide: Vec<_> = operands
                    .iter()
                    .map(|o| self.cast(*o, Scalar::F64))
                    .collect();
                let fused = self.fused_to_odd(wide[0], wide[1], wide[2]);
                self.cast(fused, half)
            }
            _ => {
                let singles: Vec<_> = operands
                    .iter()
                    .map(|operand| self.converted(*operand, Scalar::F32))
                    .collect();
                let result = self.math(function, &singles);
                if function.is_predicate() {
                    result
                } else {
                    self.converted(result, half)
                }
            }
        }
    }

    /// `as`, from or to a float of 16 bits.
    pub(crate) fn cast_of_half(&mut self, value: Value, to: Scalar) -> Value {
        let from = self.type_of(value).scalar().unwrap_or(to);
        if from == to {
            return value;
        }
        if from.is_half() {
            let single = self.converted(value, Scalar::F32);
            return if to == Scalar::F32 {
                single
            } else {
                self.cast(single, to)
            };
        }
        let single = match (from, from.size()) {
            (Scalar::F32, _) => value,
            (Scalar::F64, _) => self.single_to_odd(value),
            // Exact.
            (_, Some(1 | 2)) => self.converted(value, Scalar::F32),
            (_, Some(4)) => {
                let wide = self.converted(value, Scalar::F64);
                self.single_to_odd(wide)
            }
            _ => {
                let wide = self.integer_to_odd(value, from.is_signed());
                self.single_to_odd(wide)
            }
        };
        self.converted(single, to)
    }

    /// The neighbour of a float, away from zero or towards it.
    fn neighbour(&mut self, value: Value, bits: Scalar, of: Scalar, is_away: Value) -> Value {
        let number = self.bitcast(value, bits);
        let one = self.literal(bits, 1);
        let more = self.binary(B::Add, number, one);
        let less = self.binary(B::Subtract, number, one);
        let number = self.select(is_away, more, less);
        self.bitcast(number, of)
    }

    /// True if the last digit of a float is odd.
    fn is_odd(&mut self, value: Value, bits: Scalar) -> Value {
        let number = self.bitcast(value, bits);
        let one = self.literal(bits, 1);
        let last = self.binary(B::And, number, one);
        self.binary(B::Equal, last, one)
    }

    /// A double as a float, rounded to odd.
    fn single_to_odd(&mut self, number: Value) -> Value {
        let single = self.cast(number, Scalar::F32);
        let back = self.cast(single, Scalar::F64);
        let is_same = self.binary(B::Equal, back, number);
        let is_nan = self.math(M::IsNan, &[number]);
        let is_odd = self.is_odd(single, Scalar::U32);
        let stays = self.binary(B::Or, is_same, is_nan);
        let stays = self.binary(B::Or, stays, is_odd);
        let (exact, rounded) = (self.math(M::Abs, &[number]), self.math(M::Abs, &[back]));
        let is_away = self.binary(B::Greater, exact, rounded);
        let other = self.neighbour(single, Scalar::U32, Scalar::F32, is_away);
        self.select(stays, single, other)
    }

    /// An integer of 64 bits as a double, rounded to odd.
    fn integer_to_odd(&mut self, number: Value, is_signed: bool) -> Value {
        let (magnitude, is_negative) = if is_signed {
            let number = self.cast(number, Scalar::I64);
            let zero = self.literal(Scalar::I64, 0);
            let is_negative = self.binary(B::Less, number, zero);
            let negated = self.unary(U::Negate, number);
            let magnitude = self.select(is_negative, negated, number);
            (self.cast(magnitude, Scalar::U64), Some(is_negative))
        } else {
            (self.cast(number, Scalar::U64), None)
        };
        let exact = self.cast(magnitude, Scalar::F64);
        let eleven = self.literal(Scalar::U32, 11);
        let upper = self.binary(B::ShiftRight, magnitude, eleven);
        let mask = self.literal(Scalar::U64, 0x7ff);
        let lower = self.binary(B::And, magnitude, mask);
        let (zero, one) = (self.literal(Scalar::U64, 0), self.literal(Scalar::U64, 1));
        let is_more = self.binary(B::NotEqual, lower, zero);
        let sticky = self.select(is_more, one, zero);
        let upper = self.binary(B::Or, upper, sticky);
        let upper = self.cast(upper, Scalar::F64);
        let scale = self.literal(Scalar::F64, 2048.0_f64.to_bits());
        let scaled = self.binary(B::Multiply, upper, scale);
        let limit = self.literal(Scalar::U64, 1 << 53);
        let is_small = self.binary(B::Less, magnitude, limit);
        let wide = self.select(is_small, exact, scaled);
        match is_negative {
            None => wide,
            Some(is_negative) => {
                let negated = self.unary(U::Negate, wide);
                self.select(is_negative, negated, wide)
            }
        }
    }

    /// `a * b + c` in doubles, of which the product is exact, rounded to odd.
    fn fused_to_odd(&mut self, a: Value, b: Value, c: Value) -> Value {
        let product = self.binary(B::Multiply, a, b);
        let sum = self.binary(B::Add, product, c);
        // The error of the sum, exactly (Knuth's TwoSum).
        let part = self.binary(B::Subtract, sum, product);
        let rest = self.binary(B::Subtract, sum, part);
        let first = self.binary(B::Subtract, product, rest);
        let second = self.binary(B::Subtract, c, part);
        let lost = self.binary(B::Add, first, second);
        let zero = self.literal(Scalar::F64, 0);
        let is_exact = self.binary(B::Equal, lost, zero);
        let is_nan = self.math(M::IsNan, &[lost]);
        let is_odd = self.is_odd(sum, Scalar::U64);
        let stays = self.binary(B::Or, is_exact, is_nan);
        let stays = self.binary(B::Or, stays, is_odd);
        let (more, is_positive) = (
            self.binary(B::Greater, lost, zero),
            self.binary(B::Greater, sum, zero),
        );
        let is_away = self.binary(B::Equal, more, is_positive);
        let other = self.neighbour(sum, Scalar::U64, Scalar::F64, is_away);
        self.select(stays, sum, other)
    }
}
