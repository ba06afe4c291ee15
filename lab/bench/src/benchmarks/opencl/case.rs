//! A case: a program, its memory, and its launches.

use crate::harness::Scale;

/// The kind of the numbers in a memory object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Float,
    Int,
    Byte,
}

impl Kind {
    pub(super) fn size(self) -> usize {
        match self {
            Kind::Byte => 1,
            Kind::Float | Kind::Int => 4,
        }
    }
}

/// Numbers, as bytes.
#[derive(Clone, Debug)]
pub(super) struct Data {
    pub(super) kind: Kind,
    pub(super) bytes: Vec<u8>,
}

/// An argument of a kernel, or a memory object of a case.
#[derive(Clone, Debug)]
pub(super) enum Given {
    /// A value, as bytes.
    Value(Vec<u8>),
    /// So many bytes of local memory.
    Local(usize),
    /// Memory that kernels read.
    In(Data),
    /// Memory that kernels write. It begins with zeros.
    Out(Data),
    /// Memory that kernels read and write: before each launch it is as it was.
    Both(Data),
    /// The memory object of this number.
    At(usize),
}

/// One launch.
pub(super) struct Launch {
    pub(super) kernel: &'static str,
    pub(super) global: Vec<usize>,
    pub(super) local: Vec<usize>,
    pub(super) arguments: Vec<Given>,
}

/// A program with all it is launched with.
pub(super) struct Case {
    pub(super) source: &'static str,
    pub(super) memory: Vec<Given>,
    pub(super) launches: Vec<Launch>,
    /// By how much floating-point results may differ, of the larger of 1 and the value.
    pub(super) tolerance: f64,
    /// The part of all results that may differ by more: loops that end by a rounded number go on
    /// for another turn.
    pub(super) apart: f64,
}

/// The largest difference of floating-point results whose sums have another order.
const TOLERANCE: f64 = 1e-4;

impl Case {
    /// A case of one launch: what is memory among the arguments is the case's memory.
    pub(super) fn one(
        source: &'static str,
        kernel: &'static str,
        global: &[usize],
        local: &[usize],
        arguments: Vec<Given>,
    ) -> Case {
        let mut memory = Vec::new();
        let arguments = arguments.into_iter().map(|given| match given {
            Given::In(_) | Given::Out(_) | Given::Both(_) => {
                memory.push(given);
                Given::At(memory.len() - 1)
            }
            other => other,
        });
        let arguments = arguments.collect();
        Case::many(
            source,
            memory,
            vec![launch(kernel, global, local, arguments)],
        )
    }

    /// A case of several launches, one after the other.
    pub(super) fn many(source: &'static str, memory: Vec<Given>, launches: Vec<Launch>) -> Case {
        Case {
            source,
            memory,
            launches,
            tolerance: TOLERANCE,
            apart: 0.0,
        }
    }

    /// With another tolerance.
    pub(super) fn within(self, tolerance: f64) -> Case {
        Case { tolerance, ..self }
    }

    /// With a part of the results that may be anything.
    pub(super) fn but_for(self, apart: f64) -> Case {
        Case { apart, ..self }
    }

    /// The output of kernels.
    pub(super) fn results(&self) -> impl Iterator<Item = (usize, &Data)> {
        let memory = self.memory.iter().enumerate();
        memory.filter_map(|(index, given)| match given {
            Given::Out(data) | Given::Both(data) => Some((index, data)),
            _ => None,
        })
    }
}

pub(super) fn launch(
    kernel: &'static str,
    global: &[usize],
    local: &[usize],
    arguments: Vec<Given>,
) -> Launch {
    Launch {
        kernel,
        global: global.to_vec(),
        local: local.to_vec(),
        arguments,
    }
}

/// A case by name, which is made when it is run.
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) make: fn(Size) -> Case,
}

/// Chooses sizes.
#[derive(Clone, Copy)]
pub(super) struct Size(pub(super) Scale);

impl Size {
    /// One size to be measured with, and one for tests.
    pub(super) fn of(self, measured: usize, tested: usize) -> usize {
        self.0.choose(measured, measured, tested)
    }
}

pub(super) fn int(value: i32) -> Given {
    Given::Value(value.to_le_bytes().to_vec())
}

pub(super) fn size(value: usize) -> Given {
    int(i32::try_from(value).expect("sizes of cases are small"))
}

pub(super) fn uint(value: u32) -> Given {
    Given::Value(value.to_le_bytes().to_vec())
}

pub(super) fn float(value: f32) -> Given {
    Given::Value(value.to_le_bytes().to_vec())
}

fn data(kind: Kind, bytes: Vec<u8>) -> Data {
    Data { kind, bytes }
}

pub(super) fn floats(numbers: impl IntoIterator<Item = f32>) -> Data {
    let bytes = numbers.into_iter().flat_map(f32::to_le_bytes);
    data(Kind::Float, bytes.collect())
}

pub(super) fn ints(numbers: impl IntoIterator<Item = i32>) -> Data {
    let bytes = numbers.into_iter().flat_map(i32::to_le_bytes);
    data(Kind::Int, bytes.collect())
}

pub(super) fn bytes(numbers: impl IntoIterator<Item = u8>) -> Data {
    data(Kind::Byte, numbers.into_iter().collect())
}

pub(super) fn out(kind: Kind, count: usize) -> Given {
    Given::Out(data(kind, vec![0; count * kind.size()]))
}

/// Numbers that are the same in every run: a congruential generator's upper bits.
pub(super) fn random(seed: u64) -> impl Iterator<Item = u32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x2545_F491_4F6C_DD1D;
    std::iter::repeat_with(move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    })
}

/// Numbers from 0 up to but not including 1.
pub(super) fn fractions(seed: u64, count: usize) -> Data {
    let scaled = |number: u32| (number >> 8) as f32 / 16_777_216.0;
    floats(random(seed).take(count).map(scaled))
}

/// Numbers from -1 up to but not including 1.
pub(super) fn signed(seed: u64, count: usize) -> Data {
    let scaled = |number: u32| (number >> 8) as f32 / 8_388_608.0 - 1.0;
    floats(random(seed).take(count).map(scaled))
}

/// Whole numbers below a bound.
pub(super) fn below(bound: u32, seed: u64, count: usize) -> Data {
    let numbers = random(seed).take(count);
    ints(numbers.map(|number| ((u64::from(number) * u64::from(bound)) >> 32) as i32))
}

/// Any whole numbers.
pub(super) fn words(seed: u64, count: usize) -> Data {
    ints(random(seed).take(count).map(|number| number as i32))
}

/// Bytes below a bound.
pub(super) fn small(bound: u32, seed: u64, count: usize) -> Data {
    let numbers = random(seed).take(count);
    bytes(numbers.map(|number| ((u64::from(number) * u64::from(bound)) >> 32) as u8))
}
