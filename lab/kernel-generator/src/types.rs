//! The types of generated kernels, and the values at their edges.

use crate::random::Random;

/// A number or truth value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Scalar {
    Bool,
    I8,
    I16,
    I32,
    I64,
    Isize,
    U8,
    U16,
    U32,
    U64,
    Usize,
    F16,
    Bf16,
    F32,
    F64,
}

use Scalar as S;

impl Scalar {
    /// Those that are as wide on every device.
    pub const FIXED: [Self; 13] = [
        S::Bool,
        S::I8,
        S::I16,
        S::I32,
        S::I64,
        S::U8,
        S::U16,
        S::U32,
        S::U64,
        S::F16,
        S::Bf16,
        S::F32,
        S::F64,
    ];

    /// Rust's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            S::Bool => "bool",
            S::I8 => "i8",
            S::I16 => "i16",
            S::I32 => "i32",
            S::I64 => "i64",
            S::Isize => "isize",
            S::U8 => "u8",
            S::U16 => "u16",
            S::U32 => "u32",
            S::U64 => "u64",
            S::Usize => "usize",
            S::F16 => "f16",
            S::Bf16 => "bf16",
            S::F32 => "f32",
            S::F64 => "f64",
        }
    }

    /// True if it is a float.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, S::F16 | S::Bf16 | S::F32 | S::F64)
    }

    /// True if it is a float of 16 bits, which has no literals and no `as`.
    #[must_use]
    pub fn is_half(self) -> bool {
        matches!(self, S::F16 | S::Bf16)
    }

    /// True if it is an integer.
    #[must_use]
    pub fn is_integer(self) -> bool {
        !self.is_float() && self != S::Bool
    }

    /// True if it is an integer with a sign.
    #[must_use]
    pub fn is_signed(self) -> bool {
        matches!(self, S::I8 | S::I16 | S::I32 | S::I64 | S::Isize)
    }

    /// The number of bits that it has.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            S::Bool | S::I8 | S::U8 => 8,
            S::I16 | S::U16 | S::F16 | S::Bf16 => 16,
            S::I32 | S::U32 | S::F32 => 32,
            _ => 64,
        }
    }

    /// A value as it is written, often one at an edge.
    pub fn literal(self, random: &mut Random) -> String {
        let name = self.name();
        if self == S::Bool {
            return (*random.pick(&["true", "false"])).to_owned();
        }
        if self.is_float() {
            return self.float(random);
        }
        let bits = self.bits();
        match random.below(12) {
            0 => format!("{name}::MIN"),
            1 => format!("{name}::MAX"),
            2 => format!("0{name}"),
            3 if self.is_signed() => format!("(-1{name})"),
            4 if self.is_signed() => format!("(-{}{name})", 1 + random.below(100)),
            5 => format!("{}{name}", 1_u64 << random.below(bits as usize - 1)),
            6 => {
                let mask = u64::MAX >> (65 - bits);
                format!("{:#x}{name}", random.word() & mask)
            }
            7 => format!(
                "{}{name}",
                (u64::MAX >> (65 - bits)) - random.below(3) as u64
            ),
            _ => format!("{}{name}", random.below(20)),
        }
    }

    /// A number written in Rust, which is a float, as one of this type.
    #[must_use]
    pub fn float_literal(self, number: &str) -> String {
        let name = self.name();
        if self.is_half() {
            return format!("{name}::from_f32({number}f32)");
        }
        format!("{number}{name}")
    }

    fn float(self, random: &mut Random) -> String {
        let name = self.name();
        let number = |number: &str| self.float_literal(number);
        match random.below(20) {
            0 => number("0.0"),
            1 => format!("(-{})", number("0.0")),
            2 => format!("{name}::NAN"),
            3 => format!("{name}::INFINITY"),
            4 => format!("{name}::NEG_INFINITY"),
            5 => format!("{name}::MAX"),
            6 => format!("{name}::MIN_POSITIVE"),
            // Denormal.
            7 if self.is_half() => format!("{name}::from_bits({})", 1 + random.below(1 << 7)),
            7 => format!("{name}::from_bits({})", 1 + random.below(1 << 20)),
            8 => format!("{name}::EPSILON"),
            9 => number(random.pick::<&str>(&EDGES)),
            12 => format!("(-{})", number(random.pick::<&str>(&EDGES))),
            10 => format!("(-{})", number(&format!("{}.5", random.below(10)))),
            11 => number(&format!("{}.5", random.below(10))),
            _ => {
                let (whole, part) = (random.below(200), random.below(1000));
                number(&format!("{whole}.{part:03}"))
            }
        }
    }
}

/// The values where casts to integers and roundings turn.
const EDGES: [&str; 10] = [
    "127.5",
    "128.0",
    "255.99",
    "65536.0",
    "2147483648.0",
    "4294967296.0",
    "9223372036854775808.0",
    "18446744073709551616.0",
    "1e30",
    "0.49999999999999994",
];

/// The range of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// A scalar.
    Scalar(Scalar),
    /// An array of scalars.
    Array(Scalar, usize),
    /// A pair.
    Pair(Scalar, Scalar),
    /// One of the kernel's structs, by its number.
    Struct(usize),
    /// One of the kernel's enums, by its number.
    Enum(usize),
    /// Nothing.
    Unit,
}
