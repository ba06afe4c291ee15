//! Every operation on every scalar type, with the values at their edges, gives Rust's result: bit
//! for bit, as C99 and as OpenCL C. Only transcendental functions may differ, by the units in the
//! last place that are said there.

#![expect(clippy::unwrap_used, reason = "tests say what they expect by failing")]

use quipu_kernel_ir::{
    BinaryOperation as B, Dialect, FunctionBuilder, IndexWidth, MathFunction as M, Module,
    ModuleBuilder, OpenClFeatures, Options, Place, Scalar as S, UnaryOperation as U, Value,
};
use quipu_kernel_testing::{
    Argument, C99Program, CudaProgram, Division, Launch, OpenClProgram, opencl_or_skip,
};

const OPENCL: Dialect = Dialect::OpenCl(OpenClFeatures::USUAL);

const INTEGERS: [S; 8] = [S::I8, S::I16, S::I32, S::I64, S::U8, S::U16, S::U32, S::U64];

/// One operation on two operands `a` and `b` of a type.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Case {
    Binary(B),
    /// By an amount of another type.
    Amount(B, S),
    Unary(U),
    Cast(S),
    Bitcast(S),
    Select,
    Math(M),
}

impl Case {
    /// Builds it; the operands may be constants.
    fn build(self, f: &mut FunctionBuilder, a: Value, b: Value) -> Value {
        match self {
            Self::Binary(operation) => f.binary(operation, a, b),
            Self::Amount(operation, scalar) => {
                let amount = f.cast(b, scalar);
                f.binary(operation, a, amount)
            }
            Self::Unary(operation) => f.unary(operation, a),
            Self::Cast(to) => f.cast(a, to),
            Self::Bitcast(to) => f.bitcast(a, to),
            Self::Select => {
                let less = f.binary(B::Less, a, b);
                f.select(less, b, a)
            }
            Self::Math(function) => {
                let operands = [a, b, a];
                f.math(function, &operands[..function.operands()])
            }
        }
    }
}

/// A value as 64 bits: integers extended, floats by their bits.
fn to_bits(f: &mut FunctionBuilder, value: Value) -> Value {
    match f.type_of(value).scalar().unwrap() {
        S::F32 => {
            let bits = f.bitcast(value, S::U32);
            f.cast(bits, S::U64)
        }
        S::F64 => f.bitcast(value, S::U64),
        S::U64 => value,
        _ => f.cast(value, S::U64),
    }
}

/// The type in memory of a type, of which an index has none of its own.
fn in_memory(scalar: S, width: IndexWidth) -> S {
    match (scalar, width) {
        (S::Index, IndexWidth::Bits32) => S::U32,
        (S::Index, IndexWidth::Bits64) => S::U64,
        (S::SignedIndex, IndexWidth::Bits32) => S::I32,
        (S::SignedIndex, IndexWidth::Bits64) => S::I64,
        _ => scalar,
    }
}

/// A kernel that does all cases with all pairs of elements: `a, b: [T], out: mut [u64]`.
fn module(scalar: S, width: IndexWidth, cases: &[Case], constants: Option<&[u64]>) -> Module {
    let memory = in_memory(scalar, width);
    let mut f = FunctionBuilder::new("operations");
    let a = f.buffer("a", memory.into(), false);
    let b = f.buffer("b", memory.into(), false);
    let out = f.buffer("out", S::U64.into(), true);
    let length = f.length(a);
    f.elements(&["i"], &[length], |f, _, position| {
        let i = position[0];
        let load = |f: &mut FunctionBuilder, from, name| {
            let value = f.load(Place::element(from, i), memory.into());
            let value = if memory == scalar {
                value
            } else {
                f.cast(value, scalar)
            };
            f.name(value, name);
            value
        };
        let a = load(f, a, "x");
        let b = load(f, b, "y");
        let count = cases.len() * constants.map_or(1, <[u64]>::len);
        let count = f.index_literal(count as u64);
        let first = f.binary(B::Multiply, i, count);
        f.name(first, "first");
        let mut number = 0;
        let mut put = |f: &mut FunctionBuilder, value| {
            let bits = to_bits(f, value);
            let offset = f.index_literal(number);
            number += 1;
            let at = f.binary(B::Add, first, offset);
            f.store(Place::element_unchecked(out, at), bits);
        };
        for case in cases {
            match constants {
                None => {
                    let value = case.build(f, a, b);
                    put(f, value);
                }
                Some(constants) => {
                    for constant in constants {
                        let constant = f.literal(scalar, *constant);
                        let value = case.build(f, a, constant);
                        put(f, value);
                    }
                }
            }
        }
    });
    ModuleBuilder::new().finish(f.kernel(1))
}

/// Elements as bytes of their type in memory.
fn bytes(scalar: S, elements: &[u64]) -> Argument {
    let size = scalar.size().unwrap() as usize;
    let bytes = elements
        .iter()
        .flat_map(|element| element.to_le_bytes()[..size].to_vec())
        .collect();
    Argument::Elements {
        bytes,
        size,
        shape: None,
    }
}

/// A kernel's results in each dialect.
fn results(
    module: &Module,
    width: IndexWidth,
    memory: S,
    pairs: &[(u64, u64)],
    count: usize,
    constants: bool,
) -> Vec<(&'static str, Vec<u64>)> {
    let first: Vec<u64> = pairs.iter().map(|(a, _)| *a).collect();
    let second: Vec<u64> = pairs.iter().map(|(_, b)| *b).collect();
    let launch = Launch::new(
        Division::new([4], [2], [1]),
        [
            bytes(memory, &first),
            bytes(memory, &second),
            Argument::buffer(&vec![0xdead_u64; pairs.len() * count]),
        ],
    );
    let mut results = Vec::new();
    // Nothing that C leaves undefined is done: the sanitiser would end the process with a message.
    const SANITISED: [&str; 4] = [
        "-O0",
        "-fsanitize=undefined",
        "-fsanitize=float-cast-overflow",
        "-fno-sanitize-recover=all",
    ];
    for (how, options) in [("C99, sanitised", &SANITISED[..]), ("C99 -O2", &["-O2"])] {
        if constants && options.len() > 1 {
            continue;
        }
        let printed = module
            .print(Dialect::C99, &in_width(Dialect::C99, width))
            .unwrap_or_else(|error| panic!("{error}"));
        let mut launch = launch.clone();
        C99Program::compile_with(&printed, options)
            .unwrap_or_else(|error| panic!("{error}"))
            .run(&mut launch)
            .unwrap();
        results.push((how, launch.elements(2)));
    }
    // How constants are written differs in nothing but endings, and PoCL takes its time.
    if !constants && opencl_or_skip() {
        let printed = module.print(OPENCL, &in_width(OPENCL, width)).unwrap();
        let mut launch = launch.clone();
        OpenClProgram::compile(&printed)
            .unwrap_or_else(|error| panic!("{error}"))
            .run(&mut launch)
            .unwrap();
        results.push(("OpenCL C", launch.elements(2)));
    }
    let printed = module
        .print(Dialect::Cuda, &in_width(Dialect::Cuda, width))
        .unwrap();
    let program = CudaProgram::compile_or_skip(&printed).unwrap_or_else(|error| panic!("{error}"));
    if let Some(program) = program.filter(|_| CudaProgram::can_run().unwrap()) {
        let mut launch = launch;
        program.run(&mut launch).unwrap();
        results.push(("CUDA C", launch.elements(2)));
    }
    results
}

/// The allowed difference of two results.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Same {
    Bits,
    /// Any NaN is as good as any other.
    Number(S),
    /// So is any zero.
    NumberOrZero(S),
}

impl Same {
    fn holds(self, found: u64, expected: u64) -> bool {
        let as_number = |scalar, bits: u64| match scalar {
            S::F32 => f64::from(f32::from_bits(bits as u32)),
            _ => f64::from_bits(bits),
        };
        found == expected
            || match self {
                Self::Bits => false,
                Self::Number(scalar) => {
                    as_number(scalar, found).is_nan() && as_number(scalar, expected).is_nan()
                }
                Self::NumberOrZero(scalar) => {
                    let (found, expected) = (as_number(scalar, found), as_number(scalar, expected));
                    found.is_nan() && expected.is_nan() || found == 0.0 && expected == 0.0
                }
            }
    }
}

/// With arithmetic in this width, whatever is computed.
fn in_width(dialect: Dialect, width: IndexWidth) -> Options {
    Options {
        keeps_width: true,
        ..Options::new(dialect, width)
    }
}

/// Compares all cases on all pairs with what Rust computes.
fn compare(
    scalar: S,
    width: IndexWidth,
    cases: &[Case],
    pairs: &[(u64, u64)],
    natively: &dyn Fn(Case, u64, u64) -> (u64, Same),
) {
    let module = module(scalar, width, cases, None);
    let memory = in_memory(scalar, width);
    for (how, found) in results(&module, width, memory, pairs, cases.len(), false) {
        let mut wrong = Vec::new();
        for (row, (a, b)) in found.chunks(cases.len()).zip(pairs) {
            for (found, case) in row.iter().zip(cases) {
                let (expected, same) = natively(*case, *a, *b);
                if !same.holds(*found, expected) {
                    wrong.push(format!(
                        "{case:?} of {} {a:#x} and {b:#x}: {found:#x} instead of {expected:#x}",
                        scalar.rust_name()
                    ));
                }
            }
        }
        report(how, &wrong);
    }
}

/// The same with a constant as second operand.
fn compare_with_constants(
    scalar: S,
    width: IndexWidth,
    cases: &[Case],
    values: &[u64],
    natively: &dyn Fn(Case, u64, u64) -> (u64, Same),
) {
    let module = module(scalar, width, cases, Some(values));
    let memory = in_memory(scalar, width);
    let pairs: Vec<_> = values.iter().map(|value| (*value, 0)).collect();
    let count = cases.len() * values.len();
    for (how, found) in results(&module, width, memory, &pairs, count, true) {
        let mut wrong = Vec::new();
        for (row, (a, _)) in found.chunks(count).zip(&pairs) {
            for (at, found) in row.iter().enumerate() {
                let (case, b) = (cases[at / values.len()], values[at % values.len()]);
                let (expected, same) = natively(case, *a, b);
                if !same.holds(*found, expected) {
                    wrong.push(format!(
                        "{case:?} of {} {a:#x} and the constant {b:#x}: {found:#x} instead of {expected:#x}",
                        scalar.rust_name()
                    ));
                }
            }
        }
        report(how, &wrong);
    }
}

#[track_caller]
fn report(how: &str, wrong: &[String]) {
    assert!(
        wrong.is_empty(),
        "{how}: {} wrong, of which the first are\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
}

fn all_pairs(values: &[u64]) -> Vec<(u64, u64)> {
    values
        .iter()
        .flat_map(|a| values.iter().map(move |b| (*a, *b)))
        .collect()
}

const BINARY: [B; 14] = [
    B::Add,
    B::Subtract,
    B::Multiply,
    B::Divide,
    B::Remainder,
    B::Equal,
    B::NotEqual,
    B::Less,
    B::LessEqual,
    B::Greater,
    B::GreaterEqual,
    B::Minimum,
    B::Maximum,
    B::And,
];

const INTEGER_ONLY: [B; 8] = [
    B::Or,
    B::Xor,
    B::SaturatingAdd,
    B::SaturatingSubtract,
    B::ShiftLeft,
    B::ShiftRight,
    B::RotateLeft,
    B::RotateRight,
];

macro_rules! integers {
    ($($name:ident: $type:ty, $wide:ty, $scalar:expr, $width:expr, $signed:expr;)*) => {$(
        mod $name {
            use super::*;

            fn values() -> Vec<u64> {
                let width = <$type>::BITS as $type;
                let alternating = (0xa5a5_5a5a_c3c3_3c3c_u64 >> 7) as $type;
                let mut values: Vec<$type> = vec![
                    0, 1, 2, 3, 7, 100, <$type>::MIN, <$type>::MIN + 1, <$type>::MAX, <$type>::MAX - 1,
                    width - 1, width, width + 1, alternating, !alternating, <$type>::MAX / 2 + 1,
                    (0 as $type).wrapping_sub(1), (0 as $type).wrapping_sub(2), (0 as $type).wrapping_sub(100),
                ];
                values.sort();
                values.dedup();
                values.into_iter().map(|value| value as u64).collect()
            }

            fn cases() -> Vec<Case> {
                let mut cases: Vec<_> = BINARY.into_iter().chain(INTEGER_ONLY).map(Case::Binary).collect();
                for shift in [B::ShiftLeft, B::ShiftRight, B::RotateLeft, B::RotateRight] {
                    cases.extend([S::U32, S::I64, S::I8].map(|amount| Case::Amount(shift, amount)));
                }
                if <$type>::BITS >= 32 {
                    cases.push(Case::Binary(B::MultiplyHigh));
                }
                if $signed {
                    cases.push(Case::Unary(U::Negate));
                }
                cases.extend([U::Not, U::CountOnes, U::LeadingZeros, U::TrailingZeros, U::ReverseBits].map(Case::Unary));
                cases.extend(INTEGERS.into_iter().chain([S::F32, S::F64]).map(Case::Cast));
                cases.push(Case::Select);
                cases
            }

            fn natively(case: Case, a: u64, b: u64) -> (u64, Same) {
                let (a, b) = (a as $type, b as $type);
                let result = match case {
                    Case::Amount(B::RotateLeft, _) | Case::Binary(B::RotateLeft) => a.rotate_left(b as u32 % <$type>::BITS),
                    Case::Amount(B::RotateRight, _) | Case::Binary(B::RotateRight) => a.rotate_right(b as u32 % <$type>::BITS),
                    Case::Amount(B::ShiftLeft, _) | Case::Binary(B::ShiftLeft) => a.wrapping_shl(b as u32),
                    Case::Amount(B::ShiftRight, _) | Case::Binary(B::ShiftRight) => a.wrapping_shr(b as u32),
                    Case::Amount(..) | Case::Math(_) | Case::Bitcast(_) => unreachable!(),
                    Case::Binary(operation) => match operation {
                        B::Add => a.wrapping_add(b),
                        B::Subtract => a.wrapping_sub(b),
                        B::Multiply => a.wrapping_mul(b),
                        B::Divide => a.checked_div(b).unwrap_or(0),
                        B::Remainder => a.checked_rem(b).unwrap_or(0),
                        B::And => a & b,
                        B::Or => a | b,
                        B::Xor => a ^ b,
                        B::Equal => return ((a == b).into(), Same::Bits),
                        B::NotEqual => return ((a != b).into(), Same::Bits),
                        B::Less => return ((a < b).into(), Same::Bits),
                        B::LessEqual => return ((a <= b).into(), Same::Bits),
                        B::Greater => return ((a > b).into(), Same::Bits),
                        B::GreaterEqual => return ((a >= b).into(), Same::Bits),
                        B::Minimum => a.min(b),
                        B::Maximum => a.max(b),
                        B::MultiplyHigh => (((a as $wide) * (b as $wide)) >> <$type>::BITS) as $type,
                        B::SaturatingAdd => a.saturating_add(b),
                        B::SaturatingSubtract => a.saturating_sub(b),
                        _ => unreachable!(),
                    },
                    Case::Unary(operation) => match operation {
                        U::Negate => (0 as $type).wrapping_sub(a),
                        U::Not => !a,
                        U::CountOnes => a.count_ones() as $type,
                        U::LeadingZeros => a.leading_zeros() as $type,
                        U::TrailingZeros => a.trailing_zeros() as $type,
                        U::ReverseBits => a.reverse_bits(),
                    },
                    Case::Cast(to) => return (match to {
                        S::I8 => a as i8 as u64,
                        S::I16 => a as i16 as u64,
                        S::I32 => a as i32 as u64,
                        S::I64 => a as i64 as u64,
                        S::U8 => a as u8 as u64,
                        S::U16 => a as u16 as u64,
                        S::U32 => a as u32 as u64,
                        S::U64 => a as u64,
                        S::F32 => (a as f32).to_bits().into(),
                        _ => (a as f64).to_bits(),
                    }, Same::Bits),
                    Case::Select => if a < b { b } else { a },
                };
                (result as u64, Same::Bits)
            }

            #[test]
            fn all() {
                compare($scalar, $width, &cases(), &all_pairs(&values()), &natively);
            }

            #[test]
            fn with_constants() {
                // Indices as constants are any numbers of 64 bits.
                let cases: Vec<_> = cases()
                    .into_iter()
                    .filter(|case| matches!(case, Case::Binary(_) | Case::Amount(_, S::U32)))
                    .collect();
                compare_with_constants($scalar, $width, &cases, &values(), &natively);
            }
        }
    )*};
}

use IndexWidth::{Bits32, Bits64};

integers! {
    signed_8: i8, i64, S::I8, Bits32, true;
    signed_16: i16, i64, S::I16, Bits32, true;
    signed_32: i32, i64, S::I32, Bits32, true;
    signed_64: i64, i128, S::I64, Bits32, true;
    unsigned_8: u8, u64, S::U8, Bits64, false;
    unsigned_16: u16, u64, S::U16, Bits64, false;
    unsigned_32: u32, u64, S::U32, Bits64, false;
    unsigned_64: u64, u128, S::U64, Bits64, false;
    index_32: u32, u64, S::Index, Bits32, false;
    index_64: u64, u128, S::Index, Bits64, false;
    signed_index_32: i32, i64, S::SignedIndex, Bits32, true;
    signed_index_64: i64, i128, S::SignedIndex, Bits64, true;
}

macro_rules! floats {
    ($($name:ident: $type:ident, $bits:ty, $signed:ty, $scalar:expr, $other:ident, $other_scalar:expr, $unsigned:expr, $integer:expr;)*) => {$(
        mod $name {
            use super::*;

            pub(super) fn values() -> Vec<u64> {
                let quiet = <$type>::NAN.to_bits();
                let powers = [7_i32, 8, 15, 16, 23, 24, 31, 32, 52, 53, 63, 64].map(|power| (2.0 as $type).powi(power));
                let mut values: Vec<$type> = vec![
                    0.0, 1.0, 0.5, 1.5, 2.5, 3.5, 0.1, 0.3, 3.7, 100.25, 1e10, 1e-10, 0.499_999_97, 8_388_607.5, 0.999_999_94,
                    std::f64::consts::PI as $type, <$type>::EPSILON, <$type>::MAX, <$type>::MIN_POSITIVE,
                    <$type>::from_bits(1), <$type>::from_bits(<$type>::MIN_POSITIVE.to_bits() - 1), <$type>::MIN_POSITIVE * 0.75,
                    <$type>::INFINITY, <$type>::from_bits(quiet), <$type>::from_bits(quiet | 0x1234),
                ];
                for power in powers {
                    values.extend([power, power - 0.5, power * (1.0 - <$type>::EPSILON / 2.0), power + 1.0]);
                }
                let negative: Vec<_> = values.iter().map(|value| -value).collect();
                values.extend(negative);
                let mut values: Vec<u64> = values.into_iter().map(|value| u64::from(value.to_bits())).collect();
                values.sort();
                values.dedup();
                values
            }

            fn cases() -> Vec<Case> {
                let mut cases: Vec<_> = BINARY.into_iter().filter(|b| *b != B::And).map(Case::Binary).collect();
                cases.push(Case::Unary(U::Negate));
                cases.extend(INTEGERS.into_iter().chain([$other_scalar, S::Index, S::SignedIndex]).map(Case::Cast));
                cases.extend([Case::Bitcast($unsigned), Case::Bitcast($integer), Case::Select]);
                cases.extend([
                    M::Abs, M::Ceil, M::Floor, M::Trunc, M::Round, M::RoundTiesEven, M::Copysign, M::Sqrt, M::Fma, M::Remainder, M::IsNan,
                    M::IsInfinite, M::IsFinite,
                ].map(Case::Math));
                cases
            }

            /// The result of C's function of this name.
            fn remainder(a: $type, b: $type) -> $type {
                let truncated = a % b;
                let (least, rest) = (truncated.abs(), b.abs() - truncated.abs());
                let is_odd = (a % (b + b)).abs() >= b.abs();
                if least > rest || least == rest && is_odd {
                    truncated - b.copysign(truncated)
                } else {
                    truncated
                }
            }

            fn natively(case: Case, a: u64, b: u64) -> (u64, Same) {
                let (a, b) = (<$type>::from_bits(a as $bits), <$type>::from_bits(b as $bits));
                let number = Same::Number($scalar);
                let (result, same) = match case {
                    Case::Binary(operation) => match operation {
                        B::Add => (a + b, number),
                        B::Subtract => (a - b, number),
                        B::Multiply => (a * b, number),
                        B::Divide => (a / b, number),
                        B::Remainder => (a % b, number),
                        B::Equal => return ((a == b).into(), Same::Bits),
                        B::NotEqual => return ((a != b).into(), Same::Bits),
                        B::Less => return ((a < b).into(), Same::Bits),
                        B::LessEqual => return ((a <= b).into(), Same::Bits),
                        B::Greater => return ((a > b).into(), Same::Bits),
                        B::GreaterEqual => return ((a >= b).into(), Same::Bits),
                        B::Minimum => (a.min(b), Same::NumberOrZero($scalar)),
                        B::Maximum => (a.max(b), Same::NumberOrZero($scalar)),
                        _ => unreachable!(),
                    },
                    Case::Unary(_) => (-a, number),
                    Case::Cast(to) => return match to {
                        S::I8 => (a as i8 as u64, Same::Bits),
                        S::I16 => (a as i16 as u64, Same::Bits),
                        S::I32 | S::SignedIndex => (a as i32 as u64, Same::Bits),
                        S::I64 => (a as i64 as u64, Same::Bits),
                        S::U8 => (a as u8 as u64, Same::Bits),
                        S::U16 => (a as u16 as u64, Same::Bits),
                        S::U32 | S::Index => (a as u32 as u64, Same::Bits),
                        S::U64 => (a as u64, Same::Bits),
                        _ => ((a as $other).to_bits().into(), Same::Number($other_scalar)),
                    },
                    Case::Bitcast(to) if to == $unsigned => return (a.to_bits().into(), Same::Bits),
                    Case::Bitcast(_) => return (a.to_bits() as $signed as u64, Same::Bits),
                    Case::Select => (if a < b { b } else { a }, Same::Bits),
                    Case::Math(function) => match function {
                        M::Abs => (a.abs(), number),
                        M::Ceil => (a.ceil(), number),
                        M::Floor => (a.floor(), number),
                        M::Trunc => (a.trunc(), number),
                        M::Round => (a.round(), number),
                        M::RoundTiesEven => (a.round_ties_even(), number),
                        M::Copysign => (a.copysign(b), Same::Bits),
                        M::Sqrt => (a.sqrt(), number),
                        M::Fma => (a.mul_add(b, a), number),
                        M::Remainder => (remainder(a, b), number),
                        M::IsNan => return (a.is_nan().into(), Same::Bits),
                        M::IsInfinite => return (a.is_infinite().into(), Same::Bits),
                        M::IsFinite => return (a.is_finite().into(), Same::Bits),
                        _ => unreachable!(),
                    },
                    Case::Amount(..) => unreachable!(),
                };
                (u64::from(result.to_bits()), same)
            }

            #[test]
            fn all() {
                compare($scalar, Bits32, &cases(), &all_pairs(&values()), &natively);
            }

            #[test]
            fn with_constants() {
                let cases: Vec<_> = cases().into_iter().filter(|case| matches!(case, Case::Binary(B::Add | B::Divide | B::Less))).collect();
                compare_with_constants($scalar, Bits64, &cases, &values(), &natively);
            }
        }
    )*};
}

floats! {
    float_32: f32, u32, i32, S::F32, f64, S::F64, S::U32, S::I32;
    float_64: f64, u64, i64, S::F64, f32, S::F32, S::U64, S::I64;
}

/// A signalling NaN is a NaN for `min` and `max`, and its bits survive.
#[test]
fn signalling_nan() {
    let cases = [
        Case::Binary(B::Minimum),
        Case::Binary(B::Maximum),
        Case::Bitcast(S::U32),
        Case::Math(M::IsNan),
    ];
    let signalling = 0x7f80_0001;
    let one = u64::from(1.0_f32.to_bits());
    compare(
        S::F32,
        Bits32,
        &cases,
        &[(signalling, one), (one, signalling)],
        &|case, a, _| match case {
            Case::Binary(_) => (one, Same::Bits),
            Case::Bitcast(_) => (a, Same::Bits),
            _ => ((a == signalling).into(), Same::Bits),
        },
    );
}

#[test]
fn truths() {
    let mut f = FunctionBuilder::new("truths");
    let a = f.buffer("a", S::Bool.into(), false);
    let b = f.buffer("b", S::Bool.into(), false);
    let out = f.buffer("out", S::Bool.into(), true);
    let numbers = f.buffer("numbers", S::I64.into(), true);
    let operations = [
        B::And,
        B::Or,
        B::Xor,
        B::Equal,
        B::NotEqual,
        B::Less,
        B::LessEqual,
        B::Greater,
        B::GreaterEqual,
    ];
    let length = f.length(a);
    f.elements(&["i"], &[length], |f, _, position| {
        let i = position[0];
        let a = f.load(Place::element(a, i), S::Bool.into());
        f.name(a, "p");
        let b = f.load(Place::element(b, i), S::Bool.into());
        f.name(b, "q");
        let mut results: Vec<_> = operations
            .iter()
            .map(|operation| f.binary(*operation, a, b))
            .collect();
        results.push(f.unary(U::Not, a));
        results.push(f.select(a, b, a));
        let count = f.index_literal(results.len() as u64);
        let first = f.binary(B::Multiply, i, count);
        f.name(first, "first");
        for (number, result) in results.into_iter().enumerate() {
            let offset = f.index_literal(number as u64);
            let at = f.binary(B::Add, first, offset);
            f.store(Place::element(out, at), result);
        }
        let mut sum = f.literal(S::I64, 0);
        for scalar in INTEGERS {
            let number = f.cast(b, scalar);
            let number = f.cast(number, S::I64);
            let ten = f.literal(S::I64, 10);
            let scaled = f.binary(B::Multiply, sum, ten);
            sum = f.binary(B::Add, scaled, number);
        }
        f.store(Place::element(numbers, i), sum);
    });
    let module = ModuleBuilder::new().finish(f.kernel(1));
    let pairs = [(false, false), (false, true), (true, false), (true, true)];
    let mut expected = Vec::new();
    for (a, b) in pairs {
        expected.extend([
            a & b,
            a | b,
            a ^ b,
            a == b,
            a != b,
            !a & b,
            a <= b,
            a & !b,
            a >= b,
        ]);
        expected.extend([!a, if a { b } else { a }]);
    }
    let expected: Vec<u8> = expected.into_iter().map(u8::from).collect();
    let numbers = [0, 11_111_111, 0, 11_111_111_i64];
    let launch = Launch::new(
        Division::new([2], [2], [1]),
        [
            Argument::buffer(&pairs.map(|(a, _)| u8::from(a))),
            Argument::buffer(&pairs.map(|(_, b)| u8::from(b))),
            Argument::buffer(&vec![7_u8; expected.len()]),
            Argument::buffer(&[-1_i64; 4]),
        ],
    );
    let printed = module
        .print(Dialect::C99, &in_width(Dialect::C99, Bits32))
        .unwrap();
    let mut c99 = launch.clone();
    C99Program::compile(&printed)
        .unwrap()
        .run(&mut c99)
        .unwrap();
    assert_eq!(c99.elements::<u8>(2), expected);
    assert_eq!(c99.elements::<i64>(3), numbers);
    if opencl_or_skip() {
        let printed = module.print(OPENCL, &in_width(OPENCL, Bits32)).unwrap();
        let mut opencl = launch;
        OpenClProgram::compile(&printed)
            .unwrap()
            .run(&mut opencl)
            .unwrap();
        assert_eq!(opencl.elements::<u8>(2), expected);
        assert_eq!(opencl.elements::<i64>(3), numbers);
    }
}

/// Those that are not exact, with the units in the last place that OpenCL C 1.2 allows for `f32`
/// and `f64`.
const INEXACT: [(M, u64); 25] = [
    (M::Acos, 4),
    (M::Acosh, 4),
    (M::Asin, 4),
    (M::Asinh, 4),
    (M::Atan, 5),
    (M::Atan2, 6),
    (M::Atanh, 5),
    (M::Cbrt, 2),
    (M::Cos, 4),
    (M::Cosh, 4),
    (M::Erf, 16),
    (M::Exp, 3),
    (M::Exp2, 3),
    (M::ExpM1, 3),
    (M::Hypot, 4),
    (M::Ln, 3),
    (M::Ln1p, 2),
    (M::Log2, 3),
    (M::Log10, 3),
    (M::Powf, 16),
    (M::Rsqrt, 2),
    (M::Sin, 4),
    (M::Sinh, 4),
    (M::Tan, 5),
    (M::Tanh, 5),
];

/// A result that is exact for `f32`: computed in `f64`, whose error is far below.
fn inexact_natively(function: M, a: f64, b: f64) -> f64 {
    match function {
        M::Acos => a.acos(),
        M::Acosh => a.acosh(),
        M::Asin => a.asin(),
        M::Asinh => a.asinh(),
        M::Atan => a.atan(),
        M::Atan2 => a.atan2(b),
        M::Atanh => a.atanh(),
        M::Cbrt => a.cbrt(),
        M::Cos => a.cos(),
        M::Cosh => a.cosh(),
        M::Exp => a.exp(),
        M::Exp2 => a.exp2(),
        M::ExpM1 => a.exp_m1(),
        M::Hypot => a.hypot(b),
        M::Ln => a.ln(),
        M::Ln1p => a.ln_1p(),
        M::Log2 => a.log2(),
        M::Log10 => a.log10(),
        M::Powf => a.powf(b),
        M::Rsqrt => 1.0 / a.sqrt(),
        M::Sin => a.sin(),
        M::Sinh => a.sinh(),
        M::Tan => a.tan(),
        M::Tanh => a.tanh(),
        // Abramowitz and Stegun 7.1.5 and 7.1.23, far enough.
        M::Erf => {
            let x = a.abs();
            let value = if x > 6.0 {
                1.0
            } else {
                let mut term = x;
                let mut sum = x;
                for n in 1..200 {
                    term *= -x * x / f64::from(n);
                    sum += term / f64::from(2 * n + 1);
                }
                sum * 2.0 / std::f64::consts::PI.sqrt()
            };
            value.copysign(a)
        }
        _ => unreachable!(),
    }
}

#[test]
fn transcendental_functions() {
    let values: Vec<u64> = [
        0.0_f32, 0.1, 0.25, 0.5, 0.9, 1.0, 1.1, 1.5, 2.0, 2.9, 3.3, 5.0, 10.0, 31.4, 80.0, 1e-3,
        1e-6,
    ]
    .iter()
    .flat_map(|x| [*x, -*x])
    .chain([f32::INFINITY, f32::NEG_INFINITY, f32::NAN])
    .map(|x| u64::from(x.to_bits()))
    .collect();
    let pairs = all_pairs(&values);
    let cases: Vec<_> = INEXACT.map(|(function, _)| Case::Math(function)).to_vec();
    let module = module(S::F32, Bits32, &cases, None);
    for (how, found) in results(&module, Bits32, S::F32, &pairs, cases.len(), false) {
        let mut wrong = Vec::new();
        for (row, (a, b)) in found.chunks(cases.len()).zip(&pairs) {
            let (a, b) = (f32::from_bits(*a as u32), f32::from_bits(*b as u32));
            for (found, (function, allowed)) in row.iter().zip(INEXACT) {
                // The series for the error function loses its digits where its terms are large.
                if function == M::Erf && a.is_finite() && a.abs() > 3.0 && a.abs() <= 6.0 {
                    continue;
                }
                let found = f32::from_bits(*found as u32);
                let expected = inexact_natively(function, a.into(), b.into());
                let rounded = expected as f32;
                let unit = f64::from(f32::from_bits(
                    (rounded.abs().to_bits() + 1).min(0x7f80_0000),
                )) - f64::from(rounded.abs());
                let near = (f64::from(found) - expected).abs() <= allowed as f64 * unit;
                if !(near || found == rounded || found.is_nan() && expected.is_nan()) {
                    wrong.push(format!(
                        "{function:?} of {a:?} and {b:?}: {found:?} instead of {expected:?}"
                    ));
                }
            }
        }
        report(how, &wrong);
    }
}

/// In `f64` there is nothing more precise to compare with than Rust's own functions, which call the
/// same library as printed C99: so this finds swapped names and operands, and PoCL's errors.
#[test]
fn transcendental_functions_in_double() {
    let values: Vec<u64> = [0.0_f64, 0.1, 0.5, 0.9, 1.0, 1.5, 2.9, 10.0, 31.4, 1e-3]
        .iter()
        .flat_map(|x| [*x, -*x])
        .map(f64::to_bits)
        .collect();
    let pairs = all_pairs(&values);
    let cases: Vec<_> = INEXACT
        .into_iter()
        .filter(|(function, _)| *function != M::Erf)
        .collect();
    let built: Vec<_> = cases
        .iter()
        .map(|(function, _)| Case::Math(*function))
        .collect();
    let module = module(S::F64, Bits64, &built, None);
    for (how, found) in results(&module, Bits64, S::F64, &pairs, cases.len(), false) {
        let mut wrong = Vec::new();
        for (row, (a, b)) in found.chunks(cases.len()).zip(&pairs) {
            let (a, b) = (f64::from_bits(*a), f64::from_bits(*b));
            for (found, (function, allowed)) in row.iter().zip(&cases) {
                let found = f64::from_bits(*found);
                let expected = inexact_natively(*function, a, b);
                let apart = found.to_bits().abs_diff(expected.to_bits());
                // One more for the error of what it is compared with.
                if !(apart <= allowed + 1
                    || found == expected
                    || found.is_nan() && expected.is_nan())
                {
                    wrong.push(format!(
                        "{function:?} of {a:?} and {b:?}: {found:?} instead of {expected:?}"
                    ));
                }
            }
        }
        report(how, &wrong);
    }
}
