//! Types of random programs, and random numbers.

use std::fmt;

/// Random numbers, the same each time for a seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut this = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..8).for_each(|_| _ = this.next());
        this
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below a bound.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 33) as usize % bound
    }

    /// True so many times of a hundred.
    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }
}

/// A number's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Char,
    Uchar,
    Short,
    Ushort,
    Int,
    Uint,
    Long,
    Ulong,
    Half,
    Float,
    Double,
}

use Scalar::{Char, Double, Float, Half, Int, Long, Short, Uchar, Uint, Ulong, Ushort};

impl Scalar {
    pub(crate) const ALL: [Self; 11] = [
        Char, Uchar, Short, Ushort, Int, Uint, Long, Ulong, Half, Float, Double,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Char => "char",
            Uchar => "uchar",
            Short => "short",
            Ushort => "ushort",
            Int => "int",
            Uint => "uint",
            Long => "long",
            Ulong => "ulong",
            Half => "half",
            Float => "float",
            Double => "double",
        }
    }

    pub(crate) fn bits(self) -> usize {
        match self {
            Char | Uchar => 8,
            Short | Ushort | Half => 16,
            Int | Uint | Float => 32,
            Long | Ulong | Double => 64,
        }
    }

    pub(crate) fn is_real(self) -> bool {
        matches!(self, Half | Float | Double)
    }

    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Char | Short | Int | Long)
    }

    /// The signed integer of as many bits.
    pub(crate) fn signed(self) -> Self {
        match self.bits() {
            8 => Char,
            16 => Short,
            32 => Int,
            _ => Long,
        }
    }

    /// The unsigned integer of as many bits.
    pub(crate) fn unsigned(self) -> Self {
        match self.bits() {
            8 => Uchar,
            16 => Ushort,
            32 => Uint,
            _ => Ulong,
        }
    }
}

/// A number's or vector's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) of: Scalar,
    pub(crate) width: usize,
}

impl Type {
    pub(crate) const UINT: Self = Self::one(Uint);
    pub(crate) const INT: Self = Self::one(Int);

    pub(crate) const fn one(of: Scalar) -> Self {
        Self { of, width: 1 }
    }

    pub(crate) fn with(self, of: Scalar) -> Self {
        Self { of, ..self }
    }

    /// Any; numbers more often than vectors.
    pub(crate) fn any(random: &mut Random) -> Self {
        let of = random.one_of(&Scalar::ALL);
        let width = random.one_of(&[1, 1, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 8, 16]);
        Self { of, width }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.of.name())?;
        match self.width {
            1 => Ok(()),
            width => write!(f, "{width}"),
        }
    }
}

/// The names of a vector's elements.
pub(crate) const ELEMENTS: &str = "0123456789abcdef";
