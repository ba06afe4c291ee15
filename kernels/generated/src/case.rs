//! A generated kernel as the tests know it.

use quipu_kernel::{BuildError, bf16, f16};
use quipu_kernel_generator::Shape;
use quipu_kernel_generator::random::Random;
use quipu_kernel_ir::Module;
use quipu_kernel_testing::Argument;

use crate::native::{Failure, Way};

/// A type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
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

impl Kind {
    /// How many bytes an element has.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::Isize | Self::Usize | Self::F64 => 8,
        }
    }

    /// Whether an element is a NaN.
    fn is_nan(self, bits: u64) -> bool {
        match self {
            Self::F16 => f16::from_bits(bits as u16).is_nan(),
            Self::Bf16 => bf16::from_bits(bits as u16).is_nan(),
            Self::F32 => f32::from_bits(bits as u32).is_nan(),
            Self::F64 => f64::from_bits(bits).is_nan(),
            _ => false,
        }
    }

    /// Whether two elements are the same: of the same bits, or any two NaNs.
    #[must_use]
    pub fn same(self, a: u64, b: u64) -> bool {
        a == b || self.is_nan(a) && self.is_nan(b)
    }

    /// An element as text.
    #[must_use]
    pub fn text(self, bits: u64) -> String {
        let unused = 64 - 8 * self.size() as u32;
        match self {
            Self::Bool => (bits != 0).to_string(),
            Self::F16 => format!("{:?} ({bits:#x})", f16::from_bits(bits as u16)),
            Self::Bf16 => format!("{:?} ({bits:#x})", bf16::from_bits(bits as u16)),
            Self::F32 => format!("{:?} ({bits:#x})", f32::from_bits(bits as u32)),
            Self::F64 => format!("{:?} ({bits:#x})", f64::from_bits(bits)),
            Self::I8 | Self::I16 | Self::I32 | Self::I64 | Self::Isize => {
                ((bits << unused) as i64 >> unused).to_string()
            }
            _ => bits.to_string(),
        }
    }

    /// A small whole number.
    fn count(self, count: usize) -> u64 {
        match self {
            Self::F32 => u64::from((count as f32).to_bits()),
            Self::F64 => (count as f64).to_bits(),
            _ => count as u64,
        }
    }

    /// An element, often one at an edge.
    fn random(self, random: &mut Random) -> u64 {
        let size = 8 * self.size();
        let mask = u64::MAX >> (64 - size);
        let edge = *random.pick(&[0, 1, 2, 7, mask, mask >> 1, (mask >> 1) + 1, mask - 1]);
        match self {
            Self::Bool => random.word() & 1,
            Self::F16 => {
                let number = float(random, 65504.0, f64::from(f16::MIN_POSITIVE));
                f16::from_f64(number).to_bits().into()
            }
            Self::Bf16 => {
                let number = float(random, f64::from(bf16::MAX), f64::from(bf16::MIN_POSITIVE));
                bf16::from_f64(number).to_bits().into()
            }
            Self::F32 => {
                let number =
                    float(random, f64::from(f32::MAX), f64::from(f32::MIN_POSITIVE)) as f32;
                u64::from(number.to_bits())
            }
            Self::F64 => float(random, f64::MAX, f64::MIN_POSITIVE).to_bits(),
            _ if random.chance(40) => edge,
            _ if random.chance(50) => random.below(100) as u64 & mask,
            _ => random.word() & mask,
        }
    }
}

fn float(random: &mut Random, greatest: f64, least: f64) -> f64 {
    let sign = if random.chance(50) { 1.0 } else { -1.0 };
    let size = match random.below(12) {
        0 => 0.0,
        1 => f64::INFINITY,
        2 => return f64::NAN,
        3 => greatest,
        4 => least,
        5 => least / 1024.0, // denormal
        6 => 2.0_f64.powi(random.below(80) as i32),
        7 => random.below(400) as f64 / 2.0,
        8 => 1.0,
        _ => random.below(1_000_000) as f64 / 777.0,
    };
    sign * size
}

/// What is passed for a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Given {
    /// A value.
    Value(Kind),
    /// So many elements.
    Elements(Kind, usize),
    /// So many elements that are small whole numbers, whose sums are exact.
    Counts(Kind, usize),
    /// A view.
    View(Kind, Shape),
}

impl Given {
    /// The type, and how many there are in memory, gaps included.
    fn in_memory(self) -> (Kind, usize) {
        match self {
            Self::Value(kind) => (kind, 1),
            Self::Elements(kind, count) | Self::Counts(kind, count) => (kind, count),
            Self::View(kind, shape) => (kind, shape.places()),
        }
    }
}

/// A kernel, its launch, and how it is run and written down.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// What it and its input were made of.
    pub seed: u64,
    /// Whether it has barriers.
    pub is_block: bool,
    /// Whether its indices have to be of 64 bits.
    pub is_wide: bool,
    /// Whether it may fail.
    pub may_fail: bool,
    /// Whether what it writes depends on which elements a thread has, and in which order.
    pub is_ordered: bool,
    /// Blocks, threads, elements: each along all dimensions of the grid.
    pub division: [&'static [usize]; 3],
    /// How long its shared arrays are.
    pub shared: &'static [u64],
    /// Its arguments.
    pub given: &'static [Given],
    /// Its source.
    pub module: fn() -> Result<Module, BuildError>,
    /// Runs it natively.
    pub run: fn(&mut Data, &Way) -> Result<(), Failure>,
}

/// The bytes of a kernel's arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    arguments: Vec<Vec<u8>>,
}

/// What can be an element.
pub trait Element: bytemuck::NoUninit {
    /// The element of such bytes.
    fn of(bytes: &[u8]) -> Self;
}

macro_rules! elements {
    ($($of:ty),*) => {$(
        impl Element for $of {
            fn of(bytes: &[u8]) -> Self {
                bytemuck::pod_read_unaligned(bytes)
            }
        }
    )*};
}

elements!(
    i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f16, bf16, f32, f64
);

impl Element for bool {
    fn of(bytes: &[u8]) -> Self {
        bytes[0] != 0
    }
}

impl Data {
    /// What a case is given.
    #[must_use]
    pub fn of(case: &Case) -> Self {
        let arguments = case
            .given
            .iter()
            .enumerate()
            .map(|(at, given)| {
                let mut random = Random::new(case.seed.wrapping_mul(31).wrapping_add(at as u64));
                let (kind, count) = given.in_memory();
                (0..count)
                    .flat_map(|_| {
                        let bits = match given {
                            Given::Counts(..) => kind.count(random.below(100)),
                            _ => kind.random(&mut random),
                        };
                        bits.to_le_bytes().into_iter().take(kind.size())
                    })
                    .collect()
            })
            .collect();
        Self { arguments }
    }

    /// An argument that is a value.
    #[must_use]
    pub fn value<T: Element>(&self, argument: usize) -> T {
        T::of(&self.arguments[argument])
    }

    /// An argument that is elements.
    #[must_use]
    pub fn elements<T: Element>(&self, argument: usize) -> Vec<T> {
        self.arguments[argument]
            .chunks_exact(size_of::<T>())
            .map(T::of)
            .collect()
    }

    /// Keeps what an argument has become.
    pub fn keep<T: Element>(&mut self, argument: usize, elements: &[T]) {
        self.arguments[argument] = bytemuck::cast_slice(elements).to_vec();
    }

    /// Keeps what an argument of printed source has become.
    pub(crate) fn keep_printed(&mut self, argument: usize, given: &Argument) {
        if let Argument::Elements { bytes, .. } = given {
            self.arguments[argument].clone_from(bytes);
        }
    }

    /// As printed source is given it.
    pub(crate) fn printed(&self, case: &Case) -> Vec<Argument> {
        let argument = |(given, bytes): (&Given, &Vec<u8>)| match given {
            Given::Value(Kind::Usize | Kind::Isize) => Argument::index(u64::of(bytes)),
            Given::Value(_) => Argument::Uniform(bytes.clone()),
            Given::Elements(kind, _) | Given::Counts(kind, _) => Argument::Elements {
                bytes: bytes.clone(),
                size: kind.size(),
                shape: None,
            },
            Given::View(kind, shape) => {
                let wide = |all: &[usize]| all.iter().map(|one| *one as u64).collect();
                Argument::Elements {
                    bytes: bytes.clone(),
                    size: kind.size(),
                    shape: Some((wide(shape.extents()), wide(&shape.strides()))),
                }
            }
        };
        case.given
            .iter()
            .zip(&self.arguments)
            .map(argument)
            .collect()
    }

    /// The first element of an argument that is not the same here and there, as text.
    #[must_use]
    pub fn difference(&self, other: &Self, case: &Case) -> Option<String> {
        for (at, given) in case.given.iter().enumerate() {
            if let Given::Value(_) = given {
                continue;
            }
            let (kind, _) = given.in_memory();
            let element = |bytes: &[u8]| {
                let mut word = [0; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                u64::from_le_bytes(word)
            };
            let ours = self.arguments[at].chunks_exact(kind.size()).map(element);
            let theirs = other.arguments[at].chunks_exact(kind.size()).map(element);
            for (number, (a, b)) in ours.zip(theirs).enumerate() {
                if !kind.same(a, b) {
                    return Some(format!(
                        "element {number} of argument {at}: {} and {}",
                        kind.text(a),
                        kind.text(b)
                    ));
                }
            }
        }
        None
    }

    /// The arguments as text, for people who look for a mistake.
    #[must_use]
    pub fn text(&self, case: &Case) -> String {
        let mut text = String::new();
        for (at, (given, bytes)) in case.given.iter().zip(&self.arguments).enumerate() {
            let (kind, _) = given.in_memory();
            let elements: Vec<String> = bytes
                .chunks_exact(kind.size())
                .map(|bytes| {
                    let mut word = [0; 8];
                    word[..bytes.len()].copy_from_slice(bytes);
                    kind.text(u64::from_le_bytes(word))
                })
                .collect();
            text.push_str(&format!("argument {at}: {}\n", elements.join(", ")));
        }
        text
    }
}
