//! A generated kernel as the tests know it.

use quipu_kernel::{BuildError, bf16, f16};
use quipu_kernel_generator::Shape;
use quipu_kernel_generator::random::Random;
use quipu_kernel_ir::Module;
use quipu_kernel_testing::Argument;

use crate::native::{Failure, Way};

/// A type of what elements are made of.
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
    /// An enum of so many bytes, and the numbers of its variants.
    Enum(usize, &'static [i64]),
}

/// The layout of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The number of bytes that an element has, those between its fields included.
    pub size: usize,
    /// The fields of an element, each with its first byte.
    pub fields: &'static [(usize, Kind)],
}

impl Kind {
    /// The number of bytes that one has.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::Isize | Self::Usize | Self::F64 => 8,
            Self::Enum(size, _) => size,
        }
    }

    /// The bits of one, at the beginning of some bytes.
    fn bits(self, bytes: &[u8]) -> u64 {
        let mut word = [0; 8];
        word[..self.size()].copy_from_slice(&bytes[..self.size()]);
        u64::from_le_bytes(word)
    }

    /// True if an element is a NaN.
    fn is_nan(self, bits: u64) -> bool {
        match self {
            Self::F16 => f16::from_bits(bits as u16).is_nan(),
            Self::Bf16 => bf16::from_bits(bits as u16).is_nan(),
            Self::F32 => f32::from_bits(bits as u32).is_nan(),
            Self::F64 => f64::from_bits(bits).is_nan(),
            _ => false,
        }
    }

    /// True if two elements are the same: of the same bits, or any two NaNs.
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
            Self::I8 | Self::I16 | Self::I32 | Self::I64 | Self::Isize | Self::Enum(..) => {
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
            Self::Enum(_, numbers) => *random.pick(numbers) as u64 & mask,
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

impl Layout {
    /// An element as text.
    fn text(self, bytes: &[u8]) -> String {
        let fields = self.fields.iter();
        let fields: Vec<String> = fields
            .map(|(at, kind)| kind.text(kind.bits(&bytes[*at..])))
            .collect();
        match fields.as_slice() {
            [one] => one.clone(),
            all => format!("[{}]", all.join(", ")),
        }
    }
}

/// The argument of a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Given {
    /// A value.
    Value(Layout),
    /// So many elements.
    Elements(Layout, usize),
    /// So many elements that are small whole numbers, whose sums are exact.
    Counts(Layout, usize),
    /// A view.
    View(Layout, Shape),
}

impl Given {
    /// The type, and how many there are in memory, gaps included.
    fn in_memory(self) -> (Layout, usize) {
        match self {
            Self::Value(layout) => (layout, 1),
            Self::Elements(layout, count) | Self::Counts(layout, count) => (layout, count),
            Self::View(layout, shape) => (layout, shape.places()),
        }
    }
}

/// A kernel, its launch, and how it is run and written down.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// The seeds of it and of its input.
    pub seed: u64,
    /// True if it has barriers.
    pub is_block: bool,
    /// True if its indices have to be of 64 bits.
    pub is_wide: bool,
    /// True if it may fail.
    pub may_fail: bool,
    /// True if what it writes depends on which elements a thread has, and in which order.
    pub is_ordered: bool,
    /// Blocks, threads, elements: each along all dimensions of the grid.
    pub division: [&'static [usize]; 3],
    /// The lengths of its shared arrays.
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

/// Types of elements.
pub trait Element: Copy {
    /// The layout of the type.
    const LAYOUT: Layout;

    /// The element of such bytes.
    fn of(bytes: &[u8]) -> Self;

    /// Writes its bytes, but not those between its fields.
    fn put(&self, bytes: &mut [u8]);
}

macro_rules! elements {
    ($($of:ty: $kind:ident),*) => {$(
        impl Element for $of {
            const LAYOUT: Layout = Layout {
                size: size_of::<Self>(),
                fields: &[(0, Kind::$kind)],
            };

            fn of(bytes: &[u8]) -> Self {
                bytemuck::pod_read_unaligned(&bytes[..size_of::<Self>()])
            }

            fn put(&self, bytes: &mut [u8]) {
                bytes[..size_of::<Self>()].copy_from_slice(bytemuck::bytes_of(self));
            }
        }
    )*};
}

elements!(
    i8: I8, i16: I16, i32: I32, i64: I64, isize: Isize, u8: U8, u16: U16, u32: U32, u64: U64, usize: Usize, f16: F16,
    bf16: Bf16, f32: F32, f64: F64
);

impl Element for bool {
    const LAYOUT: Layout = Layout {
        size: 1,
        fields: &[(0, Kind::Bool)],
    };

    fn of(bytes: &[u8]) -> Self {
        bytes[0] != 0
    }

    fn put(&self, bytes: &mut [u8]) {
        bytes[0] = u8::from(*self);
    }
}

impl<T: Element, const N: usize> Element for [T; N] {
    const LAYOUT: Layout = {
        // Of numbers, which are one thing each.
        const fn fields<T: Element, const N: usize>() -> [(usize, Kind); N] {
            let mut all = [(0, T::LAYOUT.fields[0].1); N];
            let mut at = 0;
            while at < N {
                all[at].0 = at * size_of::<T>();
                at += 1;
            }
            all
        }
        Layout {
            size: size_of::<Self>(),
            fields: const { &fields::<T, N>() },
        }
    };

    fn of(bytes: &[u8]) -> Self {
        std::array::from_fn(|at| T::of(&bytes[at * size_of::<T>()..]))
    }

    fn put(&self, bytes: &mut [u8]) {
        for (element, bytes) in self.iter().zip(bytes.chunks_exact_mut(size_of::<T>())) {
            element.put(bytes);
        }
    }
}

/// Makes elements of a generated struct of numbers.
macro_rules! structure {
    ($name:ident { $($field:tt: $of:ty),* }) => {
        impl Element for $name {
            const LAYOUT: Layout = Layout {
                size: size_of::<Self>(),
                fields: &[$((std::mem::offset_of!(Self, $field), <$of as Element>::LAYOUT.fields[0].1)),*],
            };

            fn of(bytes: &[u8]) -> Self {
                Self { $($field: <$of>::of(&bytes[std::mem::offset_of!(Self, $field)..])),* }
            }

            fn put(&self, bytes: &mut [u8]) {
                $(self.$field.put(&mut bytes[std::mem::offset_of!(Self, $field)..]);)*
            }
        }

        // SAFETY: zeros are a value of each number and of `bool`.
        unsafe impl bytemuck::Zeroable for $name {}
    };
}
pub(crate) use structure;

/// Makes elements of a generated enum of a type of numbers.
macro_rules! enumeration {
    ($name:ident of $of:ty: $($variant:ident),*) => {
        impl Element for $name {
            const LAYOUT: Layout = Layout {
                size: size_of::<Self>(),
                fields: &[(0, Kind::Enum(size_of::<Self>(), &[$($name::$variant as i64),*]))],
            };

            fn of(bytes: &[u8]) -> Self {
                let number = <$of>::of(bytes);
                $(if number == $name::$variant as $of {
                    return $name::$variant;
                })*
                panic!("{number} is none of {}", stringify!($name))
            }

            fn put(&self, bytes: &mut [u8]) {
                (*self as $of).put(bytes);
            }
        }
    };
}
pub(crate) use enumeration;

impl Data {
    /// The input of a case.
    #[must_use]
    pub fn of(case: &Case) -> Self {
        let arguments = case
            .given
            .iter()
            .enumerate()
            .map(|(at, given)| {
                let mut random = Random::new(case.seed.wrapping_mul(31).wrapping_add(at as u64));
                let (layout, count) = given.in_memory();
                let mut bytes = vec![0; layout.size * count];
                for element in bytes.chunks_exact_mut(layout.size) {
                    for (at, kind) in layout.fields {
                        let bits = match given {
                            Given::Counts(..) => kind.count(random.below(100)),
                            _ => kind.random(&mut random),
                        };
                        let size = kind.size();
                        element[*at..*at + size].copy_from_slice(&bits.to_le_bytes()[..size]);
                    }
                }
                bytes
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
        let bytes = self.arguments[argument].chunks_exact_mut(T::LAYOUT.size);
        for (element, bytes) in elements.iter().zip(bytes) {
            element.put(bytes);
        }
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
            Given::Value(Layout {
                fields: [(_, Kind::Usize | Kind::Isize)],
                ..
            }) => Argument::index(u64::of(bytes)),
            Given::Value(_) => Argument::Uniform(bytes.clone()),
            Given::Elements(layout, _) | Given::Counts(layout, _) => Argument::Elements {
                bytes: bytes.clone(),
                size: layout.size,
                shape: None,
            },
            Given::View(layout, shape) => {
                let wide = |all: &[usize]| all.iter().map(|one| *one as u64).collect();
                Argument::Elements {
                    bytes: bytes.clone(),
                    size: layout.size,
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
            let (layout, _) = given.in_memory();
            let ours = self.arguments[at].chunks_exact(layout.size);
            let theirs = other.arguments[at].chunks_exact(layout.size);
            for (number, (ours, theirs)) in ours.zip(theirs).enumerate() {
                for (place, kind) in layout.fields {
                    let (a, b) = (kind.bits(&ours[*place..]), kind.bits(&theirs[*place..]));
                    if !kind.same(a, b) {
                        return Some(format!(
                            "element {number} of argument {at}: {} and {}",
                            layout.text(ours),
                            layout.text(theirs)
                        ));
                    }
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
            let (layout, _) = given.in_memory();
            let elements: Vec<String> = bytes
                .chunks_exact(layout.size)
                .map(|bytes| layout.text(bytes))
                .collect();
            text.push_str(&format!("argument {at}: {}\n", elements.join(", ")));
        }
        text
    }
}
